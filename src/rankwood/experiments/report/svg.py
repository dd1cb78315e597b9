"""Drawings as SVG: coloured by the page's style sheet inside it, by the palette in a file of their own."""

from __future__ import annotations

import math
from collections.abc import Callable

from rankwood.experiments.report.drawing import Box, Drawing, Line, Mark, Shape, Text
from rankwood.experiments.report.markup import Markup, element, escape
from rankwood.experiments.report.palette import COLOURS, PAPER

FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Helvetica, Arial, sans-serif"
)
Paint = Callable[[str], dict[str, str]]


def inline_svg(drawing: Drawing, identifier: str, class_: str = "") -> Markup:
    """The drawing for the page; a reader who cannot see it hears its title and description."""
    names = f"{identifier}-title {identifier}-text"
    return element(
        "svg",
        element("title", drawing.title, id=f"{identifier}-title"),
        element("desc", drawing.description, id=f"{identifier}-text"),
        *(_shape(shape, _page_paint) for shape in drawing.shapes),
        role="img",
        aria_labelledby=names,
        class_=class_ or None,
        viewBox=f"0 0 {_number(drawing.width)} {_number(drawing.height)}",
        width=_number(drawing.width),
        height=_number(drawing.height),
    )


def svg_file(drawing: Drawing) -> str:
    """The drawing as a file of its own, on white paper."""
    width, height = _number(drawing.width), _number(drawing.height)
    body = element(
        "svg",
        element("title", drawing.title),
        element("desc", drawing.description),
        element("rect", width=width, height=height, fill=PAPER),
        *(_shape(shape, _file_paint) for shape in drawing.shapes),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        font_family=FONT,
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _page_paint(role: str) -> dict[str, str]:
    return {"colour": "currentColor", "class_": f"c-{role}"}


def _file_paint(role: str) -> dict[str, str]:
    return {"colour": COLOURS[role]}


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"


def _shape(shape: Shape, paint: Paint) -> Markup:
    style = paint(shape.role)
    colour = style.pop("colour")
    if isinstance(shape, Line):
        return _line(shape, colour, style)
    if isinstance(shape, Box):
        return element(
            "rect",
            x=_number(shape.x),
            y=_number(shape.y),
            width=_number(shape.width),
            height=_number(shape.height),
            fill=colour,
            **style,
        )
    return _mark(shape, colour, style) if isinstance(shape, Mark) else _text(shape, colour, style)


def _line(line: Line, colour: str, style: dict[str, str]) -> Markup:
    points = " ".join(f"{_number(x)},{_number(y)}" for x, y in line.points)
    if line.is_filled:
        return element("polygon", points=points, fill=colour, **style)
    return element(
        "polyline",
        points=points,
        fill="none",
        stroke=colour,
        stroke_width=_number(line.width),
        stroke_dasharray=line.dash or None,
        stroke_linejoin="round",
        **style,
    )


def _text(text: Text, colour: str, style: dict[str, str]) -> Markup:
    return element(
        "text",
        text.text,
        x=_number(text.x),
        y=_number(text.y),
        fill=colour,
        font_size=_number(text.size),
        text_anchor=None if text.anchor == "start" else text.anchor,
        font_weight="600" if text.is_bold else None,
        **style,
    )


def _mark(mark: Mark, colour: str, style: dict[str, str]) -> Markup:
    path = "".join(
        ("M" if place == 0 else "L") + f"{_number(x)} {_number(y)}" + (closing if is_last else "")
        for stroke, closing in outline(mark)
        for place, (x, y, is_last) in enumerate(stroke)
    )
    is_open = mark.shape in ("plus", "cross")
    fill = "none" if is_open else colour if mark.is_filled else PAPER
    if fill == PAPER and "class_" in style:
        style["class_"] += " hollow"  # the page's paper may be dark
    attributes = {"fill": fill, "stroke": colour, "stroke_width": "1.8", **style}
    hint = element("title", mark.hint) if mark.hint else None
    if mark.shape == "circle":
        radius = _number(mark.size)
        return element(
            "circle", hint, cx=_number(mark.x), cy=_number(mark.y), r=radius, **attributes
        )
    return element("path", hint, d=escape(path), **attributes)


def outline(mark: Mark) -> list[tuple[list[tuple[float, float, bool]], str]]:
    """The strokes of a mark: points with whether each is the last, and how the stroke is closed."""
    x, y, size = mark.x, mark.y, mark.size
    strokes: dict[str, list[list[tuple[float, float]]]] = {
        "square": [[(-1, -1), (1, -1), (1, 1), (-1, 1)]],
        "triangle": [[(0, -1.15), (1.1, 0.85), (-1.1, 0.85)]],
        "wedge": [[(0, 1.15), (1.1, -0.85), (-1.1, -0.85)]],
        "diamond": [[(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)]],
        "plus": [[(-1.1, 0), (1.1, 0)], [(0, -1.1), (0, 1.1)]],
        "cross": [[(-0.9, -0.9), (0.9, 0.9)], [(-0.9, 0.9), (0.9, -0.9)]],
        "circle": [],
    }
    closing = "" if mark.shape in ("plus", "cross") else "Z"
    return [
        (
            [
                (x + dx * size, y + dy * size, place == len(stroke) - 1)
                for place, (dx, dy) in enumerate(stroke)
            ],
            closing,
        )
        for stroke in strokes[mark.shape]
    ]
