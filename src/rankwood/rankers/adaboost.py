"""``AdaBoost``: boosting of classifiers that tell relevant documents from others (Freund & Schapire 1997)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.threads import run_blocks
from rankwood.dtypes import Array, Floats
from rankwood.losses.loss import ExponentialLoss, step_of_edge
from rankwood.rankers.boosted import Boosted
from rankwood.rankers.pairs import as_classifier
from rankwood.training.boosting import BoostingPlan, BoostingState
from rankwood.training.inputs import TrainingSet, rows_that_count
from rankwood.training.rounds import Callback, Rounds
from rankwood.trees.grower import Tree
from rankwood.trees.one_feature import in_data_order, mark_sides
from rankwood.trees.policies import MISSING_RULES
from rankwood.trees.workspace import GO_LEFT, GO_RIGHT, MISSING, NO_SPLIT, Matrix

_ONE_CLASS = 1e-12  # of the weight in the other class: as good as none
NOTHING_LEFT = "no tree tells the classes apart better than chance"


def adaboost(
    loss: ExponentialLoss,
    stumps: WeakClassifiers | None,
    plan: BoostingPlan,
    state: BoostingState,
    rounds: Rounds,
) -> None:
    """Add classifiers to ``state``, each fitted to weights that grow with the errors of those before."""
    for number in rounds:
        classes, weights = loss.targets(state.scores)  # D ∝ exp(-y F)
        grown = (  # h of least error ε = Σ D [h ≠ y], or nearly so
            plan.grow(number, classes, weights) if stumps is None else stumps.best(classes, weights)
        )
        tree, alpha = weigh(classes, weights, grown)
        if alpha <= 0.0:
            rounds.stop(NOTHING_LEFT)
            break
        rounds.finish(state.add(tree, plan.n_threads, plan.learning_rate * alpha))  # F ← F + α h


def weigh(classes: Floats, weights: Floats, tree: Tree) -> tuple[Tree, float]:
    """The tree as a classifier h that says 1 and -1, and its weight ``½ ln((1 - ε) / ε)``; 0 where it is worthless."""
    classifier = as_classifier(tree, other=-1.0)
    signed = weights * classes
    edge = float((signed * classifier.value[classifier.leaf_of_row]).sum())
    has_both = abs(float(signed.sum())) < 1.0 - _ONE_CLASS
    return classifier, step_of_edge(edge) if has_both and classifier.n_leaves > 1 else 0.0


class AdaBoost(Boosted):
    """Boosted stumps or trees that tell relevant documents from others (Freund & Schapire 1997).

    Documents with a label of at least ``relevant`` are of class 1, the others of class -1. Each round weighs every
    document by ``exp(-class · score)``, takes the classifier of least weighted error ε and adds it with weight
    ``½ ln((1 - ε) / ε)``. A score of at least 0 says class 1. Stumps are the best there are, and of equally good ones
    that of the first feature and the greatest threshold; larger trees are grown as regression trees on the classes.
    Queries are not looked at. When no classifier is better than chance, training stops: with documents of one class
    only there is no tree at all.

    Parameters
    ----------
    n_rounds
        Number of classifiers, or the most there may be with ``early_stopping``.
    max_leaves, max_depth, min_leaf
        Where a tree ends: leaves (2 is a stump), splits from the root, rows in a leaf. None is no limit.
    relevant
        Least label of class 1.
    learning_rate
        What is taken of each classifier's weight; 1 is AdaBoost.
    early_stopping
        Stop when the measure on the validation data has not improved for so many rounds, and keep the rounds up to
        the best value. None goes on to the end. Needs ``valid``.
    measure
        What is looked at on the validation data: any measure; rmse is to fall, the others are to rise.
    warm_start
        Whether a further ``fit`` adds the rounds that lack to ``n_rounds``, on the same data.
    missing
        Where missing values go: "learned", "left" or "right".
    max_bins, seed, n_threads, progress, callbacks, checkpoint
        As for ``RandomForest``.

    Attributes
    ----------
    history_
        The measure on the validation data after each round.
    best_iteration_
        How many rounds gave the best value; all of them without validation data.
    stopped_because_
        Why there are no more rounds.
    feature_importances_
        The share of each feature in the gain of all splits.
    """

    _length = "n_rounds"
    min_gain = 0.0
    l2 = 0.0
    subsample = 1.0
    subsample_by = "row"
    features_per_node = None
    monotone = None

    def __init__(
        self,
        n_rounds: int = 100,
        max_leaves: int | None = 2,
        min_leaf: int = 1,
        max_depth: int | None = None,
        relevant: float = 1.0,
        learning_rate: float = 1.0,
        early_stopping: int | None = None,
        measure: str = "ndcg@10",
        warm_start: bool = False,
        missing: str = "learned",
        max_bins: int = 255,
        seed: int = 0,
        n_threads: int | None = None,
        progress: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_rounds = n_rounds
        self.max_leaves = max_leaves
        self.min_leaf = min_leaf
        self.max_depth = max_depth
        self.relevant = relevant
        self.learning_rate = learning_rate
        self.early_stopping = early_stopping
        self.measure = measure
        self.warm_start = warm_start
        self.missing = missing
        self.max_bins = max_bins
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    def _loss(self, train: TrainingSet) -> ExponentialLoss:
        return ExponentialLoss(np.where(train.labels >= self.relevant, 1.0, -1.0), train.weights)

    def _boost(self, loss: Any, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
        adaboost(loss, stumps_of(self, loss, plan), plan, state, rounds)
        self.stopped_because_ = rounds.stopped_because

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.real_number("relevant", self.relevant, "[0, inf)")
        checks.one_of("missing", self.missing, ("learned", "left", "right"))


def stumps_of(
    estimator: AdaBoost, loss: ExponentialLoss, plan: BoostingPlan
) -> WeakClassifiers | None:
    """The stumps that ``estimator`` chooses from; None where its trees are larger."""
    if estimator.max_leaves != 2 and estimator.max_depth != 1:
        return None
    present = np.ones(loss.classes.size, np.int64)
    has_weight = rows_that_count(loss.weights)
    if has_weight is not None:
        present *= has_weight
    return WeakClassifiers(
        in_data_order(plan.matrix),
        checks.read_only(present),
        estimator.min_leaf,
        estimator.missing,
        plan.n_threads,
    )


# Stumps of least weighted error, and the search for them (Freund & Schapire 1997).
#
# A stump says 1 on one side of a threshold and -1 on the other. The grower of our trees would take the cut that
# removes
# most of the squared error, which is another one.


_UNIT = 2.0**60  # words are whole numbers of 1/unit, and sum to 1 in size: sums are exact
_SLACK = int(_UNIT * 1e-12)  # nearer edges differ by rounding, which must not choose among equals


@dataclass(frozen=True, eq=False)
class WeakClassifiers:
    """All stumps over the bins of the training rows, which are in the data's order."""

    matrix: Matrix
    present: Array  # int64: 1 for rows that have weight, else 0
    min_leaf: int
    missing: str
    n_threads: int

    def best(self, classes: Floats, weights: Floats, feature: int | None = None) -> Tree:
        """The stump of least weighted error, of one feature or of all; a single leaf where none has an edge.

        Of equal ones it is the first feature's, and that of the greatest threshold.
        """
        n_features = self.matrix.columns.shape[0]
        features = np.arange(n_features) if feature is None else np.array([feature])
        edges, codes, sides = (np.zeros(features.size, np.int64) for _ in range(3))
        words = np.rint(classes * weights * _UNIT).astype(np.int64)
        run_blocks(
            search_stumps,
            features.size,
            features,
            self.matrix,
            read_only(words),
            self.present,
            self.min_leaf,
            MISSING_RULES[self.missing],
            _SLACK,
            edges,
            codes,
            sides,
            n_threads=self.n_threads,
            least=4,
        )
        place = int(np.argmax(edges >= edges.max() - _SLACK))  # the first of them
        if codes[place] == NO_SPLIT or edges[place] == 0:
            return _leaf(classes.size)
        goes_left = bool(sides[place] == GO_LEFT)
        return self._stump(
            int(features[place]), int(codes[place]), goes_left, classes * weights, weights
        )

    def _stump(
        self, feature: int, code: int, goes_left: bool, signed: Floats, weights: Floats
    ) -> Tree:
        """A cut as a tree whose leaves say 1 and -1."""
        column = self.matrix.columns[feature]
        leaf_of_row = np.empty(column.size, np.int32)
        sides = (column, code, goes_left, leaf_of_row)
        mark_sides(0, column.size, *sides)  # type: ignore[no-untyped-call]
        sums = np.bincount(leaf_of_row, signed, minlength=3)
        cover: Floats = np.bincount(leaf_of_row, weights, minlength=3).astype(np.float64)
        if (column == 255).sum() == 0 and self.missing == "learned":
            goes_left = bool(cover[1] >= cover[2])
        vote = 1.0 if sums[2] > sums[1] else -1.0
        value = np.array([0.0, -vote, vote])
        cover[0] = cover.sum()
        value[0] = (cover[1:] * value[1:]).sum() / cover[0]
        threshold = self.matrix.thresholds[self.matrix.offsets[feature] + code]
        child = 1 if goes_left or (self.missing == "left") else 2
        return Tree(
            np.array([feature, -1, -1], np.int32),
            np.array([threshold, 0.0, 0.0], np.float32),
            np.array([code, 0, 0], np.uint8),
            np.array([1, 0, 0], np.int32),
            np.array([2, 0, 0], np.int32),
            np.array([child, 0, 0], np.int32),
            value,
            cover,
            np.array([abs(sums[2] - sums[1]), 0.0, 0.0]),
            leaf_of_row,
        )


