"""``lay_out``: the binned data as the growing kernels read them.

A node's rows are scattered over a column, and once a column outgrows the cache every code of a small node is waited
for. So rows that are alike are put near each other: *pilots*, small trees grown on samples of the rows, say which are.
Rows are sorted by their leaf of the first pilot, those of one leaf by the second, and so on: rows that end in the same
leaves mostly share their ways through other trees, so a small node of any later tree finds its codes close together.
The order is a matter of speed alone: sums of words are exact, and values are summed in the caller's order, so trees are
the same to the bit whatever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwood._checks import read_only
from rankwood._threads import run_blocks
from rankwood.dtypes import Array, Bytes, Floats
from rankwood.trees.grower import Tree, grow_tree
from rankwood.trees.policies import FeatureChoice, Growth, Policies
from rankwood.trees.state_kernels import Matrix

_LEAST_ROWS = 1 << 16  # a column of fewer rows stays in the cache
_PILOTS = 5  # see docs/adr/0006 for what other numbers give
_PILOT_ROWS = 50_000
_PILOT_LEAVES = 16
_PILOT_FEATURES = 0.3  # per node: pilots that look at the same features would say the same


def lay_out(codes: Bytes, bins: Any, source_of_row: Array | None = None) -> Matrix:
    """The codes (features × rows) as a matrix whose row ``r`` is the caller's row ``source_of_row[r]``."""
    if source_of_row is None:
        source_of_row = np.arange(codes.shape[1], dtype=np.int32)
    return Matrix(
        read_only(codes),
        read_only(source_of_row),
        read_only(np.ascontiguousarray(bins.n_value_bins, np.int64)),
        read_only(bins.thresholds),
        read_only(bins.offsets),
    )


def lay_out_together(
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
    pilots: list[Any] = [None] * _PILOTS
    values = np.ascontiguousarray(targets, np.float64)
    run_blocks(_grow_pilots, _PILOTS, matrix, values, pilots, n_threads=n_threads)
    ordered = codes if in_place else np.empty_like(codes)
    pilots.sort(key=lambda pilot: pilot.gain.sum(), reverse=True)  # the first one counts most
    return _sort_rows(matrix, pilots, ordered, n_threads)


def _grow_pilots(first: int, last: int, matrix: Matrix, targets: Floats, pilots: list[Any]) -> None:
    """Trees on evenly spaced rows, each on its own, that know the leaf of every row."""
    n_rows = matrix.columns.shape[1]
    step = max(1, n_rows // _PILOT_ROWS)
    policies = Policies(Growth(max_leaves=_PILOT_LEAVES), FeatureChoice(_PILOT_FEATURES))
    for number in range(first, last):
        counts = np.zeros(n_rows, np.int32)
        counts[number % step :: step] = 1
        pilots[number] = grow_tree(matrix, targets, policies, counts=counts, stream=number)


def _sort_rows(
    matrix: Matrix, pilots: Sequence[Tree], ordered: Bytes, n_threads: int | None
) -> Matrix:
    """The matrix, whose rows are in the caller's order, sorted by the pilots' leaves; the codes are in ``ordered``."""
    if all(pilot.n_leaves == 1 for pilot in pilots):
        return matrix
    source_of_row = matrix.source_of_row
    for pilot in reversed(pilots):
        numbers = _numbers_of_leaves(pilot)[pilot.leaf_of_row[source_of_row]]
        source_of_row = source_of_row[np.argsort(numbers, kind="stable")]
    run_blocks(_reorder, len(ordered), matrix.columns, source_of_row, ordered, n_threads=n_threads)
    return matrix._replace(columns=read_only(ordered), source_of_row=read_only(source_of_row))


def _numbers_of_leaves(tree: Tree) -> Array:
    """By node, the number of a leaf counted from left to right: neighbours are alike."""
    number: Array = np.zeros(tree.n_nodes, np.uint16)
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
