"""The boosting loop: each tree fits what the loss says is left, and moves the scores a little.

Words used here
    total     the sum of what the trees so far say about a row, times the learning rate
    score     the start plus the total; the start is the same for all rows, unless boosting starts from a model
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwood._core.threads import parallel_map_ordered, run_blocks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.losses.loss import HasGradients
from rankwood.losses.targets import weak_learner_targets
from rankwood.models.forest import Forest
from rankwood.training.bags import Bags, stream_number
from rankwood.training.checkpoint import Checkpoint
from rankwood.training.costs import TrainingCosts
from rankwood.training.forest import ForestBuilder, totals_of
from rankwood.training.rounds import EarlyStopping, ProgressReporter
from rankwood.training.scores import Validation, add_leaf_values
from rankwood.trees.grower import Tree, grow_tree
from rankwood.trees.policies import Policies
from rankwood.trees.workspace import Matrix

_LEAST_ROWS = 50_000  # per thread: fewer are added up faster than a thread starts
LEAST_VALUES = 2_000_000  # of the matrix, per thread: below, handing out a node's features costs more than it saves


@dataclass(frozen=True, eq=False)
class BoostingPlan:
    """All that the trees follow from, but for the loss."""

    matrix: Matrix
    policies: Policies
    bags: Bags | None  # None: every tree sees all rows
    n_trees: int
    learning_rate: float
    seed: int
    n_threads: int
    costs: TrainingCosts | None = None

    def grow(
        self, number: int, targets: Floats, weights: Floats | None, is_used: Array | None = None
    ) -> Tree:
        """Tree ``number``, on the targets of its bag; it knows the leaf of every row. Used features are free."""
        counts = None if self.bags is None else self.bags.counts(number)
        policies = self.policies
        if self.costs is not None and is_used is not None:
            policies = self.costs.charge(policies, is_used, targets, counts, weights)
        return grow_tree(
            self.matrix,
            targets,
            policies,
            counts=counts,
            weights=weights,
            stream=stream_number(self.seed, "tree", number),
            n_threads=max(1, min(self.n_threads, self.matrix.columns.size // LEAST_VALUES)),
        )


@dataclass(frozen=True, eq=False)
class BoostingState:
    """What a boosted model has so far; it grows with every tree."""

    trees: ForestBuilder
    totals: Floats  # of the training rows
    validation: Validation | None
    stopping: EarlyStopping
    starts: Floats | None = None  # of the training rows, where they do not all start at the base

    @property
    def scores(self) -> Floats:
        """Of the training rows."""
        return self.totals + (self.trees.base if self.starts is None else self.starts)

    def add(self, tree: Tree, n_threads: int, weight: float | None = None) -> float | None:
        """Add a tree to the model and its values to all scores; gives the validation figure."""
        factor = self.trees.factor if weight is None else weight
        self.trees.add(tree, factor)
        run_blocks(
            add_leaf_values,
            self.totals.size,
            tree.leaf_of_row,
            tree.value,
            factor,
            self.totals,
            n_threads=n_threads,
            least=_LEAST_ROWS,
        )
        if self.validation is None:
            return None
        self.validation.add(tree, factor)
        self.stopping.history.append(self.validation.value(self.trees.base))
        return self.stopping.history[-1]

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the trees and the history; scores follow from the trees."""
        checkpoint.write(self.trees.forest(), {"history": np.array(self.stopping.history)})


def boost(
    loss: HasGradients,
    plan: BoostingPlan,
    state: BoostingState,
    checkpoint: Checkpoint,
    watch: ProgressReporter,
) -> None:
    """Add trees to ``state`` until there are enough, or the validation figure has stopped improving."""
    for number in range(len(state.trees), plan.n_trees):
        if state.stopping.is_over():
            break
        targets, weights = weak_learner_targets(loss, state.scores)
        tree = plan.grow(number, targets, weights, state.trees.used_before(number))
        measure = state.add(tree, plan.n_threads)
        if checkpoint.is_due():
            state.save(checkpoint)
        if watch.report(number + 1, measure):
            break
    if checkpoint.is_kept:
        state.save(checkpoint)


# Boosting several times side by side: in each round every run grows one tree, and the model is the mean of the runs.
#
# Words used here
#     run       boosting with a seed of its own; it never sees the other runs' trees
#     round     one tree of each run, grown side by side, one per thread
#     totals    runs × rows: the sum of what a run's trees say about a row, times the learning rate


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of one averaged model: how each grows its trees, and what they have learned so far."""

    loss: HasGradients
    plans: Sequence[BoostingPlan]  # one per run; they differ in their seeds
    state: BoostingState  # of the mean of the runs; its totals are runs × rows

    @property
    def n_rounds(self) -> int:
        """Rounds so far."""
        return len(self.state.trees) // len(self.plans)

    def grow(self, number: int, run: int) -> Tree:
        """Tree ``number`` of a run, already part of the run's own scores; the mean does not know it yet."""
        plan, totals = self.plans[run], self.state.totals[run]
        targets, weights = weak_learner_targets(self.loss, totals + self.state.trees.base)
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
    runs: Runs, n_rounds: int, n_threads: int, checkpoint: Checkpoint, watch: ProgressReporter
) -> None:
    """Add rounds until there are enough, or the mean of the runs has stopped improving on the validation data."""
    state, every_run = runs.state, range(len(runs.plans))
    for number in range(runs.n_rounds, n_rounds):
        if state.stopping.is_over():
            break
        grown = parallel_map_ordered(functools.partial(runs.grow, number), every_run, n_threads)
        with contextlib.closing(grown):
            measure = runs.add(list(grown))
        if checkpoint.is_due():
            state.save(checkpoint)
        if watch.report(number + 1, measure):
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
