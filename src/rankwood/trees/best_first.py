"""Best-first growth: the leaf of greatest gain is split next, until no leaf can be split or a limit is reached.

``grow`` is the loop, for any number of threads. It runs on one thread, without the GIL, so that the trees of a forest
grow in parallel. Where a tree has a team of threads, they share the large steps of the loop: splitting a node,
searching leaves, counting rows (``steps``). Three devices save time and do not change the tree:

* Subtraction: where all nodes search the same features, the larger child's histograms are the parent's minus the
  smaller child's.
* Early splits: children whose gain makes it likely that they will be split are split at once, while their rows are
  in the cache. Nodes that were split early but are never selected stay leaves.
* Counting on demand: where weights are not row counts, rows are counted for the best candidate only.
"""

from __future__ import annotations

import numpy as np

from rankwood._core.jit import borrowing, kernel
from rankwood.trees.partition import add_node
from rankwood.trees.splitting import sums_of_sides
from rankwood.trees.steps import (
    count_candidate,
    draw_split,
    mark_rows,
    search,
    split_node,
    sum_root,
)
from rankwood.trees.subsets import is_of_categories, sums_of_subset
from rankwood.trees.workspace import (
    COMPLETELY_RANDOM,
    HEAP_SIZE,
    LARGER,
    LAST_SLOT,
    N_CANDIDATES,
    N_LEAVES,
    N_NODES,
    N_NUMBERED,
    N_WORDS,
    NO_NODE,
    NO_SPLIT,
    OWN,
    bag_of,
    combine,
    mix,
    uniform,
)

ROOT = 0
OF_TREE = 3  # of the draw of a tree's features: 0 to 2 are the children of the root


@kernel
@borrowing
def grow(matrix, bag, rules, candidates, nodes, work, team):
    """Grow one tree, best leaf first; the calling thread leads the team."""
    plant(matrix, bag, rules, candidates, nodes, work, team)
    consider(np.int64(ROOT), matrix, bag, rules, candidates, nodes, work, team)
    offer_leaf(np.int64(ROOT), nodes, work)
    while work.counters[HEAP_SIZE] > 0 and work.counters[N_LEAVES] < rules.max_leaves:
        node = take_best_leaf(nodes, work)
        if nodes.left[node] == 0:
            explore(node, matrix, bag, rules, candidates, nodes, work, team)
        take_split(node, nodes, work)
    mark_rows(matrix, bag, rules, candidates, nodes, work, team)


@kernel
def explore(node, matrix, bag, rules, candidates, nodes, work, team):
    """Split the node, and then the nodes below it that are likely to be split, while their rows are in the cache.

    Nodes split early but never selected stay leaves: splitting early changes speed only.
    """
    split_node(node, matrix, bag, rules, candidates, nodes, work, team)
    if work.counters[N_LEAVES] + n_children(node, nodes) > rules.max_leaves:
        return  # it is the last split
    consider_children(node, matrix, bag, rules, candidates, nodes, work, team)
    n_waiting = push_likely(node, np.int64(0), rules, nodes, work)
    while n_waiting > 0 and work.counters[N_NODES] + 3 <= rules.most_explored:
        n_waiting -= 1
        node = work.waiting[n_waiting]
        split_node(node, matrix, bag, rules, candidates, nodes, work, team)
        consider_children(node, matrix, bag, rules, candidates, nodes, work, team)
        n_waiting = push_likely(node, n_waiting, rules, nodes, work)


@kernel
def push_likely(node, n_waiting, rules, nodes, work):
    """Push the children of a node that are likely to be split onto the stack; return its size."""
    for child in range(nodes.left[node] + n_children(node, nodes) - 1, nodes.left[node] - 1, -1):
        if nodes.feature[child] >= 0 and nodes.gain[child] >= rules.likely_gain:
            work.waiting[n_waiting] = child
            n_waiting += 1
    return n_waiting


@kernel
def n_children(node, nodes):
    """Two, or three if missing values have a child of their own."""
    missing = nodes.missing[node]
    return 2 if missing in (nodes.left[node], nodes.right[node]) else 3


@kernel
def take_split(node, nodes, work):
    """Make the children of a selected node leaves of the tree: number them, and offer them for splitting."""
    last = nodes.left[node] + n_children(node, nodes)
    for child in range(nodes.left[node], last):
        nodes.number[child] = work.counters[N_NUMBERED]
        work.counters[N_NUMBERED] += 1
        offer_leaf(child, nodes, work)
    work.counters[N_LEAVES] += last - nodes.left[node] - 1


