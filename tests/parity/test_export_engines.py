"""Exported files scored by those who read them: the real engine where one runs here, else its documented rules.

Every document is one at which engines part ways: see ``tests/reference/awkward.py``.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import ModelError
from rankwood.exports.exporting import FORMATS
from tests.reference import awkward, engines

pytestmark = pytest.mark.jit_only  # no kernels of its own

SHAPES = {
    "sum": {},
    "weighted sum with a base": {"weights": [0.1, 2.0, -0.5, 1.0, 3.0, 0.7], "base": -0.25},
    "mean": {"average": True},
    "weighted mean with a base": {
        "average": True,
        "weights": [0.1, 2.0, 0.5, 1, 3, 0],
        "base": 1.5,
    },
    "one leaf": {"n_trees": 1},
}
FLOAT32 = {
    "rtol": 0,
    "atol": 6e-6,
}  # sums of six leaves up to about 5 with up to 12 roundings of 2^-24 each


@pytest.fixture(params=SHAPES, ids=lambda name: name.replace(" ", "_"))
def shape(request):
    return SHAPES[request.param]


def exported(forest, format_name, tmp_path, **options):
    path = tmp_path / f"model.{format_name}"
    rw.export(forest, path, format_name, **options)
    return path


def scored(engine, documents):
    with np.errstate(over="ignore"):
        return np.array([engine.score(document) for document in documents])


def own_score(path, format_name, documents, **names):
    target = FORMATS[format_name]
    return target.read(path.read_bytes(), **names).score(documents, target.rules)


def test_ranklib(rng, shape, tmp_path):
    forest, documents = awkward.forest(rng, zero=True, **shape), awkward.documents(rng)
    path = exported(forest, "ranklib", tmp_path, verify=documents)
    found = scored(engines.RankLib(path.read_bytes()), documents)
    assert np.array_equal(
        own_score(path, "ranklib", documents), found
    )  # our reading is RankLib's, to the bit
    np.testing.assert_allclose(found, forest.predict(documents), **FLOAT32)


def test_ranklib_has_one_tag_per_line_and_the_first_line_it_looks_for(rng, tmp_path):
    summed = exported(awkward.forest(rng, zero=True), "ranklib", tmp_path).read_text().splitlines()
    assert summed[0] == "## LambdaMART"
    assert all(line.count("<") <= 2 and line == line.strip() for line in summed)
    mean = exported(awkward.forest(rng, zero=True, average=True), "ranklib", tmp_path)
    assert mean.read_text().startswith("## Random Forests\n")


@pytest.mark.parametrize("knows_missing", [True, False])
def test_search_plugins_read_xgboost_json(rng, shape, tmp_path, knows_missing):
    forest, documents = awkward.forest(rng, **shape), awkward.documents(rng)
    if not knows_missing:  # such a plugin gives 0 to what is not set
        documents = np.nan_to_num(documents, nan=0.0, posinf=np.inf, neginf=-np.inf)
    path = exported(forest, "xgboost-json", tmp_path, verify=documents)
    names = [f"f{number}" for number in range(forest.n_features)]
    engine = engines.SearchPluginXGBoost(path.read_bytes(), names, knows_missing)
    found = scored(engine, documents)
    assert np.array_equal(
        own_score(path, "xgboost-json", documents, feature_names=tuple(names)), found
    )
    np.testing.assert_allclose(found, forest.predict(documents), **FLOAT32)


def test_vespa_reads_xgboost_json(rng, shape, tmp_path):
    forest, documents = awkward.forest(rng, **shape), awkward.documents(rng)
    path = exported(forest, "xgboost-json", tmp_path, objective="none")
    names = [f"f{number}" for number in range(forest.n_features)]
    engine = engines.VespaXGBoost(json.loads(path.read_bytes()), names)
    np.testing.assert_allclose(scored(engine, documents), forest.predict(documents), **FLOAT32)


def test_solr(rng, shape, tmp_path):
    thresholds = awkward.SOLR_THRESHOLDS
    forest, documents = awkward.forest(rng, thresholds, **shape), awkward.documents(rng, thresholds)
    path = exported(forest, "solr", tmp_path, verify=documents)
    found = scored(engines.Solr(path.read_bytes()), documents)
    assert np.array_equal(own_score(path, "solr", documents), found)
    np.testing.assert_allclose(found, forest.predict(documents), **FLOAT32)


@pytest.mark.parametrize("draw", [awkward.documents, awkward.unrepresentable])
def test_vespa_reads_lightgbm_json(rng, shape, tmp_path, draw):
    forest, documents = awkward.forest(rng, **shape), draw(rng)
    path = exported(forest, "lightgbm-json", tmp_path, verify=documents.astype(np.float32))
    found = scored(engines.VespaLightGBM(path.read_bytes()), documents)
    assert np.array_equal(own_score(path, "lightgbm-json", documents), found)
    np.testing.assert_allclose(
        found, forest.predict(documents.astype(np.float32)), rtol=1e-13, atol=1e-13
    )


@pytest.mark.parametrize("draw", [awkward.documents, awkward.unrepresentable])
def test_lightgbm_reads_its_text(rng, shape, tmp_path, draw):
    lightgbm = pytest.importorskip("lightgbm")
    forest, documents = awkward.forest(rng, **shape), draw(rng).astype(np.float64)
    path = exported(forest, "lightgbm", tmp_path)
    booster = lightgbm.Booster(model_file=str(path))
    assert booster.num_trees() == len(own_score_trees(path))
    assert np.array_equal(own_score(path, "lightgbm", documents), booster.predict(documents))
    documents = documents_of_size(documents)
    exported(forest, "lightgbm", tmp_path, verify=documents.astype(np.float32))
    expected = forest.predict(documents.astype(np.float32))
    np.testing.assert_allclose(booster.predict(documents), expected, rtol=1e-13, atol=1e-13)


def documents_of_size(documents):
    """Without values so near 0 that LightGBM takes them for 0."""
    return np.where(np.abs(documents) <= 1e-35, 0.0, documents).astype(documents.dtype)


def test_documents_that_lightgbm_takes_for_others_are_refused(rng, tmp_path):
    forest = awkward.forest(rng, thresholds=np.array([1e-40], np.float32))
    documents = np.full(
        (1, 5), 2e-40, np.float32
    )  # right of the threshold; LightGBM sees 0, which is left of it
    with pytest.raises(ModelError, match=r"more than rounding\. The file was not written"):
        exported(forest, "lightgbm", tmp_path, verify=documents)
    assert list(tmp_path.iterdir()) == []


def own_score_trees(path):
    return FORMATS["lightgbm"].read(path.read_bytes()).tree_weights


def test_lightgbm_explains_the_exported_model(rng, shape, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    forest = awkward.forest(rng, **shape)
    documents = documents_of_size(awkward.documents(rng, n_rows=50))
    path = exported(forest, "lightgbm", tmp_path)
    parts = lightgbm.Booster(model_file=str(path)).predict(documents, pred_contrib=True)
    if forest.average:  # LightGBM divides scores by the number of trees, but not their parts
        parts /= forest.n_trees
    np.testing.assert_allclose(parts.sum(axis=1), forest.predict(documents), rtol=1e-9, atol=1e-9)
    # The expected value is the mean leaf, each leaf counting its training rows.
    expected = 0.0
    for tree in range(forest.n_trees):
        leaves = np.arange(*forest.tree_offsets[tree : tree + 2])
        leaves = leaves[forest.feature[leaves] < 0]
        mean = np.average(forest.value[leaves], weights=forest.cover[leaves])
        expected += forest.tree_weights[tree] * mean
    if forest.average:
        expected /= forest.tree_weights.sum()
    np.testing.assert_allclose(parts[:, -1], expected + forest.base, rtol=1e-9, atol=1e-9)
    assert not parts[:, forest.n_features - 1].any()  # the feature no tree uses


def test_weighted_rows_keep_their_proportions_for_shap(rng, tmp_path):
    from rankwood.exports.lightgbm import row_counts

    forest = awkward.forest(rng, n_trees=2)
    scaled = type(forest)(**{**vars_of(forest), "cover": forest.cover * 0.013})
    end = int(forest.tree_offsets[1])
    counts, plain = row_counts(scaled, 0, end), row_counts(forest, 0, end)
    np.testing.assert_allclose(counts / counts[0], plain / plain[0], rtol=1e-3)
    huge = type(forest)(**{**vars_of(forest), "cover": forest.cover * 1e12})
    assert row_counts(huge, 0, end).max() < 2**31


def vars_of(forest):
    import dataclasses

    return {field.name: getattr(forest, field.name) for field in dataclasses.fields(forest)}


def test_treelite_reads_lightgbm_text(rng, shape, tmp_path):
    treelite = pytest.importorskip("treelite")
    forest, documents = awkward.forest(rng, **shape), awkward.documents(rng)
    path = exported(forest, "lightgbm", tmp_path)
    model = treelite.frontend.load_lightgbm_model(str(path))
    found = treelite.gtil.predict(model, documents.astype(np.float64)).ravel()
    np.testing.assert_allclose(found, forest.predict(documents), rtol=1e-12, atol=1e-12)


def test_onnx_runtime(rng, shape, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    forest, documents = awkward.forest(rng, **shape), awkward.documents(rng)
    path = exported(forest, "onnx", tmp_path, verify=documents)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(["scores"], {"features": documents})
    assert found.dtype == np.float32
    assert found.shape == (len(documents), 1)
    np.testing.assert_allclose(found.ravel(), forest.predict(documents), **FLOAT32)


def test_onnx_passes_the_checker(rng, tmp_path):
    onnx = pytest.importorskip("onnx")
    forest = awkward.forest(rng)
    model = onnx.load(
        exported(forest, "onnx", tmp_path, feature_names=["a", 'b"', "c\n", "é", "e"])
    )
    onnx.checker.check_model(model)
    (names,) = [item.value for item in model.metadata_props if item.key == "feature_names"]
    assert json.loads(names) == ["a", 'b"', "c\n", "é", "e"]


def compiled(path, tmp_path, *options):
    if shutil.which("gcc") is None:
        pytest.skip("there is no C compiler")
    library = tmp_path / "model.so"
    command = ["gcc", "-x", "c", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
    subprocess.run(
        [*command, *options, str(path), "-o", str(library)], check=True, capture_output=True
    )
    score = ctypes.CDLL(str(library)).score
    score.restype, score.argtypes = ctypes.c_double, [ctypes.POINTER(ctypes.c_float)]

    def one(document):
        row = np.ascontiguousarray(document, np.float32)
        return score(row.ctypes.data_as(ctypes.POINTER(ctypes.c_float)))

    return one


@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
def test_c_source(rng, shape, tmp_path, optimised):
    forest, documents = awkward.forest(rng, **shape), awkward.documents(rng)
    path = exported(forest, "c", tmp_path, verify=documents)
    score = compiled(path, tmp_path, "-std=c99", optimised)
    found = np.array([score(document) for document in documents])
    assert np.array_equal(
        found, forest.predict(documents)
    )  # double sums in our order: the same bits


def test_c_source_and_json_take_third_children(rng, tmp_path):
    from tests.reference import forest as reference

    forest = reference.random_forest(rng, third=0.5)
    documents = rng.choice(reference.nasty_values(), (200, 4))
    score = compiled(exported(forest, "c", tmp_path, verify=documents), tmp_path)
    assert np.array_equal([score(document) for document in documents], forest.predict(documents))
    exported(forest, "json", tmp_path, verify=documents)


def test_names_cannot_break_out_of_the_c_comment(rng, tmp_path):
    hostile = ["*/ int evil(void); /*", "a\\\nb", "??/", "é\u202e", "end */"]
    path = exported(awkward.forest(rng), "c", tmp_path, feature_names=hostile)
    text = path.read_text(encoding="ascii")
    assert text.count("*/") == 2  # ours: the head, and above the function
    assert "evil" in text  # inside the comment, where it is harmless
    compiled(path, tmp_path, "-std=c99", "-trigraphs")
