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

from dataclasses import dataclass

import numpy as np

from rankwood._checks import read_only
from rankwood.dtypes import Floats
from rankwood.losses.graded import GradedLists


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
        from rankwood.losses.pairs_kernels import potentials_of_lists

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
