"""Splitting data by query, and comparing two data sets: shared queries, documents and rows.

Rows are compared by value: +0 equals -0, and a missing value equals a missing one. A 64-bit hash of each row finds
the candidates, and the values decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.random import stream
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Features, Rows
from rankwood.errors import DataError, ParameterError

_BLOCK = 4096  # rows hashed or compared at a time
_EXAMPLES = 5


def split_queries(
    data: RankingData,
    shares: Sequence[float] = (0.6, 0.2, 0.2),
    *,
    seed: int | None = 0,
) -> tuple[RankingData, ...]:
    """Split data by query into one part per share; rows keep the caller's order.

    Queries are shuffled by ``seed``; with None the first part takes the first queries, and so on.
    The numbers of queries are the shares rounded by largest remainder; every query is in exactly
    one part.
    """
    counts = _counts(shares, data.n_queries)
    edges = np.cumsum(counts)[:-1]
    parts = np.split(shuffled_queries(data, seed, "split queries"), edges)
    return tuple(rows_of_queries(data, part) for part in parts)


def sample_queries(data: RankingData, size: int | float, *, seed: int = 0) -> RankingData:
    """A random sample of queries with all their rows, in the caller's order.

    ``size`` is a number of queries when it is an int, a share of them (at least one) when it is a
    float.
    """
    if isinstance(size, int | np.integer):
        count = checks.whole_number("size", size, 1, data.n_queries)
    else:
        share = checks.real_number("size", size, "(0, 1]")
        count = max(1, round(share * data.n_queries))
    return rows_of_queries(data, shuffled_queries(data, seed, "sample queries")[:count])


@dataclass(frozen=True)
class Overlap:
    """Queries, documents and rows that two data sets share, with the first few examples."""

    n_queries: int
    queries: tuple[str, ...]
    n_documents: int | None  # pairs of query and document id; None if one side has no document ids
    documents: tuple[tuple[str, str], ...]
    n_rows: int  # rows of the first with the same features as a row of the other
    rows: tuple[tuple[int, int], ...]  # as (row of the first, row of the other)


def shared(data: RankingData, other: RankingData) -> Overlap:
    """The queries, documents and rows of ``data`` that are also in ``other``.

    Ids are compared as text, since those of one file may all be numbers and those of the other not.
    A feature that only one of the two has counts as 0 in the other, as in LETOR files.
    """
    queries = _common(_texts(data.queries), _texts(other.queries))
    documents: list[Any] = []
    has_documents = data.doc_ids is not None and other.doc_ids is not None
    if has_documents:
        documents = _common(_documents(data), _documents(other))
    pairs = _equal_rows(data.features, other.features)
    return Overlap(
        n_queries=len(queries),
        queries=tuple(queries[:_EXAMPLES]),
        n_documents=len(documents) if has_documents else None,
        documents=tuple(documents[:_EXAMPLES]),
        n_rows=len(pairs),
        rows=tuple((int(row), int(other_row)) for row, other_row in pairs[:_EXAMPLES]),
    )


def duplicates(data: RankingData) -> Rows:
    """The rows whose features equal those of an earlier row of the same query, ascending."""
    query_of_row = data.query_of_row
    keys = _hash_rows(data.features)
    # An odd factor maps queries one to one.
    keys += query_of_row.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    order = np.argsort(keys, kind="stable")
    # Rows with the same key are adjacent; each is compared with the one before it.
    is_repeat = keys[order[1:]] == keys[order[:-1]]
    pairs = np.stack([order[1:], order[:-1]], axis=1)[is_repeat]
    is_equal = _are_equal(data.features, data.features, pairs)
    is_equal &= query_of_row[pairs[:, 0]] == query_of_row[pairs[:, 1]]
    if is_equal.all():
        return np.sort(pairs[:, 0])
    return _repeated_rows(data)


def shuffled_queries(data: RankingData, seed: int | None, purpose: str) -> Rows:
    """The indices of all queries, shuffled by ``seed``, or in order if it is None."""
    if seed is None:
        return np.arange(data.n_queries)
    seed = checks.whole_number("seed", seed, 0)
    return stream(seed, purpose).permutation(data.n_queries)


def deal_folds(units: Rows, n_units: int, n_folds: int, generator: np.random.Generator) -> Rows:
    """The fold of each of ``n_units`` units (queries or rows), drawn for ``units``; -1 for the others.

    Folds differ by at most one unit in size.
    """
    fold_of_unit = np.full(n_units, -1)
    fold_of_unit[generator.permutation(units)] = np.arange(units.size) % n_folds
    return fold_of_unit


def rows_of_queries(data: RankingData, queries: Rows) -> RankingData:
    """The rows of the queries with these indices, in the caller's order."""
    is_chosen = np.zeros(data.n_queries, bool)
    is_chosen[queries] = True
    return data.take_rows(is_chosen[data.query_of_row])


