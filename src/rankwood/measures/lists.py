"""From scores in the caller's order to lists of documents.

Scores are checked here. Unjudged and missed documents, and ties that are broken by document id, are
put into order before anything is ranked. ``QueryValues`` is what a measure computes from the lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwood._core import checks
from rankwood.data.judgments import HasJudgments, Judgments
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError
from rankwood.measures.measure import Measure
from rankwood.measures.ranking import Lists

UNJUDGED = ("as_zero", "condense")
Flags = npt.NDArray[np.bool_]


def group(
    scores: Any,
    data: HasJudgments,
    *,
    ties: str = "data",
    judged: Any = None,
    retrieved: Any = None,
    unjudged: str = "as_zero",
    n_threads: int | None = None,
) -> Lists:
    """The documents of ``data`` as lists with their scores, ready to be ranked.

    ``judged`` marks the rows whose label is known. Under ``unjudged="as_zero"`` the others have
    label 0; under ``"condense"`` they are left out of the lists. ``retrieved`` marks the rows a run
    holds; the others are documents it has missed: part of the ideal, but never of the ranking.
    """
    judgments = data.judgments
    n_rows = judgments.n_documents
    numbers = check_scores(scores, n_rows)
    checks.one_of("unjudged", unjudged, UNJUDGED)
    is_judged = _flags("judged", judged, n_rows)
    is_retrieved = _flags("retrieved", retrieved, n_rows)
    labels = judgments.labels
    if is_judged is not None:
        labels = np.where(is_judged, labels, 0.0)
    if is_retrieved is not None:
        numbers = np.where(is_retrieved, numbers, -np.inf)
    rows = _row_order(judgments, ties, is_retrieved)
    if is_judged is not None and unjudged == "condense":
        rows = np.arange(n_rows) if rows is None else rows
        rows = rows[is_judged[rows]]
    offsets = _count_offsets(judgments, rows)
    listed = np.diff(offsets) if is_retrieved is None else _count(judgments, is_retrieved, rows)
    return Lists(
        offsets=checks.read_only(offsets),
        scores=_take(numbers, rows),
        labels=_take(labels, rows),
        listed=checks.read_only(listed),
        rows=rows,
        judged=None if is_judged is None else _take(is_judged.astype(np.float64), rows),
        n_threads=n_threads,
    )


def lists_for(measure: Measure, scores: Any, data: HasJudgments, **options: Any) -> Lists:
    """The lists a measure reads: in the order its tie rule asks for.

    The share of judged documents is that of the whole ranking, also where lists are condensed.
    """
    if measure.name == "judged":
        options |= {"unjudged": "as_zero"}
    return group(scores, data, ties="docid" if measure.ties == "docid" else "data", **options)


def check_scores(scores: Any, n_rows: int) -> Floats:
    """Scores as float64, one per row and none of them NaN; infinite ones are fine."""
    if isinstance(scores, np.ma.MaskedArray):
        scores = np.ma.filled(scores.astype(np.float64), np.nan)
    try:
        array = np.asarray(scores)
    except ValueError:
        raise DataError(
            "scores must be one number per row, got lists of different lengths."
        ) from None
    if array.dtype.kind not in "fiub":
        raise DataError(f"scores must be numbers, got an array of {array.dtype}.")
    if array.ndim != 1:
        raise DataError(f"scores must have one dimension, got {array.ndim}. Try scores.ravel().")
    if array.size != n_rows:
        raise DataError(f"scores has {array.size:,} values, but the data have {n_rows:,} rows.")
    array = np.require(array, np.float64, ["C", "ALIGNED"])
    missing = np.isnan(array)
    if missing.any():
        raise DataError(
            f"scores[{int(np.argmax(missing))}] is NaN ({int(missing.sum()):,} in all). "
            "A ranking needs a number for every row; use -inf for documents that should come last."
        )
    return array


def _flags(name: str, values: Any, n_rows: int) -> Flags | None:
    if values is None:
        return None
    array = np.asarray(values)
    if array.dtype != bool:
        raise DataError(
            f"{name} must be True or False for each row, got an array of {array.dtype}."
        )
    if array.shape != (n_rows,):
        raise DataError(f"{name} has {array.size:,} values, but the data have {n_rows:,} rows.")
    return array


def _row_order(judgments: Judgments, ties: str, is_retrieved: Flags | None) -> Rows | None:
    """The row at each position of the lists; None where that is the row itself."""
    if ties == "docid":
        number_of_id = _numbers_of_ids(judgments.doc_ids)
    elif is_retrieved is None:
        return None if judgments.grouping.n_separated == 0 else judgments.row_order
    else:
        number_of_id = np.zeros(judgments.n_documents, np.int64)
    missed = np.zeros(judgments.n_documents, bool) if is_retrieved is None else ~is_retrieved
    # The last key sorts first: by query, retrieved before missed, then by descending id; otherwise
    # as in the data.
    return np.lexsort((-number_of_id, missed, judgments.query_of_row)).astype(np.int64)


def _numbers_of_ids(doc_ids: Array | None) -> Rows:
    """The number of each row's document id among all ids, in the order of their bytes."""
    if doc_ids is None:
        raise DataError("ties=docid needs the documents' ids. Pass doc_ids= to RankingData.")
    texts = np.array([str(value).encode() for value in doc_ids.tolist()], dtype=bytes)
    return np.unique(texts, return_inverse=True)[1].astype(np.int64)


def _count_offsets(judgments: Judgments, rows: Rows | None) -> Rows:
    if rows is None or rows.size == judgments.n_documents:
        return judgments.query_offsets
    sizes = np.bincount(judgments.query_of_row[rows], minlength=judgments.n_queries)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _count(judgments: Judgments, flags: Flags, rows: Rows | None) -> Rows:
    """How many of the listed rows are marked, per query."""
    marked = flags if rows is None else flags[rows]
    queries = judgments.query_of_row if rows is None else judgments.query_of_row[rows]
    return np.bincount(queries[marked], minlength=judgments.n_queries).astype(np.int64)


def _take(values: Array, rows: Rows | None) -> Floats:
    taken = values if rows is None else values[rows]
    return checks.read_only(np.asarray(taken))  # a plain array, where data are memory-mapped


@dataclass(frozen=True, eq=False)
class QueryValues:
    """One value per query, and whether the query is empty: nothing in it could be ranked well."""

    values: Floats
    is_empty: npt.NDArray[np.bool_]

    def with_empty(self, convention: float | str) -> QueryValues:
        """The values with those of empty queries replaced; ``skip`` makes them NaN."""
        replacement = np.nan if convention == "skip" else float(convention)
        return QueryValues(np.where(self.is_empty, replacement, self.values), self.is_empty)
