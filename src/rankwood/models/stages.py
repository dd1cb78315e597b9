"""``ModelStages``: what a model of trees is after each of its rounds, so that one fit gives models of every size.

Terms
    round    what a ranker adds at a time: a tree, a tree of each run (AveragedGBRT) or of each grade (OrdinalRanker),
             or a forest (BROOF); InitializedGBRT has its random forest before the first round
    stage    the model after some rounds; the last stage is the whole model
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rankwood._core import checks
from rankwood.dtypes import Array
from rankwood.errors import ModelError
from rankwood.models.forest import Forest


@dataclass(frozen=True, eq=False)
class ModelStages:
    """The stages of a model.

    Parameters
    ----------
    forest
        All trees, in the order of their rounds: its first ``n_trees[s]`` trees score as stage ``s`` does.
    n_rounds, n_trees
        Rounds and trees of each stage, ascending.
    """

    forest: Forest
    n_rounds: Array
    n_trees: Array

    def __post_init__(self) -> None:
        if self.n_rounds.size == 0:
            raise ModelError("the model has no trees, so there are no sizes to choose from.")

    @classmethod
    def of_forest(
        cls, forest: Forest, n_rounds: Iterable[int], n_trees: Iterable[int]
    ) -> ModelStages:
        """The stages of a forest whose trees are in the order of their rounds; no stage has more than all trees."""
        ends = np.minimum(np.array(list(n_trees), np.int64), forest.n_trees)
        return cls(forest, np.array(list(n_rounds), np.int64), ends)

    def thinned(self, every: int) -> ModelStages:
        """The stages after every so many rounds, and the last; 0 rounds where that is a stage."""
        step = checks.whole_number("every", every, 1)
        is_kept = self.n_rounds % step == 0
        is_kept[-1] = True
        return ModelStages(self.forest, self.n_rounds[is_kept], self.n_trees[is_kept])
