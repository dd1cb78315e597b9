"""The models that are served: ``ServedModel`` scores documents, ``ModelStore`` reads files, again after a change.

``Alias`` names models by a share of the requests each. What a feature is that a document does not mention
(``absent``) is known from the record of the model's training, or said by whoever starts the service.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from rankwood.dtypes import FEATURE, Features, Floats, Rows
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.models.format import load_model
from rankwood.models.json_text import (
    LEFT_OUT,
    NOTHING,
    UNKNOWN_FEATURE,
    WRONG_LENGTH,
    JsonText,
    NamedColumns,
)
from rankwood.models.shapley import contributions
from rankwood.models.validate import some_names

ABSENT = ("zero", "missing", "refuse")
LARGEST = float(np.finfo(np.float32).max)  # of a feature value
MOST_FEATURES = 100_000  # as many as the readers of data take; a file can claim any number
_MOST_SUGGESTED = 1000  # names among which a similar one is looked for: it takes time for each
_MOST_SHOWN = 100  # characters of a name in a message
_LONGEST_PROBLEM = 2000  # characters
_SHARES = 100  # per cent
_WARM_UP_ROWS = (1, 2, 100)
_LOG = logging.getLogger(__name__)
_DEFAULT = "default"  # the alias of requests that name no model
Stamp = tuple[int, int, int, int]


class FieldError(DataError):
    """The value of one field of a request cannot be used."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ScoreError(DataError):
    """A model gave a document a score that is no number: the model is at fault, not the request."""


