"""``rankwood factorial``: the tables of the library, as text, JSON, CSV and a page."""

from __future__ import annotations

import json
import shutil
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


def test_coupled_factors_exceptions_and_three_of_them(rankwood, files):
    call = (
        *("factorial", "--data", "train.txt", "--test", "test.txt", "--model", "BROOF:n_trees=2,max_leaves=4"),
        *("--factor", "loss+n-rounds=absolute+3,gradient+2", "--factor", "validation+update_weights=oob,train"),
        *("--factor", "bag=row,query", "--where", "loss=gradient:update_weights=none"),
    )  # fmt: skip
    outcome = rankwood(*call, "--repetitions", 2, "--json", "--quiet")
    assert outcome.code == 0, outcome.err
    expected = factorial_design(
        rw.BROOF(n_trees=2, max_leaves=4),
        {
            ("loss", "n_rounds"): [("absolute", 3), ("gradient", 2)],
            ("validation", "update_weights"): ["oob", "train"],
            "bag": ["row", "query"],
        },
        rw.read_letor("train.txt"),
        rw.read_letor("test.txt"),
        where=[({"loss": "gradient"}, {"update_weights": None})],
        repetitions=2,
    )
    found = json.loads(outcome.out)
    assert found["values"] == expected.values.tolist()
    assert list(found["factors"]) == ["loss + n_rounds", "validation + update_weights", "bag"]
    assert [row["source"] for row in found["anova"]][-2] == (
        "loss + n_rounds × validation + update_weights × bag"
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run and its folder: two losses, two validation sets, of two algorithms more than the design."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    common = {"kind": "BROOF", "n_trees": 2, "max_leaves": 4}
    cells = [
        {"name": f"{loss} {way}", "loss": loss, "validation": way, **common}
        | ({"n_rounds": 2} if loss == "gradient" else {"n_rounds": 3, "update_weights": way})
        for loss in ("absolute", "gradient")
        for way in ("oob", "train")
    ]
    result = rw.run_experiment(
        {
            "data": {"generate": {"queries": 18, "docs": 8, "features": 6}, "folds": 3},
            "run": {"repetitions": 2, "jobs": 0},
            "measures": {"primary": "map", "also": ["ndcg@10"]},
            "algorithm": [*cells, {"name": "RF", "kind": "RandomForest", "n_trees": 2}],
        },
        out=folder,
    )
    return result, folder


@pytest.fixture
def run(rankwood, finished):
    """The finished run, and a copy of its folder as "run"."""
    result, folder = finished
    shutil.copytree(folder, "run")
    return result


def test_the_design_of_a_finished_run(rankwood, run):
    outcome = rankwood("factorial", "run", "--factor", "loss", "--factor", "validation", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["response"] == "map"
    assert found["factors"] == {"loss": ["absolute", "gradient"], "validation": ["oob", "train"]}
    means = {(c.algorithm, c.fold, c.repetition): c.means for c in run.cells}
    expected = [
        [
            [sum(means[f"{loss} {way}", fold, n]["map"] for fold in run.folds) / 3 for n in (1, 2)]
            for way in ("oob", "train")
        ]
        for loss in ("absolute", "gradient")
    ]
    for row, theirs in zip(found["values"], expected, strict=True):
        for values, others in zip(row, theirs, strict=True):
            assert values == pytest.approx(others)
    assert found["anova"][-1]["degrees"] == 4
    notes = " ".join(found["notes"])
    assert "n_rounds varies with loss" in notes
    assert "update_weights differs between cells too" in notes
    assert "not in the design: RF" in notes
    by_all = rankwood(
        "factorial", "run", "--factor", "loss", "--factor", "validation", "--replicates", "all", "-m", "ndcg@10", "--json"
    )  # fmt: skip
    found = json.loads(by_all.out)
    assert found["replicates"] == 6
    assert found["values"][1][0][5] == means["gradient oob", "Fold3", 2]["ndcg@10"]
    in_python = rw.factorial_of_run("run", ["loss", "validation"], "ndcg@10", replicates="all")
    assert in_python.values.tolist() == found["values"]
    assert list(in_python.notes) == found["notes"]
    one = rankwood(
        "factorial",
        "run",
        "--factor",
        "n_rounds",
        "--factor",
        "validation=train,oob",
        "--csv",
        "v.csv",
    )
    assert one.code == 0, one.err
    assert Path("v.csv").read_text().splitlines()[1].startswith("3,train,1,")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--factor", "loss"), "differ in kind, "),
        (("--factor", "los", "--factor", "validation"), "Did you mean 'loss'"),
        (("--factor", "loss", "--factor", "loss"), "loss is given twice"),
        (("--factor", "loss", "--factor", "n_rounds"), "'absolute oob' and 'absolute train' have the same levels"),
        (("--factor", "update_weights=oob,none", "--factor", "validation"), "no algorithm of the run has oob × train"),
        (("--factor", "loss", "--factor", "learning_rate"), "needs two levels or more"),
        (("--factor", "loss=absolute,median", "--factor", "validation"), "level of loss 'median'"),
        (("--factor", "loss", "--factor", "validation", "-m", "err"), "measure of this run 'err'"),
        (("--factor", "loss", "--factor", "validation", "--model", "BROOF"), "leave out --model"),
        (("--factor", "loss", "--factor", "validation", "--replicates", "fold"), "Did you mean 'folds'"),
    ],
)  # fmt: skip
def test_mistakes_about_a_run_are_named(rankwood, run, options, message):
    outcome = rankwood("factorial", "run", *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())


def test_a_run_with_holes_is_refused(rankwood, run):
    path = next(Path("run/cells").glob("gradient oob~Fold2~1*"))
    path.unlink()
    outcome = rankwood("factorial", "run", "--factor", "loss", "--factor", "validation")
    assert outcome.code == 2
    assert "1 of 24 cells have no map: gradient oob, Fold2, repetition 1." in " ".join(
        outcome.err.split()
    )
    assert rankwood("factorial", "none", "--factor", "a", "--factor", "b").code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*FACTORS, "--where", "bag=row"), "--where must be written as"),
        ((*FACTORS, "--where", "bag=roe:n_trees=3"), "where: level of bag 'roe'"),
        (("--factor", "bag=row,query", "--factor", "n_trees+max_leaves=1+2+3,2"), "2 joined by +"),
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
