"""One Arrow column as numbers or as identifiers, or an error that says what to do instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood.dtypes import Array
from rankwood.errors import DataError


def numbers(name: str, column: Any) -> Array:
    """The values of an Arrow column, NaN where one is missing; truth values are 0 and 1."""
    import pyarrow as pa

    kind = column.type
    types = pa.types
    if types.is_null(kind):
        return np.full(len(column), np.nan, np.float32)
    if types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (types.is_integer(kind) or types.is_floating(kind)):
        raise not_a_feature(name, kind)
    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def identifiers(name: str, column: Any) -> Array:
    """The ids of an Arrow column as given, whole numbers or Python strings; None where missing."""
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
        # Encoded first, so that the rows of a query share one Python string.
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


class NotAFeatureError(DataError):
    """A column whose type cannot be a feature's."""

    def __init__(self, column: str, message: str) -> None:
        self.column = column
        super().__init__(message)


def not_a_feature(name: str, kind: Any) -> NotAFeatureError:
    """The error for a column of ``kind``, an Arrow type that features cannot have."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        what = "holds categories"
        remedy = "Encode them as numbers (one 0/1 column each, or their mean label in other data)"
    elif types.is_temporal(kind):
        what = f"holds dates or times ({kind})"
        remedy = "Convert them to numbers that mean something, such as an age in days"
    elif types.is_nested(kind):
        what = f"holds lists or records ({kind})"
        remedy = "Give each of their numbers a column of its own"
    elif isinstance(kind, pa.BaseExtensionType):
        what = f"holds values of the type {kind}"
        remedy = "Convert them to plain numbers"
    else:
        what = f"holds text ({kind})" if "string" in str(kind) else f"holds bytes ({kind})"
        remedy = "Encode it as numbers"
    return NotAFeatureError(name, f"column '{name}' {what}. {remedy}, or leave the column out.")
