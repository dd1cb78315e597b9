"""``from_frame``, ``read_table`` and ``write_table``: ranking data from and to tables.

A table has one row per document, one column for the label, one for the query id, and one column per feature. Columns
named ``doc_id``, ``row_weight``, ``query_weight`` and ``position`` are used as their names say; other names can be
given.

The way of a table: ``choose_roles`` decides which column is what (``Roles``), ``Collector`` converts record batches to
float32 features, and ``assemble`` checks the other columns and makes ``RankingData``. ``TableFiles`` are files with the
same columns, read as one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwood import dtypes
from rankwood._core import checks
from rankwood.data import categories, frames, table_files
from rankwood.data.categories import Categorical, Dictionary, asked_for
from rankwood.data.dataset import (
    FilePart,
    Judgments,
    RankingData,
    one_weight_per_query,
    refuse_repeated_positions,
    stacked,
)
from rankwood.data.frames import as_frame, fill_matrix, refuse_what_memory_cannot_hold
from rankwood.data.sources import InputFile, Paths, find_inputs, is_seekable
from rankwood.data.table_files import TableSource, write_columns
from rankwood.dtypes import Array, Features
from rankwood.errors import DataError, DataWarning, ParameterError, UnknownName, counted, named

MARKER = b"rankwood.table"  # metadata key of files that write_table wrote
_USUAL_NAMES = {
    "doc": "doc_id",
    "row_weight": "row_weight",
    "query_weight": "query_weight",
    "position": "position",
}
RESERVED = frozenset(("qid", "label", *_USUAL_NAMES.values()))
_WORDS = {  # what a column of a role holds
    "label": "labels",
    "query": "query ids",
    "doc": "document ids",
    "row_weight": "row weights",
    "query_weight": "query weights",
    "position": "positions",
}
_LOOK_LIKE_WEIGHTS = ("weight", "weights", "sample_weight", "instance_weight")
_NAMES_SHOWN = 10


def from_frame(
    frame: Any,
    *,
    label: str | None = "label",
    query: str | None = "qid",
    doc: str | None = None,
    row_weight: str | None = None,
    query_weight: str | None = None,
    position: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    categorical: Categorical = (),
) -> RankingData:
    """Ranking data from a pandas, polars or Arrow table.

    ``label``, ``query``, ``doc``, ``row_weight``, ``query_weight`` and ``position`` name columns. The last four
    default to the columns ``doc_id``, ``row_weight``, ``query_weight`` and ``position`` where the table has
    them; ``query=None`` means data without queries, and ``label=None`` data without labels, which are
    then all 0. ``features`` defaults to all other columns but
    those in ``drop``; each must hold numbers, or text or categories if ``categorical`` names it, a list or, as for
    ``RankingData``, a mapping from columns to their categories. Columns with the names ``label``, ``qid``,
    ``doc_id``, ``row_weight``, ``query_weight`` and ``position`` are features only when ``features`` lists them.
    A query's weight must be the same in all its rows. Rows in messages are counted from 0.
    """
    table = as_frame(frame)
    if table is None:
        raise DataError(f"expected a pandas, polars or Arrow table, got {type(frame).__name__}.")
    given = given_roles(label, query, doc, row_weight, query_weight, position)
    roles = roles_of_frame("the table", table.names, given, features, drop)
    return frame_in_roles(table, with_categorical("the table", roles, asked_for(categorical)))


def roles_of_frame(
    where: str,
    names: Sequence[str],
    given: Mapping[str, str | None],
    features: Sequence[str] | None,
    drop: Sequence[str],
) -> Roles:
    """The role of each column of a frame with these columns."""
    roles = choose_roles(where, names, given, features, drop)
    _report_weights(where, roles)
    return roles


def frame_in_roles(table: frames.Frame, roles: Roles) -> RankingData:
    """Ranking data from a frame whose columns have these roles."""
    try:
        asked = dict(roles.categorical)
        matrix = fill_matrix(table, roles.features, asked)
        values = {
            name: frames.floats(table.numbers(name, 0, table.n_rows)) for name in roles.others
        }
    except frames.NotAFeatureError as error:
        raise with_remedy(error, roles) from None
    ids = {name: table.identifiers(name) for name in roles.identifiers}
    data = assemble(roles, matrix, values, ids, first_row=0)
    return with_dictionaries(data, roles, asked)


def read_table(
    path: Paths,
    *,
    label: str | None = "label",
    query: str | None = "qid",
    doc: str | None = None,
    row_weight: str | None = None,
    query_weight: str | None = None,
    position: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    categorical: Categorical = (),
    strict: bool = False,
) -> RankingData:
    """Ranking data from Parquet, Arrow (Feather) or CSV files, by the endings of their names.

    ``path`` is a file, a pattern such as ``day-*.parquet``, a folder, a partitioned Parquet data set, or a list of
    these; ``s3://``, ``gs://`` and the like are read through pyarrow's file systems. Several files have the same
    columns, and are read in their order. A folder named ``column=value`` is a column where a parameter names it.

    CSV and TSV files may be compressed (``.gz``, ``.zst``, ``.bz2``) and may be pipes. Columns are
    named as for ``from_frame``; ``label=None`` is for tables without labels, which are then all 0
    (a column named ``label`` is left out). Rows in messages are counted from 1, the header not among them. A
    query whose rows are separated by another's gives a warning, or with ``strict`` an error.

    A CSV file has no types. Identifiers that are all whole numbers, written as Python writes them,
    become whole numbers; ``007`` keeps all of them text. An empty field, ``NaN``, ``NA`` or
    ``NULL`` is a missing number.
    """
    given = given_roles(label, query, doc, row_weight, query_weight, position)
    asked = asked_for(categorical)
    return read_files(TableFiles(find_inputs(path), given, features, drop, None, asked), strict)


def read_files(tables: TableFiles, strict: bool) -> RankingData:
    """Table files as one; see ``read_table``."""
    parts = tables.read()
    data, roles = stacked(parts), tables.roles
    dictionaries = dict(roles.categorical)
    categories.write_codes(data.features, roles.features, tables.texts, dictionaries)
    data = with_dictionaries(data, roles, dictionaries)
    more = f" and {len(tables.inputs) - 1:,} more" if len(tables.inputs) > 1 else ""
    _report_separated(f"{tables.inputs[0].path}{more}", data, strict)
    return data


def write_table(data: RankingData, path: str | os.PathLike[str]) -> None:
    """Write ``data`` as Parquet, Arrow (Feather) or CSV, by the ending of the name.

    The columns are ``qid``, ``label``, ``doc_id``, ``row_weight``, ``query_weight`` and ``position``
    (those the data have), then the features by name. ``read_table`` gives the same data back. Categorical
    features are text; a mapping ``categorical=`` of their categories reads the same codes. In CSV, numbers
    are written with as few digits as identify them; text ids that all look like whole numbers come
    back as whole numbers there.
    """
    import pyarrow as pa

    path = Path(path)
    table_files.table_format(path)  # refuses other endings
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
    known = data.categorical or (None,) * len(data.names)
    types = [pa.float32() if one is None else pa.large_string() for one in known]
    kinds += zip(data.names, types, strict=True)
    schema = pa.schema(kinds, metadata={MARKER: b'{"version": 1}'})
    write_columns(path, schema, list(others.values()), data.features, known)


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
    if data.positions is not None:
        columns["position"] = pa.array(data.positions)
    return columns


def _report_separated(name: str, data: RankingData, strict: bool) -> None:
    if data.query_ids is None or data.grouping.n_separated == 0:
        return
    n_separated, n_queries = data.grouping.n_separated, data.n_queries
    what = (
        f"{name}: {n_separated:,} of {n_queries:,} queries have their rows separated by another's"
    )
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
    position: str | None
    features: tuple[str, ...]
    are_chosen: bool = False  # whether the features were named, rather than all that were left
    categorical: Mapping[str, Dictionary | None] = field(default_factory=dict)  # of the features

    @property
    def others(self) -> list[str]:
        """The columns that hold numbers other than features."""
        names = (self.label, self.row_weight, self.query_weight, self.position)
        return [name for name in names if name is not None]

    @property
    def numbers(self) -> list[str]:
        """The columns that hold numbers."""
        return [
            *self.others,
            *(name for name in self.features if name not in self.categorical),
        ]

    @property
    def identifiers(self) -> list[str]:
        """The columns that hold identifiers."""
        return [name for name in (self.query, self.doc) if name is not None]

    @property
    def texts(self) -> list[str]:
        """The columns that are read as they are: identifiers and categories."""
        return [*self.identifiers, *self.categorical]

    def column(self, feature: int) -> str:
        """How messages name a feature."""
        return f"column '{self.features[feature]}'"


def given_roles(
    label: str | None,
    query: str | None,
    doc: str | None,
    row_weight: str | None = None,
    query_weight: str | None = None,
    position: str | None = None,
) -> dict[str, str | None]:
    """The columns that the caller named, by role."""
    return {
        "label": label,
        "query": query,
        "doc": doc,
        "row_weight": row_weight,
        "query_weight": query_weight,
        "position": position,
    }


def choose_roles(
    where: str,
    names: Sequence[str],
    given: Mapping[str, str | None],
    features: Sequence[str] | None,
    drop: Sequence[str],
    n_features: int | None = None,
) -> Roles:
    """The role of each column, from the caller's arguments and the names of the table.

    ``n_features`` is how many a model knows. Where its features are numbered, and ``features`` does not name them, they
    are the columns named 1, 2, 3 and so on, or else all that are left.
    """
    if isinstance(features, str) or isinstance(drop, str):
        raise ParameterError(
            "features and drop are lists of column names; put the one name in brackets."
        )
    numbered = tuple(str(number + 1) for number in range(n_features or 0))
    if features is None and numbered and set(numbered) <= set(names):
        features = numbered
    is_for_model = n_features is not None
    _refuse_missing(where, names, given, features or (), drop, are_of_model=is_for_model)
    wanted = (*given.values(), *(features or ()), *dict.fromkeys(drop))
    taken = [name for name in wanted if name is not None]
    for name in taken:
        if taken.count(name) > 1:
            if name == given["position"]:
                raise ParameterError(
                    f"column '{name}' holds the positions and cannot be anything else; a position is never a feature."
                )
            raise ParameterError(f"column '{name}' is given more than one part; each has one.")
    roles: dict[str, Any] = dict(given)
    for role, usual in _USUAL_NAMES.items():
        if roles[role] is None and usual in names and usual not in taken:
            roles[role] = usual
    if roles["query"] is None and given["query_weight"] is not None:
        raise ParameterError(
            f"{named('query_weight')} needs {named('query')}: weights belong to queries."
        )
    if roles["query"] is None and given["position"] is not None:
        raise ParameterError(
            f"{named('position')} needs {named('query')}: positions belong to the lists of queries."
        )
    if roles["query"] is None:
        roles["query_weight"] = roles["position"] = None
    are_chosen = features is not None
    if features is None:
        features = [name for name in names if name not in taken and name not in RESERVED]
        if n_features is not None and len(features) != n_features:
            more = ""
            if len(features) > n_features:
                more = f" If the model was imported, import it again with {named('n_features')} {len(features)}."
            raise ParameterError(
                f"{where} has {counted(len(features), 'column')} that may be features, but the model knows "
                f"{n_features:,}. Say which with {named('features')}, or leave others out with {named('drop')}.{more}"
            )
    if not features:
        raise DataError("no columns are left to be features.")
    return Roles(**roles, features=tuple(features), are_chosen=are_chosen)


def with_categorical(
    where: str, roles: Roles, categorical: Mapping[str, Dictionary | None]
) -> Roles:
    """The roles, with the features that hold categories."""
    for name in categorical:
        if name not in roles.features:
            remedy = f"{named('categorical')} is for features."
            raise UnknownName(f"{where}: categorical feature", name, roles.features, remedy)
    return dataclasses.replace(roles, categorical=categorical)


def with_dictionaries(
    data: RankingData, roles: Roles, dictionaries: Mapping[str, Dictionary | None]
) -> RankingData:
    """The data, whose features hold codes of these categories."""
    if not dictionaries:
        return data
    of_features = tuple(dictionaries.get(name) for name in roles.features)
    return RankingData.from_judgments(
        data.features, data.judgments, data.feature_names, of_features
    ).with_absent(data.absent)


def _refuse_missing(
    where: str,
    names: Sequence[str],
    given: Mapping[str, str | None],
    features: Sequence[str],
    drop: Sequence[str],
    *,
    are_of_model: bool,
) -> None:
    """Raise for columns that are asked for and that the table lacks."""
    absent = {role: name for role, name in given.items() if name is not None and name not in names}
    for role, name in absent.items():
        if separator := _separator_in(names):
            raise ParameterError(
                f"{where} has a single column '{names[0]}': its fields seem to be separated by {separator}. Separate "
                "them by commas (.csv) or tabs (.tsv)."
            )
        remedy = f"Say which column holds the {_WORDS[role]}: {named(role)}."
        if len(absent) > 1:
            others = (
                f"the {_WORDS[other]} ('{absent[other]}'): {named(other)}"
                for other in absent
                if other != role
            )
            remedy += f" It also lacks the column of {' and of '.join(others)}."
        raise UnknownName(f"{where}: column", str(name), names, remedy)
    lacking = [name for name in features if name not in names]
    if len(lacking) > 1 or (lacking and are_of_model):
        owner = " of the model" if are_of_model else ""
        raise ParameterError(
            f"{where} lacks {len(lacking):,} of the {len(features):,} features{owner}: {_some(lacking)}. It has "
            f"{_some(names)}."
        )
    for name in (*lacking, *drop):
        if name not in names:
            raise UnknownName(f"{where}: column", str(name), names)


def _separator_in(names: Sequence[str]) -> str | None:
    """What separates the fields of a header that was read as a single name, in words; None where nothing does."""
    words = {";": "semicolons", "\t": "tabs", "|": "bars"}
    found = (word for mark, word in words.items() if len(names) == 1 and mark in names[0])
    return next(found, None)


def _some(names: Sequence[str]) -> str:
    """The first few names, and how many others there are."""
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:_NAMES_SHOWN]) + more


def _report_weights(where: str, roles: Roles) -> None:
    """Warn of a feature that is called as weights are, which nobody has said it is."""
    for name in () if roles.are_chosen else roles.features:
        if name.lower() in _LOOK_LIKE_WEIGHTS:
            warnings.warn(
                f"{where}: column '{name}' is taken as a feature. If it is a weight, say {named('row_weight', name)} "
                f"or {named('query_weight', name)}; if it is neither, {named('drop', [name])}.",
                DataWarning,
                stacklevel=4,
            )


def names_of_features(roles: Roles) -> tuple[str, ...] | None:
    """The names of the features; None where they are numbered 1, 2, 3 and so on."""
    numbered = tuple(str(number + 1) for number in range(len(roles.features)))
    return None if roles.features == numbered else roles.features


def roles_of_file(
    where: str,
    source: TableSource,
    given: Mapping[str, str | None],
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    n_features: int | None = None,
    categorical: Mapping[str, Dictionary | None] | None = None,
) -> Roles:
    """The role of each column of an open table file."""
    if given["query"] == "qid" and "qid" not in source.names and MARKER in source.metadata:
        given = {**given, "query": None}  # Rankwood wrote the file, from data without queries
    names = frames.without_index(source.names)
    roles = choose_roles(where, names, given, features, drop, n_features)
    roles = with_categorical(where, roles, categorical or {})
    if source.schema is not None:
        kinds = dict(zip(source.schema.names, source.schema.types, strict=True))
        found = [
            frames.unusable_column(name, kinds[name]) for name in roles.numbers if name in kinds
        ]
        unusable = [column for column in found if column is not None]
        if unusable:
            raise with_remedy(frames.NotAFeatureError(unusable), roles)
    _report_weights(where, roles)
    return roles


class TableFiles:
    """Table files with the same columns, which are read one after the other.

    A folder named ``column=value``, as Hive names those of a partitioned data set, is a column of the files below it
    where one of the parameters names it.
    """

    def __init__(
        self,
        inputs: Sequence[InputFile],
        given: Mapping[str, str | None],
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        n_features: int | None = None,
        categorical: Mapping[str, Dictionary | None] | None = None,
    ) -> None:
        self._categorical = categorical
        self.texts: dict[str, list[Any]] = {}  # of categories, in the order of the rows
        self.inputs = list(inputs)
        self._given, self._features, self._drop = given, features, drop
        self._n_features = n_features
        self._names: frozenset[str] = frozenset()  # of the first file
        self._roles: Roles | None = None
        self.has_types = False  # whether the first file has types; known once it was open

    @property
    def roles(self) -> Roles:
        """The role of each column; known once a file was open."""
        assert self._roles is not None
        return self._roles

    def check(self) -> None:
        """Open every file once, and raise where its columns are not those of the first."""
        for number in range(len(self.inputs)):
            with self.opened(number):
                pass

    @contextlib.contextmanager
    def opened(
        self, number: int, *, by_rows: bool = False, first_row: int = 0
    ) -> Iterator[TableSource]:
        """A file, with the keys of its folders among its columns where they are named."""
        file = self.inputs[number]
        wanted = {*self._given.values(), *(self._features or ()), *self._drop}
        with table_files.open_table(file.path, by_rows=by_rows, first_row=first_row) as stored:
            keys = [name for name, _ in file.keys if name in wanted and name not in stored.names]
            source = dataclasses.replace(stored, names=(*stored.names, *keys))
            if self._roles is None:
                self._names, self.has_types = frozenset(source.names), source.has_types
                self._roles = roles_of_file(
                    str(file.path),
                    source,
                    self._given,
                    self._features,
                    self._drop,
                    self._n_features,
                    self._categorical,
                )
            elif number:
                self._refuse_other_columns(frozenset(source.names))
            yield source

    def pieces(
        self,
        number: int,
        source: TableSource,
        numbers: Sequence[str],
        identifiers: Sequence[str],
    ) -> Iterator[table_files.Piece]:
        """The pieces of an open file, with the columns that its folders stand for."""
        values = dict(self.inputs[number].keys)
        keys = [name for name in (*numbers, *identifiers) if name in values]
        stored = [name for name in numbers if name not in values]
        stored_ids = [name for name in identifiers if name not in values]
        if not stored and not stored_ids:  # then any column says how many rows there are
            stored_ids = [name for name in source.names if name not in values][:1]
        n_rows = 0
        try:
            for first_row, batch in source.pieces(stored, stored_ids):
                end = first_row + batch.num_rows
                for name in keys if end > n_rows else ():  # once for every row
                    column = table_files.constant_column(
                        name, values[name], batch.num_rows, name in identifiers
                    )
                    batch = batch.append_column(name, column)  # noqa: PLW2901
                n_rows = max(n_rows, end)
                yield first_row, batch
        except table_files.TextInNumbersError as error:
            path = self.inputs[number].path
            found = table_files.text_columns(path, stored) if is_seekable(path) else {}
            raise with_remedy_of_text(error, found, self.roles) from None

    def read(self) -> list[FilePart]:
        """The data of each file that has rows."""
        if len(self.inputs) > 1:
            self.check()
        parts: list[FilePart] = []
        narrowing: checks.Narrowing | None = None
        for number in range(len(self.inputs)):
            with self.opened(number) as source:
                roles = self.roles
                narrowing = narrowing or narrowing_of(roles)
                collector = Collector(roles, source.n_rows, narrowing=narrowing)
                pieces = self.pieces(number, source, roles.numbers, roles.texts)
                for first_row, batch in pieces:
                    collector.add(first_row, batch)
                is_last_hope = number == len(self.inputs) - 1 and not parts
                if collector.n_rows or is_last_hope:
                    data = collector.finish(ids_are_text=not source.has_types)
                    for name, columns in collector.texts.items():
                        self.texts.setdefault(name, []).extend(columns)
                    parts.append(FilePart(str(self.inputs[number].path), data, source.has_types))
        if narrowing is not None:
            narrowing.warn(self.roles.column)
        return parts

    def _refuse_other_columns(self, names: frozenset[str]) -> None:
        wanted = self._names
        if self._features is not None:  # then further columns do not matter
            wanted = frozenset((*self.roles.numbers, *self.roles.texts))
            names &= wanted
        if names == wanted:
            return
        said = [
            f"it {verb} {', '.join(repr(name) for name in sorted(which)[:5])}"
            for verb, which in (("lacks", wanted - names), ("has", names - wanted))
            if which
        ]
        raise DataError(
            f"its columns are not those of {self.inputs[0].path}: {'; '.join(said)}. Files that are read together have "
            f"the same columns: rename them, or choose those that all have with {named('features')}."
        )


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
        # Columns of categories whose codes are not known before all rows are.
        self.texts: dict[str, list[Any]] = {
            name: [] for name, known in roles.categorical.items() if known is None
        }
        self.narrowing = narrowing_of(roles) if narrowing is None else narrowing
        self._first_row = first_row
        self._n_rows = 0

    @property
    def n_rows(self) -> int:
        """Rows collected so far."""
        return self._n_rows

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
                if name in self.texts:
                    self.texts[name].append(column)
                    block[:, self._feature_of[name]] = 0.0
                elif name in self._roles.categorical:
                    known = self._roles.categorical[name]
                    block[:, self._feature_of[name]] = categories.encode(name, column, known)[0]
                elif name in self._feature_of:
                    values = frames.numbers(name, column)
                    self.narrowing.write(values[:, None], first_row, self._feature_of[name], block)
                elif name in self._values:
                    self._values[name].append(frames.floats(frames.numbers(name, column)))
                elif name in self._ids:
                    self._ids[name].append(column)
        except frames.NotAFeatureError as error:
            raise with_remedy(error, self._roles) from None

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
            ids[name] = (
                table_files.untyped_ids(whole) if ids_are_text else frames.identifiers(name, whole)
            )
        return assemble(self._roles, self._matrix, values, ids, first_row=self._first_row + 1)


def narrowing_of(roles: Roles) -> checks.Narrowing:
    """The float32 conversion of a file's features; messages count rows from 1."""
    return checks.Narrowing(lambda row, feature: f"row {row + 1}, {roles.column(feature)},")


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
        if (row := checks.first_true(frames.missing_ids(ids[name]))) is not None:
            raise DataError(
                f"row {row + first_row}: column '{name}' is empty. Every row needs an identifier."
            )
    for name, column in values.items():
        if name == roles.position:
            wrong = checks.wrong_positions(column.astype(np.float64))
            if (row := checks.first_true(wrong)) is not None:
                said = checks.said_of_position(float(column[row]))
                raise DataError(f"row {row + first_row}: column '{name}' is {said}")
            continue
        wrong = ~((column >= 0) & np.isfinite(column))
        if (row := checks.first_true(wrong)) is not None:
            value = float(column[row])
            what = "empty" if np.isnan(value) else f"{value:g}"
            raise DataError(
                f"row {row + first_row}: column '{name}' is {what}. Labels and weights are finite and not negative: "
                "leave such rows out, or give them a value."
            )
    query_ids = (
        None if roles.query is None else checks.ids(roles.query, ids[roles.query], len(matrix))
    )
    weights = None
    if roles.query_weight is not None and query_ids is not None:
        weights = one_weight_per_query(
            roles.query_weight, values[roles.query_weight], query_ids, first_row
        )
    positions = None
    if roles.position is not None and query_ids is not None:
        positions = values[roles.position].astype(dtypes.POSITION)
        refuse_repeated_positions(
            Judgments(np.empty(0), query_ids, positions=positions),
            lambda row: f"row {row + first_row}: column '{roles.position}'",
        )
    return RankingData(
        matrix,
        np.zeros(len(matrix), dtypes.LABEL) if roles.label is None else values[roles.label],
        query_ids,
        None if roles.doc is None else ids[roles.doc],
        None if roles.row_weight is None else values[roles.row_weight],
        weights,
        names_of_features(roles),
        positions,
    )


