"""Bundled collections, and functions that draw and build more of their kind.

``chess()`` returns real data: the legal moves of chess positions, labelled by an engine.
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
