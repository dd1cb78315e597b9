"""Completely random trees: features and cuts are drawn without looking at targets (Liu et al. 2008).

Without a limit of leaves the order of the splits does not matter, and ``grow_random_tree`` grows the tree depth first:
the rows of a small node are still in the cache when it is split. It moves row numbers only, not targets. Rows that
were not drawn descend with the others, behind them in every node, so that the leaves of all rows are known in the end.
The nodes are then renumbered as if the largest leaf had always been split first, which is the order of best-first
growth. With a limit of leaves, or with categories, ``best_first`` grows the tree, by ``split_randomly``.

A split by categories draws the side of each category of the feature, those among them that no row of the node has.
Where the least and the greatest code of the node would go to one side, the greatest changes sides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankwood._core.jit import kernel
from rankwood.binning.bins import MISSING_BIN
from rankwood.dtypes import Array
from rankwood.trees.partition import put_back_rows, read_codes, set_rows_apart
from rankwood.trees.splitting import SMALL, cut_between
from rankwood.trees.subsets import draw_subset, is_of_categories
from rankwood.trees.workspace import (
    GO_LEFT,
    GO_RIGHT,
    LEARNED,
    NO_SPLIT,
    Bag,
    GrowthRules,
    Matrix,
    combine,
    mix,
    uniform,
)


def grow_random_tree(
    matrix: Matrix, bag: Bag, rules: GrowthRules, with_others: bool
) -> tuple[Splits, Array]:
    """The tree that splits every node it can, and its rows by position: those of the bag, or all."""
    n_drawn, n_rows = bag.rows.size, matrix.columns.shape[1]
    rows = _with_others(bag.rows, n_rows) if with_others else bag.rows
    space = RandomSpace(
        np.zeros(n_rows, np.int64),
        np.zeros(n_rows if rules.has_counts else 0, np.int64),
        np.empty(rows.size, np.uint8),
        np.empty(rows.size, np.uint32),
        np.empty(n_drawn + 1, np.int64),
    )
    nodes: Any = np.recarray(2 * n_drawn, RANDOM_NODE)
    nodes = nodes[: grow_depth_first(matrix, bag, rows, rules, nodes, space)]
    count_rows(nodes)
    return _number(nodes, rules.missing_rule), rows


def _with_others(drawn: Array, n_rows: int) -> Array:
    """The rows drawn, followed by those that were not."""
    rows = np.empty(n_rows + 1, np.uint32)
    add_others(drawn, np.zeros(n_rows, np.bool_), rows)
    return rows[:n_rows]


def _number(nodes: Any, missing_rule: int) -> Splits:
    """The nodes of a tree grown depth first, in the order of best-first growth."""
    n_nodes = nodes.size
    splits = Splits(
        np.empty(n_nodes, np.int32),
        np.empty(n_nodes, np.uint8),
        np.empty(n_nodes, np.int32),
        np.empty(n_nodes, np.int32),
        np.empty(n_nodes, np.int32),
        np.empty(n_nodes, np.float64),
        np.empty(n_nodes, np.int64),
        np.empty(n_nodes, np.int64),
    )
    new_of_queue, old_of_new = np.empty(n_nodes, np.int32), np.empty(n_nodes, np.int32)
    queue_of_size = np.zeros(int(nodes.n_rows[0]) + 1, np.int32)
    number_largest_first(nodes, missing_rule, splits, new_of_queue, old_of_new, queue_of_size)
    return splits


# Growing depth first.


ROOT = 0
ATTEMPTS = 4  # features tried per node, as a multiple of their number

# The growing tree: a record array as long as the tree may get.
RANDOM_NODE = np.dtype(
    [
        ("path", np.uint64),  # hash of the path from the root
        ("n_rows", np.int64),  # rows drawn, duplicates counted; inner nodes are filled last
        ("begin", np.int32),  # its positions in the list of rows
        ("end", np.int32),
        ("n_drawn", np.int32),  # rows that were drawn: the first of the node's rows
        ("depth", np.int32),
        ("left", np.int32),  # the right child follows it; 0 in a leaf
        ("feature", np.int32),
        ("code", np.uint8),
        ("side", np.uint8),  # of the missing values
    ],
    align=True,
)


class RandomSpace(NamedTuple):
    """Scratch space of a completely random tree."""

    packed_targets: Array  # int64, by row of the matrix; 0 where the row was not drawn
    counts: Array  # int64, the same; empty unless rules.has_counts
    codes: Array  # uint8, of the current node; as long as the list of rows
    aside: Array  # uint32, the same
    waiting: Array  # int64: a stack of nodes to be split


@kernel
def grow_depth_first(matrix, bag, rows, rules, nodes, space):
    """Split every node that can be split; return the number of nodes.

    ``rows`` are those of the bag, followed by any others. The functions called per node take whole arrays and have a
    single return: numba counts references to slices and to arrays of tuples, which would cost more than splitting a
    small node.
    """
    add_root(bag, rows, rules, nodes, space)
    packed_targets, counts, codes, aside, waiting = space
    columns = matrix.columns.reshape(matrix.columns.size)
    prefix = matrix.row_major_prefix.reshape(matrix.row_major_prefix.size)
    n_features, n_all = matrix.columns.shape
    n_prefix_rows, width = matrix.row_major_prefix.shape
    offsets, thresholds = matrix.offsets, matrix.thresholds
    n_waiting = 1
    n_nodes = 1
    while n_waiting > 0:
        n_waiting -= 1
        node = nodes[waiting[n_waiting]]
        begin, end, n_drawn = np.int64(node.begin), np.int64(node.end), np.int64(node.n_drawn)
        n_rows = n_drawn
        if n_drawn < 2 * rules.min_leaf:  # otherwise they suffice, however often they were drawn
            n_rows = count_drawn(rows, begin, begin + n_drawn, packed_targets, counts, rules)
        can_split = is_large_enough(node, n_rows, rules) and targets_differ(
            rows, begin, begin + n_drawn, packed_targets, rules.bits
        )
        code = NO_SPLIT
        attempt = -1
        while can_split and code == NO_SPLIT and attempt < ATTEMPTS * n_features - 1:
            attempt += 1
            feature = draw_feature(node.path, attempt, n_features)
            if (end - begin) * SMALL < n_prefix_rows and feature < width:
                read_codes(prefix, feature, width, rows, begin, end, codes)
            else:
                read_codes(columns, feature * n_all, 1, rows, begin, end, codes)
            if rules.has_counts:
                least, most, is_absent = range_of_weighed(
                    codes, n_drawn, rows, begin, packed_targets
                )
            else:
                least, most, is_absent = range_of(codes, n_drawn)
            start = offsets[feature]
            code = draw_cut(node.path, attempt, n_features, least, most, start, thresholds)
        if code == NO_SPLIT:  # a leaf, whose rows are in the cache
            node.n_rows = count_drawn(rows, begin, begin + n_drawn, packed_targets, counts, rules)
            continue
        side = unseen = draw_side(node.path, attempt) if is_absent else LEARNED
        if side == LEARNED and is_any_missing(
            codes, n_drawn, end - begin
        ):  # among the rows not drawn
            n_left, n_right = count_sides(
                codes, code, n_drawn, rows, begin, packed_targets, counts, rules
            )
            unseen = side_of_unseen(n_left, n_right, rules.missing_rule)
        drawn_left = set_rows_apart(rows, begin, 0, n_drawn, codes, code, side == GO_LEFT, 0, aside)
        n_left = set_rows_apart(
            rows, begin, n_drawn, end - begin, codes, code, unseen == GO_LEFT, drawn_left, aside
        )
        put_back_rows(rows, begin + n_left, end, aside)
        node.feature, node.code, node.side, node.left = feature, code, side, n_nodes
        add_children(node, nodes[n_nodes], nodes[n_nodes + 1], n_left, drawn_left)
        waiting[n_waiting], waiting[n_waiting + 1] = n_nodes + 1, n_nodes
        n_waiting += 2
        n_nodes += 2
    return n_nodes


@kernel
def add_others(drawn, is_drawn, rows):
    """Fill ``rows`` with those drawn, followed by the others; both ascend.

    ``is_drawn`` is all False on entry; ``rows`` needs room for one more than there are. The loop is branch-free,
    because whether a row was drawn cannot be predicted.
    """
    for index in range(drawn.size):
        rows[index] = drawn[index]
        is_drawn[drawn[index]] = True
    n_rows = drawn.size
    for row in range(is_drawn.size):
        rows[n_rows] = row
        n_rows += not is_drawn[row]


@kernel
def add_root(bag, rows, rules, nodes, space):
    """Add the root with all rows, and store packed targets and counts by row."""
    for index in range(bag.rows.size):
        row = bag.rows[index]
        space.packed_targets[row] = bag.packed_targets[index]
        if rules.has_counts:
            space.counts[row] = bag.counts[index]
    space.waiting[0] = ROOT
    zero = np.int64(0)
    path = mix(np.uint64(rules.stream))
    fill_node(nodes[ROOT], path, zero, np.int64(rows.size), np.int64(bag.rows.size), zero)


@kernel
def add_children(node, left, right, n_left, drawn_left):
    """Fill the node's children: the left one gets its first ``n_left`` rows, of which ``drawn_left`` were drawn."""
    begin, end = np.int64(node.begin), np.int64(node.end)
    depth = np.int64(node.depth) + 1
    drawn_right = np.int64(node.n_drawn) - drawn_left
    fill_node(left, combine(node.path, 0), begin, begin + n_left, drawn_left, depth)
    fill_node(right, combine(node.path, 1), begin + n_left, end, drawn_right, depth)


