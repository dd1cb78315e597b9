"""The statistics of a run: means with intervals, comparisons, times. Every table and chart takes its numbers here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwood.dtypes import Floats
from rankwood.errors import InputError
from rankwood.evaluation.paired_tests import (
    NO_INTERVAL,
    Interval,
    Resampling,
    VarianceComponents,
    variance_components,
)
from rankwood.evaluation.significance import Comparison, compare_values, corrected_across
from rankwood.experiments.results import CellRecord, RunResults
from rankwood.measures.measure import parse_measure

_TESTS = ("t", "wilcoxon")  # where the run names none


@dataclass(frozen=True)
class Standing:
    """One algorithm by one measure."""

    mean: float
    interval: Interval
    n_queries: int  # with a value; 0 of a measure that is taken over all documents
    marks: str = ""
    is_best: bool = False
    is_tied_with_best: bool = False
    is_partial: bool = False  # cells failed, so others have values of more queries
    n_missing: int = 0  # repetitions of folds that failed or were not run yet


@dataclass(frozen=True, eq=False)
class Findings:
    """The run, and what was computed from it."""

    results: RunResults
    standings: Mapping[tuple[str, str], Standing]  # (algorithm, measure)
    comparisons: Mapping[
        str, Comparison | None
    ]  # by measure; None where there are not two to compare
    values: Mapping[tuple[str, str], Floats]  # (algorithm, measure) -> by query

    @property
    def primary(self) -> str:
        """The measure that decides."""
        return self.results.primary

    @property
    def comparison(self) -> Comparison | None:
        """The comparison by the measure that decides."""
        return self.comparisons[self.primary]

    @property
    def baseline(self) -> str | None:
        """What the others were compared with."""
        return self.comparison.baseline if self.comparison else None

    @property
    def best(self) -> str | None:
        """The algorithm with the best mean of the measure that decides."""
        return self.best_by(self.primary)

    def best_by(self, measure: str) -> str | None:
        """The algorithm with the best mean of a measure; None where none has a value."""
        names = self.results.algorithms
        return next((name for name in names if self.standings[name, measure].is_best), None)

    def ranked(self, measure: str | None = None) -> list[str]:
        """The algorithms, the best first; then those with values of some queries only, then those without a value."""
        chosen = measure or self.primary
        sign = 1.0 if is_lower_better(chosen) else -1.0

        def order(name: str) -> tuple[bool, bool, float]:
            standing = self.standings[name, chosen]
            return math.isnan(standing.mean), standing.is_partial, sign * standing.mean

        return sorted(self.results.algorithms, key=order)

    def index_of(self, algorithm: str) -> int:
        """Its number in the run, which gives its mark and its colour in every chart."""
        return self.results.algorithms.index(algorithm)

    def cells_of(self, algorithm: str, status: str = "done") -> list[CellRecord]:
        """The finished, or the failed, cells of an algorithm."""
        cells = self.results.cells
        return [cell for cell in cells if (cell.algorithm, cell.status) == (algorithm, status)]

    def seconds(self, algorithm: str, stage: str) -> float:
        """The median over its finished cells of what a stage took; NaN where none tells."""
        times = [cell.seconds[stage] for cell in self.cells_of(algorithm) if stage in cell.seconds]
        return float(np.median(times)) if times else math.nan

    def by_fold(self, algorithm: str, measure: str) -> list[float]:
        """The mean over the queries of each fold, or over its cells where it has none of its own; NaN without."""
        values, known = self.values[algorithm, measure], self._fold_of_query
        if np.isnan(values).all() or self.results.folds_share_queries:  # a value by cell
            return [_mean_of_cells(self.results, algorithm, measure, f) for f in self.results.folds]
        return [mean_of(values[known == index]) for index in range(len(self.results.folds))]

    def is_of_all_documents(self, measure: str) -> bool:
        """Whether no algorithm has values by query, since the measure is taken over all documents together."""
        return not any(self.standings[name, measure].n_queries for name in self.results.algorithms)

    @property
    def confidence(self) -> str:
        """Of all intervals: 1 less the level, as text."""
        return f"{100 * (1 - self.results.compare.level):g} %"

    def by_repetition(self, algorithm: str, measure: str) -> Floats:
        """The mean over all queries of each repetition that has values of all queries the algorithm has values of."""
        values = self.results.values_by_repetition[algorithm, measure]
        known = values[:, ~np.isnan(values).all(axis=0)]
        means: Floats = (
            known[~np.isnan(known).any(axis=1)].mean(axis=1) if known.size else np.zeros(0)
        )
        return means

    def components(self, algorithm: str, measure: str) -> VarianceComponents:
        """How much of the variance of a value is between queries, between seeds, and neither."""
        values = self.results.values_by_repetition[algorithm, measure]
        return variance_components(values, self._fold_of_query)

    @property
    def _fold_of_query(self) -> Any:
        index_of_fold = {fold: index for index, fold in enumerate(self.results.folds)}
        return np.array([index_of_fold.get(fold, -1) for fold, _ in self.results.queries])

    @property
    def n_repetitions(self) -> int:
        """How often each algorithm was fitted on a fold, at most."""
        return self.results.n_repetitions


def find(results: RunResults) -> Findings:
    """Means, intervals and comparisons of a run."""
    values = {
        (name, measure): results.values(name, measure)
        for name in results.algorithms
        for measure in results.measures
    }
    standings: dict[tuple[str, str], Standing] = {}
    comparisons = compared(results, values)
    for measure in results.measures:
        by_name = {name: values[name, measure] for name in results.algorithms}
        comparison = comparisons[measure]
        plain = _plain_standings(results, measure, by_name)
        best, tied = _best_of(results, measure, by_name, comparison)
        if best is None:
            best = _best_mean(plain, measure)
        for name, standing in plain.items():
            standings[name, measure] = replace(
                standing,
                marks=comparison.marks(name) if comparison and name in comparison.means else "",
                is_best=name == best,
                is_tied_with_best=name in tied,
            )
    return Findings(results, standings, comparisons, values)


def is_lower_better(measure: str) -> bool:
    """Whether a measure is an error."""
    try:
        return parse_measure(measure).name == "rmse"
    except InputError:  # a name that only the run's author knows
        return False


def mean_of(values: Floats) -> float:
    """The mean of the values there are; NaN where there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else math.nan