@dataclass(frozen=True, eq=False)
class RequestRows:
    """The documents of a request, of all its queries: their features, and where each stands in the request."""

    text: JsonText
    features: Sequence[
        Any
    ]  # of each document: the number of its row in ``text``, or a list or an object as it is
    path_of: Callable[[int], str]  # the path to a document, as documents.0


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model that was read from a file, ready to score; never changed, only replaced."""

    name: str
    model: Any
    meta: Mapping[str, Any]
    columns: NamedColumns
    digest: str  # of the file's bytes, which the service shows as the version
    absent: (
        str | None
    )  # what a feature was in training that a row did not mention; None where that is not known
    codes: Mapping[int, Mapping[str, int]]  # by column of a categorical feature, of each category

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features, as answers show them."""
        return self.columns.names

    @property
    def categories(self) -> dict[str, list[str]]:
        """The categories of each categorical feature, in the order of their codes."""
        return {self.features[column]: list(codes) for column, codes in self.codes.items()}

    def matrix(
        self, rows: RequestRows, absent: str | None = None, *, refuse_missing: bool = False
    ) -> Features:
        """The features of documents as rows, in the model's order.

        A document's features are values in the model's order, or values by name; None is a missing value. A name that
        is left out is what ``absent`` says: 0, a missing value, or an error; by default what it was in training.
        A categorical feature has the name of a category, which becomes its code; 0 would be one, so a missing value
        stands for it where others are 0.
        """
        absent = absent or self.absent
        default = np.nan if absent == "missing" else 0.0
        names_all = absent not in ("zero", "missing")
        matrix = np.full((len(rows.features), len(self.features)), default, FEATURE)
        numbers = np.array(
            [features if type(features) is int else -1 for features in rows.features], np.int64
        )
        if self.codes:
            matrix[:, list(self.codes)] = np.nan
        code, document, detail = rows.text.fill(numbers, self.columns, names_all, matrix)
        if code != NOTHING:
            self._refuse_row(rows, code, document, detail)
        if self.codes:
            self._refuse_numbers(matrix, rows, numbers)
        for document in np.flatnonzero(numbers < 0).tolist():
            values, path = rows.features[document], f"{rows.path_of(document)}.features"
            if self.codes:
                values = self._coded(values, path)
            if isinstance(values, dict):
                self._fill_by_name(values, matrix[document], path, names_all)
            else:
                self._fill_in_order(values, matrix[document], path)
        if refuse_missing:
            self._refuse_missing(matrix, rows)
        return matrix

    def score(self, matrix: Features) -> Floats:
        """The score of each row, on this thread."""
        scores: Floats = self.model.predict(matrix, n_threads=1)
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores)))
            raise ScoreError(
                f"model '{self.name}' gives document {row} the score {scores[row]:g}, which is no number to rank by. "
                "Its trees or weights add up to more than float64 holds: train it again."
            )
        return scores

    def _coded(self, values: Any, path: str) -> Any:
        """The values of a document with codes for the names of categories; others are left as they are."""
        is_object = isinstance(values, dict)
        if not is_object and len(values) != len(self.features):
            self._refuse_length(len(values), path)
        coded = values.copy()
        for column, codes in self.codes.items():
            key = self.features[column] if is_object else column
            if is_object and key not in values:
                continue
            value = values[key]
            if isinstance(value, str):
                coded[key] = codes.get(value, len(codes)) if value else None
            elif value is not None:
                self._refuse_category(value, column, f"{path}.{shown(str(key))}")
        return coded

    def _refuse_numbers(self, matrix: Features, rows: RequestRows, numbers: Rows) -> None:
        """Raise for a number where the name of a category should be; rows of a ``JsonText`` hold no text."""
        for column in self.codes:
            is_number = ~np.isnan(matrix[:, column]) & (numbers >= 0)
            if is_number.any():
                document = int(np.argmax(is_number))
                is_object = bool(rows.text.rows[numbers[document], 2])
                key = shown(self.features[column]) if is_object else str(column)
                path = f"{rows.path_of(document)}.features.{key}"
                self._refuse_category(float(matrix[document, column]), column, path)

    def _refuse_category(self, value: Any, column: int, path: str) -> None:
        what = "the value is a number" if type(value) in (int, float) else "the value is no text"
        example = next(iter(self.codes[column]), "its name")
        raise FieldError(
            path,
            f"feature '{shown(self.features[column])}' is categorical, but {what}: send the name of a category in "
            f'quotation marks, as "{shown(example)}", or null where it is missing.',
        )

    def _fill_in_order(self, values: list[Any], row: Features, path: str) -> None:
        if len(values) != len(row):
            self._refuse_length(len(values), path)
        for column, value in enumerate(values):
            row[column] = _number(value, f"{path}.{column}")

    def _fill_by_name(
        self, values: dict[str, Any], row: Features, path: str, names_all: bool
    ) -> None:
        for name, value in values.items():
            column = self.columns.column_of.get(name)
            if column is None:
                self._refuse_name(name, path)
            else:
                row[column] = _number(value, f"{path}.{shown(name)}")
        if names_all and len(values) < len(row):
            self._refuse_absent(next(name for name in self.features if name not in values), path)

    def _refuse_row(self, rows: RequestRows, code: int, document: int, detail: int) -> None:
        """Raise for what the kernel found wrong with a row."""
        path = f"{rows.path_of(document)}.features"
        if code == WRONG_LENGTH:
            self._refuse_length(detail, path)
        elif code == UNKNOWN_FEATURE:
            self._refuse_name(rows.text.name_at(detail), path)
        elif code == LEFT_OUT:
            self._refuse_absent(self.features[detail], path)

    def _refuse_length(self, n_values: int, path: str) -> None:
        raise FieldError(
            path,
            f"model '{self.name}' knows {len(self.features)} features, but there are {n_values} values.",
        )

    def _refuse_name(self, name: str, path: str) -> None:
        cut = shown(name)
        problem = f"feature '{cut}' is not known; GET /models lists the {len(self.features):,} of '{self.name}'."
        if len(self.features) <= _MOST_SUGGESTED:
            problem = str(UnknownName("feature", cut, self.features))
        raise FieldError(f"{path}.{cut}", problem)

    def _refuse_absent(self, name: str, path: str) -> None:
        raise FieldError(
            f"{path}.{shown(name)}",
            f"feature '{shown(name)}' is left out, and what it is then is not known of '{self.name}': send its value, "
            "or null where it is missing. Whoever runs the service can say: --absent zero, or --absent "
            "missing.",
        )

    def _refuse_missing(self, matrix: Features, rows: RequestRows) -> None:
        missing = np.argwhere(np.isnan(matrix))
        if len(missing):
            document, column = missing[0].tolist()
            name = shown(self.features[column])
            raise FieldError(
                f"{rows.path_of(document)}.features.{name}",
                f"feature '{name}' is missing, and this service refuses missing values.",
            )


