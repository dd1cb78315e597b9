"""Weights of rows and queries: copies, absence, products."""

from __future__ import annotations

import numpy as np
import pytest

from rankwood.errors import DataError
from tests.contract.rankers import asked, make


def of_rows(_, contract):
    return contract.takes_row_weights


def fit(name, data, **weights):
    """A ranker whose leaves may hold one row: else a row that is there twice fills a leaf sooner."""
    options = {"min_leaf": 1} if "min_leaf" in make(name).get_params(deep=False) else {}
    return make(name, **options).fit(data.features, data.labels, data.query_ids, **weights)


def assert_close(one, two, data):
    expected = two.predict(data)
    atol = 1e-9 * np.abs(expected).max()
    np.testing.assert_allclose(one.predict(data), expected, rtol=1e-9, atol=atol)


@pytest.mark.parametrize("name", asked("rows without weight", of=of_rows))
def test_rows_without_weight_are_no_part_of_the_data(name, data, other):
    weights = (np.arange(data.n_documents) % 3).astype(float)
    with_zeros = fit(name, data, sample_weight=weights)
    without = fit(name, data.take_rows(weights > 0), sample_weight=weights[weights > 0])
    assert_close(with_zeros, without, other)
    assert_close(with_zeros, without, data)


@pytest.mark.parametrize("name", asked("queries without weight"))
def test_queries_without_weight_are_no_part_of_the_data(name, data, other):
    weights = (np.arange(data.n_queries) % 3 > 0).astype(float)
    without = data.take_queries(np.flatnonzero(weights))
    assert_close(fit(name, data, query_weight=weights), fit(name, without), other)


@pytest.mark.parametrize("name", asked("copies of rows", of=of_rows))
def test_weights_of_rows_count_as_copies(name, data, other, rng):
    times = rng.integers(1, 4, data.n_documents)
    copied = data.take_rows(np.repeat(np.arange(data.n_documents), times))
    assert_close(fit(name, data, sample_weight=times), fit(name, copied), other)


@pytest.mark.parametrize("name", asked("copies of queries"))
def test_weights_of_queries_count_as_copies(name, data, other, rng):
    times = rng.integers(1, 4, data.n_queries)
    parts = [
        np.flatnonzero(data.query_of_row == query)
        for query in range(data.n_queries)
        for _ in range(times[query])
    ]
    copied = data.take_rows(np.concatenate(parts))
    qid = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    options = {"min_leaf": 1} if "min_leaf" in make(name).get_params(deep=False) else {}
    copies = make(name, **options).fit(copied.features, copied.labels, qid)
    assert_close(fit(name, data, query_weight=times), copies, other)


@pytest.mark.parametrize("name", asked("a product of weights", of=of_rows))
def test_weights_of_queries_multiply_those_of_rows(name, data, other):
    queries = np.linspace(0.5, 2, data.n_queries)
    rows = np.linspace(1, 2, data.n_documents)
    both = fit(name, data, sample_weight=rows, query_weight=queries)
    product = fit(name, data, sample_weight=rows * queries[data.query_of_row])
    assert np.array_equal(both.predict(other), product.predict(other))


@pytest.mark.parametrize("name", asked(of=of_rows))
def test_weights_change_the_model(name, data, other):
    weighted = fit(name, data, sample_weight=1.0 + 9.0 * (data.labels > 1))
    assert not np.array_equal(weighted.predict(other), fit(name, data).predict(other))


@pytest.mark.parametrize("name", asked(of=lambda *given: not of_rows(*given)))
def test_weights_of_rows_are_refused_where_rows_have_none(name, data):
    with pytest.raises(DataError, match=f"{name} weighs queries, not documents: pass query_weight"):
        fit(name, data, sample_weight=np.linspace(1, 2, data.n_documents))
