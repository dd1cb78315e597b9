"""Best-first growth: the leaf of greatest gain is split next, until no leaf can be split or a limit is reached.

``grow`` is the loop, for any number of threads. A turn searches the new leaves for their best splits, then splits one
leaf. On one thread, ``grow`` grows the whole tree in one call, without the GIL, so that the trees of a forest grow in
parallel. With more, it returns whenever a leaf is large enough for several threads; the caller shares the features of
that leaf among its threads (``search_candidates``) and calls ``grow`` again. The state of the loop is in
``work.counters``.

Three devices save time and do not change the tree:

* Subtraction: where all nodes search the same features, the larger child's histograms are the parent's minus the
  smaller child's.
* Early splits: children whose gain makes it likely that they will be split are split at once, while their rows are
  in the cache. Nodes that were split early but are never selected stay leaves.
* Counting on demand: where weights are not row counts, rows are counted for the best candidate only.
"""

from __future__ import annotations

import numpy as np

from rankwood._core.jit import kernel
from rankwood.binning.bins import N_CODES
from rankwood.trees.histograms import add_one_column, build_histograms, clear, subtract_histograms
from rankwood.trees.partition import add_node, split_node
from rankwood.trees.random_trees import split_randomly
from rankwood.trees.splitting import space_for_cuts, split_candidate, split_features
from rankwood.trees.workspace import (
    COMPLETELY_RANDOM,
    HEAP_SIZE,
    LAST_SLOT,
    LAST_SPLIT,
    N_CANDIDATES,
    N_LEAVES,
    N_NODES,
    N_NUMBERED,
    N_SEARCHED,
    N_WAITING,
    NO_NODE,
    NO_SPLIT,
    SEARCHED,
    SELECTED,
    SUBTRACTED,
    mix,
    uniform,
)

ROOT = 0


@kernel
def grow(matrix, bag, rules, candidates, nodes, work):
    """Grow the tree; return False when it is complete, True when threads are to search the leaf SEARCHED.

    After True the caller runs ``search_candidates`` on blocks of the ``work.counters[N_CANDIDATES]`` candidates and
    calls again. ``work.counters`` are zero before the first call.
    """
    counters = work.counters
    if counters[N_NODES] == 0:
        add_root(bag, rules, nodes, work)
    else:
        choose_split(matrix, bag, rules, candidates, nodes, work)
    while True:
        while counters[N_SEARCHED] < counters[N_NODES]:
            node = next_new_leaf(rules, nodes, work)
            if not can_split(node, bag, rules, nodes):
                continue
            if rules.threshold_rule == COMPLETELY_RANDOM:
                split_randomly(node, matrix, bag, nodes)
                continue
            choose_candidates(node, matrix, candidates, nodes, work)
            smaller = counters[SUBTRACTED]
            if smaller != NO_NODE and not can_split(smaller, bag, rules, nodes):
                fill_histograms(0, counters[N_CANDIDATES], smaller, matrix, bag, nodes, work)
            if cost_of_search(nodes, work) >= rules.least_shared:
                return True
            search_candidates(
                0, counters[N_CANDIDATES], matrix, bag, rules, candidates, nodes, work
            )
            choose_split(matrix, bag, rules, candidates, nodes, work)
        node = next_to_split(rules, nodes, work)
        if node == NO_NODE:
            return False
        split_node(node, matrix, bag, rules, candidates, nodes, work)
        counters[LAST_SPLIT] = node
        n_leaves = counters[N_LEAVES] + n_children(node, nodes)
        if node == counters[SELECTED] and n_leaves > rules.max_leaves:
            counters[N_SEARCHED] = counters[N_NODES]  # it is the last split
        elif rules.can_subtract:
            give_slots(node, nodes, work)


@kernel
def add_root(bag, rules, nodes, work):
    """Add the root, with all rows."""
    counters = work.counters
    counters[N_LEAVES] = 1
    counters[LAST_SPLIT] = NO_NODE
    counters[SELECTED] = NO_NODE
    path = mix(np.uint64(rules.stream))
    end = np.int64(bag.rows.size)
    zero = np.int64(0)
    add_node(nodes, work, bag, rules, zero, end, zero, zero, path, zero, -np.inf, np.inf)
    nodes.number[ROOT] = 0
    counters[N_NUMBERED] = 1


# The next leaf to split.


@kernel
def next_to_split(rules, nodes, work):
    """The leaf that is split next, when all leaves have been searched; NO_NODE if the tree is complete.

    Leaves below the selected node that are likely to be split come first. Then its children become leaves of the tree,
    and the leaf of greatest gain is selected. Nodes split early but never selected stay leaves: splitting early
    changes speed only.
    """
    counters = work.counters
    node = counters[SELECTED]
    if node == NO_NODE:
        offer_leaf(ROOT, nodes, work)
    else:
        push_likely(counters[LAST_SPLIT], rules, nodes, work)
        if counters[N_WAITING] > 0 and counters[N_NODES] + 3 <= rules.most_explored:
            counters[N_WAITING] -= 1
            return work.waiting[counters[N_WAITING]]
        counters[N_WAITING] = 0
        add_children_to_tree(node, nodes, work)
    while counters[HEAP_SIZE] > 0 and counters[N_LEAVES] < rules.max_leaves:
        node = take_best_leaf(nodes, work)
        if nodes.left[node] == 0:
            counters[SELECTED] = node
            return node
        add_children_to_tree(node, nodes, work)  # it was split early
    return NO_NODE


