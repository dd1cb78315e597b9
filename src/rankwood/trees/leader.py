"""``TreeLeader``: decides the splits of a tree whose rows lie in parts.

The leader has no rows. It merges what the parts say of nodes (``rankwood.trees.parts``), takes the best candidate of
each, and says which nodes are split next. The order of growth, and the numbers of the nodes with it, is played again
from the gains when all that it needs are known.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from rankwood._core.jit import kernel
from rankwood._core.sums import merged
from rankwood.binning.bins import N_CODES
from rankwood.dtypes import Array
from rankwood.trees.grower import Tree, node_values, thresholds_of
from rankwood.trees.parts import (
    DIFFERS,
    DISTINCT,
    DRAWN,
    PACKED,
    ROOT,
    SPLIT,
    TARGET,
    WEIGHT,
    Found,
    NodeTable,
    PartTree,
    TreePlan,
    best_candidates,
    scratch,
)
from rankwood.trees.random_trees import (
    ATTEMPTS,
    draw_cut,
    draw_feature,
    draw_side,
    side_of_unseen,
)
from rankwood.trees.splitting import (
    split_candidate,
    sums_of_sides,
)
from rankwood.trees.workspace import (
    GO_LEFT,
    LEARNED,
    NO_SPLIT,
    OWN,
    Bag,
    Matrix,
)

_AT_ONCE = 4  # features whose ranges are looked at in the first step of a completely random tree


class TreeLeader(NodeTable):
    """Decides the splits of a tree; ``features`` is a matrix ``without_rows``."""

    def __init__(self, features: Matrix, plan: TreePlan) -> None:
        none = np.zeros(0, np.int64)
        super().__init__(features, plan, Bag(np.zeros(0, np.uint32), none, none))
        self._children = range(0)
        self._parents: Array = none  # of nodes that were split in the last step
        self._found: Found | None = None
        self._is_counted: Array = np.zeros((0, 0), bool)
        self._counted_rows: dict[int, tuple[int, int]] = {}
        self._n_attempts = 0
        self._undrawn: Array = none

    # Which nodes are split.

    def next_splits(self) -> Array | None:
        """The nodes to split in the next step, as rows of ``SPLIT``; None when the tree is complete."""
        if not self._is_planted:
            self._children = self.split(np.zeros((0, len(SPLIT)), np.int64))
            return np.zeros((0, len(SPLIT)), np.int64)
        if self.rules.max_leaves >= self.plan.units.n_rows:
            nodes = self.nodes[: self.n_nodes]
            chosen = np.flatnonzero((nodes.feature >= 0) & (nodes.left == 0))
        else:
            chosen = np.array(self._in_order()[1], np.int64)
        if chosen.size == 0:
            return None
        own = self.nodes[chosen]
        splits = np.stack([chosen, *(own[name] for name in SPLIT[1:])], axis=1)
        self._parents = chosen
        sides = own.side.copy()
        self._children = self.split(splits)
        if self.is_random:  # the sides of missing values follow from rows that are not counted yet
            self.nodes.side[chosen] = sides
        return splits

    def _in_order(self) -> tuple[list[int], list[int]]:
        """The nodes in the order of their numbers, as far as it is known, and those to be split for it to go on."""
        known = self.nodes[: self.n_nodes].view(np.ndarray)
        feature, left, right, missing, gain = (
            known[name].tolist() for name in ("feature", "left", "right", "missing", "gain")
        )
        order, lacking, n_leaves = [ROOT], [], 1
        heap = [(-gain[ROOT], 0, ROOT)] if feature[ROOT] >= 0 else []
        while heap and n_leaves < self.rules.max_leaves:
            node = heapq.heappop(heap)[2]
            if left[node] == 0:
                lacking.append(node)
                n_leaves += 1
                continue
            below = [left[node], right[node]]
            if missing[node] not in below:
                below.append(missing[node])
            n_leaves += len(below) - 1
            for child in below:
                if feature[child] >= 0:
                    heapq.heappush(heap, (-gain[child], len(order), child))
                order.append(child)
        return order, lacking

    # What the parts say.

    def receive(self, told: Sequence[Array], found: Sequence[Found]) -> None:
        """Take over what the parts say of the children of the last step, and the splits that they have found."""
        sums = merged(told)
        nodes, children = self.nodes, self._children
        if children.start == ROOT:
            self.add_root_sums(int(sums[ROOT, PACKED]), int(sums[ROOT, DRAWN]))
        elif self.is_random:
            nodes.packed_sum[children.start : children.stop] = sums[:, PACKED]
            nodes.n_rows[children.start : children.stop] = sums[:, DRAWN]
            self._settle_sides()
        own = nodes[children.start : children.stop]
        can_split = (own.depth < self.rules.max_depth) & (own.n_rows >= 2 * self.rules.min_leaf)
        can_split &= sums[:, DISTINCT] >= self.rules.min_split
        can_split &= _differ(told)
        is_asked = can_split[self.asked - children.start]
        if self.is_random:
            self._undrawn, self._n_attempts = self.asked[is_asked], 0
            return
        columns = (np.concatenate(part, axis=1) for part in zip(*found, strict=True))
        whole = Found(*columns)
        whole.codes[~is_asked] = NO_SPLIT
        self._found = whole
        self._is_counted = np.full(whole.codes.shape, not self.rules.has_counts)
        self._counted_rows.clear()
        self._choose()

    def _choose(self) -> None:
        """Store the best candidate of each node; of equal ones the first."""
        assert self._found is not None
        if self.asked.size == 0 or self._found.codes.shape[1] == 0:
            return
        found, nodes, asked = self._found, self.nodes, self.asked
        best = best_candidates(found)
        at = (np.arange(asked.size), best)
        is_split = found.codes[at] != NO_SPLIT
        chosen, _ = self.candidates_of(asked)
        nodes.feature[asked] = np.where(is_split, chosen[at], -1)
        for name, values in (
            ("code", found.codes),
            ("side", found.sides),
            ("gain", found.gains),
            ("left_sum", found.left_sums),
            ("missing_sum", found.missing_sums),
        ):
            nodes[name][asked] = values[at]
        if not self.rules.has_counts:
            mask = (1 << self.rules.bits) - 1
            nodes.left_rows[asked] = nodes.left_sum[asked] & mask
            nodes.missing_rows[asked] = nodes.missing_sum[asked] & mask
            return
        for index, candidate in enumerate(best.tolist()):
            key = index * found.codes.shape[1] + candidate
            if key in self._counted_rows:
                node = asked[index]
                nodes.left_rows[node], nodes.missing_rows[node] = self._counted_rows[key]

    def counts_wanted(self) -> Array:
        """Pairs of node and candidate whose rows have to be counted before the best candidates are known."""
        none = np.zeros((0, 2), np.int64)
        if self._found is None or self.asked.size == 0 or self._found.codes.shape[1] == 0:
            return none
        best = best_candidates(self._found)
        at = (np.arange(best.size), best)
        is_open = (self._found.codes[at] != NO_SPLIT) & ~self._is_counted[at]
        return np.stack([self.asked[is_open], best[is_open]], axis=1)

    def receive_best_counts(self, answers: Sequence[tuple[Array, Array, Array]]) -> None:
        """Take the counts of best candidates that parts found among themselves, of nodes that may be split."""
        wanted = self.counts_wanted()
        place_of = {pair: place for place, pair in enumerate(map(tuple, answers[0][0].tolist()))}
        pairs = list(map(tuple, wanted.tolist()))
        places = [place_of[pair] for pair in pairs if pair in place_of]
        if places:
            is_known = [pair in place_of for pair in pairs]
            told = [(counts[places], sums[places]) for _, counts, sums in answers]
            self.receive_counts(wanted[is_known], told)

    def receive_counts(self, wanted: Array, answers: Sequence[tuple[Array, Array]]) -> None:
        """Search the candidates whose rows are counted again, with the least number of rows in a leaf."""
        assert self._found is not None
        counts, sums = (merged(part) for part in zip(*answers, strict=True))
        index_of = {node: index for index, node in enumerate(self.asked.tolist())}
        indices = np.array([index_of[node] for node in wanted[:, 0].tolist()], np.int64)
        nodes = wanted[:, 0].copy()
        chosen, _ = self.candidates_of(nodes)
        features = np.ascontiguousarray(chosen[np.arange(nodes.size), wanted[:, 1]])
        work = scratch(self.matrix.columns.shape[0], self.bag, nodes.size, 1)
        work = work._replace(histograms=np.array(sums)[:, np.newaxis])
        again = Found(np.zeros((nodes.size, 1)), *np.zeros((4, nodes.size, 1), np.int64))
        rows = np.zeros((nodes.size, 2), np.int64)
        cuts = np.empty((3, N_CODES), np.int64)
        given = (self.matrix, self.rules, self.candidates, self.nodes, work)
        search_counted(nodes, features, np.array(counts), cuts, *given, again, rows)
        at = (indices, wanted[:, 1])
        for mine, theirs in zip(self._found, again, strict=True):
            mine[at] = theirs[:, 0]
        self._is_counted[at] = True
        width = self._found.codes.shape[1]
        keys = (indices * width + wanted[:, 1]).tolist()
        self._counted_rows |= dict(zip(keys, map(tuple, rows.tolist()), strict=True))
        self._choose()

    # Completely random trees.

    def ranges_wanted(self) -> tuple[Array, int, int] | None:
        """The nodes whose feature is not drawn yet, and the attempts to look at; None where there are none."""
        n_features = self.matrix.columns.shape[0]
        if (
            not self.is_random
            or self._undrawn.size == 0
            or self._n_attempts >= ATTEMPTS * n_features
        ):
            return None
        first = self._n_attempts
        self._n_attempts = min(ATTEMPTS * n_features, 2 * first + _AT_ONCE)
        return self._undrawn, first, self._n_attempts

    def receive_ranges(self, first: int, ranges: Sequence[Array]) -> None:
        """Draw the splits of the nodes of which a feature varies among these attempts."""
        least = np.minimum.reduce([part[:, :, 0] for part in ranges])
        others = np.maximum.reduce([part[:, :, 1:] for part in ranges])
        merged_ranges = np.ascontiguousarray(np.concatenate([least[:, :, np.newaxis], others], 2))
        draw_splits(self._undrawn, first, merged_ranges, self.matrix, self.nodes)
        self._undrawn = self._undrawn[self.nodes.feature[self._undrawn] < 0]

    def _settle_sides(self) -> None:
        """The children of missing values, now that the rows of both children are known."""
        nodes = self.nodes
        for node in self._parents[nodes.side[self._parents] == LEARNED].tolist():
            left, right = nodes.left[node], nodes.right[node]
            side = side_of_unseen(nodes.n_rows[left], nodes.n_rows[right], self.rules.missing_rule)
            nodes.missing[node] = left if side == GO_LEFT else right

    # The complete tree.

    def nodes_in_order(self) -> tuple[Tree, Array]:
        """The complete tree without values, and the number of the leaf that each node's rows are in."""
        order = np.array(self._in_order()[0], np.int64)
        nodes = self.nodes[: self.n_nodes].view(np.ndarray)
        number = np.full(self.n_nodes, -1, np.int32)
        number[order] = np.arange(order.size, dtype=np.int32)
        own = nodes[order]
        is_inner = (own["left"] > 0) & (number[own["left"]] > 0)
        left, right, missing = (
            np.where(is_inner, number[own[name]], 0).astype(np.int32)
            for name in ("left", "right", "missing")
        )
        feature = np.where(is_inner, own["feature"], -1).astype(np.int32)
        code = np.where(is_inner, own["code"], 0).astype(np.uint8)
        gain = own["gain"] + self.candidates.penalty[feature]
        gain = np.where(is_inner, gain / self.plan.units.gain_unit, 0.0)
        leaf_of_node = number.copy()
        for node in np.flatnonzero(nodes["left"] > 0).tolist():  # parents come before children
            last = max(int(nodes["right"][node]), int(nodes["missing"][node]))
            below = slice(int(nodes["left"][node]), last + 1)
            own_numbers = number[below]
            leaf_of_node[below] = np.where(own_numbers >= 0, own_numbers, leaf_of_node[node])
        threshold = thresholds_of(self.matrix, feature, code)
        none = np.zeros(0)
        leaf_of_row = np.zeros(0, np.int32)
        tree = Tree(feature, threshold, code, left, right, missing, none, none, gain, leaf_of_row)
        return tree, leaf_of_node

    def finish(self, tree: Tree, sums: Sequence[Array]) -> Tree:
        """The tree with the values that follow from the leaves' sums of all parts."""
        units, policies = self.plan.units, self.plan.policies
        children = (tree.left, tree.right, tree.missing)
        penalties = (policies.l2, *children, policies.l1)
        value, cover = node_values(merged(sums), self.plan.scales, *penalties)
        if self.candidates.direction.size:
            unit = units.weight_unit / units.target_unit
            own = self.nodes[np.array(self._in_order()[0], np.int64)]
            value = np.clip(value, own.low * unit + units.shift, own.high * unit + units.shift)
        return Tree(
            tree.feature,
            tree.threshold,
            tree.code,
            *children,
            value,
            cover,
            tree.gain,
            tree.leaf_of_row,
        )


