"""Which features the trees of a forest use, and what it costs to compute them.

Scoring a document with the first trees of a forest costs the sum of the costs of the distinct features in all their
nodes, plus 1 per tree: n(h) and c(h) of Mohan (2010), Eq. 6.2 and 6.3, over all trees passed, for a feature is
computed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rankwood.dtypes import Array, Floats

if TYPE_CHECKING:
    from rankwood.models.forest import Forest

NEVER = np.iinfo(np.int64).max  # the first use of a feature that no tree splits on


def first_uses(forest: Forest) -> Array:
    """For each feature the number of the first tree that splits on it, or ``NEVER``. int64."""
    first = np.full(forest.n_features, NEVER)
    tree_of_node = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))
    is_inner = forest.feature >= 0
    np.minimum.at(first, forest.feature[is_inner], tree_of_node[is_inner])
    return first


def features_of(forest: Forest, first_tree: int, last_tree: int) -> Array:
    """The distinct features in the nodes of some trees, ascending."""
    nodes = forest.feature[forest.tree_offsets[first_tree] : forest.tree_offsets[last_tree]]
    return np.unique(nodes[nodes >= 0])


def count_features(forest: Forest) -> Array:
    """How many features the first 0, 1, 2, … trees use. int64, one more than there are trees."""
    return _running(forest, np.ones(forest.n_features)).astype(np.int64)


def cost_of_trees(forest: Forest, costs: Floats) -> Floats:
    """What the first 0, 1, 2, … trees cost a document: their features, and 1 per tree."""
    return _running(forest, costs) + np.arange(forest.n_trees + 1)


def _running(forest: Forest, amounts: Floats) -> Floats:
    """The sum of ``amounts`` over the features of the first 0, 1, 2, … trees."""
    first = first_uses(forest)
    is_used = first != NEVER
    new = np.bincount(first[is_used], amounts[is_used], minlength=forest.n_trees)
    return np.concatenate([[0.0], np.cumsum(new)])
