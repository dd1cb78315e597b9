"""``convergence``: a measure by tree, round or layer, on training, validation and test data.

Terms
    stage    a model after some of its trees, rounds or layers; an AdaRank's are the sums of its first features
    unit     what its stages are counted in: tree, round or layer
    part     a data set by its name, such as "train"; "oob" is the training data, out of bag
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from rankwood._core import checks
from rankwood._core.checks import read_only
from rankwood._core.threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.engines.bags import Bags, OutOfBag
from rankwood.errors import DataError, ModelError, ParameterError, warn_of_former_name
from rankwood.evaluation.plots import PlotLine, line_plot
from rankwood.evaluation.results import Result, Tables, show_number
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, is_minimised, parse_measure
from rankwood.models.cascade import Cascade
from rankwood.models.forest import Forest
from rankwood.models.linear import LinearModel
from rankwood.rankers.base import Ranker, learned_model, parameters_called
from rankwood.rankers.forests import ForestRanker, bags_of
from rankwood.rankers.linear import AdaRank
from rankwood.studies.fits import (
    all_parts,
    estimators_by_name,
    fitted,
    folds_of,
    on_scale,
    parts_of,
)
from rankwood.training.inputs import deciding_history, deciding_measure
from rankwood.training.rounds import BEST, Callback, ProgressReporter, check_listeners

__all__ = ["Convergence", "Curve", "convergence"]

PARTS = ("train", "oob", "valid", "test")  # the order of columns
_FORMER_PART = "vali"
_DASHES = {"test": 0, "valid": 1, "train": 2, "oob": 3}
_LINES_SHOWN = 20
_OUT_OF_BAG = "oob"
_MOST_STAGES = 100  # of a curve, by default


@dataclass(frozen=True, eq=False)
class Curve:
    """A model's measure on one part of the data, by number of units (trees, rounds, layers)."""

    name: str
    part: str
    unit: str
    at: Array
    values: Floats  # with folds, the means over them
    is_minimised: bool = False
    by_fold: Floats | None = None  # folds × points

    @property
    def deviations(self) -> Floats | None:
        """The standard deviation over folds at each point; None without folds, or with one."""
        if self.by_fold is None or len(self.by_fold) < 2:
            return None
        deviations: Floats = self.by_fold.std(axis=0, ddof=1)
        return deviations

    @property
    def best(self) -> tuple[int, float]:
        """The first number of units with the best value, and the value; (0, nan) where there is none."""
        if np.isnan(self.values).all():
            return 0, float("nan")
        index = int(np.nanargmin(self.values) if self.is_minimised else np.nanargmax(self.values))
        return int(self.at[index]), float(self.values[index])


@dataclass(frozen=True, eq=False)
class Convergence(Result):
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
        """A flat mapping per model, part and stage; with folds, the standard deviation over them too."""
        rows = []
        for c in self.curves:
            spread = None if c.deviations is None else c.deviations.tolist()
            for number, (at, value) in enumerate(
                zip(c.at.tolist(), c.values.tolist(), strict=True)
            ):
                row = {"model": c.name, "part": c.part, "unit": c.unit, "at": at, "value": value}
                rows.append(row if spread is None else row | {"deviation": spread[number]})
        return rows

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
            | ({} if curve.by_fold is None else {"by_fold": curve.by_fold.tolist()})
            for curve in self.curves
        ]
        return {"measure": self.measure, "curves": curves, "notes": list(self.notes)}

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the curves: a colour per model, a line style per part; the path's ending names the format.

        Bands are of the test part alone, where there is one: those of all parts would hide each other.
        """
        names = self.names
        banded = {curve.part for curve in self.curves}
        banded = banded & {"test"} or banded
        lines = {
            f"{c.name}, {c.part}": PlotLine(
                c.at,
                c.values,
                *(_band(c) if c.part in banded else (None, None)),
                group=names.index(c.name),
                dashes=_DASHES.get(c.part, 0),
            )
            for c in self.curves
        }
        units = list(dict.fromkeys(f"{curve.unit}s" for curve in self.curves))
        bands = "bands: one standard\ndeviation over folds"
        line_plot(path, lines, " or ".join(units), self.measure, bands=bands)

    def tables(self) -> dict[str, list[dict[str, str]]]:
        """For each model a row per stage as texts, at most 20, and the stage where each part is best."""
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

    def _tables(self) -> Tables:
        return self.tables()

    def _footnotes(self) -> tuple[str, ...]:
        return self.notes

    def _records(self) -> list[dict[str, Any]]:
        return self.rows()


def _band(curve: Curve) -> tuple[Floats | None, Floats | None]:
    """One standard deviation of the folds around the curve, where there are folds."""
    spread = curve.deviations
    return (None, None) if spread is None else (curve.values - spread, curve.values + spread)


def convergence(
    models: Any,
    data: Any,
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
        layers, an AdaRank by its first features; for others only the values that their fit recorded are shown. With
        folds, rankers that are not fitted: each is fitted in each fold, with a seed of its own.
    data
        By part: ``{"train": …, "valid": …, "test": …}``, some of them. With "train", the data a forest was fitted to,
        the part "oob" is added: the measure of each row by trees that have not seen it. A BROOF has recorded its own.
        Or folds, as ``read_folds`` and ``make_folds`` give them: curves are then means over folds, and a fold whose
        ranker has stopped keeps its last value.
    measure
        Any measure.
    every
        Units from one point to the next; by default such that there are at most 100.
    n_threads
        For scoring.
    progress
        A function that is called after each curve; with folds, after each fit.
    """
    wanted = parse_measure(measure)
    if every is not None:
        every = checks.whole_number("every", every, 1)
    check_listeners(progress, ())
    if hasattr(data, "__getitem__") and not isinstance(data, Mapping | RankingData):
        return _of_folds(models, data, wanted, every, n_threads, progress)
    named = _checked_models(models)
    parts = _checked_parts(data)
    wanted = on_scale(wanted, parts.values())
    reporter = ProgressReporter(len(named) * max(1, len(parts)), progress, (), unit="curve")
    curves: list[Curve] = []
    notes: list[str] = []
    for number, (name, model) in enumerate(named.items()):
        measured = _MeasuredModel(name, model, wanted, n_threads, notes)
        told = functools.partial(_tell, reporter, number * len(parts))
        curves += measured.curves(parts, every, told)
    return Convergence(str(wanted), tuple(curves), tuple(notes))


