"""The queries that two rankings differ most on, and where their relevant documents went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats, Rows
from rankwood.measures.ranks import rank_rows


@dataclass(frozen=True)
class Move:
    """A relevant document's rank with the baseline, and with the other system; 1 is the top."""

    document: str
    label: float
    before: int
    after: int

    @property
    def places(self) -> int:
        """How far it rose; negative where it fell."""
        return self.before - self.after


@dataclass(frozen=True)
class ChangedQuery:
    """A query whose value differs from the baseline's.

    ``moves`` are of the documents with a label above 0, the longest way first. ``places`` sums them up: how many places
    relevant documents rose in all, less those they fell.
    """

    name: str
    query: str
    number: int  # of the query in the data, from 0
    baseline_value: float
    value: float
    moves: tuple[Move, ...]

    @property
    def difference(self) -> float:
        """The value less the baseline's."""
        return self.value - self.baseline_value

    @property
    def places(self) -> int:
        """By how many places relevant documents rose in all."""
        return sum(move.places for move in self.moves)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {
            "name": self.name,
            "query": self.query,
            "baseline_value": self.baseline_value,
            "value": self.value,
            "difference": self.difference,
            "places": self.places,
            "moves": [{**vars(move), "places": move.places} for move in self.moves],
        }


def changed_queries(
    values: Mapping[str, Floats],
    scores: Mapping[str, Floats],
    baseline: str,
    data: RankingData,
    n_changed: int,
    n_threads: int | None = None,
) -> dict[str, tuple[ChangedQuery, ...]]:
    """For each other system its most changed queries, the greatest difference first, whichever way it goes."""
    found: dict[str, tuple[ChangedQuery, ...]] = {}
    before, _ = rank_rows(scores[baseline], data, n_threads)
    names = data.queries.tolist()
    for name in values:
        if name == baseline:
            continue
        after, _ = rank_rows(scores[name], data, n_threads)
        difference = np.abs(values[name] - values[baseline])
        by_size = np.argsort(-np.nan_to_num(difference, nan=0.0), kind="stable")[:n_changed]
        found[name] = tuple(
            ChangedQuery(
                name,
                str(names[query]),
                query,
                float(values[baseline][query]),
                float(values[name][query]),
                _moves(query, before, after, data),
            )
            for query in by_size.tolist()
            if difference[query] > 0.0
        )
    return found


def _moves(query: int, before: Rows, after: Rows, data: RankingData) -> tuple[Move, ...]:
    rows = data.row_order[data.query_offsets[query] : data.query_offsets[query + 1]]
    moves = [
        Move(
            str(place + 1) if data.doc_ids is None else str(data.doc_ids[row]),
            float(data.labels[row]),
            int(before[row]),
            int(after[row]),
        )
        for place, row in enumerate(rows.tolist())
        if data.labels[row] > 0.0
    ]
    return tuple(sorted(moves, key=lambda move: -abs(move.places)))
