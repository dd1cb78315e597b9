"""``quality_cost_curve``: what each further tree of a model costs, and what it gives."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.files import PLOTS, atomic_path, explained_writing
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataError, MissingExtra, ModelError
from rankwood.evaluation.plots import refuse_without_matplotlib
from rankwood.measures.compute import mean_value, tie_averaged
from rankwood.measures.measure import Measure, parse_measure
from rankwood.models.early_exit import EarlyExit, Journey, forest_of
from rankwood.models.family import Family, FrontPoint

_POINTS = 20  # of a curve, by default
_NO_EXITS = EarlyExit(drop=0.0, scope="all")
_DEFAULT_EXITS = EarlyExit()


@dataclass(frozen=True, eq=False)
class QualityCostCurve:
    """Mean cost of a document and value of a measure, by number of trees.

    Parameters
    ----------
    measure
        What ``value`` and ``exit_value`` are.
    n_trees
        Numbers of trees, ascending; the last is all of them.
    cost, value
        Without exits, for each number of trees.
    exit_cost, exit_value
        With exits; None where there are none.
    """

    measure: str
    n_trees: Array
    cost: Floats
    value: Floats
    exits: EarlyExit | None = None
    exit_cost: Floats | None = None
    exit_value: Floats | None = None

    def rows(self) -> Iterator[dict[str, float]]:
        """A mapping per number of trees."""
        columns: dict[str, Any] = {"trees": self.n_trees, "cost": self.cost, "value": self.value}
        if self.exits is not None:
            columns |= {"cost with exits": self.exit_cost, "value with exits": self.exit_value}
        for values in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield dict(zip(columns, values, strict=True))

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """A line per number of trees, under a header."""
        rows = list(self.rows())
        with (
            explained_writing(path),
            atomic_path(path) as temporary,
            open(temporary, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, list(rows[0]) if rows else ["trees"])
            writer.writeheader()
            writer.writerows(rows)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the measure over the cost, to a file whose name says its kind: .png, .svg or .pdf."""
        figure = plot_curves(self._labelled(), self.measure)
        kind = Path(path).suffix.lstrip(".").lower() or "png"
        known = figure.canvas.get_supported_filetypes()
        if kind not in known:
            raise DataError(
                f"{os.fspath(path)}: a plot cannot be written as .{kind}. Choose one of "
                f"{', '.join(sorted(known))}."
            )
        with explained_writing(path), atomic_path(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=120)

    def _labelled(self) -> dict[str, tuple[Floats, Floats]]:
        curves = {"all documents through all trees": (self.cost, self.value)}
        if self.exits is not None and self.exit_cost is not None and self.exit_value is not None:
            label = f"{self.exits.drop:.0%} leave every {self.exits.every:,} trees"
            curves[label] = (self.exit_cost, self.exit_value)
        return curves


def quality_cost_curve(
    model: Any,
    data: RankingData,
    measure: str | Measure = "ndcg@10",
    *,
    costs: Any = None,
    exits: EarlyExit | None = _DEFAULT_EXITS,
    every: int | None = None,
    cost: str = "all",
    n_threads: int | None = None,
) -> QualityCostCurve:
    """What a model costs and is worth after some of its trees, and after all, with and without early exits.

    Parameters
    ----------
    model
        A fitted ranker made of trees, or a ``Forest``.
    data
        Labelled documents with queries.
    measure
        Any measure.
    costs
        What computing each feature costs: numbers, a mapping from names, or a cost file; 1 each by default.
    exits
        Where documents leave early; None for a curve without exits only.
    every
        Trees from one point to the next; by default such that there are about 20 points.
    cost
        "all" or "path", as for ``EarlyExit.score``.
    """
    if not isinstance(data, RankingData):
        raise DataError(
            f"a curve needs labels: pass RankingData, not {type(data).__name__} without labels."
        )
    wanted = parse_measure(measure)
    n_trees = forest_of(model).n_trees
    step = max(1, math.ceil(n_trees / _POINTS))
    if every is not None:
        step = checks.whole_number("every", every, 1)
    stops = [*range(step, n_trees, step), n_trees]

    def curve(of: EarlyExit) -> tuple[Floats, Floats]:
        journey = Journey.start(model, data, costs=costs, cost=cost, n_threads=n_threads)
        return _points(journey, of, stops, wanted, data)

    without = curve(_NO_EXITS)
    with_exits = (None, None) if exits is None else curve(exits)
    return QualityCostCurve(str(wanted), np.array(stops), *without, exits, *with_exits)


