"""``python -m tests.architecture.import_map`` draws the import graph of the packages to ``docs/import-graph.svg``.

The graph is read from the sources with ``ast``, so that nothing is imported. A box is a package, in the order of the
layers in ``pyproject.toml``: ``_core`` at the top, the command line at the bottom. An arrow points from a package to
one that it imports; its width grows with the number of pairs (importing module, imported module). Arrows to ``_core``
and ``data``, which nearly every package imports, are drawn on the left, all others on the right.

The same sources give the same bytes: a test compares the committed drawing, and ``make map`` renews it.
"""

from __future__ import annotations

import ast
import colorsys
import math
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[2]
_PACKAGE = _ROOT / "src" / "rankwood"
TARGET = _ROOT / "docs" / "import-graph.svg"

_ON_THE_LEFT = ("_core", "data")  # packages whose incoming arrows are drawn on the left
_BOX_WIDTH, _BOX_HEIGHT, _GAP = 200, 58, 20
_MARGIN, _TOP = 16, 64  # of the drawing; the caption is at the top
_NEAREST, _PER_LAYER = 26, 19.5  # how far an arrow bulges, for one layer and for each further layer
_HUE_STEP = 137.5  # degrees between neighbouring colours: the golden angle keeps them apart
_STYLE = (
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    ".name{font-size:17px;font-weight:600;fill:#fff}.count{font-size:11.5px;fill:#fff;opacity:.82}"
    ".caption{font-size:15px;font-weight:600;fill:#7a828c}.note{font-size:12px;fill:#7a828c}"
    "path{fill:none;stroke-opacity:.72}polygon{fill-opacity:.92}"
    ".arrow:hover path{stroke-opacity:1}"
)


class Arrow(NamedTuple):
    """One package imports another, ``n_imports`` times."""

    source: str
    target: str
    n_imports: int


def layers(pyproject: Path = _ROOT / "pyproject.toml") -> list[str]:
    """The packages in the order of their layers, lowest first, as import-linter's contract lists them."""
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]
    contract = next(one for one in settings["contracts"] if one["type"] == "layers")
    names = [layer.strip("()") for layer in reversed(contract["layers"])]
    return [name for name in names if (_PACKAGE / name).is_dir()]


def imported_modules(path: Path) -> set[str]:
    """The modules of the package that a file imports, at its top or in a function; not for type checkers only."""
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_bytes())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            is_package = (_PACKAGE.parent / node.module.replace(".", "/")).is_dir()
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= submodules if is_package else {node.module}
        else:
            waiting += ast.iter_child_nodes(node)
    return {name for name in names if name.startswith(f"{_PACKAGE.name}.")}


def import_graph(packages: list[str]) -> list[Arrow]:
    """The arrows between different packages, in the order of ``packages``."""
    counts: Counter[tuple[str, str]] = Counter()
    for source in packages:
        for path in sorted((_PACKAGE / source).rglob("*.py")):
            targets = [name.split(".")[1] for name in imported_modules(path)]
            counts.update((source, target) for target in targets if target != source)
    pairs = [(source, target) for source in packages for target in packages]
    return [Arrow(*pair, counts[pair]) for pair in pairs if counts[pair]]


def draw(packages: list[str], arrows: list[Arrow]) -> str:
    """The drawing as SVG."""
    heights = _attachments(packages, arrows)
    bulges = {-1: [0.0], 1: [0.0]}
    texts = []
    for arrow in sorted(arrows, key=lambda arrow: -_distance(packages, arrow)):
        bulge = _NEAREST + _PER_LAYER * (_distance(packages, arrow) - 1)
        bulges[_side(arrow)].append(bulge)
        texts.append((arrow, bulge))
    # A cubic curve reaches three quarters of the way to its control points.
    left = _MARGIN + math.ceil(0.75 * max(bulges[-1]))
    width = left + _BOX_WIDTH + math.ceil(0.75 * max(bulges[1])) + _MARGIN
    height = _TOP + len(packages) * (_BOX_HEIGHT + _GAP) - _GAP + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="Imports between the packages of Rankwood">',
        f"<style>{_STYLE}</style>",
        f'<text class="caption" x="{_MARGIN}" y="26">Imports between the packages</text>',
        f'<text class="note" x="{_MARGIN}" y="45">'
        "Arrows point to what is imported; wider arrows are more imports.</text>",
    ]
    parts += [_arrow_svg(packages, arrow, bulge, left, heights) for arrow, bulge in texts]
    parts += [_box_svg(packages, name, left) for name in packages]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _side(arrow: Arrow) -> int:
    return -1 if arrow.target in _ON_THE_LEFT else 1


