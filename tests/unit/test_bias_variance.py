"""Error = bias² + variance: by hand, against the slow twin, for rankers whose figures are known, on any threads."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import rankwood as rw
from rankwood.errors import DataError, MissingExtra, ParameterError, UnknownName
from rankwood.studies.bias_variance import DocumentPairs, resample
from tests.reference import bias_variance as reference


class ByFeature(BaseEstimator):
    """The same strict order in every training."""

    def fit(self, data, valid=None):  # noqa: ARG002
        return self

    def predict(self, data):
        return data.features[:, 0].astype(float) + np.arange(data.n_documents) * 1e-9


class AllEqual(ByFeature):
    def predict(self, data):
        return np.full(data.n_documents, 0.25)


class Guessing(BaseEstimator):
    """Scores drawn by the seed it is given."""

    def __init__(self, seed=0):
        self.seed = seed

    def fit(self, data, valid=None):  # noqa: ARG002
        return self

    def predict(self, data):
        return np.random.default_rng(self.seed).random(data.n_documents)


class StagedForest(rw.RandomForest):
    """A forest that tells its scores after every second tree."""

    def predict_layers(self, X):
        return np.column_stack([scores for _, scores in self.forest_.predict_stages(X, every=2)])


def parts_of(seed=1, n_queries=30):
    data = rw.make_ranking(n_queries=n_queries, docs_per_query=8, n_features=6, seed=seed)
    return rw.split_queries(data, (0.5, 0.2, 0.3), seed=seed)


def figures(result):
    return (result.error, result.bias_squared, result.variance)


def query_data(labels, query_ids=None):
    labels = np.asarray(labels, float)
    ids = np.zeros(labels.size, int) if query_ids is None else query_ids
    return rw.RankingData(np.zeros((labels.size, 1)), labels, ids)


def test_worked_by_hand():
    # Labels 1, 0, 0; two trainings score (3, 2, 1) and (2, 2, 3). Pair (0, 1): above once, tied once: p = 3/4 with
    # half ties, so bias² (1/4)² = 1/16, variance 3/16, error 1/4. Pair (0, 2): above once of two: p = 1/2, bias² 1/4,
    # variance 1/4, error 1/2. Means: 3/8, 5/32, 7/32.
    data = query_data([1, 0, 0])
    scores = [np.array([3.0, 2.0, 1.0]), np.array([2.0, 2.0, 3.0])]
    values = DocumentPairs.of(data, "different", 100, 0).decompose(scores, "half", 1)
    assert values.tolist() == [[3 / 8, 5 / 32, 7 / 32]]
    # Strict: a tie is not above, from either side. (0, 1): p = 1/2 forth, 0 back: errors 1/2 and 0, bias² 1/4 and 0,
    # variance 1/4 and 0. (0, 2): p = 1/2 both ways: errors 1/2, bias² 1/4, variance 1/4 each. Sums over four ordered
    # pairs: 3/2, 3/4, 3/4.
    values = DocumentPairs.of(data, "different", 100, 0).decompose(scores, "strict", 1)
    assert values.tolist() == [[3 / 8, 3 / 16, 3 / 16]]
    # All pairs: (1, 2) has equal labels, t = 0 both ways. It is above once, below once: p = 1/2 both ways: errors 1/2,
    # bias² 1/4, variance 1/4. With the two above: (1/4 + 1/2 + 1/2) / 3, (1/16 + 1/4 + 1/4) / 3, (3/16 + 1/4 + 1/4) / 3.
    values = DocumentPairs.of(data, "all", 100, 0).decompose(scores, "half", 1)
    np.testing.assert_allclose(values, [[5 / 12, 3 / 16, 11 / 48]], rtol=0, atol=1e-15)


@pytest.mark.parametrize("pairs", ["different", "all"])
@pytest.mark.parametrize("ties", ["half", "strict"])
@pytest.mark.parametrize("n_trainings", [1, 2, 5])
def test_kernel_equals_the_slow_twin(rng, monkeypatch, pairs, ties, n_trainings):
    monkeypatch.setattr("rankwood.studies.bias_variance._LEAST_PAIRS", 1)
    n_rows = 120
    # Rows of a query stand apart, single documents and queries of one label are among them, and scores are tied.
    query_ids = rng.integers(0, 25, n_rows)
    labels = rng.integers(0, 3, n_rows).astype(float)
    labels[query_ids == 3] = 1.0
    data = query_data(labels, query_ids)
    scores = [rng.integers(0, 4, n_rows).astype(float) for _ in range(n_trainings)]
    scores[0][:5] = -np.inf
    values = DocumentPairs.of(data, pairs, 10_000, 0).decompose(scores, ties, 2)
    for (_, rows), found in zip(data.iter_queries(), values, strict=True):
        expected = reference.of_query(labels[rows], [each[rows] for each in scores], pairs, ties)
        if expected is None:
            assert np.isnan(found).all()
        else:
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
            assert found[0] == pytest.approx(found[1] + found[2], abs=1e-12)


@pytest.mark.parametrize("pairs", ["different", "all"])
@pytest.mark.parametrize("ties", ["half", "strict"])
def test_error_is_bias_plus_variance(pairs, ties):
    train, _, test = parts_of()
    algorithms = {"forest": rw.RandomForest(3, max_leaves=4), "boosted": rw.GBRT(3, min_leaf=1)}
    result = rw.bias_variance(algorithms, train, test, trainings=3, pairs=pairs, ties=ties)
    assert list(result) == ["forest", "boosted"]
    for name in result:
        error, bias, variance = figures(result[name])
        assert abs(error - (bias + variance)) < 1e-12
        assert 0 < bias < 1
        assert 0 < variance <= 0.25


def test_the_same_strict_order_in_every_training_has_no_variance():
    train, _, test = parts_of()
    for pairs in ("different", "all"):
        result = rw.bias_variance(ByFeature(), train, test, pairs=pairs)["ByFeature"]
        assert result.variance == 0.0
        assert result.error == result.bias_squared > 0


def test_equal_scores_have_a_quarter_of_each():
    train, _, test = parts_of()
    for pairs in ("different", "all"):
        result = rw.bias_variance(AllEqual(), train, test, pairs=pairs)["AllEqual"]
        assert figures(result) == (0.5, 0.25, 0.25)


def test_a_random_ranker_is_half_wrong():
    # Each of 200 trainings errs on half of the pairs in expectation; the mean of some 60 independent documents' pairs
    # over 200 trainings has a standard error below 0.01. Its variance is 1/4 (1 - 1/200).
    train, _, test = parts_of()
    result = rw.bias_variance(Guessing(), train, test, trainings=200)["Guessing"]
    assert result.error == pytest.approx(0.5, abs=0.03)
    assert result.variance == pytest.approx(0.25 * (1 - 1 / 200), abs=0.003)


def test_any_number_of_threads_gives_the_same():
    train, vali, test = parts_of()
    algorithms = {
        "forest": rw.RandomForest(4, max_leaves=4),
        "boosted": rw.LambdaMART(3, min_leaf=1, early_stopping=2),
    }
    found = [
        rw.bias_variance(algorithms, train, test, valid=vali, trainings=3, n_threads=n).to_dict()
        for n in (1, 2, 5)
    ]
    assert found[0] == found[1] == found[2]
    other = rw.bias_variance(algorithms, train, test, valid=vali, trainings=3, seed=1).to_dict()
    assert other["algorithms"] != found[0]["algorithms"]


def test_layers_of_models_that_have_them():
    train, _, test = parts_of()
    result = rw.bias_variance(
        {"staged": StagedForest(5, max_leaves=4), "plain": rw.RandomForest(5, max_leaves=4)},
        train,
        test,
        trainings=3,
    )
    staged = result["staged"]
    assert len(staged.layers) == 3  # after 2, 4 and 5 trees
    assert figures(staged.layers[-1]) == figures(staged) == figures(result["plain"])
    assert result["plain"].layers == ()
    assert staged.layers[0] != staged.layers[-1]
    assert "staged, layer 2" in str(result)


class GrowsByItsSeed(StagedForest):
    """A cascade whose depth differs from training to training."""

    def fit(self, X, y=None, qid=None, **options):
        self.n_trees = 2 + 2 * (self.seed % 2)
        return super().fit(X, y, qid, **options)


def test_a_training_with_fewer_layers_counts_with_its_last():
    train, _, test = parts_of()
    result = rw.bias_variance(GrowsByItsSeed(max_leaves=4), train, test, trainings=6)
    layers = result["GrowsByItsSeed"].layers
    assert len(layers) == 2
    assert figures(layers[-1]) == figures(result["GrowsByItsSeed"])


def test_folds_are_averaged():
    data = rw.make_ranking(n_queries=18, docs_per_query=6, n_features=5, seed=2)
    folds = rw.make_folds(data, 3)
    result = rw.bias_variance(rw.RandomForest(3, max_leaves=4), folds, trainings=2)["RandomForest"]
    assert len(result.folds) == 3
    means = np.mean([fold.means[-1] for fold in result.folds], axis=0)
    np.testing.assert_allclose(figures(result), means, rtol=1e-15)
    one = rw.bias_variance(rw.RandomForest(3, max_leaves=4), folds[0], trainings=2)["RandomForest"]
    assert figures(one) == tuple(result.folds[0].means[-1])


def test_means_are_over_pairs_then_over_queries_by_their_weight():
    # Query a has one pair, query b four of them; by the first feature a is right, b is wrong throughout.
    features = np.array([[2.0], [1.0], [1.0], [2.0], [2.0], [2.0], [2.0]])
    labels = [1, 0, 1, 0, 0, 0, 0]
    ids = ["a", "a", "b", "b", "b", "b", "b"]
    plain = rw.RankingData(features, labels, ids)
    assert rw.bias_variance(ByFeature(), plain, plain)["ByFeature"].error == 0.5
    heavy = rw.RankingData(features, labels, ids, query_weights={"a": 3.0, "b": 1.0})
    assert rw.bias_variance(ByFeature(), plain, heavy)["ByFeature"].error == 0.25


def test_drawn_pairs_are_pairs_each_once(rng):
    labels = rng.integers(0, 4, 40).astype(float)
    data = query_data(labels)
    for kind in ("different", "all"):
        pairs = DocumentPairs.of(data, kind, 60, 3)
        assert pairs.sampled.tolist() == [0]
        one, other = pairs.drawn
        assert len(set(zip(one.tolist(), other.tolist(), strict=True))) == 60
        assert (other > one).all()
        higher, lower = labels[pairs.rows[one]], labels[pairs.rows[other]]
        assert (higher > lower if kind == "different" else higher >= lower).all()
        grades = np.unique(labels, return_counts=True)[1]
        expected = 40 * 39 // 2 - (0 if kind == "all" else (grades * (grades - 1) // 2).sum())
        assert pairs.counts.tolist() == [expected]


def test_drawing_all_but_one_pair_changes_little_and_is_told(rng):
    data = query_data(rng.integers(0, 3, 30).astype(float))
    scores = [rng.random(30) for _ in range(3)]
    every = DocumentPairs.of(data, "different", 10_000, 0)
    n_pairs = int(every.counts[0])
    most = DocumentPairs.of(data, "different", n_pairs - 1, 0).decompose(scores, "half", 1)
    np.testing.assert_allclose(most, every.decompose(scores, "half", 1), atol=2 / n_pairs)
    train, _, test = parts_of()
    result = rw.bias_variance(ByFeature(), train, test, max_pairs=4)
    assert "queries have more than 4 pairs: so many were drawn of each" in str(result)
    assert result.to_dict()["n_sampled"] > 0
    assert "drawn" not in str(rw.bias_variance(ByFeature(), train, test))


def test_a_query_drawn_twice_is_there_once_with_twice_the_weight():
    ids = np.repeat(np.arange(20), 3)
    features = np.column_stack([ids, np.arange(60)])
    data = rw.RankingData(features, np.tile([0, 1, 2], 20), ids, query_weights=np.arange(20) + 1.0)
    sample = resample(data, np.random.default_rng(0))
    drawn = np.bincount(np.random.default_rng(0).integers(20, size=20), minlength=20)
    assert drawn.max() > 1
    assert sample.queries.tolist() == np.flatnonzero(drawn).tolist()
    assert len(set(sample.features[:, 1].tolist())) == sample.n_documents  # no row has a twin
    weights = drawn * (np.arange(20) + 1.0)
    assert sample.query_weights.tolist() == weights[drawn > 0].tolist()
    plain = resample(rw.RankingData(features, data.labels, ids), np.random.default_rng(0))
    assert plain.query_weights.sum() == 20
    assert sample.labels.tolist() == [0, 1, 2] * sample.n_queries


HELD_OUT: list[float] = []  # correlations of held-out scores with labels, one per training


class Watched(rw.RandomForest):
    """A forest of pure leaves that tells how well its out-of-bag scores know the labels of its sample."""

    def fit(self, data, **options):
        super().fit(data, **options)
        known = ~np.isnan(self.oob_scores_)
        HELD_OUT.append(float(np.corrcoef(self.oob_scores_[known], data.labels[known])[0, 1]))
        return self


class WatchedDeep(rw.DeepForest):
    """The same of a cascade of boosted trees, whose held-out scores come from folds."""

    def fit(self, data, **options):
        super().fit(data, **options)
        HELD_OUT.append(float(np.corrcoef(self.oob_scores_, data.labels)[0, 1]))
        return self


@pytest.mark.parametrize("name", ["forest", "folds"])
def test_held_out_scores_of_a_training_have_not_seen_the_row(name):
    # Labels are drawn, so that nothing but a row's twin in the bag, or in another fold, can tell them. Where a query
    # that is drawn twice becomes two queries, the correlation is 0.3 and more; some 250 rows: standard error 0.06.
    rng = np.random.default_rng(5)
    ids = np.repeat(np.arange(40), 10)
    data = rw.RankingData(rng.normal(size=(400, 4)), rng.integers(0, 5, 400), ids)
    boosted = rw.GBRT(10, min_leaf=1, max_leaves=100, learning_rate=0.5)
    watched = {
        "forest": Watched(15, max_leaves=None, bag="query"),
        "folds": WatchedDeep([boosted], max_layers=1),
    }[name]
    HELD_OUT.clear()
    rw.bias_variance(watched, data, data, trainings=3, n_threads=1)
    assert len(HELD_OUT) == 3
    assert abs(np.mean(HELD_OUT)) < 0.15


def test_progress_is_told_of_every_training():
    train, _, test = parts_of()
    news = []
    models = {"a": ByFeature(), "b": AllEqual()}
    rw.bias_variance(models, train, test, trainings=3, progress=news.append)
    assert [(each.iteration, each.total) for each in news] == [(n, 6) for n in range(1, 7)]


def test_trainings_share_no_checkpoint_and_leave_the_estimator_alone(tmp_path):
    train, _, test = parts_of()
    path = tmp_path / "forest.checkpoint"
    kept = rw.RandomForest(3, max_leaves=4, checkpoint=path)
    result = rw.bias_variance(kept, train, test, trainings=2)
    assert not path.exists()
    assert not hasattr(kept, "forest_")
    assert kept.get_params()["checkpoint"] == path
    plain = rw.bias_variance(rw.RandomForest(3, max_leaves=4), train, test, trainings=2)
    assert figures(result["RandomForest"]) == figures(plain["RandomForest"])


def test_a_plot_without_the_extra_names_it(monkeypatch, tmp_path):
    train, _, test = parts_of()
    result = rw.bias_variance(ByFeature(), train, test)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # what an import of it then finds: nothing
    with pytest.raises(MissingExtra, match=r"pip install 'rankwood\[report\]'"):
        result.plot(tmp_path / "bars.png")


def test_result_as_json_csv_and_plot(tmp_path):
    train, _, test = parts_of()
    result = rw.bias_variance({"a <b>": StagedForest(4, max_leaves=4)}, train, test, trainings=2)
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["algorithms"]["a <b>"]["error"] == result["a <b>"].error
    assert (plain["pairs"], plain["ties"], plain["trainings"]) == ("different", "half", 2)
    result.write(tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0] == "algorithm,layer,error,bias_squared,variance"
    assert len(lines) == 4
    assert float(lines[1].split(",")[2]) == result["a <b>"].error
    assert "a &lt;b&gt;, layer 1" in result._repr_html_()
    with pytest.raises(ParameterError, match=r"must end in \.csv"):
        result.write(tmp_path / "table.xlsx")
    with pytest.raises(UnknownName, match="algorithm 'a' is not known"):
        result["a"]
    pytest.importorskip("matplotlib")
    result.write(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_bad_input_is_named():
    train, _, test = parts_of()
    forest = rw.RandomForest(2)
    for options, error, match in (
        ({"trainings": 1}, ParameterError, "trainings must be"),
        ({"pairs": "some"}, UnknownName, "pairs 'some' is not known"),
        ({"ties": "random"}, UnknownName, "ties 'random' is not known"),
        ({"max_pairs": 0}, ParameterError, "max_pairs must be"),
        ({"seed": -1}, ParameterError, "seed must be"),
        ({"n_threads": 0}, ParameterError, "n_threads must be"),
        ({"progress": 3}, ParameterError, "progress must be"),
    ):
        with pytest.raises(error, match=match):
            rw.bias_variance(forest, train, test, **options)
    for arguments, error, match in (
        ((forest, train), ParameterError, "test is missing"),
        ((forest, [train]), ParameterError, "a fold must be"),
        ((forest, []), ParameterError, "RankingData or folds"),
        ((forest, 3), ParameterError, "RankingData or folds"),
        ((forest, rw.make_folds(train, 3), test), ParameterError, "folds have test"),
        ((rw.RandomForest, train, test), ParameterError, "must be an estimator"),
        (({}, train, test), ParameterError, "estimator is empty"),
        ((forest, train, query_data([1, 1])), DataError, "documents of different labels"),
        ((forest, train, rw.RankingData(test.features, test.labels)), DataError, "no query ids"),
        ((forest, [(train, None, 3)]), ParameterError, "the test data must be RankingData"),
    ):
        with pytest.raises(error, match=match):
            rw.bias_variance(*arguments)
    with pytest.raises(DataError, match="two documents"):
        rw.bias_variance(ByFeature(), train, query_data([1, 0], [1, 2]), pairs="all")


class NotANumber(ByFeature):
    def predict(self, data):
        return np.full(data.n_documents, np.nan)


def test_scores_that_are_no_numbers_are_refused():
    train, _, test = parts_of()
    with pytest.raises(DataError, match="NaN"):
        rw.bias_variance(NotANumber(), train, test)


def test_huge_labels_only_count_by_their_order():
    train, _, test = parts_of()
    huge = rw.RankingData(test.features, test.labels * 1e300, test.query_ids)
    plain = rw.bias_variance(ByFeature(), train, test)["ByFeature"]
    assert figures(rw.bias_variance(ByFeature(), train, huge)["ByFeature"]) == figures(plain)


def test_a_deep_forest_is_taken_apart_layer_by_layer():
    train, valid, test = parts_of()
    model = rw.DeepForest(n_forests=2, n_trees=5, max_layers=2, patience=None, seed=1)
    found = rw.bias_variance({"deep": model}, train, test, valid=valid, trainings=2)
    text = str(found)
    assert "layer 1" in text
    assert "layer 2" in text


class FlatLayers(rw.RandomForest):
    def predict_layers(self, X):
        return self.predict(X)


def test_layers_must_be_columns():
    train, _, test = parts_of()
    with pytest.raises(
        DataError,
        match=r"predict_layers of FlatLayers must give \d+ rows × layers, got an array of",
    ):
        rw.bias_variance(FlatLayers(n_trees=2), train, test, trainings=2)
