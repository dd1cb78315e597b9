"""``write_report``: the page, and beside it the tables and figures as files of their own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from rankwood._core.files import atomic_path, explained_writing
from rankwood.errors import ParameterError, UnknownName
from rankwood.evaluation.plots import has_matplotlib
from rankwood.experiments.report.charts import WIDE, Chart, charts_of
from rankwood.experiments.report.findings import Findings, find
from rankwood.experiments.report.page import html_page
from rankwood.experiments.report.render import svg_file, write_png
from rankwood.experiments.report.text_files import csv_files, latex_tables, markdown_report
from rankwood.experiments.results import RunResults

FORMATS = ("html", "md", "tex", "csv", "svg", "png")
_logger = logging.getLogger("rankwood.report")


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
        Some of html, md, tex, csv, svg, png. PNG needs matplotlib (extra ``report``); where it is missing, SVG are
        written instead, and the log says so.
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
        if name not in FORMATS:
            raise UnknownName("format", str(name), FORMATS)
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
