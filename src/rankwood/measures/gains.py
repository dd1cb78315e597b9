"""From labels to gains, from ranks to discounts.

Gains: ``exponential`` 2^label - 1, ``linear`` the label itself, or a table of the gains of labels
0, 1, 2, ... Discounts: ``log2`` 1 / log2(rank + 1); ``letor`` 1 at ranks 1 and 2, then 1 /
log2(rank). Ranks count from 1.
"""

from __future__ import annotations

import functools

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataError, ParameterError
from rankwood.measures.ranking import Lists, Ranking, run_lists, run_rankings

# 2^1000 times sixteen million documents still fits into a float64, whose largest value is just
# under 2^1024.
LARGEST_EXPONENT = 1000

Gain = str | tuple[float, ...]
LINEAR, EXPONENTIAL, TABLE = 0, 1, 2  # kinds of gain, for the kernels


class GainRule:
    """How labels become gains, in the form the kernels take."""

    def __init__(self, gain: Gain) -> None:
        self.gain = gain
        if isinstance(gain, tuple):
            self.kind = TABLE
            table = np.array(gain, np.float64)
        else:
            self.kind = LINEAR if gain == "linear" else EXPONENTIAL
            table = np.exp2(np.arange(64.0)) - 1.0
        self.table = checks.read_only(table)

    def check(self, lists: Lists) -> None:
        """Refuse labels that have no gain under this rule."""
        if isinstance(self.gain, tuple):
            _refuse_labels_outside(self.gain, lists)
        elif self.gain == "exponential" and lists.largest_label > LARGEST_EXPONENT:
            position = int(np.argmax(lists.labels))
            raise DataError(
                f"labels[{lists.row(position)}] is {lists.largest_label:g}, too large for the "
                f"exponential gain 2^label - 1 (at most {LARGEST_EXPONENT}). "
                "Use gain=linear, or map the labels to a few grades."
            )

    def of_labels(self, lists: Lists) -> Floats:
        """The gain of every document."""
        gains = np.empty(lists.labels.size, np.float64)
        run_lists(
            gains_of_labels,
            lists.offsets,
            lists.labels,
            self.kind,
            self.table,
            gains,
            n_threads=lists.n_threads,
        )
        return checks.read_only(gains)

    def of_label(self, label: float) -> float:
        """The gain of one label; infinite for an exponential gain beyond floating point."""
        if isinstance(self.gain, tuple):
            if label != int(label) or label >= len(self.gain):
                raise ParameterError(
                    f"max={label:g} is not a label of the gain table, which has 0 to "
                    f"{len(self.gain) - 1}."
                )
            return self.gain[int(label)]
        if self.gain == "linear":
            return label
        with np.errstate(over="ignore"):
            return float(np.exp2(label) - 1.0)


def _refuse_labels_outside(table: tuple[float, ...], lists: Lists) -> None:
    labels = lists.labels
    unknown = (labels != np.floor(labels)) | (labels >= len(table))
    if unknown.any():
        position = int(np.argmax(unknown))
        raise DataError(
            f"labels[{lists.row(position)}] is {float(labels[position]):g}, but the gain table has the "
            f"labels 0 to {len(table) - 1} only. Lengthen it, or use gain=exponential or gain=linear."
        )


@functools.lru_cache(maxsize=32)
def rule(gain: Gain) -> GainRule:
    """The rule for a gain, made once."""
    return GainRule(gain)


def discounts(name: str, n_ranks: int) -> Floats:
    """The discount of each of the first ``n_ranks`` ranks."""
    ranks = np.arange(1, n_ranks + 1, dtype=np.float64)
    if name == "letor":
        return checks.read_only(1.0 / np.log2(np.maximum(ranks, 2.0)))
    return checks.read_only(1.0 / np.log2(ranks + 1.0))


def sums_over_ranks(
    ranking: Ranking, labels: Floats, gain: GainRule, rank_weights: Floats, lists: Lists
) -> Floats:
    """Each query's sum over its ranking of gain times the weight of the rank."""
    sums = np.empty(lists.n_queries, np.float64)
    run_rankings(
        discounted_sums,
        ranking,
        lists,
        labels,
        gain.kind,
        gain.table,
        rank_weights,
        sums,
    )
    return sums


# Kernels. ``kind`` says how a label becomes a gain; ``table`` holds the gains of the labels 0, 1, 2, ...


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
    for position in range(offsets[first], offsets[last]):
        gains[position] = gain_of(labels[position], kind, table)


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
