"""Where the definitions coincide, our LambdaMART grows the trees of LightGBM's lambdarank.

They coincide when
- every value has a bin of its own on both sides (fewer than 255 distinct values, ``min_data_in_bin=1``, no bundles);
- queries are no longer than the truncation: LightGBM cuts its best DCG there, we only where the measure has a cut-off;
- rows in a leaf do not matter (0 there, 1 here): LightGBM estimates them from hessians, we count them;
- l2 is 0, or a tree has one split: LightGBM gives up a feature below a node where it gains nothing, as it may with l2;
- the gain is 2^label - 1, the discount 1 / log2(rank + 1), and scores begin at 0 (both sides' defaults).

Sums differ in the last digits: LightGBM's are single precision, and its sigmoid comes from a table.
"""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw

lightgbm = pytest.importorskip("lightgbm")

N_TREES = 3


def problem(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, 60)
    features = rng.integers(0, 60, (sizes.sum(), 5)).astype(np.float32)
    labels = np.clip(np.round(features[:, 0] / 20 + rng.normal(size=len(features))), 0, 4)
    return rw.RankingData(features, labels, np.repeat(np.arange(60), sizes))


def theirs(data, weights=None, **settings):
    settings = {
        "objective": "lambdarank",
        "lambdarank_truncation_level": 30,
        "min_data_in_leaf": 0,
        "min_data_in_bin": 1,
        "max_bin": 255,
        "enable_bundle": False,
        "deterministic": True,
        "num_threads": 1,
        "verbosity": -1,
        **settings,
    }
    group = np.diff(data.query_offsets)
    rows = lightgbm.Dataset(
        data.features, data.labels, weight=weights, group=group, params=settings
    )
    return lightgbm.train(settings, rows, N_TREES)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("max_leaves", "l2"), [(7, 0.0), (2, 0.5)])
def test_trees_and_scores_are_lightgbms(seed, normalise, max_leaves, l2):
    data = problem(seed)
    options = {"max_leaves": max_leaves, "learning_rate": 0.2, "min_hessian": 0.05, "l2": l2}
    model = rw.LambdaMART(N_TREES, min_leaf=1, normalise=normalise, **options).fit(data)
    peer = theirs(
        data,
        num_leaves=max_leaves,
        learning_rate=0.2,
        min_sum_hessian_in_leaf=0.05,
        lambda_l2=l2,
        lambdarank_norm=normalise,
    )
    ours = model.forest_.leaf_ids(data)
    leaves = peer.predict(data.features, pred_leaf=True)
    for tree in range(N_TREES):  # the same rows in the same leaves
        pairs = set(zip(ours[:, tree].tolist(), leaves[:, tree].tolist(), strict=True))
        assert len(pairs) == len(set(leaves[:, tree].tolist())) == len(set(ours[:, tree].tolist()))
    np.testing.assert_allclose(model.predict(data), peer.predict(data.features), atol=2e-5)


def test_truncation_takes_the_same_pairs():
    # One label per query but for one document: the best DCG is that of rank 1 on both sides.
    rng = np.random.default_rng(3)
    features = rng.integers(0, 60, (60 * 20, 4)).astype(np.float32)
    labels = np.zeros((60, 20))
    labels[np.arange(60), rng.integers(0, 20, 60)] = 1.0
    data = rw.RankingData(features, labels.ravel(), np.repeat(np.arange(60), 20))
    model = rw.LambdaMART(N_TREES, min_leaf=1, max_leaves=4, truncation=5, l2=0.0).fit(data)
    peer = theirs(data, num_leaves=4, lambdarank_truncation_level=5)
    np.testing.assert_allclose(model.predict(data), peer.predict(features), atol=2e-5)
    whole = rw.LambdaMART(N_TREES, min_leaf=1, max_leaves=4, l2=0.0).fit(data)
    assert np.abs(whole.predict(data) - model.predict(data)).max() > 1e-3


def test_weights_multiply_as_lightgbms():
    data = problem(11)
    weights = np.linspace(0.5, 2.0, len(data))
    model = rw.LambdaMART(N_TREES, min_leaf=1, max_leaves=5, l2=0.0).fit(
        data, sample_weight=weights
    )
    settings = {
        "objective": "lambdarank",
        "num_leaves": 5,
        "min_data_in_leaf": 0,
        "min_data_in_bin": 1,
        "verbosity": -1,
        "num_threads": 1,
    }
    group = np.diff(data.query_offsets)
    rows = lightgbm.Dataset(
        data.features, data.labels, group=group, weight=weights, params=settings
    )
    peer = lightgbm.train(settings, rows, N_TREES)
    np.testing.assert_allclose(model.predict(data), peer.predict(data.features), atol=2e-5)
