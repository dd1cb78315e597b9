"""Rows on the GPU, and the trees that are grown on them: what a launch of ``forest.cu`` needs, and what it gives.

Requests that differ in nothing but seeds and targets grow in one launch, a tree per block of threads.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
from abc import ABC
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core.sums import SumScale
from rankwood._core.threads import lazy, parallel_map_ordered
from rankwood.dtypes import Array, Floats
from rankwood.engines.bags import Bags, stream_number
from rankwood.engines.cuda import device
from rankwood.engines.engine import TreeRequest
from rankwood.trees.grower import (
    MISSING_RULES,
    THRESHOLD_RULES,
    UNLIMITED,
    Policies,
    Tree,
    node_values,
    thresholds_of,
)
from rankwood.trees.packing import Scales, WholeTargets, choose_units
from rankwood.trees.workspace import Matrix

# ``Node`` of common.cuh.
NODE = np.dtype(
    [
        ("gain", np.float64),
        ("packed_sum", np.int64),
        ("path", np.uint64),
        ("position", np.int64),
        ("n_rows", np.int64),
        ("target_sum", np.int64),
        ("weight_sum", np.int64),
        ("begin", np.uint32),
        ("end", np.uint32),
        ("depth", np.int32),
        ("feature", np.int32),
        ("left", np.int32),
        ("missing", np.int32),
        ("code", np.uint8),
        ("side", np.uint8),
        ("buffer", np.uint8),
        ("unused", np.uint8),
        ("slot", np.int32),
    ],
    align=True,
)

ALL_ROWS, GIVEN, DRAWN, BY_WEIGHT = range(4)  # how a tree gets its bag, as in forest.cu
_NOT_ROUTED = 0x80  # each byte of the leaf of a row that is not known, as in rows.cu
_MOST_TREES = (
    2000  # of a launch: some half a second, after which progress is shown and a fit can be stopped
)
_SHARE_OF_MEMORY = (
    0.4  # of what is free: for what the trees of a launch give, and the same for the blocks
)
_N_CODES = 256
_ROW_THREADS = 256  # of a block whose threads have a row each
_BYTES_OF_FEATURE = 2 * 4 * _N_CODES  # of a histogram in shared memory
_UNITS_OF_BYTE = 2  # whose draws are counted in a byte of shared memory
_MOST_COUNTED = 1 << 24  # units at a time
_N_RESULTS = 5  # numbers per tree
_MOST_AT_ONCE = 96  # features of a tile: more do not fit beside what the warps stage
_LANES = 32
_STAGED_BYTES = 12  # of shared memory for each thread
_TALLY_BYTES = 48  # ``Tally`` of one_tree.cu
_MOST_LEAVES = 1 << 12  # of a tree that all blocks share
_MOST_POOL_BYTES = 1 << 30  # of the histograms of its nodes
_LEAST_SUMS = (
    1 << 17
)  # rows times features of a block that shares a tree: fewer take less time than meeting

# ``Launch`` of forest.cu.
LAUNCH = np.dtype(
    [
        ("n_rows", np.int64),
        ("n_features", np.int64),
        ("stride", np.int64),
        ("n_units", np.int64),
        ("n_draws", np.int64),
        ("counts_stride", np.int64),
        ("max_nodes", np.int64),
        ("max_leaves", np.int64),
        ("min_leaf", np.int64),
        ("l2", np.float64),
        ("l1", np.float64),
        ("min_gain", np.float64),
        ("min_weight", np.float64),
        ("n_trees", np.int32),
        ("bag_kind", np.int32),
        ("has_units", np.int32),
        ("has_weights", np.int32),
        ("max_depth", np.int32),
        ("min_split", np.int32),
        ("threshold_rule", np.int32),
        ("missing_rule", np.int32),
        ("n_candidates", np.int32),
        ("n_allowed", np.int32),
        ("n_given", np.int32),
        ("tile", np.int32),
        ("can_subtract", np.int32),
        ("has_costs", np.int32),
        ("n_slots", np.int64),
        ("n_counted", np.int64),
    ],
    align=True,
)


class HeldTargets(ABC):
    """Targets and weights as whole numbers, here and on the GPU."""

    whole: WholeTargets
    scales: Scales
    on_device: tuple[Any, Any]

    @property
    def exponents(self) -> tuple[int, int]:
        """The scales of targets and weights are 2 to the power of these."""
        return _exponent(self.scales.of_targets), _exponent(self.scales.of_weights)


class HeldOnHost(HeldTargets):
    """Targets that became whole numbers here."""

    def __init__(self, whole: WholeTargets) -> None:
        self.whole = whole
        self.scales = whole.scales

    @lazy
    def on_device(self) -> tuple[Any, Any]:
        """The whole targets and weights; weights are no more than an address where each row weighs 1."""
        return device.upload(self.whole.targets), device.upload(self.whole.weights)


def _exponent(scale: SumScale) -> int:
    return math.frexp(scale.unit)[1] + math.frexp(scale.lift)[1] - 2


class DeviceRows:
    """The binned rows in the memory of the GPU, by source."""

    def __init__(self, matrix: Matrix, number: int | None = None) -> None:
        self.matrix = matrix
        self.number = device.number_of(number)
        n_features, n_rows = matrix.columns.shape
        self.stride = -(-n_features // 8) * 8
        self._units: tuple[Any, Any] | None = None
        self._nothing: Any = None
        with self.within_memory(f"{n_rows:,} rows of {n_features:,} features"):
            self.codes = device.zeros(n_rows * self.stride, np.uint8)
            self.columns = device.empty(n_rows * n_features, np.uint8)
            of_matrix = device.upload(matrix.columns)
            source_of_row = device.upload(matrix.source_of_row)
            sizes = (np.int64(n_rows), np.int64(n_features), np.int64(self.stride))
            self.run("arrange", (of_matrix, source_of_row, *sizes, self.columns, self.codes))
            self.bins = (
                device.upload(np.asarray(matrix.n_bins, np.int32)),
                device.upload(np.asarray(matrix.offsets, np.int64)),
                # In float64: CuPy compiles so that tiny numbers of float32 become 0.
                device.upload(np.asarray(matrix.thresholds, np.float64)),
            )
            device.wait()

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.matrix.columns.shape[1])

    @property
    def n_features(self) -> int:
        """How many features they have."""
        return int(self.matrix.columns.shape[0])

    @contextlib.contextmanager
    def within_memory(self, what: str) -> Iterator[None]:
        """Work with the GPU that has the rows; a lack of memory is an error of ours."""
        with device.selected(self.number), device.within_memory(what):
            yield

    def run(self, name: str, arguments: Sequence[Any], n_trees: int = 1) -> None:
        """Run a kernel of ``rows.cu``, one thread for each row and tree."""
        grid = (-(-self.n_rows // _ROW_THREADS), n_trees)
        with device.selected(self.number):
            device.run("rows.cu", name, grid, _ROW_THREADS, arguments)

    def upload(self, values: Array) -> Any:
        """A copy on the GPU. Arrays without entries, which most are, share an address: each copy takes some time."""
        with device.selected(self.number):
            if values.size > 0:
                return device.upload(values)
            if self._nothing is None:
                self._nothing = device.zeros(1, np.int64)
            return self._nothing

    def units_of(self, bags: Bags) -> Any:
        """The unit of each row that bags draw; those of one round are those of the next."""
        asked = (bags.query_of_row, bags.present)
        if self._units is None or any(map(operator.is_not, self._units[0], asked)):
            unit_of_row = bags.of_part(np.arange(self.n_rows)).unit_of_row
            self._units = (asked, device.upload(unit_of_row))
        return self._units[1]

    def most_trees(self, request: TreeRequest) -> int:
        """How many trees like that of the request a launch may grow."""
        n_nodes = most_nodes(request.policies, self.n_rows)
        of_tree = 4 * self.n_rows + NODE.itemsize * n_nodes
        if request.bags is not None and bag_kind(request) == GIVEN:
            of_tree += 4 * self.n_rows
        with device.selected(self.number):
            most = int(_SHARE_OF_MEMORY * device.free_bytes()) // of_tree
        return max(1, min(_MOST_TREES, most))


def most_nodes(policies: Policies, n_rows: int) -> int:
    """As many nodes as a tree may get; a split in three adds two leaves at once."""
    most_leaves = min(policies.growth.max_leaves or UNLIMITED, max(1, n_rows))
    return 2 * (most_leaves + 1) + 1


def bag_kind(request: TreeRequest) -> int:
    """How the tree of a request gets its bag."""
    if request.bags is None:
        return ALL_ROWS if request.present is None else GIVEN
    if not request.bags.replacement:
        return GIVEN
    return DRAWN if request.bags.weights is None else BY_WEIGHT


def groups_of(requests: Sequence[TreeRequest]) -> list[list[int]]:
    """The places of the requests that one launch can grow, by launch."""
    groups: dict[Any, list[int]] = {}
    for place, request in enumerate(requests):
        groups.setdefault(_kind_of(request), []).append(place)
    return list(groups.values())


def _kind_of(request: TreeRequest) -> tuple[Any, ...]:
    """What the trees of a launch have in common."""
    policies, bags = request.policies, request.bags
    features = policies.features
    given = (policies.growth, features.per_node, features.given, features.per_tree)
    rules = (policies.thresholds, policies.missing, policies.l2, policies.l1)
    bag: tuple[Any, ...] = (bag_kind(request), id(request.present))
    if bags is not None:
        of_bags = (bags.query_of_row, bags.present, bags.weights)
        bag = (*bag, bags.share, bags.most_draws, *map(id, of_bags))
    has_weights = request.targets.scales.has_weights
    has_costs = policies.costs is not None
    return (*given, *rules, *bag, has_weights, has_costs, request.reaches_all)


class GrownTrees:
    """The trees of one launch, with the leaf of every row on the GPU."""

    def __init__(
        self,
        rows: DeviceRows,
        requests: Sequence[TreeRequest],
        n_threads: int,
        *,
        together: bool = False,
    ) -> None:
        self.rows, self.requests = rows, requests
        n_trees, n_nodes = len(requests), most_nodes(requests[0].policies, rows.n_rows)
        with rows.within_memory(f"{n_trees:,} trees of up to {n_nodes:,} nodes"):
            self.leaves = device.filled(n_trees * rows.n_rows, np.int32, _NOT_ROUTED)
            nodes = device.empty(n_trees * n_nodes * NODE.itemsize, np.uint8)
            results = device.zeros(n_trees * _N_RESULTS, np.int64)
            given = _given(rows, requests, n_threads)
            grow = _grow_together if together else _grow_apart
            grow(rows, *given, (nodes, results, self.leaves))
            first = requests[0]
            if first.reaches_all and bag_kind(first) != ALL_ROWS:
                sizes = (np.int64(rows.n_rows), np.int64(rows.stride), np.int64(n_nodes))
                rows.run("route", (rows.codes, *sizes, nodes, self.leaves), n_trees)
            self._results = device.download(results).reshape(n_trees, _N_RESULTS)
            self._nodes = device.download(nodes).view(NODE).reshape(n_trees, n_nodes)

    @lazy
    def trees(self) -> list[Tree]:
        """The trees; the leaves of the rows are fetched when they are looked at."""
        leaves = [LeavesOnDevice(self, index) for index in range(len(self.requests))]
        return assembled(self.rows.matrix, self._nodes, self._results, self.requests, leaves)

    @lazy
    def _values(self) -> tuple[Any, Any]:
        """Where the values of each tree begin, and the values of all, on the GPU."""
        sizes = [tree.value.size for tree in self.trees]
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64)
        values = np.concatenate([tree.value for tree in self.trees])
        with self.rows.within_memory(f"the values of {len(sizes):,} trees"):
            return device.upload(starts), device.upload(values)

    def add_unseen(self, first: int, last: int, seen: Any, sums: Any, n_trees: Any) -> None:
        """Add trees to the sums of the rows that they have not seen: those 0 in ``seen``, or out of bag."""
        given = (np.int64(self.rows.n_rows), np.int32(first), np.int32(last))
        has_seen = np.int32(seen is not None)
        marks = self.leaves if seen is None else seen
        arguments = (*given, has_seen, marks, self.leaves, *self._values, sums, n_trees)
        self.rows.run("add_unseen", arguments)

    def add_all(self, first: int, last: int, totals: Any) -> None:
        """Add trees to the totals of all rows."""
        given = (np.int64(self.rows.n_rows), np.int32(first), np.int32(last))
        self.rows.run("add_all", (*given, self.leaves, *self._values, totals))

    def add_values(self, index: int, values: Floats, totals: Any) -> None:
        """Add these values of the nodes of a tree to the totals of all rows."""
        given = (np.int64(self.rows.n_rows), np.int32(index), np.int32(index + 1))
        with self.rows.within_memory("the values of a tree"):
            starts = device.zeros(index + 1, np.int64)
            self.rows.run("add_all", (*given, self.leaves, starts, device.upload(values), totals))

    def leaf_of_row(self, index: int) -> Array:
        """The leaf of every row in a tree."""
        given = (np.int64(self.rows.n_rows), np.int64(index))
        with self.rows.within_memory(f"the leaves of {self.rows.n_rows:,} rows"):
            plain = device.empty(self.rows.n_rows, np.int32)
            self.rows.run("plain_leaves", (*given, self.leaves, plain))
            return device.download(plain)


@dataclass(frozen=True, eq=False)
class LeavesOnDevice:
    """Stands for the leaf of every row in a tree, which few methods look at: as an array it is fetched."""

    grown: GrownTrees
    index: int

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        leaves = self.grown.leaf_of_row(self.index)
        return leaves if dtype is None else leaves.astype(dtype)


def can_grow_together(rows: DeviceRows, request: TreeRequest) -> bool:
    """Whether all blocks can share a tree: the histograms of all its nodes are kept."""
    if request.policies.thresholds == "completely_random":
        return False
    with device.selected(rows.number):
        if not device.attribute("CooperativeLaunch"):
            return False
    n_leaves = most_nodes(request.policies, rows.n_rows) // 2
    return n_leaves <= _MOST_LEAVES and _pool_size(rows, request.policies) <= _MOST_POOL_BYTES


def _pool_size(rows: DeviceRows, policies: Policies) -> int:
    """Bytes of the histograms of all nodes of a tree."""
    n_features = policies.features.count(policies.features.count_of_tree(rows.n_features))
    slots_of_split = 1 if _can_subtract(rows, policies) else 2
    if policies.missing == "own_child":
        slots_of_split = 3
    n_splits = most_nodes(policies, rows.n_rows) // 2
    return 8 * _N_CODES * n_features * (1 + slots_of_split * n_splits)


def _can_subtract(rows: DeviceRows, policies: Policies) -> bool:
    n_features = policies.features.count_of_tree(rows.n_features)
    return not policies.features.given and policies.features.count(n_features) == n_features


# What a launch needs.


def _grow_apart(rows: DeviceRows, launch: Any, given: Sequence[Any], results: Any) -> None:
    """Grow trees, each by a block."""
    n_blocks = _n_blocks(rows, launch, int(launch["n_trees"]))
    most = _most_features()
    n_candidates = int(launch["n_candidates"])
    # Two at least: the space of one is too small for the counts of rows beside a histogram.
    launch["tile"] = max(2, n_candidates if n_candidates <= most else most // 32 * 32 or most)
    _, shared = _block(launch)
    launch["n_counted"] = min(_MOST_COUNTED, _UNITS_OF_BYTE * shared)
    space = _work_space(rows, launch, n_blocks, n_blocks)
    _run("forest.cu", "grow_trees", n_blocks, launch, (*given, *space, *results))


def _grow_together(rows: DeviceRows, launch: Any, given: Sequence[Any], results: Any) -> None:
    """Grow a tree by all blocks; each has features of its own to add up, and some of the rows."""
    n_candidates, n_nodes = int(launch["n_candidates"]), int(launch["max_nodes"])
    # A warp wide, if there are as many: lanes then add to different banks of the memory.
    tile = launch["tile"] = min(n_candidates, _LANES, _most_features())
    n_tiles = -(-n_candidates // tile)
    block, shared = _block(launch)
    n_blocks = max(n_tiles, rows.n_rows * n_candidates // _LEAST_SUMS)
    # One per multiprocessor at most: more share its shared memory and its first cache.
    most = device.blocks_at_once("one_tree.cu", "grow_tree", block, shared)
    n_blocks = min(n_blocks, device.attribute("MultiProcessorCount"), most)
    space = _work_space(rows, launch, n_blocks, 1)
    pool = int(launch["n_slots"]) * n_candidates * _N_CODES
    together = (
        device.empty(n_blocks * n_nodes * NODE.itemsize, np.uint8),
        device.zeros(pool, np.uint64),
        device.zeros((n_nodes + 2) * _TALLY_BYTES, np.uint8),
        device.zeros(2 * n_nodes, np.uint64),
        device.zeros(3 * 2 * _N_CODES, np.uint32),
    )
    arguments = (*given, *space, *results, *together)
    _run("one_tree.cu", "grow_tree", n_blocks, launch, arguments, is_cooperative=True)


def _run(
    file: str,
    name: str,
    n_blocks: int,
    launch: Any,
    arguments: Sequence[Any],
    *,
    is_cooperative: bool = False,
) -> None:
    of_all = device.upload(launch.reshape(1).view(np.uint8))
    block, shared = _block(launch)
    given = ((n_blocks,), block, (of_all, *arguments), shared)
    device.run(file, name, *given, is_cooperative=is_cooperative)


def _block(launch: Any) -> tuple[int, int]:
    """The threads of a block, and the bytes of shared memory that it asks for."""
    block = device.block_size()
    return block, int(launch["tile"]) * _BYTES_OF_FEATURE + _STAGED_BYTES * block


def _most_features() -> int:
    """How many features have room for their histograms in the shared memory of a block."""
    staged = _STAGED_BYTES * device.block_size()
    return min(_MOST_AT_ONCE, (device.shared_bytes() - staged) // _BYTES_OF_FEATURE)


def _given(
    rows: DeviceRows, requests: Sequence[TreeRequest], n_threads: int
) -> tuple[Any, tuple[Any, ...]]:
    """What the trees of requests of one kind have in common, and the arrays that kernels read."""
    first = requests[0]
    launch = np.zeros((), LAUNCH)
    of_bags = _bags(rows, requests, n_threads, launch)
    _rules(rows, first, len(requests), launch)
    choice = first.policies.features
    allowed = np.zeros(0, np.int32)
    if launch["n_allowed"]:
        of_trees = [choice.of_tree(rows.n_features, one.stream) for one in requests]
        allowed = np.concatenate(of_trees).astype(np.int32)
    streams = np.array([one.stream for one in requests], np.uint64)
    costs = np.zeros(0)
    if first.policies.costs is not None:
        launch["has_costs"] = 1
        costs = np.stack([_costs(one.policies, rows.n_features) for one in requests])
    return launch, (
        rows.codes,
        rows.columns,
        *rows.bins,
        *_targets(requests, of_bags, streams),
        rows.upload(allowed),
        rows.upload(np.asarray(choice.given, np.int32)),
        rows.upload(costs),
    )


def _costs(policies: Policies, n_features: int) -> Floats:
    """The costs of all features, checked."""
    costs: Floats = policies.candidates(n_features, 1.0).penalty
    return costs


def _rules(rows: DeviceRows, first: TreeRequest, n_trees: int, launch: Any) -> None:
    """Fill in sizes and policies."""
    policies, growth = first.policies, first.policies.growth
    n_of_tree = policies.features.count_of_tree(rows.n_features)
    launch["n_rows"], launch["n_features"] = rows.n_rows, rows.n_features
    launch["stride"], launch["n_trees"] = rows.stride, n_trees
    launch["max_nodes"] = most_nodes(policies, rows.n_rows)
    launch["max_leaves"] = growth.max_leaves or UNLIMITED
    launch["min_leaf"], launch["min_split"] = growth.min_leaf, min(growth.min_split, UNLIMITED)
    launch["max_depth"] = UNLIMITED if growth.max_depth is None else growth.max_depth
    launch["l2"], launch["l1"] = policies.l2, policies.l1
    launch["min_gain"], launch["min_weight"] = growth.min_gain, growth.min_weight
    launch["has_weights"] = first.targets.scales.has_weights
    launch["threshold_rule"] = THRESHOLD_RULES[policies.thresholds]
    launch["missing_rule"] = MISSING_RULES[policies.missing]
    launch["n_candidates"] = policies.features.count(n_of_tree)
    launch["n_allowed"] = n_of_tree if n_of_tree < rows.n_features else 0
    launch["n_given"] = len(policies.features.given)
    launch["can_subtract"] = _can_subtract(rows, policies)
    of_slot = 8 * _N_CODES * int(launch["n_candidates"])
    launch["n_slots"] = _pool_size(rows, policies) // of_slot


def _bags(
    rows: DeviceRows, requests: Sequence[TreeRequest], n_threads: int, launch: Any
) -> tuple[Any, ...]:
    """Fill in how bags are drawn; gives units, chances of being drawn, counts and streams."""
    first, bags = requests[0], requests[0].bags
    launch["bag_kind"] = kind = bag_kind(first)
    unit_of_row, counts = None, np.zeros(0, np.int32)
    cumulative, guide = np.zeros(0), np.zeros(0, np.int64)
    numbers = np.zeros(len(requests), np.uint64)
    if kind == GIVEN and bags is None:
        counts = np.asarray(first.present, np.int32)
    elif kind == GIVEN:
        drawn = parallel_map_ordered(TreeRequest.counts, requests, n_threads)
        counts = np.stack([np.asarray(of_tree, np.int32) for of_tree in drawn])
        launch["counts_stride"] = rows.n_rows
    elif bags is not None:
        draws = bags.draw_units
        launch["n_units"] = draws.n_units
        launch["n_draws"] = max(1, round(draws.share * draws.n_units))
        numbers[:] = [_bag_number(one.bags, one.number) for one in requests]
        if draws.search is not None:
            cumulative, guide = draws.search
        if bags.query_of_row is not None or bags.present is not None:
            launch["has_units"] = 1
            unit_of_row = rows.units_of(bags)
    return (
        rows.upload(np.zeros(0)) if unit_of_row is None else unit_of_row,
        rows.upload(cumulative),
        rows.upload(guide.astype(np.int64)),
        rows.upload(counts),
        device.upload(numbers),
    )


def _bag_number(bags: Bags | None, tree: int) -> int:
    assert bags is not None
    return stream_number(bags.seed, "bag", tree)


def _targets(
    requests: Sequence[TreeRequest], of_bags: tuple[Any, ...], streams: Array
) -> tuple[Any, ...]:
    """What the trees fit, their bags and their seeds, in the order of the kernel's arguments."""
    number_of: dict[int, int] = {}
    held: list[HeldTargets] = []
    for request in requests:
        if number_of.setdefault(id(request.targets), len(held)) == len(held):
            held.append(request.targets)
    targets, weights = held[0].on_device
    if len(held) > 1:
        targets = device.upload(np.concatenate([one.whole.targets for one in held]))
        weights = device.upload(np.concatenate([one.whole.weights for one in held]))
    *of_rows, bag_streams = of_bags
    return (
        targets,
        weights,
        *of_rows,
        device.upload(streams),
        bag_streams,
        device.upload(np.array([number_of[id(one.targets)] for one in requests], np.int32)),
        device.upload(np.array([one.exponents for one in held], np.int32)),
    )


