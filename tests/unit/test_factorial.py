"""Factorial designs: cases by hand, folds as blocks, sums of squares printed in a paper, and designs of fits.

``tests/parity/test_statsmodels_anova.py`` compares the analysis of variance with that of statsmodels.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import rankwood as rw
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import parse_measure
from rankwood.studies.factorial import analysis_of_variance, factorial, factorial_design
from rankwood.studies.fits import estimators_of_cells, fitted

pytestmark = pytest.mark.jit_only  # no kernels of its own

# TD2003, Sá (2016), Table 6.7: sums of squares of validation (2 levels), loss (4), their interaction and the error.
TD2003 = {"A": 0.002363, "B": 0.005798, "A × B": 0.005201, "error": 0.004200}
TD2003_DEGREES = {"A": 1, "B": 3, "A × B": 3, "error": 72}


def three_factors():
    """Contrasts of ±1: A adds ±1, B ±2, A with C ±½, all three ±¼; two replicates lie 1/8 from their cell's mean."""
    a, b, c = np.meshgrid([-1, 1], [-1, 1], [-1, 1], indexing="ij")
    cells = 10 + a + 2 * b + 0.5 * a * c + 0.25 * a * b * c
    return np.stack([cells - 0.125, cells + 0.125], axis=-1)


LETTERS = {"a": "lh", "b": "lh", "c": "lh"}


def test_three_factors_by_hand():
    found = factorial(three_factors(), LETTERS, replicates="repetitions")
    assert [row.source for row in found.anova] == [
        "a", "b", "c", "a × b", "a × c", "b × c", "a × b × c", "error"
    ]  # fmt: skip
    assert [row.sum_of_squares for row in found.anova] == [16, 64, 0, 0, 4, 0, 1, 0.25]
    assert [row.degrees for row in found.anova] == [1] * 7 + [8]
    assert found["b"].partial_eta_squared == 64 / 64.25
    assert found["b"].share == 64 / 85.25
    assert [effect.value for effect in found.effects["b"]] == [-2, 2]
    assert [effect.value for effect in found.terms["a × c"]] == [0.5, -0.5, -0.5, 0.5]
    assert found.terms["a × b × c"][-1].levels == ("h", "h", "h")
    assert found.terms["a × b × c"][-1].value == 0.25
    text = str(found)
    for part in ("a h × c l", "a × b × c", "c h", "2 repetitions of each cell"):
        assert part in text
    record = found.to_dict()
    assert record["interactions"][-1]["source"] == "a × b × c"
    assert len(record["interactions"]) == 4 + 4 + 4 + 8
    assert len(found.rows()) == 8
    assert found._records()[3] == {
        "a": "l", "b": "l", "c": "h", "fold": "1", "repetition": 2, "value": 6.875
    }  # fmt: skip


def test_interactions_above_the_order_share_a_row():
    found = factorial(three_factors(), LETTERS, replicates="repetitions", order=1)
    rows = {row.source: (row.sum_of_squares, row.degrees) for row in found.anova}
    assert rows == {
        "a": (16, 1), "b": (64, 1), "c": (0, 1), "higher interactions": (5, 4), "error": (0.25, 8)
    }  # fmt: skip
    assert list(found.terms) == ["a", "b", "c"]
    assert found["higher interactions"].f == (5 / 4) / (0.25 / 8)
    whole = factorial(three_factors(), LETTERS, replicates="repetitions", order=3)
    assert "higher interactions" not in [row.source for row in whole.anova]
    for order in (0, 4, 1.5):
        with pytest.raises(ParameterError, match="order must be a whole number between 1 and 3"):
            factorial(three_factors(), LETTERS, order=order)


