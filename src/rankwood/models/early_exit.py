"""Early exits: documents that look hopeless halfway leave the forest, and the rest of the work on them is saved.

Words used here
    in play    documents that have not left yet
    exit       a place between two trees where the documents with the lowest running scores leave
    passed     the trees a document went through before it left, or all of them

A document that leaves keeps the score it has at that moment: the sum of the trees it passed, or, where a forest
averages, their mean (Mohan 2010, §6.1; Cambazoglu et al. 2010).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood import _checks, _threads
from rankwood.data.costs import feature_costs
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.models import scoring
from rankwood.models.exit_kernels import mark_leaving
from rankwood.models.exit_scoring_kernels import ROUNDING, Exits, Trees, score_queries
from rankwood.models.forest import Forest
from rankwood.models.lazy import FeatureSource
from rankwood.models.path_kernels import add_paths
from rankwood.models.usage import cost_of_trees, count_features, features_of

SCOPES = ("query", "all")
COUNTED = ("all", "path")
_LEAST_WALKS = 50_000  # documents × trees per thread: below, a thread costs more than it saves


@dataclass(frozen=True, eq=False)
class EarlyExitScores:
    """The scores of documents, and what each of them took.

    Parameters
    ----------
    scores
        One per document, in the caller's order; of those that left early the score they left with.
    n_trees, n_features
        Trees passed, and distinct features computed, per document.
    cost
        Summed cost of those features, plus 1 per tree, per document.
    """

    scores: Floats
    n_trees: Array
    n_features: Array
    cost: Floats

    @property
    def mean_cost(self) -> float:
        """What a document costs on average."""
        return float(self.cost.mean()) if self.cost.size else 0.0

    @property
    def mean_trees(self) -> float:
        """Trees that a document passes on average."""
        return float(self.n_trees.mean()) if self.n_trees.size else 0.0

    def __repr__(self) -> str:
        return (
            f"EarlyExitScores({self.scores.size:,} documents, {self.mean_trees:,.1f} trees and "
            f"cost {self.mean_cost:,.1f} each on average)"
        )


@dataclass(frozen=True)
class EarlyExit:
    """Let the documents with the lowest running scores leave after every so many trees.

    Parameters
    ----------
    every
        Trees from one exit to the next. There is none after the last tree.
    drop
        The share of the documents still in play that leave at each exit, rounded down. Of equal scores the later
        rows leave first.
    scope
        Whether the share is taken of each query's documents ("query") or of all of them together ("all").
    """

    every: int = 100
    drop: float = 0.10
    scope: str = "query"

    def __post_init__(self) -> None:
        _checks.whole_number("every", self.every, 1)
        _checks.real_number("drop", self.drop, "[0, 1)")
        _checks.one_of("scope", self.scope, SCOPES)

    @classmethod
    def parse(cls, text: str) -> EarlyExit:
        """From text such as ``every=100,drop=0.1,scope=query``; what is left out has its default."""
        kinds = {"every": int, "drop": float, "scope": str}
        values: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            name, _, value = (piece.strip() for piece in part.partition("="))
            _checks.one_of("part of an early exit", name, kinds)
            try:
                values[name] = kinds[name](value)
            except ValueError:
                raise ParameterError(f"{name} of an early exit cannot be '{value}'.") from None
        return cls(**values)

    def score(
        self,
        model: Any,
        data: Any,
        *,
        costs: Any = None,
        cost: str = "all",
        n_threads: int | None = None,
    ) -> EarlyExitScores:
        """Score documents, skipping the trees that come after a document's exit.

        Parameters
        ----------
        model
            A fitted ranker made of trees, or a ``Forest``.
        data
            Ranking data; a table of features, with ``scope="all"``; or ``LazyFeatures``, which are fetched when the
            trees up to the next exit need them, for the documents still in play.
        costs
            What computing each feature costs: numbers, a mapping from names, or a cost file; 1 each by default.
        cost
            A document pays for the features in all nodes of the trees it passed ("all"), or only for those it met
            on its own way through them ("path").
        """
        journey = Journey.start(model, data, costs=costs, cost=cost, n_threads=n_threads)
        if self._is_by_query(journey):
            self._score_queries(journey)
        else:
            for _ in self.stages(journey):
                pass
        return journey.result()

    def _is_by_query(self, journey: Journey) -> bool:
        """Whether queries can be taken through all trees one after the other: nobody waits, or looks, at the exits."""
        return (
            self.scope == "query"
            and not journey.counts_paths
            and journey.source.fetch is None
            and journey.forest.n_trees > 0
            and journey.forest.packed.wide.size == 0
        )

    def _score_queries(self, journey: Journey) -> None:
        """All trees at once: a document's keys are made once, not at every exit."""
        forest = journey.forest
        stops = np.array([*range(self.every, forest.n_trees, self.every), forest.n_trees])
        groups = self._groups(journey.source)
        order = np.argsort(groups, kind="stable")
        begins = np.searchsorted(groups[order], np.arange(int(groups.max(initial=-1)) + 2))
        packed = forest.packed
        _threads.run_blocks(
            score_queries,
            begins.size - 1,
            _checks.read_only(begins),
            _checks.read_only(order),
            scoring.bits_of(journey.source.matrix),
            Trees(
                packed.columns,
                packed.missing_keys,
                packed.offsets,
                packed.packed,
                packed.left_shift,
                packed.values,
            ),
            Exits(
                _checks.read_only(stops),
                _checks.read_only(scoring.divisors(forest)[stops]),
                forest.base,
                float(self.drop),
            ),
            journey.totals,
            journey.n_trees,
            n_threads=journey.n_threads,
            least=max(1, _LEAST_WALKS // forest.n_trees),
        )
        journey.scores = journey.totals / scoring.divisors(forest)[journey.n_trees] + forest.base

    def stages(self, journey: Journey, also: Iterable[int] = ()) -> Iterator[int]:
        """Take documents through all trees; pauses before each exit, at ``also`` numbers of trees and at the end."""
        group_of_row = self._groups(journey.source)
        n_trees = journey.forest.n_trees
        exits = range(self.every, n_trees, self.every)
        for stop in sorted({*exits, *also, n_trees}):
            journey.pass_trees(stop)
            yield stop
            if stop in exits:
                rows = journey.rows
                journey.leave(self.leaving(journey.scores[rows], rows, group_of_row))

    def _groups(self, source: FeatureSource) -> Rows:
        """The group of each document that shares are taken of."""
        if self.scope == "all":
            return np.zeros(len(source.matrix), np.int64)
        if source.query_of_row is None:
            raise DataError(
                "scope='query' needs to know which documents belong together: pass data with query ids, "
                "or scope='all'."
            )
        return source.query_of_row

    def leaving(self, scores: Floats, rows: Rows, group_of_row: Rows) -> Rows:
        """Which of ``rows`` leave: of each group the share with the lowest scores; the scores are theirs."""
        groups = group_of_row[rows]
        sizes = np.bincount(groups)
        n_leaving = np.floor(self.drop * sizes + ROUNDING).astype(np.int64)
        begins = np.cumsum(sizes) - sizes
        order, leaves = np.empty(rows.size, np.int64), np.zeros(rows.size, np.uint8)
        mark_leaving(scores, groups, n_leaving, begins, order, leaves)
        leaving: Rows = rows[leaves == 1]
        return leaving


@dataclass(eq=False)
class Journey:
    """Documents on their way through the trees of a forest."""

    forest: Forest
    source: FeatureSource
    costs: Floats
    counts_paths: bool
    n_threads: int | None
    rows: Rows  # in play, ascending
    totals: Floats  # sums of the trees passed
    scores: Floats
    n_trees: Array  # passed by each document
    n_passed: int = 0  # by those in play
    path_cost: Floats = field(default_factory=lambda: np.zeros(0))
    is_seen: Array = field(default_factory=lambda: np.zeros((0, 0), np.uint8))

    @classmethod
    def start(
        cls, model: Any, data: Any, *, costs: Any, cost: str, n_threads: int | None
    ) -> Journey:
        """All documents before the first tree."""
        forest = forest_of(model)
        counts_paths = _checks.one_of("way to count costs", cost, COUNTED) == "path"
        names = forest.feature_names or [str(place + 1) for place in range(forest.n_features)]
        source = FeatureSource.of(data, forest)
        n_rows = len(source.matrix)
        journey = cls(
            forest,
            source,
            _checks.read_only(feature_costs(costs, names)),
            counts_paths,
            n_threads,
            np.arange(n_rows),
            np.zeros(n_rows),
            np.full(n_rows, forest.base),
            np.zeros(n_rows, np.int64),
        )
        if counts_paths:
            journey.path_cost = np.zeros(n_rows)
            journey.is_seen = np.zeros((n_rows, forest.n_features), np.uint8)
        return journey

    def pass_trees(self, n_trees: int) -> None:
        """Take the documents in play through all trees before tree ``n_trees``."""
        forest, first = self.forest, self.n_passed
        self.source.need(features_of(forest, first, n_trees), self.rows)
        matrix = self.source.matrix
        scoring.add_trees(forest, matrix, self.rows, first, n_trees, self.totals, self.n_threads)
        if self.counts_paths:
            self._count_paths(first, n_trees)
        self.scores[self.rows] = scoring.scores_of(forest, self.totals[self.rows], n_trees)
        self.n_trees[self.rows] = n_trees
        self.n_passed = n_trees

    def leave(self, leaving: Rows) -> None:
        """Let these rows leave; their scores and costs stay as they are."""
        is_in_play = np.zeros(self.scores.size, bool)
        is_in_play[self.rows] = True
        is_in_play[leaving] = False
        self.rows = np.flatnonzero(is_in_play)

    def result(self) -> EarlyExitScores:
        """Scores so far, and what they took."""
        if self.counts_paths:
            n_features = self.is_seen.sum(axis=1, dtype=np.int64)
            cost = self.path_cost + self.n_trees
        else:
            n_features = count_features(self.forest)[self.n_trees]
            cost = cost_of_trees(self.forest, self.costs)[self.n_trees]
        return EarlyExitScores(self.scores.copy(), self.n_trees.copy(), n_features, cost)

    def _count_paths(self, first: int, last: int) -> None:
        forest = self.forest
        _threads.run_blocks(
            add_paths,
            self.rows.size,
            _checks.read_only(self.rows),
            first,
            last,
            _checks.read_only(self.source.matrix),
            forest.feature,
            forest.threshold,
            forest.left,
            forest.right,
            forest.missing,
            forest.tree_offsets,
            self.costs,
            self.is_seen,
            self.path_cost,
            n_threads=self.n_threads,
            least=max(1, _LEAST_WALKS // max(1, last - first)),
        )


def forest_of(model: Any) -> Forest:
    """The trees of a fitted ranker, or the forest itself."""
    forest = getattr(model, "forest_", model)
    if not isinstance(forest, Forest):
        raise ModelError(
            f"{type(model).__name__} has no trees to pass: early exits and cost curves are for fitted rankers "
            "made of trees."
        )
    return forest
