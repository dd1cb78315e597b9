"""The grower equals its slow twin under every policy, and keeps its promises on nasty rows."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from rankwood._core.checks import read_only
from rankwood.errors import ParameterError
from rankwood.trees import grower, partition
from rankwood.trees.grower import FeatureChoice, Growth, Policies, Tree, grow_tree
from rankwood.trees.packing import pack
from rankwood.trees.random_trees import range_of, range_of_weighed
from rankwood.trees.row_order import as_matrix
from rankwood.trees.workspace import Bag
from tests.reference import trees as reference

MISSING = 255


@pytest.fixture(autouse=True, scope="module")
def threads_share_every_leaf():
    """Threads search small leaves too, which would not pay outside of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grower, "_LEAST_SHARED", 0)
        patch.setattr(grower, "_LEAST_FOR_TEAM", 0)
        patch.setattr(grower, "_LEAST_PART", 1)
        patch.setattr(grower, "usable_cores", lambda: 64)
        yield


def matrix_of(codes, thresholds):
    """The matrix of codes and cut points."""
    offsets = np.concatenate([[0], np.cumsum([len(cuts) for cuts in thresholds])]).astype(np.int64)
    flat = np.concatenate([np.asarray(cuts, np.float32) for cuts in thresholds]).astype(np.float32)
    n_bins = np.array([len(cuts) + 1 for cuts in thresholds])
    none = np.zeros(0, bool)
    bins = SimpleNamespace(
        thresholds=flat, offsets=offsets, n_value_bins=n_bins, is_categorical=none
    )
    return as_matrix(np.ascontiguousarray(codes, np.uint8), bins)


def random_problem(seed):
    """Rows, targets, weights and policies drawn so that every combination comes up."""
    rng = np.random.default_rng(seed)
    n_rows, n_features = int(rng.integers(2, 60)), int(rng.integers(1, 6))
    n_bins = rng.integers(1, 9, n_features)
    codes = np.stack([rng.integers(0, bins, n_rows) for bins in n_bins]).astype(np.uint8)
    if rng.random() < 0.6:
        codes[rng.random(codes.shape) < 0.2] = MISSING
    thresholds = [np.sort(rng.normal(size=bins - 1)).astype(np.float32) for bins in n_bins]
    is_graded = rng.random() < 0.5
    targets = rng.integers(0, 5, n_rows).astype(float) if is_graded else rng.normal(size=n_rows)
    has_bag = rng.random() < 0.5
    counts = (
        np.bincount(rng.integers(0, n_rows, n_rows), minlength=n_rows)
        if has_bag
        else np.ones(n_rows, int)
    )
    weights = rng.random(n_rows) + 0.1 if rng.random() < 0.5 else None
    if weights is not None and rng.random() < 0.5:  # as a loss weighs documents without a pair
        is_without = rng.random(n_rows) < 0.4
        weights[is_without] = 0.0
        targets[is_without] = 0.0
    policies = Policies(
        Growth(
            max_leaves=int(rng.integers(2, 20)),
            max_depth=int(rng.integers(0, 5)) if rng.random() < 0.3 else None,
            min_leaf=int(rng.integers(1, 6)),
            min_weight=float(rng.choice([0.0, 0.0, 2.5])),
            min_split=int(rng.choice([1, 1, 9])),
        ),
        FeatureChoice(int(rng.integers(1, n_features + 1))),
        thresholds="random" if rng.random() < 0.3 else "best",
        missing=["learned", "left", "right", "own_child"][rng.integers(4)],
        l2=float(rng.choice([0.0, 0.0, 1.5])),
        costs=rng.random(n_features) * 2 if rng.random() < 0.3 else None,
        direction=rng.integers(-1, 2, n_features) if rng.random() < 0.3 else None,
    )
    return codes, thresholds, targets, counts, weights, policies


