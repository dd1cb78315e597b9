"""Steps that fill missing values: from the training part only, in any kind of table, on scikit-learn's contract."""

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
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwood as rw
from rankwood.errors import DataError, DataWarning, ParameterError, UnknownName
from tests.reference import missing as slow

STRATEGIES = ["least", "greatest", "mean", "median"]
SMALL = [*(rw.FillMissing(strategy) for strategy in STRATEGIES), rw.PredictMissing(2, min_leaf=1)]
IDS = [getattr(step, "strategy", "predict") for step in SMALL]
OUR_OWN_WORDS = "our message says the same in our own words, and names the place"


@parametrize_with_checks(
    [rw.FillMissing("median"), rw.PredictMissing(2)],
    expected_failed_checks=lambda _: dict.fromkeys(
        ("check_dtype_object", "check_estimators_empty_data_messages"), OUR_OWN_WORDS
    ),
)
def test_scikit_learns_checks(estimator, check, run_check):
    run_check(check, estimator)


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 12, 6, missing=0.3, seed=3)


@pytest.fixture(scope="module")
def parts(data):
    return rw.split_queries(data, (0.5, 0.5), seed=1)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_filling_equals_the_slow_twin(strategy, parts):
    train, test = parts
    step = rw.FillMissing(strategy).fit(train.features)
    expected = slow.fill(train.features, test.features, strategy)
    np.testing.assert_array_equal(step.transform(test.features), expected)
    assert step.transform(test.features).dtype == np.float32


@pytest.mark.parametrize("step", SMALL, ids=IDS)
def test_values_come_from_the_training_part_only(step, parts):
    train, test = parts
    fitted = clone(step).fit(train)
    changed = np.where(np.isnan(test.features), np.nan, test.features * 100 + 7)
    shifted = fitted.transform(changed)
    low, high = np.nanmin(train.features, axis=0), np.nanmax(train.features, axis=0)
    for feature in range(train.n_features):
        filled = shifted[np.isnan(changed[:, feature]), feature]
        assert ((filled >= low[feature]) & (filled <= high[feature])).all()
    if isinstance(step, rw.FillMissing):  # one document at a time, it is filled the same
        alone = np.concatenate([fitted.transform(row[np.newaxis]) for row in test.features])
        np.testing.assert_array_equal(alone, fitted.transform(test.features))


@pytest.mark.parametrize("step", SMALL, ids=IDS)
def test_values_that_are_there_stay(step, data):
    filled = clone(step).fit_transform(data.features)
    is_known = ~np.isnan(data.features)
    np.testing.assert_array_equal(filled[is_known], data.features[is_known])
    assert np.isfinite(filled).all()


@pytest.mark.parametrize("step", SMALL, ids=IDS)
def test_every_kind_of_table_is_filled_the_same(step, data):
    names = list("abcdef")
    expected = clone(step).fit_transform(data.features)
    tables = {
        "float64": data.features.astype(np.float64),
        "Fortran order": np.asfortranarray(data.features),
        "list": data.features.tolist(),
        "pandas": pd.DataFrame(data.features, columns=names),
        "polars": pl.DataFrame(data.features, schema=names),
        "sparse": scipy.sparse.csr_matrix(data.features),
    }
    for name, table in tables.items():
        np.testing.assert_array_equal(clone(step).fit_transform(table), expected, err_msg=name)


@pytest.mark.parametrize("step", SMALL, ids=IDS)
def test_ranking_data_keep_labels_queries_and_weights(step):
    whole = rw.make_ranking(12, 10, 5, missing=0.3, seed=1, doc_ids=True)
    weights = np.linspace(1, 2, whole.n_documents)
    names = whole.feature_names
    data = rw.RankingData(
        whole.features, whole.labels, whole.query_ids, whole.doc_ids, weights, feature_names=names
    )
    filled = clone(step).fit(data).transform(data)
    assert isinstance(filled, rw.RankingData)
    assert filled.feature_names == names
    for name in ("labels", "query_ids", "doc_ids", "row_weights"):
        assert np.array_equal(getattr(filled, name), getattr(data, name)), name
    np.testing.assert_array_equal(filled.features, clone(step).fit_transform(data.features))
    binned = clone(step).fit(rw.bin(data)).transform(rw.bin(data))
    assert binned == filled


