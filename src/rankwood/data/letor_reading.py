"""A LETOR file from end to end: read in blocks, parsed by threads, joined in the file's order."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import numpy as np

from rankwood import _threads
from rankwood.data.dataset import RankingData
from rankwood.data.letor_blocks import (
    PADDING,
    Block,
    Destination,
    Grammar,
    Lines,
    MemoryLimit,
    parse_block,
)
from rankwood.data.letor_messages import LineError
from rankwood.data.memory import memory_of_machine
from rankwood.data.sources import PathLike, Source, open_source
from rankwood.dtypes import Array
from rankwood.errors import DataError, DataWarning

Progress = Callable[[int, int | None], None]

BLOCK_BYTES = 1 << 22
_EXPECTED = "Expected lines as: label qid:ID id:value …"
_LEAST_BLOCK_BYTES = 1 << 18  # half a millisecond of parsing; not tuned


def parse_file(
    path: PathLike, grammar: Grammar, strict: bool, n_threads: int, progress: Progress | None
) -> RankingData:
    """The data of a file, without the binary cache."""
    with open_source(path) as source:
        reader = BlockReader(source, grammar, n_threads, progress, Destination())
        blocks = list(reader.blocks())
    refuse_nothing(source, sum(len(block.labels) for block in blocks))
    if not any(block.features.shape[1] for block in blocks):
        raise DataError(f"{source.name} holds no features. {_EXPECTED}")
    line = _line_of_first_return(blocks)
    data = join_blocks(blocks, reader.destination, grammar.absent)
    if line is not None and strict:
        raise DataError(
            f"{source.name}, line {line}: query {_first_return(data)} comes again after rows of "
            "another query. Put the rows of a query together, or read without strict."
        )
    if line is not None:
        warn_of_separated(source.name, data)
    return data


def refuse_nothing(source: Source, n_rows: int) -> None:
    """Raise for a file that was read to its end and held no documents."""
    if source.n_read == 0:
        raise DataError(f"{source.name} is empty. {_EXPECTED}")
    if n_rows == 0:
        raise DataError(f"{source.name} holds no documents, only blanks and comments. {_EXPECTED}")


def join_blocks(blocks: list[Block], destination: Destination, absent: float) -> RankingData:
    """The data of consecutive blocks, which are used up."""
    query_ids, doc_ids = _join_query_ids(blocks), _join_doc_ids(blocks)
    labels = np.concatenate([block.labels for block in blocks])
    return RankingData(destination.join(blocks, absent), labels, query_ids, doc_ids)


class BlockReader:
    """Blocks on their way from the file, through the threads, into the order of the file.

    With a ``destination`` they are parsed into one table of the whole file; without, each has a
    table of its own. ``memory`` counts the rows of blocks until whoever takes them gives them back.
    """

    def __init__(
        self,
        source: Source,
        grammar: Grammar,
        n_threads: int,
        progress: Progress | None,
        destination: Destination | None = None,
    ) -> None:
        self.source = source
        self.grammar = grammar
        self.n_threads = n_threads
        self.progress = progress
        self.is_whole = destination is not None
        self.destination = destination or Destination()
        self.memory = MemoryLimit(source.name, memory_of_machine())
        self.running: deque[tuple[Lines, Future[Block]]] = deque()
        self.spare: list[bytearray] = []
        self.n_finished = 0
        self.n_lines = 0
        self.width = 0
        self.failure: DataError | None = None

    def blocks(self) -> Iterator[Block]:
        """Parse the whole file; the error raised is the first of the file, whatever the threads."""
        try:
            for lines in self._read():
                self._start(lines)
                is_first = not self.n_finished  # it tells how large the table will be
                if is_first or len(self.running) > self.n_threads:
                    yield self._finish_one()
            while self.running:
                yield self._finish_one()
        finally:
            for _, future in self.running:
                future.cancel()
        if self.failure is not None:
            raise self.failure

    def _read(self) -> Iterator[Lines]:
        source = self.source
        try:
            for block, length in source.line_blocks(self._block_bytes(), PADDING, self.spare):
                yield Lines.of(block, length)
                if self.progress is not None:
                    self.progress(source.n_read, source.n_bytes)
        except DataError as error:  # what was read before may hold an error that comes first
            self.failure = error

    def _block_bytes(self) -> int:
        """Small enough for every thread to get some, large enough to be worth handing out."""
        n_bytes = self.source.n_text_bytes
        if n_bytes is None:
            return BLOCK_BYTES
        return min(BLOCK_BYTES, max(_LEAST_BLOCK_BYTES, n_bytes // (2 * self.n_threads) + 1))

    def _start(self, lines: Lines) -> None:
        table = self.destination.take(lines.n_rows)
        arguments = (lines, self.grammar, self.memory, table, self.width)
        self.running.append((lines, _threads.submit(self.n_threads, parse_block, *arguments)))

    def _finish_one(self) -> Block:
        lines, future = self.running.popleft()
        try:
            block: Block = future.result()
        except LineError as error:
            raise DataError(error.at(self.source.name, self.n_lines)) from None
        if self.is_whole and not self.n_finished:
            self.destination.prepare(block, lines.length, self.source.n_text_bytes)
        self.n_finished += 1
        self.spare.append(lines.block)
        self.memory.add(len(block.labels) - lines.n_rows, 0)
        block.run_lines += self.n_lines  # from here on, lines of the file
        self.n_lines += block.n_lines
        self.width = max(self.width, block.features.shape[1])
        return block


def _join_query_ids(blocks: list[Block]) -> Array:
    texts = [query for block in blocks for query in block.query_ids]
    lengths = [np.diff(block.run_rows, append=len(block.labels)) for block in blocks]
    if all(block.has_integer_ids for block in blocks):
        ids: Array = np.array([int(text) for text in texts], np.int64)
    else:
        ids = np.array(texts, object)
    return np.repeat(ids, np.concatenate(lengths))


def _join_doc_ids(blocks: list[Block]) -> Array | None:
    if not any(block.doc_ids for block in blocks):
        return None
    joined = np.full(sum(len(block.labels) for block in blocks), "", object)
    first = 0
    for block in blocks:
        joined[first + block.doc_rows] = block.doc_ids
        first += len(block.labels)
    return joined


def _line_of_first_return(blocks: list[Block]) -> int | None:
    """The first line whose query was left before for another one, if there is such a line."""
    last: str | None = None
    seen: set[str] = set()
    for block in blocks:
        for query, line in zip(block.query_ids, block.run_lines.tolist(), strict=True):
            if query != last and query in seen:
                return int(line) + 1
            seen.add(query)
            last = query
    return None


def _first_return(data: RankingData) -> object:
    """The id of the first query whose rows are separated by another query's."""
    seen: set[object] = set()
    last: object = None
    for query in [] if data.query_ids is None else data.query_ids.tolist():
        if query != last and query in seen:
            return query
        seen.add(query)
        last = query
    return None


def warn_of_separated(name: str, data: RankingData) -> None:
    """Warn that queries were put together from separated rows."""
    n_separated = data.grouping.n_separated
    queries = "1 query has" if n_separated == 1 else f"{n_separated:,} queries have"
    warnings.warn(
        f"{name}: {queries} rows separated by rows of another query, for example query "
        f"{_first_return(data)}. They are grouped; if an id was used for two different queries, "
        "make the ids differ.",
        DataWarning,
        stacklevel=5,
    )
