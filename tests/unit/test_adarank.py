"""AdaRank: the paper's rounds, why it stops, ties that give nothing away, and hard cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ParameterError
from rankwood.rankers.linear import FeatureJudge, FeatureRankers, normalised, weight_of
from tests.reference import linear as reference

NEVER = {"tolerance": 1.0, "max_repeats": 1000, "scale": False}


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(40, 12, 8, seed=2)


def continuous(rng, n_queries=12, n_documents=8, n_features=4):
    """Data without ties: what order tied documents stand in makes no difference."""
    labels = rng.integers(0, 3, n_queries * n_documents)
    features = rng.normal(size=(labels.size, n_features)) + 0.3 * labels[:, None]
    return rw.RankingData(features, labels, np.repeat(np.arange(n_queries), n_documents))


@pytest.mark.parametrize("measure", ["map", "ndcg@3", "err@10", "mrr", "tau"])
def test_rounds_equal_the_slow_twin(rng, measure):
    data = continuous(rng)
    parsed = rw.parse_measure(measure)
    rounds, history = reference.adarank(
        data.features, lambda scores: parsed.per_query(np.array(scores), data).tolist(), 15
    )
    model = rw.AdaRank(15, measure, **NEVER).fit(data)
    np.testing.assert_allclose(model.train_history_, history, rtol=1e-12)
    best = int(np.argmax(history)) + 1
    assert model.best_iteration_ == best
    weights = np.zeros(4)
    for feature, sign, alpha in rounds[:best]:
        weights[feature] += sign * alpha
    np.testing.assert_allclose(model.linear_.weights, weights, rtol=1e-12)


def test_a_ranker_counts_as_the_paper_says():
    # P = (½, ½), E = (1, 0.5): ½ ln((½·2 + ½·1.5) / (½·0 + ½·0.5)) = ½ ln 7
    weight = weight_of(np.array([0.5, 0.5]), np.array([1.0, 0.5]))
    assert weight == pytest.approx(0.5 * np.log(7))
    assert np.isfinite(weight_of(np.array([1.0]), np.array([1.0])))
    assert normalised(np.array([1.0, 3.0])).tolist() == [0.25, 0.75]


def test_the_training_measure_of_what_is_kept_is_the_best(data):
    model = rw.AdaRank(30, when_stalled="exclude").fit(data)
    values = model.train_history_
    assert max(values) == values[model.best_iteration_ - 1]
    assert max(values) >= values[0]
    assert values.index(max(values)) == model.best_iteration_ - 1  # of equal ones the first


def test_performance_of_features_and_negations(rng):
    data = continuous(rng)
    measure = rw.parse_measure("map")
    judge = FeatureJudge(measure, data, seed=0)
    rankers = FeatureRankers.of(data, judge, np.array([1, 3]), np.zeros(4), 2)
    assert rankers.features.tolist() == [1, 3, 1, 3]
    assert rankers.signs.tolist() == [1, 1, -1, -1]
    for place, (feature, sign) in enumerate(zip(rankers.features, rankers.signs, strict=True)):
        expected = measure.per_query(sign * data.features[:, feature].astype(float), data)
        assert np.array_equal(rankers.performance[place], expected)
    weights = np.full(12, 1 / 12)
    assert rankers.best(weights, ()) == int(np.argmax(rankers.performance.mean(axis=1)))
    assert rankers.best(weights, {0, 1, 2}) == 3
    assert rankers.best(weights, {0, 1, 2, 3}) is None
    assert rankers.name(3, ("a", "b", "c", "d")) == "the negation of feature 'd'"


def test_data_sorted_by_label_give_nothing_away(rng):
    """Ties in the data's order would make the almost constant feature a perfect ranker."""
    labels = np.tile([3.0, 2, 1, 0, 0, 0], 50)
    qid = np.repeat(np.arange(50), 6)
    almost_constant = np.zeros(300)
    almost_constant[-1] = -1
    useful = labels + rng.normal(0, 1, 300)
    model = rw.AdaRank().fit(np.c_[almost_constant, useful], labels, qid)
    assert model.linear_.weights[0] == 0
    assert model.linear_.weights[1] > 0


