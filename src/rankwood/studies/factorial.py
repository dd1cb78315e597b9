"""``factorial`` and ``factorial_design``: the effects of two parameters, of their interaction and of chance.

A two-factor full factorial design with replication (Jain, *The Art of Computer Systems Performance Analysis*, 1991,
chapter 22). The model of a response is

    y[a, b, replicate] = mean + effect of a + effect of b + interaction of a and b + error

where the effects of a factor's levels sum to 0, and so do the interactions over each level. The sum of squares about
the mean, the *variation*, is the sum of four parts; each part's share of it is the *allocation of variation*. A part's
mean square is its sum of squares divided by its degrees of freedom, and F is that divided by the error's mean square.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood._core import checks
from rankwood._core.threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.intervals import Interval
from rankwood.evaluation.results import Result, Tables, show_interval, show_p, write_page
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, parse_measure
from rankwood.rankers.base import Ranker, check_parameters
from rankwood.studies.fits import (
    digest_of_folds,
    estimators_by_name,
    fitted,
    folds_of,
    measure_fits,
    parts_of,
)
from rankwood.training.checkpoint import CheckpointFile, plain
from rankwood.training.rounds import Callback, check_listeners

__all__ = ["AnovaRow", "Effect", "Factorial", "analysis_of_variance", "factorial"]

REPLICATES = ("all", "repetitions", "folds")
_ERROR = "error"
_CONFIDENCE = 0.95
_ROUNDING = 1e-13  # of the largest value: less is no effect


@dataclass(frozen=True)
class AnovaRow:
    """A source of variation: its sum of squares, their share of all, and F with its p value (NaN for the error)."""

    source: str
    sum_of_squares: float
    share: float
    degrees: int
    mean_square: float
    f: float
    p: float


@dataclass(frozen=True)
class Effect:
    """What a level, or a pair of levels, adds to the mean, with its 95 % interval."""

    levels: tuple[str, ...]
    value: float
    interval: Interval

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval[0] > 0.0 or self.interval[1] < 0.0


@dataclass(frozen=True, eq=False)
class Factorial(Result):
    """Effects, interactions, allocation of variation and analysis of variance of a two-factor design.

    ``effects`` are by factor; ``interactions`` go through the levels of the second factor within those of the first.
    ``anova`` has a row per factor, one of their interaction and one of the error.
    """

    factors: Mapping[str, tuple[str, ...]]
    values: Floats = field(repr=False)  # levels of one × levels of the other × replicates
    mean: Effect
    effects: Mapping[str, tuple[Effect, ...]]
    interactions: tuple[Effect, ...]
    anova: tuple[AnovaRow, ...]
    level: float
    response: str = "value"
    notes: tuple[str, ...] = ()

    def __getitem__(self, source: str) -> AnovaRow:
        names = [row.source for row in self.anova]
        return self.anova[names.index(checks.one_of("source of variation", source, names))]

    @property
    def total(self) -> float:
        """The variation: the sum of squares about the mean."""
        return sum(row.sum_of_squares for row in self.anova)

    def cell_means(self) -> Floats:
        """The mean response of each pair of levels."""
        means: Floats = self.values.mean(axis=2)
        return means

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {
            "response": self.response,
            "factors": {name: list(levels) for name, levels in self.factors.items()},
            "replicates": int(self.values.shape[2]),
            "mean": vars(self.mean),
            "cell_means": self.cell_means().tolist(),
            "effects": {name: [vars(e) for e in each] for name, each in self.effects.items()},
            "interactions": [vars(effect) for effect in self.interactions],
            "anova": [vars(row) for row in self.anova],
            "level": self.level,
            "values": self.values.tolist(),
            "notes": list(self.notes),
        }

    def rows(self) -> list[dict[str, Any]]:
        """The analysis of variance, a flat mapping per source."""
        return [dict(vars(row)) for row in self.anova]

    def _records(self) -> list[dict[str, Any]]:
        """The response of every replicate, from which everything else follows."""
        (one, levels), (other, levels_of_other) = self.factors.items()
        return [
            {
                one: levels[a],
                other: levels_of_other[b],
                "replicate": replicate + 1,
                self.response: value,
            }
            for (a, b, replicate), value in zip(
                np.ndindex(*self.values.shape), self.values.ravel().tolist(), strict=True
            )
        ]

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write the tables and notes as a complete HTML page."""
        write_page(path, f"Factorial design: {self.response}", self._repr_html_())

    def tables(self) -> dict[str, list[dict[str, str]]]:
        """Tables as texts: means by levels, effects, analysis of variance."""
        one, other = self.factors
        columns = self.factors[other]
        means = [
            {one: level}
            | {f"{other} {name}": f"{v:.4f}" for name, v in zip(columns, row, strict=True)}
            | {"mean": f"{row.mean():.4f}"}
            for level, row in zip(self.factors[one], self.cell_means(), strict=True)
        ]
        named = [(f"{name} {e.levels[0]}", e) for name, each in self.effects.items() for e in each]
        named += [(" × ".join(effect.levels), effect) for effect in self.interactions]
        effects = [
            {
                "effect of": name,
                "value": f"{effect.value:+.4f}",
                "95 % interval": show_interval(effect.interval, "+"),
                "clear": "yes" if effect.is_clear else "no",
            }
            for name, effect in named
        ]
        return {
            f"mean {self.response}": means,
            "effects": effects,
            "analysis of variance": [_shown(row) for row in self.anova],
        }

    def _tables(self) -> Tables:
        return self.tables()

    def _footnotes(self) -> tuple[str, ...]:
        return self.notes


