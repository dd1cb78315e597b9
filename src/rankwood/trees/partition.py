"""Splitting a node: its rows are partitioned among its children, which become leaves.

A partition is stable: the rows of each child keep their ascending order. Rows that go left are moved to the front in
place, the others are copied to a buffer and back. Where the processor has AVX-512, sixteen rows are moved at a time.
"""

from __future__ import annotations

import numpy as np

from rankwood._core.jit import kernel
from rankwood._core.lanes import HAS_LANES, N_LANES, bits_of_most, copy_chosen
from rankwood.binning.bins import MISSING_BIN
from rankwood.trees.splitting import value_of
from rankwood.trees.workspace import GO_LEFT, GO_RIGHT, LEARNED, N_NODES, OWN_CHILD, combine

CODES_AT_ONCE = 1024
LARGEST_BYTE = 0xFF
DEEPEST_POSITION = np.int64(1) << 61  # the positions of children fit into an int64


@kernel
def partition(column, code, side, bag, has_counts, begin, end, work):
    """Put the rows that go left first, those of a child for missing values last; each part keeps its order.

    Returns the first position of the right child, and of the child for missing values. The buffer holds half of the
    tree's rows: a larger node is partitioned in two halves.
    """
    if end - begin <= work.rows.size:
        return partition_at_once(column, code, side, bag, has_counts, begin, end, work)
    half = (begin + end) // 2
    first, _ = partition_at_once(column, code, side, bag, has_counts, begin, half, work)
    second, _ = partition_at_once(column, code, side, bag, has_counts, half, end, work)
    swap(bag, has_counts, first, half, second, work)
    return first + second - half, end


@kernel
def swap(bag, has_counts, first, middle, last, work):
    """Exchange the positions ``first`` to ``middle`` with ``middle`` to ``last``."""
    n_first = middle - first
    for step in range(n_first):
        work.rows[step] = bag.rows[first + step]
        work.packed_targets[step] = bag.packed_targets[first + step]
        if has_counts:
            work.counts[step] = bag.counts[first + step]
    for step in range(last - middle):
        bag.rows[first + step] = bag.rows[middle + step]
        bag.packed_targets[first + step] = bag.packed_targets[middle + step]
        if has_counts:
            bag.counts[first + step] = bag.counts[middle + step]
    put_back(bag, has_counts, last - n_first, n_first, work)


@kernel
def partition_at_once(column, code, side, bag, has_counts, begin, end, work):
    """``partition`` for as many rows as the buffer holds."""
    left = set_apart(column, code, side == GO_LEFT, bag, has_counts, begin, end, work)
    n_right = end - left
    if side != OWN_CHILD:
        put_back(bag, has_counts, left, n_right, work)
        return left, end
    return left, put_back_in_two(column, bag, has_counts, left, n_right, work)


def set_apart_one_by_one(column, code, missing_goes_left, bag, has_counts, begin, end, work):
    """Move the rows that go left to the front and the others to the buffer; return the end of those that go left.

    Adding ``shift`` modulo 256 puts missing values before all other codes, so that one comparison decides.
    """
    left = begin
    right = 0
    shift = np.int64(missing_goes_left)
    limit = code + shift
    for index in range(begin, end):  # branch-free: half of the branches would be mispredicted
        row = bag.rows[index]
        packed = bag.packed_targets[index]
        goes_left = (column[row] + shift) & LARGEST_BYTE <= limit
        bag.rows[left] = row
        bag.packed_targets[left] = packed
        work.rows[right] = row
        work.packed_targets[right] = packed
        if has_counts:
            count = bag.counts[index]
            bag.counts[left] = count
            work.counts[right] = count
        left += goes_left
        right += not goes_left
    return left


