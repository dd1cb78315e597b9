"""Exported files scored by those who read them: the real engine where one runs here, else its documented rules.

Every document is one at which engines part ways: see ``tests/reference/awkward.py``.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import shutil
import subprocess
from types import SimpleNamespace

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
    ending = {"xgboost-model": "json"}.get(format_name, format_name)  # XGBoost goes by it
    path = tmp_path / f"model.{ending}"
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
    path = exported(forest, "xgboost-dump", tmp_path, verify=documents)
    names = [f"f{number}" for number in range(forest.n_features)]
    engine = engines.SearchPluginXGBoost(path.read_bytes(), names, knows_missing)
    found = scored(engine, documents)
    assert np.array_equal(
        own_score(path, "xgboost-dump", documents, feature_names=tuple(names)), found
    )
    np.testing.assert_allclose(found, forest.predict(documents), **FLOAT32)


def test_vespa_reads_xgboost_json(rng, shape, tmp_path):
    forest, documents = awkward.forest(rng, **shape), awkward.documents(rng)
    path = exported(forest, "xgboost-dump", tmp_path, objective="none")
    names = [f"f{number}" for number in range(forest.n_features)]
    engine = engines.VespaXGBoost(json.loads(path.read_bytes()), names)
    np.testing.assert_allclose(scored(engine, documents), forest.predict(documents), **FLOAT32)


@pytest.mark.parametrize(
    "objective", ["rank:ndcg", "rank:pairwise", "rank:map", "reg:squarederror"]
)
def test_xgboost_loads_its_model(rng, shape, tmp_path, objective):
    xgboost = pytest.importorskip("xgboost")
    forest = awkward.forest(rng, **shape)
    documents = awkward.documents(rng)
    documents[np.isinf(documents)] = 3e38  # which XGBoost refuses
    path = exported(forest, "xgboost-model", tmp_path, verify=documents, objective=objective)
    booster = xgboost.Booster(model_file=str(path))
    assert booster.num_boosted_rounds() == forest.n_trees
    assert booster.num_features() == forest.n_features
    rows = xgboost.DMatrix(documents)
    found = booster.predict(rows)
    assert np.array_equal(found, booster.predict(rows, output_margin=True))
    assert np.array_equal(found, own_score(path, "xgboost-model", documents))
    np.testing.assert_allclose(found, forest.predict(documents), **FLOAT32)
    leaves = booster.predict(rows, pred_leaf=True).reshape(len(documents), -1)
    ours = forest.leaf_ids(documents)
    for tree in range(forest.n_trees):  # the same rows share a leaf, in every tree
        pairs = set(zip(leaves[:, tree].tolist(), ours[:, tree].tolist(), strict=True))
        assert len(pairs) == len(set(leaves[:, tree])) == len(set(ours[:, tree]))
    parts = booster.predict(rows, pred_contribs=True)
    np.testing.assert_allclose(parts.sum(axis=1), found, rtol=0, atol=1e-4)
    booster.save_model(
        tmp_path / "again.json"
    )  # it goes through XGBoost unchanged, but for digits of the gain
    first, again = (rw.import_model(p, "xgboost") for p in (path, tmp_path / "again.json"))
    np.testing.assert_allclose(again.gain, first.gain, rtol=1e-6)
    assert dataclasses.replace(again, gain=first.gain) == first


def test_a_ranker_of_xgboost_loads_the_model_with_names_and_goes_on_training(rng, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    names = ["title", 'quo"te', "é", "d e", "f"]
    forest, documents = awkward.forest(rng, base=0.25), awkward.documents(rng)
    documents[np.isinf(documents)] = 3e38
    path = exported(forest, "xgboost-model", tmp_path, feature_names=names)
    ranker = xgboost.XGBRanker()
    ranker.load_model(path)
    assert ranker.get_booster().feature_names == names
    rows = xgboost.DMatrix(documents, rng.integers(0, 3, 400), feature_names=names)
    rows.set_group([20] * 20)
    expected = forest.predict(documents)
    np.testing.assert_allclose(ranker.get_booster().predict(rows), expected, **FLOAT32)
    settings = {"objective": "rank:ndcg", "max_depth": 2}
    longer = xgboost.train(settings, rows, 2, xgb_model=ranker.get_booster())
    assert longer.num_boosted_rounds() == forest.n_trees + 2
    first = longer.predict(rows, iteration_range=(0, forest.n_trees))
    np.testing.assert_allclose(first, expected, **FLOAT32)


def test_trees_of_xgboost_may_be_deep(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    from tests.reference import forest as reference

    forest = rw.models.forest.Forest.from_trees([reference.chain(500)], n_features=1)
    rows = np.linspace(-2, 600, 700, dtype=np.float32)[:, np.newaxis]
    path = exported(forest, "xgboost-model", tmp_path, verify=rows)
    found = xgboost.Booster(model_file=str(path)).predict(xgboost.DMatrix(rows))
    np.testing.assert_allclose(found, forest.predict(rows), rtol=1e-6)


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


COUNTED = {
    "rows": (lambda: rw.GBRT(n_trees=3, max_leaves=6, min_leaf=5), False),
    "weighted rows": (lambda: rw.GBRT(n_trees=3, max_leaves=6, min_leaf=5), True),
    "hessians": (lambda: rw.LambdaMART(n_trees=3, max_leaves=6), False),
    "bootstrap samples": (lambda: rw.RandomForest(n_trees=3, max_leaves=6), False),
}


@pytest.mark.parametrize("case", COUNTED)
def test_counts_of_lightgbm_are_training_rows(tmp_path, case):
    lightgbm = pytest.importorskip("lightgbm")
    make, is_weighted = COUNTED[case]
    data = rw.make_ranking(n_queries=20, docs_per_query=12, n_features=6, seed=3)
    if is_weighted:
        weights = np.random.default_rng(4).uniform(0.1, 2.0, len(data))
        data = rw.RankingData(data.features, data.labels, data.query_ids, row_weights=weights)
    fitted = make().fit(data)
    forest, path = fitted.forest_, tmp_path / "model.txt"
    notes = rw.export(fitted, path, "lightgbm", verify=data).notes
    is_exact = case in ("rows", "bootstrap samples")
    assert notes == () if is_exact else f"{len(data):,}, the training rows, at roots" in notes[0]
    booster = lightgbm.Booster(model_file=str(path))
    rw.export(fitted, tmp_path / "model.json", "lightgbm-json")
    dumped = booster.dump_model()["tree_info"]
    ours = json.loads((tmp_path / "model.json").read_text())["tree_info"]
    leaves = forest.leaf_ids(data)
    for number in range(forest.n_trees):
        tree = dumped[number]["tree_structure"]
        counts, weights = (
            [node[key] for node in leaves_of(tree)] for key in ("leaf_count", "leaf_weight")
        )
        assert tree["internal_count"] == sum(counts) == len(data)
        nodes = np.arange(*forest.tree_offsets[number : number + 2])
        of_leaves = forest.cover[nodes[forest.feature[nodes] < 0]]
        assert sorted(weights) == pytest.approx(sorted(of_leaves.tolist()), rel=1e-6)
        found = [leaf["leaf_count"] for leaf in leaves_of(ours[number]["tree_structure"])]
        assert found == counts
        if case == "rows":
            assert sorted(counts) == sorted(np.unique_counts(leaves[:, number]).counts.tolist())
        else:
            share = np.array(counts) / len(data)
            np.testing.assert_allclose(share, np.array(weights) / sum(weights), atol=0.03)


def leaves_of(node):
    """The leaves of a dumped tree, from left to right."""
    if "leaf_value" in node:
        return [node]
    return [*leaves_of(node["left_child"]), *leaves_of(node["right_child"])]


def test_counts_without_known_rows_are_weights_made_larger(rng, tmp_path):
    forest = awkward.forest(rng, n_trees=2)
    scaled = type(forest)(**{**vars_of(forest), "cover": forest.cover * 0.013})
    (note,) = rw.export(scaled, tmp_path / "x", "lightgbm").notes
    assert note.endswith("counts are in proportion to them")
    from rankwood.exports.lightgbm import row_counts

    end = int(forest.tree_offsets[1])
    n_leaves = int((forest.feature[:end] < 0).sum())
    assert row_counts(scaled, 0, end, n_leaves)[0] == n_leaves  # a row for each
    few = row_counts(scaled, 0, end, n_leaves - 1)
    assert np.array_equal(few, row_counts(scaled, 0, end))


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


def compiler(name="gcc"):
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name}")
    return [name, "-Wall", "-Wextra", "-Werror", "-pedantic"]


def compiled(path, tmp_path, *options, function="score"):
    """The functions of a C file: of one document, of many; and the names of the features."""
    library = tmp_path / f"{function}.so"
    command = [*compiler(), "-x", "c", "-shared", "-fPIC", *options, str(path), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)
    code = ctypes.CDLL(str(library))
    floats, doubles = ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_double)
    score, batch = getattr(code, function), getattr(code, f"{function}_batch")
    score.restype, score.argtypes = ctypes.c_double, [floats]
    batch.restype, batch.argtypes = None, [floats, ctypes.c_size_t, ctypes.c_size_t, doubles]

    def of_one(document):
        row = np.ascontiguousarray(document, np.float32)
        return score(row.ctypes.data_as(floats))

    def of_many(rows, stride):
        scores = np.full(len(rows), np.nan)
        batch(rows.ctypes.data_as(floats), len(rows), stride, scores.ctypes.data_as(doubles))
        return scores

    def names(n_features):
        array = (ctypes.c_char_p * n_features).in_dll(code, f"{function}_feature_names")
        return [name.decode() for name in array]

    return SimpleNamespace(of_one=of_one, of_many=of_many, names=names)


@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
def test_c_source(rng, shape, tmp_path, optimised):
    forest, documents = awkward.forest(rng, **shape), awkward.documents(rng)
    path = exported(forest, "c", tmp_path, verify=documents)
    code = compiled(path, tmp_path, "-std=c99", optimised)
    expected = forest.predict(documents)  # double sums in our order: the same bits
    assert [code.of_one(document) for document in documents] == expected.tolist()
    assert code.of_many(documents, 5).tobytes() == expected.tobytes()
    wider = np.full((len(documents), 8), np.nan, np.float32)
    wider[:, :5] = documents
    assert code.of_many(wider, 8).tobytes() == expected.tobytes()
    assert code.of_many(documents[:0], 5).size == 0


def test_c_source_and_json_take_third_children(rng, tmp_path):
    from tests.reference import forest as reference

    forest = reference.random_forest(rng, third=0.5)
    documents = rng.choice(reference.nasty_values(), (200, 4))
    code = compiled(exported(forest, "c", tmp_path, verify=documents), tmp_path)
    assert np.array_equal(
        [code.of_one(document) for document in documents], forest.predict(documents)
    )
    exported(forest, "json", tmp_path, verify=documents)


def test_names_cannot_break_out_of_the_c_files(rng, tmp_path):
    hostile = ["*/ int evil(void); /*", "a\\\nb", '??/"', "é\u202e", '", "end */']
    path = exported(awkward.forest(rng), "c", tmp_path, feature_names=hostile)
    source, header = (file.read_text(encoding="ascii") for file in (path, path.with_suffix(".h")))
    assert "evil" in source
    assert "evil" in header
    assert header.count("*/") == 4  # ours: the head, and above the declarations
    assert "evil" in header[: header.index("*/")]  # inside the comment, where it is harmless
    code = compiled(path, tmp_path, "-std=c99", "-trigraphs")
    assert code.names(5) == hostile


CALLER = """
#include <stdio.h>
#include <stdlib.h>
#include "shop.h"
#include "shop.h"
#include "news.h"

