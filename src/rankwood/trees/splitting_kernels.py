"""The best split of one feature, from its histogram.

Everything is in the integer units of the words: ``S`` is a sum of targets, ``W`` a sum of weights (rows, hessians or
weights). What a split gains is the bracket of Eq. 7 in Chen & Guestrin (2016) without its factor ½ and its γ::

    S_left² / (W_left + l2) + S_right² / (W_right + l2) − S² / (W + l2)

With l2 = 0 and rows as weights this is the reduction of the sum of squares; for 0/1 targets, half that of Gini's.
"""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.trees.state_kernels import (
    BEST,
    GO_LEFT,
    GO_RIGHT,
    LEARNED,
    MISSING,
    NO_SPLIT,
    OWN_CHILD,
    uniform,
)

NOISE = 1e-13  # of the parent's score: a smaller gain is rounding, not structure
JUST_BELOW = (
    1.0 - 2.0**-50
)  # more than three roundings can make good: products stand in for a quotient


@kernel
def score(word, bits, l2):
    """``S² / (W + l2)`` of the rows summed in ``word``; 0 for no rows."""
    weight = np.float64(word & ((np.int64(1) << bits) - 1)) + l2
    total = np.float64(word >> bits)
    return total * total / weight if weight > 0.0 else 0.0


@kernel
def value_of(word, bits, l2, low, high):
    """``S / (W + l2)``, kept between ``low`` and ``high``: what these rows would predict."""
    weight = np.float64(word & ((np.int64(1) << bits) - 1)) + l2
    value = np.float64(word >> bits) / weight if weight > 0.0 else 0.0
    return min(max(value, low), high)


@kernel
def is_in_order(left, right, rules, direction, low, high):
    """Whether two children predict values in the direction a monotone feature asks for."""
    value_left = value_of(left, rules.bits, rules.l2, low, high)
    value_right = value_of(right, rules.bits, rules.l2, low, high)
    return direction * (value_right - value_left) >= 0.0


@kernel
def is_same_cut(code, counts, rules):
    """Whether the cut after a bin without targets and weight is the one before: no rows are in it, or any will do."""
    if counts.size > 0:
        return counts[code] == 0
    return code > 0 or not rules.has_counts


@kernel
def cut_after(sums, counts, n_bins, total, n_total, extra, n_extra, rules, limits, least):
    """The best code to cut after, with the ``extra`` word (missing rows, or 0) on the left.

    ``total`` is what both sides hold together; ``limits`` is (direction, low, high). Gives the children's score and the
    code; NO_SPLIT where no cut leaves enough rows and weight on each side and scores more than ``least``.
    """
    bits = rules.bits
    mask = (np.int64(1) << bits) - 1
    l2 = rules.l2
    has_counts = counts.size > 0
    min_leaf = rules.min_leaf if has_counts or not rules.has_counts else 0
    min_weight = rules.min_weight + l2
    direction, low, high = limits
    whole_sum = np.float64(total >> bits)
    whole_weight = np.float64(total & mask)
    running = extra
    n_left = n_extra
    best = least
    best_code = NO_SPLIT
    for code in range(n_bins - 1):
        word = sums[code]
        if word == 0 and is_same_cut(code, counts, rules):
            continue
        running += word
        if has_counts:
            n_left += counts[code]
        elif not rules.has_counts:
            n_left = running & mask
        if n_left < min_leaf:
            continue
        if n_total - n_left < min_leaf:
            break
        left = np.float64(running >> bits)
        right = whole_sum - left
        weight = np.float64(running & mask) + l2
        other = whole_weight - np.float64(running & mask) + l2
        if weight <= 0.0 or other <= 0.0 or weight < min_weight or other < min_weight:
            continue
        both = left * left * other + right * right * weight
        if both < best * (weight * other) * JUST_BELOW:  # the quotient is not above the best
            continue
        both /= weight * other
        if both > best:
            if direction != 0 and not is_in_order(
                running, total - running, rules, direction, low, high
            ):
                continue
            best = both
            best_code = code
    return best, best_code


@kernel
def random_cut(sums, n_bins, thresholds, draw):
    """A cut drawn evenly over the range of thresholds between the node's least and greatest value."""
    first = 0
    while first < n_bins and sums[first] == 0:
        first += 1
    last = n_bins - 1
    while last > first and sums[last] == 0:
        last -= 1
    return cut_between(first, last, thresholds, draw)


@kernel
def cut_between(first, last, thresholds, draw):
    """A cut drawn evenly over the range of thresholds between two codes; NO_SPLIT where there is no other."""
    if first >= last:
        return NO_SPLIT
    low = np.float64(thresholds[first])
    high = np.float64(thresholds[last - 1])
    cut = low + draw * (high - low)
    code = first
    after = last - 1
    while code < after:  # the first threshold that is not below the cut
        middle = (code + after) // 2
        if np.float64(thresholds[middle]) < cut:
            code = middle + 1
        else:
            after = middle
    return code


