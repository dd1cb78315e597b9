"""Rows grouped by query, against the slow twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwood.data.dataset import group_rows
from tests.reference import queries as reference


def objects(values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


def assert_equals_the_slow_twin(query_ids):
    grouping = group_rows(query_ids)
    queries, rows_of_query, n_separated = reference.group_rows(query_ids.tolist())
    assert grouping.queries.tolist() == queries
    assert grouping.n_separated == n_separated
    assert grouping.offsets[0] == 0
    assert grouping.offsets[-1] == query_ids.size
    for query, rows in enumerate(rows_of_query):
        first, last = grouping.offsets[query : query + 2]
        assert grouping.row_order[first:last].tolist() == rows
        assert (grouping.query_of_row[rows] == query).all()


@given(st.lists(st.integers(0, 6)))
def test_whole_numbers_equal_the_slow_twin(ids):
    assert_equals_the_slow_twin(np.array(ids, np.int64))


@given(st.lists(st.sampled_from(["a", "", "é", "10", "a "])))
def test_text_equals_the_slow_twin(ids):
    assert_equals_the_slow_twin(objects(ids))


@pytest.mark.parametrize(
    "query_ids",
    [
        np.array([7], np.int32),
        np.zeros(5, np.int64),
        np.array([2**64 - 1, 0, 2**64 - 1], np.uint64),
        np.array([-(2**63), 2**63 - 1, -(2**63)], np.int64),
        objects([1, "1", 1, "a"]),  # a number and the text of it are different queries
        np.array([], np.int64),
    ],
    ids=["one row", "one query", "unsigned", "extremes", "mixed", "no rows"],
)
def test_nasty_ids_equal_the_slow_twin(query_ids):
    assert_equals_the_slow_twin(query_ids)


def test_grouped_rows_keep_their_order_and_dtypes():
    grouping = group_rows(np.array([5, 5, 3], np.int32))
    assert grouping.row_order.tolist() == [0, 1, 2]
    assert grouping.n_separated == 0
    for array in (grouping.offsets, grouping.row_order, grouping.query_of_row):
        assert array.dtype == np.int64


def test_the_grouped_view_cannot_be_written_to():
    grouping = group_rows(np.array([1, 2, 1]))
    for array in (grouping.queries, grouping.offsets, grouping.row_order, grouping.query_of_row):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
