"""Random forests, extremely randomized trees and completely random ones."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw
from rankwood.engines import bags as out_of_bag
from rankwood.engines.bags import Bags
from rankwood.errors import DataError, ParameterError, UnknownName
from tests.reference import ensembles as slow

FORESTS = [rw.RandomForest, rw.ExtraTrees, rw.CompletelyRandomForest]


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(40, 12, 8, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(20, 12, 8, seed=4)


def bytes_of(forest) -> bytes:
    names = ("feature", "threshold", "left", "right", "missing", "value", "cover", "gain")
    return b"".join(getattr(forest, name).tobytes() for name in names)


@pytest.mark.parametrize("bag", ["row", "query"])
def test_out_of_bag_scores_follow_their_definition(bag, data):
    model = rw.RandomForest(12, bag=bag, seed=2).fit(data)
    bags = Bags(data.n_documents, data.query_of_row if bag == "query" else None, seed=2)
    counts = [bags.counts(tree) for tree in range(12)]
    predictions = [model.forest_.take_trees([tree]).predict(data) for tree in range(12)]
    means, numbers = slow.out_of_bag(predictions, counts)
    np.testing.assert_array_equal(model.oob_scores_, means)
    assert model.oob_counts_.tolist() == numbers
    scored = np.flatnonzero(numbers)
    part = data.take_rows(scored)
    expected = rw.evaluate(model.oob_scores_[scored], part, "ndcg@10", n_bootstrap=0)
    assert model.oob_ndcg_ == pytest.approx(expected["ndcg@10"].value, abs=1e-12)


def test_rows_that_every_tree_has_seen_have_no_estimate(data):
    model = rw.RandomForest(1).fit(data)
    has_none = Bags(data.n_documents).counts(0) > 0
    assert np.array_equal(np.isnan(model.oob_scores_), has_none)
    assert np.array_equal(model.oob_counts_ == 0, has_none)


def test_each_tree_equals_scikit_learns_on_the_rows_of_its_bag(rng):
    # 200 distinct values per feature, 60 draws of them: bins are exact. Labels without ties between splits.
    features = rng.permuted(np.arange(800).reshape(200, 4), axis=0).astype(np.float32)
    labels = rng.random(200)
    model = rw.RandomForest(4, max_leaves=12, features_per_node=None).fit(features, labels)
    counts = [Bags(200).counts(tree) for tree in range(4)]
    expected = slow.forest_trees(features, labels, counts, max_leaf_nodes=12)
    for tree in range(4):
        in_bag = counts[tree] > 0
        found = model.forest_.take_trees([tree]).predict(features)
        np.testing.assert_allclose(found[in_bag], expected[tree][in_bag], rtol=1e-6)


def test_the_score_is_the_mean_of_the_trees(data):
    model = rw.RandomForest(7).fit(data)
    each = [model.forest_.take_trees([tree]).predict(data) for tree in range(7)]
    np.testing.assert_allclose(model.predict(data), np.mean(each, axis=0), rtol=1e-12)


def test_without_a_bag_out_of_bag_attributes_are_absent(data):
    model = rw.ExtraTrees(2).fit(data)
    assert not hasattr(model, "oob_scores_")
    for name in ("oob_scores_", "oob_counts_", "oob_ndcg_"):
        with pytest.raises(
            AttributeError, match=r"every tree has seen every row\. Fit with bag='row'"
        ):
            getattr(model, name)
    with pytest.raises(AttributeError, match="not fitted yet"):
        _ = rw.RandomForest().oob_scores_


def test_without_queries_there_is_no_ndcg(data):
    model = rw.RandomForest(3).fit(data.features, data.labels)
    assert model.oob_ndcg_ is None
    with pytest.raises(DataError, match="no query ids"):
        rw.RandomForest(3, bag="query").fit(data.features, data.labels)


def test_validation_figures_are_those_of_the_first_trees(data, other):
    model = rw.RandomForest(4, measure="map").fit(data, valid=other)
    for n_trees, value in enumerate(model.history_, 1):
        scores = model.forest_.predict(other, first_trees=n_trees)
        expected = rw.evaluate(scores, other, "map", n_bootstrap=0)["map"].value
        assert value == pytest.approx(expected, abs=1e-12)
    assert len(model.history_) == 4


def test_without_splits_importances_are_zero(data):
    constant = rw.RandomForest(2).fit(data.features, np.ones(data.n_documents))
    assert constant.feature_importances_.tolist() == [0.0] * 8


@pytest.mark.parametrize("weighting", ["reweight", "resample"])
def test_weights_pull_scores(weighting, rng):
    # Two kinds of rows that the feature cannot tell apart: the score is their weighted mean label.
    labels = np.tile([0.0, 1.0], 200)
    weights = np.tile([1.0, 3.0], 200)
    model = rw.RandomForest(20, weighting=weighting)
    model.fit(np.ones((400, 1)), labels, sample_weight=weights)
    assert model.predict(np.ones((1, 1)))[0] == pytest.approx(0.75, abs=0.03)


def test_monotone_features_by_name_and_by_place(data):
    names = [f"f{place}" for place in range(8)]
    named = rw.RankingData(data.features, data.labels, data.query_ids, feature_names=names)
    by_name = rw.RandomForest(3, monotone={"f1": 1, "f4": -1}).fit(named)
    by_place = rw.RandomForest(3, monotone=[0, 1, 0, 0, -1, 0, 0, 0]).fit(data)
    assert bytes_of(by_name.forest_) == bytes_of(by_place.forest_)
    for wrong, message in [
        ({"f9": 1}, "a feature that the data lack: 'f9'"),
        ([1, 0], "2 values, but there are 8 features"),
        ([2] * 8, "1, -1 or 0 for each feature, got 2"),
    ]:
        with pytest.raises(ParameterError, match=message):
            rw.RandomForest(3, monotone=wrong).fit(named)


@pytest.mark.parametrize("kind", [rw.RandomForest, rw.ExtraTrees, rw.GBRT])
@pytest.mark.parametrize("direction", [1, -1])
def test_scores_follow_a_monotone_feature(kind, direction, rng):
    features = rng.random((300, 3))
    noisy = 3 * features[:, 0] + 2 * np.sin(6 * features[:, 1]) + rng.normal(size=300)
    model = kind(10, monotone=[direction, 0, 0]).fit(features, noisy - noisy.min())
    for row in features[:20]:
        line = np.repeat(row[np.newaxis], 100, axis=0)
        line[:, 0] = np.linspace(0, 1, 100)
        assert (np.diff(model.predict(line)) * direction).min() >= -1e-12


@pytest.mark.jit_only
@pytest.mark.parametrize("kind", [*FORESTS, rw.GBRT])
def test_ten_thousand_features(kind, rng):
    features = rng.random((50, 10_000))
    model = kind(2).fit(features, rng.integers(0, 3, 50))
    assert np.isfinite(model.predict(features)).all()


def test_completely_random_trees_are_pure_and_blind(data):
    model = rw.CompletelyRandomForest(3).fit(data)
    np.testing.assert_allclose(
        model.predict(data), data.labels, atol=1e-12
    )  # rows differ: pure leaves
    # Where labels decide only when to stop, the first split of a tree does not depend on them.
    other = rw.CompletelyRandomForest(3).fit(data.features, np.roll(data.labels, 7))
    for one, another in zip(
        model.forest_.tree_offsets[:-1], other.forest_.tree_offsets[:-1], strict=True
    ):
        assert model.forest_.feature[one] == other.forest_.feature[another]
        assert model.forest_.threshold[one] == other.forest_.threshold[another]


def test_more_leaves_than_rows(data):
    model = rw.ExtraTrees(2, max_leaves=10_000, features_per_node=None).fit(data)
    assert model.forest_.n_leaves <= 2 * data.n_documents


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"bag": "rows"}, UnknownName, "bag 'rows' is not known. Did you mean 'row'"),
        ({"bag": None, "weighting": "resample"}, ParameterError, "needs a bag with replacement"),
    ],
)
def test_wrong_bags_are_named(options, error, message, data):
    with pytest.raises(error, match=message):
        rw.RandomForest(**options).fit(data)


@pytest.mark.parametrize("is_separated", [False, True])
def test_out_of_bag_ndcg_is_measured_in_parts_of_whole_queries(monkeypatch, is_separated):
    data = rw.make_ranking(30, 10, 5, seed=3)
    if is_separated:  # then there is one part
        data = data.take_rows(np.random.default_rng(0).permutation(data.n_documents))
    whole = rw.RandomForest(2, seed=1).fit(data)
    monkeypatch.setattr(out_of_bag, "_ROWS_AT_A_TIME", 37)
    parts = out_of_bag._whole_queries(data.query_ids)
    assert (len(parts) == 1) == is_separated
    rows = range(data.n_documents)
    assert [row for part in parts for row in rows[part]] == list(rows)
    assert sum(len(set(data.query_ids[part])) for part in parts) == data.n_queries
    assert rw.RandomForest(2, seed=1).fit(data).oob_ndcg_ == whole.oob_ndcg_
