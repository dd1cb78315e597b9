"""Boosted trees: ``GBRT``, ``LambdaMART`` and their bases.

``RoundRanker`` is the base of every model that grows by one tree per round, ``Boosted`` that of regression trees fitted
to the targets of a loss.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.errors import DataError, ParameterError
from rankwood.losses.lambdarank import LambdaRank, parse_target
from rankwood.losses.loss import Gradients, Loss, OwnLoss, SquaredLoss
from rankwood.measures.measure import parse_measure
from rankwood.models.forest import Forest
from rankwood.rankers.base import Ranker
from rankwood.training.bags import UNITS, Bags
from rankwood.training.boosting import BoostingPlan, BoostingState, boost
from rankwood.training.checkpoint import Checkpoint
from rankwood.training.costs import check_cost_parameters, training_costs
from rankwood.training.forest import ForestBuilder, totals_of
from rankwood.training.inputs import TrainingSet, codes_of, directions
from rankwood.training.rounds import Callback, EarlyStopping, Rounds
from rankwood.training.scores import Validation, is_minimised
from rankwood.trees.policies import FeatureChoice, Growth, Policies


class RoundRanker(Ranker):
    """A model that grows by one tree per round, each with a weight.

    A method names its loss in ``_loss``, what its trees follow from in ``_plan``, and its loop in ``_boost``.
    """

    _length = "n_rounds"  # the parameter that says how many trees there may be
    _least_trees = 1
    early_stopping: int | None
    measure: Any
    warm_start: bool
    checkpoint: Any

    def _loss(self, train: TrainingSet) -> Loss:
        """What the trees are to remove."""
        raise NotImplementedError

    def _plan(self, train: TrainingSet) -> BoostingPlan:
        """What the trees follow from."""
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
        save = checkpoint.saver(functools.partial(self._save, state))
        rounds = self._rounds(
            self._most_trees, len(state.trees), stopping=state.stopping, save=save
        )
        self._boost(loss, plan, state, rounds)
        self._keep(state)

    def _refuse_nothing_to_stop_by(self, valid: RankingData | None) -> None:
        if self.early_stopping is not None and valid is None:
            raise ParameterError("early_stopping needs validation data: pass valid= to fit.")

    def _keep(self, state: BoostingState) -> None:
        """The trees up to the best value where early stopping asked for it, else all of them."""
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
            factor=plan.learning_rate,
        )
        measure = parse_measure(self.measure)
        stopping = EarlyStopping(self.early_stopping, is_minimised(measure))
        totals = np.zeros(data.n_documents) if earlier is None else totals_of(earlier, data)
        validation = None
        if valid is not None:
            of_valid = np.zeros(valid.n_documents) if earlier is None else totals_of(earlier, valid)
            codes = codes_of(valid, train, self.n_threads)
            validation = Validation(valid, codes, measure, of_valid, plan.n_threads)
        return BoostingState(trees, totals, validation, stopping)

    def _earlier(
        self, data: RankingData, checkpoint: Checkpoint
    ) -> tuple[Forest | None, list[float]]:
        """Trees to go on from, of a checkpoint or of the fit before, with their history."""
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

    def _trees_of(self, n_rounds: int) -> int:
        """How many trees the model has after so many rounds of boosting."""
        return n_rounds

    def _rounds_of(self, n_trees: int) -> int:
        """How many rounds of boosting a model of so many trees had."""
        return n_trees

    def _with_trees(self, n_trees: int) -> dict[str, Any]:
        return {self._length: self._rounds_of(n_trees), "early_stopping": None}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.whole_number(self._length, getattr(self, self._length), self._least_trees)
        parse_measure(self.measure)
        if self.early_stopping is not None:
            checks.whole_number("early_stopping", self.early_stopping, 1)


class Boosted(RoundRanker):
    """Trees added one after another, each fitted to what a loss says is left.

    A method names its loss in ``_loss``; parameters mean the same in all of them, see ``GBRT``.
    """

    _length = "n_trees"
    n_trees: int
    max_leaves: int | None
    learning_rate: float
    min_leaf: int
    l2: float
    max_depth: int | None
    min_gain: float
    min_hessian: float = 0.0  # of losses that have one
    features_per_node: int | float | None
    subsample: float
    subsample_by: str
    monotone: Any
    # What a method may leave out of its parameters.
    feature_costs: Any = None
    cost_weight: float = 0.01
    cost_scale: str = "relative"

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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.real_number("learning_rate", self.learning_rate, "(0, 1]")
        checks.real_number("subsample", self.subsample, "(0, 1]")
        checks.one_of("subsample_by", self.subsample_by, UNITS)
        self._growth()
        check_cost_parameters(self)
        FeatureChoice(self.features_per_node).count(1)


def loss_and_plan(estimator: Boosted, train: TrainingSet) -> tuple[Any, BoostingPlan]:
    """What the steps of an estimator follow from on these training rows, for other methods that take such steps."""
    return estimator._loss(train), estimator._plan(train)


# ``GBRT``: gradient boosted regression trees, also known as MART.


_STARTS = ("mean", "zero")


class GBRT(Boosted):
    """Boosted trees for squared loss: each tree fits what the ones before left of the labels (Friedman 2001).

    Parameters
    ----------
    n_trees
        Number of trees, or the most there may be with ``early_stopping``.
    max_leaves, max_depth, min_leaf, min_gain
        Where a tree ends: leaves (the most promising is split first), splits from the root, rows in a leaf, what a
        split must remove of the loss. None is no limit.
    learning_rate
        What is taken of each tree.
    l2
        Added to the weight of a leaf: larger values pull leaves towards 0.
    features_per_node
        Features a node looks at: a number (int), a share (float), or None for all.
    subsample, subsample_by
        The share of rows, or of whole queries (``subsample_by="query"``), that each tree sees, drawn without
        replacement.
    start
        Scores begin at the mean label ("mean") or at 0 ("zero").
    early_stopping
        Stop when the measure on the validation data has not improved for so many trees, and keep the trees up to
        the best value. None grows all trees and keeps them. Needs ``valid``.
    measure
        What is looked at on the validation data: any measure; rmse is to fall, the others are to rise.
    warm_start
        Whether a further ``fit`` adds the trees that lack to ``n_trees``, on the same data.
    missing
        Where missing values go: "learned", "left", "right", or into a child of their own ("own_child").
    monotone
        For each feature 1 (scores rise with it), -1 or 0; or a mapping from feature names. None leaves all free.
    feature_costs, cost_weight, cost_scale, max_bins, seed, n_threads, progress, callbacks, checkpoint
        As for ``RandomForest``.

    Attributes
    ----------
    history_
        The measure on the validation data after each tree.
    best_iteration_
        How many trees gave the best value; all of them without validation data.
    feature_importances_
        The share of each feature in the gain of all splits.
    """

    _regresses = True

    def __init__(
        self,
        n_trees: int = 100,
        max_leaves: int | None = 31,
        learning_rate: float = 0.1,
        min_leaf: int = 20,
        l2: float = 0.0,
        max_depth: int | None = None,
        min_gain: float = 0.0,
        features_per_node: int | float | None = None,
        subsample: float = 1.0,
        subsample_by: str = "row",
        start: str = "mean",
        early_stopping: int | None = None,
        measure: str = "ndcg@10",
        warm_start: bool = False,
        missing: str = "learned",
        monotone: Any = None,
        feature_costs: Any = None,
        cost_weight: float = 0.01,
        cost_scale: str = "relative",
        max_bins: int = 255,
        seed: int = 0,
        n_threads: int | None = None,
        progress: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaves = max_leaves
        self.learning_rate = learning_rate
        self.min_leaf = min_leaf
        self.l2 = l2
        self.max_depth = max_depth
        self.min_gain = min_gain
        self.features_per_node = features_per_node
        self.subsample = subsample
        self.subsample_by = subsample_by
        self.start = start
        self.early_stopping = early_stopping
        self.measure = measure
        self.warm_start = warm_start
        self.missing = missing
        self.monotone = monotone
        self.feature_costs = feature_costs
        self.cost_weight = cost_weight
        self.cost_scale = cost_scale
        self.max_bins = max_bins
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    def _loss(self, train: TrainingSet) -> SquaredLoss:
        return SquaredLoss(train.labels, train.weights, self.start == "mean")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.one_of("start", self.start, _STARTS)


# ``LambdaMART``: boosted trees that learn the order of documents.


class LambdaMART(Boosted):
    """Boosted trees on LambdaRank's gradients, with Newton's step in every leaf (Wu et al. 2010, Burges 2010).

    Documents of one query are compared in pairs, each weighed by how much a measure changes when the two swap. Needs
    query ids.

    Parameters
    ----------
    n_trees
        Number of trees, or the most there may be with ``early_stopping``.
    max_leaves, max_depth, min_leaf, min_gain
        As for ``GBRT``.
    learning_rate
        What is taken of each tree.
    l2
        Added to the hessian of a leaf: larger values pull leaves towards 0.
    target
        The measure whose changes weigh the pairs: ndcg, map, mrr or err, with cut-off and conventions, as in
        "ndcg@10[gain=linear]".
    truncation
        One document of a pair must stand among so many first ranks; None takes all pairs.
    normalise
        Whether a query's gradients are scaled, and pairs far apart weigh less, as LightGBM's lambdarank_norm does.
    sigma
        How steep the pairs' logistic is.
    min_hessian
        Least sum of hessians in a leaf.
    loss
        A loss of your own in place of the pairs: a function of (scores, data) that gives gradient and hessian of each
        row. The five parameters above but ``min_hessian`` are then not looked at.
    features_per_node, subsample, subsample_by
        As for ``GBRT``; pairs are made of all documents, also of those a tree does not see.
    early_stopping, measure, warm_start, missing, monotone
        As for ``GBRT``.
    max_bins, seed, n_threads, progress, callbacks, checkpoint
        As for ``RandomForest``.

    Attributes
    ----------
    history_
        The measure on the validation data after each tree.
    best_iteration_
        How many trees gave the best value; all of them without validation data.
    feature_importances_
        The share of each feature in the gain of all splits.
    """

    def __init__(
        self,
        n_trees: int = 100,
        max_leaves: int | None = 31,
        learning_rate: float = 0.1,
        min_leaf: int = 20,
        l2: float = 0.0,
        target: str = "ndcg",
        truncation: int | None = 30,
        normalise: bool = True,
        sigma: float = 1.0,
        min_hessian: float = 1e-3,  # LightGBM's min_sum_hessian_in_leaf
        loss: Gradients | None = None,
        max_depth: int | None = None,
        min_gain: float = 0.0,
        features_per_node: int | float | None = None,
        subsample: float = 1.0,
        subsample_by: str = "row",
        early_stopping: int | None = None,
        measure: str = "ndcg@10",
        warm_start: bool = False,
        missing: str = "learned",
        monotone: Any = None,
        max_bins: int = 255,
        seed: int = 0,
        n_threads: int | None = None,
        progress: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaves = max_leaves
        self.learning_rate = learning_rate
        self.min_leaf = min_leaf
        self.l2 = l2
        self.target = target
        self.truncation = truncation
        self.normalise = normalise
        self.sigma = sigma
        self.min_hessian = min_hessian
        self.loss = loss
        self.max_depth = max_depth
        self.min_gain = min_gain
        self.features_per_node = features_per_node
        self.subsample = subsample
        self.subsample_by = subsample_by
        self.early_stopping = early_stopping
        self.measure = measure
        self.warm_start = warm_start
        self.missing = missing
        self.monotone = monotone
        self.max_bins = max_bins
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    def _loss(self, train: TrainingSet) -> Loss:
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

    def _check_parameters(self) -> None:
        checks.real_number("min_hessian", self.min_hessian, "[0, inf)")
        super()._check_parameters()
        checks.real_number("sigma", self.sigma, "(0, inf)")
        checks.true_or_false("normalise", self.normalise)
        parse_target(self.target)
        if self.truncation is not None:
            checks.whole_number("truncation", self.truncation, 1)
        if self.loss is not None and not callable(self.loss):
            raise ParameterError(
                f"loss must be a function of (scores, data), got {checks.plain(self.loss)}. "
                "A model file keeps the name of a function, not the function: pass it again to train."
            )
