"""The compiled half of ``ranksvm.py``: sums over pairs of documents, without listing the pairs.

Words used here
    better     the document of a pair with the higher label, whatever its score; the other one is worse
    active     a pair whose better document is not ahead of the worse one by the margin 1
    grade      the number of a document's label among the labels of its query, 1 for the lowest
    place      a position in the data grouped by query; ``order`` holds places by descending score

Going down a ranking, the documents less than the margin below the one at hand only grow in number, so each enters
once; a Fenwick tree over the grades then gives the count and sum of those with a lower grade.
"""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array

MARGIN = 1.0


@kernel
def enter(grade: int, mass: float, amount: float, masses: Array, amounts: Array, last: int) -> None:
    """Add a document to the Fenwick trees of grades 1 to ``last``."""
    while grade <= last:
        masses[grade] += mass
        amounts[grade] += amount
        grade += grade & -grade


@kernel
def up_to(grade: int, tree: Array) -> float:
    """What has entered with this grade or a lower one."""
    total = 0.0
    while grade > 0:
        total += tree[grade]
        grade -= grade & -grade
    return total


@kernel
def add_worse(
    begin: int,
    end: int,
    order: Array,
    scores: Array,
    grades: Array,
    masses: Array,
    vector: Array,
    product: Array,
    balance: Array,
    trees: Array,
) -> float:
    """For each document of a query as the better one: its active pairs' part of ``product`` and ``balance``.

    Gives the weight of all active pairs.
    """
    n_grades = trees.shape[1] - 1
    trees[:] = 0.0
    n_active = 0.0
    reach = begin
    for rank in range(begin, end):
        better = order[rank]
        while reach < end and scores[better] - scores[order[reach]] < MARGIN:
            worse = order[reach]
            mass = masses[worse]
            enter(grades[worse], mass, mass * vector[worse], trees[0], trees[1], n_grades)
            reach += 1
        below = grades[better] - 1
        mass = up_to(below, trees[0])
        product[better] += mass * vector[better] - up_to(below, trees[1])
        balance[better] -= mass
        n_active += masses[better] * mass
    return n_active


@kernel
def add_better(
    begin: int,
    end: int,
    order: Array,
    scores: Array,
    grades: Array,
    masses: Array,
    vector: Array,
    product: Array,
    balance: Array,
    trees: Array,
) -> None:
    """For each document of a query as the worse one: the same from below, where grades count from the highest."""
    n_grades = trees.shape[1] - 1
    trees[:] = 0.0
    reach = end - 1
    for rank in range(end - 1, begin - 1, -1):
        worse = order[rank]
        while reach >= begin and scores[order[reach]] - scores[worse] < MARGIN:
            better = order[reach]
            mass = masses[better]
            grade = n_grades + 1 - grades[better]
            enter(grade, mass, mass * vector[better], trees[0], trees[1], n_grades)
            reach -= 1
        above = n_grades - grades[worse]
        mass = up_to(above, trees[0])
        product[worse] += mass * vector[worse] - up_to(above, trees[1])
        balance[worse] += mass


@kernel
def sum_pairs(
    first: int,
    last: int,
    offsets: Array,
    n_grades: Array,
    query_weights: Array,
    order: Array,
    scores: Array,
    grades: Array,
    masses: Array,
    vector: Array,
    product: Array,
    balance: Array,
    totals: Array,
) -> None:
    """Two sums over the active pairs of each document, and one over those of each query.

    A pair weighs as much as its query times the masses of both documents.

    ``product``   Σ weight · (own vector - other's vector)
    ``balance``   Σ weight of pairs in which it is worse minus Σ weight of those in which it is better
    ``totals``    Σ weight · (1 - difference)², the difference being that of the vector, better minus worse
    """
    most = 1
    for query in range(first, last):
        most = max(most, n_grades[query])
    scratch = np.zeros((2, most + 1))
    for query in range(first, last):
        begin = offsets[query]
        end = offsets[query + 1]
        for place in range(begin, end):
            product[place] = 0.0
            balance[place] = 0.0
        totals[query] = 0.0
        if n_grades[query] < 2 or query_weights[query] == 0.0:
            continue
        trees = scratch[:, : n_grades[query] + 1]
        arguments = (order, scores, grades, masses, vector, product, balance, trees)
        n_active = add_worse(begin, end, *arguments)
        add_better(begin, end, *arguments)
        # (1 - d)² = 1 - 2d + d²; Σ d and Σ d² over pairs are sums over documents of what is at hand
        total = n_active * query_weights[query]
        for place in range(begin, end):
            weight = masses[place] * query_weights[query]
            product[place] *= weight
            balance[place] *= weight
            total += vector[place] * (2.0 * balance[place] + product[place])
        totals[query] = total


@kernel
def weigh_rows(
    first: int,
    last: int,
    block: int,
    features: Array,
    centre: Array,
    factors: Array,
    sums: Array,
) -> None:
    """Σ factor · (value - centre) of each feature over each block of rows; a missing value is at the centre.

    Blocks have a fixed size, so that adding them up in their order gives the same bits for any number of threads.
    """
    for number in range(first, last):
        total = sums[number]
        total[:] = 0.0
        for row in range(number * block, min((number + 1) * block, factors.size)):
            factor = factors[row]
            if factor == 0.0:
                continue
            values = features[row]
            for feature in range(total.size):
                distance = values[feature] - centre[feature]
                total[feature] += factor * distance if distance == distance else 0.0  # noqa: PLR0124 - NaN
