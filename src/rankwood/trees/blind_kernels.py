"""Completely random splits: a feature and a cut that look at no target.

A tree without a limit of leaves grows by ``grow_blindly``: depth first, so that a small node's rows are still in the
cache when it is split, and moving nothing but the rows' numbers. Rows that the tree has not drawn go down beside those
it has, behind them in every node, so that the leaves of all are known in the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array
from rankwood.trees.splitting_kernels import cut_between
from rankwood.trees.state_kernels import (
    GO_LEFT,
    GO_RIGHT,
    LEARNED,
    MISSING,
    NO_SPLIT,
    combine,
    mix,
    uniform,
)

ROOT = 0
SMALL = 40  # a node of less than one row in so many reads heads

# The growing tree: a record array as long as the tree may get.
BLIND_NODE = np.dtype(
    [
        ("path", np.uint64),  # hash of the way from the root
        ("n_rows", np.int64),  # rows drawn, duplicates counted; known when the tree is grown
        ("begin", np.int32),  # its places in the list of rows
        ("end", np.int32),
        ("n_drawn", np.int32),  # of them, the first, that were drawn; the others go down with them
        ("depth", np.int32),
        ("left", np.int32),  # the right child is the next; 0 in a leaf
        ("feature", np.int32),
        ("code", np.uint8),
        ("side", np.uint8),  # of the missing values
    ],
    align=True,
)


class BlindSpace(NamedTuple):
    """Scratch space of a completely random tree."""

    words: Array  # int64, by row of the matrix; only those of rows drawn are set
    counts: Array  # int64, the same; empty unless rules.has_counts
    aside: Array  # uint32, as long as the list of rows
    codes: Array  # uint8, the same: of the node at hand
    weighed: Array  # uint8, the same: of its rows that weigh anything
    waiting: Array  # int64: nodes to be looked at


class Splits(NamedTuple):
    """A grown tree by node, as ``Tree`` has it, and the places of its rows."""

    feature: Array  # int32; -1 in a leaf
    code: Array  # uint8; 0 in a leaf
    left: Array  # int32; 0 in a leaf
    right: Array
    missing: Array
    gain: Array  # float64, in integer units; of any value in a leaf
    begin: Array  # int64
    end: Array


@kernel
def grow_blindly(matrix, bag, rows, rules, nodes, space):
    """Split every node that can be, in any order; gives their number. ``rows`` are those of the bag and, behind, others."""
    plant_blindly(bag, rows, rules, nodes, space)
    waiting = space.waiting
    waiting[0] = ROOT
    n_waiting = 1
    n_nodes = 1
    while n_waiting > 0:
        n_waiting -= 1
        node = waiting[n_waiting]
        own = rows[nodes.begin[node] : nodes.end[node]]
        if is_worth_a_split(node, own, rules, nodes, space) and draw_split(
            node, matrix, own, rules, nodes, space
        ):
            divide(node, n_nodes, own, rules, nodes, space)
            waiting[n_waiting] = n_nodes + 1
            waiting[n_waiting + 1] = n_nodes
            n_waiting += 2
            n_nodes += 2
    count_rows(nodes[:n_nodes], rows, rules, space)
    return n_nodes


@kernel
def plant_blindly(bag, rows, rules, nodes, space):
    """The root with all rows, and what is known of each row where it can be looked up."""
    for place in range(bag.rows.size):
        row = bag.rows[place]
        space.words[row] = bag.words[place]
        if rules.has_counts:
            space.counts[row] = bag.counts[place]
    path = mix(np.uint64(rules.stream))
    add_blind_node(nodes, ROOT, path, 0, rows.size, bag.rows.size, 0)


@kernel
def add_blind_node(nodes, node, path, begin, end, n_drawn, depth):
    """A leaf, for now."""
    nodes.path[node] = path
    nodes.begin[node] = begin
    nodes.end[node] = end
    nodes.n_drawn[node] = n_drawn
    nodes.depth[node] = depth
    nodes.left[node] = 0


@kernel
def is_worth_a_split(node, rows, rules, nodes, space):
    """Whether depth and rows allow a split and the targets are not all alike."""
    n_drawn = nodes.n_drawn[node]
    if n_drawn < rules.min_split or nodes.depth[node] >= rules.max_depth:
        return False
    least = 2 * rules.min_leaf
    if n_drawn < least and count_drawn(rows[:n_drawn], rules, space) < least:
        return False
    mask = (np.int64(1) << rules.bits) - 1
    total = np.int64(0)
    weight = np.int64(0)
    for place in range(n_drawn):
        word = space.words[rows[place]]
        if weight == 0:  # so far all rows are too light to compare with
            total = word >> rules.bits
            weight = word & mask
        elif (word >> rules.bits) * weight != total * (word & mask):
            return True
    return False


@kernel
def count_drawn(rows, rules, space):
    """How many rows were drawn, duplicates counted."""
    n_rows = np.int64(0)
    if rules.has_counts:
        for place in range(rows.size):
            n_rows += space.counts[rows[place]]
    else:
        mask = (np.int64(1) << rules.bits) - 1
        for place in range(rows.size):
            n_rows += space.words[rows[place]] & mask
    return n_rows


@kernel
def draw_split(node, matrix, rows, rules, nodes, space):
    """A random feature that varies in the node, cut at random; gives whether there is one.

    The codes of the node's rows are left in ``space.codes``.
    """
    path = nodes.path[node]
    n_features = matrix.columns.shape[0]
    for attempt in range(4 * n_features):
        feature = draw_feature(path, attempt, n_features)
        read_codes(feature, matrix, rows, space.codes)
        known = space.codes[: nodes.n_drawn[node]]
        if rules.has_counts:
            known = keep_weighed(known, rows, space)
        least, most, is_absent = range_of(known)
        code = draw_cut(path, attempt, feature, least, most, matrix)
        if code != NO_SPLIT:
            nodes.feature[node] = feature
            nodes.code[node] = code
            nodes.side[node] = draw_side(path, attempt) if is_absent else LEARNED
            return True
    return False


@kernel
def draw_feature(path, attempt, n_features):
    """The feature to try; some 2 % of the features are missed by ``4 * n_features`` attempts, if only one varies."""
    return np.int64(uniform(path, attempt) * n_features)


@kernel
def draw_cut(path, attempt, feature, least, most, matrix):
    """A cut between two codes of the feature; NO_SPLIT where there is no other."""
    thresholds = matrix.thresholds[matrix.offsets[feature] : matrix.offsets[feature + 1]]
    draw = uniform(path, attempt + 4 * matrix.columns.shape[0])
    return cut_between(least, most, thresholds, draw)


@kernel
def draw_side(path, attempt):
    """Where missing values go: a coin is thrown."""
    return GO_LEFT + np.int64(combine(path, attempt) & np.uint64(1))


@kernel
def read_codes(feature, matrix, rows, codes):
    """Fill ``codes`` with those of the rows; a small node's from the heads, which its descendants will find near."""
    heads = matrix.heads
    if rows.size * SMALL < heads.shape[0] and feature < heads.shape[1]:
        flat = heads.reshape(heads.size)
        width = np.uint64(heads.shape[1])
        start = np.uint64(feature)
        for place in range(rows.size):
            codes[place] = flat[np.uint64(rows[place]) * width + start]
        return
    column = matrix.columns[feature]
    for place in range(rows.size):
        codes[place] = column[rows[place]]


