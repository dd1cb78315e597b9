"""The two-factor design against statsmodels, a textbook case, and sums of squares printed in a paper."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from statsmodels.formula.api import ols

import rankwood as rw
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import parse_measure
from rankwood.studies.factorial import (
    _cells,
    analysis_of_variance,
    factorial,
    factorial_design,
)
from rankwood.studies.fits import fitted

pytestmark = pytest.mark.jit_only  # no kernels of its own

# TD2003, Sá (2016), Table 6.7: sums of squares of validation (2 levels), loss (4), their interaction and the error.
TD2003 = {"A": 0.002363, "B": 0.005798, "A × B": 0.005201, "error": 0.004200}
TD2003_DEGREES = {"A": 1, "B": 3, "A × B": 3, "error": 72}


def of_statsmodels(values):
    names = "PQRS"[: values.ndim - 1]  # C is patsy's own
    frame = pd.DataFrame([(*at[:-1], y) for at, y in np.ndenumerate(values)], columns=[*names, "y"])
    formula = "y ~ " + " * ".join(f"C({name})" for name in names)
    return sm.stats.anova_lm(ols(formula, data=frame).fit(), typ=2)


@pytest.mark.parametrize("shape", [(2, 2, 2), (2, 4, 10), (3, 5, 4), (2, 3, 2, 3), (2, 2, 3, 2, 2)])
def test_the_analysis_of_variance_is_that_of_statsmodels(shape, rng):
    values = rng.normal(0.5, 0.1, shape) + 0.1 * rng.normal(
        size=(shape[0], *[1] * (len(shape) - 1))
    )
    found, expected = factorial(values), of_statsmodels(values)
    letters = dict(zip("ABCD", "PQRS", strict=True))
    for row in found.anova:
        terms = [f"C({letters[name]})" for name in row.source.split(" × ") if name in letters]
        theirs = expected.loc[":".join(terms) or "Residual"]
        assert row.sum_of_squares == pytest.approx(theirs["sum_sq"])
        assert row.degrees == theirs["df"]
        if row.source != "error":
            assert row.f == pytest.approx(theirs["F"])
            assert row.p == pytest.approx(theirs["PR(>F)"])
    assert len(found.anova) == len(expected)
    assert found.total == pytest.approx(np.square(values - values.mean()).sum())
    assert sum(row.share for row in found.anova) == pytest.approx(1.0)


def test_three_factors_by_hand():
    # Contrasts of ±1: A adds ±1, B ±2, A with C ±½, all three ±¼; replicates lie 1/8 from their cell's mean.
    a, b, c = np.meshgrid([-1, 1], [-1, 1], [-1, 1], indexing="ij")
    cells = 10 + a + 2 * b + 0.5 * a * c + 0.25 * a * b * c
    found = factorial(
        np.stack([cells - 0.125, cells + 0.125], axis=-1), {"a": "lh", "b": "lh", "c": "lh"}
    )
    assert [row.source for row in found.anova] == [
        "a", "b", "c", "a × b", "a × c", "b × c", "a × b × c", "error"
    ]  # fmt: skip
    assert [row.sum_of_squares for row in found.anova] == [16, 64, 0, 0, 4, 0, 1, 0.25]
    assert [row.degrees for row in found.anova] == [1] * 7 + [8]
    assert [effect.value for effect in found.effects["b"]] == [-2, 2]
    assert [effect.value for effect in found.terms["a × c"]] == [0.5, -0.5, -0.5, 0.5]
    assert found.terms["a × b × c"][-1].levels == ("h", "h", "h")
    assert found.terms["a × b × c"][-1].value == 0.25
    text = str(found)
    for part in ("a h × c l", "a × b × c", "c h", "2 replicates of each combination of levels"):
        assert part in text
    record = found.to_dict()
    assert record["interactions"][-1]["source"] == "a × b × c"
    assert len(record["interactions"]) == 4 + 4 + 4 + 8
    assert len(found.rows()) == 8
    assert found._records()[3] == {"a": "l", "b": "l", "c": "h", "replicate": 2, "value": 6.875}


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
    found = factorial(0.5 + sum(parts))
    assert [row.degrees for row in found.anova] == [1, 3, 3, 72]
    assert [round(row.f, 1) for row in found.anova[:3]] == [40.5, 33.1, 29.7]
    assert found["A"].share == pytest.approx(0.002363 / sum(TD2003.values()))


def test_effects_by_hand():
    # cells (1, 3) and (5, 11): mean 5; rows 2 - 5, 8 - 5; columns 3 - 5, 7 - 5; interaction 1 - 5 + 3 + 2 = 1.
    values = np.array([[[0.0, 2], [2, 4]], [[4, 6], [10, 12]]])
    found = factorial(values, {"loss": ["l", "m"], "rate": [0.1, 0.2]}, response="map")
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
    values = np.array([[[0.0, 2], [2, 4]], [[4, 6], [10, 12]]])
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
    assert lines[:2] == ["loss,rate,replicate,map", "l,0.1,1,0.0"]
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


def test_without_error_f_is_infinite_and_without_variation_it_is_nothing():
    sure = factorial(np.array([[[0.1] * 3, [0.2] * 3], [[0.1] * 3, [0.2] * 3]]))
    assert sure["B"].f == math.inf
    assert sure["B"].p == 0
    assert math.isnan(sure["A"].f)
    assert "replicates do not differ" in str(sure)
    flat = factorial(np.full((2, 2, 2), 0.7))
    assert all(math.isnan(row.p) for row in flat.anova)
    assert math.isnan(flat.anova[0].share)
    assert "–" in str(flat)


@pytest.mark.parametrize(
    ("values", "factors", "error", "message"),
    [
        (np.ones((2, 2)), None, DataError, "three dimensions"),
        (np.ones((2, 1, 2)), None, DataError, "two levels or more, got 2 and 1"),
        (np.ones((2, 2, 1)), None, DataError, "needs replication"),
        (np.full((2, 2, 2), np.nan), None, DataError, "replicate 1, is not a finite number"),
        ("text", None, DataError, "must be numbers"),
        (np.ones((2, 2, 2)), {"a": [1, 2]}, ParameterError, "two factors"),
        (np.ones((2, 2, 2)), {"a": [1, 2], "b": [1]}, ParameterError, "'b' has 1 levels"),
        (np.ones((2, 2, 2, 2)), {"a": [1, 2], "b": [1, 2]}, ParameterError, "three factors"),
        (np.ones([2] * 8), None, DataError, "at most 6 factors, got 7"),
        (np.ones((2, 2, 2)), {"a": [1, 2], "b": [1, 1]}, ParameterError, "a level twice"),
    ],
)
def test_what_is_no_design(values, factors, error, message):
    with pytest.raises(error, match=message):
        factorial(values, factors)


# --- fits --------------------------------------------------------------------------------------------------------------

FACTORS = {"max_leaves": [2, 6], "n_trees": [1, 4]}


@pytest.fixture(scope="module")
def parts():
    data = rw.make_ranking(n_queries=40, docs_per_query=8, n_features=6, seed=1)
    return rw.split_queries(data, (0.5, 0.25, 0.25), seed=1)


def test_a_design_fits_every_pair_of_levels(parts):
    train, _, test = parts
    found = factorial_design(rw.RandomForest(), FACTORS, train, test, "map", repetitions=3)
    assert found.values.shape == (2, 2, 3)
    assert found.response == "map"
    # the second repetition of max_leaves=6, n_trees=1 is job 2 · 3 + 1
    model = fitted(rw.RandomForest(n_trees=1, max_leaves=6), train, None, 7, 1)
    assert found.values[1, 0, 1] == mean_value(parse_measure("map"), model.predict(test), test)
    again = factorial_design(
        rw.RandomForest(), FACTORS, train, test, "map", repetitions=3, n_threads=2
    )
    assert (again.values == found.values).all()


def test_folds_and_repetitions_as_replicates():
    data = rw.make_ranking(n_queries=18, docs_per_query=6, n_features=5, seed=2)
    folds = rw.make_folds(data, 3)

    def design(replicates):
        return factorial_design(
            rw.RandomForest(), FACTORS, folds, repetitions=2, replicates=replicates
        ).values

    everything = design("all").reshape(2, 2, 3, 2)
    assert np.allclose(design("folds"), everything.mean(axis=3))
    assert np.allclose(design("repetitions"), everything.mean(axis=2))


def test_repetitions_are_the_replicates_by_default():
    data = rw.make_ranking(n_queries=18, docs_per_query=6, n_features=5, seed=2)
    folds = rw.make_folds(data, 3)
    found = factorial_design(rw.RandomForest(), FACTORS, folds, repetitions=2)
    assert found.values.shape == (2, 2, 2)
    asked = factorial_design(
        rw.RandomForest(), FACTORS, folds, repetitions=2, replicates="repetitions"
    )
    assert (found.values == asked.values).all()
    with pytest.raises(ParameterError, match="let folds be the replicates: replicates='folds'"):
        factorial_design(rw.RandomForest(), FACTORS, folds, repetitions=1)


def test_the_degrees_of_the_papers_design(rng):
    # four losses, two validation sets, ten repetitions: 72 degrees of freedom of the error, as printed in table 6.7
    found = factorial(rng.random((4, 2, 10)))
    assert [row.degrees for row in found.anova] == [3, 1, 3, 72]
    # column F-Table of table 6.7
    assert found.critical() == pytest.approx(
        {"A": 2.731807, "B": 3.973896, "A × B": 2.731807}, abs=1e-6
    )


COUPLED = {"loss": ["absolute", "gradient"], ("validation", "update_weights"): ["oob", "train"]}
BROOF = rw.BROOF(n_rounds=2, n_trees=3, max_leaves=4)


def cells_of(estimator, factors, where=()):
    return _cells(estimator, factors, where)


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
        (FACTORS, {"repetitions": 1}, ParameterError, "one replicate of each cell"),
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
print(result.values.tolist())
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
    assert found.to_dict() == whole.to_dict()
    again = design(checkpoint=path, progress=seen.append, level=0.01)  # the fits are the same
    assert again.level == 0.01
    assert seen[-1].iteration == seen[-1].total == len(seen) + 3
    with pytest.raises(ModelError, match="made with repetitions=2, not 3"):
        design(checkpoint=path, repetitions=3)
    with pytest.raises(ModelError, match="made with estimator="):
        design(rw.RandomForest(seed=1), checkpoint=path)
    with pytest.raises(ModelError, match="made with factors="):
        design(factors=dict(reversed(list(FACTORS.items()))), checkpoint=path)
    with pytest.raises(ModelError, match="made on other data"):
        design(data=test, checkpoint=path)
