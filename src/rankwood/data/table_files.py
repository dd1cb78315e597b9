"""Parquet, Arrow (Feather) and CSV files as streams of Arrow record batches, read and written.

``open_table`` yields a ``TableSource`` for any of the formats; ``ranking`` assigns its columns to features, labels and
ids. ``write_columns`` writes block by block, so that a large matrix needs no second copy. ``read_column`` reads one
further column, such as a segment of queries to report on.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rankwood._core.files import atomic_path, explained_writing
from rankwood.data import frames
from rankwood.data.categories import Dictionaries, decode
from rankwood.data.frames import refuse_twins
from rankwood.data.sources import (
    Located,
    PathLike,
    Paths,
    RemoteFile,
    file_name,
    find_inputs,
    locate,
    open_file,
    refuse_what_is_no_file,
)
from rankwood.dtypes import Array, Features
from rankwood.errors import DataError, UnknownName

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
DELIMITERS = {".csv": ",", ".tsv": "\t"}
_CSV_BLOCK = 4 << 20  # bytes parsed at a time; a line must fit
_PIECE_VALUES = 1 << 21  # values decoded at a time from a Parquet file
_COLUMN_BUFFER = 1 << 16  # bytes buffered per column if rows are read in order
_MOST_ROWS_LOOKED_AT = 1 << 20  # of a CSV file, for all columns of text
_PIECE_ROWS = 1 << 13  # rows of a piece; the rows being filled stay in the cache
# Texts of a missing number in CSV. An identifier is missing only if its field is empty.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_WHOLE_NUMBER = r"^(0|-?[1-9][0-9]*)$"  # as Python writes it; 007 is text
_MISSING = ("", "nan", "NaN", "NAN", "-nan", "-NaN", "NA", "N/A", "<NA>", "null", "NULL", "None")
_TEXT_IN_NUMBERS = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?.*invalid value '(.*)'", re.DOTALL
)

_LONGEST_MESSAGE = 2000  # characters of what pyarrow says that are looked at

Piece = tuple[int, Any]  # the number of its first row, and an Arrow record batch

_BLOCK_VALUES = 1 << 22  # values of a Parquet row group, an Arrow batch, or a piece of CSV text


@dataclass(frozen=True)
class TableFormat:
    """The format of a table file, by the suffixes of its name."""

    kind: str  # ".parquet", ".arrow", ".feather", ".csv" or ".tsv"
    compression: str | None = None


@dataclass(frozen=True)
class TableSource:
    """An open table file: its columns, and an iterator over its rows in pieces.

    A piece holds some rows of some or all columns; the pieces of a column are in the order of their
    rows. ``n_read`` returns the bytes read from the file so far, if that is known.
    """

    names: tuple[str, ...]
    pieces: Callable[
        [Sequence[str], Sequence[str]], Iterator[Piece]
    ]  # arguments: number columns, identifier columns
    n_rows: int | None = None  # if the file states it
    metadata: dict[bytes, bytes] = field(default_factory=dict)
    schema: Any = None  # the types of the columns; None for CSV
    n_read: Callable[[], int] | None = None

    @property
    def has_types(self) -> bool:
        """Whether columns have types; CSV has text only."""
        return self.schema is not None


@contextlib.contextmanager
def open_table(
    path: PathLike, *, by_rows: bool = False, first_row: int = 0
) -> Iterator[TableSource]:
    """Open a table; any problem with the file becomes a ``DataError`` that names it.

    With ``by_rows`` every piece has all columns, and a Parquet file of one row group is not read as
    a whole; without it, large files are read faster. Pieces that end before ``first_row`` are left
    out where the format allows it.
    """
    import pyarrow as pa

    path = locate(path)
    form = table_format(path)
    refuse_what_is_no_file(path)
    try:
        with contextlib.ExitStack() as stack:
            if form.kind == ".parquet":
                yield _open_parquet(path, stack, by_rows, first_row)
            elif form.kind in DELIMITERS:
                yield _open_csv(path, form, stack)
            else:
                yield _open_arrow(path, stack, first_row)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        what = "cannot be read, or is damaged or cut short"
        raise DataError(f"{path}: this {form.kind[1:]} file {what} ({_one_line(error)}).") from None


def write_columns(
    path: Path, schema: Any, others: Sequence[Any], features: Features, known: Dictionaries
) -> None:
    """Write the Arrow arrays ``others``, then the features, as the columns of ``schema``.

    ``known`` has the dictionary of each feature that is written as text, and None for the others.
    """
    write_batches(path, schema, _batches(schema, others, features, known))


def write_batches(path: Path, schema: Any, batches: Iterator[Any]) -> None:
    """Write record batches of ``schema`` as they come; the file appears when it is complete."""
    form = table_format(path)
    if not path.parent.is_dir():
        raise DataError(f"{path} cannot be written: there is no folder {path.parent}.")
    if path.is_dir():
        raise DataError(f"{path} cannot be written: it is a folder.")
    with explained_writing(path), atomic_path(path) as temporary:
        if form.kind in DELIMITERS:
            with _output(temporary, form.compression) as file:
                file.write(_csv_line(schema.names, DELIMITERS[form.kind]))
                for batch in batches:
                    file.write(_csv_text(batch, DELIMITERS[form.kind]))
        else:
            _write_typed(temporary, form, schema, batches)


def read_column(paths: Paths, name: str) -> Array:
    """The values of column ``name`` of table files, one per row: text or whole numbers."""
    import pyarrow as pa

    kept = []
    for file in find_inputs(paths):
        with open_table(file.path) as source:
            if name in dict(file.keys):
                n_rows = sum(batch.num_rows for _, batch in source.pieces([], source.names[:1]))
                kept.append(pa.repeat(pa.scalar(dict(file.keys)[name]), n_rows))
                continue
            if name not in source.names:
                raise UnknownName(f"column of {file_name(file.path)}", name, source.names)
            kept += [batch.column(name) for _, batch in source.pieces([], [name])]
    if not sum(map(len, kept)):
        raise DataError(f"{paths}: there are no rows.")
    return frames.identifiers(name, pa.chunked_array(kept))


def table_format(path: PathLike) -> TableFormat:
    """The format of a table file by its name."""
    suffixes = [suffix.lower() for suffix in Path(file_name(path)).suffixes]
    last = suffixes[-1] if suffixes else ""
    if last in COMPRESSIONS and len(suffixes) > 1 and suffixes[-2] in DELIMITERS:
        return TableFormat(suffixes[-2], COMPRESSIONS[last])
    if last in (".parquet", ".arrow", ".feather", *DELIMITERS):
        return TableFormat(last)
    raise DataError(
        f"{path}: the ending of the name does not say which kind of table this is. Known: "
        ".parquet, .arrow, .feather, .csv and .tsv; the last two also with .gz, .zst or .bz2."
    )


def text_columns(path: PathLike, names: Sequence[str]) -> dict[str, str]:
    """Those of the columns of a CSV file that hold text, each with the first such text of the first million rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: dict[str, str] = {}
    with open_table(path) as source:
        for first_row, batch in source.pieces([], names):
            for name in names:
                texts = pc.utf8_trim_whitespace(batch.column(name))  # as the reader of numbers does
                try:
                    texts.filter(pc.invert(pc.is_in(texts, pa.array(_MISSING)))).cast(pa.float64())
                except pa.ArrowInvalid:
                    text = next(text for text in texts.to_pylist() if not _is_number(text))
                    found.setdefault(name, text)
            if first_row + batch.num_rows >= _MOST_ROWS_LOOKED_AT:
                break
    return {name: found[name] for name in names if name in found}


