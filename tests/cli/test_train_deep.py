"""Deep forests on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rankwood as rw


@pytest.fixture
def parts(tmp_path):
    """A training, a validation and a test file."""
    data = rw.make_ranking(n_queries=40, docs_per_query=12, n_features=9, seed=1)
    paths = [tmp_path / f"{name}.txt" for name in ("train", "vali", "test")]
    for part, path in zip(rw.split_queries(data, (0.6, 0.2, 0.2), seed=1), paths, strict=True):
        rw.write_letor(part, path)
    return paths


CALLS = {
    "forests": (
        ("--n-forests", 3, "--n-trees", 4, "--max-layers", 2, "--max-leaves", 9, "--seed", 3),
        lambda: rw.DeepForest(n_forests=3, n_trees=4, max_layers=2, max_leaves=9, seed=3),
    ),
    "trees": (
        ("--n-forests", 2, "--n-trees", 3, "--max-layers", 2, "--augment", "trees"),
        lambda: rw.DeepForest(n_forests=2, n_trees=3, max_layers=2, augment="trees"),
    ),
    "lambdamart": (
        ("--layer", "lambdamart", "--n-forests", 2, "--n-trees", 3, "--max-layers", 2),
        lambda: rw.DeepForest.lambdamart(2, 3, max_layers=2),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_train_score_evaluate_and_inspect(rankwood, parts, name):
    train, vali, test = parts
    options, make = CALLS[name]
    common = ("--data", train, "--valid", vali, "--out", "m.rankwood")
    outcome = rankwood("train", "--model", "DeepForest", *common, *options)
    assert outcome.code == 0, outcome.err
    assert "layers" in outcome.out
    fitted = make().fit(rw.read_letor(train), valid=rw.read_letor(vali))
    rw.save(fitted, "python.rankwood")
    assert Path("m.rankwood").read_bytes() == Path("python.rankwood").read_bytes()
    result = json.loads(rankwood("evaluate", "m.rankwood", test, "-m", "ndcg@10", "--json").out)
    expected = rw.evaluate(rw.load("m.rankwood"), rw.read_letor(test), "ndcg@10")["ndcg@10"].value
    assert result["ndcg@10"]["value"] == expected
    assert rankwood("score", "m.rankwood", test, "--out", "scores.txt").code == 0
    shown = rankwood("inspect", "m.rankwood", "--json")
    facts = json.loads(shown.out)
    assert facts["layers"] == fitted.cascade_.n_layers
    assert facts["trees"] == fitted.cascade_.n_trees
    assert "models per layer" in rankwood("inspect", "m.rankwood").out


def test_a_layer_that_is_not_known(rankwood, parts):
    outcome = rankwood("train", "--model", "DeepForest", "--data", parts[0], "--layer", "forest")
    assert outcome.code == 2
    assert "Did you mean 'forests'" in outcome.err


def test_refit(rankwood, parts):
    train, vali, _ = parts
    options = ("--n-forests", 2, "--n-trees", 2, "--max-layers", 2)
    outcome = rankwood(
        "train", "--model", "DeepForest", "--data", train, "--valid", vali, "--refit", *options
    )
    assert outcome.code == 0, outcome.err
    assert rw.load("model.rankwood").patience is None
