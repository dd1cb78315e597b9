"""``EarlyExit``: scoring with exits, at which the documents with the lowest running scores leave the forest.

A document that leaves keeps its score at that moment: the sum of the trees it passed, or their mean if the forest
averages (Mohan 2010, §6.1; Cambazoglu et al. 2010).

``Journey`` takes all documents from exit to exit. If shares are taken per query and all features are present,
``score_queries`` takes each query through all trees at once instead; documents then keep their keys from one exit to
the next.

Terms
    in play    documents that have not left yet
    exit       a number of trees after which the documents with the lowest running scores leave
    passed     the trees that a document went through before it left
    group      documents of which a share leaves: those of a query, or all
    heap       the worst documents of a group so far; its root is the best of them, the next to be replaced
    slot       an index among the keys: lane ``slot % 8`` of group ``slot // 8``; the first slots are in play
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rankwood._core import checks, threads
from rankwood._core.jit import kernel
from rankwood._core.threads import lazy
from rankwood.data.categories import refuse
from rankwood.data.features import feature_costs
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.models import scoring
from rankwood.models.forest import Forest, cost_of_trees, count_features, features_of
from rankwood.models.scoring import BLOCK_KEYS, LANES, MOST_GROUPS, key_of, walk_documents
from rankwood.models.validate import FeatureSource

SCOPES = ("query", "all")
COUNTED = ("all", "path")
_LEAST_WALKS = 50_000  # documents × trees per thread; a thread for less costs more than it saves

ROUNDING = 1e-9  # 0.29 of 100 documents are 29 of them, not 28.999…


@dataclass(frozen=True)
class EarlyExit:
    """Let the documents with the lowest running scores leave after every ``every`` trees.

    Parameters
    ----------
    every
        Trees from one exit to the next. There is no exit after the last tree.
    drop
        The share of the documents still in play that leave at each exit, rounded down. Among equal scores the
        later rows leave first.
    scope
        Whether the share is taken of each query's documents ("query") or of all of them together ("all").
    """

    every: int = 100
    drop: float = 0.10
    scope: str = "query"

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", checks.whole_number("every", self.every, 1))
        object.__setattr__(self, "drop", checks.real_number("drop", self.drop, "[0, 1)"))
        checks.one_of("scope", self.scope, SCOPES)

    @classmethod
    def parse(cls, text: str) -> EarlyExit:
        """From text such as ``every=100,drop=0.1,scope=query``; omitted parts have their default."""
        kinds = {"every": int, "drop": float, "scope": str}
        values: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            name, _, value = (piece.strip() for piece in part.partition("="))
            checks.one_of("part of an early exit", name, kinds)
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
        """Whether each query can pass all trees at once, since nothing is fetched or counted at the exits."""
        return (
            self.scope == "query"
            and not journey.counts_paths
            and journey.source.fetch is None
            and journey.forest.n_trees > 0
            and journey.forest.packed.wide.size == 0
        )

    def _score_queries(self, journey: Journey) -> None:
        """Take each query through all trees at once; the keys of a document are computed only once."""
        forest = journey.forest
        stops = np.array([*range(self.every, forest.n_trees, self.every), forest.n_trees])
        groups = self._groups(journey.source)
        order = np.argsort(groups, kind="stable")
        begins = np.searchsorted(groups[order], np.arange(int(groups.max(initial=-1)) + 2))
        packed = forest.packed
        threads.run_blocks(
            score_queries,
            begins.size - 1,
            checks.read_only(begins),
            checks.read_only(order),
            scoring.bits_of(journey.source.matrix, forest),
            Trees(
                packed.columns,
                packed.missing_keys,
                packed.offsets,
                packed.packed,
                packed.left_shift,
                packed.values,
            ),
            Exits(
                checks.read_only(stops),
                checks.read_only(scoring.divisors(forest)[stops]),
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
        """Take documents through all trees; yields before each exit, after ``also`` numbers of trees and at the end."""
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
        """The group of each document."""
        if self.scope == "all":
            return np.zeros(len(source.matrix), np.int64)
        if source.query_of_row is None:
            raise DataError(
                "scope='query' needs to know which documents belong together: pass data with query ids, "
                "or scope='all'."
            )
        return source.query_of_row

    def leaving(self, scores: Floats, rows: Rows, group_of_row: Rows) -> Rows:
        """Those of ``rows``, with their ``scores``, that leave: of each group the share with the lowest scores."""
        groups = group_of_row[rows]
        sizes = np.bincount(groups)
        n_leaving = np.floor(self.drop * sizes + ROUNDING).astype(np.int64)
        begins = np.cumsum(sizes) - sizes
        order, leaves = np.empty(rows.size, np.int64), np.zeros(rows.size, np.uint8)
        mark_leaving(scores, groups, n_leaving, begins, order, leaves)
        leaving: Rows = rows[leaves == 1]
        return leaving


@dataclass(frozen=True, eq=False)
class EarlyExitScores:
    """The scores of documents, and the trees, features and cost that each of them took.

    Parameters
    ----------
    scores
        One per document, in the caller's order; documents that left early have the score they left with.
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
        """The mean cost of a document."""
        return float(self.cost.mean()) if self.cost.size else 0.0

    @property
    def mean_trees(self) -> float:
        """The mean number of trees that a document passes."""
        return float(self.n_trees.mean()) if self.n_trees.size else 0.0

    def __repr__(self) -> str:
        return (
            f"EarlyExitScores({self.scores.size:,} documents, {self.mean_trees:,.1f} trees and "
            f"cost {self.mean_cost:,.1f} each on average)"
        )


