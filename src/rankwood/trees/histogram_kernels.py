"""Histograms: the sum of the words of a node's rows, by bin.

Large nodes read columns, four per pass, so that a row's number and word are loaded once for four additions. Small
nodes are scattered over the columns, where every code would be a cache miss: they read the row-by-row copy,
asking the memory for the next rows while adding the present ones.
"""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel, prefetch

SCATTERED = 45  # a node with fewer than 1/24 of all rows reads row by row
BLOCK = 32  # rows asked for ahead of time
LINE = 64  # bytes of a cache line


@kernel
def build_histograms(first, last, matrix, rows, words, begin, end, features, histograms):
    """Fill ``histograms[first:last]`` with the node's sums for ``features[first:last]``."""
    for slot in range(first, last):
        clear(histograms[slot])
    is_scattered = (end - begin) * SCATTERED < matrix.columns.shape[1]
    if is_scattered and matrix.by_row.size > 0:
        add_by_row(first, last, matrix, rows, words, begin, end, features, histograms)
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
            histograms[slot],
            histograms[slot + 1],
            histograms[slot + 2],
            histograms[slot + 3],
        )
        slot += 4
    while slot < last:
        add_one_column(columns[features[slot]], rows, words, begin, end, histograms[slot])
        slot += 1


@kernel
def add_four_columns(
    column0, column1, column2, column3, rows, words, begin, end, sums0, sums1, sums2, sums3
):
    """One 64-bit addition per row and feature."""
    for place in range(begin, end):
        row = rows[place]
        word = words[place]
        sums0[column0[row]] += word
        sums1[column1[row]] += word
        sums2[column2[row]] += word
        sums3[column3[row]] += word


@kernel
def add_one_column(column, rows, words, begin, end, sums):
    """The same for a single feature."""
    for place in range(begin, end):
        sums[column[rows[place]]] += words[place]


@kernel
def add_by_row(first, last, matrix, rows, words, begin, end, features, histograms):
    """Blocks of rows; the next block is on its way to the cache while this one is added."""
    by_row = matrix.by_row
    stride = np.uint64(matrix.stride)
    ask_for(by_row, stride, rows, begin, min(begin + BLOCK, end))
    for block in range(begin, end, BLOCK):
        after = min(block + BLOCK, end)
        ask_for(by_row, stride, rows, after, min(after + BLOCK, end))
        slot = first
        while slot + 4 <= last:
            add_four_of_rows(
                by_row,
                stride,
                rows,
                words,
                block,
                after,
                features[slot : slot + 4],
                histograms[slot : slot + 4],
            )
            slot += 4
        while slot < last:
            add_one_of_rows(
                by_row, stride, rows, words, block, after, features[slot], histograms[slot]
            )
            slot += 1


@kernel
def ask_for(by_row, stride, rows, begin, end):
    """Prefetch the codes of the rows at these places."""
    for place in range(begin, end):
        start = np.uint64(rows[place]) * stride
        for line in range(0, stride, LINE):
            prefetch(by_row, start + np.uint64(line))


@kernel
def add_four_of_rows(by_row, stride, rows, words, begin, end, features, sums):
    """Four features of a block of rows."""
    feature0 = np.uint64(features[0])
    feature1 = np.uint64(features[1])
    feature2 = np.uint64(features[2])
    feature3 = np.uint64(features[3])
    sums0 = sums[0]
    sums1 = sums[1]
    sums2 = sums[2]
    sums3 = sums[3]
    for place in range(begin, end):
        start = np.uint64(rows[place]) * stride
        word = words[place]
        sums0[by_row[start + feature0]] += word
        sums1[by_row[start + feature1]] += word
        sums2[by_row[start + feature2]] += word
        sums3[by_row[start + feature3]] += word


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
