"""Measures pooled over documents: the area under the ROC curve, a part of it, and RMSE.

AUC is the chance that a relevant document scores higher than another one, ties counting half, over
all documents of all queries together. PAUC@[a,b] is the area under the ROC curve between
false-positive rates of a % and b %, not rescaled: a random order gives (b² - a²) / 2, which is
0.00125 for [0,5]. RMSE is the root of the mean squared error. The per-query arrays hold each
query's own area or RMSE; NaN where a query has only one kind of document.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwood._core import checks, threads
from rankwood._core.jit import kernel
from rankwood.dtypes import Array, Floats, Rows
from rankwood.measures.listwise import relevant_counts
from rankwood.measures.measure import Measure
from rankwood.measures.ranking import Lists, QueryValues, order, run_queries


def query_areas(measure: Measure, lists: Lists) -> QueryValues:
    """Each query's own area under its ROC curve."""
    threshold = float(measure["relevant"])
    positives = relevant_counts(lists, lists.labels, threshold)
    positions = lists.ranking().order
    sizes = checks.read_only(np.diff(lists.offsets))
    relevance = (lists.labels >= threshold).astype(np.float64)
    low, high = measure.rates
    areas = np.empty(lists.n_queries, np.float64)
    run_queries(
        areas_of_lists,
        lists.n_queries,
        lists.offsets[:-1],
        sizes,
        checks.read_only(lists.scores[positions]),
        checks.read_only(relevance[positions]),
        checks.read_only(np.zeros(relevance.size, np.int64)),
        checks.read_only(np.ones(1)),
        checks.read_only(positives.astype(np.float64)),
        checks.read_only((sizes - positives).astype(np.float64)),
        low,
        high,
        areas,
        n_threads=lists.n_threads,
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
        everything = checks.read_only(np.array([0, positions.size], np.int64))
        scores = checks.read_only(lists.scores[positions])
        by_score = order(scores, everything, lists.n_threads).order
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
        threads.run_blocks(
            areas_of_resamples,
            len(weights),
            self.scores,
            self.relevance,
            self.queries,
            checks.read_only(weights),
            checks.read_only(positives),
            checks.read_only(negatives),
            *rates,
            areas,
            n_threads=self.n_threads,
        )
        return areas


def _sums(queries: Rows, values: Floats, n_queries: int) -> Floats:
    sums = np.bincount(queries, values, n_queries)
    return sums.astype(np.float64)  # they are integers if there are no documents


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
    ranked_scores: Array,
    ranked_relevance: Array,
    ranked_units: Array,
    weights: Array,
    positives: float,
    negatives: float,
    low: float,
    high: float,
) -> float:
    """Area between two false-positive rates; NaN without positives or negatives."""
    if positives <= 0.0 or negatives <= 0.0:
        return float("nan")
    begin = low * negatives
    end = high * negatives
    last = ranked_scores.size - 1
    area = 0.0
    true = 0.0
    false = 0.0
    new_true = 0.0
    new_false = 0.0
    for rank in range(ranked_scores.size):
        weight = weights[ranked_units[rank]]
        new_true += weight * ranked_relevance[rank]
        new_false += weight * (1.0 - ranked_relevance[rank])
        if rank == last or ranked_scores[rank + 1] != ranked_scores[rank]:
            area += clipped_trapezoid(false, new_false, true, new_true, begin, end)
            true = new_true
            false = new_false
            if false >= end:
                break
    return area / (positives * negatives)


@kernel
def areas_of_lists(
    first: int,
    last: int,
    starts: Array,
    lengths: Array,
    ranked_scores: Array,
    ranked_relevance: Array,
    ranked_units: Array,
    weights: Array,
    positives: Array,
    negatives: Array,
    low: float,
    high: float,
    areas: Array,
) -> None:
    """The area of each list on its own."""
    for query in range(first, last):
        begin = starts[query]
        end = begin + lengths[query]
        areas[query] = roc_area(
            ranked_scores[begin:end],
            ranked_relevance[begin:end],
            ranked_units[begin:end],
            weights,
            positives[query],
            negatives[query],
            low,
            high,
        )


@kernel
def areas_of_resamples(
    first: int,
    last: int,
    ranked_scores: Array,
    ranked_relevance: Array,
    ranked_units: Array,
    weights: Array,
    positives: Array,
    negatives: Array,
    low: float,
    high: float,
    areas: Array,
) -> None:
    """The area of all documents together, once for each row of ``weights`` (resamples × units)."""
    for resample in range(first, last):
        areas[resample] = roc_area(
            ranked_scores,
            ranked_relevance,
            ranked_units,
            weights[resample],
            positives[resample],
            negatives[resample],
            low,
            high,
        )