def whole_numbers(targets, counts, weights, centre):
    """Targets and weights as the slow twin rounds them."""
    given = None if weights is None else weights.tolist()
    return reference.pack(targets.tolist(), counts.tolist(), given, centre)


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_packed_targets_equal_the_slow_twin(seed, centre):
    _, _, targets, counts, weights, _ = random_problem(seed)
    targets = targets * 10.0 ** ((seed % 7) - 3)
    packed = pack(targets, counts.astype(np.int64), weights, centre=centre)
    whole = whole_numbers(targets, counts, weights, centre)
    rows = np.flatnonzero(counts)
    bits = packed.units.bits
    mask = (1 << bits) - 1
    assert packed.rows.tolist() == rows.tolist()
    assert (packed.values >> bits).tolist() == [whole.targets[row] for row in rows]
    assert (packed.values & mask).tolist() == [whole.weights[row] for row in rows]
    units = (packed.units.target_unit, packed.units.weight_unit, packed.units.shift)
    assert units == (whole.target_unit, whole.weight_unit, whole.shift)


def as_reference(codes, thresholds, targets, counts, weights, policies, stream):
    """The same problem in whole numbers, for the slow twin."""
    whole = whole_numbers(targets, counts, weights, policies.lets_shift)
    growth = policies.growth
    return reference.Problem(
        columns=codes.tolist(),
        thresholds=[cuts.tolist() for cuts in thresholds],
        targets=whole.targets,
        weights=whole.weights,
        counts=counts.tolist(),
        max_leaves=growth.max_leaves,
        max_depth=10**9 if growth.max_depth is None else growth.max_depth,
        min_leaf=growth.min_leaf,
        min_split=growth.min_split,
        min_weight=growth.min_weight * whole.weight_unit,
        per_node=policies.features.per_node,
        per_tree=policies.features.per_tree,
        groups=None
        if policies.features.groups is None
        else [set(np.flatnonzero(group).tolist()) for group in policies.features.groups],
        l1=policies.l1 * whole.target_unit,
        threshold_rule=policies.thresholds,
        missing=policies.missing,
        l2=policies.l2 * whole.weight_unit,
        costs=None if policies.costs is None else (policies.costs * whole.gain_unit).tolist(),
        direction=None if policies.direction is None else policies.direction.tolist(),
        stream=stream,
    )


# The last two have bins whose rows all have no weight, behind missing values that do.
@pytest.mark.parametrize("seed", [*range(60), 122, 978])
def test_the_grower_equals_the_slow_twin(seed):
    assert_equals_the_slow_twin(random_problem(seed), seed)


@pytest.mark.parametrize("seed", range(200, 260))
def test_trees_with_l1_and_limited_features_equal_the_slow_twin(seed):
    assert_equals_the_slow_twin(limited_problem(seed), seed)


def limited_problem(seed):
    """A random problem with l1, some features per tree and groups of features."""
    *rows, policies = random_problem(seed)
    rng = np.random.default_rng(seed)
    n_features = len(rows[0])
    groups = rng.random((int(rng.integers(1, 4)), n_features)) < 0.6
    per_tree = int(rng.integers(1, n_features + 1))
    choice = FeatureChoice(
        int(rng.integers(1, per_tree + 1)) if rng.random() < 0.5 else per_tree,
        per_tree=per_tree if rng.random() < 0.6 else None,
        groups=groups if rng.random() < 0.6 else None,
    )
    l1 = float(rng.choice([0.0, 0.3, 2.0]))
    return (*rows, dataclasses.replace(policies, features=choice, l1=l1))


@pytest.mark.parametrize("l2", [0.0, 1.5])
def test_l1_moves_sums_towards_zero(l2):
    codes, targets = [0, 0, 0, 1, 1, 1, 1], [3.0, 4.0, 5.0, -1.0, -2.0, 0.0, 0.5]
    tree = simple(codes, targets, growth=Growth(max_leaves=2), l1=2.0, l2=l2)
    left, right = (12.0 - 2.0) / (3 + l2), (-2.5 + 2.0) / (4 + l2)
    np.testing.assert_allclose(tree.value[1:], [left, right])
    gain = 10.0**2 / (3 + l2) + 0.5**2 / (4 + l2) - 7.5**2 / (7 + l2)
    assert tree.gain[0] == pytest.approx(gain)
    assert simple(codes, targets, l1=13.0).n_nodes == 1  # nothing is left of any sum


