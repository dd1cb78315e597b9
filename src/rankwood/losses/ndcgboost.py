"""The surrogate of NDCG that NDCGBoost lowers (Valizadegan, Jin, Zhang & Mao 2009).

``M = Σ_i g_i Σ_{j≠i} 1 / (1 + exp(F_i - F_j))`` per query, with ``g = gain / ideal DCG``: what documents are expected
to lose to those above them. ``θ_ij = exp(F_i - F_j) / (1 + exp(F_i - F_j))²`` is the slope of each term.

A row weight multiplies every pair the document is in, a query weight every pair of the query. All sums run over pairs
of a query: time grows with the square of a query's length, memory does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._checks import read_only
from rankwood._threads import run_blocks
from rankwood.dtypes import Floats
from rankwood.losses.graded import GradedLists
from rankwood.measures.gains import Gain, discounts, rule
from rankwood.measures.ranking import Lists

SMOOTHING = (
    1e-6  # of the two sums together, added to each: no step is longer than ½ ln(10⁶ + 1) = 6.9
)
_LEAST_DOCUMENTS = 1_000  # per thread; each is compared with all others of its query


@dataclass(frozen=True, eq=False)
class NDCGBoostLoss:
    """``M`` over all queries."""

    lists: GradedLists
    gains: Floats  # by place: gain over the ideal DCG of the query, times the query's weight

    def start(self) -> float:
        """Zero: a constant changes no difference."""
        return 0.0

    def targets(self, scores: Floats) -> tuple[Floats, Floats]:
        """The class of each row, 1 where it should rise and 0 where it should fall, and how much that weighs."""
        weights = self.document_weights(scores)
        return (weights > 0).astype(np.float64), np.abs(weights)

    def document_weights(self, scores: Floats) -> Floats:
        """``w_i = Σ_j (g_i - g_j) θ_ij`` by row: minus the gradient of M; the weights of a query sum to 0."""
        from rankwood.losses.ndcgboost_kernels import weights_of_documents

        exponentials = self.lists.exponentials(scores)
        weights = np.empty(exponentials.size)
        masses = read_only(self.lists.weights * exponentials)
        self._run(weights_of_documents, self.gains, masses, exponentials, weights)
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
        from rankwood.losses.ndcgboost_kernels import part_by_vote, sums_over_votes

        exponentials = self.lists.exponentials(scores)
        masses = read_only(self.lists.weights * exponentials)
        parted = np.empty((3, exponentials.size))
        middles = np.empty(self.lists.n_lists, np.int64)
        given = (self.lists.rows, read_only(votes), self.gains, masses, exponentials)
        self.lists.run(part_by_vote, *given, parted, middles)
        sums = np.zeros((2, exponentials.size))
        self._run(sums_over_votes, read_only(middles), read_only(parted), sums)
        up, down = sums.sum(axis=1).tolist()
        return up, down

    def value(self, scores: Floats) -> float:
        """``M``, with the greatest weights of rows and of queries as unit."""
        from rankwood.losses.ndcgboost_kernels import losses_of_documents

        exponentials = self.lists.exponentials(scores)
        losses = np.empty(exponentials.size)
        self._run(losses_of_documents, self.gains, self.lists.weights, exponentials, losses)
        return float(losses.sum())

    def _run(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        """Call ``kernel(first, last, offsets, …)`` on blocks of places, so that a long query is shared by threads."""
        run_blocks(
            kernel,
            self.lists.rows.size,
            self.lists.offsets,
            *arguments,
            n_threads=self.lists.n_threads,
            least=_LEAST_DOCUMENTS,
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
    # A table may give all labels of a query the gain 0: nothing to win there.
    unit = np.divide(lists.query_weights, ideal, out=np.zeros(ideal.size), where=ideal > 0)
    return NDCGBoostLoss(lists, read_only(gains * np.repeat(unit, sizes)))
