"""Data as they lie around: many files, folders, partitioned data sets, other file systems, ids of any size."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankwood as rw
from rankwood.data import sources
from rankwood.data.parts import read_parts
from rankwood.data.reading import ModelFeatures, ReadOptions, read_data
from rankwood.errors import DataError, DataWarning, ParameterError, UnknownName


@pytest.fixture
def data():
    return rw.make_ranking(n_queries=12, docs_per_query=6, n_features=4, seed=1)


def cut(data, *edges):
    """The rows between the edges; a query may go on in the next part."""
    return [
        data.take_rows(np.arange(*pair))
        for pair in zip((0, *edges), (*edges, len(data)), strict=True)
    ]


def write_files(folder, data, *edges, ending="parquet"):
    folder.mkdir(exist_ok=True)
    write = rw.write_letor if ending.startswith("txt") else rw.write_table
    paths = [folder / f"part-{number}.{ending}" for number in range(len(edges) + 1)]
    for path, part in zip(paths, cut(data, *edges), strict=True):
        write(part, path)
    return paths


READERS = {"parquet": rw.read_table, "csv.gz": rw.read_table, "txt.gz": rw.read_letor}


@pytest.mark.parametrize("ending", READERS)
def test_files_are_read_as_one(tmp_path, data, ending):
    read = READERS[ending]
    paths = write_files(tmp_path / "parts", data, 9, 30, ending=ending)
    whole = read(write_files(tmp_path / "whole", data, ending=ending))
    for given in (
        paths,
        tmp_path / "parts",
        tmp_path / "parts" / f"*.{ending}",
        [str(p) for p in paths],
    ):
        assert read(given) == whole
    options = ReadOptions(n_features=4)
    parts = list(read_parts(tmp_path / "parts", options, n_rows=10))
    assert sum(part.n_queries for part in parts) == whole.n_queries
    np.testing.assert_array_equal(np.concatenate([p.features for p in parts]), whole.features)
    np.testing.assert_array_equal(np.concatenate([p.query_ids for p in parts]), whole.query_ids)


def test_text_files_are_as_wide_as_the_widest(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:2\n")
    (tmp_path / "b.txt").write_text("1 qid:1 3:5 # docid = d\n0 qid:x 1:1\n")
    found = rw.read_letor([tmp_path / "a.txt", tmp_path / "b.txt"], absent="missing")
    np.testing.assert_array_equal(
        found.features, [[2, np.nan, np.nan], [np.nan, np.nan, 5], [1, np.nan, np.nan]]
    )
    assert found.query_ids.tolist() == ["1", "1", "x"]  # text in one file, so text in all
    assert found.doc_ids.tolist() == ["", "d", ""]


def test_weights_of_rows_and_queries_stay(tmp_path, data):
    weights = np.arange(1.0, data.n_queries + 1)
    weighed = rw.RankingData(
        data.features,
        data.labels,
        data.query_ids,
        None,
        np.arange(1.0, len(data) + 1),
        weights,
        data.names,
    )
    paths = write_files(tmp_path, weighed, 8, 40)
    assert rw.read_table(paths) == weighed
    frame = pd.read_parquet(paths[1]).assign(query_weight=7.0)
    frame.to_parquet(paths[1], index=False)
    with pytest.raises(DataError, match=r"query \d+ has different weights in different files"):
        rw.read_table(paths)


def test_positions_of_a_log_stay(tmp_path, data):
    shown = np.concatenate([np.arange(1, size + 1) for size in np.diff(data.query_offsets)])
    log = rw.RankingData(
        data.features, data.labels, data.query_ids, feature_names=data.names, positions=shown
    )
    paths = write_files(tmp_path, log, 9, 30)
    assert rw.read_table(paths) == log
    assert rw.read_table(paths).positions.tolist() == shown.tolist()


def test_a_query_of_two_files_is_told(tmp_path, data):
    a, b = (tmp_path / name for name in ("a.txt", "b.txt"))
    rw.write_letor(data, a)
    rw.write_letor(data.take_queries([3, 4]), b)
    with pytest.warns(
        DataWarning, match=r"b.txt: query 4 was in an earlier file already; 2 queries"
    ):
        assert rw.read_letor([a, b]).n_queries == data.n_queries
    with pytest.raises(DataError, match=r"b.txt: query 4 was in an earlier file"):
        rw.read_letor([a, b], strict=True)
    tables = (
        write_files(tmp_path / "tables", data),
        write_files(tmp_path / "more", data.take_queries([0])),
    )
    with pytest.warns(
        DataWarning, match=r"parquet and 1 more: 1 of 12 queries have their rows separated"
    ):
        rw.read_table([*tables[0], *tables[1]])


def test_keys_of_a_partitioned_data_set(tmp_path, data):
    table = pa.table(
        {
            "qid": data.query_ids,
            "label": data.labels,
            "x": data.features[:, 0],
            "day": data.labels * 0,
        }
    )
    pq.write_to_dataset(
        table.set_column(3, "day", pa.array(np.sort(data.query_ids))), tmp_path / "d", ["day"]
    )
    assert rw.read_table(tmp_path / "d").feature_names == ("x",)
    by_day = rw.read_table(tmp_path / "d", query="day", drop=["qid"])
    assert by_day.n_queries == data.n_queries
    assert by_day.query_ids.dtype == object  # the name of a folder is text
    as_feature = rw.read_table(tmp_path / "d" / "day=*" / "*.parquet", features=["day", "x"])
    np.testing.assert_array_equal(as_feature.features[:, 0], as_feature.query_ids)
    parts = list(read_parts(tmp_path / "d", ReadOptions(features=("day", "x")), n_rows=9))
    assert sum(map(len, parts)) == len(data)


def test_what_does_not_go_together(tmp_path, data):
    a, b = write_files(tmp_path, data, 20)
    frame = pd.read_parquet(b)
    frame.rename(columns={"bm25_body": "other"}).to_parquet(b, index=False)
    with pytest.raises(
        DataError,
        match=r"part-1.parquet: its columns are not those of .*it lacks 'bm25_body'.*features=",
    ):
        rw.read_table([a, b])
    frame.astype({"qid": str}).to_parquet(b, index=False)
    with pytest.raises(
        DataError, match=r"part-0.parquet: the query ids are whole numbers, but text in .*part-1"
    ):
        rw.read_table([a, b])
    with pytest.raises(DataError, match=r"part-0.parquet is given twice"):
        rw.read_table([a, a])
    rw.write_letor(data, tmp_path / "c.txt")
    with pytest.raises(DataError, match=r"is a table and .*c.txt is LETOR text"):
        read_data([a, tmp_path / "c.txt"])
    with pytest.raises(DataError, match=r"no file matches the pattern .*nothing-\*"):
        rw.read_table(tmp_path / "nothing-*.parquet")
    with pytest.raises(ParameterError, match="paths is an empty list"):
        rw.read_letor([])
    with pytest.raises(
        DataError, match="standard input is not a regular file: it cannot be one of several"
    ):
        rw.read_letor(["-", tmp_path / "c.txt"])


# Other file systems.


def test_a_uri_is_read_by_a_file_system(tmp_path, data):
    paths = write_files(tmp_path / "d", data, 30)
    uri = (tmp_path / "d").as_uri()
    whole = rw.read_table(paths)
    for given in (
        uri,
        f"{uri}/part-*.parquet",
        f"{uri}/**/*.parquet",
        [path.as_uri() for path in paths],
    ):
        assert rw.read_table(given) == whole
    for ending in ("txt.gz", "csv", "arrow"):
        (path,) = write_files(tmp_path / ending[:3], data, ending=ending)
        assert read_data(path.as_uri()) == read_data(path)
    assert rw.open_binned(rw.bin_files(uri, tmp_path / "binned").folder).n_rows == len(data)
    with pytest.raises(DataError, match=r"file:.*nothing.parquet does not exist"):
        rw.read_table(f"{uri}/nothing.parquet")
    with pytest.raises(DataError, match=r"no file matches the pattern file:.*x-\*"):
        rw.read_table(f"{uri}/x-*.parquet")


def test_a_bucket_is_read_like_a_folder(tmp_path, data, monkeypatch):
    """What pyarrow makes of a URI of a bucket, with a folder of this machine in the place of the service."""
    from pyarrow import fs

    write_files(tmp_path / "bucket" / "day=1", data, 30) if (
        tmp_path / "bucket"
    ).mkdir() is None else None
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr(
        sources, "_file_system", lambda uri, _: (store, uri.partition("://")[2].partition("?")[0])
    )
    found = rw.read_table("s3://key:secret@bucket?region=x".replace("key:secret@", ""))
    assert len(found) == len(data)
    inputs = sources.find_inputs("s3://bucket")
    assert [str(file.path) for file in inputs] == [
        f"s3://bucket/day=1/part-{n}.parquet" for n in (0, 1)
    ]
    assert inputs[0].keys == (("day", "1"),)


def test_secrets_of_a_uri_are_not_shown():
    with pytest.raises(DataError, match=r"^nosuch://bucket/a.parquet: no file system") as caught:
        rw.read_table("nosuch://user:secret@bucket/a.parquet?token=hidden")
    assert "secret" not in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_file_systems_of_fsspec(data):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    with memory.open("/data/a.csv", "w") as file:
        file.write("qid,label,x\n1,0,2\n1,1,3\n")
    found = rw.read_table("memory://data/a.csv")
    assert found.features.tolist() == [[2.0], [3.0]]


# Columns.


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_all_columns_that_cannot_be_used_are_named(tmp_path, ending):
    frame = pd.DataFrame(
        {"qid": [1, 1], "label": [0, 1], "x": [0.5, 1.5], "url": ["/a", "/b"], "title": ["A", "B"]}
    )
    path = tmp_path / f"d.{ending}"
    getattr(frame, "to_parquet" if ending == "parquet" else "to_csv")(path, index=False)
    message = r"2 columns cannot be features.*'url' text.*'title' text.*drop=\['url', 'title'\], or doc='url'"
    with pytest.raises(DataError, match=message):
        rw.read_table(path)
    assert rw.read_table(path, drop=["url", "title"]).feature_names == ("x",)
    with pytest.raises(DataError, match=r"column 'title'.*(text|is not a number)") as caught:
        rw.read_table(path, features=["x", "title"])
    assert "drop=" not in str(caught.value)  # it was asked for
    for kind in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        with pytest.raises(DataError, match=message):
            rw.from_frame(kind)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_label_of_text_and_columns_that_lack(tmp_path, ending):
    frame = pd.DataFrame({"qid": [1, 1], "label": ["bad", "good"], "x": [0.5, 1.5]})
    path = tmp_path / f"d.{ending}"
    getattr(frame, "to_parquet" if ending == "parquet" else "to_csv")(path, index=False)
    with pytest.raises(DataError, match=r"column 'label'.*turn grades into 0, 1, 2, ….*: label=\."):
        rw.read_table(path)
    with pytest.raises(
        UnknownName,
        match=r"column 'query' is not known.*Say which column holds the query ids: query=",
    ):
        rw.read_table(path, label="x", query="query")
    with pytest.raises(
        ParameterError, match=r"lacks 2 of the 3 features: 'a', 'b'. It has 'qid', 'label', 'x'"
    ):
        rw.read_table(path, label=None, features=["a", "x", "b"])


def test_an_index_of_pandas_is_never_a_feature(tmp_path):
    frame = pd.DataFrame({"qid": [1, 1, 2], "label": [0, 1, 2], "x": [3.0, 2, 1]}).loc[[2, 0, 1]]
    frame.to_parquet(tmp_path / "d.parquet")
    table = pa.Table.from_pandas(frame)
    assert "__index_level_0__" in table.column_names
    for found in (
        rw.read_table(tmp_path / "d.parquet"),
        rw.from_frame(table),
        rw.from_frame(pl.from_arrow(table)),
        rw.from_frame(table.to_pandas(ignore_metadata=True)),
        rw.RankingData(table.drop_columns(["qid", "label"]), [1, 2, 0]),
    ):
        assert found.feature_names == ("x",)


def test_a_column_named_weight_is_told_of(tmp_path, data):
    frame = pd.DataFrame(
        {"qid": [1, 1, 2], "label": [0, 1, 2], "x": [3.0, 2, 1], "weight": [1.0, 2, 3]}
    )
    with pytest.warns(
        DataWarning,
        match=r"column 'weight' is taken as a feature.*row_weight='weight'.*query_weight=",
    ):
        assert rw.from_frame(frame).feature_names == ("x", "weight")
    assert rw.from_frame(frame, row_weight="weight").row_weights.tolist() == [1, 2, 3]
    assert rw.from_frame(frame, features=["x", "weight"]).n_features == 2


@pytest.mark.parametrize("first", [2**53, 2**60, 2**63 - 200, 2**63])
@pytest.mark.parametrize("with_gaps", [False, True])
def test_ids_among_the_features_are_told_at_any_size(tmp_path, first, with_gaps):
    ids = [first + number for number in range(100)]
    if with_gaps:
        ids[3] = None
    kind = pa.uint64() if first >= 2**63 else pa.int64()
    table = pa.table({"qid": [1] * 100, "label": [0] * 100, "user": pa.array(ids, kind)})
    pq.write_table(table, tmp_path / "d.parquet")
    n_ids = 100 - with_gaps
    message = rf"column 'user' looks like an identifier .*: {n_ids} distinct values become \d\d? "
    for read in (lambda: rw.read_table(tmp_path / "d.parquet"), lambda: rw.from_frame(table)):
        with pytest.warns(DataWarning, match=message):
            assert np.isnan(read().features).sum() == with_gaps


@pytest.mark.parametrize("ending", ["parquet", "csv", "txt"])
def test_ids_of_any_size_stay_what_they_are(tmp_path, ending):
    ids = [2**53 + 1, 2**53 + 2, 2**63 - 1]
    data = rw.RankingData(np.ones((3, 1)), [0, 1, 2], ids, None if ending == "txt" else ids)
    path = tmp_path / f"d.{ending}"
    (rw.write_letor if ending == "txt" else rw.write_table)(data, path)
    found = read_data([path])
    assert found.query_ids.tolist() == ids
    (part,) = read_parts(path, ReadOptions(n_features=1))
    assert part.query_ids.tolist() == ids
    assert found.doc_ids is None or found.doc_ids.tolist() == ids
    huge = rw.from_frame(
        pa.table({"qid": pa.array([2**64 - 1] * 2, pa.uint64()), "label": [0, 1], "x": [1, 2]})
    )
    assert huge.query_ids.tolist() == [2**64 - 1] * 2


# The columns of a model.


def test_a_model_takes_its_own_columns(tmp_path, data):
    frame = pd.DataFrame(data.features, columns=["a", "b", "c", "d"]).assign(
        url="/", qid=data.query_ids
    )
    frame.to_parquet(tmp_path / "d.parquet", index=False)
    options = ReadOptions(label=None, model=ModelFeatures(2, ("c", "a")))
    assert read_data(tmp_path / "d.parquet", options).feature_names == ("c", "a")
    (part,) = read_parts(tmp_path / "d.parquet", options)
    np.testing.assert_array_equal(part.features, data.features[:, [2, 0]])
    with pytest.raises(ParameterError, match=r"lacks 2 of the 3 features of the model: 'x', 'y'"):
        read_data(
            tmp_path / "d.parquet", ReadOptions(label=None, model=ModelFeatures(3, ("x", "a", "y")))
        )
    numbered = ReadOptions(label=None, drop=("url",), model=ModelFeatures(3))
    with pytest.raises(
        ParameterError,
        match=r"has 4 columns that may be features, but the model knows 3. Say which with features=.*"
        r"If the model was imported, import it again with n_features= 4",
    ):
        read_data(tmp_path / "d.parquet", numbered)
    frame.rename(columns={"a": "1", "b": "2", "c": "3"}).to_parquet(
        tmp_path / "n.parquet", index=False
    )
    assert read_data(tmp_path / "n.parquet", numbered).n_features == 3


def read_all(path, options):
    return [read_data(path, options), *read_parts(path, options)]


def test_text_for_a_model_of_another_width(tmp_path):
    path = tmp_path / "d.txt"
    path.write_text("1 qid:1 1:2 3:1\n0 qid:1 2:5\n")
    with pytest.warns(
        DataWarning, match=r"features up to 3, but the model was trained on 5: the others are 0"
    ) as told:
        found = read_all(path, ReadOptions(model=ModelFeatures(5)))
    assert [data.features.shape for data in found] == [(2, 5), (2, 5)]
    assert len(told) == 2
    for read in (read_data, lambda *given: list(read_parts(*given))):
        with pytest.raises(
            DataError, match=r"features up to 3, but the model was trained on 2.*features="
        ):
            read(path, ReadOptions(model=ModelFeatures(2)))
        with pytest.raises(
            DataError, match=r"up to 3, but the model was trained on 4, which have names"
        ):
            read(path, ReadOptions(model=ModelFeatures(4, tuple("abcd"))))
    for data in read_all(path, ReadOptions(model=ModelFeatures(2, ("3", "1")))):
        assert data.features.tolist() == [[1, 2], [0, 0]]
        assert data.feature_names == ("3", "1")
    for data in (
        read_data(path, ReadOptions(drop=("2",))),
        read_data(path, ReadOptions(features=("1", "3"))),
    ):
        assert data.feature_names == ("1", "3")
    with pytest.raises(DataError, match="features up to 3: there is no 7"):
        read_data(path, ReadOptions(features=("7",)))
    with pytest.raises(
        ParameterError, match="LETOR text, whose features are numbered from 1: 'bm25' is none"
    ):
        read_data(path, ReadOptions(drop=("bm25",)))
