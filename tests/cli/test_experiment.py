"""``rankwood experiment``: running, going on, mistakes, failures."""

from __future__ import annotations

import csv
import re
import signal
import sys
from pathlib import Path

import numpy as np
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
subsample = 0.8

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
    assert results.record["repeat"]["command"] == (
        "rankwood experiment run.toml --out runs/run --jobs 0"
    )
    assert Path("runs/run/run.toml").read_text() == FILE


def test_one_name_is_one_number_in_terminal_report_and_files(rankwood, file):
    names = ["ndcg@10", "auc", "auc[over=queries]", "rmse", "rmse[over=queries]"]
    text = FILE.replace('also = ["map", "rmse"]', f"also = {names[1:]}")
    Path(file).write_text(text.replace("repetitions = 2", "repetitions = 1\nkeep_models = true"))
    outcome = rankwood("experiment", file, "--only", "RF")
    assert outcome.code == 0, outcome.err
    header, row = (line.split() for line in outcome.out.splitlines()[:2])
    shown = dict(zip(header[1:], row[1:], strict=True))
    assert list(shown)[:5] == names
    assert rankwood("report", "runs/run", "--formats", "csv,html,md").code == 0
    lines = Path("runs/run/report/tables/results.csv").read_text().splitlines()
    with Path("runs/run/report/tables/results.csv").open() as opened:
        in_csv = {line["measure"]: line for line in csv.DictReader(opened) if line["mean"]}
    assert len(lines) == 11
    folds = rw.make_folds(rw.make_ranking(24, 8, 6), 3, seed=0)
    tested = [
        rw.evaluate(
            rw.load(f"runs/run/models/RF~Fold{n}~1.rankwood"), fold.test, names, n_bootstrap=0
        )
        for n, fold in enumerate(folds, 1)
    ]
    page = Path("runs/run/report/report.md").read_text()
    for name in names:
        assert shown[name] == f"{float(in_csv[name]['mean']):.4f}", name
        assert shown[name] in page
    for name in ("auc", "rmse"):  # a value of all documents has no values by query
        assert float(in_csv[name]["mean"]) == pytest.approx(
            np.mean([t[name].value for t in tested])
        )
        assert in_csv[name]["queries"] == "0"
        assert in_csv[name]["low"] == ""
        assert shown[name] != shown[f"{name}[over=queries]"]
        own = np.concatenate([t[f"{name}[over=queries]"].per_query for t in tested])
        assert float(in_csv[f"{name}[over=queries]"]["mean"]) == pytest.approx(np.nanmean(own))
    assert "no values by query and no tests" in page


def test_a_pooled_measure_is_not_tested_even_where_it_decides(rankwood, file):
    Path(file).write_text(
        FILE.replace('"ndcg@10"', '"rmse"').replace('["map", "rmse"]', '["rmse[over=queries]"]')
    )
    outcome = rankwood("experiment", file)
    assert outcome.code == 0
    assert "rmse: of all documents together, fold by fold, and not tested" in outcome.out
    assert "means over queries are: rmse[over=queries]" in " ".join(outcome.out.split())
    assert rankwood("report", "runs/run", "--formats", "csv,html,md,tex").code == 0
    with Path("runs/run/report/tables/comparisons.csv").open() as opened:
        assert {line["measure"] for line in csv.DictReader(opened)} == {"rmse[over=queries]"}
    results = rw.read_run("runs/run")
    assert np.isnan(results.values("RF", "rmse")).all()
    assert np.isfinite(results.values("RF", "rmse[over=queries]")).all()


def test_the_strongest_of_several_baselines(rankwood, file):
    more = """
[[algorithm]]
name = "stump"
kind = "GBRT"
n_trees = 1
max_leaves = 2

[compare]
baseline = ["stump", "RF"]
correction = "none"
"""
    Path(file).write_text(FILE.partition("[compare]")[0] + more)
    outcome = rankwood("experiment", file)
    assert outcome.code == 0, outcome.err
    results = rw.read_run("runs/run")
    assert results.baseline == ("stump", "RF")
    means = {name: results.values(name, "ndcg@10").mean() for name in ("stump", "RF")}
    assert max(means, key=means.get) == "RF"
    assert "differs from the strongest of stump, RF (by ndcg@10 RF, map " in outcome.out
    page = rw.write_report(results, "report.html").read_text()
    assert "strongest of stump and RF by the measure (RF by ndcg@10" in page


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
    assert re.search(r"GBRT +GBRT +max_leaves +6 +0 +12", outcome.out)  # two values in each cell
    assert "folds: Fold1, Fold2, Fold3" in outcome.out
    assert not Path("runs").exists()


