"""Histograms: the sum of the words of a node's rows, by bin.

Large nodes read columns, four per pass, so that a row's number and word are loaded once for four additions. Small
nodes are scattered over the columns, where every code would be a cache miss: they read the row-by-row copy, a
block of rows at a time. Touching all rows of a block first lets the memory fetch them side by side.
"""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel

SCATTERED = (
    32  # a node with fewer than 1/12 of all rows reads row by row: where the two cross (measured)
)
BLOCK = 64  # rows touched at a time; 32 to 128 are alike
LINE = 64  # bytes of a cache line
BINS = np.uint64(256)  # of a histogram; unsigned, or every index would be checked for its sign
TWO, THREE = np.uint64(2), np.uint64(3)


@kernel
def build_histograms(first, last, matrix, rows, words, begin, end, features, histograms, sink):
    """Fill ``histograms[first:last]`` with the node's sums for ``features[first:last]``; nobody reads ``sink``."""
    for slot in range(first, last):
        clear(histograms[slot])
    is_scattered = (end - begin) * SCATTERED < matrix.columns.shape[1]
    if is_scattered and matrix.by_row.size > 0:
        add_by_row(first, last, matrix, rows, words, begin, end, features, histograms, sink)
    else:
        add_by_column(first, last, matrix, rows, words, begin, end, features, histograms)


@kernel
def clear(sums):
    """No rows yet."""
    for code in range(sums.size):
        sums[code] = 0


@kernel
def add_by_column(first, last, matrix, rows, words, begin, end, features, histograms):
    """Four columns per pass over the rows, then the rest one by one."""
    columns = matrix.columns
    flat = histograms.reshape(histograms.size)
    slot = first
    while slot + 4 <= last:
        add_four_columns(
            columns[features[slot]],
            columns[features[slot + 1]],
            columns[features[slot + 2]],
            columns[features[slot + 3]],
            rows,
            words,
            begin,
            end,
            np.uint64(slot) * BINS,
            flat,
        )
        slot += 4
    while slot < last:
        add_one_column(columns[features[slot]], rows, words, begin, end, histograms[slot])
        slot += 1


@kernel
def add_four_columns(column0, column1, column2, column3, rows, words, begin, end, start, flat):
    """One 64-bit addition per row and feature; the four histograms lie end to end from ``start``."""
    for place in range(begin, end):
        row = rows[place]
        word = words[place]
        flat[start + column0[row]] += word
        flat[start + BINS + column1[row]] += word
        flat[start + BINS * TWO + column2[row]] += word
        flat[start + BINS * THREE + column3[row]] += word


@kernel
def add_one_column(column, rows, words, begin, end, sums):
    """The same for a single feature."""
    for place in range(begin, end):
        sums[column[rows[place]]] += words[place]


@kernel
def add_by_row(first, last, matrix, rows, words, begin, end, features, histograms, sink):
    """Blocks of rows, four features at a time."""
    by_row = matrix.by_row
    flat = histograms.reshape(histograms.size)
    stride = np.uint64(matrix.stride)
    lowest = np.uint64(features[first])
    highest = np.uint64(features[last - 1])
    touched = np.int64(0)
    for block in range(begin, end, BLOCK):
        after = min(block + BLOCK, end)
        touched += touch(by_row, stride, lowest, highest, rows, block, after)
        slot = first
        while slot + 4 <= last:
            add_four_of_rows(by_row, stride, rows, words, block, after, slot, features, flat)
            slot += 4
        while slot < last:
            add_one_of_rows(
                by_row, stride, rows, words, block, after, features[slot], histograms[slot]
            )
            slot += 1
    sink[0] = touched  # or the compiler would see that nobody needs it


@kernel
def touch(by_row, stride, lowest, highest, rows, begin, end):
    """Read one byte of each cache line between the lowest and the highest feature of the rows."""
    touched = np.int64(0)
    line = np.uint64(LINE)
    for place in range(begin, end):
        start = np.uint64(rows[place]) * stride
        byte = start + lowest
        stop = start + highest
        while byte < stop:
            touched += by_row[byte]
            byte += line
        touched += by_row[stop]
    return touched


@kernel
def add_four_of_rows(by_row, stride, rows, words, begin, end, slot, features, flat):
    """Four features of a block of rows, from ``features[slot]``."""
    feature0 = np.uint64(features[slot])
    feature1 = np.uint64(features[slot + 1])
    feature2 = np.uint64(features[slot + 2])
    feature3 = np.uint64(features[slot + 3])
    bins = np.uint64(slot) * BINS
    for place in range(begin, end):
        start = np.uint64(rows[place]) * stride
        word = words[place]
        flat[bins + by_row[start + feature0]] += word
        flat[bins + BINS + by_row[start + feature1]] += word
        flat[bins + BINS * TWO + by_row[start + feature2]] += word
        flat[bins + BINS * THREE + by_row[start + feature3]] += word


@kernel
def add_one_of_rows(by_row, stride, rows, words, begin, end, feature, sums):
    """One feature of a block of rows."""
    offset = np.uint64(feature)
    for place in range(begin, end):
        sums[by_row[np.uint64(rows[place]) * stride + offset]] += words[place]


@kernel
def subtract_histograms(first, last, parent, sibling):
    """``parent`` becomes the other child: what is left of it without ``sibling``."""
    for slot in range(first, last):
        for code in range(parent.shape[1]):
            parent[slot, code] -= sibling[slot, code]
