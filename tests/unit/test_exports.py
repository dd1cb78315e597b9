"""Exporting: what is refused and why, what the certificate says, and files that come back as they went."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwood as rw
from rankwood.errors import DataError, MissingExtra, ModelError, ParameterError, UnknownName
from rankwood.exports import rules
from rankwood.exports.exporting import FORMATS, READERS, check_decisions
from tests.reference import awkward
from tests.reference import forest as reference

pytestmark = pytest.mark.jit_only  # no kernels of its own

f32 = np.float32
NAMES_HOSTILE = ['quo"te', "new\nline", "<tag>&amp;", "back\\slash", "é\u2028*/"]
EVERY = sorted(FORMATS)


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(n_queries=30, docs_per_query=15, n_features=6, seed=3)


@pytest.fixture(scope="module")
def missing_data(data):
    features = data.features.copy()
    features[::3, 0] = np.nan
    features[::4, 1] = np.nan
    return rw.RankingData(features, data.labels, data.query_ids)


@pytest.fixture(scope="module")
def model(data):
    return rw.LambdaMART(n_trees=6, max_leaves=8).fit(data)


ESTIMATORS = {
    "RandomForest": lambda: rw.RandomForest(n_trees=4, max_leaves=9),
    "ExtraTrees": lambda: rw.ExtraTrees(n_trees=4, max_leaves=9),
    "CompletelyRandomForest": lambda: rw.CompletelyRandomForest(n_trees=4),
    "GBRT": lambda: rw.GBRT(n_trees=4, max_leaves=9),
    "LambdaMART": lambda: rw.LambdaMART(n_trees=4, max_leaves=9),
    "AveragedGBRT": lambda: rw.AveragedGBRT(n_runs=2, n_trees=3, max_leaves=5),
    "InitializedGBRT": lambda: rw.InitializedGBRT(n_trees=3, forest_trees=3, forest_leaves=9),
    "NDCGBoost": lambda: rw.NDCGBoost(n_rounds=3),
    "RankBoost": lambda: rw.RankBoost(n_rounds=5),
    "BROOF gradient": lambda: rw.BROOF("gradient", n_rounds=2, n_trees=3, max_leaves=9),
    "BROOF absolute": lambda: rw.BROOF("absolute", n_rounds=2, n_trees=3, max_leaves=9),
    "BoostingTree": lambda: rw.BoostingTree(rw.LambdaMART(max_leaves=4), max_length=2),
    "Exp3P": lambda: rw.Exp3P(rw.LambdaMART(max_leaves=4), n_rounds=4),
    "OrdinalRanker": lambda: rw.OrdinalRanker(rw.GBRT(n_trees=3, max_leaves=5), clip=False),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_sum_or_mean_of_trees_exports_to_every_format(name, data, tmp_path):
    pytest.importorskip("onnx")
    fitted = ESTIMATORS[name]().fit(data)
    for format_name in EVERY:
        certificate = rw.export(
            fitted, tmp_path / format_name, format_name, verify=data, nearest_thresholds=True
        )
        size = float(np.abs(fitted.predict(data)).max())
        assert certificate.n_documents == len(data)
        assert certificate.largest_difference <= 1e-5 * max(1.0, size)
        assert certificate.same_order >= 0.9 * certificate.n_queries


@pytest.mark.parametrize(
    ("ranker", "reason"),
    [
        (lambda: rw.RankSVM(max_iter=5), "a linear model is no sum of trees"),
        (lambda: rw.AdaRank(n_rounds=2), "a linear model is no sum of trees"),
        (lambda: rw.DeepForest(max_layers=1, n_trees=2, n_forests=1), "layers of a cascade feed"),
        (
            lambda: rw.OrdinalRanker(rw.GBRT(n_trees=2), clip=True),
            "clipped probabilities are no sum",
        ),
    ],
    ids=["ranksvm", "adarank", "cascade", "clipped"],
)
def test_models_that_are_no_sum_of_trees_are_refused(ranker, reason, data, tmp_path):
    with pytest.raises(ModelError, match=reason):
        rw.export(ranker().fit(data), tmp_path / "x", "ranklib")
    assert list(tmp_path.iterdir()) == []


def test_unfitted_and_foreign_objects_are_refused(tmp_path):
    with pytest.raises(ModelError, match="this GBRT is not fitted yet"):
        rw.export(rw.GBRT(), tmp_path / "x", "c")
    with pytest.raises(ModelError, match="dict cannot be exported: it is no ranker"):
        rw.export({}, tmp_path / "x", "c")
    with pytest.raises(UnknownName, match=r"format 'ranklab' is not known. Did you mean 'ranklib'"):
        rw.export(rw.GBRT(), tmp_path / "x", "ranklab")


@pytest.mark.parametrize("format_name", [name for name in EVERY if name not in ("json", "c")])
def test_third_children_are_refused_where_the_format_has_none(format_name, rng, tmp_path):
    if format_name == "onnx":
        pytest.importorskip("onnx")
    forest = reference.random_forest(rng, third=0.9)
    with pytest.raises(
        ModelError, match=rf"third child for missing values, which {format_name} cannot"
    ):
        rw.export(forest, tmp_path / "x", format_name, assume_no_missing=True)


def test_weak_rankers_with_three_leaves_become_two_trees_each(missing_data, tmp_path):
    fitted = rw.RankBoost(n_rounds=5).fit(missing_data)
    for format_name in ("solr", "xgboost-dump", "lightgbm", "lightgbm-json"):
        certificate = rw.export(
            fitted, tmp_path / "x", format_name, verify=missing_data, nearest_thresholds=True
        )
        assert certificate.n_trees == 2 * fitted.forest_.n_trees
        assert "two trees" in certificate.notes[0]
        assert certificate.largest_difference < 1e-6
    assert (
        rw.export(fitted, tmp_path / "x", "c", verify=missing_data).n_trees
        == fitted.forest_.n_trees
    )


def test_ranklib_knows_missing_values_from_the_training(data, missing_data, tmp_path):
    path = tmp_path / "model.xml"
    plain = rw.GBRT(n_trees=3).fit(data)
    assert plain.training_["features_with_missing"] == 0
    (note,) = rw.export(plain, path, "ranklib", verify=data).notes
    assert note.startswith("the training data had no missing values")
    rw.save(plain, tmp_path / "m.rankwood")  # the record goes with the model
    rw.export(rw.load(tmp_path / "m.rankwood"), path, "ranklib")

    gaps = rw.GBRT(n_trees=3).fit(missing_data)
    assert gaps.training_["features_with_missing"] == 2
    with pytest.raises(ModelError, match=r"elsewhere. 2 features of the training data had some"):
        rw.export(gaps, path, "ranklib")
    (note,) = rw.export(gaps, path, "ranklib", assume_no_missing=True).notes
    assert note.startswith("assumed on request")
    rw.export(gaps, path, "ranklib", assume_no_missing=True, verify=data)  # which has none
    with pytest.raises(DataError, match="missing values, which the format takes for 0"):
        rw.export(gaps, path, "ranklib", assume_no_missing=True, verify=missing_data)


def test_ranklib_refuses_a_bare_forest_whose_past_is_unknown(rng, tmp_path):
    with pytest.raises(ModelError, match="not known whether the training data had any"):
        rw.export(awkward.forest(rng), tmp_path / "x", "ranklib")
    (note,) = rw.export(awkward.forest(rng, zero=True), tmp_path / "x", "ranklib").notes
    assert note.startswith("every split sends missing values where it sends 0")


def test_binned_rows_tell_of_missing_values_too(data, missing_data):
    assert rw.GBRT(n_trees=1).fit(rw.bin(missing_data)).training_["features_with_missing"] == 2
    elsewhere = rw.bin(data).bins  # cut points from rows without gaps
    from rankwood.binning.binned import BinnedData

    codes = elsewhere.transform(missing_data.features)
    binned = BinnedData(codes, elsewhere, missing_data)
    assert rw.GBRT(n_trees=1).fit(binned).training_["features_with_missing"] == 2


def test_solr_says_when_its_slack_makes_a_threshold_impossible(rng, tmp_path):
    forest = awkward.forest(rng, thresholds=np.array([1e-12, 5e-7], f32))
    with pytest.raises(ModelError, match="thresholds cannot be written for Solr, which adds 1e-6"):
        rw.export(forest, tmp_path / "x", "solr")
    (note,) = rw.export(forest, tmp_path / "x", "solr", nearest_thresholds=True).notes
    assert "the nearest Solr can have, off by at most" in note
    between = np.full((1, 5), 5e-7, f32)  # left of our threshold; see whether it is left of Solr's
    written, _ = rules.before_slack(between[0, :1])
    assert abs(float(written[0] + f32(1e-6)) - 5e-7) < 1e-13


def test_a_threshold_above_all_finite_values_is_refused_by_xgboost(rng, tmp_path):
    forest = awkward.forest(rng, thresholds=np.array([awkward.GREATEST]))
    with pytest.raises(
        ModelError, match="the greatest float32, so that only infinite values lie above"
    ):
        rw.export(forest, tmp_path / "x", "xgboost-dump")
    rw.export(
        forest,
        tmp_path / "x",
        "lightgbm",
        verify=np.array([[np.inf] * 5, [awkward.GREATEST] * 5], f32),
    )


def test_leaves_beyond_float32_are_refused(rng, tmp_path):
    forest = awkward.forest(rng, zero=True)
    huge = dataclasses.replace(forest, value=forest.value * 1e40)
    for format_name in ("ranklib", "xgboost-dump"):
        with pytest.raises(ModelError, match="is beyond float32, which the format is read in"):
            rw.export(huge, tmp_path / "x", format_name)
    rw.export(huge, tmp_path / "x", "lightgbm")


def test_deep_trees_are_refused_where_nodes_are_nested(tmp_path):
    deep = rw.models.forest.Forest.from_trees([reference.chain(500)], n_features=1)
    for format_name in ("ranklib", "xgboost-dump", "solr", "lightgbm-json"):
        with pytest.raises(ModelError, match="a tree is 500 splits deep"):
            rw.export(deep, tmp_path / "x", format_name, assume_no_missing=True)
    rw.export(deep, tmp_path / "x", "lightgbm")


def test_names_are_escaped_or_refused(rng, tmp_path):
    forest = dataclasses.replace(
        awkward.forest(rng, awkward.SOLR_THRESHOLDS), feature_names=tuple(NAMES_HOSTILE)
    )
    solr = tmp_path / "solr.json"
    rw.export(forest, solr, "solr")
    assert [f["name"] for f in json.loads(solr.read_text())["features"]] == NAMES_HOSTILE
    rw.export(forest, tmp_path / "x.json", "xgboost-dump")
    assert rw.import_model(tmp_path / "x.json", "xgboost", feature_names=NAMES_HOSTILE).n_trees == 6
    rw.export(forest, tmp_path / "v.json", "lightgbm-json")
    assert json.loads((tmp_path / "v.json").read_text())["feature_names"] == NAMES_HOSTILE
    with pytest.raises(ModelError, match="cannot be written for LightGBM: no spaces, quotes"):
        rw.export(forest, tmp_path / "l.txt", "lightgbm")
    rw.export(forest, tmp_path / "l.txt", "lightgbm", feature_names=list("abcde"))
    assert rw.import_model(tmp_path / "l.txt", "lightgbm").feature_names == tuple("abcde")


@pytest.mark.parametrize("names", [["a"], ["a"] * 5], ids=["too few", "alike"])
def test_names_must_be_one_per_feature_and_differ(rng, names, tmp_path):
    for format_name in ("solr", "json", "lightgbm"):
        with pytest.raises(ModelError, match="feature_names must be 5 different names"):
            rw.export(awkward.forest(rng), tmp_path / "x", format_name, feature_names=names)
    with pytest.raises(ParameterError, match="feature_names must be a list of texts"):
        rw.export(awkward.forest(rng), tmp_path / "x", "json", feature_names="abcde")


def test_objectives_that_change_scores_are_refused(rng, tmp_path):
    with pytest.raises(
        ModelError, match="'reg:linear' is not one of a saved model whose scores are"
    ):
        rw.export(awkward.forest(rng), tmp_path / "x", "xgboost-model", objective="reg:linear")
    with pytest.raises(ModelError, match="'binary:logistic' is not one whose scores are left"):
        rw.export(awkward.forest(rng), tmp_path / "x", "xgboost-dump", objective="binary:logistic")


def test_the_former_name_of_the_dump_writes_the_dump(model, data, tmp_path):
    names = {}
    for name in ("xgboost-json", "xgboost-dump"):
        names[name] = rw.export(model, tmp_path / name, name, verify=data)
    former, present = names.values()
    assert former.sha256 == present.sha256
    assert (former.format, present.notes) == ("xgboost-dump", ())
    assert former.notes == (
        "xgboost-json is called xgboost-dump now: search engines read it, XGBoost itself loads xgboost-model",
    )
    saved = rw.export(model, tmp_path / "model.json", "xgboost-model", verify=data)
    assert saved.sha256 != present.sha256
    assert "learner" in json.loads((tmp_path / "model.json").read_text())


def test_names_that_xgboost_does_not_take_are_refused(rng, tmp_path):
    names = ["a", "b[0]", "c", "d", "e"]
    with pytest.raises(
        ModelError, match=r"'b\[0\]' cannot be written for XGBoost: no \[, \], < or"
    ):
        rw.export(awkward.forest(rng), tmp_path / "x", "xgboost-model", feature_names=names)
    assert list(tmp_path.iterdir()) == []


def test_models_without_covers_say_so_to_xgboost(rng, tmp_path):
    forest = awkward.forest(rng)
    bare = dataclasses.replace(forest, cover=np.zeros_like(forest.cover))
    (note,) = rw.export(bare, tmp_path / "x", "xgboost-model").notes
    assert "sum_hessian counts leaves, and SHAP would mislead" in note
    tree = json.loads((tmp_path / "x").read_text())
    tree = tree["learner"]["gradient_booster"]["model"]["trees"][0]
    is_leaf = np.array(tree["left_children"]) < 0
    assert tree["sum_hessian"][0] == is_leaf.sum()
    assert {tree["sum_hessian"][node] for node in np.flatnonzero(is_leaf)} == {1.0}


@pytest.mark.parametrize("format_name", EVERY)
def test_a_forest_without_trees_is_its_base(format_name, tmp_path):
    if format_name == "onnx":
        pytest.importorskip("onnx")
    empty = rw.models.forest.Forest.from_trees([], n_features=2, base=0.75)
    certificate = rw.export(empty, tmp_path / "x", format_name, verify=np.zeros((3, 2), f32))
    assert certificate.largest_difference == 0


def test_the_certificate(model, data, tmp_path):
    path = tmp_path / "model.xml"
    certificate = rw.export(model, path, "ranklib", verify=data)
    content = path.read_bytes()
    assert certificate.sha256 == hashlib.sha256(content).hexdigest()
    assert certificate.n_bytes == len(content)
    assert certificate.n_trees == 6
    assert certificate.n_splits == model.forest_.n_leaves - 6
    assert (certificate.n_documents, certificate.n_queries) == (len(data), data.n_queries)
    text = str(certificate)
    assert "a feature that is not set, or NaN, is 0" in text
    assert f"{certificate.same_order} of {data.n_queries}" in text
    without = rw.export(model, path, "ranklib")
    assert without.n_documents is None
    assert "no data given" in str(without)
    bare = rw.export(model, path, "ranklib", verify=data.features)
    assert bare.n_queries is None
    with pytest.raises(DataError, match="no documents to verify with"):
        rw.export(model, path, "ranklib", verify=np.zeros((0, 6), f32))


def test_the_same_model_gives_the_same_bytes(model, tmp_path):
    pytest.importorskip("onnx")
    for format_name in EVERY:
        digests = {rw.export(model, tmp_path / "x", format_name).sha256 for _ in range(2)}
        assert len(digests) == 1


@pytest.mark.slow
@pytest.mark.parametrize("format_name", EVERY)
def test_real_data_keep_their_order(format_name, mq2008, tmp_path):
    train, _, test = rw.read_folds(mq2008)[0]
    fitted = rw.LambdaMART(n_trees=50).fit(train)
    certificate = rw.export(fitted, tmp_path / "x", format_name, verify=test)
    assert certificate.largest_difference < 1e-5
    assert certificate.same_order == certificate.n_queries == test.n_queries


def test_ties_in_float32_are_counted_as_moved(tmp_path):
    """Two leaves that float32 cannot tell apart: the order of the pair is the data's there, and ours here."""
    tree = {"feature": [0, -1, -1], "threshold": [0.0, 0, 0], "left": [1, 0, 0], "right": [2, 0, 0]}
    tree |= {"missing": [1, 0, 0], "value": [0.0, 1.0, 1.0 + 1e-12]}
    forest = rw.models.forest.Forest.from_trees([tree], n_features=1)
    data = rw.RankingData([[-1.0], [1.0], [1.0], [-1.0]], [0, 0, 0, 0], ["a", "a", "b", "b"])
    certificate = rw.export(forest, tmp_path / "x", "ranklib", verify=data, assume_no_missing=True)
    assert (certificate.same_order, certificate.n_queries) == (1, 2)
    assert certificate.largest_difference == pytest.approx(1e-12, rel=1e-3)


