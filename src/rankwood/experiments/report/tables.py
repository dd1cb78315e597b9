"""Tables before they are HTML, Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cell:
    """One field of a table."""

    text: str
    order: float | str | None = None  # what it is sorted by; its text without
    detail: str = ""  # a second line in small print
    marks: str = ""
    is_best: bool = False
    is_tied: bool = False
    is_name: bool = False  # from outside, so that its direction of writing may be any


@dataclass(frozen=True)
class Column:
    """The head of a column."""

    name: str
    is_number: bool = True
    hint: str = ""


@dataclass(frozen=True)
class Table:
    """Columns and rows under a title; ``notes`` stand below."""

    key: str  # of its element and its files
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = field(default_factory=tuple)


def name_cell(name: str, detail: str = "") -> Cell:
    """A name from outside: of an algorithm, a fold, a query."""
    return Cell(name, detail=detail, is_name=True)


def number_cell(text: str, value: float, **style: object) -> Cell:
    """A number, sorted by its value."""
    return Cell(text, order=value, **style)  # type: ignore[arg-type]
