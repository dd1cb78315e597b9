"""``rankwood export`` and ``rankwood import``, called in process."""

from __future__ import annotations

import hashlib
import json

import pytest

import rankwood as rw


@pytest.fixture
def files(tmp_path):
    data = rw.make_ranking(n_queries=12, docs_per_query=10, n_features=5, seed=2)
    rw.write_letor(data, tmp_path / "test.txt.gz")
    rw.save(rw.GBRT(n_trees=4, max_leaves=6).fit(data), tmp_path / "m.rankwood")
    rw.save(rw.AdaRank(n_rounds=2).fit(data), tmp_path / "linear.rankwood")
    return tmp_path


FORMATS = [
    "ranklib",
    "xgboost-dump",
    "xgboost-model",
    "solr",
    "lightgbm",
    "lightgbm-json",
    "onnx",
    "json",
    "c",
]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_prints_its_certificate(rankwood, files, name):
    if name == "onnx":
        pytest.importorskip("onnx")
    outcome = rankwood("export", "m.rankwood", "--to", name, "out", "--verify", "test.txt.gz", "-q")
    assert outcome.code == 0, outcome.err
    digest = hashlib.sha256((files / "out").read_bytes()).hexdigest()
    for text in (digest, "largest score difference", "of 12 (100.00%)", "rule", f"({name}, "):
        assert text in outcome.out


def test_json_for_scripts(rankwood, files):
    call = ["export", "m.rankwood", "--to", "c", "out.c", "--verify", "test.txt.gz", "-q", "--json"]
    found = json.loads(rankwood(*call).out)
    assert found["largest_difference"] == 0
    assert (found["same_order"], found["n_queries"]) == (12, 12)


def test_the_former_name_of_xgboosts_dump_works_and_is_told(rankwood, files):
    outcome = rankwood("export", "m.rankwood", "--to", "xgboost-json", "x.json")
    assert outcome.code == 0
    assert "xgboost-json is called xgboost-dump now" in outcome.out
    assert "splits" in json.loads((files / "x.json").read_text())


def test_a_c_function_of_ones_own_name(rankwood, files):
    call = ["export", "m.rankwood", "--to", "c", "shop.c", "--verify", "test.txt.gz", "-q"]
    outcome = rankwood(*call, "--function-name", "shop")
    assert outcome.code == 0, outcome.err
    assert "shop.h declares shop and shop_batch for C and C++" in outcome.out
    assert "double shop(const float *features)" in (files / "shop.c").read_text()
    assert "void shop_batch(" in (files / "shop.h").read_text()
    outcome = rankwood(*call, "--function-name", "my shop")
    assert (outcome.code, outcome.out) == (2, "")
    assert "function_name must be a name in C" in outcome.err


def test_a_header_is_not_written_over_what_is_read(rankwood, files):
    (files / "m.rankwood").rename(files / "m.h")
    outcome = rankwood("export", "m.h", "--to", "c", "m.c")
    assert outcome.code == 2
    assert "OUT is m.h, which is read" in outcome.err
    assert rw.load(files / "m.h").forest_.n_trees == 4


def test_names_come_from_a_file(rankwood, files):
    (files / "names.txt").write_text("title\nbody\nage\nclicks\nprice\n")
    call = ["export", "m.rankwood", "--to", "solr", "out.json", "--feature-names", "names.txt"]
    assert rankwood(*call, "--model-name", "shop").code == 0
    model = json.loads((files / "out.json").read_text())
    assert model["name"] == "shop"
    assert [f["name"] for f in model["features"]] == ["title", "body", "age", "clicks", "price"]
    assert "cannot be read: No such file" in rankwood(*call[:-1], "none.txt").err


def test_what_cannot_be_exported_is_a_message_and_exit_2(rankwood, files):
    outcome = rankwood("export", "linear.rankwood", "--to", "ranklib", "out")
    assert (outcome.code, outcome.out) == (2, "")
    assert "error: AdaRank cannot be exported: a linear model is no sum of trees." in outcome.err
    assert rankwood("export", "m.rankwood", "--to", "excel", "out").code == 2
    assert (
        "OUT is m.rankwood, which is read"
        in rankwood("export", "m.rankwood", "--to", "c", "m.rankwood").err
    )
    assert rankwood("export", "none.rankwood", "--to", "c", "out").code == 2
    assert not (files / "out").exists()


