"""``read_data``, ``write_data`` and ``read_parts``: one interface to all kinds of files, chosen by the file's name.

``read_parts`` reads files larger than memory in parts of whole queries, so that each part can be ranked on its own.

Terms
    chunk     consecutive rows of a file, as the reader of its format yields them
    run       consecutive rows of a chunk with the same query id
    part      chunks that hold whole queries
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np

from rankwood._core import checks, threads
from rankwood.data import frames
from rankwood.data.dataset import RankingData
from rankwood.data.letor.blocks import Block, Destination
from rankwood.data.letor.text import (
    BlockReader,
    first_return,
    join_blocks,
    make_grammar,
    read_letor,
    refuse_nothing,
    write_letor,
)
from rankwood.data.sources import PathLike, is_regular_file, open_source
from rankwood.data.tables import files
from rankwood.data.tables.files import TableSource
from rankwood.data.tables.ranking import (
    Collector,
    given_roles,
    narrowing_of,
    read_table,
    roles_of_file,
    write_table,
)
from rankwood.dtypes import ROW, Rows
from rankwood.errors import DataError, DataWarning, ParameterError

TABLE_SUFFIXES = (".parquet", ".csv", ".tsv", ".arrow", ".feather")
COMPRESSION_SUFFIXES = (".gz", ".zst", ".bz2")
_HEAD_BYTES = 4096
_TABLE_OPTIONS = ("label", "query", "doc", "drop", "strict")
_LETOR_OPTIONS = (
    "n_features",
    "absent",
    "order",
    "strict",
    "cache",
    "verify",
    "n_threads",
    "progress",
)

N_ROWS = 200_000


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading. The first group is for tables, the second for LETOR text, the third for both."""

    label: str | None = "label"  # None: the table has no labels, or they are ignored
    query: str = "qid"
    doc: str | None = None
    drop: tuple[str, ...] = ()

    absent: Literal["zero", "missing"] = "zero"
    order: Literal["ascending", "any"] = "ascending"
    n_features: int | None = None
    cache: bool | None = None
    verify: bool = False

    strict: bool = False
    n_threads: int | None = None
    progress: Callable[[int, int | None], None] | None = None

    def chosen(self, names: Sequence[str]) -> dict[str, Any]:
        """The options of these names, as arguments of a reader."""
        return {name: getattr(self, name) for name in names}


def read_data(path: str | os.PathLike[str], options: ReadOptions = ReadOptions()) -> RankingData:  # noqa: B008 - frozen
    """Ranking data from a table or LETOR text, by the file's name; ``-`` reads LETOR text from standard input."""
    if is_table(path):
        return read_table(path, **options.chosen(_TABLE_OPTIONS))
    return read_letor(path, **options.chosen(_LETOR_OPTIONS))


def write_data(
    data: RankingData, path: str | os.PathLike[str], *, skip_zeros: bool = False
) -> None:
    """Write a table or LETOR text, by the file's name; ``-`` writes LETOR text to standard output."""
    if is_table(path):
        write_table(data, path)
    else:
        write_letor(data, path, skip_zeros=skip_zeros)


