"""LambdaRank's gradients: the slow twin, sums, finite differences, and queries that trip up kernels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ParameterError
from rankwood.losses.lambdarank import LambdaRank, parse_target
from rankwood.losses.loss import OwnLoss, newton_targets, weak_learner_targets
from tests.reference import lambdarank as slow

TARGETS = {
    "ndcg": {"name": "ndcg"},
    "ndcg@3": {"name": "ndcg", "k": 3},
    "ndcg[gain=linear,discount=letor]": {"name": "ndcg", "gain": "linear", "discount": "letor"},
    "ndcg@5[gain=0/2/2/9/10]": {"name": "ndcg", "k": 5, "gain": (0, 2, 2, 9, 10)},
    "map": {"name": "map"},
    "map@4[relevant=2]": {"name": "map", "k": 4, "relevant": 2},
    "map@2[norm=cutoff]": {"name": "map", "k": 2, "norm": "cutoff"},
    "mrr": {"name": "mrr"},
    "mrr@3[relevant=3]": {"name": "mrr", "k": 3, "relevant": 3},
    "err": {"name": "err"},
    "err@4[max=6]": {"name": "err", "k": 4, "max": 6},
}


def without_features(labels, query_ids):
    return rw.RankingData(np.zeros((len(labels), 1), np.float32), labels, query_ids)


def random_data(seed, n_queries=8, longest=14):
    """Short queries with graded labels and scores, some of them tied; one with a single document."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, longest, n_queries)
    sizes[0] = 1
    labels = rng.integers(0, 5, sizes.sum()).astype(float)
    scores = np.round(rng.normal(size=labels.size), 1)  # one in ten is tied
    return without_features(labels, np.repeat(np.arange(n_queries), sizes)), scores


def expected(data, scores, target, **options):
    """The slow twin, query by query."""
    gradient, hessian = np.empty(len(data)), np.empty(len(data))
    largest = float(data.labels.max())
    for _, rows in data.iter_queries():
        of_query = slow.gradients(
            data.labels[rows].tolist(), scores[rows].tolist(), target, largest=largest, **options
        )
        gradient[rows], hessian[rows] = of_query
    return gradient, hessian


@pytest.mark.parametrize("text", TARGETS)
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("truncation", [1, 4, None])
def test_gradients_equal_the_slow_twin(text, normalise, truncation):
    for seed, sigma in ((0, 1.0), (1, 0.3), (2, 2.0)):
        data, scores = random_data(seed)
        options = {"sigma": sigma, "truncation": truncation, "normalise": normalise}
        found = LambdaRank(data, text, **options).gradients(scores)
        wanted = expected(data, scores, TARGETS[text], **options)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("text", TARGETS)
def test_what_is_pushed_up_is_pushed_down(text):
    data, scores = random_data(5)
    gradient, hessian = LambdaRank(data, text).gradients(scores)
    for _, rows in data.iter_queries():
        assert abs(gradient[rows].sum()) <= 1e-12 * np.abs(gradient[rows]).sum()
    assert np.abs(gradient).sum() > 0
    assert (hessian >= 0).all()
    assert (hessian[gradient != 0] > 0).all()


@pytest.mark.parametrize("text", ["ndcg", "map@4[relevant=2]", "mrr", "err"])
@pytest.mark.parametrize("sigma", [1.0, 0.5])
def test_gradients_are_finite_differences_of_the_cost_with_the_weights_held_fixed(text, sigma):
    rng = np.random.default_rng(9)
    labels, scores = rng.integers(0, 5, 10).astype(float), rng.normal(size=10)
    pairs = slow.pairs_of(labels, scores, TARGETS[text], normalise=False)
    step = 1e-4
    moved = step * np.eye(10)
    gradient = [
        (slow.cost(pairs, scores + move, sigma) - slow.cost(pairs, scores - move, sigma))
        / (2 * step)
        for move in moved
    ]
    curvature = [
        (
            slow.cost(pairs, scores + move, sigma)
            - 2 * slow.cost(pairs, scores, sigma)
            + slow.cost(pairs, scores - move, sigma)
        )
        / step**2
        for move in moved
    ]
    data = without_features(labels, np.zeros(10, int))
    found = LambdaRank(data, text, sigma=sigma, normalise=False).gradients(scores)
    np.testing.assert_allclose(found[0], gradient, atol=1e-8)
    np.testing.assert_allclose(found[1], curvature, atol=1e-6)


