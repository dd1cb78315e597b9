"""Growing under a constraint: the same trees as the general grower gives with one feature per node."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw
from rankwood.binning.binned import bin_data
from rankwood.errors import ParameterError
from rankwood.trees.grower import grow_tree
from rankwood.trees.one_feature import OneFeatureGrower, in_data_order
from rankwood.trees.policies import FeatureChoice, Growth, Policies
from rankwood.trees.row_order import as_matrix

EXACT = ("feature", "threshold", "code", "left", "right", "missing", "leaf_of_row")
CLOSE = ("value", "cover", "gain")


def problem(seed, *, n_rows=600, with_missing=False, with_weights=True):
    random = np.random.default_rng(seed)
    features = random.normal(size=(n_rows, 7)).astype(np.float32)
    features[:, 3] = np.round(features[:, 3])
    features[:, 5] = 1.0  # nothing to split
    if with_missing:
        features[random.random(features.shape) < 0.15] = np.nan
    targets = np.nan_to_num(features[:, 0]) + random.normal(size=n_rows)
    weights = random.random(n_rows) + 0.1 if with_weights else None
    data = rw.RankingData(features, np.zeros(n_rows))
    binned = bin_data(data, max_bins=40)
    return as_matrix(binned.codes, binned.bins), targets, weights


def assert_same(one, other):
    for name in EXACT:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in CLOSE:
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=1e-5, atol=1e-9
        )  # the grower rounds to whole numbers


GROWTHS = {
    "plain": {},
    "l2": {"l2": 3.0},
    "min_leaf": {"growth": {"min_leaf": 40}},
    "min_weight": {"growth": {"min_weight": 30.0}},
    "min_gain": {"growth": {"min_gain": 5.0}},
    "max_depth": {"growth": {"max_depth": 2}},
    "missing left": {"missing": "left"},
    "missing right": {"missing": "right"},
    "own child": {"missing": "own_child"},
    "monotone": {"direction": np.array([1, 0, 0, 0, -1, 0, 0])},
}


@pytest.mark.parametrize("name", GROWTHS)
@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("with_weights", [False, True])
def test_trees_are_those_of_the_grower_with_one_feature_per_node(name, with_missing, with_weights):
    case = dict(GROWTHS[name])
    growth = Growth(**{"max_leaves": 8, **case.pop("growth", {})})
    matrix, targets, weights = problem(1, with_missing=with_missing, with_weights=with_weights)
    grower = OneFeatureGrower(matrix, Policies(growth, **case))
    for constraint in range(12):
        expected = grow_tree(
            matrix,
            targets,
            Policies(growth, FeatureChoice(1), **case),
            weights=weights,
            stream=constraint,
        )
        assert_same(grower.tree(targets, weights, constraint), expected)


@pytest.mark.parametrize("with_missing", [False, True])
def test_stumps_are_those_of_the_grower_on_the_given_feature(with_missing):
    matrix, targets, weights = problem(2, with_missing=with_missing)
    growth = Growth(max_leaves=2, min_leaf=20)
    grower = OneFeatureGrower(matrix, Policies(growth))
    assert grower.grows_stumps
    for feature in range(7):
        expected = grow_tree(
            matrix, targets, Policies(growth, FeatureChoice(1, given=(feature,))), weights=weights
        )
        assert_same(grower.stump(targets, weights, feature), expected)
    assert grower.stump(targets, weights, 5).n_leaves == 1


def test_features_are_drawn_by_probability():
    matrix, targets, weights = problem(3)
    probability = np.array([0.0, 0.0, 0.7, 0.0, 0.3, 0.0, 0.0])
    growth = Growth(max_leaves=6)
    grower = OneFeatureGrower(matrix, Policies(growth))
    used = set()
    for constraint in range(20):
        tree = grower.tree(targets, weights, constraint, probability)
        choice = FeatureChoice(1, probability)
        expected = grow_tree(
            matrix, targets, Policies(growth, choice), weights=weights, stream=constraint
        )
        assert_same(tree, expected)
        used |= set(tree.feature[tree.feature >= 0].tolist())
    assert used == {2, 4}


def test_threads_and_the_order_of_rows_change_nothing():
    matrix, targets, weights = problem(4, n_rows=150_000)
    policies = Policies(Growth(max_leaves=2, min_leaf=20))
    one = OneFeatureGrower(matrix, policies, 1).stump(targets, weights, 0)
    two = OneFeatureGrower(matrix, policies, 2).stump(targets, weights, 0)
    for name in EXACT + CLOSE:
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes(), name
    turned = np.random.default_rng(0).permutation(matrix.columns.shape[1]).astype(np.int32)
    columns = np.ascontiguousarray(matrix.columns[:, turned])
    shuffled = matrix._replace(columns=columns, source_of_row=turned)
    assert np.array_equal(in_data_order(shuffled).columns, matrix.columns)
    other = OneFeatureGrower(shuffled, policies).stump(targets, weights, 0)
    for name in EXACT + CLOSE:
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


def test_rows_that_are_not_there_do_not_count():
    matrix, targets, weights = problem(5)
    present = np.arange(600) % 3 > 0
    growth = Growth(max_leaves=2, min_leaf=100)
    grower = OneFeatureGrower(matrix, Policies(growth), present=present)
    expected = grow_tree(
        matrix,
        targets,
        Policies(growth, FeatureChoice(1, given=(0,))),
        counts=present.astype(np.int32),
        weights=weights,
    )
    assert_same(grower.stump(targets, weights, 0), expected)


@pytest.mark.parametrize("targets", [np.ones(600), np.zeros(600), np.full(600, 1e150)])
def test_equal_targets_are_not_split(targets):
    matrix, _, _ = problem(6)
    for max_leaves in (2, 8):
        grower = OneFeatureGrower(matrix, Policies(Growth(max_leaves=max_leaves)))
        tree = grower.stump(targets, None, 0) if max_leaves == 2 else grower.tree(targets, None, 1)
        assert tree.n_leaves == 1
        assert tree.value[0] == pytest.approx(targets[0])


def test_a_single_row_is_a_leaf():
    binned = bin_data(rw.RankingData(np.ones((1, 2)), [1.0]))
    matrix = as_matrix(binned.codes, binned.bins)
    grower = OneFeatureGrower(matrix, Policies(Growth(max_leaves=4)))
    tree = grower.tree(np.array([3.0]), None, 0)
    assert tree.n_leaves == 1
    assert tree.value.tolist() == [3.0]


def test_limits_are_checked():
    with pytest.raises(ParameterError, match="max_leaves must be"):
        Policies(Growth(max_leaves=0))
