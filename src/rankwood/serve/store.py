"""The models that are served: ``ServedModel`` scores documents, ``ModelStore`` reads files, again after a change."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwood.dtypes import Features, Floats
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.models.format import load_model
from rankwood.models.shapley import contributions

LARGEST = float(np.finfo(np.float32).max)  # of a feature value
_WARM_UP_ROWS = (1, 2, 100)
_LOG = logging.getLogger(__name__)
Stamp = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model that was read from a file, ready to score; never changed, only replaced."""

    name: str
    model: Any
    meta: Mapping[str, Any]
    features: tuple[str, ...]
    column_of_feature: Mapping[str, int]
    digest: str  # of the file's bytes, which the service shows as the version

    def matrix(self, documents: Sequence[Any], *, refuse_missing: bool = False) -> Features:
        """The features of documents as rows, in the model's order.

        A document's features are values in the model's order, or values by name; None and names that are left out are
        missing values.
        """
        rows = np.empty((len(documents), len(self.features)), np.float64)
        for number, document in enumerate(documents):
            if isinstance(document.features, dict):
                self._fill_by_name(document.features, rows[number], f"documents.{number}")
            else:
                self._fill_in_order(document.features, rows[number], f"documents.{number}")
        _refuse_huge(rows, self.features)
        if refuse_missing:
            _refuse_missing(rows, self.features)
        return rows.astype(np.float32)

    def score(self, matrix: Features) -> Floats:
        """The score of each row, on this thread."""
        scores: Floats = self.model.predict(matrix, n_threads=1)
        return scores

    def _fill_in_order(self, values: list[float | None], row: Floats, path: str) -> None:
        if len(values) != len(row):
            raise FieldError(
                f"{path}.features",
                f"model '{self.name}' knows {len(row)} features, but there are {len(values)} values.",
            )
        row[:] = values  # None becomes NaN

    def _fill_by_name(self, values: dict[str, float | None], row: Floats, path: str) -> None:
        row.fill(np.nan)
        for name, value in values.items():
            column = self.column_of_feature.get(name)
            if column is None:
                problem = UnknownName("feature", name, self.features)
                raise FieldError(f"{path}.features.{name}", str(problem))
            if value is not None:
                row[column] = value


class FieldError(DataError):
    """The value of one field of a request cannot be used."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def read_served(path: str | os.PathLike[str], name: str) -> ServedModel:
    """The model of a file, warmed up: its first request is as fast as the others."""
    model, meta = load_model(path)
    names = model.feature_names or tuple(str(number + 1) for number in range(model.n_features))
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    columns = {feature: column for column, feature in enumerate(names)}
    served = ServedModel(name, model, meta, tuple(names), columns, digest)
    for n_rows in _WARM_UP_ROWS:
        rows = np.zeros((n_rows, len(names)), np.float32)
        served.score(rows)
        with contextlib.suppress(ModelError):  # not every model can be explained
            contributions(model, rows, n_threads=1)
    return served


def order_of(scores: Floats, top_k: int | None) -> list[int]:
    """The documents from the best to the worst; equal scores keep the order of the request."""
    ranking = np.argsort(-scores, kind="stable")[:top_k]
    return [int(document) for document in ranking]


def _refuse_huge(rows: Floats, features: Sequence[str]) -> None:
    """Raise for a value that float32 cannot hold: a model's thresholds are float32."""
    with np.errstate(invalid="ignore"):
        huge = np.argwhere(np.abs(rows) > LARGEST)
    if len(huge):
        number, column = huge[0].tolist()
        raise FieldError(
            f"documents.{number}.features",
            f"feature '{features[column]}' is {rows[number, column]:g}; "
            f"values must be within ±{LARGEST:.4g} (float32).",
        )


def _refuse_missing(rows: Floats, features: Sequence[str]) -> None:
    missing = np.argwhere(np.isnan(rows))
    if len(missing):
        number, column = missing[0].tolist()
        raise FieldError(
            f"documents.{number}.features",
            f"feature '{features[column]}' is missing, and this service refuses missing values.",
        )


@dataclass
class ModelSlot:
    """A file, the model that was last read from it, and what was wrong with the file since."""

    path: Path
    served: ServedModel
    stamp: Stamp | None
    problem: str | None = None


class ModelStore:
    """Models by name. A model is replaced as a whole: a request that has begun keeps the one it has."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        self._entries: dict[str, ModelSlot] = {}
        self.reloads = 0
        self.failures = 0
        for path in map(Path, paths):
            name = path.name.removesuffix(".rankwood")
            if name in self._entries:
                raise ParameterError(
                    f"{path} and {self._entries[name].path} would both be served as '{name}'. Rename one of them."
                )
            stamp = _stamp(path)
            self._entries[name] = ModelSlot(path, read_served(path, name), stamp)

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[ModelSlot]:
        """All of them, in the order they were named."""
        return list(self._entries.values())

    def get(self, name: str | None) -> ServedModel:
        """The model of a request; the only one, if it does not say which."""
        if name is None:
            if len(self._entries) == 1:
                return next(iter(self._entries.values())).served
            raise FieldError(
                "model", f"say which of the models is meant: {', '.join(self._entries)}."
            )
        if name not in self._entries:
            raise UnknownName("model", name, self._entries)
        return self._entries[name].served

    def refresh(self) -> None:
        """Read the files that have changed; a file that cannot be used leaves the old model in service."""
        for name, entry in self._entries.items():
            stamp = _stamp(entry.path)
            if stamp == entry.stamp:
                continue
            entry.stamp = stamp
            try:
                if stamp is None:
                    raise ModelError(f"{entry.path} is gone.")
                entry.served = read_served(entry.path, name)
            except (ModelError, OSError, MemoryError) as error:
                entry.problem = str(error)
                self.failures += 1
                _LOG.warning("model '%s' was not replaced: %s", name, error)
            else:
                entry.problem = None
                self.reloads += 1
                _LOG.info("model '%s' was replaced: %s", name, entry.served.digest[:12])


def _stamp(path: Path) -> Stamp | None:
    """What changes when a file does; None where there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
