"""``read_letor`` and ``write_letor``: LETOR / SVMlight text, ``label qid:ID id:value … # comment``.

Reading has three levels. ``BlockReader`` here hands blocks of lines to threads and restores the order of the file;
``blocks`` parses one block; ``parse`` has the kernels over its rows and tokens. The parsed blocks are joined into one
``RankingData``. Files above ``cache.CACHE_FROM_BYTES`` are read through the binary cache.

Writing formats blocks of rows on threads. Arrow formats the values of a block, Python its labels and ids, and the
kernel ``write_rows`` joins the texts to lines. A list of texts is passed to the kernel as two arrays: text ``t`` is
``pieces[offsets[t] : offsets[t + 1]]``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import re
import threading
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rankwood import dtypes
from rankwood._core import checks, threads
from rankwood._core.jit import kernel
from rankwood.data import cache as store
from rankwood.data.categories import refuse
from rankwood.data.dataset import FilePart, RankingData, refuse_repeated_positions, stacked
from rankwood.data.letor.blocks import (
    PADDING,
    Block,
    Destination,
    Grammar,
    LineError,
    Lines,
    MemoryLimit,
    excerpt,
    parse_block,
)
from rankwood.data.sources import (
    PathLike,
    Paths,
    Source,
    display_name,
    find_inputs,
    is_regular_file,
    memory_of_machine,
    open_sink,
    open_source,
    size_and_time,
)
from rankwood.dtypes import POSITION, Array, Bytes, Features, Floats, Rows
from rankwood.errors import DataError, DataWarning, ParameterError, counted

Progress = Callable[[int, int | None], None]

_ABSENT = {"zero": 0.0, "missing": float("nan")}
_ORDERS = ("ascending", "any")
_OVERFLOW = {"error": None, "missing": float("nan")}
MAX_FEATURES = 100_000  # a larger feature id is assumed to be a mistake

log = logging.getLogger(__name__)

BLOCK_BYTES = 1 << 22
_EXPECTED = "Expected lines as: label qid:ID id:value …"
_LEAST_BLOCK_BYTES = 1 << 18  # half a millisecond of parsing
_BLOCKS_PER_THREAD = (
    4  # of a file that is not large: enough that no thread waits long for the last one
)


def read_letor(
    path: Paths,
    *,
    n_features: int | None = None,
    absent: Literal["zero", "missing"] = "zero",
    order: Literal["ascending", "any"] = "ascending",
    strict: bool = False,
    cache: bool | None = None,
    verify: bool = False,
    max_features: int = MAX_FEATURES,
    overflow: Literal["error", "missing"] = "error",
    position: int | None = None,
    n_threads: int | None = None,
    progress: Progress | None = None,
) -> RankingData:
    """Ranking data from LETOR / SVMlight text.

    Parameters
    ----------
    path
        A file, plain or compressed (gzip, zstd, bzip2), a named pipe, or ``-`` for standard input; a pattern such as
        ``day-*.txt.gz``, a folder, or a list of these, which are read as one file. ``s3://``, ``gs://`` and the like
        are read through pyarrow's file systems.
    n_features
        Number of columns; a larger feature id is then an error. By default the largest id there is.
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
    overflow
        What a value beyond float32's range of ±3.4e38 is: an ``"error"``, or ``"missing"`` (NaN).
        Istella's collections write 1.79e308 for values that are not known.
    position
        For click logs: the number of the feature that holds the position at which each document was
        shown. It is taken out of the features; the others keep their numbers as names.
    n_threads
        Threads that parse; by default all cores.
    progress
        Called now and then with the bytes read so far and the bytes of the file, None if unknown.

    Query ids become int64 if all of them are whole numbers, else text. Document ids are taken from
    comments that hold ``docid = X``; a row without one gets an empty id if another row has one.
    The result, or the error raised, is the same for any number of threads.
    """
    n_threads = threads.resolve_threads(n_threads)

    def read(path: PathLike, progress: Progress | None) -> RankingData:
        grammar = make_grammar(path, n_features, absent, order, max_features, overflow)

        def parse() -> RankingData:
            return parse_file(path, grammar, strict, n_threads, progress)

        if not _is_cached(path, cache):
            return parse()
        return _read_through_cache(Path(path), grammar, strict, verify, parse)

    paths = [file.path for file in find_inputs(path)]
    if len(paths) == 1:
        data = read(paths[0], progress)
        return data if position is None else with_positions(data, position, display_name(paths[0]))
    sizes = [size_and_time(path)[0] for path in paths]
    parts = [
        FilePart(str(path), read(path, _within(progress, sum(sizes[:number]), sum(sizes))))
        for number, path in enumerate(paths)
    ]
    names, ends = [part.name for part in parts], np.cumsum([len(part.data) for part in parts])
    data = stacked(parts, absent=_ABSENT[absent])
    _report_query_of_two_files(data, names, ends.tolist(), strict)
    return data if position is None else with_positions(data, position, names[0])


def with_positions(data: RankingData, position: Any, name: str, first_row: int = 0) -> RankingData:
    """The data with one of their features, by its number, as positions; ``name`` is the file's in messages."""
    try:
        number = int(position)
    except ValueError:
        raise ParameterError(
            f"{name}: position must be the number of a feature in LETOR text, got '{position}'."
        ) from None
    checks.whole_number("position", number, 1, data.n_features)
    values = np.asarray(data.features[:, number - 1], np.float64)
    is_wrong = checks.wrong_positions(values)
    if (row := checks.first_true(is_wrong)) is not None:
        said = checks.said_of_position(float(values[row]))
        raise DataError(f"{name}, row {first_row + row + 1}: feature {number} is {said}")
    positions = checks.read_only(values.astype(POSITION))
    judgments = dataclasses.replace(data.judgments, positions=positions)
    refuse_repeated_positions(
        judgments, lambda row: f"{name}, row {first_row + row + 1}: feature {number}"
    )
    others = [column for column in range(data.n_features) if column != number - 1]
    if not others:
        raise DataError(f"{name}: there are no features but the position.")
    features = np.ascontiguousarray(data.features[:, others])
    names = tuple(data.names[column] for column in others)
    return RankingData.from_judgments(
        checks.read_only(features), judgments, None if number == data.n_features else names
    )


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
    for name in ("row_weights", "query_weights", "positions"):
        if getattr(data, name) is not None:
            message = (
                f"{name} have no place in LETOR text and are not written to {os.fspath(path)}."
            )
            warnings.warn(message, DataWarning, stacklevel=2)
    refuse(data.categorical, data.names, "LETOR text")
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
    overflow: str = "error",
) -> Grammar:
    """The options of ``read_letor`` that govern parsing, checked."""
    return Grammar(
        name=display_name(path),
        absent=_ABSENT[checks.one_of("absent", absent, _ABSENT)],
        any_order=checks.one_of("order", order, _ORDERS) == "any",
        n_features=None if n_features is None else checks.whole_number("n_features", n_features, 1),
        max_features=checks.whole_number("max_features", max_features, 1),
        overflow=_OVERFLOW[checks.one_of("overflow", overflow, _OVERFLOW)],
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


def _within(progress: Progress | None, n_before: int, n_bytes: int) -> Progress | None:
    """Progress in one of several files, after so many bytes of others and of so many in all."""
    if progress is None:
        return None
    return lambda n_read, _: progress(n_before + n_read, n_bytes)


def _report_query_of_two_files(
    data: RankingData, names: Sequence[str], ends: Sequence[int], strict: bool
) -> None:
    """Warn of a query that comes again in a later file, or raise; it may go on from one file in the next."""
    numbers = data.query_of_row  # by first appearance
    for name, start, end in zip(names[1:], ends, ends[1:], strict=False):
        later = np.unique(numbers[start:end])
        again = later[(later < numbers[:start].max() + 1) & (later != numbers[start - 1])]
        if again.size:
            what = f"{name}: query {data.queries.tolist()[int(again[0])]} was in an earlier file already"
            if strict:
                raise DataError(
                    f"{what}. Put the rows of a query together, or read without strict."
                )
            warnings.warn(
                f"{what}; {counted(again.size, 'query')} of this file in all. They are grouped; if an id was used for "
                "two different queries, make the ids differ.",
                DataWarning,
                stacklevel=4,
            )
            return


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
        **({} if grammar.overflow is None else {"overflow": "missing"}),
    }
    was_parsed = False

    def read() -> RankingData:
        nonlocal was_parsed
        was_parsed = True
        return parse()

    data = store.cached(path, options, read, verify=verify)
    data = data.with_absent(name_of_absent(grammar.absent))
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
        self.running: deque[Future[tuple[Lines, Block]]] = deque()
        self.turns = _Turns()
        self.spare: list[bytearray] = []
        self.n_finished = 0
        self.n_lines = 0
        self.width = 0
        self.failure: DataError | None = None

    def blocks(self) -> Iterator[Block]:
        """Parse the whole file; the error raised is the first of the file, for any number of threads."""
        try:
            for block, length in self._read():
                self._start(block, length)
                is_first = not self.n_finished  # the size of the table is estimated from it
                if is_first or len(self.running) > self.n_threads:
                    yield self._finish_one()
            while self.running:
                yield self._finish_one()
        finally:
            self.turns.abandon()
            for future in self.running:
                future.cancel()
        if self.failure is not None:
            raise self.failure

    def _read(self) -> Iterator[tuple[bytearray, int]]:
        source = self.source
        try:
            for block, length in source.line_blocks(self._block_bytes(), PADDING, self.spare):
                yield block, length
                if self.progress is not None:
                    self.progress(source.n_read, source.n_bytes)
        except DataError as error:  # blocks read before it may hold an earlier error
            self.failure = error

    def _block_bytes(self) -> int:
        """A size that gives every thread some blocks, but not below the least size."""
        n_bytes = self.source.n_text_bytes
        if n_bytes is None:
            return BLOCK_BYTES
        per_thread = n_bytes // (_BLOCKS_PER_THREAD * self.n_threads) + 1
        return min(BLOCK_BYTES, max(_LEAST_BLOCK_BYTES, per_thread))

    def _start(self, block: bytearray, length: int) -> None:
        number = self.n_finished + len(self.running)
        arguments = (number, block, length, self.width)
        self.running.append(threads.submit(self.n_threads, self._parse, *arguments))

    def _parse(self, number: int, block: bytearray, length: int, width: int) -> tuple[Lines, Block]:
        """Parse a block, on a thread; its rows of the table follow those of the blocks before it."""
        lines = Lines.of(block, length)
        with self.turns.of(number):
            table = self.destination.take(lines.n_rows)
        return lines, parse_block(lines, self.grammar, self.memory, table, width)

    def _finish_one(self) -> Block:
        future = self.running.popleft()
        try:
            lines, block = future.result()
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


