"""Convergence: staged scores against fits of fewer rounds, recorded histories and out-of-bag figures."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import parse_measure
from rankwood.studies.convergence import Curve, _means, convergence
from rankwood.studies.fits import fitted

pytestmark = pytest.mark.jit_only  # no kernels of its own

NDCG = parse_measure("ndcg@10")


@pytest.fixture(scope="module")
def parts():
    data = rw.make_ranking(n_queries=60, docs_per_query=8, n_features=6, seed=1)
    train, vali, test = rw.split_queries(data, (0.5, 0.25, 0.25), seed=1)
    return {"train": train, "valid": vali, "test": test}


BOOSTED = {
    "GBRT": rw.GBRT(6, min_leaf=5),
    "LambdaMART": rw.LambdaMART(6, min_leaf=5),
    "RankBoost": rw.RankBoost(6),
    "NDCGBoost": rw.NDCGBoost(6),
    "RandomForest": rw.RandomForest(6, max_leaves=6),
    "AveragedGBRT": rw.AveragedGBRT(6, n_runs=3, min_leaf=5),
    "BROOF": rw.BROOF(n_rounds=4, n_trees=3, max_leaves=6),
    "BROOF absolute": rw.BROOF("absolute", n_rounds=4, n_trees=5, max_leaves=6),
    "DeepForest": rw.DeepForest(n_trees=3, max_layers=2),
}


@pytest.mark.parametrize("name", BOOSTED)
def test_the_curve_on_validation_data_is_what_the_fit_recorded(parts, name):
    model = BOOSTED[name].fit(parts["train"], valid=parts["valid"])
    curve = convergence(model, parts)[type(model).__name__, "valid"]
    history = [
        record["valid"] if isinstance(record, dict) else record for record in model.history_
    ][: curve.at.size]
    np.testing.assert_allclose(curve.values, history, rtol=1e-12)
    assert curve.at.tolist() == list(range(1, len(history) + 1))
    units = {
        "AveragedGBRT": "round",
        "BROOF": "round",
        "BROOF absolute": "round",
        "DeepForest": "layer",
    }
    assert curve.unit == units.get(name, "tree")


def test_out_of_bag_of_a_forest(parts):
    train = parts["train"]
    model = rw.RandomForest(12, max_leaves=6, seed=3).fit(train)
    curve = convergence(model, {"train": train})["RandomForest", "oob"]
    assert curve.values[-1] == pytest.approx(model.oob_ndcg_)
    fewer = rw.RandomForest(5, max_leaves=6, seed=3).fit(train)
    assert curve.values[4] == pytest.approx(fewer.oob_ndcg_)
    assert (
        convergence(model, {"train": train}, every=5)["RandomForest", "oob"].values[0]
        == curve.values[4]
    )


def test_out_of_bag_of_whole_queries_and_weights(parts):
    train = parts["train"]
    weighted = rw.RankingData(
        train.features,
        train.labels,
        train.query_ids,
        row_weights=np.arange(train.n_documents, dtype=np.float64),
    )
    model = rw.RandomForest(8, max_leaves=6, bag="query", weighting="resample").fit(weighted)
    curve = convergence(model, {"train": weighted})["RandomForest", "oob"]
    assert curve.values[-1] == pytest.approx(model.oob_ndcg_)


def test_out_of_bag_of_a_broof_is_its_record(parts, tmp_path):
    model = rw.BROOF(n_rounds=3, n_trees=5, max_leaves=6, stop=None).fit(parts["train"])
    rw.save(model, tmp_path / "m.rankwood")
    loaded = rw.load(tmp_path / "m.rankwood")
    curve = convergence(loaded, parts)["BROOF", "oob"]
    assert curve.values.tolist() == [record["oob"] for record in model.history_]
    other = convergence(loaded, parts, "map")
    assert "oob" not in [each.part for each in other.curves]  # it recorded another measure


def test_no_out_of_bag_without_bags_or_with_other_data(parts):
    def parts_of(model, data):
        return [curve.part for curve in convergence(model, data).curves]

    assert parts_of(rw.ExtraTrees(3).fit(parts["train"]), parts) == ["train", "valid", "test"]
    forest = rw.RandomForest(3).fit(parts["valid"])
    assert parts_of(forest, parts) == ["train", "valid", "test"]
    assert parts_of(forest, {"train": parts["valid"]}) == ["train", "oob"]


def test_an_adarank_has_curves_of_any_measure_on_any_part(parts, tmp_path):
    model = rw.AdaRank(8, measure="ndcg@10", max_repeats=2).fit(
        parts["train"], valid=parts["valid"]
    )
    found = convergence(model, parts)
    curve = found["AdaRank", "test"]
    assert curve.unit == "round"
    assert curve.at.tolist() == list(range(1, len(model.history_) + 1))
    assert found["AdaRank", "valid"].values.tolist() == model.history_
    np.testing.assert_allclose(found["AdaRank", "train"].values, model.train_history_, rtol=1e-12)
    best = model.best_iteration_
    assert curve.values[best - 1] == mean_value(NDCG, model.predict(parts["test"]), parts["test"])
    for n_rounds in (1, 2):  # the first rounds are those of a shorter fit
        shorter = rw.AdaRank(n_rounds, measure="ndcg@10", max_repeats=2).fit(parts["train"])
        assert model.after(n_rounds) == shorter.after(n_rounds)
    assert model.after(best) == model.linear_
    by_map = convergence(model, parts, "map", every=2)["AdaRank", "test"]
    assert by_map.at[0] == 2
    rw.save(model, tmp_path / "m.rankwood")
    loaded = convergence(rw.load(tmp_path / "m.rankwood"), parts)
    assert loaded["AdaRank", "test"].values.tolist() == curve.values.tolist()


def test_what_only_its_fit_knows(parts):
    model = rw.AdaRank(5, measure="ndcg@10").fit(parts["train"], valid=parts["valid"])
    del model.rounds_  # as a model file of the first version has it
    found = convergence(model, parts)
    assert found["AdaRank", "valid"].values.tolist() == model.history_
    assert found["AdaRank", "train"].values.tolist() == model.train_history_
    assert "as its fit has recorded it" in str(found)
    with pytest.raises(ModelError, match="AdaRank has no trees or layers to stop at"):
        convergence(model, parts, "map")


@pytest.fixture(scope="module")
def folds():
    return rw.make_folds(rw.make_ranking(n_queries=30, docs_per_query=8, n_features=6, seed=3), 3)


def test_curves_of_folds_are_means_of_fits_in_each(folds):
    told = []
    every = {"min_leaf": 5, "early_stopping": None}
    rankers = {"boosted": rw.GBRT(6, **every), "AdaRank": rw.AdaRank(4, measure="ndcg@10")}
    found = convergence(rankers, folds, progress=told.append)
    curve = found["boosted", "test"]
    for number in range(3):
        train, vali, test = folds[number]
        model = fitted(rankers["boosted"], train, vali, number, 1)
        own = convergence(model, {"test": test})["GBRT", "test"]
        assert curve.by_fold[number].tolist() == own.values.tolist()
    np.testing.assert_allclose(curve.values, curve.by_fold.mean(axis=0))
    np.testing.assert_allclose(curve.deviations, curve.by_fold.std(axis=0, ddof=1))
    assert [c.part for c in found.curves if c.name == "boosted"] == ["train", "valid", "test"]
    assert (told[-1].iteration, told[-1].total) == (6, 6)
    assert "means over 3 folds" in str(found)
    assert set(found.rows()[0]) == {"model", "part", "unit", "at", "value", "deviation"}
    assert len(found.to_dict()["curves"][0]["by_fold"]) == 3
    forest = convergence(rw.RandomForest(4, max_leaves=5), folds, every=3)
    assert [c.part for c in forest.curves] == ["train", "oob", "valid", "test"]
    assert forest["RandomForest", "oob"].at.tolist() == [3, 4]


def test_a_fold_that_has_stopped_keeps_its_last_value():
    def curve(at, values):
        return [Curve("a", "test", "round", np.array(at), np.array(values, float))]

    long, short = curve([2, 4, 6, 7], [1, 2, 3, 4]), curve([2, 3], [10, 20])
    for first, second in ((long, short), (short, long)):
        (found,) = _means([first, second], 2)
        assert found.at.tolist() == [2, 4, 6, 7]
        assert found.values.tolist() == [5.5, 11, 11.5, 12]
    (found,) = _means([curve([3], [1]), curve([5], [2])], 10)
    assert (found.at.tolist(), found.values.tolist()) == ([5], [1.5])


def test_a_plot_of_folds_has_bands_of_the_test_part_and_says_of_what(folds, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        "rankwood.studies.convergence.line_plot",
        lambda _path, lines, *_, bands: drawn.update(lines=lines, bands=bands),
    )
    convergence(rw.GBRT(3), folds).plot("c.svg")
    banded = [name for name, line in drawn["lines"].items() if line.low is not None]
    assert banded == ["GBRT, test"]
    assert len(drawn["lines"]) == 3
    assert "standard\ndeviation over folds" in drawn["bands"]


def test_lengths_by_fold_are_noted(folds):
    found = convergence(rw.GBRT(12, min_leaf=5, learning_rate=0.5, early_stopping=2), folds)
    lengths = {np.unique(c).size for c in found["GBRT", "test"].by_fold}
    assert len(lengths) > 1, "the example must stop differently"
    assert "trees by fold; one that has stopped keeps its last value" in str(found)


def test_folds_that_are_none(folds):
    with pytest.raises(ParameterError, match="must be an estimator"):
        convergence(rw.GBRT, folds)
    with pytest.raises(ParameterError, match="must be RankingData or folds"):
        convergence(rw.GBRT(2), [])
    with pytest.raises(ModelError, match="RankSVM has no trees or layers"):
        convergence(rw.RankSVM(), folds, "map")


def test_bare_forests_and_loaded_models(parts, tmp_path):
    model = rw.GBRT(5, min_leaf=5).fit(parts["train"])
    rw.save(model, tmp_path / "m.rankwood")
    expected = convergence(model, parts)["GBRT", "test"].values
    found = convergence({"bare": model.forest_, "loaded": rw.load(tmp_path / "m.rankwood")}, parts)
    assert (found["bare", "test"].values == expected).all()
    assert (found["loaded", "test"].values == expected).all()
    shorter = rw.GBRT(3, min_leaf=5).fit(parts["train"])
    assert expected[2] == mean_value(NDCG, shorter.predict(parts["test"]), parts["test"])


def test_many_trees_have_a_hundred_points_and_every_says_otherwise(parts):
    model = rw.RandomForest(5).fit(parts["train"]).forest_.take_trees([0, 1, 2, 3, 4] * 50)
    curve = convergence(model, {"test": parts["test"]})["Forest", "test"]
    assert curve.at.tolist() == [*range(3, 250, 3), 250]
    few = convergence(model, {"test": parts["test"]}, every=100)["Forest", "test"]
    assert few.at.tolist() == [100, 200, 250]
    assert few.values[-1] == curve.values[-1]


def test_the_best_is_the_first_of_equals(parts):
    model = rw.GBRT(6, min_leaf=5).fit(parts["train"])
    found = convergence(model, parts, "rmse")["GBRT", "train"]
    assert found.best == (6, found.values[-1])  # less is better, and boosting lowers it
    assert found.is_minimised


def test_tables_and_files(parts, tmp_path):
    models = {
        "one": rw.GBRT(6, min_leaf=5)
        .fit(parts["train"])
        .forest_.take_trees([0, 1, 2, 3, 4, 5] * 5),
        "two": rw.BROOF(n_rounds=2, n_trees=3, max_leaves=4).fit(parts["train"]),
    }
    found = convergence(models, parts)
    text = str(found)
    for part in ("one: ndcg@10", "trees", "rounds", "oob", "best", " at "):
        assert part in text
    assert len(found.tables()["one: ndcg@10"]) == 16  # every second of 30, and the best
    assert found._repr_html_().count("<table>") == 2
    json.dumps(found.to_dict())
    found.write_csv(tmp_path / "c.csv")
    assert (
        (tmp_path / "c.csv").read_text().startswith("model,part,unit,at,value\none,train,tree,1,")
    )
    with pytest.raises(ParameterError, match="there is no curve"):
        _ = found["one", "oob"]
    pytest.importorskip("matplotlib")
    found.plot(tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("models", "data", "options", "error", "message"),
    [
        ({}, {}, {}, ParameterError, "models is empty"),
        ({"a": rw.GBRT}, {}, {}, ParameterError, "must be a fitted model"),
        (rw.GBRT(), {}, {}, ModelError, "is not fitted yet"),
        (None, {}, {}, ParameterError, "must be a fitted model"),
    ],
)
def test_what_has_no_curve(models, data, options, error, message):
    with pytest.raises(error, match=message):
        convergence(models, data, **options)


def test_what_is_no_data(parts):
    model = rw.GBRT(2, min_leaf=5).fit(parts["train"])
    with pytest.raises(ParameterError, match="must be by part"):
        convergence(model, parts["train"])
    with pytest.raises(ParameterError, match="or folds; got int"):
        convergence(model, 3)
    with pytest.raises(ParameterError, match="give yours another name"):
        convergence(model, {"oob": parts["train"]})
    with pytest.raises(ParameterError, match="'test' must be RankingData"):
        convergence(model, {"test": 3})
    with pytest.raises(UnknownName, match="Did you mean 'map'"):
        convergence(model, parts, "mpa")
    wide = rw.make_ranking(n_queries=5, docs_per_query=5, n_features=9, seed=1)
    narrow = rw.RankingData(
        wide.features[:, 1:], wide.labels, wide.query_ids, feature_names=wide.names[1:]
    )
    with pytest.raises(DataError, match=r"GBRT, test: .* the data lack 'bm25_body'"):
        convergence(model, {"test": narrow})
