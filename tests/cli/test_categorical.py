"""``--categorical``: tables with columns of text, from training to scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import rankwood as rw
from rankwood.cli.main import main


@pytest.fixture
def tables(tmp_path):
    """A table to train and one to test, whose brand decides the label; the second has unknown brands."""
    draw = np.random.default_rng(2)
    brand = draw.integers(0, 12, 600)
    table = pd.DataFrame({"qid": np.repeat(np.arange(60), 10), "label": brand % 3, "x": 0.0})
    table["x"] = draw.normal(size=600)
    table["brand"] = [f"b{number}" for number in brand]
    paths = tmp_path / "train.csv", tmp_path / "test.csv"
    table[:400].to_csv(paths[0], index=False)
    table[400:].replace({"brand": {"b3": "new"}}).to_csv(paths[1], index=False)
    return paths


def train(tables, tmp_path, *options):
    model = tmp_path / "model.rankwood"
    arguments = ["train", "--model", "LambdaMART", "--data", str(tables[0]), "--out", str(model)]
    arguments += ["--n-trees", "5", "-q"]
    return model, main([*arguments, *options])


def test_a_model_takes_its_categories_out_of_every_table(tables, tmp_path, capsys):
    model, code = train(tables, tmp_path, "--categorical", "brand", "--valid", str(tables[1]))
    assert code == 0, capsys.readouterr().err
    out = tmp_path / "scores.parquet"
    assert main(["score", str(model), str(tables[1]), "--out", str(out), "-q"]) == 0
    scores = pd.read_parquet(out)["score"].tolist()
    expected = rw.load(model).predict(pd.read_csv(tables[1]))
    assert sorted(scores) == pytest.approx(sorted(expected.tolist()), rel=1e-6)
    assert main(["evaluate", str(model), str(tables[1]), "-q"]) == 0
    assert main(["explain", str(model), str(tables[1]), "-q"]) == 0
    assert "brand" in capsys.readouterr().out
    assert main(["inspect", str(model)]) == 0
    assert "categories of features" in capsys.readouterr().out
    assert main(["check", str(tables[1]), "--model", str(model), "-q"]) in (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--categorical brand"),
        (("--categorical", "brnd"), "'brnd' is not known"),
        (("--categorical", "brand", "--drop", "brand"), "categorical feature 'brand' is not known"),
    ],
)
def test_what_is_no_column_of_categories_is_told_in_options(
    options, message, tables, tmp_path, capsys
):
    _, code = train(tables, tmp_path, *options)
    assert code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_folders_and_letor_text_have_no_categories(tables, tmp_path, capsys):
    folder = str(tmp_path / "bins")
    assert main(["bin", str(tables[0]), "--out", folder, "--categorical", "brand"]) == 2
    assert "cannot have categorical features" in " ".join(capsys.readouterr().err.split())
    (tmp_path / "train.txt").write_text("1 qid:1 1:2\n0 qid:1 1:3\n")
    letor = [tmp_path / "train.txt"]
    _, code = train(letor, tmp_path, "--categorical", "brand")
    assert code == 2
    assert "is LETOR text" in " ".join(capsys.readouterr().err.split())