def factorial(
    values: Any,
    factors: Mapping[str, Sequence[Any]] | None = None,
    *,
    level: float = 0.05,
    response: str = "value",
) -> Factorial:
    """Divide the variation of a response into two factors, their interaction and error.

    Parameters
    ----------
    values
        One response per level of the first factor, level of the second, and replicate: an array of three dimensions.
    factors
        The names of the two factors and of their levels, in the order of the array; "A" and "B" by default.
    level
        What a p value is compared with in the notes.
    response
        What the values are.
    """
    array = _checked_values(values)
    named = _checked_factors(factors, array.shape)
    level = checks.real_number("level", level, "(0, 1)")
    parts = _Components.of(array)
    one, other = named
    sources = (one, other, f"{one} × {other}", _ERROR)
    rows = analysis_of_variance(
        dict(zip(sources, parts.sums, strict=True)), dict(zip(sources, parts.degrees, strict=True))
    )
    spread = _Spread(rows[-1].mean_square, rows[-1].degrees, array.size)
    free_of_one, free_of_other, free_together, _ = parts.degrees
    pairs = [(a, b) for a in named[one] for b in named[other]]
    return Factorial(
        named,
        array,
        spread.effect((), parts.mean, 1),
        {
            one: spread.effects([(name,) for name in named[one]], parts.of_one, free_of_one),
            other: spread.effects(
                [(name,) for name in named[other]], parts.of_other, free_of_other
            ),
        },
        spread.effects(pairs, parts.together.ravel(), free_together),
        tuple(rows),
        level,
        response,
        tuple(_notes(rows, array.shape[2], level)),
    )


@dataclass(frozen=True, eq=False)
class _Components:
    """The components of the values: mean, effects of either factor, interactions, errors."""

    mean: float
    of_one: Floats
    of_other: Floats
    together: Floats
    errors: Floats

    @classmethod
    def of(cls, values: Floats) -> _Components:
        """Subtract each component from the values before the next is computed; rounding errors become 0."""
        mean, cells = float(values.mean()), values.mean(axis=2)
        rounding = _ROUNDING * float(np.abs(values).max())
        of_one = _without(rounding, cells.mean(axis=1) - mean)
        of_other = _without(rounding, cells.mean(axis=0) - mean)
        together = _without(rounding, cells - mean - of_one[:, np.newaxis] - of_other)
        errors = _without(rounding, values - cells[:, :, np.newaxis])
        return cls(mean, of_one, of_other, together, errors)

    @property
    def sums(self) -> list[float]:
        """The sum of squares of each component, over all values."""
        n_one, n_other, n_replicates = self.errors.shape
        squares = [self.of_one, self.of_other, self.together, self.errors]
        repeated = [n_other * n_replicates, n_one * n_replicates, n_replicates, 1]
        return [
            times * float(np.square(part).sum())
            for times, part in zip(repeated, squares, strict=True)
        ]

    @property
    def degrees(self) -> list[int]:
        """The degrees of freedom of each component."""
        n_one, n_other, n_replicates = self.errors.shape
        together = (n_one - 1) * (n_other - 1)
        return [n_one - 1, n_other - 1, together, n_one * n_other * (n_replicates - 1)]


def analysis_of_variance(sums: Mapping[str, float], degrees: Mapping[str, int]) -> list[AnovaRow]:
    """F and p of every source from sums of squares and degrees of freedom; the last source is the error.

    F is infinite where there is no error but an effect, and NaN where there is neither.
    """
    from scipy.special import fdtrc  # heavy to load

    *_, error = sums
    total = sum(sums.values())
    error_square = sums[error] / degrees[error]
    rows = []
    for source, squares in sums.items():
        mean_square = squares / degrees[source]
        share = squares / total if total > 0.0 else math.nan
        f = p = math.nan
        if source != error and (error_square > 0.0 or mean_square > 0.0):
            f = mean_square / error_square if error_square > 0.0 else math.inf
            p = float(fdtrc(degrees[source], degrees[error], f)) if math.isfinite(f) else 0.0
        rows.append(AnovaRow(source, squares, share, degrees[source], mean_square, f, p))
    return rows


