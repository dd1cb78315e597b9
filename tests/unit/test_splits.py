"""Splits and samples by query; what two parts share; rows that repeat."""

from __future__ import annotations

import numpy as np
import pytest

from rankwood.data import splits
from rankwood.data.dataset import RankingData
from rankwood.data.splits import (
    PartContent,
    deal_folds,
    duplicates,
    sample_queries,
    shared,
    shared_content,
    split_queries,
)
from rankwood.data.synthetic import make_ranking
from rankwood.errors import DataError, ParameterError


@pytest.fixture
def data() -> RankingData:
    """Ten queries of three rows each, interleaved; the feature is the row's number."""
    return RankingData(np.arange(30.0)[:, None], np.zeros(30), np.tile(np.arange(10), 3))


def test_sizes_are_rounded_by_largest_remainder(data: RankingData) -> None:
    # 10 × (0.55, 0.33, 0.12) = 5.5, 3.3, 1.2: the one query left over goes to the first.
    parts = split_queries(data, (0.55, 0.33, 0.12))
    assert [part.n_queries for part in parts] == [6, 3, 1]


@pytest.mark.parametrize(
    ("shares", "sizes"), [((0.6, 0.2, 0.2), [6, 2, 2]), ((0.7, 0.3), [7, 3]), ((1.0,), [10])]
)
def test_whole_shares_are_met_exactly(
    data: RankingData, shares: tuple[float, ...], sizes: list[int]
) -> None:
    assert [part.n_queries for part in split_queries(data, shares)] == sizes


def test_every_query_is_whole_and_in_one_part(data: RankingData) -> None:
    parts = split_queries(data, seed=3)
    assert sorted(query for part in parts for query in part.queries.tolist()) == list(range(10))
    for part in parts:
        assert (np.bincount(part.query_of_row) == 3).all()
        assert (np.diff(part.features[:, 0]) > 0).all()  # the caller's order


def test_seed_decides_and_none_keeps_the_order(data: RankingData) -> None:
    first = [part.queries.tolist() for part in split_queries(data, seed=1)]
    assert [part.queries.tolist() for part in split_queries(data, seed=1)] == first
    assert [part.queries.tolist() for part in split_queries(data, seed=2)] != first
    kept = [part.queries.tolist() for part in split_queries(data, seed=None)]
    assert kept == [[0, 1, 2, 3, 4, 5], [6, 7], [8, 9]]


def test_weights_and_ids_go_with_their_queries() -> None:
    data = make_ranking(10, 4, 3, doc_ids=True)
    weighted = RankingData(
        data.features, data.labels, data.query_ids, data.doc_ids, query_weights=np.arange(1.0, 11)
    )
    for part in split_queries(weighted, (0.5, 0.5)):
        assert part.query_weights.tolist() == part.queries.tolist()  # query ids are 1 to 10
        assert set(part.doc_ids) <= set(data.doc_ids)


def test_an_empty_part_is_an_error(data: RankingData) -> None:
    with pytest.raises(
        DataError, match=r"part 2 of 2 would be empty: a share of 0.01 of 10 queries"
    ):
        split_queries(data, (0.99, 0.01))


@pytest.mark.parametrize("shares", [(0.5, 0.6), (1.2, -0.2), (), ((0.5, 0.5),), (np.nan, 1)])
def test_wrong_shares_are_named(data: RankingData, shares: object) -> None:
    with pytest.raises(ParameterError, match="shares must be positive numbers that sum to 1"):
        split_queries(data, shares)  # type: ignore[arg-type]


@pytest.mark.parametrize("shares", ["half", [[1], [2, 3]], None, [None]])
def test_shares_that_are_no_numbers(data: RankingData, shares: object) -> None:
    with pytest.raises(ParameterError, match="shares must be"):
        split_queries(data, shares)  # type: ignore[arg-type]


def test_messages_show_plain_numbers(data: RankingData) -> None:
    with pytest.raises(ParameterError, match=r"got \[0.5, 0.25\]\.$"):
        split_queries(data, np.array([0.5, 0.25]))  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "n_queries"), [(3, 3), (1, 1), (0.3, 3), (1.0, 10), (0.001, 1)])
