"""How many leaves the trees of a forest may have, where ``max_leaves`` is "auto"."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import rankwood as rw
from rankwood.engines.bags import OutOfBag
from rankwood.errors import ParameterError
from rankwood.rankers.forests import bags_of
from rankwood.training.forest import LeavesSearch, chosen_leaves, sizes_for, value_of_many_trees
from rankwood.training.inputs import training_set
from rankwood.trees.grower import FeatureChoice, Growth, Policies

pytestmark = pytest.mark.jit_only  # no kernels of its own


def ranking(n_queries=60, n_documents=40, noise=0.0, seed=0):
    """Grades that follow two of the features in many small steps."""
    rng = np.random.default_rng(seed)
    features = rng.random((n_queries * n_documents, 3)).astype(np.float32)
    steps = (12 * features[:, 0]).astype(int) + (12 * features[:, 1]).astype(int)
    labels = (steps % 3).astype(float)
    is_noise = rng.random(labels.size) < noise
    labels[is_noise] = rng.integers(0, 3, int(is_noise.sum()))
    return rw.RankingData(features, labels, np.repeat(np.arange(n_queries), n_documents))


def search_on(data, valid=None, **options):
    policies = Policies(Growth(100), FeatureChoice(0.3))
    train = training_set(data, data, 255, 1)
    return LeavesSearch(policies, train, valid, **{"n_trees": 10, "n_threads": 1, **options})


def test_sizes_depend_on_the_rows():
    assert sizes_for(80) == [100]
    assert sizes_for(700) == [100, None]
    assert sizes_for(4_000) == [100, 400, 1600, None]
    assert sizes_for(100_000) == [100, 400, 1600, 6400, None]
    assert sizes_for(100_001) == [100, 400, 1600, 6400]


def test_the_value_is_extrapolated_from_both_halves():
    data, valid = ranking(), ranking(20, seed=1)
    forest = rw.RandomForest(10, max_leaves=50, bag="query", n_threads=1).fit(data)
    bags, measure = bags_of(forest, data), rw.parse_measure("ndcg@10")

    def value(begin, end):
        estimates = OutOfBag.empty(data.n_documents)
        scores = np.zeros(valid.n_documents)
        for tree in range(begin, end):
            one = forest.forest_.take_trees([tree])
            left_out = bags.counts(tree) == 0
            estimates.sums[left_out] += one.predict(data)[left_out]
            estimates.n_trees[left_out] += 1
            scores += one.predict(valid)
        rows = estimates.n_trees > 0
        seen = rw.RankingData(data.features[rows], data.labels[rows], data.query_ids[rows])
        values = measure.per_query(estimates.scores[rows], seen).tolist()
        return np.mean(values + measure.per_query(scores, valid).tolist())

    expected = 2.0 * value(0, 10) - (value(0, 5) + value(5, 10)) / 2.0
    assert value_of_many_trees(search_on(data, valid), 50) == pytest.approx(expected, abs=1e-12)


def test_clear_labels_have_large_trees_and_noise_has_small_ones():
    assert chosen_leaves(search_on(ranking())) != 100
    assert chosen_leaves(search_on(ranking(noise=0.9))) == 100
    assert chosen_leaves(search_on(ranking(), ranking(20, seed=1))) != 100


def test_rmse_may_decide():
    assert chosen_leaves(search_on(ranking(), by_rmse=True)) != 100
    assert chosen_leaves(search_on(ranking(noise=0.9), by_rmse=True)) == 100


def test_threads_do_not_change_the_choice():
    data = ranking()
    values = {value_of_many_trees(search_on(data, n_threads=n), 400) for n in (1, 2, 3)}
    assert len(values) == 1


@pytest.mark.parametrize(
    "data",
    [
        ranking(9),
        rw.RankingData(ranking().features, ranking().labels),
        rw.RankingData(ranking().features, 1e6 * ranking().labels, ranking().query_ids),
    ],
    ids=["few queries", "no queries", "labels without gains"],
)
def test_where_nothing_can_be_estimated_trees_have_100_leaves(data):
    assert chosen_leaves(search_on(data)) == 100


@pytest.mark.parametrize(
    "ranker",
    [
        rw.RandomForest(9),
        rw.ExtraTrees(9),
        rw.BROOF("absolute", n_rounds=2, n_trees=9),
        rw.DeepForest(n_forests=2, n_trees=9, max_layers=1),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
def test_rankers_tell_what_they_chose(ranker, tmp_path):
    data = ranking()
    model = ranker.fit(data)
    assert model.max_leaves == "auto"
    assert model.max_leaves_ is None or model.max_leaves_ > 100
    rw.save(model, tmp_path / "model")
    assert rw.load(tmp_path / "model").max_leaves_ == model.max_leaves_
    named = clone(ranker).set_params(max_leaves=model.max_leaves_).fit(data)
    assert np.array_equal(named.predict(data), model.predict(data))


def test_a_forest_of_labels_starts_boosting_with_chosen_leaves():
    data = ranking()
    auto = rw.InitializedGBRT(0, forest_trees=9).fit(data).forest_
    small = rw.InitializedGBRT(0, forest_trees=9, forest_leaves=100).fit(data).forest_
    assert auto.n_leaves > small.n_leaves


@pytest.mark.parametrize("value", ["Auto", 0, 2.5, True])
def test_other_values_are_refused(value):
    with pytest.raises(ParameterError, match="max_leaves must be"):
        rw.RandomForest(2, max_leaves=value).fit(ranking(12, 5))
