"""A slow grower of trees that search one feature per node: lists of rows, sums taken anew for every cut."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.reference.trees import MISSING, combine, mix, uniform

NOISE = 1e-11


@dataclass
class Limits:
    max_leaves: int = 8
    max_depth: int = 10**9
    min_leaf: int = 1
    min_split: int = 1
    min_gain: float = 0.0
    min_weight: float = 0.0
    missing: str = "learned"
    l2: float = 0.0


@dataclass
class Node:
    rows: list[int]
    depth: int
    path: int
    split: tuple | None = None  # gain, feature, code, whether missing values go left
    children: list[int] = field(default_factory=list)


def features_in_order(path, n_features, probability):
    """The features a node tries, one after the other: the one that is drawn, then the others."""
    if probability is not None:
        keys = {
            feature: -math.log1p(-uniform(path, feature)) / share
            for feature, share in enumerate(probability)
            if share > 0.0
        }
        return sorted(keys, key=lambda feature: keys[feature])
    first = next(f for f in range(n_features) if uniform(path, f) * (n_features - f) < 1)
    others = [feature for feature in range(n_features) if feature != first]
    return [first, *sorted(others, key=lambda f: uniform(combine(path, 3), f))]


def score(rows, targets, weights, limits):
    weight = math.fsum(weights[row] for row in rows) + limits.l2
    product = math.fsum(weights[row] * targets[row] for row in rows)
    return product**2 / weight if weight > 0.0 else 0.0


def sides(column, rows, limits):
    """Whether missing values go left, in the order of trying."""
    if not any(column[row] == MISSING for row in rows):
        return [False]
    return {"learned": [False, True], "left": [True], "right": [False]}[limits.missing]


def best_split(feature, node, columns, n_bins, targets, weights, limits):
    """The best cut of a feature; None where every gain is rounding."""
    column, rows = columns[feature], node.rows
    parent = score(rows, targets, weights, limits)
    best = None
    for missing_left in sides(column, rows, limits):
        for code in range(n_bins[feature] - 1):
            known = [row for row in rows if column[row] != MISSING and column[row] <= code]
            absent = [row for row in rows if column[row] == MISSING]
            left = sorted(known + absent) if missing_left else known
            right = sorted(set(rows) - set(left))
            if not known or min(len(left), len(right)) < limits.min_leaf:
                continue
            heaviness = [math.fsum(weights[row] for row in side) for side in (left, right)]
            if min(heaviness) < limits.min_weight or min(heaviness) + limits.l2 <= 0.0:
                continue
            gain = -parent + sum(score(side, targets, weights, limits) for side in (left, right))
            if best is None or gain > best[0] * (1 + 1e-12):
                larger = 2 * len(left) >= len(rows)
                rule = {"left": True, "right": False, "learned": larger}[limits.missing]
                best = (gain, feature, code, missing_left if absent else rule)
    squares = math.fsum(weights[row] * targets[row] ** 2 for row in rows)
    is_real = best is not None and best[0] > max(limits.min_gain, NOISE * squares)
    return best if is_real else None


def search(node, columns, n_bins, targets, weights, limits, probability):
    n_rows = len(node.rows)
    if node.depth >= limits.max_depth or n_rows < max(2 * limits.min_leaf, limits.min_split):
        return
    for feature in features_in_order(node.path, len(columns), probability):
        node.split = best_split(feature, node, columns, n_bins, targets, weights, limits)
        if node.split is not None:
            return


def grow(columns, n_bins, targets, weights, limits, stream, probability=None):
    """The nodes of the tree, the root first."""
    problem = (columns, n_bins, targets, weights, limits, probability)
    nodes = [Node(list(range(len(targets))), 0, mix(stream))]
    search(nodes[0], *problem)
    for _ in range(limits.max_leaves - 1):
        open_leaves = [node for node in nodes if node.split is not None and not node.children]
        if not open_leaves:
            break
        node = max(open_leaves, key=lambda leaf: leaf.split[0])
        _, feature, code, missing_left = node.split
        column = columns[feature]
        goes_left = {
            row: missing_left if column[row] == MISSING else column[row] <= code
            for row in node.rows
        }
        for number, side in enumerate((True, False)):
            rows = [row for row in node.rows if goes_left[row] == side]
            node.children.append(len(nodes))
            nodes.append(Node(rows, node.depth + 1, combine(node.path, number)))
            search(nodes[-1], *problem)
    return nodes
