"""``Bins``: the thresholds of every feature, and the codes of values.

A feature with n thresholds has n + 1 value bins. The bin of a value is the number of thresholds below it, so that
``value <= threshold[b]`` holds exactly for bins 0 to ``b``. ``codes`` are bins as uint8; code 255 marks a missing
value.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood._core.threads import lazy, run_blocks
from rankwood.dtypes import FEATURE, OFFSET, Array, Bytes, Features, Rows
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

    def __post_init__(self) -> None:
        given: dict[str, Array] = {
            "thresholds": np.array(self.thresholds, FEATURE),
            "offsets": np.array(self.offsets, OFFSET),
            "has_missing": np.array(self.has_missing, bool),
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
        return Bins, (self.thresholds, self.offsets, self.has_missing)

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
