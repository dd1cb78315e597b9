"""What newcomers type: each mistake ends in one line that says what is wrong and what to do."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rankwood as rw
from rankwood.cli import main as command_line
from rankwood.errors import DataError, ModelError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An engineer's table under names of his own, its parts, a model, and files that are no data."""
    place = tmp_path_factory.mktemp("newcomer")
    data = rw.make_ranking(n_queries=20, docs_per_query=8, n_features=3, seed=1)
    table = pd.DataFrame(data.features, columns=["bm25", "clicks", "price"])
    table["query_id"], table["relevance"] = [f"q{query}" for query in data.query_ids], data.labels
    table.to_parquet(place / "judgments.parquet")
    table.to_parquet(place / "judgments.bin")
    table.to_csv(place / "semicolons.csv", sep=";", index=False)
    table.to_json(place / "judgments.jsonl", orient="records", lines=True)
    table.assign(relevance=table.relevance.where(table.index != 5)).to_parquet(
        place / "nan.parquet"
    )
    lines = (
        "[data]",
        'folds = "folds"',
        "[[algorithm]]",
        'name = "RF"',
        'kind = "RandomForest"',
        "n_estimators = 5",
    )
    (place / "other.toml").write_text("\n".join(lines))
    (place / "folds").mkdir()
    for part in ("train", "vali", "test"):
        rw.write_letor(data, place / "folds" / f"{part}.txt")
    rw.write_table(data, place / "data.parquet")
    rw.bin_files(place / "data.parquet", place / "binned")
    rw.save(rw.GBRT(n_trees=2, max_leaves=3).fit(data), place / "m.rankwood")
    return place


OWN = "--label relevance --query query_id"


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (
            "inspect judgments.parquet",
            [
                "Say which column holds the labels: --label.",
                "also lacks the column of the query ids ('qid'): --query.",
            ],
        ),
        (
            "inspect judgments.parquet --label relevance",
            ["column 'qid' is not known. Did you mean 'query_id'?", "the query ids: --query."],
        ),
        (
            f"inspect semicolons.csv {OWN}",
            ["seem to be separated by semicolons. Separate them by commas (.csv) or tabs"],
        ),
        (
            f"inspect nan.parquet {OWN}",
            ["row 6: column 'relevance' is empty", "leave such rows out, or give them a value."],
        ),
        (
            "inspect judgments.jsonl",
            ["data with the ending '.jsonl' cannot be read or written. Known: .parquet, .csv"],
        ),
        (
            "bin judgments.jsonl --out nowhere",
            ["data with the ending '.jsonl' cannot be read or written"],
        ),
        (
            "score m.rankwood judgments.jsonl",
            ["data with the ending '.jsonl' cannot be read or written"],
        ),
        ("convert data.parquet data.xlsx", ["data with the ending '.xlsx' cannot be"]),
        ("inspect judgments.bin", ["a NUL byte", "told by the ending of its name"]),
        ("evaluate m.rankwood binned", ["binned is a folder of binned data", "name the files"]),
        (
            "evaluate data.parquet m.rankwood",
            ["m.rankwood is a model file", "the model comes first, then the data."],
        ),
        ("evaluate m.rankwod data.parquet", ["m.rankwod does not exist. Did you mean m.rankwood?"]),
        ("explain m.rankwod", ["m.rankwod does not exist. Did you mean m.rankwood?"]),
        (
            "train data.parquet --model GBRT",
            ["data.parquet holds data: write --data data.parquet."],
        ),
        (
            "train --data data.parquet --model GBRT --validation data.parquet",
            ["Validation data are given by --valid."],
        ),
        (
            "export m.rankwood --to opensearch model.json",
            ["format 'opensearch' is not known", "ranklib (RankLib; OpenSearch and Elasticsearch"],
        ),
        (
            "experiment other.toml",
            ["n_estimators: RandomForest has no such parameter. It is called n_trees here."],
        ),
        ("experiment other.tml", ["other.tml does not exist. Did you mean other.toml?"]),
        ("experiment .", ["is a folder", "a TOML file, which names the folder of its folds"]),
    ],
)
def test_a_mistake_is_answered_by_a_remedy(rankwood, folder, monkeypatch, line, parts):
    monkeypatch.chdir(folder)
    outcome = rankwood(*line.split())
    assert outcome.code == 2
    for part in parts:
        assert part in " ".join(outcome.err.split()), outcome.err
    assert not Path("data.xlsx").exists()


def said(text: str) -> str:
    """What is in the box around an error of the parser, as one line."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (
            "train --data d --model GBRT --n-estimators 9",
            ["No such option: --n-estimators. It is called --n-trees here."],
        ),
        ("train --data d --model GBRT --num-leaves 9", ["It is called --max-leaves here."]),
        ("train --data d --model GBRT --eval-set v", ["It is called --valid here."]),
        ("tune data.parquet --model GBRT --validation v", ["It is called --valid here."]),
        (
            "train --data d --max-leafs 9",
            ["No such option: --max-leafs", "--max-leaves", "For example: rankwood train --data"],
        ),
        (
            "evaluate m.rankwood --data d",
            ["DATA is given without an option here. For example: rankwood evaluate"],
        ),
        (
            "compare m.rankwood m.rankwood data.parquet",
            ["Missing option '--data'. For example: rankwood compare", "--data"],
        ),
        ("check m.rankwood d", ["Missing option '--model'. For example: rankwood check"]),
        ("inspect", ["Missing argument 'DATA_OR_MODEL...'. For example: rankwood inspect"]),
        ("train --threads 1 --threads 2", ["--threads is given 2 times", "For example:"]),
    ],
)
def test_a_wrong_call_is_answered_by_a_right_one(rankwood, folder, monkeypatch, line, parts):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "300")
    outcome = rankwood(*line.split())
    assert outcome.code == 2
    for part in parts:
        assert part in said(outcome.err), outcome.err


def test_every_command_has_a_place_in_the_help(rankwood):
    groups = [name for names in command_line.PANELS.values() for name in names]
    known = {*command_line.COMMANDS, "data", "clicks"}
    assert len(groups) == len(set(groups))
    assert known - set(groups) == {"demo", "inspect", "warm-up", "versions"}
    assert set(groups) < known
    help_text = rankwood("--help").out
    for panel in ("Begin", *command_line.PANELS):
        assert f"─ {panel} ─" in help_text


# The same in Python


def test_labels_that_are_missing_name_the_remedy():
    with pytest.raises(DataError, match=r"labels\[1\] is nan; .* Leave such rows out, or label"):
        rw.GBRT(n_trees=1).fit(np.eye(3), [0, np.nan, 1])


def test_the_model_comes_first_in_save(tmp_path):
    with pytest.raises(ModelError, match=r"The model comes first: save\(model, path\)"):
        rw.save(str(tmp_path / "model"), rw.GBRT())
    with pytest.raises(ModelError, match=r"no estimator|not an estimator of ours\.$"):
        rw.save(pickle, tmp_path / "model")


def test_a_name_that_is_nearly_right_is_suggested():
    call = [sys.executable, "-c", "import rankwood as rw; rw.LambdaMart"]
    ran = subprocess.run(call, check=False, capture_output=True, text=True)
    assert "has no attribute 'LambdaMart'. Did you mean: 'LambdaMART'?" in ran.stderr
