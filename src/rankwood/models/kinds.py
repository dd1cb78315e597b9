"""Kinds of models that a file may hold: how each is taken apart into arrays, and put together again.

A kind that is named here can be saved, loaded, scored and inspected. ``model.json`` keeps a model's scalars under the
name of its kind; feature names belong to the file as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood.dtypes import Array
from rankwood.errors import ModelError
from rankwood.models import forest_checks, linear
from rankwood.models.forest import Forest
from rankwood.models.linear import LinearModel

_FOREST_SCALARS = ("average", "base", "n_features")
_LINEAR_SCALARS = ("intercept",)

Record = dict[str, Any]
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Kind:
    """A kind of model: its class, what a message calls it, and the way into a file and back.

    ``from_arrays`` gets the record, the arrays and the feature names of a file, none of which it may trust.
    """

    model: type[Any]
    noun: str
    to_arrays: Callable[[Any], tuple[Record, Arrays]]
    from_arrays: Callable[[Any, Mapping[str, Array], Any], Any]


def forest_to_arrays(forest: Forest, prefix: str = "") -> tuple[Record, Arrays]:
    """A forest's scalars for ``model.json``, and its arrays, their names after ``prefix``.

    For models made of several forests; feature names are the whole model's and not among them.
    """
    record = {name: getattr(forest, name) for name in _FOREST_SCALARS}
    return record, {prefix + name: getattr(forest, name) for name in forest_checks.ARRAYS}


def forest_from_arrays(
    record: Any, arrays: Mapping[str, Array], feature_names: Any = None, prefix: str = ""
) -> Forest:
    """The forest that ``forest_to_arrays`` took apart, with all its checks."""
    _check_record(record, _FOREST_SCALARS)
    found = native_arrays(forest_checks.ARRAYS, arrays, prefix)
    return Forest(**found, **record, feature_names=_names(feature_names))


def _linear_to_arrays(model: LinearModel) -> tuple[Record, Arrays]:
    record = {name: getattr(model, name) for name in _LINEAR_SCALARS}
    return record, {name: getattr(model, name) for name in linear.ARRAYS}


def _linear_from_arrays(
    record: Any, arrays: Mapping[str, Array], feature_names: Any
) -> LinearModel:
    _check_record(record, _LINEAR_SCALARS)
    found = native_arrays(linear.ARRAYS, arrays)
    _refuse_others(arrays, linear.ARRAYS, "a linear model")
    return LinearModel(**found, **record, feature_names=_names(feature_names))


def _bare_forest(record: Any, arrays: Mapping[str, Array], feature_names: Any) -> Forest:
    forest = forest_from_arrays(record, arrays, feature_names)
    _refuse_others(arrays, forest_checks.ARRAYS, "a forest")
    return forest


KINDS: dict[str, Kind] = {
    "forest": Kind(Forest, "forest", forest_to_arrays, _bare_forest),
    "linear": Kind(LinearModel, "linear model", _linear_to_arrays, _linear_from_arrays),
}


def kind_of(model: Any) -> str | None:
    """The name of a model's kind; None for what is no model."""
    return next((name for name, kind in KINDS.items() if isinstance(model, kind.model)), None)


def native_arrays(
    dtypes: Mapping[str, type[np.generic]], arrays: Mapping[str, Array], prefix: str = ""
) -> dict[str, Any]:
    """The named arrays of a file, in the machine's byte order; the model itself checks what is in them."""
    found: dict[str, Any] = {}
    for name, dtype in dtypes.items():
        if prefix + name not in arrays:
            raise ModelError(f"array '{prefix + name}' is missing.")
        # On a big-endian machine this turns the bytes round.
        array = arrays[prefix + name]
        is_native = array.dtype.newbyteorder("=") == np.dtype(dtype)
        found[name] = array.astype(dtype, copy=False) if is_native else array
    return found


def _check_record(record: Any, scalars: tuple[str, ...]) -> None:
    if not isinstance(record, dict) or set(record) != set(scalars):
        raise ModelError(f"its record must hold {', '.join(scalars)} and nothing else.")


def _refuse_others(arrays: Mapping[str, Array], known: Mapping[str, Any], noun: str) -> None:
    unknown = sorted(set(arrays) - set(known))
    if unknown:
        raise ModelError(f"array '{unknown[0]}' does not belong to {noun}.")


def _names(feature_names: Any) -> tuple[str, ...] | None:
    return None if feature_names is None else tuple(feature_names)
