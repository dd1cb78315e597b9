"""``build_chess``: chess positions with every legal move scored by an engine, built in resumable steps.

A build is a sequence of tries. Try number k plays from the opening with random numbers of its own, so it gives the
same position whatever happened before it. A try is skipped if the game ends, if the position is no middle game or
decided, or if it is known already.
Each position is appended to ``OUT.partial`` (``Partial``), one line of JSON each, and all are written to ``OUT`` and
its description at the end. An interrupted build continues from its partial file and gives the same bytes.

``ChessEngine`` is a UCI chess engine that scores the legal moves of a position, restarted if it dies. Every search
starts with empty memory (``ucinewgame``) and runs on one thread, so that with a fixed number of nodes the scores depend
only on the position and the engine.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import logging
import math
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rankwood._core import checks, random
from rankwood._core.files import explained_writing
from rankwood.data.chess.collection import ChessPosition, description_path, write_collection
from rankwood.data.chess.positions import MATE, pawn_of_share, piece_codes
from rankwood.errors import DataError, MissingExtra, ParameterError, RunError, UnknownName

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
_GAMES = "/usr/games:/usr/local/games"  # Debian installs engines here, often outside PATH
_OPTIONS = {"Threads": 1, "Hash": 16}
_HANDSHAKE = 20.0  # seconds an engine may take to identify itself
_TRIES = 3

log = logging.getLogger(__name__)


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
        pawn = checks.whole_number("pawn", pawn, 1)
    if not 0 < relevant <= 1:
        raise ParameterError(
            f"relevant must be above 0 and at most 1, got {relevant}. It is a share of moves, such as 0.25."
        )
    with ChessEngine(find_engine(engine), timeout=timeout) as running:
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


def _settings(rules: ChessRules, engine: ChessEngine) -> dict[str, Any]:
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
    partial: Partial, rules: ChessRules, engine: ChessEngine, count: int, progress: Progress | None
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
    rules: ChessRules, engine: ChessEngine, first: int = 0
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


def _is_balanced_middle_game(play: Play, engine: ChessEngine, board: Any) -> bool:
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


def _choose(play: Play, engine: ChessEngine, board: Any, rng: Any) -> str:
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


@dataclass(frozen=True)
class Effort:
    """The limit of one search: ``nodes`` (repeatable) or ``seconds`` (not repeatable)."""

    nodes: int | None = None
    seconds: float | None = None


class ChessEngine:
    """A running UCI engine; use it in a ``with`` block.

    ``timeout`` is how many seconds a search may take beyond its effort before the engine counts as stuck.
    """

    def __init__(self, path: str, *, timeout: float = 60.0) -> None:
        self._chess = python_chess()
        self._path = path
        self._timeout = timeout
        self._was_stuck = False
        self._process = self._start()
        options = self._process.options
        self.name: str = str(self._process.id.get("name", os.path.basename(path)))
        self.options = {name: value for name, value in _OPTIONS.items() if name in options}
        if "MultiPV" not in options:
            self.close()
            raise ParameterError(
                f"engine {self.name} has no option MultiPV, so it cannot score every move. Use another engine."
            )

    def __enter__(self) -> ChessEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id of the engine."""
        return int(self._process.transport.get_pid())

    def close(self) -> None:
        """Ask the engine to quit, then close it in any case."""
        with contextlib.suppress(self._chess.engine.EngineError, TimeoutError):
            self._process.quit()
        self._process.close()

    def _start(self) -> Any:
        errors = self._chess.engine
        try:
            # A process group of its own: Ctrl-C reaches this process only, which then ends the engine.
            process = errors.SimpleEngine.popen_uci(self._path, timeout=_HANDSHAKE, setpgrp=True)
            known = {name: value for name, value in _OPTIONS.items() if name in process.options}
            process.configure(known)
            # If an engine dies, running searches raise exceptions that are never awaited.
            process.protocol.loop.set_exception_handler(_note_what_is_left)
        except (errors.EngineError, TimeoutError, OSError) as error:
            raise ParameterError(
                f"{self._path} does not answer as a UCI engine ({error or 'no answer'}). Give another --engine."
            ) from None
        return process

    def scores(self, board: Any, effort: Effort, n_best: int | None = None) -> dict[str, int]:
        """Centipawns of each legal move from the mover's side, or of the ``n_best`` best moves only.

        All scores come from the deepest search that covered all of these moves. An engine that dies or hangs is
        restarted; after three failures in a row an error is raised.
        """
        wanted = board.legal_moves.count()
        wanted = wanted if n_best is None else min(n_best, wanted)
        for attempt in range(1, _TRIES + 1):
            try:
                return self._search(board, effort, wanted)
            except self._chess.engine.EngineTerminatedError:
                what = "did not answer in time" if self._was_stuck else "died"
                log.warning(
                    "%s %s at '%s' (%d of %d tries)", self.name, what, board.fen(), attempt, _TRIES
                )
                self._process.close()
                self._process = self._start()
            except self._chess.engine.EngineError as error:
                raise RunError(f"{self.name} at '{board.fen()}': {error}.") from None
        raise RunError(
            f"{self.name} {what} {_TRIES} times in a row at '{board.fen()}'. Try less effort, more time, "
            "or another engine."
        )

    def _search(self, board: Any, effort: Effort, wanted: int) -> dict[str, int]:
        limit = self._chess.engine.Limit(nodes=effort.nodes, time=effort.seconds)
        by_depth: dict[int, dict[str, int]] = {}
        with (
            self._watched(self._timeout + (effort.seconds or 0.0)),
            self._process.analysis(board, limit, multipv=wanted, game=object()) as answers,
        ):
            for answer in answers:
                if "score" in answer and answer.get("pv") and not _is_bound(answer):
                    line = by_depth.setdefault(answer.get("depth", 0), {})
                    line[answer["pv"][0].uci()] = _centipawns(answer["score"].relative)
        complete = [depth for depth, line in by_depth.items() if len(line) >= wanted]
        if not complete:
            raise RunError(
                f"{self.name} did not come to score all {wanted} moves of '{board.fen()}'. "
                "Give it more nodes or time."
            )
        return by_depth[max(complete)]

    @contextlib.contextmanager
    def _watched(self, seconds: float) -> Iterator[None]:
        """Kill the engine if the block takes longer; python-chess then raises an error."""
        self._was_stuck = False
        pid = self.pid

        def kill() -> None:
            self._was_stuck = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        timer = threading.Timer(seconds, kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        except concurrent.futures.CancelledError:  # raised by some versions instead
            raise self._chess.engine.EngineTerminatedError("gone") from None
        finally:
            timer.cancel()


def find_engine(name: str) -> str:
    """The path of a UCI engine, by its name or path."""
    path = shutil.which(name) or shutil.which(name, path=_GAMES)
    if path is None:
        raise ParameterError(
            f"engine '{name}' was not found in PATH or {_GAMES.replace(':', ' or ')}. Install one (Debian and Ubuntu: "
            "apt install stockfish; macOS: brew install stockfish), or give the path of a UCI engine."
        )
    return os.path.abspath(path)


def python_chess() -> Any:
    """The package ``chess`` with ``engine`` and ``pgn``, or an error that names the extra to install."""
    try:
        import chess
        import chess.engine
        import chess.pgn
    except ImportError:
        raise MissingExtra("chess", "chess", "Building chess data") from None
    return chess


def _note_what_is_left(_: object, context: dict[str, Any]) -> None:
    log.debug("engine: %s", context.get("exception") or context.get("message"))


def _is_bound(answer: Any) -> bool:
    return bool(answer.get("lowerbound") or answer.get("upperbound"))


def _centipawns(score: Any) -> int:
    """The score, limited to ±100 pawns, which is also the value of a mate."""
    if score.is_mate():
        return MATE if score.mate() > 0 else -MATE
    return max(-MATE, min(MATE, int(score.score())))
