"""All rules that the nodes of a forest keep, without branches: see ``forest_checks``, which names what is wrong."""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array


@kernel
def are_numbers_sound(threshold: Array, value: Array, cover: Array, gain: Array) -> bool:
    """Whether all are finite, and no cover is negative."""
    is_sound = True
    for node in range(threshold.size):
        is_sound &= abs(threshold[node]) < np.inf
        is_sound &= abs(value[node]) < np.inf
        is_sound &= abs(gain[node]) < np.inf
        is_sound &= (cover[node] >= 0.0) & (cover[node] < np.inf)
    return is_sound


@kernel
def are_splits_sound(
    offsets: Array,
    n_features: int,
    feature: Array,
    threshold: Array,
    left: Array,
    right: Array,
    missing: Array,
    gain: Array,
) -> bool:
    """Whether leaves are empty, and the children of other nodes stand after them in the same tree."""
    is_wrong = False
    for tree in range(offsets.size - 1):
        end = np.int32(offsets[tree + 1])
        for place in range(np.uint64(offsets[tree]), np.uint64(offsets[tree + 1])):
            node = np.int32(place)
            low, high, third = left[place], right[place], missing[place]
            is_early = (low <= node) | (high <= node) | (third <= node)
            is_late = (low >= end) | (high >= end) | (third >= end)
            is_no_split = (feature[place] >= n_features) | is_early | is_late | (low == high)
            is_full = (threshold[place] != np.float32(0.0)) | (gain[place] != 0.0)
            is_no_leaf = (feature[place] != -1) | is_full | ((low | high | third) != 0)
            is_inner = feature[place] >= 0
            is_wrong |= (is_inner & is_no_split) | (~is_inner & is_no_leaf)
    return not is_wrong


@kernel
def has_each_one_parent(
    offsets: Array, feature: Array, left: Array, right: Array, missing: Array, is_found: Array
) -> bool:
    """Whether each node but the roots has one parent, where splits are sound; ``is_found`` holds False for each.

    All nodes are found, and no more children than there are nodes: so none is found twice.
    """
    n_found = offsets.size - 1
    for tree in range(offsets.size - 1):
        is_found[offsets[tree]] = True
    for node in range(feature.size):
        low, high, third = left[node], right[node], missing[node]
        is_found[np.uint64(low)] = True  # a leaf names node 0, the first root
        is_found[np.uint64(high)] = True
        is_found[np.uint64(third)] = True
        n_found += 2 * (feature[node] >= 0) + ((third != low) & (third != high))
    is_each_found = True
    for node in range(feature.size):
        is_each_found &= is_found[node]
    return is_each_found and n_found == feature.size
