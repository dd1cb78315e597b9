"""The best split of one feature: histograms of a node's packed targets, and the score of each cut.

A histogram holds the sums of the packed targets of a node's rows, by bin. Columns are read four per pass, so that a
row's number and packed target are loaded once for four additions. The codes of a small node lie scattered over a
column, and each would be a cache miss. Two measures reduce the misses: similar rows are stored near each other (see
``row_order``), and where rows are still scattered the first features are read from the row-major prefix of the matrix,
in which a row fills two or three cache lines.

Everything is in the integer units of the packed targets: ``S`` is a sum of targets, ``W`` a sum of weights (row
counts, weights or hessians). The gain of a split is the bracket of Eq. 7 in Chen & Guestrin (2016), without its factor
½ and its γ::

    S_left² / (W_left + l2) + S_right² / (W_right + l2) − S² / (W + l2)

With l2 = 0 and row counts as weights this is the reduction of the squared error; for 0/1 targets it is half the
reduction of the Gini impurity. With l1 every ``S`` is first moved towards 0 by l1, and is 0 if it is smaller.
"""

from __future__ import annotations

import numpy as np

from rankwood._core.jit import kernel
from rankwood._core.llvm import fetch_soon
from rankwood.binning.bins import MISSING_BIN, N_CODES
from rankwood.trees.subsets import (
    FEW,
    NOWHERE,
    PLACES,
    ROWS,
    SUMS,
    fill_subset,
    is_of_categories,
    put_in_order,
)
from rankwood.trees.workspace import (
    BEST,
    GO_LEFT,
    GO_RIGHT,
    LEARNED,
    NO_SPLIT,
    OWN_CHILD,
    combine,
    uniform,
)

BINS = np.uint64(N_CODES)  # unsigned: signed indices would be checked for negative values
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)
SMALL = 45  # prefix rows of a node with fewer than 1/45 of all rows stay cached for its children
SCATTERED, SCATTERED_SMALL = 0.3, 0.15  # cache lines per row above which the prefix is faster
LINE = 64  # codes of a column per cache line
BLOCK = 64  # rows that are prefetched while the block before is added
NOISE = 1e-13  # of the parent's score: a smaller gain is rounding, not structure


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


@kernel
def add_histograms(first, last, sums, parts, n_parts):
    """Add the histograms of the first ``n_parts`` parts of a node's rows to those in ``sums``."""
    for slot in range(first, last):
        for part in range(n_parts):
            for code in range(sums.shape[1]):
                sums[slot, code] += parts[part, slot, code]


@kernel
def towards_zero(total, l1):
    """A sum moved towards 0 by ``l1``; 0 if it is smaller."""
    return max(total - l1, 0.0) + min(total + l1, 0.0)


@kernel
def score(packed, rules):
    """``S² / (W + l2)`` of the rows summed in ``packed``; 0 without rows."""
    weight = np.float64(packed & ((np.int64(1) << rules.bits) - 1)) + rules.l2
    total = towards_zero(np.float64(packed >> rules.bits), rules.l1)
    return total * total / weight if weight > 0.0 else 0.0


@kernel
def value_of(packed, rules, low, high):
    """``S / (W + l2)``, clipped to ``low`` and ``high``: the prediction for these rows."""
    weight = np.float64(packed & ((np.int64(1) << rules.bits) - 1)) + rules.l2
    total = towards_zero(np.float64(packed >> rules.bits), rules.l1)
    value = total / weight if weight > 0.0 else 0.0
    return min(max(value, low), high)


@kernel
def is_in_order(left, right, rules, direction, low, high):
    """Whether the predictions of two children have the order that a monotone feature requires."""
    value_left = value_of(left, rules, low, high)
    value_right = value_of(right, rules, low, high)
    return direction * (value_right - value_left) >= 0.0


@kernel
def cut_after(sums, counts, n_bins, total, n_total, extra, n_extra, rules, limits, least, cuts):
    """The best code to cut after, with the packed sum ``extra`` (missing values, or 0) on the left.

    ``total`` is the packed sum of both sides; ``limits`` is (direction, low, high). Returns the children's score and
    the code, which is NO_SPLIT where no cut with enough rows and weight on each side scores more than ``least``.
    """
    n_cuts = n_bins - 1
    packed_left, rows_left, scores = cuts[0], cuts[1], cuts[2].view(np.float64)
    sum_up(sums, extra, n_cuts, packed_left)
    score_cuts(packed_left, total, n_cuts, rules, scores)
    if counts.size > 0:
        sum_up(counts, n_extra, n_cuts, rows_left)
        forbid_few_rows(rows_left, n_extra, n_total, n_cuts, rules.min_leaf, scores)
    elif not rules.has_counts:
        count_rows(packed_left, n_cuts, rules.bits, rows_left)
        forbid_few_rows(rows_left, n_extra, n_total, n_cuts, rules.min_leaf, scores)
    if limits[0] != 0:
        forbid_disorder(packed_left, total, n_cuts, rules, limits, scores)
    return best_cut(scores, n_cuts, least)


