"""Splits of categorical features: the categories that go left, as a set of 256 bits.

A category is a code, as a value of a number is its bin, but codes have no order. Of all divisions of a node's
categories in two, the one of least squared error divides them where they are sorted by their mean target (Fisher 1958;
Breiman et al. 1984, 4.2.2). So categories are put into the order of their means, and become a feature whose cuts are
searched as those of any number (``splitting.split_categories``).

* Means are smoothed: ``smoothing`` rows of the node's mean are added to each. A category of few rows would otherwise
  stand at an end of the order by chance.
* Categories with fewer than ``category_rows`` rows in the node are taken together, as one.
* A feature of at most four categories is split by one category against the rest, without smoothing.
* Where cuts are random, the order is. Completely random trees draw a side for every category.
* Categories that no row of the node has go with those of few rows, or, if there are none, with the larger side.

Equal means are in the order of the codes. Sums are whole numbers, so that the order does not depend on threads.

Terms
    entry    a category, or several of few rows, in the order of means
    place    of an entry in that order
    subset   the categories that go left: category ``c`` is bit ``c % 64`` of word ``c // 64``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood._core.jit import borrowing, kernel
from rankwood.binning.bins import MISSING_BIN, N_CODES
from rankwood.trees.workspace import BEST, GO_LEFT, N_WORDS, OWN_CHILD, combine, uniform

FEW = 5  # codes: four categories, and one for all others
SUMS, ROWS, PLACES = 3, 4, 5  # rows of the space for cuts: those before are of ``cut_after``
NOWHERE = -1  # the place of a category that no row has
WORD_BITS = 64
LAST = N_CODES - 1  # where categories of few rows are kept, which is no code of a category


@kernel
def is_of_categories(feature: Any, matrix: Any) -> Any:
    """Whether a feature is categorical."""
    return matrix.is_categorical.size > 0 and matrix.is_categorical[feature]


@kernel
def word_of(category: Any) -> Any:
    """The word of a subset that has the bit of a category, which is a uint64."""
    return (category >> np.uint64(6)) & np.uint64(3)


@kernel
def holds(word: Any, category: Any) -> Any:
    """Whether the word of a subset holds a category, which is a uint64."""
    return (word >> (category & np.uint64(63))) & np.uint64(1) != np.uint64(0)


@kernel
def has_any(first: Any, second: Any, third: Any, fourth: Any) -> Any:
    """Whether a subset of these words holds any category."""
    return (first | second | third | fourth) != np.uint64(0)


@kernel
def fill_subset(places, n_codes, place, others_go_left, subset):
    """Let ``subset`` be the categories up to a place, and those without a place if ``others_go_left``."""
    for word in range(N_WORDS):
        bits = np.uint64(0)
        for code in range(WORD_BITS * word, min(n_codes, WORD_BITS * (word + 1))):
            goes_left = (places[code] <= place) & ((places[code] != NOWHERE) | others_go_left)
            bits |= np.uint64(goes_left) << np.uint64(code - WORD_BITS * word)
        subset[word] = bits


@kernel
def draw_subset(draw, least, most, n_codes, subset):
    """Let ``subset`` be a random one that divides the categories ``least`` and ``most``; all others fall by chance."""
    one = np.uint64(1)
    for word in range(N_WORDS):
        bits = combine(draw, word)
        n_bits = n_codes - WORD_BITS * word
        if n_bits < WORD_BITS:
            bits &= (one << np.uint64(max(n_bits, 0))) - one
        subset[word] = bits
    low, high = np.uint64(least), np.uint64(most)
    last, bit = word_of(high), one << (high & np.uint64(63))
    goes_left = holds(subset[word_of(low)], low)
    subset[last] = subset[last] & ~bit if goes_left else subset[last] | bit


@kernel
def put_in_order(sums, counts, n_codes, total, n_total, rules, draws, cuts):
    """Fill ``cuts[SUMS]`` and ``cuts[ROWS]`` in the order of means, and ``cuts[PLACES]``; return how many entries.

    ``total`` is the packed sum of all categories, ``n_total`` the rows of the node.
    """
    bits = rules.bits
    mask = (np.int64(1) << bits) - 1
    entries, rows, places = cuts[SUMS], cuts[ROWS], cuts[PLACES]
    keys, codes = cuts[0].view(np.float64), cuts[1]
    weight = np.float64(total & mask)
    mean = np.float64(total >> bits) / max(weight, 1.0)
    per_row = weight / max(np.float64(n_total), 1.0)
    least = rules.category_rows * per_row
    prior = rules.category_smoothing * per_row
    few = np.int64(0)
    few_rows = np.int64(0)
    n_entries = np.int64(0)
    for code in range(n_codes):
        packed = sums[code]
        own = np.float64(packed & mask)
        if own > 0.0 and own >= least:
            entries[n_entries] = packed
            codes[n_entries] = code
            n_entries += 1
            places[code] = 0
        else:
            few += packed
            if counts.size > 0:
                few_rows += counts[code]
            places[code] = NOWHERE
    for index in range(n_entries):  # without branches, so that it is vectorized
        own = np.float64(entries[index] & mask)
        keys[index] = (np.float64(entries[index] >> bits) + prior * mean) / (own + prior)
    if few != 0:
        own = np.float64(few & mask)
        keys[n_entries] = (np.float64(few >> bits) + prior * mean) / max(own + prior, 1.0)
        codes[n_entries] = LAST
        n_entries += 1
    if rules.threshold_rule != BEST:
        for index in range(n_entries):
            keys[index] = uniform(draws[0], codes[index])
    for index in range(n_entries):
        place = np.int64(0)  # counting is faster than sorting: it has no branches
        for other in range(index):
            place += keys[other] <= keys[index]
        for other in range(index + 1, n_entries):
            place += keys[other] < keys[index]
        code = codes[index]
        if code == LAST:
            entries[place] = few
            rows[place] = few_rows
            for each in range(n_codes):
                if places[each] == NOWHERE:
                    places[each] = place
        else:
            entries[place] = sums[code]
            if counts.size > 0:
                rows[place] = counts[code]
            places[code] = place
    return n_entries


@kernel
def sums_of_subset(of_bin, n_codes, subset, side):
    """As ``sums_of_sides`` for a split by categories."""
    left = np.int64(0)
    for code in range(n_codes):
        category = np.uint64(code)
        if holds(subset[word_of(category)], category):
            left += of_bin[code]
    if side == GO_LEFT:
        left += of_bin[MISSING_BIN]
    return left, of_bin[MISSING_BIN] if side == OWN_CHILD else np.int64(0)


@kernel
@borrowing
def map_categories(column, subset, rows, begin, end, mapped):
    """Write by row, for a node's rows, 0 where the category goes left and 1 where it goes right."""
    for index in range(begin, end):
        row = rows[index]
        code = column[row]
        category = np.uint64(code)
        goes_right = np.uint8(1) - np.uint8(holds(subset[word_of(category)], category))
        mapped[row] = np.uint8(MISSING_BIN) if code == MISSING_BIN else goes_right


@kernel
def step_down_by_subsets(codes, nodes, subsets, rows, reached, n_rows, leaf_of_row):
    """``partition.step_down`` in a tree that has splits by categories: those whose subset is not empty."""
    n_left = 0
    for index in range(n_rows):
        row = np.uint64(rows[index])
        node = np.uint64(reached[index])
        value = codes[np.uint64(nodes[node, 0]) + row]
        words, category = subsets[node], np.uint64(value)
        goes_left = value <= nodes[node, 1]
        if has_any(words[0], words[1], words[2], words[3]):
            goes_left = holds(words[word_of(category)], category)
        child = nodes[node, 2] if goes_left else nodes[node, 3]
        node = np.uint64(nodes[node, 4] if value == MISSING_BIN else child)
        leaf_of_row[row] = node
        rows[n_left] = row
        reached[n_left] = node
        n_left += nodes[node, 0] >= 0
    return n_left
