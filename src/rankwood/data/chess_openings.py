"""Where play begins: named opening lines, a PGN file, positions, or lists of moves."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rankwood.data.chess_engine import python_chess
from rankwood.errors import DataError, UnknownName

# By their codes in the Encyclopaedia of Chess Openings.
NAMED = {
    "B84": "e4 c5 Nf3 d6 d4 cxd4 Nxd4 Nf6 Nc3 a6 Be2 e6",  # Sicilian, classical Scheveningen: open
    "E97": "d4 Nf6 c4 g6 Nc3 Bg7 e4 d6 Nf3 O-O Be2 e5 O-O Nc6",  # King's Indian, Mar del Plata: closed
}
_START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
_MOVE_NUMBER = re.compile(r"\d+\.+")
_MOVE = re.compile(
    r"[a-h][1-8][a-h][1-8][qrbn]?|[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8](=[QRBN])?[+#]?|O-O(-O)?[+#]?"
)


@dataclass(frozen=True)
class Line:
    """A position and the moves (UCI) played from it."""

    position: str
    moves: tuple[str, ...]


@dataclass(frozen=True)
class Opening:
    """A name that serves in query ids, and the lines play may begin with."""

    name: str
    lines: tuple[Line, ...]


def read_opening(text: str) -> Opening:
    """The opening that ``text`` names: B84, E97, a file, a position (FEN) or a list of moves.

    A file that ends in ``.pgn`` holds games, whose main lines are taken; any other file holds a position or a list of
    moves per line, where empty lines and lines that start with ``#`` say nothing.
    """
    text = text.strip()
    if text.upper() in NAMED:
        name = text.upper()
        return Opening(name, (_read_line(NAMED[name], name),))
    if os.path.isfile(text):
        lines = _pgn_lines(text) if text.lower().endswith(".pgn") else _text_lines(text)
        found = tuple(lines)
        if not found:
            raise DataError(f"{text} holds no game, position or list of moves.")
        stem = os.path.splitext(os.path.basename(text))[0]
        return Opening(re.sub(r"[^\w-]", "_", stem) or "opening", found)
    if "/" not in text and not _looks_like_moves(text):
        raise UnknownName("opening or file", text, NAMED)
    if "/" in text and text.count("/") != 7:
        raise DataError(f"there is no file '{text}'. Give one, or B84, E97, a FEN or moves.")
    return Opening("given", (_read_line(text, "the opening"),))


def _looks_like_moves(text: str) -> bool:
    words = _MOVE_NUMBER.sub(" ", text).split()
    return bool(words) and _MOVE.fullmatch(words[0]) is not None


def _text_lines(path: str) -> Iterator[Line]:
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, text in enumerate(file, start=1):
            if text.strip() and not text.lstrip().startswith("#"):
                yield _read_line(text.strip(), f"{path}, line {number}")


def _read_line(text: str, place: str) -> Line:
    """A position, or moves from the start of a game, as checked by the rules."""
    chess = python_chess()
    if text.count("/") == 7:
        try:
            board = chess.Board(text)
        except ValueError as error:
            raise DataError(f"{place}: '{text}' is not a position in FEN: {error}.") from None
        if not board.is_valid():
            raise DataError(f"{place}: '{text}' cannot occur in a game: {board.status()!r}.")
        return _unfinished(board, Line(text, ()), place)
    board = chess.Board(_START)
    for word in _MOVE_NUMBER.sub(" ", text).split():
        try:
            board.push(_parse_move(board, word))
        except ValueError:
            raise DataError(
                f"{place}: '{word}' is not a legal move after {len(board.move_stack)} half-moves "
                f"('{board.fen()}'). Expected moves such as Nf3 or g1f3."
            ) from None
    return _unfinished(board, Line(_START, tuple(m.uci() for m in board.move_stack)), place)


def _parse_move(board: Any, word: str) -> Any:
    try:
        return board.parse_san(word)
    except ValueError:
        return board.parse_uci(word)


def _unfinished(board: Any, line: Line, place: str) -> Line:
    if board.is_game_over():
        raise DataError(f"{place}: the game is over ({board.result()}). Shorten the line.")
    return line


def _pgn_lines(path: str) -> Iterator[Line]:
    chess = python_chess()
    # Bytes counted as characters: the place of a game is then the number of line ends before it.
    with open(path, encoding="latin-1", newline="") as file:
        text = file.read()
        file.seek(0)
        number = 0
        while True:
            begins = file.tell()
            game = chess.pgn.read_game(file)
            if game is None:
                return
            number += 1
            first = begins + len(text[begins:]) - len(text[begins:].lstrip())
            place = f"{path}, game {number} at line {text.count(chr(10), 0, first) + 1}"
            if game.errors:
                raise DataError(f"{place}: {game.errors[0]}. Mend or remove the game.")
            end = game.end().board()
            moves = tuple(move.uci() for move in end.move_stack)
            yield _unfinished(end, Line(game.board().fen(), moves), place)