@kernel
def plant(matrix, bag, rules, candidates, nodes, work, team):
    """Add the root, with all rows."""
    work.counters[:] = 0
    work.counters[N_LEAVES] = 1
    packed, n_rows = sum_root(matrix, bag, rules, candidates, nodes, work, team)
    root = add_node(nodes, work, np.int64(0), np.int64(bag.rows.size), packed, n_rows)
    work.open_groups[root] = True
    nodes.path[root] = mix(np.uint64(rules.stream))
    nodes.number[root] = 0
    work.counters[N_NUMBERED] = 1


@kernel
def consider(node, matrix, bag, rules, candidates, nodes, work, team):
    """Find the best split of a leaf, if there is one."""
    if not can_split(node, bag, rules, nodes, work):
        return
    if rules.threshold_rule == COMPLETELY_RANDOM:
        draw_split(node, matrix, bag, rules, candidates, nodes, work, team)
    else:
        choose_candidates(node, matrix, candidates, nodes, work)
        none, yes = np.int64(NO_NODE), np.int64(1)
        search(node, none, yes, matrix, bag, rules, candidates, nodes, work, team)
        choose_split(node, OWN, matrix, bag, rules, candidates, nodes, work, team)


@kernel
def consider_children(node, matrix, bag, rules, candidates, nodes, work, team):
    """Find the best splits of the children; of two, the larger one may be the parent minus the smaller one."""
    left = nodes.left[node]
    if rules.can_subtract and work.counters[N_NODES] - left == 2:
        smaller, larger = give_slots(node, nodes, work)
        choose_candidates(node, matrix, candidates, nodes, work)
        can_smaller = can_split(smaller, bag, rules, nodes, work)
        can_larger = can_split(larger, bag, rules, nodes, work)
        if can_smaller or can_larger:
            sibling = np.int64(larger if can_larger else NO_NODE)
            is_searched = np.int64(1 if can_smaller else 0)
            search(smaller, sibling, is_searched, matrix, bag, rules, candidates, nodes, work, team)
        if can_smaller:
            choose_split(smaller, OWN, matrix, bag, rules, candidates, nodes, work, team)
        if can_larger:
            choose_split(larger, LARGER, matrix, bag, rules, candidates, nodes, work, team)
        return
    for child in range(left, work.counters[N_NODES]):
        if rules.can_subtract:
            nodes.slot[child] = take_slot(work)
        consider(child, matrix, bag, rules, candidates, nodes, work, team)


@kernel
@borrowing
def can_split(node, bag, rules, nodes, work):
    """Whether depth and rows allow a split, and the targets are not all equal."""
    if nodes.depth[node] >= rules.max_depth or nodes.n_rows[node] < 2 * rules.min_leaf:
        return False
    if nodes.end[node] - nodes.begin[node] < rules.min_split:
        return False
    packed_targets = bag_of(nodes.buffer[node], bag, work).packed_targets
    mask = (np.int64(1) << rules.bits) - 1
    total = np.int64(0)
    weight = np.int64(0)
    for index in range(nodes.begin[node], nodes.end[node]):
        packed = packed_targets[index]
        if weight == 0 and total == 0:  # all rows so far have neither
            total = packed >> rules.bits
            weight = packed & mask
        elif (packed >> rules.bits) * weight != total * (packed & mask):
            return True
    return False


@kernel
def choose_candidates(node, matrix, candidates, nodes, work):
    """Draw the features that the node searches; their number is in N_CANDIDATES."""
    n_features = matrix.columns.shape[0]
    work.counters[N_CANDIDATES] = draw_candidates(
        node, n_features, candidates, nodes, work, work.features
    )


@kernel
def give_slots(node, nodes, work):
    """Give the larger child its parent's slot, and the smaller one a new slot; return the smaller and the larger."""
    left = nodes.left[node]
    right = nodes.right[node]
    left_is_smaller = nodes.end[left] - nodes.begin[left] <= nodes.end[right] - nodes.begin[right]
    smaller = left if left_is_smaller else right
    larger = right if left_is_smaller else left
    nodes.slot[larger] = nodes.slot[node]
    nodes.slot[smaller] = take_slot(work)
    return smaller, larger


