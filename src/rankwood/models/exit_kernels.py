"""Which documents leave at an exit.

Words used here
    place      a position among the documents in play; of equal scores the higher place is the worse
    group      documents of which a share leaves: those of a query, or all
    heap       the worst documents of a group found so far; its first is the best of them, the next to be replaced
"""

from __future__ import annotations

from rankwood._jit import kernel
from rankwood.dtypes import Array


@kernel
def mark_leaving(
    scores: Array, groups: Array, n_leaving: Array, ends: Array, order: Array, leaves: Array
) -> None:
    """Set ``leaves`` for the ``n_leaving`` worst places of each group.

    ``ends`` holds where each group begins in an order by group, and afterwards where it ends; ``order`` is room for it.
    """
    for place in range(groups.size):
        group = groups[place]
        order[ends[group]] = place
        ends[group] += 1
    begin = 0
    for group in range(ends.size):
        size = int(n_leaving[group])
        heap = order[begin : begin + size]
        for parent in range(size // 2 - 1, -1, -1):
            sift_down(heap, parent, scores)
        if size > 0:
            for other in range(begin + size, ends[group]):
                if is_worse(order[other], heap[0], scores):
                    heap[0] = order[other]
                    sift_down(heap, 0, scores)
        for place in heap:
            leaves[place] = 1
        begin = ends[group]


@kernel
def is_worse(one: int, other: int, scores: Array) -> bool:
    """Whether place ``one`` leaves before the other."""
    if scores[one] != scores[other]:
        return bool(scores[one] < scores[other])
    return one > other


@kernel
def sift_down(heap: Array, parent: int, scores: Array) -> None:
    """Move the document at ``parent`` down until no child is better than it."""
    while True:
        best = 2 * parent + 1
        if best >= heap.size:
            return
        if best + 1 < heap.size and is_worse(heap[best], heap[best + 1], scores):
            best += 1
        if is_worse(heap[best], heap[parent], scores):
            return
        heap[parent], heap[best] = heap[best], heap[parent]
        parent = best
