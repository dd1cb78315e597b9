"""RankingData: what goes in, what comes out, and that nothing changes it."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwood.data.dataset import RankingData
from rankwood.errors import DataError

# Rows 0, 2, 4 belong to query "b", rows 1 and 3 to "a".
FEATURES = np.arange(10, dtype=np.float32).reshape(5, 2)
LABELS = [0, 2, 1, 0, 3]
QUERY_IDS = ["b", "a", "b", "a", "b"]


def make(**changes):
    parts = {
        "features": FEATURES,
        "labels": LABELS,
        "query_ids": QUERY_IDS,
        "doc_ids": [10, 11, 12, 13, 14],
        "row_weights": [1, 2, 3, 4, 5],
        "query_weights": {"a": 0.5, "b": 2.0},
        "feature_names": ("tf", "idf"),
    }
    return RankingData(**{**parts, **changes})


def test_counts_and_names():
    data = make()
    assert (data.n_documents, len(data), data.n_features, data.n_queries) == (5, 5, 2, 2)
    assert data.names == ("tf", "idf")
    assert repr(data) == "RankingData(5 documents, 2 queries, 2 features)"
    assert repr(make(query_ids=None, query_weights=None)) == (
        "RankingData(5 documents, no query ids, 2 features)"
    )


def test_without_names_features_are_numbered_from_one():
    data = make(feature_names=None)
    assert data.feature_names is None
    assert data.names == ("1", "2")


def test_rows_stay_in_the_callers_order_and_the_grouped_view_follows():
    data = make()
    assert data.labels.tolist() == LABELS
    assert data.query_ids.tolist() == QUERY_IDS
    assert data.queries.tolist() == ["b", "a"]
    assert data.query_offsets.tolist() == [0, 3, 5]
    assert data.row_order.tolist() == [0, 2, 4, 1, 3]
    assert data.query_of_row.tolist() == [0, 1, 0, 1, 0]
    assert [(query, rows.tolist()) for query, rows in data.iter_queries()] == [
        ("b", [0, 2, 4]),
        ("a", [1, 3]),
    ]


def test_query_weights_by_id_or_in_the_order_of_queries():
    assert make().query_weights.tolist() == [2.0, 0.5]
    assert make(query_weights=[2.0, 0.5]) == make()


def test_dtypes_are_fixed():
    data = make()
    assert data.features.dtype == np.float32
    assert data.labels.dtype == data.row_weights.dtype == data.query_weights.dtype == np.float64
    assert data.query_ids.dtype == object
    assert data.doc_ids.dtype == np.int64
    assert data.features.flags.c_contiguous


def test_the_object_is_frozen():
    data = make()
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'labels'"):
        data.labels = np.zeros(5)
    for name in ("features", "labels", "query_ids", "doc_ids", "row_weights", "query_weights"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(data, name)[0] = 0
    with pytest.raises(TypeError, match="unhashable"):
        hash(data)


def test_the_callers_vectors_stay_theirs():
    labels, ids, weights = np.zeros(2), np.array([1, 2]), np.ones(2)
    data = RankingData([[0.0], [1.0]], labels, ids, ids, weights, weights)
    labels[0], ids[0], weights[0] = 9.0, 9, 9.0
    assert data.labels[0] == 0.0
    assert data.query_ids[0] == data.doc_ids[0] == 1
    assert data.row_weights[0] == data.query_weights[0] == 1.0


def test_float32_features_are_not_copied():
    assert np.shares_memory(make().features, FEATURES)
    assert FEATURES.flags.writeable  # the caller's array is left as it was


@pytest.mark.parametrize(
    "copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy]
)
def test_copies_are_equal_and_just_as_frozen(copied):
    data = make()
    other = copied(data)
    assert other == data
    assert other.row_order.tolist() == data.row_order.tolist()
    with pytest.raises(ValueError, match="read-only"):
        other.features[0, 0] = 1


@pytest.mark.parametrize(
    "change",
    [
        {"features": FEATURES + 1},
        {"labels": [0, 2, 1, 0, 2]},
        {"query_ids": ["b", "a", "b", "b", "a"]},
        {"doc_ids": None},
        {"row_weights": None},
        {"query_weights": [2.0, 0.25]},
        {"feature_names": ("tf", "df")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_difference_anywhere_makes_them_unequal(change):
    assert make(**change) != make()


def test_equality_knows_missing_values_and_other_types():
    features = np.where(FEATURES == 3, np.nan, FEATURES)
    assert make(features=features) == make(features=features.copy())
    assert make() != "data"
    assert make(feature_names=None) == make(feature_names=["1", "2"])


def test_take_rows_keeps_order_and_everything_that_belongs_to_a_row():
    part = make().take_rows([3, 0, 3])
    assert part.features.tolist() == [[6.0, 7.0], [0.0, 1.0], [6.0, 7.0]]
    assert part.labels.tolist() == [0, 0, 0]
    assert part.query_ids.tolist() == ["a", "b", "a"]
    assert part.doc_ids.tolist() == [13, 10, 13]
    assert part.row_weights.tolist() == [4, 1, 4]
    assert part.queries.tolist() == ["a", "b"]
    assert part.query_weights.tolist() == [0.5, 2.0]  # in the order of the new queries
    assert part.names == ("tf", "idf")


def test_a_mask_or_numbers_take_the_same_rows():
    data = make()
    assert data.take_rows(np.array(LABELS) > 0) == data.take_rows([1, 2, 4])
    assert data.take_queries([False, True]) == data.take_queries([1])


def test_take_queries_in_the_order_given():
    part = make().take_queries([1, 0])
    assert part.query_ids.tolist() == ["a", "a", "b", "b", "b"]
    assert part.doc_ids.tolist() == [11, 13, 10, 12, 14]
    assert part.query_weights.tolist() == [0.5, 2.0]


def test_nothing_can_be_taken():
    for empty in (
        make().take_rows([]),
        make().take_queries([]),
        make().take_rows(np.zeros(5, bool)),
    ):
        assert (empty.n_documents, empty.n_queries, empty.n_features) == (0, 0, 2)
        assert empty.query_offsets.tolist() == [0]


def test_a_part_may_have_only_zero_weights():
    data = make(query_weights={"a": 0, "b": 1}, row_weights=[1, 0, 1, 0, 1])
    part = data.take_queries([1])
    assert part.query_weights.tolist() == [0.0]
    assert part.row_weights.tolist() == [0.0, 0.0]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20), st.randoms())
def test_taking_all_queries_in_any_order_loses_no_row(query_ids, random):
    rows = np.arange(len(query_ids))
    data = RankingData(rows.reshape(-1, 1), rows, query_ids, doc_ids=rows)
    order = list(range(data.n_queries))
    random.shuffle(order)
    taken = data.take_queries(order)
    assert taken.queries.tolist() == data.queries[order].tolist()
    assert sorted(taken.doc_ids.tolist()) == rows.tolist()
    assert taken.take_rows(np.argsort(taken.doc_ids)) == data


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda data: data.take_rows([5]), "rows has 5, but numbers run from 0 to 4"),
        (lambda data: data.take_rows([-1]), "rows has -1, but numbers run from 0 to 4"),
        (lambda data: data.take_rows([True]), "a mask for rows needs 5 truth values, got 1"),
        (lambda data: data.take_rows([0.5]), "rows must be whole numbers or a mask, got float64"),
        (lambda data: data.take_queries([2]), "queries has 2, .* positions, not ids"),
        (lambda data: data.take_queries(["a"]), "queries must be whole numbers or a mask"),
        (lambda data: data.take_queries([1, 0, 1]), "query 'a' is taken more than once"),
    ],
)
def test_what_cannot_be_taken(call, message):
    with pytest.raises(DataError, match=message):
        call(make())


@pytest.mark.parametrize(
    "ask",
    [
        lambda data: data.queries,
        lambda data: data.n_queries,
        lambda data: data.query_offsets,
        lambda data: data.row_order,
        lambda data: data.query_of_row,
        lambda data: data.take_queries([0]),
        lambda data: next(data.iter_queries()),
    ],
)
def test_without_query_ids_whatever_needs_them_says_what_to_pass(ask):
    data = RankingData(FEATURES, LABELS)
    with pytest.raises(
        DataError, match=r"no query ids.*Pass query_ids= \(or qid=\), one id per row"
    ):
        ask(data)


def test_rows_can_be_taken_without_query_ids():
    assert RankingData(FEATURES, LABELS).take_rows([4]).labels.tolist() == [3.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros((5, 0))}, "features has no columns"),
        ({"labels": [1, 2]}, "labels has 2 values, but there are 5 rows"),
        ({"labels": [0, 1, -2, 0, 0]}, r"labels\[2\] is -2; labels must not be negative"),
        ({"labels": [0, np.inf, 0, 0, 0]}, r"labels\[1\] is inf; labels must be finite"),
        ({"query_ids": ["a"]}, "query_ids has 1 values, but there are 5 rows"),
        ({"query_ids": [1, 1, None, 2, 2]}, r"query_ids\[2\] is missing"),
        ({"row_weights": [1, 1, 1, 1, -1]}, r"row_weights\[4\] is -1"),
        ({"query_weights": [1, 2, 3]}, "query_weights has 3 values, but there are 2 queries"),
        ({"query_weights": {"b": 1}}, "query_weights has no weight for query 'a'"),
        ({"query_ids": None}, "no query ids"),
        ({"feature_names": ["tf"]}, "feature_names has 1 names, but there are 2 features"),
        ({"feature_names": ()}, "feature_names has 0 names, but there are 2 features"),
        ({"feature_names": ["tf", "tf"]}, "feature_names has 'tf' more than once"),
        ({"feature_names": "ti"}, "feature_names must be a list of names"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(DataError, match=message):
        make(**change)


def test_columns_of_frames_serve_as_labels_and_ids():
    expected = RankingData([[1], [2]], [0, 1], ["x", "y"], [7, 8], [1, 2])
    for series, text in ((pd.Series, pd.Series), (pl.Series, pl.Series), (pa.array, pa.array)):
        data = RankingData(
            [[1], [2]], series([0, 1]), text(["x", "y"]), series([7, 8]), series([1, 2])
        )
        assert data == expected
    nullable = RankingData(
        [[1], [2]],
        pd.array([0, 1], "Int64"),
        pd.Categorical(["x", "y"]),
        pa.chunked_array([[7], [8]]),
        [1, 2],
    )
    assert nullable == expected


def test_missing_labels_and_ids_in_frames_are_refused():
    with pytest.raises(DataError, match=r"labels\[1\] is nan; labels must be finite"):
        RankingData([[1], [2]], pd.array([0, None], "Int64"))
    with pytest.raises(DataError, match=r"query_ids\[1\] is missing"):
        RankingData([[1], [2]], [0, 1], pl.Series([1, None]))
    with pytest.raises(DataError, match=r"query_ids\[0\] is missing"):
        RankingData([[1], [2]], [0, 1], pd.Series([None, "x"]))


def test_the_example_in_the_docstring_is_right():
    data = RankingData([[0.2], [0.9], [0.4]], labels=[0, 2, 1], query_ids=["b", "a", "b"])
    shown = (data.queries.tolist(), data.row_order.tolist(), data.query_offsets.tolist())
    assert str(shown) in RankingData.__doc__
    assert repr(data) in RankingData.__doc__
