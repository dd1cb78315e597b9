"""Slow twins of early exits: one document and one tree at a time, and sorting by hand."""

from __future__ import annotations

import math
from fractions import Fraction

from tests.reference.forest import leaf_of


def running_score(forest, document, n_trees):
    total = weight = 0.0
    for tree in range(n_trees):
        total += float(forest.tree_weights[tree]) * float(
            forest.value[leaf_of(forest, tree, document)]
        )
        weight += float(forest.tree_weights[tree])
    if forest.average and weight > 0:
        total /= weight
    return forest.base + total


def leaving(scores, groups, drop):
    """Places that leave: of each group the share with the lowest scores, of equal ones the later first."""
    found = []
    for group in sorted(set(groups)):
        places = [place for place, of in enumerate(groups) if of == group]
        places.sort(key=lambda place: (scores[place], -place))
        found += places[: math.floor(Fraction(str(drop)) * len(places))]
    return sorted(found)


def early_exit(forest, features, groups, every, drop):
    """Score and number of trees of each document."""
    in_play = list(range(len(features)))
    n_trees = [0] * len(features)
    for stop in [*range(every, forest.n_trees, every), forest.n_trees]:
        for row in in_play:
            n_trees[row] = stop
        if stop < forest.n_trees:
            scores = [running_score(forest, features[row], stop) for row in in_play]
            gone = leaving(scores, [groups[row] for row in in_play], drop)
            in_play = [row for place, row in enumerate(in_play) if place not in gone]
    scores = [running_score(forest, features[row], n_trees[row]) for row in range(len(features))]
    return scores, n_trees


def features_in_trees(forest, n_trees):
    nodes = range(int(forest.tree_offsets[n_trees]))
    return {int(forest.feature[node]) for node in nodes if forest.feature[node] >= 0}


def features_on_path(forest, document, n_trees):
    met = set()
    for tree in range(n_trees):
        node = int(forest.tree_offsets[tree])
        while forest.feature[node] >= 0:
            feature = int(forest.feature[node])
            met.add(feature)
            value = document[feature]
            if math.isnan(value):
                node = int(forest.missing[node])
            elif value <= forest.threshold[node]:
                node = int(forest.left[node])
            else:
                node = int(forest.right[node])
    return met


def cost(features, costs, n_trees):
    return sum(float(costs[feature]) for feature in sorted(features)) + n_trees


def root_impurity(targets, counts, weights, l2):
    """Least of Σ mass · (target − value)² + l2 · value² over the value of a single leaf."""
    mass = [float(count) * float(weight) for count, weight in zip(counts, weights, strict=True)]
    total_mass = sum(mass)
    if total_mass == 0:
        return 0.0
    pairs = list(zip(mass, targets, strict=True))
    value = sum(m * float(t) for m, t in pairs) / (total_mass + l2)
    return sum(m * (float(t) - value) ** 2 for m, t in pairs) + l2 * value**2
