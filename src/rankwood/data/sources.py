"""Files as streams of bytes: regular files, links, named pipes, and ``-`` for the standard streams.

Compression is detected from the first bytes, so that gzip data need no ``.gz``. Errors of the operating system or of
a decompressor become a ``DataError`` that names the file.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

from rankwood._core.files import atomic_path, explained_writing
from rankwood.errors import DataError

PathLike = str | os.PathLike[str]

STANDARD_STREAM = "-"
FIRST_BLOCK_BYTES = 1 << 14
LONGEST_LINE = 1 << 28  # 256 MiB: more than ten million features
_MAGIC = {  # first bytes of compressed files, by suffix
    ".gz": b"\x1f\x8b",
    ".zst": b"\x28\xb5\x2f\xfd",
    ".bz2": b"BZh",
}
_NAMES = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2"}
_LONGEST_MAGIC = max(map(len, _MAGIC.values()))
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@contextlib.contextmanager
def open_source(path: PathLike) -> Iterator[Source]:
    """The file at ``path``, or standard input for ``-``, opened for reading."""
    if is_standard_stream(path):
        yield Source(sys.stdin.buffer, display_name(path), None, "")
        return
    name = display_name(path)
    try:
        file = open(name, "rb", buffering=0)  # noqa: SIM115 - closed below; errors of the caller must pass through
    except (OSError, ValueError) as error:
        raise DataError(_why_not_opened(name, error)) from None
    with file:
        status = os.fstat(file.fileno())
        n_bytes = status.st_size if stat.S_ISREG(status.st_mode) else None
        yield Source(file, name, n_bytes, Path(name).suffix.lower())


@contextlib.contextmanager
def open_sink(path: PathLike) -> Iterator[IO[bytes]]:
    """A stream to write ``path``, compressed by its suffix; the file appears if the block succeeds."""
    if is_standard_stream(path):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with (
        explained_writing(path),
        atomic_path(path) as temporary,
        open(temporary, "wb") as file,
        _compressed(file, Path(path).suffix.lower()) as stream,
    ):
        yield stream


class Source:
    """A stream of decompressed bytes that counts the bytes read.

    Attributes
    ----------
    name
        Its name in messages.
    n_bytes
        Bytes on disk, compressed if they are; None for a pipe.
    """

    def __init__(self, raw: IO[bytes], name: str, n_bytes: int | None, suffix: str) -> None:
        self.name = name
        self.n_bytes = n_bytes
        self._raw = _Counted(raw)
        self._kind = _kind(self._raw.head, suffix, name)
        self._stream: _Readable = _decompressed(self._raw, self._kind)

    @property
    def n_read(self) -> int:
        """Bytes read from the disk or the pipe so far."""
        return self._raw.n_read

    @property
    def n_text_bytes(self) -> int | None:
        """Bytes of the text; None if it is compressed or a pipe."""
        return None if self._kind else self.n_bytes

    def fill(self, buffer: memoryview) -> int:
        """Fill ``buffer`` and return the number of bytes, less than its length only at the end."""
        filled = 0
        try:
            while filled < len(buffer):
                n_bytes = self._stream.readinto(buffer[filled:])
                if not n_bytes:
                    break
                filled += n_bytes
        except EOFError:
            raise DataError(self._broken("is cut short: its end is missing")) from None
        except (OSError, zlib.error, ValueError) as error:
            if not self._kind:
                raise DataError(f"{self.name} cannot be read: {_reason(error)}.") from None
            what = "is cut short: its end is missing" if "runcated" in str(error) else "is damaged"
            raise DataError(self._broken(what)) from None
        return filled

    def _broken(self, what: str) -> str:
        return (
            f"{self.name}: the {_NAMES[self._kind]} data {what}. Fetch or compress the file again."
        )

    def line_blocks(
        self, n_bytes: int, padding: int = 0, spare: list[bytearray] | None = None
    ) -> Iterator[tuple[bytearray, int]]:
        """Blocks of whole lines of about ``n_bytes``, each with the length of its text.

        Every text ends in a line feed (added at the end of the file if necessary) and is followed by
        at least ``padding`` zero bytes. The first block is small, so that its content can be used to
        plan for the rest; a longer line makes a longer block. A UTF-8 byte order mark is removed.
        Blocks that the caller puts into ``spare`` are reused.
        """
        carried = self._first_bytes()
        wanted = min(n_bytes, FIRST_BLOCK_BYTES)
        at_end = False
        while not at_end:
            size = max(wanted, 2 * len(carried)) + padding + 1  # 1: the added line feed
            block = spare.pop() if spare else bytearray(size)
            if len(block) < size:
                block = bytearray(size)
            wanted = n_bytes
            block[: len(carried)] = carried
            room = len(block) - padding - 1
            filled = len(carried) + self.fill(memoryview(block)[len(carried) : room])
            at_end = filled < room
            if at_end and filled and block[filled - 1] != 10:
                block[filled] = 10
                filled += 1
            length = block.rfind(b"\n", 0, filled) + 1
            if not length and block.find(b"\0", 0, filled) >= 0:  # binary: the parser says so
                block[filled] = 10
                length = filled = filled + 1
                at_end = True
            carried = bytes(memoryview(block)[length:filled])
            if len(carried) > LONGEST_LINE:
                raise DataError(
                    f"{self.name} has a line of more than {LONGEST_LINE >> 20} MiB. "
                    "Is it text, one document per line?"
                )
            block[length : filled + padding] = bytes(filled + padding - length)
            if length:
                yield block, length

    def _first_bytes(self) -> bytes:
        start = bytearray(len(_UTF8_MARK))
        start = start[: self.fill(memoryview(start))]
        if start[:2] in _UTF16_MARKS:
            raise DataError(
                f"{self.name} is UTF-16 text; UTF-8 or ASCII is expected. "
                "Convert it, for example with: iconv -f UTF-16 -t UTF-8."
            )
        return b"" if start == _UTF8_MARK else bytes(start)


def is_standard_stream(path: PathLike) -> bool:
    """Whether ``path`` is ``-``, standard input or output."""
    return os.fspath(path) == STANDARD_STREAM


def display_name(path: PathLike) -> str:
    """The name of an input file in messages."""
    return "standard input" if is_standard_stream(path) else os.fspath(path)


def is_regular_file(path: PathLike) -> bool:
    """Whether ``path`` is a regular file, which can be read twice."""
    try:
        return not is_standard_stream(path) and stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


class _Readable(Protocol):
    def readinto(self, buffer: memoryview, /) -> int | None:
        """Read into ``buffer``; returns the number of bytes, 0 at the end."""


class _Counted(io.RawIOBase):
    """A binary stream that counts the bytes read; ``head`` has its first bytes."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__()
        self._raw = raw
        self.n_read = 0
        self.head = b""
        while len(self.head) < _LONGEST_MAGIC:
            more = raw.read(_LONGEST_MAGIC - len(self.head))
            if not more:
                break
            self.head += more
        self._unread = self.head

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if self._unread:
            n_bytes = min(len(buffer), len(self._unread))
            buffer[:n_bytes] = self._unread[:n_bytes]
            self._unread = self._unread[n_bytes:]
        else:
            n_bytes = self._raw.readinto(buffer) or 0  # type: ignore[attr-defined]
        self.n_read += n_bytes
        return n_bytes


