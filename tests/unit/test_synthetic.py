"""Synthetic data: the shape it promises, repeatable, and not to be ranked by one feature."""

from __future__ import annotations

import numpy as np
import pytest

from rankwood.data.dataset import RankingData
from rankwood.data.synthetic import (
    WEB10K_LABEL_SHARES,
    make_feature_costs,
    make_ranking,
    make_transfer,
)
from rankwood.errors import ParameterError


@pytest.fixture(scope="module")
def data() -> RankingData:
    return make_ranking(60, 40, 40, seed=3)


def shares_of_labels(data: RankingData) -> np.ndarray:
    return np.bincount(data.labels.astype(int), minlength=5) / data.n_documents


def correlation_with_labels(data: RankingData) -> np.ndarray:
    return np.array([np.corrcoef(column, data.labels)[0, 1] for column in data.features.T])


def test_labels_have_the_shares_of_web10k(data: RankingData) -> None:
    # Counts are rounded once at each of the four thresholds: off by less than one row each.
    tolerance = 1 / data.n_documents
    assert shares_of_labels(data) == pytest.approx(np.array(WEB10K_LABEL_SHARES), abs=tolerance)


def test_labels_have_the_shares_asked_for() -> None:
    data = make_ranking(30, 30, 5, label_shares=(0.5, 0.0, 0.5), empty_share=0.1)
    assert shares_of_labels(data)[:3] == pytest.approx([0.5, 0, 0.5], abs=1 / data.n_documents)


def test_lengths_vary_around_the_mean_and_are_at_least_one() -> None:
    sizes = np.diff(make_ranking(2000, 1.5, 1).query_offsets)
    assert sizes.min() == 1
    assert sizes.max() > 3
    many = np.diff(make_ranking(600, 4, 1).query_offsets)
    # Log-normal with spread 0.55: standard deviation 0.6 × mean, so 0.1 is the error of the mean.
    assert many.mean() == pytest.approx(4, abs=0.4)


@pytest.mark.parametrize("empty_share", [0.0, 0.25])
def test_share_of_empty_queries(empty_share: float) -> None:
    data = make_ranking(40, 50, 3, empty_share=empty_share)
    best = np.maximum.reduceat(data.labels, data.query_offsets[:-1])
    assert (best == 0).mean() == pytest.approx(empty_share, abs=0.05)


def test_same_seed_same_data_and_other_seed_other_data(data: RankingData) -> None:
    assert make_ranking(60, 40, 40, seed=3) == data
    other = make_ranking(60, 40, 40, seed=4)
    assert other.n_documents != data.n_documents or not np.array_equal(other.labels, data.labels)


