"""Losses over pairs: kernels against listed pairs, gradients against finite differences, nasty queries."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError
from rankwood.losses.pairs import SMOOTHING, PairLoss, graded_lists, ndcgboost_loss
from tests.reference import pair_losses as slow


def problem(rng, *, weighted=False, n_rows=40, n_queries=5):
    """Rows of mixed-up queries, one of them without pairs and one with a single document; weights at most 1."""
    query_ids = np.concatenate([rng.integers(0, n_queries, n_rows), [90, 91, 91]])
    labels = np.concatenate([rng.integers(0, 4, n_rows), [2, 1, 1]]).astype(float)
    weights = queries = None
    if weighted:
        weights = rng.choice([0.0, 0.25, 0.5, 1.0], labels.size)
        queries = rng.choice([0.0, 0.5, 1.0], len(np.unique(query_ids)))
    data = rw.RankingData(rng.random((labels.size, 2)), labels, query_ids, None, weights, queries)
    scores = rng.normal(0, 2, labels.size)
    n_ids = data.n_queries
    ones = (np.ones(labels.size), np.ones(n_ids))
    return data, scores, (weights, queries) if weighted else ones


def relevant_to(data, given) -> np.ndarray:
    """The labels as the twin should see them: rows of weight 0 are no part of the ideal ranking either."""
    return np.where(given[0] > 0, data.labels, 0.0)


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def case(request, rng):
    return problem(rng, weighted=request.param)


def test_document_weights_equal_the_slow_twin(case):
    data, scores, given = case
    loss = ndcgboost_loss(graded_lists(data, 1), "exponential")
    expected = slow.document_weights(relevant_to(data, given), data.query_ids, scores, *given)
    np.testing.assert_allclose(loss.document_weights(scores), expected, rtol=1e-11, atol=1e-14)


def test_the_surrogate_equals_the_slow_twin(case):
    data, scores, given = case
    lists = graded_lists(data, 1)
    paired = np.isin(np.arange(len(data)), lists.rows)
    given = (given[0] * paired, given[1])  # the twin also counts queries whose labels are all alike
    expected = slow.surrogate(relevant_to(data, given), data.query_ids, scores, *given)
    value = ndcgboost_loss(lists, "exponential").value(scores)
    assert value == pytest.approx(expected, rel=1e-12)


def test_the_sums_of_a_step_equal_the_slow_twin(case, rng):
    data, scores, given = case
    lists = graded_lists(data, 1)
    paired = np.isin(np.arange(len(data)), lists.rows)
    given = (given[0] * paired, given[1])
    loss = ndcgboost_loss(lists, "exponential")
    votes = rng.integers(0, 2, len(data)).astype(float)
    up, down = slow.vote_sums(relevant_to(data, given), data.query_ids, scores, votes, *given)
    assert loss.pair_sums(scores, votes) == pytest.approx((up, down), rel=1e-12)
    assert loss.step(scores, votes) == pytest.approx(0.5 * math.log(up / down), abs=1e-5)


def test_potentials_equal_listed_pairs(case):
    data, scores, given = case
    potentials = PairLoss(graded_lists(data, 1)).potentials(scores)
    expected = slow.potentials(data.labels, data.query_ids, scores, *given)
    np.testing.assert_allclose(potentials, expected, rtol=1e-11, atol=1e-14)
    assert np.abs(potentials).sum() <= 2 + 1e-12  # each pair's share counts twice at most


def test_the_pair_loss_equals_listed_pairs(case):
    data, scores, given = case
    pairs = (data.labels, data.query_ids)
    at_zero = slow.distribution(*pairs, np.zeros(len(data)), *given)
    expected = sum(slow.distribution(*pairs, scores, *given)) / sum(at_zero)
    assert PairLoss(graded_lists(data, 1)).value(scores) == pytest.approx(expected, rel=1e-12)


def losses_of(data):
    lists = graded_lists(data, 1)
    return ndcgboost_loss(lists, "exponential"), PairLoss(lists)


def test_weights_are_minus_the_gradient_by_finite_differences(case):
    data, scores, _ = case
    ndcg, pairs = losses_of(data)
    weights = ndcg.document_weights(scores)
    potentials = pairs.potentials(scores)
    step = 1e-6
    for row in range(len(data)):
        ends = [scores + sign * step * (np.arange(len(data)) == row) for sign in (1, -1)]
        slope = (ndcg.value(ends[0]) - ndcg.value(ends[1])) / (2 * step)
        assert -slope == pytest.approx(weights[row], abs=1e-7)
        logarithms = [math.log(pairs.value(end)) for end in ends]
        assert -(logarithms[0] - logarithms[1]) / (2 * step) == pytest.approx(
            potentials[row], abs=1e-7
        )


def test_what_is_pushed_up_is_pushed_down(case):
    data, scores, _ = case
    ndcg, pairs = losses_of(data)
    for pushes in (ndcg.document_weights(scores), pairs.potentials(scores)):
        for _, rows in data.iter_queries():
            assert abs(pushes[rows].sum()) <= 1e-12 * (1 + np.abs(pushes[rows]).sum())


def test_a_constant_added_to_a_query_changes_nothing(case):
    data, scores, _ = case
    moved = scores + 1e3 * data.query_of_row
    for loss in losses_of(data):
        one, other = loss.gradients(scores)[0], loss.gradients(moved)[0]
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)


def test_the_order_of_rows_changes_nothing(case, rng):
    data, scores, _ = case
    order = rng.permutation(len(data))
    before, after = losses_of(data), losses_of(data.take_rows(order))
    np.testing.assert_allclose(
        after[0].document_weights(scores[order]), before[0].document_weights(scores)[order]
    )
    np.testing.assert_allclose(
        after[1].potentials(scores[order]), before[1].potentials(scores)[order]
    )


def test_blocks_of_places_give_the_same_bits(monkeypatch, rng):
    monkeypatch.setattr(
        "rankwood.losses.pairs._LEAST_COMPARED", 1
    )  # else few documents get one thread
    data, scores, _ = problem(rng, n_rows=300)
    votes = (scores > 0).astype(float)
    found = []
    for n_threads in (1, 2, 7):
        lists = graded_lists(data, n_threads)
        loss = ndcgboost_loss(lists, "exponential")
        weights, potentials = loss.document_weights(scores), PairLoss(lists).potentials(scores)
        sums = loss.pair_sums(scores, votes)
        found.append((weights.tobytes(), potentials.tobytes(), sums, loss.value(scores)))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("span", [50.0, 500.0, 5e4])
def test_scores_far_apart_stay_finite(span, rng):
    data, _, _ = problem(rng)
    scores = np.where(rng.random(len(data)) < 0.5, 0.0, span)
    ndcg, pairs = losses_of(data)
    votes = (data.labels > 1).astype(float)
    for found in (ndcg.document_weights(scores), pairs.potentials(scores)):
        assert np.isfinite(found).all()
    assert np.isfinite([ndcg.value(scores), ndcg.step(scores, votes)]).all()


def test_extreme_weights_stay_finite(rng):
    data, scores, _ = problem(rng)
    weights = np.where(np.arange(len(data)) % 2, 1e300, 1e-300)
    extreme = rw.RankingData(data.features, data.labels, data.query_ids, row_weights=weights)
    ndcg, pairs = losses_of(extreme)
    assert np.isfinite(ndcg.document_weights(scores)).all()
    assert np.isfinite(pairs.potentials(scores)).all()


def test_a_step_is_smoothed_and_bounded():
    # One good and one bad document: a vote for the good one leaves nothing on the other side, so
    # α = ½ ln((1 + SMOOTHING) / SMOOTHING).
    data = rw.RankingData([[1.0], [0.0]], [1, 0], [1, 1])
    loss = ndcgboost_loss(graded_lists(data, 1), "exponential")
    scores = np.zeros(2)
    longest = 0.5 * math.log((1 + SMOOTHING) / SMOOTHING)
    assert loss.step(scores, np.array([1.0, 0.0])) == pytest.approx(longest)
    assert loss.step(scores, np.array([0.0, 1.0])) == pytest.approx(-longest)
    assert loss.step(scores, np.array([1.0, 1.0])) == 0.0  # nobody is told apart


def test_a_query_by_hand():
    # Labels 2 and 0 at equal scores: gain 3, ideal DCG 3 / log2(2) = 3, so g = 1 and 0; θ = ¼.
    data = rw.RankingData([[1.0], [0.0]], [2, 0], [1, 1])
    ndcg, pairs = losses_of(data)
    scores = np.zeros(2)
    np.testing.assert_allclose(ndcg.document_weights(scores), [0.25, -0.25])
    assert ndcg.value(scores) == 0.5
    np.testing.assert_allclose(pairs.potentials(scores), [1.0, -1.0])
    assert pairs.value(np.array([1.0, 0.0])) == pytest.approx(math.exp(-1))
    assert ndcg.start() == pairs.start() == 0.0


@pytest.mark.parametrize("gain", ["linear", (0.0, 1.0, 3.0, 10.0)])
def test_other_gains(gain, rng):
    data, scores, given = problem(rng)
    found = ndcgboost_loss(graded_lists(data, 1), gain).document_weights(scores)
    gains = data.labels if gain == "linear" else np.array(gain)[data.labels.astype(int)]
    as_labels = np.log2(gains + 1)  # 2^label - 1 is then the gain
    expected = slow.document_weights(as_labels, data.query_ids, scores, *given)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-13)


def test_a_table_without_gain_leaves_nothing_to_win():
    data = rw.RankingData([[1.0], [0.0]], [1, 0], [1, 1])
    loss = ndcgboost_loss(graded_lists(data, 1), (0.0, 0.0, 1.0))
    assert loss.document_weights(np.zeros(2)).tolist() == [0.0, 0.0]


def test_large_labels():
    large = rw.RankingData(np.eye(4), [72, 1000, 3, 0], [1] * 4)
    weights = ndcgboost_loss(graded_lists(large, 1), "exponential").document_weights(np.zeros(4))
    assert np.isfinite(weights).all()
    assert weights[1] > 0 > weights[3]
    beyond = rw.RankingData(np.eye(4), [72, 1330, 3, 0], [1] * 4)
    with pytest.raises(DataError, match=r"labels\[1\] is 1330, too large.*Use gain=linear"):
        ndcgboost_loss(graded_lists(beyond, 1), "exponential")
    assert np.isfinite(
        ndcgboost_loss(graded_lists(beyond, 1), "linear").document_weights(np.zeros(4))
    ).all()


@pytest.mark.parametrize(
    ("labels", "query_ids", "weights"),
    [
        ([1, 1, 2], [1, 1, 2], None),
        ([0], [1], None),
        ([0, 1], [1, 2], None),
        ([0, 1, 0], [1, 1, 1], [1.0, 0.0, 1.0]),
    ],
)
def test_no_pairs_are_an_error_that_says_so(labels, query_ids, weights):
    data = rw.RankingData(np.ones((len(labels), 1)), labels, query_ids, row_weights=weights)
    with pytest.raises(DataError, match=r"nothing to rank: none of the \d queries"):
        graded_lists(data, 1)
    for kind in (rw.RankBoost, rw.NDCGBoost):
        with pytest.raises(DataError, match="Check that qid groups the documents of one search"):
            kind().fit(data)


@pytest.mark.slow
@pytest.mark.jit_only
def test_a_query_of_fifty_thousand_documents(rng):
    labels = rng.integers(0, 5, 50_000).astype(float)
    data = rw.RankingData(rng.random((50_000, 2)), labels, np.zeros(50_000, int))
    ndcg, pairs = losses_of(data)
    scores = rng.normal(size=50_000)
    weights = ndcg.document_weights(scores)
    assert abs(weights.sum()) <= 1e-9 * np.abs(weights).sum()
    potentials = pairs.potentials(scores)
    assert abs(potentials.sum()) <= 1e-9
    assert ndcg.step(scores, (labels > 2).astype(float)) > 0
