"""Comparing the treatments of missing values: what is compared, with what, and how it is shown."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import scipy.stats
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline

import rankwood as rw
from rankwood.data.splits import shuffled_queries
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.paired_tests import adjusted, paired_t_test
from rankwood.prepare.missing import TREATMENTS, treated

FAST = {"n_bootstrap": 20}


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 12, 6, missing=0.3, seed=3)


@pytest.fixture(scope="module")
def parts(data):
    return rw.split_queries(data, (0.6, 0.4), seed=1)


@pytest.fixture(scope="module")
def comparison(parts):
    return rw.compare_missing(rw.RandomForest(4, max_leaves=100), *parts, **FAST)


def test_every_treatment_is_what_its_step_and_policy_give(parts, comparison):
    train, test = parts
    assert [result.treatment for result in comparison] == list(TREATMENTS)
    by_hand = {
        "learned": rw.RandomForest(4, max_leaves=100),
        "three_way": rw.RandomForest(4, max_leaves=100, missing="own_child"),
        "predict": Pipeline(
            [("step", rw.PredictMissing()), ("ranker", rw.RandomForest(4, max_leaves=100))]
        ),
    }
    for name in ("least", "greatest", "mean", "median"):
        steps = [("step", rw.FillMissing(name)), ("ranker", rw.RandomForest(4, max_leaves=100))]
        by_hand[name] = Pipeline(steps)
    for name, model in by_hand.items():
        expected = rw.evaluate(model.fit(train), test, "ndcg@10", **FAST)["ndcg@10"]
        assert comparison[name].value == expected.value, name
        assert comparison[name].interval == expected.interval, name


def test_differences_are_paired_with_learned(comparison):
    learned = comparison["learned"].result.per_query
    raw = []
    for name in TREATMENTS[1:]:
        own = comparison[name]
        apart = own.result.per_query - learned
        assert own.difference == pytest.approx(np.mean(apart), abs=1e-12)
        low, high = own.difference_interval
        assert low <= own.difference <= high
        raw.append(scipy.stats.ttest_rel(own.result.per_query, learned).pvalue)
    ascending = sorted(raw)
    for place, name in enumerate(TREATMENTS[1:]):
        # Holm: the greatest of (n - rank) · p among those with p values no larger
        rank = ascending.index(raw[place])
        expected = max((6 - r) * ascending[r] for r in range(rank + 1))
        assert comparison[name].p_value == pytest.approx(min(1.0, expected))
    assert np.isnan(comparison["learned"].p_value)
    assert comparison["learned"].difference == 0.0


def test_holm_by_hand():
    # 0.01·3, then max(0.03, 0.02·2), then max(0.04, 0.03·1); NaN is not counted
    assert adjusted(np.array([0.03, np.nan, 0.01, 0.02]), "holm") == pytest.approx(
        [0.04, np.nan, 0.03, 0.04], nan_ok=True
    )
    assert adjusted(np.array([]), "holm").tolist() == []
    assert adjusted(np.array([0.9, 0.8]), "holm").tolist() == [1.0, 1.0]


def test_a_test_without_spread():
    assert paired_t_test(np.zeros(5)) == 1.0
    assert paired_t_test(np.full(5, 0.1)) == 0.0
    assert np.isnan(paired_t_test(np.array([0.1, np.nan])))


def test_folds_score_every_query_by_a_model_of_the_others(data):
    comparison = rw.compare_missing(
        rw.RandomForest(3, max_leaves=100), data, treatments=["mean"], n_folds=3, seed=7, **FAST
    )
    assert [result.treatment for result in comparison] == ["learned", "mean"]
    scores = np.zeros(data.n_documents)
    order = shuffled_queries(data, 7, "folds")
    for fold in range(3):
        is_scored = np.isin(data.query_of_row, order[fold::3])
        others, own = data.take_rows(~is_scored), data.take_rows(is_scored)
        step = rw.FillMissing("mean").fit(others)
        scores[is_scored] = (
            rw.RandomForest(3, max_leaves=100)
            .fit(step.transform(others))
            .predict(step.transform(own))
        )
    expected = rw.evaluate(scores, data, "ndcg@10", n_bootstrap=0)["ndcg@10"]
    np.testing.assert_array_equal(comparison["mean"].result.per_query, expected.per_query)
    assert "each scored by a model of the other folds (3 folds)" in str(comparison)


def test_measures_of_all_documents_have_no_paired_t_test(parts):
    comparison = rw.compare_missing(
        rw.RandomForest(3, max_leaves=100), *parts, "rmse", treatments=["mean"], **FAST
    )
    result = comparison["mean"]
    assert np.isnan([result.p_value, *result.difference_interval]).all()
    assert result.difference == result.value - comparison["learned"].value
    assert "–" in str(comparison)


def test_the_table_and_the_file(comparison, tmp_path):
    text = str(comparison)
    for name in (*TREATMENTS, "FillMissing('mean')", "missing='own_child'", "p (Holm)", "gain"):
        assert name in text
    assert "of the training values are missing, in 4 of 6 features" in text
    assert "<table>" in comparison._repr_html_()
    comparison.write_csv(tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row["treatment"] for row in rows] == list(TREATMENTS)
    assert float(rows[3]["value"]) == comparison["mean"].value
    assert rows[0]["p_value"] == ""
    with pytest.raises(UnknownName, match=r"treatment of this comparison 'meen'.*Did you mean"):
        comparison["meen"]
    with pytest.raises(DataError, match="cannot be written"):
        comparison.write_csv(tmp_path / "nowhere" / "out.csv")


def test_the_same_figures_for_any_number_of_threads(parts):
    figures = {
        tuple(
            result.value
            for result in rw.compare_missing(
                rw.RandomForest(3, max_leaves=100, n_threads=n), *parts, **FAST
            )
        )
        for n in (1, 2)
    }
    assert len(figures) == 1


def test_every_fit_is_told(parts, data):
    told = []
    rw.compare_missing(
        rw.GBRT(2), data, treatments=["mean"], n_folds=2, progress=told.append, **FAST
    )
    assert [(news.iteration, news.total) for news in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_ranker_is_left_alone_and_keeps_no_checkpoint(parts, tmp_path):
    ranker = rw.RandomForest(2, max_leaves=100, checkpoint=tmp_path / "checkpoint")
    rw.compare_missing(ranker, *parts, treatments=["mean"], **FAST)
    assert not hasattr(ranker, "forest_")
    assert not (tmp_path / "checkpoint").exists()


def test_gaps_in_the_test_part_alone_are_enough(parts):
    train = rw.FillMissing("mean").fit_transform(parts[0])
    comparison = rw.compare_missing(
        rw.RandomForest(2, max_leaves=100), train, parts[1], treatments=["median"], **FAST
    )
    assert "0.0% of the training values are missing, in 0 of 6 features" in str(comparison)


def test_what_cannot_be_compared_is_refused(parts, data):
    ranker = rw.RandomForest(2, max_leaves=100)
    full = rw.make_ranking(10, 5, 6, seed=1)
    with pytest.raises(DataError, match=r"no missing values.*absent='missing'"):
        rw.compare_missing(ranker, full)
    with pytest.raises(UnknownName, match=r"treatment of missing values 'meen'.*'mean'"):
        rw.compare_missing(ranker, data, treatments=["meen"])
    with pytest.raises(ParameterError, match="treatments must be a list of names"):
        rw.compare_missing(ranker, data, treatments="mean")
    with pytest.raises(ParameterError, match="there are only 30 queries"):
        rw.compare_missing(ranker, data, n_folds=31)
    with pytest.raises(ParameterError, match="n_folds must be a whole number of at least 2"):
        rw.compare_missing(ranker, data, n_folds=1)
    with pytest.raises(ParameterError, match="test must be RankingData, got ndarray"):
        rw.compare_missing(ranker, data, data.features)
    other = rw.RankingData(data.features[:, :5], data.labels, data.query_ids)
    with pytest.raises(DataError, match="knows 6 features, but the data have 5"):
        rw.compare_missing(ranker, data, other)
    with pytest.raises(DataError, match="no query ids"):
        rw.compare_missing(ranker, rw.RankingData(data.features, data.labels))
    with pytest.raises(ParameterError, match="progress must be a function"):
        rw.compare_missing(ranker, data, progress=3)
    with pytest.raises(ParameterError, match="a measure is text"):
        rw.compare_missing(ranker, *parts, 7)
    with pytest.raises(ParameterError, match="Ridge has no policy for missing values"):
        treated(Ridge(), "learned")


@pytest.mark.jit_only
@pytest.mark.slow
def test_where_low_values_are_missing_the_papers_order_appears():
    """Table 2.1 of Mohan (2010) in miniature, mean RMSE of three data sets.

    The thesis: 0 is best, then three-way splits, then mean and median. Here "greatest" is last: what is missing was low.
    """
    names = ["least", "greatest", "mean", "median", "three_way"]
    rmse = dict.fromkeys(names, 0.0)
    for seed in range(3):
        data = rw.make_ranking(120, 25, 30, noise=0.3, missing=0.4, missing_by="low", seed=seed)
        parts = rw.split_queries(data, (0.5, 0.5), seed=1)
        ranker = rw.RandomForest(20, max_leaves=100, seed=1)
        found = rw.compare_missing(ranker, *parts, "rmse", treatments=names, n_bootstrap=0)
        rmse = {name: rmse[name] + found[name].value / 3 for name in names}
    assert min(rmse, key=rmse.__getitem__) == "least"
    assert max(rmse, key=rmse.__getitem__) == "greatest"
    assert rmse["least"] < rmse["mean"] - 0.005
