"""What linear rankers have in common beside the contract: the order of queries, importances."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw

KINDS = [rw.AdaRank, rw.RankSVM]


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 10, 5, seed=3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_queries_makes_no_difference(kind, data):
    turned = data.take_queries(np.arange(data.n_queries)[::-1])
    measure = "ndcg@10[ties=average]"  # the order of tied documents is drawn row by row
    one, other = kind(measure=measure).fit(data), kind(measure=measure).fit(turned)
    np.testing.assert_allclose(one.linear_.weights, other.linear_.weights, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_importances_are_shares(kind, data):
    model = kind().fit(data)
    parts = np.abs(model.linear_.weights) * data.features.astype(np.float64).std(axis=0)
    np.testing.assert_allclose(model.feature_importances_, parts / parts.sum(), rtol=1e-9)
