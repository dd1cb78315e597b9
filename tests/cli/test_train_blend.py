"""Blends on the command line: parts as text, training, inspection, export, wrong texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rankwood as rw
from rankwood.cli.parameters import read, read_rankers
from rankwood.errors import ParameterError


@pytest.fixture
def files(tmp_path):
    """A training and a validation file."""
    paths = [tmp_path / "train.txt", tmp_path / "vali.txt"]
    for seed, path in enumerate(paths, start=1):
        rw.write_letor(rw.make_ranking(20, 10, 6, seed=seed), path)
    return paths


PARTS = "RandomForest(n_trees=4), classes=OrdinalRanker(base=GBRT(n_trees=2, max_leaves=4), scoring='squared')"


def train(rankwood, files, *options):
    return rankwood(
        "train", "--model", "Blend", "--data", files[0], "--valid", files[1], "--out", "m", *options
    )


def test_a_blend_is_trained_inspected_and_exported(rankwood, files):
    outcome = train(rankwood, files, "--parts", PARTS, "--rule", "search")
    assert outcome.code == 0, outcome.err
    assert "weights" in outcome.out
    classes = rw.OrdinalRanker(rw.GBRT(2, max_leaves=4), scoring="squared")
    same = rw.Blend([("RandomForest", rw.RandomForest(4)), ("classes", classes)], rule="search")
    rw.save(same.fit(rw.read_letor(files[0]), valid=rw.read_letor(files[1])), "python")
    assert Path("m").read_bytes() == Path("python").read_bytes()
    facts = json.loads(rankwood("inspect", "m", "--json").out)
    assert facts["parts"] == 2
    assert facts["one sum of trees"] is True
    assert facts["weight of RandomForest"] + facts["weight of classes"] == pytest.approx(1)
    exported = rankwood("export", "m", "--to", "lightgbm", "m.txt", "--verify", files[1])
    assert exported.code == 0, exported.err
    assert "20 of 20 (100.00%)" in exported.out


def test_weights_and_gates_are_given_as_text(rankwood, files):
    options = ("--parts", "RankSVM, RankSVM(C=3)", "--weights", "0.25, 0.75", "--scaling", "none")
    outcome = train(rankwood, files, *options)
    assert outcome.code == 0, outcome.err
    assert rw.load("m").weights_ == {"RankSVM-1": 0.25, "RankSVM-2": 0.75}
    options = (
        "--parts",
        "RandomForest(n_trees=2), ExtraTrees(n_trees=2)",
        "--weights",
        "per-document",
    )
    options += ("--gate", "RandomForest(n_trees=3)", "--strength", "1")
    outcome = train(rankwood, files, *options)
    assert outcome.code == 0, outcome.err
    assert rw.load("m").blend_.gates[0].n_trees == 3
    refused = rankwood("export", "m", "--to", "json", "m.json")
    assert refused.code == 2
    assert "depend on the document" in refused.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "parts must be written as names of rankers"),
        ("1 +", "parts must be written as names of rankers"),
        ("3", "parts must be written as names of rankers"),
        ("RandomForest(5)", "parts must be written as names of rankers"),
        ("GBRT(n_trees=open('x'))", "ranker in parts 'open' is not known"),
        ("GBRT(n_trees=x)", "parts must be written as names of rankers"),
        ("a.b", "parts must be written as names of rankers"),
        ("RandomForst", "ranker in parts 'RandomForst' is not known. Did you mean 'RandomForest'"),
        ("GBRT(n_tree=3)", "parameter of GBRT 'n_tree' is not known. Did you mean 'n_trees'"),
        (
            "OrdinalRanker(base=GBRT, n_trees=3)",
            "parameter of OrdinalRanker 'n_trees' is not known",
        ),
    ],
)
def test_wrong_parts_are_refused(text, message):
    with pytest.raises(ParameterError, match=message.replace("(", r"\(").replace(".", r"\.")):
        read_rankers("parts", text)


def test_parts_of_the_same_name_are_refused_by_fit(rankwood, files):
    outcome = train(rankwood, files, "--parts", "GBRT, GBRT=RandomForest")
    assert outcome.code == 2
    assert "names of parts must differ" in outcome.err


def test_rankers_are_read_with_their_parameters():
    values = read("Blend", {"parts": "GBRT(n_trees=3), OrdinalRanker(n_trees=4)", "weights": "oob"})
    (first, boosting), (second, classes) = values["parts"]
    assert (first, boosting.n_trees) == ("GBRT", 3)
    assert (second, classes.base.n_trees) == ("OrdinalRanker", 4)
    assert values["weights"] == "oob"
