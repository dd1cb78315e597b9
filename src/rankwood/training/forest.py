"""Growing a forest: trees in parallel, one per thread, collected in the order of their numbers.

``ForestPlan`` determines every tree, ``ForestState`` holds the trees so far and ``grow_forest`` is the loop.
``ForestBuilder`` collects the trees of any ensemble.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import numpy as np

from rankwood._core.threads import parallel_map_ordered
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.models.forest import NEVER, Forest, NodeArrays, first_uses
from rankwood.training.bags import Bags, OutOfBag, stream_number
from rankwood.training.checkpoint import Checkpoint
from rankwood.training.inputs import TrainingCosts
from rankwood.training.rounds import Rounds, Validation
from rankwood.trees.grower import Tree, grow_tree
from rankwood.trees.policies import Policies
from rankwood.trees.workspace import Matrix

Grown = tuple[Tree, Array | None]  # a tree, and how often each row was in its bag
_MARGIN = 1.1  # over the gain of another tree's last split: a lower guess makes more splits that are discarded


@dataclass(eq=False)
class Pace:
    """A guess at the least gain of a split that is kept, from earlier trees: it changes speed only, never a tree."""

    likely_gain: float = math.inf

    def see(self, tree: Tree) -> None:
        """Update the guess from a finished tree."""
        self.likely_gain = _MARGIN * tree.last_gain


@dataclass(frozen=True, eq=False)
class ForestPlan:
    """Everything that determines the trees of a forest."""

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
    batch: int = 1  # trees that grow without knowing which features the others of the batch use
    pace: Pace = field(default_factory=Pace)

    def grow(self, number: int, is_used: Array | None = None) -> tuple[Tree, Array | None]:
        """Tree ``number``, and how often each row was in its bag. Features that ``is_used`` cost nothing."""
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
    """The trees of a forest so far, and the estimates that follow from them."""

    trees: ForestBuilder
    out_of_bag: OutOfBag | None  # None without bags
    validation: Validation | None
    history: list[float]  # the validation measure after each tree

    def add(self, tree: Tree, counts: Array | None) -> float | None:
        """Add a tree that saw each row ``counts`` times; returns the validation measure."""
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
        """The arrays that a checkpoint of the forest holds besides trees."""
        return ("history",) if plan.bags is None else ("history", "oob_sums", "oob_counts")

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the trees, and everything that does not follow from them."""
        arrays = {"history": np.array(self.history)}
        if self.out_of_bag is not None:
            arrays |= {"oob_sums": self.out_of_bag.sums, "oob_counts": self.out_of_bag.n_trees}
        checkpoint.write(self.trees.forest(), arrays)


def grow_in_batches(
    grow: Callable[..., Grown],
    numbers: range,
    batch: int,
    used_before: Callable[[int], Array],
    n_threads: int,
) -> Generator[Grown, None, None]:
    """The trees of these numbers, in their order; each batch waits for the one before, and knows the features it used.

    ``used_before`` gives the features that trees before a number use; the caller has added these trees by then.
    """
    while numbers:
        begin = numbers[0] // batch * batch  # a resumed fit may stand within a batch
        known = functools.partial(grow, is_used=used_before(begin))
        now = range(numbers[0], min(begin + batch, numbers.stop))
        yield from parallel_map_ordered(known, now, n_threads)
        numbers = numbers[len(now) :]


def grow_forest(plan: ForestPlan, state: ForestState, rounds: Rounds) -> None:
    """Grow the trees that ``state`` lacks; the order they are added in does not depend on threads."""
    batch = plan.n_trees if plan.costs is None else plan.batch
    lacking = range(len(state.trees), plan.n_trees)
    growing = grow_in_batches(plan.grow, lacking, batch, state.trees.used_before, plan.n_threads)
    with contextlib.closing(growing) as grown:
        for _ in rounds:
            # The tree has no name here: it has a number per row, and a name would keep it while the next one grows.
            rounds.finish(state.add(*next(grown)))


# Collecting trees.


@dataclass(eq=False)
class ForestBuilder:
    """Collects trees, behind those of an earlier forest if there is one, into a ``Forest``."""

    n_features: int
    feature_names: tuple[str, ...] | None
    average: bool
    earlier: Forest | None = None
    base: float = 0.0
    factor: float = 1.0  # the weight of a tree that comes without one
    n_expected: int = 0  # trees to come; 0 where unknown
    weights: list[float] = field(default_factory=list)
    first_use: Array = field(init=False)  # of each feature: the first tree that splits on it

    def __post_init__(self) -> None:
        self._grown = NodeArrays(self.n_expected)
        self.first_use = np.full(self.n_features, NEVER)
        if self.earlier is not None:
            self.first_use[:] = first_uses(self.earlier)

    def __len__(self) -> int:
        return self._grown.n_trees + (0 if self.earlier is None else self.earlier.n_trees)

    def add(self, tree: Tree, weight: float | None = None) -> None:
        """Add a tree; the leaf of each training row is not kept, since it is as large as the data."""
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
    """The sum of the trees' values of each row, bit for bit as if they had been added one by one."""
    return dataclasses.replace(forest, base=0.0, average=False).predict(data)
