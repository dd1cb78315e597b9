"""The parts of the page, from top to bottom."""

from __future__ import annotations

from collections.abc import Iterable

from rankwood.experiments.report import words
from rankwood.experiments.report.charts import NARROW, WIDE, Chart
from rankwood.experiments.report.explorer_data import ExplorerData
from rankwood.experiments.report.findings import Findings
from rankwood.experiments.report.html_tables import html_table
from rankwood.experiments.report.main_tables import (
    pairs_table,
    parameters_table,
    results_table,
    times_by_algorithm,
)
from rankwood.experiments.report.markup import Markup, element, join, named
from rankwood.experiments.report.svg import inline_svg

_MOST_FAILURES = 50
_LONGEST_MESSAGE = 8000  # letters, of its end


def section(key: str, title: str, *children: object) -> Markup:
    """A part of the page under its heading."""
    return element("section", element("h2", title), *children, id=key, class_="part")


def summary_part(findings: Findings) -> Markup:
    """What was found, in a paragraph, and the size of the run."""
    results = findings.results
    n_failed = sum(cell.status == "failed" for cell in results.cells)
    facts = [
        (len(results.algorithms), "algorithm"),
        (len(results.queries), "test query"),
        (len(results.folds), "fold"),
        (max(findings.n_repetitions, 1), "repetition"),
        (len(results.cells), "cell"),
    ]
    shown = [
        element("li", element("b", f"{amount:,}"), " " + words.count(amount, noun).split(" ", 1)[1])
        for amount, noun in facts
        if amount
    ]
    if n_failed:
        shown.append(element("li", element("b", f"{n_failed:,}"), " failed", class_="failed"))
    paragraph = element("p", words.summary(findings), class_="lead")
    return join(paragraph, element("ul", *shown, class_="facts"))


def results_part(findings: Findings, charts: list[Chart]) -> Markup:
    """The table of results, and the means as a chart."""
    others = [figure(chart) for chart in charts[1:]]
    more = element("summary", "The same chart for the other measures")
    return section(
        "results",
        "Results",
        html_table(results_table(findings)),
        *(figure(chart) for chart in charts[:1]),
        element("details", more, *others) if others else None,
    )


def comparison_part(findings: Findings, charts: list[Chart]) -> Markup | None:
    """Every algorithm against the baseline, by the measure that decides and by the others."""
    tables = [(m, pairs_table(findings, m)) for m in findings.results.measures]
    known = [(measure, table) for measure, table in tables if table is not None]
    if not known:
        return None
    first, *others = [
        html_table(table, identifier=f"comparisons-{place}")
        for place, (_, table) in enumerate(known)
    ]
    more = element("summary", "The same table for the other measures")
    return section(
        "comparisons",
        f"Compared with {words.brief(findings.baseline)}" if findings.baseline else "Comparisons",
        first,
        element("details", more, *others) if others else None,
        *map(figure, charts),
    )


def charts_part(charts: list[Chart]) -> Markup | None:
    """Folds, rounds and times."""
    if not charts:
        return None
    return section("charts", "Folds, rounds and times", *map(figure, charts))


def figure(chart: Chart) -> Markup:
    """A chart for wide and for narrow screens, its caption, and its numbers as a table."""
    return element(
        "figure",
        element("h3", chart.title),
        inline_svg(chart.draw(WIDE), f"{chart.key}-wide", "wide"),
        inline_svg(chart.draw(NARROW), f"{chart.key}-narrow", "narrow"),
        element("figcaption", chart.caption),
        element(
            "details",
            element("summary", "The numbers of this chart"),
            html_table(chart.table, identifier=f"chart-{chart.key}"),
        ),
        id=f"chart-{chart.key}",
    )


def explorer_part(findings: Findings, data: ExplorerData) -> Markup | None:
    """The place where the script puts the query explorer."""
    if not data.n_queries:
        return None
    wanted = len(findings.results.queries)
    limits = []
    if data.n_queries < wanted:
        limits.append(
            f"Of {wanted:,} queries, the {data.n_queries:,} that changed most are here, to keep the page small."
        )
    if data.n_rankings:
        limits.append(
            f"Rankings are kept for the {words.count(data.n_rankings, 'query')} that changed most by "
            f"{findings.primary}, of the first repetition, as far as one of the algorithms ranks a document among "
            f"the first {data.content['depth']}."
        )
    else:
        limits.append("This run kept no rankings, so there are only values.")
    left_out = findings.results.measures[len(data.measures) :]
    if left_out:
        limits.append(f"Left out to keep the page small: {words.listed(left_out)}.")
    return section(
        "queries",
        "Query by query",
        element("p", " ".join(limits)),
        element("noscript", element("p", "The explorer needs JavaScript; nothing else here does.")),
        element("div", id="explorer"),
    )


def failures_part(findings: Findings) -> Markup | None:
    """The cells that failed, each with the end of its message and all of it on demand."""
    failed = [cell for cell in findings.results.cells if cell.status == "failed"]
    if not failed:
        return None
    items = []
    for cell in failed[:_MOST_FAILURES]:
        lines = (cell.error or cell.message).strip().splitlines() or ["no message"]
        head = element(
            "summary",
            named(cell.algorithm),
            ", ",
            named(cell.fold),
            f", repetition {cell.repetition}: ",
            element("code", lines[-1][:300]),
        )
        text = element("pre", cell.message.strip()[-_LONGEST_MESSAGE:], tabindex="0")
        items.append(element("details", head, text, class_="failure"))
    count = words.count(len(failed), "cell")
    more = len(failed) - _MOST_FAILURES
    rest = element("p", f"and {more:,} more, in cells.csv.") if more > 0 else None
    share = element("p", f"{count} of {len(findings.results.cells):,} failed; the others went on.")
    return section("failures", "Failed cells", share, *items, rest)


def warnings_part(findings: Findings) -> Markup | None:
    """What the cells warned of, each warning once."""
    places: dict[str, list[str]] = {}
    for cell in findings.results.cells:
        for text in cell.warnings:
            places.setdefault(text, []).append(f"{cell.algorithm} on {cell.fold}")
    if not places:
        return None
    items = []
    for text, where in list(places.items())[:_MOST_FAILURES]:
        count, some = words.count(len(where), "cell"), words.listed(list(dict.fromkeys(where)), 3)
        items.append(element("li", text[:1000], element("small", f" {count}: {some}")))
    return section("warnings", "Warnings", element("ul", *items))


def parameters_part(findings: Findings) -> Markup | None:
    """The parameters of each algorithm, as fitted."""
    table = parameters_table(findings)
    return section("parameters", "Parameters", html_table(table)) if table else None


def times_part(findings: Findings) -> Markup | None:
    """What the run took."""
    table = times_by_algorithm(findings)
    return section("times", "Times and memory", html_table(table)) if table else None


def conventions_part(findings: Findings) -> Markup:
    """What each measure is, in words: conventions change numbers."""
    terms: list[Markup] = []
    for measure in findings.results.measures:
        meaning, lines = words.conventions(
            measure, dict(findings.results.conventions.get(measure, {}))
        )
        terms.append(element("dt", element("code", measure)))
        terms.append(element("dd", words.sentences(meaning, "; ".join(lines))))
    return section(
        "conventions",
        "Conventions",
        element("p", "The same name can stand for different numbers. Here they mean:"),
        element("dl", *terms),
    )


def contents(parts: Iterable[tuple[str, str]]) -> Markup:
    """Links to the parts."""
    links = [element("li", element("a", title, href=f"#{key}")) for key, title in parts]
    return element("nav", element("ul", *links), aria_label="Parts of this report")