def read_parts(
    path: str | os.PathLike[str], options: ReadOptions, *, n_rows: int = N_ROWS
) -> Iterator[RankingData]:
    """The parts of a table or of LETOR text, in the file's order, each of whole queries.

    A part has ``n_rows`` rows plus those that complete its last query; only the last part may have
    fewer. Memory is needed for one part, for blocks read ahead, and for the ids of all queries so
    far. LETOR text needs ``options.n_features``; a larger feature id is an error. The binary cache
    is not used.

    A query whose rows are separated within a part is grouped, with a warning; a query that comes
    again in a later part is an error. Ids of text files (LETOR, CSV) are whole numbers in parts
    where all of them are. Documents of LETOR text have ids from the first part on that has any.
    """
    n_rows = checks.whole_number("n_rows", n_rows, 1)
    read = table_parts if is_table(path) else letor_parts
    return read(path, options, n_rows)


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether the name is that of a Parquet, CSV or Arrow file; other files are read as LETOR text."""
    return uncompressed_name(path).endswith(TABLE_SUFFIXES)


def uncompressed_name(path: str | os.PathLike[str]) -> str:
    """The name of a file in lower case, without the suffix of a compression."""
    name = Path(path).name.lower()
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def is_run_file(path: str | os.PathLike[str]) -> bool:
    """Whether the first line has the six fields of a TREC run; False for a pipe, which cannot be read twice."""
    if not is_regular_file(path):
        return False
    head = bytearray(_HEAD_BYTES)
    with open_source(path) as source:
        n_bytes = source.fill(memoryview(head))
    lines = bytes(head[:n_bytes]).split(b"\n")
    first = next((line for line in lines if line.strip()), b"")
    return len(first.split()) == 6  # qid Q0 docid rank score tag


def letor_parts(path: PathLike, options: ReadOptions, n_rows: int) -> Iterator[RankingData]:
    """The parts of LETOR text; ``n_features`` must be given, since only the whole file could tell it."""
    if options.n_features is None:
        raise ParameterError("LETOR text is read in parts only if n_features says how wide it is.")
    grammar = make_grammar(path, options.n_features, options.absent, options.order)
    n_threads = threads.resolve_threads(options.n_threads)
    n_done = 0
    has_doc_ids = False
    with open_source(path) as source:
        reader = BlockReader(source, grammar, n_threads, options.progress)
        repeated = RepeatedQueries(f"{source.name}, ", _line, options.strict)
        for part in cut(reader.blocks(), n_rows):
            repeated.check(part)
            data = join_blocks(part, Destination(), grammar.absent)
            has_doc_ids = has_doc_ids or data.doc_ids is not None
            n_done += data.n_documents
            reader.memory.add(-data.n_documents, 0)
            yield _with_empty_doc_ids(data) if has_doc_ids else data
        refuse_nothing(source, n_done)


def _line(block: Block, run: int) -> str:
    return f"line {int(block.run_lines[run]) + 1}"


def _with_empty_doc_ids(data: RankingData) -> RankingData:
    """The data with empty document ids if they have none, since other rows of the file have some."""
    if data.doc_ids is not None:
        return data
    empty = np.full(data.n_documents, "", object)
    return RankingData(data.features, data.labels, data.query_ids, empty)


def table_parts(
    path: str | os.PathLike[str], options: ReadOptions, n_rows: int
) -> Iterator[RankingData]:
    """The parts of a Parquet, Arrow or CSV file."""
    path = Path(path)
    with files.open_table(path, by_rows=True) as source:
        given = given_roles(options.label, options.query, options.doc)
        roles = roles_of_file(path, source, given, drop=options.drop)
        narrowing = narrowing_of(roles)
        repeated = RepeatedQueries("", _TableChunk.describe, options.strict)
        tell = _progress(path, source, options)
        first_row = 0
        pieces = source.pieces(roles.numbers, roles.identifiers)
        for part in cut((_TableChunk.of(*piece, roles.query) for piece in pieces), n_rows):
            rows = sum(chunk.n_rows for chunk in part)
            collector = Collector(roles, rows, first_row=first_row, narrowing=narrowing)
            for chunk in part:
                collector.add(chunk.first_row, chunk.batch)
            data = collector.finish(ids_are_text=not source.has_types)
            if roles.query is not None:
                repeated.check(part)
            part.clear()
            yield data
            first_row += rows
            tell(first_row)
        if first_row == 0:
            raise DataError("there are no rows.")
        narrowing.warn(roles.column)


@dataclass
class _TableChunk:
    """Consecutive rows of a table: a record batch of all its columns."""

    first_row: int
    batch: Any
    run_rows: Rows
    query_ids: Sequence[Hashable]

    @classmethod
    def of(cls, first_row: int, batch: Any, query: str | None) -> _TableChunk:
        """The rows of a record batch; without queries each row is a run."""
        if query is None or not batch.num_rows:
            rows = np.arange(batch.num_rows, dtype=ROW)
            return cls(first_row, batch, rows, range(first_row, first_row + batch.num_rows))
        ids = frames.identifiers(query, batch.column(query))
        heads = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        return cls(first_row, batch, heads, ids[heads].tolist())

    @property
    def n_rows(self) -> int:
        return int(self.batch.num_rows)

    def split(self, run: int) -> tuple[_TableChunk, _TableChunk]:
        """The rows before a run, and the rows from it on."""
        row = int(self.run_rows[run])
        return (
            _TableChunk(
                self.first_row, self.batch[:row], self.run_rows[:run], self.query_ids[:run]
            ),
            _TableChunk(
                self.first_row + row,
                self.batch[row:],
                self.run_rows[run:] - row,
                self.query_ids[run:],
            ),
        )

    def describe(self, run: int) -> str:
        """How messages name the first row of a run."""
        return f"row {self.first_row + int(self.run_rows[run]) + 1}"


def _progress(path: Path, source: TableSource, options: ReadOptions) -> Callable[[int], None]:
    """A function that reports progress to the caller after so many rows."""
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


# Chunks are cut into parts between queries.


class Chunk(Protocol):
    """Consecutive rows of a file; without queries every row is a run, since it may be cut anywhere."""

    run_rows: Rows  # first row of each run

    @property
    def query_ids(self) -> Sequence[Hashable]:
        """The id of each run."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def split(self, run: int) -> tuple[Self, Self]:
        """The rows before a run, and the rows from it on."""
        ...