def _is_number(text: str) -> bool:
    """As Arrow reads numbers: Python takes more, such as +1 and 1_000."""
    import pyarrow as pa

    try:
        pa.array([text]).cast(pa.float64())
    except pa.ArrowInvalid:
        return text in _MISSING
    return True


class TextInNumbersError(DataError):
    """A column of a CSV file is to hold numbers, and has text."""

    def __init__(self, where: str, column: str, text: str) -> None:
        self.where, self.column, self.text = where, column, text
        super().__init__(f"{where}column '{column}': {shown(text)} is not a number.")


def shown(text: str) -> str:
    """``text`` for a message: quoted, and shortened if it is long."""
    return repr(text if len(text) <= 60 else text[:60] + "…")


# Reading.


def _open_parquet(
    path: Located, stack: contextlib.ExitStack, by_rows: bool, after: int
) -> TableSource:
    import pyarrow.parquet as pq

    file = stack.enter_context(
        pq.ParquetFile(
            stack.enter_context(path.open()) if isinstance(path, RemoteFile) else os.fspath(path),
            page_checksum_verification=True,
            buffer_size=_COLUMN_BUFFER if by_rows else 0,
            pre_buffer=not by_rows,  # it would load whole row groups
        )
    )
    names = tuple(file.schema_arrow.names)
    refuse_twins(names)

    def pieces(numbers: Sequence[str], identifiers: Sequence[str]) -> Iterator[Piece]:
        wanted = [*numbers, *identifiers]
        return _parquet_rows(file, wanted, after) if by_rows else _parquet_pieces(file, wanted)

    metadata = dict(file.schema_arrow.metadata or {})
    return TableSource(names, pieces, int(file.metadata.num_rows), metadata, file.schema_arrow)


