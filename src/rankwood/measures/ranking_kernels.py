"""The compiled half of ``ranking.py``: the documents of each list by descending value.

Words used here
    list     the documents of one query: places ``offsets[q]`` to ``offsets[q + 1]``
    place    a position in the grouped data
    order    places, best first; equal values keep their order in the data
"""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array

# So many values are ordered by comparing all pairs: the loop has no branches, so the compiler
# turns it into vector instructions, and up to here it beats any sort.
RUN = 128


@kernel
def rank_run(values: Array, n_values: int, ranks: Array) -> None:
    """How many values stand before each of the first: the greater ones, and the earlier equals."""
    for document in range(n_values):
        value = values[document]
        n_before = 0
        for earlier in range(document):
            n_before += values[earlier] >= value
            ranks[earlier] += values[earlier] < value
        ranks[document] = n_before


@kernel
def merge_runs(
    values: Array, begin: int, middle: int, end: int, source: Array, target: Array
) -> None:
    """Merge the ordered runs [begin, middle) and [middle, end) of ``source`` into ``target``."""
    left = begin
    right = middle
    for rank in range(begin, end):
        takes_left = right >= end or (
            left < middle and values[source[left]] >= values[source[right]]
        )
        if takes_left:
            target[rank] = source[left]
            left += 1
        else:
            target[rank] = source[right]
            right += 1


@kernel
def merge_list(values: Array, begin: int, end: int, scratch: Array, order: Array) -> None:
    """Merge the runs of one list, pair by pair, until one run is left."""
    width = RUN
    while width < end - begin:
        for start in range(begin, end, 2 * width):
            middle = min(start + width, end)
            merge_runs(values, start, middle, min(start + 2 * width, end), order, scratch)
        for place in range(begin, end):
            order[place] = scratch[place]
        width *= 2


@kernel
def order_lists(
    first: int, last: int, offsets: Array, values: Array, scratch: Array, order: Array
) -> None:
    """Write the whole order of each list where the list stands."""
    run = np.empty(RUN, np.float64)
    ranks = np.empty(RUN, np.int64)
    for query in range(first, last):
        end = offsets[query + 1]
        for start in range(offsets[query], end, RUN):
            size = min(RUN, end - start)
            for document in range(size):
                run[document] = values[start + document]
            rank_run(run, size, ranks)
            for document in range(size):
                order[start + ranks[document]] = start + document
        merge_list(values, offsets[query], end, scratch, order)


@kernel
def lower_bound(documents: Array, room: int, piles: Array, ranks: Array) -> float:
    """A value that at least ``room`` documents reach.

    The documents are dealt into twice as many piles; the best of each pile is a document, so the
    ``room``-th best of these will do. It lets few others pass, and costs one pass without branches.
    """
    n_piles = 2 * room
    if documents.size < 2 * n_piles:
        return -np.inf
    for pile in range(n_piles):
        piles[pile] = documents[pile]
    for start in range(n_piles, documents.size - n_piles + 1, n_piles):
        layer = documents[start : start + n_piles]
        for pile in range(n_piles):
            piles[pile] = max(piles[pile], layer[pile])
    rank_run(piles, n_piles, ranks)
    bound = -np.inf
    for pile in range(n_piles):
        if ranks[pile] == room - 1:
            bound = piles[pile]
    return bound


@kernel
def top_lists(
    first: int, last: int, offsets: Array, values: Array, starts: Array, order: Array
) -> None:
    """Write the first places of each list's order; ``starts`` says how many, at most RUN / 4.

    Documents that may be among the best are collected without a branch; when many have come
    together they are ranked, and all but the best are dropped.
    """
    kept = np.empty(RUN, np.float64)
    kept_places = np.empty(RUN, np.int64)
    ranked = np.empty(RUN, np.float64)
    ranked_places = np.empty(RUN, np.int64)
    ranks = np.empty(RUN, np.int64)
    for query in range(first, last):
        begin = offsets[query]
        documents = values[begin : offsets[query + 1]]
        room = starts[query + 1] - starts[query]
        if room == 0:
            continue
        worst = lower_bound(documents, room, ranked, ranks)
        equals_enter = 1  # until there are enough documents that reach the bound
        n_kept = 0
        for document in range(documents.size):
            value = documents[document]
            kept[n_kept] = value
            kept_places[n_kept] = begin + document
            n_kept += int(value > worst) | (equals_enter & int(value == worst))
            if n_kept < RUN and document < documents.size - 1:
                continue
            rank_run(kept, n_kept, ranks)
            for place in range(n_kept):
                ranked[ranks[place]] = kept[place]
                ranked_places[ranks[place]] = kept_places[place]
            n_kept = min(n_kept, room)
            for rank in range(n_kept):
                kept[rank] = ranked[rank]
                kept_places[rank] = ranked_places[rank]
            if n_kept == room:
                equals_enter = 0
                worst = kept[room - 1]
        for rank in range(room):
            order[starts[query] + rank] = kept_places[rank]


@kernel
def average_ties(
    first: int,
    last: int,
    offsets: Array,
    lengths: Array,
    order: Array,
    scores: Array,
    values: Array,
) -> None:
    """Replace the ranked ``values`` of documents with equal scores by their mean, in place."""
    for query in range(first, last):
        begin = offsets[query]
        list_end = begin + lengths[query]
        while begin < list_end:
            score = scores[order[begin]]
            end = begin
            total = 0.0
            while end < list_end and scores[order[end]] == score:
                total += values[end]
                end += 1
            for rank in range(begin, end):
                values[rank] = total / (end - begin)
            begin = end
