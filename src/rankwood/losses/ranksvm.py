"""RankSVM's objective: ½‖w‖² + C Σ max(0, 1 - (s_better - s_worse))² over the pairs inside queries.

Its gradient and curvature by the weights cost one sort and a few passes over the documents, whatever the number of
pairs (Lee & Lin 2014). With A the sums over active pairs as a matrix, A u_i = Σ_j (u_i - u_j), and c the worse minus
the better pairs of each document, both from ``sum_pairs``::

    gradient            w + 2 C Xᵀ (A s + c)
    curvature along v   v + 2 C Xᵀ A (X v)

X are the features less their mean, over their spread: the weights here are in units of spread.

Terms
    better     the document of a pair with the higher label, whatever its score; the other one is worse
    active     a pair whose better document is not ahead of the worse one by the margin 1
    grade      the number of a document's label among the labels of its query, 1 for the lowest
    position   an index into the data grouped by query; ``order`` holds positions by descending score
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.threads import run_blocks
from rankwood.data.dataset import HasJudgments, RankingData
from rankwood.dtypes import Array, Floats, Rows
from rankwood.measures.ranking import order, run_lists
from rankwood.models.linear import Scaling

_BLOCK_ROWS = 4096  # summed on their own before they are added up
MARGIN = 1.0  # by which a better document should be ahead


@dataclass(frozen=True, eq=False)
class MarginPairs:
    """The documents of all queries, grouped, with what their pairs weigh."""

    offsets: Rows
    rows: Rows | None  # the row at each position; None where it is the position itself
    grades: Rows  # 1 for the lowest label of a query
    n_grades: Rows  # different labels of each query
    masses: Floats
    query_weights: Floats

    @classmethod
    def of(cls, data: HasJudgments) -> MarginPairs:
        """The pairs of ``data``; a row weight counts a document that many times, a query weight its query."""
        judgments = data.judgments
        grades, n_grades = grades_in_queries(
            judgments.labels, judgments.query_of_row, judgments.n_queries
        )
        masses = np.array(
            judgments.row_weights_or_ones
        )  # plain arrays, where data are memory-mapped
        weights = np.array(judgments.query_weights_or_ones)
        rows = judgments.row_order if judgments.grouping.n_separated else None
        if rows is not None:
            grades, masses = grades[rows], masses[rows]
        return cls(
            judgments.query_offsets,
            rows,
            read_only(grades),
            read_only(n_grades),
            read_only(masses),
            read_only(weights),
        )

    def group(self, by_row: Floats) -> Floats:
        """Values of rows as values of positions."""
        grouped: Floats = read_only(by_row if self.rows is None else by_row[self.rows])
        return grouped

    def ungroup(self, by_position: Floats) -> Floats:
        """Values of positions as values of rows."""
        if self.rows is None:
            return by_position
        by_row = np.empty_like(by_position)
        by_row[self.rows] = by_position
        return by_row


def grades_in_queries(labels: Floats, query_of_row: Rows, n_queries: int) -> tuple[Rows, Rows]:
    """Each row's label as its number among the different labels of its query, from 1; how many each query has."""
    by_label = np.lexsort((labels, query_of_row))
    queries, ordered = query_of_row[by_label], labels[by_label]
    is_new_query = np.diff(queries, prepend=-1) != 0
    is_new = is_new_query | (np.diff(ordered, prepend=0.0) != 0)
    counted = np.cumsum(is_new)
    before = np.zeros(n_queries, np.int64)  # different labels of all queries before
    before[queries[is_new_query]] = counted[is_new_query] - 1
    grades = np.empty(labels.size, np.int64)
    grades[by_label] = counted - before[queries]
    return grades, np.bincount(queries[is_new], minlength=n_queries).astype(np.int64)


