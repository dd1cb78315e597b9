"""Quality over cost, by number of trees."""

from __future__ import annotations

import csv
import sys

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, MissingExtra, ModelError, ParameterError
from rankwood.models.forest import cost_of_trees


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 15, 8, seed=3)


@pytest.fixture(scope="module")
def model(data):
    return rw.GBRT(20, max_leaves=6, min_leaf=5).fit(data)


EXITS = rw.EarlyExit(every=6, drop=0.3)
COSTS = np.arange(1.0, 9.0)


def p5(scores, data):
    return rw.evaluate(scores, data, "p@5", n_bootstrap=0)["p@5"].value


def test_each_point_is_what_that_many_trees_cost_and_give(model, data):
    curve = rw.quality_cost_curve(model, data, "p@5", costs=COSTS, exits=EXITS, every=4)
    assert curve.n_trees.tolist() == [4, 8, 12, 16, 20]
    assert curve.cost.tolist() == cost_of_trees(model.forest_, COSTS)[[4, 8, 12, 16, 20]].tolist()
    for n_trees, value in zip(curve.n_trees.tolist(), curve.value.tolist(), strict=True):
        scores = model.forest_.predict(data, first_trees=n_trees)
        assert value == pytest.approx(p5(scores, data), abs=1e-12)
    for place, n_trees in enumerate(curve.n_trees.tolist()):
        # the first trees of a model are a model: exits up to there are its own
        shorter = model.forest_.take_trees(slice(0, n_trees))
        found = EXITS.score(shorter, data, costs=COSTS)
        assert curve.exit_cost[place] == pytest.approx(found.mean_cost)
        assert curve.exit_value[place] == pytest.approx(p5(found.scores, data), abs=1e-12)
    assert curve.exit_cost[-1] < curve.cost[-1]


def test_costs_of_paths_are_lower(model, data):
    whole, path = (
        rw.quality_cost_curve(model, data, costs=COSTS, exits=EXITS, cost=counted)
        for counted in ("all", "path")
    )
    assert (path.cost <= whole.cost).all()
    assert (path.cost < whole.cost).any()
    assert path.value.tolist() == whole.value.tolist()


def test_a_forest_without_exits_and_defaults(model, data):
    curve = rw.quality_cost_curve(model.forest_, data, exits=None)
    assert curve.exit_cost is curve.exit_value is None
    assert curve.n_trees.tolist() == list(range(1, 21))
    assert curve.measure.startswith("ndcg@10")
    assert [set(row) for row in curve.rows()] == [{"trees", "cost", "value"}] * 20


def test_files(model, data, tmp_path):
    curve = rw.quality_cost_curve(model, data, "p@5", exits=EXITS, every=10)
    curve.write_csv(tmp_path / "curve.csv")
    with open(tmp_path / "curve.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["cost with exits"]) for row in rows] == curve.exit_cost.tolist()
    assert [int(row["trees"]) for row in rows] == [10, 20]
    with pytest.raises(DataError, match="cannot be written: No such file"):
        curve.write_csv(tmp_path / "nowhere" / "curve.csv")


def test_plots(model, data, tmp_path):
    pytest.importorskip("matplotlib")
    curve = rw.quality_cost_curve(model, data, "p@5", exits=EXITS)
    for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml")):
        curve.plot(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(DataError, match=r"cannot be written as \.xyz. Choose one of .*png"):
        curve.plot(tmp_path / "a.xyz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg"]


def test_a_plot_without_matplotlib_names_the_extra(model, data, tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    curve = rw.quality_cost_curve(model, data, exits=None)
    with pytest.raises(MissingExtra, match=r"a plot needs .*'matplotlib'.* 'rankwood\[report\]'"):
        curve.plot(tmp_path / "a.png")


def test_wrong_calls(model, data):
    with pytest.raises(DataError, match="a curve needs labels: pass RankingData, not ndarray"):
        rw.quality_cost_curve(model, data.features)
    with pytest.raises(ParameterError, match="every must be a whole number of at least 1, got 0"):
        rw.quality_cost_curve(model, data, every=0)
    with pytest.raises(ModelError, match="GBRT has no trees"):
        rw.quality_cost_curve(rw.GBRT(), data)
    with pytest.raises(ParameterError, match="the cost of 'noise_1' is nan"):
        rw.quality_cost_curve(model, data, costs=[*COSTS[:7], np.nan])
    alone = rw.RankingData(data.features, data.labels)
    with pytest.raises(DataError, match="no query ids"):
        rw.quality_cost_curve(model, alone, exits=None)
