"""Where data lie: the files of a path, a pattern or a folder, and each of them as a stream of bytes.

``find_inputs`` lists the files of a path, a pattern, a folder, a partitioned Parquet data set, or several of these.
``open_source`` opens one: a regular file, a link, a named pipe, ``-`` for standard input, or a file of another file
system, such as ``s3://bucket/train.parquet``, which pyarrow (or fsspec, where it is installed) reads. Compression is
detected from the first bytes, so that gzip data need no ``.gz``. Errors of the operating system, of a file system or of
a decompressor become a ``DataError`` that names the file.

Terms
    key       a folder named ``column=value``, as Hive names the folders of a partitioned data set
    remote    in another file system: named by a URI
"""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import glob
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit

from rankwood._core.files import atomic_path, explained_writing
from rankwood.errors import DataError, ParameterError

PathLike = str | os.PathLike[str]

STANDARD_STREAM = "-"
TABLE_SUFFIXES = (".parquet", ".csv", ".tsv", ".arrow", ".feather")
TEXT_SUFFIXES = (".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat")
FOREIGN_SUFFIXES = (  # of files that hold neither LETOR text nor a table that can be read
    *(".json", ".jsonl", ".ndjson", ".xlsx", ".xls", ".ods", ".orc", ".avro"),
    *(".npy", ".npz", ".pkl", ".pickle", ".h5", ".hdf5", ".xml"),
)
COMPRESSION_SUFFIXES = (".gz", ".zst", ".bz2")
PART_NAMES = {  # what files of the parts of a collection are called, in lower case and without suffixes
    "train": ("train", "training", "trainset", "trainingset"),
    "valid": ("vali", "valid", "validation", "valiset", "validset", "validationset", "dev"),
    "test": ("test", "testing", "testset", "testingset"),
}
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
UNKNOWN_MEMORY = 1 << 62  # bytes assumed where the system does not report its memory
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_WORD = re.compile(r"[a-z]+")
_HIDDEN = (".", "_")  # what names begin with that writers of data sets keep for themselves


def memory_of_machine() -> int:
    """Bytes of memory this process may use: the machine's, or the container's limit if it is lower."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        memory = UNKNOWN_MEMORY
    try:
        return min(memory, int(_CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):
        return memory


# Which files there are.


@dataclass(frozen=True)
class RemoteFile(os.PathLike[str]):
    """A file or folder of a file system that pyarrow knows: the system, and the path within it."""

    name: str  # its URI without what may be secret: a user, a password, parameters
    system: Any = field(compare=False, repr=False)
    path: str

    def __fspath__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def info(self) -> Any:
        """Its kind, size and time of change; an error where the file system does not answer."""
        with _explained_remote(self.name):
            return self.system.get_file_info(self.path)

    def open(self) -> Any:
        """The file, opened for reading; it can be sought."""
        with _explained_remote(self.name):
            return self.system.open_input_file(self.path)

    def below(self) -> list[RemoteFile]:
        """All files below this folder, sorted by name."""
        from pyarrow.fs import FileSelector, FileType

        with _explained_remote(self.name):
            found = self.system.get_file_info(FileSelector(self.path, recursive=True))
        paths = sorted(one.path for one in found if one.type == FileType.File)
        return [self._at(path) for path in paths]

    def _at(self, path: str) -> RemoteFile:
        """Another path of the same file system."""
        start = len(self.path) if self.path and path.startswith(self.path) else 0
        head = self.name.rstrip("/") if start else f"{urlsplit(self.name).scheme}://"
        return RemoteFile(head + path[start:], self.system, path)


Located = Path | RemoteFile


def locate(path: PathLike) -> Located:
    """A path of this machine, or what a URI names; nothing is opened."""
    if isinstance(path, RemoteFile):
        return path
    text = os.fspath(path)
    if not _URI.match(text):
        return Path(text)
    parts = urlsplit(text)
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return RemoteFile(shown, *_file_system(text, shown))


def _file_system(uri: str, shown: str) -> tuple[Any, str]:
    """Pyarrow's file system for a URI, or fsspec's, and the path in it."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        system, path = fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        system, path = _by_fsspec(uri, shown)
        return fs.PyFileSystem(fs.FSSpecHandler(system)), path
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{shown} cannot be opened: {_reason(error)}.") from None
    return system, path


