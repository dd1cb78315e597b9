"""The collections that come with the package."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw
from rankwood.data.chess.collection import ranking_data
from rankwood.errors import UnknownName

pytestmark = pytest.mark.jit_only  # no kernels of its own

OPENINGS = ("B84", "E97")
FOLDER = Path(rw.__file__).parent / "data" / "chess" / "collections"


def test_both_openings_together():
    data = rw.datasets.chess()
    assert data.n_queries == 1040
    assert data.n_features == 71
    assert data.feature_names[64:] == (
        "piece", "from_file", "from_rank", "to_file", "to_rank", "is_capture", "captured"
    )  # fmt: skip
    assert set(np.unique(data.labels)) == {0, 1, 2, 3, 4}
    assert data.doc_ids.dtype.kind in "UOT"


@pytest.mark.parametrize("opening", OPENINGS)
def test_the_parts_are_the_whole_by_position(opening):
    whole = rw.datasets.chess(opening)
    parts = [rw.datasets.chess(opening, part) for part in ("train", "valid", "test")]
    assert [part.n_queries for part in parts] == [312, 104, 104]
    queries = [query for part in parts for query in part.queries.tolist()]
    assert queries == whole.queries.tolist()
    assert sum(part.n_documents for part in parts) == whole.n_documents
    both = rw.datasets.chess(part="valid")
    assert set(parts[1].queries.tolist()) < set(both.queries.tolist())
    assert both.n_queries == 208


@pytest.mark.parametrize("opening", OPENINGS)
def test_the_data_follow_from_the_positions_and_their_scores(opening):
    positions = list(rw.datasets.chess_positions(opening).values())
    pawn = rw.datasets.chess_provenance(opening)["pawn"]
    assert ranking_data(positions, pawn) == rw.datasets.chess(opening)


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_quarter_of_the_moves_is_relevant_in_balanced_middle_games(opening):
    labels = rw.datasets.chess(opening).labels
    assert (labels > 0).mean() == pytest.approx(0.25, abs=0.003)
    for position in rw.datasets.chess_positions(opening).values():
        pieces = sum(letter in "nbrqNBRQ" for letter in position.fen.split()[0])
        assert pieces >= 7
        assert abs(max(position.scores.values())) < 500  # the longer search may see more


@pytest.mark.parametrize("opening", OPENINGS)
def test_the_provenance_agrees_with_the_data(opening):
    facts, data = rw.datasets.chess_provenance(opening), rw.datasets.chess(opening)
    assert facts["n_moves"] == data.n_documents
    assert facts["n_moves_of_label"] == {
        str(label): int((data.labels == label).sum()) for label in range(5)
    }
    assert facts["engine"] == "Stockfish 15.1"
    assert (facts["nodes"], facts["seed"]) == (100_000, 1)


def test_no_board_is_there_twice():
    positions = rw.datasets.chess_positions()
    assert len({tuple(p.fen.split()[:2]) for p in positions.values()}) == len(positions) == 1040


def test_every_legal_move_is_there_and_no_game_is_over():
    chess = pytest.importorskip("chess")
    for position in rw.datasets.chess_positions().values():
        board = chess.Board(position.fen)
        assert sorted(move.uci() for move in board.legal_moves) == list(position.scores)
        assert not board.is_game_over()


def test_names_nobody_knows():
    with pytest.raises(UnknownName, match=r"opening 'B85' is not known. Did you mean 'B84'"):
        rw.datasets.chess("B85")
    with pytest.raises(UnknownName, match=r"part 'vald' is not known. Did you mean 'valid'"):
        rw.datasets.chess(part="vald")
    with pytest.raises(UnknownName, match="opening 'None' is not known"):
        rw.datasets.chess_provenance(None)


def test_python_chess_is_not_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "chess", None)  # importing it fails now
    position = rw.datasets.chess_positions("E97")["E97-1"]
    assert len(rw.datasets.board_text(position.fen, {"engine": position.best_moves})) > 100
    assert rw.datasets.chess("E97").n_queries == 520


def test_the_files_are_small_and_those_that_were_described():
    files = sorted(FOLDER.iterdir())
    assert {file.name for file in files} == {
        "README.md", "chess-B84.json", "chess-B84.txt.gz", "chess-E97.json", "chess-E97.txt.gz"
    }  # fmt: skip
    assert sum(file.stat().st_size for file in files) < 1_250_000
    told = (FOLDER / "README.md").read_text()
    for file in files:
        if file.suffix == ".gz":
            assert hashlib.sha256(file.read_bytes()).hexdigest() in told


@pytest.mark.slow
@pytest.mark.parametrize("opening", OPENINGS)
def test_the_collection_can_be_built_again(opening, tmp_path):
    """Its first positions, by the same engine; another version would judge otherwise."""
    pytest.importorskip("chess")
    from rankwood.data.chess.building import ChessEngine, find_engine

    try:
        with ChessEngine(find_engine("stockfish")) as engine:
            name = engine.name
    except rw.errors.ParameterError:
        pytest.skip("stockfish is not installed")
    facts = rw.datasets.chess_provenance(opening)
    if name != facts["engine"]:
        pytest.skip(f"the collection was made by {facts['engine']}, not {name}")
    built = rw.datasets.build_chess(
        tmp_path / "moves.txt.gz", opening=opening, positions=4, nodes=facts["nodes"], seed=1
    )
    assert built == list(rw.datasets.chess_positions(opening).values())[:4]
