"""Histograms: the sum of the words of a node's rows, by bin.

Columns are read four per pass, so that a row's number and word are loaded once for four additions. A small node would
miss the cache with every code, were it not for the order of the rows: see ``layout``. Where that is not enough, the
first features are read from the rows' *heads*: two or three lines of the cache hold all of a row.
"""

from __future__ import annotations

import numpy as np

from rankwood._core.jit import kernel
from rankwood._core.lanes import fetch_soon

BINS = np.uint64(256)  # of a histogram; unsigned, or every index would be checked for its sign
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)
SMALL = 45  # heads of a node of less than one row in so many stay in the cache for its children
SCATTERED, SCATTERED_SMALL = 0.3, 0.15  # lines of a column per row: from here on heads are faster
LINE = 64  # codes of a column in a line of the cache
BLOCK = 64  # rows whose heads are fetched together, while those before are added


@kernel
def build_histograms(first, last, matrix, rows, words, begin, end, features, histograms):
    """Fill ``histograms[first:last]`` with the node's sums for ``features[first:last]``."""
    for slot in range(first, last):
        clear(histograms[slot])
    columns = matrix.columns
    flat = histograms.reshape(histograms.size)
    slot = first
    if is_scattered(rows, begin, end, matrix.heads.shape[0]):
        slot = add_heads(first, last, matrix.heads, rows, words, begin, end, features, flat)
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
def is_scattered(rows, begin, end, n_all):
    """Whether the node's codes of a column of ``n_all``, ascending, lie in many lines of the cache for their number."""
    is_small = (end - begin) * SMALL < n_all
    least = (SCATTERED_SMALL if is_small else SCATTERED) * (end - begin)
    if n_all <= least * LINE:  # a column has no more lines
        return False
    n_lines = 0
    line = np.int64(-1)
    for place in range(begin, end):
        before = line
        line = np.int64(rows[place]) // LINE
        n_lines += line != before
    return n_lines > least


@kernel
def add_heads(first, last, heads, rows, words, begin, end, features, flat):
    """Add what the rows' heads hold of the ascending ``features``; gives the first slot that they do not hold."""
    stop = first
    while stop < last and features[stop] < heads.shape[1]:
        stop += 1
    width = np.uint64(heads.shape[1])
    codes = heads.reshape(heads.size)
    fetch_heads(codes, width, rows, begin, min(begin + BLOCK, end))
    for block in range(begin, end, BLOCK):
        behind = min(block + BLOCK, end)
        fetch_heads(codes, width, rows, behind, min(behind + BLOCK, end))
        slot = first
        while slot + 8 <= stop:
            chosen = features[slot : slot + 8]
            add_eight_of_heads(
                codes, width, chosen, rows, words, block, behind, np.uint64(slot) * BINS, flat
            )
            slot += 8
        while slot + 4 <= stop:
            add_four_of_heads(
                codes,
                width,
                np.uint64(features[slot]),
                np.uint64(features[slot + 1]),
                np.uint64(features[slot + 2]),
                np.uint64(features[slot + 3]),
                rows,
                words,
                block,
                behind,
                np.uint64(slot) * BINS,
                flat,
            )
            slot += 4
        while slot < stop:
            start = np.uint64(slot) * BINS
            feature = np.uint64(features[slot])
            add_one_of_heads(codes, width, feature, rows, words, block, behind, start, flat)
            slot += 1
    return stop


@kernel
def fetch_heads(codes, width, rows, begin, end):
    """Have every line of each head fetched, while something else is done."""
    for place in range(begin, end):
        head = np.uint64(rows[place]) * width
        fetch_soon(codes, head)
        fetch_soon(codes, head + width // TWO)
        fetch_soon(codes, head + width - ONE)


@kernel
def add_eight_of_heads(codes, width, features, rows, words, begin, end, start, flat):
    """As ``add_four_columns``, from codes that lie row by row, for eight features."""
    feature0 = np.uint64(features[0])
    feature1 = np.uint64(features[1])
    feature2 = np.uint64(features[2])
    feature3 = np.uint64(features[3])
    feature4 = np.uint64(features[4])
    feature5 = np.uint64(features[5])
    feature6 = np.uint64(features[6])
    feature7 = np.uint64(features[7])
    for place in range(begin, end):
        head = np.uint64(rows[place]) * width
        word = words[place]
        flat[start + codes[head + feature0]] += word
        flat[start + BINS + codes[head + feature1]] += word
        flat[start + BINS * TWO + codes[head + feature2]] += word
        flat[start + BINS * THREE + codes[head + feature3]] += word
        flat[start + BINS * np.uint64(4) + codes[head + feature4]] += word
        flat[start + BINS * np.uint64(5) + codes[head + feature5]] += word
        flat[start + BINS * np.uint64(6) + codes[head + feature6]] += word
        flat[start + BINS * np.uint64(7) + codes[head + feature7]] += word


@kernel
def add_four_of_heads(
    codes, width, feature0, feature1, feature2, feature3, rows, words, begin, end, start, flat
):
    """As ``add_four_columns``, from codes that lie row by row."""
    for place in range(begin, end):
        head = np.uint64(rows[place]) * width
        word = words[place]
        flat[start + codes[head + feature0]] += word
        flat[start + BINS + codes[head + feature1]] += word
        flat[start + BINS * TWO + codes[head + feature2]] += word
        flat[start + BINS * THREE + codes[head + feature3]] += word


@kernel
def add_one_of_heads(codes, width, feature, rows, words, begin, end, start, flat):
    """The same for a single feature."""
    for place in range(begin, end):
        flat[start + codes[np.uint64(rows[place]) * width + feature]] += words[place]


@kernel
def subtract_histograms(first, last, parent, sibling):
    """``parent`` becomes the other child: what is left of it without ``sibling``."""
    for slot in range(first, last):
        for code in range(parent.shape[1]):
            parent[slot, code] -= sibling[slot, code]
