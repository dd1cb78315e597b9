"""The model file: what ``model.json`` says, and models of any kind in it.

``docs/reference/format-v1.md`` describes it field by field. A file never holds code: reading one makes numbers, texts
and arrays, checks them, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankwood import __version__
from rankwood.dtypes import Array
from rankwood.errors import ModelError
from rankwood.models import archive
from rankwood.models.kinds import KINDS, kind_of

FORMAT = "rankwood-model"
FORMAT_VERSION = 1
COMPARISON = "<="  # a document goes left when value <= threshold

_OURS = ("format", "format_version", "rankwood_version", "kind", "comparison", "arrays")
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


def save_model(
    model: Any, path: str | os.PathLike[str], meta: Mapping[str, Any] | None = None
) -> None:
    """Write a model of any kind, and what ``meta`` says about it, to a model file."""
    kind = kind_of(model)
    if kind is None:
        raise ModelError(f"{type(model).__name__} is not a model that a file can hold.")
    record, arrays = KINDS[kind].to_arrays(model)
    names = None if model.feature_names is None else list(model.feature_names)
    about = dict(meta or {})
    if list(about.get("feature_names") or names or []) != (names or []):
        raise ModelError(f"meta has other feature_names than the {KINDS[kind].noun}.")
    if kind in about:
        raise ModelError(f"meta must not hold '{kind}': the model's own record goes there.")
    about = {**about, "feature_names": names, kind: record}
    write_model(path, kind, about, arrays)


def load_model(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The model of a file, whatever its kind, and what else the file says about it."""
    stored = read_model(path)
    if stored.kind not in KINDS:
        raise ModelError(
            f"{os.fspath(path)} holds something of kind '{stored.kind}', which this version "
            f"cannot score with. Known: {', '.join(KINDS)}."
        )
    kind = KINDS[stored.kind]
    meta = dict(stored.meta)
    record = meta.pop(stored.kind, None)
    try:
        model = kind.from_arrays(record, stored.arrays, meta.get("feature_names"))
    except ModelError as error:
        raise ModelError(f"{os.fspath(path)} holds no usable {kind.noun}: {error}") from None
    return model, meta


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
