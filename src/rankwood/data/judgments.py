"""``Judgments``: labels, queries and weights of documents, without their features.

Measures, losses and evaluation look at nothing else. ``RankingData`` holds an instance as its attribute
``judgments`` and shares the arrays with it; functions that only need judgments accept both through the protocol
``HasJudgments``.

Terms
    row        a document, numbered in the caller's order
    query      a group of rows, numbered by the first appearance of its id: 0 is the query of row 0
    position   an index into the rows grouped by query: ``row_order[position]`` is a row
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from rankwood._core.checks import read_only
from rankwood.dtypes import OFFSET, ROW, Array, Floats, Rows
from rankwood.errors import DataError


class HasJudgments(Protocol):
    """``RankingData``, or ``Judgments`` themselves."""

    @property
    def judgments(self) -> Judgments:
        """Labels, queries and weights."""
        ...


@dataclass(frozen=True, eq=False)
class Judgments:
    """Labels of documents, the queries they belong to, and their weights.

    The constructor takes arrays as they are: ``RankingData`` checks what users pass. Only ``labels`` is required;
    ``query_weights`` are in the order of ``queries``.
    """

    labels: Floats
    query_ids: Array | None = None
    doc_ids: Array | None = None
    row_weights: Floats | None = None
    query_weights: Floats | None = None

    @property
    def judgments(self) -> Judgments:
        """The object itself, so that functions take ``RankingData`` and ``Judgments`` alike."""
        return self

    @property
    def n_documents(self) -> int:
        """Number of rows."""
        return int(self.labels.size)

    @property
    def n_queries(self) -> int:
        """Number of distinct query ids."""
        return len(self.queries)

    @property
    def queries(self) -> Array:
        """The distinct query ids, in order of first appearance."""
        return self.grouping.queries

    @property
    def query_offsets(self) -> Rows:
        """Query ``q`` holds ``row_order[query_offsets[q]:query_offsets[q + 1]]``."""
        return self.grouping.offsets

    @property
    def row_order(self) -> Rows:
        """The row at each position of the grouped order."""
        return self.grouping.row_order

    @property
    def query_of_row(self) -> Rows:
        """The number of each row's query."""
        return self.grouping.query_of_row

    @functools.cached_property
    def grouping(self) -> Grouping:
        """Rows grouped by query, computed on first use."""
        if self.query_ids is None:
            raise DataError(
                "These data have no query ids, and this needs to know which rows belong together. "
                "Pass query_ids= (or qid=), one id per row."
            )
        return group_rows(self.query_ids)

    @property
    def query_weights_or_ones(self) -> Floats:
        """One weight per query; 1 for each where none were given."""
        return np.ones(self.n_queries) if self.query_weights is None else self.query_weights

    @property
    def row_weights_or_ones(self) -> Floats:
        """One weight per row; 1 for each where none were given."""
        return np.ones(self.n_documents) if self.row_weights is None else self.row_weights

    def iter_queries(self) -> Iterator[tuple[Any, Rows]]:
        """Each query's id and its rows, in order of first appearance."""
        offsets = self.query_offsets
        for number, query in enumerate(self.queries.tolist()):
            yield query, self.row_order[offsets[number] : offsets[number + 1]]

    def take_rows(self, rows: Rows) -> Judgments:
        """The rows with these numbers, in the given order; queries keep their weights."""
        parts: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else read_only(values[rows])
            for name in ("labels", "query_ids", "doc_ids", "row_weights")
        }
        taken = Judgments(**parts)
        if self.query_weights is None:
            return taken
        first_rows = rows[taken.row_order[taken.query_offsets[:-1]]]
        return taken.with_weights(
            query_weights=read_only(self.query_weights[self.query_of_row[first_rows]])
        )

    def with_weights(self, **weights: Any) -> Judgments:
        """The same judgments with other ``row_weights`` or ``query_weights``; the grouping is shared."""
        changed = replace(self, **weights)
        if self.query_ids is not None:
            changed.__dict__["grouping"] = self.grouping
        return changed


@dataclass(frozen=True, eq=False)
class Grouping:
    """Rows grouped by query: query ``q`` holds ``row_order[offsets[q]:offsets[q + 1]]``.

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
