"""``Boosted``: what all boosted trees share, whatever their loss."""

from __future__ import annotations

import math
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
from rankwood.ensembles.progress import Watch, check_listeners
from rankwood.ensembles.validation import Validation, is_minimised
from rankwood.errors import DataError, ParameterError
from rankwood.losses.loss import Loss
from rankwood.measures.parsing import parse_measure
from rankwood.models.forest import Forest
from rankwood.trees.policies import FeatureChoice, Growth, Policies


class Boosted(Ranker):
    """Trees added one after another, each fitted to what a loss says is left.

    A method names its loss in ``_loss``; parameters mean the same in all of them, see ``GBRT``.
    """

    _least_trees = 1
    n_trees: int
    max_leaves: int | None
    learning_rate: float
    min_leaf: int
    l2: float
    max_depth: int | None
    min_gain: float
    features_per_node: int | float | None
    subsample: float
    subsample_by: str
    early_stopping: int | None
    measure: Any
    warm_start: bool
    monotone: Any
    checkpoint: Any

    def _loss(self, train: TrainingSet) -> Loss:
        """What the trees are to remove."""
        raise NotImplementedError

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        self._refuse_nothing_to_stop_by(valid)
        checkpoint = Checkpoint(self, train, valid)
        loss = self._loss(train)
        plan = self._plan(train)
        earlier, history = self._earlier(train.data, checkpoint)
        state = self._state(train, valid, plan, loss.start(), earlier)
        state.stopping.history.extend(history)
        callbacks = check_listeners(self.progress, self.callbacks)
        watch = Watch(plan.n_trees, self.progress, callbacks, len(state.trees))
        boost(loss, plan, state, checkpoint, watch)
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
            self._trees_of(self.n_trees),
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
        if self._trees_of(self.n_trees) < forest.n_trees:
            raise ParameterError(
                f"n_trees is {self.n_trees}, but the model to go on from has "
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
        return super()._with_trees(self._rounds_of(n_trees))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _checks.whole_number("n_trees", self.n_trees, self._least_trees)
        _checks.real_number("learning_rate", self.learning_rate, "(0, 1]")
        _checks.real_number("subsample", self.subsample, "(0, 1]")
        _checks.one_of("subsample_by", self.subsample_by, UNITS)
        parse_measure(self.measure)
        if self.early_stopping is not None:
            _checks.whole_number("early_stopping", self.early_stopping, 1)
        Growth(self.max_leaves, self.max_depth, self.min_leaf, self.min_gain)
        FeatureChoice(self.features_per_node).count(1)
