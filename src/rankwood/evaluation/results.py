"""What ``evaluate`` gives: values with intervals, counts and conventions, and tables of them."""

from __future__ import annotations

import csv
import html
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood._core import random
from rankwood._core.files import atomic_path, explained_writing
from rankwood.dtypes import Floats, Rows
from rankwood.errors import UnknownName
from rankwood.measures.measure import Measure, squeeze

# Percentile intervals by resampling queries.
#
# The queries of a collection are a sample of the queries there could be, so they are what is drawn
# again: as many as there are, with replacement, ``n_bootstrap`` times. The interval holds the middle
# share of the means so obtained. With fewer than two queries there is nothing to draw, and the
# interval is (nan, nan).
#
# Above ``MOST_UNITS`` queries, they are first dealt at random into that many equal blocks, and blocks
# are drawn instead: the mean over blocks varies as the mean over queries does, at a bounded cost.


MOST_UNITS = 10_000
_DRAWS_AT_ONCE = 2_000_000  # 16 MB of draws, whatever the number of queries

Interval = tuple[float, float]
NO_INTERVAL: Interval = (float("nan"), float("nan"))


@dataclass(frozen=True, eq=False)
class Resampling:
    """How often each unit (a query, or a block of queries) is drawn, resample by resample."""

    unit_of_query: Rows
    n_units: int
    n_bootstrap: int
    confidence: float
    seed: int
    name: str = "bootstrap"

    @classmethod
    def of(cls, n_queries: int, n_bootstrap: int, confidence: float, seed: int) -> Resampling:
        """Units for ``n_queries`` queries."""
        if n_queries <= MOST_UNITS:
            return cls(np.arange(n_queries), n_queries, n_bootstrap, confidence, seed)
        dealt = random.stream(seed, "bootstrap blocks").permutation(n_queries)
        return cls(dealt % MOST_UNITS, MOST_UNITS, n_bootstrap, confidence, seed)

    def sums(self, values: Floats) -> Floats:
        """The sum of ``values`` (queries × columns) over each unit's queries."""
        if self.n_units == len(values):
            return values
        columns = [np.bincount(self.unit_of_query, column, self.n_units) for column in values.T]
        return np.stack(columns, axis=1)

    def counts(self, n_resamples: int | None = None) -> Iterator[Floats]:
        """How often each unit is drawn (resamples × units), a few resamples at a time.

        The numbers depend on the seed alone: not on how many come at a time, nor on threads.
        """
        generator = random.stream(self.seed, self.name)
        left = self.n_bootstrap if n_resamples is None else n_resamples
        at_once = max(1, _DRAWS_AT_ONCE // self.n_units)
        while left > 0:
            n_rows = min(left, at_once)
            draws = generator.integers(0, self.n_units, (n_rows, self.n_units))
            draws += np.arange(n_rows)[:, np.newaxis] * self.n_units
            counts = np.bincount(draws.ravel(), minlength=n_rows * self.n_units)
            yield counts.reshape(n_rows, self.n_units).astype(np.float64)
            left -= n_rows

    def interval(self, estimates: Floats) -> Interval:
        """The middle ``confidence`` share of the estimates, undefined ones left out."""
        defined = estimates[np.isfinite(estimates)]
        if defined.size == 0:
            return NO_INTERVAL
        tail = (1.0 - self.confidence) / 2.0
        low, high = np.quantile(defined, [tail, 1.0 - tail])
        return float(low), float(high)

    def ratio_intervals(self, numerators: Floats, denominators: Floats) -> list[Interval]:
        """Intervals of Σ numerator / Σ denominator over queries, one per column."""
        n_columns = numerators.shape[1]
        if len(numerators) < 2 or self.n_bootstrap == 0:
            return [NO_INTERVAL] * n_columns
        sums = self.sums(np.concatenate([numerators, denominators], axis=1))
        # not `counts @ sums`: a BLAS may add in another order with another number of threads
        drawn = np.concatenate([np.einsum("ru,uc->rc", counts, sums) for counts in self.counts()])
        above, below = drawn[:, :n_columns], drawn[:, n_columns:]
        estimates = np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)
        return [self.interval(column) for column in estimates.T]


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


# Tables of results in files.


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
