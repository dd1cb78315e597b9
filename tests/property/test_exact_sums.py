"""No model depends on the order of its rows in memory, or on how they are divided into parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rankwood._core import sums
from rankwood._core.checks import read_only
from rankwood.rankers.deep_forest import layers
from rankwood.training import inputs
from rankwood.trees.grower import Growth, Policies, grow_tree
from rankwood.trees.packing import DrawnRows, TargetRows, choose_units, whole_targets
from rankwood.trees.row_order import as_matrix
from tests.contract.rankers import asked_in_every_way, make, saved, training_data, validation_data
from tests.reference.parts import PartsEngine, deal, grow_tree_in_parts, hold_in_parts
from tests.unit.test_trees import assert_same_tree, matrix_of, random_problem

N_PARTS = (1, 2, 3, 7)
terms = arrays.arrays(
    np.float64, st.integers(1, 200), elements=st.floats(-1e30, 1e30, allow_subnormal=False)
)


# The sums themselves.


@given(terms, st.randoms(use_true_random=False))
def test_a_sum_has_no_order(values, random):
    shuffled = values.copy()
    random.shuffle(shuffled)
    assert sums.exact_sum(shuffled) == sums.exact_sum(values)


@given(terms)
def test_a_sum_is_as_close_as_promised(values):
    largest, n = np.abs(values).max(), values.size
    bound = n * largest * 2.0 ** (n.bit_length() - 62)
    rounding = abs(math.fsum(values)) * 2.0**-52  # of the answer to float64
    assert abs(sums.exact_sum(values) - math.fsum(values)) <= bound + rounding


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_sums_of_any_size_are_exact_for_whole_multiples(scale):
    values = np.array([1.0, 2.0, 4.0, -3.0]) * scale
    assert sums.exact_sum(values) == 4.0 * scale
    assert sums.exact_mean(values, np.array([1.0, 0.0, 1.0, 0.0])) == 2.5 * scale
    groups = np.array([0, 2, 2, 0])
    by_group = sums.exact_bincount(groups, values, 4)
    assert by_group.tolist() == pytest.approx([-2 * scale, 0, 6 * scale, 0], rel=1e-15)


def test_a_million_of_the_largest_terms_do_not_overflow():
    values = np.full(1 << 20, np.nextafter(2.0, 0.0))
    assert sums.exact_sum(values) == pytest.approx(2.0**21, rel=1e-12)
    assert sums.exact_sum(-values) == -sums.exact_sum(values)


def test_sums_without_a_finite_value_are_those_of_numpy():
    assert math.isnan(sums.exact_sum([1.0, math.nan]))
    assert sums.exact_sum([1.0, math.inf]) == math.inf
    assert sums.exact_sum([]) == 0.0
    assert math.isnan(sums.exact_bincount(np.array([0, 0]), [1.0, math.nan], 1)[0])
    assert sums.exact_cumsum([1.0, math.inf]).tolist() == [1.0, math.inf]


@given(terms, st.integers(0, 200))
def test_running_sums_are_those_of_the_parts(values, cut):
    """The whole numbers before a part, plus its own: what a part needs to know of the others is one number."""
    scale = sums.exact_scale(float(np.abs(values).max()), values.size)
    whole = np.rint(values * scale.lift * scale.unit).astype(np.int64)
    first, second = whole[:cut], whole[cut:]
    in_parts = np.concatenate([np.cumsum(first), first.sum() + np.cumsum(second)])
    assert sums.exact_cumsum(values).tolist() == scale.back(in_parts.astype(float)).tolist()


# The units of packed targets, and the sums of leaves.


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_change_no_unit_and_no_sum(n_threads, rng, monkeypatch):
    monkeypatch.setattr("rankwood._core.sums.LEAST_ROWS", 10)
    monkeypatch.setattr("rankwood.trees.packing.LEAST_ROWS", 10)
    n_rows = 500
    targets, weights = rng.normal(size=n_rows) + 3.0, rng.random(n_rows)
    counts = rng.integers(0, 3, n_rows).astype(np.int32)
    leaf = read_only(rng.integers(0, 9, n_rows).astype(np.int32))
    sources = read_only(rng.permutation(n_rows).astype(np.int32))
    for given_weights in (None, weights):
        for drawn in (counts, np.ones(n_rows, np.int32)):
            wholes = [
                whole_targets(TargetRows.of(targets, given_weights, drawn > 0, n), 500, centre=True)
                for n in (1, n_threads)
            ]
            assert wholes[0].scales == wholes[1].scales
            assert np.array_equal(wholes[0].targets, wholes[1].targets)
            assert np.array_equal(wholes[0].weights, wholes[1].weights)
            one = DrawnRows.of(drawn, wholes[0])
            many = DrawnRows.of(drawn, wholes[0], n_threads)
            assert np.array_equal(many.sizes(), one.sizes())
            units = choose_units(wholes[0].scales, one.sizes())
            assert np.array_equal(many.sum_leaves(leaf, 9), one.sum_leaves(leaf, 9))
            for name in ("rows", "values", "counts"):
                found = (getattr(rows.pack(units, sources), name) for rows in (one, many))
                assert np.array_equal(*found)


@pytest.mark.jit_only  # Python warns of a NaN that becomes a whole number, though it is not used
def test_rows_that_no_tree_sees_count_for_nothing():
    targets = np.array([1.0, math.nan, 3.0, math.inf])
    drawn = np.array([1, 0, 2, 0], np.int32)
    whole = whole_targets(TargetRows.of(targets, None, drawn > 0), 3, centre=True)
    few = whole_targets(TargetRows.of(targets[[0, 2]]), 3, centre=True)
    assert whole.scales == few.scales
    assert whole.targets.tolist() == [few.targets[0], 0, few.targets[1], 0]
    ((total, weight),) = DrawnRows.of(drawn, whole).sum_leaves(read_only(np.zeros(4, np.int32)), 1)
    scales = whole.scales
    assert scales.of_targets.back(total) + weight * scales.shift == 7.0
    assert weight == 3


def test_targets_of_absent_rows_may_be_beyond_the_scale_of_the_others():
    """Without compilation such a cast warns, and warnings are errors."""
    targets, present = np.array([1e-9, 1e9, 3e-9]), np.array([1, 0, 1], np.int32)
    rows = TargetRows.of(targets, None, present)
    scale = sums.exact_scale(3e-9, 3)
    n_rows, total = rows.count_and_sum(scale)
    assert n_rows == 2
    assert scale.back(float(total)) == pytest.approx(4e-9, rel=1e-15)
    assert whole_targets(rows, 2, centre=True).targets[1] == 0


# Trees.


def grown_in(parts, targets, policies, counts, weights, stream):
    centre = policies.lets_shift
    held = hold_in_parts(parts, targets, weights, counts > 0, int(counts.sum()), centre)
    return grow_tree_in_parts(parts, held, policies, counts, stream)


@pytest.mark.parametrize("seed", range(60))
def test_a_tree_grown_in_parts_has_the_same_bytes(seed):
    codes, thresholds, targets, counts, weights, policies = random_problem(seed)
    matrix, counts = matrix_of(codes, thresholds), counts.astype(np.int32)
    whole = grow_tree(matrix, targets, policies, counts=counts, weights=weights, stream=seed)
    rng = np.random.default_rng(seed)
    for n_parts in N_PARTS:
        parts = deal(matrix, rng.integers(0, n_parts, targets.size), n_parts, seed)
        assert_same_tree(grown_in(parts, targets, policies, counts, weights, seed), whole)


@pytest.mark.parametrize("options", [{}, {"max_leaves": 20}, {"min_leaf": 4}])
@pytest.mark.parametrize("missing", ["learned", "right"])
@pytest.mark.parametrize("has_weights", [False, True])
def test_completely_random_trees_have_no_parts_either(options, missing, has_weights, rng):
    n_rows = 150
    codes = rng.integers(0, 20, (5, n_rows)).astype(np.uint8)
    codes[rng.random(codes.shape) < 0.1] = 255
    matrix = matrix_of(codes, [np.arange(19)] * 5)
    targets, weights = rng.normal(size=n_rows), rng.random(n_rows) if has_weights else None
    counts = np.bincount(rng.integers(0, n_rows, n_rows), minlength=n_rows).astype(np.int32)
    growth = Growth(**({"max_leaves": None} | options))
    policies = Policies(growth, thresholds="completely_random", missing=missing)
    whole = grow_tree(matrix, targets, policies, counts=counts, weights=weights, stream=5)
    parts = deal(matrix, rng.integers(0, 3, n_rows), 3)
    assert_same_tree(grown_in(parts, targets, policies, counts, weights, 5), whole)


@pytest.mark.parametrize("rule", ["best", "completely_random"])
def test_weights_that_round_to_nothing_do_not_bring_the_order_back(rule):
    """A target may be left of a row whose weight is too small for its unit: then rows are not alike, in any order."""
    targets, weights = np.array([1.0, 1.0, 1.0, 1e12]), np.array([1.0, 1.0, 1.0, 1e-12])
    codes, policies = np.array([[0, 0, 1, 1]]), Policies(Growth(max_leaves=None), thresholds=rule)
    trees = []
    for order in ([0, 1, 2, 3], [3, 0, 1, 2], [0, 3, 1, 2]):
        sources = read_only(np.array(order, np.int32))
        matrix = matrix_of(codes[:, order], [[0.5]])._replace(source_of_row=sources)
        trees.append(grow_tree(matrix, targets, policies, weights=weights))
    assert_same_tree(trees[1], trees[0])
    assert_same_tree(trees[2], trees[0])


# Rankers.

GROWN = [
    "RandomForest",
    "ExtraTrees",
    "CompletelyRandomForest",
    "GBRT",
    "AveragedGBRT",
    "InitializedGBRT",
    "OrdinalRanker",
    "LambdaMART",
    "BROOF",
    "DeepForest",
    "NDCGBoost",
]
STUMPS = ["AdaBoost", "RankBoost"]


def cases(names):
    """The rankers of these names, in every way that the contract of rankers knows."""
    return asked_in_every_way(of=lambda name, _: name in names)


@pytest.mark.parametrize(
    "n_parts", [pytest.param(n, marks=[pytest.mark.slow] if n in (1, 3) else []) for n in N_PARTS]
)
@pytest.mark.jit_only  # it is about the engine, not about kernels
@pytest.mark.parametrize("case", cases(GROWN))
def test_a_ranker_grown_in_parts_has_the_same_bytes(case, n_parts, monkeypatch, tmp_path):
    train, valid = training_data(), validation_data()
    one = saved(make(case, n_threads=1).fit(train, valid=valid), tmp_path / "one")
    made = []

    def engine(device, matrix, n_threads):
        assert device == "cpu"
        made.append(PartsEngine.dealt(matrix, n_threads, n_parts, len(made)))
        return made[-1]

    for module in (inputs, layers):
        monkeypatch.setattr(module, "engine_on", engine)
    assert saved(make(case, n_threads=2).fit(train, valid=valid), tmp_path / "parts") == one
    assert made


def shuffled(seed):
    """A ``reorder_by_pilot_tree`` that puts the rows in a random order."""

    def reorder(codes, bins, targets, *, in_place=False, n_threads=None):
        order = np.random.default_rng(seed).permutation(codes.shape[1]).astype(np.int32)
        ordered = codes[:, order]
        if in_place:
            codes[:] = ordered
        return as_matrix(codes if in_place else np.ascontiguousarray(ordered), bins, order)

    return reorder


@pytest.mark.jit_only
@pytest.mark.parametrize("case", cases(GROWN + STUMPS))
def test_a_ranker_does_not_depend_on_the_order_of_rows(case, monkeypatch, tmp_path):
    train, valid = training_data(), validation_data()
    one = saved(make(case, n_threads=1).fit(train, valid=valid), tmp_path / "one")
    for seed in (0, 1):
        for module in (inputs, layers):
            monkeypatch.setattr(module, "reorder_by_pilot_tree", shuffled(seed))
        assert saved(make(case, n_threads=2).fit(train, valid=valid), tmp_path / "n") == one
