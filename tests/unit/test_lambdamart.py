"""LambdaMART: what it learns, its leaves, sampling, weights, losses of the user's own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import clone

import rankwood as rw
from rankwood.engines.bags import Bags
from rankwood.errors import DataError, ParameterError
from rankwood.losses.lambdarank import LambdaRank


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(60, 15, 8, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(30, 15, 8, seed=4)


def lambdamart(n_trees=10, **options):
    return rw.LambdaMART(n_trees, **{"max_leaves": 8, "min_leaf": 3, **options})


def mean(model, data, measure, n_trees=None) -> float:
    scores = model.forest_.predict(data, first_trees=n_trees)
    return rw.evaluate(scores, data, measure, n_bootstrap=0)[measure].value


@pytest.mark.parametrize("target", ["ndcg", "ndcg@5", "map", "mrr", "err"])
@pytest.mark.parametrize("normalise", [True, False])
def test_training_raises_the_target(target, normalise, data):
    model = lambdamart(20, target=target, normalise=normalise).fit(data)
    values = [mean(model, data, target, n_trees) for n_trees in (0, 5, 20)]
    assert values[0] + 0.05 < values[1] < values[2]


def test_pairs_teach_the_order_and_not_the_labels(data):
    # Labels of every second query are raised by 7: a point-wise method must learn that, pairs see hardly anything of it.
    is_raised = data.query_of_row % 2 == 0
    raised = rw.RankingData(data.features, data.labels + 7 * is_raised, data.query_ids)
    models = {kind: kind(8, max_leaves=8, min_leaf=3) for kind in (rw.LambdaMART, rw.GBRT)}
    models[rw.LambdaMART].set_params(target="ndcg[gain=linear]")
    lost = {}
    for kind, model in models.items():
        before = model.fit(data).score(data)
        lost[kind] = before - mean(model.fit(raised), data, "ndcg@10")
    assert lost[rw.LambdaMART] < lost[rw.GBRT] / 2


@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_a_leaf_is_newtons_step(l2, data):
    model = lambdamart(3, l2=l2, subsample=0.7).fit(data)
    before = model.forest_.take_trees(slice(0, 2)).predict(data)
    gradient, hessian = LambdaRank(data).gradients(before)
    drawn = Bags(data.n_documents, share=0.7, replacement=False).counts(2) > 0
    last = model.forest_.take_trees([2])
    leaves = last.leaf_ids(data)[:, 0]
    for leaf in np.unique(leaves):
        inside = (leaves == leaf) & drawn
        step = -gradient[inside].sum() / (hessian[inside].sum() + l2)
        assert last.value[leaf] == pytest.approx(step, rel=1e-9)
        assert last.cover[leaf] == pytest.approx(hessian[inside].sum(), rel=1e-9)


def test_leaves_hold_the_least_rows_and_hessians(data):
    free = lambdamart(1, max_leaves=40, min_leaf=1, min_hessian=0.0).fit(data).forest_
    leaves = free.leaf_ids(data)[:, 0]
    assert np.bincount(leaves)[np.unique(leaves)].min() < 4
    for min_leaf, min_hessian in ((7, 0.0), (1, 0.5), (7, 0.5)):
        options = {"min_leaf": min_leaf, "min_hessian": min_hessian}
        model = lambdamart(1, max_leaves=40, **options).fit(data)
        leaves = model.forest_.leaf_ids(data)[:, 0]
        present = np.unique(leaves)
        assert np.bincount(leaves)[present].min() >= min_leaf
        assert model.forest_.cover[present].min() >= min_hessian * (1 - 1e-6)
        assert present.size > 2


def test_a_querys_rows_may_stand_anywhere(data, rng):
    order = rng.permutation(data.n_documents)
    # Without ties in the scores nothing depends on the order of rows; before the first tree all are tied, so that
    # documents are scored by an earlier model.
    one, other = LambdaRank(data), LambdaRank(data.take_rows(order))
    scores = rng.normal(size=data.n_documents)
    np.testing.assert_allclose(
        other.gradients(scores[order]), np.array(one.gradients(scores))[:, order], rtol=1e-12
    )
    grouped = np.argsort(data.query_of_row[order], kind="stable")  # ties as in the scattered rows
    scattered = lambdamart(5).fit(data.take_rows(order))
    together = lambdamart(5).fit(data.take_rows(order[grouped]))
    np.testing.assert_allclose(scattered.predict(data), together.predict(data), rtol=1e-9)


NASTY = {
    "one document": ([[1.0]], [2.0], [1]),
    "one document per query": (np.arange(6.0).reshape(6, 1), [0, 1, 2, 0, 1, 2], range(6)),
    "equal labels": (np.arange(12.0).reshape(6, 2), [1] * 6, [1, 1, 1, 2, 2, 2]),
    "no relevant document": (np.arange(12.0).reshape(6, 2), [0] * 6, [1, 1, 1, 2, 2, 2]),
    "constant features": (np.ones((6, 2)), [0, 1, 2, 0, 1, 2], [1, 1, 1, 2, 2, 2]),
    "large labels": (np.arange(8.0).reshape(4, 2), [72, 0, 5, 999], [1, 1, 1, 1]),
    "fractions": (np.arange(8.0).reshape(4, 2), [0.5, 0, 0.25, 1e-9], [1, 1, 1, 1]),
    "a pair behind others": (np.arange(12.0).reshape(6, 2), [0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 2, 2]),
}


@pytest.mark.parametrize("target", ["ndcg", "map", "mrr", "err"])
@pytest.mark.parametrize("case", NASTY)
def test_nasty_data_give_a_model(target, case):
    features, labels, query_ids = NASTY[case]
    model = rw.LambdaMART(5, min_leaf=1, target=target, min_hessian=0.0)
    scores = model.fit(features, labels, list(query_ids)).predict(features)
    assert np.isfinite(scores).all()
    if case == "a pair behind others":  # the first rows are in no pair, and must not hide it
        assert scores[5] > scores[4]


def test_labels_beyond_the_exponential_gain_need_another(data):
    labels = np.where(data.labels == data.labels.max(), 1330.0, data.labels)
    with pytest.raises(DataError, match=r"is 1330, too large .* Use gain=linear"):
        lambdamart().fit(data.features, labels, data.query_ids)
    model = lambdamart(5, target="ndcg[gain=linear]").fit(data.features, labels, data.query_ids)
    assert np.isfinite(model.predict(data)).all()


def test_early_stopping_looks_at_any_measure(data, other):
    for measure in ("ndcg@10", "map", "auc"):
        model = lambdamart(20, measure=measure, early_stopping=3).fit(data, valid=other)
        best = int(np.argmax(model.history_)) + 1
        assert model.best_iteration_ == best == model.forest_.n_trees
        assert mean(model, other, measure) == pytest.approx(max(model.history_), abs=1e-12)


@pytest.mark.parametrize("direction", [1, -1])
def test_scores_follow_a_monotone_feature(direction, data):
    model = lambdamart(10, monotone=[direction, *[0] * 7]).fit(data)
    line = np.repeat(data.features[:1], 50, axis=0)
    line[:, 0] = np.linspace(*np.nanquantile(data.features[:, 0], [0, 1]), 50)
    assert (np.diff(model.predict(line)) * direction).min() >= -1e-12


def pairwise_logistic(scores, data):
    """All pairs of a query weigh alike."""
    gradient, hessian = np.zeros(len(data)), np.zeros(len(data))
    for _, rows in data.iter_queries():
        better = data.labels[rows][:, None] > data.labels[rows]
        rho = better / (1.0 + np.exp(scores[rows][:, None] - scores[rows]))
        gradient[rows] = rho.sum(axis=0) - rho.sum(axis=1)
        hessian[rows] = (rho * (1.0 - rho) * better).sum(axis=0)
        hessian[rows] += (rho * (1.0 - rho) * better).sum(axis=1)
    return gradient, hessian


def squared(scores, data):
    return scores - data.labels, np.ones(len(data))


def test_a_loss_of_ones_own_is_boosted(data, other):
    model = lambdamart(15, loss=pairwise_logistic, learning_rate=0.3).fit(data, valid=other)
    assert model.history_[-1] > model.history_[0]
    assert clone(model).fit(data, valid=other).forest_ == model.forest_


def test_squared_loss_of_ones_own_is_gbrt(data):
    options = {"max_leaves": 8, "min_leaf": 3}
    own = rw.LambdaMART(8, loss=squared, l2=0.0, **options).fit(
        data.features, data.labels
    )  # no queries
    options |= {"learning_rate": 0.1, "features_per_node": None}
    peer = rw.GBRT(8, start="zero", **options).fit(data)
    np.testing.assert_allclose(own.predict(data), peer.predict(data), rtol=1e-6, atol=1e-9)


def test_a_model_file_keeps_the_name_of_a_loss_and_no_code(data, tmp_path):
    model = lambdamart(3, loss=pairwise_logistic).fit(data)
    rw.save(model, tmp_path / "model")
    back = rw.load(tmp_path / "model")
    assert back.loss == "pairwise_logistic"
    assert np.array_equal(back.predict(data), model.predict(data))
    with pytest.raises(ParameterError, match=r"keeps the name of a function.* pass it again"):
        back.fit(data)
    assert back.set_params(loss=pairwise_logistic).fit(data).forest_ == model.forest_


def test_refit_learns_from_all_data(data, other):
    model = lambdamart(20, early_stopping=3).fit(data, valid=other)
    again = rw.refit(model, data, other)
    assert again.forest_.n_trees == model.best_iteration_
    assert again.training_["queries"] == data.n_queries + other.n_queries


def test_history_rises_on_the_training_data_itself(data):
    # The measure is no loss: it need not rise with every tree, but on its own data it does for most.
    history = lambdamart(20, measure="ndcg").fit(data, valid=data).history_
    rises = [later > earlier for earlier, later in itertools.pairwise(history)]
    assert sum(rises) >= 15