def test_the_stall_is_told_and_can_be_overcome():
    # All queries are alike, so all weights are, and the same feature is always best. Places 0 and 2 are relevant: the
    # first feature ranks 0 1 2 3, average precision 5/6; the second 1 0 3 2, its negation 2 3 0 1, no better.
    labels = np.tile([1.0, 0, 1, 0], 20)
    features = np.c_[np.tile([3.0, 2, 1, 0], 20), np.tile([2.0, 3, 0, 1], 20)]
    qid = np.repeat(np.arange(20), 4)
    model = rw.AdaRank(max_repeats=3).fit(features, labels, qid)
    assert model.stopped_because_ == (
        "it stalled: feature '1' was chosen 3 times more without a better training map"
    )
    np.testing.assert_allclose(model.train_history_, [5 / 6] * 3)
    assert model.best_iteration_ == 1
    # The first minus the second is 1 -1 1 -1.
    onward = rw.AdaRank(max_repeats=3, when_stalled="exclude").fit(features, labels, qid)
    assert onward.stopped_because_ == "every training query is ranked perfectly"


def test_a_fall_stops_and_is_undone(rng):
    data = continuous(rng)
    free = rw.AdaRank(40, **NEVER).fit(data).train_history_
    falls = [before - after for before, after in itertools.pairwise(free)]
    tolerance = max(falls) * 0.999
    assert tolerance > 0
    first = next(place for place, fall in enumerate(falls) if fall >= tolerance)
    model = rw.AdaRank(40, **(NEVER | {"tolerance": tolerance})).fit(data)
    assert model.train_history_ == free[: first + 1]
    assert "lowered the training map by" in model.stopped_because_


def test_a_perfect_ranker_ends_it():
    labels = np.tile([2.0, 1, 0], 5)
    qid = np.repeat(np.arange(5), 3)
    model = rw.AdaRank(measure="ndcg").fit(np.c_[-labels, np.ones(15)], labels, qid)
    assert model.stopped_because_ == "every training query is ranked perfectly"
    assert model.linear_.weights[0] < 0  # the negation
    assert model.linear_.weights[1] == 0
    assert model.score(np.c_[-labels, np.ones(15)], labels, qid) == 1.0


def test_all_rounds(data):
    model = rw.AdaRank(2, tolerance=1.0).fit(data)
    assert model.stopped_because_ == "all 2 rounds were done"
    assert len(model.train_history_) == 2


def test_early_stopping_keeps_the_best_rounds(data):
    train, valid = rw.split_queries(data, (0.6, 0.4), seed=1)
    model = rw.AdaRank(50, "ndcg@5", when_stalled="exclude", max_repeats=1, early_stopping=5)
    model.fit(train, valid=valid)
    best = int(np.argmax(model.history_)) + 1
    assert model.best_iteration_ == best
    assert len(model.history_) <= best + 5
    value = rw.evaluate(model, valid, "ndcg@5", n_bootstrap=0)["ndcg@5"].value
    assert value == pytest.approx(model.history_[best - 1])
    with pytest.raises(ParameterError, match="early_stopping needs validation data"):
        rw.AdaRank(early_stopping=5).fit(train)


def test_refit_takes_as_many_rounds(data):
    train, valid = rw.split_queries(data, (0.6, 0.4), seed=1)
    model = rw.AdaRank(50, early_stopping=5).fit(train, valid=valid)
    again = rw.refit(model, train, valid)
    assert again.n_rounds == model.best_iteration_
    assert again.training_["rows"] == data.n_documents
    final = rw.refit(rw.RankSVM(C=0.5).fit(train), train, valid)
    assert final.get_params()["C"] == 0.5
    with pytest.raises(ParameterError, match="not fitted yet: refit needs to know what was chosen"):
        rw.refit(rw.AdaRank(), train, valid)


def test_query_weights_count_as_copies(rng):
    data = continuous(rng, n_queries=6)
    times = np.array([1, 2, 0, 3, 1, 1])
    weighted = rw.AdaRank(10, **NEVER).fit(
        data.features, data.labels, data.query_ids, query_weight=times
    )
    parts = [np.flatnonzero(data.query_of_row == q) for q in range(6) for _ in range(times[q])]
    copied = data.take_rows(np.concatenate(parts))
    qid = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    other = rw.AdaRank(10, **NEVER).fit(copied.features, copied.labels, qid)
    np.testing.assert_allclose(weighted.train_history_, other.train_history_, rtol=1e-12)
    np.testing.assert_allclose(weighted.linear_.weights, other.linear_.weights, rtol=1e-9)


