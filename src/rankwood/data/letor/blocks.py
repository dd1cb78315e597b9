"""One block of LETOR lines becomes one table, or an error with its line and column.

``parse_block`` runs the kernels of ``parse`` and handles each stop: it converts numbers whose last bit the kernel
could not determine, widens the table, or raises a ``LineError``. Blocks are independent of each other, so that
threads can parse them in parallel. ``Destination`` is the table of the whole file into which blocks are parsed.
"""

from __future__ import annotations

import contextlib
import re
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from rankwood import dtypes
from rankwood._core import checks
from rankwood.data.letor import parse as codes
from rankwood.data.letor.parse import count_rows, parse_rows, token_end, widest_id
from rankwood.data.sources import memory_of_machine
from rankwood.dtypes import Bytes, Features, Floats, Rows
from rankwood.errors import DataError

PADDING = codes.PADDING
_FIRST_LINES = 8  # enough to find the width of nearly every file
_ALL_LINES = 1 << 62
_FIRST_FIXES = 1024
_GENEROUS = 2  # factor of the estimated number of rows, since rows differ in length
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_LARGEST_ID = np.iinfo(np.int64).max
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103  # this and larger numbers round to infinity

_LONGEST_EXCERPT = 40
_EXPECTED = "Expected: label qid:ID id:value …"

BINARY = (
    "a NUL byte: this is a binary file. Text is expected, one document per line. A table is told by the ending of its "
    "name, and read_table reads it."
)


@dataclass(frozen=True)
class Grammar:
    """Options of parsing."""

    name: str  # of the file, in messages
    absent: float  # value of features that a row does not mention
    any_order: bool
    n_features: int | None
    max_features: int
    overflow: float | None = None  # value of features beyond float32; None: an error

    @property
    def limit(self) -> int:
        """The largest feature id allowed."""
        return self.max_features if self.n_features is None else self.n_features


class Lines(NamedTuple):
    """Whole lines of text: the first ``length`` bytes of ``block``, followed by padding."""

    block: bytearray
    length: int
    n_rows: int  # an upper bound: a line that begins with a blank may hold no document

    @classmethod
    def of(cls, block: bytearray, length: int) -> Lines:
        """The lines, with their rows counted."""
        return cls(block, length, int(count_rows(_bytes_of(block), length)))

    @property
    def text(self) -> Bytes:
        """The block as an array of bytes."""
        return _bytes_of(self.block)


@dataclass
class Block:
    """The parsed rows of a block; query ids are stored once per run."""

    features: Features
    labels: Floats
    query_ids: list[str]
    run_rows: Rows  # first row of each run
    run_lines: Rows  # line of that row, from 0 in the block; the reader makes it a line of the file
    doc_rows: Rows
    doc_ids: list[str]
    n_lines: int

    @property
    def has_integer_ids(self) -> bool:
        """Whether every query id is an int64 in canonical form."""
        return all(_is_integer(text) for text in self.query_ids)

    @property
    def n_rows(self) -> int:
        """Number of documents."""
        return len(self.labels)

    def split(self, run: int) -> tuple[Block, Block]:
        """The rows before a run, and the rows from it on."""
        row = int(self.run_rows[run])
        document = int(np.searchsorted(self.doc_rows, row))
        before = Block(
            self.features[:row],
            self.labels[:row],
            self.query_ids[:run],
            self.run_rows[:run],
            self.run_lines[:run],
            self.doc_rows[:document],
            self.doc_ids[:document],
            self.n_lines,
        )
        after = Block(
            self.features[row:],
            self.labels[row:],
            self.query_ids[run:],
            self.run_rows[run:] - row,
            self.run_lines[run:],
            self.doc_rows[document:] - row,
            self.doc_ids[document:],
            self.n_lines,
        )
        return before, after


def parse_block(
    lines: Lines, grammar: Grammar, memory: MemoryLimit, table: Features | None, width: int
) -> Block:
    """Parse lines into ``table`` if it is given and wide enough, else into a new table.

    ``width`` is a lower bound of the number of features. The first error raises ``LineError``.
    """
    nul = lines.block.find(b"\0", 0, lines.length)
    if nul < 0:
        return _Parser(lines, grammar, memory, table, width).run()
    start = lines.block.rfind(b"\n", 0, nul) + 1
    n_lines = _Parser(lines._replace(length=start), grammar, memory, None, width).run().n_lines
    column = column_of(bytes(memoryview(lines.block)[start:nul]))
    raise LineError(n_lines, column, BINARY)