@kernel
def sum_up(of_bin, start, n_cuts, left):
    """Cumulative sums: what lies on the left of each cut."""
    running = start
    for code in range(n_cuts):
        running += of_bin[code]
        left[code] = running


@kernel
def score_cuts(packed_left, total, n_cuts, rules, scores):
    """The children's score for each cut; -inf where a side has too little weight.

    The loop is branch-free and vectorized, which is faster than skipping empty bins.
    """
    bits = rules.bits
    mask = (np.int64(1) << bits) - 1
    l2 = rules.l2
    min_weight = rules.min_weight + l2
    whole_sum = np.float64(total >> bits)
    whole_weight = np.float64(total & mask)
    if rules.l1 > 0.0:
        for code in range(n_cuts):
            left = np.float64(packed_left[code] >> bits)
            weight = np.float64(packed_left[code] & mask)
            right = towards_zero(whole_sum - left, rules.l1)
            left = towards_zero(left, rules.l1)
            other = whole_weight - weight + l2
            scores[code] = score_sides(left, weight + l2, right, other, min_weight)
        return
    for code in range(n_cuts):
        left = np.float64(packed_left[code] >> bits)
        weight = np.float64(packed_left[code] & mask)
        scores[code] = score_cut(left, weight, whole_sum, whole_weight, l2, min_weight)


@kernel
def score_cut(left, weight, whole_sum, whole_weight, l2, min_weight):
    """The children's score for a cut with sum ``left`` and ``weight`` on the left; -inf if a side is too light.

    ``min_weight`` includes l2.
    """
    return score_sides(left, weight + l2, whole_sum - left, whole_weight - weight + l2, min_weight)


@kernel
def score_sides(left, weight, right, other, min_weight):
    """The children's score, from their sums and from their weights, which include l2 as ``min_weight`` does."""
    is_heavy = (weight > 0.0) & (other > 0.0) & (weight >= min_weight) & (other >= min_weight)
    divisor = weight * other + (0.0 if is_heavy else 1.0)  # never 0
    both = (left * left * other + right * right * weight) / divisor
    return both if is_heavy else -np.inf


@kernel
def count_rows(packed_left, n_cuts, bits, rows_left):
    """The rows on the left of each cut, where the weights are row counts."""
    mask = (np.int64(1) << bits) - 1
    for code in range(n_cuts):
        rows_left[code] = packed_left[code] & mask


@kernel
def forbid_few_rows(rows_left, n_extra, n_total, n_cuts, min_leaf, scores):
    """Exclude cuts with too few rows on a side, or with no known value on the left."""
    for code in range(n_cuts):
        n_left = rows_left[code]
        is_allowed = (n_left != n_extra) & (n_left >= min_leaf) & (n_total - n_left >= min_leaf)
        scores[code] = scores[code] if is_allowed else -np.inf


@kernel
def forbid_disorder(packed_left, total, n_cuts, rules, limits, scores):
    """Exclude cuts whose children violate the direction of a monotone feature."""
    direction, low, high = limits
    for code in range(n_cuts):
        left = packed_left[code]
        if not is_in_order(left, total - left, rules, direction, low, high):
            scores[code] = -np.inf


@kernel
def best_cut(scores, n_cuts, least):
    """The highest score above ``least`` and its code, the first of equal ones; NO_SPLIT if there is none."""
    best = least
    best_code = NO_SPLIT
    for code in range(n_cuts):
        if scores[code] > best:
            best = scores[code]
            best_code = code
    return best, best_code


@kernel
def random_cut(sums, n_bins, thresholds, draw):
    """A cut drawn uniformly from the range of thresholds between the node's least and greatest value."""
    first = 0
    while first < n_bins and sums[first] == 0:
        first += 1
    last = n_bins - 1
    while last > first and sums[last] == 0:
        last -= 1
    return cut_between(first, last, thresholds, draw)


