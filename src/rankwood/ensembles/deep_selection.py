"""Which rows train the next layer of a cascade: all, or those that the layer before ranked badly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.measures.parsing import parse_measure

BOOSTS = ("query", "document")
_NDCG = "ndcg@10"


@dataclass(frozen=True)
class Selection:
    """Queries with an NDCG@10 below ``alpha`` (S3.3.1), or documents with an error above ``beta`` (S3.3.2)."""

    boost: str | None
    alpha: float
    beta: float

    def rows(self, scores: Floats, data: RankingData) -> Array:
        """One truth value per row: whether it is to train the next layer. Rows without a score are not."""
        if self.boost is None:
            return np.ones(data.n_documents, bool)
        is_known = ~np.isnan(scores)
        if self.boost == "query":
            lowest = float(scores[is_known].min(initial=0.0)) - 1.0
            ndcg = parse_measure(_NDCG).per_query(np.where(is_known, scores, lowest), data)
            is_chosen: Array = (ndcg < self.alpha)[data.query_of_row]
        else:
            is_chosen = height_errors(np.where(is_known, scores, -np.inf), data) > self.beta
        return is_chosen & is_known


def height_errors(scores: Floats, data: RankingData) -> Floats:
    """The share of documents of other grades that stand on the wrong side of each document, in its query.

    Those above it with a lower label and those below it with a higher one, over all with another label; 0 where all
    labels are equal. Equal scores keep the data's order.
    """
    errors: Floats = np.zeros(data.n_documents)
    for _, rows in data.iter_queries():
        ranking = rows[np.argsort(-scores[rows], kind="stable")]
        errors[ranking] = _errors_of_ranking(data.labels[ranking])
    return errors


def _errors_of_ranking(labels: Floats) -> Floats:
    """``height_errors`` of one query's documents, best score first."""
    errors: Floats = np.zeros(labels.size)
    for grade in np.unique(labels):
        ranks = np.flatnonzero(labels == grade)
        others = labels.size - ranks.size
        if others == 0:
            continue
        lower_above = np.cumsum(labels < grade)[ranks]
        is_higher = labels > grade
        higher_below = is_higher.sum() - np.cumsum(is_higher)[ranks]
        errors[ranks] = (lower_above + higher_below) / others
    return errors