def test_sample_by_number_or_share(data: RankingData, size: float, n_queries: int) -> None:
    sample = sample_queries(data, size, seed=4)
    assert sample.n_queries == n_queries
    assert sample.n_documents == 3 * n_queries
    assert (np.diff(sample.features[:, 0]) > 0).all()
    assert sample == sample_queries(data, size, seed=4)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (11, "size must be a whole number between 1 and 10, got 11"),
        (0, "size must be a whole number between 1 and 10, got 0"),
        (1.5, r"size must be in \(0, 1\], got 1.5"),
        (True, "size must be a whole number"),
        ("half", "size must be in"),
    ],
)
def test_wrong_sizes_are_named(data: RankingData, size: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        sample_queries(data, size)  # type: ignore[arg-type]


def test_parts_of_a_split_share_nothing() -> None:
    one, other = split_queries(make_ranking(10, 8, 5, doc_ids=True), (0.5, 0.5))
    overlap = shared(one, other)
    assert (overlap.n_queries, overlap.n_documents, overlap.n_rows) == (0, 0, 0)
    assert (overlap.queries, overlap.documents, overlap.rows) == ((), (), ())


def test_shared_queries_documents_and_rows_are_counted_with_examples() -> None:
    one = RankingData([[1, 2], [3, 4], [5, 6.0]], [0] * 3, [1, 1, 2], ["a", "b", "a"])
    other = RankingData([[9, 9], [3, 4], [3, 4.0]], [0] * 3, ["2", "1", "x"], ["a", "c", "d"])
    overlap = shared(one, other)
    assert (overlap.n_queries, overlap.queries) == (2, ("1", "2"))
    assert (overlap.n_documents, overlap.documents) == (1, (("2", "a"),))
    assert (overlap.n_rows, overlap.rows) == (1, ((1, 1),))  # the first of the two equal rows


def test_without_document_ids_documents_are_unknown(data: RankingData) -> None:
    overlap = shared(data, data)
    assert overlap.n_documents is None
    assert overlap.n_rows == 30
    assert overlap.queries == ("0", "1", "2", "3", "4")


def test_the_content_of_a_query_is_its_documents_in_any_order_and_width() -> None:
    data = make_ranking(6, 5, 4)
    content = PartContent.of(data)
    assert np.unique(content.queries).size == 6
    assert content.largest_label == data.labels.max()
    order = np.random.default_rng(0).permutation(data.n_documents)
    shuffled = PartContent.of(data.take_rows(order))
    of_id = dict(zip(content.ids.tolist(), content.queries.tolist(), strict=True))
    assert dict(zip(shuffled.ids.tolist(), shuffled.queries.tolist(), strict=True)) == of_id
    for filler in (0.0, np.nan):
        wide = np.full((data.n_documents, 7), filler, np.float32)
        wide[:, :4] = data.features
        widened = PartContent.of(RankingData(wide, data.labels, data.query_ids))
        assert np.array_equal(widened.queries, content.queries)
    labels = data.labels.copy()
    labels[0] += 1
    changed = PartContent.of(RankingData(data.features, labels, data.query_ids)).queries
    assert (changed != content.queries).sum() == 1
    assert np.array_equal(
        PartContent.of(RankingData(data.features, labels, data.query_ids)).rows, content.rows
    )
    fewer = PartContent.of(data.take_rows(np.arange(1, data.n_documents)))
    assert fewer.queries[0] != content.queries[0]


def test_parts_share_what_was_put_into_both() -> None:
    rng = np.random.default_rng(1)
    data = make_ranking(60, 8, 6, seed=2)
    one, other = split_queries(data, (0.5, 0.5))
    assert shared_content(PartContent.of(other), PartContent.of(one)).warnings("a", "b") == []
    assert shared_content(PartContent.of(other), PartContent.of(one)).reused_ids == ()
    for _ in range(5):
        chosen = rng.permutation(other.n_queries)[:9]
        ids = other.queries[chosen].astype(str).tolist()
        same, renamed = (
            np.isin(other.query_of_row, chosen[part]) for part in (slice(5), slice(5, 9))
        )
        joined = RankingData(
            np.concatenate([one.features, other.features[same], other.features[renamed]]),
            np.concatenate([one.labels, other.labels[same], other.labels[renamed]]),
            np.concatenate([one.query_ids, other.query_ids[same], other.query_ids[renamed] + 900]),
        )
        found = shared_content(PartContent.of(other), PartContent.of(joined))
        assert sorted(found.queries) == sorted(ids[:5])
        assert sorted(found.renamed) == sorted(ids[5:])
        assert (found.reused_ids, found.n_rows) == ((), 0)


def test_equal_ids_of_other_queries_are_no_overlap() -> None:
    one, other = make_ranking(10, 8, 6, seed=1), make_ranking(12, 8, 6, seed=2)
    found = shared_content(PartContent.of(other), PartContent.of(one))
    assert found.warnings("test", "train") == []
    assert len(found.reused_ids) == 10
    assert (
        "10 ids of queries are in both test and train, with other documents"
        in found.notes("test", "train")[0]
    )


@pytest.mark.parametrize(("n_features", "levels"), [(1, 2), (2, 10), (4, 6), (5, 10), (20, 2)])
def test_documents_that_are_alike_by_chance_are_no_overlap(n_features: int, levels: int) -> None:
    # Few features of few values: many rows of any two queries are equal.
    for seed in range(20):
        rng = np.random.default_rng(seed)
        features = rng.integers(levels, size=(2000, n_features)).astype(np.float32)
        ids = np.repeat(np.arange(200), 10)
        data = RankingData(features, rng.integers(3, size=2000), ids)
        one, other = split_queries(data, (0.7, 0.3), seed=seed)
        assert (
            shared_content(PartContent.of(other), PartContent.of(one)).warnings("test", "train")
            == []
        )


def test_parts_without_queries_or_rows_share_rows_or_nothing() -> None:
    data = make_ranking(6, 5, 4)
    bare = RankingData(data.features, data.labels)
    assert shared_content(PartContent.of(bare), PartContent.of(data)).n_rows == data.n_documents
    none = data.take_rows(np.zeros(0, np.int64))
    assert shared_content(PartContent.of(none), PartContent.of(data)).warnings("a", "b") == []
    assert shared_content(PartContent.of(data), PartContent.of(none)).warnings("a", "b") == []


def test_rows_are_equal_by_value() -> None:
    other_nan = np.array([0x7FC00001], np.uint32).view(np.float32)[0]
    one = RankingData(np.array([[0.0, np.nan], [1, 0]], np.float32), [0, 0], [1, 1])
    other = RankingData(np.array([[-0.0, other_nan], [0, 1]], np.float32), [0, 0], [2, 2])
    assert shared(one, other).rows == ((0, 0),)


def test_a_feature_that_one_side_lacks_counts_as_zero() -> None:
    narrow = RankingData([[1.0], [2.0]], [0, 0], [1, 1])
    wide = RankingData([[1, 0.0], [2, 3.0]], [0, 0], [2, 2])
    assert shared(narrow, wide).rows == ((0, 0),)
    assert shared(wide, narrow).rows == ((0, 0),)


def test_duplicates_are_rows_that_repeat_within_their_query() -> None:
    features = [[1, 2], [1, 2], [1, 2], [3, 4], [1, 2], [3, 4.0]]
    data = RankingData(features, [0] * 6, ["a", "b", "a", "a", "a", "a"])
    assert duplicates(data).tolist() == [2, 4, 5]
    assert duplicates(make_ranking(10, 20, 10)).tolist() == []


def test_rows_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.array([[1], [2], [1], [3], [2.0]])
    data = RankingData(features, [0] * 5, [7, 7, 7, 8, 8])
    other = RankingData([[9.0], [3], [1]], [0] * 3, [1, 1, 1])
    expected = duplicates(data).tolist(), shared(data, other).rows
    assert expected == ([2], ((0, 2), (2, 2), (3, 1)))
    monkeypatch.setattr(splits, "_hash_rows", lambda features: np.zeros(len(features), np.uint64))
    assert (duplicates(data).tolist(), shared(data, other).rows) == expected


def test_folds_are_dealt_evenly_and_only_to_the_units_asked_for():
    units = np.array([1, 3, 4, 6, 9])
    folds = deal_folds(units, 10, 2, np.random.default_rng(0))
    assert sorted(np.bincount(folds[units]).tolist()) == [2, 3]
    assert (np.delete(folds, units) == -1).all()
    everything = deal_folds(np.arange(7), 7, 7, np.random.default_rng(1))
    assert everything[np.random.default_rng(1).permutation(7)].tolist() == list(range(7))
