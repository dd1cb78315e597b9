"""LETOR / SVMlight text, ``label qid:ID id:value … # comment``: read on all cores, written exactly.

How a file becomes data, in four stops: ``letor_reading`` hands blocks of lines to threads and joins
what they make of them; ``letor_blocks`` parses one block; ``letor_row_kernels`` is the compiled
loop over its rows; ``letor_kernels`` reads one number, id or comment.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rankwood import _checks, _threads
from rankwood.data.dataset import RankingData
from rankwood.data.sources import (
    PathLike,
    display_name,
    is_regular_file,
    open_sink,
)
from rankwood.errors import DataWarning

if TYPE_CHECKING:
    from rankwood.data.letor_blocks import Grammar

Progress = Callable[[int, int | None], None]

_ABSENT = {"zero": 0.0, "missing": float("nan")}
_ORDERS = ("ascending", "any")
MAX_FEATURES = 100_000  # a larger feature id is taken for a mistake

log = logging.getLogger(__name__)


def read_letor(
    path: PathLike,
    *,
    n_features: int | None = None,
    absent: Literal["zero", "missing"] = "zero",
    order: Literal["ascending", "any"] = "ascending",
    strict: bool = False,
    cache: bool | None = None,
    verify: bool = False,
    max_features: int = MAX_FEATURES,
    n_threads: int | None = None,
    progress: Progress | None = None,
) -> RankingData:
    """Ranking data from LETOR / SVMlight text.

    Parameters
    ----------
    path
        A file, plain or compressed (gzip, zstd, bzip2), a named pipe, or ``-`` for standard input.
    n_features
        Number of columns; a larger feature id is then an error. By default the file's largest id.
    absent
        What a feature is that a row does not mention: ``"zero"`` or ``"missing"`` (NaN).
    order
        ``"ascending"`` refuses rows whose feature ids do not ascend; ``"any"`` takes them.
    strict
        Refuse a query whose rows are separated by another query, instead of warning.
    cache
        Keep a binary copy in the user's cache folder, and use it. By default for large files only.
    verify
        Compare the whole file with the one the binary copy was made from.
    max_features
        A feature id above is taken for a mistake.
    n_threads
        Threads that parse; by default all cores.
    progress
        Called now and then with the bytes read so far and the bytes of the file, None if unknown.

    Query ids become int64 if all of them are whole numbers, else text. Document ids are taken from
    comments that hold ``docid = X``; a row without one gets an empty id if another row has one.
    The result, and the first error told, are the same for any number of threads.
    """
    from rankwood.data.letor_reading import parse_file

    grammar = make_grammar(path, n_features, absent, order, max_features)
    threads = _threads.resolve_threads(n_threads)

    def parse() -> RankingData:
        return parse_file(path, grammar, strict, threads, progress)

    if not _is_cached(path, cache):
        return parse()
    return _read_through_cache(Path(path), grammar, strict, verify, parse)


def make_grammar(
    path: PathLike,
    n_features: int | None,
    absent: str,
    order: str,
    max_features: int = MAX_FEATURES,
) -> Grammar:
    """How a file is to be understood, from options that are checked here."""
    from rankwood.data.letor_blocks import Grammar

    return Grammar(
        name=display_name(path),
        absent=_ABSENT[_checks.one_of("absent", absent, _ABSENT)],
        any_order=_checks.one_of("order", order, _ORDERS) == "any",
        n_features=None
        if n_features is None
        else _checks.whole_number("n_features", n_features, 1),
        max_features=_checks.whole_number("max_features", max_features, 1),
    )


def _is_cached(path: PathLike, cache: bool | None) -> bool:
    if cache is False or not is_regular_file(path):
        return False
    from rankwood.data.store import CACHE_FROM_BYTES

    return cache is True or os.stat(path).st_size >= CACHE_FROM_BYTES


def _read_through_cache(
    path: Path, grammar: Grammar, strict: bool, verify: bool, parse: Callable[[], RankingData]
) -> RankingData:
    from rankwood.data import store
    from rankwood.data.letor_reading import warn_of_separated

    options = {
        "format": "letor",
        "absent": str(grammar.absent),
        "any_order": grammar.any_order,
        "n_features": grammar.n_features,
        "max_features": grammar.max_features,
    }
    was_parsed = False

    def read() -> RankingData:
        nonlocal was_parsed
        was_parsed = True
        return parse()

    data = store.cached(path, options, read, verify=verify)
    if not was_parsed and data.grouping.n_separated:
        if strict:
            parse()  # raises the error, with the line
        warn_of_separated(grammar.name, data)
    return data


def write_letor(data: RankingData, path: PathLike, *, skip_zeros: bool = False) -> None:
    """Write LETOR / SVMlight text that reads back as the same data.

    Parameters
    ----------
    data
        What to write; it needs query ids. Feature names and weights have no place in the format.
    path
        The file, compressed if its name ends in ``.gz``, ``.zst`` or ``.bz2``; ``-`` is standard
        output. It appears when it is complete; until then an older file stays.
    skip_zeros
        Leave features out that are 0. The last feature of the first row is written all the same, so
        that the number of features is kept.
    """
    from rankwood.data.letor_writing import line_blocks

    for name in ("row_weights", "query_weights"):
        if getattr(data, name) is not None:
            message = (
                f"{name} have no place in LETOR text and are not written to {os.fspath(path)}."
            )
            warnings.warn(message, DataWarning, stacklevel=2)
    if data.feature_names is not None:
        log.info("LETOR text numbers its features: names are not written to %s", path)
    blocks = line_blocks(data, skip_zeros)
    first = next(blocks, b"")  # what cannot be written is refused before the file is touched
    with open_sink(path) as sink:
        sink.write(first)
        for block in blocks:
            sink.write(block)
