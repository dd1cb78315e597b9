"""A slow grower whose rows lie in several parts: each part packs, adds up and splits its own rows, and only whole
numbers, maxima and decisions pass between the parts and the leader.

The parts use the library's functions of blocks of rows. The leader merges what they answer and decides each split once.
The tree has the bytes of ``grow_tree`` on all rows together, whatever the division.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.sums import merged
from rankwood.binning.bins import MISSING_BIN, N_CODES
from rankwood.engines.engine import ThreadsEngine
from rankwood.trees import grower
from rankwood.trees.best_first import draw_features
from rankwood.trees.grower import Policies, Tree, node_values, thresholds_of
from rankwood.trees.packing import (
    DrawnRows,
    PackedTargets,
    TargetRows,
    Units,
    WholeTargets,
    choose_scales,
    choose_units,
)
from rankwood.trees.random_trees import ATTEMPTS, draw_cut
from rankwood.trees.splitting import build_histograms, split_feature, value_of
from rankwood.trees.workspace import (
    COMPLETELY_RANDOM,
    GO_LEFT,
    GO_RIGHT,
    LEARNED,
    NO_SPLIT,
    OWN_CHILD,
    Matrix,
)
from tests.reference.trees import combine, drawn, mix, uniform

DEEPEST = 2**62  # a position from which on children have none


@dataclass
class Part:
    """Some of the rows: a matrix of their own, and the caller's number of each."""

    matrix: Matrix
    numbers: np.ndarray  # by the part's own source

    def share(self, values):
        """The part's share of what is known of all rows."""
        return None if values is None else np.ascontiguousarray(values[self.numbers])


def deal(matrix: Matrix, part_of_source: np.ndarray, n_parts: int, seed: int = 0) -> list[Part]:
    """The rows of a matrix in parts, in any order: a part's matrix is shuffled, and so are its own sources."""
    rng = np.random.default_rng(seed)
    row_of_source = np.empty(matrix.source_of_row.size, np.int64)
    row_of_source[matrix.source_of_row] = np.arange(row_of_source.size)
    parts = []
    for number in range(n_parts):
        numbers = rng.permutation(np.flatnonzero(part_of_source == number))
        order = rng.permutation(numbers.size).astype(np.int32)
        columns = np.ascontiguousarray(matrix.columns[:, row_of_source[numbers[order]]])
        own = matrix._replace(
            columns=read_only(columns),
            row_major_prefix=read_only(np.empty((0, 1), np.uint8)),
            source_of_row=read_only(order),
        )
        parts.append(Part(own, numbers))
    return parts


@dataclass
class GrowingPart:
    """The rows of a part by node while a tree grows."""

    part: Part
    rows: DrawnRows
    packed: PackedTargets
    of_node: dict[int, np.ndarray] = field(default_factory=dict)  # positions in the bag

    def plant(self) -> None:
        self.of_node[0] = np.arange(self.packed.rows.size)

    def codes(self, node: int, feature: int) -> np.ndarray:
        return self.part.matrix.columns[feature][self.packed.rows[self.of_node[node]]]

    def sums(self, node: int) -> np.ndarray:
        """The packed sum, the distinct rows, and how often they were drawn."""
        positions = self.of_node[node]
        n_draws = self.packed.counts[positions].sum() if self.packed.counts.size else 0
        return np.array([self.packed.values[positions].sum(), positions.size, n_draws])

    def ratio(self, node: int, bits: int) -> tuple[tuple[int, int] | None, bool]:
        """Target and weight of a row that has either, and whether those of other rows are not in proportion to it."""
        values = self.packed.values[self.of_node[node]]
        pairs = [(int(v) >> bits, int(v) & ((1 << bits) - 1)) for v in values[values != 0]]
        differ = any(t * pairs[0][1] != pairs[0][0] * w for t, w in pairs)
        return (pairs[0] if pairs else None), differ

    def histograms(self, node: int, features: np.ndarray) -> np.ndarray:
        positions = self.of_node[node]
        rows, values = self.packed.rows[positions], self.packed.values[positions]
        found = np.empty((features.size, N_CODES), np.int64)
        build_histograms(
            0, features.size, self.part.matrix, rows, values, 0, rows.size, features, found
        )
        return found

    def draws_by_bin(self, node: int, feature: int) -> np.ndarray:
        counts = np.zeros(N_CODES, np.int64)
        np.add.at(counts, self.codes(node, feature), self.packed.counts[self.of_node[node]])
        return counts

    def code_range(self, node: int, feature: int) -> tuple[int, int, bool]:
        """Least and greatest code of the rows that have weight, and whether any of them is missing."""
        codes = self.codes(node, feature)[self.packed.values[self.of_node[node]] != 0]
        known = codes[codes != MISSING_BIN]
        is_absent = known.size < codes.size
        return (
            int(known.min(initial=MISSING_BIN)),
            int(known.max(initial=0)) if known.size else -1,
            is_absent,
        )

    def split(self, node: int, feature: int, code: int, side: int, children: list[int]) -> None:
        codes, positions = self.codes(node, feature), self.of_node[node]
        which = np.where(codes <= code, 0, 1)
        which[codes == MISSING_BIN] = {GO_LEFT: 0, GO_RIGHT: 1, LEARNED: 1, OWN_CHILD: 2}[side]
        for number, child in enumerate(children):
            self.of_node[child] = positions[which == number]

    def leaves(self, nodes: list[Node]) -> np.ndarray:
        """The number of the leaf of every row by the part's own source; rows that were not drawn descend, too."""
        matrix = self.part.matrix
        leaf_of_source = np.empty(matrix.source_of_row.size, np.int32)
        for row, source in enumerate(matrix.source_of_row.tolist()):
            node = nodes[0]
            while node.children:
                code = matrix.columns[node.feature, row]
                which = 0 if code <= node.code else 1
                node = nodes[node.missing if code == MISSING_BIN else node.children[which]]
            leaf_of_source[source] = node.number
        return leaf_of_source


