"""Exp3P: the bandit against its slow twin, boosting by it, and resuming."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ParameterError
from rankwood.rankers.search.bandit import Bandit
from tests.reference import boosting_tree as reference

BASES = {
    "LambdaMART": rw.LambdaMART(max_leaves=2, learning_rate=0.2, min_leaf=3),
    "LambdaMART, 4 leaves": rw.LambdaMART(max_leaves=4, learning_rate=0.2, min_leaf=3),
    "NDCGBoost": rw.NDCGBoost(max_leaves=2, min_leaf=3),
    "AdaBoost": rw.AdaBoost(),
    "GBRT": rw.GBRT(max_leaves=3, learning_rate=0.3, min_leaf=3),
}


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 12, 6, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(15, 12, 6, seed=4)


def test_the_bandit_equals_its_slow_twin():
    random = np.random.default_rng(0)
    bandit = Bandit(np.zeros(5), 0.3, 0.1)
    weights = [1.0] * 5
    for _ in range(30):
        expected = reference.exp3p_probabilities(weights, 0.3)
        np.testing.assert_allclose(bandit.probabilities, expected, rtol=1e-12)
        features = random.choice(5, 2, replace=False)
        reward = float(random.normal(0, 0.5))
        bandit.learn(features, reward)
        weights = reference.exp3p_weights(weights, 0.3, 0.1, features.tolist(), reward)


@pytest.mark.parametrize("exploration", [0.0, 0.05, 0.3, 1.0])
def test_probabilities_sum_to_one_and_stay_within_bounds(exploration):
    bandit = Bandit(np.zeros(7), exploration, 0.1)
    random = np.random.default_rng(1)
    for _ in range(2000):
        bandit.learn(random.choice(7, 1), float(random.normal(5, 50)))
        probabilities = bandit.probabilities
        assert probabilities.sum() == pytest.approx(1.0)
        assert (probabilities >= exploration / 7 * (1 - 1e-12)).all()
        assert (probabilities <= 1.0 + 1e-12).all()
        if exploration == 0.0:
            break  # features that are never drawn again divide by 0
    assert np.isfinite(bandit.log_weights).all()


@pytest.mark.parametrize("name", BASES)
def test_features_that_pay_are_drawn_more_often(name, data, other):
    model = rw.Exp3P(BASES[name], n_rounds=20, early_stopping=None).fit(data, valid=other)
    assert model.forest_.n_trees == 20
    assert len(model.history_) == 20
    assert model.probabilities_.sum() == pytest.approx(1.0)
    assert model.probabilities_.max() > 1 / 6
    assert model.stopped_because_ == "all rounds are done"


def test_one_feature_in_use_at_a_time(data):
    stumps = rw.Exp3P(BASES["LambdaMART"], n_rounds=15).fit(data).forest_
    assert (stumps.feature >= 0).sum() == 15
    assert len(set(stumps.feature[stumps.feature >= 0].tolist())) > 2


def test_the_reward_may_be_another_measure(data, other):
    one = rw.Exp3P(BASES["GBRT"], n_rounds=20, reward="p@1").fit(data, valid=other)
    two = rw.Exp3P(BASES["GBRT"], n_rounds=20, measure="p@1").fit(data, valid=other)
    assert np.array_equal(one.probabilities_, two.probabilities_)
    assert one.history_ != two.history_  # of ndcg@10 and of p@1
    with pytest.raises(DataError, match=r"needs. Pass qid, or reward='rmse'"):
        rw.Exp3P(rw.GBRT(), reward="p@1", measure="rmse").fit(data.features, data.labels)


def test_early_stopping_keeps_the_best_rounds(data, other):
    model = rw.Exp3P(BASES["GBRT"], n_rounds=60, early_stopping=5).fit(data, valid=other)
    assert model.forest_.n_trees == model.best_iteration_ < 60
    assert model.stopped_because_.startswith("early stopping")


def test_nothing_to_split_ends_the_fit():
    model = rw.Exp3P(rw.AdaBoost(), n_rounds=5).fit(np.zeros((4, 2)), [0, 1, 0, 1], [1, 1, 2, 2])
    assert model.forest_.n_trees == 0
    assert "no hypothesis was found" in model.stopped_because_


def test_wrong_parameters_are_named(data):
    for options, message in (
        ({"base": rw.RankBoost()}, "base must be one of"),
        ({"measure": "map"}, "has no mean over the orders"),
    ):
        with pytest.raises(ParameterError, match=message):
            rw.Exp3P(**options).fit(data)
    with pytest.raises(DataError, match="no query ids, which ndcg needs"):
        rw.Exp3P(rw.GBRT()).fit(data.features, data.labels)
