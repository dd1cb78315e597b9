"""A forest in the form that scoring reads; ``scoring_kernels`` draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rankwood._checks import read_only
from rankwood.dtypes import Array, Floats, Rows
from rankwood.models.forest_checks import NODE
from rankwood.models.scoring_kernels import GREATEST_KEY, LANES, LEAST_KEY

if TYPE_CHECKING:
    from rankwood.models.forest import Forest

_WORD_BITS = 32  # of a packed node, for eight times the column and the left child


@dataclass(frozen=True, eq=False)
class PackedForest:
    """Arrays for the kernels: ``packed`` words, or ``wide`` rows where words do not do; the other is empty."""

    columns: Rows  # the feature behind each column of keys
    missing_keys: Array  # of each column
    offsets: Rows
    packed: Array
    left_shift: int
    wide: Array
    values: Floats  # of each node, times its tree's weight
    numbers: Array  # of each node within its tree, as the forest counts


def ordered_keys(values: Array) -> Rows:
    """Whole numbers between -2^31 and 2^31 that order as the float32 ``values`` do; -0 equals 0."""
    bits = values.view(np.uint32).astype(np.int64)
    magnitude = bits & 0x7FFFFFFF
    return np.where(bits == magnitude, magnitude, -magnitude)


def pack(forest: Forest, keys: Rows) -> PackedForest:
    """The packed form of ``forest``, with ``keys`` in the place of its thresholds."""
    is_inner = forest.feature >= 0
    sizes = np.diff(forest.tree_offsets)
    root = np.repeat(forest.tree_offsets[:-1], sizes)
    # A column for a feature's missing values that go left, and one for those that go right.
    goes_right = is_inner & (forest.missing == forest.right)
    pair = np.where(is_inner, 2 * forest.feature.astype(np.int64) + goes_right, -1)
    pairs, column = np.unique(pair[is_inner], return_inverse=True)
    left_shift = (LANES * max(1, pairs.size) - 1).bit_length()
    left_bits = int(sizes.max(initial=1) - 1).bit_length()
    has_third = is_inner & ~goes_right & (forest.missing != forest.left)
    if has_third.any() or left_shift + left_bits > _WORD_BITS:
        pairs, column = np.unique(pair[is_inner] // 2 * 2, return_inverse=True)
        position = np.arange(forest.n_nodes)
        packed, wide = np.zeros(0, np.int64), _wide_nodes(forest, keys, column, root)
    else:
        position = _beside_siblings(forest, root)
        packed = _packed_nodes(forest, keys, column, left_shift, position, root)
        wide = np.zeros((0, 5), np.int64)
    if pairs.size == 0:
        pairs = np.zeros(1, np.int64)  # leaves read a key too, and ignore it
    missing_keys = np.where(pairs % 2, GREATEST_KEY, LEAST_KEY).astype(np.int32)
    values = np.empty(forest.n_nodes)
    values[position] = forest.value * np.repeat(forest.tree_weights, sizes)
    numbers = np.empty(forest.n_nodes, NODE)
    numbers[position] = np.arange(forest.n_nodes) - root
    return PackedForest(
        read_only(pairs // 2),
        read_only(missing_keys),
        forest.tree_offsets,
        read_only(packed),
        left_shift,
        read_only(wide),
        read_only(values),
        read_only(numbers),
    )


def _beside_siblings(forest: Forest, root: Rows) -> Rows:
    """New positions of the nodes: the children of a tree's k-th inner node come k-th, left before right."""
    inner = np.flatnonzero(forest.feature >= 0)
    n_inner_before: Rows = np.cumsum(forest.feature >= 0) - (forest.feature >= 0)
    turn: Rows = n_inner_before[inner] - n_inner_before[root[inner]]
    position = root.copy()
    position[forest.left[inner]] += 1 + 2 * turn
    position[forest.right[inner]] += 2 + 2 * turn
    return position


def _packed_nodes(
    forest: Forest, keys: Rows, column: Rows, left_shift: int, position: Rows, root: Rows
) -> Array:
    inner = np.flatnonzero(forest.feature >= 0)
    words = (GREATEST_KEY << 32) | ((position - root) << left_shift)  # leaves, their own left child
    left = position[forest.left[inner]] - root[inner]
    words[inner] = (keys[inner] << 32) | (left << left_shift) | (LANES * column)
    packed = np.empty(forest.n_nodes, np.int64)
    packed[position] = words
    return packed


def _wide_nodes(forest: Forest, keys: Rows, column: Rows, root: Rows) -> Array:
    inner = np.flatnonzero(forest.feature >= 0)
    wide = np.zeros((forest.n_nodes, 5), np.int64)
    wide[:, 0] = -1
    wide[inner, 0] = column
    wide[inner, 1] = keys[inner]
    for place, children in enumerate((forest.left, forest.right, forest.missing), start=2):
        wide[inner, place] = children[inner] - root[inner]
    return wide