def test_folds_are_blocks_by_hand():
    # Cells (1, 3) and (5, 11) as below; fold 2 is 10 above fold 1, and ±1 is what cells do differently there.
    cells = np.array([[1.0, 3], [5, 11]])
    errors = np.array([[1.0, -1], [-1, 1]])
    values = np.stack([cells - 5 + errors, cells + 5 - errors], axis=-1)
    found = factorial(values, {"loss": ["l", "m"], "rate": [0.1, 0.2]}, folds=["F1", "F2"])
    rows = {row.source: (row.sum_of_squares, row.degrees) for row in found.anova}
    assert rows == {
        "loss": (72, 1), "rate": (32, 1), "loss × rate": (8, 1), "fold": (200, 1), "error": (8, 3)
    }  # fmt: skip
    assert found["loss"].f == 72 / (8 / 3)
    assert found["loss"].share == 72 / 320
    assert found["loss"].partial_eta_squared == 72 / 80
    assert math.isnan(found["fold"].p)
    # an effect's deviation is √(8/3 · 1/8), with t(3, 0.975) = 3.1824; the mean's √(200 / 8), with t(1, 0.975) = 12.7062
    assert found.effects["loss"][1].interval == pytest.approx(
        (3 - 3.1824 / math.sqrt(3), 3 + 3.1824 / math.sqrt(3)), abs=1e-4
    )
    assert found.mean.interval == pytest.approx((5 - 12.7062 * 5, 5 + 12.7062 * 5), abs=1e-3)
    assert "blocks: 2 folds; error: treatment × fold" in found.notes
    assert set(found.critical()) == {"loss", "rate", "loss × rate"}
    at_a_tenth = factorial(values, level=0.1)
    assert "90 % interval" in str(at_a_tenth)
    low, high = at_a_tenth.effects["A"][1].interval
    assert (low, high) == pytest.approx((3 - 2.3534 / math.sqrt(3), 3 + 2.3534 / math.sqrt(3)), abs=1e-4)  # fmt: skip


def test_a_difference_between_folds_moves_no_test(rng):
    values = rng.random((2, 3, 4))
    shifted = values + 10 * rng.random(4)
    for one, other in zip(factorial(values).anova, factorial(shifted).anova, strict=True):
        if one.source != "fold":
            assert other.sum_of_squares == pytest.approx(one.sum_of_squares, rel=1e-9)
            assert other.p == pytest.approx(one.p, rel=1e-9, nan_ok=True)


def test_repetitions_are_averaged_first(rng):
    fits = rng.random((2, 3, 4, 5))
    fits[0, 1, 2, 3:] = np.nan  # three repetitions of this cell and fold, five of the others
    names = {"a": range(2), "b": range(3)}
    found, of_means = factorial(fits, names), factorial(np.nanmean(fits, axis=-1), names)
    for one, other in zip(found.anova, of_means.anova, strict=True):
        assert one.source == other.source
        assert one.sum_of_squares == pytest.approx(other.sum_of_squares, rel=1e-9)
        assert one.p == pytest.approx(other.p, rel=1e-9, nan_ok=True)
    assert "blocks: 4 folds, each value the mean of 3 to 5 repetitions" in str(found)
    assert len(found._records()) == 2 * 3 * 4 * 5 - 2
    assert found.to_dict()["replicates"] == 4


@pytest.mark.parametrize("repetitions", [1, 30])
def test_the_level_is_held_whatever_the_number_of_repetitions(repetitions, rng):
    # No effects; folds differ (1), cells differ between folds (0.3), seeds hardly matter (0.05). 400 designs: the share
    # of p < .05 has a standard error of 1.1 %. With every fit as a replicate it was 0 % and 29 %.
    n_rejected = 0
    for _ in range(400):
        of_folds = rng.normal(0, 1, 5) + rng.normal(0, 0.3, (2, 2, 5))
        fits = of_folds[..., np.newaxis] + rng.normal(0, 0.05, (2, 2, 5, repetitions))
        n_rejected += factorial(fits, {"a": "lh", "b": "lh"})["a"].p < 0.05
    assert 0.02 < n_rejected / 400 < 0.085


def test_one_fold_has_no_error_term():
    values = np.array([[[1.0], [3]], [[5], [11]]])
    found = factorial(values)
    assert [effect.value for effect in found.effects["A"]] == [-3, 3]
    assert [row.source for row in found.anova] == ["A", "B", "A × B", "fold", "error"]
    assert found["A"].share == 9 / 14
    assert all(math.isnan(row.p) for row in found.anova)
    assert math.isnan(found.effects["A"][0].interval[0])
    assert not found.effects["A"][0].is_clear
    assert math.isnan(found.mean.interval[0])
    assert all(math.isnan(f) for f in found.critical().values())
    text = str(found)
    assert "no F and no p: one fold gives no error term; pass folds (--folds; make_folds" in text
    assert "significant" not in text


