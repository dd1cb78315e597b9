"""The validation set of a fit: its scores grow with the ensemble, tree by tree."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.threads import run_blocks
from rankwood.data.dataset import RankingData
from rankwood.data.judgments import Judgments
from rankwood.dtypes import Array, Bytes, Floats
from rankwood.errors import DataError
from rankwood.measures.compute import mean_value
from rankwood.measures.gains import LARGEST_EXPONENT
from rankwood.measures.measure import Measure, parse_measure
from rankwood.models.forest import Forest
from rankwood.training.bags import Bags
from rankwood.trees.grower import Tree

_LEAST_ROWS = 20_000  # per thread: fewer find their leaves faster than a thread starts


def is_minimised(measure: Measure) -> bool:
    """Whether less is better."""
    return measure.form.is_minimised


@dataclass(frozen=True, eq=False)
class Validation:
    """Binned validation rows, and the sum of what the trees so far say about them."""

    data: RankingData
    codes: Bytes
    measure: Measure
    totals: Floats
    n_threads: int

    def __post_init__(self) -> None:
        if self.data.query_ids is None and self.measure.name != "rmse":
            raise DataError(
                f"valid has no query ids, which {self.measure} needs. Pass (X, y, qid), or measure='rmse'."
            )

    def add(self, tree: Tree, factor: float = 1.0) -> None:
        """Add ``factor`` times what ``tree`` says about each row."""
        from rankwood.trees.leaves import route

        leaf_of_row = np.full(self.totals.size, -1, np.int32)
        nodes = (tree.feature, tree.code, tree.left, tree.right, tree.missing, leaf_of_row)
        run_blocks(
            route,
            leaf_of_row.size,
            self.codes,
            *nodes,
            n_threads=self.n_threads,
            least=_LEAST_ROWS,
        )
        add_leaf_values(0, leaf_of_row.size, leaf_of_row, tree.value, factor, self.totals)

    def value(self, base: float = 0.0, divisor: float = 1.0) -> float:
        """The measure of ``base + totals / divisor``."""
        scores = self.totals / divisor + base
        return mean_value(self.measure, read_only(scores), self.data)


# Out-of-bag estimates: for each row, the mean of the trees that have not seen it.


_ROWS_AT_A_TIME = 1 << 14  # to be measured


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """Sums over the trees that left a row out, and how many they were; trees are added in their order."""

    sums: Floats
    n_trees: Array  # int32

    @classmethod
    def empty(cls, n_rows: int) -> OutOfBag:
        """No tree yet."""
        return cls(np.zeros(n_rows), np.zeros(n_rows, np.int32))

    def add(self, tree: Tree, counts: Array) -> None:
        """Add a tree that saw each row ``counts`` times."""
        add_out_of_bag(counts, tree.leaf_of_row, tree.value, self.sums, self.n_trees)

    @classmethod
    def of_forest(cls, forest: Forest, bags: Bags, data: RankingData) -> OutOfBag:
        """The estimates of trees that are grown already, to the bit as if they had been added one by one."""
        estimates = cls.empty(data.n_documents)
        for tree in range(forest.n_trees):
            one = forest.take_trees([tree])
            left_out = bags.counts(tree) == 0
            values = dataclasses.replace(one, tree_weights=np.ones(1), base=0.0).predict(data)
            estimates.sums[left_out] += values[left_out]
            estimates.n_trees[left_out] += 1
        return estimates

    @property
    def scores(self) -> Floats:
        """The mean of the trees that left each row out; NaN where there are none."""
        scores: Floats = np.full(self.sums.size, np.nan)
        np.divide(self.sums, self.n_trees, out=scores, where=self.n_trees > 0)
        return scores

    def ndcg(self, data: RankingData, n_threads: int | None = 1) -> float | None:
        """NDCG@10 of the rows that have a score, over the queries that have such rows; None without queries.

        NaN where no row has a score, or labels are too large for a gain.
        """
        if data.query_ids is None:
            return None
        has_score = self.n_trees > 0
        largest = data.labels.max(initial=-np.inf, where=has_score)
        if not has_score.any() or largest > LARGEST_EXPONENT:
            return float("nan")
        parts = [rows for rows in _whole_queries(data.query_ids) if has_score[rows].any()]
        values: list[Floats] = [np.zeros(0)] * len(parts)

        def measure(first: int, last: int) -> None:
            for part in range(first, last):
                values[part] = self._ndcg_of_queries(data, parts[part])

        run_blocks(measure, len(parts), n_threads=n_threads)
        return float(np.concatenate(values).mean())

    def _ndcg_of_queries(self, data: RankingData, rows: slice) -> Floats:
        """NDCG@10 of each query among ``rows`` that has a score."""
        assert data.query_ids is not None
        n_trees = self.n_trees[rows]
        has_score = n_trees > 0
        part = Judgments(data.labels[rows][has_score], data.query_ids[rows][has_score])
        scores = self.sums[rows][has_score] / n_trees[has_score]
        return parse_measure("ndcg@10").per_query(scores, part)


def _whole_queries(query_ids: Array) -> list[slice]:
    """All rows, in parts that hold queries whole: a measure of one part takes little memory, as training should."""
    starts = np.flatnonzero(query_ids[1:] != query_ids[:-1]) + 1
    if np.unique(query_ids[starts]).size < starts.size or query_ids[0] in query_ids[starts]:
        return [slice(0, query_ids.size)]  # a query's rows are not all together
    places = np.searchsorted(starts, np.arange(_ROWS_AT_A_TIME, query_ids.size, _ROWS_AT_A_TIME))
    ends = np.unique(starts[places[places < starts.size]])
    bounds = [0, *ends.tolist(), query_ids.size]
    return [slice(*pair) for pair in itertools.pairwise(bounds)]


# Scores of rows whose leaves are known: what a new tree adds, without walking down it.


@kernel
def add_leaf_values(
    first: int, last: int, leaf_of_row: Array, value: Array, factor: float, totals: Array
) -> None:
    """Add ``factor`` times the value of each row's leaf to its total."""
    for row in range(first, last):
        totals[row] += factor * value[leaf_of_row[row]]


@kernel
def add_out_of_bag(
    counts: Array, leaf_of_row: Array, value: Array, sums: Array, n_trees: Array
) -> None:
    """Add the value of each row's leaf, and one tree, where the tree has not seen the row.

    Without branches: whether a row was drawn cannot be guessed.
    """
    for row in range(counts.size):
        is_left_out = counts[row] == 0
        found = value[leaf_of_row[row]]
        sums[row] += found if is_left_out else 0.0
        n_trees[row] += is_left_out
