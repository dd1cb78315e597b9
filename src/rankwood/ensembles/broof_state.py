"""What a BROOF has so far: its forests, what they say together, the weights of the rows, the record of its rounds."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood._checks import read_only
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.ensembles.broof_forests import RoundForest
from rankwood.ensembles.checkpointing import Checkpoint, Resumed
from rankwood.ensembles.early_stopping import EarlyStopping
from rankwood.ensembles.validation import mean_value
from rankwood.measures.measure import Measure
from rankwood.models.forest import Forest

Record = dict[str, float | int | None]
_FIGURES = ("error", "beta", "oob", "valid", "without_oob")
_SAVED = ("weights", "scores", "sums", "masses", "best", "history", "is_over")


def add_known(totals: Floats, values: Floats) -> None:
    """Add the values that are there."""
    is_known = ~np.isnan(values)
    if is_known.all():  # as a rule; masked sums take several times as long
        totals += values
    else:
        np.add(totals, values, out=totals, where=is_known)


@dataclass(frozen=True, eq=False)
class Combination:
    """What the forests so far say together about some rows; a forest that has no say in a row leaves it as it is."""

    is_additive: bool
    sums: Floats
    masses: Floats  # the sum of the coefficients of the forests that had a say

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
        """``Σ η·RF(x)``, or ``Σ ln(1/β)·RF(x) / Σ ln(1/β)``; NaN where no forest had a say."""
        scores: Floats = np.full(self.sums.size, np.nan)
        divisors = np.ones(1) if self.is_additive else self.masses
        np.divide(self.sums, divisors, out=scores, where=self.masses > 0)
        return scores


@dataclass(frozen=True, eq=False)
class Judge:
    """The measure, and the data it is taken on; None where it is not wanted or makes no sense."""

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
        part = without_features(self.train, rows)
        return _finite(mean_value(self.measure, read_only(scores[rows]), part))

    def validation(self, scores: Floats) -> float | None:
        """The measure of the validation rows."""
        if self.valid is None:
            return None
        return _finite(mean_value(self.measure, read_only(scores), self.valid))


@dataclass(eq=False)
class BroofState:
    """A BROOF while it grows."""

    weights: Floats  # Σ = 1
    scores: Floats  # of the training rows, from the predictions of the validation set: examples are taken at them
    held_out: Combination  # of the training rows, from out-of-bag predictions
    of_valid: Combination | None
    judge: Judge
    stopping: EarlyStopping
    forests: list[Forest] = field(default_factory=list)
    history: list[Record] = field(default_factory=list)
    best_held_out: Floats = field(default_factory=lambda: np.zeros(0))
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
        """Rounds up to the best value, where stopping looks at one; else all."""
        return self.stopping.best_iteration or self.n_rounds

    def add(self, forest: RoundForest, predictions: Floats, error: float, beta: float) -> None:
        """Keep a round's forest, and put down what is known of it."""
        self.forests.append(forest.forest)
        coefficient = beta if self.is_additive else math.log(1 / beta)
        if self.is_additive:
            add_known(self.scores, beta * predictions)
        self.held_out.add(forest.held_out, coefficient)
        if self.of_valid is not None and self.judge.valid is not None:
            found = forest.forest.predict(self.judge.valid, n_threads=self.judge.n_threads)
            self.of_valid.add(found, coefficient)
        self._put_down(forest, error, beta)

    def _put_down(self, forest: RoundForest, error: float, beta: float) -> None:
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
        if self.n_kept == self.n_rounds:
            self.best_held_out = scores

    def discard(self, error: float) -> None:
        """Put down that the round's forest was not kept; it was the last."""
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
        """Write the trees, and all that cannot be found again from them."""
        figures = [[record[name] for name in _FIGURES] for record in self.history[: self.n_rounds]]
        arrays = {
            "weights": self.weights,
            "scores": self.scores,
            "sums": self.held_out.sums,
            "masses": self.held_out.masses,
            "best": self.best_held_out,
            "history": np.array(figures, np.float64).reshape(-1, len(_FIGURES)),
            "is_over": np.array([self.is_over]),
        }
        checkpoint.write(Forest.concatenate(self.forests), arrays)

    def resume(self, saved: Resumed, n_trees: int) -> None:
        """Take over what a checkpoint holds."""
        arrays = saved.arrays
        self.weights, self.scores = arrays["weights"], arrays["scores"]
        self.held_out = Combination(self.is_additive, arrays["sums"], arrays["masses"])
        self.best_held_out, self.is_over = arrays["best"], bool(arrays["is_over"][0])
        for number, figures in enumerate(arrays["history"].tolist()):
            trees = slice(number * n_trees, (number + 1) * n_trees)
            self.forests.append(saved.forest.take_trees(trees))
            record: Record = {
                name: _finite(value) for name, value in zip(_FIGURES, figures, strict=True)
            }
            record["without_oob"] = int(figures[-1])
            self.history.append(record)
            if self.judge.stop is not None:
                self.stopping.history.append(figures[_FIGURES.index(self.judge.stop)])
            if self.of_valid is not None and self.judge.valid is not None:
                beta = figures[_FIGURES.index("beta")]
                found = self.forests[-1].predict(self.judge.valid, n_threads=self.judge.n_threads)
                self.of_valid.add(found, beta if self.is_additive else math.log(1 / beta))

    @staticmethod
    def arrays() -> tuple[str, ...]:
        """What a checkpoint holds besides trees."""
        return _SAVED


def without_features(data: RankingData, rows: Array) -> RankingData:
    """Labels, queries and query weights of some rows: all that a measure looks at."""
    weights = None
    if data.query_weights is not None:
        weights = dict(zip(data.queries.tolist(), data.query_weights.tolist(), strict=True))
    features = np.zeros((rows.size, 1), np.float32)
    ids = None if data.query_ids is None else data.query_ids[rows]
    documents = None if data.doc_ids is None else data.doc_ids[rows]
    return RankingData(
        features,
        data.labels[rows],
        ids,
        documents,
        query_weights=weights,  # type: ignore[arg-type]
    )


def _finite(value: Any) -> float | None:
    """A number, or None for what is none: JSON has no NaN."""
    return None if value is None or not math.isfinite(value) else float(value)
