"""``best_sizes``: how many rounds of a fitted model are best by each of several measures, and what they cost.

One fit gives models of every size (``rankwood.models.family``). Mohan (2010, §4.2 and §6.3.3) takes for each measure
the number of trees that validates best, and reports the test part at that number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.results import Result, Tables, show_number
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, is_minimised, parse_measure, squeeze
from rankwood.models.early_exit import EarlyExit, EarlyExitScores, Journey
from rankwood.rankers.base import stages_of

NO_EXITS = EarlyExit(drop=0.0, scope="all")


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
            {name: _shown(name, value) for name, value in size.to_dict().items()}
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


def _shown(column: str, value: Any) -> str:
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
    if data.query_ids is None and any(measure.name != "rmse" for measure in measures):
        raise DataError(
            f"{name} has no query ids, which {measures[0]} needs. Only rmse does without."
        )