@kernel
def push_likely(node, rules, nodes, work):
    """Push the children of a node that are likely to be split onto the stack of early splits."""
    for child in range(nodes.left[node] + n_children(node, nodes) - 1, nodes.left[node] - 1, -1):
        if nodes.feature[child] >= 0 and nodes.gain[child] >= rules.likely_gain:
            work.waiting[work.counters[N_WAITING]] = child
            work.counters[N_WAITING] += 1


@kernel
def n_children(node, nodes):
    """Two, or three if missing values have a child of their own."""
    missing = nodes.missing[node]
    return 2 if missing in (nodes.left[node], nodes.right[node]) else 3


@kernel
def add_children_to_tree(node, nodes, work):
    """Make the children of a selected node leaves of the tree: number them, and offer them for splitting."""
    last = nodes.left[node] + n_children(node, nodes)
    for child in range(nodes.left[node], last):
        nodes.number[child] = work.counters[N_NUMBERED]
        work.counters[N_NUMBERED] += 1
        offer_leaf(child, nodes, work)
    work.counters[N_LEAVES] += last - nodes.left[node] - 1


@kernel
def give_slots(node, nodes, work):
    """Give the children of a node slots of the histogram pool; the larger one of two takes its parent's."""
    left = nodes.left[node]
    last = left + n_children(node, nodes)
    larger = NO_NODE
    if last - left == 2:
        right = nodes.right[node]
        n_left = nodes.end[left] - nodes.begin[left]
        larger = right if n_left <= nodes.end[right] - nodes.begin[right] else left
    for child in range(left, last):
        if child == larger:
            nodes.slot[child] = nodes.slot[node]
        else:
            work.counters[LAST_SLOT] += 1
            nodes.slot[child] = work.counters[LAST_SLOT]


# Searching a leaf.


@kernel
def next_new_leaf(rules, nodes, work):
    """The next leaf to search; of two children the smaller one comes first if it is subtracted from their parent."""
    counters = work.counters
    node = counters[N_SEARCHED]
    counters[N_SEARCHED] += 1
    counters[SUBTRACTED] = NO_NODE
    parent = counters[LAST_SPLIT]
    if rules.can_subtract and parent != NO_NODE and n_children(parent, nodes) == 2:
        left = nodes.left[parent]
        right = nodes.right[parent]
        left_is_larger = nodes.slot[left] == nodes.slot[parent]
        smaller = right if left_is_larger else left
        larger = left if left_is_larger else right
        if node == left:
            node = smaller
        else:
            node = larger
            counters[SUBTRACTED] = smaller
    counters[SEARCHED] = node
    return node


@kernel
def can_split(node, bag, rules, nodes):
    """Whether depth and rows allow a split, and the targets are not all equal."""
    if nodes.depth[node] >= rules.max_depth or nodes.n_rows[node] < 2 * rules.min_leaf:
        return False
    if nodes.end[node] - nodes.begin[node] < rules.min_split:
        return False
    mask = (np.int64(1) << rules.bits) - 1
    total = np.int64(0)
    weight = np.int64(0)
    for index in range(nodes.begin[node], nodes.end[node]):
        packed = bag.packed_targets[index]
        if weight == 0:  # all rows so far have no weight
            total = packed >> rules.bits
            weight = packed & mask
        elif (packed >> rules.bits) * weight != total * (packed & mask):
            return True
    return False


@kernel
def choose_candidates(node, matrix, candidates, nodes, work):
    """Draw the features that the node searches."""
    path = nodes.path[node]
    n_features = matrix.columns.shape[0]
    work.counters[N_CANDIDATES] = draw_features(
        path, nodes.position[node], n_features, candidates, work.keys, work.features
    )


@kernel
def cost_of_search(nodes, work):
    """The number of sums that ``search_candidates`` updates or reads."""
    counters = work.counters
    node = counters[SEARCHED]
    n_rows = nodes.end[node] - nodes.begin[node] if counters[SUBTRACTED] == NO_NODE else 0
    return counters[N_CANDIDATES] * (n_rows + N_CODES)


@kernel
def search_candidates(first, last, matrix, bag, rules, candidates, nodes, work):
    """Histograms and best splits of the candidates ``first`` to ``last`` of the leaf SEARCHED."""
    node = work.counters[SEARCHED]
    smaller = work.counters[SUBTRACTED]
    if smaller == NO_NODE:
        fill_histograms(first, last, node, matrix, bag, nodes, work)
    else:
        own = work.histograms[nodes.slot[node]]
        subtract_histograms(first, last, own, work.histograms[nodes.slot[smaller]])
    split_features(first, last, node, matrix, rules, candidates, nodes, work)


