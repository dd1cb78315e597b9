from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.experiments.report import write_report
from rankwood.experiments.report.charts import charts_of
from rankwood.experiments.report.drawing import Scale, linear_ticks, spread, value_range
from rankwood.experiments.report.findings import find
from rankwood.experiments.report.formatting import duration, p_text, summary
from rankwood.experiments.report.page import html_page, packed, queries_by_change, ranks_of
from rankwood.experiments.report.render import svg_file
from rankwood.experiments.report.text_files import escape_latex as latex_escaped
from rankwood.experiments.report.text_files import latex_tables, markdown_report
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
    found = find(report_runs.enlarged(run, n_algorithms=20))
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
    large = report_runs.some_of(replace(large, measures=["ndcg@10"]), ["RF"])
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
    charts = ["means", "means-2", "means-3", "differences", "folds", "rounds", "times"]
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
    assert len(figures) == 7
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
    tables = re.findall(r"\\begin\{tabular\}\{([lr]+)\}(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert len(tables) == text.count(r"\begin{table}") == text.count(r"\end{table}")
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
