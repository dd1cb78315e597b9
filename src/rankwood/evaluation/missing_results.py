"""What ``compare_missing`` gives: a row per treatment of missing values, as a table, as numbers, as a file."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rankwood._files import atomic_path, explained_writing
from rankwood.errors import UnknownName
from rankwood.evaluation.bootstrap import Interval
from rankwood.evaluation.results import MeasureResult, aligned, as_html, show_number

BASELINE = "learned"  # what the others are compared with: the rankers' default


@dataclass(frozen=True, eq=False)
class TreatmentResult:
    """A ranker under one treatment of missing values.

    ``difference`` is to the treatment "learned", with its interval; ``p_value`` is of a paired t test, corrected by
    Holm. ``seconds`` are those of filling, training and scoring.
    """

    treatment: str
    by: str  # the step or policy
    result: MeasureResult
    difference: float
    difference_interval: Interval
    p_value: float
    seconds: float

    @property
    def value(self) -> float:
        """The measure."""
        return self.result.value

    @property
    def interval(self) -> Interval:
        """The interval of the measure."""
        return self.result.interval

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts."""
        return {
            "treatment": self.treatment,
            "by": self.by,
            "measure": str(self.result.measure),
            "value": self.value,
            "low": self.interval[0],
            "high": self.interval[1],
            "difference": self.difference,
            "difference_low": self.difference_interval[0],
            "difference_high": self.difference_interval[1],
            "p_value": self.p_value,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, eq=False)
class MissingComparison:
    """The results by treatment: ``comparison["median"].value``."""

    results: tuple[TreatmentResult, ...]
    text: str  # the measure as it was asked for
    confidence: float
    facts: Sequence[str]

    def __getitem__(self, treatment: str) -> TreatmentResult:
        for result in self.results:
            if result.treatment == treatment:
                return result
        names = [result.treatment for result in self.results]
        raise UnknownName("treatment of this comparison", str(treatment), names)

    def __iter__(self) -> Iterator[TreatmentResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def rows(self) -> list[dict[str, str]]:
        """The table's rows as texts."""
        share = f"{100 * self.confidence:g} % interval"
        return [
            {
                "treatment": result.treatment,
                "by": result.by,
                self.text: show_number(result.value),
                share: _between(result.interval, ""),
                "difference": "–" if is_baseline else f"{result.difference:+.4f}",
                f"its {share}": _between(result.difference_interval, "+"),
                "p (Holm)": _p_value(result.p_value),
                "seconds": f"{result.seconds:,.1f}",
            }
            for result in self.results
            for is_baseline in [result.treatment == BASELINE]
        ]

    def notes(self) -> list[str]:
        """What the figures are about, and the conventions of the measure."""
        conventions = self.results[0].result.conventions
        listed = ", ".join(f"{name} {value}" for name, value in conventions.items())
        return [
            *self.facts,
            f"differences and paired t tests over queries are to '{BASELINE}'",
            f"{self.text}: {listed or 'no conventions'}",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {
            "measure": self.text,
            "confidence": self.confidence,
            "baseline": BASELINE,
            "conventions": dict(self.results[0].result.conventions),
            "treatments": [result.to_dict() for result in self.results],
            "notes": self.notes(),
        }

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a row per treatment, numbers in full; a field is empty where there is no number."""
        out = io.StringIO()
        rows = [result.to_dict() for result in self.results]
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _in_full(value) for name, value in row.items()})
        with explained_writing(path), atomic_path(path) as temporary:
            temporary.write_text(out.getvalue())

    def __str__(self) -> str:
        return "\n".join([*aligned(self.rows()), "", *self.notes()])

    def _repr_html_(self) -> str:
        return as_html(self.rows(), self.notes())


def _between(interval: Interval, sign: str) -> str:
    if math.isnan(interval[0]):
        return "–"
    return f"{interval[0]:{sign}.4f} – {interval[1]:{sign}.4f}"


def _p_value(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _in_full(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    return str(value)
