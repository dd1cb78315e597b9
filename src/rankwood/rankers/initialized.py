"""``InitializedGBRT``: boosting that starts from a random forest's predictions."""

from __future__ import annotations

import dataclasses

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.engines.bags import UNITS, OutOfBag
from rankwood.engines.engine import Engine
from rankwood.errors import ParameterError
from rankwood.losses.loss import SquaredLoss
from rankwood.measures.measure import OwnMeasure, is_minimised
from rankwood.models.forest import Forest
from rankwood.rankers.boosted import CostAware
from rankwood.rankers.forests import RandomForest, forest_plan
from rankwood.rankers.parameters import (
    OneOf,
    OrNone,
    Whole,
    leaves_or_auto,
    number_or_share,
    parameter,
)
from rankwood.training.boosting import BoostingState, boost
from rankwood.training.forest import AUTO, ForestBuilder, ForestState, grow_forest, totals_of
from rankwood.training.inputs import TrainingSet
from rankwood.training.rounds import (
    Checkpoint,
    ProgressReporter,
    Rounds,
    Validation,
    is_clearly_positive,
)

_FOREST = "The random forest that boosting starts from: its number of trees, and where they end."


class InitializedGBRT(CostAware):
    """Boosted trees for squared loss that start from a random forest: H = F + α Σ h (Mohan 2010, Algorithm 4).

    The first ``forest_trees`` trees are those of a ``RandomForest`` with the same seed, each with weight
    1 / ``forest_trees``; then come ``n_trees`` boosted trees with weight ``learning_rate``. Together they are one
    forest. ``early_stopping`` looks at the forest alone too, and boosted trees are kept only if they are ahead of it on
    the validation queries by more than a standard error of the paired differences; a measure of all rows together, such
    as rmse, only has to improve. Where features cost, those that the random forest uses are free for the boosted trees.

    Attributes
    ----------
    history_
        The measure on the validation data after each boosted tree.
    forest_measure_
        The measure of the random forest alone; NaN without validation data.
    best_iteration_
        How many boosted trees are kept, 0 for the forest alone; all of them without validation data.
    """

    _takes_categories = True

    _signature = (
        "n_trees max_leaves learning_rate min_leaf l2 max_depth min_gain features_per_node subsample subsample_by "
        "forest_trees forest_leaves forest_depth forest_min_leaf forest_features forest_bag residuals early_stopping "
        "measure warm_start missing monotone feature_costs cost_weight cost_scale cost_batch max_bins seed n_threads "
        "progress callbacks checkpoint device l1 features_per_tree interactions position_bias"
    )
    _regresses = True

    n_trees: int = parameter(default=100, check=Whole(0))  # the forest alone is a model
    forest_trees: int = parameter(default=300, doc=_FOREST, check=Whole(1), kw_only=True)
    forest_leaves: int | str | None = parameter(
        default=AUTO, doc=_FOREST, check=leaves_or_auto, kw_only=True
    )
    forest_depth: int | None = parameter(
        default=None, doc=_FOREST, check=OrNone(Whole(0)), kw_only=True
    )
    forest_min_leaf: int = parameter(default=1, doc=_FOREST, check=Whole(1), kw_only=True)
    forest_features: int | float | None = parameter(
        default=0.3,
        doc="Features a node of the random forest looks at: a number (int), a share (float), or None for all.",
        check=number_or_share,
        kw_only=True,
    )
    forest_bag: str = parameter(
        default="row",
        doc="""What is drawn for a tree of the random forest, with replacement: "row" or "query" (whole queries).""",
        check=OneOf(UNITS),
        kw_only=True,
    )
    residuals: str = parameter(
        default="oob",
        doc="""What boosting takes as the forest's prediction of a training row: the mean of the trees that have not
        seen it ("oob"), or of all trees ("in-bag", as in the source), which makes residuals smaller than on new
        documents. A row that every tree has seen, which with few trees is common, has its in-bag prediction in either
        case.""",
        check=OneOf(("oob", "in-bag")),
        kw_only=True,
    )

    cost_batch: int = parameter(
        default=8,
        doc="""Trees of the random forest that grow side by side without seeing which features the others use, where
        features cost.""",
        kw_only=True,
    )

    is_random = True  # the forest has bags

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        self._refuse_nothing_to_stop_by(valid)
        plan = self._plan(train)
        checkpoint = Checkpoint(self, train, valid, plan.costs, most_trees=self._most_trees)
        earlier, history = self._earlier(train.data, checkpoint)
        reporter = self._reporter(plan.n_trees, 0 if earlier is None else earlier.n_trees)
        grown = self._grow_forest(train, valid, earlier, checkpoint, reporter)
        forest = _summed(grown.trees.forest())  # F
        if earlier is None or earlier.n_trees <= forest.n_trees:
            earlier = forest
        state = self._state(train, valid, plan, 0.0, earlier)
        state.stopping.history.extend(self._judged_again(state) if history is None else history)
        state = self._from_forest(state, forest, grown.out_of_bag, train.data, plan.engine)
        if not reporter.was_stopped:
            rounds = Rounds(
                reporter,
                done=len(state.trees),
                stopping=state.stopping,
                save=checkpoint.saver(state.save),
            )
            boost(self._loss(train), plan, state, rounds)  # + α Σ h
        self.forest_measure_ = state.stopping.start
        self._keep(state)

    def _keep(self, state: BoostingState) -> None:
        super()._keep(state)
        chooses = self.early_stopping is not None and self.best_iteration_ > 0
        if chooses and state.validation is not None and not self._is_ahead(state.validation):
            self.best_iteration_ = 0
            self.forest_ = self.forest_.take_trees(slice(0, self.forest_trees))

    def _is_ahead(self, validation: Validation) -> bool:
        """Whether the boosted trees that are kept raise the measure by more than a standard error over queries."""
        measure = validation.measure
        if isinstance(measure, OwnMeasure) or measure.is_pooled:
            return True
        alone = self.forest_.take_trees(slice(0, self.forest_trees))
        boosted, of_forest = (
            measure.per_query(totals_of(forest, validation.data), validation.data)
            for forest in (self.forest_, alone)
        )
        gains = of_forest - boosted if is_minimised(measure) else boosted - of_forest
        return is_clearly_positive(gains)

    def _loss(self, train: TrainingSet) -> SquaredLoss:
        return SquaredLoss(train.labels, train.weights, starts_at_mean=False)

    def _grow_forest(
        self,
        train: TrainingSet,
        valid: RankingData | None,
        earlier: Forest | None,
        checkpoint: Checkpoint,
        reporter: ProgressReporter,
    ) -> ForestState:
        """The random forest: the trees there are already, and those that are missing."""
        data, plan = train.data, forest_plan(self._forest_estimator(), train, valid)
        assert plan.bags is not None
        grown = None if earlier is None else _averaged(earlier, self.forest_trees)
        trees = ForestBuilder.averaging(data, grown)
        out_of_bag = None
        if self.residuals == "oob" and grown is not None:
            so_far = OutOfBag.of_forest(grown, plan.bags, data)
            out_of_bag = plan.engine.out_of_bag(so_far.sums, so_far.n_trees)
        elif self.residuals == "oob":
            out_of_bag = plan.engine.out_of_bag()
        state = ForestState(trees, out_of_bag, None, [])
        if len(trees) < self.forest_trees:
            save = checkpoint.saver(state.save)
            grow_forest(
                plan, state, Rounds(reporter, total=plan.n_trees, done=len(trees), save=save)
            )
        return state

    def _from_forest(
        self,
        state: BoostingState,
        forest: Forest,
        out_of_bag: OutOfBag | None,
        data: RankingData,
        engine: Engine,
    ) -> BoostingState:
        """Boosting's state with the forest's predictions as the start of each row."""
        starts = totals_of(forest, data)
        if out_of_bag is not None:
            starts = np.where(out_of_bag.n_trees > 0, out_of_bag.scores, starts)
        boosted = state.trees.forest().take_trees(slice(forest.n_trees, None))
        if state.validation is not None:
            of_forest = totals_of(forest, state.validation.data)
            alone = dataclasses.replace(state.validation, totals=of_forest)
            state.stopping.start = alone.value()
        return dataclasses.replace(state, runs=(engine.scores(totals_of(boosted, data), starts),))

    def _forest_estimator(self) -> RandomForest:
        return RandomForest(
            self.forest_trees,
            self.forest_leaves,
            self.forest_depth,
            self.forest_min_leaf,
            features_per_node=self.forest_features,
            bag=self.forest_bag,
            missing=self.missing,
            monotone=self.monotone,
            feature_costs=self.feature_costs,
            cost_weight=self.cost_weight,
            cost_scale=self.cost_scale,
            cost_batch=self.cost_batch,
            seed=self.seed,
            n_threads=self.n_threads,
        )

    def _earlier(
        self, data: RankingData, checkpoint: Checkpoint
    ) -> tuple[Forest | None, list[float] | None]:
        forest, history = super()._earlier(data, checkpoint)
        if forest is not None and not forest.average:
            n_trees = min(forest.n_trees, self.forest_trees)
            if (forest.tree_weights[:n_trees] != 1 / n_trees).any():
                raise ParameterError(
                    "warm_start goes on with the same forest_trees; set warm_start=False to start afresh."
                )
        return forest, history

    def _trees_of(self, n_rounds: int) -> int:
        return self.forest_trees + n_rounds

    def _rounds_of(self, n_trees: int) -> int:
        return max(0, n_trees - self.forest_trees)


def _summed(forest: Forest) -> Forest:
    """The mean of the trees, written as a sum."""
    weights = np.full(forest.n_trees, 1 / forest.n_trees)
    return dataclasses.replace(forest, tree_weights=weights, average=False)


def _averaged(forest: Forest, n_trees: int) -> Forest:
    """The first trees of a sum, as the random forest they were."""
    trees = forest.take_trees(slice(0, n_trees))
    return dataclasses.replace(trees, tree_weights=np.ones(trees.n_trees), average=True)
