"""Estimators that learn a weight per feature: the base ``LinearRanker``, ``RankSVM`` and ``AdaRank``.

``AdaRank`` boosts single features, guided by a measure of rankings.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rankwood._core.checks import read_only, true_or_false
from rankwood._core.random import stream
from rankwood._core.threads import parallel_map_ordered, resolve_threads
from rankwood.binning.folder import coded_features
from rankwood.data.dataset import Judgments, RankingData
from rankwood.dtypes import Floats, Rows
from rankwood.errors import DataError, ParameterError
from rankwood.losses.ranksvm import PairHinge
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, parse_measure
from rankwood.models.linear import LinearModel, Scaling
from rankwood.models.validate import features_of, refuse_other_columns
from rankwood.rankers.base import Ranker, shares
from rankwood.rankers.parameters import (
    NOTHING_DRAWN,
    OneOf,
    Real,
    Whole,
    measure_of_rankings,
    parameter,
)
from rankwood.training.inputs import rows_that_count, weights_of_rows
from rankwood.training.rounds import ASKED_TO, BEST, EarlyStopping, needs_validation, patience_of


class LinearRanker(Ranker):
    """A ranker whose score is a weighted sum of the features; it needs queries, and no bins.

    Attributes
    ----------
    linear_
        The weights, as a ``LinearModel``.
    feature_importances_
        The share of each feature in Σ |weight| · spread, its standard deviation in the training data.
    """

    _model = "linear_"
    _compiles = ""

    def _learn(self, X: Any, data: RankingData, valid: RankingData | None) -> None:  # noqa: ARG002, N803
        if data.n_documents == 0:
            raise DataError("there are no rows to learn from.")
        refuse_without_pairs(data)
        if valid is not None:
            valid = in_order_of(data, valid)
        self._fit_rows(data, valid)

    def _fit_rows(self, data: RankingData, valid: RankingData | None) -> None:
        """Learn the weights and set the attributes that follow from them."""
        raise NotImplementedError

    @property
    def feature_importances_(self) -> Floats:
        """The share of each feature in Σ |weight| · spread, its standard deviation in the training data."""
        return shares(self._learned.importance())


def refuse_without_pairs(data: RankingData) -> None:
    """Raise unless a query that counts has documents of different labels: else there is nothing to learn."""
    present = rows_that_count(weights_of_rows(data))
    rows = np.arange(data.n_documents) if present is None else np.flatnonzero(present)
    least = np.full(data.n_queries, np.inf)
    greatest = np.full(data.n_queries, -np.inf)
    np.minimum.at(least, data.query_of_row[rows], data.labels[rows])
    np.maximum.at(greatest, data.query_of_row[rows], data.labels[rows])
    if not (least < greatest).any():
        raise DataError(
            "no query has documents of different labels, so no document is better than another and there is "
            "nothing to learn. Look at the labels and the query ids."
        )


def in_order_of(train: RankingData, valid: RankingData) -> RankingData:
    """Validation rows with features in the order of the training rows', and categories by the same codes."""
    if coded_features(valid) is not None:
        refuse_other_columns(valid, train.n_features, train.feature_names)
        return valid
    features = features_of(valid, train)
    if features is valid.features and valid.categorical == train.categorical:
        return valid
    return dataclasses.replace(
        valid,
        features=features,
        feature_names=train.feature_names,
        categorical=train.categorical,
    )


# RankSVM.


