"""Features from whatever people keep them in: arrays, lists, frames, sparse matrices.

Frames are read a block of rows and a column at a time straight into the float32 matrix, so that no
second copy of the data is made. Nothing here imports pandas, polars or scipy: an object that comes
from them brings its own methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rankwood import _checks, dtypes
from rankwood.data import columns
from rankwood.data.memory import memory_of_machine
from rankwood.dtypes import Array, Features
from rankwood.errors import DataError

_BLOCK_VALUES = (
    1 << 20
)  # 4 MB of float32: a block is written column by column while it is in the cache


class Frame(Protocol):
    """A table whose columns can be read a piece at a time."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        ...

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        ...

    def numbers(self, name: str, first: int, last: int) -> Array:
        """Rows ``first`` to ``last`` of a column of numbers, NaN where one is missing."""
        ...

    def identifiers(self, name: str) -> Array:
        """A column of ids: whole numbers or text, None where one is missing."""
        ...


def to_matrix(features: Any) -> tuple[Features, tuple[str, ...] | None]:
    """The features as a dense, row-major float32 matrix, and their names where they have any.

    Missing values (NaN, None, NA, Arrow nulls) become NaN, truth values 0 and 1. A float32 array
    that is row-major already is taken as it is, without a copy.
    """
    if _comes_from(features, "scipy"):
        matrix, names = _from_sparse(features), None
    elif (frame := as_frame(features)) is not None:
        matrix = fill_matrix(frame, frame.names)
        names = None if _are_positions(features) else frame.names
    else:
        matrix, names = _checks.feature_matrix(features), None
    if matrix.shape[1] == 0:
        raise DataError("features has no columns; at least one feature is needed.")
    return matrix, names


def as_frame(table: Any) -> Frame | None:
    """A pandas, polars or Arrow table, or another that speaks Arrow, as a ``Frame``; else None."""
    if _comes_from(table, "pandas") and hasattr(table, "iloc") and hasattr(table, "columns"):
        return PandasFrame(table)
    if (
        _comes_from(table, "polars")
        and hasattr(table, "collect")
        and hasattr(table, "sink_parquet")
    ):
        raise DataError("a polars LazyFrame holds no rows yet; pass frame.collect().")
    arrow = _as_arrow_table(table)
    return None if arrow is None else ArrowFrame(arrow)


