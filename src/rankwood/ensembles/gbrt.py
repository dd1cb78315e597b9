"""``GBRT``: gradient boosted regression trees, also known as MART."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rankwood import _checks
from rankwood.ensembles.boosted import Boosted
from rankwood.ensembles.inputs import TrainingSet
from rankwood.ensembles.progress import Callback
from rankwood.losses.squared import SquaredLoss

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

    def _loss(self, train: TrainingSet) -> SquaredLoss:
        return SquaredLoss(train.labels, train.weights, self.start == "mean")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _checks.one_of("start", self.start, _STARTS)
