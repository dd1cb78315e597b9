"""Positions and moves as numbers, scores as labels: pure functions, no engine, no python-chess."""

from __future__ import annotations

import numpy as np
import pytest

from rankwood.data.chess.positions import (
    FEATURE_NAMES,
    MATE,
    SQUARES,
    labels_of_scores,
    move_features,
    pawn_of_share,
    position_of_features,
)
from rankwood.errors import DataError

pytestmark = pytest.mark.jit_only  # no kernels of its own

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
MOVE = ("piece", "from_file", "from_rank", "to_file", "to_rank", "is_capture", "captured")


def named(position, move):
    row = move_features(position, [move])[0]
    return dict(zip(FEATURE_NAMES, row.tolist(), strict=True))


def move_part(position, move):
    row = named(position, move)
    return tuple(row[name] for name in MOVE)


def test_there_are_71_features_with_names():
    assert len(FEATURE_NAMES) == 71
    assert FEATURE_NAMES[:3] == ("a1", "b1", "c1")
    assert FEATURE_NAMES[63] == "h8"
    assert FEATURE_NAMES[64:] == MOVE


def test_a_knight_leaves_its_square():
    row = named(START, "g1f3")
    assert (row["a1"], row["b1"], row["d1"], row["e1"], row["e2"]) == (4, 2, 5, 6, 1)
    assert (row["a8"], row["e8"], row["e7"], row["e4"]) == (-4, -6, -1, 0)
    assert move_part(START, "g1f3") == (2, 6, 0, 5, 2, 0, 0)  # knight, g1 → f3, no capture


def test_black_sees_the_board_from_its_own_side():
    black = START.replace(" w ", " b ")
    # The start is the same from both chairs, so g8f6 must look as g1f3 does to White.
    np.testing.assert_array_equal(move_features(black, ["g8f6"]), move_features(START, ["g1f3"]))


@pytest.mark.parametrize(
    ("position", "move", "expected"),
    [
        # A white pawn on e5 takes a black rook on d6.
        ("4k3/8/3r4/4P3/8/8/8/4K3 w - - 0 1", "e5d6", (1, 4, 4, 3, 5, 1, 4)),
        # In passing: the captured pawn stands beside the square the pawn goes to.
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1", "e5d6", (1, 4, 4, 3, 5, 1, 1)),
        # The same for Black, whose pawn on e4 stands on the fifth rank of its own side.
        ("4k3/8/8/8/3Pp3/8/8/4K3 b - d3 0 1", "e4d3", (1, 4, 4, 3, 5, 1, 1)),
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "e1g1", (6, 4, 0, 6, 0, 0, 0)),
        ("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1", "e8c8", (6, 4, 0, 2, 0, 0, 0)),
        ("1n2k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a7b8q", (1, 0, 6, 1, 7, 1, 2)),
    ],
)
def test_special_moves(position, move, expected):
    assert move_part(position, move) == expected


def test_what_a_pawn_becomes_is_no_feature():
    rows = move_features("4k3/P7/8/8/8/8/8/4K3 w - - 0 1", ["a7a8q", "a7a8n"])
    np.testing.assert_array_equal(rows[0], rows[1])


def test_no_moves_give_no_rows():
    assert move_features(START, []).shape == (0, 71)


@pytest.mark.parametrize(
    ("position", "move", "message"),
    [
        ("8/8/8/8/8/8/8 w - - 0 1", "e2e4", "is not a position"),
        ("9/8/8/8/8/8/8/8 w - - 0 1", "e2e4", "is not a position"),
        ("pppppppppp/8/8/8/8/8/8/8 w", "e2e4", "is not a position"),
        (START, "e2-e4", "'e2-e4' is not a move"),
        (START, "e2e9", "'e2e9' is not a move"),
        (START, "e4e5", "e4e5: the side to move has no piece there"),
        (START, "e7e5", "e7e5: the side to move has no piece there"),
    ],
)
def test_bad_input_is_named(position, move, message):
    with pytest.raises(DataError, match=message):
        move_features(position, [move])