class Destination:
    """The table of the whole file, allocated in advance if the first block allows to estimate its size.

    Blocks are then parsed directly into their rows of the table. Memory that is allocated but not
    written costs nothing, so the estimate is generous. If it is too small, or a block is wider
    than expected, the block gets a table of its own and ``join`` copies it.
    """

    def __init__(self) -> None:
        self._table: Features = np.empty((0, 0), dtypes.FEATURE)
        self._n_rows = 0

    def prepare(self, first: Block, n_bytes: int, of_bytes: int | None) -> None:
        """Allocate for a file of ``of_bytes`` whose first ``n_bytes`` are the block ``first``."""
        if of_bytes is None or not len(first.labels):
            return
        width = max(1, first.features.shape[1])
        guessed = _GENEROUS * len(first.labels) * of_bytes // n_bytes
        n_rows = min(guessed, memory_of_machine() // (width * dtypes.FEATURE().itemsize))
        with contextlib.suppress(MemoryError):  # then blocks get tables of their own
            self._table = np.empty((n_rows, first.features.shape[1]), dtypes.FEATURE)

    def take(self, n_rows: int) -> Features | None:
        """The next ``n_rows`` rows of the table, or None if it is too small."""
        first = self._n_rows
        self._n_rows += n_rows
        return self._table[first : self._n_rows] if self._n_rows <= len(self._table) else None

    def join(self, blocks: list[Block], absent: float) -> Features:
        """The tables of all blocks, concatenated; ``blocks`` is emptied and each block freed once it is copied.

        No row moves down, since a block has at most as many rows as were reserved for it.
        """
        width = max(block.features.shape[1] for block in blocks)
        n_rows = sum(len(block.features) for block in blocks)
        if len(blocks) == 1:
            return np.ascontiguousarray(blocks[0].features)
        is_wide_enough = width == self._table.shape[1] and n_rows <= len(self._table)
        joined = self._table if is_wide_enough else np.empty((n_rows, width), dtypes.FEATURE)
        first = 0
        blocks.reverse()
        while blocks:
            part = blocks.pop().features
            last = first + len(part)
            if part.ctypes.data != joined[first:].ctypes.data:
                joined[first:last, : part.shape[1]] = part
                joined[first:last, part.shape[1] :] = absent
            first = last
        return joined[:n_rows]


class MemoryLimit:
    """Raises if the dense table of a file would not fit into memory, before it is allocated."""

    def __init__(self, name: str, n_bytes: int) -> None:
        self._name = name
        self._n_bytes = n_bytes
        self._lock = threading.Lock()
        self._n_rows = 0
        self._width = 0

    def add(self, n_rows: int, width: int) -> None:
        """Count ``n_rows`` more rows (fewer if negative) in a table of at least ``width`` columns."""
        with self._lock:
            self._n_rows += n_rows
            self._width = max(self._width, width)
            needed = self._n_rows * self._width * dtypes.FEATURE().itemsize
            if needed > self._n_bytes:
                raise DataError(
                    f"{self._name} does not fit into memory: {self._n_rows:,} rows or more × "
                    f"{self._width:,} features need {needed / 2**30:,.1f} GiB, and there are "
                    f"{self._n_bytes / 2**30:,.1f}. Number the features without gaps, or read a "
                    "part of the file."
                )


class _Parser:
    """The arrays that ``parse_rows`` fills, and the handling of each of its stops."""

    def __init__(
        self,
        lines: Lines,
        grammar: Grammar,
        memory: MemoryLimit,
        table: Features | None,
        width: int,
    ) -> None:
        self.block, self.end, self.n_rows = lines
        self.text = lines.text
        self.grammar = grammar
        self.memory = memory
        if grammar.n_features is None:
            width = max(width, widest_id(self.text, 0, self.end, grammar.limit, _FIRST_LINES))
        else:
            width = grammar.n_features
        memory.add(self.n_rows, width)
        if table is None or table.shape[1] < width:
            table = self._new_table(width)
        self.features: Features = table
        self.labels: Floats = np.empty(self.n_rows, dtypes.LABEL)
        self.runs: Rows = np.empty((self.n_rows, 4), dtypes.ROW)
        self.documents: Rows = np.empty((self.n_rows, 3), dtypes.ROW)
        self.fixes: Rows = np.empty((_FIRST_FIXES, 4), dtypes.ROW)
        self.state: Rows = np.zeros(codes.STATE_SIZE, dtypes.ROW)

    def run(self) -> Block:
        """Parse to the end of the block, or raise."""
        while True:
            code = int(self._parse_rows())
            n_fixed = self._fix_numbers()
            if code == codes.DONE:
                return self._block()
            if code == codes.FIXES_ARE_FULL:
                if n_fixed == 0:  # one row needs more entries than the array has
                    self.fixes = np.empty((4 * len(self.fixes), 4), dtypes.ROW)
            elif code == codes.TOO_NARROW:
                self._widen()
            else:
                self._fail_for(code)

    def _parse_rows(self) -> Any:
        any_order = self.grammar.any_order
        return parse_rows(
            self.text,
            self.end,
            self.grammar.absent,
            self.grammar.limit,
            any_order,
            np.zeros(self.features.shape[1] if any_order else 0, dtypes.ROW),
            self.features,
            self.labels,
            self.runs,
            self.documents,
            self.fixes,
            self.state,
        )

    def _new_table(self, width: int) -> Features:
        try:
            return np.empty((self.n_rows, width), dtypes.FEATURE)
        except MemoryError:
            raise DataError(
                f"{self.grammar.name} does not fit into memory: there is no room for "
                f"{self.n_rows:,} rows × {width:,} features."
            ) from None

    def _widen(self) -> None:
        """Widen the table to the widest row that is still to come."""
        position, n_done = int(self.state[codes.POSITION]), int(self.state[codes.ROW])
        to_come = widest_id(self.text, position, self.end, self.grammar.limit, _ALL_LINES)
        before = self.features
        old_width = before.shape[1]
        self.memory.add(0, max(to_come, int(self.state[codes.DETAIL])))
        self.features = self._new_table(max(to_come, int(self.state[codes.DETAIL])))
        self.features[:n_done, :old_width] = before[:n_done]
        self.features[:n_done, old_width:] = self.grammar.absent

    def _fix_numbers(self) -> int:
        """Convert the recorded numbers with Python's ``float``; returns how many there were."""
        n_fixes = int(self.state[codes.N_FIXES])
        self.state[codes.N_FIXES] = 0
        for row, feature, begin, end in self.fixes[:n_fixes].tolist():
            token = self._bytes(begin, end)
            value = float(token)
            if feature < 0:
                if not 0.0 <= value < np.inf:
                    self._fail(begin, about_label(token))
                self.labels[row] = value
            else:
                if abs(value) >= _FLOAT32_OVERFLOW:
                    value = self._overflown(begin, token)
                self.features[row, feature] = value
        return n_fixes

    def _overflown(self, position: int, token: bytes) -> float:
        """What a value beyond float32 counts as, if it is not an error."""
        if self.grammar.overflow is None:
            self._fail(position, beyond_float32(token))
        return self.grammar.overflow

    def _fail_for(self, code: int) -> NoReturn:
        """Raise the error the kernel stopped for."""
        position = int(self.state[codes.POSITION])
        token = self._bytes(position, token_end(self.text, position))
        detail = int(self.state[codes.DETAIL])
        is_declared = self.grammar.n_features is not None
        self._fail(position, explain(code, token, detail, self.grammar.limit, is_declared))

    def _fail(self, position: int, message: str) -> NoReturn:
        """Raise the error at ``position``, or that of an id before it: the first error is reported."""
        self._check_ids(before=position)
        start = self.block.rfind(b"\n", 0, position) + 1
        column = column_of(self._bytes(start, position))
        raise LineError(self.block.count(b"\n", 0, start), column, message)

    def _check_ids(self, before: int) -> None:
        """Raise if a query or document id that starts before the position ``before`` is invalid."""
        wrong: list[tuple[int, str]] = []
        for kind, spans in (("query", self._query_spans()), ("document", self._doc_spans())):
            for begin, end in spans.tolist():
                message = about_id(kind, self._bytes(begin, end))
                if message and begin < before:
                    wrong.append((begin, message))
                    break
        if wrong:
            self._fail(*min(wrong))

    def _query_spans(self) -> Rows:
        return self.runs[: self.state[codes.N_RUNS], 2:]

    def _doc_spans(self) -> Rows:
        return self.documents[: self.state[codes.N_DOCUMENTS], 1:]

    def _bytes(self, begin: int, end: int) -> bytes:
        return bytes(memoryview(self.block)[begin:end])

    def _block(self) -> Block:
        n_rows = int(self.state[codes.ROW])
        runs = self.runs[: self.state[codes.N_RUNS]]
        return Block(
            features=self.features[:n_rows],
            labels=self.labels[:n_rows],
            query_ids=self._texts(self._query_spans()),
            run_rows=runs[:, 0].copy(),
            run_lines=runs[:, 1].copy(),
            doc_rows=self.documents[: self.state[codes.N_DOCUMENTS], 0].copy(),
            doc_ids=self._texts(self._doc_spans()),
            n_lines=int(self.state[codes.LINE]),
        )

    def _texts(self, spans: Rows) -> list[str]:
        """The ids at the given positions, decoded together, since there may be one per row."""
        tokens = b"\n".join([self.block[begin:end] for begin, end in spans.tolist()])
        try:
            if b"\r" in tokens:
                self._check_ids(before=self.end)
            return tokens.decode().split("\n") if len(spans) else []
        except UnicodeDecodeError:
            self._check_ids(before=self.end)
            raise


# Messages about lines that cannot be read.


class LineError(Exception):
    """An error in a line, counted from 0 within its block; columns are counted from 1."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.message = message

    def at(self, name: str, lines_before: int) -> str:
        """The message with the name of the file, the line and the column."""
        return (
            f"{name}, line {lines_before + self.line + 1:d}, column {self.column}: {self.message}"
        )


def explain(code: int, token: bytes, detail: int, limit: int, is_declared: bool) -> str:
    """The message for ``token``, at which the kernel stopped with ``code``."""
    if code == codes.BAD_LABEL:
        return about_label(token)
    if code == codes.BAD_QUERY:
        return _about_query(token)
    if code == codes.BAD_VALUE:
        return about_value(token)
    return _about_feature(code, token, detail, limit, is_declared)


def _bytes_of(block: bytearray) -> Bytes:
    return checks.read_only(np.frombuffer(block, dtypes.TEXT))


def _is_integer(text: str) -> bool:
    return (
        _CANONICAL_INTEGER.fullmatch(text) is not None
        and -_LARGEST_ID - 1 <= int(text) <= _LARGEST_ID
    )


def excerpt(text: bytes) -> str:
    """``text`` in quotes, shortened, with characters that cannot be printed escaped."""
    shown = text[: 4 * _LONGEST_EXCERPT].decode("utf-8", "backslashreplace")
    printable = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in shown
    )
    if len(printable) > _LONGEST_EXCERPT:
        printable = printable[: _LONGEST_EXCERPT - 1] + "…"
    return f"'{printable}'"


def column_of(line_before: bytes) -> int:
    """The column, in characters from 1, of the text after ``line_before`` in its line."""
    return len(line_before.decode("utf-8", "replace")) + 1


def about_label(token: bytes) -> str:
    """The message for an invalid label."""
    if b":" in token:
        return f"the label is missing: the line begins with {excerpt(token)}. {_EXPECTED}"
    try:
        is_negative = float(token) < 0
    except ValueError:
        return f"label {excerpt(token)} is not a number."
    if is_negative:
        return f"label {excerpt(token)} is negative. Labels are grades of relevance: 0 or more."
    return f"label {excerpt(token)} is not a finite number of at least 0."


def _about_query(token: bytes) -> str:
    if token.startswith(b"qid:"):
        return "the query id is empty. Write it right after the colon, as in qid:7."
    if not token:
        return f"the query id is missing: the line ends after the label. {_EXPECTED}"
    return f"the query id is missing: {excerpt(token)} stands where qid:ID is expected."


def about_value(token: bytes) -> str:
    """The message for an invalid value of a feature."""
    hint = (
        " The file seems to end its lines with CR alone; convert them to LF."
        if b"\r" in token
        else ""
    )
    what = "the value is missing" if not token else f"value {excerpt(token)} is not a number"
    return f"{what}. Expected a number, NaN or NULL.{hint}"


def beyond_float32(token: bytes) -> str:
    """The message for a value beyond float32."""
    return (
        f"value {excerpt(token)} is beyond float32's range of ±3.4e38. Rescale the feature, or read "
        'such values as missing: overflow="missing" (--overflow-missing).'
    )


def _about_feature(code: int, token: bytes, detail: int, limit: int, is_declared: bool) -> str:
    number = token.split(b":")[0]
    if code == codes.ZERO_ID:
        return "feature id 0 is not allowed. Ids begin with 1; add 1 to all of them."
    if code == codes.NOT_ASCENDING:
        return (
            f"feature id {int(number)} comes after {detail}. "
            "Ids in a row must ascend; sort them, or pass order='any' (--any-order)."
        )
    if code == codes.DUPLICATE_ID:
        return f"feature id {int(number)} appears twice in the row. Each may appear once."
    if code == codes.ID_ABOVE_LIMIT and is_declared:
        shown = excerpt(number)[1:-1]
        return f"feature id {shown} is more than the {limit} features declared by n_features."
    if code == codes.ID_ABOVE_LIMIT:
        return (
            f"feature id {excerpt(number)[1:-1]} is above {limit}. Is it a feature id? "
            "If so, pass max_features= with the largest id."
        )
    return f"{excerpt(token)} is not a feature. Expected id:value, as in 7:0.25."


def about_id(kind: str, token: bytes) -> str | None:
    """The message for an invalid query or document id, or None if it is valid."""
    if b"\r" in token:
        return f"{kind} id {excerpt(token)} holds a carriage return. End lines with LF or CR LF."
    try:
        token.decode()
    except UnicodeDecodeError:
        return f"{kind} id {excerpt(token)} is not UTF-8 text. Convert the file to UTF-8."
    return None
