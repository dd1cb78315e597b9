"""``refit``: the chosen model once more, on all the data there are."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array
from rankwood.ensembles.base import Ranker
from rankwood.errors import DataError, ParameterError
from rankwood.models.inputs import features_in_order


def refit(estimator: Ranker, train: RankingData, valid: RankingData) -> Any:
    """A new model of the same kind on training and validation data together.

    It has as many trees as ``estimator`` ended up with, so that nothing is left to be chosen on validation data. The
    queries of the two parts stay apart, even where they share an id.
    """
    if not hasattr(estimator, estimator._model):
        raise ParameterError(
            f"this {type(estimator).__name__} is not fitted yet: refit needs to know how many trees were chosen."
        )
    model = clone(estimator)
    known = model.get_params()
    # A checkpoint of the fit before belongs to other data.
    changes = {**estimator._as_chosen(), "warm_start": False, "checkpoint": None}
    model.set_params(**{name: value for name, value in changes.items() if name in known})
    return model.fit(join(train, valid))


def join(one: RankingData, other: RankingData) -> RankingData:
    """The rows of both, one after the other; their queries are numbered anew."""
    if (one.query_ids is None) != (other.query_ids is None):
        raise DataError("one part has query ids and the other has none.")
    features = features_in_order(other, one.n_features, one.feature_names)
    query_ids = query_weights = None
    if one.query_ids is not None:
        query_ids = np.concatenate([one.query_of_row, other.query_of_row + one.n_queries])
        if one.query_weights is not None or other.query_weights is not None:
            query_weights = np.concatenate([_weights_of_queries(one), _weights_of_queries(other)])
    row_weights = None
    if one.row_weights is not None or other.row_weights is not None:
        row_weights = np.concatenate([_weights_of_rows(one), _weights_of_rows(other)])
    return RankingData(
        np.concatenate([one.features, features]),
        np.concatenate([one.labels, other.labels]),
        query_ids,
        None,
        row_weights,
        query_weights,
        one.feature_names,
    )


def _weights_of_rows(data: RankingData) -> Array:
    return np.ones(data.n_documents) if data.row_weights is None else data.row_weights


def _weights_of_queries(data: RankingData) -> Array:
    return np.ones(data.n_queries) if data.query_weights is None else data.query_weights
