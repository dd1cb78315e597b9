"""``size_quality_front``: what each further tree of a model buys, for the models that a search has found."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwood._files import atomic_path, explained_writing
from rankwood.data.dataset import RankingData
from rankwood.ensembles.validation import mean_value
from rankwood.errors import DataError, ModelError
from rankwood.evaluation.stacked_bars import PLOTS, refuse_without_matplotlib
from rankwood.measures.parsing import parse_measure
from rankwood.measures.repeated import tie_averaged
from rankwood.models.family import Family, FrontPoint


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
