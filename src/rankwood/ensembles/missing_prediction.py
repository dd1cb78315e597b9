"""``PredictMissing``: gaps predicted by forests, sweep after sweep (algorithm 2 of Mohan 2010).

Words used here
    gap       a value that is missing (NaN)
    gappy     a feature with gaps in the training rows, and with values to learn from
    known     a feature that every training row has a value of: given, or predicted by an earlier sweep
    sweep     one forest per gappy feature, all of them from what was known before the sweep
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from rankwood import _checks
from rankwood._threads import resolve_threads
from rankwood.binning.bins import MOST_BINS
from rankwood.binning.thresholds import fit_bins
from rankwood.dtypes import Array, Features, Floats, Rows
from rankwood.ensembles.bags import Bags, stream_number
from rankwood.ensembles.missing import MissingStep, fill
from rankwood.ensembles.progress import Callback, Watch, check_listeners
from rankwood.ensembles.side_by_side import in_order
from rankwood.models.forest import Forest
from rankwood.trees.grower import Tree, grow_tree
from rankwood.trees.layout import lay_out
from rankwood.trees.policies import FeatureChoice, Growth, Policies
from rankwood.trees.state_kernels import Matrix

Forests = dict[int, Forest]  # the forest that predicts each gappy feature


class PredictMissing(MissingStep):
    """A step that predicts gaps by random forests from the other features, until the predictions settle.

    For each feature with gaps a forest is fitted on the training rows that have it, from the features that every row
    has; where there is no such feature, gaps are filled with medians first. What one sweep predicts, the next one uses.
    Every forest is kept, so that new rows go through the same sweeps; labels are never looked at. A feature is no
    predictor of itself, though algorithm 2 of Mohan (2010) reads so from its second sweep on.

    Gaps of new rows in a feature that all training rows had are filled with its median. A feature whose training
    values are all missing is filled with 0, with a warning. Infinite values stay; nothing is learned from them.

    Parameters
    ----------
    n_trees
        Trees of each forest. A fit grows ``n_trees`` × features with gaps × sweeps of them.
    max_leaves, min_leaf
        Where a tree ends: leaves (the most promising is split first; None is no limit), rows in a leaf.
    features_per_node
        Features a node looks at: a number (int), a share (float), or None for all.
    max_sweeps
        Most sweeps over the features.
    tol
        Sweeps end when the predictions have settled: when the root mean square of what the last one changed, in
        standard deviations of each feature, is at most this. They also end when a sweep changes more than the one
        before it, and that sweep is undone: by then predictions feed on predictions, and get worse.
    max_bins
        Value bins per feature, at most 255.
    seed, n_threads
        The same seed gives the same bytes, whatever the number of threads (None: all cores).
    progress
        A function that is told of every forest: see ``Progress``.

    Attributes
    ----------
    forests_
        For each sweep a mapping from the number of a feature to the forest that predicts it.
    changes_
        What each sweep changed, as ``tol`` counts it; the first one changed medians. The last may be undone.
    n_sweeps_, settled_
        How many sweeps were kept; whether the last of them changed no more than ``tol``.
    statistics_
        The medians of the features: float32.
    n_features_in_, feature_names_in_
        How many features, and their names if the training data had names.
    """

    def __init__(
        self,
        n_trees: int = 10,
        max_leaves: int | None = 100,
        min_leaf: int = 20,
        features_per_node: int | float | None = 0.3,
        max_sweeps: int = 5,
        tol: float = 0.1,
        max_bins: int = MOST_BINS,
        seed: int = 0,
        n_threads: int | None = None,
        progress: Callback | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaves = max_leaves
        self.min_leaf = min_leaf
        self.features_per_node = features_per_node
        self.max_sweeps = max_sweeps
        self.tol = tol
        self.max_bins = max_bins
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's contract
        """Learn to predict each feature with gaps from the others; labels are not looked at."""
        self._check_parameters()
        matrix = self._learn(X, "median")
        gaps = _Gaps.of(matrix)
        bins = fit_bins(matrix, max_bins=self.max_bins, seed=self.seed, n_threads=self.n_threads)
        watch = Watch(self.max_sweeps * gaps.gappy.size, self.progress, ())
        known = gaps.known_at_first
        filled = fill(matrix, self.statistics_)
        self.forests_: list[Forests] = []
        self.changes_: list[float] = []
        while gaps.gappy.size and len(self.changes_) < self.max_sweeps:
            codes = bins.transform(filled, self.n_threads)
            sweep = _Sweep(self, lay_out(codes, bins), matrix, gaps, known)
            self.forests_.append(sweep.grow(watch, len(self.forests_) * gaps.gappy.size))
            before, filled = filled, self._predict(self.forests_[-1], filled, np.isnan(matrix))
            self.changes_.append(gaps.change(before, filled))
            if self._has_settled() or self._has_turned():
                break
            known = gaps.has_values  # what was predicted is known from now on
        if self._has_turned():
            self.forests_.pop()
        self.n_sweeps_ = len(self.forests_)
        self.settled_ = self.n_sweeps_ == 0 or self._has_settled()
        return self

    def _has_settled(self) -> bool:
        """Whether the last sweep changed next to nothing; the first one only replaced medians."""
        return len(self.changes_) > 1 and self.changes_[-1] <= self.tol

    def _has_turned(self) -> bool:
        """Whether the last sweep changed more than the one before: predictions feed on predictions by then."""
        return len(self.changes_) > 1 and self.changes_[-1] > max(self.tol, self.changes_[-2])

    def _fill(self, matrix: Features) -> Features:
        filled = fill(matrix, self.statistics_)
        is_missing = np.isnan(matrix)
        for forests in self.forests_:
            filled = self._predict(forests, filled, is_missing)
        return filled

    def _predict(self, forests: Forests, filled: Features, is_missing: Array) -> Features:
        """A copy of ``filled`` whose gaps are predicted anew, all of them from ``filled``."""
        predicted = filled.copy()
        for feature, forest in forests.items():
            rows = np.flatnonzero(is_missing[:, feature])
            if rows.size:
                predicted[rows, feature] = forest.predict(filled[rows], n_threads=self.n_threads)
        return predicted

    def _check_parameters(self) -> None:
        _checks.whole_number("n_trees", self.n_trees, 1)
        Growth(self.max_leaves, None, self.min_leaf)
        FeatureChoice(self.features_per_node).count(1)
        _checks.whole_number("max_sweeps", self.max_sweeps, 1)
        _checks.real_number("tol", self.tol, "[0, inf)")
        _checks.whole_number("max_bins", self.max_bins, 2, MOST_BINS)
        _checks.whole_number("seed", self.seed, 0)
        resolve_threads(self.n_threads)
        check_listeners(self.progress, ())


@dataclass(frozen=True, eq=False)
class _Gaps:
    """Where the training rows have gaps, and how much their features vary."""

    is_missing: Array  # rows × gappy features
    gappy: Rows
    has_values: Array  # by feature: whether any row has a finite value of it
    known_at_first: Array  # by feature
    spread: Floats  # standard deviation of each gappy feature; 1 where it is constant

    @classmethod
    def of(cls, matrix: Features) -> _Gaps:
        is_missing = np.isnan(matrix)
        has_gaps: Array = np.logical_or.reduce(is_missing, axis=0)
        has_values: Array = np.logical_or.reduce(np.isfinite(matrix), axis=0)
        gappy = np.flatnonzero(has_gaps & has_values)
        complete: Array = has_values & ~has_gaps
        spread = np.ones(gappy.size)
        for place, feature in enumerate(gappy):
            column = matrix[:, feature].astype(np.float64)
            spread[place] = column[np.isfinite(column)].std() or 1.0
        # Without a complete feature, all count as known: they are filled with medians.
        known = complete if complete.any() else has_values
        return cls(is_missing[:, gappy], gappy, has_values, known, spread)

    def change(self, before: Features, after: Features) -> float:
        """The root mean square of what changed in the gaps, in standard deviations."""
        total = 0.0
        for feature, spread, rows in zip(self.gappy, self.spread, self.is_missing.T, strict=True):
            moved = after[rows, feature].astype(np.float64) - before[rows, feature]
            total += float(np.square(moved / spread).sum())
        return float(np.sqrt(total / self.is_missing.sum()))


@dataclass(frozen=True, eq=False)
class _Sweep:
    """All that the forests of one sweep follow from."""

    step: PredictMissing
    matrix: Matrix  # without gaps
    features: Features  # with gaps
    gaps: _Gaps
    known: Array

    def grow(self, watch: Watch, n_before: int) -> Forests:
        """The forest of each gappy feature that anything can be said of; trees grow side by side."""
        predicted = [
            feature for feature in self.gaps.gappy.tolist() if self._predictors(feature).any()
        ]
        n_trees = self.step.n_trees
        numbers = (feature * n_trees + tree for feature in predicted for tree in range(n_trees))
        threads = resolve_threads(self.step.n_threads)
        forests: Forests = {}
        with contextlib.closing(in_order(self._tree, numbers, threads)) as grown:
            for feature in predicted:
                trees = [next(grown) for _ in range(n_trees)]
                forests[feature] = Forest.from_trees(
                    trees, n_features=self.features.shape[1], average=True
                )
                watch.says_stop(n_before + len(forests))
        return forests

    def _tree(self, number: int) -> Tree:
        """Tree ``number``, counted over the forests of all features: the same draws in every sweep."""
        feature = number // self.step.n_trees
        values = self.features[:, feature].astype(np.float64)
        has_value = np.isfinite(values)
        bags = Bags(values.size, present=has_value, seed=self.step.seed)
        return grow_tree(
            self.matrix,
            np.where(has_value, values, 0.0),
            self._policies(feature),
            counts=bags.counts(number),
            stream=stream_number(self.step.seed, "tree", number),
            n_threads=1,
            route_others=False,
        )

    def _predictors(self, feature: int) -> Array:
        """Whether each feature is known and another one."""
        chosen = self.known.copy()
        chosen[feature] = False
        return chosen

    def _policies(self, feature: int) -> Policies:
        predictors = self._predictors(feature)
        per_node = FeatureChoice(self.step.features_per_node).count(int(predictors.sum()))
        return Policies(
            Growth(self.step.max_leaves, None, self.step.min_leaf),
            FeatureChoice(per_node, probability=predictors.astype(np.float64)),
        )
