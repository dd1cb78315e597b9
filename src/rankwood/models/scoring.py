"""Scores and leaves of documents: the Python functions behind ``Forest.predict``, and their kernels.

A block of documents that fits into the first-level cache passes one tree after the other. Eight documents walk down a
tree together, since the processor would otherwise wait for memory at each step. The trees of a document are always
summed in order, so its score does not depend on the block it is in.

Terms
    key        a value as a signed 32-bit integer that orders as the values do; -0 equals 0
    column     a feature that some split tests, together with the side of its missing values: left, with the least
               key, or right, with the greatest
    lane       one of eight documents whose keys are interleaved: those of column c at 8 c, 8 c + 1, …, 8 c + 7
    packed     nodes of trees with two children per split, one 64-bit word each, siblings adjacent::

                   63        32 31         left_shift         0
                   | threshold | left child | eight × column |

               A document goes right if its key, shifted to the upper half of a word, exceeds the node's word; going
               right adds one to the index of the left child, so that a step has no branch. A leaf is its own left
               child, and no key exceeds its threshold.
    wide       nodes as rows of six numbers (column or -1, threshold, left, right, missing, whether categories are
               tested), for splits with a third child or of categories; missing values have the least key
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rankwood._core import checks, threads
from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.threads import lazy
from rankwood.binning.bins import MISSING_BIN, Bins
from rankwood.binning.folder import CodedFeatures, coded_features
from rankwood.data.frames import RowsElsewhere
from rankwood.dtypes import SCORE, Array, Features, Floats, Rows
from rankwood.errors import DataError, ModelError
from rankwood.models.validate import NODE, features_of, refuse_other_columns
from rankwood.trees.subsets import holds, word_of

if TYPE_CHECKING:
    from rankwood.models.forest import Forest

_LEAST_WALKS = (
    200_000  # documents × trees per thread, about 2 ms; a thread for less costs more than it saves
)

_GATHERED_ROWS = 1 << 16  # rows copied at a time if not all rows are scored

_NO_BITS = checks.read_only(np.zeros((0, 1), np.uint32))
_NO_CODES = checks.read_only(np.zeros((0, 0), np.uint8))
_NO_TOTALS = np.zeros(0, SCORE)
_NO_LEAVES = np.zeros((0, 0), NODE)

_WORD_BITS = 32  # bits of a packed node for the column and the left child

LEAST_KEY = -(2**31)  # below that of -inf
GREATEST_KEY = 2**31 - 1  # above that of +inf
LANES = 8
BLOCK_KEYS = 5120  # 20 KiB of keys, which share a first-level cache of 32 KiB with a tree or two
MOST_GROUPS = 8  # groups of eight documents in a block
_INFINITY = 0x7F800000  # the bits of +inf: greater ones, without the sign, are NaN


def predict(
    forest: Forest, features: Any, n_threads: int | None, first_trees: int | None
) -> Floats:
    """The score of each row."""
    n_trees = _tree_count(forest, first_trees)
    elsewhere = getattr(features, "features", None)
    if isinstance(elsewhere, RowsElsewhere):
        refuse_other_columns(features, forest.n_features, forest.feature_names)
        return elsewhere.predict(forest, first_trees)
    rows = _ScoredRows.of(forest, features)
    totals = np.zeros(rows.n_rows, SCORE)
    rows.traverse(0, n_trees, totals, _NO_LEAVES, n_threads)
    return rows.by_source(scores_of(forest, totals, n_trees))


def predict_stages(
    forest: Forest, features: Any, every: int, n_threads: int | None
) -> Iterator[tuple[int, Floats]]:
    """Pairs (number of trees, scores); arguments are checked at the call, not at the first pair."""
    step = checks.whole_number("every", every, 1)
    return _stages(forest, _ScoredRows.of(forest, features), step, n_threads)


def predict_binned(
    forest: Forest, codes: Any, bins: Bins, n_threads: int | None, first_trees: int | None
) -> Floats:
    """The score of each row of binned features."""
    n_trees = _tree_count(forest, first_trees)
    columns = np.asarray(codes)
    if columns.dtype != np.uint8 or columns.ndim != 2:
        raise DataError(
            "codes must be a uint8 array of features × rows, "
            f"got {columns.dtype} of {columns.ndim} dimensions."
        )
    if len(columns) != forest.n_features:
        raise DataError(
            f"the model knows {forest.n_features:,} features, but the codes have {len(columns):,}."
        )
    packed = pack(forest, _bin_of_node(forest, bins))
    totals = np.zeros(columns.shape[1], SCORE)
    columns = checks.read_only(np.require(columns, requirements=["C", "ALIGNED"]))
    _traverse(packed, 0, n_trees, _NO_BITS, columns, totals, _NO_LEAVES, n_threads)
    return scores_of(forest, totals, n_trees)


def leaf_ids(forest: Forest, features: Any, n_threads: int | None) -> Array:
    """The leaf of each row in each tree, as its index within the tree."""
    rows = _ScoredRows.of(forest, features)
    leaves = np.empty((rows.n_rows, forest.n_trees), NODE)
    rows.traverse(0, forest.n_trees, _NO_TOTALS, leaves, n_threads)
    return rows.by_source(leaves)


def add_trees(
    forest: Forest,
    matrix: Features,
    rows: Rows,
    first_tree: int,
    last_tree: int,
    totals: Floats,
    n_threads: int | None,
) -> None:
    """Add the outputs of trees ``first_tree`` to ``last_tree`` for ``rows`` of a matrix to these rows' totals."""
    bits = bits_of(matrix, forest)
    for begin in range(0, rows.size, _GATHERED_ROWS):
        chosen = rows[begin : begin + _GATHERED_ROWS]
        sums = totals[chosen]
        _traverse(
            forest.packed,
            first_tree,
            last_tree,
            checks.read_only(bits[chosen]),
            _NO_CODES,
            sums,
            _NO_LEAVES,
            n_threads,
        )
        totals[chosen] = sums


