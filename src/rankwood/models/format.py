"""The model file: what ``model.json`` says, and forests in it.

``docs/reference/format-v1.md`` describes it field by field. A file never holds code: reading one makes numbers, texts
and arrays, checks them, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood import __version__
from rankwood.dtypes import Array
from rankwood.errors import ModelError
from rankwood.models import archive
from rankwood.models.forest import Forest
from rankwood.models.forest_checks import ARRAYS

FORMAT = "rankwood-model"
FORMAT_VERSION = 1
COMPARISON = "<="  # a document goes left when value <= threshold

_OURS = ("format", "format_version", "rankwood_version", "kind", "comparison", "arrays")
_SCALARS = ("average", "base", "n_features")
# Keys of ``meta`` that have one meaning in every file; further keys are free.
_KNOWN: dict[str, type] = {
    "estimator": str,
    "parameters": dict,
    "feature_names": list,
    "measures": dict,
    "training": dict,
    "conventions": dict,
}


_ZIP_START = b"PK\x03\x04"


@dataclass(frozen=True)
class StoredModel:
    """What a model file holds: the kind of model, what is known about it, and its arrays, read-only."""

    kind: str
    meta: dict[str, Any]
    arrays: dict[str, Array]


def write_model(
    path: str | os.PathLike[str], kind: str, meta: Mapping[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Write a model file; the same content gives the same bytes.

    ``meta`` is anything JSON can say. ``estimator`` (a class name), ``parameters``, ``feature_names``, ``measures``,
    ``training`` and ``conventions`` mean the same in every file.
    """
    taken = [key for key in _OURS if key in meta]
    if taken:
        raise ModelError(f"meta must not hold '{taken[0]}': the format writes it itself.")
    if not isinstance(kind, str) or not kind:
        raise ModelError(f"the kind of a model must be a text, got {kind!r}.")
    _check_meta(meta)
    document = {
        **meta,
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "rankwood_version": __version__,
        "kind": kind,
        "comparison": COMPARISON,
    }
    archive.write_archive(path, document, arrays)


def read_model(path: str | os.PathLike[str]) -> StoredModel:
    """The content of a model file, or a ``ModelError`` that says what is wrong with it."""

    def check(document: dict[str, Any]) -> None:
        try:
            _check_document(document)
            _check_meta(document)
        except ModelError as error:
            raise ModelError(f"{os.fspath(path)}: {error}") from None

    document, arrays = archive.read_archive(path, check)
    meta = {key: value for key, value in document.items() if key not in _OURS}
    return StoredModel(document["kind"], meta, arrays)


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Whether a regular file begins like a model file; what is in it is another matter."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_ZIP_START)) == _ZIP_START


def save_forest(
    forest: Forest, path: str | os.PathLike[str], meta: Mapping[str, Any] | None = None
) -> None:
    """Write a forest, and what ``meta`` says about it, to a model file."""
    record, arrays = forest_to_arrays(forest)
    names = None if forest.feature_names is None else list(forest.feature_names)
    about = dict(meta or {})
    if list(about.get("feature_names") or names or []) != (names or []):
        raise ModelError("meta has other feature_names than the forest.")
    if "forest" in about:
        raise ModelError("meta must not hold 'forest': the forest's own record goes there.")
    about = {**about, "feature_names": names, "forest": record}
    write_model(path, "forest", about, arrays)


def load_forest(path: str | os.PathLike[str]) -> tuple[Forest, dict[str, Any]]:
    """The forest of a model file, and what else the file says about it."""
    return stored_forest(read_model(path), path)


def stored_forest(
    stored: StoredModel, path: str | os.PathLike[str]
) -> tuple[Forest, dict[str, Any]]:
    """The forest of what was read from ``path``, and what else is said about it."""
    if stored.kind != "forest":
        raise ModelError(f"{os.fspath(path)} holds a model of kind '{stored.kind}', not a forest.")
    meta = dict(stored.meta)
    try:
        forest = forest_from_arrays(
            meta.pop("forest", None), stored.arrays, meta.get("feature_names")
        )
        unknown = sorted(set(stored.arrays) - set(ARRAYS))
        if unknown:
            raise ModelError(f"array '{unknown[0]}' does not belong to a forest.")
    except ModelError as error:
        raise ModelError(f"{os.fspath(path)} holds no usable forest: {error}") from None
    return forest, meta


def forest_to_arrays(forest: Forest, prefix: str = "") -> tuple[dict[str, Any], dict[str, Array]]:
    """A forest's scalars for ``model.json``, and its arrays, their names after ``prefix``.

    For models made of several forests; feature names are the whole model's and not among them.
    """
    record = {name: getattr(forest, name) for name in _SCALARS}
    return record, {prefix + name: getattr(forest, name) for name in ARRAYS}


def forest_from_arrays(
    record: Any, arrays: Mapping[str, Array], feature_names: Any = None, prefix: str = ""
) -> Forest:
    """The forest that ``forest_to_arrays`` took apart, with all its checks."""
    if not isinstance(record, dict) or set(record) != set(_SCALARS):
        raise ModelError(f"its record must hold {', '.join(_SCALARS)} and nothing else.")
    found: dict[str, Any] = {}
    for name, dtype in ARRAYS.items():
        if prefix + name not in arrays:
            raise ModelError(f"array '{prefix + name}' is missing.")
        # On a big-endian machine this turns the bytes round.
        array = arrays[prefix + name]
        native = array.dtype.newbyteorder("=") == np.dtype(dtype)
        found[name] = array.astype(dtype, copy=False) if native else array
    names = None if feature_names is None else tuple(feature_names)
    return Forest(**found, **record, feature_names=names)


def _check_document(document: Mapping[str, Any]) -> None:
    if document.get("format") != FORMAT:
        raise ModelError(f"it is not a Rankwood model: its format is not '{FORMAT}'.")
    version = document.get("format_version")
    if type(version) is not int or version < 1:
        raise ModelError("its format_version is not a whole number of at least 1.")
    if version > FORMAT_VERSION:
        raise ModelError(
            f"it was written by a newer Rankwood (format {version}); this one reads up to "
            f"{FORMAT_VERSION}: upgrade with pip install --upgrade rankwood."
        )
    for key in ("rankwood_version", "kind"):
        if not isinstance(document.get(key), str) or not document[key]:
            raise ModelError(f"its {key} is not a text.")
    if document.get("comparison") != COMPARISON:
        raise ModelError(f"its comparison is not '{COMPARISON}'.")


def _check_meta(meta: Mapping[str, Any]) -> None:
    """Raise unless the keys that mean the same everywhere hold what they should."""
    for key, kind in _KNOWN.items():
        value = meta.get(key)
        is_fine = isinstance(value, list | tuple) if kind is list else isinstance(value, kind)
        if value is not None and not is_fine:
            raise ModelError(f"{key} must be {kind.__name__}, got {type(value).__name__}.")
    names = meta.get("feature_names")
    if names is not None and not all(isinstance(name, str) for name in names):
        raise ModelError("feature_names must be texts.")