def test_a_small_trial_with_changes(rankwood, file):
    outcome = rankwood("experiment", file, "--small", "--set", "measures.primary=p@3", "--out", "s")
    assert outcome.code == 0, outcome.err
    assert "2 cells done" in outcome.out
    assert rw.read_run("s").primary == "p@3"
    command = rw.read_run("s").record["repeat"]["command"]
    assert command == (
        "rankwood experiment run.toml --set measures.primary=p@3 --out s --jobs 0 --small"
    )


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
        (("--set", "run.seed=x"), "--set run.seed=x: [run] seed: must be"),
        (("--set", "rum.seed=1"), "--set rum.seed=1: [rum]: there is no such table. Did you mean"),
        (("--set", "algorithm.RF.n_trees=0"), "--set algorithm.RF.n_trees=0: [[algorithm]] number"),
        (("--set", "data.folds=no/where"), "--set data.folds=no/where: [data] folds: there is no"),
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
    text = 'train = "train.txt"\nvalid = "vali.txt"\ntest = "test.txt"'
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
    def press():
        raise KeyboardInterrupt

    outcome = stopped_at_the_third(rankwood, file, monkeypatch, press)
    assert outcome.code == 130
    assert "error: interrupted." in outcome.err


def stopped_at_the_third(rankwood, file, monkeypatch, stop):
    return stopped(rankwood, file, monkeypatch, stop, 3)


def stopped(rankwood, file, monkeypatch, stop, at):
    """A run in which ``stop`` is called as the cell ``at`` begins."""
    from rankwood.experiments import cells

    run_cell, seen = cells.run_cell, []

    def run_two(task, *others):
        seen.append(task)
        if len(seen) == at:
            stop()
        return run_cell(task, *others)

    with monkeypatch.context() as patched:
        patched.setattr(cells, "run_cell", run_two)
        outcome = rankwood("experiment", file)
    assert (
        "Finished cells are kept in runs/run; the same command goes on with the rest."
        in outcome.err
    )
    results = rw.read_run("runs/run")
    assert len(results.cells) == at - 1
    assert results.record["status"] == "interrupted"
    return outcome


def test_sigterm_ends_a_run_like_ctrl_c(rankwood, file, monkeypatch):
    outcome = stopped_at_the_third(
        rankwood, file, monkeypatch, lambda: signal.raise_signal(signal.SIGTERM)
    )
    assert outcome.code == 143
    assert "error: ended by SIGTERM." in outcome.err
    assert "Traceback" not in outcome.err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # as it was


def test_sigterm_ends_a_run_even_where_its_exception_is_lost(rankwood, file, monkeypatch):
    class Finalized:
        def __del__(self):  # Python prints what is raised here, and goes on
            signal.raise_signal(signal.SIGTERM)

    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: said.append(lost.exc_type.__name__))
    outcome = stopped(rankwood, file, monkeypatch, Finalized, 2)
    assert said == ["Terminated"]
    assert outcome.code == 143
    assert "error: ended by SIGTERM." in outcome.err
    again = rankwood("experiment", file, "--dry-run")  # it ended after the first trial of a tuning
    assert "1 cell is there already and is kept" in again.err
    assert "1 trial of tunings that were stopped is kept" in again.err


def test_a_program_that_handles_sigterm_itself_goes_on_doing_so(rankwood, file, monkeypatch):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("SIGTERM"))
    try:
        monkeypatch.setattr(
            "rankwood.experiments.store.RunFolder.remove_unfinished",
            lambda _: signal.raise_signal(signal.SIGTERM),
        )
        assert rankwood("experiment", file).code == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == ["SIGTERM"]


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
