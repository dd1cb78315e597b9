"""``read_letor`` and ``write_letor``: LETOR / SVMlight text, ``label qid:ID id:value … # comment``.

Reading has three levels. ``BlockReader`` here hands blocks of lines to threads and restores the order of the file;
``blocks`` parses one block; ``parse`` has the kernels over its rows and tokens. The parsed blocks are joined into one
``RankingData``. Files above ``cache.CACHE_FROM_BYTES`` are read through the binary cache.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Literal

import numpy as np

from rankwood._core import checks, threads
from rankwood._core.memory import memory_of_machine
from rankwood.data import cache as store
from rankwood.data.dataset import RankingData
from rankwood.data.letor.blocks import (
    PADDING,
    Block,
    Destination,
    Grammar,
    LineError,
    Lines,
    MemoryLimit,
    parse_block,
)
from rankwood.data.letor.write import line_blocks
from rankwood.data.sources import (
    PathLike,
    Source,
    display_name,
    is_regular_file,
    open_sink,
    open_source,
)
from rankwood.dtypes import Array
from rankwood.errors import DataError, DataWarning

Progress = Callable[[int, int | None], None]

_ABSENT = {"zero": 0.0, "missing": float("nan")}
_ORDERS = ("ascending", "any")
MAX_FEATURES = 100_000  # a larger feature id is assumed to be a mistake

log = logging.getLogger(__name__)

BLOCK_BYTES = 1 << 22
_EXPECTED = "Expected lines as: label qid:ID id:value …"
_LEAST_BLOCK_BYTES = 1 << 18  # half a millisecond of parsing


def read_letor(
    path: PathLike,
    *,
    n_features: int | None = None,
    absent: Literal["zero", "missing"] = "zero",
    order: Literal["ascending", "any"] = "ascending",
    strict: bool = False,
    cache: bool | None = None,
    verify: bool = False,
    max_features: int = MAX_FEATURES,
    n_threads: int | None = None,
    progress: Progress | None = None,
) -> RankingData:
    """Ranking data from LETOR / SVMlight text.

    Parameters
    ----------
    path
        A file, plain or compressed (gzip, zstd, bzip2), a named pipe, or ``-`` for standard input.
    n_features
        Number of columns; a larger feature id is then an error. By default the file's largest id.
    absent
        What a feature is that a row does not mention: ``"zero"`` or ``"missing"`` (NaN).
    order
        ``"ascending"`` refuses rows whose feature ids do not ascend; ``"any"`` takes them.
    strict
        Refuse a query whose rows are separated by another query, instead of warning.
    cache
        Keep a binary copy in the user's cache folder, and use it. By default for large files only.
    verify
        Compare the whole file with the one the binary copy was made from.
    max_features
        A larger feature id is an error: it is assumed to be a mistake.
    n_threads
        Threads that parse; by default all cores.
    progress
        Called now and then with the bytes read so far and the bytes of the file, None if unknown.

    Query ids become int64 if all of them are whole numbers, else text. Document ids are taken from
    comments that hold ``docid = X``; a row without one gets an empty id if another row has one.
    The result, or the error raised, is the same for any number of threads.
    """
    grammar = make_grammar(path, n_features, absent, order, max_features)
    n_threads = threads.resolve_threads(n_threads)

    def parse() -> RankingData:
        return parse_file(path, grammar, strict, n_threads, progress)

    if not _is_cached(path, cache):
        return parse()
    return _read_through_cache(Path(path), grammar, strict, verify, parse)


def write_letor(data: RankingData, path: PathLike, *, skip_zeros: bool = False) -> None:
    """Write LETOR / SVMlight text that reads back as the same data.

    Parameters
    ----------
    data
        What to write; it needs query ids. Feature names and weights have no place in the format.
    path
        The file, compressed if its name ends in ``.gz``, ``.zst`` or ``.bz2``; ``-`` is standard
        output. It appears when it is complete; until then an older file stays.
    skip_zeros
        Leave features out that are 0. The last feature of the first row is written all the same, so
        that the number of features is kept.
    """
    for name in ("row_weights", "query_weights"):
        if getattr(data, name) is not None:
            message = (
                f"{name} have no place in LETOR text and are not written to {os.fspath(path)}."
            )
            warnings.warn(message, DataWarning, stacklevel=2)
    if data.feature_names is not None:
        log.info("LETOR text numbers its features: names are not written to %s", path)
    blocks = line_blocks(data, skip_zeros)
    first = next(blocks, b"")  # raises before the file is touched if the data cannot be written
    with open_sink(path) as sink:
        sink.write(first)
        for block in blocks:
            sink.write(block)


def make_grammar(
    path: PathLike,
    n_features: int | None,
    absent: str,
    order: str,
    max_features: int = MAX_FEATURES,
) -> Grammar:
    """The options of ``read_letor`` that govern parsing, checked."""
    return Grammar(
        name=display_name(path),
        absent=_ABSENT[checks.one_of("absent", absent, _ABSENT)],
        any_order=checks.one_of("order", order, _ORDERS) == "any",
        n_features=None if n_features is None else checks.whole_number("n_features", n_features, 1),
        max_features=checks.whole_number("max_features", max_features, 1),
    )


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
            f"{source.name}, line {line}: query {_first_returning(data)} comes again after rows of "
            "another query. Put the rows of a query together, or read without strict."
        )
    if line is not None:
        warn_of_separated(source.name, data)
    return data


def _is_cached(path: PathLike, cache: bool | None) -> bool:
    if cache is False or not is_regular_file(path):
        return False
    return cache is True or os.stat(path).st_size >= store.CACHE_FROM_BYTES


def _read_through_cache(
    path: Path, grammar: Grammar, strict: bool, verify: bool, parse: Callable[[], RankingData]
) -> RankingData:
    options = {
        "format": "letor",
        "absent": str(grammar.absent),
        "any_order": grammar.any_order,
        "n_features": grammar.n_features,
        "max_features": grammar.max_features,
    }
    was_parsed = False

    def read() -> RankingData:
        nonlocal was_parsed
        was_parsed = True
        return parse()

    data = store.cached(path, options, read, verify=verify)
    if not was_parsed and data.grouping.n_separated:
        if strict:
            parse()  # raises the error, with the line
        warn_of_separated(grammar.name, data)
    return data


class BlockReader:
    """Reads blocks of lines, parses them on threads, and yields them in the order of the file.

    With a ``destination`` they are parsed into one table of the whole file; without, each has a
    table of its own. ``memory`` counts the rows of blocks until the caller subtracts them.
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
        """Parse the whole file; the error raised is the first of the file, for any number of threads."""
        try:
            for lines in self._read():
                self._start(lines)
                is_first = not self.n_finished  # the size of the table is estimated from it
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
        except DataError as error:  # blocks read before it may hold an earlier error
            self.failure = error

    def _block_bytes(self) -> int:
        """A size that gives every thread some blocks, but not below the least size."""
        n_bytes = self.source.n_text_bytes
        if n_bytes is None:
            return BLOCK_BYTES
        return min(BLOCK_BYTES, max(_LEAST_BLOCK_BYTES, n_bytes // (2 * self.n_threads) + 1))

    def _start(self, lines: Lines) -> None:
        table = self.destination.take(lines.n_rows)
        arguments = (lines, self.grammar, self.memory, table, self.width)
        self.running.append((lines, threads.submit(self.n_threads, parse_block, *arguments)))

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
        block.run_lines += self.n_lines  # now lines of the file
        self.n_lines += block.n_lines
        self.width = max(self.width, block.features.shape[1])
        return block


def refuse_nothing(source: Source, n_rows: int) -> None:
    """Raise for a file that was read to its end and held no documents."""
    if source.n_read == 0:
        raise DataError(f"{source.name} is empty. {_EXPECTED}")
    if n_rows == 0:
        raise DataError(f"{source.name} holds no documents, only blanks and comments. {_EXPECTED}")


def join_blocks(blocks: list[Block], destination: Destination, absent: float) -> RankingData:
    """The data of consecutive blocks; ``blocks`` is emptied."""
    query_ids, doc_ids = _join_query_ids(blocks), _join_doc_ids(blocks)
    labels = np.concatenate([block.labels for block in blocks])
    return RankingData(destination.join(blocks, absent), labels, query_ids, doc_ids)


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


def first_return(queries: Iterable[Hashable]) -> int | None:
    """The index of the first query that comes again after another query, or None."""
    last: Hashable = None
    seen: set[Hashable] = set()
    for index, query in enumerate(queries):
        if query != last and query in seen:
            return index
        seen.add(query)
        last = query
    return None


def _line_of_first_return(blocks: list[Block]) -> int | None:
    """The first line, from 1, whose query comes again after another query, or None."""
    run = first_return(query for block in blocks for query in block.query_ids)
    return None if run is None else int(np.concatenate([b.run_lines for b in blocks])[run]) + 1


def _first_returning(data: RankingData) -> object:
    """The id of the first query that comes again after another query."""
    queries = [] if data.query_ids is None else data.query_ids.tolist()
    row = first_return(queries)
    return None if row is None else queries[row]


def warn_of_separated(name: str, data: RankingData) -> None:
    """Warn of queries whose rows are separated by another query."""
    n_separated = data.grouping.n_separated
    queries = "1 query has" if n_separated == 1 else f"{n_separated:,} queries have"
    warnings.warn(
        f"{name}: {queries} rows separated by rows of another query, for example query "
        f"{_first_returning(data)}. They are grouped; if an id was used for two different queries, "
        "make the ids differ.",
        DataWarning,
        stacklevel=5,
    )
