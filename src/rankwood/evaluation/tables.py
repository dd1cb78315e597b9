"""Tables of results in files."""

from __future__ import annotations

import csv
import html
import os
from collections.abc import Mapping, Sequence
from typing import Any

from rankwood._files import atomic_path, explained_writing
from rankwood.evaluation.results import aligned, as_html

Tables = Mapping[str, Sequence[Mapping[str, str]]]  # rows by title

_STYLE = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;"
    "padding:0 1rem;overflow-x:auto}table{border-collapse:collapse;margin:1rem 0}th,td{padding:.2rem .8rem;"
    "text-align:right;border-bottom:1px solid #8886}th:first-child,td:first-child{text-align:left}"
)


def write_csv(path: str | os.PathLike[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """A line per row under a header, numbers in full; the file appears when it is complete."""
    names = list(rows[0]) if rows else []
    with (
        explained_writing(path),
        atomic_path(path) as temporary,
        open(temporary, "w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def write_page(path: str | os.PathLike[str], title: str, body: str) -> None:
    """A page of its own around tables; it needs nothing from elsewhere, and follows the reader's light or dark."""
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><h1>{html.escape(title)}</h1>{body}</body></html>\n"
    )
    with explained_writing(path), atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def tables_as_text(tables: Tables, notes: Sequence[str]) -> str:
    """Titled tables one below the other, and notes at the end."""
    lines: list[str] = []
    for title, rows in tables.items():
        lines += [title, *aligned(rows), ""]
    return "\n".join([*lines, *notes]).rstrip()


def tables_as_html(tables: Tables, notes: Sequence[str]) -> str:
    """The same for notebooks and pages."""
    parts = [f"<h4>{html.escape(title)}</h4>{as_html(rows, ())}" for title, rows in tables.items()]
    below = "<br>".join(html.escape(note) for note in notes)
    return "".join([*parts, f"<p>{below}</p>"])


def show_p(value: float) -> str:
    """A p value as tables show it: four decimals, or that it is smaller than they can tell."""
    if value != value:  # noqa: PLR0124 - NaN
        return "–"
    return "<.0001" if value < 0.0001 else f"{value:.4f}".removeprefix("0")
