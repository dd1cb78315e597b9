"""Validation of user input: arrays, numbers, names and identifiers.

Every function returns a clean value or raises one error that names the parameter, row or column.
Code below the public functions relies on these checks and does not repeat them.
"""

from __future__ import annotations

import math
import mmap
import numbers
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rankwood import dtypes
from rankwood.dtypes import Array, Features, Floats
from rankwood.errors import DataError, DataWarning, ParameterError, UnknownName

_BLOCK_VALUES = 1 << 18  # values converted at a time: temporary arrays stay in the cache
_MISSING_KINDS = ("NAType", "NaTType")  # pandas' missing values, by name: it need not be installed
_EXACT_IN_FLOAT32 = 2.0**24  # float32 represents every whole number up to this one
_SAMPLED_VALUES = 1 << 16  # values kept of a column with larger values
_KEPT_SHARE = 0.9  # a column warns if fewer of its distinct values stay distinct


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """``value`` as an int between ``least`` and ``most``, or an error that names the parameter."""
    limits = f"of at least {least}" if most is None else f"between {least} and {most}"
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        raise ParameterError(f"{name} must be a whole number {limits}, got {plain(value)}.")
    return int(value)


def real_number(name: str, value: Any, interval: str) -> float:
    """``value`` as a float in ``interval``, such as ``(0, 1]``; round brackets exclude the end."""
    low, high = (float(end) for end in interval[1:-1].split(","))
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if is_real and not math.isnan(value):
        above = value > low or (interval[0] == "[" and value == low)
        below = value < high or (interval[-1] == "]" and value == high)
        if above and below:
            return float(value)
    raise ParameterError(f"{name} must be in {interval}, got {plain(value)}.")


def true_or_false(name: str, value: Any) -> bool:
    """``value`` as a bool; other types are refused, since the text "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name} must be True or False, got {plain(value)}.")
    return bool(value)


def one_of(kind: str, value: Any, known: Iterable[str]) -> str:
    """``value`` if it is one of the ``known`` names, else an error with the nearest of them."""
    names = list(known)
    if value not in names:
        raise UnknownName(kind, str(value), names)
    return str(value)


def is_unicode(text: str) -> bool:
    """Whether a text can be written; JSON may hold half a character (a lone surrogate), which cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain(value: Any) -> str:
    """The repr of a value for a message; numpy scalars are shown as Python numbers."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def feature_matrix(values: Any) -> Features:
    """A dense, row-major float32 matrix of finite, infinite or missing (NaN) values.

    float64 values that do not fit into float32 are refused: they would silently become infinite.
    Columns whose different values become equal in float32 (identifiers, timestamps) give a
    warning.
    """
    matrix = _two_dimensions(values)
    refuse_other_than_numbers(matrix.dtype)
    if matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 4:
        return np.ascontiguousarray(matrix, dtype=dtypes.FEATURE)
    n_rows, n_features = matrix.shape
    narrow = np.empty((n_rows, n_features), dtypes.FEATURE)
    narrowing = Narrowing(value_in_array)
    step = max(1, _BLOCK_VALUES // max(1, n_features))
    for first in range(0, n_rows, step):
        narrowing.write(matrix[first : first + step], first, 0, narrow[first : first + step])
    narrowing.warn(column_in_array)
    return narrow


def vector(name: str, values: Any, length: int | None = None) -> Floats:
    """A one-dimensional float64 array without NaN or infinity, of ``length`` if given."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            raise TypeError
        array = np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{name} must be numbers, got {type(values).__name__} of another kind."
        ) from None
    if array.ndim != 1:
        raise DataError(f"{name} must have one dimension, got {array.ndim}. Try {name}.ravel().")
    if length is not None and array.size != length:
        raise DataError(f"{name} has {array.size:,} values, but there are {length:,} rows.")
    finite = np.isfinite(array)
    if not finite.all():
        row = int(np.argmin(finite))
        remedy = " Leave such rows out, or label them." if name == "labels" else ""
        raise DataError(f"{name}[{row}] is {float(array[row])}; {name} must be finite.{remedy}")
    return array