@pytest.mark.parametrize("text", ["ndcg@5", "map", "mrr", "err"])
def test_a_constant_added_to_a_querys_scores_changes_nothing(text):
    data, scores = random_data(3)
    shifts = np.random.default_rng(0).normal(size=data.n_queries) * 8
    shifts = np.round(shifts)  # whole numbers, so that ties stay ties
    loss = LambdaRank(data, text)
    one = loss.gradients(scores)
    other = loss.gradients(scores + shifts[data.query_of_row])
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("text", ["ndcg@5", "map", "mrr", "err"])
def test_the_order_of_rows_does_not_matter_without_ties(text, rng):
    data, _ = random_data(4)
    scores = rng.normal(size=len(data))
    order = rng.permutation(len(data))  # rows of a query are then scattered
    gradient, hessian = LambdaRank(data, text).gradients(scores)
    other = LambdaRank(data.take_rows(order), text).gradients(scores[order])
    np.testing.assert_allclose(other[0], gradient[order], rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(other[1], hessian[order], rtol=1e-12, atol=1e-16)


def test_tied_documents_keep_the_datas_order():
    # All tied: the ranking is the data's order, and the distance of scores divides nothing.
    labels = [0.0, 2.0, 1.0]
    data = without_features(labels, [7, 7, 7])
    found = LambdaRank(data, normalise=False).gradients(np.zeros(3))
    best = 3.0 + 1.0 / np.log2(3)  # gains 3 and 1 at the first two ranks
    discount = [1.0, 1 / np.log2(3), 0.5]
    pull = {
        (1, 0): 3 * (discount[0] - discount[1]) / best,
        (2, 0): 1 * (discount[0] - discount[2]) / best,
        (1, 2): 2 * (discount[1] - discount[2]) / best,
    }
    gradient = np.zeros(3)
    for (better, worse), weight in pull.items():
        gradient[better] -= weight / 2  # rho is one half
        gradient[worse] += weight / 2
    np.testing.assert_allclose(found[0], gradient, rtol=1e-14)
    normalised = LambdaRank(data).gradients(np.zeros(3))
    total = 2 * sum(weight / 2 for weight in pull.values())
    np.testing.assert_allclose(normalised[0], gradient * np.log2(1 + total) / total, rtol=1e-14)


@pytest.mark.parametrize("text", ["ndcg", "map", "mrr", "err"])
@pytest.mark.parametrize(
    ("labels", "query_ids"),
    [
        ([3.0], [1]),
        ([2.0, 2.0, 2.0], [1, 1, 1]),
        ([0.0, 0.0], [1, 1]),
        ([1.0, 3.0, 0.0], [1, 2, 3]),
    ],
)
def test_queries_without_pairs_have_no_gradient(text, labels, query_ids):
    loss = LambdaRank(without_features(labels, query_ids), text)
    gradient, hessian = loss.gradients(np.arange(float(len(labels))))
    assert not gradient.any()
    assert not hessian.any()
    target, weight = weak_learner_targets(loss, np.zeros(len(labels)))
    assert not target.any()
    assert not weight.any()


@pytest.mark.parametrize("text", ["ndcg", "ndcg[gain=linear]", "map", "mrr", "err"])
@pytest.mark.parametrize("largest", [72.0, 999.5])
def test_large_labels(text, largest):
    data = without_features([0.0, largest, 3.0, 0.5], [1, 1, 1, 1])
    gradient, hessian = LambdaRank(data, text).gradients(np.array([0.3, -0.2, 0.1, 0.0]))
    assert np.isfinite(gradient).all()
    assert np.isfinite(hessian).all()
    assert gradient[1] < 0


def test_labels_beyond_any_power_of_two_need_another_gain():
    data = without_features([0.0, 1330.0, 3.0], [1, 1, 1])
    with pytest.raises(DataError, match=r"labels\[1\] is 1330, too large .* Use gain=linear"):
        LambdaRank(data)
    gradient, _ = LambdaRank(data, "ndcg[gain=linear]").gradients(np.zeros(3))
    assert gradient[1] < 0
    assert gradient.sum() == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("text", ["ndcg", "map", "mrr", "err"])
def test_scores_very_far_apart_give_numbers(text):
    data = without_features([2.0, 0.0, 1.0, 0.0], [1, 1, 1, 1])
    for scale in (50.0, 1e3, 1e6, 1e300):
        loss = LambdaRank(data, text)
        scores = scale * np.array([-1.0, 1.0, 0.5, -0.7])
        gradient, hessian = loss.gradients(scores)
        assert np.isfinite(gradient).all()
        assert np.isfinite(hessian).all()
        assert gradient[0] < 0 or scale == 1e300
        target, weight = weak_learner_targets(loss, scores)
        assert np.isfinite(target).all()
        assert np.isfinite(weight).all()


@pytest.mark.jit_only
@pytest.mark.parametrize("text", ["ndcg", "map", "mrr", "err"])
def test_a_query_of_fifty_thousand_documents(text, rng):
    labels = rng.integers(0, 5, 50_000).astype(float)
    scores = rng.normal(size=50_000)
    loss = LambdaRank(without_features(labels, np.zeros(50_000, int)), text, normalise=False)
    gradient, hessian = loss.gradients(scores)
    assert np.isfinite(hessian).all()
    assert abs(gradient.sum()) <= 1e-9 * np.abs(gradient).sum()
    if text == "ndcg":
        np.testing.assert_allclose(gradient, ndcg_gradient(labels, scores, 30), atol=1e-15)


def ndcg_gradient(labels, scores, truncation):
    """The first ranks against all below, rank by rank."""
    order = np.argsort(-scores, kind="stable")
    discounts = 1.0 / np.log2(np.arange(labels.size) + 2.0)
    gains = 2.0**labels - 1.0
    gains /= (np.sort(gains)[::-1] * discounts).sum()
    gradient = np.zeros(labels.size)
    for rank in range(truncation):
        top, below = order[rank], order[rank + 1 :]
        gap = gains[top] - gains[below]
        apart = np.sign(gap) * (scores[top] - scores[below])
        pull = gap * (discounts[rank] - discounts[rank + 1 :]) / (1.0 + np.exp(apart))
        gradient[top] -= pull.sum()
        gradient[below] += pull
    return gradient


def test_the_same_bytes_for_any_number_of_threads(rng, monkeypatch):
    from rankwood.losses import lambdarank

    monkeypatch.setattr(lambdarank, "_PAIRS_PER_THREAD", 1)
    sizes = rng.integers(1, 60, 70)
    labels = rng.integers(0, 5, sizes.sum()).astype(float)
    data = without_features(labels, np.repeat(np.arange(70), sizes))
    scores = rng.normal(size=labels.size)
    found = [
        [part.tobytes() for part in LambdaRank(data, n_threads=n).gradients(scores)]
        for n in (1, 2, 5, 100)
    ]
    assert all(one == found[0] for one in found)


def test_blocks_are_about_equal_in_work(rng):
    sizes = np.concatenate([rng.integers(1, 40, 3000), [5_000]])
    labels = np.zeros(sizes.sum())
    data = without_features(labels, np.repeat(np.arange(sizes.size), sizes))
    loss = LambdaRank(data)
    (edges,) = loss._edges
    assert edges[0] == 0
    assert edges[-1] == sizes.size
    work = np.add.reduceat(sizes * (np.minimum(sizes, 30) + 8), edges[:-1][:-1])
    # All but the block of the long query, which stands last, hold a 64th, give or take a query.
    assert work[:40].max() <= loss._work[-1] / 64 + 40 * 48
    assert work[:40].min() >= loss._work[-1] / 64 - 40 * 48


def test_weights_multiply_and_rows_without_weight_are_in_no_pair():
    data, scores = random_data(6)
    plain = LambdaRank(data).gradients(scores)
    weights = np.linspace(0.5, 2.0, len(data))
    weighed = LambdaRank(data, weights=weights).gradients(scores)
    np.testing.assert_allclose(weighed, np.array(plain) * weights, rtol=1e-14)
    present = np.arange(len(data)) % 3 > 0
    some = LambdaRank(data, weights=present.astype(float)).gradients(scores)
    without = LambdaRank(data.take_rows(present)).gradients(scores[present])
    np.testing.assert_array_equal(np.array(some)[:, present], without)
    assert not np.array(some)[:, ~present].any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p@5", "target must be one of ndcg, map, mrr, err, got 'p@5'"),
        ("ndcg[ties=average]", "ties is no part of a target"),
        ("ndcg@5[short=zero]", "short is no part of a target"),
        ("map@5[norm=found]", "norm=found rises when relevant documents are hidden"),
        ("ndgc", "Did you mean 'ndcg'"),
        (3, "a measure is text such as"),
    ],
)
def test_what_cannot_be_a_target_is_refused(text, message):
    with pytest.raises(ParameterError, match=message):
        parse_target(text)


