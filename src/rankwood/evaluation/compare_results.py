"""What ``compare`` gives: tables of values, differences and tests, and the queries that changed most."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwood.dtypes import Floats
from rankwood.errors import UnknownName
from rankwood.evaluation.changes import ChangedQuery
from rankwood.evaluation.comparison_table import comparison_table, legend
from rankwood.evaluation.results import Evaluation, show_number
from rankwood.evaluation.significance import Comparison
from rankwood.evaluation.tables import tables_as_html, tables_as_text, write_csv
from rankwood.measures.parsing import squeeze

_MOVES_SHOWN = 3


@dataclass(frozen=True, eq=False)
class SystemComparison:
    """Several systems on one data set.

    Parameters
    ----------
    evaluations
        By system, as ``evaluate`` gives them.
    comparisons
        By measure, as ``compare_values`` gives them.
    changed
        By system, the queries on which the first measure differs most from the baseline's.
    segments
        By segment and measure, with ``by``.
    scores
        By system, one per row.
    notes
        Conventions, and what could not be tested.
    """

    evaluations: Mapping[str, Evaluation]
    comparisons: Mapping[str, Comparison]
    changed: Mapping[str, tuple[ChangedQuery, ...]]
    segments: Mapping[Any, Mapping[str, Comparison]] = field(default_factory=dict)
    scores: Mapping[str, Floats] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    def __getitem__(self, measure: str) -> Comparison:
        for text, found in self.comparisons.items():
            if squeeze(text) == squeeze(str(measure)):
                return found
        raise UnknownName("measure of this comparison", str(measure), self.comparisons)

    def __iter__(self) -> Iterator[str]:
        return iter(self.comparisons)

    @property
    def systems(self) -> list[str]:
        """Their names."""
        return list(self.evaluations)

    def table(self, measure: str) -> list[dict[str, str]]:
        """The systems by one measure as texts, the baseline first; p values are the adjusted ones."""
        return comparison_table(self[measure], self._values(measure))

    def rows(self) -> list[dict[str, Any]]:
        """A flat mapping per segment, measure and system compared, numbers in full."""
        rows = [
            {"segment": "all", "measure": text} | row
            for text, found in self.comparisons.items()
            for row in found.to_rows()
        ]
        for segment, comparisons in self.segments.items():
            for text, found in comparisons.items():
                rows += [{"segment": str(segment), "measure": text} | r for r in found.to_rows()]
        return rows

    def changed_table(self) -> list[dict[str, str]]:
        """The queries that changed most as texts, system by system."""
        return [
            {
                "name": name,
                "query": each.query,
                "baseline": show_number(each.baseline_value),
                "value": show_number(each.value),
                "difference": f"{each.difference:+.4f}",
                "places": f"{each.places:+,}",
                "moves": _moves(each),
            }
            for name, queries in self.changed.items()
            for each in queries
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {
            "systems": {name: found.to_dict() for name, found in self.evaluations.items()},
            "comparisons": {text: found.to_dict() for text, found in self.comparisons.items()},
            "segments": {
                str(segment): {text: found.to_dict() for text, found in comparisons.items()}
                for segment, comparisons in self.segments.items()
            },
            "changed": {name: [q.to_dict() for q in found] for name, found in self.changed.items()},
            "notes": list(self.notes),
        }

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a row per segment, measure and system compared."""
        write_csv(path, self.rows())

    def __str__(self) -> str:
        return tables_as_text(
            self._tables(), [*legend(next(iter(self.comparisons.values()))), *self.notes]
        )

    def _repr_html_(self) -> str:
        return tables_as_html(
            self._tables(), [*legend(next(iter(self.comparisons.values()))), *self.notes]
        )

    def _tables(self) -> dict[str, list[dict[str, str]]]:
        tables = {text: self.table(text) for text in self.comparisons}
        for segment, comparisons in self.segments.items():
            for text, found in comparisons.items():
                tables[f"{text}, {segment}"] = comparison_table(found, self._values(text, segment))
        changed = self.changed_table()
        if changed:
            first = next(iter(self.comparisons.items()))
            tables[f"queries whose {first[0]} differs most from {first[1].baseline}'s"] = changed
        return tables

    def _values(self, measure: str, segment: Any = None) -> dict[str, float]:
        """The value of each system, weighed by query weights where there are any."""
        place = list(self.comparisons).index(
            next(text for text in self.comparisons if squeeze(text) == squeeze(str(measure)))
        )
        found = {
            name: each if segment is None else each.segments[segment]
            for name, each in self.evaluations.items()
        }
        return {name: each.results[place].value for name, each in found.items()}


def _moves(changed: ChangedQuery) -> str:
    """Where the relevant documents that moved went, the longest ways first."""
    moved = [move for move in changed.moves if move.places]
    shown = [f"{move.document}: {move.before}→{move.after}" for move in moved[:_MOVES_SHOWN]]
    more = f" and {len(moved) - _MOVES_SHOWN} more" if len(moved) > _MOVES_SHOWN else ""
    return ", ".join(shown) + more
