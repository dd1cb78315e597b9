"""``Bags``: which rows each tree of an ensemble sees, and how often; ``OutOfBag``: estimates by the other trees.

Terms
    unit      what is drawn: a row, or a query with all its rows
    count     how often a row was drawn; a row with count 0 is *out of the bag* of its tree
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood._core.random import stream
from rankwood._core.sums import exact_bincount, exact_cumsum, exact_sum
from rankwood._core.threads import lazy, run_blocks
from rankwood.data.dataset import Judgments, RankingData
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import ParameterError
from rankwood.measures.listwise import LARGEST_EXPONENT
from rankwood.measures.measure import parse_measure
from rankwood.models.forest import Forest
from rankwood.trees.grower import Tree
from rankwood.trees.workspace import uniform

UNITS = ("row", "query")
_ROWS_AT_A_TIME = 1 << 14  # rows whose out-of-bag NDCG is measured together


def stream_number(seed: int, purpose: str, tree: int) -> int:
    """The number that a tree's draws for one purpose are hashed from; it fits into int64."""
    return int(stream(seed, purpose, tree).integers(1 << 62))


@dataclass(frozen=True, eq=False)
class Draws:
    """What is known of the rows of all bags of an ensemble."""

    present: Array | None  # one truth value per row, whether a tree may see it; None: all
    most_rows: int  # of a bag, repeated ones counted


@dataclass(frozen=True, eq=False)
class Bags:
    """The bag of every tree, by its number.

    Parameters
    ----------
    n_rows
        Rows of the training data.
    query_of_row
        The query of each row when whole queries are drawn; None to draw rows.
    share
        How many units are drawn, as a share of those there are; at least one.
    replacement
        Whether a unit may be drawn twice.
    weights
        Draw rows in proportion to these, and queries in proportion to the mean weight of their rows; None draws all
        alike. Needs replacement.
    present
        One truth value per row: the others are no part of the data and never in a bag. None where all are.
    most_draws
        How often a unit may be drawn for a tree in the mean, at least 1: larger weights are clipped. None clips none.
    """

    n_rows: int
    query_of_row: Rows | None = None
    share: float = 1.0
    replacement: bool = True
    weights: Floats | None = None
    present: Array | None = None
    seed: int = 0
    most_draws: float | None = None

    def __post_init__(self) -> None:
        if self.weights is not None and not self.replacement:
            raise ParameterError("drawing by weight needs replacement.")

    @lazy
    def units(self) -> Rows:
        """The rows, or the numbers of the queries, that can be drawn."""
        if self.query_of_row is not None:
            return np.flatnonzero(self._rows_of_query)
        return np.arange(self.n_rows) if self.present is None else np.flatnonzero(self.present)

    @lazy
    def _rows_of_query(self) -> Rows:
        """How many rows that can be drawn each query has."""
        assert self.query_of_row is not None
        rows = slice(None) if self.present is None else self.present
        return np.bincount(self.query_of_row[rows])

    @lazy
    def draws(self) -> Draws:
        """The rows that any tree may see."""
        n_units = self.n_rows if self._has_all_rows else self.units.size
        most = max(1, round(self.share * n_units))
        if self.query_of_row is not None:
            most *= int(self._rows_of_query.max())
        return Draws(self.present, most)

    def counts(self, tree: int) -> Array:
        """How often each row is drawn for a tree: int32."""
        return self._counts_of_rows(self.draw_units.counts(tree))

    @lazy
    def draw_units(self) -> UnitDraws:
        """How units are drawn, whatever rows they have."""
        n_units = self.n_rows if self._has_all_rows else self.units.size
        search = None if self.weights is None else self._search
        return UnitDraws(n_units, self.share, self.replacement, search, self.seed)

    def of_part(self, rows: Rows) -> PartBags:
        """The same bags for some of the rows, which another machine may hold."""
        if self._has_all_rows:
            return PartBags(self.draw_units, rows.astype(np.int32))
        if self.query_of_row is None:
            unit_of_row = np.full(self.n_rows, -1, np.int32)
            unit_of_row[self.units] = np.arange(self.units.size, dtype=np.int32)
            return PartBags(self.draw_units, unit_of_row[rows])
        unit_of_query = np.full(int(self.query_of_row.max()) + 1, -1, np.int32)
        unit_of_query[self.units] = np.arange(self.units.size, dtype=np.int32)
        unit_of_row = unit_of_query[self.query_of_row[rows]]
        if self.present is not None:
            unit_of_row[~self.present[rows].astype(bool)] = -1
        return PartBags(self.draw_units, unit_of_row)

    def _counts_of_rows(self, drawn: Array) -> Array:
        """Counts of rows from those of the units."""
        if self._has_all_rows:
            return drawn
        if self.query_of_row is None:
            counts: Array = np.zeros(self.n_rows, np.int32)
            counts[self.units] = drawn
            return counts
        of_query = np.zeros(int(self.query_of_row.max()) + 1, np.int32)
        of_query[self.units] = drawn
        counts = of_query[self.query_of_row]
        return counts if self.present is None else counts * self.present

    @property
    def _has_all_rows(self) -> bool:
        """Whether the units are all rows, in their order, so that they need not be listed."""
        return self.query_of_row is None and self.present is None

    @lazy
    def _search(self) -> tuple[Floats, Rows]:
        """Running sums of the units' weights, and where to begin looking among them."""
        assert self.weights is not None
        of_unit = self.weights / self.weights.max()  # so that sums of extreme weights stay finite
        if self.query_of_row is not None:
            n_rows = np.bincount(self.query_of_row)
            of_unit = exact_bincount(self.query_of_row, of_unit, n_rows.size) / n_rows
        if not self._has_all_rows:
            of_unit = of_unit[self.units]
        if self.most_draws is not None:
            n_draws = max(1, round(self.share * of_unit.size))
            of_unit = clipped_shares(of_unit / exact_sum(of_unit), self.most_draws / n_draws)
        cumulative = exact_cumsum(of_unit)
        # One mark early: rounding may carry a draw into the next entry of the guide.
        marks = (np.arange(cumulative.size) - 1) / cumulative.size * cumulative[-1]
        guide = np.searchsorted(cumulative, marks, side="right").astype(np.int64)
        return checks.read_only(cumulative), checks.read_only(guide)


