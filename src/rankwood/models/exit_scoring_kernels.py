"""Queries through trees with exits, where documents keep their keys from one exit to the next.

Words used here
    slot       a place among the keys: lane ``slot % 8`` of group ``slot // 8``; the first slots hold those in play
    document   of a query, by its place among the query's rows; of equal scores the higher one is the worse
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array
from rankwood.models.exit_kernels import is_worse, sift_down
from rankwood.models.scoring_kernels import (
    BLOCK_KEYS,
    LANES,
    MOST_GROUPS,
    key_of,
    walk_documents,
)

ROUNDING = 1e-9  # a share such as 0.29 of 100 documents is 29 of them, not 28.999…


class Trees(NamedTuple):
    """The trees as scoring reads them: see ``scoring_kernels``."""

    columns: Array
    missing_keys: Array
    offsets: Array
    packed: Array
    left_shift: int
    values: Array


class Exits(NamedTuple):
    """Numbers of trees after which a share leaves, the last of them all trees; what sums are divided by there."""

    stops: Array
    divisors: Array
    base: float
    drop: float


@kernel
def score_queries(
    first: int,
    last: int,
    begins: Array,
    rows: Array,
    bits: Array,
    trees: Trees,
    exits: Exits,
    totals: Array,
    n_trees: Array,
) -> None:
    """Take the documents of queries ``first`` to ``last`` through the trees; at each stop a share of them leaves.

    Query ``q`` has rows ``rows[begins[q]:begins[q + 1]]``.
    """
    longest = 1
    for query in range(first, last):
        longest = max(longest, begins[query + 1] - begins[query])
    n_groups = (longest + LANES - 1) // LANES
    keys = np.zeros((n_groups, LANES * max(1, trees.columns.size)), np.int32)
    places = np.empty(LANES * n_groups, np.int64)
    slots = np.empty(longest, np.int64)
    worst = np.empty(longest, np.int64)
    scores = np.empty(longest, np.float64)
    sums = np.empty(longest, np.float64)
    for query in range(first, last):
        of_query = rows[begins[query] : begins[query + 1]]
        n_in_play = of_query.size
        for document in range(n_in_play):
            slots[document] = document
            fill_slot(document, bits[of_query[document]], trees, keys)
        first_tree = 0
        for stop in range(exits.stops.size):
            last_tree = exits.stops[stop]
            in_play = slots[:n_in_play]
            for slot in range(n_in_play):
                sums[slot] = totals[of_query[in_play[slot]]]
            pass_trees(first_tree, last_tree, trees, keys, places, sums[:n_in_play])
            for slot in range(n_in_play):
                document = in_play[slot]
                row = of_query[document]
                totals[row] = sums[slot]
                scores[document] = sums[slot] / exits.divisors[stop] + exits.base
                n_trees[row] = last_tree
            first_tree = last_tree
            if stop + 1 < exits.stops.size:
                n_leaving = int(exits.drop * n_in_play + ROUNDING)
                choose_worst(n_leaving, in_play, scores, worst[:n_leaving])
                n_in_play = close_gaps(n_leaving, in_play, scores, keys)


@kernel
def fill_slot(slot: int, bits: Array, trees: Trees, keys: Array) -> None:
    """The keys of a document from its bits."""
    group, lane = slot // LANES, slot % LANES
    for column in range(trees.columns.size):
        keys[group, LANES * column + lane] = key_of(
            bits[trees.columns[column]], trees.missing_keys[column]
        )


@kernel
def pass_trees(
    first_tree: int, last_tree: int, trees: Trees, keys: Array, places: Array, sums: Array
) -> None:
    """Add what the trees say about the documents in play to their sums, as many at a time as the cache holds."""
    n_groups = max(1, min(MOST_GROUPS, BLOCK_KEYS // keys.shape[1]))
    for first in range(0, sums.size, LANES * n_groups):
        size = min(LANES * n_groups, sums.size - first)
        of_block = keys[first // LANES :]
        for tree in range(first_tree, last_tree):
            root = trees.offsets[tree]
            n_walking = (size + LANES - 1) // LANES
            walk_documents(trees.packed[root:], of_block, n_walking, trees.left_shift, places)
            for slot in range(size):
                sums[first + slot] += trees.values[root + places[slot]]


@kernel
def choose_worst(n_leaving: int, in_play: Array, scores: Array, worst: Array) -> None:
    """Of the documents in play, give the ``n_leaving`` worst no score."""
    for slot in range(n_leaving):
        worst[slot] = in_play[slot]
    for parent in range(n_leaving // 2 - 1, -1, -1):
        sift_down(worst, parent, scores)
    if n_leaving > 0:
        for slot in range(n_leaving, in_play.size):
            if is_worse(in_play[slot], worst[0], scores):
                worst[0] = in_play[slot]
                sift_down(worst, 0, scores)
    for document in worst:
        scores[document] = np.nan


@kernel
def close_gaps(n_leaving: int, in_play: Array, scores: Array, keys: Array) -> int:
    """Move documents from the last slots into those of documents without a score; gives how many stay."""
    n_staying = in_play.size - n_leaving
    source = in_play.size - 1
    for slot in range(n_staying):
        if not np.isnan(scores[in_play[slot]]):
            continue
        while np.isnan(scores[in_play[source]]):
            source -= 1
        in_play[slot] = in_play[source]
        source -= 1
        group, lane = slot // LANES, slot % LANES
        other, its_lane = (source + 1) // LANES, (source + 1) % LANES
        for column in range(keys.shape[1] // LANES):
            keys[group, LANES * column + lane] = keys[other, LANES * column + its_lane]
    return n_staying
