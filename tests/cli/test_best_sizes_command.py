"""``rankwood best-sizes``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rankwood as rw


@pytest.fixture
def files(rankwood):
    data = rw.make_ranking(20, 10, 6, seed=3)
    for name, part in zip(["train", "vali", "test"], rw.split_queries(data, seed=1), strict=True):
        rw.write_letor(part, f"{name}.txt")
    Path("costs.tsv").write_text("".join(f"{n + 1}\t{4**n}\n" for n in range(6)))
    model = rw.GBRT(8, max_leaves=6, min_leaf=5).fit(rw.read_letor("train.txt"))
    rw.save(model, "m.rankwood")
    return model


CALL = ("best-sizes", "m.rankwood", "vali.txt", "-m", "p@5", "-m", "rmse")


def test_a_table_by_measure(rankwood, files):
    outcome = rankwood(*CALL, "--test", "test.txt", "--costs", "costs.tsv", "--csv", "sizes.csv")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0].split()[:3] == ["measure", "rounds", "trees"]
    assert [line.split()[0] for line in lines[2:4]] == ["p@5", "rmse"]
    assert (
        Path("sizes.csv").read_text().startswith("measure,rounds,trees,valid,cost,test,test cost")
    )


def test_the_librarys_answer_for_scripts(rankwood, files):
    valid, test = (rw.read_letor(f"{name}.txt", n_features=6) for name in ("vali", "test"))
    exits = rw.EarlyExit(2, 0.2, "all")
    expected = rw.best_sizes(
        files, valid, ["p@5", "rmse"], test=test, costs="costs.tsv", exits=exits, every=3
    )
    options = ("--early-exit", "every=2,drop=0.2,scope=all", "--every", "3", "--json")
    outcome = rankwood(*CALL, "--test", "test.txt", "--costs", "costs.tsv", *options)
    assert json.loads(outcome.out) == expected.to_dict()


def test_the_model_of_that_size(rankwood, files):
    outcome = rankwood(*CALL, "--out", "small.rankwood", "--json")
    chosen = json.loads(outcome.out)["sizes"][0]
    assert f"{chosen['rounds']} rounds, the best by p@5" in outcome.err
    assert rw.load("small.rankwood").forest_.n_trees == chosen["trees"]
    rw.save(files.forest_, "bare.rankwood")
    call = ("best-sizes", "bare.rankwood", "vali.txt", "-m", "p@5", "--out", "small.rankwood", "-q")
    assert rankwood(*call).code == 0
    assert rw.load("small.rankwood").n_trees == chosen["trees"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--costs", "nowhere.tsv"), "nowhere.tsv does not exist"),
        (("--early-exit", "drop=1"), "drop must be in [0, 1), got 1.0"),
        (("-m", "ndgc@10"), "Did you mean 'ndcg'"),
        (("-m", "p@5"), "measure 'p@5' is given twice"),
        (("--csv", "sizes.txt"), "--csv sizes.txt must end in .csv"),
    ],
)
def test_wrong_calls(rankwood, files, options, message):
    outcome = rankwood(*CALL, *options)
    assert outcome.code == 2
    assert message in outcome.err
    assert "Traceback" not in outcome.err
