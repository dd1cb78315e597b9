"""The models of a search: their hypotheses, scores and measures.

Scores of a model are kept while there is room, else added up again along its path, from the nearest ancestor whose
scores are kept. Both ways add the same numbers in the same order: the room changes speed only. The targets of the next
hypothesis are kept likewise, because nearly half of all steps extend a model that was extended before, and because
LambdaRank's take longer than a tree under a constraint.
"""

from __future__ import annotations

import dataclasses
import math
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from rankwood._core.random import stream
from rankwood._core.threads import run_blocks
from rankwood.dtypes import Array, Bytes, Floats
from rankwood.measures.compute import RepeatedMeasure
from rankwood.measures.ranking import Ranking
from rankwood.rankers.search.steps import FREE, BaseBooster, Constraint, Weights
from rankwood.training.rounds import add_leaf_values
from rankwood.trees.grower import Tree
from rankwood.trees.leaves import route

_LEAST_ROWS = 20_000  # per thread: fewer find their leaves faster than a thread starts
_NO_ROWS = np.zeros(0, np.int32)
_SHARE_OF_TARGETS = 0.25  # of the room; scores have the rest


class _HasSize(Protocol):
    @property
    def n_bytes(self) -> int:
        """Memory it takes."""


Kept = TypeVar("Kept", bound=_HasSize)


class Recent(Generic[Kept]):
    """What is known of some models, by their numbers; what was not used for the longest time makes room."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._used = 0
        self._kept: OrderedDict[int, Kept] = OrderedDict()

    def __contains__(self, model: int) -> bool:
        return model in self._kept

    def get(self, model: int) -> Kept | None:
        """What is kept of the model, which counts as used; None where nothing is."""
        found = self._kept.get(model)
        if found is not None:
            self._kept.move_to_end(model)
        return found

    def keep(self, model: int, value: Kept) -> None:
        """Keep a value; where it is larger than the room, nothing is left."""
        if model in self._kept:
            self._used -= self._kept.pop(model).n_bytes
        self._kept[model] = value
        self._used += value.n_bytes
        while self._used > self._room and self._kept:
            _, dropped = self._kept.popitem(last=False)
            self._used -= dropped.n_bytes


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """Training or validation rows: their bins, and the measure over them."""

    codes: Bytes
    measure: RepeatedMeasure

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.codes.shape[1])


@dataclass(frozen=True, eq=False)
class Scores:
    """The sums of a model's hypotheses by row, without the base score; and the ranking of the training rows."""

    train: Floats
    valid: Floats | None
    ranking: Ranking | None = None

    @property
    def n_bytes(self) -> int:
        """Memory it takes."""
        n_bytes = self.train.nbytes + (0 if self.valid is None else self.valid.nbytes)
        return n_bytes if self.ranking is None else n_bytes + self.ranking.order.nbytes


@dataclass(frozen=True)
class Constraints:
    """Which constraints each model has, and in which order they are tried: all from the seed."""

    n_features: int
    of_stumps: bool  # a constraint is a feature; else a number that features are hashed from
    n_constraints: int | None
    with_free: bool
    seed: int

    @property
    def count(self) -> int | None:
        """How many each model has; None if there is no limit."""
        most = self.n_features + self.with_free if self.of_stumps else None
        given = self.n_constraints
        return most if given is None else given if most is None else min(given, most)

    def of(self, model: int, index: int) -> int:
        """The constraint that is tried after ``index`` others; no two of a model are the same."""
        random = stream(self.seed, "constraints", model)
        if self.with_free:
            free = int(random.integers(self.count or self.n_features))
            if index == free:
                return FREE
            index -= index > free
        if self.of_stumps:
            return int(random.permutation(self.n_features)[index])
        return int(random.integers(1 << 62, size=index + 1)[index])

    def by_probability(
        self, model: int, index: int, probability: Floats, used: Collection[int]
    ) -> int:
        """The same for stumps whose features are drawn in proportion to ``probability``, without the ``used`` ones."""
        if self.with_free and self.of(model, index) == FREE:
            return FREE
        left = probability.copy()
        left[[feature for feature in used if feature != FREE]] = 0.0
        if left.sum() <= 0.0:  # all that is left has no probability
            left[:] = 1.0
            left[[feature for feature in used if feature != FREE]] = 0.0
        sums = np.cumsum(left)
        random = stream(self.seed, f"constraints of {model}", index).random() * sums[-1]
        return min(int(np.searchsorted(sums, random, side="right")), int(np.flatnonzero(left)[-1]))


