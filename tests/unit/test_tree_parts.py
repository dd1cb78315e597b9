"""Trees whose rows lie in parts: the bytes of ``grow_tree``, whatever the division and whoever searches what."""

from __future__ import annotations

import numpy as np
import pytest

from rankwood._core.sums import merged
from rankwood.trees.grower import Growth, Policies, grow_tree
from rankwood.trees.leader import TreeLeader, grow_together
from rankwood.trees.packing import DrawnRows, choose_units
from rankwood.trees.parts import PartTree, TreePlan, without_rows
from tests.reference.parts import deal, hold_in_parts
from tests.unit.test_trees import assert_same_tree, limited_problem, matrix_of, random_problem


class Counting(TreeLeader):
    """A leader that counts its steps, and how often it has rows of next best candidates counted."""

    n_steps = -1  # the last call finds the tree complete
    n_counted = 0

    def receive_best_counts(self, answers):
        wanted = {tuple(pair) for pair in self.counts_wanted().tolist()}
        assert wanted <= {tuple(pair) for pair in answers[0][0].tolist()}
        super().receive_best_counts(answers)
        left = {tuple(pair) for pair in self.counts_wanted().tolist()}
        assert not left & wanted
        self.n_counted += len(left) > 0

    def next_splits(self):
        self.n_steps += 1
        return super().next_splits()


def grown_in_parts(parts, held, policies, counts, stream, reaches_all=True):
    """A tree grown by parts that exchange what the growing asks for, without anything between them."""
    drawn = [DrawnRows.of(p.share(counts), whole) for p, whole in zip(parts, held, strict=True)]
    scales = held[0].scales
    units = choose_units(scales, merged([rows.sizes() for rows in drawn]))
    plan = TreePlan(policies, stream, units, scales)
    trees = [
        PartTree(part.matrix, plan, rows, index, len(parts))
        for index, (part, rows) in enumerate(zip(parts, drawn, strict=True))
    ]
    leader = Counting(without_rows(parts[0].matrix), plan)
    whole = grow_together(leader, trees, reaches_all=reaches_all)
    leaf_of_row = np.empty(counts.size, np.int32)
    for part, grown in zip(parts, trees, strict=True):
        leaf_of_row[part.numbers] = grown.leaf_of_source
    return type(whole)(**{**vars(whole), "leaf_of_row": leaf_of_row}), leader


def same_in_parts(matrix, targets, policies, counts, weights, stream, n_parts_tried, **options):
    whole = grow_tree(matrix, targets, policies, counts=counts, weights=weights, stream=stream)
    rng = np.random.default_rng(stream)
    centre = policies.lets_shift
    for n_parts in n_parts_tried:
        parts = deal(matrix, rng.integers(0, n_parts, targets.size), n_parts, stream)
        held = hold_in_parts(parts, targets, weights, counts > 0, int(counts.sum()), centre)
        tree, leader = grown_in_parts(parts, held, policies, counts, stream, **options)
        assert_same_tree(tree, whole)
    return whole, leader


@pytest.mark.parametrize("seed", range(60))
def test_a_tree_grown_in_parts_has_the_same_bytes(seed):
    codes, thresholds, targets, counts, weights, policies = random_problem(seed)
    matrix, counts = matrix_of(codes, thresholds), counts.astype(np.int32)
    same_in_parts(matrix, targets, policies, counts, weights, seed, (1, 2, 3, 7))


@pytest.mark.parametrize("seed", range(200, 230))
def test_trees_with_l1_and_limited_features_too(seed):
    codes, thresholds, targets, counts, weights, policies = limited_problem(seed)
    matrix, counts = matrix_of(codes, thresholds), counts.astype(np.int32)
    same_in_parts(matrix, targets, policies, counts, weights, seed, (1, 3))


@pytest.mark.parametrize("options", [{}, {"max_leaves": 20}, {"min_leaf": 4}])
@pytest.mark.parametrize("missing", ["learned", "right"])
@pytest.mark.parametrize("has_weights", [False, True])
def test_completely_random_trees_too(options, missing, has_weights, rng):
    n_rows = 150
    codes = rng.integers(0, 20, (5, n_rows)).astype(np.uint8)
    codes[rng.random(codes.shape) < 0.1] = 255
    matrix = matrix_of(codes, [np.arange(19)] * 5)
    targets, weights = rng.normal(size=n_rows), rng.random(n_rows) if has_weights else None
    counts = np.bincount(rng.integers(0, n_rows, n_rows), minlength=n_rows).astype(np.int32)
    growth = Growth(**({"max_leaves": None} | options))
    policies = Policies(growth, thresholds="completely_random", missing=missing)
    same_in_parts(matrix, targets, policies, counts, weights, 5, (1, 3))


def test_a_tree_takes_few_steps(rng):
    n_rows = 3000
    codes = rng.integers(0, 200, (8, n_rows)).astype(np.uint8)
    matrix = matrix_of(codes, [np.arange(199)] * 8)
    targets = np.sin(codes[0] / 30.0) * codes[1] + rng.normal(size=n_rows) * 20
    everything = np.ones(n_rows, np.int32)
    growth = Growth(max_leaves=31, min_leaf=20)
    for weights in (None, rng.random(n_rows)):
        policies = Policies(growth)
        given = (matrix, targets, policies, everything, weights, 0)
        tree, leader = same_in_parts(*given, (2,))
        assert tree.n_leaves == 31
        assert leader.n_steps <= 15
        assert leader.n_counted < leader.n_steps  # mostly the first counts suffice
