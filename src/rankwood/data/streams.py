"""Many files as one stream of rows, in parts of whole queries: for data that are larger than memory.

``read_parts`` gives ranking data part by part, so that each part can be ranked on its own. ``open_stream`` makes a
``LetorStream`` or a ``TableStream`` of files, which can be read several times: ``count`` tells how many rows there are,
``parts`` gives all columns in parts of whole queries, and ``features`` gives the features alone, in parts of known
length. Reading can begin at any ``Place``, so that an interrupted run can continue.

Terms
    chunk     consecutive rows of one file, as the reader of its format yields them
    run       consecutive rows of a chunk with the same query id
    part      chunks that hold whole queries; a part may begin in one file and end in the next
    place     where a row stands: the number of its file, and the lines (LETOR text) or rows (tables) before it there
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankwood._core import checks, threads
from rankwood.data.dataset import Judgments, refuse_repeated_positions
from rankwood.data.letor.blocks import PADDING, Block, Lines
from rankwood.data.letor.parse import widest_id
from rankwood.data.letor.text import (
    BLOCK_BYTES,
    BlockReader,
    first_return,
    make_grammar,
    refuse_nothing,
)
from rankwood.data.reading import LetorColumns, ReadOptions, tables_of
from rankwood.data.sources import (
    InputFile,
    Source,
    is_seekable,
    is_table,
    open_source,
    refuse_foreign_format,
    size_and_time,
)
from rankwood.data.table_files import TableSource
from rankwood.data.tables import Collector, Roles, names_of_features, narrowing_of
from rankwood.dtypes import ROW, Array, Features, Floats, Rows
from rankwood.errors import DataError, DataWarning, ParameterError, named

_ALL_LINES = 1 << 62
_CHUNK_VALUES = 1 << 21  # of a table: values converted at a time
_FILE_SHIFT = 40  # bits for the rows of a file, where a number stands for each row of all files

Progress = Callable[[int, int | None], None]


# Rows.


class Place(NamedTuple):
    """Where a row stands: its file, and the lines (LETOR text) or rows (tables) before it in the file."""

    file: int = 0
    skipped: int = 0


BEGIN = Place()


@dataclass
class StreamChunk:
    """Consecutive rows of one file. A run is a stretch of rows with one query id; without queries, every row is one."""

    file: int
    features: Features
    labels: Floats
    run_rows: Rows  # first row of each run
    run_places: Rows  # lines or rows before it in the file
    query_ids: Sequence[Any]  # of each run
    doc_ids: Array | None = None
    row_weights: Floats | None = None
    query_weights: Floats | None = None  # of each row
    positions: Array | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.labels)

    def split(self, run: int) -> tuple[StreamChunk, StreamChunk]:
        """The rows before a run, and the rows from it on."""
        row = int(self.run_rows[run])
        rows, runs = (slice(None, row), slice(row, None)), (slice(None, run), slice(run, None))
        shift = (0, row)
        before, after = (
            StreamChunk(
                self.file,
                self.features[rows[side]],
                self.labels[rows[side]],
                self.run_rows[runs[side]] - shift[side],
                self.run_places[runs[side]],
                self.query_ids[runs[side]],
                _sliced(self.doc_ids, rows[side]),
                _sliced(self.row_weights, rows[side]),
                _sliced(self.query_weights, rows[side]),
                _sliced(self.positions, rows[side]),
            )
            for side in (0, 1)
        )
        return before, after


def _sliced(array: Array | None, rows: slice) -> Array | None:
    return None if array is None else array[rows]


@dataclass
class Part:
    """Consecutive rows of whole queries. Without queries ``query_ids`` is None and ``sizes`` is empty."""

    features: Features
    labels: Floats
    query_ids: list[Any] | None
    sizes: Rows  # rows of each query
    places: Rows  # queries × 2: the place of the first row of each
    doc_ids: Array | None
    row_weights: Floats | None
    query_weights: Floats | None  # of each query
    begin: Place
    positions: Array | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.labels)


def joined(arrays: Sequence[Array]) -> Array:
    """Arrays of consecutive rows as one."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def joined_doc_ids(chunks: Sequence[StreamChunk]) -> Array | None:
    """The document ids of chunks; empty text for the rows of a chunk without."""
    if all(chunk.doc_ids is None for chunk in chunks):
        return None
    return joined(
        [
            np.full(chunk.n_rows, "", object) if chunk.doc_ids is None else chunk.doc_ids
            for chunk in chunks
        ]
    )


