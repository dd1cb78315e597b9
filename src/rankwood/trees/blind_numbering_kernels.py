"""The nodes of a tree grown depth first, numbered like those of any other: the largest leaf is split first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array
from rankwood.trees.blind_kernels import side_of_unseen
from rankwood.trees.state_kernels import GO_RIGHT, LEARNED

ROOT = 0


class Splits(NamedTuple):
    """A grown tree by node, as ``Tree`` has it, and the places of its rows."""

    feature: Array  # int32; -1 in a leaf
    code: Array  # uint8; 0 in a leaf
    left: Array  # int32; 0 in a leaf
    right: Array
    missing: Array
    gain: Array  # float64, in integer units; of any value in a leaf
    begin: Array  # int64
    end: Array


@kernel
def count_rows(nodes):
    """Inner nodes have the rows of their children, which have higher numbers."""
    for number in range(nodes.size - 1, -1, -1):
        node = nodes[number]
        if node.left > 0:
            node.n_rows = nodes[node.left].n_rows + nodes[node.left + 1].n_rows


@kernel
def number_largest_first(nodes, missing_rule, splits, new_of_queue, old_of_new, queue_of_size):
    """Fill ``splits`` with the same nodes, numbered as if the largest leaf had always been split first.

    Children are smaller than their parent, so nodes of one size are all known when the first of them is to be split:
    they wait in a queue of their own, the oldest first. ``new_of_queue`` and ``old_of_new`` have a place for each node,
    ``queue_of_size`` zeros for each number of rows up to the root's, and one more.
    """
    largest = nodes.n_rows[ROOT]
    for old in range(nodes.size):
        if nodes.left[old] > 0:
            queue_of_size[largest - nodes.n_rows[old]] += 1
    n_inner = 0
    for size in range(queue_of_size.size):  # where each size's queue begins, larger ones before
        length = queue_of_size[size]
        queue_of_size[size] = n_inner
        n_inner += length
    add_numbered(ROOT, nodes[ROOT], splits)
    new_of_queue[0] = ROOT
    old_of_new[ROOT] = ROOT
    n_nodes = 1
    for place in range(n_inner):
        new = new_of_queue[place]
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
    """All but the children of a node."""
    is_leaf = node.left == 0
    splits.feature[new] = -1 if is_leaf else node.feature
    splits.code[new] = 0 if is_leaf else node.code
    splits.gain[new] = np.float64(node.n_rows)  # largest leaf first
    splits.begin[new] = node.begin
    splits.end[new] = node.end
    splits.left[new] = 0
    splits.right[new] = 0
    splits.missing[new] = 0
