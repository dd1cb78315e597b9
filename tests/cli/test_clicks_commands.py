"""``rankwood clicks``, and ``rankwood train --position``: from judged data to a model that learned from a log."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rankwood as rw


@pytest.fixture
def files(tmp_path):
    judged = rw.make_ranking(n_queries=20, docs_per_query=8, n_features=5, noise=0.4, seed=2)
    rw.write_table(judged, tmp_path / "judged.parquet")
    rw.save(rw.RandomForest(3, 6).fit(judged), tmp_path / "new.rankwood")
    rw.save(rw.GBRT(2, 3).fit(judged), tmp_path / "old.rankwood")
    np.savetxt(tmp_path / "scores.txt", judged.features[:, 0])
    return tmp_path


SIMULATE = "clicks simulate judged.parquet --ranking old.rankwood --ranking scores.txt --sessions 4000 --out log.parquet"


def test_from_judged_data_to_a_model_that_learned_from_clicks(rankwood, files) -> None:
    done = rankwood(*SIMULATE.split(), "--seed", 1, "--json")
    assert done.code == 0, done.err
    truth = json.loads((files / "log.parquet.truth.json").read_text())
    assert json.loads(done.out)["sessions"] == truth["sessions"] == 4000
    bias = rankwood(
        *[
            "clicks",
            "bias",
            "log.parquet",
            "--method",
            "harvest",
            "--bootstrap",
            "5",
            "--out",
            "bias.json",
            "--csv",
            "bias.csv",
            "--json",
        ]
    )
    assert bias.code == 0, bias.err
    assert json.loads(bias.out)["method"] == "harvest"
    assert json.loads((files / "bias.json").read_text()) == json.loads(bias.out)
    trained = rankwood(
        *[
            "train",
            "--model",
            "GBRT",
            "--data",
            "log.parquet",
            "--valid",
            "judged.parquet",
            "--position",
            "position",
        ],
        *[
            "--position-bias",
            "bias.json",
            "--n-trees",
            "3",
            "--out",
            "clicks.rankwood",
            "--on-overlap",
            "ignore",
        ],
    )
    assert trained.code == 0, trained.err
    kept = rw.load(files / "clicks.rankwood").position_bias
    assert kept["slope"] == json.loads(bias.out)["slope"]
    joint = rankwood(
        *[
            "train",
            "--model",
            "LambdaMART",
            "--data",
            "log.parquet",
            "--position-bias",
            "joint",
            "--n-trees",
            "3",
            "--out",
            "joint.rankwood",
        ]
    )
    assert joint.code == 0, joint.err
    assert len(rw.load(files / "joint.rankwood").position_bias_) == 10
    measured = rankwood(
        *[
            "clicks",
            "evaluate",
            "log.parquet",
            "--ranking",
            "old.rankwood",
            "--ranking",
            "clicks.rankwood",
            "--bias",
            "bias.json",
            "--json",
        ]
    )
    assert measured.code == 0, measured.err
    found = json.loads(measured.out)
    assert set(found["rankings"]) == {"old.rankwood", "clicks.rankwood"}
    assert set(found["differences"]) == {"clicks.rankwood"}
    scored = rankwood("score", "clicks.rankwood", "judged.parquet")  # no positions there
    assert scored.code == 0, scored.err


def test_a_ranking_of_candidates_is_measured(rankwood, files) -> None:
    assert rankwood(*SIMULATE.split()).code == 0
    assert (
        rankwood(
            *[
                "clicks",
                "bias",
                "log.parquet",
                "--method",
                "power",
                "--bootstrap",
                "0",
                "--out",
                "bias.json",
            ]
        ).code
        == 0
    )
    found = rankwood(
        *[
            "clicks",
            "evaluate",
            "log.parquet",
            "--ranking",
            "new.rankwood",
            "--bias",
            "bias.json",
            "--candidates",
            "judged.parquet",
        ]
    )
    assert found.code == 0, found.err
    assert "support" in found.out


def test_interleaving_is_simulated(rankwood, files) -> None:
    done = rankwood(
        *[
            "clicks",
            "interleave",
            "new.rankwood",
            "scores.txt",
            "judged.parquet",
            "--sessions",
            "50",
            "--method",
            "balanced",
            "--json",
        ]
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["sessions"] == 50


def test_a_position_by_another_name(rankwood, files) -> None:
    (files / "log.csv").write_text(
        "qid,label,rank,x\n"
        + "".join(f"{q},{int(p == q % 3)},{p + 1},{p / 4}\n" for q in range(6) for p in range(3))
    )
    done = rankwood(
        *[
            "clicks",
            "bias",
            "log.csv",
            "--position",
            "rank",
            "--bootstrap",
            "0",
            "--no-doc-ids",
            "--json",
        ]
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["positions"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("clicks bias judged.parquet", "needs the position of each document"),
        ("clicks bias judged.parquet --position rank", "column 'rank'"),
        ("train --model GBRT --data judged.parquet --position rank", "column 'rank'"),
        ("train --model GBRT --data judged.parquet --position-bias joint", "is LambdaMART's"),
        ("clicks simulate judged.parquet --ranking scores.txt --out log.txt", "ending of the name"),
        (
            "clicks simulate judged.parquet --ranking scores.txt --out log.csv --readers dbm",
            "Did you mean 'dbn'",
        ),
        ("clicks interleave scores.txt scores.txt judged.parquet --method draft", "not known"),
        (
            "clicks evaluate judged.parquet --ranking scores.txt --ranking scores.txt --bias b.json",
            "given twice",
        ),
        ("clicks evaluate judged.parquet --ranking scores.txt --bias b.json", "cannot be read"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(rankwood, files, call: str, said: str) -> None:
    done = rankwood(*call.split())
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert "Traceback" not in done.err


def test_a_log_becomes_judgments_that_a_ranker_learns_from(rankwood, files) -> None:
    assert rankwood(*SIMULATE.split(), "--quiet").code == 0
    bias = "clicks bias log.parquet --method harvest --bootstrap 0 --out bias.json --quiet"
    assert rankwood(*bias.split()).code == 0
    judge = ["clicks", "judge", "log.parquet", "--bias", "bias.json", "--out", "learned.parquet"]
    done = rankwood(*judge, "--json")
    assert done.code == 0, done.err
    learned = rw.read_table(files / "learned.parquet")
    told = json.loads(done.out)
    assert (told["queries"], told["documents"]) == (learned.n_queries, learned.n_documents)
    assert learned.n_queries == 20
    shown = rankwood(*judge, "--weights")
    assert "documents, mean 0." in shown.out
    assert rw.read_table(files / "learned.parquet").row_weights is not None
    train = "train --model LambdaMART --n-trees 3 --data learned.parquet --out learned.rankwood"
    done = rankwood(*train.split(), "--target", "ndcg[gain=linear]")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--bias none.json --out learned.parquet", "none.json"),
        ("--bias log.json --out learned.parquet", "does not hold a position bias"),
        ("--bias bias.json --out nowhere/learned.parquet", "nowhere"),
        ("--bias bias.json --out learned.parquet --prior -1", "prior"),
    ],
)
def test_judge_says_what_is_wrong(rankwood, files, options, message) -> None:
    rw.position_bias(None, [1.0, 0.5]).save(files / "bias.json")
    (files / "log.json").write_text("{}")
    (files / "log.csv").write_text("qid,label,doc_id,position,a\n1,1,1,1,0.5\n1,0,2,2,0.7\n")
    done = rankwood("clicks", "judge", "log.csv", *options.split())
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
