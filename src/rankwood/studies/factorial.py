"""``factorial`` and ``factorial_design``: the effects of two or more factors, of their interactions and of chance.

A full factorial design with replication (Jain, *The Art of Computer Systems Performance Analysis*, 1991, chapters 22,
23). The model of a response is, for two factors,

    y[a, b, replicate] = mean + effect of a + effect of b + interaction of a and b + error

where the effects of a factor's levels sum to 0, and so do the interactions over each level. With more factors there is
an interaction of every two, of every three, and so on. The sum of squares about the mean, the *variation*, is the sum
of these parts; each part's share of it is the *allocation of variation*. A part's mean square is its sum of squares
divided by its degrees of freedom, and F is that divided by the error's mean square.

Terms
    factor   what is varied: a parameter of the ranker, or several that vary together (coupled)
    level    a value of a factor
    cell     a level of every factor
    source   what variation comes from: a factor, an interaction ("loss × validation"), the error
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import string
from collections import Counter
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
from rankwood.evaluation.paired_tests import Interval
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

REPLICATES = ("repetitions", "all", "folds")
_ERROR = "error"
_CONFIDENCE = 0.95
_ROUNDING = 1e-13  # of the largest value: less is no effect
_MOST_FACTORS = 6  # 63 sources of variation


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
    """What a level, or levels of several factors together, adds to the mean, with its 95 % interval."""

    levels: tuple[str, ...]
    value: float
    interval: Interval

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval[0] > 0.0 or self.interval[1] < 0.0


@dataclass(frozen=True, eq=False)
class Factorial(Result):
    """Effects, interactions, allocation of variation and analysis of variance of a factorial design.

    ``terms`` has the effects of every source but the error: of a factor's levels, or of the levels of several factors
    together, the last factor's changing fastest. ``anova`` has a row per source: the factors, their interactions, the
    error.
    """

    factors: Mapping[str, tuple[str, ...]]
    values: Floats = field(repr=False)  # levels of each factor, then replicates
    mean: Effect
    terms: Mapping[str, tuple[Effect, ...]]
    anova: tuple[AnovaRow, ...]
    level: float
    response: str = "value"
    notes: tuple[str, ...] = ()

    @property
    def effects(self) -> dict[str, tuple[Effect, ...]]:
        """By factor, the effects of its levels."""
        return {name: self.terms[name] for name in self.factors}

    @property
    def interactions(self) -> tuple[Effect, ...]:
        """The interactions of all sources, one after the other."""
        return tuple(effect for _, effect in self._interactions())

    def _interactions(self) -> list[tuple[str, Effect]]:
        """The interactions, each with its source."""
        return [
            (source, effect)
            for source, effects in self.terms.items()
            if source not in self.factors
            for effect in effects
        ]

    def __getitem__(self, source: str) -> AnovaRow:
        names = [row.source for row in self.anova]
        return self.anova[names.index(checks.one_of("source of variation", source, names))]

    @property
    def total(self) -> float:
        """The variation: the sum of squares about the mean."""
        return sum(row.sum_of_squares for row in self.anova)

    def cell_means(self) -> Floats:
        """The mean response of each cell."""
        means: Floats = self.values.mean(axis=-1)
        return means

    def critical(self) -> dict[str, float]:
        """The F from which on a source is significant at ``level``; what papers read from a table."""
        from scipy.special import fdtri

        *sources, error = self.anova
        return {
            row.source: float(fdtri(row.degrees, error.degrees, 1.0 - self.level))
            for row in sources
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {
            "response": self.response,
            "factors": {name: list(levels) for name, levels in self.factors.items()},
            "replicates": int(self.values.shape[-1]),
            "mean": vars(self.mean),
            "cell_means": self.cell_means().tolist(),
            "effects": {name: [vars(e) for e in each] for name, each in self.effects.items()},
            "interactions": [
                vars(effect) | ({"source": source} if len(self.factors) > 2 else {})
                for source, effect in self._interactions()
            ],
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
        return [
            dict(zip(self.factors, levels, strict=True))
            | {"replicate": replicate + 1, self.response: value}
            for levels, values in zip(
                itertools.product(*self.factors.values()),
                self.values.reshape(-1, self.values.shape[-1]).tolist(),
                strict=True,
            )
            for replicate, value in enumerate(values)
        ]

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write the tables and notes as a complete HTML page."""
        write_page(path, f"Factorial design: {self.response}", self._repr_html_())

    def tables(self) -> dict[str, list[dict[str, str]]]:
        """Tables as texts: means by levels, effects, analysis of variance."""
        named = [(f"{name} {e.levels[0]}", e) for name, each in self.effects.items() for e in each]
        named += [(self._name_of(*each), each[1]) for each in self._interactions()]
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
            f"mean {self.response}": self._means_as_texts(),
            "effects": effects,
            "analysis of variance": [_shown(row) for row in self.anova],
        }

    def _means_as_texts(self) -> list[dict[str, str]]:
        """A column per level of the last factor, and a row per level, or levels, of the others."""
        *others, last = self.factors
        means = self.cell_means().reshape(-1, len(self.factors[last]))
        rows = itertools.product(*(self.factors[name] for name in others))
        return [
            dict(zip(others, levels, strict=True))
            | {
                f"{last} {name}": f"{v:.4f}"
                for name, v in zip(self.factors[last], row, strict=True)
            }
            | {"mean": f"{row.mean():.4f}"}
            for levels, row in zip(rows, means, strict=True)
        ]

    def _name_of(self, source: str, effect: Effect) -> str:
        """Levels joined by ×; with their factors where these are more than two."""
        if len(self.factors) == 2:
            return " × ".join(effect.levels)
        pairs = zip(source.split(" × "), effect.levels, strict=True)
        return " × ".join(f"{factor} {level}" for factor, level in pairs)

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
    """Divide the variation of a response into factors, their interactions and error.

    Parameters
    ----------
    values
        One response per level of each factor and replicate: an array with a dimension per factor, two or more, and the
        replicates last.
    factors
        The names of the factors and of their levels, in the order of the array; "A", "B", … by default.
    level
        What a p value is compared with in the notes.
    response
        What the values are.
    """
    array = _checked_values(values)
    named = _checked_factors(factors, array.shape)
    level = checks.real_number("level", level, "(0, 1)")
    parts = _Components.of(array, tuple(named))
    rows = analysis_of_variance(parts.sums, parts.degrees)
    spread = _Spread(rows[-1].mean_square, rows[-1].degrees, array.size)
    terms = {
        source: spread.effects(
            list(itertools.product(*(named[name] for name in together))),
            parts.effects[source].ravel(),
            parts.degrees[source],
        )
        for source, together in parts.factors_of.items()
    }
    return Factorial(
        named,
        array,
        spread.effect((), parts.mean, 1),
        terms,
        tuple(rows),
        level,
        response,
        tuple(_notes(rows, array.shape, level)),
    )


