"""Checks of models: the rules for a forest's arrays, and checks that all kinds of models share.

A forest that passes can be scored without further checks: children come after their parents, so every path ends and
stays within the arrays. Large forests are first checked by kernels that only tell whether anything is wrong; the
NumPy checks then find the first violation and its message.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood.dtypes import FEATURE, OFFSET, SCORE, WEIGHT, Array
from rankwood.errors import ModelError

if TYPE_CHECKING:
    from rankwood.models.forest import Forest

NODE = np.int32  # half the memory of int64; two billion nodes are enough

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
_MANY_NODES = 1 << 16  # forests of this size are checked by kernels first


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


def are_nodes_sound(forest: Forest) -> bool:
    """Whether the nodes keep all rules, by kernels."""
    feature, threshold, left, right, missing, value, cover, gain = (
        getattr(forest, name) for name in NODE_ARRAYS
    )
    offsets, n_features = forest.tree_offsets, forest.n_features
    is_reached = np.zeros(forest.n_nodes, np.bool_)
    return (
        are_numbers_sound(threshold, value, cover, gain)
        and are_splits_sound(offsets, n_features, feature, threshold, left, right, missing, gain)
        and has_each_one_parent(offsets, feature, left, right, missing, is_reached)
    )


def typed(name: str, array: Any, dtype: type[np.generic]) -> Array:
    """``array`` if it has one dimension and that dtype, copied if it is writeable."""
    wanted = np.dtype(dtype)
    if not isinstance(array, np.ndarray) or array.dtype != wanted or array.ndim != 1:
        actual = (
            f"{array.dtype} of {array.ndim} dimensions"
            if isinstance(array, np.ndarray)
            else type(array).__name__
        )
        raise ModelError(f"{name} must be an array of {wanted} with one dimension, got {actual}.")
    plain = np.asarray(array)
    is_ours = plain.flags.c_contiguous and plain.flags.aligned and not plain.flags.writeable
    return plain if is_ours else np.array(plain, dtype=wanted, order="C")


def freeze_arrays(model: Any, dtypes: Mapping[str, type[np.generic]]) -> None:
    """Replace the named arrays of a frozen dataclass by checked, read-only ones."""
    for name, dtype in dtypes.items():
        array = typed(name, getattr(model, name), dtype)
        object.__setattr__(model, name, checks.read_only(array))


def freeze_names(model: Any) -> None:
    """Make the feature names of a frozen dataclass a tuple, if it has any."""
    if model.feature_names is not None:
        object.__setattr__(model, "feature_names", tuple(model.feature_names))


def finite_number(name: str, value: Any) -> float:
    """``value`` as a finite float."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise ModelError(f"{name} must be a finite number, got {value!r}.")
    return float(value)


def refuse_infinite(name: str, array: Array) -> None:
    """Raise unless every number of ``array`` is finite."""
    finite = np.isfinite(array)
    if not finite.all():
        index = int(np.argmin(finite))
        raise ModelError(f"{name}[{index}] is {float(array[index])}; it must be finite.")


def refuse_negative(name: str, array: Array) -> None:
    """Raise if a number of ``array`` is below 0."""
    if array.size and array.min() < 0:
        index = int(np.argmin(array))
        raise ModelError(f"{name}[{index}] is {float(array[index]):g}; it must not be negative.")


def check_names(names: tuple[str, ...] | None, n_features: int) -> None:
    """Raise unless there are no names at all, or one for each feature, all different."""
    if names is None:
        return
    if not all(isinstance(name, str) for name in names):
        raise ModelError("feature_names must be texts.")
    if len(names) != n_features:
        raise ModelError(
            f"feature_names has {len(names):,} names, but there are {n_features:,} features."
        )
    if len(set(names)) != len(names):
        raise ModelError("feature_names has a name more than once; names must differ.")


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
            index = int(np.argmax(wrong))
            raise ModelError(
                f"node {int(inner[index])}: its {name} child {int(child[index])} must stand after "
                f"it in the same tree, which ends before node {int(ends[index])}."
            )
    wrong = forest.left[inner] == forest.right[inner]
    if wrong.any():
        node = int(inner[np.argmax(wrong)])
        raise ModelError(f"node {node}: its left and right child are the same node.")


def _check_parents(forest: Forest) -> None:
    """Check that each node but the roots has one parent; with children after parents, this makes trees."""
    inner = np.flatnonzero(forest.feature >= 0)
    left, right, missing = forest.left[inner], forest.right[inner], forest.missing[inner]
    third = missing[(missing != left) & (missing != right)]
    parents = np.bincount(np.concatenate([left, right, third]), minlength=forest.n_nodes)
    parents[forest.tree_offsets[:-1]] += 1  # a root needs no parent
    wrong = parents != 1
    if wrong.any():
        node = int(np.argmax(wrong))
        parents_found = "no parent" if parents[node] == 0 else "more than one parent"
        raise ModelError(f"node {node} has {parents_found}; every node but a root has exactly one.")


# Kernels: the same rules for the nodes, without branches.


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
    """Whether leaves have no split, and the children of inner nodes come after them in the same tree."""
    is_wrong = False
    for tree in range(offsets.size - 1):
        end = np.int32(offsets[tree + 1])
        for index in range(np.uint64(offsets[tree]), np.uint64(offsets[tree + 1])):
            node = np.int32(index)
            low, high, third = left[index], right[index], missing[index]
            is_early = (low <= node) | (high <= node) | (third <= node)
            is_late = (low >= end) | (high >= end) | (third >= end)
            is_no_split = (feature[index] >= n_features) | is_early | is_late | (low == high)
            is_full = (threshold[index] != np.float32(0.0)) | (gain[index] != 0.0)
            is_no_leaf = (feature[index] != -1) | is_full | ((low | high | third) != 0)
            is_inner = feature[index] >= 0
            is_wrong |= (is_inner & is_no_split) | (~is_inner & is_no_leaf)
    return not is_wrong


@kernel
def has_each_one_parent(
    offsets: Array, feature: Array, left: Array, right: Array, missing: Array, is_reached: Array
) -> bool:
    """Whether each node but the roots has exactly one parent, given sound splits; ``is_reached`` is all False.

    Every node is reached at least once, and the number of roots and children equals the number of nodes; so every node
    is reached exactly once.
    """
    n_reached = offsets.size - 1
    for tree in range(offsets.size - 1):
        is_reached[offsets[tree]] = True
    for node in range(feature.size):
        low, high, third = left[node], right[node], missing[node]
        is_reached[np.uint64(low)] = True  # the children of a leaf are 0, the first root
        is_reached[np.uint64(high)] = True
        is_reached[np.uint64(third)] = True
        n_reached += 2 * (feature[node] >= 0) + ((third != low) & (third != high))
    is_each_reached = True
    for node in range(feature.size):
        is_each_reached &= is_reached[node]
    return is_each_reached and n_reached == feature.size
