"""The page: one HTML file with its style, script and data inside; it loads no other file.

``html_page`` puts the parts together, from top to bottom. The query explorer holds the values of every query, and the
rankings of the queries that changed most. The page must be small enough for a mail, whatever the run: values are kept
as 16-bit numbers, and both stop where their share of the page is used up. The page says what was left out.

The last part says how to repeat the run: its commands, configuration, versions, machine and seeds, as the record has
them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

import numpy as np

from rankwood import __version__
from rankwood.dtypes import Floats
from rankwood.errors import DataError
from rankwood.experiments.report import formatting
from rankwood.experiments.report.charts import NARROW, WIDE, Chart, charts_of
from rankwood.experiments.report.drawing import shorten
from rankwood.experiments.report.findings import Findings, is_lower_better
from rankwood.experiments.report.render import (
    Markup,
    clean,
    data_block,
    element,
    html_table,
    inline_svg,
    join,
    named,
)
from rankwood.experiments.report.tables import (
    importance_table,
    pairs_table,
    parameters_table,
    practical_table,
    results_table,
    shown,
    spread_table,
    times_by_algorithm,
    tuning_table,
    weights_table,
)

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
_MOST_FAILURES = 50
_LONGEST_MESSAGE = 8000  # letters, of its end
MOST_RANKINGS = 200  # queries
DEPTH = 20  # documents of a ranking that are shown
_BYTES_FOR_VALUES = 2_000_000
_BYTES_FOR_RANKINGS = 1_400_000
_MISSING = 0xFFFF
_DARK, _NOT_LIGHT = ':root[data-theme="dark"]', ':root:not([data-theme="light"])'
_STEP = 1e-4  # the resolution of four decimals
_LONGEST_ID = 120  # letters of a query's id
_LONGEST_NAME = 48  # letters of a document's name
COMMAND_KEYS = ("repeat", "commands", "command", "how_to_repeat")
_LATER = ("configuration", "config", "toml")  # long: shown on demand
_ELSEWHERE = ("format", "name", "measures", "conventions", "lost_workers")  # in parts of their own
_LONGEST = 20_000  # letters of a configuration


def html_page(findings: Findings) -> str:
    """The whole report as one page."""
    script, style = _asset("report.js"), _style_sheet()
    head = element(
        "head",
        element("meta", charset="utf-8"),
        _policy(script),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"Rankwood {__version__}"),
        element("meta", name="description", content=formatting.summary(findings)[:500]),
        element("title", f"{findings.results.name} · Rankwood report"),
        element("link", rel="icon", href="data:,"),
        Markup(f"<style>\n{style}</style>"),
    )
    body = element("body", *_body(findings), Markup(f"<script>{script}</script>"))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    """A file that is packaged beside this module."""
    return resources.files("rankwood.experiments.report").joinpath(name).read_text("utf-8")


def _style_sheet() -> str:
    """The style sheet; its dark palette is also for readers whose system is dark and who have not chosen light."""
    style = _asset("report.css")
    begin = style.index(_DARK)
    palette = style[begin : style.index("}\n", begin) + 2].replace(_DARK, _NOT_LIGHT)
    media = f"@media (prefers-color-scheme: dark) {{\n{palette}}}\n"
    return style[:begin] + media + style[begin:]


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
    parts = _parts(findings, charts, explorer_part(findings, data))
    links = contents((key, _TITLES[key]) for key in parts)
    header = element(
        "header",
        element("p", "Rankwood report", class_="kicker"),
        element("h1", named(findings.results.name)),
        summary_part(findings),
        element("button", "Dark", type="button", id="theme", hidden=True, aria_pressed="false"),
    )
    about = element("footer", element("p", f"Made by Rankwood {__version__}."))
    main = element("main", header, links, *parts.values(), about)
    skip = element("a", "To the results", href="#results", class_="skip")
    return [skip, main, data_block("explorer-data", data.content)]


def _parts(findings: Findings, charts: list[Chart], explorer: Markup | None) -> dict[str, Markup]:
    """The parts that have something to show, in their order."""
    means = [chart for chart in charts if chart.key.startswith(("intervals", "means"))]
    differences = [chart for chart in charts if chart.key == "differences"]
    others = [chart for chart in charts if chart not in means + differences]
    record = findings.results.record
    repeated = element(
        "details",
        element("summary", "Commands, configuration, versions, machine"),
        *repeat_part(record),
        class_="printed",
    )
    parts = {
        "results": results_part(findings, means),
        "comparisons": comparison_part(findings, differences),
        "charts": charts_part(others),
        "queries": explorer,
        "failures": failures_part(findings),
        "warnings": warnings_part(findings),
        "parameters": parameters_part(findings),
        "times": times_part(findings),
        "conventions": conventions_part(findings),
        "repeat": section("repeat", "How to repeat", repeated),
    }
    return {key: part for key, part in parts.items() if part is not None}


def section(key: str, title: str, *children: object) -> Markup:
    """A part of the page under its heading."""
    return element("section", element("h2", title), *children, id=key, class_="part")


def summary_part(findings: Findings) -> Markup:
    """A paragraph about the results, and the size of the run."""
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
        element(
            "li", element("b", f"{amount:,}"), " " + formatting.count(amount, noun).split(" ", 1)[1]
        )
        for amount, noun in facts
        if amount
    ]
    if n_failed:
        shown.append(element("li", element("b", f"{n_failed:,}"), " failed", class_="failed"))
    paragraph = element("p", formatting.summary(findings), class_="lead")
    notes = (element("p", note, class_="note") for note in results.notes)
    return join(paragraph, *notes, element("ul", *shown, class_="facts"))


def results_part(findings: Findings, charts: list[Chart]) -> Markup:
    """The table of results, differences from the baseline and means as charts, and the spread over seeds."""
    first = [chart for chart in charts if chart.key in ("intervals", "means")]
    others = [figure(chart) for chart in charts if chart not in first]
    more = element("summary", "The same charts for the other measures")
    spread = spread_table(findings, findings.primary)
    return section(
        "results",
        "Results",
        html_table(results_table(findings)),
        *map(figure, first),
        element("details", more, *others) if others else None,
        html_table(spread) if spread else None,
    )


def comparison_part(findings: Findings, charts: list[Chart]) -> Markup | None:
    """Every algorithm against the baseline, by the measure that decides and by the others."""
    tables = [(m, pairs_table(findings, m)) for m in findings.results.measures]
    known = [(measure, table) for measure, table in tables if table is not None]
    if not known:
        return None
    first, *others = [
        html_table(table, identifier=f"comparisons-{index}")
        for index, (_, table) in enumerate(known)
    ]
    practical = practical_table(findings)
    more = element("summary", "The same table for the other measures")
    return section(
        "comparisons",
        f"Compared with {formatting.brief(findings.baseline)}"
        if findings.baseline
        else "Comparisons",
        first,
        html_table(practical) if practical else None,
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
    """The element that the script fills with the query explorer."""
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
            f"Rankings are kept for the {formatting.count(data.n_rankings, 'query')} that changed most by "
            f"{findings.primary}, as far as one of the algorithms ranks a document among the first "
            f"{data.content['depth']}."
        )
        if findings.n_repetitions > 1:
            limits.append(
                "Values and rankings here are those of repetition 1, so that they belong together; the tables above "
                f"have means over {findings.n_repetitions} repetitions."
            )
    else:
        limits.append("This run kept no rankings, so there are only values.")
    left_out = _measures_by_query(findings)[len(data.measures) :]
    if left_out:
        limits.append(f"Left out to keep the page small: {formatting.listed(left_out)}.")
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
    count = formatting.count(len(failed), "cell")
    more = len(failed) - _MOST_FAILURES
    rest = element("p", f"and {more:,} more, in cells.csv.") if more > 0 else None
    share = element("p", f"{count} of {len(findings.results.cells):,} failed; the others went on.")
    return section("failures", "Failed cells", share, *items, rest)


def warnings_part(findings: Findings) -> Markup | None:
    """What the cells warned of, each warning once, and workers that were lost."""
    cells_of_text: dict[str, list[str]] = {}
    lost = [str(text) for text in findings.results.record.get("lost_workers", [])]
    for cell in findings.results.cells:
        for text in cell.warnings:
            cells_of_text.setdefault(text, []).append(f"{cell.algorithm} on {cell.fold}")
    if not cells_of_text and not lost:
        return None
    items = [element("li", text[:1000]) for text in lost[:_MOST_FAILURES]]
    for text, where in list(cells_of_text.items())[:_MOST_FAILURES]:
        count, some = (
            formatting.count(len(where), "cell"),
            formatting.listed(list(dict.fromkeys(where)), 3),
        )
        items.append(element("li", text[:1000], element("small", f" {count}: {some}")))
    return section("warnings", "Warnings", element("ul", *items))


def parameters_part(findings: Findings) -> Markup | None:
    """The parameters of each algorithm, as fitted, and the weights that it learned for what its score is made of."""
    makers = (parameters_table, tuning_table, importance_table, weights_table)
    tables = [table for table in (make(findings) for make in makers) if table]
    if not tables:
        return None
    return section("parameters", "Parameters", *(html_table(table) for table in tables))


def times_part(findings: Findings) -> Markup | None:
    """What the run took."""
    table = times_by_algorithm(findings)
    return section("times", "Times and memory", html_table(table)) if table else None


def conventions_part(findings: Findings) -> Markup:
    """What each measure is, in words: conventions change numbers."""
    terms: list[Markup] = []
    for measure in findings.results.measures:
        meaning, lines = formatting.conventions(
            measure, dict(findings.results.conventions.get(measure, {}))
        )
        terms.append(element("dt", element("code", measure)))
        terms.append(element("dd", formatting.sentences(meaning, "; ".join(lines))))
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


@dataclass(frozen=True)
class ExplorerData:
    """The JSON for the script, and what a reader should know of its limits."""

    content: dict[str, Any]
    n_queries: int
    n_rankings: int
    measures: list[str]


def explorer_data(findings: Findings) -> ExplorerData:
    """Values by query of every algorithm, and the rankings of the queries that changed most."""
    results = findings.results
    findings = replace(findings, values=_explored_values(findings))
    changed = queries_by_change(findings)
    kept = _affordable(findings, changed)
    measures = _affordable_measures(findings, len(kept))
    rankings = _rankings(findings, changed[:MOST_RANKINGS])
    folds = {fold: index for index, fold in enumerate(results.folds)}
    content = {
        "algorithms": results.algorithms,
        "folds": results.folds,
        "measures": [
            {
                "name": measure,
                "lower": is_lower_better(measure),
                "values": [
                    packed(findings.values[name, measure][kept]) for name in results.algorithms
                ],
            }
            for measure in measures
        ],
        "queries": [shorten(clean(results.queries[query][1]), _LONGEST_ID) for query in kept],
        "foldOf": [folds.get(results.queries[query][0], 0) for query in kept],
        "rankings": {
            str(index): rankings[int(query)]
            for index, query in enumerate(kept.tolist())
            if int(query) in rankings
        },
        "first": findings.baseline or results.algorithms[0],
        "second": _second(findings),
        "depth": DEPTH,
        "greatest": _greatest_label(rankings),
    }
    return ExplorerData(content, len(kept), len(rankings), measures)


def _explored_values(findings: Findings) -> Mapping[tuple[str, str], Floats]:
    """The values that belong to the rankings, which are kept of the first repetition; means where none are kept."""
    results = findings.results
    starts = {fold: number for number, (fold, _) in reversed(list(enumerate(results.queries)))}
    has_rankings = any(
        results.rankings(name, number) is not None
        for name in results.algorithms
        for number in starts.values()
    )
    if findings.n_repetitions < 2 or not has_rankings:
        return findings.values
    return {key: values[0] for key, values in results.values_by_repetition.items()}


def _greatest_label(rankings: Mapping[int, Mapping[str, Any]]) -> float:
    """Of all documents that are shown; colours are shares of it, so that a label has one colour in all queries."""
    labels = [label for one in rankings.values() for label in one["labels"] if label is not None]
    return max(labels, default=0)


def _second(findings: Findings) -> str:
    """The best algorithm; where that is the first, the next best."""
    first = findings.baseline or findings.results.algorithms[0]
    others = [name for name in findings.ranked() if name != first]
    return others[0] if others else first


def queries_by_change(findings: Findings) -> Any:
    """The numbers of the queries, those first on which algorithms differ most by the measure that decides.

    Where there is a baseline, by the largest difference from it; queries without a value are last.
    """
    names = findings.results.algorithms
    values = np.stack([findings.values[name, findings.primary] for name in names])
    if not values.shape[1]:
        return np.zeros(0, np.int64)
    if findings.baseline is not None:
        values = np.abs(values - findings.values[findings.baseline, findings.primary])
        change = np.where(np.isnan(values), -1.0, values).max(axis=0)
    else:
        change = -np.where(np.isnan(values), 2.0, values).min(
            axis=0
        )  # one algorithm: the worst first
    return np.argsort(-change, kind="stable")


def _affordable(findings: Findings, changed: Any) -> Any:
    """The queries whose values fit on the page, in the run's order; those that changed most, if not all fit."""
    per_query = 2.7 * len(findings.results.algorithms)
    ids = findings.results.queries
    sizes = np.array([min(len(ids[query][1].encode()), 4 * _LONGEST_ID) for query in changed])
    fitting = np.cumsum(sizes + 5 + per_query) <= _BYTES_FOR_VALUES
    return np.sort(changed[fitting])


