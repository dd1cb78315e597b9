"""``Result``: the base of everything that evaluations and studies return, and how tables become text, HTML and CSV.

Terms
    table      rows of texts, ready to be shown; all rows have the same columns
    tables     tables by title, in the order in which they are shown; the title "" means no heading
    footnotes  lines below the tables: conventions, counts, warnings
    record     a flat mapping from column names to numbers in full, a line of a CSV file
"""

from __future__ import annotations

import csv
import html
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from rankwood._core.files import atomic_path, explained_writing

Table = Sequence[Mapping[str, str]]
Tables = Mapping[str, Table]

_TEXT_COLUMNS = (  # aligned to the left; all other columns are numbers
    *("measure", "segment", "treatment", "by"),
    *("name", "effect of", "source", "query", "moves"),
    *("feature", "document", "training", "settings", "finding"),
)
_STYLE = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;"
    "padding:0 1rem;overflow-x:auto}table{border-collapse:collapse;margin:1rem 0}th,td{padding:.2rem .8rem;"
    "text-align:right;border-bottom:1px solid #8886}th:first-child,td:first-child{text-align:left}"
)


class Result:
    """What an evaluation or a study returns. It prints tables, shows them in a notebook and writes CSV.

    A subclass overrides ``_tables``, ``_footnotes`` and ``_records``, and has ``to_dict`` for JSON. One that can be
    drawn has a method ``plot(path)``, which calls a function of ``rankwood.evaluation.plots``.
    """

    _csv_line_end: ClassVar[str] = "\r\n"

    def _tables(self) -> Tables:
        """The tables that ``print`` and notebooks show."""
        raise NotImplementedError

    def _footnotes(self) -> Sequence[str]:
        """The lines below the tables."""
        return ()

    def _records(self) -> Iterable[Mapping[str, Any]]:
        """The lines of the CSV file."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        raise NotImplementedError

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a CSV file with a header and numbers in full; the file appears when it is complete."""
        with (
            explained_writing(path),
            atomic_path(path) as temporary,
            open(temporary, "w", newline="", encoding="utf-8") as file,
        ):
            csv.writer(file, lineterminator=self._csv_line_end).writerows(self._csv_lines())

    def _csv_lines(self) -> Iterator[Sequence[Any]]:
        """The names of the columns, then the values of each record."""
        for number, record in enumerate(self._records()):
            if number == 0:
                yield list(record)
            yield list(record.values())

    def __str__(self) -> str:
        return tables_as_text(self._tables(), self._footnotes())

    def _repr_html_(self) -> str:
        return tables_as_html(self._tables(), self._footnotes())


def attributes(result: Any, *names: str) -> dict[str, Any]:
    """What a result has under these names, as ``to_dict`` gives it."""
    return {name: getattr(result, name) for name in names}


def interval_ends(interval: tuple[float, float], of: str = "") -> dict[str, float]:
    """An interval as columns of a record: ``low`` and ``high``, behind ``of``."""
    low, high = interval
    return {f"{of}low": low, f"{of}high": high}


def tables_as_text(tables: Tables, footnotes: Sequence[str]) -> str:
    """Tables in plain text below each other, each under its title, and the footnotes at the end."""
    lines: list[str] = []
    for title, rows in tables.items():
        lines += [*([title] if title else []), *_aligned(rows), ""]
    return "\n".join([*lines, *footnotes]).rstrip()


def _aligned(rows: Table) -> list[str]:
    """The lines of a table: column names, a rule, a line per row; nothing without rows."""
    if not rows:
        return []
    names = list(rows[0])
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    rule = "  ".join("-" * width for width in widths.values())
    return [_line({name: name for name in names}, widths), rule, *(_line(r, widths) for r in rows)]


def _line(row: Mapping[str, str], widths: Mapping[str, int]) -> str:
    cells = [
        row[name].ljust(width) if name in _TEXT_COLUMNS else row[name].rjust(width)
        for name, width in widths.items()
    ]
    return "  ".join(cells).rstrip()


def tables_as_html(tables: Tables, footnotes: Sequence[str]) -> str:
    """Tables for notebooks and pages, each under its title, and the footnotes in a paragraph at the end."""
    parts = [
        f"<h4>{html.escape(title)}</h4>{_html_table(rows)}<p></p>" if title else _html_table(rows)
        for title, rows in tables.items()
    ]
    below = "<br>".join(html.escape(note) for note in footnotes)
    return "".join([*parts, f"<p>{below}</p>"])


def _html_table(rows: Table) -> str:
    head = _html_row("th", list(rows[0]) if rows else [])
    body = "".join(_html_row("td", list(row.values())) for row in rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def write_page(path: str | os.PathLike[str], title: str, body: str) -> None:
    """Write a complete HTML page around ``body``, with its own style sheet for light and dark screens."""
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><h1>{html.escape(title)}</h1>{body}</body></html>\n"
    )
    with explained_writing(path), atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def show_number(value: float, sign: str = "") -> str:
    """Four decimals, or a dash for NaN; ``sign="+"`` shows the sign."""
    return "–" if math.isnan(value) else f"{value:{sign}.4f}"


def show_interval(interval: tuple[float, float], sign: str = "") -> str:
    """Both ends with four decimals, or a dash where there is no interval; ``sign="+"`` shows signs."""
    low, high = interval
    return "–" if math.isnan(low) else f"{low:{sign}.4f} – {high:{sign}.4f}"


def show_p(value: float) -> str:
    """A p value with four decimals and no leading 0, "<.0001" below that, or a dash for NaN."""
    if math.isnan(value):
        return "–"
    return "<.0001" if value < 0.0001 else f"{value:.4f}".removeprefix("0")
