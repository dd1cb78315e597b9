"""Where the definitions coincide, l1, groups of features, start scores and dropout are LightGBM's.

Every value has a bin of its own on both sides, and rows in a leaf do not matter, as in ``test_lightgbm_lambdarank``.
Dropout coincides where nothing is drawn: every round leaves all trees out.
"""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw
from tests.parity.test_lightgbm_lambdarank import problem

lightgbm = pytest.importorskip("lightgbm")

N_TREES = 4
OURS = {
    "max_leaves": 6,
    "learning_rate": 0.2,
    "min_leaf": 1,
    "l2": 0.0,
    "features_per_node": None,
}
THEIRS = {
    "num_leaves": 6,
    "learning_rate": 0.2,
    "min_data_in_leaf": 0,
    "min_data_in_bin": 1,
    "max_bin": 255,
    "enable_bundle": False,
    "deterministic": True,
    "num_threads": 1,
    "verbosity": -1,
}


def their_model(data, objective, init=None, **settings):
    settings = {**THEIRS, "objective": objective, **settings}
    rows = lightgbm.Dataset(
        data.features,
        data.labels,
        group=np.diff(data.query_offsets),
        init_score=init,
        params=settings,
    )
    return lightgbm.train(settings, rows, N_TREES)


def assert_same_trees(model, peer, data):
    ours, leaves = model.leaf_ids(data), peer.predict(data.features, pred_leaf=True)
    for tree in range(N_TREES):  # the same rows in the same leaves
        pairs = set(zip(ours[:, tree].tolist(), leaves[:, tree].tolist(), strict=True))
        assert len(pairs) == len(set(leaves[:, tree].tolist())) == len(set(ours[:, tree].tolist()))
    np.testing.assert_allclose(model.predict(data), peer.predict(data.features), atol=2e-4)


def both(objective):
    """Our ranker for an objective, and what makes LightGBM start where it does."""
    if objective == "lambdarank":
        lambdas = {"min_sum_hessian_in_leaf": 0.05, "lambdarank_truncation_level": 30}
        return lambda **given: rw.LambdaMART(N_TREES, min_hessian=0.05, **OURS | given), lambdas
    plain = {"min_sum_hessian_in_leaf": 0.0, "boost_from_average": False}
    return lambda **given: rw.GBRT(N_TREES, start="zero", **OURS | given), plain


OBJECTIVES = pytest.mark.parametrize("objective", ["lambdarank", "regression"])


@OBJECTIVES
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("l1", "max_leaves"), [(0.3, 6), (2.0, 2)])  # one split, as with l2
def test_l1(seed, objective, l1, max_leaves):
    data = problem(seed)
    make, settings = both(objective)
    model = make(l1=l1, max_leaves=max_leaves).fit(data)
    settings |= {"num_leaves": max_leaves, "lambda_l1": l1}
    assert_same_trees(model, their_model(data, objective, **settings), data)
    assert (make(max_leaves=max_leaves).fit(data).predict(data) != model.predict(data)).any()


@OBJECTIVES
@pytest.mark.parametrize("seed", range(4))
def test_groups_of_features(seed, objective):
    data = problem(seed)
    make, settings = both(objective)
    groups = [[0, 1], [1, 2, 3], [4]]
    model = make(interactions=groups).fit(data)
    peer = their_model(data, objective, interaction_constraints=groups, **settings)
    assert_same_trees(model, peer, data)
    free = make().fit(data)
    assert (free.predict(data) != model.predict(data)).any()


@OBJECTIVES
@pytest.mark.parametrize("seed", range(3))
def test_start_scores_are_no_part_of_the_model(seed, objective):
    data = problem(seed)
    init = np.random.default_rng(seed).normal(size=len(data)).astype(np.float32)
    make, settings = both(objective)
    model = make().fit(data, init_scores=init)
    assert_same_trees(model, their_model(data, objective, init=init, **settings), data)


@OBJECTIVES
@pytest.mark.parametrize("seed", range(3))
def test_dropout_of_all_trees(seed, objective):
    data = problem(seed)
    # Without start scores documents are tied when all trees are left out, but not in LightGBM, whose sums are rounded.
    init = np.random.default_rng(seed).normal(size=len(data)).astype(np.float32)
    make, settings = both(objective)
    model = make(dropout=1.0).fit(data, init_scores=init)
    dart = {"boosting": "dart", "drop_rate": 1.0, "skip_drop": 0.0, "max_drop": -1}
    peer = their_model(data, objective, init=init, uniform_drop=True, **dart, **settings)
    assert_same_trees(model, peer, data)
    # The k-th tree has the weight learning_rate / k when it comes, and (k / (k + 1)) of it after the next.
    np.testing.assert_allclose(model.forest_.tree_weights, 0.2 / N_TREES)
