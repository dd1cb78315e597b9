"""Consecutive rows cut into parts between queries, so that a part can be ranked on its own.

Words used here
    chunk     consecutive rows of a file, as the file's reader hands them on
    run       consecutive rows of a chunk with the same query id
    part      chunks that hold whole queries
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from rankwood.dtypes import Rows
from rankwood.errors import DataError, DataWarning


class Chunk(Protocol):
    """Consecutive rows; without queries they may be cut anywhere, so that every row is a run."""

    run_rows: Rows  # first row of each run

    @property
    def query_ids(self) -> Sequence[Hashable]:
        """The id of each run."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def split(self, run: int) -> tuple[Self, Self]:
        """The rows before a run, and the rows from it on."""
        ...


C = TypeVar("C", bound=Chunk)


def cut(chunks: Iterable[C], n_rows: int) -> Iterator[list[C]]:
    """Parts of ``n_rows`` rows and those that complete the last query; the very last may have fewer."""
    kept: list[C] = []
    n_kept = 0
    last: Hashable = None
    for chunk in chunks:
        rest = chunk
        while (run := _first_cut(rest, n_rows - n_kept, last)) is not None:
            before, rest = rest.split(run)
            part = [*kept, before] if before.n_rows else kept
            kept, n_kept, last = [], 0, None
            yield part  # which may be used up: nothing else holds its chunks
        if rest.n_rows:
            kept.append(rest)
            n_kept += rest.n_rows
            last = rest.query_ids[-1]
    if kept:
        yield kept


def _first_cut(chunk: Chunk, row: int, last: Hashable) -> int | None:
    """The first run at or after ``row`` that begins another query; ``last`` stands before the chunk."""
    ids = chunk.query_ids
    for run in range(int(np.searchsorted(chunk.run_rows, row)), len(ids)):
        if ids[run] != (ids[run - 1] if run else last):
            return run
    return None


class Returns:
    """Refuses a query that comes again after its part was handed on: it can no longer be ranked.

    The ids of all queries are kept for that. A query that comes again within a part is grouped, with
    one warning per file; ``strict`` refuses that too.
    """

    def __init__(self, name: str, place: Callable[[Any, int], str], strict: bool) -> None:
        self._name = name  # stands before the messages
        self._place = place  # how messages call the first row of a run
        self._strict = strict
        self._seen: set[Hashable] = set()
        self._has_warned = False

    def check(self, part: Sequence[Chunk]) -> None:
        """Raise if a query of the part was seen before; count its queries as seen."""
        ids = [
            query
            for query, _ in itertools.groupby(
                itertools.chain.from_iterable(chunk.query_ids for chunk in part)
            )
        ]
        if not self._seen.isdisjoint(ids):
            where = self._first_of(part, self._seen)
            raise DataError(
                f"{where} comes again, but its first rows were handed on already: reading in parts "
                "needs the rows of a query together. Sort the rows by query, or read the file as a "
                "whole (rankwood score --whole)."
            )
        if len(set(ids)) != len(ids):
            self._tell_of_separated(self._first_return(part))
        self._seen.update(ids)

    def _tell_of_separated(self, where: str) -> None:
        what = f"{where} comes again after rows of another query"
        if self._strict:
            raise DataError(f"{what}. Put the rows of a query together, or read without strict.")
        if not self._has_warned:
            self._has_warned = True
            message = (
                f"{what}. It is grouped, as far as its rows are read together; others may be too."
            )
            warnings.warn(message, DataWarning, stacklevel=5)

    def _first_of(self, part: Sequence[Chunk], seen: set[Hashable]) -> str:
        """The place and id of the first query that an earlier part had."""
        return next(
            self._described(chunk, run)
            for chunk in part
            for run, query in enumerate(chunk.query_ids)
            if query in seen
        )

    def _first_return(self, part: Sequence[Chunk]) -> str:
        """The place and id of the first query that was left within the part for another one."""
        seen: set[Hashable] = set()
        last: Hashable = None
        for chunk in part:
            for run, query in enumerate(chunk.query_ids):
                if query != last and query in seen:
                    return self._described(chunk, run)
                seen.add(query)
                last = query
        raise AssertionError("no query comes again")  # pragma: no cover - asked only if one does

    def _described(self, chunk: Chunk, run: int) -> str:
        return f"{self._name}{self._place(chunk, run)}: query {chunk.query_ids[run]}"
