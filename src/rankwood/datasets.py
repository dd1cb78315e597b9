"""Collections that come with Rankwood, and what draws and builds more of their kind.

``chess()`` is real data: the legal moves of chess positions, to be ranked as an engine ranks them.
"""

from rankwood.data.chess_board import board_svg, board_text, move_text
from rankwood.data.chess_building import build_chess
from rankwood.data.chess_positions import ChessPosition
from rankwood.data.datasets import chess, chess_positions, chess_provenance

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
