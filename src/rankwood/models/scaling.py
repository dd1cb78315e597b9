"""``Scaling``: where the values of each feature lie, and weights in units of their spread."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from rankwood._checks import read_only
from rankwood._threads import run_blocks
from rankwood.dtypes import Features, Floats
from rankwood.errors import DataError
from rankwood.models.linear import LinearModel
from rankwood.models.scaling_kernels import (
    FIRST,
    GREATEST,
    LEAST,
    N_MOMENTS,
    SECOND,
    WEIGHT,
    sum_moments,
)

_BLOCK_ROWS = 4096  # summed on their own before they are added up


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean, standard deviation and least value of each feature; missing values count nowhere.

    A constant feature has spread 0. One without any value has 0 for all three.
    """

    centre: Floats
    spread: Floats
    least: Floats

    @classmethod
    def of(cls, features: Features, weights: Floats | None, n_threads: int) -> Scaling:
        """The scaling of rows that weigh so much; infinite values are refused."""
        features = np.require(features, requirements=["C", "ALIGNED"])
        of_rows = np.ones(len(features)) if weights is None else weights
        zero: Floats = np.zeros(features.shape[1])
        moments = _moments(features, zero, of_rows, n_threads)
        _refuse_infinite(features, of_rows, moments)
        total = np.where(moments[WEIGHT] > 0, moments[WEIGHT], 1.0)
        centre = moments[FIRST] / total
        moments = _moments(features, centre, of_rows, n_threads)
        varies = moments[GREATEST] > moments[LEAST]
        spread = np.where(varies, np.sqrt(moments[SECOND] / total), 0.0)
        least = np.where(moments[WEIGHT] > 0, moments[LEAST], 0.0)
        return cls(read_only(centre), read_only(spread), read_only(least))

    @functools.cached_property
    def inverse(self) -> Floats:
        """One over the spread; 0 for constant features, which thereby get no weight."""
        is_constant = self.spread == 0
        return np.where(is_constant, 0.0, 1.0 / np.where(is_constant, 1.0, self.spread))

    def model(self, weights: Floats, feature_names: tuple[str, ...] | None = None) -> LinearModel:
        """The model of weights in units of spread, its scores centred; a missing value counts as the mean."""
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
    is_present = moments[WEIGHT] > 0
    is_infinite = is_present & (np.isinf(moments[LEAST]) | np.isinf(moments[GREATEST]))
    if is_infinite.any():
        feature = int(np.argmax(is_infinite))
        row = int(np.argmax(np.isinf(features[:, feature]) & (weights > 0)))
        raise DataError(
            f"features[{row}, {feature}] is {float(features[row, feature])}: a linear model needs "
            "finite values. Replace it by NaN (missing) or by a number."
        )
