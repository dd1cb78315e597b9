"""Every plot of the package, drawn by matplotlib, which the extra ``report`` installs.

The functions ``waterfall``, ``bars``, ``strips``, ``stacked_bars``, ``effect_plot``, ``line_plot`` and ``plot_history``
each write one file whose ending names its format. They share ``new_figure`` and ``save_figure``, so that a plot needs
no screen and the same numbers give the same bytes. Plots are readable without colour: filled or hatched bars, markers
and dashes differ too.

matplotlib is imported when a plot is drawn, never when this module is imported.
"""

from __future__ import annotations

import importlib.util
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
_STACK_COLOURS = ("#4878a8", "#e49444", "#6a9f58", "#a87c9f")
_INCHES_PER_STACK = 0.45
_LINE_COLOURS = (  # Okabe and Ito
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#56b4e9", "#e69f00", "#000000"),
)
_MARKERS = "os^Dv<>"
_DASHES = ("-", "--", ":", "-.")
_MOST_MARKERS = 15  # on a line
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # metadata by format


def has_matplotlib() -> bool:
    """Whether matplotlib is installed; it is not imported."""
    return importlib.util.find_spec("matplotlib") is not None


def refuse_without_matplotlib(purpose: str = "A plot") -> None:
    """Raise ``MissingExtra`` where matplotlib is not installed; ``purpose`` begins the message."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("matplotlib", "report", purpose) from None


def refuse_other_plots(path: str | os.PathLike[str]) -> None:
    """Raise unless the path ends as a plot does."""
    if Path(path).suffix.lower() not in PLOTS:
        raise ParameterError(
            f"{os.fspath(path)}: a plot must end in .png, .svg or .pdf, which say its format."
        )


def plot_format(path: str | os.PathLike[str]) -> str:
    """The format that the ending of a path names, such as "png"; "" without an ending."""
    return Path(path).suffix.lstrip(".").lower()


def known_formats(purpose: str = "A plot") -> list[str]:
    """The formats that the installed matplotlib writes."""
    refuse_without_matplotlib(purpose)
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    return sorted(FigureCanvasAgg.get_supported_filetypes())


def new_figure(width: float, height: float, **options: Any) -> Any:
    """An empty figure of so many inches. It is not made by pyplot, which has global state and may need a screen."""
    refuse_without_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), **options)
    FigureCanvasAgg(figure)
    return figure


def add_circle(axes: Any, middle: tuple[float, float], radius: float, **style: Any) -> None:
    """Draw a circle, in the units of the axes."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle(middle, radius, **style))


def save_figure(figure: Any, path: str | os.PathLike[str], kind: str) -> None:
    """Write the figure in a format; the same figure gives the same bytes, and the file appears when it is complete."""
    import matplotlib

    with (
        matplotlib.rc_context({"svg.hashsalt": "rankwood"}),
        explained_writing(path),
        atomic_path(path) as temporary,
    ):
        figure.savefig(temporary, format=kind, dpi=150, metadata=_UNDATED.get(kind))


def waterfall(
    path: str | os.PathLike[str],
    steps: Sequence[tuple[str, float]],
    start: tuple[str, float],
    end: tuple[str, float],
    title: str,
) -> None:
    """Draw named steps that lead from one named number to another, top to bottom.

    Steps that raise the number are filled, those that lower it are hatched.
    """
    figure, axes = _bar_figure(len(steps) + 2)
    at = start[1]
    for row, (_, length) in enumerate(steps, 1):
        raises = length >= 0
        axes.barh(
            row,
            length,
            left=at,
            height=0.7,
            color=_RAISES if raises else "white",
            edgecolor=_RAISES if raises else _LOWERS,
            hatch=None if raises else "////",
        )
        at += length
        axes.plot([at, at], [row - 0.35, row + 1.35], color=_PLAIN, linewidth=0.6)
        axes.text(max(at, at - length), row, f" {length:+.4g}", va="center", fontsize=8)
    for row, number in ((0, start[1]), (len(steps) + 1, end[1])):
        axes.plot(number, row, "D", color=_PLAIN, markersize=5)
        axes.text(number, row, f"   {_plain(number)}", va="center", fontsize=8)
    axes.set_yticks(range(len(steps) + 2), [start[0], *(name for name, _ in steps), end[0]])
    axes.set_xlabel("score")
    _save_bars(figure, axes, path, title)


