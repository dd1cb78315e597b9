"""Files binned to a folder: the same codes as in memory, from any kind and number of files, after any interruption."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import rankwood as rw
from rankwood.data import streams
from rankwood.data.dataset import RankingData
from rankwood.data.sources import find_inputs
from rankwood.errors import DataError, DataWarning, InputError, ParameterError, RunError
from rankwood.training import bin_files as binning

pytestmark = pytest.mark.jit_only  # its kernels are tested where they are defined


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    """Parts of 1,024 rows or a little more, so that small data have several."""
    monkeypatch.setattr(binning, "PART_BYTES", 1)
    monkeypatch.setattr(binning, "_LEAST_PART_ROWS", 300)


@pytest.fixture(scope="module")
def data():
    made = rw.make_ranking(40, 40, 9, seed=3, missing=0.1)
    features = made.features.copy()
    features[700, 2], features[1100, 3], features[5, 4] = np.inf, -np.inf, -0.0
    return RankingData(features, made.labels, made.query_ids, feature_names=made.names)


def as_table(data, **more):
    columns = {"qid": data.query_ids, "label": data.labels, **more}
    return pa.table({**columns, **dict(zip(data.names, data.features.T, strict=True))})


def assert_holds(folder, data, **options):
    """The folder holds what binning the data in memory gives."""
    expected = rw.bin(data, **options)
    np.testing.assert_array_equal(folder.bins.thresholds, expected.bins.thresholds)
    np.testing.assert_array_equal(folder.bins.offsets, expected.bins.offsets)
    np.testing.assert_array_equal(folder.bins.has_missing, expected.bins.has_missing)
    np.testing.assert_array_equal(folder.codes, expected.codes)
    np.testing.assert_array_equal(folder.data.labels, data.labels)
    assert folder.data.names == data.names
    assert folder.data.queries.tolist() == data.queries.tolist()
    assert folder.data.queries.dtype == data.queries.dtype
    np.testing.assert_array_equal(folder.data.query_offsets, data.query_offsets)
    np.testing.assert_array_equal(folder.data.query_of_row, data.query_of_row)
    np.testing.assert_array_equal(folder.data.row_order, data.row_order)


def content(folder):
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"
    }


@pytest.mark.parametrize("sample", [200_000, 500])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.parquet", "a.csv", "a.csv.gz", "a.arrow"])
def test_codes_are_those_of_the_file_in_memory(tmp_path, data, name, sample):
    path = tmp_path / name
    write = rw.write_letor if ".txt" in name else rw.write_table
    write(data, path)
    in_memory = rw.read_letor(path) if ".txt" in name else rw.read_table(path)
    folder = rw.bin_files(path, tmp_path / "binned", sample=sample)
    assert len(folder.part_rows) > 4
    assert_holds(folder, in_memory, sample=sample)


def test_the_number_of_threads_changes_nothing(tmp_path, data):
    rw.write_letor(data, tmp_path / "a.txt")
    rw.bin_files(tmp_path / "a.txt", tmp_path / "one", n_threads=1)
    rw.bin_files(tmp_path / "a.txt", tmp_path / "three", n_threads=3)
    assert content(tmp_path / "one") == content(tmp_path / "three")


def test_rows_without_weight_do_not_change_the_bins(tmp_path, data, rng):
    rows = (rng.random(data.n_documents) < 0.5).astype(float)
    queries = np.where(np.arange(data.n_queries) % 7 == 0, 0.0, 2.5)
    table = as_table(data, w=rows, v=queries[data.query_of_row])
    pq.write_table(table, tmp_path / "a.parquet")
    folder = rw.bin_files(
        tmp_path / "a.parquet", tmp_path / "b", row_weight="w", query_weight="v", sample=300
    )
    np.testing.assert_array_equal(folder.data.row_weights, rows)
    np.testing.assert_array_equal(folder.data.query_weights, queries)
    weighted = data.take_rows((rows > 0) & (queries[data.query_of_row] > 0))
    expected = rw.bin(weighted, sample=300).bins
    np.testing.assert_array_equal(folder.bins.thresholds, expected.thresholds)


def test_lines_that_only_look_like_documents_change_nothing(tmp_path, data):
    rw.write_letor(data, tmp_path / "a.txt")
    text = (tmp_path / "a.txt").read_text().replace("\n", "\n  \n", 400)  # counted as rows at first
    (tmp_path / "b.txt").write_text("# a comment\n\n" + text)
    folder = rw.bin_files(tmp_path / "b.txt", tmp_path / "folder", sample=500)
    assert_holds(folder, rw.read_letor(tmp_path / "a.txt"), sample=500)


@pytest.mark.parametrize("are_integers", [True, False])
def test_ids_of_queries_and_documents_are_kept(tmp_path, data, are_integers):
    queries = data.query_ids if are_integers else [f"frage ä{query}" for query in data.query_ids]
    documents = np.arange(data.n_documents) + 10**12 if are_integers else None
    if documents is None:
        documents = [f"d{row}\n" for row in range(data.n_documents)]
    table = (
        as_table(data)
        .set_column(0, "qid", pa.array(queries))
        .append_column("d", pa.array(documents))
    )
    pq.write_table(table, tmp_path / "a.parquet")
    folder = rw.bin_files(tmp_path / "a.parquet", tmp_path / "b", doc="d")
    in_memory = rw.read_table(tmp_path / "a.parquet", doc="d")
    assert folder.data.queries.tolist() == in_memory.queries.tolist()
    assert folder.doc_ids.tolist() == in_memory.doc_ids.tolist()
    assert folder[3:9].data.queries.tolist() == in_memory.queries[3:9].tolist()
    cut = slice(in_memory.query_offsets[3], in_memory.query_offsets[9])
    assert folder[3:9].doc_ids.tolist() == in_memory.doc_ids[cut].tolist()


def test_documents_that_get_ids_late_have_empty_ones_before(tmp_path, data):
    rw.write_letor(data, tmp_path / "a.txt")
    lines = (tmp_path / "a.txt").read_text().splitlines()
    lines[900] += " # docid = X7"
    (tmp_path / "a.txt").write_text("\n".join(lines))
    folder = rw.bin_files(tmp_path / "a.txt", tmp_path / "b")
    assert folder.doc_ids.tolist() == rw.read_letor(tmp_path / "a.txt").doc_ids.tolist()


def test_csv_ids_are_text_if_one_of_them_is(tmp_path, data):
    ids = [f"{query}" if query < 30 else f"0{query}" for query in data.query_ids]
    table = as_table(data).set_column(0, "qid", pa.array(ids))
    pa.csv.write_csv(table, tmp_path / "a.csv")
    folder = rw.bin_files(tmp_path / "a.csv", tmp_path / "b")
    assert folder.data.queries.tolist() == rw.read_table(tmp_path / "a.csv").queries.tolist()
    assert folder.data.queries.tolist()[0] == "1"


# Many files.


def in_files(folder, data, *edges, name="part-{}.parquet"):
    folder.mkdir(parents=True, exist_ok=True)
    table = as_table(data)
    bounds = [0, *edges, data.n_documents]
    for number, (first, last) in enumerate(itertools.pairwise(bounds)):
        path = folder / name.format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(first, last - first), path, row_group_size=100)


@pytest.mark.parametrize("form", ["list", "glob", "folder", "nested glob"])
def test_many_files_are_one(tmp_path, data, form):
    middle = int(data.query_offsets[7]) + 1  # within a query, which goes on in the next file
    in_files(tmp_path / "set", data, middle, middle + 1, middle + 200)
    (tmp_path / "set" / "_SUCCESS").write_text("")
    (tmp_path / "set" / "README.md").write_text("not data")
    paths = {
        "list": sorted((tmp_path / "set").glob("*.parquet")),
        "glob": str(tmp_path / "set" / "part-*.parquet"),
        "nested glob": str(tmp_path / "**" / "*.parquet"),
        "folder": tmp_path / "set",
    }[form]
    assert_holds(rw.bin_files(paths, tmp_path / "b", sample=700), data, sample=700)


def test_letor_files_are_as_wide_as_the_widest(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:2 2:3\n")
    (tmp_path / "b.txt").write_text("0 qid:1 4:1\n2 qid:2 1:7\n")
    both = tmp_path / "both.txt"
    both.write_text((tmp_path / "a.txt").read_text() + (tmp_path / "b.txt").read_text())
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    folder = rw.bin_files(paths, tmp_path / "c", absent="missing")
    assert_holds(folder, rw.read_letor(both, absent="missing"))
    assert folder.n_features == 4
    assert np.diff(folder.data.query_offsets).tolist() == [3, 1]


def test_keys_of_a_partitioned_data_set_are_columns_where_they_are_named(tmp_path, data):
    half = int(data.query_offsets[20])
    in_files(tmp_path / "set", data, half, name="market={}/x.parquet")
    assert_holds(rw.bin_files(tmp_path / "set", tmp_path / "b"), data)
    names = ["market", *data.names]
    folder = rw.bin_files(tmp_path / "set", tmp_path / "c", features=names)
    assert folder.data.names == tuple(names)
    assert folder.codes[0].tolist() == [int(row >= half) for row in range(data.n_documents)]


def test_rows_without_queries_are_cut_anywhere(tmp_path, data):
    pq.write_table(as_table(data).drop(["qid"]), tmp_path / "a.parquet")
    folder = rw.bin_files(tmp_path / "a.parquet", tmp_path / "b", query=None)
    assert folder.data.query_ids is None
    assert np.diff(folder.part_rows)[:-1].tolist() == [300] * (len(folder.part_rows) - 2)
    np.testing.assert_array_equal(folder.codes, rw.bin(data).codes)
    with pytest.raises(DataError, match=r"has no queries"):
        folder[1:2]


# What is refused.


def test_a_query_that_comes_again_is_refused_wherever_it_does(tmp_path, data):
    rows = np.arange(data.n_documents)
    near = np.r_[rows[:60], rows[200:220], rows[60:200], rows[220:]]
    far = np.r_[rows[3:], rows[:3]]
    for name, order in (("near", near), ("far", far)):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(as_table(data).take(order), path)
        with pytest.raises(
            DataError, match=rf"{name}.parquet, row [\d]+: query .* comes again .* sort the rows"
        ):
            rw.bin_files(path, tmp_path / name)
    place = data.n_documents - 3 + 1
    with pytest.raises(DataError, match=rf"far.parquet, row {place}: query 1 "):
        rw.bin_files(tmp_path / "far.parquet", tmp_path / "far")


def test_files_that_do_not_go_together_are_refused(tmp_path, data):
    rw.write_letor(data, tmp_path / "a.txt")
    pq.write_table(as_table(data), tmp_path / "a.parquet")
    pq.write_table(
        as_table(data).rename_columns(["qid", "label", "other", *data.names[1:]]),
        tmp_path / "b.parquet",
    )
    texts = as_table(data).set_column(0, "qid", pa.array([str(query) for query in data.query_ids]))
    pq.write_table(texts, tmp_path / "c.parquet")

    def refused(*names):
        return rw.bin_files([tmp_path / name for name in names], tmp_path / "out")

    with pytest.raises(DataError, match=r"a.parquet is a table and .*a.txt is LETOR text"):
        refused("a.txt", "a.parquet")
    with pytest.raises(
        DataError,
        match=r"b.parquet: its columns are not those of .*a.parquet: it lacks .* has 'other'",
    ):
        refused("a.parquet", "b.parquet")
    with pytest.raises(
        DataError, match=r"c.parquet: the query ids are text, but whole numbers in .*a.parquet"
    ):
        refused("a.parquet", "c.parquet")
    with pytest.raises(DataError, match=r"a.txt is given twice"):
        refused("a.txt", "a.txt")
    shared = list(data.names[1:])
    chosen = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    with pytest.raises(
        DataError, match=r"b.parquet, row 1: query 1 comes again"
    ):  # the columns are fine now
        rw.bin_files(chosen, tmp_path / "chosen", features=shared)


def test_inputs_without_rows_labels_or_files_are_refused(tmp_path, data):
    table = as_table(data)
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    pq.write_table(
        table.rename_columns(["qid", "grade", *data.names]), tmp_path / "unlabelled.parquet"
    )
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "blank.txt").write_text("# 1:2\n")
    (tmp_path / "folder").mkdir()
    for name in ("train.txt", "test.txt"):
        (tmp_path / "folder" / name).write_text("1 qid:1 1:2\n")
    cases = {
        "none.parquet": "none.parquet: there are no rows",
        "unlabelled.parquet": r"unlabelled.parquet.*column 'label' is not known.*Known: .*label=",
        "empty.txt": "empty.txt is empty",
        "blank.txt": "blank.txt: no features found",
        "missing.parquet": "missing.parquet does not exist",
        "*.csv": r"no file matches the pattern .*\*.csv",
        "folder": "folder holds train and test data",
    }
    for name, message in cases.items():
        with pytest.raises(InputError, match=message):
            rw.bin_files(tmp_path / name, tmp_path / f"out of {name[:4]}")
    with pytest.raises(ParameterError, match=r"empty list"):
        rw.bin_files([], tmp_path / "out")
    zero = as_table(data, w=np.zeros(data.n_documents))
    pq.write_table(zero, tmp_path / "zero.parquet")
    with pytest.raises(DataError, match=r"all weights are zero"):
        rw.bin_files(tmp_path / "zero.parquet", tmp_path / "weights", row_weight="w")
    assert not list(tmp_path.rglob("manifest.json"))


def test_a_folder_with_other_things_is_not_touched(tmp_path, data):
    pq.write_table(as_table(data), tmp_path / "a.parquet")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match=r"full is not empty"):
        rw.bin_files(tmp_path / "a.parquet", tmp_path / "full")
    assert (tmp_path / "full" / "thesis.txt").read_text() == "mine"


def test_a_finished_folder_is_opened_and_other_data_are_kept_unless_replaced(tmp_path, data):
    path = tmp_path / "a.parquet"
    pq.write_table(as_table(data), path)
    first = rw.bin_files(path, tmp_path / "b")
    stamp = (tmp_path / "b" / "codes.npy").stat().st_mtime_ns
    rw.bin_files(path, tmp_path / "b")
    assert (tmp_path / "b" / "codes.npy").stat().st_mtime_ns == stamp
    with pytest.raises(
        DataError, match=r"b holds other binned data: it was made with another max_bins"
    ):
        rw.bin_files(path, tmp_path / "b", max_bins=15)
    replaced = rw.bin_files(path, tmp_path / "b", max_bins=15, overwrite=True)
    assert replaced.n_bins.max() <= 15 < first.n_bins.max()


# Interruptions.


def files_for(tmp_path, data, name):
    path = tmp_path / name
    (rw.write_letor if ".txt" in name else rw.write_table)(data, path)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.parquet", "a.arrow", "a.csv"])
def test_an_interrupted_run_goes_on_after_the_last_finished_part(tmp_path, data, name, monkeypatch):
    path = files_for(tmp_path, data, name)
    rw.bin_files(path, tmp_path / "whole", sample=500)
    save, written = binning._Run._save, []
    monkeypatch.setattr(binning._Run, "_save", lambda run: (save(run), written.append(run)))
    rw.bin_files(path, tmp_path / "counted", sample=500)
    n_saved = len(written)
    assert n_saved > 8
    monkeypatch.setattr(
        binning._Run, "_encode_part", counting(binning._Run._encode_part, calls := [])
    )
    for moment in range(1, n_saved + 1):
        left = [moment]

        def save_or_die(run, left=left):
            save(run)
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

        folder = tmp_path / f"killed-{moment}"
        monkeypatch.setattr(binning._Run, "_save", save_or_die)
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            rw.bin_files(path, folder, sample=500)
        with pytest.raises(DataError, match=r"is not finished: .* goes on where it stopped"):
            rw.open_binned(folder)
        monkeypatch.setattr(binning._Run, "_save", save)
        rw.bin_files(path, folder, sample=500)
        assert content(folder) == content(tmp_path / "whole"), moment
        assert len(calls) == len(rw.open_binned(folder).part_rows) - 1  # no part was coded twice
        shutil.rmtree(folder)


def counting(function, calls):
    def counted(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return counted


def test_a_run_that_dies_while_it_writes_goes_on(tmp_path, data, monkeypatch):
    path = files_for(tmp_path, data, "a.txt")
    rw.bin_files(path, tmp_path / "whole")
    append, left = binning.GrowingFile.append, [9]

    def append_or_die(file, values):
        left[0] -= 1
        if left[0] == 0:
            append(file, values[: len(values) // 2])
            raise KeyboardInterrupt
        append(file, values)

    monkeypatch.setattr(binning.GrowingFile, "append", append_or_die)
    with pytest.raises(KeyboardInterrupt):
        rw.bin_files(path, tmp_path / "b")
    rw.bin_files(path, tmp_path / "b")
    assert content(tmp_path / "b") == content(tmp_path / "whole")


def test_a_changed_input_is_noticed(tmp_path, data, monkeypatch):
    path = files_for(tmp_path, data, "a.txt")
    encode = binning._Run.encode

    def die(run):
        raise KeyboardInterrupt

    monkeypatch.setattr(binning._Run, "encode", die)
    with pytest.raises(KeyboardInterrupt):
        rw.bin_files(path, tmp_path / "b")
    monkeypatch.setattr(binning._Run, "encode", encode)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 2]))
    with pytest.warns(DataWarning, match=r"a.txt has changed since. It starts again"):
        folder = rw.bin_files(path, tmp_path / "b")
    assert_holds(folder, rw.read_letor(path))
    path.write_text("".join(lines))
    with pytest.raises(DataError, match=r"a.txt has changed since"):
        rw.bin_files(path, tmp_path / "b")

    def encode_and_touch(run):
        os.utime(path, (1, 1))
        encode(run)

    monkeypatch.setattr(binning._Run, "encode", encode_and_touch)
    with pytest.raises(DataError, match=r"a.txt changed while it was read"):
        rw.bin_files(path, tmp_path / "c")
    assert not (tmp_path / "c" / "manifest.json").exists()


@pytest.mark.parametrize("where", ["codes", "labels"])
def test_a_full_disk_is_an_error_and_no_half_folder(tmp_path, data, monkeypatch, where):
    path = files_for(tmp_path, data, "a.parquet")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        if where == "codes":
            patched.setattr(os, "posix_fallocate", full)
        else:
            patched.setattr(binning.GrowingFile, "append", full)
        with pytest.raises(
            RunError, match=r"b cannot be written: no space is left .* goes on where it stopped"
        ):
            rw.bin_files(path, tmp_path / "b")
    with pytest.raises(DataError, match=r"is not finished"):
        rw.open_binned(tmp_path / "b")
    assert_holds(rw.bin_files(path, tmp_path / "b"), data)


def test_progress_rises_to_the_whole(tmp_path, data):
    for name in ("a.txt", "a.parquet"):
        told = []
        path = files_for(tmp_path, data, name)
        rw.bin_files(
            path, tmp_path / f"{name}.b", progress=lambda *news, told=told: told.append(news)
        )
        done = [news[0] for news in told]
        assert done == sorted(done)
        assert done[-1] == told[-1][1]


@pytest.mark.parametrize("name", ["a.txt", "a.parquet", "a.csv", "a.arrow"])
def test_memory_does_not_grow_with_rows(tmp_path, name, monkeypatch):
    """A block, a part and the sample are held at a time; rows more cost neither their features nor their codes."""
    monkeypatch.setattr(streams, "BLOCK_BYTES", 1 << 13)
    rows, peaks = [], []
    for n_queries in (50, 250):
        made = rw.make_ranking(n_queries, 12, 40, seed=3)
        folder = tmp_path / str(n_queries)
        folder.mkdir()
        path = files_for(folder, made, name)
        tracemalloc.start()
        rw.bin_files(path, folder / "binned", sample=100, n_threads=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        rows.append(made.n_documents)
    n_more = rows[1] - rows[0]
    assert n_more > 2000
    assert peaks[1] - peaks[0] < n_more * 40  # a byte per code


def test_a_stream_can_begin_anywhere(tmp_path, data):
    for name in ("a.txt", "a.parquet", "a.csv"):
        stream = streams.open_stream(
            find_inputs(files_for(tmp_path, data, name)), streams.ReadOptions()
        )
        stream.count()
        parts = list(stream.parts(200))
        for part, following in itertools.pairwise(parts):
            again = next(iter(stream.parts(200, following.begin)))
            np.testing.assert_array_equal(again.features, following.features)
            assert again.query_ids == following.query_ids
            assert part.n_rows >= 200
