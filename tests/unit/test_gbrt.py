"""Boosted trees: the loop, early stopping, validation figures, refitting."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rankwood as rw
from rankwood.engines.bags import Bags
from rankwood.errors import DataError, ParameterError
from rankwood.training.rounds import EarlyStopping
from tests.reference import ensembles as slow


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(40, 12, 8, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(20, 12, 8, seed=4)


def gbrt(n_trees=10, **options):
    return rw.GBRT(n_trees, **{"max_leaves": 8, "min_leaf": 3, **options})


def rmse(model, data, n_trees) -> float:
    scores = model.forest_.predict(data, first_trees=n_trees)
    return float(np.sqrt(np.mean((scores - data.labels) ** 2)))


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_equal_a_plain_loop_over_scikit_learns_trees(weighted, rng):
    # Distinct values below 256 per feature: bins are exact; real labels: no two splits gain the same.
    features = rng.permuted(np.arange(600).reshape(200, 3), axis=0).astype(np.float32)
    labels = rng.random(200)
    weights = rng.random(200) + 0.5 if weighted else None
    model = rw.GBRT(6, max_leaves=6, learning_rate=0.3, min_leaf=7, features_per_node=None)
    model.fit(features, labels, sample_weight=weights)
    limits = {"max_leaf_nodes": 6, "min_samples_leaf": 7}
    expected = slow.boosted_scores(features, labels, 6, 0.3, weights, **limits)
    np.testing.assert_allclose(model.predict(features), expected, rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"l2": 5.0}, {"start": "zero"}, {"max_depth": 2}])
def test_training_error_never_rises(options, data):
    model = gbrt(20, learning_rate=0.5, **options).fit(data)
    errors = [rmse(model, data, n_trees) for n_trees in range(21)]
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(errors))
    assert errors[-1] < errors[0]


def test_the_start_is_the_mean_or_zero(data):
    assert gbrt(1).fit(data).forest_.base == pytest.approx(data.labels.mean(), rel=1e-12)
    assert gbrt(1, start="zero").fit(data).forest_.base == 0.0
    weights = np.linspace(0, 3, data.n_documents)
    weighted = gbrt(1).fit(data, sample_weight=weights)
    expected = (weights * data.labels).sum() / weights.sum()
    assert weighted.forest_.base == pytest.approx(expected, rel=1e-12)


def test_history_is_the_measure_of_the_first_trees_on_validation_data(data, other):
    for measure in ("ndcg@10", "rmse", "auc", "map[empty=skip]", "rmse[over=queries]"):
        model = gbrt(5, measure=measure, early_stopping=None).fit(data, valid=other)
        for n_trees, value in enumerate(model.history_, 1):
            scores = model.forest_.predict(other, first_trees=n_trees)
            expected = rw.evaluate(scores, other, measure, n_bootstrap=0)[measure].value
            assert value == pytest.approx(expected, abs=1e-12)


def test_history_weighs_queries(data, other):
    weights = np.linspace(0.1, 2, other.n_queries)
    weighted = rw.RankingData(other.features, other.labels, other.query_ids, query_weights=weights)
    for measure in ("ndcg@10", "rmse", "auc"):
        model = gbrt(2, measure=measure, early_stopping=None).fit(data, valid=weighted)
        expected = rw.evaluate(model, weighted, measure, n_bootstrap=0)[measure].value
        assert model.history_[-1] == pytest.approx(expected, abs=1e-12)


def test_early_stopping_keeps_the_best_prefix(data, other):
    options = {"learning_rate": 0.5, "measure": "rmse"}
    everything = gbrt(60, early_stopping=None, **options).fit(data, valid=other)
    stopped = gbrt(60, early_stopping=5, **options).fit(data, valid=other)
    n_seen = len(stopped.history_)
    assert everything.history_[:n_seen] == stopped.history_
    best = int(np.argmin(stopped.history_)) + 1
    assert stopped.best_iteration_ == best == stopped.forest_.n_trees
    assert n_seen == best + 5 < 60
    assert stopped.forest_ == everything.forest_.take_trees(slice(0, best))
    assert everything.forest_.n_trees == 60
    best = int(np.argmin(everything.history_)) + 1
    default = gbrt(60, **options).fit(data, valid=other)
    assert default.history_ == everything.history_
    assert default.best_iteration_ == best < 60
    assert default.forest_ == everything.forest_.take_trees(slice(0, best))
    assert gbrt(60, **options).fit(data).forest_.n_trees == 60  # nothing to choose by


@pytest.mark.parametrize("value", ["last", 0, 2.5, True])
def test_early_stopping_must_be_a_number_or_best(value, data, other):
    with pytest.raises(ParameterError, match="early_stopping must be"):
        gbrt(2, early_stopping=value).fit(data, valid=other)


def test_early_stopping_looks_up_or_down():
    down, up = EarlyStopping(2, True), EarlyStopping(2, False)
    for value in (3.0, 2.0, 2.0):
        for stopping in (down, up):
            assert not stopping.is_over()
            stopping.history.append(value)
    assert down.best_iteration == 2  # of equal values the first
    assert not down.is_over()
    assert up.best_iteration == 1
    assert up.is_over()


def test_no_figure_is_never_the_best():
    stopping = EarlyStopping(3, False, [float("nan"), 0.2, float("nan")])
    assert stopping.best_iteration == 2
    nothing = EarlyStopping(2, False, [float("nan")] * 2)
    assert nothing.best_iteration == 0
    assert nothing.is_over()


def test_validation_data_without_queries_do_for_rmse(data, other):
    model = gbrt(3, measure="rmse").fit(data, valid=(other.features, other.labels))
    assert model.history_[-1] == pytest.approx(rmse(model, other, 3))


def test_training_scores_are_the_models_scores_to_the_bit(data):
    # The residuals the last tree fits are those of the model without it: its values are means of them.
    model = gbrt(5, subsample=0.7).fit(data)
    before = model.forest_.take_trees(slice(0, 4)).predict(data)
    residuals = data.labels - before
    drawn = Bags(data.n_documents, share=0.7, replacement=False).counts(4) > 0
    last = model.forest_.take_trees([4])
    leaves = last.leaf_ids(data)[:, 0]
    for leaf in np.unique(leaves):
        mean = residuals[(leaves == leaf) & drawn].mean()
        assert last.value[leaf] == pytest.approx(mean, rel=1e-9, abs=1e-12)


def test_a_subsample_by_query_sees_whole_queries(data):
    model = gbrt(3, subsample=0.3, subsample_by="query").fit(data)
    bags = Bags(data.n_documents, data.query_of_row, 0.3, replacement=False)
    for tree in range(3):
        counts = bags.counts(tree)
        assert model.forest_.cover[model.forest_.tree_offsets[tree]] == counts.sum()
        sizes = [set(counts[rows].tolist()) for _, rows in data.iter_queries()]
        assert all(len(found) == 1 for found in sizes)
        assert sum(found == {1} for found in sizes) == 12  # 0.3 of 40 queries
    with pytest.raises(DataError, match="no query ids"):
        gbrt(subsample=0.3, subsample_by="query").fit(data.features, data.labels)


def test_l2_pulls_leaves_towards_zero(data):
    # One leaf: the sum of the labels over rows + l2.
    model = rw.GBRT(1, max_leaves=1, learning_rate=1.0, l2=100.0, start="zero").fit(data)
    expected = data.labels.sum() / (data.n_documents + 100)
    assert model.predict(data)[0] == pytest.approx(expected, rel=1e-12)


def test_refit_learns_from_all_data_with_the_chosen_number_of_trees(data, other):
    model = gbrt(40, learning_rate=0.5, measure="rmse", early_stopping=3).fit(data, valid=other)
    again = rw.refit(model, data, other)
    assert again.forest_.n_trees == model.best_iteration_ < 40
    assert again.training_["rows"] == data.n_documents + other.n_documents
    assert (
        again.training_["queries"] == data.n_queries + other.n_queries
    )  # ids of the two parts overlap
    assert again.early_stopping is None
    expected = gbrt(model.best_iteration_, learning_rate=0.5).fit(
        np.concatenate([data.features, other.features]),
        np.concatenate([data.labels, other.labels]),
    )
    np.testing.assert_array_equal(again.predict(data), expected.predict(data))
    forest = rw.RandomForest(2).fit(data)
    assert rw.refit(forest, data, other).forest_.n_trees == 2
    with pytest.raises(ParameterError, match="not fitted yet"):
        rw.refit(rw.GBRT(), data, other)


def test_refit_joins_weights(data, other):
    weighted = rw.RankingData(
        other.features,
        other.labels,
        other.query_ids,
        row_weights=np.full(other.n_documents, 2.0),
        query_weights=np.full(other.n_queries, 3.0),
    )
    again = rw.refit(gbrt(1).fit(data), data, weighted)
    total = data.n_documents + 6 * other.n_documents
    assert again.forest_.cover[0] == pytest.approx(total)
