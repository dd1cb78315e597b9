"""``factorial`` and ``factorial_design``: the effects of two or more factors and of their interactions.

A full factorial design in randomised complete blocks. Every cell is fitted in every fold, and folds are the blocks:
repetitions are averaged first, so that there is one value of each cell and fold. The model is, for two factors,

    y[a, b, fold] = mean + effect of a + effect of b + interaction of a and b + effect of the fold + error

where the effects of a factor's levels sum to 0, and so do the interactions over each level. With more factors there is
an interaction of every two, of every three, and so on. The error is what cells do differently in different folds
(treatment × fold). The sum of squares about the mean, the *variation*, is the sum of these parts; each part's share of
it is the *allocation of variation*, or η². A part's mean square is its sum of squares divided by its degrees of
freedom, and F is that divided by the error's mean square.

With ``replicates="repetitions"`` there are no blocks, and the error is what repetitions of a cell differ by: the full
factorial design with replication of Jain (*The Art of Computer Systems Performance Analysis*, 1991, chapters 22, 23).

Terms
    factor      what is varied: a parameter of the ranker, or several that vary together (coupled)
    level       a value of a factor
    cell        a level of every factor, also called a treatment
    fit         a value of one cell in one fold and repetition
    replicate   what repeats a value of every cell: a fold, or a repetition
    source      what variation comes from: a factor, an interaction ("loss × validation"), folds, the error
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ParameterError
from rankwood.evaluation.paired_tests import Interval
from rankwood.evaluation.plots import effect_plot
from rankwood.evaluation.results import Result, Tables, show_interval, show_p, write_page
from rankwood.measures.measure import Measure, parse_measure
from rankwood.studies.fits import (
    MOST_FACTORS,
    all_parts,
    digest_of_folds,
    digest_of_part,
    estimators_of_cells,
    fits_of_cells,
    folds_of,
    measure_fits,
    on_scale,
    parts_of,
)
from rankwood.training.rounds import Callback, CheckpointFile, check_listeners, plain

__all__ = ["AnovaRow", "Effect", "Factorial", "analysis_of_variance", "factorial"]

REPLICATES = ("folds", "repetitions")
_FOLDS, _REPETITIONS = REPLICATES
_ERROR, _FOLD, _HIGHER = "error", "fold", "higher interactions"
_RESERVED = (_ERROR, _FOLD, _HIGHER, "repetition")  # names of rows and of columns of the CSV file
_ROUNDING = 1e-13  # of the largest value: less is no effect
_SHOWN = 5  # names listed in a note
_MOST_DRAWN = 40  # effects in a plot


@dataclass(frozen=True)
class AnovaRow:
    """A source of variation.

    ``share`` is its part of all sums of squares, η²; ``partial_eta_squared`` its part of its own sum and the error's. F
    and p are NaN for folds and the error, which are not tested, and for all sources where there is no error term.
    """

    source: str
    sum_of_squares: float
    share: float
    degrees: int
    mean_square: float
    f: float
    p: float
    partial_eta_squared: float = math.nan


@dataclass(frozen=True)
class Effect:
    """What a level, or levels of several factors together, adds to the mean, with its interval.

    The interval's confidence is 1 - ``level`` of the design; it is NaN where there is no error term.
    """

    levels: tuple[str, ...]
    value: float
    interval: Interval

    @classmethod
    def of(cls, levels: tuple[str, ...], value: float, reach: float) -> Effect:
        """An effect whose interval reaches as far to either side."""
        return cls(levels, value, (value - reach, value + reach))

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval[0] > 0.0 or self.interval[1] < 0.0


@dataclass(frozen=True, eq=False)
class Factorial(Result):
    """Effects, interactions, allocation of variation and analysis of variance of a factorial design.

    ``fits`` has every value by levels, fold and repetition, NaN where one is missing; ``values`` has what is analysed,
    by levels and replicate. ``terms`` has the effects of every interaction and factor: of a factor's levels, or of the
    levels of several factors together, the last factor's changing fastest. ``anova`` has a row per source: the factors,
    their interactions, folds where they are blocks, the error.
    """

    factors: Mapping[str, tuple[str, ...]]
    fits: Floats = field(repr=False)  # levels of each factor, then folds, then repetitions
    values: Floats = field(repr=False)  # levels of each factor, then replicates
    folds: tuple[str, ...]
    replicates: str
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
        sources = [source for source in self.terms if source not in self.factors]
        return [(source, effect) for source in sources for effect in self.terms[source]]

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
        """The F from which on a source is significant at ``level``, as in papers' tables; NaN without an error."""
        from scipy.special import fdtri

        *sources, error = self.anova
        return {
            row.source: float(fdtri(row.degrees, error.degrees or math.nan, 1.0 - self.level))
            for row in sources
            if row.source != _FOLD
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {
            "response": self.response,
            "factors": {name: list(levels) for name, levels in self.factors.items()},
            "folds": list(self.folds),
            "replicates_are": self.replicates,
            "replicates": int(self.values.shape[-1]),
            "mean": vars(self.mean),
            "cell_means": self.cell_means().tolist(),
            "effects": {name: [vars(e) for e in each] for name, each in self.effects.items()},
            "interactions": [
                vars(effect) | ({"source": source} if len(self.factors) > 2 else {})
                for source, effect in self._interactions()
            ],
            "anova": self.rows(),
            "level": self.level,
            "values": self.values.tolist(),
            "fits": self.fits.tolist(),
            "notes": list(self.notes),
        }

    def rows(self) -> list[dict[str, Any]]:
        """The analysis of variance, a flat mapping per source."""
        return [dict(vars(row)) for row in self.anova]

    def _records(self) -> list[dict[str, Any]]:
        """The value of every fit, by levels, fold and repetition, from which everything else follows."""
        cells = list(itertools.product(*self.factors.values()))
        by_cell = self.fits.reshape(len(cells), *self.fits.shape[-2:])
        return [
            dict(zip(self.factors, cells[cell], strict=True))
            | {_FOLD: self.folds[fold], "repetition": repetition + 1, self.response: float(value)}
            for (cell, fold, repetition), value in np.ndenumerate(by_cell)
            if not math.isnan(value)
        ]

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw effects with their intervals, and shares of variation, to a file: .png, .svg or .pdf."""
        named = self._named_effects()
        drawn = [(name, effect.value, effect.interval) for name, effect in named[:_MOST_DRAWN]]
        more = f" (first {_MOST_DRAWN} of {len(named)})" if len(named) > _MOST_DRAWN else ""
        has_error = self["error"].degrees > 0
        how = f", {self._confidence()} interval (● without 0, ○ with 0)" if has_error else ""
        texts = ["" if math.isnan(row.p) else f"p {show_p(row.p)}" for row in self.anova]
        shares = [
            (row.source, row.share, text) for row, text in zip(self.anova, texts, strict=True)
        ]
        effect_plot(path, drawn, shares, f"effect on {self.response}{how}{more}")

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write the tables and notes as a complete HTML page."""
        write_page(path, f"Factorial design: {self.response}", self._repr_html_())

    def tables(self) -> dict[str, list[dict[str, str]]]:
        """Tables as texts: means by levels, effects, analysis of variance."""
        effects = [
            {
                "effect of": name,
                "value": f"{effect.value:+.4f}",
                f"{self._confidence()} interval": show_interval(effect.interval, "+"),
                "clear": "yes"
                if effect.is_clear
                else "–"
                if math.isnan(effect.interval[0])
                else "no",
            }
            for name, effect in self._named_effects()
        ]
        return {
            f"mean {self.response}": self._means_as_texts(),
            "effects": effects,
            "analysis of variance": [_shown(row) for row in self.anova],
        }

    def _confidence(self) -> str:
        return f"{100 * (1 - self.level):g} %"

    def _named_effects(self) -> list[tuple[str, Effect]]:
        """The effects of levels, then the interactions, each with the name it is shown by."""
        named = [(f"{name} {e.levels[0]}", e) for name, each in self.effects.items() for e in each]
        return named + [(self._name_of(*each), each[1]) for each in self._interactions()]

    def _means_as_texts(self) -> list[dict[str, str]]:
        """A column per level of the last factor, and a row per level, or levels, of the others."""
        *others, last = self.factors
        means = self.cell_means().reshape(-1, len(self.factors[last]))
        rows = itertools.product(*(self.factors[name] for name in others))
        columns = [*others, *(f"{last} {level}" for level in self.factors[last]), "mean"]
        return [
            dict(zip(columns, [*levels, *(f"{v:.4f}" for v in (*row, row.mean()))], strict=True))
            for levels, row in zip(rows, means, strict=True)
        ]

    def _name_of(self, source: str, effect: Effect) -> str:
        """Levels joined by ×; with their factors where these are more than two."""
        pairs = zip(source.split(" × "), effect.levels, strict=True)
        named = (f"{factor} {level}" for factor, level in pairs)
        return " × ".join(effect.levels if len(self.factors) == 2 else named)

    def _tables(self) -> Tables:
        return self.tables()

    def _footnotes(self) -> tuple[str, ...]:
        return self.notes


def factorial(
    values: Any,
    factors: Mapping[str, Sequence[Any]] | None = None,
    *,
    folds: Sequence[str] | None = None,
    blocks: Sequence[Any] | None = None,
    replicates: str = _FOLDS,
    order: int | None = None,
    level: float = 0.05,
    response: str = "value",
) -> Factorial:
    """Divide the variation of a response into factors, their interactions, folds and error.

    Parameters
    ----------
    values
        An array with a dimension per factor, two or more; then one of the folds; then, where ``factors`` are named,
        perhaps one of the repetitions. NaN stands for a value that is missing: repetitions that are there are averaged,
        and a fold without any value of a cell is left out. With ``replicates="repetitions"`` the dimension of the folds
        may be absent in the place of that of the repetitions.
    factors
        The names of the factors and of their levels, in the order of the array; "A", "B", … by default.
    folds
        The names of the folds; 1, 2, … by default.
    blocks
        What each fold is tested on, by any name: folds of one block are averaged as repetitions are. By default every
        fold is a block of its own.
    replicates
        "folds": repetitions are averaged, folds are blocks, and the error is treatment × fold. "repetitions": folds are
        averaged, there are no blocks, and the error is what the repetitions of a cell differ by.
    order
        The most factors of an interaction that has a row and effects of its own; all other interactions share the row
        "higher interactions". All are told apart by default.
    level
        What a p value is compared with in the notes; 1 - ``level`` is the confidence of the intervals.
    response
        What the values are.
    """
    checked_replicates(replicates)
    fits = _checked_fits(values, factors, replicates)
    named = _checked_factors(factors, fits.shape[:-2])
    level = checks.real_number("level", level, "(0, 1)")
    order = len(named) if order is None else checks.whole_number("order", order, 1, len(named))
    names = _checked_folds(folds, blocks, fits.shape[-2])
    data = _Replicates.of(fits, names, names if blocks is None else blocks, replicates)
    parts = _Components.of(data.values, tuple(named), order, has_blocks=replicates == _FOLDS)
    degrees = parts.degrees | ({} if data.have_error else {_ERROR: 0})
    rows = analysis_of_variance(parts.sums, degrees, untested=(_FOLD,))
    terms = {
        source: tuple(
            Effect.of(
                levels, value, _reach(rows[-1], degrees[source] / data.values.size, 1 - level)
            )
            for levels, value in zip(
                itertools.product(*(named[name] for name in together)),
                parts.effects[source].ravel().tolist(),
                strict=True,
            )
        )
        for source, together in parts.factors_of.items()
    }
    of_mean = next(
        (row for row in rows if row.source == _FOLD), rows[-1]
    )  # it varies with the blocks
    return Factorial(
        named,
        fits,
        data.values,
        names,
        replicates,
        Effect.of((), parts.mean, _reach(of_mean, 1 / data.values.size, 1 - level)),
        terms,
        tuple(rows),
        level,
        response,
        tuple(_notes(data, rows, terms, level)),
    )


@dataclass(frozen=True, eq=False)
class _Replicates:
    """One value of every cell in every replicate, from all fits."""

    kind: str  # "folds" or "repetitions"
    fits: Floats
    values: Floats  # levels × replicates
    lacking: tuple[str, ...]  # replicates left out, since a cell has no value
    n_blocks: int  # different test data among the folds

    @classmethod
    def of(
        cls, fits: Floats, folds: Sequence[str], blocks: Sequence[Any], kind: str
    ) -> _Replicates:
        """Means over the repetitions of each fold, or over the folds of each repetition; folds of a block are one."""
        means, names = fits.mean(axis=-2), [str(n + 1) for n in range(fits.shape[-1])]
        if kind == _FOLDS:
            places = {block: [n for n, b in enumerate(blocks) if b == block] for block in blocks}
            together = list(places.values())
            chosen = (fits[..., each, :].reshape(*fits.shape[:-2], -1) for each in together)
            means = np.stack([_mean_of_known(each) for each in chosen], axis=-1)
            names = [" + ".join(folds[n] for n in each) for each in together]
        columns = means.reshape(-1, len(names)).T
        complete = [n for n, column in enumerate(columns) if not np.isnan(column).any()]
        if not complete:
            at = np.argwhere(np.isnan(means))[0] + 1
            raise DataError(
                f"no {kind[:-1]} has a value of every cell: that of levels {' and '.join(map(str, at[:-1]))} is "
                f"missing in {kind[:-1]} {names[at[-1] - 1]}. Run what is missing, or leave out levels."
            )
        lacking = tuple(name for n, name in enumerate(names) if n not in complete)
        return cls(kind, fits, means[..., complete], lacking, len(set(blocks)))

    @property
    def n_averaged(self) -> tuple[int, int]:
        """The least and the greatest number of repetitions of a cell and fold, among those with any."""
        counts = (~np.isnan(self.fits)).sum(axis=-1)
        return int(counts[counts > 0].min()), int(counts.max())

    @property
    def never_vary(self) -> bool:
        """Whether all repetitions of every cell and fold are the same value."""
        greatest = np.fmax.reduce(self.fits, axis=-1, keepdims=True)
        return self.n_averaged[1] > 1 and not (self.fits < greatest).any()

    @property
    def n_constant_cells(self) -> int:
        """How many cells have the same value in all replicates."""
        return int((self.values == self.values[..., :1]).all(axis=-1).sum())

    @property
    def have_error(self) -> bool:
        """Whether replicates tell what chance does: there are two, and repetitions are not mere refits."""
        is_varied = self.kind == _FOLDS or self.n_constant_cells == 0
        return is_varied and self.values.shape[-1] > 1


def _mean_of_known(values: Floats) -> Floats:
    """The mean over the last dimension of what is not NaN; without rounding where all are equal."""
    known = ~np.isnan(values)
    counts = known.sum(axis=-1)
    greatest = np.where(counts > 0, np.fmax.reduce(values, axis=-1), 0.0)
    below = np.where(known, values - greatest[..., np.newaxis], 0.0).sum(axis=-1)
    means: Floats = np.where(counts > 0, greatest + below / np.maximum(counts, 1), np.nan)
    return means


@dataclass(frozen=True, eq=False)
class _Components:
    """The components of the values: the mean, the effects of every source and of the blocks, the errors."""

    mean: float
    effects: Mapping[str, Floats]  # by source; a dimension of length 1 for each factor it lacks
    higher: Floats | None  # the interactions of more factors than the order, together
    blocks: Floats | None  # the effects of the replicates, where they are blocks
    errors: Floats
    factors_of: Mapping[str, tuple[str, ...]]  # by source

    @classmethod
    def of(
        cls, values: Floats, factors: tuple[str, ...], order: int, *, has_blocks: bool
    ) -> _Components:
        """Subtract each component from the values before the next is computed; rounding errors become 0."""
        mean, cells = float(values.mean()), values.mean(axis=-1)
        rounding = _ROUNDING * float(np.abs(values).max())
        subsets = [
            subset
            for size in range(1, order + 1)
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
        higher = _without(rounding, cells - mean - sum(effects.values()))
        errors = values - cells[..., np.newaxis]
        blocks = errors.mean(axis=tuple(range(len(factors)))) if has_blocks else None
        names = {subset: tuple(factors[axis] for axis in subset) for subset in subsets}
        sources = {subset: " × ".join(names[subset]) for subset in subsets}
        return cls(
            mean,
            {sources[subset]: effects[subset] for subset in subsets},
            higher if order < len(factors) else None,
            None if blocks is None else _without(rounding, blocks),
            _without(rounding, errors if blocks is None else errors - blocks),
            {sources[subset]: names[subset] for subset in subsets},
        )

    @property
    def sums(self) -> dict[str, float]:
        """The sum of squares of each source, over all values; the error's last."""
        parts = dict(self.effects)
        parts |= {} if self.higher is None else {_HIGHER: self.higher}
        parts |= {} if self.blocks is None else {_FOLD: self.blocks}
        return {
            source: (self.errors.size // effect.size) * float(np.square(effect).sum())
            for source, effect in (parts | {_ERROR: self.errors}).items()
        }

    @property
    def degrees(self) -> dict[str, int]:
        """The degrees of freedom of each source."""
        *levels, n_replicates = self.errors.shape
        n_cells = math.prod(levels)
        degrees = {
            source: math.prod(n - 1 for n in effect.shape if n > 1)
            for source, effect in self.effects.items()
        }
        if self.higher is not None:
            degrees[_HIGHER] = n_cells - 1 - sum(degrees.values())
        if self.blocks is None:
            return degrees | {_ERROR: n_cells * (n_replicates - 1)}
        return degrees | {_FOLD: n_replicates - 1, _ERROR: (n_cells - 1) * (n_replicates - 1)}


def analysis_of_variance(
    sums: Mapping[str, float], degrees: Mapping[str, int], *, untested: Sequence[str] = ()
) -> list[AnovaRow]:
    """F and p of every source from sums of squares and degrees of freedom; the last source is the error.

    F and p are NaN for the error, for the sources in ``untested``, and for all where the error is 0 or has no degrees
    of freedom: without an error there is nothing to compare effects with.
    """
    from scipy.special import fdtrc  # heavy to load

    *_, error = sums
    total = sum(sums.values())
    rows = []
    for source, squares in sums.items():
        f = p = partial = math.nan
        mean_square = squares / degrees[source] if degrees[source] else math.nan
        if source not in (error, *untested) and sums[error] > 0.0 and degrees[error]:
            f = mean_square / (sums[error] / degrees[error])
            p = float(fdtrc(degrees[source], degrees[error], f))
            partial = squares / (squares + sums[error])
        share = squares / total if total > 0.0 else math.nan
        rows.append(AnovaRow(source, squares, share, degrees[source], mean_square, f, p, partial))
    return rows


def _reach(error: AnovaRow, share: float, confidence: float) -> float:
    """How far an interval reaches from an estimate whose variance is ``share`` of the error's; NaN without an error."""
    from scipy.special import stdtrit

    if error.degrees == 0:
        return math.nan
    quantile = float(stdtrit(error.degrees, 0.5 + confidence / 2.0))
    return quantile * math.sqrt(error.mean_square * share)


def _without(rounding: float, values: Floats) -> Floats:
    return np.where(np.abs(values) <= rounding, 0.0, values)


def checked_replicates(replicates: str, repetitions: int | None = None) -> str:
    """``replicates`` if it is known and ``repetitions``, where given, are enough."""
    if replicates == "all":
        raise ParameterError(
            "replicates='all' took every fit for a replicate, though fits of a fold share its queries, and refits of a "
            "deterministic ranker are the same model: p fell with the number of repetitions. Take 'folds', the default."
        )
    if checks.one_of("replicates", replicates, REPLICATES) == _REPETITIONS and repetitions == 1:
        raise ParameterError(
            "replicates='repetitions' with one repetition has one replicate of each cell; error needs two or more. "
            "Raise repetitions, or let folds be the replicates: replicates='folds'."
        )
    return replicates


def _checked_fits(values: Any, factors: Any, replicates: str) -> Floats:
    """The values by levels, fold and repetition."""
    array = checks.numbers_in(values, f"values must be numbers: levels × levels × {replicates}.")
    if factors is not None and (not isinstance(factors, Mapping) or len(factors) < 2):
        raise ParameterError("factors must name two factors or more, each with its levels.")
    n_factors = max(2, array.ndim - 1) if factors is None else len(factors)
    if not 1 <= array.ndim - n_factors <= 2:
        raise DataError(
            f"values of {n_factors} factors have {n_factors + 1} dimensions (the levels of each factor, then "
            f"{replicates}), or {n_factors + 2} (… then folds, then repetitions); got {array.ndim}."
        )
    if array.ndim == n_factors + 1:
        array = array[..., np.newaxis] if replicates == _FOLDS else array[..., np.newaxis, :]
    if min(array.shape[:-2]) < 2 or array.size == 0:
        shape = " × ".join(map(str, array.shape))
        raise DataError(
            f"each factor needs two levels or more, and one value at least; got {shape}."
        )
    if np.isinf(array).any():
        at = ", ".join(map(str, (np.argwhere(np.isinf(array))[0] + 1).tolist()))
        raise DataError(f"the value at {at} is infinite; pass NaN for a value that is missing.")
    return array


def _checked_factors(
    factors: Mapping[str, Sequence[Any]] | None, shape: tuple[int, ...]
) -> dict[str, tuple[str, ...]]:
    if len(shape) > MOST_FACTORS:
        raise DataError(f"a design has at most {MOST_FACTORS} factors, got {len(shape)}.")
    if factors is None:
        letters = string.ascii_uppercase[: len(shape)]
        factors = {name: range(1, n + 1) for name, n in zip(letters, shape, strict=True)}
    named = {str(name): tuple(str(level) for level in factors[name]) for name in factors}
    for (name, levels), n_levels in zip(named.items(), shape, strict=True):
        if name in _RESERVED:
            raise ParameterError(f"a factor cannot be called '{name}': the tables use that name.")
        if len(levels) != n_levels:
            raise ParameterError(
                f"factor '{name}' has {len(levels)} levels, but the values have {n_levels}."
            )
        if len(set(levels)) != len(levels):
            raise ParameterError(f"factor '{name}' has a level twice: {', '.join(levels)}.")
    return named


def _checked_folds(
    folds: Sequence[str] | None, blocks: Sequence[Any] | None, n_folds: int
) -> tuple[str, ...]:
    names = tuple(map(str, range(1, n_folds + 1) if folds is None else folds))
    for given in (names, names if blocks is None else blocks):
        if len(given) != n_folds:
            raise ParameterError(f"{len(given)} folds are named, but the values have {n_folds}.")
    if len(set(names)) != n_folds:
        raise ParameterError(f"a fold is named twice: {', '.join(names)}.")
    return names


def _shown(row: AnovaRow) -> dict[str, str]:
    is_tested = row.source not in (_FOLD, _ERROR)
    return {
        "source": row.source,
        "sum of squares": f"{row.sum_of_squares:.4g}",
        "share (η²)": "–" if math.isnan(row.share) else f"{100 * row.share:.1f} %",
        "partial η²": _dash(row.partial_eta_squared, 3) if is_tested else "",
        "degrees": f"{row.degrees}",
        "mean square": "–" if math.isnan(row.mean_square) else f"{row.mean_square:.4g}",
        "F": _dash(row.f, 2) if is_tested else "",
        "p": show_p(row.p) if is_tested else "",
    }


def _dash(value: float, decimals: int) -> str:
    return "–" if math.isnan(value) else f"{value:.{decimals}f}"


def _notes(
    data: _Replicates, rows: Sequence[AnovaRow], terms: Mapping[str, Sequence[Effect]], level: float
) -> list[str]:
    """What was averaged and what the error is; what is significant, or why nothing is tested; what was left out."""
    n_replicates, (least, most) = data.values.shape[-1], data.n_averaged
    if data.kind == _FOLDS:
        times = f"{most}" if least == most else f"{least} to {most}"
        averaged = f", each value the mean of {times} repetitions" if most > 1 else ""
        how = f"blocks: {_count(n_replicates, 'fold')}{averaged}; error: treatment × fold"
    else:
        n_folds = data.fits.shape[-2]
        averaged = f", each the mean over {n_folds} folds" if n_folds > 1 else ""
        how = f"{_count(n_replicates, 'repetition')} of each cell{averaged}; error: repetitions, on these folds alone"
    notes = [how]
    if data.have_error and rows[-1].sum_of_squares > 0.0:
        significant = [row.source for row in rows if row.p < level]
        notes.append(f"significant at {level:g}: {', '.join(significant) or 'none'}")
        clear = [source for source, effects in terms.items() if any(e.is_clear for e in effects)]
        if unlike := [source for source in terms if (source in significant) != (source in clear)]:
            notes.append(
                f"p and intervals disagree about {', '.join(unlike)}: F tests all levels together, an interval one "
                "level alone, uncorrected for their number"
            )
    else:
        notes.append(f"no F and no p: {_why_untested(data)}")
    if data.never_vary:
        notes.append(
            "all repetitions of a cell and fold are equal: the ranker is deterministic, and one repetition is enough"
        )
    if data.lacking:
        more = f" and {len(data.lacking) - _SHOWN} more" if len(data.lacking) > _SHOWN else ""
        listed = f"{data.kind[:-1]} {', '.join(data.lacking[:_SHOWN])}{more}"
        notes.append(f"left out, since not every cell has a value: {listed}")
    if data.kind == _FOLDS and data.n_blocks < data.fits.shape[-2]:
        counts = f"{_count(data.fits.shape[-2], 'fold')} have {data.n_blocks} different test parts"
        notes.append(f"{counts}: folds with the same one count as one")
    return notes


def _why_untested(data: _Replicates) -> str:
    if data.values.shape[-1] < 2:
        return (
            f"one {data.kind[:-1]} gives no error term; pass folds (--folds; make_folds divides one data set), or ask "
            "what seeds do on this data alone (replicates='repetitions', with two repetitions or more)"
        )
    if not data.have_error:
        return (
            f"all repetitions of {_count(data.n_constant_cells, 'cell')} are equal, and refits of a deterministic "
            "ranker are no replicates; let folds be the replicates (replicates='folds')"
        )
    return f"cells differ by the same in all {data.kind}: there is no error to compare effects with"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


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
    replicates: str = _FOLDS,
    order: int | None = None,
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
        Fits of each cell in each fold, with different seeds; a ranker that is not random is fitted once.
    replicates
        "folds" or "repetitions", as in Sá (2016); see ``factorial``. One fold gives effects and shares, but no error
        term, and so no F, p or intervals.
    order, level
        The most factors of an interaction that has a row of its own, and what p values are compared with; see
        ``factorial``.
    n_threads
        How many fits run side by side.
    progress
        A function that is told after each fit.
    checkpoint
        A file that keeps the finished fits; a call that finds one there goes on with it.
    """
    names, cells = estimators_of_cells(estimator, factors, where)
    wanted = parse_measure(measure)
    repetitions = checks.whole_number("repetitions", repetitions, 1)
    checked_replicates(replicates, repetitions)
    if order is not None:
        order = checks.whole_number("order", order, 1, len(names))
    check_listeners(progress, ())
    threads = resolve_threads(n_threads)
    folds = folds_of(data, test, valid)
    wanted = on_scale(wanted, all_parts(folds))

    tested: dict[int, str] = {}

    def fits_of_fold(number: int) -> Callable[[int], float]:
        parts = parts_of(folds[number])
        tested[number] = digest_of_part(parts.test)
        return fits_of_cells(cells, parts, wanted, (number, repetitions, threads))

    def settings() -> dict[str, Any]:
        named = {"estimator": estimator, "factors": list(factors.items()), "measure": wanted}
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
    for number in set(range(len(folds))) - set(tested):  # folds whose fits the checkpoint had
        fits_of_fold(number)
    return factorial(
        by_fold.transpose(1, 0, 2).reshape(*n_levels, len(folds), repetitions),
        names,
        folds=getattr(folds, "names", None),
        blocks=[tested[number] for number in range(len(folds))],
        replicates=replicates,
        order=order,
        level=level,
        response=str(wanted),
    )
