"""Codes: equal to the slow twin for any value, by any number of threads, in both layouts."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from rankwood.binning.binned import BinnedData, bin_data
from rankwood.binning.bins import MISSING_BIN, Bins, fit_bins
from rankwood.data.dataset import RankingData
from rankwood.data.synthetic import make_ranking
from rankwood.errors import DataError, ParameterError
from tests.reference import binning as reference

INFINITY = math.inf
LARGEST = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).smallest_subnormal)


def some_bins() -> Bins:
    """Features with 0, 1, 2, 3, 127, 128 and 254 thresholds."""
    parts = [
        [],
        [0.0],
        [-LARGEST, LARGEST],
        [-TINY, 0.0, TINY],
        np.arange(127) - 60.5,
        np.arange(128) / 7,
        np.linspace(-3, 3, 254),
    ]
    offsets = np.cumsum([0, *(len(part) for part in parts)])
    return Bins(np.concatenate(parts), offsets, [False] * len(parts))


def nasty_features(n_features: int, rng: np.random.Generator) -> np.ndarray:
    special = [
        math.nan,
        INFINITY,
        -INFINITY,
        0.0,
        -0.0,
        TINY,
        -TINY,
        1e38,
        -1e38,
        LARGEST,
        -LARGEST,
    ]
    features = np.concatenate(
        [
            np.tile(np.array(special)[:, None], (1, n_features)),
            3 * rng.standard_normal((100, n_features)),
            rng.integers(-70, 70, (100, n_features)) / 2,
        ]
    )
    return features.astype(np.float32)


def thresholds_by_feature(bins: Bins) -> list[list[float]]:
    return [bins.thresholds_of(feature).tolist() for feature in range(bins.n_features)]


def test_codes_of_unseen_values_equal_the_slow_twin(rng):
    bins = some_bins()
    features = nasty_features(bins.n_features, rng)
    thresholds = thresholds_by_feature(bins)
    # the thresholds themselves, and their neighbours on both sides
    near = np.unique(bins.thresholds)[::5]
    with np.errstate(over="ignore"):  # infinity is the neighbour of the largest
        near = np.concatenate(
            [near, *(np.nextafter(near, np.float32(end)) for end in (-INFINITY, INFINITY))]
        )
    features = np.concatenate([features, np.tile(near[:, None], (1, bins.n_features))])
    codes = bins.transform(features)
    assert codes.dtype == np.uint8
    assert codes.flags.c_contiguous
    assert codes.tolist() == reference.codes(features, thresholds).tolist()


def test_codes_of_fitted_data_equal_the_slow_twin(rng):
    features = nasty_features(5, rng)
    bins = fit_bins(features, max_bins=20)
    assert (
        bins.transform(features).tolist()
        == reference.codes(features, thresholds_by_feature(bins)).tolist()
    )


@pytest.mark.parametrize("n_rows", [1, 255, 256, 257, 2047])
def test_every_row_of_every_tile_is_written(n_rows, rng):
    features = rng.random((n_rows, 3)).astype(np.float32)
    bins = Bins([0.25, 0.5, 0.5], [0, 2, 3, 3], [False] * 3)
    codes = bins.transform(features)
    assert (
        codes[0].tolist() == ((features[:, 0] > 0.25).astype(int) + (features[:, 0] > 0.5)).tolist()
    )
    assert codes[1].tolist() == (features[:, 1] > 0.5).astype(int).tolist()
    assert codes[2].tolist() == [0] * n_rows


@pytest.mark.jit_only
def test_codes_are_equal_for_any_number_of_threads(rng):
    features = rng.standard_normal((20_000, 3)).astype(
        np.float32
    )  # eight threads get 2,500 rows each
    bins = fit_bins(features)
    one = bins.transform(features, n_threads=1)
    for n_threads in (2, 8):
        assert bins.transform(features, n_threads=n_threads).tobytes() == one.tobytes()


def test_codes_do_not_depend_on_the_layout_of_the_features(rng):
    features = rng.standard_normal((50, 4)).astype(np.float32)
    bins = fit_bins(features)
    assert bins.transform(np.asfortranarray(features)).tolist() == bins.transform(features).tolist()
    assert bins.transform(features.astype(np.float64)).tolist() == bins.transform(features).tolist()
    assert bins.transform(features.tolist()).tolist() == bins.transform(features).tolist()


def test_bins_refuse_another_number_of_features():
    with pytest.raises(DataError, match="there are 2 features, but the bins were made for 7"):
        some_bins().transform(np.zeros((1, 2), np.float32))


def test_thresholds_by_bin():
    bins = some_bins()
    assert bins.threshold_of(3, 2) == np.float32(TINY)
    assert isinstance(bins.threshold_of(3, 2), np.float32)
    assert bins.n_value_bins.tolist() == [1, 2, 3, 4, 128, 129, 255]
    with pytest.raises(ParameterError, match="bin must be a whole number between 0 and 2, got 3"):
        bins.threshold_of(3, 3)
    with pytest.raises(
        ParameterError, match="feature must be a whole number between 0 and 6, got 7"
    ):
        bins.threshold_of(7, 0)
    with pytest.raises(ParameterError, match="feature 0 has a single bin"):
        bins.threshold_of(0, 0)


@pytest.mark.parametrize(
    ("thresholds", "offsets", "has_missing", "message"),
    [
        (
            [1.0, 1.0],
            [0, 2],
            [False],
            "thresholds of feature 0 must be finite and strictly ascending",
        ),
        ([0.0, 3.0, 1.0], [0, 1, 3], [False] * 2, "thresholds of feature 1 must be"),
        ([math.nan], [0, 1], [False], "thresholds of feature 0 must be finite"),
        ([INFINITY], [0, 1], [False], "thresholds of feature 0 must be finite"),
        (np.arange(255), [0, 255], [False], "feature 0 has 255 thresholds; there may be 0 to 254"),
        ([1.0, 2.0], [0, 2, 1, 2], [False] * 3, "feature 1 has -1 thresholds"),
        ([1.0], [0, 2], [False], "offsets must run from 0 to the number of thresholds, 1"),
        ([], [0], [], "offsets must run from 0"),
        ([1.0], [0, 1], [], "has_missing has 0 values, but there are 1 features"),
        ([[1.0]], [0, 1], [False], "must have one dimension"),
    ],
)
def test_bins_check_what_they_are_made_of(thresholds, offsets, has_missing, message):
    with pytest.raises(DataError, match=message):
        Bins(thresholds, offsets, has_missing)


def test_a_descent_from_one_feature_to_the_next_is_fine():
    assert Bins([5.0, 1.0], [0, 1, 2], [False] * 2).thresholds.tolist() == [5.0, 1.0]


def test_bins_cannot_be_changed():
    bins = some_bins()
    for array in (bins.thresholds, bins.offsets, bins.has_missing, bins.n_value_bins):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_binned_data_hold_what_was_binned():
    data = make_ranking(8, 6, 11, seed=3)
    binned = bin_data(data, max_bins=10)
    assert (binned.n_rows, binned.n_features) == (data.n_documents, 11)
    assert binned.data is data
    assert binned.n_bins.dtype == np.int64
    assert binned.n_bins.tolist() == (np.diff(binned.bins.offsets) + 1).tolist()
    assert binned.n_bins.max() <= 10
    assert binned.codes.tolist() == binned.bins.transform(data.features).tolist()
    assert (
        binned.bins.thresholds.tolist() == fit_bins(data.features, max_bins=10).thresholds.tolist()
    )
    assert (
        repr(binned)
        == f"BinnedData({data.n_documents} documents, 11 features, at most {binned.n_bins.max()} bins)"
    )
    with pytest.raises(ValueError, match="read-only"):
        binned.codes[0, 0] = 0


def test_missing_values_have_code_255():
    data = RankingData([[1.0, None], [None, None]], [0, 1])
    binned = bin_data(data)
    assert binned.codes.tolist() == [[0, MISSING_BIN], [MISSING_BIN, MISSING_BIN]]
    assert binned.bins.has_missing.tolist() == [True, True]
    assert binned.n_bins.tolist() == [1, 1]


def test_binned_data_survive_pickling():
    binned = bin_data(make_ranking(4, 5, 3, seed=1))
    copy = pickle.loads(pickle.dumps(binned))
    assert copy.codes.tobytes() == binned.codes.tobytes()
    assert copy.bins.thresholds.tobytes() == binned.bins.thresholds.tobytes()
    assert copy.data == binned.data
    assert not copy.codes.flags.writeable


def test_binned_data_check_what_they_are_made_of():
    data = make_ranking(4, 5, 3, seed=1)
    bins = fit_bins(data.features)
    codes = bins.transform(data.features)
    n_rows = data.n_documents
    with pytest.raises(
        DataError, match=f"uint8 of 3 features × {n_rows} rows, got uint8 of {n_rows} × 3"
    ):
        BinnedData(codes.T, bins, data)
    with pytest.raises(DataError, match="got int64 of"):
        BinnedData(codes.astype(np.int64), bins, data)
    with pytest.raises(DataError, match="the data have 3 features, but the bins were made for 2"):
        BinnedData(codes[:2], fit_bins(data.features[:, :2]), data)


def test_only_ranking_data_can_be_binned():
    with pytest.raises(ParameterError, match="data must be RankingData, got list"):
        bin_data([[1.0]])


def test_data_without_rows():
    binned = bin_data(RankingData(np.zeros((0, 3)), []))
    assert binned.codes.shape == (3, 0)
