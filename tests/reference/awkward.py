"""Forests and documents at which engines part ways: thresholds met exactly, zeros, NaN, tiny and huge values."""

from __future__ import annotations

import numpy as np

from rankwood.models.forest import Forest
from tests.reference.forest import random_tree

f32 = np.float32
GREATEST = f32(np.finfo(np.float32).max)
# 0.1 and 0.3 have no exact float32; 1e-45 is the least above 0; 16777216 is where whole numbers end.
THRESHOLDS = np.array(
    [0.1, 0.3, -2.5, 0.0, 1.0, -1e-3, 16777216.0, 3e38, 1e-45, -7e-42, 1e-12], f32
)
SOLR_THRESHOLDS = np.array(
    [0.1, 0.3, -2.5, 0.0, 1.0, 16777216.0, 3e38, 12.25], f32
)  # that Solr can have


def forest(
    rng,
    thresholds=THRESHOLDS,
    *,
    n_trees=6,
    n_features=5,
    average=False,
    base=0.0,
    weights=None,
    zero=False,
):
    """Random trees, one of them a single leaf; the last feature is not used. ``zero``: NaN goes where 0 goes."""
    trees = [random_tree(rng, 7, n_features - 1, thresholds) for _ in range(n_trees - 1)]
    trees.append(random_tree(rng, 0, n_features - 1, thresholds))
    for tree in trees:
        inner = tree["feature"] >= 0
        tree["gain"] = np.where(inner, np.abs(tree["gain"]), 0.0)
        for node in range(tree["feature"].size - 1, -1, -1):  # a split has the rows of its children
            if inner[node]:
                tree["cover"][node] = (
                    tree["cover"][tree["left"][node]] + tree["cover"][tree["right"][node]]
                )
        if zero:
            goes_left = tree["threshold"].astype(f32) >= 0
            side = np.where(goes_left, tree["left"], tree["right"])
            tree["missing"] = np.where(inner, side, 0)
    for tree in trees:
        tree["threshold"] = tree["threshold"].astype(f32)
    chosen = np.ones(n_trees) if weights is None else np.asarray(weights, float)
    return Forest.from_trees(
        trees, n_features=n_features, tree_weights=chosen, base=base, average=average
    )


def documents(rng, thresholds=THRESHOLDS, n_features=5, n_rows=400):
    """Values at, just below and just above every threshold, and NaN, ±0, ±infinity, tiny, huge; mixed at random."""
    values = [np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, GREATEST, -GREATEST, 7e-46]
    for threshold in thresholds:
        values += [
            threshold,
            np.nextafter(threshold, f32(np.inf)),
            np.nextafter(threshold, f32(-np.inf)),
        ]
    return rng.choice(np.array(values, f32), (n_rows, n_features))


def unrepresentable(rng, thresholds=THRESHOLDS, n_features=5, n_rows=400):
    """float64 values between a threshold and its neighbours in float32: halfway, just before and just after it."""
    values = []
    for threshold in thresholds:
        for neighbour in (
            np.nextafter(threshold, f32(np.inf)),
            np.nextafter(threshold, f32(-np.inf)),
        ):
            half = float(threshold) / 2 + float(neighbour) / 2
            quarter = half / 2 + float(threshold) / 2
            values += [half, np.nextafter(half, np.inf), np.nextafter(half, -np.inf), quarter]
    return rng.choice(np.array(values, np.float64), (n_rows, n_features))
