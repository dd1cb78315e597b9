"""The numbers of a report as CSV, one value per field, every digit kept."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from typing import Any

from rankwood.experiments.report.findings import Findings


def csv_files(findings: Findings) -> dict[str, str]:
    """By file name: results, comparisons, values by query, cells."""
    files = {"results.csv": _text(_results(findings)), "queries.csv": _text(_queries(findings))}
    comparisons = [
        {"measure": measure, **row}
        for measure, comparison in findings.comparisons.items()
        if comparison is not None
        for row in comparison.to_rows()
    ]
    if comparisons:
        files["comparisons.csv"] = _text(comparisons)
    if findings.results.cells:
        files["cells.csv"] = _text(_cells(findings))
    return files


def _results(findings: Findings) -> Iterable[dict[str, Any]]:
    for measure in findings.results.measures:
        for name in findings.ranked(measure):
            standing = findings.standings[name, measure]
            yield {
                "algorithm": name,
                "measure": measure,
                "mean": standing.mean,
                "low": standing.interval[0],
                "high": standing.interval[1],
                "queries": standing.n_queries,
                "marks": standing.marks,
                "best": int(standing.is_best),
                "tied_with_best": int(standing.is_tied_with_best),
            }


def _queries(findings: Findings) -> Iterable[dict[str, Any]]:
    """A line per query, a column per measure and algorithm."""
    names = findings.results.algorithms
    columns = {
        f"{measure} {name}": findings.values[name, measure].tolist()
        for measure in findings.results.measures
        for name in names
    }
    for place, (fold, query) in enumerate(findings.results.queries):
        values = {key: column[place] for key, column in columns.items()}
        yield {"fold": fold, "query": query, **values}


def _cells(findings: Findings) -> Iterable[dict[str, Any]]:
    for cell in findings.results.cells:
        yield {
            "algorithm": cell.algorithm,
            "fold": cell.fold,
            "repetition": cell.repetition,
            "status": cell.status,
            **{f"seconds_{stage}": seconds for stage, seconds in cell.seconds.items()},
            "peak_memory": cell.peak_memory,
            **{
                f"mean_{measure}": cell.means.get(measure, math.nan)
                for measure in findings.results.measures
            },
            "parameters": json.dumps(dict(cell.parameters), default=str, ensure_ascii=False),
            "message": cell.message.strip(),
        }


def _text(rows: Iterable[dict[str, Any]]) -> str:
    """Rows under a header that names every key of any row; empty fields where there is no value."""
    kept = list(rows)
    names = list(dict.fromkeys(key for row in kept for key in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _field(value) for key, value in row.items()} for row in kept)
    return out.getvalue()


def _field(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(float(value))
    return value
