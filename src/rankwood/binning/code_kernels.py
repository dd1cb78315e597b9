"""Codes of values."""

from __future__ import annotations

from rankwood._jit import kernel
from rankwood.dtypes import Bytes, Features

TABLE = 256  # thresholds of a feature, filled up with +inf, which no value exceeds
MISSING_BIN = 255

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
