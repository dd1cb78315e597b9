"""How many trees a model needs: its best sizes by each measure, and quality by cost or size.

One fit gives models of every size (``rankwood.models.family``). ``best_sizes`` says how many rounds of a fitted model
are best by each of several measures, and what they cost: Mohan (2010, §4.2 and §6.3.3) takes for each measure the
number of trees that validates best, and reports the test part at that number. ``quality_cost_curve`` shows what a
model's trees give and cost, ``size_quality_front`` the best models of each size of a boosted ranker.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.files import PLOTS
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.evaluation.plots import PlotLine, known_formats, line_plot, plot_format
from rankwood.evaluation.results import Result, Tables, show_number
from rankwood.measures.compute import mean_value, tie_averaged
from rankwood.measures.measure import Measure, OwnMeasure, is_minimised, parse_measure, squeeze
from rankwood.models.early_exit import EarlyExit, EarlyExitScores, Journey, forest_of
from rankwood.models.family import Family, FrontPoint
from rankwood.models.forest import Forest
from rankwood.rankers.base import stages_of
from rankwood.rankers.boosted import RoundRanker, trees_after
from rankwood.studies.fits import on_scale
from rankwood.training.inputs import deciding_history, deciding_measure

NO_EXITS = EarlyExit(drop=0.0, scope="all")
COST_LABEL = "mean cost of a document"
_POINTS = 20  # of a curve, by default
_NO_EXITS = EarlyExit(drop=0.0, scope="all")
_DEFAULT_EXITS = EarlyExit()


@dataclass(frozen=True)
class BestSize:
    """The size that validates best by one measure.

    Parameters
    ----------
    measure
        As it was asked for.
    n_rounds, n_trees
        Rounds, as ``truncated`` counts them, and the trees of the model then; of equal values the fewest.
    valid, valid_cost
        The measure on the validation data at that size, and the mean cost of a document.
    test, test_cost
        The same on the test data; None where there were none.
    """

    measure: str
    n_rounds: int
    n_trees: int
    valid: float
    valid_cost: float
    test: float | None = None
    test_cost: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        values = {
            "measure": self.measure,
            "rounds": self.n_rounds,
            "trees": self.n_trees,
            "valid": self.valid,
            "cost": self.valid_cost,
        }
        return (
            values
            if self.test is None
            else {**values, "test": self.test, "test cost": self.test_cost}
        )


@dataclass(frozen=True)
class BestSizes(Result):
    """The best size by each measure: ``result["p@5"].n_rounds``."""

    sizes: tuple[BestSize, ...]
    n_rounds: int  # of the whole model
    exits: EarlyExit | None = None

    def __getitem__(self, measure: str | Measure) -> BestSize:
        asked = squeeze(str(measure))
        for size in self.sizes:
            if asked in (squeeze(size.measure), str(parse_measure(size.measure))):
                return size
        raise UnknownName(
            "measure of these sizes", str(measure), [one.measure for one in self.sizes]
        )

    def __iter__(self) -> Iterator[BestSize]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def table(self) -> list[dict[str, str]]:
        """A row per measure as texts."""
        return [
            {name: _shown_size(name, value) for name, value in size.to_dict().items()}
            for size in self.sizes
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {"rounds": self.n_rounds, "sizes": [size.to_dict() for size in self.sizes]}

    def _tables(self) -> Tables:
        return {"": self.table()}

    def _footnotes(self) -> tuple[str, ...]:
        notes = [f"chosen on the validation data, of at most {self.n_rounds:,} rounds"]
        if self.exits is not None:
            notes.append(
                f"{self.exits.drop:.0%} of the documents in play leave every {self.exits.every:,} trees "
                f"(scope {self.exits.scope})"
            )
        return tuple(notes)

    def _records(self) -> Iterator[dict[str, Any]]:
        return (size.to_dict() for size in self.sizes)


def _shown_size(column: str, value: Any) -> str:
    if column in ("rounds", "trees"):
        return f"{value:,}"
    if "cost" in column:
        return f"{value:,.1f}"
    return value if isinstance(value, str) else show_number(value)


def best_sizes(
    model: Any,
    valid: RankingData,
    measures: str | Measure | Iterable[str | Measure] = "ndcg@10",
    *,
    test: RankingData | None = None,
    costs: Any = None,
    exits: EarlyExit | None = None,
    cost: str = "all",
    every: int = 1,
    preset: str | None = None,
    n_threads: int | None = None,
) -> BestSizes:
    """For each measure the number of rounds of a fitted model that is best on validation data, with its cost.

    ``model.truncated(n_rounds)`` is the model of that size. All sizes come from one fit, so fit with
    ``early_stopping=None`` (or ``stop=None``): rounds that a fit has discarded are no choices.

    Parameters
    ----------
    model
        A fitted ranker made of trees: boosted, a forest, BROOF, or an ``OrdinalRanker`` over one of them, which is
        judged by its combined score; or a ``Forest``.
    valid
        Labelled documents that the sizes are chosen on, not those the model was trained on.
    measures
        One or several. Of equal values the smallest size is taken; NaN is never the best.
    test
        Further data, which are only measured at the chosen sizes.
    costs
        What computing each feature costs: numbers, a mapping from names, or a cost file; 1 each by default. A document
        costs the sum of the features it needs, plus 1 per tree.
    exits
        Documents with the lowest scores leave early, in choosing and in testing; None: none does.
    cost
        "all" or "path", as for ``EarlyExit.score``.
    every
        Look at every so many rounds, and at the last; 1 looks at all.
    preset
        Conventions for what the measures leave open, as for ``evaluate``.

    Examples
    --------
    >>> import rankwood as rw
    >>> data = rw.make_ranking(60, 10, 8, seed=1)
    >>> train, valid = rw.split_queries(data, (0.5, 0.5), seed=1)
    >>> model = rw.GBRT(20, early_stopping=None).fit(train)
    >>> sizes = rw.best_sizes(model, valid, ["ndcg@10", "err"])
    >>> model.truncated(sizes["err"].n_rounds).forest_.n_trees == sizes["err"].n_trees
    True
    """
    texts, parsed = _parsed(measures, preset)
    for name, data in (("valid", valid), ("test", test)):
        _check_data(name, data, parsed)
    parsed = [on_scale(measure, (valid, test)) for measure in parsed]
    whole = stages_of(model)
    stages = whole.thinned(every)
    walk = Walk(stages.forest, exits, costs, cost, n_threads)
    on_valid = walk.measured(valid, stages.n_trees, parsed)
    best = [
        best_stage(values, measure) for values, measure in zip(on_valid.values, parsed, strict=True)
    ]
    sizes = [
        BestSize(
            text,
            int(stages.n_rounds[stage]),
            int(stages.n_trees[stage]),
            float(values[stage]),
            float(on_valid.costs[stage]),
        )
        for text, stage, values in zip(texts, best, on_valid.values, strict=True)
    ]
    if test is not None:
        sizes = _tested(sizes, parsed, walk, test)
    return BestSizes(tuple(sizes), int(whole.n_rounds[-1]), exits)


def _tested(
    sizes: list[BestSize], measures: Sequence[Measure], walk: Walk, test: RankingData
) -> list[BestSize]:
    """The sizes, with their values and costs on the test data."""
    scored = walk.scores(test, [size.n_trees for size in sizes])
    tested = []
    for size, measure in zip(sizes, measures, strict=True):
        at_size = scored[size.n_trees]
        value = mean_value(measure, checks.read_only(at_size.scores), test)
        chosen = (size.measure, size.n_rounds, size.n_trees, size.valid, size.valid_cost)
        tested.append(BestSize(*chosen, value, at_size.mean_cost))
    return tested


@dataclass(frozen=True, eq=False)
class MeasuredStages:
    """Measures (measures × stages) and the mean cost of a document at each stage."""

    values: Floats
    costs: Floats


@dataclass(frozen=True, eq=False)
class Walk:
    """How documents pass the trees of a model: with which exits, and what features cost."""

    forest: Any
    exits: EarlyExit | None
    costs: Any
    cost: str
    n_threads: int | None

    def measured(
        self, data: RankingData, n_trees: Array, measures: Sequence[Measure]
    ) -> MeasuredStages:
        """Every measure after each of these numbers of trees, and what a document costs until then."""
        values, costs = [], []
        for _, so_far in self._stops(data, n_trees.tolist()):
            scores = checks.read_only(so_far.scores)
            values.append([mean_value(measure, scores, data) for measure in measures])
            costs.append(so_far.mean_cost)
        return MeasuredStages(np.array(values).T, np.array(costs))

    def scores(self, data: RankingData, n_trees: Sequence[int]) -> dict[int, EarlyExitScores]:
        """The scores and costs after each of these numbers of trees."""
        return dict(self._stops(data, sorted(set(n_trees))))

    def _stops(
        self, data: RankingData, stops: Sequence[int]
    ) -> Iterator[tuple[int, EarlyExitScores]]:
        """Numbers of trees, with the scores of a model that ends there: no document leaves after its last tree."""
        journey = Journey.start(
            self.forest, data, costs=self.costs, cost=self.cost, n_threads=self.n_threads
        )
        wanted = set(stops)
        exits = NO_EXITS if self.exits is None else self.exits
        for passed in exits.stages(journey, wanted):
            if passed in wanted:
                yield passed, journey.result()
            if passed >= stops[-1]:
                return


def best_stage(values: Floats, measure: Measure) -> int:
    """The first stage with the best value; the last where no value is known."""
    if np.isnan(values).all():
        return len(values) - 1
    return int(np.nanargmin(values) if is_minimised(measure) else np.nanargmax(values))


def _parsed(measures: Any, preset: str | None) -> tuple[list[str], list[Measure]]:
    given = [measures] if isinstance(measures, str | Measure) else list(measures)
    if not given:
        raise ParameterError("measures is empty: name at least one, such as 'ndcg@10'.")
    parsed = [parse_measure(one, preset) for one in given]
    texts = [squeeze(one) if isinstance(one, str) else str(one) for one in given]
    for text in texts:
        if texts.count(text) > 1:
            raise ParameterError(f"measure '{text}' is given twice.")
    return texts, parsed


def _check_data(name: str, data: Any, measures: Sequence[Measure]) -> None:
    if name == "test" and data is None:
        return
    if not isinstance(data, RankingData):
        raise DataError(
            f"{name} must be labelled documents: pass RankingData, not {type(data).__name__}."
        )
    if data.n_documents == 0:
        raise DataError(f"{name} has no documents.")
    if data.query_ids is None and any(measure.needs_queries for measure in measures):
        raise DataError(
            f"{name} has no query ids, which {measures[0]} needs. Only rmse does without."
        )


@dataclass(frozen=True, eq=False)
class QualityCostCurve(Result):
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

    def table(self) -> list[dict[str, str]]:
        """A row per number of trees as texts; the columns of values are named by the measure."""
        return [
            {
                name.replace("value", self.measure): _shown_cost(name, value)
                for name, value in row.items()
            }
            for row in self.rows()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {"measure": self.measure, "points": list(self.rows())}

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the measure over the cost, to a file whose ending names its format: .png, .svg or .pdf."""
        kind, known = plot_format(path) or "png", known_formats("a plot")
        if kind not in known:
            raise DataError(
                f"{os.fspath(path)}: a plot cannot be written as .{kind}. Choose one of "
                f"{', '.join(known)}."
            )
        lines = {"all documents through all trees": PlotLine(self.cost, self.value)}
        if self.exits is not None and self.exit_cost is not None and self.exit_value is not None:
            label = f"{self.exits.drop:.0%} leave every {self.exits.every:,} trees"
            lines[label] = PlotLine(self.exit_cost, self.exit_value, group=1, dashes=1)
        line_plot(path, lines, COST_LABEL, self.measure, kind=kind)

    def _tables(self) -> Tables:
        return {"": self.table()}

    def _records(self) -> Iterator[dict[str, float]]:
        return self.rows()