@pytest.mark.parametrize("step", SMALL, ids=IDS)
def test_columns_are_put_in_order_and_named(step, data):
    frame = pd.DataFrame(data.features, columns=list("abcdef"))
    fitted = clone(step).fit(frame)
    assert fitted.get_feature_names_out().tolist() == list("abcdef")
    np.testing.assert_array_equal(fitted.transform(frame[list("fedcba")]), fitted.transform(frame))
    renamed = frame.rename(columns={"a": "z"})
    with pytest.raises(DataError, match=r"lack 'a'.*does not know 'z'"):
        fitted.transform(renamed)
    fitted.set_output(transform="pandas")
    out = fitted.transform(frame)
    assert list(out.columns) == list("abcdef")
    assert out.index.equals(frame.index)


def test_named_ranking_data_come_back_in_the_order_of_fit(data):
    frame = pd.DataFrame(data.features, columns=list("abcdef"))
    step = rw.FillMissing("mean").fit(frame)
    turned = rw.RankingData(frame[list("fedcba")], data.labels, data.query_ids)
    filled = step.transform(turned)
    assert filled.names == tuple("abcdef")
    np.testing.assert_array_equal(filled.features, step.transform(frame))


@pytest.mark.parametrize("step", SMALL, ids=IDS)
def test_steps_survive_cloning_pickle_and_joblib(step, data):
    fitted = clone(step).fit(data)
    expected = fitted.transform(data.features)
    assert clone(fitted).get_params() == step.get_params()
    for copied in (pickle.loads(pickle.dumps(fitted)), _through_joblib(fitted)):
        np.testing.assert_array_equal(copied.transform(data.features), expected)


