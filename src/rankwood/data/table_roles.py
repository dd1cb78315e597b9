"""Which column of a table plays which part."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankwood.data.table_files import TableSource
from rankwood.errors import DataError, ParameterError, UnknownName

MARKER = b"rankwood.table"  # in the metadata of files we write: the version of their layout
_USUAL_NAMES = {"doc": "doc_id", "row_weight": "row_weight", "query_weight": "query_weight"}
RESERVED = frozenset(("qid", "label", *_USUAL_NAMES.values()))
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # the columns pandas adds to Parquet files


@dataclass(frozen=True)
class Roles:
    """The columns of a table by their parts; without a label, all labels are 0."""

    label: str | None
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

    def column(self, feature: int) -> str:
        """What messages call a feature."""
        return f"column '{self.features[feature]}'"


def given_parts(
    label: str | None,
    query: str | None,
    doc: str | None,
    row_weight: str | None = None,
    query_weight: str | None = None,
) -> dict[str, str | None]:
    """The columns the caller named, by part."""
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
        features = [name for name in names if name not in taken and name not in RESERVED]
    if not features:
        raise DataError("no columns are left to be features.")
    return Roles(**parts, features=tuple(features))


def roles_of_file(
    path: Path,
    source: TableSource,
    given: Mapping[str, str | None],
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> Roles:
    """The part of each column of an open table file."""
    if given["query"] == "qid" and "qid" not in source.names and MARKER in source.metadata:
        given = {**given, "query": None}  # we wrote the file, from data without queries
    names = [name for name in source.names if not _PANDAS_INDEX.fullmatch(name)]
    return choose_roles(str(path), names, given, features, drop)