def _shown_cost(column: str, value: float) -> str:
    if column == "trees":
        return f"{value:,.0f}"
    return f"{value:,.1f}" if column.startswith("cost") else f"{value:.4f}"


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
    """The cost and the measure of a model after some of its trees and after all, with and without early exits.

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
    forest = forest_of(model)
    n_trees = forest.n_trees
    step = max(1, math.ceil(n_trees / _POINTS))
    if every is not None:
        step = checks.whole_number("every", every, 1)
    stops = [*range(step, n_trees, step), n_trees]

    def curve(of: EarlyExit) -> tuple[Floats, Floats]:
        journey = Journey.start(forest, data, costs=costs, cost=cost, n_threads=n_threads)
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


@dataclass(frozen=True)
class Front(Result):
    """The best models by their number of trees.

    Parameters
    ----------
    measure
        What all values are of, but those on training data where ``searched_by`` names another.
    searched_on
        The data that the search measured models on: "train" or "valid".
    points
        The models, the shortest first.
    on_data
        Their values on further data; None where there were none.
    searched_by
        The measure that the search compared models by, where that is another one.
    """

    measure: str
    searched_on: str
    points: tuple[FrontPoint, ...]
    on_data: tuple[float, ...] | None = None
    searched_by: str | None = None

    @property
    def columns(self) -> dict[str, list[float]]:
        """Numbers of trees, then values by the data they were measured on."""
        columns: dict[str, list[float]] = {"trees": [point.n_trees for point in self.points]}
        f = [point.f for point in self.points]
        if self.searched_on != "valid" and not all(math.isnan(value) for value in f):
            columns["train" if self.searched_by is None else f"train {self.searched_by}"] = f
        valid = [point.valid for point in self.points]
        if not all(math.isnan(value) for value in valid):
            columns["valid"] = valid
        if self.on_data is not None:
            columns["data"] = list(self.on_data)
        return columns

    def rows(self) -> Iterator[dict[str, float]]:
        """A mapping per number of trees."""
        columns = self.columns
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))

    def table(self) -> list[dict[str, str]]:
        """A row per number of trees as texts."""
        return [
            {name: _shown_cost(name, value) for name, value in row.items()} for row in self.rows()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {"measure": self.measure, "points": list(self.rows())}

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the measure over the number of trees, to a file whose ending names its format: .png, .svg or .pdf."""
        kind = Path(path).suffix.lower()
        if kind not in PLOTS:
            raise DataError(
                f"{os.fspath(path)}: a plot must end in {', '.join(PLOTS)}, not '{kind}'."
            )
        columns = {name: np.array(values) for name, values in self.columns.items()}
        trees = columns.pop("trees")
        lines = {
            name: PlotLine(trees, values, group=number, dashes=number, steps=True)
            for number, (name, values) in enumerate(columns.items())
        }
        line_plot(path, lines, "trees of the model", self.measure)

    def _tables(self) -> Tables:
        return {self.measure: self.table()}

    def _records(self) -> Iterator[dict[str, float]]:
        return self.rows()