def _affordable_measures(findings: Findings, n_queries: int) -> list[str]:
    """The measure that decides, and as many others as fit, by the run's order."""
    per_measure = max(2.7 * len(findings.results.algorithms) * n_queries, 1.0)
    return _measures_by_query(findings)[: max(1, int(_BYTES_FOR_VALUES / per_measure))]


def _measures_by_query(findings: Findings) -> list[str]:
    """The measures that have values by query, which pooled ones have not; the primary one where none has."""
    names, measures = findings.results.algorithms, findings.results.measures
    known = [m for m in measures if any(np.isfinite(findings.values[n, m]).any() for n in names)]
    return known or measures[:1]


def packed(values: Floats) -> dict[str, Any]:
    """Values as 16-bit numbers: value = low + step × number, exact to four decimals where the range allows it."""
    known = values[np.isfinite(values)]
    low = math.floor(float(known.min()) / _STEP) * _STEP if known.size else 0.0
    high = float(known.max()) if known.size else 0.0
    step = max(_STEP, (high - low) / (_MISSING - 1))
    scaled = np.where(np.isfinite(values), (values - low) / step, 0.0)
    numbers = np.where(np.isfinite(values), np.rint(scaled), _MISSING).astype("<u2")
    text = base64.b64encode(numbers.tobytes()).decode("ascii")
    return {"low": round(low, 6), "step": step, "data": text}