@dataclass(frozen=True)
class _Spread:
    """Confidence intervals of estimates, by the error's mean square."""

    error_square: float
    degrees: int
    n_values: int

    def effect(self, levels: tuple[str, ...], value: float, n_free: int) -> Effect:
        """An estimate whose variance is the error's times ``n_free`` / number of values."""
        from scipy.special import stdtrit

        deviation = math.sqrt(self.error_square * n_free / self.n_values)
        reach = deviation * float(stdtrit(self.degrees, 0.5 + _CONFIDENCE / 2.0))
        return Effect(levels, value, (value - reach, value + reach))

    def effects(
        self, levels: Sequence[tuple[str, ...]], values: Floats, n_free: int
    ) -> tuple[Effect, ...]:
        return tuple(
            self.effect(each, float(value), n_free)
            for each, value in zip(levels, values, strict=True)
        )


def _without(rounding: float, values: Floats) -> Floats:
    return np.where(np.abs(values) <= rounding, 0.0, values)


def _checked_values(values: Any) -> Floats:
    try:
        array = np.array(values, np.float64)
    except (TypeError, ValueError):
        raise DataError("values must be numbers: levels × levels × replicates.") from None
    if array.ndim != 3:
        raise DataError(
            f"values must have three dimensions (levels, levels, replicates), got {array.ndim}."
        )
    n_one, n_other, n_replicates = array.shape
    if min(n_one, n_other) < 2:
        raise DataError(f"each factor needs two levels or more, got {n_one} and {n_other}.")
    if n_replicates < 2:
        raise DataError(
            "the design needs replication: with one value per pair of levels, error and interaction "
            "cannot be told apart. Repeat with other seeds or folds."
        )
    if not np.isfinite(array).all():
        a, b, replicate = np.argwhere(~np.isfinite(array))[0].tolist()
        raise DataError(
            f"the value of levels {a + 1} and {b + 1}, replicate {replicate + 1}, is not a finite number; "
            "a design with holes cannot be taken apart. Run it again, or leave the replicate out everywhere."
        )
    return array


def _checked_factors(
    factors: Mapping[str, Sequence[Any]] | None, shape: tuple[int, ...]
) -> dict[str, tuple[str, ...]]:
    if factors is None:
        factors = {name: range(1, n + 1) for name, n in zip("AB", shape, strict=False)}
    if not isinstance(factors, Mapping) or len(factors) != 2:
        raise ParameterError("factors must name two factors, each with its levels.")
    named = {str(name): tuple(str(level) for level in factors[name]) for name in factors}
    for (name, levels), n_levels in zip(named.items(), shape, strict=False):
        if len(levels) != n_levels:
            raise ParameterError(
                f"factor '{name}' has {len(levels)} levels, but the values have {n_levels}."
            )
        if len(set(levels)) != len(levels):
            raise ParameterError(f"factor '{name}' has a level twice: {', '.join(levels)}.")
    return named


def _shown(row: AnovaRow) -> dict[str, str]:
    is_error = row.source == _ERROR
    return {
        "source": row.source,
        "sum of squares": f"{row.sum_of_squares:.6f}",
        "share": "–" if math.isnan(row.share) else f"{100 * row.share:.1f} %",
        "degrees": f"{row.degrees}",
        "mean square": f"{row.mean_square:.6f}",
        "F": "" if is_error else _dash(row.f),
        "p": "" if is_error else show_p(row.p),
    }


