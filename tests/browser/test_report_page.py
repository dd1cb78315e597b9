"""The report in a real browser: Debian's chromium, driven by Playwright; skipped where there is none."""

from __future__ import annotations

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw
from rankwood.cli.main import main
from rankwood.experiments.report import write_report
from tests import report_runs

pytestmark = [pytest.mark.slow, pytest.mark.jit_only]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no chromium here")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def run():
    return report_runs.fitted_run(n_queries=60, n_repetitions=1)


@pytest.fixture(scope="module")
def report(run, tmp_path_factory):
    return write_report(run, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def show(browser):
    """Open a page; at the end of the test it must have had no errors and asked for nothing."""
    contexts, complaints = [], []

    def open_page(path, width=1200, **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked(request.url, path))
        page.goto(path.as_uri())
        return page

    def asked(url, path):
        if url != path.as_uri() and not url.startswith("data:"):
            complaints.append(f"asked for {url}")

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints


def column(page, table, place):
    rows = page.locator(f"#table-{table} tbody tr")
    return [
        rows.nth(n).locator("th, td").nth(place).inner_text().split("\n")[0]
        for n in range(rows.count())
    ]


def test_tables_are_sorted_by_click_and_by_key(show, report, run):
    page = show(report)
    head = page.locator("#table-results thead th").nth(2)  # map
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    values = [float(text.rstrip("*+ ")) for text in column(page, "results", 2)]
    assert values == sorted(values, reverse=True)
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert [float(text.rstrip("*+ ")) for text in column(page, "results", 2)] == values[::-1]
    page.locator("#table-results thead th").nth(0).locator("button").press(" ")
    assert head.get_attribute("aria-sort") == "none"
    assert column(page, "results", 0) == sorted(run.algorithms, key=str.lower)


def shown_queries(page):
    return page.locator("table.queries tbody tr:not(.rankings) th").all_inner_texts()


def test_the_explorer_filters_sorts_and_turns_pages(show, report, run):
    page = show(report)
    assert len(shown_queries(page)) == 25
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    assert len(shown_queries(page)) == 10
    assert "51 to 60 of 60" in page.locator(".pager").inner_text()
    page.locator("#explorer-filter").fill("7")
    assert sorted(shown_queries(page)) == sorted(q for _, q in run.queries if "7" in q)
    page.locator("#explorer-filter").fill("")
    page.locator("#explorer-fold").select_option(label=run.folds[1])
    wanted = [query for fold, query in run.queries if fold == run.folds[1]]
    assert sorted(shown_queries(page)) == sorted(wanted)
    page.locator("#explorer-first").select_option(label="RF")
    page.locator("#explorer-second").select_option(label="LambdaMART")
    page.locator("#explorer-sort").select_option(label="second gains most first")
    both = zip(run.values("LambdaMART", "ndcg@10"), run.values("RF", "ndcg@10"), strict=True)
    rise = {query: one - other for query, (one, other) in zip(run.queries, both, strict=True)}
    expected = sorted((rise[run.folds[1], query] for query in wanted), reverse=True)
    texts = page.locator("table.queries .difference span").all_inner_texts()
    found = [float(text.replace("−", "-")) for text in texts]
    assert found == pytest.approx(expected, abs=1.01e-4)
    assert "LambdaMART is better for" in page.locator(".tally").inner_text()


def test_the_two_rankings_of_a_query_side_by_side(show, report, run):
    page = show(report)
    page.locator("#explorer-first").select_option(label="RF")
    page.locator("#explorer-second").select_option(label="GBRT")
    name = shown_queries(page)[0]
    page.locator("button.open").first.click()
    assert page.locator("button.open").first.get_attribute("aria-expanded") == "true"
    query = next(place for place, (_, q) in enumerate(run.queries) if q == name)
    orders = {}
    for side, algorithm in enumerate(("RF", "GBRT")):
        ranked = run.rankings(algorithm, query)
        order = sorted(range(len(ranked.scores)), key=lambda d, r=ranked: (-r.scores[d], d))
        orders[algorithm] = [ranked.names[d] for d in order]
        box = page.locator(".sides > div").nth(side)
        assert box.locator(".name").all_inner_texts() == orders[algorithm][:20]
        grades = [str(int(ranked.labels[d])) for d in order[:20]]
        assert box.locator(".grade").all_inner_texts() == grades
    moves = page.locator(".sides > div").nth(1).locator(".move").all_inner_texts()
    for rank, (document, move) in enumerate(zip(orders["GBRT"], moves, strict=False)):
        rise = orders["RF"].index(document) - rank
        assert move == ("=" if rise == 0 else f"{'▲' if rise > 0 else '▼'} {abs(rise)}")
    page.locator("button.open").first.click()
    assert page.locator(".sides").count() == 0


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_light_and_dark_by_system_and_by_button(show, report):
    light, dark = show(report, color_scheme="light"), show(report, color_scheme="dark")
    assert background(light) != background(dark)
    light.locator("#theme").click()
    assert background(light) == background(dark)
    dark.locator("#theme").click()
    dark.locator("#theme").click()
    assert background(dark) == background(light)


@pytest.mark.parametrize("width", [360, 700, 1200])
def test_nothing_is_wider_than_the_screen(show, run, tmp_path, width):
    names = {"GBRT": report_runs.HOSTILE, "RF": "n" * 300}
    path = write_report(report_runs.renamed(run, names), tmp_path / "hostile.html")
    page = show(path, width=width)
    page.locator("button.open").first.click()
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown = page.locator("figure svg:visible")
    kind = "narrow" if width <= 640 else "wide"
    assert {shown.nth(n).get_attribute("class") for n in range(shown.count())} == {kind}


def test_names_break_between_words_and_leave_room_for_numbers(show, run, tmp_path):
    long = "x" * 60
    renamed = report_runs.renamed(run, {"RF": "RandomForest", "GBRT": long})
    page = show(write_report(renamed, tmp_path / "page.html"), 400)
    lines, widths = page.evaluate(
        """(long) => {
            const names = [...document.querySelectorAll("#results tbody th")];
            const one = (name) => names.find((each) => each.textContent.includes(name));
            const frame = one(long).closest(".frame");
            const text = one("RandomForest").querySelector("bdi");
            return [text.getClientRects().length, [one(long).clientWidth, frame.clientWidth]];
        }""",
        long,
    )
    assert lines == 1
    assert widths[0] <= 0.5 * widths[1]


def test_labels_of_charts_stay_on_their_sheets(show, report):
    for width in (360, 1200):
        page = show(report, width=width)
        page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        outside = page.evaluate(
            """[...document.querySelectorAll('svg text')].filter(text => {
                const sheet = text.ownerSVGElement.getBoundingClientRect(), box = text.getBoundingClientRect();
                return sheet.width && (box.left < sheet.left - 1 || box.right > sheet.right + 1);
            }).map(text => text.textContent)"""
        )
        assert outside == []


def test_paper_is_white_and_without_controls(show, report, tmp_path):
    page = show(report, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert background(page) == "rgb(255, 255, 255)"
    for hidden in ("#theme", "nav", "#queries"):
        assert not page.locator(hidden).is_visible()
    assert page.locator("#results").is_visible()
    page.emulate_media(media="screen")
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")


def test_one_algorithm_and_its_queries(show, run, tmp_path):
    path = write_report(report_runs.some_of(run, ["RF"]), tmp_path / "one.html")
    page = show(path)
    values = page.locator("table.queries td.number").all_inner_texts()
    assert values == sorted(values)  # the lowest first
    page.locator("button.open").first.click()
    assert page.locator(".sides > div").count() == 1


def test_many_queries_stay_quick_to_look_at(show, run, tmp_path):
    large = report_runs.enlarged(run, n_queries=30_000)
    path = write_report(report_runs.some_of(large, ["RF", "GBRT"]), tmp_path / "many.html")
    page = show(path)
    page.locator("#explorer-filter").fill("2999")
    assert "2999" in shown_queries(page)
    assert len(shown_queries(page)) == 13  # 2999, 12999, 22999, and 29990 to 29999


ATTACK = "<img src=x onerror='window.attacked=1'>"  # no slash: it may be the name of a file
ATTACKS = [f"{ATTACK}{number}" for number in range(5)]


@pytest.fixture
def attacked(monkeypatch, tmp_path):
    """A folder with data, models and an experiment in whose names there is markup; it is the current one."""
    monkeypatch.chdir(tmp_path)
    plain = rw.make_ranking(12, 8, 5, seed=1, doc_ids=True)
    ids = np.array([f"{ATTACK}{query}" for query in plain.query_ids.tolist()], object)
    docs = np.array([f"{ATTACK}{document}" for document in plain.doc_ids.tolist()], object)
    data = rw.RankingData(
        plain.features, plain.labels, ids, doc_ids=docs, feature_names=tuple(ATTACKS)
    )
    rw.write_table(data, f"{ATTACK}.parquet")
    for seed in (1, 2):
        rw.save(rw.RandomForest(2, max_leaves=4, seed=seed).fit(data), f"{ATTACK}{seed}.rankwood")
    kinds = "".join(
        f'[[algorithm]]\nname = "{ATTACK}{seed}"\nkind = "GBRT"\nn_trees = {seed}\n'
        for seed in (1, 2)
    )
    Path("run.toml").write_text(
        f'[data]\ndata = "{ATTACK}.parquet"\nfolds = 3\n[run]\nname = "{ATTACK}"\njobs = 0\n'
        f'[measures]\nprimary = "ndcg@5"\n{kinds}'
    )
    return tmp_path


@pytest.mark.parametrize("page", ["report", "compare", "check", "docs"])
def test_names_with_markup_are_shown_as_text_and_run_nothing(show, attacked, page):
    path = attacked / "page.html"
    models = [f"{ATTACK}1.rankwood", f"{ATTACK}2.rankwood"]
    if page == "report":
        assert main(["experiment", "run.toml", "--out", "run", "--quiet"]) == 0
        write_report(rw.read_run("run"), path)
    elif page == "compare":
        assert main(["compare", *models, "--data", f"{ATTACK}.parquet", "--html", str(path)]) == 0
    elif page == "check":
        call = ["check", f"{ATTACK}.parquet", "--model", models[0], "--html", str(path)]
        assert main(call) in (0, 1)
    else:
        with ThreadPoolExecutor(1) as other:  # Playwright has a loop on this thread
            path.write_text(other.submit(asyncio.run, documentation(models)).result())
    shown = show(path)
    shown.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    for button in shown.locator("button.open").all()[:2]:
        button.click()
    assert shown.evaluate("window.attacked") is None
    assert shown.locator("img").count() == 0
    assert ATTACK in shown.locator("body").inner_text()


async def documentation(models):
    httpx, app = pytest.importorskip("httpx"), pytest.importorskip("rankwood.serve.app")
    from rankwood.serve.store import ModelStore

    transport = httpx.ASGITransport(app=app.make_app(ModelStore(models), None, reload_seconds=0))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        return (await client.get("/docs")).text