@dataclass
class Node:
    """What the leader knows of a node; its index in the list of nodes is its number."""

    number: int
    packed_sum: int
    n_distinct: int
    n_rows: int
    path: int
    position: int
    depth: int
    low: float
    high: float
    feature: int = -1
    code: int = 0
    side: int = LEARNED
    gain: float = 0.0
    children: list[int] = field(default_factory=list)
    missing: int = 0
    above: set[int] = field(default_factory=set)  # the features of the splits above


@dataclass
class Leader:
    """Merges what the parts answer, and decides."""

    parts: list[GrowingPart]
    rules: Any
    candidates: Any
    nodes: list[Node] = field(default_factory=list)

    @property
    def matrix(self) -> Matrix:
        return self.parts[0].part.matrix  # for its bins

    def add(
        self, number: int, path: int, position: int, depth: int, low: float, high: float
    ) -> Node:
        packed, n_distinct, n_draws = merged([part.sums(number) for part in self.parts]).tolist()
        n_rows = n_draws if self.rules.has_counts else packed & ((1 << self.rules.bits) - 1)
        node = Node(number, packed, n_distinct, n_rows, path, position, depth, low, high)
        self.nodes.append(node)
        return node

    def can_split(self, node: Node) -> bool:
        if node.depth >= self.rules.max_depth or node.n_rows < 2 * self.rules.min_leaf:
            return False
        if node.n_distinct < self.rules.min_split:
            return False
        answers = [part.ratio(node.number, self.rules.bits) for part in self.parts]
        pairs = [pair for pair, _ in answers if pair is not None]
        differ = any(t * pairs[0][1] != pairs[0][0] * w for t, w in pairs)
        return differ or any(differs for _, differs in answers)

    def consider(self, node: Node) -> None:
        """Find the best split of a leaf, if there is one."""
        if not self.can_split(node):
            return
        if self.rules.threshold_rule == COMPLETELY_RANDOM:
            self.draw_split(node)
        else:
            self.search(node)

    def draw_split(self, node: Node) -> None:
        n_features = self.matrix.columns.shape[0]
        path = np.uint64(node.path)
        for attempt in range(ATTEMPTS * n_features):
            feature = int(uniform(node.path, attempt) * n_features)
            ranges = [part.code_range(node.number, feature) for part in self.parts]
            least, most = min(r[0] for r in ranges), max(r[1] for r in ranges)
            start = int(self.matrix.offsets[feature])
            code = draw_cut(path, attempt, n_features, least, most, start, self.matrix.thresholds)
            if code != NO_SPLIT:
                node.feature, node.code, node.gain = feature, int(code), float(node.n_rows)
                if any(r[2] for r in ranges):
                    node.side = GO_LEFT + (combine(node.path, attempt) & 1)
                return

    def features_of(self, node: Node) -> np.ndarray:
        """The features that a node searches."""
        candidates, n_features = self.candidates, self.matrix.columns.shape[0]
        if candidates.of_tree.size or len(candidates.groups):
            every = candidates.of_tree.tolist() or list(range(n_features))
            groups = [set(np.flatnonzero(group).tolist()) for group in candidates.groups]
            allowed = [
                feature
                for feature in every
                if not groups or any({feature, *node.above} <= group for group in groups)
            ]
            wanted = min(self.rules.n_candidates, len(allowed))
            return np.array(drawn(node.path, allowed, wanted), np.int64)
        chosen, keys = np.empty(self.rules.n_candidates, np.int64), np.empty(n_features)
        path, position = np.uint64(node.path), node.position
        return chosen[: draw_features(path, position, n_features, candidates, keys, chosen)]

    def search(self, node: Node) -> None:
        rules, features = self.rules, self.features_of(node)
        sums = merged([part.histograms(node.number, features) for part in self.parts])
        none = np.zeros(0, np.int64)
        splits = [self.split_of(node, f, of, none) for f, of in zip(features, sums, strict=True)]
        is_counted = [not rules.has_counts] * len(splits)
        while (best := first_best(splits)) is not None and not is_counted[best]:
            feature = int(features[best])
            counts = merged([part.draws_by_bin(node.number, feature) for part in self.parts])
            splits[best] = self.split_of(node, feature, sums[best], counts)
            is_counted[best] = True
        if best is not None:
            node.gain, node.code, node.side = splits[best]
            node.feature = int(features[best])

    def split_of(self, node: Node, feature: int, sums: np.ndarray, counts: np.ndarray):
        """Gain minus cost, code and side of a feature's best split; None where there is none."""
        matrix, candidates = self.matrix, self.candidates
        begin, end = matrix.offsets[feature : feature + 2].tolist()
        direction = int(candidates.direction[feature]) if candidates.direction.size else 0
        gain, code, side = split_feature(
            sums,
            counts,
            int(matrix.n_bins[feature]),
            matrix.thresholds[begin:end],
            node.packed_sum,
            node.n_rows,
            self.rules,
            (direction, node.low, node.high),
            uniform(node.path, int(feature) + matrix.n_bins.size),
            np.empty((3, N_CODES), np.int64),
        )
        if code == NO_SPLIT or gain <= self.rules.min_gain:
            return None
        return gain - candidates.penalty[feature], int(code), int(side)

    def split(self, node: Node) -> None:
        """Send the rows of a leaf to its children."""
        n_children = 3 if node.side == OWN_CHILD else 2
        node.children = list(range(len(self.nodes), len(self.nodes) + n_children))
        for part in self.parts:
            part.split(node.number, node.feature, node.code, node.side, node.children)
        for which, number in enumerate(node.children):
            is_countable = 0 <= node.position < DEEPEST and which < 2
            position = 2 * node.position + 1 + which if is_countable else -1
            path = combine(node.path, which)
            child = self.add(number, path, position, node.depth + 1, node.low, node.high)
            child.above = {*node.above, node.feature}
        left, right, *own = (self.nodes[child] for child in node.children)
        side = node.side
        if side == LEARNED:
            side = GO_LEFT if left.n_rows >= right.n_rows else GO_RIGHT
            if self.rules.missing_rule in (GO_LEFT, GO_RIGHT):
                side = self.rules.missing_rule
        node.missing = own[0].number if own else (left if side == GO_LEFT else right).number
        direction = self.candidates.direction[node.feature] if self.candidates.direction.size else 0
        if direction != 0:
            bounds = (self.rules, node.low, node.high)
            middle = value_of(left.packed_sum, *bounds) / 2.0
            middle += value_of(right.packed_sum, *bounds) / 2.0
            smaller, larger = (left, right) if direction > 0 else (right, left)
            smaller.high = larger.low = middle

    def grow(self) -> None:
        """Best leaf first: by gain, then by age."""
        for part in self.parts:
            part.plant()
        self.consider(self.add(0, mix(self.rules.stream), 0, 0, -np.inf, np.inf))
        n_leaves = 1
        while n_leaves < self.rules.max_leaves:
            open_leaves = [n for n in self.nodes if not n.children and n.feature >= 0]
            if not open_leaves:
                break
            node = max(open_leaves, key=lambda leaf: (leaf.gain, -leaf.number))
            self.split(node)
            for child in node.children:
                self.consider(self.nodes[child])
            n_leaves += len(node.children) - 1


