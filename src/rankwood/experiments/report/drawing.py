"""A chart as shapes, before it is SVG or PNG, and the scales that map values to positions on it.

Terms
    role      what a shape is for: ``grid``, ``ink``, ``series0`` …; the page's style sheet or a palette colours it
    position  x or y in pixels, from the upper left corner
    index     the number of an algorithm in the run, which gives its colour, mark and dashes
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

N_COLOURS = 8
SHAPES = ("circle", "square", "triangle", "diamond", "plus", "cross", "wedge")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4")
SIZE = 12.0  # of text
# Widths of letters in sizes, those of a wide sans-serif type: a label may be narrower than its room, not wider.
_NARROW_LETTERS, _WIDE_LETTERS = frozenset("fijlrtI.,:;|!'()[] "), frozenset("mwMW%@")


@dataclass(frozen=True)
class Line:
    """Points joined in their order; closed and filled if ``is_filled``."""

    points: tuple[tuple[float, float], ...]
    role: str
    width: float = 1.0
    dash: str = ""
    is_filled: bool = False


@dataclass(frozen=True)
class Box:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    role: str


@dataclass(frozen=True)
class Mark:
    """A sign that stands for one value; ``hint`` is shown when it is pointed at."""

    x: float
    y: float
    shape: str
    role: str
    size: float = 5.0  # half of its width
    is_filled: bool = True
    hint: str = ""


@dataclass(frozen=True)
class Text:
    """A line of text; ``anchor`` says which part of it is at x: start, middle, end."""

    x: float
    y: float  # of the baseline
    text: str
    anchor: str = "start"
    role: str = "ink"
    size: float = SIZE
    is_bold: bool = False


Shape = Line | Box | Mark | Text


@dataclass
class Drawing:
    """Shapes on a sheet, the last on top, with a title and a description for those who cannot see it."""

    width: float
    height: float
    title: str
    description: str
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        """Put shapes on top."""
        self.shapes.extend(shapes)

    def line(self, x1: float, y1: float, x2: float, y2: float, role: str, **style: Any) -> None:
        """Add a straight line."""
        self.add(Line(((x1, y1), (x2, y2)), role, **style))

    def text(self, x: float, y: float, text: str, anchor: str = "start", **style: Any) -> None:
        """Add a line of text."""
        self.add(Text(x, y, text, anchor, **style))

    def paste(self, other: Drawing, x: float, y: float) -> None:
        """Add the shapes of another drawing, its upper left corner at (x, y)."""
        self.add(*(_moved(shape, x, y) for shape in other.shapes))


def _moved(shape: Shape, x: float, y: float) -> Shape:
    if isinstance(shape, Line):
        return replace(shape, points=tuple((px + x, py + y) for px, py in shape.points))
    return replace(shape, x=shape.x + x, y=shape.y + y)


def series(index: int) -> str:
    """The role of an algorithm."""
    return f"series{index % N_COLOURS}"


def shape_of(index: int) -> str:
    """The mark of an algorithm; colour and mark together differ for 56 of them."""
    return SHAPES[index % len(SHAPES)]


def dash_of(index: int) -> str:
    """The dashes of an algorithm's line."""
    return DASHES[index % len(DASHES)]


def width_of(text: str, size: float = SIZE) -> float:
    """About how wide a text is drawn, in bold."""
    return sum(map(_width_of_letter, text)) * size * 1.06


def _width_of_letter(letter: str) -> float:
    if letter in _NARROW_LETTERS:
        return 0.38
    if letter in _WIDE_LETTERS or unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    return 0.72 if letter.isupper() else 0.63


def widest(texts: Iterable[str], size: float = SIZE) -> float:
    """About how wide the widest text is drawn."""
    return max((width_of(text, size) for text in texts), default=0.0)


def shorten(text: str, most: int = 28) -> str:
    """A text of at most ``most`` letters, its middle left out."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[-tail:]}"


@dataclass(frozen=True)
class Scale:
    """Maps values between ``low`` and ``high`` to positions between ``start`` and ``end``."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """The position of a value."""
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        share = (value - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values inside the range, about as many as fit."""
        return log_ticks(self) if self.is_log else linear_ticks(self.low, self.high, most)


def value_range(values: Iterable[float], margin: float = 0.06) -> tuple[float, float]:
    """The range of the finite values with some room at both ends; never empty."""
    finite = [float(value) for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    room = (high - low) * margin or abs(low) * margin or 0.5
    return low - room, high + room


def log_range(values: Iterable[float]) -> tuple[float, float]:
    """The range of the positive values, with room that suits a logarithmic scale."""
    positive = [float(value) for value in values if math.isfinite(value) and value > 0.0]
    if not positive:
        return 0.1, 10.0
    low, high = min(positive), max(positive)
    room = max((high / low) ** 0.12, 1.4)
    return low / room, high * room


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(multiple * step, 12) for multiple in range(first, last + 1)]


def log_ticks(scale: Scale) -> list[float]:
    """Powers of ten; 2 and 5 times them too where there are few."""
    first, last = math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high))
    factors = (1.0, 2.0, 5.0) if last - first <= 3 else (1.0,)
    ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    return [tick for tick in ticks if scale.low <= tick <= scale.high]


def tick_text(value: float) -> str:
    """The text of a tick, without superfluous digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"


def spread(positions: list[float], gap: float, low: float, high: float) -> list[float]:
    """Positions moved as little as needed: ``gap`` apart, and all within ``low`` … ``high`` if they fit."""
    order = np.argsort(positions, kind="stable")
    moved = np.array(positions, float)[order]
    for index in range(1, moved.size):
        moved[index] = max(moved[index], moved[index - 1] + gap)
    if moved.size and moved[-1] > high:
        moved[-1] = high
        for index in range(moved.size - 2, -1, -1):
            moved[index] = min(moved[index], moved[index + 1] - gap)
    if moved.size and moved[0] < low:
        moved += low - moved[0]
    result = np.empty_like(moved)
    result[order] = moved
    return [float(position) for position in result]
