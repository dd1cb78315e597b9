"""``rankwood transfer``: what Python gives, from files."""

from __future__ import annotations

import dataclasses
import json

import pytest

import rankwood as rw

SMALL = ("--set", "n_trees=5", "--set", "max-leaves=8", "--threads", 1)


@pytest.fixture(scope="module")
def planted():
    return rw.make_transfer(12, 12, 15, 9, shift=2, seed=1)


@pytest.fixture
def parts(planted, tmp_path, monkeypatch):
    """The source, the target's training part and its validation part, each also as a table and as LETOR text."""
    # Enough for data as small as these.
    monkeypatch.setattr("rankwood.studies.transfer.DOMAIN_TREES", 20)
    train, valid = rw.split_queries(planted.target, (0.5, 0.5), seed=0)
    parts = {"source": planted.source, "target": train, "valid": valid}
    for name, part in parts.items():
        bare = dataclasses.replace(part, doc_ids=None)
        rw.write_table(bare, tmp_path / f"{name}.parquet")
        rw.write_letor(bare, tmp_path / f"{name}.txt")
    return parts


def in_python(parts, model=None):
    return rw.select_similar(
        parts["source"],
        parts["target"],
        0.3,
        valid=parts["valid"],
        model=rw.RandomForest(5, max_leaves=8, seed=4) if model is None else model,
        seed=4,
    )


@pytest.mark.parametrize("suffix", ["parquet", "txt"])
def test_the_command_gives_what_python_gives(rankwood, parts, suffix):
    names = [f"--{name}={name}.{suffix}" for name in parts]
    call = ("transfer", *names, "--share", 0.3, "--seed", 4, *SMALL)
    outcome = rankwood(*call, "--json", "--out", "joined.parquet")
    assert outcome.code == 0, outcome.err
    expected = in_python(parts)
    found = json.loads(outcome.out)
    assert found["report"] == expected.report.to_dict()
    assert (found["added"], found["auc"]) == (expected.rows.size, expected.auc)
    joined = rw.read_table("joined.parquet")
    assert (joined.features == expected.data.features).all()
    assert (joined.query_ids == expected.data.query_ids).all()
    shown = rankwood(*call)
    assert str(expected.report).splitlines()[1] in shown.out


def test_a_ranker_that_is_built_on_another(rankwood, parts):
    names = [f"--{name}={name}.parquet" for name in parts]
    call = ("transfer", *names, "--share", 0.3, "--seed", 4, "--model", "OrdinalRanker", *SMALL)
    outcome = rankwood(*call, "--json")
    assert outcome.code == 0, outcome.err
    model = rw.OrdinalRanker(rw.RandomForest(5, max_leaves=8, seed=4))
    assert json.loads(outcome.out)["report"] == in_python(parts, model=model).report.to_dict()


