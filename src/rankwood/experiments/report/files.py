"""The report as files: the page, figures, Markdown, LaTeX tables for a paper, and CSV.

Markdown has links to the figures beside it. LaTeX uses booktabs, with marks as superscripts and ties underlined; a
table that is wider than the column is shrunk to it. CSV has one value per field, with every digit.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankwood._core.files import atomic_path, explained_writing
from rankwood.errors import ParameterError, UnknownName
from rankwood.evaluation.plots import has_matplotlib
from rankwood.evaluation.results import interval_ends
from rankwood.experiments.report import formatting
from rankwood.experiments.report.charts import WIDE, Chart, charts_of
from rankwood.experiments.report.findings import Findings, find
from rankwood.experiments.report.page import commands_of, facts_of, html_page
from rankwood.experiments.report.render import clean, svg_file, write_png
from rankwood.experiments.report.tables import (
    Table,
    TableCell,
    importance_table,
    pairs_table,
    paper_table,
    parameters_table,
    practical_table,
    results_table,
    spread_table,
    times_by_algorithm,
    tuning_table,
    weights_table,
)
from rankwood.experiments.results import RunResults

FORMATS = ("html", "md", "tex", "csv", "svg", "png")
TREC = "trec"  # qrels and runs for other programs; written where it is asked for
_logger = logging.getLogger("rankwood.report")
_MARKDOWN_SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~$])")
_LATEX_HEAD = """\
% Tables made by Rankwood. Put \\usepackage{booktabs} and \\usepackage{graphicx} in the preamble, and this file, or a
% table of it, where it belongs: \\input{tables.tex}. A table fits the column: it is set as wide as it is, or as wide as
% \\columnwidth, whichever is less.
"""
_LATEX_SHRINK = r"\resizebox{\ifdim\width>\columnwidth\columnwidth\else\width\fi}{!}{%"
_MOST_LETTERS = 72  # across a table of results: in a column of 240 pt they are set two thirds as large as the text
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
    "‡": r"\ddag{}",
    "×": r"$\times$",
    "±": r"$\pm$",
    "∞": r"$\infty$",
    "…": r"\dots{}",
    "�": "?",
}


def write_report(
    results: RunResults, folder: str | Path, *, formats: Sequence[str] = FORMATS
) -> Path:
    """Write the report of a run and return the path of its page.

    Parameters
    ----------
    results
        The run's results.
    folder
        Where ``report.html``, ``report.md``, ``tables.tex``, ``tables/*.csv`` and ``figures/*`` go; it is made if
        there is none. A path that ends in ``.html`` gets the page alone.
    formats
        Some of html, md, tex, csv, svg, png; and trec, for qrels and runs in the folder ``trec``. PNG needs
        matplotlib (extra ``report``); where it is missing, SVG are written instead, and the log says so.
    """
    chosen = _checked(formats)
    if not results.algorithms or not results.measures:
        raise ParameterError("a report needs at least one algorithm and one measure.")
    target = Path(folder)
    if target.suffix.lower() in (".html", ".htm"):
        _write(target, html_page(find(results)))
        return target
    with explained_writing(target):
        target.mkdir(parents=True, exist_ok=True)
    findings = find(results)
    page = target / "report.html"
    if "html" in chosen:
        _write(page, html_page(findings))
    _write_others(findings, target, chosen)
    return page


def _checked(formats: Sequence[str]) -> set[str]:
    wanted = [formats] if isinstance(formats, str) else list(formats)
    for name in wanted:
        if name not in (*FORMATS, TREC):
            raise UnknownName("format", str(name), (*FORMATS, TREC))
    if not wanted:
        raise ParameterError(f"formats is empty; name some of {', '.join(FORMATS)}.")
    if "png" in wanted and not has_matplotlib():
        _logger.warning(
            "PNG needs the package 'matplotlib'; figures are written as SVG instead. Install it with: "
            "pip install 'rankwood[report]'"
        )
        wanted = [name for name in wanted if name != "png"] + ["svg"]
    return set(wanted)


def _write_others(findings: Findings, folder: Path, chosen: set[str]) -> None:
    charts = charts_of(findings)
    if chosen & {"svg", "png"}:
        _write_figures(charts, folder / "figures", chosen)
    if TREC in chosen:
        findings.results.write_trec(folder / TREC)
    if "csv" in chosen:
        for name, text in csv_files(findings).items():
            _write(folder / "tables" / name, text)
    if "tex" in chosen:
        _write(folder / "tables.tex", latex_tables(findings))
    if "md" in chosen:
        kind = next((kind for kind in ("svg", "png") if kind in chosen), None)
        _write(folder / "report.md", markdown_report(findings, charts, kind))


def _write_figures(charts: Sequence[Chart], folder: Path, chosen: set[str]) -> None:
    with explained_writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        drawing = chart.draw(WIDE)
        if "svg" in chosen:
            _write(folder / f"{chart.key}.svg", svg_file(drawing))
        if "png" in chosen:
            path = folder / f"{chart.key}.png"
            with explained_writing(path), atomic_path(path) as temporary:
                write_png(drawing, temporary)


def _write(path: Path, text: str) -> None:
    with explained_writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="replace", newline="\n")


# Text.


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is, in a table too."""
    return _MARKDOWN_SIGNS.sub(r"\\\1", " ".join(clean(text).split()))


def markdown_report(findings: Findings, charts: Sequence[Chart], kind: str | None) -> str:
    """The report; ``kind`` is that of the figures beside it, None where there are none."""
    results = findings.results
    parts = [f"# {escape_markdown(results.name)}", escape_markdown(formatting.summary(findings))]
    parts += [escape_markdown(note) for note in results.notes]
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
    others = (
        spread_table(findings, findings.primary),
        practical_table(findings),
        parameters_table(findings),
        tuning_table(findings),
        importance_table(findings),
        weights_table(findings),
        times_by_algorithm(findings),
    )
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
    """The results, and a table of differences with intervals for the comparisons by every measure."""
    results = findings.results
    parts = list(_cut(results_table(findings, with_intervals=False)))
    tables = []
    for number, part in enumerate(parts, 1):
        of_all = f", part {number} of {len(parts)}" if len(parts) > 1 else ""
        label = "results" if number == 1 else f"results-{number}"
        tables.append(_table(part, label, f"Results of {results.name}{of_all}."))
    for measure in results.measures:
        table = paper_table(findings, measure)
        if table is not None:
            label = re.sub(r"[^A-Za-z0-9@.-]+", "-", measure).strip("-")
            tables.append(_table(table, f"comparisons-{label}", f"{table.title}."))
    return _LATEX_HEAD + "\n" + "\n".join(tables)


def _cut(table: Table) -> Iterator[Table]:
    """The table with some of its columns after the first at a time, so that none must be set very small to fit."""

    def width(column: int) -> int:
        cells = [row[column] for row in table.rows]
        texts = [table.columns[column].name, *(cell.text + cell.marks for cell in cells)]
        return max(map(len, texts)) + 2

    parts: list[list[int]] = [[]]
    for column in range(1, len(table.columns)):
        taken = sum(map(width, (0, *parts[-1])))
        if parts[-1] and taken + width(column) > _MOST_LETTERS:
            parts.append([])
        parts[-1].append(column)
    for part in parts:
        chosen = (0, *part)
        columns = [table.columns[column] for column in chosen]
        rows = [[row[column] for column in chosen] for row in table.rows]
        yield replace(table, columns=columns, rows=rows)


def _table(table: Table, label: str, caption: str) -> str:
    """One table with its caption above and its notes below, no wider than the column."""
    kinds = "".join("r" if column.is_number else "l" for column in table.columns)
    head = " & ".join(escape_latex(column.name) for column in table.columns)
    rows = [" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in table.rows]
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(caption)}}}",
        rf"  \label{{tab:{label}}}",
        f"  {_LATEX_SHRINK}",
        rf"  \begin{{tabular}}{{@{{}}{kinds}@{{}}}}",
        r"    \toprule",
        rf"    {head} \\",
        r"    \midrule",
        *(f"    {row}" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}}",
        r"  \par\smallskip",
        rf"  \parbox{{\columnwidth}}{{\footnotesize {escape_latex(' '.join(table.notes))}}}",
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
    """By file name: results, comparisons, values by query, cells; spread, trials and weights where there are some."""
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
    if findings.n_repetitions > 1:
        files["spread.csv"] = _text(_spread(findings))
    trials = list(_trials(findings))
    if trials:
        files["tuning.csv"] = _text(trials)
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
                **interval_ends(standing.interval),
                "queries": standing.n_queries,
                "marks": standing.marks,
                "best": int(standing.is_best),
                "tied_with_best": int(standing.is_tied_with_best),
                "missing_cells": standing.n_missing,
            }


def _spread(findings: Findings) -> Iterable[dict[str, Any]]:
    """By algorithm and measure, how values vary over seeds, and the variance components of a value."""
    for measure in findings.results.measures:
        for name in findings.results.algorithms:
            means = findings.by_repetition(name, measure)
            parts = findings.components(name, measure)
            yield {
                "algorithm": name,
                "measure": measure,
                "repetitions": len(means),
                "sd_of_mean": float(means.std(ddof=1)) if means.size > 1 else math.nan,
                "variance_query": parts.query,
                "variance_seed": parts.seed,
                "variance_query_by_seed": parts.query_by_seed,
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


def _trials(findings: Findings) -> Iterable[dict[str, Any]]:
    for cell in findings.results.cells:
        for number, trial in enumerate(cell.tuned, start=1):
            value = trial["value"]
            yield {
                "algorithm": cell.algorithm,
                "fold": cell.fold,
                "repetition": cell.repetition,
                "trial": number,
                **{key: _plain(value) for key, value in trial["parameters"].items()},
                findings.primary: math.nan if value is None else value,
                "chosen": int(trial["parameters"] == cell.chosen),
                "error": trial.get("error", ""),
            }


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str) else json.dumps(value, default=str)


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
