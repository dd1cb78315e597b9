"""``Bins``: the thresholds of every feature, and the codes of values. ``fit_bins``: thresholds from data.

A feature with n thresholds has n + 1 value bins. The bin of a value is the number of thresholds below it, so that
``value <= threshold[b]`` holds exactly for bins 0 to ``b``. ``codes`` are bins as uint8; code 255 marks a missing
value.

The thresholds of a feature are found in four steps:

1. The values of the sampled rows become integer keys that sort as the floats do. Missing values are left out, and
   the keys are sorted.
2. Equal keys are counted, which gives the distinct values and their numbers of rows.
3. With at most ``max_bins`` distinct values there is a cut between any two neighbours. Otherwise a value with more
   rows than the average bin gets a bin of its own, and the other bins divide the rest evenly.
4. A cut becomes the float32 in the middle between the two values beside it.

Terms
    key       a float32 as a whole number from 0 to 2^32 - 1 that sorts as the float does
    value     a distinct value of the feature, by its index in ascending order
    cut       a boundary between two values: cut ``v`` lies between values ``v`` and ``v + 1``
    share     rows per bin, if all bins were equal
    heavy     a value that alone holds more rows than the share; it gets a bin of its own
    stretch   consecutive light values between two heavy ones
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood._core.random import stream
from rankwood._core.threads import lazy, resolve_threads, run_blocks
from rankwood.dtypes import FEATURE, OFFSET, ROW, Array, Bytes, Features, Rows
from rankwood.errors import DataError, ParameterError

CODE = np.uint8  # 255 value bins, and one code for missing values
MISSING_BIN = 255  # the code of a missing value, everywhere in the package
N_CODES = MISSING_BIN + 1
MOST_BINS = MISSING_BIN  # value bins of a feature: codes 0 to 254
_LEAST_ROWS = 2048  # rows per thread; fewer are encoded faster than a thread starts
_TILE = 256  # rows encoded together; their features stay in the second-level cache


@dataclass(frozen=True, eq=False, repr=False)
class Bins:
    """The thresholds of all features, concatenated.

    Parameters
    ----------
    thresholds
        Feature ``f`` has ``thresholds[offsets[f]:offsets[f + 1]]``: finite float32, strictly
        ascending, at most 254.
    offsets
        The first threshold of each feature, and the number of all thresholds at the end.
    has_missing
        Whether each feature had missing values in the data that the bins were fitted on.
    is_categorical
        Whether the codes of each feature are categories, without an order; empty if none are.

    The arrays are read-only.

    Examples
    --------
    >>> bins = Bins([0.5, 1.5], offsets=[0, 2], has_missing=[False])
    >>> bins.transform([[0.0], [0.5], [1.0], [9.0], [float("nan")]]).tolist()
    [[0, 0, 1, 2, 255]]
    """

    thresholds: Features
    offsets: Rows
    has_missing: Array
    is_categorical: Array = ()  # type: ignore[assignment]

    def __post_init__(self) -> None:
        given: dict[str, Array] = {
            "thresholds": np.array(self.thresholds, FEATURE),
            "offsets": np.array(self.offsets, OFFSET),
            "has_missing": np.array(self.has_missing, bool),
            "is_categorical": np.array(self.is_categorical, bool),
        }
        for name, array in given.items():
            object.__setattr__(self, name, checks.read_only(array))
        self._check()

    def _check(self) -> None:
        if any(getattr(self, field.name).ndim != 1 for field in fields(self)):
            raise DataError("thresholds, offsets and has_missing must have one dimension.")
        ends = self.offsets
        if ends.size < 2 or ends[0] != 0 or ends[-1] != self.thresholds.size:
            raise DataError(
                f"offsets must run from 0 to the number of thresholds, {self.thresholds.size:,}."
            )
        sizes = np.diff(ends)
        if sizes.min() < 0 or sizes.max() >= MOST_BINS:
            feature = int(np.argmax((sizes < 0) | (sizes >= MOST_BINS)))
            raise DataError(
                f"feature {feature} has {int(sizes[feature]):,} thresholds; "
                f"there may be 0 to {MOST_BINS - 1}."
            )
        if self.has_missing.size != sizes.size:
            raise DataError(
                f"has_missing has {self.has_missing.size:,} values, "
                f"but there are {sizes.size:,} features."
            )
        if self.is_categorical.size not in (0, sizes.size):
            raise DataError(
                f"is_categorical has {self.is_categorical.size:,} values, "
                f"but there are {sizes.size:,} features."
            )
        feature_of = np.repeat(np.arange(sizes.size), sizes)
        is_wrong = ~np.isfinite(self.thresholds)
        is_wrong[1:] |= (feature_of[1:] == feature_of[:-1]) & ~(
            self.thresholds[1:] > self.thresholds[:-1]
        )
        if is_wrong.any():
            raise DataError(
                f"the thresholds of feature {int(feature_of[np.argmax(is_wrong)])} "
                "must be finite and strictly ascending."
            )

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.offsets.size - 1

    @lazy
    def n_value_bins(self) -> Rows:
        """The number of value bins of each feature, 1 to 255; the code for missing values is not counted."""
        return checks.read_only(np.diff(self.offsets) + 1)

    def thresholds_of(self, feature: int) -> Features:
        """The thresholds of one feature, ascending."""
        feature = checks.whole_number("feature", feature, 0, self.n_features - 1)
        return self.thresholds[self.offsets[feature] : self.offsets[feature + 1]]

    def threshold_of(self, feature: int, bin: int) -> np.float32:  # noqa: A002
        """The threshold after ``bin``: the greatest value that belongs into it."""
        thresholds = self.thresholds_of(feature)
        if thresholds.size == 0:
            raise ParameterError(f"feature {feature} has a single bin, so it has no threshold.")
        threshold: np.float32 = thresholds[checks.whole_number("bin", bin, 0, thresholds.size - 1)]
        return threshold

    def transform(self, features: Any, n_threads: int | None = None) -> Bytes:
        """The code of every value: uint8, features × rows, one contiguous column per feature."""
        matrix = checks.feature_matrix(features)
        codes = np.empty((matrix.shape[1], matrix.shape[0]), CODE)
        self.transform_into(matrix, codes, n_threads)
        return codes

    def transform_into(
        self, features: Features, codes: Bytes, n_threads: int | None = None
    ) -> None:
        """Write the codes of a row-major float32 matrix into ``codes``, features × rows."""
        n_rows, n_features = features.shape
        if n_features != self.n_features:
            raise DataError(
                f"there are {n_features:,} features, but the bins were made "
                f"for {self.n_features:,}. Pass the same features in the same order."
            )
        # np.asarray: the kernel would compile again for the type of a memory map
        matrix = checks.read_only(np.asarray(features))
        run_blocks(
            encode_rows,
            n_rows,
            matrix,
            self._tables,
            np.asarray(codes),
            n_threads=n_threads,
            least=_LEAST_ROWS,
        )

    @lazy
    def _tables(self) -> Features:
        """The thresholds as one row of 256 per feature, padded with +inf, which no value exceeds."""
        sizes = np.diff(self.offsets)
        tables = np.full((self.n_features, MOST_BINS + 1), np.inf, FEATURE)
        tables[np.arange(MOST_BINS + 1) < sizes[:, np.newaxis]] = self.thresholds
        return checks.read_only(tables)

    def __reduce__(self) -> tuple[Any, ...]:
        return Bins, (self.thresholds, self.offsets, self.has_missing, self.is_categorical)

    def __repr__(self) -> str:
        return f"Bins({self.n_features:,} features, {self.thresholds.size:,} thresholds)"


@kernel
def encode_rows(first: int, last: int, features: Features, tables: Features, codes: Bytes) -> None:
    """Write the code of each value of rows ``first`` to ``last``: the number of thresholds below it.

    ``tables`` has a row of 256 thresholds per feature. The binary search is unrolled into eight comparisons
    without branches; a loop over the steps compiles to branches and takes eight times as long.
    """
    n_features = features.shape[1]
    for start in range(first, last, _TILE):
        stop = min(start + _TILE, last)
        for feature in range(n_features):
            table = tables[feature]
            for row in range(start, stop):
                value = features[row, feature]
                below = 128 if table[127] < value else 0
                below += 64 if table[below + 63] < value else 0
                below += 32 if table[below + 31] < value else 0
                below += 16 if table[below + 15] < value else 0
                below += 8 if table[below + 7] < value else 0
                below += 4 if table[below + 3] < value else 0
                below += 2 if table[below + 1] < value else 0
                below += 1 if table[below] < value else 0
                codes[feature, row] = MISSING_BIN if value != value else below  # noqa: PLR0124


_GATHERED = 16  # features gathered together; a cache line holds 16 values
_TILE_ROWS = 256  # rows copied at a time
_CHUNK_ROWS = 4096  # rows searched for infinite and missing values at a time
_PLUS_INFINITY_KEY = 0xFF800000
_MINUS_INFINITY_KEY = 0x007FFFFF

DIGITS = 3  # of a key: 11 + 11 + 10 bits
DIGIT_BITS = 11
BUCKETS = 1 << DIGIT_BITS

_INFINITY = 0x7F800000  # the bits of +inf; larger ones, without the sign, are NaN
_ALL_BUT_SIGN = 0x7FFFFFFF
_SIGN = 1 << 31


def fit_bins(
    features: Any,
    *,
    max_bins: int = MOST_BINS,
    sample: int = 200_000,
    seed: int = 0,
    n_threads: int | None = None,
) -> Bins:
    """Thresholds for each column of ``features`` (rows × features).

    Parameters
    ----------
    features
        Numbers; NaN is missing, and infinite values are values. -0.0 equals 0.0.
    max_bins
        Most value bins of a feature, 2 to 255. A feature with no more distinct values gets a
        cut between each two of them.
    sample
        Number of rows that determine the thresholds, drawn at random if there are more. Missing
        and infinite values are looked for in all rows.
    seed
        Seed of the sample.
    n_threads
        Number of threads; it does not change the result.

    Thresholds are finite. Therefore -inf and the least finite float32 share a bin. All other
    infinite values have bins of their own, unless two bins must hold -inf, finite values and +inf.
    """
    matrix = checks.read_only(np.asarray(checks.feature_matrix(features)))
    max_bins, sample, seed = checked_parameters(max_bins, sample, seed)
    threads = resolve_threads(n_threads)
    n_rows, n_features = matrix.shape
    if n_features == 0:
        raise DataError("features must have at least one column, got none.")
    rows = sampled_rows(n_rows, sample, seed)
    special = find_specials(matrix, threads) if n_rows > sample else None
    return fit_sample(matrix, rows, special, max_bins, threads)


def with_categories(bins: Bins, dictionaries: Sequence[Sequence[str] | None] | None) -> Bins:
    """The bins with one for each category of the features that have categories, and one for all others."""
    if dictionaries is None:
        return bins
    thresholds = [
        bins.thresholds_of(feature) if known is None else np.arange(len(known), dtype=FEATURE) + 0.5
        for feature, known in enumerate(dictionaries)
    ]
    offsets = np.zeros(len(thresholds) + 1, OFFSET)
    np.cumsum([one.size for one in thresholds], out=offsets[1:])
    is_categorical = [known is not None for known in dictionaries]
    return Bins(np.concatenate(thresholds), offsets, bins.has_missing, is_categorical)  # type: ignore[arg-type]


def sampled_rows(n_rows: int, sample: int, seed: int) -> Rows:
    """The rows that determine the thresholds, ascending: all, or as many as ``sample`` says."""
    if n_rows <= sample:
        return np.arange(n_rows)
    is_drawn = np.zeros(n_rows, bool)
    is_drawn[stream(seed, "binning").choice(n_rows, sample, replace=False, shuffle=False)] = True
    return np.flatnonzero(is_drawn)  # ten times as fast as sorting the numbers


def fit_sample(
    matrix: Features, rows: Rows, special: Array | None, max_bins: int, threads: int
) -> Bins:
    """Thresholds from the given rows of a matrix.

    ``special`` tells of each feature whether there are NaN, +inf and -inf in any row, also in those that are not
    among ``rows``; None where ``rows`` are all rows.
    """
    n_features = matrix.shape[1]
    if special is None:
        special = np.zeros((3, n_features), bool)
    thresholds_of_feature: list[Features] = [np.zeros(0, FEATURE)] * n_features
    has_missing = special[0].copy()
    source = _Source(_bits(matrix), checks.read_only(rows.astype(ROW)), special[1:], max_bins)
    run_blocks(
        _fit_features, n_features, source, thresholds_of_feature, has_missing, n_threads=threads
    )
    offsets = np.zeros(n_features + 1, OFFSET)
    np.cumsum([thresholds.size for thresholds in thresholds_of_feature], out=offsets[1:])
    return Bins(np.concatenate(thresholds_of_feature), offsets, has_missing)


def checked_parameters(max_bins: int, sample: int, seed: int) -> tuple[int, int, int]:
    """The parameters that determine the thresholds, each within its limits, or an error."""
    return (
        checks.whole_number("max_bins", max_bins, 2, MOST_BINS),
        checks.whole_number("sample", sample, 1),
        checks.whole_number("seed", seed, 0),
    )


class _Source(NamedTuple):
    """The input that all features share."""

    bits: Array  # the features viewed as int32
    rows: Rows  # the sampled rows
    is_infinite: Array  # 2 × features: whether any row of the feature holds +inf, and -inf
    max_bins: int


def _fit_features(
    first: int,
    last: int,
    source: _Source,
    thresholds_of_feature: list[Features],
    has_missing: Array,
) -> None:
    """Write the thresholds of features ``first`` to ``last``, and which of them have missing values."""
    n_rows = source.rows.size
    width = min(_GATHERED, last - first)
    tile = np.empty((_TILE_ROWS, width), np.int32)
    # Two more keys than rows, for infinite values outside the sample.
    keys = np.empty((width, n_rows + 2), np.uint32)
    n_keys = np.zeros(width, ROW)
    counting = _Counting(n_rows + 2)
    for start in range(first, last, width):
        stop = min(start + width, last)
        gather_keys(start, stop, source.bits, source.rows, tile, keys, n_keys)
        for column, feature in enumerate(range(start, stop)):
            n_values = int(n_keys[column])
            has_missing[feature] |= n_values < n_rows
            for is_there, key in zip(
                source.is_infinite[:, feature],
                (_PLUS_INFINITY_KEY, _MINUS_INFINITY_KEY),
                strict=True,
            ):
                if is_there:
                    keys[column, n_values] = key
                    n_values += 1
            thresholds_of_feature[feature] = counting.thresholds(
                keys[column], n_values, source.max_bins
            )


def find_specials(matrix: Features, n_threads: int) -> Array:
    """Whether each feature has NaN, +inf and -inf in any row: 3 × features."""
    n_chunks = -(-len(matrix) // _CHUNK_ROWS)
    chunk_has = np.zeros((n_chunks, 3, matrix.shape[1]), bool)
    run_blocks(find_special, n_chunks, _CHUNK_ROWS, _bits(matrix), chunk_has, n_threads=n_threads)
    special: Array = np.logical_or.reduce(chunk_has, axis=0)
    return special


def _bits(matrix: Features) -> Array:
    """The features viewed as int32; a negative float is a negative number."""
    return checks.read_only(matrix.view(np.int32))


class _Counting:
    """Work arrays in which one thread sorts and counts the keys of one feature after the other."""

    def __init__(self, size: int) -> None:
        self.spare = np.empty(size, np.uint32)
        self.ends = np.empty((DIGITS, BUCKETS), ROW)
        self.values = np.empty(size, np.uint32)
        self.counts = np.empty(size, ROW)
        self.is_heavy = np.empty(size, bool)
        self.cuts = np.empty(MOST_BINS, ROW)

    def thresholds(self, keys: Array, n_keys: int, max_bins: int) -> Features:
        """The thresholds of a feature from its keys, in any order."""
        is_in_spare = sort_keys(keys, n_keys, self.spare, self.ends)
        ordered = self.spare if is_in_spare else keys
        n_values = count_values(ordered, n_keys, self.values, self.counts)
        first, last = 0, n_values
        if n_values > max_bins:  # infinite values get bins of their own
            last -= int(self.values[n_values - 1] == _PLUS_INFINITY_KEY)
            first = int(self.values[0] == _MINUS_INFINITY_KEY and max_bins - n_values + last > 1)
        n_bins = max_bins - first - (n_values - last)
        n_cuts = choose_cuts(
            self.counts[first:last], last - first, n_bins, self.is_heavy, self.cuts
        )
        below = first + self.cuts[:n_cuts]
        if first > 0:
            below = np.append(0, below)
        if last < n_values:
            below = np.append(below, last - 1)
        return midpoints(_floats(self.values[below]), _floats(self.values[below + 1]))


def _floats(keys: Array) -> Features:
    """The float32 values of keys."""
    is_positive = keys >> np.uint32(31) == 1
    patterns: Array = np.where(is_positive, keys ^ np.uint32(1 << 31), ~keys)
    return patterns.view(FEATURE)


def midpoints(lower: Features, upper: Features) -> Features:
    """A finite float32 ``t`` with ``lower <= t < upper`` for each pair, the middle if possible.

    Halves are added instead of halving the sum, which could overflow; infinite values count as the
    largest finite ones. If rounding reaches ``upper``, ``lower`` is used. A pair of -inf and the least
    finite value has no such ``t`` and is left out.
    """
    most = np.finfo(FEATURE).max
    low, high = np.clip(lower, -most, most), np.clip(upper, -most, most)
    half = FEATURE(0.5)
    middle = low * half + high * half
    middle = np.where((middle < low) | (middle >= high), low, middle)
    middle += FEATURE(0)  # -0.0 becomes 0.0
    kept: Features = middle[(middle >= lower) & (middle < upper)]
    return kept


# Kernels: keys of values, sorting, counting, and the choice of cuts.


@kernel
def find_special(first: int, last: int, chunk_rows: int, bits: Array, chunk_has: Array) -> None:
    """Set ``chunk_has[chunk, kind, feature]`` for NaN, +inf and -inf (kinds 0, 1, 2) in each chunk of rows."""
    n_rows, n_features = bits.shape
    for chunk in range(first, last):
        for row in range(chunk * chunk_rows, min(n_rows, (chunk + 1) * chunk_rows)):
            for feature in range(n_features):
                pattern = np.int64(bits[row, feature])
                without_sign = pattern & _ALL_BUT_SIGN
                if without_sign >= _INFINITY:
                    kind = 0 if without_sign > _INFINITY else (1 if pattern > 0 else 2)
                    chunk_has[chunk, kind, feature] = True


@kernel
def gather_keys(
    first: int, last: int, bits: Array, rows: Rows, tile: Array, keys: Array, n_keys: Rows
) -> None:
    """Collect the keys of the given rows for features ``first`` to ``last``, without missing values.

    ``bits`` are the features viewed as int32; -0.0 counts as 0.0. Sampled rows are far apart in memory: copying a
    tile of them first lets the processor load many rows at once.
    """
    n_columns = last - first
    for column in range(n_columns):
        n_keys[column] = 0
    for start in range(0, rows.size, tile.shape[0]):
        n_tile_rows = min(tile.shape[0], rows.size - start)
        for tile_row in range(n_tile_rows):
            row = rows[start + tile_row]
            for column in range(n_columns):
                tile[tile_row, column] = bits[row, first + column]
        for column in range(n_columns):
            end = n_keys[column]
            for tile_row in range(n_tile_rows):
                pattern = np.int64(tile[tile_row, column])
                # Positive floats sort as their bits; negative ones the other way round, below them.
                key = pattern + _SIGN if pattern >= 0 else -pattern - 1
                keys[column, end] = _SIGN if pattern == -_SIGN else key
                # The next key overwrites that of NaN.
                end += 0 if pattern & _ALL_BUT_SIGN > _INFINITY else 1
            n_keys[column] = end


@kernel
def sort_keys(keys: Array, n_keys: int, spare: Array, ends: Rows) -> bool:
    """Radix sort of ``keys[:n_keys]``, least significant digit first; ``spare`` and ``ends`` are work arrays.

    Returns whether the sorted keys are in ``spare``.
    """
    for digit in range(DIGITS):
        for bucket in range(BUCKETS):
            ends[digit, bucket] = 0
    for index in range(n_keys):
        key = np.int64(keys[index])
        for digit in range(DIGITS):
            ends[digit, (key >> (digit * DIGIT_BITS)) & (BUCKETS - 1)] += 1
    is_in_spare = False
    source, target = keys, spare
    for digit in range(DIGITS):
        shift = digit * DIGIT_BITS
        if n_keys == 0 or ends[digit, (np.int64(source[0]) >> shift) & (BUCKETS - 1)] == n_keys:
            continue  # all keys have the same digit, as whole numbers often do
        start = np.int64(0)
        for bucket in range(BUCKETS):
            size = ends[digit, bucket]
            ends[digit, bucket] = start
            start += size
        for index in range(n_keys):
            key = np.int64(source[index])
            mine = (key >> shift) & (BUCKETS - 1)
            target[ends[digit, mine]] = key
            ends[digit, mine] += 1
        source, target = target, source
        is_in_spare = not is_in_spare
    return is_in_spare


@kernel
def count_values(keys: Array, n_keys: int, values: Array, counts: Rows) -> int:
    """Write the distinct keys of sorted ``keys[:n_keys]`` and their numbers of rows; returns how many there are."""
    n_values = 0
    for index in range(n_keys):
        if index > 0 and keys[index] == keys[index - 1]:
            counts[n_values - 1] += 1
        else:
            values[n_values] = keys[index]
            counts[n_values] = 1
            n_values += 1
    return n_values


@kernel
def choose_cuts(counts: Rows, n_values: int, n_bins: int, is_heavy: Array, cuts: Rows) -> int:
    """Write cuts that divide ``n_values`` values into at most ``n_bins`` bins; returns their number.

    With enough bins every value gets its own. Otherwise heavy values do, and the other bins are
    divided among the stretches in proportion to their rows. All arithmetic uses whole numbers.
    """
    if n_values <= n_bins:
        for value in range(n_values - 1):
            cuts[value] = value
        return max(0, n_values - 1)
    n_heavy, n_stretches, light_rows = mark_heavy(counts, n_values, n_bins, is_heavy)
    n_cuts = 0
    bins_left = n_bins - n_heavy
    start = 0
    while start < n_values:
        stop = start + 1
        if not is_heavy[start]:
            rows = counts[start]
            while stop < n_values and not is_heavy[stop]:
                rows += counts[stop]
                stop += 1
            n_stretches -= 1
            fair = (2 * rows * bins_left + light_rows) // (2 * light_rows)  # rounded
            fair = max(1, min(fair, bins_left - n_stretches, stop - start))
            n_cuts = cut_stretch(counts, start, stop, fair, n_cuts, cuts)
            bins_left -= fair
            light_rows -= rows
        if stop < n_values:
            cuts[n_cuts] = stop - 1
            n_cuts += 1
        start = stop
    return n_cuts


@kernel
def mark_heavy(counts: Rows, n_values: int, n_bins: int, is_heavy: Array) -> tuple[int, int, int]:
    """Mark the heavy values; returns the number of heavy values, of stretches, and the rows of all stretches.

    Removing a heavy value lowers the share of the rest, so marking repeats until no light value is
    above the share. Each stretch takes at least one bin, which the larger stretches then lack. If
    there are fewer than two bins per stretch, only values above twice the initial share count as
    heavy. Those are fewer than half the bins, so every stretch gets a bin; and they hold more rows
    than twice their number of bins would on average, so the bins left are enough for the rest.
    """
    rows = 0
    for value in range(n_values):
        is_heavy[value] = False
        rows += counts[value]
    light_rows, n_heavy, is_settled = rows, 0, False
    while not is_settled:
        is_settled = True
        for value in range(n_values):
            if not is_heavy[value] and counts[value] * (n_bins - n_heavy) > light_rows:
                is_heavy[value] = True
                n_heavy += 1
                light_rows -= counts[value]
                is_settled = False
    n_stretches = count_stretches(is_heavy, n_values)
    if n_heavy + 2 * n_stretches > n_bins:
        light_rows, n_heavy = rows, 0
        for value in range(n_values):
            is_heavy[value] = counts[value] * n_bins > 2 * rows
            if is_heavy[value]:
                n_heavy += 1
                light_rows -= counts[value]
        n_stretches = count_stretches(is_heavy, n_values)
    return n_heavy, n_stretches, light_rows


@kernel
def count_stretches(is_heavy: Array, n_values: int) -> int:
    """The number of runs of light values."""
    n_stretches = 0
    for value in range(n_values):
        if not is_heavy[value] and (value == 0 or is_heavy[value - 1]):
            n_stretches += 1
    return n_stretches


@kernel
def cut_stretch(counts: Rows, start: int, stop: int, n_bins: int, n_cuts: int, cuts: Rows) -> int:
    """Append cuts that divide values ``start`` to ``stop`` into ``n_bins`` bins of similar row counts.

    A bin ends where its rows are nearest to the share of the remaining rows. There are at least
    ``n_bins`` values, and each bin gets one. Returns the new number of cuts.
    """
    rows_left = 0
    for value in range(start, stop):
        rows_left += counts[value]
    bins_left = n_bins
    filled = 0
    for value in range(start, stop - 1):
        if bins_left == 1:
            break
        filled += counts[value]
        is_full = (2 * filled + counts[value + 1]) * bins_left >= 2 * rows_left
        if is_full or stop - 1 - value == bins_left - 1:  # each remaining bin needs one value
            cuts[n_cuts] = value
            n_cuts += 1
            rows_left -= filled
            bins_left -= 1
            filled = 0
    return n_cuts
