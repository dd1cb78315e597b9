"""scikit-learn's contract: checks, cloning, routing, pickling; and one clear error for each wrong input."""

from __future__ import annotations

import io
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwood as rw
from rankwood.errors import DataError

SMALL = [
    rw.RandomForest(n_trees=5),
    rw.ExtraTrees(n_trees=5),
    rw.CompletelyRandomForest(n_trees=5),
    rw.GBRT(n_trees=5, min_leaf=1),
    rw.AveragedGBRT(n_trees=3, n_runs=2, min_leaf=1),
    rw.InitializedGBRT(n_trees=3, forest_trees=5, min_leaf=1),
    rw.OrdinalRanker(rw.RandomForest(n_trees=3)),
    rw.BROOF(n_rounds=3, n_trees=5),
    rw.DeepForest(n_forests=2, n_trees=3, max_layers=2),
    rw.AdaBoost(n_rounds=5),
]
OF_PAIRS = [  # they need queries
    rw.LambdaMART(n_trees=5, min_leaf=1),
    rw.NDCGBoost(n_rounds=5, min_leaf=1),
    rw.RankBoost(n_rounds=5),
    rw.BoostingTree(rw.LambdaMART(max_leaves=2, min_leaf=1), budget=8),
    rw.Exp3P(rw.LambdaMART(max_leaves=3, min_leaf=1), n_rounds=5),
]
BUILT_ON_OTHERS = (  # their first parameter is no number of trees
    rw.OrdinalRanker,
    rw.DeepForest,
    rw.BoostingTree,
    rw.Exp3P,
)
KINDS = [type(model) for model in SMALL + OF_PAIRS if type(model) not in BUILT_ON_OTHERS]


def small(kind):
    """An estimator of two trees or rounds."""
    length = "n_rounds" if "n_rounds" in kind().get_params() else "n_trees"
    return kind(**{length: 2})


class AllInOneQuery:
    """A ranker that takes rows without query ids for one query: scikit-learn's checks know of no queries."""

    def fit(self, X, y=None, qid=None, *, valid=None, sample_weight=None, query_weight=None):
        if qid is None and y is not None:
            qid = np.zeros(np.asarray(y).size, int)
        weights = {"sample_weight": sample_weight, "query_weight": query_weight}
        return super().fit(X, y, qid, valid=valid, **weights)


class OneQueryLambdaMART(AllInOneQuery, rw.LambdaMART):
    pass


class OneQueryNDCGBoost(AllInOneQuery, rw.NDCGBoost):
    pass


class OneQueryRankBoost(AllInOneQuery, rw.RankBoost):
    pass


class OneQueryBoostingTree(AllInOneQuery, rw.BoostingTree):
    pass


class OneQueryExp3P(AllInOneQuery, rw.Exp3P):
    pass


ONE_QUERY = [
    OneQueryLambdaMART(n_trees=5, min_leaf=1),
    OneQueryNDCGBoost(n_rounds=5, min_leaf=1),
    OneQueryRankBoost(n_rounds=5),
    OneQueryBoostingTree(rw.LambdaMART(max_leaves=2, min_leaf=1), budget=8),
    OneQueryExp3P(rw.LambdaMART(max_leaves=2, min_leaf=1), n_rounds=5),
]

TWICE = "a document that is there twice is in twice as many pairs"
OUR_OWN_WORDS = "our message says the same in our own words, and names the place"
EXPECTED_FAILURES = {
    "check_dtype_object": OUR_OWN_WORDS,
    "check_estimators_empty_data_messages": OUR_OWN_WORDS,
}
WEIGHTS_AS_COPIES = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


def expected_failures(model) -> dict[str, str]:
    bootstrap = "a bootstrap of weighted rows is not one of repeated rows: other rows are drawn"
    rounding = "of splits that gain the same, rounding of the residuals decides"
    why = {
        OneQueryLambdaMART: TWICE,
        OneQueryBoostingTree: TWICE,
        OneQueryExp3P: TWICE,
        rw.RandomForest: bootstrap,
        rw.BROOF: bootstrap,
        rw.InitializedGBRT: bootstrap,
        rw.OrdinalRanker: bootstrap,
        rw.DeepForest: bootstrap,
        rw.GBRT: rounding,
        rw.AveragedGBRT: rounding,
    }.get(type(model))
    of_weights = {} if why is None else dict.fromkeys(WEIGHTS_AS_COPIES, why)
    has_no_pair = isinstance(model, OneQueryNDCGBoost | OneQueryRankBoost)
    of_pairs = {"check_fit2d_1sample": OUR_OWN_WORDS} if has_no_pair else {}
    return EXPECTED_FAILURES | of_weights | of_pairs


