"""Scores that runs keep, measures added without a fit, live cells, frames, and archives that repeat a run."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import shlex
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankwood as rw
from rankwood.cli.main import main
from rankwood.errors import DataError, InputError, ParameterError, RunError
from rankwood.experiments import cells, finished
from rankwood.experiments.cells import as_kept
from rankwood.experiments.config import read_experiment
from rankwood.experiments.runner import fingerprint, make_plan
from rankwood.experiments.store import RunFolder
from rankwood.measures.measure import parse_measure

pytestmark = pytest.mark.jit_only  # no kernels of its own

FOREST = {"name": "RF", "kind": "RandomForest", "n_trees": 3, "max_leaves": 6}
TUNED = {
    "name": "tuned",
    "kind": "GBRT",
    "features_per_node": 1.0,  # nothing is random
    "n_trees": 3,
    "min_leaf": 2,
    "tune": {"max_leaves": [2, 5]},
}
DATA = {"generate": {"queries": 18, "docs": 8, "features": 6}, "split": [0.4, 0.3, 0.3]}


def tables(*also, **changes):
    found = {
        "data": DATA,
        "run": {"repetitions": 2, "seed": 1, "jobs": 0},
        "measures": {"primary": "ndcg@10", "also": list(also)},
        "algorithm": [FOREST, TUNED],
    }
    for name, table in changes.items():
        found[name] = {**found.get(name, {}), **table} if isinstance(table, dict) else table
    return found


def means(results):
    return {(one.algorithm, one.fold, one.repetition): one.means for one in results.cells}


def assert_same_run(one, other):
    """Whether values and means are the same to the bit."""
    assert one.to_frame().equals(other.to_frame())
    assert means(one) == means(other)
    assert one.conventions == other.conventions


@pytest.fixture
def no_fit(monkeypatch):
    """A function that forbids fits from now on."""

    def forbid():
        def refuse(*_):
            pytest.fail("a model was fitted")

        monkeypatch.setattr(cells, "_fitted", refuse)

    return forbid


# Rounding.


def kept_by_definition(scores, queries):
    """The slow twin of ``as_kept``: query by query, from the least score to the greatest."""
    kept = np.empty(len(scores))
    for query in set(queries.tolist()):
        last = None
        for score in sorted(set(scores[queries == query].tolist())):
            rounded = np.float32(score)
            if last is not None and rounded <= last:
                rounded = np.nextafter(last, np.float32(np.inf))
            kept[(queries == query) & (scores == score)] = rounded
            last = rounded
    return kept


@pytest.mark.parametrize("spread", [1.0, 1e-7, 1e-9, 1e-15, 1e-40])
def test_rounding_keeps_every_order_and_tie_of_a_query(spread):
    draw = np.random.default_rng(3)
    queries = draw.integers(0, 5, 400)
    scores = 0.3 * (spread > 1e-20) + spread * draw.normal(size=400)
    scores[draw.integers(0, 400, 60)] = scores[0]  # ties
    kept = as_kept(scores, queries)
    assert np.array_equal(kept, kept_by_definition(scores, queries))
    assert np.array_equal(kept, kept.astype(np.float32))
    assert np.abs(kept - scores).max() < 1e-4 * max(spread, 0.3)
    for query in range(5):
        one, two = scores[queries == query], kept[queries == query]
        assert np.array_equal(np.sign(one[:, None] - one), np.sign(two[:, None] - two))


def test_scores_beyond_float32_stay_as_they_are():
    for scores in (np.array([1e200, 1.0, 2.0]), np.array([-np.inf, 0.1]), np.empty(0)):
        assert as_kept(scores, np.zeros(scores.size, int)) is scores


def test_the_scores_of_every_cell_are_kept_as_float32(tmp_path):
    results = rw.run_experiment(tables(), out=tmp_path)
    names = {path.stem for path in (tmp_path / "scores").iterdir()}
    assert names == {path.stem for path in (tmp_path / "cells").iterdir()}
    assert len(names) == len(results.cells) == 3
    for path in (tmp_path / "scores").iterdir():
        table = pq.read_table(path)
        assert table.schema.field("score").type == pa.float32()
        assert pq.ParquetFile(path).metadata.row_group(0).column(3).compression == "ZSTD"


# Measures that are added.


def test_an_added_measure_is_computed_from_the_scores(tmp_path, no_fit):
    more = ("map", "err", "rmse", "auc", "p@3[ties=average]")
    fresh = rw.run_experiment(tables(*more), out=tmp_path / "fresh")
    rw.run_experiment(tables("map"), out=tmp_path / "run")
    no_fit()
    plan = make_plan(read_experiment(tables(*more)), out=tmp_path / "run")
    assert plan.tasks == []
    assert {task.measures for task in plan.lacking.values()} == {more[1:]}
    assert len(plan.lacking) == len(plan.kept) == 3
    assert_same_run(rw.run_experiment(tables(*more), out=tmp_path / "run"), fresh)
    # Fewer measures, another order: nothing is left to do, and what was measured stays.
    again = rw.run_experiment(tables("err"), out=tmp_path / "run")
    assert again.measures == ["ndcg@10", "err"]
    assert make_plan(read_experiment(tables(*more)), out=tmp_path / "run").lacking == {}


def test_measures_are_added_to_a_run_by_a_call(tmp_path, no_fit):
    fresh = rw.run_experiment(tables("err", "ndcg@5"), out=tmp_path / "fresh")
    rw.run_experiment(tables(), out=tmp_path / "run")
    no_fit()
    assert_same_run(rw.measure_run(tmp_path / "run", ["err", "NDCG@5 "]), fresh)
    assert rw.measure_run(tmp_path / "run", "err").measures == ["ndcg@10", "err", "ndcg@5"]
    record = rw.read_run(tmp_path / "run").record
    assert record["measures"] == fresh.record["measures"]
    *_, call = record["repeat"]["command"].splitlines()
    assert call == f"rankwood.measure_run({str(tmp_path / 'run')!r}, ['err', 'ndcg@5'])"
    with pytest.raises(InputError, match=r"measure 'ndgc' is not known. Did you mean 'ndcg'"):
        rw.measure_run(tmp_path / "run", "ndgc")
    with pytest.raises(ParameterError, match="measures is empty"):
        rw.measure_run(tmp_path / "run", [])
    with pytest.raises(DataError, match="there is no folder"):
        rw.measure_run(tmp_path / "nowhere", "map")
    with RunFolder(tmp_path / "run").locked(), pytest.raises(RunError, match="is writing to"):
        rw.measure_run(tmp_path / "run", "map")


def test_other_conventions_of_the_same_text_are_measured_again(tmp_path, no_fit):
    lightgbm = tables(measures={"preset": "lightgbm"})
    fresh = rw.run_experiment(lightgbm, out=tmp_path / "fresh")
    before = rw.run_experiment(tables(algorithm=[FOREST]), out=tmp_path / "run")
    no_fit()
    untuned = {**lightgbm, "algorithm": [FOREST]}
    after = rw.run_experiment(untuned, out=tmp_path / "run")
    values = [run.values("RF", "ndcg@10") for run in (before, after, fresh)]
    assert np.array_equal(values[1], values[2], equal_nan=True)
    assert not np.array_equal(values[0], values[1], equal_nan=True)


def test_a_primary_measure_refits_what_is_tuned_by_it(tmp_path):
    rw.run_experiment(tables("map"), out=tmp_path)
    config = tables("ndcg@10", measures={"primary": "map"})
    config["measures"]["also"] = ["ndcg@10"]
    plan = make_plan(read_experiment(config), out=tmp_path)
    assert {task.cell.algorithm for task in plan.tasks} == {"tuned"}
    assert {cell.algorithm for cell in plan.kept} == {"RF"}
    assert plan.lacking == {}


def test_without_scores_a_measure_needs_fits(tmp_path):
    bare = {"keep": "values"}
    rw.run_experiment(tables(run=bare), out=tmp_path / "run")
    assert list((tmp_path / "run" / "scores").iterdir()) == []
    with pytest.raises(
        DataError,
        match=r"keeps no scores of 3 cells, which must be fitted again: RF, split, repeti",
    ):
        rw.measure_run(tmp_path / "run", "map")
    plan = make_plan(read_experiment(tables("map", run=bare)), out=tmp_path / "run")
    assert len(plan.tasks) == len(plan.without_scores) == 3
    run = rw.run_experiment(tables("map", run=bare), out=tmp_path / "run")
    assert_same_run(run, rw.run_experiment(tables("map"), out=tmp_path / "fresh"))


def test_scores_of_another_fit_are_refused(tmp_path):
    rw.run_experiment(tables(), out=tmp_path)
    one, two = sorted((tmp_path / "scores").glob("RF*"))
    shutil.copy(two, one)
    with pytest.raises(
        DataError, match=r"scores that are kept of RF, split, repetition 1 do not give the ndcg@10"
    ):
        rw.measure_run(tmp_path, "map")
    one.write_bytes(b"no parquet")
    with pytest.raises(DataError, match=r"RF~split~1.parquet is damaged. Remove it"):
        rw.measure_run(tmp_path, "map")
    assert rw.read_run(tmp_path).measures == ["ndcg@10"]


def test_a_stop_while_measuring_loses_nothing(tmp_path, monkeypatch):
    fresh = rw.run_experiment(tables("map"), out=tmp_path / "fresh")
    before = rw.run_experiment(tables(), out=tmp_path / "run")
    write, written = RunFolder.write, []

    def stop(self, outcome):
        write(self, outcome)
        written.append(outcome)
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        rw.run_experiment(tables("map"), out=tmp_path / "run")
    assert_same_run(rw.read_run(tmp_path / "run"), before)
    monkeypatch.setattr(RunFolder, "write", write)
    assert len(make_plan(read_experiment(tables("map")), out=tmp_path / "run").lacking) == 2
    assert_same_run(rw.run_experiment(tables("map"), out=tmp_path / "run"), fresh)


def test_sizes_by_measure_are_chosen_by_the_kept_model(tmp_path, no_fit):
    every = {"features_per_node": 1.0}
    boosted = [{"kind": "GBRT", "n_trees": 6, "max_leaves": 4, "min_leaf": 2, **every}]
    change = {"algorithm": boosted, "run": {"keep": "models"}, "measures": {"size": "validated"}}
    fresh = rw.run_experiment(
        tables(
            "p@3", "map", **change | {"measures": {"size": "validated", "also": ["p@3", "map"]}}
        ),
        out=tmp_path / "fresh",
    )
    rw.run_experiment(tables(**change), out=tmp_path / "run")
    no_fit()
    run = rw.measure_run(tmp_path / "run", ["p@3", "map"])
    assert_same_run(run, fresh)
    assert run.sizes() == fresh.sizes()
    shutil.rmtree(tmp_path / "run" / "models")
    with pytest.raises(DataError, match=r"keeps no models of 1 cells.*size = \"validated\""):
        rw.measure_run(tmp_path / "run", "err")


def test_weights_and_ids_of_the_test_queries_count(tmp_path):
    data = rw.make_ranking(20, 6, 4, doc_ids=True)
    weights = {query: 1.0 + number for number, query in enumerate(data.queries.tolist())}
    weighted = rw.RankingData(
        np.round(data.features, 1), data.labels, data.query_ids, data.doc_ids, query_weights=weights
    )
    rw.write_table(weighted, tmp_path / "data.parquet")
    columns = {"data": str(tmp_path / "data.parquet"), "doc": "doc_id", "split": [0.4, 0.3, 0.3]}
    config = tables("map[ties=docid]", "auc", algorithm=[{**FOREST, "n_trees": 1, "max_leaves": 2}])
    config["data"] = columns
    fresh = rw.run_experiment(config, out=tmp_path / "fresh")
    assert {cell.status for cell in fresh.cells} == {"done"}, fresh.cells[0].error
    config["measures"]["also"] = []
    rw.run_experiment(config, out=tmp_path / "run")
    assert_same_run(rw.measure_run(tmp_path / "run", ["map[ties=docid]", "auc"]), fresh)


def as_version_0_1(folder, config):
    """Rewrite a run as version 0.1 wrote it: other fingerprints, float64 scores of repetition 1 only."""
    experiment = read_experiment(config)
    run = RunFolder(folder)
    digests = run.record()["data"]["digests"]
    for cell in experiment.cells():
        table = pq.read_table(run.cell_path(cell))
        record = run.cell_record(cell)
        del record["measures"]
        texts = [str(parse_measure(text)) for text in experiment.measures]
        record["fingerprint"] = fingerprint(experiment, cell, digests[cell.fold], texts)
        metadata = {b"rankwood": json.dumps(record).encode()}
        pq.write_table(table.replace_schema_metadata(metadata), run.cell_path(cell))
        path = run.scores_path(cell)
        scores = pq.read_table(path).replace_schema_metadata(None)
        score = scores.column("score").cast(pa.float64())
        if cell.repetition == 1:
            old = path.with_name(path.name.replace("~1.parquet", ".parquet"))
            pq.write_table(scores.set_column(3, "score", score), old)
        path.unlink()
    record = run.record()
    for one in record["configuration"]["algorithms"]:
        del one["is_random"]
    record["repeat"] = {"command": f"rankwood.run_experiment({config!r})", "folder": "."}
    run.write_record(record, "")


def test_runs_of_version_0_1_are_read_continued_and_measured(tmp_path, no_fit):
    config = tables("map", algorithm=[FOREST, {**TUNED, "subsample": 0.8}, {"kind": "RankSVM"}])
    fresh = rw.run_experiment(config, out=tmp_path / "run")
    as_version_0_1(tmp_path / "run", config)
    assert rw.read_run(tmp_path / "run").to_frame().equals(fresh.to_frame())
    assert rw.read_run(tmp_path / "run").rankings("RF", 0) is not None
    assert make_plan(read_experiment(config), out=tmp_path / "run").tasks == []
    more = {**config, "measures": {"primary": "ndcg@10", "also": ["map", "err"]}}
    plan = make_plan(read_experiment(more), out=tmp_path / "run")
    second = [("RF", 2), ("tuned", 2)]
    assert [(cell.algorithm, cell.repetition) for cell in plan.without_scores] == second
    assert [(task.cell.algorithm, task.cell.repetition) for task in plan.tasks] == second
    assert len(plan.lacking) == 3
    with pytest.raises(
        DataError,
        match=r"keeps no scores of 2 cells.*RF, split, repetition 2; tuned, split, repetition 2",
    ):
        rw.measure_run(tmp_path / "run", "err")
    again = rw.run_experiment(more, out=tmp_path / "run")
    assert_same_run(again, rw.run_experiment(more, out=tmp_path / "fresh"))
    no_fit()
    rw.measure_run(tmp_path / "run", "mrr")  # the scores of all cells are there now
    for wanted in (config, more):
        plan = make_plan(read_experiment(wanted), out=tmp_path / "run")
        assert (plan.tasks, plan.lacking) == ([], {})


@pytest.mark.parametrize(
    ("command", "origin"),
    [
        (
            "rankwood experiment 'my run.toml' --set run.seed=3 --set 'data.folds=a b' --small",
            {"given": "my run.toml", "overrides": ["run.seed=3", "data.folds=a b"], "small": True},
        ),
        (
            "rankwood.run_experiment({'run': {'seed': 3}}, overrides=['run.seed=4'])",
            {"given": {"run": {"seed": 3}}, "overrides": ["run.seed=4"], "small": False},
        ),
    ],
)
def test_commands_that_version_0_1_recorded_are_understood(command, origin):
    assert finished.origin_of(command) == {**origin, "data": None}


# Live cells.


def test_cells_that_are_no_part_of_the_experiment_move_to_stale(tmp_path):
    rw.run_experiment(tables(run={"keep": "models"}), out=tmp_path)
    rw.run_experiment(
        tables(algorithm=[TUNED], run={"repetitions": 1, "keep": "models"}), out=tmp_path
    )
    for name in ("cells", "scores", "models"):
        assert {path.stem for path in (tmp_path / name).iterdir()} == {"tuned~split~1"}
        stale = sorted(
            path.stem.rpartition("~")[0] for path in (tmp_path / "stale" / name).iterdir()
        )
        assert stale == ["RF~split~1", "RF~split~2"]
    # A changed cell moves with its scores and its model.
    changed = {**TUNED, "n_trees": 4}
    rw.run_experiment(tables(algorithm=[changed]), out=tmp_path)
    for name in ("cells", "scores", "models"):
        assert len(list((tmp_path / "stale" / name).iterdir())) == 3
    assert not list((tmp_path / "models").iterdir())


# Frames.


def test_a_frame_has_a_row_for_every_value(tmp_path, monkeypatch):
    config = tables("map", data={"folds": 3}, run={"jobs": 0})
    del config["data"]["split"]
    results = rw.run_experiment(config, out=tmp_path)
    frame = results.to_frame()
    assert list(frame) == ["algorithm", "fold", "repetition", "query", "measure", "value"]
    assert len(frame) == 2 * 18 * (2 + 1)  # the tuned one is not random
    one = frame.query("algorithm == 'RF' and measure == 'map' and repetition == 2")
    assert list(zip(one.fold, one["query"], strict=True)) == results.queries
    assert np.array_equal(one.value, results.values_by_repetition["RF", "map"][1])
    assert set(frame.query("algorithm == 'tuned'").repetition) == {1}
    next((tmp_path / "cells").glob("RF~Fold2~2.parquet")).unlink()
    part = rw.read_run(tmp_path).to_frame()
    assert len(part) == len(frame) - 2 * 6
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"needs the package 'pandas'.*use to_arrow"):
        results.to_frame()
    assert results.to_arrow().num_rows == len(frame)


def test_a_frame_of_nothing(tmp_path):
    rw.run_experiment(tables(), out=tmp_path, only=["RF"])
    for path in (tmp_path / "cells").iterdir():
        path.unlink()
    assert rw.read_run(tmp_path).to_frame().empty


# Deterministic rankers.


def test_what_is_not_random_runs_once(tmp_path, capsys):
    kinds = [FOREST, TUNED, {"kind": "RankSVM", "repetitions": 2}]
    results = rw.run_experiment(tables(algorithm=kinds), out=tmp_path / "run")
    counts = {name: sum(c.algorithm == name for c in results.cells) for name in results.algorithms}
    assert counts == {"RF": 2, "tuned": 1, "RankSVM": 1}
    assert results.once == ("tuned", "RankSVM")
    assert results.record["seeds"]["by fold and repetition"]["split"][1] != 0
    page = rw.write_report(results, tmp_path / "report.html").read_text()
    assert (
        "Not random, and so run once in each fold, not in 2 repetitions: tuned and RankSVM." in page
    )
    assert main(["measure", str(tmp_path / "run"), "-m", "map"]) == 0
    out = capsys.readouterr().out
    assert out.count("1 (once)") == 2
    assert "once: not random, and so run once in each fold" in out


@pytest.mark.parametrize(
    ("changes", "is_random"),
    [
        ({}, False),
        ({"tune": {"subsample": [1.0, 0.5]}}, True),
        ({"tune": {"max_leaves": [2, 5]}, "tune_method": "optuna"}, True),
        ({"subsample": 0.5}, True),
    ],
)
def test_tuning_may_be_what_is_random(changes, is_random):
    if changes.get("tune_method") == "optuna":
        pytest.importorskip("optuna")
    (one,) = read_experiment(
        tables(algorithm=[{"kind": "GBRT", "features_per_node": 1.0, **changes}])
    ).algorithms
    assert one.is_random is is_random
    assert one.repetitions == (2 if is_random else 1)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            {"keep": "all"},
            r"\[run\] keep: must be one of values, scores, winners, models, got 'all'",
        ),
        ({"keep": "models", "keep_models": True}, r"\[run\] keep_models: is said by keep too"),
        ({"keep": True}, r"\[run\] keep: must be text, got true"),
    ],
)
def test_what_is_kept_is_said_once(run, message):
    with pytest.raises(ParameterError, match=message):
        read_experiment(tables(run=run))


# Archives.


@pytest.fixture
def small_report(monkeypatch):
    """Archives with some of the report only, which takes most of their time."""
    monkeypatch.setattr(finished, "_formats", lambda: ["csv", "svg"])


FILE = """
[data]
folds = "somewhere/collection"
[run]
repetitions = 2
[measures]
primary = "ndcg@10"
also = ["map"]
costs = "costs/of features.txt"
[[algorithm]]
name = "RF"
kind = "RandomForest"
n_trees = 3
max_leaves = 6
[[algorithm]]
kind = "RankSVM"
"""


@pytest.fixture
def collection(tmp_path):
    """Folds on disk, and a file of costs beside an experiment's file."""
    home = tmp_path / "home"
    folds = rw.make_folds(rw.make_ranking(18, 8, 6), 3, seed=0)
    for name, fold in zip(folds.names, folds, strict=True):
        folder = home / "somewhere" / "collection" / name
        folder.mkdir(parents=True)
        for part, rows in zip(("train", "vali", "test"), fold, strict=True):
            rw.write_letor(rows, folder / f"{part}.txt")
    (home / "costs").mkdir()
    (home / "costs" / "of features.txt").write_text("".join(f"{n} {n}\n" for n in range(1, 7)))
    (home / "bench.toml").write_text(FILE)
    return home


