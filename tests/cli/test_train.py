"""``rankwood train``, and the other commands on the model it leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rankwood as rw

SMALL = ("--n-trees", 5, "--max-leaves", 8, "--threads", 1)
OPTIONS = {
    "RandomForest": SMALL,
    "ExtraTrees": SMALL,
    "CompletelyRandomForest": SMALL,
    "GBRT": SMALL,
    "LambdaMART": SMALL,
    "NDCGBoost": ("--n-rounds", 5, "--gain", "0/1/3/7/15", "--threads", 1),
    "RankBoost": ("--n-rounds", 5, "--threads", 1),
}


@pytest.fixture
def parts(tmp_path):
    """A training, a validation and a test file."""
    data = rw.make_ranking(n_queries=40, docs_per_query=12, n_features=9, seed=1)
    paths = [tmp_path / f"{name}.txt" for name in ("train", "vali", "test")]
    for part, path in zip(rw.split_queries(data, (0.6, 0.2, 0.2), seed=1), paths, strict=True):
        rw.write_letor(part, path)
    return paths


@pytest.mark.parametrize("model", OPTIONS)
def test_train_evaluate_and_inspect(rankwood, parts, model):
    train, vali, test = parts
    outcome = rankwood(
        *("train", "--data", train, "--valid", vali, "--model", model, "--out", "m.rankwood"),
        *OPTIONS[model],
    )
    assert outcome.code == 0, outcome.err
    assert "validation ndcg@10" in outcome.out
    result = json.loads(rankwood("evaluate", "m.rankwood", test, "-m", "ndcg@10", "--json").out)
    expected = rw.evaluate(rw.load("m.rankwood"), rw.read_letor(test), "ndcg@10")["ndcg@10"].value
    assert result["ndcg@10"]["value"] == expected
    shown = json.loads(rankwood("inspect", "m.rankwood", "--json").out)
    assert (shown["estimator"], shown["trees"]) == (model, rw.load("m.rankwood").forest_.n_trees)
    assert (
        1 <= shown["trees"] <= 5
    )  # boosting keeps the trees up to the best on the validation data
    assert rankwood("inspect", "m.rankwood").code == 0


LINEAR = {
    "AdaRank": ("--n-rounds", 20, "--measure", "ndcg@10", "--early-stopping", 5),
    "RankSVM": ("--C", 0.01),
}


@pytest.mark.parametrize("model", LINEAR)
def test_linear_rankers(rankwood, parts, model):
    train, vali, test = parts
    call = ("train", "--data", train, "--valid", vali, "--model", model, "--out", "m.rankwood")
    outcome = rankwood(*call, *LINEAR[model], "--threads", 1)
    assert outcome.code == 0, outcome.err
    for text in ("validation ndcg@10", "stopped because", "weights", "of 9 features"):
        assert text in outcome.out
    assert ("rounds" in outcome.out) == (model == "AdaRank")
    result = json.loads(rankwood("evaluate", "m.rankwood", test, "-m", "ndcg@10", "--json").out)
    loaded = rw.load("m.rankwood")
    expected = rw.evaluate(loaded, rw.read_letor(test), "ndcg@10")["ndcg@10"].value
    assert result["ndcg@10"]["value"] == expected
    assert rankwood("score", "m.rankwood", test, "--out", "s.txt").code == 0
    scores = [float(line) for line in Path("s.txt").read_text().splitlines()]
    np.testing.assert_allclose(scores, loaded.predict(rw.read_letor(test)))
    assert rankwood(*call, *LINEAR[model], "--refit").code == 0


def test_what_is_shown_of_a_linear_model(rankwood, parts):
    features = np.array([[1.0, 10, 5], [2, 20, 5], [3, np.nan, 5]])
    model = rw.RankSVM().fit(pd.DataFrame(features, columns=["a", "b", "c"]), [0, 1, 2], [1, 1, 1])
    rw.save(model, "m.rankwood")
    shown = json.loads(rankwood("inspect", "m.rankwood", "--json").out)
    assert (shown["estimator"], shown["features"], shown["features used"]) == ("RankSVM", 3, 2)
    assert list(shown["weights"]) == ["a", "b"]  # the heaviest first
    weight = float(model.linear_.weights[1])
    assert shown["weights"]["b"] == {
        "weight": weight,
        "weight × spread": pytest.approx(weight * 5),  # 10 and 20: 5 from their mean
        "missing counts as": 15.0,
    }
    assert shown["importance"]["a"] == model.feature_importances_[0]
    text = rankwood("inspect", "m.rankwood").out
    assert "missing counts as" in text
    assert "stopped_because" in text
    rw.save(model.linear_, "bare.rankwood")
    assert "a bare linear model" in rankwood("inspect", "bare.rankwood").out
    assert rankwood("score", "bare.rankwood", parts[2]).code == 2  # nine features, not three


def test_a_checkpoint_of_what_keeps_none(rankwood, parts):
    outcome = rankwood("train", "--data", parts[0], "--model", "RankSVM", "--checkpoint", "c")
    assert outcome.code == 2
    assert "RankSVM keeps no checkpoint: leave out --checkpoint" in outcome.err


def test_the_command_line_gives_what_python_gives(rankwood, parts):
    train = parts[0]
    options = ("--features-per-node", "0.5", "--min-leaf", 3, "--seed", 7, "--bag", "query")
    assert (
        rankwood(
            "train",
            "--data",
            train,
            "--model",
            "RandomForest",
            "--out",
            "cli.rankwood",
            *SMALL,
            *options,
        ).code
        == 0
    )
    model = rw.RandomForest(
        n_trees=5, max_leaves=8, features_per_node=0.5, min_leaf=3, seed=7, bag="query"
    )
    rw.save(model.fit(rw.read_letor(train)), "python.rankwood")
    assert Path("cli.rankwood").read_bytes() == Path("python.rankwood").read_bytes()


def test_a_configuration_file(rankwood, parts):
    Path("run.toml").write_text(
        f'model = "GBRT"\ndata = "{parts[0]}"\nout = "m.rankwood"\n[parameters]\nn_trees = 4\nlearning_rate = 0.3\n'
    )
    assert rankwood("train", "run.toml").code == 0
    assert rw.load("m.rankwood").get_params()["learning_rate"] == 0.3
    assert rankwood("train", "run.toml", "--n-trees", 2).code == 0  # what is typed wins
    assert rw.load("m.rankwood").forest_.n_trees == 2


def test_refit_uses_both_parts(rankwood, parts):
    train, vali, _ = parts
    arguments = (
        "train",
        "--data",
        train,
        "--valid",
        vali,
        "--model",
        "GBRT",
        "--out",
        "m.rankwood",
        *SMALL,
    )
    assert rankwood(*arguments, "--early-stopping", 2).code == 0
    chosen = rw.load("m.rankwood").forest_.n_trees
    assert rankwood(*arguments, "--early-stopping", 2, "--refit").code == 0
    again = rw.load("m.rankwood")
    assert again.forest_.n_trees == chosen
    both = len(rw.read_letor(train)) + len(rw.read_letor(vali))
    assert again.training_["rows"] == both


def test_parts_of_different_width(rankwood):
    Path("train.txt").write_text("1 qid:1 1:1 3:2\n0 qid:1 1:0\n")
    Path("vali.txt").write_text("1 qid:2 1:1\n0 qid:2 2:1\n")
    outcome = rankwood(
        "train", "--data", "train.txt", "--valid", "vali.txt", "--model", "RandomForest", *SMALL
    )
    assert outcome.code == 0, outcome.err
    assert rankwood("evaluate", "model.rankwood", "vali.txt").code == 0


def test_help_lists_the_parameters_with_their_defaults(rankwood):
    text = " ".join(rankwood("train", "--help").out.replace("│", " ").split())
    for name in (
        "--n-trees",
        "--learning-rate",
        "--features-per-node",
        "--early-stopping",
        "--checkpoint",
        "--refit",
    ):
        assert name in text
    assert "GBRT 31" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--model is missing"),
        (["--model", "RandomForest"], "--data is missing"),
        (["--model", "RandomForst", "--data", "train.txt"], "Did you mean 'RandomForest'?"),
        (["--model", "RandomForest", "--data", "trian.txt"], "Did you mean"),
        (
            ["--model", "RandomForest", "--data", "train.txt", "--learning-rate", "0.1"],
            "RandomForest has no learning_rate; it is a parameter of",
        ),
        (
            ["--model", "RandomForest", "--data", "train.txt", "--n-trees", "many"],
            "n_trees must be a whole number",
        ),
        (
            ["--model", "RandomForest", "--data", "train.txt", "--n-trees", "0"],
            "n_trees must be a whole number of at least 1, got 0",
        ),
        (
            ["--model", "GBRT", "--data", "train.txt", "--early-stopping", "5"],
            "needs validation data",
        ),
        (["--model", "GBRT", "--data", "train.txt", "--refit"], "needs --valid"),
        (
            ["--model", "GBRT", "--data", "train.txt", "--out", "no/such/m.rankwood"],
            "does not exist",
        ),
        (["missing.toml"], "missing.toml cannot be read"),
        (["bad.toml"], "Did you mean 'parameters'?"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(rankwood, parts, arguments, message):
    Path("bad.toml").write_text("paramters = {}\n")
    outcome = rankwood("train", *arguments)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
    assert not Path("model.rankwood").exists()


def test_a_damaged_model_is_refused(rankwood, parts):
    assert rankwood("train", "--data", parts[0], "--model", "RandomForest", *SMALL).code == 0
    content = bytearray(Path("model.rankwood").read_bytes())
    content[len(content) // 2] ^= 0xFF
    Path("model.rankwood").write_bytes(content)
    for command in (("evaluate", "model.rankwood", parts[2]), ("inspect", "model.rankwood")):
        outcome = rankwood(*command)
        assert outcome.code == 2
        assert "model.rankwood" in outcome.err


def test_a_model_of_other_features_is_refused(rankwood, parts):
    assert rankwood("train", "--data", parts[0], "--model", "RandomForest", *SMALL).code == 0
    rw.write_table(rw.make_ranking(n_queries=3, docs_per_query=5, n_features=4), "narrow.parquet")
    outcome = rankwood("evaluate", "model.rankwood", "narrow.parquet")
    assert outcome.code == 2
    assert "4" in outcome.err
    assert "9" in outcome.err


OFTEN = """
import sys
from rankwood.cli.main import main
from rankwood.training import rounds as checkpoint
checkpoint.SECONDS_BETWEEN = 0.05
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bytes(parts, tmp_path):
    """SIGKILL while trees grow; called again with the same checkpoint it ends in the model of an unbroken run."""
    options = [
        "train",
        "--data",
        parts[0],
        "--model",
        "GBRT",
        "--n-trees",
        3000,
        "--max-leaves",
        8,
        "--quiet",
    ]
    program = [sys.executable, "-c", OFTEN, *map(str, options)]
    broken = [
        *program,
        "--checkpoint",
        str(tmp_path / "c"),
        "--out",
        str(tmp_path / "broken.rankwood"),
    ]
    process = subprocess.Popen(broken)
    while not (tmp_path / "c").exists():
        time.sleep(0.01)
        assert process.poll() is None, "it ended before a checkpoint was written"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "broken.rankwood").exists()
    subprocess.run(broken, check=True)
    subprocess.run([*program, "--out", str(tmp_path / "whole.rankwood")], check=True)
    assert (tmp_path / "broken.rankwood").read_bytes() == (tmp_path / "whole.rankwood").read_bytes()


