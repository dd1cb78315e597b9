"""``RankingData``: feature rows with labels, query ids and weights; what users pass to every estimator.

The constructor checks and converts its arguments. Everything but the features is also available as
``data.judgments``, which measures and losses take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.data.frames import to_column, to_identifiers, to_matrix
from rankwood.data.judgments import Grouping, Judgments
from rankwood.dtypes import ROW, Array, Features, Floats, Rows
from rankwood.errors import DataError


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

    def __post_init__(self) -> None:
        matrix, names = to_matrix(self.features)
        n_rows = len(matrix)
        checked: dict[str, Any] = {
            "features": matrix,
            "labels": _own(checks.labels(to_column("labels", self.labels), n_rows), self.labels),
            "query_ids": _ids("query_ids", self.query_ids, n_rows),
            "doc_ids": _ids("doc_ids", self.doc_ids, n_rows),
            "row_weights": _weights("row_weights", self.row_weights, n_rows),
        }
        for name, value in checked.items():
            _set(self, name, None if value is None else checks.read_only(value))
        given = names if self.feature_names is None else self.feature_names
        _set(self, "feature_names", _names(given, matrix.shape[1]))
        judgments = Judgments(self.labels, self.query_ids, self.doc_ids, self.row_weights)
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
    ) -> RankingData:
        """Data of parts that have been checked before: nothing is checked again, and arrays are shared.

        ``features`` must be a float32 matrix with a row for each label.
        """
        data = cls.__new__(cls)
        _set(data, "features", features)
        for part in fields(Judgments):
            _set(data, part.name, getattr(judgments, part.name))
        _set(data, "feature_names", feature_names)
        _set(data, "_judgments", judgments)
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
        parts = {
            name: _rows_of(getattr(self, name), chosen)
            for name in ("features", "labels", "query_ids", "doc_ids", "row_weights")
        }
        weights = None
        if self.query_weights is not None:
            weights = dict(zip(self.queries.tolist(), self.query_weights.tolist(), strict=True))
        return RankingData(**parts, query_weights=weights, feature_names=self.feature_names)  # type: ignore[arg-type]

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
        return RankingData, tuple(getattr(self, field.name) for field in fields(self))

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
