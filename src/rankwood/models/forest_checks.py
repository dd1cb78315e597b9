"""What must hold of a forest's arrays, each rule with its message.

A forest that passes can be scored without looking back: every walk ends, since children stand after their
parents, and stays within the arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rankwood.dtypes import FEATURE, OFFSET, SCORE, WEIGHT
from rankwood.errors import ModelError
from rankwood.models.model_checks import check_names, refuse_infinite, refuse_negative

if TYPE_CHECKING:
    from rankwood.models.forest import Forest

NODE = np.int32  # two thousand million nodes are enough, at half the memory

NODE_ARRAYS: dict[str, type[np.generic]] = {
    "feature": NODE,
    "threshold": FEATURE,
    "left": NODE,
    "right": NODE,
    "missing": NODE,
    "value": SCORE,
    "cover": WEIGHT,
    "gain": SCORE,
}
ARRAYS: dict[str, type[np.generic]] = {
    **NODE_ARRAYS,
    "tree_offsets": OFFSET,
    "tree_weights": WEIGHT,
}
_MOST_NODES = 2**31 - 1
_MANY_NODES = 1 << 16  # to go through rule by rule: a kernel looks at them once


def check(forest: Forest) -> None:
    """Raise for the first rule that ``forest`` breaks."""
    _check_scalars(forest)
    _check_lengths(forest)
    refuse_infinite("tree_weights", forest.tree_weights)
    if forest.average:
        refuse_negative("tree_weights", forest.tree_weights)
    if forest.n_nodes >= _MANY_NODES and are_nodes_sound(forest):
        return
    _check_numbers(forest)
    _check_leaves(forest)
    _check_splits(forest)
    _check_parents(forest)


def _check_scalars(forest: Forest) -> None:
    n_features = forest.n_features
    is_count = isinstance(n_features, int) and not isinstance(n_features, bool)
    if not is_count or not 1 <= n_features <= _MOST_NODES:
        raise ModelError(f"n_features must be a whole number of at least 1, got {n_features!r}.")
    if not isinstance(forest.average, bool):
        raise ModelError(f"average must be True or False, got {forest.average!r}.")
    check_names(forest.feature_names, n_features)


def _check_lengths(forest: Forest) -> None:
    n_nodes, offsets = forest.n_nodes, forest.tree_offsets
    for name in NODE_ARRAYS:
        size = getattr(forest, name).size
        if size != n_nodes:
            raise ModelError(f"{name} has {size:,} values, but there are {n_nodes:,} nodes.")
    if n_nodes > _MOST_NODES:
        raise ModelError(f"{n_nodes:,} nodes are too many; {_MOST_NODES:,} fit.")
    if offsets.size != forest.n_trees + 1:
        raise ModelError(
            f"tree_offsets must have one value more than there are trees ({forest.n_trees:,}), "
            f"got {offsets.size:,}."
        )
    # In this order: differences of unchecked numbers could overflow.
    in_range = offsets[0] == 0 and offsets[-1] == n_nodes and offsets.min() >= 0
    if not in_range or (offsets.max() > n_nodes) or (np.diff(offsets) < 1).any():
        raise ModelError(
            f"tree_offsets must ascend from 0 to the number of nodes ({n_nodes:,}); "
            "every tree has at least one node."
        )


def are_nodes_sound(forest: Forest) -> bool:
    """Whether the rules below find nothing wrong."""
    from rankwood.models import soundness_kernels as kernels

    feature, threshold, left, right, missing, value, cover, gain = (
        getattr(forest, name) for name in NODE_ARRAYS
    )
    offsets, n_features = forest.tree_offsets, forest.n_features
    is_found = np.zeros(forest.n_nodes, np.bool_)
    return (
        kernels.are_numbers_sound(threshold, value, cover, gain)
        and kernels.are_splits_sound(
            offsets, n_features, feature, threshold, left, right, missing, gain
        )
        and kernels.has_each_one_parent(offsets, feature, left, right, missing, is_found)
    )


def _check_numbers(forest: Forest) -> None:
    for name in ("threshold", "value", "cover", "gain"):
        refuse_infinite(name, getattr(forest, name))
    refuse_negative("cover", forest.cover)


def _check_leaves(forest: Forest) -> None:
    is_leaf = forest.feature < 0
    for name in ("threshold", "left", "right", "missing", "gain"):
        wrong = is_leaf & (getattr(forest, name) != 0)
        if wrong.any():
            node = int(np.argmax(wrong))
            raise ModelError(f"node {node} is a leaf (feature -1), so its {name} must be 0.")


def _check_splits(forest: Forest) -> None:
    feature = forest.feature
    wrong = (feature < -1) | (feature >= forest.n_features)
    if wrong.any():
        node = int(np.argmax(wrong))
        raise ModelError(
            f"node {node} tests feature {int(feature[node])}, "
            f"but features run from 0 to {forest.n_features - 1:,}."
        )
    inner = np.flatnonzero(feature >= 0)
    ends = np.repeat(forest.tree_offsets[1:], np.diff(forest.tree_offsets))[inner]
    for name in ("left", "right", "missing"):
        child = getattr(forest, name)[inner]
        wrong = (child <= inner) | (child >= ends)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise ModelError(
                f"node {int(inner[place])}: its {name} child {int(child[place])} must stand after "
                f"it in the same tree, which ends before node {int(ends[place])}."
            )
    wrong = forest.left[inner] == forest.right[inner]
    if wrong.any():
        node = int(inner[np.argmax(wrong)])
        raise ModelError(f"node {node}: its left and right child are the same node.")


def _check_parents(forest: Forest) -> None:
    """Each node but the roots has one parent; with children after parents, that makes trees."""
    inner = np.flatnonzero(forest.feature >= 0)
    left, right, missing = forest.left[inner], forest.right[inner], forest.missing[inner]
    third = missing[(missing != left) & (missing != right)]
    parents = np.bincount(np.concatenate([left, right, third]), minlength=forest.n_nodes)
    parents[forest.tree_offsets[:-1]] += 1  # a root needs none
    wrong = parents != 1
    if wrong.any():
        node = int(np.argmax(wrong))
        found = "no parent" if parents[node] == 0 else "more than one parent"
        raise ModelError(f"node {node} has {found}; every node but a root has exactly one.")