@pytest.mark.parametrize("loss", ["gradient", "height", "lambda"])
def test_boosted_forests_on_the_command_line(rankwood, parts, loss):
    train, vali, test = parts
    options = (
        "--loss",
        loss,
        "--n-rounds",
        3,
        "--update-weights",
        "oob",
        "--normalize",
        "max",
        "--stop",
        "none",
    )
    outcome = rankwood(
        "train", "--data", train, "--valid", vali, "--model", "BROOF", "--out", "m.rankwood",
        *SMALL, *options,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "rounds" in outcome.out
    assert "validation ndcg@10" in outcome.out
    assert "out-of-bag ndcg@10" in outcome.out
    model = rw.BROOF(loss, n_rounds=3, n_trees=5, max_leaves=8, update_weights="oob", stop=None)
    rw.save(model.fit(rw.read_letor(train), valid=rw.read_letor(vali)), "python.rankwood")
    assert Path("m.rankwood").read_bytes() == Path("python.rankwood").read_bytes()
    shown = json.loads(rankwood("inspect", "m.rankwood", "--json").out)
    assert (shown["estimator"], shown["trees"]) == ("BROOF", 15)
    assert len(shown["training"]["history"]) == 3
    assert rankwood("inspect", "m.rankwood").code == 0
    assert rankwood("evaluate", "m.rankwood", test, "-m", "ndcg@10").code == 0
    assert rankwood("score", "m.rankwood", test, "--out", "scores.txt").code == 0


def test_the_pairs_of_lambda_and_the_weak_learner_on_the_command_line(rankwood, parts):
    options = (
        "--loss", "lambda", "--base", "extra", "--target", "map", "--truncation", "none", "--normalise", "false",
        "--sigma", 2, "--n-rounds", 4, "--patience", 1,
    )  # fmt: skip
    outcome = rankwood(
        "train", "--data", parts[0], "--model", "BROOF", "--out", "m.rankwood", *SMALL, *options
    )
    assert outcome.code == 0, outcome.err
    assert "stopped because" in outcome.out
    model = rw.BROOF(
        "lambda", 4, 5, max_leaves=8, patience=1, base="extra", target="map", truncation=None, normalise=False,
        sigma=2,
    )  # fmt: skip
    rw.save(model.fit(rw.read_letor(parts[0])), "python.rankwood")
    assert Path("m.rankwood").read_bytes() == Path("python.rankwood").read_bytes()
    outcome = rankwood(
        "train", "--data", parts[0], "--model", "BROOF", "--out", "m.rankwood", "--base", "extras"
    )
    assert outcome.code != 0
    assert "base 'extras' is not known. Did you mean 'extra'" in outcome.err


def test_progress_shows_the_figures_of_a_round(rankwood, parts, monkeypatch):
    monkeypatch.setattr("rankwood.cli.printing._PLAIN_LINE_EVERY", 0.0)
    outcome = rankwood(
        "train", "--data", parts[0], "--valid", parts[1], "--model", "BROOF", "--n-rounds", 3, *SMALL
    )  # fmt: skip
    (line,) = [line for line in outcome.err.splitlines() if "round 2 of 3" in line]
    for figure in ("ndcg@10 0.", "error 0.", "beta 0.1", "oob 0.", "without_oob "):
        assert figure in line
