"""``feature_costs``: the cost of computing each feature, from numbers, a mapping or a cost file.

A cost file has one line per feature, with its name or number and its cost, separated by a tab, a comma or spaces::

    # seconds per thousand documents
    bm25_title    0.5
    pagerank      12

Text after a ``#`` at the start of a line or after a space is a comment. Numbers count from 1, as in LETOR files; if a
number is also a name, the name wins. Every feature needs a cost, since a forgotten one would count as free.
"""

from __future__ import annotations

import math
import numbers
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.data.sources import display_name, open_source
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ParameterError, UnknownName

_COMMENT = re.compile(r"(^|\s)#.*$")
_HEADER = ("feature", "cost")
_MOST_BYTES = 1 << 24  # a larger file is not a cost file


def feature_costs(costs: Any, names: Sequence[str]) -> Floats:
    """The cost of each feature, in the order of ``names``.

    ``costs`` is one number per feature, a mapping from feature names, or the path of a cost file; None is 1 each.
    """
    if costs is None:
        return np.ones(len(names))
    if isinstance(costs, str | os.PathLike):
        return read_costs(costs, names)
    if isinstance(costs, Mapping):
        return _from_mapping(costs, names)
    return _from_numbers(costs, names)


def read_costs(path: str | os.PathLike[str], names: Sequence[str]) -> Floats:
    """The cost of each feature from a cost file; errors name the line."""
    file = display_name(path)
    feature_of = _feature_of_name(names)
    costs, line_of = np.zeros(len(names)), np.zeros(len(names), np.int64)
    for line, name, text in _fields(path, file):
        where = f"{file}, line {line}"
        feature = feature_of.get(name)
        if feature is None:
            raise DataError(f"{where}: {UnknownName('feature', name, names)}")
        if line_of[feature]:
            raise DataError(
                f"{where}: feature '{names[feature]}' has a cost already, in line {line_of[feature]}."
            )
        costs[feature], line_of[feature] = _cost(where, name, text), line
    if not line_of.all():
        raise DataError(f"{file} has no cost for {_some_of(names, line_of == 0)}.")
    return costs


def _fields(path: str | os.PathLike[str], file: str) -> Iterator[tuple[int, str, str]]:
    """Line number, feature and cost of each line that has them."""
    first = True
    for line, text in enumerate(_text(path, file).splitlines(), start=1):
        content = _COMMENT.sub("", text).strip()
        if not content:
            continue
        mark = next((mark for mark in "\t," if mark in content), None)
        fields = [field.strip() for field in content.split(mark)]
        if len(fields) != 2 or not all(fields):
            raise DataError(
                f"{file}, line {line}: expected a feature and its cost, got '{content[:60]}'."
            )
        is_header = first and (fields[0].lower(), fields[1].lower()) == _HEADER
        first = False
        if not is_header:
            yield line, fields[0], fields[1]


def _text(path: str | os.PathLike[str], file: str) -> str:
    buffer = bytearray(_MOST_BYTES)
    with open_source(path) as source:
        length = source.fill(memoryview(buffer))
    if length == _MOST_BYTES:
        raise DataError(f"{file} is too large to be a cost file: one line per feature is expected.")
    try:
        return bytes(buffer[:length]).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(
            f"{file} is no text in UTF-8. A cost file has a feature and its cost per line."
        ) from None


def _feature_of_name(names: Sequence[str]) -> dict[str, int]:
    """The index of a feature by its name, or by its number if that is not a name."""
    by_number = {str(feature + 1): feature for feature in range(len(names))}
    return by_number | {name: feature for feature, name in enumerate(names)}


def _cost(where: str, name: str, text: str) -> float:
    try:
        cost = float(text)
    except ValueError:
        raise DataError(f"{where}: the cost of '{name}' is '{text}', which is no number.") from None
    if not math.isfinite(cost) or cost < 0:
        raise DataError(
            f"{where}: the cost of '{name}' is {text}; costs must be finite and not negative."
        )
    return cost


def _from_mapping(costs: Mapping[Any, Any], names: Sequence[str]) -> Floats:
    for name, value in costs.items():
        if name not in names:
            raise UnknownName("feature of feature_costs", str(name), names)
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ParameterError(
                f"feature_costs: the cost of '{name}' must be a number, got {checks.plain(value)}."
            )
    is_missing = np.array([name not in costs for name in names])
    if is_missing.any():
        raise ParameterError(f"feature_costs has no cost for {_some_of(names, is_missing)}.")
    return _from_numbers([costs[name] for name in names], names)


def _from_numbers(costs: Any, names: Sequence[str]) -> Floats:
    try:
        array = np.array(costs, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            "feature_costs must be one number per feature, a mapping from feature names, or the path of a cost "
            f"file, got {type(costs).__name__}."
        ) from None
    if array.shape != (len(names),):
        raise ParameterError(
            f"feature_costs has {array.size:,} values, but there are {len(names):,} features."
        )
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        feature = int(np.argmax(wrong))
        raise ParameterError(
            f"feature_costs: the cost of '{names[feature]}' is {float(array[feature]):g}; "
            "costs must be finite and not negative."
        )
    return array


def _some_of(names: Sequence[str], chosen: Any) -> str:
    """The first of the chosen features, and the number of others."""
    features = np.flatnonzero(chosen)
    more = f" and {features.size - 1:,} more" if features.size > 1 else ""
    return f"feature '{names[int(features[0])]}'{more}"
