"""Parquet, Arrow and CSV files part by part, in memory for one part."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwood.data import columns, table_files
from rankwood.data.dataset import RankingData
from rankwood.data.part_cutting import Returns, cut
from rankwood.data.reading import ReadOptions
from rankwood.data.sources import is_regular_file
from rankwood.data.table_collecting import Collector, narrowing_of
from rankwood.data.table_files import TableSource
from rankwood.data.table_roles import given_parts, roles_of_file
from rankwood.dtypes import ROW, Rows
from rankwood.errors import DataError


@dataclass
class _Rows:
    """Consecutive rows of a table: a record batch of all its columns."""

    first_row: int
    batch: Any
    run_rows: Rows
    query_ids: Sequence[Hashable]

    @classmethod
    def of(cls, first_row: int, batch: Any, query: str | None) -> _Rows:
        """The rows of a batch; without queries each row is a run."""
        if query is None or not batch.num_rows:
            rows = np.arange(batch.num_rows, dtype=ROW)
            return cls(first_row, batch, rows, range(first_row, first_row + batch.num_rows))
        ids = columns.identifiers(query, batch.column(query))
        heads = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        return cls(first_row, batch, heads, ids[heads].tolist())

    @property
    def n_rows(self) -> int:
        return int(self.batch.num_rows)

    def split(self, run: int) -> tuple[_Rows, _Rows]:
        """The rows before a run, and the rows from it on."""
        row = int(self.run_rows[run])
        return (
            _Rows(self.first_row, self.batch[:row], self.run_rows[:run], self.query_ids[:run]),
            _Rows(
                self.first_row + row,
                self.batch[row:],
                self.run_rows[run:] - row,
                self.query_ids[run:],
            ),
        )

    def place(self, run: int) -> str:
        """What messages call the first row of a run."""
        return f"row {self.first_row + int(self.run_rows[run]) + 1}"


def table_parts(
    path: str | os.PathLike[str], options: ReadOptions, n_rows: int
) -> Iterator[RankingData]:
    """The file's parts."""
    path = Path(path)
    with table_files.open_table(path, by_rows=True) as source:
        given = given_parts(options.label, options.query, options.doc)
        roles = roles_of_file(path, source, given, drop=options.drop)
        narrowing = narrowing_of(roles)
        returns = Returns("", _Rows.place, options.strict)
        tell = _progress(path, source, options)
        first_row = 0
        pieces = source.pieces(roles.numbers, roles.identifiers)
        for part in cut((_Rows.of(*piece, roles.query) for piece in pieces), n_rows):
            rows = sum(chunk.n_rows for chunk in part)
            collector = Collector(roles, rows, first_row=first_row, narrowing=narrowing)
            for chunk in part:
                collector.add(chunk.first_row, chunk.batch)
            data = collector.finish(ids_are_text=not source.has_types)
            if roles.query is not None:
                returns.check(part)
            part.clear()
            yield data
            first_row += rows
            tell(first_row)
        if first_row == 0:
            raise DataError("there are no rows.")
        narrowing.warn(roles.column)


def _progress(path: Path, source: TableSource, options: ReadOptions) -> Callable[[int], None]:
    """What tells the caller how far the file is read, once so many rows are done."""
    progress = options.progress
    n_bytes = os.stat(path).st_size if is_regular_file(path) else None

    def tell(n_rows: int) -> None:
        if progress is None:
            return
        if source.n_read is not None:
            progress(source.n_read(), n_bytes)
        elif source.n_rows and n_bytes:
            progress(n_bytes * n_rows // source.n_rows, n_bytes)

    return tell
