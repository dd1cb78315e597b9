"""``rankwood data chess``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("chess")
STOCKFISH = shutil.which("stockfish") or shutil.which("stockfish", path="/usr/games")
needs_engine = pytest.mark.skipif(STOCKFISH is None, reason="stockfish is not installed")
SMALL = (
    *("--opening", "E97", "--positions", 4, "--nodes", 2000, "--seed", 1),
    *("--least-plies", 4, "--most-plies", 5),
)


def test_the_command_explains_itself(rankwood):
    outcome = rankwood("data", "chess", "--help")
    assert outcome.code == 0
    for text in (
        "--opening",
        "--nodes",
        "--time",
        "--seed",
        "--engine",
        "goes on where it stopped",
    ):
        assert text in outcome.out


@needs_engine
def test_a_collection_is_built_and_can_be_inspected(rankwood):
    outcome = rankwood("data", "chess", "moves.txt.gz", *SMALL)
    assert outcome.code == 0, outcome.err
    assert "moves.txt.gz: 4 positions" in outcome.err
    assert sorted(path.name for path in Path().iterdir()) == ["moves.json", "moves.txt.gz"]
    assert "71" in rankwood("inspect", "moves.txt.gz").out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "no-such-engine"], "apt install stockfish"),
        (["--opening", "B48"], "Did you mean 'B84'"),
        (["--nodes", "5", "--time", "1"], "both given"),
        (["--relevant", "1.5"], "relevant must be above 0 and at most 1, got 1.5"),
        (["--opening", "lines.txt"], "lines.txt, line 2: 'Ke7' is not a legal move"),
    ],
)
def test_mistakes_are_told_in_one_message(rankwood, options, message):
    Path("lines.txt").write_text("e4 e5\ne4 Ke7\n")
    outcome = rankwood("data", "chess", "moves.txt", *options)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("error:") == 1


@needs_engine
@pytest.mark.slow
def test_ctrl_c_keeps_what_is_there_and_says_how_to_go_on(tmp_path):
    program = "import sys; from rankwood.cli.main import main; sys.exit(main(sys.argv[1:]))"
    # Nodes for about a second each, and far more positions than there is patience for.
    options = ["--positions", "500", "--nodes", "200000", "--seed", "1"]
    options += ["--least-plies", "2", "--most-plies", "4"]
    child = subprocess.Popen(
        [sys.executable, "-c", program, "data", "chess", "moves.txt", *options],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    partial = tmp_path / "moves.txt.partial"
    while not (partial.exists() and partial.read_bytes().count(b"\n") >= 2):
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "kept in moves.txt.partial; the same command goes on from there" in told
    assert "Traceback" not in told
    assert partial.exists()