def unpacked(archive, folder):
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    return folder / archive.stem


@pytest.mark.usefixtures("small_report")
def test_an_archive_repeats_the_run_elsewhere(tmp_path, collection, monkeypatch):
    monkeypatch.chdir(collection)
    call = ["experiment", "bench.toml", "--set", "algorithm.RF.n_trees=4", "--jobs", "0", "--quiet"]
    assert main(call) == 0
    assert main(["measure", "runs/bench", "-m", "ndcg@5", "--quiet"]) == 0
    assert main(["bundle", "runs/bench", "--out", "bench.zip", "--quiet"]) == 0
    before = rw.read_run("runs/bench")
    assert before.record["repeat"]["command"].splitlines() == [
        "rankwood experiment bench.toml --set algorithm.RF.n_trees=4 --out runs/bench --jobs 0",
        "rankwood measure runs/bench -m ndcg@5",
    ]
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree("somewhere/collection", elsewhere / "copy of it")
    shutil.move("somewhere", "gone")
    folder = unpacked(Path("bench.zip"), elsewhere)
    assert {path.name for path in folder.iterdir()} == {
        *(
            "README.md",
            "MANIFEST.sha256",
            "record.json",
            "run.toml",
            "requirements.txt",
            "data.json",
        ),
        *("repeat.sh", "cells", "scores", "report", "files"),
    }
    for line in (folder / "MANIFEST.sha256").read_text().splitlines():
        digest, name = line.split("  ", 1)
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert f"rankwood=={rw.__version__}" in (folder / "requirements.txt").read_text()
    assert len(json.loads((folder / "data.json").read_text())["files"]) == 9
    assert list((folder / "report" / "figures").glob("*.svg"))
    assert_same_run(rw.read_run(folder), before)  # it is the folder of a run
    shutil.rmtree(collection)
    monkeypatch.chdir(folder)
    for line in shell_commands(folder / "repeat.sh", elsewhere / "copy of it"):
        assert main([*line, "--quiet"]) == 0
    assert_same_run(rw.read_run("repeated"), before)
    assert "PATH/TO/DATA --out repeated --jobs 0" in Path("README.md").read_text()


