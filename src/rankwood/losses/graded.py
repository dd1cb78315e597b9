"""``GradedLists``: the documents of each query by label, for losses that look at pairs of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._checks import read_only
from rankwood._threads import run_blocks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats, Rows
from rankwood.errors import DataError

_LEAST_DOCUMENTS = 20_000  # per thread: fewer are gone through faster than a thread starts


@dataclass(frozen=True, eq=False)
class GradedLists:
    """Every document that is part of a pair, query by query, the best label first.

    A pair is two documents of one query with different labels. Queries with one label only, and documents without
    weight, have no pairs and no place here. Arrays cannot be written to.
    """

    n_rows: int  # of the data
    rows: Rows  # the row at each place
    offsets: Rows  # list q holds the places offsets[q] to offsets[q + 1]
    labels: Floats  # by place
    weights: Floats  # by place, the greatest is 1: of the document alone
    query_weights: Floats  # by list, the greatest is 1
    n_threads: int

    @property
    def n_lists(self) -> int:
        """How many queries have pairs."""
        return self.offsets.size - 1

    def run(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        """Call ``kernel(first, last, offsets, *arguments)`` on blocks of lists."""
        few = 1 + self.n_lists * _LEAST_DOCUMENTS // self.rows.size
        run_blocks(
            kernel,
            self.n_lists,
            self.offsets,
            *arguments,
            n_threads=self.n_threads,
            least=few,
        )

    def exponentials(self, scores: Floats) -> Floats:
        """``exp(score)`` of each place, scores centred in their list."""
        from rankwood.losses.graded_kernels import centred_exponentials

        found = np.empty(self.rows.size)
        self.run(centred_exponentials, self.rows, read_only(scores), found)
        return read_only(found)

    def by_row(self, values: Floats) -> Floats:
        """Values of places as values of rows; 0 for a row without a place."""
        spread = np.zeros(self.n_rows)
        spread[self.rows] = values
        return spread


def graded_lists(data: RankingData, n_threads: int) -> GradedLists:
    """The pairs of ``data``; an error where there are none."""
    row_weights = np.ones(data.n_documents) if data.row_weights is None else data.row_weights
    of_query = np.ones(data.n_queries) if data.query_weights is None else data.query_weights
    query = data.query_of_row
    least, most = np.full(data.n_queries, np.inf), np.full(data.n_queries, -np.inf)
    weighed = row_weights > 0
    np.minimum.at(least, query[weighed], data.labels[weighed])
    np.maximum.at(most, query[weighed], data.labels[weighed])
    has_pairs = (least < most) & (of_query > 0)
    if not has_pairs.any():
        raise DataError(_no_pairs(data))
    rows = np.flatnonzero(has_pairs[query] & weighed)
    rows = rows[np.lexsort((-data.labels[rows], query[rows]))]  # equal labels keep their order
    offsets = np.zeros(int(has_pairs.sum()) + 1, np.int64)
    np.cumsum(np.bincount(query[rows], minlength=data.n_queries)[has_pairs], out=offsets[1:])
    weights, query_weights = row_weights[rows], of_query[has_pairs]
    return GradedLists(
        data.n_documents,
        read_only(rows.astype(np.int64)),
        read_only(offsets),
        read_only(data.labels[rows]),
        read_only(
            weights / weights.max()
        ),  # scaled, so that products of extreme weights are finite
        read_only(query_weights / query_weights.max()),
        n_threads,
    )


def _no_pairs(data: RankingData) -> str:
    weighted = data.row_weights is not None or data.query_weights is not None
    return (
        f"there is nothing to rank: none of the {data.n_queries:,} queries ({data.n_documents:,} rows) has two "
        f"documents {'of positive weight ' if weighted else ''}with different labels. "
        "Check that qid groups the documents of one search, and that labels vary within it."
    )
