"""What the growing kernels pass to each other, and the hash that is their only source of randomness.

Words used here
    row       a row of the binned matrix, as it is laid out
    source    the same row as the caller counts it: ``matrix.source_of_row[row]``
    place     a position in the tree's own list of rows; a node owns the places ``begin`` to ``end``
    word      target sum and weight of some rows, packed into one int64: ``sum << bits | weight``
    slot      a row of the histogram pool
    code      the bin of a value; ``MISSING`` where there is none
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankwood._core.jit import kernel
from rankwood.dtypes import Array

MISSING = 255
NO_SPLIT = -1

BEST, RANDOM, COMPLETELY_RANDOM = 0, 1, 2  # how a threshold is chosen
LEARNED, GO_LEFT, GO_RIGHT, OWN_CHILD = 0, 1, 2, 3  # where missing values go


class Matrix(NamedTuple):
    """The binned data: a contiguous column per feature, rows that are alike near each other."""

    columns: Array  # uint8 (features, rows)
    heads: Array  # uint8 (rows, features): the first features once more, row by row; no rows: there are none
    source_of_row: Array  # int32 (rows)
    n_bins: Array  # int64 (features): value bins
    thresholds: Array  # float32: cut points of all features end to end
    offsets: Array  # int64 (features + 1)


class GrowthRules(NamedTuple):
    """The policies, lowered to numbers; sums and gains are in the integer units of the words."""

    max_leaves: int
    max_depth: int
    min_leaf: int
    min_split: int  # different rows that a node needs to be split, however often they were drawn
    n_candidates: int  # features looked at per node
    threshold_rule: int
    missing_rule: int
    bits: int  # of a word that hold the weight
    has_counts: (
        bool  # weights are not row counts: rows are counted apart, where a split depends on them
    )
    can_subtract: (
        bool  # every node looks at the same features: a child is its parent minus its sibling
    )
    l2: float
    min_gain: float
    min_weight: float  # of each child
    likely_gain: float  # splits that gain as much are made as soon as they are found
    most_explored: int  # nodes, as long as splits are made before it is their turn
    stream: int  # what the hash starts from


class Candidates(NamedTuple):
    """What is known of each feature before growing."""

    probability: Array  # float64 (features) of being drawn; empty: all alike
    given: Array  # int64: the feature of each node position, root first; empty: drawn
    penalty: Array  # float64 (features), subtracted from the gain
    direction: Array  # int64 (features): 1 rising, -1 falling, 0 free; empty: all free


class Bag(NamedTuple):
    """The tree's rows. Places are reordered as nodes split, and stay ascending by row within a node."""

    rows: Array  # uint32
    words: Array  # int64
    counts: Array  # int64 rows drawn at each place; empty unless rules.has_counts


# The growing tree: a record array as long as the tree may get, read as nodes.begin[node].
NODE = np.dtype(
    [
        ("begin", np.int64),
        ("end", np.int64),
        ("word", np.int64),
        ("n_rows", np.int64),  # rows drawn, duplicates counted
        ("path", np.uint64),  # hash of the way from the root
        (
            "position",
            np.int64,
        ),  # as in a heap: children of p are 2p + 1 and 2p + 2; -1 where int64 ends
        ("depth", np.int64),
        ("slot", np.int64),
        ("gain", np.float64),
        ("feature", np.int64),
        ("code", np.int64),  # of the best split: codes up to this go left
        ("side", np.int64),  # of the missing values: GO_LEFT, GO_RIGHT or OWN_CHILD
        ("left", np.int64),
        ("right", np.int64),
        ("missing", np.int64),
        ("number", np.int64),  # in the tree; -1 while it is not part of it
        ("low", np.float64),  # what a monotone ancestor allows as value, in integer units
        ("high", np.float64),
    ]
)


class Work(NamedTuple):
    """Scratch space, used again for every node."""

    histograms: Array  # int64 (slots, candidates, 256)
    bin_counts: Array  # int64 (256): rows of one feature by bin, if rules.has_counts
    features: Array  # int64 (candidates) of the node at hand
    gains: Array  # float64 (candidates)
    codes: Array  # int64 (candidates)
    sides: Array  # int64 (candidates)
    is_counted: (
        Array  # bool (candidates): whether the split at hand leaves enough rows on each side
    )
    keys: Array  # float64 (features), for drawing by probability
    rows: Array  # uint32, half as long as the bag; as long where missing values have children of their own
    words: Array
    counts: Array
    heap: Array  # int64: leaves that can be split, the best first
    waiting: Array  # int64: nodes that will be split before it is their turn
    size: Array  # int64 (5): nodes, leaves, entries of the heap, slots taken, numbers given


@kernel
def mix(value: Any) -> Any:
    """A 64-bit finaliser (Stafford's variant 13, as in SplitMix64): equal bits in, equal bits out."""
    value = np.uint64(value)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@kernel
def combine(one: Any, other: Any) -> Any:
    """A hash of two numbers, in this order."""
    return mix(np.uint64(one) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(other) + np.uint64(1))


@kernel
def uniform(one: Any, other: Any) -> Any:
    """A number in [0, 1) that depends on two numbers only."""
    return np.float64(combine(one, other) >> np.uint64(11)) * (1.0 / 9007199254740992.0)  # 2^-53
