"""Which rows a tree sees."""

from __future__ import annotations

import numpy as np
import pytest

from rankwood._core import checks
from rankwood.engines import bags as kernels
from rankwood.engines import engine
from rankwood.engines.bags import Bags, stream_number
from rankwood.errors import ParameterError
from tests.reference import ensembles as slow

SIZES = [(1, 1), (1, 5), (7, 3), (50, 50), (400, 123)]


@pytest.mark.parametrize(("n_draws", "n_items"), SIZES)
@pytest.mark.parametrize("stream", [0, 1, 2**62 - 1])
def test_drawing_equals_the_slow_twin(stream, n_draws, n_items):
    counts = np.zeros(n_items, np.int32)
    kernels.draw_with_replacement(stream, n_draws, counts)
    assert counts.tolist() == slow.draw_with_replacement(stream, n_draws, n_items)
    n_draws = min(n_draws, n_items)
    counts = np.zeros(n_items, np.int32)
    kernels.draw_without_replacement(stream, n_draws, counts)
    assert counts.tolist() == slow.draw_without_replacement(stream, n_draws, n_items)
    assert counts.sum() == n_draws


@pytest.mark.parametrize(
    "weights",
    [
        [1.0],
        [1.0, 1.0, 1.0],
        [5.0, 1e-9, 3.0, 1e9, 2.0],
        list(np.random.default_rng(3).random(200) ** 8),
        [1.0, 2.0**-60, 2.0**-60, 1.0],
    ],
)
def test_drawing_by_weight_equals_the_slow_twin(weights):
    bags = Bags(len(weights), weights=np.array(weights), seed=9)
    for tree in range(5):
        number = stream_number(9, "bag", tree)
        scaled = [weight / max(weights) for weight in weights]
        assert bags.counts(tree).tolist() == slow.draw_by_weight(number, len(weights), scaled)


def test_adding_leaf_values_equals_the_slow_twin(rng):
    leaf_of_row = rng.integers(0, 7, 100).astype(np.int32)
    value, totals = rng.normal(size=7), rng.normal(size=100)
    expected = slow.add_leaf_values(leaf_of_row, value, 0.1, totals)
    engine.add_leaf_values(0, 100, leaf_of_row, value, 0.1, totals)
    assert totals.tolist() == expected


def test_a_bootstrap_leaves_out_a_share_of_one_over_e():
    # (1 - 1/n)^n → 1/e = 0.368; with n = 3,000 and ten bags the standard error is about 0.002.
    left_out = [(Bags(3000, seed=1).counts(tree) == 0).mean() for tree in range(10)]
    assert np.mean(left_out) == pytest.approx(np.exp(-1), abs=0.008)


def test_draws_follow_the_weights():
    # 300 bags × 4 draws: the expected count of an item is 1,200 × its share, within 4 standard errors.
    weights = np.array([1.0, 2.0, 0.0, 5.0])
    present = weights > 0
    bags = Bags(4, weights=weights, present=present, seed=2)
    counts = sum(bags.counts(tree) for tree in range(300))
    n_draws = counts.sum()
    assert n_draws == 300 * 3  # as many draws as there are rows that count
    shares = weights / weights.sum()
    errors = 4 * np.sqrt(n_draws * shares * (1 - shares))
    assert (np.abs(counts - n_draws * shares) <= errors).all()
    assert counts[2] == 0


def test_every_row_is_as_likely_as_any_other():
    for replacement in (True, False):
        bags = Bags(20, share=0.5, replacement=replacement, seed=5)
        counts = sum(bags.counts(tree) for tree in range(2000))
        # 20,000 draws, 1,000 expected per row; 5 standard errors of a binomial count are some 155.
        assert counts.sum() == 20_000
        assert np.abs(counts - 1000).max() < 155


@pytest.mark.parametrize("replacement", [True, False])
def test_a_bag_by_query_takes_whole_queries(replacement):
    query_of_row = np.array([0, 1, 0, 2, 1, 3, 0])
    bags = Bags(7, query_of_row, share=0.5, replacement=replacement, seed=3)
    seen = set()
    for tree in range(30):
        counts = bags.counts(tree)
        per_query = [set(counts[query_of_row == query].tolist()) for query in range(4)]
        assert all(len(found) == 1 for found in per_query)
        drawn = [found.pop() for found in per_query]
        assert sum(drawn) == 2
        seen |= {query for query in range(4) if drawn[query]}
    assert seen == {0, 1, 2, 3}


def test_rows_without_weight_are_in_no_bag():
    query_of_row = np.array([0, 0, 1, 1, 2])
    present = np.array([True, False, False, False, True])
    for options in ({}, {"query_of_row": query_of_row}, {"share": 0.1, "replacement": False}):
        for tree in range(20):
            counts = Bags(5, present=present, **options).counts(tree)
            assert counts[~present].sum() == 0
            assert counts.sum() >= 1


def test_bags_differ_by_tree_and_seed_and_repeat():
    bags = Bags(500, seed=4)
    assert np.array_equal(bags.counts(3), Bags(500, seed=4).counts(3))
    assert not np.array_equal(bags.counts(3), bags.counts(4))
    assert not np.array_equal(bags.counts(3), Bags(500, seed=5).counts(3))


def test_weights_without_replacement_are_refused():
    with pytest.raises(ParameterError, match="needs replacement"):
        Bags(3, replacement=False, weights=np.ones(3))


def test_the_search_survives_extreme_weights():
    weights = np.full(2000, 1e300)
    weights[::2] = 1e-300
    counts = Bags(2000, weights=weights).counts(0)
    assert counts.sum() == 2000
    assert counts[::2].sum() == 0


def test_out_of_bag_sums_equal_the_slow_twin(rng):
    n_rows, n_trees = 40, 6
    counts = rng.integers(0, 2, (n_trees, n_rows)).astype(np.int32)
    counts[:, 0] = 1  # a row that every tree has seen
    leaves = rng.integers(0, 5, (n_trees, n_rows)).astype(np.int32)
    values = rng.normal(size=(n_trees, 5))
    sums, numbers = np.zeros(n_rows), np.zeros(n_rows, np.int32)
    for tree in range(n_trees):
        kernels.add_out_of_bag(counts[tree], leaves[tree], values[tree], sums, numbers)
    predictions = [values[tree][leaves[tree]] for tree in range(n_trees)]
    means, expected = slow.out_of_bag(predictions, counts)
    assert numbers.tolist() == expected
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(sums / numbers, means)


def test_read_only_inputs_stay_as_they_are():
    weights = checks.read_only(np.array([1.0, 3.0]))
    before = weights.copy()
    Bags(2, weights=weights).counts(0)
    assert np.array_equal(weights, before)
