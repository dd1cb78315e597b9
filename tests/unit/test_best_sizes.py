"""The best size by measure: stages of every ranker, shorter models, choices on validation data, and their costs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import rankwood as rw
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import parse_measure
from rankwood.models.early_exit import forest_of
from rankwood.models.forest import Forest
from rankwood.rankers.base import stages_of
from rankwood.studies.sizes import best_stage
from tests.reference import early_exit as slow

SMALL = {"max_leaves": 4, "min_leaf": 3}
RANKERS = {
    "GBRT": (rw.GBRT(7, **SMALL), range(1, 8), range(1, 8)),
    "LambdaMART": (rw.LambdaMART(5, **SMALL), range(1, 6), range(1, 6)),
    "AveragedGBRT": (rw.AveragedGBRT(4, n_runs=3, **SMALL), range(1, 5), range(3, 13, 3)),
    "InitializedGBRT": (rw.InitializedGBRT(4, forest_trees=3, **SMALL), range(5), range(3, 8)),
    "NDCGBoost": (rw.NDCGBoost(4, min_leaf=3), range(1, 5), range(1, 5)),
    "RankBoost": (rw.RankBoost(4), range(1, 5), range(1, 5)),
    "AdaBoost": (rw.AdaBoost(4), range(1, 5), range(1, 5)),
    "RandomForest": (rw.RandomForest(4, max_leaves=6), range(1, 5), range(1, 5)),
    "BROOF": (rw.BROOF("gradient", 4, 3, max_leaves=6, stop=None), range(1, 5), range(3, 13, 3)),
    "Exp3P": (rw.Exp3P(rw.LambdaMART(**SMALL), n_rounds=4), range(1, 5), range(1, 5)),
}
BASES = {
    "RandomForest": (rw.RandomForest(4, max_leaves=6), range(1, 5), [1, 2, 3, 4]),
    "ExtraTrees": (rw.ExtraTrees(3, max_leaves=6), range(1, 4), [1, 2, 3]),
    "GBRT": (rw.GBRT(5, **SMALL), range(1, 6), [1, 2, 3, 4, 5]),
    "AveragedGBRT": (rw.AveragedGBRT(3, n_runs=2, **SMALL), range(1, 4), [2, 4, 6]),
    "InitializedGBRT": (rw.InitializedGBRT(2, forest_trees=3, **SMALL), range(3), [3, 4, 5]),
}


@pytest.fixture(scope="module")
def parts():
    return rw.split_queries(rw.make_ranking(40, 12, 8, seed=3), (0.5, 0.25, 0.25), seed=1)


@pytest.mark.parametrize("name", RANKERS)
def test_the_first_rounds_of_a_fit_are_the_shorter_fit(name, parts):
    """A fit of fewer rounds grows the same trees: ``truncated`` gives its scores to the bit."""
    train, _, test = parts
    ranker, rounds, trees = RANKERS[name]
    model = ranker.fit(train)
    stages = stages_of(model)
    assert stages.n_rounds.tolist() == list(rounds)
    assert stages.n_trees.tolist() == list(trees)
    length = "n_rounds" if "n_rounds" in model.get_params(deep=False) else "n_trees"
    for n_rounds, n_trees in zip(rounds, trees, strict=True):
        shorter = model.truncated(n_rounds)
        assert shorter.forest_.n_trees == n_trees
        first = stages.forest.predict(test, first_trees=n_trees)
        assert np.array_equal(shorter.predict(test), first)
    if name != "Exp3P":  # its probabilities depend on how many rounds there will be
        middle = rounds[len(rounds) // 2]
        fewer = type(model)(**{**model.get_params(deep=False), length: middle}).fit(train)
        assert np.array_equal(model.truncated(middle).predict(test), fewer.predict(test))
    assert np.array_equal(model.truncated(rounds[-1]).predict(test), model.predict(test))


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("base", BASES)
def test_an_ordinal_model_has_as_many_trees_of_each_grade(base, clip, parts):
    """A stage is the first trees of every T_c, combined: as if each had been fitted shorter."""
    train, _, test = parts
    inner, rounds, trees = BASES[base]
    model = rw.OrdinalRanker(inner, "squared", clip=clip).fit(train)
    n_models = model.grades_.size - 1
    for n_rounds, n_trees in zip(rounds, trees, strict=True):
        shorter = model.truncated(n_rounds)
        assert shorter.ordinal_.tree_counts.tolist() == [n_trees] * n_models
        assert shorter.grades_.tolist() == model.grades_.tolist()
        if n_rounds > 0:
            fewer = type(inner)(**{**inner.get_params(), "n_trees": n_rounds})
            expected = rw.OrdinalRanker(fewer, "squared", clip=clip).fit(train).predict(test)
            np.testing.assert_allclose(shorter.predict(test), expected, atol=1e-12)
    if not clip:
        stages = stages_of(model)
        assert stages.n_trees.tolist() == [n_models * n for n in trees]
        for n_rounds, n_trees in zip(rounds, stages.n_trees.tolist(), strict=True):
            first = stages.forest.predict(test, first_trees=n_trees)
            np.testing.assert_allclose(first, model.truncated(n_rounds).predict(test), atol=1e-12)
        np.testing.assert_allclose(stages.forest.predict(test), model.predict(test), atol=1e-12)


def test_exits_and_curves_pass_an_ordinal_model_round_by_round(parts):
    train, _, test = parts
    model = rw.OrdinalRanker(rw.GBRT(6, **SMALL)).fit(train)
    forest = forest_of(model)
    n_models = model.grades_.size - 1
    found = rw.EarlyExit(2 * n_models, 0.2).score(model, test)
    left = found.n_trees == 2 * n_models
    assert left.any()
    np.testing.assert_allclose(found.scores[left], model.truncated(2).predict(test)[left])
    curve = rw.quality_cost_curve(model, test, every=2 * n_models, exits=None)
    expected = rw.evaluate(model.truncated(2), test, "ndcg@10")["ndcg@10"].value
    assert curve.value[0] == pytest.approx(expected)
    assert curve.n_trees.tolist() == [2 * n_models, 4 * n_models, forest.n_trees]


def test_ordinal_models_that_ended_at_different_trees(parts):
    """Boosted grades keep what they have; the mean of a forest's first trees needs as many of each."""
    train, valid, _ = parts
    base = rw.GBRT(30, **SMALL, learning_rate=0.5, early_stopping=2, measure="rmse")
    model = rw.OrdinalRanker(base).fit(train, valid=valid)
    counts = model.ordinal_.tree_counts
    assert np.unique(counts).size > 1
    stages = stages_of(model)
    assert stages.n_rounds.tolist() == list(range(1, counts.max() + 1))
    shorter = model.truncated(int(counts.max()) - 1)
    assert shorter.ordinal_.tree_counts.tolist() == np.minimum(counts, counts.max() - 1).tolist()
    stop_at = {"done": 0}

    def stop(news):
        stop_at["done"] += 1
        return stop_at["done"] == 2  # within the first grade only

    forest = rw.OrdinalRanker(rw.RandomForest(4, max_leaves=4), callbacks=[stop]).fit(train)
    with pytest.raises(ModelError, match=r"have different numbers of trees \(2, 4"):
        forest.truncated(1)