class RankSVM(LinearRanker):
    """A weight per feature that puts better documents ahead of worse ones by a margin (Joachims 2002; Lee & Lin 2014).

    It minimises ``½ ‖w‖² + C Σ max(0, 1 - (s_better - s_worse))²`` over all pairs of documents of a query whose
    labels differ. Features are standardised inside, over the training rows, and the weights folded back; a constant
    feature has weight 0, a missing value counts as the mean. No pair is ever listed: a step costs some passes over the
    documents and a sort of each query. A row weight counts a document that many times, a query weight its query.

    Attributes
    ----------
    objective_, n_iter_
        The value that was reached, and the steps it took.
    history_
        The measure on the validation data.
    stopped_because_
        Why the solver stopped.
    """

    _signature = "C tol max_iter measure n_threads progress callbacks seed"

    C: float = parameter(
        default=1e-4,
        doc="""What a pair's error counts against the size of the weights. The errors of all pairs are summed, as in
        scikit-learn's ``LinearSVC``, so that more data need a smaller C.""",
        check=Real("(0, inf)"),
    )
    tol: float = parameter(
        default=1e-4,
        doc="Stop when the gradient's norm has fallen to this share of that of no weights at all.",
        check=Real("(0, 1)"),
    )
    max_iter: int = parameter(default=100, doc="The most steps of the solver.", check=Whole(1))
    measure: str = parameter(
        default="ndcg@10",
        doc="What is told of the validation data, if there are any; nothing is chosen by it.",
        check=measure_of_rankings,
    )
    seed: int = parameter(default=0, doc=NOTHING_DRAWN, kw_only=True)

    is_random = False

    def _fit_rows(self, data: RankingData, valid: RankingData | None) -> None:
        n_threads = resolve_threads(self.n_threads)
        scaling = Scaling.of(data.features, weights_of_rows(data), n_threads)
        objective = PairHinge(data, scaling, float(self.C), n_threads)
        weights = self._minimise(objective, data.n_features)
        self.linear_ = scaling.model(weights, data.feature_names)
        self.history_ = []
        if valid is not None:
            measure = parse_measure(self.measure)
            self.history_ = [mean_value(measure, self.linear_.predict(valid), valid)]

    def _minimise(self, objective: PairHinge, n_features: int) -> Floats:
        """The weights, in units of spread, at which the objective is least: a truncated Newton in a trust region."""
        from scipy.optimize import minimize  # takes half a second to load

        start = np.zeros(n_features)
        value, gradient = objective.value_and_gradient(start)
        steepest = float(np.linalg.norm(gradient))
        if steepest == 0.0:  # no feature tells documents of a pair apart
            self.n_iter_, self.objective_ = 0, value
            self.stopped_because_ = "no feature tells better documents from worse ones"
            return start
        rounds = self._rounds(self.max_iter)

        def after_step(_: Floats) -> None:
            rounds.finish()
            if rounds.is_over:
                raise StopIteration

        result = minimize(
            objective.value_and_gradient,
            start,
            method="trust-ncg",
            jac=True,
            hessp=objective.curvature,
            callback=after_step,
            options={"gtol": self.tol * steepest, "maxiter": self.max_iter},
        )
        self.n_iter_, self.objective_ = int(result.nit), float(result.fun)
        self.stopped_because_ = self._reason(result, steepest)
        return np.asarray(result.x)

    def _reason(self, result: Any, steepest: float) -> str:
        """Why scipy's solver stopped."""
        share = float(np.linalg.norm(result.jac)) / steepest
        if share <= self.tol:
            return f"the gradient has fallen to {share:.1e} of what it was"
        if result.nit < self.max_iter:
            return ASKED_TO if result.status == 99 else str(result.message)
        warnings.warn(
            f"RankSVM took max_iter={self.max_iter} steps and has not converged: the gradient has fallen to "
            f"{share:.1e} of what it was, not to tol={self.tol:g}. Raise max_iter, or lower C.",
            ConvergenceWarning,
            stacklevel=2,
        )
        return f"max_iter={self.max_iter} steps were taken"

    def _as_chosen(self) -> dict[str, Any]:
        return {}


# Measures of a query between -1 and 1, the higher the better, as the bound of the paper requires.
_MEASURES = ("err", "map", "mean_ndcg", "mrr", "ndcg", "p", "r", "rbp", "tau")
_LEAST_LOSS = 1e-12  # so that a perfect ranker gets a finite weight


def _check_measure(_: str, value: Any) -> None:
    measure = parse_measure(value)
    if measure.name not in _MEASURES:
        raise ParameterError(
            f"AdaRank needs a measure of rankings between -1 and 1, and {measure} is none. "
            f"Known: {', '.join(_MEASURES)}."
        )


