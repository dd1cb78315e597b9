"""Feature costs in training: a split pays for a feature that no earlier tree of the model has used.

Eq. 6.1 of Mohan (2010): of all splits a node takes the one with the least

    impurity(left) + impurity(right) + λ · c(feature)

so costs decide which split is taken, not whether there is one. As in the paper, c(f) falls to 0 for the trees after the
first that uses f; the tree that uses it first pays at each of its splits. By default impurities are divided by that of
the tree's root and costs by the largest, so that λ between 0 and 1 means the same on every data set.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood.data.costs import feature_costs
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.trees.policies import Policies

SCALES = ("relative", "raw")


@dataclass(frozen=True, eq=False)
class TrainingCosts:
    """λ · c(f) of each feature, as a share of the root's impurity when ``is_relative``."""

    prices: Floats
    is_relative: bool

    def charge(
        self,
        policies: Policies,
        is_used: Array,
        targets: Floats,
        counts: Array | None,
        weights: Floats | None,
    ) -> Policies:
        """The policies of a tree on these rows, for which the used features are free."""
        prices = np.where(is_used, 0.0, self.prices)
        if self.is_relative:
            prices = prices * root_impurity(targets, counts, weights, policies.l2)
        return dataclasses.replace(policies, costs=prices)


def training_costs(estimator: Any, data: RankingData) -> TrainingCosts | None:
    """The costs that the estimator's parameters ask for; None where every feature is free."""
    if estimator.feature_costs is None:
        return None
    costs = feature_costs(estimator.feature_costs, data.names)
    is_relative = estimator.cost_scale == "relative"
    if is_relative and costs.any():
        costs /= costs.max()
    prices = float(estimator.cost_weight) * costs
    return TrainingCosts(prices, is_relative) if prices.any() else None


def root_impurity(
    targets: Floats, counts: Array | None, weights: Floats | None, l2: float
) -> float:
    """The weighted sum of squares that a tree without splits leaves, the same for any number of threads."""
    mass = np.ones(targets.size) if counts is None else counts.astype(np.float64)
    if weights is not None:
        mass = mass * weights
    total_mass = float(mass.sum())
    total = float((mass * targets).sum())
    if total_mass <= 0.0:
        return 0.0
    spread = float((mass * (targets - total / total_mass) ** 2).sum())
    return spread + total**2 / total_mass - total**2 / (total_mass + l2)
