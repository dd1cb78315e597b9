"""Cut points from data: between all values when they are few, else so that bins hold like numbers of rows.

The life of a feature's cut points
    1. its values in the sampled rows become whole-number keys, missing ones left out, and are sorted
    2. equal keys are counted: distinct values and the rows that hold each
    3. with at most ``max_bins`` distinct values there is a cut between any two neighbours; else a value
       with more rows than its share gets a bin of its own and the other bins divide the rest evenly
    4. a cut becomes the float32 in the middle of the two values beside it
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood._core.random import stream
from rankwood._core.threads import resolve_threads, run_blocks
from rankwood.binning.bins import MOST_BINS, Bins
from rankwood.dtypes import FEATURE, OFFSET, ROW, Array, Features, Rows
from rankwood.errors import DataError

_GATHERED = 16  # features gathered together: a cache line of 64 bytes holds as many
_TILE_ROWS = 256  # rows of those copied at a time
_CHUNK_ROWS = 4096  # rows searched for infinite and missing values at a time
_PLUS_INFINITY_KEY = 0xFF800000
_MINUS_INFINITY_KEY = 0x007FFFFF


def fit_bins(
    features: Any,
    *,
    max_bins: int = MOST_BINS,
    sample: int = 200_000,
    seed: int = 0,
    n_threads: int | None = None,
) -> Bins:
    """Cut points for each column of ``features`` (rows × features).

    Parameters
    ----------
    features
        Numbers; NaN is missing, and infinite values are values. -0.0 equals 0.0.
    max_bins
        Most value bins of a feature, 2 to 255. A feature with no more distinct values gets a
        cut between each two of them.
    sample
        Rows whose values decide, drawn at random when there are more. Whether a feature has
        missing or infinite values is seen on all rows.
    seed
        Of the drawing.
    n_threads
        Threads to use, which does not change the result.

    Thresholds are finite. So -inf and the least finite float32 share a bin; all other infinite
    values are apart from finite ones, unless two bins have to hold -inf, finite values and +inf.
    """
    matrix = checks.read_only(np.asarray(checks.feature_matrix(features)))
    max_bins, sample, seed = checked_parameters(max_bins, sample, seed)
    threads = resolve_threads(n_threads)
    n_rows, n_features = matrix.shape
    if n_features == 0:
        raise DataError("features must have at least one column, got none.")
    if n_rows > sample:
        rows = np.sort(stream(seed, "binning").choice(n_rows, sample, replace=False, shuffle=False))
        special = _find_special(matrix, threads)
    else:
        rows = np.arange(n_rows)
        special = np.zeros((3, n_features), bool)
    found: list[Features] = [np.zeros(0, FEATURE)] * n_features
    has_missing = special[0]
    source = _Source(_bits(matrix), checks.read_only(rows.astype(ROW)), special[1:], max_bins)
    run_blocks(_fit_features, n_features, source, found, has_missing, n_threads=threads)
    offsets = np.zeros(n_features + 1, OFFSET)
    np.cumsum([thresholds.size for thresholds in found], out=offsets[1:])
    return Bins(np.concatenate(found), offsets, has_missing)


def checked_parameters(max_bins: int, sample: int, seed: int) -> tuple[int, int, int]:
    """The parameters that decide on the cut points, each in its limits, or an error."""
    return (
        checks.whole_number("max_bins", max_bins, 2, MOST_BINS),
        checks.whole_number("sample", sample, 1),
        checks.whole_number("seed", seed, 0),
    )


class _Source(NamedTuple):
    """What every feature's cut points are made from."""

    bits: Array  # the features seen as int32
    rows: Rows
    is_infinite: (
        Array  # two rows: whether each feature holds +inf, and -inf, outside the sample too
    )
    max_bins: int


def _bits(matrix: Features) -> Array:
    """The features seen as int32: a negative float is a negative number."""
    return checks.read_only(matrix.view(np.int32))