def set_apart_by_lanes(column, code, missing_goes_left, bag, has_counts, begin, end, work):
    """The same, sixteen rows at a time; codes are read in large blocks, as loads would wait for the stores."""
    codes = np.empty(CODES_AT_ONCE, np.uint8)
    shift = np.uint8(missing_goes_left)
    limit = np.uint8(code + np.int64(shift))
    left = np.uint64(begin)
    right = np.uint64(0)
    for first in range(np.uint64(begin), np.uint64(end), np.uint64(CODES_AT_ONCE)):
        n_codes = min(np.uint64(CODES_AT_ONCE), np.uint64(end) - first)
        for index in range(n_codes):
            codes[index] = column[bag.rows[first + index]]
        for index in range(np.uint64(0), n_codes, np.uint64(N_LANES)):
            n_rows = min(np.uint64(N_LANES), n_codes - index)
            goes_left = bits_of_most(codes, index, n_rows, shift, limit)
            goes_right = np.uint16((np.uint64(1) << n_rows) - np.uint64(1)) ^ goes_left
            start = first + index
            copy_chosen(bag.packed_targets, start, goes_right, work.packed_targets, right)
            copy_chosen(bag.packed_targets, start, goes_left, bag.packed_targets, left)
            if has_counts:
                copy_chosen(bag.counts, start, goes_right, work.counts, right)
                copy_chosen(bag.counts, start, goes_left, bag.counts, left)
            right += copy_chosen(bag.rows, start, goes_right, work.rows, right)
            left += copy_chosen(bag.rows, start, goes_left, bag.rows, left)
    return np.int64(left)


set_apart = kernel(set_apart_by_lanes if HAS_LANES else set_apart_one_by_one)


@kernel
def put_back(bag, has_counts, index, n_rows, work):
    """Copy the buffer back, behind the rows that went left."""
    for source in range(n_rows):
        bag.rows[index + source] = work.rows[source]
        bag.packed_targets[index + source] = work.packed_targets[source]
    if has_counts:
        for source in range(n_rows):
            bag.counts[index + source] = work.counts[source]


@kernel
def put_back_in_two(column, bag, has_counts, index, n_rows, work):
    """The same, known values before missing ones; return the position of the first missing one."""
    for wants_missing in (False, True):
        if wants_missing:
            first_missing = index
        for source in range(n_rows):
            if (column[work.rows[source]] == MISSING_BIN) == wants_missing:
                bag.rows[index] = work.rows[source]
                bag.packed_targets[index] = work.packed_targets[source]
                if has_counts:
                    bag.counts[index] = work.counts[source]
                index += 1
    return first_missing


# The rows-only variant, for growers that do not move targets: a third of the memory traffic. The codes of the node are
# read first.


@kernel
def read_codes(table, start, step, rows, begin, end, codes):
    """Fill ``codes`` with those of a node's rows; in ``table``, rows are ``step`` bytes apart."""
    for index in range(np.uint64(end - begin)):
        row = np.uint64(rows[np.uint64(begin) + index])
        codes[index] = table[np.uint64(start) + row * np.uint64(step)]


@kernel
def partition_rows(rows, begin, end, codes, code, missing_goes_left, aside):
    """Put the rows that go left first, by their ``codes``; return the first position of the right child."""
    n_left = set_rows_apart(rows, begin, 0, end - begin, codes, code, missing_goes_left, 0, aside)
    put_back_rows(rows, begin + n_left, end, aside)
    return begin + n_left


def set_rows_apart_one_by_one(
    rows, begin, first, last, codes, code, missing_goes_left, n_left, aside
):
    """Move a node's rows ``first`` to ``last`` behind the ``n_left`` that go left already, or to ``aside``.

    Returns how many go left now. Each side keeps its order. Indices are unsigned, which avoids the sign check.
    """
    shift = np.uint8(missing_goes_left)
    limit = np.uint8(code + np.int64(shift))
    start = np.uint64(begin)
    left = np.uint64(n_left)
    for index in range(np.uint64(first), np.uint64(last)):
        row = rows[start + index]
        goes_left = np.uint8(codes[index] + shift) <= limit
        rows[start + left] = row
        aside[index - left] = row
        left += np.uint64(goes_left)
    return np.int64(left)


def set_rows_apart_by_lanes(
    rows, begin, first, last, codes, code, missing_goes_left, n_left, aside
):
    """The same, sixteen rows at a time."""
    shift = np.uint8(missing_goes_left)
    limit = np.uint8(code + np.int64(shift))
    start = np.uint64(begin)
    left = np.uint64(n_left)
    end = np.uint64(last)
    index = np.uint64(first)
    while index < end:
        n_rows = min(np.uint64(N_LANES), end - index)
        goes_left = bits_of_most(codes, index, n_rows, shift, limit)
        goes_right = np.uint16((np.uint64(1) << n_rows) - np.uint64(1)) ^ goes_left
        copy_chosen(rows, start + index, goes_right, aside, index - left)
        left += copy_chosen(rows, start + index, goes_left, rows, start + left)
        index += n_rows
    return np.int64(left)


