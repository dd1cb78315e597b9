from __future__ import annotations

import stat

import pytest

EXPERIMENT = """
[data]
generate = { queries = 30, docs = 10, features = 6 }
folds = 3
[measures]
primary = "ndcg@10"
also = ["map"]
[[algorithm]]
name = "RF"
kind = "RandomForest"
n_trees = 3
[[algorithm]]
name = "GBRT"
kind = "GBRT"
n_trees = 5
tune = { learning_rate = [0.05, 0.3] }
[compare]
baseline = "RF"
"""


@pytest.fixture
def run(rankwood, tmp_path):
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    outcome = rankwood("experiment", "small.toml", "--out", "run", "--jobs", 0, "--quiet")
    assert outcome.code == 0, outcome.err
    return tmp_path / "run"


def test_a_run_becomes_a_report(rankwood, run):
    outcome = rankwood("report", "run", "--formats", "html,md,csv,tex,svg")
    assert outcome.code == 0, outcome.err
    assert outcome.out.strip() == "run/report/report.html"
    text = (run / "report" / "report.html").read_text()
    for part in ("ndcg@10", "RF", "GBRT", "learning_rate", "rankwood experiment", "30 queries"):
        assert part in text
    assert '"rankings":{"' in text  # the run kept its scores
    names = {path.name for path in (run / "report").iterdir()}
    assert names == {"report.html", "report.md", "tables.tex", "tables", "figures"}


def test_the_page_alone_and_shown_in_a_browser(rankwood, run, tmp_path, monkeypatch):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/shown\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("BROWSER", str(browser))
    outcome = rankwood("report", "run", "--out", "page.html", "--open")
    assert outcome.code == 0, outcome.err
    assert outcome.out.strip() == "page.html"
    assert (tmp_path / "shown").read_text().strip() == (tmp_path / "page.html").as_uri()
    assert not (run / "report").exists()


def test_mistakes_are_told_in_one_message(rankwood, tmp_path):
    (tmp_path / "empty").mkdir()
    outcome = rankwood("report", "nowhere")
    assert outcome.code == 2
    assert "there is no folder nowhere" in outcome.err
    outcome = rankwood("report", "empty")
    assert outcome.code == 2
    assert "holds no run" in outcome.err
    outcome = rankwood("report", "empty", "--formats", "csv", "--open")
    assert outcome.code == 2
    assert "name html among --formats" in outcome.err


def test_an_unknown_format_is_told_with_the_nearest(rankwood, run):
    outcome = rankwood("report", "run", "--formats", "html,pgn")
    assert outcome.code == 2
    assert "format 'pgn' is not known. Did you mean 'png'?" in outcome.err
