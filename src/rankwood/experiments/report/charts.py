"""The charts of a report: each with a title, a caption, a drawing for any width, and a table of its numbers.

The charts with two axes are made here: a measure by boosting round or tree, and quality against training time.
``chart_rows`` makes those with a row for each algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from rankwood.dtypes import Floats
from rankwood.experiments.report import formatting
from rankwood.experiments.report.chart_rows import (
    NARROW_BELOW,
    differences_chart,
    differences_table,
    folds_chart,
    folds_table,
    intervals_chart,
    intervals_table,
    means_chart,
    means_table,
    means_title,
)
from rankwood.experiments.report.drawing import (
    Drawing,
    Line,
    Mark,
    Scale,
    dash_of,
    log_range,
    series,
    shape_of,
    shorten,
    spread,
    tick_text,
    value_range,
    widest,
    width_of,
)
from rankwood.experiments.report.findings import Findings
from rankwood.experiments.report.tables import Column, Table, TableCell, name_cell, number_cell

_MOST_POINTS = 300  # of a line
_MARKS = 6  # on a line
_NEAR_THE_EDGE = 12.0  # pixels between the end of a line and that of the plot
_ROWS = 12  # of the table
_KEY_LINE = 18.0  # height of a line of the key
_LABEL, _LABEL_LINE = 11.5, 14.0  # size and height of the names in the chart of times
_Spot = tuple[float, float, float, float]  # left, top, right, bottom
WIDE, NARROW = 860.0, 340.0  # pixels: a desktop or a page of paper, and a phone
_CAPTIONS = {
    "intervals": (
        "The mean difference of each algorithm from the baseline, and the interval of the test that decides. A filled "
        "mark is a significant difference, after the correction for several comparisons; intervals are those of each "
        "comparison by itself."
    ),
    "medians": (
        "Wilcoxon's test decides: the Hodges-Lehmann median of each algorithm's differences from the baseline that are "
        "not 0, and its interval. Where differences are skewed, their mean is another number. A filled mark is a "
        "significant difference, after the correction for several comparisons; intervals are those of each comparison "
        "by itself."
    ),
    "means": (
        "A filled mark is the best algorithm or one that is not shown to differ from it; a square is the "
        "baseline, whose mean is the dashed line. Intervals come from resampled queries and are those of each mean "
        "alone: whether two algorithms differ is told by the paired tests."
    ),
    "pooled": (
        "A filled mark is the best algorithm. The measure is taken over the documents of all queries together, fold by "
        "fold: there are no values by query, and so no intervals and no tests."
    ),
    "differences": (
        "The queries of each algorithm from its largest gain to its largest loss. All panels share one scale."
    ),
    "folds": (
        "Each number is a fold, at the mean over its queries; the upright bar is the mean over all queries."
    ),
    "rounds": (
        "The mean over folds and repetitions, as far as all of them went; on validation data, where the algorithm "
        "was given some. A line ends with the last round that was measured."
    ),
    "times": (
        "Up is better, left is faster. Times are medians over folds and repetitions, on a logarithmic scale."
    ),
}


def mean_histories(findings: Findings) -> dict[str, dict[str, Floats]]:
    """By what was recorded, then by algorithm: the mean over its cells, as long as the shortest of them."""
    histories: dict[str, dict[str, list[list[float]]]] = {}
    for cell in findings.results.cells:
        for key, values in cell.history.items():
            if len(values) > 1:
                histories.setdefault(key, {}).setdefault(cell.algorithm, []).append(values)
    return {
        key: {name: _mean(by_name[name]) for name in findings.results.algorithms if name in by_name}
        for key, by_name in histories.items()
    }


def _mean(histories: list[list[float]]) -> Floats:
    """The mean by round, up to the last round that all of them measured; NaN where one of them did not measure."""
    length = min(map(len, histories))
    together = np.array([history[:length] for history in histories], np.float64)
    means: Floats = together.mean(axis=0)
    measured = np.flatnonzero(np.isfinite(means))
    return means[: measured[-1] + 1] if measured.size else means[:0]


def rounds_chart(findings: Findings, key: str, width: float) -> Drawing:
    """A line per algorithm with its own marks and dashes, and its name at its end."""
    lines = {n: h for n, h in mean_histories(findings)[key].items() if np.isfinite(h).any()}
    is_narrow = width < NARROW_BELOW
    names = [shorten(name, 22) for name in lines]
    right = width - (24.0 if is_narrow else min(widest(names) + 34.0, width * 0.3))
    plot_bottom = 250.0 if is_narrow else 320.0
    height = plot_bottom + 46.0 + (_KEY_LINE * len(lines) if is_narrow else 0.0)
    sheet = Drawing(width, height, f"{key} by round", _describe_rounds(key, lines))
    longest = max((history.size for history in lines.values()), default=2)
    across = Scale(1.0, float(longest), 52.0, right)
    up = Scale(*value_range(v for h in lines.values() for v in h), plot_bottom, 16.0)
    _draw_round_axes(sheet, across, up, key)
    for name, history in lines.items():
        _draw_line(sheet, across, up, findings.index_of(name), history)
    if is_narrow:
        _draw_key(sheet, findings, lines, plot_bottom + 58.0)
    else:
        _draw_names(sheet, findings, lines, across, up)
    return sheet


def _draw_round_axes(sheet: Drawing, across: Scale, up: Scale, key: str) -> None:
    _draw_value_ticks(sheet, across, up, tick_text)
    for tick in across.ticks(5 if sheet.width < NARROW_BELOW else 8):
        if tick >= 1 and tick == int(tick):
            sheet.text(
                across(tick), up.start + 17, tick_text(tick), "middle", role="muted", size=11
            )
    sheet.line(across.start, up.start, across.end, up.start, "axis")
    sheet.text(across.start, 10, shorten(key, 40), role="muted", size=11)
    _draw_title_below(sheet, across, up, "round")


def _draw_value_ticks(
    sheet: Drawing, across: Scale, up: Scale, text_of: Callable[[float], str]
) -> None:
    """A line across the plot and a number beside it for each tick of the vertical axis."""
    for tick in up.ticks(6):
        sheet.line(across.start, up(tick), across.end, up(tick), "grid")
        sheet.text(across.start - 8, up(tick) + 4, text_of(tick), "end", role="muted", size=11)


def _draw_title_below(sheet: Drawing, across: Scale, up: Scale, title: str) -> None:
    middle = (across.start + across.end) / 2
    sheet.text(middle, up.start + 36, title, "middle", role="muted")


def _draw_line(sheet: Drawing, across: Scale, up: Scale, index: int, history: Floats) -> None:
    measured = np.flatnonzero(np.isfinite(history))
    chosen = measured[
        np.unique(np.linspace(0, measured.size - 1, min(measured.size, _MOST_POINTS)).astype(int))
    ]
    points = [(across(round_ + 1), up(float(history[round_]))) for round_ in chosen]
    sheet.add(Line(tuple(points), series(index), 2.0, dash_of(index)))
    # Marks of neighbouring lines are at different rounds; where few were measured, each has its mark.
    shift = (index % 4) / 4
    places = {int(share * (len(points) - 1)) for share in (np.arange(_MARKS) + shift) / _MARKS}
    for place in range(len(points)) if len(points) <= 2 * _MARKS else sorted(places):
        x, y = points[place]
        sheet.add(Mark(x, y, shape_of(index), series(index), 4.0))


def _draw_names(
    sheet: Drawing, findings: Findings, lines: Mapping[str, Floats], across: Scale, up: Scale
) -> None:
    """The name of each line beside the plot, at the height of its end; names that would meet are moved apart.

    A line that ends before the others is not led on to its name: that would look like values.
    """
    ends = [up(float(history[-1])) for history in lines.values()]
    positions = spread(ends, 15.0, up.end, up.start)
    for (name, history), end, y in zip(lines.items(), ends, positions, strict=True):
        role = series(findings.index_of(name))
        if across.end - across(history.size) < _NEAR_THE_EDGE:
            sheet.line(across(history.size), end, across.end + 18, y, "axis", width=0.8)
        sheet.add(Mark(across.end + 18, y, shape_of(findings.index_of(name)), role, 4.0))
        sheet.text(across.end + 28, y + 4, shorten(name, 22))


def _draw_key(sheet: Drawing, findings: Findings, lines: Mapping[str, Floats], top: float) -> None:
    """Below a narrow plot: a piece of each line, its mark, its name."""
    for line, name in enumerate(lines):
        index, y = findings.index_of(name), top + line * _KEY_LINE
        style = {"width": 2.0, "dash": dash_of(index)}
        sheet.line(16, y - 4, 52, y - 4, series(index), **style)
        sheet.add(Mark(34, y - 4, shape_of(index), series(index), 4.0))
        sheet.text(62, y, shorten(name, 36))


def _describe_rounds(key: str, lines: Mapping[str, Floats]) -> str:
    parts = [
        f"{name} goes from {formatting.number(history[0])} to {formatting.number(history[-1])} "
        f"in {history.size:,} rounds"
        for name, history in list(lines.items())[:25]
    ]
    return f"{key} by round: {'; '.join(parts)}."


def rounds_table(findings: Findings, key: str) -> Table:
    """Some rounds of every line, the last among them."""
    lines = mean_histories(findings)[key]
    longest = max((history.size for history in lines.values()), default=1)
    chosen = np.unique(np.linspace(0, longest - 1, min(longest, _ROWS)).astype(int)).tolist()
    rows = [
        [
            number_cell(f"{round_ + 1:,}", round_ + 1),
            *(_value_at(history, round_) for history in lines.values()),
        ]
        for round_ in chosen
    ]
    return Table(f"rounds-{key}", f"{key} by round", [Column("round"), *map(Column, lines)], rows)


def _value_at(history: Floats, round_: int) -> TableCell:
    value = float(history[round_]) if round_ < history.size else math.nan
    return number_cell(formatting.number(value), value)


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
    sheet.description = _describe_times(findings, points)
    across = Scale(*log_range(s for s, _ in points.values()), 54.0, width - 14.0, is_log=True)
    up = Scale(*value_range((mean for _, mean in points.values()), 0.12), bottom, 18.0)
    _draw_time_axes(sheet, findings.primary, across, up)
    positions = {name: (across(seconds), up(mean)) for name, (seconds, mean) in points.items()}
    taken = [(x - 8, y - 8, x + 8, y + 8) for x, y in positions.values()]
    for name, (x, y) in positions.items():
        index = findings.index_of(name)
        label = shorten(name, 16 if is_narrow else 24)
        spot = _free_spot(x, y, label, taken, (across.start, up.end, width - 6, bottom))
        taken.append(spot)
        middle = (spot[1] + spot[3]) / 2
        edge = spot[0] if spot[0] > x else spot[2] if spot[2] < x else (spot[0] + spot[2]) / 2
        if math.hypot(edge - x, middle - y) > 24:
            sheet.line(x, y, edge, middle, "axis", width=0.8)
        sheet.add(Mark(x, y, shape_of(index), series(index), 5.5, hint=_hint(points[name])))
        is_best = name == findings.best
        sheet.text(spot[0] + 2, spot[3] - 3, label, size=_LABEL, is_bold=is_best)
    return sheet


def _free_spot(x: float, y: float, label: str, taken: list[_Spot], limits: _Spot) -> _Spot:
    """Where a label stands: the nearest position around its mark where it hides nothing."""
    width = width_of(label, _LABEL) + 4
    for distance in (10.0, 18.0, 30.0, 44.0, 60.0, 80.0, 104.0):
        for across, down in ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)):
            left = (
                x + distance * across - (width if across < 0 else width / 2 if across == 0 else 0)
            )
            top = y + distance * down - _LABEL_LINE / 2
            spot = (left, top, left + width, top + _LABEL_LINE)
            is_inside = (
                spot[0] >= limits[0]
                and spot[1] >= limits[1]
                and spot[2] <= limits[2]
                and spot[3] <= limits[3]
            )
            if is_inside and not any(_meet(spot, other) for other in taken):
                return spot
    return (x + 10, y - _LABEL_LINE / 2, x + 10 + width, y + _LABEL_LINE / 2)


def _meet(one: _Spot, other: _Spot) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _draw_time_axes(sheet: Drawing, measure: str, across: Scale, up: Scale) -> None:
    _draw_value_ticks(sheet, across, up, "{:.6g}".format)
    last = -math.inf
    for tick in across.ticks():
        x, text = across(tick), formatting.duration(tick).replace(".0 s", " s")
        room = width_of(text, 11) / 2
        if x - last > 2 * room + 8 and x + room < sheet.width:
            sheet.line(x, up.end, x, up.start, "grid")
            sheet.text(x, up.start + 17, text, "middle", role="muted", size=11)
            last = x
    sheet.line(across.start, up.start, across.end, up.start, "axis")
    sheet.text(across.start, 11, f"mean {measure}", role="muted", size=11)
    _draw_title_below(sheet, across, up, "median time to fit a cell")


def _hint(point: tuple[float, float]) -> str:
    return f"{formatting.duration(point[0])}, {formatting.number(point[1])}"


def _describe_times(findings: Findings, points: dict[str, tuple[float, float]]) -> str:
    parts = [f"{name}: {_hint(point)}" for name, point in list(points.items())[:25]]
    return f"Median time to fit, and mean {findings.primary}. {'; '.join(parts)}."


def times_table(findings: Findings) -> Table:
    """The numbers of the chart."""
    columns = [Column("algorithm", is_number=False), Column("seconds"), Column(findings.primary)]
    rows = [
        [name_cell(name), number_cell(f"{s:.3f}", s), number_cell(formatting.number(mean), mean)]
        for name, (s, mean) in _points(findings).items()
    ]
    return Table("times", "Time to fit and quality", columns, rows)


@dataclass(frozen=True)
class Chart:
    """One chart: ``draw(width)`` gives it for a screen of that width."""

    key: str  # of its element and its file
    title: str
    caption: str
    draw: Callable[[float], Drawing]
    table: Table


def charts_of(findings: Findings) -> list[Chart]:
    """Every chart that the results have numbers for."""
    primary = findings.primary
    charts = []
    for index, measure in enumerate(findings.results.measures):
        charts += _charts_by(findings, measure, index)
    if findings.comparison is not None:
        title = f"{primary} of each query, less that of {formatting.brief(findings.baseline or '')}"
        charts.insert(
            2, _chart(findings, "differences", title, differences_chart, differences_table)
        )
    if len(findings.results.folds) > 1 and charts:
        title = f"Mean {primary} by fold"
        charts.append(_chart(findings, "folds", title, folds_chart, folds_table))
    charts += [
        Chart(
            _numbered("rounds", index),
            f"{key} by round",
            _CAPTIONS["rounds"],
            partial(rounds_chart, findings, key),
            rounds_table(findings, key),
        )
        for index, key in enumerate(mean_histories(findings))
    ]
    if any(not math.isnan(findings.seconds(name, "fit")) for name in findings.results.algorithms):
        title = f"Training time and {primary}"
        charts.append(_chart(findings, "times", title, times_chart, times_table))
    return charts


def _charts_by(findings: Findings, measure: str, index: int) -> list[Chart]:
    """The differences from the baseline by one measure, and then the means."""
    charts = []
    comparison = findings.comparisons[measure]
    if comparison is not None:
        baseline = formatting.brief(comparison.baseline)
        charts.append(
            Chart(
                _numbered("intervals", index),
                f"{formatting.what_differs(comparison)} in {measure} from {baseline}, with "
                f"{comparison.interval_title}s",
                _CAPTIONS["medians" if comparison.test == "wilcoxon" else "intervals"],
                partial(intervals_chart, findings, measure),
                intervals_table(findings, measure),
            )
        )
    if findings.best_by(measure) is not None:
        standings = [findings.standings[name, measure] for name in findings.results.algorithms]
        charts.append(
            Chart(
                _numbered("means", index),
                means_title(standings, measure, findings.confidence),
                _CAPTIONS["pooled" if findings.is_of_all_documents(measure) else "means"],
                partial(means_chart, findings, measure),
                means_table(findings, measure),
            )
        )
    return charts


def _chart(
    findings: Findings,
    key: str,
    title: str,
    draw: Callable[[Findings, float], Drawing],
    table_of: Callable[[Findings], Table],
) -> Chart:
    """A chart that a report has once."""
    return Chart(key, title, _CAPTIONS[key], partial(draw, findings), table_of(findings))


def _numbered(key: str, index: int) -> str:
    return key if index == 0 else f"{key}-{index + 1}"
