"""Building chess collections with a real engine, and what happens when things go wrong.

The engine is Debian's stockfish; where there is none these tests are left out.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw
from rankwood.data.chess.building import ChessEngine, Effort, Partial, find_engine, read_opening
from rankwood.data.chess.collection import ChessPosition, description_path, read_description
from rankwood.datasets import build_chess
from rankwood.errors import DataError, MissingExtra, ParameterError, RunError, UnknownName

pytestmark = pytest.mark.jit_only  # no kernels of its own

chess = pytest.importorskip("chess")
STOCKFISH = shutil.which("stockfish") or shutil.which("stockfish", path="/usr/games")
needs_engine = pytest.mark.skipif(STOCKFISH is None, reason="stockfish is not installed")
SMALL = {
    "opening": "B84",
    "positions": 5,
    "nodes": 2000,
    "seed": 3,
    "least_plies": 4,
    "most_plies": 6,
}
CHILD = """
import sys
from rankwood.datasets import build_chess
small = dict(positions=5, nodes=2000, seed=3, least_plies=4, most_plies=6)
build_chess(sys.argv[1], opening="B84", **small)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A small collection, built without a break."""
    if STOCKFISH is None:
        pytest.skip("stockfish is not installed")
    path = tmp_path_factory.mktemp("built") / "moves.txt.gz"
    build_chess(path, **SMALL)
    return path


def same_bytes(path, other):
    return (
        path.read_bytes() == other.read_bytes()
        and description_path(path).read_bytes() == description_path(other).read_bytes()
    )


def children() -> list[int]:
    """The processes this one has started."""
    files = Path("/proc/self/task").glob("*/children")
    return [int(pid) for file in files for pid in file.read_text().split()]


def is_engine(pid: int) -> bool:
    return "stockfish" in Path(f"/proc/{pid}/cmdline").read_text()


def test_every_legal_move_is_a_row(built):
    data = rw.read_letor(built)
    facts, positions = read_description(description_path(built))
    assert data.n_queries == len(positions) == 5
    assert data.n_features == 71
    for position, (query, rows) in zip(positions, data.iter_queries(), strict=True):
        board = chess.Board(position.fen)
        assert query == position.query
        assert data.doc_ids[rows].tolist() == sorted(m.uci() for m in board.legal_moves)
        assert not board.is_game_over()
        gaps = max(position.scores.values()) - np.array(list(position.scores.values()))
        assert (data.labels[rows] == 4).tolist() == (10 * gaps <= facts["pawn"]).tolist()
    share = np.mean(data.labels > 0)
    assert 0.25 <= share < 0.25 + 10 / data.n_documents


@needs_engine
def test_the_engine_may_be_taken_at_its_word(tmp_path):
    build_chess(tmp_path / "moves.txt", **{**SMALL, "positions": 1}, pawn=100)
    facts, (position,) = read_description(tmp_path / "moves.json")
    gaps = max(position.scores.values()) - np.array(list(position.scores.values()))
    assert facts["pawn"] == 100
    labels = rw.read_letor(tmp_path / "moves.txt").labels
    assert (labels == 4).tolist() == (gaps <= 10).tolist()


@needs_engine
def test_decided_positions_and_endgames_are_left_out(tmp_path):
    small = {"positions": 1, "nodes": 2000, "least_plies": 0, "most_plies": 0}
    won = "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"  # Black has no queen
    bare = "4k3/pppppppp/8/8/8/8/PPPPPPPP/4K3 w - - 0 1"
    for opening, allowed in ((won, {"largest_lead": 50}), (bare, {"least_pieces": 0})):
        with pytest.raises(RunError, match="or allow for fewer pieces"):
            build_chess(tmp_path / "moves.txt", opening=opening, **small)
        Path(tmp_path / "moves.txt.partial").unlink()
        build_chess(tmp_path / "moves.txt", opening=opening, **small, **allowed)


def test_positions_follow_from_their_lines(built):
    facts, positions = read_description(description_path(built))
    opening = facts["lines"][0]["moves"].split()
    for position in positions:
        board = chess.Board()
        for move in position.line:
            board.push_uci(move)
        assert board.fen() == position.fen
        assert list(position.line[: len(opening)]) == opening
        assert 4 <= len(position.line) - len(opening) <= 6
    assert len({position.fen for position in positions}) == 5


def test_the_description_says_how_to_do_it_again(built):
    facts, _ = read_description(description_path(built))
    assert facts["engine"].startswith("Stockfish")
    assert (facts["nodes"], facts["seconds"], facts["seed"]) == (2000, None, 3)
    assert facts["options"] == {"Threads": 1, "Hash": 16}
    assert len(facts["feature_names"]) == 71
    assert sum(facts["n_moves_of_label"].values()) == facts["n_moves"]


def test_same_seed_same_bytes_and_another_seed_other_positions(built, tmp_path):
    again, other = tmp_path / "moves.txt.gz", tmp_path / "other.txt.gz"
    build_chess(again, **SMALL)
    assert same_bytes(again, built)
    build_chess(other, **{**SMALL, "seed": 4})
    assert not same_bytes(other, built)


def test_a_build_that_was_interrupted_goes_on_to_the_same_bytes(built, tmp_path):
    path = tmp_path / "moves.txt.gz"

    def interrupt(done, total, seconds_left):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_chess(path, **SMALL, progress=interrupt)
    assert not path.exists()
    partial = Path(f"{path}.partial")
    partial.write_bytes(partial.read_bytes() + b'{"try":7,"query":"B84')  # as a crash leaves it
    told = []
    build_chess(path, **SMALL, progress=lambda *news: told.append(news[:2]))
    assert told == [(3, 5), (4, 5), (5, 5)]
    assert same_bytes(path, built)
    assert not partial.exists()


@pytest.mark.slow
def test_a_build_that_was_killed_goes_on_to_the_same_bytes(built, tmp_path):
    path = tmp_path / "moves.txt.gz"
    partial = Path(f"{path}.partial")
    for wanted in (2, 4):  # lines: the settings and so many positions, less one
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)])
        while child.poll() is None:
            if partial.exists() and partial.read_bytes().count(b"\n") >= wanted:
                child.send_signal(signal.SIGKILL)
            time.sleep(0.005)
        child.wait()
    subprocess.run([sys.executable, "-c", CHILD, str(path)], check=True)
    assert same_bytes(path, built)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are listed by Linux")
def test_an_engine_that_is_killed_is_started_again(built, tmp_path, caplog):
    path = tmp_path / "moves.txt.gz"

    def kill(done, total, seconds_left):
        if done in (1, 3):
            for pid in filter(is_engine, children()):
                os.kill(pid, signal.SIGKILL)

    with caplog.at_level(logging.WARNING, logger="rankwood"):
        build_chess(path, **SMALL, progress=kill)
    assert same_bytes(path, built)
    assert caplog.text.count("Stockfish") >= 2
    assert "died at '" in caplog.text


@needs_engine
def test_scores_do_not_depend_on_what_was_asked_before():
    one, other = chess.Board(), chess.Board("r3k2r/8/8/3q4/8/8/8/R3K2R w KQkq - 0 1")
    effort = Effort(nodes=3000)
    with ChessEngine(find_engine("stockfish")) as engine:
        first = engine.scores(one, effort)
        engine.scores(other, effort)
        assert engine.scores(one, effort) == first
        assert len(first) == 20
        assert len(engine.scores(one, effort, n_best=3)) >= 3
        os.kill(engine.pid, signal.SIGKILL)
        assert engine.scores(one, effort) == first


@needs_engine
def test_a_mate_is_worth_a_hundred_pawns():
    board = chess.Board("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1")  # Ra8 mates
    with ChessEngine(find_engine("stockfish")) as engine:
        scores = engine.scores(board, Effort(nodes=5000))
    assert scores["a1a8"] == 10_000
    assert max(scores.values()) == 10_000


@needs_engine
def test_an_engine_that_hangs_is_given_up_with_its_position(tmp_path, caplog):
    path = tmp_path / "moves.txt"
    with pytest.raises(
        RunError, match=r"did not answer in time 3 times in a row at 'r.*Try less effort"
    ):
        build_chess(path, **{**SMALL, "nodes": 10**11}, timeout=0.3)
    assert "did not answer in time" in caplog.text
    assert not path.exists()


@needs_engine
def test_too_few_nodes_are_noticed(tmp_path):
    with pytest.raises(RunError, match=r"did not come to score all \d+ moves .* more nodes"):
        build_chess(tmp_path / "moves.txt", **{**SMALL, "nodes": 1})


@needs_engine
def test_a_partial_file_of_other_options_is_refused(tmp_path):
    path = tmp_path / "moves.txt"

    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_chess(path, **SMALL, progress=interrupt)
    with pytest.raises(ParameterError, match="begun with nodes = 2000, and now it is 3000"):
        build_chess(path, **{**SMALL, "nodes": 3000})
    partial = Path(f"{path}.partial")
    lines = partial.read_text().splitlines()
    partial.write_text("\n".join([lines[0], "{}", lines[1]]) + "\n")
    with pytest.raises(DataError, match=r"moves.txt.partial, line 2 is damaged"):
        build_chess(path, **SMALL)


def test_a_partial_file_belongs_to_one_build(tmp_path):
    path = tmp_path / "moves.txt"
    with (
        Partial(path, {"seed": 1}),
        pytest.raises(ParameterError, match="being written by another build"),
    ):
        Partial(path, {"seed": 1})


def test_a_partial_file_survives_a_cut_at_any_byte(tmp_path):
    settings = {"seed": 1}
    positions = [
        ChessPosition(f"B84-{i}", "8/8/8/8/8/8/8/8 w", ("e2e4",), {"a1a2": i}) for i in (1, 2)
    ]
    with Partial(tmp_path / "whole", settings) as partial:
        for number, position in enumerate(positions):
            partial.append(number * 3, position)
    text = (tmp_path / "whole.partial").read_bytes()
    ends = [place + 1 for place, byte in enumerate(text) if byte == ord("\n")]
    for length in range(len(text) + 1):
        (tmp_path / "cut.partial").write_bytes(text[:length])
        with Partial(tmp_path / "cut", settings) as partial:
            n_whole = sum(end <= length for end in ends[1:])
            assert partial.positions == positions[:n_whole]
            assert partial.next_try == (0, 1, 4)[n_whole]


@needs_engine
@pytest.mark.slow
def test_positions_that_run_out_are_told(tmp_path):
    # Two kings and two pawns that cannot move: few positions within a half-move of the start.
    with pytest.raises(RunError, match=r"no new position; \d+ were found"):
        build_chess(
            tmp_path / "moves.txt",
            opening="k7/8/8/p7/P7/8/8/K7 w - - 0 1",
            positions=50,
            nodes=2000,
            least_plies=0,
            most_plies=1,
            least_pieces=0,
        )


def test_an_engine_that_is_not_there(tmp_path):
    with pytest.raises(
        ParameterError, match=r"'no-such-engine' was not found in PATH or /usr/games .* apt install"
    ):
        build_chess(tmp_path / "moves.txt", engine="no-such-engine")


@pytest.mark.parametrize("program", ["/bin/true", "/bin/echo"])
def test_a_program_that_is_no_engine(tmp_path, program):
    with pytest.raises(ParameterError, match="does not answer as a UCI engine"):
        build_chess(tmp_path / "moves.txt", engine=program)


@pytest.mark.parametrize("name", ["-", "moves.json"])
def test_a_collection_needs_a_file_with_room_for_a_description(name):
    with pytest.raises(ParameterError, match=f"OUT is '{name}'"):
        build_chess(name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 5, "seconds": 1.0}, "both given"),
        ({"seconds": 0.0}, "seconds must be above 0"),
        ({"seconds": float("nan")}, "seconds must be above 0"),
        ({"nodes": 0}, "nodes"),
        ({"positions": 0}, "positions"),
        ({"seed": -1}, "seed"),
        ({"least_plies": 5, "most_plies": 4}, "least_plies is 5, which is more than most_plies, 4"),
        ({"least_pieces": -1}, "least_pieces"),
        (
            {"largest_lead": float("nan")},
            "largest_lead must be a number of pawns from 0 on, got nan",
        ),
        ({"pawn": 0}, "pawn"),
        ({"relevant": 25}, "relevant must be above 0 and at most 1, got 25\\. It is a share"),
    ],
)
def test_bad_options_are_named(tmp_path, options, message):
    with pytest.raises(ParameterError, match=message):
        build_chess(tmp_path / "moves.txt", **options)


@needs_engine
def test_seconds_instead_of_nodes_and_a_table_instead_of_text(tmp_path):
    path = tmp_path / "moves.parquet"
    build_chess(
        path, opening="e4 e5", positions=2, seconds=0.05, least_plies=2, most_plies=4, seed=1
    )
    data = rw.read_table(path, doc="doc_id")
    assert data.n_queries == 2
    assert data.feature_names[:2] == ("a1", "b1")
    assert json.loads((tmp_path / "moves.json").read_text())["seconds"] == 0.05


def test_openings_by_name_position_moves_and_file(tmp_path):
    assert read_opening("b84").name == "B84"
    (line,) = read_opening("E97").lines
    assert line.moves[-1] == "b8c6"
    assert read_opening("1. e4 e5 2. g1f3").lines[0].moves == ("e2e4", "e7e5", "g1f3")
    fen = "r3k2r/8/8/3q4/8/8/8/R3K2R w KQkq - 0 1"
    assert read_opening(fen).lines[0].position == fen
    path = tmp_path / "my lines.txt"
    path.write_text(f"# two of them\n\n{fen}\ne4 c5\n")
    opening = read_opening(str(path))
    assert opening.name == "my_lines"
    assert [line.moves for line in opening.lines] == [(), ("e2e4", "c7c5")]


PGN = """[Event "one"]

