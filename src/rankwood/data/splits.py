"""Parts of data, cut by query: splits, folds, counts, and what two parts have in common.

``split_queries`` and ``sample_queries`` cut data. ``make_folds`` divides one data set into training, validation and
test parts for cross-validation, and ``read_folds`` reads them from the folders of LETOR's collections::

    MQ2008/Fold1/train.txt    Fold2/…    …    Fold5/…
                 vali.txt
                 test.txt

``summarise`` counts documents, queries, features and labels, and ``shared`` says which queries, documents and rows two
data sets have in common. Rows are compared by value: +0 equals -0, and a missing value equals a missing one. A 64-bit
hash of each row finds the candidates, and the values decide.

``PartContent`` keeps the hashes alone, so that the parts of many folds can be compared without holding them in memory
(``shared_content``). There the hashes decide: among 10 million rows, two that differ have the same one with probability
3e-6.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from rankwood._core import checks
from rankwood._core.random import stream
from rankwood._core.threads import lazy
from rankwood.data.dataset import RankingData
from rankwood.data.letor.text import read_letor
from rankwood.data.sources import PART_NAMES, TABLE_SUFFIXES, is_table, uncompressed_name
from rankwood.data.tables import read_table
from rankwood.dtypes import Array, Features, Rows
from rankwood.errors import DataError, ParameterError, warn_of_former_name

ON_OVERLAP = ("warn", "error", "ignore")  # what may follow where parts share something
_BLOCK = 4096  # rows hashed or compared at a time
_EXAMPLES = 5
_FEW_ROWS = 5  # so many equal rows are reported in data of any size
_MISSING_BITS = np.float32(np.nan).view(np.uint32)
_COLUMNS_AT_ONCE = 16  # keeps temporary arrays small


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


def shared_queries(data: RankingData, other: RankingData) -> list[str]:
    """The ids of the queries of ``data`` that are also in ``other``, compared as text."""
    return _common(_texts(data.queries), _texts(other.queries))


def shared(data: RankingData, other: RankingData) -> Overlap:
    """The queries, documents and rows of ``data`` that are also in ``other``.

    Ids are compared as text, since those of one file may all be numbers and those of the other not.
    A feature that only one of the two has counts as 0 in the other, as in LETOR files.
    """
    queries = shared_queries(data, other)
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


@dataclass(frozen=True, eq=False)
class PartContent:
    """The queries and documents of a part as hashes: what it shares with another part can be told from them.

    The hash of a query is that of its documents' features and labels in any order, whatever its id. Trailing features
    that are all 0 or missing do not count, since parts of one collection may differ in width.
    """

    ids: Array  # of the queries, as text
    queries: Array  # a hash per query
    rows: Array  # a hash of the features per row
    query_of_row: Rows
    largest_label: float

    @lazy
    def sorted_rows(self) -> Array:
        """The hashes of rows, ascending."""
        return np.sort(self.rows)

    @classmethod
    def of(cls, data: RankingData) -> PartContent:
        """Hash a part."""
        rows = _hash_rows(data.features, missing_counts=False)
        labels = np.asarray(data.labels, np.float64) + 0.0
        of_row = _mixed(rows ^ _mixed(labels.view(np.uint64)))
        largest = float(labels.max(initial=0.0))
        if data.query_ids is None:
            nothing = np.zeros(0, np.uint64)
            return cls(np.array([], str), nothing, rows, np.zeros(rows.size, np.int32), largest)
        starts = data.query_offsets[:-1]
        queries = np.add.reduceat(of_row[data.row_order], starts) if starts.size else of_row[:0]
        queries = _mixed(queries + np.diff(data.query_offsets).astype(np.uint64))
        ids = np.array(_texts(data.queries), str)
        return cls(ids, queries, rows, data.query_of_row.astype(np.int32), largest)


@dataclass(frozen=True)
class SharedContent:
    """What a part shares with another one: queries by their ids in the part, and a number of documents."""

    n_queries: int  # of the part
    queries: tuple[str, ...]  # with the same id and content in the other
    renamed: tuple[str, ...]  # with the same content under another id
    reused_ids: tuple[str, ...]  # whose id is another query's in the other: they share nothing
    n_rows: int  # documents with the features of a document of the other, in queries that are not shared

    def warnings(self, part: str, other: str) -> list[str]:
        """What makes a measure on the part look better than it is, a line for each kind."""
        of = f"of {self.n_queries:,} {part} queries"
        lines = []
        if self.queries:
            lines.append(
                f"{len(self.queries):,} {of} are also in {other}, with the same id and documents{_such(self.queries)}"
            )
        if self.renamed:
            lines.append(
                f"{len(self.renamed):,} {of} are also in {other} under another id{_such(self.renamed)}"
            )
        if self.n_rows:
            lines.append(
                f"{self.n_rows:,} documents of other {part} queries have exactly the features of a document in {other}"
            )
        return lines

    def notes(self, part: str, other: str) -> list[str]:
        """What looks like a shared query and is none."""
        if not self.reused_ids:
            return []
        count = len(self.reused_ids)
        verb = "id of a query is" if count == 1 else "ids of queries are"
        return [
            f"{count:,} {verb} in both {part} and {other}, with other documents{_such(self.reused_ids)}: "
            "they are taken as different queries"
        ]


def shared_content(part: PartContent, other: PartContent) -> SharedContent:
    """The queries and documents of ``part`` that are also in ``other``.

    Queries and documents whose features occur in several queries of one part, such as all zeros, are no sign of
    anything and are left out. So are documents if there are no more of them than queries of ``other`` have in common
    among themselves.
    """
    content_of_id = dict(zip(other.ids.tolist(), other.queries.tolist(), strict=True))
    found = [content_of_id.get(name) for name in part.ids.tolist()]
    same_id = np.array([content is not None for content in found], bool)
    same = np.array([a == b for a, b in zip(found, part.queries.tolist(), strict=True)], bool)
    is_telling, n_due = _telling_rows(part, other)
    has_telling = np.bincount(part.query_of_row[is_telling], minlength=part.ids.size) > 0
    renamed = _is_in(part.queries, _single(other.queries)) & ~same & has_telling[: part.ids.size]
    renamed &= _is_in(part.queries, _single(part.queries))
    is_shared = same | renamed
    if part.ids.size:
        is_telling &= ~is_shared[part.query_of_row]
    count = int(is_telling.sum())
    least = min(_FEW_ROWS, max(1.0, 0.01 * part.rows.size))
    is_more = count >= least and count > 2.0 * n_due + 3.0 * np.sqrt(n_due)
    kept, other_id, reused = (
        tuple(part.ids[mask].tolist()) for mask in (same, renamed, same_id & ~is_shared)
    )
    return SharedContent(part.ids.size, kept, other_id, reused, count if is_more else 0)


def _such(ids: tuple[str, ...]) -> str:
    return f" (such as {', '.join(ids[:3])})"


def _single(hashes: Array) -> Array:
    """Those that occur once, ascending."""
    distinct, counts = np.unique(hashes, return_counts=True)
    single: Array = distinct[counts == 1]
    return single


def _is_in(hashes: Array, ascending: Array) -> Array:
    """Whether each is among others, which are sorted (numpy's ``isin`` is slow for 64 bits)."""
    if not ascending.size:
        return np.zeros(hashes.size, bool)
    places = np.searchsorted(ascending, hashes).clip(max=ascending.size - 1)
    return np.asarray(ascending[places] == hashes)


def _telling_rows(part: PartContent, other: PartContent) -> tuple[Array, float]:
    """The rows of a part that are in the other and in one query of each; and how many are due to chance.

    For each content that two queries of the other part have in common, so many pairs across the parts are due.
    """
    few, many = sorted((part.sorted_rows, other.sorted_rows), key=len)
    if not _is_in(few, many).any():  # as usual
        return np.zeros(part.rows.size, bool), 0.0
    rows, n_queries = _queries_of_rows(part)
    other_rows, n_other_queries = _queries_of_rows(other)
    telling = rows[(n_queries == 1) & (rows != 0)]
    telling = telling[_is_in(telling, other_rows[n_other_queries == 1])]
    n_pairs = int((n_other_queries == 2).sum())
    return _is_in(part.rows, telling), 2.0 * n_pairs * part.ids.size / max(1, other.ids.size)


def _queries_of_rows(part: PartContent) -> tuple[Array, Array]:
    """The distinct contents of rows, and in how many queries each occurs."""
    order = np.lexsort((part.query_of_row, part.rows))
    rows, queries = part.rows[order], part.query_of_row[order]
    is_new_row = np.ones(rows.size, bool)
    is_new_row[1:] = rows[1:] != rows[:-1]
    is_new_pair = is_new_row.copy()
    is_new_pair[1:] |= queries[1:] != queries[:-1]
    starts = np.flatnonzero(is_new_row)
    counts = np.add.reduceat(is_new_pair.astype(np.int64), starts) if starts.size else starts
    return rows[starts], counts


def _mixed(hashes: Array) -> Array:
    """Numbers in which every bit depends on all bits (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = hashes ^ (hashes >> np.uint64(31))
    return mixed


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


@dataclass(frozen=True)
class Summary:
    """Counts over documents, queries, features and labels; features are given by name."""

    documents: int
    queries: int
    features: int
    label_counts: dict[float, int]
    documents_per_query: dict[str, float]  # least, median, mean, most
    constant_features: list[str]
    missing_values: dict[str, int]  # only features with missing values
    infinite_values: dict[str, int]  # only features with infinite values
    empty_queries: int
    one_document_queries: int
    duplicate_rows: int
    separated_queries: int


def summarise(data: RankingData) -> Summary:
    """The summary of ``data``."""
    lengths = np.diff(data.query_offsets)
    values, counts = np.unique(data.labels, return_counts=True)
    best_label = np.maximum.reduceat(data.labels[data.row_order], data.query_offsets[:-1])
    constant, missing, infinite = _feature_facts(data.features)
    return Summary(
        documents=data.n_documents,
        queries=data.n_queries,
        features=data.n_features,
        label_counts=dict(zip(values.tolist(), counts.tolist(), strict=True)),
        documents_per_query={
            "least": int(lengths.min()),
            "median": float(np.median(lengths)),
            "mean": float(lengths.mean()),
            "most": int(lengths.max()),
        },
        constant_features=[data.names[feature] for feature in np.flatnonzero(constant)],
        missing_values=_named_counts(data, missing),
        infinite_values=_named_counts(data, infinite),
        empty_queries=int((best_label == 0).sum()),
        one_document_queries=int((lengths == 1).sum()),
        duplicate_rows=int(duplicates(data).size),
        separated_queries=data.grouping.n_separated,
    )


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


def _hash_rows(features: Features, missing_counts: bool = True) -> Array:
    """A hash of each row: the sum of its values' bits, mixed, times odd random numbers, modulo 2^64.

    A value of 0 adds nothing, so a row padded with zeros keeps its hash; without ``missing_counts`` neither does NaN.
    """
    drawn = stream(0, "row hash").integers(2**63, size=features.shape[1], dtype=np.uint64)
    multipliers = drawn * np.uint64(2) + np.uint64(1)
    hashes = np.empty(len(features), np.uint64)
    for first in range(0, len(features), _BLOCK):
        bits = _bits(features[first : first + _BLOCK])
        if not missing_counts:
            bits[bits == _MISSING_BITS] = 0
        # Floats differ in their high bits, and products pass differences on to higher bits only.
        spread = bits * np.uint64(0x9E3779B97F4A7C15)
        spread ^= spread >> np.uint64(32)
        hashes[first : first + _BLOCK] = (spread * multipliers).sum(axis=1)
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


def _feature_facts(features: Array) -> tuple[Array, Array, Array]:
    """For each feature: whether it is constant (ignoring missing values), its missing and its infinite values."""
    n_features = features.shape[1]
    constant = np.zeros(n_features, bool)
    missing = np.zeros(n_features, np.int64)
    infinite = np.zeros(n_features, np.int64)
    for first in range(0, n_features, _COLUMNS_AT_ONCE):
        block = slice(first, first + _COLUMNS_AT_ONCE)
        columns = features[:, block]
        is_missing = np.isnan(columns)
        missing[block] = is_missing.sum(axis=0)
        infinite[block] = np.isinf(columns).sum(axis=0)
        least = np.where(is_missing, np.inf, columns).min(axis=0)
        most = np.where(is_missing, -np.inf, columns).max(axis=0)
        constant[block] = least >= most  # all missing: inf ≥ −inf
    return constant, missing, infinite


def _named_counts(data: RankingData, counts: Array) -> dict[str, int]:
    return {data.names[feature]: int(counts[feature]) for feature in np.flatnonzero(counts)}


_FOLD = re.compile(r"fold[-_ ]?(\d+)", re.IGNORECASE)
_TEXT_SUFFIXES = (".txt", ".dat", ".letor", ".svm", ".svmlight", ".libsvm", "")
_LAYOUT = (
    "Fold1, Fold2, … with train.txt, vali.txt and test.txt each (or these three files directly)"
)
_SHOWN = 8  # names listed in a message


class Fold(NamedTuple):
    """The three parts of one fold."""

    train: RankingData
    valid: RankingData
    test: RankingData

    @property
    def vali(self) -> RankingData:
        """The former name of ``valid``."""
        warn_of_former_name("Fold", "vali", "valid")
        return self.valid


class Folds(Sequence[Fold]):
    """A sequence of folds, each read or created on access and not stored.

    Accessing a fold twice does the work twice; keep a reference to a fold that is used again.
    """

    def __init__(self, names: Sequence[str], makers: Sequence[Callable[[], Fold]]) -> None:
        self.names = tuple(names)
        self._makers = tuple(makers)

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, index: int) -> Fold: ...
    @overload
    def __getitem__(self, index: slice) -> Folds: ...
    def __getitem__(self, index: int | slice) -> Fold | Folds:
        if isinstance(index, slice):
            return Folds(self.names[index], self._makers[index])
        return self._makers[index]()

    def __repr__(self) -> str:
        return f"Folds({', '.join(self.names)})"


def read_folds(
    folder: str | os.PathLike[str],
    *,
    names: tuple[str, str, str] | None = None,
    **read_options: Any,
) -> Folds:
    """The folds of a collection in LETOR's layout; each is read on access.

    ``train, valid, test = read_folds("MQ2008")[0]`` reads three files. Parts may also be called
    trainingset, validation, validationset, valid, testset and the like, in any case; they may be
    compressed, and may be tables (Parquet, CSV, Arrow). A folder that holds the three files itself
    is one fold.

    Parameters
    ----------
    folder
        The folder with Fold1, Fold2, …
    names
        The names of training, validation and test files without suffixes, if they differ from the
        usual ones: ``("set1.train", "set1.valid", "set1.test")``.
    read_options
        Passed on to ``read_letor``, or to ``read_table`` for tables.

    Text files contain only the features a row has, so the parts of a fold may differ in width. The
    narrower ones get the missing columns, filled according to ``absent=`` with 0 or NaN.
    """
    files = fold_files(folder, names)
    makers = [functools.partial(_read_fold, paths, read_options) for paths in files.values()]
    return Folds(list(files), makers)


def make_folds(data: RankingData, n_folds: int = 5, *, seed: int | None = None) -> Folds:
    """Folds by rotation of ``n_folds`` parts s1, s2, … with equally many queries each, as in the papers.

    Of five, fold 1 trains on s1 s2 s3, validates on s4 and tests on s5; fold 2 trains on s2 s3 s4,
    validates on s5 and tests on s1; and so on. Queries go into the parts in their order, or
    shuffled by ``seed``. Rows keep the caller's order. Each fold is created on access.
    """
    n_folds = checks.whole_number("n_folds", n_folds, 3)
    if n_folds > data.n_queries:
        raise ParameterError(
            f"n_folds is {n_folds}, but there are only {data.n_queries} queries; a part needs one."
        )
    parts = np.array_split(shuffled_queries(data, seed, "folds"), n_folds)
    makers = [functools.partial(_cut_fold, data, parts, fold) for fold in range(n_folds)]
    return Folds([f"Fold{fold + 1}" for fold in range(n_folds)], makers)


def fold_files(
    folder: str | os.PathLike[str], names: tuple[str, str, str] | None = None
) -> dict[str, list[Path]]:
    """The training, validation and test file of each fold, by the fold's name; nothing is read."""
    root = Path(folder)
    refuse_missing_folder(root)
    known = PART_NAMES if names is None else _checked_names(names)
    folders = fold_folders(root) or [root]
    files = {fold: files_of_parts(fold, known) for fold in folders}
    if folders == [root] and not any(files[root].values()):
        raise DataError(f"{root} holds no folds. Expected {_LAYOUT}; found {listing(root)}.")
    for fold, parts in files.items():
        refuse_incomplete(fold, parts, known)
    return {
        folder_name(fold): [paths[0] for paths in parts.values()] for fold, parts in files.items()
    }


def folder_name(folder: Path) -> str:
    """The name that a folder is called by; a link keeps its own, so that two links to one folder are two folds."""
    return Path(os.path.abspath(folder)).name  # Path.absolute() leaves .. as it is


def same_width(parts: Sequence[RankingData], absent: str) -> list[RankingData]:
    """The parts with as many columns as the widest, since LETOR text may leave out the last features.

    ``absent`` determines the value of added columns, as for ``read_letor``.
    """
    width = max(part.n_features for part in parts)
    return [widened(part, width, absent) for part in parts]


def _cut_fold(data: RankingData, parts: list[Rows], fold: int) -> Fold:
    turned = parts[fold:] + parts[:fold]
    train = np.concatenate(turned[:-2])
    return Fold(*(rows_of_queries(data, queries) for queries in (train, turned[-2], turned[-1])))


def _read_fold(paths: Sequence[Path], options: dict[str, Any]) -> Fold:
    parts = [(read_table if is_table(path) else read_letor)(path, **options) for path in paths]
    names = [part.feature_names for part in parts]
    if any(names):
        if len(set(names)) > 1:
            listed = ", ".join(path.name for path in paths)
            raise DataError(f"{paths[0].parent}: the features of {listed} are not the same.")
        return Fold(*parts)
    return Fold(*same_width(parts, str(options.get("absent", "zero"))))


def widened(data: RankingData, width: int, absent: str) -> RankingData:
    """The data with at least ``width`` columns: those on the right are absent, as ``same_width`` says."""
    if data.n_features >= width:
        return data
    filler = np.nan if absent == "missing" else 0.0
    features = np.full((data.n_documents, width), filler, np.float32)
    features[:, : data.n_features] = data.features
    widened = dataclasses.replace(data, features=features, feature_names=None)
    return widened.with_absent(data.absent)


def refuse_missing_folder(root: Path) -> None:
    """Raise if there is no such folder, with the name of one that is spelt much like it."""
    if root.is_dir():
        return
    if root.exists():
        raise DataError(f"{root} is a file. Pass the folder that holds {_LAYOUT}.")
    siblings = [path.name for path in root.parent.iterdir()] if root.parent.is_dir() else []
    near = difflib.get_close_matches(root.name, siblings, n=1)
    hint = f" Did you mean {root.with_name(near[0])}?" if near else ""
    raise DataError(f"there is no folder {root}.{hint}")


def _checked_names(names: Any) -> dict[str, tuple[str, ...]]:
    is_triple = isinstance(names, tuple | list) and len(names) == len(PART_NAMES)
    if not is_triple or not all(isinstance(name, str) and name for name in names):
        raise ParameterError(
            f"names must be three texts, of the training, validation and test files, got {names!r}."
        )
    return {part: (name.lower(),) for part, name in zip(PART_NAMES, names, strict=True)}


def fold_folders(root: Path) -> list[Path]:
    """The folders named Fold1, fold-2, … by their number."""
    folder_of: dict[int, Path] = {}
    for path in sorted(root.iterdir()):
        match = _FOLD.fullmatch(path.name)
        if match is None or not path.is_dir():
            continue
        number = int(match[1])
        if number in folder_of:
            raise DataError(
                f"{root} has two folders for fold {number}: {folder_of[number].name} and {path.name}."
            )
        folder_of[number] = path
    return [folder_of[number] for number in sorted(folder_of)]


def files_of_parts(folder: Path, known: dict[str, tuple[str, ...]]) -> dict[str, list[Path]]:
    """The candidate files of each part."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    return {
        part: [path for path in files if _is_called(path, names)] for part, names in known.items()
    }


def _is_called(path: Path, names: tuple[str, ...]) -> bool:
    name = uncompressed_name(path)
    return any(
        name == f"{one}{suffix}" for one in names for suffix in _TEXT_SUFFIXES + TABLE_SUFFIXES
    )


def refuse_incomplete(
    folder: Path, parts: dict[str, list[Path]], known: dict[str, tuple[str, ...]]
) -> None:
    """Raise if a part has no file, or more than one."""
    for part, paths in parts.items():
        if len(paths) > 1:
            listed = " and ".join(path.name for path in paths)
            raise DataError(
                f"{folder} has {len(paths)} files for the {part} part: {listed}. "
                "Remove all but one, or say which with names=."
            )
        if not paths:
            raise DataError(
                f"{folder} has no file for the {part} part, such as {known[part][0]}.txt; found "
                f"{listing(folder)}. If it has another name, pass names=(train, valid, test)."
            )


def listing(folder: Path) -> str:
    """The first names in a folder, for a message."""
    names = sorted(path.name for path in folder.iterdir())
    more = f", … ({len(names) - _SHOWN} more)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "nothing"
