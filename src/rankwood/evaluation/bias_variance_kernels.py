"""The compiled half of ``pairs.py``: error, bias and variance of pairs, summed by query.

Words used here
    place     a document of the test data; the documents of a query stand together, by falling label
    partner   the second document of a pair: it stands after the first, so its label is not higher
"""

from __future__ import annotations

from rankwood._jit import kernel
from rankwood.dtypes import Array

ERROR, BIAS, VARIANCE = range(3)  # the columns of ``sums``
N_SUMS = 3


@kernel
def add_pair(
    one: int, other: int, labels: Array, scores: Array, tie: float, query: int, sums: Array
) -> None:
    """Add what the trainings make of a pair, asked both ways round: is one above other, is other above one.

    p is the share of trainings that say yes, t the truth: 1 for the higher label, 0 for the lower, and 0 both ways for
    equal labels. The error is the share of wrong answers, bias² is (p - t)², variance p (1 - p).
    """
    n_trainings = scores.shape[1]
    above = 0.0
    below = 0.0
    for training in range(n_trainings):
        if scores[one, training] > scores[other, training]:
            above += 1.0
        elif scores[one, training] < scores[other, training]:
            below += 1.0
        else:
            above += tie
            below += tie
    share = above / n_trainings
    share_back = below / n_trainings
    truth = 1.0 if labels[one] > labels[other] else 0.0
    wrong = 1.0 - share if truth == 1.0 else share
    sums[query, ERROR] += wrong + share_back
    sums[query, BIAS] += (share - truth) * (share - truth) + share_back * share_back
    sums[query, VARIANCE] += share * (1.0 - share) + share_back * (1.0 - share_back)


@kernel
def add_every_pair(
    first: int,
    last: int,
    queries: Array,
    offsets: Array,
    partners: Array,
    labels: Array,
    scores: Array,
    tie: float,
    sums: Array,
) -> None:
    """Sums over all pairs of the queries: a document's partners stand from ``partners`` to the end of its query."""
    for number in range(first, last):
        query = queries[number]
        for one in range(offsets[query], offsets[query + 1]):
            for other in range(partners[one], offsets[query + 1]):
                add_pair(one, other, labels, scores, tie, query, sums)


@kernel
def add_drawn_pairs(
    first: int,
    last: int,
    queries: Array,
    starts: Array,
    drawn: Array,
    labels: Array,
    scores: Array,
    tie: float,
    sums: Array,
) -> None:
    """Sums over the pairs that were drawn: those of the query at ``number`` begin at ``starts[number]``."""
    for number in range(first, last):
        for pair in range(starts[number], starts[number + 1]):
            add_pair(drawn[0, pair], drawn[1, pair], labels, scores, tie, queries[number], sums)