@pytest.mark.parametrize("format_name", EVERY)
@pytest.mark.parametrize("change", ["threshold", "missing", "leaf", "feature"])
def test_a_file_that_says_something_else_is_noticed(format_name, change, rng):
    """The check of splits and the check of scores see a changed number, whichever it is."""
    if format_name == "onnx":
        pytest.importorskip("onnx")
    from rankwood.exports.exporting import compare_scores
    from rankwood.exports.writing import WriteOptions

    forest = awkward.forest(rng, awkward.SOLR_THRESHOLDS)
    target = FORMATS[format_name]
    names = (
        {"feature_names": tuple(f"f{n}" for n in range(5))} if format_name == "xgboost-dump" else {}
    )
    trees = target.read(target.write(forest, WriteOptions()), **names)
    check_decisions(forest, trees, target.rules, n_inexact=0)
    node = int(np.argmax(trees.feature >= 0))
    if change == "leaf":
        value = trees.value.copy()
        value[trees.feature < 0] += 1e-3
        changed = dataclasses.replace(trees, value=value)
        with pytest.raises(ModelError, match="more than rounding"):
            compare_scores(forest, forest, changed, target.rules, np.zeros((4, 5), f32))
        return
    array = getattr(trees, change).copy()
    if change == "threshold":
        array[node] = 0.5
    elif change == "feature":
        array[node] = (array[node] + 1) % 4
    elif target.rules.missing == "zero":
        return
    else:
        other = trees.left if trees.missing[node] == trees.right[node] else trees.right
        array[node] = other[node]
    changed = dataclasses.replace(trees, **{change: array})
    with pytest.raises(ModelError, match=r"decide otherwise|elsewhere than|other splits"):
        check_decisions(forest, changed, target.rules, n_inexact=0)


