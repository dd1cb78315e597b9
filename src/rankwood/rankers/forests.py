"""Forests: ``RandomForest``, ``ExtraTrees`` and ``CompletelyRandomForest``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.errors import ParameterError
from rankwood.measures.measure import parse_measure
from rankwood.rankers.base import Ranker
from rankwood.training.bags import UNITS, Bags
from rankwood.training.checkpoint import Checkpoint, Resumed
from rankwood.training.costs import check_cost_parameters, training_costs
from rankwood.training.forest import ForestBuilder, ForestPlan, ForestState, grow_forest, totals_of
from rankwood.training.inputs import TrainingSet, codes_of, directions, rows_that_count
from rankwood.training.rounds import Callback
from rankwood.training.scores import OutOfBag, Validation
from rankwood.trees.policies import FeatureChoice, Growth, Policies

_WEIGHTINGS = ("reweight", "resample")


class ForestRanker(Ranker):
    """The base of the three forests: bags, trees grown in parallel, out-of-bag estimates."""

    _regresses = True
    _thresholds = "best"
    n_trees: int
    max_leaves: int | None
    max_depth: int | None
    min_leaf: int
    bag: str | None
    bag_share: float
    replacement: bool
    weighting: str
    measure: Any
    checkpoint: Any
    history_: list[float]
    # What a forest may leave out of its parameters.
    min_gain: float = 0.0
    min_split: int = 1
    features_per_node: int | float | None = None
    monotone: Any = None
    feature_costs: Any = None
    cost_weight: float = 0.01
    cost_scale: str = "relative"
    cost_batch: int = 8

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        plan = self._plan(train)
        checkpoint = Checkpoint(self, train, valid, plan.costs)
        state = self._state(train, valid, plan, checkpoint.load(*ForestState.arrays_of(plan)))
        save = checkpoint.saver(state.save)
        grow_forest(plan, state, self._rounds(self.n_trees, len(state.trees), save=save))
        self.forest_ = state.trees.forest()
        self.history_ = state.history
        self._out_of_bag = state.out_of_bag
        if state.out_of_bag is not None:
            self._oob_ndcg = state.out_of_bag.ndcg(train.data, self.n_threads)

    def _plan(self, train: TrainingSet) -> ForestPlan:
        weights, present = train.weights, train.present
        bags = self._bags(train.data, weights)
        if bags is not None and bags.weights is not None:
            weights = None  # they are chances already
        return ForestPlan(
            train.matrix,
            train.labels,
            weights,
            self._policies(train.data),
            bags,
            None if present is None else present.astype(np.int32),
            self.n_trees,
            self.seed,
            resolve_threads(self.n_threads),
            training_costs(self, train.data),
            self.cost_batch,
        )

    def _bags(self, data: RankingData, weights: Floats | None) -> Bags | None:
        """Which rows of the training data each tree sees; None where every tree sees all."""
        if self.bag is None:
            return None
        return Bags(
            data.n_documents,
            data.query_of_row if self.bag == "query" else None,
            self.bag_share,
            self.replacement,
            weights if self.weighting == "resample" else None,
            rows_that_count(weights),
            self.seed,
        )

    def _state(
        self, train: TrainingSet, valid: RankingData | None, plan: ForestPlan, saved: Resumed | None
    ) -> ForestState:
        """Nothing yet, or what a checkpoint holds."""
        data = train.data
        earlier = None if saved is None else saved.forest
        trees = ForestBuilder(
            data.n_features,
            data.feature_names,
            average=True,
            earlier=earlier,
            n_expected=plan.n_trees,
        )
        out_of_bag = None if plan.bags is None else OutOfBag.empty(data.n_documents)
        history: list[float] = []
        if saved is not None:
            history = saved.arrays["history"].tolist()
            if out_of_bag is not None:
                out_of_bag = OutOfBag(saved.arrays["oob_sums"], saved.arrays["oob_counts"])
        validation = None
        if valid is not None:
            totals = np.zeros(valid.n_documents)
            if earlier is not None:
                totals = totals_of(earlier, valid)
            codes = codes_of(valid, train, self.n_threads)
            measure = parse_measure(self.measure)
            validation = Validation(valid, codes, measure, totals, plan.n_threads)
        return ForestState(trees, out_of_bag, validation, history)

    def _policies(self, data: RankingData) -> Policies:
        return Policies(
            self._growth(),
            self._features(),
            self._thresholds,
            self.missing,
            direction=directions(self.monotone, data),
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.whole_number("n_trees", self.n_trees, 1)
        checks.real_number("bag_share", self.bag_share, "(0, 1]")
        checks.one_of("weighting", self.weighting, _WEIGHTINGS)
        check_cost_parameters(self)
        checks.whole_number("cost_batch", self.cost_batch, 1)
        parse_measure(self.measure)
        if self.bag is not None:
            checks.one_of("bag", self.bag, UNITS)
        if self.weighting == "resample" and (self.bag is None or not self.replacement):
            raise ParameterError(
                "weighting='resample' draws rows by weight: it needs a bag with replacement."
            )
        self._growth()
        self._features().count(1)

    def _growth(self) -> Growth:
        return Growth(
            self.max_leaves,
            self.max_depth,
            self.min_leaf,
            self.min_gain,
            min_split=self.min_split,
        )

    def _features(self) -> FeatureChoice:
        return FeatureChoice(self.features_per_node)

    @property
    def oob_scores_(self) -> Floats:
        """For each training row the mean of the trees that have not seen it; NaN where there are none."""
        return self._estimates().scores

    @property
    def oob_counts_(self) -> Array:
        """How many trees have not seen each training row."""
        return self._estimates().n_trees

    @property
    def oob_ndcg_(self) -> float | None:
        """NDCG@10 of the out-of-bag scores, over the queries that have any; None without queries."""
        self._estimates()
        return self._oob_ndcg

    def _estimates(self) -> OutOfBag:
        """The out-of-bag sums, or an AttributeError that says why there are none."""
        name = type(self).__name__
        if not hasattr(self, "forest_"):
            raise AttributeError(f"this {name} is not fitted yet: it has no out-of-bag estimates.")
        if getattr(self, "_out_of_bag", None) is None:
            why = (
                "every tree has seen every row. Fit with bag='row' or bag='query'."
                if self.bag is None
                else "they are not kept in model files. Fit again to get them."
            )
            raise AttributeError(f"this {name} has no out-of-bag estimates: {why}")
        estimates: OutOfBag = self._out_of_bag  # type: ignore[assignment]
        return estimates


def forest_plan(forest: ForestRanker, train: TrainingSet) -> ForestPlan:
    """Everything that determines the trees of ``forest`` on these training rows."""
    return forest._plan(train)


class RandomForest(ForestRanker):
    """A random forest: each tree sees a bootstrap sample, each node a random part of the features (Breiman 2001).

    Parameters
    ----------
    n_trees
        Number of trees; the score is their mean.
    max_leaves, max_depth, min_leaf, min_gain
        Where a tree ends: leaves (the most promising is split first), splits from the root, rows in a leaf, what a
        split must remove of the sum of squares. None is no limit.
    features_per_node
        Features a node looks at: a number (int), a share (float), or None for all.
    bag
        What is drawn for a tree: "row", "query" (whole queries), or None to use all rows in every tree.
    bag_share, replacement
        How much is drawn, as a share of the rows or queries; whether one may be drawn twice.
    weighting
        Weights count in the trees ("reweight"), or as chances of being drawn ("resample").
    missing
        Where missing values go: "learned", "left", "right", or into a child of their own ("own_child").
    monotone
        For each feature 1 (scores rise with it), -1 or 0; or a mapping from feature names. None leaves all free.
    feature_costs
        What computing each feature costs: one number per feature, a mapping from feature names, or the path of a cost
        file. A feature is free once an earlier tree has used it. None: all are free.
    cost_weight, cost_scale
        How much a cost counts against what a split removes, 0 (not at all) or more. By default ("relative") costs
        are shares of the largest and count as shares of the root's sum of squares, so that 1 is much on every data
        set; "raw" takes both as they are.
    cost_batch
        Trees that grow side by side without seeing which features the others use, where features cost.
    measure
        What ``history_`` says of the validation data.
    max_bins
        Value bins per feature, at most 255.
    seed, n_threads
        The same seed gives the same bytes, whatever the number of threads (None: all cores).
    progress, callbacks
        Functions that are told of every tree: see ``Progress``. A callback that returns True ends the growing.
    checkpoint
        A file that keeps the trees so far; a fit that finds one there goes on with it.

    Attributes
    ----------
    oob_scores_, oob_counts_, oob_ndcg_
        Out-of-bag estimates: mean of the trees that have not seen a row, how many they are, NDCG@10.
    feature_importances_
        The share of each feature in the gain of all splits.
    history_
        The measure on the validation data after each tree.
    """

    def __init__(
        self,
        n_trees: int = 300,
        max_leaves: int | None = 100,
        max_depth: int | None = None,
        min_leaf: int = 1,
        min_gain: float = 0.0,
        features_per_node: int | float | None = 0.3,
        bag: str | None = "row",
        bag_share: float = 1.0,
        replacement: bool = True,
        weighting: str = "reweight",
        missing: str = "learned",
        monotone: Any = None,
        feature_costs: Any = None,
        cost_weight: float = 0.01,
        cost_scale: str = "relative",
        cost_batch: int = 8,
        measure: str = "ndcg@10",
        max_bins: int = 255,
        seed: int = 0,
        n_threads: int | None = None,
        progress: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaves = max_leaves
        self.max_depth = max_depth
        self.min_leaf = min_leaf
        self.min_gain = min_gain
        self.features_per_node = features_per_node
        self.bag = bag
        self.bag_share = bag_share
        self.replacement = replacement
        self.weighting = weighting
        self.missing = missing
        self.monotone = monotone
        self.feature_costs = feature_costs
        self.cost_weight = cost_weight
        self.cost_scale = cost_scale
        self.cost_batch = cost_batch
        self.measure = measure
        self.max_bins = max_bins
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint


class ExtraTrees(ForestRanker):
    """Extremely randomized trees: one random cut per feature looked at, the best of them is taken (Geurts et al. 2006).

    All trees see all rows unless ``bag`` says otherwise. Parameters and attributes are those of ``RandomForest``.
    """

    _thresholds = "random"

    def __init__(
        self,
        n_trees: int = 300,
        max_leaves: int | None = 100,
        max_depth: int | None = None,
        min_leaf: int = 1,
        min_gain: float = 0.0,
        features_per_node: int | float | None = 0.3,
        bag: str | None = None,
        bag_share: float = 1.0,
        replacement: bool = True,
        weighting: str = "reweight",
        missing: str = "learned",
        monotone: Any = None,
        feature_costs: Any = None,
        cost_weight: float = 0.01,
        cost_scale: str = "relative",
        cost_batch: int = 8,
        measure: str = "ndcg@10",
        max_bins: int = 255,
        seed: int = 0,
        n_threads: int | None = None,
        progress: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaves = max_leaves
        self.max_depth = max_depth
        self.min_leaf = min_leaf
        self.min_gain = min_gain
        self.features_per_node = features_per_node
        self.bag = bag
        self.bag_share = bag_share
        self.replacement = replacement
        self.weighting = weighting
        self.missing = missing
        self.monotone = monotone
        self.feature_costs = feature_costs
        self.cost_weight = cost_weight
        self.cost_scale = cost_scale
        self.cost_batch = cost_batch
        self.measure = measure
        self.max_bins = max_bins
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint


class CompletelyRandomForest(ForestRanker):
    """Trees whose features and cuts are drawn blindly, grown until the labels of a leaf agree (Liu et al. 2008).

    Only the leaves' values look at the labels. Parameters and attributes are those of ``RandomForest``, without what
    a blind choice has no use for, and with ``min_split``.

    Parameters
    ----------
    min_split
        Different rows a node must have to be split; smaller ones are leaves.
    """

    _thresholds = "completely_random"

    def __init__(
        self,
        n_trees: int = 300,
        max_leaves: int | None = None,
        max_depth: int | None = None,
        min_leaf: int = 1,
        bag: str | None = None,
        bag_share: float = 1.0,
        replacement: bool = True,
        weighting: str = "reweight",
        missing: str = "learned",
        measure: str = "ndcg@10",
        max_bins: int = 255,
        seed: int = 0,
        n_threads: int | None = None,
        progress: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        min_split: int = 1,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaves = max_leaves
        self.max_depth = max_depth
        self.min_leaf = min_leaf
        self.bag = bag
        self.bag_share = bag_share
        self.replacement = replacement
        self.weighting = weighting
        self.missing = missing
        self.measure = measure
        self.max_bins = max_bins
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.min_split = min_split

    def _features(self) -> FeatureChoice:
        # Blind splits draw their feature themselves; with one candidate a node needs one histogram.
        return FeatureChoice(1)