def size_quality_front(
    model: Any, data: RankingData | None = None, *, every_length: bool = False
) -> Front:
    """The best models of a fitted boosted ranker by their number of trees, and their values on further data.

    A ``BoostingTree`` chooses among the models of its search; of any other boosted ranker the models are its first
    trees, 1, 2, and so on. The models were chosen in training, on the validation data where there were any; ``data``
    are only used to measure them, ties averaged. By default the front has the models that beat every shorter one by the
    measure they were chosen by; with ``every_length``, or without any such measure, it has the best of each length.
    """
    family = getattr(model, "family_", model)
    if isinstance(family, Family):
        return _front_of_search(model, family, data, every_length)
    if isinstance(model, RoundRanker) and not model.forest_.average:
        return _front_of_rounds(model, data, every_length)
    raise ModelError(
        f"{type(model).__name__} has no front: only BoostingTree and other boosted rankers, such as LambdaMART, have "
        "models of many lengths."
    )


def _front_of_search(
    model: Any, family: Family, data: RankingData | None, every_length: bool
) -> Front:
    points = tuple(point for point in family.front if every_length or point.is_better)
    measure = tie_averaged(parse_measure(family.measure))
    on_data = None
    if data is not None:
        scores = (family.model(point.model).predict(data) for point in points)
        on_data = tuple(mean_value(measure, values, data) for values in scores)
    searched_on = str(getattr(model, "evaluate_on", "train"))
    searched_by = str(tie_averaged(parse_measure(getattr(model, "measure", family.measure))))
    other = None if searched_by == str(measure) else searched_by
    return Front(str(measure), searched_on, points, on_data, other)


