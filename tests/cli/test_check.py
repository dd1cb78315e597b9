"""``rankwood check``: exit codes for pipelines, columns as they lie around, and the pages it writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rankwood as rw

NAMES = ["alpha", "beta", "gamma"]


def table(seed, n_queries=120):
    data = rw.make_ranking(n_queries, 8, 3, seed=seed)
    frame = pd.DataFrame(data.features, columns=NAMES)
    return frame.assign(label=data.labels, qid=data.query_ids)


@pytest.fixture
def files(rankwood):
    """A model of a table, and other tables, in the folder that the command line is called in."""
    table(1).to_parquet("train.parquet")
    table(2).to_parquet("same.parquet", index=False)
    table(2).assign(alpha=table(2).alpha * 5 + 40).to_parquet("moved.parquet", index=False)
    rw.save(
        rw.RandomForest(n_trees=2, max_leaves=6).fit(
            rw.read_table("same.parquet", label="label", query="qid")
        ),
        "m.rankwood",
    )
    return rankwood


def test_the_exit_code_tells_of_drift(files):
    same = files("check", "same.parquet", "--model", "m.rankwood")
    assert (same.code, same.err) == (0, "")
    assert "no drift" in same.out
    moved = files("check", "moved.parquet", "--model", "m.rankwood", "--quiet")
    assert (moved.code, moved.err) == (1, "")
    assert "'alpha': the stability index is" in moved.out
    assert (
        files("check", "moved.parquet", "--model", "m.rankwood", "--psi", 99, "--outside", 1).code
        == 0
    )
    wrong = files("check", "nothing.parquet", "--model", "m.rankwood")
    assert wrong.code == 2
    assert files("check", "same.parquet").code == 2
    assert files("check", "same.parquet", "--model", "m.rankwood", "--psi", -1).code == 2


def test_json_csv_and_page(files):
    outcome = files(
        *("check", "moved.parquet", "--model", "m.rankwood", "--json"),
        *("--html", "check.html", "--csv", "check.csv"),
    )
    assert outcome.code == 1
    found = json.loads(outcome.out)
    assert found["drift"] is True
    assert {finding["about"] for finding in found["findings"]} == {"alpha"}
    assert "<svg" in Path("check.html").read_text()
    assert Path("check.csv").read_text().startswith("name,psi,limit,missing_then,")
    refused = files("check", "moved.parquet", "--model", "m.rankwood", "--html", "check.txt")
    assert refused.code == 2
    assert "must end in .html" in refused.err


def test_columns_as_they_lie_around(files):
    frame = table(2)
    frame.drop(columns=["label", "qid"]).to_parquet("bare.parquet", index=False)
    outcome = files("check", "bare.parquet", "--model", "m.rankwood")
    assert outcome.code == 0, outcome.err
    frame.assign(url="/", price=1.0).drop(columns="beta").to_csv("other.csv", index=False)
    outcome = files("check", "other.csv", "--model", "m.rankwood")
    assert outcome.code == 1, outcome.err
    assert "'beta' is not among the columns" in outcome.out
    assert "not known to the model: url, price" in outcome.out
    outcome = files("check", "same.parquet", "--model", "m.rankwood", "--drop", "gamma")
    assert outcome.code == 1
    assert "'gamma' is not among the columns" in outcome.out
    renamed = frame.rename(columns=dict(zip(NAMES, "xyz", strict=True)))
    renamed.to_csv("renamed.csv", index=False)
    outcome = files("check", "renamed.csv", "--model", "m.rankwood")
    assert outcome.code == 2
    assert "none of the model's 3 features is a column, such as 'alpha'" in outcome.err
    assert files("check", "same.parquet", "--model", "m.rankwood", "--label", "grade").code == 2


def test_labels_can_be_left_out(files):
    table(2).assign(label=0).to_parquet("unjudged.parquet", index=False)
    outcome = files("check", "unjudged.parquet", "--model", "m.rankwood")
    assert outcome.code == 1
    assert "labels: the stability index" in outcome.out
    ignored = files("check", "unjudged.parquet", "--model", "m.rankwood", "--ignore-labels")
    assert ignored.code == 0


def test_only_some_features(files):
    outcome = files(
        *("check", "moved.parquet", "--model", "m.rankwood", "--features", "beta,gamma,alpha")
    )
    assert outcome.code == 1
    assert "'alpha': the stability index is" in outcome.out


def test_letor_text_is_as_wide_as_the_model(rankwood):
    data = rw.make_ranking(120, 8, 4, seed=1)
    sparse = data.features.copy()
    sparse[::2, 3] = 0.0
    train = rw.RankingData(sparse, data.labels, data.query_ids)
    rw.write_letor(train, "train.txt", skip_zeros=True)
    fit = rankwood("train", "--model", "RankSVM", "--data", "train.txt", "--out", "m.rankwood")
    assert fit.code == 0, fit.err
    assert rankwood("check", "train.txt", "--model", "m.rankwood").code == 0
    sparse[:, 3] = 0.0
    rw.write_letor(rw.RankingData(sparse, data.labels, data.query_ids), "zero.txt", skip_zeros=True)
    outcome = rankwood("check", "zero.txt", "--model", "m.rankwood")
    assert outcome.code == 1, outcome.err
    assert "'4': the stability index is" in outcome.out


def test_what_letor_text_leaves_out_is_what_it_was_at_training(rankwood):
    lines = [f"{row % 3} qid:{row // 8} 1:{row % 7 + 1} 2:{row % 5 + 1}" for row in range(800)]
    kept = [line if row % 2 else line.rsplit(" ", 1)[0] for row, line in enumerate(lines)]
    Path("train.txt").write_text("\n".join(kept) + "\n")
    train = ("train", "--model", "GBRT", "--n-trees", 2, "--data", "train.txt", "--absent-missing")
    assert rankwood(*train, "--out", "m.rankwood").code == 0
    assert rankwood("check", "train.txt", "--model", "m.rankwood").code == 0
    Path("full.txt").write_text("\n".join(lines) + "\n")
    outcome = rankwood("check", "full.txt", "--model", "m.rankwood")
    assert outcome.code == 1
    assert "'2': 0.0% of the values are missing; 50.0% were" in outcome.out


def test_models_of_numbered_features_take_them_out_of_letor_text(rankwood):
    rw.write_letor(rw.make_ranking(100, 8, 4, seed=1), "train.txt")
    train = ("train", "--model", "GBRT", "--n-trees", 2, "--data", "train.txt", "--features", "2,4")
    assert rankwood(*train, "--out", "m.rankwood").code == 0
    outcome = rankwood("check", "train.txt", "--model", "m.rankwood", "--json")
    assert outcome.code == 0
    assert [each["name"] for each in json.loads(outcome.out)["features"]] == ["2", "4"]


def test_models_without_names_take_tables_by_place(rankwood):
    data = rw.make_ranking(100, 8, 3, seed=1)
    plain = rw.RankingData(data.features, data.labels, data.query_ids)
    rw.save(rw.GBRT(n_trees=2).fit(plain), "m.rankwood")
    table(1, 100).to_parquet("same.parquet", index=False)
    outcome = rankwood("check", "same.parquet", "--model", "m.rankwood", "--json")
    assert [each["name"] for each in json.loads(outcome.out)["features"]] == ["1", "2", "3"]
    assert outcome.code == 0


def test_a_model_without_a_record_says_what_to_do(files):
    forest = rw.load("m.rankwood").forest_
    rw.save(forest, "bare.rankwood")
    outcome = files("check", "same.parquet", "--model", "bare.rankwood")
    assert outcome.code == 2
    assert "has no record of its training data" in outcome.err


@pytest.mark.parametrize("error", [MemoryError(), OSError(5, "Input/output error")])
def test_an_error_is_never_taken_for_drift(error, files, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("rankwood.evaluation.drift.check_data", fail)
    outcome = files("check", "same.parquet", "--model", "m.rankwood")
    assert outcome.code == 2
    assert "error:" in outcome.err


@pytest.mark.parametrize(
    ("ranker", "valid", "names"),
    [
        (rw.GBRT(4, measure="map"), None, []),
        (rw.GBRT(4, measure="map"), "valid", ["map"]),
        (rw.GBRT(4, measure=["map", "p@5"]), {"late": "valid"}, ["late: map", "late: p@5"]),
        (rw.RandomForest(2), "valid", ["ndcg@10"]),
        (rw.BROOF(n_rounds=2, n_trees=2), "valid", ["ndcg@10"]),
        (rw.InitializedGBRT(2, forest_trees=30, max_leaves=2), "valid", []),
    ],
)
def test_inspect_shows_the_values_of_the_kept_model(ranker, valid, names, rankwood):
    data = rw.make_ranking(60, 8, 3, seed=1)
    held_out = rw.make_ranking(30, 8, 3, seed=2)
    parts = {"late": held_out} if isinstance(valid, dict) else valid and held_out
    model = ranker.fit(data, valid=parts)
    rw.save(model, "m.rankwood")
    shown = json.loads(rankwood("inspect", "m.rankwood", "--json").out)["validation"]
    assert sorted(shown) == names
    scores = model.predict(held_out)
    for name, value in shown.items():
        measure = name.rpartition(" ")[2]
        assert value == pytest.approx(rw.evaluate(scores, held_out, measure)[measure].value)


def test_inspect_shows_the_record_with_notes(files):
    model = rw.load("m.rankwood")
    rw.save(model, "noted.rankwood", notes={"purpose": "shop"})
    shown = files("inspect", "noted.rankwood")
    assert shown.code == 0
    assert "query lengths" in shown.out
    assert "purpose  shop" in shown.out
    data = json.loads(files("inspect", "noted.rankwood", "--json").out)["data"]
    assert set(data) == {"features", "judgments"}
    column = np.asarray(rw.read_table("same.parquet", label="label", query="qid").features[:, 0])
    assert sum(data["features"]["alpha"]["counts"]) == column.size
    del model.training_["statistics"]
    rw.save(model, "old.rankwood")
    old = files("inspect", "old.rankwood")
    assert old.code == 0
    assert "training data" not in old.out
    model.training_["statistics"] = (
        rw.RankSVM().fit(rw.make_ranking(20, 5, 2, seed=1)).training_["statistics"]
    )
    rw.save(model, "damaged.rankwood")
    assert "damaged" in files("inspect", "damaged.rankwood").err