def test_labels_at_every_bound():
    gaps = [0, 10, 11, 20, 21, 29, 30, 49, 50, 51, MATE]
    # pawns: ≤ 0.1 → 4, ≤ 0.2 → 3, < 0.3 → 2, < 0.5 → 1, else 0
    expected = [4, 4, 3, 3, 2, 2, 1, 1, 0, 0, 0]
    assert labels_of_scores([35 - gap for gap in gaps]).tolist() == expected


def test_labels_by_another_pawn():
    gaps = [0, 20, 21, 40, 41, 59, 60, 99, 100]
    assert labels_of_scores([-gap for gap in gaps], 200).tolist() == [4, 4, 3, 3, 2, 2, 1, 1, 0]
    assert labels_of_scores([0, -15, -16, -75, -76], 151).tolist() == [4, 4, 3, 1, 0]


@pytest.mark.parametrize("relevant", [0.01, 0.25, 0.5, 1.0])
def test_a_pawn_is_chosen_by_the_share_of_relevant_moves(relevant):
    random = np.random.default_rng(3)
    scores = [random.integers(-900, 300, 30).tolist() for _ in range(20)]
    pawn = pawn_of_share(scores, relevant)

    def share(value):
        return np.mean([label > 0 for one in scores for label in labels_of_scores(one, value)])

    assert share(pawn) >= relevant
    assert pawn == 1 or share(pawn - 1) < relevant


def test_every_mate_is_as_good_as_any_other():
    assert labels_of_scores([MATE, MATE, 900, -MATE]).tolist() == [4, 4, 0, 0]
    assert labels_of_scores([-MATE, -MATE]).tolist() == [4, 4]  # all lost: all as good as the best


def test_features_give_the_position_back_as_its_mover_saw_it():
    position = "4k3/8/3r4/4P3/8/8/8/4K3 w - - 0 1"
    row = move_features(position, ["e5d6"])[0]
    assert position_of_features(row) == position
    assert position_of_features(move_features("4k3/8/8/8/3Pp3/8/8/4K3 b - - 0 1", ["e4e3"])[0]) == (
        "4k3/8/8/3pP3/8/8/8/4K3 w - - 0 1"
    )
    with pytest.raises(DataError, match="7 is no piece"):
        position_of_features([7] * 64)
    with pytest.raises(DataError, match="64 squares; the row has 3"):
        position_of_features([0, 0, 0])


def test_features_equal_those_of_another_implementation():
    """python-chess plays a random game and tells what stands where; our own reading of FEN must agree."""
    chess = pytest.importorskip("chess")
    rng = np.random.default_rng(3)
    board = chess.Board()
    for _ in range(120):
        moves = list(board.legal_moves)
        if not moves:
            break
        flip = 0 if board.turn else 56
        rows = move_features(board.fen(), [move.uci() for move in moves])
        for move, row in zip(moves, rows, strict=True):
            for square in range(64):
                piece = board.piece_at(square ^ flip)
                code = 0 if piece is None else piece.piece_type
                assert row[square] == (code if piece and piece.color == board.turn else -code)
            captured = board.piece_type_at(move.to_square) or int(board.is_en_passant(move))
            assert row[64:].tolist() == [
                board.piece_type_at(move.from_square),
                chess.square_file(move.from_square),
                chess.square_rank(move.from_square ^ flip),
                chess.square_file(move.to_square),
                chess.square_rank(move.to_square ^ flip),
                board.is_capture(move),
                captured,
            ]
        board.push(moves[int(rng.integers(len(moves)))])
    assert board.ply() > 60


def test_squares_run_from_a1_to_h8():
    assert (SQUARES[0], SQUARES[7], SQUARES[8], SQUARES[63]) == ("a1", "h1", "a2", "h8")


@pytest.mark.slow
def test_the_columns_are_those_of_a_set_made_by_another_program(collections):
    """A set whose comments hold move and position: its 71 columns must be ours, row by row."""
    import gzip
    import itertools

    path = collections / "chess-B84.txt.gz"
    if not path.exists():
        pytest.skip("RANKWOOD_DATA holds no chess-B84.txt.gz")
    with gzip.open(path, "rt") as file:
        for text in itertools.islice(file, 3000):
            values, comment = text.rstrip("\n").split(" # ")
            move, position = comment.split(" ", 1)
            theirs = [float(value.partition(":")[2]) for value in values.split()[2:]]
            assert move_features(position, [move])[0].tolist() == theirs