@pytest.mark.parametrize("format_name", sorted(READERS))
@pytest.mark.parametrize("average", [False, True])
def test_round_trips(format_name, average, rng, tmp_path):
    """Out and in again: the same decisions, and scores to the bit where the format has float64 leaves."""
    forest = awkward.forest(rng, awkward.SOLR_THRESHOLDS, zero=True, average=average)
    path, documents = tmp_path / "x", awkward.documents(rng, awkward.SOLR_THRESHOLDS)
    written_as = {"xgboost": "xgboost-dump"}.get(format_name, format_name)
    rw.export(forest, path, written_as)
    again = rw.import_model(path, format_name, n_features=5)
    if format_name in ("json", "lightgbm"):
        assert np.array_equal(again.predict(documents), forest.predict(documents))
    else:
        np.testing.assert_allclose(again.predict(documents), forest.predict(documents), atol=6e-6)
    assert np.array_equal(again.leaf_ids(documents).size, forest.leaf_ids(documents).size)
    rw.export(again, tmp_path / "y", written_as)  # what float32 made of it stays as it is
    once_more = rw.import_model(tmp_path / "y", format_name, n_features=5)
    if not average or format_name in ("json", "lightgbm", "ranklib"):
        assert once_more == again


def test_json_keeps_the_whole_forest(rng, tmp_path):
    forest = reference.random_forest(rng, third=0.3, feature_names=NAMES_HOSTILE[:4])
    rw.export(forest, tmp_path / "x", "json")
    assert rw.import_model(tmp_path / "x", "json") == forest


