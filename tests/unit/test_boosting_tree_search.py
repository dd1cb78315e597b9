"""The search itself: selection against a scan over c, the loop against its slow twin, and the paper's bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwood.rankers.search.tree_search import RAN_OUT, Models, boosting_tree, upper_corners
from tests.reference import boosting_tree as reference


def made_up(seed, rise=0.1, fails=0.0):
    """A function (model, place) → f of the new model, or None; it depends on nothing else."""

    def fit(model, place):
        random = np.random.default_rng([seed, model, place])
        if random.random() < fails:
            return None
        return round(float(random.normal(rise * math.sqrt(model + 1), 0.3)), 2)  # ties happen

    return fit


def run(fit, n_constraints, budget, **limits):
    """The search on made-up models; what it says at the end of each round."""
    models = Models(n_constraints, **limits)
    models.add(-1, 0.0)
    rounds, log = [], []

    def at_end_of_round():
        rounds.append((models.n_rounds, len(models) - 1, models.depth[models.leader]))

    for model in boosting_tree(models, at_end_of_round):
        if len(log) >= budget:
            return models, rounds, "spent"
        f = fit(model, models.tried[model])
        models.use_constraint(model, f is not None)
        log.append(model)
        if f is not None:
            models.add(model, f)
    return models, rounds, RAN_OUT


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(-8, 8)), min_size=1, max_size=12, unique=True
    )
)
@settings(max_examples=25, deadline=None)
def test_corners_are_what_is_best_for_some_c(points):
    best = {}
    for n, y in points:  # one per n: the highest
        best[n] = max(best.get(n, -99), y)
    hull = [(math.exp(-n / 3.0), y / 4.0, n) for n, y in sorted(best.items())]
    expected = {hull[place][2] for place in reference.maximal_for_some_c([p[:2] for p in hull])}
    assert {model for _, _, model in upper_corners(hull)} == expected
    # and by trying many c, which can only miss corners whose range of c is narrow
    for c in np.geomspace(1e-4, 1e4, 200):
        values = [y + c * x for x, y, _ in hull]
        winners = [place for place, value in enumerate(values) if value == max(values)]
        if len(winners) == 1:
            assert hull[winners[0]][2] in expected


def test_points_on_a_line_are_no_corners():
    line = [(3.0, 0.0, 0), (2.0, 1.0, 1), (1.0, 2.0, 2)]
    assert [model for _, _, model in upper_corners(line)] == [0, 2]
    flat = [(3.0, 1.0, 0), (2.0, 1.0, 1), (1.0, 0.5, 2)]
    assert [model for _, _, model in upper_corners(flat)] == [0]  # the others are best for no c > 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_constraints", [1, 2, 3, None])
@pytest.mark.parametrize("fails", [0.0, 0.3])
def test_the_search_equals_its_slow_twin(seed, n_constraints, fails):
    fit = made_up(seed, fails=fails)
    models, rounds, _ = run(fit, n_constraints, 60)
    expected, expected_rounds = reference.search(0.0, fit, n_constraints, 60)
    assert models.parent == [model.parent for model in expected]
    assert models.best == [model.f_hat for model in expected]
    assert models.tried == [model.tried for model in expected]
    assert models.round_of_model == [model.round for model in expected]
    assert rounds == [entry[:3] for entry in expected_rounds]


LIMITS = (
    {"exponent": 0.0},
    {"exponent": 0.3},
    {"exponent": 1.0},
    {"max_length": 1},
    {"max_length": 4},
    {"exponent": 0.7, "max_length": 6},
)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("n_constraints", [2, None])
def test_exponent_and_cap_are_those_of_the_slow_twin(limits, n_constraints):
    fit = made_up(2, fails=0.2)
    models, rounds, _ = run(fit, n_constraints, 80, **limits)
    expected, expected_rounds = reference.search(0.0, fit, n_constraints, 80, **limits)
    assert models.parent == [model.parent for model in expected]
    assert models.tried == [model.tried for model in expected]
    assert rounds == [entry[:3] for entry in expected_rounds]
    assert max(models.depth) <= limits.get("max_length", 80)


def test_a_model_that_fails_a_hundred_times_is_given_up():
    # The empty model and the first below it allow hypotheses, the others none, whatever the constraint.
    def fit(model, place):
        return 0.5 - 0.1 * place if model < 2 and place < 3 else None

    models, _, reason = run(fit, None, 10_000)
    assert reason == RAN_OUT
    assert len(models) == 7
    assert models.tried == [103, 103] + [100] * 5


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n_constraints", [2, 3, 5, None])
def test_the_depth_of_the_leader_is_bounded_after_every_round(seed, n_constraints):
    # Theorem 2 of the paper, with step (c) as we read it; not where a leader has run out of constraints.
    fit = made_up(seed, rise=0.02)
    _, rounds, _ = run(fit, n_constraints, 400)
    _, expected = reference.search(0.0, fit, n_constraints, 400)
    checked = 0
    for (number, n_hypotheses, depth), (*_, ran_out) in zip(rounds, expected, strict=True):
        if ran_out:
            break
        assert number <= depth < 2 * number
        assert depth >= (math.sqrt(2 * n_hypotheses + 7) - 1) / 2
        checked += 1
    assert checked >= 3


def test_constraints_run_out():
    # One constraint per model that works for the empty model only: two attempts, and nothing is left.
    def fit(model, place):
        return 0.5 if model == 0 else None

    models, _, reason = run(fit, 1, 100)
    assert reason == RAN_OUT
    assert len(models) == 2
    assert models.tried == [1, 1]
    assert models.corners() == []


def test_a_measure_that_never_improves_still_ends_rounds():
    models, rounds, reason = run(lambda *_: -1.0, None, 50)
    assert reason == "spent"
    assert max(models.best) == 0.0  # f̂ is the empty model's everywhere
    assert len(rounds) >= 3
    assert models.leader != 0  # of equal f̂ the deepest leads


def test_the_least_length_is_always_extended():
    models, _, _ = run(made_up(3), 3, 200)
    for _ in range(5):
        lengths = [
            models.depth[model] + models.tried[model]
            for model in range(len(models))
            if models.is_active(model)
        ]
        first = models.corners()[0]
        assert models.depth[first] + models.tried[first] == min(lengths)
        models.use_constraint(first)
