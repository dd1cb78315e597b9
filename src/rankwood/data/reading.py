"""One reader for every kind of file, chosen by the file's name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rankwood.data.dataset import RankingData

TABLE_SUFFIXES = (".parquet", ".csv", ".tsv", ".arrow", ".feather")
COMPRESSION_SUFFIXES = (".gz", ".zst", ".bz2")
_HEAD_BYTES = 4096


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file. The first group is for tables, the second for LETOR text; ``strict`` is for both."""

    label: str | None = "label"  # None: there are none, or none are wanted
    query: str = "qid"
    doc: str | None = None
    drop: tuple[str, ...] = ()

    absent: Literal["zero", "missing"] = "zero"
    order: Literal["ascending", "any"] = "ascending"
    n_features: int | None = None
    cache: bool | None = None
    verify: bool = False

    strict: bool = False
    n_threads: int | None = None
    progress: Callable[[int, int | None], None] | None = None


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether the name is that of a Parquet, CSV or Arrow file; anything else is read as LETOR text."""
    name = Path(path).name.lower()
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    return name.endswith(TABLE_SUFFIXES)


def is_run_file(path: str | os.PathLike[str]) -> bool:
    """Whether the first line has the six fields of a TREC run; a pipe is not looked into."""
    from rankwood.data.sources import is_regular_file, open_source

    if not is_regular_file(path):
        return False
    head = bytearray(_HEAD_BYTES)
    with open_source(path) as source:
        n_bytes = source.fill(memoryview(head))
    lines = bytes(head[:n_bytes]).split(b"\n")
    first = next((line for line in lines if line.strip()), b"")
    return len(first.split()) == 6  # qid Q0 docid rank score tag


def read_data(path: str | os.PathLike[str], options: ReadOptions = ReadOptions()) -> RankingData:  # noqa: B008 - frozen
    """Ranking data from a table or LETOR text, by the file's name; ``-`` reads LETOR text from standard input."""
    if is_table(path):
        from rankwood.data.tables import read_table

        return read_table(
            path,
            label=options.label,
            query=options.query,
            doc=options.doc,
            drop=options.drop,
            strict=options.strict,
        )
    from rankwood.data.letor import read_letor

    return read_letor(
        path,
        n_features=options.n_features,
        absent=options.absent,
        order=options.order,
        strict=options.strict,
        cache=options.cache,
        verify=options.verify,
        n_threads=options.n_threads,
        progress=options.progress,
    )


def write_data(
    data: RankingData, path: str | os.PathLike[str], *, skip_zeros: bool = False
) -> None:
    """Write a table or LETOR text, by the file's name; ``-`` writes LETOR text to standard output."""
    if is_table(path):
        from rankwood.data.tables import write_table

        write_table(data, path)
    else:
        from rankwood.data.letor import write_letor

        write_letor(data, path, skip_zeros=skip_zeros)