# Without a limit of leaves nodes are split depth first, and are numbered as if the largest had been: the twin's order.
@pytest.mark.parametrize("max_leaves", [5, 60])
@pytest.mark.parametrize("seed", range(30))
def test_completely_random_trees_equal_the_slow_twin(seed, max_leaves):
    *rows, policies = random_problem(seed)
    growth = dataclasses.replace(policies.growth, max_leaves=max_leaves)
    policies = Policies(growth, thresholds="completely_random")
    assert_equals_the_slow_twin((*rows, policies), seed)


@pytest.mark.parametrize("missing", ["learned", "left", "right", "own_child"])
@pytest.mark.parametrize("seed", range(30))
def test_completely_random_trees_do_not_depend_on_the_order_they_grow_in(seed, missing):
    """With directions, though all free, a tree grows best leaf first; without, depth first, left-out rows beside."""
    codes, thresholds, targets, counts, weights, policies = random_problem(2000 + seed)
    if weights is None and counts.max() == 1:
        counts[::3] = 0
    growth = dataclasses.replace(policies.growth, max_leaves=None)
    depth_first = Policies(growth, thresholds="completely_random", missing=missing)
    best_first = dataclasses.replace(depth_first, direction=np.zeros(len(codes), int))
    matrix = matrix_of(codes, thresholds)
    one, other = (
        grow_tree(matrix, targets, each, counts=counts, weights=weights, stream=seed)
        for each in (depth_first, best_first)
    )
    for field in dataclasses.fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
    for row in np.flatnonzero(counts == 0):
        assert one.leaf_of_row[row] == leaf_of_codes(one, codes[:, row])


def leaf_of_codes(tree, codes):
    """The leaf that a row of these codes falls into."""
    node = 0
    while tree.left[node] > 0:
        code = codes[tree.feature[node]]
        known = tree.left[node] if code <= tree.code[node] else tree.right[node]
        node = tree.missing[node] if code == MISSING else known
    return node


def test_completely_random_trees_ask_for_others_only_when_told():
    codes, thresholds, targets, *_ = random_problem(3)
    counts = np.arange(targets.size) % 2
    policies = Policies(Growth(max_leaves=None), thresholds="completely_random")
    tree = grow_tree(
        matrix_of(codes, thresholds), targets, policies, counts=counts, route_others=False
    )
    assert tree.n_leaves > 1
    np.testing.assert_array_equal(tree.leaf_of_row < 0, counts == 0)


@pytest.mark.parametrize("n_codes", [0, 1, 2, 63, 300])
@pytest.mark.parametrize("share_missing", [0.0, 0.3, 1.0])
def test_ranges_of_codes_equal_the_slow_twin(n_codes, share_missing):
    rng = np.random.default_rng(n_codes)
    codes = rng.integers(0, MISSING, n_codes + 5).astype(np.uint8)
    codes[rng.random(codes.size) < share_missing] = MISSING
    weightless = rng.random(codes.size) < 0.3
    rows = np.arange(codes.size, dtype=np.uint32)
    packed_targets = np.where(weightless, 0, 7)
    expected = reference.range_of(codes[:n_codes].tolist())
    assert range_of(codes, n_codes) == expected
    known = [code for code, out in zip(codes.tolist(), weightless, strict=True) if not out]
    expected = reference.range_of(known)
    assert range_of_weighed(codes, codes.size, rows, 0, packed_targets) == expected


