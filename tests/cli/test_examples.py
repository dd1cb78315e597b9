"""The scripts in examples/ run as they are, without arguments, each under a minute."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
SAYS = {"engineer_parquet": "LambdaMART", "researcher_folds": "BROOF"}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_an_example_runs(script, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sys.argv", [str(script)])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runpy.run_path(str(script), run_name="__main__")
    assert SAYS[script.stem] in capsys.readouterr().out
