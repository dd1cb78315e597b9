"""Growing a forest: independent trees, collected in the order of their numbers, and how large they may become.

``ForestPlan`` determines every tree, ``ForestState`` holds the trees so far and ``grow_forest`` is the loop.
``ForestBuilder`` collects the trees of any ensemble.

``chosen_leaves`` says how many leaves the trees of a forest may have, where ``max_leaves`` is "auto". How large trees
should be depends on the noise of the labels more than on the number of rows. Small forests of larger and larger trees
are compared by their values on queries that trees have not seen: the training queries out of bag, and the validation
queries where there are any. The bags hold whole queries, since out of bag by row the estimates of large trees are too
low where features tell which query a row is of.

A training row is left out by few of the trees of a small forest, and few large trees are worse than few small ones
where many would be better. Each value is therefore extrapolated to many trees: if it falls short of its limit by
something in proportion to one over the number of trees, the limit is twice the value of all trees minus the mean of
the values of both halves.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.sums import exact_mean
from rankwood._core.threads import lazy, resolve_threads
from rankwood.data.categories import Dictionaries
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.engines.bags import Bags, Draws, OutOfBag, stream_number
from rankwood.engines.engine import Engine, TreeRequest
from rankwood.losses.loss import Targets
from rankwood.measures.listwise import LARGEST_EXPONENT
from rankwood.measures.measure import parse_measure
from rankwood.models.forest import NEVER, Forest, NodeArrays, first_uses
from rankwood.models.validate import ArrayRule
from rankwood.training.inputs import TrainingCosts, TrainingSet, codes_of
from rankwood.training.rounds import Checkpoint, Rounds, Validation
from rankwood.trees.grower import Policies, Tree

AUTO = "auto"
FEWEST = 100  # leaves; what trees have where nothing can be estimated
SIZES = (FEWEST, 400, 1600, 6400)
_MOST_ROWS = 100_000  # of data whose trees may grow without limit: more make models of gigabytes
_FEWEST_QUERIES = 10
_MOST_TREES = 100  # of a small forest
_FEWEST_TREES = 10
_VALUED_BY = "ndcg@10"


@dataclass(frozen=True, eq=False)
class ForestPlan:
    """Everything that determines the trees of a forest."""

    engine: Engine
    targets: Targets  # the weights are those in the impurity; None where all rows weigh alike
    policies: Policies
    bags: Bags | None  # None: every tree sees the same rows
    present: Array | None  # int32: rows that count when there are no bags; None: all
    n_trees: int
    seed: int
    costs: TrainingCosts | None = None
    batch: int = 1  # trees that grow without knowing which features the others of the batch use

    def __post_init__(self) -> None:
        self.engine.check(self.policies)

    @lazy
    def held(self) -> Any:
        """The targets, as the engine holds them."""
        values, _ = self.targets
        draws = Draws(self.present, values.size) if self.bags is None else self.bags.draws
        return self.engine.hold(self.targets, draws, centre=self.policies.lets_shift)

    def request(
        self, number: int, is_used: Array | None = None, bags: Bags | None = None
    ) -> TreeRequest:
        """Tree ``number``. Features that ``is_used`` cost nothing; ``bags`` may hold a part of the plan's rows."""
        request = TreeRequest(
            self.held,
            self.policies,
            stream_number(self.seed, "tree", number),
            self.bags if bags is None else bags,
            number,
            self.present,
            reaches_all=self.bags is not None,
        )
        if self.costs is None or is_used is None:
            return request
        return self.costs.charge(request, self.targets, is_used)


