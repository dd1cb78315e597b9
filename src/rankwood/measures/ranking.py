"""Lists of documents, and their order by descending score; all ranking of scores is done here.

A ranking is a stable sort by descending score: documents with equal scores keep the data's order.
The other tie rules change the data's order beforehand (``docid``) or take the mean over the tied
documents (``average``).

``group`` and ``lists_for`` check the scores and make the lists: they leave out or append unjudged and
missed documents, and apply the rule for ties. ``QueryValues`` is what a measure computes from the lists.

Terms
    position  an index into the data grouped by query
    list      the documents of query q in the data's order: positions offsets[q] to offsets[q + 1]
    ranking   positions, best first: query q shows order[starts[q] : starts[q] + lengths[q]]
    listed    how many documents of a list were retrieved; the others are never shown
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rankwood._core import checks, threads
from rankwood._core.jit import kernel
from rankwood._core.threads import lazy
from rankwood.data.dataset import HasJudgments, Judgments
from rankwood.dtypes import ROW, SCORE, Array, Floats, Rows
from rankwood.errors import DataError
from rankwood.measures.measure import Measure

# Up to this cut-off a buffer of the best documents beats ordering the whole list, whatever the
# order of the scores.
LARGEST_BUFFER = 32

# The least work per thread: dispatching a block costs about 30 µs, ranking this many documents,
# summing over this many ranked ones or processing this many short rankings about 100 µs.
DOCUMENTS_PER_BLOCK = 30_000
RANKED_PER_BLOCK = 40_000
QUERIES_PER_BLOCK = 2_000

# Up to this many values are ordered by comparing all pairs: the loop has no branches, so the compiler
# vectorises it, and it is faster than any sort.
RUN = 128

PIECES = 16  # of a long list that threads order together; a power of two

UNJUDGED = ("as_zero", "condense")
Flags = npt.NDArray[np.bool_]


class Ranking(NamedTuple):
    """Positions of each query's documents, best first, up to a cut-off; kernels take it as it is."""

    order: Rows
    starts: Rows
    lengths: Rows


def cut(ranking: Ranking, longest: Any) -> Ranking:
    """The same lists, none longer than ``longest``: a number, or one number per query."""
    return ranking._replace(lengths=checks.read_only(np.minimum(ranking.lengths, longest)))


@dataclass(frozen=True, eq=False)
class Lists:
    """Scores and labels grouped by query, with the rankings made from them so far.

    ``judged`` is 1 for a document whose label is known, else 0; None means that all are. ``rows``
    gives the caller's row at each position; None means that they are the same. Arrays cannot be
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

    @lazy
    def largest_label(self) -> float:
        """The largest label of any document; 0 without documents."""
        return float(self.labels.max()) if self.labels.size else 0.0

    def row(self, position: int) -> int:
        """The caller's row of the document at ``position``."""
        return int(position if self.rows is None else self.rows[position])

    def ranking(self, cutoff: int | None = None) -> Ranking:
        """The retrieved documents by descending score, up to ``cutoff``."""
        return cut(self._ranked("score", self.scores, cutoff), self.listed)

    def forget_rankings(self) -> None:
        """Free the rankings made so far; they are made again when they are asked for."""
        self._whole.clear()

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
        return whole if cutoff is None else cut(whole, cutoff)


def order(values: Floats, offsets: Rows, n_threads: int | None = None) -> Ranking:
    """Every document of each list by descending value; equal values keep their order."""
    positions = np.empty(values.size, np.int64)
    scratch = np.empty(values.size, np.int64)
    run_lists(order_lists, offsets, values, scratch, positions, n_threads=n_threads)
    lengths = np.diff(offsets)
    return Ranking(checks.read_only(positions), offsets[:-1], checks.read_only(lengths))