def _kind(head: bytes, suffix: str, name: str) -> str:
    """The suffix of the compression, by the first bytes; empty for plain text."""
    for kind, magic in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if suffix in _MAGIC and head:
        raise DataError(
            f"{name} does not begin as {_NAMES[suffix]} data do, though its name ends in {suffix}. "
            "It is damaged; or, if it is plain text, rename it."
        )
    return ""


def _decompressed(raw: _Counted, kind: str) -> Any:
    if kind == ".gz":
        import gzip

        return gzip.GzipFile(fileobj=io.BufferedReader(raw, 1 << 17), mode="rb")
    if kind == ".bz2":
        import bz2

        return bz2.BZ2File(io.BufferedReader(raw, 1 << 17))
    if kind == ".zst":
        import pyarrow

        return pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, mode="r"), "zstd")
    return raw


@contextlib.contextmanager
def _compressed(file: IO[bytes], suffix: str) -> Iterator[Any]:
    if suffix == ".gz":
        import gzip

        with gzip.GzipFile(
            "", "wb", compresslevel=6, fileobj=file, mtime=0
        ) as stream:  # same data, same bytes
            yield stream
    elif suffix == ".bz2":
        import bz2

        with bz2.BZ2File(file, "wb") as stream:
            yield stream
    elif suffix == ".zst":
        import pyarrow

        with pyarrow.CompressedOutputStream(pyarrow.PythonFile(file, mode="w"), "zstd") as stream:
            yield stream
    else:
        yield file


def _why_not_opened(name: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{name} does not exist.{_nearest_name(Path(name))}"
    if isinstance(error, IsADirectoryError):
        return f"{name} is a directory. Pass a file in it."
    if isinstance(error, PermissionError):
        return f"{name} may not be read by this user. Change its permissions, or copy it."
    return f"{name!r} cannot be opened: {_reason(error)}."


def _nearest_name(path: Path) -> str:
    """A hint with the most similar name in the same folder."""
    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        return f" Neither does the folder {path.parent}." if not path.parent.exists() else ""
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f" Did you mean {path.parent / near[0]}?" if near else ""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
