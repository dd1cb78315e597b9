"""``grow_tree``: from binned rows, targets and policies to a tree as flat arrays.

Policies are what a method decides about its trees, as small frozen dataclasses. They become numbers (``GrowthRules``
and ``Candidates``), which is all that kernels see; the targets become integers (``packing``). A kernel grows the nodes
(``best_first`` or ``random_trees``). The nodes are then sorted by number, and their values are computed from exact
sums of the unscaled targets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood._core.checks import one_of, read_only, real_number, whole_number
from rankwood._core.team import run_team
from rankwood._core.threads import resolve_threads, usable_cores
from rankwood.binning.bins import N_CODES
from rankwood.dtypes import Array, Floats
from rankwood.errors import ParameterError
from rankwood.trees.best_first import draw_of_tree, grow
from rankwood.trees.packing import (
    DrawnRows,
    Scales,
    TargetRows,
    Units,
    WholeTargets,
    choose_units,
    whole_targets,
)
from rankwood.trees.partition import (
    CODES_AT_ONCE,
    by_source,
    look_up_cuts,
    mark_leaves,
    mark_sources,
    route,
    sum_inner_nodes,
)
from rankwood.trees.random_trees import Splits, grow_random_tree
from rankwood.trees.steps import BLOCKS_PER_THREAD, MOST_HISTOGRAMS, MOST_PARTS, follow
from rankwood.trees.workspace import (
    BEST,
    COMPLETELY_RANDOM,
    GO_LEFT,
    GO_RIGHT,
    LEARNED,
    N_COUNTERS,
    N_NODES,
    N_WORDS,
    NODE,
    OWN_CHILD,
    RANDOM,
    Bag,
    Candidates,
    GrowthRules,
    Matrix,
    Work,
    no_subsets,
)

THRESHOLD_RULES = {"best": BEST, "random": RANDOM, "completely_random": COMPLETELY_RANDOM}
MISSING_RULES = {"learned": LEARNED, "left": GO_LEFT, "right": GO_RIGHT, "own_child": OWN_CHILD}
UNLIMITED = np.iinfo(np.int32).max
# Sums in the search of a leaf, from which on a team is faster than one thread; and of the root, to start a team at all.
_LEAST_SHARED, _LEAST_FOR_TEAM = 1 << 15, 1 << 17
_LEAST_PART = 1 << 12  # rows: a team moves fewer than two parts in less time than it takes to meet
_MOST_POOL_BYTES = 256 * 2**20  # of histograms kept for subtraction; larger trees do not subtract


@dataclass(frozen=True)
class Growth:
    """Limits of a tree: leaves, depth, rows and weight of a leaf, gain of a split, rows of a split node.

    None is no limit.
    """

    max_leaves: int | None = 31
    max_depth: int | None = None
    min_leaf: int = 1
    min_gain: float = 0.0
    min_weight: float = 0.0
    min_split: int = 1  # a node with fewer distinct rows is a leaf

    def __post_init__(self) -> None:
        for name, least in (("max_leaves", 1), ("max_depth", 0), ("min_leaf", 1), ("min_split", 1)):
            value = getattr(self, name)
            if value is not None or name.startswith("min"):
                # Python's own number: arithmetic with numpy's wraps.
                object.__setattr__(self, name, whole_number(name, value, least))
        for name in ("min_gain", "min_weight"):
            object.__setattr__(self, name, real_number(name, getattr(self, name), "[0, inf)"))


@dataclass(frozen=True, eq=False)
class FeatureChoice:
    """Which features a node searches.

    ``per_node`` is their number (int) or share (float), or None for all. ``probability`` draws them non-uniformly.
    ``given`` names the feature of each node position (root, its left and right child, …); features of positions beyond
    it are drawn. ``per_tree``, a number or share too, is drawn once for the tree, and nodes draw among these features.
    ``groups`` (bool, groups × features) are features that may meet on a path from the root; None lets all meet.
    """

    per_node: int | float | None = None
    probability: Array | None = None
    given: tuple[int, ...] = ()
    per_tree: int | float | None = None
    groups: Array | None = None

    def __post_init__(self) -> None:
        is_limited = self.per_tree is not None or self.groups is not None
        if is_limited and (self.probability is not None or self.given):
            raise ParameterError("features of a tree, and groups of them, are drawn uniformly.")

    def count(self, n_features: int) -> int:
        """How many of the ``n_features`` of its tree a node searches: at least one."""
        return _count("features_per_node", self.per_node, n_features)

    def count_of_tree(self, n_features: int) -> int:
        """How many of ``n_features`` a tree may split on: at least one."""
        return _count("features_per_tree", self.per_tree, n_features)

    def of_tree(self, n_features: int, stream: int) -> Array:
        """The features that the tree of a stream may split on, ascending; empty for all."""
        n_chosen = self.count_of_tree(n_features)
        chosen: Array = np.empty(n_chosen if n_chosen < n_features else 0, np.int64)
        if chosen.size:
            draw_of_tree(stream, n_features, chosen)
        return chosen


def _count(name: str, asked: int | float | None, n_features: int) -> int:
    """A number or a share of features as their number: at least one."""
    if asked is None:
        return n_features
    if isinstance(asked, float):
        return max(1, round(real_number(name, asked, "(0, 1]") * n_features))
    return min(whole_number(name, asked, 1), n_features)


@dataclass(frozen=True, eq=False)
class Policies:
    """All that a tree depends on besides its rows and targets.

    ``costs``, by feature, are subtracted from the gains when splits are compared. ``direction`` is 1, -1 or 0 by
    feature: the prediction must rise with it, must fall, or is free. Categories with fewer than ``category_rows`` rows
    in a node are taken together; the means of categories are smoothed by ``category_smoothing`` rows of the node's.
    """

    growth: Growth = Growth()
    features: FeatureChoice = FeatureChoice()
    thresholds: str = "best"
    missing: str = "learned"
    l2: float = 0.0
    costs: Array | None = None
    direction: Array | None = None
    l1: float = 0.0
    category_rows: float = 20.0
    category_smoothing: float = 10.0

    def __post_init__(self) -> None:
        one_of("threshold rule", self.thresholds, THRESHOLD_RULES)
        one_of("treatment of missing values", self.missing, MISSING_RULES)
        object.__setattr__(self, "l2", real_number("l2", self.l2, "[0, inf)"))
        object.__setattr__(self, "l1", real_number("l1", self.l1, "[0, inf)"))

    @property
    def lets_shift(self) -> bool:
        """Whether targets may be shifted by a constant: not where leaves are pulled towards 0."""
        return self.l2 == 0.0 and self.l1 == 0.0

    def candidates(self, n_features: int, gain_unit: float, stream: int = 0) -> Candidates:
        """The features' arrays for the kernels; ``gain_unit`` turns gains into the integer units of packed targets."""
        costs = _per_feature("costs", self.costs, n_features, np.float64, np.zeros(n_features))
        direction = _per_feature(
            "direction", self.direction, n_features, np.int64, np.zeros(0, np.int64)
        )
        probability = _per_feature(
            "probability", self.features.probability, n_features, np.float64, np.zeros(0)
        )
        given = np.asarray(self.features.given, np.int64)
        if given.size and (given.min() < 0 or given.max() >= n_features):
            raise ParameterError(f"a given feature must be between 0 and {n_features - 1}.")
        groups = np.zeros((0, n_features), np.bool_)
        if self.features.groups is not None:
            groups = np.ascontiguousarray(self.features.groups, np.bool_)
        of_tree = self.features.of_tree(n_features, stream)
        return Candidates(probability, given, costs * gain_unit, direction, of_tree, groups)


