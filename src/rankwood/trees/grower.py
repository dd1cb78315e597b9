"""``grow_tree``: from binned rows and targets to a tree as flat arrays.

The policies become numbers (``GrowthRules``), the targets integers (``packing``). A kernel grows the nodes
(``best_first`` or ``random_trees``). The nodes are then sorted by number, and their values are computed from the
unscaled targets (``leaves``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.team import run_team
from rankwood._core.threads import resolve_threads, usable_cores
from rankwood.binning.bins import N_CODES
from rankwood.dtypes import Array, Floats
from rankwood.trees.best_first import follow, grow
from rankwood.trees.leaves import (
    by_source,
    look_up_cuts,
    mark_leaves,
    mark_sources,
    route,
    sum_inner_nodes,
    sum_leaves,
)
from rankwood.trees.packing import PackedTargets, pack
from rankwood.trees.policies import MISSING_RULES, THRESHOLD_RULES, UNLIMITED, Policies
from rankwood.trees.random_trees import Splits, grow_random_tree
from rankwood.trees.workspace import (
    COMPLETELY_RANDOM,
    N_COUNTERS,
    N_NODES,
    NODE,
    OWN_CHILD,
    Bag,
    Candidates,
    GrowthRules,
    Matrix,
    Work,
)

# Sums in the search of a leaf, from which on a team is faster than one thread; and of the root, to start a team at all.
_LEAST_SHARED, _LEAST_FOR_TEAM = 1 << 15, 1 << 17
_MOST_POOL_BYTES = 256 * 2**20  # of histograms kept for subtraction; larger trees do not subtract


@dataclass(frozen=True, eq=False)
class LeafStatistics:
    """What the values of the leaves are computed from, by source."""

    counts: Array  # int32: how often each row was drawn
    targets: Floats
    weights: Floats | None
    l2: float

    def sums(self, leaf_of_source: Array, n_nodes: int) -> tuple[Floats, Floats]:
        """Each leaf's sum of weighted targets, and of weights; 0 in inner nodes."""
        sums, weight_sums = np.zeros(n_nodes), np.zeros(n_nodes)
        weights = np.zeros(0) if self.weights is None else self.weights
        counts = np.ascontiguousarray(self.counts, np.int32)
        sum_leaves(
            read_only(counts),
            read_only(self.targets),
            read_only(weights),
            read_only(leaf_of_source),
            sums,
            weight_sums,
        )
        return sums, weight_sums


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree as parallel arrays; the root is node 0, children have higher numbers than their parent.

    ``feature`` is -1 in a leaf. A row goes left if ``value <= threshold``, and to ``missing`` if the value is missing;
    ``code`` is the same split for binned values.
    """

    feature: Array  # int32
    threshold: Array  # float32
    code: Array  # uint8
    left: Array  # int32; 0 in a leaf
    right: Array
    missing: Array
    value: Floats
    cover: Floats
    gain: Floats
    leaf_of_row: Array  # int32, one per row of the data; -1 where it was not computed

    @classmethod
    def leaf(cls, value: float, cover: float, n_rows: int) -> Tree:
        """A tree without a split."""
        zeros: Array = np.zeros(1, np.int32)
        return cls(
            np.full(1, -1, np.int32),
            np.zeros(1, np.float32),
            np.zeros(1, np.uint8),
            zeros,
            zeros,
            zeros,
            np.array([value]),
            np.array([cover]),
            np.zeros(1),
            np.zeros(n_rows, np.int32),
        )

    @classmethod
    def stump(
        cls,
        matrix: Matrix,
        feature: int,
        code: int,
        missing: int,
        value: Floats,
        cover: Floats,
        gain: float,
        leaf_of_row: Array,
    ) -> Tree:
        """A tree with one split; ``missing`` is the child of missing values: 1 or 2, or 3 for a child of their own."""
        n_nodes = value.size
        features, codes = np.full(n_nodes, -1, np.int32), np.zeros(n_nodes, np.uint8)
        features[0], codes[0] = feature, code
        gains = np.zeros(n_nodes)
        gains[0] = gain
        left, right, absent = np.zeros((3, n_nodes), np.int32)
        left[0], right[0], absent[0] = 1, 2, missing
        threshold = thresholds_of(matrix, features, codes)
        return cls(
            features, threshold, codes, left, right, absent, value, cover, gains, leaf_of_row
        )

    @property
    def n_nodes(self) -> int:
        """Inner nodes and leaves."""
        return int(self.feature.size)

    @property
    def n_leaves(self) -> int:
        """Nodes without children."""
        return int((self.left == 0).sum())

    @property
    def last_gain(self) -> float:
        """The gain of the last split; 0 without a split."""
        return float(self.gain[self.left.argmax()])


def grow_tree(
    matrix: Matrix,
    targets: Floats,
    policies: Policies,
    *,
    counts: Array | None = None,
    weights: Floats | None = None,
    stream: int = 0,
    n_threads: int | None = 1,
    route_others: bool = True,
    likely_gain: float = math.inf,
) -> Tree:
    """Grow one tree on the rows drawn ``counts`` times (all rows once, by default).

    With one thread the whole tree grows inside one kernel that does not hold the GIL, so that the trees of a forest
    can grow in parallel. With more, a team of threads shares the features of large nodes. ``likely_gain`` is an
    estimate of the least gain among the splits of the tree; a good one saves time. Neither changes the tree.
    """
    if counts is None:
        counts = np.ones(matrix.columns.shape[1], np.int32)
    centre = policies.l2 == 0.0
    packed = pack(targets, counts, weights, source_of_row=matrix.source_of_row, centre=centre)
    rules = _rules(matrix, packed, policies, weights is not None, stream, likely_gain)
    bag = Bag(packed.rows, packed.values, packed.counts)
    candidates = policies.candidates(matrix.columns.shape[0], packed.gain_unit)
    grown = _grow(matrix, bag, rules, candidates, resolve_threads(n_threads), route_others)
    packed = packed.without_values()  # frees memory early, as many trees may be growing
    del bag
    if policies.costs is not None:  # the gain without the cost
        grown.splits.gain[:] += candidates.penalty[grown.splits.feature]
    statistics = LeafStatistics(counts, targets, weights, policies.l2)
    return _finish(matrix, grown, packed, statistics, route_others)


@dataclass(frozen=True, eq=False)
class Grown:
    """The nodes of a tree, and its rows by position."""

    splits: Splits
    rows: Array  # uint32
    limits: tuple[Floats, Floats] | None = (
        None  # of values, with monotone features, in integer units
    )


def _grow(
    matrix: Matrix,
    bag: Bag,
    rules: GrowthRules,
    candidates: Candidates,
    threads: int,
    route_others: bool,
) -> Grown:
    """The grown tree; the work space is freed on return."""
    is_random = rules.threshold_rule == COMPLETELY_RANDOM
    is_free = candidates.direction.size == 0
    if is_random and is_free and rules.max_leaves >= bag.rows.size > 0:
        return Grown(*grow_random_tree(matrix, bag, rules, route_others))
    nodes, work = _space(matrix, rules, bag.rows.size)
    is_small = bag.rows.size * rules.n_candidates < _LEAST_FOR_TEAM
    is_alone = threads == 1 or is_small or is_random
    size = 1 if is_alone else min(threads, max(2, usable_cores()))
    run_team(size, grow, follow, matrix, bag, rules, candidates, nodes, work)
    plain = nodes[: int(work.counters[N_NODES])].view(np.ndarray)  # reads fields faster
    plain = _in_order(plain)
    limits = None if is_free else (plain["low"].copy(), plain["high"].copy())
    return Grown(_splits(plain), bag.rows, limits)


def _in_order(nodes: Any) -> Any:
    """The nodes that are part of the tree, by number; early splits that were never selected become leaves."""
    numbered = nodes[np.argsort(nodes["number"], kind="stable")]
    numbered = numbered[np.searchsorted(numbered["number"], 0) :]
    for name in ("missing", "right", "left"):  # no child has number 0
        below = nodes["number"][numbered[name]]
        numbered[name] = np.where((numbered["left"] > 0) & (below > 0), below, 0)
    return numbered


def _splits(nodes: Any) -> Splits:
    """The records of the nodes as arrays."""
    left, right, missing = (nodes[name].astype(np.int32) for name in ("left", "right", "missing"))
    is_leaf = left == 0
    feature = np.where(is_leaf, -1, nodes["feature"]).astype(np.int32)
    code = np.where(is_leaf, 0, nodes["code"]).astype(np.uint8)
    gain, begin, end = (np.ascontiguousarray(nodes[name]) for name in ("gain", "begin", "end"))
    return Splits(feature, code, left, right, missing, gain, begin, end)


def _rules(
    matrix: Matrix,
    packed: PackedTargets,
    policies: Policies,
    has_weights: bool,
    stream: int,
    likely_gain: float = math.inf,
) -> GrowthRules:
    """The policies in the integer units of the packed targets."""
    growth = policies.growth
    n_features = matrix.columns.shape[0]
    n_candidates = policies.features.count(n_features)
    max_leaves = min(growth.max_leaves or UNLIMITED, max(1, packed.rows.size))
    pool = max_leaves * n_candidates * N_CODES * 8
    can_subtract = (
        n_candidates == n_features
        and policies.thresholds != "completely_random"  # which needs no histogram
        and not policies.features.given
        and pool <= _MOST_POOL_BYTES
    )
    likely_gain *= packed.gain_unit
    most_nodes = 2 * (max_leaves + 1) + 1  # a three-way split adds two leaves at once
    if can_subtract:
        likely_gain = math.inf  # there are only as many slots as leaves
    elif max_leaves >= packed.rows.size:
        likely_gain = -math.inf  # every split is made
    return GrowthRules(
        max_leaves,
        UNLIMITED if growth.max_depth is None else growth.max_depth,
        growth.min_leaf,
        growth.min_split,
        n_candidates,
        THRESHOLD_RULES[policies.thresholds],
        MISSING_RULES[policies.missing],
        packed.bits,
        has_weights,
        can_subtract,
        float(policies.l2 * packed.weight_unit),
        float(growth.min_gain * packed.gain_unit),
        float(growth.min_weight * packed.weight_unit),
        likely_gain,
        most_nodes,
        _LEAST_SHARED,
        stream,
    )


def _space(matrix: Matrix, rules: GrowthRules, n_rows: int) -> tuple[Any, Work]:
    """The arrays of the growing tree, as large as it may get."""
    most_leaves = rules.max_leaves + 1
    n_nodes = rules.most_explored * (1 if math.isinf(rules.likely_gain) else 2)
    n_features = matrix.columns.shape[0]
    nodes = np.recarray(n_nodes, NODE)
    n_slots = 1
    if rules.can_subtract:
        n_slots = 2 * most_leaves if rules.missing_rule == OWN_CHILD else most_leaves
    n_aside = n_rows if rules.missing_rule == OWN_CHILD else (n_rows + 1) // 2
    shape = (n_slots, rules.n_candidates, N_CODES)
    work = Work(
        np.empty(shape, np.int64),
        np.empty(N_CODES, np.int64),
        np.empty(rules.n_candidates, np.int64),
        np.empty(rules.n_candidates, np.float64),
        np.empty(rules.n_candidates, np.int64),
        np.empty(rules.n_candidates, np.int64),
        np.zeros(rules.n_candidates, np.bool_),
        np.empty(n_features, np.float64),
        np.empty(n_aside, np.uint32),
        np.empty(n_aside, np.int64),
        np.empty(n_aside if rules.has_counts else 0, np.int64),
        np.empty(most_leaves, np.int64),
        np.empty(most_leaves, np.int64),
        np.zeros(N_COUNTERS, np.int64),
    )
    return nodes, work


def _finish(
    matrix: Matrix,
    grown: Grown,
    packed: PackedTargets,
    statistics: LeafStatistics,
    route_others: bool,
) -> Tree:
    """The grown nodes as a tree, with values from the unscaled targets and the leaf of every row."""
    feature, code, left, right, missing, gain, *_ = grown.splits
    leaf_of_source = _leaves_of_sources(matrix, grown, route_others)
    sums, weight_sums = statistics.sums(leaf_of_source, left.size)
    sum_inner_nodes(left, right, missing, sums, weight_sums)
    weight = weight_sums + statistics.l2
    value = np.divide(sums, weight, out=np.zeros_like(sums), where=weight > 0)
    if grown.limits is not None:
        unit = packed.weight_unit / packed.target_unit
        low, high = (limit * unit + packed.shift for limit in grown.limits)
        value = np.clip(value, low, high)
    gain = np.where(left == 0, 0.0, gain / packed.gain_unit)
    threshold = thresholds_of(matrix, feature, code)
    return Tree(
        feature, threshold, code, left, right, missing, value, weight_sums, gain, leaf_of_source
    )


def _leaves_of_sources(matrix: Matrix, grown: Grown, route_others: bool) -> Array:
    """The leaf of every row by source; -1 for rows that are not routed."""
    feature, code, left, right, missing, _, begin, end = grown.splits
    n_rows = matrix.columns.shape[1]
    leaf_of_source = np.empty(n_rows, np.int32)
    if grown.rows.size == n_rows:
        mark_sources(grown.rows, begin, end, left, matrix.source_of_row, leaf_of_source)
        return leaf_of_source
    leaf_of_row = np.full(n_rows, -1, np.int32)
    mark_leaves(grown.rows, begin, end, left, leaf_of_row)
    if route_others:
        route(0, n_rows, matrix.columns, feature, code, left, right, missing, leaf_of_row)
    by_source(matrix.source_of_row, leaf_of_row, leaf_of_source)
    return leaf_of_source


def thresholds_of(matrix: Matrix, feature: Array, code: Array) -> Array:
    """The thresholds of the nodes, from their codes; 0 in leaves."""
    threshold = np.zeros(feature.size, np.float32)
    if matrix.thresholds.size > 0:
        look_up_cuts(feature, code, matrix.offsets, matrix.thresholds, threshold)
    return threshold
