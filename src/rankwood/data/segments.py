"""One column of a table that is neither feature, label nor id: a segment of queries to report on."""

from __future__ import annotations

import os
from pathlib import Path

from rankwood.data import columns, table_files
from rankwood.dtypes import Array
from rankwood.errors import DataError, UnknownName


def read_column(path: str | os.PathLike[str], name: str) -> Array:
    """The values of column ``name`` of a table file, one per row: text or whole numbers."""
    import pyarrow as pa

    with table_files.open_table(Path(path)) as source:
        if name not in source.names:
            raise UnknownName(f"column of {Path(path).name}", name, source.names)
        kept = [batch.column(name) for _, batch in source.pieces([], [name])]
        if not kept:
            raise DataError(f"{path}: there are no rows.")
        return columns.identifiers(name, pa.chunked_array(kept))