def join_chunks(
    chunks: list[StreamChunk], has_queries: bool, describe: Callable[[Place], str]
) -> Part:
    """One part of consecutive chunks. A query that comes again within the part is an error."""
    first = chunks[0]
    begin = Place(first.file, int(first.run_places[0]))
    row_weights = None
    if first.row_weights is not None:
        row_weights = joined(
            [chunk.row_weights for chunk in chunks if chunk.row_weights is not None]
        )
    features = joined([chunk.features for chunk in chunks])
    labels, doc_ids = joined([chunk.labels for chunk in chunks]), joined_doc_ids(chunks)
    if not has_queries:
        none = np.zeros(0, ROW)
        return Part(
            features, labels, None, none, none.reshape(0, 2), doc_ids, row_weights, None, begin
        )
    starts = np.cumsum([0, *(chunk.n_rows for chunk in chunks)])
    heads = np.concatenate(
        [chunk.run_rows + start for chunk, start in zip(chunks, starts, strict=False)]
    )
    places = np.concatenate(
        [
            np.column_stack([np.full(len(chunk.run_rows), chunk.file), chunk.run_places])
            for chunk in chunks
        ]
    ).astype(ROW)
    ids = [query for chunk in chunks for query in chunk.query_ids]
    returning = first_return(ids)
    if returning is not None:
        place = Place(*places[returning].tolist())
        raise returned(describe(place), ids[returning])
    is_new = np.array([True, *(one != other for one, other in zip(ids[1:], ids, strict=False))])
    heads = heads[is_new]
    weights = None
    if first.query_weights is not None:
        of_row = joined([c.query_weights for c in chunks if c.query_weights is not None])
        weights = of_row[heads]
        _refuse_two_weights(of_row, heads, places[is_new], describe)
    kept = [query for query, new in zip(ids, is_new.tolist(), strict=True) if new]
    sizes = np.diff(heads, append=len(labels))
    positions = _joined_positions(chunks, np.repeat(np.arange(sizes.size), sizes), describe)
    return Part(
        features,
        labels,
        kept,
        sizes,
        places[is_new],
        doc_ids,
        row_weights,
        weights,
        begin,
        positions,
    )


def _joined_positions(
    chunks: Sequence[StreamChunk], query_of_row: Rows, describe: Callable[[Place], str]
) -> Array | None:
    """The positions of chunks, each of which comes once in a list; None for data without."""
    parts = [chunk.positions for chunk in chunks if chunk.positions is not None]
    if not parts:
        return None
    positions = joined(parts)

    def place_of(row: int) -> str:
        starts = np.cumsum([0, *(chunk.n_rows for chunk in chunks)])
        number = int(np.searchsorted(starts, row, side="right")) - 1
        chunk, inside = chunks[number], row - int(starts[number])
        run = int(np.searchsorted(chunk.run_rows, inside, side="right")) - 1
        skipped = int(chunk.run_places[run]) + inside - int(chunk.run_rows[run])
        return f"{describe(Place(chunk.file, skipped))}: the position"

    refuse_repeated_positions(Judgments(np.empty(0), query_of_row, positions=positions), place_of)
    return positions


def returned(where: str, query: Any) -> DataError:
    """The error for a query whose rows are not together."""
    return DataError(
        f"{where}: query {query} comes again after rows of another query. Data on disk need the rows of a query "
        "together: sort the rows by query (files in the order of their names), then bin again."
    )


def _refuse_two_weights(
    of_row: Floats, heads: Rows, places: Rows, describe: Callable[[Place], str]
) -> None:
    query_of_row = np.repeat(np.arange(heads.size), np.diff(heads, append=of_row.size))
    differs = of_row != of_row[heads][query_of_row]
    if differs.any():
        query = int(query_of_row[np.argmax(differs)])
        where = describe(Place(*places[query].tolist()))
        raise DataError(
            f"{where}: the rows of this query have different weights. A query has one weight."
        )


