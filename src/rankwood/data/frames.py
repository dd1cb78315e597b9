"""Features, labels and ids from arrays, lists, frames and sparse matrices.

A frame is read by blocks of rows, column by column, directly into the float32 matrix, so that no second copy of the
data is made. This module does not import pandas, polars or scipy: it calls methods of the objects it gets, and
converts other columns with Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rankwood import dtypes
from rankwood._core import checks
from rankwood.data.categories import Dictionary, encode
from rankwood.data.sources import memory_of_machine
from rankwood.dtypes import Array, Features, Floats
from rankwood.errors import DataError, UnknownName, named

_PANDAS_INDEX = re.compile(
    r"__index_level_\d+__"
)  # columns that pandas adds to files and Arrow tables
_BLOCK_VALUES = 1 << 20  # 4 MB of float32: a block stays in the cache while its columns are written


class FeaturesElsewhere:
    """The base of what stands for features that are not in memory: it has their shape, and raises for their values."""


class RowsElsewhere(FeaturesElsewhere):
    """The same for rows on other machines, which score themselves."""

    def predict(self, forest: Any, first_trees: int | None) -> Floats:
        """The scores of the rows by a forest."""
        raise NotImplementedError


def to_matrix(
    features: Any, categorical: dict[str, Dictionary | None] | None = None
) -> tuple[Features, tuple[str, ...] | None]:
    """The features as a dense, row-major float32 matrix, and their names if they have any.

    ``categorical`` is as for ``fill_matrix``; what is no frame has no such columns.

    Missing values (NaN, None, NA, Arrow nulls) become NaN, truth values 0 and 1. A float32 array
    that is already row-major is used without a copy.
    """
    if isinstance(features, FeaturesElsewhere):
        return features, None  # type: ignore[return-value]
    if _comes_from(features, "scipy"):
        matrix, names = _from_sparse(features), None
    elif (frame := as_frame(features)) is not None:
        matrix = fill_matrix(frame, frame.names, categorical)
        names = None if _are_positions(features) else frame.names
    else:
        matrix, names = checks.feature_matrix(features), None
    if matrix.shape[1] == 0:
        raise DataError("features has no columns; at least one feature is needed.")
    return matrix, names


def to_column(name: str, values: Any) -> Any:
    """Labels or weights: series and Arrow arrays become numpy arrays, NaN for missing values."""
    if _comes_from(values, "pandas") and hasattr(values, "dtype"):
        return series_numbers(name, values, 0, len(values))
    if _comes_from(values, "polars", "pyarrow") and not hasattr(values, "columns"):
        return numbers(name, _as_arrow_array(values))
    return values


def to_identifiers(name: str, values: Any) -> Any:
    """Ids: series and Arrow arrays become numpy arrays of whole numbers or Python strings."""
    if _comes_from(values, "pandas") and hasattr(values, "dtype"):
        return series_identifiers(name, values)
    if _comes_from(values, "polars", "pyarrow") and not hasattr(values, "columns"):
        return identifiers(name, _as_arrow_array(values))
    return values


def as_frame(table: Any) -> Frame | None:
    """A pandas, polars, Arrow or Arrow-compatible table as a ``Frame``; None for other objects."""
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


def fill_matrix(
    frame: Frame, names: Sequence[str], categorical: dict[str, Dictionary | None] | None = None
) -> Features:
    """The named columns of ``frame`` as a float32 matrix.

    Columns that are ``categorical`` become codes; those that have no dictionary yet get one, in place.
    """
    asked = {} if categorical is None else categorical
    for name in asked:
        if name not in names:
            raise UnknownName("categorical: column", name, names)
    matrix = np.empty((frame.n_rows, len(names)), dtypes.FEATURE)
    narrowing = checks.Narrowing(lambda row, feature: f"column '{names[feature]}', row {row},")
    step = max(1024, _BLOCK_VALUES // max(1, len(names)))
    # A frame without rows is visited once too, to check the types of its columns.
    for first in range(0, max(1, frame.n_rows), step):
        last = min(first + step, frame.n_rows)
        unusable: list[UnusableColumn] = []
        for feature, name in enumerate(names):
            if name in asked:
                continue
            try:
                piece = frame.numbers(name, first, last)
            except NotAFeatureError as error:
                unusable += error.columns
                continue
            narrowing.write(piece[:, None], first, feature, matrix[first:last])
        if unusable:
            raise NotAFeatureError(unusable)
    narrowing.warn(lambda feature: f"column '{names[feature]}'")
    for name, known in asked.items():
        matrix[:, names.index(name)], asked[name] = encode(name, frame.texts(name), known)
    return matrix


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
        """Rows ``first`` to ``last`` of a column of numbers, as the function ``numbers`` gives them."""
        ...

    def identifiers(self, name: str) -> Array:
        """A column of ids: whole numbers or text, None where one is missing."""
        ...

    def texts(self, name: str) -> Any:
        """A column of categories, as Arrow holds it."""
        ...


@dataclass(frozen=True)
class ArrowFrame:
    """An Arrow table."""

    table: Any

    def __post_init__(self) -> None:
        refuse_twins(self.table.column_names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return without_index(self.table.column_names)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def numbers(self, name: str, first: int, last: int) -> Array:
        """Rows ``first`` to ``last`` of a column of numbers, NaN where one is missing."""
        return numbers(name, self.table.column(name).slice(first, last - first))

    def identifiers(self, name: str) -> Array:
        """A column of ids: whole numbers or text, None where one is missing."""
        return identifiers(name, self.table.column(name))

    def texts(self, name: str) -> Any:
        """A column of categories, as Arrow holds it."""
        return self.table.column(name)


class PandasFrame:
    """A pandas frame; numpy columns are used directly, others are converted by Arrow."""

    def __init__(self, frame: Any) -> None:
        names = [str(name) for name in frame.columns]
        self.names = without_index(names)
        self.n_rows = len(frame)
        refuse_twins(names)
        self._series = {name: frame.iloc[:, column] for column, name in enumerate(names)}

    def numbers(self, name: str, first: int, last: int) -> Array:
        """Rows ``first`` to ``last`` of a column of numbers, NaN where one is missing."""
        return series_numbers(name, self._series[name], first, last)

    def identifiers(self, name: str) -> Array:
        """A column of ids: whole numbers or text, None where one is missing."""
        return series_identifiers(name, self._series[name])

    def texts(self, name: str) -> Any:
        """A column of categories, as Arrow holds it."""
        return _series_to_arrow(name, self._series[name])


def series_numbers(name: str, series: Any, first: int, last: int) -> Array:
    """Rows ``first`` to ``last`` of a pandas series of numbers, NaN where one is missing."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
        return np.asarray(series.to_numpy()[first:last])
    rows = getattr(series, "iloc", series)  # pandas arrays have no iloc and are indexed by position
    return numbers(name, _series_to_arrow(name, rows[first:last]))


