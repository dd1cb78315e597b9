"""Drawings as PNG, by matplotlib, which the extra ``report`` brings."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

from rankwood.experiments.report.drawing import Box, Drawing, Line, Mark, Shape, Text
from rankwood.experiments.report.palette import COLOURS, PAPER
from rankwood.experiments.report.svg import outline

_DOTS_PER_INCH = 96  # a pixel of the drawing is a pixel of CSS
_POINTS = 72 / _DOTS_PER_INCH
_SHARPNESS = 2  # pixels of the file per pixel of the drawing
_NARROWER = 0.92  # matplotlib's own type is wider than those of browsers
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def has_matplotlib() -> bool:
    """Whether there is something to draw PNG with."""
    return importlib.util.find_spec("matplotlib") is not None


def write_png(drawing: Drawing, path: Path) -> None:
    """The drawing on white paper, two dots per pixel; its description is kept in the file."""
    # Not pyplot: it has a state, and may look for a screen.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = (drawing.width / _DOTS_PER_INCH, drawing.height / _DOTS_PER_INCH)
    figure = Figure(figsize=size, facecolor=PAPER)
    FigureCanvasAgg(figure)
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
        # A name may hold letters that the type lacks; a box stands for them.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(path, format="png", dpi=_DOTS_PER_INCH * _SHARPNESS, metadata=latin)


def _draw(axes: Any, shape: Shape, order: int) -> None:
    colour = COLOURS[shape.role]
    if isinstance(shape, Text):
        # A dollar sign is a sign, not the start of a formula.
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
    from matplotlib.patches import Circle

    inside = colour if mark.is_filled else PAPER
    width = 1.8 * _POINTS
    if mark.shape == "circle":
        sign = Circle((mark.x, mark.y), mark.size, fc=inside, ec=colour, lw=width, zorder=order)
        axes.add_patch(sign)
    for stroke, closing in outline(mark):
        across, down = [x for x, _, _ in stroke], [y for _, y, _ in stroke]
        if closing:
            axes.fill(across, down, fc=inside, ec=colour, lw=width, zorder=order)
        else:
            axes.plot(across, down, color=colour, lw=width, zorder=order)