@dataclass(frozen=True)
class Counted:
    """How many rows a stream has, and how many of them have a weight above 0."""

    n_rows: int
    n_weighted: int
    width: int  # features of a row in the files


# Chunks are cut into parts between queries.


def cut(chunks: Iterable[StreamChunk], n_rows: int) -> Iterator[list[StreamChunk]]:
    """Parts of ``n_rows`` rows plus those that complete the last query; the last part may have fewer."""
    kept: list[StreamChunk] = []
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


def _first_cut(chunk: StreamChunk, row: int, last: Hashable) -> int | None:
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

    def __init__(self, describe: Callable[[Place], str], strict: bool) -> None:
        self._describe = describe
        self._strict = strict
        self._seen: set[Hashable] = set()
        self._has_warned = False

    def check(self, part: Sequence[StreamChunk]) -> None:
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

    def _named(self, chunk: StreamChunk, run: int) -> str:
        """The first row of a run and its query."""
        where = self._describe(Place(chunk.file, int(chunk.run_places[run])))
        return f"{where}: query {chunk.query_ids[run]}"


# Streams.


class Stream:
    """Files that are read as one, in their order; see the module's docstring.

    Attributes
    ----------
    n_features, feature_names
        Known after ``count``; names are None where features are numbered.
    has_queries, has_row_weights, has_query_weights, has_positions
        Which columns there are.
    ids_have_types
        Whether ids are numbers or text as the files say. In LETOR text and CSV they are whole numbers if all of them
        are, so they are text here.
    """

    n_features: int
    feature_names: tuple[str, ...] | None = None
    has_queries = True
    has_row_weights = False
    has_query_weights = False
    has_positions = False
    ids_have_types = False

    def __init__(self, inputs: Sequence[InputFile], options: ReadOptions) -> None:
        self.inputs = list(inputs)
        self.options = options
        are_known = all(is_seekable(file.path) for file in self.inputs)
        self.sizes = [size_and_time(file.path)[0] for file in self.inputs] if are_known else []
        self._n_threads = threads.resolve_threads(options.n_threads)

    @property
    def n_bytes(self) -> int | None:
        """Bytes of all files; None for a pipe."""
        return sum(self.sizes) if self.sizes else None

    def count(self, progress: Progress | None = None) -> Counted:
        """Look through all files, and return how many rows they have."""
        raise NotImplementedError

    def chunks(
        self, begin: Place, progress: Progress | None, *, only_features: bool
    ) -> Iterator[StreamChunk]:
        """The rows from ``begin`` on, as the files yield them."""
        raise NotImplementedError

    def describe(self, place: Place) -> str:
        """How messages name a place."""
        raise NotImplementedError

    def parts(
        self, n_rows: int, begin: Place = BEGIN, progress: Progress | None = None
    ) -> Iterator[Part]:
        """Parts of ``n_rows`` rows, plus those that complete the last query; the last part may have fewer."""
        chunks = self.chunks(begin, progress, only_features=False)
        with contextlib.closing(chunks):  # type: ignore[type-var]
            for part in cut(chunks, n_rows):
                yield join_chunks(part, self.has_queries, self.describe)

    def features(
        self, lengths: Sequence[int], begin: Place = BEGIN, progress: Progress | None = None
    ) -> Iterator[Features]:
        """The features of consecutive parts that have these lengths, the first of them from ``begin`` on."""
        chunks = self.chunks(begin, progress, only_features=True)
        with contextlib.closing(chunks):  # type: ignore[type-var]
            left: Features = np.empty((0, self.n_features), np.float32)
            for length in lengths:
                kept, n_kept = [left], len(left)
                while n_kept < length:
                    chunk = next(chunks, None)
                    if chunk is None:
                        raise DataError(
                            "the files have fewer rows than when they were read first. Bin again."
                        )
                    kept.append(chunk.features)
                    n_kept += chunk.n_rows
                rows = joined(kept)
                left = rows[length:].copy()
                yield np.ascontiguousarray(rows[:length])

    def fix_width(self, width: int) -> None:
        """Take what ``count`` found in an earlier run: how many features the rows of the files have."""

    def warn_at_the_end(self) -> None:
        """Warn of what is known once all rows were read: columns that float32 cannot hold, text that is too narrow."""

    def _tell(self, progress: Progress | None, file: int, n_bytes: float) -> None:
        if progress is not None and self.sizes:
            progress(sum(self.sizes[:file]) + int(min(n_bytes, self.sizes[file])), self.n_bytes)
        elif progress is not None:
            progress(int(n_bytes), None)