def _tell(reporter: ProgressReporter, done: int, curve: int) -> None:
    reporter.report(done + curve)


def _of_folds(
    models: Any,
    data: Any,
    measure: Measure,
    every: int | None,
    n_threads: int | None,
    progress: Callback | None,
) -> Convergence:
    """The curves of rankers that are fitted in every fold, as means over the folds."""
    named = estimators_by_name(models)
    folds = folds_of(data, None, None)
    measure = on_scale(measure, all_parts(folds))
    threads = resolve_threads(n_threads)
    reporter = ProgressReporter(len(folds) * len(named), progress, (), unit="fit")
    steps = dict.fromkeys(named, every)
    of_name: dict[str, list[list[Curve]]] = {name: [] for name in named}
    notes: dict[str, None] = {}
    for number in range(len(folds)):
        fold = parts_of(folds[number])
        given = {"train": fold.train, "valid": fold.valid, "test": fold.test}
        parts = {part: each for part, each in given.items() if each is not None}
        for index, (name, estimator) in enumerate(named.items()):
            model = fitted(with_all_rounds(estimator), fold.train, fold.valid, number, threads)
            told: list[str] = []
            curves = _MeasuredModel(name, model, measure, n_threads, told).curves(
                parts, steps[name]
            )
            steps[name] = steps[name] or int(curves[0].at[0])  # the first fold's, in all of them
            of_name[name].append(curves)
            notes |= dict.fromkeys(told)
            reporter.report(number * len(named) + index + 1)
    joined = [curve for name in named for curve in _means(of_name[name], steps[name] or 1)]
    notes[f"means over {len(folds)} folds, each with fits of its own"] = None
    for name in named:
        lengths = sorted({int(curves[0].at[-1]) for curves in of_name[name]})
        if len(lengths) > 1:
            unit = of_name[name][0][0].unit
            notes[
                f"{name}: {lengths[0]:,} to {lengths[-1]:,} {unit}s by fold; one that has stopped keeps its last value"
            ] = None
    return Convergence(str(measure), tuple(joined), tuple(notes))


def _means(of_folds: list[list[Curve]], step: int) -> Iterator[Curve]:
    """A curve per part that every fold has, over the points of all; one that ends earlier keeps its last value."""
    for first in of_folds[0]:
        curves = [c for curves in of_folds for c in curves if c.part == first.part]
        if len(curves) < len(of_folds):
            continue
        last = max(int(c.at[-1]) for c in curves)
        points = np.array([*range(step, last, step), last])
        # of each fold the last of its own points that is not beyond the point
        by_fold = np.stack(
            [c.values[np.searchsorted(c.at, points, side="right") - 1] for c in curves]
        )
        yield replace(first, at=points, values=by_fold.mean(axis=0), by_fold=by_fold)