def grow_together(leader: TreeLeader, parts: Sequence[PartTree], *, reaches_all: bool) -> Tree:
    """The tree of parts that are all in this process: what a cluster does, without the messages."""
    while (splits := leader.next_splits()) is not None:
        told, shares = zip(*(part.advance(splits) for part in parts), strict=True)
        found = []
        if not leader.is_random:
            found = [
                part.search(told, [share[index] for share in shares])
                for index, part in enumerate(parts)
            ]
        leader.receive(told, found)
        of_slices = [part.best_of_slice(own) for part, own in zip(parts, found, strict=False)]
        best = [own for own in of_slices if own is not None]
        if best:
            leader.receive_best_counts([part.count_best(best) for part in parts])
        while len(wanted := leader.counts_wanted()):
            leader.receive_counts(wanted, [part.count(wanted) for part in parts])
        while (asked := leader.ranges_wanted()) is not None:
            leader.receive_ranges(asked[1], [part.ranges(*asked) for part in parts])
    tree, leaf_of_node = leader.nodes_in_order()
    return leader.finish(tree, [part.finish(leaf_of_node, tree, reaches_all) for part in parts])


def _differ(told: Sequence[Array]) -> Array:
    """Whether the rows of a node are not all alike, from a row of each part and what it says of its others."""
    differ: Array = np.logical_or.reduce([part[:, DIFFERS] > 0 for part in told])
    first = told[0][:, [TARGET, WEIGHT]].copy()
    for part in told[1:]:
        pairs = part[:, [TARGET, WEIGHT]]
        is_new = (first == 0).all(axis=1)
        first[is_new] = pairs[is_new]
        # Products of a target of 61 bits and a weight: Python's numbers, since they may not fit into an int64.
        left = pairs[:, 0].astype(object) * first[:, 1]
        right = first[:, 0].astype(object) * pairs[:, 1]
        differ |= np.array(left != right, bool)
    return differ


