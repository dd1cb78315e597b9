"""``DeepForest``: layers of forests, each of which also sees the scores of the layer before it."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.engines.engine import CPU
from rankwood.errors import DataError, ParameterError
from rankwood.measures.measure import Measure, parse_measure
from rankwood.models.cascade import need_queries, read_forms
from rankwood.rankers.base import (
    SCORED_BY,
    Ranker,
    check_parameters,
    estimates_labels,
    trains_on_bins,
)
from rankwood.rankers.boosted import LambdaMART
from rankwood.rankers.deep_forest.growing import (
    ALL_LAYERS,
    BOOSTS,
    JUDGED_ON,
    NO_BETTER,
    CascadePlan,
    CascadeState,
    RowSelection,
    checkpoint_rules,
    choice_for,
    grow_cascade,
    held_out_value,
    resume_cascade,
    save_cascade,
    trimmed,
)
from rankwood.rankers.deep_forest.layers import (
    LayerColumns,
    LayerPlan,
    Room,
    grades_of,
    is_bagged,
    original_columns,
)
from rankwood.rankers.forests import CompletelyRandomForest, ForestRanker, RandomForest
from rankwood.rankers.ordinal import OrdinalRanker
from rankwood.rankers.parameters import (
    SEED_AND_THREADS,
    OneOf,
    OrNone,
    Real,
    Whole,
    leaves_or_auto,
    parameter,
)
from rankwood.training.forest import AUTO, FEWEST, LeavesSearch, chosen_leaves
from rankwood.training.inputs import rows_that_count, weights_of_rows
from rankwood.training.record import record_of_bins
from rankwood.training.rounds import (
    BEST,
    Callback,
    CheckpointFile,
    Rounds,
    digest_of_fit,
    plain_parameters,
)
from rankwood.trees.grower import FeatureChoice, Growth, Policies

_LAYERS = ("forests", "lambdamart")
_N_TREES = {"forests": 80, "lambdamart": 300}  # the paper's best on large collections
_MOST_LAYERS = 100
_AUGMENTS = ("forests", "grades", "trees")
_BAGS = ("auto", "query", "row")
_REFUSED = {  # parameters of a base learner that a layer cannot honour, and why
    "monotone": "scores of later layers follow augmented features, for which nothing was promised",
    "early_stopping": "a layer has no validation data of its own",
    "checkpoint": "all layers would share it",
}

_RUN = SEED_AND_THREADS + " Seeds of the rankers of a list follow from ``seed``."
_LISTENERS = """Functions that are told of every ranker: see ``Progress``. If a callback returns True, the fit ends with
    the layer at hand."""


def _check_layer(_: str, value: Any) -> None:
    if isinstance(value, str):
        checks.one_of("layer", value, _LAYERS)
    elif not isinstance(value, list | tuple) or not value:
        raise ParameterError(
            f"layer must be one of {', '.join(_LAYERS)}, or a list of at least one ranker, "
            f"got {checks.plain(value)}."
        )


def _check_passes(_: str, value: Any) -> None:
    read_forms(value)


class DeepForest(Ranker):
    """Layers of forests: each layer sees the features and the scores of the layer before it (Deep Forest for ranking).

    Scores of training rows come from trees, or models, that have not seen the row. After each layer the cascade is
    judged as if it ended there. A layer replaces the best one before it only if it is ahead of it out of bag and on the
    validation data; growing ends once ``patience`` layers were not.

    Attributes
    ----------
    cascade_
        The layers kept, as a ``Cascade``.
    max_leaves_
        The most leaves that trees of the random forests could have; None without a limit.
    layers_
        For each layer grown: its measure, that of its held-out scores, its lead over the best layer before it and the
        standard error of that (on held-out scores and on the validation data), whether it was ahead, its seconds, rows,
        models, trees, leaves, bytes, how many columns it passed on, whether it was kept, and a note where ``boost``
        left it no rows.
    history_
        The measure on the validation data after each layer; empty without validation data.
    best_iteration_
        How many layers were kept.
    stopped_because_
        Why there are no more layers.
    oob_scores_, oob_ndcg_
        Held-out scores of the training rows by the last layer kept, and their NDCG@10.
    feature_importances_
        The share of each feature in the gain of all splits; those on scores of earlier layers are left out.
    """

    _signature = (
        "layer n_forests n_trees max_leaves min_split features_per_node max_layers patience measure n_folds augment "
        "select keep_augmented boost alpha beta bag judged_on lead passes fold_models max_bins seed n_threads progress "
        "callbacks checkpoint device position_bias"
    )
    _model = "cascade_"

    layer: str | Sequence[Any] = parameter(
        default="forests",
        doc="""The rankers of a layer: "forests" (half random forests, half completely random ones, all on bootstrap
        samples of ``bag``), "lambdamart" (LambdaMARTs that differ by seed, 0.8 of the queries per tree and half the
        features per node), or a list of rankers, which may be scikit-learn regressors or LightGBM rankers.""",
        check=_check_layer,
    )
    n_forests: int = parameter(
        default=8,
        doc="""Rankers per layer; of an odd number of forests the greater half is random forests. Not for a list.""",
        check=Whole(1),
    )
    n_trees: int | None = parameter(
        default=None,
        doc="""Trees of each ranker; None is 80 for "forests", 300 for "lambdamart". Not for a list.""",
        check=OrNone(Whole(1)),
    )
    max_leaves: int | str | None = parameter(
        default=AUTO,
        doc="""Most leaves of a tree of the random forests of "forests"; None is no limit, as in the source. "auto" is
        what a ``RandomForest`` chooses for the original features, once for all layers.""",
        check=leaves_or_auto,
    )
    min_split: int = parameter(
        default=11,
        doc="""Different rows a node of the completely random forests of "forests" must have to be split; 1 is no limit,
        as in the source.""",
    )
    features_per_node: int | float | None = parameter(
        default=0.3,
        doc="""Features a node of the random forests of "forests" looks at: a number, a share, or None for all.""",
    )
    max_layers: int = parameter(
        default=20, doc="Most layers, at most 100.", check=Whole(1, _MOST_LAYERS)
    )
    patience: int | None = parameter(
        default=3,
        doc="""Layers that are not ahead of the best after which growing ends; None grows ``max_layers`` and keeps them
        all.""",
        check=OrNone(Whole(1)),
    )
    measure: str = parameter(
        default="ndcg@10",
        doc="What layers are compared by, see ``judged_on``. Without query ids it is rmse.",
    )
    n_folds: int = parameter(
        default=3,
        doc="""Parts of the queries (of the rows, without query ids) for held-out scores of rankers that have no
        bags, and of single trees.""",
        check=Whole(2),
    )
    augment: str = parameter(
        default="forests",
        doc="""What goes to the next layer: the score of each ranker ("forests"), the probability of each grade by each
        ranker ("grades": class vectors; forests and OrdinalRanker only), or the score of each tree ("trees": forests
        only; those of training rows come from forests of the other folds).""",
        check=OneOf(_AUGMENTS),
    )
    select: str | None = parameter(
        default=None,
        doc=""""pareto" passes on those trees only that no other beats in both held-out NDCG@10 and mean
        correlation.""",
        check=OrNone(OneOf(("pareto",))),
    )
    keep_augmented: bool = parameter(
        default=False,
        doc="Whether scores go to all later layers, not to the next one only.",
        check=checks.true_or_false,
    )
    boost: str | None = parameter(
        default=None,
        doc=""""query": only queries with an NDCG@10 below ``alpha`` train the next layer. "document": only documents
        whose share of wrong neighbours is above ``beta``.""",
        check=OrNone(OneOf(BOOSTS)),
    )
    alpha: float = parameter(default=0.3, doc="The limits of ``boost``.", check=Real("[0, 1]"))
    beta: float = parameter(default=0.7, doc="The limits of ``boost``.", check=Real("[0, 1]"))
    bag: str = parameter(
        default="auto",
        doc="""What is drawn for a tree of "forests": "query" (whole queries), "row", or "auto": queries where there are
        any. Out of bag by row is not honest where features tell which query a row is of.""",
        check=OneOf(_BAGS),
    )
    judged_on: str = parameter(
        default="both",
        doc="""Where a layer must be ahead of the best one to replace it: on the held-out scores of the training data
        and on the validation data ("both"), or on one of them ("held_out", "valid"). Without validation data held-out
        scores decide.""",
        check=OneOf(JUDGED_ON),
    )
    lead: float = parameter(
        default=1.0,
        doc="""By how many standard errors of the paired differences by query a layer must be ahead on held-out scores
        (on the validation data where only those are judged); elsewhere anything above 0 is ahead.""",
        check=Real("[0, 100]"),
    )
    passes: str = parameter(
        default="scores",
        doc="""In which forms outputs go to the next layer, joined by "+": "scores" (as they are), "standard" (standard
        deviations from the mean of the query), "ranks" (the share of the query's documents below), "gaps" (the distance
        to the best of the query). All but scores need query ids, in ``predict`` too.""",
        check=_check_passes,
    )
    fold_models: str = parameter(
        default="refit",
        doc="""What is kept of rankers without bags: one that is trained again on all rows ("refit"), or the mean of the
        folds' models ("average"; tree ensembles only), which new rows then get their scores from.""",
        check=OneOf(("refit", "average")),
    )
    max_bins: int = parameter(default=255, kw_only=True)
    seed: int = parameter(default=0, doc=_RUN, kw_only=True)
    n_threads: int | None = parameter(default=None, doc=_RUN, kw_only=True)
    progress: Callback | None = parameter(default=None, doc=_LISTENERS, kw_only=True)
    callbacks: Sequence[Callback] = parameter(default=(), doc=_LISTENERS, kw_only=True)
    checkpoint: str | os.PathLike[str] | None = parameter(
        default=None,
        doc="""A file that keeps the layers so far, written after each layer; a fit that finds one there goes on with
        it. Not for rankers of other libraries.""",
        kw_only=True,
    )
    device: str = parameter(default=CPU, kw_only=True)

    @classmethod
    def lambdamart(cls, n: int = 8, n_trees: int = 300, **parameters: Any) -> Self:
        """DF-LM: a cascade whose layers are ``n`` LambdaMARTs of ``n_trees`` trees."""
        return cls("lambdamart", n, n_trees, **parameters)

    def _learn(self, X: Any, data: RankingData, valid: RankingData | None) -> None:  # noqa: N803
        learners = self._learners(by_query=data.query_ids is not None)
        measure = self._measure(data, valid)
        forms = self._forms(data, valid)
        room = Room(
            self.max_bins,
            self._n_augmented(learners, data) * len(forms),
            not all(trains_on_bins(learner) for learner in learners),
            self.n_threads,
            self.device,
        )
        columns = original_columns(X, data, valid, room)
        rows = columns.training_set(np.ones(data.n_documents, bool))
        self._data_record = record_of_bins(data, columns.original, rows.engine)
        if self.layer == "forests":
            self.max_leaves_ = self._leaves(columns, valid)
            learners[0].set_params(max_leaves=self.max_leaves_)  # all random forests are this one
        layer = LayerPlan(
            learners,
            self.n_folds,
            self.seed,
            self.n_threads,
            "trees" if self._passes_trees else self.augment,
            self.fold_models == "average",
        )
        plan = CascadePlan(
            layer,
            RowSelection(self.boost, float(self.alpha), float(self.beta)),
            self.select,
            bool(self.keep_augmented),
            measure,
            self.max_layers,
            forms,
        )
        self._grow(plan, columns)

    def _grow(self, plan: CascadePlan, columns: LayerColumns) -> None:
        """Grow the cascade and set the attributes that follow from it."""
        data = columns.train.data
        present = rows_that_count(weights_of_rows(data))
        is_trained = np.ones(data.n_documents, bool) if present is None else present
        choice = choice_for(plan.measure, self.patience, self.judged_on, float(self.lead))
        state = CascadeState(choice, is_trained)
        checkpoint = self._checkpoint_of(columns, plan.layer.learners)
        saved = checkpoint.read(checkpoint_rules(data.n_documents))
        if saved is not None:
            with checkpoint.explained():
                resume_cascade(columns, state, *saved)
        n_learners, done = len(plan.layer.learners), len(state.layers)
        rounds = Rounds(
            self._reporter(plan.max_layers * n_learners, done * n_learners),
            total=plan.max_layers,
            done=done,
            stopping=state.choice,
            judges_last=True,
            save=checkpoint.saver(functools.partial(save_cascade, plan, columns, state)),
            seconds_between=0.0,  # a layer takes long
            all_done=ALL_LAYERS,
            no_better=NO_BETTER,
        )
        grow_cascade(plan, columns, state, rounds)
        self.cascade_ = trimmed(state, data, plan)
        self.best_iteration_ = state.n_kept
        for number, report in enumerate(state.reports, start=1):
            report["kept"] = number <= state.n_kept
        self.layers_ = state.reports
        self.history_ = [] if columns.valid is None else list(choice.history)
        self.stopped_because_ = rounds.stopped_because
        if rounds.stopped_because == NO_BETTER:
            self.stopped_because_ = choice.reason(len(state.layers) - choice.n_best)
        self.oob_scores_ = state.held_out
        self.oob_ndcg_ = None
        if data.query_ids is not None and state.held_out is not None:
            self.oob_ndcg_ = held_out_value(parse_measure(SCORED_BY), state.held_out, data)

    def _checkpoint_of(self, columns: LayerColumns, learners: Sequence[Any]) -> CheckpointFile:
        """The checkpoint; rankers of other libraries are refused, since no file of ours can hold them."""
        for index, learner in enumerate(learners):
            if self.checkpoint is not None and not isinstance(learner, Ranker):
                raise ParameterError(
                    f"layer[{index}] ({type(learner).__name__}) cannot be written to a checkpoint: leave out "
                    "checkpoint, or use estimators of ours."
                )

        def digest() -> str:
            everything = np.ones(columns.train.data.n_documents, bool)
            valid = None if columns.valid is None else columns.valid.data
            return digest_of_fit(columns.training_set(everything), valid)

        parameters = functools.partial(plain_parameters, self)
        return CheckpointFile(self.checkpoint, type(self).__name__, parameters, digest)

    def predict_layers(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """The scores that each layer gives, as if it were the last: rows × layers."""
        table = self._table(X)
        return self.cascade_.predict_layers(table, n_threads=self.n_threads)

    def _learners(self, *, by_query: bool = True) -> list[Any]:
        """The rankers of a layer, unfitted; ``by_query`` says whether there are queries to draw."""
        if not isinstance(self.layer, str):
            return list(self.layer)
        n_trees = _N_TREES[self.layer] if self.n_trees is None else self.n_trees
        if self.layer == "lambdamart":
            base = LambdaMART(n_trees, subsample=0.8, subsample_by="query", features_per_node=0.5)
            return [base] * self.n_forests
        bag = ("query" if by_query else "row") if self.bag == "auto" else self.bag
        n_blind = self.n_forests // 2
        sighted = RandomForest(
            n_trees,
            max_leaves=self.max_leaves,
            features_per_node=self.features_per_node,
            bag=bag,
        )
        blind = CompletelyRandomForest(n_trees, bag=bag, min_split=self.min_split)
        return [sighted] * (self.n_forests - n_blind) + [blind] * n_blind

    def _leaves(self, columns: LayerColumns, valid: RankingData | None) -> int | None:
        """The most leaves of a tree of the random forests; "auto" looks at the original features."""
        if not isinstance(self.max_leaves, str):
            return self.max_leaves
        data = columns.train.data
        present = rows_that_count(weights_of_rows(data))
        train = columns.training_set(
            np.ones(data.n_documents, bool) if present is None else present
        )
        policies = Policies(Growth(FEWEST), FeatureChoice(self.features_per_node))
        return chosen_leaves(
            LeavesSearch(policies, train, valid, seed=self.seed, n_threads=self.n_threads)
        )

    @property
    def _passes_trees(self) -> bool:
        """Whether single trees are passed on: a choice among them implies it."""
        return self.augment == "trees" or self.select is not None

    def _n_augmented(self, learners: Sequence[Any], data: RankingData) -> int:
        """How many outputs a layer passes on, at most."""
        if self.max_layers == 1:
            return 0
        if self._passes_trees:
            return sum(learner.n_trees for learner in learners)
        if self.augment == "grades":
            present = rows_that_count(weights_of_rows(data))
            everything = np.ones(data.n_documents, bool) if present is None else present
            return len(learners) * grades_of(data, everything).size
        return len(learners)

    def _forms(self, data: RankingData, valid: RankingData | None) -> tuple[str, ...]:
        """The forms that outputs are passed on in; an error where they need queries that are not there."""
        forms = read_forms(self.passes)
        for name, part in (("the training data", data), ("valid", valid)):
            if need_queries(forms) and part is not None and part.query_ids is None:
                raise DataError(
                    f"{name} have no query ids, and passes='{self.passes}' relates documents to the others of their "
                    "query. Pass qid, or passes='scores'."
                )
        return forms

    def _measure(self, data: RankingData, valid: RankingData | None) -> Measure:
        if data.query_ids is None:
            return parse_measure("rmse")
        measure = parse_measure(self.measure)
        if valid is not None and valid.query_ids is None and measure.needs_queries:
            raise DataError(
                f"valid has no query ids, which {measure} needs. Pass (X, y, qid), or measure='rmse'."
            )
        return measure

    @property
    def _estimates_labels(self) -> bool:
        return all(map(estimates_labels, self._learners()))

    def _estimates_out_of_bag(self) -> bool:
        return True

    def _as_chosen(self) -> dict[str, Any]:
        return {"max_layers": self.cascade_.n_layers, "patience": None}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._passes_trees and self.fold_models == "average":
            raise ParameterError(
                "fold_models='average' gives a forest more trees than its folds' forests have, so that single trees "
                "cannot be passed on. Use fold_models='refit'."
            )
        for index, learner in enumerate(self._learners()):
            self._check_learner(index, learner)

    def _check_learner(self, index: int, learner: Any) -> None:
        """Raise for what cannot be a ranker of a layer."""
        name = type(learner).__name__
        is_ranker = all(callable(getattr(learner, verb, None)) for verb in ("fit", "predict"))
        if isinstance(learner, type) or not is_ranker:
            shown = f"the class {learner.__name__}" if isinstance(learner, type) else name
            raise ParameterError(
                f"layer[{index}] must be an object with fit and predict, got {shown}."
            )
        if isinstance(learner, DeepForest):
            raise ParameterError(f"layer[{index}] is a DeepForest; cascades do not nest.")
        for refused, why in _REFUSED.items():
            if isinstance(learner, Ranker) and getattr(learner, refused, None) not in (None, BEST):
                raise ParameterError(f"layer[{index}] ({name}) has {refused} set, but {why}.")
        if isinstance(learner, Ranker):
            check_parameters(learner)
            if self.device != CPU and getattr(learner, "interactions", None) is not None:
                raise ParameterError(  # else those before it would be fitted first
                    f"layer[{index}] ({name}) has interactions set, but the CUDA engine (device='{self.device}') "
                    "cannot grow trees with groups of features that may meet. Use device='cpu'."
                )
        self._check_outputs(f"layer[{index}] ({name})", learner)

    def _check_outputs(self, shown: str, learner: Any) -> None:
        """Raise for a ranker that cannot give what is to be passed on."""
        if self._passes_trees and not isinstance(learner, ForestRanker):
            raise ParameterError(
                f"{shown} is no forest, whose trees are estimates each. Use augment='forests', or forests."
            )
        is_graded = isinstance(learner, ForestRanker | OrdinalRanker)
        if self.augment == "grades" and not self._passes_trees and not is_graded:
            raise ParameterError(
                f"{shown} does not tell the probability of a grade. Use augment='forests', or forests or OrdinalRanker."
            )
        is_summed = is_bagged(learner) or trains_on_bins(learner)
        if self.fold_models == "average" and not is_summed:
            raise ParameterError(
                f"{shown} is no sum of trees, so that its folds' models have no mean. Use fold_models='refit'."
            )
