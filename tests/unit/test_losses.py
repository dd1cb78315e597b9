"""Losses: gradient and hessian are derivatives of the value; a user's loss and its two orders of parameters."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rankwood as rw
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.loss import ExponentialLoss, SquaredLoss, weak_learner_targets
from rankwood.losses.pairs import PairLoss, graded_lists, ndcgboost_loss
from rankwood.rankers.broof.strategies import scores_first
from tests.reference import lambdarank as slow

STEP = 1e-5
TARGETS = {
    "ndcg": {"name": "ndcg"},
    "ndcg@3": {"name": "ndcg", "k": 3},
    "map": {"name": "map"},
    "mrr@3": {"name": "mrr", "k": 3},
    "err": {"name": "err"},
}


def random_data(rng, weighted):
    sizes = rng.integers(2, 9, 6)
    query_ids = rng.permutation(np.repeat(np.arange(6), sizes))  # rows of a query are scattered
    labels = rng.integers(0, 4, query_ids.size).astype(float)
    weights = rng.uniform(0.5, 2.0, query_ids.size) if weighted else None
    of_queries = rng.uniform(0.5, 2.0, 6) if weighted else None
    features = np.zeros((query_ids.size, 1), np.float32)
    return rw.RankingData(features, labels, query_ids, None, weights, of_queries)


def lambdarank(data, **options):
    """LambdaRank with one weight for all documents of a query: only then its gradients are of a function."""
    weights = None if data.query_weights is None else data.query_weights[data.query_of_row]
    return LambdaRank(data, weights=weights, **options)


LOSSES = {
    "squared": lambda data: SquaredLoss(data.labels, data.row_weights),
    "exponential": lambda data: ExponentialLoss(
        np.where(data.labels > 1, 1.0, -1.0), data.row_weights
    ),
    "pairs": lambda data: PairLoss(graded_lists(data, 1)),
    "ndcgboost": lambda data: ndcgboost_loss(graded_lists(data, 1), "exponential"),
    **{
        f"lambdarank {text} {normalise}": lambda data, text=text, normalise=normalise: lambdarank(
            data, target=text, normalise=normalise, sigma=0.7
        )
        for text in TARGETS
        for normalise in (True, False)
    },
}


def derivatives(value, scores):
    """First and second derivatives by each score, by central differences."""
    first, second = np.empty(scores.size), np.empty(scores.size)
    wide = 30 * STEP  # second differences lose twice the digits
    for row in range(scores.size):
        move = np.zeros(scores.size)
        move[row] = STEP
        first[row] = (value(scores + move) - value(scores - move)) / (2 * STEP)
        move[row] = wide
        moved = value(scores + move) - 2 * value(scores) + value(scores - move)
        second[row] = moved / wide**2
    return first, second


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_derivatives_of_the_value(name, weighted, rng):
    for _ in range(3):
        data = random_data(rng, weighted)
        loss = LOSSES[name](data)
        scores = rng.normal(size=len(data))
        gradient, hessian = loss.gradients(scores)

        def value(at, loss=loss, scores=scores):
            return loss.value(at, scores) if isinstance(loss, LambdaRank) else loss.value(at)

        first, second = derivatives(value, scores)
        np.testing.assert_allclose(gradient, first, rtol=1e-5, atol=1e-7)
        if hessian is not None:
            np.testing.assert_allclose(hessian, second, rtol=1e-3, atol=1e-5)
        assert np.abs(gradient).sum() > 0


@pytest.mark.parametrize("text", TARGETS)
def test_the_value_of_lambdarank_equals_the_slow_twin(text, rng):
    data = random_data(rng, weighted=False)
    scores = rng.normal(size=len(data))
    expected = 0.0
    for _, rows in data.iter_queries():
        pairs = slow.pairs_of(
            data.labels[rows],
            scores[rows],
            TARGETS[text],
            normalise=False,
            largest=data.labels.max(),
        )
        expected += slow.cost(pairs, scores[rows], 0.7)
    found = LambdaRank(data, text, sigma=0.7, normalise=False).value(scores)
    assert found == pytest.approx(expected, rel=1e-10)


def test_a_query_without_pairs_has_no_value():
    data = rw.RankingData(np.zeros((3, 1), np.float32), [1, 1, 2], [0, 0, 1])
    assert LambdaRank(data).value(np.arange(3.0)) == 0.0


def test_trees_fit_residuals_of_squared_loss_and_newton_steps_of_others(rng):
    data = random_data(rng, weighted=True)
    scores = rng.normal(size=len(data))
    targets, weights = weak_learner_targets(SquaredLoss(data.labels, data.row_weights), scores)
    assert targets.tolist() == (data.labels - scores).tolist()
    assert weights is data.row_weights
    loss = LambdaRank(data)
    gradient, hessian = loss.gradients(scores)
    targets, weights = weak_learner_targets(loss, scores)
    has_hessian = hessian > 0
    np.testing.assert_array_equal(targets[has_hessian], (-gradient / hessian)[has_hessian])
    np.testing.assert_array_equal(weights, hessian)


# A user's loss: (scores, data) everywhere; (data, scores) for one version more.


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(n_queries=12, docs_per_query=8, n_features=4, seed=3)


def fitted(loss, data):
    return rw.BROOF(loss, n_rounds=3, n_trees=4, max_leaves=8).fit(data).predict(data)


class New:
    def targets(self, scores, data):
        return data.labels - scores


class Old:
    def targets(self, data, scores):
        return data.labels - scores


class OldWithoutNames:
    def targets(self, one, other):
        return one.labels - other


def test_both_orders_of_targets_give_the_same_model(data):
    expected = fitted("gradient", data)
    assert np.array_equal(fitted(New(), data), expected)
    for loss in (Old(), OldWithoutNames()):
        with pytest.warns(FutureWarning, match=r"targets of Old.* takes \(data, scores\)") as seen:
            assert np.array_equal(fitted(loss, data), expected)
        assert [w.category for w in seen].count(FutureWarning) == 1


def test_both_orders_of_errors_give_the_same_model(data):
    expected = fitted("absolute", data)
    assert np.array_equal(fitted(lambda guesses, d: abs(d.labels - guesses), data), expected)

    def distances(data, predictions):
        return abs(data.labels - predictions)

    with pytest.warns(FutureWarning, match=r"distances takes \(data, scores\)"):
        assert np.array_equal(fitted(distances, data), expected)


@pytest.mark.parametrize(
    ("function", "is_old"),
    [
        (lambda scores, data: (scores, data), False),
        (lambda predictions, collection: (predictions, collection), False),
        (lambda first, data: (first, data), False),
        (lambda data, scores: (scores, data), True),
        (lambda data, guesses: (guesses, data), True),
        (lambda first, predictions: (predictions, first), True),
    ],
)
def test_names_of_parameters_tell_the_order(function, is_old):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert scores_first(function, "it")("scores", "data") == ("scores", "data")
    assert [one.category for one in seen] == [FutureWarning] * is_old


def test_an_error_of_the_function_itself_is_the_one_raised():
    def broken(one, other):
        raise TypeError(f"cannot use {one}")

    with pytest.raises(TypeError, match="cannot use scores"):
        scores_first(broken, "it")("scores", "data")


def test_the_loss_of_lambdamart_takes_the_same_order(data):
    def squared(scores, data):
        return scores - data.labels, np.ones(len(data))

    options = {"n_trees": 3, "min_leaf": 5, "min_hessian": 0.0, "l2": 0.0}
    own = rw.LambdaMART(loss=squared, **options).fit(data)
    plain = {"learning_rate": 0.1, "features_per_node": None, "start": "zero"}
    expected = rw.GBRT(n_trees=3, min_leaf=5, **plain).fit(data)
    np.testing.assert_allclose(own.predict(data), expected.predict(data), rtol=1e-9)