@dataclass(frozen=True, eq=False)
class UnitDraws:
    """How the units of the bags are drawn; ``search`` is there where units are drawn by weight."""

    n_units: int
    share: float
    replacement: bool
    search: tuple[Floats, Rows] | None
    seed: int

    def counts(self, tree: int) -> Array:
        """How often each unit is drawn for a tree: int32."""
        drawn: Array = np.zeros(self.n_units, np.int32)
        n_draws = max(1, round(self.share * drawn.size))
        number = stream_number(self.seed, "bag", tree)
        if self.search is not None:
            cumulative, guide = map(
                checks.read_only, self.search
            )  # copies that travelled may be writable
            draw_by_weight(number, n_draws, cumulative, guide, drawn)
        elif self.replacement:
            draw_with_replacement(number, n_draws, drawn)
        else:
            draw_without_replacement(number, n_draws, drawn)
        return drawn


@dataclass(frozen=True, eq=False)
class PartBags:
    """Bags for some of the rows. All draws are made again to know those of the rows: nothing of them travels."""

    draw_units: UnitDraws
    unit_of_row: Array  # int32; -1 for a row that is never drawn

    def counts(self, tree: int) -> Array:
        """How often each of the rows is drawn for a tree: int32."""
        counts = self.draw_units.counts(tree)[self.unit_of_row]
        counts[self.unit_of_row < 0] = 0
        return counts


