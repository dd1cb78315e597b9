"""The boosting loop: each tree is fitted to the targets of a loss, and its values are added to the scores.

``boost`` grows one sequence of trees, and ``boost_with_dropout`` one whose trees are fitted without some of those
before. ``boost_runs`` grows several in parallel, each with a seed of its own; the model is their mean, and no run sees
the trees of another.

Terms
    total     the sum of the trees' values of a row, times the learning rate; by run where there are several
    start     the score of a row before the first tree: one constant, or the prediction of another model
    score     start + total
    round     one tree, or one tree of each run
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from rankwood._core import checks
from rankwood._core.random import stream
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.engines.bags import Bags, Draws, stream_number
from rankwood.engines.engine import Engine, Scores, TreeRequest, add_to_totals
from rankwood.losses.loss import HasGradients, Targets
from rankwood.models.forest import Forest
from rankwood.training.forest import ForestBuilder, totals_of
from rankwood.training.inputs import StartScores, TrainingCosts
from rankwood.training.rounds import Checkpoint, EarlyStopping, Rounds, Validation
from rankwood.trees.grower import Policies, Tree


@dataclass(frozen=True, eq=False)
class BoostingPlan:
    """Everything that determines the trees, except the loss."""

    engine: Engine
    policies: Policies
    bags: Bags | None  # None: every tree sees all rows
    n_trees: int
    learning_rate: float
    seed: int
    costs: TrainingCosts | None = None

    def __post_init__(self) -> None:
        self.engine.check(self.policies)

    @property
    def n_threads(self) -> int:
        """The threads of the engine."""
        return self.engine.n_threads

    def request(self, number: int, targets: Targets, is_used: Array | None = None) -> TreeRequest:
        """Tree ``number``, fitted to its bag. Features that ``is_used`` cost nothing."""
        draws = Draws(None, self.engine.n_rows) if self.bags is None else self.bags.draws
        held = self.engine.hold(targets, draws, centre=self.policies.lets_shift)
        stream = stream_number(self.seed, "tree", number)
        request = TreeRequest(held, self.policies, stream, self.bags, number)
        if self.costs is None or is_used is None:
            return request
        return self.costs.charge(request, targets, is_used)

    def grow(self, number: int, targets: Targets, is_used: Array | None = None) -> Tree:
        """Tree ``number``; it has the leaf of every row."""
        return self.engine.grow_one(self.request(number, targets, is_used))


@dataclass(frozen=True, eq=False)
class BoostingState:
    """The trees of a boosted model so far, and the scores that follow from them."""

    trees: ForestBuilder
    runs: tuple[Scores, ...]  # of the training rows, by run; most models have one
    validation: Validation | None
    stopping: EarlyStopping
    starts: StartScores | None = None  # that ``runs`` and ``validation`` contain already

    @property
    def scores(self) -> Floats:
        """The scores of the training rows, as an array."""
        return self.runs[0].on_host()

    def add(self, tree: Tree, weight: float | None = None) -> float | None:
        """Add a tree to the model and its values to all scores; returns the validation measure."""
        factor = self.trees.factor if weight is None else weight
        self.trees.add(tree, factor)
        self.runs[0].add(tree, factor)
        if self.validation is not None:
            self.validation.add(tree, factor)
        return self.validate()

    def validate(self) -> float | None:
        """Append the validation measure of the trees so far to the history; None without validation data."""
        if self.validation is None:
            return None
        self.stopping.history.append(self.validation.value(self.trees.base))
        return self.stopping.history[-1]

    def fitted_at(self, data: RankingData) -> Iterator[Floats]:
        """For each tree of the earlier model, the scores of the training rows ``data`` that it was fitted at."""
        forest, totals = self.trees.forest(), np.zeros(data.n_documents)
        start = self.trees.base if self.starts is None else self.trees.base + self.starts.train
        for number in range(forest.n_trees):
            yield totals + start
            totals += totals_of(forest.take_trees(slice(number, number + 1)), data)

    def forest(self, n_trees: int | None = None) -> Forest:
        """The model: all trees so far, or the first ``n_trees``."""
        forest = self.trees.forest()
        return forest if n_trees is None else forest.take_trees(slice(0, n_trees))

    def stages(self, data: RankingData) -> Iterator[tuple[int, Floats]]:
        """Pairs of a number of trees and the scores of the model that had so many."""
        return self.forest().predict_stages(data)

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the trees and the history; scores follow from the trees."""
        checkpoint.write(self.forest(), {"history": np.array(self.stopping.history)})