class AdaRank(LinearRanker):
    """Single features added one after another, each the best for the queries that still go wrong (Xu & Li 2007).

    Every query has a weight, at first its own. A round takes the feature, or its negation, of the highest weighted
    measure, adds it with a weight that grows with that measure, and then weighs queries by how badly the sum ranks
    them. The measure of every feature in every query is computed once and kept: 16 bytes × queries × features.

    A feature that is best under all weights is chosen for ever, which is the method's known stall. So it stops when a
    feature has been chosen ``max_repeats`` times more without a new best training measure, when a round lowers that
    measure by ``tolerance``, or when all queries are ranked perfectly. With ``when_stalled="exclude"`` it goes on
    without that feature instead. The rounds up to the best training measure are kept.

    Attributes
    ----------
    linear_
        The weights, as a ``LinearModel``. A missing value counts as the least of the training data.
    train_history_, history_
        The measure after each round on the training data, and on the validation data.
    rounds_
        For each round that was not undone, those after the best one too, the number of the feature (from 0) and what
        was added to its weight.
    best_iteration_
        How many rounds were kept.
    stopped_because_
        Why there were no more rounds.
    """

    _signature = (
        "n_rounds measure scale tolerance max_repeats when_stalled early_stopping seed n_threads "
        "progress callbacks"
    )

    n_rounds: int = parameter(default=500, doc="The most features that are added.")
    measure: str = parameter(
        default="map",
        doc="""What is maximised: any measure of rankings between -1 and 1, such as "map", "ndcg@10", "err@10" or
        "mrr".""",
        check=_check_measure,
    )
    scale: bool = parameter(
        default=True,
        doc="""Whether features are added in units of their spread in the training data, so that none prevails by its
        scale alone. False adds their values as they are.""",
        check=true_or_false,
    )
    tolerance: float = parameter(
        default=0.002,  # RankLib's
        doc="How far a round may lower the training measure.",
        check=Real("[0, 1]"),
    )
    max_repeats: int = parameter(
        default=5,  # RankLib's
        doc="How often a feature may be chosen again without a new best training measure.",
        check=Whole(1),
    )
    when_stalled: str = parameter(
        default="stop",
        doc=""""stop", or "exclude" the feature that made no progress, or a fall, and go on with the others.""",
        check=OneOf(("stop", "exclude")),
    )
    early_stopping: int | str | None = parameter(
        default=BEST,
        doc="""With validation data: "best" keeps the rounds up to the best value of the measure there; a number also
        stops when the measure has not improved for so many rounds. None, and "best" without validation data, keep the
        rounds up to the best value on the training data.""",
    )
    seed: int = parameter(
        default=0, doc="Of the order of documents that a feature does not tell apart.", kw_only=True
    )

    @property
    def is_random(self) -> bool:
        """Whether the measure depends on the drawn order of documents that a feature does not tell apart."""
        return parse_measure(self.measure).ties != "average"

    def _fit_rows(self, data: RankingData, valid: RankingData | None) -> None:
        if needs_validation(self.early_stopping) and valid is None:
            raise ParameterError("early_stopping needs validation data: pass valid= to fit.")
        if data.row_weights is not None and (data.row_weights != 1).any():
            raise DataError("AdaRank weighs queries, not documents: pass query_weight instead.")
        state = self._start(data, valid)
        self.stopped_because_ = self._run(state)
        self.train_history_ = list(state.training)
        self.history_ = list(state.stopping.history)
        by_valid = self.early_stopping is not None and valid is not None
        best = state.stopping if by_valid else _best_of(state.training)
        self.best_iteration_ = best.best_iteration or len(state.chosen)
        self.rounds_ = [[feature, weight] for feature, weight in state.steps()]
        self.linear_ = state.model(self.best_iteration_)

    def after(self, n_rounds: int) -> LinearModel:
        """The model as it was after so many rounds."""
        return replace(
            self.linear_, weights=summed(self.rounds_[:n_rounds], self.linear_.n_features)
        )

    def _start(self, data: RankingData, valid: RankingData | None) -> AdaRankState:
        measure = parse_measure(self.measure)
        n_threads = resolve_threads(self.n_threads)
        of_rows = None if data.query_weights is None else data.query_weights[data.query_of_row]
        scaling = Scaling.of(data.features, of_rows, n_threads)
        judge = FeatureJudge(measure, data, self.seed)
        varying = np.flatnonzero(scaling.spread)
        weights = np.ones(data.n_queries) if data.query_weights is None else data.query_weights
        weights = weights[judge.is_counted]
        if not weights.any():
            raise DataError(f"every query that counts is empty, and {measure} leaves those out.")
        rankers = FeatureRankers.of(data, judge, varying, scaling.least, n_threads)
        unit = scaling.inverse if self.scale else np.ones(data.n_features)
        stopping = EarlyStopping(patience_of(self.early_stopping), is_minimised=False)
        return AdaRankState(
            data, valid, measure, judge, rankers, scaling, unit, weights, stopping, n_threads
        )

    def _run(self, state: AdaRankState) -> str | None:
        """Add features round by round (Xu & Li 2007, Figure 1); returns why there are no more rounds."""
        rounds = self._rounds(
            self.n_rounds,
            stopping=state.stopping,
            judges_last=True,
            all_done=f"all {self.n_rounds:,} rounds were done",
            no_better=f"validation {state.measure} has not improved for {self.early_stopping} rounds",
        )
        excluded: set[int] = set()
        P = normalised(state.query_weights)  # noqa: N806 - the paper's letters
        for _ in rounds:
            ranker = state.rankers.best(P, excluded)
            if ranker is None:
                rounds.stop("no feature is left that makes progress")
                break
            state.add(ranker, weight_of(P, state.rankers.performance[ranker]))
            E = state.performance()  # noqa: N806
            trouble = state.trouble(ranker, self.tolerance, self.max_repeats)
            if trouble is not None and self.when_stalled == "stop":
                rounds.stop(trouble)
                break
            if trouble is not None:
                excluded.add(ranker)
                continue
            rounds.finish(state.validate())
            if (E == 1.0).all():
                rounds.stop("every training query is ranked perfectly")
            P = normalised(state.query_weights * np.exp(-E))  # noqa: N806
        return rounds.stopped_because

    def _as_chosen(self) -> dict[str, Any]:
        return {"n_rounds": max(1, self.best_iteration_), "early_stopping": None}


