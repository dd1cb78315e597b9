"""The steps of a search and the models that they make.

``BaseBooster`` takes one step of boosting, under a constraint or free, for methods that choose among many such steps.
A step is three calls: ``weights(scores)`` gives the targets of the next weak hypothesis, ``fit(constraint)`` grows it,
and ``step`` gives the hypothesis and its weight. Loss, limits of the trees and leaf values are those of the estimator
that the booster is made from.

Of the models that a search has made, the hypotheses, scores and measures are kept. Scores are kept while there is
room, else added up again along the model's path, from the nearest ancestor whose scores are kept. Both ways add the
same numbers in the same order: the room changes speed only. The targets of the next hypothesis are kept likewise,
because nearly half of all steps extend a model that was extended before, and because LambdaRank's take longer than a
tree under a constraint.
"""

from __future__ import annotations

import dataclasses
import math
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from sklearn.base import clone

from rankwood._core.random import stream
from rankwood._core.threads import run_blocks
from rankwood.dtypes import Array, Bytes, Floats, Rows
from rankwood.engines.engine import CPU, add_to_totals
from rankwood.errors import ParameterError
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.loss import weak_learner_targets
from rankwood.measures.compute import RepeatedMeasure, tie_averaged
from rankwood.measures.measure import parse_measure
from rankwood.measures.ranking import Lists, Ranking
from rankwood.rankers import adaboost, pairs
from rankwood.rankers.adaboost import AdaBoost, WeakClassifiers
from rankwood.rankers.base import BuiltOnBase, check_parameters, estimates_labels
from rankwood.rankers.boosted import GBRT, AveragedGBRT, Boosted, LambdaMART, loss_and_plan
from rankwood.rankers.pairs import NDCGBoost
from rankwood.training.boosting import BoostingPlan
from rankwood.training.inputs import TrainingSet
from rankwood.training.rounds import needs_validation
from rankwood.trees.grower import FeatureChoice, Tree
from rankwood.trees.one_feature import OneFeatureGrower, least_gain
from rankwood.trees.partition import route

BASE_DOC = """The boosting whose steps are taken: LambdaMART, NDCGBoost, AdaBoost or GBRT; None is
    LambdaMART(max_leaves=2, learning_rate=0.2). Its number of trees is not looked at. On the command line its
    name; options that {} does not know are its own."""
FREE = -1  # the constraint that allows all features
_REFUSED = {  # parameters of a base that a search cannot honour: what they must be, and why
    "checkpoint": (None, "pass checkpoint to the search itself"),
    "device": (CPU, "a search grows its trees on the threads of this process"),
    "warm_start": (False, "every model of a search starts from the empty one"),
    "subsample": (1.0, "constraints are what tells the steps of a model apart"),
    "l1": (0.0, "the gain of a step is that of one feature, without l1"),
    "features_per_tree": (None, "constraints are what tells the steps of a model apart"),
    "interactions": (None, "the steps of a search are trees of one feature per node"),
    "dropout": (0.0, "models of a search share their first trees"),
    "feature_costs": (
        None,
        "the cost of a feature depends on the trees before, and models share theirs",
    ),
}
_LEAST_ROWS = 20_000  # per thread: fewer find their leaves faster than a thread starts
_NO_ROWS = np.zeros(0, np.int32)
_SHARE_OF_TARGETS = 0.25  # of the room; scores have the rest


@dataclass(frozen=True)
class Weights:
    """The targets of the next hypothesis, row by row, and their weights."""

    targets: Floats
    weights: Floats | None
    number: int  # of the tree in its model, from 0

    @property
    def n_bytes(self) -> int:
        """Memory it takes."""
        return self.targets.nbytes + (0 if self.weights is None else self.weights.nbytes)


@dataclass(frozen=True)
class Constraint:
    """The features that a hypothesis may use: one (of a stump), those hashed from a number, or all."""

    value: int = FREE
    probability: Floats | None = None  # of features being drawn; None: all alike
    share: float | None = None  # of the features, drawn for each node; None: a node has one feature

    @property
    def is_free(self) -> bool:
        """Whether all features may be used."""
        return self.value == FREE