def with_remedy(error: frames.NotAFeatureError, roles: Roles) -> DataError:
    """The error with a remedy for columns that hold no numbers."""
    for column in error.columns:
        if column.name in roles.others:
            return DataError(
                f"column '{column.name}' holds {column.content}. {_remedy_of_role(column.name, roles)}"
            )
    names = [column.name for column in error.columns]
    texts = [column.name for column in error.columns if column.content.startswith("text")]
    return DataError(f"{error} {_remedy_of_features(names, texts, roles)}".rstrip())


def with_remedy_of_text(
    error: table_files.TextInNumbersError, found: Mapping[str, str], roles: Roles
) -> DataError:
    """The same for a file without types; ``found`` are all columns that hold text, with an example of each."""
    name = next((name for name in (error.column, *found) if name in roles.others), None)
    if name is not None:
        text = table_files.shown(found.get(name, error.text))
        where = error.where if name == error.column else ""
        return DataError(
            f"{where}column '{name}': {text} is not a number. {_remedy_of_role(name, roles)}"
        )
    if len(found) > 1:
        columns = [
            frames.UnusableColumn(name, f"text ({table_files.shown(text)})", "")
            for name, text in found.items()
        ]
        return with_remedy(frames.NotAFeatureError(columns), roles)
    remedy = _remedy_of_features([error.column], [error.column], roles)
    return DataError(f"{error} Encode text as numbers. {remedy}".rstrip())


def _remedy_of_role(name: str, roles: Roles) -> str:
    role = next(role for role in _WORDS if getattr(roles, role) == name)
    if role == "label":
        return f"Labels are numbers: turn grades into 0, 1, 2, …, or say which column holds the labels: {named(role)}."
    return f"Weights are numbers: say which column holds the {_WORDS[role]}: {named(role)}."


def _remedy_of_features(names: Sequence[str], texts: Sequence[str], roles: Roles) -> str:
    if roles.are_chosen:
        return ""
    is_id = f", or {named('doc', texts[0])} if it names the documents" if texts else ""
    is_text = f", or {named('categorical', texts)} if it holds categories" if texts else ""
    return f"Pass {named('drop', names)}{is_id}{is_text}."
