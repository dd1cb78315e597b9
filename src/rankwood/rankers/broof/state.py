"""The state of a BROOF: the forests of its rounds, their combined predictions, the rows' weights and the history.

``BroofState`` is what the loop adds to and what a checkpoint saves. ``RoundForests`` grows the forest of each round
as a ``RandomForest`` is grown, on bins and buffers that all rounds share.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.random import stream
from rankwood._core.sums import exact_sum
from rankwood.data.dataset import RankingData
from rankwood.data.splits import deal_folds
from rankwood.dtypes import Array, Floats, Rows
from rankwood.engines.bags import Bags, OutOfBag
from rankwood.engines.engine import TreeRequest
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.measures.compute import mean_value, values_by_query
from rankwood.measures.measure import Measure
from rankwood.models.forest import Forest
from rankwood.models.validate import ArrayRule
from rankwood.training.forest import ForestBuilder, ForestPlan, in_batches
from rankwood.training.inputs import TrainingCosts, TrainingSet
from rankwood.training.rounds import Checkpoint, EarlyStopping, Resumed, is_clearly_positive
from rankwood.trees.grower import Policies, Tree

Record = dict[str, float | int | None]
_FIGURES = ("error", "beta", "oob", "valid", "without_oob")
_SURE = 3.0  # the chance that any row is in every bag is at most e to the minus this


def add_known(totals: Floats, values: Floats) -> None:
    """Add the values that are not NaN."""
    is_known = ~np.isnan(values)
    if is_known.all():  # the usual case; masked sums take several times as long
        totals += values
    else:
        np.add(totals, values, out=totals, where=is_known)


@dataclass(frozen=True, eq=False)
class Combination:
    """The combined predictions of the forests so far; a forest without a prediction of a row does not change it."""

    is_additive: bool
    sums: Floats
    masses: Floats  # of each row: the sum of the coefficients of the forests that predict it

    @classmethod
    def of(cls, is_additive: bool, n_rows: int) -> Combination:
        """No forest yet."""
        return cls(is_additive, np.zeros(n_rows), np.zeros(n_rows))

    def add(self, predictions: Floats, coefficient: float) -> None:
        """Add a forest."""
        add_known(self.sums, coefficient * predictions)
        add_known(self.masses, np.where(np.isnan(predictions), np.nan, coefficient))

    @property
    def scores(self) -> Floats:
        """``Σ η·RF(x)``, or ``Σ ln(1/β)·RF(x) / Σ ln(1/β)``; NaN where no forest has a prediction."""
        scores: Floats = np.full(self.sums.size, np.nan)
        divisors = np.ones(1) if self.is_additive else self.masses
        np.divide(self.sums, divisors, out=scores, where=self.masses > 0)
        return scores


@dataclass(frozen=True, eq=False)
class RoundJudge:
    """The measure, and the data it is taken on; None where it is not wanted or not defined."""

    measure: Measure
    train: RankingData | None
    valid: RankingData | None
    present: Array | None
    stop: str | None
    n_threads: int

    def held_out(self, scores: Floats) -> float | None:
        """The measure of the training rows that have a score, as lists without the others."""
        if self.train is None:
            return None
        is_known = ~np.isnan(scores)
        if is_known.all():
            return _finite(mean_value(self.measure, read_only(scores), self.train))
        rows = np.flatnonzero(is_known)
        if rows.size == 0:
            return None
        part = self.train.judgments.take_rows(rows)
        return _finite(mean_value(self.measure, read_only(scores[rows]), part))

    def validation(self, scores: Floats) -> float | None:
        """The measure of the validation rows."""
        if self.valid is None:
            return None
        return _finite(mean_value(self.measure, read_only(scores), self.valid))

    def values(self, held_out: Floats, of_valid: Floats | None) -> Floats:
        """What ends the rounds, query by query; NaN for a query without a score, nothing where queries have none."""
        data, scores = (self.train, held_out) if self.stop == "oob" else (self.valid, of_valid)
        if (
            data is None
            or scores is None
            or data.query_ids is None
            or not self.measure.needs_queries
        ):
            return np.zeros(0)
        return values_by_query(self.measure, scores, data, np.flatnonzero(~np.isnan(scores)))


@dataclass(eq=False)
class BroofState:
    """A BROOF after some rounds."""

    weights: Floats  # Σ = 1
    scores: Floats  # of the training rows, from the predictions of the validation set: examples are taken at them
    held_out: Combination  # of the training rows, from out-of-bag predictions
    of_valid: Combination | None
    judge: RoundJudge
    stopping: EarlyStopping
    guards_first: bool  # whether later rounds must be clearly ahead of the first forest to be kept
    forests: list[Forest] = field(default_factory=list)
    history: list[Record] = field(default_factory=list)
    best_held_out: Floats = field(default_factory=lambda: np.zeros(0))
    first_held_out: Floats = field(default_factory=lambda: np.zeros(0))
    values: Floats = field(default_factory=lambda: np.zeros((2, 0)))  # by query: first, best round
    is_over: bool = False

    @property
    def is_additive(self) -> bool:
        """Whether forests are summed."""
        return self.held_out.is_additive

    @property
    def n_rounds(self) -> int:
        """Rounds whose forest was kept."""
        return len(self.forests)

    @property
    def n_kept(self) -> int:
        """Rounds up to the best value, where stopping looks at one; else all. The first alone where it is guarded."""
        n_best = self.n_best
        return 1 if n_best > 1 and self.is_first_kept else n_best

    @property
    def n_best(self) -> int:
        """Rounds up to the best value, where stopping looks at one; else all."""
        return self.stopping.best_iteration or self.n_rounds

    @property
    def is_first_kept(self) -> bool:
        """Whether the first forest stands for all rounds: no round is ahead of it by more than a standard error."""
        if not self.guards_first or self.judge.stop is None or self.values.shape[1] == 0:
            return False
        gains = self.values[1] - self.values[0]
        if self.stopping.is_minimised:
            gains = -gains
        return not is_clearly_positive(gains)

    @property
    def kept_held_out(self) -> Floats:
        """Out-of-bag scores of the training rows by the rounds that are kept."""
        return self.first_held_out if self.n_kept == 1 else self.best_held_out

    def add(self, forest: RoundForest, predictions: Floats, error: float, beta: float) -> None:
        """Add a round's forest, and its record to the history."""
        self.forests.append(forest.forest)
        coefficient = beta if self.is_additive else math.log(1 / beta)
        if self.is_additive:
            add_known(self.scores, beta * predictions)
        self.held_out.add(forest.held_out, coefficient)
        if self.of_valid is not None and self.judge.valid is not None:
            predictions_of_valid = forest.forest.predict(
                self.judge.valid, n_threads=self.judge.n_threads
            )
            self.of_valid.add(predictions_of_valid, coefficient)
        self._record(forest, error, beta)

    def _record(self, forest: RoundForest, error: float, beta: float) -> None:
        """Append the record of a round to the history, and its measure to that of early stopping."""
        scores, present = self.held_out.scores, self.judge.present
        asked = forest.held_out if present is None else forest.held_out[present]
        record: Record = {
            "error": _finite(error),
            "beta": beta,
            "oob": self.judge.held_out(scores),
            "valid": None if self.of_valid is None else self.judge.validation(self.of_valid.scores),
            "without_oob": int(np.isnan(asked).sum()),
        }
        self.history.append(record)
        looked_at = None if self.judge.stop is None else record[self.judge.stop]
        if self.judge.stop is not None:
            self.stopping.history.append(math.nan if looked_at is None else float(looked_at))
        if self.n_rounds == 1:
            self.first_held_out = scores
        if self.n_best == self.n_rounds:
            self.best_held_out = scores
            self._judge_by_query(scores)

    def _judge_by_query(self, scores: Floats) -> None:
        """Keep what the measure says of each query, of the first round and of the best so far."""
        if self.guards_first and self.judge.stop is not None:
            of_valid = None if self.of_valid is None else self.of_valid.scores
            values = self.judge.values(scores, of_valid)
            first = values if self.n_rounds == 1 else self.values[0]
            self.values = np.stack([first, values])

    def discard(self, error: float) -> None:
        """Append the record of a forest that is not kept; it was the last."""
        self.history.append(dict.fromkeys(_FIGURES) | {"error": _finite(error)})
        self.is_over = True

    def forest(self) -> Forest:
        """All trees of the kept rounds, each with its share of its forest's coefficient."""
        rounds = self.forests[: self.n_kept]
        betas = np.array([record["beta"] for record in self.history[: len(rounds)]], np.float64)
        n_trees = np.array([forest.n_trees for forest in rounds])
        if self.is_additive:
            coefficients = betas / n_trees
        else:
            logarithms = np.log(1 / betas)
            coefficients = logarithms / logarithms.max()  # one round alone is a plain forest
        whole = Forest.concatenate(rounds)
        weights = np.repeat(coefficients, n_trees)
        return dataclasses.replace(whole, tree_weights=weights, average=not self.is_additive)

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the trees, and everything that does not follow from them."""
        figures = [[record[name] for name in _FIGURES] for record in self.history[: self.n_rounds]]
        arrays = {
            "weights": self.weights,
            "scores": self.scores,
            "sums": self.held_out.sums,
            "masses": self.held_out.masses,
            "best": self.best_held_out,
            "first": self.first_held_out,
            "values": self.values,
            "history": np.array(figures, np.float64).reshape(-1, len(_FIGURES)),
            "is_over": np.array([self.is_over]),
        }
        checkpoint.write(Forest.concatenate(self.forests), arrays)

    def resume(self, saved: Resumed, n_trees: int) -> None:
        """Take over the rounds of a checkpoint."""
        arrays = saved.arrays
        self.weights, self.scores = arrays["weights"], arrays["scores"]
        if not math.isclose(exact_sum(self.weights), 1.0, rel_tol=1e-6):
            raise ModelError("its weights do not sum to 1.")
        self.held_out = Combination(self.is_additive, arrays["sums"], arrays["masses"])
        self.best_held_out, self.is_over = arrays["best"], bool(arrays["is_over"][0])
        self.first_held_out, self.values = arrays["first"], arrays["values"]
        for number, figures in enumerate(arrays["history"].tolist()):
            trees = slice(number * n_trees, (number + 1) * n_trees)
            self.forests.append(saved.forest.take_trees(trees))
            record: Record = {
                name: _finite(value) for name, value in zip(_FIGURES, figures, strict=True)
            }
            record["without_oob"] = int(figures[-1])
            self.history.append(record)
            beta = figures[_FIGURES.index("beta")]
            if not math.isfinite(beta) or not (self.is_additive or 0.0 < beta < 1.0):
                raise ModelError(f"the factor of round {number + 1} is {beta}.")
            if self.judge.stop is not None:
                self.stopping.history.append(figures[_FIGURES.index(self.judge.stop)])
            if self.of_valid is not None and self.judge.valid is not None:
                predictions_of_valid = self.forests[-1].predict(
                    self.judge.valid, n_threads=self.judge.n_threads
                )
                self.of_valid.add(
                    predictions_of_valid, beta if self.is_additive else math.log(1 / beta)
                )

    def rules(self, trees_per_round: int, n_trees: int) -> dict[str, ArrayRule]:
        """The arrays that a checkpoint of ``n_trees`` trees holds besides the trees."""
        if n_trees == 0 or n_trees % trees_per_round:
            raise ModelError(f"{n_trees:,} trees are no whole number of rounds.")
        n_rows, n_rounds = self.scores.size, n_trees // trees_per_round
        of_rows = ArrayRule(np.float64, (n_rows,))
        held_out = ArrayRule(np.float64, (n_rows,), may_be_nan=True)
        return {
            "weights": ArrayRule(np.float64, (n_rows,), 0.0, 1.0),
            **dict.fromkeys(("scores", "sums", "masses"), of_rows),
            **dict.fromkeys(("best", "first"), held_out),
            "values": ArrayRule(np.float64, (2, None), may_be_nan=True),
            "history": ArrayRule(np.float64, (n_rounds, len(_FIGURES)), may_be_nan=True),
            "is_over": ArrayRule(np.bool_, (1,)),
        }


def _finite(value: Any) -> float | None:
    """A finite number, or None: JSON has no NaN."""
    return None if value is None or not math.isfinite(value) else float(value)


# Growing the forest of a round.


@dataclass(frozen=True, eq=False)
class RoundForest:
    """The forest of a round, and its predictions of the training rows: NaN where no tree may predict a row."""

    forest: Forest
    held_out: Floats  # the mean of the trees that have not seen the row
    training: Floats  # the mean of all trees; empty where it is not needed


@dataclass(frozen=True, eq=False)
class QueryFolds:
    """Queries dealt into folds: tree ``number`` sees no query of fold ``number % n_folds``."""

    fold_of_row: Rows
    n_folds: int

    @classmethod
    def deal(cls, train: TrainingSet, n_folds: int, seed: int) -> QueryFolds:
        """Folds of as many queries each, drawn from those that have rows of any weight."""
        query_of_row = train.data.query_of_row
        present = train.present
        queries = np.unique(query_of_row if present is None else query_of_row[present])
        if queries.size < n_folds:
            raise DataError(
                f"{n_folds} query folds need as many queries, but there are {queries.size:,}. "
                "Pass fewer n_folds, or validation='oob'."
            )
        generator = stream(seed, "query-folds")
        fold_of_query = deal_folds(queries, train.data.n_queries, n_folds, generator)
        # Rows without weight are in the first fold: no tree learns from them.
        return cls(np.maximum(fold_of_query, 0)[query_of_row], n_folds)

    def is_seen(self, number: int) -> Array:
        """Which rows tree ``number`` may see."""
        seen: Array = self.fold_of_row != number % self.n_folds
        return seen


@dataclass(frozen=True, eq=False)
class RoundForests:
    """Everything that determines the forests of all rounds, except targets and weights."""

    train: TrainingSet
    policies: Policies
    n_trees: int  # per round
    bag: str | None
    bag_share: float
    resamples: bool  # weights are chances of being drawn; else they count in the trees
    most_draws: float | None  # of a row or query for a tree, in the mean, where weights are chances
    folds: QueryFolds | None
    wants_training: bool
    seed: int
    n_threads: int
    costs: TrainingCosts | None = None
    batch: int = (
        1  # trees of a round that grow without knowing which features the others of the batch use
    )
    used: set[int] = field(default_factory=set)  # features of the trees so far

    def use(self, forest: Forest | Tree) -> None:
        """Make the features of a forest, or tree, free for the trees to come."""
        self.used.update(np.unique(forest.feature[forest.feature >= 0]).tolist())

    def _is_used(self, _: int) -> Array:
        """For each feature whether a tree so far splits on it."""
        is_used: Array = np.isin(np.arange(self.train.data.n_features), list(self.used))
        return is_used

    @property
    def present(self) -> Array | None:
        """The rows that have a weight at all; None where all have."""
        return self.train.present

    def fit(
        self, round_number: int, targets: Floats, masses: Floats | None, weights: Floats
    ) -> RoundForest:
        """The forest of a round, on rows that weigh ``weights``; ``masses`` count in splits and leaves beside them.

        Trees are numbered through all rounds, so the first round is what a RandomForest of the same seed is.
        """
        first = round_number * self.n_trees
        is_even = _all_alike(weights if self.present is None else weights[self.present])
        if not is_even and not self.resamples:
            scaled = weights * weights.size
            masses = scaled if masses is None else masses * scaled
        drawn_by = weights if self.resamples and not is_even else None
        plan = self._plan(targets, masses, drawn_by)
        data = self.train.data
        out_of_bag = plan.engine.out_of_bag()
        totals = np.zeros(data.n_documents) if self.wants_training else None
        trees = ForestBuilder.averaging(data, n_expected=self.n_trees)
        numbers = range(first, first + self.n_trees)
        request: Callable[[int, Array], TreeRequest] = plan.request
        if self.folds is not None:
            request = _InFolds(plan, self.folds, self.present).request
        batch = numbers.stop if self.costs is None else self.batch
        for requests in in_batches(request, numbers, batch, self._is_used):
            for tree in plan.engine.grow(requests, out_of_bag, totals):
                trees.add(tree)
                if self.costs is not None:
                    self.use(tree)
        return RoundForest(trees.forest(), *self._predictions(out_of_bag, totals))

    def _predictions(self, out_of_bag: OutOfBag, totals: Floats | None) -> tuple[Floats, Floats]:
        """Held-out and training predictions; rows without weight are no part of the data."""
        held_out = out_of_bag.scores
        training = np.zeros(0) if totals is None else totals / self.n_trees
        if self.present is not None:
            held_out[~self.present] = np.nan
            training[~self.present[: training.size]] = np.nan
        return held_out, training

    def _plan(self, targets: Floats, masses: Floats | None, drawn_by: Floats | None) -> ForestPlan:
        query_of_row = self.train.data.query_of_row if self.bag == "query" else None
        bags = Bags(
            self.train.data.n_documents,
            query_of_row,
            self.bag_share,
            replacement=self.bag is not None,
            weights=drawn_by,
            present=self.present,
            seed=self.seed,
            most_draws=self.most_draws,
        )
        return ForestPlan(
            self.train.engine.with_threads(self.n_threads),
            (np.ascontiguousarray(targets), masses),
            self.policies,
            bags,
            None,
            self.n_trees,
            self.seed,
            self.costs,
        )


class _InFolds:
    """A plan whose trees leave out a fold of queries each."""

    def __init__(self, plan: ForestPlan, folds: QueryFolds, present: Array | None) -> None:
        assert plan.bags is not None
        self._plan = plan
        self._bags, self._seen = [], []
        for fold in range(folds.n_folds):
            seen = folds.is_seen(fold)
            known = seen if present is None else seen & present
            self._bags.append(dataclasses.replace(plan.bags, present=known))
            self._seen.append(seen.astype(np.int32))

    def request(self, number: int, is_used: Array | None = None) -> TreeRequest:
        """Tree ``number``, which is held out from one of the folds."""
        fold = number % len(self._bags)
        request = self._plan.request(number, is_used, self._bags[fold])
        return dataclasses.replace(request, seen=self._seen[fold])


def check_folds(n_folds: int, n_trees: int) -> None:
    """Raise unless every fold has a tree that leaves it out."""
    if n_trees < n_folds:
        raise ParameterError(
            f"{n_folds} query folds need at least as many trees per round, got n_trees={n_trees}."
        )


def most_draws(n_trees: int, n_units: int) -> float:
    """How often a row or query may be drawn for a tree, so that each of all is left out by some tree.

    A unit that is drawn d times in the mean is left out by e^-d of the trees, and by none of them with a chance of
    about e^(-n_trees · e^-d). With this d the sum of these chances over all units is at most e^-3, about 5 %. An error
    where d would be 1 or less: then even equal weights leave rows in every bag.
    """
    needed = _SURE + math.log(n_units)
    if n_trees <= math.e * needed:
        least = math.floor(math.e * needed) + 1
        raise ParameterError(
            f"weighting='resample' draws heavy rows into every bag: with n_trees={n_trees}, some of {n_units:,} rows "
            "or queries would have no out-of-bag prediction to be judged by. Use weighting='reweight', "
            f"n_trees={least} or more, or validation='query-folds'."
        )
    return math.log(n_trees / needed)


def _all_alike(weights: Floats) -> bool:
    return bool(weights.min() == weights.max())