def bars(
    path: str | os.PathLike[str],
    names: Sequence[str],
    lengths: Sequence[float],
    intervals: Sequence[tuple[float, float]] | None,
    axis: str,
) -> None:
    """Draw a bar per name, and its interval, if there is one, as a line."""
    figure, axes = _bar_figure(len(names))
    axes.barh(range(len(names)), lengths, color=_RAISES, height=0.7)
    for row, length in enumerate(lengths):
        right = length
        if intervals is not None and not np.isnan(intervals[row]).any():
            low, right = intervals[row]
            axes.plot([low, right], [row, row], color="black", linewidth=1.2, marker="|")
        axes.text(max(length, right, 0.0), row, f"  {length:.4g}", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel(axis)
    _save_bars(figure, axes, path, "")


def strips(
    path: str | os.PathLike[str], names: Sequence[str], parts: Floats, values: Features
) -> None:
    """Draw a strip per feature with a mark per document, at the feature's contribution to the document's score.

    ``parts`` and ``values`` are documents × features. Hollow marks are values up to the feature's median, filled ones
    values above it, crosses missing values.
    """
    figure, axes = _bar_figure(len(names))
    random = _random.stream(0, "strips")
    rows = np.sort(random.permutation(len(parts))[:_MOST_POINTS])
    heights = random.uniform(-0.28, 0.28, rows.size)
    for feature in range(len(names)):
        of_rows, column = values[rows, feature], values[:, feature]
        is_known = ~np.isnan(of_rows)
        median = np.median(column[~np.isnan(column)]) if is_known.any() else 0.0
        for chosen, style in (
            (is_known & (of_rows <= median), {"marker": "o", "facecolors": "none"}),
            (is_known & (of_rows > median), {"marker": "s"}),
            (~is_known, {"marker": "x"}),
        ):
            at = parts[rows[chosen], feature]
            colour = {"color": _RAISES} if style["marker"] != "o" else {"edgecolors": _LOWERS}
            axes.scatter(at, feature + heights[chosen], s=11, linewidths=0.7, **style, **colour)
    axes.axvline(0, color=_PLAIN, linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("contribution   (○ value up to its median, ■ above it, × missing)")
    _save_bars(figure, axes, path, "")


def _plain(number: float) -> str:
    """Four digits; a rounding error around 0 is shown as 0."""
    return f"{number:.4g}" if abs(number) > 1e-12 else "0"


def _bar_figure(n_bars: int) -> tuple[Any, Any]:
    figure = new_figure(7.5, 1.2 + _INCHES_PER_BAR * max(1, n_bars), layout="constrained")
    return figure, figure.add_subplot()


def _save_bars(figure: Any, axes: Any, path: str | os.PathLike[str], title: str) -> None:
    """Finish and write a figure of horizontal bars or strips."""
    refuse_other_plots(path)
    axes.invert_yaxis()  # the first at the top
    axes.use_sticky_edges = False  # numbers beside the outermost bars need room
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    if title:
        axes.set_title(title, loc="left", fontsize=10)
    save_figure(figure, path, plot_format(path))


def stacked_bars(
    path: str | os.PathLike[str],
    names: Sequence[str],
    parts: Mapping[str, Sequence[float]],
    axis: str,
) -> None:
    """Draw a bar per name, made of its parts from left to right, with their sum at its end."""
    figure = new_figure(7.5, 1.3 + _INCHES_PER_STACK * len(names), layout="constrained")
    refuse_other_plots(path)
    axes = figure.add_subplot()
    ends = [0.0] * len(names)
    for colour, (part, lengths) in zip(_STACK_COLOURS, parts.items(), strict=False):
        axes.barh(range(len(names)), lengths, left=ends, color=colour, label=part, height=0.7)
        ends = [end + length for end, length in zip(ends, lengths, strict=True)]
    for row, end in enumerate(ends):
        axes.text(end, row, f" {end:.4f}", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()  # the first at the top
    axes.set_xlabel(axis)
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=len(parts), frameon=False)
    save_figure(figure, path, plot_format(path))


def effect_plot(
    path: str | os.PathLike[str],
    effects: Sequence[tuple[str, float, tuple[float, float]]],
    shares: Sequence[tuple[str, float, str]],
    axis: str,
) -> None:
    """Draw effects with their intervals, and below them shares of variation, each with a text.

    A dot is filled where the interval excludes 0, and hollow elsewhere; an effect without an interval is a cross.
    """
    refuse_other_plots(path)
    figure = new_figure(8.0, 1.8 + 0.28 * (len(effects) + len(shares)), layout="constrained")
    upper, lower = figure.subplots(2, 1, height_ratios=(len(effects), len(shares)))
    upper.axvline(0, color=_PLAIN, linewidth=0.8)
    for row, (_, value, (low, high)) in enumerate(effects):
        upper.plot([low, high], [row, row], color=_RAISES, linewidth=1.4)
        marker = "x" if np.isnan(low) else "o"
        fill = _RAISES if low > 0.0 or high < 0.0 else "white"
        upper.plot(value, row, marker, color=_RAISES, markerfacecolor=fill, markersize=5)
    upper.locator_params(axis="x", nbins=6)
    upper.set_xlabel(axis)
    upper.grid(axis="x", alpha=0.3)
    percents = [0.0 if np.isnan(share) else 100 * share for _, share, _ in shares]
    lower.barh(range(len(shares)), percents, color=_PLAIN, height=0.7)
    for row, percent in enumerate(percents):
        lower.text(percent, row, f"  {percent:.1f} %   {shares[row][2]}", va="center", fontsize=8)
    lower.set_xlim(0, 130)  # room for the texts
    lower.set_xticks(range(0, 101, 25))
    lower.set_xlabel("share of variation (η²), %")
    for axes, rows in ((upper, effects), (lower, shares)):
        axes.set_yticks(range(len(rows)), [str(row[0]) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)  # the first at the top
        axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path, plot_format(path))


@dataclass(frozen=True, eq=False)
class PlotLine:
    """Values over an axis, perhaps with a band around them.

    Lines of one ``group`` share their colour and marker, lines of one number of ``dashes`` their style. ``steps`` holds
    each value until the next point.
    """

    x: Array
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    group: int = 0
    dashes: int = 0
    steps: bool = False


def line_plot(
    path: str | os.PathLike[str],
    lines: Mapping[str, PlotLine],
    x_label: str,
    y_label: str,
    *,
    kind: str | None = None,
    x_scale: str = "linear",
    bands: str = "",
) -> None:
    """Draw lines over an axis; ``kind`` is the format, by default the one that the path's ending names.

    ``bands`` says what the bands are, if there are any.
    """
    kind = plot_format(path) if kind is None else kind
    if kind not in known_formats():
        raise DataError(f"{os.fspath(path)} must end in .png, .svg or .pdf: it is to be a plot.")
    longest = max(map(len, lines), default=0)
    figure = new_figure(7.5 + 0.075 * min(longest, 40), 4.8, layout="constrained")
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
            drawstyle="steps-post" if line.steps else "default",
        )
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    axes.set_xscale(x_scale)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    # Beside the curves, where it hides none of them; handles long enough to show dashes.
    has_bands = any(line.low is not None for line in lines.values())
    figure.legend(
        loc="outside right upper",
        fontsize=8,
        frameon=False,
        handlelength=4,
        title=bands if has_bands else None,
        title_fontsize=8,
    )
    save_figure(figure, path, kind)


def plot_history(model: Any, path: str | os.PathLike[str]) -> None:
    """Draw what ``history_`` of a fitted ranker holds: a line per validation set and measure, over the rounds.

    Lines of one measure share their colour, lines of one set their dashes.
    """
    history = getattr(model, "history_", None)
    if not history:
        raise DataError(
            f"this {type(model).__name__} has no history: fit it with validation data, valid=."
        )
    if not isinstance(history, Mapping):
        if isinstance(history[0], Mapping):
            raise DataError(
                f"the history of {type(model).__name__} is a record per round, not a line."
            )
        history = {"valid": {str(model.measure): history}}
    measures = list(dict.fromkeys(name for of_set in history.values() for name in of_set))
    lines = {
        f"{name}: {measure}": PlotLine(
            np.arange(1, len(values) + 1),
            np.array(values, np.float64),
            group=measures.index(measure),
            dashes=number,
        )
        for number, (name, of_set) in enumerate(history.items())
        for measure, values in of_set.items()
    }
    line_plot(path, lines, "rounds", measures[0] if len(measures) == 1 else "measure")
