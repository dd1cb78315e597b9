"""User input becomes clean arrays, or one precise error."""

from __future__ import annotations

import decimal
import warnings

import numpy as np
import pytest

from rankwood._core import checks
from rankwood.errors import DataError, DataWarning, ParameterError, UnknownName


@pytest.mark.parametrize("value", [3, np.int32(3), np.uint8(3)])
def test_whole_numbers_of_any_type(value):
    assert checks.whole_number("k", value, 1) == 3
    assert type(checks.whole_number("k", value, 1)) is int


@pytest.mark.parametrize("value", [0, 2.0, "3", True, None, np.nan])
def test_what_is_no_whole_number(value):
    with pytest.raises(ParameterError, match="k must be a whole number of at least 1, got"):
        checks.whole_number("k", value, 1)


def test_a_whole_number_beyond_the_most():
    with pytest.raises(ParameterError, match="k must be a whole number between 1 and 5, got 6"):
        checks.whole_number("k", 6, 1, 5)


def test_intervals_include_and_exclude_their_ends():
    assert checks.real_number("rate", 1, "(0, 1]") == 1.0
    assert checks.real_number("rate", 0, "[0, inf)") == 0.0
    for value in (0, 1.5, np.nan, "1", True):
        with pytest.raises(ParameterError, match=r"rate must be in \(0, 1\], got"):
            checks.real_number("rate", value, "(0, 1]")


def test_an_unknown_name_gets_a_suggestion():
    assert checks.one_of("gain", "linear", ["linear", "exponential"]) == "linear"
    with pytest.raises(UnknownName, match=r"gain 'liner' is not known. Did you mean 'linear'?"):
        checks.one_of("gain", "liner", ["linear", "exponential"])


def test_float32_rows_are_taken_without_a_copy():
    matrix = np.ones((3, 2), np.float32)
    assert checks.feature_matrix(matrix) is matrix


@pytest.mark.parametrize(
    "dtype", ["f2", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">f8", "longdouble"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_dtype_of_number_becomes_float32(dtype, order):
    matrix = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype, order=order)
    result = checks.feature_matrix(matrix)
    assert result.dtype == np.float32
    assert result.flags.c_contiguous
    assert result.tolist() == [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]


def test_many_blocks_equal_one_conversion(rng):
    matrix = rng.normal(size=(3000, 200)) * 1e6  # 600,000 values: three blocks
    matrix[17, 3], matrix[18, 3], matrix[19, 3] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(checks.feature_matrix(matrix), matrix.astype(np.float32))


def test_python_numbers_and_none():
    result = checks.feature_matrix([[1, None], [decimal.Decimal("0.5"), True]])
    np.testing.assert_array_equal(result, [[1, np.nan], [0.5, 1]])


def test_masked_values_are_missing():
    masked = np.ma.masked_array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])
    np.testing.assert_array_equal(checks.feature_matrix(masked), [[1, np.nan], [3, 4]])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([1.0, 2.0], r"two dimensions \(rows, features\), got 1. .*reshape\(-1, 1\)"),
        (np.zeros((2, 2, 2)), "two dimensions .* got 3"),
        ([[1, 2], [3]], "every row needs the same number of values"),
        ([["a"]], "must be numbers, got an array of <U1. Encode categories and text"),
        (np.zeros((1, 1), complex), "must be numbers, got an array of complex128"),
        (np.zeros((1, 1), "M8[s]"), "must be numbers, got an array of datetime64"),
        ([[1, None], [2, "x"]], r"features\[1, 1\] is 'x', which is not a number"),
        ([[1, None], [2, 1j]], r"features\[1, 1\] is 1j, which is not a number"),
    ],
)
def test_what_cannot_be_features(features, message):
    with pytest.raises(DataError, match=message):
        checks.feature_matrix(features)


def test_what_float32_cannot_hold_is_refused_with_its_place():
    matrix = np.zeros((3000, 200))
    matrix[2900, 7] = -1e39
    with pytest.raises(DataError, match=r"features\[2900, 7\] is -1e\+39, beyond float32's range"):
        checks.feature_matrix(matrix)


def test_the_largest_float32_and_infinity_fit():
    largest = float(np.finfo(np.float32).max)
    result = checks.feature_matrix([[largest, -largest, np.inf, np.nan]])
    np.testing.assert_array_equal(result, [[largest, -largest, np.inf, np.nan]])


@pytest.mark.parametrize(
    ("column", "before", "after"),
    [
        # float32 steps by 128 between 2^30 and 2^31: seconds …000 to …999 round to 9 multiples.
        (np.arange(1_700_000_000, 1_700_001_000), "1,000", "9"),
        (np.arange(1_700_000_000, 1_700_001_000).astype(np.float64), "1,000", "9"),
        # and by 1 up to 2^24, by 2 beyond it: 2^24 + 1 is a tie that goes to 2^24.
        (np.array([2**24, 2**24 + 1], np.uint32), "2", "1"),
        (np.array([2**63 + 2**30, 2**63], np.uint64), "2", "1"),
    ],
    ids=["seconds", "float seconds", "past 2^24", "unsigned"],
)
def test_identifiers_and_timestamps_give_a_warning(column, before, after):
    matrix = np.column_stack([np.zeros(column.size, column.dtype), column])
    message = rf"features\[:, 1\] looks like .*: {before} distinct values become {after} in float32"
    with pytest.warns(DataWarning, match=message):
        checks.feature_matrix(matrix)


