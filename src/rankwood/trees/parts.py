"""Growing trees whose rows lie in several parts, on several machines: what a part does (``PartTree``).

No part has all rows, and no row travels. The parts pack, add up and split their own rows; the leader, who has none,
decides (``rankwood.trees.leader``). Between them go whole numbers, maxima and decisions only, so that the tree has the
bytes of ``grow_tree`` on all rows together, whatever the division.

Growth goes in steps, and a step treats many nodes. In each step

1. the leader names the nodes to split (``TreeLeader.next_splits``),
2. every part splits them and adds up the histograms of their children (``PartTree.advance``),
3. every part gets from the others the histograms of *its* candidates, merges them and finds the best cut of each
   (``PartTree.search``), so that the work of searching, too, is dealt out,
4. where weights are not row counts, the parts find the best candidate of each child among the slices of all, and count
   its rows (``PartTree.count_best``),
5. the leader takes the best candidate of each child (``TreeLeader.receive``). Where the counts forbid its cut, it has
   the rows of the next best counted (``counts_wanted``).

The order of best-first growth is known only in the end. A step therefore splits all nodes that would be split if the
children that are still unknown were leaves: the nodes of a level that may be split, at first. When all that are chosen
in the order of growth have been split already, the tree is complete; nodes that were split in vain stay leaves.

All parts and the leader have the same table of nodes, but for the rows that are in them. Terms are those of
``workspace``, and

    told      what a part says of a node: the columns of ``TOLD``
    asked     the nodes that a step looks at
    filled    the nodes whose histograms are added up; those of their larger siblings follow by subtraction
    slice     the candidates, by their index, that a part searches in all nodes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.sums import merged
from rankwood._core.threads import run_blocks
from rankwood.binning.bins import N_CODES
from rankwood.dtypes import Array
from rankwood.trees.best_first import draw_candidates
from rankwood.trees.grower import Policies, Tree, growth_rules
from rankwood.trees.packing import DrawnRows, Scales, Units
from rankwood.trees.partition import (
    CODES_AT_ONCE,
    add_children,
    add_node,
    by_source,
    mark_leaves,
    partition,
    route,
    sum_rows,
)
from rankwood.trees.random_trees import (
    draw_feature,
    find_range,
)
from rankwood.trees.splitting import (
    build_histograms,
    split_features,
    sums_of_sides,
)
from rankwood.trees.workspace import (
    COMPLETELY_RANDOM,
    N_COUNTERS,
    N_NODES,
    N_WORDS,
    NO_NODE,
    NO_SPLIT,
    NODE,
    OWN,
    Bag,
    Matrix,
    Work,
    mix,
)

SPLIT = ("node", "feature", "code", "side", "left_sum", "left_rows", "missing_sum", "missing_rows")
TOLD = ("distinct rows", "target", "weight", "whether others differ", "packed sum", "rows drawn")
DISTINCT, TARGET, WEIGHT, DIFFERS, PACKED, DRAWN = range(len(TOLD))
_FIRST_ROOM = 64  # nodes
_MOST_AT_FIRST = (
    1024  # nodes whose histograms have room at first; memory is taken when they are written
)
ROOT = 0


class Found(NamedTuple):
    """The best splits of a slice of candidates, nodes × candidates."""

    gains: Array  # float64
    codes: Array  # int64; NO_SPLIT where there is none
    sides: Array  # int64
    left_sums: Array  # int64
    missing_sums: Array  # int64


@dataclass(frozen=True, eq=False)
class TreePlan:
    """What determines a tree, besides its rows: the same for all parts."""

    policies: Policies
    stream: int
    units: Units
    scales: Scales


def best_candidates(found: Found) -> Array:
    """The index of the candidate of greatest gain of each node; of equal ones the first."""
    gains = np.where(found.codes == NO_SPLIT, -np.inf, found.gains)
    best: Array = gains.argmax(axis=1)
    # A gain may be -inf itself where features cost: then a candidate that has a split comes first.
    has_split = (found.codes != NO_SPLIT).any(axis=1)
    is_lost = has_split & (found.codes[np.arange(best.size), best] == NO_SPLIT)
    best[is_lost] = (found.codes[is_lost] != NO_SPLIT).argmax(axis=1)
    return best


def slice_of(part: int, n_parts: int, n_candidates: int) -> tuple[int, int]:
    """The candidates that a part searches."""
    return n_candidates * part // n_parts, n_candidates * (part + 1) // n_parts


def without_rows(matrix: Matrix) -> Matrix:
    """The bins and thresholds of a matrix, without its rows: what the leader knows."""
    return matrix._replace(
        columns=read_only(np.zeros((matrix.columns.shape[0], 0), np.uint8)),
        row_major_prefix=read_only(np.zeros((0, 1), np.uint8)),
        source_of_row=read_only(np.zeros(0, np.int32)),
    )


class NodeTable:
    """The nodes of a growing tree, and the rows that one part has in them."""

    def __init__(self, matrix: Matrix, plan: TreePlan, bag: Bag) -> None:
        self.matrix = matrix
        self.plan = plan
        self.bag = bag
        n_features = matrix.columns.shape[0]
        self.rules = growth_rules(
            matrix, plan.units, plan.policies, plan.scales.has_weights, plan.stream
        )
        self.candidates = plan.policies.candidates(n_features, plan.units.gain_unit, plan.stream)
        self.nodes: Any = np.recarray(_FIRST_ROOM, NODE)
        self.work = scratch(n_features, bag, 0, 0)
        self._open_groups(self.nodes.size)
        plant_root(bag, self.rules, self.nodes, self.work)
        self._is_planted = False
        self.asked: Array = np.zeros(0, np.int64)  # children of the last step that may be split
        self.filled: Array = self.asked
        self.siblings: Array = self.asked  # of each that is filled; NO_NODE: none

    @property
    def is_random(self) -> bool:
        """Whether features and cuts are drawn without looking at targets."""
        return self.rules.threshold_rule == COMPLETELY_RANDOM

    @property
    def n_nodes(self) -> int:
        """Nodes so far, whether they will be part of the tree or not."""
        return int(self.work.counters[N_NODES])

    def split(self, splits: Array) -> range:
        """Split nodes by rows of ``SPLIT``; gives the children, which at first are the root."""
        if not self._is_planted:
            self._is_planted = True
            children = range(1)
        else:
            first = self.n_nodes
            self._make_room(first + 3 * len(splits))
            splits = read_only(np.ascontiguousarray(splits, np.int64))
            split_nodes(
                splits, self.matrix, self.bag, self.rules, self.candidates, self.nodes, self.work
            )
            children = range(first, self.n_nodes)
        self._choose_asked(splits, children)
        return children

    def _choose_asked(self, splits: Array, children: range) -> None:
        """The children that may be split, as far as depth and rows drawn tell, and whose histograms are added up."""
        nodes, rules = self.nodes, self.rules
        numbers = np.arange(children.start, children.stop)
        own = nodes[children.start : children.stop]
        can_split = (own.depth < rules.max_depth) & (own.n_rows >= 2 * rules.min_leaf)
        if self.is_random or (children and children.start == ROOT):
            can_split = np.ones(len(children), bool)
        self.asked = np.ascontiguousarray(numbers[can_split])
        self.filled, self.siblings = self.asked, np.full(self.asked.size, NO_NODE)
        if rules.can_subtract and children.start != ROOT:
            self._choose_smaller(splits[:, 0], children.start, can_split)

    def _choose_smaller(self, parents: Array, first: int, can_split: Array) -> None:
        """Of two children the smaller one is filled, whether it is asked or only its sibling."""
        nodes, filled, siblings = self.nodes, [], []
        for parent in parents.tolist():
            below = list(range(nodes.left[parent], nodes.right[parent] + 1))
            if nodes.missing[parent] not in below:
                below.append(int(nodes.missing[parent]))
            if len(below) > 2:
                chosen = [node for node in below if can_split[node - first]]
                filled += chosen
                siblings += [NO_NODE] * len(chosen)
                continue
            left_is_smaller = nodes.n_rows[below[0]] <= nodes.n_rows[below[1]]
            smaller, larger = below if left_is_smaller else below[::-1]
            if can_split[larger - first]:
                filled.append(smaller)
                siblings.append(larger)
        self.filled = np.array(filled, np.int64)
        self.siblings = np.array(siblings, np.int64)

    def candidates_of(self, asked: Array) -> tuple[Array, Array]:
        """The features that nodes search, nodes × candidates, and how many they are."""
        chosen = np.zeros((asked.size, self.rules.n_candidates), np.int64)
        n_chosen = np.zeros(asked.size, np.int64)
        n_features = self.matrix.columns.shape[0]
        choose_features(asked, n_features, self.candidates, self.nodes, self.work, chosen, n_chosen)
        return chosen, n_chosen

    def add_root_sums(self, packed: int, drawn: int) -> None:
        """Take over the merged sums of all rows."""
        self.nodes.packed_sum[ROOT] = packed
        self.nodes.n_rows[ROOT] = drawn

    def _make_room(self, n_nodes: int) -> None:
        if n_nodes > self.nodes.size:
            longer: Any = np.recarray(max(n_nodes, 2 * self.nodes.size), NODE)
            longer[: self.nodes.size] = self.nodes
            self.nodes = longer
            self._open_groups(longer.size)

    def _open_groups(self, n_nodes: int) -> None:
        """Make room for the groups of features that are open to each node."""
        longer = np.ones((n_nodes, self.rules.n_groups), np.bool_)
        if len(self.work.open_groups):
            longer[: len(self.work.open_groups)] = self.work.open_groups
        self.work = self.work._replace(open_groups=longer)


class PartTree(NodeTable):
    """The rows that one part has in a tree, while it grows.

    ``index`` of ``n_parts`` says which slice of the candidates the part searches.
    """

    def __init__(
        self,
        matrix: Matrix,
        plan: TreePlan,
        drawn: DrawnRows,
        index: int,
        n_parts: int,
        n_threads: int = 1,
    ) -> None:
        packed = drawn.pack(plan.units, matrix.source_of_row)
        super().__init__(matrix, plan, Bag(packed.rows, packed.values, packed.counts))
        self.drawn = drawn
        self.leaf_of_source: Array = np.zeros(0, np.int32)
        self._n_threads = n_threads
        n_candidates = self.rules.n_candidates
        self._slices = [slice_of(part, n_parts, n_candidates) for part in range(n_parts)]
        self._first, self._last = self._slices[index]
        width = self._last - self._first
        self._n_slots = 0
        self.work = self.work._replace(
            histograms=np.zeros((0, width, N_CODES), np.int64),
            features=np.zeros(width, np.int64),
            gains=np.zeros((2, width)),
            codes=np.zeros((2, width), np.int64),
            sides=np.zeros((2, width), np.int64),
            is_counted=np.zeros((2, width), np.bool_),
        )

    def advance(self, splits: Array) -> tuple[Array, list[Array]]:
        """Split nodes; gives what is ``TOLD`` of their children, and for each part the histograms of its slice.

        A completely random tree has no histograms: what it needs are ``ranges``.
        """
        children = self.split(splits)
        told = np.zeros((len(children), len(TOLD)), np.int64)
        given = (children.start, self.bag, self.rules, self.nodes, told)
        run_blocks(describe_nodes, len(children), *given, n_threads=self._n_threads)
        if self.is_random:
            return told, []
        chosen, n_chosen = self.candidates_of(self.filled)
        shares = []
        for first, last in self._slices:
            sums = np.empty((self.filled.size, last - first, N_CODES), np.int64)
            wanted = np.minimum(n_chosen, last) - first
            own = (self.filled, chosen[:, first:last].copy(), wanted)
            where = (self.matrix, self.bag, self.nodes, sums)
            run_blocks(fill_nodes, self.filled.size, *own, *where, n_threads=self._n_threads)
            shares.append(sums)
        return told, shares

    def search(self, told: Sequence[Array], shares: Sequence[Array]) -> Found:
        """Merge what all parts say of this part's slice, and find the best split of each candidate."""
        if self.n_nodes == 1:
            sums = merged(told)[ROOT]
            self.add_root_sums(int(sums[PACKED]), int(sums[DRAWN]))
        self._store(shares)
        shape = (self.asked.size, self._last - self._first)
        found = Found(np.zeros(shape), *(np.zeros(shape, np.int64) for _ in Found._fields[1:]))
        chosen, n_chosen = self.candidates_of(self.asked)
        cuts = np.empty((3, N_CODES), np.int64)
        own = np.ascontiguousarray(chosen[:, self._first : self._last])
        wanted = np.minimum(n_chosen, self._last) - self._first
        search_nodes(
            self.asked,
            own,
            wanted,
            cuts,
            self.matrix,
            self.rules,
            self.candidates,
            self.nodes,
            self.work,
            found,
        )
        return found

    def _store(self, shares: Sequence[Array]) -> None:
        """Merge histograms and keep them; those of larger siblings follow."""
        if not self.rules.can_subtract:
            self.work = self.work._replace(histograms=_added(shares))
            self.nodes.slot[self.filled] = np.arange(self.filled.size)
            return
        needed = self._n_slots + self.filled.size
        pool = self.work.histograms
        if needed > len(pool):
            n_likely = min(_MOST_AT_FIRST, self.rules.max_leaves * 5 // 4)
            longer = np.empty((max(needed, 2 * len(pool), n_likely), *pool.shape[1:]), np.int64)
            longer[: self._n_slots] = pool[: self._n_slots]
            pool = longer
            self.work = self.work._replace(histograms=pool)
        _added(shares, out=pool[self._n_slots : needed])
        parents = self._parents()
        for node, sibling in zip(self.filled.tolist(), self.siblings.tolist(), strict=True):
            self.nodes.slot[node] = self._n_slots
            if sibling != NO_NODE:
                slot = self.nodes.slot[parents[sibling]]
                pool[slot] -= pool[self._n_slots]
                self.nodes.slot[sibling] = slot
            self._n_slots += 1

    def _parents(self) -> dict[int, int]:
        """The parent of each sibling."""
        nodes = self.nodes[: self.n_nodes]
        inner = np.flatnonzero(nodes.left > 0)
        parents = dict(zip(nodes.left[inner].tolist(), inner.tolist(), strict=True))
        return parents | dict(zip(nodes.right[inner].tolist(), inner.tolist(), strict=True))

    def best_of_slice(self, found: Found) -> tuple[Array, Array] | None:
        """For each node the best candidate of the own slice, and its gain, if rows have to be counted; -1: none."""
        if not self.rules.has_counts:
            return None
        best, gains = np.full(self.asked.size, -1), np.full(self.asked.size, -np.inf)
        if found.codes.size:
            chosen = best_candidates(found)
            at = (np.arange(chosen.size), chosen)
            has_split = found.codes[at] != NO_SPLIT
            best[has_split] = self._first + chosen[has_split]
            gains[has_split] = found.gains[at][has_split]
        return best, gains

    def count_best(self, of_parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array, Array]:
        """Pairs of node and best candidate, from the best ones of all slices, and what ``count`` says of them."""
        best, gains = (np.array(part) for part in of_parts[0])
        for other, gain in of_parts[1:]:
            is_better = (other >= 0) & ((best < 0) | (gain > gains))
            best[is_better], gains[is_better] = other[is_better], gain[is_better]
        has_split = best >= 0
        wanted = np.stack([self.asked[has_split], best[has_split]], axis=1)
        return wanted, *self.count(wanted)

    def count(self, wanted: Array) -> tuple[Array, Array]:
        """For pairs of node and candidate: the rows drawn by bin, and, in the own slice, the merged sums by bin."""
        nodes = wanted[
            :, 0
        ].copy()  # what comes from elsewhere may be read-only, which kernels tell apart
        chosen, _ = self.candidates_of(nodes)
        counts = np.zeros((len(wanted), N_CODES), np.int64)
        features = np.ascontiguousarray(chosen[np.arange(len(wanted)), wanted[:, 1]])
        count_nodes(nodes, features, self.matrix, self.bag, self.nodes, counts)
        sums = np.zeros_like(counts)
        is_own = (wanted[:, 1] >= self._first) & (wanted[:, 1] < self._last)
        slots = self.nodes.slot[nodes[is_own]]
        sums[is_own] = self.work.histograms[slots, wanted[is_own, 1] - self._first]
        return counts, sums

    def ranges(self, asked: Array, first: int, last: int) -> Array:
        """Least and greatest code, and whether any is missing, for some attempts at a feature: nodes × attempts × 3."""
        ranges = np.zeros((asked.size, last - first, 3), np.int64)
        given = (np.array(asked), first, self.matrix, self.bag, self.nodes, ranges)
        run_blocks(find_ranges, asked.size, *given, n_threads=self._n_threads)
        return ranges

    def finish(self, leaf_of_node: Array, tree: Tree, reaches_all: bool) -> Array:
        """Each leaf's sums of whole targets and weights; the leaf of every row by source stays here."""
        matrix, nodes = self.matrix, self.nodes[: self.n_nodes].view(np.ndarray)
        leaf_of_row = np.full(matrix.source_of_row.size, -1, np.int32)
        begin, end = (np.ascontiguousarray(nodes[name]) for name in ("begin", "end"))
        mark_leaves(self.bag.rows, begin, end, nodes["left"].astype(np.int32), leaf_of_row)
        is_marked = leaf_of_row >= 0
        leaf_of_row[is_marked] = leaf_of_node[leaf_of_row[is_marked]]
        if reaches_all and self.bag.rows.size < leaf_of_row.size:
            arrays = tree.routing
            given = (matrix.columns, *map(np.array, arrays), leaf_of_row)
            run_blocks(route, leaf_of_row.size, *given, n_threads=self._n_threads, least=1 << 14)
        self.leaf_of_source = np.empty_like(leaf_of_row)
        by_source(matrix.source_of_row, leaf_of_row, self.leaf_of_source)
        return self.drawn.sum_leaves(read_only(self.leaf_of_source), tree.n_nodes)


def _added(shares: Sequence[Array], out: Array | None = None) -> Array:
    """The sum of large arrays, of which the parts may be read-only, without a copy of all of them."""
    if len(shares) == 1:
        if out is None:
            return shares[0]
        out[:] = shares[0]
        return out
    total: Array = np.add(shares[0], shares[1], out=out)
    for share in shares[2:]:
        total += share
    return total


def scratch(n_features: int, bag: Bag, n_slots: int, width: int) -> Work:
    """The arrays that a part needs to split nodes and to search candidates."""
    n_aside = bag.rows.size
    ints = np.zeros((2, width), np.int64)
    none = np.zeros(0, np.int64)
    return Work(
        np.zeros((n_slots, width, N_CODES), np.int64),
        np.zeros((0, width, N_CODES), np.int64),
        np.zeros((1, N_CODES), np.int64),
        np.zeros(width, np.int64),
        np.zeros((2, width)),
        np.zeros((2, 0, N_WORDS), np.uint64),
        np.zeros((0, N_WORDS), np.uint64),
        np.zeros(0, np.uint8),
        read_only(np.zeros(0, np.uint8)),
        ints.copy(),
        ints.copy(),
        np.zeros((2, width), np.bool_),
        ints.copy(),
        ints.copy(),
        np.zeros((1, 3, N_CODES), np.int64),
        np.zeros(n_features),
        np.zeros(n_features, np.int64),
        np.zeros((0, 0), np.bool_),
        np.empty(n_aside, np.uint32),
        np.empty(n_aside, np.int64),
        np.empty(n_aside if bag.counts.size > 0 else 0, np.int64),
        np.empty(CODES_AT_ONCE, np.uint8),
        np.zeros((1, 3), np.int64),
        np.zeros(0, np.int32),
        none,
        none.copy(),
        np.zeros(N_COUNTERS, np.int64),
    )


# Kernels of a part. Nodes are given by their numbers, ``asked``; sums are by node.


@kernel
def plant_root(bag, rules, nodes, work):
    """Add the root, with all rows of the part; its sums are known later."""
    zero = np.int64(0)
    root = add_node(nodes, work, zero, np.int64(bag.rows.size), zero, zero)
    nodes.path[root] = mix(np.uint64(rules.stream))


@kernel
def split_nodes(splits, matrix, bag, rules, candidates, nodes, work):
    """Split the nodes that the rows of ``splits`` name; children are added in their order."""
    aside = Bag(work.rows, work.packed_targets, work.counts)
    for index in range(splits.shape[0]):
        node = splits[index, 0]
        nodes.feature[node] = splits[index, 1]
        nodes.code[node] = splits[index, 2]
        nodes.side[node] = splits[index, 3]
        nodes.left_sum[node] = splits[index, 4]
        nodes.left_rows[node] = splits[index, 5]
        nodes.missing_sum[node] = splits[index, 6]
        nodes.missing_rows[node] = splits[index, 7]
        middle, absent = partition(
            matrix.columns[nodes.feature[node]],
            nodes.code[node],
            nodes.side[node],
            bag,
            nodes.begin[node],
            nodes.end[node],
            aside,
            np.int64(0),
            work.row_codes,
        )
        add_children(node, middle, absent, np.int64(0), bag, rules, candidates, nodes, work)


@kernel
def describe_nodes(first, last, start, bag, rules, nodes, told):
    """What is ``TOLD`` of the nodes from ``start + first``; sums only of the root, and of completely random trees."""
    mask = (np.int64(1) << rules.bits) - 1
    for index in range(first, last):
        node = start + index
        begin = nodes.begin[node]
        end = nodes.end[node]
        total = np.int64(0)
        weight = np.int64(0)
        differs = np.int64(0)
        for place in range(begin, end):
            packed = bag.packed_targets[place]
            if weight == 0 and total == 0:  # all rows so far have neither
                total = packed >> rules.bits
                weight = packed & mask
            elif (packed >> rules.bits) * weight != total * (packed & mask):
                differs = np.int64(1)
                break
        told[index, 0] = end - begin
        told[index, 1] = total
        told[index, 2] = weight
        told[index, 3] = differs
        if node == 0 or rules.threshold_rule == COMPLETELY_RANDOM:
            told[index, 4], told[index, 5] = sum_rows(bag, begin, end, rules)


@kernel
def choose_features(asked, n_features, candidates, nodes, work, chosen, n_chosen):
    """Fill in the features that each node searches, and how many they are."""
    for index in range(asked.size):
        n_chosen[index] = draw_candidates(
            asked[index], n_features, candidates, nodes, work, chosen[index]
        )


@kernel
def fill_nodes(first, last, asked, chosen, n_chosen, matrix, bag, nodes, histograms):
    """Add up the part's histograms of each node, for the features ``chosen``; those beyond their number are 0."""
    for index in range(first, last):
        n_wanted = min(max(n_chosen[index], np.int64(0)), np.int64(chosen.shape[1]))
        node = asked[index]
        own = histograms[index]
        build_histograms(
            np.int64(0),
            n_wanted,
            matrix,
            bag.rows,
            bag.packed_targets,
            nodes.begin[node],
            nodes.end[node],
            chosen[index],
            own,
        )
        own[n_wanted:] = 0


@kernel
def search_nodes(asked, chosen, n_chosen, cuts, matrix, rules, candidates, nodes, work, found):
    """The best split of each candidate of each node, from the merged histograms in the nodes' slots."""
    width = chosen.shape[1]
    for index in range(asked.size):
        node = asked[index]
        n_wanted = min(max(n_chosen[index], np.int64(0)), np.int64(width))
        for candidate in range(width):
            work.features[candidate] = chosen[index, candidate]
            found.codes[index, candidate] = NO_SPLIT
        split_features(
            np.int64(0), n_wanted, node, OWN, cuts, matrix, rules, candidates, nodes, work
        )
        for candidate in range(n_wanted):
            code = work.codes[OWN, candidate]
            side = work.sides[OWN, candidate]
            found.gains[index, candidate] = work.gains[OWN, candidate]
            found.codes[index, candidate] = code
            found.sides[index, candidate] = side
            sums = work.histograms[nodes.slot[node], candidate]
            left, absent = sums_of_sides(sums, code, side)
            found.left_sums[index, candidate] = left
            found.missing_sums[index, candidate] = absent


@kernel
def count_nodes(asked, features, matrix, bag, nodes, counts):
    """How often the part's rows of each node were drawn, by the bins of one feature."""
    has_counts = bag.counts.size > 0
    for index in range(asked.size):
        column = matrix.columns[features[index]]
        node = asked[index]
        for place in range(nodes.begin[node], nodes.end[node]):
            n_draws = bag.counts[place] if has_counts else np.int64(1)
            counts[index, column[bag.rows[place]]] += n_draws


@kernel
def find_ranges(first, last, asked, attempt, matrix, bag, nodes, ranges):
    """The range of codes that the part's rows of each node have, for the features of some attempts."""
    n_features = matrix.columns.shape[0]
    for index in range(first, last):
        node = asked[index]
        for step in range(ranges.shape[1]):
            feature = draw_feature(nodes.path[node], attempt + step, n_features)
            column = matrix.columns[feature]
            least, most, is_absent = find_range(column, bag, nodes.begin[node], nodes.end[node])
            ranges[index, step, 0] = least
            ranges[index, step, 1] = most
            ranges[index, step, 2] = is_absent
