"""Completely random trees without a limit of leaves: the space they grow in, and their nodes in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood.dtypes import Array
from rankwood.trees.blind_growth_kernels import (
    BLIND_NODE,
    BlindSpace,
    add_others,
    grow_blindly,
)
from rankwood.trees.blind_numbering_kernels import Splits, count_rows, number_largest_first
from rankwood.trees.state_kernels import Bag, Matrix, Rules


def grow_to_the_end(
    matrix: Matrix, bag: Bag, rules: Rules, with_others: bool
) -> tuple[Splits, Array]:
    """The tree that splits every node it can, and its rows by place: those of the bag, or all."""
    n_drawn, n_rows = bag.rows.size, matrix.columns.shape[1]
    rows = _with_others(bag.rows, n_rows) if with_others else bag.rows
    space = BlindSpace(
        np.zeros(n_rows, np.int64),
        np.zeros(n_rows if rules.has_counts else 0, np.int64),
        np.empty(rows.size, np.uint8),
        np.empty(rows.size, np.uint32),
        np.empty(n_drawn + 1, np.int64),
    )
    nodes: Any = np.recarray(2 * n_drawn, BLIND_NODE)
    nodes = nodes[: grow_blindly(matrix, bag, rows, rules, nodes, space)]
    count_rows(nodes)
    return _number(nodes, rules.missing_rule), rows


def _with_others(drawn: Array, n_rows: int) -> Array:
    """The rows drawn, and behind them those that were not."""
    rows = np.empty(n_rows + 1, np.uint32)
    add_others(drawn, np.zeros(n_rows, np.bool_), rows)
    return rows[:n_rows]


def _number(nodes: Any, missing_rule: int) -> Splits:
    """The nodes of a tree grown depth first, numbered like those of any other."""
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
