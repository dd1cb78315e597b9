"""Best-first growth: the leaf of greatest gain is split next, until no leaf can be split or a limit is reached.

``grow`` is the loop, for any number of threads. It runs on one thread, without the GIL, so that the trees of a forest
grow in parallel. Where a tree has a team of threads, the others run ``follow``: the candidates of a large leaf are
searched in blocks, and each thread takes the next block. Three devices save time and do not change the tree:

* Subtraction: where all nodes search the same features, the larger child's histograms are the parent's minus the
  smaller child's.
* Early splits: children whose gain makes it likely that they will be split are split at once, while their rows are
  in the cache. Nodes that were split early but are never selected stay leaves.
* Counting on demand: where weights are not row counts, rows are counted for the best candidate only.
"""

from __future__ import annotations

import numpy as np

from rankwood._core.jit import kernel
from rankwood._core.team import (
    JOB,
    NO_BLOCK,
    await_blocks,
    finish_block,
    next_block,
    share,
    take_block,
)
from rankwood.trees.histograms import add_one_column, build_histograms, clear, subtract_histograms
from rankwood.trees.partition import add_node, split_node
from rankwood.trees.random_trees import split_randomly
from rankwood.trees.splitting import space_for_cuts, split_candidate, split_features
from rankwood.trees.workspace import (
    COMPLETELY_RANDOM,
    HEAP_SIZE,
    LAST_SLOT,
    N_CANDIDATES,
    N_LEAVES,
    N_NODES,
    N_NUMBERED,
    NO_NODE,
    NO_SPLIT,
    mix,
    uniform,
)

ROOT = 0
LEAST_WIDTH = 4  # candidates in a block: as many as are summed in one pass


@kernel
def grow(matrix, bag, rules, candidates, nodes, work, team):
    """Grow one tree, best leaf first; the calling thread leads the team."""
    plant(bag, rules, nodes, work)
    consider(ROOT, matrix, bag, rules, candidates, nodes, work, team)
    offer_leaf(ROOT, nodes, work)
    while work.counters[HEAP_SIZE] > 0 and work.counters[N_LEAVES] < rules.max_leaves:
        node = take_best_leaf(nodes, work)
        if nodes.left[node] == 0:
            explore(node, matrix, bag, rules, candidates, nodes, work, team)
        take_split(node, nodes, work)


@kernel
def explore(node, matrix, bag, rules, candidates, nodes, work, team):
    """Split the node, and then the nodes below it that are likely to be split, while their rows are in the cache.

    Nodes split early but never selected stay leaves: splitting early changes speed only.
    """
    split_node(node, matrix, bag, rules, candidates, nodes, work)
    if work.counters[N_LEAVES] + n_children(node, nodes) > rules.max_leaves:
        return  # it is the last split
    consider_children(node, matrix, bag, rules, candidates, nodes, work, team)
    n_waiting = push_likely(node, 0, rules, nodes, work)
    while n_waiting > 0 and work.counters[N_NODES] + 3 <= rules.most_explored:
        n_waiting -= 1
        node = work.waiting[n_waiting]
        split_node(node, matrix, bag, rules, candidates, nodes, work)
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
def plant(bag, rules, nodes, work):
    """Add the root, with all rows."""
    work.counters[:] = 0
    work.counters[N_LEAVES] = 1
    root = mix(np.uint64(rules.stream))
    zero = np.int64(0)
    add_node(
        nodes,
        work,
        bag,
        rules,
        zero,
        np.int64(bag.rows.size),
        zero,
        zero,
        root,
        zero,
        -np.inf,
        np.inf,
    )
    nodes.number[ROOT] = 0
    work.counters[N_NUMBERED] = 1


@kernel
def consider(node, matrix, bag, rules, candidates, nodes, work, team):
    """Find the best split of a leaf, if there is one."""
    if not can_split(node, bag, rules, nodes):
        return
    if rules.threshold_rule == COMPLETELY_RANDOM:
        split_randomly(node, matrix, bag, nodes)
    else:
        choose_candidates(node, matrix, candidates, nodes, work)
        search(node, NO_NODE, matrix, bag, rules, candidates, nodes, work, team)
        choose_split(node, matrix, bag, rules, candidates, nodes, work)


