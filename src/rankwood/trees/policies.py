"""Policies: what a method decides about its trees, as small frozen dataclasses.

The grower turns them into numbers and arrays (``GrowthRules`` and ``Candidates``), which is all that kernels see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core.checks import one_of, real_number, whole_number
from rankwood.dtypes import Array
from rankwood.errors import ParameterError
from rankwood.trees.workspace import (
    BEST,
    COMPLETELY_RANDOM,
    GO_LEFT,
    GO_RIGHT,
    LEARNED,
    OWN_CHILD,
    RANDOM,
    Candidates,
)

THRESHOLD_RULES = {"best": BEST, "random": RANDOM, "completely_random": COMPLETELY_RANDOM}
MISSING_RULES = {"learned": LEARNED, "left": GO_LEFT, "right": GO_RIGHT, "own_child": OWN_CHILD}
UNLIMITED = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Growth:
    """Limits of a tree: leaves, depth, rows and weight of a leaf, gain of a split, rows of a split node.

    None is no limit.
    """

    max_leaves: int | None = 31
    max_depth: int | None = None
    min_leaf: int = 1
    min_gain: float = 0.0
    min_weight: float = 0.0
    min_split: int = 1  # a node with fewer distinct rows is a leaf

    def __post_init__(self) -> None:
        if self.max_leaves is not None:
            whole_number("max_leaves", self.max_leaves, 1)
        if self.max_depth is not None:
            whole_number("max_depth", self.max_depth, 0)
        whole_number("min_leaf", self.min_leaf, 1)
        real_number("min_gain", self.min_gain, "[0, inf)")
        real_number("min_weight", self.min_weight, "[0, inf)")
        whole_number("min_split", self.min_split, 1)


@dataclass(frozen=True, eq=False)
class FeatureChoice:
    """Which features a node searches.

    ``per_node`` is their number (int) or share (float), or None for all. ``probability`` draws them non-uniformly.
    ``given`` names the feature of each node position (root, its left and right child, …); features of positions beyond
    it are drawn.
    """

    per_node: int | float | None = None
    probability: Array | None = None
    given: tuple[int, ...] = ()

    def count(self, n_features: int) -> int:
        """How many of ``n_features`` a node searches: at least one."""
        if self.per_node is None:
            return n_features
        if isinstance(self.per_node, float):
            share = real_number("features_per_node", self.per_node, "(0, 1]")
            return max(1, round(share * n_features))
        return min(whole_number("features_per_node", self.per_node, 1), n_features)


@dataclass(frozen=True, eq=False)
class Policies:
    """All that a tree depends on besides its rows and targets.

    ``costs``, by feature, are subtracted from the gains when splits are compared. ``direction`` is 1, -1 or 0 by
    feature: the prediction must rise with it, must fall, or is free.
    """

    growth: Growth = Growth()
    features: FeatureChoice = FeatureChoice()
    thresholds: str = "best"
    missing: str = "learned"
    l2: float = 0.0
    costs: Array | None = None
    direction: Array | None = None

    def __post_init__(self) -> None:
        one_of("threshold rule", self.thresholds, THRESHOLD_RULES)
        one_of("treatment of missing values", self.missing, MISSING_RULES)
        real_number("l2", self.l2, "[0, inf)")

    def candidates(self, n_features: int, gain_unit: float) -> Candidates:
        """The features' arrays for the kernels; ``gain_unit`` turns gains into the integer units of packed targets."""
        costs = _per_feature("costs", self.costs, n_features, np.float64, np.zeros(n_features))
        direction = _per_feature(
            "direction", self.direction, n_features, np.int64, np.zeros(0, np.int64)
        )
        probability = _per_feature(
            "probability", self.features.probability, n_features, np.float64, np.zeros(0)
        )
        given = np.asarray(self.features.given, np.int64)
        if given.size and (given.min() < 0 or given.max() >= n_features):
            raise ParameterError(f"a given feature must be between 0 and {n_features - 1}.")
        return Candidates(probability, given, costs * gain_unit, direction)


def _per_feature(name: str, values: Any, n_features: int, dtype: Any, default: Array) -> Array:
    """The checked array of one value per feature, or the default."""
    if values is None:
        return default
    array = np.ascontiguousarray(values, dtype)
    if array.shape != (n_features,):
        raise ParameterError(
            f"{name} has {array.size} values, but there are {n_features} features."
        )
    if not np.isfinite(array).all() or (name != "direction" and array.min() < 0):
        raise ParameterError(f"{name} must be finite and not negative.")
    return array
