"""Measures taken over all documents together, with intervals over resampled queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood.dtypes import Floats
from rankwood.evaluation.bootstrap import NO_INTERVAL, Interval, Resampling
from rankwood.measures.auc import PooledCurve, squared_errors
from rankwood.measures.measure import Measure
from rankwood.measures.ranking import Lists

# Each resample of an area walks through all documents: above this many steps in all, there are
# fewer resamples.
_MOST_STEPS = 100_000_000
_LEAST_RESAMPLES = 100
_WEIGHTS_AT_ONCE = 2_000_000  # 16 MB


def pooled_results(
    measure: Measure, lists: Lists, weights: Floats, mask: Any, resampling: Resampling
) -> tuple[float, Interval]:
    """The value over the documents of the queries in ``mask``, and its interval."""
    if measure.name == "rmse":
        return _rmse(lists, weights, mask, resampling)
    return _area(measure, lists, weights, mask, resampling)


def _rmse(
    lists: Lists, weights: Floats, mask: Any, resampling: Resampling
) -> tuple[float, Interval]:
    squares = (weights * squared_errors(lists))[mask]
    sizes = (weights * np.diff(lists.offsets))[mask]
    if sizes.sum() <= 0:
        return float("nan"), NO_INTERVAL
    value = float(np.sqrt(squares.sum() / sizes.sum()))
    if not np.isfinite(value):
        return value, NO_INTERVAL
    columns = squares[:, np.newaxis], sizes[:, np.newaxis]
    low, high = resampling.ratio_intervals(*columns)[0]
    return value, (float(np.sqrt(low)), float(np.sqrt(high)))


def _area(
    measure: Measure, lists: Lists, weights: Floats, mask: Any, resampling: Resampling
) -> tuple[float, Interval]:
    """Area under the ROC curve: documents are sorted once, resamples only change their weights."""
    curve = PooledCurve.of(lists, float(measure["relevant"]), np.flatnonzero(mask))
    weights = weights[mask]
    value = float(curve.areas(weights[np.newaxis, :], measure.rates)[0])
    if weights.size < 2 or resampling.n_bootstrap == 0 or np.isnan(value):
        return value, NO_INTERVAL
    affordable = max(_LEAST_RESAMPLES, _MOST_STEPS // curve.scores.size)
    n_resamples = min(resampling.n_bootstrap, affordable)
    at_once = max(1, _WEIGHTS_AT_ONCE // weights.size)
    estimates = [
        curve.areas(part[:, resampling.unit_of_query] * weights, measure.rates)
        for counts in resampling.counts(n_resamples)
        for part in np.array_split(counts, -(-len(counts) // at_once))
    ]
    return value, resampling.interval(np.concatenate(estimates))