@kernel
def fill_node(node, path, begin, end, n_drawn, depth):
    """Fill the record of a leaf."""
    node.path = path
    node.begin = begin
    node.end = end
    node.n_drawn = n_drawn
    node.depth = depth
    node.left = 0


@kernel
def is_large_enough(node, n_rows, rules):
    """Whether depth and rows allow a split."""
    is_shallow = node.depth < rules.max_depth
    return is_shallow and node.n_drawn >= rules.min_split and n_rows >= 2 * rules.min_leaf


@kernel
def targets_differ(rows, begin, end, packed_targets, bits):
    """Whether the targets of the rows are not all equal."""
    mask = (np.int64(1) << bits) - 1
    total = np.int64(0)
    weight = np.int64(0)
    differ = False
    index = begin
    while index < end and not differ:
        packed = packed_targets[rows[index]]
        index += 1
        if weight == 0 and total == 0:  # all rows so far have neither
            total = packed >> bits
            weight = packed & mask
        else:
            differ = (packed >> bits) * weight != total * (packed & mask)
    return differ


@kernel
def count_drawn(rows, begin, end, packed_targets, counts, rules):
    """How often the rows at the positions ``begin`` to ``end`` were drawn, in total."""
    n_rows = np.int64(0)
    mask = (np.int64(1) << rules.bits) - 1
    for index in range(begin, end):
        n_rows += counts[rows[index]] if rules.has_counts else packed_targets[rows[index]] & mask
    return n_rows


