"""``LinearModel``: a weight per feature; the score is their weighted sum."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rankwood import _checks, _threads
from rankwood.dtypes import SCORE, WEIGHT, Array, Features, Floats
from rankwood.errors import DataError, ModelError
from rankwood.models import model_checks
from rankwood.models.inputs import features_in_order

ARRAYS: dict[str, type[np.generic]] = {"weights": WEIGHT, "fill": WEIGHT, "spread": WEIGHT}
_LEAST_TERMS = 2_000_000  # rows × features per thread, some 2 ms


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel:
    """The score of a document is ``intercept + Σ weight · value``.

    Parameters
    ----------
    weights
        One per feature. A feature of weight 0 is not looked at.
    fill
        The value that stands for a missing one, per feature.
    spread
        The standard deviation of each feature in the training data, not negative: what makes weights comparable.
    intercept
        What every score begins with.
    feature_names
        One name per feature. Data that have names must then have these, in any order.

    Arrays are float64, finite, checked and read-only. Two models are equal when all they hold is equal.
    """

    weights: Floats
    fill: Floats
    spread: Floats
    intercept: float = 0.0
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, dtype in ARRAYS.items():
            array = model_checks.typed(name, getattr(self, name), dtype)
            object.__setattr__(self, name, _checks.read_only(array))
        object.__setattr__(
            self, "intercept", model_checks.finite_number("intercept", self.intercept)
        )
        names = None if self.feature_names is None else tuple(self.feature_names)
        object.__setattr__(self, "feature_names", names)
        self.check()

    def check(self) -> None:
        """Raise a ``ModelError`` that names the first thing wrong; the constructor calls it."""
        if self.n_features == 0:
            raise ModelError("weights has no values; a model has at least one feature.")
        for name in ARRAYS:
            array = getattr(self, name)
            if array.size != self.n_features:
                raise ModelError(
                    f"{name} has {array.size:,} values, but there are {self.n_features:,} features."
                )
            model_checks.refuse_infinite(name, array)
        model_checks.refuse_negative("spread", self.spread)
        model_checks.check_names(self.feature_names, self.n_features)

    @property
    def n_features(self) -> int:
        """How many features a document has."""
        return self.weights.size

    @functools.cached_property
    def used(self) -> Array:
        """The features whose weight is not 0."""
        return _checks.read_only(np.flatnonzero(self.weights))

    def predict(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """The score of each row, in row order.

        ``features`` are rows × features: an array, a frame, a sparse matrix, a RankingData. Columns with names are
        put in the model's order; without names they are taken by position. A row's score is the same to the bit for
        any number of threads and rows beside it.
        """
        matrix = features_in_order(features, self.n_features, self.feature_names)
        scores = self.sums(matrix, n_threads)
        finite = np.isfinite(scores)
        if not finite.all():
            self._refuse_row(matrix, int(np.argmin(finite)))
        return scores

    def sums(self, matrix: Features, n_threads: int | None) -> Floats:
        """The scores of a matrix that is in order already; infinite or NaN where the values make them so."""
        from rankwood.models.linear_kernels import linear_scores

        scores = np.empty(len(matrix), SCORE)
        arguments = (
            _checks.read_only(matrix),
            self.used,
            self.weights,
            self.fill,
            self.intercept,
            scores,
        )
        least = max(1, _LEAST_TERMS // max(1, self.used.size))
        if n_threads is None and len(matrix) < 2 * least:
            linear_scores(0, len(matrix), *arguments)  # asking for the cores would take longer
        else:
            _threads.run_blocks(
                linear_scores, len(matrix), *arguments, n_threads=n_threads, least=least
            )
        return scores

    def importance(self) -> Floats:
        """What each feature contributes: its weight, without the sign, in units of its spread."""
        return np.abs(self.weights) * self.spread

    def _refuse_row(self, matrix: Features, row: int) -> None:
        infinite = self.used[np.isinf(matrix[row, self.used])]
        if infinite.size == 0:
            raise DataError(f"the score of row {row} is beyond floating point.")
        feature = int(infinite[0])
        raise DataError(
            f"features[{row}, {feature}] is {float(matrix[row, feature])}: a linear model needs "
            "finite values. Replace it by NaN (missing) or by a number."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled arrays can be written to; the constructor makes them read-only again, and checks them.
        return LinearModel, tuple(getattr(self, field.name) for field in fields(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinearModel):
            return NotImplemented
        return (self.intercept, self.feature_names) == (other.intercept, other.feature_names) and (
            all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ARRAYS)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LinearModel({self.used.size:,} of {self.n_features:,} features have a weight)"