def test_letor_text_may_leave_out_the_last_features(rankwood, parts, tmp_path):
    narrow = rw.RankingData(
        parts["source"].features[:, :6], parts["source"].labels, parts["source"].query_ids
    )
    rw.write_letor(narrow, tmp_path / "narrow.txt")
    outcome = rankwood(
        "transfer", "--source", "narrow.txt", "--target", "target.txt", "--valid", "valid.txt",
        "--json", *SMALL,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["features"] == 6
    assert found["dropped"] == dict.fromkeys(("7", "8", "9"), "not in the source")
    assert found["report"]["without_with_all_features"] is not None


@pytest.mark.parametrize("writing", ["ids left out", "zeros"])
@pytest.mark.parametrize("absent", [(), ("--absent-missing",)])
def test_columns_that_are_absent_in_letor_text_are_not_common(
    rankwood, parts, tmp_path, writing, absent
):
    source = parts["source"]
    lines = []
    for row in range(source.n_documents):
        values = {
            number: 0 if number % 2 == 0 else value
            for number, value in enumerate(source.features[row].tolist(), 1)
            if writing == "zeros" or number % 2
        }
        features = " ".join(f"{number}:{value!r}" for number, value in values.items())
        lines.append(f"{source.labels[row]:g} qid:{source.query_ids[row]} {features}\n")
    (tmp_path / "half.txt").write_text("".join(lines))
    call = ("transfer", "--source", "half.txt", "--target", "target.txt", "--valid", "valid.txt")
    outcome = rankwood(*call, "--share", 0.3, "--json", *SMALL, *absent)
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["features"] == 5
    assert sorted(found["dropped"]) == ["2", "4", "6", "8"]
    word = "missing" if absent and writing != "zeros" else "0"
    assert set(found["dropped"].values()) == {f"always {word} in the source"}
    assert found["auc"] < 0.9
    shown = rankwood(*call, *SMALL, *absent).out
    assert f"5 common features\nnot common: 2, 4, 6, 8 (always {word} in the source)" in shown
    kept = json.loads(rankwood(*call, "--json", "--keep-constant", *SMALL, *absent).out)
    assert kept["auc"] > 0.99  # what a column that is absent in one of them does


def test_all_parameters_and_several_lines(rankwood, parts):
    names = [f"--{name}={name}.parquet" for name in parts]
    call = (
        "transfer", *names, "--test", "valid.parquet", "--share", 0.1, "--share", 0.3, "--columns", "QP",
        "-m", "ndcg@10", "-m", "rmse", "--level", 0.2, "--forest", "RandomForest:n_trees=4,max_leaves=6",
        "--n-folds", 3, "--folds-by", "row", "--no-balance", "--query-features", "--keep-constant",
        "--source-model", "OrdinalRanker:n_trees=3", "--seed", 4, *SMALL,
    )  # fmt: skip
    outcome = rankwood(*call, "--json", "--csv", "table.csv")
    assert outcome.code == 0, outcome.err
    expected = rw.transfer_table(
        parts["source"], parts["target"], (0.1, 0.3), ("QP",), valid=parts["valid"], test=parts["valid"],
        model=rw.RandomForest(5, max_leaves=8, seed=4), measures=("ndcg@10", "rmse"), level=0.2,
        source_model=rw.OrdinalRanker(rw.RandomForest(3, seed=4)),
        forest=rw.RandomForest(4, max_leaves=6, seed=4), n_folds=3, folds_by="row", balance=False,
        query_features=True, keep_constant=True, seed=4,
    )  # fmt: skip
    assert json.loads(outcome.out) == json.loads(json.dumps(expected.to_dict()))
    with open("table.csv") as file:
        assert len(file.readlines()) == 1 + 3 * 2 * 2
    text = rankwood(*call).out
    assert "validation ndcg@10" in text
    assert "test rmse" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--share", 0.1, "--share", 0.2, "--out", "x.txt"), "--out writes the data of one share"),
        (("--source-model", "GBRT"), "say which with --columns"),
        (("--columns", "X"), "letters Q, P and C"),
        (("--forest", "RandomForst"), "Did you mean 'RandomForest'"),
        (("--folds-by", "document"), "folds_by 'document' is not known"),
        (("--n-folds", 1), "n_folds must be a whole number of at least 2"),
        (("--level", 2), "level must be in (0, 1)"),
        (("--csv", "table.txt"), "must end in .csv"),
        (("--test", "none.txt"), "none.txt"),
        (("--share", 0), "share must be in (0, 1], got 0.0"),
        (("--share", 0.0001), "nothing would be transferred"),
        (("--model", "GBTR"), "model 'GBTR' is not known. Did you mean 'GBRT'?"),
        (("--set", "n_trees"), "--set takes name=value"),
        (("--set", "learning_rate=0.1"), "RandomForest has no learning_rate;"),
        (("--measure", "ndgc"), "measure 'ndgc' is not known"),
        (("--out", "nowhere/joined.txt"), "the folder of nowhere/joined.txt does not exist"),
    ],
)
def test_mistakes_are_named(rankwood, parts, options, message):
    outcome = rankwood("transfer", *[f"--{n}={n}.txt" for n in parts], *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())


def test_collections_with_other_features(rankwood, parts, tmp_path):
    other = rw.RankingData(
        parts["source"].features[:, :2],
        parts["source"].labels,
        parts["source"].query_ids,
        feature_names=["x", "y"],
    )
    rw.write_table(other, tmp_path / "other.parquet")
    outcome = rankwood(
        "transfer", "--source", "other.parquet", "--target", "target.parquet",
        "--valid", "valid.parquet",
    )  # fmt: skip
    assert outcome.code == 2
    assert "no feature in common: source has 'x', 'y'" in outcome.err
