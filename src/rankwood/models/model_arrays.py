"""A model's arrays on their way into a file and back; files are not to be trusted.

A forest is a model, and a part of larger ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from rankwood.dtypes import Array
from rankwood.errors import ModelError
from rankwood.models import forest_checks
from rankwood.models.forest import Forest

_FOREST_SCALARS = ("average", "base", "n_features")

Record = dict[str, Any]
Arrays = dict[str, Array]


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
    check_record(record, _FOREST_SCALARS)
    found = native_arrays(forest_checks.ARRAYS, arrays, prefix)
    return Forest(**found, **record, feature_names=names_of(feature_names))


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


def check_record(record: Any, scalars: tuple[str, ...]) -> None:
    """Raise unless ``record`` holds these scalars and nothing else."""
    if not isinstance(record, dict) or set(record) != set(scalars):
        raise ModelError(f"its record must hold {', '.join(scalars)} and nothing else.")


def refuse_others(arrays: Mapping[str, Array], known: Collection[str], noun: str) -> None:
    """Raise where there are arrays that a model of this kind does not have."""
    unknown = sorted(set(arrays) - set(known))
    if unknown:
        raise ModelError(f"array '{unknown[0]}' does not belong to {noun}.")


def names_of(feature_names: Any) -> tuple[str, ...] | None:
    """Feature names as models keep them."""
    return None if feature_names is None else tuple(feature_names)
