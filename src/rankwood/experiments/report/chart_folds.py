"""The chart of folds: a row per algorithm, each fold a numbered mark."""

from __future__ import annotations

import math

from rankwood.experiments.report import words
from rankwood.experiments.report.chart_means import Rows
from rankwood.experiments.report.drawing import Drawing, Mark, shorten
from rankwood.experiments.report.findings import Findings
from rankwood.experiments.report.scales import Scale, value_range
from rankwood.experiments.report.tables import Column, Table, name_cell, number_cell

_RADIUS = 7.5
_KEY_LINE = 16.0


def folds_chart(findings: Findings, width: float) -> Drawing:
    """A row per algorithm, the best first; the number in a mark is that of the fold."""
    measure, names = findings.primary, findings.ranked()
    by_fold = {name: findings.by_fold(name, measure) for name in names}
    known = [value for values in by_fold.values() for value in values]
    rows = Rows.of(names, width, 48.0, 92.0)
    scale = Scale(*value_range(known), rows.left + 12, rows.right - 12)
    key = _key(findings, width)
    sheet = Drawing(width, rows.height + _KEY_LINE * len(key), f"Mean {measure} by fold", "")
    sheet.description = _described(findings)
    rows.draw_axis(sheet, scale, measure)
    for place, name in enumerate(names):
        standing, y = findings.standings[name, measure], rows.middle(place)
        rows.draw_name(sheet, place, standing.is_best, words.number(standing.mean), 27.0)
        sheet.line(rows.left, y, rows.right, y, "grid")
        if not math.isnan(standing.mean):
            x = scale(standing.mean)
            sheet.line(x, y - 13, x, y + 13, "accent", width=3.0)
        _draw_folds(sheet, scale, y, by_fold[name])
    for line, text in enumerate(key):
        y = rows.height + _KEY_LINE * (line + 0.4)
        sheet.text(width / 2, y, text, "middle", role="muted", size=11)
    return sheet


def _draw_folds(sheet: Drawing, scale: Scale, y: float, values: list[float]) -> None:
    """Marks from left to right; one that would hide its neighbour is raised or lowered."""
    taken: list[tuple[float, float]] = []
    order = sorted((v, fold) for fold, v in enumerate(values) if not math.isnan(v))
    for value, fold in order:
        x = scale(value)
        height = next((h for h in (0.0, -15.0, 15.0) if _is_free(x, h, taken)), 0.0)
        taken.append((x, height))
        hint = f"fold {fold + 1}: {words.number(value)}"
        sheet.add(Mark(x, y + height, "circle", "ink", _RADIUS, is_filled=False, hint=hint))
        sheet.text(x, y + height + 3.4, str(fold + 1), "middle", size=9.5)


def _is_free(x: float, height: float, taken: list[tuple[float, float]]) -> bool:
    return all(math.hypot(x - other, height - level) >= 2 * _RADIUS for other, level in taken)


def _key(findings: Findings, width: float) -> list[str]:
    """Which number is which fold, in lines that fit; nothing where the names are the numbers."""
    folds = findings.results.folds
    if all(fold in (str(place + 1), f"Fold{place + 1}") for place, fold in enumerate(folds)):
        return []
    lines: list[str] = []
    for place, fold in enumerate(folds):
        entry = f"{place + 1} {shorten(fold, 20)}"
        if lines and len(lines[-1]) + len(entry) + 3 < width / 6.5:
            lines[-1] += f" · {entry}"
        else:
            lines.append(entry)
    return lines


def _described(findings: Findings) -> str:
    parts = []
    for name in findings.ranked()[:25]:
        values = ", ".join(words.number(v) for v in findings.by_fold(name, findings.primary))
        parts.append(f"{name}: {values}")
    return f"{findings.primary} in folds 1 to {len(findings.results.folds)}. {'; '.join(parts)}."


def folds_table(findings: Findings) -> Table:
    """The numbers of the chart."""
    columns = [Column("algorithm", is_number=False), *map(Column, findings.results.folds)]
    rows = [
        [
            name_cell(name),
            *(number_cell(words.number(v), v) for v in findings.by_fold(name, findings.primary)),
        ]
        for name in findings.ranked()
    ]
    return Table("folds", f"Mean {findings.primary} by fold", columns, rows)
