"""The cut points of a feature: equal to the slow twin, exact for few values, even for many."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rankwood.binning.bins import Bins, fit_bins, midpoints
from rankwood.errors import DataError, ParameterError
from tests.reference import binning as reference

INFINITY = math.inf
LARGEST = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).smallest_subnormal)


def after(value: float, steps: int = 1) -> float:
    """The float32 some steps above the value."""
    found = np.float32(value)
    for _ in range(steps):
        found = np.nextafter(found, np.float32(INFINITY))
    return float(found)


def nasty_columns(rng: np.random.Generator) -> dict[str, list[float]]:
    many = rng.standard_normal(600).tolist()
    return {
        "constant": [3.0] * 20,
        "all missing": [math.nan] * 20,
        "one value, the rest missing": [math.nan] * 19 + [1.0],
        "two values": [1.0, 2.0] * 10,
        "zeros of both signs": [0.0, -0.0] * 10,
        "around zero": [-TINY, -0.0, 0.0, TINY] * 5,
        "infinite": [-INFINITY, INFINITY] * 10,
        "infinite and finite": [-INFINITY, -1.0, 0.5, INFINITY, math.nan] * 4,
        "infinite and largest": [-INFINITY, -LARGEST, LARGEST, INFINITY] * 5,
        "midpoint would overflow": [1e38, 3e38, LARGEST, -3e38, -1e38] * 4,
        "opposite ends": [-LARGEST, LARGEST] * 10,
        "subnormal": [TINY * step for step in range(10)] * 2,
        "neighbouring floats": [after(1.0, step) for step in range(20)],
        "neighbouring negative floats": [-after(1.0, step) for step in range(20)],
        "neighbouring subnormals": [after(-3 * TINY, step) for step in range(7)],
        "whole numbers": rng.integers(-40, 40, 600).tolist(),
        "whole numbers, many": rng.integers(0, 500, 600).tolist(),
        "many values": many,
        "many values and infinite": [*many, INFINITY, -INFINITY, math.nan],
        "many values and +inf": [*many, INFINITY],
        "many zeros": [0.0] * 2000 + many,
        "many zeros at an end": [0.0] * 2000 + np.abs(many).tolist(),
        "heavy values among light ones": [*many, *np.repeat(many[::2], 9).tolist()],
        "heavier and heavier": np.repeat(np.arange(300), 1 + np.arange(300) ** 2 // 8000).tolist(),
        "powers": np.repeat(np.arange(11), 2 ** np.arange(11)).tolist() + many,
        "negative NaN": [float(np.copysign(np.nan, -1)), 1.0, 2.0],
    }


def as_column(values: list[float]) -> np.ndarray:
    return np.array(values, np.float32).reshape(-1, 1)


CASES = sorted(nasty_columns(np.random.default_rng(0)))


@pytest.mark.parametrize("max_bins", [2, 3, 4, 7, 16, 255])
@pytest.mark.parametrize("case", CASES)
def test_thresholds_equal_the_slow_twin(case, max_bins, rng):
    column = as_column(nasty_columns(rng)[case])
    bins = fit_bins(column, max_bins=max_bins)
    assert bins.thresholds.tolist() == reference.thresholds(column[:, 0], max_bins)
    assert bins.n_value_bins[0] <= max_bins
    assert bins.has_missing.tolist() == [bool(np.isnan(column).any())]


@pytest.mark.parametrize("case", CASES)
def test_every_threshold_parts_two_values_of_the_data(case, rng):
    column = as_column(nasty_columns(rng)[case])
    thresholds = fit_bins(column, max_bins=16).thresholds
    assert np.isfinite(thresholds).all()
    assert not np.signbit(thresholds[thresholds == 0]).any()
    n_below = [int((column <= threshold).sum()) for threshold in thresholds]
    edges = [0, *n_below, int((~np.isnan(column)).sum())]
    assert not n_below or (np.diff(edges) > 0).all()  # no bin is empty


def test_few_values_are_cut_in_the_middle():
    bins = fit_bins(as_column([4.0, 1.0, 2.0, 1.0, math.nan]))
    assert bins.thresholds.tolist() == [1.5, 3.0]
    assert bins.n_value_bins.tolist() == [3]


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (1.0, 2.0, 1.5),
        (LARGEST / 2, LARGEST, 0.75 * LARGEST),  # the sum of the two would be infinite
        (-LARGEST, LARGEST, 0.0),
        (1.0, after(1.0), 1.0),  # nothing lies between: the lower one is a cut, the upper is not
        (after(1.0), after(1.0, 2), after(1.0)),  # the middle rounds to the even upper one
        (3 * TINY, 4 * TINY, 3 * TINY),  # half of 3 rounds to 2, half of 4 is 2: their sum is upper
        (-TINY, 0.0, -TINY),  # the halves round to -0.0 and 0.0, and their sum is upper
        (0.0, TINY, 0.0),
        (LARGEST, INFINITY, LARGEST),
        (-INFINITY, INFINITY, 0.0),
        (-INFINITY, after(-LARGEST), -LARGEST),
        (-1.0, 1.0, 0.0),
    ],
)
def test_the_middle_of_two_values(lower, upper, expected):
    found = midpoints(np.array([lower], np.float32), np.array([upper], np.float32))
    assert found.dtype == np.float32
    assert found.tolist() == [np.float32(expected)]
    assert not np.signbit(found[0]) or found[0] < 0


def test_no_finite_cut_lies_between_minus_infinity_and_the_least_float():
    bins = fit_bins(as_column([-INFINITY, -LARGEST, 0.0]))
    assert bins.thresholds.tolist() == [-LARGEST / 2]


@pytest.mark.parametrize("max_bins", [3, 10, 255])
def test_infinite_values_are_alone_in_their_bins(max_bins, rng):
    column = as_column([*rng.standard_normal(1000), INFINITY, -INFINITY])
    codes = fit_bins(column, max_bins=max_bins).transform(column)[0]
    finite = codes[:1000]
    assert codes[1000] > finite.max()
    assert codes[1001] < finite.min()


def test_many_values_fall_into_bins_of_like_size(rng):
    column = as_column(rng.permutation(2550))
    counts = np.bincount(fit_bins(column).transform(column)[0])
    assert counts.tolist() == [10] * 255


def test_a_value_above_its_share_has_a_bin_of_its_own_and_the_rest_is_even(rng):
    # 2,540 zeros hold half of all rows. The other 2,540 distinct values share 254 bins: 10 each.
    column = as_column([0.0] * 2540 + (1 + rng.permutation(2540)).tolist())
    counts = np.bincount(fit_bins(column).transform(column)[0])
    assert counts.tolist() == [2540] + [10] * 254


def test_two_heavy_values_within_the_rest(rng):
    # 10 bins: one for 0, one for 100.5, eight for the 400 others: a quarter of them below 100.5.
    others = np.arange(1, 401)
    column = as_column([0.0] * 500 + [100.5] * 500 + others.tolist())
    bins = fit_bins(column, max_bins=10)
    counts = np.bincount(bins.transform(column)[0])
    assert counts.tolist() == [500, 50, 50, 500, 50, 50, 50, 50, 50, 50]


def test_heavy_values_that_leave_no_bins_for_what_is_between_them_still_fit():
    # Ten values of ten rows, single ones between them. With twelve bins the share is 9.08 rows, so
    # all ten are above it, but then the nine stretches between them would need nine more bins.
    values = [*np.repeat(np.arange(10), 10).tolist(), *(np.arange(9) + 0.5).tolist()]
    bins = fit_bins(as_column(values), max_bins=12)
    counts = np.bincount(bins.transform(as_column(values))[0])
    assert bins.n_value_bins[0] == counts.size == 12
    assert counts.max() <= 20


def test_the_sample_decides_and_the_seed_decides_on_the_sample(rng):
    features = rng.standard_normal((2000, 3)).astype(np.float32)
    one = fit_bins(features, sample=300, max_bins=20, seed=1)
    again = fit_bins(features, sample=300, max_bins=20, seed=1)
    other = fit_bins(features, sample=300, max_bins=20, seed=2)
    assert one.thresholds.tobytes() == again.thresholds.tobytes()
    assert one.thresholds.tobytes() != other.thresholds.tobytes()
    exact = fit_bins(features, max_bins=20)
    # 300 values estimate a quantile to about sqrt(q(1-q)/300) <= 0.03 in rank: 4 sigma
    ranks = (features[:, :1] <= one.thresholds_of(0)).mean(axis=0)
    expected = (features[:, :1] <= exact.thresholds_of(0)).mean(axis=0)
    assert np.abs(ranks - expected).max() < 0.12


def test_missing_and_infinite_values_outside_the_sample_are_seen():
    features = np.tile(np.arange(1000, dtype=np.float32)[:, None] % 7, (1, 4))
    features[500, 0] = np.nan
    features[501, 1] = INFINITY
    features[502, 2] = -INFINITY
    for seed in range(3):  # a sample of ten rows is unlikely to hold a given one, three times over
        bins = fit_bins(features, sample=10, seed=seed)
        assert bins.has_missing.tolist() == [True, False, False, False]
        codes = bins.transform(features)
        assert (codes[1] == codes[1, 501]).sum() == 1
        assert (codes[2] == codes[2, 502]).sum() == 1


@pytest.mark.parametrize("sample", [200_000, 64])
def test_bytes_are_equal_for_any_number_of_threads(sample, rng):
    features = rng.standard_normal((999, 37)).astype(np.float32)
    features[rng.random(features.shape) < 0.1] = np.nan
    features[:, 3] = np.round(features[:, 3])
    found = [fit_bins(features, sample=sample, n_threads=threads) for threads in (1, 2, 8)]
    for bins in found[1:]:
        assert bins.thresholds.tobytes() == found[0].thresholds.tobytes()
        assert bins.offsets.tobytes() == found[0].offsets.tobytes()
        assert bins.has_missing.tobytes() == found[0].has_missing.tobytes()


def test_columns_do_not_influence_each_other(rng):
    # 37 columns: two full groups of those gathered together, and a part of one
    features = rng.integers(0, 30, (400, 37)).astype(np.float32)
    features[:, ::2] += rng.random((400, 19)).astype(np.float32)
    together = fit_bins(features, max_bins=40)
    for feature in range(37):
        alone = fit_bins(features[:, feature : feature + 1], max_bins=40)
        assert together.thresholds_of(feature).tobytes() == alone.thresholds.tobytes()


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (1, 40), (3, 700)])
def test_small_shapes(shape):
    features = np.ones(shape, np.float32)
    bins = fit_bins(features)
    assert bins.n_features == shape[1]
    assert bins.thresholds.size == 0
    assert bins.transform(features).tolist() == [[0] * shape[0]] * shape[1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_bins": 1}, "max_bins must be a whole number between 2 and 255, got 1"),
        ({"max_bins": 256}, "max_bins must be a whole number between 2 and 255, got 256"),
        ({"max_bins": 2.5}, "max_bins must be a whole number"),
        ({"sample": 0}, "sample must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"n_threads": 0}, "n_threads must be a whole number of at least 1, got 0"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ParameterError, match=message):
        fit_bins(np.ones((3, 1), np.float32), **parameters)


def test_a_vector_is_no_table():
    with pytest.raises(DataError, match="two dimensions"):
        fit_bins(np.ones(3, np.float32))


def test_no_columns_are_no_features():
    with pytest.raises(DataError, match="at least one column, got none"):
        fit_bins(np.ones((3, 0), np.float32))


def test_the_result_is_a_bins():
    assert isinstance(fit_bins([[1, 2], [3, 4]]), Bins)
