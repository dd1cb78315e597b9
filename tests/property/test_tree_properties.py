"""What holds for every tree and every histogram."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwood._core.checks import read_only
from rankwood.binning.binned import bin_data
from rankwood.data.dataset import RankingData
from rankwood.models.forest import Forest
from rankwood.trees import grower, splitting
from rankwood.trees.grower import FeatureChoice, Growth, Policies, grow_tree
from rankwood.trees.partition import set_rows_apart, set_rows_apart_one_by_one
from rankwood.trees.row_order import as_matrix

MISSING = 255
NASTY = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e38, -1e38, 1e-45, 0.1, 16777217.0]


@pytest.fixture(autouse=True, scope="module")
def threads_share_every_leaf():
    """Threads search small leaves too, which would not pay outside of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grower, "_LEAST_SHARED", 0)
        patch.setattr(grower, "_LEAST_FOR_TEAM", 0)
        yield


@st.composite
def tables(draw):
    """Rows with values that trip up engines, targets, and a number of leaves."""
    n_rows = draw(st.integers(1, 40))
    n_features = draw(st.integers(1, 5))
    values = draw(
        st.lists(st.sampled_from(NASTY), min_size=n_rows * n_features, max_size=n_rows * n_features)
    )
    targets = draw(st.lists(st.floats(-1e6, 1e6), min_size=n_rows, max_size=n_rows))
    features = np.array(values, np.float32).reshape(n_rows, n_features)
    return features, np.array(targets), draw(st.integers(1, 50))


def binned_of(features):
    return bin_data(RankingData(features, np.zeros(len(features))))


def matrix_of(features):
    """The same as the grower sees it."""
    binned = binned_of(features)
    return as_matrix(binned.codes, binned.bins)


@given(
    tables(),
    st.sampled_from(["learned", "left", "right", "own_child"]),
    st.sampled_from(["best", "random", "completely_random"]),
)
def test_every_row_lands_in_one_leaf_and_is_predicted_so(table, missing, thresholds):
    features, targets, max_leaves = table
    policies = Policies(Growth(max_leaves=max_leaves), missing=missing, thresholds=thresholds)
    tree = grow_tree(matrix_of(features), targets, policies)
    assert 1 <= tree.n_leaves <= max_leaves + 1  # a three-way split may bring one leaf more
    assert (tree.left[tree.leaf_of_row] == 0).all()
    assert tree.cover[0] == len(features)
    assert np.isfinite(tree.value).all()
    forest = Forest.from_trees([tree], n_features=features.shape[1])
    np.testing.assert_array_equal(forest.predict(features), tree.value[tree.leaf_of_row])


@given(tables())
def test_a_larger_tree_never_fits_worse(table):
    features, targets, max_leaves = table
    matrix = matrix_of(features)
    errors = []
    for leaves in (1, max_leaves, max_leaves + 5):
        tree = grow_tree(matrix, targets, Policies(Growth(max_leaves=leaves)))
        errors.append(((targets - tree.value[tree.leaf_of_row]) ** 2).sum())
    scale = 1e-9 * (1.0 + (targets**2).sum())
    assert errors[0] >= errors[1] - scale
    assert errors[1] >= errors[2] - scale


@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 9))
def test_histograms_of_the_parts_make_up_that_of_the_whole(seed, n_rows, n_features):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    matrix = matrix_of(features)
    words = rng.integers(-(2**40), 2**40, n_rows)
    order = rng.permutation(n_rows).astype(np.uint32)
    chosen = np.arange(n_features)
    middle = n_rows // 2
    found = []
    for begin, end in ((0, n_rows), (0, middle), (middle, n_rows)):
        sums = np.empty((n_features, 256), np.int64)
        splitting.build_histograms(0, n_features, matrix, order, words, begin, end, chosen, sums)
        found.append(sums)
    whole, one, other = found
    np.testing.assert_array_equal(whole, one + other)
    assert len(set(whole.sum(axis=1).tolist())) == 1  # all features see the same rows
    slow = np.zeros_like(whole)
    for place, row in enumerate(order):
        for feature in range(n_features):
            slow[feature, matrix.columns[feature, row]] += words[place]
    np.testing.assert_array_equal(whole, slow)
    splitting.subtract_histograms(0, n_features, whole, one)
    np.testing.assert_array_equal(whole, other)


@given(tables(), st.integers(0, 1000))
def test_the_order_of_the_rows_changes_no_tree(table, stream):
    features, targets, max_leaves = table
    rng = np.random.default_rng(stream)
    natural = matrix_of(features)
    order = rng.permutation(targets.size).astype(np.int32)
    other = natural._replace(
        columns=read_only(np.ascontiguousarray(natural.columns[:, order])),
        source_of_row=read_only(order),
    )
    counts = rng.integers(0, 3, targets.size).astype(np.int32)
    for weights in (None, rng.random(targets.size)):
        for l2 in (0.0, 1.0):
            policies = Policies(Growth(max_leaves=max_leaves), FeatureChoice(0.5), l2=l2)
            one, two = (
                grow_tree(matrix, targets, policies, counts=counts, weights=weights, stream=stream)
                for matrix in (natural, other)
            )
            for name in ("feature", "code", "value", "cover", "gain", "leaf_of_row"):
                assert getattr(one, name).tobytes() == getattr(two, name).tobytes()


@given(tables(), st.integers(0, 1000))
def test_the_same_tree_for_any_number_of_threads(table, stream):
    features, targets, max_leaves = table
    matrix = matrix_of(features)
    for choice in (FeatureChoice(), FeatureChoice(0.5)):
        policies = Policies(Growth(max_leaves=max_leaves), choice)
        trees = [
            grow_tree(matrix, targets, policies, stream=stream, n_threads=n) for n in (1, 2, 8)
        ]
        assert (
            len(
                {
                    tree.value.tobytes() + tree.feature.tobytes() + tree.threshold.tobytes()
                    for tree in trees
                }
            )
            == 1
        )


def test_read_only_views_do_not_copy():
    array = np.arange(3)
    assert np.shares_memory(read_only(array), array)


@given(
    st.lists(st.integers(0, 255), max_size=70),
    st.integers(0, 254),
    st.booleans(),
    st.integers(0, 70),
    st.integers(0, 20),
)
def test_rows_set_apart_keep_their_order_and_leave_others_alone(codes, code, left, n_drawn, begin):
    """Sixteen at a time where the processor can, else one by one: the same."""
    n_drawn = min(n_drawn, len(codes))
    found = []
    for kernel in (set_rows_apart, set_rows_apart_one_by_one):
        rows, aside = np.arange(100, 200, dtype=np.uint32), np.zeros(len(codes) + 1, np.uint32)
        given = np.array(codes, np.uint8)
        with np.errstate(over="ignore"):
            n_left = kernel(rows, begin, 0, n_drawn, given, code, left, 0, aside)
            n_left = kernel(rows, begin, n_drawn, len(codes), given, code, False, n_left, aside)
        end = begin + len(codes)
        assert rows[end:].tolist() == list(range(100 + end, 200))
        found.append(
            (n_left, rows[: begin + n_left].tolist(), aside[: len(codes) - n_left].tolist())
        )
    assert found[0] == found[1]
    goes_left = [
        (left and place < n_drawn) if each == MISSING else each <= code
        for place, each in enumerate(codes)
    ]
    numbers = list(range(100 + begin, 100 + begin + len(codes)))
    apart = [
        [n for n, goes in zip(numbers, goes_left, strict=True) if goes == w] for w in (True, False)
    ]
    assert found[0][1][begin:] == apart[0]
    assert found[0][2] == apart[1]
