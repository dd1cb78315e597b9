"""``click_judgments``: one row per document of a click log, beside a slow twin, and logs that say too little."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwood as rw
from rankwood.errors import DataError, DataWarning, ParameterError
from rankwood.losses.position_bias import Propensities
from tests.reference import clicks as reference

BIAS = Propensities.of([1.0, 0.5, 0.25])
TRUST = Propensities.of([0.8, 0.5, 0.25], [0.1, 0.05, 0.0])


def log_of(lists, documents, clicks, positions, weights=None, **other) -> rw.RankingData:
    """A log whose features say which document a row is."""
    features = np.array(documents, np.float32)[:, np.newaxis]
    return rw.RankingData(
        features,
        np.array(clicks, float),
        lists,
        documents,
        None if weights is None else np.array(weights, float),
        positions=positions,
        **other,
    )


@st.composite
def logs(draw):
    """Up to six lists of three of nine documents; documents may be in several lists."""
    lists, documents, positions = [], [], []
    for number in range(draw(st.integers(1, 6))):
        for place, document in enumerate(draw(st.permutations(range(9)))[:3]):
            lists.append(number)
            documents.append(document)
            positions.append(place + 1)
    clicks = draw(st.lists(st.integers(0, 1), min_size=len(lists), max_size=len(lists)))
    clicks[0] = 1
    weights = draw(st.lists(st.integers(1, 5), min_size=len(lists), max_size=len(lists)))
    return log_of(lists, documents, clicks, positions, weights)


@given(logs(), st.sampled_from([BIAS, TRUST]), st.sampled_from([0.0, 1.0, 7.5]), st.booleans())
def test_labels_and_queries_are_the_slow_twins(log, bias, prior, weights) -> None:
    slope, offset = bias.at(log.positions)
    expected = reference.judgments(
        log.query_ids.tolist(),
        log.doc_ids.tolist(),
        log.labels.tolist(),
        log.row_weights.tolist(),
        slope.tolist(),
        offset.tolist(),
        prior,
    )
    found = rw.click_judgments(log, bias, prior=prior, weights=weights)
    names = list(dict.fromkeys(log.doc_ids.tolist()))
    assert found.doc_ids.tolist() == sorted(names, key=lambda name: expected[name][0])
    assert found.query_ids.tolist() == [expected[name][0] for name in found.doc_ids.tolist()]
    labels = [expected[name][1] for name in found.doc_ids.tolist()]
    np.testing.assert_allclose(found.labels, labels, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(found.features[:, 0], found.doc_ids)
    assert found.positions is None
    if weights:
        looks = np.array([expected[name][2] for name in found.doc_ids.tolist()])
        np.testing.assert_allclose(found.row_weights, looks / looks.mean())
    else:
        assert found.row_weights is None


def test_clicks_one_by_one_and_counted_say_the_same() -> None:
    judged = rw.make_ranking(n_queries=12, docs_per_query=8, n_features=5, seed=2)
    rankings = [judged.features[:, 0], judged.features[:, 1]]
    log = rw.simulate_clicks(judged, rankings, sessions=800, cutoff=6, seed=3)
    one, other = (rw.click_judgments(data, BIAS) for data in (log.data(), log.counted()))
    by_name = dict(zip(other.doc_ids.tolist(), other.labels.tolist(), strict=True))
    assert one.n_queries == other.n_queries == 12
    for name, label in zip(one.doc_ids.tolist(), one.labels.tolist(), strict=True):
        assert label == pytest.approx(by_name[name], rel=1e-12)


def test_many_clicks_give_back_the_relevance_behind_them() -> None:
    judged = rw.make_ranking(n_queries=10, docs_per_query=6, n_features=5, seed=2)
    rankings = [judged.features[:, 0], -judged.features[:, 0]]
    log = rw.simulate_clicks(judged, rankings, sessions=60_000, seed=3)
    found = rw.click_judgments(log.counted(), log.truth.bias)
    np.testing.assert_allclose(found.labels, log.truth.relevance[found.doc_ids], atol=0.06)


def test_a_saved_bias_and_text_ids_will_do(tmp_path) -> None:
    log = log_of(["a", "a", "b"], [1, 2, 3], [1, 0, 0], [1, 2, 1])
    log = dataclasses.replace(log, doc_ids=np.array(["a/1", "a/2", "b/3"]))
    rw.position_bias(None, [1.0, 0.5]).save(tmp_path / "bias.json")
    found = rw.click_judgments(log, tmp_path / "bias.json", prior=0.0)
    assert found.query_ids.tolist() == ["a", "a", "b"]
    assert found.labels.tolist() == [1.0, 0.0, 0.0]


def test_a_document_that_nobody_was_shown_has_no_clicks() -> None:
    log = log_of([0, 0], [1, 2], [1, 0], [1, 2], [1.0, 0.0])
    assert rw.click_judgments(log, BIAS, prior=0.0).labels.tolist() == [1.0, 0.0]


def test_ids_of_documents_of_several_queries_are_told() -> None:
    log = log_of([0, 0, 1, 1], [1, 2, 1, 3], [1, 0, 1, 0], [1, 2, 1, 2])
    features = log.features.copy()
    features[:, 0] = [1.0, np.nan, 9.0, 3.0]
    with pytest.warns(DataWarning, match=r"1 of 4 rows .* \(document 1: rows 0 and 2\)"):
        found = rw.click_judgments(dataclasses.replace(log, features=features), BIAS)
    assert found.n_queries == 1


LOG = log_of([0, 0, 1, 1], [1, 2, 1, 3], [1, 0, 1, 0], [1, 2, 1, 2])
WRONG = {
    "no ids": ({"doc_ids": None}, {}, DataError, r"needs document ids.*--doc"),
    "no positions": ({"positions": None}, {}, DataError, "needs the position of each document"),
    "grades": ({"labels": np.array([2.0, 0, 0, 0])}, {}, DataError, "labels are clicks"),
    "no clicks": ({"labels": np.zeros(4)}, {}, DataError, "no clicks beyond"),
    "no impressions": ({"row_weights": np.zeros(4)}, {}, DataError, "no impressions"),
    "prior": ({}, {"prior": -1.0}, ParameterError, "prior"),
    "bias": ({}, {"bias": 3.0}, ParameterError, "position_bias must be"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_what_is_wrong_is_said(name) -> None:
    changes, arguments, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        rw.click_judgments(dataclasses.replace(LOG, **changes), **({"bias": BIAS} | arguments))
