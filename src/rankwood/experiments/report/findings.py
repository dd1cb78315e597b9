"""The statistics of a run: means with intervals, comparisons, times. Every table and chart takes its numbers here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from rankwood.dtypes import Floats
from rankwood.errors import InputError
from rankwood.evaluation.paired_tests import NO_INTERVAL, Interval, Resampling
from rankwood.evaluation.significance import Comparison, compare_values
from rankwood.experiments.results import CellRecord, RunResults
from rankwood.measures.measure import parse_measure

_CONFIDENCE = 0.95
_N_BOOTSTRAP = 1000
_SEED = 0
_TESTS = ("wilcoxon", "t")  # where the run names none


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
        """The mean over the queries of each fold; NaN where none has a value."""
        values, known = self.values[algorithm, measure], self._fold_of_query
        return [mean_of(values[known == index]) for index in range(len(self.results.folds))]

    @property
    def _fold_of_query(self) -> Floats:
        index_of_fold = {fold: index for index, fold in enumerate(self.results.folds)}
        return np.array([index_of_fold.get(fold, -1) for fold, _ in self.results.queries])

    @property
    def n_repetitions(self) -> int:
        """How often each algorithm was fitted on a fold, at most."""
        return max((len(array) for array in self.results.values_by_repetition.values()), default=0)


def find(results: RunResults) -> Findings:
    """Means, intervals and comparisons of a run."""
    values = {
        (name, measure): results.values(name, measure)
        for name in results.algorithms
        for measure in results.measures
    }
    standings: dict[tuple[str, str], Standing] = {}
    comparisons: dict[str, Comparison | None] = {}
    for measure in results.measures:
        by_name = {name: values[name, measure] for name in results.algorithms}
        comparisons[measure] = comparison = _compare(results, measure, by_name)
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


def _compare(results: RunResults, measure: str, by_name: Mapping[str, Floats]) -> Comparison | None:
    """Every algorithm that has values against the baseline; against the best where the baseline has none."""
    known = {name: values for name, values in by_name.items() if not np.isnan(values).all()}
    if len(known) < 2:
        return None
    return compare_values(
        known,
        results.baseline_among(known),
        tests=tuple(results.tests) or _TESTS,
        correction=results.correction,
        seed=_SEED,
        higher_is_better=not is_lower_better(measure),
    )


def _plain_standings(
    results: RunResults, measure: str, by_name: Mapping[str, Floats]
) -> dict[str, Standing]:
    """Means and intervals, the same resampled queries for every algorithm."""
    names = list(by_name)
    values = np.stack([by_name[name] for name in names], axis=1) if names else np.empty((0, 0))
    is_known = ~np.isnan(values)
    resampling = Resampling.of(len(values), _N_BOOTSTRAP, _CONFIDENCE, _SEED)
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
        standings[name] = Standing(mean, interval, n_known, is_partial=is_partial)
    return standings


def _mean_of_cells(results: RunResults, algorithm: str, measure: str) -> float:
    """The mean over cells of a measure that has no values by query, such as an area over all documents."""
    means = [
        cell.means[measure]
        for cell in results.cells
        if cell.algorithm == algorithm and cell.status == "done" and measure in cell.means
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
