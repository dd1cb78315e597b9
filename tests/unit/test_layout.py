"""The order of the rows: alike ones together, nothing lost, nothing changed."""

from __future__ import annotations

import numpy as np
import pytest

from rankwood.binning.binned import bin_data
from rankwood.data.synthetic import make_ranking
from rankwood.ensembles.forests import RandomForest
from rankwood.ensembles.gbrt import GBRT
from rankwood.trees import layout


@pytest.fixture
def small_columns(monkeypatch):
    """Columns of a few rows count as too large for the cache."""
    monkeypatch.setattr(layout, "_LEAST_ROWS", 100)
    monkeypatch.setattr(layout, "_PILOT_ROWS", 500)
    monkeypatch.setattr(layout, "_PILOT_LEAVES", 16)


@pytest.fixture
def data():
    return make_ranking(40, 40, 6, seed=2)


@pytest.mark.parametrize("in_place", [False, True])
def test_every_row_is_there_once_and_has_its_codes(small_columns, data, in_place):
    binned = bin_data(data)
    codes = binned.codes.copy()
    matrix = layout.lay_out_together(codes, binned.bins, data.labels, in_place=in_place)
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
        matrix = layout.lay_out_together(binned.codes, binned.bins, data.labels)
        leaves = RandomForest(1, max_leaves=16, seed=7).fit(data).forest_.leaf_ids(data)[:, 0]
        natural += cache_lines(leaves)
        ordered += cache_lines(leaves[matrix.source_of_row])
    assert ordered < 0.8 * natural


def cache_lines(leaf_of_row):
    """How many lines, of 64 codes each, reading a column leaf by leaf touches."""
    lines = np.arange(leaf_of_row.size) // 64
    return len(set(zip(leaf_of_row.tolist(), lines.tolist(), strict=True)))


def test_few_rows_and_labels_without_a_split_stay_as_they_are(data, monkeypatch):
    binned = bin_data(data)
    natural = list(range(data.n_documents))
    few = layout.lay_out_together(binned.codes, binned.bins, data.labels)
    assert few.source_of_row.tolist() == natural
    monkeypatch.setattr(layout, "_LEAST_ROWS", 100)
    constant = layout.lay_out_together(binned.codes, binned.bins, np.ones(data.n_documents))
    assert constant.source_of_row.tolist() == natural


@pytest.mark.parametrize("missing", ["learned", "own_child"])
def test_models_do_not_depend_on_the_order(data, monkeypatch, missing):
    rankers = [
        RandomForest(5, missing=missing, max_leaves=12),
        RandomForest(3, bag="query", weighting="resample"),
        GBRT(5, min_leaf=3, subsample=0.5),
    ]
    weights = np.linspace(0.0, 2.0, data.n_documents)
    natural = [ranker.fit(data, sample_weight=weights).forest_ for ranker in rankers]
    monkeypatch.setattr(layout, "_LEAST_ROWS", 100)
    binned = bin_data(data)
    for ranker, forest in zip(rankers, natural, strict=True):
        assert ranker.fit(data, sample_weight=weights).forest_ == forest
        by_count = ranker.fit(binned).forest_
        assert (
            ranker.fit(binned).forest_ == by_count
        )  # the second fit finds the matrix of the first
        assert list(binned.derived) == ["matrix"]
