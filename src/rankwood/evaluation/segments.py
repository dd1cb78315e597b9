"""Segments of queries: which queries belong to which value of a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Rows
from rankwood.errors import DataError, UnknownName


def segment_masks(by: Any, data: RankingData) -> dict[Any, npt.NDArray[np.bool_]]:
    """For each segment, in sorted order, which queries belong to it; nothing without ``by``."""
    if by is None:
        return {}
    names, segments = _numbered(_column(by, data))
    segment_of_query = _of_queries(segments, data)
    return {
        name: segment_of_query == number
        for number, name in enumerate(names)
        if np.any(segment_of_query == number)
    }


def _column(by: Any, data: RankingData) -> Array:
    if isinstance(by, str):
        if by not in data.names:
            raise UnknownName("feature to segment by", by, data.names)
        return data.features[:, data.names.index(by)]
    values = np.asarray(by)
    if values.ndim != 1:
        raise DataError(f"by must have one dimension, got {values.ndim}.")
    return values


def _numbered(values: Array) -> tuple[list[Any], Rows]:
    """The distinct values in sorted order, and the number of each value among them."""
    try:
        distinct, numbers = np.unique(values, return_inverse=True)
    except TypeError:  # values of several types have no order: their texts have
        texts = [str(value) for value in values.tolist()]
        distinct, numbers = np.unique(texts, return_inverse=True)
    return distinct.tolist(), numbers


def _of_queries(segments: Rows, data: RankingData) -> Rows:
    """One segment per query, from one per query or one per row."""
    if segments.size == data.n_queries and segments.size != data.n_documents:
        return segments
    if segments.size != data.n_documents:
        raise DataError(
            f"by has {segments.size:,} values; it needs one per query ({data.n_queries:,}) "
            f"or one per row ({data.n_documents:,})."
        )
    of_queries = segments[data.row_order[data.query_offsets[:-1]]]
    differs = of_queries[data.query_of_row] != segments
    if np.any(differs):
        row = int(np.argmax(differs))
        query = data.queries.tolist()[int(data.query_of_row[row])]
        raise DataError(
            f"by changes within query {query!r} (row {row}); "
            "all rows of a query belong to one segment."
        )
    return of_queries
