"""Histograms: the sum of the words of a node's rows, by bin.

Columns are read four per pass, so that a row's number and word are loaded once for four additions. A small node would
miss the cache with every code, were it not for the order of the rows: see ``layout``.
"""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel

BINS = np.uint64(256)  # of a histogram; unsigned, or every index would be checked for its sign
TWO, THREE = np.uint64(2), np.uint64(3)


@kernel
def build_histograms(first, last, matrix, rows, words, begin, end, features, histograms):
    """Fill ``histograms[first:last]`` with the node's sums for ``features[first:last]``."""
    for slot in range(first, last):
        clear(histograms[slot])
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
def clear(sums):
    """No rows yet."""
    for code in range(sums.size):
        sums[code] = 0


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
def subtract_histograms(first, last, parent, sibling):
    """``parent`` becomes the other child: what is left of it without ``sibling``."""
    for slot in range(first, last):
        for code in range(parent.shape[1]):
            parent[slot, code] -= sibling[slot, code]
