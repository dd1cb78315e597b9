"""Parquet, Arrow (Feather) and CSV files, read as streams of Arrow record batches."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from rankwood.data.frames import refuse_twins
from rankwood.errors import DataError

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
DELIMITERS = {".csv": ",", ".tsv": "\t"}
_CSV_BLOCK = 4 << 20  # bytes parsed at a time; a line must fit
_PIECE_VALUES = 1 << 21  # values decoded at a time from a Parquet file
_COLUMN_BUFFER = 1 << 16  # bytes of a column that are held where rows are read one after the other
_PIECE_ROWS = 1 << 13  # rows handed on at a time, so that rows being filled stay in the cache
# What stands for a missing number in CSV. Identifiers are missing only where nothing stands.
_MISSING = ("", "nan", "NaN", "NAN", "-nan", "-NaN", "NA", "N/A", "<NA>", "null", "NULL", "None")
_TEXT_IN_NUMBERS = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?.*invalid value '(.*)'", re.DOTALL
)

Piece = tuple[int, Any]  # the number of its first row, and an Arrow record batch


@dataclass(frozen=True)
class TableFormat:
    """How a table file is stored, by the endings of its name."""

    kind: str  # ".parquet", ".arrow", ".feather", ".csv" or ".tsv"
    compression: str | None = None


@dataclass(frozen=True)
class TableSource:
    """An open table file: its columns, then its rows piece by piece.

    A piece holds the same rows of some or all columns; the pieces of a column come in the order of
    their rows. ``n_read`` gives the bytes taken from the file so far, where that can be told.
    """

    names: tuple[str, ...]
    pieces: Callable[[Sequence[str], Sequence[str]], Iterator[Piece]]  # of numbers, identifiers
    n_rows: int | None = None  # where the file says it beforehand
    metadata: dict[bytes, bytes] = field(default_factory=dict)
    has_types: bool = True  # a CSV file has none
    n_read: Callable[[], int] | None = None


def table_format(path: Path) -> TableFormat:
    """The format that the name of a table file asks for."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    last = suffixes[-1] if suffixes else ""
    if last in COMPRESSIONS and len(suffixes) > 1 and suffixes[-2] in DELIMITERS:
        return TableFormat(suffixes[-2], COMPRESSIONS[last])
    if last in (".parquet", ".arrow", ".feather", *DELIMITERS):
        return TableFormat(last)
    raise DataError(
        f"{path}: the ending of the name does not say which kind of table this is. Known: "
        ".parquet, .arrow, .feather, .csv and .tsv; the last two also with .gz, .zst or .bz2."
    )


@contextlib.contextmanager
def open_table(path: Path, *, by_rows: bool = False) -> Iterator[TableSource]:
    """An open table; whatever is wrong with the file becomes a ``DataError`` that names it.

    With ``by_rows`` every piece has all columns, and a Parquet file of one row group is not read as
    a whole; without, large files are read faster.
    """
    import pyarrow as pa

    form = table_format(path)
    refuse_what_is_no_file(path)
    try:
        with contextlib.ExitStack() as stack:
            if form.kind == ".parquet":
                yield _open_parquet(path, stack, by_rows)
            elif form.kind in DELIMITERS:
                yield _open_csv(path, form, stack)
            else:
                yield _open_arrow(path, stack)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        what = "cannot be read, or is damaged or cut short"
        raise DataError(f"{path}: this {form.kind[1:]} file {what} ({_one_line(error)}).") from None


def refuse_what_is_no_file(path: Path) -> None:
    """Raise for a path where nothing is, for a folder and for an empty file."""
    try:
        found = path.stat()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    if stat.S_ISDIR(found.st_mode):
        raise DataError(f"{path} is a folder; pass a file.")
    if stat.S_ISREG(found.st_mode) and found.st_size == 0:
        raise DataError(f"{path} is empty.")


def _open_parquet(path: Path, stack: contextlib.ExitStack, by_rows: bool) -> TableSource:
    import pyarrow.parquet as pq

    file = stack.enter_context(
        pq.ParquetFile(
            os.fspath(path),
            page_checksum_verification=True,
            buffer_size=_COLUMN_BUFFER if by_rows else 0,
            pre_buffer=not by_rows,  # it would hold the bytes of whole row groups
        )
    )
    names = tuple(file.schema_arrow.names)
    refuse_twins(names)

    def pieces(numbers: Sequence[str], identifiers: Sequence[str]) -> Iterator[Piece]:
        read = _parquet_rows if by_rows else _parquet_pieces
        return read(file, [*numbers, *identifiers])

    metadata = dict(file.schema_arrow.metadata or {})
    return TableSource(names, pieces, int(file.metadata.num_rows), metadata)


