"""Shapley values by their definition: every set of known features, one document, one tree, one node at a time."""

from __future__ import annotations

import itertools
import math

import numpy as np


def value_of(forest, node, document, known):
    """What the tree below ``node`` says of a document of which only some features are known."""
    feature = int(forest.feature[node])
    if feature < 0:
        return float(forest.value[node])
    left, right, missing = (int(a[node]) for a in (forest.left, forest.right, forest.missing))
    if feature in known:
        value = document[feature]
        known_child = left if value <= forest.threshold[node] else right
        child = missing if math.isnan(value) else known_child
        return value_of(forest, child, document, known)
    children = sorted({left, right, missing})
    covers = [float(forest.cover[child]) for child in children]
    if sum(covers) == 0:
        covers = [1.0] * len(children)
    parts = zip(covers, children, strict=True)
    return sum(c * value_of(forest, child, document, known) for c, child in parts) / sum(covers)


def score_of(forest, document, known):
    total = weight = 0.0
    for tree in range(forest.n_trees):
        factor = float(forest.tree_weights[tree])
        total += factor * value_of(forest, int(forest.tree_offsets[tree]), document, known)
        weight += factor
    if forest.average and weight > 0:
        total /= weight
    return forest.base + total


def contributions(forest, features):
    """φ_j = Σ over sets S without j of |S|! (n - |S| - 1)! / n! · (score(S + j) - score(S)), and score(∅)."""
    n = forest.n_features
    found = np.zeros((len(features), n))
    for row, document in enumerate(features):
        for feature in range(n):
            others = [other for other in range(n) if other != feature]
            for size in range(n):
                weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
                for known in itertools.combinations(others, size):
                    with_it = score_of(forest, document, {*known, feature})
                    found[row, feature] += weight * (with_it - score_of(forest, document, known))
    return found, score_of(forest, np.full(n, np.nan), ())
