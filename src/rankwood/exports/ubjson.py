"""Universal Binary JSON, the form of XGBoost's ``.ubj`` files: a reader of files that are not trusted.

A value is a marker and its content. Arrays and objects end with a closing marker, or have their number of items after
``#``; an array of numbers of one type has the marker of the type after ``$``, before the number of items. All numbers
are big-endian.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from rankwood.errors import ModelError

_MOST_LEVELS = 100
# The codes of numpy and of struct are the same for these.
_WHOLE = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q"}
_NUMBERS = {**_WHOLE, b"d": ">f", b"D": ">d"}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}
# What may follow the first brace; in JSON that is a quotation mark, a blank or a closing brace.
_AFTER_BRACE = (*_WHOLE, b"#", b"$")


def is_ubjson(content: bytes) -> bool:
    """Whether a file that starts with a brace is UBJSON rather than JSON."""
    return content[:1] == b"{" and content[1:2] in _AFTER_BRACE


def ubjson_of(content: bytes) -> Any:
    """The value of a UBJSON file."""
    reader = _BinaryReader(content)
    value = reader.value(reader.marker(), 0)
    if reader.position != len(content):
        raise ModelError(f"it goes on after its end (byte {reader.position:,}).")
    return value


class _BinaryReader:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0

    def take(self, n_bytes: int) -> bytes:
        """The next bytes; a length beyond the file is an error before anything is allocated."""
        start, end = self.position, self.position + n_bytes
        if end > len(self.content):
            raise ModelError(f"it ends within a value (byte {start:,}): the file is not complete.")
        self.position = end
        return self.content[start:end]

    def marker(self) -> bytes:
        """The next marker."""
        marker = self.take(1)
        while marker == b"N":  # no operation
            marker = self.take(1)
        return marker

    def peek(self) -> bytes:
        """The next byte, which is not taken."""
        return self.content[self.position : self.position + 1]

    def value(self, marker: bytes, level: int) -> Any:
        """The value after a marker."""
        if level > _MOST_LEVELS:
            raise ModelError("it is nested too deep to be read.")
        if marker == b"{":
            return self._object(level)
        if marker == b"[":
            return self._array(level)
        if marker in _NUMBERS:
            code = _NUMBERS[marker]
            return struct.unpack(code, self.take(struct.calcsize(code)))[0]
        if marker == b"S":
            return self._text()
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        raise ModelError(
            f"it is no UBJSON that can be read: marker {marker!r} at byte {self.position - 1:,}."
        )

    def _length(self) -> int:
        marker = self.marker()
        if marker not in _WHOLE:
            raise ModelError(f"a length must be a whole number, got marker {marker!r}.")
        length = int(self.value(marker, 0))
        if not 0 <= length <= len(self.content) - self.position:  # an item has a byte at least
            raise ModelError(f"a length is {length:,}, more than the rest of the file.")
        return length

    def _text(self) -> str:
        content = self.take(self._length())
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError(f"a text is not UTF-8 (byte {self.position:,}).") from None

    def _array(self, level: int) -> list[Any]:
        if self.peek() == b"$":
            return self._numbers()
        if self.peek() == b"#":
            self.take(1)
            return [self.value(self.marker(), level + 1) for _ in range(self._length())]
        items = []
        while (marker := self.marker()) != b"]":
            items.append(self.value(marker, level + 1))
        return items

    def _numbers(self) -> list[Any]:
        """An array of numbers of one type."""
        self.take(1)
        kind = self.take(1)
        if kind not in _NUMBERS or self.take(1) != b"#":
            raise ModelError(f"an array is typed as {kind!r}; only numbers with a count can be.")
        dtype = np.dtype(_NUMBERS[kind])
        numbers = np.frombuffer(self.take(self._length() * dtype.itemsize), dtype)
        listed: list[Any] = numbers.tolist()
        return listed

    def _object(self, level: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.peek() == b"$":
            raise ModelError("an object is typed, which XGBoost does not write.")
        if self.peek() == b"#":
            self.take(1)
            for _ in range(self._length()):
                name = self._text()
                found[name] = self.value(self.marker(), level + 1)
            return found
        while self.peek() != b"}":
            if self.peek() == b"N":
                self.take(1)
                continue
            name = self._text()
            found[name] = self.value(self.marker(), level + 1)
        self.take(1)
        return found