def open_stream(inputs: Sequence[InputFile], options: ReadOptions) -> Stream:
    """The stream of files of one kind."""
    if is_table(inputs[0].path):
        return TableStream(inputs, options)
    for each in inputs:
        refuse_foreign_format(each.path)
    return LetorStream(inputs, options)


class LetorStream(Stream):
    """LETOR / SVMlight text, plain or compressed. Query ids are text here."""

    def __init__(self, inputs: Sequence[InputFile], options: ReadOptions) -> None:
        super().__init__(inputs, options)
        if options.position is not None:
            raise ParameterError(
                f"position={options.position!r}: LETOR text has no column of positions, and a file of any size is not "
                "taken apart. Write it as Parquet first: rankwood convert --position."
            )
        self._columns = LetorColumns(inputs, options)
        self._width: int | None = options.n_features  # of lines; None: each block has its own
        self._widest = 0  # of the lines so far
        if self._columns.width is not None:
            self.feature_names = self._columns.names(self._columns.width)

    def fix_width(self, width: int) -> None:
        """Read all lines as wide as the widest line of all files."""
        self._columns.check(width)
        self._width = width
        self.n_features = self._columns.of(np.empty((0, width), np.float32)).shape[1]
        self.feature_names = self._columns.names(width)

    def count(self, progress: Progress | None = None) -> Counted:
        """Count lines and find the largest feature id; lines that hold no document may be counted too."""
        n_rows, width = 0, self.options.n_features or 0
        for number, file in enumerate(self.inputs):
            limit = self._grammar(file, None).limit
            with open_source(file.path) as source:
                for block, length in source.line_blocks(BLOCK_BYTES, PADDING):
                    lines = Lines.of(block, length)
                    n_rows += lines.n_rows
                    if self.options.n_features is None:
                        widest = int(widest_id(lines.text, 0, length, limit, _ALL_LINES))
                        width = max(width, widest)
                    self._tell(progress, number, source.n_read)
        if width == 0:
            names = ", ".join(str(file.path) for file in self.inputs[:3])
            raise DataError(
                f"{names}: no features found. Expected lines as: label qid:ID id:value …"
            )
        self.fix_width(width)
        return Counted(n_rows, n_rows, width)

    def describe(self, place: Place) -> str:
        """The file and the line."""
        return f"{self.inputs[place.file].path}, line {place.skipped + 1}"

    def chunks(
        self,
        begin: Place,
        progress: Progress | None,
        *,
        only_features: bool,  # noqa: ARG002 - a line is parsed as a whole
    ) -> Iterator[StreamChunk]:
        """The rows of all files from ``begin`` on."""
        n_rows = 0
        for number in range(begin.file, len(self.inputs)):
            file = self.inputs[number]
            n_skipped = begin.skipped if number == begin.file else 0
            with open_source(file.path) as source:
                lines: Any = _WithoutFirstLines(source, n_skipped)
                reader = BlockReader(lines, self._grammar(file, self._width), self._n_threads, None)
                reader.n_lines = n_skipped
                for block in reader.blocks():
                    reader.memory.add(-block.n_rows, 0)
                    self._tell(progress, number, source.n_read)
                    if block.n_rows:
                        n_rows += block.n_rows
                        self._widest = max(self._widest, block.features.shape[1])
                        self._columns.check(self._widest, is_over=False)
                        yield _letor_chunk(number, block, self._columns.of(block.features))
            if begin == BEGIN and number == len(self.inputs) - 1:
                refuse_nothing(source, n_rows)

    def warn_at_the_end(self) -> None:
        """Warn, or raise, where the text has fewer features than the model that it is for."""
        if self._width is None:
            self._columns.check(self._widest)

    def _grammar(self, file: InputFile, width: int | None) -> Any:
        options = self.options
        return make_grammar(
            file.path, width, options.absent, options.order, overflow=options.overflow
        )


