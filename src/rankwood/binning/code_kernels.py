"""Codes of values, and the codes turned so that a row is contiguous."""

from __future__ import annotations

from rankwood._jit import kernel
from rankwood.dtypes import Bytes, Features

TABLE = 256  # thresholds of a feature, filled up with +inf, which no value exceeds
MISSING_BIN = 255
LANES = 8  # rows of the turned codes are filled up to a multiple of this

_TILE = 256  # rows whose features stay in the second-level cache


@kernel
def encode_rows(first: int, last: int, features: Features, tables: Features, codes: Bytes) -> None:
    """Write the code of each value of rows ``first`` to ``last``: how many thresholds lie below it.

    The search is written out: eight comparisons without a branch, so that several values are in
    flight at once. A loop over the steps compiles to branches and takes eight times as long.
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


@kernel
def turn_codes(first: int, last: int, codes: Bytes, turned: Bytes) -> None:
    """Write ``turned[row, feature] = codes[feature, row]`` for rows ``first`` to ``last``.

    In tiles of a cache line of rows by eight features: eight lines at a time stay in the cache
    even when the columns lie a power of two apart.
    """
    n_features = codes.shape[0]
    for start in range(first, last, 64):
        stop = min(start + 64, last)
        for left in range(0, n_features, LANES):
            if left + LANES <= n_features:
                for row in range(start, stop):
                    for lane in range(LANES):
                        turned[row, left + lane] = codes[left + lane, row]
            else:
                for row in range(start, stop):
                    for feature in range(left, n_features):
                        turned[row, feature] = codes[feature, row]
