"""The chart of means: a row per algorithm, its mean as a mark on its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rankwood.experiments.report import words
from rankwood.experiments.report.drawing import SIZE, Drawing, Mark, shorten, widest
from rankwood.experiments.report.findings import Findings, Standing
from rankwood.experiments.report.scales import Scale, tick_text, value_range
from rankwood.experiments.report.tables import Column, Table, name_cell, number_cell

_HEAD, _FOOT = 14.0, 46.0
_VALUE_ROOM = 92.0  # right of the plot, for the mean and its marks
NARROW_BELOW = 560.0  # pixels: names stand above their rows, not beside


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

    def middle(self, place: int) -> float:
        """The line on which the marks of a row stand."""
        return self.top + self.step * (place + (0.68 if self.is_narrow else 0.5))

    def draw_axis(self, sheet: Drawing, scale: Scale, title: str) -> None:
        """The grid, its ticks and what is measured."""
        for tick in scale.ticks(4 if self.is_narrow else 8):
            x = scale(tick)
            sheet.line(x, self.top - 4, x, self.bottom + 4, "grid")
            sheet.text(x, self.bottom + 18, tick_text(tick), "middle", role="muted", size=11)
        sheet.line(self.left, self.bottom + 4, self.right, self.bottom + 4, "axis")
        middle = (self.left + self.right) / 2
        sheet.text(middle, self.bottom + 38, title, "middle", role="muted")

    def draw_name(
        self, sheet: Drawing, place: int, is_bold: bool, value: str, above: float = 12.0
    ) -> None:
        """The name of a row and its value: beside it, or ``above`` its line on a narrow sheet."""
        shown, y = shorten(self.names[place]), self.middle(place)
        if self.is_narrow:
            sheet.text(self.left, y - above, shown, is_bold=is_bold)
            sheet.text(self.right, y - above, value, "end", role="muted")
        else:
            sheet.text(self.left - 12, y + 4, shown, "end", is_bold=is_bold)
            sheet.text(self.right + 12, y + 4, value, is_bold=is_bold)


def means_chart(findings: Findings, measure: str, width: float) -> Drawing:
    """A row per algorithm, the best first; the interval as a line, the mean as a mark."""
    names = findings.ranked(measure)
    standings = [findings.standings[name, measure] for name in names]
    rows = Rows.of(names, width, 28.0, _VALUE_ROOM)
    ends = [end for each in standings for end in (each.mean, *each.interval)]
    scale = Scale(*value_range(ends), rows.left + 8, rows.right - 8)
    sheet = Drawing(width, rows.height, f"Mean {measure} with 95 % intervals", "")
    sheet.description = _described(findings, measure)
    rows.draw_axis(sheet, scale, measure)
    comparison = findings.comparisons[measure]
    baseline = comparison.baseline if comparison else None
    if baseline is not None:
        x = scale(findings.standings[baseline, measure].mean)
        sheet.line(x, rows.top - 4, x, rows.bottom + 4, "muted", dash="4 3")
    for place, (name, standing) in enumerate(zip(names, standings, strict=True)):
        value = f"{words.number(standing.mean)} {standing.marks}".strip()
        rows.draw_name(sheet, place, standing.is_best, value)
        if not math.isnan(standing.mean):
            _draw_standing(sheet, scale, rows.middle(place), standing, name == baseline)
    return sheet


def _draw_standing(
    sheet: Drawing, scale: Scale, y: float, standing: Standing, is_baseline: bool
) -> None:
    is_filled = standing.is_best or standing.is_tied_with_best
    role = "accent" if is_filled else "muted"
    if not any(math.isnan(end) for end in standing.interval):
        low, high = (scale(end) for end in standing.interval)
        sheet.line(low, y, high, y, role, width=2.0)
        for end in (low, high):
            sheet.line(end, y - 4, end, y + 4, role, width=2.0)
    shape = "square" if is_baseline else "diamond" if standing.is_best else "circle"
    hint = f"{words.number(standing.mean)} ({words.interval(standing.interval)})"
    size = SIZE * 0.42
    sheet.add(Mark(scale(standing.mean), y, shape, role, size, is_filled, hint))


def _described(findings: Findings, measure: str) -> str:
    lines = []
    for name in findings.ranked(measure)[:25]:
        standing = findings.standings[name, measure]
        bounds = words.interval(standing.interval)
        lines.append(f"{name} {words.number(standing.mean)}" + (f" ({bounds})" if bounds else ""))
    return f"{measure}, from the best to the worst: {'; '.join(lines)}."


def means_table(findings: Findings, measure: str) -> Table:
    """The numbers of the chart."""
    columns = [Column("algorithm", is_number=False), Column("mean"), Column("from"), Column("to")]
    rows = []
    for name in findings.ranked(measure):
        standing = findings.standings[name, measure]
        ends = [standing.mean, *standing.interval]
        rows.append([name_cell(name), *(number_cell(words.number(end), end) for end in ends)])
    return Table(f"means-{measure}", f"Mean {measure}", columns, rows)
