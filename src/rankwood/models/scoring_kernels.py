"""Documents through trees.

Words used here
    key        a value as a signed 32-bit integer that orders as the values do; -0 equals 0
    column     a feature that some split tests, and where its missing values go: left, with the least key, or
               right, with the greatest
    lane       one of eight documents whose keys lie side by side: those of column c at 8 c, 8 c + 1, …, 8 c + 7
    place      a node by its position within its tree; the root is at place 0
    packed     nodes of trees with two children per split, one 64-bit word each, siblings side by side::

                   63        32 31         left_shift         0
                   | threshold | left child | eight × column |

               A document goes right when its key, moved to the upper half of a word, exceeds the node's word;
               going right is adding one to the left child's place, so that a step has no branch. A leaf is its
               own left child, and no key exceeds its threshold.
    wide       nodes as rows of five numbers (column or -1, threshold, left, right, missing), for splits in three;
               missing values have the least key

A block of documents small enough for the nearest cache goes through one tree after the other. Eight documents walk
down side by side, since the processor would otherwise wait for memory at each step. A document's trees are summed
in their order whatever block it is in, so its score does not depend on the company it is scored in.
"""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array

LEAST_KEY = -(2**31)  # below that of -inf
GREATEST_KEY = 2**31 - 1  # above that of +inf
LANES = 8
BLOCK_KEYS = 5120  # 20 KiB of keys beside a tree or two in 32 KiB of nearest cache
MOST_GROUPS = 8  # of eight documents in a block
_INFINITY = 0x7F800000  # the bits of +inf: greater ones, without the sign, are NaN


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
    places = np.empty(LANES * MOST_GROUPS, np.int64)
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
                walk_wide(wide[root:], keys, size, places)
            else:
                walk_documents(packed[root:], keys, together // LANES, left_shift, places)
            if wants_leaves:
                for document in range(together):
                    leaves[start + document, tree] = numbers[root + places[document]]
            else:
                for document in range(together):
                    totals[start + document] += values[root + places[document]]
        for document in range(together, size):
            group, lane = document // LANES, document % LANES
            for tree in range(first_tree, last_tree, LANES):
                walk_trees(packed, offsets, tree, last_tree, keys[group], lane, left_shift, places)
                for turn in range(min(LANES, last_tree - tree)):
                    if wants_leaves:
                        leaves[start + document, tree + turn] = numbers[places[turn]]
                    else:
                        totals[start + document] += values[places[turn]]


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
    """The key of a float32 value from its bits; a missing one has a key of its own."""
    value = int(bits)
    magnitude = value & 0x7FFFFFFF
    if magnitude > _INFINITY:
        return int(missing_key)
    return magnitude if value == magnitude else -magnitude  # the bits without, or with, a sign


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
    """The place of the child that a document goes to; a leaf's own place if ``node`` is one."""
    word = node & 0xFFFFFFFF
    # An unsigned index saves the test for indices that count from the end.
    key = np.int64(keys[np.uint64((word & ((1 << left_shift) - 1)) + lane)])
    return (word >> left_shift) + (1 if key << 32 > node else 0)


@kernel
def walk_documents(tree: Array, keys: Array, n_groups: int, left_shift: int, places: Array) -> None:
    """The leaf of each document of some groups of eight in one packed tree."""
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
        of_places = places[LANES * group : LANES * (group + 1)]
        of_places[0], of_places[1], of_places[2], of_places[3] = a, b, c, d
        of_places[4], of_places[5], of_places[6], of_places[7] = e, f, g, h


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
def walk_wide(tree: Array, keys: Array, n_documents: int, places: Array) -> None:
    """The leaf of each document in one tree whose splits may have a third child for missing values."""
    for document in range(n_documents):
        group, lane = document // LANES, document % LANES
        place = 0
        while tree[place, 0] >= 0:
            key = int(keys[group, LANES * tree[place, 0] + lane])
            if key == LEAST_KEY:
                place = tree[place, 4]
            elif key <= tree[place, 1]:
                place = tree[place, 2]
            else:
                place = tree[place, 3]
        places[document] = place
