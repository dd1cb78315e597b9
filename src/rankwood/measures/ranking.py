"""The one place that ranks: lists of documents, and their order by descending score.

A ranking is a stable sort by descending score: documents with equal scores keep the data's order.
The other tie rules change the data's order beforehand (``docid``) or take the mean over the tied
documents (``average``).

Words used here
    list      the documents of query q in the data's order: places offsets[q] to offsets[q + 1]
    ranking   places, best first: query q shows order[starts[q] : starts[q] + lengths[q]]
    listed    how many documents of a list were retrieved; the others are never shown
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rankwood import _checks, _threads
from rankwood.dtypes import Floats, Rows

# Up to this cut-off a buffer of the best documents beats ordering the whole list, whatever the
# order of the scores.
LARGEST_BUFFER = 32

# The least that is worth a thread: handing over a block costs some 30 µs, ranking so many documents
# or going through so many short rankings some 100 µs.
DOCUMENTS_PER_BLOCK = 30_000
QUERIES_PER_BLOCK = 2_000


@dataclass(frozen=True, eq=False)
class Ranking:
    """Places of each query's documents, best first, up to a cut-off."""

    order: Rows
    starts: Rows
    lengths: Rows

    def cut(self, longest: Any) -> Ranking:
        """The same lists, none longer than ``longest``: a number, or one number per query."""
        return replace(self, lengths=_checks.read_only(np.minimum(self.lengths, longest)))


@dataclass(frozen=True, eq=False)
class Lists:
    """Scores and labels grouped by query, with the rankings made from them so far.

    ``judged`` is 1 for a document whose label is known, else 0; None means that all are. ``rows``
    gives the caller's row at each place; None means that they are the same. Arrays cannot be
    written to.
    """

    offsets: Rows
    scores: Floats
    labels: Floats
    listed: Rows
    rows: Rows | None = None
    judged: Floats | None = None
    n_threads: int | None = None
    _whole: dict[str, Ranking] = field(default_factory=dict, repr=False)

    @property
    def n_queries(self) -> int:
        """Number of lists."""
        return self.offsets.size - 1

    @functools.cached_property
    def largest_label(self) -> float:
        """The largest label of any document; 0 without documents."""
        return float(self.labels.max()) if self.labels.size else 0.0

    def row(self, place: int) -> int:
        """The caller's row of the document at ``place``."""
        return int(place if self.rows is None else self.rows[place])

    def ranking(self, cutoff: int | None = None) -> Ranking:
        """The retrieved documents by descending score, up to ``cutoff``."""
        return self._ranked("score", self.scores, cutoff).cut(self.listed)

    def ideal(self, cutoff: int | None = None) -> Ranking:
        """All documents by descending label, up to ``cutoff``: the best ranking there is."""
        return self._ranked("label", self.labels, cutoff)

    def _ranked(self, name: str, values: Floats, cutoff: int | None) -> Ranking:
        """A ranking by ``values``; a whole one is kept and serves every cut-off."""
        if cutoff is not None and cutoff <= LARGEST_BUFFER and name not in self._whole:
            return top(values, self.offsets, cutoff, self.n_threads)
        if name not in self._whole:
            self._whole[name] = order(values, self.offsets, self.n_threads)
        whole = self._whole[name]
        return whole if cutoff is None else whole.cut(cutoff)


def order(values: Floats, offsets: Rows, n_threads: int | None = None) -> Ranking:
    """Every document of each list by descending value; equal values keep their order."""
    from rankwood.measures.ranking_kernels import order_lists

    places = np.empty(values.size, np.int64)
    scratch = np.empty(values.size, np.int64)
    run_lists(order_lists, offsets, values, scratch, places, n_threads=n_threads)
    lengths = np.diff(offsets)
    return Ranking(_checks.read_only(places), offsets[:-1], _checks.read_only(lengths))


def top(values: Floats, offsets: Rows, cutoff: int, n_threads: int | None = None) -> Ranking:
    """The best ``cutoff`` documents of each list by descending value, without ordering the rest."""
    from rankwood.measures.ranking_kernels import top_lists

    lengths = np.minimum(np.diff(offsets), cutoff)
    starts = _checks.read_only(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))
    places = np.empty(int(starts[-1]), np.int64)
    run_lists(top_lists, offsets, values, starts, places, n_threads=n_threads)
    return Ranking(_checks.read_only(places), starts[:-1], _checks.read_only(lengths))


def average_over_ties(values: Floats, lists: Lists, cutoff: int | None) -> tuple[Ranking, Floats]:
    """Values in ranked order, each the mean over the documents tied with it; a ranking of them.

    For a measure that is a weighted sum over ranks, this gives its mean over all orders of the tied
    documents.
    """
    from rankwood.measures.ranking_kernels import average_ties

    ranking = lists.ranking()
    ranked = values[ranking.order]
    run_lists(
        average_ties,
        lists.offsets,
        ranking.lengths,
        ranking.order,
        lists.scores,
        ranked,
        n_threads=lists.n_threads,
    )
    in_order = replace(ranking, order=_checks.read_only(np.arange(ranked.size)))
    if cutoff is not None:
        in_order = in_order.cut(cutoff)
    return in_order, _checks.read_only(ranked)


def run_queries(
    kernel: Callable[..., Any], n_queries: int, *arguments: Any, n_threads: int | None
) -> None:
    """Run ``kernel(first, last, ...)`` over blocks of queries, if there are many on threads."""
    _threads.run_blocks(kernel, n_queries, *arguments, n_threads=n_threads, least=QUERIES_PER_BLOCK)


def run_lists(
    kernel: Callable[..., Any], offsets: Rows, *arguments: Any, n_threads: int | None
) -> None:
    """Run ``kernel(first, last, offsets, ...)`` over blocks of queries, if large enough on threads."""
    n_queries = offsets.size - 1
    few_queries = 1 + n_queries * DOCUMENTS_PER_BLOCK // max(1, int(offsets[-1]))
    _threads.run_blocks(
        kernel, n_queries, offsets, *arguments, n_threads=n_threads, least=few_queries
    )
