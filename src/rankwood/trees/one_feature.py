"""``OneFeatureGrower``: trees whose nodes look at one feature each, for the price of one column.

A constraint is a number. The feature of a node is a hash of it and of the node's path from the root, as
``grow_tree`` draws it with ``features_per_node=1``; for a stump the feature may be given. The trees are those of
``grow_tree``, up to the rounding of sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.threads import run_blocks
from rankwood.binning.bins import MISSING_BIN, N_CODES
from rankwood.dtypes import Array, Floats
from rankwood.trees.best_first import draw_features
from rankwood.trees.grower import Tree, grow_tree
from rankwood.trees.leaves import mark_leaves
from rankwood.trees.policies import MISSING_RULES, UNLIMITED, FeatureChoice, Policies
from rankwood.trees.workspace import GO_LEFT, GO_RIGHT, NO_SPLIT, Matrix, combine, mix

_ROWS_PER_BLOCK = 1 << 16  # of a column: blocks follow from the rows alone, whatever the threads


class OneFeatureGrower:
    """Grows trees under constraints on one training set.

    What ``policies`` say of features is replaced by the constraint; ``present`` says which rows are there, if not all.
    In that case, and for children of their own for missing values and monotone features, it is ``grow_tree`` that
    grows, at its price.
    """

    def __init__(
        self,
        matrix: Matrix,
        policies: Policies,
        n_threads: int = 1,
        present: Array | None = None,
    ) -> None:
        self._matrix = in_data_order(matrix)
        self._counts = None if present is None else present.astype(np.int32)
        self._policies = policies
        self._n_threads = n_threads
        self._is_plain = (
            present is None
            and policies.missing != "own_child"
            and policies.direction is None
            and policies.thresholds == "best"
        )
        n_rows = self._matrix.columns.shape[1]
        n_blocks = max(1, n_rows // _ROWS_PER_BLOCK)
        self._edges = read_only(np.arange(n_blocks + 1) * n_rows // n_blocks)
        self._copies = np.empty((n_blocks, SIZE_OF_PAIRS))
        self._rows_by_bin: dict[int, Floats] = {}  # of features that a stump was grown on
        self._sums = np.empty((N_CODES, 3))
        self._of_stump = self._limits(0)
        self._found = np.empty(8)
        self._ones = read_only(np.ones(n_rows))
        self._pairs = np.empty((0, 2))  # trees of more leaves need them
        self._space: GrowthSpace | None = None

    @property
    def grows_stumps(self) -> bool:
        """Whether a tree has one split at most, so that a feature is all of its constraint."""
        growth = self._policies.growth
        return growth.max_leaves == 2 or growth.max_depth == 1

    def stump(self, targets: Floats, weights: Floats | None, feature: int) -> Tree:
        """The best stump that splits on ``feature``; a single leaf where no cut gains anything."""
        if not self._is_plain:
            return self._grow_freely(targets, weights, FeatureChoice(1, given=(feature,)), 0)
        matrix = self._matrix
        column = matrix.columns[feature]
        mass = self._ones if weights is None else read_only(weights)
        blocks = (self._edges, column, read_only(targets), mass, self._copies)
        run_blocks(add_rows, len(self._copies), *blocks, n_threads=self._n_threads)
        n_bins = int(matrix.n_bins[feature])
        counts = self._counted(feature)
        cut_stump(self._copies, counts, self._sums, n_bins, self._of_stump, self._found)
        leaf_of_row = np.empty(column.size, np.int32)
        code = int(self._found[1])
        if code == NO_SPLIT:
            leaf_of_row[:] = 0
            return self._leaf(leaf_of_row)
        sides = (column, code, bool(self._found[2]), leaf_of_row)
        mark_sides(0, column.size, *sides)
        return self._stump(feature, code, leaf_of_row)

    def _counted(self, feature: int) -> Floats:
        """Rows by bin, counted when a feature is first looked at."""
        if feature not in self._rows_by_bin:
            column = self._matrix.columns[feature]
            self._rows_by_bin[feature] = np.bincount(column, minlength=N_CODES).astype(np.float64)
        return self._rows_by_bin[feature]

    def tree(
        self,
        targets: Floats,
        weights: Floats | None,
        constraint: int,
        probability: Floats | None = None,
    ) -> Tree:
        """The tree under a constraint; ``probability`` draws the nodes' features unevenly."""
        choice = FeatureChoice(1, probability)
        if not self._is_plain:
            return self._grow_freely(targets, weights, choice, constraint)
        matrix, limits = self._matrix, self._limits(constraint)
        space, pairs = self._scratch()
        mass = self._ones if weights is None else read_only(weights)
        pair_up(0, len(pairs), read_only(targets), mass, pairs)
        candidates = Policies(features=choice).candidates(matrix.columns.shape[0], 1.0)
        nodes = np.recarray(2 * limits.max_leaves + 1, GROWN)
        n_nodes = grow_one_feature(matrix, pairs, limits, candidates, nodes, space)
        return self._tree(nodes[: int(n_nodes)], space.rows)

    def _grow_freely(
        self, targets: Floats, weights: Floats | None, choice: FeatureChoice, stream: int
    ) -> Tree:
        policies = Policies(
            self._policies.growth,
            choice,
            self._policies.thresholds,
            self._policies.missing,
            self._policies.l2,
            direction=self._policies.direction,
        )
        return grow_tree(
            self._matrix, targets, policies, counts=self._counts, weights=weights, stream=stream
        )

    def _limits(self, stream: int) -> TreeLimits:
        growth = self._policies.growth
        n_rows = self._matrix.columns.shape[1]
        return TreeLimits(
            min(growth.max_leaves or UNLIMITED, max(1, n_rows)),
            UNLIMITED if growth.max_depth is None else growth.max_depth,
            float(growth.min_leaf),
            float(growth.min_split),
            MISSING_RULES[self._policies.missing],
            float(self._policies.l2),
            float(growth.min_gain),
            float(growth.min_weight),
            stream,
        )

    def _scratch(self) -> tuple[GrowthSpace, Floats]:
        """Space for trees of more than two leaves, made when the first is grown."""
        n_features, n_rows = self._matrix.columns.shape
        if self._space is None:
            self._pairs = np.empty((n_rows, 2))
            self._space = GrowthSpace(
                np.empty(n_rows, np.uint32),
                np.empty(n_rows, np.uint32),
                np.empty(SIZE_OF_NODE),
                self._sums,
                self._found,
                np.empty(n_features),
                np.empty(1, np.int64),
            )
        return self._space, self._pairs

    def _leaf(self, leaf_of_row: Array) -> Tree:
        """A tree without a split."""
        zeros, none = np.zeros(1, np.int32), np.zeros(1)
        product, weight = self._found[6:8]
        value = product / (weight + self._policies.l2) if weight > 0 else 0.0
        return Tree(
            np.full(1, -1, np.int32),
            np.zeros(1, np.float32),
            np.zeros(1, np.uint8),
            zeros,
            zeros,
            zeros,
            np.array([value]),
            np.array([weight]),
            none,
            leaf_of_row,
        )

    def _stump(self, feature: int, code: int, leaf_of_row: Array) -> Tree:
        gain, _, goes_left, product, weight, _, all_product, all_weight = self._found.tolist()
        products = np.array([all_product, product, all_product - product])
        weights = np.array([all_weight, weight, all_weight - weight])
        return Tree(
            np.array([feature, -1, -1], np.int32),
            np.array([_threshold(self._matrix, feature, code), 0.0, 0.0], np.float32),
            np.array([code, 0, 0], np.uint8),
            np.array([1, 0, 0], np.int32),
            np.array([2, 0, 0], np.int32),
            np.array([1 if goes_left else 2, 0, 0], np.int32),
            products / (weights + self._policies.l2),
            weights,
            np.array([gain, 0.0, 0.0]),
            leaf_of_row,
        )

    def _tree(self, nodes: Any, rows: Array) -> Tree:
        """The grown nodes as a tree, with the leaf of every row."""
        left, right = nodes.left.astype(np.int32), nodes.right.astype(np.int32)
        is_inner = left > 0
        leaf_of_row = np.empty(rows.size, np.int32)
        begin, end = np.ascontiguousarray(nodes.begin), np.ascontiguousarray(nodes.end)
        mark_leaves(rows, begin, end, left, leaf_of_row)
        feature = np.where(is_inner, nodes.feature, -1).astype(np.int32)
        code = np.where(is_inner, nodes.code, 0).astype(np.uint8)
        threshold = np.zeros(left.size, np.float32)
        for node in np.flatnonzero(is_inner).tolist():
            threshold[node] = _threshold(self._matrix, int(feature[node]), int(code[node]))
        weight = nodes.weight + self._policies.l2
        value = np.divide(nodes.product, weight, out=np.zeros(left.size), where=weight > 0)
        return Tree(
            feature,
            threshold,
            code,
            left,
            right,
            np.where(nodes.goes_left == 1, left, right).astype(np.int32),
            value,
            nodes.weight.astype(np.float64),
            np.where(is_inner, nodes.gain, 0.0),
            leaf_of_row,
        )


