"""The compiled half of ``lambdarank.py``: the lambdas of every query.

Words used here
    place     a position in the grouped data; query q holds the places ``offsets[q]`` to ``offsets[q + 1]``
    rank      a place in the model's list, 0 is best
    worth     what a document brings: its gain over the best possible DCG, its relevance, its chance to satisfy
    upper     what a rank counts for the higher document of a pair
    lower     what a rank counts for the lower document of a pair

For every measure, swapping the documents at ranks i < j changes it by (worth[i] - worth[j]) · (upper[i] - lower[j]), up
to the sign. Measures differ in how upper and lower follow from a ranking; only ERR's lower is another for each i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array

NDCG, MAP, MRR, ERR = 0, 1, 2, 3
DISTANCE = 0.01  # LightGBM's, kept for parity: what scores are apart at least, where a change is divided by it
STEEPEST = 300.0  # exponents beyond are cut, so that products of two powers are numbers


class Rules(NamedTuple):
    """What the lambdas follow from, but for the documents."""

    kind: int  # NDCG, MAP, MRR or ERR
    cutoff: int  # ranks that count in the measure
    truncation: int  # ranks of which one of a pair must be
    sigma: float
    normalise: bool


class Space(NamedTuple):
    """One query in the order of its ranking; as long as the longest one."""

    scores: Array
    powers: Array  # e^(sigma · score)
    worth: Array
    upper: Array
    lower: Array
    pairs: Array  # of the document at hand with those below it
    curves: Array
    lambdas: Array
    hessians: Array


@kernel
def lambdas_of_queries(
    first: int,
    last: int,
    edges: Array,
    offsets: Array,
    order: Array,
    scores: Array,
    worth: Array,
    discounts: Array,
    rules: Rules,
    lambdas: Array,
    hessians: Array,
) -> None:
    """Lambda and hessian of every place of the blocks ``first`` to ``last``; block b ends before query edges[b + 1]."""
    longest = 0
    for query in range(edges[first], edges[last]):
        longest = max(longest, offsets[query + 1] - offsets[query])
    rows = np.empty((9, longest), np.float64)
    space = Space(rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7], rows[8])
    for query in range(edges[first], edges[last]):
        begin = offsets[query]
        size = offsets[query + 1] - begin
        total = 0.0
        if take_query(begin, order[begin : begin + size], scores, worth, rules, space):
            total = lambdas_of_query(size, discounts, rules, space)
        factor = rules.sigma
        if rules.normalise and total > 0.0:
            total *= 2.0 * rules.sigma
            factor *= np.log2(1.0 + total) / total
        for rank in range(size):
            place = order[begin + rank]
            lambdas[place] = factor * space.lambdas[rank]
            hessians[place] = factor * rules.sigma * space.hessians[rank]


@kernel
def take_query(
    begin: int, order: Array, scores: Array, worth: Array, rules: Rules, space: Space
) -> bool:
    """Copy a query into ``space`` in the order of its ranking; False where all documents are worth the same."""
    if order.size == 0:
        return False
    top = scores[order[0]]
    middle = top + (scores[order[order.size - 1]] - top) / 2.0
    is_flat = True
    for rank in range(order.size):
        place = order[rank]
        score = scores[place]
        space.scores[rank] = score
        space.worth[rank] = worth[place]
        is_flat &= worth[place] == worth[begin]
        exponent = rules.sigma * (score - middle)
        space.powers[rank] = np.exp(min(max(exponent, -STEEPEST), STEEPEST))
        space.lambdas[rank] = 0.0
        space.hessians[rank] = 0.0
    return not is_flat


@kernel
def lambdas_of_query(size: int, discounts: Array, rules: Rules, space: Space) -> float:
    """Add up the pairs of one query, without sigma; gives the sum of their lambdas."""
    if rules.kind == NDCG:
        count_discounts(size, discounts, space.upper, space.lower)
    elif rules.kind == MAP:
        count_precisions(size, rules.cutoff, space.worth, space.upper, space.lower)
    elif rules.kind == MRR:
        count_firsts(size, rules.cutoff, space.worth, space.upper, space.lower)
    # Where all scores are tied, as before the first tree, there is no distance to divide by.
    is_divided = rules.normalise and space.scores[0] != space.scores[size - 1]
    total = 0.0
    reading = 1.0
    for rank in range(min(size - 1, rules.truncation)):
        if rules.kind == ERR:
            space.upper[rank] = reading / (rank + 1)
            count_readers(rank, size, rules.cutoff, reading, space.worth, space.lower)
            reading *= 1.0 - space.worth[rank]
        weigh_pairs(rank, size, is_divided, space)
        own_lambda, own_hessian, own_total = sums_of(
            space.pairs[rank + 1 : size], space.curves[rank + 1 : size]
        )
        space.lambdas[rank] += own_lambda
        space.hessians[rank] += own_hessian
        total += own_total
    return total


@kernel
def count_discounts(size: int, discounts: Array, upper: Array, lower: Array) -> None:
    """NDCG: both sides count what the discount says, and nothing beyond the cut-off."""
    for rank in range(size):
        discount = discounts[rank] if rank < discounts.size else 0.0
        upper[rank] = discount
        lower[rank] = discount


@kernel
def count_precisions(size: int, cutoff: int, worth: Array, upper: Array, lower: Array) -> None:
    """Average precision: the precision at a rank, and 1 / rank for each relevant document between the two."""
    n_hits = 0
    between = 0.0  # Σ 1 / rank over the relevant documents so far
    for rank in range(size):
        if rank >= cutoff:
            upper[rank] = -between
            lower[rank] = -between
            continue
        is_hit = 1 if worth[rank] > 0.0 else 0
        higher = (n_hits + 1) / (rank + 1)
        n_hits += is_hit
        lower[rank] = n_hits / (rank + 1) - between
        between += is_hit / (rank + 1)
        upper[rank] = higher - between


@kernel
def count_firsts(size: int, cutoff: int, worth: Array, upper: Array, lower: Array) -> None:
    """Reciprocal rank: the first relevant document counts, and the second once the first has gone below it."""
    first = 0.0  # 1 / rank of the first relevant document; 0 if none is shown
    second = 0.0
    for rank in range(min(size, cutoff)):
        if worth[rank] > 0.0:
            if first > 0.0:
                second = 1.0 / (rank + 1)
                break
            first = 1.0 / (rank + 1)
    for rank in range(size):
        here = 1.0 / (rank + 1) if rank < cutoff else 0.0
        if worth[rank] > 0.0:
            upper[rank] = first if here == first else second
            lower[rank] = first
        else:
            upper[rank] = max(here, first)
            lower[rank] = max(here, second)


@kernel
def count_readers(
    rank: int, size: int, cutoff: int, reading: float, worth: Array, lower: Array
) -> None:
    """ERR: what the ranks below ``rank`` count, if a reader passes over the document there.

    ``reading`` is the chance that a reader comes to ``rank``. Nothing is divided by the chance to pass over a document,
    which may be 0.
    """
    passed = 0.0
    for below in range(rank + 1, size):
        here = reading / (below + 1) if below < cutoff else 0.0
        lower[below] = passed + here
        passed += worth[below] * here
        reading *= 1.0 - worth[below]


@kernel
def weigh_pairs(rank: int, size: int, is_divided: bool, space: Space) -> None:
    """Add the document at ``rank`` to those below it, and write what each of these pairs adds to itself."""
    add_pairs(
        space.scores[rank],
        space.powers[rank],
        space.worth[rank],
        space.upper[rank],
        DISTANCE if is_divided else 1.0,
        1.0 if is_divided else 0.0,
        space.scores[rank + 1 : size],  # views, or every index would be checked for its sign
        space.powers[rank + 1 : size],
        space.worth[rank + 1 : size],
        space.lower[rank + 1 : size],
        space.pairs[rank + 1 : size],
        space.curves[rank + 1 : size],
        space.lambdas[rank + 1 : size],
        space.hessians[rank + 1 : size],
    )


@kernel
def add_pairs(
    score: float,
    power: float,
    own_worth: float,
    upper: float,
    offset: float,
    scale: float,
    scores: Array,
    powers: Array,
    worth: Array,
    lower: Array,
    pairs: Array,
    curves: Array,
    lambdas: Array,
    hessians: Array,
) -> None:
    """The inner loop: a document and those below it, without a branch, so that the compiler makes vectors of it.

    With powers a of the better and b of the worse document, 1 / (1 + e^(sigma · (better - worse))) is b / (a + b): one
    division per pair and no exponential.
    """
    for below in range(pairs.size):
        other = powers[below]
        gap = own_worth - worth[below]
        change = gap * (upper - lower[below])
        apart = offset + scale * (score - scores[below])
        inverse = 1.0 / ((power + other) * apart)
        better = power if gap > 0.0 else other
        worse = other if gap > 0.0 else power
        pair = change * worse * inverse
        curve = abs(pair) * better * inverse * apart
        pairs[below] = pair
        curves[below] = curve
        lambdas[below] -= pair
        hessians[below] += curve


@kernel
def sums_of(pairs: Array, curves: Array) -> tuple[float, float, float]:
    """Σ pairs, Σ curves and Σ |pairs|, in four lanes: one would have to wait for itself at every step."""
    pair0 = pair1 = pair2 = pair3 = 0.0
    curve0 = curve1 = curve2 = curve3 = 0.0
    size0 = size1 = size2 = size3 = 0.0
    n_whole = pairs.size // 4
    for step in range(n_whole):
        place = 4 * step
        pair0 += pairs[place]
        pair1 += pairs[place + 1]
        pair2 += pairs[place + 2]
        pair3 += pairs[place + 3]
        curve0 += curves[place]
        curve1 += curves[place + 1]
        curve2 += curves[place + 2]
        curve3 += curves[place + 3]
        size0 += abs(pairs[place])
        size1 += abs(pairs[place + 1])
        size2 += abs(pairs[place + 2])
        size3 += abs(pairs[place + 3])
    for place in range(4 * n_whole, pairs.size):
        pair0 += pairs[place]
        curve0 += curves[place]
        size0 += abs(pairs[place])
    return (
        (pair0 + pair1) + (pair2 + pair3),
        (curve0 + curve1) + (curve2 + curve3),
        (size0 + size1) + (size2 + size3),
    )
