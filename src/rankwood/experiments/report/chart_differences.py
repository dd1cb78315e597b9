"""The chart of differences: a panel per algorithm, its queries from the largest gain to the largest loss."""

from __future__ import annotations

import numpy as np

from rankwood.dtypes import Floats
from rankwood.experiments.report import words
from rankwood.experiments.report.chart_means import NARROW_BELOW
from rankwood.experiments.report.drawing import Drawing, Line, shorten
from rankwood.experiments.report.findings import Findings, is_lower_better
from rankwood.experiments.report.scales import Scale, linear_ticks, tick_text
from rankwood.experiments.report.tables import Column, Table, name_cell, number_cell

_PANEL_HEIGHT = 196.0
_GAP = 22.0
_TOP, _BOTTOM, _LEFT = 40.0, 26.0, 44.0
_MOST_STEPS = 160  # more queries than this are drawn by their quantiles
_SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def sorted_differences(findings: Findings, name: str) -> Floats:
    """The differences from the baseline over the queries both have a value of, the largest first."""
    assert findings.baseline is not None
    measure = findings.primary
    found = findings.values[name, measure] - findings.values[findings.baseline, measure]
    return np.sort(found[~np.isnan(found)])[::-1]


def differences_chart(findings: Findings, width: float) -> Drawing:
    """A panel per algorithm other than the baseline, the best first."""
    names = _compared(findings)
    found = {name: sorted_differences(findings, name) for name in names}
    extreme = max((float(np.abs(each).max(initial=0.0)) for each in found.values()), default=0.0)
    n_columns = (
        1 if width < NARROW_BELOW else 2 if len(names) in (2, 4) else min(3, len(names) or 1)
    )
    panel_width = min((width - _GAP * (n_columns - 1)) / n_columns, 420.0)
    n_lines = -(-len(names) // n_columns)
    height = n_lines * (_PANEL_HEIGHT + _GAP)
    sheet = Drawing(width, height, "", _described(findings))
    sheet.title = f"{findings.primary} of each query, less that of {findings.baseline}"
    for place, name in enumerate(names):
        line, column = divmod(place, n_columns)
        panel = _panel(findings, name, found[name], panel_width, extreme or 1.0)
        sheet.paste(panel, column * (panel_width + _GAP), line * (_PANEL_HEIGHT + _GAP))
    return sheet


def _compared(findings: Findings) -> list[str]:
    comparison = findings.comparison
    known = {pair.name for pair in comparison.pairs} if comparison else set()
    return [name for name in findings.ranked() if name in known]


def _panel(findings: Findings, name: str, found: Floats, width: float, extreme: float) -> Drawing:
    """The sorted differences of one algorithm around a line at 0."""
    assert findings.comparison is not None
    panel = Drawing(width, _PANEL_HEIGHT, "", "")
    bottom = _PANEL_HEIGHT - _BOTTOM
    scale = Scale(-extreme * 1.05, extreme * 1.05, bottom, _TOP)
    panel.text(_LEFT, 14, shorten(name, 32), is_bold=True)
    pair = findings.comparison[name]
    panel.text(_LEFT, 30, f"mean {words.signed(pair.difference)}", role="muted", size=11)
    for tick in linear_ticks(-extreme, extreme, 5):
        y = scale(tick)
        panel.line(_LEFT, y, width, y, "axis" if tick == 0 else "grid")
        text = tick_text(tick).replace("-", "−")
        panel.text(_LEFT - 6, y + 4, text, "end", role="muted", size=11)
    roles = ("worse", "better") if is_lower_better(findings.primary) else ("better", "worse")
    for role, part in zip(roles, (np.maximum(found, 0.0), np.minimum(found, 0.0)), strict=True):
        if part.any():
            outline = _steps(part, scale, _LEFT, width)
            panel.add(Line(outline, role, is_filled=True))
    panel.text(width, _TOP + 12, f"better {pair.wins:,}", "end", role="better", is_bold=True)
    panel.text(_LEFT + 6, bottom - 4, f"worse {pair.losses:,}", role="worse", is_bold=True)
    ties = f"{words.count(pair.n_queries, 'query')}, {pair.ties:,} equal"
    panel.text(width, _PANEL_HEIGHT - 8, ties, "end", role="muted", size=11)
    return panel


def _steps(
    found: Floats, scale: Scale, left: float, right: float
) -> tuple[tuple[float, float], ...]:
    """The outline of a bar per query; of many queries, of as many quantiles as can be told apart."""
    n_steps = min(found.size, _MOST_STEPS)
    heights = np.quantile(found, 1.0 - (np.arange(n_steps) + 0.5) / n_steps)
    if found.size <= _MOST_STEPS:
        heights = found
    heights = heights.copy()
    heights[[0, -1]] = found[[0, -1]]  # the extremes are shown as they are
    edges = np.linspace(left, right, n_steps + 1)
    points = [(left, scale(0.0))]
    for place, height in enumerate(heights):
        y = scale(float(height))
        points += [(float(edges[place]), y), (float(edges[place + 1]), y)]
    return (*points, (right, scale(0.0)))


def _described(findings: Findings) -> str:
    comparison = findings.comparison
    assert comparison is not None
    pairs = [comparison[name] for name in _compared(findings)[:25]]
    parts = [
        f"{pair.name}: better for {pair.wins:,}, equal for {pair.ties:,}, worse for {pair.losses:,}, "
        f"mean {words.signed(pair.difference)}"
        for pair in pairs
    ]
    return f"Compared with {comparison.baseline}. {'; '.join(parts)}."


def differences_table(findings: Findings) -> Table:
    """Quantiles of the differences."""
    names = ["least", "5 %", "25 %", "median", "75 %", "95 %", "most"]
    columns = [Column("algorithm", is_number=False), *map(Column, names)]
    rows = []
    for name in _compared(findings):
        found = sorted_differences(findings, name)
        shares = [float(np.quantile(found, share)) if found.size else np.nan for share in _SHARES]
        rows.append([name_cell(name), *(number_cell(words.signed(v), v) for v in shares)])
    title = f"Quantiles over queries of the difference in {findings.primary}"
    return Table("differences", title, columns, rows)
