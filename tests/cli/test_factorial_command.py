"""``rankwood factorial``: the tables of the library, as text, JSON, CSV and a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rankwood as rw
from rankwood.studies.factorial import factorial_design

FACTORS = ("--factor", "max-leaves=2,6", "--factor", "bag=row,query")


@pytest.fixture
def files(rankwood):
    data = rw.make_ranking(n_queries=30, docs_per_query=8, n_features=6, seed=1)
    for name, part in zip(
        ("train", "test"), rw.split_queries(data, (0.6, 0.4), seed=1), strict=True
    ):
        rw.write_letor(part, f"{name}.txt")
    return (
        "factorial",
        "--data",
        "train.txt",
        "--test",
        "test.txt",
        "--model",
        "RandomForest:n_trees=2",
    )


def test_it_shows_what_the_library_finds(rankwood, files):
    outcome = rankwood(*files, *FACTORS, "--repetitions", 2, "--json", "--quiet", "-m", "map")
    expected = factorial_design(
        rw.RandomForest(n_trees=2),
        {"max_leaves": [2, 6], "bag": ["row", "query"]},
        rw.read_letor("train.txt"),
        rw.read_letor("test.txt"),
        "map",
        repetitions=2,
    )
    assert json.loads(outcome.out)["values"] == expected.values.tolist()
    outcome = rankwood(
        *files, *FACTORS, "--repetitions", 2, "--csv", "v.csv", "--html", "page.html"
    )
    assert outcome.code == 0, outcome.err
    for text in ("effect of", "max_leaves × bag", "sum of squares", "2 replicates"):
        assert text in outcome.out
    assert len(Path("v.csv").read_text().splitlines()) == 1 + 2 * 2 * 2
    page = Path("page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<table>") == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--factor", "bag=row,query"), "give --factor twice"),
        (("--factor", "bag", "--factor", "n_trees=1,2"), "written as parameter=value"),
        (("--factor", "bag=row,query", "--factor", "bag=row,query"), "bag is given twice"),
        (("--factor", "bg=row,query", "--factor", "n_trees=1,2"), "'bg' is not known"),
        (("--factor", "bag=row,quary", "--factor", "n_trees=1,2"), "Did you mean 'query'"),
        (("--factor", "bag=row", "--factor", "n_trees=1,2"), "two different values"),
        (("--factor", "loss=a,b", "--factor", "n_trees=1,2"), "it is a parameter of BROOF"),
        ((*FACTORS, "--repetitions", "1"), "one replicate"),
        ((*FACTORS, "--csv", "x.txt"), "must end in .csv"),
        ((*FACTORS, "--html", "no/x.html"), "does not exist"),
        ((*FACTORS, "--measure", "ndgc"), "Did you mean 'ndcg'"),
    ],
)
def test_mistakes_are_named(rankwood, files, options, message):
    outcome = rankwood(*files, *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err