def test_folds_without_a_value_of_a_cell_are_left_out(rng):
    values = rng.random((2, 2, 4))
    values[1, 0, 2] = np.nan
    found = factorial(values, folds=["F1", "F2", "F3", "F4"])
    assert "left out, since not every cell has a value: fold F3" in found.notes
    assert str(found.rows()) == str(factorial(values[..., [0, 1, 3]]).rows())
    with pytest.raises(
        DataError, match="no fold has a value of every cell: that of levels 1 and 1"
    ):
        factorial(np.full((2, 2, 2), np.nan))
    by_repetition = factorial(values, replicates="repetitions")
    assert "left out, since not every cell has a value: repetition 3" in by_repetition.notes


def test_folds_of_one_block_count_once(rng):
    values = rng.random((2, 3, 4))
    twice = factorial(np.concatenate([values, values], axis=-1), blocks="abcdabcd")
    assert str(twice.rows()) == str(factorial(values).rows())
    assert (
        "8 folds have 4 different test parts: folds with the same one count as one" in twice.notes
    )
    assert len(twice._records()) == 2 * 3 * 8


def test_repetitions_that_are_refits_are_no_replicates(rng):
    values = rng.random((2, 2, 3))
    values[0, 0] = values[0, 0, 0]
    found = factorial(values, replicates="repetitions")
    assert all(math.isnan(row.p) for row in found.anova)
    assert "all repetitions of 1 cell are equal" in str(found)


def test_the_sums_of_squares_of_td2003():
    # F = (SS / degrees) / (.004200 / 72): .002363 / .00005833 = 40.5, .001933 / … = 33.1, .001734 / … = 29.7.
    # The paper divides by 18 · SSE instead of SSE / 72, so that its F are 1,296 times too small.
    a, b, both, error = analysis_of_variance(TD2003, TD2003_DEGREES)
    assert [round(row.f, 1) for row in (a, b, both)] == [40.5, 33.1, 29.7]
    assert max(row.p for row in (a, b, both)) < 1e-7
    assert error.mean_square == pytest.approx(0.0042 / 72)
    assert math.isnan(error.f)
    shares = [100 * row.share for row in (a, b, both, error)]
    assert shares == pytest.approx([13.455, 33.015, 29.613, 23.917], abs=5e-3)  # as printed there
    assert a.f / (TD2003["A"] / (18 * TD2003["error"])) == pytest.approx(1296)


def test_values_made_to_have_the_sums_of_td2003(rng):
    # 2 × 4 × 10 values from effects and errors that are scaled to those sums.
    a = np.array([1.0, -1.0])[:, np.newaxis, np.newaxis] * np.ones((2, 4, 10))
    b = np.array([1.0, 2, -4, 1])[np.newaxis, :, np.newaxis] * np.ones((2, 4, 10))
    both = a * np.array([1.0, -1, 2, -2])[np.newaxis, :, np.newaxis]
    noise = rng.normal(size=(2, 4, 10))
    noise -= noise.mean(axis=2, keepdims=True)
    parts = [
        part * math.sqrt(wanted / np.square(part).sum())
        for part, wanted in zip((a, b, both, noise), TD2003.values(), strict=True)
    ]
    found = factorial(0.5 + sum(parts), replicates="repetitions")
    assert [row.degrees for row in found.anova] == [1, 3, 3, 72]
    assert [round(row.f, 1) for row in found.anova[:3]] == [40.5, 33.1, 29.7]
    assert found["A"].share == pytest.approx(0.002363 / sum(TD2003.values()))


# Sá (2016): means of gradient, median, absolute and height, each out of bag and by training samples (table 6.4); sum of
# squares of the errors (6.7); shares of validation set, loss, interactions and errors in percent (6.6).
PRINTED = {
    "TD2003": (
        [[0.2817651363, 0.280847105], [0.2800920993, 0.2684889027], [0.2866742102, 0.2923861856], [0.2848318632, 0.2481608478]],
        0.004200, (13.45, 33.01, 29.61, 23.91),
    ),
    "TD2004": (
        [[0.2530611972, 0.2546295395], [0.2603905641, 0.218422483], [0.2638140393, 0.2647743971], [0.2596135105, 0.250517533]],
        0.001281, (17.46, 37.62, 37.31, 7.59),
    ),
    "Yahoo": ([[0.71727, 0.71935], [0.70854, 0.70941], [0.70632, 0.70734], [0.70377, 0.71005]], 0.000611, (4.99, 68.05, 3.67, 23.27)),
    "Yahoo, 5 folds": (
        [[0.725176, 0.726496], [0.709148, 0.709148], [0.705106, 0.707538], [0.703196, 0.703096]], 3.29208e-06, (0.26, 99.32, 0.35, 0.05)
    ),
    "WEB10K": ([[0.45614, 0.455926], [0.435554, 0.435702], [0.434942, 0.434696], [0.428812, 0.42822]], 6.55216e-06, (0.01, 99.89, 0.01, 0.07)),
}  # fmt: skip
INTERACTIONS = {  # table 6.5, out of bag
    "TD2003": (-0.004976, 0.000366, -0.008291, 0.012900),
    "TD2004": (-0.006851, 0.014917, -0.006547, -0.00151),
    "Yahoo": (0.000241, 0.000846, 0.000771, -0.001858),
    "Yahoo, 5 folds": (-0.000203, 0.000456, -0.000759, 0.000506),
    "WEB10K": (-0.000004, -0.000186, 0.000011, 0.00018),
}


