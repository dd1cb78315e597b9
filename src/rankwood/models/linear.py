"""``LinearModel``: a weighted sum of features; and ``Scaling``, the mean and spread of features in training data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rankwood._core import checks, threads
from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.threads import lazy, run_blocks
from rankwood.dtypes import SCORE, WEIGHT, Array, Features, Floats
from rankwood.errors import DataError, ModelError
from rankwood.models import validate
from rankwood.models.archive import (
    Arrays,
    Record,
    check_record,
    names_of,
    native_arrays,
    refuse_others,
)
from rankwood.models.validate import features_in_order

ARRAYS: dict[str, type[np.generic]] = {"weights": WEIGHT, "fill": WEIGHT, "spread": WEIGHT}
_SCALARS = ("intercept",)
_LEAST_TERMS = 2_000_000  # rows × features per thread, about 2 ms

_BLOCK_ROWS = 4096  # rows summed before the sums of blocks are added

SIDE_BY_SIDE = 4  # rows summed together: additions of different rows do not wait for each other

WEIGHT_SUM, FIRST, SECOND, LEAST, GREATEST = range(5)
N_MOMENTS = 5


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel:
    """The score of a document is ``intercept + Σ weight · value``.

    Parameters
    ----------
    weights
        One per feature. A feature of weight 0 is ignored.
    fill
        The value that replaces a missing one, per feature.
    spread
        The standard deviation of each feature in the training data, not negative; it makes weights comparable.
    intercept
        The constant added to every score.
    feature_names
        One name per feature. Data that have names must then have these, in any order.

    Arrays are float64, finite, checked and read-only. Two models are equal if all their fields are.
    """

    weights: Floats
    fill: Floats
    spread: Floats
    intercept: float = 0.0
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        validate.freeze(self, ARRAYS)
        object.__setattr__(self, "intercept", validate.finite_number("intercept", self.intercept))
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
            validate.refuse_infinite(name, array)
        validate.refuse_negative("spread", self.spread)
        validate.check_names(self.feature_names, self.n_features)

    @property
    def n_features(self) -> int:
        """How many features a document has."""
        return self.weights.size

    @lazy
    def used(self) -> Array:
        """The features whose weight is not 0."""
        return checks.read_only(np.flatnonzero(self.weights))

    def predict(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """The score of each row, in row order.

        ``features`` are rows × features: an array, a frame, a sparse matrix, a RankingData. Columns with names are
        put in the model's order; without names they are taken by position. A row's score does not depend on the
        number of threads or on other rows.
        """
        matrix = features_in_order(features, self.n_features, self.feature_names)
        scores = self.sums(matrix, n_threads)
        finite = np.isfinite(scores)
        if not finite.all():
            self._refuse_row(matrix, int(np.argmin(finite)))
        return scores

    def sums(self, matrix: Features, n_threads: int | None) -> Floats:
        """The scores of a matrix whose columns are in order; they may be infinite or NaN."""
        scores = np.empty(len(matrix), SCORE)
        arguments = (
            checks.read_only(matrix),
            self.used,
            self.weights,
            self.fill,
            self.intercept,
            scores,
        )
        least = max(1, _LEAST_TERMS // max(1, self.used.size))
        if n_threads is None and len(matrix) < 2 * least:
            linear_scores(0, len(matrix), *arguments)  # counting the cores would take longer
        else:
            threads.run_blocks(
                linear_scores, len(matrix), *arguments, n_threads=n_threads, least=least
            )
        return scores

    def importance(self) -> Floats:
        """The importance of each feature: its absolute weight times its spread."""
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


def linear_to_arrays(model: LinearModel) -> tuple[Record, Arrays]:
    """The record of the model for ``model.json``, and its arrays."""
    record = {name: getattr(model, name) for name in _SCALARS}
    return record, {name: getattr(model, name) for name in ARRAYS}


def linear_from_arrays(record: Any, arrays: Mapping[str, Array], feature_names: Any) -> LinearModel:
    """The model from the result of ``linear_to_arrays``, fully checked."""
    check_record(record, _SCALARS)
    own = native_arrays(ARRAYS, arrays)
    refuse_others(arrays, ARRAYS, "a linear model")
    return LinearModel(**own, **record, feature_names=names_of(feature_names))


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean, standard deviation and least value of each feature, ignoring missing values.

    A constant feature has spread 0. A feature without any value has 0 for all three.
    """

    centre: Floats
    spread: Floats
    least: Floats

    @classmethod
    def of(cls, features: Features, weights: Floats | None, n_threads: int) -> Scaling:
        """The scaling of weighted rows; infinite values are refused."""
        features = np.require(features, requirements=["C", "ALIGNED"])
        of_rows = np.ones(len(features)) if weights is None else weights
        zero: Floats = np.zeros(features.shape[1])
        moments = _moments(features, zero, of_rows, n_threads)
        _refuse_infinite(features, of_rows, moments)
        total = np.where(moments[WEIGHT_SUM] > 0, moments[WEIGHT_SUM], 1.0)
        centre = moments[FIRST] / total
        moments = _moments(features, centre, of_rows, n_threads)
        varies = moments[GREATEST] > moments[LEAST]
        spread = np.where(varies, np.sqrt(moments[SECOND] / total), 0.0)
        least = np.where(moments[WEIGHT_SUM] > 0, moments[LEAST], 0.0)
        return cls(read_only(centre), read_only(spread), read_only(least))

    @lazy
    def inverse(self) -> Floats:
        """One over the spread; 0 for constant features, which therefore get no weight."""
        is_constant = self.spread == 0
        return np.where(is_constant, 0.0, 1.0 / np.where(is_constant, 1.0, self.spread))

    def model(self, weights: Floats, feature_names: tuple[str, ...] | None = None) -> LinearModel:
        """The model of weights in units of spread, with centred scores; the mean replaces a missing value."""
        raw = weights * self.inverse
        intercept = -float((raw * self.centre).sum())
        return LinearModel(raw, self.centre, self.spread, intercept, feature_names)