def labels(values: Any, length: int) -> Floats:
    """Graded relevance: finite and not negative."""
    return _not_negative("labels", vector("labels", values, length))


def weights(name: str, values: Any, length: int, *, may_be_all_zero: bool = False) -> Floats:
    """Weights: finite, not negative, and not all zero unless ``may_be_all_zero``."""
    array = _not_negative(name, vector(name, values, length))
    if array.size and not may_be_all_zero and not array.any():
        raise DataError(f"{name} are all zero; at least one must be positive.")
    return array


def ids(name: str, values: Any, length: int) -> Array:
    """One identifier per row, as given: whole numbers, or Python strings."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise DataError(f"{name} must be one id per row, got lists of different lengths.") from None
    if array.ndim != 1:
        raise DataError(f"{name} must have one dimension, got {array.ndim}. Try {name}.ravel().")
    if array.size != length:
        raise DataError(f"{name} has {array.size:,} values, but there are {length:,} rows.")
    if array.dtype.kind == "f":
        _refuse_fractions(name, array)
        return array.astype(np.int64)
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind in "bcmMV":
        raise DataError(f"{name} holds {array.dtype}; identifiers are whole numbers or text.")
    as_objects = np.empty(array.size, object)
    as_objects[:] = [_identifier(name, row, value) for row, value in enumerate(array.tolist())]
    are_whole = as_objects.size > 0 and all(type(value) is int for value in as_objects)
    if are_whole and all(-(2**63) <= value < 2**63 for value in as_objects):
        return as_objects.astype(np.int64)
    return as_objects


def positions(name: str, values: Any, length: int) -> Array:
    """One position per row: whole numbers from 1."""
    array = numbers_in(values, f"{name} must be whole numbers from 1, the top of the list.")
    if array.shape != (length,):
        raise DataError(f"{name} has {array.size:,} values, but there are {length:,} rows.")
    is_wrong = wrong_positions(array)
    if (row := first_true(is_wrong)) is not None:
        raise DataError(f"{name}[{row}] is {said_of_position(float(array[row]))}")
    return array.astype(dtypes.POSITION)


def first_true(mask: Array) -> int | None:
    """The index of the first true value, such as the first row of which something is wrong; None without one."""
    return int(np.argmax(mask)) if mask.any() else None


def numbers_in(values: Any, refusal: str) -> Floats:
    """An array of its own with numbers of any shape; ``DataError`` with the text ``refusal`` for anything else."""
    try:
        return np.array(values, np.float64)
    except (TypeError, ValueError):
        raise DataError(refusal) from None


def wrong_positions(array: Floats) -> Array:
    """Which numbers are no positions."""
    with np.errstate(invalid="ignore"):
        is_position = (array >= 1) & (array <= np.iinfo(dtypes.POSITION).max)
        is_wrong: Array = ~(is_position & (np.floor(array) == array))
    return is_wrong


def said_of_position(value: float) -> str:
    """What is wrong with a number that is no position."""
    what = "missing" if math.isnan(value) else f"{value:g}"
    return f"{what}; positions are whole numbers from 1, the top of the list."


def refuse_cut(name: str, *arrays: Any) -> None:
    """Raise for an array whose file became shorter after it was mapped: reading beyond its end kills the process."""
    for array in arrays:
        base = array
        while base is not None and not isinstance(base, mmap.mmap):
            base = getattr(base, "base", None)
        if base is not None and base.size() < len(base):
            raise DataError(
                f"the file that {name} are mapped from was cut from {len(base):,} to {base.size():,} bytes while it "
                "was in use. Read the data again."
            )


def read_only(array: Array) -> Array:
    """A read-only view of ``array``, so that kernels compile one signature and cannot modify it."""
    view = array.view()
    view.flags.writeable = False
    return view


class Narrowing:
    """Converts numbers to float32, piece by piece, and detects loss of information.

    A finite value that would become infinite is refused. For each column with values beyond 2^24,
    where float32 cannot represent every whole number, a sample is kept; ``warn`` counts how many
    distinct values became equal. Such a column is likely an identifier or a timestamp.
    """

    def __init__(self, describe: Callable[[int, int], str]) -> None:
        self._describe = describe  # how messages name the value of a row and a feature
        self._samples: dict[int, list[Array]] = {}

    def write(self, values: Array, first_row: int, first_feature: int, out: Features) -> None:
        """Write ``values`` (rows × some features) into those columns of the same rows, ``out``."""
        columns = slice(first_feature, first_feature + values.shape[1])
        if isinstance(values, np.ma.MaskedArray):
            self._write_masked(values, first_feature, out[:, columns])
            return
        if values.dtype.kind == "f" and values.dtype.itemsize <= 4:
            out[:, columns] = values
            return
        with np.errstate(over="ignore"):
            out[:, columns] = values
        if values.dtype.itemsize <= 2 or not _reach_past_exact(out[:, columns]):
            return
        if values.dtype.kind == "f":
            self._refuse_overflow(values, out[:, columns], first_row, first_feature)
        largest = np.fmax.reduce(np.abs(values.astype(np.float64, copy=False)), axis=0)
        for column in np.flatnonzero(largest > _EXACT_IN_FLOAT32).tolist():
            self._sample(first_feature + column, values[:, column])

    def _write_masked(self, values: Any, first_feature: int, out: Features) -> None:
        """Write whole numbers of which some are missing; float64 would not hold the large ones."""
        out[:] = np.ma.filled(values.astype(dtypes.FEATURE), np.nan)
        if values.dtype.itemsize > 2 and _reach_past_exact(out):
            for column in range(values.shape[1]):
                self._sample(first_feature + column, values[:, column].compressed())

    def _refuse_overflow(
        self, values: Array, narrow: Features, first_row: int, first_feature: int
    ) -> None:
        too_large = np.argwhere(np.isinf(narrow) & np.isfinite(values))
        if len(too_large):
            row, column = (int(index) for index in too_large[0])
            where = self._describe(first_row + row, first_feature + column)
            raise DataError(
                f"{where} is {float(values[row, column]):g}, beyond float32's range of ±3.4e38. "
                "Rescale the feature or take its logarithm."
            )

    def _sample(self, feature: int, values: Array) -> None:
        pieces = self._samples.setdefault(feature, [])
        room = _SAMPLED_VALUES - sum(piece.size for piece in pieces)
        if room > 0:
            is_whole = values.dtype.kind in "iu"
            pieces.append(values[:room].copy() if is_whole else values[:room].astype(np.float64))

    def warn(self, column: Callable[[int], str]) -> None:
        """Warn of columns whose distinct values became equal; ``column`` names a feature."""
        for feature in sorted(self._samples):
            n_before, n_after = _distinct_before_and_after(np.concatenate(self._samples[feature]))
            if n_after < _KEPT_SHARE * n_before:
                warnings.warn(
                    f"{column(feature)} looks like an identifier or a timestamp: "
                    f"{n_before:,} distinct values become {n_after:,} in float32. "
                    "Leave it out, take it as the documents' ids if it names them, or subtract an offset.",
                    DataWarning,
                    stacklevel=2,
                )


def value_in_array(row: int, feature: int) -> str:
    """How a message names one value of an array."""
    return f"features[{row}, {feature}]"


def column_in_array(feature: int) -> str:
    """How a message names one column of an array."""
    return f"features[:, {feature}]"


def refuse_other_than_numbers(dtype: np.dtype[Any]) -> None:
    """Raise for a dtype that cannot hold features."""
    if dtype.kind not in "fiub":
        raise DataError(
            f"features must be numbers, got an array of {dtype}. "
            "Encode categories and text as numbers first."
        )


def _two_dimensions(values: Any) -> Array:
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        matrix = np.asarray(values)
    except DataError:  # of features that have no values in memory
        raise
    except ValueError:
        raise DataError(
            "features must be a table: every row needs the same number of values."
        ) from None
    if matrix.ndim != 2:
        raise DataError(
            f"features must have two dimensions (rows, features), got {matrix.ndim}. "
            "For a single feature pass values.reshape(-1, 1)."
        )
    return _numbers_of_objects(matrix) if matrix.dtype == object else matrix


def _numbers_of_objects(matrix: Array) -> Array:
    """Python numbers as float64 and None as NaN; anything else raises an error with its position."""
    numbers_ = np.empty(matrix.shape, np.float64)
    for row, feature in np.ndindex(*matrix.shape):
        value: Any = matrix[row, feature]
        if value is None or type(value).__name__ == "NAType":  # pandas' NA, by name
            numbers_[row, feature] = np.nan
        elif isinstance(value, numbers.Number) and not isinstance(value, complex):
            numbers_[row, feature] = _as_float(value)
        else:
            raise DataError(
                f"{value_in_array(row, feature)} is {value!r}, which is not a number. "
                "Encode categories and text as numbers first."
            )
    return numbers_


def _as_float(value: Any) -> float:
    """``value`` as a float; a whole number beyond float64 becomes the largest float64."""
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max


def _reach_past_exact(narrow: Features) -> bool:
    """Whether any value is infinite or beyond the whole numbers that float32 represents exactly."""
    if narrow.size == 0:
        return False
    low, high = narrow.min(), narrow.max()
    if np.isnan(low):  # slower, but ignores missing values
        low, high = np.fmin.reduce(narrow, axis=None), np.fmax.reduce(narrow, axis=None)
    return bool(max(-low, high) >= _EXACT_IN_FLOAT32)


def _distinct_before_and_after(values: Array) -> tuple[int, int]:
    """The number of distinct values before and after conversion to float32.

    Differences of fractions below one, or far below float32's relative step of 2^-24, are ignored as rounding noise.
    Whole numbers have none.
    """
    if values.dtype.kind in "iu":
        return np.unique(values).size, np.unique(values.astype(np.float32)).size
    values = values[np.isfinite(values)]
    if values.size == 0:
        return 0, 0
    unit = max(1.0, float(np.abs(values).max()) * 2.0**-40)
    distinct = np.unique(np.rint(values / unit)) * unit
    return distinct.size, np.unique(distinct.astype(np.float32)).size


def _not_negative(name: str, array: Floats) -> Floats:
    if array.size and array.min() < 0:
        row = int(np.argmin(array >= 0))
        raise DataError(f"{name}[{row}] is {float(array[row]):g}; {name} must not be negative.")
    return array


def _identifier(name: str, row: int, value: Any) -> int | str:
    """``value`` as a Python string or int, or an error that names its row."""
    if isinstance(value, str):
        return str(value)
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if is_whole:
        return int(value)
    is_nan = isinstance(value, float) and math.isnan(value)
    if value is None or is_nan or type(value).__name__ in _MISSING_KINDS:
        raise DataError(f"{name}[{row}] is missing. Every row needs an identifier.")
    raise DataError(f"{name}[{row}] is {value!r}; identifiers are whole numbers or text.")


def _refuse_fractions(name: str, array: Array) -> None:
    missing = np.isnan(array)
    if (row := first_true(missing)) is not None:
        raise DataError(f"{name}[{row}] is missing. Every row needs an identifier.")
    is_whole = np.isfinite(array) & (np.floor(array) == array)
    exact = is_whole & (np.abs(array) < 2.0**53)
    if not exact.all():
        row = int(np.argmin(exact))
        if is_whole[row]:
            raise DataError(
                f"{name}[{row}] is the float {float(array[row]):.0f}: from 2^53 on floats cannot tell neighbouring "
                "whole numbers apart. Read the column as whole numbers or text."
            )
        raise DataError(
            f"{name}[{row}] is {float(array[row])}; identifiers are whole numbers or text."
        )
