"""``BROOF``: boosted random forests for ranking (Sá 2016, Generalized BROOF-L2R; Sá et al., SIGIR 2016)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array
from rankwood.errors import DataError, ParameterError, RankwoodWarning
from rankwood.losses.placement import REGIONS
from rankwood.measures.measure import Measure, parse_measure
from rankwood.rankers.base import SCORED_BY, Ranker
from rankwood.rankers.broof.state import (
    BroofState,
    Combination,
    QueryFolds,
    RoundForests,
    RoundJudge,
    check_folds,
)
from rankwood.rankers.broof.strategies import (
    INITIAL_WEIGHTS,
    NORMALIZATIONS,
    UPDATES,
    VALIDATIONS,
    KindSettings,
    Strategy,
    checked_predictions,
    checked_update,
    initialize_weights,
    kind_of,
)
from rankwood.training.bags import UNITS
from rankwood.training.checkpoint import Checkpoint
from rankwood.training.inputs import TrainingSet, directions
from rankwood.training.rounds import Callback, EarlyStopping, Rounds
from rankwood.training.scores import is_minimised, mean_value
from rankwood.trees.policies import FeatureChoice, Growth, Policies

_ADDITIVE = ("gradient", "lambda")
TOO_WRONG = "the error of a forest is too large"


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
        state.weights = parts.update_weights(state.weights, targets, forest, (errors, beta))
        record = state.history[-1]
        notes = {name: value for name, value in record.items() if value is not None}
        rounds.finish(record["valid"], notes)
        if state.is_over:
            rounds.stop(TOO_WRONG)


class BROOF(Ranker):
    """Boosted random forests: each round grows a forest, and the next looks harder at what it got wrong (Sá 2016).

    Parameters
    ----------
    loss
        How wrong a forest is about a document, and so what the next one is to look at. "absolute", "median" and
        "height" change the weights of the rows; "gradient" fits what is left of the labels, "lambda" the gradients of
        LambdaRank. Or a function ``errors(data, predictions)``, or an object with ``targets(data, scores)``.
    n_rounds
        Number of forests, or the most there may be.
    n_trees
        Trees of each forest.
    learning_rate
        What is taken of each forest (gradient, lambda), or a factor of β (the others). None: 0.1 for gradient and
        lambda, 1 for the others.
    validation
        Whose predictions of the training rows errors and residues are taken from: the trees that have not drawn the
        row ("oob"), all trees ("train"), or trees that have not seen the query ("query-folds").
    update_weights
        Weights of the rows follow the errors of out-of-bag predictions ("oob") or of training predictions ("train"),
        or stay ("constant"). None: "constant" for gradient and lambda, "oob" for the others. Or a function
        ``weights(weights, errors, beta)``.
    initial_weights
        All rows alike ("uniform") or at random ("dirichlet"), times their own weights. Or a function ``weights(data)``.
    weighting
        Weights are chances of being drawn ("resample") or count in the trees ("reweight").
    normalize
        Errors are divided by the greatest of the round ("max"), or taken as they are (None).
    region
        For median: the region of a grade is where its documents should stand ("place"), or those documents wherever
        they stand ("grade").
    n_folds
        Parts that queries are dealt into for validation="query-folds".
    stop, patience
        Stop when the measure, out of bag ("oob") or on validation data ("valid"), has not improved for ``patience``
        rounds, and keep the rounds up to the best value. None grows all rounds. Whatever this says, a forest whose
        mean error is 0.5 or more ends the rounds of absolute, median and height.
    measure
        What is looked at, and what lambda's gradients are of: any measure; rmse is to fall, the others are to rise.
    max_leaves, max_depth, min_leaf, min_gain
        Where a tree ends, as for ``RandomForest``.
    features_per_node
        Features a node looks at: a number (int), a share (float), or None for all.
    bag, bag_share
        What is drawn for a tree, with replacement: "row" or "query" (whole queries); how much, as a share of them.
    missing, monotone, max_bins, seed, n_threads
        As for ``RandomForest``.
    progress, callbacks
        Functions that are told of every round: see ``Progress``. A callback that returns True ends the growing.
    checkpoint
        A file that keeps the rounds so far; a fit that finds one there goes on with it.

    Attributes
    ----------
    history_
        A record per round: ``error`` (ε), ``beta`` (β), the measure out of bag (``oob``) and on validation data
        (``valid``), and how many rows no tree has left out (``without_oob``). None where there is no such figure.
    best_iteration_
        How many rounds the model has.
    weights_
        What each training row weighed in the end; the sum is 1.
    oob_scores_, oob_ndcg_
        For each training row the score from trees that have not seen it, NaN where there are none; NDCG@10 of these.
    feature_importances_
        The share of each feature in the gain of all splits.
    """

    def __init__(
        self,
        loss: Any = "gradient",
        n_rounds: int = 100,
        n_trees: int = 50,
        learning_rate: float | None = None,
        validation: Any = "oob",
        update_weights: Any = None,
        initial_weights: Any = "uniform",
        weighting: str = "resample",
        normalize: str | None = "max",
        region: str = "place",
        n_folds: int = 5,
        stop: str | None = None,
        patience: int = 10,
        measure: str = "ndcg@10",
        max_leaves: int | None = 100,
        max_depth: int | None = None,
        min_leaf: int = 1,
        min_gain: float = 0.0,
        features_per_node: int | float | None = 0.3,
        bag: str = "row",
        bag_share: float = 1.0,
        missing: str = "learned",
        monotone: Any = None,
        max_bins: int = 255,
        seed: int = 0,
        n_threads: int | None = None,
        progress: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.loss = loss
        self.n_rounds = n_rounds
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.validation = validation
        self.update_weights = update_weights
        self.initial_weights = initial_weights
        self.weighting = weighting
        self.normalize = normalize
        self.region = region
        self.n_folds = n_folds
        self.stop = stop
        self.patience = patience
        self.measure = measure
        self.max_leaves = max_leaves
        self.max_depth = max_depth
        self.min_leaf = min_leaf
        self.min_gain = min_gain
        self.features_per_node = features_per_node
        self.bag = bag
        self.bag_share = bag_share
        self.missing = missing
        self.monotone = monotone
        self.max_bins = max_bins
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        check_data(self, train.data, valid)
        checkpoint = Checkpoint(self, train, valid)
        forests = self._forests(train)
        parts = self._parts(train, forests.present)
        state = self._state(train, valid, parts, forests)
        saved = checkpoint.load(*BroofState.arrays())
        if saved is not None:
            state.resume(saved, self.n_trees)
        rounds = self._rounds(
            self.n_rounds,
            state.n_rounds,
            unit="round",
            stopping=state.stopping,
            save=checkpoint.saver(state.save),
        )
        broof(parts, forests, state, rounds)
        if state.is_over and state.n_rounds == 1 and len(state.history) == 1:
            _warn_of_a_forest_alone(state.history[0]["error"])
        self._keep(state, train.data)

    def _keep(self, state: BroofState, data: RankingData) -> None:
        self.forest_ = state.forest()
        self.history_ = state.history
        self.best_iteration_ = state.n_kept
        self.weights_ = state.weights
        self.oob_scores_ = state.best_held_out
        measure = parse_measure(SCORED_BY)
        judge = replace(state.judge, measure=measure, train=judged_data(measure, data))
        self.oob_ndcg_ = judge.held_out(self.oob_scores_)

    def _parts(self, train: TrainingSet, present: Array | None) -> Strategy:
        """The five extension points, as the parameters choose them."""
        settings = KindSettings(
            self._rate(), self.region, self.measure, present, resolve_threads(self.n_threads)
        )
        kind = kind_of(self.loss, train.data, settings)
        validation_set = (
            VALIDATIONS[self.validation]
            if isinstance(self.validation, str)
            else checked_predictions(self.validation)
        )
        if self.update_weights is None:
            update_set, update = UPDATES["constant" if kind.is_additive else "oob"]
        elif isinstance(self.update_weights, str):
            update_set, update = UPDATES[self.update_weights]
        else:
            update_set, update = validation_set, checked_update(self.update_weights)
        return Strategy(kind, validation_set, NORMALIZATIONS[self.normalize], update_set, update)

    def _rate(self) -> float:
        if self.learning_rate is not None:
            return float(self.learning_rate)
        return 0.1 if self.loss in _ADDITIVE or hasattr(self.loss, "targets") else 1.0

    def _forests(self, train: TrainingSet) -> RoundForests:
        folds = None
        if isinstance(self.validation, str) and self.validation == "query-folds":
            folds = QueryFolds.deal(train, self.n_folds, self.seed)
        named = (self.validation, self.update_weights)
        return RoundForests(
            train,
            Policies(
                Growth(self.max_leaves, self.max_depth, self.min_leaf, self.min_gain),
                FeatureChoice(self.features_per_node),
                missing=self.missing,
                direction=directions(self.monotone, train.data),
            ),
            self.n_trees,
            self.bag,
            float(self.bag_share),
            self.weighting == "resample",
            folds,
            any(choice == "train" or callable(choice) for choice in named),
            self.seed,
            resolve_threads(self.n_threads),
        )

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
        judged = judged_data(measure, train.data, self.stop == "oob")
        return BroofState(
            initialize_weights(self.initial_weights, train.data, train.weights, self.seed),
            np.zeros(n_rows),
            Combination.of(is_additive, n_rows),
            None if valid is None else Combination.of(is_additive, valid.n_documents),
            RoundJudge(measure, judged, valid, forests.present, self.stop, forests.n_threads),
            EarlyStopping(None if self.stop is None else self.patience, is_minimised(measure)),
        )

    def _as_chosen(self) -> dict[str, Any]:
        return {"n_rounds": self.best_iteration_, "stop": None}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_parameters(self)


def _warn_of_a_forest_alone(error: float | int | None) -> None:
    what = "could not be found: no row was left out" if error is None else f"is {error:.3g}"
    warnings.warn(
        f"the error of the first forest {what}; it takes less than 0.5 to go on. The model is this "
        "forest alone, not boosted. More trees, another loss or normalize='max' may help.",
        RankwoodWarning,
        stacklevel=2,
    )


# Checks of the parameters, and of the data against them.


_LOSSES = ("absolute", "median", "height", "gradient", "lambda")
_OF_QUERIES = ("median", "height", "lambda")  # losses that compare documents of a query
_WEIGHTINGS = ("resample", "reweight")
_STOPS = ("oob", "valid")


def check_data(model: Any, data: RankingData, valid: RankingData | None) -> None:
    """Raise unless the data have what the parameters ask of them."""
    needs_queries = {
        f"loss='{model.loss}'": isinstance(model.loss, str) and model.loss in _OF_QUERIES,
        "validation='query-folds'": isinstance(model.validation, str)
        and model.validation == "query-folds",
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
    takes_rows = parse_measure(model.measure).name == "rmse"
    if valid is not None and valid.query_ids is None and not takes_rows:
        raise DataError(
            f"valid has no query ids, which {model.measure} needs. "
            "Pass (X, y, qid), or measure='rmse'."
        )


def check_parameters(model: Any) -> None:
    """Raise for parameters that are wrong whatever the data."""
    if isinstance(model.loss, str) or not (callable(model.loss) or hasattr(model.loss, "targets")):
        checks.one_of("loss", model.loss, _LOSSES)
    checks.whole_number("n_rounds", model.n_rounds, 1)
    checks.whole_number("n_trees", model.n_trees, 1)
    if model.learning_rate is not None:
        checks.real_number("learning_rate", model.learning_rate, "(0, 1]")
    _check_choices(model)
    checks.whole_number("n_folds", model.n_folds, 2)
    if isinstance(model.validation, str) and model.validation == "query-folds":
        check_folds(model.n_folds, model.n_trees)
    if model.stop is not None:
        checks.one_of("stop", model.stop, _STOPS)
    checks.whole_number("patience", model.patience, 1)
    _check_measure(model)
    checks.one_of("bag", model.bag, UNITS)
    checks.real_number("bag_share", model.bag_share, "(0, 1]")
    Growth(model.max_leaves, model.max_depth, model.min_leaf, model.min_gain)
    FeatureChoice(model.features_per_node).count(1)


def _check_measure(model: Any) -> None:
    """The measure can be parsed, and, for lambda, can be learned."""
    parse_measure(model.measure)
    if isinstance(model.loss, str) and model.loss == "lambda":
        from rankwood.losses.lambdarank import parse_target

        try:
            parse_target(model.measure)
        except ParameterError as error:
            raise ParameterError(f"loss='lambda' learns the measure, but {error}") from None


def _check_choices(model: Any) -> None:
    """Each extension point is a known name, or something to be called."""
    known: dict[str, Iterable[str]] = {
        "validation": VALIDATIONS,
        "update_weights": UPDATES,
        "initial_weights": INITIAL_WEIGHTS,
    }
    for name, names in known.items():
        value = getattr(model, name)
        if not callable(value) and not (name == "update_weights" and value is None):
            checks.one_of(name, value, names)
    checks.one_of("weighting", model.weighting, _WEIGHTINGS)
    checks.one_of("region", model.region, REGIONS)
    if model.normalize is not None:
        checks.one_of("normalize", model.normalize, ("max",))


def judged_data(measure: Measure, data: RankingData, must: bool = False) -> RankingData | None:
    """The data where the measure can be taken on them; some need queries, or small labels."""
    try:
        if data.query_ids is None and measure.name != "rmse":
            raise DataError(
                f"the training data have no query ids, which {measure} needs. Pass qid=, or measure='rmse'."
            )
        mean_value(measure, np.zeros(data.n_documents), data)
    except DataError:
        if must:
            raise
        return None
    return data
