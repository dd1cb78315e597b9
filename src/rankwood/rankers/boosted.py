"""Boosted trees: ``GBRT``, ``LambdaMART`` and their bases.

``RoundRanker`` is the base of every model that grows by one tree per round, ``Boosted`` that of regression trees fitted
to the targets of a loss.
"""

from __future__ import annotations

import functools
import math
import os
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ParameterError
from rankwood.losses.lambdarank import LambdaRank, parse_target
from rankwood.losses.loss import Gradients, HasGradients, OwnLoss, SquaredLoss
from rankwood.measures.measure import is_minimised, parse_measure
from rankwood.models.forest import Forest
from rankwood.rankers.base import Ranker
from rankwood.rankers.parameters import SHARED, OneOf, OrNone, Real, Whole, parameter
from rankwood.training.bags import Bags
from rankwood.training.boosting import BoostingPlan, BoostingState, boost
from rankwood.training.checkpoint import Checkpoint
from rankwood.training.forest import ForestBuilder, totals_of
from rankwood.training.inputs import TrainingSet, codes_of, directions, training_costs
from rankwood.training.rounds import (
    BEST,
    EarlyStopping,
    Rounds,
    Validation,
    needs_validation,
    patience_of,
)
from rankwood.trees.policies import FeatureChoice, Growth, Policies

# The documentation of ``early_stopping`` and ``warm_start`` where rounds are counted.
STOP_BY_ROUNDS, ADD_ROUNDS = SHARED["early_stopping"].doc, SHARED["warm_start"].doc
_SUBSAMPLED_PAIRS = """The share of rows, or of whole queries (``subsample_by="query"``), that each tree sees, drawn
    without replacement; pairs are made of all documents, also of those a tree does not see."""


