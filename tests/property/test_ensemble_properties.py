"""What holds for every ensemble, whatever the data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwood as rw

FORESTS = [rw.RandomForest, rw.ExtraTrees, rw.CompletelyRandomForest]


@st.composite
def problems(draw):
    """Small data with ties, missing values, infinities and duplicated rows."""
    n_rows = draw(st.integers(1, 40))
    n_features = draw(st.integers(1, 4))
    values = st.sampled_from([0.0, -0.0, 1.0, 2.0, 2.5, -7.0, 1e30, -1e30, np.inf, -np.inf, np.nan])
    rows = st.lists(values, min_size=n_features, max_size=n_features)
    features = np.array(draw(st.lists(rows, min_size=n_rows, max_size=n_rows)))
    labels = np.array(draw(st.lists(st.integers(0, 4), min_size=n_rows, max_size=n_rows)), float)
    qid = draw(st.lists(st.integers(0, 5), min_size=n_rows, max_size=n_rows))
    return rw.RankingData(features, labels, np.array(qid))


@st.composite
def weighted_problems(draw):
    data = draw(problems())
    weights = st.sampled_from([0.0, 0.5, 1.0, 3.0, 1e-6, 1e6])
    found = np.array(draw(st.lists(weights, min_size=len(data), max_size=len(data))))
    found[draw(st.integers(0, len(data) - 1))] = 2.0
    return data, found


@pytest.mark.parametrize("kind", FORESTS)
@given(
    problem=weighted_problems(),
    bag=st.sampled_from(["row", "query", None]),
    missing=st.sampled_from(["learned", "left", "right", "own_child"]),
    min_leaf=st.integers(1, 3),
)
def test_a_forest_predicts_between_the_labels(kind, problem, bag, missing, min_leaf):
    data, weights = problem
    model = kind(3, bag=bag, missing=missing, min_leaf=min_leaf).fit(data, sample_weight=weights)
    scores = model.predict(data)
    used = data.labels[weights > 0]
    assert used.min() - 1e-9 <= scores.min()
    assert scores.max() <= used.max() + 1e-9
    assert (
        model.forest_
        == kind(3, bag=bag, missing=missing, min_leaf=min_leaf, n_threads=2)
        .fit(data, sample_weight=weights)
        .forest_
    )


@given(problem=weighted_problems(), bag=st.sampled_from(["row", "query"]), share=st.floats(0.1, 1))
def test_out_of_bag_scores_exist_where_trees_left_a_row_out(problem, bag, share):
    data, weights = problem
    model = rw.RandomForest(4, bag=bag, bag_share=share).fit(data, sample_weight=weights)
    assert np.array_equal(np.isnan(model.oob_scores_), model.oob_counts_ == 0)
    assert model.oob_counts_.max() <= 4
    assert (model.oob_counts_[weights == 0] == 4).all()  # rows without weight are in no bag
    if bag == "query":  # rows of a query with weight are in or out together
        for _, rows in data.iter_queries():
            assert len(set(model.oob_counts_[rows][weights[rows] > 0].tolist())) <= 1


@given(
    problem=weighted_problems(),
    rate=st.floats(0.05, 1),
    l2=st.sampled_from([0.0, 0.1, 10.0]),
    missing=st.sampled_from(["learned", "left", "right", "own_child"]),
)
def test_boosting_never_raises_its_loss(problem, rate, l2, missing):
    data, weights = problem
    model = rw.GBRT(6, learning_rate=rate, l2=l2, missing=missing, min_leaf=1, max_leaves=5)
    model.fit(data, sample_weight=weights)
    losses = [
        (weights * (model.forest_.predict(data, first_trees=n) - data.labels) ** 2).sum()
        for n in range(7)
    ]
    slack = 1e-9 * (1 + losses[0])
    assert all(losses[n + 1] <= losses[n] + slack for n in range(6))


@given(problem=problems(), n_first=st.integers(1, 4))
def test_a_warm_start_equals_one_fit(problem, n_first):
    once = rw.GBRT(5, min_leaf=1, max_leaves=4, subsample=0.7).fit(problem)
    model = rw.GBRT(n_first, min_leaf=1, max_leaves=4, subsample=0.7, warm_start=True).fit(problem)
    assert model.set_params(n_trees=5).fit(problem).forest_ == once.forest_


@given(problem=problems(), seed=st.integers(0, 3))
def test_the_first_trees_of_a_larger_forest_are_the_smaller_one(problem, seed):
    small = rw.RandomForest(2, seed=seed).fit(problem)
    large = rw.RandomForest(5, seed=seed).fit(problem)
    assert large.forest_.take_trees(slice(0, 2)) == small.forest_


@given(problem=problems())
def test_weights_of_one_are_no_weights(problem):
    ones = np.ones(problem.n_documents)
    for kind in (rw.RandomForest, rw.GBRT):
        assert kind(3).fit(problem, sample_weight=ones).forest_ == kind(3).fit(problem).forest_


@given(problem=problems(), direction=st.sampled_from([1, -1]))
def test_scores_follow_a_monotone_feature(problem, direction):
    free = [0] * (problem.n_features - 1)
    model = rw.GBRT(5, min_leaf=1, learning_rate=0.5, monotone=[direction, *free]).fit(problem)
    grid = np.repeat(problem.features[:1], 50, axis=0)
    grid[:, 0] = np.linspace(-10, 10, 50)
    steps = np.diff(model.predict(grid)) * direction
    assert steps.min() >= -1e-9
