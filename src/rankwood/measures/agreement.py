"""How far scores agree with labels: the area under the ROC curve, a part of it, Kendall's tau, RMSE.

AUC and RMSE are pooled over documents, unless they say ``over=queries``. AUC is the chance that a relevant document
scores higher than another one, ties counting half, over all documents of all queries together. PAUC@[a,b] is the area
under the ROC curve between false-positive rates of a % and b %, not rescaled: a random order gives (b² - a²) / 2,
which is 0.00125 for [0,5]. RMSE is the root of the mean squared error. The per-query arrays hold each query's own area
or RMSE, whose mean is the value with ``over=queries``; NaN for a query with one kind of document.

Tau is tau-b, which corrects for ties on either side: (right pairs - wrong pairs) / √(pairs untied in score · pairs
untied in label). It needs at least two different scores and two different labels; a query without them is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankwood._core import checks, threads
from rankwood._core.jit import kernel
from rankwood.dtypes import Array, Floats, Rows
from rankwood.measures.listwise import relevant_counts
from rankwood.measures.measure import Measure
from rankwood.measures.ranking import (
    Lists,
    QueryValues,
    order,
    order_together,
    run_lists,
    run_queries,
)


def query_areas(measure: Measure, lists: Lists) -> QueryValues:
    """Each query's own area under its ROC curve."""
    threshold = float(measure["relevant"])
    positives = relevant_counts(lists, lists.labels, threshold)
    positions = lists.ranking().order
    sizes = checks.read_only(np.diff(lists.offsets))
    relevance = (lists.labels >= threshold).astype(np.float64)
    curves = RocCurves(
        checks.read_only(lists.scores[positions]),
        checks.read_only(relevance[positions]),
        checks.read_only(np.zeros(relevance.size, np.int64)),
        checks.read_only(positives.astype(np.float64)),
        checks.read_only((sizes - positives).astype(np.float64)),
    )
    areas = np.empty(lists.n_queries, np.float64)
    run_queries(
        areas_of_lists,
        lists.n_queries,
        lists.offsets[:-1],
        sizes,
        curves,
        checks.read_only(np.ones(1)),
        measure.rates,
        areas,
        n_threads=lists.n_threads,
        n_ranked=positions.size,
    )
    return QueryValues(areas, positives == 0)


def query_rmse(measure: Measure, lists: Lists) -> QueryValues:  # noqa: ARG001 - one form for all measures
    """Each query's own root of the mean squared error; NaN without documents."""
    squares = squared_errors(lists)
    sizes = np.diff(lists.offsets)
    means = np.divide(squares, sizes, out=np.full(sizes.size, np.nan), where=sizes > 0)
    return QueryValues(np.sqrt(means), sizes == 0)


def squared_errors(lists: Lists) -> Floats:
    """Each query's sum of squared differences between score and label."""
    with np.errstate(over="ignore"):  # the square of an error beyond 1e154 is infinite
        squares = (lists.scores - lists.labels) ** 2
    edges = np.concatenate([squares, [0.0]])  # reduceat needs every offset to be a position
    return np.where(np.diff(lists.offsets) > 0, np.add.reduceat(edges, lists.offsets[:-1]), 0.0)


