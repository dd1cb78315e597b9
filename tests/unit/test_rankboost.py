"""RankBoost: the loop against listed pairs, the bound, ties, missing values, stopping."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import ParameterError
from rankwood.losses.pairs import PairLoss, graded_lists
from rankwood.rankers.pairs import LARGEST_EDGE, NO_USEFUL_RANKER, ThresholdRankers, WeakRanker
from rankwood.training.rounds import ALL_ROUNDS, NO_BETTER
from rankwood.trees import edges
from rankwood.trees.row_order import as_matrix
from tests.reference import pair_losses as slow


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 12, 6, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(15, 12, 6, seed=4)


def wrong_pairs(labels, query_ids, scores) -> float:
    """The share of pairs whose worse document scores at least as high as the better one."""
    pairs = slow.listed_pairs(labels, query_ids)
    return sum(scores[j] >= scores[i] for _, i, j in pairs) / len(pairs)


def with_holes(rng, n_rows=120):
    features = rng.permuted(np.arange(3.0 * n_rows).reshape(n_rows, 3), axis=0)
    features[rng.random(features.shape) < 0.2] = np.nan
    labels = rng.integers(0, 4, n_rows).astype(float)
    return rw.RankingData(features, labels, rng.integers(0, 8, n_rows))


def test_scores_equal_a_plain_loop_over_listed_pairs(rng):
    data = with_holes(rng)
    bins = rw.bin(data).bins
    thresholds = [bins.thresholds_of(feature) for feature in range(3)]
    model = rw.RankBoost(8).fit(data)
    expected = slow.rankboost_scores(data.features, data.labels, data.query_ids, thresholds, 8)
    np.testing.assert_allclose(model.predict(data), expected, rtol=1e-10, atol=1e-12)
    assert model.stopped_because_ == ALL_ROUNDS


def test_the_search_equals_the_slow_twin(rng):
    data = with_holes(rng)
    binned = rw.bin(data)
    lists = graded_lists(data, 2)
    rankers = ThresholdRankers.of(as_matrix(binned.codes, binned.bins), lists)
    thresholds = [binned.bins.thresholds_of(feature) for feature in range(3)]
    for _ in range(5):
        potentials = PairLoss(lists).potentials(rng.normal(size=len(data)))
        found = rankers.best(potentials)
        feature, cut, edge = slow.best_weak_ranker(data.features, potentials, thresholds)
        assert found.feature == feature
        assert thresholds[feature][found.code] == cut
        assert found.edge == pytest.approx(edge, abs=1e-15)


def test_a_stump_has_three_leaves(rng):
    data = with_holes(rng)
    model = rw.RankBoost(1).fit(data)
    forest = model.forest_
    assert forest.value[1:].tolist() == [0.0, 1.0, 0.5]
    assert forest.cover[0] == len(data) == forest.cover[1:].sum()
    assert forest.missing[0] == 3
    column = data.features[:, forest.feature[0]]
    says = np.where(np.isnan(column), 0.5, column > forest.threshold[0])
    assert forest.value[0] == pytest.approx(says.mean())
    np.testing.assert_allclose(model.predict(data), forest.tree_weights[0] * says)


def test_the_same_bytes_for_any_number_of_threads(data, other, monkeypatch):
    monkeypatch.setattr(edges, "_LEAST_FEATURES", 1)
    models = [rw.RankBoost(15, n_threads=n).fit(data, valid=other) for n in (1, 2, 5)]
    assert all(model.forest_ == models[0].forest_ for model in models)
    assert len({model.forest_.tree_weights.tobytes() for model in models}) == 1


def test_the_bound_on_the_ranking_loss_falls(data):
    # Freund et al. 2003, Theorem 1 and Section 3.2: share of wrong pairs <= Π Z <= Π √(1 - r²).
    model = rw.RankBoost(20).fit(data)
    bounds = model.loss_bounds_
    tree_edges = np.tanh(model.forest_.tree_weights)
    np.testing.assert_allclose(bounds, np.cumprod(np.sqrt(1 - tree_edges**2)), rtol=1e-12)
    assert all(later < earlier for earlier, later in itertools.pairwise([1.0, *bounds]))
    loss = PairLoss(graded_lists(data, 1))
    for n_rounds, bound in enumerate(bounds, 1):
        scores = model.forest_.predict(data, first_trees=n_rounds)
        assert wrong_pairs(data.labels, data.query_ids, scores) <= loss.value(scores) + 1e-12
        assert loss.value(scores) <= bound + 1e-12


def test_of_equal_weak_rankers_the_first_is_taken():
    # Columns 0 and 1 are alike, and every cut of column 1 between 1 and 5 gives the same sums.
    values = np.array([0.0, 1.0, 5.0, 6.0])
    data = rw.RankingData(np.column_stack([values, values]), [0, 0, 1, 1], [1] * 4)
    forest = rw.RankBoost(1).fit(data).forest_
    assert forest.feature[0] == 0
    assert forest.threshold[0] == 3.0
    turned = rw.RankingData(np.column_stack([-values, values]), [0, 0, 1, 1], [1] * 4)
    falling = rw.RankBoost(1).fit(turned).forest_
    assert falling.feature[0] == 0
    assert falling.tree_weights[0] == -forest.tree_weights[0] < 0


def test_the_order_of_rows_changes_nothing(data, rng):
    order = rng.permutation(len(data))
    one, other = rw.RankBoost(20).fit(data), rw.RankBoost(20).fit(data.take_rows(order))
    assert np.array_equal(one.forest_.feature, other.forest_.feature)
    assert np.array_equal(one.forest_.threshold, other.forest_.threshold)
    np.testing.assert_allclose(one.forest_.tree_weights, other.forest_.tree_weights, rtol=1e-10)


def test_documents_of_equal_label_are_no_pair():
    # Only the pair of query 2 counts: feature 1 orders it, feature 0 tells apart equal labels.
    features = [[0, 5], [9, 5], [4, 0], [4, 1]]
    model = rw.RankBoost(1).fit(features, [1, 1, 0, 1], qid=[1, 1, 2, 2])
    assert model.forest_.feature[0] == 1
    assert model.forest_.tree_weights[0] == pytest.approx(math.atanh(LARGEST_EDGE))


def test_it_stops_when_nothing_is_left_and_says_why(tmp_path):
    features, labels, qid = np.ones((4, 2)), [0, 1, 0, 1], [1, 1, 2, 2]
    model = rw.RankBoost(5).fit(features, labels, qid=qid)
    assert model.forest_.n_trees == model.best_iteration_ == 0
    assert model.stopped_because_ == NO_USEFUL_RANKER
    assert model.predict(features).tolist() == [0.0] * 4
    assert model.loss_bounds_.size == 0
    # Both values in each query alike: after one look there is no edge.
    features[:, 0] = [0, 1, 1, 0]
    model = rw.RankBoost(5, checkpoint=tmp_path / "c").fit(features, labels, qid=qid)
    assert model.stopped_because_ == NO_USEFUL_RANKER
    again = rw.RankBoost(5, checkpoint=tmp_path / "c").fit(features, labels, qid=qid)
    assert again.stopped_because_ == NO_USEFUL_RANKER
    rw.save(model, tmp_path / "model")
    assert rw.load(tmp_path / "model").stopped_because_ == NO_USEFUL_RANKER


def test_one_ranker_for_all_pairs_is_bounded():
    model = rw.RankBoost(20).fit([[0.0], [1.0]], [0, 1], qid=[1, 1])
    assert np.isfinite(model.forest_.tree_weights).all()
    assert model.forest_.tree_weights.max() == pytest.approx(math.atanh(LARGEST_EDGE))
    assert WeakRanker(0, 0, -1.0).alpha == -WeakRanker(0, 0, 1.0).alpha


def test_early_stopping_keeps_the_best_prefix(data, other):
    everything = rw.RankBoost(20, measure="map").fit(data, valid=other)
    stopped = rw.RankBoost(20, measure="map", early_stopping=3).fit(data, valid=other)
    best = int(np.argmax(stopped.history_)) + 1
    assert everything.history_[: len(stopped.history_)] == stopped.history_
    assert stopped.best_iteration_ == best == stopped.forest_.n_trees
    assert len(stopped.history_) == best + 3 < 20
    assert stopped.stopped_because_ == NO_BETTER
    assert stopped.forest_ == everything.forest_.take_trees(slice(0, best))
    with pytest.raises(ParameterError, match="early_stopping needs validation data"):
        rw.RankBoost(early_stopping=3).fit(data)


def test_refit_uses_the_chosen_rounds(data, other):
    model = rw.RankBoost(20, early_stopping=3, measure="map").fit(data, valid=other)
    again = rw.refit(model, data, other)
    assert again.forest_.n_trees == model.forest_.n_trees < 20
    assert again.training_["rows"] == len(data) + len(other)


def test_an_unfitted_model_has_no_bounds():
    with pytest.raises(AttributeError, match="not fitted yet"):
        _ = rw.RankBoost().loss_bounds_


@pytest.mark.slow
def test_it_ranks_mq2008(mq2008):
    # RankLib's RankBoost has a mean MAP of 0.4776 on these folds; rounds are chosen on validation queries.
    values = []
    for train, vali, test in list(rw.read_folds(mq2008))[:5]:
        model = rw.RankBoost(300, early_stopping=300, measure="map").fit(train, valid=vali)
        values.append(rw.evaluate(model, test, "map", n_bootstrap=0)["map"].value)
    assert np.mean(values) >= 0.4776 - 0.005
