"""The order of the rows: the binned matrix with similar rows near each other.

The rows of a small node are scattered over a column, so that in a column larger than the cache every code is a cache
miss. Therefore a *pilot tree* is grown on a sample of the rows, and the rows are sorted by their leaf in it. Rows that
share a leaf of one tree mostly share paths in others, so small nodes of later trees read codes that are close
together. The order affects speed only: all sums over rows are exact, so trees are bit-identical in any order.

Trees that fit residuals differ more from the pilot tree. For large data the matrix therefore holds the codes of its
first features a second time, row by row: the *row-major prefix*, of which a row fills two or three cache lines. Small
nodes with scattered rows read it.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import Any

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.threads import run_blocks
from rankwood.dtypes import Array, Bytes, Floats
from rankwood.trees.grower import Growth, Policies, Tree, grow_tree
from rankwood.trees.partition import route
from rankwood.trees.workspace import Matrix

_LEAST_ROWS = 1 << 16  # a column of fewer rows fits into the cache
_PILOT_ROWS = 50_000
_PILOT_LEAVES = 128  # leaf numbers are bytes
_LEAST_PREFIX_ROWS = 1 << 17  # with fewer rows, columns are as fast
_LINE = 64  # bytes of a cache line
_STEP = 16  # the width of the prefix is a multiple of this
_MOST_STEPS = 7  # a wider prefix would be faster, but exceed the memory limit of training
_ROWS_AT_A_TIME = 4096  # transposed within the cache


def as_matrix(
    codes: Bytes,
    bins: Any,
    source_of_row: Array | None = None,
    row_major_prefix: Bytes | None = None,
) -> Matrix:
    """The codes (features × rows) as a ``Matrix`` whose row ``r`` is the caller's row ``source_of_row[r]``.

    ``row_major_prefix`` holds the codes of the first features again, row by row; None for a matrix without.
    """
    if source_of_row is None:
        source_of_row = np.arange(codes.shape[1], dtype=np.int32)
    if row_major_prefix is None:
        row_major_prefix = np.empty((0, 1), np.uint8)
    return Matrix(
        read_only(codes),
        read_only(row_major_prefix),
        read_only(source_of_row),
        read_only(np.ascontiguousarray(bins.n_value_bins, np.int64)),
        read_only(bins.thresholds),
        read_only(bins.offsets),
        read_only(bins.is_categorical),
    )


def reorder_by_pilot_tree(
    codes: Bytes,
    bins: Any,
    targets: Floats,
    *,
    in_place: bool = False,
    n_threads: int | None = None,
) -> Matrix:
    """The codes as a ``Matrix`` whose rows are sorted by their leaf in a pilot tree that fits ``targets``.

    ``in_place`` reorders ``codes`` themselves, which saves a copy; the caller must be their only user.
    """
    matrix = as_matrix(codes, bins)
    if codes.shape[1] < _LEAST_ROWS:
        return matrix
    leaf_of_row = _pilot_leaves(matrix, targets)
    if leaf_of_row is None:
        return matrix
    source_of_row = np.argsort(leaf_of_row, kind="stable")
    ordered = codes if in_place else np.empty_like(codes)
    run_blocks(_reorder, codes.shape[0], codes, source_of_row, ordered, n_threads=n_threads)
    source_of_row = source_of_row.astype(np.int32)
    return as_matrix(ordered, bins, source_of_row, _copy_prefix(ordered, n_threads))


def _copy_prefix(columns: Bytes, n_threads: int | None) -> Bytes | None:
    """The row-major prefix; None where rows or features are too few to benefit."""
    n_rows = columns.shape[1]
    width = min(columns.shape[0] * 7 // 8 // _STEP, _MOST_STEPS) * _STEP
    if n_rows < _LEAST_PREFIX_ROWS or width == 0:
        return None
    release_freed()  # memory of binning and the pilot tree: the prefix is large
    space = np.empty(n_rows * width + _LINE, np.uint8)
    begin = -space.ctypes.data % _LINE  # aligned: a row spans as few cache lines as it can
    prefix: Bytes = space[begin : begin + n_rows * width].reshape(n_rows, width)
    run_blocks(_transpose, -(-n_rows // _ROWS_AT_A_TIME), columns, prefix, n_threads=n_threads)
    return prefix


def _transpose(first: int, last: int, columns: Bytes, prefix: Bytes) -> None:
    """Fill the blocks ``first`` to ``last`` of the prefix."""
    for block in range(first, last):
        rows = slice(block * _ROWS_AT_A_TIME, (block + 1) * _ROWS_AT_A_TIME)
        prefix[rows] = columns[: prefix.shape[1], rows].T


def _pilot_leaves(matrix: Matrix, targets: Floats) -> Array | None:
    """The leaf of every row in a pilot tree, numbered from the left; None for a single leaf."""
    pilot = grow_pilot(matrix, targets)
    return None if pilot.n_leaves == 1 else _leaf_numbers(pilot)[pilot.leaf_of_row]


def grow_pilot(matrix: Matrix, targets: Floats) -> Tree:
    """A tree grown on evenly spaced rows of the matrix."""
    n_rows = matrix.columns.shape[1]
    counts = np.zeros(n_rows, np.int32)
    counts[:: max(1, n_rows // _PILOT_ROWS)] = 1
    policies = Policies(Growth(max_leaves=_PILOT_LEAVES))
    return grow_tree(matrix, np.ascontiguousarray(targets, np.float64), policies, counts=counts)


def rows_by_leaf(pilot: Tree, codes: Bytes, n_threads: int | None) -> Array:
    """The rows of ``codes`` (features × rows), sorted by their leaf in a pilot tree, from the left."""
    n_rows = codes.shape[1]
    leaf_of_row = np.full(n_rows, -1, np.int32)
    nodes = (*pilot.routing, leaf_of_row)
    run_blocks(route, n_rows, read_only(codes), *nodes, n_threads=n_threads, least=_ROWS_AT_A_TIME)
    return np.argsort(_leaf_numbers(pilot)[leaf_of_row], kind="stable")


def _leaf_numbers(tree: Tree) -> Array:
    """By node, the number of a leaf counted from left to right, so that similar leaves have near numbers."""
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
    """Reorder the columns ``first`` to ``last``; ``take`` copies, so ``ordered`` may be ``codes``."""
    for feature in range(first, last):
        ordered[feature] = codes[feature].take(source_of_row)


def release_freed() -> None:
    """Return freed memory that the C library still holds to the system; only glibc supports this.

    Freed arrays of some megabytes leave holes that new arrays do not always fit into.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