def _find_special(matrix: Features, n_threads: int) -> Array:
    """Whether each feature has NaN, +inf and -inf anywhere: three rows of truth values."""
    n_chunks = -(-len(matrix) // _CHUNK_ROWS)
    found = np.zeros((n_chunks, 3, matrix.shape[1]), bool)
    run_blocks(find_special, n_chunks, _CHUNK_ROWS, _bits(matrix), found, n_threads=n_threads)
    special: Array = np.logical_or.reduce(found, axis=0)
    return special


def _fit_features(
    first: int, last: int, source: _Source, found: list[Features], has_missing: Array
) -> None:
    """Write the thresholds of features ``first`` to ``last``, and which of them have missing values."""
    n_rows = source.rows.size
    width = min(_GATHERED, last - first)
    tile = np.empty((_TILE_ROWS, width), np.int32)
    keys = np.empty((width, n_rows + 2), np.uint32)  # two more: infinite values beside the sample
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
            found[feature] = counting.thresholds(keys[column], n_values, source.max_bins)


class _Counting:
    """Room in which one thread sorts and counts one feature after the other."""

    def __init__(self, size: int) -> None:
        self.spare = np.empty(size, np.uint32)
        self.ends = np.empty((DIGITS, BUCKETS), ROW)
        self.values = np.empty(size, np.uint32)
        self.counts = np.empty(size, ROW)
        self.is_heavy = np.empty(size, bool)
        self.cuts = np.empty(MOST_BINS, ROW)

    def thresholds(self, keys: Array, n_keys: int, max_bins: int) -> Features:
        """The cut points of a feature with the given keys, in any order."""
        is_in_spare = sort_keys(keys, n_keys, self.spare, self.ends)
        ordered = self.spare if is_in_spare else keys
        n_values = count_values(ordered, n_keys, self.values, self.counts)
        first, last = 0, n_values
        if n_values > max_bins:  # keep infinite values apart from the finite ones
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
    """The float32 values that the keys stand for."""
    is_positive = keys >> np.uint32(31) == 1
    patterns: Array = np.where(is_positive, keys ^ np.uint32(1 << 31), ~keys)
    return patterns.view(FEATURE)


def midpoints(lower: Features, upper: Features) -> Features:
    """A finite float32 ``t`` with ``lower <= t < upper`` for each pair, the middle when there is one.

    The halves are added, not the values halved, so that nothing overflows; infinite values count
    as the largest finite ones. Where rounding reaches ``upper``, ``lower`` is taken. A pair of -inf
    and the least finite value has no such ``t`` and is left out.
    """
    most = np.finfo(FEATURE).max
    low, high = np.clip(lower, -most, most), np.clip(upper, -most, most)
    half = FEATURE(0.5)
    middle = low * half + high * half
    middle = np.where((middle < low) | (middle >= high), low, middle)
    middle += FEATURE(0)  # -0.0 becomes 0.0
    kept: Features = middle[(middle >= lower) & (middle < upper)]
    return kept


# Where to cut a feature: its distinct values in order, and the places between them.
#
# Words used here
#     key       a float32 as a whole number from 0 to 2^32 - 1 that sorts as the float does
#     value     a distinct value of the feature, by its place among them in ascending order
#     cut       a place between two values: cut ``v`` lies between values ``v`` and ``v + 1``
#     share     rows per bin, if all bins were equal
#     heavy     a value that alone holds more rows than its share; it gets a bin of its own
#     stretch   light values between two heavy ones


DIGITS = 3  # of a key: 11 + 11 + 10 bits
DIGIT_BITS = 11
BUCKETS = 1 << DIGIT_BITS

_INFINITY = 0x7F800000  # the bits of +inf; larger ones, without the sign, are NaN
_ALL_BUT_SIGN = 0x7FFFFFFF
_SIGN = 1 << 31


@kernel
def find_special(first: int, last: int, chunk_rows: int, bits: Array, found: Array) -> None:
    """Note in ``found[chunk, kind, feature]`` which of NaN, +inf and -inf each chunk of rows holds."""
    n_rows, n_features = bits.shape
    for chunk in range(first, last):
        for row in range(chunk * chunk_rows, min(n_rows, (chunk + 1) * chunk_rows)):
            for feature in range(n_features):
                pattern = np.int64(bits[row, feature])
                without_sign = pattern & _ALL_BUT_SIGN
                if without_sign >= _INFINITY:
                    kind = 0 if without_sign > _INFINITY else (1 if pattern > 0 else 2)
                    found[chunk, kind, feature] = True


@kernel
def gather_keys(
    first: int, last: int, bits: Array, rows: Rows, tile: Array, keys: Array, n_keys: Rows
) -> None:
    """Collect the keys of the given rows for features ``first`` to ``last``, missing ones left out.

    ``bits`` are the features seen as int32; -0.0 counts as 0.0. A tile of rows is copied first, so
    that many rows are on their way from memory at once: the rows lie far apart.
    """
    n_columns = last - first
    for column in range(n_columns):
        n_keys[column] = 0
    for start in range(0, rows.size, tile.shape[0]):
        n_places = min(tile.shape[0], rows.size - start)
        for place in range(n_places):
            row = rows[start + place]
            for column in range(n_columns):
                tile[place, column] = bits[row, first + column]
        for column in range(n_columns):
            end = n_keys[column]
            for place in range(n_places):
                pattern = np.int64(tile[place, column])
                # Positive floats sort as their bits; negative ones the other way round, below them.
                key = pattern + _SIGN if pattern >= 0 else -pattern - 1
                keys[column, end] = _SIGN if pattern == -_SIGN else key
                end += 0 if pattern & _ALL_BUT_SIGN > _INFINITY else 1  # NaN is written over
            n_keys[column] = end


@kernel
def sort_keys(keys: Array, n_keys: int, spare: Array, ends: Rows) -> bool:
    """Sort ``keys[:n_keys]``, least significant digit first; ``spare`` and ``ends`` are room to work.

    True when the sorted keys ended up in ``spare``.
    """
    for digit in range(DIGITS):
        for bucket in range(BUCKETS):
            ends[digit, bucket] = 0
    for place in range(n_keys):
        key = np.int64(keys[place])
        for digit in range(DIGITS):
            ends[digit, (key >> (digit * DIGIT_BITS)) & (BUCKETS - 1)] += 1
    is_in_spare = False
    source, target = keys, spare
    for digit in range(DIGITS):
        shift = digit * DIGIT_BITS
        if n_keys == 0 or ends[digit, (np.int64(source[0]) >> shift) & (BUCKETS - 1)] == n_keys:
            continue  # all keys agree in this digit: whole numbers often do
        start = np.int64(0)
        for bucket in range(BUCKETS):
            size = ends[digit, bucket]
            ends[digit, bucket] = start
            start += size
        for place in range(n_keys):
            key = np.int64(source[place])
            mine = (key >> shift) & (BUCKETS - 1)
            target[ends[digit, mine]] = key
            ends[digit, mine] += 1
        source, target = target, source
        is_in_spare = not is_in_spare
    return is_in_spare


@kernel
def count_values(keys: Array, n_keys: int, values: Array, counts: Rows) -> int:
    """Write the distinct keys of sorted ``keys[:n_keys]`` and how many rows hold each; how many."""
    n_values = 0
    for place in range(n_keys):
        if place > 0 and keys[place] == keys[place - 1]:
            counts[n_values - 1] += 1
        else:
            values[n_values] = keys[place]
            counts[n_values] = 1
            n_values += 1
    return n_values


@kernel
def choose_cuts(counts: Rows, n_values: int, n_bins: int, is_heavy: Array, cuts: Rows) -> int:
    """Cuts that divide ``n_values`` values with the given row counts into at most ``n_bins`` bins.

    With enough bins every value gets its own. Otherwise heavy values do, and the other bins are
    shared among the stretches between them by their rows. All arithmetic is on whole numbers.
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
    """Mark the heavy values; how many there are, how many stretches, and the rows of those.

    Taking a heavy value out leaves a smaller share for the rest, so this goes on until none is
    above it. Small stretches between heavy values take a bin each, which the large ones then
    lack: without two bins for each stretch only values of more than twice the first share count as
    heavy. Those are fewer than half the bins, so there is a bin for all that lies between them, and
    they hold the rows of twice their bins, so the others have enough.
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
    """How many runs of light values there are."""
    n_stretches = 0
    for value in range(n_values):
        if not is_heavy[value] and (value == 0 or is_heavy[value - 1]):
            n_stretches += 1
    return n_stretches


@kernel
def cut_stretch(counts: Rows, start: int, stop: int, n_bins: int, n_cuts: int, cuts: Rows) -> int:
    """Append cuts that divide values ``start`` to ``stop`` into ``n_bins`` bins of like row counts.

    A bin ends where it is nearest to the share of what is left. There are at least ``n_bins``
    values, and each bin gets one. Returns the new number of cuts.
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
        if is_full or stop - 1 - value == bins_left - 1:  # the rest has just enough values
            cuts[n_cuts] = value
            n_cuts += 1
            rows_left -= filled
            bins_left -= 1
            filled = 0
    return n_cuts
