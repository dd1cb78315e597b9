"""What is computed from finished runs beside their report: factorial designs, and quality by number of trees.

``factorial_of_run`` is the factorial design of a run whose algorithms differ by their parameters. An algorithm is a
cell of the design: its level of a factor is the value of that parameter. Other parameters may differ between
algorithms too, if the design couples them (fewer rounds for one loss, say); the notes of the result name them.

``run_fronts`` is the quality by number of trees of every boosted ranker of a run, and how its searches grew. An
experiment with ``fronts = true`` in its table ``[run]`` records both. Figures 9 to 12 of Kocsis, György & Bán (2013)
are drawn from them.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.plots import PlotLine, line_plot
from rankwood.evaluation.results import Result, Tables
from rankwood.experiments.results import RunResults, read_run
from rankwood.experiments.settings import Cell
from rankwood.experiments.store import RECORD, RunFolder
from rankwood.measures.measure import squeeze
from rankwood.studies.factorial import (
    REPLICATES,
    Factorial,
    as_replicates,
    factorial,
    refuse_single_replicates,
)

_SHOWN = 5  # cells that lack, algorithms left out
_KIND = "kind"
_STEPS = (1, 2, 3, 5, 7)  # limits of each decade: 1, 2, 3, 5, 7, 10, 20, …


# Factorial designs.


def factorial_of_run(
    run: RunResults | str | os.PathLike[str],
    factors: Sequence[str] | Mapping[str, Sequence[Any]],
    measure: str | None = None,
    *,
    replicates: str = "repetitions",
    level: float = 0.05,
) -> Factorial:
    """What parameters in which the algorithms of a run differ do to a measure.

    Parameters
    ----------
    run
        A run, or its folder.
    factors
        Names of parameters, two or more; "kind" is the kind of ranker, "base.n_trees" a parameter of an inner one. The
        levels are the values that the algorithms have, in the order of the run; a mapping from names to values takes
        these alone. Algorithms without these parameters are left out.
    measure
        One of the run's; by default its primary one.
    replicates
        As for ``factorial_design``: "repetitions" (means over folds), "all" or "folds".
    level
        What p values are compared with.

    Examples
    --------
    >>> factorial_of_run("runs/broof-table-6.3", ["loss", "validation"])       # doctest: +SKIP
    """
    results = run if isinstance(run, RunResults) else read_run(run)
    checks.one_of("replicates", replicates, REPLICATES)
    wanted = _measure_of(results, measure)
    design = _Design.of(results, factors)
    repetitions = design.repetitions()
    refuse_single_replicates(replicates, len(results.folds), repetitions)
    by_fold = design.values(wanted, repetitions)
    n_levels = tuple(len(values) for values in design.levels.values())
    values = as_replicates(by_fold, replicates).reshape(*n_levels, -1)
    found = factorial(values, design.levels, level=level, response=wanted)
    return replace(found, notes=(*found.notes, *design.notes()))


@dataclass(frozen=True, eq=False)
class _Design:
    """The algorithms of a run as the cells of a design."""

    results: RunResults
    levels: Mapping[str, tuple[str, ...]]  # by factor
    algorithm_of: Mapping[tuple[str, ...], str]  # by levels
    parameters: Mapping[str, Mapping[str, str]]  # algorithm -> parameter -> value as text
    left_out: tuple[str, ...]

    @classmethod
    def of(cls, results: RunResults, factors: Any) -> _Design:
        """The design, if every combination of levels is exactly one algorithm."""
        parameters = {
            one["name"]: _flat({_KIND: one["kind"], **one["parameters"]})
            for one in results.record["configuration"]["algorithms"]
        }
        wanted = _checked_factors(factors, parameters)
        _refuse_tuned(results, wanted)
        cells = {
            name: tuple(str(values[factor]) for factor in wanted)
            for name, values in parameters.items()
            if all(
                factor in values and (levels is None or values[factor] in levels)
                for factor, levels in wanted.items()
            )
        }
        levels = {
            factor: tuple(dict.fromkeys(cell[number] for cell in cells.values()))
            if given is None
            else tuple(given)
            for number, (factor, given) in enumerate(wanted.items())
        }
        for factor, found in levels.items():
            if len(found) < 2:
                raise ParameterError(
                    f"{factor} needs two levels or more; the run has {', '.join(found) or 'none'}. "
                    f"{_differing(parameters)}"
                )
        algorithm_of = _one_by_cell(cells, levels, parameters)
        left_out = tuple(name for name in parameters if name not in cells)
        kept = {name: parameters[name] for name in cells}
        return cls(results, levels, algorithm_of, kept, left_out)

    def repetitions(self) -> int:
        """How many repetitions every algorithm of the design has."""
        listed = self.results.record["configuration"]["algorithms"]
        counts = {one["name"]: int(one["repetitions"]) for one in listed}
        counts = {name: counts[name] for name in self.algorithm_of.values()}
        least, most = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        if counts[least] != counts[most]:
            raise DataError(
                f"'{most}' has {counts[most]} repetitions and '{least}' {counts[least]}: a design has as many of every "
                "algorithm. Run the experiment with equal ones."
            )
        return counts[most]

    def values(self, measure: str, repetitions: int) -> Floats:
        """The mean of the measure by fold, algorithm and repetition."""
        means = {
            (cell.fold, cell.algorithm, cell.repetition): cell.means[measure]
            for cell in self.results.cells
            if cell.status == "done"
        }
        keys = [
            (fold, self.algorithm_of[levels], repetition)
            for fold in self.results.folds
            for levels in itertools.product(*self.levels.values())
            for repetition in range(1, repetitions + 1)
        ]
        lacking = [key for key in keys if not np.isfinite(means.get(key, np.nan))]
        if lacking:
            shown = "; ".join(
                f"{name}, {fold}, repetition {n}" for fold, name, n in lacking[:_SHOWN]
            )
            more = f" and {len(lacking) - _SHOWN:,} more" if len(lacking) > _SHOWN else ""
            raise DataError(
                f"{len(lacking):,} of {len(keys):,} cells have no {measure}: {shown}{more}. A design with holes cannot "
                "be taken apart: go on with the run (rankwood experiment, --retry-failed for failed cells)."
            )
        shape = (len(self.results.folds), len(self.algorithm_of), repetitions)
        return np.array([means[key] for key in keys], np.float64).reshape(shape)

    def notes(self) -> list[str]:
        """Parameters that vary along with a factor, or otherwise; algorithms that are not part of the design."""
        notes = []
        for name in _varying(self.parameters):
            if name in self.levels:
                continue
            leader = next((f for f in self.levels if self._follows(name, f)), None)
            how = (
                f"varies with {leader}"
                if leader
                else "differs between cells too, not by one factor alone"
            )
            notes.append(f"{name} {how}: effects are those of both together")
        if self.left_out:
            shown = ", ".join(self.left_out[:_SHOWN])
            more = f" and {len(self.left_out) - _SHOWN} more" if len(self.left_out) > _SHOWN else ""
            notes.append(f"not in the design: {shown}{more}")
        return notes

    def _follows(self, parameter: str, factor: str) -> bool:
        """Whether the level of a factor determines the value of a parameter."""
        pairs = {(each[factor], each.get(parameter)) for each in self.parameters.values()}
        return len(pairs) == len(self.levels[factor])


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Parameters as texts; those of an inner ranker as ``base.n_trees``, its kind as ``base``."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and "estimator" in value:
            flat[f"{prefix}{name}"] = str(value["estimator"])
            flat |= _flat(value.get("parameters") or {}, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = str(value)
    return flat


def _checked_factors(
    factors: Any, parameters: Mapping[str, Mapping[str, str]]
) -> dict[str, list[str] | None]:
    """By factor the levels to take as texts; None for all that there are."""
    if isinstance(factors, str) or not isinstance(factors, Sequence | Mapping) or len(factors) < 2:
        raise ParameterError(
            f"name two parameters or more as factors, such as ['loss', 'validation']. {_differing(parameters)}"
        )
    known = dict.fromkeys(name for each in parameters.values() for name in each)
    wanted: dict[str, list[str] | None] = {}
    for factor in factors:
        if factor not in known:
            raise UnknownName("parameter of this run", str(factor), known)
        if factor in wanted:
            raise ParameterError(f"{factor} is named twice.")
        wanted[factor] = None
        if isinstance(factors, Mapping) and factors[factor]:
            there = dict.fromkeys(each[factor] for each in parameters.values() if factor in each)
            wanted[factor] = [
                checks.one_of(f"level of {factor}", str(level), there) for level in factors[factor]
            ]
    return wanted


def _refuse_tuned(results: RunResults, factors: Mapping[str, Any]) -> None:
    for one in results.record["configuration"]["algorithms"]:
        tuned = [factor for factor in factors if factor in (one.get("tune") or {})]
        if tuned:
            raise ParameterError(
                f"{tuned[0]} of '{one['name']}' was tuned, and so has no level that was set beforehand."
            )


def _one_by_cell(
    cells: Mapping[str, tuple[str, ...]],
    levels: Mapping[str, tuple[str, ...]],
    parameters: Mapping[str, Mapping[str, str]],
) -> dict[tuple[str, ...], str]:
    """The algorithm of every combination of levels; an error where there are two or none."""
    algorithm_of: dict[tuple[str, ...], str] = {}
    for name, cell in cells.items():
        if cell in algorithm_of:
            pair = {other: parameters[other] for other in (algorithm_of[cell], name)}
            differing = ", ".join(_varying(pair)) or "nothing but their names"
            raise ParameterError(
                f"'{algorithm_of[cell]}' and '{name}' have the same levels ({', '.join(cell)}); they differ in "
                f"{differing}. Name that as a factor too, or say which levels to take."
            )
        algorithm_of[cell] = name
    lacking = [cell for cell in itertools.product(*levels.values()) if cell not in algorithm_of]
    if lacking:
        shown = "; ".join(" × ".join(cell) for cell in lacking[:_SHOWN])
        more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        raise ParameterError(
            f"no algorithm of the run has {shown}{more}: a full design has every combination of levels. Run those too, "
            "or say which levels to take."
        )
    return algorithm_of


def _varying(parameters: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The parameters that are not the same in all algorithms."""
    names = dict.fromkeys(name for each in parameters.values() for name in each)
    return [name for name in names if len({each.get(name) for each in parameters.values()}) > 1]