set_rows_apart = kernel(set_rows_apart_by_lanes if HAS_LANES else set_rows_apart_one_by_one)


@kernel
def put_back_rows(rows, begin, end, aside):
    """Copy ``aside`` back, behind the rows that go left."""
    first = np.uint64(begin)
    for index in range(np.uint64(end - begin)):
        rows[first + index] = aside[index]


# Nodes and their children.


@kernel
def add_node(nodes, work, bag, rules, begin, end, depth, position, path, slot, low, high):
    """Add a leaf that owns the positions ``begin`` to ``end``; return its index."""
    node = work.counters[N_NODES]
    work.counters[N_NODES] += 1
    packed = np.int64(0)
    n_rows = np.int64(0)
    for index in range(begin, end):
        packed += bag.packed_targets[index]
    if rules.has_counts:
        for index in range(begin, end):
            n_rows += bag.counts[index]
    else:
        n_rows = packed & ((np.int64(1) << rules.bits) - 1)
    nodes.begin[node] = begin
    nodes.end[node] = end
    nodes.depth[node] = depth
    nodes.position[node] = position
    nodes.path[node] = path
    nodes.packed_sum[node] = packed
    nodes.n_rows[node] = n_rows
    nodes.slot[node] = slot
    nodes.gain[node] = 0.0
    nodes.feature[node] = -1
    nodes.left[node] = 0
    nodes.right[node] = 0
    nodes.missing[node] = 0
    nodes.number[node] = -1
    nodes.low[node] = low
    nodes.high[node] = high
    return node


@kernel
def split_node(node, matrix, bag, rules, candidates, nodes, work):
    """Turn a leaf into an inner node with two or three leaves, by the split stored in ``nodes``."""
    begin = nodes.begin[node]
    end = nodes.end[node]
    feature = nodes.feature[node]
    side = nodes.side[node]
    column = matrix.columns[feature]
    middle, absent = partition(
        column, nodes.code[node], side, bag, rules.has_counts, begin, end, work
    )
    direction = candidates.direction[feature] if candidates.direction.size > 0 else np.int64(0)
    left = add_child(node, 0, begin, middle, bag, rules, nodes, work)
    right = add_child(node, 1, middle, absent, bag, rules, nodes, work)
    nodes.left[node] = left
    nodes.right[node] = right
    if side == OWN_CHILD:
        nodes.missing[node] = add_child(node, 2, absent, end, bag, rules, nodes, work)
    elif (
        side == LEARNED
    ):  # no value is missing here: the rule, or the larger child, takes later ones
        goes_left = nodes.n_rows[left] >= nodes.n_rows[right]
        if rules.missing_rule in (GO_LEFT, GO_RIGHT):
            goes_left = rules.missing_rule == GO_LEFT
        nodes.side[node] = GO_LEFT if goes_left else GO_RIGHT
        nodes.missing[node] = left if goes_left else right
    else:
        nodes.missing[node] = left if side == GO_LEFT else right
    if direction != 0:
        bound_children(node, left, right, direction, rules, nodes)


@kernel
def add_child(node, which, begin, end, bag, rules, nodes, work):
    """Add the left (0), right (1) or missing (2) child of ``node``."""
    position = child_position(nodes.position[node], which)
    path = combine(nodes.path[node], which)
    depth = nodes.depth[node] + 1
    low = nodes.low[node]
    high = nodes.high[node]
    return add_node(
        nodes, work, bag, rules, begin, end, depth, position, path, np.int64(0), low, high
    )


@kernel
def child_position(position, which):
    """The position of a child in a binary heap; -1 for a child of missing values, or on overflow."""
    is_countable = 0 <= position < DEEPEST_POSITION and which < 2
    return 2 * position + 1 + which if is_countable else np.int64(-1)


@kernel
def bound_children(node, left, right, direction, rules, nodes):
    """Bound the values below a monotone split: neither side may pass the mean of both children's values."""
    low = nodes.low[node]
    high = nodes.high[node]
    middle = value_of(nodes.packed_sum[left], rules.bits, rules.l2, low, high) / 2.0
    middle += value_of(nodes.packed_sum[right], rules.bits, rules.l2, low, high) / 2.0
    smaller = left if direction > 0 else right
    larger = right if direction > 0 else left
    nodes.high[smaller] = middle
    nodes.low[larger] = middle
