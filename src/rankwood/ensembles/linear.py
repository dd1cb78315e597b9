"""``LinearRanker``: what estimators share that learn a weight per feature."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood._threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.ensembles.base import Ranker
from rankwood.ensembles.progress import check_listeners
from rankwood.errors import DataError
from rankwood.models.inputs import features_in_order
from rankwood.models.linear import LinearModel


class LinearRanker(Ranker):
    """A ranker whose score is a weighted sum of the features; it needs queries, and no bins.

    Attributes
    ----------
    linear_
        The weights, as a ``LinearModel``.
    """

    _model = "linear_"

    linear_: LinearModel

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

    def _check_parameters(self) -> None:
        resolve_threads(self.n_threads)
        check_listeners(self.progress, self.callbacks)

    @property
    def feature_importances_(self) -> Floats:
        """The share of each feature in Σ |weight| · spread, its standard deviation in the training data."""
        if not hasattr(self, "linear_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet.")
        parts = self.linear_.importance()
        total = float(parts.sum())
        return parts / total if total > 0 else parts


def refuse_without_pairs(data: RankingData) -> None:
    """Raise unless a query that counts has documents of different labels: else there is nothing to learn."""
    counts = np.ones(data.n_documents, bool)
    if data.row_weights is not None:
        counts &= data.row_weights > 0
    if data.query_weights is not None:
        counts &= data.query_weights[data.query_of_row] > 0
    if not counts.any():
        raise DataError(
            "weights (sample_weight × query_weight) are all zero; at least one must be positive."
        )
    rows = np.flatnonzero(counts)
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
    features = features_in_order(valid, train.n_features, train.feature_names)
    if features is valid.features:
        return valid
    return RankingData(
        features,
        valid.labels,
        valid.query_ids,
        valid.doc_ids,
        valid.row_weights,
        valid.query_weights,
        train.feature_names,
    )
