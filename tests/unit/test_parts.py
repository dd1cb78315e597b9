"""Files read part by part: where they are cut, and what is wrong with them."""

from __future__ import annotations

import bz2
import gzip
import os
import threading
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankwood.data import table_files as files
from rankwood.data.dataset import RankingData
from rankwood.data.letor import text as letor_reading
from rankwood.data.parts import read_parts
from rankwood.data.reading import ReadOptions, read_data, write_data
from rankwood.data.synthetic import make_ranking
from rankwood.errors import DataError, DataWarning, ParameterError, UnknownName

KINDS = (".txt", ".txt.gz", ".parquet", ".csv", ".csv.gz", ".tsv", ".arrow", ".feather")
OPTIONS = ReadOptions(n_features=2, cache=False)


def letor(*queries: str) -> str:
    """A line per query id given; the second feature is the number of the line."""
    return "".join(f"0 qid:{query} 2:{line}\n" for line, query in enumerate(queries, 1))


def table(**columns) -> pa.Table:
    return pa.table(columns)


def sizes(parts) -> list[int]:
    return [part.n_documents for part in parts]


@pytest.fixture
def write(tmp_path):
    def to_file(content, name: str = "data.txt"):
        path = tmp_path / name
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return to_file


@pytest.mark.parametrize(
    ("n_rows", "expected"),
    [
        (1, [3, 1, 2]),
        (2, [3, 3]),  # b alone has too few: c comes with it
        (3, [3, 3]),
        (4, [4, 2]),
        (5, [6]),  # the fifth row is within c, which is completed
        (100, [6]),
    ],
)
def test_a_part_ends_with_the_query_that_fills_it(write, n_rows, expected):
    text = letor(*"aaabcc")
    assert sizes(read_parts(write(text), OPTIONS, n_rows=n_rows)) == expected
    columns = {"qid": list("aaabcc"), "label": [0] * 6, "x": [1.0] * 6}
    path = write(table(**columns), "data.parquet")
    assert sizes(read_parts(path, OPTIONS, n_rows=n_rows)) == expected


