"""Placement errors: how far a document stands from where its grade belongs in its query's list (Sá 2016, section 4.2).

Each takes one prediction per row, NaN where there is none: such rows have no error (NaN) and are not in the lists.
Lists are by descending prediction; equal ones keep the data's order.

Terms
    position  an index into the grouped data; query q holds positions ``offsets[q]`` to ``offsets[q + 1]``
    rank      an index into a query's list by descending score, counted like positions: the best is ``offsets[q]``
    grade     the documents of a query that have one label; ``by_grade`` lists positions by descending label, so that
              a grade is a run of it, from rank ``begin`` to ``end``: these ranks are also the grade's *region*
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood.data.dataset import HasJudgments, Judgments
from rankwood.dtypes import Array, Floats, Rows
from rankwood.measures.ranking import order, run_lists

REGIONS = ("place", "grade", "position")


def median_errors(
    predictions: Floats, data: HasJudgments, region: str = "place", n_threads: int | None = None
) -> Floats:
    """How far each prediction is from the median prediction of where the document's grade belongs.

    A query with n₄ documents of grade 4, n₃ of grade 3 and so on should show them in this order: its first n₄ ranks
    are grade 4's region, the next n₃ grade 3's. A document that stands in its own grade's region has no error; another
    has its distance to the median prediction in that region. With ``region="grade"`` it is the distance to the median
    prediction of the documents that have its grade, wherever all of them stand. With ``region="position"`` it is the
    distance in ranks, between the document's own rank and the median rank of its region.
    """
    rows, offsets, scores, labels = _lists(predictions, data.judgments)
    by_score = order(scores, offsets, n_threads).order
    if region == "grade":
        in_list = read_only(labels[by_score])
        by_grade = region_order = read_only(by_score[order(in_list, offsets, n_threads).order])
    else:
        by_grade = order(labels, offsets, n_threads).order
        region_order = by_score
    rank_of_position = np.empty(rows.size, np.int64)
    rank_of_position[by_score] = np.arange(rows.size)
    if region == "position":
        scores = read_only(rank_of_position.astype(np.float64))  # distances are then in ranks
    errors = np.empty(rows.size)
    run_lists(
        median_distances,
        offsets,
        scores,
        labels,
        by_grade,
        region_order,
        read_only(rank_of_position),
        region == "place",
        errors,
        n_threads=n_threads,
    )
    return _of_rows(errors, rows, predictions.size)


def height_errors(predictions: Floats, data: HasJudgments, n_threads: int | None = None) -> Floats:
    """How many documents of lower grades stand above each document, and of higher grades below it.

    With two grades: for a relevant document the irrelevant ones above it, for an irrelevant one the relevant ones
    below it.
    """
    rows, offsets, scores, labels = _lists(predictions, data.judgments)
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
    return _of_rows(errors, rows, predictions.size)


def _lists(predictions: Floats, judgments: Judgments) -> tuple[Rows, Rows, Floats, Floats]:
    """The rows that have a prediction, query by query; where queries begin; predictions and labels there."""
    rows, offsets = judgments.row_order, judgments.query_offsets
    is_known = ~np.isnan(predictions)
    if not is_known.all():
        rows = rows[is_known[rows]]
        sizes = np.bincount(judgments.query_of_row[rows], minlength=judgments.n_queries)
        offsets = read_only(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    return rows, offsets, read_only(predictions[rows]), read_only(judgments.labels[rows])


def _of_rows(errors: Floats, rows: Rows, n_rows: int) -> Floats:
    """Errors in the caller's order, NaN where there is none."""
    of_rows: Floats = np.full(n_rows, np.nan)
    of_rows[rows] = errors
    return of_rows


# Kernels.


@kernel
def median_of_run(begin: int, end: int, region: Array, scores: Array) -> Any:
    """The median of ``scores[region[begin:end]]``, which are in order."""
    upper = region[begin + (end - begin - 1) // 2]
    lower = region[begin + (end - begin) // 2]
    if upper == lower:
        return scores[upper]
    return 0.5 * scores[upper] + 0.5 * scores[lower]


@kernel
def median_distances(
    first: int,
    last: int,
    offsets: Array,
    scores: Array,
    labels: Array,
    by_grade: Array,
    region: Array,
    rank_of_position: Array,
    forgives: bool,
    errors: Array,
) -> None:
    """Each document's distance to the median score of its grade's region.

    ``region`` lists the positions whose scores the medians are of, run by run. With ``forgives`` a document whose rank
    lies in its own region has no error.
    """
    for query in range(first, last):
        begin = offsets[query]
        while begin < offsets[query + 1]:
            label = labels[by_grade[begin]]
            end = begin + 1
            while end < offsets[query + 1] and labels[by_grade[end]] == label:
                end += 1
            median = median_of_run(begin, end, region, scores)
            for rank in range(begin, end):
                position = by_grade[rank]
                is_right = begin <= rank_of_position[position] < end
                if forgives and is_right:
                    errors[position] = 0.0
                else:
                    errors[position] = abs(median - scores[position])
            begin = end


@kernel
def misplaced(
    first: int,
    last: int,
    offsets: Array,
    labels: Array,
    by_grade: Array,
    by_score: Array,
    start_of_position: Array,
    tree: Array,
    errors: Array,
) -> None:
    """How many documents of lower grades stand above each document, and of higher grades below it.

    Goes down the list and counts those passed by grade, in a Fenwick tree: a query of n documents takes n log n steps.
    ``start_of_position`` and ``tree`` are scratch space.
    """
    for query in range(first, last):
        begin = offsets[query]
        size = offsets[query + 1] - begin
        for rank in range(begin, offsets[query + 1]):
            position = by_grade[rank]
            is_new = rank == begin or labels[position] != labels[by_grade[rank - 1]]
            # A grade is identified by the start of its run, the number of documents of the query with higher grades.
            start_of_position[position] = (
                rank - begin if is_new else start_of_position[by_grade[rank - 1]]
            )
            tree[rank] = 0
        for n_passed in range(size):
            position = by_score[begin + n_passed]
            start = start_of_position[position]
            n_higher = count_before(begin, start, tree)
            n_not_lower = count_before(begin, start + 1, tree)
            errors[position] = (n_passed - n_not_lower) + (start - n_higher)
            cell = start + 1
            while cell <= size:
                tree[begin + cell - 1] += 1
                cell += cell & -cell


@kernel
def count_before(begin: int, n_cells: int, tree: Array) -> int:
    """The sum of the first cells of the Fenwick tree that starts at ``begin``."""
    total = 0
    cell = n_cells
    while cell > 0:
        total += tree[begin + cell - 1]
        cell -= cell & -cell
    return total
