"""After growing: node values in float64 from the unscaled targets, and the leaf of every row.

The packed targets decide the splits only. Sums that become leaf values are taken here, in the order of the sources, so
that they do not depend on the order of the rows or on the number of threads.
"""

from __future__ import annotations

import numpy as np

from rankwood._core.jit import kernel
from rankwood.binning.bins import MISSING_BIN

BLOCK = 1024  # rows that descend a tree together


@kernel
def sum_leaves(drawn, targets, weights, leaf_of_source, sums, weight_sums):
    """Each leaf's sum of ``count * weight * target`` and of ``count * weight``, in the order of the sources.

    Rows that were not drawn have count 0 and add nothing.
    """
    for source in range(drawn.size):
        node = max(leaf_of_source[source], 0)
        weight = np.float64(drawn[source])
        if weights.size > 0:
            weight *= weights[source]
        sums[node] += weight * targets[source]
        weight_sums[node] += weight


@kernel
def sum_inner_nodes(left, right, missing, sums, weight_sums):
    """Fill the sums of inner nodes with those of their children, which have higher numbers."""
    for node in range(left.size - 1, -1, -1):
        if left[node] == 0:
            continue
        sums[node] = sums[left[node]] + sums[right[node]]
        weight_sums[node] = weight_sums[left[node]] + weight_sums[right[node]]
        if missing[node] != left[node] and missing[node] != right[node]:
            sums[node] += sums[missing[node]]
            weight_sums[node] += weight_sums[missing[node]]


@kernel
def look_up_cuts(feature, code, offsets, thresholds, cuts):
    """Look up the threshold of every node from its code; 0 in leaves."""
    last = thresholds.size - 1
    for node in range(feature.size):
        is_inner = feature[node] >= 0
        index = min(offsets[max(feature[node], 0)] + code[node], last)
        cuts[node] = thresholds[index] if is_inner else np.float32(0.0)


@kernel
def mark_leaves(rows, begin, end, left, leaf_of_row):
    """Write the leaf of every row of the bag, by row of the matrix."""
    for node in range(left.size):
        if left[node] == 0:
            for index in range(begin[node], end[node]):
                leaf_of_row[rows[index]] = node


@kernel
def mark_sources(rows, begin, end, left, source_of_row, leaf_of_source):
    """As ``mark_leaves`` by source, for a tree that has all rows."""
    for node in range(left.size):
        if left[node] == 0:
            for index in range(begin[node], end[node]):
                leaf_of_source[source_of_row[rows[index]]] = node


@kernel
def by_source(source_of_row, leaf_of_row, leaf_of_source):
    """Turn leaves by row of the matrix into leaves by source."""
    for row in range(source_of_row.size):
        leaf_of_source[source_of_row[row]] = leaf_of_row[row]


@kernel
def route(first, last, columns, feature, code, left, right, missing, leaf_of_row):
    """Find the leaf of each row from ``first`` to ``last`` whose leaf is not known yet (-1).

    A block of rows descends together, one level at a time: loads of different rows overlap, no branch is mispredicted,
    and neighbouring rows read the same columns.
    """
    rows = np.empty(last - first + 1, np.uint32)
    n_rows = 0
    for row in range(first, last):
        rows[n_rows] = row
        n_rows += leaf_of_row[row] < 0
    nodes = np.empty((left.size, 5), np.int64)
    pack_nodes(feature, code, left, right, missing, columns.shape[1], nodes)
    codes = columns.reshape(columns.size)
    reached = np.empty(BLOCK, np.int32)
    for begin in range(0, n_rows, BLOCK):
        block = rows[begin : min(begin + BLOCK, n_rows)]
        n_left = block.size
        for index in range(n_left):
            reached[index] = 0
            leaf_of_row[block[index]] = 0
        while n_left > 0 and left[0] != 0:
            n_left = step_down(codes, nodes, block, reached, n_left, leaf_of_row)


@kernel
def pack_nodes(feature, code, left, right, missing, n_rows, nodes):
    """By node: the offset of its feature's column (-1 in a leaf), its code, and its three children."""
    for node in range(left.size):
        nodes[node, 0] = np.int64(feature[node]) * n_rows if left[node] != 0 else np.int64(-1)
        nodes[node, 1] = code[node]
        nodes[node, 2] = left[node]
        nodes[node, 3] = right[node]
        nodes[node, 4] = missing[node]


@kernel
def step_down(codes, nodes, rows, reached, n_rows, leaf_of_row):
    """Move each row one level down; return how many are not in a leaf yet, which become the first of ``rows``."""
    n_left = 0
    for index in range(n_rows):
        row = np.uint64(rows[index])
        node = np.uint64(reached[index])
        value = codes[np.uint64(nodes[node, 0]) + row]
        child = nodes[node, 2] if value <= nodes[node, 1] else nodes[node, 3]
        node = np.uint64(nodes[node, 4] if value == MISSING_BIN else child)
        leaf_of_row[row] = node
        rows[n_left] = row
        reached[n_left] = node
        n_left += nodes[node, 0] >= 0
    return n_left
