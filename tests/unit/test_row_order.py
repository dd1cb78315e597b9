"""The order of the rows: alike ones together, nothing lost, nothing changed."""

from __future__ import annotations

import numpy as np
import pytest

from rankwood.binning.binned import bin_data
from rankwood.data.synthetic import make_ranking
from rankwood.rankers.boosted import GBRT
from rankwood.rankers.deep_forest.deep_forest import DeepForest
from rankwood.rankers.forests import CompletelyRandomForest, RandomForest
from rankwood.trees import row_order
from rankwood.trees.grower import Growth, Policies, grow_tree
from rankwood.trees.splitting import SMALL, build_histograms, is_scattered


@pytest.fixture
def small_columns(monkeypatch):
    """Columns of a few rows count as too large for the cache."""
    monkeypatch.setattr(row_order, "_LEAST_ROWS", 100)
    monkeypatch.setattr(row_order, "_PILOT_ROWS", 500)
    monkeypatch.setattr(row_order, "_PILOT_LEAVES", 16)


@pytest.fixture
def data():
    return make_ranking(40, 40, 6, seed=2)


@pytest.mark.parametrize("in_place", [False, True])
def test_every_row_is_there_once_and_has_its_codes(small_columns, data, in_place):
    binned = bin_data(data)
    codes = binned.codes.copy()
    matrix = row_order.reorder_by_pilot_tree(codes, binned.bins, data.labels, in_place=in_place)
    order = matrix.source_of_row
    assert sorted(order) == list(range(data.n_documents))
    assert order.tolist() != list(range(data.n_documents))
    np.testing.assert_array_equal(matrix.columns, binned.codes[:, order])
    assert np.shares_memory(codes, matrix.columns) == in_place


def test_rows_that_end_in_one_leaf_of_another_tree_are_near_each_other(small_columns):
    natural = ordered = 0
    for seed in range(4):
        data = make_ranking(40, 40, 6, seed=seed)
        binned = bin_data(data)
        matrix = row_order.reorder_by_pilot_tree(binned.codes, binned.bins, data.labels)
        leaves = RandomForest(1, max_leaves=16, seed=7).fit(data).forest_.leaf_ids(data)[:, 0]
        natural += cache_lines(leaves)
        ordered += cache_lines(leaves[matrix.source_of_row])
    assert ordered < 0.8 * natural


def cache_lines(leaf_of_row):
    """How many lines, of 64 codes each, reading a column leaf by leaf touches."""
    lines = np.arange(leaf_of_row.size) // 64
    return len(set(zip(leaf_of_row.tolist(), lines.tolist(), strict=True)))


@pytest.fixture
def small_prefix(small_columns, monkeypatch):
    """A few rows are many enough for prefix of the first four features."""
    monkeypatch.setattr(row_order, "_LEAST_PREFIX_ROWS", 100)
    monkeypatch.setattr(row_order, "_STEP", 2)
    monkeypatch.setattr(row_order, "_MOST_STEPS", 2)
    monkeypatch.setattr(row_order, "_ROWS_AT_A_TIME", 64)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_heads_hold_the_first_features_row_by_row(small_prefix, data, n_threads):
    binned = bin_data(data)
    matrix = row_order.reorder_by_pilot_tree(
        binned.codes, binned.bins, data.labels, n_threads=n_threads
    )
    np.testing.assert_array_equal(matrix.row_major_prefix, matrix.columns[:4].T)
    assert matrix.row_major_prefix.ctypes.data % 64 == 0
    assert not matrix.row_major_prefix.flags.writeable


@pytest.mark.parametrize(("step", "width"), [(1, 5), (2, 4), (5, 5), (6, 0)])
def test_heads_are_whole_steps_of_seven_eighths_of_the_features(
    small_prefix, data, monkeypatch, step, width
):
    binned = bin_data(data)  # of six features
    monkeypatch.setattr(row_order, "_STEP", step)
    monkeypatch.setattr(row_order, "_MOST_STEPS", 7)
    prefix = row_order.reorder_by_pilot_tree(
        binned.codes, binned.bins, data.labels
    ).row_major_prefix
    assert (prefix.shape[1] if len(prefix) else 0) == width


def test_few_rows_have_no_heads(small_prefix, data, monkeypatch):
    binned = bin_data(data)
    monkeypatch.setattr(row_order, "_LEAST_PREFIX_ROWS", data.n_documents + 1)
    assert (
        len(
            row_order.reorder_by_pilot_tree(binned.codes, binned.bins, data.labels).row_major_prefix
        )
        == 0
    )


