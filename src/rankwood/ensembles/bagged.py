"""``Bagged``: what all forests share, whatever their trees are like."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood import _checks
from rankwood._threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.ensembles.bags import UNITS, Bags
from rankwood.ensembles.base import Ranker
from rankwood.ensembles.checkpointing import Checkpoint, Resumed
from rankwood.ensembles.collected import Collected, totals_of
from rankwood.ensembles.costs import check_cost_parameters, training_costs
from rankwood.ensembles.forest_growing import ForestPlan, ForestState, grow_forest
from rankwood.ensembles.inputs import TrainingSet, codes_of, directions
from rankwood.ensembles.out_of_bag import OutOfBag
from rankwood.ensembles.progress import Watch, check_listeners
from rankwood.ensembles.validation import Validation
from rankwood.errors import ParameterError
from rankwood.measures.parsing import parse_measure
from rankwood.trees.policies import FeatureChoice, Growth, Policies

_WEIGHTINGS = ("reweight", "resample")


class Bagged(Ranker):
    """What the three forests share: bags, growing side by side, out-of-bag estimates."""

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
        callbacks = check_listeners(self.progress, self.callbacks)
        watch = Watch(self.n_trees, self.progress, callbacks, len(state.trees))
        grow_forest(plan, state, checkpoint, watch)
        self.forest_ = state.trees.forest()
        self.history_ = state.history
        self._out_of_bag = state.out_of_bag
        if state.out_of_bag is not None:
            self._oob_ndcg = state.out_of_bag.ndcg(train.data, self.n_threads)

    def _plan(self, train: TrainingSet) -> ForestPlan:
        weights, present = train.weights, _present(train.weights)
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
            _present(weights),
            self.seed,
        )

    def _state(
        self, train: TrainingSet, valid: RankingData | None, plan: ForestPlan, saved: Resumed | None
    ) -> ForestState:
        """Nothing yet, or what a checkpoint holds."""
        data = train.data
        earlier = None if saved is None else saved.forest
        trees = Collected(
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
        _checks.whole_number("n_trees", self.n_trees, 1)
        _checks.real_number("bag_share", self.bag_share, "(0, 1]")
        _checks.one_of("weighting", self.weighting, _WEIGHTINGS)
        check_cost_parameters(self)
        _checks.whole_number("cost_batch", self.cost_batch, 1)
        parse_measure(self.measure)
        if self.bag is not None:
            _checks.one_of("bag", self.bag, UNITS)
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
        found: OutOfBag = self._out_of_bag  # type: ignore[assignment]
        return found


def _present(weights: Floats | None) -> Array | None:
    """Which rows are part of the data at all; None where all are."""
    return None if weights is None or weights.min() > 0 else weights > 0
