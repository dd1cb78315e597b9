"""The report as text files: Markdown, LaTeX tables for a paper, and CSV.

Markdown has links to the figures beside it. LaTeX uses booktabs, with marks as superscripts and ties underlined. CSV
has one value per field, with every digit.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rankwood.experiments.report import formatting
from rankwood.experiments.report.charts import Chart
from rankwood.experiments.report.findings import Findings
from rankwood.experiments.report.html import clean
from rankwood.experiments.report.page import commands_of, facts_of
from rankwood.experiments.report.tables import (
    Table,
    TableCell,
    pairs_table,
    parameters_table,
    results_table,
    times_by_algorithm,
    weights_table,
)

_MARKDOWN_SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~$])")
_LATEX_HEAD = """\
% Tables made by Rankwood. Put \\usepackage{booktabs} in the preamble, and this file where they belong:
% \\input{tables.tex}
"""
_LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "*": r"{*}",
    "[": r"{[}",
    "]": r"{]}",
    "−": r"$-$",
    "–": "--",
    "†": r"\dag{}",
    "∞": r"$\infty$",
    "…": r"\dots{}",
    "�": "?",
}


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is, in a table too."""
    return _MARKDOWN_SIGNS.sub(r"\\\1", " ".join(clean(text).split()))


def markdown_report(findings: Findings, charts: Sequence[Chart], kind: str | None) -> str:
    """The report; ``kind`` is that of the figures beside it, None where there are none."""
    results = findings.results
    parts = [f"# {escape_markdown(results.name)}", escape_markdown(formatting.summary(findings))]
    parts += ["## Results", markdown_table(results_table(findings))]
    for measure in results.measures:
        table = pairs_table(findings, measure)
        if table is not None:
            parts += [f"## {escape_markdown(table.title)}", markdown_table(table)]
    if kind is not None and charts:
        parts.append("## Charts")
        for chart in charts:
            parts += [
                f"![{escape_markdown(chart.title)}](figures/{chart.key}.{kind})",
                escape_markdown(chart.caption),
            ]
    parts += _failures(findings)
    others = (parameters_table(findings), weights_table(findings), times_by_algorithm(findings))
    for other in others:
        if other is not None:
            parts += [f"## {escape_markdown(other.title)}", markdown_table(other)]
    parts += ["## Conventions", *_conventions(findings), "## How to repeat", *_repeat(findings)]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_table(table: Table) -> str:
    """The table, and its notes as a list; the best is bold, what does not differ from it underlined."""
    head = [escape_markdown(column.name) for column in table.columns]
    rule = ["---:" if column.is_number else "---" for column in table.columns]
    rows = [[_markdown_cell(cell) for cell in row] for row in table.rows]
    lines = [f"| {' | '.join(line)} |" for line in (head, rule, *rows)]
    notes = [f"- {escape_markdown(note)}" for note in table.notes]
    return "\n".join(lines + ([""] if notes else []) + notes)


def _markdown_cell(cell: TableCell) -> str:
    text = escape_markdown(cell.text)
    text = f"**{text}**" if cell.is_best else f"<u>{text}</u>" if cell.is_tied else text
    detail = f"<br>{escape_markdown(cell.detail)}" if cell.detail else ""
    marks = f" {escape_markdown(cell.marks)}" if cell.marks else ""
    return text + marks + detail


def _failures(findings: Findings) -> list[str]:
    failed = [cell for cell in findings.results.cells if cell.status == "failed"]
    if not failed:
        return []
    lines = []
    for cell in failed:
        last = (cell.message.strip().splitlines() or ["no message"])[-1]
        where = f"{escape_markdown(cell.algorithm)}, {escape_markdown(cell.fold)}, repetition {cell.repetition}"
        lines.append(f"- {where}: {escape_markdown(last)}")
    return ["## Failed cells", "\n".join(lines)]


def _conventions(findings: Findings) -> list[str]:
    lines = []
    for measure in findings.results.measures:
        known = dict(findings.results.conventions.get(measure, {}))
        meaning, details = formatting.conventions(measure, known)
        lines.append(
            f"- {escape_markdown(measure)}: {escape_markdown('; '.join([meaning, *details]))}."
        )
    return ["\n".join(lines)]


def _repeat(findings: Findings) -> list[str]:
    record = findings.results.record
    commands = "\n".join(commands_of(record))
    facts = [
        f"- {escape_markdown(name)}: {escape_markdown(value)}" for name, value in facts_of(record)
    ]
    return [_fenced(commands), "\n".join(facts)]


def _fenced(text: str) -> str:
    """A block of code; its fence is longer than any run of backticks inside."""
    if not text:
        return ""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{clean(text)}\n{fence}"