def fill_matrix(frame: Frame, names: Sequence[str]) -> Features:
    """The named columns of ``frame`` as a float32 matrix."""
    matrix = np.empty((frame.n_rows, len(names)), dtypes.FEATURE)
    narrowing = _checks.Narrowing(lambda row, feature: f"column '{names[feature]}', row {row},")
    step = max(1024, _BLOCK_VALUES // max(1, len(names)))
    # A frame without rows is walked once too: its columns must have types that can be features.
    for first in range(0, max(1, frame.n_rows), step):
        last = min(first + step, frame.n_rows)
        for feature, name in enumerate(names):
            piece = frame.numbers(name, first, last)
            narrowing.write(piece[:, None], first, feature, matrix[first:last])
    narrowing.warn(lambda feature: f"column '{names[feature]}'")
    return matrix


@dataclass(frozen=True)
class ArrowFrame:
    """An Arrow table."""

    table: Any

    def __post_init__(self) -> None:
        refuse_twins(self.table.column_names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.table.column_names)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def numbers(self, name: str, first: int, last: int) -> Array:
        """Rows ``first`` to ``last`` of a column of numbers, NaN where one is missing."""
        return columns.numbers(name, self.table.column(name).slice(first, last - first))

    def identifiers(self, name: str) -> Array:
        """A column of ids: whole numbers or text, None where one is missing."""
        return columns.identifiers(name, self.table.column(name))


class PandasFrame:
    """A pandas frame: plain numpy columns are used in place, the others go through Arrow."""

    def __init__(self, frame: Any) -> None:
        self.names = tuple(str(name) for name in frame.columns)
        self.n_rows = len(frame)
        refuse_twins(self.names)
        self._series = {name: frame.iloc[:, place] for place, name in enumerate(self.names)}

    def numbers(self, name: str, first: int, last: int) -> Array:
        """Rows ``first`` to ``last`` of a column of numbers, NaN where one is missing."""
        return series_numbers(name, self._series[name], first, last)

    def identifiers(self, name: str) -> Array:
        """A column of ids: whole numbers or text, None where one is missing."""
        return series_identifiers(name, self._series[name])


def series_numbers(name: str, series: Any, first: int, last: int) -> Array:
    """Rows ``first`` to ``last`` of a pandas series of numbers, NaN where one is missing."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
        return np.asarray(series.to_numpy()[first:last])
    rows = getattr(series, "iloc", series)  # pandas arrays are indexed by place as they are
    return columns.numbers(name, _series_to_arrow(name, rows[first:last]))


def series_identifiers(name: str, series: Any) -> Array:
    """A pandas series of ids: whole numbers or text, None where one is missing."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iu":
        return np.asarray(series.to_numpy())
    return columns.identifiers(name, _series_to_arrow(name, series))


def _series_to_arrow(name: str, series: Any) -> Any:
    import pyarrow as pa

    if hasattr(series.dtype, "fill_value"):  # pandas' sparse columns
        return pa.array(np.asarray(series), from_pandas=True)
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        kinds = sorted({type(value).__name__ for value in series})
        raise DataError(
            f"column '{name}' holds Python objects that are not all numbers "
            f"({', '.join(kinds[:5])}). Convert it to one type of number, or leave the column out."
        ) from None


def to_column(name: str, values: Any) -> Any:
    """Labels or weights for numpy: series and Arrow arrays become numbers, NaN for missing."""
    if _comes_from(values, "pandas") and hasattr(values, "dtype"):
        return series_numbers(name, values, 0, len(values))
    if _comes_from(values, "polars", "pyarrow") and not hasattr(values, "columns"):
        return columns.numbers(name, _as_arrow_array(values))
    return values


def to_identifiers(name: str, values: Any) -> Any:
    """Ids for numpy: series and Arrow arrays become whole numbers or Python strings."""
    if _comes_from(values, "pandas") and hasattr(values, "dtype"):
        return series_identifiers(name, values)
    if _comes_from(values, "polars", "pyarrow") and not hasattr(values, "columns"):
        return columns.identifiers(name, _as_arrow_array(values))
    return values


def refuse_twins(names: Sequence[str]) -> None:
    """Raise when two columns share a name."""
    if len(set(names)) != len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise DataError(f"two columns are named '{twice}'. Names must differ: rename one of them.")


def refuse_what_memory_cannot_hold(n_rows: int, n_features: int) -> None:
    """Raise when a dense float32 matrix of this shape exceeds the machine's memory."""
    needed = n_rows * n_features * np.dtype(dtypes.FEATURE).itemsize
    present = memory_of_machine()
    if needed > present:
        raise DataError(
            f"{n_rows:,} rows × {n_features:,} features need {needed / 2**30:,.1f} GiB as a dense "
            f"matrix, but the machine has {present / 2**30:,.1f} GiB. Keep fewer columns, or use a "
            "part of the queries."
        )


def _comes_from(value: Any, *packages: str) -> bool:
    """Whether the class of ``value``, or one it extends, is defined in one of the packages."""
    homes = {kind.__module__.partition(".")[0] for kind in type(value).__mro__}
    return not homes.isdisjoint(packages)


def _are_positions(table: Any) -> bool:
    """Whether a pandas frame's column names are just 0, 1, 2, …: nobody named them."""
    names = getattr(table, "columns", None)
    return _comes_from(table, "pandas") and type(names).__name__ == "RangeIndex"


def _as_arrow_table(table: Any) -> Any:
    """An Arrow table of ``table`` without copying its numbers, or None when it is no table."""
    is_table = hasattr(table, "__arrow_c_stream__")
    is_batch = hasattr(table, "__arrow_c_array__") and hasattr(table, "schema")
    if not (is_table or is_batch):
        return None
    import pyarrow as pa

    if isinstance(table, pa.Array | pa.ChunkedArray) or _is_series(table):
        return None
    try:
        return pa.table(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"this {type(table).__name__} cannot be read as a table: {error}") from None


def _is_series(value: Any) -> bool:
    return _comes_from(value, "pandas", "polars") and not hasattr(value, "columns")


def _as_arrow_array(values: Any) -> Any:
    return values.to_arrow() if hasattr(values, "to_arrow") else values


def _from_sparse(features: Any) -> Features:
    """A dense matrix from a scipy sparse one, a block of rows at a time."""
    if getattr(features, "ndim", 2) != 2 or not hasattr(features, "tocsr"):
        raise DataError(f"features must have two dimensions (rows, features), got {features!r}.")
    n_rows, n_features = features.shape
    refuse_what_memory_cannot_hold(n_rows, n_features)
    by_row = features.tocsr()
    matrix = np.empty((n_rows, n_features), dtypes.FEATURE)
    narrowing = _checks.Narrowing(_checks.place_in_array)
    step = max(1, _BLOCK_VALUES // max(1, n_features))
    for first in range(0, n_rows, step):
        block = by_row[first : first + step].toarray()
        _checks.refuse_other_than_numbers(block.dtype)
        narrowing.write(block, first, 0, matrix[first : first + step])
    narrowing.warn(_checks.column_in_array)
    return matrix
