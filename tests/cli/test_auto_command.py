"""``rankwood auto``: a model from data in one command, its report, and what is refused before anything is trained."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import rankwood as rw

CANDIDATES = "RandomForest(n_trees=3, max_leaves=6), boosting=GBRT(n_trees=4, early_stopping=2)"
FEW = ("--time", "none", "--n-trials", "3", "--folds", "2", "--candidates", CANDIDATES)


@pytest.fixture
def files(tmp_path):
    """A training and a validation file."""
    paths = [tmp_path / "train.txt", tmp_path / "vali.txt"]
    for seed, path in enumerate(paths, start=1):
        rw.write_letor(rw.make_ranking(16, 10, 5, seed=seed), path)
    return paths


def test_a_model_is_found_scored_inspected_and_exported(rankwood, files):
    outcome = rankwood("auto", files[0], "--valid", files[1], *FEW, "--out", "m", "--no-blend")
    assert outcome.code == 0, outcome.err
    assert "→" in outcome.out
    assert "95 % interval" in outcome.out
    assert "chosen" in outcome.out
    candidates = [
        ("RandomForest", rw.RandomForest(3, max_leaves=6)),
        ("boosting", rw.GBRT(4, early_stopping=2)),
    ]
    same = rw.AutoRanker(time=None, n_trials=3, candidates=candidates, n_folds=2, blend=False)
    rw.save(same.fit(rw.read_letor(files[0]), valid=rw.read_letor(files[1])), "python")
    assert Path("m").read_bytes() == Path("python").read_bytes()
    shown = rankwood("inspect", "m").out
    assert "chosen by AutoRanker" in shown
    assert "3; all are in --json" in shown
    facts = json.loads(rankwood("inspect", "m", "--json").out)
    assert len(facts["training"]["auto"]["trials"]) == 3
    assert rankwood("evaluate", "m", files[1]).code == 0
    exported = rankwood("export", "m", "--to", "lightgbm", "m.txt", "--verify", files[1])
    assert exported.code == 0, exported.err


def test_the_report_the_table_and_json(rankwood, files):
    outcome = rankwood(
        "auto", files[0], *FEW, "--report", "trials.html", "--csv", "trials.csv", "--json"
    )
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert result["judged_on"] == "2 query folds of the training data"
    assert {trial["name"] for trial in result["trials"]} >= {"RandomForest", "boosting"}
    page = Path("trials.html").read_text()
    assert "<table>" in page
    assert "<title>Mean ndcg@10 with 95 % intervals</title>" in page
    assert all(trial["name"] in page for trial in result["trials"])
    assert Path("trials.csv").read_text().startswith("name,")
    assert Path("model.rankwood").exists()


def test_what_was_chosen_is_trained_again_on_both_parts(rankwood, files):
    outcome = rankwood("auto", files[0], "--valid", files[1], *FEW, "--refit")
    assert outcome.code == 0, outcome.err
    n_rows = sum(rw.read_letor(path).n_documents for path in files)
    assert rw.load("model.rankwood").training_["rows"] == n_rows
    assert f"{n_rows:,} documents" in outcome.out


def test_train_takes_it_as_a_ranker_like_others(rankwood, files):
    options = ("--n-trials", "2", "--time", "none", "--candidates", CANDIDATES)
    outcome = rankwood("train", "--model", "AutoRanker", "--data", files[0], *options)
    assert outcome.code == 0, outcome.err
    assert "model" in outcome.out
    assert rw.load("model.rankwood").training_["queries"] == 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--time", "0"), "time must be a number of seconds above 0"),
        (("--time", "-5"), "time must be a number of seconds above 0"),
        (("--time", "soon"), "time must be a number of seconds above 0.*got 'soon'"),
        (("--time", "none"), "time and n_trials are both None"),
        (("--n-trials", "0"), "n-trials"),
        (("--candidates", "Forest"), "ranker in candidates 'Forest' is not known"),
        (("--candidates", "Blend"), "other than Blend and AutoRanker"),
        (("--measure", "ndgc"), "Did you mean 'ndcg'"),
        (("--out", "no/such/folder/m"), "the folder of .* does not exist"),
        (("--out", "."), "cannot be written: it is a folder"),
        (("--report", "trials.txt"), "must end in .html or .htm"),
        (("--refit",), "it needs --valid"),
    ],
)
def test_wrong_options_are_refused_before_data_are_read(rankwood, options, message):
    outcome = rankwood("auto", "there-are-no-such-data.txt", *options)
    assert outcome.code == 2
    assert re.search(message, " ".join(outcome.err.replace("│", " ").split()))


def test_a_file_that_may_not_be_written_is_refused_before_the_search(rankwood, files, monkeypatch):
    from rankwood.cli import options

    monkeypatch.setattr(options.os, "access", lambda *_: False)
    outcome = rankwood("auto", files[0], *FEW, "--out", "m")
    assert outcome.code == 2
    assert "permission denied. Choose another --out" in outcome.err
    assert not Path("m").exists()


def test_data_that_cannot_be_learned_from(rankwood, tmp_path):
    (tmp_path / "nan.txt").write_text("nan qid:1 1:0.5\n1 qid:1 1:0.1\n")
    assert rankwood("auto", "nan.txt", *FEW).code == 2
    (tmp_path / "empty.txt").write_text("")
    outcome = rankwood("auto", "empty.txt", *FEW)
    assert outcome.code == 2
    assert not Path("model.rankwood").exists()
