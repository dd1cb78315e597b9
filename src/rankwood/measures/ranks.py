"""The rank of every row in its query."""

from __future__ import annotations

import numpy as np

from rankwood import _checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import ROW, SCORE, Floats, Rows
from rankwood.measures.ranking import order


def rank_rows(scores: Floats, data: RankingData, n_threads: int | None = None) -> tuple[Rows, Rows]:
    """The rank of each row, 1 for the best of its query, and the rows query by query, best first.

    Documents with equal scores keep the data's order.
    """
    offsets = data.query_offsets
    in_order = _checks.read_only(np.ascontiguousarray(scores[data.row_order], SCORE))
    rows = data.row_order[order(in_order, offsets, n_threads).order]
    ranks = np.empty(rows.size, ROW)
    ranks[rows] = np.arange(1, rows.size + 1) - np.repeat(offsets[:-1], np.diff(offsets))
    return ranks, rows
