"""``lay_out``: the binned data as the growing kernels read them.

A node's rows are scattered over a column, and once a column outgrows the cache every code of a small node is waited
for. So rows that are alike are put near each other: a *pilot*, a tree grown on a sample of the rows, says which are.
Rows that end in the same leaf of one tree mostly share their ways through others, so a small node of any later tree
finds its codes close together. The order is a matter of speed alone: sums of words are exact, and values are summed in
the caller's order, so trees are the same to the bit whatever it is.

Trees that fit residues go other ways than the pilot. So of many rows the first features are kept a second time, row by
row, two or three lines of the cache each: these are the rows' *heads*, and small nodes read them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.memory import release_freed
from rankwood._core.threads import run_blocks
from rankwood.dtypes import Array, Bytes, Floats
from rankwood.trees.grower import Tree, grow_tree
from rankwood.trees.policies import Growth, Policies
from rankwood.trees.workspace import Matrix

_LEAST_ROWS = 1 << 16  # a column of fewer rows stays in the cache
_PILOT_ROWS = 50_000
_PILOT_LEAVES = 128  # their numbers are bytes
_LEAST_HEADS = 1 << 17  # of fewer rows, columns are as fast
_LINE = 64  # bytes of the cache
_STEP = 16  # heads begin at multiples of so many bytes
_MOST_STEPS = 7  # more would be faster yet, and take more memory than training may
_ROWS_AT_A_TIME = 4096  # turned from columns into heads within the cache


def lay_out(
    codes: Bytes, bins: Any, source_of_row: Array | None = None, heads: Bytes | None = None
) -> Matrix:
    """The codes (features × rows) as a matrix whose row ``r`` is the caller's row ``source_of_row[r]``.

    ``heads`` hold the codes of the first features once more, row by row; None for a matrix without.
    """
    if source_of_row is None:
        source_of_row = np.arange(codes.shape[1], dtype=np.int32)
    if heads is None:
        heads = np.empty((0, 1), np.uint8)
    return Matrix(
        read_only(codes),
        read_only(heads),
        read_only(source_of_row),
        read_only(np.ascontiguousarray(bins.n_value_bins, np.int64)),
        read_only(bins.thresholds),
        read_only(bins.offsets),
    )


def reorder_by_pilot_tree(
    codes: Bytes,
    bins: Any,
    targets: Floats,
    *,
    in_place: bool = False,
    n_threads: int | None = None,
) -> Matrix:
    """The codes as a matrix with rows that are alike near each other, as far as ``targets`` tell.

    ``in_place`` reorders ``codes`` themselves, which saves a copy; nobody else may be using them.
    """
    matrix = lay_out(codes, bins)
    if codes.shape[1] < _LEAST_ROWS:
        return matrix
    leaf_of_row = _leaves_of_pilot(matrix, targets)
    if leaf_of_row is None:
        return matrix
    source_of_row = np.argsort(leaf_of_row, kind="stable")
    ordered = codes if in_place else np.empty_like(codes)
    run_blocks(_reorder, codes.shape[0], codes, source_of_row, ordered, n_threads=n_threads)
    source_of_row = source_of_row.astype(np.int32)
    return lay_out(ordered, bins, source_of_row, _copy_heads(ordered, n_threads))


def _copy_heads(columns: Bytes, n_threads: int | None) -> Bytes | None:
    """The first features row by row; None where rows or features are too few to gain from it."""
    n_rows = columns.shape[1]
    width = min(columns.shape[0] * 7 // 8 // _STEP, _MOST_STEPS) * _STEP
    if n_rows < _LEAST_HEADS or width == 0:
        return None
    release_freed()  # by binning and the pilot: heads are large
    space = np.empty(n_rows * width + _LINE, np.uint8)
    begin = -space.ctypes.data % _LINE  # no head lies in more lines than it must
    heads: Bytes = space[begin : begin + n_rows * width].reshape(n_rows, width)
    run_blocks(_turn, -(-n_rows // _ROWS_AT_A_TIME), columns, heads, n_threads=n_threads)
    return heads


def _turn(first: int, last: int, columns: Bytes, heads: Bytes) -> None:
    """The blocks ``first`` to ``last`` of the heads."""
    for block in range(first, last):
        rows = slice(block * _ROWS_AT_A_TIME, (block + 1) * _ROWS_AT_A_TIME)
        heads[rows] = columns[: heads.shape[1], rows].T


def _leaves_of_pilot(matrix: Matrix, targets: Floats) -> Array | None:
    """The leaf of every row in a tree grown on evenly spaced rows, counted from the left; None where it has but one."""
    n_rows = matrix.columns.shape[1]
    counts = np.zeros(n_rows, np.int32)
    counts[:: max(1, n_rows // _PILOT_ROWS)] = 1
    policies = Policies(Growth(max_leaves=_PILOT_LEAVES))
    pilot = grow_tree(matrix, np.ascontiguousarray(targets, np.float64), policies, counts=counts)
    return None if pilot.n_leaves == 1 else _numbers_of_leaves(pilot)[pilot.leaf_of_row]


def _numbers_of_leaves(tree: Tree) -> Array:
    """By node, the number of a leaf counted from left to right: neighbours are alike."""
    number: Array = np.zeros(tree.n_nodes, np.uint8)
    n_leaves = 0
    below = [0]
    while below:
        node = below.pop()
        if tree.left[node] == 0:
            number[node] = n_leaves
            n_leaves += 1
        else:
            below += sorted(
                {int(tree.right[node]), int(tree.missing[node])} - {int(tree.left[node])}
            )
            below.append(int(tree.left[node]))
    return number


def _reorder(first: int, last: int, codes: Bytes, source_of_row: Array, ordered: Bytes) -> None:
    """The columns ``first`` to ``last`` in the new order; where both are one array, through a copy of the column."""
    for feature in range(first, last):
        ordered[feature] = codes[feature].take(source_of_row)