def _rankings(findings: Findings, queries: Any) -> dict[int, dict[str, Any]]:
    """By query: its documents' labels and names, and the rank each algorithm gives them."""
    results = findings.results
    wanted = sorted(int(query) for query in queries)
    rankings_of: dict[int, dict[str, Any]] = {query: {} for query in wanted}
    for (
        name
    ) in results.algorithms:  # by algorithm, then in order: a reader may keep the file it has open
        for query in wanted:
            ranked = results.rankings(name, query)
            if ranked is not None and len(ranked.labels):
                rankings_of[query][name] = ranked
    kept: dict[int, dict[str, Any]] = {}
    left = _BYTES_FOR_RANKINGS
    for query in (int(query) for query in queries):  # those that changed most first
        if rankings_of[query]:
            entry = _ranking_entry(results.algorithms, rankings_of[query])
            left -= len(json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode())
            if left < 0:
                break
            kept[query] = entry
    return kept


def _ranking_entry(algorithms: Sequence[str], by_name: dict[str, Any]) -> dict[str, Any]:
    """The documents that any algorithm ranks high, with the rank (from 1) that each algorithm gives them."""
    some = next(iter(by_name.values()))
    if any(len(ranked.scores) != len(some.scores) for ranked in by_name.values()):
        raise DataError(
            f"the scores that the run keeps of {' and '.join(by_name)} are of other documents of a query: a file of "
            "scores was changed. Remove the run's cells and scores, and rankwood experiment fits them again."
        )
    ranks = {name: ranks_of(ranked.scores) for name, ranked in by_name.items()}
    is_high = np.any([rank <= DEPTH for rank in ranks.values()], axis=0)
    documents = np.flatnonzero(is_high)
    return {
        "n": len(some.labels),
        "labels": [_label(some.labels[document]) for document in documents],
        "names": [shorten(clean(some.names[document]), _LONGEST_NAME) for document in documents],
        "ranks": [
            ranks[name][documents].tolist() if name in ranks else None for name in algorithms
        ],
    }


