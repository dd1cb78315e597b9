"""``rankwood cost-curve``, training with a cost file, and scoring with early exits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw


@pytest.fixture
def files(rankwood):
    data = rw.make_ranking(12, 15, 6, seed=3)
    rw.write_letor(data, "data.txt")
    Path("costs.tsv").write_text("".join(f"{n + 1}\t{4**n}\n" for n in range(6)))
    model = rw.GBRT(12, max_leaves=6, min_leaf=5).fit(rw.read_letor("data.txt"))
    rw.save(model, "m.rankwood")
    return model


def test_a_curve_as_a_table(rankwood, files):
    outcome = rankwood(
        *("cost-curve", "m.rankwood", "data.txt", "--costs", "costs.tsv", "-m", "p@5"),
        *("--early-exit", "every=4,drop=0.2", "--every", "4"),
    )
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert "trees" in lines[0]
    assert "cost with exits" in lines[0]
    assert "p@5 with exits" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["4", "8", "12"]


def test_a_curve_for_scripts_is_the_librarys(rankwood, files):
    data = rw.read_letor("data.txt")
    call = ("cost-curve", "m.rankwood", "data.txt", "--costs", "costs.tsv", "--json")
    outcome = rankwood(*call, "--early-exit", "none", "--path-costs")
    curve = rw.quality_cost_curve(files, data, costs="costs.tsv", exits=None, cost="path")
    assert json.loads(outcome.out)["points"] == list(curve.rows())


def test_a_curve_in_a_file(rankwood, files):
    assert rankwood("cost-curve", "m.rankwood", "data.txt", "--csv", "curve.csv").code == 0
    assert Path("curve.csv").read_text().startswith("trees,cost,value,cost with exits")
    pytest.importorskip("matplotlib")
    assert rankwood("cost-curve", "m.rankwood", "data.txt", "--plot", "curve.png").code == 0
    assert Path("curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--costs", "nowhere.tsv"), "nowhere.tsv does not exist"),
        (("--costs", "bad.tsv"), "bad.tsv, line 2: the cost of '2' is -4"),
        (("--early-exit", "drop=1"), "drop must be in [0, 1), got 1.0"),
        (("--early-exit", "every=0"), "every must be a whole number of at least 1, got 0"),
        (("--plot", "curve.gif"), "--plot curve.gif must end in .png, .svg or .pdf"),
        (("-m", "ndgc@10"), "Did you mean 'ndcg'"),
    ],
)
def test_wrong_calls(rankwood, files, options, message):
    Path("bad.tsv").write_text("1 1\n2 -4\n")
    outcome = rankwood("cost-curve", "m.rankwood", "data.txt", *options)
    assert outcome.code == 2
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def test_training_with_a_cost_file(rankwood, files):
    call = ("train", "--data", "data.txt", "--model", "RandomForest", "--n-trees", 6, "--quiet")
    outcome = rankwood(*call, "--feature-costs", "costs.tsv", "--cost-weight", 0.3, "--out", "c.rw")
    assert outcome.code == 0, outcome.err
    model = rw.RandomForest(6, feature_costs="costs.tsv", cost_weight=0.3)
    assert rw.load("c.rw").forest_ == model.fit(rw.read_letor("data.txt")).forest_
    assert rw.load("c.rw").feature_costs == "costs.tsv"
    assert "costs.tsv" in rankwood("inspect", "c.rw").out
    outcome = rankwood(*call, "--feature-costs", "costs.tsv", "--cost-weight", -1)
    assert outcome.code == 2
    assert "cost_weight must be in [0, inf), got -1" in outcome.err


def test_scoring_with_exits(rankwood, files):
    exits = "every=3,drop=0.3"
    outcome = rankwood(
        "score", "m.rankwood", "data.txt", "--out", "s.txt", "--early-exit", exits, "--quiet"
    )
    assert outcome.code == 0, outcome.err
    expected = rw.EarlyExit(3, 0.3).score(files, rw.read_letor("data.txt")).scores
    assert np.array_equal(np.loadtxt("s.txt"), expected)
    assert not np.array_equal(expected, files.predict(rw.read_letor("data.txt")))
    call = ("score", "m.rankwood", "data.txt", "--early-exit", f"{exits},scope=all")
    outcome = rankwood(*call)
    assert outcome.code == 2
    assert "add --whole" in outcome.err
    assert rankwood(*call, "--whole", "--out", "all.txt").code == 0
    expected = rw.EarlyExit(3, 0.3, "all").score(files, rw.read_letor("data.txt")).scores
    assert np.array_equal(np.loadtxt("all.txt"), expected)
