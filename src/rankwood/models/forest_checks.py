"""What must hold of a forest's arrays, each rule with its message.

A forest that passes can be scored without looking back: every walk ends, since children stand after their
parents, and stays within the arrays.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from rankwood.dtypes import FEATURE, OFFSET, SCORE, WEIGHT, Array
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
_NODES_AT_A_TIME = 1 << 16  # to be checked within the cache


def check(forest: Forest) -> None:
    """Raise for the first rule that ``forest`` breaks."""
    _check_scalars(forest)
    _check_lengths(forest)
    _check_numbers(forest)
    for nodes in _whole_trees(forest.tree_offsets):
        _check_leaves(forest, nodes)
        _check_splits(forest, nodes)
        _check_parents(forest, nodes)


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


def _check_numbers(forest: Forest) -> None:
    for name in ("threshold", "value", "cover", "gain", "tree_weights"):
        refuse_infinite(name, getattr(forest, name))
    for name in ("cover", "tree_weights") if forest.average else ("cover",):
        refuse_negative(name, getattr(forest, name))


def _whole_trees(offsets: Array) -> list[slice]:
    """All nodes, in parts that hold trees whole."""
    marks = np.arange(_NODES_AT_A_TIME, int(offsets[-1]), _NODES_AT_A_TIME)
    ends = np.unique(offsets[np.searchsorted(offsets, marks)])
    bounds = np.unique([0, *ends.tolist(), int(offsets[-1])]).tolist()
    return [slice(*pair) for pair in itertools.pairwise(bounds)]


def _check_leaves(forest: Forest, nodes: slice) -> None:
    is_leaf = forest.feature[nodes] < 0
    for name in ("threshold", "left", "right", "missing", "gain"):
        wrong = is_leaf & (getattr(forest, name)[nodes] != 0)
        if wrong.any():
            node = nodes.start + int(np.argmax(wrong))
            raise ModelError(f"node {node} is a leaf (feature -1), so its {name} must be 0.")


def _check_splits(forest: Forest, nodes: slice) -> None:
    feature = forest.feature[nodes]
    wrong = (feature < -1) | (feature >= forest.n_features)
    if wrong.any():
        place = int(np.argmax(wrong))
        raise ModelError(
            f"node {nodes.start + place} tests feature {int(feature[place])}, "
            f"but features run from 0 to {forest.n_features - 1:,}."
        )
    is_inner = feature >= 0
    numbers = np.arange(nodes.start, nodes.stop, dtype=NODE)
    next_trees = np.searchsorted(forest.tree_offsets, [nodes.start, nodes.stop]) + 1
    offsets = forest.tree_offsets[next_trees[0] - 1 : next_trees[1]]
    ends = np.repeat(offsets[1:].astype(NODE), np.diff(offsets))
    for name in ("left", "right", "missing"):
        child = getattr(forest, name)[nodes]
        wrong = is_inner & ((child <= numbers) | (child >= ends))
        if wrong.any():
            place = int(np.argmax(wrong))
            raise ModelError(
                f"node {nodes.start + place}: its {name} child {int(child[place])} must stand after "
                f"it in the same tree, which ends before node {int(ends[place])}."
            )
    wrong = is_inner & (forest.left[nodes] == forest.right[nodes])
    if wrong.any():
        node = nodes.start + int(np.argmax(wrong))
        raise ModelError(f"node {node}: its left and right child are the same node.")


def _check_parents(forest: Forest, nodes: slice) -> None:
    """Each node but the roots has one parent; with children after parents, that makes trees."""
    inner = nodes.start + np.flatnonzero(forest.feature[nodes] >= 0)
    left, right, missing = forest.left[inner], forest.right[inner], forest.missing[inner]
    third = missing[(missing != left) & (missing != right)]
    children = np.concatenate([left, right, third]) - nodes.start
    parents = np.bincount(children, minlength=nodes.stop - nodes.start)
    roots = forest.tree_offsets[
        slice(*np.searchsorted(forest.tree_offsets, [nodes.start, nodes.stop]))
    ]
    parents[roots - nodes.start] += 1  # a root needs none
    wrong = parents != 1
    if wrong.any():
        place = int(np.argmax(wrong))
        found = "no parent" if parents[place] == 0 else "more than one parent"
        raise ModelError(
            f"node {nodes.start + place} has {found}; every node but a root has exactly one."
        )
