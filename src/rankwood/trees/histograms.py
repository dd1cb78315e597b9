"""Histograms: the sums of the packed targets of a node's rows, by bin.

Columns are read four per pass, so that a row's number and packed target are loaded once for four additions. The codes
of a small node lie scattered over a column, and each would be a cache miss. Two measures reduce the misses: similar
rows are stored near each other (see ``row_order``), and where rows are still scattered the first features are read
from the row-major prefix of the matrix, in which a row fills two or three cache lines.
"""

from __future__ import annotations

import numpy as np

from rankwood._core.jit import kernel
from rankwood._core.lanes import fetch_soon
from rankwood.binning.bins import N_CODES

BINS = np.uint64(N_CODES)  # unsigned: signed indices would be checked for negative values
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)
SMALL = 45  # prefix rows of a node with fewer than 1/45 of all rows stay cached for its children
SCATTERED, SCATTERED_SMALL = 0.3, 0.15  # cache lines per row above which the prefix is faster
LINE = 64  # codes of a column per cache line
BLOCK = 64  # rows that are prefetched while the block before is added


@kernel
def build_histograms(first, last, matrix, rows, packed_targets, begin, end, features, histograms):
    """Fill ``histograms[first:last]`` with the node's sums for ``features[first:last]``."""
    for slot in range(first, last):
        clear(histograms[slot])
    columns = matrix.columns
    flat = histograms.reshape(histograms.size)
    slot = first
    if is_scattered(rows, begin, end, matrix.row_major_prefix.shape[0]):
        slot = add_from_prefix(
            first, last, matrix.row_major_prefix, rows, packed_targets, begin, end, features, flat
        )
    while slot + 4 <= last:
        add_four_columns(
            columns[features[slot]],
            columns[features[slot + 1]],
            columns[features[slot + 2]],
            columns[features[slot + 3]],
            rows,
            packed_targets,
            begin,
            end,
            np.uint64(slot) * BINS,
            flat,
        )
        slot += 4
    while slot < last:
        add_one_column(columns[features[slot]], rows, packed_targets, begin, end, histograms[slot])
        slot += 1


@kernel
def clear(sums):
    """Set all sums to zero."""
    for code in range(sums.size):
        sums[code] = 0


@kernel
def add_four_columns(
    column0, column1, column2, column3, rows, packed_targets, begin, end, start, flat
):
    """Add one int64 per row and feature; the four histograms lie end to end from ``start``."""
    for index in range(begin, end):
        row = rows[index]
        packed = packed_targets[index]
        flat[start + column0[row]] += packed
        flat[start + BINS + column1[row]] += packed
        flat[start + BINS * TWO + column2[row]] += packed
        flat[start + BINS * THREE + column3[row]] += packed


@kernel
def add_one_column(column, rows, packed_targets, begin, end, sums):
    """The same for a single feature."""
    for index in range(begin, end):
        sums[column[rows[index]]] += packed_targets[index]


@kernel
def is_scattered(rows, begin, end, n_all):
    """Whether the ascending ``rows`` of a node touch many cache lines of a column of ``n_all`` codes."""
    is_small = (end - begin) * SMALL < n_all
    least = (SCATTERED_SMALL if is_small else SCATTERED) * (end - begin)
    if n_all <= least * LINE:  # the column has too few lines
        return False
    n_lines = 0
    line = np.int64(-1)
    for index in range(begin, end):
        before = line
        line = np.int64(rows[index]) // LINE
        n_lines += line != before
    return n_lines > least


