"""Pictures of an explored tree: indented text, Graphviz' DOT, SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rankwood.dtypes import Floats
from rankwood.models.explored import FREE, NO_CONSTRAINT, shown

if TYPE_CHECKING:
    from rankwood.models.explored import ExploredTree

_COLUMN, _ROW, _MARGIN = 28.0, 12.0, 20.0  # of the SVG, in pixels
_WIDEST, _HIGHEST = 1600.0, 1200.0


def as_text(tree: ExploredTree, most: int) -> str:
    """Indented lines, children under their parents in the order they were found."""
    children = _children(tree, min(len(tree), most))
    best = _best(tree)
    lines, waiting = [], [0]
    while waiting:
        model = waiting.pop()
        mark = "  ← best" if model == best else ""
        lines.append("  " * int(tree.depth[model]) + f"{_label(tree, model)}{mark}")
        waiting += reversed(children[model])
    if most < len(tree):
        lines.append(f"… and {len(tree) - most:,} more models")
    return "\n".join(lines)


def as_dot(tree: ExploredTree, most: int) -> str:
    """A digraph; the way to the best model is bold."""
    way = {0, *tree.path(_best(tree))}
    lines = ["digraph explored {", "  rankdir=LR; node [shape=box, fontsize=10];"]
    for model in range(min(len(tree), most)):
        style = ", style=bold" if model in way else ""
        lines.append(f'  {model} [label="{_label(tree, model)}"{style}];')
        if model > 0:
            lines.append(f"  {int(tree.parent[model])} -> {model};")
    return "\n".join([*lines, "}"])


def as_svg(tree: ExploredTree, most: int) -> str:
    """Hypotheses from left to right; models of the upper half of the range are darker, the best is ringed."""
    size = min(len(tree), most)
    rows, n_rows = _rows(tree, size)
    across = min(_COLUMN, _WIDEST / max(1, int(tree.depth[:size].max())))
    down = min(_ROW, _HIGHEST / max(1, n_rows))
    x = _MARGIN + across * tree.depth[:size]
    y = _MARGIN + down * rows
    width, height = float(x.max()) + _MARGIN, float(y.max()) + _MARGIN
    way = {0, *tree.path(_best(tree))}
    shade = _shades(tree, size)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}">',
        f"<title>{len(tree):,} models, the best with {int(tree.depth[_best(tree)])} hypotheses</title>",
    ]
    for model in range(1, size):
        above = int(tree.parent[model])
        colour = "#c44e52" if model in way else "#bbbbbb"
        parts.append(
            f'<line x1="{x[above]:.1f}" y1="{y[above]:.1f}" x2="{x[model]:.1f}" y2="{y[model]:.1f}" '
            f'stroke="{colour}" stroke-width="1"/>'
        )
    for model in range(size):
        ring = ' stroke="#c44e52" stroke-width="2"' if model == _best(tree) else ""
        parts.append(
            f'<circle cx="{x[model]:.1f}" cy="{y[model]:.1f}" r="3" '
            f'fill="hsl(210, 60%, {shade[model]:.0f}%)"{ring}>'
            f"<title>{_label(tree, model)}</title></circle>"
        )
    return "\n".join([*parts, "</svg>"])


def _best(tree: ExploredTree) -> int:
    """The model on the way to which the leader of the search was found: the first of the greatest f̂."""
    return int(np.argmax(tree.f_hat == tree.f_hat[_leader(tree)]))


def _leader(tree: ExploredTree) -> int:
    """A model of the best f̂: greatest, unless less is better, which f̂ falling below f of the root tells."""
    falls = bool((tree.f_hat < tree.f_hat[0]).any())
    return int(np.argmin(tree.f_hat) if falls else np.argmax(tree.f_hat))


def _label(tree: ExploredTree, model: int) -> str:
    constraint = int(tree.constraint[model])
    under = {FREE: "free", NO_CONSTRAINT: "empty"}.get(constraint, f"constraint {constraint}")
    return f"{model}: f {shown(float(tree.f[model]))}, {under}"


def _children(tree: ExploredTree, size: int) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in range(size)]
    for model in range(1, size):
        children[int(tree.parent[model])].append(model)
    return children


def _rows(tree: ExploredTree, size: int) -> tuple[Floats, int]:
    """The height of each model: leaves one below the other, a parent at the height of its first child."""
    children = _children(tree, size)
    rows = np.zeros(size)
    n_rows = 0
    waiting = [0]
    while waiting:
        model = waiting.pop()
        if children[model]:
            waiting += reversed(children[model])
        else:
            rows[model] = n_rows
            n_rows += 1
    for model in range(size - 1, -1, -1):
        if children[model]:
            rows[model] = rows[children[model][0]]
    return rows, n_rows


def _shades(tree: ExploredTree, size: int) -> list[float]:
    """Lightness in percent by f: 85 for the worst, 30 for the best."""
    f = np.nan_to_num(tree.f[:size], nan=np.nanmin(tree.f[:size]) if size else 0.0)
    spread = float(f.max() - f.min()) or 1.0
    found: list[float] = (85.0 - 55.0 * (f - f.min()) / spread).tolist()
    return found
