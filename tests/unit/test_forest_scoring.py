"""Scores, leaves, stages and binned scores against the slow twin, to the bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from rankwood import RankingData
from rankwood.binning.bins import Bins
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.models.forest import Forest
from rankwood.models.scoring import pack
from tests.reference import forest as reference


def assert_same_bytes(one, other):
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert one.tobytes() == other.tobytes()


def assert_equals_the_slow_twin(forest, features):
    assert_same_bytes(forest.predict(features), reference.predict(forest, features))
    assert_same_bytes(forest.leaf_ids(features), reference.leaf_ids(forest, features))


@pytest.fixture(params=[0.0, 0.4], ids=["two-way", "three-way"])
def third(request):
    return request.param


@pytest.mark.parametrize("average", [False, True])
def test_nasty_values_at_and_around_thresholds(rng, third, average):
    forest = reference.random_forest(rng, n_trees=11, third=third, average=average)
    assert (forest.packed.wide.size > 0) == (third > 0)
    assert_equals_the_slow_twin(forest, rng.choice(reference.nasty_values(), (60, 4)))


@pytest.mark.parametrize("n_rows", [0, 1, 7, 8, 9, 33, 64, 65])
def test_any_number_of_rows(rng, third, n_rows):
    forest = reference.random_forest(rng, n_trees=9, third=third)
    assert_equals_the_slow_twin(forest, rng.choice(reference.nasty_values(), (n_rows, 4)))


@pytest.mark.parametrize("n_trees", [0, 1, 7, 8, 9, 17])
def test_any_number_of_trees(rng, third, n_trees):
    forest = reference.random_forest(rng, n_trees=n_trees, third=third)
    assert_equals_the_slow_twin(forest, rng.choice(reference.nasty_values(), (11, 4)))


def test_a_document_scores_the_same_alone_in_any_company_and_on_any_number_of_threads(
    rng, third, monkeypatch
):
    forest = reference.random_forest(rng, n_trees=30, third=third)
    features = rng.choice(reference.nasty_values(), (100, 4))
    scores = forest.predict(features)
    monkeypatch.setattr("rankwood.models.scoring._LEAST_WALKS", 1)  # threads even for these few
    for n_threads in (1, 2, 3, 8):
        assert_same_bytes(forest.predict(features, n_threads=n_threads), scores)
        assert_same_bytes(forest.leaf_ids(features, n_threads=n_threads), forest.leaf_ids(features))
    for first, last in ((0, 1), (3, 4), (5, 16), (90, 100)):
        assert_same_bytes(forest.predict(features[first:last]), scores[first:last])


def test_an_empty_forest_predicts_its_base():
    forest = Forest.from_trees([], n_features=3, base=-2.5, average=True)
    assert forest.predict(np.zeros((2, 3), np.float32)).tolist() == [-2.5, -2.5]
    assert forest.leaf_ids(np.zeros((2, 3), np.float32)).shape == (2, 0)


def test_weights_that_sum_to_zero_leave_the_base(rng):
    forest = reference.random_forest(rng, n_trees=3, tree_weights=[0.0, 0.0, 1.0], average=True)
    features = rng.choice(reference.nasty_values(), (5, 4))
    assert forest.predict(features, first_trees=2).tolist() == [forest.base] * 5
    assert_equals_the_slow_twin(forest, features)


def test_single_leaves_alone():
    leaf = {
        "feature": [-1],
        "threshold": [0],
        "left": [0],
        "right": [0],
        "missing": [0],
        "value": [3.0],
    }
    forest = Forest.from_trees([leaf, leaf], n_features=5, tree_weights=[1.0, 0.5], base=1.0)
    features = np.full((9, 5), np.nan, np.float32)
    assert forest.predict(features).tolist() == [5.5] * 9  # 1 + 3 + 1.5
    assert forest.leaf_ids(features).tolist() == [[0, 0]] * 9


def test_the_greatest_key_does_not_leave_a_single_leaf():
    """Missing values that go right have the key of a leaf's threshold, and this leaf's word has no other bits."""
    leaf = {
        "feature": [-1],
        "threshold": [0],
        "left": [0],
        "right": [0],
        "missing": [0],
        "value": [3.0],
    }
    forest = Forest.from_trees([leaf, reference.chain(1, missing_left=False)], n_features=1)
    features = np.full((9, 1), np.nan, np.float32)
    assert forest.leaf_ids(features).tolist() == [[0, 2]] * 9
    assert forest.predict(features).tolist() == [3.0 + 2.0] * 9


@pytest.mark.parametrize("missing_left", [True, False])
def test_a_chain_of_many_splits(missing_left):
    n_splits = 5_000  # 10,001 nodes
    forest = Forest.from_trees([reference.chain(n_splits, missing_left)], n_features=1)
    values = np.array([[-1], [0], [1.5], [4_998.5], [4_999], [5_000], [np.nan]], np.float32)
    # x goes right as long as x > k, so it ends at leaf 2k + 1 of the first k >= x, or at the last node.
    last = 2 * n_splits
    expected = [1, 1, 5, 2 * 4_999 + 1, 2 * 4_999 + 1, last, 1 if missing_left else last]
    assert forest.predict(values).tolist() == expected
    assert forest.leaf_ids(values)[:, 0].tolist() == expected
    assert forest.max_depth == n_splits


def test_trees_too_large_to_pack_go_the_wide_way(rng, monkeypatch):
    forest = reference.random_forest(rng, n_trees=6)
    features = rng.choice(reference.nasty_values(), (20, 4))
    monkeypatch.setattr("rankwood.models.scoring._WORD_BITS", 4)
    assert forest.packed.wide.shape == (forest.n_nodes, 6)
    assert_equals_the_slow_twin(forest, features)


def test_many_features_need_many_columns(rng):
    n_features = 3_000
    trees = [reference.random_tree(rng, 40, n_features, [0.0, 0.5]) for _ in range(60)]
    forest = Forest.from_trees(trees, n_features=n_features)
    assert forest.packed.columns.size > 1_000  # more keys than a block is meant to hold
    features = rng.random((19, n_features)).astype(np.float32) - np.float32(0.2)
    assert_equals_the_slow_twin(forest, features)


def test_the_packed_form_is_made_once(rng):
    forest = reference.random_forest(rng)
    assert forest.packed is forest.packed


def test_first_trees_and_stages_agree(rng, third):
    forest = reference.random_forest(rng, n_trees=7, third=third, average=True)
    features = rng.choice(reference.nasty_values(), (10, 4))
    stages = list(forest.predict_stages(features, 3))
    assert [n_trees for n_trees, _ in stages] == [3, 6, 7]
    for n_trees, scores in stages:
        assert_same_bytes(scores, forest.predict(features, first_trees=n_trees))
        assert_same_bytes(scores, reference.predict(forest, features, n_trees))
        assert_same_bytes(scores, forest.take_trees(slice(n_trees)).predict(features))


def test_wrong_numbers_of_trees(rng):
    forest = reference.random_forest(rng, n_trees=3)
    features = np.zeros((1, 4), np.float32)
    with pytest.raises(
        ParameterError, match="first_trees must be a whole number between 0 and 3, got 4"
    ):
        forest.predict(features, first_trees=4)
    with pytest.raises(ParameterError, match="every must be a whole number of at least 1, got 0"):
        forest.predict_stages(features, 0)
    with pytest.raises(
        ParameterError, match="n_threads must be a whole number of at least 1, got 0"
    ):
        forest.predict(features, n_threads=0)


def bins_of(*thresholds):
    offsets = np.cumsum([0, *map(len, thresholds)])
    return Bins(np.concatenate(thresholds), offsets, np.ones(len(thresholds), bool))


def test_binned_scores_are_the_raw_scores(rng, third):
    thresholds = np.unique(reference.nasty_thresholds() + np.float32(0))
    forest = reference.random_forest(rng, n_trees=12, third=third)
    features = rng.choice(reference.nasty_values(), (70, 4))
    bins = bins_of(*[thresholds] * 4)
    codes = bins.transform(features)
    scores = forest.predict(features)
    assert_same_bytes(forest.predict_binned(codes, bins), scores)
    assert_same_bytes(forest.predict_binned(codes, bins, n_threads=2), scores)
    assert_same_bytes(forest.predict_binned(np.asfortranarray(codes), bins), scores)
    first = forest.predict(features, first_trees=5)
    assert_same_bytes(forest.predict_binned(codes, bins, first_trees=5), first)
    assert forest.predict_binned(codes[:, :0], bins).size == 0


def test_bins_of_other_thresholds_are_refused():
    tree = {**reference.chain(2), "threshold": [0.5, 0, 1.5, 0, 0]}
    forest = Forest.from_trees([tree], n_features=1)
    codes = np.zeros((1, 3), np.uint8)
    near = np.nextafter(np.float32(1.5), np.float32(2))
    for thresholds in ([0.5, near], [0.5], [1.5, 2.5], []):
        with pytest.raises(ModelError, match="is not among the thresholds of the bins"):
            forest.predict_binned(codes, bins_of(thresholds))
    bins = bins_of([0.5, 1.5])
    with pytest.raises(DataError, match="uint8 array of features × rows, got int64 of 2"):
        forest.predict_binned(codes.astype(np.int64), bins)
    with pytest.raises(DataError, match="the model knows 1 features, but the codes have 3"):
        forest.predict_binned(codes.T, bins)
    with pytest.raises(DataError, match="the model knows 1 features, but the bins are of 2"):
        forest.predict_binned(codes, bins_of([0.5], [0.5]))


def test_packing_keeps_siblings_side_by_side(rng):
    forest = reference.random_forest(rng, n_trees=4)
    packed = pack(forest, np.arange(forest.n_nodes))
    position = {
        (int(root), int(number)): place
        for place, (root, number) in enumerate(
            zip(
                np.repeat(forest.tree_offsets[:-1], np.diff(forest.tree_offsets)),
                packed.numbers,
                strict=True,
            )
        )
    }
    for root, end in zip(forest.tree_offsets[:-1], forest.tree_offsets[1:], strict=True):
        for node in range(root, end):
            if forest.feature[node] >= 0:
                left = position[int(root), int(forest.left[node] - root)]
                assert position[int(root), int(forest.right[node] - root)] == left + 1


class TestFeatureNames:
    names = ("alpha", "beta", "gamma", "delta")

    @pytest.fixture
    def forest(self, rng):
        return reference.random_forest(rng, n_trees=8, feature_names=self.names)

    @pytest.fixture
    def features(self, rng):
        return rng.choice(reference.nasty_values(), (12, 4))

    def test_a_reordered_frame_is_put_in_order(self, forest, features):
        frame = pd.DataFrame(features, columns=self.names)[["delta", "alpha", "gamma", "beta"]]
        data = RankingData(frame, labels=np.zeros(12))
        assert_same_bytes(forest.predict(frame), forest.predict(features))
        assert_same_bytes(forest.predict(data), forest.predict(features))
        assert_same_bytes(forest.leaf_ids(data), forest.leaf_ids(features))

    def test_bare_values_are_taken_by_position(self, forest, features):
        expected = forest.predict(features)
        for bare in (
            features.astype(np.float64),
            features.tolist(),
            np.asfortranarray(features),
            features.astype(">f4"),
            RankingData(features, labels=np.zeros(12)),
        ):
            assert_same_bytes(forest.predict(bare), expected)

    def test_names_do_not_matter_to_a_forest_without(self, forest, features):
        unnamed = dataclasses.replace(forest, feature_names=None)
        frame = pd.DataFrame(features, columns=["p", "q", "r", "s"])
        assert_same_bytes(unnamed.predict(frame), forest.predict(features))

    def test_other_names_are_refused_by_name(self, forest, features):
        frame = pd.DataFrame(features, columns=["alpha", "beta", "gamma", "omega"])
        message = "the data lack 'delta'; the model does not know 'omega'"
        for other in (frame, RankingData(frame, labels=np.zeros(12))):
            with pytest.raises(DataError, match=message):
                forest.predict(other)
        with pytest.raises(DataError, match="the data lack 'delta'"):
            forest.predict(frame[["alpha", "beta", "gamma"]])

    def test_columns_that_it_does_not_know_are_left_out(self, forest, features):
        expected = forest.predict(features)
        wider = pd.DataFrame(features, columns=self.names).assign(price=1.0)
        assert_same_bytes(forest.predict(RankingData(wider, np.zeros(12))), expected)
        assert_same_bytes(
            forest.predict(wider.assign(url="/a", day=pd.Timestamp("2024"))), expected
        )

    def test_only_the_first_few_names_are_listed(self):
        names = [f"f{number:02}" for number in range(20)]
        forest = Forest.from_trees([], n_features=20, feature_names=names)
        frame = pd.DataFrame(np.zeros((1, 20)), columns=[name.upper() for name in names])
        with pytest.raises(DataError, match="lack 'f00', 'f01', 'f02', 'f03', 'f04' and 15 more"):
            forest.predict(frame)

    def test_a_wrong_number_of_features_is_told(self, forest, features):
        for wrong in (features[:, :3], np.zeros((0, 3), np.float32)):
            with pytest.raises(DataError, match="the model knows 4 features, but the data have 3"):
                forest.predict(wrong)
        with pytest.raises(DataError, match="two dimensions"):
            forest.predict(features[0])


def test_unaligned_and_read_only_input(rng):
    forest = reference.random_forest(rng)
    features = rng.choice(reference.nasty_values(), (6, 4))
    memory = np.zeros(features.nbytes + 1, np.uint8)
    unaligned = memory[1:].view(np.float32).reshape(6, 4)
    unaligned[...] = features
    frozen = features.copy()
    frozen.flags.writeable = False
    assert_same_bytes(forest.predict(unaligned), forest.predict(features))
    assert_same_bytes(forest.predict(frozen), forest.predict(features))
