"""Judgments: labels, queries and weights without features."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw
from rankwood.data.dataset import Judgments
from rankwood.errors import DataError
from rankwood.measures.compute import mean_value


@pytest.fixture
def data():
    return rw.RankingData(
        np.arange(12.0).reshape(6, 2),
        labels=[0, 2, 1, 0, 1, 3],
        query_ids=["b", "a", "b", "c", "a", "c"],
        doc_ids=list("uvwxyz"),
        row_weights=[1, 2, 3, 4, 5, 6],
        query_weights={"a": 0.5, "b": 2.0, "c": 1.0},
    )


def test_data_share_their_arrays_with_their_judgments(data):
    judgments = data.judgments
    for name in ("labels", "query_ids", "doc_ids", "row_weights", "query_weights"):
        assert getattr(judgments, name) is getattr(data, name)
    assert data.judgments is judgments.judgments
    assert data.grouping is judgments.grouping
    assert (judgments.n_documents, judgments.n_queries) == (6, 3)


def test_rows_are_taken_as_from_data(data):
    rows = np.array([5, 4, 3, 1])  # query b is left out, and c comes first
    taken, expected = data.judgments.take_rows(rows), data.take_rows(rows)
    for name in ("labels", "query_ids", "doc_ids", "row_weights", "query_weights", "queries"):
        np.testing.assert_array_equal(getattr(taken, name), getattr(expected, name))
    assert taken.query_weights.tolist() == [1.0, 0.5]
    assert data.judgments.take_rows(rows[:0]).n_queries == 0


def test_other_weights_share_the_grouping(data):
    changed = data.judgments.with_weights(row_weights=np.ones(6))
    assert changed.grouping is data.grouping
    assert changed.row_weights.tolist() == [1.0] * 6
    assert changed.query_weights is data.query_weights


@pytest.mark.parametrize("text", ["ndcg@2", "map", "auc", "rmse", "mrr[ties=docid]"])
def test_measures_take_judgments_and_data_alike(text, data, rng):
    scores = rng.normal(size=6)
    measure = rw.parse_measure(text)
    assert mean_value(measure, scores, data.judgments) == mean_value(measure, scores, data)
    np.testing.assert_array_equal(
        measure.per_query(scores, data.judgments), measure.per_query(scores, data)
    )


def test_judgments_without_queries_say_so():
    with pytest.raises(DataError, match="no query ids"):
        _ = Judgments(np.zeros(2)).queries


def test_data_from_judgments_check_nothing_and_copy_nothing(data):
    features = np.zeros((6, 1), np.float32)
    other = rw.RankingData.from_judgments(features, data.judgments, ("only",))
    assert other.features is features
    assert other.labels is data.labels
    assert other.judgments is data.judgments
    assert other.names == ("only",)
    assert other == rw.RankingData(
        features, data.labels, data.query_ids, data.doc_ids, data.row_weights,
        data.query_weights, ("only",),
    )  # fmt: skip