def weight_of(P: Floats, E: Floats) -> float:  # noqa: N803
    """α = ½ ln(Σ P (1 + E) / Σ P (1 - E)): what a ranker of performance E counts."""
    lost = max(float((P * (1.0 - E)).sum()), _LEAST_LOSS)
    return 0.5 * math.log(float((P * (1.0 + E)).sum()) / lost)


def normalised(weights: Floats) -> Floats:
    """Weights that sum to 1."""
    return weights / float(weights.sum())


def summed(steps: Iterable[Sequence[Any]], n_features: int) -> Floats:
    """The weight of each feature after steps that each add to one of them."""
    weights = np.zeros(n_features)
    for feature, weight in steps:
        weights[feature] += weight
    return weights


def _best_of(values: list[float]) -> EarlyStopping:
    return EarlyStopping(None, is_minimised=False, history=values)


@dataclass(eq=False)
class AdaRankState:
    """The features chosen so far, their weights, and the measures after each round."""

    data: RankingData
    valid: RankingData | None
    measure: Measure
    judge: FeatureJudge
    rankers: FeatureRankers
    scaling: Scaling
    unit: Floats  # what a feature is multiplied with before it is added
    query_weights: Floats
    stopping: EarlyStopping  # holds the validation measures
    n_threads: int
    chosen: list[tuple[int, float]] = field(default_factory=list)
    training: list[float] = field(default_factory=list)
    _choices: Counter[int] = field(default_factory=Counter)  # of rankers since the last new best

    def add(self, ranker: int, weight: float) -> None:
        """Add a ranker with its weight."""
        if weight <= 0:
            raise DataError(
                f"no feature reaches a {self.measure} above 0 in any query: there is nothing to learn. "
                "Look at the labels, and at what the measure takes for relevant."
            )
        self.chosen.append((ranker, weight))

    def steps(self) -> list[tuple[int, float]]:
        """The feature of each round, and what was added to its weight."""
        steps = []
        for ranker, weight in self.chosen:
            feature = int(self.rankers.features[ranker])
            steps.append((feature, float(self.rankers.signs[ranker] * weight * self.unit[feature])))
        return steps

    def model(self, n_rounds: int | None = None) -> LinearModel:
        """The sum of the first rankers, times their weights."""
        weights = summed(self.steps()[:n_rounds], self.data.n_features)
        scaling = self.scaling
        return LinearModel(weights, scaling.least, scaling.spread, 0.0, self.data.feature_names)

    def performance(self) -> Floats:
        """E of the sum so far in each training query; the mean joins the history."""
        scores = self.model().predict(self.data.features, n_threads=self.n_threads)
        performance = self.judge(scores, self.n_threads)
        self.training.append(float((normalised(self.query_weights) * performance).sum()))
        return performance

    def validate(self) -> float | None:
        """The validation measure so far, if there are validation data."""
        if self.valid is None:
            return None
        scores = self.model().predict(self.valid.features, n_threads=self.n_threads)
        self.stopping.history.append(mean_value(self.measure, scores, self.valid))
        return self.stopping.history[-1]

    def trouble(self, ranker: int, tolerance: float, max_repeats: int) -> str | None:
        """Why the last round should be undone; None if it is kept."""
        best = max(self.training[:-1], default=-math.inf)
        if self.training[-1] > best:
            self._choices.clear()
        self._choices[ranker] += 1
        fall = self.training[-2] - self.training[-1] if len(self.training) > 1 else 0.0
        name = self.rankers.name(ranker, self.data.names)
        if fall > 0 and fall >= tolerance:
            reason = f"{name} lowered the training {self.measure} by {fall:.4f}"
        elif self._choices[ranker] > max_repeats:
            reason = (
                f"it stalled: {name} was chosen {max_repeats} times more "
                f"without a better training {self.measure}"
            )
        else:
            return None
        self.chosen.pop()
        self.training.pop()
        return reason


