"""What ``evaluate`` gives: values with intervals, counts and conventions, and tables of them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankwood.dtypes import Floats
from rankwood.errors import UnknownName
from rankwood.evaluation.bootstrap import Interval
from rankwood.measures.measure import Measure
from rankwood.measures.parsing import squeeze

_TEXT_COLUMNS = (  # the others are numbers
    *("measure", "segment", "treatment", "by"),
    *("name", "effect of", "source", "query", "moves"),
    *("feature", "document"),
)


@dataclass(frozen=True, eq=False)
class MeasureResult:
    """A measure of one ranking of a data set.

    ``per_query`` is in the order of ``data.queries``, NaN where a query is left out or has no value
    of its own. ``n_queries`` counts the queries the value is taken over, ``n_empty`` those without
    relevant documents among all. ``conventions`` holds every convention in force, with what the
    data decided filled in.
    """

    measure: Measure
    value: float
    interval: Interval
    per_query: Floats = field(repr=False)
    n_queries: int
    n_empty: int
    conventions: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, without the per-query values."""
        return {
            "measure": str(self.measure),
            "value": self.value,
            "interval": list(self.interval),
            "n_queries": self.n_queries,
            "n_empty": self.n_empty,
            "conventions": dict(self.conventions),
        }


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The results of one evaluation, by measure: ``result["ndcg@10"].value``.

    A measure is found by the text it was asked for with, by its canonical text, or by the
    ``Measure`` itself; spaces and capitals do not matter. With ``by``, ``segments`` holds one such
    evaluation per segment of queries.
    """

    results: tuple[MeasureResult, ...]
    texts: tuple[str, ...]
    confidence: float = 0.95
    segments: Mapping[Any, Evaluation] = field(default_factory=dict)

    def __getitem__(self, measure: str | Measure) -> MeasureResult:
        asked = squeeze(str(measure))
        for text, result in zip(self.texts, self.results, strict=True):
            if asked in (squeeze(text), str(result.measure)) and not isinstance(measure, Measure):
                return result
            if result.measure == measure:
                return result
        raise UnknownName("measure of this evaluation", str(measure), self.texts)

    def __contains__(self, measure: object) -> bool:
        try:
            return isinstance(measure, (str, Measure)) and self[measure] is not None
        except UnknownName:
            return False

    def __iter__(self) -> Iterator[MeasureResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON, by the text a measure was asked for with."""
        plain: dict[str, Any] = {
            text: result.to_dict() for text, result in zip(self.texts, self.results, strict=True)
        }
        if self.segments:
            plain = {
                "all": plain,
                "segments": {str(name): part.to_dict() for name, part in self.segments.items()},
            }
        return plain

    def rows(self) -> list[dict[str, str]]:
        """The table's rows as texts: one per measure, with ``by`` one per segment and measure."""
        rows = _rows_of(self)
        if not self.segments:
            return rows
        rows = [{"segment": "all"} | row for row in rows]
        for name, part in self.segments.items():
            rows += [{"segment": str(name)} | row for row in _rows_of(part)]
        return rows

    def notes(self) -> list[str]:
        """One line per measure with its conventions."""
        lines = []
        for text, result in zip(self.texts, self.results, strict=True):
            conventions = ", ".join(f"{name} {value}" for name, value in result.conventions.items())
            lines.append(f"{text}: {conventions or 'no conventions'}")
        return lines

    def __str__(self) -> str:
        rows = self.rows()
        if not rows:
            return "no measures"
        return "\n".join([*aligned(rows), "", *self.notes()])

    def _repr_html_(self) -> str:
        return as_html(self.rows(), self.notes())


def aligned(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The lines of a table in plain text: names, a rule, a line per row."""
    names = list(rows[0])
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    lines = [_line({name: name for name in names}, widths), _rule(widths)]
    return lines + [_line(row, widths) for row in rows]


def as_html(rows: Sequence[Mapping[str, str]], notes: Sequence[str]) -> str:
    """The table for notebooks, with its notes below."""
    names = list(rows[0]) if rows else []
    head = _html_row("th", names)
    body = "".join(_html_row("td", list(row.values())) for row in rows)
    below = "<br>".join(html.escape(note) for note in notes)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table><p>{below}</p>"


def _rows_of(evaluation: Evaluation) -> list[dict[str, str]]:
    share = f"{100 * evaluation.confidence:g} % interval"
    return [
        {
            "measure": text,
            "value": show_number(result.value),
            share: f"{show_number(result.interval[0])} – {show_number(result.interval[1])}",
            "queries": f"{result.n_queries:,}",
            "empty": f"{result.n_empty:,}",
        }
        for text, result in zip(evaluation.texts, evaluation.results, strict=True)
    ]


def show_number(value: float) -> str:
    """Four decimals, or a dash where there is no number."""
    return "–" if math.isnan(value) else f"{value:.4f}"


def _line(row: Mapping[str, str], widths: Mapping[str, int]) -> str:
    cells = [
        row[name].ljust(width) if name in _TEXT_COLUMNS else row[name].rjust(width)
        for name, width in widths.items()
    ]
    return "  ".join(cells).rstrip()


def _rule(widths: Mapping[str, int]) -> str:
    return "  ".join("-" * width for width in widths.values())


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