@dataclass(frozen=True, eq=False)
class ForestState:
    """The trees of a forest so far, and the estimates that follow from them."""

    trees: ForestBuilder
    out_of_bag: OutOfBag | None  # None without bags
    validation: Validation | None
    history: list[float]  # the validation measure after each tree

    def add(self, tree: Tree) -> float | None:
        """Add a tree, which is in ``out_of_bag`` already; returns the validation measure."""
        self.trees.add(tree)
        if self.validation is None:
            return None
        self.validation.add(tree)
        self.history.append(self.validation.value(divisor=len(self.trees)))
        return self.history[-1]

    @staticmethod
    def rules_of(
        plan: ForestPlan, checkpoint: Checkpoint, n_rows: int, n_trees: int
    ) -> dict[str, ArrayRule]:
        """The arrays that a checkpoint of ``n_trees`` trees holds besides the trees."""
        rules = {"history": checkpoint.history_of(n_trees)}
        if plan.bags is not None:
            rules["oob_sums"] = ArrayRule(np.float64, (n_rows,))
            rules["oob_counts"] = ArrayRule(np.int32, (n_rows,), 0, n_trees)
        return rules

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the trees, and everything that does not follow from them."""
        arrays = {"history": np.array(self.history)}
        if self.out_of_bag is not None:
            arrays |= {"oob_sums": self.out_of_bag.sums, "oob_counts": self.out_of_bag.n_trees}
        checkpoint.write(self.trees.forest(), arrays)


def in_batches(
    request: Callable[[int, Array], TreeRequest],
    numbers: range,
    batch: int,
    used_before: Callable[[int], Array],
) -> Iterator[Iterator[TreeRequest]]:
    """The requests for the trees of these numbers, batch by batch; each knows the features of the batches before.

    ``used_before`` gives the features that trees before a number use; the caller has added these trees by then.
    """
    while numbers:
        begin = numbers[0] // batch * batch  # a resumed fit may stand within a batch
        is_used = used_before(begin)
        now = range(numbers[0], min(begin + batch, numbers.stop))
        yield (request(number, is_used) for number in now)
        numbers = numbers[len(now) :]


def grow_forest(plan: ForestPlan, state: ForestState, rounds: Rounds) -> None:
    """Grow the trees that ``state`` lacks; the order they are added in does not depend on the engine."""
    batch = plan.n_trees if plan.costs is None else plan.batch
    lacking = range(len(state.trees), plan.n_trees)
    batches = in_batches(plan.request, lacking, batch, state.trees.used_before)
    growing = (tree for one in batches for tree in plan.engine.grow(one, state.out_of_bag))
    with contextlib.closing(growing) as grown:
        for _ in rounds:
            # The tree has no name here: it has a number per row, and a name would keep it while the next one grows.
            rounds.finish(state.add(next(grown)))


# Collecting trees.


@dataclass(eq=False)
class ForestBuilder:
    """Collects trees, behind those of an earlier forest if there is one, into a ``Forest``."""

    n_features: int
    feature_names: tuple[str, ...] | None
    average: bool
    earlier: Forest | None = None
    base: float = 0.0
    factor: float = 1.0  # the weight of a tree that comes without one
    n_expected: int = 0  # trees to come; 0 where unknown
    categorical: Dictionaries | None = None
    weights: list[float] = field(default_factory=list)
    first_use: Array = field(init=False)  # of each feature: the first tree that splits on it

    @classmethod
    def averaging(
        cls, data: RankingData, earlier: Forest | None = None, *, n_expected: int = 0
    ) -> ForestBuilder:
        """A builder of a forest whose score is the mean of trees that are grown on ``data``."""
        shape = (data.n_features, data.feature_names)
        return cls(*shape, True, earlier, n_expected=n_expected, categorical=data.categorical)

    def __post_init__(self) -> None:
        self._grown = NodeArrays(self.n_expected)
        self.first_use = np.full(self.n_features, NEVER)
        if self.earlier is not None:
            self.first_use[:] = first_uses(self.earlier)

    def __len__(self) -> int:
        return self._grown.n_trees + (0 if self.earlier is None else self.earlier.n_trees)

    def add(self, tree: Tree, weight: float | None = None) -> None:
        """Add a tree; the leaf of each training row is not kept, since it is as large as the data."""
        if self.first_use.max() > len(self):  # else all are used by now
            is_used = np.bincount(tree.feature + 1, minlength=self.n_features + 1) > 0
            self.first_use[is_used[1:] & (self.first_use > len(self))] = len(self)  # leaves have -1
        self._grown.add(tree)
        self.weights.append(self.factor if weight is None else weight)

    def used_before(self, number: int) -> Array:
        """For each feature whether a tree before tree ``number`` splits on it."""
        is_used: Array = self.first_use < number
        return is_used

    def forest(self) -> Forest:
        """All trees so far."""
        if self.earlier is not None and self._grown.n_trees == 0:
            return self.earlier
        grown = Forest(
            **self._grown.arrays(),
            tree_weights=np.array(self.weights, np.float64),
            base=self.base if self.earlier is None else 0.0,
            average=self.average,
            n_features=self.n_features,
            feature_names=self.feature_names,
            categorical=self.categorical,
        )
        return grown if self.earlier is None else Forest.concatenate([self.earlier, grown])


def totals_of(forest: Forest, data: RankingData) -> Floats:
    """The sum of the trees' values of each row, bit for bit as if they had been added one by one."""
    return dataclasses.replace(forest, base=0.0, average=False).predict(data)


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

    @lazy
    def binned_valid(self) -> Validation | None:
        """The validation rows in bins, without a tree; None where they are not looked at."""
        if self.valid is None or self.by_rmse:
            return None
        codes = codes_of(self.valid, self.train, self.n_threads)
        totals, threads = np.zeros(self.valid.n_documents), resolve_threads(self.n_threads)
        return Validation(self.valid, codes, parse_measure(_VALUED_BY), totals, threads)


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
    n_trees = max(_FEWEST_TREES, min(_MOST_TREES, search.n_trees))
    plan, half = _plan(search, size, n_trees), (n_trees + 1) // 2
    first = _Estimates.of_trees(search, plan, range(half))
    last = _Estimates.of_trees(search, plan, range(half, n_trees))
    mean_of_halves = (first.value(search) + last.value(search)) / 2.0
    return 2.0 * first.joined(last).value(search) - mean_of_halves