def in_data_order(matrix: Matrix) -> Matrix:
    """The matrix with its rows as the data have them: one column at a time stays in the cache in any order."""
    sources = matrix.source_of_row
    in_order = np.arange(sources.size, dtype=np.int32)
    if np.array_equal(sources, in_order):
        return matrix
    row_of_source = np.empty_like(in_order)
    row_of_source[sources] = in_order
    columns = np.empty_like(matrix.columns)
    for feature, column in enumerate(matrix.columns):
        columns[feature] = column.take(row_of_source)
    return matrix._replace(
        columns=read_only(columns),
        row_major_prefix=matrix.row_major_prefix[:0],
        source_of_row=read_only(in_order),
    )


def _threshold(matrix: Matrix, feature: int, code: int) -> float:
    """The cut point behind a code."""
    return float(matrix.thresholds[matrix.offsets[feature] + code])


# Growing under a constraint: every node looks at one feature, so that a step costs one column and not all of them.
#
# Where all features are looked at, packing targets into integers pays off a hundred times. Here it would cost more
# than
# the rest: sums are in float64, rows always in the same order, so that they are the same for any number of threads.
#
# Words used here
#     product   target times weight of a row; ``pairs[row]`` holds it and the weight
#     sums      of a node's rows by bin: product, weight, rows
#     copies    four histograms that take turns: a bin that was written to just now would have to be waited for


