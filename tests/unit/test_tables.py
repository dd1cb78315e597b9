"""Tables in and out: frames and files, and everything that can be wrong with them."""

from __future__ import annotations

import gzip
import os
import stat
import subprocess
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from rankwood.data import table_files as files
from rankwood.data.dataset import RankingData
from rankwood.data.tables import MARKER, from_frame, read_table, write_table
from rankwood.errors import DataError, DataWarning, ParameterError, RunError, UnknownName

ENDINGS = [".parquet", ".arrow", ".feather", ".csv", ".tsv", ".csv.gz", ".csv.zst", ".tsv.bz2"]
TYPED = [".parquet", ".arrow", ".feather"]
KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "Arrow": pa.table}


def columns(**changes):
    parts = {
        "qid": ["q1", "q1", "q2"],
        "label": [0, 1, 2],
        "doc_id": ["a", "b", "c"],
        "tf": [0.5, 1.5, 2.5],
        "idf": [1, 2, 3],
    }
    merged = {**parts, **changes}
    return {name: values for name, values in merged.items() if values is not None}


def everything():
    features = np.array([[1.5, np.nan], [np.inf, -0.0], [-np.inf, 1e-45]], np.float32)
    return RankingData(
        features,
        labels=[0.25, 3, 1],
        query_ids=["007", "7", "007"],
        doc_ids=["x,y", 'say "hi"', "two\nlines"],
        row_weights=[1, 0.1, 2],
        query_weights=[1, 0.3],
        feature_names=["tf.idf", 'odd, "name"'],
    )


@pytest.fixture
def write(tmp_path):
    """A function that writes text, bytes or an Arrow table to a file and gives its path."""

    def writes(name, content):
        path = tmp_path / name
        if isinstance(content, str):
            path.write_text(content, newline="")
        elif isinstance(content, bytes):
            path.write_bytes(content)
        elif path.suffix == ".parquet":
            pq.write_table(content, path)
        else:
            pyarrow.feather.write_feather(content, path)
        return path

    return writes


# ---- frames -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_a_frame_with_the_usual_names(kind):
    data = from_frame(kind(columns(row_weight=[1, 1, 2], query_weight=[0.5, 0.5, 1])))
    assert data.features.tolist() == [[0.5, 1], [1.5, 2], [2.5, 3]]
    assert data.feature_names == ("tf", "idf")
    assert data.query_ids.tolist() == ["q1", "q1", "q2"]
    assert data.doc_ids.tolist() == ["a", "b", "c"]
    assert data.labels.tolist() == [0, 1, 2]
    assert data.row_weights.tolist() == [1, 1, 2]
    assert data.query_weights.tolist() == [0.5, 1]


def test_columns_can_be_named_chosen_and_dropped():
    frame = pd.DataFrame(
        {"grade": [1, 0], "query": [5, 6], "url": ["a", "b"], "x": [1, 2], "y": [3, 4]}
    )
    data = from_frame(frame, label="grade", query="query", doc="url", features=["y", "x"])
    assert data.feature_names == ("y", "x")
    assert data.features.tolist() == [[3, 1], [4, 2]]
    assert data.doc_ids.tolist() == ["a", "b"]
    data = from_frame(frame, label="grade", query="query", drop=["url", "x"])
    assert data.feature_names == ("y",)
    assert data.doc_ids is None


def test_a_usual_name_can_be_a_feature_or_be_dropped():
    frame = pd.DataFrame(columns(row_weight=[1, 2, 3]))
    assert from_frame(frame, features=["row_weight"]).row_weights is None
    data = from_frame(frame, drop=["row_weight", "doc_id"])
    assert data.row_weights is None
    assert data.doc_ids is None