def scores_of(forest: Forest, totals: Floats, n_trees: int) -> Floats:
    """Scores from sums over the first ``n_trees`` trees, computed in place."""
    if forest.average:
        totals /= divisors(forest)[n_trees]
    totals += forest.base
    return totals


def divisors(forest: Forest) -> Floats:
    """The divisor of the sum of the first 0, 1, 2, … trees: their weight if they are averaged, else 1."""
    weights = np.zeros(forest.n_trees + 1)
    if forest.average:
        np.cumsum(forest.tree_weights, out=weights[1:])
    return np.where(weights > 0, weights, 1.0)


def bits_of(matrix: Features, forest: Forest) -> Array:
    """The values viewed as uint32, from which kernels compute keys; the codes of categories as they are."""
    bits = matrix.view(np.uint32)
    if forest.categorical is not None:
        bits = bits.copy()
        for feature in np.flatnonzero(forest.is_categorical).tolist():
            is_known = ~np.isnan(matrix[:, feature])
            bits[is_known, feature] = matrix[is_known, feature].astype(np.uint32)
    return checks.read_only(bits)


def _stages(
    forest: Forest, rows: _ScoredRows, step: int, n_threads: int | None
) -> Iterator[tuple[int, Floats]]:
    totals = np.zeros(rows.n_rows, SCORE)
    for first in range(0, forest.n_trees, step):
        last = min(first + step, forest.n_trees)
        rows.traverse(first, last, totals, _NO_LEAVES, n_threads)
        yield last, rows.by_source(scores_of(forest, totals.copy(), last))


class Walker(Protocol):
    """Walks rows down trees in the place of the threads of this process."""

    def walk(
        self, forest: PackedForest, trees: range, rows: Array, found: Array, n_threads: int | None
    ) -> None:
        """Add the trees' values to ``found``, a number for each row; or write leaves, where it is rows × all trees.

        ``rows`` are the bits of float32 values, rows × features, or codes, features × rows.
        """
        ...


_walker: ContextVar[Walker | None] = ContextVar("walker", default=None)


@contextlib.contextmanager
def walked_by(walker: Walker) -> Iterator[None]:
    """Within this context, and this thread, another one walks rows down trees; scores are the same."""
    token = _walker.set(walker)
    try:
        yield
    finally:
        _walker.reset(token)