# Unsigned, or every index would be checked for its sign.
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)
# Where each copy begins: of two and of three numbers per bin. Some numbers lie between copies, or the same bin of all
# of them would have addresses that end alike, which processors take for the same.
PAIR0, PAIR1, PAIR2, PAIR3 = np.uint64(0), np.uint64(520), np.uint64(1040), np.uint64(1560)
NODE0, NODE1, NODE2, NODE3 = np.uint64(0), np.uint64(776), np.uint64(1552), np.uint64(2328)
SIZE_OF_PAIRS, SIZE_OF_NODE = 2080, 3104  # of four copies
NOISE = 1e-11  # of the children's score: a smaller gain is rounding, not structure


class TreeLimits(NamedTuple):
    """Where a tree ends, and where missing values go."""

    max_leaves: int
    max_depth: int
    min_leaf: float
    min_split: float
    missing_rule: int
    l2: float
    min_gain: float
    min_weight: float
    stream: int


class GrowthSpace(NamedTuple):
    """Scratch space of one grower, used again for every tree."""

    rows: Array  # uint32: rows by node
    aside: Array  # uint32
    copies: Array  # float64 (SIZE_OF_NODE)
    sums: Array  # float64 (256, 3)
    found: Array  # float64 (8): what ``best_cut`` gives
    keys: Array  # float64 (features), for drawing by probability
    chosen: Array  # int64 (1): the node's feature


GROWN = np.dtype(
    [
        ("begin", np.int64),
        ("end", np.int64),
        ("path", np.uint64),
        ("position", np.int64),
        ("depth", np.int64),
        ("gain", np.float64),
        ("feature", np.int64),  # that the node looks at
        ("code", np.int64),  # NO_SPLIT while there is none
        ("goes_left", np.int64),  # missing values, as the split was found
        ("left", np.int64),
        ("right", np.int64),
        ("product", np.float64),
        ("weight", np.float64),
        ("n_rows", np.float64),
        ("left_product", np.float64),
        ("left_weight", np.float64),
        ("left_rows", np.float64),
        ("is_open", np.int64),  # a leaf that can be split
    ]
)


