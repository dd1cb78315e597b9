"""What a user's own extension points give, looked at before it is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.errors import ParameterError


@dataclass(frozen=True, eq=False)
class UsersLoss:
    """A user's object with ``targets(data, scores)``, as a ``Loss`` of these data."""

    users: Any
    data: RankingData

    def start(self) -> float:
        """Additive kinds begin at 0."""
        return 0.0

    def targets(self, scores: Floats) -> tuple[Floats, Floats | None]:
        """What the user's object says that the next forest should fit; it may give weights beside it."""
        found = self.users.targets(self.data, scores)
        targets, weights = found if isinstance(found, tuple) else (found, None)
        n_rows = self.data.n_documents
        targets = _numbers("the targets of loss", targets, n_rows)
        if weights is not None:
            weights = checked_weights("the weights of loss", weights, n_rows)
        return targets, weights


def checked_errors(errors_of: Callable[..., Any]) -> Callable[[RankingData, Floats], Floats]:
    """A user's function ``errors(data, predictions)``, whose answers are looked at."""
    name = f"the errors of {getattr(errors_of, '__name__', 'loss')}"

    def errors(data: RankingData, predictions: Floats) -> Floats:
        is_unknown = np.isnan(predictions)
        found = _numbers(name, errors_of(data, predictions), data.n_documents, is_unknown)
        if (found < 0).any():
            raise ParameterError(f"{name} must not be negative.")
        return np.where(is_unknown, np.nan, found)

    return errors


def checked_update(
    function: Callable[..., Any],
) -> Callable[[Floats, Floats, float], Floats]:
    """A user's function ``weights(weights, errors, beta)``; its answers are scaled to a sum of 1."""

    def update(weights: Floats, errors: Floats, beta: float) -> Floats:
        found = checked_weights("update_weights", function(weights, errors, beta), weights.size)
        scaled: Floats = found / found.sum()
        return scaled

    return update


def checked_predictions(function: Callable[..., Any]) -> Callable[[Any], Floats]:
    """A user's function ``predictions(forest)``; NaN where a row has none."""

    def predictions(forest: Any) -> Floats:
        n_rows = forest.held_out.size
        return _numbers("validation", function(forest), n_rows, np.ones(n_rows, bool))

    return predictions


def checked_weights(name: str, values: Any, n_rows: int) -> Floats:
    """One weight per row, none negative, not all 0."""
    weights = _numbers(name, values, n_rows)
    if weights.min() < 0 or not weights.any():
        raise ParameterError(f"{name} must not be negative, and not all 0.")
    return weights


def _numbers(name: str, values: Any, n_rows: int, may_be_nan: Array | None = None) -> Floats:
    """One number per row, or an error that says what was given instead."""
    try:
        found = np.ascontiguousarray(values, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be numbers, got {type(values).__name__}.") from None
    if found.shape != (n_rows,):
        shape = " × ".join(f"{length:,}" for length in found.shape) or "one"
        raise ParameterError(f"{name} must be one number for each of {n_rows:,} rows, got {shape}.")
    is_missing = np.zeros(n_rows, bool) if may_be_nan is None else np.isnan(found) & may_be_nan
    if not (np.isfinite(found) | is_missing).all():
        raise ParameterError(f"{name} must be finite wherever there is a prediction.")
    return found