class RoundRanker(Ranker):
    """A model that grows by one tree per round, each with a weight.

    A subclass defines its loss in ``_loss``, what determines its trees in ``_plan``, and its loop in ``_boost``.

    Attributes
    ----------
    history_
        The measure on the validation data after each round.
    best_iteration_
        How many rounds gave the best value; all of them without validation data.
    feature_importances_
        The share of each feature in the gain of all splits.
    forest_
        The trees, as a ``Forest``.
    """

    _length = "n_rounds"  # the parameter that says how many trees there may be

    early_stopping: int | str | None = parameter(default=BEST, kw_only=True)
    measure: str = parameter(default="ndcg@10", kw_only=True)
    warm_start: bool = parameter(default=False, kw_only=True)
    checkpoint: str | os.PathLike[str] | None = parameter(default=None, kw_only=True)

    def _loss(self, train: TrainingSet) -> HasGradients:
        """The loss that the trees lower."""
        raise NotImplementedError

    def _plan(self, train: TrainingSet) -> BoostingPlan:
        """What determines the trees."""
        raise NotImplementedError

    def _boost(self, loss: Any, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
        """Add trees to ``state``."""
        raise NotImplementedError

    def _save(self, state: BoostingState, checkpoint: Checkpoint) -> None:
        """Write what a resumed fit needs."""
        state.save(checkpoint)

    @property
    def _most_trees(self) -> int:
        return self._trees_of(int(getattr(self, self._length)))

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        self._refuse_nothing_to_stop_by(valid)
        loss = self._loss(train)
        plan = self._plan(train)
        checkpoint = Checkpoint(self, train, valid, plan.costs)
        earlier, history = self._earlier(train.data, checkpoint)
        state = self._state(train, valid, plan, loss.start(), earlier)
        state.stopping.history.extend(history)
        total, done = int(getattr(self, self._length)), self._rounds_of(len(state.trees))
        save = checkpoint.saver(functools.partial(self._save, state))
        rounds = self._rounds(total, done, stopping=state.stopping, save=save)
        self._boost(loss, plan, state, rounds)
        self._keep(state)

    def _refuse_nothing_to_stop_by(self, valid: RankingData | None) -> None:
        if needs_validation(self.early_stopping) and valid is None:
            raise ParameterError("early_stopping needs validation data: pass valid= to fit.")

    def _keep(self, state: BoostingState) -> None:
        """The trees up to the best value on the validation data; all without such data or ``early_stopping``."""
        forest = state.trees.forest()
        n_rounds = self._rounds_of(forest.n_trees)
        stopping = state.stopping
        self.history_ = list(stopping.history)
        is_known = stopping.best_iteration > 0 or not math.isnan(stopping.start)
        self.best_iteration_ = stopping.best_iteration if is_known else n_rounds
        if self.early_stopping is not None and self.best_iteration_ < n_rounds:
            forest = forest.take_trees(slice(0, self._trees_of(self.best_iteration_)))
        self.forest_ = forest

    def _state(
        self,
        train: TrainingSet,
        valid: RankingData | None,
        plan: BoostingPlan,
        base: float,
        earlier: Forest | None,
    ) -> BoostingState:
        """The start, or what the earlier trees give."""
        data = train.data
        trees = ForestBuilder(
            data.n_features,
            data.feature_names,
            average=False,
            earlier=earlier,
            base=base if earlier is None else earlier.base,
            factor=self._tree_weight(plan),
        )
        measure = parse_measure(self.measure)
        stopping = EarlyStopping(patience_of(self.early_stopping), is_minimised(measure))
        totals = self._totals(data, earlier)
        validation = None
        if valid is not None:
            of_valid = np.zeros(valid.n_documents) if earlier is None else totals_of(earlier, valid)
            codes = codes_of(valid, train, self.n_threads)
            validation = Validation(valid, codes, measure, of_valid, plan.n_threads)
        return BoostingState(trees, totals, validation, stopping)

    def _tree_weight(self, plan: BoostingPlan) -> float:
        """The weight of a tree in the model, unless the loop chooses one for each tree."""
        return plan.learning_rate

    def _totals(self, data: RankingData, earlier: Forest | None) -> Floats:
        """The totals of the training rows, from the earlier trees if there are any."""
        return np.zeros(data.n_documents) if earlier is None else totals_of(earlier, data)

    def _earlier(
        self, data: RankingData, checkpoint: Checkpoint
    ) -> tuple[Forest | None, list[float]]:
        """The trees to continue from, of a checkpoint or of the fit before, with their history."""
        saved = checkpoint.load("history")
        if saved is not None:
            return saved.forest, saved.arrays["history"].tolist()
        if not self.warm_start or not hasattr(self, "forest_"):
            return None, []
        forest = self.forest_
        if forest.n_features != data.n_features or forest.feature_names != data.feature_names:
            raise DataError(
                "warm_start goes on with the same features in the same order; "
                "set warm_start=False to start afresh."
            )
        if self._most_trees < forest.n_trees:
            raise ParameterError(
                f"{self._length} is {getattr(self, self._length)}, but the model to go on from has "
                f"{self._rounds_of(forest.n_trees)} trees. Set warm_start=False to start afresh."
            )
        return forest, self.history_[: self._rounds_of(forest.n_trees)]

    def _with_trees(self, n_trees: int) -> dict[str, Any]:
        return {self._length: self._rounds_of(n_trees), "early_stopping": None}


class Boosted(RoundRanker):
    """Trees added one after another, each fitted to what a loss says is left.

    A method names its loss in ``_loss``; parameters mean the same in all of them.

    Attributes
    ----------
    history_
        The measure on the validation data after each tree.
    best_iteration_
        How many trees gave the best value; all of them without validation data.
    """

    _length = "n_trees"

    n_trees: int = parameter(default=100)
    max_leaves: int | None = parameter(default=31)
    learning_rate: float = parameter(default=0.1)
    min_leaf: int = parameter(default=20)
    l2: float = parameter(default=0.0)
    max_depth: int | None = parameter(default=None, kw_only=True)
    min_gain: float = parameter(default=0.0, kw_only=True)
    features_per_node: int | float | None = parameter(default=None, kw_only=True)
    subsample: float = parameter(default=1.0, kw_only=True)
    subsample_by: str = parameter(default="row", kw_only=True)
    early_stopping: int | str | None = parameter(
        default=BEST,
        doc="""With validation data: "best" grows all trees and keeps those up to the best value of the measure; a
        number also stops when the measure has not improved for so many trees; None grows all trees and keeps them.
        Without validation data "best" keeps all trees, and a number is an error.""",
        kw_only=True,
    )
    warm_start: bool = parameter(
        default=False,
        doc="Whether a further ``fit`` adds the trees that lack to ``n_trees``, on the same data.",
        kw_only=True,
    )
    missing: str = parameter(default="learned", kw_only=True)
    monotone: Any = parameter(default=None, kw_only=True)
    max_bins: int = parameter(default=255, kw_only=True)
    seed: int = parameter(default=0, kw_only=True)

    # Constants of the methods that do not have these parameters.
    min_hessian = 0.0
    feature_costs = None

    def _boost(self, loss: Any, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
        boost(loss, plan, state, rounds)

    def _plan(self, train: TrainingSet) -> BoostingPlan:
        present, bags = train.present, None
        if self.subsample < 1.0 or present is not None:
            by_query = self.subsample_by == "query"
            bags = Bags(
                train.data.n_documents,
                train.data.query_of_row if by_query else None,
                self.subsample,
                replacement=False,
                present=present,
                seed=self.seed,
            )
        return BoostingPlan(
            train.matrix,
            self._policies(train.data),
            bags,
            self._most_trees,
            float(self.learning_rate),
            self.seed,
            resolve_threads(self.n_threads),
            training_costs(self, train.data),
        )

    def _growth(self) -> Growth:
        return Growth(
            self.max_leaves, self.max_depth, self.min_leaf, self.min_gain, self.min_hessian
        )

    def _policies(self, data: RankingData) -> Policies:
        return Policies(
            self._growth(),
            FeatureChoice(self.features_per_node),
            missing=self.missing,
            l2=self.l2,
            direction=directions(self.monotone, data),
        )


class CostAware(Boosted):
    """The base of boosted trees whose splits may pay for features."""

    feature_costs: Any = parameter(default=None, kw_only=True)
    cost_weight: float = parameter(default=0.01, kw_only=True)
    cost_scale: str = parameter(default="relative", kw_only=True)


def loss_and_plan(estimator: Boosted, train: TrainingSet) -> tuple[Any, BoostingPlan]:
    """The loss and the plan of an estimator on these training rows, for methods that choose among its steps."""
    return estimator._loss(train), estimator._plan(train)


def trees_after(estimator: RoundRanker, n_rounds: int) -> int:
    """How many trees the estimator's model has after ``n_rounds`` rounds."""
    return estimator._trees_of(n_rounds)


class GBRT(CostAware):
    """Boosted trees for squared loss: each tree fits what the ones before left of the labels (Friedman 2001).

    The method is also known as MART.
    """

    _signature = (
        "n_trees max_leaves learning_rate min_leaf l2 max_depth min_gain features_per_node subsample subsample_by "
        "start early_stopping measure warm_start missing monotone feature_costs cost_weight cost_scale max_bins seed "
        "n_threads progress callbacks checkpoint"
    )
    _regresses = True

    start: str = parameter(
        default="mean",
        doc="""Scores begin at the mean label ("mean") or at 0 ("zero").""",
        check=OneOf(("mean", "zero")),
        kw_only=True,
    )

    def _loss(self, train: TrainingSet) -> SquaredLoss:
        return SquaredLoss(train.labels, train.weights, self.start == "mean")


def _check_own_loss(name: str, value: Any) -> None:
    if value is not None and not callable(value):
        raise ParameterError(
            f"{name} must be a function of (scores, data), got {checks.plain(value)}. "
            "A model file keeps the name of a function, not the function: pass it again to train."
        )


class LambdaMART(CostAware):
    """Boosted trees on LambdaRank's gradients, with Newton's step in every leaf (Wu et al. 2010, Burges 2010).

    Documents of one query are compared in pairs, each weighed by how much a measure changes when the two swap. Needs
    query ids.
    """

    _signature = (
        "n_trees max_leaves learning_rate min_leaf l2 target truncation normalise sigma min_hessian loss max_depth "
        "min_gain features_per_node subsample subsample_by early_stopping measure warm_start missing monotone "
        "feature_costs cost_weight cost_scale max_bins seed n_threads progress callbacks checkpoint"
    )

    l2: float = parameter(
        default=5.0, doc="Added to the hessian of a leaf: larger values pull leaves towards 0."
    )
    target: str = parameter(
        default="ndcg",
        doc="""The measure whose changes weigh the pairs: ndcg, map, mrr or err, with cut-off and conventions, as in
        "ndcg@10[gain=linear]".""",
        check=lambda _, value: parse_target(value),
    )
    truncation: int | None = parameter(
        default=30,
        doc="One document of a pair must stand among so many first ranks; None takes all pairs.",
        check=OrNone(Whole(1)),
    )
    normalise: bool = parameter(
        default=True,
        doc="""Whether a query's gradients are scaled, and pairs far apart weigh less, as LightGBM's lambdarank_norm
        does.""",
        check=checks.true_or_false,
    )
    sigma: float = parameter(
        default=1.0, doc="How steep the pairs' logistic is.", check=Real("(0, inf)")
    )
    min_hessian: float = parameter(
        default=1e-3,  # LightGBM's min_sum_hessian_in_leaf
        doc="Least sum of hessians in a leaf.",
        check=Real("[0, inf)"),
    )
    loss: Gradients | None = parameter(
        default=None,
        doc="""A loss of your own in place of the pairs: a function of (scores, data) that gives gradient and hessian of
        each row. The five parameters above but ``min_hessian`` are then not looked at.""",
        check=_check_own_loss,
    )
    subsample: float = parameter(default=1.0, doc=_SUBSAMPLED_PAIRS, kw_only=True)
    subsample_by: str = parameter(default="row", doc=_SUBSAMPLED_PAIRS, kw_only=True)

    def _loss(self, train: TrainingSet) -> HasGradients:
        if self.loss is not None:
            return OwnLoss(self.loss, train.data, train.weights)
        return LambdaRank(
            train.data,
            self.target,
            train.weights,
            self.sigma,
            self.truncation,
            self.normalise,
            self.n_threads,
        )