def boost(loss: HasGradients, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
    """Add trees to ``state``, each fitted to the targets that the loss gives at the scores so far."""
    for number in rounds:
        targets = plan.engine.targets(loss, state.runs[0])
        tree = plan.grow(number, targets, state.trees.used_before(number))
        rounds.finish(state.add(tree))
        del targets, tree  # they are as large as the data, and the next ones follow


def boost_runs(
    loss: HasGradients, plans: Sequence[BoostingPlan], state: BoostingState, rounds: Rounds
) -> None:
    """Add one tree to every run in each round; the trees of a round are independent. Plans differ in their seeds."""
    engine, n_runs = plans[0].engine, len(plans)
    for number in rounds:
        is_used = state.trees.used_before(number * n_runs)  # by rounds that are over
        requests = (
            plan.request(number, engine.targets(loss, run), is_used)
            for plan, run in zip(plans, state.runs, strict=True)
        )
        with contextlib.closing(engine.grow(requests)) as grown:
            for plan, run, tree in zip(plans, state.runs, grown, strict=True):
                run.add(tree, plan.learning_rate)
                state.trees.add(tree)
                if state.validation is not None:
                    state.validation.add(tree, state.trees.factor)
        rounds.finish(state.validate())


# Dropout: DART (Vinayak & Gilad-Bachrach 2015).


@dataclass(frozen=True)
class Dropout:
    """Which trees are left out while a tree is fitted, and the weights that follow: all from the seed.

    Of k trees left out, the new tree gets the weight ``learning_rate / (k + 1)`` and each of them ``k / (k + 1)`` of
    its own, so that together they weigh about as much as the k did.
    """

    share: float
    skip: float  # the share of rounds that leave no tree out
    learning_rate: float
    seed: int

    def dropped(self, number: int) -> Array:
        """The trees that are left out while tree ``number`` grows: at least one, but in rounds that are skipped."""
        skips, which, *draws = stream(self.seed, "dropout", number).random(number + 2)
        if number == 0 or skips < self.skip:
            return np.zeros(0, np.int64)
        dropped = np.flatnonzero(np.array(draws) < self.share)
        return dropped if dropped.size else np.array([int(which * number)])

    def after(self, weights: Floats, dropped: Array) -> Floats:
        """The weights of the trees once another one has grown without those that were dropped."""
        after: Floats = np.append(weights, self.learning_rate / (dropped.size + 1))
        after[dropped] *= dropped.size / (dropped.size + 1)
        return after

    def weights(self, n_trees: int) -> Floats:
        """The weights of the model of so many trees. They follow from the draws alone."""
        weights: Floats = np.zeros(0)
        for number in range(n_trees):
            weights = self.after(weights, self.dropped(number))
        return weights


@dataclass(frozen=True, eq=False)
class LeafOutputs:
    """The leaf of some rows in every tree, so that their scores under any weights of the trees can be summed."""

    n_rows: int
    n_threads: int
    leaves: list[Array] = field(default_factory=list)  # by tree, in the smallest dtype
    values: list[Floats] = field(default_factory=list)  # of the nodes of each tree

    @classmethod
    def of(cls, forest: Forest | None, data: RankingData, n_threads: int) -> LeafOutputs:
        """The leaves in the trees of an earlier model, if there is one."""
        outputs = cls(data.n_documents, n_threads)
        for number in range(0 if forest is None else forest.n_trees):
            assert forest is not None
            tree = forest.take_trees([number])
            outputs.add(tree.leaf_ids(data, n_threads=n_threads)[:, 0], tree.value)
        return outputs

    def add(self, leaf_of_row: Array, value: Floats) -> None:
        """Add a tree."""
        self.leaves.append(np.asarray(leaf_of_row).astype(np.min_scalar_type(value.size)))
        self.values.append(np.array(value))

    def totals(self, weights: Floats) -> Floats:
        """The weighted sums of the first trees, one per weight, in their order."""
        totals = np.zeros(self.n_rows)
        for leaves, value, weight in zip(self.leaves, self.values, weights.tolist(), strict=False):
            if weight != 0.0:
                add_to_totals(leaves.astype(np.int32), value, weight, totals, self.n_threads)
        return totals


@dataclass(frozen=True, eq=False, kw_only=True)
class DropoutState(BoostingState):
    """The trees of a model whose weights change with every tree that is added."""

    dropout: Dropout
    start_of_train: Floats | float  # what scores are without a tree
    of_train: LeafOutputs
    of_valid: LeafOutputs | None

    def add_beside(self, tree: Tree, weights: Floats) -> float | None:
        """Add a tree, after which all have these weights; returns the validation measure."""
        self.trees.add(tree, float(weights[-1]))
        self.of_train.add(tree.leaf_of_row, tree.value)
        if self.validation is not None and self.of_valid is not None:
            self.of_valid.add(self.validation.leaves(tree), tree.value)
            self.validation.totals[:] = self.of_valid.totals(weights)
        return self.validate()

    def fitted_at(self, data: RankingData) -> Iterator[Floats]:  # noqa: ARG002 - their leaves are known
        """For each tree of the earlier model, the scores without the trees that were left out for it."""
        weights: Floats = np.zeros(0)
        for number in range(len(self.trees)):
            dropped = self.dropout.dropped(number)
            yield self.of_train.totals(without(weights, dropped)) + self.start_of_train
            weights = self.dropout.after(weights, dropped)

    def forest(self, n_trees: int | None = None) -> Forest:
        """The model when it had so many trees, with the weights of that time."""
        forest = super().forest(n_trees)
        weights = checks.read_only(self.dropout.weights(forest.n_trees))
        return dataclasses.replace(forest, tree_weights=weights)

    def stages(self, data: RankingData) -> Iterator[tuple[int, Floats]]:
        """Pairs of a number of trees and the scores of the model that had so many."""
        forest = self.trees.forest()
        outputs = LeafOutputs.of(forest, data, self.of_train.n_threads)
        weights: Floats = np.zeros(0)
        for number in range(forest.n_trees):
            weights = self.dropout.after(weights, self.dropout.dropped(number))
            yield number + 1, outputs.totals(weights) + forest.base


def without(weights: Floats, dropped: Array) -> Floats:
    """The weights of the trees while some of them are left out."""
    kept = weights.copy()
    kept[dropped] = 0.0
    return kept


def boost_with_dropout(
    loss: HasGradients, plan: BoostingPlan, state: DropoutState, rounds: Rounds
) -> None:
    """Add trees to ``state``, each fitted to the targets at the scores without the trees that are left out."""
    dropout = state.dropout
    weights = dropout.weights(len(state.trees))
    for number in rounds:
        dropped = dropout.dropped(number)
        totals = state.of_train.totals(without(weights, dropped))
        scores = plan.engine.scores(totals, state.start_of_train)
        targets = plan.engine.targets(loss, scores)
        tree = plan.grow(number, targets, state.trees.used_before(number))
        weights = dropout.after(weights, dropped)
        rounds.finish(state.add_beside(tree, weights))
        del targets, tree


def totals_of_runs(
    forest: Forest | None, n_runs: int, learning_rate: float, data: RankingData
) -> list[Floats]:
    """The totals of each run, bit for bit as if its trees had been added one by one."""
    if forest is None:
        return [np.zeros(data.n_documents) for _ in range(n_runs)]
    totals = []
    for run in range(n_runs):
        trees = forest.take_trees(slice(run, None, n_runs))
        weights = np.full(trees.n_trees, learning_rate)
        totals.append(totals_of(dataclasses.replace(trees, tree_weights=weights), data))
    return totals
