"""Rows grouped by query.

Words used here
    row       a place in the caller's order
    query     a group of rows, numbered by the first appearance of its id: 0 is the query of row 0
    place     a position in the grouped order: ``row_order[place]`` is a row
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwood._checks import read_only
from rankwood.dtypes import OFFSET, ROW, Array, Rows


@dataclass(frozen=True, eq=False)
class Grouping:
    """The grouped view of rows: query ``q`` holds ``row_order[offsets[q]:offsets[q + 1]]``.

    ``n_separated`` counts the queries whose rows are separated by rows of another query. The
    arrays are read-only.
    """

    queries: Array  # the id of each query
    offsets: Rows
    row_order: Rows
    query_of_row: Rows
    n_separated: int

    def __post_init__(self) -> None:
        for name in ("queries", "offsets", "row_order", "query_of_row"):
            object.__setattr__(self, name, read_only(getattr(self, name)))


def group_rows(query_ids: Array) -> Grouping:
    """Group rows by id: queries by first appearance, the rows of a query in the caller's order."""
    n_rows = query_ids.size
    if n_rows == 0:
        return Grouping(query_ids, np.zeros(1, OFFSET), np.zeros(0, ROW), np.zeros(0, ROW), 0)
    is_head = np.empty(n_rows, bool)
    is_head[0] = True
    is_head[1:] = query_ids[1:] != query_ids[:-1]
    heads = np.flatnonzero(is_head)  # first row of each run of equal ids
    queries, query_of_run = _number_by_appearance(query_ids[heads])
    query_of_row = np.repeat(query_of_run, np.diff(heads, append=n_rows))
    sizes = np.bincount(query_of_row, minlength=queries.size)
    offsets = np.zeros(queries.size + 1, OFFSET)
    np.cumsum(sizes, out=offsets[1:])
    runs_of_query = np.bincount(query_of_run, minlength=queries.size)
    n_separated = int((runs_of_query > 1).sum())
    if n_separated == 0:
        row_order = np.arange(n_rows, dtype=ROW)
    else:
        row_order = np.argsort(query_of_row, kind="stable").astype(ROW, copy=False)
    return Grouping(queries, offsets, row_order, query_of_row, n_separated)


def _number_by_appearance(ids: Array) -> tuple[Array, Rows]:
    """The distinct ids in order of first appearance, and each id's number among them."""
    if ids.dtype == object:
        number_of: dict[object, int] = {}
        numbers = [number_of.setdefault(value, len(number_of)) for value in ids]
        distinct = np.empty(len(number_of), object)
        distinct[:] = list(number_of)
        return distinct, np.array(numbers, ROW)
    distinct, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first, kind="stable")
    number_of_sorted = np.empty(distinct.size, ROW)
    number_of_sorted[by_appearance] = np.arange(distinct.size)
    return distinct[by_appearance], number_of_sorted[inverse]
