"""Writing LETOR text: its exact form, its refusals, and files that are whole or not there."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rankwood import RankingData, read_letor, write_letor
from rankwood.data.letor import text
from rankwood.errors import DataError, DataWarning
from tests.reference import letor as reference


def small_data(**options) -> RankingData:
    features = np.array([[0.5, 0, -0.0], [np.nan, -np.inf, 16777216]], np.float32)
    return RankingData(features, [2, 0.25], **{"query_ids": [7, 7]} | options)


def test_the_text(tmp_path):
    path = tmp_path / "data.txt"
    write_letor(small_data(), path)
    assert path.read_text() == "2 qid:7 1:0.5 2:0 3:-0\n0.25 qid:7 1:nan 2:-inf 3:16777216\n"


def test_document_ids_are_comments(tmp_path):
    path = tmp_path / "data.txt"
    write_letor(small_data(query_ids=["é", "b"], doc_ids=["x#1", ""]), path)
    assert path.read_text("utf-8") == (
        "2 qid:é 1:0.5 2:0 3:-0 # docid = x#1\n0.25 qid:b 1:nan 2:-inf 3:16777216\n"
    )


def test_zeros_may_be_left_out_but_the_width_stays(tmp_path):
    path = tmp_path / "data.txt"
    features = np.array([[0, 3, 0], [0, 0, 0], [-0.0, 0, 1]], np.float32)
    data = RankingData(features, [0, 1, 2], [1, 1, 1])
    write_letor(data, path, skip_zeros=True)
    assert path.read_text() == "0 qid:1 2:3 3:0\n1 qid:1\n2 qid:1 1:-0 3:1\n"
    assert read_letor(path) == data


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst", ".bz2"])
def test_every_compression_in_many_blocks(tmp_path, rng, monkeypatch, suffix):
    monkeypatch.setattr(text, "_BLOCK_VALUES", 70)
    path = tmp_path / f"data.txt{suffix}"
    bits = rng.integers(0, 2**32, (300, 7), dtype=np.uint32)
    features = np.where(np.isnan(bits.view(np.float32)), np.float32("nan"), bits.view(np.float32))
    labels = rng.random(300) * rng.integers(0, 2, 300)
    data = RankingData(
        features, labels, np.repeat(np.arange(30), 10), [f"d{row}" for row in range(300)]
    )
    write_letor(data, path)
    assert read_letor(path) == data
    if suffix == ".gz":
        table = reference.parse(gzip.decompress(path.read_bytes()))
        np.testing.assert_array_equal(table.features(0.0), features)
        assert table.labels == labels.tolist()


def test_the_same_data_give_the_same_bytes(tmp_path):
    for name in ("a.txt.gz", "b.txt.gz"):
        write_letor(small_data(), tmp_path / name)
    assert (tmp_path / "a.txt.gz").read_bytes() == (tmp_path / "b.txt.gz").read_bytes()


def test_standard_output(monkeypatch):
    stream = io.BytesIO()
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=stream))
    write_letor(small_data(), "-")
    assert stream.getvalue().startswith(b"2 qid:7 1:0.5 ")


@pytest.mark.parametrize(
    ("query_id", "expected"),
    [
        ("two words", "query id 'two words' holds the character ' '"),
        ("tab\t", r"query id 'tab\\t' holds the character '\\t'"),
        ("line\n", r"query id 'line\\n' holds the character '\\n'"),
        ("a#b", "query id 'a#b' holds the character '#'"),
        ("n\0ul", r"holds the character '\\x00'"),
        ("\ud800", "holds characters that are not Unicode"),
        ("", "query id number 1 is empty"),
    ],
)
def test_query_ids_that_would_not_come_back(tmp_path, query_id, expected):
    path = tmp_path / "data.txt"
    path.write_text("old")
    with pytest.raises(DataError, match=expected):
        write_letor(small_data(query_ids=["a", query_id]), path)
    assert path.read_text() == "old"


def test_document_ids_that_would_not_come_back(tmp_path):
    with pytest.raises(DataError, match="document id 'a b' holds the character ' '"):
        write_letor(small_data(doc_ids=["x", "a b"]), tmp_path / "data.txt")


def test_data_without_queries(tmp_path):
    with pytest.raises(DataError, match="LETOR text needs query ids"):
        write_letor(small_data(query_ids=None), tmp_path / "data.txt")


def test_weights_are_not_dropped_silently(tmp_path):
    with pytest.warns(DataWarning, match="row_weights have no place in LETOR text"):
        write_letor(small_data(row_weights=[1, 2]), tmp_path / "data.txt")
    with pytest.warns(DataWarning, match="query_weights have no place in LETOR text"):
        write_letor(small_data(query_weights=[2]), tmp_path / "data.txt")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "data.txt"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(text, "_BLOCK_VALUES", 3)
    monkeypatch.setattr(text, "_value_texts", fail)
    with pytest.raises(KeyboardInterrupt):
        write_letor(small_data(), path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.txt"]


def test_where_nothing_can_be_written(tmp_path: Path):
    with pytest.raises(DataError, match="cannot be written: No such file or directory"):
        write_letor(small_data(), tmp_path / "nowhere" / "data.txt")
    with pytest.raises(DataError, match="cannot be written: Is a directory"):
        write_letor(small_data(), tmp_path)