def _by_fsspec(uri: str, shown: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise DataError(
            f"{shown}: pyarrow knows no file system for it here (file, s3, gs, hdfs and abfs are usual). Install "
            "fsspec and its package for this one, or copy the file to this machine."
        ) from None
    try:
        system, path = url_to_fs(uri)
    except (ImportError, ValueError, OSError) as error:
        raise DataError(f"{shown}: no file system can open it: {_reason(error)}.") from None
    return system, str(path)


@contextlib.contextmanager
def _explained_remote(name: str) -> Iterator[None]:
    """Turn what a file system raises into an error that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{name} does not exist, or may not be seen by this user.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{name} cannot be read: {_reason(error)}.") from None


@dataclass(frozen=True)
class InputFile:
    """A file of a data set, and the keys of the folders it lies in."""

    path: Located
    keys: tuple[tuple[str, str], ...] = ()


Paths = PathLike | Iterable[PathLike | InputFile]


def find_inputs(paths: Paths, *, are_reread: bool = False) -> list[InputFile]:
    """The files of a path, a pattern such as ``day-*.parquet``, a folder, or a list of these; sorted within each.

    With ``are_reread`` pipes and standard input are refused, since they can be read once only.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise ParameterError("paths is an empty list. Name at least one file, folder or pattern.")
    found = [file for path in given for file in _files_of(path)]
    seen: set[PathLike] = set()
    for file in found if len(found) > 1 or are_reread else []:
        if not is_standard_stream(file.path):
            refuse_what_is_no_file(file.path)
        if not is_seekable(file.path):
            raise DataError(
                f"{display_name(file.path)} is not a regular file: "
                f"{'the input is read more than once' if are_reread else 'it cannot be one of several'}."
            )
        path = file.path.resolve() if isinstance(file.path, Path) else file.path
        if path in seen:
            raise DataError(f"{file.path} is given twice. Name each file once.")
        seen.add(path)
    kinds = {is_table(file.path): file.path for file in found}
    if len(kinds) > 1:
        raise DataError(
            f"{kinds[True]} is a table and {kinds[False]} is LETOR text. Files that are read together are of one "
            "kind: convert the others first (rankwood convert)."
        )
    return found


def _files_of(given: PathLike | InputFile) -> list[InputFile]:
    if isinstance(given, InputFile):
        return [given]
    if not isinstance(given, str | os.PathLike):
        raise ParameterError(f"paths must be names of files or folders, got {given!r}.")
    located = locate(given)
    if isinstance(located, RemoteFile):
        return _remote_files_of(located)
    text = os.fspath(given)
    if os.path.isdir(text):
        files = (path for path in sorted(located.rglob("*")) if path.is_file())
        return _data_files(located, [(path, path.relative_to(located).parts) for path in files])
    if not os.path.exists(text) and glob.has_magic(text):
        matches = sorted(glob.glob(text, recursive=True))
        if not matches:
            raise DataError(f"no file matches the pattern {text}.")
        fixed = len(_without_magic(located.parts))
        return [
            InputFile(file.path, (*_keys(Path(match).parts[fixed:-1]), *file.keys))
            for match in matches
            for file in _files_of(match)
        ]
    if not is_standard_stream(text) and not os.path.exists(text):
        with open_source(text):  # raises an error that names the nearest file
            pass
    return [InputFile(located)]


def _remote_files_of(given: RemoteFile) -> list[InputFile]:
    from pyarrow.fs import FileType

    if "*" in given.path:
        wanted = PurePosixPath(given.path).parts
        fixed = _without_magic(wanted)
        folder = given._at(str(PurePosixPath(*fixed)))
        matches = [
            file for file in folder.below() if _is_match(PurePosixPath(file.path).parts, wanted)
        ]
        if not matches:
            raise DataError(f"no file matches the pattern {given}.")
        return [
            InputFile(file, _keys(PurePosixPath(file.path).parts[len(fixed) : -1]))
            for file in matches
        ]
    kind = given.info().type
    if kind == FileType.Directory:
        base = len(PurePosixPath(given.path).parts)
        return _data_files(
            given, [(file, PurePosixPath(file.path).parts[base:]) for file in given.below()]
        )
    if kind == FileType.NotFound:
        raise DataError(f"{given} does not exist, or may not be seen by this user.")
    return [InputFile(given)]


def _without_magic(parts: Sequence[str]) -> list[str]:
    """The first parts of a path, up to one that is a pattern."""
    first = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return list(parts[:first])


def _is_match(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether a path matches a pattern, part by part; ``**`` stands for any folders."""
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_is_match(parts[first:], wanted[1:]) for first in range(len(parts)))
    return (
        bool(parts)
        and fnmatch.fnmatchcase(parts[0], wanted[0])
        and _is_match(parts[1:], wanted[1:])
    )


def _keys(folders: Iterable[str]) -> tuple[tuple[str, str], ...]:
    pairs = (part.partition("=") for part in folders if "=" in part)
    return tuple((name, unquote(value)) for name, _, value in pairs)


def _data_files(
    folder: Located, files: Sequence[tuple[Located, tuple[str, ...]]]
) -> list[InputFile]:
    """Those of the files below a folder that hold data; hidden ones and those that begin with ``_`` are left out."""
    found = [
        InputFile(path, _keys(below[:-1]))
        for path, below in files
        if not any(part.startswith(_HIDDEN) for part in below)
    ]
    tables = [file for file in found if is_table(file.path)]
    texts = [file for file in found if uncompressed_name(file.path).endswith(TEXT_SUFFIXES)]
    if not tables and not texts:
        if {path.name for path, _ in files if isinstance(path, Path)} >= {
            "manifest.json",
            "codes.npy",
        }:
            raise DataError(
                f"{folder} is a folder of binned data, which only training takes (train --data, open_binned). It keeps "
                "no raw features: name the files that it was made from."
            )
        known = ", ".join((*TABLE_SUFFIXES, *TEXT_SUFFIXES))
        raise DataError(
            f"{folder} has no data files: their names end in {known}, or in one of these and "
            f"{', '.join(COMPRESSION_SUFFIXES)}. Name the files themselves if they are called otherwise."
        )
    chosen = tables + texts  # of two kinds: the caller refuses them
    kept = {file.path for file in chosen}
    words = {
        word
        for path, below in files
        if path in kept
        for word in _WORD.findall("/".join(below).lower())
    }
    parts = [part for part, names in PART_NAMES.items() if words.intersection(names)]
    if len(parts) > 1:
        raise DataError(
            f"{folder} holds {' and '.join(parts)} data. They belong into folders of their own: name the "
            "files of one part."
        )
    return chosen


def is_table(path: PathLike) -> bool:
    """Whether the name is that of a Parquet, CSV or Arrow file; other files are read as LETOR text."""
    return uncompressed_name(path).endswith(TABLE_SUFFIXES)


def refuse_foreign_format(path: PathLike) -> None:
    """Raise for a name whose ending says that the file is neither LETOR text nor a table."""
    name = uncompressed_name(path)
    if name.endswith(".rankwood"):
        raise DataError(
            f"{path} is a model file, and data are expected here: the model comes first, then the data."
        )
    if name.endswith(FOREIGN_SUFFIXES):
        raise DataError(
            f"{path}: data with the ending '{PurePosixPath(name).suffix}' cannot be read or written. Known: "
            f"{', '.join(TABLE_SUFFIXES)}; any other name is LETOR text."
        )


def uncompressed_name(path: PathLike) -> str:
    """The name of a file in lower case, without the suffix of a compression."""
    name = file_name(path).lower()
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def file_name(path: PathLike) -> str:
    """The last part of a path; of a URI, without parameters."""
    text = os.fspath(path)
    return Path(urlsplit(text).path if _URI.match(text) else text).name


def refuse_what_is_no_file(path: PathLike) -> None:
    """Raise if the path does not exist, is a folder or is an empty file."""
    located = locate(path)
    if isinstance(located, RemoteFile):
        if located.info().is_file and located.info().size == 0:
            raise DataError(f"{located} is empty.")
        return
    try:
        status = located.stat()
    except FileNotFoundError:
        raise DataError(missing_file(Path(path))) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    if stat.S_ISDIR(status.st_mode):
        raise DataError(f"{path} is a folder; pass a file.")
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        raise DataError(f"{path} is empty.")


def size_and_time(path: Located) -> tuple[int, int]:
    """The bytes of a file that exists, and when it was changed, in nanoseconds."""
    if isinstance(path, RemoteFile):
        info = path.info()
        return int(info.size or 0), int(info.mtime_ns or 0)
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


# Files as streams of bytes.


@contextlib.contextmanager
def open_source(path: PathLike) -> Iterator[Source]:
    """The file at ``path``, or standard input for ``-``, opened for reading."""
    if is_standard_stream(path):
        yield Source(sys.stdin.buffer, display_name(path), None, "")
        return
    with open_file(path) as file:
        n_bytes: int | None
        if isinstance(locate(path), RemoteFile):
            n_bytes = file.size()
        else:
            status = os.fstat(file.fileno())
            n_bytes = status.st_size if stat.S_ISREG(status.st_mode) else None
        suffix = Path(file_name(path)).suffix.lower()
        yield Source(file, display_name(path), n_bytes, suffix)


@contextlib.contextmanager
def open_file(path: PathLike) -> Iterator[Any]:
    """The bytes of a file as they are, unbuffered."""
    located = locate(path)
    if isinstance(located, RemoteFile):
        with located.open() as file:
            yield file
        return
    name = os.fspath(path)
    try:
        file = open(name, "rb", buffering=0)  # noqa: SIM115 - closed below; errors of the caller must pass through
    except (OSError, ValueError) as error:
        raise DataError(_why_not_opened(name, error)) from None
    with file:
        yield file


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
    return "standard input" if is_standard_stream(path) else os.fspath(locate(path))


def is_regular_file(path: PathLike) -> bool:
    """Whether ``path`` is a regular file of this machine."""
    try:
        return not is_standard_stream(path) and stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_seekable(path: PathLike) -> bool:
    """Whether ``path`` can be read twice: a regular file, or a remote one."""
    return isinstance(locate(path), RemoteFile) or is_regular_file(path)


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
    if not name:
        return "the name of a file is empty."
    if isinstance(error, FileNotFoundError):
        return missing_file(Path(name))
    if isinstance(error, IsADirectoryError):
        return f"{name} is a directory. Pass a file in it."
    if isinstance(error, PermissionError):
        return f"{name} may not be read by this user. Change its permissions, or copy it."
    return f"{name!r} cannot be opened: {_reason(error)}."


def missing_file(path: Path) -> str:
    """That a file does not exist, and the most similar name in the same folder."""
    if path.is_symlink():
        return f"{path} does not exist: it is a link to nothing."
    return f"{path} does not exist.{_nearest_name(path)}"


def _nearest_name(path: Path) -> str:
    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        return f" Neither does the folder {path.parent}." if not path.parent.exists() else ""
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f" Did you mean {path.parent / near[0]}?" if near else ""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