@dataclass(eq=False)
class ScoredModels:
    """Hypotheses and scores of the models of a search, by their numbers."""

    booster: BaseBooster
    train: MeasuredRows
    valid: MeasuredRows | None
    choosing: RepeatedMeasure | None  # that models are chosen by on the validation data
    evaluates_valid: bool  # f is the measure on the validation data
    averages: bool  # a model's worth is ½ training + ½ validation measure, where both are known
    sign: float  # -1 where less of the measure is better
    room: int  # bytes for scores and targets
    parent: list[int]  # of each model; the search's own list
    trees: list[Tree] = field(default_factory=list)  # of model 1, 2, …: its last hypothesis
    factors: list[float] = field(default_factory=list)
    constraints: list[int] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)  # f, the empty model's first
    on_valid: list[float] = field(default_factory=list)
    _kept: Recent[Scores] = field(init=False)
    _targets: Recent[Weights] = field(init=False)

    def __post_init__(self) -> None:
        for_targets = int(_SHARE_OF_TARGETS * self.room)
        self._kept = Recent(self.room - for_targets)
        self._targets = Recent(for_targets)

    def extend(
        self, model: int, depth: int, constraint: Constraint
    ) -> tuple[Tree, float, Scores] | None:
        """One step from ``model``: a hypothesis, its weight and the new scores; None where there is no hypothesis."""
        scores = self.scores(model)
        whole = scores.train + self.booster.start
        weights = self._targets.get(model)
        if weights is None:
            ranking = None if scores.ranking is None else scores.ranking.order
            weights = self.booster.weights(whole, depth, ranking)
            self._targets.keep(model, weights)
        tree = self.booster.fit(weights, constraint)
        step = self.booster.step(whole, weights, tree)
        if step is None:
            return None
        tree, factor = step
        return tree, factor, self._moved(scores, tree, factor)

    def add(self, tree: Tree, factor: float, constraint: int, scores: Scores) -> float:
        """Keep a new model, the next in number; gives f, such that more is better."""
        self.trees.append(dataclasses.replace(tree, leaf_of_row=_NO_ROWS))
        self.factors.append(factor)
        self.constraints.append(constraint)
        return self.measure(len(self.trees), scores)

    def measure(self, model: int, scores: Scores) -> float:
        """Note what a model is worth on all parts; its scores are sorted here, once."""
        valid = math.nan
        f, ranking = math.nan, None
        if self.valid is not None and self.choosing is not None and scores.valid is not None:
            of_valid = scores.valid + self.booster.start
            valid = f = self.choosing.value(of_valid)
            if self.evaluates_valid and self.choosing is not self.valid.measure:
                f = self.valid.measure.value(of_valid)
        self.on_valid.append(valid)
        template = self.train.measure.template
        shares = template is not None and self.booster.shares_ranking(template)
        if shares or not self.evaluates_valid:
            whole = scores.train + self.booster.start
            lists = None if template is None else self.train.measure.lists(whole)
            if not self.evaluates_valid:
                f = self.train.measure.value(whole, lists)
            if shares and lists is not None:
                ranking = lists.ranking()
        self.measured.append(f)
        self._kept.keep(model, dataclasses.replace(scores, ranking=ranking))
        return self.worth(model)

    def worth(self, model: int) -> float:
        """What a measured model is compared by, such that more is better, also where it is no number."""
        f = self.measured[model]
        if self.averages and self.valid is not None:
            f = 0.5 * (f + self.on_valid[model])
        return -math.inf if math.isnan(f) else self.sign * f

    def values(self, model: int) -> list[tuple[Floats, Floats]]:
        """By part, the measure of each query such that more is better, and the weights of the queries."""
        scores = self.scores(model)
        parts = [(self.train, scores.train), (self.valid, scores.valid)]
        return [
            (self.sign * part.measure.by_query(sums + self.booster.start), part.measure.weights)
            for part, sums in parts
            if part is not None and sums is not None
        ]

    def scores(self, model: int) -> Scores:
        """The scores of a model: kept ones, or added up from those of its nearest kept ancestor."""
        path = []
        while model > 0 and model not in self._kept:
            path.append(model)
            model = self.parent[model]
        scores = self._kept.get(model)
        if scores is None:
            valid = None if self.valid is None else np.zeros(self.valid.n_rows)
            scores = Scores(np.zeros(self.train.n_rows), valid)
        for step in reversed(path):
            tree = self.trees[step - 1]
            known = dataclasses.replace(tree, leaf_of_row=self._leaves(tree, self.train))
            scores = self._moved(scores, known, self.factors[step - 1])
        if path:
            self._kept.keep(path[0], scores)
        return scores

    def _moved(self, scores: Scores, tree: Tree, factor: float) -> Scores:
        """Scores with one more hypothesis, which knows the leaves of the training rows."""
        train = scores.train.copy()
        self._add(tree, tree.leaf_of_row, factor, train)
        valid = None
        if self.valid is not None and scores.valid is not None:
            valid = scores.valid.copy()
            self._add(tree, self._leaves(tree, self.valid), factor, valid)
        return Scores(train, valid)

    def _add(self, tree: Tree, leaf_of_row: Array, factor: float, totals: Floats) -> None:
        threads = self.booster.plan.n_threads
        values = (leaf_of_row, tree.value, factor, totals)
        run_blocks(add_leaf_values, totals.size, *values, n_threads=threads, least=_LEAST_ROWS)

    def _leaves(self, tree: Tree, part: MeasuredRows) -> Array:
        """The leaf of each row of a part."""
        leaf_of_row = np.full(part.n_rows, -1, np.int32)
        nodes = (tree.feature, tree.code, tree.left, tree.right, tree.missing, leaf_of_row)
        threads = self.booster.plan.n_threads
        run_blocks(route, part.n_rows, part.codes, *nodes, n_threads=threads, least=_LEAST_ROWS)
        return leaf_of_row
