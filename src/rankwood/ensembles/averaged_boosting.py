"""Boosting several times side by side: in each round every run grows one tree, and the model is the mean of the runs.

Words used here
    run       boosting with a seed of its own; it never sees the other runs' trees
    round     one tree of each run, grown side by side, one per thread
    totals    runs × rows: the sum of what a run's trees say about a row, times the learning rate
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.ensembles.boosting import BoostingPlan, BoostingState
from rankwood.ensembles.checkpointing import Checkpoint
from rankwood.ensembles.collected import totals_of
from rankwood.ensembles.progress import Watch
from rankwood.ensembles.score_kernels import add_leaf_values
from rankwood.ensembles.side_by_side import in_order
from rankwood.losses.loss import Loss
from rankwood.models.forest import Forest
from rankwood.trees.grower import Tree


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of one averaged model: how each grows its trees, and what they have learned so far."""

    loss: Loss
    plans: Sequence[BoostingPlan]  # one per run; they differ in their seeds
    state: BoostingState  # of the mean of the runs; its totals are runs × rows

    @property
    def n_rounds(self) -> int:
        """Rounds so far."""
        return len(self.state.trees) // len(self.plans)

    def grow(self, number: int, run: int) -> Tree:
        """Tree ``number`` of a run, already part of the run's own scores; the mean does not know it yet."""
        plan, totals = self.plans[run], self.state.totals[run]
        targets, weights = self.loss.targets(totals + self.state.trees.base)
        tree = plan.grow(number, targets, weights)
        add_leaf_values(0, totals.size, tree.leaf_of_row, tree.value, plan.learning_rate, totals)
        return tree

    def add(self, trees: Sequence[Tree]) -> float | None:
        """Add a round to the mean of the runs; gives its validation figure."""
        collected, validation = self.state.trees, self.state.validation
        for tree in trees:
            collected.add(tree)
            if validation is not None:
                validation.add(tree, collected.factor)
        if validation is None:
            return None
        self.state.stopping.history.append(validation.value(collected.base))
        return self.state.stopping.history[-1]


def boost_side_by_side(
    runs: Runs, n_rounds: int, n_threads: int, checkpoint: Checkpoint, watch: Watch
) -> None:
    """Add rounds until there are enough, or the mean of the runs has stopped improving on the validation data."""
    state, every_run = runs.state, range(len(runs.plans))
    for number in range(runs.n_rounds, n_rounds):
        if state.stopping.is_over():
            break
        grown = in_order(functools.partial(runs.grow, number), every_run, n_threads)
        with contextlib.closing(grown):
            measure = runs.add(list(grown))
        if checkpoint.is_due():
            state.save(checkpoint)
        if watch.says_stop(number + 1, measure):
            break
    if checkpoint.is_kept:
        state.save(checkpoint)


def totals_of_runs(
    forest: Forest | None, n_runs: int, learning_rate: float, data: RankingData
) -> Floats:
    """What each run's trees say about each row, to the bit as if they had been added one by one."""
    totals = np.zeros((n_runs, data.n_documents))
    if forest is not None:
        for run in range(n_runs):
            trees = forest.take_trees(slice(run, None, n_runs))
            weights = np.full(trees.n_trees, learning_rate)
            totals[run] = totals_of(dataclasses.replace(trees, tree_weights=weights), data)
    return totals
