"""Shapley values of trees: equal to their definition, adding up, the same for any number of threads."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ModelError
from rankwood.models.forest import Forest
from rankwood.models.linear import LinearModel
from rankwood.models.shapley import contributions, with_covers
from tests.reference import forest as reference
from tests.reference import shapley


def nasty_rows(rng, n_rows, n_features):
    return rng.choice(reference.nasty_values(), (n_rows, n_features)).astype(np.float32)


@pytest.mark.parametrize("third", [0.0, 0.5])
@pytest.mark.parametrize("average", [False, True])
def test_the_kernel_equals_the_definition(rng, third, average):
    for _ in range(4):
        forest = reference.random_forest(
            rng, n_trees=3, n_features=4, third=third, most_splits=8, average=average
        )
        rows = nasty_rows(rng, 6, 4)
        values, base = contributions(forest, rows)
        expected, expected_base = shapley.contributions(forest, rows)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9)
        assert base == pytest.approx(expected_base, abs=1e-9)


def test_ways_that_no_row_took(rng):
    forest = reference.random_forest(rng, n_trees=4, n_features=4, third=0.4, most_splits=8)
    cover = np.array(forest.cover)
    cover[rng.random(cover.size) < 0.5] = 0.0
    for root in forest.tree_offsets[:-1]:  # at least one way from each root
        if forest.feature[root] >= 0:
            cover[forest.right[root]] = 1.0
    forest = dataclasses.replace(forest, cover=cover)
    rows = nasty_rows(rng, 8, 4)
    values, base = contributions(forest, rows)
    np.testing.assert_allclose(values, shapley.contributions(forest, rows)[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(values.sum(axis=1) + base, forest.predict(rows), atol=1e-12)


def test_one_split_by_hand():
    # 3 of 4 training rows went left: the mean is 0.75 · 1 + 0.25 · 5 = 2.
    split = {
        "feature": [1, -1, -1],
        "threshold": [0.5, 0, 0],
        "left": [1, 0, 0],
        "right": [2, 0, 0],
        "missing": [1, 0, 0],
        "value": [0.0, 1.0, 5.0],
        "cover": [4.0, 3.0, 1.0],
    }
    forest = Forest.from_trees([split], n_features=3, tree_weights=[2.0], base=10.0)
    values, base = contributions(forest, np.array([[9, 0.5, 9], [0, 0.6, 0], [0, np.nan, 0]]))
    assert base == 14.0
    assert values.tolist() == [[0, -2, 0], [0, 6, 0], [0, -2, 0]]


def test_deep_paths_of_many_features(rng):
    """A chain over 60 features: 30 points of integration, and products of 60 factors."""
    tree = reference.chain(60)
    tree["feature"] = np.where(tree["feature"] >= 0, np.arange(tree["feature"].size) // 2, -1)
    n_nodes = tree["feature"].size
    cover = np.ones(n_nodes)
    for node in range(n_nodes - 3, -1, -2):
        cover[node] = cover[node + 1] + cover[node + 2]
    forest = Forest.from_trees([{**tree, "cover": cover}], n_features=60)
    rows = rng.normal(30, 30, (20, 60)).astype(np.float32)
    values, base = contributions(forest, rows)
    np.testing.assert_allclose(values.sum(axis=1) + base, forest.predict(rows), atol=1e-11)


def test_a_feature_tested_over_and_over():
    tree = {**reference.chain(40), "cover": np.arange(81, 0, -1.0)}
    forest = Forest.from_trees([tree], n_features=2)
    rows = np.array([[-1, 0], [7.5, 0], [99, 0], [np.nan, 0]], np.float32)
    values, base = contributions(forest, rows)
    np.testing.assert_allclose(values[:, 0], forest.predict(rows) - base, atol=1e-12)
    assert (values[:, 1] == 0).all()


def test_any_number_of_threads_and_rows_gives_the_same_bits(rng):
    forest = reference.random_forest(rng, n_trees=20, n_features=6, third=0.2)
    rows = nasty_rows(rng, 700, 6)
    one, _ = contributions(forest, rows, n_threads=1)
    assert np.array_equal(contributions(forest, rows, n_threads=2)[0], one)
    assert np.array_equal(contributions(forest, rows, n_threads=7)[0], one)
    alone = np.concatenate([contributions(forest, row[np.newaxis])[0] for row in rows[:40]])
    assert np.array_equal(alone, one[:40])


def test_forests_without_splits_or_trees_or_rows(rng):
    leaf = {name: [0] for name in ("threshold", "left", "right", "missing")}
    tree = {**leaf, "feature": [-1], "value": [3.0]}
    forest = Forest.from_trees([tree, tree], n_features=2, base=1.0)
    values, base = contributions(forest, np.ones((3, 2)))
    assert base == 7.0
    assert (values == 0).all()
    values, base = contributions(forest.take_trees([]), np.ones((3, 2)))
    assert base == 1.0
    assert values.shape == (3, 2)
    assert contributions(forest, np.ones((0, 2)))[0].shape == (0, 2)


def test_models_without_covers_need_a_background(rng):
    forest = reference.random_forest(rng, n_trees=3, n_features=4, most_splits=8, third=0.3)
    bare = dataclasses.replace(forest, cover=np.zeros(forest.n_nodes))
    rows = nasty_rows(rng, 50, 4)
    with pytest.raises(ModelError, match=r"does not say how many rows went where.*background="):
        contributions(bare, rows)
    with pytest.raises(DataError, match="background has no rows"):
        contributions(bare, rows, background=rows[:0])
    counted = with_covers(bare, rows)
    leaves = forest.leaf_ids(rows)
    for tree, root in enumerate(forest.tree_offsets[:-1]):
        assert counted.cover[root] == 50
        for leaf in np.unique(leaves[:, tree]):
            assert counted.cover[root + leaf] == (leaves[:, tree] == leaf).sum()
    values, base = contributions(bare, rows, background=rows)
    assert base == pytest.approx(forest.predict(rows).mean())
    np.testing.assert_allclose(values[:3], shapley.contributions(counted, rows[:3])[0], atol=1e-9)


def test_covers_that_training_left_are_those_of_the_training_rows():
    data = rw.make_ranking(20, 15, 6, seed=4)
    model = rw.GBRT(4, min_leaf=3).fit(data)
    assert np.array_equal(with_covers(model.forest_, data).cover, model.forest_.cover)
    _, base = contributions(model.forest_, data)
    assert base == pytest.approx(model.predict(data).mean())


def test_a_linear_model(rng):
    model = LinearModel(np.array([2.0, 0.0, -1.0]), np.array([1.0, 5.0, 3.0]), np.ones(3), 0.25)
    rows = np.array([[2, np.inf, np.nan], [1, 0, 4]], np.float32)
    values, base = contributions(model, rows)
    assert values.tolist() == [[2, 0, 0], [0, 0, -1]]
    assert base == 0.25 + 2 - 3
    np.testing.assert_allclose(values.sum(axis=1) + base, model.predict(rows))


def test_models_that_are_no_sum_are_refused():
    data = rw.make_ranking(20, 10, 4, seed=4)
    deep = rw.DeepForest(n_forests=2, n_trees=2, max_leaves=50, max_layers=2).fit(data)
    with pytest.raises(ModelError, match="a Cascade is no sum of trees"):
        contributions(deep.cascade_, data)
    clipped = rw.OrdinalRanker(rw.RandomForest(2), clip=True).fit(data)
    with pytest.raises(ModelError, match=r"clipped probabilities are no sum of trees"):
        contributions(clipped.ordinal_, data)


RANKERS = [
    rw.RandomForest(5, max_leaves=100),
    rw.RandomForest(5, max_leaves=100, missing="own_child"),
    rw.ExtraTrees(5, max_leaves=100),
    rw.CompletelyRandomForest(5),
    rw.GBRT(5, min_leaf=2),
    rw.AveragedGBRT(3, 2, min_leaf=2),
    rw.InitializedGBRT(3, forest_trees=3, forest_leaves=100, min_leaf=2),
    rw.LambdaMART(5, min_leaf=2),
    rw.NDCGBoost(4, min_leaf=2),
    rw.RankBoost(6),
    rw.BROOF(n_rounds=3, n_trees=4, max_leaves=100),
    rw.OrdinalRanker(rw.RandomForest(3, max_leaves=100)),
]


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda model: type(model).__name__)
def test_contributions_add_up_to_scores(ranker, rng):
    data = rw.make_ranking(20, 15, 6, seed=4)
    features = np.array(data.features)
    features[rng.random(features.shape) < 0.1] = np.nan
    data = dataclasses.replace(data, features=features)
    model = ranker.fit(data)
    values, base = contributions(model.forest_, data)
    np.testing.assert_allclose(values.sum(axis=1) + base, model.predict(data), rtol=0, atol=1e-6)
    assert np.abs(values).max() > 0