def compared(
    results: RunResults,
    values: Mapping[tuple[str, str], Floats],
    *,
    with_margin: bool = True,
) -> dict[str, Comparison | None]:
    """The comparison by each measure, as the run's settings say; None where there are not two to compare.

    ``with_margin``: the measure that decides has the tests of equivalence too.
    """
    found = {
        measure: _compare(
            results,
            measure,
            {name: values[name, measure] for name in results.algorithms},
            results.compare.margin if with_margin and measure == results.primary else None,
        )
        for measure in results.measures
    }
    if not results.compare.across_measures:
        return found
    known = {measure: each for measure, each in found.items() if each is not None}
    return {**found, **corrected_across(known)}


def _compare(
    results: RunResults,
    measure: str,
    by_name: Mapping[str, Floats],
    margin: float | None = None,
) -> Comparison | None:
    """Every algorithm that has values against the baseline; against the best where the baseline has none."""
    known = {name: values for name, values in by_name.items() if not np.isnan(values).all()}
    if len(known) < 2:
        return None
    return compare_values(
        known,
        results.baseline_among(known),
        tests=tuple(results.tests) or _TESTS,
        correction=results.correction,
        margin=margin,
        **results.compare.options(),
        higher_is_better=not is_lower_better(measure),
    )


def _plain_standings(
    results: RunResults, measure: str, by_name: Mapping[str, Floats]
) -> dict[str, Standing]:
    """Means and intervals, the same resampled queries for every algorithm."""
    names = list(by_name)
    values = np.stack([by_name[name] for name in names], axis=1) if names else np.empty((0, 0))
    is_known = ~np.isnan(values)
    confidence = 1.0 - results.compare.level
    resampling = Resampling.of(
        len(values), results.compare.resamples, confidence, results.compare.seed
    )
    intervals = [NO_INTERVAL] * len(names)
    if is_known.any():
        known = np.where(is_known, values, 0.0)
        intervals = resampling.ratio_intervals(known, is_known.astype(np.float64))
    standings = {}
    for index, name in enumerate(names):
        mean, n_known = mean_of(values[:, index]), int(is_known[:, index].sum())
        if not n_known:
            mean = _mean_of_cells(results, name, measure)
        interval = intervals[index] if n_known > 1 else NO_INTERVAL
        is_partial = 0 < n_known < int(is_known.sum(axis=0).max())
        n_missing = missing_cells(results, name)
        standings[name] = Standing(
            mean, interval, n_known, is_partial=is_partial, n_missing=n_missing
        )
    return standings


def missing_cells(results: RunResults, algorithm: str) -> int:
    """How many of the cells that an algorithm was to have are not finished."""
    own = [cell for cell in results.cells if cell.algorithm == algorithm]
    listed = results.record.get("configuration", {})
    planned = listed.get("algorithms", []) if isinstance(listed, Mapping) else []
    wanted = next((one["repetitions"] for one in planned if one.get("name") == algorithm), 0)
    most = max([int(wanted), *(cell.repetition for cell in own)])
    return most * len(results.folds) - sum(cell.status == "done" for cell in own) if own else 0


def _mean_of_cells(
    results: RunResults, algorithm: str, measure: str, fold: str | None = None
) -> float:
    """The mean over cells, of a fold or of all, of a measure that has no values by query, such as a pooled area."""
    means = [
        cell.means[measure]
        for cell in results.cells
        if cell.algorithm == algorithm and cell.status == "done" and measure in cell.means
        if fold in (None, cell.fold)
    ]
    return mean_of(np.array(means, np.float64))


def _best_of(
    results: RunResults,
    measure: str,
    by_name: Mapping[str, Floats],
    comparison: Comparison | None,
) -> tuple[str | None, set[str]]:
    """The best algorithm and those that do not differ from it significantly, by values per query.

    Where cells failed, only algorithms with values of all queries count: means over different queries cannot be set
    beside each other.
    """
    if comparison is None:
        return None, set()
    n_known = {name: int((~np.isnan(values)).sum()) for name, values in by_name.items()}
    most = max(n_known.values())
    whole = {name: by_name[name] for name in by_name if n_known[name] == most}
    if len(whole) == 1:
        return next(iter(whole)), set()
    among = comparison if len(whole) == len(comparison.means) else _compare(results, measure, whole)
    return (among.best, among.tied_with_best) if among else (None, set())


def _best_mean(standings: Mapping[str, Standing], measure: str) -> str | None:
    """The algorithm with the best mean, where there is nothing to compare query by query."""
    sign = -1.0 if is_lower_better(measure) else 1.0
    known = [name for name, standing in standings.items() if not math.isnan(standing.mean)]
    return max(known, key=lambda name: sign * standings[name].mean, default=None)
