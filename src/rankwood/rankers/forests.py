"""Forests: ``RandomForest``, ``ExtraTrees`` and ``CompletelyRandomForest``."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.engines.bags import UNITS, Bags, OutOfBag
from rankwood.engines.engine import CPU
from rankwood.errors import ParameterError
from rankwood.rankers.base import Ranker
from rankwood.rankers.parameters import (
    OneOf,
    OrNone,
    Real,
    leaves_or_auto,
    leaves_some_out,
    parameter,
)
from rankwood.training.forest import (
    AUTO,
    FEWEST,
    ForestBuilder,
    ForestPlan,
    ForestState,
    LeavesSearch,
    grow_forest,
    totals_of,
    with_chosen_leaves,
)
from rankwood.training.inputs import (
    TrainingSet,
    codes_of,
    deciding_measure,
    directions,
    one_or_several_measures,
    rows_that_count,
    stages_at,
    training_costs,
    weights_of_rows,
)
from rankwood.training.rounds import Checkpoint, Resumed, Validation
from rankwood.trees.grower import FeatureChoice, Growth, Policies

_LIMITS = """Where a tree ends: splits from the root, rows in a leaf, what a split must remove of the sum of squares.
    None is no limit."""
_LEAVES = """Most leaves of a tree; the most promising node is split first. None is no limit. "auto" compares small
    forests of larger and larger trees, out of bag by whole queries and on the validation data, and takes larger ones
    as long as NDCG@10 rises (or rmse falls, if that is the ``measure``): 100, 400, 1600, 6400, no limit (up to 100,000
    rows). With fewer than 10 queries it is 100."""
_DRAWN = "How much is drawn, as a share of the rows or queries; whether one may be drawn twice."


class ForestRanker(Ranker):
    """The base of all forests: bags, parallel growing, out-of-bag estimates.

    Attributes
    ----------
    oob_scores_, oob_counts_, oob_ndcg_
        Out-of-bag estimates: mean of the trees that have not seen a row, how many they are, NDCG@10.
    feature_importances_
        The share of each feature in the gain of all splits.
    max_leaves_
        The most leaves that trees could have; None without a limit.
    history_
        The measure on the validation data after each tree.
    forest_
        The trees, as a ``Forest``.
    """

    _regresses = True
    _watches = True
    _takes_categories = True
    _thresholds = "best"

    n_trees: int = parameter(default=300, doc="Number of trees; the score is their mean.")
    max_leaves: int | str | None = parameter(default=AUTO, doc=_LEAVES, check=leaves_or_auto)
    max_depth: int | None = parameter(default=None, doc=_LIMITS)
    min_leaf: int = parameter(default=1, doc=_LIMITS)
    bag: str | None = parameter(
        default=None,
        doc="""What is drawn for a tree: "row", "query" (whole queries), or None to use all rows in every tree.""",
        check=OrNone(OneOf(UNITS)),
        kw_only=True,
    )
    bag_share: float = parameter(default=1.0, doc=_DRAWN, check=Real("(0, 1]"), kw_only=True)
    replacement: bool = parameter(
        default=True, doc=_DRAWN, check=checks.true_or_false, kw_only=True
    )
    weighting: str = parameter(
        default="reweight",
        doc="""Weights count in the trees ("reweight"), or as chances of being drawn ("resample").""",
        check=OneOf(("reweight", "resample")),
        kw_only=True,
    )
    measure: Any = parameter(
        default="ndcg@10",
        doc="""What ``history_`` says of the validation data: a measure, a function of (scores, data), or a list of
        these.""",
        check=one_or_several_measures,
        kw_only=True,
    )
    missing: str = parameter(default="learned", kw_only=True)
    max_bins: int = parameter(default=255, kw_only=True)
    seed: int = parameter(default=0, kw_only=True)
    checkpoint: str | os.PathLike[str] | None = parameter(default=None, kw_only=True)
    device: str = parameter(default=CPU, kw_only=True)

    # Constants of the forests that do not have these parameters.
    min_gain = 0.0
    min_split = 1
    monotone = None
    feature_costs = None
    cost_batch = 8

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        plan = self._plan(train, valid)
        checkpoint = Checkpoint(self, train, valid, plan.costs, most_trees=plan.n_trees)
        rules = functools.partial(ForestState.rules_of, plan, checkpoint, train.data.n_documents)
        state = self._state(train, valid, plan, checkpoint.load(rules))
        save = checkpoint.saver(state.save)
        grow_forest(plan, state, self._rounds(self.n_trees, len(state.trees), save=save))
        self.forest_ = state.trees.forest()
        self.max_leaves_ = plan.policies.growth.max_leaves
        counts = range(1, len(state.history) + 1)
        self.history_ = self._history(
            state.history,
            valid,
            lambda _, data: stages_at(self.forest_.predict_stages(data), counts),
        )
        self._out_of_bag = state.out_of_bag
        if state.out_of_bag is not None:
            self._oob_ndcg = state.out_of_bag.ndcg(train.data, self.n_threads)

    def _plan(self, train: TrainingSet, valid: RankingData | None = None) -> ForestPlan:
        weights, present = train.weights, train.present
        bags = self._bags(train.data, weights)
        if bags is not None and bags.weights is not None:
            weights = None  # the bags use them as probabilities already
        return ForestPlan(
            train.engine.with_threads(resolve_threads(self.n_threads)),
            (train.labels, weights),
            self._policies(train, valid),
            bags,
            None if present is None else present.astype(np.int32),
            self.n_trees,
            self.seed,
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
        trees = ForestBuilder.averaging(data, earlier, n_expected=plan.n_trees)
        out_of_bag = None if plan.bags is None else plan.engine.out_of_bag()
        history: list[float] = []
        if saved is not None:
            history = saved.arrays["history"].tolist()
            if out_of_bag is not None:
                own = (saved.arrays[f"oob_{name}"] for name in ("sums", "counts"))
                out_of_bag = plan.engine.out_of_bag(*own)
        validation = None
        if valid is not None:
            totals = np.zeros(valid.n_documents)
            if earlier is not None:
                totals = totals_of(earlier, valid)
            codes = codes_of(valid, train, self.n_threads)
            measure = deciding_measure(self.measure)
            validation = Validation(valid, codes, measure, totals, plan.engine.n_threads)
        return ForestState(trees, out_of_bag, validation, history)

    def _policies(self, train: TrainingSet, valid: RankingData | None) -> Policies:
        policies = Policies(
            self._growth(),
            self._features(),
            self._thresholds,
            self.missing,
            direction=directions(self.monotone, train.data),
        )
        if self.max_leaves != AUTO:
            return policies
        by_rmse = str(deciding_measure(self.measure)).startswith("rmse")
        return with_chosen_leaves(
            LeavesSearch(policies, train, valid, self.n_trees, self.seed, self.n_threads, by_rmse)
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.weighting == "resample" and (self.bag is None or not self.replacement):
            raise ParameterError(
                "weighting='resample' draws rows by weight: it needs a bag with replacement."
            )

    def _growth(self) -> Growth:
        return Growth(
            FEWEST if isinstance(self.max_leaves, str) else self.max_leaves,
            self.max_depth,
            self.min_leaf,
            self.min_gain,
            min_split=self.min_split,
        )

    def _features(self) -> FeatureChoice:
        """The features that a node looks at."""
        return FeatureChoice(self.features_per_node)

    @property
    def is_random(self) -> bool:
        """Whether rows, features, cuts or, to choose the number of leaves, queries are drawn."""
        return (
            self.bag is not None
            or self.max_leaves == AUTO
            or self._thresholds != "best"
            or leaves_some_out(self.features_per_node)
        )

    def _estimates_out_of_bag(self) -> bool:
        return self.bag is not None

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


def forest_plan(
    forest: ForestRanker, train: TrainingSet, valid: RankingData | None = None
) -> ForestPlan:
    """Everything that determines the trees of ``forest`` on these training rows."""
    return forest._plan(train, valid)


class SplittingForest(ForestRanker):
    """The base of forests whose nodes compare the splits of some features by their gain."""

    min_gain: float = parameter(default=0.0, doc=_LIMITS)
    features_per_node: int | float | None = parameter(default=0.3)
    monotone: Any = parameter(default=None, kw_only=True)
    feature_costs: Any = parameter(default=None, kw_only=True)
    cost_weight: float = parameter(default=0.01, kw_only=True)
    cost_scale: str = parameter(default="relative", kw_only=True)
    cost_batch: int = parameter(default=8, kw_only=True)


class RandomForest(SplittingForest):
    """A random forest: each tree sees a bootstrap sample, each node a random part of the features (Breiman 2001)."""

    _signature = (
        "n_trees max_leaves max_depth min_leaf min_gain features_per_node bag bag_share replacement weighting missing "
        "monotone feature_costs cost_weight cost_scale cost_batch measure max_bins seed n_threads progress callbacks "
        "checkpoint device position_bias"
    )

    bag: str | None = parameter(default="row", kw_only=True)


class ExtraTrees(SplittingForest):
    """Extremely randomized trees: one random cut per feature looked at, the best of them is taken (Geurts et al. 2006).

    All trees see all rows unless ``bag`` says otherwise.
    """

    _signature = RandomForest._signature
    _thresholds = "random"


class CompletelyRandomForest(ForestRanker):
    """Trees whose features and cuts are drawn at random, until the labels of a leaf agree (Liu et al. 2008).

    Only the values of the leaves depend on the labels.
    """

    _signature = (
        "n_trees max_leaves max_depth min_leaf bag bag_share replacement weighting missing measure max_bins seed "
        "n_threads progress callbacks checkpoint min_split device position_bias"
    )
    _thresholds = "completely_random"
    _compiles = ""

    max_leaves: int | None = parameter(default=None)
    min_split: int = parameter(default=1, kw_only=True)

    def _features(self) -> FeatureChoice:
        # Random splits draw their feature themselves; with one candidate a node needs one histogram.
        return FeatureChoice(1)


def bags_of(ranker: ForestRanker, train: RankingData) -> Bags | None:
    """The rows of ``train`` that each tree of a forest was grown from; None where every tree sees all.

    The bags are drawn again from the forest's parameters, so ``train`` must be the data it was fitted to.
    """
    return ranker._bags(train, weights_of_rows(train))