@pytest.mark.parametrize("name", ["GBRT", "AveragedGBRT", "InitializedGBRT", "RandomForest"])
def test_choices_are_those_of_trying_every_size(name, parts):
    train, valid, test = parts
    model = RANKERS[name][0].fit(train)
    measures = ["ndcg@10", "err[max=4]", "rmse", "p@5", "auc"]
    costs = np.arange(8.0)
    found = rw.best_sizes(model, valid, measures, test=test, costs=costs)
    assert [size.measure for size in found] == measures
    for size in found:
        measure = parse_measure(size.measure)
        tried = {
            n: mean_value(measure, model.truncated(n).predict(valid), valid)
            for n in stages_of(model).n_rounds.tolist()
        }
        sign = -1 if measure.name == "rmse" else 1
        best = max(tried, key=lambda n: (sign * tried[n], -n))
        assert size.n_rounds == best
        assert size.valid == tried[best]
        shorter = model.truncated(best)
        assert size.test == mean_value(measure, shorter.predict(test), test)
        used = slow.features_in_trees(shorter.forest_, size.n_trees)
        assert size.valid_cost == size.test_cost == slow.cost(used, costs, size.n_trees)


@pytest.mark.parametrize("scope", ["query", "all"])
@pytest.mark.parametrize("name", ["GBRT", "RandomForest"])
def test_exits_are_those_of_the_shorter_model(name, scope, parts):
    """A model that ends after n trees has no exit there: as ``EarlyExit.score`` has it, and its slow twin."""
    train, valid, test = parts
    model = {"GBRT": rw.GBRT(9, **SMALL), "RandomForest": rw.RandomForest(9, max_leaves=5)}[name]
    model.fit(train)
    exits = rw.EarlyExit(2, 0.3, scope)
    costs = np.arange(8.0)
    found = rw.best_sizes(model, valid, ["p@5", "rmse"], test=test, costs=costs, exits=exits)
    for size in found:
        measure = parse_measure(size.measure)
        shorter = model.truncated(size.n_rounds).forest_
        groups = test.query_of_row.tolist() if scope == "query" else [0] * test.n_documents
        scores, n_trees = slow.early_exit(shorter, test.features, groups, 2, 0.3)
        spent = [slow.cost(slow.features_in_trees(shorter, n), costs, n) for n in n_trees]
        assert size.test_cost == pytest.approx(np.mean(spent))
        assert size.test == pytest.approx(mean_value(measure, np.array(scores), test))
        again = exits.score(shorter, valid, costs=costs)
        assert size.valid == pytest.approx(mean_value(measure, again.scores, valid))
        assert size.valid_cost == pytest.approx(again.mean_cost)