@pytest.mark.parametrize("n_rows", [0, 1, 15, 16, 17, 40, 1023, 1024, 1025, 1050, 2100])
@pytest.mark.parametrize("has_counts", [False, True])
@pytest.mark.parametrize("missing_goes_left", [False, True])
def test_rows_are_set_apart_with_their_words(n_rows, has_counts, missing_goes_left):
    """Sixteen at a time where the processor can, else one by one: the same."""
    rng = np.random.default_rng(n_rows)
    column = rng.choice([0, 7, 8, 254, MISSING], 3000).astype(np.uint8)
    rows = rng.permutation(3000)[: n_rows + 5].astype(np.uint32)
    packed_targets = rng.integers(-(2**62), 2**62, rows.size)
    counts = rng.integers(1, 9, rows.size if has_counts else 0)
    codes = column[rows[2 : n_rows + 2]]
    goes_left = (codes <= 7) | ((codes == MISSING) & missing_goes_left)
    order = 2 + np.concatenate([np.flatnonzero(goes_left), np.flatnonzero(~goes_left)])
    n_left = int(goes_left.sum())
    for kernel in (partition.set_apart, partition.set_apart_one_by_one):
        bag = Bag(rows.copy(), packed_targets.copy(), counts.copy())
        aside = Bag(*(np.zeros(n_rows + 4, array.dtype) for array in bag))
        end = 2 + n_rows
        split = (read_only(column), 7, missing_goes_left)
        codes_buffer = np.empty(partition.CODES_AT_ONCE, np.uint8)
        assert kernel(*split, bag, 2, end, aside, 3, codes_buffer) == 2 + n_left
        for given, moved, others in zip((rows, packed_targets, counts), bag, aside, strict=True):
            if given.size:
                assert moved[2 : 2 + n_left].tolist() == given[order[:n_left]].tolist()
                assert others[3 : 3 + n_rows - n_left].tolist() == given[order[n_left:]].tolist()
                assert moved[:2].tolist() == given[:2].tolist()
                assert moved[end:].tolist() == given[end:].tolist()


def assert_equals_the_slow_twin(problem, seed):
    codes, thresholds, targets, counts, weights, policies = problem
    nodes = reference.grow(
        as_reference(codes, thresholds, targets, counts, weights, policies, seed)
    )
    matrix = matrix_of(codes, thresholds)
    # The guess of what is likely to be split: nothing, all that gains anything, some of it.
    for n_threads, likely_gain in (
        (1, np.inf),
        (2, np.inf),
        (1, 0.0),
        (1, 0.5),
        (2, 0.5),
        (1, 5.0),
    ):
        tree = grow_tree(
            matrix,
            targets,
            policies,
            counts=counts,
            weights=weights,
            stream=seed,
            n_threads=n_threads,
            likely_gain=likely_gain,
        )
        assert tree.n_nodes == len(nodes)
        for number, node in enumerate(nodes):
            if node.children:
                assert (tree.feature[number], tree.code[number]) == node.split[1:3]
                assert [tree.left[number], tree.right[number]] == node.children[:2]
            else:
                assert tree.left[number] == 0
                in_bag = (tree.leaf_of_row == number) & (counts > 0)
                assert set(np.flatnonzero(in_bag)) == set(node.rows)


@pytest.mark.parametrize("seed", range(20))
def test_values_are_the_means_of_the_true_targets(seed):
    codes, thresholds, targets, counts, weights, policies = random_problem(1000 + seed)
    policies = dataclasses.replace(policies, direction=None)  # a monotone split may move them
    tree = grow_tree(
        matrix_of(codes, thresholds), targets, policies, counts=counts, weights=weights
    )
    mass = counts * (1.0 if weights is None else weights)
    for leaf in np.flatnonzero(tree.left == 0):
        rows = tree.leaf_of_row == leaf
        total = mass[rows].sum()
        assert tree.cover[leaf] == pytest.approx(total)
        assert tree.value[leaf] == pytest.approx(
            (mass * targets)[rows].sum() / (total + policies.l2)
        )
    inner = np.flatnonzero(tree.left > 0)
    for node in inner:
        children = {tree.left[node], tree.right[node], tree.missing[node]}
        assert tree.cover[node] == pytest.approx(sum(tree.cover[child] for child in children))
        assert all(child > node for child in children)