@dataclass(frozen=True, eq=False)
class PooledCurve:
    """All documents of some queries by descending score, for areas under any weights of queries."""

    scores: Floats
    relevance: Floats
    queries: Rows  # which of the chosen queries each document belongs to
    positives: Floats  # of each chosen query
    negatives: Floats
    n_threads: int | None

    @classmethod
    def of(cls, lists: Lists, threshold: float, chosen: Rows) -> PooledCurve:
        """Sort the documents of the chosen queries together, once."""
        number = np.full(lists.n_queries, -1)
        number[chosen] = np.arange(chosen.size)
        queries = np.repeat(number, np.diff(lists.offsets))
        positions = np.flatnonzero(queries >= 0)
        scores = checks.read_only(lists.scores[positions])
        by_score = order_together(scores, lists.n_threads)
        positions = positions[by_score]
        queries = queries[positions]
        relevance = (lists.labels[positions] >= threshold).astype(np.float64)
        return cls(
            checks.read_only(scores[by_score]),
            checks.read_only(relevance),
            checks.read_only(queries),
            _sums(queries, relevance, chosen.size),
            _sums(queries, 1.0 - relevance, chosen.size),
            lists.n_threads,
        )

    def areas(self, weights: Floats, rates: tuple[float, float]) -> Floats:
        """One area per row of ``weights`` (resamples × chosen queries)."""
        weights = np.ascontiguousarray(weights, np.float64)
        areas = np.empty(len(weights), np.float64)
        # not `weights @ ...`: a BLAS may add in another order with another number of rows or threads
        positives = np.einsum("rq,q->r", weights, self.positives)
        negatives = np.einsum("rq,q->r", weights, self.negatives)
        curves = RocCurves(
            self.scores,
            self.relevance,
            self.queries,
            checks.read_only(positives),
            checks.read_only(negatives),
        )
        threads.run_blocks(
            areas_of_resamples,
            len(weights),
            curves,
            checks.read_only(weights),
            rates,
            areas,
            n_threads=self.n_threads,
        )
        return areas


def _sums(queries: Rows, values: Floats, n_queries: int) -> Floats:
    sums = np.bincount(queries, values, n_queries)
    return sums.astype(np.float64)  # they are integers if there are no documents


class RocCurves(NamedTuple):
    """Documents by descending score, and the sums of the ROC curves through them, one per list or per resample."""

    ranked_scores: Array
    ranked_relevance: Array
    ranked_units: Array
    positives: Array
    negatives: Array


# Kernels. The ROC curve goes through the documents by descending score: a step up for a relevant one, a step right for
# any other, one straight line for all that share a score. Arrays named ``ranked_`` are in that order. A document has
# the weight of its unit (a query, or a block of queries).


@kernel
def clipped_trapezoid(
    left: float, right: float, left_height: float, right_height: float, low: float, high: float
) -> float:
    """The area under a line from ``left`` to ``right``, as far as between ``low`` and ``high``."""
    begin = max(left, low)
    end = min(right, high)
    if end <= begin:
        return 0.0
    if left_height == right_height:  # nearly always: no division for a plain step to the right
        return (end - begin) * left_height
    slope = (right_height - left_height) / (right - left)
    return (end - begin) * (left_height + slope * (0.5 * (begin + end) - left))


@kernel
def roc_area(
    curves: RocCurves,
    number: int,
    begin: int,
    stop: int,
    weights: Array,
    rates: tuple[float, float],
) -> float:
    """Area of one curve, through ranks ``begin`` to ``stop``, between two rates; NaN without positives or negatives."""
    scores, relevance, units = curves.ranked_scores, curves.ranked_relevance, curves.ranked_units
    positives, negatives = curves.positives[number], curves.negatives[number]
    if positives <= 0.0 or negatives <= 0.0:
        return float("nan")
    low, high = rates[0] * negatives, rates[1] * negatives
    area = 0.0
    true = 0.0
    false = 0.0
    new_true = 0.0
    new_false = 0.0
    for rank in range(begin, stop):
        weight = weights[units[rank]]
        new_true += weight * relevance[rank]
        new_false += weight * (1.0 - relevance[rank])
        if rank == stop - 1 or scores[rank + 1] != scores[rank]:
            area += clipped_trapezoid(false, new_false, true, new_true, low, high)
            true = new_true
            false = new_false
            if false >= high:
                break
    return area / (positives * negatives)  # type: ignore[no-any-return]


@kernel
def areas_of_lists(
    first: int,
    last: int,
    starts: Array,
    lengths: Array,
    curves: RocCurves,
    weights: Array,
    rates: tuple[float, float],
    areas: Array,
) -> None:
    """The area of each list on its own."""
    for query in range(first, last):
        begin = starts[query]
        areas[query] = roc_area(curves, query, begin, begin + lengths[query], weights, rates)


