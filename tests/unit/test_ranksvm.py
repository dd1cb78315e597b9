"""RankSVM: sums over pairs without pairs, the least of the objective, and hard cases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import rankwood as rw
from rankwood.errors import DataError, ParameterError
from rankwood.losses import ranksvm as losses
from rankwood.losses.ranksvm import MarginPairs, PairHinge, grades_in_queries
from rankwood.models.linear import Scaling
from tests.reference import linear as reference

NO_SCALING = {"centre": 0.0, "spread": 1.0, "least": 0.0}


def plain_scaling(n_features):
    return Scaling(**{name: np.full(n_features, value) for name, value in NO_SCALING.items()})


def random_data(rng, n_rows, n_queries, labels, n_features=3, **more):
    return rw.RankingData(
        rng.normal(size=(n_rows, n_features)),
        rng.choice(labels, n_rows),
        rng.integers(0, n_queries, n_rows),  # rows of a query are not together
        **more,
    )


LABELS = {
    "binary": [0, 1],
    "grades": [0, 1, 2, 3, 4],
    "equal": [2],
    "large": [0, 72, 1330],
    "real": [0.0, 0.25, 0.5, 1e-9],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("scores", ["random", "tied", "at the margin"])
@pytest.mark.parametrize("n_rows", [1, 2, 40])
def test_sums_over_pairs_equal_the_slow_twin(rng, labels, scores, n_rows):
    data = random_data(rng, n_rows, 5, labels, row_weights=rng.integers(0, 3, n_rows))
    data = rw.RankingData(
        data.features,
        data.labels,
        data.query_ids,
        None,
        data.row_weights,
        rng.random(data.n_queries),
    )
    by_row = {
        "random": rng.normal(size=n_rows),
        "tied": np.zeros(n_rows),
        "at the margin": rng.integers(-2, 3, n_rows) / 2.0,
    }[scores]
    vector = rng.normal(size=n_rows)
    hinge = PairHinge(data, plain_scaling(3), 1.0, 1)
    pairs = hinge._pairs
    grouped = pairs.group(by_row)
    places = losses.order(grouped, pairs.offsets, 1).order
    product, balance, totals = hinge._sums(grouped, places, pairs.group(vector))
    expected = reference.sum_pairs(
        data.labels, data.query_of_row, by_row, vector, data.row_weights, data.query_weights
    )
    np.testing.assert_allclose(pairs.ungroup(product), expected[0], atol=1e-12)
    np.testing.assert_allclose(pairs.ungroup(balance), expected[1], atol=1e-12)
    np.testing.assert_allclose(totals, expected[2], atol=1e-12)


def test_grades_count_the_labels_of_a_query():
    labels = np.array([5.0, 0.0, 5.0, 72.0, 7.0, 7.0])
    grades, n_grades = grades_in_queries(labels, np.array([0, 0, 0, 0, 1, 2]), 3)
    assert grades.tolist() == [2, 1, 2, 3, 1, 1]
    assert n_grades.tolist() == [3, 1, 1]


@pytest.mark.parametrize("n_rows", [2, 30])
def test_value_and_gradient_equal_the_list_of_pairs(rng, n_rows):
    data = random_data(rng, n_rows, 3, [0, 1, 2])
    hinge = PairHinge(data, plain_scaling(3), 0.7, 1)
    for weights in (np.zeros(3), rng.normal(size=3), 5 * rng.normal(size=3)):
        value, gradient = hinge.value_and_gradient(weights)
        arguments = (data.features, data.labels, data.query_of_row, weights, 0.7)
        expected = reference.ranksvm_objective(*arguments)
        assert value == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-10, atol=1e-10)


def test_gradient_and_curvature_are_those_of_the_value(rng):
    data = random_data(rng, 60, 4, [0, 1, 2], row_weights=rng.random(60))
    hinge = PairHinge(data, Scaling.of(data.features, data.row_weights, 1), 0.3, 1)
    weights, direction = rng.normal(size=3), rng.normal(size=3)
    gradient = hinge.value_and_gradient(weights)[1]
    slopes = scipy.optimize.approx_fprime(weights, lambda w: hinge.value_and_gradient(w)[0], 1e-7)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4)
    step = 1e-7
    change = (hinge.value_and_gradient(weights + step * direction)[1] - gradient) / step
    np.testing.assert_allclose(hinge.curvature(weights, direction), change, rtol=1e-4, atol=1e-4)


def test_adding_a_constant_to_a_query_changes_nothing(rng):
    data = random_data(rng, 50, 3, [0, 1, 2])
    shifts = np.array([0.0, 4.0, -3.0])[data.query_of_row]
    moved = rw.RankingData(data.features + shifts[:, None], data.labels, data.query_ids)
    weights = rng.normal(size=3)
    for one, other in zip(
        PairHinge(data, plain_scaling(3), 1.0, 1).value_and_gradient(weights),
        PairHinge(moved, plain_scaling(3), 1.0, 1).value_and_gradient(weights),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)  # features are float32


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_the_least_objective_is_that_of_linear_svc_on_pair_differences(C):
    """Same loss, same penalty, no intercept: same weights. Both standardise the same way before pairing."""
    data = rw.make_ranking(12, 15, 8, seed=5)
    model = rw.RankSVM(C, tol=1e-8).fit(data)
    spread = data.features.astype(np.float64).std(axis=0)
    scaled = data.features / spread
    pairs = np.array(reference.pairs_of(data.labels, data.query_of_row))
    differences = scaled[pairs[:, 0]] - scaled[pairs[:, 1]]
    signs = np.where(
        np.arange(len(pairs)) % 2, 1, -1
    )  # it wants two classes: turn half the pairs round
    peer = LinearSVC(C=C, loss="squared_hinge", fit_intercept=False, dual=False, tol=1e-10)
    peer.fit(differences * signs[:, None], signs)
    theirs = peer.coef_[0]
    slack = np.maximum(0, 1 - differences @ theirs)
    objective = 0.5 * theirs @ theirs + C * (slack**2).sum()
    assert model.objective_ == pytest.approx(objective, rel=1e-4)
    np.testing.assert_allclose(model.linear_.weights * spread, theirs, rtol=1e-3, atol=1e-5)


def test_the_weights_are_found_on_separable_data():
    features = np.array([[0.0, 5], [1, 5], [2, 5], [10, 5], [11, 5]])
    model = rw.RankSVM(1000.0).fit(features, [0, 1, 2, 0, 1], [1, 1, 1, 2, 2])
    assert model.linear_.weights[1] == 0.0  # constant
    # With w on the raw feature: ½ variance · w² + 1000 · 3 (1 - w)²; the pair two apart has more than the margin.
    variance = features[:, 0].var()
    expected = 6000 / (6000 + variance)
    assert model.linear_.weights[0] == pytest.approx(expected, rel=1e-6)
    least = 0.5 * variance * expected**2 + 3000 * (1 - expected) ** 2
    assert model.objective_ == pytest.approx(least, rel=1e-6)


def test_query_weights_multiply(rng):
    data = random_data(rng, 30, 3, [0, 1, 2])
    one = rw.RankSVM(0.1, tol=1e-9).fit(
        data.features, data.labels, data.query_ids, query_weight=[2.0, 2.0, 2.0]
    )
    other = rw.RankSVM(0.2, tol=1e-9).fit(data)
    np.testing.assert_allclose(one.linear_.weights, other.linear_.weights, rtol=1e-6)


def test_missing_values_count_as_the_mean(rng):
    features = rng.normal(size=(40, 2))
    features[rng.random((40, 2)) < 0.3] = np.nan
    labels, qid = rng.integers(0, 3, 40), np.repeat([1, 2], 20)
    model = rw.RankSVM(0.1).fit(features, labels, qid)
    means = np.nanmean(features.astype(np.float32).astype(np.float64), axis=0)
    np.testing.assert_allclose(model.linear_.fill, means, rtol=1e-12)
    nowhere = rw.RankSVM(0.1).fit(np.c_[features, np.full(40, np.nan)], labels, qid)
    assert nowhere.linear_.weights[2] == 0.0
    np.testing.assert_allclose(nowhere.linear_.weights[:2], model.linear_.weights, rtol=1e-9)


def test_the_scale_of_a_feature_makes_no_difference(rng):
    data = random_data(rng, 60, 4, [0, 1, 2])
    factors, shifts = np.array([1.0, 1024.0, 2.0**-10]), np.array([0.0, 7.0, -1.0])
    one = rw.RankSVM(0.1, tol=1e-6).fit(data)
    other = rw.RankSVM(0.1, tol=1e-6).fit(
        data.features * factors + shifts, data.labels, data.query_ids
    )
    np.testing.assert_allclose(other.linear_.weights * factors, one.linear_.weights, rtol=1e-3)


@pytest.mark.parametrize("n_rows", [1, 50, 300])
def test_scaling_equals_the_slow_twin(rng, n_rows, monkeypatch):
    monkeypatch.setattr("rankwood.models.linear._BLOCK_ROWS", 32)
    features = rng.normal(5, 2, size=(n_rows, 4)).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = np.nan
    features[:, 2] = 0.1
    features[:, 3] = np.nan
    weights = rng.integers(0, 3, n_rows).astype(np.float64)
    scaling = Scaling.of(features, weights, 2)
    for feature in range(4):
        expected = reference.moments(features[:, feature], weights)
        found = [scaling.centre[feature], scaling.spread[feature], scaling.least[feature]]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_nothing_to_learn_is_said():
    features = np.arange(6.0).reshape(3, 2)
    with pytest.raises(DataError, match="no query has documents of different labels"):
        rw.RankSVM().fit(features, [0, 1, 1], [1, 1, 1], sample_weight=[0, 1, 1])


def test_features_that_tell_nothing_get_no_weight():
    model = rw.RankSVM().fit(np.full((4, 2), 0.1), [0, 1, 0, 1], [1, 1, 2, 2])
    assert model.linear_.weights.tolist() == [0.0, 0.0]
    assert "no feature tells better documents from worse ones" in model.stopped_because_
    assert model.feature_importances_.tolist() == [0.0, 0.0]
    assert model.predict(np.ones((2, 2))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"measure": "rmse"}, "rmse says nothing"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ParameterError, match=message):
        rw.RankSVM(**parameters).fit(np.arange(4.0).reshape(2, 2), [0, 1], [1, 1])


def test_too_few_steps_give_a_warning():
    data = rw.make_ranking(20, 10, 5, seed=1)
    with pytest.warns(ConvergenceWarning, match="took max_iter=1 steps and has not converged"):
        model = rw.RankSVM(10.0, max_iter=1).fit(data)
    assert model.stopped_because_ == "max_iter=1 steps were taken"


def test_it_learns():
    data = rw.make_ranking(100, 20, 20, seed=1)
    train, test = rw.split_queries(data, (0.7, 0.3), seed=1)
    model = rw.RankSVM().fit(train)
    single = max(
        rw.evaluate(sign * test.features[:, f], test, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
        for f in range(20)
        for sign in (1, -1)
    )
    assert model.score(test) > single + 0.05
    assert model.feature_importances_.sum() == pytest.approx(1.0)


@pytest.mark.jit_only
def test_a_query_of_50_000_documents(rng):
    n_rows = 50_000  # 1,250 million pairs or so: listed, they would fill 20 GB
    features = rng.normal(size=(n_rows, 3))
    labels = np.round(np.clip(features[:, 0] + 0.5 * rng.normal(size=n_rows), 0, 4) * 300)
    model = rw.RankSVM(1e-9).fit(features, labels, np.zeros(n_rows, int))
    weights = np.abs(model.linear_.weights)
    assert weights[0] > 50 * max(weights[1], weights[2])


@pytest.mark.slow
def test_quality_on_mq2008(mq2008):
    """LinearSVC on all pairs, C = 0.1, features as they are, gives MAP 0.4744 on these folds."""
    values = [
        rw.evaluate(rw.RankSVM().fit(train), test, "map", n_bootstrap=0)["map"].value
        for train, _, test in list(rw.read_folds(mq2008))[:5]
    ]
    assert np.mean(values) >= 0.4744 - 0.005


def test_pairs_keep_the_rows_in_place():
    data = rw.RankingData(np.zeros((4, 1)), [0, 1, 2, 0], [7, 8, 7, 8])
    pairs = MarginPairs.of(data)
    by_row = np.array([0.0, 1.0, 2.0, 3.0])
    assert pairs.group(by_row).tolist() == [0.0, 2.0, 1.0, 3.0]
    assert pairs.ungroup(pairs.group(by_row)).tolist() == by_row.tolist()
