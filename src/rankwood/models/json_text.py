"""Features in the JSON text of a request, read once, by a kernel.

``JsonText`` puts the values of features straight into an array. What is left of the text, its *skeleton*, is small,
whatever the number of features; Python reads that. ``NamedColumns`` finds the columns of names.

Terms
    text      the bytes of the JSON text, followed by ``PADDING`` zero bytes
    row       a ``features`` value of a document that holds numbers and nulls only; in the skeleton stands its number
    document  an element of a list under the key ``documents``, of the whole text or of an element of ``queries``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import borrowing, kernel
from rankwood.data.letor.parse import (
    BLANK,
    CARRIAGE_RETURN,
    EXACT,
    LINE_FEED,
    MINUS,
    NEAR,
    NULL_LETTERS,
    PADDING,
    POWERS_OF_TEN,
    TAB,
    ZERO,
    byte_at,
    read_decimals,
    read_digits,
    read_number,
)
from rankwood.dtypes import FEATURE, Array, Bytes, Features, Rows

# Bytes of JSON.
QUOTE, BACKSLASH, COMMA, COLON, EXPONENT = 34, 92, 44, 58, 101
OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST = 123, 125, 91, 93
DOCUMENTS_LETTERS = np.frombuffer(b"documents", np.uint8)
QUERIES_LETTERS = np.frombuffer(b"queries", np.uint8)
FEATURES_LETTERS = np.frombuffer(b"features", np.uint8)
EXPLAIN_LETTERS = np.frombuffer(b"explain", np.uint8)
_MOST_DEPTH = 64
_LEAST_DOCUMENT_BYTES = 14  # {"features":[]}

# What an open bracket belongs to.
OTHER, WHOLE, QUERY_LIST, QUERY, DOCUMENT_LIST, DOCUMENT = range(6)
# Keys that have a meaning.
NO_KEY, DOCUMENTS, QUERIES, FEATURES = range(4)
# Indices into the counts of ``outline``.
SKELETON_BYTES, ROWS, DOCUMENTS_SEEN, TOKENS, TOO_DEEP, MAY_EXPLAIN = range(6)
# What is wrong with a row.
NOTHING, WRONG_LENGTH, UNKNOWN_FEATURE, LEFT_OUT = range(4)
EXACT_DIGITS = (
    15  # numbers of so many digits are exact in float64, and so is their quotient by a power of ten
)
HASH_BASIS, HASH_PRIME, HASH_MASK = 2166136261, 16777619, 2**32 - 1  # FNV-1a of 32 bits


@dataclass(frozen=True, eq=False)
class JsonText:
    """The text of a request, with the values of features taken out."""

    text: Bytes
    skeleton: bytes  # the text with the number of its row instead of each ``features``
    values: Features  # of all rows, one after the other
    spans: (
        Array  # first and last position of the name of each value; not set for rows that are lists
    )
    rows: Rows  # of each row: its first value, the number of its values, whether it is an object
    n_documents: int
    n_tokens: int  # values that the skeleton holds, and brackets
    is_too_deep: bool
    may_explain: (
        bool  # there is a key ``explain``, or one written with escapes, in the text's own object
    )

    @classmethod
    def of(cls, body: bytes) -> JsonText:
        """The parts of a text. Whether the skeleton is JSON is left to its reader: only then the text is."""
        size = len(body)
        text = np.frombuffer(body + bytes(PADDING), np.uint8)
        # Never touched, never in memory: the least bytes of a value are two.
        values = np.empty(size // 2 + 1, FEATURE)
        spans = np.empty((size // 2 + 1, 2), np.int32)
        rows = np.empty((size // _LEAST_DOCUMENT_BYTES + 1, 3), np.int64)
        skeleton = np.empty(2 * size + 16, np.uint8)  # a number may be longer than the []
        counts = np.zeros(6, np.int64)
        outline(text, size, np.zeros(_MOST_DEPTH, np.int64), skeleton, values, spans, rows, counts)
        return cls(
            text,
            skeleton[: counts[SKELETON_BYTES]].tobytes(),
            values,
            spans,
            rows[: counts[ROWS]],
            int(counts[DOCUMENTS_SEEN]),
            int(counts[TOKENS]),
            bool(counts[TOO_DEEP]),
            bool(counts[MAY_EXPLAIN]),
        )

    def fill(
        self, row_of_document: Rows, columns: NamedColumns, names_all: bool, matrix: Features
    ) -> tuple[int, int, int]:
        """Write the values of rows into the matrix; -1 stands for a document that has no row.

        Returns what is wrong, with which document, and a detail: the number of values, the position of a name in
        ``spans``, or the column of a name that was left out, where ``names_all``.
        """
        seen = np.zeros(len(columns.names), np.int64)
        problem = np.zeros(3, np.int64)
        fill_rows(
            self.text,
            self.values,
            self.spans,
            self.rows,
            row_of_document,
            columns.letters,
            columns.offsets,
            columns.slots,
            names_all,
            seen,
            matrix,
            problem,
        )
        code, document, detail = problem.tolist()
        return code, document, detail

    def name_at(self, value: int) -> str:
        """The name of a value, as it stands in the text."""
        begin, end = self.spans[value].tolist()
        return self.text[begin:end].tobytes().decode(errors="replace")


@dataclass(frozen=True, eq=False)
class NamedColumns:
    """The columns of a model by the names of its features, for kernels."""

    names: tuple[str, ...]
    column_of: dict[str, int]
    letters: Bytes  # all names in UTF-8, one after the other
    offsets: Rows
    slots: Array  # a table of columns by the hash of their names, -1 where there is none

    @classmethod
    def of(cls, names: Sequence[str]) -> NamedColumns:
        """The columns of these names, in their order."""
        encoded = [name.encode("utf-8", "surrogatepass") for name in names]
        letters = np.frombuffer(b"".join(encoded), np.uint8)
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(name) for name in encoded], out=offsets[1:])
        slots = np.full(1 << (2 * len(encoded)).bit_length(), -1, np.int32)
        place_names(letters, offsets, slots)
        column_of = {name: column for column, name in enumerate(names)}
        parts = (checks.read_only(array) for array in (letters, offsets, slots))
        return cls(tuple(names), column_of, *parts)

    def warm_up(self) -> None:
        """Compile the kernels of this module, or load them."""
        text = JsonText.of(b'{"documents": [{"features": {}}]}')
        matrix = np.zeros((1, len(self.names)), FEATURE)
        text.fill(np.zeros(1, np.int64), self, False, matrix)


@kernel
@borrowing
def outline(
    text: Bytes,
    size: int,
    kinds: Rows,
    skeleton: Bytes,
    values: Features,
    spans: Array,
    rows: Rows,
    counts: Rows,
) -> None:
    """Copy the text to ``skeleton`` without features, which go to ``values``, ``spans`` and ``rows``.

    ``kinds`` is a stack of what the open brackets belong to. What is not as it should be is copied as it is.
    """
    position = depth = written = n_rows = n_values = 0
    key = NO_KEY
    begin = end = 0  # of the last string
    while position < size:
        byte = byte_at(text, position)
        if byte == QUOTE:
            after = after_string(text, position, size)
            begin, end = position + 1, after - 1
            written = copy(text, position, after, skeleton, written)
            position = after
            continue
        if byte in (OPEN_OBJECT, OPEN_LIST):
            counts[TOKENS] += 1
            if kinds[depth] == DOCUMENT and key == FEATURES and n_rows < len(rows):
                after, n_read = read_values(text, position, size, values, spans, n_values)
                following = byte_at(text, skip_white(text, after))
                if after > 0 and following in (COMMA, CLOSE_OBJECT):
                    rows[n_rows, 0] = n_values
                    rows[n_rows, 1] = n_read
                    rows[n_rows, 2] = byte == OPEN_OBJECT
                    written = write_number(n_rows, skeleton, written)
                    n_rows += 1
                    n_values += n_read
                    position = after
                    continue
            if depth + 1 == len(kinds):
                counts[TOO_DEEP] = 1
                break
            kind = kind_of_bracket(byte, depth, kinds[depth], key)
            depth += 1
            kinds[depth] = kind
            if kind == DOCUMENT_LIST:
                is_empty = byte_at(text, skip_white(text, position + 1)) == CLOSE_LIST
                counts[DOCUMENTS_SEEN] += not is_empty
        elif byte in (CLOSE_OBJECT, CLOSE_LIST):
            depth -= depth > 0
        elif byte == COMMA:
            counts[TOKENS] += 1
            counts[DOCUMENTS_SEEN] += kinds[depth] == DOCUMENT_LIST
        if byte == COLON:
            key = meaning_of(text, begin, end)
            counts[MAY_EXPLAIN] |= kinds[depth] == WHOLE and is_explain(text, begin, end)
        elif not is_white(byte):
            key = NO_KEY
        skeleton[written] = byte
        written += 1
        position += 1
    counts[SKELETON_BYTES] = written
    counts[ROWS] = n_rows


@kernel
def copy(text: Bytes, begin: int, end: int, skeleton: Bytes, written: int) -> int:
    """Copy a part of the text; returns the position after it in the skeleton."""
    for position in range(begin, end):
        skeleton[written] = text[position]
        written += 1
    return written


@kernel
def kind_of_bracket(byte: int, depth: int, parent: int, key: int) -> int:
    """What an open bracket belongs to, by what it is in and the key before it."""
    if byte == OPEN_LIST:
        if key == DOCUMENTS and parent in (WHOLE, QUERY):
            return DOCUMENT_LIST
        if key == QUERIES and parent == WHOLE:
            return QUERY_LIST
        return OTHER
    if depth == 0:
        return WHOLE
    if parent == DOCUMENT_LIST:
        return DOCUMENT
    return QUERY if parent == QUERY_LIST else OTHER


@kernel
def meaning_of(text: Bytes, begin: int, end: int) -> int:
    """The meaning of a key."""
    if equals(text, begin, end, FEATURES_LETTERS, 0, len(FEATURES_LETTERS)):
        return FEATURES
    if equals(text, begin, end, DOCUMENTS_LETTERS, 0, len(DOCUMENTS_LETTERS)):
        return DOCUMENTS
    if equals(text, begin, end, QUERIES_LETTERS, 0, len(QUERIES_LETTERS)):
        return QUERIES
    return NO_KEY


@kernel
def is_explain(text: Bytes, begin: int, end: int) -> bool:
    """Whether a key is ``explain``, or may be, since it has escapes."""
    for position in range(begin, end):
        if byte_at(text, position) == BACKSLASH:
            return True
    return equals(text, begin, end, EXPLAIN_LETTERS, 0, len(EXPLAIN_LETTERS))


@kernel
def read_values(
    text: Bytes, position: int, size: int, values: Features, spans: Array, first: int
) -> tuple[int, int]:
    """Read a list of numbers and nulls, or an object of them; returns the position after it, and how many there are.

    The position is 0 for everything else: text, other brackets, names with escapes, numbers that float32 cannot hold
    or whose last bit is not certain.
    """
    is_object = byte_at(text, position) == OPEN_OBJECT
    closing = CLOSE_OBJECT if is_object else CLOSE_LIST
    position = skip_white(text, position + 1)
    if byte_at(text, position) == closing:
        return position + 1, 0
    n_read = 0
    while position < size:
        if is_object:
            begin = position + 1
            if byte_at(text, position) != QUOTE:
                return 0, 0
            position = begin
            while byte_at(text, position) != QUOTE:
                if byte_at(text, position) < BLANK or byte_at(text, position) == BACKSLASH:
                    return 0, 0  # the end of the text is a zero byte
                position += 1
            spans[first + n_read, 0] = begin
            spans[first + n_read, 1] = position
            position = skip_white(text, position + 1)
            if byte_at(text, position) != COLON:
                return 0, 0
            position = skip_white(text, position + 1)
        position, value = read_json_number(text, position)
        if position == 0:
            return 0, 0
        values[first + n_read] = value
        n_read += 1
        position = skip_white(text, position)
        if byte_at(text, position) == closing:
            return position + 1, n_read
        if byte_at(text, position) != COMMA:
            return 0, 0
        position = skip_white(text, position + 1)
    return 0, 0


@kernel
def read_json_number(text: Bytes, begin: int) -> tuple[int, float]:
    """Read a number as JSON writes it, or null; returns the position after it, 0 for everything else, and the value.

    The value rounds to the same float32 as the number does.
    """
    is_negative = byte_at(text, begin) == MINUS
    first = begin + is_negative
    mantissa = byte_at(text, first) - ZERO
    if not 0 <= mantissa <= 9:
        if equals(text, begin, begin + 4, NULL_LETTERS, 0, 4):
            return begin + 4, np.nan
        return 0, 0.0
    position = first + 1
    if mantissa > 0:  # a number of several digits does not begin with 0
        position, mantissa = read_digits(text, position, mantissa)
    end = position
    position, mantissa, n_decimals = read_decimals(text, position, mantissa)
    if n_decimals == 0 and position > end:  # a dot without digits
        return 0, 0.0
    n_digits = end - first + n_decimals
    if n_digits <= EXACT_DIGITS and byte_at(text, position) | 32 != EXPONENT:
        value = float(mantissa) / POWERS_OF_TEN[n_decimals]
        return position, -value if is_negative else value
    position, value, status = read_number(text, begin)
    return (position, value) if status in (EXACT, NEAR) else (0, 0.0)


@kernel
def after_string(text: Bytes, position: int, size: int) -> int:
    """Return the position after the string that begins here; that of the end of the text if it does not end."""
    position += 1
    while position < size:
        byte = byte_at(text, position)
        if byte == QUOTE:
            return position + 1
        position += 2 if byte == BACKSLASH else 1
    return size


@kernel
def skip_white(text: Bytes, position: int) -> int:
    """Return the position of the next byte that is no white space; the text ends with a zero byte."""
    while byte_at(text, position) <= BLANK and is_white(byte_at(text, position)):
        position += 1
    return position


@kernel
def is_white(byte: int) -> bool:
    """Whether a byte is white space in JSON."""
    return byte in (BLANK, LINE_FEED, CARRIAGE_RETURN, TAB)


@kernel
def equals(text: Bytes, begin: int, end: int, letters: Bytes, first: int, last: int) -> bool:
    """Whether a part of the text equals a part of ``letters``."""
    if end - begin != last - first:
        return False
    for offset in range(end - begin):  # noqa: SIM110 - kernels have no generators
        if byte_at(text, begin + offset) != byte_at(letters, first + offset):
            return False
    return True


@kernel
def write_number(number: int, skeleton: Bytes, position: int) -> int:
    """Write a number, apart from whatever stands before it; returns the position after it."""
    skeleton[position] = BLANK
    position += 1
    power = 1
    while number // power >= 10:
        power *= 10
    while power > 0:
        skeleton[position] = ZERO + number // power % 10
        position += 1
        power //= 10
    return position


@kernel
@borrowing
def fill_rows(
    text: Bytes,
    values: Features,
    spans: Array,
    rows: Rows,
    row_of_document: Rows,
    letters: Bytes,
    offsets: Rows,
    slots: Array,
    names_all: bool,
    seen: Rows,
    matrix: Features,
    problem: Rows,
) -> None:
    """Write the values of rows into the matrix, up to the first row in which something is wrong.

    ``names_all``: rows that are objects must name every feature. ``seen`` has a place per column.
    """
    width = matrix.shape[1]
    for document in range(len(row_of_document)):
        row = row_of_document[document]
        if row < 0:
            continue
        first, n_read, is_object = rows[row, 0], rows[row, 1], rows[row, 2]
        problem[1] = document
        if not is_object:
            if n_read != width:
                problem[0], problem[2] = WRONG_LENGTH, n_read
                return
            for column in range(width):
                matrix[document, column] = values[first + column]
            continue
        n_seen = 0
        column = -1
        for value in range(first, first + n_read):
            begin: Any = np.int64(spans[value, 0])
            end: Any = np.int64(spans[value, 1])
            column = column_of_name(text, begin, end, column + 1, letters, offsets, slots)
            if column < 0:
                problem[0], problem[2] = UNKNOWN_FEATURE, value
                return
            n_seen += seen[column] != document + 1
            seen[column] = document + 1
            matrix[document, column] = values[value]
        if names_all and n_seen < width:
            column = 0
            while seen[column] == document + 1:
                column += 1
            problem[0], problem[2] = LEFT_OUT, column
            return


@kernel
def column_of_name(
    text: Bytes, begin: int, end: int, likely: int, letters: Bytes, offsets: Rows, slots: Array
) -> int:
    """The column of a name, -1 if there is none; ``likely`` is looked at first."""
    n_columns = len(offsets) - 1
    if likely < n_columns and equals(
        text, begin, end, letters, offsets[likely], offsets[likely + 1]
    ):
        return likely
    mask = len(slots) - 1
    slot = hash_of(text, begin, end) & mask
    while slots[slot] >= 0:
        column = int(slots[slot])
        if equals(text, begin, end, letters, offsets[column], offsets[column + 1]):
            return column
        slot = (slot + 1) & mask
    return -1


@kernel
def place_names(letters: Bytes, offsets: Rows, slots: Array) -> None:
    """Write each column into the first free slot from that of its name's hash on; half of the slots stay free."""
    mask = len(slots) - 1
    for column in range(len(offsets) - 1):
        slot = hash_of(letters, offsets[column], offsets[column + 1]) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = column


@kernel
def hash_of(letters: Bytes, begin: int, end: int) -> int:
    """The hash of a part of ``letters``."""
    value = HASH_BASIS
    for position in range(begin, end):
        value = ((value ^ byte_at(letters, position)) * HASH_PRIME) & HASH_MASK
    return value
