"""What every kind of model asks of its parts: arrays of a dtype, finite numbers, names that differ."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from rankwood.dtypes import Array
from rankwood.errors import ModelError


def typed(name: str, array: Any, dtype: type[np.generic]) -> Array:
    """``array`` if it has one dimension and that dtype; a copy if it could be written to."""
    wanted = np.dtype(dtype)
    if not isinstance(array, np.ndarray) or array.dtype != wanted or array.ndim != 1:
        found = (
            f"{array.dtype} of {array.ndim} dimensions"
            if isinstance(array, np.ndarray)
            else type(array).__name__
        )
        raise ModelError(f"{name} must be an array of {wanted} with one dimension, got {found}.")
    plain = np.asarray(array)
    is_ours = plain.flags.c_contiguous and plain.flags.aligned and not plain.flags.writeable
    return plain if is_ours else np.array(plain, dtype=wanted, order="C")


def finite_number(name: str, value: Any) -> float:
    """``value`` as a finite float."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise ModelError(f"{name} must be a finite number, got {value!r}.")
    return float(value)


def refuse_infinite(name: str, array: Array) -> None:
    """Raise unless every number of ``array`` is finite."""
    finite = np.isfinite(array)
    if not finite.all():
        place = int(np.argmin(finite))
        raise ModelError(f"{name}[{place}] is {float(array[place])}; it must be finite.")


def refuse_negative(name: str, array: Array) -> None:
    """Raise if a number of ``array`` is below 0."""
    if array.size and array.min() < 0:
        place = int(np.argmin(array))
        raise ModelError(f"{name}[{place}] is {float(array[place]):g}; it must not be negative.")


def check_names(names: tuple[str, ...] | None, n_features: int) -> None:
    """Raise unless there are no names at all, or one for each feature, all different."""
    if names is None:
        return
    if not all(isinstance(name, str) for name in names):
        raise ModelError("feature_names must be texts.")
    if len(names) != n_features:
        raise ModelError(
            f"feature_names has {len(names):,} names, but there are {n_features:,} features."
        )
    if len(set(names)) != len(names):
        raise ModelError("feature_names has a name more than once; names must differ.")