@dataclass(frozen=True, eq=False)
class BaseBooster:
    """Steps of gradient boosting: regression trees, taken with the learning rate."""

    loss: Any
    plan: BoostingPlan
    grower: OneFeatureGrower

    @property
    def start(self) -> float:
        """The score of every row before the first hypothesis."""
        return float(self.loss.start())

    def shares_ranking(self, lists: Lists) -> bool:
        """Whether ``weights`` needs the scores sorted as ``lists`` are."""
        return isinstance(self.loss, LambdaRank) and self.loss.ranks_as(lists)

    def weights(self, scores: Floats, number: int, ranking: Rows | None = None) -> Weights:
        """The targets of hypothesis ``number``; ``ranking`` where the scores are sorted already."""
        more = () if ranking is None else (ranking,)
        targets, weights = weak_learner_targets(self.loss, scores, *more)
        return Weights(targets, weights, number)

    def fit(self, weights: Weights, constraint: Constraint) -> Tree:
        """The tree under a constraint, or the free one of plain boosting."""
        if constraint.is_free:
            return self.plan.grow(weights.number, (weights.targets, weights.weights))
        if constraint.share is not None:
            return self._fit_share(weights, constraint.value, constraint.share)
        if self.grower.grows_stumps:
            return self.grower.stump(weights.targets, weights.weights, constraint.value)
        return self.grower.tree(
            weights.targets, weights.weights, constraint.value, constraint.probability
        )

    def _fit_share(self, weights: Weights, number: int, share: float) -> Tree:
        """The tree whose nodes each see a share of the features; splits that gain nothing but rounding are none."""
        policies, growth = self.plan.policies, self.plan.policies.growth
        noise = least_gain(weights.targets, weights.weights)
        constrained = dataclasses.replace(
            policies,
            growth=dataclasses.replace(growth, min_gain=max(growth.min_gain, noise)),
            features=FeatureChoice(share),
        )
        plain = self.plan.request(weights.number, (weights.targets, weights.weights))
        request = dataclasses.replace(plain, policies=constrained, stream=number)
        return self.plan.engine.grow_one(request)

    def step(self, scores: Floats, weights: Weights, tree: Tree) -> tuple[Tree, float] | None:  # noqa: ARG002
        """The hypothesis and its weight; None where the tree has no split."""
        return (tree, self.plan.learning_rate) if tree.n_leaves > 1 else None


@dataclass(frozen=True, eq=False)
class NDCGBooster(BaseBooster):
    """Steps of NDCGBoost: 0/1 trees with the weight that lowers the expected loss of NDCG."""

    def step(self, scores: Floats, weights: Weights, tree: Tree) -> tuple[Tree, float] | None:  # noqa: ARG002
        """The classifier and its weight; None where it lowers nothing."""
        if tree.n_leaves == 1:
            return None
        classifier, alpha = pairs.weigh(self.loss, scores, tree)
        return (classifier, self.plan.learning_rate * alpha) if alpha > 0.0 else None


@dataclass(frozen=True, eq=False)
class AdaBooster(BaseBooster):
    """Steps of AdaBoost: classifiers with the weight ``½ ln((1 - ε) / ε)``."""

    stumps: WeakClassifiers | None = None

    def fit(self, weights: Weights, constraint: Constraint) -> Tree:
        """The stump of least weighted error, or a larger tree."""
        if self.stumps is None:
            return super().fit(weights, constraint)
        assert weights.weights is not None
        features: Any = None if constraint.is_free else constraint.value
        if constraint.share is not None:
            n_features = len(self.plan.engine.matrix.columns)
            count = FeatureChoice(constraint.share).count(n_features)
            drawn = np.random.default_rng(constraint.value).permutation(n_features)
            features = np.sort(drawn[:count])
        return self.stumps.best(weights.targets, weights.weights, features)

    def step(self, scores: Floats, weights: Weights, tree: Tree) -> tuple[Tree, float] | None:  # noqa: ARG002
        """The classifier and its weight; None where it is no better than chance."""
        assert weights.weights is not None
        classifier, alpha = adaboost.weigh(weights.targets, weights.weights, tree)
        return (classifier, self.plan.learning_rate * alpha) if alpha > 0.0 else None


_BOOSTERS: dict[type[Boosted], type[BaseBooster]] = {
    LambdaMART: BaseBooster,
    GBRT: BaseBooster,
    NDCGBoost: NDCGBooster,
    AdaBoost: AdaBooster,
}
BASES = tuple(kind.__name__ for kind in _BOOSTERS)


def booster_of(base: Any, train: TrainingSet, n_threads: int | None = None) -> BaseBooster:
    """The steps of the estimator ``base`` on ``train``, with ``n_threads`` threads, else those of ``base``."""
    if n_threads is not None:
        base = clone(base).set_params(n_threads=n_threads)
    loss, plan = loss_and_plan(base, train)
    present = None if plan.bags is None else plan.bags.present
    grower = OneFeatureGrower(plan.engine.matrix, plan.policies, plan.n_threads, present)
    if isinstance(base, AdaBoost):
        return AdaBooster(loss, plan, grower, adaboost.stumps_of(base, loss, plan))
    return _BOOSTERS[_kind_of(base)](loss, plan, grower)


