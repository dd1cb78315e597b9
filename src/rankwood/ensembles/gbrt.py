"""``GBRT``: gradient boosted regression trees, also known as MART."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood._threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.ensembles.bags import UNITS, Bags
from rankwood.ensembles.base import Ranker
from rankwood.ensembles.boosting import BoostingPlan, BoostingState, boost
from rankwood.ensembles.checkpointing import Checkpoint
from rankwood.ensembles.collected import Collected, totals_of
from rankwood.ensembles.early_stopping import EarlyStopping
from rankwood.ensembles.inputs import TrainingSet, codes_of, directions
from rankwood.ensembles.progress import Callback, Watch, check_listeners
from rankwood.ensembles.validation import Validation, is_minimised
from rankwood.errors import DataError, ParameterError
from rankwood.losses.squared import SquaredLoss
from rankwood.measures.parsing import parse_measure
from rankwood.models.forest import Forest
from rankwood.trees.policies import FeatureChoice, Growth, Policies

_STARTS = ("mean", "zero")


class GBRT(Ranker):
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
        self.max_bins = max_bins
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        if self.early_stopping is not None and valid is None:
            raise ParameterError("early_stopping needs validation data: pass valid= to fit.")
        checkpoint = Checkpoint(self, train, valid)
        loss = SquaredLoss(train.labels, train.weights, self.start == "mean")
        plan = self._plan(train)
        earlier, history = self._earlier(train.data, checkpoint)
        state = self._state(train, valid, plan, loss.start(), earlier)
        state.stopping.history.extend(history)
        callbacks = check_listeners(self.progress, self.callbacks)
        watch = Watch(self.n_trees, self.progress, callbacks, len(state.trees))
        boost(loss, plan, state, checkpoint, watch)
        self._keep(state)

    def _keep(self, state: BoostingState) -> None:
        """The trees up to the best value where early stopping asked for it, else all of them."""
        forest = state.trees.forest()
        self.history_ = list(state.stopping.history)
        self.best_iteration_ = state.stopping.best_iteration or forest.n_trees
        if self.early_stopping is not None and self.best_iteration_ < forest.n_trees:
            forest = forest.take_trees(slice(0, self.best_iteration_))
        self.forest_ = forest

    def _plan(self, train: TrainingSet) -> BoostingPlan:
        weights = train.weights
        present = None if weights is None or weights.min() > 0 else weights > 0
        bags = None
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
            self.n_trees,
            float(self.learning_rate),
            self.seed,
            resolve_threads(self.n_threads),
        )

    def _policies(self, data: RankingData) -> Policies:
        return Policies(
            Growth(self.max_leaves, self.max_depth, self.min_leaf, self.min_gain),
            FeatureChoice(self.features_per_node),
            missing=self.missing,
            l2=self.l2,
            direction=directions(self.monotone, data),
        )

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
        trees = Collected(
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
        if self.n_trees < forest.n_trees:
            raise ParameterError(
                f"n_trees is {self.n_trees}, but the model to go on from has {forest.n_trees} trees. "
                "Set warm_start=False to start afresh."
            )
        return forest, self.history_[: forest.n_trees]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _checks.whole_number("n_trees", self.n_trees, 1)
        _checks.real_number("learning_rate", self.learning_rate, "(0, 1]")
        _checks.real_number("subsample", self.subsample, "(0, 1]")
        _checks.one_of("subsample_by", self.subsample_by, UNITS)
        _checks.one_of("start", self.start, _STARTS)
        parse_measure(self.measure)
        if self.early_stopping is not None:
            _checks.whole_number("early_stopping", self.early_stopping, 1)
        Growth(self.max_leaves, self.max_depth, self.min_leaf, self.min_gain)
        FeatureChoice(self.features_per_node).count(1)