@pytest.mark.parametrize("ending", KINDS)
@pytest.mark.parametrize("n_rows", [1, 50, 10_000])
def test_the_parts_are_the_file(tmp_path, monkeypatch, ending, n_rows):
    # Small blocks and pieces: parts are put together from many, and cut within one.
    monkeypatch.setattr(letor_reading, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(files, "_CSV_BLOCK", 2000)
    monkeypatch.setattr(files, "_PIECE_VALUES", 200)
    data = make_ranking(40, 8, 5, doc_ids=True, missing=0.1, seed=3)
    path = tmp_path / f"data{ending}"
    write_data(data, path)
    options = ReadOptions(n_features=5, cache=False)
    parts = list(read_parts(path, options, n_rows=n_rows))
    whole = read_data(path, options)
    longest = int(np.diff(whole.query_offsets).max())
    assert all(n_rows <= size < n_rows + longest for size in sizes(parts)[:-1])
    rows = np.cumsum([0, *sizes(parts)])
    assert rows[-1] == whole.n_documents
    for part, first, last in zip(parts, rows, rows[1:], strict=False):
        assert part == whole.take_rows(np.arange(first, last))


def test_no_more_is_read_than_the_parts_taken_need(write, monkeypatch):
    monkeypatch.setattr(letor_reading, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(letor_reading, "_LEAST_BLOCK_BYTES", 1000)
    path = write(letor(*(str(query) for query in range(20_000))))
    n_read: list[int] = []
    options = ReadOptions(n_features=2, n_threads=2, progress=lambda done, _: n_read.append(done))
    parts = read_parts(path, options, n_rows=10)
    next(parts)
    parts.close()
    # The first block of 1,000 bytes holds enough; at most three more are under way.
    assert max(n_read, default=0) <= 5000
    assert os.stat(path).st_size > 200_000


def test_parts_given_back_do_not_count_against_the_memory(write, monkeypatch):
    monkeypatch.setattr(letor_reading, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(letor_reading, "_LEAST_BLOCK_BYTES", 1000)
    # 2,000 rows × 2 features × 4 bytes are 16,000: too much at once, but not 100 rows at a time.
    monkeypatch.setattr(letor_reading, "memory_of_machine", lambda: 8000)
    path = write("\n  \n".join(letor(str(query))[:-1] for query in range(2000)))
    assert sum(sizes(read_parts(path, OPTIONS, n_rows=100))) == 2000
    with pytest.raises(DataError, match="does not fit into memory"):
        read_data(path, OPTIONS)


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_table_without_labels(write, tmp_path, ending):
    content = table(qid=[1, 1, 2], x=[1.0, 2.0, 3.0])
    path = tmp_path / f"data{ending}"
    if ending == ".parquet":
        pq.write_table(content, path)
    else:
        with pa.ipc.new_file(path, content.schema) as file:
            file.write_table(content)
    with pytest.raises(UnknownName, match="column 'label' is not known"):
        list(read_parts(path, ReadOptions()))
    for data in (
        *read_parts(path, ReadOptions(label=None)),
        read_data(path, ReadOptions(label=None)),
    ):
        assert data.names == ("x",)
        assert data.labels.tolist() == [0.0, 0.0, 0.0]


def test_labels_that_are_not_wanted_are_not_looked_at(write):
    path = write("label,qid,x\n,1,1\n-1,1,2\n", "data.csv")
    (data,) = read_parts(path, ReadOptions(label=None))
    assert data.names == ("x",)


def test_data_without_queries_are_cut_anywhere(tmp_path):
    path = tmp_path / "data.parquet"
    write_data(RankingData(np.arange(10.0).reshape(-1, 1), np.zeros(10)), path)
    parts = list(read_parts(path, ReadOptions(), n_rows=4))
    assert sizes(parts) == [4, 4, 2]
    assert [part.query_ids for part in parts] == [None] * 3


def test_standard_input(monkeypatch):
    stream = gzip.compress(letor(*"aab").encode())
    import io

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(stream)))
    assert sizes(read_parts("-", OPTIONS, n_rows=1)) == [2, 1]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("name", ["pipe", "pipe.csv"])
def test_a_named_pipe(tmp_path, name):
    path = tmp_path / name
    os.mkfifo(path)
    text = letor(*"aab") if name == "pipe" else "qid,label,x\na,0,1\na,0,1\nb,0,1\n"
    writer = threading.Thread(target=path.write_text, args=(text,), daemon=True)
    writer.start()
    assert sizes(read_parts(path, OPTIONS, n_rows=1)) == [2, 1]
    writer.join(timeout=10)


def test_bzip2(write):
    path = write(bz2.compress(letor(*"aab").encode()), "data.bz2")
    assert sizes(read_parts(path, OPTIONS, n_rows=1)) == [2, 1]


def test_ids_are_whole_numbers_where_all_of_a_part_are(write):
    one, other = read_parts(write(letor("1", "1", "07")), OPTIONS, n_rows=1)
    assert one.query_ids.tolist() == [1, 1]
    assert other.query_ids.tolist() == ["07"]


def test_document_ids_stay_from_the_first_on(write):
    text = "0 qid:1 1:1\n0 qid:2 1:1 # docid = d\n0 qid:3 1:1\n"
    none, some, empty = read_parts(write(text), OPTIONS, n_rows=1)
    assert none.doc_ids is None
    assert some.doc_ids.tolist() == ["d"]
    assert empty.doc_ids.tolist() == [""]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.txt", letor(*"aab") + "0 qid:c 3:1\n", r"d\.txt, line 4, column 9: .*3"),
        ("d.txt", letor(*"aab") + "x qid:c 1:1\n", r"d\.txt, line 4, column 1: "),
        ("d.txt", letor(*"aaba"), r"d\.txt, line 4: query a comes again.*Sort .*--whole"),
        ("d.txt", "", r"d\.txt is empty"),
        ("d.txt", "# nothing\n\n", r"d\.txt holds no documents"),
        ("d.csv", "qid,label,x\na,0,1\nb,0,1\na,0,1\n", r"d\.csv, row 3: query a comes again"),
        ("d.csv", "qid,label,x\na,0,1\nb,0,1\nc,-1,1\n", r"d\.csv: row 3: column 'label' is -1"),
        ("d.csv", "qid,label,x\na,0,1\nb,0,1\n,0,1\n", r"d\.csv: row 3: column 'qid' is empty"),
        ("d.csv", "qid,label,x\na,0,1\nb,0,1e99\n", r"d\.csv: row 2, column 'x', is 1e\+99"),
        ("d.csv", "qid,label,x\na,0,1\nb,0,what\n", r"d\.csv: row .*column 'x': 'what' is not"),
        ("d.csv", "qid,label,x\n", r"d\.csv: there are no rows"),
        ("d.csv", "qid,label\na,0\n", "no columns are left to be features"),
        ("d.parquet", b"PAR1 and so on", r"d\.parquet: this parquet file cannot be read"),
        ("d.parquet", table(qid=[1], label=[0], u=["x"]), "'u' holds text.*drop="),
        ("d.parquet", table(qid=[1, 2, 1], label=[0] * 3, x=[0] * 3), "row 3: query 1 comes again"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_in_the_file(write, name, content, message):
    path = write(content, name)
    with pytest.raises(DataError, match=message):
        list(read_parts(path, OPTIONS, n_rows=1))


def test_what_comes_before_a_mistake_is_handed_on(write, monkeypatch):
    monkeypatch.setattr(letor_reading, "BLOCK_BYTES", 40)
    monkeypatch.setattr(letor_reading, "_LEAST_BLOCK_BYTES", 40)
    parts = read_parts(write(letor(*"aabbcc") + "oops\n"), OPTIONS, n_rows=1)
    assert next(parts).query_ids.tolist() == ["a", "a"]
    with pytest.raises(DataError, match="line 7"):
        list(parts)


@pytest.mark.parametrize("name", ["d.txt", "d.csv"])
def test_a_query_that_comes_again_within_a_part_is_grouped(write, name):
    text = letor(*"abacca") if name == "d.txt" else "qid,label,x\n" + "".join(
        f"{query},0,1\n" for query in "abacca"
    )  # fmt: skip
    path = write(text, name)
    with pytest.warns(DataWarning, match="(line|row) 3: query a comes again") as told:
        (data,) = read_parts(path, OPTIONS)
    assert len(told) == 1
    assert data.queries.tolist() == ["a", "b", "c"]
    strict = ReadOptions(n_features=2, strict=True)
    with pytest.raises(DataError, match=r"(line|row) 3: query a .* read without strict"):
        list(read_parts(path, strict))


def test_a_column_that_loses_its_values_is_told_once(write):
    stamps = (1_700_000_000 + np.arange(60)).astype(np.float64)
    path = write(
        table(qid=np.repeat(np.arange(6), 10), label=[0] * 60, time=stamps), "data.parquet"
    )
    with pytest.warns(DataWarning, match="'time' looks like an identifier or a timestamp") as told:
        list(read_parts(path, ReadOptions(), n_rows=10))
    assert len(told) == 1


def test_what_cannot_be_asked_for(write):
    path = write(letor(*"ab"))
    with pytest.raises(ParameterError, match="n_rows must be a whole number of at least 1, got 0"):
        read_parts(path, OPTIONS, n_rows=0)
    with pytest.raises(ParameterError, match="n_features says how wide"):
        list(read_parts(path, ReadOptions()))
    with pytest.raises(DataError, match="does not exist"):
        list(read_parts(path.with_name("dat.txt"), OPTIONS))


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".csv", ".csv.gz", ".parquet"])
def test_progress_ends_with_the_file(tmp_path, ending):
    path = tmp_path / f"data{ending}"
    write_data(make_ranking(20, 5, 2, seed=1), path)
    told: list[tuple[int, int | None]] = []
    options = ReadOptions(n_features=2, progress=lambda done, total: told.append((done, total)))
    list(read_parts(path, options, n_rows=10))
    size = os.stat(path).st_size
    assert told[-1] == (size, size)
    assert told == sorted(told)