def simple(codes, targets, **policy):
    codes = np.atleast_2d(codes)
    thresholds = [
        np.arange(max(0, int(column[column < MISSING].max(initial=0))), dtype=np.float32)
        for column in codes
    ]
    return grow_tree(matrix_of(codes, thresholds), np.asarray(targets, float), Policies(**policy))


def test_equal_targets_are_one_leaf():
    tree = simple([[0, 1, 2, 3]], [2, 2, 2, 2])
    assert (tree.n_nodes, tree.value[0]) == (1, 2.0)


def test_a_constant_feature_is_one_leaf():
    tree = simple([[0, 0, 0]], [0, 1, 2])
    assert (tree.n_nodes, tree.value[0]) == (1, 1.0)


def test_one_row():
    tree = simple([[3]], [7])
    assert (tree.n_nodes, tree.value[0], tree.leaf_of_row.tolist()) == (1, 7.0, [0])


def test_more_leaves_than_rows():
    tree = simple([[0, 1, 2, 3]], [0, 5, 1, 9], growth=Growth(max_leaves=1000))
    assert tree.value[tree.leaf_of_row].tolist() == [0, 5, 1, 9]


def test_missing_values_take_the_side_that_fits():
    # targets of the missing rows are like those of the large values
    tree = simple([[0, 0, 1, 1, 255, 255]], [0, 0, 4, 4, 4, 4], growth=Growth(max_leaves=2))
    assert tree.missing[0] == tree.right[0]
    assert tree.value[tree.leaf_of_row].tolist() == [0, 0, 4, 4, 4, 4]


def test_missing_values_can_have_a_child_of_their_own():
    tree = simple(
        [[0, 0, 1, 1, 255, 255]],
        [0, 0, 4, 4, 9, 9],
        growth=Growth(max_leaves=3),
        missing="own_child",
    )
    assert tree.n_leaves == 3
    assert tree.value[tree.leaf_of_row].tolist() == [0, 0, 4, 4, 9, 9]


@pytest.mark.parametrize("side", ["left", "right"])
def test_missing_values_to_come_take_the_side_of_the_rule(side):
    tree = simple([[0, 0, 0, 1]], [0, 0, 0, 1], missing=side)  # nothing is missing in training
    assert tree.missing[0] == getattr(tree, side)[0]


@pytest.mark.parametrize("scale", [1e-130, 1e-30, 1e30, 1e140])
def test_targets_of_any_size_are_split(scale):
    tree = simple([[0, 0, 1, 1]], np.array([0, 0, 1, 1]) * scale)
    assert tree.n_leaves == 2
    assert tree.value[tree.leaf_of_row] == pytest.approx(np.array([0, 0, 1, 1]) * scale)


@pytest.mark.parametrize("size", [5e-324, 2e-300, 1e150])
def test_targets_at_the_ends_of_the_range_are_split(size):
    tree = simple([[0, 0, 1, 1]], [0, 0, size, size])
    assert tree.value.tolist() == [size / 2, 0.0, size]


def test_an_all_missing_column_is_never_split_on():
    tree = simple([[255] * 4, [0, 0, 1, 1]], [0, 0, 1, 1])
    assert tree.feature[0] == 1


@pytest.mark.parametrize("direction", [1, -1])
def test_a_monotone_feature_never_turns(direction):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 30, (2, 800)).astype(np.uint8)
    targets = (
        np.sin(codes[0] / 4)
        + 0.1 * direction * codes[0]
        + codes[1] * 0.05
        + rng.normal(size=800) * 0.3
    )
    tree = simple(codes, targets, growth=Growth(max_leaves=40), direction=np.array([direction, 0]))
    value = tree.value
    for other in range(30):  # every path: the prediction along feature 0, the other feature fixed
        node_values = []
        for code in range(30):
            node = 0
            while tree.left[node]:
                goes_left = (code, other)[tree.feature[node]] <= tree.code[node]
                node = tree.left[node] if goes_left else tree.right[node]
            node_values.append(value[node])
        assert (direction * np.diff(node_values) >= -1e-9).all()


