from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import math
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.experiments.report import formatting, write_report
from rankwood.experiments.report.charts import charts_of, mean_histories, rounds_chart
from rankwood.experiments.report.drawing import (
    Line,
    Mark,
    Scale,
    linear_ticks,
    series,
    spread,
    value_range,
)
from rankwood.experiments.report.files import escape_latex as latex_escaped
from rankwood.experiments.report.files import latex_tables, markdown_report
from rankwood.experiments.report.findings import find
from rankwood.experiments.report.formatting import duration, p_text, summary
from rankwood.experiments.report.page import (
    explorer_data,
    html_page,
    packed,
    queries_by_change,
    ranks_of,
)
from rankwood.experiments.report.render import svg_file
from rankwood.experiments.report.tables import (
    pairs_table,
    practical_table,
    result_notes,
    results_table,
    spread_table,
)
from rankwood.experiments.settings import CompareSettings
from tests import report_runs

pytestmark = pytest.mark.jit_only  # rankers are fitted, and the report has no kernels of its own
VOID = {"meta", "link", "br", "hr", "img", "input", "col"}
LOADING = {"src", "href", "srcset", "action", "data", "poster", "xlink:href"}


class Page(HTMLParser):
    """What a page is made of; refuses elements that are not closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        assert len({name for name, _ in attributes}) == len(attributes), f"{tag}: twice the same"
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append((self.open[-1] if self.open else "", text))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join(text for parent, text in self.texts if parent not in ("script", "style"))

    def block(self, identifier: str):
        """The JSON that the script reads."""
        ids = [attributes.get("id") for attributes in self.named("script")]
        scripts = [text for parent, text in self.texts if parent == "script"]
        return json.loads(scripts[ids.index(identifier)])


def check(text: str) -> Page:
    """The page, after looking for what every page must have."""
    page = Page(text)
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), f"{tag} has {name}"
            if name in LOADING and tag != "meta":
                assert value is not None
                assert value == "data:," or value.lstrip("#") in ids, f"{tag} loads {value}"
            if name in ("aria-labelledby", "for"):
                assert set(value.split()) <= set(ids), f"{tag} names {value}"
    assert "url(" not in text
    assert "@import" not in text
    for svg in page.named("svg"):
        assert svg["role"] == "img"
        assert svg["aria-labelledby"]
    described = re.findall(r"<svg[^>]*><title[^>]*>[^<]+</title><desc[^>]*>[^<]+</desc>", text)
    assert len(described) == len(page.named("svg"))
    assert text.count("<figure") == text.count("The numbers of this chart")
    return page


@pytest.fixture(scope="module")
def run():
    return report_runs.fitted_run(n_queries=45, n_repetitions=1)


@pytest.fixture(scope="module")
def findings(run):
    return find(run)


@pytest.fixture(scope="module")
def repeated():
    """Two of three rankers are not random, and each is fitted twice on each fold."""
    rankers = report_runs.small_rankers()
    chosen = {name: rankers[name] for name in ("RF", "GBRT", "RankSVM")}
    return report_runs.fitted_run(chosen, n_queries=30, measures=["ndcg@10", "map"])


@pytest.fixture(scope="module")
def page(findings):
    return check(html_page(findings))


def test_a_page_has_every_part(page):
    parts = [a["id"] for a in page.named("section")]
    assert parts == [
        "results",
        "comparisons",
        "charts",
        "queries",
        "parameters",
        "times",
        "conventions",
        "repeat",
    ]
    assert len(page.named("svg")) == 2 * len(page.named("figure"))  # wide and narrow
    for word in ("rankwood experiment small.toml", "numpy", "a label counts 2^label − 1"):
        assert word.lower() in page.text.lower()


def test_the_means_of_a_page_are_those_of_the_values(run, findings, page):
    for name in run.algorithms:
        for measure in run.measures:
            mean = float(np.mean(run.values_by_repetition[name, measure]))
            assert findings.standings[name, measure].mean == pytest.approx(mean, rel=1e-12)
            assert f"{mean:.4f}" in page.text


def test_the_summary_names_the_best_the_baseline_and_the_number_of_queries(run, findings):
    means = {name: float(np.mean(run.values(name, "ndcg@10"))) for name in run.algorithms}
    best = max(means, key=means.get)
    text = summary(findings)
    assert text.startswith(f"{best} has the highest ndcg@10 of 5 algorithms ({means[best]:.4f}")
    assert "over 45 queries in 3 folds" in text
    assert "RF" in text


def test_a_dark_system_gets_the_palette_of_the_dark_button(findings):
    text = html_page(findings)
    chosen = text.partition(':root[data-theme="dark"] {')[2].partition("}")[0]
    media = text.partition("@media (prefers-color-scheme: dark) {")[2]
    by_system = media.partition(':root:not([data-theme="light"]) {')[2].partition("}")[0]
    assert "--paper: #1b211e" in chosen
    assert by_system == chosen
    assert text.index("(prefers-color-scheme: dark)") < text.index("@media print")  # paper is white


def test_only_the_pages_own_script_may_run(findings):
    text = html_page(findings)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;" in text
    assert "default-src &#x27;none&#x27;" in text


def test_hostile_names_stay_text(run):
    names = {"GBRT": report_runs.HOSTILE, "RF": "<img src=x onerror=alert(1)> & 'RF' \"x\""}
    hostile = report_runs.renamed(run, names)
    hostile = replace(
        hostile,
        name="</title><script>alert(1)</script>",
        queries=[(fold, f"</script><!--{query}") for fold, query in hostile.queries],
        record={"repeat": ["</pre><script>"], "<b>": {"</td>": "\x00\ud800"}},
    )
    found = find(hostile)
    page = check(html_page(found))
    assert len(page.named("script")) == 2
    assert not page.named("img")
    block = page.block("explorer-data")
    assert block["algorithms"][0] == names["RF"]
    assert block["queries"][0].startswith("</script><!--")
    assert "\u202e" not in page.text
    for chart in charts_of(found):
        ET.fromstring(svg_file(chart.draw(860.0)))
    assert check_latex(latex_tables(found)) >= 2
    check_markdown(markdown_report(found, charts_of(found), "svg"))


@pytest.mark.parametrize("names", [["RF"], ["RF", "GBRT"], ["GBRT", "RankSVM"]])
def test_few_algorithms(run, names):
    found = find(report_runs.some_of(run, names))
    text = check(html_page(found)).text
    assert ("There is no second algorithm" in text) == (len(names) == 1)
    assert ("Compared with" in text) == (len(names) > 1)


def test_twenty_algorithms(run):
    quick = replace(run, compare=CompareSettings(resamples=500))
    found = find(report_runs.enlarged(quick, n_algorithms=20))
    page = check(html_page(found))
    assert "of 20 algorithms" in page.text


def test_one_query(run):
    one = replace(
        run,
        queries=run.queries[:1],
        values_by_repetition={key: v[:, :1] for key, v in run.values_by_repetition.items()},
    )
    text = check(html_page(find(one))).text
    assert "over 1 query" in text
    assert "too few queries to test" in text or "no test with fewer than two queries" in text


def test_an_algorithm_with_failed_cells_is_not_called_the_best(run):
    # GBRT gets the highest possible values, but on two folds only.
    values = {key: array.copy() for key, array in run.values_by_repetition.items()}
    is_first = np.array([fold == run.folds[0] for fold, _ in run.queries])
    values["GBRT", "ndcg@10"][:, ~is_first] = 1.0
    values["GBRT", "ndcg@10"][:, is_first] = np.nan
    found = find(replace(run, values_by_repetition=values))
    assert found.standings["GBRT", "ndcg@10"].mean == 1.0
    assert found.best != "GBRT"
    assert found.ranked()[-1] == "GBRT"
    assert found.standings["GBRT", "ndcg@10"].marks  # but it is compared, on the queries both have
    page = check(html_page(found))
    assert "†" in page.text
    assert "cells failed" in page.text


def test_failed_cells_are_told_with_their_messages():
    run = report_runs.fitted_run(
        {name: ranker for name, ranker in report_runs.small_rankers().items() if name != "RankSVM"},
        n_queries=30,
        n_repetitions=1,
        failing="GBRT",
    )
    page = check(html_page(find(run)))
    assert "1 cell of 12 failed" in page.text
    assert "n_trees must be" in page.text
    assert "Traceback" in page.text


def test_a_run_of_which_everything_failed(run):
    nothing = {key: np.full((1, 0), np.nan) for key in run.values_by_repetition}
    cells = [
        replace(c, status="failed", means={}, history={}, message="ValueError: no")
        for c in run.cells
    ]
    found = find(replace(run, queries=[], values_by_repetition=nothing, cells=cells))
    page = check(html_page(found))
    assert "No algorithm has a value of ndcg@10: all 15 cells failed." in page.text
    assert "ValueError: no" in page.text
    assert not page.named("svg")


def test_a_comparison_without_cells_and_without_rankings(run, tmp_path):
    bare = replace(run, cells=[], record={}, conventions={}, rankings=lambda *_: None)
    path = write_report(bare, tmp_path / "page.html")
    assert path == tmp_path / "page.html"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
    page = check(path.read_text())
    assert "kept no rankings" in page.text
    assert "kept no record" in page.text


def test_a_measure_over_all_documents_has_means_without_tests(run):
    cells = [replace(c, means={**c.means, "rmse": 0.5 + len(c.algorithm)}) for c in run.cells]
    none = np.full((1, len(run.queries)), np.nan)
    values = {**run.values_by_repetition, **{(name, "rmse"): none for name in run.algorithms}}
    pooled = replace(run, measures=["ndcg@10", "rmse"], cells=cells, values_by_repetition=values)
    found = find(pooled)
    assert found.comparisons["rmse"] is None
    assert found.standings["RF", "rmse"].mean == 2.5
    assert found.best_by("rmse") == "RF"  # the shortest name has the smallest error
    assert "Lower is better: rmse." in check(html_page(found)).text
    titles = {chart.title: chart.caption for chart in charts_of(found)}
    assert "Mean ndcg@10 with 95 % intervals" in titles
    assert "no intervals and no tests" in titles["rmse"]  # nor does the chart promise any


def test_the_same_run_gives_the_same_bytes(run):
    assert html_page(find(run)) == html_page(find(run))


@pytest.mark.slow
@pytest.mark.jit_only
@pytest.mark.parametrize("n_algorithms", [5, 20])
def test_a_page_of_thirty_thousand_queries_is_below_five_megabytes(run, n_algorithms):
    large = report_runs.enlarged(run, n_queries=30_000, n_algorithms=n_algorithms)
    text = html_page(find(replace(large, measures=run.measures[:1])))
    assert len(text.encode()) < 5_000_000
    page = check(text)
    block = page.block("explorer-data")
    assert len(block["queries"]) == 30_000
    assert 0 < len(block["rankings"]) <= 200


def test_queries_that_do_not_fit_are_left_out_and_that_is_told(run):
    long = [(fold, f"{place} " + "x" * 500) for place, (fold, _) in enumerate(run.queries)] * 1000
    values = {key: np.tile(array, 1000) for key, array in run.values_by_repetition.items()}
    large = replace(run, queries=long, values_by_repetition=values, rankings=lambda *_: None)
    large = replace(large, measures=["ndcg@10"], compare=CompareSettings(resamples=200))
    large = report_runs.some_of(large, ["RF"])
    page = check(html_page(find(large)))
    kept = len(page.block("explorer-data")["queries"])
    assert kept < 45_000
    assert f"Of 45,000 queries, the {kept:,} that changed most are here" in page.text


def unpacked(entry) -> np.ndarray:
    numbers = np.frombuffer(base64.b64decode(entry["data"]), "<u2").astype(float)
    numbers[numbers == 0xFFFF] = np.nan
    return entry["low"] + entry["step"] * numbers


@pytest.mark.parametrize(
    ("values", "precision"),
    [
        ([0.0, 0.12345, 1.0, np.nan], 0.5e-4),
        ([-1.0, 1.0, 0.3333], 0.5e-4),
        ([np.nan, np.nan], 0.5e-4),
        ([7.0], 0.5e-4),
        ([0.0, 5000.0, 12.5], 5000 / 65534),
    ],
)
def test_values_are_kept_to_four_decimals(values, precision):
    given = np.array(values)
    np.testing.assert_allclose(unpacked(packed(given)), given, rtol=0, atol=precision * 1.001)


def test_the_explorer_has_the_rankings_by_score(run, page):
    block = page.block("explorer-data")
    place, entry = next(iter(block["rankings"].items()))
    query = int(place)  # all queries fit, so that places are query numbers
    for number, name in enumerate(run.algorithms):
        ranked = run.rankings(name, query)
        order = sorted(range(len(ranked.scores)), key=lambda d, r=ranked: (-r.scores[d], d))
        top = [ranked.names[document] for document in order[:20]]
        ranks = entry["ranks"][number]
        mine = [entry["names"][d] for d in np.argsort(ranks) if ranks[d] <= 20]
        assert mine == top
        labels = dict(zip(entry["names"], entry["labels"], strict=True))
        assert [labels[each] for each in top] == [int(ranked.labels[d]) for d in order[:20]]


def test_ranks_keep_the_order_of_equal_scores():
    assert ranks_of(np.array([0.5, 1.0, 0.5, 2.0])).tolist() == [3, 2, 4, 1]


def test_the_queries_that_changed_most_come_first(run, findings):
    first = int(queries_by_change(findings)[0])
    base = run.values("RF", "ndcg@10")
    largest = max(float(np.abs(run.values(n, "ndcg@10") - base).max()) for n in run.algorithms)
    changes = [abs(float(run.values(n, "ndcg@10")[first] - base[first])) for n in run.algorithms]
    assert max(changes) == largest


def test_every_file_is_written(run, tmp_path):
    formats = ["html", "md", "tex", "csv", "svg"]
    page = write_report(run, tmp_path / "new" / "report", formats=formats)
    folder = tmp_path / "new" / "report"
    assert page == folder / "report.html"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    charts = [*(f"{kind}{n}" for kind in ("intervals", "means") for n in ("", "-2", "-3"))]
    charts += ["differences", "folds", "rounds", "times"]
    assert names == {
        "report.html",
        "report.md",
        "tables.tex",
        *(f"tables/{name}.csv" for name in ("results", "comparisons", "queries", "cells")),
        *(f"figures/{chart}.svg" for chart in charts),
    }
    for path in folder.glob("figures/*.svg"):
        root = ET.parse(path).getroot()
        assert all(root[place].text for place in (0, 1))  # title and description
    rows = list(csv.DictReader(io.StringIO((folder / "tables/results.csv").read_text())))
    first = next(row for row in rows if (row["algorithm"], row["measure"]) == ("RF", "map"))
    assert float(first["mean"]) == float(run.values("RF", "map").mean())
    by_query = list(csv.DictReader(io.StringIO((folder / "tables/queries.csv").read_text())))
    assert [float(row["map RF"]) for row in by_query] == run.values("RF", "map").tolist()
    check_latex((folder / "tables.tex").read_text())
    text = (folder / "report.md").read_text()
    check_markdown(text)
    for target in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (folder / target).is_file()


@pytest.mark.slow
def test_figures_as_png(run, tmp_path):
    pytest.importorskip("matplotlib")
    hostile = report_runs.renamed(run, {"GBRT": report_runs.HOSTILE, "RF": "$x_1^2$ 木"})
    write_report(hostile, tmp_path, formats=["png"])
    figures = sorted((tmp_path / "figures").iterdir())
    assert len(figures) == 10
    for path in figures:
        start = path.read_bytes()[:24]
        assert start.startswith(b"\x89PNG")
        assert int.from_bytes(start[16:20], "big") == 2 * 860  # two dots per pixel of a wide chart


def test_without_matplotlib_there_are_svg_and_a_hint(run, tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write_report(run, tmp_path, formats=["png"])
    assert {path.suffix for path in tmp_path.rglob("figures/*")} == {".svg"}
    assert "pip install 'rankwood[report]'" in caplog.text


def test_wrong_arguments(run, tmp_path):
    with pytest.raises(UnknownName, match=r"format 'htm' is not known. Did you mean 'html'"):
        write_report(run, tmp_path, formats=["htm"])
    with pytest.raises(ParameterError, match="formats is empty"):
        write_report(run, tmp_path, formats=[])
    with pytest.raises(ParameterError, match="at least one algorithm"):
        write_report(replace(run, algorithms=[]), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        write_report(run, tmp_path / "file" / "report")


def check_latex(text: str) -> int:
    """How many tables there are; their braces, environments and columns fit."""
    plain = re.sub(r"\\[{}&%$#_\\]", "", text.replace(r"\\" + "\n", "\n"))
    depth = 0
    for letter in plain:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        assert depth >= 0
    assert depth == 0
    assert plain.count("$") % 2 == 0
    tables = re.findall(
        r"\\begin\{tabular\}\{@\{\}([lr]+)@\{\}\}(.*?)\\end\{tabular\}\}", text, re.DOTALL
    )
    assert len(tables) == text.count(r"\begin{table}") == text.count(r"\end{table}")
    assert text.count(r"\resizebox{\ifdim\width>\columnwidth") == len(tables)  # it fits a column
    known = {"begin", "end", "centering", "caption", "label", "resizebox", "ifdim", "width", "fi"}
    known |= {"columnwidth", "else", "toprule", "midrule", "bottomrule", "par", "smallskip"}
    known |= {"parbox", "footnotesize", "textbf", "underline", "textsuperscript", "textless"}
    known |= {"textgreater", "textbar", "textbackslash", "textasciitilde", "textasciicircum"}
    known |= {"dag", "ddag", "infty", "dots", "times", "pm"}
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    assert set(re.findall(r"\\([A-Za-z]+)", "\n".join(lines))) <= known
    for kinds, body in tables:
        for row in (line for line in body.splitlines() if line.rstrip().endswith(r"\\")):
            assert len(re.findall(r"(?<!\\)&", row)) == len(kinds) - 1
    return len(tables)


def check_markdown(text: str) -> None:
    """Every table has the same number of fields in every line."""
    for table in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1
    assert not re.search(r"(?<!\\)<(?!br>|u>|/u>)", text.partition("## How to repeat")[0])


def test_latex_sets_every_sign_as_it_is():
    assert latex_escaped(r"a_b & 50% {x} \y $z$ #1 ~^") == (
        r"a\_b \& 50\% \{x\} \textbackslash{}y \$z\$ \#1 \textasciitilde{}\textasciicircum{}"
    )


def test_ticks_are_round_and_inside():
    assert linear_ticks(0.58, 0.71, 6) == [0.6, 0.62 + 0.03, 0.7]  # steps of 0.05
    assert linear_ticks(-1.0, 1.0, 4) == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert Scale(0.02, 3.0, 0, 100, is_log=True).ticks() == [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0]


def test_a_range_is_never_empty():
    for values in ([], [np.nan], [0.0], [0.5, 0.5], [-3.0]):
        low, high = value_range(values)
        assert low < high


def test_labels_are_spread_in_their_order():
    moved = spread([10.0, 11.0, 50.0, 10.5], 5.0, 0.0, 60.0)
    assert sorted(moved) == [10.0, 15.0, 20.0, 50.0]
    assert moved[0] < moved[3] < moved[1] < moved[2]
    assert max(spread([60.0, 60.0, 60.0], 5.0, 0.0, 60.0)) == 60.0


def test_numbers_in_words():
    assert [duration(s) for s in (0.0001, 0.25, 12.34, 200.0, 10_000.0, np.nan)] == [
        "< 1 ms",
        "250 ms",
        "12.3 s",
        "3 min 20 s",
        "2.8 h",
        "–",
    ]
    assert [p_text(p) for p in (0.00001, 0.01234, 0.456, np.nan)] == [
        "< 0.0001",
        "0.0123",
        "0.46",
        "–",
    ]


# --- what decides, and what is said ----------------------------------------------------------------------------------------


def noisy_run(run, *, shift=0.0, seed=0, n_algorithms=3, **settings):
    """The run with made values, whose second algorithm is better by ``shift``."""
    generator = np.random.default_rng(seed)
    names = run.algorithms[:n_algorithms]
    base = generator.beta(1.0, 1.0, len(run.queries))
    values = {}
    for place, name in enumerate(names):
        own = base + generator.normal(0.0, 0.1, (2, len(base))) + shift * (place == 1)
        for measure in run.measures:
            values[name, measure] = own
    return replace(
        report_runs.some_of(run, names),
        values_by_repetition=values,
        compare=CompareSettings(**{"resamples": 300, **settings}),
    )


@pytest.mark.parametrize("test", ["t", "wilcoxon", "randomization"])
def test_no_sentence_contradicts_the_interval_beside_it(run, test):
    said = set()
    for seed in range(20):
        one = replace(run, measures=run.measures[:1])
        changed = noisy_run(one, shift=0.035, seed=seed, n_algorithms=5, test=test, margin=None)
        findings = find(replace(changed, tests=["t", "wilcoxon", "randomization"]))
        text = formatting.summary(findings)
        if findings.best == findings.baseline:
            continue
        low, high = findings.comparison[findings.best].interval
        excludes = low > 0.0 or high < 0.0
        if "may be chance" in text and excludes:
            assert "because it is that of this comparison without correction" in text
            said.add("both")
        elif "is significant" in text:
            assert excludes or "because opposite differences" in text
            said.add("significant")
        else:
            said.add("chance")
        assert formatting.TEST_NAMES[test] in text
    assert {"significant", "both"} <= said


def test_the_test_that_decides_is_chosen_once(run):
    for test in ("t", "wilcoxon"):
        findings = find(noisy_run(run, shift=0.1, test=test, level=0.1))
        name = formatting.TEST_NAMES[test]
        page = check(html_page(findings))
        assert f"is decided by {name}: p < 0.1" in page.text
        assert f"by {name} after Holm" in page.text
        assert "90 % interval" in page.text
        assert "95 % interval" not in page.text
        assert findings.comparison.test == test
        assert f"{formatting.SHORT_TEST_NAMES[test]} (decides)" in page.text


def test_differences_with_intervals_are_the_first_chart(findings, page):
    keys = [chart.key for chart in charts_of(findings)]
    assert keys[:3] == ["intervals", "means", "differences"]
    figures = [a["id"] for a in page.named("figure")]
    assert figures[:2] == ["chart-intervals", "chart-means"]
    chart = charts_of(findings)[0]
    pairs = {row[0].text: [cell.order for cell in row[1:4]] for row in chart.table.rows}
    for pair in findings.comparison.pairs:
        assert pairs[pair.name] == [pair.center, *pair.interval]


@pytest.mark.parametrize("test", ["t", "wilcoxon", "randomization"])
def test_a_difference_is_drawn_inside_its_interval(run, test):
    # One algorithm is a little better for most queries, and much worse for a few: the mean difference is outside the
    # interval of Wilcoxon's test, which is of a median.
    changed = noisy_run(run, shift=0.0, n_algorithms=2, test=test, margin=None)
    first, second = changed.algorithms
    number = np.arange(len(run.queries))
    skewed = np.where(number % 12 == 0, -0.6, 0.02 + 0.002 * (number % 7))
    values = {
        key: np.zeros_like(each) + (skewed if key[0] == second else 0.0)
        for key, each in changed.values_by_repetition.items()
    }
    tests = ["t", "wilcoxon", "randomization"]
    findings = find(replace(changed, values_by_repetition=values, tests=tests, baseline=first))
    pair = findings.comparison[second]
    low, high = pair.interval
    assert (low <= pair.difference <= high) == (test != "wilcoxon")
    sheet = charts_of(findings)[0].draw(860.0)
    mark = next(each for each in sheet.shapes if isinstance(each, Mark))
    ends = [line for line in sheet.shapes if isinstance(line, Line) and line.role == mark.role]
    drawn = [x for line in ends for x, y in line.points if y == mark.y]
    assert min(drawn) < mark.x < max(drawn)
    assert ("Hodges-Lehmann median" in formatting.interval_text(findings.comparison, pair)) == (
        test == "wilcoxon"
    )
    detail = pairs_table(findings, findings.primary).rows[0][1].detail
    assert ("median +0.02" in detail) == (test == "wilcoxon")


def test_a_missing_repetition_is_marked(repeated):
    values = {key: array.copy() for key, array in repeated.values_by_repetition.items()}
    first = [fold == repeated.folds[0] for fold, _ in repeated.queries]
    for measure in repeated.measures:
        values["GBRT", measure][1, first] = np.nan
    lost = ("GBRT", repeated.folds[0], 2)
    cells = [c for c in repeated.cells if (c.algorithm, c.fold, c.repetition) != lost]
    findings = find(replace(repeated, values_by_repetition=values, cells=cells))
    table = results_table(findings)
    marks = {row[0].text: row[1].marks for row in table.rows}
    assert [name for name, mark in marks.items() if "‡" in mark] == ["GBRT"]
    assert any("repetitions of folds are missing" in n and "GBRT 1" in n for n in table.notes)
    assert len(findings.by_repetition("GBRT", repeated.primary)) == 1
    whole = results_table(find(repeated))
    assert not any("‡" in row[1].marks for row in whole.rows)


def test_the_spread_over_seeds(repeated):
    table = spread_table(find(repeated), repeated.primary)
    by_name = {row[0].text: row for row in table.rows}
    means = repeated.values_by_repetition["RF", repeated.primary].mean(axis=1)
    assert by_name["RF"][2].order == pytest.approx(means.std(ddof=1))
    assert by_name["RankSVM"][2].order == 0.0  # nothing in it is random
    shares = [float(cell.detail.rstrip(" %")) for cell in by_name["RF"][3:]]
    assert sum(shares) == pytest.approx(100, abs=1.5)
    once = replace(
        repeated, values_by_repetition={k: v[:1] for k, v in repeated.values_by_repetition.items()}
    )
    assert spread_table(find(once), repeated.primary) is None


def test_the_explorer_has_values_and_rankings_of_one_repetition(repeated):
    content = explorer_data(find(repeated)).content
    number = content["algorithms"].index("RF")
    given = content["measures"][0]["values"][number]
    raw = np.frombuffer(base64.b64decode(given["data"]), "<u2")
    values = given["low"] + given["step"] * raw
    assert values == pytest.approx(
        repeated.values_by_repetition["RF", repeated.primary][0], abs=1e-4
    )
    assert np.abs(values - repeated.values("RF", repeated.primary)).max() > 0.01
    bare = find(replace(repeated, rankings=lambda *_: None))
    given = explorer_data(bare).content["measures"][0]["values"][number]
    raw = np.frombuffer(base64.b64decode(given["data"]), "<u2")
    means = given["low"] + given["step"] * raw
    assert means == pytest.approx(repeated.values("RF", repeated.primary), abs=1e-4)


def test_one_label_has_one_colour_in_all_queries(findings):
    content = explorer_data(findings).content
    labels = [label for one in content["rankings"].values() for label in one["labels"]]
    assert content["greatest"] == max(labels)


def test_how_to_repeat_is_folded(findings):
    part = html_page(findings).partition('id="repeat"')[2]
    assert part.partition("</h2>")[2].startswith('<details class="printed"><summary>')


def test_the_rounds_chart_shows_what_was_measured(run):
    cells = [replace(cell, history={}) for cell in run.cells if cell.algorithm in ("RF", "GBRT")]
    histories = {"RF": [0.1, 0.2, 0.3, math.nan, math.nan], "GBRT": [0.1] + [math.nan, 0.35] * 20}
    cells = [replace(cell, history={"ndcg": histories[cell.algorithm]}) for cell in cells]
    findings = find(replace(run, cells=cells))
    lines = mean_histories(findings)["ndcg"]
    assert lines["RF"] == pytest.approx([0.1, 0.2, 0.3])
    sheet = rounds_chart(findings, "ndcg", 860.0)
    drawn = {s.role: s for s in sheet.shapes if isinstance(s, Line) and s.role.startswith("series")}
    own, other = drawn[series(findings.index_of("RF"))], drawn[series(findings.index_of("GBRT"))]
    assert len(own.points) == 3
    assert len(other.points) == 21
    end = own.points[-1]
    led_on = [s for s in sheet.shapes if isinstance(s, Line) and end in s.points and s is not own]
    assert not led_on  # no line goes on from its last measured round


def test_latex_has_differences_with_intervals(run, findings):
    text = latex_tables(findings)
    assert check_latex(text) == 1 + len(run.measures)
    pair = findings.comparison["RankSVM"]
    numbers = (pair.difference, pair.median, *pair.interval)
    difference, median, low, high = (f"{each:+.4f}".replace("-", "$-$") for each in numbers)
    assert f"{difference} & {median} {{[}}{low}, {high}{{]}}" in text  # Wilcoxon's test decides
    by_t = find(replace(run, compare=CompareSettings(test="t", resamples=200)))
    pair = by_t.comparison["RankSVM"]
    numbers = (pair.difference, *pair.interval)
    difference, low, high = (f"{each:+.4f}".replace("-", "$-$") for each in numbers)
    assert f"{difference} & {{[}}{low}, {high}{{]}}" in latex_tables(by_t)


def test_results_by_many_measures_are_cut_into_tables_that_can_be_read(run):
    names = ["ndcg@10", *(f"mean_ndcg[discount=letor,gain={place}]" for place in "abc")]
    values = {
        (name, measure): run.values_by_repetition[name, "ndcg@10"]
        for name in run.algorithms
        for measure in names
    }
    cells = [replace(c, means=dict.fromkeys(names, c.means["ndcg@10"])) for c in run.cells]
    conventions = dict.fromkeys(names, run.conventions["ndcg@10"])
    many = replace(
        run, measures=names, values_by_repetition=values, cells=cells, conventions=conventions
    )
    text = latex_tables(find(many))
    assert check_latex(text) == 3 + len(names)
    heads = re.findall(r"^ *algorithm &(.*)\\\\$", text.partition("comparisons-")[0], re.MULTILINE)
    assert [head.count("&") + 1 for head in heads] == [2, 1, 1]
    assert "part 3 of 3" in text
    assert r"\label{tab:results-3}" in text


@pytest.mark.slow
def test_latex_is_set(run, tmp_path):
    pdflatex = shutil.which("pdflatex")
    if pdflatex is None:
        pytest.skip("there is no TeX here")
    hostile = report_runs.renamed(run, {"RF": r"a_b & 50% {x} \y $z$ #1 ~^ <|> [*]"})
    (tmp_path / "tables.tex").write_text(latex_tables(find(hostile)))
    (tmp_path / "paper.tex").write_text(
        r"\documentclass[twocolumn]{article}\usepackage[T1]{fontenc}\usepackage{booktabs,graphicx}"
        r"\begin{document}\input{tables.tex}\end{document}"
    )
    command = [pdflatex, "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(
        command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull \\hbox" not in done.stdout


def test_a_correction_across_measures_is_told(run):
    findings = find(noisy_run(run, shift=0.05, across_measures=True))
    single = find(noisy_run(run, shift=0.05))
    name = run.algorithms[1]
    p = findings.comparison[name].adjusted["wilcoxon"]
    assert p > single.comparison[name].adjusted["wilcoxon"]
    assert "over 6 comparisons by 3 measures" in formatting.summary(findings)
    assert any(
        "corrected over all 3 pairs by 3 measures" in note for note in result_notes(findings)
    )


def test_small_differences_have_a_table(findings):
    table = practical_table(findings)
    names = [column.name for column in table.columns]
    assert names[2:] == [
        "detectable",
        "equivalent within",
        "p, equivalence",
        "P(worse)",
        "P(equal)",
        "P(better)",
    ]
    for row in table.rows:
        assert sum(cell.order for cell in row[5:]) == pytest.approx(1.0)
    none = find(replace(findings.results, compare=CompareSettings(margin=None, resamples=200)))
    assert [c.name for c in practical_table(none).columns][2:] == [
        "detectable",
        "equivalent within",
    ]
