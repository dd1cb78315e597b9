"""``rankwood compare-missing``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import rankwood as rw
from rankwood.prepare.missing import TREATMENTS

SMALL = ("--n-trees", 3, "--max-leaves", 8, "--bootstrap", 20, "--predict-trees", 2, "--threads", 1)


@pytest.fixture
def files(tmp_path):
    """A training and a test file with missing values, and a LETOR file that leaves features out."""
    data = rw.make_ranking(n_queries=30, docs_per_query=10, n_features=6, missing=0.3, seed=1)
    train, test = rw.split_queries(data, (0.6, 0.4), seed=1)
    rw.write_table(train, tmp_path / "train.parquet")
    rw.write_table(test, tmp_path / "test.parquet")
    lines = [f"{row % 3} qid:{row // 4} 1:{row} {'2:5' if row % 2 else ''}" for row in range(40)]
    (tmp_path / "letor.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_command_gives_what_python_gives(rankwood, files):
    arguments = ("--data", "train.parquet", "--test", "test.parquet", "--seed", 4, *SMALL)
    outcome = rankwood("compare-missing", *arguments, "--csv", "table.csv", "--json")
    assert outcome.code == 0, outcome.err
    shown = json.loads(outcome.out)
    assert [row["treatment"] for row in shown["treatments"]] == list(TREATMENTS)
    expected = rw.compare_missing(
        rw.RandomForest(3, max_leaves=8, seed=4),
        rw.read_table("train.parquet"),
        rw.read_table("test.parquet"),
        predictor=rw.PredictMissing(2, seed=4),
        n_bootstrap=20,
        seed=4,
    )
    values = [row["value"] for row in shown["treatments"]]
    assert values == [result.value for result in expected]
    assert shown["treatments"][0]["p_value"] is None
    rows = list(csv.DictReader(Path("table.csv").read_text().splitlines()))
    assert [float(row["value"]) for row in rows] == values


def test_the_table_of_folds(rankwood, files):
    arguments = ("--data", "train.parquet", "--model", "GBRT", "-m", "map", "--folds", 2, *SMALL)
    outcome = rankwood("compare-missing", *arguments, "--treatment", "mean")
    assert outcome.code == 0, outcome.err
    for text in ("learned", "FillMissing('mean')", "p (Holm)", "2 folds", "map: relevant 1"):
        assert text in outcome.out
    assert "median" not in outcome.out


def test_text_that_leaves_features_out(rankwood, files):
    outcome = rankwood("compare-missing", "--data", "letor.txt", *SMALL)
    assert outcome.code == 2
    assert "the data have no missing values" in outcome.err
    assert "--absent-missing" in outcome.err
    outcome = rankwood(
        "compare-missing", "--data", "letor.txt", "--absent-missing", "--treatment", "least", *SMALL
    )
    assert outcome.code == 0, outcome.err
    assert "25.0% of the training values are missing, in 1 of 2 features" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "nowhere.txt"), "nowhere.txt"),
        (("--data", "train.parquet", "--model", "RandomForst"), "Did you mean 'RandomForest'"),
        (("--data", "train.parquet", "--treatment", "meen"), "Did you mean 'mean'"),
        (("--data", "train.parquet", "--measure", "ndgc"), "Did you mean 'ndcg'"),
        (("--data", "train.parquet", "--n-trees", "0"), "n_trees must be a whole number"),
        (("--data", "train.parquet", "--seed", "-1"), "seed must be a whole number"),
        (("--data", "train.parquet", "--learning-rate", "1"), "RandomForest has no learning_rate"),
        (("--data", "train.parquet", "--folds", "99"), "n_folds is 99, but there are only 18"),
        (("--data", "train.parquet", "--csv", "no/where.csv"), "the folder of no/where.csv"),
        (("--data", "train.parquet", "--missing", "left"), "--missing"),
        ((), "--data"),
    ],
)
def test_bad_input_exits_with_2(rankwood, files, arguments, message):
    outcome = rankwood("compare-missing", *arguments)
    assert outcome.code == 2
    assert message in outcome.err


def test_help_teaches(rankwood):
    outcome = rankwood("compare-missing", "--help")
    assert outcome.code == 0
    for text in ("Example:", "three_way", "--n-trees", "--predict-sweeps", "--absent-missing"):
        assert text in outcome.out
    assert "--checkpoint" not in outcome.out


def test_quiet_says_only_the_table(rankwood, files):
    outcome = rankwood(
        "compare-missing", "--data", "train.parquet", "--treatment", "mean", "--quiet", *SMALL
    )
    assert outcome.code == 0
    assert outcome.err == ""


def test_a_ranker_without_a_seed_of_its_own_is_refused_for_its_policy(rankwood, files):
    outcome = rankwood("compare-missing", "--data", "train.parquet", "--model", "OrdinalRanker")
    assert outcome.code == 2
    assert "OrdinalRanker has no policy for missing values" in outcome.err
