"""Factorial designs have the analysis of variance, and the intervals, of statsmodels' linear models.

With folds as blocks the peer's model is treatments + fold, fitted to the means of the repetitions; its residuals are
treatment × fold. All figures agree to a relative 1e-9.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rankwood.studies.factorial import factorial

pd = pytest.importorskip("pandas")
sm = pytest.importorskip("statsmodels.api")
ols = pytest.importorskip("statsmodels.formula.api").ols

pytestmark = pytest.mark.jit_only  # no kernels of its own
LETTERS = "PQRS"  # C is patsy's own
SHAPES = [(2, 2), (4, 2), (3, 5), (2, 2, 2), (2, 3, 2), (2, 2, 3, 2)]


def unbalanced_fits(rng, levels, n_folds=5, n_repetitions=4):
    """Values by levels, fold and repetition with effects of all; from 1 to all repetitions of a cell and fold are there."""
    treatments = rng.normal(0, 0.05, levels)[..., np.newaxis]
    by_fold = (
        0.5 + treatments + rng.normal(0, 0.2, n_folds) + rng.normal(0, 0.05, (*levels, n_folds))
    )
    fits = by_fold[..., np.newaxis] + rng.normal(0, 0.02, (*levels, n_folds, n_repetitions))
    counts = rng.integers(1, n_repetitions + 1, (*levels, n_folds, 1))
    return np.where(np.arange(n_repetitions) < counts, fits, np.nan)


def frame_of(fits):
    """A row per fit that is there: levels, fold, repetition, value."""
    columns = [*LETTERS[: fits.ndim - 2], "fold", "repetition", "y"]
    rows = [(*at, y) for at, y in np.ndenumerate(fits) if not np.isnan(y)]
    return pd.DataFrame(rows, columns=columns)


def model_of(frame, n_factors, blocks):
    terms = " * ".join(f"C({name}, Sum)" for name in LETTERS[:n_factors])
    return ols(f"y ~ {terms}" + (" + C(fold, Sum)" if blocks else ""), data=frame).fit()


def factors_of(levels):
    return {name: range(n) for name, n in zip(LETTERS, levels, strict=False)}


def term_of(source):
    if source in ("fold", "error"):
        return {"fold": "C(fold, Sum)", "error": "Residual"}[source]
    return ":".join(f"C({name}, Sum)" for name in source.split(" × "))


def assert_same_analysis(found, model):
    theirs = sm.stats.anova_lm(model, typ=2)
    assert len(found.anova) == len(theirs)
    error = theirs.loc["Residual", "sum_sq"]
    for row in found.anova:
        peer = theirs.loc[term_of(row.source)]
        assert row.sum_of_squares == pytest.approx(peer["sum_sq"], rel=1e-9)
        assert row.degrees == peer["df"]
        assert row.share == pytest.approx(peer["sum_sq"] / theirs["sum_sq"].sum(), rel=1e-9)
        if row.source not in ("fold", "error"):
            assert row.f == pytest.approx(peer["F"], rel=1e-9)
            assert row.p == pytest.approx(peer["PR(>F)"], rel=1e-9)
            partial = peer["sum_sq"] / (peer["sum_sq"] + error)
            assert row.partial_eta_squared == pytest.approx(partial, rel=1e-9)


@pytest.mark.parametrize("levels", SHAPES)
def test_blocked_designs(levels, rng):
    fits = unbalanced_fits(rng, levels)
    by = [*LETTERS[: len(levels)], "fold"]
    means = frame_of(fits).groupby(by, as_index=False)["y"].mean()
    found = factorial(fits, factors_of(levels))
    assert found["error"].degrees == (np.prod(levels) - 1) * 4
    assert_same_analysis(found, model_of(means, len(levels), blocks=True))


@pytest.mark.parametrize("levels", SHAPES)
def test_designs_with_replication(levels, rng):
    values = rng.normal(0.5, 0.1, (*levels, 6)) + rng.normal(0, 0.05, levels)[..., np.newaxis]
    found = factorial(values, factors_of(levels), replicates="repetitions")
    frame = frame_of(values[..., np.newaxis, :])
    assert_same_analysis(found, model_of(frame, len(levels), blocks=False))


@pytest.mark.parametrize("levels", [(2, 2), (3, 4), (2, 3, 2)])
@pytest.mark.parametrize("level", [0.05, 0.2])
def test_intervals_of_effects(levels, level, rng):
    # Coefficients of contrasts that sum to 0 are the effects of all levels but the last.
    fits = unbalanced_fits(rng, levels)
    by = [*LETTERS[: len(levels)], "fold"]
    model = model_of(frame_of(fits).groupby(by, as_index=False)["y"].mean(), len(levels), True)
    found = factorial(fits, factors_of(levels), level=level)
    intervals = model.conf_int(level)
    n_compared = 0
    for source, effects in found.terms.items():
        names = source.split(" × ")
        for effect in effects:
            parts = zip(names, effect.levels, strict=True)
            coefficient = ":".join(f"C({name}, Sum)[S.{at}]" for name, at in parts)
            if coefficient in model.params:
                assert effect.value == pytest.approx(model.params[coefficient], rel=1e-9, abs=1e-14)
                theirs = intervals.loc[coefficient].tolist()
                assert effect.interval == pytest.approx(theirs, rel=1e-9, abs=1e-14)
                n_compared += 1
    assert n_compared == np.prod(levels) - 1


def test_higher_interactions_are_the_sum_of_theirs(rng):
    fits = unbalanced_fits(rng, (2, 3, 2))
    means = frame_of(fits).groupby([*"PQR", "fold"], as_index=False)["y"].mean()
    theirs = sm.stats.anova_lm(model_of(means, 3, blocks=True), typ=2)
    row = factorial(fits, factors_of((2, 3, 2)), order=1)["higher interactions"]
    terms = [
        term_of(" × ".join(names)) for n in (2, 3) for names in itertools.combinations("PQR", n)
    ]
    squares, degrees = theirs.loc[terms, "sum_sq"].sum(), theirs.loc[terms, "df"].sum()
    error = theirs.loc["Residual"]
    assert row.degrees == degrees
    assert row.f == pytest.approx(squares / degrees / (error["sum_sq"] / error["df"]), rel=1e-9)