@pytest.mark.parametrize("collection", PRINTED)
def test_the_tables_of_the_paper(collection, rng):
    cells, squares, shares = PRINTED[collection]  # the sum has 3 digits, and so have shares
    noise = rng.normal(size=(4, 2, 10))
    noise -= noise.mean(axis=2, keepdims=True)
    values = np.array(cells)[..., np.newaxis] + noise * math.sqrt(squares / np.square(noise).sum())
    factors = {"loss": ["gradient", "median", "absolute", "height"], "validation": ["oob", "train"]}
    found = factorial(values, factors, replicates="repetitions")
    of_source = [found[name].share for name in ("validation", "loss", "loss × validation", "error")]
    assert [100 * share for share in of_source] == pytest.approx(shares, abs=0.05)
    assert [found["error"].degrees, found["loss"].degrees] == [72, 3]
    out_of_bag = [effect.value for effect in found.interactions[::2]]
    assert out_of_bag == pytest.approx(INTERACTIONS[collection], abs=1e-5)  # cut at 5 digits
    if collection == "TD2003":
        of_rows = [0.0034003269, -0.0036152927, 0.0116244041, -0.0114094383]
        assert [effect.value for effect in found.effects["loss"]] == pytest.approx(
            of_rows, abs=1e-9
        )
        assert found.effects["validation"][0].value == pytest.approx(0.0054350335, abs=1e-9)
        assert found.mean.value == pytest.approx(0.277905793754, abs=1e-10)


def test_effects_by_hand():
    # cells (1, 3) and (5, 11): mean 5; rows 2 - 5, 8 - 5; columns 3 - 5, 7 - 5; interaction 1 - 5 + 3 + 2 = 1.
    values = np.array([[[0.0, 2], [2, 4]], [[4, 6], [10, 12]]])
    found = factorial(
        values, {"loss": ["l", "m"], "rate": [0.1, 0.2]}, replicates="repetitions", response="map"
    )
    assert found.mean.value == 5
    assert [effect.value for effect in found.effects["loss"]] == [-3, 3]
    assert [effect.value for effect in found.effects["rate"]] == [-2, 2]
    assert [effect.value for effect in found.interactions] == [1, -1, -1, 1]
    assert found.interactions[1].levels == ("l", "0.2")
    # each value lies 1 from its cell's mean: SSE 8 with 4 degrees, so s² = 2, an effect's deviation √(2 · 1 / 8) = ½,
    # and t(4, 0.975) = 2.7764
    low, high = found.effects["loss"][1].interval
    assert (low, high) == pytest.approx((3 - 2.7764 / 2, 3 + 2.7764 / 2), abs=1e-4)
    assert found.effects["loss"][1].is_clear
    assert not found.interactions[0].is_clear
    assert found["loss"].sum_of_squares == 8 * 9
    assert found.cell_means().tolist() == [[1, 3], [5, 11]]


def test_tables_and_files(tmp_path):
    values = np.array([[[0.0, 2], [2, 4]], [[4, 6], [9, 13]]])
    found = factorial(values, {"loss": ["l", "m"], "rate": [0.1, 0.2]}, response="map")
    text = str(found)
    for part in (
        "mean map",
        "rate 0.2",
        "+3.0000",
        "loss × rate",
        "sum of squares",
        "F",
        "significant at",
    ):
        assert part in text
    assert found._repr_html_().count("<table>") == 3
    found.write_csv(tmp_path / "v.csv")
    lines = (tmp_path / "v.csv").read_text().splitlines()
    assert lines[:3] == ["loss,rate,fold,repetition,map", "l,0.1,1,1,0.0", "l,0.1,2,1,2.0"]
    assert len(lines) == 9
    assert found.to_dict()["anova"][0]["source"] == "loss"


