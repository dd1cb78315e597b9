"""Folds that share test queries, parts that overlap, and a scale of labels that is the collection's: ``rankwood experiment``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw

FILE = """\
[data]
folds = "{folds}"
{data}

[run]
jobs = 0

[measures]
primary = "ndcg@10"
also = ["err@10", "rmse[over=queries]"]

[[algorithm]]
name = "small"
kind = "GBRT"
features_per_node = 1.0
n_trees = 2
max_leaves = 3
min_leaf = 2

[[algorithm]]
name = "large"
kind = "GBRT"
features_per_node = 1.0
n_trees = 8
max_leaves = 6
min_leaf = 2

[compare]
baseline = "small"
"""


def parts(n_queries=60, seed=1):
    return rw.split_queries(rw.make_ranking(n_queries, 8, 6, seed=seed), (0.5, 0.2, 0.3))


def write_fold(folder, train, vali, test):
    folder.mkdir(parents=True)
    for name, data in (("train", train), ("vali", vali), ("test", test)):
        rw.write_letor(data, folder / f"{name}.txt")


def write_file(name, folds, data=""):
    Path(name).write_text(FILE.format(folds=folds, data=data))
    return name


def comparisons(run):
    with (Path(run) / "report" / "tables" / "comparisons.csv").open() as opened:
        return list(csv.DictReader(opened))


@pytest.fixture
def one_and_eight(rankwood):
    """Two experiments of the same two algorithms: on one fold, and on the same fold eight times."""
    fold = parts()
    write_fold(Path("one/Fold1"), *fold)
    for number in range(1, 9):
        write_fold(Path(f"eight/Fold{number}"), *fold)
    return write_file("one.toml", "one"), write_file("eight.toml", "eight")


def test_the_same_fold_given_eight_times_gives_one_folds_p(rankwood, one_and_eight):
    rows, out = {}, {}
    for file in one_and_eight:
        run = f"runs/{Path(file).stem}"
        out[run] = rankwood("experiment", file)
        assert out[run].code == 0, out[run].err
        assert rankwood("report", run, "--formats", "csv,html,md").code == 0
        rows[run] = comparisons(run)
    assert len(rows["runs/one"]) == 3  # a comparison by each measure
    for one, eight in zip(rows["runs/one"], rows["runs/eight"], strict=True):
        assert one.keys() == eight.keys()
        for name in one:
            if name in ("measure", "name", "baseline", "decides", "test") or not one[name]:
                assert eight[name] == one[name]
            else:
                assert float(eight[name]) == pytest.approx(float(one[name]), rel=1e-9), name
    said = "18 test queries are in several folds (8 folds share some): their values are averaged over folds"
    assert said in out["runs/eight"].out
    assert "18 queries instead of 144" in out["runs/eight"].out
    assert "averaged over" not in out["runs/one"].out
    for name in ("report.html", "report.md"):
        assert (
            "18 test queries are in several folds" in Path(f"runs/eight/report/{name}").read_text()
        )
    assert "warning" not in out["runs/eight"].err  # nothing leaks from train to test
    table = [o.out.splitlines()[1:3] for o in out.values()]
    assert [r.split()[:4] for r in table[0]] == [r.split()[:4] for r in table[1]]


def test_runs_without_hashes_know_shared_queries_by_their_file(rankwood, one_and_eight):
    eight = one_and_eight[1]
    assert rankwood("experiment", eight).code == 0
    assert len(rw.read_run("runs/eight").queries) == 18
    Path("runs/eight/queries.parquet").unlink()  # as version 0.1 left a run
    record = json.loads(Path("runs/eight/record.json").read_text())
    del (
        record["checksum"],
        record["data"]["survey"],
        record["data"]["warnings"],
        record["data"]["notes"],
    )
    Path("runs/eight/record.json").write_text(json.dumps(record))
    results = rw.read_run("runs/eight")
    assert len(results.queries) == 18
    assert results.folds_share_queries
    outcome = rankwood("experiment", eight)
    assert "16 cells are there already and are kept" in outcome.err
    assert Path("runs/eight/queries.parquet").is_file()


def test_equal_ids_with_other_documents_are_other_queries(rankwood):
    for number in (1, 2):
        train, vali, test = parts(seed=number)
        renumbered = [
            rw.RankingData(
                part.features, part.labels, np.unique(part.query_ids, return_inverse=True)[1]
            )
            for part in (train, vali, test)
        ]
        write_fold(Path(f"two/Fold{number}"), *renumbered)
    outcome = rankwood("experiment", write_file("two.toml", "two"))
    assert outcome.code == 0
    assert len(rw.read_run("runs/two").queries) == 36
    assert "warning" not in outcome.err
    assert (
        "Not an overlap: Fold1, Fold2: 18 ids of queries are in both test and train" in outcome.out
    )
    assert "averaged over" not in outcome.out


def test_values_of_shared_queries_are_means_over_folds(rankwood):
    train, vali, test = parts()
    extra = rw.make_ranking(10, 8, 6, seed=9)
    other_train = rw.make_ranking(30, 8, 6, seed=7)
    write_fold(Path("two/Fold1"), train, vali, test)
    order = np.argsort(-test.query_ids, kind="stable")  # the queries in another order
    both = rw.RankingData(
        np.concatenate([test.features[order], extra.features]),
        np.concatenate([test.labels[order], extra.labels]),
        np.concatenate([test.query_ids[order], extra.query_ids + 1000]),
    )
    write_fold(Path("two/Fold2"), other_train, vali, both)
    file = write_file("two.toml", "two")
    assert rankwood("experiment", file).code == 0
    results = rw.read_run("runs/two")
    assert len(results.queries) == 28
    values = dict(zip(results.queries, results.values("large", "ndcg@10"), strict=True))
    own = []
    for fold in (train, other_train):
        model = rw.GBRT(8, max_leaves=6, min_leaf=2, features_per_node=None).fit(fold, valid=vali)
        own.append(rw.evaluate(model, test, "ndcg@10", n_bootstrap=0)["ndcg@10"].per_query)
    for query, value in zip(test.queries.tolist(), np.mean(own, axis=0), strict=True):
        assert values["Fold1", str(query)] == pytest.approx(value)
    assert sum(fold == "Fold2" for fold, _ in values) == 10


def overlapping(kind):
    """A fold whose parts share queries or documents, and what is said of it."""
    train, vali, test = parts()
    some = test.query_of_row < 4
    if kind == "queries":
        leaked = test.take_rows(some)
        said = "4 of 18 test queries are also in train, with the same id and documents"
    elif kind == "renamed":
        leaked = test.take_rows(some)
        leaked = rw.RankingData(leaked.features, leaked.labels, leaked.query_ids + 5000)
        said = "4 of 18 test queries are also in train under another id"
    else:
        leaked = test.take_rows(np.arange(0, test.n_documents, 4))
        leaked = rw.RankingData(leaked.features, leaked.labels, leaked.query_ids + 5000)
        said = f"{leaked.n_documents} documents of other test queries have exactly the features of a document in train"
    joined = rw.RankingData(
        *(
            np.concatenate([getattr(p, name) for p in (train, leaked)])
            for name in ("features", "labels", "query_ids")
        )
    )
    return (joined, vali, test), said


@pytest.mark.parametrize("kind", ["queries", "renamed", "documents"])
def test_parts_that_overlap_are_reported_and_refused_on_request(rankwood, kind):
    fold, said = overlapping(kind)
    write_fold(Path("leak/Fold1"), *fold)
    outcome = rankwood("experiment", write_file("leak.toml", "leak"))
    assert outcome.code == 0
    assert f"warning: Fold1: {said}" in " ".join(outcome.err.split())
    assert f"Overlap: Fold1: {said}" in outcome.out
    assert rankwood("report", "runs/leak", "--formats", "html,md").code == 0
    for name in ("report.html", "report.md"):
        assert (
            "Measures of it look better than they are"
            in Path(f"runs/leak/report/{name}").read_text()
        )
    refused = rankwood(
        "experiment", write_file("leak.toml", "leak", 'on_overlap = "error"'), "--out", "runs/no"
    )
    assert refused.code == 2
    assert said in " ".join(refused.err.split())
    assert 'on_overlap = "warn"' in refused.err
    assert not Path("runs/no").exists()
    ignored = rankwood("experiment", write_file("leak.toml", "leak", 'on_overlap = "ignore"'))
    assert ignored.code == 0
    assert "warning" not in ignored.err
    assert "Overlap" not in ignored.out


def test_on_overlap_takes_three_words(rankwood):
    write_fold(Path("one/Fold1"), *parts())
    outcome = rankwood("experiment", write_file("one.toml", "one", 'on_overlap = "stop"'))
    assert outcome.code == 2
    assert "on_overlap" in outcome.err
    assert "warn, error, ignore" in outcome.err


def test_the_scale_of_err_ends_where_the_collections_does(rankwood):
    train, vali, test = parts()
    low = rw.RankingData(test.features, np.minimum(test.labels, 1), test.query_ids)
    assert train.labels.max() > 1
    write_fold(Path("one/Fold1"), train, vali, low)
    file = write_file("one.toml", "one")
    assert rankwood("experiment", file).code == 0
    results = rw.read_run("runs/one")
    largest = train.labels.max()
    assert results.record["data"]["largest_label"] == largest
    model = rw.GBRT(8, max_leaves=6, min_leaf=2, features_per_node=None).fit(train, valid=vali)
    text = f"err@10[max={largest:g}]"
    found = rw.evaluate(model, low, ["err@10", text], n_bootstrap=0)
    assert results.values("large", "err@10") == pytest.approx(found[text].per_query)
    assert found[text].value < found["err@10"].value
    assert results.conventions["err@10"]["max"] == f"{largest:g} (the collection's)"


def test_cells_on_a_folds_own_scale_are_measured_again(rankwood):
    train, vali, test = parts()
    low = rw.RankingData(test.features, np.minimum(test.labels, 1), test.query_ids)
    write_fold(Path("one/Fold1"), train, vali, low)
    file = write_file("one.toml", "one")
    assert rankwood("experiment", file).code == 0
    measured = rw.read_run("runs/one").values_by_repetition
    as_first_version("runs/one", "1 (the data's)")
    said = "2 of them are measured further from kept scores, without a fit: err@10"
    assert said in " ".join(rankwood("experiment", file).err.split())
    again = rw.read_run("runs/one").values_by_repetition
    assert all((again[key] == values).all() for key, values in measured.items())
    as_first_version("runs/one", "1 (the data's)")
    for path in Path("runs/one/scores").iterdir():
        path.unlink()
    assert "2 cells are fitted again" in rankwood("experiment", file).err
    largest = f"{train.labels.max():g}"
    as_first_version("runs/one", f"{largest} (the data's)")
    assert "2 cells are there already and are kept" in rankwood("experiment", file).err


def test_train_and_evaluate_know_the_training_data(rankwood):
    (train, _, test), said = overlapping("queries")
    said = said.replace("test queries", "{} queries").replace("in train,", "in training,")
    rw.write_letor(train, "train.txt")
    rw.write_letor(test, "test.txt")
    call = (
        "train",
        "--model",
        "GBRT",
        "--n-trees",
        2,
        "--data",
        "train.txt",
        "--valid",
        "test.txt",
    )
    outcome = rankwood(*call)
    assert outcome.code == 0
    assert f"warning: {said.format('validation')}" in " ".join(outcome.err.split())
    assert "warning" not in rankwood(*call, "--on-overlap", "ignore").err
    refused = rankwood(*call, "--on-overlap", "error")
    assert refused.code == 2
    assert said.format("validation") in " ".join(refused.err.split())
    assert "--on-overlap 'stop' is not known" in rankwood(*call, "--on-overlap", "stop").err
    Path("train.toml").write_text(
        'model = "GBRT"\ndata = "train.txt"\nvalid = "test.txt"\non_overlap = "error"\n'
    )
    assert rankwood("train", "train.toml").code == 2

    call = ("evaluate", "model.rankwood", "test.txt")
    assert "warning" not in rankwood(*call).err
    outcome = rankwood(*call, "--trained-on", "train.txt")
    assert outcome.code == 0
    assert f"warning: {said.format('test')}" in " ".join(outcome.err.split())
    assert rankwood(*call, "--trained-on", "train.txt", "--on-overlap", "error").code == 2
    assert "name them with --trained-on" in rankwood(*call, "--on-overlap", "error").err


def test_the_curves_of_folds_share_a_scale_of_labels():
    train, vali, test = parts()
    low = rw.RankingData(test.features, np.minimum(test.labels, 1), test.query_ids)
    ranker, largest = rw.GBRT(2, max_leaves=3, min_leaf=2), train.labels.max()
    curve = rw.learning_curve(
        ranker, [(train, vali, low)], shares=[1.0], measure="err@10", repetitions=1
    )
    assert curve.measure == f"err@10[max={largest:g}]"
    same = rw.learning_curve(
        ranker, [(train, vali, test)], shares=[1.0], measure="err@10", repetitions=1
    )
    assert same.measure == (
        "err@10" if test.labels.max() == vali.labels.max() == largest else curve.measure
    )


def as_first_version(run, scale):
    """Make cells say that their ERR ends its scale at this label, as those of version 0.1 did."""
    import pyarrow.parquet as pq

    for path in (Path(run) / "cells").glob("*.parquet"):
        table = pq.read_table(path)
        record = json.loads(table.schema.metadata[b"rankwood"])
        record["conventions"]["err@10"]["max"] = scale
        del record["measures"]
        pq.write_table(
            table.replace_schema_metadata({b"rankwood": json.dumps(record).encode()}), path
        )
