"""From labels to gains, from ranks to discounts.

Gains: ``exponential`` 2^label - 1, ``linear`` the label itself, or a table of the gains of labels
0, 1, 2, ... Discounts: ``log2`` 1 / log2(rank + 1); ``letor`` 1 at ranks 1 and 2, then 1 /
log2(rank). Ranks count from 1.
"""

from __future__ import annotations

import functools

import numpy as np

from rankwood import _checks
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ParameterError
from rankwood.measures.ranking import Lists, Ranking, run_lists, run_queries

# 2^1000 times sixteen million documents still fits into a float64, whose largest value is just
# under 2^1024.
LARGEST_EXPONENT = 1000

Gain = str | tuple[float, ...]


class GainRule:
    """How labels become gains, in the form the kernels take."""

    def __init__(self, gain: Gain) -> None:
        from rankwood.measures import gains_kernels as kernels

        self.gain = gain
        if isinstance(gain, tuple):
            self.kind = kernels.TABLE
            table = np.array(gain, np.float64)
        else:
            self.kind = kernels.LINEAR if gain == "linear" else kernels.EXPONENTIAL
            table = np.exp2(np.arange(64.0)) - 1.0
        self.table = _checks.read_only(table)

    def check(self, lists: Lists) -> None:
        """Refuse labels that have no gain under this rule."""
        if isinstance(self.gain, tuple):
            _refuse_labels_outside(self.gain, lists)
        elif self.gain == "exponential" and lists.largest_label > LARGEST_EXPONENT:
            place = int(np.argmax(lists.labels))
            raise DataError(
                f"labels[{lists.row(place)}] is {lists.largest_label:g}, too large for the "
                f"exponential gain 2^label - 1 (at most {LARGEST_EXPONENT}). "
                "Use gain=linear, or map the labels to a few grades."
            )

    def of_labels(self, lists: Lists) -> Floats:
        """The gain of every document."""
        from rankwood.measures.gains_kernels import gains_of_labels

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
        return _checks.read_only(gains)

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
        place = int(np.argmax(unknown))
        raise DataError(
            f"labels[{lists.row(place)}] is {float(labels[place]):g}, but the gain table has the "
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
        return _checks.read_only(1.0 / np.log2(np.maximum(ranks, 2.0)))
    return _checks.read_only(1.0 / np.log2(ranks + 1.0))


def sums_over_ranks(
    ranking: Ranking, labels: Floats, gain: GainRule, rank_weights: Floats, lists: Lists
) -> Floats:
    """Each query's sum over its ranking of gain times the weight of the rank."""
    from rankwood.measures.gains_kernels import discounted_sums

    sums = np.empty(lists.n_queries, np.float64)
    run_queries(
        discounted_sums,
        lists.n_queries,
        ranking.starts,
        ranking.lengths,
        ranking.order,
        labels,
        gain.kind,
        gain.table,
        rank_weights,
        sums,
        n_threads=lists.n_threads,
    )
    return sums
