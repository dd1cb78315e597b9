"""``RankingData``: feature rows with labels, query ids and weights; what users pass to every estimator.

The constructor checks and converts its arguments. Everything but the features is also available as
``data.judgments``, a ``Judgments`` that shares the arrays. Measures, losses and evaluation look at nothing else;
functions that only need judgments accept both through the protocol ``HasJudgments``.

Terms
    row        a document, numbered in the caller's order
    query      a group of rows, numbered by the first appearance of its id: 0 is the query of row 0
    position   an index into the rows grouped by query: ``row_order[position]`` is a row
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from rankwood._core import checks
from rankwood._core.checks import read_only
from rankwood._core.threads import lazy
from rankwood.data import categories
from rankwood.data.frames import as_frame, to_column, to_identifiers, to_matrix
from rankwood.dtypes import FEATURE, OFFSET, ROW, WEIGHT, Array, Features, Floats, Rows
from rankwood.errors import DataError

_OF_ROWS = ("features", "labels", "query_ids", "doc_ids", "row_weights", "positions")


class HasJudgments(Protocol):
    """``RankingData``, or ``Judgments`` themselves."""

    @property
    def judgments(self) -> Judgments:
        """Labels, queries and weights."""
        ...


@dataclass(frozen=True, eq=False)
class Judgments:
    """Labels of documents, the queries they belong to, and their weights.

    The constructor takes arrays as they are: ``RankingData`` checks what users pass. Only ``labels`` is required;
    ``query_weights`` are in the order of ``queries``. Click logs have ``positions``: where each document stood in the
    list that was shown, 1 at the top.
    """

    labels: Floats
    query_ids: Array | None = None
    doc_ids: Array | None = None
    row_weights: Floats | None = None
    query_weights: Floats | None = None
    positions: Array | None = None

    @property
    def judgments(self) -> Judgments:
        """The object itself, so that functions take ``RankingData`` and ``Judgments`` alike."""
        return self

    @property
    def n_documents(self) -> int:
        """Number of rows."""
        return int(self.labels.size)

    @property
    def n_queries(self) -> int:
        """Number of distinct query ids."""
        return len(self.queries)

    @property
    def queries(self) -> Array:
        """The distinct query ids, in order of first appearance."""
        return self.grouping.queries

    @property
    def query_offsets(self) -> Rows:
        """Query ``q`` holds ``row_order[query_offsets[q]:query_offsets[q + 1]]``."""
        return self.grouping.offsets

    @property
    def row_order(self) -> Rows:
        """The row at each position of the grouped order."""
        return self.grouping.row_order

    @property
    def query_of_row(self) -> Rows:
        """The number of each row's query."""
        return self.grouping.query_of_row

    @lazy
    def grouping(self) -> Grouping:
        """Rows grouped by query, computed on first use."""
        if self.query_ids is None:
            raise DataError(
                "These data have no query ids, and this needs to know which rows belong together. "
                "Pass query_ids= (or qid=), one id per row."
            )
        return group_rows(self.query_ids)

    @property
    def query_weights_or_ones(self) -> Floats:
        """One weight per query; 1 for each where none were given."""
        return np.ones(self.n_queries) if self.query_weights is None else self.query_weights

    @property
    def row_weights_or_ones(self) -> Floats:
        """One weight per row; 1 for each where none were given."""
        return np.ones(self.n_documents) if self.row_weights is None else self.row_weights

    def iter_queries(self) -> Iterator[tuple[Any, Rows]]:
        """Each query's id and its rows, in order of first appearance."""
        offsets = self.query_offsets
        for number, query in enumerate(self.queries.tolist()):
            yield query, self.row_order[offsets[number] : offsets[number + 1]]

    def take_rows(self, rows: Rows) -> Judgments:
        """The rows with these numbers, in the given order; queries keep their weights."""
        parts: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else read_only(values[rows])
            for name in _OF_ROWS[1:]
        }
        taken = Judgments(**parts)
        if self.query_weights is None:
            return taken
        first_rows = rows[taken.row_order[taken.query_offsets[:-1]]]
        return taken.with_weights(
            query_weights=read_only(self.query_weights[self.query_of_row[first_rows]])
        )

    def with_weights(self, **weights: Any) -> Judgments:
        """The same judgments with other ``row_weights`` or ``query_weights``; the grouping is shared."""
        changed = replace(self, **weights)
        if self.query_ids is not None:
            changed.__dict__["grouping"] = self.grouping
        return changed


