"""Pairs of documents of the test queries, and what several trainings make of them.

A training answers for two documents of a query whether one is above the other. Where p is the share of trainings
that say yes and t the truth (1 if the label is higher, else 0), a pair has bias² (p - t)² and variance p (1 - p);
their sum is its error, the share of wrong answers. Pairs are asked both ways round, since with ``ties="strict"`` a
tie is "not above" from either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwood import _random
from rankwood._checks import read_only
from rankwood._threads import run_blocks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats, Rows
from rankwood.errors import DataError
from rankwood.measures.ranking import order

PAIRS = ("different", "all")
TIES = {"half": 0.5, "strict": 0.0}  # what a tie counts for "above"
_LEAST_PAIRS = 20_000  # per thread, some 0.5 ms


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of each query: all of them, or as many as were drawn.

    ``rows`` gives the row of the data at each place; the places of a query stand together, by falling label. The
    partners of a place are those from ``partners`` to the end of its query. ``whole`` and ``sampled`` are numbers of
    queries; the pairs of the latter are two rows of places in ``drawn``, from ``starts`` on.
    """

    rows: Rows
    offsets: Rows
    labels: Floats
    partners: Rows
    counts: Rows  # pairs of each query that there are
    whole: Rows
    sampled: Rows
    starts: Rows
    drawn: Rows

    @classmethod
    def of(cls, data: RankingData, pairs: str, max_pairs: int, seed: int) -> Pairs:
        """The pairs of ``data``, at most ``max_pairs`` of a query, drawn without replacement."""
        offsets = data.query_offsets
        grouped = read_only(np.ascontiguousarray(data.labels[data.row_order]))
        by_label = order(grouped, offsets).order
        labels = grouped[by_label]
        partners = _partners(labels, offsets, pairs)
        per_place = np.repeat(offsets[1:], np.diff(offsets)) - partners
        totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(per_place)])
        counts = totals[offsets[1:]] - totals[offsets[:-1]]
        if not counts.any():
            raise DataError(_nothing_to_compare(pairs))
        sampled = np.flatnonzero(counts > max_pairs)
        drawn = [
            _draw(query, totals, offsets, partners, max_pairs, seed) for query in sampled.tolist()
        ]
        return cls(
            data.row_order[by_label],
            read_only(offsets),
            read_only(labels),
            read_only(partners),
            counts,
            read_only(np.flatnonzero((counts > 0) & (counts <= max_pairs))),
            read_only(sampled),
            read_only(np.arange(sampled.size + 1, dtype=np.int64) * max_pairs),
            read_only(np.concatenate([np.zeros((2, 0), np.int64), *drawn], axis=1)),
        )

    @property
    def used(self) -> Rows:
        """How many pairs of each query are looked at."""
        used = self.counts.copy()
        used[self.sampled] = np.diff(self.starts)
        return used

    def decompose(self, scores: Sequence[Floats], ties: str, n_threads: int | None) -> Floats:
        """Error, bias² and variance of each query (rows), given the scores of each training.

        They are means over the query's pairs, NaN for a query without pairs.
        """
        from rankwood.evaluation.bias_variance_kernels import (
            N_SUMS,
            add_drawn_pairs,
            add_every_pair,
        )

        by_place = np.stack(list(scores), axis=1)[self.rows]
        sums: Floats = np.zeros((self.counts.size, N_SUMS))
        rest = (self.labels, read_only(np.ascontiguousarray(by_place)), TIES[ties], sums)
        for kernel, *lists in (
            (add_every_pair, self.whole, self.offsets, self.partners),
            (add_drawn_pairs, self.sampled, self.starts, self.drawn),
        ):
            n_queries, n_pairs = lists[0].size, int(self.used[lists[0]].sum())
            least = 1 + n_queries * _LEAST_PAIRS // max(1, n_pairs)
            run_blocks(kernel, n_queries, *lists, *rest, n_threads=n_threads, least=least)
        asked = 2.0 * self.used[:, np.newaxis]
        means: Floats = np.full(sums.shape, np.nan)
        np.divide(sums, asked, out=means, where=asked > 0)
        return means


def _partners(labels: Floats, offsets: Rows, pairs: str) -> Rows:
    """Where the partners of each place begin: at the next lower label, or at the next place."""
    places = np.arange(labels.size)
    if pairs == "all":
        return places + 1
    is_last = np.ones(labels.size, bool)  # of the places of its query with its label
    is_last[:-1] = labels[1:] != labels[:-1]
    is_last[offsets[1:] - 1] = True
    ends = np.flatnonzero(is_last)
    return ends[np.searchsorted(ends, places)] + 1


def _draw(query: int, totals: Rows, offsets: Rows, partners: Rows, n_pairs: int, seed: int) -> Rows:
    """Some pairs of a query: two rows of places. Pairs are numbered by their first place, then by their second."""
    before, after = totals[offsets[query]], totals[offsets[query + 1]]
    generator = _random.stream(seed, "pairs of a query", query)
    numbers = np.sort(generator.choice(int(after - before), n_pairs, replace=False, shuffle=False))
    numbers = numbers + before
    one = np.searchsorted(totals, numbers, side="right") - 1
    return np.stack([one, partners[one] + numbers - totals[one]])


def _nothing_to_compare(pairs: str) -> str:
    if pairs == "all":
        return "no query of the test data has two documents, so there is no pair to compare."
    return (
        "no query of the test data has documents of different labels, so no document is better than another. "
        "Look at the labels and the query ids."
    )