class _Turns:
    """Lets threads do something in the order of their numbers, from 0.

    A thread only waits for smaller numbers. It is therefore enough that work is begun in their order, as a pool does,
    and that ``abandon`` is called if some of it is never begun.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._next = 0
        self._is_abandoned = False

    @contextlib.contextmanager
    def of(self, number: int) -> Iterator[None]:
        """Wait for the turn of ``number``; it ends with the block."""
        with self._changed:
            self._changed.wait_for(lambda: self._next == number or self._is_abandoned)
            try:
                yield
            finally:
                self._next = number + 1
                self._changed.notify_all()

    def abandon(self) -> None:
        """Let nobody wait any longer: what is still running is not looked at."""
        with self._changed:
            self._is_abandoned = True
            self._changed.notify_all()


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
    data = RankingData(destination.join(blocks, absent), labels, query_ids, doc_ids)
    return data.with_absent(name_of_absent(absent))


def name_of_absent(absent: float) -> str:
    """The name of a value of features that a row does not mention."""
    return "missing" if absent != absent else "zero"  # noqa: PLR0124 - NaN


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


_BLOCK_VALUES = 1 << 19  # about 5 MB of text
_UNREADABLE_QUERY = re.compile("[ \t\r\n\0#]")
_UNREADABLE_DOCUMENT = re.compile("[ \t\r\n\0]")  # within a comment, # has no meaning
_FIXED_BYTES = len(" qid:") + len(" # docid = ") + len("\n")

_QUERY = np.frombuffer(b" qid:", np.uint8)
_DOCUMENT = np.frombuffer(b" # docid = ", np.uint8)


def line_blocks(data: RankingData, skip_zeros: bool) -> Iterator[memoryview]:
    """The lines of ``data``, in order, a few thousand at a time."""
    if data.query_ids is None:
        raise DataError(
            "LETOR text needs query ids, and these data have none. Make them with query_ids=."
        )
    _check_ids("query", data.queries, _UNREADABLE_QUERY)
    if data.doc_ids is not None:
        _check_ids("document", data.doc_ids, _UNREADABLE_DOCUMENT)
    ids = _texts(f" {number}:" for number in range(1, data.n_features + 1))
    n_rows = max(1, _BLOCK_VALUES // max(1, data.n_features))
    n_threads = threads.resolve_threads()
    running: deque[Future[memoryview]] = deque()
    try:
        for first in range(0, data.n_documents, n_rows):
            part = slice(first, first + n_rows)
            running.append(threads.submit(n_threads, _lines, data, part, ids, skip_zeros))
            if len(running) > n_threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()


def _check_ids(kind: str, ids: Array, unreadable: re.Pattern[str]) -> None:
    """Raise for ids that could not be read back; an empty document id means that there is none."""
    if ids.dtype.kind in "iu":
        return
    for number, value in enumerate(ids.tolist()):
        text = str(value)
        if not text and kind == "query":
            raise DataError(
                f"{kind} id number {number} is empty; LETOR text cannot hold it. Rename it."
            )
        match = unreadable.search(text)
        if match or not checks.is_unicode(text):
            what = (
                f"the character {excerpt(match[0].encode())}"
                if match
                else "characters that are not Unicode"
            )
            raise DataError(
                f"{kind} id {excerpt(text.encode('utf-8', 'backslashreplace'))} holds {what}, "
                "which LETOR text cannot hold there. Rename it."
            )


def _lines(data: RankingData, part: slice, ids: _Texts, skip_zeros: bool) -> memoryview:
    features = data.features[part]
    labels, label_of_row = _label_texts(data.labels[part])
    queries, query_of_row = _query_texts(data.query_ids[part])  # type: ignore[index]
    values = _value_texts(features)
    docs = _texts("" if data.doc_ids is None else str(doc) for doc in _docs(data, part))
    n_bytes_of_row = len(ids.pieces) + labels.longest + queries.longest + _FIXED_BYTES
    out = np.empty(
        len(features) * n_bytes_of_row + len(values.pieces) + len(docs.pieces), dtypes.TEXT
    )
    whole_rows = 1 if part.start == 0 else 0
    length = write_rows(
        label_of_row,
        *labels,
        query_of_row,
        *queries,
        *ids,
        *values,
        *docs,
        skip_zeros,
        whole_rows,
        out,
    )
    return memoryview(out)[:length]  # type: ignore[arg-type]


def _docs(data: RankingData, part: slice) -> Iterable[object]:
    return (
        range(*part.indices(data.n_documents))
        if data.doc_ids is None
        else data.doc_ids[part].tolist()
    )


class _Texts(NamedTuple):
    """A list of texts as two arrays for the kernel."""

    offsets: Rows
    pieces: Bytes

    @property
    def longest(self) -> int:
        return int(np.diff(self.offsets).max(initial=0))


def _texts(texts: Iterable[str]) -> _Texts:
    pieces = [text.encode() for text in texts]
    offsets = np.zeros(len(pieces) + 1, dtypes.ROW)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    joined = np.frombuffer(b"".join(pieces), dtypes.TEXT)
    return _Texts(checks.read_only(offsets), checks.read_only(joined))


def _label_texts(labels: Floats) -> tuple[_Texts, Rows]:
    """The text of each distinct label, and the index of each row's label; -0 and 0 are distinct."""
    bits, label_of_row = np.unique(labels.view(np.int64), return_inverse=True)
    texts = _texts(repr(label).removesuffix(".0") for label in bits.view(dtypes.LABEL).tolist())
    return texts, checks.read_only(label_of_row.astype(dtypes.ROW))