@parametrize_with_checks(SMALL + ONE_QUERY, expected_failed_checks=expected_failures)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 10, 5, seed=3)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_the_constructor_keeps_its_arguments(kind):
    length = "n_trees" if "n_trees" in kind().get_params() else "n_rounds"
    model = kind(**{length: "seven", "n_threads": "all"})
    assert getattr(model, length) == "seven"
    assert model.n_threads == "all"
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("model", SMALL + OF_PAIRS, ids=lambda model: type(model).__name__)
def test_models_survive_pickle_and_joblib(model, data):
    fitted = clone(model).fit(data)
    expected = fitted.predict(data)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(data), expected)
    buffer = io.BytesIO()
    joblib.dump(fitted, buffer)
    buffer.seek(0)
    assert np.array_equal(joblib.load(buffer).predict(data), expected)


def test_every_kind_of_table_gives_the_same_model(data):
    features, labels, qid = data.features, data.labels, data.query_ids
    expected = rw.GBRT(4, min_leaf=3).fit(data).predict(data)
    tables = {
        "array": features,
        "float64": features.astype(np.float64),
        "Fortran order": np.asfortranarray(features),
        "list": features.tolist(),
        "pandas": pd.DataFrame(features, columns=list("abcde")),
        "polars": pl.DataFrame(features, schema=list("abcde")),
        "sparse": scipy.sparse.csr_matrix(features),
    }
    for name, table in tables.items():
        model = rw.GBRT(4, min_leaf=3).fit(table, labels, qid)
        assert np.array_equal(model.predict(table), expected), name
        assert np.array_equal(model.predict(features), expected), name


def test_names_are_part_of_the_model(data):
    frame = pd.DataFrame(data.features, columns=list("abcde"))
    model = rw.ExtraTrees(3).fit(frame, data.labels)
    assert model.feature_names_in_.tolist() == list("abcde")
    assert np.array_equal(model.predict(frame[list("edcba")]), model.predict(frame))
    with pytest.raises(DataError, match=r"the data lack 'a'.*does not know 'z'"):
        model.predict(frame.rename(columns={"a": "z"}))
    model.fit(data.features, data.labels)
    assert not hasattr(model, "feature_names_in_")


def test_predictions_come_in_the_callers_order(data, rng):
    order = rng.permutation(data.n_documents)
    shuffled = data.take_rows(order)
    model = rw.RandomForest(4).fit(data)
    assert np.array_equal(model.predict(shuffled), model.predict(data)[order])


def test_the_order_of_rows_does_not_change_a_model_without_bags(data, rng):
    order = rng.permutation(data.n_documents)
    one = rw.ExtraTrees(3).fit(data)
    other = rw.ExtraTrees(3).fit(data.take_rows(order))
    np.testing.assert_allclose(one.predict(data), other.predict(data), rtol=1e-12)


