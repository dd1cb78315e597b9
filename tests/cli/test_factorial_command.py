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
    found = json.loads(outcome.out)
    assert found["fits"] == expected.fits.tolist()
    assert [row["p"] for row in found["anova"]] == [None] * 5  # one fold
    assert found["replicates_are"] == "folds"
    outcome = rankwood(
        *(*files, *FACTORS, "--repetitions", 2, "-m", "map"),
        *("--csv", "v.csv", "--html", "page.html", "--plot", "effects.png"),
    )
    assert outcome.code == 0, outcome.err
    for text in (
        "effect of",
        "max_leaves × bag",
        "share (η²)",
        "partial η²",
        "one fold gives no error term",
    ):
        assert text in outcome.out
    lines = Path("v.csv").read_text().splitlines()
    assert lines[0] == "max_leaves,bag,fold,repetition,map"
    assert lines[2] == f"2,row,1,2,{expected.fits[0, 0, 0, 1].item()!r}"
    assert len(lines) == 1 + 2 * 2 * 2
    assert Path("effects.png").read_bytes().startswith(b"\x89PNG")
    page = Path("page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<table>") == 3


def write_folds(n_folds):
    """A collection of ``n_folds`` folds in the folder "data"."""
    folds = rw.make_folds(rw.make_ranking(30, 6, 5, seed=2), n_folds)
    for name, fold in zip(folds.names, folds, strict=True):
        Path("data", name).mkdir(parents=True)
        for part, rows in zip(("train", "vali", "test"), fold, strict=True):
            rw.write_letor(rows, f"data/{name}/{part}.txt")


def test_repetitions_of_a_deterministic_ranker_move_no_p_value(rankwood):
    write_folds(5)

    def p_values(repetitions):
        outcome = rankwood(
            *(
                "factorial",
                "--folds",
                "data",
                "--model",
                "GBRT:n_trees=2,features_per_node=none",
                "--factor",
                "max-leaves=2,5",
            ),
            *(
                "--factor",
                "learning-rate=0.1,0.5",
                "--repetitions",
                repetitions,
                "--json",
                "--quiet",
            ),
            *("--csv", "fits.csv"),
        )
        assert outcome.code == 0, outcome.err
        lines = Path("fits.csv").read_text().splitlines()
        assert lines[0] == "max_leaves,learning_rate,fold,repetition,ndcg@10"
        assert lines[-1].startswith(f"5,0.5,Fold5,{repetitions},")
        return [row["p"] for row in json.loads(outcome.out)["anova"][:3]]

    once = p_values(1)
    assert all(0 < p < 1 for p in once)
    assert p_values(6) == once


def test_coupled_factors_exceptions_and_three_of_them(rankwood, files):
    call = (
        *("factorial", "--data", "train.txt", "--test", "test.txt", "--model", "BROOF:n_trees=2,max_leaves=4"),
        *("--factor", "loss+n-rounds=absolute+3,gradient+2", "--factor", "validation+update_weights=oob,train"),
        *("--factor", "bag=row,query", "--where", "loss=gradient:update_weights=none"),
    )  # fmt: skip
    outcome = rankwood(*call, "--repetitions", 2, "--order", 2, "--json", "--quiet")
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
    assert found["fits"] == expected.fits.tolist()
    assert list(found["factors"]) == ["loss + n_rounds", "validation + update_weights", "bag"]
    assert [row["source"] for row in found["anova"]][-4:] == [
        "validation + update_weights × bag", "higher interactions", "fold", "error"
    ]  # fmt: skip
    assert expected.anova[-3].source == "loss + n_rounds × validation + update_weights × bag"


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
    assert found["fits"] == [
        [
            [[means[f"{loss} {way}", fold, n]["map"] for n in (1, 2)] for fold in run.folds]
            for way in ("oob", "train")
        ]
        for loss in ("absolute", "gradient")
    ]
    assert found["folds"] == run.folds
    assert [row["degrees"] for row in found["anova"]] == [1, 1, 1, 2, 6]
    notes = " ".join(found["notes"])
    assert "n_rounds varies with loss" in notes
    assert "update_weights differs between cells too" in notes
    assert "not in the design: RF" in notes
    as_printed = rankwood(
        *("factorial", "run", "--factor", "loss", "--factor", "validation"),
        *("--replicates", "repetitions", "-m", "ndcg@10", "--json"),
    )
    found = json.loads(as_printed.out)
    assert found["replicates"] == 2
    assert [row["degrees"] for row in found["anova"]] == [1, 1, 1, 4]
    of_one = [means["gradient oob", fold, 2]["ndcg@10"] for fold in run.folds]
    assert found["values"][1][0][1] == pytest.approx(sum(of_one) / 3)
    options = {"replicates": "repetitions"}
    in_python = rw.factorial_of_run("run", ["loss", "validation"], "ndcg@10", **options)
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
    lines = Path("v.csv").read_text().splitlines()
    assert lines[0] == "n_rounds,validation,fold,repetition,map"
    assert lines[1].startswith("3,train,Fold1,1,")
    assert len(lines) == 1 + 4 * 3 * 2


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
        (("--factor", "loss", "--factor", "validation", "--replicates", "all"), "Take 'folds'"),
        (("--factor", "loss", "--factor", "validation", "--order", "3"), "order must be a whole number between 1 and 2"),
    ],
)  # fmt: skip
def test_mistakes_about_a_run_are_named(rankwood, run, options, message):
    outcome = rankwood("factorial", "run", *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())


