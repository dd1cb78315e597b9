"""``ConstrainedGrower``: trees whose nodes look at one feature each, for the price of one column.

A constraint is a number. The feature of a node is a hash of it and of the node's path from the root, as
``grow_tree`` draws it with ``features_per_node=1``; for a stump the feature may be given. The trees are those of
``grow_tree``, up to the rounding of sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood._checks import read_only
from rankwood._threads import run_blocks
from rankwood.dtypes import Array, Floats
from rankwood.trees import constrained_kernels as kernels
from rankwood.trees.grower import Tree, grow_tree
from rankwood.trees.leaf_kernels import mark_leaves
from rankwood.trees.policies import MISSING_RULES, UNLIMITED, FeatureChoice, Policies
from rankwood.trees.state_kernels import NO_SPLIT, Matrix

_ROWS_PER_BLOCK = 1 << 16  # of a column: blocks follow from the rows alone, whatever the threads
_BINS = 256


class ConstrainedGrower:
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
        self._copies = np.empty((n_blocks, kernels.SIZE_OF_PAIRS))
        self._rows_by_bin: dict[int, Floats] = {}  # of features that a stump was grown on
        self._sums = np.empty((_BINS, 3))
        self._of_stump = self._limits(0)
        self._found = np.empty(8)
        self._ones = read_only(np.ones(n_rows))
        self._pairs = np.empty((0, 2))  # trees of more leaves need them
        self._space: kernels.Space | None = None

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
        run_blocks(kernels.add_rows, len(self._copies), *blocks, n_threads=self._n_threads)
        n_bins = int(matrix.n_bins[feature])
        counts = self._counted(feature)
        kernels.cut_stump(self._copies, counts, self._sums, n_bins, self._of_stump, self._found)
        leaf_of_row = np.empty(column.size, np.int32)
        code = int(self._found[1])
        if code == NO_SPLIT:
            leaf_of_row[:] = 0
            return self._leaf(leaf_of_row)
        sides = (column, code, bool(self._found[2]), leaf_of_row)
        kernels.mark_sides(0, column.size, *sides)
        return self._stump(feature, code, leaf_of_row)

    def _counted(self, feature: int) -> Floats:
        """Rows by bin, counted when a feature is first looked at."""
        if feature not in self._rows_by_bin:
            column = self._matrix.columns[feature]
            self._rows_by_bin[feature] = np.bincount(column, minlength=_BINS).astype(np.float64)
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
        kernels.pair_up(0, len(pairs), read_only(targets), mass, pairs)
        candidates = Policies(features=choice).candidates(matrix.columns.shape[0], 1.0)
        nodes = np.recarray(2 * limits.max_leaves + 1, kernels.GROWN)
        n_nodes = kernels.grow_constrained(matrix, pairs, limits, candidates, nodes, space)
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

    def _limits(self, stream: int) -> kernels.Limits:
        growth = self._policies.growth
        n_rows = self._matrix.columns.shape[1]
        return kernels.Limits(
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

    def _scratch(self) -> tuple[kernels.Space, Floats]:
        """Space for trees of more than two leaves, made when the first is grown."""
        n_features, n_rows = self._matrix.columns.shape
        if self._space is None:
            self._pairs = np.empty((n_rows, 2))
            self._space = kernels.Space(
                np.empty(n_rows, np.uint32),
                np.empty(n_rows, np.uint32),
                np.empty(kernels.SIZE_OF_NODE),
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
        columns=read_only(columns), heads=matrix.heads[:0], source_of_row=read_only(in_order)
    )


def _threshold(matrix: Matrix, feature: int, code: int) -> float:
    """The cut point behind a code."""
    return float(matrix.thresholds[matrix.offsets[feature] + code])
