"""Chess positions with every legal move judged by an engine: built one by one, and never lost.

A build is a sequence of tries. Try number k plays from the opening by random numbers of its own, so it gives the same
position whatever happened before it; it is left out if the game ends, or if the position is there already. What is
found is appended to ``OUT.partial``, a line of JSON per position, and written to ``OUT`` and its description when all
is there. A build that was cut off anywhere goes on from its partial file to the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rankwood import _checks, _random
from rankwood.data.chess_collection import description_path, write_collection
from rankwood.data.chess_engine import Effort, Engine, find_engine, python_chess
from rankwood.data.chess_openings import Line, Opening, read_opening
from rankwood.data.chess_partial import Partial
from rankwood.data.chess_positions import ChessPosition
from rankwood.errors import ParameterError, RunError

DEFAULT_NODES = 100_000  # the search then sees every move of a middle game some 7 half-moves deep
_MOST_TRIES_IN_VAIN = 200

Progress = Callable[[int, int, float], Any]


@dataclass(frozen=True)
class Play:
    """How play leaves the opening: chance among moves that are not bad.

    Each side plays one of the engine's ``n_moves`` best moves after a search of ``nodes``, with equal chance any of
    those at most ``largest_gap`` centipawns worse than the best, but at least the first ``n_always``: so short a search
    may be sure and wrong, and every game would go the same way. Play goes on for ``least`` to ``most`` half-moves.
    """

    least: int = 4
    most: int = 24
    n_moves: int = 8
    n_always: int = 3
    largest_gap: int = 100
    nodes: int = 5_000


@dataclass(frozen=True)
class ChessRules:
    """What decides which positions and scores a build gives."""

    opening: Opening
    effort: Effort
    seed: int
    play: Play = Play()


def build_chess(
    path: str | Path,
    *,
    opening: str = "B84",
    positions: int = 2000,
    engine: str = "stockfish",
    nodes: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    least_plies: int = 4,
    most_plies: int = 24,
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
    timeout
        Seconds after which an engine that does not answer is started again.
    progress
        Called after each position with how many are done, how many are wanted, and the seconds left.

    Interrupted, it keeps what it has in ``path`` + ``.partial``; the same call goes on from there.
    """
    if str(path) == "-" or description_path(path) == Path(path):
        raise ParameterError(
            f"OUT is '{path}', but a build needs a file, and one beside it with the ending .json. "
            "Name it like moves.txt.gz."
        )
    count = _checks.whole_number("positions", positions, 1)
    rules = ChessRules(
        read_opening(opening),
        _effort(nodes, seconds),
        _checks.whole_number("seed", seed, 0),
        _play(least_plies, most_plies),
    )
    with Engine(find_engine(engine), timeout=timeout) as running:
        settings = _settings(rules, running)
        with Partial(path, settings) as partial:
            _fill(partial, rules, running, count, progress)
            found = partial.positions[:count]
            write_collection(path, settings, found)
            partial.remove()
    return found


def _effort(nodes: int | None, seconds: float | None) -> Effort:
    if nodes is not None and seconds is not None:
        raise ParameterError("nodes and seconds are both given; give one of them.")
    if seconds is not None:
        if not 0 < seconds < 86_400:
            raise ParameterError(f"seconds must be above 0 and less than a day, got {seconds}.")
        return Effort(seconds=float(seconds))
    return Effort(nodes=_checks.whole_number("nodes", DEFAULT_NODES if nodes is None else nodes, 1))


def _play(least: int, most: int) -> Play:
    least = _checks.whole_number("least_plies", least, 0)
    most = _checks.whole_number("most_plies", most, 0)
    if least > most:
        raise ParameterError(f"least_plies is {least}, which is more than most_plies, {most}.")
    return Play(least, most)


def _settings(rules: ChessRules, engine: Engine) -> dict[str, Any]:
    """What must be the same for a build to go on from a partial file."""
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
    seen = {_what_shows(position.fen) for position in partial.positions}
    in_vain = 0
    while len(partial.positions) < count:
        number, board, line = next(tries)
        if board is None or _what_shows(board.fen()) in seen:
            in_vain += 1
            _give_up_in_time(in_vain, len(partial.positions))
            continue
        in_vain = 0
        seen.add(_what_shows(board.fen()))
        name = f"{rules.opening.name}-{len(partial.positions) + 1}"
        scores = dict(sorted(engine.scores(board, rules.effort).items()))
        partial.append(number, ChessPosition(name, board.fen(), line, scores))
        if progress is not None:
            done = len(partial.positions)
            each = (time.perf_counter() - start) / (done - before)
            progress(done, count, each * (count - done))


def _what_shows(fen: str) -> str:
    """Pieces and side to move: positions that differ in castling rights only have the same features."""
    return " ".join(fen.split(" ")[:2])


def _give_up_in_time(in_vain: int, found: int) -> None:
    if in_vain >= _MOST_TRIES_IN_VAIN:
        raise RunError(
            f"the last {in_vain} games led to no new position; {found:,} were found. "
            "Ask for fewer, let play go on longer (most_plies), or give more opening lines."
        )


def played_positions(
    rules: ChessRules, engine: Engine, first: int = 0
) -> Iterator[tuple[int, Any, tuple[str, ...]]]:
    """Each try from number ``first`` on: its number, its position (None if the game ended) and its moves."""
    number = first
    while True:
        rng = _random.stream(rules.seed, "chess", number)
        lines = rules.opening.lines
        board = board_after(lines[int(rng.integers(len(lines)))])
        for _ in range(int(rng.integers(rules.play.least, rules.play.most + 1))):
            if board.is_game_over():
                break
            board.push_uci(_choose(rules.play, engine, board, rng))
        is_over = board.is_game_over()
        yield number, None if is_over else board, tuple(move.uci() for move in board.move_stack)
        number += 1


def board_after(line: Line) -> Any:
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
    n_candidates = min(len(best_first), max(n_near, play.n_always))
    return best_first[int(rng.integers(n_candidates))]