@kernel
def add_rows(first, last, edges, column, targets, weights, copies):
    """Products and weights by bin of the blocks ``first`` to ``last`` of all rows; block b begins at ``edges[b]``.

    Rows are not counted: how many there are in a bin does not depend on the targets.
    """
    for block in range(first, last):
        begin = edges[block]
        size = (edges[block + 1] - begin) // 4
        flat = copies[block]
        clear(flat)
        codes = column[begin : edges[block + 1]]  # views, or every index would be checked
        target = targets[begin : edges[block + 1]]
        weight = weights[begin : edges[block + 1]]
        quarter = np.uint64(size)
        for step in range(size):
            row = np.uint64(step)
            add_row(flat, PAIR0, codes[row], weight[row] * target[row], weight[row])
            row += quarter
            add_row(flat, PAIR1, codes[row], weight[row] * target[row], weight[row])
            row += quarter
            add_row(flat, PAIR2, codes[row], weight[row] * target[row], weight[row])
            row += quarter
            add_row(flat, PAIR3, codes[row], weight[row] * target[row], weight[row])
        for rest in range(4 * size, codes.size):
            add_row(flat, PAIR0, codes[rest], weight[rest] * target[rest], weight[rest])


@kernel
def add_row(flat, start, code, product, weight):
    """Add a row to the copy that begins at ``start``."""
    index = start + np.uint64(code) * TWO
    flat[index] += product
    flat[index + ONE] += weight


@kernel
def clear(flat):
    """No rows yet."""
    for index in range(flat.size):
        flat[index] = 0.0


@kernel
def add_up(copies, counts, sums):
    """``sums``, from the copies of all blocks in their order, and rows by bin."""
    for code in range(sums.shape[0]):
        for part in range(2):
            total = 0.0
            for block in range(copies.shape[0]):
                for copy in range(4):
                    total += copies[block, 520 * copy + 2 * code + part]
            sums[code, part] = total
        sums[code, 2] = counts[code]


@kernel
def cut_stump(copies, counts, sums, n_bins, limits, found):
    """The best cut of a feature over all rows, from the sums of its blocks; see ``best_cut``."""
    add_up(copies, counts, sums)
    best_cut(sums, n_bins, limits, found)


@kernel
def best_cut(sums, n_bins, limits, found):
    """Fill ``found`` with the best cut of a node's feature.

    That is: gain, code (NO_SPLIT: none), whether missing values go left, the left child's product, weight and rows,
    and the node's product and weight.
    """
    product = 0.0
    weight = 0.0
    n_rows = 0.0
    for code in range(n_bins):
        product += sums[code, 0]
        weight += sums[code, 1]
        n_rows += sums[code, 2]
    absent = sums[MISSING_BIN]
    product += absent[0]
    weight += absent[1]
    n_rows += absent[2]
    parent = product * product / (weight + limits.l2) if weight + limits.l2 > 0.0 else 0.0
    found[0] = parent
    found[1] = NO_SPLIT
    found[2] = 0.0
    found[6] = product
    found[7] = weight
    has_missing = absent[2] > 0.0
    if limits.missing_rule != GO_LEFT or not has_missing:
        scan(sums, n_bins, 0.0, product, weight, n_rows, limits, found)
    if limits.missing_rule != GO_RIGHT and has_missing:
        scan(sums, n_bins, 1.0, product, weight, n_rows, limits, found)
    gain = found[0] - parent
    if found[1] == NO_SPLIT or gain <= NOISE * found[0] or gain <= limits.min_gain:
        found[0] = 0.0
        found[1] = NO_SPLIT
        return
    found[0] = gain
    if not has_missing:  # the rule, or the larger child, takes those to come
        is_larger = 2.0 * found[5] >= n_rows
        found[2] = 1.0 if limits.missing_rule == GO_LEFT else 0.0
        if limits.missing_rule not in (GO_LEFT, GO_RIGHT) and is_larger:
            found[2] = 1.0


