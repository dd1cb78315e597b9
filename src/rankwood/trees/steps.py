"""The steps of growth: splitting a node, searching leaves, counting rows, marking the leaf of every row.

A step is cut into blocks, of which each thread of a team takes the next one (``rankwood._core.team``). A block owns
what it writes, and sums are sums of integers, so that no result depends on the number of threads or on who takes which
block. Without a team, and where a step is small, it is a single block.

* Partition: the rows of a large node are cut into *parts*. Each part is read once to count the rows that go left and
  right. The counts give every part its places in the other *buffer*, and the rows are moved there in their order. Small
  nodes are partitioned in place.
* Histograms: large nodes are cut by rows and by candidates. Each part of the rows has histograms of its own; they are
  added up when the cuts are searched. Small nodes are cut by candidates only.
* Cuts: by candidates, of a leaf and of its larger sibling at once. The sibling's histograms are its parent's minus the
  leaf's own.

The functions that the loop of growth calls (``split_node``, ``search`` and so on) describe a step in ``team.state`` and
run it; ``do_block`` does one block of any step. The other threads run ``follow``.
"""

from __future__ import annotations

import numpy as np

from rankwood._core.jit import borrowing, kernel
from rankwood._core.team import (
    JOB,
    NO_BLOCK,
    await_blocks,
    finish_block,
    next_block,
    share,
    take_block,
)
from rankwood.trees.partition import add_children, count_sides, move_part, partition, sum_rows
from rankwood.trees.random_trees import split_randomly
from rankwood.trees.splitting import (
    add_histograms,
    build_histograms,
    clear,
    is_scattered,
    split_candidate,
    split_features,
    subtract_histograms,
    sums_of_sides,
)
from rankwood.trees.subsets import is_of_categories, map_categories, sums_of_subset
from rankwood.trees.workspace import LARGER, N_CANDIDATES, N_NODES, NO_NODE, OWN, bag_of

# The steps.
SUM, PARTITION, COUNT_SIDES, MOVE, FILL, SEARCH = 0, 1, 2, 3, 4, 5
SPLIT_RANDOMLY, COUNT_BINS, SPLIT_COUNTED, MARK = 6, 7, 8, 9

# What a step needs to know: the entries of ``team.state`` from JOB on.
STEP = JOB
NODE = JOB + 1
SIBLING = JOB + 2  # the larger sibling that is searched too, or NO_NODE
IS_SEARCHED = JOB + 3  # 0 if only the sibling is
N_PARTS = JOB + 4  # of the node's rows, or of all rows
N_GROUPS = JOB + 5  # of the candidates
CANDIDATE = JOB + 6  # whose rows are counted
WHICH = JOB + 7  # OWN or LARGER: where the candidate's results are

MOST_PARTS = 256  # of the rows of a node
MOST_HISTOGRAMS = 16  # of parts of a node's rows
BLOCKS_PER_THREAD = 2  # so that a thread that is late or slow costs little
LEAST_WIDTH = 4  # candidates in a group: as many as are summed in one pass
LEAST_SCATTERED_WIDTH = 32  # the same for scattered rows, of which each is some cache lines
SEARCH_COST = 1024  # sums that take as long as the search of a candidate's cuts


@kernel
@borrowing
def follow(matrix, bag, rules, candidates, nodes, work, team):
    """Do blocks until the tree is complete: what all threads of a team but the leader run."""
    block = next_block(team)
    while block != NO_BLOCK:
        do_block(block, matrix, bag, rules, candidates, nodes, work, team)
        finish_block(team)
        block = next_block(team)


@kernel
@borrowing
def run_step(n_blocks, matrix, bag, rules, candidates, nodes, work, team):
    """Do all blocks of the step that ``team.state`` describes, together with the threads that follow."""
    if n_blocks == 1:
        do_block(np.int64(0), matrix, bag, rules, candidates, nodes, work, team)
        return
    share(team, n_blocks)
    block = take_block(team)
    while block != NO_BLOCK:
        do_block(block, matrix, bag, rules, candidates, nodes, work, team)
        finish_block(team)
        block = take_block(team)
    await_blocks(team)