int main(void)
{
    static float rows[1000 * (SHOP_N_FEATURES + 1)];
    static double scores[2 * 1000];
    size_t n_rows = fread(rows, sizeof rows[0] * (SHOP_N_FEATURES + 1), 1000, stdin);
    shop_batch(rows, n_rows, SHOP_N_FEATURES + 1, scores);
    for (size_t row = 0; row < n_rows; ++row)
        scores[n_rows + row] = news(rows + row * (SHOP_N_FEATURES + 1));
    fwrite(scores, sizeof scores[0], 2 * n_rows, stdout);
    fprintf(stderr, "%s", shop_feature_names[NEWS_N_FEATURES - 1]);
    return 0;
}
"""


@pytest.mark.parametrize("caller", ["gcc", "g++"])
@pytest.mark.parametrize("language", ["c", "c++"])
def test_two_models_in_one_program_of_c_or_cpp(rng, tmp_path, language, caller):
    """Each model compiled as C or as C++, called from C or from C++ by its header: the bytes of our scores."""
    documents = awkward.documents(rng)
    forests = {"shop": awkward.forest(rng), "news": awkward.forest(rng, average=True, base=0.5)}
    objects = []
    for name, forest in forests.items():
        path, target = tmp_path / f"{name}.c", tmp_path / f"{name}.o"
        rw.export(forest, path, "c", function_name=name, feature_names=list("abcde"))
        subprocess.run([*compiler(), "-x", language, "-c", path, "-o", target], check=True)
        objects.append(target)
    source = tmp_path / ("main.c" if caller == "gcc" else "main.cpp")
    source.write_text(CALLER)
    program = tmp_path / "main"
    command = [*compiler(caller), "-I", tmp_path, source, *objects, "-o", program]
    subprocess.run(command, check=True)
    rows = np.concatenate([documents, documents[:, :1]], axis=1)  # a column between the rows
    done = subprocess.run([program], input=rows.tobytes(), check=True, capture_output=True)
    assert done.stdout == b"".join(
        forest.predict(documents).tobytes() for forest in forests.values()
    )
    assert done.stderr == b"e"
