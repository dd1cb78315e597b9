"""``BROOF``: boosted random forests for ranking (Sá 2016, Generalized BROOF-L2R; Sá et al., SIGIR 2016)."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array
from rankwood.engines.bags import UNITS
from rankwood.engines.engine import CPU
from rankwood.errors import DataError, ParameterError, RankwoodWarning
from rankwood.losses.lambdarank import parse_target
from rankwood.losses.placement import REGIONS
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, is_minimised, parse_measure
from rankwood.rankers.base import SCORED_BY, Ranker
from rankwood.rankers.broof.state import (
    BroofState,
    Combination,
    QueryFolds,
    RoundForests,
    RoundJudge,
    check_folds,
    most_draws,
)
from rankwood.rankers.broof.strategies import (
    INITIAL_WEIGHTS,
    LOSSES,
    NORMALIZATIONS,
    UPDATES,
    VALIDATIONS,
    KindSettings,
    PairSettings,
    Strategy,
    checked_predictions,
    checked_update,
    initialize_weights,
    is_additive,
    kind_of,
)
from rankwood.rankers.parameters import OneOf, OrNone, Real, Whole, leaves_or_auto, parameter
from rankwood.training.forest import AUTO, FEWEST, LeavesSearch, with_chosen_leaves
from rankwood.training.inputs import TrainingSet, directions, training_costs
from rankwood.training.rounds import NO_BETTER, Callback, Checkpoint, EarlyStopping, Rounds
from rankwood.trees.grower import FeatureChoice, Growth, Policies

TOO_WRONG = "the error of a forest is too large"
NO_BETTER_OUT_OF_BAG = "early stopping: the out-of-bag measure has not improved"
FIRST_KEPT = (
    "; no round was ahead of the first forest by more than a standard error, so it was kept alone"
)
TREES_OF_A_STEP = 50  # a round of gradient or lambda, of which a tenth is taken
TREES_OF_A_FOREST = 300  # a round of the others; the papers' number
PATIENCE_OF_STEPS, PATIENCE_OF_FORESTS = 20, 5  # rounds; those of steps are smaller and many
LEAST_QUERIES = 20  # fewer are not drawn as wholes
BASES = {"forest": "best", "extra": "random"}  # the trees of a round, by their rule of thresholds
_STOPPING = """Stop when the measure, on validation data ("valid") or out of bag ("oob"), has not improved for
    ``patience`` rounds (None: 20 for gradient and lambda, 5 for the others), and keep the rounds up to the best value.
    "auto" looks at the validation data where they are given, and out of bag where not; stop=None grows all rounds and
    keeps them. The kinds that re-weight rows keep their first forest alone unless the best value is ahead of it by more
    than a standard error, and a forest whose mean error is 0.5 or more ends their rounds, whatever ``stop`` says."""
_LIMITS = """Where a tree ends: splits from the root, rows in a leaf, what a split must remove of the sum of squares.
    None is no limit."""
_LEAVES = """Most leaves of a tree. None is no limit; "auto" is what a ``RandomForest`` of these trees chooses for the
    labels."""
_BAG = """What is drawn for a tree, with replacement: "row", "query" (whole queries) or "auto" (queries where there are
    20 or more of them, else rows); how much, as a share of them. A row's out-of-bag prediction is honest where whole
    queries are drawn: else trees may have seen the query by its other documents. With bag=None every tree sees all
    rows, and no row is out of bag."""
_PAIRS = "For lambda, whose pairs of documents weigh as in ``LambdaMART``: "
_WITHOUT_BAGS = {
    "validation": "'train'",
    "update_weights": "'train'",
    "stop": "'valid'",
}  # instead of "oob"
_RESUME = "A file that keeps the rounds so far; a fit that finds one there goes on with it."
_LISTENERS = """Functions that are told of every round: see ``Progress``. A callback that returns True ends the
    growing."""


def broof(
    parts: Strategy,
    forests: RoundForests,
    state: BroofState,
    rounds: Rounds,
) -> None:
    """Algorithm 1 of Sá (2016), from the weights that ``state`` begins with to the forests it ends with."""
    if state.is_over:
        rounds.stop(TOO_WRONG)
    for number in rounds:
        targets, masses = parts.update_examples(state.scores)
        forest = forests.fit(number, targets, masses, state.weights)
        predictions = parts.validation_set(forest)
        errors, error, beta = parts.learner_weights(targets, predictions, state.weights)
        state.is_over = parts.is_too_wrong(error)
        if state.is_over and state.n_rounds > 0:
            state.discard(error)
            rounds.stop(TOO_WRONG)
            break
        state.add(forest, predictions, error, beta)
        state.weights = parts.update_weights(state.weights, targets, forest, errors, beta)
        record = state.history[-1]
        notes = {name: value for name, value in record.items() if value is not None}
        rounds.finish(record["valid"], notes)
        if state.is_over:
            rounds.stop(TOO_WRONG)


@dataclass(frozen=True)
class NameOrFunction:
    """One of the known names of an extension point, or something to be called in its place."""

    known: Iterable[str]

    def __call__(self, name: str, value: Any) -> object:
        """Raise for other values."""
        return value if callable(value) else checks.one_of(name, value, self.known)


def _check_loss(name: str, value: Any) -> None:
    if isinstance(value, str) or not (callable(value) or hasattr(value, "targets")):
        checks.one_of(name, value, LOSSES)


class BROOF(Ranker):
    """Boosted random forests: each round grows a forest, and the next looks harder at what it got wrong (Sá 2016).

    Attributes
    ----------
    max_leaves_
        The most leaves that trees could have; None without a limit.
    history_
        A record per round: ``error`` (ε), ``beta`` (β), the measure out of bag (``oob``) and on validation data
        (``valid``), and how many rows no tree has left out (``without_oob``). None where there is no such figure.
    best_iteration_
        How many rounds the model has.
    stopped_because_
        Why there are no more rounds, and where the first forest was kept alone, why.
    weights_
        What each training row weighed in the end; the sum is 1.
    oob_scores_, oob_ndcg_
        For each training row the score from trees that have not seen it, NaN where there are none; NDCG@10 of these.
    feature_importances_
        The share of each feature in the gain of all splits.
    """

    _takes_categories = True

    _signature = (
        "loss n_rounds n_trees learning_rate validation update_weights initial_weights weighting normalize region "
        "n_folds stop patience measure max_leaves max_depth min_leaf min_gain features_per_node bag bag_share missing "
        "monotone feature_costs cost_weight cost_scale cost_batch max_bins seed n_threads progress callbacks "
        "checkpoint base target truncation normalise sigma device position_bias"
    )

    loss: Any = parameter(
        default="gradient",
        doc="""How wrong a forest is about a document, and so what the next one is to look at. "absolute", "median" and
        "height" change the weights of the rows; "gradient" fits what is left of the labels, "lambda" the gradients of
        LambdaRank. Or a function ``errors(predictions, data)``, or an object with ``targets(scores, data)``.""",
        check=_check_loss,
    )
    n_rounds: int = parameter(default=100, doc="Number of forests, or the most there may be.")
    n_trees: int | None = parameter(
        default=None,
        doc="""Trees of each forest. None: 50 for gradient and lambda, 300 for the others, whose first forest should be
        good by itself.""",
        check=OrNone(Whole(1)),
    )
    learning_rate: float | None = parameter(
        default=None,
        doc="""What is taken of each forest (gradient, lambda), or a factor of β (the others). None: 0.1 for gradient
        and lambda, 1 for the others.""",
        check=OrNone(Real("(0, 1]")),
    )
    validation: Any = parameter(
        default="oob",
        doc="""Whose predictions of the training rows errors and residues are taken from: the trees that have not drawn
        the row ("oob"), all trees ("train"), or trees that have not seen the query ("query-folds").""",
        check=NameOrFunction(VALIDATIONS),
    )
    update_weights: Any = parameter(
        default=None,
        doc="""Weights of the rows follow the errors of out-of-bag predictions ("oob") or of training predictions
        ("train"), or stay ("constant"). None: "constant" for gradient and lambda, "oob" for the others. Or a function
        ``weights(weights, errors, beta)``.""",
        check=OrNone(NameOrFunction(UPDATES)),
    )
    initial_weights: Any = parameter(
        default="uniform",
        doc="""All rows alike ("uniform") or at random ("dirichlet"), times their own weights. Or a function
        ``weights(data)``.""",
        check=NameOrFunction(INITIAL_WEIGHTS),
    )
    weighting: str = parameter(
        default="reweight",
        doc="""Weights count in splits and leaves ("reweight", the papers' boosting by re-weighting), or are chances of
        being drawn ("resample"). By resampling, weights are clipped so that every row is left out by some tree.""",
        check=OneOf(("reweight", "resample")),
    )
    normalize: str | None = parameter(
        default="max",
        doc="""Errors are divided by the greatest of the round ("max"), or taken as they are (None).""",
        check=OrNone(OneOf(("max",))),
    )
    region: str = parameter(
        default="place",
        doc="""For median: the region of a grade is where its documents should stand ("place"), or those documents
        wherever they stand ("grade"): errors are distances of predictions. "position": distances of ranks, from the
        document's own to the median rank of where its grade should stand.""",
        check=OneOf(REGIONS),
    )
    n_folds: int = parameter(
        default=5,
        doc="""Parts that queries are dealt into for validation="query-folds".""",
        check=Whole(2),
    )
    stop: str | None = parameter(
        default="auto", doc=_STOPPING, check=OrNone(OneOf(("auto", "oob", "valid")))
    )
    patience: int | None = parameter(default=None, doc=_STOPPING, check=OrNone(Whole(1)))
    measure: str = parameter(
        default="ndcg@10",
        doc="What rounds are judged by: any measure; rmse is to fall, the others are to rise.",
    )
    max_leaves: int | str | None = parameter(default=AUTO, doc=_LEAVES, check=leaves_or_auto)
    max_depth: int | None = parameter(default=None, doc=_LIMITS)
    min_leaf: int = parameter(default=1, doc=_LIMITS)
    min_gain: float = parameter(default=0.0, doc=_LIMITS)
    features_per_node: int | float | None = parameter(default=0.3)
    bag: str | None = parameter(default="auto", doc=_BAG, check=OrNone(OneOf(("auto", *UNITS))))
    bag_share: float = parameter(default=1.0, doc=_BAG, check=Real("(0, 1]"))
    missing: str = parameter(default="learned")
    monotone: Any = parameter(default=None)
    feature_costs: Any = parameter(default=None)
    cost_weight: float = parameter(default=0.01)
    cost_scale: str = parameter(default="relative")
    cost_batch: int = parameter(default=8)
    max_bins: int = parameter(default=255)
    seed: int = parameter(default=0)
    progress: Callback | None = parameter(default=None, doc=_LISTENERS, kw_only=True)
    callbacks: Sequence[Callback] = parameter(default=(), doc=_LISTENERS, kw_only=True)
    checkpoint: str | os.PathLike[str] | None = parameter(default=None, doc=_RESUME, kw_only=True)
    device: str = parameter(default=CPU, kw_only=True)
    base: str = parameter(
        default="forest",
        doc="""What is boosted: random forests ("forest"), or extremely randomized trees ("extra"), whose cuts are drawn
        at random.""",
        check=OneOf(BASES),
        kw_only=True,
    )
    target: str = parameter(
        default="ndcg",
        doc=_PAIRS + "the measure whose changes weigh the pairs.",
        check=lambda _, value: parse_target(value),
        kw_only=True,
    )
    truncation: int | None = parameter(
        default=30,
        doc=_PAIRS + "one document of a pair must stand among so many first ranks; None: any.",
        check=OrNone(Whole(1)),
        kw_only=True,
    )
    normalise: bool = parameter(
        default=True,
        doc=_PAIRS + "whether a query's gradients are scaled, and pairs far apart weigh less.",
        check=checks.true_or_false,
        kw_only=True,
    )
    sigma: float = parameter(
        default=1.0,
        doc=_PAIRS + "how steep the pairs' logistic is. A row's step is at most 1 / sigma.",
        check=Real("(0, inf)"),
        kw_only=True,
    )

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        check_data(self, train.data, valid)
        forests = self._forests(train, valid)
        most_trees = self.n_rounds * self._trees()
        checkpoint = Checkpoint(self, train, valid, forests.costs, most_trees=most_trees)
        parts = self._parts(train, forests.present)
        state = self._state(train, valid, parts, forests)
        saved = checkpoint.load(functools.partial(state.rules, self._trees()))
        if saved is not None:
            with checkpoint.explained():
                state.resume(saved, self._trees())
            forests.use(saved.forest)
        rounds = self._rounds(
            self.n_rounds,
            state.n_rounds,
            unit="round",
            stopping=state.stopping,
            save=checkpoint.saver(state.save),
            no_better=NO_BETTER_OUT_OF_BAG if state.judge.stop == "oob" else NO_BETTER,
        )
        broof(parts, forests, state, rounds)
        if state.is_over and state.n_rounds == 1 and len(state.history) == 1:
            _warn_of_a_forest_alone(state.history[0]["error"])
        self._keep(state, train.data, str(rounds.stopped_because))

    def _keep(self, state: BroofState, data: RankingData, reason: str) -> None:
        self.forest_ = state.forest()
        self.history_ = state.history
        self.stopped_because_ = reason
        if state.n_kept < state.n_best:
            self.stopped_because_ += FIRST_KEPT
        self.best_iteration_ = state.n_kept
        self.weights_ = state.weights
        self.oob_scores_ = state.kept_held_out
        measure = parse_measure(SCORED_BY)
        judge = replace(state.judge, measure=measure, train=judged_data(measure, data))
        self.oob_ndcg_ = judge.held_out(self.oob_scores_)

    def _parts(self, train: TrainingSet, present: Array | None) -> Strategy:
        """The five extension points, as the parameters choose them."""
        pairs = PairSettings(self.target, self.truncation, self.normalise, self.sigma)
        settings = KindSettings(
            self._rate(), self.region, pairs, present, resolve_threads(self.n_threads)
        )
        kind = kind_of(self.loss, train.data, settings)
        validation_set = (
            VALIDATIONS[self.validation]
            if isinstance(self.validation, str)
            else checked_predictions(self.validation)
        )
        chosen = self._update()
        if isinstance(chosen, str):
            update_set, update = UPDATES[chosen]
        else:
            update_set, update = validation_set, checked_update(chosen)
        return Strategy(kind, validation_set, NORMALIZATIONS[self.normalize], update_set, update)

    def _update(self) -> Any:
        """The name of the rule by which weights change, or the user's function."""
        if self.update_weights is not None:
            return self.update_weights
        return "constant" if is_additive(self.loss) else "oob"

    @property
    def _has_folds(self) -> bool:
        return isinstance(self.validation, str) and self.validation == "query-folds"

    def _stops_by(self, data: RankingData, valid: RankingData | None) -> str | None:
        """Whose measure ends the rounds: "valid", "oob", or None where nothing can be judged."""
        if self.stop != "auto":
            return self.stop
        if valid is not None:
            return "valid"
        has_held_out = self.bag is not None or self._has_folds
        can_judge = judged_data(parse_measure(self.measure), data) is not None
        return "oob" if has_held_out and can_judge else None

    def _rate(self) -> float:
        if self.learning_rate is not None:
            return float(self.learning_rate)
        return 0.1 if is_additive(self.loss) else 1.0

    def _unit(self, data: RankingData) -> str | None:
        """What is drawn for a tree."""
        if self.bag != "auto":
            return self.bag
        has_queries = data.query_ids is not None and data.n_queries >= LEAST_QUERIES
        return "query" if has_queries else "row"

    def _trees(self) -> int:
        """Trees of each forest."""
        if self.n_trees is not None:
            return int(self.n_trees)
        return TREES_OF_A_STEP if is_additive(self.loss) else TREES_OF_A_FOREST

    def _patience(self) -> int:
        """Rounds without improvement that end the rounds."""
        if self.patience is not None:
            return int(self.patience)
        return PATIENCE_OF_STEPS if is_additive(self.loss) else PATIENCE_OF_FORESTS

    def _forests(self, train: TrainingSet, valid: RankingData | None) -> RoundForests:
        folds = QueryFolds.deal(train, self.n_folds, self.seed) if self._has_folds else None
        named = (self.validation, self.update_weights)
        return RoundForests(
            train,
            self._policies(train, valid),
            self._trees(),
            self._unit(train.data),
            float(self.bag_share),
            self.weighting == "resample",
            self._most_draws(train),
            folds,
            any(choice == "train" or callable(choice) for choice in named),
            self.seed,
            resolve_threads(self.n_threads),
            training_costs(self, train.data),
            self.cost_batch,
        )

    def _policies(self, train: TrainingSet, valid: RankingData | None) -> Policies:
        """How the trees of every round grow."""
        max_leaves = FEWEST if isinstance(self.max_leaves, str) else self.max_leaves
        policies = Policies(
            Growth(max_leaves, self.max_depth, self.min_leaf, self.min_gain),
            FeatureChoice(self.features_per_node),
            BASES[self.base],
            self.missing,
            direction=directions(self.monotone, train.data),
        )
        if self.max_leaves == AUTO:
            policies = with_chosen_leaves(
                LeavesSearch(policies, train, valid, seed=self.seed, n_threads=self.n_threads)
            )
        self.max_leaves_ = policies.growth.max_leaves
        return policies

    def _most_draws(self, train: TrainingSet) -> float | None:
        """The clip of weights that rows are drawn by, where rows are judged by the trees that leave them out."""
        update = self._update()
        is_even = update == "constant" and self.initial_weights == "uniform"
        looks_at_bags = self.validation == "oob" or update == "oob" or self.stop == "oob"
        if self.weighting == "reweight" or self._has_folds or not looks_at_bags:
            return None
        if is_even and train.weights is None:
            return None
        data = train.data
        is_by_query = self._unit(data) == "query"
        return most_draws(self._trees(), data.n_queries if is_by_query else data.n_documents)

    def _state(
        self,
        train: TrainingSet,
        valid: RankingData | None,
        parts: Strategy,
        forests: RoundForests,
    ) -> BroofState:
        """The start: weights, scores of 0, no forest."""
        measure = parse_measure(self.measure)
        n_rows = train.data.n_documents
        is_additive = parts.kind.is_additive
        stop = self._stops_by(train.data, valid)
        judged = judged_data(measure, train.data, stop == "oob")
        return BroofState(
            initialize_weights(self.initial_weights, train.data, train.weights, self.seed),
            np.zeros(n_rows),
            Combination.of(is_additive, n_rows),
            None if valid is None else Combination.of(is_additive, valid.n_documents),
            RoundJudge(measure, judged, valid, forests.present, stop, forests.n_threads),
            EarlyStopping(None if stop is None else self._patience(), is_minimised(measure)),
            guards_first=not is_additive,
        )

    @property
    def _estimates_labels(self) -> bool:
        return isinstance(self.loss, str) and self.loss != "lambda"

    def _estimates_out_of_bag(self) -> bool:
        return True

    def _as_chosen(self) -> dict[str, Any]:
        return {"n_rounds": self.best_iteration_, "stop": None}

    def _trees_of(self, n_rounds: int) -> int:
        return n_rounds * self._trees()

    def _rounds_of(self, n_trees: int) -> int:
        return n_trees // self._trees()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._has_folds:
            check_folds(self.n_folds, self._trees())
        elif self.bag is None:
            self._refuse_oob_without_bags()
        if self.bag is None and self.weighting == "resample":
            raise ParameterError(
                "weighting='resample' draws rows by weight, but bag=None draws none. Use weighting='reweight'."
            )

    def _refuse_oob_without_bags(self) -> None:
        asked = {"validation": self.validation, "update_weights": self._update(), "stop": self.stop}
        for name, value in asked.items():
            if isinstance(value, str) and value == "oob":
                raise ParameterError(
                    f"{name}='oob' needs rows that trees have not seen, but with bag=None every tree sees all rows. "
                    f"Use bag='row', or {name}={_WITHOUT_BAGS[name]}, or validation='query-folds'."
                )