@kernel
def keep_weighed(codes, rows, space):
    """The codes of the rows that weigh anything."""
    n_weighed = 0
    for place in range(codes.size):
        space.weighed[n_weighed] = codes[place]
        n_weighed += space.words[rows[place]] != 0
    return space.weighed[:n_weighed]


@kernel
def range_of(codes):
    """Least and greatest code, and whether any is missing; in bytes, many of which are compared at once."""
    least = np.uint8(MISSING)
    least_turned = np.uint8(MISSING)
    most_turned = np.uint8(0)
    for place in range(codes.size):
        code = codes[place]
        turned = np.uint8(code + np.uint8(1))  # missing comes before all other codes
        least = min(least, code)
        least_turned = min(least_turned, turned)
        most_turned = max(most_turned, turned)
    return np.int64(least), np.int64(most_turned) - 1, least_turned == 0


@kernel
def divide(node, left, rows, rules, nodes, space):
    """Turn the node into an inner one with the children ``left`` and ``left + 1``; its rows go to them."""
    n_drawn = np.int64(nodes.n_drawn[node])
    side = nodes.side[node]
    code = np.int64(nodes.code[node])
    drawn_left = set_apart_by_code(rows, space, code, side == GO_LEFT, 0, n_drawn, 0)
    drawn_right = n_drawn - drawn_left
    if side == LEARNED and is_any_missing(space.codes[n_drawn : rows.size]):
        n_left = count_drawn(rows[:drawn_left], rules, space)
        n_right = count_drawn(space.aside[:drawn_right], rules, space)
        side = side_of_unseen(n_left, n_right, rules.missing_rule)
    n_left = set_apart_by_code(rows, space, code, side == GO_LEFT, n_drawn, rows.size, drawn_left)
    for place in range(rows.size - n_left):
        rows[n_left + place] = space.aside[place]
    path = nodes.path[node]
    begin = np.int64(nodes.begin[node])
    middle = begin + n_left
    end = begin + rows.size
    depth = np.int64(nodes.depth[node]) + 1
    nodes.left[node] = left
    add_blind_node(nodes, left, combine(path, 0), begin, middle, drawn_left, depth)
    add_blind_node(nodes, left + 1, combine(path, 1), middle, end, drawn_right, depth)


@kernel
def set_apart_by_code(rows, space, code, missing_goes_left, first, last, n_left):
    """Put the rows of the places ``first`` to ``last`` behind the ``n_left`` that go left already, or aside.

    Gives how many go left then. Unsigned, or every index would be checked for its sign.
    """
    turn = np.int64(missing_goes_left)  # by one, and missing comes before all other codes
    limit = code + turn
    left = np.uint64(n_left)
    for place in range(np.uint64(first), np.uint64(last)):
        row = rows[place]
        rows[left] = row
        space.aside[place - left] = row
        left += np.uint64((space.codes[place] + turn) & MISSING <= limit)
    return np.int64(left)


