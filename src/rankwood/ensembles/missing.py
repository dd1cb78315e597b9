"""Treatments of missing features: steps that fill them in, for pipelines (Mohan 2010, section 2.2).

Words used here
    gap         a value that is missing (NaN)
    step        a transformer: fitted on the training part, it fills the gaps of any part from what it saw there
    treatment   a step before a ranker, or the ranker's own policy ``missing=``

The six treatments of the thesis, and ours
    0               ``FillMissing("least")``; as a policy ``missing="left"``
    1               ``FillMissing("greatest")``; as a policy ``missing="right"``
    mean, median    ``FillMissing("mean")``, ``FillMissing("median")``
    predict         ``PredictMissing()``
    3-way split     the policy ``missing="own_child"``
    (ours)          the policy ``missing="learned"``, the rankers' default
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rankwood import _checks
from rankwood.binning.binned import BinnedData
from rankwood.data.dataset import RankingData
from rankwood.data.frames import to_matrix
from rankwood.dtypes import FEATURE, Features, Floats
from rankwood.ensembles.inputs import (
    refuse_other_than_tables,
    refuse_other_width,
    remember_features,
)
from rankwood.errors import DataError, DataWarning
from rankwood.models.inputs import features_in_order

_NAMES_SHOWN = 5


class MissingStep(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What the steps share: what they accept, what they give back, what they start from.

    Attributes
    ----------
    statistics_
        What a gap of each feature is filled with, or predicted from at first: float32.
    n_features_in_, feature_names_in_
        How many features, and their names if the training data had names.
    """

    statistics_: Features

    def _learn(self, X: Any, strategy: str) -> Features:  # noqa: N803 - scikit-learn's name
        """Remember the features and their statistics; gives the training rows as a matrix."""
        refuse_other_than_tables(X)
        X = _unbinned(X)  # noqa: N806
        if isinstance(X, RankingData):
            matrix, names = X.features, X.feature_names
        else:
            matrix, names = to_matrix(X)
        if len(matrix) == 0:
            raise DataError("there are no rows to learn from: Found array with 0 sample(s).")
        remember_features(self, matrix.shape[1], names)
        numbers = tuple(str(feature + 1) for feature in range(matrix.shape[1]))
        self.statistics_ = statistics_of(matrix, strategy, names or numbers)
        return matrix

    def transform(self, X: Any) -> Any:  # noqa: N803
        """The rows with their gaps filled from what ``fit`` saw.

        RankingData come back as RankingData, with labels, queries and weights; everything else as a float32 array, or
        as ``set_output`` says. Columns with names are put in the order of those ``fit`` saw.
        """
        check_is_fitted(self, "statistics_")
        refuse_other_than_tables(X)
        refuse_other_width(X, self)
        X = _unbinned(X)  # noqa: N806
        names = getattr(self, "feature_names_in_", None)
        known = None if names is None else tuple(names.tolist())
        filled = self._fill(features_in_order(X, self.n_features_in_, known))
        if not isinstance(X, RankingData):
            return filled
        asked = getattr(self, "_sklearn_output_config", {}).get("transform")
        if (asked or get_config()["transform_output"]) != "default":
            raise DataError(
                "RankingData cannot become a frame without losing their labels and queries. "
                "Pass their features, or say set_output(transform='default')."
            )
        own = X.feature_names if known is None or X.feature_names is None else known
        return dataclasses.replace(X, features=filled, feature_names=own)

    def _fill(self, matrix: Features) -> Features:
        """A copy of ``matrix`` without gaps."""
        return fill(matrix, self.statistics_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]  # features are float32 everywhere
        return tags


class FillMissing(MissingStep):
    """A step that fills the gaps of a feature with one value, found in the training part.

    In trees the least value sends a document left at every split and the greatest right, as the rankers' own policies
    ``missing="left"`` and ``"right"`` do. A feature whose training values are all missing is filled with 0, with a
    warning. Infinite values are values, and stay; they do not count in the statistics.

    Parameters
    ----------
    strategy
        "least" (the "0" of Mohan 2010), "greatest" (its "1"), "mean" or "median" of the feature's training values.

    Attributes
    ----------
    statistics_
        What a gap of each feature is filled with: float32.
    n_features_in_, feature_names_in_
        How many features, and their names if the training data had names.

    Examples
    --------
    >>> step = FillMissing("mean").fit([[1.0, 5.0], [3.0, None]])
    >>> step.transform([[None, None]]).tolist()
    [[2.0, 5.0]]
    """

    def __init__(self, strategy: str = "least") -> None:
        self.strategy = strategy

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's contract
        """Find the value of each feature; labels are not looked at."""
        _checks.one_of("strategy", self.strategy, STRATEGIES)
        self._learn(X, self.strategy)
        return self


def fill(matrix: Features, values: Features) -> Features:
    """A copy of ``matrix`` with each gap filled by the value of its feature."""
    return np.where(np.isnan(matrix), values, matrix)


def statistics_of(matrix: Features, strategy: str, names: tuple[str, ...]) -> Features:
    """One finite value per feature, from its finite values; 0, with a warning, where there are none."""
    values: Features = np.zeros(matrix.shape[1], FEATURE)
    empty = []
    for feature, column in enumerate(matrix.T):
        finite = column[np.isfinite(column)]
        if finite.size:
            # float64: the mean of large values must not overflow or drift
            values[feature] = STRATEGIES[strategy](finite.astype(np.float64))
        else:
            empty.append(names[feature])
    if empty:
        _warn_of_empty(empty)
    return values


STRATEGIES: dict[str, Callable[[Floats], Any]] = {
    "least": np.min,
    "greatest": np.max,
    "mean": np.mean,
    "median": np.median,
}


def _warn_of_empty(names: list[str]) -> None:
    listed = ", ".join(f"'{name}'" for name in names[:_NAMES_SHOWN])
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    warnings.warn(
        f"no training row has a value of feature {listed}{more}: filled with 0. Leave such features out.",
        DataWarning,
        stacklevel=5,
    )


def _unbinned(X: Any) -> Any:  # noqa: N803
    """The data before binning: a filled value may belong to another bin."""
    return X.data if isinstance(X, BinnedData) else X
