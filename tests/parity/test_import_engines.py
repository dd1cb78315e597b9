"""Models that LightGBM and XGBoost have trained, read here: the same leaves, the same scores, also after going out again."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import rankwood as rw
from tests.reference import engines

pytestmark = pytest.mark.jit_only  # no kernels of its own

N_FEATURES = 6


@pytest.fixture(scope="module")
def data():
    """Small whole numbers, zeros, missing values; labels that depend on whether a value is missing."""
    rng = np.random.default_rng(5)
    features = rng.integers(-3, 4, (900, N_FEATURES)).astype(np.float32) / 4
    features[rng.random(features.shape) < 0.15] = np.nan
    labels = (
        np.nan_to_num(features[:, 0], nan=2.0) + np.isnan(features[:, 1]) + rng.normal(size=900) / 4
    )
    labels = np.clip(np.round(labels), 0, 4)
    return features, labels, np.repeat(np.arange(30), 30)


@pytest.fixture(scope="module")
def probes(data):
    """Rows that meet thresholds exactly, and the awkward ones."""
    rng = np.random.default_rng(6)
    values = np.array(
        [np.nan, 0.0, -0.0, np.inf, -np.inf, 0.125, -0.125, 1e30, -1e30, 0.25, -0.75], np.float32
    )
    return np.concatenate([data[0], rng.choice(values, (300, N_FEATURES))])


def lightgbm_model(data, **parameters):
    lightgbm = pytest.importorskip("lightgbm")
    features, labels, queries = data
    settings = {
        "num_leaves": 9,
        "min_data_in_leaf": 5,
        "verbose": -1,
        "num_threads": 1,
        "deterministic": True,
    }
    groups = np.bincount(queries) if parameters.get("objective") == "lambdarank" else None
    train = lightgbm.Dataset(features, labels, group=groups)
    return lightgbm.train({**settings, **parameters}, train, num_boost_round=8)


@pytest.mark.parametrize(
    "parameters",
    [
        {"objective": "lambdarank"},
        {"objective": "regression"},
        {"objective": "regression", "use_missing": False},
        {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
        {"objective": "regression", "boosting": "dart"},
    ],
    ids=["lambdarank", "regression", "no-missing", "forest", "dart"],
)
def test_lightgbm(data, probes, tmp_path, parameters):
    booster = lightgbm_model(data, **parameters)
    path, probes = tmp_path / "model.txt", finite(probes)
    booster.save_model(path)
    forest = rw.import_model(path, "lightgbm")
    assert forest.n_features == N_FEATURES
    assert forest.n_trees == booster.num_trees()
    expected = booster.predict(probes)
    assert np.array_equal(forest.predict(probes), expected)
    rw.export(forest, tmp_path / "again.txt", "lightgbm", verify=probes)
    import lightgbm

    assert np.array_equal(
        lightgbm.Booster(model_file=tmp_path / "again.txt").predict(probes), expected
    )
    assert rw.import_model(tmp_path / "again.txt", "lightgbm") == forest


def test_lightgbm_names_come_along(data, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    names = [f"bm25_{field}" for field in range(N_FEATURES)]
    train = lightgbm.Dataset(data[0], data[1], feature_name=names)
    lightgbm.train({"verbose": -1}, train, 2).save_model(tmp_path / "model.txt")
    assert rw.import_model(tmp_path / "model.txt", "lightgbm").feature_names == tuple(names)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"objective": "binary"}, "objective 'binary.*' changes the scores"),
        ({"objective": "poisson"}, "objective 'poisson.*' changes the scores"),
        ({"objective": "multiclass", "num_class": 5}, "num_class is not 1"),
        ({"objective": "regression", "linear_tree": True}, "leaves are linear models"),
        ({"objective": "regression", "zero_as_missing": True}, "zero_as_missing"),
    ],
    ids=["binary", "poisson", "classes", "linear", "zero"],
)
def test_lightgbm_models_that_are_no_plain_trees_are_refused(data, tmp_path, parameters, reason):
    features, labels, queries = data
    if parameters["objective"] == "binary":
        labels = (labels > 1).astype(float)
    lightgbm_model((features, labels, queries), **parameters).save_model(tmp_path / "model.txt")
    with pytest.raises(rw.errors.ModelError, match=reason):
        rw.import_model(tmp_path / "model.txt", "lightgbm")
    dump = lightgbm_model((features, labels, queries), **parameters).dump_model()
    with pytest.raises(rw.errors.ModelError, match=reason):
        rw.import_model(dump)


def xgboost_model(data, **parameters):
    xgboost = pytest.importorskip("xgboost")
    features, labels, queries = data
    train = xgboost.DMatrix(features, labels, qid=queries)
    settings = {"max_leaves": 9, "max_depth": 4, "nthread": 1, "objective": "rank:ndcg"}
    return xgboost.train({**settings, **parameters}, train, 8)


def margins(booster, features):
    import xgboost

    return booster.predict(xgboost.DMatrix(features), output_margin=True).astype(np.float64)


def finite(features):
    """Without infinities, which XGBoost refuses and LightGBM parts from missing values by infinite thresholds."""
    return np.nan_to_num(features, nan=np.nan, posinf=3e38, neginf=-3e38)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"objective": "reg:squarederror", "base_score": 1.25},
        {"booster": "dart", "rate_drop": 0.3, "seed": 1},
        {"objective": "rank:pairwise", "num_parallel_tree": 2, "subsample": 0.7},
    ],
    ids=["ndcg", "squared", "dart", "parallel"],
)
def test_xgboost_saved_models(data, probes, tmp_path, parameters):
    booster, probes = xgboost_model(data, **parameters), finite(probes)
    booster.save_model(tmp_path / "model.json")
    forest = rw.import_model(tmp_path / "model.json", "xgboost")
    assert forest.n_features == N_FEATURES
    np.testing.assert_allclose(forest.predict(probes), margins(booster, probes), rtol=0, atol=2e-6)
    import xgboost

    leaves = booster.predict(xgboost.DMatrix(probes), pred_leaf=True)
    of_row = forest.leaf_ids(probes)
    for tree in range(forest.n_trees):  # the same rows share a leaf, in every tree
        pairs = set(zip(leaves[:, tree].tolist(), of_row[:, tree].tolist(), strict=True))
        assert len(pairs) == len(set(leaves[:, tree])) == len(set(of_row[:, tree]))


@pytest.mark.parametrize("parameters", [{}, {"booster": "dart", "rate_drop": 0.3}])
def test_xgboosts_binary_form_has_the_same_model(data, tmp_path, parameters):
    booster = xgboost_model(data, **parameters)
    booster.feature_names = ["title", "é", "c", "d", "e", "f"]
    forests = []
    for ending in ("json", "ubj"):
        path = tmp_path / f"model.{ending}"
        booster.save_model(path)
        forests.append(rw.import_model(path, "xgboost"))
    assert forests[0].feature_names == forests[1].feature_names == tuple(booster.feature_names)
    one, two = (  # numbers beside the scores have other digits in text
        dataclasses.replace(f, gain=in_float32(f.gain), cover=in_float32(f.cover)) for f in forests
    )
    assert one == two


def in_float32(numbers):
    return numbers.astype(np.float32).astype(np.float64)


def early_stopped(data, **parameters):
    """A ranker whose best iteration is not its last."""
    xgboost = pytest.importorskip("xgboost")
    features, labels, queries = data
    ranker = xgboost.XGBRanker(
        n_estimators=12,
        max_depth=3,
        n_jobs=1,
        early_stopping_rounds=4,
        learning_rate=1.0,
        **parameters,
    )
    other = np.random.default_rng(1).permutation(labels)
    ranker.fit(
        features,
        labels,
        qid=queries,
        eval_set=[(features, other)],
        eval_qid=[queries],
        verbose=False,
    )
    assert ranker.best_iteration < ranker.get_booster().num_boosted_rounds() - 1
    return ranker


@pytest.mark.parametrize(
    "parameters", [{}, {"num_parallel_tree": 2, "subsample": 0.6}, {"booster": "dart"}]
)
def test_the_best_iteration_of_xgboost_is_respected(data, probes, tmp_path, parameters):
    ranker, probes = early_stopped(data, **parameters), finite(probes)
    sources = [ranker, ranker.get_booster()]
    for ending in ("json", "ubj"):
        sources.append(tmp_path / f"model.{ending}")
        ranker.save_model(sources[-1])
    per_round = parameters.get("num_parallel_tree", 1)
    whole = ranker.get_booster()
    for source in sources:
        chosen = None if hasattr(source, "predict") else "xgboost"
        forest = rw.import_model(source, chosen)
        assert forest.n_trees == (ranker.best_iteration + 1) * per_round
        np.testing.assert_allclose(forest.predict(probes), ranker.predict(probes), atol=2e-6)
        forest = rw.import_model(source, chosen, all_trees=True)
        assert forest.n_trees == whole.num_boosted_rounds() * per_round
        np.testing.assert_allclose(forest.predict(probes), margins(whole, probes), atol=2e-6)


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:logistic"])
@pytest.mark.parametrize("given", [{}, {"base_score": 0.2}])
def test_log_odds_of_xgboost_are_margins(data, probes, tmp_path, objective, given):
    xgboost = pytest.importorskip("xgboost")
    features, labels, _ = data
    train = xgboost.DMatrix(features, (labels > 1).astype(float))
    settings = {"max_depth": 3, "nthread": 1, "objective": objective, **given}
    booster = xgboost.train(settings, train, 6)
    booster.save_model(tmp_path / "model.ubj")
    forest, probes = rw.import_model(tmp_path / "model.ubj", "xgboost"), finite(probes)
    np.testing.assert_allclose(forest.predict(probes), margins(booster, probes), rtol=0, atol=2e-6)
    assert forest.base != 0


def test_models_of_lightgbm_as_objects_and_dumps(data, probes, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    features, labels, queries = data
    settings = {"n_estimators": 8, "num_leaves": 7, "verbose": -1, "n_jobs": 1}
    ranker = lightgbm.LGBMRanker(**settings).fit(features, labels, group=np.bincount(queries))
    booster, probes = ranker.booster_, finite(probes)
    booster.save_model(tmp_path / "model.txt")
    expected = rw.import_model(tmp_path / "model.txt", "lightgbm")
    for source in (ranker, booster):
        assert rw.import_model(source) == rw.import_model(source, "lightgbm") == expected
    (tmp_path / "dump.json").write_text(json.dumps(booster.dump_model()))
    dumped = rw.import_model(tmp_path / "dump.json", "lightgbm")
    assert dumped == rw.import_model(booster.dump_model())
    # A dump has fewer digits of what inner nodes would say.
    assert dataclasses.replace(dumped, value=expected.value, gain=expected.gain) == expected
    assert np.array_equal(dumped.predict(probes), ranker.predict(probes))


@pytest.mark.parametrize(
    "parameters",
    [
        {"objective": "regression", "use_missing": False},
        {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
        {"objective": "regression", "min_data_in_leaf": 800},
    ],
    ids=["no-missing", "forest", "one leaf"],
)
def test_dumps_of_lightgbm(data, probes, parameters):
    booster, probes = lightgbm_model(data, **parameters), finite(probes)
    forest = rw.import_model(booster.dump_model())
    np.testing.assert_allclose(forest.predict(probes), booster.predict(probes), rtol=1e-12)


def test_the_best_iteration_of_lightgbm_is_respected(data):
    lightgbm = pytest.importorskip("lightgbm")
    booster = lightgbm_model(data, objective="regression")
    booster.best_iteration = 3
    assert rw.import_model(booster).n_trees == 3
    assert rw.import_model(booster, all_trees=True).n_trees == 8
    assert np.array_equal(rw.import_model(booster).predict(data[0]), booster.predict(data[0]))
    assert lightgbm.Booster(model_str=booster.model_to_string()).num_trees() == 3


@pytest.mark.parametrize(
    ("library", "kind"), [("lightgbm", "LGBMRanker"), ("xgboost", "XGBRanker")]
)
def test_objects_that_cannot_be_imported(library, kind):
    module = pytest.importorskip(library)
    with pytest.raises(rw.errors.ModelError, match=f"this {kind} is not fitted yet"):
        rw.import_model(getattr(module, kind)())
    with pytest.raises(rw.errors.ParameterError, match=r"path of a file, or a model of .* got int"):
        rw.import_model(3)
    with pytest.raises(rw.errors.ParameterError, match="format must be given for a file: lightgbm"):
        rw.import_model("model.txt")
    with pytest.raises(
        rw.errors.ModelError, match="this dict is no usable lightgbm model: feature_names"
    ):
        rw.import_model({})
    with pytest.raises(rw.errors.ModelError, match="this dict is not what dump_model returns"):
        rw.import_model({"tree_info": {1, 2}})


def test_an_object_of_another_library_than_the_format(data):
    with pytest.raises(
        rw.errors.ParameterError,
        match="this Booster is a model of xgboost, but format is 'lightgbm'",
    ):
        rw.import_model(xgboost_model(data), "lightgbm")


def test_xgboost_dumps_go_out_again_with_the_same_meaning(data, probes, tmp_path):
    base = 0.5  # a dump does not tell it
    booster, probes = xgboost_model(data, base_score=base), finite(probes)
    dump = [json.loads(tree) for tree in booster.get_dump(dump_format="json", with_stats=True)]
    (tmp_path / "dump.json").write_text(json.dumps(dump))
    forest = rw.import_model(tmp_path / "dump.json", "xgboost", n_features=N_FEATURES, base=base)
    np.testing.assert_allclose(forest.predict(probes), margins(booster, probes), rtol=0, atol=2e-6)
    assert forest.cover.max() > 0
    assert forest.gain.max() > 0

    again = tmp_path / "again.json"
    plain = rw.import_model(tmp_path / "dump.json", "xgboost", n_features=N_FEATURES)
    rw.export(plain, again, "xgboost-dump", objective="none")
    written = json.loads(again.read_text())
    assert [meaning(tree) for tree in written] == [meaning(tree) for tree in dump]
    assert rw.import_model(again, "xgboost", n_features=N_FEATURES).predict(
        probes
    ) == pytest.approx(plain.predict(probes), abs=0)
    names = [f"f{number}" for number in range(N_FEATURES)]
    rw.export(plain, again, "xgboost-dump")
    plugin = engines.SearchPluginXGBoost(again.read_bytes(), names, knows_missing=True)
    found = [plugin.score(document) + base for document in probes[:200]]
    np.testing.assert_allclose(found, margins(booster, probes[:200]), rtol=0, atol=2e-6)


def meaning(node):
    """A tree without what does not decide a score: numbers in float32, children in the order yes, no."""
    if "leaf" in node:
        return np.float32(node["leaf"])
    child = {child["nodeid"]: child for child in node["children"]}
    return (
        node["split"],
        np.float32(node["split_condition"]),
        node["missing"] == node["yes"],
        meaning(child[node["yes"]]),
        meaning(child[node["no"]]),
    )


def test_xgboost_dumps_with_names_need_their_order(data, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    names = ["title", "body", "clicks", "age", 'quo"te', "é"]
    train = xgboost.DMatrix(data[0], data[1], qid=data[2], feature_names=names)
    booster = xgboost.train({"max_depth": 3, "objective": "rank:ndcg"}, train, 4)
    dump = "[" + ",".join(booster.get_dump(dump_format="json")) + "]"
    path = tmp_path / "dump.json"
    if '\\\\"' in dump or 'quo"te' in dump:  # XGBoost writes names as they are, which is no JSON
        dump = dump.replace('quo"te', 'quo\\\\"te')
    path.write_text(dump)
    with pytest.raises(rw.errors.ModelError, match="does not tell the order of the features"):
        rw.import_model(path, "xgboost")
    with pytest.raises(rw.errors.ModelError, match="is not among the feature names given"):
        rw.import_model(path, "xgboost", feature_names=["a", "b"])


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"objective": "binary:hinge"}, "objective 'binary:hinge' changes the scores"),
        ({"objective": "multi:softmax", "num_class": 5}, "objective 'multi:softmax' changes"),
        ({"booster": "gblinear", "objective": "reg:squarederror"}, "its booster is 'gblinear'"),
    ],
    ids=["hinge", "classes", "linear"],
)
def test_xgboost_models_that_are_no_plain_trees_are_refused(data, tmp_path, parameters, reason):
    xgboost = pytest.importorskip("xgboost")
    labels = (data[1] > 1).astype(float) if "hinge" in parameters["objective"] else data[1]
    train = xgboost.DMatrix(data[0], labels)
    xgboost.train({"nthread": 1, **parameters}, train, 2).save_model(tmp_path / "model.json")
    with pytest.raises(rw.errors.ModelError, match=reason):
        rw.import_model(tmp_path / "model.json", "xgboost")
