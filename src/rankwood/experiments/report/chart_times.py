"""The chart of times: what training took against what it gave."""

from __future__ import annotations

import math

from rankwood.experiments.report import words
from rankwood.experiments.report.chart_means import NARROW_BELOW
from rankwood.experiments.report.drawing import Drawing, Mark, series, shape_of, shorten, width_of
from rankwood.experiments.report.findings import Findings
from rankwood.experiments.report.scales import Scale, log_range, value_range
from rankwood.experiments.report.tables import Column, Table, name_cell, number_cell

_LABEL = 11.5  # size
_LINE = 14.0
_Spot = tuple[float, float, float, float]  # left, top, right, bottom


def _points(findings: Findings) -> dict[str, tuple[float, float]]:
    """Median seconds and mean, of the algorithms that have both."""
    points = {}
    for name in findings.ranked():
        seconds = findings.seconds(name, "fit")
        mean = findings.standings[name, findings.primary].mean
        if seconds > 0.0 and math.isfinite(mean):
            points[name] = (seconds, mean)
    return points


def times_chart(findings: Findings, width: float) -> Drawing:
    """A mark per algorithm with its name beside it."""
    points = _points(findings)
    is_narrow = width < NARROW_BELOW
    bottom = 270.0 if is_narrow else 350.0
    sheet = Drawing(width, bottom + 46, f"Training time and {findings.primary}", "")
    sheet.description = _described(findings, points)
    across = Scale(*log_range(s for s, _ in points.values()), 54.0, width - 14.0, is_log=True)
    up = Scale(*value_range((mean for _, mean in points.values()), 0.12), bottom, 18.0)
    _draw_axes(sheet, findings.primary, across, up)
    places = {name: (across(seconds), up(mean)) for name, (seconds, mean) in points.items()}
    taken = [(x - 8, y - 8, x + 8, y + 8) for x, y in places.values()]
    for name, (x, y) in places.items():
        place = findings.place(name)
        label = shorten(name, 16 if is_narrow else 24)
        spot = _free_spot(x, y, label, taken, (across.start, up.end, width - 6, bottom))
        taken.append(spot)
        middle = (spot[1] + spot[3]) / 2
        edge = spot[0] if spot[0] > x else spot[2] if spot[2] < x else (spot[0] + spot[2]) / 2
        if math.hypot(edge - x, middle - y) > 24:
            sheet.line(x, y, edge, middle, "axis", width=0.8)
        sheet.add(Mark(x, y, shape_of(place), series(place), 5.5, hint=_hint(points[name])))
        is_best = name == findings.best
        sheet.text(spot[0] + 2, spot[3] - 3, label, size=_LABEL, is_bold=is_best)
    return sheet


def _free_spot(x: float, y: float, label: str, taken: list[_Spot], limits: _Spot) -> _Spot:
    """Where a label stands: the nearest place around its mark where it hides nothing."""
    width = width_of(label, _LABEL) + 4
    for distance in (10.0, 18.0, 30.0, 44.0, 60.0, 80.0, 104.0):
        for across, down in ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)):
            left = (
                x + distance * across - (width if across < 0 else width / 2 if across == 0 else 0)
            )
            top = y + distance * down - _LINE / 2
            spot = (left, top, left + width, top + _LINE)
            is_inside = (
                spot[0] >= limits[0]
                and spot[1] >= limits[1]
                and spot[2] <= limits[2]
                and spot[3] <= limits[3]
            )
            if is_inside and not any(_meet(spot, other) for other in taken):
                return spot
    return (x + 10, y - _LINE / 2, x + 10 + width, y + _LINE / 2)


def _meet(one: _Spot, other: _Spot) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _draw_axes(sheet: Drawing, measure: str, across: Scale, up: Scale) -> None:
    for tick in up.ticks(6):
        sheet.line(across.start, up(tick), across.end, up(tick), "grid")
        sheet.text(across.start - 8, up(tick) + 4, f"{tick:.6g}", "end", role="muted", size=11)
    last = -math.inf
    for tick in across.ticks():
        x, text = across(tick), words.duration(tick).replace(".0 s", " s")
        room = width_of(text, 11) / 2
        if x - last > 2 * room + 8 and x + room < sheet.width:
            sheet.line(x, up.end, x, up.start, "grid")
            sheet.text(x, up.start + 17, text, "middle", role="muted", size=11)
            last = x
    sheet.line(across.start, up.start, across.end, up.start, "axis")
    sheet.text(across.start, 11, f"mean {measure}", role="muted", size=11)
    middle = (across.start + across.end) / 2
    sheet.text(middle, up.start + 36, "median time to fit a cell", "middle", role="muted")


def _hint(point: tuple[float, float]) -> str:
    return f"{words.duration(point[0])}, {words.number(point[1])}"


def _described(findings: Findings, points: dict[str, tuple[float, float]]) -> str:
    parts = [f"{name}: {_hint(point)}" for name, point in list(points.items())[:25]]
    return f"Median time to fit, and mean {findings.primary}. {'; '.join(parts)}."


def times_table(findings: Findings) -> Table:
    """The numbers of the chart."""
    columns = [Column("algorithm", is_number=False), Column("seconds"), Column(findings.primary)]
    rows = [
        [name_cell(name), number_cell(f"{s:.3f}", s), number_cell(words.number(mean), mean)]
        for name, (s, mean) in _points(findings).items()
    ]
    return Table("times", "Time to fit and quality", columns, rows)
