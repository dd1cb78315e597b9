"""Which rows a node has: partition among its children while a tree grows, and the leaf of every row afterwards.

A split node's rows are partitioned among its children, which become leaves. A partition is stable: the rows of each
child keep their ascending order. Rows that go left are moved to the front in place, the others are copied to a buffer
and back. Where the processor has AVX-512, sixteen rows are moved at a time.

The packed targets decide the splits only. The values of leaves follow from exact sums of the unscaled targets
(``packing.DrawnRows.sum_leaves``), and those of inner nodes from the sums of their children (``sum_inner_nodes``).
"""

from __future__ import annotations

import numpy as np

from rankwood._core.jit import kernel
from rankwood._core.llvm import HAS_LANES, N_LANES, bits_of_most, copy_chosen
from rankwood.binning.bins import MISSING_BIN
from rankwood.trees.splitting import value_of
from rankwood.trees.subsets import step_down_by_subsets
from rankwood.trees.workspace import (
    COMPLETELY_RANDOM,
    GO_LEFT,
    GO_RIGHT,
    LEARNED,
    N_NODES,
    OWN_CHILD,
    combine,
)

CODES_AT_ONCE = 1024
LARGEST_BYTE = 0xFF
DEEPEST_POSITION = np.int64(1) << 61  # the positions of children fit into an int64
BLOCK = 1024  # rows that descend a tree together


@kernel
def partition(column, code, side, bag, begin, end, aside, start, codes):
    """Put the rows that go left first, those of a child for missing values last; each part keeps its order.

    Returns the first position of the right child, and of the child for missing values. Rows are set aside in
    ``aside``, from ``start``; where it has no room for all of the node's rows, it has for half of them, and the node
    is partitioned in two halves.
    """
    if end - begin <= aside.rows.size - start:
        return partition_at_once(column, code, side, bag, begin, end, aside, start, codes)
    half = (begin + end) // 2
    first, _ = partition_at_once(column, code, side, bag, begin, half, aside, start, codes)
    second, _ = partition_at_once(column, code, side, bag, half, end, aside, start, codes)
    swap(bag, first, half, second, aside, start)
    return first + second - half, end


@kernel
def swap(bag, first, middle, last, aside, start):
    """Exchange the positions ``first`` to ``middle`` with ``middle`` to ``last``."""
    n_first = middle - first
    copy_rows(bag, first, n_first, aside, start)
    copy_rows(bag, middle, last - middle, bag, first)
    copy_rows(aside, start, n_first, bag, last - n_first)


@kernel
def copy_rows(bag, index, n_rows, target, to):
    """Copy rows from ``index`` to the front, or to another bag."""
    for step in range(n_rows):
        target.rows[to + step] = bag.rows[index + step]
        target.packed_targets[to + step] = bag.packed_targets[index + step]
    if bag.counts.size > 0:
        for step in range(n_rows):
            target.counts[to + step] = bag.counts[index + step]


@kernel
def partition_at_once(column, code, side, bag, begin, end, aside, start, codes):
    """``partition`` for as many rows as there is room for in ``aside``."""
    left = set_apart(column, code, side == GO_LEFT, bag, begin, end, aside, start, codes)
    n_right = end - left
    if side != OWN_CHILD:
        copy_rows(aside, start, n_right, bag, left)
        return left, end
    return left, put_back_in_two(column, bag, left, n_right, aside, start)


def set_apart_one_by_one(column, code, missing_goes_left, bag, begin, end, aside, start, codes):  # noqa: ARG001 - the other variant needs a buffer for codes
    """Move the rows that go left to the front and the others to ``aside``; return the end of those that go left.

    Adding ``shift`` modulo 256 puts missing values before all other codes, so that one comparison decides.
    """
    left = begin
    right = start
    shift = np.int64(missing_goes_left)
    limit = code + shift
    has_counts = bag.counts.size > 0
    for index in range(begin, end):  # branch-free: half of the branches would be mispredicted
        row = bag.rows[index]
        packed = bag.packed_targets[index]
        goes_left = (column[row] + shift) & LARGEST_BYTE <= limit
        bag.rows[left] = row
        bag.packed_targets[left] = packed
        aside.rows[right] = row
        aside.packed_targets[right] = packed
        if has_counts:
            count = bag.counts[index]
            bag.counts[left] = count
            aside.counts[right] = count
        left += goes_left
        right += not goes_left
    return left