def _front_of_rounds(model: RoundRanker, data: RankingData | None, every_length: bool) -> Front:
    """The first trees of a ranker as models; the one after round k has number k."""
    measure = deciding_measure(model.measure)
    if isinstance(measure, OwnMeasure):
        raise ParameterError(f"the front needs a measure with a name, not the function {measure}.")
    history = deciding_history(model.history_)
    forest = model.forest_
    sign = -1.0 if is_minimised(measure) else 1.0
    points: list[FrontPoint] = []
    highest = -math.inf
    number = 0
    while (n_trees := trees_after(model, number + 1)) <= forest.n_trees:
        valid = float(history[number]) if number < len(history) else math.nan
        is_better = math.isnan(valid) or sign * valid > highest
        highest = max(highest, -math.inf if math.isnan(valid) else sign * valid)
        number += 1
        if every_length or is_better:
            points.append(FrontPoint(n_trees, number, math.nan, valid, is_better))
    averaged = tie_averaged(measure) if "ties" in measure.form.options else measure
    on_data = None
    if data is not None:
        scores = staged_scores(forest, data, [point.n_trees for point in points])
        on_data = tuple(mean_value(averaged, values, data) for values in scores)
    return Front(str(averaged), "train", tuple(points), on_data)


def staged_scores(forest: Forest, data: RankingData, lengths: Sequence[int]) -> Iterator[Floats]:
    """The scores by the first so many trees, for each of the ascending ``lengths``; every tree is scored once."""
    totals = np.full(data.n_documents, forest.base)
    before = 0
    for length in lengths:
        totals = totals + (forest.take_trees(slice(before, length)).predict(data) - forest.base)
        before = length
        yield checks.read_only(totals)