@given(
    arrays(np.float64, (2, 3, 3), elements=st.floats(0, 1)),
    st.floats(-10, 10),
)
def test_a_shift_moves_the_mean_only_and_effects_sum_to_nothing(values, shift):
    one, other = factorial(values), factorial(values + shift)
    assert other.mean.value == pytest.approx(one.mean.value + shift)
    for before, after in zip(one.anova, other.anova, strict=True):
        assert after.sum_of_squares == pytest.approx(before.sum_of_squares, abs=1e-9)
    for effects in (*one.effects.values(), one.interactions):
        assert sum(effect.value for effect in effects) == pytest.approx(0, abs=1e-12)
    assert one.total == pytest.approx(np.square(values - values.mean()).sum(), abs=1e-12)


def test_without_error_there_is_no_test():
    sure = factorial(np.array([[[0.1, 0.3], [0.2, 0.4]], [[0.1, 0.3], [0.2, 0.4]]]))
    assert sure["error"].sum_of_squares == 0
    assert sure["B"].sum_of_squares > 0
    assert all(math.isnan(row.f) and math.isnan(row.p) for row in sure.anova)
    assert "no F and no p: cells differ by the same in all folds" in str(sure)
    flat = factorial(np.full((2, 2, 2), 0.7))
    assert all(math.isnan(row.p) for row in flat.anova)
    assert math.isnan(flat.anova[0].share)
    assert "–" in str(flat)


@pytest.mark.parametrize("n_folds", [1, 3])
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_effects_are_drawn(tmp_path, rng, n_folds, ending):
    found = factorial(rng.random((2, 3, 2, n_folds)), response="map")
    for name in ("one", "other"):
        found.plot(tmp_path / f"{name}.{ending}")
    drawn = (tmp_path / f"one.{ending}").read_bytes()
    assert len(drawn) > 5_000
    assert drawn == (tmp_path / f"other.{ending}").read_bytes()
    with pytest.raises(ParameterError, match=r"a plot must end in \.png"):
        found.plot(tmp_path / "plot.txt")


@pytest.mark.parametrize(
    ("values", "factors", "error", "message"),
    [
        (np.ones((2, 2)), None, DataError, "values of 2 factors have 3 dimensions .* got 2"),
        (np.ones((2, 1, 2)), None, DataError, "two levels or more, .* got 2 × 1 × 2"),
        (np.ones((2, 2, 0)), None, DataError, "one value at least; got 2 × 2 × 0"),
        (np.full((2, 2, 2), np.inf), None, DataError, "the value at 1, 1, 1, 1 is infinite"),
        ("text", None, DataError, "must be numbers"),
        (np.ones((2, 2, 2)), {"a": [1, 2]}, ParameterError, "two factors"),
        (np.ones((2, 2, 2)), {"a": [1, 2], "b": [1]}, ParameterError, "'b' has 1 levels"),
        (np.ones([2] * 5), {"a": [1, 2], "b": [1, 2]}, DataError, "or 4 .* got 5"),
        (np.ones((2, 2, 2)), {"a": [1, 2], "fold": [1, 2]}, ParameterError, "be called 'fold'"),
        (np.ones((2, 2, 2)), ["a", "b"], ParameterError, "two factors or more"),
        (np.ones([2] * 8), None, DataError, "at most 6 factors, got 7"),
        (np.ones((2, 2, 2)), {"a": [1, 2], "b": [1, 1]}, ParameterError, "a level twice"),
    ],
)
def test_what_is_no_design(values, factors, error, message):
    with pytest.raises(error, match=message):
        factorial(values, factors)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": ["F1"]}, "1 folds are named, but the values have 2"),
        ({"blocks": "abc"}, "3 folds are named, but the values have 2"),
        ({"folds": ["F1", "F1"]}, "a fold is named twice"),
        ({"replicates": "all"}, "refits of a deterministic ranker are the same model"),
        ({"replicates": "fold"}, "Did you mean 'folds'"),
        ({"level": 0}, "level must be in"),
    ],
)
def test_options_of_no_design(options, message, rng):
    with pytest.raises((ParameterError, UnknownName), match=message):
        factorial(rng.random((2, 2, 2)), **options)