def _query_texts(query_ids: Array) -> tuple[_Texts, Rows]:
    """The text of each run of equal query ids, and the run of each row."""
    is_head = np.ones(len(query_ids), bool)
    is_head[1:] = query_ids[1:] != query_ids[:-1]
    run_of_row = (np.cumsum(is_head) - 1).astype(dtypes.ROW)
    return _texts(str(query) for query in query_ids[is_head].tolist()), checks.read_only(run_of_row)


def _value_texts(features: Features) -> _Texts:
    """The shortest text of each value that reads back as the same float32."""
    import pyarrow
    import pyarrow.compute

    values = pyarrow.array(features.ravel(), from_pandas=False)
    texts = pyarrow.compute.cast(values, pyarrow.string())
    _, offsets, pieces = texts.buffers()
    offsets = (
        np.frombuffer(offsets, np.int32, len(values) + 1) if len(values) else np.zeros(1, np.int32)
    )
    return _Texts(
        checks.read_only(offsets.astype(dtypes.ROW)),
        checks.read_only(np.frombuffer(pieces if pieces is not None else b"", dtypes.TEXT)),
    )


@kernel
def write_rows(
    label_of_row: Rows,
    label_offsets: Rows,
    label_pieces: Bytes,
    query_of_row: Rows,
    query_offsets: Rows,
    query_pieces: Bytes,
    id_offsets: Rows,
    id_pieces: Bytes,
    value_offsets: Rows,
    value_pieces: Bytes,
    doc_offsets: Rows,
    doc_pieces: Bytes,
    skip_zeros: bool,
    whole_rows: int,
    out: Bytes,
) -> Any:
    """Write a line per row and return their total length; the pieces of ids are `` 1:``, `` 2:`` and so on.

    With ``skip_zeros``, features whose text is ``0`` are left out, except the last feature of the
    first ``whole_rows`` rows, which tells a reader the number of features. A row with an empty
    document id gets no comment.
    """
    n_features = id_offsets.size - 1
    position: Any = np.int64(0)
    for row in range(label_of_row.size):
        label = label_of_row[row]
        position = put(label_pieces, label_offsets[label], label_offsets[label + 1], out, position)
        position = put(_QUERY, np.int64(0), _QUERY.size, out, position)
        query = query_of_row[row]
        position = put(query_pieces, query_offsets[query], query_offsets[query + 1], out, position)
        for feature in range(n_features):
            begin = value_offsets[row * n_features + feature]
            end = value_offsets[row * n_features + feature + 1]
            is_zero = end - begin == 1 and value_pieces[begin] == 48
            is_needed = row < whole_rows and feature == n_features - 1
            if skip_zeros and is_zero and not is_needed:
                continue
            position = put(id_pieces, id_offsets[feature], id_offsets[feature + 1], out, position)
            position = put(value_pieces, begin, end, out, position)
        if doc_offsets[row + 1] > doc_offsets[row]:
            position = put(_DOCUMENT, np.int64(0), _DOCUMENT.size, out, position)
            position = put(doc_pieces, doc_offsets[row], doc_offsets[row + 1], out, position)
        out[position] = 10
        position += 1
    return position


@kernel
def put(pieces: Bytes, begin: Any, end: Any, out: Bytes, position: Any) -> Any:
    """Copy a piece of text to ``position``; returns the position after it.

    Callers pass ``np.int64(0)``: a literal 0 has a type of its own and would compile this kernel twice.
    """
    for offset in range(begin, end):
        out[position] = pieces[offset]
        position += 1
    return position
