"""The exponential loss of pairs that RankBoost lowers (Freund, Iyer, Schapire & Singer 2003).

Words used here
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
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError


@dataclass(frozen=True, eq=False)
class PairLoss:
    """``Σ weight · exp(score of worse - score of better)`` over all pairs inside queries.

    A pair weighs the weight of its query times those of its two documents.
    """

    lists: GradedLists

    def start(self) -> float:
        """Zero: a constant changes no pair."""
        return 0.0

    def targets(self, scores: Floats) -> tuple[Floats, None]:
        """The potential of each row: the negative gradient of the logarithm of the loss."""
        potentials, losses = self._potentials(scores)
        return self.lists.by_row(potentials / losses.sum()), None

    def value(self, scores: Floats) -> float:
        """The mean over pairs, 1 where all scores are equal; no less than the share of pairs in the wrong order."""
        none = self._potentials(np.zeros(self.lists.n_rows))[1].sum()
        return float(self._potentials(scores)[1].sum() / none)

    def _potentials(self, scores: Floats) -> tuple[Floats, Floats]:
        """Potentials by place and the loss of each list, before D is made to sum to 1."""
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


# ``GradedLists``: the documents of each query by label, for losses that look at pairs of them.


_LEAST_DOCUMENTS = 20_000  # per thread: fewer are gone through faster than a thread starts


@dataclass(frozen=True, eq=False)
class GradedLists:
    """Every document that is part of a pair, query by query, the best label first.

    A pair is two documents of one query with different labels. Queries with one label only, and documents without
    weight, have no pairs and no place here. Arrays cannot be written to.
    """

    n_rows: int  # of the data
    rows: Rows  # the row at each place
    offsets: Rows  # list q holds the places offsets[q] to offsets[q + 1]
    labels: Floats  # by place
    weights: Floats  # by place, the greatest is 1: of the document alone
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
        """``exp(score)`` of each place, scores centred in their list."""
        found = np.empty(self.rows.size)
        self.run(centred_exponentials, self.rows, read_only(scores), found)
        return read_only(found)

    def by_row(self, values: Floats) -> Floats:
        """Values of places as values of rows; 0 for a row without a place."""
        spread = np.zeros(self.n_rows)
        spread[self.rows] = values
        return spread


def graded_lists(data: RankingData, n_threads: int) -> GradedLists:
    """The pairs of ``data``; an error where there are none."""
    row_weights = np.ones(data.n_documents) if data.row_weights is None else data.row_weights
    of_query = np.ones(data.n_queries) if data.query_weights is None else data.query_weights
    query = data.query_of_row
    least, most = np.full(data.n_queries, np.inf), np.full(data.n_queries, -np.inf)
    weighed = row_weights > 0
    np.minimum.at(least, query[weighed], data.labels[weighed])
    np.maximum.at(most, query[weighed], data.labels[weighed])
    has_pairs = (least < most) & (of_query > 0)
    if not has_pairs.any():
        raise DataError(_no_pairs(data))
    rows = np.flatnonzero(has_pairs[query] & weighed)
    rows = rows[np.lexsort((-data.labels[rows], query[rows]))]  # equal labels keep their order
    offsets = np.zeros(int(has_pairs.sum()) + 1, np.int64)
    np.cumsum(np.bincount(query[rows], minlength=data.n_queries)[has_pairs], out=offsets[1:])
    weights, query_weights = row_weights[rows], of_query[has_pairs]
    return GradedLists(
        data.n_documents,
        read_only(rows.astype(np.int64)),
        read_only(offsets),
        read_only(data.labels[rows]),
        read_only(
            weights / weights.max()
        ),  # scaled, so that products of extreme weights are finite
        read_only(query_weights / query_weights.max()),
        n_threads,
    )


def _no_pairs(data: RankingData) -> str:
    weighted = data.row_weights is not None or data.query_weights is not None
    return (
        f"there is nothing to rank: none of the {data.n_queries:,} queries ({data.n_documents:,} rows) has two "
        f"documents {'of positive weight ' if weighted else ''}with different labels. "
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
    """The potential of each place and the loss of each list, in two passes over the list.

    Places of a list stand by falling label. The pass down knows the sum over all better documents, the pass up that
    over all worse ones; a label's own documents join the sum when the next label begins.
    """
    for query in range(first, last):
        begin = offsets[query]
        end = offsets[query + 1]
        better = 0.0
        of_label = 0.0
        for place in range(begin, end):
            if place > begin and labels[place] != labels[place - 1]:
                better += of_label
                of_label = 0.0
            potentials[place] = (
                -query_weights[query] * weights[place] * exponentials[place] * better
            )
            of_label += weights[place] / exponentials[place]
        worse = 0.0
        of_label = 0.0
        loss = 0.0
        for place in range(end - 1, begin - 1, -1):
            if place < end - 1 and labels[place] != labels[place + 1]:
                worse += of_label
                of_label = 0.0
            won = query_weights[query] * weights[place] / exponentials[place] * worse
            potentials[place] += won
            loss += won
            of_label += weights[place] * exponentials[place]
        losses[query] = loss


FARTHEST = 300.0  # from the centre: products of four exponentials' sums stay within float64


@kernel
def centred_exponentials(
    first: int, last: int, offsets: Array, rows: Array, scores: Array, exponentials: Array
) -> None:
    """``exp(score - centre)`` of each place, where the centre is midway between a list's extreme scores.

    Losses depend on differences within a list only, so any centre will do. Scores farther than ``FARTHEST`` from it
    count as that far: their pairs weigh nothing, or everything, either way.
    """
    for query in range(first, last):
        least = np.inf
        most = -np.inf
        for place in range(offsets[query], offsets[query + 1]):
            least = min(least, scores[rows[place]])
            most = max(most, scores[rows[place]])
        centre = 0.5 * least + 0.5 * most
        for place in range(offsets[query], offsets[query + 1]):
            distance = scores[rows[place]] - centre
            exponentials[place] = math.exp(min(max(distance, -FARTHEST), FARTHEST))