@kernel
@borrowing
def do_block(block, matrix, bag, rules, candidates, nodes, work, team):
    """Do one block of the step that ``team.state`` describes."""
    step = team.state[STEP]
    if step == SUM:
        sum_part(block, bag, rules, work, team)
    elif step == PARTITION:
        partition_in_place(matrix, bag, nodes, work, team)
    elif step == COUNT_SIDES:
        count_sides_of_part(block, matrix, bag, nodes, work, team)
    elif step == MOVE:
        move_rows_of_part(block, bag, nodes, work, team)
    elif step == FILL:
        fill_part(block, matrix, bag, nodes, work, team)
    elif step == SEARCH:
        search_group(block, matrix, bag, rules, candidates, nodes, work, team)
    elif step == SPLIT_RANDOMLY:
        split_randomly(team.state[NODE], matrix, bag, nodes, work.node_subsets)
    elif step == COUNT_BINS:
        count_bins_of_part(block, matrix, bag, nodes, work, team)
    elif step == SPLIT_COUNTED:
        split_counted(matrix, rules, candidates, nodes, work, team)
    else:
        mark_part(block, matrix, bag, nodes, work, team)


@kernel
@borrowing
def run_on_node(step, node, n_blocks, matrix, bag, rules, candidates, nodes, work, team):
    """Run a step that needs to know no more than its node and the number of parts."""
    team.state[STEP] = step
    team.state[NODE] = node
    team.state[N_PARTS] = n_blocks
    run_step(n_blocks, matrix, bag, rules, candidates, nodes, work, team)


