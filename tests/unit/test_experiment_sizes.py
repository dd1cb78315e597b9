"""Experiments that measure at the size that validates best, with costs and early exits, on samples of queries."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import rankwood as rw
from rankwood.data.splits import sample_queries
from rankwood.errors import ParameterError
from rankwood.experiments.config import read_experiment
from rankwood.experiments.runner import fingerprint, make_plan
from rankwood.experiments.tuning import keep_every_round

pytestmark = pytest.mark.jit_only  # no kernels of its own

COSTS = [1.0, 4.0, 16.0, 1.0, 4.0, 16.0]
GENERATE = {"queries": 40, "docs": 10, "features": 6, "seed": 2}
BOOSTED = {"kind": "GBRT", "n_trees": 12, "max_leaves": 4, "min_leaf": 3, "learning_rate": 0.5}


def experiment(**changes):
    tables = {
        "data": {"generate": GENERATE},
        "run": {"seed": 1, "jobs": 0},
        "measures": {
            "primary": "p@5",
            "also": ["ndcg@10", "rmse"],
            "size": "validated",
            "costs": COSTS,
        },
        "algorithm": [
            {"name": "plain", **BOOSTED},
            {"name": "exits", **BOOSTED, "early_exit": "every=2,drop=0.2,scope=all"},
            {"name": "costs", **BOOSTED, "feature_costs": COSTS, "cost_weight": 0.1},
            {"name": "linear", "kind": "RankSVM"},
            {"name": "grades", "kind": "OrdinalRanker", "base": {**BOOSTED, "n_trees": 6}},
        ],
    }
    for table, values in changes.items():
        tables[table] = {**tables[table], **values} if isinstance(values, dict) else values
    return tables


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return rw.run_experiment(experiment(), out=tmp_path_factory.mktemp("sizes") / "run", jobs=0)


@pytest.fixture(scope="module")
def parts():
    data = rw.make_ranking(40, 10, 6, seed=2)
    return rw.split_queries(data, (0.6, 0.2, 0.2), seed=0)


def cell_of(run, name):
    (cell,) = [cell for cell in run.cells if cell.algorithm == name]
    assert cell.status == "done", cell.message
    return cell


@pytest.mark.parametrize("name", ["plain", "exits", "costs", "grades"])
def test_each_measure_is_of_the_size_that_validates_best(run, parts, name):
    """The cell's values are those of ``best_sizes`` on the model of the same seed."""
    train, vali, test = parts
    cell = cell_of(run, name)
    options = {key: value for key, value in BOOSTED.items() if key != "kind"}
    seed = run.record["seeds"]["by fold and repetition"]["split"][0]
    if name == "costs":
        options |= {"feature_costs": COSTS, "cost_weight": 0.1}
    model = rw.GBRT(**options, seed=seed)
    if name == "grades":
        model = rw.OrdinalRanker(rw.GBRT(**{**options, "n_trees": 6}, seed=seed))
    exits = rw.EarlyExit(2, 0.2, "all") if name == "exits" else None
    expected = rw.best_sizes(
        model.fit(train), vali, run.measures, test=test, costs=COSTS, exits=exits
    )
    for size in expected:
        found = cell.sizes[size.measure]
        assert found["rounds"] == size.n_rounds
        assert found["trees"] == size.n_trees
        assert found["valid"] == pytest.approx(size.valid)
        assert found["cost"] == pytest.approx(size.test_cost)
        assert cell.means[size.measure] == pytest.approx(size.test)
    values = run.values(name, "p@5")
    assert np.nanmean(values) == pytest.approx(expected["p@5"].test)


def test_measures_differ_in_size_and_costs_save(run):
    sizes = {row["algorithm"]: {} for row in run.sizes()}
    for row in run.sizes():
        sizes[row["algorithm"]][row["measure"]] = row
    assert len({row["rounds"] for row in sizes["plain"].values()}) > 1
    assert "linear" not in sizes  # it has one size, and no trees to pass
    assert cell_of(run, "linear").sizes == {}
    for row in run.sizes():
        assert row["test"] == pytest.approx(cell_of(run, row["algorithm"]).means[row["measure"]])


def test_without_sizes_nothing_is_recorded(tmp_path):
    tables = experiment(
        measures={"size": "whole"},
        algorithm=[{"name": "plain", "early_stopping": "none", **BOOSTED}],
    )
    del tables["measures"]["costs"]
    plain = rw.run_experiment(tables, out=tmp_path / "plain", jobs=0)
    assert plain.sizes() == []
    record = json.loads((tmp_path / "plain" / "record.json").read_text())["configuration"]
    assert not {"size", "costs"} & set(record)
    tables["measures"]["costs"] = COSTS
    counted = rw.run_experiment(tables, out=tmp_path / "counted", jobs=0)
    (row, *_) = counted.sizes()
    assert (row["rounds"], row["trees"], row["valid"]) == (12, 12, None)
    assert row["cost"] > 12
    for measure in plain.measures:
        assert counted.cells[0].means[measure] == pytest.approx(plain.cells[0].means[measure])


