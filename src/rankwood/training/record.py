"""The record of the training data: what a model file says of the rows that the model was fitted to.

``record_of_bins`` makes it for rankers that see binned rows, from the number of rows in each bin, ``record_of_rows``
for the others, from a sample of the rows with a fixed seed. Both are the same for any number of threads, and the first
also for rows in memory, in a folder and on a cluster: counts are whole numbers, and the rest follows from them.

A ``Spread`` is what is known of one feature, of the labels, or of the lengths of the queries. Bins keep the order of
values and not the values, so a value inside a bin counts as the middle of the bin, and the outermost bins as wide as
their cuts are apart. That is exact for whole numbers in a row; of a feature with fewer than three bins, the mean and
the quantiles are not known. ``rankwood.check_data`` compares other data with the record.
"""

from __future__ import annotations

import bisect
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rankwood.binning.bins import MISSING_BIN, Bins, fit_bins, sampled_rows
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats, Rows
from rankwood.engines.engine import Engine, count_codes
from rankwood.errors import ModelError

DIGEST, STATISTICS = "data_digest", "statistics"  # keys of the record of a training
FEATURES, LABELS, LENGTHS = "features", "labels", "query_lengths"  # keys of the statistics
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_FEATURES = (
    10_000  # beyond, statistics would not fit into the 16 MiB of a model file's document
)
_INTERVALS = 10  # the usual number for the population stability index
_SAMPLE = 5_000  # rows of those that are not binned
_DIGITS = 6  # significant digits of means and quantiles