@kernel
@borrowing
def n_parts_of(n_rows, least, team):
    """The parts into which rows are cut; 1 where it is not worth it."""
    if team.size == 1:
        return np.int64(1)
    return max(np.int64(1), min(n_rows // max(1, least), BLOCKS_PER_THREAD * team.size, MOST_PARTS))


@kernel
@borrowing
def bounds(block, n_blocks, begin, end):
    """The first and the last of the items ``begin`` to ``end`` that belong to a block."""
    n_items = end - begin
    return begin + n_items * block // n_blocks, begin + n_items * (block + 1) // n_blocks


# The sums of the root.


@kernel
@borrowing
def sum_root(matrix, bag, rules, candidates, nodes, work, team):
    """The packed sum of all rows, and how many were drawn."""
    n_parts = n_parts_of(bag.rows.size, rules.least_part, team)
    run_on_node(
        np.int64(SUM), np.int64(NO_NODE), n_parts, matrix, bag, rules, candidates, nodes, work, team
    )
    packed = np.int64(0)
    n_rows = np.int64(0)
    for part in range(n_parts):
        packed += work.part_sums[part, 0]
        n_rows += work.part_sums[part, 1]
    return packed, n_rows


@kernel
@borrowing
def sum_part(block, bag, rules, work, team):
    """The sums of one part of all rows."""
    begin, end = bounds(block, team.state[N_PARTS], np.int64(0), np.int64(bag.rows.size))
    work.part_sums[block, 0], work.part_sums[block, 1] = sum_rows(bag, begin, end, rules)


# Splitting a node.


@kernel
@borrowing
def split_node(node, matrix, bag, rules, candidates, nodes, work, team):
    """Turn a leaf into an inner node with two or three leaves, by the split stored in ``nodes``."""
    buffer = nodes.buffer[node]
    n_parts = n_parts_of(nodes.end[node] - nodes.begin[node], rules.least_part, team)
    if n_parts == 1:
        run_on_node(
            np.int64(PARTITION), node, n_parts, matrix, bag, rules, candidates, nodes, work, team
        )
        middle, absent = work.part_sums[0, 1], work.part_sums[0, 2]
    else:
        run_on_node(
            np.int64(COUNT_SIDES), node, n_parts, matrix, bag, rules, candidates, nodes, work, team
        )
        middle, absent = place_parts(n_parts, nodes.begin[node], work)
        run_on_node(
            np.int64(MOVE), node, n_parts, matrix, bag, rules, candidates, nodes, work, team
        )
        buffer = 1 - buffer
    rows = bag_of(buffer, bag, work)
    add_children(node, middle, absent, buffer, rows, rules, candidates, nodes, work)


@kernel
@borrowing
def partition_in_place(matrix, bag, nodes, work, team):
    """Partition a node in its own buffer; the places of its children are left in ``work.part_sums``."""
    node = team.state[NODE]
    begin = nodes.begin[node]
    buffer = nodes.buffer[node]
    own = bag_of(buffer, bag, work)
    column = matrix.columns[nodes.feature[node]]
    if map_node(node, matrix, own, begin, nodes.end[node], nodes, work):
        column = work.mapped_column
    aside = bag_of(1 - buffer, bag, work)
    start = (
        np.int64(0) if team.size == 1 else begin
    )  # of a team, only the node's own places are free
    work.part_sums[0, 1], work.part_sums[0, 2] = partition(
        column,
        nodes.code[node],
        nodes.side[node],
        own,
        begin,
        nodes.end[node],
        aside,
        start,
        work.row_codes,
    )


@kernel
@borrowing
def map_node(node, matrix, own, begin, end, nodes, work):
    """Whether a node is split by categories; then ``work.mapped`` says of each of its rows where it goes."""
    feature = nodes.feature[node]
    if not is_of_categories(feature, matrix):
        return False
    column = matrix.columns[feature]
    map_categories(column, work.node_subsets[node], own.rows, begin, end, work.mapped)
    return True


@kernel
@borrowing
def part_of_node(part, bag, nodes, work, team):
    """The node that is worked on, its rows, and where one part of them begins and ends."""
    node = team.state[NODE]
    begin, end = bounds(part, team.state[N_PARTS], nodes.begin[node], nodes.end[node])
    return node, bag_of(nodes.buffer[node], bag, work), begin, end


@kernel
@borrowing
def count_sides_of_part(block, matrix, bag, nodes, work, team):
    """Count the rows of one part that go to each child."""
    node, own, begin, end = part_of_node(block, bag, nodes, work, team)
    column = matrix.columns[nodes.feature[node]]
    if map_node(node, matrix, own, begin, end, nodes, work):
        column = work.mapped_column
    sums = work.part_sums[block]
    count_sides(column, nodes.code[node], nodes.side[node], own, begin, end, work.row_codes, sums)


@kernel
@borrowing
def place_parts(n_parts, begin, work):
    """Turn the counts of all parts into their places; return where the second and the third child begin."""
    place = begin
    for child in range(3):
        if child == 1:
            middle = place
        elif child == 2:
            absent = place
        for part in range(n_parts):
            n_rows = work.part_sums[part, child]
            work.part_sums[part, child] = place
            place += n_rows
    return middle, absent


@kernel
@borrowing
def move_rows_of_part(block, bag, nodes, work, team):
    """Move the rows of one part to the other buffer."""
    node, own, begin, end = part_of_node(block, bag, nodes, work, team)
    other = bag_of(1 - nodes.buffer[node], bag, work)
    starts = work.part_sums[block]
    move_part(nodes.code[node], nodes.side[node], own, begin, end, work.row_codes, other, starts)


# Searching leaves.


@kernel
@borrowing
def search(node, sibling, is_searched, matrix, bag, rules, candidates, nodes, work, team):
    """Find the best split of each candidate of a leaf, and of its larger ``sibling`` if there is one.

    The sibling's slot holds the histograms of their parent. If the leaf itself is not searched, its histograms are
    built for the sibling's.
    """
    team.state[SIBLING] = sibling
    team.state[IS_SEARCHED] = is_searched
    n_candidates = work.counters[N_CANDIDATES]
    n_rows = nodes.end[node] - nodes.begin[node]
    n_sums = n_candidates * (n_rows + (SEARCH_COST if sibling != NO_NODE else 0))
    n_parts = n_groups = np.int64(1)
    if team.size > 1 and n_sums >= rules.least_shared:
        n_parts, n_groups = divide(node, matrix, bag, rules, nodes, work, team)
    team.state[NODE] = node
    team.state[N_PARTS] = n_parts
    if n_parts > 1:
        team.state[STEP] = FILL
        team.state[N_GROUPS] = n_groups
        run_step(n_parts * n_groups, matrix, bag, rules, candidates, nodes, work, team)
        n_groups = min(n_candidates, BLOCKS_PER_THREAD * team.size)
    team.state[STEP] = SEARCH
    team.state[N_GROUPS] = n_groups
    run_step(n_groups, matrix, bag, rules, candidates, nodes, work, team)


@kernel
@borrowing
def divide(node, matrix, bag, rules, nodes, work, team):
    """The parts of a leaf's rows, and the groups of its candidates, so that every thread has some blocks.

    Parts cost the time to clear and add up their histograms. Groups cost little, except where rows are scattered:
    each group then loads the cache lines of all rows again.
    """
    n_candidates = work.counters[N_CANDIDATES]
    begin = nodes.begin[node]
    end = nodes.end[node]
    rows = bag_of(nodes.buffer[node], bag, work).rows
    n_blocks = BLOCKS_PER_THREAD * team.size
    if is_scattered(rows, begin, end, matrix.row_major_prefix.shape[0]):
        least = rules.least_part // 4
        most = team.size
        width = LEAST_SCATTERED_WIDTH
    else:
        least = 2 * rules.least_part
        most = team.size // 2
        width = LEAST_WIDTH
    n_parts = max(1, min((end - begin) // max(1, least), most, work.parts.shape[0] + 1))
    n_groups = min((n_blocks + n_parts - 1) // n_parts, max(1, n_candidates // width))
    if n_parts == 1:
        n_groups = min(n_blocks, max(1, n_candidates // LEAST_WIDTH))
    return n_parts, n_groups


@kernel
@borrowing
def fill_part(block, matrix, bag, nodes, work, team):
    """Build the histograms of one part of a leaf's rows, for one group of its candidates."""
    n_groups = team.state[N_GROUPS]
    part = block // n_groups
    first, last = bounds(block % n_groups, n_groups, np.int64(0), work.counters[N_CANDIDATES])
    node, own, begin, end = part_of_node(part, bag, nodes, work, team)
    target = work.histograms[nodes.slot[node]] if part == 0 else work.parts[part - 1]
    build_histograms(
        first, last, matrix, own.rows, own.packed_targets, begin, end, work.features, target
    )


@kernel
@borrowing
def search_group(block, matrix, bag, rules, candidates, nodes, work, team):
    """Add up the histograms of the parts for one group of candidates, or build them, and search their cuts."""
    node = team.state[NODE]
    first, last = bounds(block, team.state[N_GROUPS], np.int64(0), work.counters[N_CANDIDATES])
    if team.state[N_PARTS] > 1:
        sums = work.histograms[nodes.slot[node]]
        add_histograms(first, last, sums, work.parts, team.state[N_PARTS] - 1)
    else:
        fill_histograms(first, last, node, matrix, bag, nodes, work)
    sibling = team.state[SIBLING]
    is_searched = team.state[IS_SEARCHED] != 0
    cuts = work.cuts[block]
    search_candidates(
        first, last, node, sibling, is_searched, cuts, matrix, rules, candidates, nodes, work
    )


@kernel
@borrowing
def fill_histograms(first, last, node, matrix, bag, nodes, work):
    """Build the node's histograms for the candidates ``first`` to ``last``."""
    own = bag_of(nodes.buffer[node], bag, work)
    begin = nodes.begin[node]
    end = nodes.end[node]
    histograms = work.histograms[nodes.slot[node]]
    build_histograms(
        first, last, matrix, own.rows, own.packed_targets, begin, end, work.features, histograms
    )


@kernel
@borrowing
def search_candidates(
    first, last, node, sibling, is_searched, cuts, matrix, rules, candidates, nodes, work
):
    """The best splits of the candidates ``first`` to ``last`` of a leaf and of its sibling."""
    if is_searched:
        split_features(first, last, node, OWN, cuts, matrix, rules, candidates, nodes, work)
    if sibling != NO_NODE:
        own = work.histograms[nodes.slot[node]]
        subtract_histograms(first, last, work.histograms[nodes.slot[sibling]], own)
        split_features(first, last, sibling, LARGER, cuts, matrix, rules, candidates, nodes, work)


# Splitting at random, and with counted rows.


@kernel
@borrowing
def draw_split(node, matrix, bag, rules, candidates, nodes, work, team):
    """Draw a split without looking at targets."""
    one, step = np.int64(1), np.int64(SPLIT_RANDOMLY)
    run_on_node(step, node, one, matrix, bag, rules, candidates, nodes, work, team)


@kernel
@borrowing
def count_candidate(index, node, which, matrix, bag, rules, candidates, nodes, work, team):
    """Count the rows of a leaf by the bins of one candidate, and find its best split with ``min_leaf``."""
    team.state[CANDIDATE] = index
    team.state[WHICH] = which
    n_rows = nodes.end[node] - nodes.begin[node]
    n_parts = n_parts_of(n_rows, 2 * rules.least_part, team)
    run_on_node(
        np.int64(COUNT_BINS), node, n_parts, matrix, bag, rules, candidates, nodes, work, team
    )
    for part in range(1, n_parts):
        for code in range(work.bin_counts.shape[1]):
            work.bin_counts[0, code] += work.bin_counts[part, code]
    one, step = np.int64(1), np.int64(SPLIT_COUNTED)
    run_on_node(step, node, one, matrix, bag, rules, candidates, nodes, work, team)


@kernel
@borrowing
def split_counted(matrix, rules, candidates, nodes, work, team):
    """The best split of a candidate whose rows are counted in ``work.bin_counts[0]``."""
    node = team.state[NODE]
    index = team.state[CANDIDATE]
    which = team.state[WHICH]
    counts = work.bin_counts[0]
    cuts = work.cuts[0]
    split_candidate(index, node, which, counts, cuts, matrix, rules, candidates, nodes, work)
    feature, side = work.features[index], work.sides[which, index]
    if is_of_categories(feature, matrix):
        subset = work.subsets[which, index]
        sides = sums_of_subset(counts, matrix.n_bins[feature], subset, side)
    else:
        sides = sums_of_sides(counts, work.codes[which, index], side)
    work.left_rows[which, index], work.missing_rows[which, index] = sides
    work.is_counted[which, index] = True


@kernel
@borrowing
def count_bins_of_part(block, matrix, bag, nodes, work, team):
    """Count the rows of one part."""
    _, own, begin, end = part_of_node(block, bag, nodes, work, team)
    column = matrix.columns[work.features[team.state[CANDIDATE]]]
    counts = work.bin_counts[block]
    clear(counts)
    if own.counts.size > 0:
        for index in range(begin, end):
            counts[column[own.rows[index]]] += own.counts[index]
    else:
        for index in range(begin, end):
            counts[column[own.rows[index]]] += 1


# The leaf of every row.


@kernel
@borrowing
def mark_rows(matrix, bag, rules, candidates, nodes, work, team):
    """Fill ``work.leaf_of_row``, which a team has, for all rows of the bag."""
    if work.leaf_of_row.size == 0:
        return
    nodes.leaf[0] = 0
    for node in range(work.counters[N_NODES]):  # children come after their parents
        if nodes.left[node] == 0:
            continue
        last = max(nodes.right[node], nodes.missing[node])
        for child in range(nodes.left[node], last + 1):
            number = nodes.number[child]
            nodes.leaf[child] = number if number >= 0 else nodes.leaf[node]
    n_parts = n_parts_of(bag.rows.size, rules.least_part, team)
    run_on_node(
        np.int64(MARK),
        np.int64(NO_NODE),
        n_parts,
        matrix,
        bag,
        rules,
        candidates,
        nodes,
        work,
        team,
    )


@kernel
@borrowing
def mark_part(block, matrix, bag, nodes, work, team):
    """Write the leaves of one part of the positions: by source if the bag has all rows, else by row."""
    first, last = bounds(block, team.state[N_PARTS], np.int64(0), np.int64(bag.rows.size))
    is_whole = bag.rows.size == matrix.source_of_row.size
    leaf_of_row = work.leaf_of_row
    for node in range(work.counters[N_NODES]):
        if nodes.left[node] != 0:
            continue
        rows = bag_of(nodes.buffer[node], bag, work).rows
        leaf = np.int32(nodes.leaf[node])
        begin = max(first, nodes.begin[node])
        end = min(last, nodes.end[node])
        if is_whole:
            for index in range(begin, end):
                leaf_of_row[matrix.source_of_row[rows[index]]] = leaf
        else:
            for index in range(begin, end):
                leaf_of_row[rows[index]] = leaf
