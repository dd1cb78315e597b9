"""Contributions equal to LightGBM's ``pred_contrib`` on the same trees."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw
from benchmarks.bench_scoring import convert
from rankwood.models.shapley import contributions

lightgbm = pytest.importorskip("lightgbm")


@pytest.mark.parametrize("boosting", ["gbdt", "rf"])
@pytest.mark.parametrize("num_leaves", [4, 40])
def test_the_same_trees_give_the_same_contributions(num_leaves, boosting, rng):
    data = rw.make_ranking(40, 25, 12, seed=5)
    features = np.array(data.features)
    features[rng.random(features.shape) < 0.1] = np.nan
    parameters = {
        "objective": "regression",
        "num_leaves": num_leaves,
        "min_data_in_leaf": 5,
        "verbose": -1,
        "num_threads": 1,
        "boosting": boosting,
    }
    if boosting == "rf":
        parameters |= {"bagging_fraction": 0.7, "bagging_freq": 1}
    booster = lightgbm.train(parameters, lightgbm.Dataset(features, data.labels), 12)
    with np.errstate(over="ignore"):  # a split of all values from none has the threshold 1e300
        forest = convert(booster)
    values, base = contributions(forest, features)
    # LightGBM divides the scores of a forest by the number of trees, but not its contributions: sums on both sides.
    expected = booster.predict(features, pred_contrib=True)
    np.testing.assert_allclose(values, expected[:, :-1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(base, expected[:, -1], rtol=0, atol=1e-12)
