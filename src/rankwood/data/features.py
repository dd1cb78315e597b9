"""The features of a data set: scaled within each query, and what each costs to compute.

``normalise_per_query`` scales as LETOR's query-level normalisation does. ``feature_costs`` takes the costs from
numbers, a mapping or a cost file, which has one line per feature, with its name or number and its cost, separated by a
tab, a comma or spaces::

    # seconds per thousand documents
    bm25_title    0.5
    pagerank      12

Text after a ``#`` at the start of a line or after a space is a comment. Numbers count from 1, as in LETOR files; if a
number is also a name, the name wins. Every feature needs a cost, since a forgotten one would count as free.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.data.sources import display_name, open_source
from rankwood.dtypes import Floats, Rows
from rankwood.errors import DataError, ParameterError, UnknownName

_BLOCK_VALUES = 1 << 16  # values scaled at a time: half a megabyte, which stays in the cache
_COMMENT = re.compile(r"(^|\s)#.*$")
_HEADER = ("feature", "cost")
_MOST_BYTES = 1 << 24  # a larger file is not a cost file


def normalise_per_query(data: RankingData, method: str = "minmax") -> RankingData:
    """The data with every feature scaled within each query.

    ``"minmax"``
        (value - least) / (greatest - least), as in LETOR's collections: from 0 to 1.
    ``"zscore"``
        (value - mean) / standard deviation, the deviation of the query's own documents (÷ n).

    A feature that is constant within a query becomes 0. Missing values stay missing and do not
    count. Infinite values do not count either; they become 0 or 1 with ``"minmax"`` and stay
    infinite with ``"zscore"``.
    """
    scale = _METHODS[checks.one_of("normalisation", method, _METHODS)]
    offsets, row_order = data.query_offsets, data.row_order
    features = np.empty_like(data.features)
    for first, last in _blocks_of_queries(offsets, _BLOCK_VALUES // data.n_features):
        rows = row_order[offsets[first] : offsets[last]]
        starts = offsets[first:last] - offsets[first]
        sizes = np.diff(offsets[first : last + 1])
        features[rows] = scale(data.features[rows].astype(np.float64), starts, sizes)
    return dataclasses.replace(data, features=features)


def _blocks_of_queries(offsets: Rows, n_rows: int) -> list[tuple[int, int]]:
    """Ranges of queries with about ``n_rows`` rows each, at least one query."""
    blocks = []
    first, n_queries = 0, offsets.size - 1
    while first < n_queries:
        last = int(np.searchsorted(offsets, offsets[first] + n_rows, side="right")) - 1
        blocks.append((first, max(last, first + 1)))
        first = blocks[-1][1]
    return blocks


def _minmax(values: Floats, starts: Rows, sizes: Rows) -> Floats:
    finite = np.where(np.isfinite(values), values, np.nan)
    least = np.fmin.reduceat(finite, starts, axis=0)
    span = np.fmax.reduceat(finite, starts, axis=0) - least
    return np.clip(_scaled(values, least, span, sizes), 0.0, 1.0)


def _zscore(values: Floats, starts: Rows, sizes: Rows) -> Floats:
    is_finite = np.isfinite(values)
    counts = np.maximum(np.add.reduceat(is_finite, starts, axis=0, dtype=np.int64), 1)
    means = np.add.reduceat(np.where(is_finite, values, 0.0), starts, axis=0) / counts
    distances = np.where(is_finite, values, 0.0) - np.repeat(means, sizes, axis=0)
    squares = np.where(is_finite, np.square(distances), 0.0)
    deviations = np.sqrt(np.add.reduceat(squares, starts, axis=0) / counts)
    return _scaled(values, means, deviations, sizes)


def _scaled(values: Floats, centres: Floats, spans: Floats, sizes: Rows) -> Floats:
    """(value - centre) / span, modified in place; a span of 0 or NaN counts as 1."""
    centres = np.nan_to_num(centres)  # NaN where a query has no finite value
    spans = np.where(spans > 0, spans, 1.0)
    values -= np.repeat(centres, sizes, axis=0)
    values /= np.repeat(spans, sizes, axis=0)
    return values


_METHODS: dict[str, Callable[[Floats, Rows, Rows], Floats]] = {
    "minmax": _minmax,
    "zscore": _zscore,
}


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
    if (feature := checks.first_true(wrong)) is not None:
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
