"""Compiled loops for areas under ROC curves.

The curve goes through the documents by descending score: a step up for a relevant one, a step right
for any other, one straight line for all that share a score. Arrays named ``ranked_`` are in that
order. A document weighs what its unit (a query, or a block of queries) weighs.
"""

from __future__ import annotations

from rankwood._jit import kernel
from rankwood.dtypes import Array


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