class PairHinge:
    """The objective over one training set, as functions of the weights in units of spread."""

    def __init__(self, data: RankingData, scaling: Scaling, C: float, n_threads: int) -> None:  # noqa: N803
        # a plain array, where data are memory-mapped
        self._features = np.require(data.features, requirements=["C", "ALIGNED"])
        self._scaling = scaling
        self._pairs = MarginPairs.of(data)
        self._C = C
        self._n_threads = n_threads
        self._at: tuple[Floats, Floats, Rows] | None = None

    def value_and_gradient(self, weights: Floats) -> tuple[float, Floats]:
        """The objective, and its gradient by the weights."""
        scores, positions = self._ranked(weights)
        product, balance, totals = self._sums(scores, positions, scores)
        gradient = weights + 2.0 * self._C * self._by_feature(product + balance)
        value = 0.5 * float((weights * weights).sum()) + self._C * float(totals.sum())
        return value, gradient

    def curvature(self, weights: Floats, direction: Floats) -> Floats:
        """The change of the gradient at ``weights`` along ``direction``, while the same pairs stay active."""
        scores, positions = self._ranked(weights)
        product, _, _ = self._sums(scores, positions, self._scores(direction))
        return direction + 2.0 * self._C * self._by_feature(product)

    def _scores(self, weights: Floats) -> Floats:
        """The score of each position."""
        sums = self._scaling.model(weights).sums(self._features, self._n_threads)
        return self._pairs.group(sums)

    def _ranked(self, weights: Floats) -> tuple[Floats, Rows]:
        """Scores, and positions by descending score; a solver asks for many curvatures at the same weights."""
        if self._at is None or not np.array_equal(self._at[0], weights):
            scores = self._scores(weights)
            positions = order(scores, self._pairs.offsets, self._n_threads).order
            self._at = (weights.copy(), scores, positions)
        return self._at[1], self._at[2]

    def _sums(
        self, scores: Floats, positions: Rows, vector: Floats
    ) -> tuple[Floats, Floats, Floats]:
        pairs = self._pairs
        product, balance = np.empty(scores.size), np.empty(scores.size)
        totals = np.empty(pairs.offsets.size - 1)
        run_lists(
            sum_pairs,
            pairs.offsets,
            pairs.n_grades,
            pairs.query_weights,
            RankedGrades(positions, scores, pairs.grades, pairs.masses),
            vector,
            product,
            balance,
            totals,
            n_threads=self._n_threads,
        )
        return product, balance, totals

    def _by_feature(self, factors: Floats) -> Floats:
        """Xᵀ times a factor per position."""
        sums = weighted_sums(
            self._features, self._scaling.centre, self._pairs.ungroup(factors), self._n_threads
        )
        return sums * self._scaling.inverse


