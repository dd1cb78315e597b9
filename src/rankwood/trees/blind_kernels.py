"""Completely random splits: a feature and a cut that look at no target."""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.trees.splitting_kernels import cut_between
from rankwood.trees.state_kernels import LEARNED, MISSING, NO_SPLIT, combine, uniform


@kernel
def split_blindly(node, matrix, bag, nodes):
    """A random feature that varies in the node, cut at random."""
    n_features = matrix.columns.shape[0]
    begin = nodes.begin[node]
    end = nodes.end[node]
    path = nodes.path[node]
    nodes.feature[node] = -1
    for attempt in range(
        4 * n_features
    ):  # some 2 % of the features are missed even then, if only one varies
        feature = np.int64(uniform(path, attempt) * n_features)
        least, most, is_absent = find_range(matrix.columns[feature], bag, begin, end)
        thresholds = matrix.thresholds[matrix.offsets[feature] : matrix.offsets[feature + 1]]
        draw = uniform(path, attempt + 4 * n_features)
        code = cut_between(least, most, thresholds, draw)
        if code != NO_SPLIT:
            nodes.feature[node] = feature
            nodes.code[node] = code
            nodes.side[node] = (
                1 + np.int64(combine(path, attempt) & np.uint64(1)) if is_absent else LEARNED
            )
            nodes.gain[node] = np.float64(nodes.n_rows[node])  # largest leaf first
            return


@kernel
def find_range(column, bag, begin, end):
    """Least and greatest code of the rows that weigh anything, and whether any of them has a missing value."""
    least = np.int64(MISSING)
    most = np.int64(-1)
    is_absent = False
    for place in range(begin, end):
        code = np.int64(column[bag.rows[place]])
        if bag.words[place] == 0:
            continue
        is_missing = code == MISSING
        is_absent |= is_missing
        least = min(least, code)
        most = max(most, np.int64(-1) if is_missing else code)
    return least, most, is_absent


@kernel
def number_largest_first(nodes, numbered, new_of_queue, queue_of_size):
    """Fill ``numbered`` with the same nodes, numbered as if the largest leaf had always been split first.

    Children are smaller than their parent, so nodes of one size are all known when the first of them is to be split:
    they wait in a queue of their own, the oldest first. ``new_of_queue`` has a place for each node, ``queue_of_size``
    zeros for each number of rows up to the root's, and one more.
    """
    largest = nodes.n_rows[0]
    for node in range(nodes.size):
        if nodes.left[node] > 0:
            queue_of_size[largest - nodes.n_rows[node]] += 1
    begin = 0
    for size in range(
        queue_of_size.size
    ):  # where the queue of each size begins, larger ones before
        length = queue_of_size[size]
        queue_of_size[size] = begin
        begin += length
    numbered[0] = nodes[0]
    n_nodes = 1
    new_of_queue[0] = 0
    for place in range(begin):
        node = new_of_queue[place]
        goes_right = numbered.missing[node] == numbered.right[node]
        for old in (numbered.left[node], numbered.right[node]):
            numbered[n_nodes] = nodes[old]
            if nodes.left[old] > 0:
                size = largest - nodes.n_rows[old]
                new_of_queue[queue_of_size[size]] = n_nodes
                queue_of_size[size] += 1
            n_nodes += 1
        numbered.left[node] = n_nodes - 2
        numbered.right[node] = n_nodes - 1
        numbered.missing[node] = n_nodes - 1 if goes_right else n_nodes - 2
