"""Compiled loops of Kendall's tau: wrong and tied pairs in n log n steps (Knight 1966)."""

from __future__ import annotations

from rankwood._jit import kernel
from rankwood.dtypes import Array


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

    ``ranked_`` arrays stand by descending score, equal scores by descending label;
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