@kernel
def cut_between(first, last, thresholds, draw):
    """A cut drawn uniformly from the range of thresholds between two codes; NO_SPLIT if they are equal."""
    if first >= last:
        return NO_SPLIT
    low = np.float64(thresholds[first])
    high = np.float64(thresholds[last - 1])
    cut = low + draw * (high - low)
    # The first threshold not below the cut: counting those below is faster than a search.
    n_below = np.int32(0)
    for index in range(np.uint64(first), np.uint64(last - 1)):
        n_below += np.float64(thresholds[index]) < cut
    return first + np.int64(n_below)


@kernel
def score_random_cut(sums, counts, code, total, n_total, extra, n_extra, rules, limits, least):
    """The children's score for the cut after ``code``: ``cut_after`` for a single cut."""
    bits = rules.bits
    mask = (np.int64(1) << bits) - 1
    running = extra
    for index in range(code + 1):
        running += sums[index]
    n_left = running & mask
    if rules.has_counts:
        n_left = n_extra
        for index in range(min(code + 1, counts.size)):
            n_left += counts[index]
    min_leaf = rules.min_leaf if counts.size > 0 or not rules.has_counts else 0
    if n_left < min_leaf or n_total - n_left < min_leaf:
        return least, NO_SPLIT
    weight = running & mask
    if min(weight, (total & mask) - weight) < rules.min_weight:
        return least, NO_SPLIT
    direction, low, high = limits
    both = score(running, rules) + score(total - running, rules)
    if both <= least:
        return least, NO_SPLIT
    if direction != 0 and not is_in_order(running, total - running, rules, direction, low, high):
        return least, NO_SPLIT
    return both, code


@kernel
def split_feature(sums, counts, n_bins, thresholds, total, n_total, rules, limits, draw, cuts):
    """The best split of a feature: (gain, code, side of the missing values).

    Where rows are counted separately and ``counts`` is empty, ``min_leaf`` is not checked.
    """
    bits = rules.bits
    absent = sums[MISSING_BIN]
    n_absent = absent & ((np.int64(1) << bits) - 1)
    if rules.has_counts:
        n_absent = counts[MISSING_BIN] if counts.size > 0 else np.int64(absent != 0)
    parent = score(total, rules)
    best, best_code, best_side = parent * (1.0 + NOISE), NO_SPLIT, LEARNED
    only = np.int64(0)
    if rules.threshold_rule != BEST:
        only = random_cut(sums, n_bins, thresholds, draw)
        if only == NO_SPLIT:
            return 0.0, NO_SPLIT, LEARNED
    own = 0.0  # score of the missing values' child
    if rules.missing_rule == OWN_CHILD and n_absent > 0:
        own = score(absent, rules)
        total -= absent
        n_total -= n_absent
        best -= own
    for side in (GO_RIGHT, GO_LEFT):
        if not is_tried(side, n_absent > 0, rules.missing_rule):
            continue
        extra = absent if side == GO_LEFT else np.int64(0)
        n_extra = n_absent if side == GO_LEFT else np.int64(0)
        both, code = try_cut(
            sums, counts, n_bins, only, total, n_total, extra, n_extra, rules, limits, best, cuts
        )
        if code != NO_SPLIT:
            best, best_code, best_side = both, code, side
    if rules.missing_rule == OWN_CHILD and n_absent > 0:
        best_side = OWN_CHILD
    elif n_absent == 0:
        best_side = LEARNED
    return best + own - parent, best_code, best_side


@kernel
def is_tried(side, has_missing, missing_rule):
    """Whether cuts with the missing values on this side are tried; without missing values only the right is."""
    if not has_missing or missing_rule == OWN_CHILD:
        return side == GO_RIGHT
    return missing_rule in (LEARNED, side)


@kernel
def try_cut(sums, counts, n_bins, only, total, n_total, extra, n_extra, rules, limits, least, cuts):
    """The best of all cuts, or the drawn one."""
    if rules.threshold_rule == BEST:
        return cut_after(
            sums, counts, n_bins, total, n_total, extra, n_extra, rules, limits, least, cuts
        )
    return score_random_cut(
        sums, counts, only, total, n_total, extra, n_extra, rules, limits, least
    )