def set_apart_by_lanes(column, code, missing_goes_left, bag, begin, end, aside, start, codes):
    """The same, sixteen rows at a time; codes are read in large blocks, as loads would wait for the stores."""
    shift = np.uint8(missing_goes_left)
    limit = np.uint8(code + np.int64(shift))
    left = np.uint64(begin)
    right = np.uint64(start)
    for first in range(np.uint64(begin), np.uint64(end), np.uint64(CODES_AT_ONCE)):
        n_codes = min(np.uint64(CODES_AT_ONCE), np.uint64(end) - first)
        for index in range(n_codes):
            codes[index] = column[bag.rows[first + index]]
        left, right = deal(
            codes, np.uint64(0), n_codes, shift, limit, bag, first, bag, left, aside, right
        )
    return np.int64(left)


def deal_by_lanes(codes, begin, n_rows, shift, limit, bag, first, to_left, left, to_right, right):
    """Copy rows behind those that go left, or behind the others, by their codes; return the new ends of both."""
    has_counts = bag.counts.size > 0
    for index in range(np.uint64(0), n_rows, np.uint64(N_LANES)):
        n_now = min(np.uint64(N_LANES), n_rows - index)
        goes_left = bits_of_most(codes, begin + index, n_now, shift, limit)
        goes_right = np.uint16((np.uint64(1) << n_now) - np.uint64(1)) ^ goes_left
        source = first + index
        copy_chosen(bag.packed_targets, source, goes_right, to_right.packed_targets, right)
        copy_chosen(bag.packed_targets, source, goes_left, to_left.packed_targets, left)
        if has_counts:
            copy_chosen(bag.counts, source, goes_right, to_right.counts, right)
            copy_chosen(bag.counts, source, goes_left, to_left.counts, left)
        right += copy_chosen(bag.rows, source, goes_right, to_right.rows, right)
        left += copy_chosen(bag.rows, source, goes_left, to_left.rows, left)
    return left, right


def deal_one_by_one(codes, begin, n_rows, shift, limit, bag, first, to_left, left, to_right, right):
    """The same, one row at a time; no other row is overwritten, as it may be another thread's."""
    has_counts = bag.counts.size > 0
    for index in range(n_rows):
        source = first + index
        if (np.int64(codes[begin + index]) + shift) & LARGEST_BYTE <= limit:
            move_row(bag, np.int64(source), has_counts, to_left, np.int64(left))
            left += np.uint64(1)
        else:
            move_row(bag, np.int64(source), has_counts, to_right, np.int64(right))
            right += np.uint64(1)
    return left, right


deal = kernel(deal_by_lanes if HAS_LANES else deal_one_by_one)
set_apart = kernel(set_apart_by_lanes if HAS_LANES else set_apart_one_by_one)


@kernel
def put_back_in_two(column, bag, index, n_rows, aside, start):
    """Copy the rows set aside back, known values before missing ones; return the position of the first missing one."""
    has_counts = bag.counts.size > 0
    for wants_missing in (False, True):
        if wants_missing:
            first_missing = index
        for source in range(start, start + n_rows):
            if (column[aside.rows[source]] == MISSING_BIN) == wants_missing:
                move_row(aside, source, has_counts, bag, index)
                index += 1
    return first_missing


# The partition of a large node, in parts: its rows are moved to the other buffer.


@kernel
def count_sides(column, code, side, bag, begin, end, row_codes, sums):
    """Read the codes of a part of a node's rows; ``sums`` becomes how many go left, right, and to a third child."""
    shift = np.uint8(side == GO_LEFT)
    limit = np.uint8(code + np.int64(shift))
    n_left = np.int64(0)
    n_missing = np.int64(0)
    for index in range(np.uint64(begin), np.uint64(end)):
        value = column[bag.rows[index]]
        row_codes[index] = value
        n_left += np.uint8(value + shift) <= limit
        n_missing += value == MISSING_BIN
    sums[0] = n_left
    sums[2] = n_missing if side == OWN_CHILD else 0
    sums[1] = end - begin - n_left - sums[2]


@kernel
def move_part(code, side, bag, begin, end, row_codes, other, starts):
    """Move a part of a node's rows to the other buffer: those that go left to ``starts[0]``, and so on."""
    if side != OWN_CHILD:
        shift = np.uint8(side == GO_LEFT)
        limit = np.uint8(code + np.int64(shift))
        first = np.uint64(begin)
        left, right = np.uint64(starts[0]), np.uint64(starts[1])
        deal(
            row_codes,
            first,
            np.uint64(end) - first,
            shift,
            limit,
            bag,
            first,
            other,
            left,
            other,
            right,
        )
        return
    has_counts = bag.counts.size > 0
    left, right, missing = starts[0], starts[1], starts[2]
    for index in range(begin, end):
        value = row_codes[index]
        if value == MISSING_BIN:
            move_row(bag, index, has_counts, other, missing)
            missing += 1
        elif value <= code:
            move_row(bag, index, has_counts, other, left)
            left += 1
        else:
            move_row(bag, index, has_counts, other, right)
            right += 1