def series_identifiers(name: str, series: Any) -> Array:
    """A pandas series of ids: whole numbers or text, None where one is missing."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iu":
        return np.asarray(series.to_numpy())
    return identifiers(name, _series_to_arrow(name, series))


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


def without_index(names: Iterable[str]) -> tuple[str, ...]:
    """The names of columns without those that hold a pandas index."""
    return tuple(name for name in names if not _PANDAS_INDEX.fullmatch(name))


def refuse_twins(names: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    if len(set(names)) != len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise DataError(f"two columns are named '{twice}'. Names must differ: rename one of them.")


def refuse_what_memory_cannot_hold(n_rows: int, n_features: int) -> None:
    """Raise if a dense float32 matrix of this shape exceeds the machine's memory."""
    needed = n_rows * n_features * np.dtype(dtypes.FEATURE).itemsize
    present = memory_of_machine()
    if needed > present:
        raise DataError(
            f"{n_rows:,} rows × {n_features:,} features need {needed / 2**30:,.1f} GiB as a dense "
            f"matrix, but the machine has {present / 2**30:,.1f} GiB. Keep fewer columns, or use a "
            "part of the queries."
        )


def _comes_from(value: Any, *packages: str) -> bool:
    """Whether the class of ``value``, or a base class, is defined in one of the packages."""
    homes = {kind.__module__.partition(".")[0] for kind in type(value).__mro__}
    return not homes.isdisjoint(packages)


def _are_positions(table: Any) -> bool:
    """Whether the columns of a pandas frame have the default names 0, 1, 2 and so on."""
    names = getattr(table, "columns", None)
    return _comes_from(table, "pandas") and type(names).__name__ == "RangeIndex"


