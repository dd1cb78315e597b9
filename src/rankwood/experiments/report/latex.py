"""The tables of a report as LaTeX, for a paper: booktabs, marks as superscripts, ties underlined."""

from __future__ import annotations

import re

from rankwood.experiments.report.findings import Findings
from rankwood.experiments.report.main_tables import pairs_table, results_table
from rankwood.experiments.report.markup import clean
from rankwood.experiments.report.tables import Cell, Table

_HEAD = """\
% Tables made by Rankwood. Put \\usepackage{booktabs} in the preamble, and this file where they belong:
% \\input{tables.tex}
"""
_SIGNS = {
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


def escaped(text: str) -> str:
    """Text that LaTeX sets as it is."""
    return "".join(_SIGNS.get(letter, letter) for letter in " ".join(clean(text).split()))


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
    return _HEAD + "\n" + "\n".join(tables)


def _table(table: Table, label: str, caption: str) -> str:
    """One table with its caption above and its notes in the caption."""
    kinds = "".join("r" if column.is_number else "l" for column in table.columns)
    head = " & ".join(escaped(column.name) for column in table.columns)
    rows = [" & ".join(_cell(cell) for cell in row) + r" \\" for row in table.rows]
    note = " ".join([caption, *table.notes])
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escaped(note)}}}",
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


def _cell(cell: Cell) -> str:
    text = escaped(cell.text)
    text = rf"\textbf{{{text}}}" if cell.is_best else text
    text = rf"\underline{{{text}}}" if cell.is_tied else text
    marks = escaped(cell.marks)
    if marks:
        text += rf"\textsuperscript{{{marks}}}"
    return text
