"""``from_frame``, ``read_table`` and ``write_table``: ranking data from and to tables.

A table has one row per document, one column for the label, one for the query id, and one column per feature. Columns
named ``doc_id``, ``row_weight`` and ``query_weight`` are used as their names say; other names can be given.

The way of a table: ``choose_roles`` decides which column is what (``Roles``), ``Collector`` converts record batches to
float32 features, and ``assemble`` checks the other columns and makes ``RankingData``.
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

from rankwood import dtypes
from rankwood._core import checks
from rankwood.data import frames
from rankwood.data.dataset import RankingData
from rankwood.data.frames import as_frame, fill_matrix, refuse_what_memory_cannot_hold
from rankwood.data.judgments import group_rows
from rankwood.data.tables import files
from rankwood.data.tables.files import TableSource, write_columns
from rankwood.dtypes import Array, Features, Floats
from rankwood.errors import DataError, DataWarning, ParameterError, UnknownName

MARKER = b"rankwood.table"  # metadata key of files that write_table wrote
_USUAL_NAMES = {"doc": "doc_id", "row_weight": "row_weight", "query_weight": "query_weight"}
RESERVED = frozenset(("qid", "label", *_USUAL_NAMES.values()))
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # the columns pandas adds to Parquet files

_WHOLE_NUMBER = r"^(0|-?[1-9][0-9]*)$"  # as Python writes it; 007 is text


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
    if label is None:
        raise ParameterError("label must name a column; ranking data need labels.")
    given = given_roles(label, query, doc, row_weight, query_weight)
    roles = choose_roles("the table", table.names, given, features, drop)
    try:
        matrix = fill_matrix(table, roles.features)
        values = {name: table.numbers(name, 0, table.n_rows) for name in roles.others}
    except frames.NotAFeatureError as error:
        raise with_remedy(error) from None
    ids = {name: table.identifiers(name) for name in roles.identifiers}
    return assemble(roles, matrix, values, ids, first_row=0)


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = "label",
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
    named as for ``from_frame``; ``label=None`` is for tables without labels, which are then all 0
    (a column named ``label`` is left out). Rows in messages are counted from 1, the header not among them. A
    query whose rows are separated by another's gives a warning, or with ``strict`` an error.

    A CSV file has no types. Identifiers that are all whole numbers, written as Python writes them,
    become whole numbers; ``007`` keeps all of them text. An empty field, ``NaN``, ``NA`` or
    ``NULL`` is a missing number.
    """
    path = Path(path)
    with files.open_table(path) as source:
        given = given_roles(label, query, doc, row_weight, query_weight)
        roles = roles_of_file(path, source, given, features, drop)
        collector = Collector(roles, source.n_rows)
        for first_row, batch in source.pieces(roles.numbers, roles.identifiers):
            collector.add(first_row, batch)
        collector.narrowing.warn(roles.column)
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
    files.table_format(path)  # refuses other endings
    clash = sorted(RESERVED.intersection(data.names))
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

    columns: dict[str, Any] = {}
    if data.query_ids is not None:
        columns["qid"] = frames.identifiers_to_arrow("query_ids", data.query_ids)
    columns["label"] = pa.array(data.labels)
    if data.doc_ids is not None:
        columns["doc_id"] = frames.identifiers_to_arrow("doc_ids", data.doc_ids)
    if data.row_weights is not None:
        columns["row_weight"] = pa.array(data.row_weights)
    if data.query_weights is not None:
        columns["query_weight"] = pa.array(data.query_weights[data.query_of_row])
    return columns


def _report_separated(data: RankingData, strict: bool) -> None:
    if data.query_ids is None or data.grouping.n_separated == 0:
        return
    n_separated, n_queries = data.grouping.n_separated, data.n_queries
    what = f"{n_separated:,} of {n_queries:,} queries have their rows separated by another's"
    if strict:
        raise DataError(f"{what}. Sort the rows by query, or read without strict.")
    warnings.warn(f"{what}; they are grouped.", DataWarning, stacklevel=3)


# The role of each column.


@dataclass(frozen=True)
class Roles:
    """The columns of a table by their role; without a label column, all labels are 0."""

    label: str | None
    query: str | None
    doc: str | None
    row_weight: str | None
    query_weight: str | None
    features: tuple[str, ...]

    @property
    def others(self) -> list[str]:
        """The columns that hold numbers other than features."""
        names = (self.label, self.row_weight, self.query_weight)
        return [name for name in names if name is not None]

    @property
    def numbers(self) -> list[str]:
        """The columns that hold numbers."""
        return [*self.others, *self.features]

    @property
    def identifiers(self) -> list[str]:
        """The columns that hold identifiers."""
        return [name for name in (self.query, self.doc) if name is not None]

    def column(self, feature: int) -> str:
        """How messages name a feature."""
        return f"column '{self.features[feature]}'"


