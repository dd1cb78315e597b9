"""``build_chess``: chess positions with every legal move scored by an engine, built in resumable steps.

A build is a sequence of tries. Try number k plays from the opening with random numbers of its own, so it gives the
same position whatever happened before it. A try is skipped if the game ends, if the position is no middle game or
decided, or if it is known already.
Each position is appended to ``OUT.partial`` (``Partial``), one line of JSON each, and all are written to ``OUT`` and
its description at the end. An interrupted build continues from its partial file and gives the same bytes.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rankwood._core import checks, random
from rankwood._core.files import explained_writing
from rankwood.data.chess.collection import ChessPosition, description_path, write_collection
from rankwood.data.chess.engine import Effort, Engine, find_engine, python_chess
from rankwood.data.chess.features import pawn_of_share, piece_codes
from rankwood.errors import DataError, ParameterError, RunError, UnknownName

DEFAULT_NODES = 100_000  # searches a middle game position about 7 half-moves deep
_MOST_TRIES_IN_VAIN = 200
_KNIGHT_TO_QUEEN = range(2, 6)  # codes of pieces

Progress = Callable[[int, int, float], Any]

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


def build_chess(
    path: str | Path,
    *,
    opening: str = "B84",
    positions: int = 2000,
    engine: str = "stockfish",
    nodes: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    least_plies: int = 8,
    most_plies: int = 40,
    least_pieces: int = 7,
    largest_lead: float = 1.5,
    pawn: int | None = None,
    relevant: float = 0.25,
    timeout: float = 60.0,
    progress: Progress | None = None,
) -> list[ChessPosition]:
    """Build a collection of chess positions, and write it to ``path``.

    Parameters
    ----------
    path
        LETOR text, or a table, by its name, like ``write_letor`` and ``write_table``. A description with positions,
        scores and provenance is written beside it, with the ending ``.json``.
    opening
        ``B84``, ``E97``, a PGN file, a file with a position or list of moves per line, a position (FEN) or moves.
    positions
        How many.
    engine
        A UCI engine, by name or path.
    nodes, seconds
        How long the engine thinks about a position. Nodes give repeatable labels. 100,000 nodes by default.
    seed
        Same opening, engine, nodes and seed: same bytes.
    least_plies, most_plies
        How many half-moves are played from the end of the opening's line.
    least_pieces
        Knights, bishops, rooks and queens that a position has at least; with fewer it is no middle game.
    largest_lead
        By how many pawns (100 centipawns of the engine) a side may be ahead at most; else the position is decided.
    pawn
        Centipawns of the engine that are a pawn of the labels. None chooses the least for which the share ``relevant``
        of all moves has a label above 0: engines do not agree on what a pawn is worth.
    relevant
        That share; a quarter in Kocsis, György & Bán (2013).
    timeout
        Seconds after which an engine that does not answer is started again.
    progress
        Called after each position with how many are done, how many are wanted, and the seconds left.

    If interrupted, it keeps its positions in ``path`` + ``.partial``; the same call continues from there.
    """
    if str(path) == "-" or description_path(path) == Path(path):
        raise ParameterError(
            f"OUT is '{path}', but a build needs a file, and one beside it with the ending .json. "
            "Name it like moves.txt.gz."
        )
    count = checks.whole_number("positions", positions, 1)
    rules = ChessRules(
        read_opening(opening),
        _effort(nodes, seconds),
        checks.whole_number("seed", seed, 0),
        _play(least_plies, most_plies, least_pieces, largest_lead),
    )
    if pawn is not None:
        checks.whole_number("pawn", pawn, 1)
    if not 0 < relevant <= 1:
        raise ParameterError(
            f"relevant must be above 0 and at most 1, got {relevant}. It is a share of moves, such as 0.25."
        )
    with Engine(find_engine(engine), timeout=timeout) as running:
        settings = _settings(rules, running)
        with Partial(path, settings) as partial:
            _fill(partial, rules, running, count, progress)
            built = partial.positions[:count]
            if pawn is None:
                pawn = pawn_of_share((list(each.scores.values()) for each in built), relevant)
            write_collection(path, settings, built, pawn)
            partial.remove()
    return built


@dataclass(frozen=True)
class Play:
    """How play continues after the opening: random choice among good moves, into a balanced middle game.

    Each side plays one of the engine's ``n_moves`` best moves after a search of ``nodes``: with equal probability any
    of those at most ``largest_gap`` centipawns worse than the best. Play lasts ``least`` to ``most`` half-moves. A
    position counts if it has at least ``least_pieces`` knights, bishops, rooks and queens, and if the same search finds
    no side more than ``largest_lead`` centipawns ahead.
    """

    least: int = 8
    most: int = 40
    n_moves: int = 6
    largest_gap: int = 50
    nodes: int = 5_000
    least_pieces: int = 7
    largest_lead: int = 150


@dataclass(frozen=True)
class ChessRules:
    """The settings that determine the positions and scores of a build."""

    opening: Opening
    effort: Effort
    seed: int
    play: Play = Play()


def _effort(nodes: int | None, seconds: float | None) -> Effort:
    if nodes is not None and seconds is not None:
        raise ParameterError("nodes and seconds are both given; give one of them.")
    if seconds is not None:
        if not 0 < seconds < 86_400:
            raise ParameterError(f"seconds must be above 0 and less than a day, got {seconds}.")
        return Effort(seconds=float(seconds))
    return Effort(nodes=checks.whole_number("nodes", DEFAULT_NODES if nodes is None else nodes, 1))


def _play(least: int, most: int, least_pieces: int, largest_lead: float) -> Play:
    least = checks.whole_number("least_plies", least, 0)
    most = checks.whole_number("most_plies", most, 0)
    if least > most:
        raise ParameterError(f"least_plies is {least}, which is more than most_plies, {most}.")
    if not 0 <= largest_lead < math.inf:
        raise ParameterError(
            f"largest_lead must be a number of pawns from 0 on, got {largest_lead}."
        )
    return Play(
        least,
        most,
        least_pieces=checks.whole_number("least_pieces", least_pieces, 0),
        largest_lead=round(100 * largest_lead),
    )


def _settings(rules: ChessRules, engine: Engine) -> dict[str, Any]:
    """The settings that must be equal to continue from a partial file."""
    return {
        "opening": rules.opening.name,
        "lines": [asdict(line) | {"moves": " ".join(line.moves)} for line in rules.opening.lines],
        "engine": engine.name,
        "options": engine.options,
        "nodes": rules.effort.nodes,
        "seconds": rules.effort.seconds,
        "seed": rules.seed,
        "play": asdict(rules.play),
    }


def _fill(
    partial: Partial, rules: ChessRules, engine: Engine, count: int, progress: Progress | None
) -> None:
    """Add positions until there are ``count``."""
    start, before = time.perf_counter(), len(partial.positions)
    tries = played_positions(rules, engine, partial.next_try)
    seen = {_visible_position(position.fen) for position in partial.positions}
    in_vain = 0
    while len(partial.positions) < count:
        number, board, line = next(tries)
        if board is None or _visible_position(board.fen()) in seen:
            in_vain += 1
            _check_progress(in_vain, len(partial.positions))
            continue
        in_vain = 0
        seen.add(_visible_position(board.fen()))
        name = f"{rules.opening.name}-{len(partial.positions) + 1}"
        scores = dict(sorted(engine.scores(board, rules.effort).items()))
        partial.append(number, ChessPosition(name, board.fen(), line, scores))
        if progress is not None:
            done = len(partial.positions)
            each = (time.perf_counter() - start) / (done - before)
            progress(done, count, each * (count - done))


def _visible_position(fen: str) -> str:
    """Pieces and side to move; positions that differ only in castling rights have the same features."""
    return " ".join(fen.split(" ")[:2])


def _check_progress(in_vain: int, n_positions: int) -> None:
    if in_vain >= _MOST_TRIES_IN_VAIN:
        raise RunError(
            f"the last {in_vain} games led to no new position; {n_positions:,} were found. "
            "Ask for fewer, let play go on longer (most_plies), give more opening lines, or allow for fewer pieces "
            "(least_pieces) and a greater lead (largest_lead)."
        )


def played_positions(
    rules: ChessRules, engine: Engine, first: int = 0
) -> Iterator[tuple[int, Any, tuple[str, ...]]]:
    """Each try from number ``first`` on: its number, its position (None if it does not count) and its moves."""
    number = first
    while True:
        rng = random.stream(rules.seed, "chess", number)
        lines = rules.opening.lines
        board = board_after(lines[int(rng.integers(len(lines)))])
        for _ in range(int(rng.integers(rules.play.least, rules.play.most + 1))):
            if board.is_game_over():
                break
            board.push_uci(_choose(rules.play, engine, board, rng))
        counts = _is_balanced_middle_game(rules.play, engine, board)
        yield number, board if counts else None, tuple(move.uci() for move in board.move_stack)
        number += 1


def _is_balanced_middle_game(play: Play, engine: Engine, board: Any) -> bool:
    """Whether the game goes on, with enough pieces on the board and no side far ahead."""
    if board.is_game_over():
        return False
    n_pieces = sum(abs(code) in _KNIGHT_TO_QUEEN for code in piece_codes(board.fen()))
    if n_pieces < play.least_pieces:
        return False
    scores = engine.scores(board, Effort(nodes=play.nodes), 1)
    return abs(max(scores.values())) <= play.largest_lead


def board_after(line: OpeningLine) -> Any:
    """The board at the end of an opening line."""
    board = python_chess().Board(line.position)
    for move in line.moves:
        board.push_uci(move)
    return board


def _choose(play: Play, engine: Engine, board: Any, rng: Any) -> str:
    scores = engine.scores(board, Effort(nodes=play.nodes), play.n_moves)
    best_first = sorted(scores, key=lambda move: (-scores[move], move))[: play.n_moves]
    least = scores[best_first[0]] - play.largest_gap
    n_near = sum(scores[move] >= least for move in best_first)
    return best_first[int(rng.integers(n_near))]


class Partial:
    """The partial file of a build: a line of settings, then a line per position; use it in a ``with`` block.

    An incomplete line at the end, as a crash leaves it, is truncated when the file is opened again.
    """

    def __init__(self, target: str | Path, settings: dict[str, Any]) -> None:
        self.path = Path(f"{target}.partial")
        self.positions: list[ChessPosition] = []
        self.next_try = 0
        with explained_writing(self.path):
            self._file = open(self.path, "a+b")  # noqa: SIM115 - closed by __exit__
        try:
            self._lock()
            self._read(settings)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Partial:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, number: int, position: ChessPosition) -> None:
        """Store the position of try ``number``; it is on the disk when this returns."""
        self._write({"try": number, **position.as_record()})
        self._take(number, position)

    def remove(self) -> None:
        """Remove the file, whose content is now in the collection."""
        self.path.unlink(missing_ok=True)

    def _take(self, number: int, position: ChessPosition) -> None:
        self.positions.append(position)
        self.next_try = number + 1

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows has no such locks
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ParameterError(
                f"{self.path} is being written by another build. Wait for it, or choose another OUT."
            ) from None

    def _read(self, settings: dict[str, Any]) -> None:
        self._file.seek(0)
        text = self._file.read()
        whole = text.rfind(b"\n") + 1
        self._file.truncate(whole)
        lines = text[:whole].splitlines()
        if not lines:
            self._write(settings)
            return
        records = [self._parse(number, line) for number, line in enumerate(lines, start=1)]
        self._check_settings(records[0], settings)
        for record in records[1:]:
            self._take(record["try"], ChessPosition.from_record(record))

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
            if number > 1:
                ChessPosition.from_record(record), record["try"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(
                f"{self.path}, line {number} is damaged. Remove it and what follows, or the whole file, "
                "and give the command again."
            ) from None
        return dict(record)

    def _check_settings(self, stored: dict[str, Any], wanted: dict[str, Any]) -> None:
        as_read = json.loads(json.dumps(wanted))
        for name in wanted:
            if stored.get(name) != as_read[name]:
                raise ParameterError(
                    f"{self.path} was begun with {name} = {json.dumps(stored.get(name))}, and now it is "
                    f"{json.dumps(as_read[name])}. Give the same options to go on, or remove the file to begin anew."
                )

    def _write(self, record: dict[str, Any]) -> None:
        with explained_writing(self.path):
            self._file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())


# Openings: named lines, PGN files, positions, or lists of moves.


@dataclass(frozen=True)
class OpeningLine:
    """A position and the moves (UCI) played from it."""

    position: str
    moves: tuple[str, ...]


@dataclass(frozen=True)
class Opening:
    """A name for query ids, and the lines that play may start from."""

    name: str
    lines: tuple[OpeningLine, ...]


def read_opening(text: str) -> Opening:
    """The opening that ``text`` names: B84, E97, a file, a position (FEN) or a list of moves.

    A file that ends in ``.pgn`` holds games, whose main lines are used; any other file holds a position or a list of
    moves per line, with empty lines and lines that start with ``#`` ignored.
    """
    text = text.strip()
    if text.upper() in NAMED:
        name = text.upper()
        return Opening(name, (_read_line(NAMED[name], name),))
    if os.path.isfile(text):
        lines = _pgn_lines(text) if text.lower().endswith(".pgn") else _text_lines(text)
        opening_lines = tuple(lines)
        if not opening_lines:
            raise DataError(f"{text} holds no game, position or list of moves.")
        stem = os.path.splitext(os.path.basename(text))[0]
        return Opening(re.sub(r"[^\w-]", "_", stem) or "opening", opening_lines)
    if "/" not in text and not _looks_like_moves(text):
        raise UnknownName("opening or file", text, NAMED)
    if "/" in text and text.count("/") != 7:
        raise DataError(f"there is no file '{text}'. Give one, or B84, E97, a FEN or moves.")
    return Opening("given", (_read_line(text, "the opening"),))


def _looks_like_moves(text: str) -> bool:
    words = _MOVE_NUMBER.sub(" ", text).split()
    return bool(words) and _MOVE.fullmatch(words[0]) is not None


def _text_lines(path: str) -> Iterator[OpeningLine]:
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, text in enumerate(file, start=1):
            if text.strip() and not text.lstrip().startswith("#"):
                yield _read_line(text.strip(), f"{path}, line {number}")


def _read_line(text: str, where: str) -> OpeningLine:
    """A position, or moves from the start of a game, checked by the rules."""
    chess = python_chess()
    if text.count("/") == 7:
        try:
            board = chess.Board(text)
        except ValueError as error:
            raise DataError(f"{where}: '{text}' is not a position in FEN: {error}.") from None
        if not board.is_valid():
            raise DataError(f"{where}: '{text}' cannot occur in a game: {board.status()!r}.")
        return _unfinished(board, OpeningLine(text, ()), where)
    board = chess.Board(_START)
    for word in _MOVE_NUMBER.sub(" ", text).split():
        try:
            board.push(_parse_move(board, word))
        except ValueError:
            raise DataError(
                f"{where}: '{word}' is not a legal move after {len(board.move_stack)} half-moves "
                f"('{board.fen()}'). Expected moves such as Nf3 or g1f3."
            ) from None
    return _unfinished(board, OpeningLine(_START, tuple(m.uci() for m in board.move_stack)), where)


def _parse_move(board: Any, word: str) -> Any:
    try:
        return board.parse_san(word)
    except ValueError:
        return board.parse_uci(word)


def _unfinished(board: Any, line: OpeningLine, where: str) -> OpeningLine:
    if board.is_game_over():
        raise DataError(f"{where}: the game is over ({board.result()}). Shorten the line.")
    return line


def _pgn_lines(path: str) -> Iterator[OpeningLine]:
    chess = python_chess()
    # latin-1: every byte is a character, so that file positions index the text.
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
            where = f"{path}, game {number} at line {text.count(chr(10), 0, first) + 1}"
            if game.errors:
                raise DataError(f"{where}: {game.errors[0]}. Mend or remove the game.")
            end = game.end().board()
            moves = tuple(move.uci() for move in end.move_stack)
            yield _unfinished(end, OpeningLine(game.board().fen(), moves), where)
