"""The compiled half of ``placement.py``: how far documents stand from where their grades belong.

Words used here
    place     a position in the grouped data; query q holds places ``offsets[q]`` to ``offsets[q + 1]``
    rank      a place in a query's list by descending score, counted like places: the best is ``offsets[q]``
    grade     the documents of a query that have one label; ``by_grade`` lists places by descending label, so that a
              grade is a run of it, from rank ``begin`` to ``end``: these ranks are also the grade's *region*
"""

from __future__ import annotations

from typing import Any

from rankwood._jit import kernel
from rankwood.dtypes import Array


@kernel
def median_of_run(begin: int, end: int, region: Array, scores: Array) -> Any:
    """The median of ``scores[region[begin:end]]``, which descend."""
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
    rank_of_place: Array,
    forgives: bool,
    errors: Array,
) -> None:
    """Each document's distance to the median score of its grade's region.

    ``region`` lists the places whose scores the medians are of, run by run. With ``forgives`` a document whose rank
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
                place = by_grade[rank]
                is_right = begin <= rank_of_place[place] < end
                if forgives and is_right:
                    errors[place] = 0.0
                else:
                    errors[place] = abs(median - scores[place])
            begin = end


@kernel
def misplaced(
    first: int,
    last: int,
    offsets: Array,
    labels: Array,
    by_grade: Array,
    by_score: Array,
    start_of_place: Array,
    tree: Array,
    errors: Array,
) -> None:
    """How many documents of lower grades stand above each document, and of higher grades below it.

    Goes down the list and counts those passed by grade, in a Fenwick tree: a query of n documents takes n log n steps.
    ``start_of_place`` and ``tree`` are scratch space.
    """
    for query in range(first, last):
        begin = offsets[query]
        size = offsets[query + 1] - begin
        for rank in range(begin, offsets[query + 1]):
            place = by_grade[rank]
            is_new = rank == begin or labels[place] != labels[by_grade[rank - 1]]
            # A grade goes by where its run starts: so many documents of the query have higher grades.
            start_of_place[place] = rank - begin if is_new else start_of_place[by_grade[rank - 1]]
            tree[rank] = 0
        for n_passed in range(size):
            place = by_score[begin + n_passed]
            start = start_of_place[place]
            n_higher = count_before(begin, start, tree)
            n_not_lower = count_before(begin, start + 1, tree)
            errors[place] = (n_passed - n_not_lower) + (start - n_higher)
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
