"""Features that are fetched on first need, and only for the documents that need them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwood import _checks
from rankwood.data.dataset import RankingData
from rankwood.data.queries import group_rows
from rankwood.dtypes import FEATURE, Array, Features, Rows
from rankwood.errors import DataError, ParameterError
from rankwood.models.inputs import features_in_order

if TYPE_CHECKING:
    from rankwood.models.forest import Forest


@dataclass(frozen=True, eq=False)
class LazyFeatures:
    """Documents whose features are not computed yet.

    Parameters
    ----------
    fetch
        ``fetch(feature, rows)`` gives the values of one feature, by its place in the model (0 is the first), for the
        documents ``rows`` (numbers, ascending). NaN is a missing value. No value is asked for twice.
    query_ids
        The query of each document; None where there are no queries.
    n_documents
        How many documents there are; by default as many as query ids.
    """

    fetch: Callable[[int, Rows], Any]
    query_ids: Any = None
    n_documents: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.fetch):
            raise ParameterError(f"fetch must be a function, got {type(self.fetch).__name__}.")
        if self.n_documents is not None:
            _checks.whole_number("n_documents", self.n_documents, 0)
        elif self.query_ids is None:
            raise ParameterError("LazyFeatures needs query_ids, or n_documents.")

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.query_ids) if self.n_documents is None else int(self.n_documents)


@dataclass(frozen=True, eq=False)
class FeatureSource:
    """The values a forest asks for: all there, or fetched column by column."""

    matrix: Features  # rows × features; what has not been fetched is NaN
    query_of_row: Rows | None
    fetch: Callable[[int, Rows], Any] | None
    is_fetched: Array  # of each feature

    @classmethod
    def of(cls, data: Any, forest: Forest) -> FeatureSource:
        """The source behind ``data``: ranking data, a table, or ``LazyFeatures``."""
        is_fetched = np.zeros(forest.n_features, bool)
        if isinstance(data, LazyFeatures):
            matrix = np.full((data.size, forest.n_features), np.nan, FEATURE)
            queries = None
            if data.query_ids is not None:
                queries = group_rows(
                    _checks.ids("query_ids", data.query_ids, data.size)
                ).query_of_row
            return cls(matrix, queries, data.fetch, is_fetched)
        matrix = features_in_order(data, forest.n_features, forest.feature_names)
        has_queries = isinstance(data, RankingData) and data.query_ids is not None
        return cls(matrix, data.query_of_row if has_queries else None, None, ~is_fetched)

    def need(self, features: Array, rows: Rows) -> None:
        """Fetch those of the features that were not needed before, for these rows.

        Rows only ever leave, so whoever needs a feature later has been asked for it now.
        """
        if self.fetch is None or rows.size == 0:
            return
        for feature in features[~self.is_fetched[features]].tolist():
            values = _column(feature, self.fetch(feature, _checks.read_only(rows)), rows.size)
            self.matrix[rows, feature] = values
            self.is_fetched[feature] = True


def _column(feature: int, values: Any, n_rows: int) -> Features:
    """What ``fetch`` gave, as float32 values, or an error that names the feature."""
    array = np.asarray(values)
    if array.shape != (n_rows,):
        raise DataError(
            f"fetch({feature}, rows) was asked for {n_rows:,} values, and gave an array of shape {array.shape}."
        )
    try:
        return _checks.feature_matrix(array.reshape(-1, 1))[:, 0]
    except DataError as error:
        raise DataError(f"fetch({feature}, rows): {error}") from None