def given_roles(
    label: str | None,
    query: str | None,
    doc: str | None,
    row_weight: str | None = None,
    query_weight: str | None = None,
) -> dict[str, str | None]:
    """The columns that the caller named, by role."""
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
    """The role of each column, from the caller's arguments and the names of the table."""
    if isinstance(features, str) or isinstance(drop, str):
        raise ParameterError(
            "features and drop are lists of column names; put the one name in brackets."
        )
    wanted = (*given.values(), *(features or ()), *dict.fromkeys(drop))
    taken = [name for name in wanted if name is not None]
    for name in taken:
        if name not in names:
            raise UnknownName(f"{where}: column", str(name), names)
        if taken.count(name) > 1:
            raise ParameterError(f"column '{name}' is given more than one part; each has one.")
    roles = dict(given)
    for role, usual in _USUAL_NAMES.items():
        if roles[role] is None and usual in names and usual not in taken:
            roles[role] = usual
    if roles["query"] is None and given["query_weight"] is not None:
        raise ParameterError("query_weight needs query=: weights belong to queries.")
    if roles["query"] is None:
        roles["query_weight"] = None
    if features is None:
        features = [name for name in names if name not in taken and name not in RESERVED]
    if not features:
        raise DataError("no columns are left to be features.")
    return Roles(**roles, features=tuple(features))


def roles_of_file(
    path: Path,
    source: TableSource,
    given: Mapping[str, str | None],
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> Roles:
    """The role of each column of an open table file."""
    if given["query"] == "qid" and "qid" not in source.names and MARKER in source.metadata:
        given = {**given, "query": None}  # Rankwood wrote the file, from data without queries
    names = [name for name in source.names if not _PANDAS_INDEX.fullmatch(name)]
    return choose_roles(str(path), names, given, features, drop)


# Record batches become ranking data.


class Collector:
    """Collects record batches of consecutive rows and makes ranking data of them.

    If the data are a part of a file, ``first_row`` is the index of the part's first row in the file,
    and all parts share one ``narrowing``.
    """

    def __init__(
        self,
        roles: Roles,
        n_rows: int | None,
        *,
        first_row: int = 0,
        narrowing: checks.Narrowing | None = None,
    ) -> None:
        self._roles = roles
        refuse_what_memory_cannot_hold(n_rows or 0, len(roles.features))
        self._matrix = np.empty((n_rows or 0, len(roles.features)), dtypes.FEATURE)
        self._feature_of = {name: feature for feature, name in enumerate(roles.features)}
        self._values: dict[str, list[Array]] = {name: [] for name in roles.others}
        self._ids: dict[str, list[Any]] = {name: [] for name in roles.identifiers}
        self.narrowing = narrowing_of(roles) if narrowing is None else narrowing
        self._first_row = first_row
        self._n_rows = 0

    def add(self, first_row: int, batch: Any) -> None:
        """Add rows of some or all columns; the rows of a column must come in order."""
        first = first_row - self._first_row
        last = first + batch.num_rows
        self._n_rows = max(self._n_rows, last)
        if last > len(self._matrix):
            self._resize(last + last // 4)
        block = self._matrix[first:last]
        try:
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if name in self._feature_of:
                    values = frames.numbers(name, column)
                    self.narrowing.write(values[:, None], first_row, self._feature_of[name], block)
                elif name in self._values:
                    self._values[name].append(frames.numbers(name, column).astype(np.float64))
                elif name in self._ids:
                    self._ids[name].append(column)
        except frames.NotAFeatureError as error:
            raise with_remedy(error) from None

    def _resize(self, n_rows: int) -> None:
        # In place: the system moves pages instead of copying. No view of the matrix exists here.
        self._matrix.resize((n_rows, self._matrix.shape[1]), refcheck=False)

    def finish(self, *, ids_are_text: bool) -> RankingData:
        """All rows as ranking data."""
        import pyarrow as pa

        if self._n_rows == 0:
            raise DataError("there are no rows.")
        self._resize(self._n_rows)
        values = {name: np.concatenate(pieces) for name, pieces in self._values.items()}
        ids = {}
        for name, pieces in self._ids.items():
            whole = pa.chunked_array(pieces)
            ids[name] = _untyped_ids(whole) if ids_are_text else frames.identifiers(name, whole)
        return assemble(self._roles, self._matrix, values, ids, first_row=self._first_row + 1)


def narrowing_of(roles: Roles) -> checks.Narrowing:
    """The float32 conversion of a file's features; messages count rows from 1."""
    return checks.Narrowing(lambda row, feature: f"row {row + 1}, {roles.column(feature)},")


def _untyped_ids(texts: Any) -> Array:
    """Ids from the text of a CSV file: whole numbers if all of them are; None for an empty field."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.all(pc.match_substring_regex(texts, _WHOLE_NUMBER)).as_py():
        for kind in (pa.int64(), pa.uint64()):
            with contextlib.suppress(pa.ArrowInvalid):  # too large for the type
                return frames.identifiers("", texts.cast(kind))
    ids = frames.identifiers("", texts)
    ids[ids == ""] = None
    return ids


def assemble(
    roles: Roles,
    matrix: Features,
    values: dict[str, Array],
    ids: dict[str, Array],
    *,
    first_row: int,
) -> RankingData:
    """Ranking data from converted features and the other columns, which are checked here."""
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
        None if roles.query is None else checks.ids(roles.query, ids[roles.query], len(matrix))
    )
    weights = None
    if roles.query_weight is not None and query_ids is not None:
        weights = _one_weight_per_query(
            roles.query_weight, values[roles.query_weight], query_ids, first_row
        )
    numbers_as_names = tuple(str(number + 1) for number in range(len(roles.features)))
    return RankingData(
        matrix,
        np.zeros(len(matrix), dtypes.LABEL) if roles.label is None else values[roles.label],
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


def with_remedy(error: frames.NotAFeatureError) -> DataError:
    """The error with a remedy for a column that cannot be a feature."""
    name = error.column
    return DataError(f"{error} Pass drop=['{name}'], or doc='{name}' if it names the documents.")