@dataclass(frozen=True)
class Spread:
    """The distribution of one feature: rows by interval, and how many of them are in the outermost bins.

    Attributes
    ----------
    missing
        Rows without a value; they are in no interval.
    cuts, counts
        Interval ``i`` has the ``counts[i]`` rows above ``cuts[i - 1]`` and up to ``cuts[i]``.
    low, below, high, above
        The lowest cut of all bins with the number of rows up to it, and the highest with the number of rows above it;
        None where all values are equal.
    mean, quantiles
        The mean, and the quantiles of ``QUANTILES``; None where they are not known.
    """

    missing: int
    cuts: tuple[float, ...]
    counts: tuple[int, ...]
    low: float | None
    below: int
    high: float | None
    above: int
    mean: float | None
    quantiles: tuple[float, ...] | None

    @property
    def present(self) -> int:
        """Rows with a value."""
        return sum(self.counts)

    @property
    def missing_share(self) -> float:
        """The share of the rows without a value."""
        return self.missing / max(1, self.missing + self.present)

    @property
    def median(self) -> float | None:
        """The middle one of the quantiles."""
        return None if self.quantiles is None else self.quantiles[len(QUANTILES) // 2]

    @classmethod
    def of_bins(cls, cuts: Array, counts: Rows, missing: int = 0) -> Spread:
        """The spread of values of which only the bins are known, between ascending cuts."""
        if cuts.size < 2:
            return cls._of(cuts, counts, None, missing)
        gaps = np.diff(cuts.astype(np.float64)) / 2
        first, last = float(cuts[0]) - gaps[0], float(cuts[-1]) + gaps[-1]
        if cuts[0] >= 0:  # no value is taken to be of another sign than its neighbours
            first = max(first, 0.0)
        if cuts[-1] <= 0:
            last = min(last, 0.0)
        return cls._of(cuts, counts, np.concatenate([[first], cuts[:-1] + gaps, [last]]), missing)

    @classmethod
    def of_values(cls, values: Array) -> Spread:
        """The spread of values that are known, such as labels."""
        distinct, counts = np.unique(values, return_counts=True)
        return cls._of(distinct[:-1], counts, distinct.astype(np.float64), 0)

    @classmethod
    def _of(cls, cuts: Array, counts: Rows, values: Floats | None, missing: int) -> Spread:
        sums = np.cumsum(counts)
        total = int(sums[-1])
        chosen = _intervals(sums.tolist())
        by_interval = np.diff(sums[[*chosen, counts.size - 1]], prepend=0).tolist()
        mean = quantiles = None
        if values is not None and total:
            mean = _rounded(math.fsum((values * counts).tolist()) / total)
            at = np.searchsorted(sums, np.multiply(QUANTILES, total))
            quantiles = tuple(map(_rounded, values[at].tolist()))
        return cls(
            missing,
            tuple(_exact(cuts[index]) for index in chosen),
            tuple(by_interval),
            _exact(cuts[0]) if cuts.size else None,
            int(counts[0]) if cuts.size else 0,
            _exact(cuts[-1]) if cuts.size else None,
            int(counts[-1]) if cuts.size else 0,
            mean,
            quantiles,
        )

    def again(self, values: Array) -> Spread:
        """The spread of other values over the same intervals, without a mean."""
        is_there = ~np.isnan(values)
        known = values[is_there]
        ends = np.array(self.cuts, known.dtype)  # a feature is float32, and so is its comparison
        counts = np.bincount(np.searchsorted(ends, known), minlength=ends.size + 1)
        below = 0 if self.low is None else int((known <= known.dtype.type(self.low)).sum())
        above = 0 if self.high is None else int((known > known.dtype.type(self.high)).sum())
        quantiles = None
        if known.size:
            found = np.quantile(known, QUANTILES, method="inverted_cdf")
            quantiles = tuple(_rounded(float(value)) for value in found)
        return Spread(
            int(values.size - known.size),
            self.cuts,
            tuple(counts.tolist()),
            *(self.low, below, self.high, above),
            None,
            quantiles,
        )


def record_of_bins(data: RankingData, bins: Bins, engine: Engine) -> dict[str, Any]:
    """The record of rows that an engine holds in ``bins``: their digest, and statistics of each feature."""
    counts = engine.code_counts()[: bins.n_features]
    return _record(data, bins, counts)


def record_of_rows(data: RankingData, n_threads: int | None = None) -> dict[str, Any]:
    """The record of rows that nobody has binned, from a sample of them; empty where there are no values to look at."""
    if not isinstance(data.features, np.ndarray) or data.features.size == 0:
        return {}
    rows = sampled_rows(data.n_documents, _SAMPLE, 0)
    sample = data.features[rows]
    bins = fit_bins(sample, n_threads=n_threads)
    return _record(data, bins, count_codes(bins.transform(sample, n_threads)))


def data_record(training: Mapping[str, Any]) -> dict[str, Any]:
    """What a training record says of the data's content."""
    return {name: training[name] for name in (DIGEST, STATISTICS) if name in training}


def _record(data: RankingData, bins: Bins, counts: Rows) -> dict[str, Any]:
    lengths = None if data.query_ids is None else np.diff(data.query_offsets)
    record: dict[str, Any] = {DIGEST: _digest(data, bins, counts, lengths)}
    if bins.n_features <= MOST_FEATURES:
        statistics = {
            FEATURES: as_columns(
                [
                    _of_feature(bins.thresholds_of(feature), counts[feature])
                    for feature in range(bins.n_features)
                ]
            ),
            LABELS: as_columns([Spread.of_values(data.labels)]),
        }
        if lengths is not None:
            statistics[LENGTHS] = as_columns([Spread.of_values(lengths)])
        record[STATISTICS] = statistics
    return record


def _of_feature(cuts: Array, counts: Rows) -> Spread:
    return Spread.of_bins(cuts, counts[: cuts.size + 1], int(counts[MISSING_BIN]))


def _digest(data: RankingData, bins: Bins, counts: Rows, lengths: Rows | None) -> str:
    """The sha256 of what a fit sees of the data: the bins, rows per bin, names, labels and lengths of queries."""
    names = json.dumps(None if data.feature_names is None else list(data.feature_names))
    digest = hashlib.sha256(names.encode())
    parts: Sequence[tuple[Any, str]] = (
        (bins.thresholds, "<f4"),
        (bins.offsets, "<i8"),
        (counts, "<i8"),
        (data.labels, "<f8"),
        (() if lengths is None else lengths, "<i8"),
    )
    for values, dtype in parts:
        array = np.ascontiguousarray(values, dtype)
        digest.update(array.size.to_bytes(8, "little") + array.tobytes())
    return digest.hexdigest()


def _intervals(sums: Sequence[int]) -> list[int]:
    """The bins after which an interval ends, so that the intervals have as equal numbers of rows as the bins allow."""
    last = len(sums) - 1
    if last < _INTERVALS:
        return list(range(last))
    total = sums[-1]
    chosen: list[int] = []
    filled = 0
    while len(chosen) < _INTERVALS - 1:
        share = -(-(total - filled) // (_INTERVALS - len(chosen)))  # of what is left, rounded up
        index = bisect.bisect_left(sums, filled + max(1, share))
        if index >= last:
            break
        chosen.append(index)
        filled = sums[index]
    return chosen


def _exact(value: Any) -> float:
    """A number as the shortest text that gives it back in its own precision."""
    return float(str(value))


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


# The form in a model file: a list per field, with an entry per feature.

_FIELDS = tuple(field.name for field in fields(Spread))


def as_columns(spreads: Sequence[Spread]) -> dict[str, list[Any]]:
    """Spreads as lists of plain numbers by field."""
    columns: dict[str, list[Any]] = {}
    for name in _FIELDS:
        values = [getattr(spread, name) for spread in spreads]
        columns[name] = [list(value) if isinstance(value, tuple) else value for value in values]
    return columns


def spreads_of(columns: Any) -> list[Spread]:
    """Spreads from what ``as_columns`` gave, as a file holds it; a ``ModelError`` where it is damaged."""
    try:
        lists: list[Any] = [columns[name] for name in _FIELDS]
        spreads = [Spread(*map(_hashable, values)) for values in zip(*lists, strict=True)]
        if all(_is_sound(spread) for spread in spreads):
            return spreads
    except (TypeError, LookupError, ValueError):
        pass
    raise ModelError("its record of the training data is damaged.")


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _is_sound(spread: Spread) -> bool:
    whole = (spread.missing, spread.below, spread.above, *spread.counts)
    limits = [value for value in (spread.low, spread.high, spread.mean) if value is not None]
    numbers = [*spread.cuts, *limits, *(spread.quantiles or ())]
    return (
        all(type(count) is int and count >= 0 for count in whole)
        and all(type(number) in (int, float) for number in numbers)
        and len(spread.counts) == len(spread.cuts) + 1
        and all(one < other for one, other in zip(spread.cuts, spread.cuts[1:], strict=False))
        and len(spread.quantiles or QUANTILES) == len(QUANTILES)
    )


def statistics_in(training: Mapping[str, Any]) -> dict[str, list[Spread]] | None:
    """The spreads of a training record by its keys; None where it has no statistics."""
    statistics = training.get(STATISTICS)
    if statistics is None:
        return None
    if not isinstance(statistics, dict) or not {FEATURES, LABELS} <= set(statistics):
        raise ModelError("its record of the training data is damaged.")
    found = {name: spreads_of(columns) for name, columns in statistics.items()}
    if any(len(found[name]) != 1 for name in (LABELS, LENGTHS) if name in found):
        raise ModelError("its record of the training data is damaged.")
    return found
