"""Stacked bars, drawn by matplotlib, which the extra ``report`` brings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from rankwood.errors import MissingExtra

_COLOURS = ("#4878a8", "#e49444", "#6a9f58", "#a87c9f")
_INCHES_PER_BAR = 0.45

PLOTS = (".png", ".svg", ".pdf")  # what a plot's file may end in


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

    figure = Figure(figsize=(7.5, 1.3 + _INCHES_PER_BAR * len(names)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    ends = [0.0] * len(names)
    for colour, (part, lengths) in zip(_COLOURS, parts.items(), strict=False):
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
