"""``BaseBooster``: one step of boosting, under a constraint or free, for methods that choose among many such steps.

A step is three calls: ``weights(scores)`` gives the targets of the next weak hypothesis, ``fit(constraint)`` grows it,
and ``step`` gives the hypothesis and its weight. Loss, limits of the trees and leaf values are those of the estimator
that the booster is made from.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood.dtypes import Floats, Rows
from rankwood.errors import ParameterError
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.targets import weak_learner_targets
from rankwood.measures.compute import tie_averaged
from rankwood.measures.measure import parse_measure
from rankwood.measures.ranking import Lists
from rankwood.rankers import adaboost, pairs
from rankwood.rankers.adaboost import AdaBoost, WeakClassifiers
from rankwood.rankers.averaged import AveragedGBRT
from rankwood.rankers.base import BuiltOnBase, check_parameters
from rankwood.rankers.boosted import GBRT, Boosted, LambdaMART, loss_and_plan
from rankwood.rankers.pairs import NDCGBoost
from rankwood.training.boosting import BoostingPlan
from rankwood.training.inputs import TrainingSet
from rankwood.training.rounds import needs_validation
from rankwood.trees.grower import Tree
from rankwood.trees.one_feature import OneFeatureGrower, least_gain
from rankwood.trees.policies import FeatureChoice

BASE_DOC = """The boosting whose steps are taken: LambdaMART, NDCGBoost, AdaBoost or GBRT; None is
    LambdaMART(max_leaves=2, learning_rate=0.2). Its number of trees is not looked at. On the command line its
    name; options that {} does not know are its own."""
FREE = -1  # the constraint that allows all features
_REFUSED = {  # parameters of a base that a search cannot honour: what they must be, and why
    "checkpoint": (None, "pass checkpoint to the search itself"),
    "warm_start": (False, "every model of a search starts from the empty one"),
    "subsample": (1.0, "constraints are what tells the steps of a model apart"),
    "feature_costs": (
        None,
        "the cost of a feature depends on the trees before, and models share theirs",
    ),
}


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
            return self.plan.grow(weights.number, weights.targets, weights.weights)
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
        return self.plan.grow_by(
            constrained, number, weights.number, weights.targets, weights.weights
        )

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
            n_features = len(self.plan.matrix.columns)
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
    grower = OneFeatureGrower(plan.matrix, plan.policies, plan.n_threads, present)
    if isinstance(base, AdaBoost):
        return AdaBooster(loss, plan, grower, adaboost.stumps_of(base, loss, plan))
    return _BOOSTERS[_kind_of(base)](loss, plan, grower)


class BuiltOnBooster(BuiltOnBase):
    """The base of rankers that choose among the steps of a boosting method."""

    _default_base = "LambdaMART"  # what the command line makes of options without a base

    def _new_base(self) -> LambdaMART:
        return LambdaMART(max_leaves=2, learning_rate=0.2, l2=0.0)


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