def _warn_of_a_forest_alone(error: float | int | None) -> None:
    what = "could not be found: no row was left out" if error is None else f"is {error:.3g}"
    warnings.warn(
        f"the error of the first forest {what}; it takes less than 0.5 to go on. The model is this "
        "forest alone, not boosted. More trees, another loss or normalize='max' may help.",
        RankwoodWarning,
        stacklevel=2,
    )


# Checks of the data against the parameters.


def check_data(model: Any, data: RankingData, valid: RankingData | None) -> None:
    """Raise unless the data have what the parameters ask of them."""
    needs_queries = {
        f"loss='{model.loss}'": isinstance(model.loss, str)
        and LOSSES[model.loss].compares_documents,
        "validation='query-folds'": model._has_folds,
        "bag='query'": model.bag == "query",
    }
    for what, is_needed in needs_queries.items():
        if is_needed and data.query_ids is None:
            raise DataError(
                f"{what} looks at the documents of a query, but the training data have no "
                "query ids. Pass qid=, one id per row."
            )
    if model.stop == "valid" and valid is None:
        raise ParameterError("stop='valid' needs validation data: pass valid= to fit.")
    takes_rows = not parse_measure(model.measure).needs_queries
    if valid is not None and valid.query_ids is None and not takes_rows:
        raise DataError(
            f"valid has no query ids, which {model.measure} needs. "
            "Pass (X, y, qid), or measure='rmse'."
        )


def judged_data(measure: Measure, data: RankingData, must: bool = False) -> RankingData | None:
    """The data where the measure can be taken on them; some need queries, or small labels."""
    try:
        if data.query_ids is None and measure.needs_queries:
            raise DataError(
                f"the training data have no query ids, which {measure} needs. Pass qid=, or measure='rmse'."
            )
        mean_value(measure, np.zeros(data.n_documents), data)
    except DataError:
        if must:
            raise
        return None
    return data
