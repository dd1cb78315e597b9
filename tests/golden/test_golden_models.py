"""Files that earlier versions wrote keep loading, and are still written the same."""

from __future__ import annotations

import json
import zipfile

import numpy as np

from rankwood.models.format import load_model, save_model
from tests.golden import make_linear_v1 as linear
from tests.golden import make_neural_v1 as neural
from tests.golden.make_forest_v1 import META, PATH, make_forest


def test_a_file_of_format_1_loads():
    forest, meta = load_model(PATH)
    assert forest == make_forest()
    assert meta == {**META, "feature_names": ["bm25", "pagerank"]}


def test_it_scores_as_it_always_did():
    forest, _ = load_model(PATH)
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
    save_model(make_forest(), tmp_path / "now", META)
    now, then = (contents(path) for path in (tmp_path / "now", PATH))
    now["model.json"]["rankwood_version"] = then["model.json"]["rankwood_version"]
    assert now == then


def test_a_linear_model_of_format_1_loads():
    model, meta = load_model(linear.PATH)
    assert model == linear.make_linear()
    assert meta == {**linear.META, "feature_names": ["bm25", "pagerank", "constant"]}


def test_a_linear_model_scores_as_it_always_did():
    model, _ = load_model(linear.PATH)
    nan, inf = np.nan, np.inf
    documents = np.array([[4, 0.5, 9], [nan, 0.5, nan], [0, nan, inf]], np.float32)
    # intercept 0.125 + 0.5 × bm25 - 2 × pagerank; missing are 1 and 0.25; the third feature has no weight
    expected = [0.125 + 2 - 1, 0.125 + 0.5 - 1, 0.125 + 0 - 0.5]
    assert model.predict(documents).tolist() == expected


def test_a_linear_model_is_still_written_the_same(tmp_path):
    save_model(linear.make_linear(), tmp_path / "now", linear.META)
    now, then = (contents(path) for path in (tmp_path / "now", linear.PATH))
    now["model.json"]["rankwood_version"] = then["model.json"]["rankwood_version"]
    assert now == then


def contents(path):
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    return found | {"model.json": json.loads(found["model.json"])}


def test_a_network_of_format_1_loads_and_scores_as_it_always_did(tmp_path):
    model, meta = load_model(neural.PATH)
    assert model == neural.make_neural()
    assert meta == {**neural.META, "feature_names": ["bm25", "clicks", "constant"]}
    documents = np.array([[3, 0, 9], [np.nan, 0, np.nan], [1, np.expm1(1), 0]], np.float32)
    # Units relu(bm25 + clicks / 2) and relu(0.5 - bm25 + 2 clicks), of values as they enter; then 3, -1/4 and -1.
    expected = [
        3 * 1 - 0.25 * 0 - 1,  # bm25 (3 - 1) / 2 = 1: 1 and relu(-0.5)
        3 * 0 - 0.25 * 0.5 - 1,  # missing is 0, and so is what has no spread
        3 * 0.5 - 0.25 * 2.5 - 1,  # clicks log(1 + e - 1) = 1
    ]
    np.testing.assert_allclose(model.predict(documents), expected, rtol=1e-6)
    save_model(neural.make_neural(), tmp_path / "now", neural.META)
    now, then = (contents(path) for path in (tmp_path / "now", neural.PATH))
    now["model.json"]["rankwood_version"] = then["model.json"]["rankwood_version"]
    assert now == then
