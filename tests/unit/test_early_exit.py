"""Early exits: who leaves, what they keep, what is saved; and features fetched on first need."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwood as rw
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.models import early_exit as module
from rankwood.models import scoring
from rankwood.models.forest import NEVER, Forest, cost_of_trees, first_uses
from tests.reference import early_exit as slow
from tests.reference.forest import nasty_values, random_forest


def documents(rng, n_rows, n_features):
    return rng.choice(nasty_values(), (n_rows, n_features)).astype(np.float32)


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 20, 8, seed=3)


@pytest.fixture(scope="module", params=["RandomForest", "GBRT"])
def model(request, data):
    return getattr(rw, request.param)(20, max_leaves=8, min_leaf=5, seed=1).fit(data)


@given(
    seed=st.integers(0, 10_000),
    average=st.booleans(),
    every=st.integers(1, 6),
    drop=st.sampled_from([0.0, 0.1, 0.29, 0.3, 0.5, 0.99]),
    scope=st.sampled_from(["query", "all"]),
)
def test_scores_trees_and_costs_equal_the_slow_twin(seed, average, every, drop, scope):
    rng = np.random.default_rng(seed)
    forest = random_forest(
        rng, n_trees=int(rng.integers(0, 8)), third=0.3 * (seed % 2), average=average
    )
    n_rows = int(rng.integers(1, 25))
    features = documents(rng, n_rows, 4)
    queries = rng.integers(0, 3, n_rows)  # separated rows, too
    data = rw.RankingData(features, np.zeros(n_rows), queries)
    costs = rng.integers(0, 9, 4).astype(float)
    exits = rw.EarlyExit(every, drop, scope)
    groups = queries.tolist() if scope == "query" else [0] * n_rows
    scores, n_trees = slow.early_exit(forest, features, groups, every, drop)
    for counted in ("all", "path"):
        found = exits.score(forest, data, costs=costs, cost=counted)
        np.testing.assert_allclose(found.scores, scores, rtol=1e-12)
        assert found.n_trees.tolist() == n_trees
        for row, passed in enumerate(n_trees):
            used = slow.features_in_trees(forest, passed)
            if counted == "path":
                used = slow.features_on_path(forest, features[row], passed)
            assert found.n_features[row] == len(used)
            assert found.cost[row] == slow.cost(used, costs, passed)


@given(
    scores=st.lists(st.sampled_from([-1.5, 0.0, -0.0, 0.25, 7.0]), min_size=1, max_size=40),
    n_groups=st.integers(1, 4),
    drop=st.sampled_from([0.05, 0.1, 0.25, 0.29, 0.58, 0.9]),
)
def test_who_leaves_equals_the_slow_twin(scores, n_groups, drop):
    groups = [(place * 7) % n_groups for place in range(len(scores))]
    rows = 3 * np.arange(len(scores))  # others have left
    group_of_row = np.zeros(3 * len(scores), np.int64)
    group_of_row[rows] = groups
    found = rw.EarlyExit(drop=drop).leaving(np.array(scores), rows, group_of_row)
    assert found.tolist() == [3 * place for place in slow.leaving(scores, groups, drop)]


def test_a_share_is_rounded_down_of_those_still_in_play():
    # 10 documents, a quarter at each exit: 10 - 2 = 8, 8 - 2 = 6, 6 - 1 = 5.
    tree = {"feature": [-1], "threshold": [0], "left": [0], "right": [0], "missing": [0]}
    forest = Forest.from_trees([tree | {"value": [0.0]}] * 4, n_features=1)
    found = rw.EarlyExit(1, 0.25, "all").score(forest, np.zeros((10, 1), np.float32))
    # all scores are equal: the later rows leave first
    assert found.n_trees.tolist() == [4, 4, 4, 4, 4, 3, 2, 2, 1, 1]


def test_a_frozen_document_of_an_averaged_forest_keeps_the_mean_of_its_trees():
    def leaf(value):
        return {
            "feature": [0, -1, -1],
            "threshold": [0, 0, 0],
            "left": [1, 0, 0],
            "right": [2, 0, 0],
            "missing": [1, 0, 0],
            "value": [0.0, value, 9.0],
        }

    forest = Forest.from_trees([leaf(1.0), leaf(2.0), leaf(6.0)], n_features=1, average=True)
    features = np.array([[-1.0], [1.0]], np.float32)  # the first goes left and is the worse
    found = rw.EarlyExit(2, 0.5, "all").score(forest, features)
    assert found.scores.tolist() == [(1.0 + 2.0) / 2, 9.0]  # not (1 + 2 + 6) / 3
    summed = Forest.from_trees([leaf(1.0), leaf(2.0), leaf(6.0)], n_features=1, base=10.0)
    assert rw.EarlyExit(2, 0.5, "all").score(summed, features).scores.tolist() == [13.0, 37.0]


def test_without_exits_the_scores_are_the_models_own(model, data):
    expected = model.predict(data)
    for exits in (rw.EarlyExit(3, 0.0), rw.EarlyExit(20), rw.EarlyExit(500, 0.9, "all")):
        found = exits.score(model, data)
        assert np.array_equal(found.scores, expected)
        assert (found.n_trees == 20).all()
        assert found.mean_cost == cost_of_trees(model.forest_, np.ones(8))[-1]


def test_who_stays_has_the_models_score_and_who_leaves_that_of_the_trees_passed(model, data):
    found = rw.EarlyExit(5, 0.2).score(model, data)
    assert sorted(set(found.n_trees.tolist())) == [5, 10, 15, 20]
    for n_trees in (5, 10, 15, 20):
        rows = found.n_trees == n_trees
        expected = model.forest_.predict(data, first_trees=n_trees)
        assert np.array_equal(found.scores[rows], expected[rows])


def test_the_same_for_any_number_of_threads(model, data, monkeypatch):
    monkeypatch.setattr(module, "_LEAST_WALKS", 1)
    monkeypatch.setattr(scoring, "_LEAST_WALKS", 1)
    monkeypatch.setattr(scoring, "_GATHERED_ROWS", 37)  # and for any part of the rows
    costs = np.linspace(0.1, 0.7, 8)
    found = [
        rw.EarlyExit(4, 0.15).score(model, data, costs=costs, cost="path", n_threads=n)
        for n in (1, 2, 8)
    ]
    for name in ("scores", "n_trees", "n_features", "cost"):
        assert len({getattr(result, name).tobytes() for result in found}) == 1


def test_the_work_is_really_skipped(model, data, monkeypatch):
    """What reaches the scoring kernel is what the counters say, and no more."""
    walked = []
    traverse = scoring.traverse

    def watching(first, last, first_tree, last_tree, *others):
        walked.append((last - first) * (last_tree - first_tree))
        traverse(first, last, first_tree, last_tree, *others)

    monkeypatch.setattr(scoring, "traverse", watching)
    found = rw.EarlyExit(5, 0.2).score(model, data, cost="path")
    assert sum(walked) == found.n_trees.sum() < 20 * data.n_documents


@pytest.mark.parametrize(("every", "drop"), [(1, 0.1), (3, 0.9), (7, 0.5), (50, 0.5)])
def test_queries_one_after_the_other_are_scored_as_exit_by_exit(data, monkeypatch, every, drop):
    monkeypatch.setattr(module, "_LEAST_WALKS", 1)
    shuffled = data.take_rows(np.random.default_rng(1).permutation(data.n_documents))
    for ranker in (rw.RandomForest(20, max_leaves=9), rw.GBRT(20, max_leaves=5, min_leaf=3)):
        forest = ranker.fit(data).forest_
        for queries in (data, shuffled, data.take_rows([3]), data.take_queries([0])):
            exits = rw.EarlyExit(every, drop)
            at_once = exits.score(forest, queries, n_threads=2)
            by_exit = exits.score(forest, queries, cost="path", n_threads=1)
            assert at_once.scores.tobytes() == by_exit.scores.tobytes()
            assert at_once.n_trees.tolist() == by_exit.n_trees.tolist()


class Fetcher:
    """Gives columns of a matrix, and remembers what it was asked for."""

    def __init__(self, features):
        self.features = features
        self.asked = Counter()

    def __call__(self, feature, rows):
        assert (np.diff(rows) > 0).all()
        self.asked.update((feature, row) for row in rows.tolist())
        return self.features[rows, feature]


def test_features_are_fetched_once_and_only_for_documents_in_play(model, data):
    fetcher = Fetcher(data.features)
    exits = rw.EarlyExit(2, 0.3)
    lazy = exits.score(model, rw.LazyFeatures(fetcher, query_ids=data.query_ids))
    eager = exits.score(model, data)
    for name in ("scores", "n_trees", "n_features", "cost"):
        assert np.array_equal(getattr(lazy, name), getattr(eager, name))
    assert set(fetcher.asked.values()) == {1}
    # A document needs the features of the trees it passed, and is asked for nothing else.
    needed = {
        (feature, row)
        for row, passed in enumerate(eager.n_trees.tolist())
        for feature in slow.features_in_trees(model.forest_, passed)
    }
    assert set(fetcher.asked) == needed
    assert len(fetcher.asked) == eager.n_features.sum()


def test_fetching_saves_features_that_only_late_trees_use():
    def stump(feature):
        return {
            "feature": [feature, -1, -1],
            "threshold": [0.0, 0, 0],
            "left": [1, 0, 0],
            "right": [2, 0, 0],
            "missing": [2, 0, 0],
            "value": [0, 0.0, 1.0],
        }

    forest = Forest.from_trees([stump(0), stump(1), stump(0)], n_features=3)
    assert first_uses(forest).tolist() == [0, 1, NEVER]
    features = np.array([[-1, 5, 0], [1, -5, 0], [-1, 5, 0], [1, 5, 0]], np.float32)
    fetcher = Fetcher(features)
    found = rw.EarlyExit(1, 0.5, "all").score(
        forest, rw.LazyFeatures(fetcher, n_documents=4), costs=[1, 100, 1000]
    )
    assert set(fetcher.asked) == {(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 3)}
    # Rows 0 and 2 leave after the first tree: cost 1 + 1. Row 1 leaves after two: 1 + 100 + 2. Row 3 stays: + 3.
    assert found.cost.tolist() == [2, 103, 2, 104]
    assert found.n_features.tolist() == [1, 2, 1, 2]


def test_tables_with_names_are_put_in_order(data):
    import pandas as pd

    frame = pd.DataFrame(data.features, columns=list("abcdefgh"))
    model = rw.GBRT(6, min_leaf=5).fit(frame, data.labels)
    exits = rw.EarlyExit(2, 0.2, "all")
    turned = exits.score(model, frame[list("hgfedcba")], costs=dict.fromkeys("abcdefgh", 2.0))
    assert np.array_equal(turned.scores, exits.score(model, frame).scores)


def test_no_documents_and_one(model):
    exits = rw.EarlyExit(5, 0.5, "all")
    nothing = exits.score(model, np.zeros((0, 8), np.float32), cost="path")
    assert nothing.scores.size == nothing.mean_cost == nothing.mean_trees == 0
    one = np.zeros((1, 8), np.float32)
    assert exits.score(model, one).scores == model.predict(one)  # half of one document is none
    assert "1 documents, 20.0 trees" in repr(exits.score(model, one))


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"every": 0}, ParameterError, "every must be a whole number of at least 1, got 0"),
        ({"every": 2.5}, ParameterError, "every must be a whole number"),
        ({"drop": 1.0}, ParameterError, r"drop must be in \[0, 1\), got 1.0"),
        ({"drop": -0.1}, ParameterError, r"drop must be in \[0, 1\)"),
        ({"drop": float("nan")}, ParameterError, r"drop must be in \[0, 1\)"),
        ({"scope": "quer"}, UnknownName, "scope 'quer' is not known. Did you mean 'query'"),
    ],
)
def test_wrong_exits(options, kind, message):
    with pytest.raises(kind, match=message):
        rw.EarlyExit(**options)


def test_exits_as_text():
    assert rw.EarlyExit.parse("every=7,drop=0.25,scope=all") == rw.EarlyExit(7, 0.25, "all")
    assert rw.EarlyExit.parse("drop=0.2") == rw.EarlyExit(drop=0.2)
    with pytest.raises(UnknownName, match="part of an early exit 'everi' is not known"):
        rw.EarlyExit.parse("everi=7")
    with pytest.raises(ParameterError, match=r"every of an early exit cannot be '1\.5'"):
        rw.EarlyExit.parse("every=1.5")


def test_wrong_calls(model, data):
    exits = rw.EarlyExit(5)
    with pytest.raises(DataError, match="scope='query' needs to know which documents belong"):
        exits.score(model, data.features)
    with pytest.raises(DataError, match="scope='query' needs"):  # though no exit is reached
        rw.EarlyExit(500).score(model, data.features)
    with pytest.raises(ModelError, match="GBRT has no trees to pass"):
        exits.score(rw.GBRT(), data)
    with pytest.raises(ModelError, match="str has no trees"):
        exits.score("model.rankwood", data)
    with pytest.raises(UnknownName, match="way to count costs 'paths' is not known"):
        exits.score(model, data, cost="paths")
    with pytest.raises(ParameterError, match="feature_costs has 3 values, but there are 8"):
        exits.score(model, data, costs=[1, 2, 3])
    with pytest.raises(DataError, match="knows 8 features, but the data have 7"):
        exits.score(model, rw.RankingData(data.features[:, :7], data.labels, data.query_ids))


def test_wrong_fetchers(model, data):
    exits = rw.EarlyExit(5)

    def score(fetch):
        return exits.score(model, rw.LazyFeatures(fetch, data.query_ids))

    with pytest.raises(DataError, match=r"asked for 733 values, and gave an array of shape \(3,\)"):
        score(lambda _, __: np.zeros(3))
    with pytest.raises(DataError, match=r"fetch\(\d, rows\): features must be numbers"):
        score(lambda _, rows: np.array(["a"] * rows.size))
    with pytest.raises(DataError, match=r"fetch\(\d, rows\): .*beyond float32"):
        score(lambda _, rows: np.full(rows.size, 1e39))
    with pytest.raises(ValueError, match="read-only"):
        score(lambda _, rows: rows.sort())
    with pytest.raises(ParameterError, match="fetch must be a function, got ndarray"):
        rw.LazyFeatures(data.features, data.query_ids)
    with pytest.raises(ParameterError, match="needs query_ids, or n_documents"):
        rw.LazyFeatures(score)
    with pytest.raises(DataError, match="query_ids has 733 values, but there are 5 rows"):
        exits.score(model, rw.LazyFeatures(score, data.query_ids, n_documents=5))


@pytest.mark.slow
def test_exits_hardly_touch_the_ranking_of_mq2008(mq2008):
    """The bound is the issue's: a tenth leaving every 100 of 1,000 trees moves NDCG@10 by at most 0.002."""
    changes = []
    for train, _, test in rw.read_folds(mq2008):
        model = rw.GBRT(1000, max_leaves=8, learning_rate=0.02, min_leaf=20, seed=1).fit(train)
        found = rw.EarlyExit(every=100, drop=0.10).score(model, test)
        assert found.mean_trees < 800
        before, after = (
            rw.evaluate(scores, test, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
            for scores in (model.predict(test), found.scores)
        )
        changes.append(after - before)
    assert abs(np.mean(changes)) <= 0.002