def test_score_is_ndcg_with_queries_and_r2_without(data):
    model = rw.GBRT(5, min_leaf=3).fit(data)
    scores = model.predict(data)
    ndcg = rw.evaluate(scores, data, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert model.score(data) == pytest.approx(ndcg)
    assert model.score(data.features, data.labels, qid=data.query_ids) == pytest.approx(ndcg)
    left = ((data.labels - scores) ** 2).sum() / ((data.labels - data.labels.mean()) ** 2).sum()
    assert model.score(data.features, data.labels) == pytest.approx(1 - left)


@pytest.mark.usefixtures("routing")
def test_cross_validation_with_queries(data):
    model = rw.RandomForest(3).set_fit_request(qid=True).set_score_request(qid=True)
    splitter = GroupKFold(3)
    routed = {"qid": data.query_ids, "groups": data.query_ids}
    scores = cross_val_score(model, data.features, data.labels, cv=splitter, params=routed)
    expected = []
    for train, test in splitter.split(data.features, data.labels, data.query_ids):
        part = rw.RandomForest(3).fit(data.take_rows(train))
        expected.append(part.score(data.take_rows(test)))
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


@pytest.mark.usefixtures("routing")
def test_grid_search_with_queries_and_weights(data):
    model = rw.GBRT(3, min_leaf=3).set_fit_request(qid=True, sample_weight=True)
    model.set_score_request(qid=True, sample_weight=False)
    search = GridSearchCV(model, {"max_leaves": [2, 6]}, cv=GroupKFold(2))
    weights = np.linspace(1, 2, data.n_documents)
    search.fit(
        data.features, data.labels, qid=data.query_ids, groups=data.query_ids, sample_weight=weights
    )
    assert search.best_params_["max_leaves"] in (2, 6)
    expected = rw.GBRT(3, min_leaf=3, **search.best_params_)
    expected.fit(data.features, data.labels, data.query_ids, sample_weight=weights)
    assert np.array_equal(search.predict(data.features), expected.predict(data.features))


GOOD = {"X": np.arange(8.0).reshape(4, 2), "y": [0, 1, 2, 1], "qid": [1, 1, 2, 2]}
WRONG = {
    "NaN label": ({"y": [0, 1, np.nan, 1]}, r"labels\[2\] is nan; labels must be finite"),
    "infinite label": ({"y": [0, np.inf, 1, 1]}, r"labels\[1\] is inf"),
    "negative label": ({"y": [0, 1, -1, 1]}, r"labels\[2\] is -1; labels must not be negative"),
    "text labels": ({"y": list("abcd")}, "labels must be numbers"),
    "labels of another length": ({"y": [0, 1, 2]}, "labels has 3 values, but there are 4 rows"),
    "no labels": ({"y": None}, "requires y to be passed"),
    "qid of another length": ({"qid": [1, 2, 3]}, "query_ids has 3 values, but there are 4 rows"),
    "NaN qid": ({"qid": [1, np.nan, 2, 2]}, r"query_ids\[1\] is missing"),
    "NaN weight": ({"sample_weight": [1, np.nan, 1, 1]}, r"row_weights\[1\] is nan"),
    "infinite weight": ({"sample_weight": [1, np.inf, 1, 1]}, r"row_weights\[1\] is inf"),
    "negative weight": ({"sample_weight": [1, 1, -1, 1]}, r"row_weights\[2\] is -1"),
    "no weight": ({"sample_weight": [0, 0, 0, 0]}, "are all zero; at least one must be positive"),
    "no query weight": ({"query_weight": [0, 0]}, "are all zero; at least one must be positive"),
    "zero in either": (
        {"sample_weight": [0, 0, 1, 1], "query_weight": [1, 0]},
        "are all zero; at least one must be positive",
    ),
    "weights of another length": ({"sample_weight": [1]}, "row_weights has 1 values"),
    "query weights of another length": ({"query_weight": [1, 1, 1]}, "query_weights has 3 values"),
    "query weights without queries": ({"qid": None, "query_weight": [1]}, "have no query ids"),
    "no rows": ({"X": np.ones((0, 2)), "y": [], "qid": []}, "there are no rows to learn from"),
    "no features": ({"X": np.ones((4, 0))}, "features has no columns"),
    "one dimension": ({"X": np.arange(4.0)}, "two dimensions .* Reshape your data"),
    "complex features": ({"X": np.ones((4, 2), complex)}, "Complex data not supported"),
    "text features": ({"X": np.array([["a", "b"]] * 4)}, "features must be numbers"),
    "beyond float32": ({"X": np.full((4, 2), 1e39)}, r"features\[0, 0\] is 1e\+39, beyond float32"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", WRONG)
def test_one_clear_error_for_each_wrong_input(kind, case):
    change, message = WRONG[case]
    with pytest.raises(DataError, match=message):
        small(kind).fit(**{**GOOD, **change})


@pytest.mark.parametrize("kind", KINDS)
def test_what_ranking_data_bring_is_not_passed_twice(kind, data):
    binned = rw.bin(data)
    for given in (data, binned):
        with pytest.raises(DataError, match="y was passed beside a RankingData, which has its own"):
            small(kind).fit(given, data.labels)
        with pytest.raises(DataError, match="qid was passed beside a RankingData"):
            small(kind).fit(given, qid=data.query_ids)
    weighted = rw.RankingData(data.features, data.labels, row_weights=np.ones(data.n_documents))
    with pytest.raises(
        DataError, match="sample_weight was passed beside RankingData that have weights"
    ):
        small(kind).fit(weighted, sample_weight=np.ones(data.n_documents))


@pytest.mark.parametrize("kind", KINDS)
def test_an_unfitted_model_says_so(kind, data):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        kind().predict(data)
    with pytest.raises(AttributeError, match="not fitted yet"):
        _ = kind().feature_importances_


@pytest.mark.parametrize("ranker", SMALL + OF_PAIRS, ids=lambda model: type(model).__name__)
def test_another_number_of_features_is_refused(ranker, data):
    model = clone(ranker).fit(data.features, data.labels, data.query_ids)
    message = f"X has 4 features, but {type(ranker).__name__} is expecting 5 features as input"
    with pytest.raises(DataError, match=message):
        model.predict(data.features[:, :4])
    with pytest.raises(DataError, match="knows 5 features, but the data have 4"):
        model.predict(data.features[:, :4].tolist())


def test_estimators_never_write_to_what_they_are_given(data):
    arrays = [data.features.copy(), data.labels.copy(), np.linspace(0, 1, data.n_documents)]
    before = [array.copy() for array in arrays]
    for model in SMALL + OF_PAIRS:
        fitted = clone(model).fit(arrays[0], arrays[1], data.query_ids, sample_weight=arrays[2])
        fitted.predict(arrays[0])
    for array, old in zip(arrays, before, strict=True):
        assert np.array_equal(array, old)


def test_no_rows_get_no_scores(data):
    assert rw.GBRT(1).fit(data).predict(np.ones((0, 5))).size == 0
