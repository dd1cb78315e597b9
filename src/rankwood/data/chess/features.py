"""A chess position and a move as 71 features, and labels from an engine's scores.

This module knows how pieces and squares are named, but not the rules; legal moves come from ``engine``.

Terms
    position   FEN text, such as ``r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1``
    move       UCI text: from square, to square, and the piece a pawn becomes, such as ``e2e4`` or ``b7b8q``
    mover      the side to move; features describe the board from its side, its own pieces positive
    square     0 is a1, 7 is h1, 63 is h8
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from rankwood.dtypes import FEATURE, Features, Floats
from rankwood.errors import DataError

PIECES = " PNBRQK"  # the code of a piece is its index; 0 is an empty square
SQUARES = tuple(file + rank for rank in "12345678" for file in "abcdefgh")
FEATURE_NAMES = (
    *SQUARES,
    "piece",
    "from_file",
    "from_rank",
    "to_file",
    "to_rank",
    "is_capture",
    "captured",
)
MATE = 10_000  # centipawns: every mate is worth 100 pawns, at any distance
_FLIP = 56  # square ^ 56 is the same file seen from the other side
_MOVE = re.compile(r"([a-h][1-8])([a-h][1-8])[qrbn]?")
_PLACEMENT = re.compile(r"[pnbrqkPNBRQK1-8]+(/[pnbrqkPNBRQK1-8]+){7}")

PAWN = 100  # centipawns
# The gap to the best move, in hundredths of a pawn, that still earns the label: ≤ 0.1 pawns is 4, ≤ 0.2 is 3,
# < 0.3 is 2, < 0.5 is 1 (Kocsis, György & Bán 2013, section 4.6).
_LARGEST = ((4, 10), (3, 20))
_BELOW = ((2, 30), (1, 50))


def move_features(position: str, moves: Sequence[str]) -> Features:
    """A row of 71 features per move: the board from the mover's side, then the move.

    The piece a pawn becomes is not a feature, so the four promotions of a pawn have equal rows. A pawn that captures
    in passing captures a pawn, though the square it goes to is empty. A king that castles moves two files.
    """
    flip = 0 if is_white_to_move(position) else _FLIP
    sign = -1 if flip else 1
    codes = piece_codes(position)
    board = [sign * codes[square ^ flip] for square in range(64)]
    rows = []
    for move in moves:
        start, end = (square ^ flip for square in squares_of(move))
        piece, captured = board[start], -board[end]
        if piece <= 0:
            raise DataError(f"{move}: the side to move has no piece there in '{position}'.")
        if piece == 1 and captured == 0 and start % 8 != end % 8:
            captured = 1  # in passing
        is_capture = int(captured != 0)
        rows.append([*board, piece, start % 8, start // 8, end % 8, end // 8, is_capture, captured])
    return np.array(rows, FEATURE).reshape(len(rows), len(FEATURE_NAMES))


def labels_of_scores(centipawns: Sequence[int], pawn: int = PAWN) -> Floats:
    """The label of each move of a position, from 4 for the best to 0, by its whole-number score.

    ``pawn`` is what a pawn is worth in the engine's centipawns: engines do not agree on it.
    """
    best = max(centipawns)
    return np.array([_label_of_gap(100 * (best - score), pawn) for score in centipawns], float)


def pawn_of_share(scores: Iterable[Sequence[int]], relevant: float) -> int:
    """The least whole number of centipawns per pawn that gives the share ``relevant`` of all moves a label above 0."""
    gaps = np.concatenate([max(of_moves) - np.asarray(of_moves) for of_moves in scores])
    n_relevant = max(1, math.ceil(relevant * gaps.size))
    return 2 * int(np.sort(gaps)[n_relevant - 1]) + 1  # label 1 is a gap below half a pawn


def position_of_features(row: Sequence[float]) -> str:
    """The position that a row of features describes, with the mover's pieces as White's."""
    if len(row) < 64:
        raise DataError(f"a position has 64 squares; the row has {len(row)} values.")
    ranks = []
    for first in range(56, -1, -8):
        letters = "".join(_letter(int(code)) for code in row[first : first + 8])
        ranks.append(re.sub(r"1+", lambda empty: str(len(empty[0])), letters))
    return "/".join(ranks) + " w - - 0 1"


def piece_codes(position: str) -> list[int]:
    """The piece on each of the 64 squares: 1 to 6 for White's pawn to king, negative for Black's, 0 for none."""
    placement = position.split(" ", 1)[0]
    codes = [0] * 64
    rows = placement.split("/")
    if not _PLACEMENT.fullmatch(placement) or any(_width(row) != 8 for row in rows):
        raise DataError(
            f"'{position}' is not a position. Expected FEN: eight rows from rank 8 to rank 1, parted by '/'."
        )
    for number, row in enumerate(rows):
        square = 8 * (7 - number)
        for letter in row:
            if letter.isdigit():
                square += int(letter)
                continue
            code = PIECES.index(letter.upper())
            codes[square] = code if letter.isupper() else -code
            square += 1
    return codes


def is_white_to_move(position: str) -> bool:
    """Whether it is White's turn; a position that does not say is White's."""
    return position.split(" ")[1:2] != ["b"]


def squares_of(move: str) -> tuple[int, int]:
    """The squares a move goes from and to."""
    match = _MOVE.fullmatch(move)
    if not match:
        raise DataError(
            f"'{move}' is not a move. Expected from and to square, as in e2e4 or b7b8q."
        )
    return SQUARES.index(match[1]), SQUARES.index(match[2])


def _label_of_gap(gap: int, pawn: int) -> int:
    """The label of a gap in hundredths of centipawns."""
    for label, largest in _LARGEST:
        if gap <= largest * pawn:
            return label
    return next((label for label, limit in _BELOW if gap < limit * pawn), 0)


def _width(row: str) -> int:
    return sum(int(letter) if letter.isdigit() else 1 for letter in row)


def _letter(code: int) -> str:
    if not -6 <= code <= 6:
        raise DataError(f"{code} is no piece. Codes run from 1 (pawn) to 6 (king), and negative.")
    if code == 0:
        return "1"
    return PIECES[code] if code > 0 else PIECES[-code].lower()