# Kernels of the leader.


@kernel
def search_counted(
    asked, features, counts, cuts, matrix, rules, candidates, nodes, work, found, rows
):
    """The best split of one candidate of each node, whose rows are counted, and the rows on its left and apart."""
    for index in range(asked.size):
        node = asked[index]
        nodes.slot[node] = index
        work.features[0] = features[index]
        of_bin = counts[index]
        split_candidate(
            np.int64(0), node, OWN, of_bin, cuts, matrix, rules, candidates, nodes, work
        )
        code = work.codes[OWN, 0]
        side = work.sides[OWN, 0]
        found.gains[index, 0] = work.gains[OWN, 0]
        found.codes[index, 0] = code
        found.sides[index, 0] = side
        sums = work.histograms[index, 0]
        found.left_sums[index, 0], found.missing_sums[index, 0] = sums_of_sides(sums, code, side)
        rows[index, 0], rows[index, 1] = sums_of_sides(of_bin, code, side)


@kernel
def draw_splits(asked, attempt, ranges, matrix, nodes):
    """Draw the split of each node by the first attempt whose feature varies, if there is one among these."""
    n_features = matrix.columns.shape[0]
    for index in range(asked.size):
        node = asked[index]
        path = nodes.path[node]
        nodes.feature[node] = -1
        for step in range(ranges.shape[1]):
            feature = draw_feature(path, attempt + step, n_features)
            start = matrix.offsets[feature]
            least = ranges[index, step, 0]
            most = ranges[index, step, 1]
            code = draw_cut(path, attempt + step, n_features, least, most, start, matrix.thresholds)
            if code != NO_SPLIT:
                nodes.feature[node] = feature
                nodes.code[node] = code
                is_absent = ranges[index, step, 2] > 0
                nodes.side[node] = draw_side(path, attempt + step) if is_absent else LEARNED
                nodes.gain[node] = np.float64(nodes.n_rows[node])  # largest leaf first
                break
