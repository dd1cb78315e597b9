"""What workers read of the data that ``distribute`` brings to them: pieces, and where the rows of blocks come from.

A *piece* is a file, or a partition of a Dask DataFrame. A worker reads everything but the features of a piece, and says
what is special of these (``PieceRead``); the client puts the pieces together (``AllRead``). Later a worker reads the
features of a block from its *source*, which knows the files and places, or the partitions, that its rows are in.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.binning.bins import find_specials
from rankwood.binning.folder import open_binned
from rankwood.data.dataset import (
    Judgments,
    RankingData,
    group_rows,
    refuse_repeated_positions,
)
from rankwood.data.frames import Frame, as_frame, fill_matrix, refuse_twins, without_index
from rankwood.data.reading import ReadOptions, roles_in
from rankwood.data.sources import InputFile, find_inputs
from rankwood.data.streams import BEGIN, Place, Stream, TableStream, open_stream
from rankwood.data.tables import (
    Roles,
    frame_in_roles,
    names_of_features,
    roles_of_frame,
)
from rankwood.dtypes import Array, Bytes, Features, Floats, Rows
from rankwood.errors import DataError
from rankwood.training.bin_files import is_int64

_ROWS_AT_ONCE = 1 << 16  # of raw features on a worker


@dataclass(frozen=True, eq=False)
class PieceRead:
    """What a worker says of a file or partition: everything but the features, and what is special of these."""

    labels: Floats
    run_rows: Rows  # the first row of each stretch of rows with one query id
    run_ids: list[Any] | None  # None without queries
    run_places: Rows  # lines or rows before each of these in the file
    row_weights: Floats | None
    query_weights: Floats | None  # of each row
    positions: Array | None
    special: (
        Array  # whether each feature has NaN, +inf, -inf in a row that counts; and NaN in any row
    )


def _product(row_weights: Floats | None, query_weights: Floats | None) -> Floats | None:
    """The weight of each row times that of its query."""
    if row_weights is None or query_weights is None:
        return row_weights if query_weights is None else query_weights
    return row_weights * query_weights


@dataclass(frozen=True, eq=False)
class AllRead:
    """What is read of all pieces, in the caller's order."""

    pieces: list[PieceRead]
    ids_have_types: bool
    names: list[str]

    @property
    def starts(self) -> Rows:
        """The first row of each piece, and the number of all."""
        return np.cumsum([0, *(piece.labels.size for piece in self.pieces)])

    @property
    def has_missing(self) -> Array:
        """Whether each feature has missing values in any row."""
        found: Array = np.logical_or.reduce([piece.special[3] for piece in self.pieces])
        return found

    def judgments(self, shuffle: bool) -> Judgments:
        """Labels, queries and weights."""
        labels = np.concatenate([piece.labels for piece in self.pieces])
        if labels.size == 0:
            raise DataError("there are no rows to distribute.")
        checks.labels(labels, labels.size)
        row_weights = _joined([piece.row_weights for piece in self.pieces])
        if row_weights is not None:
            checks.weights("row weights", row_weights, labels.size, may_be_all_zero=True)
        of_row = _joined([piece.query_weights for piece in self.pieces])
        if self.pieces[0].run_ids is None:
            return Judgments(checks.read_only(labels), None, None, row_weights)
        ids, heads = self._runs()
        number_of: dict[Any, int] = {}
        numbers = [number_of.setdefault(query, len(number_of)) for query in ids]
        if not shuffle and len(number_of) < len(numbers):
            self._refuse_scattered(ids, heads)
        query_of_row = np.repeat(numbers, np.diff(heads, append=labels.size))
        grouping = group_rows(query_of_row)
        grouping = dataclasses.replace(grouping, queries=_as_array(list(number_of)))
        query_weights = None
        if of_row is not None:
            query_weights = of_row[grouping.row_order[grouping.offsets[:-1]]]
            checks.weights("query weights", query_weights, query_weights.size, may_be_all_zero=True)
            differs = of_row != query_weights[query_of_row]
            if differs.any():
                query = list(number_of)[int(query_of_row[np.argmax(differs)])]
                raise DataError(
                    f"the rows of query {query} have different query weights. A query has one."
                )
        judgments = Judgments(
            checks.read_only(labels),
            grouping.query_of_row,
            None,
            row_weights,
            query_weights,
            _joined([piece.positions for piece in self.pieces]),
        )
        judgments.__dict__["grouping"] = grouping
        refuse_repeated_positions(judgments, lambda row: f"{self._place(row)}: the position")
        return judgments

    def _runs(self) -> tuple[list[Any], Rows]:
        """The id and the first row of each stretch of rows with one id, over all pieces."""
        ids = [query for piece in self.pieces for query in piece.run_ids or ()]
        if not self.ids_have_types and all(is_int64(query) for query in ids):
            ids = [int(query) for query in ids]
        starts = self.starts
        heads = np.concatenate(
            [piece.run_rows + start for piece, start in zip(self.pieces, starts, strict=False)]
        )
        pairs = zip(ids[1:], ids, strict=False)
        is_new = np.array([True, *(one != other for one, other in pairs)])
        return [query for query, new in zip(ids, is_new.tolist(), strict=True) if new], heads[
            is_new
        ]

    def _place(self, row: int) -> str:
        """How messages name a row."""
        piece = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"{self.names[piece]}, row {row - int(self.starts[piece]) + 1}"

    def _refuse_scattered(self, ids: list[Any], heads: Rows) -> None:
        seen: set[Any] = set()
        for query, head in zip(ids, heads.tolist(), strict=True):
            if query in seen:
                raise DataError(
                    f"{self._place(head)}: query {query} comes again after "
                    "rows of another query. The rows of a query must be together, and may go on in the next file or "
                    "partition: sort the rows by query (files in the order of their names; "
                    "frame.sort_values('qid')), or pass shuffle=True, with which every worker reads all of the data."
                )
            seen.add(query)


