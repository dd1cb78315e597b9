"""Tables in and out: frames in memory, Parquet, Arrow and CSV files.

A table has a row per document, a column for the label, one for the query id, and a column per
feature. Columns named ``doc_id``, ``row_weight`` and ``query_weight`` are taken for what their
names say; any other name can be given.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwood import _checks, dtypes
from rankwood.data import columns, table_files
from rankwood.data.dataset import RankingData
from rankwood.data.frames import as_frame, fill_matrix, refuse_what_memory_cannot_hold
from rankwood.data.queries import group_rows
from rankwood.data.table_writing import write_columns
from rankwood.dtypes import Array, Features, Floats
from rankwood.errors import DataError, DataWarning, ParameterError, UnknownName

MARKER = b"rankwood.table"  # in the metadata of files we write: the version of their layout
_USUAL_NAMES = {"doc": "doc_id", "row_weight": "row_weight", "query_weight": "query_weight"}
_RESERVED = frozenset(("qid", "label", *_USUAL_NAMES.values()))
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # the columns pandas adds to Parquet files
_WHOLE_NUMBER = r"^(0|-?[1-9][0-9]*)$"  # as Python writes it; 007 is text


@dataclass(frozen=True)
class Roles:
    """Which column of a table plays which part."""

    label: str
    query: str | None
    doc: str | None
    row_weight: str | None
    query_weight: str | None
    features: tuple[str, ...]

    @property
    def others(self) -> list[str]:
        """The columns that hold numbers other than features."""
        found = (self.label, self.row_weight, self.query_weight)
        return [name for name in found if name is not None]

    @property
    def numbers(self) -> list[str]:
        """The columns that hold numbers."""
        return [*self.others, *self.features]

    @property
    def identifiers(self) -> list[str]:
        """The columns that hold identifiers."""
        return [name for name in (self.query, self.doc) if name is not None]


def from_frame(
    frame: Any,
    *,
    label: str = "label",
    query: str | None = "qid",
    doc: str | None = None,
    row_weight: str | None = None,
    query_weight: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> RankingData:
    """Ranking data from a pandas, polars or Arrow table.

    ``label``, ``query``, ``doc``, ``row_weight`` and ``query_weight`` name columns. The last three
    default to the columns ``doc_id``, ``row_weight`` and ``query_weight`` where the table has
    them; ``query=None`` means data without queries. ``features`` defaults to all other columns but
    those in ``drop``; each must hold numbers. Columns with the names ``label``, ``qid``,
    ``doc_id``, ``row_weight`` and ``query_weight`` are features only when ``features`` lists them.
    A query's weight must be the same in all its rows. Rows in messages are counted from 0.
    """
    table = as_frame(frame)
    if table is None:
        raise DataError(f"expected a pandas, polars or Arrow table, got {type(frame).__name__}.")
    given = _given(label, query, doc, row_weight, query_weight)
    roles = choose_roles("the table", table.names, given, features, drop)
    try:
        matrix = fill_matrix(table, roles.features)
        values = {name: table.numbers(name, 0, table.n_rows) for name in roles.others}
    except columns.NotAFeatureError as error:
        raise _with_remedy(error) from None
    ids = {name: table.identifiers(name) for name in roles.identifiers}
    return _assemble(roles, matrix, values, ids, first_row=0)


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str = "label",
    query: str | None = "qid",
    doc: str | None = None,
    row_weight: str | None = None,
    query_weight: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    strict: bool = False,
) -> RankingData:
    """Ranking data from a Parquet, Arrow (Feather) or CSV file, by the ending of its name.

    CSV and TSV files may be compressed (``.gz``, ``.zst``, ``.bz2``) and may be pipes. Columns are
    named as for ``from_frame``. Rows in messages are counted from 1, the header not among them. A
    query whose rows are separated by another's gives a warning, or with ``strict`` an error.

    A CSV file has no types. Identifiers that are all whole numbers, written as Python writes them,
    become whole numbers; ``007`` keeps all of them text. An empty field, ``NaN``, ``NA`` or
    ``NULL`` is a missing number.
    """
    path = Path(path)
    with table_files.open_table(path) as source:
        if query == "qid" and query not in source.names and MARKER in source.metadata:
            query = None  # we wrote the file, from data without queries
        given = _given(label, query, doc, row_weight, query_weight)
        names = [name for name in source.names if not _PANDAS_INDEX.fullmatch(name)]
        roles = choose_roles(str(path), names, given, features, drop)
        collector = _Collector(roles, source.n_rows)
        try:
            for first_row, batch in source.pieces(roles.numbers, roles.identifiers):
                collector.add(first_row, batch)
        except columns.NotAFeatureError as error:
            raise _with_remedy(error) from None
        data = collector.finish(ids_are_text=not source.has_types)
        _report_separated(data, strict)
    return data


def write_table(data: RankingData, path: str | os.PathLike[str]) -> None:
    """Write ``data`` as Parquet, Arrow (Feather) or CSV, by the ending of the name.

    The columns are ``qid``, ``label``, ``doc_id``, ``row_weight`` and ``query_weight`` (those the
    data have), then the features by name. ``read_table`` gives the same data back. In CSV, numbers
    are written with as few digits as identify them; text ids that all look like whole numbers come
    back as whole numbers there.
    """
    import pyarrow as pa

    path = Path(path)
    table_files.table_format(path)  # refuses other endings
    clash = sorted(_RESERVED.intersection(data.names))
    if clash:
        raise DataError(
            f"{path}: a feature is named '{clash[0]}', "
            "which is the name of another column of the table. Rename it."
        )
    if data.n_documents == 0:
        raise DataError(f"{path}: there are no rows to write.")
    others = _other_columns(data)
    kinds = [(name, column.type) for name, column in others.items()]
    kinds += [(name, pa.float32()) for name in data.names]
    schema = pa.schema(kinds, metadata={MARKER: b'{"version": 1}'})
    write_columns(path, schema, list(others.values()), data.features)


def _other_columns(data: RankingData) -> dict[str, Any]:
    """Everything but the features, as Arrow arrays by column name."""
    import pyarrow as pa

    found: dict[str, Any] = {}
    if data.query_ids is not None:
        found["qid"] = columns.identifiers_to_arrow("query_ids", data.query_ids)
    found["label"] = pa.array(data.labels)
    if data.doc_ids is not None:
        found["doc_id"] = columns.identifiers_to_arrow("doc_ids", data.doc_ids)
    if data.row_weights is not None:
        found["row_weight"] = pa.array(data.row_weights)
    if data.query_weights is not None:
        found["query_weight"] = pa.array(data.query_weights[data.query_of_row])
    return found


def _given(
    label: str, query: str | None, doc: str | None, row_weight: str | None, query_weight: str | None
) -> dict[str, str | None]:
    return {
        "label": label,
        "query": query,
        "doc": doc,
        "row_weight": row_weight,
        "query_weight": query_weight,
    }


def choose_roles(
    where: str,
    names: Sequence[str],
    given: Mapping[str, str | None],
    features: Sequence[str] | None,
    drop: Sequence[str],
) -> Roles:
    """The part of each column, from what was given and what the table has."""
    if isinstance(features, str) or isinstance(drop, str):
        raise ParameterError(
            "features and drop are lists of column names; put the one name in brackets."
        )
    if given["label"] is None:
        raise ParameterError("label must name a column; ranking data need labels.")
    wanted = (*given.values(), *(features or ()), *dict.fromkeys(drop))
    taken = [name for name in wanted if name is not None]
    for name in taken:
        if name not in names:
            raise UnknownName(f"{where}: column", str(name), names)
        if taken.count(name) > 1:
            raise ParameterError(f"column '{name}' is given more than one part; each has one.")
    parts = dict(given)
    for part, usual in _USUAL_NAMES.items():
        if parts[part] is None and usual in names and usual not in taken:
            parts[part] = usual
    if parts["query"] is None and given["query_weight"] is not None:
        raise ParameterError("query_weight needs query=: weights belong to queries.")
    if parts["query"] is None:
        parts["query_weight"] = None
    if features is None:
        features = [name for name in names if name not in taken and name not in _RESERVED]
    if not features:
        raise DataError("no columns are left to be features.")
    return Roles(**parts, features=tuple(features))  # type: ignore[arg-type]


class _Collector:
    """Takes record batches and becomes ranking data; features become float32 as they come."""

    def __init__(self, roles: Roles, n_rows: int | None) -> None:
        self._roles = roles
        refuse_what_memory_cannot_hold(n_rows or 0, len(roles.features))
        self._matrix = np.empty((n_rows or 0, len(roles.features)), dtypes.FEATURE)
        self._feature_of = {name: feature for feature, name in enumerate(roles.features)}
        self._values: dict[str, list[Array]] = {name: [] for name in roles.others}
        self._ids: dict[str, list[Any]] = {name: [] for name in roles.identifiers}
        self._narrowing = _checks.Narrowing(
            lambda row, feature: f"row {row + 1}, column '{roles.features[feature]}',"
        )
        self._n_rows = 0

    def add(self, first_row: int, batch: Any) -> None:
        """Take rows of some or all columns; a column's rows come in order."""
        last_row = first_row + batch.num_rows
        self._n_rows = max(self._n_rows, last_row)
        if last_row > len(self._matrix):
            self._resize(last_row + last_row // 4)
        block = self._matrix[first_row:last_row]
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in self._feature_of:
                values = columns.numbers(name, column)
                self._narrowing.write(values[:, None], first_row, self._feature_of[name], block)
            elif name in self._values:
                self._values[name].append(columns.numbers(name, column).astype(np.float64))
            elif name in self._ids:
                self._ids[name].append(column)

    def _resize(self, n_rows: int) -> None:
        # In place: the system moves pages instead of copying, and no view of the matrix is alive.
        self._matrix.resize((n_rows, self._matrix.shape[1]), refcheck=False)

    def finish(self, *, ids_are_text: bool) -> RankingData:
        """All rows as ranking data."""
        import pyarrow as pa

        if self._n_rows == 0:
            raise DataError("there are no rows.")
        self._resize(self._n_rows)
        roles = self._roles
        self._narrowing.warn(lambda feature: f"column '{roles.features[feature]}'")
        values = {name: np.concatenate(pieces) for name, pieces in self._values.items()}
        ids = {}
        for name, pieces in self._ids.items():
            whole = pa.chunked_array(pieces)
            ids[name] = _untyped_ids(whole) if ids_are_text else columns.identifiers(name, whole)
        return _assemble(roles, self._matrix, values, ids, first_row=1)


def _untyped_ids(texts: Any) -> Array:
    """Ids from the text of a CSV file: whole numbers if all are, None where there is nothing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.all(pc.match_substring_regex(texts, _WHOLE_NUMBER)).as_py():
        for kind in (pa.int64(), pa.uint64()):
            with contextlib.suppress(pa.ArrowInvalid):  # too large: text in the end
                return columns.identifiers("", texts.cast(kind))
    ids = columns.identifiers("", texts)
    ids[ids == ""] = None
    return ids


def _assemble(
    roles: Roles,
    matrix: Features,
    values: dict[str, Array],
    ids: dict[str, Array],
    *,
    first_row: int,
) -> RankingData:
    """Ranking data from clean features and the other columns, which are checked here."""
    for name in roles.identifiers:
        missing = _missing(ids[name])
        if missing.any():
            row = int(np.argmax(missing)) + first_row
            raise DataError(f"row {row}: column '{name}' is empty. Every row needs an identifier.")
    for name, column in values.items():
        wrong = ~((column >= 0) & np.isfinite(column))
        if wrong.any():
            row = int(np.argmax(wrong))
            value = float(column[row])
            what = "empty" if np.isnan(value) else f"{value:g}"
            raise DataError(
                f"row {row + first_row}: column '{name}' is {what}. "
                "Labels and weights are finite and not negative."
            )
    query_ids = (
        None if roles.query is None else _checks.ids(roles.query, ids[roles.query], len(matrix))
    )
    weights = None
    if roles.query_weight is not None and query_ids is not None:
        weights = _one_weight_per_query(
            roles.query_weight, values[roles.query_weight], query_ids, first_row
        )
    numbers_as_names = tuple(str(number + 1) for number in range(len(roles.features)))
    return RankingData(
        matrix,
        values[roles.label],
        query_ids,
        None if roles.doc is None else ids[roles.doc],
        None if roles.row_weight is None else values[roles.row_weight],
        weights,
        None if roles.features == numbers_as_names else roles.features,
    )


def _missing(ids: Array) -> Array:
    if ids.dtype == object:
        return np.fromiter((value is None for value in ids), bool, ids.size)
    return np.isnan(ids) if ids.dtype.kind == "f" else np.zeros(ids.size, bool)


def _one_weight_per_query(name: str, weights: Array, query_ids: Array, first_row: int) -> Floats:
    grouping = group_rows(query_ids)
    weight_of_query = weights[grouping.row_order[grouping.offsets[:-1]]]
    differs = weights != weight_of_query[grouping.query_of_row]
    if differs.any():
        row = int(np.argmax(differs))
        query = grouping.query_of_row[row]
        raise DataError(
            f"row {row + first_row}: column '{name}' is {float(weights[row]):g}, but "
            f"{float(weight_of_query[query]):g} in an earlier row of query "
            f"{grouping.queries.tolist()[query]!r}. A query has one weight."
        )
    return np.asarray(weight_of_query, dtypes.WEIGHT)


def _report_separated(data: RankingData, strict: bool) -> None:
    if data.query_ids is None or data.grouping.n_separated == 0:
        return
    n_separated, n_queries = data.grouping.n_separated, data.n_queries
    what = f"{n_separated:,} of {n_queries:,} queries have their rows separated by another's"
    if strict:
        raise DataError(f"{what}. Sort the rows by query, or read without strict.")
    warnings.warn(f"{what}; they are grouped.", DataWarning, stacklevel=3)


def _with_remedy(error: columns.NotAFeatureError) -> DataError:
    name = error.column
    return DataError(f"{error} Pass drop=['{name}'], or doc='{name}' if it names the documents.")
