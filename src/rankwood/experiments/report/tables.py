"""The tables of a report, before they are HTML, Markdown or LaTeX: results, comparisons, parameters, times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood.evaluation.significance import MARKS, Comparison, PairResult
from rankwood.experiments.report import formatting
from rankwood.experiments.report.findings import Findings, is_lower_better
from rankwood.experiments.results import CellRecord

_NOT_SHOWN = ("seed", "n_threads", "callbacks")  # how a cell was run, not what was fitted


@dataclass(frozen=True)
class TableCell:
    """One field of a table."""

    text: str
    order: float | str | None = None  # what it is sorted by; its text without
    detail: str = ""  # a second line in small print
    marks: str = ""
    is_best: bool = False
    is_tied: bool = False
    is_name: bool = False  # from the user, so that its writing direction is unknown


@dataclass(frozen=True)
class Column:
    """The head of a column."""

    name: str
    is_number: bool = True
    hint: str = ""


@dataclass(frozen=True)
class Table:
    """Columns and rows under a title; ``notes`` stand below."""

    key: str  # of its element and its files
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[TableCell]]
    notes: Sequence[str] = field(default_factory=tuple)


_ALGORITHM = Column("algorithm", is_number=False)


def name_cell(name: str, detail: str = "") -> TableCell:
    """A name from outside: of an algorithm, a fold, a query."""
    return TableCell(name, detail=detail, is_name=True)


def number_cell(text: str, value: float, **style: object) -> TableCell:
    """A number, sorted by its value."""
    return TableCell(text, order=value, **style)  # type: ignore[arg-type]


def results_table(findings: Findings, *, with_intervals: bool = True) -> Table:
    """Algorithms by measures: mean, interval, marks; the best first."""
    results = findings.results
    columns = [_ALGORITHM, *(Column(measure) for measure in results.measures)]
    rows = []
    for name in findings.ranked():
        detail = "baseline" if name == findings.baseline else ""
        cells = [
            _standing_cell(findings, name, measure, with_intervals) for measure in results.measures
        ]
        rows.append([name_cell(name, detail if with_intervals else ""), *cells])
    notes = result_notes(findings)
    title = f"Algorithms by measure; at first in the order of {findings.primary}"
    return Table("results", title, columns, rows, notes if with_intervals else notes[1:])


def _standing_cell(findings: Findings, name: str, measure: str, with_interval: bool) -> TableCell:
    standing = findings.standings[name, measure]
    return number_cell(
        formatting.number(standing.mean),
        standing.mean,
        detail=formatting.interval(standing.interval) if with_interval else "",
        marks=standing.marks + ("†" if standing.is_partial else ""),
        is_best=standing.is_best,
        is_tied=standing.is_tied_with_best and not standing.is_best,
    )


def result_notes(findings: Findings) -> list[str]:
    """What the marks of the results mean."""
    notes = ["Below each mean: its 95 % interval over resampled queries."]
    comparison = next((each for each in findings.comparisons.values() if each), None)
    if comparison is not None:
        notes += _comparison_notes(comparison)
    if any(standing.is_partial for standing in findings.standings.values()):
        notes.append(
            "†: cells failed, so this mean is over fewer queries than the others and cannot be set beside them; such "
            "an algorithm is not called the best, and tests use the queries that both have."
        )
    lower = [measure for measure in findings.results.measures if is_lower_better(measure)]
    if lower:
        notes.append(f"Lower is better: {formatting.listed(lower)}.")
    return notes


def _comparison_notes(comparison: Comparison) -> list[str]:
    marks = ", ".join(
        f"{MARKS[test]} by {formatting.TEST_NAMES[test]}" for test in comparison.tests
    )
    level = f"{comparison.level:g}"
    correction, baseline = (
        formatting.correction_text(comparison.correction),
        formatting.brief(comparison.baseline),
    )
    return [
        f"Marks: differs significantly (p < {level}, {correction}) from the baseline {baseline}, better or worse: "
        f"{marks}.",
        f"Bold: the best mean. Underlined: does not differ significantly from the best, by "
        f"{formatting.TEST_NAMES[comparison.tests[0]]}.",
    ]


def pairs_table(findings: Findings, measure: str, *, with_raw: bool = True) -> Table | None:
    """Every algorithm against the baseline by one measure; None where there is nothing to compare."""
    comparison = findings.comparisons[measure]
    if comparison is None:
        return None
    columns = [
        _ALGORITHM,
        Column("difference", hint="its mean less that of the baseline, over the queries both have"),
        Column(
            "effect size",
            hint="Cohen's d: mean difference in standard deviations of the differences",
        ),
    ]
    for test in comparison.tests:
        short = formatting.SHORT_TEST_NAMES[test]
        columns.append(
            Column(f"p, {short}", hint=formatting.correction_text(comparison.correction))
        )
    hint = "queries on which it is better than the baseline, equal, and worse; sorted by the first"
    columns += [Column("better / equal / worse", hint=hint), Column("queries")]
    order = {name: index for index, name in enumerate(findings.ranked(measure))}
    pairs = sorted(comparison.pairs, key=lambda pair: order[pair.name])
    rows = [_pair_row(comparison, pair) for pair in pairs]
    title = f"{measure}: each algorithm against {formatting.brief(comparison.baseline)}"
    return Table("comparisons", title, columns, rows, _pair_notes(comparison, with_raw))


def _pair_row(comparison: Comparison, pair: PairResult) -> list[TableCell]:
    cells = [
        name_cell(pair.name),
        number_cell(
            formatting.signed(pair.difference),
            pair.difference,
            detail=formatting.interval(pair.interval, formatting.signed),
            marks=comparison.marks(pair.name),
        ),
        number_cell(_two_decimals(pair.effect_size), pair.effect_size),
    ]
    for test in comparison.tests:
        is_significant = pair.adjusted[test] < comparison.level
        raw = formatting.p_text(pair.p[test])
        cells.append(
            number_cell(
                formatting.p_text(pair.adjusted[test]),
                pair.adjusted[test],
                detail="" if raw == "–" else f"raw {raw}",
                is_best=is_significant,
            )
        )
    counts = f"{pair.wins:,} / {pair.ties:,} / {pair.losses:,}"
    return [
        *cells,
        number_cell(counts, pair.wins),
        number_cell(f"{pair.n_queries:,}", pair.n_queries),
    ]


def _two_decimals(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−") if math.isfinite(value) else formatting.number(value)


def _pair_notes(comparison: Comparison, with_raw: bool) -> list[str]:
    return [
        f"p values are two-sided and {formatting.correction_text(comparison.correction)}, over "
        f"{formatting.count(len(comparison.pairs), 'comparison')}. Bold: below {comparison.level:g}.",
        *(["Raw: the p value as the test gives it, without that correction."] if with_raw else []),
        "Effect size: the mean difference in standard deviations of the differences (Cohen's d); 0.2 is usually "
        "called small, 0.5 middling, 0.8 large.",
        *comparison.notes,
    ]


def times_by_algorithm(findings: Findings) -> Table | None:
    """Median times by stage and the greatest memory; None where no cell tells."""
    cells = [cell for cell in findings.results.cells if cell.status == "done" and cell.seconds]
    if not cells:
        return None
    stages = list(dict.fromkeys(stage for cell in cells for stage in cell.seconds))
    columns = [_ALGORITHM, Column("cells"), *(Column(stage) for stage in stages)]
    columns += [Column("in all"), Column("peak memory")]
    rows = []
    for name in findings.results.algorithms:
        own = findings.cells_of(name)
        medians = [findings.seconds(name, stage) for stage in stages]
        total = sum(sum(cell.seconds.values()) for cell in own)
        peak = max((cell.peak_memory for cell in own), default=0)
        rows.append(
            [
                name_cell(name),
                number_cell(f"{len(own):,}", len(own)),
                *(number_cell(formatting.duration(median), median) for median in medians),
                number_cell(formatting.duration(total) if own else "–", total if own else math.nan),
                number_cell(formatting.memory(peak), peak if peak else math.nan),
            ]
        )
    notes = [
        "Times by stage are medians over cells; in all: the sum over cells and stages. Peak memory is that of the "
        "worker since it began, so cells that ran before in the same worker count too."
    ]
    return Table(
        "times-and-memory",
        "Median times by stage, time in all, greatest memory",
        columns,
        rows,
        notes,
    )


def parameters_table(findings: Findings) -> Table | None:
    """The parameters of each algorithm: what tuning chose, and the others; None where none are known."""
    rows = []
    for name in findings.results.algorithms:
        cells = [cell for cell in findings.results.cells if cell.algorithm == name]
        values = _values_of(cells)
        searched = {key for cell in cells for key in cell.chosen}
        tuned = {
            key: cells_of_value
            for key, cells_of_value in values.items()
            if key in searched or len(cells_of_value) > 1
        }
        others = [
            f"{key} = {next(iter(cells_of_value))}"
            for key, cells_of_value in values.items()
            if key not in tuned
        ]
        if values:
            texts = [_by_cell(key, cells_of_value) for key, cells_of_value in tuned.items()]
            chosen = TableCell("; ".join(texts) or "–")
            rows.append([name_cell(name), chosen, TableCell(", ".join(others) or "–")])
    if not rows:
        return None
    columns = [_ALGORITHM, Column("tuned", is_number=False), Column("others", is_number=False)]
    if all(row[1].text == "–" for row in rows):
        columns, rows = [columns[0], columns[2]], [[row[0], row[2]] for row in rows]
    notes = [
        "Fold1·2: its second repetition. Seeds differ from cell to cell; the run's record has them."
    ]
    notes = notes if len(columns) == 3 else []
    return Table("parameters", "Parameters of the fitted algorithms", columns, rows, notes)


def weights_table(findings: Findings) -> Table | None:
    """The weights that scores are composed with, cell by cell; None where no algorithm has any."""
    rows = []
    for name in findings.results.algorithms:
        for (fold, repetition), weights in findings.results.weights(name).items():
            listed = ", ".join(f"{key}: {weight:.4f}" for key, weight in weights.items())
            rows.append([name_cell(name), name_cell(f"{fold}·{repetition}"), TableCell(listed)])
    if not rows:
        return None
    columns = [_ALGORITHM, Column("cell", is_number=False), Column("weights", is_number=False)]
    notes = [
        "Fold1·2: its second repetition. P(y ≤ c): the weight of the model of this probability, which is -1 where the "
        "score is the expected label; names of rankers: the weight of the part of a blend."
    ]
    return Table("weights", "Weights that scores are composed with", columns, rows, notes)


def _values_of(cells: list[CellRecord]) -> dict[str, dict[str, list[str]]]:
    """By parameter, then by value: the cells that had it."""
    values: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        for key, value in cell.parameters.items():
            text = shown(value)
            if text and value is not None and key not in _NOT_SHOWN:
                where = f"{cell.fold}·{cell.repetition}"
                values.setdefault(key, {}).setdefault(text, []).append(where)
    return values


def _by_cell(key: str, cells_of_value: dict[str, list[str]]) -> str:
    if len(cells_of_value) == 1:
        return f"{key} = {next(iter(cells_of_value))} in all cells"
    parts = [f"{value} ({formatting.listed(where, 4)})" for value, where in cells_of_value.items()]
    return f"{key} = {', '.join(parts)}"


def shown(value: Any) -> str:
    """A value of a parameter or a record, without type names."""
    if isinstance(value, float | np.floating):
        return f"{value:g}"
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} = {shown(part)}" for key, part in value.items())
    return str(value)
