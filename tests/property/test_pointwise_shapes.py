"""The shapes of Mohan (2010) on small generated data; ``benchmarks/shapes_pointwise.py`` shows them at size."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw

TIED = 0.005  # of NDCG@10, a mean over 48 test queries of each seed


def parts_of(seed):
    data = rw.make_ranking(120, 25, 10, seed=seed)
    train, test = rw.split_queries(data, (0.6, 0.4), seed=seed)
    return rw.bin(train), test


@pytest.mark.slow  # out-of-bag estimates of fewer trees are too rough to start from
def test_boosting_from_a_forest_beats_the_forest_and_boosting():
    errors = {"forest": [], "boosting": [], "initialized": []}
    for seed in (10, 11, 12, 13):
        train, test = parts_of(seed)
        forest = {"forest_trees": 100, "forest_leaves": 30}
        models = {
            "forest": rw.RandomForest(100, max_leaves=30, seed=seed),
            "boosting": rw.GBRT(50, 8, 0.1, features_per_node=None),
            "initialized": rw.InitializedGBRT(10, max_leaves=8, seed=seed, **forest),
        }
        for name, model in models.items():
            scores = model.fit(train).predict(test)
            errors[name].append(np.sqrt(np.mean((scores - test.labels) ** 2)))
    means = {name: np.mean(values) for name, values in errors.items()}
    assert means["initialized"] < means["forest"]
    assert means["initialized"] < means["boosting"]


@pytest.mark.jit_only
def test_expected_relevance_is_the_best_scoring_function_or_tied():
    values = {scoring: [] for scoring in ("expected", "squared", "exponential")}
    for seed in (20, 21, 22, 23):
        train, test = parts_of(seed)
        for scoring, of_scoring in values.items():
            model = rw.OrdinalRanker(rw.RandomForest(20, 100, seed=seed), scoring=scoring)
            of_scoring.append(model.fit(train).score(test))
    means = {scoring: np.mean(of_scoring) for scoring, of_scoring in values.items()}
    assert means["expected"] >= max(means.values()) - TIED


@pytest.mark.jit_only
def test_averaging_runs_lowers_the_error():
    errors = []
    for seed in (30, 31, 32):
        train, test = parts_of(seed)
        for n_runs in (1, 8):
            model = rw.AveragedGBRT(20, n_runs, max_leaves=8, learning_rate=0.3, seed=seed)
            scores = model.fit(train).predict(test)
            errors.append(np.sqrt(np.mean((scores - test.labels) ** 2)))
    assert np.mean(errors[1::2]) < np.mean(errors[0::2])
