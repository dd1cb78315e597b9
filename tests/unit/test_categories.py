"""Columns of categories as codes: by frequency, from every kind of table, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rankwood as rw
from rankwood.errors import DataError, ParameterError, UnknownName

TEXTS = ["b", "a", "b", None, "c", "a", "b", ""]
CODES = [0, 1, 0, np.nan, 2, 1, 0, np.nan]
LABELS = np.arange(8.0)


def codes(data):
    return data.features[:, data.names.index("x")]


TABLES = {
    "pandas text": lambda: pd.DataFrame({"x": TEXTS, "y": LABELS}),
    "pandas category": lambda: pd.DataFrame({"x": pd.Categorical(TEXTS), "y": LABELS}),
    "polars text": lambda: pl.DataFrame({"x": TEXTS, "y": LABELS}),
    "polars category": lambda: pl.DataFrame(
        {"x": pl.Series(TEXTS, dtype=pl.Categorical), "y": LABELS}
    ),
    "arrow": lambda: pa.table({"x": pa.array(TEXTS), "y": LABELS}),
    "arrow dictionary": lambda: pa.table({"x": pa.array(TEXTS).dictionary_encode(), "y": LABELS}),
    "arrow chunks": lambda: pa.table(
        {
            "x": pa.chunked_array([TEXTS[:3], TEXTS[3:]]).dictionary_encode(),
            "y": pa.chunked_array([LABELS[:5], LABELS[5:]]),
        }
    ),
}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_categories_get_codes_by_frequency(name):
    data = rw.RankingData(TABLES[name](), LABELS, categorical=["x"])
    assert data.categorical == (("b", "a", "c"), None)
    np.testing.assert_array_equal(codes(data), CODES)


def test_categories_of_numbers_are_named_by_them():
    table = pd.DataFrame({"x": pd.Categorical([3, 1, 3, 3])})
    data = rw.RankingData(table, np.zeros(4), categorical=["x"])
    assert data.categorical == (("3", "1"),)


def test_254_categories_have_codes_and_all_others_share_one():
    texts = [f"{number:03d}" for number in range(300) for _ in range(2 if number < 260 else 1)]
    data = rw.RankingData(pd.DataFrame({"x": texts}), np.zeros(len(texts)), categorical=["x"])
    assert len(data.categorical[0]) == 254
    assert codes(data).max() == 254
    assert (codes(data) == 254).sum() == 2 * 6 + 40


def test_known_categories_are_used_and_others_are_the_rest():
    table = pd.DataFrame({"x": TEXTS})
    data = rw.RankingData(table, LABELS, categorical={"x": ["c", "a"]})
    np.testing.assert_array_equal(codes(data), [2, 1, 2, np.nan, 0, 1, 2, np.nan])


def test_rows_and_copies_keep_their_categories():
    import pickle

    data = rw.RankingData(
        pd.DataFrame({"x": TEXTS, "y": LABELS}), LABELS, [1] * 8, categorical=["x"]
    )
    for other in (data.take_rows([1, 2]), data.take_queries([0]), pickle.loads(pickle.dumps(data))):
        assert other.categorical == data.categorical
    assert pickle.loads(pickle.dumps(data)) == data


def test_codes_may_be_given_with_the_names_of_their_categories():
    matrix = np.array([[0.0], [2.0], [np.nan]], np.float32)
    data = rw.RankingData(matrix, np.zeros(3), categorical={0: ["a", "b"]})
    assert data.categorical == (("a", "b"),)
    with pytest.raises(DataError, match=r"row 1: the categorical feature '1' is 2, but its codes"):
        rw.RankingData(matrix, np.zeros(3), categorical={0: ["a"]})


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_files_are_read_with_their_categories(ending, tmp_path):
    table = pd.DataFrame({"qid": [1] * 8, "label": LABELS, "x": TEXTS, "y": LABELS})
    paths = [tmp_path / f"{number}.{ending}" for number in range(2)]
    for path, part in zip(paths, (table[:3], table[3:]), strict=True):
        if ending == "csv":
            part.to_csv(path, index=False)
        elif ending == "parquet":
            part.to_parquet(path)
        else:
            part.reset_index(drop=True).to_feather(path)
    data = rw.read_table([str(path) for path in paths], categorical=["x"])
    assert data.categorical == (("b", "a", "c"), None)
    np.testing.assert_array_equal(codes(data), CODES)
    again = rw.read_table([str(path) for path in paths], categorical={"x": ("a", "b", "c")})
    np.testing.assert_array_equal(codes(again)[:3], [1, 0, 1])
    framed = rw.from_frame(table, categorical=["x"])
    assert framed == data


def table():
    return pd.DataFrame({"x": TEXTS, "y": LABELS, "z": LABELS.astype(int), "label": 0.0})


@pytest.mark.parametrize(
    ("categorical", "error", "message"),
    [
        (["w"], UnknownName, "column 'w' is not known"),
        (["y"], DataError, "column 'y' is to be categorical, but holds double"),
        (["z"], DataError, "column 'z' is to be categorical, but holds int64"),
        ("x", ParameterError, r"put the one name in brackets: \['x'\]"),
        ([1], ParameterError, "each name is a text"),
        ({"x": ["a", "a"]}, DataError, "at most 254, all different"),
        ({"x": [f"{n}" for n in range(255)]}, DataError, "at most 254, all different, got 255"),
        ({"x": "abc"}, DataError, "a list of texts"),
        ({"x": ["a", ""]}, DataError, "texts that are not empty"),
    ],
)
def test_what_is_no_category_is_refused(categorical, error, message):
    columns = ["y", "z"] if categorical in (["y"], ["z"]) else ["x", "y", "z"]
    frame = table()[columns]
    with pytest.raises(error, match=message):
        rw.RankingData(frame, LABELS, categorical=categorical)


def test_column_that_is_no_feature_is_refused():
    with pytest.raises(UnknownName, match="categorical feature 'label' is not known"):
        rw.from_frame(table(), query=None, categorical=["label"], drop=["x"])


def test_text_is_refused_with_the_way_out():
    with pytest.raises(DataError, match=r"categorical=\['x'\]"):
        rw.from_frame(table(), query=None)


def test_names_for_features_without_a_table_are_refused():
    with pytest.raises(DataError, match="features without a table hold numbers"):
        rw.RankingData(np.zeros((8, 2)), LABELS, categorical=["x"])
    with pytest.raises(UnknownName, match="categorical: feature 'x' is not known"):
        rw.RankingData(np.zeros((8, 2)), LABELS, categorical={"x": ["a"]})


def test_formats_without_categories_are_refused(tmp_path):
    data = rw.RankingData(table()[["x", "y"]], LABELS, [1] * 8, categorical=["x"])
    with pytest.raises(DataError, match="'x' is categorical, which"):
        rw.write_letor(data, tmp_path / "t.txt")
    with pytest.raises(DataError, match="'x' is categorical, which a folder of codes"):
        rw.bin(data, cache=tmp_path / "codes")


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "tsv.gz"])
def test_tables_of_categories_are_read_back_as_they_were(tmp_path, ending):
    names = [['b, "quoted"', "NA", "7", " ä\t"], ["1", "2"]]
    codes = np.array(
        [[0, 1, 0.5], [1, 0, np.nan], [np.nan, 1, 2], [2, 1, 3], [3, np.nan, 4], [4, 1, 5]]
    )
    data = rw.RankingData(
        codes,
        [0, 1, 2, 0, 1, 2],
        [1, 1, 1, 2, 2, 2],
        feature_names=["brand", "shop", "price"],
        categorical={0: names[0], 1: names[1]},
    )
    path = tmp_path / f"t.{ending}"
    rw.write_table(data, path)
    again = rw.read_table(path, categorical=dict(zip(["brand", "shop"], names, strict=True)))
    assert again.categorical == data.categorical
    np.testing.assert_array_equal(again.features, data.features)
    np.testing.assert_array_equal(again.labels, data.labels)
    own = rw.read_table(
        path, categorical=["brand", "shop"]
    )  # by frequency; what has no name gets one
    assert own.categorical == (tuple(sorted([*names[0], "(other)"])), ("2", "1"), None)
    assert np.isnan(own.features[2, 0])


def test_the_name_of_all_other_categories_is_nobody_elses(tmp_path):
    data = rw.RankingData(
        np.array([[0.0], [1.0], [2.0]]), [0, 1, 0], categorical={0: ["(other)", "a"]}
    )
    rw.write_table(data, tmp_path / "t.parquet")
    table = pl.read_parquet(tmp_path / "t.parquet")
    assert table["1"].to_list() == ["(other)", "a", "((other))"]
