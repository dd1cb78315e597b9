"""Features from arrays, lists, frames and sparse matrices."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from rankwood.data import sources
from rankwood.data.dataset import RankingData
from rankwood.data.frames import to_matrix
from rankwood.errors import DataError, DataWarning

COLUMNS = {"price": [1.5, None, 3.0], "clicks": [1, 2, None], "is_new": [True, False, None]}
EXPECTED = np.array([[1.5, 1, 1], [np.nan, 2, 0], [3, np.nan, np.nan]], np.float32)


def nullable_pandas():
    kinds = {"price": "Float64", "clicks": "Int64", "is_new": "boolean"}
    return pd.DataFrame({name: pd.array(values, kinds[name]) for name, values in COLUMNS.items()})


def arrow_pandas():
    table = pa.table(COLUMNS)
    return table.to_pandas(types_mapper=pd.ArrowDtype)


FRAMES = {
    "pandas objects": lambda: pd.DataFrame(
        {k: pd.Series(v, dtype=object) for k, v in COLUMNS.items()}
    ),
    "pandas nullable": nullable_pandas,
    "pandas Arrow": arrow_pandas,
    "polars": lambda: pl.DataFrame(COLUMNS),
    "Arrow table": lambda: pa.table(COLUMNS),
    "Arrow batch": lambda: pa.record_batch(COLUMNS),
    "Arrow chunks": lambda: pa.concat_tables(
        [pa.table(COLUMNS).slice(0, 1), pa.table(COLUMNS).slice(1)]
    ),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())
def test_frames_give_the_same_matrix_with_missing_values(make):
    matrix, names = to_matrix(make())
    np.testing.assert_array_equal(matrix, EXPECTED)
    assert matrix.dtype == np.float32
    assert matrix.flags.c_contiguous
    assert names == ("price", "clicks", "is_new")


def test_anything_that_speaks_arrow_is_a_frame():
    class Lender:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table(COLUMNS).__arrow_c_stream__(requested_schema)

    matrix, names = to_matrix(Lender())
    np.testing.assert_array_equal(matrix, EXPECTED)
    assert names == tuple(COLUMNS)


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
)
def test_every_number_type_of_every_frame(dtype):
    values = np.array([0, 1, 1], dtype)
    for frame in (
        pd.DataFrame({"a": values}),
        pa.table({"a": values}),
        pl.DataFrame({"a": values}),
    ):
        assert to_matrix(frame)[0].tolist() == [[0.0], [1.0], [1.0]]


def test_decimals_and_columns_of_nothing():
    values = [decimal.Decimal("0.25"), None]
    for frame in (
        pd.DataFrame({"a": values, "b": [None, None]}),
        pl.DataFrame({"a": values, "b": [None, None]}),
        pa.table({"a": values, "b": [None, None]}),
    ):
        np.testing.assert_array_equal(to_matrix(frame)[0], [[0.25, np.nan], [np.nan, np.nan]])


def test_sparse_columns_of_pandas():
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 2.0, np.nan])})
    np.testing.assert_array_equal(to_matrix(frame)[0], [[0], [2], [np.nan]])


def test_many_blocks_equal_one_conversion(rng):
    values = rng.normal(size=(2500, 1100))  # 2.75 million values: three blocks
    expected = values.astype(np.float32)
    np.testing.assert_array_equal(to_matrix(pd.DataFrame(values))[0], expected)
    np.testing.assert_array_equal(to_matrix(pl.DataFrame(values))[0], expected)


def test_frames_with_rows_in_another_order_are_read_by_place():
    frame = pd.DataFrame({"a": [1, 2, 3]}, index=[7, 7, 0])
    assert to_matrix(frame.iloc[::-1])[0].ravel().tolist() == [3.0, 2.0, 1.0]
    assert RankingData(frame, pd.Series([0, 1, 2], index=[2, 1, 0])).labels.tolist() == [0, 1, 2]


def test_names_that_nobody_gave_are_no_names():
    assert to_matrix(pd.DataFrame([[1, 2]]))[1] is None
    assert to_matrix(pd.DataFrame({5: [1], "b": [2]}))[1] == ("5", "b")
    assert RankingData(pl.DataFrame({"tf": [1]}), [0]).feature_names == ("tf",)
    assert RankingData(pl.DataFrame({"tf": [1]}), [0], feature_names=["df"]).feature_names == (
        "df",
    )


def test_a_frame_without_rows():
    matrix, names = to_matrix(pl.DataFrame(schema={"a": pl.Float64, "b": pl.Int8}))
    assert matrix.shape == (0, 2)
    assert names == ("a", "b")
    with pytest.raises(DataError, match="column 'a' holds text"):
        to_matrix(pl.DataFrame(schema={"a": pl.String}))


DAY = datetime.datetime(2020, 1, 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["x", None, "y"], r"column 'bad' holds text \(.*string.*\). Encode it as numbers"),
        ([DAY] * 3, "column 'bad' holds dates or times .*such as an age in days"),
        ([DAY.date()] * 3, "column 'bad' holds dates or times .*such as an age in days"),
        ([datetime.timedelta(1)] * 3, "column 'bad' holds dates or times"),
        ([[1], [2], [3]], "column 'bad' holds lists or records .*a column of its own"),
        ([{"x": 1}] * 3, "column 'bad' holds lists or records"),
        ([b"x"] * 3, "column 'bad' holds bytes"),
    ],
    ids=["text", "datetime", "date", "duration", "list", "struct", "bytes"],
)
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_that_cannot_be_features(kind, values, message):
    with pytest.raises(DataError, match=message):
        to_matrix(kind({"good": [1, 2, 3], "bad": values}))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"bad": pd.Categorical(["x", "y"])}),
        pl.DataFrame({"bad": pl.Series(["x", "y"], dtype=pl.Categorical)}),
        pl.DataFrame({"bad": pl.Series(["x", "y"], dtype=pl.Enum(["x", "y"]))}),
        pa.table({"bad": pa.array(["x", "y"]).dictionary_encode()}),
        pd.DataFrame({"bad": pd.Categorical([1, 2])}),  # the codes of numbers mean nothing either
    ],
    ids=["pandas", "polars", "polars Enum", "Arrow", "categories of numbers"],
)
def test_categories_are_refused_with_what_to_do(frame):
    with pytest.raises(DataError, match=r"column 'bad' holds categories. Name it in categorical="):
        to_matrix(frame)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"a": [1, "x"]}), r"column 'a' holds Python objects .*\(int, str\)"),
        (pd.DataFrame({"a": [1 + 2j]}), "column 'a' holds Python objects .*complex"),
        (
            pd.DataFrame({"a": pd.period_range("2020", periods=1)}),
            "column 'a' holds values of the type",
        ),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are named 'a'"),
        (pa.table([[1], [2]], names=["a", "a"]), "two columns are named 'a'"),
        (pl.LazyFrame({"a": [1]}), r"LazyFrame holds no rows yet; pass frame.collect\(\)"),
        (pd.DataFrame(), "features has no columns"),
        (pd.Series([1.0, 2.0]), "two dimensions"),
        (pl.Series([1.0, 2.0]), "two dimensions"),
        (pa.array([1.0, 2.0]), "two dimensions"),
        ({"a": [1]}, "two dimensions"),
        (None, "two dimensions"),
    ],
)
def test_what_is_refused(frame, message):
    with pytest.raises(DataError, match=message):
        to_matrix(frame)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_what_float32_cannot_hold_is_refused_with_column_row_and_value(kind):
    frame = kind({"fine": [0.0, 1.0, np.inf], "price": [0.0, 1.0, 1e300]})
    with pytest.raises(
        DataError, match=r"column 'price', row 2, is 1e\+300, beyond float32's range"
    ):
        to_matrix(frame)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_identifiers_and_timestamps_give_a_warning_with_the_columns_name(kind, dtype):
    # float32 steps by 128 between 2^30 and 2^31, so seconds …000 to …999 round to 9 multiples.
    seconds = np.arange(1_700_000_000, 1_700_001_000).astype(dtype)
    message = (
        "column 'seen_at' looks like an identifier or a timestamp: 1,000 distinct values become 9 "
    )
    with pytest.warns(DataWarning, match=message):
        matrix, _ = to_matrix(kind({"rank": np.arange(1000), "seen_at": seconds}))
    np.testing.assert_array_equal(matrix[:, 1], seconds.astype(np.float32))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("container", ["array", "matrix"])
def test_sparse_matrices_of_every_form(form, container):
    dense = np.array([[0, 1.5, 0], [2, 0, np.nan]])
    sparse = getattr(scipy.sparse, f"{form}_{container}")(dense)
    matrix, names = to_matrix(sparse)
    np.testing.assert_array_equal(matrix, dense.astype(np.float32))
    assert matrix.flags.c_contiguous
    assert names is None


def test_sparse_blocks_and_places(rng):
    sparse = scipy.sparse.random_array((3000, 500), density=0.01, rng=rng, format="coo")
    np.testing.assert_array_equal(to_matrix(sparse)[0], sparse.toarray().astype(np.float32))
    sparse = sparse.tolil()
    sparse[2999, 499] = 1e39
    with pytest.raises(DataError, match=r"features\[2999, 499\] is 1e\+39"):
        to_matrix(sparse)


def test_a_sparse_matrix_that_memory_cannot_hold_is_refused():
    huge = scipy.sparse.coo_array(([1.0], ([0], [0])), shape=(2**30, 2**20))
    with pytest.raises(DataError, match=r"1,073,741,824 rows × 1,048,576 features need .* GiB"):
        to_matrix(huge)


def test_sparse_matrices_of_other_things_are_refused():
    with pytest.raises(DataError, match="must be numbers, got an array of complex128"):
        to_matrix(scipy.sparse.csr_array([[1j]]))
    with pytest.raises(DataError, match="two dimensions"):
        to_matrix(scipy.sparse.coo_array([1.0, 2.0]))


def test_objects_with_the_array_protocol():
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return np.array([[1.0, 2.0]])

    assert to_matrix(Tensor())[0].tolist() == [[1.0, 2.0]]


def test_a_subclass_of_a_frame_is_a_frame():
    class Mine(pd.DataFrame):
        pass

    assert to_matrix(Mine({"a": [1]}))[1] == ("a",)


def test_memory_is_the_machines_or_the_containers(monkeypatch, tmp_path):
    assert 1 << 20 < sources.memory_of_machine() <= sources.UNKNOWN_MEMORY
    (tmp_path / "memory.max").write_text("12345\n")
    monkeypatch.setattr(sources, "_CONTAINER_LIMIT", tmp_path / "memory.max")
    assert sources.memory_of_machine() == 12345
    (tmp_path / "memory.max").write_text("max\n")
    monkeypatch.delattr(sources.os, "sysconf")
    assert sources.memory_of_machine() == sources.UNKNOWN_MEMORY


def test_arrays_import_no_frame_library():
    code = (
        "import sys; from rankwood.data.dataset import RankingData; "
        "RankingData([[1.0]], [1], ['q']); "
        "print(*{'pandas', 'polars', 'scipy', 'pyarrow'} & set(sys.modules))"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert outcome.stdout.strip() == ""


def damaged_csr(name, place, value):
    matrix = scipy.sparse.csr_matrix(np.eye(4))
    getattr(matrix, name)[place] = value
    return matrix


def damaged_coo(place, value):
    matrix = scipy.sparse.coo_matrix(np.eye(4))
    matrix.coords[place][0] = value
    return matrix


@pytest.mark.parametrize(
    "matrix",
    [
        damaged_csr("indices", 1, 10**6),
        damaged_csr("indices", 1, -5),
        damaged_csr("indptr", 1, 10**8),
        damaged_csr("indptr", 2, -7),
        damaged_coo(0, 10**6),
        damaged_coo(1, -3),
    ],
)
def test_a_malformed_sparse_matrix_is_refused_before_scipy_follows_it(matrix):
    with pytest.raises(DataError, match="features are a malformed sparse matrix"):
        RankingData(matrix, np.zeros(4))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_sparse_matrices_of_every_kind(kind):
    dense = np.diag([1.0, 2.0, 3.0, 0.0]).astype(np.float32)
    data = RankingData(scipy.sparse.csr_matrix(dense).asformat(kind), np.zeros(4))
    assert np.array_equal(data.features, dense)