@dataclass(eq=False)
class Journey:
    """The state of documents that pass the trees of a forest."""

    forest: Forest
    source: FeatureSource
    costs: Floats
    counts_paths: bool
    n_threads: int | None
    rows: Rows  # in play, ascending
    totals: Floats  # sums of the trees passed
    scores: Floats
    n_trees: Array  # passed by each document
    n_passed: int = 0  # trees passed by the documents in play
    path_cost: Floats = field(default_factory=lambda: np.zeros(0))
    is_seen: Array = field(default_factory=lambda: np.zeros((0, 0), np.uint8))

    @classmethod
    def start(
        cls, model: Any, data: Any, *, costs: Any, cost: str, n_threads: int | None
    ) -> Journey:
        """All documents before the first tree."""
        forest = forest_of(model)
        counts_paths = checks.one_of("way to count costs", cost, COUNTED) == "path"
        names = forest.feature_names or [str(feature + 1) for feature in range(forest.n_features)]
        source = FeatureSource.of(data, forest)
        n_rows = len(source.matrix)
        journey = cls(
            forest,
            source,
            checks.read_only(feature_costs(costs, names)),
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
        """The scores so far, and their cost."""
        if self.counts_paths:
            n_features = self.is_seen.sum(axis=1, dtype=np.int64)
            cost = self.path_cost + self.n_trees
        else:
            n_features = self._features_by_trees[self.n_trees]
            cost = self._cost_by_trees[self.n_trees]
        return EarlyExitScores(self.scores.copy(), self.n_trees.copy(), n_features, cost)

    @lazy
    def _cost_by_trees(self) -> Floats:
        return cost_of_trees(self.forest, self.costs)

    @lazy
    def _features_by_trees(self) -> Array:
        return count_features(self.forest)

    def _count_paths(self, first: int, last: int) -> None:
        forest = self.forest
        trees = TestedNodes(
            forest.feature,
            forest.threshold,
            forest.left,
            forest.right,
            forest.missing,
            forest.tree_offsets,
        )
        threads.run_blocks(
            add_paths,
            self.rows.size,
            checks.read_only(self.rows),
            first,
            last,
            checks.read_only(self.source.matrix),
            trees,
            self.costs,
            self.is_seen,
            self.path_cost,
            n_threads=self.n_threads,
            least=max(1, _LEAST_WALKS // max(1, last - first)),
        )


def forest_of(model: Any) -> Forest:
    """The trees of a fitted ranker, in the order in which documents pass them, or the forest itself."""
    forest = getattr(model, "forest_in_rounds_", None) or getattr(model, "forest_", model)
    if not isinstance(forest, Forest):
        raise ModelError(
            f"{type(model).__name__} has no trees to pass: early exits and cost curves are for fitted rankers "
            "made of trees."
        )
    names = forest.feature_names or tuple(str(number + 1) for number in range(forest.n_features))
    refuse(forest.categorical, names, "an early exit")
    return forest


# Kernels.


class Trees(NamedTuple):
    """The trees in the packed layout of ``scoring``."""

    columns: Array
    missing_keys: Array
    offsets: Array
    packed: Array
    left_shift: int
    values: Array


class TestedNodes(NamedTuple):
    """The nodes of a forest and what they test, as a ``Forest`` has them."""

    feature: Array
    threshold: Array
    left: Array
    right: Array
    missing: Array
    offsets: Array


class Exits(NamedTuple):
    """The numbers of trees at which a share leaves, the last of them all trees, and the divisors of sums there."""

    stops: Array
    divisors: Array
    base: float
    drop: float


@kernel
def score_queries(
    first: int,
    last: int,
    begins: Array,
    rows: Array,
    bits: Array,
    trees: Trees,
    exits: Exits,
    totals: Array,
    n_trees: Array,
) -> None:
    """Take the documents of queries ``first`` to ``last`` through the trees; at each stop a share of them leaves.

    Query ``q`` has rows ``rows[begins[q]:begins[q + 1]]``.
    """
    longest = 1
    for query in range(first, last):
        longest = max(longest, begins[query + 1] - begins[query])
    n_groups = (longest + LANES - 1) // LANES
    keys = np.zeros((n_groups, LANES * max(1, trees.columns.size)), np.int32)
    leaf_nodes = np.empty(LANES * n_groups, np.int64)
    slots = np.empty(longest, np.int64)
    worst = np.empty(longest, np.int64)
    scores = np.empty(longest, np.float64)
    sums = np.empty(longest, np.float64)
    for query in range(first, last):
        of_query = rows[begins[query] : begins[query + 1]]
        n_in_play = of_query.size
        for document in range(n_in_play):
            slots[document] = document
            fill_slot(document, bits[of_query[document]], trees, keys)
        first_tree = 0
        for stop in range(exits.stops.size):
            last_tree = exits.stops[stop]
            in_play = slots[:n_in_play]
            for slot in range(n_in_play):
                sums[slot] = totals[of_query[in_play[slot]]]
            pass_trees(first_tree, last_tree, trees, keys, leaf_nodes, sums[:n_in_play])
            for slot in range(n_in_play):
                document = in_play[slot]
                row = of_query[document]
                totals[row] = sums[slot]
                scores[document] = sums[slot] / exits.divisors[stop] + exits.base
                n_trees[row] = last_tree
            first_tree = last_tree
            if stop + 1 < exits.stops.size:
                n_leaving = int(exits.drop * n_in_play + ROUNDING)
                choose_worst(n_leaving, in_play, scores, worst[:n_leaving])
                n_in_play = close_gaps(n_leaving, in_play, scores, keys)


@kernel
def fill_slot(slot: int, bits: Array, trees: Trees, keys: Array) -> None:
    """Write the keys of a document from the bits of its values."""
    group, lane = slot // LANES, slot % LANES
    for column in range(trees.columns.size):
        keys[group, LANES * column + lane] = key_of(
            bits[trees.columns[column]], trees.missing_keys[column]
        )


@kernel
def pass_trees(
    first_tree: int, last_tree: int, trees: Trees, keys: Array, leaf_nodes: Array, sums: Array
) -> None:
    """Add the outputs of the trees for the documents in play to their sums, in blocks that fit the cache."""
    n_groups = max(1, min(MOST_GROUPS, BLOCK_KEYS // keys.shape[1]))
    for first in range(0, sums.size, LANES * n_groups):
        size = min(LANES * n_groups, sums.size - first)
        of_block = keys[first // LANES :]
        for tree in range(first_tree, last_tree):
            root = trees.offsets[tree]
            n_walking = (size + LANES - 1) // LANES
            walk_documents(trees.packed[root:], of_block, n_walking, trees.left_shift, leaf_nodes)
            for slot in range(size):
                sums[first + slot] += trees.values[root + leaf_nodes[slot]]


@kernel
def choose_worst(n_leaving: int, in_play: Array, scores: Array, worst: Array) -> None:
    """Set the scores of the ``n_leaving`` worst documents in play to NaN."""
    for slot in range(n_leaving):
        worst[slot] = in_play[slot]
    for parent in range(n_leaving // 2 - 1, -1, -1):
        sift_down(worst, parent, scores)
    if n_leaving > 0:
        for slot in range(n_leaving, in_play.size):
            if is_worse(in_play[slot], worst[0], scores):
                worst[0] = in_play[slot]
                sift_down(worst, 0, scores)
    for document in worst:
        scores[document] = np.nan


@kernel
def close_gaps(n_leaving: int, in_play: Array, scores: Array, keys: Array) -> int:
    """Move documents from the last slots to those of documents with score NaN; returns how many stay."""
    n_staying = in_play.size - n_leaving
    source = in_play.size - 1
    for slot in range(n_staying):
        if not np.isnan(scores[in_play[slot]]):
            continue
        while np.isnan(scores[in_play[source]]):
            source -= 1
        in_play[slot] = in_play[source]
        source -= 1
        group, lane = slot // LANES, slot % LANES
        other, its_lane = (source + 1) // LANES, (source + 1) % LANES
        for column in range(keys.shape[1] // LANES):
            keys[group, LANES * column + lane] = keys[other, LANES * column + its_lane]
    return n_staying


@kernel
def mark_leaving(
    scores: Array, groups: Array, n_leaving: Array, ends: Array, order: Array, leaves: Array
) -> None:
    """Set ``leaves`` for the ``n_leaving`` worst documents of each group; among equal scores the later is the worse.

    ``ends`` has the start of each group in an order by group, and afterwards its end; ``order`` is a work array.
    """
    for index in range(groups.size):
        group = groups[index]
        order[ends[group]] = index
        ends[group] += 1
    begin = 0
    for group in range(ends.size):
        size = int(n_leaving[group])
        heap = order[begin : begin + size]
        for parent in range(size // 2 - 1, -1, -1):
            sift_down(heap, parent, scores)
        if size > 0:
            for other in range(begin + size, ends[group]):
                if is_worse(order[other], heap[0], scores):
                    heap[0] = order[other]
                    sift_down(heap, 0, scores)
        for index in heap:
            leaves[index] = 1
        begin = ends[group]


@kernel
def is_worse(one: int, other: int, scores: Array) -> bool:
    """Whether document ``one`` leaves before ``other``."""
    if scores[one] != scores[other]:
        return bool(scores[one] < scores[other])
    return one > other


@kernel
def sift_down(heap: Array, parent: int, scores: Array) -> None:
    """Move the document at ``parent`` down until no child is better than it."""
    while True:
        best = 2 * parent + 1
        if best >= heap.size:
            return
        if best + 1 < heap.size and is_worse(heap[best], heap[best + 1], scores):
            best += 1
        if is_worse(heap[best], heap[parent], scores):
            return
        heap[parent], heap[best] = heap[best], heap[parent]
        parent = best


@kernel
def add_paths(
    first: int,
    last: int,
    rows: Array,
    first_tree: int,
    last_tree: int,
    matrix: Array,
    trees: TestedNodes,
    costs: Array,
    is_seen: Array,
    cost_of_row: Array,
) -> None:
    """Walk ``rows[first:last]`` down some trees; a feature tested for the first time adds its cost to the row's."""
    feature, threshold, left, right, missing, offsets = trees
    for index in range(first, last):
        row = rows[index]
        for tree in range(first_tree, last_tree):
            node = int(offsets[tree])
            while feature[node] >= 0:
                tested = feature[node]
                if is_seen[row, tested] == 0:
                    is_seen[row, tested] = 1
                    cost_of_row[row] += costs[tested]
                value = matrix[row, tested]
                if np.isnan(value):
                    node = int(missing[node])
                elif value <= threshold[node]:
                    node = int(left[node])
                else:
                    node = int(right[node])