@kernel
def fill_histograms(first, last, node, matrix, bag, nodes, work):
    """Build the node's histograms for the candidates ``first`` to ``last``."""
    begin = nodes.begin[node]
    end = nodes.end[node]
    histograms = work.histograms[nodes.slot[node]]
    build_histograms(
        first, last, matrix, bag.rows, bag.packed_targets, begin, end, work.features, histograms
    )


@kernel
def choose_split(matrix, bag, rules, candidates, nodes, work):
    """Store the best of the candidates' splits in the leaf SEARCHED; of equal ones the first feature's.

    Where rows are counted separately, splits were searched without ``min_leaf``, so no gain is too low. The best
    candidate is then counted and searched again with ``min_leaf``, until the best candidate is one that was counted.
    """
    node = work.counters[SEARCHED]
    best = best_candidate(work)
    while rules.has_counts and best != NO_SPLIT and not work.is_counted[best]:
        column = matrix.columns[work.features[best]]
        clear(work.bin_counts)
        begin = nodes.begin[node]
        add_one_column(column, bag.rows, bag.counts, begin, nodes.end[node], work.bin_counts)
        cuts = space_for_cuts()
        counts = work.bin_counts
        split_candidate(best, node, counts, cuts, matrix, rules, candidates, nodes, work)
        work.is_counted[best] = True
        best = best_candidate(work)
    if best == NO_SPLIT:
        nodes.feature[node] = -1
        return
    nodes.feature[node] = work.features[best]
    nodes.code[node] = work.codes[best]
    nodes.side[node] = work.sides[best]
    nodes.gain[node] = work.gains[best]


@kernel
def best_candidate(work):
    """The index of the candidate of greatest gain, the first of equal ones; NO_SPLIT if none has a split."""
    best = NO_SPLIT
    for index in range(work.counters[N_CANDIDATES]):
        if work.codes[index] == NO_SPLIT:
            continue
        if best == NO_SPLIT or work.gains[index] > work.gains[best]:
            best = index
    return best


# The heap of leaves that can be split.


@kernel
def comes_before(one, other, nodes):
    """Whether leaf ``one`` is split before leaf ``other``: by gain, then by age."""
    if nodes.gain[one] != nodes.gain[other]:
        return nodes.gain[one] > nodes.gain[other]
    return nodes.number[one] < nodes.number[other]


@kernel
def offer_leaf(node, nodes, work):
    """Put a leaf that has a split into the heap."""
    if nodes.feature[node] < 0:
        return
    heap = work.heap
    index = work.counters[HEAP_SIZE]
    work.counters[HEAP_SIZE] += 1
    while index > 0:
        above = (index - 1) // 2
        if not comes_before(node, heap[above], nodes):
            break
        heap[index] = heap[above]
        index = above
    heap[index] = node


@kernel
def take_best_leaf(nodes, work):
    """Remove and return the leaf that comes before all others."""
    heap = work.heap
    best = heap[0]
    work.counters[HEAP_SIZE] -= 1
    size = work.counters[HEAP_SIZE]
    last = heap[size]
    index = 0
    while True:
        below = 2 * index + 1
        if below >= size:
            break
        if below + 1 < size and comes_before(heap[below + 1], heap[below], nodes):
            below += 1
        if comes_before(last, heap[below], nodes):
            break
        heap[index] = heap[below]
        index = below
    heap[index] = last
    return best


# The features that a node searches.


@kernel
def draw_features(path, position, n_features, candidates, keys, chosen):
    """Fill ``chosen`` with features in ascending order; return how many there are."""
    if 0 <= position < candidates.given.size:
        chosen[0] = candidates.given[position]
        return np.int64(1)
    if chosen.size == n_features:
        for feature in range(n_features):
            chosen[feature] = feature
        return np.int64(n_features)
    if candidates.probability.size > 0:
        return draw_by_probability(path, candidates.probability, keys, chosen)
    return draw_uniformly(path, n_features, chosen)


@kernel
def draw_uniformly(path, n_features, chosen):
    """Selection sampling (Knuth's algorithm S): all sets of ``chosen.size`` features are equally likely."""
    n_chosen = 0
    for feature in range(n_features):
        if uniform(path, feature) * (n_features - feature) < chosen.size - n_chosen:
            chosen[n_chosen] = feature
            n_chosen += 1
    return np.int64(n_chosen)


@kernel
def draw_by_probability(path, probability, keys, chosen):
    """Draw without replacement, each time in proportion to ``probability`` (keys of Efraimidis and Spirakis)."""
    for feature in range(probability.size):
        draw = uniform(path, feature)
        is_possible = probability[feature] > 0.0
        keys[feature] = -np.log1p(-draw) / probability[feature] if is_possible else np.inf
    n_chosen = 0
    for _ in range(chosen.size):
        least = np.argmin(keys)
        if keys[least] == np.inf:
            break
        keys[least] = np.inf
        index = n_chosen
        while index > 0 and chosen[index - 1] > least:  # keep them ascending
            chosen[index] = chosen[index - 1]
            index -= 1
        chosen[index] = least
        n_chosen += 1
    return np.int64(n_chosen)
