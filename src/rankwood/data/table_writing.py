"""Table files written block by block, so that a large matrix needs no second copy."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rankwood._files import atomic_path, explained_writing
from rankwood.data.table_files import DELIMITERS, TableFormat, table_format
from rankwood.dtypes import Features
from rankwood.errors import DataError

_BLOCK_VALUES = 1 << 22  # values of a Parquet row group, an Arrow batch, or a piece of CSV text


def write_columns(path: Path, schema: Any, others: Sequence[Any], features: Features) -> None:
    """Write the Arrow arrays ``others``, then the features, as the columns of ``schema``."""
    form = table_format(path)
    if not path.parent.is_dir():
        raise DataError(f"{path} cannot be written: there is no folder {path.parent}.")
    if path.is_dir():
        raise DataError(f"{path} cannot be written: it is a folder.")
    with explained_writing(path), atomic_path(path) as temporary:
        if form.kind in DELIMITERS:
            with _output(temporary, form.compression) as file:
                file.write(_csv_line(schema.names, DELIMITERS[form.kind]))
                for batch in _batches(schema, others, features):
                    file.write(_csv_text(batch, DELIMITERS[form.kind]))
        else:
            _write_typed(temporary, form, schema, _batches(schema, others, features))


def _batches(schema: Any, others: Sequence[Any], features: Features) -> Iterator[Any]:
    import pyarrow as pa

    step = max(1, _BLOCK_VALUES // len(schema))
    for first in range(0, len(features), step):
        block = np.ascontiguousarray(features[first : first + step].T)
        found = [column.slice(first, len(block[0])) for column in others]
        yield pa.record_batch([*found, *(pa.array(column) for column in block)], schema=schema)


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
    """A pattern found in text that must stand in quotes: Python and Arrow agree on its meaning."""
    return f'[{delimiter}"\\r\\n]|^[ \\t]|[ \\t]$'


def _csv_text(batch: Any, delimiter: str) -> memoryview:
    """The rows of ``batch`` as CSV text: its columns joined by Arrow in one piece of memory."""
    import pyarrow as pa

    texts = [
        _quoted(name, column, delimiter)
        if pa.types.is_large_string(column.type)
        else _shortest(column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return join_lines(texts, delimiter)


def join_lines(texts: Sequence[Any], delimiter: str) -> memoryview:
    """Lines of fields: the Arrow texts, of which the last is an array, side by side."""
    import pyarrow.compute as pc

    last = pc.binary_join_element_wise(texts[-1], _scalar("\n"), _scalar(""))
    lines = pc.binary_join_element_wise(*texts[:-1], last, _scalar(delimiter))
    return memoryview(lines.buffers()[2])


def _shortest(column: Any) -> Any:
    """Numbers as the shortest text that gives them back, also to readers that parse float64 first.

    Rounding text to float64 and then to float32 can miss the nearest float32. The few numbers to
    whose shortest text that happens are written with the digits of float64.
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
    return quoted(column, delimiter)


def quoted(column: Any, delimiter: str) -> Any:
    """Text as CSV fields, in quotes where a delimiter, a quote, a line break or a blank is."""
    import pyarrow.compute as pc

    needs_quotes = pc.match_substring_regex(column, _needs_quotes(delimiter))
    quote = _scalar('"')
    doubled = pc.replace_substring(column, '"', '""')
    inside_quotes = pc.binary_join_element_wise(quote, doubled, quote, _scalar(""))
    return pc.if_else(needs_quotes, inside_quotes, column)


def _scalar(text: str) -> Any:
    import pyarrow as pa

    return pa.scalar(text, pa.large_string())