@kernel
def scan(sums, n_bins, with_missing, product, weight, n_rows, limits, found):
    """Every cut with the missing values on the right (0) or on the left (1); keeps what beats ``found``."""
    l2 = limits.l2
    least = limits.min_weight + l2
    left = with_missing * sums[MISSING_BIN, 0]
    mass = with_missing * sums[MISSING_BIN, 1]
    count = with_missing * sums[MISSING_BIN, 2]
    for code in range(n_bins - 1):
        if sums[code, 2] == 0.0:  # the same cut as the one before
            continue
        left += sums[code, 0]
        mass += sums[code, 1]
        count += sums[code, 2]
        if count < limits.min_leaf:
            continue
        if n_rows - count < limits.min_leaf:
            break
        own = mass + l2
        other = weight - mass + l2
        if own <= 0.0 or other <= 0.0 or own < least or other < least:
            continue
        right = product - left
        both = (left * left * other + right * right * own) / (own * other)
        if both > found[0]:
            found[0] = both
            found[1] = code
            found[2] = with_missing
            found[3] = left
            found[4] = mass
            found[5] = count


@kernel
def mark_sides(first, last, column, code, missing_goes_left, leaf_of_row):
    """The leaf of the rows ``first`` to ``last`` of a stump: 1 on the left, 2 on the right."""
    codes = column[first:last]
    leaves = leaf_of_row[first:last]
    if missing_goes_left:
        for row in range(codes.size):
            leaves[row] = 1 + (int(codes[row] > code) & int(codes[row] != MISSING_BIN))
    else:
        for row in range(codes.size):
            leaves[row] = 1 + (codes[row] > code)


@kernel
def pair_up(first, last, targets, weights, pairs):
    """Product and weight of each row, side by side."""
    for row in range(first, last):
        pairs[row, 0] = targets[row] * weights[row]
        pairs[row, 1] = weights[row]


@kernel
def add_node_rows(column, pairs, rows, begin, end, flat):
    """Sums by bin of the rows of a node, in four copies."""
    clear(flat)
    own = rows[begin:end]
    size = own.size // 4
    quarter = np.uint64(size)
    for step in range(size):
        index = np.uint64(step)
        count_row(flat, NODE0, column, pairs, own[index])
        index += quarter
        count_row(flat, NODE1, column, pairs, own[index])
        index += quarter
        count_row(flat, NODE2, column, pairs, own[index])
        index += quarter
        count_row(flat, NODE3, column, pairs, own[index])
    for last in range(4 * size, own.size):
        count_row(flat, NODE0, column, pairs, own[last])


@kernel
def count_row(flat, start, column, pairs, row):
    """Add a row and count it."""
    index = start + np.uint64(column[row]) * THREE
    flat[index] += pairs[row, 0]
    flat[index + ONE] += pairs[row, 1]
    flat[index + TWO] += 1.0


@kernel
def grow_one_feature(matrix, pairs, limits, candidates, nodes, space):
    """Grow one tree, best leaf first; every node looks at the one feature that its path gives. Gives its size."""
    for row in range(space.rows.size):
        space.rows[row] = row
    start = mix(np.uint64(limits.stream))
    add_leaf(nodes, 0, np.int64(0), np.int64(space.rows.size), start, np.int64(0), np.int64(0))
    consider(0, matrix, pairs, limits, candidates, nodes, space)
    nodes.product[0] = space.found[6]
    nodes.weight[0] = space.found[7]
    n_nodes = 1
    n_leaves = 1
    while n_leaves < limits.max_leaves:
        node = best_open(nodes, n_nodes)
        if node < 0:
            break
        split(node, n_nodes, matrix, nodes, space)
        n_nodes += 2
        n_leaves += 1
        if n_leaves < limits.max_leaves:
            for child in (n_nodes - 2, n_nodes - 1):
                consider(child, matrix, pairs, limits, candidates, nodes, space)
    return n_nodes


@kernel
def add_leaf(nodes, node, begin, end, path, position, depth):
    """A new leaf that owns the places ``begin`` to ``end``."""
    nodes.begin[node] = begin
    nodes.end[node] = end
    nodes.path[node] = path
    nodes.position[node] = position
    nodes.depth[node] = depth
    nodes.gain[node] = 0.0
    nodes.feature[node] = -1
    nodes.code[node] = NO_SPLIT
    nodes.goes_left[node] = 0
    nodes.left[node] = 0
    nodes.right[node] = 0
    nodes.is_open[node] = 0


