"""``rankwood bias-variance``: the figures of the library, as text, JSON, table and plot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rankwood as rw


@pytest.fixture
def parts(tmp_path):
    data = rw.make_ranking(n_queries=30, docs_per_query=8, n_features=6, seed=1)
    paths = [tmp_path / f"{name}.txt" for name in ("train", "vali", "test")]
    for part, path in zip(rw.split_queries(data, (0.5, 0.2, 0.3), seed=1), paths, strict=True):
        rw.write_letor(part, path)
    return paths


MODELS = ("--model", "RandomForest:n_trees=3,max_leaves=4", "--model", "GBRT:n-trees=3,min_leaf=1")


def test_it_shows_what_the_library_finds(rankwood, parts):
    train, vali, test = parts
    call = ("bias-variance", "--data", train, "--test", test, *MODELS, "--trainings", 2)
    shown = json.loads(rankwood(*call, "--json", "--quiet").out)
    expected = rw.bias_variance(
        {
            "RandomForest": rw.RandomForest(3, max_leaves=4),
            "GBRT": rw.GBRT(3, min_leaf=1),
        },
        rw.read_letor(train),
        rw.read_letor(test),
        trainings=2,
    )
    assert shown == expected.to_dict()
    outcome = rankwood(*call, "--csv", "t.csv", "--valid", vali, "--pairs", "all", "--max-pairs", 5)
    assert outcome.code == 0, outcome.err
    for text in ("algorithm", "bias²", "RandomForest", "2 trainings", "pairs (all)", "were drawn"):
        assert text in outcome.out
    assert Path("t.csv").read_text().startswith("algorithm,layer,error")


def test_folds_and_two_models_of_one_name(rankwood, tmp_path):
    data = rw.make_ranking(n_queries=12, docs_per_query=6, n_features=5, seed=2)
    for number, fold in enumerate(rw.make_folds(data, 3), 1):
        folder = tmp_path / "folds" / f"Fold{number}"
        folder.mkdir(parents=True)
        for name, part in zip(("train", "vali", "test"), fold, strict=True):
            rw.write_letor(part, folder / f"{name}.txt")
    models = ("--model", "RandomForest:n_trees=1", "--model", "RandomForest:n_trees=4")
    outcome = rankwood("bias-variance", "--folds", "folds", *models, "--trainings", 2)
    assert outcome.code == 0, outcome.err
    assert "RandomForest:n_trees=4" in outcome.out
    assert "each of 3 folds" in outcome.out


def test_mistakes_are_named(rankwood, parts):
    train, _, test = parts
    call = ("bias-variance", "--data", train, "--test", test)
    for arguments, message in (
        ((*call, "--model", "RandomForst"), "Did you mean 'RandomForest'?"),
        ((*call, "--model", "RandomForest:n_trees"), "must be written as NAME:parameter=value"),
        ((*call, "--model", "RandomForest:trees=3"), "'trees' is not known"),
        ((*call, "--model", "GBRT", "--model", "GBRT"), "is given twice"),
        ((*call, "--model", "GBRT", "--csv", "x.doc"), "must end in .csv"),
        ((*call, "--model", "GBRT", "--csv", "no/x.csv"), "does not exist"),
        ((*call, "--model", "GBRT", "--folds", "."), "leave out --data"),
        ((*call, "--model", "GBRT", "--pairs", "x"), "pairs 'x' is not known"),
        (("bias-variance", "--data", train, "--model", "GBRT"), "--test is missing"),
    ):
        outcome = rankwood(*arguments)
        assert outcome.code == 2
        assert message in " ".join(outcome.err.split())
