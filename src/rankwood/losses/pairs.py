"""The losses of pairs of documents that RankBoost and NDCGBoost lower.

RankBoost (Freund, Iyer, Schapire & Singer 2003) lowers the exponential loss of pairs, ``PairLoss``.
``r = Σ D(i, j) (h_i - h_j) = Σ potential(i) · h_i`` for any ranker h, so potentials are all that a weak learner needs,
and pairs are never listed: exp(s_j - s_i) is a product, so a document's potential follows from sums of exp(s) and
exp(-s) over the documents above and below its label.

NDCGBoost (Valizadegan, Jin, Zhang & Mao 2009) lowers a surrogate of NDCG, ``NDCGBoostLoss``:
``M = Σ_i g_i Σ_{j≠i} 1 / (1 + exp(F_i - F_j))`` per query, with ``g = gain / ideal DCG``: what documents are expected
to lose to those above them. ``θ_ij = exp(F_i - F_j) / (1 + exp(F_i - F_j))²`` is the slope of each term.
A row weight multiplies every pair the document is in, a query weight every pair of the query. All sums run over pairs
of a query: time grows with the square of a query's length, memory does not.

Terms
    better, worse   the documents of a pair, by label
    D               the distribution over pairs: D(better, worse) ∝ exp(score of worse - score of better)
    potential       of a document: Σ D over the pairs where it is the better one, minus Σ D where it is the worse one
    position        an index of a document; those of a query are ordered by descending label
    mass            the document's weight times exp(F)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.sums import exact_sum
from rankwood._core.threads import run_blocks
from rankwood.data.dataset import HasJudgments, Judgments
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError
from rankwood.measures.listwise import Gain, discounts, rule
from rankwood.measures.ranking import Lists

_LEAST_DOCUMENTS = 20_000  # per thread: fewer take less time than starting a thread
FARTHEST = 300.0  # from the centre: products of four exponentials' sums stay within float64
# Share of the two sums together that is added to each: no step is longer than ½ ln(10⁶ + 1) = 6.9.
SMOOTHING = 1e-6
_LEAST_COMPARED = 1_000  # per thread; each is compared with all others of its query


@dataclass(frozen=True, eq=False)
class PairLoss:
    """``Σ weight · exp(score of worse - score of better)`` over all pairs inside queries.

    A pair weighs the weight of its query times those of its two documents.
    """

    lists: GradedLists

    def start(self) -> float:
        """Zero for every row: a constant changes no pair."""
        return 0.0

    def potentials(self, scores: Floats) -> Floats:
        """The potential of each row: the negative gradient of the logarithm of the loss."""
        potentials, losses = self._potentials(scores)
        return self.lists.by_row(potentials / exact_sum(losses))

    def gradients(self, scores: Floats) -> tuple[Floats, None]:
        """The gradient of ``value`` by row; RankBoost takes no Newton step, so there is no hessian."""
        return self.lists.by_row(-self._potentials(scores)[0] / self._total_weight()), None

    def value(self, scores: Floats) -> float:
        """The mean over pairs, 1 where all scores are equal; no less than the share of pairs in the wrong order."""
        return float(self._potentials(scores)[1].sum() / self._total_weight())

    def _total_weight(self) -> float:
        """The weight of all pairs."""
        return float(self._potentials(np.zeros(self.lists.n_rows))[1].sum())

    def _potentials(self, scores: Floats) -> tuple[Floats, Floats]:
        """Potentials by position and the loss of each list, before D is made to sum to 1."""
        lists = self.lists
        potentials, losses = np.empty(lists.rows.size), np.empty(lists.n_lists)
        lists.run(
            potentials_of_lists,
            lists.labels,
            lists.weights,
            lists.query_weights,
            lists.exponentials(scores),
            potentials,
            losses,
        )
        return read_only(potentials), read_only(losses)


@dataclass(frozen=True, eq=False)
class GradedLists:
    """Every document that is part of a pair, query by query, the best label first.

    A pair is two documents of one query with different labels. Queries with one label only, and documents without
    weight, have no pairs and are not listed. Arrays cannot be written to.
    """

    n_rows: int  # of the data
    rows: Rows  # the row at each position
    offsets: Rows  # list q holds the positions offsets[q] to offsets[q + 1]
    labels: Floats  # by position
    weights: Floats  # by position, the greatest is 1: of the document alone
    query_weights: Floats  # by list, the greatest is 1
    n_threads: int

    @property
    def n_lists(self) -> int:
        """How many queries have pairs."""
        return self.offsets.size - 1

    def run(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        """Call ``kernel(first, last, offsets, *arguments)`` on blocks of lists."""
        few = 1 + self.n_lists * _LEAST_DOCUMENTS // self.rows.size
        run_blocks(
            kernel,
            self.n_lists,
            self.offsets,
            *arguments,
            n_threads=self.n_threads,
            least=few,
        )

    def exponentials(self, scores: Floats) -> Floats:
        """``exp(score)`` of each position, scores centred in their list."""
        exponentials = np.empty(self.rows.size)
        self.run(centred_exponentials, self.rows, read_only(scores), exponentials)
        return read_only(exponentials)

    def by_row(self, values: Floats) -> Floats:
        """Values of positions as values of rows; 0 for a row that is not listed."""
        spread = np.zeros(self.n_rows)
        spread[self.rows] = values
        return spread


def graded_lists(data: HasJudgments, n_threads: int) -> GradedLists:
    """The pairs of ``data``; an error where there are none."""
    judgments = data.judgments
    labels, n_queries = judgments.labels, judgments.n_queries
    row_weights, of_query = judgments.row_weights_or_ones, judgments.query_weights_or_ones
    query = judgments.query_of_row
    least, most = np.full(n_queries, np.inf), np.full(n_queries, -np.inf)
    weighed = row_weights > 0
    np.minimum.at(least, query[weighed], labels[weighed])
    np.maximum.at(most, query[weighed], labels[weighed])
    has_pairs = (least < most) & (of_query > 0)
    if not has_pairs.any():
        raise DataError(_no_pairs(judgments))
    rows = np.flatnonzero(has_pairs[query] & weighed)
    rows = rows[np.lexsort((-labels[rows], query[rows]))]  # equal labels keep their order
    offsets = np.zeros(int(has_pairs.sum()) + 1, np.int64)
    np.cumsum(np.bincount(query[rows], minlength=n_queries)[has_pairs], out=offsets[1:])
    weights, query_weights = row_weights[rows], of_query[has_pairs]
    return GradedLists(
        judgments.n_documents,
        read_only(rows.astype(np.int64)),
        read_only(offsets),
        read_only(labels[rows]),
        # scaled, so that products of extreme weights are finite
        read_only(weights / weights.max()),
        read_only(query_weights / query_weights.max()),
        n_threads,
    )


def _no_pairs(judgments: Judgments) -> str:
    weighted = judgments.row_weights is not None or judgments.query_weights is not None
    return (
        f"there is nothing to rank: none of the {judgments.n_queries:,} queries "
        f"({judgments.n_documents:,} rows) has two documents "
        f"{'of positive weight ' if weighted else ''}with different labels. "
        "Check that qid groups the documents of one search, and that labels vary within it."
    )


@kernel
def potentials_of_lists(
    first: int,
    last: int,
    offsets: Array,
    labels: Array,
    weights: Array,
    query_weights: Array,
    exponentials: Array,
    potentials: Array,
    losses: Array,
) -> None:
    """The potential of each position and the loss of each list, in two passes over the list.

    Positions of a list are ordered by descending label. The pass down has the sum over all better documents, the pass
    up that over all worse ones; the documents of a label are added to the sum when the next label begins.
    """
    for query in range(first, last):
        begin = offsets[query]
        end = offsets[query + 1]
        better = 0.0
        of_label = 0.0
        for position in range(begin, end):
            if position > begin and labels[position] != labels[position - 1]:
                better += of_label
                of_label = 0.0
            potentials[position] = (
                -query_weights[query] * weights[position] * exponentials[position] * better
            )
            of_label += weights[position] / exponentials[position]
        worse = 0.0
        of_label = 0.0
        loss = 0.0
        for position in range(end - 1, begin - 1, -1):
            if position < end - 1 and labels[position] != labels[position + 1]:
                worse += of_label
                of_label = 0.0
            won = query_weights[query] * weights[position] / exponentials[position] * worse
            potentials[position] += won
            loss += won
            of_label += weights[position] * exponentials[position]
        losses[query] = loss


@kernel
def centred_exponentials(
    first: int, last: int, offsets: Array, rows: Array, scores: Array, exponentials: Array
) -> None:
    """``exp(score - centre)`` of each position, where the centre is midway between a list's extreme scores.

    Losses depend on differences within a list only, so any centre will do. Scores farther than ``FARTHEST`` from it
    count as that far: their pairs weigh nothing, or everything, either way.
    """
    for query in range(first, last):
        least = np.inf
        most = -np.inf
        for position in range(offsets[query], offsets[query + 1]):
            least = min(least, scores[rows[position]])
            most = max(most, scores[rows[position]])
        centre = 0.5 * least + 0.5 * most
        for position in range(offsets[query], offsets[query + 1]):
            distance = scores[rows[position]] - centre
            exponentials[position] = math.exp(min(max(distance, -FARTHEST), FARTHEST))


@dataclass(frozen=True, eq=False)
class NDCGBoostLoss:
    """``M`` over all queries."""

    lists: GradedLists
    gains: Floats  # by position: gain over the ideal DCG of the query, times the query's weight

    def start(self) -> float:
        """Zero for every row: a constant changes no difference of scores."""
        return 0.0

    def gradients(self, scores: Floats) -> tuple[Floats, None]:
        """The gradient of M by row. M is not convex, so there is no hessian for a Newton step."""
        return -self.document_weights(scores), None

    def document_weights(self, scores: Floats) -> Floats:
        """``w_i = Σ_j (g_i - g_j) θ_ij`` by row: minus the gradient of M; the weights of a query sum to 0."""
        exponentials = self.lists.exponentials(scores)
        weights = np.empty(exponentials.size)
        masses = read_only(self.lists.weights * exponentials)
        self._run(weights_of_documents, PositionTerms(self.gains, masses, exponentials), weights)
        return self.lists.by_row(weights)

    def step(self, scores: Floats, votes: Floats) -> float:
        """``α = ½ ln(up / down)``, how far documents with vote 1 are moved from those with vote 0.

        ``up = Σ g_i θ_ij`` over the pairs where i has the vote and j has not, ``down`` where it is the other way
        round. M falls by at least ``(√up - √down)²``. Both are smoothed: with vote 1 for all that is relevant, ``down``
        may be 0. The step is 0 where the votes tell no documents apart.
        """
        up, down = self.pair_sums(scores, votes)
        extra = SMOOTHING * (up + down)
        return 0.5 * math.log((up + extra) / (down + extra)) if extra > 0 else 0.0

    def pair_sums(self, scores: Floats, votes: Floats) -> tuple[float, float]:
        """The two sums of ``step``; votes are 0 or 1, by row."""
        exponentials = self.lists.exponentials(scores)
        masses = read_only(self.lists.weights * exponentials)
        parted = np.empty((3, exponentials.size))
        middles = np.empty(self.lists.n_lists, np.int64)
        terms = PositionTerms(self.gains, masses, exponentials)
        self.lists.run(part_by_vote, self.lists.rows, read_only(votes), terms, parted, middles)
        sums = np.zeros((2, exponentials.size))
        self._run(sums_over_votes, read_only(middles), read_only(parted), sums)
        return exact_sum(sums[0]), exact_sum(sums[1])

    def value(self, scores: Floats) -> float:
        """``M``, with the greatest weights of rows and of queries as unit."""
        exponentials = self.lists.exponentials(scores)
        losses = np.empty(exponentials.size)
        terms = PositionTerms(self.gains, self.lists.weights, exponentials)
        self._run(losses_of_documents, terms, losses)
        return float(losses.sum())

    def _run(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        """Call ``kernel(first, last, offsets, …)`` on blocks of positions: threads share a long query."""
        run_blocks(
            kernel,
            self.lists.rows.size,
            self.lists.offsets,
            *arguments,
            n_threads=self.lists.n_threads,
            least=_LEAST_COMPARED,
        )


def ndcgboost_loss(lists: GradedLists, gain: Gain) -> NDCGBoostLoss:
    """The loss for labels turned into gains; labels too large for their gain are refused."""
    as_measured = Lists(
        lists.offsets,
        read_only(np.zeros(lists.labels.size)),
        lists.labels,
        read_only(np.diff(lists.offsets)),
        lists.rows,
        n_threads=lists.n_threads,
    )
    chosen = rule(gain)
    chosen.check(as_measured)
    gains = chosen.of_labels(as_measured)
    sizes = np.diff(lists.offsets)
    ranks = np.arange(gains.size) - np.repeat(
        lists.offsets[:-1], sizes
    )  # labels fall: the ideal order
    gained = gains * discounts("log2", int(sizes.max()))[ranks]
    ideal = np.add.reduceat(gained, lists.offsets[:-1])
    # A table may give all labels of a query the gain 0; such a query adds nothing.
    unit = np.divide(lists.query_weights, ideal, out=np.zeros(ideal.size), where=ideal > 0)
    return NDCGBoostLoss(lists, read_only(gains * np.repeat(unit, sizes)))


# Kernels. With ``e = exp(F)``, θ_ij = e_i e_j / (e_i + e_j)²: no exponential is taken per pair. Inner loops run over
# the documents whose sums are wanted and outer ones over those they are compared with: inner loops then carry no sum
# and are vectorised, and a block of positions is summed in the same order whatever the blocks.


class PositionTerms(NamedTuple):
    """What the document at each position brings into a sum over pairs."""

    gains: Array
    masses: Array  # its weight, times its exponential where the sum wants it
    exponentials: Array


@kernel
def weights_of_documents(
    first: int, last: int, offsets: Array, terms: PositionTerms, weights: Array
) -> None:
    """``Σ_j (g_i - g_j) θ_ij`` of the positions ``first`` to ``last``; documents of equal gain add nothing."""
    gains, masses, exponentials = terms
    query = np.searchsorted(offsets, first, side="right") - 1
    while query < offsets.size - 1 and offsets[query] < last:
        end = offsets[query + 1]
        low = max(first, offsets[query])
        high = min(last, end)
        weights[low:high] = 0.0
        begin = offsets[query]
        while begin < end:
            after = begin + 1
            while after < end and gains[after] == gains[begin]:
                after += 1
            for other in range(begin, after):
                for start, stop in ((low, min(high, begin)), (max(low, after), high)):
                    if start < stop:
                        pull(
                            gains[other],
                            masses[other],
                            exponentials[other],
                            gains[start:stop],
                            exponentials[start:stop],
                            weights[start:stop],
                        )
            begin = after
        for position in range(low, high):
            weights[position] *= masses[position]
        query += 1


@kernel
def pull(
    gain: float,
    mass: float,
    exponential: float,
    gains: Array,
    exponentials: Array,
    weights: Array,
) -> None:
    """Add the terms of one document to the sums of some others, without the factor of their own mass."""
    for position in range(weights.size):
        both = exponential + exponentials[position]
        weights[position] += (gains[position] - gain) * mass / (both * both)


@kernel
def part_by_vote(
    first: int,
    last: int,
    offsets: Array,
    rows: Array,
    votes: Array,
    terms: PositionTerms,
    parted: Array,
    middles: Array,
) -> None:
    """Gain, mass and exponential of each list's documents, those with vote 1 first; where the others begin."""
    gains, masses, exponentials = terms
    for query in range(first, last):
        begin = offsets[query]
        end = offsets[query + 1]
        front = begin
        for vote in (1.0, 0.0):
            for position in range(begin, end):
                if votes[rows[position]] == vote:
                    parted[0, front] = gains[position]
                    parted[1, front] = masses[position]
                    parted[2, front] = exponentials[position]
                    front += 1
            if vote == 1.0:
                middles[query] = front


