"""``DeepForest``: against its slow twin, without leaks, growing as it should, and clear about wrong input."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import rankwood as rw
from rankwood.engines.bags import stream_number
from rankwood.errors import DataError, DataWarning, ModelError, ParameterError
from rankwood.measures.measure import parse_measure
from rankwood.models import cascade as cascade_module
from rankwood.rankers.deep_forest import growing
from rankwood.rankers.deep_forest.growing import mean_correlations, pareto_front
from rankwood.rankers.deep_forest.layers import LayerColumns, Room, original_columns
from rankwood.training.rounds import ASKED_TO
from rankwood.trees import row_order
from tests.reference import deep_forest as reference

FORESTS = [
    rw.RandomForest(6, max_leaves=8),
    rw.CompletelyRandomForest(6, bag="row", min_split=5),
]
BOOSTED = [
    rw.LambdaMART(4, min_leaf=3, subsample=0.8, subsample_by="query", features_per_node=0.5),
    rw.GBRT(4, min_leaf=3, max_leaves=6),
]


@pytest.fixture(scope="module")
def parts():
    data = rw.make_ranking(24, 8, 5, seed=3)
    return data.take_queries(range(16)), data.take_queries(range(16, 24))


VARIANTS = {
    "default": {},
    "trees": {"augment": "trees"},
    "pareto": {"select": "pareto"},
    "kept": {"keep_augmented": True},
    "kept trees": {"augment": "trees", "keep_augmented": True},
    "queries": {"boost": "query", "alpha": 0.8},
    "documents": {"boost": "document", "beta": 0.4},
    "grades": {"augment": "grades"},
    "kept grades": {"augment": "grades", "keep_augmented": True, "passes": "standard"},
    "ranks and gaps": {"passes": "scores+ranks+gaps"},
}


def check_against_the_twin(layer, parts, how):
    train, valid = parts
    model = rw.DeepForest(layer, max_layers=3, patience=None, seed=5, **how).fit(train, valid=valid)
    held_out, of_valid, n_rows = reference.cascade(layer, train, valid, 3, seed=5, **how)
    np.testing.assert_allclose(model.predict_layers(valid), of_valid, rtol=1e-12)
    np.testing.assert_allclose(model.oob_scores_, held_out[:, -1], rtol=1e-12)
    assert [report["rows"] for report in model.layers_] == n_rows
    return model


@pytest.mark.parametrize("variant", VARIANTS)
def test_forests_equal_the_slow_twin(parts, variant):
    model = check_against_the_twin(FORESTS, parts, VARIANTS[variant])
    if "boost" in VARIANTS[variant]:
        n_rows = [report["rows"] for report in model.layers_]
        assert n_rows[0] == parts[0].n_documents > n_rows[1]


@pytest.mark.parametrize("variant", ["default", "kept", "queries"])
def test_rankers_with_folds_equal_the_slow_twin(parts, variant):
    check_against_the_twin(BOOSTED, parts, VARIANTS[variant])


def test_the_measure_of_the_last_layer_is_that_of_predict(parts):
    train, valid = parts
    model = rw.DeepForest(FORESTS, max_layers=3, patience=None).fit(train, valid=valid)
    scores = model.predict(valid)
    assert np.array_equal(scores, model.predict_layers(valid)[:, -1])
    found = rw.evaluate(scores, valid, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert model.history_[-1] == pytest.approx(found, abs=1e-12)


# --- Nothing leaks -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noise():
    """Labels that only memorisation could predict: every row is unlike all others, and labels are drawn."""
    rng = np.random.default_rng(7)
    features = rng.normal(size=(600, 4))
    return rw.RankingData(features, rng.integers(0, 5, 600), np.repeat(np.arange(60), 10))


MEMORISERS = {
    "forests": [
        rw.RandomForest(20, max_leaves=None),
        rw.CompletelyRandomForest(20, bag="row"),
    ],
    "boosted trees": [rw.GBRT(20, min_leaf=1, max_leaves=100, learning_rate=0.5)],
    "pairs": [rw.LambdaMART(20, min_leaf=1, max_leaves=100, learning_rate=0.5)],
    "foreign": [DecisionTreeRegressor()],
}


@pytest.mark.jit_only
@pytest.mark.parametrize("name", MEMORISERS)
def test_augmented_features_do_not_know_labels_by_heart(noise, name):
    layer = MEMORISERS[name]
    model = rw.DeepForest(layer, max_layers=3, patience=None).fit(noise)
    by_heart = np.corrcoef(model.predict_layers(noise)[:, 0], noise.labels)[0, 1]
    assert by_heart > 0.6  # the rankers do learn the noise
    # 600 rows: the correlation of independent numbers has a standard deviation of 0.04
    assert abs(np.corrcoef(model.oob_scores_, noise.labels)[0, 1]) < 0.15
    for n_layers in (1, 2):
        held_out = clone(model).set_params(max_layers=n_layers).fit(noise).oob_scores_
        assert abs(np.corrcoef(held_out, noise.labels)[0, 1]) < 0.15


@pytest.mark.jit_only
@pytest.mark.parametrize("augment", ["trees", "pareto"])
def test_trees_that_are_passed_on_do_not_know_labels_by_heart(noise, augment):
    how = {"select": "pareto"} if augment == "pareto" else {"augment": "trees"}
    model = rw.DeepForest(MEMORISERS["forests"], max_layers=2, patience=None, **how).fit(noise)
    assert abs(np.corrcoef(model.oob_scores_, noise.labels)[0, 1]) < 0.15


@pytest.mark.jit_only
@pytest.mark.parametrize("augment", ["trees", "grades", "forests"])
def test_columns_of_training_rows_are_spread_like_those_of_new_rows(noise, augment, monkeypatch):
    # A later layer learns from the one and is asked about the other. A single tree of pure leaves is far from the mean
    # label; the mean of a forest is not. Rows that a tree has seen once had the forest's out-of-bag score instead.
    train, valid = noise.take_queries(range(30)), noise.take_queries(range(30, 60))
    seen = []
    encode = LayerColumns.encode

    def watch(self, of_train, of_valid):
        seen.append((np.nanstd(of_train), np.std(of_valid)))
        return encode(self, of_train, of_valid)

    monkeypatch.setattr(LayerColumns, "encode", watch)
    layer = MEMORISERS["forests"]
    rw.DeepForest(layer, max_layers=2, patience=None, augment=augment).fit(train, valid=valid)
    ratios = [of_train / of_valid for of_train, of_valid in seen]
    # A forest's out-of-bag mean is of some 7 of its 20 trees, and so spread somewhat more than that of all.
    assert (
        np.mean(ratios) == pytest.approx(1.0, abs=0.1)
        if augment == "trees"
        else np.mean(ratios) < 1.8
    )


@pytest.mark.jit_only
def test_class_vectors_do_not_know_labels_by_heart(noise):
    layer = [*MEMORISERS["forests"], rw.ExtraTrees(10, max_leaves=None)]
    model = rw.DeepForest(layer, max_layers=2, patience=None, augment="grades").fit(noise)
    assert abs(np.corrcoef(model.oob_scores_, noise.labels)[0, 1]) < 0.15


def test_class_vectors_cost_no_tree_and_leave_the_score_of_a_forest_alone(parts):
    train, valid = parts
    plain = rw.DeepForest(FORESTS, max_layers=1, seed=4).fit(train)
    graded = rw.DeepForest(FORESTS, max_layers=1, seed=4, augment="grades").fit(train)
    np.testing.assert_allclose(graded.predict(valid), plain.predict(valid), rtol=1e-12)
    np.testing.assert_allclose(graded.oob_scores_, plain.oob_scores_, rtol=1e-12)
    ordinal = graded.cascade_.layers[0].models[0]
    assert ordinal.grades.tolist() == sorted(set(train.labels.tolist()))
    shares = ordinal.probabilities(valid)
    assert shares.min() >= -1e-12
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    deep = rw.DeepForest(FORESTS, max_layers=2, patience=None, augment="grades").fit(train)
    assert deep.layers_[0]["augmented"] == 2 * ordinal.grades.size
    continuous = rw.RankingData(train.features, np.arange(train.n_documents), train.query_ids)
    with pytest.raises(DataError, match="different values, which are no grades"):
        clone(deep).fit(continuous)


def test_ordinal_rankers_pass_their_probabilities_on(parts, tmp_path):
    train, valid = parts
    layer = [rw.OrdinalRanker(rw.RandomForest(3)), rw.RandomForest(3)]
    model = rw.DeepForest(layer, max_layers=2, patience=None, augment="grades")
    model.fit(train, valid=valid)
    found = rw.evaluate(model.predict(valid), valid, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert model.history_[-1] == pytest.approx(found, abs=1e-12)
    rw.save(model, tmp_path / "m")
    assert np.array_equal(rw.load(tmp_path / "m").predict(valid), model.predict(valid))


def test_ranks_and_gaps_need_queries(parts, tmp_path):
    train, valid = parts
    model = rw.DeepForest(FORESTS, max_layers=2, patience=None, passes="scores+ranks+gaps")
    with pytest.raises(DataError, match="the training data have no query ids, and passes="):
        clone(model).fit(train.features, train.labels)
    model.fit(train, valid=valid)
    assert model.layers_[0]["augmented"] == 6
    rw.save(model, tmp_path / "m")
    loaded = rw.load(tmp_path / "m")
    assert np.array_equal(loaded.predict(valid), model.predict(valid))
    assert loaded.cascade_.forms == ("scores", "ranks", "gaps")
    with pytest.raises(DataError, match="score RankingData with query_ids"):
        loaded.predict(valid.features)
    # A query's documents are related to one another, and to no others.
    one = valid.take_queries([3])
    is_its = valid.query_of_row == 3
    np.testing.assert_array_equal(model.predict(one), model.predict(valid)[is_its])


@pytest.mark.parametrize("form", cascade_module.FORMS)
def test_forms_equal_the_slow_twin(rng, form):
    ids = rng.integers(0, 9, 60)  # rows of a query stand apart, and some queries have one row
    data = rw.RankingData(np.zeros((60, 1)), np.zeros(60), ids)
    for values in (rng.normal(size=60), rng.integers(0, 3, 60) * 1e30, np.full(60, 7.0)):
        column = values.astype("f4")
        column[:4] = np.nan
        (found,) = cascade_module.columns_in_forms(column, [form], data.judgments.grouping)
        expected = reference.within_query(column, data, form)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_mean_of_the_folds_models_is_kept_where_asked_for(parts):
    train, valid = parts
    model = rw.DeepForest(BOOSTED, max_layers=2, patience=None, fold_models="average", seed=2)
    model.fit(train, valid=valid)
    fold_of_row = reference.folds(train, np.ones(train.n_documents, bool), 3, 2, 0)
    learner = clone(BOOSTED[1]).set_params(seed=stream_number(2, "layer 0", 1))
    others = [
        clone(learner).fit(rw.bin(train), sample_weight=(fold_of_row != fold).astype(float))
        for fold in range(3)
    ]
    expected = np.mean([other.predict(valid) for other in others], axis=0)
    kept = model.cascade_.layers[0].models[1]
    np.testing.assert_allclose(kept.predict(valid), expected, rtol=1e-12)
    found = rw.evaluate(model.predict(valid), valid, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert model.history_[-1] == pytest.approx(found, abs=1e-12)


@pytest.mark.jit_only
def test_a_rows_own_label_does_not_move_its_out_of_bag_score(noise):
    layer = MEMORISERS["forests"]
    one = rw.DeepForest(layer, max_layers=1).fit(noise).oob_scores_
    labels = noise.labels.copy()
    labels[17] = 4.0 - labels[17] if labels[17] != 2 else 4.0
    changed = rw.RankingData(noise.features, labels, noise.query_ids)
    other = rw.DeepForest(layer, max_layers=1).fit(changed).oob_scores_
    assert other[17] == pytest.approx(one[17], abs=1e-12)
    assert not np.allclose(one, other)


@pytest.mark.jit_only
@pytest.mark.parametrize("name", ["boosted trees", "pairs", "foreign", "graded"])
def test_the_labels_of_a_fold_do_not_move_its_held_out_scores(noise, name):
    more = {"graded": [rw.NDCGBoost(3, min_leaf=1), rw.RankBoost(3), rw.RankSVM()]}
    layer = (MEMORISERS | more)[name]
    model = rw.DeepForest(layer, max_layers=1, n_folds=2, seed=3)
    one = clone(model).fit(noise).oob_scores_
    is_held_out = reference.folds(noise, np.ones(600, bool), 2, 3, 0) == 0
    labels = np.where(is_held_out, 4.0 - noise.labels, noise.labels)
    changed = rw.RankingData(noise.features, labels, noise.query_ids)
    other = clone(model).fit(changed).oob_scores_
    np.testing.assert_allclose(other[is_held_out], one[is_held_out], rtol=1e-9, atol=1e-9)
    assert not np.allclose(one[~is_held_out], other[~is_held_out])


# --- Growing -------------------------------------------------------------------------------------


PAPER = {"judged_on": "valid", "lead": 0.0}  # the best layer on the validation data is kept


def test_layers_up_to_the_best_are_kept(parts):
    train, valid = parts
    model = rw.DeepForest(FORESTS, max_layers=20, patience=2, seed=1, **PAPER)
    model.fit(train, valid=valid)
    history = model.history_
    best = int(np.argmax(history)) + 1
    assert model.best_iteration_ == model.cascade_.n_layers == best
    assert len(history) == len(model.layers_) == best + 2
    assert model.stopped_because_ == (
        f"layer {best} is kept: none of the next 2 was ahead of it on the validation data"
    )
    assert [report["kept"] for report in model.layers_] == [
        number < best for number in range(best + 2)
    ]
    assert [report["measure"] for report in model.layers_] == history
    same = rw.DeepForest(FORESTS, max_layers=best, patience=None, seed=1).fit(train)
    assert np.array_equal(same.predict(valid), model.predict(valid))


def test_without_validation_data_held_out_scores_decide(parts):
    train, _ = parts
    model = rw.DeepForest(FORESTS, max_layers=6, patience=2, seed=2, lead=0).fit(train)
    assert model.history_ == []
    measures = [report["measure"] for report in model.layers_]
    assert model.best_iteration_ == int(np.argmax(measures)) + 1
    assert max(measures) == pytest.approx(model.oob_ndcg_)
    assert model.stopped_because_.endswith("ahead of it on held-out scores")


@pytest.fixture(scope="module")
def judged():
    """Values by query of four layers after the first, on held-out scores and on validation data."""
    rng = np.random.default_rng(1)
    first = {name: rng.random(50) for name in (growing.HELD_OUT, growing.VALID)}

    def layer(held_out, valid):
        gains = {growing.HELD_OUT: held_out, growing.VALID: valid}
        values = {
            name: first[name] + gain + rng.normal(0, 0.01, 50) for name, gain in gains.items()
        }
        return {
            name: growing.LayerStanding(float(each.mean()), each, np.ones(50))
            for name, each in values.items()
        }

    return [layer(0, 0), layer(0.05, -0.05), layer(-0.05, 0.05), layer(0.05, 0.05), layer(0, 0)]


@pytest.mark.parametrize(
    ("judged_on", "best"),
    [("both", [1, 1, 1, 4, 4]), ("held_out", [1, 2, 2, 2, 2]), ("valid", [1, 1, 3, 3, 3])],
)
def test_a_layer_is_kept_only_if_it_is_ahead_wherever_it_is_judged(judged, judged_on, best):
    choice = growing.LayerChoice(3, False, judged_on=judged_on, lead=1.0)
    reports = []
    found = []
    for standings in judged:
        reports.append(choice.judge(standings))
        found.append(choice.best_iteration)
    if judged_on == "valid":  # layer 4 is about as good as layer 3: whether it is ahead is chance
        found[3:] = [min(3, number) for number in found[3:]]
    if judged_on == "held_out":
        found[3:] = [min(2, number) for number in found[3:]]
    assert found == best
    assert reports[0]["lead"] == {}
    assert reports[1]["lead"]["held_out"][0] == pytest.approx(0.05, abs=0.01)
    assert reports[1]["ahead"] == (judged_on == "held_out")


def test_leads_are_of_the_queries_that_both_layers_have_scores_for():
    data = rw.make_ranking(6, 5, 3, seed=1)
    measure = parse_measure("ndcg@5")
    query, rng = data.query_of_row, np.random.default_rng(1)
    scores = [rng.random(data.n_documents) for _ in range(2)]
    scores[0][query == 4] = (
        np.nan
    )  # no tree has left this query out, and another one of the other layer
    scores[1][query == 1] = np.nan
    standings = [
        growing._standing(measure, 0.5, each, data, np.flatnonzero(~np.isnan(each)))
        for each in scores
    ]
    values = [
        [
            np.nan
            if np.isnan(each[query == one]).any()
            else float(
                measure.per_query(each[query == one], data.take_rows(np.flatnonzero(query == one)))[
                    0
                ]
            )
            for one in range(6)
        ]
        for each in scores
    ]
    differences = np.subtract(*values)[[0, 2, 3, 5]]
    mean, error = standings[0].lead_over(standings[1], minimised=False)
    assert mean == pytest.approx(differences.mean())
    assert error == pytest.approx(differences.std() / 2)


def test_a_lead_is_counted_in_standard_errors_of_paired_differences():
    # Differences 1, 2, 3: mean 2, standard deviation sqrt(2/3), standard error sqrt(2/3) / sqrt(3) = 0.4714.
    one, other = np.array([1.0, 2.0, 3.0]), np.zeros(3)
    standings = [
        growing.LayerStanding(float(each.mean()), each, np.ones(3)) for each in (one, other)
    ]
    mean, error = standings[0].lead_over(standings[1], minimised=False)
    assert (mean, error) == (2.0, pytest.approx(np.sqrt(2) / 3))
    assert standings[0].lead_over(standings[1], minimised=True)[0] == -2.0
    for lead, is_ahead in ((4.2, True), (4.3, False)):
        choice = growing.LayerChoice(3, False, judged_on="held_out", lead=lead)
        choice.judge({growing.HELD_OUT: standings[1]})
        assert choice.judge({growing.HELD_OUT: standings[0]})["ahead"] == is_ahead


def test_noise_adds_no_layer_and_says_why(noise):
    train, valid = noise.take_queries(range(40)), noise.take_queries(range(40, 60))
    model = rw.DeepForest(n_forests=2, n_trees=10, seed=1).fit(train, valid=valid)
    assert model.best_iteration_ == 1
    assert model.stopped_because_ == (
        "layer 1 is kept: none of the next 3 was ahead of it on held-out scores and on the validation data"
    )
    assert [report["kept"] for report in model.layers_] == [True, False, False, False]
    assert all(set(report["lead"]) == {"held_out", "valid"} for report in model.layers_[1:])


def test_without_queries_rmse_decides(parts):
    train, _ = parts
    model = rw.DeepForest(FORESTS, max_layers=4, lead=0).fit(train.features, train.labels)
    measures = [report["measure"] for report in model.layers_]
    assert model.best_iteration_ == int(np.argmin(measures)) + 1
    rmse = np.sqrt(np.mean((model.oob_scores_ - train.labels) ** 2))
    assert min(measures) == pytest.approx(rmse)


def test_the_default_layer_is_half_and_half():
    forests = rw.DeepForest(n_forests=5, max_leaves=7, min_split=9)._learners()
    assert [type(forest) for forest in forests] == [rw.RandomForest] * 3 + [
        rw.CompletelyRandomForest
    ] * 2
    assert {forest.n_trees for forest in forests} == {80}
    assert all(forest.bag == "query" for forest in forests)
    without = rw.DeepForest()._learners(by_query=False)
    assert all(forest.bag == "row" for forest in without)
    assert all(forest.bag == "row" for forest in rw.DeepForest(bag="row")._learners())
    assert forests[0].max_leaves == 7
    assert forests[-1].min_split == 9
    learners = rw.DeepForest.lambdamart()._learners()
    assert len(learners) == 8
    assert {type(learner) for learner in learners} == {rw.LambdaMART}
    assert learners[0].n_trees == 300


def test_rankers_of_a_layer_differ_and_so_do_layers(parts):
    train, valid = parts
    same = [rw.RandomForest(3, max_leaves=5)] * 2
    model = rw.DeepForest(same, max_layers=2, patience=None).fit(train)
    (one, other), (later, _) = (layer.models for layer in model.cascade_.layers)
    assert not np.array_equal(one.predict(valid), other.predict(valid))
    assert later.n_features == train.n_features + 2
    equal = rw.DeepForest.lambdamart(2, 3, max_layers=1).fit(train)
    one, other = equal.cascade_.layers[0].models
    assert not np.array_equal(one.predict(valid), other.predict(valid))


@pytest.mark.parametrize(
    "how", [{"boost": "query", "alpha": 0.0}, {"boost": "document", "beta": 1.0}]
)
def test_a_rule_that_leaves_no_rows_keeps_the_rows_before_and_says_so(parts, how):
    train, valid = parts
    model = rw.DeepForest(FORESTS, max_layers=2, patience=None, **how)
    with pytest.warns(DataWarning, match=r"layer 2: boost='\w+' left 0 rows .* the layer before"):
        model.fit(train, valid=valid)
    assert [report["rows"] for report in model.layers_] == [train.n_documents] * 2
    assert model.layers_[0]["note"] is None
    assert "trained on the rows of the layer before" in model.layers_[1]["note"]


def test_callbacks_hear_of_every_ranker_and_can_stop(parts):
    heard = []

    def listen(news):
        heard.append((news.iteration, news.total))
        return news.iteration == 3

    model = rw.DeepForest(FORESTS, max_layers=5, patience=None, callbacks=[listen]).fit(parts[0])
    assert heard == [(1, 10), (2, 10), (3, 10), (4, 10)]
    assert model.cascade_.n_layers == 2
    assert model.stopped_because_ == "a callback asked for it"


def test_huge_and_constant_labels(parts):
    train, _ = parts
    model = rw.DeepForest(FORESTS, max_layers=3, patience=1)
    huge = rw.RankingData(train.features, train.labels * 1e30, train.query_ids)
    assert np.isfinite(clone(model).fit(huge).predict(train)).all()
    constant = rw.RankingData(train.features, np.full(train.n_documents, 2.0), train.query_ids)
    assert clone(model).fit(constant).predict(train) == pytest.approx(2.0)
    one = train.take_rows([0])
    assert clone(model).fit(one).predict(one) == pytest.approx(one.labels)


# --- Columns and models --------------------------------------------------------------------------


def test_original_codes_are_never_copied(parts):
    train, valid = parts
    columns = original_columns(train, train, valid, Room(255, 2, False, 1))
    before, codes = columns.train.codes, columns.train.codes[:5].copy()
    for number in range(3):
        scores = train.labels + number
        encoded = [columns.encode(scores, valid.labels), columns.encode(-scores, -valid.labels)]
        columns.take(encoded, keep=False)
        assert columns.train.codes is before
        assert columns.width == 7
        assert np.array_equal(before[:5], codes)
    binned = rw.bin(
        rw.RankingData(np.column_stack([train.features, scores, -scores]), train.labels)
    )
    assert np.array_equal(columns.bins.thresholds, binned.bins.thresholds)
    assert np.array_equal(columns.train.codes, binned.codes)
    columns.take(encoded, keep=True)
    assert columns.train.codes is not before
    assert columns.width == 9


@pytest.mark.parametrize("variant", ["default", "trees", "queries", "folds"])
def test_the_order_that_rows_are_laid_out_in_changes_nothing(parts, variant, monkeypatch):
    train, valid = parts
    layer, how = (BOOSTED, {}) if variant == "folds" else (FORESTS, VARIANTS[variant])
    model = rw.DeepForest(layer, max_layers=3, patience=None, **how)
    expected = clone(model).fit(train, valid=valid)
    monkeypatch.setattr(row_order, "_LEAST_ROWS", 50)  # as if the data were large
    columns = original_columns(train, train, None, Room(255, 0, False, 1))
    assert not np.array_equal(columns.train.source_of_row, np.arange(train.n_documents))
    found = clone(model).fit(train, valid=valid)
    assert np.array_equal(found.predict(valid), expected.predict(valid))
    assert np.array_equal(found.oob_scores_, expected.oob_scores_, equal_nan=True)


def test_rows_are_scored_in_blocks(parts, monkeypatch):
    train, valid = parts
    model = rw.DeepForest(FORESTS, max_layers=2, patience=None, augment="trees").fit(train)
    expected = model.predict(valid)
    monkeypatch.setattr(cascade_module, "_BLOCK_ROWS", 7)
    assert np.array_equal(model.predict(valid), expected)
    assert model.predict(np.ones((0, 5))).size == 0


def test_weights_of_zero_leave_rows_out(parts):
    train, valid = parts
    weights = np.ones(train.n_documents)
    weights[:40] = 0.0
    labels = train.labels.copy()
    model = rw.DeepForest(FORESTS, max_layers=2, patience=None)
    one = clone(model).fit(train.features, labels, train.query_ids, sample_weight=weights)
    labels[:40] = 4 - labels[:40]
    other = clone(model).fit(train.features, labels, train.query_ids, sample_weight=weights)
    np.testing.assert_allclose(one.predict(valid), other.predict(valid), rtol=1e-12)


def test_height_errors_equal_the_slow_twin(rng):
    for _ in range(20):
        n_rows = int(rng.integers(1, 12))
        labels, scores = rng.integers(0, 4, n_rows), rng.integers(0, 5, n_rows) / 4
        data = rw.RankingData(np.zeros((n_rows, 1)), labels, np.zeros(n_rows, int))
        found = growing.height_errors(scores, data)
        assert found.tolist() == pytest.approx(reference.height_errors(labels, scores))


def test_scores_beyond_float32_become_its_greatest_number():
    column = cascade_module.as_feature(np.array([1e300, -1e300, 0.5, np.nan]))
    most = np.finfo(np.float32).max
    assert column.dtype == np.float32
    np.testing.assert_array_equal(column, np.array([most, -most, 0.5, np.nan], np.float32))


def test_a_height_error_by_hand():
    # Ranked 0, 2, 1: the 0 has both others below it (2 of 2), the 2 has the 0 above it, the 1 as well.
    data = rw.RankingData(np.zeros((3, 1)), [1, 0, 2], [7, 7, 7])
    found = growing.height_errors(np.array([1.0, 3.0, 2.0]), data)
    assert found.tolist() == [0.5, 1.0, 0.5]


def test_the_pareto_front_by_hand():
    quality = np.array([0.9, 0.8, 0.7, 0.9, 0.6])
    likeness = np.array([0.5, 0.4, 0.4, 0.5, 0.1])
    assert pareto_front(quality, likeness).tolist() == [0, 1, 3, 4]  # 2 has no more than 1


def test_mean_correlations_by_hand():
    scores = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [5.0, 5.0, 5.0], [1.0, np.nan, 3.0]])
    # |r| of rows 0, 1 and 3 with each other is 1, with the constant row 0.
    np.testing.assert_allclose(mean_correlations(scores), [2 / 3, 2 / 3, 1.0, 2 / 3])
    assert mean_correlations(scores[:1]).tolist() == [0.0]


# --- Saving, and learners of others --------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_saved_model_predicts_the_same(parts, variant, tmp_path):
    train, valid = parts
    needs_forests = any(word in variant for word in ("trees", "pareto", "grades"))
    layer = [*FORESTS] if needs_forests else [*FORESTS, *BOOSTED]
    model = rw.DeepForest(layer, max_layers=3, patience=None, **VARIANTS[variant])
    model.fit(train, valid=valid)
    rw.save(model, tmp_path / "m")
    loaded = rw.load(tmp_path / "m")
    assert np.array_equal(loaded.predict_layers(valid), model.predict_layers(valid))
    assert loaded.history_ == model.history_
    assert loaded.layers_ == [
        {name: value for name, value in report.items() if name != "seconds"}
        for report in model.layers_
    ]
    assert [type(learner) for learner in loaded.layer] == [type(learner) for learner in layer]
    assert np.array_equal(
        clone(loaded).fit(train, valid=valid).predict(valid), model.predict(valid)
    )


def test_layers_may_hold_linear_and_ordinal_rankers(parts, tmp_path):
    train, valid = parts
    layer = [rw.RankSVM(), rw.OrdinalRanker(rw.RandomForest(3)), rw.RandomForest(3)]
    model = rw.DeepForest(layer, max_layers=2, patience=None).fit(train, valid=valid)
    rw.save(model, tmp_path / "m")
    assert np.array_equal(rw.load(tmp_path / "m").predict(valid), model.predict(valid))
    found = rw.evaluate(model.predict(valid), valid, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert model.history_[-1] == pytest.approx(found, abs=1e-12)


def test_learners_of_other_libraries(parts, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    train, valid = parts
    ranker = lightgbm.LGBMRanker(n_estimators=3, min_child_samples=2, verbosity=-1)
    layer = [rw.RandomForest(20), LinearRegression(), ranker]
    model = rw.DeepForest(layer, max_layers=2, patience=None).fit(train, valid=valid)
    assert [type(each).__name__ for each in model.cascade_.layers[1].models] == [
        "Forest",
        "ForeignModel",
        "ForeignModel",
    ]
    found = rw.evaluate(model.predict(valid), valid, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert model.history_[-1] == pytest.approx(found, abs=1e-12)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(valid), model.predict(valid))
    with pytest.raises(ModelError, match=r"layer 1 has a sklearn LinearRegression, which a model"):
        rw.save(model, tmp_path / "m")


def test_refit_grows_as_many_layers_on_all_data(parts):
    train, valid = parts
    model = rw.DeepForest(FORESTS, max_layers=5, patience=1, seed=1).fit(train, valid=valid)
    again = rw.refit(model, train, valid)
    assert again.cascade_.n_layers == model.cascade_.n_layers
    assert again.training_["rows"] == train.n_documents + valid.n_documents


# --- Wrong input ---------------------------------------------------------------------------------


class WrongShape(RegressorMixin, BaseEstimator):
    def fit(self, X, y):  # noqa: ARG002
        return self

    def predict(self, X):
        return np.zeros((len(X), 2))


class NotANumber(WrongShape):
    def predict(self, X):
        return np.full(len(X), np.nan)


WRONG = {
    "a misspelt name": ({"layer": "forest"}, ParameterError, "Did you mean 'forests'"),
    "a class": ({"layer": [rw.RandomForest]}, ParameterError, r"layer\[0\] .* class RandomForest"),
    "no ranker": ({"layer": ["RandomForest"]}, ParameterError, r"fit and predict, got str"),
    "nested": ({"layer": [rw.DeepForest()]}, ParameterError, "cascades do not nest"),
    "wrong base": ({"layer": [rw.RandomForest(0)]}, ParameterError, "n_trees must be"),
    "monotone": ({"layer": [rw.GBRT(monotone=[1] * 5)]}, ParameterError, r"has monotone set"),
    "stopping": ({"layer": [rw.GBRT(early_stopping=3)]}, ParameterError, "has early_stopping set"),
    "checkpoint": ({"layer": [rw.GBRT(checkpoint="x")]}, ParameterError, "has checkpoint set"),
    "trees of boosted trees": (
        {"layer": [rw.GBRT(3)], "augment": "trees"},
        ParameterError,
        r"layer\[0\] \(GBRT\) is no forest",
    ),
    "pareto of boosted trees": (
        {"layer": "lambdamart", "select": "pareto"},
        ParameterError,
        "is no forest",
    ),
    "grades of boosted trees": (
        {"layer": "lambdamart", "augment": "grades"},
        ParameterError,
        "does not tell the probability of a grade",
    ),
    "mean of linear models": (
        {"layer": [rw.RankSVM()], "fold_models": "average"},
        ParameterError,
        "is no sum of trees",
    ),
    "mean of trees": (
        {"augment": "trees", "fold_models": "average"},
        ParameterError,
        "more trees than its folds' forests",
    ),
    "unknown form": ({"passes": "scores+rank"}, ParameterError, "passes must be some of scores"),
    "a form twice": ({"passes": "ranks+ranks"}, ParameterError, "each at most once"),
    "no form": ({"passes": ""}, ParameterError, "passes must be some of"),
    "a form that is no text": ({"passes": 3}, ParameterError, "passes must be some of"),
    "unknown bag": ({"bag": "tree"}, ParameterError, "bag 'tree' is not known"),
    "negative lead": ({"lead": -1}, ParameterError, "lead must be"),
    "a wrong shape": ({"layer": [WrongShape()]}, DataError, "WrongShape.predict gave 156 × 2"),
    "no numbers": ({"layer": [NotANumber()]}, DataError, "NotANumber.predict gave a score"),
}


@pytest.mark.parametrize("case", WRONG)
def test_one_clear_error_for_each_wrong_parameter(parts, case):
    parameters, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        rw.DeepForest(**parameters).fit(parts[0])


def test_one_clear_error_for_data_that_do_not_fit(parts):
    train, valid = parts
    narrow = rw.RankingData(valid.features[:, :4], valid.labels, valid.query_ids)
    small = rw.DeepForest(FORESTS, max_layers=2)
    with pytest.raises(DataError, match="valid has 4 features, but the training data have 5"):
        small.fit(train, valid=narrow)
    with pytest.raises(DataError, match="valid has no query ids, which ndcg@10 needs"):
        small.fit(train, valid=(valid.features, valid.labels))
    with pytest.raises(DataError, match="have no query ids"):
        rw.DeepForest(FORESTS, boost="query").fit(train.features, train.labels)
    with pytest.raises(DataError, match="there is one query to learn from"):
        rw.DeepForest([rw.GBRT(2)]).fit(train.take_queries([0]))
    weighted = rw.DeepForest([WrongShape()])
    with pytest.raises(DataError, match=r"WrongShape\.fit takes no sample_weight"):
        weighted.fit(
            train.features, train.labels, train.query_ids, sample_weight=np.arange(156) + 1.0
        )
    with pytest.raises(ModelError, match="not fitted yet: there is nothing to save"):
        rw.save(rw.DeepForest(), "nowhere")


# Checkpoints


class Stopped(Exception):
    """Raised by a callback, like a crash at that moment."""


def raise_at(iteration, error=Stopped):
    def callback(news):
        if news.iteration == iteration:
            raise error("now")

    return callback


def saved_bytes(model, path):
    rw.save(model, path)
    return path.read_bytes()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_stopped_cascade_resumes_to_the_same_bytes(parts, variant, tmp_path):
    train, valid = parts
    path = tmp_path / "checkpoint"
    options = {"max_layers": 4, "patience": None, "seed": 5, **VARIANTS[variant]}
    whole = rw.DeepForest(FORESTS, **options).fit(train, valid=valid)
    # The last learner of layer 2, the first of layer 4.
    for moment, error in ((4, Stopped), (7, KeyboardInterrupt)):
        with pytest.raises(error, match="now"):
            rw.DeepForest(
                FORESTS, checkpoint=path, callbacks=[raise_at(moment, error)], **options
            ).fit(train, valid=valid)
    seen = []
    model = rw.DeepForest(FORESTS, checkpoint=path, progress=seen.append, **options)
    model.fit(train, valid=valid)
    assert [news.iteration for news in seen] == [7, 8]  # three layers were kept
    assert saved_bytes(model, tmp_path / "resumed") == saved_bytes(whole, tmp_path / "whole")
    assert model.oob_scores_.tobytes() == whole.oob_scores_.tobytes()
    assert model.stopped_because_ == whole.stopped_because_ == growing.ALL_LAYERS
    assert model.history_ == whole.history_
    again = rw.DeepForest(FORESTS, checkpoint=path, progress=seen.append, **options)
    again.fit(train, valid=valid)
    assert len(seen) == 2  # a finished checkpoint gives the model at once
    assert saved_bytes(again, tmp_path / "again") == saved_bytes(whole, tmp_path / "whole")


@pytest.mark.parametrize("layer", [BOOSTED, [rw.RankSVM(), *FORESTS]], ids=["folds", "values"])
def test_layers_of_other_rankers_resume(parts, layer, tmp_path):
    train, _ = parts
    path = tmp_path / "checkpoint"
    options = {"max_layers": 3, "patience": 1, "keep_augmented": True}
    whole = rw.DeepForest(layer, **options).fit(train)
    with pytest.raises(Stopped, match="now"):
        rw.DeepForest(layer, checkpoint=path, callbacks=[raise_at(len(layer) + 1)], **options).fit(
            train
        )
    model = rw.DeepForest(layer, checkpoint=path, **options).fit(train)
    assert saved_bytes(model, tmp_path / "resumed") == saved_bytes(whole, tmp_path / "whole")
    assert model.stopped_because_ == whole.stopped_because_


def test_a_cascade_that_a_callback_stopped_goes_on(parts, tmp_path):
    train, valid = parts
    path = tmp_path / "checkpoint"
    options = {"max_layers": 3, "patience": None}
    whole = rw.DeepForest(FORESTS, **options).fit(train, valid=valid)
    stop = [lambda news: news.iteration == 3]
    stopped = rw.DeepForest(FORESTS, checkpoint=path, callbacks=stop, **options)
    stopped.fit(train, valid=valid)
    assert stopped.cascade_.n_layers == 2
    assert stopped.stopped_because_ == ASKED_TO
    model = rw.DeepForest(FORESTS, checkpoint=path, **options).fit(train, valid=valid)
    assert saved_bytes(model, tmp_path / "resumed") == saved_bytes(whole, tmp_path / "whole")


def test_a_checkpoint_of_another_cascade_is_refused(parts, tmp_path):
    train, valid = parts
    path = tmp_path / "checkpoint"
    rw.DeepForest(FORESTS, max_layers=2, checkpoint=path).fit(train)
    with pytest.raises(ModelError, match="was made with max_layers=2, not 3"):
        rw.DeepForest(FORESTS, max_layers=3, checkpoint=path).fit(train)
    with pytest.raises(ModelError, match="was made on other data"):
        rw.DeepForest(FORESTS, max_layers=2, checkpoint=path).fit(valid)
    with pytest.raises(ParameterError, match=r"layer\[0\] \(LinearRegression\) cannot be written"):
        rw.DeepForest([LinearRegression()], checkpoint=path).fit(train)


KILLED = """
import sys, time
import rankwood as rw
data = rw.make_ranking(24, 8, 5, seed=3)
path, saved, pause = sys.argv[1:]
def wait(news):
    print(news.iteration, flush=True)
    time.sleep(float(pause))
options = {"n_forests": 2, "n_trees": 4, "max_layers": 6, "patience": None, "n_threads": 1}
rw.save(rw.DeepForest(checkpoint=path, callbacks=[wait], **options).fit(data), saved)
"""


@pytest.mark.slow
def test_a_killed_cascade_resumes_to_the_same_bytes(tmp_path):
    def start(saved, pause):
        arguments = [sys.executable, "-c", KILLED, str(tmp_path / "checkpoint"), saved, pause]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)

    killed = start(str(tmp_path / "never"), "0.2")
    for line in killed.stdout:
        if int(line) == 7:  # the first forest of layer 4
            break
    killed.kill()
    killed.wait()
    killed.stdout.close()
    assert not (tmp_path / "never").exists()
    resumed = start(str(tmp_path / "resumed"), "0")
    lines, _ = resumed.communicate()
    assert resumed.returncode == 0
    assert lines.split()[0] == "7"  # layers 1 to 3 were kept
    (tmp_path / "checkpoint").unlink()
    whole = start(str(tmp_path / "whole"), "0")
    lines, _ = whole.communicate()
    assert lines.split()[0] == "1"
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()
