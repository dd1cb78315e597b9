"""Which share of a forest's rows goes down each edge, from covers that training left or from data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwood.dtypes import SCORE, WEIGHT, Array, Floats
from rankwood.errors import DataError, ModelError
from rankwood.models.inputs import features_in_order

if TYPE_CHECKING:
    from rankwood.models.forest import Forest

_LEAVES_AT_ONCE = 1 << 24  # rows × trees whose leaves are counted together: 64 MiB


def shares_of(forest: Forest) -> Floats:
    """The part of its parent's rows that each node has; 1 for roots.

    Below a node that no row has reached, all children have the same part.
    """
    inner = np.flatnonzero(forest.feature >= 0)
    left, right, missing = forest.left[inner], forest.right[inner], forest.missing[inner]
    is_third = (missing != left) & (missing != right)
    total = forest.cover[left] + forest.cover[right] + np.where(is_third, forest.cover[missing], 0)
    roots = forest.tree_offsets[:-1]
    bare = np.isin(inner, roots) & (total <= 0)
    if bare.any():
        tree = int(np.searchsorted(roots, inner[np.argmax(bare)]))
        raise ModelError(
            f"tree {tree} does not say how many rows went where: its covers are 0, as in models that were made "
            "elsewhere. Pass background=, data such as the model was trained on."
        )
    is_reached = total > 0
    shares = np.ones(forest.n_nodes, WEIGHT)
    for child in (left, right, missing):
        parts = forest.cover[child] / np.where(is_reached, total, 1.0)
        shares[child] = np.where(is_reached, parts, 1.0 / (2 + is_third))
    return shares


def expected_values(forest: Forest, shares: Floats) -> Floats:
    """The mean of each tree's leaves, weighted by the shares on the way to them."""
    if forest.n_trees == 0:
        return np.zeros(0, SCORE)
    reach = shares.copy()
    for parents, children in _levels(forest):
        reach[children] *= reach[parents]
    of_leaves = np.where(forest.feature < 0, reach * forest.value, 0.0)
    means: Floats = np.add.reduceat(of_leaves, forest.tree_offsets[:-1])
    return means


def with_covers(forest: Forest, background: Any, *, n_threads: int | None = None) -> Forest:
    """The forest with covers counted anew: how many rows of ``background`` come through each node."""
    matrix = features_in_order(background, forest.n_features, forest.feature_names)
    if len(matrix) == 0:
        raise DataError("background has no rows, so nothing says how often each way is taken.")
    cover: Floats = np.zeros(forest.n_nodes, WEIGHT)
    step = max(1, _LEAVES_AT_ONCE // max(1, forest.n_trees))
    for first in range(0, len(matrix), step):
        leaves = forest.leaf_ids(matrix[first : first + step], n_threads=n_threads)
        nodes = (leaves + forest.tree_offsets[:-1]).ravel()
        cover += np.bincount(nodes, minlength=forest.n_nodes)
    for parents, children in reversed(list(_levels(forest))):
        np.add.at(cover, parents, cover[children])
    return dataclasses.replace(forest, cover=cover)


def _levels(forest: Forest) -> Iterator[tuple[Array, Array]]:
    """Parents and children, pair by pair, one level of all trees after the other from the roots down."""
    level = forest.tree_offsets[:-1]
    while level.size:
        inner = level[forest.feature[level] >= 0]
        left, right, missing = forest.left[inner], forest.right[inner], forest.missing[inner]
        is_third = (missing != left) & (missing != right)
        parents = np.concatenate([inner, inner, inner[is_third]])
        level = np.concatenate([left, right, missing[is_third]])
        yield parents, level