@kernel
def consider(node, matrix, pairs, limits, candidates, nodes, space):
    """Find the best cut of the node's feature; the node is open if there is one."""
    begin = nodes.begin[node]
    end = nodes.end[node]
    n_rows = np.float64(end - begin)
    is_root = node == 0  # whose sums are wanted in any case
    too_small = n_rows < 2.0 * limits.min_leaf or n_rows < limits.min_split
    if not is_root and (too_small or nodes.depth[node] >= limits.max_depth):
        return
    n_features = matrix.columns.shape[0]
    draw_features(
        nodes.path[node], nodes.position[node], n_features, candidates, space.keys, space.chosen
    )
    feature = space.chosen[0]
    add_node_rows(matrix.columns[feature], pairs, space.rows, begin, end, space.copies)
    for code in range(space.sums.shape[0]):
        for part in range(3):
            index = 3 * code + part
            space.sums[code, part] = (space.copies[index] + space.copies[776 + index]) + (
                space.copies[1552 + index] + space.copies[2328 + index]
            )
    best_cut(space.sums, matrix.n_bins[feature], limits, space.found)
    nodes.feature[node] = feature
    if space.found[1] == NO_SPLIT or too_small or nodes.depth[node] >= limits.max_depth:
        return
    nodes.gain[node] = space.found[0]
    nodes.code[node] = np.int64(space.found[1])
    nodes.goes_left[node] = np.int64(space.found[2])
    nodes.left_product[node] = space.found[3]
    nodes.left_weight[node] = space.found[4]
    nodes.left_rows[node] = space.found[5]
    nodes.is_open[node] = 1


@kernel
def best_open(nodes, n_nodes):
    """The open leaf that gains most, the oldest of equal ones; -1 where none is open."""
    best = -1
    for node in range(n_nodes):
        if nodes.is_open[node] == 1 and (best < 0 or nodes.gain[node] > nodes.gain[best]):
            best = node
    return best


@kernel
def split(node, n_nodes, matrix, nodes, space):
    """Turn an open leaf into an inner node with two leaves, the nodes ``n_nodes`` and the next."""
    begin = nodes.begin[node]
    end = nodes.end[node]
    column = matrix.columns[nodes.feature[node]]
    middle = set_apart(
        space.rows, space.aside, column, nodes.code[node], nodes.goes_left[node] == 1, begin, end
    )
    below = np.int64(2) * nodes.position[node]
    if nodes.position[node] < 0 or nodes.position[node] > (np.int64(1) << 60):
        below = np.int64(-3)  # beyond what can be counted: both children are at -1 or below
    depth = nodes.depth[node] + 1
    path = nodes.path[node]
    add_leaf(nodes, n_nodes, begin, middle, combine(path, 0), below + 1, depth)
    add_leaf(nodes, n_nodes + 1, middle, end, combine(path, 1), below + 2, depth)
    nodes.is_open[node] = 0
    nodes.left[node] = n_nodes
    nodes.right[node] = n_nodes + 1
    nodes.product[n_nodes] = nodes.left_product[node]
    nodes.weight[n_nodes] = nodes.left_weight[node]
    nodes.product[n_nodes + 1] = nodes.product[node] - nodes.left_product[node]
    nodes.weight[n_nodes + 1] = nodes.weight[node] - nodes.left_weight[node]


@kernel
def set_apart(rows, aside, column, code, missing_goes_left, begin, end):
    """Put rows with codes up to ``code`` first, each side in its order; gives the index of the other side."""
    left = begin
    right = 0
    turn = np.int64(missing_goes_left)  # by one, and missing comes before all other codes
    limit = code + turn
    for index in range(begin, end):
        row = rows[index]
        goes_left = (column[row] + turn) & MISSING_BIN <= limit
        rows[left] = row
        aside[right] = row
        left += goes_left
        right += not goes_left
    for index in range(right):
        rows[left + index] = aside[index]
    return left
