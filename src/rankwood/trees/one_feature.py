"""``OneFeatureGrower``: trees whose nodes search one feature each, so that a step costs one column and not all.

A constraint is a number. The feature of a node is a hash of it and of the node's path from the root, as ``grow_tree``
draws it with ``features_per_node=1``. Where the feature cannot split the node, another one is drawn, until one can or
none is left. For a stump the feature may be given.

Lambdas sum to 0 in every query, so a split of whole queries gains exactly nothing, and what is computed is a rounding
error. It is judged against ``Σ weight · target²`` of the node, Σ λ² / h for Newton's targets: the node's own score is
about 0 as well, and no scale for it.

Packing targets pays off where many features are searched. Here it would cost more than everything else, so sums are
in float64. Rows are always added in the same order, so sums do not depend on the number of threads.

Terms
    product   target times weight of a row
    sums      of a node's rows by bin: products, weights, rows
    squares   the sum of weight times target squared; no split gains more
    copies    four histograms that take turns, so that an addition need not wait for the one before to the same bin
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.threads import run_blocks
from rankwood.binning.bins import MISSING_BIN, N_CODES
from rankwood.dtypes import Array, Floats
from rankwood.trees.best_first import draw_features
from rankwood.trees.grower import (
    MISSING_RULES,
    UNLIMITED,
    FeatureChoice,
    Policies,
    Tree,
    grow_tree,
    thresholds_of,
)
from rankwood.trees.partition import child_position, mark_leaves, partition_rows, read_codes
from rankwood.trees.splitting import ONE, THREE, TWO, best_cut, forbid_few_rows, is_tried, score_cut
from rankwood.trees.workspace import (
    GO_LEFT,
    GO_RIGHT,
    NO_SPLIT,
    Matrix,
    combine,
    mix,
    uniform,
)

_ROWS_PER_BLOCK = 1 << 16  # of a column: blocks depend on the rows alone, not on the threads

# Histograms of float64: a pair (product, weight) or a triple (product, weight, rows) per bin, in N_COPIES copies.
N_COPIES = 4
PADDING = 8  # numbers between copies, to avoid 4K aliasing
PAIR_STRIDE = 2 * N_CODES + PADDING
TRIPLE_STRIDE = 3 * N_CODES + PADDING
PAIR0, PAIR1, PAIR2, PAIR3 = (
    np.uint64(0),
    np.uint64(PAIR_STRIDE),
    np.uint64(2 * PAIR_STRIDE),
    np.uint64(3 * PAIR_STRIDE),
)
TRIPLE0, TRIPLE1, TRIPLE2, TRIPLE3 = (
    np.uint64(0),
    np.uint64(TRIPLE_STRIDE),
    np.uint64(2 * TRIPLE_STRIDE),
    np.uint64(3 * TRIPLE_STRIDE),
)
PRODUCT, WEIGHT, ROWS = 0, 1, 2  # columns of the sums by bin
# Entries of a split, which ``split_sums`` fills.
GAIN, CODE, MISSING_LEFT, LEFT_PRODUCT, LEFT_WEIGHT, ALL_PRODUCT, ALL_WEIGHT = 0, 1, 2, 3, 4, 5, 6
SIZE_OF_SPLIT = 7
NOISE = 1e-11  # of the node's squares: a smaller gain is a rounding error
PACKED_NOISE = 1e-9  # the same for trees of ``grow_tree``, which rounds targets to whole numbers
REDRAW = 3  # what a node's path is hashed with when its feature is drawn again; children use 0 to 2


class TreeLimits(NamedTuple):
    """Limits of a tree, and the rule for missing values."""

    max_leaves: int
    max_depth: int
    min_leaf: int
    min_split: int
    missing_rule: int
    l2: float
    min_gain: float
    min_weight: float
    stream: int


class Cuts(NamedTuple):
    """Buffers for the cuts of a feature: what lies on the left of each, and its score."""

    products: Array  # float64 (256)
    weights: Array  # float64 (256)
    rows: Array  # int64 (256)
    scores: Array  # float64 (256)


class GrowthSpace(NamedTuple):
    """Scratch space of a grower that is used again for every tree."""

    rows: Array  # uint32: rows by node
    codes: Array  # uint8, of the node that is split
    aside: Array  # uint32: rows of the node that go right
    copies: Array  # float64 (N_COPIES * TRIPLE_STRIDE)
    sums: Array  # float64 (256, 3)
    cuts: Cuts
    split: Array  # float64 (SIZE_OF_SPLIT)
    keys: Array  # float64 (features): the least is drawn next, infinite ones never
    chosen: Array  # int64 (1): the node's feature


GROWN = np.dtype(
    [
        ("begin", np.int64),
        ("end", np.int64),
        ("path", np.uint64),
        ("position", np.int64),
        ("depth", np.int64),
        ("gain", np.float64),
        ("feature", np.int64),  # that the node searched
        ("code", np.int64),  # NO_SPLIT while there is none
        ("missing_left", np.int64),  # whether missing values go left
        ("left", np.int64),
        ("right", np.int64),
        ("product", np.float64),
        ("weight", np.float64),
        ("left_product", np.float64),
        ("left_weight", np.float64),
        ("is_open", np.int64),  # a leaf that can be split
    ]
)


class OneFeatureGrower:
    """Grows trees under constraints on one training set.

    The constraint replaces what ``policies`` say of features; ``present`` marks the rows to use, if not all. In that
    case, and with separate children for missing values, monotone features or random thresholds, ``grow_tree`` grows
    the trees, which is slower, and only the feature of the root is drawn again.
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
        self._copies = np.empty((n_blocks, N_COPIES * PAIR_STRIDE))
        self._squares = np.empty(n_blocks)
        self._rows_by_bin: dict[int, Floats] = {}  # of features that a stump was grown on
        self._sums = np.empty((N_CODES, 3))
        self._cuts = Cuts(*(np.empty(N_CODES, kind) for kind in (float, float, np.int64, float)))
        self._split = np.empty(SIZE_OF_SPLIT)
        self._stump_limits = self._limits(0)
        self._ones = read_only(np.ones(n_rows))
        self._pairs = np.empty((0, 2))  # products and weights by row, for trees of more leaves
        self._space: GrowthSpace | None = None
        self._nodes = np.recarray(0, GROWN)  # of the tree that is grown
        self._uniform = Policies(features=FeatureChoice(1)).candidates(matrix.columns.shape[0], 1.0)

    @property
    def grows_stumps(self) -> bool:
        """Whether a tree has at most one split, so that a feature is a whole constraint."""
        growth = self._policies.growth
        return growth.max_leaves == 2 or growth.max_depth == 1

    def stump(self, targets: Floats, weights: Floats | None, feature: int) -> Tree:
        """The best stump that splits on ``feature``; a single leaf if no cut has a gain."""
        if not self._is_plain:
            return self._grow_freely(targets, weights, FeatureChoice(1, given=(feature,)), 0)
        matrix = self._matrix
        column = matrix.columns[feature]
        given = self._ones if weights is None else read_only(weights)
        blocks = (
            self._edges,
            column,
            read_only(targets),
            given,
            self._copies,
            self._squares,
        )
        run_blocks(add_rows, len(self._copies), *blocks, n_threads=self._n_threads)
        add_up(self._copies, self._count_rows(feature), self._sums)
        n_bins = int(matrix.n_bins[feature])
        split_sums(self._sums, n_bins, self._stump_limits, self._cuts, self._split)
        gain, code, goes_left, product, weight, all_product, all_weight = self._split.tolist()
        l2 = self._policies.l2
        if code == NO_SPLIT or gain <= NOISE * self._squares.sum():
            mean = all_product / (all_weight + l2) if all_weight > 0 else 0.0
            return Tree.leaf(mean, all_weight, column.size)
        products = np.array([all_product, product, all_product - product])
        cover = np.array([all_weight, weight, all_weight - weight])
        value, child = products / (cover + l2), 1 if goes_left else 2
        leaf_of_row = np.empty(column.size, np.int32)
        mark_sides(0, column.size, column, int(code), bool(goes_left), leaf_of_row)
        return Tree.stump(matrix, feature, int(code), child, value, cover, gain, leaf_of_row)

    def _count_rows(self, feature: int) -> Floats:
        """Rows by bin, counted when a feature is first used."""
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
        """The tree under a constraint; ``probability`` draws the nodes' features non-uniformly."""
        choice = FeatureChoice(1, probability)
        if not self._is_plain:
            return self._redraw_freely(targets, weights, choice, constraint)
        matrix, limits = self._matrix, self._limits(constraint)
        space, pairs = self._scratch()
        given = self._ones if weights is None else read_only(weights)
        squares = pair_up(read_only(targets), given, pairs)
        candidates = self._uniform
        if probability is not None:
            candidates = Policies(features=choice).candidates(matrix.columns.shape[0], 1.0)
        nodes = self._nodes
        n_nodes = grow_one_feature(matrix, pairs, squares, limits, candidates, nodes, space)
        return self._tree(nodes.view(GROWN, np.ndarray)[: int(n_nodes)], space.rows)

    def _redraw_freely(
        self, targets: Floats, weights: Floats | None, choice: FeatureChoice, constraint: int
    ) -> Tree:
        """A tree of ``grow_tree``; where its root is not split, one with each other feature at the root in turn."""
        tree = self._grow_freely(targets, weights, choice, constraint)
        n_features = len(self._matrix.columns)
        possible = (
            np.arange(n_features)
            if choice.probability is None
            else np.flatnonzero(choice.probability)
        )
        for feature in np.random.default_rng(constraint).permutation(possible).tolist():
            if tree.n_leaves > 1:
                break
            given = FeatureChoice(1, choice.probability, given=(feature,))
            tree = self._grow_freely(targets, weights, given, constraint)
        return tree

    def _grow_freely(
        self, targets: Floats, weights: Floats | None, choice: FeatureChoice, stream: int
    ) -> Tree:
        noise = least_gain(targets, weights)
        growth = self._policies.growth
        policies = Policies(
            dataclasses.replace(growth, min_gain=max(growth.min_gain, noise)),
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
            growth.min_leaf,
            growth.min_split,
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
            self._nodes = np.recarray(2 * self._stump_limits.max_leaves + 1, GROWN)
            self._pairs = np.empty((n_rows, 2))
            self._space = GrowthSpace(
                np.empty(n_rows, np.uint32),
                np.empty(n_rows, np.uint8),
                np.empty(n_rows + 1, np.uint32),
                np.empty(N_COPIES * TRIPLE_STRIDE),
                self._sums,
                self._cuts,
                self._split,
                np.empty(n_features),
                np.empty(1, np.int64),
            )
        return self._space, self._pairs

    def _tree(self, nodes: Any, rows: Array) -> Tree:
        """The grown nodes as a tree, with the leaf of every row; its arrays are copies."""
        left, right = nodes["left"].astype(np.int32), nodes["right"].astype(np.int32)
        is_inner = left > 0
        leaf_of_row = np.empty(rows.size, np.int32)
        begin, end = nodes["begin"].copy(), nodes["end"].copy()
        mark_leaves(rows, begin, end, left, leaf_of_row)
        feature = np.where(is_inner, nodes["feature"], -1).astype(np.int32)
        code = np.where(is_inner, nodes["code"], 0).astype(np.uint8)
        weight = nodes["weight"] + self._policies.l2
        value = np.divide(nodes["product"], weight, out=np.zeros(left.size), where=weight > 0)
        return Tree(
            feature,
            thresholds_of(self._matrix, feature, code),
            code,
            left,
            right,
            np.where(nodes["missing_left"] == 1, left, right).astype(np.int32),
            value,
            nodes["weight"].copy(),
            np.where(is_inner, nodes["gain"], 0.0),
            leaf_of_row,
        )


def least_gain(targets: Floats, weights: Floats | None) -> float:
    """The gain that a split of ``grow_tree`` must exceed to be more than a rounding error."""
    given = np.ones(targets.size) if weights is None else weights
    return float(PACKED_NOISE * sum_squares(read_only(targets), read_only(given)))


def in_data_order(matrix: Matrix) -> Matrix:
    """The matrix with its rows in the order of the data: a single column fits into the cache in any order."""
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


# Stumps: sums over all rows of a column.


@kernel
def add_rows(first, last, edges, column, targets, weights, copies, squares):
    """Products and weights by bin of the blocks ``first`` to ``last`` of all rows; block b begins at ``edges[b]``.

    ``squares`` gets the weighted squares of the targets of each block. Rows are not counted, because their number in a
    bin does not depend on the targets.
    """
    for block in range(first, last):
        begin = edges[block]
        size = (edges[block + 1] - begin) // 4
        flat = copies[block]
        clear_sums(flat)
        codes = column[begin : edges[block + 1]]  # views avoid the sign check of every index
        target = targets[begin : edges[block + 1]]
        weight = weights[begin : edges[block + 1]]
        quarter = np.uint64(size)
        square0 = square1 = square2 = square3 = 0.0  # a single sum would wait for each addition
        for step in range(size):
            row = np.uint64(step)
            square0 += add_row(flat, PAIR0, codes[row], target[row], weight[row])
            row += quarter
            square1 += add_row(flat, PAIR1, codes[row], target[row], weight[row])
            row += quarter
            square2 += add_row(flat, PAIR2, codes[row], target[row], weight[row])
            row += quarter
            square3 += add_row(flat, PAIR3, codes[row], target[row], weight[row])
        for rest in range(4 * size, codes.size):
            square0 += add_row(flat, PAIR0, codes[rest], target[rest], weight[rest])
        squares[block] = square0 + square1 + square2 + square3


@kernel
def add_row(flat, start, code, target, weight):
    """Add a row to the copy that begins at ``start``; returns the weighted square of its target."""
    index = start + np.uint64(code) * TWO
    product = weight * target
    flat[index] += product
    flat[index + ONE] += weight
    return product * target


@kernel
def clear_sums(flat):
    """Set all sums to zero."""
    for index in range(flat.size):
        flat[index] = 0.0


@kernel
def add_up(copies, counts, sums):
    """Fill ``sums`` from the copies of all blocks, in their order, and the rows by bin."""
    for code in range(sums.shape[0]):
        for part in range(2):
            total = 0.0
            for block in range(copies.shape[0]):
                for copy in range(N_COPIES):
                    total += copies[block, PAIR_STRIDE * copy + 2 * code + part]
            sums[code, part] = total
        sums[code, ROWS] = counts[code]


@kernel
def sum_squares(targets, weights):
    """The squares of all rows."""
    squares = 0.0
    for row in range(targets.size):
        squares += weights[row] * targets[row] * targets[row]
    return squares


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


# The best cut of a feature.


@kernel
def split_sums(sums, n_bins, limits, cuts, split):
    """Fill ``split`` with the best split of a feature (code NO_SPLIT if there is none) and the sums of the node."""
    product = 0.0
    weight = 0.0
    n_rows = 0.0
    for code in range(n_bins):
        product += sums[code, PRODUCT]
        weight += sums[code, WEIGHT]
        n_rows += sums[code, ROWS]
    product += sums[MISSING_BIN, PRODUCT]
    weight += sums[MISSING_BIN, WEIGHT]
    n_rows += sums[MISSING_BIN, ROWS]
    split[ALL_PRODUCT] = product
    split[ALL_WEIGHT] = weight
    split[CODE] = NO_SPLIT
    n_left = np.int64(0)
    has_missing = sums[MISSING_BIN, ROWS] > 0.0
    parent = product * product / (weight + limits.l2) if weight + limits.l2 > 0.0 else 0.0
    best = parent
    for side in (GO_RIGHT, GO_LEFT):
        if not is_tried(side, has_missing, limits.missing_rule):
            continue
        both, code = cut_sums(sums, n_bins, side == GO_LEFT, split, n_rows, limits, best, cuts)
        if code != NO_SPLIT:
            best = both
            n_left = cuts.rows[code]
            split[CODE] = code
            split[MISSING_LEFT] = np.float64(side == GO_LEFT)
            split[LEFT_PRODUCT] = cuts.products[code]
            split[LEFT_WEIGHT] = cuts.weights[code]
    split[GAIN] = best - parent
    if split[CODE] == NO_SPLIT or split[GAIN] <= limits.min_gain:
        split[GAIN] = 0.0
        split[CODE] = NO_SPLIT
    elif not has_missing:  # the rule, or the larger child, takes later ones
        goes_left = np.float64(2 * n_left) >= n_rows
        if limits.missing_rule in (GO_LEFT, GO_RIGHT):
            goes_left = limits.missing_rule == GO_LEFT
        split[MISSING_LEFT] = np.float64(goes_left)


@kernel
def cut_sums(sums, n_bins, missing_goes_left, split, n_rows, limits, least, cuts):
    """The highest score above ``least`` of all cuts with the missing values on one side, and its code."""
    product = 0.0
    weight = 0.0
    n_extra = np.int64(0)
    if missing_goes_left:
        product = sums[MISSING_BIN, PRODUCT]
        weight = sums[MISSING_BIN, WEIGHT]
        n_extra = np.int64(sums[MISSING_BIN, ROWS])
    n_left = n_extra
    n_cuts = n_bins - 1
    l2 = limits.l2
    min_weight = limits.min_weight + l2
    for code in range(n_cuts):
        product += sums[code, PRODUCT]
        weight += sums[code, WEIGHT]
        n_left += np.int64(sums[code, ROWS])
        cuts.products[code] = product
        cuts.weights[code] = weight
        cuts.rows[code] = n_left
    all_product, all_weight = split[ALL_PRODUCT], split[ALL_WEIGHT]
    for code in range(n_cuts):
        cuts.scores[code] = score_cut(
            cuts.products[code], cuts.weights[code], all_product, all_weight, l2, min_weight
        )
    forbid_few_rows(cuts.rows, n_extra, np.int64(n_rows), n_cuts, limits.min_leaf, cuts.scores)
    return best_cut(cuts.scores, n_cuts, least)


# Trees of more leaves.


@kernel
def pair_up(targets, weights, pairs):
    """Product and weight of each row, side by side; returns the squares of all rows."""
    squares = 0.0
    for row in range(targets.size):
        product = targets[row] * weights[row]
        pairs[row, PRODUCT] = product
        pairs[row, WEIGHT] = weights[row]
        squares += product * targets[row]
    return squares


@kernel
def squares_of_node(pairs, rows, begin, end):
    """The squares of a node, from products and weights."""
    squares = 0.0
    for place in range(begin, end):
        row = rows[place]
        if pairs[row, WEIGHT] > 0.0:
            squares += pairs[row, PRODUCT] / pairs[row, WEIGHT] * pairs[row, PRODUCT]
    return squares


@kernel
def sum_node(column, n_bins, pairs, rows, begin, end, flat, sums):
    """Sums by bin of the rows of a node; only bins that the feature has are looked at."""
    clear_copies(n_bins, flat)
    add_node_rows(column, pairs, rows, begin, end, flat)
    for code in range(n_bins):
        add_copies(code, flat, sums)
    add_copies(MISSING_BIN, flat, sums)


@kernel
def clear_copies(n_bins, flat):
    """Set the sums of a feature's bins, and of missing values, to zero."""
    for copy in range(N_COPIES):
        start = copy * TRIPLE_STRIDE
        for index in range(start, start + 3 * n_bins):
            flat[index] = 0.0
        for index in range(start + 3 * MISSING_BIN, start + 3 * MISSING_BIN + 3):
            flat[index] = 0.0


@kernel
def add_copies(code, flat, sums):
    """The sums of a bin from its copies."""
    for part in range(3):
        index = 3 * code + part
        sums[code, part] = (flat[index] + flat[TRIPLE_STRIDE + index]) + (
            flat[2 * TRIPLE_STRIDE + index] + flat[3 * TRIPLE_STRIDE + index]
        )


@kernel
def add_node_rows(column, pairs, rows, begin, end, flat):
    """Add the rows of a node to N_COPIES copies of its sums by bin."""
    own = rows[begin:end]
    size = own.size // 4
    quarter = np.uint64(size)
    for step in range(size):
        index = np.uint64(step)
        count_row(flat, TRIPLE0, column, pairs, own[index])
        index += quarter
        count_row(flat, TRIPLE1, column, pairs, own[index])
        index += quarter
        count_row(flat, TRIPLE2, column, pairs, own[index])
        index += quarter
        count_row(flat, TRIPLE3, column, pairs, own[index])
    for last in range(4 * size, own.size):
        count_row(flat, TRIPLE0, column, pairs, own[last])


@kernel
def count_row(flat, start, column, pairs, row):
    """Add a row to the copy that begins at ``start``, and count it."""
    index = start + np.uint64(column[row]) * THREE
    flat[index] += pairs[row, PRODUCT]
    flat[index + ONE] += pairs[row, WEIGHT]
    flat[index + TWO] += 1.0


@kernel
def grow_one_feature(matrix, pairs, squares, limits, candidates, nodes, space):
    """Grow one tree, best leaf first; every node searches the feature that its path gives. Returns its size.

    ``squares`` are those of all rows.
    """
    for row in range(space.rows.size):
        space.rows[row] = row
    start = mix(np.uint64(limits.stream))
    add_leaf(nodes, 0, np.int64(0), np.int64(space.rows.size), start, np.int64(0), np.int64(0))
    search_leaf(0, matrix, pairs, squares, limits, candidates, nodes, space)
    nodes.product[0] = space.split[ALL_PRODUCT]
    nodes.weight[0] = space.split[ALL_WEIGHT]
    n_nodes = 1
    n_leaves = 1
    while n_leaves < limits.max_leaves:
        node = best_open_leaf(nodes, n_nodes)
        if node < 0:
            break
        split_leaf(node, n_nodes, matrix, nodes, space)
        n_nodes += 2
        n_leaves += 1
        if n_leaves < limits.max_leaves:
            for child in (n_nodes - 2, n_nodes - 1):
                search_leaf(child, matrix, pairs, squares, limits, candidates, nodes, space)
    return n_nodes


@kernel
def add_leaf(nodes, node, begin, end, path, position, depth):
    """Add a leaf that owns the positions ``begin`` to ``end``."""
    nodes.begin[node] = begin
    nodes.end[node] = end
    nodes.path[node] = path
    nodes.position[node] = position
    nodes.depth[node] = depth
    nodes.gain[node] = 0.0
    nodes.feature[node] = -1
    nodes.code[node] = NO_SPLIT
    nodes.missing_left[node] = 0
    nodes.left[node] = 0
    nodes.right[node] = 0
    nodes.is_open[node] = 0


@kernel
def search_leaf(node, matrix, pairs, squares, limits, candidates, nodes, space):
    """Find the best cut of the leaf's feature, or of the first one drawn after it that has a cut; then it is open."""
    begin = nodes.begin[node]
    end = nodes.end[node]
    is_root = node == 0  # whose sums are needed in any case
    is_final = nodes.depth[node] >= limits.max_depth
    is_final |= end - begin < 2 * limits.min_leaf or end - begin < limits.min_split
    if is_final and not is_root:
        return
    n_features = matrix.columns.shape[0]
    draw_features(
        nodes.path[node], nodes.position[node], n_features, candidates, space.keys, space.chosen
    )
    feature = space.chosen[0]
    split = space.split
    is_found = search_feature(feature, begin, end, matrix, pairs, squares, limits, space)
    if not is_found and not is_final:
        order_others(nodes.path[node], feature, candidates.probability.size > 0, space.keys)
        while not is_found:
            feature = np.argmin(space.keys)
            if space.keys[feature] == np.inf:
                return
            space.keys[feature] = np.inf
            is_found = search_feature(feature, begin, end, matrix, pairs, squares, limits, space)
    nodes.feature[node] = feature
    if is_final or not is_found:
        return
    nodes.gain[node] = split[GAIN]
    nodes.code[node] = np.int64(split[CODE])
    nodes.missing_left[node] = np.int64(split[MISSING_LEFT])
    nodes.left_product[node] = split[LEFT_PRODUCT]
    nodes.left_weight[node] = split[LEFT_WEIGHT]
    nodes.is_open[node] = 1


@kernel
def order_others(path, first, by_probability, keys):
    """Fill ``keys`` such that taking the least again and again draws all features but the first without replacement.

    A draw by probability has left its keys, which serve on; a uniform one has none.
    """
    if not by_probability:
        again = combine(path, REDRAW)
        for feature in range(keys.size):
            keys[feature] = uniform(again, feature)
    keys[first] = np.inf


@kernel
def search_feature(feature, begin, end, matrix, pairs, squares, limits, space):
    """Fill ``space.split`` with the best cut of a feature in a node; returns whether there is one.

    A gain above the noise of all rows is above that of the node, whose squares are only summed where it is not.
    """
    column = matrix.columns[feature]
    n_bins = matrix.n_bins[feature]
    sum_node(column, n_bins, pairs, space.rows, begin, end, space.copies, space.sums)
    split_sums(space.sums, n_bins, limits, space.cuts, space.split)
    if space.split[CODE] == NO_SPLIT:
        return False
    gain = space.split[GAIN]
    if gain > NOISE * squares or end - begin == space.rows.size:
        return gain > NOISE * squares
    return gain > NOISE * squares_of_node(pairs, space.rows, begin, end)


@kernel
def best_open_leaf(nodes, n_nodes):
    """The open leaf of greatest gain, the oldest of equal ones; -1 if none is open."""
    best = -1
    for node in range(n_nodes):
        if nodes.is_open[node] == 1 and (best < 0 or nodes.gain[node] > nodes.gain[best]):
            best = node
    return best


@kernel
def split_leaf(node, n_nodes, matrix, nodes, space):
    """Turn an open leaf into an inner node with two leaves, the nodes ``n_nodes`` and the next."""
    begin = nodes.begin[node]
    end = nodes.end[node]
    columns = matrix.columns.reshape(matrix.columns.size)
    start = nodes.feature[node] * matrix.columns.shape[1]
    read_codes(columns, start, 1, space.rows, begin, end, space.codes)
    middle = partition_rows(
        space.rows,
        begin,
        end,
        space.codes,
        nodes.code[node],
        nodes.missing_left[node] == 1,
        space.aside,
    )
    depth = nodes.depth[node] + 1
    path = nodes.path[node]
    position = nodes.position[node]
    add_leaf(nodes, n_nodes, begin, middle, combine(path, 0), child_position(position, 0), depth)
    add_leaf(nodes, n_nodes + 1, middle, end, combine(path, 1), child_position(position, 1), depth)
    nodes.is_open[node] = 0
    nodes.left[node] = n_nodes
    nodes.right[node] = n_nodes + 1
    nodes.product[n_nodes] = nodes.left_product[node]
    nodes.weight[n_nodes] = nodes.left_weight[node]
    nodes.product[n_nodes + 1] = nodes.product[node] - nodes.left_product[node]
    nodes.weight[n_nodes + 1] = nodes.weight[node] - nodes.left_weight[node]
