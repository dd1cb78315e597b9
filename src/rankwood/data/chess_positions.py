"""``ChessPosition``: a position, how it was reached, and what the engine thinks of each move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankwood.data.chess_features import FEATURE_NAMES, labels_of_scores, move_features
from rankwood.data.dataset import RankingData


@dataclass(frozen=True)
class ChessPosition:
    """A query of a chess collection.

    ``query`` is its id, ``fen`` the position, ``line`` the moves (UCI) that led there, and ``scores`` the engine's
    centipawns of every legal move, as the side to move sees them; a mate is worth 10,000.
    """

    query: str
    fen: str
    line: tuple[str, ...]
    scores: Mapping[str, int]

    @property
    def best_moves(self) -> tuple[str, ...]:
        """The legal moves, best first; equal ones by name."""
        return tuple(sorted(self.scores, key=lambda move: (-self.scores[move], move)))

    def as_record(self) -> dict[str, Any]:
        """The position as JSON holds it."""
        return {
            "query": self.query,
            "fen": self.fen,
            "line": " ".join(self.line),
            "scores": dict(self.scores),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ChessPosition:
        """The position that ``as_record`` gave."""
        return cls(record["query"], record["fen"], tuple(record["line"].split()), record["scores"])


def ranking_data(positions: list[ChessPosition]) -> RankingData:
    """A query per position and a document per legal move, with its label."""
    import numpy as np

    moves = [list(position.scores) for position in positions]
    return RankingData(
        np.concatenate([move_features(p.fen, m) for p, m in zip(positions, moves, strict=True)]),
        np.concatenate([labels_of_scores(list(p.scores.values())) for p in positions]),
        [p.query for p, m in zip(positions, moves, strict=True) for _ in m],  # type: ignore[arg-type]
        [move for m in moves for move in m],  # type: ignore[arg-type]
        feature_names=FEATURE_NAMES,
    )
