"""Slow twins of scoring: one document, one tree, one node at a time; and random forests to try them on."""

from __future__ import annotations

import math

import numpy as np

from rankwood.models.forest import Forest


def leaf_of(forest, tree, document):
    """The leaf's position in the whole arrays."""
    node = int(forest.tree_offsets[tree])
    while forest.feature[node] >= 0:
        value = document[forest.feature[node]]
        if math.isnan(value):
            node = int(forest.missing[node])
        elif value <= forest.threshold[node]:
            node = int(forest.left[node])
        else:
            node = int(forest.right[node])
    return node


def predict(forest, features, first_trees=None):
    n_trees = forest.n_trees if first_trees is None else first_trees
    scores = []
    for document in features:
        total = 0.0
        weight = 0.0
        for tree in range(n_trees):
            total += float(forest.tree_weights[tree]) * float(
                forest.value[leaf_of(forest, tree, document)]
            )
            weight += float(forest.tree_weights[tree])
        if forest.average and weight > 0:
            total /= weight
        scores.append(forest.base + total)
    return np.array(scores, np.float64)


def leaf_ids(forest, features):
    ids = [
        [
            leaf_of(forest, tree, document) - forest.tree_offsets[tree]
            for tree in range(forest.n_trees)
        ]
        for document in features
    ]
    return np.array(ids, np.int32).reshape(len(features), forest.n_trees)


def random_tree(rng, n_splits, n_features, thresholds, third=0.0):
    """A tree of ``n_splits`` splits at random leaves; a share ``third`` of them has a child for missing values."""
    rows = [{"feature": -1, "threshold": 0.0, "left": 0, "right": 0, "missing": 0}]
    leaves = [0]
    for _ in range(n_splits):
        node = leaves.pop(int(rng.integers(len(leaves))))
        n_children = 3 if rng.random() < third else 2
        children = list(range(len(rows), len(rows) + n_children))
        rng.shuffle(children)  # siblings need not be in order
        missing = children[2] if n_children == 3 else children[int(rng.integers(2))]
        rows[node] = {
            "feature": int(rng.integers(n_features)),
            "threshold": float(rng.choice(thresholds)),
            "left": children[0],
            "right": children[1],
            "missing": missing,
        }
        rows += [
            dict(rows[0], feature=-1, threshold=0.0, left=0, right=0, missing=0) for _ in children
        ]
        leaves += children
    tree = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    is_inner = tree["feature"] >= 0
    return {
        **tree,
        "value": rng.normal(size=len(rows)),
        "cover": rng.integers(1, 100, len(rows)).astype(float),
        "gain": np.where(is_inner, rng.random(len(rows)), 0.0),
    }


NASTY = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1.0,
        -1.0,
        1e38,
        -1e38,
        1e-45,
        -1e-45,
        3.4028235e38,
        -3.4028235e38,
    ],
    np.float32,
)


def nasty_thresholds():
    return NASTY[np.isfinite(NASTY)]


def nasty_values():
    """The nasty values, and the next ones above and below each threshold."""
    finite = nasty_thresholds()
    with np.errstate(over="ignore", under="ignore"):
        above = np.nextafter(finite, np.float32(np.inf))
        below = np.nextafter(finite, np.float32(-np.inf))
    return np.concatenate([NASTY, above, below])


def random_forest(rng, n_trees=5, n_features=4, third=0.0, most_splits=12, **options):
    thresholds = nasty_thresholds()
    trees = [
        random_tree(rng, int(rng.integers(0, most_splits + 1)), n_features, thresholds, third)
        for _ in range(n_trees)
    ]
    options = {"tree_weights": rng.random(n_trees) + 0.1, "base": float(rng.normal()), **options}
    return Forest.from_trees(trees, n_features=n_features, **options)


def chain(n_splits, missing_left=True):
    """A tree as deep as it is long: node 2k splits feature 0 at k, its left child 2k + 1 is a leaf."""
    n_nodes = 2 * n_splits + 1
    node = np.arange(n_nodes)
    is_inner = (node % 2 == 0) & (node < n_nodes - 1)
    left = np.where(is_inner, node + 1, 0)
    right = np.where(is_inner, node + 2, 0)
    return {
        "feature": np.where(is_inner, 0, -1),
        "threshold": np.where(is_inner, node // 2, 0),
        "left": left,
        "right": right,
        "missing": left if missing_left else right,
        "value": node.astype(float),
    }
