"""``InitializedGBRT``: boosting that starts from a forest."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import rankwood as rw
from rankwood.engines.bags import Bags
from rankwood.errors import ParameterError
from rankwood.training.rounds import EarlyStopping
from tests.reference import ensembles as slow


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(40, 12, 8, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(20, 12, 8, seed=4)


def initialized(n_trees=5, forest_trees=8, **options):
    defaults = {"max_leaves": 6, "min_leaf": 3, "forest_leaves": 10, "forest_trees": forest_trees}
    return rw.InitializedGBRT(n_trees, **{**defaults, **options})


def forest_like(model, **options):
    return rw.RandomForest(
        model.forest_trees, model.forest_leaves, seed=model.seed, bag=model.forest_bag, **options
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("forest_bag", ["row", "query"])
def test_the_first_trees_are_the_random_forests(weighted, forest_bag, data, other):
    weights = np.linspace(0, 2, data.n_documents) if weighted else None
    model = initialized(seed=7, forest_bag=forest_bag).fit(data, sample_weight=weights)
    forest = forest_like(model).fit(data, sample_weight=weights).forest_
    first = model.forest_.take_trees(slice(0, 8))
    for name in ("feature", "threshold", "left", "right", "missing", "value", "cover", "gain"):
        assert np.array_equal(getattr(first, name), getattr(forest, name)), name
    assert model.forest_.tree_weights.tolist() == [1 / 8] * 8 + [0.1] * 5
    assert not model.forest_.average
    alone = initialized(0, seed=7, forest_bag=forest_bag).fit(data, sample_weight=weights)
    np.testing.assert_allclose(alone.predict(other), forest.predict(other), rtol=1e-12)


@pytest.mark.parametrize("residuals", ["oob", "in-bag"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_forest", [3, 12])  # of three trees a quarter of the rows is in all bags
def test_scores_equal_a_plain_loop_over_recorded_trees(residuals, weighted, n_forest, rng):
    # Distinct values below 256 per feature: bins are exact; real labels: no two splits gain the same.
    features = rng.permuted(np.arange(600).reshape(200, 3), axis=0).astype(np.float32)
    labels = rng.random(200)
    weights = rng.random(200) + 0.5 if weighted else None
    model = rw.InitializedGBRT(
        4,
        max_leaves=5,
        min_leaf=7,
        learning_rate=0.3,
        forest_trees=n_forest,
        forest_leaves=6,
        residuals=residuals,
    )
    model.fit(features, labels, sample_weight=weights)
    forest = rw.RandomForest(n_forest, max_leaves=6).fit(features, labels, sample_weight=weights)
    trees = [forest.forest_.take_trees([tree]).predict(features) for tree in range(n_forest)]
    counts = [Bags(200).counts(tree) for tree in range(n_forest)]
    if n_forest == 3:
        assert any(min(of_row) > 0 for of_row in zip(*counts, strict=True))
    left = labels - np.array(slow.starts_from_forest(trees, counts, residuals))
    expected = forest.predict(features)
    for _ in range(4):
        tree = DecisionTreeRegressor(max_leaf_nodes=5, min_samples_leaf=7, random_state=0)
        step = 0.3 * tree.fit(features, left, sample_weight=weights).predict(features)
        left, expected = left - step, expected + step
    np.testing.assert_allclose(model.predict(features), expected, rtol=1e-6)


def test_the_two_kinds_of_residuals_differ(data):
    one, two = (initialized(residuals=kind).fit(data) for kind in ("oob", "in-bag"))
    assert one.forest_.take_trees(slice(0, 8)) == two.forest_.take_trees(slice(0, 8))
    # In-bag residuals are smaller, so there is less that the first boosted tree finds to remove.
    left, right = (model.forest_.take_trees([8]).gain.sum() for model in (one, two))
    assert left > right > 0


def test_history_counts_boosted_trees(data, other):
    model = initialized(4, measure="rmse", early_stopping=None).fit(data, valid=other)

    def rmse(n_trees):
        scores = model.forest_.predict(other, first_trees=n_trees)
        return float(np.sqrt(np.mean((scores - other.labels) ** 2)))

    assert model.forest_measure_ == pytest.approx(rmse(8), abs=1e-12)
    assert model.history_ == pytest.approx([rmse(8 + n) for n in range(1, 5)], abs=1e-12)
    assert np.isnan(initialized(1).fit(data).forest_measure_)
    assert initialized(1).fit(data).best_iteration_ == 1


def test_early_stopping_keeps_the_best_boosted_trees(data):
    parts = rw.split_queries(data, (0.7, 0.3), seed=1)
    options = {"measure": "rmse", "learning_rate": 0.5, "residuals": "oob"}
    everything = initialized(20, **options).fit(parts[0], valid=parts[1])
    stopped = initialized(20, early_stopping=3, **options).fit(parts[0], valid=parts[1])
    values = [everything.forest_measure_, *everything.history_]
    best = int(np.argmin(values))
    assert stopped.best_iteration_ == best < 17
    assert len(stopped.history_) == best + 3
    assert stopped.forest_ == everything.forest_.take_trees(slice(0, 8 + best))


def test_a_forest_that_boosting_does_not_improve_stays_alone(data):
    # On labels without any signal every boosted tree learns noise.
    rng = np.random.default_rng(1)
    noise = rw.RankingData(data.features, rng.integers(0, 5, data.n_documents), data.query_ids)
    train, vali = rw.split_queries(noise, (0.7, 0.3), seed=1)
    model = initialized(15, 20, early_stopping=5, measure="rmse", learning_rate=1.0, min_leaf=1)
    model.fit(train, valid=vali)
    assert min(model.history_) > model.forest_measure_
    assert model.best_iteration_ == 0
    assert len(model.history_) == 5
    assert model.forest_.n_trees == 20
    again = rw.refit(model, train, vali)
    assert (again.n_trees, again.forest_.n_trees) == (0, 20)


@pytest.mark.jit_only  # its fits are slow in Python
def test_boosted_trees_are_kept_if_they_are_ahead_of_the_forest_by_a_standard_error(data):
    measure = rw.parse_measure("ndcg@10")
    kept = []
    for seed in range(
        6
    ):  # labels without any signal: the best of fifteen values is often ahead by chance
        labels = np.random.default_rng(seed).integers(0, 5, data.n_documents)
        noise = rw.RankingData(data.features, labels, data.query_ids)
        train, vali = rw.split_queries(noise, (0.7, 0.3), seed=1)
        everything = initialized(15, 20, early_stopping=None).fit(train, valid=vali)
        n_best = 1 + int(np.argmax(everything.history_))
        boosted, alone = (
            measure.per_query(everything.forest_.predict(vali, first_trees=n_trees), vali)
            for n_trees in (20 + n_best, 20)
        )
        gains = boosted - alone
        is_ahead = gains.mean() > gains.std(ddof=1) / np.sqrt(gains.size)
        model = initialized(15, 20).fit(train, valid=vali)
        assert model.best_iteration_ == (n_best if is_ahead else 0)
        assert model.forest_ == everything.forest_.take_trees(slice(0, 20 + model.best_iteration_))
        kept.append((gains.mean() > 0, is_ahead))
    assert (True, False) in kept
    assert (True, True) in kept


def test_early_stopping_counts_the_start():
    stopping = EarlyStopping(2, True, start=1.0)
    stopping.history.extend([2.0, 1.0])
    assert stopping.best_iteration == 0  # of equal values the first
    assert stopping.is_over()
    stopping.history.append(0.5)
    assert stopping.best_iteration == 3


def test_a_warm_start_keeps_the_forest(data):
    model = initialized(3, warm_start=True).fit(data)
    with pytest.raises(ParameterError, match="goes on with the same forest_trees"):
        model.set_params(n_trees=20, forest_trees=4).fit(data)


@pytest.mark.parametrize("moment", [3, 8, 10])
def test_a_callback_can_stop_the_growing(moment, data):
    model = initialized(callbacks=[lambda news: news.iteration == moment], warm_start=True)
    model.fit(data)
    assert model.forest_.n_trees == moment
    model.set_params(callbacks=()).fit(data)  # and what lacks can be grown later
    assert model.forest_ == initialized().fit(data).forest_


def test_tiny_data(data):
    one = data.take_rows([0])
    assert initialized(2).fit(one).predict(one)[0] == pytest.approx(one.labels[0])
    same = rw.RankingData(data.features, np.full(data.n_documents, 3.0), data.query_ids)
    assert initialized(2).fit(same).predict(data) == pytest.approx(3.0)
    huge = rw.RankingData(data.features, data.labels * 1e100, data.query_ids)
    expected = initialized(2).fit(data).predict(data)
    np.testing.assert_allclose(
        initialized(2).fit(huge).predict(data), 1e100 * expected, rtol=1e-6, atol=1e94
    )