def first_best(splits: list) -> int | None:
    """The index of the greatest gain, the first of equal ones."""
    known = [index for index, split in enumerate(splits) if split is not None]
    return max(known, key=lambda index: (splits[index][0], -index), default=None)


def hold_in_parts(
    parts: list[Part],
    targets: np.ndarray,
    weights: np.ndarray | None,
    present: np.ndarray | None,
    n_draws: int,
    centre: bool,
) -> list[WholeTargets]:
    """The whole targets of each part, in the scales of all; targets and weights are by the caller's row."""
    rows = [TargetRows.of(p.share(targets), p.share(weights), p.share(present)) for p in parts]
    scales = choose_scales(rows, n_draws, centre=centre)
    return [one.whole(scales) for one in rows]


def grow_tree_in_parts(
    parts: list[Part],
    held: list[WholeTargets],
    policies: Policies,
    counts: np.ndarray | None = None,
    stream: int = 0,
) -> Tree:
    """The tree of ``grow_tree``, whose rows no part has all of; counts are by the caller's row."""
    n_all = sum(part.numbers.size for part in parts)
    counts = np.ones(n_all, np.int32) if counts is None else counts
    drawn = [DrawnRows.of(p.share(counts), whole) for p, whole in zip(parts, held, strict=True)]
    scales = held[0].scales
    units = choose_units(scales, merged([rows.sizes() for rows in drawn]))
    growing = [
        GrowingPart(part, rows, rows.pack(units, part.matrix.source_of_row))
        for part, rows in zip(parts, drawn, strict=True)
    ]
    matrix = parts[0].matrix
    rules = grower.growth_rules(matrix, units, policies, scales.has_weights, stream)
    candidates = policies.candidates(matrix.columns.shape[0], units.gain_unit, stream)
    leader = Leader(growing, rules, candidates)
    leader.grow()
    return finish(leader, units, policies, n_all)


