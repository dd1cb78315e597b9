"""Splitting a node: its rows go to the children, which become nodes of their own."""

from __future__ import annotations

import numpy as np

from rankwood._core.jit import kernel
from rankwood._core.lanes import HAS_LANES, N_LANES, bits_of_most, copy_chosen
from rankwood.trees.splitting import value_of
from rankwood.trees.workspace import GO_LEFT, GO_RIGHT, LEARNED, MISSING, OWN_CHILD, combine

CODES_AT_ONCE = 1024
DEEPEST_POSITION = np.int64(1) << 61


@kernel
def partition(column, code, side, bag, has_counts, begin, end, work):
    """Put the rows that go left first and those with a child of their own last; each keeps its order.

    Gives the first place of the right child, and of the missing child. A node of more rows than can be set aside, which
    is half of all, is put in order half by half.
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
    """The places ``first`` to ``middle`` and ``middle`` to ``last`` in the other order."""
    n_first = middle - first
    for step in range(n_first):
        work.rows[step] = bag.rows[first + step]
        work.words[step] = bag.words[first + step]
        if has_counts:
            work.counts[step] = bag.counts[first + step]
    for step in range(last - middle):
        bag.rows[first + step] = bag.rows[middle + step]
        bag.words[first + step] = bag.words[middle + step]
        if has_counts:
            bag.counts[first + step] = bag.counts[middle + step]
    put_back(bag, has_counts, last - n_first, n_first, work)


@kernel
def partition_at_once(column, code, side, bag, has_counts, begin, end, work):
    """``partition`` for as many rows as can be set aside."""
    left = set_apart(column, code, side == GO_LEFT, bag, has_counts, begin, end, work)
    n_right = end - left
    if side != OWN_CHILD:
        put_back(bag, has_counts, left, n_right, work)
        return left, end
    return left, put_back_in_two(column, bag, has_counts, left, n_right, work)


def set_apart_one_by_one(column, code, missing_goes_left, bag, has_counts, begin, end, work):
    """Put the rows that go left first, and the others aside; gives the place behind those that go left."""
    left = begin
    right = 0
    turn = np.int64(missing_goes_left)  # by one, and missing comes before all other codes
    limit = code + turn
    for place in range(begin, end):  # without branches: half of them would be guessed wrongly
        row = bag.rows[place]
        word = bag.words[place]
        goes_left = (column[row] + turn) & MISSING <= limit
        bag.rows[left] = row
        bag.words[left] = word
        work.rows[right] = row
        work.words[right] = word
        if has_counts:
            count = bag.counts[place]
            bag.counts[left] = count
            work.counts[right] = count
        left += goes_left
        right += not goes_left
    return left


def set_apart_by_lanes(column, code, missing_goes_left, bag, has_counts, begin, end, work):
    """The same, sixteen rows at a time; their codes are read for many at once, since reading waits for writing."""
    codes = np.empty(CODES_AT_ONCE, np.uint8)
    turn = np.uint8(missing_goes_left)
    limit = np.uint8(code + np.int64(turn))
    left = np.uint64(begin)
    right = np.uint64(0)
    for first in range(np.uint64(begin), np.uint64(end), np.uint64(CODES_AT_ONCE)):
        n_codes = min(np.uint64(CODES_AT_ONCE), np.uint64(end) - first)
        for place in range(n_codes):
            codes[place] = column[bag.rows[first + place]]
        for place in range(np.uint64(0), n_codes, np.uint64(N_LANES)):
            n_rows = min(np.uint64(N_LANES), n_codes - place)
            goes_left = bits_of_most(codes, place, n_rows, turn, limit)
            goes_right = np.uint16((np.uint64(1) << n_rows) - np.uint64(1)) ^ goes_left
            start = first + place
            copy_chosen(bag.words, start, goes_right, work.words, right)
            copy_chosen(bag.words, start, goes_left, bag.words, left)
            if has_counts:
                copy_chosen(bag.counts, start, goes_right, work.counts, right)
                copy_chosen(bag.counts, start, goes_left, bag.counts, left)
            right += copy_chosen(bag.rows, start, goes_right, work.rows, right)
            left += copy_chosen(bag.rows, start, goes_left, bag.rows, left)
    return np.int64(left)


set_apart = kernel(set_apart_by_lanes if HAS_LANES else set_apart_one_by_one)


@kernel
def put_back(bag, has_counts, place, n_rows, work):
    """The rows set aside, behind those that went left."""
    for source in range(n_rows):
        bag.rows[place + source] = work.rows[source]
        bag.words[place + source] = work.words[source]
    if has_counts:
        for source in range(n_rows):
            bag.counts[place + source] = work.counts[source]


@kernel
def put_back_in_two(column, bag, has_counts, place, n_rows, work):
    """The same, known values before missing ones; gives the place of the first missing one."""
    for wants_missing in (False, True):
        if wants_missing:
            first_missing = place
        for source in range(n_rows):
            if (column[work.rows[source]] == MISSING) == wants_missing:
                bag.rows[place] = work.rows[source]
                bag.words[place] = work.words[source]
                if has_counts:
                    bag.counts[place] = work.counts[source]
                place += 1
    return first_missing


@kernel
def add_node(nodes, work, bag, rules, begin, end, depth, position, path, slot, low, high):
    """A new leaf that owns the places ``begin`` to ``end``; gives its number."""
    node = work.size[0]
    work.size[0] += 1
    word = np.int64(0)
    n_rows = np.int64(0)
    for place in range(begin, end):
        word += bag.words[place]
    if rules.has_counts:
        for place in range(begin, end):
            n_rows += bag.counts[place]
    else:
        n_rows = word & ((np.int64(1) << rules.bits) - 1)
    nodes.begin[node] = begin
    nodes.end[node] = end
    nodes.depth[node] = depth
    nodes.position[node] = position
    nodes.path[node] = path
    nodes.word[node] = word
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
    """Turn a leaf into an inner node with two or three leaves, by the split kept in ``nodes``."""
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
    elif side == LEARNED:  # nobody missing here: the rule, or the larger child, takes those to come
        goes_left = nodes.n_rows[left] >= nodes.n_rows[right]
        if rules.missing_rule in (GO_LEFT, GO_RIGHT):
            goes_left = rules.missing_rule == GO_LEFT
        nodes.side[node] = GO_LEFT if goes_left else GO_RIGHT
        nodes.missing[node] = left if goes_left else right
    else:
        nodes.missing[node] = left if side == GO_LEFT else right
    if direction != 0:
        keep_apart(node, left, right, direction, rules, nodes)


@kernel
def add_child(node, which, begin, end, bag, rules, nodes, work):
    """The left (0), right (1) or missing (2) child of ``node``."""
    position = nodes.position[node]
    is_countable = 0 <= position < DEEPEST_POSITION and which < 2
    below = 2 * position + 1 + which if is_countable else np.int64(-1)
    path = combine(nodes.path[node], which)
    depth = nodes.depth[node] + 1
    low = nodes.low[node]
    high = nodes.high[node]
    return add_node(nodes, work, bag, rules, begin, end, depth, below, path, np.int64(0), low, high)


@kernel
def keep_apart(node, left, right, direction, rules, nodes):
    """Below a monotone split the two sides may not pass each other: the mean of their values is the limit."""
    low = nodes.low[node]
    high = nodes.high[node]
    middle = value_of(nodes.word[left], rules.bits, rules.l2, low, high) / 2.0
    middle += value_of(nodes.word[right], rules.bits, rules.l2, low, high) / 2.0
    smaller = left if direction > 0 else right
    larger = right if direction > 0 else left
    nodes.high[smaller] = middle
    nodes.low[larger] = middle
