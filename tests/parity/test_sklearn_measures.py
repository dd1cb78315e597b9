"""Values are those of scikit-learn and scipy, under the ``sklearn`` preset, where both define one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwood.data.dataset import RankingData
from rankwood.evaluation.evaluate import evaluate
from rankwood.measures.measure import parse_measure

metrics = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")


def make(tied, n_queries=60, seed=3):
    rng = np.random.default_rng(seed)
    query_ids = np.repeat(
        np.arange(n_queries), rng.integers(2, 15, n_queries)
    )  # sklearn wants two documents
    labels = rng.integers(0, 4, query_ids.size) * (query_ids % 7 > 0)
    noise = rng.normal(0, 2, query_ids.size)
    scores = np.round(labels + noise) if tied else labels + noise
    return RankingData(np.zeros((query_ids.size, 1)), labels, query_ids), scores


def by_query(data, scores):
    for _, rows in data.iter_queries():
        yield data.labels[rows], scores[rows]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("k", [None, 1, 3, 10])
def test_dcg_and_ndcg(tied, k):
    data, scores = make(tied)
    for name, function in {"ndcg": metrics.ndcg_score, "dcg": metrics.dcg_score}.items():
        expected = [function([labels], [own], k=k) for labels, own in by_query(data, scores)]
        text = name if k is None else f"{name}@{k}"
        ours = parse_measure(text, preset="sklearn").per_query(scores, data)
        assert_allclose(ours, expected, atol=1e-12)


def test_ndcg_without_ties_needs_no_rule_for_them():
    data, scores = make(tied=False)
    expected = [metrics.ndcg_score([y], [s], ignore_ties=True) for y, s in by_query(data, scores)]
    assert_allclose(
        parse_measure("ndcg[gain=linear]").per_query(scores, data), expected, atol=1e-12
    )


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("relevant", [1, 2])
def test_area_under_the_roc_curve(tied, relevant):
    data, scores = make(tied)
    is_relevant = data.labels >= relevant
    text = f"auc[relevant={relevant}]"
    ours = evaluate(scores, data, text, n_bootstrap=0)[text]
    assert ours.value == pytest.approx(metrics.roc_auc_score(is_relevant, scores), abs=1e-12)
    for own, (labels, part) in zip(ours.per_query, by_query(data, scores), strict=True):
        if len(set(labels >= relevant)) == 2:
            assert own == pytest.approx(metrics.roc_auc_score(labels >= relevant, part), abs=1e-12)
        else:
            assert np.isnan(own)


@pytest.mark.parametrize("high", [5, 20, 100])
def test_part_of_the_area_under_the_roc_curve(high):
    """scikit-learn's ``max_fpr`` rescales the same area: (1 + (a - a0) / (a1 - a0)) / 2."""
    data, scores = make(tied=True)
    rate = high / 100
    rescaled = metrics.roc_auc_score(data.labels >= 1, scores, max_fpr=rate)
    lowest, highest = rate**2 / 2, rate
    expected = lowest + (2 * rescaled - 1) * (highest - lowest) if high < 100 else rescaled
    text = f"pauc@[0,{high}]"
    assert evaluate(scores, data, text, n_bootstrap=0)[text].value == pytest.approx(
        expected, abs=1e-12
    )


def test_average_precision_without_ties():
    data, scores = make(tied=False)
    ours = parse_measure("map[empty=skip]").per_query(scores, data)
    for own, (labels, part) in zip(ours, by_query(data, scores), strict=True):
        if labels.max() >= 1:
            assert own == pytest.approx(
                metrics.average_precision_score(labels >= 1, part), abs=1e-12
            )
        else:
            assert np.isnan(own)


def test_rmse():
    data, scores = make(tied=True)
    expected = metrics.mean_squared_error(data.labels, scores) ** 0.5
    assert evaluate(scores, data, "rmse", n_bootstrap=0)["rmse"].value == pytest.approx(expected)


@pytest.mark.parametrize("tied", [True, False])
def test_kendalls_tau(tied):
    data, scores = make(tied)
    ours = parse_measure("tau[empty=skip]").per_query(scores, data)
    for own, (labels, part) in zip(ours, by_query(data, scores), strict=True):
        if len(set(labels)) == 1 or len(set(part)) == 1:
            assert np.isnan(own)
        else:
            assert own == pytest.approx(stats.kendalltau(labels, part).statistic, abs=1e-12)