@kernel
def score_random_cut(sums, counts, code, total, n_total, extra, n_extra, rules, limits, least):
    """The children's score for the cut after ``code``, like ``cut_after`` for a single cut."""
    bits = rules.bits
    mask = (np.int64(1) << bits) - 1
    running = extra
    for place in range(code + 1):
        running += sums[place]
    n_left = running & mask
    if rules.has_counts:
        n_left = n_extra
        for place in range(min(code + 1, counts.size)):
            n_left += counts[place]
    min_leaf = rules.min_leaf if counts.size > 0 or not rules.has_counts else 0
    if n_left < min_leaf or n_total - n_left < min_leaf:
        return least, NO_SPLIT
    weight = running & mask
    if min(weight, (total & mask) - weight) < rules.min_weight:
        return least, NO_SPLIT
    direction, low, high = limits
    both = score(running, bits, rules.l2) + score(total - running, bits, rules.l2)
    if both <= least:
        return least, NO_SPLIT
    if direction != 0 and not is_in_order(running, total - running, rules, direction, low, high):
        return least, NO_SPLIT
    return both, code


@kernel
def split_feature(sums, counts, n_bins, thresholds, total, n_total, rules, limits, draw):
    """The best split of a feature: (gain, code, side of the missing values).

    Where rows are counted apart and ``counts`` is empty, any number of rows will do.
    """
    bits = rules.bits
    absent = sums[MISSING]
    n_absent = absent & ((np.int64(1) << bits) - 1)
    if rules.has_counts:
        n_absent = counts[MISSING] if counts.size > 0 else np.int64(absent != 0)
    parent = score(total, bits, rules.l2)
    least = parent * (1.0 + NOISE)
    zero = np.int64(0)
    only = (
        random_cut(sums, n_bins, thresholds, draw) if rules.threshold_rule != BEST else np.int64(0)
    )
    if only == NO_SPLIT:
        return 0.0, NO_SPLIT, LEARNED
    if rules.missing_rule == OWN_CHILD and n_absent > 0:
        own = score(absent, bits, rules.l2)
        known = total - absent
        both, code = try_cut(
            sums,
            counts,
            n_bins,
            only,
            known,
            n_total - n_absent,
            zero,
            zero,
            rules,
            limits,
            least - own,
        )
        return both + own - parent, code, OWN_CHILD
    best, best_code, best_side = least, NO_SPLIT, LEARNED
    if rules.missing_rule != GO_LEFT or n_absent == 0:
        best, best_code = try_cut(
            sums, counts, n_bins, only, total, n_total, zero, zero, rules, limits, least
        )
        best_side = GO_RIGHT if n_absent > 0 else LEARNED
    if rules.missing_rule != GO_RIGHT and n_absent > 0:
        both, code = try_cut(
            sums, counts, n_bins, only, total, n_total, absent, n_absent, rules, limits, best
        )
        if code != NO_SPLIT:
            best, best_code, best_side = both, code, GO_LEFT
    return best - parent, best_code, best_side


@kernel
def try_cut(sums, counts, n_bins, only, total, n_total, extra, n_extra, rules, limits, least):
    """Every cut, or the drawn one."""
    if rules.threshold_rule == BEST:
        return cut_after(sums, counts, n_bins, total, n_total, extra, n_extra, rules, limits, least)
    return score_random_cut(
        sums, counts, only, total, n_total, extra, n_extra, rules, limits, least
    )


@kernel
def split_features(first, last, node, matrix, rules, candidates, nodes, work):
    """The best splits of the candidates ``first`` to ``last`` of a node; rows that are counted apart are not yet."""
    for place in range(first, last):
        work.is_counted[place] = False
        split_candidate(place, node, work.bin_counts[:0], matrix, rules, candidates, nodes, work)


@kernel
def split_candidate(place, node, counts, matrix, rules, candidates, nodes, work):
    """Fill ``work.gains``, ``codes`` and ``sides`` for one candidate of a node."""
    feature = work.features[place]
    begin = matrix.offsets[feature]
    end = matrix.offsets[feature + 1]
    direction = candidates.direction[feature] if candidates.direction.size > 0 else np.int64(0)
    gain, code, side = split_feature(
        work.histograms[nodes.slot[node], place],
        counts,
        matrix.n_bins[feature],
        matrix.thresholds[begin:end],
        nodes.word[node],
        nodes.n_rows[node],
        rules,
        (direction, nodes.low[node], nodes.high[node]),
        uniform(nodes.path[node], feature + matrix.n_bins.size),
    )
    is_good = code != NO_SPLIT and gain > rules.min_gain
    # What a feature costs decides which one is taken, not whether the node is split.
    work.gains[place] = gain - candidates.penalty[feature] if is_good else 0.0
    work.codes[place] = code if is_good else NO_SPLIT
    work.sides[place] = side
