"""Collections that come with Rankwood, and what draws and builds more of their kind.

``chess()`` is real data: the legal moves of chess positions, to be ranked as an engine ranks them.
"""

from __future__ import annotations

from rankwood.data.chess.board import board_svg, board_text, move_text
from rankwood.data.chess.building import build_chess
from rankwood.data.chess.collection import ChessPosition, chess, chess_positions, chess_provenance

__all__ = [
    "ChessPosition",
    "board_svg",
    "board_text",
    "build_chess",
    "chess",
    "chess_positions",
    "chess_provenance",
    "move_text",
]
