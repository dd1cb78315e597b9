"""LETOR text read line by line with regular expressions and ``float``: the parser's slow twin."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import numpy as np

NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
SPECIAL = re.compile(rb"[+-]?(nan|inf|infinity)|null", re.IGNORECASE)
DOCUMENT = re.compile(rb"(?:^|[ \t])docid[ \t]*=[ \t]*([^ \t]+)")
INTEGER = re.compile(r"0|-?[1-9][0-9]*")


class Wrong(Exception):
    """The text is not LETOR, and where; (0, 0) is the file as a whole."""

    def __init__(self, line: int, column: int) -> None:
        super().__init__(line, column)
        self.place = (line, column)


@dataclass
class Table:
    rows: list[dict[int, np.float32]] = field(default_factory=list)
    labels: list[float] = field(default_factory=list)
    query_ids: list[str] = field(default_factory=list)
    doc_ids: list[str] = field(default_factory=list)

    def features(self, absent: float, n_features: int | None = None) -> np.ndarray:
        width = n_features or max((max(row, default=0) for row in self.rows), default=0)
        table = np.full((len(self.rows), width), absent, np.float32)
        for number, row in enumerate(self.rows):
            for feature, value in row.items():
                table[number, feature - 1] = value
        return table

    def ids(self) -> list[str] | list[int]:
        """Whole numbers if every id is the usual writing of one that fits into 64 bits."""
        if all(
            INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**63 for text in self.query_ids
        ):
            return [int(text) for text in self.query_ids]
        return self.query_ids


def parse(text: bytes, *, limit: int = 100_000, any_order: bool = False) -> Table:
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Wrong(0, 0)
    table = Table()
    for number, line in enumerate(text.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            _parse_line(line, table, limit, any_order)
        except _WrongByte as error:
            column = len(line[: error.place].decode("utf-8", "replace")) + 1
            raise Wrong(number, column) from None
    if not any(table.rows):  # no row, or none with a feature
        raise Wrong(0, 0)
    return table


class _WrongByte(Exception):
    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


def _parse_line(line: bytes, table: Table, limit: int, any_order: bool) -> None:
    if b"\0" in line:
        raise _WrongByte(line.index(b"\0"))
    content, _, comment = line.removesuffix(b"\r").partition(b"#")
    end = len(content) if b"#" in line else len(line)
    tokens = [(match.start(), match[0]) for match in re.finditer(rb"[^ \t]+", content)]
    if not tokens:
        return
    label = _label(*tokens[0])
    query_id = _query_id(*(tokens[1] if len(tokens) > 1 else (end, b"")))
    row: dict[int, np.float32] = {}
    for place, token in tokens[2:]:
        feature, value = _feature(place, token, row, limit, any_order)
        row[feature] = value
    document = DOCUMENT.search(comment)
    doc_id = ""
    if document:
        doc_id = _text(len(content) + 1 + document.start(1), document[1])
    table.rows.append(row)
    table.labels.append(label)
    table.query_ids.append(query_id)
    table.doc_ids.append(doc_id)


def _label(place: int, token: bytes) -> float:
    if not NUMBER.fullmatch(token):
        raise _WrongByte(place)
    label = float(token)
    if label < 0 or math.isinf(label):
        raise _WrongByte(place)
    return label


def _query_id(place: int, token: bytes) -> str:
    if not token.startswith(b"qid:") or token == b"qid:":
        raise _WrongByte(place)
    return _text(place + 4, token[4:])


def _text(place: int, token: bytes) -> str:
    if b"\r" in token:
        raise _WrongByte(place)
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise _WrongByte(place) from None


def _feature(
    place: int, token: bytes, row: dict[int, np.float32], limit: int, any_order: bool
) -> tuple[int, np.float32]:
    match = re.match(rb"([0-9]+):", token)
    if not match or len(match[1]) > 18:  # longer ids are beyond any limit
        raise _WrongByte(place)
    feature = int(match[1])
    is_ascending = feature > max(row, default=0)
    if not 0 < feature <= limit or feature in row or not (is_ascending or any_order):
        raise _WrongByte(place)
    return feature, _value(place + match.end(), token[match.end() :])


def _value(place: int, token: bytes) -> np.float32:
    if SPECIAL.fullmatch(token):
        return np.float32("nan") if token.lower() == b"null" else np.float32(float(token))
    if not NUMBER.fullmatch(token):
        raise _WrongByte(place)
    value = float(token)
    with np.errstate(over="ignore"):
        narrow = np.float32(value)
    if np.isinf(narrow):
        raise _WrongByte(place)
    return narrow