def _parquet_pieces(file: Any, wanted: Sequence[str]) -> Iterator[Piece]:
    """A few columns of a row group at a time, since some writers put a whole file into one group."""
    first_row = 0
    for group in range(file.num_row_groups):
        n_rows = file.metadata.row_group(group).num_rows
        n_columns = max(1, _PIECE_VALUES // max(1, n_rows))
        for first in range(0, len(wanted), n_columns):
            columns = file.read_row_group(group, columns=wanted[first : first + n_columns])
            row = first_row
            for batch in columns.to_batches(max_chunksize=_PIECE_ROWS):
                yield row, batch
                row += batch.num_rows
        first_row += n_rows


def _parquet_rows(file: Any, wanted: Sequence[str], after: int) -> Iterator[Piece]:
    n_rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    ends = np.cumsum([0, *n_rows])
    first_group = int(np.searchsorted(ends[1:], after, side="right"))
    first_row = int(ends[first_group])
    size, groups = max(1, _PIECE_VALUES // len(wanted)), list(range(first_group, len(n_rows)))
    for batch in file.iter_batches(size, row_groups=groups, columns=wanted) if groups else ():
        yield first_row, batch
        first_row += batch.num_rows


def _open_arrow(path: Located, stack: contextlib.ExitStack, after: int) -> TableSource:
    import pyarrow as pa

    source = stack.enter_context(
        path.open() if isinstance(path, RemoteFile) else pa.memory_map(os.fspath(path))
    )
    is_file = source.read(6) == b"ARROW1"  # the stream format has no magic bytes
    source.seek(0)
    reader = stack.enter_context(
        pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
    )
    names = tuple(reader.schema.names)
    refuse_twins(names)

    def pieces(numbers: Sequence[str], identifiers: Sequence[str]) -> Iterator[Piece]:
        batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
        first_row = 0
        for batch in batches:
            if first_row + batch.num_rows > after:
                batch.validate(full=True)  # a damaged file must not crash the process
                yield first_row, batch.select([*numbers, *identifiers])
            first_row += batch.num_rows

    return TableSource(names, pieces, None, dict(reader.schema.metadata or {}), reader.schema)


def _open_csv(path: Located, form: TableFormat, stack: contextlib.ExitStack) -> TableSource:
    import pyarrow as pa

    raw = stack.enter_context(open_file(path))
    is_seekable = raw.seekable()
    file: Any = stack.enter_context(io.BufferedReader(raw))
    if form.compression is not None:
        file = stack.enter_context(pa.CompressedInputStream(file, form.compression))
        file = stack.enter_context(io.BufferedReader(file))
    delimiter = DELIMITERS[form.kind]
    names, n_bytes = _csv_header(file, delimiter)
    refuse_twins(names)
    n_read = raw.tell if is_seekable else None
    if is_seekable and not isinstance(path, RemoteFile):
        # Arrow reads ahead on threads of its own, also when the rows are not wanted any more. One that comes back to
        # a file of Python's while the interpreter ends takes the process down with it.
        rows = stack.enter_context(pa.OSFile(os.fspath(path)))
        n_read = rows.tell
        if form.compression is not None:
            rows = stack.enter_context(pa.CompressedInputStream(rows, form.compression))
        rows.read(n_bytes)
    else:
        rows = file

    def pieces(numbers: Sequence[str], identifiers: Sequence[str]) -> Iterator[Piece]:
        first_row = 0
        for batch in _csv_batches(rows, delimiter, names, numbers, identifiers):
            yield first_row, batch
            first_row += batch.num_rows

    return TableSource(names, pieces, n_read=n_read)


def _csv_header(file: BinaryIO, delimiter: str) -> tuple[tuple[str, ...], int]:
    """The names of the columns, and the number of bytes before the first row."""
    line = file.readline(_CSV_BLOCK)
    n_bytes = len(line)
    line = line.removeprefix(codecs.BOM_UTF8)
    while line in (b"\n", b"\r\n"):
        line = file.readline(_CSV_BLOCK)
        n_bytes += len(line)
    # A quoted name may contain a line break.
    while line.count(b'"') % 2 == 1 and len(line) < _CSV_BLOCK:
        more = file.readline(_CSV_BLOCK)
        if not more:
            break
        line += more
        n_bytes += len(more)
    if not line.strip():
        raise DataError("there is no header line; the first line must name the columns.")
    if not line.endswith(b"\n") and len(line) >= _CSV_BLOCK:
        raise DataError(f"the header line is longer than {_CSV_BLOCK:,} bytes.")
    text = line.decode().rstrip("\r\n")
    try:
        return tuple(next(csv.reader([text], delimiter=delimiter, strict=True))), n_bytes
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
        # Arrow's messages have row numbers only with one thread.
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
    if len(message) > _LONGEST_MESSAGE:  # it holds the value, which may be of any length
        message = f"{message[:_LONGEST_MESSAGE]}'"
    match = _TEXT_IN_NUMBERS.search(message)
    if match is None:
        return DataError(f"{_one_line(message)}.")
    column, row, text = match.groups()
    return TextInNumbersError("" if row is None else f"row {row}, ", names[int(column)], text)


def _one_line(error: object) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip(".")


# Writing.


def _batches(
    schema: Any, others: Sequence[Any], features: Features, known: Dictionaries
) -> Iterator[Any]:
    import pyarrow as pa

    step = max(1, _BLOCK_VALUES // len(schema))
    for first in range(0, len(features), step):
        block = np.ascontiguousarray(features[first : first + step].T)
        other_columns = [column.slice(first, len(block[0])) for column in others]
        columns = [
            pa.array(column) if dictionary is None else decode(column, dictionary)
            for column, dictionary in zip(block, known, strict=True)
        ]
        yield pa.record_batch([*other_columns, *columns], schema=schema)


def _write_typed(path: Path, form: TableFormat, schema: Any, batches: Iterator[Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any
    if form.kind == ".parquet":
        writer = pq.ParquetWriter(
            os.fspath(path), schema, compression="zstd", write_page_checksum=True
        )
    else:
        writer = pa.ipc.new_file(os.fspath(path), schema)
    with writer:
        for batch in batches:
            writer.write_batch(batch)


@contextlib.contextmanager
def _output(path: Path, compression: str | None) -> Iterator[Any]:
    import pyarrow as pa

    with path.open("wb") as plain:
        if compression is None:
            yield plain
        else:
            with pa.CompressedOutputStream(plain, compression) as packed:
                yield packed


def _csv_line(names: Sequence[str], delimiter: str) -> bytes:
    needs_quotes = re.compile(_needs_quotes(delimiter))
    quoted = [
        '"' + name.replace('"', '""') + '"' if needs_quotes.search(name) else name for name in names
    ]
    return (delimiter.join(quoted) + "\n").encode()


def _needs_quotes(delimiter: str) -> str:
    """A pattern of text that must be quoted, with the same meaning for Python and Arrow."""
    return f'[{delimiter}"\\r\\n]|^[ \\t]|[ \\t]$'


def _csv_text(batch: Any, delimiter: str) -> memoryview:
    """The rows of ``batch`` as CSV text, joined by Arrow in one buffer."""
    import pyarrow as pa

    texts = [
        _quoted(name, column, delimiter)
        if pa.types.is_large_string(column.type)
        else _shortest(column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return join_lines(texts, delimiter)


def join_lines(texts: Sequence[Any], delimiter: str) -> memoryview:
    """Lines of fields from Arrow texts, of which the last must be an array."""
    import pyarrow.compute as pc

    last = pc.binary_join_element_wise(texts[-1], _scalar("\n"), _scalar(""))
    lines = pc.binary_join_element_wise(*texts[:-1], last, _scalar(delimiter))
    return memoryview(lines.buffers()[2])


def _shortest(column: Any) -> Any:
    """Numbers as the shortest text that reads back the same, also for readers that parse float64 first.

    Rounding text to float64 and then to float32 can miss the nearest float32. The few affected
    numbers are written with the digits of float64.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = column.cast(pa.large_string())
    if not pa.types.is_float32(column.type):
        return text
    values = column.to_numpy()
    with np.errstate(over="ignore"):
        back = text.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float32)
    is_exact = (back == values) | np.isnan(values)
    if is_exact.all():
        return text
    return pc.if_else(pa.array(is_exact), text, column.cast(pa.float64()).cast(pa.large_string()))


def _quoted(name: str, column: Any, delimiter: str) -> Any:
    import pyarrow.compute as pc

    if pc.any(pc.equal(column, "")).as_py():
        raise DataError(
            f"an id in '{name}' is empty text, which CSV cannot tell from nothing. Write Parquet."
        )
    return pc.fill_null(quoted(column, delimiter), "")


def quoted(column: Any, delimiter: str) -> Any:
    """Text as CSV fields, quoted if it has a delimiter, a quote, a line break or an outer blank."""
    import pyarrow.compute as pc

    needs_quotes = pc.match_substring_regex(column, _needs_quotes(delimiter))
    quote = _scalar('"')
    doubled = pc.replace_substring(column, '"', '""')
    inside_quotes = pc.binary_join_element_wise(quote, doubled, quote, _scalar(""))
    return pc.if_else(needs_quotes, inside_quotes, column)


def _scalar(text: str) -> Any:
    import pyarrow as pa

    return pa.scalar(text, pa.large_string())


def constant_column(name: str, text: str, n_rows: int, is_id: bool) -> Any:
    """A column with the value of a folder's key in every row."""
    import pyarrow as pa

    if is_id:
        return pa.array([text] * n_rows, pa.large_string())
    if text == _NO_VALUE:
        return pa.nulls(n_rows, pa.float64())
    try:
        return pa.array(np.full(n_rows, float(text)))
    except ValueError:
        raise DataError(
            f"the folder {name}={text} stands for a column of numbers, but its value is none."
        ) from None


def untyped_ids(texts: Any) -> Array:
    """Ids from the text of a CSV file: whole numbers if all of them are; None for an empty field."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.all(pc.match_substring_regex(texts, _WHOLE_NUMBER)).as_py():
        for kind in (pa.int64(), pa.uint64()):
            with contextlib.suppress(pa.ArrowInvalid):  # too large for the type
                return frames.identifiers("", texts.cast(kind))
    ids = frames.identifiers("", texts)
    ids[ids == ""] = None
    return ids
