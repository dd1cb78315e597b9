"""The boosting loop: each tree fits what the loss says is left, and moves the scores a little.

Words used here
    total     the sum of what the trees so far say about a row, times the learning rate
    score     the start plus the total; the start is the same for all rows, unless boosting starts from a model
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwood._threads import run_blocks
from rankwood.dtypes import Floats
from rankwood.ensembles.bags import Bags, stream_number
from rankwood.ensembles.checkpointing import Checkpoint
from rankwood.ensembles.collected import Collected
from rankwood.ensembles.early_stopping import EarlyStopping
from rankwood.ensembles.progress import Watch
from rankwood.ensembles.score_kernels import add_leaf_values
from rankwood.ensembles.validation import Validation
from rankwood.losses.loss import Loss
from rankwood.trees.grower import Tree, grow_tree
from rankwood.trees.policies import Policies
from rankwood.trees.state_kernels import Matrix

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

    def grow(self, number: int, targets: Floats, weights: Floats | None) -> Tree:
        """Tree ``number``, on the targets of its bag; it knows the leaf of every row."""
        return grow_tree(
            self.matrix,
            targets,
            self.policies,
            counts=None if self.bags is None else self.bags.counts(number),
            weights=weights,
            stream=stream_number(self.seed, "tree", number),
            n_threads=max(1, min(self.n_threads, self.matrix.columns.size // LEAST_VALUES)),
        )


@dataclass(frozen=True, eq=False)
class BoostingState:
    """What a boosted model has so far; it grows with every tree."""

    trees: Collected
    totals: Floats  # of the training rows
    validation: Validation | None
    stopping: EarlyStopping
    starts: Floats | None = None  # of the training rows, where they do not all start at the base

    @property
    def scores(self) -> Floats:
        """Of the training rows."""
        return self.totals + (self.trees.base if self.starts is None else self.starts)

    def add(self, tree: Tree, n_threads: int) -> float | None:
        """Add a tree to the model and its values to all scores; gives the validation figure."""
        self.trees.add(tree)
        run_blocks(
            add_leaf_values,
            self.totals.size,
            tree.leaf_of_row,
            tree.value,
            self.trees.factor,
            self.totals,
            n_threads=n_threads,
            least=_LEAST_ROWS,
        )
        if self.validation is None:
            return None
        self.validation.add(tree, self.trees.factor)
        self.stopping.history.append(self.validation.value(self.trees.base))
        return self.stopping.history[-1]

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the trees and the history; scores follow from the trees."""
        checkpoint.write(self.trees.forest(), {"history": np.array(self.stopping.history)})


def boost(
    loss: Loss, plan: BoostingPlan, state: BoostingState, checkpoint: Checkpoint, watch: Watch
) -> None:
    """Add trees to ``state`` until there are enough, or the validation figure has stopped improving."""
    for number in range(len(state.trees), plan.n_trees):
        if state.stopping.is_over():
            break
        targets, weights = loss.targets(state.scores)
        tree = plan.grow(number, targets, weights)
        measure = state.add(tree, plan.n_threads)
        if checkpoint.is_due():
            state.save(checkpoint)
        if watch.says_stop(number + 1, measure):
            break
    if checkpoint.is_kept:
        state.save(checkpoint)