@kernel
def range_of(codes, n_codes):
    """Least and greatest code, and whether any is missing; in bytes, so that the loop is vectorized."""
    least = np.uint8(MISSING_BIN)
    least_shifted = np.uint8(MISSING_BIN)
    most_shifted = np.uint8(0)
    for index in range(n_codes):
        code = codes[index]
        shifted = np.uint8(code + np.uint8(1))  # modulo 256: missing comes before all other codes
        least = min(least, code)
        least_shifted = min(least_shifted, shifted)
        most_shifted = max(most_shifted, shifted)
    return np.int64(least), np.int64(most_shifted) - 1, least_shifted == 0


@kernel
def range_of_weighed(codes, n_codes, rows, begin, packed_targets):
    """The same for the rows that have weight."""
    least = np.int64(MISSING_BIN)
    most = np.int64(-1)
    is_absent = False
    for index in range(n_codes):
        if packed_targets[rows[begin + index]] == 0:
            continue
        code = np.int64(codes[index])
        is_absent |= code == MISSING_BIN
        least = min(least, code)
        most = max(most, np.int64(-1) if code == MISSING_BIN else code)
    return least, most, is_absent


@kernel
def is_any_missing(codes, first, last):
    """Whether any of the codes ``first`` to ``last`` is missing."""
    most = np.uint8(0)
    for index in range(np.uint64(first), np.uint64(last)):
        most = max(most, codes[index])
    return most == MISSING_BIN


@kernel
def count_sides(codes, code, n_drawn, rows, begin, packed_targets, counts, rules):
    """How often the rows on each side were drawn; missing values, which have no weight here, go right."""
    n_left = np.int64(0)
    n_right = np.int64(0)
    for index in range(n_drawn):
        n_rows = count_drawn(rows, begin + index, begin + index + 1, packed_targets, counts, rules)
        n_left += n_rows if codes[index] <= code else 0
        n_right += n_rows if codes[index] > code else 0
    return n_left, n_right


# Drawing a split.


@kernel
def split_randomly(node, matrix, bag, nodes, subsets):
    """Draw a feature that varies in the node, and a cut of it, or the categories that go left."""
    path = nodes.path[node]
    n_features = matrix.columns.shape[0]
    nodes.feature[node] = -1
    for attempt in range(ATTEMPTS * n_features):
        feature = draw_feature(path, attempt, n_features)
        column = matrix.columns[feature]
        least, most, is_absent = find_range(column, bag, nodes.begin[node], nodes.end[node])
        start = matrix.offsets[feature]
        if not is_of_categories(feature, matrix):
            code = draw_cut(path, attempt, n_features, least, most, start, matrix.thresholds)
        elif least < most:
            draw = combine(path, attempt + 2 * ATTEMPTS * n_features)
            draw_subset(draw, least, most, matrix.n_bins[feature], subsets[node])
            code = np.int64(0)
        else:
            code = np.int64(NO_SPLIT)
        if code != NO_SPLIT:
            nodes.feature[node] = feature
            nodes.code[node] = code
            nodes.side[node] = draw_side(path, attempt) if is_absent else LEARNED
            nodes.gain[node] = np.float64(nodes.n_rows[node])  # largest leaf first
            return