# Single features as rankers.


class FeatureJudge:
    """A measure of scores of the training rows, query by query.

    Documents with equal scores have an order drawn once from the seed: in that of the data, a file sorted by label
    would make a perfect ranker of a feature that is the same everywhere.
    """

    def __init__(self, measure: Measure, data: RankingData, seed: int) -> None:
        # Labels that the measure cannot take are refused here, by the caller's row.
        values = measure.per_query(np.zeros(data.n_documents), data)
        self.is_counted = ~np.isnan(values)
        self._measure = measure
        chance = stream(seed, "ties").random(data.n_documents)
        self._rows: Rows = np.lexsort((chance, data.query_of_row))
        self._drawn = Judgments(
            data.labels[self._rows],
            data.query_of_row[self._rows],  # ascending: queries keep their numbers
            None if data.doc_ids is None else data.doc_ids[self._rows],
        )

    def __call__(self, scores: Floats, n_threads: int | None = None) -> Floats:
        """The measure of each query that counts."""
        drawn = read_only(scores[self._rows])
        values = self._measure.per_query(drawn, self._drawn, n_threads=n_threads)
        return values[self.is_counted]


@dataclass(frozen=True, eq=False)
class FeatureRankers:
    """Features that vary, each with both signs, and the measure of each: float64, rankers × queries."""

    features: Rows
    signs: Floats
    performance: Floats

    @classmethod
    def of(
        cls, data: RankingData, judge: FeatureJudge, varying: Rows, fill: Floats, n_threads: int
    ) -> FeatureRankers:
        """The rankers of the ``varying`` features; a missing value counts as that of ``fill``."""
        n_queries = int(judge.is_counted.sum())
        performance = np.empty((2 * varying.size, n_queries))

        def rank_by(index: int) -> None:
            feature = int(varying[index])
            values = data.features[:, feature].astype(np.float64)
            values[np.isnan(values)] = fill[feature]
            performance[index] = judge(values, 1)
            performance[varying.size + index] = judge(-values, 1)

        for _ in parallel_map_ordered(rank_by, range(varying.size), n_threads):
            pass
        signs = np.repeat([1.0, -1.0], varying.size)
        return cls(np.tile(varying, 2), signs, performance)

    def best(self, query_weights: Floats, excluded: Collection[int]) -> int | None:
        """The ranker of the highest Σ P(q) · E(q) but for the excluded ones; of equal ones the first."""
        sums = np.einsum("rq,q->r", self.performance, query_weights)
        sums[list(excluded)] = -np.inf
        return int(np.argmax(sums)) if len(excluded) < sums.size else None

    def name(self, ranker: int, names: tuple[str, ...]) -> str:
        """What a message calls a ranker."""
        of_feature = f"feature '{names[self.features[ranker]]}'"
        return of_feature if self.signs[ranker] > 0 else f"the negation of {of_feature}"
