"""``rankwood learning-curve`` and ``rankwood convergence``: the library's figures, as text, JSON, CSV and plot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rankwood as rw


@pytest.fixture
def files(rankwood):
    data = rw.make_ranking(n_queries=40, docs_per_query=8, n_features=6, seed=1)
    parts = rw.split_queries(data, (0.5, 0.25, 0.25), seed=1)
    for name, part in zip(("train", "vali", "test"), parts, strict=True):
        rw.write_letor(part, f"{name}.txt")
    return [rw.read_letor(f"{name}.txt") for name in ("train", "vali", "test")]


LEARNING = (
    *("learning-curve", "--data", "train.txt", "--test", "test.txt"),
    *("--model", "RandomForest:n_trees=2", "--model", "GBRT:n_trees=2,min_leaf=1"),
)


def test_a_learning_curve_is_the_librarys(rankwood, files):
    train, _, test = files
    outcome = rankwood(
        *LEARNING, "--steps", 2, "--repetitions", 2, "-m", "map", "--json", "--quiet"
    )
    expected = rw.learning_curve(
        {"RandomForest": rw.RandomForest(2), "GBRT": rw.GBRT(2, min_leaf=1)},
        train,
        test,
        "map",
        shares=(0.5, 1.0),
        repetitions=2,
    )
    assert json.loads(outcome.out) == expected.to_dict()


def test_a_learning_curve_in_files(rankwood, files):
    pytest.importorskip("matplotlib")
    outcome = rankwood(*LEARNING, "--csv", "c.csv", "--plot", "c.svg", "--share", 1, "--share", 0.3)
    assert outcome.code == 0, outcome.err
    assert "30 %" in outcome.out
    assert len(Path("c.csv").read_text().splitlines()) == 5
    assert "<svg" in Path("c.svg").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--plot", "c.doc"), "--plot c.doc must end in .png, .svg or .pdf"),
        (("--csv", "no/c.csv"), "does not exist"),
        (("--share", "1.5"), "must be in (0, 1], got 1.5"),
        (("--share", "0.5", "--steps", "5"), "give one of them"),
        (("--measure", "ndgc"), "Did you mean 'ndcg'"),
        (("--folds", "."), "leave out --data"),
        (("--repetitions", "0"), "repetitions must be"),
    ],
)
def test_mistakes_of_learning_curve(rankwood, files, options, message):
    outcome = rankwood(*LEARNING, *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err


def test_convergence_of_files_and_fits(rankwood, files):
    train, vali, test = files
    forest = rw.RandomForest(6, max_leaves=6).fit(train)
    rw.save(forest, "forest.rankwood")
    call = ("convergence", "forest.rankwood", "--model", "GBRT:n_trees=5,min_leaf=5")
    parts = ("--data", "train.txt", "--valid", "vali.txt", "--test", "test.txt")
    outcome = rankwood(*call, *parts, "--json", "--quiet")
    expected = rw.convergence(
        {
            "forest.rankwood": forest,
            "GBRT": rw.GBRT(5, min_leaf=5, early_stopping=None).fit(train, valid=vali),
        },
        {"train": train, "valid": vali, "test": test},
    )
    assert json.loads(outcome.out) == json.loads(json.dumps(expected.to_dict()))
    outcome = rankwood(*call, *parts, "--every", 2, "--csv", "c.csv")
    assert outcome.code == 0, outcome.err
    for text in ("forest.rankwood: ndcg@10", "oob", "best", "GBRT: ndcg@10"):
        assert text in outcome.out
    assert Path("c.csv").read_text().startswith("model,part,unit,at,value")
    pytest.importorskip("matplotlib")
    assert rankwood(*call, *parts, "--plot", "c.png").code == 0
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")


def test_convergence_of_folds(rankwood, files):
    for number in (1, 2):
        Path(f"MQ/Fold{number}").mkdir(parents=True)
        for name, part in zip(("train", "vali", "test"), files, strict=True):
            rw.write_letor(part, f"MQ/Fold{number}/{name}.txt")
    call = (
        "convergence",
        "--model",
        "AdaRank:n_rounds=3",
        "--model",
        "GBRT:n_trees=4,min_leaf=5",
        "--folds",
        "MQ",
    )
    outcome = rankwood(*call, "--json", "--quiet")
    assert outcome.code == 0, outcome.err
    expected = rw.convergence(
        {"AdaRank": rw.AdaRank(3), "GBRT": rw.GBRT(4, min_leaf=5)}, rw.read_folds("MQ")
    )
    assert json.loads(outcome.out) == json.loads(json.dumps(expected.to_dict()))
    shown = rankwood(*call, "--csv", "c.csv")
    assert "means over 2 folds" in shown.out
    assert Path("c.csv").read_text().startswith("model,part,unit,at,value,deviation")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("m.rankwood", "--folds", "MQ"), "m.rankwood is trained already"),
        (("--folds", "MQ"), "name models to train in the folds"),
        (("--model", "GBRT", "--folds", "MQ"), "MQ"),
        (("--model", "GBRT", "--folds", "MQ", "--test", "test.txt"), "leave out --data"),
        (("--test", "test.txt"), "name model files"),
        (("m.rankwood",), "name data to measure on"),
        (("--model", "GBRT", "--test", "test.txt"), "--model trains on --data"),
        (("m.rankwood", "m.rankwood", "--test", "test.txt"), "given twice"),
        (("no.rankwood", "--test", "test.txt"), "no.rankwood"),
        (("m.rankwood", "--test", "test.txt", "-m", "mpa"), "Did you mean 'map'"),
        (("svm.rankwood", "--test", "test.txt"), "RankSVM has no trees or layers to stop at"),
        (("m.rankwood", "--test", "test.txt", "--plot", "x.gif"), "must end in"),
    ],
)
def test_mistakes_of_convergence(rankwood, files, arguments, message):
    rw.save(rw.GBRT(2, min_leaf=5).fit(files[0]), "m.rankwood")
    rw.save(rw.RankSVM().fit(files[0]), "svm.rankwood")
    outcome = rankwood("convergence", *arguments)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err