def _plan(search: LeavesSearch, size: int | None, n_trees: int) -> ForestPlan:
    """The trees of a small forest, on bags of queries."""
    train = search.train
    rows, queries = train.data.n_documents, train.data.query_of_row
    return ForestPlan(
        train.engine.with_threads(resolve_threads(search.n_threads)),
        (train.labels, train.weights),
        _limited(search.policies, size),
        Bags(rows, queries, present=train.present, seed=search.seed),
        None,
        n_trees,
        search.seed,
    )


def _limited(policies: Policies, max_leaves: int | None) -> Policies:
    growth = dataclasses.replace(policies.growth, max_leaves=max_leaves)
    return dataclasses.replace(policies, growth=growth)


@dataclass(frozen=True, eq=False)
class _Estimates:
    """What some trees say of rows they have not seen: training rows out of bag, and validation rows."""

    out_of_bag: OutOfBag
    valid: Validation | None

    @classmethod
    def of_trees(cls, search: LeavesSearch, plan: ForestPlan, numbers: range) -> _Estimates:
        """The estimates of the trees of these numbers."""
        valid = search.binned_valid
        if valid is not None:
            valid = dataclasses.replace(valid, totals=np.zeros(valid.totals.size))
        out_of_bag = plan.engine.out_of_bag()
        for tree in plan.engine.grow(map(plan.request, numbers), out_of_bag):
            if valid is not None:
                valid.add(tree)
        return cls(out_of_bag, valid)

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
            return -math.sqrt(exact_mean(errors**2)) if errors.size else np.nan
        values = [np.zeros(0)]
        if has_score.any():
            values.append(self.out_of_bag.ndcg_by_query(data, search.n_threads))
        if self.valid is not None:  # the order of sums is that of means
            measure = parse_measure(_VALUED_BY)
            values.append(measure.per_query(read_only(self.valid.totals), self.valid.data))
        joined = np.concatenate(values)
        return float(joined.mean()) if joined.size else np.nan
