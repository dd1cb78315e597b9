"""The report as Markdown, with links to the figures beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rankwood.experiments.report import words
from rankwood.experiments.report.charts import Chart
from rankwood.experiments.report.findings import Findings
from rankwood.experiments.report.main_tables import (
    pairs_table,
    parameters_table,
    results_table,
    times_by_algorithm,
)
from rankwood.experiments.report.markup import clean
from rankwood.experiments.report.repeating import commands_of, facts_of
from rankwood.experiments.report.tables import Cell, Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$])")


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in a table too."""
    return _SPECIAL.sub(r"\\\1", " ".join(clean(text).split()))


def markdown_report(findings: Findings, charts: Sequence[Chart], kind: str | None) -> str:
    """The report; ``kind`` is that of the figures beside it, None where there are none."""
    results = findings.results
    parts = [f"# {escaped(results.name)}", escaped(words.summary(findings))]
    parts += ["## Results", markdown_table(results_table(findings))]
    for measure in results.measures:
        table = pairs_table(findings, measure)
        if table is not None:
            parts += [f"## {escaped(table.title)}", markdown_table(table)]
    if kind is not None and charts:
        parts.append("## Charts")
        for chart in charts:
            parts += [
                f"![{escaped(chart.title)}](figures/{chart.key}.{kind})",
                escaped(chart.caption),
            ]
    parts += _failures(findings)
    for other in (parameters_table(findings), times_by_algorithm(findings)):
        if other is not None:
            parts += [f"## {escaped(other.title)}", markdown_table(other)]
    parts += ["## Conventions", *_conventions(findings), "## How to repeat", *_repeat(findings)]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_table(table: Table) -> str:
    """The table, and its notes as a list; the best is bold, what does not differ from it underlined."""
    head = [escaped(column.name) for column in table.columns]
    rule = ["---:" if column.is_number else "---" for column in table.columns]
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    lines = [f"| {' | '.join(line)} |" for line in (head, rule, *rows)]
    notes = [f"- {escaped(note)}" for note in table.notes]
    return "\n".join(lines + ([""] if notes else []) + notes)


def _cell(cell: Cell) -> str:
    text = escaped(cell.text)
    text = f"**{text}**" if cell.is_best else f"<u>{text}</u>" if cell.is_tied else text
    detail = f"<br>{escaped(cell.detail)}" if cell.detail else ""
    marks = f" {escaped(cell.marks)}" if cell.marks else ""
    return text + marks + detail


def _failures(findings: Findings) -> list[str]:
    failed = [cell for cell in findings.results.cells if cell.status == "failed"]
    if not failed:
        return []
    lines = []
    for cell in failed:
        last = (cell.message.strip().splitlines() or ["no message"])[-1]
        where = f"{escaped(cell.algorithm)}, {escaped(cell.fold)}, repetition {cell.repetition}"
        lines.append(f"- {where}: {escaped(last)}")
    return ["## Failed cells", "\n".join(lines)]


def _conventions(findings: Findings) -> list[str]:
    lines = []
    for measure in findings.results.measures:
        known = dict(findings.results.conventions.get(measure, {}))
        meaning, details = words.conventions(measure, known)
        lines.append(f"- {escaped(measure)}: {escaped('; '.join([meaning, *details]))}.")
    return ["\n".join(lines)]


def _repeat(findings: Findings) -> list[str]:
    record = findings.results.record
    commands = "\n".join(commands_of(record))
    facts = [f"- {escaped(name)}: {escaped(value)}" for name, value in facts_of(record)]
    return [_fenced(commands), "\n".join(facts)]


def _fenced(text: str) -> str:
    """A block of code; its fence is longer than any run of backticks inside."""
    if not text:
        return ""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{clean(text)}\n{fence}"
