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
FILES = sorted(FOLDER.glob("*.toml"))
LARGE = {"mohan-table-2.4.toml", "mohan-table-4.2.toml", "broof-tables-6.1-6.2.toml"}


def kinds_of(values) -> set[str]:
    """Every estimator that a file names, inner ones too."""
    if isinstance(values, list):
        return set().union(*map(kinds_of, values)) if values else set()
    if not isinstance(values, dict):
        return set()
    own = {values["kind"]} if "kind" in values else set()
    return own.union(*map(kinds_of, values.values())) if values else own


def skip_what_lacks(path: Path) -> None:
    kinds = kinds_of(tomllib.loads(path.read_text())["algorithm"])
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


def test_every_file_is_in_the_readme():
    text = (FOLDER / "README.md").read_text()
    for path in FILES:
        assert f"`{path.name}`" in text, path.name
    assert set(re.findall(r"`([\w.-]+\.toml)`", text)) == {path.name for path in FILES}
