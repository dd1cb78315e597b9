"""``rankwood explain``: documents, pairs, lists, data sets, importances; and calls that are wrong."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw


@pytest.fixture
def files(rankwood):
    data = rw.make_ranking(12, 10, 5, seed=3, doc_ids=True)
    rw.write_letor(data, "data.txt")
    rw.write_table(data, "data.parquet")
    rw.write_letor(rw.RankingData(data.features, data.labels, data.query_ids), "bare.txt")
    data = rw.read_letor("data.txt")
    model = rw.GBRT(6, min_leaf=5).fit(data)
    rw.save(model, "m.rankwood")
    return rw.explain(model, data)


def test_a_data_set(rankwood, files):
    outcome = rankwood("explain", "m.rankwood", "data.txt", "--top", 3)
    assert outcome.code == 0, outcome.err
    assert "mean size of the contribution" in outcome.out
    found = json.loads(rankwood("explain", "m.rankwood", "data.txt", "--json").out)
    sizes = {row["feature"]: row["importance"] for row in found["features"]}
    for name, size in zip(files.names, files.importance().values, strict=True):
        assert sizes[name] == pytest.approx(size)


def test_data_in_many_parts_give_the_same(rankwood, files, monkeypatch):
    call = ("explain", "m.rankwood", "data.txt", "--json")
    whole = json.loads(rankwood(*call).out)
    monkeypatch.setattr("rankwood.cli.inspect._PART_ROWS", 15)
    parts = json.loads(rankwood(*call).out)
    for one, other in zip(whole["features"], parts["features"], strict=True):
        assert one["importance"] == pytest.approx(other["importance"])
    assert rankwood("explain", "m.rankwood", "data.txt", "--qid", 12).code == 0


def test_a_list(rankwood, files):
    outcome = rankwood("explain", "m.rankwood", "data.txt", "--qid", 2, "--csv", "list.csv")
    assert outcome.code == 0, outcome.err
    query = files.query(2)
    assert query.name_of(0) in outcome.out
    assert "label" in outcome.out
    with open("list.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    np.testing.assert_allclose([float(line["score"]) for line in lines], query.scores)
    table = rankwood("explain", "m.rankwood", "data.parquet", "--qid", 2)
    assert table.code == 0, table.err
    assert "label" not in table.out  # a table's labels are not read


def test_a_document_and_a_pair(rankwood, files):
    query = files.query(2)
    a, b = query.name_of(0), query.name_of(3)
    call = ("explain", "m.rankwood", "data.txt")
    one = json.loads(rankwood(*call, "--qid", 2, "--document", a, "--json", "--top", 99).out)
    assert one["features"] == list(query.document(0).rows())
    assert one["score"] == pytest.approx(query.scores[0])
    anywhere = json.loads(rankwood(*call, "--document", a, "--json", "--top", 99).out)
    assert anywhere == one
    two = json.loads(rankwood(*call, "--qid", 2, "--why", a, b, "--json", "--top", 99).out)
    assert two["features"] == list(query.why(0, 3).rows())
    assert rankwood(*call, "--why", a, b).out.startswith(f"\nwhy {a} is above {b}")
    by_place = rankwood("explain", "m.rankwood", "bare.txt", "--qid", 2, "--document", 1)
    assert "why document 1 has its score" in by_place.out


@pytest.mark.parametrize("by", ["gain", "cover", "splits", "contribution", "permutation"])
def test_importances(rankwood, files, by):
    data = () if by in ("gain", "cover", "splits") else ("data.txt",)
    outcome = rankwood("explain", "m.rankwood", *data, "--importance", by, "--json")
    assert outcome.code == 0, outcome.err
    read = rw.read_letor("data.txt")
    expected = rw.importance(rw.load("m.rankwood"), read if data else None, by)
    found = json.loads(outcome.out)["features"]
    np.testing.assert_allclose(
        [row["importance"] for row in found],
        [row["importance"] for row in expected.rows(10)],
        atol=1e-12,
    )


def test_pictures_and_backgrounds(rankwood, files):
    pytest.importorskip("matplotlib")
    call = ("explain", "m.rankwood", "data.txt", "--background", "bare.txt")
    for more in ((), ("--qid", 1), ("--qid", 1, "--document", "d1")):
        outcome = rankwood(*call, *more, "--plot", "out.svg")
        assert outcome.code == 0, outcome.err
        assert "<svg" in Path("out.svg").read_text()
        Path("out.svg").unlink()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "this needs DATA"),
        (("data.txt", "--qid", "122"), "query '122' is not known. Did you mean '12'"),
        (("data.txt", "--qid", "2", "--document", "d1"), "document 'd1' is not known"),
        (("data.txt", "--document", "x9"), "document 'x9' is not known"),
        (("data.txt", "--why", "d1", "d1"), "was given twice"),
        (("bare.txt", "--document", "1"), "no document ids: say of which query with --qid"),
        (("bare.txt", "--qid", "2", "--document", "99"), "counted from 1, here up to"),
        (("data.txt", "--document", "d1", "--why", "d1", "d2"), "choose one"),
        (("data.txt", "--qid", "1", "--importance", "gain"), "choose one"),
        (("data.txt", "--importance", "gian"), "Did you mean 'gain'"),
        (("--importance", "permutation"), "this needs DATA"),
        (("data.txt", "--plot", "out.gif"), "a plot must end in .png, .svg or .pdf"),
        (("nowhere.txt",), "nowhere.txt"),
    ],
)
def test_wrong_calls(rankwood, files, options, message):
    outcome = rankwood("explain", "m.rankwood", *options)
    assert outcome.code == 2, outcome.out
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def test_models_that_cannot_be_explained(rankwood, files):
    data = rw.read_letor("data.txt")
    deep = rw.DeepForest(n_forests=2, n_trees=2, max_layers=2).fit(data)
    rw.save(deep, "deep.rankwood")
    outcome = rankwood("explain", "deep.rankwood", "data.txt")
    assert outcome.code == 2
    assert "a Cascade is no sum of trees" in outcome.err
    outcome = rankwood("explain", "deep.rankwood", "data.txt", "--importance", "permutation")
    assert outcome.code == 0, outcome.err
