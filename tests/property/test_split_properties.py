"""Splits, folds and samples of any data: nothing lost, nothing twice, no query cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwood.data.dataset import RankingData
from rankwood.data.features import normalise_per_query
from rankwood.data.splits import duplicates, make_folds, sample_queries, shared, split_queries

query_lists = st.lists(st.integers(0, 12), min_size=1, max_size=60)


def data_of(query_ids: list[int]) -> RankingData:
    """Rows in any order; the one feature is the row's number."""
    rows = np.arange(len(query_ids), dtype=np.float32)[:, None]
    return RankingData(rows, np.zeros(len(query_ids)), query_ids)


def rows_of(data: RankingData) -> list[int]:
    return data.features[:, 0].astype(int).tolist()


@given(query_lists, st.integers(1, 4), st.integers(0, 5))
def test_a_split_is_a_partition_of_queries(query_ids: list[int], n_parts: int, seed: int) -> None:
    data = data_of(query_ids)
    n_parts = min(n_parts, data.n_queries)
    parts = split_queries(data, [1 / n_parts] * n_parts, seed=seed)
    assert sorted(row for part in parts for row in rows_of(part)) == list(range(len(query_ids)))
    for place, part in enumerate(parts):
        assert rows_of(part) == sorted(rows_of(part))
        for other in parts[place + 1 :]:
            assert shared(part, other).n_queries == 0
    sizes = [part.n_queries for part in parts]
    assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(20, 200))
def test_sizes_are_within_one_of_the_shares(weights: list[int], n_queries: int) -> None:
    shares = np.array(weights) / sum(weights)
    if (shares * n_queries).min() < 1:
        n_queries = int(np.ceil(1 / shares.min()))
    parts = split_queries(data_of(list(range(n_queries))), shares.tolist())
    for part, share in zip(parts, shares, strict=True):
        assert part.n_queries == pytest.approx(share * n_queries, abs=1)


@given(st.lists(st.integers(0, 30), min_size=30, max_size=80), st.integers(3, 6), st.integers(0, 3))
def test_each_query_is_tested_once_over_all_folds(
    query_ids: list[int], n_folds: int, seed: int
) -> None:
    data = data_of([*range(6), *query_ids])
    folds = list(make_folds(data, n_folds, seed=seed))
    every_row = list(range(data.n_documents))
    assert sorted(row for fold in folds for row in rows_of(fold.test)) == every_row
    assert sorted(row for fold in folds for row in rows_of(fold.valid)) == every_row
    for place, fold in enumerate(folds):
        assert sorted(row for part in fold for row in rows_of(part)) == every_row
        assert rows_of(fold.valid) == rows_of(folds[place - 1].test)  # the rotation


@given(query_lists, st.floats(0.01, 1.0), st.integers(0, 5))
def test_a_sample_has_whole_queries(query_ids: list[int], share: float, seed: int) -> None:
    data = data_of(query_ids)
    sample = sample_queries(data, share, seed=seed)
    chosen = set(sample.queries.tolist())
    assert rows_of(sample) == [row for row, query in enumerate(query_ids) if query in chosen]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([0.0, -0.0, 1.0, np.nan, np.inf])),
        min_size=1,
        max_size=30,
    )
)
def test_duplicates_by_their_definition(rows: list[tuple[int, float]]) -> None:
    query_ids, values = zip(*rows, strict=True)
    data = RankingData(np.array(values, np.float32)[:, None], np.zeros(len(rows)), query_ids)
    texts = [(query, str(value + 0.0)) for query, value in rows]
    expected = [place for place, text in enumerate(texts) if text in texts[:place]]
    assert duplicates(data).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(width=32)), min_size=1, max_size=30))
def test_minmax_keeps_to_the_unit_interval_and_the_order(rows: list[tuple[int, float]]) -> None:
    query_ids, values = zip(*rows, strict=True)
    column = np.array(values, np.float32)
    data = RankingData(column[:, None], np.zeros(len(rows)), query_ids)
    scaled = normalise_per_query(data).features[:, 0]
    assert np.array_equal(np.isnan(scaled), np.isnan(column))
    assert ((scaled >= 0) & (scaled <= 1) | np.isnan(scaled)).all()
    for _, members in data.iter_queries():
        known = members[np.isfinite(column[members])]
        ascending = known[np.argsort(column[known], kind="stable")]
        assert (np.diff(scaled[ascending]) >= 0).all()