@dataclass(frozen=True, eq=False)
class _MeasuredModel:
    """One model, and how its curves are measured."""

    name: str
    model: Any
    measure: Measure
    n_threads: int | None
    notes: list[str]

    def curves(
        self,
        parts: Mapping[str, RankingData],
        every: int | None,
        tell: Callable[[int], None] | None = None,
    ) -> list[Curve]:
        """The curves of the parts; ``tell`` is called with the number of each that is done."""
        stages = Stages.of(self.model)
        if stages is None:
            return self._recorded(every)
        points = stages.points(every)
        values = {}
        for number, (part, data) in enumerate(parts.items(), 1):
            try:
                scores = stages.scores(data, points, self.n_threads)
                values[part] = [mean_value(self.measure, checks.read_only(s), data) for s in scores]
            except DataError as error:
                raise DataError(f"{self.name}, {part}: {error}") from None
            if tell is not None:
                tell(number)
        if "train" in parts:
            held_out = stages.out_of_bag(parts["train"], self.measure, points)
            if held_out is not None:
                values[_OUT_OF_BAG] = held_out.tolist()
        return [
            self._curve(part, stages.unit, points, np.array(values[part]))
            for part in sorted(values, key=_order_of)
        ]

    def _recorded(self, every: int | None) -> list[Curve]:
        """The curves that the fit of a model without stages has recorded."""
        values = recorded(self.model, self.measure)
        kind = type(self.model).__name__
        if not values:
            raise ModelError(
                f"{self.name}: a {kind} has no trees or layers to stop at, and no record of {self.measure} by round. "
                "Leave it out, or fit it with validation data and this measure."
            )
        self.notes.append(
            f"{self.name}: as its fit has recorded it; a {kind} cannot be stopped earlier."
        )
        curves = []
        for part in sorted(values, key=_order_of):
            points = np.arange(every or 1, values[part].size + 1, every or 1).tolist()
            points = points if values[part].size in points else [*points, values[part].size]
            curves.append(self._curve(part, "round", points, values[part][np.array(points) - 1]))
        return curves

    def _curve(self, part: str, unit: str, points: list[int], values: Floats) -> Curve:
        return Curve(self.name, part, unit, np.array(points), values, is_minimised(self.measure))


def _order_of(part: str) -> int:
    return PARTS.index(part) if part in PARTS else len(PARTS)


def _value_at(curve: Curve, at: int) -> str:
    index = np.flatnonzero(curve.at == at)
    return show_number(float(curve.values[index[0]])) if index.size else ""


def _checked_models(models: Any) -> dict[str, Any]:
    named = models if isinstance(models, Mapping) else {type(models).__name__: models}
    if not named:
        raise ParameterError("models is empty; pass a fitted model, or several by name.")
    for name, model in named.items():
        if isinstance(model, type) or not hasattr(model, "predict"):
            raise ParameterError(f"'{name}' must be a fitted model, got {model!r}.")
        try:
            _stored(model)
        except NotFittedError:
            raise ModelError(f"'{name}' is not fitted yet: call fit first.") from None
    return {str(name): model for name, model in named.items()}


def _checked_parts(data: Any) -> dict[str, RankingData]:
    if not isinstance(data, Mapping):
        raise ParameterError(
            "data must be by part, such as {'train': train, 'test': test}, or folds; "
            f"got {type(data).__name__}."
        )
    if _FORMER_PART in data and "valid" not in data:
        warn_of_former_name("convergence", _FORMER_PART, "valid")
        data = {"valid" if part == _FORMER_PART else part: each for part, each in data.items()}
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


# The stages of models, and the measures that their fits recorded.


