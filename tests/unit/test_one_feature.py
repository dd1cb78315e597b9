"""Growing under a constraint: the same trees as a slow twin gives, and stumps as the general grower gives them."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw
from rankwood.binning.binned import bin_data
from rankwood.errors import ParameterError
from rankwood.trees.grower import FeatureChoice, Growth, Policies, grow_tree
from rankwood.trees.one_feature import OneFeatureGrower, in_data_order
from rankwood.trees.row_order import as_matrix
from tests.reference import one_feature as reference

EXACT = ("feature", "threshold", "code", "left", "right", "missing", "leaf_of_row")
CLOSE = ("value", "cover", "gain")


def problem(seed, *, n_rows=600, max_bins=40, with_missing=False, with_weights=True):
    random = np.random.default_rng(seed)
    features = random.normal(size=(n_rows, 7)).astype(np.float32)
    features[:, 3] = np.round(features[:, 3])
    features[:, 5] = 1.0  # nothing to split
    if with_missing:
        features[random.random(features.shape) < 0.15] = np.nan
    targets = np.nan_to_num(features[:, 0]) + random.normal(size=n_rows)
    weights = random.random(n_rows) + 0.1 if with_weights else None
    data = rw.RankingData(features, np.zeros(n_rows))
    binned = bin_data(data, max_bins=max_bins)
    return as_matrix(binned.codes, binned.bins), targets, weights


def assert_same(one, other):
    for name in EXACT:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in CLOSE:
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=1e-5, atol=1e-9
        )  # the grower rounds to whole numbers


def assert_is_twin(tree, nodes):
    """The tree has the nodes, splits and rows of the slow twin's."""
    assert tree.n_nodes == len(nodes)
    for number, node in enumerate(nodes):
        if not node.children:
            assert tree.feature[number] == -1
            assert (tree.leaf_of_row[node.rows] == number).all()
            continue
        gain, feature, code, missing_left = node.split
        assert (tree.feature[number], tree.code[number]) == (feature, code)
        assert [tree.left[number], tree.right[number]] == node.children
        assert tree.missing[number] == node.children[0 if missing_left else 1]
        assert tree.gain[number] == pytest.approx(gain, rel=1e-8)


GROWTHS = {
    "plain": {},
    "l2": {"l2": 3.0},
    "min_leaf": {"min_leaf": 40},
    "min_weight": {"min_weight": 30.0},
    "min_gain": {"min_gain": 5.0},
    "max_depth": {"max_depth": 2},
    "missing left": {"missing": "left"},
    "missing right": {"missing": "right"},
}
OF_POLICIES = ("l2", "missing")


@pytest.mark.parametrize("name", GROWTHS)
@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("with_weights", [False, True])
def test_trees_are_those_of_the_slow_twin(name, with_missing, with_weights):
    case = GROWTHS[name]
    growth = {key: value for key, value in case.items() if key not in OF_POLICIES}
    others = {key: value for key, value in case.items() if key in OF_POLICIES}
    matrix, targets, weights = problem(
        1, n_rows=150, max_bins=8, with_missing=with_missing, with_weights=with_weights
    )
    grower = OneFeatureGrower(matrix, Policies(Growth(**{"max_leaves": 8, **growth}), **others))
    given = np.ones(150) if weights is None else weights
    for constraint in range(4):
        expected = reference.grow(
            matrix.columns.tolist(),
            matrix.n_bins.tolist(),
            targets.tolist(),
            given.tolist(),
            reference.Limits(**case),
            constraint,
        )
        assert_is_twin(grower.tree(targets, weights, constraint), expected)


OF_THE_GENERAL_GROWER = {
    "own child": {"missing": "own_child"},
    "monotone": {"direction": np.array([1, 0, 0, 0, -1, 0, 0])},
}


@pytest.mark.parametrize("name", OF_THE_GENERAL_GROWER)
def test_other_policies_are_left_to_the_general_grower(name):
    case = OF_THE_GENERAL_GROWER[name]
    growth = Growth(max_leaves=8)
    matrix, targets, weights = problem(1, with_missing=True)
    grower = OneFeatureGrower(matrix, Policies(growth, **case))
    for constraint in range(12):
        policies = Policies(growth, FeatureChoice(1), **case)
        expected = grow_tree(matrix, targets, policies, weights=weights, stream=constraint)
        tree = grower.tree(targets, weights, constraint)
        if expected.n_leaves > 1:
            assert_same(tree, expected)
        else:  # the root's feature cannot split, and is drawn again
            assert tree.n_leaves > 1


def of_whole_queries(seed, n_queries=40):
    """Rows whose targets sum to 0 in every query, with features 0 to 4 of queries, and 5 to 6 of documents."""
    random = np.random.default_rng(seed)
    query = np.repeat(np.arange(n_queries), random.integers(3, 12, n_queries))
    features = random.integers(0, 5, (query.size, 7)).astype(np.float32)
    features[:, :5] = random.integers(0, 9, (n_queries, 5))[query]
    weights = random.random(query.size) + 0.1
    forces = random.normal(size=query.size) * 10.0 ** random.uniform(-6, 0, n_queries)[query]
    forces -= (np.bincount(query, forces) / np.bincount(query))[query]
    binned = bin_data(rw.RankingData(features, np.zeros(query.size)))
    return as_matrix(binned.codes, binned.bins), forces / weights, weights


@pytest.mark.parametrize("seed", range(5))
def test_whole_queries_are_not_split_from_each_other(seed):
    # Such a split gains nothing: what sums to 0 in every query sums to 0 on both sides.
    matrix, targets, weights = of_whole_queries(seed)
    grower = OneFeatureGrower(matrix, Policies(Growth(max_leaves=8)))
    for constraint in range(30):
        tree = grower.tree(targets, weights, constraint)
        assert tree.n_leaves == 8
        assert tree.feature[0] >= 5  # another feature was drawn
        assert tree.gain[tree.feature >= 0].min() > 1e-12 * (weights * targets**2).sum()
    stumps = OneFeatureGrower(matrix, Policies(Growth(max_leaves=2)))
    leaves = [stumps.stump(targets, weights, feature).n_leaves for feature in range(7)]
    assert leaves == [1, 1, 1, 1, 1, 2, 2]
    monotone = Policies(Growth(max_leaves=8), direction=np.array([0] * 6 + [1]))
    freely = OneFeatureGrower(matrix, monotone)
    for constraint in range(10):
        assert freely.tree(targets, weights, constraint).feature[0] >= 5


def test_features_of_no_probability_are_not_drawn_again():
    matrix, targets, weights = of_whole_queries(1)
    grower = OneFeatureGrower(matrix, Policies(Growth(max_leaves=8)))
    probability = np.array([0.5, 0.3, 0.0, 0.0, 0.2, 0.0, 0.0])
    assert grower.tree(targets, weights, 3, probability).n_leaves == 1


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
    matrix, targets, weights = problem(3, n_rows=150, max_bins=8)
    probability = np.array([0.0, 0.0, 0.7, 0.0, 0.3, 0.0, 0.0])
    growth = Growth(max_leaves=6)
    grower = OneFeatureGrower(matrix, Policies(growth))
    used = set()
    for constraint in range(6):
        tree = grower.tree(targets, weights, constraint, probability)
        expected = reference.grow(
            matrix.columns.tolist(),
            matrix.n_bins.tolist(),
            targets.tolist(),
            weights.tolist(),
            reference.Limits(max_leaves=6),
            constraint,
            probability.tolist(),
        )
        assert_is_twin(tree, expected)
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