def clipped_shares(shares: Floats, most: float) -> Floats:
    """Shares of which none exceeds ``most``: what is clipped goes to the others in proportion, and the sum stays 1.

    Shares of 0 stay 0. ``most`` is at least 1 over the number of shares; where too few are above 0, these are equal.
    """
    clipped = shares
    is_clipped = np.zeros(shares.size, bool)
    while (is_over := (clipped > most) & ~is_clipped).any():
        is_clipped |= is_over
        rest = exact_sum(shares[~is_clipped])
        left = max(0.0, 1.0 - most * int(is_clipped.sum()))
        scale = left / rest if rest > 0.0 else 0.0
        clipped = np.where(is_clipped, most, shares * scale)
    return clipped


# Kernels: draws. Draw ``d`` of a stream is ``uniform(stream, d)``, so the counts depend on the stream's number only.


@kernel
def draw_with_replacement(stream: int, n_draws: int, counts: Array) -> None:
    """Add 1 to the count of each item drawn; all are equally likely."""
    key = np.uint64(stream)  # the type that trees hash
    n_items = counts.size
    for draw in range(n_draws):
        counts[np.int64(uniform(key, draw) * n_items)] += 1


@kernel
def draw_without_replacement(stream: int, n_draws: int, counts: Array) -> None:
    """Set the counts of exactly ``n_draws`` different items to 1 (Knuth, volume 2, Algorithm S)."""
    key = np.uint64(stream)
    n_wanted = n_draws
    n_items = counts.size
    for item in range(n_items):
        if (n_items - item) * uniform(key, item) < n_wanted:
            counts[item] = 1
            n_wanted -= 1


@kernel
def draw_by_weight(
    stream: int, n_draws: int, cumulative: Array, guide: Array, counts: Array
) -> None:
    """Add 1 to the count of each item drawn, with probability in proportion to its weight.

    ``cumulative`` are running sums of the weights. An item is the first whose sum exceeds a number drawn below the
    total; the search for a share of the total begins at ``guide[share * guide.size]``, a step or two before its end.
    """
    key = np.uint64(stream)
    last = counts.size - 1
    total = cumulative[last]
    n_guides = guide.size
    for draw in range(n_draws):
        share = uniform(key, draw)
        mark = share * total
        item = guide[np.int64(share * n_guides)]
        while item < last and cumulative[item] <= mark:
            item += 1
        counts[item] += 1


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
        return float(self.ndcg_by_query(data, n_threads).mean())

    def ndcg_by_query(self, data: RankingData, n_threads: int | None = 1) -> Floats:
        """NDCG@10 of each query that has rows with a score."""
        assert data.query_ids is not None
        has_score = self.n_trees > 0
        parts = [rows for rows in _whole_queries(data.query_ids) if has_score[rows].any()]
        values: list[Floats] = [np.zeros(0)] * len(parts)

        def measure(first: int, last: int) -> None:
            for part in range(first, last):
                values[part] = self._ndcg_of_queries(data, parts[part])

        run_blocks(measure, len(parts), n_threads=n_threads)
        return np.concatenate(values)

    def __add__(self, other: OutOfBag) -> OutOfBag:
        """The estimates of the trees of both."""
        return OutOfBag(self.sums + other.sums, self.n_trees + other.n_trees)

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
    nearest = np.searchsorted(starts, np.arange(_ROWS_AT_A_TIME, query_ids.size, _ROWS_AT_A_TIME))
    ends = np.unique(starts[nearest[nearest < starts.size]])
    bounds = [0, *ends.tolist(), query_ids.size]
    return [slice(*pair) for pair in itertools.pairwise(bounds)]


@kernel
def add_out_of_bag(
    counts: Array, leaf_of_row: Array, value: Array, sums: Array, n_trees: Array
) -> None:
    """Add the value of each row's leaf, and one tree, where the tree has not seen the row.

    The loop has no branches: whether a row was drawn cannot be predicted.
    """
    for row in range(counts.size):
        is_left_out = counts[row] == 0
        leaf_value = value[leaf_of_row[row]]
        sums[row] += leaf_value if is_left_out else 0.0
        n_trees[row] += is_left_out