# --- fits --------------------------------------------------------------------------------------------------------------

FACTORS = {"max_leaves": [2, 6], "n_trees": [1, 4]}


@pytest.fixture(scope="module")
def parts():
    data = rw.make_ranking(n_queries=40, docs_per_query=8, n_features=6, seed=1)
    return rw.split_queries(data, (0.5, 0.25, 0.25), seed=1)


def test_refits_of_a_deterministic_ranker_are_no_replicates():
    # Five models of each cell, whatever the number of repetitions: the evidence is the same, and so is p. Counting
    # every fit as a replicate made p fall without limit.
    folds = rw.make_folds(rw.make_ranking(30, 6, 5, seed=2), 5)
    factors = {"max_leaves": [2, 5], "learning_rate": [0.1, 0.5]}

    def design(repetitions):
        return factorial_design(
            rw.GBRT(2, features_per_node=None), factors, folds, repetitions=repetitions
        )

    once = design(1)
    assert [row.degrees for row in once.anova] == [1, 1, 1, 4, 12]
    assert all(0 < row.p < 1 for row in once.anova[:3])
    for repetitions in (2, 12):
        again = design(repetitions)
        assert [vars(row) for row in again.anova[:3]] == [vars(row) for row in once.anova[:3]]
        assert again.terms == once.terms
        assert "one repetition is enough" in str(again)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_what_is_not_random_is_fitted_once(parts, monkeypatch, n_threads):
    train, _, test = parts
    fits = []

    def counted(estimator, *arguments):
        fits.append(estimator.subsample)
        return fitted(estimator, *arguments)

    monkeypatch.setattr("rankwood.studies.fits.fitted", counted)
    factors = {"subsample": [0.5, 1.0], "max_leaves": [2, 5]}
    told = []
    found = factorial_design(
        *(rw.GBRT(2, features_per_node=None), factors, train, test),
        repetitions=3,
        n_threads=n_threads,
        progress=told.append,
    )
    assert sorted(fits) == [0.5] * 6 + [1.0] * 2
    assert len(told) == 2 * 2 * 3
    assert found.fits.shape == (2, 2, 1, 3)
    assert (found.fits[1] == found.fits[1, :, :, :1]).all()


def test_a_design_fits_every_pair_of_levels(parts):
    train, _, test = parts
    found = factorial_design(rw.RandomForest(), FACTORS, train, test, "map", repetitions=3)
    assert found.fits.shape == (2, 2, 1, 3)
    assert found.response == "map"
    # the second repetition of max_leaves=6, n_trees=1 is job 2 · 3 + 1
    model = fitted(rw.RandomForest(n_trees=1, max_leaves=6), train, None, 7, 1)
    assert found.fits[1, 0, 0, 1] == mean_value(parse_measure("map"), model.predict(test), test)
    again = factorial_design(
        rw.RandomForest(), FACTORS, train, test, "map", repetitions=3, n_threads=2
    )
    assert (again.fits == found.fits).all()


def test_the_same_test_data_eight_times_are_one_block():
    three = [tuple(fold) for fold in rw.make_folds(rw.make_ranking(30, 6, 5, seed=2), 5)][:3]
    factors = {"max_leaves": [2, 5], "learning_rate": [0.1, 0.5]}

    def p_values(given):
        found = factorial_design(rw.GBRT(2, features_per_node=None), factors, given, repetitions=1)
        return [row.p for row in found.anova[:3]], found

    expected, _ = p_values(three)
    found, result = p_values(three * 8)
    assert found == pytest.approx(expected, rel=1e-9)
    assert "24 folds have 3 different test parts" in str(result)
    _, alone = p_values(three[:1] * 8)
    assert "one fold gives no error term" in str(alone)