def shell_commands(script, data):
    """The arguments of each call of rankwood in a script, as a shell passes them."""
    for line in script.read_text().splitlines():
        if line.startswith("rankwood "):
            text = line.replace('"${1:?the folder of the data}"', shlex.quote(str(data)))
            yield shlex.split(text)[1:]


@pytest.mark.usefixtures("small_report")
def test_an_archive_of_a_run_from_python_repeats_it(tmp_path, monkeypatch):
    before = rw.run_experiment(tables("map"), out=tmp_path / "run", overrides=["run.seed=5"])
    rw.measure_run(tmp_path / "run", "err")
    archive = rw.bundle_run(tmp_path / "run")
    assert archive == tmp_path / "run.zip"
    folder = unpacked(archive, tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(folder / "repeat.py"), run_name="__main__")
    assert_same_run(rw.read_run(folder / "repeated"), rw.read_run(tmp_path / "run"))
    assert before.algorithms == rw.read_run(folder).algorithms


@pytest.mark.usefixtures("small_report")
def test_models_are_packed_unless_they_are_not_wanted(tmp_path):
    rw.run_experiment(tables(run={"keep": "models"}), out=tmp_path / "run")
    for wanted, count in ((True, 3), (False, 0)):
        path = rw.bundle_run(tmp_path / "run", tmp_path / "one.zip", models=wanted)
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        assert sum(name.startswith("one/models/") for name in names) == count
        assert all(name.startswith("one/") for name in names)
    with pytest.raises(ParameterError, match=r"an archive is a .zip file, got .*run.tar"):
        rw.bundle_run(tmp_path / "run", tmp_path / "run.tar")
    with pytest.raises(DataError, match="there is no folder"):
        rw.bundle_run(tmp_path / "nowhere")


def test_the_data_may_be_in_another_folder(tmp_path, collection):
    other = tmp_path / "other"
    other.mkdir()
    part = collection / "somewhere" / "collection" / "Fold1"
    for name in ("train", "vali", "test"):
        shutil.copy(part / f"{name}.txt", other)
    names = {"train": "train", "valid": "vali", "test": "test"}
    files = {part: f"/nowhere/{name}.txt" for part, name in names.items()}
    config = {**tables(algorithm=[FOREST]), "data": files}
    source = read_experiment(config, data=other).data
    assert set(source.folds[0].files.values()) == {str(other / f"{n}.txt") for n in names.values()}
    with pytest.raises(DataError, match=r"--data: there is no folder .*missing"):
        read_experiment(config, data=tmp_path / "missing")
    with pytest.raises(ParameterError, match=r"--data: this experiment reads no files"):
        read_experiment(tables(), data=other)
    os.unlink(other / "vali.txt")
    with pytest.raises(ParameterError, match=r"vali.txt does not exist"):
        read_experiment(config, data=other)
