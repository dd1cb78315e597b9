"""``AveragedGBRT``: the mean of runs, side by side."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw
from rankwood.binning import binned
from rankwood.errors import DataWarning, ParameterError
from rankwood.rankers.boosted import seed_of_run
from rankwood.training import inputs
from tests.reference import ensembles as slow


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(40, 12, 8, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(20, 12, 8, seed=4)


def averaged(n_trees=6, n_runs=3, **options):
    return rw.AveragedGBRT(n_trees, n_runs, **{"max_leaves": 6, "min_leaf": 3, **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features_per_node": None, "subsample": 0.5},
        {"subsample": 0.5, "subsample_by": "query", "start": "zero"},
        {"learning_rate": 0.3, "l2": 1.0},
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_mean_of_single_runs(options, weighted, data, other):
    weights = np.linspace(0, 2, data.n_documents) if weighted else None
    model = averaged(seed=5, **options).fit(data, sample_weight=weights)
    runs = []
    for run in range(3):
        changes = {"learning_rate": 0.1, "max_leaves": 6, "min_leaf": 3, **options}
        single = rw.GBRT(6, seed=seed_of_run(5, run), **changes)
        runs.append(single.fit(data, sample_weight=weights).predict(other))
    assert len({tuple(run) for run in runs}) == 3
    np.testing.assert_allclose(model.predict(other), slow.mean_of_runs(runs), rtol=1e-12)


def test_the_forest_holds_the_runs_round_by_round(data):
    model = averaged(seed=2, learning_rate=0.2).fit(data)
    assert (model.forest_.tree_weights == 0.2 / 3).all()
    for run in range(3):
        single = rw.GBRT(
            6,
            seed=seed_of_run(2, run),
            max_leaves=6,
            min_leaf=3,
            learning_rate=0.2,
        )
        forest = single.fit(data).forest_
        assert model.forest_.base == forest.base
        mine = model.forest_.take_trees(slice(run, None, 3))
        for name in ("feature", "threshold", "left", "right", "missing", "value", "gain"):
            assert np.array_equal(getattr(mine, name), getattr(forest, name)), name


def test_rows_are_binned_once(data, other, monkeypatch):
    calls = []

    def counted(*arguments, **options):
        calls.append(1)
        return fit_bins(*arguments, **options)

    fit_bins = binned.fit_bins
    monkeypatch.setattr(binned, "fit_bins", counted)
    monkeypatch.setattr(inputs, "fit_bins", counted)
    averaged(2, 5).fit(data, valid=other)
    assert len(calls) == 1
    rw.GBRT(1).fit(data)
    assert len(calls) == 2  # the count counts


def test_history_is_the_measure_of_the_mean_after_each_round(data, other):
    for measure in ("ndcg@10", "rmse"):
        model = averaged(4, measure=measure, early_stopping=None).fit(data, valid=other)
        assert len(model.history_) == 4
        for n_rounds, value in enumerate(model.history_, 1):
            scores = model.forest_.predict(other, first_trees=3 * n_rounds)
            expected = rw.evaluate(scores, other, measure, n_bootstrap=0)[measure].value
            assert value == pytest.approx(expected, abs=1e-12)


def test_early_stopping_keeps_the_best_rounds_of_every_run(data, other):
    options = {"learning_rate": 0.5, "measure": "rmse"}
    everything = averaged(20, **options).fit(data, valid=other)
    stopped = averaged(20, early_stopping=4, **options).fit(data, valid=other)
    best = int(np.argmin(everything.history_)) + 1
    assert stopped.best_iteration_ == everything.best_iteration_ == best < 16
    assert len(stopped.history_) == best + 4
    assert stopped.forest_ == everything.forest_.take_trees(slice(0, 3 * best))
    again = rw.refit(stopped, data, other)
    assert again.n_trees == best
    assert again.forest_.n_trees == 3 * best
    with pytest.raises(ParameterError, match="early_stopping needs validation data"):
        averaged(early_stopping=3).fit(data)


def test_a_warm_start_keeps_the_number_of_runs(data):
    model = averaged(3, warm_start=True).fit(data)
    with pytest.raises(ParameterError, match="goes on with the same n_runs and learning_rate"):
        model.set_params(n_trees=9, n_runs=7).fit(data)


@pytest.mark.parametrize("features_per_node", [None, 1.0])
def test_runs_that_would_be_equal_are_refused(features_per_node, data):
    with pytest.raises(ParameterError, match=r"nothing is random and all 3 runs are equal\. Set"):
        averaged(features_per_node=features_per_node).fit(data)
    assert averaged(1, 1, features_per_node=features_per_node).fit(data).forest_.n_trees == 1
    averaged(1, features_per_node=features_per_node, subsample=0.9).fit(data)


def test_a_warning_where_the_data_have_too_few_features_for_a_choice(data):
    with pytest.warns(DataWarning, match="of 8 features every node sees all of them: the 3 runs"):
        averaged(1, features_per_node=8).fit(data)
    model = averaged(1, features_per_node=1)  # a number, not a share
    assert model.fit(data).forest_.n_trees == 3


def test_tiny_data(data):
    one = data.take_rows([0])
    assert averaged(2).fit(one).predict(one)[0] == pytest.approx(one.labels[0])
    same = rw.RankingData(data.features, np.full(data.n_documents, 3.0), data.query_ids)
    assert averaged(2).fit(same).predict(data) == pytest.approx(3.0)