def order_together(values: Floats, n_threads: int | None = None) -> Rows:
    """All positions by descending value, as one list; threads share it if it is long.

    They order pieces, and then merge two pieces, four, … into one. Every merge is divided by ranks, so that there is
    work for all of them to the end.
    """
    everything = checks.read_only(np.array([0, values.size], np.int64))
    if threads.resolve_threads(n_threads) == 1 or values.size < 2 * DOCUMENTS_PER_BLOCK:
        return order(values, everything, n_threads).order
    edges = checks.read_only(np.arange(PIECES + 1) * values.size // PIECES)
    source: Array = np.empty(values.size, np.int64)
    target = np.empty_like(source)
    run_lists(order_lists, edges, values, target, source, n_threads=n_threads)
    width = 1
    while width < PIECES:
        merged = (edges, width, values, source, target)
        threads.run_blocks(merge_pieces, PIECES, *merged, n_threads=n_threads)
        source, target = target, source
        width *= 2
    return checks.read_only(source)


def top(values: Floats, offsets: Rows, cutoff: int, n_threads: int | None = None) -> Ranking:
    """The best ``cutoff`` documents of each list by descending value, without ordering the rest."""
    lengths = np.minimum(np.diff(offsets), cutoff)
    starts = checks.read_only(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))
    positions = np.empty(int(starts[-1]), np.int64)
    run_lists(top_lists, offsets, values, starts, positions, n_threads=n_threads)
    return Ranking(checks.read_only(positions), starts[:-1], checks.read_only(lengths))


def average_over_ties(values: Floats, lists: Lists, cutoff: int | None) -> tuple[Ranking, Floats]:
    """Values in ranked order, each the mean over the documents tied with it; a ranking of them.

    For a measure that is a weighted sum over ranks, this gives its mean over all orders of the tied
    documents.
    """
    ranking = lists.ranking()
    ranked = values[ranking.order]
    run_lists(
        average_ties,
        lists.offsets,
        ranking,
        lists.scores,
        ranked,
        n_threads=lists.n_threads,
    )
    in_order = ranking._replace(order=checks.read_only(np.arange(ranked.size)))
    if cutoff is not None:
        in_order = cut(in_order, cutoff)
    return in_order, checks.read_only(ranked)


def run_queries(
    kernel: Callable[..., Any],
    n_queries: int,
    *arguments: Any,
    n_threads: int | None,
    n_ranked: int = 0,
) -> None:
    """Run ``kernel(first, last, ...)`` over blocks of queries; on threads, if these or their rankings are long."""
    few_queries = 1 + n_queries * RANKED_PER_BLOCK // max(1, n_ranked)
    least = min(QUERIES_PER_BLOCK, few_queries)
    threads.run_blocks(kernel, n_queries, *arguments, n_threads=n_threads, least=least)


def run_rankings(
    kernel: Callable[..., Any], ranking: Ranking, lists: Lists, *arguments: Any
) -> None:
    """Run ``kernel(first, last, ranking, ...)`` over blocks of queries."""
    run_queries(
        kernel,
        lists.n_queries,
        ranking,
        *arguments,
        n_threads=lists.n_threads,
        n_ranked=ranking.order.size,
    )


def run_lists(
    kernel: Callable[..., Any], offsets: Rows, *arguments: Any, n_threads: int | None
) -> None:
    """Run ``kernel(first, last, offsets, ...)`` over blocks of queries, if large enough on threads."""
    n_queries = offsets.size - 1
    few_queries = 1 + n_queries * DOCUMENTS_PER_BLOCK // max(1, int(offsets[-1]))
    threads.run_blocks(
        kernel, n_queries, offsets, *arguments, n_threads=n_threads, least=few_queries
    )


def rank_rows(
    scores: Floats, data: HasJudgments, n_threads: int | None = None
) -> tuple[Rows, Rows]:
    """The rank of each row, 1 for the best of its query, and the rows query by query, best first.

    Documents with equal scores keep the data's order.
    """
    judgments = data.judgments
    offsets = judgments.query_offsets
    in_order = checks.read_only(np.ascontiguousarray(scores[judgments.row_order], SCORE))
    rows = judgments.row_order[order(in_order, offsets, n_threads).order]
    ranks = np.empty(rows.size, ROW)
    ranks[rows] = np.arange(1, rows.size + 1) - np.repeat(offsets[:-1], np.diff(offsets))
    return ranks, rows


# Kernels.


@kernel
def rank_run(values: Array, n_values: int, ranks: Array) -> None:
    """How many values stand before each of the first: the greater ones, and the earlier equals."""
    for document in range(n_values):
        value = values[document]
        n_before = 0
        for earlier in range(document):
            n_before += values[earlier] >= value
            ranks[earlier] += values[earlier] < value
        ranks[document] = n_before


@kernel
def merge_runs(
    values: Array, begin: int, middle: int, end: int, source: Array, target: Array
) -> None:
    """Merge the ordered runs [begin, middle) and [middle, end) of ``source`` into ``target``."""
    merge_ranks(values, begin, middle, middle, end, begin, end, source, target)


