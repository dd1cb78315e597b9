"""``convergence``: a measure by tree, round or layer, on training, validation and test data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.ensembles.progress import Callback, Watch, check_listeners
from rankwood.ensembles.validation import is_minimised, mean_value
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.evaluation.results import show_number
from rankwood.evaluation.stages import Stages, recorded
from rankwood.evaluation.tables import tables_as_html, tables_as_text, write_csv
from rankwood.measures.measure import Measure
from rankwood.measures.parsing import parse_measure

__all__ = ["Convergence", "Curve", "convergence"]

PARTS = ("train", "oob", "vali", "test")  # the order of columns
_DASHES = {"test": 0, "vali": 1, "train": 2, "oob": 3}
_LINES_SHOWN = 20
_OUT_OF_BAG = "oob"


@dataclass(frozen=True, eq=False)
class Curve:
    """A model's measure on one part of the data, by number of units (trees, rounds, layers)."""

    name: str
    part: str
    unit: str
    at: Array
    values: Floats
    is_minimised: bool = False

    @property
    def best(self) -> tuple[int, float]:
        """The first number of units with the best value, and the value; (0, nan) where there is none."""
        if np.isnan(self.values).all():
            return 0, float("nan")
        place = int(np.nanargmin(self.values) if self.is_minimised else np.nanargmax(self.values))
        return int(self.at[place]), float(self.values[place])