def read_served(path: str | os.PathLike[str], name: str) -> ServedModel:
    """The model of a file, warmed up: its first request is as fast as the others."""
    model, meta = load_model(path)
    if model.n_features > MOST_FEATURES:
        raise ModelError(
            f"{os.fspath(path)} is a model of {model.n_features:,} features; {MOST_FEATURES:,} can be served."
        )
    names = model.feature_names or tuple(str(number + 1) for number in range(model.n_features))
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    columns = NamedColumns.of([plain(each) for each in names])
    if len(columns.column_of) < len(names):
        raise ModelError(f"{os.fspath(path)}: two features have the same name as JSON writes it.")
    dictionaries = getattr(model, "categorical", None) or ()
    codes = {
        column: {category: code for code, category in enumerate(dictionary)}
        for column, dictionary in enumerate(dictionaries)
        if dictionary is not None
    }
    served = ServedModel(plain(name), model, meta, columns, digest, absent_in(meta), codes)
    for n_rows in _WARM_UP_ROWS:
        rows = np.zeros((n_rows, len(names)), np.float32)
        try:
            served.score(rows)
        except ScoreError as error:
            raise ModelError(f"{os.fspath(path)} cannot be served: {error}") from None
        with contextlib.suppress(ModelError):  # not every model can be explained
            contributions(model, rows, n_threads=1)
    served.columns.warm_up()
    return served


def absent_in(meta: Mapping[str, Any]) -> str | None:
    """What a feature was in a model's training that a row did not mention; None where the record does not say.

    The data know where their format leaves features out. Data with missing values had those for what they lacked.
    """
    record = meta.get("training")
    if not isinstance(record, dict):
        return None
    absent = record.get("absent")
    if absent in ("zero", "missing"):
        return str(absent)
    n_missing = record.get("features_with_missing")
    return "missing" if type(n_missing) is int and n_missing > 0 else None


def order_of(scores: Floats, top_k: int | None) -> list[int]:
    """The documents from the best to the worst; equal scores keep the order of the request."""
    ranking: list[int] = np.argsort(-scores, kind="stable")[:top_k].tolist()
    return ranking


def shown(name: str) -> str:
    """A name of any length, as a message shows it."""
    name = plain(name)
    return name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}…"


