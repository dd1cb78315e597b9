"""Weights that scores are composed with, in the cells of a run, its results and its report; blends in experiment files."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import ParameterError, UnknownName
from rankwood.experiments.config import read_experiment
from rankwood.experiments.settings import build, prepare

pytestmark = pytest.mark.jit_only  # no kernels of its own

FOREST = {"kind": "RandomForest", "n_trees": 4, "max_leaves": 6}
BOOSTING = {"kind": "GBRT", "n_trees": 3, "min_leaf": 3}


def experiment(**changes):
    return {
        "data": {
            "generate": {"queries": 30, "docs": 8, "features": 5},
            "split": [0.5, 0.25, 0.25],
        },
        "algorithm": [
            {"name": "RF", **FOREST},
            {"name": "OLS", "kind": "OrdinalRanker", "scoring": "least_squares", "base": FOREST},
            {
                "name": "both",
                "kind": "Blend",
                "parts": {"forest": FOREST, "boosting": BOOSTING},
                **changes,
            },
        ],
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    given = experiment(tune={"parts": {"boosting": {"n_trees": [2, 3]}}})
    rw.run_experiment(given, out=folder / "run", jobs=0)
    return rw.read_run(folder / "run")


def test_least_squares_weights_are_recorded(results):
    (weights,) = results.weights("OLS").values()
    assert list(weights) == ["P(y ≤ 0)", "P(y ≤ 1)", "P(y ≤ 2)", "constant"]
    data = rw.make_ranking(30, 8, 5, seed=0)
    train, _, _ = rw.split_queries(data, (0.5, 0.25, 0.25), seed=0)
    seed = next(cell for cell in results.cells if cell.algorithm == "OLS").parameters["base"][
        "parameters"
    ]["seed"]
    base = rw.RandomForest(4, max_leaves=6, seed=seed)
    expected = rw.OrdinalRanker(base, scoring="least_squares").fit(train).weights_
    np.testing.assert_allclose(list(weights.values()), expected, rtol=1e-12)


def test_weights_of_parts_are_recorded_in_their_order(results):
    (weights,) = results.weights("both").values()
    assert list(weights) == ["forest", "boosting"]
    assert sum(weights.values()) == pytest.approx(1)
    chosen = next(cell for cell in results.cells if cell.algorithm == "both").chosen
    assert chosen["parts.boosting.n_trees"] in (2, 3)


def test_other_rankers_have_none(results):
    assert results.weights("RF") == {}
    with pytest.raises(UnknownName, match="'nonsense' is not known"):
        results.weights("nonsense")


def test_the_report_shows_them(results, tmp_path):
    rw.write_report(results, tmp_path, formats=["html", "md", "csv"])
    for name in ("report.html", "report.md"):
        text = (tmp_path / name).read_text()
        assert "Weights that scores are composed with" in text
        assert "constant: " in text
    with (tmp_path / "tables" / "weights.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows if row["algorithm"] == "both"] == ["forest", "boosting"]
    (weights,) = results.weights("OLS").values()
    read = [float(row["weight"]) for row in rows if row["algorithm"] == "OLS"]
    assert read == list(weights.values())


def test_parts_may_be_a_list_and_get_the_seed_of_the_cell():
    parameters = {"parts": [FOREST, BOOSTING], "gate": FOREST}
    blend = prepare(build("Blend", parameters), 7, 2)
    assert [part.seed for part in (*blend.parts, blend.gate)] == [7, 7, 7]
    assert blend.n_threads == blend.parts[0].n_threads == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": {"a": {"kind": "Forest"}}}, "'Forest' is no algorithm"),
        ({"parts": {"a": {**FOREST, "n_tree": 3}}}, "RandomForest has no such parameter"),
        ({"parts": [{**FOREST, "n_trees": 0}]}, "n_trees must be a whole number of at least 1"),
        ({"parts": {"a": {"kind": "Blend"}}}, "parts must be rankers of ours other than Blend"),
        ({"parts": [FOREST], "weights": [1, 2]}, "weights has 2 values, but there are 1 parts"),
        ({"tune": {"parts": {"other": {"n_trees": [1, 2]}}}}, "there is no estimator 'other'"),
    ],
)
def test_wrong_parts_are_refused_before_the_run(changes, message):
    with pytest.raises(ParameterError, match=message):
        read_experiment(experiment(**changes))