def test_the_value_of_empty_queries_is_no_matter():
    assert parse_target("ndcg[empty=1]").name == "ndcg"


def test_wrong_data_and_scores_are_refused():
    features = np.zeros((2, 1), np.float32)
    with pytest.raises(DataError, match="no query ids"):
        LambdaRank(rw.RankingData(features, [0, 1]))
    loss = LambdaRank(rw.RankingData(features, [0, 1], [1, 1]))
    with pytest.raises(DataError, match="scores has 3 values, but there are 2 rows"):
        loss.gradients(np.zeros(3))
    with pytest.raises(DataError, match=r"scores\[0\] is nan"):
        loss.gradients(np.array([np.nan, 0.0]))


def test_newtons_targets_leave_out_rows_without_hessian():
    target, weight = newton_targets(np.array([1.0, 0.0, 1e-9]), np.array([2.0, 0.0, 1e-200]))
    np.testing.assert_array_equal(target, [-0.5, 0.0, 0.0])
    np.testing.assert_array_equal(weight, [2.0, 0.0, 0.0])


@pytest.mark.parametrize("n_threads", [1, 2, 7])
def test_newtons_targets_do_not_depend_on_threads(monkeypatch, n_threads):
    monkeypatch.setattr("rankwood.losses.loss._LEAST_ROWS", 3)
    rng = np.random.default_rng(0)
    gradient = rng.normal(size=101)
    hessian = np.where(rng.random(101) < 0.3, 0.0, rng.random(101))
    target, weight = newton_targets(gradient, hessian, n_threads)
    expected = [-g / h if h > 0.0 else 0.0 for g, h in zip(gradient, hessian, strict=True)]
    np.testing.assert_array_equal(target, expected)
    np.testing.assert_array_equal(weight, hessian)


