"""Tables in and out: frames in memory, Parquet, Arrow and CSV files.

A table has a row per document, a column for the label, one for the query id, and a column per
feature. Columns named ``doc_id``, ``row_weight`` and ``query_weight`` are taken for what their
names say; any other name can be given.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankwood.data import columns, table_files
from rankwood.data.dataset import RankingData
from rankwood.data.frames import as_frame, fill_matrix
from rankwood.data.table_collecting import Collector, assemble, with_remedy
from rankwood.data.table_roles import MARKER, RESERVED, choose_roles, given_parts, roles_of_file
from rankwood.data.table_writing import write_columns
from rankwood.errors import DataError, DataWarning, ParameterError


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
    given = given_parts(label, query, doc, row_weight, query_weight)
    roles = choose_roles("the table", table.names, given, features, drop)
    try:
        matrix = fill_matrix(table, roles.features)
        values = {name: table.numbers(name, 0, table.n_rows) for name in roles.others}
    except columns.NotAFeatureError as error:
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
    with table_files.open_table(path) as source:
        given = given_parts(label, query, doc, row_weight, query_weight)
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


def _report_separated(data: RankingData, strict: bool) -> None:
    if data.query_ids is None or data.grouping.n_separated == 0:
        return
    n_separated, n_queries = data.grouping.n_separated, data.n_queries
    what = f"{n_separated:,} of {n_queries:,} queries have their rows separated by another's"
    if strict:
        raise DataError(f"{what}. Sort the rows by query, or read without strict.")
    warnings.warn(f"{what}; they are grouped.", DataWarning, stacklevel=3)
