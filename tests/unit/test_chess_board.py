"""Boards as text and SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from rankwood.data.chess.positions import move_features
from rankwood.datasets import board_svg, board_text, move_text
from rankwood.errors import DataError, ParameterError

pytestmark = pytest.mark.jit_only  # no kernels of its own

POSITION = "r3k3/8/8/3p4/4P3/8/8/R3K2R w KQq - 0 1"
SVG = "{http://www.w3.org/2000/svg}"


def test_a_board_in_letters():
    text = board_text(POSITION, {"model": ["e4d5", "e1g1"], "engine": ["e1g1"]})
    assert text.splitlines() == [
        "8  r  .  .  .  k  .  .  . ",
        "7  .  .  .  .  .  .  .  . ",
        "6  .  .  .  .  .  .  .  . ",
        "5  .  .  . (p) .  .  .  . ",
        "4  .  .  .  . (P) .  .  . ",
        "3  .  .  .  .  .  .  .  . ",
        "2  .  .  .  .  .  .  .  . ",
        "1  R  .  .  . [K] . [.] R ",
        "   a  b  c  d  e  f  g  h ",
        "( ) model: e4xd5, O-O",
        "[ ] engine: O-O",
    ]


def test_black_sits_at_the_bottom_when_it_moves():
    lines = board_text(
        "r3k3/8/8/8/8/8/8/4K3 b - - 0 1", {"a": ["a8a1"], "b": ["a8b8"]}
    ).splitlines()
    assert lines[0] == "1  .  .  . " + " K " + " .  .  . (.)"
    assert lines[7] == "8  .  .  .  k  .  . [.]{r}"  # a8 belongs to both first choices
    assert lines[8].split() == list("hgfedcba")
    assert lines[-1] == "{ } more than one of them"


def test_features_serve_as_a_position():
    row = move_features(POSITION, ["e4d5"])[0]
    assert board_text(row) == board_text(POSITION)


@pytest.mark.parametrize(
    ("position", "move", "expected"),
    [
        (POSITION, "e1c1", "O-O-O"),
        (POSITION, "a1a8", "Ra1xa8"),
        (POSITION, "h1h7", "Rh1-h7"),
        (POSITION, "e4e5", "e4-e5"),
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1", "e5d6", "e5xd6"),
        ("4k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a7a8q", "a7-a8=Q"),
    ],
)
def test_moves_are_told_with_their_piece(position, move, expected):
    assert move_text(position, move) == expected


def test_the_picture_is_a_document_with_a_glyph_per_piece_and_an_arrow_per_move():
    marks = {"model <1>": ["e4d5", "e4e5"], "engine": ["e1g1"]}
    root = ElementTree.fromstring(board_svg(POSITION, marks, title="White & Black"))
    assert len(root.findall(f".//{SVG}polygon")) == 3
    texts = [element.text for element in root.iter(f"{SVG}text")]
    pieces = [text for text in texts if text and text[0] in "♟♞♝♜♛♚"]
    assert len(pieces) == 7
    assert "White & Black" in texts
    assert "model <1>: e4xd5, e4-e5" in texts
    assert len([r for r in root.iter(f"{SVG}rect") if r.get("width") == "48"]) == 64


def test_an_arrow_points_from_square_to_square():
    root = ElementTree.fromstring(board_svg(POSITION, {"model": ["a1a8"]}))
    (arrow,) = root.iter(f"{SVG}polygon")
    points = [tuple(map(float, point.split(","))) for point in arrow.get("points").split()]
    # a1 is the lower left square of 48 pixels: middle (24, 360); a8 the upper left: middle (24, 24).
    tip = min(points, key=lambda point: point[1])
    assert tip == (24.0, 30.0)  # 6 pixels short of the middle
    assert max(y for _, y in points) == 350.0  # 10 pixels from the middle of a1


def test_bad_input_is_named():
    with pytest.raises(ParameterError, match="4 names; a board shows at most 3"):
        board_text(POSITION, {name: ["e4e5"] for name in "abcd"})
    with pytest.raises(DataError, match="'castles' is not a move"):
        board_svg(POSITION, {"model": ["castles"]})
    with pytest.raises(DataError, match="'nonsense' is not a position"):
        board_text("nonsense")


def test_a_mark_without_moves_is_drawn_as_such():
    assert board_text(POSITION, {"model": []}).endswith("( ) model: ")
