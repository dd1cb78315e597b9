"""Shapes at the edges: many features on few rows, few features on many rows."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw


@pytest.mark.slow
@pytest.mark.jit_only
def test_two_features_on_five_million_rows():
    rng = np.random.default_rng(0)
    features = rng.random((5_000_000, 2), dtype=np.float32)
    labels = np.floor(features[:, 0] * 5)
    data = rw.RankingData(features, labels, np.repeat(np.arange(50_000), 100))
    model = rw.RandomForest(n_trees=2, max_leaves=16, features_per_node=None).fit(data)
    assert rw.evaluate(model, data, "ndcg@10")["ndcg@10"].value > 0.99
    boosted = rw.GBRT(n_trees=3, max_leaves=8, learning_rate=0.5).fit(data)
    assert np.corrcoef(boosted.predict(data), labels)[0, 1] > 0.95
