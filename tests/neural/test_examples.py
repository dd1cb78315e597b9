"""The examples of the page on networks, which only run where there is PyTorch: its ``py`` blocks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'neural' is not installed")

PAGE = Path(__file__).parents[2] / "docs" / "methods" / "mlp.md"


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    namespace: dict[str, object] = {"__name__": "example"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), namespace)
    assert Path("mlp.rankwood").stat().st_size > 0