@kernel
def sums_over_votes(
    first: int, last: int, offsets: Array, middles: Array, parted: Array, sums: Array
) -> None:
    """For the positions with vote 1: Σ g_i θ_ij and Σ g_j θ_ij over the documents j of their query with vote 0."""
    gains = parted[0]
    masses = parted[1]
    exponentials = parted[2]
    up = sums[0]
    down = sums[1]
    query = np.searchsorted(offsets, first, side="right") - 1
    while query < offsets.size - 1 and offsets[query] < last:
        low = max(first, offsets[query])
        high = min(last, middles[query])
        for other in range(middles[query], offsets[query + 1]):
            if low < high:
                part(
                    gains[other],
                    masses[other],
                    exponentials[other],
                    exponentials[low:high],
                    up[low:high],
                    down[low:high],
                )
        for position in range(low, high):
            up[position] *= gains[position] * masses[position]
            down[position] *= masses[position]
        query += 1


@kernel
def part(
    gain: float, mass: float, exponential: float, exponentials: Array, up: Array, down: Array
) -> None:
    """Add a document with vote 0 to the sums of those with vote 1, without the factors of the latter."""
    for position in range(up.size):
        both = exponential + exponentials[position]
        slope = mass / (both * both)
        up[position] += slope
        down[position] += gain * slope


@kernel
def losses_of_documents(
    first: int, last: int, offsets: Array, terms: PositionTerms, losses: Array
) -> None:
    """Each position's term of M: its gain times Σ_{j≠i} 1 / (1 + exp(F_i - F_j))."""
    gains, weights, exponentials = terms
    query = np.searchsorted(offsets, first, side="right") - 1
    while query < offsets.size - 1 and offsets[query] < last:
        low = max(first, offsets[query])
        high = min(last, offsets[query + 1])
        for position in range(low, high):
            losses[position] = (
                -0.5 * weights[position]
            )  # what the loop below adds for the position itself
        for other in range(offsets[query], offsets[query + 1]):
            press(
                weights[other] * exponentials[other],
                exponentials[other],
                exponentials[low:high],
                losses[low:high],
            )
        for position in range(low, high):
            losses[position] *= gains[position] * weights[position]
        query += 1


@kernel
def press(mass: float, exponential: float, exponentials: Array, losses: Array) -> None:
    """Add the chance that a document stands above each of some others."""
    for position in range(losses.size):
        losses[position] += mass / (exponential + exponentials[position])