@dataclass(frozen=True, eq=False)
class Stages:
    """The stages of a model of trees or layers."""

    model: Any  # the estimator, or the bare model
    stored: Forest | Cascade | LinearModel
    unit: str
    per_unit: int  # trees of a round; 1 for trees and layers

    @classmethod
    def of(cls, model: Any) -> Stages | None:
        """None for a model that has no stages, such as a linear one."""
        stored = _stored(model)
        if isinstance(stored, Cascade):
            return cls(model, stored, "layer", 1)
        if isinstance(model, AdaRank) and getattr(model, "rounds_", None):
            return cls(model, stored, "round", 1)
        if not isinstance(stored, Forest) or stored.n_trees == 0:
            return None
        n_rounds = _n_rounds(model, stored)
        if n_rounds is None:
            return cls(model, stored, "tree", 1)
        return cls(model, stored, "round", stored.n_trees // n_rounds)

    @property
    def count(self) -> int:
        """How many units the model has."""
        if isinstance(self.stored, Cascade):
            return self.stored.n_layers
        if isinstance(self.stored, LinearModel):
            return len(self.model.rounds_)
        return self.stored.n_trees // self.per_unit

    def points(self, every: int | None) -> list[int]:
        """The stages to measure: every so many units, and the last; by default at most 100."""
        step = max(1, math.ceil(self.count / _MOST_STAGES)) if every is None else every
        return [*range(step, self.count, step), self.count]

    def scores(self, data: Any, points: list[int], n_threads: int | None) -> Iterator[Floats]:
        """The scores of the rows of ``data`` at each of the points."""
        if isinstance(self.stored, Cascade):
            layers = self.stored.predict_layers(data, n_threads=n_threads)
            yield from (np.ascontiguousarray(layers[:, point - 1]) for point in points)
            return
        if isinstance(self.stored, LinearModel):
            yield from (self.model.after(p).predict(data, n_threads=n_threads) for p in points)
            return
        step = points[0] * self.per_unit
        for _, scores in self.stored.predict_stages(data, step, n_threads=n_threads):
            yield scores

    def out_of_bag(self, train: RankingData, measure: Measure, points: list[int]) -> Floats | None:
        """The measure of the training rows by trees that have not seen them, where that is known.

        A forest's bags are drawn again, so ``train`` must be the data it was fitted to; a BROOF has recorded its own.
        """
        history = recorded(self.model, measure).get("oob")
        if history is not None and self.unit == "round":
            return history[np.array(points) - 1] if history.size >= self.count else None
        bags = self._bags(train)
        if bags is None or not isinstance(self.stored, Forest):
            return None
        return _out_of_bag(self.stored, bags, train, measure, points)

    def _bags(self, train: RankingData) -> Bags | None:
        if not isinstance(self.model, ForestRanker):
            return None
        fitted_to = (self.model.training_.get("rows"), self.model.training_.get("queries"))
        if fitted_to != (train.n_documents, train.n_queries):
            return None
        return bags_of(self.model, train)


def _stored(model: Any) -> Any:
    """The model that a ranker has learned; a bare model as it is."""
    return learned_model(model) if isinstance(model, Ranker) else model


def recorded(model: Any, measure: Measure) -> dict[str, Floats]:
    """The values that a fit recorded after each round, by part (valid, oob, train), if they are of this measure."""
    if deciding_measure(getattr(model, "measure", None) or "ndcg@10") != measure:
        return {}
    values_of_part: dict[str, Floats] = {}
    history = deciding_history(getattr(model, "history_", None))
    # A record per round; rounds that were not kept have none.
    if history and isinstance(history[0], dict):
        for part in ("valid", "oob"):
            values = [record.get(part) for record in history]
            if any(value is not None for value in values):
                values_of_part[part] = np.array(
                    [math.nan if v is None else v for v in values], np.float64
                )
    elif history:
        values_of_part["valid"] = np.array(history, np.float64)
    if isinstance(model, AdaRank) and getattr(model, "train_history_", None):
        values_of_part["train"] = np.array(model.train_history_, np.float64)
    return values_of_part


def with_all_rounds(estimator: Any) -> Any:
    """A clone that keeps the rounds after the best one too, unless ``early_stopping`` was set to a number."""
    whole = clone(estimator)
    stopping = parameters_called(whole, "early_stopping")
    names = [name for name, value in stopping.items() if value == BEST]
    return whole.set_params(**dict.fromkeys(names))


def _n_rounds(model: Any, forest: Forest) -> int | None:
    """How many rounds of several trees there were; None where trees came one by one."""
    kind = type(model).__name__
    if kind == "BROOF":
        n_rounds = int(model.best_iteration_)
    elif kind == "AveragedGBRT":
        n_rounds = forest.n_trees // int(model.n_runs)
    else:
        return None
    return n_rounds if n_rounds > 0 and forest.n_trees % n_rounds == 0 else None


def _out_of_bag(
    forest: Forest, bags: Bags, train: RankingData, measure: Measure, points: list[int]
) -> Floats:
    """The out-of-bag measure at each point: of the mean prediction of the trees that left a row out."""
    estimates, values = OutOfBag.empty(train.n_documents), []
    for tree in range(forest.n_trees):
        left_out = bags.counts(tree) == 0
        one = replace(forest.take_trees([tree]), tree_weights=np.ones(1), base=0.0)
        estimates.sums[left_out] += one.predict(train)[left_out]
        estimates.n_trees[left_out] += 1
        if tree + 1 in points:
            values.append(_measured(estimates, train, measure))
    return np.array(values)


def _measured(estimates: OutOfBag, train: RankingData, measure: Measure) -> float:
    rows = np.flatnonzero(estimates.n_trees)
    if rows.size == 0 or train.query_ids is None:
        return math.nan
    part = train.take_rows(rows)
    return mean_value(measure, read_only(estimates.scores[rows]), part)
