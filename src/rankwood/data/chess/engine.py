"""``Engine``: a UCI chess engine that scores the legal moves of a position, restarted if it dies.

Every search starts with empty memory (``ucinewgame``) and runs on one thread, so that with a fixed number of nodes the
scores depend only on the position and the engine.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rankwood.data.chess.features import MATE
from rankwood.errors import MissingExtra, ParameterError, RunError

_GAMES = "/usr/games:/usr/local/games"  # Debian installs engines here, often outside PATH
_OPTIONS = {"Threads": 1, "Hash": 16}
_HANDSHAKE = 20.0  # seconds an engine may take to identify itself
_TRIES = 3

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Effort:
    """The limit of one search: ``nodes`` (repeatable) or ``seconds`` (not repeatable)."""

    nodes: int | None = None
    seconds: float | None = None


class Engine:
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

    def __enter__(self) -> Engine:
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