@kernel
def split_categories(
    sums, counts, n_codes, thresholds, total, n_total, rules, limits, draws, cuts, subset
):
    """The best split of a categorical feature: gain, 0 or NO_SPLIT, side of missing values, and its ``subset``.

    ``draws`` are the hash of the node and feature, for random orders, and a number that draws a cut.
    """
    bits = rules.bits
    mask = (np.int64(1) << bits) - 1
    entries, rows, places = cuts[SUMS], cuts[ROWS][: counts.size], cuts[PLACES]
    entries[MISSING_BIN] = sums[MISSING_BIN]
    if counts.size > 0:
        rows[MISSING_BIN] = counts[MISSING_BIN]
    if n_codes <= FEW and rules.threshold_rule == BEST:
        gain, side, chosen = split_off_one(
            sums, counts, n_codes, thresholds, total, n_total, rules, limits, cuts
        )
        if chosen == NO_SPLIT:
            return 0.0, NO_SPLIT, side
        left_weight = sums[chosen] & mask
        for code in range(n_codes):
            places[code] = 1 if sums[code] != 0 else NOWHERE
        places[chosen] = 0
        place = np.int64(0)
    else:
        n_entries = put_in_order(
            sums, counts, n_codes, total - sums[MISSING_BIN], n_total, rules, draws, cuts
        )
        gain, place, side = split_feature(
            entries, rows, n_entries, thresholds, total, n_total, rules, limits, draws[1], cuts
        )
        if place == NO_SPLIT:
            return 0.0, NO_SPLIT, side
        left_weight = np.int64(0)
        for index in range(place + 1):
            left_weight += entries[index] & mask
    known_weight = (total - sums[MISSING_BIN]) & mask
    others_go_left = 2 * left_weight >= known_weight
    fill_subset(places, n_codes, place, others_go_left, subset)
    return gain, np.int64(0), side


@kernel
def split_off_one(sums, counts, n_codes, thresholds, total, n_total, rules, limits, cuts):
    """The best split of one category against the rest: gain, side of missing values, and the category."""
    entries, rows = cuts[SUMS], cuts[ROWS][: counts.size]
    best, best_side, chosen = 0.0, np.int64(0), np.int64(NO_SPLIT)
    for code in range(n_codes):
        if sums[code] == 0:
            continue
        entries[0] = sums[code]
        entries[1] = total - sums[MISSING_BIN] - sums[code]
        if counts.size > 0:
            rows[0] = counts[code]
            rows[1] = n_total - counts[MISSING_BIN] - counts[code]
        gain, place, side = split_feature(
            entries, rows, 2, thresholds, total, n_total, rules, limits, 0.0, cuts
        )
        if place != NO_SPLIT and (chosen == NO_SPLIT or gain > best):
            best, best_side, chosen = gain, np.int64(side), np.int64(code)
    return best, best_side, chosen


@kernel
def split_features(first, last, node, which, cuts, matrix, rules, candidates, nodes, work):
    """The best splits of the candidates ``first`` to ``last`` of a node, without counts of rows counted separately."""
    none = work.bin_counts[0, :0]
    for index in range(first, last):
        work.is_counted[which, index] = False
        split_candidate(index, node, which, none, cuts, matrix, rules, candidates, nodes, work)


@kernel
def split_candidate(index, node, which, counts, cuts, matrix, rules, candidates, nodes, work):
    """Fill ``work.gains``, ``codes`` and ``sides`` for one candidate of a node."""
    feature = work.features[index]
    begin = matrix.offsets[feature]
    end = matrix.offsets[feature + 1]
    direction = candidates.direction[feature] if candidates.direction.size > 0 else np.int64(0)
    limits = (direction, nodes.low[node], nodes.high[node])
    draw = uniform(nodes.path[node], feature + matrix.n_bins.size)
    histogram = work.histograms[nodes.slot[node], index]
    n_bins, thresholds = matrix.n_bins[feature], matrix.thresholds[begin:end]
    total, n_rows = nodes.packed_sum[node], nodes.n_rows[node]
    if is_of_categories(feature, matrix):
        draws = (combine(nodes.path[node], feature + 2 * matrix.n_bins.size), draw)
        subset = work.subsets[which, index]
        gain, code, side = split_categories(
            histogram, counts, n_bins, thresholds, total, n_rows, rules, limits, draws, cuts, subset
        )
    else:
        gain, code, side = split_feature(
            histogram, counts, n_bins, thresholds, total, n_rows, rules, limits, draw, cuts
        )
    is_good = code != NO_SPLIT and gain > rules.min_gain
    # The cost of a feature decides which feature is taken, not whether the node is split.
    work.gains[which, index] = gain - candidates.penalty[feature] if is_good else 0.0
    work.codes[which, index] = code if is_good else NO_SPLIT
    work.sides[which, index] = side


@kernel
def sums_of_sides(of_bin, code, side):
    """What is on the left of a cut, and in a child for missing values, of sums or counts by bin."""
    left = np.int64(0)
    for index in range(code + 1):
        left += of_bin[index]
    if side == GO_LEFT:
        left += of_bin[MISSING_BIN]
    return left, of_bin[MISSING_BIN] if side == OWN_CHILD else np.int64(0)
