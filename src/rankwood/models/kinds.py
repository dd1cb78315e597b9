"""Models of every kind to and from files: which kind is written and read by whom."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rankwood.errors import ModelError
from rankwood.models import ordinal
from rankwood.models.forest import Forest
from rankwood.models.format import read_model, save_forest, stored_forest, write_model
from rankwood.models.ordinal import OrdinalModel


def save_model(
    model: Forest | OrdinalModel,
    path: str | os.PathLike[str],
    meta: Mapping[str, Any] | None = None,
) -> None:
    """Write a model, and what ``meta`` says about it, to a model file."""
    if isinstance(model, Forest):
        save_forest(model, path, meta)
        return
    record, arrays = ordinal.ordinal_to_arrays(model)
    names = None if model.feature_names is None else list(model.feature_names)
    about = {**(meta or {}), "feature_names": names, ordinal.KIND: record}
    write_model(path, ordinal.KIND, about, arrays)


def load_model(path: str | os.PathLike[str]) -> tuple[Forest | OrdinalModel, dict[str, Any]]:
    """The model of a file, and what else the file says about it."""
    stored = read_model(path)
    if stored.kind != ordinal.KIND:
        return stored_forest(stored, path)
    try:
        model = ordinal.ordinal_from_arrays(stored)
    except ModelError as error:
        raise ModelError(f"{os.fspath(path)} holds no usable ordinal model: {error}") from None
    return model, {key: value for key, value in stored.meta.items() if key != ordinal.KIND}
