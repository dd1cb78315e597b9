"""What rankers take and refuse: every kind of table, names of features, labels, queries, shapes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

import rankwood as rw
from rankwood.errors import DataError
from tests.contract.rankers import asked, assert_same_fit, fitted, make, saved

pytestmark = pytest.mark.jit_only  # kernels are asked by the other files

NAMES = list("abcde")


def complete(data):
    """The same data without gaps and names: a sparse matrix has neither."""
    return rw.RankingData(np.nan_to_num(data.features), data.labels, data.query_ids)


@pytest.mark.parametrize("name", asked())
def test_every_kind_of_table_gives_the_same_model(name, data, tmp_path):
    data = complete(data)
    features, labels, qid = data.features, data.labels, data.query_ids
    np.save(tmp_path / "features.npy", features)
    expected = make(name).fit(data)
    content = saved(expected, tmp_path / "expected")
    scores = expected.predict(data)
    tables = {
        "array": features,
        "float64": features.astype(np.float64),
        "Fortran order": np.asfortranarray(features),
        "list": features.tolist(),
        "sparse": scipy.sparse.csr_matrix(features),
        "on disk": np.load(tmp_path / "features.npy", mmap_mode="r"),
    }
    for kind, table in tables.items():
        model = make(name).fit(table, labels, qid)
        assert saved(model, tmp_path / "model") == content, kind
        assert np.array_equal(model.predict(table), scores), kind
    frames = {
        "pandas": pd.DataFrame(features, columns=NAMES),
        "polars": pl.DataFrame(features, schema=NAMES),
    }
    for kind, frame in frames.items():
        model = make(name).fit(frame, labels, qid)
        assert np.array_equal(model.predict(frame), scores), kind
        assert np.array_equal(model.predict(features), scores), kind  # by position


@pytest.mark.parametrize("name", asked())
def test_binned_data_give_the_same_model_and_stay_as_they_are(name, data, other):
    binned = rw.bin(data)
    before = binned.codes.copy()
    model = make(name).fit(binned, valid=rw.bin(other))
    assert_same_fit(model, fitted(name, with_valid=True))
    assert np.array_equal(model.predict(rw.bin(other)), model.predict(other))
    assert np.array_equal(binned.codes, before)


@pytest.mark.parametrize("name", asked())
def test_names_are_part_of_the_model(name, data):
    frame = pd.DataFrame(data.features, columns=NAMES)
    model = make(name).fit(frame, data.labels, data.query_ids)
    assert model.feature_names_in_.tolist() == NAMES
    assert np.array_equal(model.predict(frame[NAMES[::-1]]), model.predict(frame))
    assert np.array_equal(model.predict(data.features), model.predict(frame))
    with pytest.raises(DataError, match=r"the data lack 'a'.*does not know 'z'"):
        model.predict(frame.rename(columns={"a": "z"}))
    model.fit(data.features, data.labels, data.query_ids)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("name", asked())
def test_scores_come_in_the_callers_order(name, data, rng):
    order = rng.permutation(data.n_documents)
    model = fitted(name)
    assert np.array_equal(model.predict(data.take_rows(order)), model.predict(data)[order])
    assert model.predict(np.ones((0, 5))).size == 0


@pytest.mark.parametrize("name", asked())
def test_what_is_given_is_never_written_to(name, data):
    arrays = [data.features.copy(), data.labels.copy(), np.linspace(0.5, 1, data.n_queries)]
    before = [array.copy() for array in arrays]
    make(name).fit(*arrays[:2], data.query_ids, query_weight=arrays[2]).predict(arrays[0])
    for array, old in zip(arrays, before, strict=True):
        assert np.array_equal(array, old, equal_nan=True)


@pytest.mark.parametrize("name", asked())
def test_an_unfitted_ranker_says_so(name, data):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        make(name).predict(data)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        make(name).score(data)


@pytest.mark.parametrize("name", asked(of=lambda _, contract: contract.has_importances))
def test_importances_are_shares(name):
    importances = fitted(name).feature_importances_
    assert importances.shape == (5,)
    assert importances.min() >= 0
    assert importances.sum() == pytest.approx(1.0)
    with pytest.raises(AttributeError, match="not fitted yet"):
        _ = make(name).feature_importances_


@pytest.mark.parametrize("name", asked())
def test_other_shapes_are_refused(name, data):
    model = fitted(name)
    bare = make(name).fit(data.features, data.labels, data.query_ids)
    with pytest.raises(DataError, match=f"X has 4 features, but {name} is expecting 5 features as"):
        bare.predict(data.features[:, :4])
    with pytest.raises(DataError, match="knows 5 features, but the data have 4"):
        bare.predict(np.nan_to_num(data.features[:, :4]).tolist())
    with pytest.raises(DataError, match="two dimensions"):
        model.predict(np.arange(5.0))


@pytest.mark.parametrize("name", asked())
def test_the_score_is_ndcg_over_the_queries(name, other):
    model = fitted(name)
    ndcg = rw.evaluate(model, other, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert model.score(other) == pytest.approx(ndcg)
    assert model.score(other.features, other.labels, qid=other.query_ids) == pytest.approx(ndcg)


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


@pytest.mark.parametrize("name", asked())
def test_one_clear_error_for_each_wrong_input(name):
    for change, message in WRONG.values():
        model = make(name)
        with pytest.raises(DataError, match=message):
            model.fit(**{**GOOD, **change})
        assert not [key for key in vars(model) if key.endswith("_")]  # nothing was learned


@pytest.mark.parametrize("name", asked())
def test_what_ranking_data_bring_is_not_passed_twice(name, data):
    for given in (data, rw.bin(data)):
        with pytest.raises(DataError, match="y was passed beside a RankingData, which has its own"):
            make(name).fit(given, data.labels)
        with pytest.raises(DataError, match="qid was passed beside a RankingData"):
            make(name).fit(given, qid=data.query_ids)
    weighted = rw.RankingData(data.features, data.labels, row_weights=np.ones(data.n_documents))
    with pytest.raises(DataError, match="sample_weight was passed beside RankingData that have w"):
        make(name).fit(weighted, sample_weight=np.ones(data.n_documents))


@pytest.mark.parametrize("name", asked(of=lambda _, contract: contract.needs_queries))
def test_queries_are_needed(name, data):
    with pytest.raises(DataError, match="have no query ids"):
        make(name).fit(data.features, data.labels)


@pytest.mark.parametrize("name", asked(of=lambda _, contract: not contract.needs_queries))
def test_queries_are_not_needed(name, data, other):
    model = make(name).fit(data.features, data.labels)
    assert np.isfinite(model.predict(other)).all()
    assert model.training_["queries"] is None


@pytest.mark.parametrize("name", asked(of=lambda _, contract: not contract.takes_infinity))
def test_infinite_features_are_refused_by_place(name):
    features = np.array([[1.0, 2], [3, np.inf], [5, 6]])
    with pytest.raises(DataError, match=r"features\[1, 1\] is inf: a .* needs finite values"):
        make(name).fit(features, [0, 1, 2], [1, 1, 1])
