"""Collections: one that comes with Rankwood, functions that build more of its kind, and the public ones.

``chess()`` returns real data: the legal moves of chess positions, labelled by an engine. ``open("mq2008", folder)``
reads a public collection from the folder it was unpacked to, and ``available()`` lists those it knows.
"""

from __future__ import annotations

from rankwood.data.chess.building import build_chess
from rankwood.data.chess.collection import ChessPosition, chess, chess_positions, chess_provenance
from rankwood.data.chess.positions import board_svg, board_text, move_text
from rankwood.data.collections import Collection, available
from rankwood.data.collections import open_collection as open  # noqa: A004 - rankwood.datasets.open

__all__ = [
    "ChessPosition",
    "Collection",
    "available",
    "board_svg",
    "board_text",
    "build_chess",
    "chess",
    "chess_positions",
    "chess_provenance",
    "move_text",
    "open",
]
