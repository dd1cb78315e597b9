"""Pictures of explanations, by matplotlib, which the extra ``report`` brings; readable without colour.

Parts that raise a score are filled, parts that lower it are hatched, and each has its number beside it with a sign.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwood._core import random as _random
from rankwood._core.files import PLOTS, atomic_path, explained_writing
from rankwood.dtypes import Array, Features, Floats
from rankwood.errors import DataError, MissingExtra, ParameterError

_RAISES, _LOWERS, _PLAIN = "#0b5394", "#e69138", "#555555"
_INCHES_PER_BAR = 0.34
_MOST_POINTS = 400  # documents drawn per feature; more would hide each other


def refuse_other_plots(path: str | os.PathLike[str]) -> None:
    """Raise unless the path ends as a plot does."""
    if Path(path).suffix.lower() not in PLOTS:
        raise ParameterError(
            f"{os.fspath(path)}: a plot must end in .png, .svg or .pdf, which say its format."
        )


def waterfall(
    path: str | os.PathLike[str],
    steps: Sequence[tuple[str, float]],
    ends: tuple[tuple[str, float], tuple[str, float]],
    title: str,
) -> None:
    """Steps that lead from one number to another, top to bottom."""
    (first, start), (last, end) = ends
    figure, axes = _figure(len(steps) + 2)
    at = start
    for place, (_, length) in enumerate(steps, 1):
        raises = length >= 0
        axes.barh(
            place,
            length,
            left=at,
            height=0.7,
            color=_RAISES if raises else "white",
            edgecolor=_RAISES if raises else _LOWERS,
            hatch=None if raises else "////",
        )
        at += length
        axes.plot([at, at], [place - 0.35, place + 1.35], color=_PLAIN, linewidth=0.6)
        axes.text(max(at, at - length), place, f" {length:+.4g}", va="center", fontsize=8)
    for place, number in ((0, start), (len(steps) + 1, end)):
        axes.plot(number, place, "D", color=_PLAIN, markersize=5)
        axes.text(number, place, f"   {_plain(number)}", va="center", fontsize=8)
    axes.set_yticks(range(len(steps) + 2), [first, *(name for name, _ in steps), last])
    axes.set_xlabel("score")
    _finish(figure, axes, path, title)


def bars(
    path: str | os.PathLike[str],
    names: Sequence[str],
    lengths: Sequence[float],
    intervals: Sequence[tuple[float, float]] | None,
    axis: str,
) -> None:
    """A bar per name, with its interval as a line if there is one."""
    figure, axes = _figure(len(names))
    axes.barh(range(len(names)), lengths, color=_RAISES, height=0.7)
    for place, length in enumerate(lengths):
        right = length
        if intervals is not None and not np.isnan(intervals[place]).any():
            low, right = intervals[place]
            axes.plot([low, right], [place, place], color="black", linewidth=1.2, marker="|")
        axes.text(max(length, right, 0.0), place, f"  {length:.4g}", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel(axis)
    _finish(figure, axes, path, "")


def strips(
    path: str | os.PathLike[str], names: Sequence[str], parts: Floats, values: Features
) -> None:
    """A strip per name with a mark per document (rows of ``parts``): what its value adds to the score.

    Hollow marks are values up to the name's median, filled ones above it, crosses missing ones.
    """
    figure, axes = _figure(len(names))
    random = _random.stream(0, "strips")
    rows = np.sort(random.permutation(len(parts))[:_MOST_POINTS])
    heights = random.uniform(-0.28, 0.28, rows.size)
    for place in range(len(names)):
        of_rows = values[rows, place]
        is_known = ~np.isnan(of_rows)
        middle = np.median(values[:, place][~np.isnan(values[:, place])]) if is_known.any() else 0.0
        for chosen, style in (
            (is_known & (of_rows <= middle), {"marker": "o", "facecolors": "none"}),
            (is_known & (of_rows > middle), {"marker": "s"}),
            (~is_known, {"marker": "x"}),
        ):
            at = parts[rows[chosen], place]
            colour = {"color": _RAISES} if style["marker"] != "o" else {"edgecolors": _LOWERS}
            axes.scatter(at, place + heights[chosen], s=11, linewidths=0.7, **style, **colour)
    axes.axvline(0, color=_PLAIN, linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("contribution   (○ value up to its median, ■ above it, × missing)")
    _finish(figure, axes, path, "")


def _plain(number: float) -> str:
    """Four digits; what rounding has left of 0 is 0."""
    return f"{number:.4g}" if abs(number) > 1e-12 else "0"


def _figure(n_bars: int) -> tuple[Any, Any]:
    refuse_without_matplotlib()
    # Not pyplot: it has a state, and may look for a screen.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 1.2 + _INCHES_PER_BAR * max(1, n_bars)), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _finish(figure: Any, axes: Any, path: str | os.PathLike[str], title: str) -> None:
    """Write the figure; the same figure gives the same bytes."""
    import matplotlib

    refuse_other_plots(path)
    axes.invert_yaxis()  # the first at the top
    axes.use_sticky_edges = False  # numbers beside the outermost bars need room
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    if title:
        axes.set_title(title, loc="left", fontsize=10)
    kind = Path(path).suffix.lower().lstrip(".")
    undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with (
        matplotlib.rc_context({"svg.hashsalt": "rankwood"}),
        explained_writing(path),
        atomic_path(path) as temporary,
    ):
        figure.savefig(temporary, format=kind, dpi=150, metadata=undated)


# Lines over an axis, told apart by dashes and markers as well as by colour; drawn by matplotlib (extra ``report``).


_LINE_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#000000",
)  # Okabe and Ito
_MARKERS = "os^Dv<>"
_DASHES = ("-", "--", ":", "-.")
_MOST_MARKERS = 15  # on a line


@dataclass(frozen=True, eq=False)
class PlotLine:
    """Values over an axis, perhaps with a band around them; lines of one group share their colour."""

    x: Array
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    group: int = 0
    dashes: int = 0


def line_plot(
    path: str | os.PathLike[str], lines: Mapping[str, PlotLine], x_label: str, y_label: str
) -> None:
    """Draw the lines to a file whose name says its kind: .png, .svg or .pdf."""
    refuse_without_matplotlib()
    import matplotlib as mpl

    # Not pyplot: it has a state, and may look for a screen.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in canvas.get_supported_filetypes():
        raise DataError(f"{os.fspath(path)} must end in .png, .svg or .pdf: it is to be a plot.")
    axes = figure.add_subplot()
    for label, line in lines.items():
        colour = _LINE_COLOURS[line.group % len(_LINE_COLOURS)]
        axes.plot(
            line.x,
            line.y,
            label=label,
            color=colour,
            linestyle=_DASHES[line.dashes % len(_DASHES)],
            marker=_MARKERS[line.group % len(_MARKERS)],
            markevery=max(1, line.x.size // _MOST_MARKERS),
            markersize=4,
        )
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, handlelength=4)  # long enough to tell dashes
    steady = {"svg.hashsalt": "rankwood"}  # the same lines give the same bytes
    with mpl.rc_context(steady), explained_writing(path), atomic_path(path) as temporary:
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(temporary, format=kind, dpi=150, metadata=metadata)


# Stacked bars, drawn by matplotlib, which the extra ``report`` brings.


_STACK_COLOURS = ("#4878a8", "#e49444", "#6a9f58", "#a87c9f")
_INCHES_PER_STACK = 0.45


def stacked_bars(
    path: str | os.PathLike[str],
    names: Sequence[str],
    parts: Mapping[str, Sequence[float]],
    axis: str,
) -> None:
    """One bar per name, made of its parts from left to right; what they sum to stands at the end."""
    refuse_without_matplotlib()
    # Not pyplot: it has a state, and may look for a screen.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 1.3 + _INCHES_PER_STACK * len(names)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    ends = [0.0] * len(names)
    for colour, (part, lengths) in zip(_STACK_COLOURS, parts.items(), strict=False):
        axes.barh(range(len(names)), lengths, left=ends, color=colour, label=part, height=0.7)
        ends = [end + length for end, length in zip(ends, lengths, strict=True)]
    for place, end in enumerate(ends):
        axes.text(end, place, f" {end:.4f}", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()  # the first at the top
    axes.set_xlabel(axis)
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=len(parts), frameon=False)
    figure.savefig(os.fspath(path), dpi=150)


def refuse_without_matplotlib() -> None:
    """Raise where there is nothing to draw with."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("matplotlib", "report", "A plot") from None