def test_data_without_queries():
    for changes in ({"qid": None}, {"qid": [1, 1, 2], "query_weight": [1, 1, 2]}):
        data = from_frame(pl.DataFrame(columns(**changes)), query=None)
        assert data.query_ids is None
        assert data.query_weights is None
        assert data.feature_names == ("tf", "idf")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_a_frame_without_labels(kind, tmp_path):
    """As files are read: a day's requests have nobody's judgments."""
    for changes in ({}, {"label": None}):
        frame = kind(columns(**changes))
        data = from_frame(frame, label=None)
        assert data.labels.tolist() == [0, 0, 0]
        assert data.feature_names == ("tf", "idf")
        pq.write_table(pa.table(columns(**changes)), tmp_path / "t.parquet")
        assert data == read_table(tmp_path / "t.parquet", label=None)


def test_a_label_or_an_id_is_no_feature_by_accident():
    more = {"qid": [1, 1, 2], "doc_id": [1, 2, 3], "grade": [1, 2, 3], "url": ["a", "b", "c"]}
    frame = pl.DataFrame(columns(**more))
    data = from_frame(frame, label="grade", doc="url")
    assert data.feature_names == ("tf", "idf")
    assert data.labels.tolist() == [1, 2, 3]
    assert data.doc_ids.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("changes", "options", "error", "message"),
    [
        ({"url": ["x", "y", "z"]}, {}, DataError, r"'url' holds text.*drop=\['url'\], or doc="),
        ({"label": None}, {}, UnknownName, "the table: column 'label' is not known"),
        ({"qid": None, "qids": [1, 1, 2]}, {}, UnknownName, "column 'qid' .* Did you mean 'qids'?"),
        ({}, {"doc": "docs"}, UnknownName, "column 'docs' is not known. Did you mean 'doc_id'?"),
        ({}, {"drop": ["tfs"]}, UnknownName, "column 'tfs' is not known"),
        ({}, {"features": ["tff"]}, UnknownName, "column 'tff' is not known. Did you mean 'tf'?"),
        ({}, {"features": "tf"}, ParameterError, "features and drop are lists of column names"),
        ({}, {"drop": "tf"}, ParameterError, "features and drop are lists of column names"),
        ({}, {"features": ["tf", "tf"]}, ParameterError, "column 'tf' is given more than one part"),
        ({}, {"features": ["label"]}, ParameterError, "column 'label' is given more than one part"),
        ({}, {"drop": ["qid"]}, ParameterError, "column 'qid' is given more than one part"),
        ({}, {"drop": ["tf", "idf"]}, DataError, "no columns are left to be features"),
        ({}, {"query": None, "query_weight": "tf"}, ParameterError, "query_weight= needs query="),
        ({"label": [0, None, 1]}, {}, DataError, "row 1: column 'label' is empty. Labels and"),
        ({"label": [0, 1, -1]}, {}, DataError, "row 2: column 'label' is -1. Labels and"),
        ({"row_weight": [1, 1, -2]}, {}, DataError, "row 2: column 'row_weight' is -2"),
        ({"qid": ["a", None, "b"]}, {}, DataError, "row 1: column 'qid' is empty. Every row needs"),
        ({"qid": [1, 1, None]}, {}, DataError, "row 2: column 'qid' is empty"),
        ({"doc_id": ["a", "b", None]}, {}, DataError, "row 2: column 'doc_id' is empty"),
        ({"label": ["low", "high", "low"]}, {}, DataError, "column 'label' holds text"),
        ({"query_weight": [1, 3, 2]}, {}, DataError, "'query_weight' is 3, but 1 .* query 'q1'"),
        ({"qid": [[1], [1], [2]]}, {}, DataError, "column 'qid' holds .*list.* cannot identify"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_what_is_wrong_with_a_frame(kind, changes, options, error, message):
    with pytest.raises(error, match=message):
        from_frame(kind(columns(**changes)), **options)


def test_what_is_no_frame():
    with pytest.raises(DataError, match="expected a pandas, polars or Arrow table, got ndarray"):
        from_frame(np.zeros((2, 2)))


def test_categories_can_be_identifiers():
    frame = pd.DataFrame(columns()).astype({"qid": "category"})
    assert from_frame(frame).query_ids.tolist() == ["q1", "q1", "q2"]


# ---- round trips --------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_read(tmp_path, ending):
    data = everything()
    path = tmp_path / f"data{ending}"
    write_table(data, path)
    with pytest.warns(DataWarning, match="1 of 2 queries"):
        again = read_table(path)
    assert again == data
    assert np.signbit(again.features[1, 1])  # −0 stays −0
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
def test_data_with_nothing_but_features_labels_and_queries(tmp_path, ending):
    data = RankingData([[1, 2], [3, 4]], [0, 1], [5, 6])
    write_table(data, tmp_path / f"data{ending}")
    again = read_table(tmp_path / f"data{ending}")
    assert again == data
    assert again.feature_names is None
    assert again.doc_ids is None


@pytest.mark.parametrize("ending", ENDINGS)
def test_data_without_queries_are_read_without_queries(tmp_path, ending):
    data = RankingData([[1, 2], [3, 4]], [0, 1])
    path = tmp_path / f"data{ending}"
    write_table(data, path)
    assert read_table(path, query=None) == data
    if ending in TYPED:  # the file says that we wrote it
        assert read_table(path) == data


@pytest.mark.parametrize("ending", ENDINGS)
def test_many_batches_equal_one(tmp_path, ending, monkeypatch, rng):
    monkeypatch.setattr("rankwood.data.table_files._BLOCK_VALUES", 700)
    monkeypatch.setattr(files, "_PIECE_VALUES", 200)
    monkeypatch.setattr(files, "_PIECE_ROWS", 37)
    monkeypatch.setattr(files, "_CSV_BLOCK", 4096)
    data = RankingData(
        rng.normal(size=(3000, 5)),
        rng.integers(0, 5, 3000),
        np.arange(3000) // 10,
        [f"d{i}" for i in range(3000)],
    )
    write_table(data, tmp_path / f"data{ending}")
    assert read_table(tmp_path / f"data{ending}") == data


def test_csv_is_short_and_plain(tmp_path):
    write_table(
        RankingData([[0.1, 2], [np.nan, 1e10]], [1, 0.5], [1, 2], ["a", "b c"]), tmp_path / "d.csv"
    )
    assert (tmp_path / "d.csv").read_text() == (
        "qid,label,doc_id,1,2\n1,1,a,0.1,2\n2,0.5,b c,nan,1e+10\n"
    )


def test_shortest_digits_survive_readers_that_parse_float64_first(tmp_path):
    # The shortest text of 0x15ae43fd is 7.038531e-26. As float64 that lies halfway to 0x15ae43fe,
    # the even neighbour, so that rounding it again gives the neighbour.
    assert np.float32(np.float64("7.038531e-26")).view(np.uint32) == 0x15AE43FE
    awkward = np.array([0x15AE43FD, 0x15AE43FE], np.uint32).view(np.float32)
    data = RankingData(awkward.reshape(-1, 1), [0, 0], [1, 1])
    write_table(data, tmp_path / "d.csv")
    assert read_table(tmp_path / "d.csv") == data
    by_pandas = pd.read_csv(tmp_path / "d.csv")["1"].to_numpy().astype(np.float32)
    np.testing.assert_array_equal(by_pandas, awkward)


def test_text_that_looks_like_numbers_in_csv_and_parquet(tmp_path):
    data = RankingData([[1], [2]], [0, 1], ["7", "8"], ["01", "8"])
    write_table(data, tmp_path / "d.parquet")
    assert read_table(tmp_path / "d.parquet") == data
    write_table(data, tmp_path / "d.csv")
    again = read_table(tmp_path / "d.csv")
    assert again.query_ids.tolist() == [7, 8]  # all are whole numbers
    assert again.doc_ids.tolist() == ["01", "8"]  # not all are


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint64, np.int64])
def test_whole_number_ids_of_every_size(tmp_path, dtype):
    data = RankingData(
        [[1], [2]], [0, 1], np.array([np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    )
    for name in ("d.parquet", "d.csv"):
        write_table(data, tmp_path / name)
        assert read_table(tmp_path / name) == data


def test_ids_too_large_for_numbers_stay_text_in_csv(write):
    data = read_table(write("d.csv", "label,qid,a\n0,-1,1\n0,18446744073709551616,1\n"))
    assert data.query_ids.tolist() == ["-1", "18446744073709551616"]


def test_the_files_of_others_can_read_ours(tmp_path):
    data = everything()
    write_table(data, tmp_path / "d.parquet")
    assert MARKER in pq.read_schema(tmp_path / "d.parquet").metadata
    frame = pd.read_parquet(tmp_path / "d.parquet")
    assert list(frame) == [
        "qid", "label", "doc_id", "row_weight", "query_weight", "tf.idf", 'odd, "name"'
    ]  # fmt: skip
    assert frame["tf.idf"].dtype == np.float32
    assert from_frame(frame) == data
    assert from_frame(pl.read_parquet(tmp_path / "d.parquet")) == data


def test_pandas_index_columns_in_parquet_are_no_features(tmp_path):
    frame = pd.DataFrame(columns(), index=[3, 1, 2])
    frame.to_parquet(tmp_path / "d.parquet")
    assert read_table(tmp_path / "d.parquet").feature_names == ("tf", "idf")


@pytest.mark.parametrize(
    ("change", "path", "error", "message"),
    [
        ({"feature_names": ["label"]}, "d.csv", DataError, "a feature is named 'label'.*Rename it"),
        ({"feature_names": ["qid"]}, "d.parquet", DataError, "a feature is named 'qid'"),
        (
            {"query_ids": np.array([1, "a"], object)},
            "d.arrow",
            DataError,
            "query_ids mixes text and whole",
        ),
        (
            {"doc_ids": ["", "a"]},
            "d.csv",
            DataError,
            "an id in 'doc_id' is empty text.*Write Parquet",
        ),
        ({"doc_ids": ["\ud800", "a"]}, "d.csv", DataError, "not valid Unicode"),
        ({}, "d.xlsx", DataError, "d.xlsx: the ending of the name does not say .*Known: .parquet"),
        ({}, "d.parquet.gz", DataError, "the ending of the name does not say"),
        ({}, "nowhere/d.csv", DataError, "cannot be written: there is no folder"),
        ({}, ".", DataError, "the ending of the name does not say"),
        ({}, "folder.csv", DataError, "cannot be written: it is a folder"),
    ],
)
def test_what_cannot_be_written(tmp_path, change, path, error, message):
    (tmp_path / "folder.csv").mkdir()
    parts = {"features": [[1], [2]], "labels": [0, 1], "query_ids": [1, 2]}
    with pytest.raises(error, match=message):
        write_table(RankingData(**{**parts, **change}), tmp_path / path)
    assert [file.name for file in tmp_path.iterdir()] == ["folder.csv"]


def test_no_rows_cannot_be_written(tmp_path):
    with pytest.raises(DataError, match="there are no rows to write"):
        write_table(everything().take_rows([]), tmp_path / "d.csv")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "d.csv"
    path.write_text("old")

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rankwood.data.table_files._csv_text", fails)
    with pytest.raises(RunError, match=r"d.csv cannot be written: No space left on device"):
        write_table(everything(), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# ---- files of others ----------------------------------------------------------------------------


def test_csv_of_others(write):
    text = '\ufeff\r\n"label",qid,"a ""b""",c\r\n1,x,0.5,\r\n\r\n0,x,NA,1e-3\r\n2,"y, z",NULL, 7'
    data = read_table(write("d.csv", text))
    assert data.feature_names == ('a "b"', "c")
    assert data.query_ids.tolist() == ["x", "x", "y, z"]
    np.testing.assert_array_equal(
        data.features, np.array([[0.5, np.nan], [np.nan, 1e-3], [np.nan, 7]], np.float32)
    )


def test_words_for_missing_numbers_can_be_identifiers(write):
    data = read_table(write("d.csv", "label,qid,doc_id,a\n1,NA,nan,1\n1,NULL,None,2\n"))
    assert data.query_ids.tolist() == ["NA", "NULL"]
    assert data.doc_ids.tolist() == ["nan", "None"]


def test_a_symbolic_link_and_an_upper_case_ending(write, tmp_path):
    path = write("d.CSV", "label,qid,a\n1,1,1\n")
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    assert read_table(link) == read_table(path)
    write_table(everything(), link)
    assert link.is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_can_hold_csv(tmp_path):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=["label,qid,a\n1,1,1\n"])
    writer.start()
    data = read_table(path)
    writer.join()
    assert data.features.tolist() == [[1.0]]


def test_the_stream_form_of_arrow(tmp_path):
    table = pa.table(columns())
    with pa.ipc.new_stream(tmp_path / "d.arrow", table.schema) as stream:
        stream.write_table(table)
    assert read_table(tmp_path / "d.arrow") == from_frame(table)


def test_float64_columns_of_typed_files(write):
    table = pa.table(columns(tf=[0.1, None, 1e39]))
    for name in ("d.parquet", "d.feather"):
        with pytest.raises(
            DataError, match=rf"{name}: row 3, column 'tf', is 1e\+39, beyond float32"
        ):
            read_table(write(name, table))
        assert read_table(write(name, table), drop=["tf"]).feature_names == ("idf",)


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_timestamps_in_files_give_a_warning(tmp_path, ending):
    seconds = np.arange(1_700_000_000, 1_700_000_100)
    frame = pl.DataFrame({"label": seconds * 0, "qid": seconds * 0, "t": seconds})
    path = tmp_path / f"d.{ending}"
    writers = {
        "csv": pl.DataFrame.write_csv,
        "parquet": pl.DataFrame.write_parquet,
        "feather": pl.DataFrame.write_ipc,
    }
    writers[ending](frame, path)
    with pytest.warns(
        DataWarning, match="column 't' looks like an identifier or a timestamp: 100 distinct"
    ):
        read_table(path)


def test_separated_queries_are_grouped_with_a_warning_or_refused(write):
    path = write("d.csv", "label,qid,a\n0,1,1\n0,2,2\n1,1,3\n0,2,1\n0,3,3\n")
    with pytest.warns(DataWarning, match="2 of 3 queries .*; they are grouped"):
        assert read_table(path).row_order.tolist() == [0, 2, 1, 3, 4]
    with pytest.raises(DataError, match=r"d.csv: 2 of 3 queries .*Sort the rows by query"):
        read_table(path, strict=True)


def test_grouped_queries_give_no_warning(write):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(write("d.csv", "label,qid,a\n0,2,1\n0,2,2\n1,1,3\n"), strict=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "d.csv is empty"),
        ("\n\n", "d.csv: there is no header line"),
        ("label,qid,a\n", "d.csv: there are no rows"),
        ("label,qid,a\n\n\n", "d.csv: there are no rows"),
        ("label,qid,a,a\n1,1,1,1\n", "d.csv: two columns are named 'a'"),
        ("label,qid,a\n1,1,1\n1,1\n", "row 2: 2 values, but the header names 3 columns: '1,1'"),
        ("label,qid,a\n1,1,1\n\n1,1,1,1\n", "d.csv: row 2: 4 values, but the header names 3"),
        ("label,qid,a\n1,1,1\n1,1,abc\n", r"row 2, column 'a': 'abc' is not .*drop=\['a'\]"),
        ("label,qid,a,b\n1,1,x, +.25\n", r"row 1, column 'a': 'x' is not .*drop=\['a'\]"),
        ("label,qid,a,b\n1,1,x,1_000\n", r"2 columns cannot be .*drop=\['a', 'b'\]"),
        ("label,qid,a\nhigh,1,1\n", "d.csv: row 1, column 'label': 'high' is not a number"),
        ("label,qid,a\n1,1,1\n,1,1\n", "d.csv: row 2: column 'label' is empty"),
        ("label,qid,a\n1,1,1\n-1,1,1\n", "d.csv: row 2: column 'label' is -1"),
        ("label,qid,a\n1,1,1\ninf,1,1\n", "d.csv: row 2: column 'label' is inf"),
        ("label,qid,a\n1,1,1\n1,,1\n", "d.csv: row 2: column 'qid' is empty"),
        ("label,qid,doc_id,a\n1,1,d,1\n1,1,,1\n", "d.csv: row 2: column 'doc_id' is empty"),
        ("label,qid,a\n1,1,1e39\n", r"d.csv: row 1, column 'a', is 1e\+39, beyond float32's range"),
        ("label,qid\n1,1\n", "d.csv: no columns are left to be features"),
        ('label,qid,"a\n', "d.csv: the header line cannot be read"),
        ("label,qid,query_weight,a\n1,1,1,1\n1,1,2,1\n", "row 2: column 'query_weight' is 2"),
        (b"label,qid,\xff\n1,1,1\n", "d.csv: this csv file cannot be read"),
        (b"label,qid,a\n1,\xff\xfe,1\n", "d.csv: .*UTF8"),
        (b"\x00\x01\x02\x03", "column 'label' is not known"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_csv_file(write, text, message):
    with pytest.raises((DataError, UnknownName), match=message):
        read_table(write("d.csv", text))


def test_rows_are_numbered_across_blocks(write, monkeypatch):
    monkeypatch.setattr(files, "_CSV_BLOCK", 1024)
    text = "label,qid,a\n" + "1,1,0.5\n" * 2000
    with pytest.raises(DataError, match="row 2001, column 'a': 'x' is not a number"):
        read_table(write("d.csv", text + "1,1,x\n"))
    with pytest.raises(DataError, match="row 2001: 2 values"):
        read_table(write("d.csv", text + "1,1\n"))


def test_a_line_longer_than_a_block(write, monkeypatch):
    monkeypatch.setattr(files, "_CSV_BLOCK", 1024)
    with pytest.raises(DataError, match=r"d.csv: .*longer than 1,024 bytes"):
        read_table(write("d.csv", "label,qid,a\n1," + "1" * 5000 + ",1\n1,1,1\n"))
    with pytest.raises(DataError, match=r"d.csv: the header line is longer than 1,024 bytes"):
        read_table(write("d.csv", "label,qid," + "a" * 5000 + "\n1,1,1\n"))


def test_a_missing_column_is_named_with_a_suggestion_and_the_file(write):
    with pytest.raises(
        UnknownName, match=r"d.csv: column 'label' .* Did you mean 'Label'\? Known: Label, a, qid"
    ):
        read_table(write("d.csv", "Label,qid,a\n1,1,1\n"))
    with pytest.raises(UnknownName, match=r"d.parquet: column 'qid' is not known"):
        read_table(write("d.parquet", pa.table(columns(qid=None))))


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": ["x", "y", "z"]}, r"column 'url' holds text \(string\).*drop=\['url'\]"),
        ({"label": [0, None, 1]}, "row 2: column 'label' is empty"),
        ({"label": [0, -1.5, 1]}, "row 2: column 'label' is -1.5"),
        ({"qid": ["a", None, "b"]}, "row 2: column 'qid' is empty"),
        ({"qid": [1, None, 2]}, "row 2: column 'qid' is empty"),
        ({"qid": [1.5, 2.5, 2.5]}, r"qid\[0\] is 1.5; identifiers are whole numbers or text"),
        ({"query_weight": [1, 2, 3]}, "row 2: column 'query_weight' is 2, but 1 .*query 'q1'"),
    ],
)
def test_what_is_wrong_with_the_content_of_a_typed_file(write, ending, changes, message):
    with pytest.raises(DataError, match=rf"d.{ending}: {message}"):
        read_table(write(f"d.{ending}", pa.table(columns(**changes))))


@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow"])
def test_typed_files_that_are_not_what_they_say(write, ending):
    with pytest.raises(
        DataError, match=rf"d.{ending}: this {ending} file cannot be read, or is damaged"
    ):
        read_table(write(f"d.{ending}", b"label,qid,a\n1,1,1\n" * 100))
    with pytest.raises(DataError, match=rf"d.{ending} is empty"):
        read_table(write(f"d.{ending}", b""))
    empty = pa.table(columns()).slice(0, 0)
    with pytest.raises(DataError, match=rf"d.{ending}: there are no rows"):
        read_table(write(f"d.{ending}", empty))
    twins = pa.table([[1], [1], [1], [2]], names=["label", "qid", "a", "a"])
    if ending == "parquet":
        with pytest.raises(DataError, match=rf"d.{ending}: two columns are named 'a'"):
            read_table(write(f"d.{ending}", twins))


@pytest.mark.filterwarnings("ignore::rankwood.errors.DataWarning")
@pytest.mark.parametrize("ending", [".parquet", ".feather", ".csv.gz", ".csv.zst", ".csv.bz2"])
def test_files_cut_short_or_damaged_end_in_data_or_our_error(tmp_path, ending, rng):
    path = tmp_path / f"d{ending}"
    write_table(RankingData(rng.normal(size=(200, 3)), np.zeros(200), np.arange(200)), path)
    whole = path.read_bytes()
    for length in (1, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=rf"d{ending}: "):
            read_table(path)
    for place in rng.integers(0, len(whole), 40):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        try:
            assert read_table(path).n_features >= 1
        except (DataError, UnknownName) as error:
            assert path.name in str(error)  # noqa: PT017 - either outcome is right


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(DataError, match=r"none.csv does not exist"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(
        DataError, match=r"folder.csv has no data files: their names end in .parquet"
    ):
        read_table(tmp_path / "folder.csv")
    (tmp_path / "d.txt").write_text("label")
    with pytest.raises(DataError, match=r"d.txt: the ending of the name does not say .*tsv"):
        read_table(tmp_path / "d.txt")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(write):
    path = write("d.csv", "label,qid,a\n1,1,1\n")
    path.chmod(stat.S_IWUSR)
    with pytest.raises(DataError, match=r"d.csv: .*Permission denied"):
        read_table(path)


def test_a_compressed_file_may_have_several_parts(write):
    text = gzip.compress(b"label,qid,a\n1,1,1\n") + gzip.compress(b"0,1,2\n")
    assert read_table(write("d.csv.gz", text)).features.tolist() == [[1.0], [2.0]]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_table_written_to_a_named_pipe_leaves_the_pipe(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_table(RankingData([[1.0]], [0], [1]), pipe)
    reader.join(timeout=10)
    assert found == [b"qid,label,1\n1,0,1\n"]
    assert pipe.is_fifo()


@pytest.mark.slow  # another process: two seconds
def test_a_process_that_refused_a_large_csv_file_ends(tmp_path):
    """Threads of Arrow that read ahead in a file of Python's made one of four such processes hang, or abort, at its end."""
    path = tmp_path / "d.csv"
    path.write_bytes(b"qid,label,a\n1,2\n" + b"1,2,0.5123456789\n" * 1_500_000)
    code = "import sys, rankwood as rw\ntry: rw.read_table(sys.argv[1])\nexcept rw.errors.DataError: print('ours')"
    for _ in range(6):
        done = subprocess.run(
            [sys.executable, "-c", code, path], capture_output=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (0, b"ours\n"), done.stderr