def test_every_so_many_rounds_and_the_last(parts):
    train, valid, _ = parts
    model = rw.GBRT(7, **SMALL).fit(train)
    assert stages_of(model).thinned(3).n_rounds.tolist() == [3, 6, 7]
    started = rw.InitializedGBRT(7, forest_trees=2, **SMALL).fit(train)
    assert stages_of(started).thinned(3).n_rounds.tolist() == [0, 3, 6, 7]
    assert stages_of(model).thinned(100).n_rounds.tolist() == [7]
    assert rw.best_sizes(model, valid, every=100)["ndcg@10"].n_rounds == 7
    with pytest.raises(ParameterError, match="every must be a whole number of at least 1, got 0"):
        rw.best_sizes(model, valid, every=0)


def test_err_has_one_scale_for_validation_and_test_data(parts):
    train, valid, test = parts
    model = rw.GBRT(3, early_stopping=None).fit(train)
    poorer = rw.RankingData(test.features, np.minimum(test.labels, 1), test.query_ids)
    assert poorer.labels.max() < valid.labels.max()
    size = rw.best_sizes(model, valid, "err", test=poorer)["err"]
    scores = model.truncated(size.n_rounds).predict(poorer)
    largest = f"err[max={valid.labels.max():g}]"
    assert size.test == mean_value(parse_measure(largest), scores, poorer)


def test_the_first_of_equal_values_and_never_nan():
    ndcg, rmse = parse_measure("ndcg@10"), parse_measure("rmse")
    assert best_stage(np.array([0.1, np.nan, 0.3, 0.3]), ndcg) == 2
    assert best_stage(np.array([0.3, np.nan, 0.1, 0.1]), rmse) == 2
    assert best_stage(np.array([np.nan, np.nan]), ndcg) == 1


def test_a_bare_forest_and_the_same_for_any_number_of_threads(parts):
    train, valid, _ = parts
    model = rw.RandomForest(6, max_leaves=6).fit(train)
    found = [rw.best_sizes(model, valid, ["map", "auc"], n_threads=n).to_dict() for n in (1, 2, 5)]
    assert found[0] == found[1] == found[2]
    assert rw.best_sizes(model.forest_, valid, ["map", "auc"]).to_dict() == found[0]


def test_a_shorter_model_is_saved_and_refitted_as_such(parts, tmp_path):
    train, valid, test = parts
    model = rw.GBRT(6, **SMALL).fit(train, valid=valid)
    shorter = model.truncated(2)
    assert len(model.history_) == 6
    assert shorter.history_ == model.history_[:2]
    assert shorter.best_iteration_ == 2
    rw.save(shorter, tmp_path / "short.rankwood")
    again = rw.load(tmp_path / "short.rankwood")
    assert np.array_equal(again.predict(test), shorter.predict(test))
    assert np.array_equal(again.truncated(1).predict(test), model.truncated(1).predict(test))
    assert rw.refit(shorter, train, valid).forest_.n_trees == 2
    forest = rw.RandomForest(4, max_leaves=4).fit(train)
    assert forest.oob_ndcg_ is not None
    with pytest.raises(AttributeError, match="no out-of-bag estimates"):
        _ = forest.truncated(2).oob_scores_
    assert forest.oob_scores_.size == train.n_documents