def escape_latex(text: str) -> str:
    """Text that LaTeX sets as it is."""
    return "".join(_LATEX_SIGNS.get(letter, letter) for letter in " ".join(clean(text).split()))


def latex_tables(findings: Findings) -> str:
    """The results, and the comparisons by every measure."""
    results = findings.results
    first = results_table(findings, with_intervals=False)
    tables = [_table(first, "results", f"Results of {results.name}.")]
    for measure in results.measures:
        table = pairs_table(findings, measure, with_raw=False)
        if table is not None:
            label = re.sub(r"[^A-Za-z0-9@.-]+", "-", measure).strip("-")
            tables.append(_table(table, f"comparisons-{label}", f"{table.title}."))
    return _LATEX_HEAD + "\n" + "\n".join(tables)


def _table(table: Table, label: str, caption: str) -> str:
    """One table with its caption above and its notes in the caption."""
    kinds = "".join("r" if column.is_number else "l" for column in table.columns)
    head = " & ".join(escape_latex(column.name) for column in table.columns)
    rows = [" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in table.rows]
    note = " ".join([caption, *table.notes])
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(note)}}}",
        rf"  \label{{tab:{label}}}",
        rf"  \begin{{tabular}}{{{kinds}}}",
        r"    \toprule",
        rf"    {head} \\",
        r"    \midrule",
        *(f"    {row}" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_cell(cell: TableCell) -> str:
    text = escape_latex(cell.text)
    text = rf"\textbf{{{text}}}" if cell.is_best else text
    text = rf"\underline{{{text}}}" if cell.is_tied else text
    marks = escape_latex(cell.marks)
    if marks:
        text += rf"\textsuperscript{{{marks}}}"
    return text


def csv_files(findings: Findings) -> dict[str, str]:
    """By file name: results, comparisons, values by query, cells, and weights where an algorithm has some."""
    files = {"results.csv": _text(_results(findings)), "queries.csv": _text(_queries(findings))}
    comparisons = [
        {"measure": measure, **row}
        for measure, comparison in findings.comparisons.items()
        if comparison is not None
        for row in comparison.to_rows()
    ]
    if comparisons:
        files["comparisons.csv"] = _text(comparisons)
    if findings.results.cells:
        files["cells.csv"] = _text(_cells(findings))
    weights = list(_weights(findings))
    if weights:
        files["weights.csv"] = _text(weights)
    return files


def _results(findings: Findings) -> Iterable[dict[str, Any]]:
    for measure in findings.results.measures:
        for name in findings.ranked(measure):
            standing = findings.standings[name, measure]
            yield {
                "algorithm": name,
                "measure": measure,
                "mean": standing.mean,
                "low": standing.interval[0],
                "high": standing.interval[1],
                "queries": standing.n_queries,
                "marks": standing.marks,
                "best": int(standing.is_best),
                "tied_with_best": int(standing.is_tied_with_best),
            }


def _queries(findings: Findings) -> Iterable[dict[str, Any]]:
    """A line per query, a column per measure and algorithm."""
    names = findings.results.algorithms
    columns = {
        f"{measure} {name}": findings.values[name, measure].tolist()
        for measure in findings.results.measures
        for name in names
    }
    for index, (fold, query) in enumerate(findings.results.queries):
        values = {key: column[index] for key, column in columns.items()}
        yield {"fold": fold, "query": query, **values}


def _cells(findings: Findings) -> Iterable[dict[str, Any]]:
    for cell in findings.results.cells:
        yield {
            "algorithm": cell.algorithm,
            "fold": cell.fold,
            "repetition": cell.repetition,
            "status": cell.status,
            **{f"seconds_{stage}": seconds for stage, seconds in cell.seconds.items()},
            "peak_memory": cell.peak_memory,
            **{
                f"mean_{measure}": cell.means.get(measure, math.nan)
                for measure in findings.results.measures
            },
            "parameters": json.dumps(dict(cell.parameters), default=str, ensure_ascii=False),
            "message": cell.message.strip(),
        }


def _weights(findings: Findings) -> Iterable[dict[str, Any]]:
    for name in findings.results.algorithms:
        for (fold, repetition), weights in findings.results.weights(name).items():
            for key, weight in weights.items():
                where = {"algorithm": name, "fold": fold, "repetition": repetition}
                yield {**where, "name": key, "weight": weight}


def _text(rows: Iterable[dict[str, Any]]) -> str:
    """Rows under a header that names every key of any row; empty fields where there is no value."""
    kept = list(rows)
    names = list(dict.fromkeys(key for row in kept for key in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _field(value) for key, value in row.items()} for row in kept)
    return out.getvalue()


def _field(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(float(value))
    return value