class BuiltOnBooster(BuiltOnBase):
    """The base of rankers that choose among the steps of a boosting method."""

    _default_base = "LambdaMART"  # what the command line makes of options without a base

    def _new_base(self) -> LambdaMART:
        return LambdaMART(max_leaves=2, learning_rate=0.2, l2=0.0)

    @property
    def _estimates_labels(self) -> bool:
        return estimates_labels(self._base())


def check_tie_averaged(_: str, measure: Any) -> None:
    """Raise for what is no measure, or cannot be averaged over orders of documents with equal scores."""
    tie_averaged(parse_measure(measure))


def check_base(_: str, base: Any) -> None:
    """Raise for what cannot be the base of a search, or has parameters that a search cannot honour."""
    if base is None:
        return
    if _kind_of(base) is None:
        shown = type(base).__name__
        raise ParameterError(f"base must be one of {', '.join(BASES)}, got {shown}.")
    check_parameters(base)
    if needs_validation(getattr(base, "early_stopping", None)):
        raise ParameterError(
            f"base has early_stopping={base.early_stopping!r}, but a step is not a whole fit: leave it out."
        )
    for name, (expected, why) in _REFUSED.items():
        value = getattr(base, name, expected)
        if value != expected:
            raise ParameterError(f"base has {name}={value!r}, but {why}: leave it at {expected!r}.")


def _kind_of(base: Any) -> Any:
    """The estimator that ``base`` is, as far as boosting goes."""
    if isinstance(base, AveragedGBRT):  # it has many sequences, not one
        return None
    return next((kind for kind in _BOOSTERS if isinstance(base, kind)), None)


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
class ModelScores:
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
    _kept: Recent[ModelScores] = field(init=False)
    _targets: Recent[Weights] = field(init=False)

    def __post_init__(self) -> None:
        for_targets = int(_SHARE_OF_TARGETS * self.room)
        self._kept = Recent(self.room - for_targets)
        self._targets = Recent(for_targets)

    def extend(
        self, model: int, depth: int, constraint: Constraint
    ) -> tuple[Tree, float, ModelScores] | None:
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

    def add(self, tree: Tree, factor: float, constraint: int, scores: ModelScores) -> float:
        """Keep a new model, the next in number; gives f, such that more is better."""
        self.trees.append(dataclasses.replace(tree, leaf_of_row=_NO_ROWS))
        self.factors.append(factor)
        self.constraints.append(constraint)
        return self.measure(len(self.trees), scores)

    def measure(self, model: int, scores: ModelScores) -> float:
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

    def scores(self, model: int) -> ModelScores:
        """The scores of a model: kept ones, or added up from those of its nearest kept ancestor."""
        path = []
        while model > 0 and model not in self._kept:
            path.append(model)
            model = self.parent[model]
        scores = self._kept.get(model)
        if scores is None:
            valid = None if self.valid is None else np.zeros(self.valid.n_rows)
            scores = ModelScores(np.zeros(self.train.n_rows), valid)
        for step in reversed(path):
            tree = self.trees[step - 1]
            known = dataclasses.replace(tree, leaf_of_row=self._leaves(tree, self.train))
            scores = self._moved(scores, known, self.factors[step - 1])
        if path:
            self._kept.keep(path[0], scores)
        return scores

    def _moved(self, scores: ModelScores, tree: Tree, factor: float) -> ModelScores:
        """Scores with one more hypothesis, which knows the leaves of the training rows."""
        train = scores.train.copy()
        self._add(tree, tree.leaf_of_row, factor, train)
        valid = None
        if self.valid is not None and scores.valid is not None:
            valid = scores.valid.copy()
            self._add(tree, self._leaves(tree, self.valid), factor, valid)
        return ModelScores(train, valid)

    def _add(self, tree: Tree, leaf_of_row: Array, factor: float, totals: Floats) -> None:
        add_to_totals(leaf_of_row, tree.value, factor, totals, self.booster.plan.n_threads)

    def _leaves(self, tree: Tree, part: MeasuredRows) -> Array:
        """The leaf of each row of a part."""
        leaf_of_row = np.full(part.n_rows, -1, np.int32)
        nodes = (*tree.routing, leaf_of_row)
        threads = self.booster.plan.n_threads
        run_blocks(route, part.n_rows, part.codes, *nodes, n_threads=threads, least=_LEAST_ROWS)
        return leaf_of_row
