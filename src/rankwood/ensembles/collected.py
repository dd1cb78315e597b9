"""The trees of an ensemble while it grows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.models.forest import Forest
from rankwood.models.forest_editing import Joined
from rankwood.models.usage import NEVER, first_uses
from rankwood.trees.grower import Tree


@dataclass(eq=False)
class Collected:
    """Trees that were there at the start, and those grown since; together they are a ``Forest``."""

    n_features: int
    feature_names: tuple[str, ...] | None
    average: bool
    earlier: Forest | None = None
    base: float = 0.0
    factor: float = 1.0  # the weight of a tree that comes without one
    n_expected: int = 0  # trees to come; 0 where nobody knows
    weights: list[float] = field(default_factory=list)
    first_use: Array = field(init=False)  # of each feature: the first tree that splits on it

    def __post_init__(self) -> None:
        self._grown = Joined(self.n_expected)
        self.first_use = np.full(self.n_features, NEVER)
        if self.earlier is not None:
            self.first_use[:] = first_uses(self.earlier)

    def __len__(self) -> int:
        return self._grown.n_trees + (0 if self.earlier is None else self.earlier.n_trees)

    def add(self, tree: Tree, weight: float | None = None) -> None:
        """Keep a tree, but not which leaf each training row is in: that is as large as the data."""
        if self.first_use.max() > len(self):  # else all are used by now
            is_used = np.bincount(tree.feature + 1, minlength=self.n_features + 1) > 0
            self.first_use[is_used[1:] & (self.first_use > len(self))] = len(self)  # leaves have -1
        self._grown.add(tree)
        self.weights.append(self.factor if weight is None else weight)

    def used_before(self, number: int) -> Array:
        """For each feature whether a tree before tree ``number`` splits on it."""
        is_used: Array = self.first_use < number
        return is_used

    def forest(self) -> Forest:
        """All trees so far."""
        if self.earlier is not None and self._grown.n_trees == 0:
            return self.earlier
        grown = Forest(
            **self._grown.arrays(),
            tree_weights=np.array(self.weights, np.float64),
            base=self.base if self.earlier is None else 0.0,
            average=self.average,
            n_features=self.n_features,
            feature_names=self.feature_names,
        )
        return grown if self.earlier is None else Forest.concatenate([self.earlier, grown])


def totals_of(forest: Forest, data: RankingData) -> Floats:
    """The sum of what the trees say about each row, to the bit as if they had been added one by one."""
    return dataclasses.replace(forest, base=0.0, average=False).predict(data)