@dataclass(frozen=True, eq=False)
class Convergence:
    """Curves of one measure: ``result["LambdaMART", "test"].values``."""

    measure: str
    curves: tuple[Curve, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, key: tuple[str, str]) -> Curve:
        for curve in self.curves:
            if (curve.name, curve.part) == key:
                return curve
        known = ", ".join(f"{curve.name}, {curve.part}" for curve in self.curves)
        raise ParameterError(f"there is no curve {key!r}. Known: {known}.")

    @property
    def names(self) -> list[str]:
        """The models."""
        return list(dict.fromkeys(curve.name for curve in self.curves))

    def rows(self) -> list[dict[str, Any]]:
        """A flat mapping per model, part and stage."""
        return [
            {"model": c.name, "part": c.part, "unit": c.unit, "at": at, "value": value}
            for c in self.curves
            for at, value in zip(c.at.tolist(), c.values.tolist(), strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        curves = [
            {
                "model": curve.name,
                "part": curve.part,
                "unit": curve.unit,
                "at": curve.at.tolist(),
                "values": curve.values.tolist(),
                "best": {"at": curve.best[0], "value": curve.best[1]},
            }
            for curve in self.curves
        ]
        return {"measure": self.measure, "curves": curves, "notes": list(self.notes)}

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a row per model, part and stage."""
        write_csv(path, self.rows())

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the curves: a colour per model, a kind of line per part; the path's ending says which format."""
        from rankwood.evaluation.line_plot import Line, line_plot

        names = self.names
        lines = {
            f"{c.name}, {c.part}": Line(
                c.at, c.values, group=names.index(c.name), dashes=_DASHES.get(c.part, 0)
            )
            for c in self.curves
        }
        units = list(dict.fromkeys(f"{curve.unit}s" for curve in self.curves))
        line_plot(path, lines, " or ".join(units), self.measure)

    def tables(self) -> dict[str, list[dict[str, str]]]:
        """For each model a row per stage as texts, 20 of them at most, and where each part is best."""
        tables = {}
        for name in self.names:
            curves = [curve for curve in self.curves if curve.name == name]
            longest = max(curves, key=lambda curve: curve.at.size)
            step = -(-longest.at.size // _LINES_SHOWN)
            shown = [*longest.at[step - 1 : -1 : step].tolist(), int(longest.at[-1])]
            rows = [
                {f"{longest.unit}s": f"{at:,}"}
                | {curve.part: _value_at(curve, at) for curve in curves}
                for at in shown
            ]
            best = {curve.part: f"{curve.best[1]:.4f} at {curve.best[0]:,}" for curve in curves}
            tables[f"{name}: {self.measure}"] = [*rows, {f"{longest.unit}s": "best"} | best]
        return tables

    def __str__(self) -> str:
        return tables_as_text(self.tables(), self.notes)

    def _repr_html_(self) -> str:
        return tables_as_html(self.tables(), self.notes)


def convergence(
    models: Any,
    data: Mapping[str, RankingData],
    measure: str | Measure = "ndcg@10",
    *,
    every: int | None = None,
    n_threads: int | None = None,
    progress: Callback | None = None,
) -> Convergence:
    """How a measure changes from tree to tree, round to round, or layer to layer.

    Parameters
    ----------
    models
        A fitted model, or several by name. Models of trees are scored by their first trees, a deep forest by its first
        layers; of others only what their fit has recorded is shown.
    data
        By part: ``{"train": …, "vali": …, "test": …}``, some of them. With "train", the data a forest was fitted to,
        the part "oob" is added: the measure of each row by trees that have not seen it. A BROOF has recorded its own.
    measure
        Any measure.
    every
        Units from one point to the next; by default such that there are at most 100.
    n_threads
        For scoring.
    progress
        A function that is told after each curve.
    """
    named = _checked_models(models)
    parts = _checked_parts(data)
    wanted = parse_measure(measure)
    if every is not None:
        every = _checks.whole_number("every", every, 1)
    check_listeners(progress, ())
    watch = Watch(len(named) * max(1, len(parts)), progress, (), unit="curve")
    curves: list[Curve] = []
    notes: list[str] = []
    for place, (name, model) in enumerate(named.items()):
        job = _Job(name, model, wanted, n_threads, notes)
        curves += job.curves(parts, every, watch, place * len(parts))
    return Convergence(str(wanted), tuple(curves), tuple(notes))


@dataclass(frozen=True, eq=False)
class _Job:
    """The curves of one model."""

    name: str
    model: Any
    measure: Measure
    n_threads: int | None
    notes: list[str]

    def curves(
        self, parts: Mapping[str, RankingData], every: int | None, watch: Watch, done: int
    ) -> list[Curve]:
        stages = Stages.of(self.model)
        if stages is None:
            return self._recorded(every)
        points = stages.points(every)
        found = {}
        for number, (part, data) in enumerate(parts.items(), 1):
            try:
                scores = stages.scores(data, points, self.n_threads)
                found[part] = [mean_value(self.measure, _checks.read_only(s), data) for s in scores]
            except DataError as error:
                raise DataError(f"{self.name}, {part}: {error}") from None
            watch.says_stop(done + number)
        if "train" in parts:
            held_out = stages.out_of_bag(parts["train"], self.measure, points)
            if held_out is not None:
                found[_OUT_OF_BAG] = held_out.tolist()
        return [
            self._curve(part, stages.unit, points, np.array(found[part]))
            for part in sorted(found, key=_place_of)
        ]

    def _recorded(self, every: int | None) -> list[Curve]:
        """What the fit of a model without stages has put down."""
        found = recorded(self.model, self.measure)
        kind = type(self.model).__name__
        if not found:
            raise ModelError(
                f"{self.name}: a {kind} has no trees or layers to stop at, and no record of {self.measure} by round. "
                "Leave it out, or fit it with validation data and this measure."
            )
        self.notes.append(
            f"{self.name}: as its fit has recorded it; a {kind} cannot be stopped earlier."
        )
        curves = []
        for part in sorted(found, key=_place_of):
            points = np.arange(every or 1, found[part].size + 1, every or 1).tolist()
            points = points if found[part].size in points else [*points, found[part].size]
            curves.append(self._curve(part, "round", points, found[part][np.array(points) - 1]))
        return curves

    def _curve(self, part: str, unit: str, points: list[int], values: Floats) -> Curve:
        return Curve(self.name, part, unit, np.array(points), values, is_minimised(self.measure))


def _place_of(part: str) -> int:
    return PARTS.index(part) if part in PARTS else len(PARTS)


def _value_at(curve: Curve, at: int) -> str:
    place = np.flatnonzero(curve.at == at)
    return show_number(float(curve.values[place[0]])) if place.size else ""


def _checked_models(models: Any) -> dict[str, Any]:
    named = models if isinstance(models, Mapping) else {type(models).__name__: models}
    if not named:
        raise ParameterError("models is empty; pass a fitted model, or several by name.")
    for name, model in named.items():
        if isinstance(model, type) or not hasattr(model, "predict"):
            raise ParameterError(f"'{name}' must be a fitted model, got {model!r}.")
        attribute = getattr(model, "_model", None)
        if attribute is not None and not hasattr(model, attribute):
            raise ModelError(f"'{name}' is not fitted yet: call fit first.")
    return {str(name): model for name, model in named.items()}


def _checked_parts(data: Any) -> dict[str, RankingData]:
    if not isinstance(data, Mapping):
        raise ParameterError(
            "data must be by part, such as {'train': train, 'test': test}; "
            f"got {type(data).__name__}."
        )
    for part, each in data.items():
        if part == _OUT_OF_BAG:
            raise ParameterError("the part 'oob' is found from 'train'; give yours another name.")
        if not isinstance(each, RankingData):
            raise ParameterError(
                f"the part '{part}' must be RankingData, got {type(each).__name__}."
            )
        if each.n_documents == 0:
            raise DataError(f"the part '{part}' has no rows.")
    return {str(part): each for part, each in data.items()}
