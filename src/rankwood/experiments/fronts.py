"""``run_fronts``: quality by number of trees of every boosted ranker of a run, and how its searches grew.

An experiment with ``fronts = true`` in its table ``[run]`` records both. Figures 9 to 12 of Kocsis, György & Bán (2013)
are drawn from them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood.errors import DataError
from rankwood.evaluation.plots import PlotLine, line_plot
from rankwood.evaluation.results import Result, Tables
from rankwood.experiments.settings import Cell
from rankwood.experiments.store import RECORD, RunFolder

_STEPS = (1, 2, 3, 5, 7)  # limits of each decade: 1, 2, 3, 5, 7, 10, 20, …


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
