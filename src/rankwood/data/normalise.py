"""``normalise_per_query``: features scaled within each query, as LETOR's query-level normalisation does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats, Rows

_BLOCK_VALUES = 1 << 16  # values scaled at a time: half a megabyte, which stays in the cache


def normalise_per_query(data: RankingData, method: str = "minmax") -> RankingData:
    """The data with every feature scaled within each query.

    ``"minmax"``
        (value - least) / (greatest - least), as in LETOR's collections: from 0 to 1.
    ``"zscore"``
        (value - mean) / standard deviation, the deviation of the query's own documents (÷ n).

    A feature that is constant within a query becomes 0. Missing values stay missing and do not
    count. Infinite values do not count either; they become 0 or 1 with ``"minmax"`` and stay
    infinite with ``"zscore"``.
    """
    scale = _METHODS[checks.one_of("normalisation", method, _METHODS)]
    offsets, row_order = data.query_offsets, data.row_order
    features = np.empty_like(data.features)
    for first, last in _blocks_of_queries(offsets, _BLOCK_VALUES // data.n_features):
        rows = row_order[offsets[first] : offsets[last]]
        starts = offsets[first:last] - offsets[first]
        sizes = np.diff(offsets[first : last + 1])
        features[rows] = scale(data.features[rows].astype(np.float64), starts, sizes)
    return dataclasses.replace(data, features=features)


def _blocks_of_queries(offsets: Rows, n_rows: int) -> list[tuple[int, int]]:
    """Ranges of queries with about ``n_rows`` rows each, at least one query."""
    blocks = []
    first, n_queries = 0, offsets.size - 1
    while first < n_queries:
        last = int(np.searchsorted(offsets, offsets[first] + n_rows, side="right")) - 1
        blocks.append((first, max(last, first + 1)))
        first = blocks[-1][1]
    return blocks


def _minmax(values: Floats, starts: Rows, sizes: Rows) -> Floats:
    finite = np.where(np.isfinite(values), values, np.nan)
    least = np.fmin.reduceat(finite, starts, axis=0)
    span = np.fmax.reduceat(finite, starts, axis=0) - least
    return np.clip(_scaled(values, least, span, sizes), 0.0, 1.0)


def _zscore(values: Floats, starts: Rows, sizes: Rows) -> Floats:
    is_finite = np.isfinite(values)
    counts = np.maximum(np.add.reduceat(is_finite, starts, axis=0, dtype=np.int64), 1)
    means = np.add.reduceat(np.where(is_finite, values, 0.0), starts, axis=0) / counts
    distances = np.where(is_finite, values, 0.0) - np.repeat(means, sizes, axis=0)
    squares = np.where(is_finite, np.square(distances), 0.0)
    deviations = np.sqrt(np.add.reduceat(squares, starts, axis=0) / counts)
    return _scaled(values, means, deviations, sizes)


def _scaled(values: Floats, centres: Floats, spans: Floats, sizes: Rows) -> Floats:
    """(value - centre) / span, modified in place; a span of 0 or NaN counts as 1."""
    centres = np.nan_to_num(centres)  # NaN where a query has no finite value
    spans = np.where(spans > 0, spans, 1.0)
    values -= np.repeat(centres, sizes, axis=0)
    values /= np.repeat(spans, sizes, axis=0)
    return values


_METHODS: dict[str, Callable[[Floats, Rows, Rows], Floats]] = {
    "minmax": _minmax,
    "zscore": _zscore,
}
