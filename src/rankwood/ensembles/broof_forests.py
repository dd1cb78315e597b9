"""The forests of BROOF's rounds: grown like a ``RandomForest``, on bins and buffers that all rounds share."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass, field

import numpy as np

from rankwood._random import stream
from rankwood._threads import run_blocks
from rankwood.dtypes import Array, Floats, Rows
from rankwood.ensembles.bags import Bags
from rankwood.ensembles.collected import Collected
from rankwood.ensembles.forest_growing import ForestPlan, Pace
from rankwood.ensembles.inputs import TrainingSet
from rankwood.ensembles.out_of_bag import OutOfBag
from rankwood.ensembles.score_kernels import add_leaf_values
from rankwood.ensembles.side_by_side import in_order
from rankwood.errors import DataError, ParameterError
from rankwood.models.forest import Forest
from rankwood.trees.grower import Tree
from rankwood.trees.policies import Policies

_LEAST_ROWS = 50_000  # per thread: fewer are added up faster than a thread starts


@dataclass(frozen=True, eq=False)
class RoundForest:
    """The forest of a round, and what it says about the training rows: NaN where it must not be asked."""

    forest: Forest
    held_out: Floats  # the mean of the trees that have not seen the row
    training: Floats  # the mean of all trees; empty where nobody wants to know


@dataclass(frozen=True, eq=False)
class QueryFolds:
    """Queries dealt into folds: tree ``number`` sees no query of fold ``number % n_folds``."""

    fold_of_row: Rows
    n_folds: int

    @classmethod
    def deal(cls, train: TrainingSet, n_folds: int, seed: int) -> QueryFolds:
        """Folds of as many queries each, drawn from those that have rows of any weight."""
        query_of_row = train.data.query_of_row
        counted = query_of_row if train.weights is None else query_of_row[train.weights > 0]
        queries = np.unique(counted)
        if queries.size < n_folds:
            raise DataError(
                f"{n_folds} query folds need as many queries, but there are {queries.size:,}. "
                "Pass fewer n_folds, or validation='oob'."
            )
        fold_of_query = np.zeros(train.data.n_queries, np.int64)
        shuffled = stream(seed, "query-folds").permutation(queries)
        fold_of_query[shuffled] = np.arange(queries.size) % n_folds
        return cls(fold_of_query[query_of_row], n_folds)

    def is_seen(self, number: int) -> Array:
        """Which rows tree ``number`` may see."""
        seen: Array = self.fold_of_row != number % self.n_folds
        return seen


@dataclass(frozen=True, eq=False)
class RoundForests:
    """All that the forests of every round follow from, but for targets and weights."""

    train: TrainingSet
    policies: Policies
    n_trees: int  # per round
    bag: str
    bag_share: float
    resamples: bool  # weights are chances of being drawn; else they count in the trees
    folds: QueryFolds | None
    wants_training: bool
    seed: int
    n_threads: int
    pace: Pace = field(default_factory=Pace)

    @property
    def present(self) -> Array | None:
        """The rows that have a weight at all; None where all have."""
        weights = self.train.weights
        return None if weights is None or weights.min() > 0 else weights > 0

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
        growing = _Growing(self.train.data.n_documents, self.wants_training, self.n_threads)
        data = self.train.data
        trees = Collected(
            data.n_features, data.feature_names, average=True, n_expected=self.n_trees
        )
        numbers = range(first, first + self.n_trees)
        grow = plan.grow if self.folds is None else _InFolds(plan, self.folds, self.present).grow
        with contextlib.closing(in_order(grow, numbers, self.n_threads)) as grown:
            for tree, counts in grown:
                trees.add(tree)
                growing.add(tree, counts)
        return RoundForest(trees.forest(), *growing.predictions(self.present, self.n_trees))

    def _plan(self, targets: Floats, masses: Floats | None, drawn_by: Floats | None) -> ForestPlan:
        query_of_row = self.train.data.query_of_row if self.bag == "query" else None
        bags = Bags(
            self.train.data.n_documents,
            query_of_row,
            self.bag_share,
            weights=drawn_by,
            present=self.present,
            seed=self.seed,
        )
        return ForestPlan(
            self.train.matrix,
            np.ascontiguousarray(targets),
            masses,
            self.policies,
            bags,
            None,
            self.n_trees,
            self.seed,
            self.n_threads,
            pace=self.pace,
        )


class _InFolds:
    """A plan whose trees leave out a fold of queries each."""

    def __init__(self, plan: ForestPlan, folds: QueryFolds, present: Array | None) -> None:
        assert plan.bags is not None
        self._folds = folds
        self._plans = []
        for fold in range(folds.n_folds):
            seen = folds.is_seen(fold)
            bags = dataclasses.replace(
                plan.bags, present=seen if present is None else seen & present
            )
            self._plans.append(dataclasses.replace(plan, bags=bags))

    def grow(self, number: int) -> tuple[Tree, Array]:
        """Tree ``number``, and 1 for the rows of the folds it may see: its held-out rows are those of the other."""
        tree, _ = self._plans[number % self._folds.n_folds].grow(number)
        return tree, self._folds.is_seen(number).astype(np.int32)


class _Growing:
    """Sums of what the trees of a round say about the training rows."""

    def __init__(self, n_rows: int, wants_training: bool, n_threads: int) -> None:
        self._out_of_bag = OutOfBag.empty(n_rows)
        self._totals = np.zeros(n_rows if wants_training else 0)
        self._n_threads = n_threads

    def add(self, tree: Tree, counts: Array | None) -> None:
        assert counts is not None
        self._out_of_bag.add(tree, counts)
        run_blocks(
            add_leaf_values,
            self._totals.size,
            tree.leaf_of_row,
            tree.value,
            1.0,
            self._totals,
            n_threads=self._n_threads,
            least=_LEAST_ROWS,
        )

    def predictions(self, present: Array | None, n_trees: int) -> tuple[Floats, Floats]:
        """Held-out and training predictions; rows without weight are no part of the data."""
        held_out, training = self._out_of_bag.scores, self._totals / n_trees
        if present is not None:
            held_out[~present] = np.nan
            training[~present[: training.size]] = np.nan
        return held_out, training


def check_folds(n_folds: int, n_trees: int) -> None:
    """Raise unless every fold has a tree that leaves it out."""
    if n_trees < n_folds:
        raise ParameterError(
            f"{n_folds} query folds need at least as many trees per round, got n_trees={n_trees}."
        )


def _all_alike(weights: Floats) -> bool:
    return bool(weights.min() == weights.max())
