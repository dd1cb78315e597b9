"""Scores of rows whose leaves are known: what a new tree adds, without walking down it."""

from __future__ import annotations

from rankwood._jit import kernel
from rankwood.dtypes import Array


@kernel
def add_leaf_values(
    first: int, last: int, leaf_of_row: Array, value: Array, factor: float, totals: Array
) -> None:
    """Add ``factor`` times the value of each row's leaf to its total."""
    for row in range(first, last):
        totals[row] += factor * value[leaf_of_row[row]]


@kernel
def add_out_of_bag(
    counts: Array, leaf_of_row: Array, value: Array, sums: Array, n_trees: Array
) -> None:
    """Add the value of each row's leaf, and one tree, where the tree has not seen the row.

    Without branches: whether a row was drawn cannot be guessed.
    """
    for row in range(counts.size):
        is_left_out = counts[row] == 0
        found = value[leaf_of_row[row]]
        sums[row] += found if is_left_out else 0.0
        n_trees[row] += is_left_out
