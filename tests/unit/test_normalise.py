"""Normalisation within queries, against the definition written as a loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankwood.data.dataset import RankingData
from rankwood.data.features import normalise_per_query
from rankwood.data.splits import read_folds
from rankwood.data.synthetic import make_ranking
from rankwood.errors import UnknownName


def slow(data: RankingData, method: str) -> np.ndarray:
    """Query by query and feature by feature, over the values that are there."""
    result = data.features.astype(np.float64)
    for _, rows in data.iter_queries():
        for feature in range(data.n_features):
            values = result[rows, feature]
            known = values[~np.isnan(values)]
            if known.size == 0:
                continue
            centre = known.min() if method == "minmax" else known.mean()
            span = np.ptp(known) if method == "minmax" else known.std()
            result[rows, feature] = (values - centre) / (span or 1)
    return result


def shuffled(data: RankingData) -> RankingData:
    return data.take_rows(np.random.default_rng(0).permutation(data.n_documents))


@pytest.mark.parametrize("method", ["minmax", "zscore"])
@pytest.mark.parametrize("block", [1, 1 << 16])
def test_equals_the_slow_twin(method: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankwood.data.features._BLOCK_VALUES", block)
    data = shuffled(make_ranking(20, 6, 12, missing=0.3, seed=1))
    result = normalise_per_query(data, method)
    np.testing.assert_allclose(result.features, slow(data, method), rtol=1e-6, atol=1e-6)
    assert np.array_equal(result.labels, data.labels)
    assert np.array_equal(result.query_ids, data.query_ids)
    assert result.feature_names == data.feature_names


def test_minmax_by_hand() -> None:
    data = RankingData([[1, 5], [3, 5], [2, 5], [7, 1.0]], [0] * 4, ["a", "a", "a", "b"])
    assert normalise_per_query(data).features.tolist() == [[0, 0], [1, 0], [0.5, 0], [0, 0]]


def test_zscore_by_hand() -> None:
    # Mean 2, deviation sqrt((1 + 1 + 0) / 3) = 0.81650; 1 / 0.81650 = 1.22474.
    data = RankingData([[1], [3], [2.0]], [0] * 3, [1, 1, 1])
    assert normalise_per_query(data, "zscore").features[:, 0] == pytest.approx(
        [-1.224745, 1.224745, 0], abs=1e-6
    )


@pytest.mark.parametrize("method", ["minmax", "zscore"])
def test_missing_values_stay_missing(method: str) -> None:
    data = RankingData([[np.nan, 1], [np.nan, np.nan], [np.nan, 1]], [0] * 3, [1, 1, 1])
    result = normalise_per_query(data, method).features
    assert np.isnan(result[:, 0]).all()
    assert result[:, 1] == pytest.approx([0, np.nan, 0], nan_ok=True)


def test_infinite_values_do_not_count() -> None:
    column = np.array([[np.inf], [-np.inf], [2], [4]], np.float32)
    data = RankingData(column, [0] * 4, [1] * 4)
    assert normalise_per_query(data).features[:, 0].tolist() == [1, 0, 0, 1]
    assert normalise_per_query(data, "zscore").features[:, 0].tolist() == [np.inf, -np.inf, -1, 1]


def test_the_whole_range_of_float32() -> None:
    largest = np.finfo(np.float32).max
    data = RankingData(np.array([[-largest], [0], [largest]], np.float32), [0] * 3, [1] * 3)
    assert normalise_per_query(data).features[:, 0].tolist() == [0, 0.5, 1]


def test_no_rows() -> None:
    data = RankingData(np.zeros((0, 2)), [], np.zeros(0, np.int64))
    assert normalise_per_query(data).n_documents == 0


def test_unknown_method_names_the_nearest() -> None:
    with pytest.raises(
        UnknownName, match=r"normalisation 'min-max' is not known. Did you mean 'minmax'"
    ):
        normalise_per_query(make_ranking(2, 2, 2), "min-max")


@pytest.mark.slow
def test_letor_is_normalised_already(mq2008: Path) -> None:
    test = read_folds(mq2008)[0].test
    np.testing.assert_allclose(normalise_per_query(test).features, test.features, atol=1e-5)
