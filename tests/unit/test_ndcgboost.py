"""NDCGBoost: the loop, its surrogate, votes of trees, stopping."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.losses.pairs import graded_lists, ndcgboost_loss
from rankwood.rankers.pairs import NO_USEFUL_TREE
from rankwood.training.rounds import ALL_ROUNDS, NO_BETTER
from tests.reference import pair_losses as slow


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 12, 6, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(15, 12, 6, seed=4)


def boost(n_rounds=10, **options):
    return rw.NDCGBoost(n_rounds, **{"min_leaf": 3, **options})


@pytest.mark.parametrize(
    "options", [{}, {"max_leaves": 2}, {"max_leaves": 30}, {"learning_rate": 0.3}]
)
def test_the_surrogate_falls_round_by_round(options, data):
    model = boost(12, **options).fit(data)
    loss = ndcgboost_loss(graded_lists(data, 1), "exponential")
    values = [
        loss.value(model.forest_.predict(data, first_trees=n_rounds)) for n_rounds in range(13)
    ]
    assert all(later < earlier for earlier, later in itertools.pairwise(values))
    assert (model.forest_.tree_weights > 0).all()
    assert model.stopped_because_ == ALL_ROUNDS


def test_a_round_lowers_the_surrogate_as_far_as_the_bound_says(data):
    # M falls by at least (√up - √down)², the least value of the bound; Valizadegan et al. 2009, Section 3.
    model = boost(6).fit(data)
    loss = ndcgboost_loss(graded_lists(data, 1), "exponential")
    for n_rounds in range(6):
        scores = model.forest_.predict(data, first_trees=n_rounds)
        after = model.forest_.predict(data, first_trees=n_rounds + 1)
        votes = (after > scores).astype(float)
        up, down = loss.pair_sums(scores, votes)
        least = (np.sqrt(up) - np.sqrt(down)) ** 2
        assert loss.value(scores) - loss.value(after) >= least * (1 - 1e-5)


def test_scores_follow_from_the_slow_twins(data):
    # The model's own trees, weighed by the twin: votes by the sign of a leaf's Σ w, α from listed pairs.
    model = boost(4, max_leaves=5).fit(data)
    ones = (np.ones(len(data)), np.ones(data.n_queries))
    pairs = (data.labels, data.query_ids)
    scores = np.zeros(len(data))
    leaves = model.forest_.leaf_ids(data)
    for tree in range(4):
        weights = slow.document_weights(*pairs, scores, *ones)
        votes = np.zeros(len(data))
        for leaf in np.unique(leaves[:, tree]):
            rows = leaves[:, tree] == leaf
            votes[rows] = float(weights[rows].sum() > 0)
        up, down = slow.vote_sums(*pairs, scores, votes, *ones)
        scores = scores + 0.5 * np.log(up / down) * votes
    np.testing.assert_allclose(model.predict(data), scores, rtol=1e-4)


def test_leaves_say_0_or_1_and_inner_nodes_their_mean(data):
    forest = boost(3, max_leaves=6).fit(data).forest_
    is_leaf = forest.feature < 0
    assert set(forest.value[is_leaf].tolist()) == {0.0, 1.0}
    for node in np.flatnonzero(~is_leaf):
        left, right = forest.left[node], forest.right[node]
        both = forest.value[left] * forest.cover[left] + forest.value[right] * forest.cover[right]
        assert forest.value[node] == pytest.approx(both / forest.cover[node])


def test_the_first_stump_is_the_best_of_all_by_gini(rng):
    # With two leaves: the cut of greatest Σ over children of (Σ w)² / Σ |w|, found by trying every cut.
    features = rng.permuted(np.arange(240.0).reshape(80, 3), axis=0)
    labels = rng.integers(0, 3, 80).astype(float)
    data = rw.RankingData(features, labels, rng.integers(0, 6, 80))
    forest = boost(1, max_leaves=2, min_leaf=1).fit(data).forest_
    weights = slow.document_weights(
        labels, data.query_ids, np.zeros(80), np.ones(80), np.ones(data.n_queries)
    )
    best = (0.0, -1)
    for feature, cut in itertools.product(range(3), range(1, 80)):
        above = features[:, feature] >= np.sort(features[:, feature])[cut]
        parts = [weights[above], weights[~above]]
        value = sum(part.sum() ** 2 / np.abs(part).sum() for part in parts if part.any())
        best = max(best, (value, feature))
    assert forest.feature[0] == best[1]


def test_it_stops_when_nothing_is_left_and_says_why():
    model = rw.NDCGBoost(5, min_leaf=1).fit(np.ones((4, 2)), [0, 1, 0, 1], qid=[1, 1, 2, 2])
    assert model.forest_.n_trees == model.best_iteration_ == 0
    assert model.stopped_because_ == NO_USEFUL_TREE
    assert model.predict(np.ones((3, 2))).tolist() == [0.0] * 3


def test_perfect_order_is_bounded():
    model = rw.NDCGBoost(20, min_leaf=1).fit([[0.0], [1.0]], [0, 1], qid=[1, 1])
    scores = model.predict([[0.0], [1.0]])
    assert np.isfinite(scores).all()
    assert scores[1] > scores[0]


def test_early_stopping_keeps_the_best_prefix(data, other):
    everything = boost(20).fit(data, valid=other)
    stopped = boost(20, early_stopping=3).fit(data, valid=other)
    assert stopped.forest_.n_trees == stopped.best_iteration_ < 20
    assert stopped.stopped_because_ == NO_BETTER
    best = int(np.argmax(stopped.history_)) + 1
    assert stopped.forest_ == everything.forest_.take_trees(slice(0, best))


def test_scores_follow_a_monotone_feature(data):
    model = boost(10, max_leaves=8, monotone=[1, 0, 0, 0, 0, 0]).fit(data)
    for row in data.features[:20]:
        line = np.repeat(row[np.newaxis], 60, axis=0)
        line[:, 0] = np.linspace(-3, 3, 60)
        assert np.diff(model.predict(line)).min() >= 0


def test_a_gain_table_counts(data):
    table = [0.0, 1.0, 3.0, 7.0, 15.0]  # 2^label - 1, written out
    assert boost(gain=table).fit(data).forest_ == boost().fit(data).forest_
    assert boost(gain="linear").fit(data).forest_ != boost().fit(data).forest_


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"gain": "cubic"}, UnknownName, "gain 'cubic' is not known"),
        ({"gain": [0, -1]}, ParameterError, "gain of label 1 must be a number of at least 0"),
        ({"gain": [3, 1]}, ParameterError, "gain must not fall as labels rise"),
        ({"gain": 3}, ParameterError, "gain must be a name or a table of numbers, got 3"),
    ],
)
def test_wrong_parameters_are_named(options, error, message, data):
    with pytest.raises(error, match=message):
        rw.NDCGBoost(**options).fit(data)


def test_labels_outside_the_gain_table_are_refused(data):
    with pytest.raises(DataError, match="the gain table has the labels 0 to 1 only"):
        boost(gain=[0.0, 1.0]).fit(data)
    with pytest.raises(DataError, match="is 1330, too large for the exponential gain"):
        boost().fit(np.eye(2), [1330, 0], qid=[1, 1])


@pytest.mark.slow
@pytest.mark.jit_only
def test_a_query_of_fifty_thousand_documents(rng):
    features = rng.random((50_000, 2))
    labels = np.floor(features[:, 0] * 3)
    model = rw.NDCGBoost(2).fit(features, labels, qid=np.zeros(50_000, int))
    assert np.corrcoef(model.predict(features), labels)[0, 1] > 0.7


def test_long_queries_say_what_they_will_take(monkeypatch):
    from rankwood.rankers import pairs

    data = rw.make_ranking(3, 40, 4, seed=1)
    monkeypatch.setattr(pairs, "_MANY_PAIRS", 100.0)
    with pytest.warns(
        rw.errors.DataWarning, match=r"longest query has \d+ documents, so that 2 rounds"
    ):
        rw.NDCGBoost(2, min_leaf=2).fit(data)
