"""The charts of a report: what is drawn, with which words and which numbers beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from rankwood.experiments.report import words
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
    charts = [_means(findings, measure, place) for place, measure in _measures_with_means(findings)]
    if findings.comparison is not None:
        charts.insert(1, _differences(findings))
    if len(findings.results.folds) > 1 and charts:
        charts.append(_folds(findings))
    charts += [_rounds(findings, key, place) for place, key in enumerate(mean_histories(findings))]
    if any(not math.isnan(findings.seconds(name, "fit")) for name in findings.results.algorithms):
        charts.append(_times(findings))
    return charts


def _measures_with_means(findings: Findings) -> list[tuple[int, str]]:
    return [
        (place, measure)
        for place, measure in enumerate(findings.results.measures)
        if findings.best_by(measure) is not None
    ]


def _means(findings: Findings, measure: str, place: int) -> Chart:
    return Chart(
        "means" if place == 0 else f"means-{place + 1}",
        f"Mean {measure} with 95 % intervals",
        "A filled mark is the best algorithm or one that does not differ significantly from it; a square is the "
        "baseline, whose mean is the dashed line. Intervals come from resampled queries and are those of each mean "
        "alone: whether two algorithms differ is told by the paired tests.",
        lambda width: means_chart(findings, measure, width),
        means_table(findings, measure),
    )


def _differences(findings: Findings) -> Chart:
    return Chart(
        "differences",
        f"{findings.primary} of each query, less that of {words.brief(findings.baseline or '')}",
        "The queries of each algorithm from its largest gain to its largest loss. All panels share one scale.",
        lambda width: differences_chart(findings, width),
        differences_table(findings),
    )


def _folds(findings: Findings) -> Chart:
    return Chart(
        "folds",
        f"Mean {findings.primary} by fold",
        "Each number is a fold, at the mean over its queries; the upright bar is the mean over all queries.",
        lambda width: folds_chart(findings, width),
        folds_table(findings),
    )


def _rounds(findings: Findings, key: str, place: int) -> Chart:
    return Chart(
        "rounds" if place == 0 else f"rounds-{place + 1}",
        f"{key} by round",
        "The mean over folds and repetitions, as far as all of them went; on validation data, where the algorithm "
        "was given some.",
        lambda width: rounds_chart(findings, key, width),
        rounds_table(findings, key),
    )


def _times(findings: Findings) -> Chart:
    return Chart(
        "times",
        f"Training time and {findings.primary}",
        "Up is better, left is faster. Times are medians over folds and repetitions, on a logarithmic scale.",
        lambda width: times_chart(findings, width),
        times_table(findings),
    )