@kernel
def consider_children(node, matrix, bag, rules, candidates, nodes, work, team):
    """Find the best splits of the children; of two, the larger one may be the parent minus the smaller one."""
    left = nodes.left[node]
    if rules.can_subtract and work.counters[N_NODES] - left == 2:
        smaller, larger = give_slots(node, nodes, work)
        choose_candidates(node, matrix, candidates, nodes, work)
        larger_can_split = can_split(larger, bag, rules, nodes)
        if can_split(smaller, bag, rules, nodes):
            search(smaller, NO_NODE, matrix, bag, rules, candidates, nodes, work, team)
            choose_split(smaller, matrix, bag, rules, candidates, nodes, work)
        elif larger_can_split:
            fill_histograms(0, work.counters[N_CANDIDATES], smaller, matrix, bag, nodes, work)
        if larger_can_split:
            search(larger, smaller, matrix, bag, rules, candidates, nodes, work, team)
            choose_split(larger, matrix, bag, rules, candidates, nodes, work)
        return
    for child in range(left, work.counters[N_NODES]):
        if rules.can_subtract:
            nodes.slot[child] = take_slot(work)
        consider(child, matrix, bag, rules, candidates, nodes, work, team)


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
    """Draw the features that the node searches; their number is in N_CANDIDATES."""
    path = nodes.path[node]
    n_features = matrix.columns.shape[0]
    work.counters[N_CANDIDATES] = draw_features(
        path, nodes.position[node], n_features, candidates, work.keys, work.features
    )


@kernel
def search(node, smaller, matrix, bag, rules, candidates, nodes, work, team):
    """Find the best split of each candidate of a leaf, with the whole team if the leaf is large.

    If the leaf has a ``smaller`` sibling, its slot holds its parent's histograms, and the sibling's are subtracted.
    """
    n_candidates = work.counters[N_CANDIDATES]
    n_sums = n_candidates * (nodes.end[node] - nodes.begin[node])
    if team.size == 1 or smaller != NO_NODE or n_sums < rules.least_shared:
        fill_and_split(0, n_candidates, node, smaller, matrix, bag, rules, candidates, nodes, work)
        return
    width = max(LEAST_WIDTH, n_candidates // (2 * team.size) // LEAST_WIDTH * LEAST_WIDTH)
    team.state[JOB] = node
    team.state[JOB + 1] = width
    share(team, (n_candidates + width - 1) // width)
    block = take_block(team)
    while block != NO_BLOCK:
        search_block(block, matrix, bag, rules, candidates, nodes, work, team)
        block = take_block(team)
    await_blocks(team)


@kernel
def follow(matrix, bag, rules, candidates, nodes, work, team):
    """Search blocks of candidates until the tree is complete: what the other threads of a team run."""
    block = next_block(team)
    while block != NO_BLOCK:
        search_block(block, matrix, bag, rules, candidates, nodes, work, team)
        block = next_block(team)


@kernel
def search_block(block, matrix, bag, rules, candidates, nodes, work, team):
    """Search one block of the candidates of the leaf that the team searches."""
    node = team.state[JOB]
    width = team.state[JOB + 1]
    last = min((block + 1) * width, work.counters[N_CANDIDATES])
    fill_and_split(block * width, last, node, NO_NODE, matrix, bag, rules, candidates, nodes, work)
    finish_block(team)


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
def fill_and_split(first, last, node, smaller, matrix, bag, rules, candidates, nodes, work):
    """Histograms and best splits of the candidates ``first`` to ``last``."""
    if smaller != NO_NODE:
        own = work.histograms[nodes.slot[node]]
        subtract_histograms(first, last, own, work.histograms[nodes.slot[smaller]])
    else:
        fill_histograms(first, last, node, matrix, bag, nodes, work)
    split_features(first, last, node, matrix, rules, candidates, nodes, work)


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
def choose_split(node, matrix, bag, rules, candidates, nodes, work):
    """Store the best of the candidates' splits in the node; of equal ones the first feature's.

    Where rows are counted separately, splits were searched without ``min_leaf``, so no gain is too low. The best
    candidate is then counted and searched again with ``min_leaf``, until the best candidate is one that was counted.
    """
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