def test_what_would_discard_rounds_is_switched_off():
    ranker = rw.OrdinalRanker(rw.GBRT(early_stopping=3, measure="rmse"))
    keep_every_round(ranker)
    assert ranker.base.early_stopping is None
    broof = rw.BROOF(stop="oob")
    keep_every_round(broof)
    assert broof.stop is None
    keep_every_round(rw.RankSVM())


def test_other_scoring_is_another_cell(tmp_path):
    def prints(**changes):
        described = read_experiment(experiment(**changes))
        return {fingerprint(described, cell, "digest") for cell in described.cells()[:1]}

    assert prints() == prints()
    assert prints() != prints(measures={"size": "whole"})
    assert prints() != prints(measures={"costs": [2.0] * 6})
    exits = [{"name": "plain", **BOOSTED, "early_exit": "every=3"}]
    assert prints() != prints(algorithm=exits)
    path = tmp_path / "costs.tsv"
    path.write_text("".join(f"{n + 1} {n}\n" for n in range(6)))
    before = prints(measures={"costs": str(path)})
    path.write_text("".join(f"{n + 1} 7\n" for n in range(6)))
    assert before != prints(measures={"costs": str(path)})
    one, other = (
        make_plan(read_experiment(experiment(data=data)), out=tmp_path / "run").digests
        for data in ({}, {"sample": [9, 8, 7]})
    )
    assert one != other


def test_a_sample_of_the_queries_of_each_part(tmp_path, parts):
    tables = experiment(data={"sample": [20, 6, 5]}, algorithm=[{"name": "plain", **BOOSTED}])
    run = rw.run_experiment(tables, out=tmp_path / "run", jobs=0)
    expected = sample_queries(parts[2], 5).queries.tolist()
    assert [query for _, query in run.queries] == [str(query) for query in expected]
    tables["data"]["sample"] = [20, 6, 500]
    shutil.rmtree(tmp_path / "run")
    (failed,) = rw.run_experiment(tables, out=tmp_path / "run", jobs=0).cells
    assert "[data] sample asks for 500 queries of the part 'test', which has 8" in failed.error


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"measures": {"size": "best"}}, r"\[measures\] size.*must be one of whole, validated"),
        ({"measures": {"costs": "nowhere.tsv"}}, r"costs.*there is no file .*nowhere\.tsv"),
        (
            {"measures": {"costs": [1, -1]}},
            "costs.*must be a cost file, or a list of numbers from 0",
        ),
        ({"measures": {"costs": 3}}, "costs.*must be a cost file, or a list"),
        ({"data": {"split": [0.7, 0.3]}}, "size.*needs validation queries to choose on"),
        ({"data": {"sample": [1, 2]}}, "sample.*must be how many queries of train, valid and test"),
        ({"data": {"sample": [1, 0, 3]}}, "sample.*must be how many queries"),
        (
            {"algorithm": [{**BOOSTED, "early_exit": "drop=2"}]},
            r"early_exit.*drop must be in \[0, 1\)",
        ),
        ({"algorithm": [{**BOOSTED, "early_stopping": 5}]}, "early_stopping.*discards rounds"),
        ({"algorithm": [{"kind": "BROOF", "stop": "oob"}]}, "stop.*discards rounds"),
        (
            {
                "algorithm": [
                    {
                        "kind": "OrdinalRanker",
                        "base": {**BOOSTED, "early_stopping": 5, "measure": "rmse"},
                    }
                ]
            },
            "early_stopping.*discards rounds",
        ),
        (
            {"algorithm": [{"kind": "GBRT", "tune": {"learning_rate": [0.1, 0.2]}}]},
            "tune.*does not go with .*validated",
        ),
    ],
)
def test_mistakes_are_told_before_the_first_fit(changes, message):
    with pytest.raises(ParameterError, match=message):
        read_experiment(experiment(**changes))


def test_early_stopping_that_is_none_is_no_contradiction():
    assert read_experiment(experiment(algorithm=[{**BOOSTED, "early_stopping": "none"}]))


def test_a_linear_model_cannot_be_left_early(tmp_path):
    tables = experiment(algorithm=[{"kind": "RankSVM", "early_exit": "every=2"}])
    (failed,) = rw.run_experiment(tables, out=tmp_path / "run", jobs=0).cells
    assert "RankSVM has no trees that were added round by round" in failed.error
