"""Drawings as SVG and PNG.

On the page the style sheet gives the colours of an SVG, in a file of its own the palette does. PNG are drawn by
matplotlib, which the extra ``report`` brings.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rankwood.evaluation.plots import add_circle, new_figure
from rankwood.experiments.report.drawing import Box, Drawing, Line, Mark, Shape, Text
from rankwood.experiments.report.html import Markup, element, escape

FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Helvetica, Arial, sans-serif"
)
Paint = Callable[[str], dict[str, str]]
_DOTS_PER_INCH = 96  # a pixel of the drawing is a pixel of CSS
_POINTS = 72 / _DOTS_PER_INCH
_SHARPNESS = 2  # pixels of the file per pixel of the drawing
_NARROWER = 0.92  # matplotlib's own type is wider than those of browsers
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}
# Colours of roles in SVG and PNG files; those of the page are in report.css.
PAPER = "#ffffff"
COLOURS = {
    "ink": "#1d2521",
    "muted": "#5d6a63",
    "grid": "#e2e6e2",
    "axis": "#9aa69f",
    "paper": PAPER,
    "accent": "#17694f",
    "better": "#1f7a5c",
    "worse": "#b4512a",
    "series0": "#17694f",
    "series1": "#b4512a",
    "series2": "#2f5fa8",
    "series3": "#8a6200",
    "series4": "#7b3f8c",
    "series5": "#0f7a8a",
    "series6": "#a8324a",
    "series7": "#55606b",
}


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
        ("M" if index == 0 else "L") + f"{_number(x)} {_number(y)}" + (closing if is_last else "")
        for stroke, closing in outline(mark)
        for index, (x, y, is_last) in enumerate(stroke)
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
                (x + dx * size, y + dy * size, index == len(stroke) - 1)
                for index, (dx, dy) in enumerate(stroke)
            ],
            closing,
        )
        for stroke in strokes[mark.shape]
    ]


def write_png(drawing: Drawing, path: Path) -> None:
    """The drawing on white paper, two dots per pixel; its description is kept in the file."""
    size = (drawing.width / _DOTS_PER_INCH, drawing.height / _DOTS_PER_INCH)
    figure = new_figure(*size, facecolor=PAPER)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.axis("off")
    for order, shape in enumerate(drawing.shapes):
        _draw(axes, shape, order)
    about = {"Title": drawing.title, "Description": drawing.description, "Software": "Rankwood"}
    latin = {
        key: text.encode("latin-1", "replace").decode("latin-1") for key, text in about.items()
    }
    with warnings.catch_warnings():
        # A name may have letters that the font lacks; they are drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(path, format="png", dpi=_DOTS_PER_INCH * _SHARPNESS, metadata=latin)


def _draw(axes: Any, shape: Shape, order: int) -> None:
    colour = COLOURS[shape.role]
    if isinstance(shape, Text):
        # Dollar signs are escaped, since matplotlib would take them for the start of a formula.
        axes.text(
            shape.x,
            shape.y,
            shape.text,
            ha=_ANCHORS[shape.anchor],
            va="baseline",
            color=colour,
            fontsize=shape.size * _POINTS * _NARROWER,
            fontweight="bold" if shape.is_bold else "normal",
            parse_math=False,
            zorder=order,
        )
    elif isinstance(shape, Line):
        _draw_line(axes, shape, colour, order)
    elif isinstance(shape, Box):
        x, y, right, low = shape.x, shape.y, shape.x + shape.width, shape.y + shape.height
        axes.fill([x, right, right, x], [y, y, low, low], color=colour, lw=0, zorder=order)
    else:
        _draw_mark(axes, shape, colour, order)


def _draw_line(axes: Any, line: Line, colour: str, order: int) -> None:
    across, down = zip(*line.points, strict=True)
    if line.is_filled:
        axes.fill(across, down, color=colour, lw=0, zorder=order)
        return
    dashes = tuple(float(length) / line.width for length in line.dash.split())
    style: Any = (0, dashes) if dashes else "-"
    axes.plot(across, down, color=colour, lw=line.width * _POINTS, ls=style, zorder=order)


def _draw_mark(axes: Any, mark: Mark, colour: str, order: int) -> None:
    inside = colour if mark.is_filled else PAPER
    width = 1.8 * _POINTS
    if mark.shape == "circle":
        style = {"fc": inside, "ec": colour, "lw": width, "zorder": order}
        add_circle(axes, (mark.x, mark.y), mark.size, **style)
    for stroke, closing in outline(mark):
        across, down = [x for x, _, _ in stroke], [y for _, y, _ in stroke]
        if closing:
            axes.fill(across, down, fc=inside, ec=colour, lw=width, zorder=order)
        else:
            axes.plot(across, down, color=colour, lw=width, zorder=order)
