"""HTML that is safe by construction, and tables made of it.

Plain text is escaped wherever it goes in; only ``Markup`` passes as it is. Tables can be sorted by click and by key,
and scroll in a frame of their own where they are too wide.
"""

from __future__ import annotations

import html
import json
import math
import re
from typing import Any

from rankwood.experiments.report.drawing import shorten
from rankwood.experiments.report.tables import Column, Table, TableCell

_LONGEST_HEAD = 32  # letters of a column's name
_LONGEST_NAME = 60  # letters; all of it is shown when it is pointed at
# Characters that are not allowed in HTML or that change the direction of the text beside them.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_VOID = frozenset({"meta", "link", "br", "hr", "img", "input", "col"})


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
