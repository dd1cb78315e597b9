"""The model file: ``save_model`` and ``load_model`` for models of any kind.

``docs/reference/format-v1.md`` describes the file field by field. A file never contains code: reading one creates
numbers, texts and arrays, and checks them.

A kind of model that is listed in ``KINDS`` can be saved, loaded, scored and inspected. ``model.json`` has a model's
scalars under the name of its kind; feature names belong to the file as a whole. ``write_model`` and ``read_model`` are
the level below: the document and arrays of any kind, as checkpoints use them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rankwood import __version__
from rankwood.dtypes import Array
from rankwood.errors import ModelError
from rankwood.models import archive, validate
from rankwood.models.archive import (
    SUBSETS,
    Arrays,
    Record,
    forest_from_arrays,
    forest_to_arrays,
    refuse_others,
)
from rankwood.models.blend import BlendModel, blend_from_arrays, blend_to_arrays
from rankwood.models.cascade import Cascade, cascade_from_arrays, cascade_to_arrays
from rankwood.models.family import Family, family_from_arrays, family_to_arrays
from rankwood.models.forest import Forest
from rankwood.models.linear import LinearModel, linear_from_arrays, linear_to_arrays
from rankwood.models.neural import NeuralModel, neural_from_arrays, neural_to_arrays
from rankwood.models.ordinal import OrdinalModel, ordinal_from_arrays, ordinal_to_arrays

FORMAT = "rankwood-model"
FORMAT_VERSION = 2  # the greatest that can be read
_WITHOUT_CATEGORIES = 1  # files of models that all versions can read
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


def save_model(
    model: Any, path: str | os.PathLike[str], meta: Mapping[str, Any] | None = None
) -> None:
    """Write a model of any kind and its metadata to a model file."""
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
    """The model of a file, of any kind, and its metadata."""
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


def kind_of(model: Any) -> str | None:
    """The name of a model's kind; None for other objects."""
    return next((name for name, kind in KINDS.items() if isinstance(model, kind.model)), None)


@dataclass(frozen=True)
class StoredModel:
    """The content of a model file: the kind of model, its metadata, and its arrays, read-only."""

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
        "format_version": FORMAT_VERSION if _has_categories(arrays) else _WITHOUT_CATEGORIES,
        "rankwood_version": __version__,
        "kind": kind,
        "comparison": COMPARISON,
    }
    archive.write_archive(path, document, arrays)


def read_model(path: str | os.PathLike[str]) -> StoredModel:
    """The content of a model file, or a ``ModelError`` that names the problem."""

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
    """Whether a regular file starts like a model file; its content is not checked."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_ZIP_START)) == _ZIP_START


# The kinds of models.


@dataclass(frozen=True)
class ModelKind:
    """A kind of model: its class, its name in messages, and its conversion to a file and back.

    ``from_arrays`` gets the record, the arrays and the feature names of a file, none of which are trusted.
    """

    model: type[Any]
    noun: str
    to_arrays: Callable[[Any], tuple[Record, Arrays]]
    from_arrays: Callable[[Any, Mapping[str, Array], Any], Any]


def _bare_forest(record: Any, arrays: Mapping[str, Array], feature_names: Any) -> Forest:
    forest = forest_from_arrays(record, arrays, feature_names)
    known = (*validate.ARRAYS, SUBSETS) if forest.categorical is not None else validate.ARRAYS
    refuse_others(arrays, known, "a forest")
    return forest


_OF_LAYERS: dict[str, ModelKind] = {  # models that a layer of a cascade may hold
    "forest": ModelKind(Forest, "forest", forest_to_arrays, _bare_forest),
    "linear": ModelKind(LinearModel, "linear model", linear_to_arrays, linear_from_arrays),
    "neural": ModelKind(NeuralModel, "neural network", neural_to_arrays, neural_from_arrays),
    "family": ModelKind(Family, "family of models", family_to_arrays, family_from_arrays),
    "ordinal": ModelKind(OrdinalModel, "ordinal model", ordinal_to_arrays, ordinal_from_arrays),
}


def _cascade_to_arrays(model: Cascade) -> tuple[Record, Arrays]:
    return cascade_to_arrays(model, _OF_LAYERS)


def _cascade_from_arrays(record: Any, arrays: Mapping[str, Array], feature_names: Any) -> Cascade:
    return cascade_from_arrays(record, arrays, feature_names, _OF_LAYERS)


_OF_BLENDS: dict[str, ModelKind] = {  # models that a blend may hold
    **_OF_LAYERS,
    "cascade": ModelKind(Cascade, "cascade", _cascade_to_arrays, _cascade_from_arrays),
}


def _blend_to_arrays(model: BlendModel) -> tuple[Record, Arrays]:
    return blend_to_arrays(model, _OF_BLENDS)


def _blend_from_arrays(record: Any, arrays: Mapping[str, Array], feature_names: Any) -> BlendModel:
    return blend_from_arrays(record, arrays, feature_names, _OF_BLENDS)


KINDS: dict[str, ModelKind] = {
    **_OF_BLENDS,
    "blend": ModelKind(BlendModel, "blend", _blend_to_arrays, _blend_from_arrays),
}


def _has_categories(arrays: Iterable[str]) -> bool:
    """Whether a model of these arrays tests categories."""
    return any(name.rpartition(".")[2] == SUBSETS for name in arrays)


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
    """Raise unless the keys with a fixed meaning have values of their type."""
    for key, kind in _KNOWN.items():
        value = meta.get(key)
        is_fine = isinstance(value, list | tuple) if kind is list else isinstance(value, kind)
        if value is not None and not is_fine:
            raise ModelError(f"{key} must be {kind.__name__}, got {type(value).__name__}.")
    names = meta.get("feature_names")
    if names is not None and not all(isinstance(name, str) for name in names):
        raise ModelError("feature_names must be texts.")
