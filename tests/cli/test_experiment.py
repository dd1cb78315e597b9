"""``rankwood experiment``: running, going on, mistakes, failures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rankwood as rw

FILE = """\
[data]
generate = { queries = 24, docs = 8, features = 6 }
folds = 3

[run]
jobs = 0
repetitions = 2

[measures]
primary = "ndcg@10"
also = ["map", "rmse"]

[[algorithm]]
name = "RF"
kind = "RandomForest"
n_trees = 3

[[algorithm]]
kind = "GBRT"
n_trees = 3
tune = { max_leaves = [2, 4] }

[compare]
baseline = "RF"
"""


@pytest.fixture
def file(rankwood):
    Path("run.toml").write_text(FILE)
    return "run.toml"


def test_an_experiment_from_end_to_end(rankwood, file):
    outcome = rankwood("experiment", file)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["algorithm", "ndcg@10", "map", "rmse", "cells", "seconds"]
    results = rw.read_run("runs/run")
    value = results.values("RF", "ndcg@10").mean()
    assert re.match(rf"RF +{value:.4f}", lines[1])
    assert "runs/run: 12 cells done" in outcome.out
    assert "2 algorithms × 3 folds × 2 repetitions, 12 cells to run on this process" in outcome.err
    assert results.record["repeat"]["command"] == "rankwood experiment run.toml"
    assert Path("runs/run/run.toml").read_text() == FILE


def test_the_same_command_again_goes_on(rankwood, file):
    assert rankwood("experiment", file, "--only", "RF", "--out", "here").code == 0
    outcome = rankwood("experiment", file, "--out", "here")
    assert outcome.code == 0
    assert "6 cells to run" in outcome.err
    assert "6 cells are there already and are kept" in outcome.err
    Path(file).write_text(FILE.replace("n_trees = 3", "n_trees = 4", 1))
    outcome = rankwood("experiment", file, "--out", "here")
    assert "6 cells are run anew: their settings or data have changed" in outcome.err
    assert rankwood("experiment", file, "--out", "here", "--quiet").err == ""


def test_a_dry_run_writes_nothing(rankwood, file):
    outcome = rankwood("experiment", file, "--dry-run")
    assert outcome.code == 0
    assert re.search(r"GBRT +GBRT +max_leaves +6 +0", outcome.out)
    assert "folds: Fold1, Fold2, Fold3" in outcome.out
    assert not Path("runs").exists()


def test_a_small_trial_with_changes(rankwood, file):
    outcome = rankwood("experiment", file, "--small", "--set", "measures.primary=p@3", "--out", "s")
    assert outcome.code == 0, outcome.err
    assert "2 cells done" in outcome.out
    assert rw.read_run("s").primary == "p@3"
    command = rw.read_run("s").record["repeat"]["command"]
    assert command == "rankwood experiment run.toml --set measures.primary=p@3 --small"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("jobs = 0", "job = 0", "run.toml, line 6: [run] job: there is no such key. Did you mean 'jobs'?"),
        ("RandomForest", "RandomForst", "run.toml, line 15: [[algorithm]] number 1, kind: 'RandomForst'"),
        ("generate = { queries = 24, docs = 8, features = 6 }", 'data = "no.txt"', "run.toml, line 2: [data] data:"),
        ("max_leaves = [2, 4]", "learning_rate = [0.1, 3.0]", "line 21: [[algorithm]] number 2, tune.learning_rate: "),
        ("[compare]", "[compare", "run.toml cannot be read as TOML:"),
    ],
)  # fmt: skip
def test_mistakes_are_one_message(rankwood, file, old, new, message):
    Path(file).write_text(FILE.replace(old, new))
    outcome = rankwood("experiment", file)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert not Path("runs").exists()


def test_wrong_calls(rankwood, file):
    for options, message in (
        (("--only", "XGB"), "--only: algorithm 'XGB' is not known."),
        (("--set", "run"), "--set must be written as table.key=value"),
        (("--out", "run.toml"), "is a file: choose another folder"),
    ):
        outcome = rankwood("experiment", file, *options)
        assert outcome.code == 2
        assert message in outcome.err
    assert rankwood("experiment", "nowhere.toml").code == 2


def test_failed_cells_end_with_1_and_can_be_tried_again(rankwood):
    data = rw.make_ranking(18, 6, 4)
    train, vali, test = rw.split_queries(data)
    for name, part in (("train", train), ("vali", vali), ("test", test)):
        rw.write_letor(part, f"{name}.txt")
    good = Path("test.txt").read_text()
    Path("test.txt").write_text("1 qid:1 1:x\n")
    text = 'train = "train.txt"\nvali = "vali.txt"\ntest = "test.txt"'
    Path("f.toml").write_text(re.sub(r"generate.*\nfolds.*", text, FILE))
    outcome = rankwood("experiment", "f.toml")
    assert outcome.code == 1
    assert "error: 4 cells failed:" in outcome.err
    assert "test.txt, line 1" in outcome.err
    assert "--retry-failed runs these cells again" in outcome.err
    assert "Traceback (" not in outcome.err
    again = rankwood("experiment", "f.toml")
    assert again.code == 1
    assert "4 of them have failed before; --retry-failed runs them again" in again.err
    Path("test.txt").write_text(good)
    assert rankwood("experiment", "f.toml").code == 0


def test_ctrl_c_says_how_to_go_on(rankwood, file, monkeypatch):
    from rankwood.experiments import workers

    run_cell, seen = workers.run_cell, []

    def stop_at_the_third(task, cache):
        seen.append(task)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return run_cell(task, cache)

    monkeypatch.setattr(workers, "run_cell", stop_at_the_third)
    outcome = rankwood("experiment", file)
    assert outcome.code == 130
    assert (
        "Finished cells are kept in runs/run; the same command goes on with the rest."
        in outcome.err
    )
    assert len(rw.read_run("runs/run").cells) == 2


def test_where_dask_is(rankwood, file, monkeypatch):
    asked = []

    def note(plan, *, dask, progress):
        asked.append(dask)
        raise KeyboardInterrupt

    monkeypatch.setattr("rankwood.experiments.runner.carry_out", note)
    for options in (["--dask", "local"], ["--dask", "tcp://host:8786"], []):
        rankwood("experiment", file, *options)
    assert asked == ["local", "tcp://host:8786", None]


def test_sizes_that_were_chosen_are_printed(rankwood):
    Path("run.toml").write_text(
        """
[data]
generate = { queries = 20, docs = 8, features = 6 }
[run]
jobs = 0
[measures]
primary = "p@5"
size = "validated"
[[algorithm]]
kind = "GBRT"
n_trees = 3
"""
    )
    outcome = rankwood("experiment", "run.toml", "--out", "run")
    assert outcome.code == 0, outcome.err
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["algorithm", "measure", "rounds", "trees", "valid", "test", "cost"] in lines