def finish(leader: Leader, units: Units, policies: Policies, n_all: int) -> Tree:
    """The nodes as arrays, with values from the merged sums of the parts' leaves."""
    nodes, is_inner = leader.nodes, np.array([bool(node.children) for node in leader.nodes])
    feature = np.where(is_inner, [node.feature for node in nodes], -1).astype(np.int32)
    code = np.where(is_inner, [node.code for node in nodes], 0).astype(np.uint8)
    children = np.array([(node.children or [0, 0])[:2] for node in nodes], np.int32)
    left, right = np.ascontiguousarray(children.T)
    missing = np.array([node.missing for node in nodes], np.int32)
    leaf_of_row = np.empty(n_all, np.int32)
    sums = []
    for part in leader.parts:
        leaves = part.leaves(nodes)
        leaf_of_row[part.part.numbers] = leaves
        sums.append(part.rows.sum_leaves(read_only(leaves), len(nodes)))
    scales = leader.parts[0].rows.whole.scales
    value, cover = node_values(merged(sums), scales, policies.l2, left, right, missing, policies.l1)
    if leader.candidates.direction.size:
        unit = units.weight_unit / units.target_unit
        limits = np.array([(node.low, node.high) for node in nodes]) * unit + units.shift
        value = np.clip(value, *limits.T)
    gain = np.array([node.gain for node in nodes]) + leader.candidates.penalty[feature]
    gain = np.where(is_inner, gain / units.gain_unit, 0.0)
    threshold = thresholds_of(leader.matrix, feature, code)
    return Tree(feature, threshold, code, left, right, missing, value, cover, gain, leaf_of_row)


@dataclass(frozen=True, eq=False)
class PartsEngine(ThreadsEngine):
    """An engine whose rows lie in parts: the proof that an engine need not have all of them in one place."""

    n_parts: int = 1
    parts: list[Part] = field(default_factory=list)

    @classmethod
    def dealt(cls, matrix: Matrix, n_threads: int, n_parts: int, seed: int) -> PartsEngine:
        """The rows of a matrix, dealt at random."""
        part_of_row = np.random.default_rng(seed).integers(0, n_parts, matrix.source_of_row.size)
        parts = deal(matrix, part_of_row, n_parts, seed)
        return cls(matrix, n_threads, n_parts=n_parts, parts=parts)

    def hold(self, targets, draws, *, centre):
        values, weights = targets
        return hold_in_parts(self.parts, values, weights, draws.present, draws.most_rows, centre)

    def _grow(self, request, counts, *_):
        counts = None if counts is None else counts.astype(np.int32)
        tree = grow_tree_in_parts(
            self.parts, request.targets, request.policies, counts, request.stream
        )
        if counts is not None and not request.reaches_all:
            tree.leaf_of_row[counts == 0] = -1
        return tree
