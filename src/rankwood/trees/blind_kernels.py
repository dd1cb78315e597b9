"""Completely random splits: a feature and a cut that look at no target."""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.trees.splitting_kernels import cut_between
from rankwood.trees.state_kernels import (
    GO_LEFT,
    GO_RIGHT,
    LEARNED,
    MISSING,
    NO_SPLIT,
    combine,
    uniform,
)


@kernel
def split_blindly(node, matrix, bag, nodes):
    """A random feature that varies in the node, cut at random."""
    path = nodes.path[node]
    n_features = matrix.columns.shape[0]
    nodes.feature[node] = -1
    for attempt in range(4 * n_features):
        feature = draw_feature(path, attempt, n_features)
        column = matrix.columns[feature]
        least, most, is_absent = find_range(column, bag, nodes.begin[node], nodes.end[node])
        start = matrix.offsets[feature]
        code = draw_cut(path, attempt, n_features, least, most, start, matrix.thresholds)
        if code != NO_SPLIT:
            nodes.feature[node] = feature
            nodes.code[node] = code
            nodes.side[node] = draw_side(path, attempt) if is_absent else LEARNED
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
def draw_feature(path, attempt, n_features):
    """The feature to try; some 2 % of the features are missed by ``4 * n_features`` attempts, if only one varies."""
    return np.int64(uniform(path, attempt) * n_features)


@kernel
def draw_cut(path, attempt, n_features, least, most, start, thresholds):
    """A cut between two codes of the feature whose thresholds begin at ``start``; NO_SPLIT where there is none."""
    draw = uniform(path, attempt + 4 * n_features)
    cut = cut_between(start + least, start + most, thresholds, draw)
    return NO_SPLIT if cut == NO_SPLIT else cut - start


@kernel
def draw_side(path, attempt):
    """Where missing values go: a coin is thrown."""
    return GO_LEFT + np.int64(combine(path, attempt) & np.uint64(1))


@kernel
def side_of_unseen(n_left, n_right, missing_rule):
    """Where no row drawn is missing, the rule, or the larger child, takes those to come."""
    if missing_rule in (GO_LEFT, GO_RIGHT):
        return missing_rule
    return GO_LEFT if n_left >= n_right else GO_RIGHT
