"""``factorial_of_run``: the factorial design of a finished run, whose algorithms differ by their parameters.

An algorithm is a cell of the design: its level of a factor is the value of that parameter. Other parameters may differ
between algorithms too, if the design couples them (fewer rounds for one loss, say); the notes of the result name them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.experiments.results import RunResults, read_run
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
