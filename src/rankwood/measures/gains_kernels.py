"""The compiled half of ``gains.py``: the gain of a label, and sums of discounted gains.

Words used here
    kind     how a label becomes a gain: one of LINEAR, EXPONENTIAL, TABLE
    table    gains of the labels 0, 1, 2, ...
"""

from __future__ import annotations

from rankwood._jit import kernel
from rankwood.dtypes import Array

LINEAR = 0
EXPONENTIAL = 1
TABLE = 2


@kernel
def gain_of(label: float, kind: int, table: Array) -> float:
    """The gain of one label. Whole labels are looked up: a power costs twenty times as much."""
    if kind == LINEAR:
        return label
    if label < table.size:
        whole = int(label)
        if whole == label:
            return table[whole]  # type: ignore[no-any-return]
    return 2.0**label - 1.0  # type: ignore[no-any-return]


@kernel
def gains_of_labels(
    first: int, last: int, offsets: Array, labels: Array, kind: int, table: Array, gains: Array
) -> None:
    """The gain of every document."""
    for place in range(offsets[first], offsets[last]):
        gains[place] = gain_of(labels[place], kind, table)


@kernel
def discounted_sums(
    first: int,
    last: int,
    starts: Array,
    lengths: Array,
    order: Array,
    labels: Array,
    kind: int,
    table: Array,
    discounts: Array,
    sums: Array,
) -> None:
    """Each query's sum over ranks of gain times discount."""
    for query in range(first, last):
        total = 0.0
        for rank in range(lengths[query]):
            label = labels[order[starts[query] + rank]]
            total += gain_of(label, kind, table) * discounts[rank]
        sums[query] = total


@kernel
def mean_ratios(
    first: int,
    last: int,
    offsets: Array,
    lengths: Array,
    ranked_gains: Array,
    ideal_gains: Array,
    discounts: Array,
    means: Array,
) -> None:
    """Each query's mean over k of DCG@k / ideal DCG@k; 0 where the ideal is 0.

    ``lengths`` counts the documents shown; behind them the gain stays what it is while the ideal
    may grow.
    """
    for query in range(first, last):
        begin = offsets[query]
        n_documents = offsets[query + 1] - begin
        gained = 0.0
        possible = 0.0
        total = 0.0
        for rank in range(n_documents):
            if rank < lengths[query]:
                gained += ranked_gains[begin + rank] * discounts[rank]
            possible += ideal_gains[begin + rank] * discounts[rank]
            if possible > 0.0:
                total += gained / possible
        means[query] = total / n_documents if n_documents > 0 else 0.0