@kernel
def find_range(column, bag, begin, end):
    """Least and greatest code of the rows that have weight, and whether any of them is missing."""
    least = np.int64(MISSING_BIN)
    most = np.int64(-1)
    is_absent = False
    for index in range(begin, end):
        code = np.int64(column[bag.rows[index]])
        if bag.packed_targets[index] == 0:
            continue
        is_missing = code == MISSING_BIN
        is_absent |= is_missing
        least = min(least, code)
        most = max(most, np.int64(-1) if is_missing else code)
    return least, most, is_absent


@kernel
def draw_feature(path, attempt, n_features):
    """The feature to try; if only one feature varies, all attempts miss it in some 2 % of the nodes."""
    return np.int64(uniform(path, attempt) * n_features)


@kernel
def draw_cut(path, attempt, n_features, least, most, start, thresholds):
    """A cut between two codes of the feature whose thresholds begin at ``start``; NO_SPLIT if there is none."""
    draw = uniform(path, attempt + ATTEMPTS * n_features)
    cut = cut_between(start + least, start + most, thresholds, draw)
    return NO_SPLIT if cut == NO_SPLIT else cut - start


@kernel
def draw_side(path, attempt):
    """A random side for the missing values."""
    return GO_LEFT + np.int64(combine(path, attempt) & np.uint64(1))


@kernel
def side_of_unseen(n_left, n_right, missing_rule):
    """The side of missing values where none was drawn: that of the rule, or of the larger child."""
    if missing_rule in (GO_LEFT, GO_RIGHT):
        return missing_rule
    return GO_LEFT if n_left >= n_right else GO_RIGHT


# Renumbering the nodes: the largest leaf is split first.


class Splits(NamedTuple):
    """A grown tree by node, as in ``Tree``, and the positions of its rows."""

    feature: Array  # int32; -1 in a leaf
    code: Array  # uint8; 0 in a leaf
    left: Array  # int32; 0 in a leaf
    right: Array
    missing: Array
    gain: Array  # float64, in integer units; undefined in a leaf
    begin: Array  # int64
    end: Array


@kernel
def count_rows(nodes):
    """Fill the row counts of inner nodes with those of their children, which have higher numbers."""
    for number in range(nodes.size - 1, -1, -1):
        node = nodes[number]
        if node.left > 0:
            node.n_rows = nodes[node.left].n_rows + nodes[node.left + 1].n_rows


@kernel
def number_largest_first(nodes, missing_rule, splits, new_of_queue, old_of_new, queue_of_size):
    """Fill ``splits`` with the nodes, numbered as if the largest leaf had always been split first.

    Children are smaller than their parent, so all nodes of one size are known when the first of them is split. They
    wait in one queue per size, the oldest first. ``new_of_queue`` and ``old_of_new`` have one entry per node;
    ``queue_of_size`` has zeros for each number of rows up to the root's, and one more.
    """
    largest = nodes.n_rows[ROOT]
    for old in range(nodes.size):
        if nodes.left[old] > 0:
            queue_of_size[largest - nodes.n_rows[old]] += 1
    n_inner = 0
    for size in range(queue_of_size.size):  # the start of each size's queue, larger sizes first
        length = queue_of_size[size]
        queue_of_size[size] = n_inner
        n_inner += length
    add_numbered(ROOT, nodes[ROOT], splits)
    new_of_queue[0] = ROOT
    old_of_new[ROOT] = ROOT
    n_nodes = 1
    for index in range(n_inner):
        new = new_of_queue[index]
        split = nodes[old_of_new[new]]
        left = np.int64(split.left)
        side = np.int64(split.side)
        if side == LEARNED:
            n_left, n_right = nodes[left].n_rows, nodes[left + 1].n_rows
            side = side_of_unseen(n_left, n_right, missing_rule)
        splits.left[new] = n_nodes
        splits.right[new] = n_nodes + 1
        splits.missing[new] = n_nodes + (side == GO_RIGHT)
        for below in range(left, left + 2):
            add_numbered(n_nodes, nodes[below], splits)
            old_of_new[n_nodes] = below
            if nodes[below].left > 0:
                size = largest - nodes[below].n_rows
                new_of_queue[queue_of_size[size]] = n_nodes
                queue_of_size[size] += 1
            n_nodes += 1


@kernel
def add_numbered(new, node, splits):
    """Copy a node, except for its children."""
    is_leaf = node.left == 0
    splits.feature[new] = -1 if is_leaf else node.feature
    splits.code[new] = 0 if is_leaf else node.code
    splits.gain[new] = np.float64(node.n_rows)  # largest leaf first
    splits.begin[new] = node.begin
    splits.end[new] = node.end
    splits.left[new] = 0
    splits.right[new] = 0
    splits.missing[new] = 0
