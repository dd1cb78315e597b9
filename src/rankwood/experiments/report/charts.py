"""The charts of a report: each with a title, a caption, a drawing for any width, and a table of its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rankwood.experiments.report import formatting
from rankwood.experiments.report.chart_lines import (
    mean_histories,
    rounds_chart,
    rounds_table,
    times_chart,
    times_table,
)
from rankwood.experiments.report.chart_rows import (
    differences_chart,
    differences_table,
    folds_chart,
    folds_table,
    means_chart,
    means_table,
)
from rankwood.experiments.report.drawing import Drawing
from rankwood.experiments.report.findings import Findings
from rankwood.experiments.report.tables import Table

WIDE, NARROW = 860.0, 340.0  # pixels: a desktop or a page of paper, and a phone
_CAPTIONS = {
    "means": (
        "A filled mark is the best algorithm or one that does not differ significantly from it; a square is the "
        "baseline, whose mean is the dashed line. Intervals come from resampled queries and are those of each mean "
        "alone: whether two algorithms differ is told by the paired tests."
    ),
    "differences": (
        "The queries of each algorithm from its largest gain to its largest loss. All panels share one scale."
    ),
    "folds": (
        "Each number is a fold, at the mean over its queries; the upright bar is the mean over all queries."
    ),
    "rounds": (
        "The mean over folds and repetitions, as far as all of them went; on validation data, where the algorithm "
        "was given some."
    ),
    "times": (
        "Up is better, left is faster. Times are medians over folds and repetitions, on a logarithmic scale."
    ),
}


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
    charts = [
        Chart(
            _numbered("means", index),
            f"Mean {measure} with 95 % intervals",
            _CAPTIONS["means"],
            partial(means_chart, findings, measure),
            means_table(findings, measure),
        )
        for index, measure in enumerate(findings.results.measures)
        if findings.best_by(measure) is not None
    ]
    if findings.comparison is not None:
        title = f"{primary} of each query, less that of {formatting.brief(findings.baseline or '')}"
        charts.insert(
            1, _chart(findings, "differences", title, differences_chart, differences_table)
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
