"""The arrays that the growing kernels share, and the hash that is their only source of randomness.

Terms
    row            a row of the binned matrix, in the matrix's own order
    source         the same row as the caller numbers it: ``matrix.source_of_row[row]``
    position       an index into the tree's own list of rows; a node owns the positions ``begin`` to ``end``
    packed target  target and weight of one row, or of several rows summed, in one int64: ``target << bits | weight``
    slot           an entry of the pool of histograms
    code           the bin of a value; ``MISSING_BIN`` where the value is missing
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankwood._core.jit import borrowing, kernel
from rankwood.dtypes import Array

NO_SPLIT = -1
NO_NODE = -1

BEST, RANDOM, COMPLETELY_RANDOM = 0, 1, 2  # how a threshold is chosen
LEARNED, GO_LEFT, GO_RIGHT, OWN_CHILD = 0, 1, 2, 3  # where missing values go

OWN, LARGER = np.int64(0), np.int64(1)  # which leaf the results of a search belong to

# What the entries of ``Work.counters`` count.
N_NODES = 0  # nodes in the record array, whether they are part of the tree or not
N_LEAVES = 1  # leaves of the tree
HEAP_SIZE = 2  # leaves in the heap
LAST_SLOT = 3  # the histogram slot that was given out last
N_NUMBERED = 4  # nodes that are part of the tree
N_CANDIDATES = 5  # features that the leaf in hand searches
N_COUNTERS = 6

N_WORDS = 4  # of 64 bits, in a set of categories


class Matrix(NamedTuple):
    """The binned data: one contiguous column per feature, with similar rows near each other."""

    columns: Array  # uint8 (features, rows)
    row_major_prefix: Array  # uint8 (rows, first features): a second copy, row by row; may be empty
    source_of_row: Array  # int32 (rows)
    n_bins: Array  # int64 (features): value bins
    thresholds: Array  # float32: cut points of all features end to end
    offsets: Array  # int64 (features + 1)
    is_categorical: (
        Array  # bool (features): codes are categories, without an order; empty: none are
    )


class GrowthRules(NamedTuple):
    """The policies as numbers. Sums and gains are in the integer units of the packed targets."""

    max_leaves: int
    max_depth: int
    min_leaf: int
    min_split: int  # distinct rows that a node needs to be split
    n_candidates: int  # features searched per node
    n_groups: int  # of features that may meet on a path; 0: all may
    threshold_rule: int
    missing_rule: int
    bits: int  # of a packed target that hold the weight
    has_counts: bool  # weights are not row counts, so rows are counted separately
    can_subtract: (
        bool  # all nodes search the same features: a child is its parent minus its sibling
    )
    l2: float
    l1: float
    min_gain: float
    min_weight: float  # of each child
    category_rows: float  # with fewer rows in a node, categories are taken together
    category_smoothing: float  # rows of the node's mean that are added to each category's
    likely_gain: float  # splits that gain at least this are made as soon as they are found
    most_explored: int  # nodes in the record array, beyond which no split is made early
    least_shared: int  # sums in the search of a leaf, from which on a team shares it
    least_part: int  # rows in each part of a node that a team shares by rows
    stream: int  # the seed of the hash


class Candidates(NamedTuple):
    """What is known of each feature before the tree grows."""

    probability: Array  # float64 (features) of being drawn; empty: uniform
    given: Array  # int64: the feature of each node position, root first; empty: drawn
    penalty: Array  # float64 (features), subtracted from the gain
    direction: Array  # int64 (features): 1 rising, -1 falling, 0 free; empty: all free
    of_tree: Array  # int64: the features that the tree may split on, ascending; empty: all
    groups: Array  # bool (groups, features): features that may meet on a path; no groups: all may


class Bag(NamedTuple):
    """The rows of the tree. Splits reorder them; within a node rows stay in ascending order."""

    rows: Array  # uint32
    packed_targets: Array  # int64
    counts: Array  # int64: how often each row was drawn; empty if once, or unless rules.has_counts


# The growing tree: a record array as long as the tree may get, read as nodes.begin[node].
NODE = np.dtype(
    [
        ("begin", np.int64),
        ("end", np.int64),
        ("buffer", np.int64),  # that holds its rows: 0, the bag's, or 1, the other one
        ("packed_sum", np.int64),  # sum of the packed targets of the node's rows
        ("n_rows", np.int64),  # rows drawn, duplicates counted
        ("path", np.uint64),  # hash of the path from the root
        (
            "position",
            np.int64,
        ),  # in a binary heap: children of p are 2p + 1, 2p + 2; -1 on overflow
        ("depth", np.int64),
        ("slot", np.int64),
        ("gain", np.float64),
        ("feature", np.int64),
        ("code", np.int64),  # of the best split: codes up to this go left
        ("side", np.int64),  # of the missing values: GO_LEFT, GO_RIGHT or OWN_CHILD
        ("left_sum", np.int64),  # of the best split: the left child's packed_sum and n_rows,
        ("left_rows", np.int64),
        ("missing_sum", np.int64),  # and those of a child for missing values, else 0
        ("missing_rows", np.int64),
        ("left", np.int64),
        ("right", np.int64),
        ("missing", np.int64),
        ("number", np.int64),  # of the node in the tree; -1 while it is not part of the tree
        ("leaf", np.int64),  # the number of the leaf that its rows are in
        ("low", np.float64),  # bounds that monotone ancestors put on the value, in integer units
        ("high", np.float64),
    ]
)


class Work(NamedTuple):
    """Scratch space that is used again for every node.

    Arrays by candidate have two rows: ``OWN`` for the leaf that is searched, ``LARGER`` for its larger sibling.
    """

    histograms: Array  # int64 (slots, candidates, 256)
    parts: Array  # int64 (parts - 1, candidates, 256): histograms of parts of a node's rows
    bin_counts: Array  # int64 (parts, 256): rows of one feature by bin, if rules.has_counts
    features: Array  # int64 (candidates) of the current node
    gains: Array  # float64 (2, candidates)
    subsets: Array  # uint64 (2, candidates, 4): categories that go left; empty without categories
    node_subsets: Array  # uint64 (nodes, 4): those of the nodes' splits
    mapped: Array  # uint8, by row: 0 where its category goes left, 1 where it goes right
    mapped_column: Array  # the same memory, read-only as the columns of the matrix are
    codes: Array  # int64 (2, candidates)
    sides: Array  # int64 (2, candidates)
    is_counted: Array  # bool (2, candidates): whether the candidate's split respects min_leaf
    left_rows: Array  # int64 (2, candidates): rows on the left of the split, if it is counted
    missing_rows: Array  # int64 (2, candidates): rows in a child for missing values
    cuts: (
        Array  # int64 (blocks, 3 or 6, 256): of a feature, sums and rows on the left, and bits of scores;
        # of categories also their sums and rows in the order of their means, and their places in it
    )
    keys: Array  # float64 (features), for drawing by probability
    allowed: Array  # int64 (features): those that the node may split on, where not all may
    open_groups: Array  # bool (nodes, groups): whether all features above a node are of the group
    rows: Array  # uint32: rows set aside by a split, or the other buffer of a team
    packed_targets: Array  # int64, of these rows
    counts: Array  # int64, of these rows
    row_codes: Array  # uint8: of a node that is partitioned; by position, if a team does it
    part_sums: Array  # int64 (parts, 3): what is known of each part of a node's rows
    leaf_of_row: Array  # int32, of a team: leaves by source, or by row if the bag has not all rows
    heap: Array  # int64: leaves that can be split, the best first
    waiting: Array  # int64: a stack of nodes to be split early
    counters: Array  # int64 (N_COUNTERS)


def no_subsets() -> Array:
    """The sets of categories of a tree that tests none."""
    return np.zeros((0, N_WORDS), np.uint64)


def bits_of_subsets(subsets: Array) -> Array:
    """Whether each category is in each subset: bool, subsets × 256."""
    words = subsets.astype("<u8").view(np.uint8)
    bits: Array = np.unpackbits(words, axis=1, bitorder="little").astype(bool)
    return bits


@kernel
@borrowing
def bag_of(buffer: Any, bag: Any, work: Any) -> Any:
    """The rows of buffer 0 or 1, with their packed targets and counts; only borrowing kernels may call it."""
    if buffer == 0:
        return bag
    return Bag(work.rows, work.packed_targets, work.counts)


@kernel
def mix(value: Any) -> Any:
    """A 64-bit finalizer (Stafford's variant 13, as in SplitMix64)."""
    value = np.uint64(value)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@kernel
def combine(one: Any, other: Any) -> Any:
    """A hash of two numbers, which depends on their order."""
    return mix(np.uint64(one) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(other) + np.uint64(1))


@kernel
def uniform(one: Any, other: Any) -> Any:
    """A number in [0, 1) that depends on two numbers only."""
    return np.float64(combine(one, other) >> np.uint64(11)) * (1.0 / 9007199254740992.0)  # 2^-53
