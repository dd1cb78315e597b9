"""Boosted trees: ``GBRT``, ``AveragedGBRT``, ``LambdaMART`` and their bases.

``RoundRanker`` is the base of every model that grows by one tree per round, ``Boosted`` that of regression trees fitted
to the targets of a loss.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.engines.bags import Bags, stream_number
from rankwood.engines.engine import CPU
from rankwood.errors import DataError, DataWarning, ModelError, ParameterError
from rankwood.losses.lambdarank import LambdaRank, parse_target
from rankwood.losses.loss import Gradients, HasGradients, OwnLoss, SquaredLoss
from rankwood.losses.position_bias import (
    ADDITIVE,
    JOINT,
    AdditivePositions,
    CorrectedPairs,
    JointPairs,
    LearnsPositions,
    as_propensities,
    check_pair_bias,
)
from rankwood.measures.measure import is_minimised
from rankwood.models.forest import Forest
from rankwood.models.validate import ArrayRule
from rankwood.rankers.base import Ranker, refuse_bias_inside
from rankwood.rankers.parameters import (
    SHARED,
    OneOf,
    OrNone,
    Real,
    Whole,
    explains_names,
    leaves_some_out,
    parameter,
)
from rankwood.training.boosting import (
    BoostingPlan,
    BoostingState,
    Dropout,
    DropoutState,
    LeafOutputs,
    boost,
    boost_runs,
    boost_with_dropout,
    totals_of_runs,
)
from rankwood.training.forest import ForestBuilder, totals_of
from rankwood.training.inputs import (
    StartScores,
    TrainingSet,
    codes_of,
    deciding_measure,
    directions,
    feature_groups,
    one_or_several_measures,
    stages_at,
    training_costs,
)
from rankwood.training.rounds import (
    BEST,
    Checkpoint,
    EarlyStopping,
    Rounds,
    Validation,
    needs_validation,
    patience_of,
)
from rankwood.trees.grower import FeatureChoice, Growth, Policies

# The documentation of ``early_stopping`` and ``warm_start`` where rounds are counted.
STOP_BY_ROUNDS, ADD_ROUNDS = SHARED["early_stopping"].doc, SHARED["warm_start"].doc
MEASURES_DOC = """What is looked at on the validation data: any measure, a function of (scores, data) that is to rise,
    or a list of these, of which the first decides. rmse is to fall, the others are to rise."""
_SUBSAMPLED_PAIRS = """The share of rows, or of whole queries (``subsample_by="query"``), that each tree sees, drawn
    without replacement; pairs are made of all documents, also of those a tree does not see."""


class RoundRanker(Ranker):
    """A model that grows by one tree per round, each with a weight.

    A subclass defines its loss in ``_loss``, what determines its trees in ``_plan``, and its loop in ``_boost``.

    Attributes
    ----------
    history_
        The measure on the validation data after each round; with several sets or measures, a mapping from sets to
        mappings from measures to such lists.
    best_iteration_
        How many rounds gave the best value; all of them without validation data.
    feature_importances_
        The share of each feature in the gain of all splits.
    forest_
        The trees, as a ``Forest``.
    """

    _length = "n_rounds"  # the parameter that says how many trees there may be

    _watches = True

    early_stopping: int | str | None = parameter(default=BEST, kw_only=True)
    measure: Any = parameter(
        default="ndcg@10", doc=MEASURES_DOC, check=one_or_several_measures, kw_only=True
    )
    warm_start: bool = parameter(default=False, kw_only=True)
    checkpoint: str | os.PathLike[str] | None = parameter(default=None, kw_only=True)

    def _loss(self, train: TrainingSet) -> HasGradients:
        """The loss that the trees lower."""
        raise NotImplementedError

    def _plan(self, train: TrainingSet) -> BoostingPlan:
        """What determines the trees."""
        raise NotImplementedError

    def _boost(self, loss: Any, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
        """Add trees to ``state``."""
        raise NotImplementedError

    def _save(self, state: BoostingState, checkpoint: Checkpoint) -> None:
        """Write what a resumed fit needs."""
        state.save(checkpoint)

    @property
    def _most_trees(self) -> int:
        return self._trees_of(int(getattr(self, self._length)))

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        self._refuse_nothing_to_stop_by(valid)
        loss = self._loss(train)
        plan = self._plan(train)
        checkpoint = Checkpoint(self, train, valid, plan.costs, most_trees=self._most_trees)
        earlier, history = self._earlier(train.data, checkpoint)
        base = loss.start() if train.starts is None else 0.0
        state = self._state(train, valid, plan, base, earlier)
        state.stopping.history.extend(self._judged_again(state) if history is None else history)
        total, done = int(getattr(self, self._length)), self._rounds_of(len(state.trees))
        save = checkpoint.saver(functools.partial(self._save, state))
        rounds = self._rounds(total, done, stopping=state.stopping, save=save)
        self._boost(loss, plan, state, rounds)
        self._keep(state)

    def _refuse_nothing_to_stop_by(self, valid: RankingData | None) -> None:
        if needs_validation(self.early_stopping) and valid is None:
            raise ParameterError("early_stopping needs validation data: pass valid= to fit.")

    def _keep(self, state: BoostingState) -> None:
        """The trees up to the best value on the validation data; all without such data or ``early_stopping``."""
        n_rounds = self._rounds_of(len(state.trees))
        stopping = state.stopping
        counts = [self._trees_of(number + 1) for number in range(len(stopping.history))]

        def stages(name: str, data: RankingData) -> Iterator[Floats]:
            start = 0.0 if state.starts is None else state.starts.valid[name]
            return (scores + start for scores in stages_at(state.stages(data), counts))

        valid = None if state.validation is None else state.validation.data
        self.history_ = self._history(stopping.history, valid, stages)
        is_known = stopping.best_iteration > 0 or not math.isnan(stopping.start)
        self.best_iteration_ = stopping.best_iteration if is_known else n_rounds
        is_shorter = self.early_stopping is not None and self.best_iteration_ < n_rounds
        self.forest_ = state.forest(self._trees_of(self.best_iteration_) if is_shorter else None)

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
        trees = ForestBuilder(
            data.n_features,
            data.feature_names,
            average=False,
            earlier=earlier,
            base=base if earlier is None else earlier.base,
            factor=self._tree_weight(plan),
            categorical=data.categorical,
        )
        measure = deciding_measure(self.measure)
        stopping = EarlyStopping(patience_of(self.early_stopping), is_minimised(measure))
        starts = trees.base if train.starts is None else trees.base + train.starts.train
        runs = tuple(plan.engine.scores(totals, starts) for totals in self._totals(data, earlier))
        validation = None
        if valid is not None:
            of_valid = np.zeros(valid.n_documents) if earlier is None else totals_of(earlier, valid)
            codes = codes_of(valid, train, self.n_threads)
            of_start = None if train.starts is None else next(iter(train.starts.valid.values()))
            validation = Validation(valid, codes, measure, of_valid, plan.n_threads, of_start)
        state = BoostingState(trees, runs, validation, stopping, train.starts)
        return self._completed(state, train, plan)

    def _completed(
        self,
        state: BoostingState,
        train: TrainingSet,  # noqa: ARG002 - for subclasses
        plan: BoostingPlan,  # noqa: ARG002
    ) -> BoostingState:
        """The state with what else the loop needs of the start."""
        return state

    def _tree_weight(self, plan: BoostingPlan) -> float:
        """The weight of a tree in the model, unless the loop chooses one for each tree."""
        return plan.learning_rate

    def _totals(self, data: RankingData, earlier: Forest | None) -> Sequence[Floats]:
        """The totals of the training rows by run, from the earlier trees if there are any."""
        return [np.zeros(data.n_documents) if earlier is None else totals_of(earlier, data)]

    def _earlier(
        self, data: RankingData, checkpoint: Checkpoint
    ) -> tuple[Forest | None, list[float] | None]:
        """The trees to continue from, of a checkpoint or of the fit before, and their history.

        That of a fit before is None: it may have had other validation data, or none.
        """
        saved = checkpoint.load(functools.partial(self._rules, checkpoint))
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
        if self._most_trees < forest.n_trees:
            raise ParameterError(
                f"{self._length} is {getattr(self, self._length)}, but the model to go on from has "
                f"{self._rounds_of(forest.n_trees)} trees. Set warm_start=False to start afresh."
            )
        return forest, None

    def _judged_again(self, state: BoostingState) -> list[float]:
        """The measure on the validation data of this fit after each round of the fit before, bit for bit."""
        forest, validation = state.trees.earlier, state.validation
        if forest is None or validation is None:
            return []
        first = forest.take_trees(slice(0, self._trees_of(0)))
        again = dataclasses.replace(validation, totals=totals_of(first, validation.data))
        history = []
        for number in range(self._rounds_of(forest.n_trees)):
            for tree in range(self._trees_of(number), self._trees_of(number + 1)):
                np.add(
                    again.totals,
                    totals_of(forest.take_trees([tree]), validation.data),
                    again.totals,
                )
            history.append(again.value(state.trees.base))
        return history

    def _rules(self, checkpoint: Checkpoint, n_trees: int) -> dict[str, ArrayRule]:
        """The arrays that a checkpoint of ``n_trees`` trees holds besides the trees."""
        n_rounds = self._rounds_of(n_trees)
        if n_rounds and self._trees_of(n_rounds) != n_trees:
            raise ModelError(f"{n_trees:,} trees are no whole number of rounds.")
        return {"history": checkpoint.history_of(n_rounds)}

    def _with_trees(self, n_trees: int) -> dict[str, Any]:
        return {self._length: self._rounds_of(n_trees), "early_stopping": None}


class Boosted(RoundRanker):
    """Trees added one after another, each fitted to what a loss says is left.

    A method names its loss in ``_loss``; parameters mean the same in all of them. A round is a tree.
    """

    _length = "n_trees"

    n_trees: int = parameter(default=100)
    max_leaves: int | None = parameter(default=31)
    learning_rate: float = parameter(default=0.1)
    min_leaf: int = parameter(default=20)
    l2: float = parameter(default=0.0)
    max_depth: int | None = parameter(default=None, kw_only=True)
    min_gain: float = parameter(default=0.0, kw_only=True)
    features_per_node: int | float | None = parameter(default=None, kw_only=True)
    subsample: float = parameter(default=1.0, kw_only=True)
    subsample_by: str = parameter(default="row", kw_only=True)
    early_stopping: int | str | None = parameter(
        default=BEST,
        doc="""With validation data: "best" grows all trees and keeps those up to the best value of the measure; a
        number also stops when the measure has not improved for so many trees; None grows all trees and keeps them.
        Without validation data "best" keeps all trees, and a number is an error.""",
        kw_only=True,
    )
    warm_start: bool = parameter(
        default=False,
        doc="Whether a further ``fit`` adds the trees that lack to ``n_trees``, on the same data.",
        kw_only=True,
    )
    missing: str = parameter(default="learned", kw_only=True)
    monotone: Any = parameter(default=None, kw_only=True)
    max_bins: int = parameter(default=255, kw_only=True)
    seed: int = parameter(default=0, kw_only=True)

    # Constants of the methods that do not have these parameters.
    min_hessian = 0.0
    feature_costs = None
    l1 = 0.0
    features_per_tree: int | float | None = None
    interactions = None

    @property
    def is_random(self) -> bool:
        """Whether trees see drawn rows, trees or nodes drawn features, or rounds leave drawn trees out."""
        is_limited = map(leaves_some_out, (self.features_per_node, self.features_per_tree))
        return self.subsample < 1.0 or any(is_limited) or getattr(self, "dropout", 0.0) > 0.0

    def _boost(self, loss: Any, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
        boost(loss, plan, state, rounds)

    def _plan(self, train: TrainingSet) -> BoostingPlan:
        present, bags = train.present, None
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
            train.engine.with_threads(resolve_threads(self.n_threads)),
            self._policies(train.data),
            bags,
            self._most_trees,
            float(self.learning_rate),
            self.seed,
            training_costs(self, train.data),
        )

    def _growth(self) -> Growth:
        return Growth(
            self.max_leaves, self.max_depth, self.min_leaf, self.min_gain, self.min_hessian
        )

    def _policies(self, data: RankingData) -> Policies:
        return Policies(
            self._growth(),
            FeatureChoice(
                self.features_per_node,
                per_tree=self.features_per_tree,
                groups=feature_groups(self.interactions, data),
            ),
            missing=self.missing,
            l2=self.l2,
            l1=self.l1,
            direction=directions(self.monotone, data),
        )


class CostAware(Boosted):
    """The base of boosted trees whose splits may pay for features, and whose features may be limited."""

    feature_costs: Any = parameter(default=None, kw_only=True)
    cost_weight: float = parameter(default=0.01, kw_only=True)
    cost_scale: str = parameter(default="relative", kw_only=True)
    device: str = parameter(default=CPU, kw_only=True)
    l1: float = parameter(default=0.0, kw_only=True)
    features_per_tree: int | float | None = parameter(default=None, kw_only=True)
    interactions: Any = parameter(default=None, kw_only=True)


class Startable(CostAware):
    """The base of boosted trees that can start from scores which are no part of the model."""

    @explains_names
    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        qid: Any = None,
        *,
        valid: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        init_scores: Any = None,
        valid_init_scores: Any = None,
    ) -> Self:
        """Learn from labelled documents; gives the estimator itself.

        Parameters
        ----------
        X
            RankingData, BinnedData, a folder of binned data (``rankwood.open_binned``), which bring labels, queries
            and weights with them; or rows × features: an array, a frame, a sparse matrix. NaN is a missing value.
        y
            Labels: finite, not negative.
        qid
            The query of each row, in any order. Point-wise methods need it for whatever looks at queries only.
        valid
            Validation data: RankingData, a folder binned by the bins of the training data, or (X, y, qid); or a
            mapping from names to these, of which the first decides about early stopping.
        sample_weight, query_weight
            A weight per row; a weight per query, by first appearance or as a mapping from its id. They multiply.
        init_scores
            A score of each row that boosting starts from, as of another model. It is no part of the model: add it to
            what ``predict`` gives. Without it scores start from a constant.
        valid_init_scores
            The same for the rows of ``valid``; a mapping from names where ``valid`` is one.
        """
        self._given_starts = (init_scores, valid_init_scores)
        try:
            return super().fit(
                X, y, qid, valid=valid, sample_weight=sample_weight, query_weight=query_weight
            )
        finally:
            del self._given_starts

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        of_train, of_valid = getattr(self, "_given_starts", (None, None))
        sets = self._validation_sets(valid)
        starts = StartScores.of(of_train, of_valid, train.data.n_documents, sets)
        super()._fit(dataclasses.replace(train, starts=starts), valid)


class Dropping(Startable):
    """The base of boosted trees that may leave trees out while the next one is fitted: DART."""

    dropout: float = parameter(default=0.0, kw_only=True)
    skip_dropout: float = parameter(default=0.0, kw_only=True)

    def _completed(
        self, state: BoostingState, train: TrainingSet, plan: BoostingPlan
    ) -> BoostingState:
        if self.dropout == 0.0:
            return state
        if not plan.engine.knows_leaves:
            raise ParameterError(
                "dropout needs the leaf of every row in every tree, which the workers of a cluster have in parts. Set "
                "dropout=0, or train on data in memory or in a folder (rankwood.open_binned)."
            )
        dropout = Dropout(self.dropout, self.skip_dropout, plan.learning_rate, self.seed)
        earlier = state.trees.earlier
        n_trees = 0 if earlier is None else earlier.n_trees
        if earlier is not None and (earlier.tree_weights != dropout.weights(n_trees)).any():
            raise ParameterError(
                "warm_start goes on with the same dropout, skip_dropout, learning_rate and seed; "
                "set warm_start=False to start afresh."
            )
        start = state.trees.base
        valid = None if state.validation is None else state.validation.data
        return DropoutState(
            **vars(state),
            dropout=dropout,
            start_of_train=start if train.starts is None else start + train.starts.train,
            of_train=LeafOutputs.of(earlier, train.data, plan.n_threads),
            of_valid=None if valid is None else LeafOutputs.of(earlier, valid, plan.n_threads),
        )

    def _boost(self, loss: Any, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
        if isinstance(state, DropoutState):
            boost_with_dropout(loss, plan, state, rounds)
        else:
            super()._boost(loss, plan, state, rounds)


def loss_and_plan(estimator: Boosted, train: TrainingSet) -> tuple[Any, BoostingPlan]:
    """The loss and the plan of an estimator on these training rows, for methods that choose among its steps."""
    if not isinstance(estimator, LambdaMART) or estimator.position_bias in (JOINT, ADDITIVE):
        refuse_bias_inside(estimator)  # others are corrected before the loss is made
    return estimator._loss(train), estimator._plan(train)


def trees_after(estimator: RoundRanker, n_rounds: int) -> int:
    """How many trees the estimator's model has after ``n_rounds`` rounds."""
    return estimator._trees_of(n_rounds)


