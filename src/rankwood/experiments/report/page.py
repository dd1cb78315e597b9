"""The page: one HTML file with its style, script and data inside; it asks no other file or server for anything."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from rankwood import __version__
from rankwood.experiments.report import sections, words
from rankwood.experiments.report.charts import Chart, charts_of
from rankwood.experiments.report.explorer_data import explorer_data
from rankwood.experiments.report.findings import Findings
from rankwood.experiments.report.markup import Markup, data_block, element, join, named
from rankwood.experiments.report.repeating import repeat_part

_TITLES = {
    "results": "Results",
    "comparisons": "Comparisons",
    "charts": "Charts",
    "queries": "Queries",
    "failures": "Failed cells",
    "warnings": "Warnings",
    "parameters": "Parameters",
    "times": "Times",
    "conventions": "Conventions",
    "repeat": "How to repeat",
}


def html_page(findings: Findings) -> str:
    """The whole report as one page."""
    script, style = _asset("report.js"), _asset("report.css")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        _policy(script),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"Rankwood {__version__}"),
        element("meta", name="description", content=words.summary(findings)[:500]),
        element("title", f"{findings.results.name} · Rankwood report"),
        element("link", rel="icon", href="data:,"),
        Markup(f"<style>\n{style}</style>"),
    )
    body = element("body", *_body(findings), Markup(f"<script>{script}</script>"))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    """A file that is packaged beside this module."""
    return resources.files("rankwood.experiments.report").joinpath(name).read_text("utf-8")


def _policy(script: str) -> Markup:
    """Forbid the page every other file and every script but its own, whatever the names in it may hold."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    rules = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        f"script-src 'sha256-{digest}'"
    )
    return element("meta", http_equiv="Content-Security-Policy", content=rules)


def _body(findings: Findings) -> list[Markup]:
    charts, data = charts_of(findings), explorer_data(findings)
    parts = _parts(findings, charts, sections.explorer_part(findings, data))
    links = sections.contents((key, _TITLES[key]) for key in parts)
    header = element(
        "header",
        element("p", "Rankwood report", class_="kicker"),
        element("h1", named(findings.results.name)),
        sections.summary_part(findings),
        element("button", "Dark", type="button", id="theme", hidden=True, aria_pressed="false"),
    )
    about = element("footer", element("p", f"Made by Rankwood {__version__}."))
    main = element("main", header, links, *parts.values(), about)
    skip = element("a", "To the results", href="#results", class_="skip")
    return [skip, main, data_block("explorer-data", data.content)]


def _parts(findings: Findings, charts: list[Chart], explorer: Markup | None) -> dict[str, Markup]:
    """The parts that have something to show, in their order."""
    means = [chart for chart in charts if chart.key.startswith("means")]
    differences = [chart for chart in charts if chart.key == "differences"]
    others = [chart for chart in charts if chart not in means + differences]
    record = findings.results.record
    parts = {
        "results": sections.results_part(findings, means),
        "comparisons": sections.comparison_part(findings, differences),
        "charts": sections.charts_part(others),
        "queries": explorer,
        "failures": sections.failures_part(findings),
        "warnings": sections.warnings_part(findings),
        "parameters": sections.parameters_part(findings),
        "times": sections.times_part(findings),
        "conventions": sections.conventions_part(findings),
        "repeat": sections.section("repeat", "How to repeat", join(*repeat_part(record))),
    }
    return {key: part for key, part in parts.items() if part is not None}