def _through_joblib(step):
    buffer = io.BytesIO()
    joblib.dump(step, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


@pytest.mark.parametrize("step", SMALL, ids=IDS)
def test_steps_never_write_to_what_they_are_given(step, data):
    features = data.features.copy()
    clone(step).fit(features).transform(features)
    np.testing.assert_array_equal(features, data.features)


@pytest.mark.parametrize("step", SMALL, ids=IDS)
def test_a_pipeline_ranks_like_its_parts(step, parts):
    train, test = parts
    pipeline = Pipeline(
        [("missing", clone(step)), ("ranker", rw.RandomForest(4, max_leaves=100, seed=2))]
    )
    fitted = clone(step).fit(train)
    expected = rw.RandomForest(4, max_leaves=100, seed=2).fit(fitted.transform(train))
    scores = expected.predict(fitted.transform(test))
    assert np.array_equal(pipeline.fit(train).predict(test), scores)
    pipeline.fit(train.features, train.labels, ranker__qid=train.query_ids)
    assert np.array_equal(pipeline.predict(test.features), scores)
    value = rw.evaluate(pipeline, test, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert value == rw.evaluate(scores, test, "ndcg@10", n_bootstrap=0)["ndcg@10"].value


@pytest.mark.parametrize("step", [rw.FillMissing("median"), rw.PredictMissing(2)], ids=str)
def test_cross_validation_with_queries(step, data):
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = (
            rw.RandomForest(3, max_leaves=100).set_fit_request(qid=True).set_score_request(qid=True)
        )
        routed = {"qid": data.query_ids, "groups": data.query_ids}
        scores = cross_val_score(
            make_pipeline(clone(step), ranker),
            data.features,
            data.labels,
            cv=GroupKFold(3),
            params=routed,
        )
    expected = []
    for train, test in GroupKFold(3).split(data.features, data.labels, data.query_ids):
        fitted = clone(step).fit(data.take_rows(train))  # the training part only
        part = rw.RandomForest(3, max_leaves=100).fit(fitted.transform(data.take_rows(train)))
        expected.append(part.score(fitted.transform(data.take_rows(test))))
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


@pytest.mark.parametrize(("strategy", "policy"), [("least", "left"), ("greatest", "right")])
def test_least_and_greatest_are_the_engines_policies(strategy, policy):
    # Few distinct values: a cut between any two of them. Stumps: below the root a step can also cut off the gaps alone,
    # where no document of a node has the least (or greatest) value.
    whole = rw.make_ranking(40, 12, 6, missing=0.4, seed=5)
    data = rw.RankingData(np.round(whole.features) % 40, whole.labels, whole.query_ids)
    filled = rw.FillMissing(strategy).fit_transform(data)
    options = {"max_leaves": 2, "learning_rate": 0.1, "features_per_node": None}
    by_step = rw.GBRT(9, **options).fit(filled).predict(filled)
    by_policy = rw.GBRT(9, **options, missing=policy).fit(data).predict(data)
    np.testing.assert_allclose(by_step, by_policy, rtol=1e-9)
    assert not np.allclose(rw.GBRT(9, **options).fit(data).predict(data), by_policy)


@pytest.mark.parametrize("has_complete", [True, False])
def test_sweeps_equal_the_slow_twin(has_complete, rng):
    table = np.floor(rng.random((35, 4)) * 1000)
    table[:, 1] += table[:, 0]
    table[:, 3] -= 900
    is_gap = rng.random(table.shape) < 0.25
    is_gap[:, 0] &= not has_complete
    table[is_gap] = np.nan
    step = rw.PredictMissing(
        2, max_leaves=6, min_leaf=1, features_per_node=None, max_sweeps=2, tol=1e9
    ).fit(table)
    assert step.n_sweeps_ == 2
    expected = slow.predict(table, n_trees=2, max_leaves=6, n_sweeps=2, seed=0)
    np.testing.assert_allclose(step.transform(table), expected, rtol=1e-6)


@pytest.mark.jit_only
def test_predictions_are_nearer_to_the_truth_than_means():
    truth = rw.make_ranking(60, 20, 12, n_informative=12, seed=2)
    strong = truth.features[:, :1] * np.linspace(1, 2, 12) + 0.1 * truth.features
    gaps = np.random.default_rng(0).random(strong.shape) < 0.3
    table = np.where(gaps, np.nan, strong)
    errors = {
        name: np.abs(step.fit_transform(table) - strong)[gaps].mean()
        for name, step in {"mean": rw.FillMissing("mean"), "predict": rw.PredictMissing()}.items()
    }
    assert errors["predict"] < 0.5 * errors["mean"]


def test_the_same_bytes_for_any_number_of_threads(data):
    filled = [
        rw.PredictMissing(4, min_leaf=2, seed=3, n_threads=n).fit_transform(data.features).tobytes()
        for n in (1, 2, 5)
    ]
    assert len(set(filled)) == 1
    other = rw.PredictMissing(4, min_leaf=2, seed=4).fit_transform(data.features)
    assert other.tobytes() != filled[0]


def test_every_forest_is_told(data):
    told = []
    step = rw.PredictMissing(2, min_leaf=2, progress=told.append).fit(data)
    n_gappy = int(np.isnan(data.features).any(axis=0).sum())
    n_sweeps = len(step.changes_)
    assert [news.iteration for news in told] == list(range(1, n_sweeps * n_gappy + 1))
    assert told[0].total == step.max_sweeps * n_gappy
    assert pickle.dumps(step.set_params(progress=None))


def test_sweeps_end_when_predictions_settle_or_turn(data):
    step = rw.PredictMissing(3, min_leaf=2, max_sweeps=6, tol=1e9).fit(data)
    assert (step.n_sweeps_, step.settled_) == (2, True)  # the first one only replaced medians
    step = rw.PredictMissing(3, min_leaf=2, max_sweeps=6, tol=0.0).fit(data)
    has_turned = step.changes_[-1] > step.changes_[-2]
    assert has_turned
    assert not step.settled_
    assert len(step.forests_) == step.n_sweeps_ == len(step.changes_) - 1
    shorter = rw.PredictMissing(3, min_leaf=2, max_sweeps=step.n_sweeps_, tol=0.0).fit(data)
    np.testing.assert_array_equal(shorter.transform(data.features), step.transform(data.features))


def test_a_feature_does_not_predict_itself(data):
    step = rw.PredictMissing(3, min_leaf=1, max_leaves=None).fit(data)
    complete = set(np.flatnonzero(~np.isnan(data.features).any(axis=0)).tolist())
    assert complete
    for sweep, forests in enumerate(step.forests_):
        for feature, forest in forests.items():
            used = set(forest.feature[forest.feature >= 0].tolist())
            assert used
            assert feature not in used
            assert sweep > 0 or used <= complete


def test_one_feature_has_nothing_to_be_predicted_from():
    step = rw.PredictMissing(2).fit([[1.0], [np.nan], [5.0], [2.0]])
    assert step.transform([[np.nan], [9.0]]).tolist() == [[2.0], [9.0]]  # the median of 1, 5, 2


def test_gaps_that_training_did_not_have_get_the_median(parts):
    train, _ = parts
    complete = int(np.flatnonzero(~np.isnan(train.features).any(axis=0))[0])
    row = train.features[:1].copy()
    row[0, complete] = np.nan
    filled = rw.PredictMissing(2).fit(train).transform(row)
    assert filled[0, complete] == np.float32(np.median(train.features[:, complete]))


@pytest.mark.parametrize("step", SMALL, ids=IDS)
def test_without_gaps_nothing_changes(step, rng):
    table = rng.random((20, 3), np.float32)
    np.testing.assert_array_equal(clone(step).fit_transform(table), table)
    gap = np.array([[np.nan, 0.5, 0.5]], np.float32)  # a gap may come later
    assert np.isfinite(clone(step).fit(table).transform(gap)).all()


@pytest.mark.parametrize("step", SMALL, ids=IDS)
def test_a_feature_without_any_value_becomes_zero(step, rng):
    table = rng.random((20, 3), np.float32)
    table[3, 0] = np.nan
    table[:, 1] = np.nan
    with pytest.warns(
        DataWarning, match="no training row has a value of feature '2': filled with 0"
    ):
        fitted = clone(step).fit(table)
    filled = fitted.transform(table)
    assert (filled[:, 1] == 0).all()
    assert np.isfinite(filled).all()
    frame = pd.DataFrame(table, columns=["a", "b", "c"])
    with pytest.warns(DataWarning, match="a value of feature 'b'"):
        clone(step).fit(frame)
    with pytest.warns(DataWarning, match="feature '1', '2', '3', '4', '5' and 1 more"):
        nothing = clone(step).fit(np.full((4, 6), np.nan))
    assert (nothing.transform(np.full((2, 6), np.nan)) == 0).all()


@pytest.mark.parametrize("step", SMALL, ids=IDS)
def test_infinite_values_stay_and_do_not_count(step):
    table = np.array([[1, np.inf], [2, 4], [np.nan, -np.inf], [3, np.nan], [2, 6]], np.float32)
    filled = clone(step).fit_transform(table)
    assert filled[0, 1] == np.inf
    assert filled[2, 1] == -np.inf
    assert 4 <= filled[3, 1] <= 6
    with pytest.warns(DataWarning, match="no training row has a value of feature '1'"):
        assert clone(step).fit([[np.inf], [np.nan]]).transform([[np.nan]]).tolist() == [[0.0]]


def test_huge_and_negative_values_do_not_overflow():
    table = np.array([[3e38, -3e38], [3e38, -3e38], [np.nan, -3e38], [3e38, np.nan]], np.float32)
    for step in SMALL:
        filled = clone(step).fit_transform(table)
        np.testing.assert_allclose(filled, np.tile([3e38, -3e38], (4, 1)), rtol=1e-6)


def test_one_document_is_enough():
    for step in SMALL:
        assert clone(step).fit([[2.0, 1.0]]).transform([[np.nan, 5.0]]).tolist() == [[2.0, 5.0]]


WRONG = {
    "no rows": (np.ones((0, 2)), "there are no rows to learn from"),
    "no features": (np.ones((4, 0)), "features has no columns"),
    "one dimension": (np.arange(4.0), "two dimensions .* Reshape your data"),
    "text": (np.array([["a", "b"]] * 4), "features must be numbers"),
    "complex": (np.ones((4, 2), complex), "Complex data not supported"),
    "beyond float32": (np.full((4, 2), 1e39), r"features\[0, 0\] is 1e\+39, beyond float32"),
}


@pytest.mark.parametrize("step", SMALL, ids=IDS)
@pytest.mark.parametrize("case", WRONG)
def test_one_clear_error_for_each_wrong_input(step, case):
    table, message = WRONG[case]
    with pytest.raises(DataError, match=message):
        clone(step).fit(table)


@pytest.mark.parametrize("step", SMALL, ids=IDS)
def test_another_number_of_features_is_refused(step, data):
    fitted = clone(step).fit(data.features)
    name = type(step).__name__
    with pytest.raises(DataError, match=f"X has 5 features, but {name} is expecting 6"):
        fitted.transform(data.features[:, :5])
    with pytest.raises(DataError, match="knows 6 features, but the data have 5"):
        fitted.transform(data.features[:, :5].tolist())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        clone(step).transform(data)


def test_frames_for_ranking_data_are_refused(data):
    step = rw.FillMissing().fit(data).set_output(transform="pandas")
    with pytest.raises(DataError, match=r"RankingData cannot become a frame.*set_output"):
        step.transform(data)


def test_wrong_parameters_are_named(data):
    with pytest.raises(UnknownName, match=r"strategy 'meen' is not known\. Did you mean 'mean'"):
        rw.FillMissing("meen").fit(data)
    wrong = {
        "n_trees": (0, "n_trees must be a whole number of at least 1"),
        "max_leaves": (0, "max_leaves must be"),
        "min_leaf": (0, "min_leaf must be"),
        "features_per_node": (1.5, r"features_per_node must be in \(0, 1\]"),
        "max_sweeps": (0, "max_sweeps must be a whole number of at least 1"),
        "tol": (-1.0, r"tol must be in \[0, inf\)"),
        "max_bins": (1, "max_bins must be"),
        "seed": (-1, "seed must be"),
        "n_threads": (0, "n_threads must be"),
        "progress": (3, "progress must be a function"),
    }
    for name, (value, message) in wrong.items():
        with pytest.raises(ParameterError, match=message):
            rw.PredictMissing(**{name: value}).fit(data)