def plain(text: str) -> str:
    """The text with halves of surrogate pairs as escapes, since UTF-8 has no bytes for them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _number(value: Any, path: str) -> float:
    """The value of a feature that is not among the rows of a ``JsonText``."""
    if value is None:
        return float("nan")
    if type(value) not in (int, float):
        raise FieldError(path, "Input should be a valid number, or null.")
    if type(value) is int and abs(value) > LARGEST:
        raise FieldError(path, f"values must be within ±{LARGEST:.4g} (float32).")
    if not isfinite(value):
        raise FieldError(path, "Input should be a finite number.")
    if abs(value) > LARGEST:
        raise FieldError(
            path, f"{value:g} is too large: values must be within ±{LARGEST:.4g} (float32)."
        )
    return float(value)


# Models by an alias.


@dataclass(frozen=True)
class Alias:
    """A name that stands for models, each for a share of the requests."""

    name: str
    shares: tuple[tuple[str, float], ...]  # per cent of each model

    @classmethod
    def parse(cls, text: str, option: str, total: float | None = _SHARES) -> Alias:
        """An alias from ``NAME=MODEL:SHARE,MODEL:SHARE``; one model needs no share. Shares add up to ``total``."""
        name, equals, models = text.partition("=")
        parts = [part.strip().rpartition(":") for part in models.split(",")]
        if len(parts) == 1 and not parts[0][1]:
            parts = [(parts[0][2], ":", str(_SHARES))]
        try:
            shares = tuple((model, float(share.rstrip("%"))) for model, _, share in parts)
        except ValueError:
            shares = ()
        is_sound = shares and all(model and 0 < share <= _SHARES for model, share in shares)
        if not (name and equals and is_sound) or len(dict(shares)) < len(shares):
            raise ParameterError(
                f"{option} must be written as NAME=MODEL:SHARE,MODEL:SHARE with shares in per cent, got '{text}'."
            )
        if total is not None and abs(sum(share for _, share in shares) - total) > 1e-6:
            raise ParameterError(f"{option} {text}: the shares must add up to {total:g} per cent.")
        return cls(name.strip(), shares)

    def choose(self, key: str | int | None) -> str:
        """The model for a key; the same key always has the same one, and None any."""
        point = self._point(key) * sum(share for _, share in self.shares)
        for model, share in self.shares:
            point -= share
            if point < 0:
                return model
        return self.shares[-1][0]

    def includes(self, key: str | int | None) -> list[str]:
        """The models whose share the key falls into, each for itself."""
        point = self._point(key) * _SHARES
        return [model for model, share in self.shares if point < share]

    def _point(self, key: str | int | None) -> float:
        """A number from 0 to 1 that depends on the key."""
        if key is None:
            return random.random()
        digest = hashlib.sha256(f"{self.name}\0{key}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:7]) / 2**56


# Models by name.


@dataclass
class ModelSlot:
    """A file, the model that was last read from it, and what was wrong with the file since."""

    path: Path
    served: ServedModel
    stamp: Stamp | None
    problem: str | None = None
    reloads: int = 0
    failures: int = 0


class ModelStore:
    """Models by name. A model is replaced as a whole: a request that has begun keeps the one it has.

    Parameters
    ----------
    paths
        The files; each model has the name of its file without ``.rankwood``.
    aliases
        Further names, each for shares of models.
    shadows
        By the name that a request asks for: models that score a share of its requests too, unseen by the client.
    allow_schema_change
        Whether a new file may have other features than the model in service.
    prepare
        What is done with a model that was read, before it is put in its place.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        aliases: Sequence[Alias] = (),
        shadows: Sequence[Alias] = (),
        allow_schema_change: bool = False,
        prepare: Callable[[ServedModel], ServedModel] = lambda served: served,
    ) -> None:
        self._entries: dict[str, ModelSlot] = {}
        self._allow_schema_change = allow_schema_change
        self._prepare = prepare
        for path in map(Path, paths):
            name = plain(path.name.removesuffix(".rankwood"))
            if name in self._entries:
                raise ParameterError(
                    f"{path} and {self._entries[name].path} would both be served as '{name}'. Rename one of them."
                )
            stamp = _stamp(path)
            self._entries[name] = ModelSlot(path, prepare(read_served(path, name)), stamp)
        self.aliases = self._named("--alias", aliases)
        self.shadows = self._named("--shadow", shadows)
        for name in self.aliases:
            if name in self._entries:
                raise ParameterError(f"--alias {name}: a model is called so already.")
        for name in self.shadows:
            if name not in self._entries and name not in self.aliases:
                raise UnknownName("model of --shadow", name, [*self._entries, *self.aliases])

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def reloads(self) -> int:
        """How many times a model was replaced."""
        return sum(entry.reloads for entry in self._entries.values())

    @property
    def failures(self) -> int:
        """How many times a changed file could not be used."""
        return sum(entry.failures for entry in self._entries.values())

    def entries(self) -> list[ModelSlot]:
        """All of them, in the order they were named."""
        return list(self._entries.values())

    def get(self, name: str | None, key: str | int | None = None) -> ServedModel:
        """The model of a request; the only one, if it does not say which. ``key`` decides among those of an alias."""
        if name is None:
            name = self._default()
        if name in self.aliases:
            name = self.aliases[name].choose(key)
        if name not in self._entries:
            raise UnknownName("model", shown(name), [*self._entries, *self.aliases])
        return self._entries[name].served

    def shadows_of(self, name: str | None, key: str | int | None) -> list[ServedModel]:
        """The models that score a request unseen."""
        if not self.shadows:
            return []
        shadow = self.shadows.get(self._default() if name is None else name)
        return (
            [] if shadow is None else [self._entries[each].served for each in shadow.includes(key)]
        )

    def refresh(self) -> list[ModelSlot]:
        """Read the files that have changed; a file that cannot be used leaves the old model in service.

        Returns what has changed: models, or what is wrong with a file.
        """
        changed = []
        for name, entry in self._entries.items():
            stamp = _stamp(entry.path)
            if stamp == entry.stamp:
                continue
            entry.stamp = stamp
            changed.append(entry)
            try:
                if stamp is None:
                    raise ModelError(f"{entry.path} is gone.")
                served = read_served(entry.path, name)
                self._refuse_other_features(entry, served)
                entry.served = self._prepare(served)
            except Exception as error:  # whatever a file makes of the reader: the old model stays
                entry.problem = plain(str(error) or type(error).__name__)[:_LONGEST_PROBLEM]
                entry.failures += 1
                _LOG.warning("model '%s' was not replaced: %s", name, entry.problem)
            else:
                entry.problem = None
                entry.reloads += 1
                _LOG.info("model '%s' was replaced: %s", name, entry.served.digest[:12])
        return changed

    def replace(self, name: str, served: ServedModel | None, about: Mapping[str, Any]) -> None:
        """Put a model, and what is said of its file, in their place: another process has read them."""
        entry = self._entries[name]
        entry.served = entry.served if served is None else served
        entry.problem = about["problem"]
        entry.reloads, entry.failures = about["reloads"], about["failures"]

    def _default(self) -> str:
        if _DEFAULT in self.aliases:
            return _DEFAULT
        if len(self._entries) == 1:
            return next(iter(self._entries))
        names = ", ".join([*self._entries, *self.aliases])
        raise FieldError("model", f"say which of the models is meant: {names}.")

    def _named(self, option: str, aliases: Sequence[Alias]) -> dict[str, Alias]:
        """Aliases by name, whose models exist."""
        by_name: dict[str, Alias] = {}
        for alias in aliases:
            if alias.name in by_name:
                raise ParameterError(f"{option} {alias.name} is given twice.")
            for model, _ in alias.shares:
                if model not in self._entries:
                    raise UnknownName(f"model of {option}", model, self._entries)
            by_name[alias.name] = alias
        return by_name

    def _refuse_other_features(self, entry: ModelSlot, served: ServedModel) -> None:
        before, after = entry.served.features, served.features
        was, now = set(entry.served.categories), set(served.categories)
        if self._allow_schema_change or (before == after and was == now):
            return
        lost = [name for name in before if name not in served.columns.column_of]
        new = [name for name in after if name not in entry.served.columns.column_of]
        parts = [f"without {some_names(lost)}"] if lost else []
        parts += [f"with {some_names(new)}"] if new else []
        kept = [name for name in before if name in served.columns.column_of]
        text = [name for name in kept if name in now - was]
        numbers = [name for name in kept if name in was - now]
        parts += [f"{some_names(text)} categorical"] if text else []
        parts += [f"{some_names(numbers)} no longer categorical"] if numbers else []
        raise ModelError(
            f"{entry.path} has other features than the model in service: {', '.join(parts) or 'in another order'}. "
            "Requests made for the old ones would be refused or scored wrongly; serve it under another name, or start "
            "the service with --allow-schema-change."
        )


def _stamp(path: Path) -> Stamp | None:
    """What changes when a file does; None where there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
