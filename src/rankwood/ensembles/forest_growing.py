"""Growing a forest: trees side by side, one per thread, collected in their order."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np

from rankwood.dtypes import Array, Floats
from rankwood.ensembles.bags import Bags, stream_number
from rankwood.ensembles.checkpointing import Checkpoint
from rankwood.ensembles.collected import Collected
from rankwood.ensembles.costs import TrainingCosts
from rankwood.ensembles.out_of_bag import OutOfBag
from rankwood.ensembles.progress import Watch
from rankwood.ensembles.side_by_side import in_order
from rankwood.ensembles.validation import Validation
from rankwood.trees.grower import Tree, grow_tree
from rankwood.trees.policies import Policies
from rankwood.trees.state_kernels import Matrix

_SURELY = 1.1  # times what another tree's last split gained: fewer splits are made in vain than by guessing lower


@dataclass(eq=False)
class Pace:
    """What a split must gain to be made, as far as the trees before tell: a guess that changes time, not trees."""

    likely_gain: float = math.inf

    def see(self, tree: Tree) -> None:
        """Learn from a tree, whichever was ready last."""
        self.likely_gain = _SURELY * tree.last_gain


@dataclass(frozen=True, eq=False)
class ForestPlan:
    """All that the trees of a forest follow from."""

    matrix: Matrix
    targets: Floats
    weights: Floats | None  # in the impurity; None where all rows weigh alike
    policies: Policies
    bags: Bags | None  # None: every tree sees the same rows
    present: Array | None  # rows that count when there are no bags; None: all
    n_trees: int
    seed: int
    n_threads: int
    costs: TrainingCosts | None = None
    batch: int = 1  # trees that cannot see which features the others of them use
    pace: Pace = field(default_factory=Pace)

    def grow(self, number: int, is_used: Array | None = None) -> tuple[Tree, Array | None]:
        """Tree ``number``, for which used features are free, and how often each row was in its bag."""
        counts = self.present if self.bags is None else self.bags.counts(number)
        policies = self.policies
        if self.costs is not None and is_used is not None:
            policies = self.costs.charge(policies, is_used, self.targets, counts, self.weights)
        tree = grow_tree(
            self.matrix,
            self.targets,
            policies,
            counts=counts,
            weights=self.weights,
            stream=stream_number(self.seed, "tree", number),
            n_threads=1,
            route_others=self.bags is not None,
            likely_gain=self.pace.likely_gain,
        )
        self.pace.see(tree)
        return tree, counts


@dataclass(frozen=True, eq=False)
class ForestState:
    """What a forest has so far; it grows with every tree."""

    trees: Collected
    out_of_bag: OutOfBag | None  # None without bags
    validation: Validation | None
    history: list[float]  # the validation figure after each tree

    def add(self, tree: Tree, counts: Array | None) -> float | None:
        """Add a tree that saw each row ``counts`` times; gives the validation figure."""
        self.trees.add(tree)
        if self.out_of_bag is not None and counts is not None:
            self.out_of_bag.add(tree, counts)
        if self.validation is None:
            return None
        self.validation.add(tree)
        self.history.append(self.validation.value(divisor=len(self.trees)))
        return self.history[-1]

    @staticmethod
    def arrays_of(plan: ForestPlan) -> tuple[str, ...]:
        """What a checkpoint of the forest holds besides trees."""
        return ("history",) if plan.bags is None else ("history", "oob_sums", "oob_counts")

    def save(self, checkpoint: Checkpoint) -> None:
        """Write everything that cannot be found again from the trees, and the trees."""
        arrays = {"history": np.array(self.history)}
        if self.out_of_bag is not None:
            arrays |= {"oob_sums": self.out_of_bag.sums, "oob_counts": self.out_of_bag.n_trees}
        checkpoint.write(self.trees.forest(), arrays)


def _grow_in_batches(
    plan: ForestPlan, state: ForestState
) -> Generator[tuple[Tree, Array | None], None, None]:
    """The trees that ``state`` lacks, in their order; with feature costs each batch waits for the one before."""
    batch = plan.n_trees if plan.costs is None else plan.batch
    while len(state.trees) < plan.n_trees:
        begin = len(state.trees) // batch * batch  # a resumed fit may stand within a batch
        grow = functools.partial(plan.grow, is_used=state.trees.used_before(begin))
        numbers = range(len(state.trees), min(begin + batch, plan.n_trees))
        yield from in_order(grow, numbers, plan.n_threads)


def grow_forest(plan: ForestPlan, state: ForestState, checkpoint: Checkpoint, watch: Watch) -> None:
    """Grow the trees that ``state`` lacks; the order they are added in does not depend on threads."""
    with contextlib.closing(_grow_in_batches(plan, state)) as grown:
        for tree, counts in grown:
            measure = state.add(tree, counts)
            del tree, counts  # as large as the rows: not to be held until the next tree is there
            if checkpoint.is_due():
                state.save(checkpoint)
            if watch.says_stop(len(state.trees), measure):
                break
    if checkpoint.is_kept:
        state.save(checkpoint)