def test_folds_and_repetitions_as_replicates():
    folds = rw.make_folds(rw.make_ranking(n_queries=18, docs_per_query=6, n_features=5, seed=2), 3)

    def design(**options):
        return factorial_design(rw.RandomForest(), FACTORS, folds, repetitions=2, **options)

    found = design()
    assert found.folds == folds.names
    assert found.fits.shape == (2, 2, 3, 2)
    assert found.replicates == "folds"
    assert np.allclose(found.values, found.fits.mean(axis=3))
    assert found["error"].degrees == 3 * 2
    by_repetition = design(replicates="repetitions")
    assert (by_repetition.fits == found.fits).all()
    assert np.allclose(by_repetition.values, found.fits.mean(axis=2))
    assert by_repetition["error"].degrees == 4
    assert design(order=1)["higher interactions"].p == found["max_leaves × n_trees"].p
    with pytest.raises(ParameterError, match="let folds be the replicates: replicates='folds'"):
        factorial_design(rw.RandomForest(), FACTORS, folds, repetitions=1, replicates="repetitions")


def test_the_degrees_of_the_papers_design(rng):
    # four losses, two validation sets, ten repetitions: 72 degrees of freedom of the error, as printed in table 6.7
    found = factorial(rng.random((4, 2, 10)), replicates="repetitions")
    assert [row.degrees for row in found.anova] == [3, 1, 3, 72]
    # column F-Table of table 6.7
    assert found.critical() == pytest.approx(
        {"A": 2.731807, "B": 3.973896, "A × B": 2.731807}, abs=1e-6
    )


COUPLED = {"loss": ["absolute", "gradient"], ("validation", "update_weights"): ["oob", "train"]}
BROOF = rw.BROOF(n_rounds=2, n_trees=3, max_leaves=4)


def cells_of(estimator, factors, where=()):
    return estimators_of_cells(estimator, factors, where)


def test_coupled_factors_vary_together(parts):
    names, cells = cells_of(BROOF, COUPLED)
    assert names == {
        "loss": ("absolute", "gradient"),
        "validation + update_weights": ("oob", "train"),
    }
    assert [(c.loss, c.validation, c.update_weights) for c in cells] == [
        ("absolute", "oob", "oob"),
        ("absolute", "train", "train"),
        ("gradient", "oob", "oob"),
        ("gradient", "train", "train"),
    ]
    pairs = {"n_trees": [1, 2], ("loss", "n_rounds"): [("absolute", 5), ("gradient", 2)]}
    names, cells = cells_of(BROOF, pairs)
    assert names["loss + n_rounds"] == ("absolute + 5", "gradient + 2")
    assert [(c.loss, c.n_rounds) for c in cells[:2]] == [("absolute", 5), ("gradient", 2)]
    train, _, test = parts
    found = factorial_design(BROOF, COUPLED, train, test, repetitions=2)
    assert "validation + update_weights" in str(found)
    assert found["loss × validation + update_weights"].degrees == 1


def test_exceptions_are_set_where_a_cell_has_the_levels():
    where = [({"loss": "gradient"}, {"update_weights": None, "n_rounds": 7})]
    _, cells = cells_of(BROOF, COUPLED, where)
    assert [(c.validation, c.update_weights, c.n_rounds) for c in cells] == [
        ("oob", "oob", 2),
        ("train", "train", 2),
        ("oob", None, 7),
        ("train", None, 7),
    ]


@pytest.mark.parametrize(
    ("factors", "where", "error", "message"),
    [
        ({**COUPLED, "validation": ["oob", "train"]}, (), ParameterError, "validation is in two"),
        ({"loss": ["absolute", "gradient"], ("validation", "n_round"): [1, 2]}, (), UnknownName, "Did you mean 'n_rounds'"),
        ({"n_trees": [1, 2], ("loss", "n_rounds"): [("absolute", 5, 6), 2]}, (), ParameterError, "one value for all, or 2 values"),
        (COUPLED, [({"loss": "median"}, {"n_rounds": 1})], UnknownName, "level of loss 'median'"),
        (COUPLED, [({"n_trees": 3}, {"n_rounds": 1})], UnknownName, "parameter of a factor 'n_trees'"),
        (COUPLED, [({"loss": "gradient"}, {"n_round": 1})], UnknownName, "Did you mean 'n_rounds'"),
        (COUPLED, [({"loss": "gradient"}, {})], ParameterError, "one of the two is empty"),
        (COUPLED, [3], ParameterError, "pairs of mappings"),
        (COUPLED, [({"loss": "gradient"}, {"validation": "oob", "update_weights": None})], ParameterError, "the same ranker"),
        ({name: [1, 2] for name in ("n_rounds", "n_trees", "max_leaves", "max_depth", "min_leaf", "n_folds", "seed")}, (), ParameterError, "at most 6 factors"),
    ],
)  # fmt: skip
def test_factors_and_exceptions_that_are_none(factors, where, error, message):
    with pytest.raises(error, match=message):
        cells_of(BROOF, factors, where)