class GBRT(Dropping):
    """Boosted trees for squared loss: each tree fits what the ones before left of the labels (Friedman 2001).

    The method is also known as MART. By default each node sees a random third of the features, and steps are small:
    on collections of every size that ranks better than all features and steps of 0.1, and a tree takes less time.
    ``features_per_node=None`` is the method as it was published.
    """

    _takes_categories = True

    _signature = (
        "n_trees max_leaves learning_rate min_leaf l2 max_depth min_gain features_per_node subsample subsample_by "
        "start early_stopping measure warm_start missing monotone feature_costs cost_weight cost_scale max_bins seed "
        "n_threads progress callbacks checkpoint device l1 features_per_tree interactions dropout skip_dropout "
        "position_bias"
    )
    _regresses = True

    n_trees: int = parameter(default=200)
    learning_rate: float = parameter(default=0.05)
    features_per_node: int | float | None = parameter(default=0.3, kw_only=True)
    start: str = parameter(
        default="mean",
        doc="""Scores begin at the mean label ("mean") or at 0 ("zero").""",
        check=OneOf(("mean", "zero")),
        kw_only=True,
    )

    def _loss(self, train: TrainingSet) -> SquaredLoss:
        return SquaredLoss(train.labels, train.weights, self.start == "mean")


def _check_own_loss(name: str, value: Any) -> None:
    if value is not None and not callable(value):
        raise ParameterError(
            f"{name} must be a function of (scores, data), got {checks.plain(value)}. "
            "A model file keeps the name of a function, not the function: pass it again to train."
        )