def _letor_chunk(file: int, block: Block, features: Features) -> StreamChunk:
    doc_ids = None
    if block.doc_ids:
        doc_ids = np.full(block.n_rows, "", object)
        doc_ids[block.doc_rows] = block.doc_ids
    return StreamChunk(
        file,
        features,
        block.labels,
        block.run_rows,
        block.run_lines,
        block.query_ids,
        doc_ids,
    )


class _WithoutFirstLines:
    """A source whose first lines are passed over without being parsed."""

    def __init__(self, source: Source, n_lines: int) -> None:
        self._source = source
        self._n_lines = n_lines

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def line_blocks(
        self, n_bytes: int, padding: int, spare: list[bytearray]
    ) -> Iterator[tuple[bytearray, int]]:
        """Blocks of whole lines, as ``Source.line_blocks`` yields them."""
        left = self._n_lines
        for block, length in self._source.line_blocks(n_bytes, padding, spare):
            n_lines = block.count(b"\n", 0, length) if left else 0
            if left and n_lines <= left:
                left -= n_lines
                spare.append(block)
                continue
            start = 0
            for _ in range(left):
                start = block.index(b"\n", start) + 1
            left = 0
            if start:
                block[: length - start] = block[start:length]
                block[length - start : length] = bytes(start)
            yield block, length - start