@pytest.mark.parametrize(
    ("factors", "options", "error", "message"),
    [
        ({"max_leaves": [2, 6]}, {}, ParameterError, "two parameters"),
        ({"max_leafs": [2, 6], "n_trees": [1, 2]}, {}, UnknownName, "Did you mean 'max_leaves'"),
        ({"max_leaves": [2, 2], "n_trees": [1, 2]}, {}, ParameterError, "two different values"),
        ({"max_leaves": "26", "n_trees": [1, 2]}, {}, ParameterError, "two different values"),
        ({"max_leaves": [2, -6], "n_trees": [1, 2]}, {}, ParameterError, "max_leaves"),
        (
            FACTORS,
            {"repetitions": 1, "replicates": "repetitions"},
            ParameterError,
            "one replicate of each cell",
        ),
        (FACTORS, {"order": 3}, ParameterError, "order must be a whole number between 1 and 2"),
        (FACTORS, {"replicates": "fold"}, UnknownName, "Did you mean 'folds'"),
    ],
)
def test_what_is_no_design_of_fits(parts, factors, options, error, message):
    train, _, test = parts
    with pytest.raises(error, match=message):
        factorial_design(rw.RandomForest(), factors, train, test, **options)


def test_a_design_is_of_one_estimator(parts):
    with pytest.raises(ParameterError, match="of one estimator"):
        factorial_design({"a": rw.RandomForest()}, FACTORS, parts[0], parts[2])


KILLED = """
import os, signal, sys
import rankwood as rw
data = rw.make_ranking(20, 6, 4, seed=1)
def kill(news):
    print(news.iteration, flush=True)
    if news.iteration == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
factors = {"n_trees": [1, 3], "max_leaves": [3, 5]}
result = rw.factorial_design(rw.RandomForest(), factors, data, data, repetitions=2, n_threads=1,
                             progress=kill, checkpoint=sys.argv[1])
print(result.fits.tolist())
"""


@pytest.mark.slow
def test_a_killed_design_goes_on(tmp_path):
    def run(path, moment):
        arguments = [sys.executable, "-c", KILLED, str(tmp_path / path), str(moment)]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        return subprocess.run(
            arguments, check=False, capture_output=True, text=True, env=environment
        )

    killed = run("checkpoint", 5)
    assert killed.returncode == -signal.SIGKILL
    assert killed.stdout.split() == ["1", "2", "3", "4", "5"]
    resumed = run("checkpoint", 0).stdout.splitlines()
    assert resumed[:-1] == ["6", "7", "8"]
    assert resumed[-1] == run("other", 0).stdout.splitlines()[-1]


def test_an_interrupted_design_goes_on(parts, tmp_path):
    train, _, test = parts
    path = tmp_path / "checkpoint"

    def interrupt(news):
        if news.iteration == 3:
            raise KeyboardInterrupt

    def design(estimator=None, factors=FACTORS, data=train, **options):
        ranker = rw.RandomForest() if estimator is None else estimator
        return factorial_design(ranker, factors, data, test, "map", **{"repetitions": 2, **options})

    whole = design()
    with pytest.raises(KeyboardInterrupt):
        design(checkpoint=path, progress=interrupt, n_threads=1)
    seen = []
    found = design(checkpoint=path, progress=seen.append)
    assert seen[0].iteration == 4
    assert str(found) == str(whole)
    assert (found.fits == whole.fits).all()
    options = {"level": 0.01, "replicates": "repetitions", "order": 1}  # the fits are the same
    again = design(checkpoint=path, progress=seen.append, **options)
    assert again.level == 0.01
    assert (again.fits == whole.fits).all()
    assert seen[-1].iteration == seen[-1].total == len(seen) + 3
    with pytest.raises(ModelError, match="made with repetitions=2, not 3"):
        design(checkpoint=path, repetitions=3)
    with pytest.raises(ModelError, match="made with estimator="):
        design(rw.RandomForest(seed=1), checkpoint=path)
    with pytest.raises(ModelError, match="made with factors="):
        design(factors=dict(reversed(list(FACTORS.items()))), checkpoint=path)
    with pytest.raises(ModelError, match="made on other data"):
        design(data=test, checkpoint=path)