def ranks_of(scores: Floats) -> Any:
    """The rank of each document, from 1; equal scores keep the data's order."""
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks


def _label(label: float) -> float | int | None:
    if not math.isfinite(label):
        return None
    return int(label) if float(label).is_integer() else round(float(label), 4)


# How to repeat the run.


def commands_of(record: Mapping[str, Any]) -> list[str]:
    """The commands that make the run again, where the record names some."""
    for key in COMMAND_KEYS:
        value = record.get(key)
        if isinstance(value, Mapping):
            value = value.get("command")
        if isinstance(value, str):
            return value.splitlines()
        if isinstance(value, list | tuple):
            return [line for part in value for line in str(part).splitlines()]
    return []


def facts_of(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Everything else that is short, one line per fact."""
    left_out = {*COMMAND_KEYS, *_LATER, *_ELSEWHERE}
    return [
        (name, text)
        for name, text in _flat(
            {key: value for key, value in record.items() if key not in left_out}
        )
        if text
    ]


def _flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, part in value.items():
        name = f"{above}{key}".replace("_", " ")
        if isinstance(part, Mapping):
            yield from _flat(part, f"{name} · ")
        else:
            yield name, shown(part)


def configuration_of(record: Mapping[str, Any]) -> str:
    """The run's configuration as text; empty where the record has none."""
    for key in _LATER:
        if key in record:
            value = record[key]
            text = (
                value
                if isinstance(value, str)
                else json.dumps(value, indent=2, default=str, ensure_ascii=False)
            )
            return clean(text[:_LONGEST])
    return ""


def repeat_part(record: Mapping[str, Any]) -> list[Markup]:
    """The children of the part "How to repeat"."""
    commands, facts, text = commands_of(record), facts_of(record), configuration_of(record)
    rows = [
        element("tr", element("th", name, scope="row"), element("td", value))
        for name, value in facts
    ]
    parts = []
    if commands:
        parts.append(element("pre", element("code", "\n".join(commands)), tabindex="0"))
    if text:
        head = element("summary", "The configuration")
        parts.append(element("details", head, element("pre", text, tabindex="0"), class_="printed"))
    if rows:
        frame = element("table", element("tbody", *rows), class_="record")
        label = "Versions, machine and seeds"
        parts.append(
            element("div", frame, class_="frame", tabindex="0", role="region", aria_label=label)
        )
    return parts or [join(element("p", "This run kept no record of how it was made."))]
