"""Chess positions: a position and a move as 71 features, labels from an engine's scores, and drawings of the board.

This module knows how pieces and squares are named, but not the rules; legal moves come from the engine (``building``).

Terms
    position   FEN text, such as ``r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1``
    move       UCI text: from square, to square, and the piece a pawn becomes, such as ``e2e4`` or ``b7b8q``
    mover      the side to move; features describe the board from its side, its own pieces positive
    square     0 is a1, 7 is h1, 63 is h8
    marks      of a drawing, as text or as SVG: moves by the name of the player, best first, such as
               ``{"model": ["e2e4", "d2d4"], "engine": ["g1f3"]}``; at most three names, drawn in the given order
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from rankwood.dtypes import FEATURE, Features, Floats
from rankwood.errors import DataError, ParameterError

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
Marks = Mapping[str, Sequence[str]]

_BRACKETS = ("()", "[]", "<>")
_COLOURS = ("#1f6fb2", "#d9730d", "#4b8b3b")
_BOTH = "{}"  # a square in the first choice of several players
_GLYPHS = " ♟♞♝♜♛♚"  # filled shapes for both sides: outlines are hard to see on light squares
_LIGHT, _DARK = "#f0e2c8", "#c3a27c"
_SIDE = 48  # pixels of a square
_EDGE = 22  # margin for the names of files and ranks


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


def board_text(position: str | Sequence[float], marks: Marks | None = None) -> str:
    """The board in letters, White's in upper case, from the side of the mover; first choices are in brackets.

    ``position`` is FEN, or a row of features, which shows the mover's pieces as White's. Below the board is a line
    per mark with its brackets and its moves.
    """
    fen, marks = _checked(position, marks)
    brackets = _brackets(marks)
    codes = piece_codes(fen)
    order = _seen_by_mover(fen)
    lines = []
    for row in range(8):
        squares = order[8 * row : 8 * row + 8]
        cells = [_cell(codes[square], brackets.get(square, "  ")) for square in squares]
        lines.append(f"{SQUARES[squares[0]][1]} {''.join(cells)}")
    lines.append("  " + "".join(f" {SQUARES[square][0]} " for square in order[:8]))
    for (name, moves), bracket in zip(marks.items(), _BRACKETS, strict=False):
        told = ", ".join(move_text(fen, move) for move in moves)
        lines.append(f"{bracket[0]} {bracket[1]} {name}: {told}")
    if _BOTH in brackets.values():
        lines.append(f"{_BOTH[0]} {_BOTH[1]} more than one of them")
    return "\n".join(lines)


def board_svg(
    position: str | Sequence[float], marks: Marks | None = None, *, title: str = ""
) -> str:
    """The board as SVG from the side of the mover, with an arrow per marked move, widest for first choices."""
    fen, marks = _checked(position, marks)
    order = _seen_by_mover(fen)
    cell_of = {square: divmod(index, 8) for index, square in enumerate(order)}
    top = 28 if title else 6
    width = 8 * _SIDE + 2 * _EDGE
    height = top + 8 * _SIDE + _EDGE + 20 * len(marks) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="DejaVu Sans, Arial, sans-serif" role="img" aria-label="{escape(title or fen)}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    if title:
        parts.append(f'<text x="{_EDGE}" y="20" font-size="14" fill="#222">{escape(title)}</text>')
    parts.append(f'<g transform="translate({_EDGE} {top})">')
    parts += _squares(cell_of)
    parts += _pieces(piece_codes(fen), cell_of)
    parts += _arrows(marks, cell_of)
    parts += _legend(fen, marks)
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def move_text(position: str, move: str) -> str:
    """A move with its piece, such as ``Nd4xc6``, ``e2-e4`` or ``O-O``."""
    codes = piece_codes(position)
    start, end = squares_of(move)
    code = abs(codes[start])
    if code == 6 and abs(start % 8 - end % 8) == 2:
        return "O-O" if end > start else "O-O-O"
    piece = "" if code <= 1 else PIECES[code]
    is_capture = codes[end] != 0 or (code == 1 and start % 8 != end % 8)
    becomes = f"={move[4].upper()}" if len(move) == 5 else ""
    return f"{piece}{move[:2]}{'x' if is_capture else '-'}{move[2:4]}{becomes}"


def _checked(position: str | Sequence[float], marks: Marks | None) -> tuple[str, Marks]:
    """The position as FEN, and the marks, all valid."""
    fen = position if isinstance(position, str) else position_of_features(position)
    marks = {} if marks is None else marks
    if len(marks) > len(_BRACKETS):
        raise ParameterError(
            f"marks has {len(marks)} names; a board shows at most {len(_BRACKETS)}."
        )
    for moves in marks.values():
        for move in moves:
            squares_of(move)
    return fen, marks


def _seen_by_mover(fen: str) -> list[int]:
    """Squares from the top left to the bottom right, the mover at the bottom."""
    flip = 56 if is_white_to_move(fen) else 7  # reverse the ranks, or the files
    return [index ^ flip for index in range(64)]


def _brackets(marks: Marks) -> dict[int, str]:
    """The brackets around each square of a first choice."""
    bracket_of: dict[int, str] = {}
    for moves, bracket in zip(marks.values(), _BRACKETS, strict=False):
        for square in squares_of(moves[0]) if moves else ():
            bracket_of[square] = _BOTH if square in bracket_of else bracket
    return bracket_of


def _cell(code: int, bracket: str) -> str:
    piece = PIECES[abs(code)] if code else "."
    return bracket[0] + (piece if code >= 0 else piece.lower()) + bracket[1]


def _squares(cell_of: Mapping[int, tuple[int, int]]) -> list[str]:
    parts = []
    for square, (row, column) in cell_of.items():
        colour = _LIGHT if (square // 8 + square % 8) % 2 else _DARK
        parts.append(
            f'<rect x="{column * _SIDE}" y="{row * _SIDE}" width="{_SIDE}" height="{_SIDE}" fill="{colour}"/>'
        )
        middle = _SIDE // 2
        if column == 0:
            parts.append(_name(-12, row * _SIDE + middle + 4, SQUARES[square][1]))
        if row == 7:
            parts.append(_name(column * _SIDE + middle, 8 * _SIDE + 15, SQUARES[square][0]))
    return parts


def _name(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="12" text-anchor="middle" fill="#555">{text}</text>'


def _pieces(codes: Sequence[int], cell_of: Mapping[int, tuple[int, int]]) -> list[str]:
    parts = []
    for square, (row, column) in cell_of.items():
        code = codes[square]
        if not code:
            continue
        fill, edge = ("#ffffff", "#222222") if code > 0 else ("#222222", "#f4f4f4")
        # U+FE0E selects the text form: some systems would draw a coloured pawn emoji.
        parts.append(
            f'<text x="{column * _SIDE + _SIDE // 2}" y="{row * _SIDE + 37}" font-size="38" text-anchor="middle" '
            f'fill="{fill}" stroke="{edge}" stroke-width="1.1">{_GLYPHS[abs(code)]}&#xFE0E;</text>'
        )
    return parts


def _arrows(marks: Marks, cell_of: Mapping[int, tuple[int, int]]) -> list[str]:
    parts = []
    for number, (moves, colour) in enumerate(zip(marks.values(), _COLOURS, strict=False)):
        shift = 5 * (number - (len(marks) - 1) / 2)  # equal moves are drawn side by side
        for rank in range(len(moves) - 1, -1, -1):  # the first choice on top
            start, end = (cell_of[square] for square in squares_of(moves[rank]))
            width, strength = (7, 0.9) if rank == 0 else (3.5, 0.6)
            parts.append(_arrow(start, end, shift, f'fill="{colour}" opacity="{strength}"', width))
    return parts


def _arrow(
    start: tuple[int, int], end: tuple[int, int], shift: float, style: str, width: float
) -> str:
    """A polygon from the middle of one square to the middle of another, moved ``shift`` to its side."""
    across, down = end[1] - start[1], end[0] - start[0]
    length = math.hypot(across, down) or 1.0
    along_x, along_y = across / length, down / length
    origin_x = (start[1] + 0.5) * _SIDE - along_y * shift
    origin_y = (start[0] + 0.5) * _SIDE + along_x * shift
    reach = length * _SIDE - 6
    head, half, wing = reach - 2.2 * width, width / 2, 1.4 * width
    shape = (
        (10, half), (head, half), (head, wing), (reach, 0), (head, -wing), (head, -half), (10, -half)
    )  # fmt: skip
    points = " ".join(
        f"{origin_x + forth * along_x - aside * along_y:.1f},{origin_y + forth * along_y + aside * along_x:.1f}"
        for forth, aside in shape
    )
    return f'<polygon points="{points}" {style}/>'


def _legend(fen: str, marks: Marks) -> list[str]:
    parts: list[Any] = []
    for number, ((name, moves), colour) in enumerate(zip(marks.items(), _COLOURS, strict=False)):
        y = 8 * _SIDE + _EDGE + 16 + 20 * number
        told = ", ".join(move_text(fen, move) for move in moves)
        parts.append(f'<rect x="0" y="{y - 9}" width="18" height="8" fill="{colour}"/>')
        parts.append(
            f'<text x="26" y="{y}" font-size="13" fill="#222">{escape(f"{name}: {told}")}</text>'
        )
    return parts
