"""The exponential loss of pairs that RankBoost lowers (Freund, Iyer, Schapire & Singer 2003).

Terms
    better, worse   the documents of a pair, by label
    D               the distribution over pairs: D(better, worse) ∝ exp(score of worse - score of better)
    potential       of a document: Σ D over the pairs where it is the better one, minus Σ D where it is the worse one

``r = Σ D(i, j) (h_i - h_j) = Σ potential(i) · h_i`` for any ranker h, so potentials are all that a weak learner needs,
and pairs are never listed: exp(s_j - s_i) is a product, so a document's potential follows from sums of exp(s) and
exp(-s) over the documents above and below its label.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.threads import run_blocks
from rankwood.data.judgments import HasJudgments, Judgments
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError

_LEAST_DOCUMENTS = 20_000  # per thread: fewer take less time than starting a thread
FARTHEST = 300.0  # from the centre: products of four exponentials' sums stay within float64


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
        return self.lists.by_row(potentials / losses.sum())

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