def _parquet_pieces(file: Any, wanted: Sequence[str]) -> Iterator[Piece]:
    """A few columns of a row group at a time: some writers put a whole file into one group."""
    first_row = 0
    for group in range(file.num_row_groups):
        n_rows = file.metadata.row_group(group).num_rows
        n_columns = max(1, _PIECE_VALUES // max(1, n_rows))
        for first in range(0, len(wanted), n_columns):
            columns = file.read_row_group(group, columns=wanted[first : first + n_columns])
            place = first_row
            for batch in columns.to_batches(max_chunksize=_PIECE_ROWS):
                yield place, batch
                place += batch.num_rows
        first_row += n_rows


def _parquet_rows(file: Any, wanted: Sequence[str]) -> Iterator[Piece]:
    first_row = 0
    for batch in file.iter_batches(max(1, _PIECE_VALUES // len(wanted)), columns=wanted):
        yield first_row, batch
        first_row += batch.num_rows


def _open_arrow(path: Path, stack: contextlib.ExitStack) -> TableSource:
    import pyarrow as pa

    source = stack.enter_context(pa.memory_map(os.fspath(path)))
    is_file = (
        source.read(6) == b"ARROW1"
    )  # else it may be the stream form, which has no magic bytes
    source.seek(0)
    reader = stack.enter_context(
        pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
    )
    names = tuple(reader.schema.names)
    refuse_twins(names)

    def pieces(numbers: Sequence[str], identifiers: Sequence[str]) -> Iterator[Piece]:
        found = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
        first_row = 0
        for batch in found:
            batch.validate(full=True)  # a damaged file must not crash the process
            yield first_row, batch.select([*numbers, *identifiers])
            first_row += batch.num_rows

    return TableSource(names, pieces, None, dict(reader.schema.metadata or {}))


def _open_csv(path: Path, form: TableFormat, stack: contextlib.ExitStack) -> TableSource:
    raw = stack.enter_context(path.open("rb"))
    file: Any = raw
    if form.compression is not None:
        import pyarrow as pa

        file = stack.enter_context(pa.CompressedInputStream(file, form.compression))
        file = stack.enter_context(io.BufferedReader(file))
    delimiter = DELIMITERS[form.kind]
    names = _csv_header(file, delimiter)
    refuse_twins(names)

    def pieces(numbers: Sequence[str], identifiers: Sequence[str]) -> Iterator[Piece]:
        first_row = 0
        for batch in _csv_batches(file, delimiter, names, numbers, identifiers):
            yield first_row, batch
            first_row += batch.num_rows

    n_read = raw.tell if raw.seekable() else None
    return TableSource(names, pieces, has_types=False, n_read=n_read)


def _csv_header(file: BinaryIO, delimiter: str) -> tuple[str, ...]:
    line = file.readline(_CSV_BLOCK).removeprefix(codecs.BOM_UTF8)
    while line in (b"\n", b"\r\n"):
        line = file.readline(_CSV_BLOCK)
    while (
        line.count(b'"') % 2 == 1 and len(line) < _CSV_BLOCK
    ):  # a quoted name with a line break in it
        more = file.readline(_CSV_BLOCK)
        if not more:
            break
        line += more
    if not line.strip():
        raise DataError("there is no header line; the first line must name the columns.")
    if not line.endswith(b"\n") and len(line) >= _CSV_BLOCK:
        raise DataError(f"the header line is longer than {_CSV_BLOCK:,} bytes.")
    text = line.decode().rstrip("\r\n")
    try:
        return tuple(next(csv.reader([text], delimiter=delimiter, strict=True)))
    except (csv.Error, StopIteration) as error:
        raise DataError(f"the header line cannot be read ({error}).") from None


def _csv_batches(
    file: BinaryIO,
    delimiter: str,
    names: Sequence[str],
    numbers: Sequence[str],
    identifiers: Sequence[str],
) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    ragged: list[Any] = []

    def remember(row: Any) -> str:
        ragged.append(row)
        return "error"

    types = {**dict.fromkeys(numbers, pa.float64()), **dict.fromkeys(identifiers, pa.string())}
    try:
        # One thread: only then are rows numbered in messages.
        yield from arrow_csv.open_csv(
            file,
            arrow_csv.ReadOptions(
                column_names=list(names), block_size=_CSV_BLOCK, use_threads=False
            ),
            arrow_csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=remember
            ),
            arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=_MISSING,
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if str(error).startswith("Empty CSV"):
            return
        raise _csv_error(str(error), ragged, names) from None


def _csv_error(message: str, ragged: list[Any], names: Sequence[str]) -> DataError:
    if ragged:
        row = ragged[0]
        where = "" if row.number is None else f"row {row.number}: "
        return DataError(
            f"{where}{row.actual_columns} values, but the header names {row.expected_columns} "
            f"columns: {shown(row.text)}."
        )
    if message.startswith("straddling"):
        return DataError(f"there is a row longer than {_CSV_BLOCK:,} bytes.")
    found = _TEXT_IN_NUMBERS.search(message)
    if found is None:
        return DataError(f"{_one_line(message)}.")
    column, row, text = found.groups()
    name = names[int(column)]
    where = "" if row is None else f"row {row}, "
    return DataError(
        f"{where}column '{name}': {shown(text)} is not a number. Encode text as numbers, or pass "
        f"drop=['{name}'], or doc='{name}' if it names the documents."
    )


def shown(text: str) -> str:
    """``text`` as a message shows it: quoted, and cut when it is long."""
    return repr(text if len(text) <= 60 else text[:60] + "…")


def _one_line(error: object) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip(".")
