"""Charts with a row or a panel per algorithm: differences and means with intervals, folds, differences by query.

``Rows`` lays out the rows, with names beside them on a wide sheet and above them on a narrow one. The chart of
differences has a panel per algorithm, with its queries from the largest gain to the largest loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rankwood.dtypes import Floats
from rankwood.evaluation.paired_tests import Interval
from rankwood.evaluation.significance import Comparison
from rankwood.experiments.report import formatting
from rankwood.experiments.report.drawing import (
    SIZE,
    Drawing,
    Line,
    Mark,
    Scale,
    linear_ticks,
    shorten,
    tick_text,
    value_range,
    widest,
)
from rankwood.experiments.report.findings import Findings, Standing, is_lower_better
from rankwood.experiments.report.tables import Column, Table, name_cell, number_cell

_HEAD, _FOOT = 14.0, 46.0
_VALUE_ROOM = 92.0  # right of the plot, for the mean and its marks
_DIFFERENCE_ROOM = 112.0  # for a difference, which has a sign too
NARROW_BELOW = 560.0  # pixels: names stand above their rows, not beside
_RADIUS = 7.5  # of a fold's mark
_KEY_LINE = 16.0  # height of a line of the folds' key
_PANEL_HEIGHT, _GAP = 196.0, 22.0  # of the chart of differences
_TOP, _BOTTOM, _LEFT = 40.0, 26.0, 44.0  # margins of a panel
_MOST_STEPS = 160  # more queries than this are drawn by their quantiles
_SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class Rows:
    """Where the rows of a chart with a row per algorithm stand, and where their names."""

    names: list[str]
    left: float
    right: float
    top: float
    step: float
    is_narrow: bool

    @classmethod
    def of(cls, names: list[str], width: float, step: float, value_room: float) -> Rows:
        """Room for names beside the rows on a wide sheet, above them on a narrow one."""
        is_narrow = width < NARROW_BELOW
        shown = [shorten(name) for name in names]
        left = 12.0 if is_narrow else min(widest(shown) + 22.0, width * 0.4)
        room = 12.0 if is_narrow else value_room
        return cls(names, left, width - room, _HEAD, step + (20.0 if is_narrow else 0), is_narrow)

    @property
    def bottom(self) -> float:
        """Where the last row ends."""
        return self.top + self.step * len(self.names)

    @property
    def height(self) -> float:
        """Of the drawing, with the axis below."""
        return self.bottom + _FOOT

    def middle(self, row: int) -> float:
        """The line on which the marks of a row stand."""
        return self.top + self.step * (row + (0.68 if self.is_narrow else 0.5))

    def draw_axis(self, sheet: Drawing, scale: Scale, title: str) -> None:
        """The grid, its ticks and what is measured."""
        for tick in scale.ticks(4 if self.is_narrow else 8):
            x = scale(tick)
            sheet.line(x, self.top - 4, x, self.bottom + 4, "grid")
            shown = tick_text(tick).replace("-", "−")
            sheet.text(x, self.bottom + 18, shown, "middle", role="muted", size=11)
        sheet.line(self.left, self.bottom + 4, self.right, self.bottom + 4, "axis")
        middle = (self.left + self.right) / 2
        sheet.text(middle, self.bottom + 38, title, "middle", role="muted")

    def draw_name(
        self, sheet: Drawing, row: int, is_bold: bool, value: str, above: float = 12.0
    ) -> None:
        """The name of a row and its value: beside it, or ``above`` its line on a narrow sheet."""
        shown, y = shorten(self.names[row]), self.middle(row)
        if self.is_narrow:
            sheet.text(self.left, y - above, shown, is_bold=is_bold)
            sheet.text(self.right, y - above, value, "end", role="muted")
        else:
            sheet.text(self.left - 12, y + 4, shown, "end", is_bold=is_bold)
            sheet.text(self.right + 12, y + 4, value, is_bold=is_bold)


def intervals_chart(findings: Findings, measure: str, width: float) -> Drawing:
    """A row per algorithm other than the baseline, the best first: its difference with the interval, around 0."""
    comparison = findings.comparisons[measure]
    assert comparison is not None
    names = _compared(findings, measure)
    pairs = [comparison[name] for name in names]
    rows = Rows.of(names, width, 28.0, _DIFFERENCE_ROOM)
    ends = [0.0, *(end for pair in pairs for end in (pair.center, *pair.interval))]
    scale = Scale(*value_range(ends), rows.left + 8, rows.right - 8)
    what = formatting.what_differs(comparison)
    title = f"{what} in {measure} from {comparison.baseline}, {comparison.interval_title}s"
    sheet = Drawing(width, rows.height, title, _describe_intervals(comparison, names))
    rows.draw_axis(sheet, scale, f"{measure}, less that of {shorten(comparison.baseline)}")
    sheet.line(scale(0.0), rows.top - 4, scale(0.0), rows.bottom + 4, "muted", width=1.5)
    for row, pair in enumerate(pairs):
        is_significant = comparison.is_significant(pair.name)
        value = f"{formatting.signed(pair.center)} {comparison.marks(pair.name)}".strip()
        rows.draw_name(sheet, row, is_significant, value)
        if math.isfinite(pair.center):
            is_gain = (pair.center < 0.0) == is_lower_better(measure)
            role = "muted" if not is_significant else "better" if is_gain else "worse"
            hint = f"{formatting.signed(pair.center)} ({formatting.interval(pair.interval, formatting.signed)})"
            style = (role, is_significant, hint)
            _draw_interval(sheet, scale, rows.middle(row), pair.center, pair.interval, *style)
    return sheet


def _draw_interval(
    sheet: Drawing,
    scale: Scale,
    y: float,
    value: float,
    interval: Interval,
    role: str,
    is_filled: bool,
    hint: str,
    shape: str = "circle",
) -> None:
    """An interval as a line with ends, and the value as a mark on it."""
    if not any(math.isnan(end) for end in interval):
        low, high = (scale(end) for end in interval)
        sheet.line(low, y, high, y, role, width=2.0)
        for end in (low, high):
            sheet.line(end, y - 4, end, y + 4, role, width=2.0)
    sheet.add(Mark(scale(value), y, shape, role, SIZE * 0.42, is_filled, hint))


def _describe_intervals(comparison: Comparison, names: list[str]) -> str:
    lines = []
    for name in names[:25]:
        pair = comparison[name]
        bounds = formatting.interval(pair.interval, formatting.signed)
        verdict = "significant" if comparison.is_significant(name) else "not significant"
        lines.append(f"{name} {formatting.signed(pair.center)} ({bounds}), {verdict}")
    return f"{formatting.what_differs(comparison)}s from {comparison.baseline}: {'; '.join(lines)}."


def intervals_table(findings: Findings, measure: str) -> Table:
    """The numbers of the chart."""
    comparison = findings.comparisons[measure]
    assert comparison is not None
    what = formatting.what_differs(comparison)
    names = (what.lower(), "from", "to", f"p, {formatting.SHORT_TEST_NAMES[comparison.test]}")
    columns = [Column("algorithm", is_number=False), *map(Column, names)]
    rows = []
    for name in _compared(findings, measure):
        pair = comparison[name]
        ends = [pair.center, *pair.interval]
        p = pair.adjusted[comparison.test]
        cells = [*(number_cell(formatting.signed(end), end) for end in ends)]
        rows.append([name_cell(name), *cells, number_cell(formatting.p_text(p), p)])
    title = f"{what} in {measure} from {formatting.brief(comparison.baseline)}"
    return Table(f"intervals-{measure}", title, columns, rows)


def means_chart(findings: Findings, measure: str, width: float) -> Drawing:
    """A row per algorithm, the best first; the interval as a line, the mean as a mark."""
    names = findings.ranked(measure)
    standings = [findings.standings[name, measure] for name in names]
    sheet, rows, scale = _sheet_of_means(names, standings, measure, width, findings.confidence)
    comparison = findings.comparisons[measure]
    baseline = comparison.baseline if comparison else None
    if baseline is not None:
        x = scale(findings.standings[baseline, measure].mean)
        sheet.line(x, rows.top - 4, x, rows.bottom + 4, "muted", dash="4 3")
    for row, (name, standing) in enumerate(zip(names, standings, strict=True)):
        value = f"{formatting.number(standing.mean)} {standing.marks}".strip()
        rows.draw_name(sheet, row, standing.is_best, value)
        if not math.isnan(standing.mean):
            _draw_standing(sheet, scale, rows.middle(row), standing, name == baseline)
    return sheet


def trials_chart(
    names: list[str], standings: list[Standing], measure: str, width: float
) -> Drawing:
    """A row per trial of a search for a ranker, the best first; what was chosen is filled."""
    sheet, rows, scale = _sheet_of_means(names, standings, measure, width)
    for row, standing in enumerate(standings):
        rows.draw_name(sheet, row, standing.is_best, formatting.number(standing.mean))
        if not math.isnan(standing.mean):
            _draw_standing(sheet, scale, rows.middle(row), standing, False)
    return sheet


def means_title(standings: list[Standing], measure: str, confidence: str) -> str:
    """What the chart of means shows: no intervals where there are none, as of measures of all documents together."""
    has_intervals = any(math.isfinite(standing.interval[0]) for standing in standings)
    return f"Mean {measure} with {confidence} intervals" if has_intervals else measure


def _sheet_of_means(
    names: list[str],
    standings: list[Standing],
    measure: str,
    width: float,
    confidence: str = "95 %",
) -> tuple[Drawing, Rows, Scale]:
    """A drawing with its axis, where its rows stand, and where values on them."""
    rows = Rows.of(names, width, 28.0, _VALUE_ROOM)
    ends = [end for each in standings for end in (each.mean, *each.interval)]
    scale = Scale(*value_range(ends), rows.left + 8, rows.right - 8)
    sheet = Drawing(width, rows.height, means_title(standings, measure, confidence), "")
    sheet.description = _describe_means(names, standings, measure)
    rows.draw_axis(sheet, scale, measure)
    return sheet, rows, scale


def _draw_standing(
    sheet: Drawing, scale: Scale, y: float, standing: Standing, is_baseline: bool
) -> None:
    is_filled = standing.is_best or standing.is_tied_with_best
    role = "accent" if is_filled else "muted"
    shape = "square" if is_baseline else "diamond" if standing.is_best else "circle"
    hint = f"{formatting.number(standing.mean)} ({formatting.interval(standing.interval)})"
    _draw_interval(sheet, scale, y, standing.mean, standing.interval, role, is_filled, hint, shape)


def _describe_means(names: list[str], standings: list[Standing], measure: str) -> str:
    lines = []
    for name, standing in list(zip(names, standings, strict=True))[:25]:
        bounds = formatting.interval(standing.interval)
        lines.append(
            f"{name} {formatting.number(standing.mean)}" + (f" ({bounds})" if bounds else "")
        )
    return f"{measure}, from the best to the worst: {'; '.join(lines)}."


def means_table(findings: Findings, measure: str) -> Table:
    """The numbers of the chart."""
    columns = [Column("algorithm", is_number=False), Column("mean"), Column("from"), Column("to")]
    rows = []
    for name in findings.ranked(measure):
        standing = findings.standings[name, measure]
        ends = [standing.mean, *standing.interval]
        rows.append([name_cell(name), *(number_cell(formatting.number(end), end) for end in ends)])
    return Table(f"means-{measure}", f"Mean {measure}", columns, rows)


def folds_chart(findings: Findings, width: float) -> Drawing:
    """A row per algorithm, the best first; the number in a mark is that of the fold."""
    measure, names = findings.primary, findings.ranked()
    by_fold = {name: findings.by_fold(name, measure) for name in names}
    known = [value for values in by_fold.values() for value in values]
    rows = Rows.of(names, width, 48.0, 92.0)
    scale = Scale(*value_range(known), rows.left + 12, rows.right - 12)
    key = _key(findings, width)
    sheet = Drawing(width, rows.height + _KEY_LINE * len(key), f"Mean {measure} by fold", "")
    sheet.description = _describe_folds(findings)
    rows.draw_axis(sheet, scale, measure)
    for row, name in enumerate(names):
        standing, y = findings.standings[name, measure], rows.middle(row)
        rows.draw_name(sheet, row, standing.is_best, formatting.number(standing.mean), 27.0)
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
        hint = f"fold {fold + 1}: {formatting.number(value)}"
        sheet.add(Mark(x, y + height, "circle", "ink", _RADIUS, is_filled=False, hint=hint))
        sheet.text(x, y + height + 3.4, str(fold + 1), "middle", size=9.5)


def _is_free(x: float, height: float, taken: list[tuple[float, float]]) -> bool:
    return all(math.hypot(x - other, height - level) >= 2 * _RADIUS for other, level in taken)


def _key(findings: Findings, width: float) -> list[str]:
    """Which number is which fold, in lines that fit; nothing where the names are the numbers."""
    folds = findings.results.folds
    if all(fold in (str(index + 1), f"Fold{index + 1}") for index, fold in enumerate(folds)):
        return []
    lines: list[str] = []
    for index, fold in enumerate(folds):
        entry = f"{index + 1} {shorten(fold, 20)}"
        if lines and len(lines[-1]) + len(entry) + 3 < width / 6.5:
            lines[-1] += f" · {entry}"
        else:
            lines.append(entry)
    return lines


def _describe_folds(findings: Findings) -> str:
    parts = []
    for name in findings.ranked()[:25]:
        values = ", ".join(formatting.number(v) for v in findings.by_fold(name, findings.primary))
        parts.append(f"{name}: {values}")
    return f"{findings.primary} in folds 1 to {len(findings.results.folds)}. {'; '.join(parts)}."


def folds_table(findings: Findings) -> Table:
    """The numbers of the chart."""
    columns = [Column("algorithm", is_number=False), *map(Column, findings.results.folds)]
    rows = [
        [
            name_cell(name),
            *(
                number_cell(formatting.number(v), v)
                for v in findings.by_fold(name, findings.primary)
            ),
        ]
        for name in findings.ranked()
    ]
    return Table("folds", f"Mean {findings.primary} by fold", columns, rows)


def sorted_differences(findings: Findings, name: str) -> Floats:
    """The differences from the baseline over the queries both have a value of, the largest first."""
    assert findings.baseline is not None
    measure = findings.primary
    differences = findings.values[name, measure] - findings.values[findings.baseline, measure]
    return np.sort(differences[~np.isnan(differences)])[::-1]


def differences_chart(findings: Findings, width: float) -> Drawing:
    """A panel per algorithm other than the baseline, the best first."""
    names = _compared(findings)
    differences = {name: sorted_differences(findings, name) for name in names}
    extreme = max(
        (float(np.abs(each).max(initial=0.0)) for each in differences.values()), default=0.0
    )
    n_columns = (
        1 if width < NARROW_BELOW else 2 if len(names) in (2, 4) else min(3, len(names) or 1)
    )
    panel_width = min((width - _GAP * (n_columns - 1)) / n_columns, 420.0)
    n_lines = -(-len(names) // n_columns)
    height = n_lines * (_PANEL_HEIGHT + _GAP)
    sheet = Drawing(width, height, "", _describe_differences(findings))
    sheet.title = f"{findings.primary} of each query, less that of {findings.baseline}"
    for index, name in enumerate(names):
        line, column = divmod(index, n_columns)
        panel = _panel(findings, name, differences[name], panel_width, extreme or 1.0)
        sheet.paste(panel, column * (panel_width + _GAP), line * (_PANEL_HEIGHT + _GAP))
    return sheet


def _compared(findings: Findings, measure: str | None = None) -> list[str]:
    """The algorithms that were compared with the baseline by a measure, the best first."""
    comparison = findings.comparisons[measure or findings.primary]
    known = {pair.name for pair in comparison.pairs} if comparison else set()
    return [name for name in findings.ranked(measure) if name in known]


def _panel(
    findings: Findings, name: str, differences: Floats, width: float, extreme: float
) -> Drawing:
    """The sorted differences of one algorithm around a line at 0."""
    assert findings.comparison is not None
    panel = Drawing(width, _PANEL_HEIGHT, "", "")
    bottom = _PANEL_HEIGHT - _BOTTOM
    scale = Scale(-extreme * 1.05, extreme * 1.05, bottom, _TOP)
    panel.text(_LEFT, 14, shorten(name, 32), is_bold=True)
    pair = findings.comparison[name]
    panel.text(_LEFT, 30, f"mean {formatting.signed(pair.difference)}", role="muted", size=11)
    for tick in linear_ticks(-extreme, extreme, 5):
        y = scale(tick)
        panel.line(_LEFT, y, width, y, "axis" if tick == 0 else "grid")
        text = tick_text(tick).replace("-", "−")
        panel.text(_LEFT - 6, y + 4, text, "end", role="muted", size=11)
    roles = ("worse", "better") if is_lower_better(findings.primary) else ("better", "worse")
    for role, part in zip(
        roles, (np.maximum(differences, 0.0), np.minimum(differences, 0.0)), strict=True
    ):
        if part.any():
            outline = _steps(part, scale, _LEFT, width)
            panel.add(Line(outline, role, is_filled=True))
    panel.text(width, _TOP + 12, f"better {pair.wins:,}", "end", role="better", is_bold=True)
    panel.text(_LEFT + 6, bottom - 4, f"worse {pair.losses:,}", role="worse", is_bold=True)
    ties = f"{formatting.count(pair.n_queries, 'query')}, {pair.ties:,} equal"
    panel.text(width, _PANEL_HEIGHT - 8, ties, "end", role="muted", size=11)
    return panel


def _steps(
    differences: Floats, scale: Scale, left: float, right: float
) -> tuple[tuple[float, float], ...]:
    """The outline of a bar per query; of many queries, of as many quantiles as can be distinguished."""
    n_steps = min(differences.size, _MOST_STEPS)
    heights = np.quantile(differences, 1.0 - (np.arange(n_steps) + 0.5) / n_steps)
    if differences.size <= _MOST_STEPS:
        heights = differences
    heights = heights.copy()
    heights[[0, -1]] = differences[[0, -1]]  # the extremes are shown as they are
    edges = np.linspace(left, right, n_steps + 1)
    points = [(left, scale(0.0))]
    for step, height in enumerate(heights):
        y = scale(float(height))
        points += [(float(edges[step]), y), (float(edges[step + 1]), y)]
    return (*points, (right, scale(0.0)))


def _describe_differences(findings: Findings) -> str:
    comparison = findings.comparison
    assert comparison is not None
    pairs = [comparison[name] for name in _compared(findings)[:25]]
    parts = [
        f"{pair.name}: better for {pair.wins:,}, equal for {pair.ties:,}, worse for {pair.losses:,}, "
        f"mean {formatting.signed(pair.difference)}"
        for pair in pairs
    ]
    return f"Compared with {comparison.baseline}. {'; '.join(parts)}."


def differences_table(findings: Findings) -> Table:
    """Quantiles of the differences."""
    names = ["least", "5 %", "25 %", "median", "75 %", "95 %", "most"]
    columns = [Column("algorithm", is_number=False), *map(Column, names)]
    rows = []
    for name in _compared(findings):
        differences = sorted_differences(findings, name)
        shares = [
            float(np.quantile(differences, share)) if differences.size else np.nan
            for share in _SHARES
        ]
        rows.append([name_cell(name), *(number_cell(formatting.signed(v), v) for v in shares)])
    title = f"Quantiles over queries of the difference in {findings.primary}"
    return Table("differences", title, columns, rows)