def test_costs_choose_among_features():
    codes = np.array([[0, 0, 1, 1], [0, 0, 1, 1]])
    assert simple(codes, [0, 0, 1, 1]).feature[0] == 0
    assert simple(codes, [0, 0, 1, 1], costs=np.array([0.5, 0.0])).feature[0] == 1
    # The gain is 1: a cost beyond it says which feature is taken, not whether there is a split.
    tree = simple(codes, [0, 0, 1, 1], costs=np.array([5.0, 4.0]))
    assert (tree.feature[0], tree.gain[0]) == (1, 1.0)


def test_a_constraint_tree_looks_at_the_given_features():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 5, (4, 200))
    tree = simple(
        codes,
        rng.normal(size=200),
        growth=Growth(max_depth=2, max_leaves=None),
        features=FeatureChoice(1, given=(2, 0, 3)),
    )
    assert tree.feature[0] == 2
    assert tree.feature[tree.left[0]] == 0
    assert tree.feature[tree.right[0]] == 3


def test_features_are_drawn_by_their_probabilities():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 5, (3, 100))
    matrix = matrix_of(codes, [np.arange(4)] * 3)
    choice = FeatureChoice(1, probability=np.array([0.7, 0.3, 0.0]))
    roots = [
        grow_tree(
            matrix, rng.normal(size=100), Policies(Growth(max_leaves=2), choice), stream=stream
        ).feature[0]
        for stream in range(400)
    ]
    shares = np.bincount(roots, minlength=3) / 400
    assert shares[2] == 0
    assert shares[0] == pytest.approx(0.7, abs=0.08)  # three standard errors are 0.07


def test_drawn_features_are_uniform():
    rng = np.random.default_rng(3)
    matrix = matrix_of(rng.integers(0, 5, (4, 50)), [np.arange(4)] * 4)
    targets = rng.normal(size=50)
    policies = Policies(Growth(max_leaves=2), FeatureChoice(1))
    roots = [
        grow_tree(matrix, targets, policies, stream=stream).feature[0] for stream in range(800)
    ]
    assert np.bincount(roots, minlength=4) / 800 == pytest.approx(0.25, abs=0.06)


def test_completely_random_trees_do_not_look_at_targets():
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 9, (5, 300))
    matrix = matrix_of(codes, [np.arange(8)] * 5)
    policies = Policies(Growth(max_leaves=50, min_leaf=3), thresholds="completely_random")
    one, other = (grow_tree(matrix, rng.normal(size=300), policies, stream=9) for _ in range(2))
    np.testing.assert_array_equal(one.feature, other.feature)
    np.testing.assert_array_equal(one.code, other.code)
    assert one.n_leaves > 30


def test_the_last_gain_is_that_of_the_split_that_was_made_last():
    codes = np.arange(8, dtype=np.uint8)[None]
    matrix = matrix_of(codes, [np.arange(7)])
    targets = np.array([0.0, 0, 0, 0, 10, 10, 10, 13])  # the root first, then 13 apart from the 10s
    tree = grow_tree(matrix, targets, Policies(Growth(max_leaves=3)))
    assert tree.last_gain == pytest.approx(
        3 * 1 / 4 * 3**2
    )  # n m / (n + m) times the distance squared
    assert grow_tree(matrix, np.ones(8), Policies()).last_gain == 0.0


def test_sums_at_the_limit_do_not_overflow():
    """All rows at the largest target: the packed sum is as large as it can get, and still exact."""
    for n_rows in (1, 2, 3, 1000, 65_537):
        for largest in (1e-30, 1.0, 3.0, 1e30):
            targets = np.full(n_rows, largest)
            targets[0] = -largest
            packed = pack(targets, np.ones(n_rows, np.int64), centre=False)
            exact = sum(int(word) for word in packed.values)
            assert int(packed.values.sum()) == exact
            assert abs(exact) < 2**63
            assert exact & ((1 << packed.units.bits) - 1) == n_rows