def _per_feature(name: str, values: Any, n_features: int, dtype: Any, default: Array) -> Array:
    """The checked array of one value per feature, or the default."""
    if values is None:
        return default
    array = np.ascontiguousarray(values, dtype)
    if array.shape != (n_features,):
        raise ParameterError(
            f"{name} has {array.size} values, but there are {n_features} features."
        )
    if not np.isfinite(array).all() or (name != "direction" and array.min() < 0):
        raise ParameterError(f"{name} must be finite and not negative.")
    return array


def node_values(
    whole_sums: Array,
    scales: Scales,
    l2: float,
    left: Array,
    right: Array,
    missing: Array,
    l1: float = 0.0,
) -> tuple[Floats, Floats]:
    """Value and weight of each node, from the sums of whole targets and whole weights of its leaves: nodes × 2."""
    sums, weight_sums = np.ascontiguousarray(whole_sums.T, np.float64)
    weight_sums = scales.of_weights.back(weight_sums)
    sum_inner_nodes(left, right, missing, sums, weight_sums)
    sums += scales.shift * scales.of_targets.lift * scales.of_targets.unit * weight_sums
    if l1 > 0.0:
        pulled = l1 * scales.of_targets.lift * scales.of_targets.unit
        sums = np.maximum(sums - pulled, 0.0) + np.minimum(sums + pulled, 0.0)
    weight = weight_sums + l2
    value = np.divide(sums, weight, out=np.zeros_like(sums), where=weight > 0)
    return scales.of_targets.back(value), weight_sums


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree as parallel arrays; the root is node 0, children have higher numbers than their parent.

    ``feature`` is -1 in a leaf. Where the feature is categorical, a row goes left if ``subsets`` hold its category, and
    threshold and code are 0. Otherwise a row goes left if ``value <= threshold``, and to ``missing`` if the value is
    missing; ``code`` is the same split for binned values.
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
    subsets: Array = field(
        default_factory=no_subsets
    )  # uint64 (nodes, 4): categories that go left; empty without categories

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
    def routing(self) -> tuple[Array, ...]:
        """What ``partition.route`` needs to know of the nodes."""
        return (self.feature, self.code, self.left, self.right, self.missing, self.subsets)

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
    targets: WholeTargets | Floats,
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

    ``targets`` are whole numbers already where many trees fit them; numbers with ``weights`` are made whole for this
    tree alone.

    With one thread the whole tree grows inside one kernel that does not hold the GIL, so that the trees of a forest
    can grow in parallel. With more, a team of threads shares the features of large nodes. ``likely_gain`` is an
    estimate of the least gain among the splits of the tree; a good one saves time. Neither changes the tree.
    """
    is_single = counts is None and policies.thresholds != "completely_random"
    if counts is None:
        counts = np.ones(matrix.columns.shape[1], np.int32)
    threads = resolve_threads(n_threads)
    if not isinstance(targets, WholeTargets):
        fitted = TargetRows.of(targets, weights, counts > 0, threads)
        targets = whole_targets(fitted, int(counts.sum()), centre=policies.lets_shift)
    rows = DrawnRows.of(counts, targets, threads)
    packed = rows.pack(choose_units(targets.scales, rows.sizes()), matrix.source_of_row)
    candidates = policies.candidates(matrix.columns.shape[0], packed.units.gain_unit, stream)
    rules = growth_rules(
        matrix, packed.units, policies, targets.scales.has_weights, stream, likely_gain
    )
    bag = Bag(packed.rows, packed.values, packed.counts[: 0 if is_single else None])
    grown = _grow(matrix, bag, rules, candidates, threads, route_others)
    packed = packed.without_values()  # frees memory early, as many trees may be growing
    del bag
    if policies.costs is not None:  # the gain without the cost
        grown.splits.gain[:] += candidates.penalty[grown.splits.feature]
    return _finish(matrix, grown, packed.units, rows, policies, route_others)


@dataclass(frozen=True, eq=False)
class Grown:
    """The nodes of a tree, and its rows by position; or the leaves of its rows, where a team grew it."""

    splits: Splits
    rows: Array  # uint32
    leaf_of_row: Array | None = None  # int32: by source if the tree has all rows
    limits: tuple[Floats, Floats] | None = (
        None  # of values, with monotone features, in integer units
    )
    subsets: Array = field(default_factory=no_subsets)  # uint64 (nodes, 4)


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
    has_categories = matrix.is_categorical.any()
    is_unlimited = rules.max_leaves >= bag.rows.size > 0
    if is_random and is_free and is_unlimited and not has_categories:
        return Grown(*grow_random_tree(matrix, bag, rules, route_others))
    is_small = bag.rows.size * rules.n_candidates < _LEAST_FOR_TEAM
    is_alone = threads == 1 or is_small or is_random
    size = 1 if is_alone else min(threads, max(2, usable_cores()))
    nodes, work = _space(matrix, rules, bag, size)
    run_team(size, grow, follow, matrix, bag, rules, candidates, nodes, work)
    plain = nodes[: int(work.counters[N_NODES])].view(np.ndarray)  # reads fields faster
    order = _order(plain)
    plain = _in_order(plain, order)
    limits = None if is_free else (plain["low"].copy(), plain["high"].copy())
    splits, leaves = _splits(plain), None if size == 1 else work.leaf_of_row
    subsets = no_subsets()
    if work.node_subsets.size:
        is_chosen = (splits.left > 0) & matrix.is_categorical[splits.feature]
        subsets = np.where(is_chosen[:, np.newaxis], work.node_subsets[order], np.uint64(0))
    return Grown(splits, bag.rows, leaves, limits, subsets)


def _order(nodes: Any) -> Array:
    """The records of the nodes that are part of the tree, by number."""
    order: Array = np.argsort(nodes["number"], kind="stable")
    return order[np.searchsorted(nodes["number"][order], 0) :]


def _in_order(nodes: Any, order: Array) -> Any:
    """The nodes that are part of the tree, by number; early splits that were never selected become leaves."""
    numbered = nodes[order]
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


def growth_rules(
    matrix: Matrix,
    units: Units,
    policies: Policies,
    has_weights: bool,
    stream: int,
    likely_gain: float = math.inf,
) -> GrowthRules:
    """The policies in the integer units of the packed targets."""
    growth = policies.growth
    n_features = policies.features.count_of_tree(matrix.columns.shape[0])
    n_candidates = policies.features.count(n_features)
    max_leaves = min(growth.max_leaves or UNLIMITED, max(1, units.n_rows))
    pool = max_leaves * n_candidates * N_CODES * 8
    can_subtract = (
        n_candidates == n_features
        and policies.thresholds != "completely_random"  # which needs no histogram
        and not policies.features.given
        and policies.features.groups is None
        and pool <= _MOST_POOL_BYTES
    )
    likely_gain *= units.gain_unit
    most_nodes = 2 * (max_leaves + 1) + 1  # a three-way split adds two leaves at once
    if can_subtract:
        likely_gain = math.inf  # there are only as many slots as leaves
    elif max_leaves >= units.n_rows:
        likely_gain = -math.inf  # every split is made
    return GrowthRules(
        max_leaves,
        UNLIMITED if growth.max_depth is None else growth.max_depth,
        growth.min_leaf,
        growth.min_split,
        n_candidates,
        0 if policies.features.groups is None else len(policies.features.groups),
        THRESHOLD_RULES[policies.thresholds],
        MISSING_RULES[policies.missing],
        units.bits,
        has_weights,
        can_subtract,
        float(policies.l2 * units.weight_unit),
        float(policies.l1 * units.target_unit),
        float(growth.min_gain * units.gain_unit),
        float(growth.min_weight * units.weight_unit),
        float(policies.category_rows),
        float(policies.category_smoothing),
        likely_gain,
        most_nodes,
        _LEAST_SHARED,
        _LEAST_PART,
        stream,
    )


def _space(matrix: Matrix, rules: GrowthRules, bag: Bag, size: int = 1) -> tuple[Any, Work]:
    """The arrays of the growing tree, as large as it may get, for a team of ``size`` threads.

    A team has a second buffer of rows, the leaves of the rows, and histograms of parts of a node.
    """
    n_rows = bag.rows.size
    most_leaves = rules.max_leaves + 1
    n_nodes = rules.most_explored * (1 if math.isinf(rules.likely_gain) else 2)
    n_features, n_all = matrix.columns.shape
    nodes = np.recarray(n_nodes, NODE)
    n_slots = 1
    if rules.can_subtract:
        n_slots = 2 * most_leaves if rules.missing_rule == OWN_CHILD else most_leaves
    has_team = size > 1
    n_aside = n_rows if has_team or rules.missing_rule == OWN_CHILD else (n_rows + 1) // 2
    n_histograms = min(size, MOST_HISTOGRAMS, n_rows // max(1, rules.least_part // 4) + 1)
    leaves = n_all if has_team else 0
    n_candidates = rules.n_candidates
    has_categories = matrix.is_categorical.any()
    mapped = np.empty(n_all if has_categories else 0, np.uint8)
    work = Work(
        np.empty((n_slots, n_candidates, N_CODES), np.int64),
        np.empty((n_histograms - 1, n_candidates, N_CODES), np.int64),
        np.empty((MOST_PARTS if has_team else 1, N_CODES), np.int64),
        np.empty(n_candidates, np.int64),
        np.empty((2, n_candidates), np.float64),
        np.empty((2, n_candidates if has_categories else 0, N_WORDS), np.uint64),
        np.zeros((n_nodes if has_categories else 0, N_WORDS), np.uint64),
        mapped,
        read_only(mapped.view()),
        np.empty((2, n_candidates), np.int64),
        np.empty((2, n_candidates), np.int64),
        np.zeros((2, n_candidates), np.bool_),
        np.empty((2, n_candidates), np.int64),
        np.empty((2, n_candidates), np.int64),
        np.empty((BLOCKS_PER_THREAD * size, 6 if has_categories else 3, N_CODES), np.int64),
        np.empty(n_features, np.float64),
        np.empty(n_features, np.int64),
        np.empty((n_nodes, rules.n_groups), np.bool_),
        np.empty(n_aside, np.uint32),
        np.empty(n_aside, np.int64),
        np.empty(n_aside if bag.counts.size > 0 else 0, np.int64),
        np.empty(max(n_rows if has_team else 0, CODES_AT_ONCE), np.uint8),
        np.empty((MOST_PARTS, 3), np.int64),
        np.empty(leaves, np.int32) if n_rows == n_all else np.full(leaves, -1, np.int32),
        np.empty(most_leaves, np.int64),
        np.empty(most_leaves, np.int64),
        np.zeros(N_COUNTERS, np.int64),
    )
    return nodes, work


def _finish(
    matrix: Matrix,
    grown: Grown,
    units: Units,
    rows: DrawnRows,
    policies: Policies,
    route_others: bool,
) -> Tree:
    """The grown nodes as a tree, with values from the whole targets and the leaf of every row."""
    feature, code, left, right, missing, gain, *_ = grown.splits
    leaf_of_source = _leaves_of_sources(matrix, grown, route_others)
    sums = rows.sum_leaves(read_only(leaf_of_source), left.size)
    value, weight_sums = node_values(
        sums, rows.whole.scales, policies.l2, left, right, missing, policies.l1
    )
    if grown.limits is not None:
        unit = units.weight_unit / units.target_unit
        low, high = (limit * unit + units.shift for limit in grown.limits)
        value = np.clip(value, low, high)
    gain = np.where(left == 0, 0.0, gain / units.gain_unit)
    threshold = thresholds_of(matrix, feature, code)
    children = (left, right, missing)
    numbers = (value, weight_sums, gain, leaf_of_source)
    return Tree(feature, threshold, code, *children, *numbers, grown.subsets)


def _leaves_of_sources(matrix: Matrix, grown: Grown, route_others: bool) -> Array:
    """The leaf of every row by source; -1 for rows that are not routed."""
    feature, code, left, right, missing, _, begin, end = grown.splits
    n_rows = matrix.columns.shape[1]
    leaf_of_row = grown.leaf_of_row
    is_whole = grown.rows.size == n_rows
    if leaf_of_row is None and is_whole:
        leaf_of_row = np.empty(n_rows, np.int32)
        mark_sources(grown.rows, begin, end, left, matrix.source_of_row, leaf_of_row)
    elif leaf_of_row is None:
        leaf_of_row = np.full(n_rows, -1, np.int32)
        mark_leaves(grown.rows, begin, end, left, leaf_of_row)
    if is_whole:
        return leaf_of_row
    leaf_of_source = np.empty(n_rows, np.int32)
    if route_others:
        nodes = (feature, code, left, right, missing, grown.subsets)
        route(0, n_rows, matrix.columns, *nodes, leaf_of_row)
    by_source(matrix.source_of_row, leaf_of_row, leaf_of_source)
    return leaf_of_source


def thresholds_of(matrix: Matrix, feature: Array, code: Array) -> Array:
    """The thresholds of the nodes, from their codes; 0 in leaves."""
    threshold = np.zeros(feature.size, np.float32)
    if matrix.thresholds.size > 0:
        look_up_cuts(feature, code, matrix.offsets, matrix.thresholds, threshold)
    if matrix.is_categorical.any():
        threshold[matrix.is_categorical[feature] & (feature >= 0)] = 0.0
    return threshold