def test_threads_change_nothing(data: RankingData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKWOOD_THREADS", "1")
    alone = make_ranking(100, 20, 12, seed=1)
    monkeypatch.setenv("RANKWOOD_THREADS", "3")
    assert make_ranking(100, 20, 12, seed=1) == alone


def test_a_known_value_does_not_move() -> None:
    # As version 0.1.0 makes it. Published numbers depend on it, so a change is a breaking one.
    data = make_ranking(3, 5, 6, seed=0)
    assert data.n_documents == 10
    known = [5.211654, 59.1987, 0.0, 0.022405, 30.991558, 13.0]
    assert [round(float(value), 6) for value in data.features[0]] == known


def test_query_features_are_constant_within_a_query(data: RankingData) -> None:
    columns = [place for place, name in enumerate(data.names) if name.startswith("idf")]
    assert len(columns) == 8  # half of the 16 features that are not informative (60 % of 40 are)
    for _, rows in data.iter_queries():
        assert (data.features[rows][:, columns] == data.features[rows[0], columns]).all()
    assert (np.ptp(data.features[:, columns], axis=0) > 0).all()


def test_features_are_skewed_and_zero_inflated(data: RankingData) -> None:
    assert np.isfinite(data.features).all()
    share_of_zeros = (data.features == 0).mean(axis=0)
    assert (share_of_zeros > 0.5).any()
    mean, middle = data.features.mean(axis=0), np.median(data.features, axis=0)
    assert (mean > 1.2 * np.maximum(middle, 0.1)).mean() > 0.3


def test_informative_features_know_more_than_noise() -> None:
    data = make_ranking(60, 50, 30, n_informative=10, seed=5)
    strength = np.abs(correlation_with_labels(data))
    is_noise = np.array([name.startswith("noise") for name in data.names])
    # 3,000 rows: the correlation of noise has a standard error of 0.018.
    assert strength[is_noise].max() < 0.08
    assert strength[:10].mean() > 2 * strength[is_noise].mean()


def test_no_single_feature_ranks_like_a_model_of_all() -> None:
    data = make_ranking(60, 50, 40, seed=1)
    single = np.abs(correlation_with_labels(data)).max()
    design = np.column_stack([np.ones(data.n_documents), data.features.astype(np.float64)])
    fitted = design @ np.linalg.lstsq(design, data.labels, rcond=None)[0]
    assert np.corrcoef(fitted, data.labels)[0, 1] > single + 0.15


def test_missing_values_have_their_share_and_differ_by_feature() -> None:
    data = make_ranking(60, 50, 40, missing=0.2, seed=2)
    is_missing = np.isnan(data.features)
    assert is_missing.mean() == pytest.approx(0.2, abs=0.01)
    rates = is_missing.mean(axis=0)
    assert (rates == 0).sum() == 16  # 40 × (0.5 + 0.5 × 0.2) = 24 features have gaps
    assert rates.max() > 2 * rates[rates > 0].min()


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_low_values_are_rather_missing(share: float) -> None:
    full = make_ranking(60, 50, 40, seed=2).features
    is_missing = np.isnan(
        make_ranking(60, 50, 40, missing=share, missing_by="low", seed=2).features
    )
    assert is_missing.mean() == pytest.approx(share, abs=0.01)
    by_chance = np.isnan(make_ranking(60, 50, 40, missing=share, seed=2).features)
    rates = is_missing.mean(axis=0)
    np.testing.assert_allclose(rates, by_chance.mean(axis=0), atol=0.04)  # as many of each feature
    for feature in np.flatnonzero((rates > 0.1) & (rates < 0.9)):
        column, gone = full[:, feature], is_missing[:, feature]
        low, high = np.quantile(column, [0.25, 0.75])
        if low < high:
            assert gone[column <= low].mean() > gone[column >= high].mean() + 0.05


def test_missing_values_leave_the_rest_as_it_was(data: RankingData) -> None:
    holey = make_ranking(60, 40, 40, seed=3, missing=0.9)
    kept = ~np.isnan(holey.features)
    assert 0.08 < kept.mean() < 0.12
    assert np.array_equal(holey.features[kept], data.features[kept])


def test_document_ids_are_distinct() -> None:
    data = make_ranking(5, 10, 2, doc_ids=True)
    assert len(set(data.doc_ids)) == data.n_documents
    assert make_ranking(5, 10, 2).doc_ids is None


@pytest.mark.parametrize("n_features", [1, 2, 7, 200])
def test_any_number_of_features_has_distinct_names(n_features: int) -> None:
    data = make_ranking(3, 4, n_features)
    assert len(set(data.names)) == n_features


def test_costs_rise_by_group() -> None:
    costs = make_feature_costs(20, groups=5, seed=1)
    values, counts = np.unique(costs, return_counts=True)
    assert values.tolist() == [1, 4, 16, 64, 256]
    assert counts.tolist() == [4, 4, 4, 4, 4]
    assert np.array_equal(costs, make_feature_costs(20, groups=5, seed=1))
    assert make_feature_costs(3, groups=1).tolist() == [1, 1, 1]


def test_costly_features_know_more_than_cheap_ones() -> None:
    data = make_ranking(60, 50, 60, n_informative=60, costs=True, noise=0.3, seed=7)
    costs = make_feature_costs(60, seed=7)
    strength = np.abs(correlation_with_labels(data))
    assert strength[costs == 256].mean() > 1.3 * strength[costs == 1].mean()


def test_transfer_gives_the_truth_about_the_source() -> None:
    source, target, is_similar = make_transfer(60, 20, 40, 20, noise=0.2, seed=1)
    assert is_similar.shape == (source.n_documents,)
    assert is_similar.mean() == pytest.approx(0.5, abs=0.05)
    assert source.names == target.names
    assert not set(source.queries.tolist()) & set(target.queries.tolist())
    assert not set(source.doc_ids) & set(target.doc_ids)
    like = correlation_with_labels(source.take_rows(is_similar))
    unlike = correlation_with_labels(source.take_rows(~is_similar))
    aim = correlation_with_labels(target)
    assert np.abs(like - aim).mean() < 0.6 * np.abs(unlike - aim).mean()


def test_transfer_of_all_similar_documents() -> None:
    assert make_transfer(3, 2, 5, 4, similar_share=1.0).is_similar.all()
    assert not make_transfer(3, 2, 5, 4, similar_share=0.0).is_similar.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_queries": 0}, "n_queries must be a whole number of at least 1, got 0"),
        ({"docs_per_query": 0.5}, r"docs_per_query must be in \[1, 1e9\], got 0.5"),
        ({"n_features": 2.5}, "n_features must be a whole number"),
        ({"n_informative": 137}, "n_informative must be a whole number between 1 and 136"),
        ({"noise": -1}, "noise must be in"),
        ({"missing": 0.95}, "missing must be in"),
        ({"missing_by": "hazard"}, "missing_by 'hazard' is not known"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"label_shares": (0.5, 0.6)}, "label_shares must be numbers of at least 0 that sum to 1"),
        ({"label_shares": (1.5, -0.5)}, "label_shares must be"),
        ({"label_shares": (float("nan"), 1)}, "label_shares must be"),
        ({"label_shares": "much"}, "label_shares must be"),
        ({"empty_share": 0.6}, "empty_share is 0.6, but label_shares"),
    ],
)
def test_wrong_parameters_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make_ranking(**arguments)  # type: ignore[arg-type]


def test_wrong_parameters_of_costs_and_transfer() -> None:
    with pytest.raises(ParameterError, match="groups must be a whole number of at least 1"):
        make_feature_costs(5, groups=0)
    with pytest.raises(ParameterError, match="similar_share must be in"):
        make_transfer(similar_share=2)
    with pytest.raises(ParameterError, match="n_target_queries must be"):
        make_transfer(n_target_queries=0)