@dataclass(frozen=True, eq=False)
class Grouping:
    """Rows grouped by query: query ``q`` holds ``row_order[offsets[q]:offsets[q + 1]]``.

    ``n_separated`` counts the queries whose rows are separated by rows of another query. The
    arrays are read-only.
    """

    queries: Array  # the id of each query
    offsets: Rows
    row_order: Rows
    query_of_row: Rows
    n_separated: int

    def __post_init__(self) -> None:
        for name in ("queries", "offsets", "row_order", "query_of_row"):
            object.__setattr__(self, name, read_only(getattr(self, name)))


def group_rows(query_ids: Array) -> Grouping:
    """Group rows by id: queries by first appearance, the rows of a query in the caller's order."""
    n_rows = query_ids.size
    if n_rows == 0:
        return Grouping(query_ids, np.zeros(1, OFFSET), np.zeros(0, ROW), np.zeros(0, ROW), 0)
    is_head = np.empty(n_rows, bool)
    is_head[0] = True
    is_head[1:] = query_ids[1:] != query_ids[:-1]
    heads = np.flatnonzero(is_head)  # first row of each run of equal ids
    queries, query_of_run = _number_by_appearance(query_ids[heads])
    query_of_row = np.repeat(query_of_run, np.diff(heads, append=n_rows))
    sizes = np.bincount(query_of_row, minlength=queries.size)
    offsets = np.zeros(queries.size + 1, OFFSET)
    np.cumsum(sizes, out=offsets[1:])
    runs_of_query = np.bincount(query_of_run, minlength=queries.size)
    n_separated = int((runs_of_query > 1).sum())
    if n_separated == 0:
        row_order = np.arange(n_rows, dtype=ROW)
    else:
        row_order = np.argsort(query_of_row, kind="stable").astype(ROW, copy=False)
    return Grouping(queries, offsets, row_order, query_of_row, n_separated)


def _number_by_appearance(ids: Array) -> tuple[Array, Rows]:
    """The distinct ids in order of first appearance, and each id's number among them."""
    if ids.dtype == object:
        number_of: dict[object, int] = {}
        numbers = [number_of.setdefault(value, len(number_of)) for value in ids]
        distinct = np.empty(len(number_of), object)
        distinct[:] = list(number_of)
        return distinct, np.array(numbers, ROW)
    distinct, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first, kind="stable")
    number_of_sorted = np.empty(distinct.size, ROW)
    number_of_sorted[by_appearance] = np.arange(distinct.size)
    return distinct[by_appearance], number_of_sorted[inverse]