def weighted_sums(features: Array, centre: Floats, factors: Floats, n_threads: int) -> Floats:
    """Σ factor · (value - centre) of each feature, to the same bits on any number of threads."""
    n_blocks = -(-factors.size // _BLOCK_ROWS)
    sums = np.empty((n_blocks, centre.size))
    arguments: tuple[Any, ...] = (
        _BLOCK_ROWS,
        read_only(features),
        read_only(centre),
        read_only(factors),
        sums,
    )
    run_blocks(weigh_rows, n_blocks, *arguments, n_threads=n_threads, least=4)
    total: Floats = np.add.reduce(sums, axis=0)
    return total


# Kernels: sums over pairs of documents, without listing the pairs. Going down a ranking, the documents less than the
# margin below the current one only grow in number, so each enters once; a Fenwick tree over the grades then gives the
# count and sum of those with a lower grade.


class RankedGrades(NamedTuple):
    """The documents of all queries: positions by descending score, and what each position has."""

    order: Array
    scores: Array
    grades: Array
    masses: Array


class PairSums(NamedTuple):
    """The vector, the sums over pairs that are made of it, and the Fenwick trees of a query's grades."""

    vector: Array
    product: Array
    balance: Array
    trees: Array  # masses, and masses times the vector


@kernel
def enter(grade: int, mass: float, value: float, trees: Array) -> None:
    """Add a document to the Fenwick trees, which have a place for each grade from 1."""
    amount = mass * value
    while grade < trees.shape[1]:
        trees[0, grade] += mass
        trees[1, grade] += amount
        grade += grade & -grade


@kernel
def up_to(grade: int, tree: Array) -> float:
    """The sum of what was entered into ``tree`` with this grade or a lower one."""
    total = 0.0
    while grade > 0:
        total += tree[grade]
        grade -= grade & -grade
    return total


@kernel
def add_worse(begin: int, end: int, documents: RankedGrades, sums: PairSums) -> float:
    """Add the active pairs of each document of a query as the better one; returns the weight of all active pairs."""
    order, scores, grades, masses = documents
    sums.trees[:] = 0.0
    n_active = 0.0
    reach = begin
    for rank in range(begin, end):
        better = order[rank]
        while reach < end and scores[better] - scores[order[reach]] < MARGIN:
            worse = order[reach]
            enter(grades[worse], masses[worse], sums.vector[worse], sums.trees)
            reach += 1
        mass = add_entered(better, grades[better] - 1, sums)
        sums.balance[better] -= mass
        n_active += masses[better] * mass
    return n_active


@kernel
def add_better(begin: int, end: int, documents: RankedGrades, sums: PairSums) -> None:
    """Add the active pairs of each document of a query as the worse one: from below, with the highest grade as 1."""
    order, scores, grades, masses = documents
    n_grades = sums.trees.shape[1] - 1
    sums.trees[:] = 0.0
    reach = end - 1
    for rank in range(end - 1, begin - 1, -1):
        worse = order[rank]
        while reach >= begin and scores[order[reach]] - scores[worse] < MARGIN:
            better = order[reach]
            grade = n_grades + 1 - grades[better]
            enter(grade, masses[better], sums.vector[better], sums.trees)
            reach -= 1
        sums.balance[worse] += add_entered(worse, n_grades - grades[worse], sums)


@kernel
def add_entered(position: int, grade: int, sums: PairSums) -> float:
    """Add the documents entered up to ``grade`` to the product of a document; returns their mass."""
    mass = up_to(grade, sums.trees[0])
    sums.product[position] += mass * sums.vector[position] - up_to(grade, sums.trees[1])
    return mass


@kernel
def sum_pairs(
    first: int,
    last: int,
    offsets: Array,
    n_grades: Array,
    query_weights: Array,
    documents: RankedGrades,
    vector: Array,
    product: Array,
    balance: Array,
    totals: Array,
) -> None:
    """Two sums over the active pairs of each document, and one over those of each query.

    A pair weighs as much as its query times the masses of both documents.

    ``product``   Σ weight · (own vector - other's vector)
    ``balance``   Σ weight of pairs in which it is worse minus Σ weight of those in which it is better
    ``totals``    Σ weight · (1 - difference)², the difference being that of the vector, better minus worse
    """
    most = 1
    for query in range(first, last):
        most = max(most, n_grades[query])
    scratch = np.zeros((2, most + 1))
    for query in range(first, last):
        begin = offsets[query]
        end = offsets[query + 1]
        for position in range(begin, end):
            product[position] = 0.0
            balance[position] = 0.0
        totals[query] = 0.0
        if n_grades[query] < 2 or query_weights[query] == 0.0:
            continue
        trees = scratch[:, : n_grades[query] + 1]
        sums = PairSums(vector, product, balance, trees)
        n_active = add_worse(begin, end, documents, sums)
        add_better(begin, end, documents, sums)
        # (1 - d)² = 1 - 2d + d²; Σ d and Σ d² over pairs are sums of ``balance`` and ``product`` over documents
        total = n_active * query_weights[query]
        for position in range(begin, end):
            weight = documents.masses[position] * query_weights[query]
            product[position] *= weight
            balance[position] *= weight
            total += vector[position] * (2.0 * balance[position] + product[position])
        totals[query] = total


@kernel
def weigh_rows(
    first: int,
    last: int,
    block: int,
    features: Array,
    centre: Array,
    factors: Array,
    sums: Array,
) -> None:
    """Σ factor · (value - centre) of each feature over each block of rows; a missing value is at the centre.

    Blocks have a fixed size, so that adding them up in their order gives the same bits for any number of threads.
    """
    for number in range(first, last):
        total = sums[number]
        total[:] = 0.0
        for row in range(number * block, min((number + 1) * block, factors.size)):
            factor = factors[row]
            if factor == 0.0:
                continue
            values = features[row]
            for feature in range(total.size):
                distance = values[feature] - centre[feature]
                total[feature] += factor * distance if distance == distance else 0.0  # noqa: PLR0124 - NaN
