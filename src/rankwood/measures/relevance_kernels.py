"""Compiled loops of the measures that stop at, or count, relevant documents.

A document is relevant when its label reaches ``threshold``. ``order[starts[q] : starts[q] +
lengths[q]]`` are the places of query ``q``'s documents, best first.
"""

from __future__ import annotations

from rankwood._jit import kernel
from rankwood.dtypes import Array
from rankwood.measures.gains_kernels import gain_of


@kernel
def count_relevant(
    first: int, last: int, offsets: Array, labels: Array, threshold: float, counts: Array
) -> None:
    """Relevant documents of each list."""
    for query in range(first, last):
        documents = labels[offsets[query] : offsets[query + 1]]
        n_relevant = 0
        for document in range(documents.size):
            n_relevant += documents[document] >= threshold
        counts[query] = n_relevant


@kernel
def sum_precisions(
    first: int,
    last: int,
    starts: Array,
    lengths: Array,
    order: Array,
    labels: Array,
    threshold: float,
    hits: Array,
    sums: Array,
) -> None:
    """Relevant documents shown, and the sum of the precisions at their ranks."""
    for query in range(first, last):
        n_hits = 0
        total = 0.0
        for rank in range(lengths[query]):
            is_hit = int(labels[order[starts[query] + rank]] >= threshold)
            n_hits += is_hit
            total += is_hit * (n_hits / (rank + 1))  # a branch would be guessed wrong half the time
        hits[query] = n_hits
        sums[query] = total


@kernel
def reciprocal_ranks(
    first: int,
    last: int,
    starts: Array,
    lengths: Array,
    order: Array,
    labels: Array,
    threshold: float,
    reciprocals: Array,
) -> None:
    """One over the rank of the first relevant document shown; 0 if there is none."""
    for query in range(first, last):
        reciprocals[query] = 0.0
        for rank in range(lengths[query]):
            if labels[order[starts[query] + rank]] >= threshold:
                reciprocals[query] = 1.0 / (rank + 1)
                break


@kernel
def expected_reciprocal_ranks(
    first: int,
    last: int,
    starts: Array,
    lengths: Array,
    order: Array,
    labels: Array,
    kind: int,
    table: Array,
    scale: float,
    expectations: Array,
) -> None:
    """The mean of 1 / rank where a reader stops: at a document with probability gain · scale."""
    for query in range(first, last):
        still_reading = 1.0
        total = 0.0
        for rank in range(lengths[query]):
            stops = gain_of(labels[order[starts[query] + rank]], kind, table) * scale
            total += still_reading * stops / (rank + 1)
            still_reading *= 1.0 - stops
        expectations[query] = total