def _differing(parameters: Mapping[str, Mapping[str, str]]) -> str:
    names = ", ".join(_varying(parameters))
    return (
        f"The algorithms of this run differ in {names}." if names else "Its algorithms are alike."
    )


def _measure_of(results: RunResults, measure: str | None) -> str:
    if measure is None:
        return results.primary
    for text in results.measures:
        if squeeze(text) == squeeze(str(measure)):
            return text
    raise UnknownName("measure of this run", str(measure), results.measures)


# Fronts.


@dataclass(frozen=True, eq=False)
class RunFronts(Result):
    """The test measure of the model that validated best among those of at most so many trees, by algorithm.

    Parameters
    ----------
    measure
        What the values are of.
    limits
        The most trees of a model, ascending.
    curves
        A value per limit and algorithm, the mean over the folds and repetitions that are done; NaN where an algorithm
        has no model that small.
    growth
        Of every search, by algorithm and cell: round, models at its end, models it added, and length of the leader.
    """

    measure: str
    limits: tuple[int, ...]
    curves: Mapping[str, list[float]]
    growth: Mapping[str, Mapping[str, Mapping[str, list[int]]]] = field(default_factory=dict)

    def rows(self) -> Iterator[dict[str, float]]:
        """A mapping per limit: ``trees``, then the algorithms."""
        for place, limit in enumerate(self.limits):
            yield {"trees": limit, **{name: values[place] for name, values in self.curves.items()}}

    def table(self) -> list[dict[str, str]]:
        """A row per limit as texts."""
        return [
            {
                name: str(value) if name == "trees" else "" if math.isnan(value) else f"{value:.4f}"
                for name, value in row.items()
            }
            for row in self.rows()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        points = [
            {name: None if math.isnan(value) else value for name, value in row.items()}
            for row in self.rows()
        ]
        growth = {name: dict(cells) for name, cells in self.growth.items()}
        return {"measure": self.measure, "points": points, "growth": growth}

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the curves over the number of trees, to a file whose ending names its format: .png, .svg or .pdf."""
        trees = np.array(self.limits, float)
        lines = {
            name: PlotLine(trees, np.array(values), group=number, dashes=number, steps=True)
            for number, (name, values) in enumerate(self.curves.items())
        }
        line_plot(path, lines, "most trees of a model", self.measure)

    def _tables(self) -> Tables:
        return {self.measure: self.table()}

    def _records(self) -> Iterator[dict[str, float]]:
        return self.rows()


def run_fronts(folder: str | os.PathLike[str]) -> RunFronts:
    """The curves of the run in ``folder``, which was made with ``fronts = true``.

    Examples
    --------
    >>> print(run_fronts("runs/table-3"))                      # doctest: +SKIP
    """
    run = RunFolder(folder)
    records = _done_records(run)
    fronts: dict[str, list[Mapping[str, Any]]] = {}
    growth: dict[str, dict[str, Any]] = {}
    for cell, record in records.items():
        if "front" in record:
            fronts.setdefault(cell.algorithm, []).append(record["front"])
        if "growth" in record:
            place = f"{cell.fold}, repetition {cell.repetition}"
            growth.setdefault(cell.algorithm, {})[place] = record["growth"]
    if not fronts:
        raise DataError(
            f"{run.path} holds no fronts: no finished cell has recorded one. Boosted rankers do where the experiment's "
            "file says fronts = true under [run]; run it again with that into another folder."
        )
    limits = _limits(max(front["trees"][-1] for each in fronts.values() for front in each))
    curves = {
        name: [float(np.mean([_at_most(front, limit) for front in each])) for limit in limits]
        for name, each in fronts.items()
    }
    measures = sorted({str(front["measure"]) for each in fronts.values() for front in each})
    return RunFronts(", ".join(measures), limits, curves, growth)


def _done_records(run: RunFolder) -> dict[Cell, dict[str, Any]]:
    """The records of the cells that are done, in the order of the experiment."""
    configuration = run.record().get("configuration")
    if not configuration:
        raise DataError(f"{run.path} holds no run: there is no {RECORD} that can be read.")
    cells = (
        Cell(algorithm["name"], fold["name"], repetition)
        for algorithm in configuration["algorithms"]
        for fold in configuration["data"]["folds"]
        for repetition in range(1, int(configuration["repetitions"]) + 1)
    )
    records = {cell: run.cell_record(cell) for cell in cells}
    return {cell: one for cell, one in records.items() if one and one["status"] == "done"}


def _limits(most: int) -> tuple[int, ...]:
    """Round numbers of trees up to ``most``, which is the last."""
    limits: list[int] = []
    unit = 1
    while unit <= most:
        limits += [step * unit for step in _STEPS if step * unit < most]
        unit *= 10
    return (*limits, most)


def _at_most(front: Mapping[str, Sequence[float | None]], limit: int) -> float:
    """The value on the test part of the longest model of a front that has at most ``limit`` trees."""
    value = math.nan
    for n_trees, on_test in zip(front["trees"], front["data"], strict=True):
        if n_trees is not None and n_trees <= limit and on_test is not None:
            value = float(on_test)
    return value
