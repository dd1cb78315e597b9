"""``Blend``: weights by the slow twins, files, exports, explanations, models that are fitted already."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.exports.exporting import FORMATS
from rankwood.models.blend import BlendModel
from rankwood.models.format import load_model, read_model, save_model, write_model
from rankwood.training.blending import HeldOut, least_squares_shares, search_shares
from tests.reference import blending as slow


@pytest.fixture(scope="module")
def train():
    return rw.make_ranking(30, 10, 6, seed=1)


@pytest.fixture(scope="module")
def vali():
    return rw.make_ranking(20, 10, 6, seed=2)


@pytest.fixture(scope="module")
def test():
    return rw.make_ranking(20, 10, 6, seed=3)


def parts(**others):
    return {
        "forest": rw.RandomForest(6, max_leaves=12),
        "boosting": rw.GBRT(8, max_leaves=6, min_leaf=5, early_stopping=None),
        "classes": rw.OrdinalRanker(rw.RandomForest(5, max_leaves=12)),
        **others,
    }


@pytest.fixture(scope="module")
def blend(train, vali):
    return rw.Blend(parts()).fit(train, valid=vali)


def held_out(columns, labels, queries, **options):
    data = rw.RankingData(np.zeros((len(labels), 1)), labels, queries, **options)
    return HeldOut.of(data, np.column_stack(columns))


def random_columns(rng, n_parts, n_queries=12):
    queries = np.repeat(np.arange(n_queries), 7)
    labels = rng.integers(0, 4, queries.size).astype(float)
    columns = [
        labels * rng.uniform(-0.3, 1) + rng.normal(0, 1, labels.size) for _ in range(n_parts)
    ]
    return columns, labels, queries


# Weights.


@pytest.mark.parametrize("n_parts", [1, 2, 3, 4])
def test_least_squares_equal_the_slow_twin(n_parts, rng):
    some_are_zero = False
    for _ in range(5):
        columns, labels, queries = random_columns(rng, n_parts)
        given = held_out(columns, labels, queries)
        shares = least_squares_shares(given, given.scores)
        expected = slow.least_squares_shares(columns, labels, queries.tolist())
        np.testing.assert_allclose(shares, expected, atol=1e-7)
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1)
        some_are_zero |= bool((shares == 0).any())
    assert some_are_zero or n_parts == 1


@pytest.mark.parametrize("n_parts", [1, 2, 3])
def test_the_search_equals_the_slow_twin(n_parts, rng):
    columns, labels, queries = random_columns(rng, n_parts)
    given = held_out(columns, labels, queries)
    judge = given.judge(rw.parse_measure("ndcg@10"), 1)

    def value(shares):
        return judge(given.scores @ shares)

    shares = search_shares(value, n_parts)
    assert shares.tolist() == slow.search_shares(columns, labels.tolist(), queries.tolist())
    assert value(shares) >= max(value(corner) for corner in np.eye(n_parts)) - 1e-12


def test_equal_parts_have_equal_shares(rng):
    columns, _, queries = random_columns(rng, 1)
    given = held_out([columns[0], columns[0] * 1.0], np.abs(columns[0]), queries)
    np.testing.assert_allclose(least_squares_shares(given, given.scores), [0.5, 0.5], atol=1e-6)


def test_parts_that_have_nothing_to_do_with_the_labels_share_equally(rng):
    _, labels, queries = random_columns(rng, 2)
    given = held_out([-labels, np.ones(labels.size)], labels, queries)
    assert least_squares_shares(given, given.scores).tolist() == [0.5, 0.5]


def test_weights_of_rows_count_as_copies(rng):
    columns, labels, queries = random_columns(rng, 3)
    times = rng.integers(1, 4, labels.size)
    weighted = held_out(columns, labels, queries, row_weights=times)
    copied = held_out(
        [np.repeat(column, times) for column in columns],
        np.repeat(labels, times),
        np.repeat(queries, times),
    )
    for one, other in zip(weighted.scaled("query"), copied.scaled("query"), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(
        least_squares_shares(weighted, weighted.scores),
        least_squares_shares(copied, copied.scores),
        atol=1e-9,
    )


def test_scores_are_scaled_by_their_spread_within_queries(rng):
    columns, labels, queries = random_columns(rng, 2)
    columns[1] = 100 * columns[1] + 1e4 * queries  # offsets of queries do not count
    given = held_out(columns, labels, queries)
    centres, spreads = given.scaled("query")
    expected = [slow.spread(column, queries.tolist()) for column in columns]
    np.testing.assert_allclose(spreads, expected, rtol=1e-9)
    np.testing.assert_allclose(centres, np.mean(columns, axis=1), rtol=1e-12)
    assert given.scaled("all")[1][1] == pytest.approx(columns[1].std())
    assert [array.tolist() for array in given.scaled(None)] == [[0, 0], [1, 1]]
    constant = held_out([np.full(labels.size, 0.1)], labels, queries)
    assert constant.scaled("query")[1].tolist() == [1]


def test_rows_without_a_score_by_every_part_are_left_out(rng):
    columns, labels, queries = random_columns(rng, 2)
    columns[0][3] = columns[1][5] = np.nan
    given = held_out(columns, labels, queries)
    assert given.data.n_documents == labels.size - 2
    assert held_out([np.full(4, np.nan)], [0, 1, 0, 1], [1, 1, 2, 2]) is None


def test_the_blend_is_the_weighted_sum_of_its_parts(blend, train, vali, test):
    fitted = {name: ranker.fit(train, valid=vali) for name, ranker in parts().items()}
    of_vali = [part.predict(vali) for part in fitted.values()]
    queries = vali.query_of_row.tolist()
    spreads = [slow.spread(column, queries) for column in of_vali]
    units = [column / unit for column, unit in zip(of_vali, spreads, strict=True)]
    weights = slow.least_squares_shares(units, vali.labels.tolist(), queries)
    np.testing.assert_allclose(list(blend.weights_.values()), weights, atol=1e-6)
    expected = sum(
        weight * (part.predict(test) - column.mean()) / unit
        for weight, part, column, unit in zip(
            weights, fitted.values(), of_vali, spreads, strict=True
        )
    )
    np.testing.assert_allclose(blend.predict(test), expected, atol=1e-5)
    assert blend.learned_on_ == "scores of the validation data"
    assert list(blend.held_out_) == ["forest", "boosting", "classes", "blend"]
    ndcg = rw.evaluate(fitted["forest"], vali, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert blend.held_out_["forest"] == pytest.approx(ndcg)


def test_out_of_bag_scores_give_weights_without_validation_data(train):
    models = {name: part for name, part in parts().items() if name != "boosting"}
    blend = rw.Blend(models).fit(train)
    assert blend.learned_on_ == "out-of-bag scores of the training data"
    fitted = [model.fit(train) for model in models.values()]
    scores = np.column_stack([model.oob_scores_ for model in fitted])
    known = ~np.isnan(scores).any(axis=1)
    scores, queries = scores[known], train.query_of_row[known].tolist()
    units = [column / slow.spread(column, queries) for column in scores.T]
    expected = slow.least_squares_shares(units, train.labels[known].tolist(), queries)
    np.testing.assert_allclose(list(blend.weights_.values()), expected, atol=1e-6)


def test_given_weights_are_taken_as_they_are(train, vali, test):
    models = {name: part for name, part in parts().items() if name != "classes"}
    blend = rw.Blend(models, weights=(1, 3), scaling=None).fit(train, valid=vali)
    fitted = [model.fit(train) for model in models.values()]
    expected = fitted[0].predict(test) + 3 * fitted[1].predict(test)
    np.testing.assert_allclose(blend.predict(test), expected, rtol=1e-12)
    equal = rw.Blend(models, weights="equal").fit(train)  # nothing is learned, so none is refused
    assert equal.weights_ == {"forest": 0.5, "boosting": 0.5}
    assert equal.learned_on_ == "scores of the training data"


def test_the_same_part_twice_is_numbered():
    blend = rw.Blend([rw.GBRT(2), rw.RandomForest(2), rw.GBRT(3)], weights="equal")
    data = rw.make_ranking(5, 8, 3, seed=1)
    assert list(blend.fit(data).weights_) == ["GBRT-1", "RandomForest", "GBRT-2"]


def test_data_without_queries_are_blended_by_correlation(train, vali):
    bare = [rw.RankingData(data.features, data.labels) for data in (train, vali)]
    models = [rw.RandomForest(5, measure="rmse"), rw.GBRT(5, min_leaf=5, measure="rmse")]
    blend = rw.Blend(models, rule="search").fit(bare[0], valid=bare[1])
    expected = np.corrcoef(blend.predict(bare[1]), bare[1].labels)[0, 1]
    assert blend.held_out_["blend"] == pytest.approx(expected)
    assert blend.held_out_["blend"] >= max(blend.held_out_.values())


# Weights by document.


@pytest.fixture(scope="module")
def gated(train, vali):
    gate = rw.RandomForest(5, max_leaves=6)
    both = [
        ("forest", rw.RandomForest(6, max_leaves=12)),
        ("extra", rw.ExtraTrees(6, max_leaves=12)),
    ]
    return rw.Blend(both, weights="per-document", strength=1.5, gate=gate).fit(train, valid=vali)


def test_weights_by_document_equal_the_slow_twin(gated, test):
    model = gated.blend_
    units = (gated.predict_parts(test) - model.centres) / model.spreads
    errors = np.column_stack([gate.predict(test) for gate in model.gates])
    expected = [
        slow.gated_score(*row, 1.5)
        for row in zip(units, [model.weights] * len(units), errors, strict=True)
    ]
    np.testing.assert_allclose(gated.predict(test), expected, rtol=1e-9, atol=1e-12)
    weights = gated.weights_of(test)
    assert weights.min() > 0
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert np.ptp(weights[:, 0]) > 0.05


def test_a_gate_finds_where_a_part_errs(rng):
    """Each of two parts is right on one half of the documents, which a feature tells apart."""
    n_queries, n_docs = 60, 12
    queries = np.repeat(np.arange(n_queries), n_docs)
    side = np.tile([0.0, 1.0], queries.size // 2)
    labels = rng.integers(0, 3, queries.size).astype(float)
    hints = [np.where(side == k, labels, rng.permutation(labels)) for k in (0, 1)]
    data = rw.RankingData(np.column_stack([side, *hints]), labels, queries)
    models = {}
    for number in (1, 2):
        one_feature = rw.RankingData(data.features * (np.arange(3) == number), labels, queries)
        models[str(number)] = rw.GBRT(20, min_leaf=5).fit(one_feature)
    constant = rw.Blend.of(models, data)
    by_document = rw.Blend.of(models, data, weights="per-document")
    assert by_document.strength_ > 0
    weights = by_document.weights_of(data)
    assert weights[side == 0, 0].min() > 0.6
    assert weights[side == 1, 0].max() < 0.4
    assert by_document.held_out_["blend"] > constant.held_out_["blend"] + 0.05


def test_gates_that_are_not_ahead_are_left_out(train, vali):
    forest = rw.RandomForest(5).fit(train)
    blend = rw.Blend.of({"one": forest, "same": forest}, vali, weights="per-document")
    assert blend.strength_ == 0
    assert blend.blend_.gates == ()
    assert blend.blend_.is_sum_of_trees
    assert blend.weights_ == rw.Blend.of({"one": forest, "same": forest}, vali).weights_
    few = vali.take_queries([0, 1])
    assert rw.Blend.of([forest, forest], few, weights="per-document", strength=1).strength_ == 0


# Files, exports, explanations.


def test_the_files_of_both_kinds_give_the_same_scores(blend, gated, test, tmp_path):
    for model in (blend, gated):
        rw.save(model, tmp_path / "model")
        back = rw.load(tmp_path / "model")
        assert back.predict(test).tobytes() == model.predict(test).tobytes()
        assert back.weights_ == model.weights_
        assert back.held_out_ == pytest.approx(model.held_out_)
        for name, part in back.parts_.items():
            assert part.predict(test).tobytes() == model.parts_[name].predict(test).tobytes()


def test_a_blend_of_trees_is_one_forest(blend, test):
    forest = blend.forest_
    counted = zip(blend.blend_.parts, blend.blend_.weights.tolist(), strict=True)
    assert forest.n_trees == sum(part.n_trees for part, weight in counted if weight > 0)
    assert blend.predict(test).tobytes() == forest.predict(test).tobytes()
    units = (blend.predict_parts(test) - blend.blend_.centres) / blend.blend_.spreads
    np.testing.assert_allclose(forest.predict(test), units @ blend.blend_.weights, atol=1e-12)


def test_parts_of_weight_0_are_not_in_the_forest(blend):
    model = dataclasses.replace(blend.blend_, weights=np.array([0, 1.0, 0]))
    assert model.forest.n_trees == model.parts[1].n_trees
    linear = rw.RankSVM().fit(rw.make_ranking(5, 8, 6, seed=1)).linear_
    mixed = dataclasses.replace(
        model,
        parts=(dataclasses.replace(linear, feature_names=model.feature_names), *model.parts[1:]),
    )
    assert mixed.is_sum_of_trees


@pytest.mark.parametrize("name", FORMATS)
def test_a_blend_of_trees_is_exported_with_a_certificate(name, blend, test, tmp_path):
    certificate = rw.export(
        blend,
        tmp_path / "model",
        name,
        verify=test,
        **({"nearest_thresholds": True} if name == "solr" else {}),
    )
    assert certificate.n_trees >= blend.forest_.n_trees
    assert (tmp_path / "model").stat().st_size > 0
    if name in ("lightgbm", "json", "ranklib"):
        back = rw.import_model(tmp_path / "model", name, n_features=6)
        np.testing.assert_allclose(
            back.predict(test.features), blend.predict(test), rtol=1e-5, atol=1e-6
        )


def test_what_is_no_sum_of_trees_says_so(gated, train, vali, test, tmp_path):
    with pytest.raises(ModelError, match="weights of its parts depend on the document"):
        rw.export(gated, tmp_path / "model", "json")
    mixed = rw.Blend([rw.RandomForest(3), rw.RankSVM()], weights="equal").fit(train)
    with pytest.raises(ModelError, match=r"part 'RankSVM' \(LinearModel\) is no sum of trees"):
        rw.export(mixed, tmp_path / "model", "json")
    clipped = rw.OrdinalRanker(rw.RandomForest(3), clip=True)
    with pytest.raises(ModelError, match=r"part 'OrdinalRanker' \(OrdinalModel\) is no sum"):
        rw.export(rw.Blend([clipped]).fit(train), tmp_path / "model", "json")
    with pytest.raises(ModelError, match="weights of its parts depend on the document"):
        rw.explain(gated, test)
    assert not (tmp_path / "model").exists()


def test_shapley_values_are_the_weighted_sums_of_the_parts(train, vali, test):
    mixed = rw.Blend([rw.RandomForest(4, max_leaves=6), rw.RankSVM()], weights="equal").fit(train)
    explained = rw.explain(mixed, test)
    factors = mixed.blend_.factors
    each = [rw.explain(part, test).contributions for part in mixed.parts_.values()]
    expected = factors[0] * each[0] + factors[1] * each[1]
    np.testing.assert_allclose(explained.contributions, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(explained.scores, mixed.predict(test), rtol=1e-9, atol=1e-9)


def test_of_trees_too(blend, test):
    explained = rw.explain(blend, test)
    np.testing.assert_allclose(explained.scores, blend.predict(test), atol=1e-9)


def test_hostile_files_are_refused(blend, tmp_path):
    save_model(blend.blend_, tmp_path / "good")
    stored = read_model(tmp_path / "good")

    def changed(record=None, arrays=None):
        meta = {**stored.meta, "blend": {**stored.meta["blend"], **(record or {})}}
        write_model(tmp_path / "bad", "blend", meta, {**stored.arrays, **(arrays or {})})
        return tmp_path / "bad"

    numbers = np.ones(3)
    nested = [{"kind": "blend", "record": {}}] * 3
    wrong = [
        ({"names": ["a", "a", "b"]}, None, "names must be 3 different texts"),
        ({"names": "abc"}, None, "its names must be a list"),
        ({"strength": 1.0}, None, "strength must be above 0 where there are gates"),
        ({"strength": "1"}, None, "strength must be a finite number"),
        ({"gates": [3]}, None, "its record must hold"),
        ({"parts": nested}, None, "part 0 must be of kind forest"),
        ({"parts": stored.meta["blend"]["parts"][:2]}, None, "does not belong to a blend"),
        (None, {"blend.weights": -numbers}, "weights must not be negative"),
        (None, {"blend.weights": 0 * numbers}, "one must be above 0"),
        (None, {"blend.weights": numbers[:2]}, "weights must be 3 finite numbers"),
        (None, {"blend.spreads": 0 * numbers}, "spreads must be above 0"),
        (None, {"blend.centres": numbers * np.inf}, "centres must be 3 finite numbers"),
        (None, {"blend.more": numbers}, "'blend.more' does not belong to a blend"),
        (None, {"parts.7.feature": numbers}, "'parts.7.feature' does not belong to a blend"),
        (None, {"gates.0.feature": numbers}, "'gates.0.feature' does not belong to a blend"),
    ]
    for record, arrays, message in wrong:
        with pytest.raises(ModelError, match=message):
            load_model(changed(record, arrays))


# Models that are fitted already.


def test_fitted_models_are_blended(train, vali, test, blend, tmp_path):
    fitted = {name: ranker.fit(train, valid=vali) for name, ranker in parts().items()}
    of = rw.Blend.of(fitted, vali)
    assert of.weights_ == blend.weights_
    assert of.predict(test).tobytes() == blend.predict(test).tobytes()
    out_of_bag = {name: model for name, model in fitted.items() if name != "boosting"}
    by_oob = rw.Blend.of(out_of_bag, train, weights="oob")
    assert by_oob.weights_ == rw.Blend(out_of_bag).fit(train).weights_
    rw.save(of, tmp_path / "of")
    assert rw.load(tmp_path / "of").predict(test).tobytes() == of.predict(test).tobytes()


def test_bare_models_are_blended(train, vali, test, tmp_path):
    forest = rw.GBRT(5, min_leaf=5).fit(train).forest_
    blend = rw.Blend.of([("imported", forest), ("ours", rw.RandomForest(4).fit(train))], vali)
    rw.save(blend, tmp_path / "model")
    back = rw.load(tmp_path / "model")
    assert back.predict(test).tobytes() == blend.predict(test).tobytes()
    assert back.parts_["imported"] == forest
    with pytest.raises(ParameterError, match=r"part 'imported' was given to Blend\.of as a bare"):
        back.fit(train)
    with pytest.raises(ParameterError, match="part 'imported' is a bare Forest, which cannot be"):
        rw.refit(back, train, vali)


def test_wrong_models_are_refused(train, vali):
    forest = rw.RandomForest(2).fit(train)
    narrow = rw.RankingData(vali.features[:, :5], vali.labels, vali.query_ids)
    wrong = [
        ([rw.GBRT(2)], vali, ParameterError, "part 'GBRT' .* is not fitted yet"),
        ([forest, 3], vali, ParameterError, "part 'int' must be a fitted ranker or a model of"),
        ([rw.Blend.of([forest], vali)], vali, ParameterError, "blends do not nest"),
        ([forest], narrow, DataError, "part 'RandomForest' knows 6 features, but the data have 5"),
        ([forest], "data", DataError, "data must be RankingData, got str"),
        ([], vali, ParameterError, "parts must be a list of at least one ranker"),
    ]
    for models, data, error, message in wrong:
        with pytest.raises(error, match=message):
            rw.Blend.of(models, data)
    with pytest.raises(DataError, match=r"out-of-bag scores of 2.. documents, but the data have"):
        rw.Blend.of([forest], vali, weights="oob")
    with pytest.raises(ParameterError, match=r"part 'GBRT' \(GBRT\) has no out-of-bag scores"):
        rw.Blend.of([rw.GBRT(2).fit(train)], train, weights="oob")


def test_refusals_name_the_part(train, vali):
    with pytest.raises(ParameterError, match=r"part 'boosting' \(GBRT\) has no out-of-bag scores"):
        rw.Blend(parts()).fit(train)
    with pytest.raises(ParameterError, match=r"'oob' needs .* Use weights='validation'"):
        rw.Blend(parts(), weights="oob").fit(train, valid=vali)
    with pytest.raises(ParameterError, match="'validation' needs validation data: pass valid="):
        rw.Blend([rw.RandomForest(2)], weights="validation").fit(train)
    with pytest.raises(ParameterError, match=r"part 'forest' \(RandomForest\): n_trees must be"):
        rw.Blend({"forest": rw.RandomForest(0)}).fit(train)
    with pytest.raises(ParameterError, match=r"part 'GBRT' \(GBRT\): early_stopping needs valid"):
        rw.Blend([rw.GBRT(early_stopping=2)], weights="equal").fit(train)
    with pytest.raises(ParameterError, match="names of parts must differ"):
        rw.Blend([("a", rw.GBRT()), ("a", rw.GBRT())]).fit(train)
    with pytest.raises(ParameterError, match="other than Blend, got Blend as 'Blend'"):
        rw.Blend([rw.Blend()]).fit(train)
    with pytest.raises(DataError, match=r"part 'RankSVM' \(RankSVM\): .*inf"):
        rw.Blend([rw.RankSVM()], weights="equal").fit([[np.inf], [1.0]], [0, 1], [1, 1])


def test_refit_keeps_the_weights(blend, train, vali, test):
    again = rw.refit(blend, train, vali)
    factors = blend.blend_.factors / blend.blend_.factors.sum()
    np.testing.assert_allclose(list(again.weights_.values()), factors)
    assert again.scaling is None
    joined = rw.Blend(parts(), weights=factors, scaling=None).fit(
        rw.RankingData(
            np.concatenate([train.features, vali.features]),
            np.concatenate([train.labels, vali.labels]),
            np.concatenate([train.query_of_row, vali.query_of_row + train.n_queries]),
            feature_names=train.feature_names,
        )
    )
    np.testing.assert_allclose(again.predict(test), joined.predict(test), rtol=1e-9)


def test_a_model_must_have_parts_that_fit_together(blend, train):
    model = blend.blend_
    other = rw.RandomForest(2).fit(train.features[:, :5], train.labels).forest_
    with pytest.raises(ModelError, match="a blend has 1 to 100 parts"):
        BlendModel((), (), [], [], [])
    with pytest.raises(ModelError, match="part 'classes' knows 5 features, but part 'forest' k"):
        dataclasses.replace(model, parts=(*model.parts[:2], other))
    nameless = dataclasses.replace(model.parts[0], feature_names=None)
    if model.feature_names is not None:
        with pytest.raises(ModelError, match="part 'classes' has other names of features"):
            dataclasses.replace(model, parts=(*model.parts[:2], nameless))
    with pytest.raises(ModelError, match="'classes' is a blend; blends do not nest"):
        dataclasses.replace(model, parts=(*model.parts[:2], model))
    with pytest.raises(ModelError, match="there must be 3 gates, one per part, or none"):
        dataclasses.replace(model, gates=(other,), strength=1.0)