@kernel
def merge_ranks(
    values: Array,
    left: int,
    middle: int,
    right: int,
    end: int,
    first: int,
    last: int,
    source: Array,
    target: Array,
) -> None:
    """Write the ranks ``first`` to ``last`` of two merged runs, of which [left, middle) and [right, end) are left."""
    for rank in range(first, last):
        takes_left = right >= end or (
            left < middle and values[source[left]] >= values[source[right]]
        )
        if takes_left:
            target[rank] = source[left]
            left += 1
        else:
            target[rank] = source[right]
            right += 1


@kernel
def first_of_left(values: Array, left: Array, right: Array, n_ranks: int) -> int:
    """How many of the first ``n_ranks`` of two merged runs come from the left one."""
    low = max(0, n_ranks - right.size)
    high = min(n_ranks, left.size)
    while low < high:
        middle = (low + high) // 2
        if values[left[middle]] >= values[right[n_ranks - 1 - middle]]:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def merge_pieces(
    first: int, last: int, edges: Array, width: int, values: Array, source: Array, target: Array
) -> None:
    """Merge runs of ``width`` pieces of ``source``, two by two; write the ranks of pieces ``first`` to ``last``."""
    for piece in range(first, last):
        pair = piece // (2 * width) * 2 * width
        begin = edges[pair]
        left = source[begin : edges[pair + width]]
        right = source[edges[pair + width] : edges[pair + 2 * width]]
        n_before = edges[piece] - begin
        from_left = first_of_left(values, left, right, n_before)
        merge_ranks(
            values,
            begin + from_left,
            edges[pair + width],
            edges[pair + width] + n_before - from_left,
            edges[pair + 2 * width],
            edges[piece],
            edges[piece + 1],
            source,
            target,
        )


@kernel
def merge_list(values: Array, begin: int, end: int, scratch: Array, order: Array) -> None:
    """Merge the runs of one list, pair by pair, until one run is left."""
    width = RUN
    while width < end - begin:
        for start in range(begin, end, 2 * width):
            middle = min(start + width, end)
            merge_runs(values, start, middle, min(start + 2 * width, end), order, scratch)
        for position in range(begin, end):
            order[position] = scratch[position]
        width *= 2


@kernel
def order_lists(
    first: int, last: int, offsets: Array, values: Array, scratch: Array, order: Array
) -> None:
    """Write the whole order of each list where the list stands."""
    run = np.empty(RUN, np.float64)
    ranks = np.empty(RUN, np.int64)
    for query in range(first, last):
        end = offsets[query + 1]
        for start in range(offsets[query], end, RUN):
            size = min(RUN, end - start)
            for document in range(size):
                run[document] = values[start + document]
            rank_run(run, size, ranks)
            for document in range(size):
                order[start + ranks[document]] = start + document
        merge_list(values, offsets[query], end, scratch, order)


@kernel
def lower_bound(documents: Array, room: int, piles: Array, ranks: Array) -> float:
    """A value that at least ``room`` documents reach.

    The documents are divided into twice as many piles; the best of each pile is a document, so the
    ``room``-th best of these will do. It lets few others pass, and costs one pass without branches.
    """
    n_piles = 2 * room
    if documents.size < 2 * n_piles:
        return -np.inf
    for pile in range(n_piles):
        piles[pile] = documents[pile]
    for start in range(n_piles, documents.size - n_piles + 1, n_piles):
        layer = documents[start : start + n_piles]
        for pile in range(n_piles):
            piles[pile] = max(piles[pile], layer[pile])
    rank_run(piles, n_piles, ranks)
    bound = -np.inf
    for pile in range(n_piles):
        if ranks[pile] == room - 1:
            bound = piles[pile]
    return bound