1. d4 d5 (1... Nf6 2. c4) 2. c4 {a comment} e6 *

[Event "two"]

1. e4 {comment} c5 2. Nf3 *
"""


def test_the_main_lines_of_a_pgn_file(tmp_path):
    path = tmp_path / "games.pgn"
    path.write_text(PGN)
    lines = read_opening(str(path)).lines
    assert [len(line.moves) for line in lines] == [4, 3]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "games.pgn",
            PGN.replace("2. Nf3", "2. Nf6"),
            r"games.pgn, game 2 at line 5: illegal san: 'Nf6'",
        ),
        (
            "lines.txt",
            "e4 e5\n\ne4 Ke7\n",
            r"lines.txt, line 3: 'Ke7' is not a legal move after 1 half-moves",
        ),
        (
            "lines.txt",
            "8/8/8/8/8/8/8/8 w - - 0 1\n",
            "lines.txt, line 1: .* cannot occur in a game",
        ),
        ("lines.txt", "f3 e5 g4 Qh4#\n", r"lines.txt, line 1: the game is over \(0-1\)"),
        ("lines.txt", "\n# nothing\n", "holds no game, position or list of moves"),
        ("games.pgn", "", "holds no game"),
    ],
)
def test_a_bad_line_is_told_with_its_place(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_opening(str(path))


def test_an_opening_nobody_knows():
    with pytest.raises(
        UnknownName, match=r"opening or file 'B48' is not known. Did you mean 'B84'"
    ):
        read_opening("B48")
    with pytest.raises(DataError, match=r"there is no file 'games/none.pgn'"):
        read_opening("games/none.pgn")


def test_without_python_chess_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "chess", None)
    with pytest.raises(MissingExtra, match=r"pip install 'rankwood\[chess\]'"):
        build_chess(tmp_path / "moves.txt")