def test_import_and_all_that_models_can_do(rankwood, files):
    assert rankwood("export", "m.rankwood", "--to", "lightgbm", "m.txt").code == 0
    outcome = rankwood("import", "m.txt", "--from", "lightgbm", "again.rankwood")
    assert outcome.code == 0, outcome.err
    assert (
        "4 summed" in outcome.out or "5 summed" in outcome.out
    )  # the base may be a tree of its own
    mine, theirs = (
        rankwood("evaluate", name, "test.txt.gz", "-m", "ndcg@10", "-q").out
        for name in ("m.rankwood", "again.rankwood")
    )
    assert mine.splitlines()[1:2] == theirs.splitlines()[1:2]
    assert "imported_from" in rankwood("inspect", "again.rankwood").out
    assert rankwood("score", "again.rankwood", "test.txt.gz", "-o", "s.tsv", "-q").code == 0
    assert rankwood("cost-curve", "again.rankwood", "test.txt.gz", "-q").code == 0
    assert rankwood("export", "again.rankwood", "--to", "xgboost-dump", "x.json").code == 0
    call = ["import", "x.json", "--from", "xgboost", "x.rankwood"]
    assert "pass all feature_names in the order" in rankwood(*call, "--n-features", 5).err
    names = rw.load(files / "again.rankwood").feature_names
    (files / "names.txt").write_text("\n".join(names))
    assert rankwood(*call, "--feature-names", "names.txt", "--base", "0.5").code == 0
    assert rw.load(files / "x.rankwood").feature_names == names
    assert rankwood("import", "m.txt", "--from", "ranklib", "y.rankwood").code == 2
    assert not (files / "y.rankwood").exists()


def test_ranklib_does_not_say_how_many_features_the_data_have(rankwood, files):
    tree = {"feature": [1, -1, -1], "threshold": [0.0, 0, 0], "left": [1, 0, 0], "right": [2, 0, 0]}
    tree |= {"missing": [1, 0, 0], "value": [0.0, 1.0, 2.0]}
    forest = rw.models.forest.Forest.from_trees([tree], n_features=5)
    rw.export(forest, files / "m.txt", "ranklib", assume_no_missing=True)
    call = ["import", "m.txt", "--from", "ranklib", "two.rankwood"]
    outcome = rankwood(*call)
    assert (
        "2, the highest that a tree tests; --n-features says how many the data have" in outcome.out
    )
    outcome = rankwood("evaluate", "two.rankwood", "test.txt.gz", "-q")
    assert outcome.code == 2
    assert "If the model was imported, import it again with --n-features 5." in outcome.err
    outcome = rankwood(*call, "--n-features", 5)
    assert "highest" not in outcome.out
    assert rankwood("evaluate", "two.rankwood", "test.txt.gz", "-q").code == 0
    rw.save(rw.GBRT(n_trees=1).fit(forest_data()), files / "narrow.rankwood")
    outcome = rankwood("evaluate", "narrow.rankwood", "test.txt.gz", "-q")
    assert outcome.code == 2
    assert "--n-features" not in outcome.err


def forest_data():
    """Data of two features without names."""
    data = rw.make_ranking(n_queries=4, docs_per_query=5, n_features=2)
    return rw.RankingData(data.features, data.labels, data.query_ids)


def test_the_best_iteration_of_xgboost(rankwood, files):
    xgboost = pytest.importorskip("xgboost")
    data = rw.read_letor(files / "test.txt.gz")
    rows = xgboost.DMatrix(data.features, data.labels, qid=data.query_of_row)
    booster = xgboost.train({"objective": "rank:ndcg", "max_depth": 2, "nthread": 1}, rows, 5)
    booster.set_attr(best_iteration="1")
    booster.save_model(files / "m.ubj")
    for options, n_trees in (([], 2), (["--all-trees"], 5)):
        outcome = rankwood("import", "m.ubj", "--from", "xgboost", "x.rankwood", *options)
        assert outcome.code == 0, outcome.err
        assert f"{n_trees} summed" in outcome.out


def test_the_dump_of_lightgbm(rankwood, files):
    lightgbm = pytest.importorskip("lightgbm")
    data = rw.read_letor(files / "test.txt.gz")
    settings = {"objective": "regression", "min_data_in_leaf": 5, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(data.features, data.labels), 3)
    (files / "dump.json").write_text(json.dumps(booster.dump_model()))
    assert rankwood("import", "dump.json", "--from", "lightgbm", "l.rankwood").code == 0
    found = rw.load(files / "l.rankwood").predict(data.features)
    assert found.tolist() == booster.predict(data.features).tolist()


def test_ranklib_from_a_model_whose_past_is_unknown_needs_a_word(rankwood, files):
    rankwood("export", "m.rankwood", "--to", "lightgbm", "m.txt")
    rankwood("import", "m.txt", "--from", "lightgbm", "again.rankwood")
    outcome = rankwood("export", "again.rankwood", "--to", "ranklib", "m.xml")
    assert outcome.code == 2
    assert "It is not known whether the training data had any" in outcome.err
    outcome = rankwood(
        "export", "again.rankwood", "--to", "ranklib", "m.xml", "--assume-no-missing"
    )
    assert outcome.code == 0
    assert "assumed on request" in outcome.out