def pairwise_logistic(scores, data):
    """All pairs weigh alike: RankNet."""
    gradient, hessian = np.zeros(len(data)), np.zeros(len(data))
    for _, rows in data.iter_queries():
        for one, other in itertools.permutations(rows.tolist(), 2):
            if data.labels[one] > data.labels[other]:
                rho = 1.0 / (1.0 + np.exp(scores[one] - scores[other]))
                gradient[one] -= rho
                gradient[other] += rho
                hessian[[one, other]] += rho * (1.0 - rho)
    return gradient, hessian


def test_an_own_loss_is_asked_and_weighed():
    data, scores = random_data(1, n_queries=3, longest=6)
    weights = np.linspace(1.0, 2.0, len(data))
    wanted = np.array(pairwise_logistic(scores, data))
    np.testing.assert_array_equal(OwnLoss(pairwise_logistic, data).gradients(scores), wanted)
    found = OwnLoss(pairwise_logistic, data, weights).gradients(scores)
    np.testing.assert_array_equal(found, wanted * weights)
    assert OwnLoss(pairwise_logistic, data).start() == 0.0


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (None, ParameterError, "loss must give two arrays, .*; got NoneType"),
        ((np.ones(2),), ParameterError, "loss must give two arrays"),
        ((np.ones(3), np.ones(2)), DataError, "the loss's gradient has 3 values"),
        ((np.ones(2), [1.0, np.nan]), DataError, r"the loss's hessian\[1\] is nan"),
        ((np.ones(2), [1.0, -1.0]), ParameterError, r"hessian\[1\] is -1 where the gradient is 1"),
        ((np.ones(2), np.zeros(2)), ParameterError, "can give ones"),
    ],
)
def test_a_wrong_answer_of_an_own_loss_is_named(answer, error, message):
    loss = OwnLoss(lambda *_: answer, without_features([0.0, 1.0], [1, 1]))
    with pytest.raises(error, match=message):
        weak_learner_targets(loss, np.zeros(2))


def test_an_own_loss_cannot_write_to_the_scores():
    def spoil(scores, data):
        scores[:] = 0.0

    loss = OwnLoss(spoil, without_features([0.0, 1.0], [1, 1]))
    with pytest.raises(ValueError, match="read-only"):
        loss.gradients(np.zeros(2))
