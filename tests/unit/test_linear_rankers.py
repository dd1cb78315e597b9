"""The contract of linear rankers: scikit-learn's checks, wrong input, saving, importances."""

from __future__ import annotations

import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

import rankwood as rw
from rankwood.errors import DataError, ModelError
from tests.unit.test_estimator_contract import (
    EXPECTED_FAILURES,
    GOOD,
    WEIGHTS_AS_COPIES,
    WRONG,
)

KINDS = [rw.AdaRank, rw.RankSVM]


class InOneQuery:
    """scikit-learn's checks know no queries: all their rows are put into one."""

    def fit(self, X, y=None, qid=None, *, sample_weight=None):
        is_table = y is not None and getattr(X, "ndim", 2) == 2
        qid = np.zeros(_num_samples(X), int) if qid is None and is_table else qid
        return super().fit(X, y, qid, sample_weight=sample_weight)


class AdaRankInOneQuery(InOneQuery, rw.AdaRank):
    pass


class RankSVMInOneQuery(InOneQuery, rw.RankSVM):
    pass


OWN_WORDS = EXPECTED_FAILURES | {"check_fit2d_1sample": "we say that there are no pairs"}
NO_ROW_WEIGHTS = dict.fromkeys(
    (
        "check_sample_weights_list",
        "check_sample_weights_not_overwritten",
        *WEIGHTS_AS_COPIES,
    ),
    "AdaRank weighs queries, not documents, and says so",
)


def expected_failures(model) -> dict[str, str]:
    return OWN_WORDS | (NO_ROW_WEIGHTS if isinstance(model, rw.AdaRank) else {})


@parametrize_with_checks(
    [AdaRankInOneQuery(5), RankSVMInOneQuery()], expected_failed_checks=expected_failures
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 10, 5, seed=3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", WRONG)
def test_one_clear_error_for_each_wrong_input(kind, case):
    change, message = WRONG[case]
    with pytest.raises(DataError, match=message):
        kind(2).fit(**{**GOOD, **change})


@pytest.mark.parametrize("kind", KINDS)
def test_the_constructor_keeps_its_arguments(kind):
    model = kind("seven", measure=None)
    assert model.measure is None
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("kind", KINDS)
def test_models_survive_pickle_joblib_and_their_file(kind, data, tmp_path):
    fitted = kind().fit(data)
    expected = fitted.predict(data)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(data), expected)
    buffer = io.BytesIO()
    joblib.dump(fitted, buffer)
    buffer.seek(0)
    assert np.array_equal(joblib.load(buffer).predict(data), expected)
    rw.save(fitted, tmp_path / "m")
    again = rw.load(tmp_path / "m")
    assert again.linear_ == fitted.linear_
    assert again.get_params() == fitted.get_params()
    assert again.stopped_because_ == fitted.stopped_because_
    assert np.array_equal(again.feature_importances_, fitted.feature_importances_)
    rw.save(kind().fit(data), tmp_path / "same")
    rw.save(again, tmp_path / "again")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "same").read_bytes()
    assert (tmp_path / "m").read_bytes() == (tmp_path / "again").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_an_unfitted_model_says_so(kind, data, tmp_path):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        kind().predict(data)
    with pytest.raises(AttributeError, match="not fitted yet"):
        _ = kind().feature_importances_
    with pytest.raises(ModelError, match="not fitted yet: there is nothing to save"):
        rw.save(kind(), tmp_path / "m")


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_part_of_the_model(kind, data):
    frame = pd.DataFrame(data.features, columns=list("abcde"))
    model = kind().fit(frame, data.labels, data.query_ids)
    assert model.feature_names_in_.tolist() == list("abcde")
    assert np.array_equal(model.predict(frame[list("edcba")]), model.predict(frame))
    with pytest.raises(DataError, match="the data lack 'a'"):
        model.predict(frame.rename(columns={"a": "z"}))
    reordered = (frame[list("edcba")], data.labels, data.query_ids)
    valid = kind().fit(frame, data.labels, data.query_ids, valid=reordered)
    expected = kind().fit(data, valid=data)
    assert valid.history_ == expected.history_


@pytest.mark.parametrize("kind", KINDS)
def test_binned_data_are_taken_by_their_rows(kind, data):
    assert kind().fit(rw.bin(data)).linear_ == kind().fit(data).linear_


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_queries_makes_no_difference(kind, data):
    turned = data.take_queries(np.arange(data.n_queries)[::-1])
    measure = "ndcg@10[ties=average]"  # the order of tied documents is drawn row by row
    one, other = kind(measure=measure).fit(data), kind(measure=measure).fit(turned)
    np.testing.assert_allclose(one.linear_.weights, other.linear_.weights, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_on_disk_give_the_same_model(kind, data, tmp_path):
    np.save(tmp_path / "features.npy", data.features)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    on_disk = rw.RankingData(mapped, data.labels, data.query_ids, feature_names=data.feature_names)
    assert kind().fit(on_disk).linear_ == kind().fit(data).linear_


@pytest.mark.parametrize("kind", KINDS)
def test_importances_are_shares(kind, data):
    model = kind().fit(data)
    parts = np.abs(model.linear_.weights) * data.features.astype(np.float64).std(axis=0)
    np.testing.assert_allclose(model.feature_importances_, parts / parts.sum(), rtol=1e-9)