@kernel
def move_row(bag, index, has_counts, target, to):
    """Copy one row."""
    target.rows[to] = bag.rows[index]
    target.packed_targets[to] = bag.packed_targets[index]
    if has_counts:
        target.counts[to] = bag.counts[index]


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
def sum_rows(bag, begin, end, rules):
    """The packed sum of some positions, and the rows drawn."""
    packed = np.int64(0)
    for index in range(begin, end):
        packed += bag.packed_targets[index]
    if not rules.has_counts:
        return packed, packed & ((np.int64(1) << rules.bits) - 1)
    n_rows = np.int64(end - begin)
    if bag.counts.size > 0:
        n_rows = np.int64(0)
        for index in range(begin, end):
            n_rows += bag.counts[index]
    return packed, n_rows


@kernel
def add_node(nodes, work, begin, end, packed, n_rows):
    """Add a leaf that owns the positions ``begin`` to ``end`` of buffer 0, as a root; return its index."""
    node = work.counters[N_NODES]
    work.counters[N_NODES] += 1
    nodes.begin[node] = begin
    nodes.end[node] = end
    nodes.buffer[node] = 0
    nodes.packed_sum[node] = packed
    nodes.n_rows[node] = n_rows
    nodes.depth[node] = 0
    nodes.position[node] = 0
    nodes.slot[node] = 0
    nodes.gain[node] = 0.0
    nodes.feature[node] = -1
    nodes.left[node] = 0
    nodes.right[node] = 0
    nodes.missing[node] = 0
    nodes.number[node] = -1
    nodes.low[node] = -np.inf
    nodes.high[node] = np.inf
    return node


@kernel
def add_children(node, middle, absent, buffer, bag, rules, candidates, nodes, work):
    """Turn a leaf into an inner node with two or three leaves, whose rows are partitioned in ``buffer``."""
    begin = nodes.begin[node]
    end = nodes.end[node]
    if rules.threshold_rule == COMPLETELY_RANDOM:  # it was split without sums
        of_left = sum_rows(bag, begin, middle, rules)
        of_missing = sum_rows(bag, absent, end, rules)
        nodes.left_sum[node], nodes.left_rows[node] = of_left
        nodes.missing_sum[node], nodes.missing_rows[node] = of_missing
    left_sum, left_rows = nodes.left_sum[node], nodes.left_rows[node]
    missing_sum, missing_rows = nodes.missing_sum[node], nodes.missing_rows[node]
    right_sum = nodes.packed_sum[node] - left_sum - missing_sum
    right_rows = nodes.n_rows[node] - left_rows - missing_rows
    left = add_child(node, 0, begin, middle, buffer, left_sum, left_rows, nodes, work)
    right = add_child(node, 1, middle, absent, buffer, right_sum, right_rows, nodes, work)
    nodes.left[node] = left
    nodes.right[node] = right
    side = nodes.side[node]
    if side == OWN_CHILD:
        nodes.missing[node] = add_child(
            node, 2, absent, end, buffer, missing_sum, missing_rows, nodes, work
        )
    elif (
        side == LEARNED
    ):  # no value is missing here: the rule, or the larger child, takes later ones
        goes_left = left_rows >= right_rows
        if rules.missing_rule in (GO_LEFT, GO_RIGHT):
            goes_left = rules.missing_rule == GO_LEFT
        nodes.side[node] = GO_LEFT if goes_left else GO_RIGHT
        nodes.missing[node] = left if goes_left else right
    else:
        nodes.missing[node] = left if side == GO_LEFT else right
    feature = nodes.feature[node]
    for group in range(candidates.groups.shape[0]):
        is_open = work.open_groups[node, group] and candidates.groups[group, feature]
        for child in range(left, max(right, nodes.missing[node]) + 1):
            work.open_groups[child, group] = is_open
    direction = candidates.direction[feature] if candidates.direction.size > 0 else np.int64(0)
    if direction != 0:
        bound_children(node, left, right, direction, rules, nodes)


@kernel
def add_child(node, which, begin, end, buffer, packed, n_rows, nodes, work):
    """Add the left (0), right (1) or missing (2) child of ``node``."""
    child = add_node(nodes, work, begin, end, packed, n_rows)
    nodes.buffer[child] = buffer
    nodes.depth[child] = nodes.depth[node] + 1
    nodes.position[child] = child_position(nodes.position[node], which)
    nodes.path[child] = combine(nodes.path[node], which)
    nodes.low[child] = nodes.low[node]
    nodes.high[child] = nodes.high[node]
    return child


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
    middle = value_of(nodes.packed_sum[left], rules, low, high) / 2.0
    middle += value_of(nodes.packed_sum[right], rules, low, high) / 2.0
    smaller = left if direction > 0 else right
    larger = right if direction > 0 else left
    nodes.high[smaller] = middle
    nodes.low[larger] = middle