def test_what_it_shows(parts, tmp_path):
    train, valid, test = parts
    model = rw.GBRT(5, **SMALL).fit(train)
    exits = rw.EarlyExit(2, 0.1, "all")
    found = rw.best_sizes(model, valid, ["ndcg@10", "rmse"], test=test, exits=exits)
    text = str(found)
    assert text.splitlines()[0].split() == [
        *("measure", "rounds", "trees", "valid", "cost", "test", "test", "cost")
    ]
    assert "chosen on the validation data, of at most 5 rounds" in text
    assert "10% of the documents in play leave every 2 trees (scope all)" in text
    found.write_csv(tmp_path / "sizes.csv")
    lines = (tmp_path / "sizes.csv").read_text().splitlines()
    assert lines[0] == "measure,rounds,trees,valid,cost,test,test cost"
    assert len(lines) == len(found) + 1 == 3
    assert found["NDCG@10"] is found.sizes[0]
    assert "<table>" in found._repr_html_()
    with pytest.raises(UnknownName, match="measure of these sizes 'map' is not known"):
        found["map"]
    assert list(rw.best_sizes(model, valid).to_dict()["sizes"][0]) == [
        *("measure", "rounds", "trees", "valid", "cost")
    ]


@pytest.mark.parametrize("n_rounds", [0, 8, 2.5, True, None, "3"])
def test_sizes_that_a_model_does_not_have(n_rounds, parts):
    model = rw.GBRT(7, **SMALL).fit(parts[0])
    with pytest.raises(ParameterError, match="n_rounds must be a whole number between 1 and 7"):
        model.truncated(n_rounds)


def test_wrong_arguments(parts):
    train, valid, _ = parts
    model = rw.GBRT(3, **SMALL).fit(train)
    with pytest.raises(ParameterError, match="measures is empty"):
        rw.best_sizes(model, valid, [])
    with pytest.raises(ParameterError, match="measure 'map' is given twice"):
        rw.best_sizes(model, valid, ["map", " MAP"])
    with pytest.raises(
        DataError, match="valid must be labelled documents: pass RankingData, not n"
    ):
        rw.best_sizes(model, np.zeros((3, 8)))
    with pytest.raises(DataError, match="test has no documents"):
        rw.best_sizes(model, valid, test=valid.take_rows([]))
    bare = rw.RankingData(valid.features, valid.labels, None)
    with pytest.raises(DataError, match=r"valid has no query ids, which ndcg@10.* needs"):
        rw.best_sizes(model, bare)
    assert rw.best_sizes(model, bare, "rmse")["rmse"].n_rounds >= 1
    with pytest.raises(ParameterError, match="feature_costs has 2 values, but there are 8"):
        rw.best_sizes(model, valid, costs=[1, 2])


def test_models_without_sizes(parts):
    train, valid, _ = parts
    with pytest.raises(NotFittedError, match="not fitted yet"):
        rw.best_sizes(rw.GBRT(), valid)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        rw.OrdinalRanker().truncated(1)
    linear = rw.RankSVM().fit(train)
    with pytest.raises(ModelError, match="RankSVM has no trees that were added round by round"):
        rw.best_sizes(linear, valid)
    with pytest.raises(ModelError, match="RankSVM has no trees"):
        linear.truncated(1)
    with pytest.raises(
        ModelError, match="dict has no trees that were added round by round: pass a"
    ):
        rw.best_sizes({}, valid)
    with pytest.raises(ModelError, match="the model has no trees"):
        rw.best_sizes(Forest.from_trees([], n_features=8), valid)
    clipped = rw.OrdinalRanker(rw.GBRT(3, **SMALL), clip=True).fit(train)
    with pytest.raises(ModelError, match="clipped probabilities are no sum of trees"):
        rw.best_sizes(clipped, valid)
    same = rw.RankingData(train.features, np.ones(train.n_documents), train.query_ids)
    with pytest.raises(ModelError, match="this OrdinalRanker has no trees, and no smaller models"):
        rw.OrdinalRanker(rw.GBRT(2)).fit(same).truncated(1)