def test_what_a_run_lacks_is_left_out_and_named(rankwood, run):
    call = ("factorial", "run", "--factor", "loss", "--factor", "validation", "--json")
    paths = sorted(Path("run/cells").glob("gradient oob~Fold2~*"))
    paths[0].unlink()
    found = json.loads(rankwood(*call).out)  # the other repetition stands for both
    notes = " ".join(found["notes"])
    assert "3 folds, each value the mean of 1 to 2 repetitions" in notes
    assert "1 of 24 cells of the run have no map: gradient oob, Fold2, repetition 1; go on" in notes
    assert found["fits"][1][0][1][0] is None
    assert len(found["values"][1][0]) == 3
    paths[1].unlink()
    found = json.loads(rankwood(*call).out)
    notes = " ".join(found["notes"])
    assert "left out, since not every cell has a value: fold Fold2" in notes
    assert "2 of 24 cells of the run have no map" in notes
    assert [row["degrees"] for row in found["anova"]] == [1, 1, 1, 1, 3]
    for path in Path("run/cells").glob("gradient oob~*"):
        path.unlink()
    outcome = rankwood(*call)
    assert outcome.code == 2
    assert "no fold has a value of every cell" in " ".join(outcome.err.split())
    assert rankwood("factorial", "none", "--factor", "a", "--factor", "b").code == 2


def test_an_algorithm_that_is_not_random_lacks_no_repetitions(rankwood, run):
    for path in Path("run/cells").glob("gradient oob~*~2*"):
        path.unlink()
    record = json.loads(Path("run/record.json").read_text())
    for one in record["configuration"]["algorithms"]:
        one["is_random"] = one["name"] != "gradient oob"
    del record["checksum"]
    Path("run/record.json").write_text(json.dumps(record))
    found = rw.factorial_of_run("run", ["loss", "validation"])
    assert found.values.shape == (2, 2, 3)
    assert "each value the mean of 1 to 2 repetitions" in str(found)
    assert "cells of the run have no" not in str(found)


def test_folds_of_a_run_with_the_same_test_file_are_one_block(rankwood):
    write_folds(3)
    shutil.copy("data/Fold1/test.txt", "data/Fold3/test.txt")
    cells = [
        {"name": f"{leaves} {bag}", "kind": "RandomForest", "n_trees": 2, "max_leaves": leaves, "bag": bag}
        for leaves in (2, 5)
        for bag in ("row", "query")
    ]  # fmt: skip
    experiment = {
        "data": {"folds": "data", "on_overlap": "ignore"},
        "run": {"repetitions": 1, "jobs": 0},
        "algorithm": cells,
    }
    rw.run_experiment(experiment, out="run")
    found = rw.factorial_of_run("run", ["max_leaves", "bag"])
    assert found["fold"].degrees == 1
    assert "3 folds have 2 different test parts" in str(found)
    assert found.values[0, 0, 0] == pytest.approx(
        (found.fits[0, 0, 0, 0] + found.fits[0, 0, 2, 0]) / 2
    )


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
        ((*FACTORS, "--repetitions", "1", "--replicates", "repetitions"), "one replicate"),
        ((*FACTORS, "--order", "3"), "order must be a whole number between 1 and 2"),
        ((*FACTORS, "--plot", "x.txt"), "must end in .png"),
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