@kernel
def is_any_missing(codes):
    """Whether any of the codes is."""
    most = np.uint8(0)
    for place in range(codes.size):
        most = max(most, codes[place])
    return most == MISSING


@kernel
def side_of_unseen(n_left, n_right, missing_rule):
    """Where no row drawn is missing, the rule, or the larger child, takes those to come."""
    if missing_rule in (GO_LEFT, GO_RIGHT):
        return missing_rule
    return GO_LEFT if n_left >= n_right else GO_RIGHT


@kernel
def count_rows(nodes, rows, rules, space):
    """Fill in how many rows of each node were drawn; children have higher numbers."""
    for node in range(nodes.size - 1, -1, -1):
        left = nodes.left[node]
        if left > 0:
            nodes.n_rows[node] = nodes.n_rows[left] + nodes.n_rows[left + 1]
        else:
            begin = nodes.begin[node]
            drawn = rows[begin : begin + nodes.n_drawn[node]]
            nodes.n_rows[node] = count_drawn(drawn, rules, space)


@kernel
def number_largest_first(nodes, missing_rule, splits, new_of_queue, old_of_new, queue_of_size):
    """Fill ``splits`` with the same nodes, numbered as if the largest leaf had always been split first.

    Children are smaller than their parent, so nodes of one size are all known when the first of them is to be split:
    they wait in a queue of their own, the oldest first. ``new_of_queue`` and ``old_of_new`` have a place for each node,
    ``queue_of_size`` zeros for each number of rows up to the root's, and one more.
    """
    largest = nodes.n_rows[ROOT]
    for node in range(nodes.size):
        if nodes.left[node] > 0:
            queue_of_size[largest - nodes.n_rows[node]] += 1
    n_inner = 0
    for size in range(queue_of_size.size):  # where each size's queue begins, larger ones before
        length = queue_of_size[size]
        queue_of_size[size] = n_inner
        n_inner += length
    add_numbered(ROOT, ROOT, nodes, splits)
    new_of_queue[0] = ROOT
    old_of_new[ROOT] = ROOT
    n_nodes = 1
    for place in range(n_inner):
        node = np.int64(new_of_queue[place])
        old = np.int64(old_of_new[node])
        splits.left[node] = n_nodes
        splits.right[node] = n_nodes + 1
        left = np.int64(nodes.left[old])
        side = np.int64(nodes.side[old])
        if side == LEARNED:
            side = side_of_unseen(nodes.n_rows[left], nodes.n_rows[left + 1], missing_rule)
        splits.missing[node] = n_nodes + (side == GO_RIGHT)
        for below in range(left, left + 2):
            add_numbered(n_nodes, below, nodes, splits)
            old_of_new[n_nodes] = below
            if nodes.left[below] > 0:
                size = largest - nodes.n_rows[below]
                new_of_queue[queue_of_size[size]] = n_nodes
                queue_of_size[size] += 1
            n_nodes += 1


@kernel
def add_numbered(node, old, nodes, splits):
    """All but the children of a node."""
    is_leaf = nodes.left[old] == 0
    splits.feature[node] = -1 if is_leaf else nodes.feature[old]
    splits.code[node] = 0 if is_leaf else nodes.code[old]
    splits.gain[node] = np.float64(nodes.n_rows[old])  # largest leaf first
    splits.begin[node] = nodes.begin[old]
    splits.end[node] = nodes.end[old]
    splits.left[node] = 0
    splits.right[node] = 0
    splits.missing[node] = 0


@kernel
def split_blindly(node, matrix, bag, nodes):
    """The same split as ``draw_split`` finds, for a tree that grows best leaf first."""
    path = nodes.path[node]
    n_features = matrix.columns.shape[0]
    nodes.feature[node] = -1
    for attempt in range(4 * n_features):
        feature = draw_feature(path, attempt, n_features)
        column = matrix.columns[feature]
        least, most, is_absent = find_range(column, bag, nodes.begin[node], nodes.end[node])
        code = draw_cut(path, attempt, feature, least, most, matrix)
        if code != NO_SPLIT:
            nodes.feature[node] = feature
            nodes.code[node] = code
            nodes.side[node] = draw_side(path, attempt) if is_absent else LEARNED
            nodes.gain[node] = np.float64(nodes.n_rows[node])  # largest leaf first
            return


@kernel
def find_range(column, bag, begin, end):
    """Least and greatest code of the rows that weigh anything, and whether any of them has a missing value."""
    least = np.int64(MISSING)
    most = np.int64(-1)
    is_absent = False
    for place in range(begin, end):
        code = np.int64(column[bag.rows[place]])
        if bag.words[place] == 0:
            continue
        is_missing = code == MISSING
        is_absent |= is_missing
        least = min(least, code)
        most = max(most, np.int64(-1) if is_missing else code)
    return least, most, is_absent