class AveragedGBRT(GBRT):
    """The mean of several runs of boosting, each with random features of its own (Mohan 2010, section 2.3.3).

    Run r is a ``GBRT`` of ``n_trees`` trees with a seed that follows from ``seed`` and r. What makes the runs differ is
    ``features_per_node`` (or ``subsample``): where neither draws anything, the runs would be equal and are refused.
    The runs grow round by round, side by side on all cores, and the model is one forest: in each round the trees of
    all runs, with weight ``learning_rate / n_runs``. Progress and ``early_stopping`` count rounds: growing stops when
    the mean of all runs has not improved for so many, and every run keeps the rounds up to the best value. Where
    features cost, one is free for all runs after the round that uses it first.

    Attributes
    ----------
    history_
        The measure of the mean of all runs on the validation data, by round.
    best_iteration_
        How many rounds are kept, of which each gives every run a tree.
    """

    _signature = (
        "n_trees n_runs max_leaves learning_rate min_leaf l2 max_depth min_gain features_per_node subsample "
        "subsample_by start early_stopping measure warm_start missing monotone feature_costs cost_weight cost_scale "
        "max_bins seed n_threads progress callbacks checkpoint device l1 features_per_tree interactions position_bias"
    )
    dropout = 0.0  # runs are averaged instead

    n_runs: int = parameter(
        default=20,
        doc="Runs of boosting that are averaged; the source found 5 or more clearly better than fewer, and 20 best.",
        check=Whole(1),
        kw_only=True,
    )
    n_trees: int = parameter(default=100)
    learning_rate: float = parameter(default=0.1)

    def _boost(self, loss: Any, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
        self._warn_of_equal_runs(state.trees.n_features)
        plans = [self._plan_of_run(plan, run) for run in range(self.n_runs)]
        boost_runs(loss, plans, state, rounds)

    def _plan_of_run(self, plan: BoostingPlan, run: int) -> BoostingPlan:
        """The plan of one run: it has a seed of its own."""
        seed = seed_of_run(self.seed, run)
        bags = None if plan.bags is None else dataclasses.replace(plan.bags, seed=seed)
        return dataclasses.replace(plan, seed=seed, bags=bags)

    def _tree_weight(self, plan: BoostingPlan) -> float:
        return plan.learning_rate / self.n_runs

    def _totals(self, data: RankingData, earlier: Forest | None) -> Sequence[Floats]:
        return totals_of_runs(earlier, self.n_runs, float(self.learning_rate), data)

    def _earlier(
        self, data: RankingData, checkpoint: Checkpoint
    ) -> tuple[Forest | None, list[float] | None]:
        forest, history = super()._earlier(data, checkpoint)
        if forest is not None and (forest.tree_weights != self.learning_rate / self.n_runs).any():
            raise ParameterError(
                "warm_start goes on with the same n_runs and learning_rate; "
                "set warm_start=False to start afresh."
            )
        return forest, history

    def _trees_of(self, n_rounds: int) -> int:
        return n_rounds * self.n_runs

    def _rounds_of(self, n_trees: int) -> int:
        return n_trees // self.n_runs

    def _warn_of_equal_runs(self, n_features: int) -> None:
        choice = FeatureChoice(self.features_per_node, per_tree=self.features_per_tree)
        sees_all = choice.count(choice.count_of_tree(n_features)) == n_features
        if self.n_runs > 1 and sees_all and self.subsample == 1.0:
            warnings.warn(
                f"with features_per_node={self.features_per_node!r} of {n_features} features every node "
                f"sees all of them: the {self.n_runs} runs are equal. Ask for fewer, or set subsample below 1.",
                DataWarning,
                stacklevel=3,
            )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        sees_all = not any(map(leaves_some_out, (self.features_per_node, self.features_per_tree)))
        is_share = not isinstance(self.features_per_node, int)
        if self.n_runs > 1 and sees_all and is_share and self.subsample == 1.0:
            raise ParameterError(
                f"with features_per_node={self.features_per_node!r} and subsample=1.0 nothing is random and all "
                f"{self.n_runs} runs are equal. Set features_per_node, to 0.3 say, or subsample, or use GBRT."
            )


def seed_of_run(seed: int, run: int) -> int:
    """The seed of one run; each is the model of a ``GBRT`` with it."""
    return stream_number(seed, "run", run)


class LambdaMART(Dropping):
    """Boosted trees on LambdaRank's gradients, with Newton's step in every leaf (Wu et al. 2010, Burges 2010).

    Documents of one query are compared in pairs, each weighed by how much a measure changes when the two swap. Needs
    query ids.

    Attributes
    ----------
    position_bias_
        With ``position_bias="joint"`` or ``"additive"``: pairs of a position and its estimate at the end; for "joint"
        the chance that it is looked at relative to the top, for "additive" the score that was added.
    position_history_
        These estimates after each tree.
    """

    _takes_categories = True

    _signature = (
        "n_trees max_leaves learning_rate min_leaf l2 target truncation normalise sigma min_hessian loss max_depth "
        "min_gain features_per_node subsample subsample_by early_stopping measure warm_start missing monotone "
        "feature_costs cost_weight cost_scale max_bins seed n_threads progress callbacks checkpoint device l1 "
        "features_per_tree interactions dropout skip_dropout position_bias"
    )

    l2: float = parameter(
        default=5.0, doc="Added to the hessian of a leaf: larger values pull leaves towards 0."
    )
    target: str = parameter(
        default="ndcg",
        doc="""The measure whose changes weigh the pairs: ndcg, map, mrr or err, with cut-off and conventions, as in
        "ndcg@10[gain=linear]".""",
        check=lambda _, value: parse_target(value),
    )
    truncation: int | None = parameter(
        default=30,
        doc="One document of a pair must stand among so many first ranks; None takes all pairs.",
        check=OrNone(Whole(1)),
    )
    normalise: bool = parameter(
        default=True,
        doc="""Whether a query's gradients are scaled, and pairs far apart weigh less, as LightGBM's lambdarank_norm
        does.""",
        check=checks.true_or_false,
    )
    sigma: float = parameter(
        default=1.0, doc="How steep the pairs' logistic is.", check=Real("(0, inf)")
    )
    min_hessian: float = parameter(
        default=1e-3,  # LightGBM's min_sum_hessian_in_leaf
        doc="Least sum of hessians in a leaf.",
        check=Real("[0, inf)"),
    )
    loss: Gradients | None = parameter(
        default=None,
        doc="""A loss of your own in place of the pairs: a function of (scores, data) that gives gradient and hessian of
        each row. The five parameters above but ``min_hessian`` are then not looked at.""",
        check=_check_own_loss,
    )
    position_bias: Any = parameter(
        default=None,
        doc="""For click logs, whose data have positions: "joint" estimates the bias beside the trees, by the costs of
        pairs (Unbiased LambdaMART); "additive" learns a score per position that is left out of the model; what
        ``rankwood.position_bias`` estimates, or the path of a saved one, corrects the gains of the pairs. ``predict``
        needs no positions. None takes clicks as labels like any other.""",
        check=check_pair_bias,
        kw_only=True,
    )
    subsample: float = parameter(default=1.0, doc=_SUBSAMPLED_PAIRS, kw_only=True)
    subsample_by: str = parameter(default="row", doc=_SUBSAMPLED_PAIRS, kw_only=True)

    def _loss(self, train: TrainingSet) -> HasGradients:
        if self.loss is not None:
            return OwnLoss(self.loss, train.data, train.weights)
        bias = self.position_bias
        pairs = (
            train.data,
            self.target,
            train.weights,
            self.sigma,
            self.truncation,
            self.normalise,
            self.n_threads,
        )
        if bias is None:
            return LambdaRank(*pairs)
        if isinstance(bias, str) and bias == JOINT:
            return JointPairs(*pairs)
        if isinstance(bias, str) and bias == ADDITIVE:
            return AdditivePositions(*pairs, learning_rate=float(self.learning_rate))
        return CorrectedPairs(*pairs, bias=as_propensities(bias))

    def _weighed(self, data: RankingData) -> RankingData:
        return data  # the pairs are weighed, not the rows

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.loss is not None and self.position_bias is not None:
            raise ParameterError(
                "position_bias corrects LambdaMART's own pairs: leave it out where loss is given."
            )

    def _boost(self, loss: Any, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
        self._positions = loss if isinstance(loss, LearnsPositions) else None
        if self._positions is not None:
            for scores in state.fitted_at(loss.data):  # a fit that goes on learns positions again
                loss.gradients(scores)
        super()._boost(loss, plan, state, rounds)

    def _keep(self, state: BoostingState) -> None:
        super()._keep(state)
        loss = self._positions
        del self._positions
        for name in ("position_bias_", "position_history_"):  # of a fit before
            self.__dict__.pop(name, None)
        if loss is not None and state.trees:
            kept = loss.estimates[: self.forest_.n_trees]
            self.position_history_ = [
                [list(pair) for pair in zip(loss.known.tolist(), values, strict=True)]
                for values in kept
            ]
            self.position_bias_ = self.position_history_[-1] if kept else []
