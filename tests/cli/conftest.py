from __future__ import annotations

from dataclasses import dataclass

import pytest

from rankwood.cli.main import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def rankwood(capsys, monkeypatch, tmp_path):
    """Call the command line in process, in an empty folder; gives exit code, output and error output."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call
