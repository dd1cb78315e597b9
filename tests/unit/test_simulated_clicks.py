"""``simulate_clicks``: four models of readers, block by block, in memory and in files, with the truth."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rankwood as rw
from rankwood.clicks import simulation
from rankwood.errors import DataError, ParameterError, UnknownName


@pytest.fixture(scope="module")
def judged() -> rw.RankingData:
    return rw.make_ranking(n_queries=8, docs_per_query=9, n_features=4, seed=3)


def scores_of(judged: rw.RankingData) -> list[np.ndarray]:
    return [judged.labels + 0.1 * judged.features[:, 0], judged.features[:, 1].astype(float)]


def expected(log: simulation.SimulatedLog) -> np.ndarray:
    """The chance of a click for each list and position, one at a time."""
    model, chances = log.truth.parameters["model"], np.zeros(log.lists.shape)
    for number, rows in enumerate(log.lists.tolist()):
        looks = 1.0
        for place, row in enumerate(rows):
            if row < 0:
                break
            gamma = float(log.truth.relevance[row])
            if model in ("position", "trust"):
                chances[number, place] = (
                    log.truth.bias.slope[place] * gamma + log.truth.bias.offset[place]
                )
            else:
                chances[number, place] = looks * gamma
                looks *= (1 - gamma) if model == "cascade" else 0.9 * (1 - gamma * 0.9 * gamma)
    return chances


@pytest.mark.parametrize("model", simulation.MODELS)
def test_clicks_come_as_often_as_the_model_says(judged, model: str) -> None:
    log = rw.simulate_clicks(judged, scores_of(judged), sessions=40_000, model=model, seed=5)
    chances = expected(log)
    shown, clicked = np.zeros(len(chances)), np.zeros(chances.shape)
    for block in log.sessions():
        np.add.at(shown, block.lists, 1.0)
        np.add.at(clicked, block.lists, block.clicks)
    spread = np.sqrt(np.maximum(chances * (1 - chances), 1e-9) / shown[:, None])
    assert (np.abs(clicked / shown[:, None] - chances) <= 4.5 * spread).all()
    if model == "cascade":
        assert max(block.clicks.sum(axis=1).max() for block in log.sessions()) == 1


def test_the_mean_look_of_a_cascade_is_the_truth(judged) -> None:
    log = rw.simulate_clicks(judged, scores_of(judged), sessions=1, model="cascade")
    looks = []
    for rows in log.lists.tolist():
        stays, seen = 1.0, []
        for row in rows:
            seen.append(stays)
            stays *= 1.0 - (float(log.truth.relevance[row]) if row >= 0 else 0.0)
        looks.append(seen)
    np.testing.assert_allclose(log.truth.bias.slope, np.mean(looks, axis=0), rtol=1e-12)


def test_relevance_follows_the_labels() -> None:
    found = simulation.relevance_of(np.array([0.0, 1.0, 2.0]), 0.1)
    np.testing.assert_allclose(found, [0.1, 0.1 + 0.9 / 3, 1.0])


def test_a_log_is_the_same_in_any_number_of_blocks(judged, monkeypatch) -> None:
    log = rw.simulate_clicks(judged, scores_of(judged)[0], sessions=300, seed=2)
    whole = log.data()
    assert whole == rw.simulate_clicks(judged, scores_of(judged)[0], sessions=300, seed=2).data()
    assert whole != rw.simulate_clicks(judged, scores_of(judged)[0], sessions=300, seed=3).data()
    monkeypatch.setattr(simulation, "_BLOCK", 64)
    assert sum(len(block.lists) for block in log.sessions()) == 300
    assert log.data().n_queries == 300


def test_counted_clicks_are_those_of_the_sessions(judged) -> None:
    log = rw.simulate_clicks(judged, scores_of(judged), sessions=500, cutoff=4, seed=1)
    data, counted = log.data(), log.counted()
    assert data.positions.max() == counted.positions.max() == 4
    assert counted.row_weights.sum() == data.n_documents
    assert (counted.labels * counted.row_weights).sum() == pytest.approx(data.labels.sum())
    by_document = np.bincount(data.doc_ids, data.labels, judged.n_documents)
    again = np.bincount(counted.doc_ids, counted.labels * counted.row_weights, judged.n_documents)
    np.testing.assert_allclose(again, by_document)
    np.testing.assert_array_equal(data.features, judged.features[data.doc_ids])


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_a_log_streams_to_a_file(judged, tmp_path, monkeypatch, ending: str) -> None:
    monkeypatch.setattr(simulation, "_BLOCK", 50)
    log = rw.simulate_clicks(judged, scores_of(judged)[0], sessions=120, model="trust", seed=4)
    path = tmp_path / f"log{ending}"
    truth = json.loads(log.write(path).read_text())
    assert rw.read_table(path) == log.data()
    assert truth["model"] == "trust"
    assert truth["relevance"] == log.truth.relevance.tolist()
    assert truth["bias"]["slope"] == log.truth.bias.slope.tolist()


def test_lists_are_those_of_the_ranker(judged) -> None:
    ranker = rw.RandomForest(2, 4).fit(judged)
    lists = rw.simulate_clicks(judged, ranker, sessions=1, cutoff=3).lists
    scores = ranker.predict(judged)
    for (_, rows), shown in zip(judged.iter_queries(), lists, strict=True):
        best = rows[np.argsort(-scores[rows], kind="stable")][:3]
        assert shown[shown >= 0].tolist() == best.tolist()


def test_wrong_calls_are_refused(judged) -> None:
    scores = scores_of(judged)[0]
    with pytest.raises(UnknownName, match="model of clicks 'dbm' is not known"):
        rw.simulate_clicks(judged, scores, sessions=1, model="dbm")
    with pytest.raises(ParameterError, match="sessions must be a whole number"):
        rw.simulate_clicks(judged, scores, sessions=0)
    nothing = rw.RankingData([[1.0], [2.0]], [0, 0], [1, 1])
    with pytest.raises(DataError, match="all labels are 0"):
        rw.simulate_clicks(nothing, [1.0, 2.0], sessions=1)
    with pytest.raises(DataError, match="scores"):
        rw.simulate_clicks(judged, scores[:3], sessions=1)