def test_small_whole_targets_stay_exact():
    targets = np.array([0.0, 1, 2, 3, 4] * 100)
    packed = pack(targets, np.ones(500, np.int64))
    units = packed.units
    back = (packed.values >> units.bits) / units.target_unit + units.shift
    np.testing.assert_array_equal(back, targets)


def assert_same_tree(one, other):
    for each in dataclasses.fields(Tree):
        assert getattr(one, each.name).tobytes() == getattr(other, each.name).tobytes(), each.name


@pytest.mark.parametrize("least_shared", [0, 10_000])  # all leaves, or the larger ones
def test_trees_are_the_same_bytes_for_any_number_of_threads_and_any_guess(
    least_shared, monkeypatch
):
    monkeypatch.setattr(grower, "_LEAST_SHARED", least_shared)
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 200, (23, 2000)).astype(np.uint8)
    matrix = matrix_of(codes, [np.arange(199)] * 23)
    targets = rng.normal(size=2000)
    for policies in (
        Policies(Growth(max_leaves=40)),
        Policies(Growth(max_leaves=40), FeatureChoice(0.3)),
    ):
        trees = [
            grow_tree(matrix, targets, policies, n_threads=n_threads) for n_threads in (1, 2, 8, 1)
        ]
        last = trees[0].last_gain
        trees += [
            grow_tree(matrix, targets, policies, likely_gain=share * last)
            for share in (0.0, 0.5, 1.0, 1.1, 3.0)
        ]
        for tree in trees[1:]:
            assert_same_tree(tree, trees[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Growth(max_leaves=0), "max_leaves must be a whole number of at least 1, got 0"),
        (lambda: Growth(min_leaf=0), "min_leaf"),
        (lambda: Growth(min_split=0), "min_split"),
        (lambda: Growth(max_depth=-1), "max_depth"),
        (lambda: Growth(min_gain=float("nan")), "min_gain"),
        (lambda: Growth(min_weight=-1.0), "min_weight"),
        (lambda: Policies(thresholds="bset"), "Did you mean 'best'"),
        (lambda: Policies(missing="lft"), "Did you mean 'left'"),
        (lambda: Policies(l2=-1.0), "l2"),
        (lambda: FeatureChoice(0).count(5), "features_per_node"),
        (lambda: FeatureChoice(1.5).count(5), "features_per_node"),
        (
            lambda: Policies(costs=np.array([-1.0])).candidates(1, 1.0),
            "costs must be finite and not negative",
        ),
        (lambda: Policies(costs=np.ones(2)).candidates(1, 1.0), "costs has 2 values"),
        (
            lambda: Policies(features=FeatureChoice(given=(7,))).candidates(3, 1.0),
            "between 0 and 2",
        ),
    ],
)
def test_a_wrong_policy_is_named(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def test_rows_that_weigh_nothing_do_not_hide_what_the_others_differ_in():
    data = matrix_of([[0, 1, 2, 2]], [[0.5, 1.5]])
    weights, targets = np.array([0.0, 1.0, 1.0, 2.0]), np.array([7.0, 0.0, 1.0, 1.0])
    tree = grow_tree(data, targets, Policies(Growth(min_leaf=1)), weights=weights)
    assert tree.n_leaves == 2
    assert tree.code[0] == 1
    assert tree.value[1:].tolist() == [0.0, 1.0]


def test_rows_that_weigh_nothing_count_as_rows_of_a_leaf():
    # After code 1 there are four rows on the left, two of them without weight, and three on the right.
    data = matrix_of([[0, 0, 1, 1, 2, 2, 2]], [[0.5, 1.5]])
    weights, targets = np.array([0, 0, 1, 1, 1, 1, 1.0]), np.array([9, 9, 0, 0, 1, 1, 1.0])
    for min_leaf, n_leaves in ((3, 2), (4, 1)):
        policies = Policies(Growth(min_leaf=min_leaf))
        assert grow_tree(data, targets, policies, weights=weights).n_leaves == n_leaves
