"""``AdaBoost``: boosting of classifiers of relevant and other documents (Freund & Schapire 1997).

Larger trees are grown as regression trees. Stumps are searched for the least weighted error (``WeakClassifiers``): the
tree grower would take the split that reduces the squared error most, which may be another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.sums import exact_bincount, exact_sum
from rankwood._core.threads import lazy
from rankwood.binning.bins import MISSING_BIN
from rankwood.dtypes import Array, Floats
from rankwood.losses.loss import ExponentialLoss, step_of_edge, weighted_classes
from rankwood.rankers.boosted import ADD_ROUNDS, STOP_BY_ROUNDS, Boosted
from rankwood.rankers.pairs import as_classifier
from rankwood.rankers.parameters import OneOf, Real, parameter
from rankwood.training.boosting import BoostingPlan, BoostingState
from rankwood.training.inputs import TrainingSet, rows_that_count
from rankwood.training.rounds import BEST, Rounds
from rankwood.trees.edges import UNIT, EdgeCut, EdgeSearch
from rankwood.trees.grower import MISSING_RULES, Tree
from rankwood.trees.one_feature import in_data_order, mark_sides
from rankwood.trees.workspace import NO_SPLIT, Matrix

_ONE_CLASS = 1e-12  # a class with a smaller share of the weight counts as empty
NOTHING_LEFT = "no tree tells the classes apart better than chance"
_LIMITS = """Where a tree ends: leaves (2 is a stump), splits from the root, rows in a leaf. None is no limit."""
_SLACK = int(UNIT * 1e-12)  # edges that differ by less differ by rounding


def adaboost(
    loss: ExponentialLoss,
    stumps: WeakClassifiers | None,
    plan: BoostingPlan,
    state: BoostingState,
    rounds: Rounds,
) -> None:
    """Add classifiers to ``state``, each fitted to weights that grow with the errors of those before."""
    for number in rounds:
        classes, weights = weighted_classes(loss, state.scores)  # D ∝ exp(-y F)
        grown = (  # h of least error ε = Σ D [h ≠ y], or nearly so
            plan.grow(number, (classes, weights))
            if stumps is None
            else stumps.best(classes, weights)
        )
        tree, alpha = weigh(classes, weights, grown)
        if alpha <= 0.0:
            rounds.stop(NOTHING_LEFT)
            break
        rounds.finish(state.add(tree, plan.learning_rate * alpha))  # F ← F + α h


def weigh(classes: Floats, weights: Floats, tree: Tree) -> tuple[Tree, float]:
    """The tree as a classifier h with values 1 and -1, and its weight ``½ ln((1 - ε) / ε)`` or 0."""
    classifier = as_classifier(tree, other=-1.0)
    signed = weights * classes
    edge = exact_sum(signed * classifier.value[classifier.leaf_of_row])
    has_both = abs(exact_sum(signed)) < 1.0 - _ONE_CLASS
    return classifier, step_of_edge(edge) if has_both and classifier.n_leaves > 1 else 0.0


class AdaBoost(Boosted):
    """Boosted stumps or trees that tell relevant documents from others (Freund & Schapire 1997).

    Documents with a label of at least ``relevant`` are of class 1, the others of class -1. Each round weighs every
    document by ``exp(-class · score)``, takes the classifier of least weighted error ε and adds it with weight
    ``½ ln((1 - ε) / ε)``. A score of at least 0 says class 1. Stumps are the best there are, and of equally good ones
    that of the first feature and the greatest threshold; larger trees are grown as regression trees on the classes.
    Queries are not looked at. When no classifier is better than chance, training stops: with documents of one class
    only there is no tree at all.

    Attributes
    ----------
    stopped_because_
        Why there are no more rounds.
    """

    _signature = (
        "n_rounds max_leaves min_leaf max_depth relevant learning_rate early_stopping measure warm_start missing "
        "max_bins seed n_threads progress callbacks checkpoint position_bias"
    )
    _length = "n_rounds"

    n_rounds: int = parameter(
        default=100, doc="Number of classifiers, or the most there may be with ``early_stopping``."
    )
    max_leaves: int | None = parameter(default=2, doc=_LIMITS)
    min_leaf: int = parameter(default=1, doc=_LIMITS)
    max_depth: int | None = parameter(default=None, doc=_LIMITS)
    relevant: float = parameter(default=1.0, doc="Least label of class 1.", check=Real("[0, inf)"))
    learning_rate: float = parameter(
        default=1.0, doc="What is taken of each classifier's weight; 1 is AdaBoost."
    )
    early_stopping: int | str | None = parameter(default=BEST, doc=STOP_BY_ROUNDS, kw_only=True)
    warm_start: bool = parameter(default=False, doc=ADD_ROUNDS, kw_only=True)
    missing: str = parameter(
        default="learned",
        doc="""Where missing values go: "learned", "left" or "right".""",
        check=OneOf(("learned", "left", "right")),
        kw_only=True,
    )

    min_gain = 0.0
    l2 = 0.0
    subsample = 1.0
    subsample_by = "row"
    features_per_node = None
    monotone = None

    def _loss(self, train: TrainingSet) -> ExponentialLoss:
        return ExponentialLoss(np.where(train.labels >= self.relevant, 1.0, -1.0), train.weights)

    def _boost(self, loss: Any, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
        adaboost(loss, stumps_of(self, loss, plan), plan, state, rounds)
        self.stopped_because_ = rounds.stopped_because


# Stumps of least weighted error.


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
        in_data_order(plan.engine.matrix),
        checks.read_only(present),
        estimator.min_leaf,
        estimator.missing,
        plan.n_threads,
    )


@dataclass(frozen=True, eq=False)
class WeakClassifiers:
    """All stumps over the bins of the training rows, which are in the data's order."""

    matrix: Matrix
    present: Array  # int64: 1 for rows that have weight, else 0
    min_leaf: int
    missing: str
    n_threads: int

    @lazy
    def _search(self) -> EdgeSearch:
        rows = np.arange(self.present.size, dtype=np.uint32)
        rule = MISSING_RULES[self.missing]
        return EdgeSearch(
            self.matrix, rows, rule, _SLACK, self.n_threads, self.present, self.min_leaf
        )

    def best(self, classes: Floats, weights: Floats, features: int | Array | None = None) -> Tree:
        """The stump of least weighted error, of one feature, some or all; a single leaf if none has an edge.

        Of equal ones it is that of the first feature, and of the greatest threshold.
        """
        signed_weights = np.rint(classes * weights * UNIT).astype(np.int64)
        cut = self._search.best(
            signed_weights, None if features is None else np.atleast_1d(features)
        )
        if cut.code == NO_SPLIT or cut.edge == 0:
            return Tree.leaf(0.0, 1.0, classes.size)
        return self._stump(cut, classes * weights, weights)

    def _stump(self, cut: EdgeCut, signed: Floats, weights: Floats) -> Tree:
        """A cut as a tree whose leaves predict 1 and -1."""
        column = self.matrix.columns[cut.feature]
        leaf_of_row = np.empty(column.size, np.int32)
        goes_left = cut.missing_goes_left
        mark_sides(  # type: ignore[no-untyped-call]
            0, column.size, column, cut.code, goes_left, leaf_of_row
        )
        sums = exact_bincount(leaf_of_row, signed, 3)
        cover = exact_bincount(leaf_of_row, weights, 3)
        if (column == MISSING_BIN).sum() == 0 and self.missing == "learned":
            goes_left = bool(cover[1] >= cover[2])
        vote = 1.0 if sums[2] > sums[1] else -1.0
        value = np.array([0.0, -vote, vote])
        cover[0] = cover.sum()
        value[0] = (cover[1:] * value[1:]).sum() / cover[0]
        child = 1 if goes_left or (self.missing == "left") else 2
        gain = abs(sums[2] - sums[1])
        return Tree.stump(
            self.matrix, cut.feature, cut.code, child, value, cover, gain, leaf_of_row
        )