@kernel
def top_lists(
    first: int, last: int, offsets: Array, values: Array, starts: Array, order: Array
) -> None:
    """Write the first positions of each list's order; ``starts`` says how many, at most RUN / 4.

    Documents that may be among the best are collected without a branch; when many have come
    together they are ranked, and all but the best are dropped.
    """
    kept = np.empty(RUN, np.float64)
    kept_positions = np.empty(RUN, np.int64)
    ranked = np.empty(RUN, np.float64)
    ranked_positions = np.empty(RUN, np.int64)
    ranks = np.empty(RUN, np.int64)
    for query in range(first, last):
        begin = offsets[query]
        documents = values[begin : offsets[query + 1]]
        room = starts[query + 1] - starts[query]
        if room == 0:
            continue
        worst = lower_bound(documents, room, ranked, ranks)
        equals_enter = 1  # until there are enough documents that reach the bound
        n_kept = 0
        for document in range(documents.size):
            value = documents[document]
            kept[n_kept] = value
            kept_positions[n_kept] = begin + document
            n_kept += int(value > worst) | (equals_enter & int(value == worst))
            if n_kept < RUN and document < documents.size - 1:
                continue
            rank_run(kept, n_kept, ranks)
            for position in range(n_kept):
                ranked[ranks[position]] = kept[position]
                ranked_positions[ranks[position]] = kept_positions[position]
            n_kept = min(n_kept, room)
            for rank in range(n_kept):
                kept[rank] = ranked[rank]
                kept_positions[rank] = ranked_positions[rank]
            if n_kept == room:
                equals_enter = 0
                worst = kept[room - 1]
        for rank in range(room):
            order[starts[query] + rank] = kept_positions[rank]


@kernel
def average_ties(
    first: int, last: int, offsets: Array, ranking: Ranking, scores: Array, values: Array
) -> None:
    """Replace the ranked ``values`` of documents with equal scores by their mean, in place."""
    order, _, lengths = ranking
    for query in range(first, last):
        begin = offsets[query]
        list_end = begin + lengths[query]
        while begin < list_end:
            score = scores[order[begin]]
            end = begin
            total = 0.0
            while end < list_end and scores[order[end]] == score:
                total += values[end]
                end += 1
            for rank in range(begin, end):
                values[rank] = total / (end - begin)
            begin = end


# From scores in the caller's order to lists of documents.


def group(
    scores: Any,
    data: HasJudgments,
    *,
    ties: str = "data",
    judged: Any = None,
    retrieved: Any = None,
    unjudged: str = "as_zero",
    n_threads: int | None = None,
) -> Lists:
    """The documents of ``data`` as lists with their scores, ready to be ranked.

    ``judged`` marks the rows whose label is known. Under ``unjudged="as_zero"`` the others have
    label 0; under ``"condense"`` they are left out of the lists. ``retrieved`` marks the rows a run
    holds; the others are documents it has missed: part of the ideal, but never of the ranking.
    """
    judgments = data.judgments
    n_rows = judgments.n_documents
    numbers = check_scores(scores, n_rows)
    checks.one_of("unjudged", unjudged, UNJUDGED)
    is_judged = _flags("judged", judged, n_rows)
    is_retrieved = _flags("retrieved", retrieved, n_rows)
    labels = judgments.labels
    if is_judged is not None:
        labels = np.where(is_judged, labels, 0.0)
    if is_retrieved is not None:
        numbers = np.where(is_retrieved, numbers, -np.inf)
    rows = _row_order(judgments, ties, is_retrieved)
    if is_judged is not None and unjudged == "condense":
        rows = np.arange(n_rows) if rows is None else rows
        rows = rows[is_judged[rows]]
    offsets = _count_offsets(judgments, rows)
    listed = np.diff(offsets) if is_retrieved is None else _count(judgments, is_retrieved, rows)
    return Lists(
        offsets=checks.read_only(offsets),
        scores=_take(numbers, rows),
        labels=_take(labels, rows),
        listed=checks.read_only(listed),
        rows=rows,
        judged=None if is_judged is None else _take(is_judged.astype(np.float64), rows),
        n_threads=n_threads,
    )


def lists_for(measure: Measure, scores: Any, data: HasJudgments, **options: Any) -> Lists:
    """The lists a measure reads: in the order its tie rule asks for.

    The share of judged documents is that of the whole ranking, also where lists are condensed.
    """
    if measure.name == "judged":
        options |= {"unjudged": "as_zero"}
    return group(scores, data, ties="docid" if measure.ties == "docid" else "data", **options)


_EXACT_IN_FLOAT64 = 2**53