def _counts(shares: Any, n_queries: int) -> Rows:
    """The number of queries of each part: the shares rounded by largest remainder."""
    try:
        array = np.asarray(shares, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"shares must be a list of numbers, got {shares!r}.") from None
    if array.ndim != 1 or not (array > 0).all() or abs(array.sum() - 1) > 1e-6:
        raise ParameterError(
            f"shares must be positive numbers that sum to 1, got {array.tolist()}."
        )
    exact = array / array.sum() * n_queries
    counts: Rows = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(counts - exact, kind="stable")
    counts[by_remainder[: n_queries - counts.sum()]] += 1
    if counts.min(initial=1) == 0:
        part = int(np.argmin(counts))
        raise DataError(
            f"part {part + 1} of {array.size} would be empty: a share of {array[part]:g} of "
            f"{n_queries:,} queries is less than one. Use more queries or larger shares."
        )
    return counts


def _repeated_rows(data: RankingData) -> Rows:
    """As ``duplicates`` without hashes, for the rare case that different rows share one."""
    repeated = []
    for _, rows in data.iter_queries():
        seen = set()
        for row in rows.tolist():
            content = _bits(data.features[row]).tobytes()
            if content in seen:
                repeated.append(row)
            seen.add(content)
    return np.sort(np.array(repeated, np.int64))


def _texts(ids: Array) -> list[str]:
    return [str(value) for value in ids.tolist()]


def _documents(data: RankingData) -> list[tuple[str, str]]:
    if data.query_ids is None or data.doc_ids is None:
        return []
    return list(zip(_texts(data.query_ids), _texts(data.doc_ids), strict=True))


def _common(one: list[Any], other: list[Any]) -> list[Any]:
    """The distinct values that are in both, in the order of the first."""
    in_other = set(other)
    return list(dict.fromkeys(value for value in one if value in in_other))


def _bits(features: Features) -> Array:
    """The values as whole numbers that are equal where the values are, NaN included."""
    values = features + np.float32(0)  # -0 + 0 is +0
    values[np.isnan(values)] = np.nan  # NaN has many bit patterns; use one
    return values.view(np.uint32)


def _hash_rows(features: Features) -> Array:
    """A hash of each row: the sum of its values' bits times odd random numbers, modulo 2^64.

    A value of 0 adds nothing, so a row padded with zeros keeps its hash.
    """
    drawn = stream(0, "row hash").integers(2**63, size=features.shape[1], dtype=np.uint64)
    multipliers = drawn * np.uint64(2) + np.uint64(1)
    hashes = np.empty(len(features), np.uint64)
    for first in range(0, len(features), _BLOCK):
        products = _bits(features[first : first + _BLOCK]) * multipliers
        hashes[first : first + _BLOCK] = products.sum(axis=1)
    return hashes


def _are_equal(one: Features, other: Features, pairs: Array) -> Array:
    """Whether the rows of each pair (row of one, row of the other) have equal values."""
    width = min(one.shape[1], other.shape[1])
    is_equal = np.empty(len(pairs), bool)
    for first in range(0, len(pairs), _BLOCK):
        rows, other_rows = pairs[first : first + _BLOCK].T
        bits, other_bits = _bits(one[rows]), _bits(other[other_rows])
        same = (bits[:, :width] == other_bits[:, :width]).all(axis=1)
        same &= ~bits[:, width:].any(axis=1) & ~other_bits[:, width:].any(axis=1)
        is_equal[first : first + _BLOCK] = same
    return is_equal


def _equal_rows(one: Features, other: Features) -> Array:
    """Pairs (row of one, first equal row of the other)."""
    keys, other_keys = _hash_rows(one), _hash_rows(other)
    order = np.argsort(other_keys, kind="stable")
    ascending = other_keys[order]
    starts = np.searchsorted(ascending, keys, side="left")
    ends = np.searchsorted(ascending, keys, side="right")
    rows = np.flatnonzero(ends > starts)
    pairs = np.stack([rows, order[starts[rows]]], axis=1)
    is_equal = _are_equal(one, other, pairs)
    for pair in np.flatnonzero(~is_equal):  # different rows with the same hash: rare
        row = pairs[pair, 0]
        candidates = order[starts[row] : ends[row]]  # ascending, as the sort was stable
        trials = np.stack([np.full(candidates.size, row), candidates], axis=1)
        same = _are_equal(one, other, trials)
        if same.any():
            pairs[pair, 1], is_equal[pair] = candidates[np.argmax(same)], True
    return pairs[is_equal]
