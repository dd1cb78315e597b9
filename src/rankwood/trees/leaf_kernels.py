"""Values of the nodes, in float64 from the true targets, and the leaf of every row."""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.trees.state_kernels import MISSING


@kernel
def sum_leaves(drawn, targets, weights, leaf_of_source, sums, masses):
    """Each leaf's sum of ``count * weight * target`` and of ``count * weight``, in the order of the sources.

    A source nobody drew adds nothing, whichever node it names.
    """
    for source in range(drawn.size):
        node = max(leaf_of_source[source], 0)
        weight = np.float64(drawn[source])
        if weights.size > 0:
            weight *= weights[source]
        sums[node] += weight * targets[source]
        masses[node] += weight


@kernel
def sum_inner_nodes(left, right, missing, sums, masses):
    """Inner nodes hold what their children hold together; children have higher numbers."""
    for node in range(left.size - 1, -1, -1):
        if left[node] == 0:
            continue
        sums[node] = sums[left[node]] + sums[right[node]]
        masses[node] = masses[left[node]] + masses[right[node]]
        if missing[node] != left[node] and missing[node] != right[node]:
            sums[node] += sums[missing[node]]
            masses[node] += masses[missing[node]]


@kernel
def mark_leaves(rows, begin, end, left, leaf_of_row):
    """Write the leaf of every row of the bag."""
    for node in range(left.size):
        if left[node] == 0:
            for place in range(begin[node], end[node]):
                leaf_of_row[rows[place]] = node


@kernel
def by_source(source_of_row, leaf_of_row, leaf_of_source):
    """The leaf of every row, as the caller counts them."""
    for row in range(source_of_row.size):
        leaf_of_source[source_of_row[row]] = leaf_of_row[row]


@kernel
def route(first, last, columns, feature, code, left, right, missing, leaf_of_row):
    """The leaf that each of the rows ``first`` to ``last`` falls into, where it is not known yet (-1).

    All rows of a node go down together: a column is read in ascending order, and nothing is guessed wrongly. Depth
    first, so that a small node's rows are still in the cache.
    """
    rows = np.empty(last - first, np.uint32)
    aside = np.empty(last - first, np.uint32)
    n_rows = 0
    for row in range(first, last):
        if leaf_of_row[row] < 0:
            rows[n_rows] = row
            n_rows += 1
    begin = np.zeros(left.size, np.int64)
    end = np.zeros(left.size, np.int64)
    end[0] = n_rows
    waiting = np.zeros(left.size, np.int64)
    n_waiting = 1
    while n_waiting > 0:
        n_waiting -= 1
        node = waiting[n_waiting]
        start = begin[node]
        stop = end[node]
        if start == stop:
            continue
        if left[node] == 0:
            for place in range(start, stop):
                leaf_of_row[rows[place]] = node
            continue
        column = columns[feature[node]]
        if missing[node] != left[node] and missing[node] != right[node]:
            known = set_apart(rows, aside, column, np.int64(MISSING - 1), False, start, stop)
            begin[missing[node]] = known
            end[missing[node]] = stop
            waiting[n_waiting] = missing[node]
            n_waiting += 1
            stop = known
        middle = set_apart(
            rows, aside, column, np.int64(code[node]), missing[node] == left[node], start, stop
        )
        begin[left[node]] = start
        end[left[node]] = middle
        begin[right[node]] = middle
        end[right[node]] = stop
        waiting[n_waiting] = right[node]
        waiting[n_waiting + 1] = left[node]
        n_waiting += 2


@kernel
def set_apart(rows, aside, column, code, missing_goes_left, begin, end):
    """Put rows with codes up to ``code`` first, each side in its order; gives the place of the other side."""
    left = begin
    right = 0
    turn = np.int64(missing_goes_left)  # by one, and missing comes before all other codes
    limit = code + turn
    for place in range(begin, end):
        row = rows[place]
        goes_left = (column[row] + turn) & MISSING <= limit
        rows[left] = row
        aside[right] = row
        left += goes_left
        right += not goes_left
    for place in range(right):
        rows[left + place] = aside[place]
    return left