class TableStream(Stream):
    """Parquet, Arrow or CSV files with the same columns."""

    def __init__(self, inputs: Sequence[InputFile], options: ReadOptions) -> None:
        super().__init__(inputs, options)
        self._kind_of_ids: tuple[str, InputFile] | None = None
        self._narrowing: checks.Narrowing | None = None
        self._tables = tables_of(inputs, options)
        if self.sizes:  # no pipe, which can be opened once only
            self._tables.check()
            self._settle()

    @property
    def roles(self) -> Roles:
        """The role of each column."""
        return self._tables.roles

    def _settle(self) -> None:
        """Set what the columns of the first file tell."""
        roles = self.roles
        for name in [name for name, known in roles.categorical.items() if known is None]:
            raise ParameterError(
                f"column '{name}' is categorical, and its categories are known when all rows are read; these data are "
                f"read in parts. Read them whole, or leave it out: {named('drop', [name])}."
            )
        self.ids_have_types = self._tables.has_types
        self.n_features = len(roles.features)
        self.feature_names = names_of_features(roles)
        self.has_queries = roles.query is not None
        self.has_row_weights = roles.row_weight is not None
        self.has_query_weights = roles.query_weight is not None
        self.has_positions = roles.position is not None

    def describe(self, place: Place) -> str:
        """The file and the row."""
        return f"{self.inputs[place.file].path}, row {place.skipped + 1}"

    def count(self, progress: Progress | None = None) -> Counted:
        """Count the rows; only weights are read where the files say how many rows they have."""
        weights = [name for name in (self.roles.row_weight, self.roles.query_weight) if name]
        n_rows = n_weighted = 0
        for number in range(len(self.inputs)):
            with self._tables.opened(number, by_rows=True) as source:
                if source.n_rows is not None and not weights:
                    n_here = n_positive = source.n_rows
                else:
                    n_here, n_positive = self._count_file(number, source, weights, progress)
            n_rows += n_here
            n_weighted += n_positive
        return Counted(n_rows, n_weighted, self.n_features)

    def _count_file(
        self, number: int, source: TableSource, weights: list[str], progress: Progress | None
    ) -> tuple[int, int]:
        n_rows = n_weighted = 0
        columns = weights or self.roles.others[:1] or [self.roles.features[0]]
        for _, batch in self._tables.pieces(number, source, columns, []):
            n_rows += batch.num_rows
            is_weighted = np.ones(batch.num_rows, bool)
            for name in weights:
                is_weighted &= ~(batch.column(name).to_numpy(zero_copy_only=False) == 0)
            n_weighted += int(is_weighted.sum())
            self._tell(progress, number, self._bytes_read(source, n_rows, number))
        return n_rows, n_weighted

    def chunks(
        self, begin: Place, progress: Progress | None, *, only_features: bool
    ) -> Iterator[StreamChunk]:
        """The rows of all files from ``begin`` on."""
        n_rows = 0
        for number in range(begin.file, len(self.inputs)):
            n_skipped = begin.skipped if number == begin.file else 0
            with self._tables.opened(number, by_rows=True, first_row=n_skipped) as source:
                self._settle()
                roles = self.roles
                if only_features:
                    roles = Roles(None, None, None, None, None, None, roles.features)
                if self._narrowing is None:
                    self._narrowing = narrowing_of(roles)
                pieces = self._tables.pieces(number, source, roles.numbers, roles.texts)
                for first_row, batch in pieces:
                    n_passed = min(max(0, n_skipped - first_row), batch.num_rows)
                    rows = batch[n_passed:]
                    n_read = self._bytes_read(source, first_row + batch.num_rows, number)
                    self._tell(progress, number, n_read)
                    step = max(1, _CHUNK_VALUES // len(roles.features))
                    for start in range(0, rows.num_rows, step):
                        piece = rows[start : start + step]
                        n_rows += piece.num_rows
                        yield self._chunk(
                            number, first_row + n_passed + start, piece, roles, source.has_types
                        )
        if begin == BEGIN and n_rows == 0:
            raise DataError(f"{self.inputs[0].path}: there are no rows.")

    def warn_at_the_end(self) -> None:
        """Warn of columns that float32 cannot hold."""
        if self._narrowing is not None:
            self._narrowing.warn(self.roles.column)

    def _chunk(
        self, number: int, first_row: int, batch: Any, roles: Roles, has_types: bool
    ) -> StreamChunk:
        collector = Collector(roles, batch.num_rows, first_row=first_row, narrowing=self._narrowing)
        collector.add(first_row, batch)
        data = collector.finish(ids_are_text=not has_types)
        heads = np.arange(data.n_documents, dtype=ROW)
        first = (number << _FILE_SHIFT) + first_row
        ids: Sequence[Any] = range(first, first + data.n_documents)
        if data.query_ids is not None:
            of_row = data.query_ids if has_types else _as_text(data.query_ids)
            if has_types:
                self._refuse_other_ids(number, of_row)
            heads = np.flatnonzero(np.concatenate([[True], of_row[1:] != of_row[:-1]]))
            ids = of_row[heads].tolist()
        doc_ids = data.doc_ids
        if doc_ids is not None and not has_types:
            doc_ids = _as_text(doc_ids)
        weights = data.query_weights
        return StreamChunk(
            number,
            data.features,
            data.labels,
            heads,
            first_row + heads,
            ids,
            doc_ids,
            data.row_weights,
            None if weights is None else weights[data.query_of_row],
            data.positions,
        )

    def _bytes_read(self, source: TableSource, n_rows: int, number: int) -> float:
        if source.n_read is not None:
            return source.n_read()
        return self.sizes[number] * n_rows / source.n_rows if source.n_rows and self.sizes else 0

    def _refuse_other_ids(self, number: int, ids: Array) -> None:
        """Raise where one file identifies queries by text and another by numbers."""
        kind = "text" if ids.dtype == object else "whole numbers"
        if self._kind_of_ids is None:
            self._kind_of_ids = (kind, self.inputs[number])
        elif self._kind_of_ids[0] != kind:
            raise DataError(
                f"the query ids are {kind}, but {self._kind_of_ids[0]} in {self._kind_of_ids[1].path}. "
                "Use one type in all files."
            )


def _as_text(ids: Array) -> Array:
    """Ids of an untyped file as text: whether all of them are whole numbers is known only at the end."""
    texts = np.empty(ids.size, object)
    texts[:] = [str(value) for value in ids.tolist()]
    return texts