def _moments(features: Features, centre: Floats, weights: Floats, n_threads: int) -> Floats:
    """Sums and extremes over all rows, one row of ``N_MOMENTS`` per kind."""
    n_blocks = -(-weights.size // _BLOCK_ROWS)
    sums = np.empty((n_blocks, N_MOMENTS, centre.size))
    arguments = (_BLOCK_ROWS, read_only(features), read_only(centre), read_only(weights), sums)
    run_blocks(sum_moments, n_blocks, *arguments, n_threads=n_threads, least=4)
    moments: Floats = np.add.reduce(sums, axis=0)
    moments[LEAST] = sums[:, LEAST].min(axis=0)
    moments[GREATEST] = sums[:, GREATEST].max(axis=0)
    return moments


def _refuse_infinite(features: Features, weights: Floats, moments: Floats) -> None:
    is_present = moments[WEIGHT_SUM] > 0
    is_infinite = is_present & (np.isinf(moments[LEAST]) | np.isinf(moments[GREATEST]))
    if (feature := checks.first_true(is_infinite)) is not None:
        row = int(np.argmax(np.isinf(features[:, feature]) & (weights > 0)))
        raise DataError(
            f"features[{row}, {feature}] is {float(features[row, feature])}: a linear model needs "
            "finite values. Replace it by NaN (missing) or by a number."
        )


@kernel
def linear_scores(
    first: int,
    last: int,
    features: Array,
    used: Array,
    weights: Array,
    fill: Array,
    intercept: float,
    scores: Array,
) -> None:
    """The score of each row: features ``used``, in their order, then the intercept.

    Every row is summed in the same order, so its score does not depend on other rows.
    """
    whole = first + (last - first) // SIDE_BY_SIDE * SIDE_BY_SIDE
    for row in range(first, whole, SIDE_BY_SIDE):
        one = two = three = four = 0.0
        for index in range(used.size):
            feature = used[index]
            weight = weights[feature]
            instead = fill[feature]
            one += term(features[row, feature], weight, instead)
            two += term(features[row + 1, feature], weight, instead)
            three += term(features[row + 2, feature], weight, instead)
            four += term(features[row + 3, feature], weight, instead)
        scores[row] = one + intercept
        scores[row + 1] = two + intercept
        scores[row + 2] = three + intercept
        scores[row + 3] = four + intercept
    for row in range(whole, last):
        one = 0.0
        for index in range(used.size):
            feature = used[index]
            one += term(features[row, feature], weights[feature], fill[feature])
        scores[row] = one + intercept


@kernel
def term(value: float, weight: float, fill: float) -> float:
    """The contribution of one feature to a score; NaN counts as ``fill``."""
    return weight * value if value == value else weight * fill  # noqa: PLR0124 - NaN


@kernel
def sum_moments(
    first: int, last: int, block: int, features: Array, centre: Array, weights: Array, sums: Array
) -> None:
    """Moments of each feature over each block of rows, ignoring missing values.

    They are the sums of weight, of weight times the distance from the centre, and of weight times its square; the
    least and the greatest value. Rows of weight 0 are skipped. Blocks have a fixed size, so that adding them in
    order gives the same bits for any number of threads.
    """
    for number in range(first, last):
        moments = sums[number]
        moments[:] = 0.0
        moments[LEAST] = np.inf
        moments[GREATEST] = -np.inf
        for row in range(number * block, min((number + 1) * block, weights.size)):
            weight = weights[row]
            if weight == 0.0:
                continue
            for feature in range(centre.size):
                value = features[row, feature]
                if np.isnan(value):
                    continue
                distance = value - centre[feature]
                moments[WEIGHT_SUM, feature] += weight
                moments[FIRST, feature] += weight * distance
                moments[SECOND, feature] += weight * distance * distance
                moments[LEAST, feature] = min(moments[LEAST, feature], value)
                moments[GREATEST, feature] = max(moments[GREATEST, feature], value)