def _n_blocks(rows: DeviceRows, launch: Any, n_trees: int) -> int:
    """As many blocks as there are multiprocessors, unless trees or memory are fewer."""
    of_block = 24 * rows.n_rows + 4 * int(launch["n_units"]) + 4 * int(launch["max_nodes"])
    most = int(_SHARE_OF_MEMORY * device.free_bytes()) // of_block
    return max(1, min(n_trees, device.attribute("MultiProcessorCount"), most))


def _work_space(rows: DeviceRows, launch: Any, n_blocks: int, n_trees: int) -> tuple[Any, ...]:
    """The space that blocks need for as many trees at a time, and the number of the next tree."""
    n_features = rows.n_features
    return (
        device.empty(n_trees * 2 * rows.n_rows, np.uint32),  # entries
        device.empty(n_trees * 2 * rows.n_rows, np.int64),
        device.zeros(max(1, n_trees * int(launch["n_units"])), np.int32),  # draws
        device.empty(n_blocks * n_features, np.int32),  # features that a node searches
        device.empty(n_blocks * n_features, np.float64),
        device.empty(max(2, n_blocks) * n_features * 2, np.float64),  # what was found
        device.empty(n_blocks * int(launch["max_nodes"]), np.int32),  # the heap
        device.zeros(1, np.uint32),
    )


