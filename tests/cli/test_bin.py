"""``rankwood bin``, and training on what it makes."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw


@pytest.fixture
def files(rankwood, tmp_path):
    """Two files of training data and one of validation data, in the folder of the test."""
    made = rw.make_ranking(30, 20, 6, seed=1)
    for name, first, last in (("day-1", 0, 12), ("day-2", 12, 20), ("vali", 20, 30)):
        rw.write_table(made.take_queries(np.arange(first, last)), tmp_path / f"{name}.parquet")
    return made


def test_files_are_binned_trained_on_and_checked(rankwood, files, tmp_path):
    outcome = rankwood("bin", "day-*.parquet", "--out", "train.bin")
    n_rows = int(files.query_offsets[20])
    assert outcome.code == 0
    assert f"train.bin: {n_rows:,} documents, 20 queries, 6 features" in outcome.err
    assert rankwood("bin", "vali.parquet", "--out", "v.bin", "--bins", "train.bin", "-q").err == ""
    train = ("train", "--model", "LambdaMART", "--n-trees", "5", "-q")
    assert (
        rankwood(*train, "--data", "train.bin", "--valid", "v.bin", "--out", "a.rankwood").code == 0
    )
    in_memory = rw.LambdaMART(5).fit(
        files.take_queries(np.arange(20)), valid=files.take_queries(np.arange(20, 30))
    )
    assert rw.load(tmp_path / "a.rankwood").forest_ == in_memory.forest_
    checked = rankwood("bin", "--check", "train.bin")
    assert checked.code == 0
    assert "every byte is as it was written" in checked.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "PATHS is missing"),
        (("day-1.parquet",), "--out is missing"),
        (("day-1.parquet", "--check", "x"), "leave out PATHS"),
        (("--check", "nowhere"), "nowhere does not exist"),
        (("day-9*.parquet", "--out", "x"), "no file matches"),
        (("day-1.parquet", "--out", "x", "--label", "grade"), "column 'grade' is not known"),
    ],
)
def test_mistakes_are_explained(rankwood, files, arguments, message):
    outcome = rankwood("bin", *arguments)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())


def test_linear_rankers_refuse_a_folder(rankwood, files):
    rankwood("bin", "day-1.parquet", "--out", "train.bin", "-q")
    outcome = rankwood("train", "--model", "RankSVM", "--data", "train.bin", "-q")
    assert outcome.code == 2
    assert "RankSVM needs raw features" in " ".join(outcome.err.split())