def _as_arrow_table(table: Any) -> Any:
    """``table`` as an Arrow table without copying its numbers; None if it is not a table."""
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
    by_row = _checked_sparse(features).tocsr()
    matrix = np.empty((n_rows, n_features), dtypes.FEATURE)
    narrowing = checks.Narrowing(checks.value_in_array)
    step = max(1, _BLOCK_VALUES // max(1, n_features))
    for first in range(0, n_rows, step):
        block = by_row[first : first + step].toarray()
        checks.refuse_other_than_numbers(block.dtype)
        narrowing.write(block, first, 0, matrix[first : first + step])
    narrowing.warn(checks.column_in_array)
    return matrix


def _checked_sparse(features: Any) -> Any:
    """The matrix, if its indices lie within its shape: scipy follows them without a look and may end the process."""
    try:
        if hasattr(features, "check_format"):  # by row, by column or by block
            features.check_format(full_check=True)
        elif hasattr(features, "coords") and features.nnz:  # a list of places
            for axis, (places, size) in enumerate(
                zip(features.coords, features.shape, strict=True)
            ):
                if len(places) != len(features.data) or places.min() < 0 or places.max() >= size:
                    raise ValueError(f"an index of axis {axis} is outside of the matrix")
    except (ValueError, IndexError, TypeError) as error:
        raise DataError(
            f"features are a malformed sparse matrix: {error}. Build it again, or pass features.toarray()."
        ) from None
    return features


# Arrow columns as numbers or identifiers.


def numbers(name: str, column: Any) -> Array:
    """The values of an Arrow column; truth values are 0 and 1.

    Missing values are NaN; whole numbers of which some are missing are a masked array, since float64 would not hold
    those from 2^53 on.
    """
    import pyarrow as pa

    kind = column.type
    types = pa.types
    if types.is_null(kind):
        return np.full(len(column), np.nan, np.float32)
    unusable = unusable_column(name, kind)
    if unusable is not None:
        raise NotAFeatureError([unusable])
    if types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif types.is_decimal(kind):
        column = column.cast(pa.float64())
    if types.is_integer(column.type) and column.null_count:
        values, is_missing = column.fill_null(0), column.is_null()
        return np.ma.MaskedArray(_to_numpy(values), _to_numpy(is_missing))
    return _to_numpy(column)


def floats(values: Array) -> Array:
    """Numbers as float64, NaN where they are masked."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
    return values.astype(np.float64)


def _to_numpy(column: Any) -> Array:
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def identifiers(name: str, column: Any) -> Array:
    """The ids of an Arrow column, whole numbers or Python strings; None if missing."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if not (is_text or types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)):
        raise DataError(
            f"column '{name}' holds {kind}, which cannot identify queries or documents. "
            "Turn it into whole numbers or text."
        )
    if column.null_count:
        return _objects(column.to_pylist())
    if is_text:
        # Dictionary-encoded first, so that the rows of a query share one Python string.
        coded = column.cast(pa.large_string()).dictionary_encode()
        texts: Array = _objects(coded.dictionary.to_pylist())[coded.indices.to_numpy()]
        return texts
    return np.asarray(column.to_numpy(zero_copy_only=False))


def identifiers_to_arrow(name: str, ids: Array) -> Any:
    """Checked ids as an Arrow array of whole numbers or of text."""
    import pyarrow as pa

    if ids.dtype != object:
        return pa.array(ids)
    for row, value in enumerate(ids):
        if not isinstance(value, str):
            raise DataError(
                f"{name} mixes text and whole numbers ({name}[{row}] is {value}); "
                "a column has one type. Make all of them text."
            )
    try:
        return pa.array(ids, pa.large_string())
    except UnicodeEncodeError as error:
        raise DataError(f"{name} holds {error.object!r}, which is not valid Unicode.") from None


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


@dataclass(frozen=True)
class UnusableColumn:
    """A column that holds no numbers: what it holds, and what can be done about it."""

    name: str
    content: str  # "text (large_string)"
    remedy: str


class NotAFeatureError(DataError):
    """Columns do not hold numbers, and so cannot be features."""

    def __init__(self, columns: Sequence[UnusableColumn]) -> None:
        self.columns = tuple(columns)
        first = self.columns[0]
        if len(self.columns) == 1:
            said = f"column '{first.name}' holds {first.content}. {first.remedy}, or leave the column out."
        else:
            listed = ", ".join(f"'{column.name}' {column.content}" for column in self.columns)
            said = (
                f"{len(self.columns):,} columns cannot be features, since they do not hold numbers: {listed}. Turn "
                "them into numbers, or leave them out."
            )
        super().__init__(said)


def unusable_column(name: str, kind: Any) -> UnusableColumn | None:
    """What is to be said of a column of ``kind``, an Arrow type; None where it is one of numbers."""
    import pyarrow as pa

    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return None
    if types.is_boolean(kind) or types.is_null(kind):
        return None
    if types.is_dictionary(kind):
        content = "categories"
        remedy = f"Name it in {named('categorical')}"
    elif types.is_temporal(kind):
        content = f"dates or times ({kind})"
        remedy = "Convert them to numbers that mean something, such as an age in days"
    elif types.is_nested(kind):
        content = f"lists or records ({kind})"
        remedy = "Give each of their numbers a column of its own"
    elif isinstance(kind, pa.BaseExtensionType):
        content = f"values of the type {kind}"
        remedy = "Convert them to plain numbers"
    else:
        content = f"text ({kind})" if "string" in str(kind) else f"bytes ({kind})"
        remedy = "Encode it as numbers"
    return UnusableColumn(name, content, remedy)


def missing_ids(ids: Array) -> Array:
    """Where a column of ids has no value."""
    if ids.dtype == object:
        return np.fromiter((value is None for value in ids), bool, ids.size)
    return np.isnan(ids) if ids.dtype.kind == "f" else np.zeros(ids.size, bool)
