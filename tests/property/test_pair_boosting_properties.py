"""What holds for boosting on pairs, whatever the data."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import rankwood as rw
from rankwood.losses.pairs import PairLoss, graded_lists, ndcgboost_loss
from tests.property.test_ensemble_properties import problems, weighted_problems
from tests.reference import pair_losses as slow

KINDS = [rw.RankBoost, lambda *rounds, **options: rw.NDCGBoost(*rounds, min_leaf=1, **options)]


def has_pairs(data, weights=None) -> bool:
    pairs = slow.listed_pairs(data.labels, data.query_ids)
    return any(weights is None or weights[i] * weights[j] > 0 for _, i, j in pairs)


@pytest.mark.parametrize("kind", KINDS, ids=["RankBoost", "NDCGBoost"])
@given(problem=weighted_problems())
def test_nasty_data_give_a_model_for_any_number_of_threads(kind, problem):
    data, weights = problem
    assume(has_pairs(data, weights))
    models = [kind(4, n_threads=n).fit(data, sample_weight=weights) for n in (1, 2)]
    assert models[0].forest_ == models[1].forest_
    assert np.isfinite(models[0].predict(data)).all()


@given(problem=problems())
def test_both_losses_fall_round_by_round(problem):
    assume(has_pairs(problem))
    lists = graded_lists(problem, 1)
    model = rw.NDCGBoost(5, min_leaf=1).fit(problem)
    losses = [
        (rw.RankBoost(5).fit(problem), PairLoss(lists)),
        (model, ndcgboost_loss(lists, "exponential")),
    ]
    for model, loss in losses:
        scores = [
            model.forest_.predict(problem, first_trees=n) for n in range(model.forest_.n_trees + 1)
        ]
        values = [loss.value(each) for each in scores]
        assert all(later <= earlier for earlier, later in itertools.pairwise(values))


@given(problem=problems(), seed=st.integers(0, 100))
def test_potentials_equal_listed_pairs(problem, seed):
    assume(has_pairs(problem))
    scores = np.random.default_rng(seed).normal(0, 5, len(problem))
    ones = (np.ones(len(problem)), np.ones(problem.n_queries))
    found = PairLoss(graded_lists(problem, 1)).potentials(scores)
    expected = slow.potentials(problem.labels, problem.query_ids, scores, *ones)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)
