"""Lines over an axis, told apart by dashes and markers as well as by colour; drawn by matplotlib (extra ``report``)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rankwood._files import atomic_path, explained_writing
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataError
from rankwood.evaluation.stacked_bars import refuse_without_matplotlib

_COLOURS = (
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
class Line:
    """Values over an axis, perhaps with a band around them; lines of one group share their colour."""

    x: Array
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    group: int = 0
    dashes: int = 0


def line_plot(
    path: str | os.PathLike[str], lines: Mapping[str, Line], x_label: str, y_label: str
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
        colour = _COLOURS[line.group % len(_COLOURS)]
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
