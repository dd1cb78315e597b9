"""Forests: ``RandomForest``, ``ExtraTrees`` and ``CompletelyRandomForest``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rankwood.ensembles.bagged import Bagged
from rankwood.ensembles.progress import Callback
from rankwood.trees.policies import FeatureChoice


class RandomForest(Bagged):
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


class ExtraTrees(Bagged):
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


class CompletelyRandomForest(Bagged):
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