def _leaf(n_rows: int) -> Tree:
    """A tree that tells nothing apart."""
    none: Array = np.zeros(1, np.int32)
    return Tree(
        np.full(1, -1, np.int32),
        np.zeros(1, np.float32),
        np.zeros(1, np.uint8),
        none,
        none,
        none,
        np.zeros(1),
        np.ones(1),
        np.zeros(1),
        np.zeros(n_rows, np.int32),
    )


# The compiled half of ``adaboost.py``: the stump of least weighted error.
#
# Words used here
#     word    weight of a row, negative for class -1, as a whole number: sums are exact, and equal errors are found
#     equal
#     edge    |Σ words on the right - Σ words on the left|: what is right minus what is wrong


@kernel
def search_stumps(
    first: int,
    last: int,
    features: Array,
    matrix: Any,
    words: Array,
    present: Array,
    min_leaf: int,
    missing_rule: int,
    slack: int,
    edges: Array,
    codes: Array,
    sides: Array,
) -> None:
    """The greatest edge of the features at the places ``first`` to ``last``, its cut and the side of missing values."""
    sums = np.empty(MISSING + 1, np.int64)
    counts = np.empty(MISSING + 1, np.int64)
    for place in range(first, last):
        feature = features[place]
        column = matrix.columns[feature]
        for code in range(MISSING + 1):
            sums[code] = 0
            counts[code] = 0
        for row in range(words.size):
            code = column[row]
            sums[code] += words[row]
            counts[code] += present[row]
        found = best_stump(sums, counts, matrix.n_bins[feature], min_leaf, missing_rule, slack)
        edges[place], codes[place], sides[place] = found


