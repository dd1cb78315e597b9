"""Trees whose splits have two children, where a format knows no third.

RankBoost's weak rankers have three leaves: below a, above b, missing c. Two trees of two leaves say the same as a sum:
one sends missing values left and has the leaves a and a + b - c, the other sends them right and has the leaves 0 and
c - a.
"""

from __future__ import annotations

import numpy as np

from rankwood.dtypes import Array
from rankwood.models.forest import Forest
from rankwood.models.forest_checks import NODE_ARRAYS

_NODES_OF_STUMP = 4  # the split and three leaves


def has_third_child(forest: Forest) -> Array:
    """For each node whether it is a split with a child of its own for missing values."""
    is_third: Array = (forest.missing != forest.left) & (forest.missing != forest.right)
    return is_third & (forest.feature >= 0)


def two_sided(forest: Forest) -> Forest:
    """The same sum, where every three-sided tree has one split only; else the forest as it is."""
    is_third = has_third_child(forest)
    sizes = np.diff(forest.tree_offsets)
    of_tree = np.repeat(np.arange(forest.n_trees), sizes)[is_third]
    if of_tree.size == 0 or forest.average or (sizes[of_tree] != _NODES_OF_STUMP).any():
        return forest
    is_stump = np.zeros(forest.n_trees, bool)
    is_stump[of_tree] = True
    trees: list[dict[str, Array]] = []
    weights: list[float] = []
    for place in range(forest.n_trees):
        tree = _arrays(forest, place)
        parts = _two_stumps(tree) if is_stump[place] else [tree]
        trees += parts
        weights += [float(forest.tree_weights[place])] * len(parts)
    return Forest.from_trees(
        trees,
        n_features=forest.n_features,
        tree_weights=weights,
        base=forest.base,
        feature_names=forest.feature_names,
    )


def _arrays(forest: Forest, place: int) -> dict[str, Array]:
    """The node arrays of one tree, children counted from its root."""
    root, end = (int(offset) for offset in forest.tree_offsets[place : place + 2])
    arrays = {name: getattr(forest, name)[root:end].copy() for name in NODE_ARRAYS}
    inner = arrays["feature"] >= 0
    for side in ("left", "right", "missing"):
        arrays[side][inner] -= root
    return arrays


def _two_stumps(tree: dict[str, Array]) -> list[dict[str, Array]]:
    below, above, missing = (int(tree[side][0]) for side in ("left", "right", "missing"))
    a, b, c = (float(tree["value"][leaf]) for leaf in (below, above, missing))
    rows = {leaf: float(tree["cover"][leaf]) for leaf in (below, above, missing)}
    return [
        _stump(tree, (a, a + b - c), (rows[below] + rows[missing], rows[above]), 1),
        _stump(tree, (0.0, c - a), (rows[below], rows[above] + rows[missing]), 2),
    ]


def _stump(
    tree: dict[str, Array], leaves: tuple[float, float], rows: tuple[float, float], missing: int
) -> dict[str, Array]:
    total = sum(rows)
    mean = (leaves[0] * rows[0] + leaves[1] * rows[1]) / total if total else 0.0
    return {
        "feature": np.array([tree["feature"][0], -1, -1]),
        "threshold": np.array([tree["threshold"][0], 0, 0], np.float32),
        "left": np.array([1, 0, 0]),
        "right": np.array([2, 0, 0]),
        "missing": np.array([missing, 0, 0]),
        "value": np.array([mean, *leaves]),
        "cover": np.array([total, *rows]),
        "gain": np.array([tree["gain"][0], 0.0, 0.0]),
    }