@dataclass(frozen=True, eq=False)
class _ScoredRows:
    """The rows that trees are asked about: their values, or the codes of binned data that lie in a folder."""

    packed: PackedForest
    bits: Array
    stored: CodedFeatures | None = None

    @classmethod
    def of(cls, forest: Forest, features: Any) -> _ScoredRows:
        """The rows of a table, or of data that are binned already."""
        stored = coded_features(features)
        if stored is None:
            return cls(forest.packed, bits_of(features_of(features, forest), forest))
        refuse_other_columns(features, forest.n_features, forest.feature_names)
        return cls(pack(forest, _bin_of_node(forest, stored.bins)), _NO_BITS, stored)

    @lazy
    def codes(self) -> Array:
        """The codes, as kernels take them."""
        if self.stored is None:
            return _NO_CODES
        columns = np.require(self.stored.columns, requirements=["C", "ALIGNED"])
        return checks.read_only(columns)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.bits) if self.stored is None else int(self.codes.shape[1])

    def traverse(
        self, first: int, last: int, totals: Floats, leaves: Array, n_threads: int | None
    ) -> None:
        """Add the trees ``first`` to ``last`` to the totals, or mark the rows' leaves."""
        _traverse(self.packed, first, last, self.bits, self.codes, totals, leaves, n_threads)

    def by_source(self, values: Array) -> Array:
        """Values by row, in the caller's order."""
        return values if self.stored is None else self.stored.by_source(values)


