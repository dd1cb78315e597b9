"""Models, scores, files and results are the same to the bit as when their digests were kept."""

from __future__ import annotations

import pytest

from tests.golden.digests import REMEDY, changes, digests_of, names, other_versions, stored


@pytest.mark.parametrize("name", names())
def test_it_is_what_it_was(name):
    if "onnx" in name or "certificates" in name:
        pytest.importorskip("onnx")
    assert name in stored()["digests"], f"'{name}' has no digest yet. {REMEDY}"
    changed = changes(name, digests_of(name))
    assert not changed, f"'{name}' has changed in: {', '.join(changed)}. {other_versions()}{REMEDY}"


def test_no_digest_is_left_of_an_entry_that_is_gone():
    gone = sorted(set(stored()["digests"]) - set(names()))
    assert not gone, f"digests.json holds entries that no test makes: {', '.join(gone)}. {REMEDY}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("RandomForest", "RandomForest: 1 thread"),
        ("RandomForest", "RandomForest: 3 threads"),
        ("GBRT: 16 bins, 1 thread", "GBRT: 16 bins, 3 threads"),
    ],
)
def test_threads_do_not_show(one, other):
    digests = stored()["digests"]
    assert digests[f"model: {one}"] == digests[f"model: {other}"]