@kernel
def sum_inner_nodes(left, right, missing, sums, weight_sums):
    """Fill the sums of inner nodes with those of their children, which have higher numbers."""
    for node in range(left.size - 1, -1, -1):
        if left[node] == 0:
            continue
        sums[node] = sums[left[node]] + sums[right[node]]
        weight_sums[node] = weight_sums[left[node]] + weight_sums[right[node]]
        if missing[node] != left[node] and missing[node] != right[node]:
            sums[node] += sums[missing[node]]
            weight_sums[node] += weight_sums[missing[node]]


@kernel
def look_up_cuts(feature, code, offsets, thresholds, cuts):
    """Look up the threshold of every node from its code; 0 in leaves."""
    last = thresholds.size - 1
    for node in range(feature.size):
        is_inner = feature[node] >= 0
        index = min(offsets[max(feature[node], 0)] + code[node], last)
        cuts[node] = thresholds[index] if is_inner else np.float32(0.0)


@kernel
def mark_leaves(rows, begin, end, left, leaf_of_row):
    """Write the leaf of every row of the bag, by row of the matrix."""
    for node in range(left.size):
        if left[node] == 0:
            for index in range(begin[node], end[node]):
                leaf_of_row[rows[index]] = node


@kernel
def mark_sources(rows, begin, end, left, source_of_row, leaf_of_source):
    """As ``mark_leaves`` by source, for a tree that has all rows."""
    for node in range(left.size):
        if left[node] == 0:
            for index in range(begin[node], end[node]):
                leaf_of_source[source_of_row[rows[index]]] = node


@kernel
def by_source(source_of_row, leaf_of_row, leaf_of_source):
    """Turn leaves by row of the matrix into leaves by source."""
    for row in range(source_of_row.size):
        leaf_of_source[source_of_row[row]] = leaf_of_row[row]


@kernel
def route(first, last, columns, feature, code, left, right, missing, subsets, leaf_of_row):
    """Find the leaf of each row from ``first`` to ``last`` whose leaf is not known yet (-1).

    A block of rows descends together, one level at a time: loads of different rows overlap, no branch is mispredicted,
    and neighbouring rows read the same columns. ``subsets`` are the categories that go left by node, if there are any.
    """
    rows = np.empty(last - first + 1, np.uint32)
    n_rows = 0
    for row in range(first, last):
        rows[n_rows] = row
        n_rows += leaf_of_row[row] < 0
    nodes = np.empty((left.size, 5), np.int64)
    pack_nodes(feature, code, left, right, missing, columns.shape[1], nodes)
    codes = columns.reshape(columns.size)
    reached = np.empty(BLOCK, np.int32)
    for begin in range(0, n_rows, BLOCK):
        block = rows[begin : min(begin + BLOCK, n_rows)]
        n_left = block.size
        for index in range(n_left):
            reached[index] = 0
            leaf_of_row[block[index]] = 0
        while n_left > 0 and left[0] != 0:
            if subsets.shape[0] == 0:
                n_left = step_down(codes, nodes, block, reached, n_left, leaf_of_row)
            else:
                n_left = step_down_by_subsets(
                    codes, nodes, subsets, block, reached, n_left, leaf_of_row
                )


@kernel
def pack_nodes(feature, code, left, right, missing, n_rows, nodes):
    """By node: the offset of its feature's column (-1 in a leaf), its code, and its three children."""
    for node in range(left.size):
        nodes[node, 0] = np.int64(feature[node]) * n_rows if left[node] != 0 else np.int64(-1)
        nodes[node, 1] = code[node]
        nodes[node, 2] = left[node]
        nodes[node, 3] = right[node]
        nodes[node, 4] = missing[node]


@kernel
def step_down(codes, nodes, rows, reached, n_rows, leaf_of_row):
    """Move each row one level down; return how many are not in a leaf yet, which become the first of ``rows``."""
    n_left = 0
    for index in range(n_rows):
        row = np.uint64(rows[index])
        node = np.uint64(reached[index])
        value = codes[np.uint64(nodes[node, 0]) + row]
        child = nodes[node, 2] if value <= nodes[node, 1] else nodes[node, 3]
        node = np.uint64(nodes[node, 4] if value == MISSING_BIN else child)
        leaf_of_row[row] = node
        rows[n_left] = row
        reached[n_left] = node
        n_left += nodes[node, 0] >= 0
    return n_left
