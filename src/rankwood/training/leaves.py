"""``chosen_leaves``: how many leaves the trees of a forest may have, where ``max_leaves`` is "auto".

How large trees should be depends on the noise of the labels more than on the number of rows. Small forests of larger
and larger trees are compared by their values on queries that trees have not seen: the training queries out of bag, and
the validation queries where there are any. The bags hold whole queries, since out of bag by row the estimates of
large trees are too low where features tell which query a row is of.

A training row is left out by few of the trees of a small forest, and few large trees are worse than few small ones
where many would be better. Each value is therefore extrapolated to many trees: if it falls short of its limit by
something in proportion to one over the number of trees, the limit is twice the value of all trees minus the mean of
the values of both halves.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.threads import parallel_map_ordered, resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array
from rankwood.measures.gains import LARGEST_EXPONENT
from rankwood.measures.measure import parse_measure
from rankwood.training.bags import Bags, OutOfBag
from rankwood.training.forest import ForestPlan, Grown
from rankwood.training.inputs import TrainingSet, codes_of
from rankwood.training.rounds import Validation
from rankwood.trees.grower import Tree
from rankwood.trees.policies import Policies

AUTO = "auto"
FEWEST = 100  # leaves; what trees have where nothing can be estimated
SIZES = (FEWEST, 400, 1600, 6400)
_MOST_ROWS = 100_000  # of data whose trees may grow without limit: more make models of gigabytes
_FEWEST_QUERIES = 10
_MOST_TREES = 100  # of a small forest
_FEWEST_TREES = 10


@dataclass(frozen=True)
class LeavesSearch:
    """What a number of leaves is chosen for: the forest's trees, and the data that they are judged on."""

    policies: Policies  # how the trees grow, but for their leaves
    train: TrainingSet
    valid: RankingData | None = None
    n_trees: int = _MOST_TREES  # of the forest that the leaves are for
    seed: int = 0
    n_threads: int | None = None
    by_rmse: bool = False  # out of bag alone; else by NDCG@10

    @functools.cached_property
    def binned_valid(self) -> Validation | None:
        """The validation rows in bins, without a tree; None where they are not looked at."""
        if self.valid is None or self.by_rmse:
            return None
        codes = codes_of(self.valid, self.train, self.n_threads)
        totals, threads = np.zeros(self.valid.n_documents), resolve_threads(self.n_threads)
        return Validation(self.valid, codes, parse_measure("ndcg@10"), totals, threads)


def chosen_leaves(search: LeavesSearch) -> int | None:
    """The most leaves of a tree, None for no limit: larger trees are taken as long as the value rises.

    Without query ids, with few queries, or with labels too large for a gain it is ``FEWEST``.
    """
    data = search.train.data
    is_known = data.query_ids is not None and data.n_queries >= _FEWEST_QUERIES
    if not is_known or data.labels.max() > LARGEST_EXPONENT:
        return FEWEST
    chosen: int | None = FEWEST
    best = -np.inf
    for size in sizes_for(data.n_documents):
        value = value_of_many_trees(search, size)
        if not value > best:
            break
        chosen, best = size, value
    return chosen


def with_chosen_leaves(search: LeavesSearch) -> Policies:
    """The policies of the search, with the number of leaves that is chosen."""
    return _limited(search.policies, chosen_leaves(search))


def sizes_for(n_rows: int) -> list[int | None]:
    """The numbers of leaves that are tried, in their order; None is no limit."""
    sizes: list[int | None] = [size for size in SIZES if size == FEWEST or 2 * size < n_rows]
    return sizes if n_rows > _MOST_ROWS or n_rows <= FEWEST else [*sizes, None]


def value_of_many_trees(search: LeavesSearch, size: int | None) -> float:
    """The mean over queries, extrapolated from a small forest of trees with ``size`` leaves."""
    first, last = _Estimates.empty(search), _Estimates.empty(search)
    n_trees = max(_FEWEST_TREES, min(_MOST_TREES, search.n_trees))
    for number, (tree, counts) in enumerate(_grown(search, size, n_trees)):
        half = first if 2 * number < n_trees else last
        half.add(tree, counts)
    mean_of_halves = (first.value(search) + last.value(search)) / 2.0
    return 2.0 * first.joined(last).value(search) - mean_of_halves


def _grown(search: LeavesSearch, size: int | None, n_trees: int) -> Iterator[Grown]:
    """The trees of a small forest, each with how often its bag holds each row."""
    train = search.train
    rows, queries = train.data.n_documents, train.data.query_of_row
    plan = ForestPlan(
        train.matrix,
        train.labels,
        train.weights,
        _limited(search.policies, size),
        Bags(rows, queries, present=train.present, seed=search.seed),
        None,
        n_trees,
        search.seed,
        resolve_threads(search.n_threads),
    )
    return parallel_map_ordered(plan.grow, range(n_trees), plan.n_threads)


def _limited(policies: Policies, max_leaves: int | None) -> Policies:
    growth = dataclasses.replace(policies.growth, max_leaves=max_leaves)
    return dataclasses.replace(policies, growth=growth)


@dataclass(frozen=True, eq=False)
class _Estimates:
    """What some trees say of rows they have not seen: training rows out of bag, and validation rows."""

    out_of_bag: OutOfBag
    valid: Validation | None

    @classmethod
    def empty(cls, search: LeavesSearch) -> _Estimates:
        """No tree yet."""
        valid = search.binned_valid
        if valid is not None:
            valid = dataclasses.replace(valid, totals=np.zeros(valid.totals.size))
        return cls(OutOfBag.empty(search.train.data.n_documents), valid)

    def add(self, tree: Tree, counts: Array | None) -> None:
        """Add a tree whose bag holds each row ``counts`` times."""
        assert counts is not None
        self.out_of_bag.add(tree, counts)
        if self.valid is not None:
            self.valid.add(tree)

    def joined(self, other: _Estimates) -> _Estimates:
        """The estimates of the trees of both."""
        valid = self.valid
        if valid is not None and other.valid is not None:
            valid = dataclasses.replace(valid, totals=valid.totals + other.valid.totals)
        return _Estimates(self.out_of_bag + other.out_of_bag, valid)

    def value(self, search: LeavesSearch) -> float:
        """The mean over the queries that have estimates, or the rmse below 0."""
        data, has_score = search.train.data, self.out_of_bag.n_trees > 0
        if search.by_rmse:
            errors = (self.out_of_bag.scores - data.labels)[has_score]
            return -float(np.sqrt(np.mean(errors**2))) if errors.size else np.nan
        values = [np.zeros(0)]
        if has_score.any():
            values.append(self.out_of_bag.ndcg_by_query(data, search.n_threads))
        if self.valid is not None:  # the order of sums is that of means
            measure = self.valid.measure
            values.append(measure.per_query(read_only(self.valid.totals), self.valid.data))
        joined = np.concatenate(values)
        return float(joined.mean()) if joined.size else np.nan