@pytest.mark.parametrize(
    "column",
    [
        np.linspace(-1, 1, 3000) ** 3,  # float64 noise
        np.linspace(0, 1e12, 3000),  # large but spread
        1e9 + np.arange(3000) * 1e-7,  # rounding noise on a large constant
        1e20 * (1 + np.arange(3000) * 1e-16),
        np.arange(2**24 - 2999, 2**24 + 1),
        np.array([np.inf, -np.inf, np.nan, 1.0]),
        2.0 ** np.arange(100),
        np.full(10, 1_700_000_001),
    ],
    ids=[
        "noise",
        "spread",
        "rounding",
        "big rounding",
        "up to 2^24",
        "infinite",
        "powers",
        "constant",
    ],
)
def test_ordinary_numbers_give_no_warning(column):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checks.feature_matrix(column.reshape(-1, 1))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0.0]], r"labels must have one dimension, got 2. Try labels.ravel\(\)"),
        ([0.0, 1.0], "labels has 2 values, but there are 1 rows"),
        ([np.nan], r"labels\[0\] is nan; labels must be finite"),
        ([-1], r"labels\[0\] is -1; labels must not be negative"),
        (["high"], "labels must be numbers"),
        ([None], "labels must be numbers"),
        ([[1], [2, 3]], "labels must be numbers"),
    ],
)
def test_what_cannot_be_labels(values, message):
    with pytest.raises(DataError, match=message):
        checks.labels(values, 1)


def test_weights():
    assert checks.weights("w", [0, 2], 2).tolist() == [0.0, 2.0]
    assert checks.weights("w", [0, 0], 2, may_be_all_zero=True).tolist() == [0.0, 0.0]
    with pytest.raises(DataError, match="w are all zero; at least one must be positive"):
        checks.weights("w", [0, 0], 2)
    with pytest.raises(DataError, match=r"w\[1\] is -0.5; w must not be negative"):
        checks.weights("w", [1, -0.5], 2)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([3, 1], [3, 1]),
        ([3.0, 1.0], [3, 1]),
        (["007", "7"], ["007", "7"]),
        (np.array(["a", "bb"]), ["a", "bb"]),
        (np.array([1, "1"], object), [1, "1"]),
        (np.array([np.int64(5), 2**70], object), [5, 2**70]),
    ],
)
def test_identifiers_are_kept_as_given(given, kept):
    ids = checks.ids("query_ids", given, 2).tolist()
    assert ids == kept
    assert [type(value) for value in ids] == [type(value) for value in kept]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 2], "query_ids has 2 values, but there are 1 rows"),
        ([[1]], "query_ids must have one dimension, got 2"),
        ([1.5], r"query_ids\[0\] is 1.5; identifiers are whole numbers or text"),
        ([2.0**60], "the float 1152921504606846976: from 2.53 on floats cannot tell"),
        ([np.nan], r"query_ids\[0\] is missing. Every row needs an identifier"),
        ([None], r"query_ids\[0\] is missing"),
        ([True], "query_ids holds bool; identifiers are whole numbers or text"),
        (np.zeros(1, "M8[s]"), "query_ids holds datetime64"),
        ([b"a"], "identifiers are whole numbers or text"),
    ],
)
def test_what_cannot_be_identifiers(values, message):
    with pytest.raises(DataError, match=message):
        checks.ids("query_ids", values, 1)


def test_a_read_only_view_leaves_the_array_writable():
    array = np.zeros(2)
    view = checks.read_only(array)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    array[0] = 1
    assert view[0] == 1


def test_messages_show_numpys_numbers_as_pythons():
    with pytest.raises(ParameterError, match=r"at least 3, got 2\.$"):
        checks.whole_number("n_folds", np.int64(2), 3)
    with pytest.raises(ParameterError, match=r"\(0, 1\], got 2\.0\.$"):
        checks.real_number("rate", np.float32(2), "(0, 1]")


@pytest.mark.parametrize(("value", "shown"), [(10**400, "1.79769e"), (-(10**400), "-1.79769e")])
def test_a_whole_number_beyond_all_floats_is_refused(value, shown):
    with pytest.raises(DataError, match=rf"features\[1, 0\] is {shown}.*beyond float32's range"):
        checks.feature_matrix([[1], [value]])


def test_ids_of_different_lengths_are_refused():
    with pytest.raises(DataError, match="query_ids must be one id per row"):
        checks.ids("query_ids", [[1], [1, 2]], 2)


def test_a_masked_label_is_missing():
    with pytest.raises(DataError, match=r"labels\[1\] is nan"):
        checks.labels(np.ma.masked_array([1.0, 2.0], mask=[False, True]), 2)