C = TypeVar("C", bound=Chunk)


def cut(chunks: Iterable[C], n_rows: int) -> Iterator[list[C]]:
    """Parts of ``n_rows`` rows plus those that complete the last query; the last part may have fewer."""
    kept: list[C] = []
    n_kept = 0
    last: Hashable = None
    for chunk in chunks:
        rest = chunk
        while (run := _first_cut(rest, n_rows - n_kept, last)) is not None:
            before, rest = rest.split(run)
            part = [*kept, before] if before.n_rows else kept
            kept, n_kept, last = [], 0, None
            yield part  # the caller may free its chunks: nothing else refers to them
        if rest.n_rows:
            kept.append(rest)
            n_kept += rest.n_rows
            last = rest.query_ids[-1]
    if kept:
        yield kept


def _first_cut(chunk: Chunk, row: int, last: Hashable) -> int | None:
    """The first run at or after ``row`` that begins another query; ``last`` is the query before the chunk."""
    ids = chunk.query_ids
    for run in range(int(np.searchsorted(chunk.run_rows, row)), len(ids)):
        if ids[run] != (ids[run - 1] if run else last):
            return run
    return None


class RepeatedQueries:
    """Raises for a query that comes again after its part was yielded, since it can no longer be ranked.

    All query ids are stored for that. A query that comes again within a part is grouped, with one
    warning per file; with ``strict`` it is an error too.
    """

    def __init__(self, prefix: str, describe: Callable[[Any, int], str], strict: bool) -> None:
        self._prefix = prefix  # of messages
        self._describe = describe  # how messages name the first row of a run
        self._strict = strict
        self._seen: set[Hashable] = set()
        self._has_warned = False

    def check(self, part: Sequence[Chunk]) -> None:
        """Raise if a query of the part was in an earlier part, and remember its queries."""
        runs = [(chunk, run) for chunk in part for run in range(len(chunk.query_ids))]
        ids = [chunk.query_ids[run] for chunk, run in runs]
        if not self._seen.isdisjoint(ids):
            first = next(index for index, query in enumerate(ids) if query in self._seen)
            raise DataError(
                f"{self._named(*runs[first])} comes again, but its first rows were handed on already: reading in parts "
                "needs the rows of a query together. Sort the rows by query, or read the file as a "
                "whole (rankwood score --whole)."
            )
        returning = first_return(ids)
        if returning is not None:
            self._report_separated(self._named(*runs[returning]))
        self._seen.update(ids)

    def _report_separated(self, where: str) -> None:
        what = f"{where} comes again after rows of another query"
        if self._strict:
            raise DataError(f"{what}. Put the rows of a query together, or read without strict.")
        if not self._has_warned:
            self._has_warned = True
            message = (
                f"{what}. It is grouped, as far as its rows are read together; others may be too."
            )
            warnings.warn(message, DataWarning, stacklevel=5)

    def _named(self, chunk: Chunk, run: int) -> str:
        """The first row of a run and its query."""
        return f"{self._prefix}{self._describe(chunk, run)}: query {chunk.query_ids[run]}"