def _joined(parts: Sequence[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return checks.read_only(np.concatenate(known)) if len(known) == len(parts) else None


def _as_array(ids: list[Any]) -> Array:
    if all(isinstance(query, int) and -(2**63) <= query < 2**63 for query in ids):
        return np.array(ids, np.int64)
    array = np.empty(len(ids), object)
    array[:] = ids
    return array


def _special(matrix: Features, weights: Floats | None) -> Array:
    """What is special of the rows that count, and whether any row has missing values: 4 × features."""
    found = np.zeros((4, matrix.shape[1]), bool)
    if len(matrix) == 0:
        return found
    every = find_specials(checks.read_only(np.ascontiguousarray(matrix)), 1)
    found[3] = every[0]
    if weights is None or weights.min() > 0:
        found[:3] = every
    elif weights.any():
        found[:3] = find_specials(checks.read_only(np.ascontiguousarray(matrix[weights > 0])), 1)
    return found


# Files.


class FileTable:
    """Files, each of which is a piece."""

    def __init__(self, paths: Any, options: ReadOptions) -> None:
        self._inputs = find_inputs(paths, are_reread=True)
        self.names = [str(file.path) for file in self._inputs]
        stream = open_stream(self._inputs, options)
        self.ids_have_types = stream.ids_have_types
        self._options = options
        self._is_table = isinstance(stream, TableStream)
        self.absent = None if self._is_table else options.absent  # what lines leave out
        if isinstance(stream, TableStream):
            self._options = dataclasses.replace(options, features=stream.roles.features)
            self.n_features = stream.n_features
        self.feature_names = stream.feature_names

    def pieces(self, client: Any) -> list[Any]:
        """Futures of what is read of each file."""
        if not self._is_table:
            widths = client.map(_width, self._files, pure=False)
            self.n_features = max(client.gather(widths))
            self._options = dataclasses.replace(self._options, n_features=self.n_features)
        futures: list[Any] = client.map(_read_file, self._files, pure=False)
        return futures

    @property
    def _files(self) -> list[Files]:
        return [Files((file,), self._options) for file in self._inputs]

    def sampled(self, client: Any, piece: int, rows: Rows) -> Any:
        """A future of the features of some rows of a file."""
        return client.submit(_rows_of_file, self._files[piece], rows, pure=False)

    def sources(self, read: AllRead, layout: Sequence[Rows]) -> list[Any]:
        """Where the rows of each block come from: a place from which they are read, or the rows of a whole read."""
        starts = read.starts
        files = Files(tuple(self._inputs), self._options)
        sources = []
        for rows in layout:
            first, last = int(rows[0]), int(rows[-1]) + 1
            piece = int(np.searchsorted(starts, first, side="right")) - 1
            own = read.pieces[piece]
            runs = own.run_rows + starts[piece]
            run = int(np.searchsorted(runs, first, side="right")) - 1
            begin = Place(piece, int(own.run_places[run]))
            offsets = rows - int(runs[run])
            is_whole = last - first == rows.size
            length = last - int(runs[run])
            sources.append(
                FileSource(files, begin, length, None if is_whole and offsets[0] == 0 else offsets)
            )
        return sources


@dataclass(frozen=True)
class Files:
    """Files and how they are read."""

    inputs: tuple[InputFile, ...]
    options: ReadOptions

    def stream(self, first: int = 0) -> Stream:
        """The stream of the files from one of them on; it knows its features."""
        stream = open_stream(self.inputs[first:], self.options)
        if self.options.n_features is not None:
            stream.fix_width(self.options.n_features)
        return stream


def _width(file: Files) -> int:
    stream = file.stream()
    return stream.count().width


def _read_file(file: Files) -> PieceRead:
    """Everything but the features of a file."""
    stream = file.stream()
    labels, heads, places, row_weights, query_weights, positions = [], [], [], [], [], []
    ids: list[Any] = []
    special = np.zeros((4, stream.n_features), bool)
    n_rows = 0
    for chunk in stream.chunks(BEGIN, None, only_features=False):
        labels.append(chunk.labels)
        heads.append(np.asarray(chunk.run_rows) + n_rows)
        places.append(np.asarray(chunk.run_places))
        ids += chunk.query_ids if stream.has_queries else ()
        row_weights.append(chunk.row_weights)
        query_weights.append(chunk.query_weights)
        positions.append(chunk.positions)
        n_rows += chunk.n_rows
        weights = _product(chunk.row_weights, chunk.query_weights)
        special |= _special(np.ascontiguousarray(chunk.features), weights)
    none = np.zeros(0, np.int64)
    return PieceRead(
        np.concatenate([np.zeros(0), *labels]),
        np.concatenate([none, *heads]).astype(np.int64),
        ids if stream.has_queries else None,
        np.concatenate([none, *places]).astype(np.int64),
        _joined(row_weights) if labels else None,
        _joined(query_weights) if labels else None,
        _joined(positions) if labels else None,
        special,
    )


def _rows_of_file(file: Files, rows: Rows) -> Features:
    """The features of some rows of a file, ascending."""
    kept, first = [], 0
    for chunk in file.stream().chunks(BEGIN, None, only_features=True):
        last = first + chunk.n_rows
        inside = slice(*np.searchsorted(rows, [first, last]).tolist())
        kept.append(np.ascontiguousarray(chunk.features[rows[inside] - first]))
        first = last
        if inside.stop == rows.size:
            break
    return np.concatenate(kept)


@dataclass(frozen=True, eq=False)
class FileSource:
    """Rows of files: ``length`` of them from a place on, or those of them with these offsets."""

    files: Files
    begin: Place
    length: int
    offsets: Rows | None
    needs: tuple[Any, ...] = ()

    def features(self) -> Iterator[Features]:
        """The raw features, some rows at a time."""
        stream = self.files.stream(self.begin.file)
        begin = Place(0, self.begin.skipped)
        whole, rest = divmod(self.length, _ROWS_AT_ONCE)
        lengths = [_ROWS_AT_ONCE] * whole + [rest] * (rest > 0)
        first = 0
        for matrix in stream.features(lengths, begin):
            if self.offsets is None:
                yield matrix
            else:
                inside = slice(
                    *np.searchsorted(self.offsets, [first, first + len(matrix)]).tolist()
                )
                if inside.stop > inside.start:
                    yield np.ascontiguousarray(matrix[self.offsets[inside] - first])
            first += len(matrix)


# Dask DataFrames.


class FrameTable:
    """A Dask DataFrame, each partition of which is a piece."""

    ids_have_types = True
    absent = None

    def __init__(self, frame: Any, options: ReadOptions) -> None:
        self._partitions = frame.to_delayed()
        columns = [str(name) for name in frame.columns]
        refuse_twins(columns)
        given, names = roles_in(options), without_index(columns)
        roles = roles_of_frame("the frame", names, given, options.features, options.drop)
        self._roles = dataclasses.replace(roles, doc=None)  # document ids stay where they are
        self.n_features = len(roles.features)
        self.feature_names = names_of_features(roles)
        self.names = [f"partition {number}" for number in range(len(self._partitions))]

    def pieces(self, client: Any) -> list[Any]:
        """Futures of what is read of each partition."""
        return [self._submit(client, _read_frame, each) for each in self._partitions]

    def sampled(self, client: Any, piece: int, rows: Rows) -> Any:
        """A future of the features of some rows of a partition."""
        return self._submit(client, _rows_of_frame, self._partitions[piece], rows)

    def _submit(self, client: Any, function: Callable[..., Any], part: Any, *others: Any) -> Any:
        return client.submit(function, client.compute(part), self._roles, *others, pure=False)

    def sources(self, read: AllRead, layout: Sequence[Rows]) -> list[Any]:
        """Where the rows of each block come from: rows of some partitions."""
        sources = []
        for rows in layout:
            pieces, needs = [], []
            for piece, (first, last) in enumerate(itertools.pairwise(read.starts.tolist())):
                own = rows[slice(*np.searchsorted(rows, [first, last]).tolist())] - first
                if own.size:
                    pieces.append(own)
                    needs.append(self._partitions[piece])
            sources.append(FrameSource(self._roles, tuple(pieces), tuple(needs)))
        return sources


class FrameSource:
    """Some rows of some partitions."""

    def __init__(self, roles: Roles, rows: tuple[Rows, ...], needs: tuple[Any, ...]) -> None:
        self._roles = roles
        self._rows = rows
        self.needs = needs

    def features(self, *frames: Any) -> Iterator[Features]:
        """The raw features, partition by partition."""
        for frame, rows in zip(frames, self._rows, strict=True):
            yield _rows_of_frame(frame, self._roles, rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrameSource, (self._roles, self._rows, ())  # partitions travel as Dask's own


def _read_frame(frame: Any, roles: Roles) -> PieceRead:
    """Everything but the features of a partition."""
    data = frame_in_roles(_as_known_frame(frame), roles)
    n_rows = data.n_documents
    heads, ids, query_weights = np.zeros(0, np.int64), None, None
    if data.query_ids is not None:
        is_head = np.ones(n_rows, bool)
        is_head[1:] = data.query_ids[1:] != data.query_ids[:-1]
        heads = np.flatnonzero(is_head)
        ids = data.query_ids[heads].tolist()
        if data.query_weights is not None:
            query_weights = data.query_weights[data.query_of_row]
    special = _special(data.features, _product(data.row_weights, query_weights))
    return PieceRead(
        data.labels, heads, ids, heads, data.row_weights, query_weights, data.positions, special
    )


def _rows_of_frame(frame: Any, roles: Roles, rows: Rows) -> Features:
    """The features of some rows of a partition."""
    return np.ascontiguousarray(fill_matrix(_as_known_frame(frame), roles.features)[rows])


def _as_known_frame(partition: Any) -> Frame:
    """A partition of a Dask DataFrame as a frame."""
    frame = as_frame(partition)
    if frame is None:
        raise DataError(f"expected partitions that are tables, got {type(partition).__name__}.")
    return frame


# Folders of binned data.


@dataclass(frozen=True, eq=False)
class FolderSource:
    """Consecutive queries, or rows where there are no queries, of a folder of binned data."""

    folder: str
    first: int
    last: int
    needs: tuple[Any, ...] = ()

    def data(self) -> RankingData:
        """The rows of the block."""
        opened = open_binned(self.folder)
        if opened.data.query_ids is None:
            return opened.data.take_rows(np.arange(self.first, self.last))
        return opened[self.first : self.last].data

    def codes(self) -> Bytes:
        """The codes, features × rows."""
        stored: Any = self.data().features
        return np.array(stored.codes())
