"""The ready files for the papers' tables: each is run from end to end, small."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import rankwood as rw
from rankwood.experiments.config import read_experiment

pytestmark = pytest.mark.jit_only  # no kernels of its own

FOLDER = Path(__file__).parents[2] / "experiments"
OF_CLICKS = FOLDER / "clicks.toml"  # needs a log with positions
FILES = sorted(path for path in FOLDER.glob("*.toml") if path != OF_CLICKS)
LARGE = {
    *("mohan-table-2.4.toml", "mohan-table-4.2.toml", "broof-tables-6.1-6.2.toml"),
    "every-ranker.toml",
}


def kinds_of(values) -> set[str]:
    """Every estimator that a file names, inner ones too."""
    if isinstance(values, list):
        return set().union(*map(kinds_of, values)) if values else set()
    if not isinstance(values, dict):
        return set()
    own = {values["kind"]} if "kind" in values else set()
    return own.union(*map(kinds_of, values.values())) if values else own


def skip_what_lacks(path: Path) -> None:
    algorithms = tomllib.loads(path.read_text())["algorithm"]
    kinds = kinds_of([one for one in algorithms if not one.get("optional")])
    if "MLPRanker" in kinds and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] if path.name in LARGE else []) for path in FILES],
    ids=lambda path: path.stem,
)
def test_a_papers_experiment_runs_small(path, tmp_path):
    skip_what_lacks(path)
    results = rw.run_experiment(path, out=tmp_path / "run", jobs=0, small=True)
    assert {cell.status for cell in results.cells} == {"done"}, next(
        cell.message for cell in results.cells if cell.status == "failed"
    )
    assert len(results.cells) == len(results.algorithms)
    for algorithm in results.algorithms:
        assert results.values(algorithm, results.primary).size


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_papers_experiment_is_right_at_full_size(path, tmp_path):
    """Only its data are missing: with others in their place everything in the file is accepted."""
    skip_what_lacks(path)
    tables = tomllib.loads(path.read_text())
    kept = {key: tables["data"][key] for key in ("binarise",) if key in tables["data"]}
    tables["data"] = {"generate": {"queries": 10, "docs": 5, "features": 6}} | kept
    text = repr(tables)
    if "costs.tsv" in text:
        tables = eval(text.replace("'costs.tsv'", "[1, 4, 16, 1, 4, 16]"))
    experiment = read_experiment(tables)
    baselines = experiment.baseline
    baselines = {baselines} if isinstance(baselines, str) else set(baselines)
    assert baselines <= {algorithm.name for algorithm in experiment.algorithms}


def test_the_experiment_on_clicks_runs_on_a_log(tmp_path, monkeypatch):
    """Trained on clicks with positions, measured on judgments without; a position bias comes from a file."""
    monkeypatch.chdir(tmp_path)
    judged = rw.make_ranking(n_queries=20, docs_per_query=8, n_features=5, seed=2)
    scores = [judged.features[:, number].astype(float) for number in (0, 1)]
    log = rw.simulate_clicks(
        judged.take_queries(range(12)),
        [s[: judged.query_offsets[12]] for s in scores],
        sessions=300,
        cutoff=5,
        seed=1,
    )
    log.write("log.parquet")
    rw.write_table(judged.take_queries(range(12, 20)), "test.parquet")
    rw.position_bias(None, [1.0, 0.5, 0.3, 0.2, 0.2]).save("bias.json")
    tables = tomllib.loads(OF_CLICKS.read_text())
    for algorithm in tables["algorithm"]:
        algorithm["n_trees"] = 3
    tables["algorithm"].append(
        {**tables["algorithm"][-1], "name": "with", "position_bias": "bias.json"}
    )
    results = rw.run_experiment(tables, out=tmp_path / "run", jobs=0)
    assert {cell.status for cell in results.cells} == {"done"}, [c.message for c in results.cells]
    means = {name: results.values(name, results.primary).mean() for name in results.algorithms}
    assert means["forest"] != means["with"]


def test_every_file_is_in_the_readme():
    text = (FOLDER / "README.md").read_text()
    for path in (*FILES, OF_CLICKS):
        assert f"`{path.name}`" in text, path.name
    assert set(re.findall(r"`([\w.-]+\.toml)`", text)) == {
        path.name for path in (*FILES, OF_CLICKS)
    }


def test_table_6_1_of_mohan_has_a_size_and_a_cost_for_each_measure(tmp_path):
    """Eq. 6.1 as printed, exits over all documents: the settings of the thesis, and all figures of its table."""
    path = FOLDER / "mohan-table-6.1.toml"
    tables = tomllib.loads(path.read_text())
    assert tables["data"]["binarise"] == 3
    assert tables["data"]["sample"] == [1266, 1266, 3798]  # as many queries as Yahoo's set 2
    for algorithm in tables["algorithm"]:
        assert algorithm["n_trees"] == {"RandomForest": 2000, "GBRT": 1000}[algorithm["kind"]]
        if "feature_costs" in algorithm:
            assert (algorithm["cost_weight"], algorithm["cost_scale"]) == (1.0, "raw")
        if "early_exit" in algorithm:
            exits = rw.EarlyExit.parse(algorithm["early_exit"])
            assert (exits.every, exits.scope) == (100, "all")
    results = rw.run_experiment(path, out=tmp_path / "run", jobs=0, small=True)
    rows = results.sizes()
    assert len(rows) == 2 * 2 * 4 * 3  # rankers, λ, shares that leave, measures
    assert all(row["cost"] > row["trees"] * 0.5 and row["valid"] is not None for row in rows)