def test_imported_models_are_models(model, data, tmp_path):
    rw.export(model, tmp_path / "m.txt", "lightgbm")
    forest = rw.import_model(tmp_path / "m.txt", "lightgbm")
    assert np.array_equal(forest.predict(data), model.predict(data))
    mine, theirs = rw.evaluate(model, data, "ndcg@10"), rw.evaluate(forest, data, "ndcg@10")
    assert mine["ndcg@10"].value == theirs["ndcg@10"].value
    rw.save(forest, tmp_path / "m.rankwood")
    assert rw.load(tmp_path / "m.rankwood") == forest


def test_features_that_a_file_does_not_tell_of(rng, tmp_path):
    rw.export(awkward.forest(rng, zero=True), tmp_path / "x", "ranklib")
    assert rw.import_model(tmp_path / "x", "ranklib").n_features <= 4
    assert rw.import_model(tmp_path / "x", "ranklib", n_features=9).n_features == 9
    assert rw.import_model(tmp_path / "x", "ranklib", feature_names=list("abcdef")).n_features == 6
    with pytest.raises(ModelError, match=r"test feature number .* but n_features says 1"):
        rw.import_model(tmp_path / "x", "ranklib", n_features=1)
    assert rw.import_model(tmp_path / "x", "ranklib", base=2.5).base == 2.5