def in_batches(
    rows: DeviceRows, requests: Iterable[TreeRequest], n_threads: int
) -> Generator[list[tuple[TreeRequest, GrownTrees, int]], None, None]:
    """The trees of requests in their order, as many at a time as the memory of the GPU allows."""
    waiting = iter(requests)
    for first in waiting:
        batch = [first]
        most = rows.most_trees(first)
        while len(batch) < most and (request := next(waiting, None)) is not None:
            batch.append(request)
        grown: list[Any] = [None] * len(batch)
        for places in groups_of(batch):
            trees = GrownTrees(rows, [batch[place] for place in places], n_threads)
            for index, place in enumerate(places):
                grown[place] = (batch[place], trees, index)
        yield grown


# From the records of the nodes that the GPU has grown to trees: values, thresholds and gains in the caller's units.


def assembled(
    matrix: Matrix,
    nodes: Array,
    results: Array,
    requests: Sequence[TreeRequest],
    leaves: Sequence[Any],
) -> list[Tree]:
    """The trees of a launch: ``nodes`` by tree, and ``results`` that say how many there are and what was drawn.

    All nodes are worked on together, since a call for each tree takes longer than its nodes.
    """
    n_nodes = results[:, 0]
    ends = np.cumsum(n_nodes)
    records = nodes[np.arange(nodes.shape[1]) < n_nodes[:, np.newaxis]]
    left, missing = (np.ascontiguousarray(records[name]) for name in ("left", "missing"))
    is_leaf = left == 0
    right = np.where(is_leaf, 0, left + 1).astype(np.int32)
    feature = np.where(is_leaf, -1, records["feature"]).astype(np.int32)
    code = np.where(is_leaf, 0, records["code"]).astype(np.uint8)
    sums = np.stack((records["target_sum"], records["weight_sum"]), axis=1)
    value, cover = np.empty(is_leaf.size), np.empty(is_leaf.size)
    begin = np.repeat(ends - n_nodes, n_nodes).astype(np.int32)
    for first, last in _runs(
        requests
    ):  # of trees that fit the same targets, as one tree after the other
        here = slice(int(ends[first] - n_nodes[first]), int(ends[last - 1]))
        below = np.where(is_leaf[here], 0, begin[here] - here.start).astype(np.int32)
        children = (left[here] + below, right[here] + below, missing[here] + below)
        scales, policies = requests[first].targets.scales, requests[first].policies
        value[here], cover[here] = node_values(
            sums[here], scales, policies.l2, *children, policies.l1
        )
    gain_units = [
        choose_units(request.targets.scales, sizes[1:4]).gain_unit
        for request, sizes in zip(requests, results.tolist(), strict=True)
    ]
    own = [
        slice(end - size, end) for size, end in zip(n_nodes.tolist(), ends.tolist(), strict=True)
    ]
    gain = np.ascontiguousarray(records["gain"])
    for request, unit, here in zip(requests, gain_units, own, strict=True):
        if request.policies.costs is not None:  # the gain without the cost
            penalty = request.policies.candidates(matrix.columns.shape[0], unit).penalty
            gain[here] += penalty[feature[here]]
    gain = np.where(is_leaf, 0.0, gain / np.repeat(gain_units, n_nodes))
    threshold = thresholds_of(matrix, feature, code)
    arrays: list[Array] = [feature, threshold, code, left, right, missing, value, cover, gain]
    of_trees = ([array[here] for array in arrays] for here in own)
    return [Tree(*given, one) for given, one in zip(of_trees, leaves, strict=True)]  # type: ignore[call-arg]


def _runs(requests: Sequence[TreeRequest]) -> Iterator[tuple[int, int]]:
    """Where neighbouring requests have the same targets: first, and behind the last."""
    first = 0
    for _, some in itertools.groupby(requests, lambda request: id(request.targets)):
        last = first + sum(1 for _ in some)
        yield first, last
        first = last
