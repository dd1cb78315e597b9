"""Files that earlier versions wrote keep loading, and are still written the same."""

from __future__ import annotations

import json
import zipfile

import numpy as np

from rankwood.models.format import load_forest, save_forest
from tests.golden.make_forest_v1 import META, PATH, make_forest


def test_a_file_of_format_1_loads():
    forest, meta = load_forest(PATH)
    assert forest == make_forest()
    assert meta == {**META, "feature_names": ["bm25", "pagerank"]}


def test_it_scores_as_it_always_did():
    forest, _ = load_forest(PATH)
    nan = np.nan
    documents = np.array([[1.5, 0], [2, -0.25], [2, 0.5], [nan, nan], [2, nan]], np.float32)
    # base 0.125 + 1 × first tree + 2 × second + 0.5 × 3
    expected = [
        0.125 + 0.5 + 2 * -1 + 1.5,  # bm25 <= 1.5; pagerank <= 0
        0.125 + 0.25 + 2 * -1 + 1.5,  # pagerank <= -0.25
        0.125 + 2.0 + 2 * 1 + 1.5,  # right, right; right
        0.125 + 0.5 + 2 * 4 + 1.5,  # missing goes left; third child
        0.125 + 2.0 + 2 * 4 + 1.5,  # missing goes right; third child
    ]
    assert forest.predict(documents).tolist() == expected


def test_it_is_still_written_the_same(tmp_path):
    save_forest(make_forest(), tmp_path / "now", META)
    now, then = (contents(path) for path in (tmp_path / "now", PATH))
    now["model.json"]["rankwood_version"] = then["model.json"]["rankwood_version"]
    assert now == then


def contents(path):
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    return found | {"model.json": json.loads(found["model.json"])}