def test_the_scale_of_a_feature_makes_no_difference(data):
    factors = np.array([1.0, 4.0, 0.25, 1, 2, 1, 1024, 1])  # powers of 2: exact
    one = rw.AdaRank(20).fit(data)
    other = rw.AdaRank(20).fit(data.features * factors, data.labels, data.query_ids)
    np.testing.assert_allclose(other.linear_.weights * factors, one.linear_.weights, rtol=1e-12)


def test_missing_values_count_as_the_least(rng):
    data = continuous(rng)
    features = np.array(data.features)
    features[rng.random(features.shape) < 0.3] = np.nan
    filled = np.where(np.isnan(features), np.nanmin(features, axis=0), features)
    one = rw.AdaRank(10, scale=False).fit(features, data.labels, data.query_ids)
    other = rw.AdaRank(10, scale=False).fit(filled, data.labels, data.query_ids)
    assert np.array_equal(one.linear_.fill, np.nanmin(features, axis=0))
    np.testing.assert_allclose(one.linear_.weights, other.linear_.weights, rtol=1e-12)
    assert np.array_equal(one.predict(features), other.predict(filled))


def test_queries_that_are_left_out(rng):
    data = continuous(rng, n_queries=6)
    labels = np.where(data.query_of_row == 2, 0, data.labels)
    model = rw.AdaRank(5, "map[empty=skip]", **NEVER).fit(data.features, labels, data.query_ids)
    kept = data.query_of_row != 2
    other = rw.AdaRank(5, "map", **NEVER).fit(
        data.features[kept], labels[kept], data.query_ids[kept]
    )
    np.testing.assert_allclose(model.train_history_, other.train_history_, rtol=1e-12)
    with pytest.raises(DataError, match=r"every query that counts is empty, and map\[relevant=9"):
        rw.AdaRank(measure="map[relevant=9,empty=skip]").fit(data)
    with pytest.raises(DataError, match=r"no feature reaches a map\[relevant=9\] above 0"):
        rw.AdaRank(measure="map[relevant=9]").fit(data)


def test_constant_features_end_it():
    constant = rw.AdaRank().fit(np.full((3, 2), 0.1), [0, 1, 2], [1, 1, 1])
    assert constant.stopped_because_ == "no feature is left that makes progress"
    assert constant.linear_.weights.tolist() == [0.0, 0.0]


def test_one_query_and_one_document_beside_it():
    model = rw.AdaRank().fit([[0.0], [1.0], [2.0], [9.0]], [0, 1, 2, 1], [1, 1, 1, 2])
    assert model.linear_.weights[0] > 0


def test_huge_labels():
    features = np.arange(4.0).reshape(4, 1)
    labels, qid = [0, 72, 1330, 1], [1, 1, 1, 1]
    assert rw.AdaRank(measure="map").fit(features, labels, qid).linear_.weights[0] > 0
    assert rw.AdaRank(measure="ndcg[gain=linear]").fit(features, labels, qid) is not None
    with pytest.raises(DataError, match=r"labels\[2\] is 1330, too large for the exponential gain"):
        rw.AdaRank(measure="ndcg").fit(features, labels, qid)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"measure": "dcg"}, "a measure of rankings between -1 and 1, and dcg is none"),
        ({"measure": "auc"}, "and auc is none"),
        ({"measure": "rmse"}, "and rmse is none"),
    ],
)
def test_measures_that_are_not_of_rankings(parameters, message):
    with pytest.raises(ParameterError, match=message):
        rw.AdaRank(**parameters).fit([[0.0], [1.0]], [0, 1], [1, 1])


@pytest.mark.jit_only
def test_a_query_of_50_000_documents(rng):
    labels = rng.integers(0, 3, 50_000)
    features = np.c_[rng.normal(size=50_000), labels + rng.normal(size=50_000)]
    model = rw.AdaRank().fit(features, labels, np.zeros(50_000, int))
    assert model.linear_.weights[1] > 0
    assert model.linear_.weights[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("measure", "ranklib"), [("map", 0.465), ("ndcg@10", 0.470)])
def test_quality_on_mq2008(mq2008, measure, ranklib):
    """MAP of RankLib's AdaRank on these folds, with the same training measure."""
    values = []
    for train, valid, test in list(rw.read_folds(mq2008))[:5]:
        model = rw.AdaRank(measure=measure, early_stopping=100).fit(train, valid=valid)
        values.append(rw.evaluate(model, test, "map", n_bootstrap=0)["map"].value)
    assert np.mean(values) >= ranklib