def _dash(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def _notes(rows: Sequence[AnovaRow], n_replicates: int, level: float) -> list[str]:
    significant = [row.source for row in rows if row.p < level]
    listed = ", ".join(significant) or "none"
    notes = [
        f"{n_replicates} replicates of each pair of levels; significant at {level:g}: {listed}"
    ]
    if rows[-1].sum_of_squares == 0.0:
        notes.append("replicates do not differ: there is no error to compare effects with")
    return notes


# Fits of a ranker at every pair of levels of two parameters.


def factorial_design(
    estimator: Any,
    factors: Mapping[str, Sequence[Any]],
    data: Any,
    test: RankingData | None = None,
    measure: str | Measure = "ndcg@10",
    *,
    valid: Any = None,
    repetitions: int = 5,
    replicates: str = "all",
    level: float = 0.05,
    n_threads: int | None = None,
    progress: Callback | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Factorial:
    """What two parameters of a ranker, and their interaction, do to a measure on test data.

    Parameters
    ----------
    estimator
        The ranker; it is cloned, never fitted itself. Every fit gets a seed of its own.
    factors
        Two parameters, each with the values to try: ``{"loss": ["absolute", "gradient"], "validation": [...]}``.
    data, test, valid
        The training data beside ``test`` and perhaps ``valid``; or folds: (train, validation, test) each.
    measure
        The response.
    repetitions
        Fits of each pair of levels in each fold.
    replicates
        "all": each repetition in each fold is a replicate, so that the error holds what folds and seeds differ by.
        "repetitions": a replicate is the mean over folds. "folds": a replicate is the mean over repetitions.
    level
        What p values are compared with.
    n_threads
        How many fits run side by side.
    progress
        A function that is told after each fit.
    checkpoint
        A file that keeps the finished fits; a call that finds one there goes on with it.
    """
    (ranker,) = _one(estimator)
    names, cells = _cells(ranker, factors)
    wanted = parse_measure(measure)
    repetitions = checks.whole_number("repetitions", repetitions, 1)
    checks.one_of("replicates", replicates, REPLICATES)
    check_listeners(progress, ())
    threads = resolve_threads(n_threads)
    folds = folds_of(data, test, valid)
    _refuse_single_replicates(replicates, len(folds), repetitions)

    def fits_of_fold(number: int) -> Callable[[int], float]:
        return _measured_fits(cells, folds[number], wanted, (number, repetitions, threads))

    def settings() -> dict[str, Any]:
        named = {"estimator": ranker, "factors": list(factors.items()), "measure": wanted}
        return dict(plain("estimator", named | {"repetitions": repetitions}))

    by_fold = measure_fits(
        fits_of_fold,
        len(folds),
        len(cells) * repetitions,
        checkpoint=CheckpointFile(
            checkpoint, "factorial_design", settings, functools.partial(digest_of_folds, folds)
        ),
        n_threads=threads,
        progress=progress,
    ).reshape(len(folds), len(cells), repetitions)
    n_levels = tuple(len(levels) for levels in names.values())
    values = _as_replicates(by_fold, replicates).reshape(*n_levels, -1)
    return factorial(values, names, level=level, response=str(wanted))


def _measured_fits(
    cells: Sequence[Any], fold: Any, measure: Measure, counts: tuple[int, int, int]
) -> Callable[[int], float]:
    """What fits a job's estimator in a fold and gives the measure of its test data."""
    number, repetitions, threads = counts
    parts = parts_of(fold)

    def measured(job: int) -> float:
        cell = job // repetitions
        iteration = number * len(cells) * repetitions + job  # no two fits share a seed
        model = fitted(cells[cell], parts.train, parts.valid, iteration, threads)
        return mean_value(measure, checks.read_only(model.predict(parts.test)), parts.test)

    return measured


def _one(estimator: Any) -> Iterable[Any]:
    if isinstance(estimator, Mapping):
        raise ParameterError("a factorial design is of one estimator; pass it itself.")
    return estimators_by_name(estimator).values()


def _cells(
    estimator: Any, factors: Mapping[str, Sequence[Any]]
) -> tuple[dict[str, tuple[str, ...]], list[Any]]:
    """Names of factors and levels, and an estimator for every pair of levels, checked before the first is fitted."""
    if not isinstance(factors, Mapping) or len(factors) != 2:
        raise ParameterError(
            "factors must be two parameters, each with the values to try, such as "
            "{'loss': ['absolute', 'gradient'], 'n_trees': [10, 50]}."
        )
    known = estimator.get_params()
    for name, levels in factors.items():
        if name not in known:
            raise UnknownName(f"parameter of {type(estimator).__name__}", str(name), known)
        if isinstance(levels, str) or len(levels) < 2 or len(set(map(str, levels))) < len(levels):
            raise ParameterError(f"{name} needs two different values or more, got {levels!r}.")
    (one, ones), (other, others) = factors.items()
    cells = []
    for level in ones:
        for level_of_other in others:
            cell = clone(estimator).set_params(**{one: level, other: level_of_other})
            if isinstance(cell, Ranker):
                check_parameters(cell)
            cells.append(cell)
    return {str(name): tuple(map(str, levels)) for name, levels in factors.items()}, cells


def _refuse_single_replicates(replicates: str, n_folds: int, repetitions: int) -> None:
    n_replicates = {
        "all": n_folds * repetitions,
        "repetitions": repetitions,
        "folds": n_folds,
    }[replicates]
    if n_replicates < 2:
        raise ParameterError(
            f"replicates={replicates!r} gives one replicate of each pair of levels with {n_folds} folds and "
            f"{repetitions} repetitions; error needs two or more. Raise repetitions, or pass folds."
        )


def _as_replicates(values: Floats, replicates: str) -> Floats:
    """Values by cell and replicate, from values by fold, cell and repetition."""
    by_cell = values.transpose(1, 0, 2)
    if replicates == "all":
        return by_cell.reshape(len(by_cell), -1)
    means: Floats = by_cell.mean(axis=1 if replicates == "repetitions" else 2)
    return means
