"""The boosting loop: each tree is fitted to the targets of a loss, and its values are added to the scores.

``boost`` grows one sequence of trees. ``boost_runs`` grows several in parallel, each with a seed of its own; the model
is their mean, and no run sees the trees of another.

Terms
    total     the sum of the trees' values of a row, times the learning rate; by run where there are several
    start     the score of a row before the first tree: one constant, or the prediction of another model
    score     start + total
    round     one tree, or one tree of each run
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
from rankwood.training.forest import ForestBuilder, totals_of
from rankwood.training.inputs import TrainingCosts
from rankwood.training.rounds import EarlyStopping, Rounds, Validation, add_leaf_values
from rankwood.trees.grower import Tree, grow_tree
from rankwood.trees.policies import Policies
from rankwood.trees.workspace import Matrix

_LEAST_ROWS = 50_000  # per thread: adding up fewer takes less time than starting a thread
LEAST_VALUES = 2_000_000  # of the matrix, per thread: below, threads cost more time than they save


@dataclass(frozen=True, eq=False)
class BoostingPlan:
    """Everything that determines the trees, except the loss."""

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
        """Tree ``number``, fitted to its bag; it has the leaf of every row. Features that ``is_used`` cost nothing."""
        policies = self.policies
        if self.costs is not None and is_used is not None:
            counts = None if self.bags is None else self.bags.counts(number)
            policies = self.costs.charge(policies, is_used, targets, counts, weights)
        stream = stream_number(self.seed, "tree", number)
        return self.grow_by(policies, stream, number, targets, weights)

    def grow_by(
        self, policies: Policies, stream: int, number: int, targets: Floats, weights: Floats | None
    ) -> Tree:
        """Tree ``number`` by other policies than the plan's; draws of its features are hashed from ``stream``."""
        return grow_tree(
            self.matrix,
            targets,
            policies,
            counts=None if self.bags is None else self.bags.counts(number),
            weights=weights,
            stream=stream,
            n_threads=max(1, min(self.n_threads, self.matrix.columns.size // LEAST_VALUES)),
        )


@dataclass(frozen=True, eq=False)
class BoostingState:
    """The trees of a boosted model so far, and the scores that follow from them."""

    trees: ForestBuilder
    totals: Floats  # of the training rows
    validation: Validation | None
    stopping: EarlyStopping
    starts: Floats | None = None  # of the training rows, where they do not all start at the base

    @property
    def scores(self) -> Floats:
        """The scores of the training rows."""
        return self.totals + (self.trees.base if self.starts is None else self.starts)

    def add(self, tree: Tree, n_threads: int, weight: float | None = None) -> float | None:
        """Add a tree to the model and its values to all scores; returns the validation measure."""
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
        if self.validation is not None:
            self.validation.add(tree, factor)
        return self.validate()

    def validate(self) -> float | None:
        """Append the validation measure of the trees so far to the history; None without validation data."""
        if self.validation is None:
            return None
        self.stopping.history.append(self.validation.value(self.trees.base))
        return self.stopping.history[-1]

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the trees and the history; scores follow from the trees."""
        checkpoint.write(self.trees.forest(), {"history": np.array(self.stopping.history)})


def boost(loss: HasGradients, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
    """Add trees to ``state``, each fitted to the targets that the loss gives at the scores so far."""
    for number in rounds:
        targets, weights = weak_learner_targets(loss, state.scores)
        tree = plan.grow(number, targets, weights, state.trees.used_before(number))
        rounds.finish(state.add(tree, plan.n_threads))


# Several runs in parallel.


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of one averaged model: the plan of each, and their common state."""

    loss: HasGradients
    plans: Sequence[BoostingPlan]  # one per run; they differ in their seeds
    state: BoostingState  # of the mean of the runs; its totals are runs × rows

    def grow(self, number: int, run: int) -> Tree:
        """Tree ``number`` of a run, added to the run's own scores but not yet to the mean of the runs."""
        plan, totals = self.plans[run], self.state.totals[run]
        targets, weights = weak_learner_targets(self.loss, totals + self.state.trees.base)
        is_used = self.state.trees.used_before(number * len(self.plans))  # by rounds that are over
        tree = plan.grow(number, targets, weights, is_used)
        add_leaf_values(0, totals.size, tree.leaf_of_row, tree.value, plan.learning_rate, totals)
        return tree

    def add(self, trees: Sequence[Tree]) -> float | None:
        """Add a round to the mean of the runs; returns its validation measure."""
        builder, validation = self.state.trees, self.state.validation
        for tree in trees:
            builder.add(tree)
            if validation is not None:
                validation.add(tree, builder.factor)
        return self.state.validate()


def boost_runs(runs: Runs, n_threads: int, rounds: Rounds) -> None:
    """Add one tree to every run in each round; the trees of a round grow in parallel."""
    every_run = range(len(runs.plans))
    for number in rounds:
        grown = parallel_map_ordered(functools.partial(runs.grow, number), every_run, n_threads)
        with contextlib.closing(grown):
            rounds.finish(runs.add(list(grown)))


def totals_of_runs(
    forest: Forest | None, n_runs: int, learning_rate: float, data: RankingData
) -> Floats:
    """The totals of each run, bit for bit as if its trees had been added one by one."""
    totals = np.zeros((n_runs, data.n_documents))
    if forest is not None:
        for run in range(n_runs):
            trees = forest.take_trees(slice(run, None, n_runs))
            weights = np.full(trees.n_trees, learning_rate)
            totals[run] = totals_of(dataclasses.replace(trees, tree_weights=weights), data)
    return totals
