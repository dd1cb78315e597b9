"""Tables as HTML, and drawings as SVG and PNG.

The HTML is safe by construction. Plain text is escaped wherever it goes in; only ``Markup`` passes as it is. Tables
can be sorted by click and by key, and scroll in a frame of their own where they are too wide.

On the page the style sheet gives the colours of an SVG, in a file of its own the palette does. PNG are drawn by
matplotlib, which the extra ``report`` brings.
"""

from __future__ import annotations

import html
import json
import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rankwood.evaluation.plots import add_circle, new_figure
from rankwood.experiments.report.drawing import Box, Drawing, Line, Mark, Shape, Text, shorten
from rankwood.experiments.report.tables import Column, Table, TableCell

_LONGEST_HEAD = 32  # letters of a column's name
_LONGEST_NAME = 60  # letters; all of it is shown when it is pointed at
# Characters that are not allowed in HTML or that change the direction of the text beside them.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_VOID = frozenset({"meta", "link", "br", "hr", "img", "input", "col"})
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


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def clean(text: Any) -> str:
    """The text of ``text``, with forbidden characters replaced by U+FFFD."""
    return _FORBIDDEN.sub("�", str(text))


def escape(child: Any) -> Markup:
    """A child of an element: markup as it is, everything else as text."""
    return child if isinstance(child, Markup) else Markup(html.escape(clean(child)))


def element(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element with its children; None and "" among them are left out.

    A trailing underscore of an attribute's name is dropped, others become hyphens: ``class_``, ``aria_label``.
    An attribute that is True stands without a value, one that is None or False not at all.
    """
    written = [_attribute(key, value) for key, value in attributes.items()]
    head = " ".join([name, *(text for text in written if text)])
    if name in _VOID:
        return Markup(f"<{head}>")
    inside = "".join(escape(child) for child in children if child is not None)
    return Markup(f"<{head}>{inside}</{name}>")


def _attribute(key: str, value: Any) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return name if value is True else f'{name}="{escape(value)}"'


def join(*children: Any) -> Markup:
    """Children one after the other."""
    return Markup("\n".join(escape(child) for child in children if child is not None and child))


def named(text: Any) -> Markup:
    """A name from outside: its direction of writing does not reach its neighbours."""
    return element("bdi", text)


def data_block(identifier: str, value: Any) -> Markup:
    """JSON for the page's script; no text in it can end the block."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text = clean(text).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return Markup(f'<script type="application/json" id="{identifier}">{text}</script>')


def html_table(table: Table, *, identifier: str | None = None, is_sortable: bool = True) -> Markup:
    """The table with its notes; it scrolls inside its own frame."""
    key = identifier or table.key
    head = element("tr", *(_head(column, is_sortable) for column in table.columns))
    body = [_row(table, row) for row in table.rows]
    frame = element(
        "div",
        element(
            "table",
            element("thead", head),
            element("tbody", *body),
            class_="sortable" if is_sortable else None,
            aria_labelledby=f"title-{key}",
        ),
        class_="frame",
        tabindex="0",
        role="region",
        aria_labelledby=f"title-{key}",
        id=f"table-{key}",
    )
    # Not a caption: that would scroll away with a wide table.
    title = element("p", table.title, class_="caption", id=f"title-{key}")
    notes = [element("li", note) for note in table.notes]
    return join(title, frame, element("ul", *notes, class_="notes") if notes else None)


def _head(column: Column, is_sortable: bool) -> Markup:
    style = {"class_": "number" if column.is_number else None, "scope": "col"}
    hint = column.hint or None
    if not is_sortable:
        return element("th", named(shorten(column.name, _LONGEST_HEAD)), title=hint, **style)
    button = element(
        "button", named(shorten(column.name, _LONGEST_HEAD)), type="button", title=hint
    )
    return element("th", button, aria_sort="none", **style)


def _row(table: Table, row: Any) -> Markup:
    cells = []
    for index, (column, cell) in enumerate(zip(table.columns, row, strict=True)):
        name = "th" if index == 0 else "td"
        cells.append(
            element(
                name,
                _content(cell),
                scope="row" if index == 0 else None,
                class_="number" if column.is_number else None,
                data_order=_order(cell, column),
            )
        )
    return element("tr", *cells)


def _content(cell: TableCell) -> Markup:
    text: Any = cell.text
    if cell.is_name:
        short = shorten(text, _LONGEST_NAME)
        text = element("bdi", short, title=None if short == text else text)
    if cell.is_best:
        text = element("strong", text)
    if cell.is_tied:
        text = element("span", text, class_="tied")
    marks = element("sup", cell.marks, class_="marks") if cell.marks else None
    detail = element("small", cell.detail) if cell.detail else None
    parts = [part for part in (text, marks, detail) if part is not None]
    return element("span", *parts, class_="cell")


def _order(cell: TableCell, column: Column) -> str | None:
    """What the script sorts by; empty for what has no value, which goes last."""
    if not column.is_number:
        return None
    if isinstance(cell.order, int | float):
        return repr(float(cell.order)) if not math.isnan(cell.order) else ""
    return ""


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
