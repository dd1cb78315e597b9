"""SIGTERM ends every long command like Ctrl-C: a message, what was done is kept, exit code 143."""

from __future__ import annotations

import signal

import pytest

import rankwood as rw
from rankwood._core.threads import ended_by_sigterm
from rankwood.training import rounds
from rankwood.training.rounds import Rounds

TRAIN = ("train", "--data", "train.parquet", "--out", "model.rankwood", "-q", "--model")
COMMANDS = {
    "train": (*TRAIN, "GBRT", "--n-trees", "6", "--checkpoint", "kept"),
    "forest": (
        *TRAIN,
        "RandomForest",
        "--n-trees",
        "6",
        "--max-leaves",
        "8",
        "--checkpoint",
        "kept",
    ),
    "search": (*TRAIN, "BoostingTree", "--budget", "8", "--checkpoint", "kept"),
}


@pytest.fixture
def data(tmp_path):
    made = rw.make_ranking(30, 20, 6, seed=1)
    rw.write_table(made, tmp_path / "train.parquet")
    return made


@pytest.fixture
def sent(monkeypatch):
    """Sends SIGTERM when the third round reports its progress."""
    seen = []
    report = Rounds.report

    def third(self, *arguments, **options):
        seen.append(arguments)
        if len(seen) == 3:
            signal.raise_signal(signal.SIGTERM)
        report(self, *arguments, **options)

    monkeypatch.setattr(Rounds, "report", third)
    monkeypatch.setattr(rounds, "SECONDS_BETWEEN", 0.0)
    return seen


@pytest.mark.parametrize("command", COMMANDS)
def test_training_ends_and_goes_on(rankwood, data, sent, tmp_path, command):
    arguments = COMMANDS[command]
    outcome = rankwood(*arguments)
    assert outcome.code == 143
    assert "error: ended by SIGTERM." in outcome.err
    assert "Traceback" not in outcome.err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # as it was
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["kept", "train.parquet"]  # no model, and nothing half-written
    assert rankwood(*arguments).code == 0
    resumed = (tmp_path / "model.rankwood").read_bytes()
    (tmp_path / "kept").unlink()
    assert rankwood(*arguments).code == 0
    assert (tmp_path / "model.rankwood").read_bytes() == resumed


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "train.parquet", "out.txt"),
        ("inspect", "train.parquet"),
        (
            "learning-curve",
            "--data",
            "train.parquet",
            "--test",
            "train.parquet",
            "--model",
            "GBRT",
        ),
        ("cost-curve", "model.rankwood", "train.parquet"),
        ("score", "model.rankwood", "train.parquet", "--out", "scores.tsv"),
        ("evaluate", "model.rankwood", "train.parquet"),
        ("auto", "train.parquet", "--out", "auto.rankwood"),
    ],
)
def test_other_commands(rankwood, data, tmp_path, monkeypatch, arguments):
    rw.save(rw.GBRT(2).fit(data), tmp_path / "model.rankwood")
    made = rw.RankingData.__init__

    def end(self, *arguments, **options):
        signal.raise_signal(signal.SIGTERM)
        made(self, *arguments, **options)

    monkeypatch.setattr(rw.RankingData, "__init__", end)
    outcome = rankwood(*arguments)
    assert (outcome.code, outcome.out) == (143, ""), outcome.err
    assert "error: ended by SIGTERM." in outcome.err
    assert {path.name for path in tmp_path.iterdir()} == {"train.parquet", "model.rankwood"}


def test_a_second_signal_does_not_disturb_the_end(tmp_path):
    with pytest.raises(SystemExit, match="143"), ended_by_sigterm():  # noqa: PT012
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            (tmp_path / "record").touch()
    assert (tmp_path / "record").exists()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