@pytest.mark.parametrize("n_rows", [0, 1, 63, 64, 65, 200])
@pytest.mark.parametrize(
    "chosen", [[0, 1, 2, 3, 4, 5, 6, 7], [1, 6, 7, 8], [9, 10], [2], range(11)]
)
def test_histograms_from_heads_are_those_of_the_columns(n_rows, chosen):
    n_features, width, n_all = 11, 8, 64 * 200
    rng = np.random.default_rng(n_rows)
    bins = bin_data(make_ranking(2, 5, n_features, seed=1)).bins
    codes = rng.integers(0, 256, (n_features, n_all)).astype(np.uint8)
    prefix = np.ascontiguousarray(codes[:width].T)
    codes[:width] = 0  # whoever reads a column for these is found out
    matrix = row_order.as_matrix(codes, bins, row_major_prefix=prefix)
    rows = np.sort(rng.choice(n_all, n_rows + 2, replace=False)).astype(np.uint32)
    packed_targets = rng.integers(-(2**40), 2**40, n_rows + 2)
    features = np.array(chosen, np.int64)
    sums = np.full((features.size, 256), 7)
    build_histograms(0, features.size, matrix, rows, packed_targets, 1, n_rows + 1, features, sums)
    slow = np.zeros_like(sums)
    for place in range(1, n_rows + 1):
        for slot, feature in enumerate(chosen):
            row = rows[place]
            slow[slot, prefix[row, feature] if feature < width else codes[feature, row]] += (
                packed_targets[place]
            )
    np.testing.assert_array_equal(sums, slow)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (range(100), False),  # two lines of 64 codes
        (range(0, 6400, 64), True),  # a line each
        (range(0, 100 * 10, 10), True),  # 16 lines
        (range(0, 100 * 9, 9), False),  # 15 lines
        ([], False),
    ],
)
def test_rows_are_scattered_if_they_lie_in_more_lines_than_15_for_100(rows, expected):
    rows = np.array([0, *rows, 0], np.uint32)
    assert is_scattered(rows, 1, rows.size - 1, 6400) == expected
    assert not is_scattered(rows, 1, rows.size - 1, 900)  # a column of so few lines


@pytest.mark.parametrize("width", [0, 3])
def test_completely_random_trees_read_small_nodes_from_heads(width):
    """Heads that hold other codes than the columns give another tree below the root, and only then."""
    rng = np.random.default_rng(1)
    bins = bin_data(make_ranking(8, 40, 4, seed=1)).bins
    codes = rng.integers(0, bins.n_value_bins[:, np.newaxis], (4, 320)).astype(np.uint8)
    prefix = np.zeros((320, width), np.uint8) if width else None
    policies = Policies(Growth(max_leaves=None), thresholds="completely_random")
    plain, other = (
        grow_tree(row_order.as_matrix(codes, bins, row_major_prefix=each), codes[0] + 0.5, policies)
        for each in (None, prefix)
    )
    assert (plain.feature[0], plain.code[0]) == (other.feature[0], other.code[0])
    small = plain.cover * SMALL < 320
    in_heads = other.feature[other.cover * SMALL < 320]
    assert small.any()
    assert set(in_heads.tolist()) <= ({-1, 3} if width else {-1, 0, 1, 2, 3})


def test_models_do_not_depend_on_heads(small_columns, data, request):
    rankers = [
        RandomForest(3, max_leaves=200, n_threads=2),
        CompletelyRandomForest(3, bag="row", n_threads=2),
        GBRT(3, max_leaves=200, min_leaf=1, n_threads=2),
        DeepForest(n_forests=2, n_trees=2, max_leaves=100, max_layers=2, patience=None),
    ]
    found = [ranker.fit(data).predict(data).tobytes() for ranker in rankers]
    request.getfixturevalue("small_prefix")
    for ranker, expected in zip(rankers, found, strict=True):
        assert ranker.fit(data).predict(data).tobytes() == expected


def test_few_rows_and_labels_without_a_split_stay_as_they_are(data, monkeypatch):
    binned = bin_data(data)
    natural = list(range(data.n_documents))
    few = row_order.reorder_by_pilot_tree(binned.codes, binned.bins, data.labels)
    assert few.source_of_row.tolist() == natural
    monkeypatch.setattr(row_order, "_LEAST_ROWS", 100)
    constant = row_order.reorder_by_pilot_tree(binned.codes, binned.bins, np.ones(data.n_documents))
    assert constant.source_of_row.tolist() == natural


@pytest.mark.parametrize("missing", ["learned", "own_child"])
def test_models_do_not_depend_on_the_order(data, monkeypatch, missing):
    rankers = [
        RandomForest(5, missing=missing, max_leaves=12),
        RandomForest(3, max_leaves=100, bag="query", weighting="resample"),
        GBRT(5, min_leaf=3, subsample=0.5),
    ]
    weights = np.linspace(0.0, 2.0, data.n_documents)
    natural = [ranker.fit(data, sample_weight=weights).forest_ for ranker in rankers]
    monkeypatch.setattr(row_order, "_LEAST_ROWS", 100)
    binned = bin_data(data)
    for ranker, forest in zip(rankers, natural, strict=True):
        assert ranker.fit(data, sample_weight=weights).forest_ == forest
        by_count = ranker.fit(binned).forest_
        assert (
            ranker.fit(binned).forest_ == by_count
        )  # the second fit finds the matrix of the first
        assert list(binned.derived) == ["matrix"]