@kernel
def best_stump(
    sums: Array, counts: Array, n_bins: int, min_leaf: int, missing_rule: int, slack: int
) -> Any:
    """Edge (0: none), code and side of the missing values; of edges within ``slack`` the greatest threshold's."""
    total = sums[MISSING]
    n_rows = counts[MISSING]
    for code in range(n_bins):
        total += sums[code]
        n_rows += counts[code]
    edge = np.int64(0)
    best_code = np.int64(NO_SPLIT)
    side = np.int64(GO_RIGHT)
    left = np.int64(0)
    n_left = np.int64(0)
    for code in range(n_bins - 1):
        if counts[code] == 0:  # the same cut as the one before
            continue
        left += sums[code]
        n_left += counts[code]
        for goes in (GO_RIGHT, GO_LEFT):
            if counts[MISSING] == 0 and goes == GO_LEFT:
                continue
            if counts[MISSING] > 0 and missing_rule in (GO_LEFT, GO_RIGHT) and goes != missing_rule:
                continue
            moved = goes == GO_LEFT
            here = left + (sums[MISSING] if moved else np.int64(0))
            n_here = n_left + (counts[MISSING] if moved else np.int64(0))
            if n_here < min_leaf or n_rows - n_here < min_leaf:
                continue
            found = abs(total - 2 * here)
            is_later = code > best_code and found >= edge - slack
            if found > 0 and (found > edge + slack or is_later):
                edge = max(edge, found)
                best_code = np.int64(code)
                side = np.int64(goes)
    return edge, best_code, side