def test_without_the_extra_onnx_names_it(rng, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"rankwood\[onnx\]"):
        rw.export(awkward.forest(rng), tmp_path / "x", "onnx")


def test_the_c_header_stands_beside_the_c_file(model, tmp_path):
    for name, header in (("m.c", "m.h"), ("m.cpp", "m.h"), ("m.v2", "m.v2.h"), ("m", "m.h")):
        certificate = rw.export(model, tmp_path / name, "c", function_name="shop")
        assert certificate.notes == (f"{header} declares shop and shop_batch for C and C++",)
        text = (tmp_path / header).read_text()
        assert "#define SHOP_N_FEATURES 6\n" in text
        assert "   features[0]: bm25_body\n" in text
        for line in ("double shop(const float *features);", '#include "', "rankwood_"):
            assert (line in text) == line.startswith("double")
        (tmp_path / header).unlink()
    with pytest.raises(ParameterError, match=r"m\.h is the name of a header. Name the C file"):
        rw.export(model, tmp_path / "m.h", "c")
    rw.export(model, os.devnull, "c")
    assert not os.path.exists(f"{os.devnull}.h")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("two words", r"must be a name in C: .*, got 'two words'"),
        ("1st", "must be a name in C"),
        ("_score", "must be a name in C"),
        ("a__b", "must be a name in C"),
        ("größe", "must be a name in C"),
        ("score\n", "must be a name in C"),
        ("", "must be a name in C"),
        (3, "must be a name in C: .*, got '3'"),
        ("double", "'double' has a meaning of its own in C or C\\+\\+"),
        ("class", "has a meaning of its own"),
        ("size_t", "has a meaning of its own"),
        ("main", "has a meaning of its own"),
        ("s" * 61, "must have at most 60 characters, got 61"),
    ],
)
def test_function_names_that_c_does_not_take(model, tmp_path, name, reason):
    with pytest.raises(ParameterError, match=f"function_name {reason}|{reason}"):
        rw.export(model, tmp_path / "m.c", "c", function_name=name)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_leaves_the_old_file(model, tmp_path):
    path = tmp_path / "model.c"
    path.write_text("old")
    with pytest.raises(ModelError, match="feature_names must be 6 different"):
        rw.export(model, path, "c", feature_names=["one"])
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["model.c"]
    with pytest.raises(DataError, match="cannot be written"):
        rw.export(model, tmp_path / "no" / "folder", "c")


floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(floats32, st.floats(allow_nan=False))
def test_moved_thresholds_decide_alike(threshold, value):
    t = np.array([threshold], f32) + f32(0)
    with np.errstate(over="ignore"):
        rounded = f32(value)
    left = rounded <= t[0]
    assert (value <= rules.greatest_rounded_to(t)[0]) == left  # any float64 value
    assert (rounded < rules.above(t)[0]) == left
    assert rules.at_most(rules.greatest_rounded_to(t))[0] == t[0]
    assert rules.below(rules.above(t).astype(np.float64))[0] == t[0]


@given(floats32)
def test_what_is_written_for_solr_is_what_solr_sees(threshold):
    t = np.array([threshold], f32)
    written, is_exact = rules.before_slack(t)
    assert is_exact[0] == (f32(f32(rules.short(float(written[0]))) + f32(1e-6)) == t[0])