def _traverse(
    forest: PackedForest,
    first_tree: int,
    last_tree: int,
    bits: Array,
    codes: Array,
    totals: Floats,
    leaves: Array,
    n_threads: int | None,
) -> None:
    """Call ``traverse`` on all rows of ``bits``, or of ``codes`` if ``bits`` is ``_NO_BITS``, with threads."""
    from_codes = bits is _NO_BITS
    if (walker := _walker.get()) is not None:
        rows, found = codes if from_codes else bits, totals if leaves is _NO_LEAVES else leaves
        walker.walk(forest, range(first_tree, last_tree), rows, found, n_threads)
        return
    n_rows = codes.shape[1] if from_codes else len(bits)
    arguments = (
        first_tree,
        last_tree,
        bits,
        codes,
        from_codes,
        MISSING_BIN,
        forest.columns,
        forest.missing_keys,
        forest.offsets,
        forest.packed,
        forest.left_shift,
        forest.wide,
        forest.subsets,
        forest.values,
        forest.numbers,
        leaves is not _NO_LEAVES,
        totals,
        leaves,
    )
    least = max(1, _LEAST_WALKS // max(1, last_tree - first_tree))
    if n_threads is None and n_rows < 2 * least:
        traverse(0, n_rows, *arguments)  # counting the cores would take longer
    else:
        threads.run_blocks(traverse, n_rows, *arguments, n_threads=n_threads, least=least)


def _tree_count(forest: Forest, first_trees: int | None) -> int:
    if first_trees is None:
        return forest.n_trees
    return checks.whole_number("first_trees", first_trees, 0, forest.n_trees)


def _bin_of_node(forest: Forest, bins: Bins) -> Array:
    """The bin whose threshold is that of each inner node; 0 for leaves."""
    n_features = bins.offsets.size - 1
    if n_features != forest.n_features:
        raise DataError(
            f"the model knows {forest.n_features:,} features, but the bins are of {n_features:,}."
        )
    bin_of_node = np.zeros(forest.n_nodes, np.int64)
    for feature in np.unique(forest.feature[forest.feature >= 0]).tolist():
        nodes = np.flatnonzero(forest.feature == feature)
        if forest.is_categorical[feature]:
            if not bins.is_categorical.size or not bins.is_categorical[feature]:
                raise DataError(
                    f"feature {feature} is categorical for the model, but the bins are of numbers. Score the raw "
                    "values."
                )
            continue  # codes of bins are those of categories
        thresholds = bins.thresholds[bins.offsets[feature] : bins.offsets[feature + 1]]
        bins_of_nodes = np.searchsorted(thresholds, forest.threshold[nodes])
        known = np.append(thresholds, np.float32(np.nan))[bins_of_nodes] == forest.threshold[nodes]
        if not known.all():
            node = int(nodes[np.argmin(known)])
            raise ModelError(
                f"node {node} tests feature {feature} at {float(forest.threshold[node]):g}, which "
                "is not among the thresholds of the bins. Score the raw values instead."
            )
        bin_of_node[nodes] = bins_of_nodes
    return bin_of_node


# The layout of a forest for scoring.


@dataclass(frozen=True, eq=False)
class PackedForest:
    """Arrays for the kernels: ``packed`` words, or ``wide`` rows if words do not suffice; the other is empty."""

    columns: Rows  # the feature behind each column of keys
    missing_keys: Array  # key of a missing value, of each column
    offsets: Rows
    packed: Array
    left_shift: int
    wide: Array
    subsets: Array  # categories that go left, by node; empty without categories
    values: Floats  # of each node, times its tree's weight
    numbers: Array  # index of each node within its tree, in the forest's order


def ordered_keys(values: Array) -> Rows:
    """Whole numbers between -2^31 and 2^31 that order as the float32 ``values`` do; -0 equals 0."""
    bits = values.view(np.uint32).astype(np.int64)
    magnitude = bits & 0x7FFFFFFF
    return np.where(bits == magnitude, magnitude, -magnitude)


def pack(forest: Forest, keys: Rows) -> PackedForest:
    """The packed form of ``forest``, with ``keys`` instead of its thresholds."""
    is_inner = forest.feature >= 0
    sizes = np.diff(forest.tree_offsets)
    root = np.repeat(forest.tree_offsets[:-1], sizes)
    # A feature has one column for splits with missing values left, and one for missing values right.
    goes_right = is_inner & (forest.missing == forest.right)
    pair = np.where(is_inner, 2 * forest.feature.astype(np.int64) + goes_right, -1)
    pairs, column = np.unique(pair[is_inner], return_inverse=True)
    left_shift = (LANES * max(1, pairs.size) - 1).bit_length()
    left_bits = int(sizes.max(initial=1) - 1).bit_length()
    has_third = is_inner & ~goes_right & (forest.missing != forest.left)
    has_categories = len(forest.subsets) > 0
    if has_third.any() or has_categories or left_shift + left_bits > _WORD_BITS:
        pairs, column = np.unique(pair[is_inner] // 2 * 2, return_inverse=True)
        position = np.arange(forest.n_nodes)
        packed, wide = np.zeros(0, np.int64), _wide_nodes(forest, keys, column, root)
    else:
        position = _beside_siblings(forest, root)
        packed = _packed_nodes(forest, keys, column, left_shift, position, root)
        wide = np.zeros((0, 6), np.int64)
    if pairs.size == 0:
        pairs = np.zeros(1, np.int64)  # leaves read a key too, without effect
    missing_keys = np.where(pairs % 2, GREATEST_KEY, LEAST_KEY).astype(np.int32)
    values = np.empty(forest.n_nodes)
    values[position] = forest.value * np.repeat(forest.tree_weights, sizes)
    numbers = np.empty(forest.n_nodes, NODE)
    numbers[position] = np.arange(forest.n_nodes) - root
    return PackedForest(
        read_only(pairs // 2),
        read_only(missing_keys),
        forest.tree_offsets,
        read_only(packed),
        left_shift,
        read_only(wide),
        read_only(forest.subsets),
        read_only(values),
        read_only(numbers),
    )


def _beside_siblings(forest: Forest, root: Rows) -> Rows:
    """New positions of the nodes with siblings adjacent: the children of a tree's k-th inner node come k-th."""
    inner = np.flatnonzero(forest.feature >= 0)
    n_inner_before: Rows = np.cumsum(forest.feature >= 0) - (forest.feature >= 0)
    turn: Rows = n_inner_before[inner] - n_inner_before[root[inner]]
    position = root.copy()
    position[forest.left[inner]] += 1 + 2 * turn
    position[forest.right[inner]] += 2 + 2 * turn
    return position


def _packed_nodes(
    forest: Forest, keys: Rows, column: Rows, left_shift: int, position: Rows, root: Rows
) -> Array:
    inner = np.flatnonzero(forest.feature >= 0)
    words = (GREATEST_KEY << 32) | ((position - root) << left_shift)  # leaves: their own left child
    left = position[forest.left[inner]] - root[inner]
    words[inner] = (keys[inner] << 32) | (left << left_shift) | (LANES * column)
    packed = np.empty(forest.n_nodes, np.int64)
    packed[position] = words
    return packed


def _wide_nodes(forest: Forest, keys: Rows, column: Rows, root: Rows) -> Array:
    inner = np.flatnonzero(forest.feature >= 0)
    wide = np.zeros((forest.n_nodes, 6), np.int64)
    wide[:, 0] = -1
    if len(forest.subsets):  # a leaf is each of its own children
        wide[:, 0] = 0
        wide[:, 2:5] = (np.arange(forest.n_nodes) - root)[:, np.newaxis]
    wide[inner, 0] = column
    wide[inner, 1] = keys[inner]
    for column_index, children in enumerate((forest.left, forest.right, forest.missing), start=2):
        wide[inner, column_index] = children[inner] - root[inner]
    wide[inner, 5] = forest.is_categorical[forest.feature[inner]]
    return wide


# Kernels.


@kernel
def traverse(
    first: int,
    last: int,
    first_tree: int,
    last_tree: int,
    bits: Array,
    codes: Array,
    from_codes: bool,
    missing_code: int,
    columns: Array,
    missing_keys: Array,
    offsets: Array,
    packed: Array,
    left_shift: int,
    wide: Array,
    subsets: Array,
    values: Array,
    numbers: Array,
    wants_leaves: bool,
    totals: Array,
    leaves: Array,
) -> None:
    """Add the trees' values to the rows' totals, or write the leaf of each row in each tree.

    Rows ``first`` to ``last`` are read from ``bits`` (rows × features, the bits of float32 values) or from ``codes``
    (features × rows, bin numbers). ``packed`` has no nodes if ``wide`` has; ``values`` and ``numbers`` are per node.
    """
    n_groups = max(1, min(MOST_GROUPS, BLOCK_KEYS // (LANES * columns.size)))
    n_groups = min(n_groups, (last - first + LANES - 1) // LANES)
    keys = np.empty((n_groups, LANES * columns.size), np.int32)
    leaf_nodes = np.empty(LANES * MOST_GROUPS, np.int64)
    is_wide = wide.shape[0] > 0
    for start in range(first, last, max(1, LANES * n_groups)):
        size = min(LANES * n_groups, last - start)
        if from_codes:
            fill_keys_from_codes(start, size, codes, columns, missing_code, missing_keys, keys)
        else:
            fill_keys(start, size, bits, columns, missing_keys, keys)
        together = size if is_wide else size // LANES * LANES
        for tree in range(first_tree, last_tree):
            root = offsets[tree]
            if is_wide:
                if subsets.shape[0] > 0:
                    walk_subsets(wide[root:], subsets[root:], keys, size, leaf_nodes)
                else:
                    walk_wide(wide[root:], keys, size, leaf_nodes)
            else:
                walk_documents(packed[root:], keys, together // LANES, left_shift, leaf_nodes)
            if wants_leaves:
                for document in range(together):
                    leaves[start + document, tree] = numbers[root + leaf_nodes[document]]
            else:
                for document in range(together):
                    totals[start + document] += values[root + leaf_nodes[document]]
        for document in range(together, size):
            group, lane = document // LANES, document % LANES
            for tree in range(first_tree, last_tree, LANES):
                walk_trees(
                    packed, offsets, tree, last_tree, keys[group], lane, left_shift, leaf_nodes
                )
                for turn in range(min(LANES, last_tree - tree)):
                    if wants_leaves:
                        leaves[start + document, tree + turn] = numbers[leaf_nodes[turn]]
                    else:
                        totals[start + document] += values[leaf_nodes[turn]]


@kernel
def fill_keys(
    start: int, size: int, bits: Array, columns: Array, missing_keys: Array, keys: Array
) -> None:
    """The keys of ``size`` rows from the bits of their float32 values."""
    for document in range(size):
        group, lane = document // LANES, document % LANES
        for column in range(columns.size):
            keys[group, LANES * column + lane] = key_of(
                bits[start + document, columns[column]], missing_keys[column]
            )


@kernel
def key_of(bits: int, missing_key: int) -> int:
    """The key of a float32 value from its bits; ``missing_key`` for NaN."""
    value = int(bits)
    magnitude = value & 0x7FFFFFFF
    if magnitude > _INFINITY:
        return int(missing_key)
    return magnitude if value == magnitude else -magnitude  # positive or negative


@kernel
def fill_keys_from_codes(
    start: int,
    size: int,
    codes: Array,
    columns: Array,
    missing_code: int,
    missing_keys: Array,
    keys: Array,
) -> None:
    """The keys of ``size`` rows from their bin numbers."""
    for column in range(columns.size):
        for document in range(size):
            key = int(codes[columns[column], start + document])
            if key == missing_code:
                key = int(missing_keys[column])
            keys[document // LANES, LANES * column + document % LANES] = key


@kernel
def step(node: int, keys: Array, lane: int, left_shift: int) -> int:
    """The index, within the tree, of the child that a document goes to; of the leaf itself if ``node`` is one."""
    word = node & 0xFFFFFFFF
    # An unsigned index avoids the test for negative indices.
    key = np.int64(keys[np.uint64((word & ((1 << left_shift) - 1)) + lane)])
    return (word >> left_shift) + (1 if key << 32 > node else 0)


@kernel
def walk_documents(
    tree: Array, keys: Array, n_groups: int, left_shift: int, leaf_nodes: Array
) -> None:
    """The leaf of each document of ``n_groups`` groups of eight in one packed tree."""
    for group in range(n_groups):
        of_group = keys[group]
        a = b = c = d = e = f = g = h = 0
        moved = 1
        while moved != 0:
            next_a = step(tree[np.uint64(a)], of_group, 0, left_shift)
            next_b = step(tree[np.uint64(b)], of_group, 1, left_shift)
            next_c = step(tree[np.uint64(c)], of_group, 2, left_shift)
            next_d = step(tree[np.uint64(d)], of_group, 3, left_shift)
            next_e = step(tree[np.uint64(e)], of_group, 4, left_shift)
            next_f = step(tree[np.uint64(f)], of_group, 5, left_shift)
            next_g = step(tree[np.uint64(g)], of_group, 6, left_shift)
            next_h = step(tree[np.uint64(h)], of_group, 7, left_shift)
            moved = (a ^ next_a) | (b ^ next_b) | (c ^ next_c) | (d ^ next_d)
            moved |= (e ^ next_e) | (f ^ next_f) | (g ^ next_g) | (h ^ next_h)
            a, b, c, d = next_a, next_b, next_c, next_d
            e, f, g, h = next_e, next_f, next_g, next_h
        of_leaves = leaf_nodes[LANES * group : LANES * (group + 1)]
        of_leaves[0], of_leaves[1], of_leaves[2], of_leaves[3] = a, b, c, d
        of_leaves[4], of_leaves[5], of_leaves[6], of_leaves[7] = e, f, g, h


@kernel
def walk_trees(
    packed: Array,
    offsets: Array,
    tree: int,
    last_tree: int,
    keys: Array,
    lane: int,
    left_shift: int,
    nodes: Array,
) -> None:
    """The leaf of one document in up to eight packed trees, as positions in the whole array.

    Where fewer than eight trees are left, the last one is walked again.
    """
    for turn in range(LANES):
        nodes[turn] = offsets[min(tree + turn, last_tree - 1)]
    moved = True
    while moved:
        moved = False
        for turn in range(LANES):
            root = offsets[min(tree + turn, last_tree - 1)]
            node = root + step(packed[np.uint64(nodes[turn])], keys, lane, left_shift)
            moved |= node != nodes[turn]
            nodes[turn] = node


@kernel
def walk_wide(tree: Array, keys: Array, n_documents: int, leaf_nodes: Array) -> None:
    """The leaf of each document in one tree whose splits may have a third child for missing values."""
    for document in range(n_documents):
        group, lane = document // LANES, document % LANES
        node = 0
        while tree[node, 0] >= 0:
            key = int(keys[group, LANES * tree[node, 0] + lane])
            if key == LEAST_KEY:
                node = tree[node, 4]
            elif key <= tree[node, 1]:
                node = tree[node, 2]
            else:
                node = tree[node, 3]
        leaf_nodes[document] = node


@kernel
def walk_subsets(
    tree: Array, subsets: Array, keys: Array, n_documents: int, leaf_nodes: Array
) -> None:
    """As ``walk_wide`` in one tree whose splits may be of categories: eight documents together, without branches."""
    for first in range(0, n_documents, LANES):
        of_group = keys[first // LANES]
        n_lanes = min(LANES, n_documents - first)
        for lane in range(n_lanes):
            leaf_nodes[first + lane] = 0
        moved = True
        while moved:
            moved = False
            for lane in range(n_lanes):
                node = np.uint64(leaf_nodes[first + lane])
                key = np.int64(of_group[np.uint64(LANES * tree[node, 0] + lane)])
                # Both tests, of which one counts: a branch would be mispredicted every other time.
                category = np.uint64(key)
                is_held = np.int64(holds(subsets[node, word_of(category)], category))
                is_low = np.int64(key <= tree[node, 1])
                goes_left = is_low + tree[node, 5] * (is_held - is_low)
                is_missing = np.int64(key == LEAST_KEY)
                below = tree[node, np.uint64(3 - goes_left + is_missing * (1 + goes_left))]
                moved |= below != np.int64(node)
                leaf_nodes[first + lane] = below
