"""AdaBoost: the worked example, stumps against their slow twin, and what wrong input gives."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rankwood as rw
from rankwood._core.checks import read_only
from rankwood.binning.binned import bin_data
from rankwood.errors import ParameterError
from rankwood.losses.loss import LARGEST_EDGE, ExponentialLoss, step_of_edge
from rankwood.rankers.adaboost import WeakClassifiers
from rankwood.trees.row_order import as_matrix
from tests.reference import boosting_tree as reference

VALUES = [0.1, 0.3, 0.3, 0.3, 0.5, 0.5, 0.5, 0.7]
LABELS = [0, 1, 1, 1, 0, 0, 0, 1]


def error_after(model, n_trees):
    scores = model.forest_.take_trees(slice(0, n_trees)).predict(np.array(VALUES)[:, None])
    scores[np.abs(scores) < 1e-12] = 0.0
    return float(((scores >= 0) != (np.array(LABELS) == 1)).mean())


def test_the_worked_example():
    # Kocsis et al., Table 1, right: ε = 1/4, 1/4 and 1/6, so ½ ln 3, ½ ln 3 and ½ ln 5.
    model = rw.AdaBoost(3).fit(np.array(VALUES)[:, None], LABELS)
    forest = model.forest_
    assert forest.tree_weights.round(4).tolist() == [0.5493, 0.5493, 0.8047]
    assert forest.threshold[[0, 3, 6]].tolist() == pytest.approx([0.4, 0.6, 0.2])
    # Left and right leaf. In the second round > 0.2 has the same error: the greater threshold wins.
    assert forest.value[[1, 4, 7]].tolist() == [1.0, -1.0, -1.0]
    assert forest.value[[2, 5, 8]].tolist() == [-1.0, 1.0, 1.0]
    assert [error_after(model, n_trees) for n_trees in (1, 2, 3)] == [0.25, 0.125, 0.0]


@pytest.mark.parametrize("min_leaf", [1, 5])
def test_the_best_stump_equals_its_slow_twin(min_leaf):
    random = np.random.default_rng(0)
    features = random.integers(0, 6, (40, 4)).astype(np.float32)
    binned = bin_data(rw.RankingData(features, np.zeros(40)))
    matrix = as_matrix(binned.codes, binned.bins)
    present = read_only(np.ones(40, np.int64))
    stumps = WeakClassifiers(matrix, present, min_leaf, "learned", 1)
    for _ in range(20):
        classes = random.choice([-1.0, 1.0], 40)
        weights = random.integers(1, 4, 40).astype(np.float64)
        weights /= weights.sum()
        tree = stumps.best(classes, weights)
        edge, feature, code = reference.best_stump(
            matrix.columns.tolist(), matrix.n_bins.tolist(), classes, weights, min_leaf
        )
        assert (tree.feature[0], tree.code[0]) == (feature, code)
        votes = tree.value[tree.leaf_of_row]
        assert (weights * classes * votes).sum() == pytest.approx(edge)
        one = stumps.best(classes, weights, 2)
        expected = reference.best_stump(
            [matrix.columns[2].tolist()], [int(matrix.n_bins[2])], classes, weights, min_leaf
        )
        assert one.code[0] == expected[2]


def test_missing_values_go_where_the_error_is_least():
    features = np.array([[0.0], [1.0], [np.nan], [np.nan]])
    model = rw.AdaBoost(1).fit(features, [0, 1, 0, 0])
    assert model.predict(features).tolist() == pytest.approx(
        [-model.forest_.tree_weights[0], *[model.forest_.tree_weights[0]]]
        + [-model.forest_.tree_weights[0]] * 2
    )
    right = rw.AdaBoost(1, missing="right").fit(features, [0, 1, 1, 0])
    assert right.forest_.missing[0] == right.forest_.right[0]


def test_the_training_error_is_bounded_by_the_loss():
    data = rw.make_ranking(30, 20, 8, seed=2)
    model = rw.AdaBoost(20).fit(data)
    loss = ExponentialLoss(np.where(data.labels >= 1, 1.0, -1.0))
    values = [
        loss.value(model.forest_.take_trees(slice(0, n_trees)).predict(data))
        for n_trees in range(1, 21)
    ]
    assert all(later < earlier for earlier, later in itertools.pairwise(values))
    wrong = ((model.predict(data) >= 0) != (data.labels >= 1)).mean()
    assert wrong <= values[-1]


def test_trees_of_more_leaves_are_classifiers_too():
    data = rw.make_ranking(30, 20, 8, seed=2)
    model = rw.AdaBoost(10, max_leaves=6, min_leaf=5).fit(data)
    leaves = model.forest_.value[model.forest_.feature < 0]
    assert set(leaves.tolist()) == {-1.0, 1.0}
    stumps = rw.AdaBoost(10).fit(data)
    assert model.score(data) > stumps.score(data)


def test_one_class_gives_no_tree():
    model = rw.AdaBoost(5).fit(np.arange(6.0)[:, None], np.ones(6))
    assert model.forest_.n_trees == 0
    assert "no tree tells the classes apart" in model.stopped_because_


def test_a_perfect_stump_has_a_finite_weight():
    model = rw.AdaBoost(1).fit(np.arange(6.0)[:, None], [0, 0, 0, 1, 1, 1])
    assert model.forest_.tree_weights[0] == pytest.approx(np.arctanh(LARGEST_EDGE))
    assert step_of_edge(0.0) == 0.0


def test_a_stump_has_no_child_for_missing_values():
    with pytest.raises(ParameterError, match="missing 'own_child' is not known"):
        rw.AdaBoost(missing="own_child").fit(np.array(VALUES)[:, None], LABELS)
