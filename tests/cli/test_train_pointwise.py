"""Averaged and initialized boosting and ordinal classification on the command line."""

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
    "AveragedGBRT": (
        ("--n-trees", 3, "--n-runs", 2, "--max-leaves", 6, "--early-stopping", "none"),
        lambda: rw.AveragedGBRT(3, 2, max_leaves=6, early_stopping=None),
        6,
    ),
    "InitializedGBRT": (
        ("--n-trees", 3, "--forest-trees", 4, "--residuals", "in-bag", "--early-stopping", "none"),
        lambda: rw.InitializedGBRT(3, forest_trees=4, residuals="in-bag", early_stopping=None),
        7,
    ),
    "OrdinalRanker": (
        ("--n-trees", 3, "--max-leaves", 6, "--seed", 7),
        lambda: rw.OrdinalRanker(rw.RandomForest(3, max_leaves=6), seed=7),
        12,
    ),
    "OrdinalRanker clipped": (
        (
            "--base",
            "GBRT",
            "--n-trees",
            2,
            "--scoring",
            "squared",
            "--clip",
            "true",
            "--early-stopping",
            "none",
        ),
        lambda: rw.OrdinalRanker(rw.GBRT(2, early_stopping=None), scoring="squared", clip=True),
        8,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_train_score_evaluate_and_inspect(rankwood, parts, name):
    train, vali, test = parts
    options, make, n_trees = CALLS[name]
    model = name.split()[0]
    outcome = rankwood(
        "train", "--data", train, "--valid", vali, "--model", model, "--out", "m.rankwood", *options
    )
    assert outcome.code == 0, outcome.err
    rw.save(make().fit(rw.read_letor(train), valid=rw.read_letor(vali)), "python.rankwood")
    assert Path("m.rankwood").read_bytes() == Path("python.rankwood").read_bytes()
    result = json.loads(rankwood("evaluate", "m.rankwood", test, "-m", "ndcg@10", "--json").out)
    expected = rw.evaluate(rw.load("m.rankwood"), rw.read_letor(test), "ndcg@10")["ndcg@10"].value
    assert result["ndcg@10"]["value"] == expected
    assert rankwood("score", "m.rankwood", test, "--out", "scores.txt").code == 0
    scores = [float(line) for line in Path("scores.txt").read_text().split()]
    assert scores == rw.load("m.rankwood").predict(rw.read_letor(test)).tolist()
    shown = json.loads(rankwood("inspect", "m.rankwood", "--json").out)
    assert (shown["estimator"], shown["trees"]) == (model, n_trees)
    assert rankwood("inspect", "m.rankwood").code == 0


def test_the_validation_figure_says_what_it_counts(rankwood, parts):
    train, vali, _ = parts
    calls = {"AveragedGBRT": "trees per run", "InitializedGBRT": "boosted trees"}
    more = {"AveragedGBRT": ("--n-runs", 2), "InitializedGBRT": ("--forest-trees", 3)}
    for model, text in calls.items():
        options = ("--model", model, "--data", train, "--valid", vali, "--n-trees", 2, *more[model])
        outcome = rankwood("train", *options, "--measure", "rmse")
        assert outcome.code == 0, outcome.err
        best = rw.load("model.rankwood").best_iteration_
        counted = text.replace("trees", "tree") if best == 1 else text
        assert f"with {best} {counted}" in outcome.out
    # A rate of 1 on three noisy trees: boosting does not improve on the forest, and none of it is kept.
    options = ("--forest-trees", 20, "--learning-rate", 1, "--min-leaf", 1, "--early-stopping", 1)
    given = ("--model", "InitializedGBRT", "--data", train, "--valid", vali, "--measure", "rmse")
    outcome = rankwood("train", *given, *options)
    fitted = rw.load("model.rankwood")
    assert fitted.best_iteration_ == 0
    assert "with 0 boosted trees" in outcome.out


def test_a_base_with_early_stopping_and_a_refit(rankwood, parts):
    train, vali, _ = parts
    given = ("--data", train, "--valid", vali, "--model", "OrdinalRanker", "--base", "GBRT")
    options = ("--n-trees", 6, "--early-stopping", 2, "--measure", "rmse", "--refit")
    outcome = rankwood("train", *given, *options, "--checkpoint", "c")
    assert outcome.code == 0, outcome.err
    assert sorted(path.name for path in Path().glob("c.*")) == ["c.0", "c.1", "c.2", "c.3"]
    model = rw.load("model.rankwood")
    assert model.base.early_stopping is None
    assert model.training_["rows"] == len(rw.read_letor(train)) + len(rw.read_letor(vali))


def test_a_configuration_file(rankwood, parts):
    Path("run.toml").write_text(
        f'model = "OrdinalRanker"\ndata = "{parts[0]}"\n'
        '[parameters]\nbase = "GBRT"\nn_trees = 2\nclip = true\n'
    )
    assert rankwood("train", "run.toml", "--learning-rate", 0.3).code == 0
    model = rw.load("model.rankwood")
    assert model.clip is True
    assert (model.base.n_trees, model.base.learning_rate) == (2, 0.3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--base", "GBTR"], "base 'GBTR' is not known. Did you mean 'GBRT'?"),
        (["--base", "OrdinalRanker"], "base must be an estimator whose scores estimate labels"),
        (["--learning-rate", "0.1"], "RandomForest has no learning_rate; "),
        (["--base", "GBRT", "--scoring", "least_squares"], "needs out-of-bag estimates"),
        (["--scoring", "expect"], "Did you mean 'expected'?"),
        (
            ["--model", "GBRT", "--base", "GBRT"],
            "GBRT has no base; it is a parameter of BROOF, BoostingTree, Exp3P, OrdinalRanker.",
        ),
        (["--model", "AveragedGBRT", "--features-per-node", "none"], "nothing is random"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(rankwood, parts, arguments, message):
    model = () if "--model" in arguments else ("--model", "OrdinalRanker")
    outcome = rankwood("train", "--data", parts[0], *model, *arguments)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
    assert not Path("model.rankwood").exists()


def test_help_describes_the_parameters(rankwood):
    text = " ".join(rankwood("train", "--help").out.replace("│", " ").split())
    for name in ("--n-runs", "--forest-trees", "--residuals", "--base", "--scoring", "--fitted-on"):
        assert name in text
    assert "As for" not in text  # it says itself what it is