def _points(
    journey: Journey, exits: EarlyExit, stops: list[int], measure: Measure, data: RankingData
) -> tuple[Floats, Floats]:
    """Mean cost and measure at each stop."""
    points = []
    for n_trees in exits.stages(journey, stops):
        if n_trees in stops:
            so_far = journey.result()
            value = mean_value(measure, checks.read_only(so_far.scores), data)
            points.append((so_far.mean_cost, value))
    cost, value = np.array(points).T
    return cost, value


def plot_curves(curves: dict[str, tuple[Floats, Floats]], measure: str) -> Any:
    """A matplotlib figure of named curves: the measure over the cost of a document."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "report", "a plot") from None
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for label, (cost, value) in curves.items():
        axes.plot(cost, value, marker="o", markersize=3, label=label)
    axes.set_xlabel("mean cost of a document")
    axes.set_ylabel(measure)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


# ``size_quality_front``: what each further tree of a model buys, for the models that a search has found.


@dataclass(frozen=True)
class Front:
    """The best models by their number of trees.

    Parameters
    ----------
    measure
        What all values are of.
    searched_on
        What the search looked at: "train" or "valid".
    points
        The models, the shortest first.
    on_data
        Their values on further data; None where there were none.
    """

    measure: str
    searched_on: str
    points: tuple[FrontPoint, ...]
    on_data: tuple[float, ...] | None = None

    @property
    def columns(self) -> dict[str, list[float]]:
        """Numbers of trees, then values by what they were measured on."""
        found: dict[str, list[float]] = {"trees": [point.n_trees for point in self.points]}
        if self.searched_on != "valid":
            found["train"] = [point.f for point in self.points]
        valid = [point.valid for point in self.points]
        if not all(math.isnan(value) for value in valid):
            found["valid"] = valid
        if self.on_data is not None:
            found["data"] = list(self.on_data)
        return found

    def rows(self) -> Iterator[dict[str, float]]:
        """A mapping per number of trees."""
        columns = self.columns
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the measure over the number of trees, to a file whose name says its kind: .png, .svg or .pdf."""
        kind = Path(path).suffix.lower()
        if kind not in PLOTS:
            raise DataError(
                f"{os.fspath(path)}: a plot must end in {', '.join(PLOTS)}, not '{kind}'."
            )
        refuse_without_matplotlib()
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        columns = self.columns
        trees = columns.pop("trees")
        for name, values in columns.items():
            axes.plot(trees, values, marker="o", markersize=3, drawstyle="steps-post", label=name)
        axes.set(xlabel="trees of the model", ylabel=self.measure)
        axes.grid(alpha=0.3)
        axes.legend()
        with explained_writing(path), atomic_path(path) as temporary:
            figure.savefig(temporary, format=kind[1:], dpi=120)


def size_quality_front(
    model: Any, data: RankingData | None = None, *, every_length: bool = False
) -> Front:
    """The best models of a fitted ``BoostingTree`` by their number of trees, and their values on further data.

    Models are those chosen in training; ``data`` are only measured on. By default there are those that beat every
    shorter one on what they were chosen by; ``every_length`` gives the best of each length.
    """
    family = getattr(model, "family_", model)
    if not isinstance(family, Family):
        raise ModelError(
            f"{type(model).__name__} has no front: only a fitted BoostingTree keeps models of many lengths."
        )
    points = tuple(point for point in family.front if every_length or point.is_better)
    measure = tie_averaged(parse_measure(family.measure))
    on_data = None
    if data is not None:
        scores = (family.model(point.model).predict(data) for point in points)
        on_data = tuple(mean_value(measure, values, data) for values in scores)
    searched_on = str(getattr(model, "evaluate_on", "train"))
    return Front(str(measure), searched_on, points, on_data)
