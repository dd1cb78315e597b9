"""Errors of places: what is wrong with where a document stands in its query's list (Sá 2016, section 4.2).

Each takes one prediction per row, NaN where there is none: such rows have no error (NaN) and are no part of the lists.
Lists are by descending prediction; equal ones keep the data's order.
"""

from __future__ import annotations

import numpy as np

from rankwood._checks import read_only
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats, Rows
from rankwood.measures.ranking import order, run_lists

REGIONS = ("place", "grade")


def median_errors(
    data: RankingData, predictions: Floats, region: str = "place", n_threads: int | None = None
) -> Floats:
    """How far each prediction is from the median prediction of where the document's grade belongs.

    A query with n₄ documents of grade 4, n₃ of grade 3 and so on should show them in this order: its first n₄ places
    are grade 4's region, the next n₃ grade 3's. A document that stands in its own grade's region has no error; another
    has its distance to the median prediction in that region. With ``region="grade"`` it is the distance to the median
    prediction of the documents that have its grade, wherever all of them stand.
    """
    from rankwood.losses.placement_kernels import median_distances

    rows, offsets, scores, labels = _lists(data, predictions)
    by_score = order(scores, offsets, n_threads).order
    if region == "place":
        by_grade = order(labels, offsets, n_threads).order
        region_order = by_score
    else:
        in_list = read_only(labels[by_score])
        by_grade = region_order = read_only(by_score[order(in_list, offsets, n_threads).order])
    rank_of_place = np.empty(rows.size, np.int64)
    rank_of_place[by_score] = np.arange(rows.size)
    errors = np.empty(rows.size)
    run_lists(
        median_distances,
        offsets,
        scores,
        labels,
        by_grade,
        region_order,
        read_only(rank_of_place),
        region == "place",
        errors,
        n_threads=n_threads,
    )
    return _of_rows(errors, rows, data.n_documents)


def height_errors(data: RankingData, predictions: Floats, n_threads: int | None = None) -> Floats:
    """How many documents of lower grades stand above each document, and of higher grades below it.

    With two grades: for a relevant document the irrelevant ones above it, for an irrelevant one the relevant ones
    below it.
    """
    from rankwood.losses.placement_kernels import misplaced

    rows, offsets, scores, labels = _lists(data, predictions)
    errors = np.empty(rows.size)
    run_lists(
        misplaced,
        offsets,
        labels,
        order(labels, offsets, n_threads).order,
        order(scores, offsets, n_threads).order,
        np.empty(rows.size, np.int64),
        np.empty(rows.size, np.int64),
        errors,
        n_threads=n_threads,
    )
    return _of_rows(errors, rows, data.n_documents)


def _lists(data: RankingData, predictions: Floats) -> tuple[Rows, Rows, Floats, Floats]:
    """The rows that have a prediction, query by query; where queries begin; predictions and labels there."""
    rows, offsets = data.row_order, data.query_offsets
    is_known = ~np.isnan(predictions)
    if not is_known.all():
        rows = rows[is_known[rows]]
        sizes = np.bincount(data.query_of_row[rows], minlength=data.n_queries)
        offsets = read_only(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    return rows, offsets, read_only(predictions[rows]), read_only(data.labels[rows])


def _of_rows(errors: Floats, rows: Rows, n_rows: int) -> Floats:
    """Errors in the caller's order, NaN where there is none."""
    found: Floats = np.full(n_rows, np.nan)
    found[rows] = errors
    return found