@dataclass(frozen=True, eq=False, repr=False)
class RankingData:
    """Documents of queries, in the caller's order.

    Parameters
    ----------
    features
        Rows × features. A numpy array, a list of lists, a pandas, polars or Arrow frame, or a
        scipy sparse matrix. Kept as a dense float32 matrix; NaN, None, NA and nulls mean missing.
        A row-major float32 array is taken without a copy, so do not write to it afterwards;
        everything else is copied.
    labels
        Graded relevance per row: finite, not negative, real numbers allowed.
    query_ids
        The query of each row: whole numbers or text, in any order. Without them the data serve
        point-wise methods only; whatever needs queries then says so.
    doc_ids
        The document of each row, for reports and run files.
    row_weights, query_weights
        Weight per row; weight per query, as an array in the order of ``queries`` or as a mapping
        from query id.
    feature_names
        One name per feature. A frame's column names are taken when nothing is passed.
    positions
        For click logs: where each document stood in the list that was shown, 1 at the top. Gaps are
        allowed, repetitions within a list are not. A list is what has one query id. Positions are
        not features: models never see them.
    categorical
        The columns of a frame that hold categories, text or a category type. Their most frequent 254
        categories get codes of their own, all others share one, and trees divide the codes as sets. A mapping from
        columns to lists of categories says the codes: of other data, or of features that are codes
        already. The object keeps the categories of each feature, in the order of the codes; None for
        features of numbers.

    The object cannot be changed, and its arrays cannot be written to. Two of them are equal when
    all they hold is equal, missing values included. There may be no rows (a part of the data can
    be empty), but not no features.

    Examples
    --------
    >>> data = RankingData([[0.2], [0.9], [0.4]], labels=[0, 2, 1], query_ids=["b", "a", "b"])
    >>> data
    RankingData(3 documents, 2 queries, 1 features)
    >>> data.queries.tolist(), data.row_order.tolist(), data.query_offsets.tolist()
    (['b', 'a'], [0, 2, 1], [0, 2, 3])
    """

    features: Features
    labels: Floats
    query_ids: Array | None = None
    doc_ids: Array | None = None
    row_weights: Floats | None = None
    query_weights: Floats | None = None
    feature_names: tuple[str, ...] | None = None
    positions: Array | None = None
    categorical: Any = None

    def __post_init__(self) -> None:
        matrix, names, dictionaries = _matrix(self.features, self.feature_names, self.categorical)
        n_rows = len(matrix)
        checked: dict[str, Any] = {
            "features": matrix,
            "labels": _own(checks.labels(to_column("labels", self.labels), n_rows), self.labels),
            "query_ids": _ids("query_ids", self.query_ids, n_rows),
            "doc_ids": _ids("doc_ids", self.doc_ids, n_rows),
            "row_weights": _weights("row_weights", self.row_weights, n_rows),
            "positions": _positions(self.positions, n_rows),
        }
        for name, value in checked.items():
            is_array = isinstance(value, np.ndarray)
            _set(self, name, checks.read_only(value) if is_array else value)
        given = names if self.feature_names is None else self.feature_names
        _set(self, "feature_names", _names(given, matrix.shape[1]))
        _set(self, "categorical", dictionaries)
        judgments = Judgments(
            self.labels,
            self.query_ids,
            self.doc_ids,
            self.row_weights,
            positions=self.positions,
        )
        refuse_repeated_positions(judgments, lambda row: f"positions[{row}]")
        if self.query_weights is not None:
            weights = checks.read_only(_weights_of_queries(self.query_weights, judgments.queries))
            _set(self, "query_weights", weights)
            judgments = judgments.with_weights(query_weights=weights)
        _set(self, "_judgments", judgments)

    @classmethod
    def from_judgments(
        cls,
        features: Features,
        judgments: Judgments,
        feature_names: tuple[str, ...] | None = None,
        categorical: categories.Dictionaries | None = None,
    ) -> RankingData:
        """Data of parts that have been checked before: nothing is checked again, and arrays are shared.

        ``features`` must be a float32 matrix with a row for each label.
        """
        data = cls.__new__(cls)
        _set(data, "features", features)
        for part in fields(Judgments):
            _set(data, part.name, getattr(judgments, part.name))
        _set(data, "feature_names", feature_names)
        _set(data, "categorical", categorical)
        _set(data, "_judgments", judgments)
        return data

    @property
    def absent(self) -> str | None:
        """What a feature is that a row of the source leaves out: ``zero`` or ``missing``; None where nothing is known.

        LETOR text leaves features out, and its reader says what they are then.
        """
        absent: str | None = self.__dict__.get("_absent")
        return absent

    def with_absent(self, absent: str | None) -> RankingData:
        """The same data, of a source in which a feature that a row leaves out is ``absent``; arrays are shared."""
        data = RankingData.from_judgments(
            self.features, self.judgments, self.feature_names, self.categorical
        )
        _set(data, "_absent", absent)
        return data

    @property
    def judgments(self) -> Judgments:
        """Labels, ids and weights, which measures and losses take; the arrays are shared."""
        judgments: Judgments = self.__dict__["_judgments"]
        return judgments

    @property
    def n_documents(self) -> int:
        """Number of rows."""
        return len(self.features)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.features.shape[1])

    @property
    def n_queries(self) -> int:
        """Number of distinct query ids."""
        return self.judgments.n_queries

    @property
    def queries(self) -> Array:
        """The distinct query ids, in order of first appearance."""
        return self.judgments.queries

    @property
    def query_offsets(self) -> Rows:
        """Query ``q`` holds ``row_order[query_offsets[q]:query_offsets[q + 1]]``."""
        return self.judgments.query_offsets

    @property
    def row_order(self) -> Rows:
        """The caller's row at each position of the grouped order."""
        return self.judgments.row_order

    @property
    def query_of_row(self) -> Rows:
        """The number of each row's query, counted by first appearance."""
        return self.judgments.query_of_row

    @property
    def grouping(self) -> Grouping:
        """Rows grouped by query."""
        return self.judgments.grouping

    @property
    def names(self) -> tuple[str, ...]:
        """The feature names, or their 1-based numbers as LETOR files write them."""
        return self.feature_names or tuple(str(number + 1) for number in range(self.n_features))

    def take_rows(self, rows: Any) -> RankingData:
        """The given rows, in the given order; ``rows`` are row numbers or one truth value per row.

        Query weights stay with their queries. A row may be taken more than once.
        """
        chosen = _numbers("rows", rows, self.n_documents)
        parts = {name: _rows_of(getattr(self, name), chosen) for name in _OF_ROWS}
        weights: Any = None
        if self.query_weights is not None:
            weights = dict(zip(self.queries.tolist(), self.query_weights.tolist(), strict=True))
        taken = RankingData(
            **parts,  # type: ignore[arg-type]
            query_weights=weights,
            feature_names=self.feature_names,
            categorical=self.categorical,
        )
        return taken.with_absent(self.absent)

    def take_queries(self, queries: Any) -> RankingData:
        """The queries with the given numbers (positions in ``queries``), in the order given.

        A query cannot be taken twice: its rows would become one query of double length.
        """
        chosen = _numbers("queries", queries, self.n_queries)
        times = np.bincount(chosen, minlength=self.n_queries)
        if chosen.size and times.max() > 1:
            twice = self.queries.tolist()[int(times.argmax())]
            raise DataError(
                f"query {twice!r} is taken more than once; weigh it by query_weights instead."
            )
        sizes = np.diff(self.query_offsets)[chosen]
        ends = np.cumsum(sizes)
        # position - (start of its query in the result) + (start of its query in the grouped order)
        shifts = np.repeat(self.query_offsets[chosen] - (ends - sizes), sizes)
        return self.take_rows(self.row_order[np.arange(shifts.size) + shifts])

    def iter_queries(self) -> Iterator[tuple[Any, Rows]]:
        """Each query's id and its rows, in order of first appearance."""
        return self.judgments.iter_queries()

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled arrays can be written to; the constructor makes them read-only again.
        state = None if self.absent is None else {"_absent": self.absent}
        return RankingData, tuple(getattr(self, field.name) for field in fields(self)), state

    def __len__(self) -> int:
        return self.n_documents

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RankingData):
            return NotImplemented
        compared = [field.name for field in fields(self) if field.name != "feature_names"]
        return self.names == other.names and all(
            _same(getattr(self, name), getattr(other, name)) for name in compared
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        queries = "no query ids" if self.query_ids is None else f"{self.n_queries:,} queries"
        return (
            f"RankingData({self.n_documents:,} documents, {queries}, {self.n_features:,} features)"
        )


@dataclass(frozen=True, eq=False)
class FilePart:
    """The rows of one of several files that are read as one."""

    name: str
    data: RankingData
    has_types: bool = (
        False  # whether its ids are numbers or text as the file says; text files do not say
    )


def stacked(parts: list[FilePart], *, absent: float = 0.0) -> RankingData:
    """The rows of all files, one after the other, as if they were one file that was cut anywhere.

    ``parts`` is emptied. Narrower files get columns of ``absent`` on the right.
    """
    if len(parts) == 1:
        return parts.pop().data
    query_ids, doc_ids = _stacked_ids("query_ids", parts), _stacked_ids("doc_ids", parts)
    labels = np.concatenate([part.data.labels for part in parts])
    row_weights = _stacked_numbers([part.data.row_weights for part in parts])
    of_rows = _stacked_numbers(
        [
            None if one is None else one[part.data.query_of_row]
            for part in parts
            for one in (part.data.query_weights,)
        ]
    )
    positions = _stacked_numbers([part.data.positions for part in parts])
    names, of_first = parts[0].data.feature_names, parts[0].data.absent
    width = max(part.data.n_features for part in parts)
    features: Features = np.empty((len(labels), width), FEATURE)
    first = 0
    parts.reverse()
    while parts:  # each is freed once it is copied
        data = parts.pop().data
        last = first + data.n_documents
        features[first:last, : data.n_features] = data.features
        features[first:last, data.n_features :] = absent
        first = last
    whole = RankingData(
        features, labels, query_ids, doc_ids, row_weights, None, names, positions=positions
    )
    whole = whole if of_rows is None else _with_query_weights(whole, of_rows)
    return whole.with_absent(of_first)


def _stacked_numbers(arrays: Sequence[Array | None]) -> Array | None:
    given = [one for one in arrays if one is not None]
    return np.concatenate(given) if len(given) == len(arrays) else None


def _stacked_ids(name: str, parts: Sequence[FilePart]) -> Array | None:
    """The ids of all files, whole numbers or text; empty text for the rows of a file without any.

    Ids of text files are whole numbers where all of a file are; they become text where those of another file are.
    """
    arrays = [getattr(part.data, name) for part in parts]
    given = [part for part, ids in zip(parts, arrays, strict=True) if ids is not None]
    if not given:
        return None
    texts = [part for part in given if getattr(part.data, name).dtype == object]
    if not texts and len(given) == len(parts):
        kind = np.result_type(*arrays)
        if kind.kind in "iu":
            return np.concatenate(arrays)
    numbers = [part for part in given if part not in texts and part.has_types]
    if texts and numbers:
        what = {"query_ids": "query ids", "doc_ids": "document ids"}[name]
        raise DataError(
            f"{numbers[0].name}: the {what} are whole numbers, but text "
            f"in {texts[0].name}. Use one type in all files."
        )
    whole = np.full(sum(part.data.n_documents for part in parts), "", object)
    ends = np.cumsum([part.data.n_documents for part in parts])
    for part, ids, end in zip(parts, arrays, ends.tolist(), strict=True):
        if ids is not None:
            start = end - part.data.n_documents
            whole[start:end] = (
                ids if ids.dtype == object or not texts else list(map(str, ids.tolist()))
            )
    return whole


def _with_query_weights(data: RankingData, of_rows: Floats) -> RankingData:
    """The data with the weights of queries, from those of their rows."""
    of_query = of_rows[data.row_order[data.query_offsets[:-1]]]
    differs = of_rows != of_query[data.query_of_row]
    if differs.any():
        query = int(data.query_of_row[np.argmax(differs)])
        raise DataError(
            f"query {data.queries.tolist()[query]!r} has different weights in different files. A query has one weight."
        )
    return RankingData.from_judgments(
        data.features,
        data.judgments.with_weights(query_weights=checks.read_only(of_query)),
        data.feature_names,
        data.categorical,
    )


def _matrix(
    features: Any, names: Sequence[str] | None, categorical: Any
) -> tuple[Features, tuple[str, ...] | None, categories.Dictionaries | None]:
    """The features as a matrix, their own names, and the categories of each if there are any."""
    if categorical is None:
        return *to_matrix(features), None
    if as_frame(features) is None:
        matrix, own = to_matrix(features)
        return matrix, own, categories.by_feature(categorical, matrix, names)
    if isinstance(categorical, tuple) and any(one is None for one in categorical):
        own_names = as_frame(features).names  # type: ignore[union-attr]
        given = zip(own_names, categorical, strict=False)
        categorical = {name: one for name, one in given if one is not None}
    asked = categories.asked_for(categorical)
    matrix, own = to_matrix(features, asked)
    return matrix, own, tuple(asked.get(name) for name in own or ()) if asked else None


def _set(data: RankingData, name: str, value: Any) -> None:
    object.__setattr__(data, name, value)  # the one way into a frozen dataclass


def _own(array: Array, given: Any) -> Array:
    """``array``, copied if it is the caller's memory."""
    return (
        array.copy()
        if isinstance(given, np.ndarray) and np.may_share_memory(array, given)
        else array
    )


def _ids(name: str, values: Any, length: int) -> Array | None:
    if values is None:
        return None
    return _own(checks.ids(name, to_identifiers(name, values), length), values)


def _weights(name: str, values: Any, length: int) -> Floats | None:
    if values is None:
        return None
    return _own(checks.weights(name, to_column(name, values), length, may_be_all_zero=True), values)


def _positions(values: Any, length: int) -> Array | None:
    if values is None:
        return None
    return _own(checks.positions("positions", to_column("positions", values), length), values)


def refuse_repeated_positions(judgments: Judgments, describe: Callable[[int], str]) -> None:
    """Raise if a list shows two documents at one position; ``describe`` says how messages name a row."""
    positions = judgments.positions
    if positions is None:
        return
    if judgments.query_ids is None:
        raise DataError(
            "positions need query ids: one id per list that was shown. Pass query_ids= (or qid=)."
        )
    lists = judgments.query_of_row
    goes_on = lists[1:] == lists[:-1]
    if judgments.grouping.n_separated == 0 and (positions[1:] > positions[:-1])[goes_on].all():
        return  # each list is written from its top on
    by_list = np.lexsort((positions, lists))  # stable: equal ones keep their order
    ordered, of_list = positions[by_list], lists[by_list]
    is_repeated = (of_list[1:] == of_list[:-1]) & (ordered[1:] == ordered[:-1])
    if is_repeated.any():
        row = int(by_list[1:][is_repeated].min())
        query = judgments.queries.tolist()[int(lists[row])]
        raise DataError(
            f"{describe(row)} is {int(positions[row])}, which an earlier row of query {query!r} has too. A list shows "
            "one document at a position: give every impression a query id of its own."
        )


def _rows_of(array: Array | None, rows: Rows) -> Array | None:
    return None if array is None else array[rows]


def _numbers(name: str, values: Any, length: int) -> Rows:
    """Row or query numbers from numbers or a mask, each of them present."""
    array = np.asarray(values)
    if array.dtype == bool:
        if array.shape != (length,):
            raise DataError(f"a mask for {name} needs {length:,} truth values, got {array.size:,}.")
        return np.flatnonzero(array)
    if array.size == 0:
        return np.zeros(0, ROW)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise DataError(
            f"{name} must be whole numbers or a mask, got {array.dtype} of {array.ndim} dimensions."
        )
    outside = (array < 0) | (array >= length)
    if outside.any():
        wrong = int(array[np.argmax(outside)])
        raise DataError(
            f"{name} has {wrong}, but numbers run from 0 to {length - 1:,}: positions, not ids."
        )
    return array.astype(ROW, copy=False)


def _names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise DataError(f"feature_names must be a list of names, got the text {names!r}.")
    texts = tuple(str(name) for name in names)
    if len(texts) != n_features:
        raise DataError(
            f"feature_names has {len(texts)} names, but there are {n_features} features."
        )
    if len(set(texts)) != len(texts):
        twice = next(name for name in texts if texts.count(name) > 1)
        raise DataError(f"feature_names has '{twice}' more than once; names must differ.")
    return texts


def _weights_of_queries(weights: Any, queries: Array) -> Floats:
    if isinstance(weights, Mapping):
        missing = [query for query in queries.tolist() if query not in weights]
        if missing:
            raise DataError(f"query_weights has no weight for query {missing[0]!r}.")
        weights = [weights[query] for query in queries.tolist()]
    array = checks.vector("query_weights", to_column("query_weights", weights))
    if array.size != len(queries):
        raise DataError(
            f"query_weights has {array.size:,} values, but there are {len(queries):,} queries. "
            "Pass one per query in the order of .queries, or a mapping from query id."
        )
    return _own(checks.weights("query_weights", array, len(queries), may_be_all_zero=True), weights)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.dtype.kind == "f" and other.dtype.kind == "f":
            return np.array_equal(one, other, equal_nan=True)
        return np.array_equal(one, other)
    return bool(one == other) if type(one) is type(other) else False


def one_weight_per_query(name: str, weights: Array, query_ids: Array, first_row: int) -> Floats:
    """The weight of each query from a column of weights by row; an error where rows of a query differ."""
    grouping = group_rows(query_ids)
    weight_of_query = weights[grouping.row_order[grouping.offsets[:-1]]]
    differs = weights != weight_of_query[grouping.query_of_row]
    if (row := checks.first_true(differs)) is not None:
        query = grouping.query_of_row[row]
        raise DataError(
            f"row {row + first_row}: column '{name}' is {float(weights[row]):g}, but "
            f"{float(weight_of_query[query]):g} in an earlier row of query "
            f"{grouping.queries.tolist()[query]!r}. A query has one weight."
        )
    return np.asarray(weight_of_query, WEIGHT)
