"""Estimators that learn a weight per feature: the base ``LinearRanker``, and ``RankSVM``."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rankwood._core.threads import resolve_threads
from rankwood.binning.folder import coded_features
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import DataError
from rankwood.losses.ranksvm import PairHinge
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import parse_measure
from rankwood.models.linear import Scaling
from rankwood.models.validate import features_in_order, refuse_other_columns
from rankwood.rankers.base import Ranker, shares
from rankwood.rankers.parameters import NOTHING_DRAWN, Real, Whole, measure_of_rankings, parameter
from rankwood.training.inputs import rows_that_count, weights_of_rows
from rankwood.training.rounds import ASKED_TO


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
    """Validation rows with their features in the order of the training rows'."""
    if coded_features(valid) is not None:
        refuse_other_columns(valid, train.n_features, train.feature_names)
        return valid
    features = features_in_order(valid, train.n_features, train.feature_names)
    if features is valid.features:
        return valid
    return dataclasses.replace(valid, features=features, feature_names=train.feature_names)


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