@dataclass(frozen=True, eq=False)
class _Components:
    """The components of the values: the mean, the effects of every source, the errors."""

    mean: float
    effects: Mapping[str, Floats]  # by source; a dimension of length 1 for each factor it lacks
    errors: Floats
    factors_of: Mapping[str, tuple[str, ...]]  # by source

    @classmethod
    def of(cls, values: Floats, factors: tuple[str, ...]) -> _Components:
        """Subtract each component from the values before the next is computed; rounding errors become 0."""
        mean, cells = float(values.mean()), values.mean(axis=-1)
        rounding = _ROUNDING * float(np.abs(values).max())
        subsets = [
            subset
            for size in range(1, len(factors) + 1)
            for subset in itertools.combinations(range(len(factors)), size)
        ]
        effects: dict[tuple[int, ...], Floats] = {}
        for subset in subsets:
            others = tuple(axis for axis in range(len(factors)) if axis not in subset)
            effect = cells.mean(axis=others, keepdims=True) - mean
            for smaller, known in effects.items():
                if set(smaller) < set(subset):
                    effect = effect - known
            effects[subset] = _without(rounding, effect)
        errors = _without(rounding, values - cells[..., np.newaxis])
        names = {subset: tuple(factors[axis] for axis in subset) for subset in subsets}
        sources = {subset: " × ".join(names[subset]) for subset in subsets}
        return cls(
            mean,
            {sources[subset]: effects[subset] for subset in subsets},
            errors,
            {sources[subset]: names[subset] for subset in subsets},
        )

    @property
    def sums(self) -> dict[str, float]:
        """The sum of squares of each source, over all values; the error's last."""
        sums = {
            source: (self.errors.size // effect.size) * float(np.square(effect).sum())
            for source, effect in self.effects.items()
        }
        return sums | {_ERROR: float(np.square(self.errors).sum())}

    @property
    def degrees(self) -> dict[str, int]:
        """The degrees of freedom of each source."""
        degrees = {
            source: math.prod(n - 1 for n in effect.shape if n > 1)
            for source, effect in self.effects.items()
        }
        *levels, n_replicates = self.errors.shape
        return degrees | {_ERROR: math.prod(levels) * (n_replicates - 1)}


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
    if array.ndim < 3:
        raise DataError(
            "values must have three dimensions or more (the levels of each factor, then replicates), "
            f"got {array.ndim}."
        )
    *levels, n_replicates = array.shape
    if min(levels) < 2:
        raise DataError(
            f"each factor needs two levels or more, got {' and '.join(map(str, levels))}."
        )
    if n_replicates < 2:
        raise DataError(
            "the design needs replication: with one value per cell, error and interaction "
            "cannot be told apart. Repeat with other seeds or folds."
        )
    if not np.isfinite(array).all():
        *at, replicate = (np.argwhere(~np.isfinite(array))[0] + 1).tolist()
        raise DataError(
            f"the value of levels {' and '.join(map(str, at))}, replicate {replicate}, is not a finite number; "
            "a design with holes cannot be taken apart. Run it again, or leave the replicate out everywhere."
        )
    return array


def _checked_factors(
    factors: Mapping[str, Sequence[Any]] | None, shape: tuple[int, ...]
) -> dict[str, tuple[str, ...]]:
    n_factors = len(shape) - 1
    if n_factors > _MOST_FACTORS:
        raise DataError(f"a design has at most {_MOST_FACTORS} factors, got {n_factors}.")
    if factors is None:
        letters = string.ascii_uppercase[:n_factors]
        factors = {name: range(1, n + 1) for name, n in zip(letters, shape, strict=False)}
    if not isinstance(factors, Mapping) or len(factors) != n_factors:
        words = {2: "two", 3: "three"}.get(n_factors, str(n_factors))
        raise ParameterError(f"factors must name {words} factors, each with its levels.")
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


def _notes(rows: Sequence[AnovaRow], shape: tuple[int, ...], level: float) -> list[str]:
    cells = "pair of levels" if len(shape) == 3 else "combination of levels"
    significant = [row.source for row in rows if row.p < level]
    listed = ", ".join(significant) or "none"
    notes = [f"{shape[-1]} replicates of each {cells}; significant at {level:g}: {listed}"]
    if rows[-1].sum_of_squares == 0.0:
        notes.append("replicates do not differ: there is no error to compare effects with")
    return notes


# Fits of a ranker at every cell.


def factorial_design(
    estimator: Any,
    factors: Mapping[str | tuple[str, ...], Sequence[Any]],
    data: Any,
    test: RankingData | None = None,
    measure: str | Measure = "ndcg@10",
    *,
    where: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]] = (),
    valid: Any = None,
    repetitions: int = 5,
    replicates: str = "repetitions",
    level: float = 0.05,
    n_threads: int | None = None,
    progress: Callback | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Factorial:
    """What parameters of a ranker, and their interactions, do to a measure on test data.

    Parameters
    ----------
    estimator
        The ranker; it is cloned, never fitted itself. Every fit gets a seed of its own.
    factors
        Two parameters or more, each with the values to try: ``{"loss": ["absolute", "gradient"], "n_trees": [...]}``.
        A factor of several parameters that vary together has a tuple of their names: ``("validation",
        "update_weights"): ["oob", "train"]`` gives both the same value, ``[("oob", "constant"), ("train", "train")]``
        each its own.
    where
        Exceptions: ``({"loss": "gradient"}, {"update_weights": None})`` sets ``update_weights`` in all cells of that
        loss, whatever the factors say.
    data, test, valid
        The training data beside ``test`` and perhaps ``valid``; or folds: (train, validation, test) each.
    measure
        The response.
    repetitions
        Fits of each cell in each fold.
    replicates
        "repetitions": a replicate is the mean over folds, as in Sá (2016), so that the error is what seeds do. "all":
        each repetition in each fold is one, so that the error holds what folds and seeds differ by. "folds": a
        replicate is the mean over repetitions.
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
    names, cells = _cells(ranker, factors, where)
    wanted = parse_measure(measure)
    repetitions = checks.whole_number("repetitions", repetitions, 1)
    checks.one_of("replicates", replicates, REPLICATES)
    check_listeners(progress, ())
    threads = resolve_threads(n_threads)
    folds = folds_of(data, test, valid)
    refuse_single_replicates(replicates, len(folds), repetitions)

    def fits_of_fold(number: int) -> Callable[[int], float]:
        return _measured_fits(cells, folds[number], wanted, (number, repetitions, threads))

    def settings() -> dict[str, Any]:
        named = {"estimator": ranker, "factors": list(factors.items()), "measure": wanted}
        named |= {"where": [list(pair) for pair in where]} if where else {}
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
    values = as_replicates(by_fold, replicates).reshape(*n_levels, -1)
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
    estimator: Any,
    factors: Mapping[str | tuple[str, ...], Sequence[Any]],
    where: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> tuple[dict[str, tuple[str, ...]], list[Any]]:
    """Names of factors and levels, and an estimator for every cell, checked before the first is fitted."""
    if not isinstance(factors, Mapping) or len(factors) < 2:
        raise ParameterError(
            "factors must be two parameters or more, each with the values to try, such as "
            "{'loss': ['absolute', 'gradient'], 'n_trees': [10, 50]}."
        )
    if len(factors) > _MOST_FACTORS:
        raise ParameterError(f"a design has at most {_MOST_FACTORS} factors, got {len(factors)}.")
    known = estimator.get_params()
    named = [
        _Factor.of(name, levels, type(estimator).__name__, known)
        for name, levels in factors.items()
    ]
    twice = [name for name, n in Counter(n for f in named for n in f.parameters).items() if n > 1]
    if twice:
        raise ParameterError(f"{twice[0]} is in two factors; a parameter belongs to one.")
    exceptions = [
        _checked_exception(each, named, type(estimator).__name__, known) for each in where
    ]
    cells, texts = [], []
    for chosen in itertools.product(*(factor.settings for factor in named)):
        values = {name: value for settings in chosen for name, value in settings.items()}
        for conditions, changes in exceptions:
            if all(str(values[name]) == text for name, text in conditions.items()):
                values |= changes
        cell = clone(estimator).set_params(**values)
        if isinstance(cell, Ranker):
            check_parameters(cell)
        cells.append(cell)
        texts.append({name: str(value) for name, value in values.items()})
    _refuse_equal_cells(texts)
    return {factor.name: factor.levels for factor in named}, cells


@dataclass(frozen=True)
class _Factor:
    """A parameter, or several that vary together, and what each level sets."""

    name: str
    parameters: tuple[str, ...]
    levels: tuple[str, ...]
    settings: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, name: Any, levels: Sequence[Any], owner: str, known: Mapping[str, Any]) -> _Factor:
        """A factor of the estimator ``owner``, whose parameters are ``known``."""
        parameters = tuple(name) if isinstance(name, tuple | list) else (str(name),)
        for each in parameters:
            if each not in known:
                raise UnknownName(f"parameter of {owner}", str(each), known)
        shown = " + ".join(parameters)
        if isinstance(levels, str) or len(levels) < 2 or len(set(map(str, levels))) < len(levels):
            raise ParameterError(f"{shown} needs two different values or more, got {levels!r}.")
        settings, texts = [], []
        for level in levels:
            values = level if isinstance(level, tuple | list) and len(parameters) > 1 else [level]
            if len(values) not in (1, len(parameters)):
                raise ParameterError(
                    f"a level of {shown} is one value for all, or {len(parameters)} values; got {level!r}."
                )
            texts.append(" + ".join(map(str, values)))
            each = list(values) * (len(parameters) // len(values))
            settings.append(dict(zip(parameters, each, strict=True)))
        return cls(shown, parameters, tuple(texts), tuple(settings))


def _checked_exception(
    given: Any, factors: Sequence[_Factor], owner: str, known: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """The conditions as texts and the changes of an exception, if there is a cell it concerns."""
    try:
        conditions, changes = given
        conditions, changes = dict(conditions), dict(changes)
    except (TypeError, ValueError):
        raise ParameterError(
            "where must hold pairs of mappings: levels, and what is set there, such as "
            f"({{'loss': 'gradient'}}, {{'n_rounds': 100}}); got {given!r}."
        ) from None
    varied = {name: factor for factor in factors for name in factor.parameters}
    for name, value in conditions.items():
        if name not in varied:
            raise UnknownName("where: parameter of a factor", str(name), varied)
        levels = dict.fromkeys(str(settings[name]) for settings in varied[name].settings)
        if str(value) not in levels:
            raise UnknownName(f"where: level of {name}", str(value), levels)
    for name in changes:
        if name not in known:
            raise UnknownName(f"parameter of {owner}", str(name), known)
    if not conditions or not changes:
        raise ParameterError("where needs levels and what is set there; one of the two is empty.")
    return {name: str(value) for name, value in conditions.items()}, changes


def _refuse_equal_cells(texts: Sequence[Mapping[str, str]]) -> None:
    """Raise where exceptions have made two cells the same ranker."""
    seen: list[Mapping[str, str]] = []
    for values in texts:
        if values in seen:
            listed = ", ".join(f"{name}={value}" for name, value in values.items())
            raise ParameterError(f"two cells of the design are the same ranker: {listed}.")
        seen.append(values)


def refuse_single_replicates(replicates: str, n_folds: int, repetitions: int) -> None:
    """Raise where there would be one replicate of each cell."""
    n_replicates = {
        "all": n_folds * repetitions,
        "repetitions": repetitions,
        "folds": n_folds,
    }[replicates]
    if n_replicates < 2:
        remedy = "Raise repetitions, or pass folds."
        if n_folds > 1:
            remedy = "Raise repetitions, or let folds be the replicates: replicates='folds'."
        raise ParameterError(
            f"replicates={replicates!r} gives one replicate of each cell with {n_folds} folds and "
            f"{repetitions} repetitions; error needs two or more. {remedy}"
        )


def as_replicates(values: Floats, replicates: str) -> Floats:
    """Values by cell and replicate, from values by fold, cell and repetition."""
    by_cell = values.transpose(1, 0, 2)
    if replicates == "all":
        return by_cell.reshape(len(by_cell), -1)
    means: Floats = by_cell.mean(axis=1 if replicates == "repetitions" else 2)
    return means
