"""Kendall's tau between scores and labels.

Tau-b, which corrects for ties on either side: (right pairs - wrong pairs) / √(pairs untied in score
· pairs untied in label). It needs at least two different scores and two different labels; a query
without them is empty.
"""

from __future__ import annotations

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood.dtypes import Array
from rankwood.measures.measure import Measure
from rankwood.measures.ranking import Lists, QueryValues, order, run_lists


def tau(measure: Measure, lists: Lists) -> QueryValues:  # noqa: ARG001 - one form for all measures
    """Tau-b of each query's scores and labels."""
    by_label = lists.ideal().order
    scores = checks.read_only(lists.scores[by_label])
    labels = lists.labels[by_label]
    # A stable sort by score of documents sorted by label: equal scores are ordered by descending label.
    by_score = order(scores, lists.offsets, lists.n_threads).order
    ranked_labels = labels[by_score]
    taus = np.empty(lists.n_queries, np.float64)
    run_lists(
        kendall_taus,
        lists.offsets,
        checks.read_only(scores[by_score]),
        checks.read_only(ranked_labels),
        checks.read_only(labels),
        ranked_labels.copy(),
        np.empty_like(ranked_labels),
        taus,
        n_threads=lists.n_threads,
    )
    return QueryValues(np.clip(taus, -1.0, 1.0), np.isnan(taus))


# Kernels: wrong and tied pairs in n log n steps (Knight 1966).


@kernel
def count_inversions(values: Array, begin: int, end: int, scratch: Array) -> int:
    """Pairs with the lower value first; sorts ``values[begin:end]`` by descending value."""
    inversions = 0
    width = 1
    while width < end - begin:
        for start in range(begin, end, 2 * width):
            middle = min(start + width, end)
            stop = min(start + 2 * width, end)
            left = start
            right = middle
            for rank in range(start, stop):
                if right >= stop or (left < middle and values[left] >= values[right]):
                    scratch[rank] = values[left]
                    left += 1
                else:
                    scratch[rank] = values[right]
                    right += 1
                    inversions += middle - left  # all that remain on the left are lower
        for rank in range(begin, end):
            values[rank] = scratch[rank]
        width *= 2
    return inversions


@kernel
def count_ties(values: Array, others: Array, begin: int, end: int) -> int:
    """Pairs equal in ``values`` and in ``others``, which are sorted so that equal ones meet."""
    ties = 0
    run = 0
    for rank in range(begin + 1, end):
        if values[rank] == values[rank - 1] and others[rank] == others[rank - 1]:
            run += 1
            ties += run
        else:
            run = 0
    return ties


@kernel
def kendall_taus(
    first: int,
    last: int,
    offsets: Array,
    ranked_scores: Array,
    ranked_labels: Array,
    sorted_labels: Array,
    labels: Array,
    scratch: Array,
    taus: Array,
) -> None:
    """Tau-b of each list, NaN where all scores or all labels are equal.

    ``ranked_`` arrays are ordered by descending score, equal scores by descending label;
    ``sorted_labels`` by descending label. ``labels`` starts as a copy of ``ranked_labels`` and gets
    sorted.
    """
    for query in range(first, last):
        begin = offsets[query]
        end = offsets[query + 1]
        size = end - begin
        pairs = size * (size - 1) // 2
        tied_scores = count_ties(ranked_scores, ranked_scores, begin, end)
        tied_both = count_ties(ranked_scores, ranked_labels, begin, end)
        wrong = count_inversions(labels, begin, end, scratch)
        tied_labels = count_ties(sorted_labels, sorted_labels, begin, end)
        untied_scores = float(pairs - tied_scores)
        untied_labels = float(pairs - tied_labels)
        agreement = float(pairs - tied_scores - tied_labels + tied_both - 2 * wrong)
        if untied_scores > 0.0 and untied_labels > 0.0:
            # Two roots, since the product may exceed what a float holds exactly.
            taus[query] = agreement / untied_scores**0.5 / untied_labels**0.5
        else:
            taus[query] = float("nan")
