"""The features of documents in the order that a model expects, given at once or fetched when needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.data.frames import to_matrix
from rankwood.data.judgments import group_rows
from rankwood.dtypes import FEATURE, Array, Features, Rows
from rankwood.errors import DataError, ParameterError

if TYPE_CHECKING:
    from rankwood.models.forest import Forest

_NAMES_SHOWN = 5


def features_in_order(
    features: Any, n_features: int, feature_names: tuple[str, ...] | None
) -> Features:
    """The features as a row-major float32 matrix with columns in the model's order.

    Columns are matched by name if model and data both have names, and by position otherwise.
    """
    matrix, names = _matrix(features)
    if names is not None and feature_names is not None and names != feature_names:
        _refuse_other_names(names, feature_names)
        column_of = {name: column for column, name in enumerate(names)}
        matrix = matrix[:, [column_of[name] for name in feature_names]]
    if matrix.shape[1] != n_features:
        raise DataError(
            f"the model knows {n_features:,} features, but the data have {matrix.shape[1]:,}."
        )
    return np.require(matrix, requirements=["C", "ALIGNED"])


@dataclass(frozen=True, eq=False)
class LazyFeatures:
    """Documents whose features are not computed yet.

    Parameters
    ----------
    fetch
        ``fetch(feature, rows)`` returns the values of one feature, by its index in the model from 0, for the
        documents ``rows`` (indices, ascending). NaN is a missing value. No value is requested twice.
    query_ids
        The query of each document; None without queries.
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
            checks.whole_number("n_documents", self.n_documents, 0)
        elif self.query_ids is None:
            raise ParameterError("LazyFeatures needs query_ids, or n_documents.")

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.query_ids) if self.n_documents is None else int(self.n_documents)


@dataclass(frozen=True, eq=False)
class FeatureSource:
    """The feature values for a forest, complete or fetched column by column."""

    matrix: Features  # rows × features; NaN until it is fetched
    query_of_row: Rows | None
    fetch: Callable[[int, Rows], Any] | None
    is_fetched: Array  # of each feature

    @classmethod
    def of(cls, data: Any, forest: Forest) -> FeatureSource:
        """The source of ``data``: ranking data, a table, or ``LazyFeatures``."""
        is_fetched = np.zeros(forest.n_features, bool)
        if isinstance(data, LazyFeatures):
            matrix = np.full((data.size, forest.n_features), np.nan, FEATURE)
            queries = None
            if data.query_ids is not None:
                queries = group_rows(
                    checks.ids("query_ids", data.query_ids, data.size)
                ).query_of_row
            return cls(matrix, queries, data.fetch, is_fetched)
        matrix = features_in_order(data, forest.n_features, forest.feature_names)
        has_queries = isinstance(data, RankingData) and data.query_ids is not None
        return cls(matrix, data.query_of_row if has_queries else None, None, ~is_fetched)

    def need(self, features: Array, rows: Rows) -> None:
        """Fetch those of the features that were not fetched before, for these rows.

        Rows only ever leave, so rows that need a feature later are among those it is fetched for now.
        """
        if self.fetch is None or rows.size == 0:
            return
        for feature in features[~self.is_fetched[features]].tolist():
            values = _column(feature, self.fetch(feature, checks.read_only(rows)), rows.size)
            self.matrix[rows, feature] = values
            self.is_fetched[feature] = True


def some_names(names: Sequence[str]) -> str:
    """The first few names in quotes, and the number of others."""
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:_NAMES_SHOWN]) + more


def _matrix(features: Any) -> tuple[Features, tuple[str, ...] | None]:
    if isinstance(features, RankingData):
        return features.features, features.feature_names
    is_plain = type(features) is np.ndarray and features.dtype == FEATURE and features.ndim == 2
    if is_plain and features.flags.c_contiguous:
        return features, None  # the fast path: further checks take as long as scoring one document
    return to_matrix(features)


def _refuse_other_names(names: tuple[str, ...], known: tuple[str, ...]) -> None:
    missing = sorted(set(known) - set(names))
    unknown = sorted(set(names) - set(known))
    if not missing and not unknown:
        return
    parts = []
    if missing:
        parts.append(f"the data lack {some_names(missing)}")
    if unknown:
        parts.append(f"the model does not know {some_names(unknown)}")
    raise DataError(
        f"the data's feature names are not the model's: {'; '.join(parts)}. "
        "Rename the columns, or pass a bare array in the model's order."
    )


def _column(feature: int, values: Any, n_rows: int) -> Features:
    """The result of ``fetch`` as float32 values, or an error that names the feature."""
    array = np.asarray(values)
    if array.shape != (n_rows,):
        raise DataError(
            f"fetch({feature}, rows) was asked for {n_rows:,} values, and gave an array of shape {array.shape}."
        )
    try:
        return checks.feature_matrix(array.reshape(-1, 1))[:, 0]
    except DataError as error:
        raise DataError(f"fetch({feature}, rows): {error}") from None