@kernel
def add_from_prefix(first, last, prefix, rows, packed_targets, begin, end, features, flat):
    """Add the ascending ``features`` that the row-major prefix holds; return the first slot that it does not hold."""
    stop = first
    while stop < last and features[stop] < prefix.shape[1]:
        stop += 1
    width = np.uint64(prefix.shape[1])
    codes = prefix.reshape(prefix.size)
    prefetch_rows(codes, width, rows, begin, min(begin + BLOCK, end))
    for block in range(begin, end, BLOCK):
        behind = min(block + BLOCK, end)
        prefetch_rows(codes, width, rows, behind, min(behind + BLOCK, end))
        slot = first
        while slot + 8 <= stop:
            chosen = features[slot : slot + 8]
            add_eight_from_prefix(
                codes,
                width,
                chosen,
                rows,
                packed_targets,
                block,
                behind,
                np.uint64(slot) * BINS,
                flat,
            )
            slot += 8
        while slot + 4 <= stop:
            add_four_from_prefix(
                codes,
                width,
                np.uint64(features[slot]),
                np.uint64(features[slot + 1]),
                np.uint64(features[slot + 2]),
                np.uint64(features[slot + 3]),
                rows,
                packed_targets,
                block,
                behind,
                np.uint64(slot) * BINS,
                flat,
            )
            slot += 4
        while slot < stop:
            start = np.uint64(slot) * BINS
            feature = np.uint64(features[slot])
            add_one_from_prefix(
                codes, width, feature, rows, packed_targets, block, behind, start, flat
            )
            slot += 1
    return stop


@kernel
def prefetch_rows(codes, width, rows, begin, end):
    """Prefetch the prefix rows: first, middle and last byte of each."""
    for index in range(begin, end):
        start_of_row = np.uint64(rows[index]) * width
        fetch_soon(codes, start_of_row)
        fetch_soon(codes, start_of_row + width // TWO)
        fetch_soon(codes, start_of_row + width - ONE)


@kernel
def add_eight_from_prefix(codes, width, features, rows, packed_targets, begin, end, start, flat):
    """As ``add_four_columns`` for eight features, from the row-major prefix."""
    feature0 = np.uint64(features[0])
    feature1 = np.uint64(features[1])
    feature2 = np.uint64(features[2])
    feature3 = np.uint64(features[3])
    feature4 = np.uint64(features[4])
    feature5 = np.uint64(features[5])
    feature6 = np.uint64(features[6])
    feature7 = np.uint64(features[7])
    for index in range(begin, end):
        start_of_row = np.uint64(rows[index]) * width
        packed = packed_targets[index]
        flat[start + codes[start_of_row + feature0]] += packed
        flat[start + BINS + codes[start_of_row + feature1]] += packed
        flat[start + BINS * TWO + codes[start_of_row + feature2]] += packed
        flat[start + BINS * THREE + codes[start_of_row + feature3]] += packed
        flat[start + BINS * np.uint64(4) + codes[start_of_row + feature4]] += packed
        flat[start + BINS * np.uint64(5) + codes[start_of_row + feature5]] += packed
        flat[start + BINS * np.uint64(6) + codes[start_of_row + feature6]] += packed
        flat[start + BINS * np.uint64(7) + codes[start_of_row + feature7]] += packed


@kernel
def add_four_from_prefix(
    codes,
    width,
    feature0,
    feature1,
    feature2,
    feature3,
    rows,
    packed_targets,
    begin,
    end,
    start,
    flat,
):
    """As ``add_four_columns``, from the row-major prefix."""
    for index in range(begin, end):
        start_of_row = np.uint64(rows[index]) * width
        packed = packed_targets[index]
        flat[start + codes[start_of_row + feature0]] += packed
        flat[start + BINS + codes[start_of_row + feature1]] += packed
        flat[start + BINS * TWO + codes[start_of_row + feature2]] += packed
        flat[start + BINS * THREE + codes[start_of_row + feature3]] += packed


@kernel
def add_one_from_prefix(codes, width, feature, rows, packed_targets, begin, end, start, flat):
    """The same for a single feature."""
    for index in range(begin, end):
        flat[start + codes[np.uint64(rows[index]) * width + feature]] += packed_targets[index]


@kernel
def subtract_histograms(first, last, parent, sibling):
    """Subtract ``sibling`` from ``parent``, which becomes the histograms of the other child."""
    for slot in range(first, last):
        for code in range(parent.shape[1]):
            parent[slot, code] -= sibling[slot, code]