def _distance(packages: list[str], arrow: Arrow) -> int:
    return abs(packages.index(arrow.source) - packages.index(arrow.target))


def _attachments(packages: list[str], arrows: list[Arrow]) -> dict[tuple[str, Arrow], float]:
    """The height at which each arrow meets the edge of each of its boxes, ordered so that arrows nest.

    From top to bottom: arrows that leave, the shortest first, then arrows that arrive, the longest first.
    """
    heights: dict[tuple[str, Arrow], float] = {}
    for row, name in enumerate(packages):
        for side in (-1, 1):
            own = [arrow for arrow in arrows if _side(arrow) == side]
            leaving = [arrow for arrow in own if arrow.source == name]
            arriving = [arrow for arrow in own if arrow.target == name]
            leaving.sort(key=lambda arrow: _distance(packages, arrow))
            arriving.sort(key=lambda arrow: -_distance(packages, arrow))
            ordered = [*leaving, *arriving]
            top = _TOP + row * (_BOX_HEIGHT + _GAP)
            for number, arrow in enumerate(ordered, 1):
                heights[name, arrow] = top + _BOX_HEIGHT * number / (len(ordered) + 1)
    return heights


def _arrow_svg(
    packages: list[str],
    arrow: Arrow,
    bulge: float,
    left: int,
    heights: dict[tuple[str, Arrow], float],
) -> str:
    side = _side(arrow)
    edge = left if side < 0 else left + _BOX_WIDTH
    begin, end = heights[arrow.source, arrow], heights[arrow.target, arrow]
    line = 0.7 + 0.62 * math.sqrt(arrow.n_imports)
    length, half = 6 + line, 2.2 + 0.75 * line  # of the arrowhead
    base, out = edge + side * length, edge + side * bulge
    colour = _colour(packages, arrow.source)
    noun = "import" if arrow.n_imports == 1 else "imports"
    return (
        f'<g class="arrow"><title>{arrow.source} → {arrow.target}: {arrow.n_imports} {noun}</title>'
        f'<path d="M{edge} {begin:.1f}C{out:.1f} {begin:.1f} {out:.1f} {end:.1f} {base:.1f} {end:.1f}" '
        f'stroke="{colour}" stroke-width="{line:.1f}"/>'
        f'<polygon points="{edge},{end:.1f} {base:.1f},{end - half:.1f} {base:.1f},{end + half:.1f}" '
        f'fill="{colour}"/></g>'
    )


def _box_svg(packages: list[str], name: str, left: int) -> str:
    top = _TOP + packages.index(name) * (_BOX_HEIGHT + _GAP)
    n_modules = len(list((_PACKAGE / name).rglob("*.py")))
    middle = left + _BOX_WIDTH // 2
    return (
        f'<rect x="{left}" y="{top}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="9" '
        f'fill="{_colour(packages, name)}"/>'
        f'<text class="name" x="{middle}" y="{top + 27}" text-anchor="middle">{name}</text>'
        f'<text class="count" x="{middle}" y="{top + 45}" text-anchor="middle">{n_modules} modules</text>'
    )


def _colour(packages: list[str], name: str) -> str:
    """A colour per package that is readable under white text and on light and dark pages."""
    hue = (212 + _HUE_STEP * packages.index(name)) % 360 / 360
    red, green, blue = (round(255 * part) for part in colorsys.hls_to_rgb(hue, 0.39, 0.46))
    return f"#{red:02x}{green:02x}{blue:02x}"


def main(target: Path = TARGET) -> None:
    """Write the drawing."""
    packages = layers()
    target.write_text(draw(packages, import_graph(packages)), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
