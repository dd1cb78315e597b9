"""Comparing systems on one data set: values of ``evaluate``, tests of ``compare_values``, and what moved."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.experiments.report.findings import find
from rankwood.experiments.results import run_results

pytestmark = pytest.mark.jit_only  # no kernels of its own


@pytest.fixture(scope="module")
def parts():
    data = rw.make_ranking(n_queries=60, docs_per_query=10, n_features=6, seed=1)
    return rw.split_queries(data, (0.5, 0.5), seed=1)


@pytest.fixture(scope="module")
def systems(parts):
    train, test = parts
    return {
        "noise": np.random.default_rng(0).normal(size=test.n_documents),
        "forest": rw.RandomForest(10, max_leaves=8).fit(train),
        "boosted": rw.GBRT(10, min_leaf=5).fit(train),
    }


def test_values_and_tests_are_those_of_the_parts(parts, systems):
    _, test = parts
    found = rw.compare(systems, test, ["ndcg@5", "map"], baseline="noise")
    for name, system in systems.items():
        assert (
            found.evaluations[name].to_dict()
            == rw.evaluate(system, test, ["ndcg@5", "map"]).to_dict()
        )
    values = {
        name: rw.evaluate(system, test, "map")["map"].per_query for name, system in systems.items()
    }
    assert found["map"].to_dict() == rw.compare_values(values, "noise").to_dict()
    assert found.systems == list(systems)
    assert list(found) == ["ndcg@5", "map"]


def test_the_queries_that_changed_most():
    # query a: the relevant document rises from place 3 to 1; query b: two documents swap places
    data = rw.RankingData(
        np.zeros((6, 1)),
        [0, 0, 1, 1, 0, 0],
        ["a", "a", "a", "b", "b", "b"],
        doc_ids=["a1", "a2", "a3", "b1", "b2", "b3"],
    )
    before = np.array([3.0, 2, 1, 3, 2, 1])
    after = np.array([1.0, 2, 3, 2, 3, 1])
    found = rw.compare({"old": before, "new": after}, data, "mrr", baseline="old")
    one, other = found.changed["new"]
    assert (one.query, one.baseline_value, one.value, one.places) == (
        "a",
        pytest.approx(1 / 3),
        1.0,
        2,
    )
    assert [(m.document, m.label, m.before, m.after) for m in one.moves] == [("a3", 1.0, 3, 1)]
    assert (other.query, other.difference, other.places) == ("b", -0.5, -1)
    assert "a3: 3→1" in str(found)
    assert (
        rw.compare({"old": before, "new": after}, data, n_changed=1).changed["old"][0].query == "a"
    )
    assert rw.compare({"old": before, "new": after}, data, n_changed=0).changed == {"old": ()}


def test_documents_without_ids_are_numbered_within_their_query():
    data = rw.RankingData(np.zeros((4, 1)), [0, 1, 0, 1], [1, 2, 1, 2])
    found = rw.compare({"x": [0.0, 1, 1, 0], "y": [1.0, 0, 0, 1]}, data, "ndcg", baseline="x")
    assert found.changed["y"] == ()  # only one label in each query: nothing can change
    assert found["ndcg"]["y"].p == {"wilcoxon": 1.0, "t": 1.0, "randomization": 1.0}


def test_without_a_baseline_each_measure_has_its_best(parts, systems):
    found = rw.compare(systems, parts[1], ["ndcg@10", "auc", "rmse"])
    assert found["ndcg@10"].baseline == found["ndcg@10"].best
    values = {name: each["rmse"].value for name, each in found.evaluations.items()}
    assert found["rmse"].baseline == min(values, key=values.get)
    values = {name: each["auc"].value for name, each in found.evaluations.items()}
    assert found["auc"].baseline == max(values, key=values.get)
    assert found["auc"].pairs[0].n_queries == 0
    assert "auc, rmse: a value of all documents together" in str(found)
    assert "which are tested: auc[over=queries], rmse[over=queries]." in str(found)
    by_query = rw.compare(systems, parts[1], "rmse[over=queries]")["rmse[over=queries]"]
    assert by_query.pairs[0].n_queries == parts[1].n_queries
    assert np.isfinite(list(by_query.pairs[0].p.values())).all()


def test_of_several_baselines_each_measure_has_its_strongest(parts, systems):
    _, test = parts
    # A constant score is the best by rmse of the two baselines, the noise by some order or other.
    baselines = {"noise": systems["noise"] * 9, "constant": np.full(test.n_documents, 1.0)}
    several = baselines | {"forest": systems["forest"]}
    found = rw.compare(several, test, ["ndcg@5", "map", "rmse"], baseline=list(baselines))
    for measure in ("ndcg@5", "map"):
        values = {name: found.evaluations[name][measure].value for name in baselines}
        assert found[measure].baseline == max(values, key=values.get)
        assert found[measure].candidates == ("noise", "constant")
    assert found["rmse"].baseline == "constant"  # a measure of all documents, the less the better
    text = str(found)
    assert f"baseline {found['ndcg@5'].baseline}: the strongest of noise, constant" in text
    assert f"map: baseline {found['map'].baseline}: the strongest of noise, constant" in text


def test_segments_have_tables_of_their_own(parts, systems):
    _, test = parts
    half = np.arange(test.n_queries) % 2
    found = rw.compare(systems, test, "map", by=half, baseline="noise")
    assert list(found.segments) == [0, 1]
    assert sum(found.segments[name]["map"]["forest"].n_queries for name in (0, 1)) == test.n_queries
    rows = found.rows()
    assert [row["segment"] for row in rows] == ["all", "all", "0", "0", "1", "1"]
    assert "map, 1" in str(found)


def test_a_model_of_fewer_features_is_given_these():
    data = rw.make_ranking(n_queries=20, docs_per_query=8, n_features=3, seed=1)
    named = rw.RankingData(
        data.features, data.labels, data.query_ids, feature_names=("a", "b", "c")
    )
    few = rw.RankingData(
        data.features[:, [2, 0]], data.labels, data.query_ids, feature_names=("c", "a")
    )
    small, large = rw.RandomForest(5).fit(few), rw.RandomForest(5).fit(named)
    found = rw.compare({"small": small, "large": large}, named, "ndcg@10")
    assert (found.scores["small"] == small.predict(few)).all()
    other = rw.RandomForest(5).fit(data)
    wide = rw.RankingData(np.ones((data.n_documents, 4)), data.labels, data.query_ids)
    with pytest.raises(DataError, match="large: the model knows 3 features, but the data have 4"):
        rw.compare({"large": other, "other": other}, wide)


def test_the_same_model_twice_is_noticed(parts, systems):
    found = rw.compare({"a": systems["forest"], "b": systems["forest"]}, parts[1], "map")
    assert "a and b. Is it the same model twice?" in str(found)
    assert found["map"].pairs[0].ties == parts[1].n_queries


def test_plain_forms(parts, systems, tmp_path):
    found = rw.compare(systems, parts[1], "map", baseline="noise")
    json.dumps(found.to_dict())
    found.write_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().startswith("segment,measure,name,baseline,mean")
    assert found._repr_html_().count("<table>") == 2
    assert found.table("MAP")[0]["difference"] == "baseline"
    with pytest.raises(UnknownName, match="measure of this comparison 'mrr'"):
        _ = found["mrr"]


def test_query_weights_are_mentioned(parts):
    _, test = parts
    weighted = rw.RankingData(
        test.features, test.labels, test.query_ids, query_weights=np.arange(1.0, test.n_queries + 1)
    )
    one = test.features[:, 0]
    assert "tests, differences and wins do not" in str(
        rw.compare({"a": one, "b": -one}, weighted, "map")
    )


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"systems": [1, 2]}, ParameterError, "must be a mapping"),
        ({"systems": {"a": np.zeros(3)}}, ParameterError, "two systems or more, got 1"),
        ({"baseline": "nois"}, UnknownName, "Did you mean 'noise'"),
        ({"data": None}, ParameterError, "data must be RankingData"),
        ({"measures": "ndgc"}, UnknownName, "Did you mean 'ndcg'"),
        ({"n_changed": -1}, ParameterError, "n_changed"),
    ],
)
def test_what_cannot_be_compared(parts, systems, change, error, message):
    arguments = {"systems": systems, "data": parts[1], "measures": "map"} | change
    with pytest.raises(error, match=message):
        rw.compare(**arguments)


def test_scores_of_another_length_are_named(parts, systems):
    with pytest.raises(DataError, match="short: scores has 3 values"):
        rw.compare({**systems, "short": np.zeros(3)}, parts[1])
    empty = rw.RankingData(np.zeros((0, 2)), [], [])
    with pytest.raises(DataError, match="nothing to compare"):
        rw.compare({"a": [], "b": []}, empty)


def test_a_comparison_as_the_results_of_a_run(parts, systems):
    _, test = parts
    found = rw.compare(systems, test, ["auc", "map"], baseline="noise")
    results = run_results(found, test, name="three", record={"repeat": "rankwood compare"})
    assert results.measures == ["map"]
    assert results.baseline == "noise"
    assert results.algorithms == list(systems)
    assert (results.values("forest", "map") == found.evaluations["forest"]["map"].per_query).all()
    ranking = results.rankings("noise", 3)
    rows = test.row_order[test.query_offsets[3] : test.query_offsets[4]]
    assert (ranking.scores == systems["noise"][rows]).all()
    assert (ranking.labels == test.labels[rows]).all()
    assert ranking.names[0] == "1"
    assert results.rankings("other", 0) is None
    drawn = {"n_resamples": 200, "seed": 5, "tests": "randomization"}
    of_seed = rw.compare(systems, test, "map", baseline="noise", **drawn)
    as_run = run_results(of_seed, test, name="x", record={}, resamples=200, seed=5)
    for name in ("forest", "boosted"):
        assert find(as_run).comparison[name].p == of_seed["map"][name].p
    pooled = rw.compare(systems, test, "auc")
    with pytest.raises(ParameterError, match="none of these measures has a value per query"):
        run_results(pooled, test, name="x", record={})