@kernel
def areas_of_resamples(
    first: int,
    last: int,
    curves: RocCurves,
    weights: Array,
    rates: tuple[float, float],
    areas: Array,
) -> None:
    """The area of all documents together, once for each row of ``weights`` (resamples × units)."""
    n_documents = curves.ranked_scores.size
    for resample in range(first, last):
        areas[resample] = roc_area(curves, resample, 0, n_documents, weights[resample], rates)


def tau(measure: Measure, lists: Lists) -> QueryValues:  # noqa: ARG001 - one form for all measures
    """Tau-b of each query's scores and labels."""
    by_label = lists.ideal().order
    scores = checks.read_only(lists.scores[by_label])
    labels = lists.labels[by_label]
    # A stable sort by score of documents sorted by label: equal scores are ordered by descending label.
    by_score = order(scores, lists.offsets, lists.n_threads).order
    ranked_labels = labels[by_score]
    taus = np.empty(lists.n_queries, np.float64)
    run_lists(
        kendall_taus,
        lists.offsets,
        checks.read_only(scores[by_score]),
        checks.read_only(ranked_labels),
        checks.read_only(labels),
        ranked_labels.copy(),
        np.empty_like(ranked_labels),
        taus,
        n_threads=lists.n_threads,
    )
    return QueryValues(np.clip(taus, -1.0, 1.0), np.isnan(taus))


# Kernels: wrong and tied pairs in n log n steps (Knight 1966).


@kernel
def count_inversions(values: Array, begin: int, end: int, scratch: Array) -> int:
    """Pairs with the lower value first; sorts ``values[begin:end]`` by descending value."""
    inversions = 0
    width = 1
    while width < end - begin:
        for start in range(begin, end, 2 * width):
            middle = min(start + width, end)
            stop = min(start + 2 * width, end)
            left = start
            right = middle
            for rank in range(start, stop):
                if right >= stop or (left < middle and values[left] >= values[right]):
                    scratch[rank] = values[left]
                    left += 1
                else:
                    scratch[rank] = values[right]
                    right += 1
                    inversions += middle - left  # all that remain on the left are lower
        for rank in range(begin, end):
            values[rank] = scratch[rank]
        width *= 2
    return inversions


@kernel
def count_ties(values: Array, others: Array, begin: int, end: int) -> int:
    """Pairs equal in ``values`` and in ``others``, which are sorted so that equal ones meet."""
    ties = 0
    run = 0
    for rank in range(begin + 1, end):
        if values[rank] == values[rank - 1] and others[rank] == others[rank - 1]:
            run += 1
            ties += run
        else:
            run = 0
    return ties


@kernel
def kendall_taus(
    first: int,
    last: int,
    offsets: Array,
    ranked_scores: Array,
    ranked_labels: Array,
    sorted_labels: Array,
    labels: Array,
    scratch: Array,
    taus: Array,
) -> None:
    """Tau-b of each list, NaN where all scores or all labels are equal.

    ``ranked_`` arrays are ordered by descending score, equal scores by descending label;
    ``sorted_labels`` by descending label. ``labels`` starts as a copy of ``ranked_labels`` and gets
    sorted.
    """
    for query in range(first, last):
        begin = offsets[query]
        end = offsets[query + 1]
        size = end - begin
        pairs = size * (size - 1) // 2
        tied_scores = count_ties(ranked_scores, ranked_scores, begin, end)
        tied_both = count_ties(ranked_scores, ranked_labels, begin, end)
        wrong = count_inversions(labels, begin, end, scratch)
        tied_labels = count_ties(sorted_labels, sorted_labels, begin, end)
        untied_scores = float(pairs - tied_scores)
        untied_labels = float(pairs - tied_labels)
        agreement = float(pairs - tied_scores - tied_labels + tied_both - 2 * wrong)
        if untied_scores > 0.0 and untied_labels > 0.0:
            # Two roots, since the product may exceed what a float holds exactly.
            taus[query] = agreement / untied_scores**0.5 / untied_labels**0.5
        else:
            taus[query] = float("nan")
