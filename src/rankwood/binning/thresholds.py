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

from rankwood import _checks
from rankwood._random import stream
from rankwood._threads import resolve_threads, run_blocks
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
    matrix = _checks.read_only(np.asarray(_checks.feature_matrix(features)))
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
    source = _Source(_bits(matrix), _checks.read_only(rows.astype(ROW)), special[1:], max_bins)
    run_blocks(_fit_features, n_features, source, found, has_missing, n_threads=threads)
    offsets = np.zeros(n_features + 1, OFFSET)
    np.cumsum([thresholds.size for thresholds in found], out=offsets[1:])
    return Bins(np.concatenate(found), offsets, has_missing)


def checked_parameters(max_bins: int, sample: int, seed: int) -> tuple[int, int, int]:
    """The parameters that decide on the cut points, each in its limits, or an error."""
    return (
        _checks.whole_number("max_bins", max_bins, 2, MOST_BINS),
        _checks.whole_number("sample", sample, 1),
        _checks.whole_number("seed", seed, 0),
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
    return _checks.read_only(matrix.view(np.int32))


def _find_special(matrix: Features, n_threads: int) -> Array:
    """Whether each feature has NaN, +inf and -inf anywhere: three rows of truth values."""
    from rankwood.binning.cut_kernels import find_special

    n_chunks = -(-len(matrix) // _CHUNK_ROWS)
    found = np.zeros((n_chunks, 3, matrix.shape[1]), bool)
    run_blocks(find_special, n_chunks, _CHUNK_ROWS, _bits(matrix), found, n_threads=n_threads)
    special: Array = np.logical_or.reduce(found, axis=0)
    return special


def _fit_features(
    first: int, last: int, source: _Source, found: list[Features], has_missing: Array
) -> None:
    """Write the thresholds of features ``first`` to ``last``, and which of them have missing values."""
    from rankwood.binning.cut_kernels import gather_keys

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
        from rankwood.binning.cut_kernels import BUCKETS, DIGITS

        self.spare = np.empty(size, np.uint32)
        self.ends = np.empty((DIGITS, BUCKETS), ROW)
        self.values = np.empty(size, np.uint32)
        self.counts = np.empty(size, ROW)
        self.is_heavy = np.empty(size, bool)
        self.cuts = np.empty(MOST_BINS, ROW)

    def thresholds(self, keys: Array, n_keys: int, max_bins: int) -> Features:
        """The cut points of a feature with the given keys, in any order."""
        from rankwood.binning.cut_kernels import choose_cuts, count_values, sort_keys

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