def check_scores(scores: Any, n_rows: int) -> Floats:
    """Scores as float64, one per row and none of them NaN; infinite ones are fine."""
    if isinstance(scores, np.ma.MaskedArray):
        scores = np.ma.filled(scores.astype(np.float64), np.nan)
    try:
        array = np.asarray(scores)
    except ValueError:
        raise DataError(
            "scores must be one number per row, got lists of different lengths."
        ) from None
    if array.dtype.kind not in "fiub":
        raise DataError(f"scores must be numbers, got an array of {array.dtype}.")
    if array.ndim != 1:
        raise DataError(f"scores must have one dimension, got {array.ndim}. Try scores.ravel().")
    if array.size != n_rows:
        raise DataError(f"scores has {array.size:,} values, but the data have {n_rows:,} rows.")
    _refuse_inexact(array)
    array = np.require(array, np.float64, ["C", "ALIGNED"])
    with np.errstate(invalid="ignore"):
        has_missing = bool(np.isnan(array.min(initial=np.inf)))  # faster than a flag per row
    if has_missing:
        missing = np.isnan(array)
        raise DataError(
            f"scores[{int(np.argmax(missing))}] is NaN ({int(missing.sum()):,} in all). "
            "A ranking needs a number for every row; use -inf for documents that should come last."
        )
    return array


def _refuse_inexact(array: Array) -> None:
    """Raise for whole numbers that float64 does not hold: different scores would become equal."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or array.size == 0:
        return
    low, high = int(array.min()), int(array.max())
    if max(-low, high) > _EXACT_IN_FLOAT64:
        value = high if high > -low else low
        raise DataError(
            f"a score is {value:,}, beyond the whole numbers that float64 tells apart (2^53), so that different scores "
            "would tie. Subtract an offset, or pass ranks: scipy.stats.rankdata(scores)."
        )


def _flags(name: str, values: Any, n_rows: int) -> Flags | None:
    if values is None:
        return None
    array = np.asarray(values)
    if array.dtype != bool:
        raise DataError(
            f"{name} must be True or False for each row, got an array of {array.dtype}."
        )
    if array.shape != (n_rows,):
        raise DataError(f"{name} has {array.size:,} values, but the data have {n_rows:,} rows.")
    return array


def _row_order(judgments: Judgments, ties: str, is_retrieved: Flags | None) -> Rows | None:
    """The row at each position of the lists; None where that is the row itself."""
    if ties == "docid":
        number_of_id = _numbers_of_ids(judgments.doc_ids)
    elif is_retrieved is None:
        return None if judgments.grouping.n_separated == 0 else judgments.row_order
    else:
        number_of_id = np.zeros(judgments.n_documents, np.int64)
    missed = np.zeros(judgments.n_documents, bool) if is_retrieved is None else ~is_retrieved
    # The last key sorts first: by query, retrieved before missed, then by descending id; otherwise
    # as in the data.
    return np.lexsort((-number_of_id, missed, judgments.query_of_row)).astype(np.int64)


def _numbers_of_ids(doc_ids: Array | None) -> Rows:
    """The number of each row's document id among all ids, in the order of their bytes."""
    if doc_ids is None:
        raise DataError("ties=docid needs the documents' ids. Pass doc_ids= to RankingData.")
    texts = np.array([str(value).encode() for value in doc_ids.tolist()], dtype=bytes)
    return np.unique(texts, return_inverse=True)[1].astype(np.int64)


def _count_offsets(judgments: Judgments, rows: Rows | None) -> Rows:
    if rows is None or rows.size == judgments.n_documents:
        return judgments.query_offsets
    sizes = np.bincount(judgments.query_of_row[rows], minlength=judgments.n_queries)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _count(judgments: Judgments, flags: Flags, rows: Rows | None) -> Rows:
    """How many of the listed rows are marked, per query."""
    marked = flags if rows is None else flags[rows]
    queries = judgments.query_of_row if rows is None else judgments.query_of_row[rows]
    return np.bincount(queries[marked], minlength=judgments.n_queries).astype(np.int64)


def _take(values: Array, rows: Rows | None) -> Floats:
    taken = values if rows is None else values[rows]
    return checks.read_only(np.asarray(taken))  # a plain array, where data are memory-mapped


@dataclass(frozen=True, eq=False)
class QueryValues:
    """One value per query, and whether the query is empty: nothing in it could be ranked well."""

    values: Floats
    is_empty: npt.NDArray[np.bool_]

    def with_empty(self, convention: float | str) -> QueryValues:
        """The values with those of empty queries replaced; ``skip`` makes them NaN."""
        replacement = np.nan if convention == "skip" else float(convention)
        return QueryValues(np.where(self.is_empty, replacement, self.values), self.is_empty)