@kernel
def take_slot(work):
    """A slot of the histogram pool that no leaf has."""
    work.counters[LAST_SLOT] += 1
    return work.counters[LAST_SLOT]


@kernel
def choose_split(node, which, matrix, bag, rules, candidates, nodes, work, team):
    """Store the best of the candidates' splits in the node; of equal ones the first feature's.

    Where rows are counted separately, splits were searched without ``min_leaf``, so no gain is too low. The best
    candidate is then counted and searched again with ``min_leaf``, until the best candidate is one that was counted.
    """
    best = best_candidate(which, work)
    while rules.has_counts and best != NO_SPLIT and not work.is_counted[which, best]:
        count_candidate(best, node, which, matrix, bag, rules, candidates, nodes, work, team)
        best = best_candidate(which, work)
    if best == NO_SPLIT:
        nodes.feature[node] = -1
        return
    nodes.feature[node] = work.features[best]
    nodes.code[node] = work.codes[which, best]
    nodes.side[node] = work.sides[which, best]
    nodes.gain[node] = work.gains[which, best]
    sums = work.histograms[nodes.slot[node], best]
    feature = nodes.feature[node]
    if is_of_categories(feature, matrix):
        subset = work.node_subsets[node]
        for word in range(N_WORDS):
            subset[word] = work.subsets[which, best, word]
        left_sum, missing_sum = sums_of_subset(
            sums, matrix.n_bins[feature], subset, nodes.side[node]
        )
    else:
        left_sum, missing_sum = sums_of_sides(sums, nodes.code[node], nodes.side[node])
    nodes.left_sum[node], nodes.missing_sum[node] = left_sum, missing_sum
    if rules.has_counts:
        nodes.left_rows[node] = work.left_rows[which, best]
        nodes.missing_rows[node] = work.missing_rows[which, best]
    else:
        mask = (np.int64(1) << rules.bits) - 1
        nodes.left_rows[node] = left_sum & mask
        nodes.missing_rows[node] = missing_sum & mask


@kernel
def best_candidate(which, work):
    """The index of the candidate of greatest gain, the first of equal ones; NO_SPLIT if none has a split."""
    best = NO_SPLIT
    for index in range(work.counters[N_CANDIDATES]):
        if work.codes[which, index] == NO_SPLIT:
            continue
        if best == NO_SPLIT or work.gains[which, index] > work.gains[which, best]:
            best = index
    return best


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
def draw_candidates(node, n_features, candidates, nodes, work, chosen):
    """Fill ``chosen`` with the features that a node searches, in ascending order; return how many there are."""
    path = nodes.path[node]
    if candidates.of_tree.size > 0 or candidates.groups.size > 0:
        n_allowed = allow_features(node, n_features, candidates, work)
        return draw_allowed(path, n_allowed, work.allowed, chosen)
    return draw_features(path, nodes.position[node], n_features, candidates, work.keys, chosen)


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
def draw_of_tree(stream, n_features, chosen):
    """Fill ``chosen`` with the features that the tree of a stream may split on, in ascending order."""
    draw_uniformly(combine(mix(np.uint64(stream)), np.int64(OF_TREE)), n_features, chosen)


@kernel
def allow_features(node, n_features, candidates, work):
    """Fill ``work.allowed`` with the tree's features that may meet those above the node; return how many there are."""
    groups, of_tree = candidates.groups, candidates.of_tree
    n_of_tree = of_tree.size if of_tree.size > 0 else n_features
    n_allowed = 0
    for index in range(n_of_tree):
        feature = of_tree[index] if of_tree.size > 0 else index
        is_allowed = groups.shape[0] == 0
        for group in range(groups.shape[0]):
            is_allowed |= work.open_groups[node, group] and groups[group, feature]
        if is_allowed:
            work.allowed[n_allowed] = feature
            n_allowed += 1
    return np.int64(n_allowed)


@kernel
def draw_allowed(path, n_allowed, allowed, chosen):
    """As ``draw_uniformly``, among the first ``n_allowed`` of some features; all where there are no more."""
    wanted = min(np.int64(chosen.size), n_allowed)
    n_chosen = 0
    for index in range(n_allowed):
        if uniform(path, allowed[index]) * (n_allowed - index) < wanted - n_chosen:
            chosen[n_chosen] = allowed[index]
            n_chosen += 1
    return np.int64(n_chosen)


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
