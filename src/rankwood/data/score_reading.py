"""Scores of a data set's rows from a file: what ``rankwood score`` writes, or bare numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.data.trec import read_scores
from rankwood.dtypes import SCORE, Floats
from rankwood.errors import DataError

_ENDINGS = {".parquet": "Parquet", ".tsv": "TSV", ".csv": "CSV"}


def read_scores_of(path: str | os.PathLike[str], data: RankingData) -> Floats:
    """One score per row of ``data``, in its order: the column ``score`` of a table, or one number per line.

    A table's ``qid`` and ``doc_id``, if it has them, must be those of the rows.
    """
    if Path(path).suffix.lower() not in _ENDINGS:
        return read_scores(path, n_rows=data.n_documents)
    table = _table(Path(path))
    if "score" not in table.column_names:
        names = ", ".join(table.column_names[:8])
        raise DataError(
            f"{path} has no column 'score'; it has {names}. rankwood score writes such a file."
        )
    if table.num_rows != data.n_documents:
        raise DataError(
            f"{path} has {table.num_rows:,} scores, but the data have {data.n_documents:,} rows. "
            "There must be one score per row, in the order of the rows."
        )
    for name, ids in (("qid", data.query_ids), ("doc_id", data.doc_ids)):
        if name in table.column_names and ids is not None:
            _refuse_other_rows(path, name, table.column(name).to_pylist(), ids.tolist())
    return _numbers(path, table.column("score"))


def _table(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    try:
        if path.suffix.lower() == ".parquet":
            return pyarrow.parquet.read_table(path)
        delimiter = "," if path.suffix.lower() == ".csv" else "\t"
        options = pyarrow.csv.ParseOptions(delimiter=delimiter)
        return pyarrow.csv.read_csv(path, parse_options=options)
    except (pa.ArrowInvalid, OSError) as error:
        kind = _ENDINGS[path.suffix.lower()]
        raise DataError(f"{path} cannot be read as {kind}: {error}") from None


def _refuse_other_rows(path: Any, name: str, found: list[Any], expected: list[Any]) -> None:
    for row, (one, other) in enumerate(zip(found, expected, strict=True)):
        if str(one) != str(other):
            raise DataError(
                f"{path}, row {row + 1:,}: {name} is {one}, but the data have {other} there. "
                "Scores must be of these data, in the order of their rows."
            )


def _numbers(path: Any, column: Any) -> Floats:
    try:
        scores = np.asarray(column.to_numpy(), dtype=SCORE)
    except (TypeError, ValueError):
        raise DataError(f"{path}: the column 'score' does not hold numbers.") from None
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise DataError(f"{path}, row {row + 1:,}: the score is missing or not finite.")
    return scores
