"""Ranking data as LETOR lines, formatted on threads in blocks of rows.

Arrow formats the values of a block, Python its labels and ids, and the kernel ``write_rows`` joins the texts to lines.
A list of texts is passed to the kernel as two arrays: text ``t`` is ``pieces[offsets[t] : offsets[t + 1]]``.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from rankwood import dtypes
from rankwood._core import checks, threads
from rankwood._core.jit import kernel
from rankwood.data.dataset import RankingData
from rankwood.data.letor.blocks import excerpt
from rankwood.dtypes import Array, Bytes, Features, Floats, Rows
from rankwood.errors import DataError

_BLOCK_VALUES = 1 << 19  # about 5 MB of text
_UNREADABLE_QUERY = re.compile("[ \t\r\n\0#]")
_UNREADABLE_DOCUMENT = re.compile("[ \t\r\n\0]")  # within a comment, # has no meaning
_FIXED_BYTES = len(" qid:") + len(" # docid = ") + len("\n")

_QUERY = np.frombuffer(b" qid:", np.uint8)
_DOCUMENT = np.frombuffer(b" # docid = ", np.uint8)


def line_blocks(data: RankingData, skip_zeros: bool) -> Iterator[memoryview]:
    """The lines of ``data``, in order, a few thousand at a time."""
    if data.query_ids is None:
        raise DataError(
            "LETOR text needs query ids, and these data have none. Make them with query_ids=."
        )
    _check_ids("query", data.queries, _UNREADABLE_QUERY)
    if data.doc_ids is not None:
        _check_ids("document", data.doc_ids, _UNREADABLE_DOCUMENT)
    ids = _texts(f" {number}:" for number in range(1, data.n_features + 1))
    n_rows = max(1, _BLOCK_VALUES // max(1, data.n_features))
    n_threads = threads.resolve_threads()
    running: deque[Future[memoryview]] = deque()
    try:
        for first in range(0, data.n_documents, n_rows):
            part = slice(first, first + n_rows)
            running.append(threads.submit(n_threads, _lines, data, part, ids, skip_zeros))
            if len(running) > n_threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()


def _check_ids(kind: str, ids: Array, unreadable: re.Pattern[str]) -> None:
    """Raise for ids that could not be read back; an empty document id means that there is none."""
    if ids.dtype.kind in "iu":
        return
    for number, value in enumerate(ids.tolist()):
        text = str(value)
        if not text and kind == "query":
            raise DataError(
                f"{kind} id number {number} is empty; LETOR text cannot hold it. Rename it."
            )
        match = unreadable.search(text)
        if match or not _is_unicode(text):
            what = (
                f"the character {excerpt(match[0].encode())}"
                if match
                else "characters that are not Unicode"
            )
            raise DataError(
                f"{kind} id {excerpt(text.encode('utf-8', 'backslashreplace'))} holds {what}, "
                "which LETOR text cannot hold there. Rename it."
            )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _lines(data: RankingData, part: slice, ids: _Texts, skip_zeros: bool) -> memoryview:
    features = data.features[part]
    labels, label_of_row = _label_texts(data.labels[part])
    queries, query_of_row = _query_texts(data.query_ids[part])  # type: ignore[index]
    values = _value_texts(features)
    docs = _texts("" if data.doc_ids is None else str(doc) for doc in _docs(data, part))
    n_bytes_of_row = len(ids.pieces) + labels.longest + queries.longest + _FIXED_BYTES
    out = np.empty(
        len(features) * n_bytes_of_row + len(values.pieces) + len(docs.pieces), dtypes.TEXT
    )
    whole_rows = 1 if part.start == 0 else 0
    length = write_rows(
        label_of_row,
        *labels,
        query_of_row,
        *queries,
        *ids,
        *values,
        *docs,
        skip_zeros,
        whole_rows,
        out,
    )
    return memoryview(out)[:length]  # type: ignore[arg-type]


def _docs(data: RankingData, part: slice) -> Iterable[object]:
    return (
        range(*part.indices(data.n_documents))
        if data.doc_ids is None
        else data.doc_ids[part].tolist()
    )


class _Texts(NamedTuple):
    """A list of texts as two arrays for the kernel."""

    offsets: Rows
    pieces: Bytes

    @property
    def longest(self) -> int:
        return int(np.diff(self.offsets).max(initial=0))


def _texts(texts: Iterable[str]) -> _Texts:
    pieces = [text.encode() for text in texts]
    offsets = np.zeros(len(pieces) + 1, dtypes.ROW)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    joined = np.frombuffer(b"".join(pieces), dtypes.TEXT)
    return _Texts(checks.read_only(offsets), checks.read_only(joined))


def _label_texts(labels: Floats) -> tuple[_Texts, Rows]:
    """The text of each distinct label, and the index of each row's label; -0 and 0 are distinct."""
    bits, label_of_row = np.unique(labels.view(np.int64), return_inverse=True)
    texts = _texts(repr(label).removesuffix(".0") for label in bits.view(dtypes.LABEL).tolist())
    return texts, checks.read_only(label_of_row.astype(dtypes.ROW))


def _query_texts(query_ids: Array) -> tuple[_Texts, Rows]:
    """The text of each run of equal query ids, and the run of each row."""
    is_head = np.ones(len(query_ids), bool)
    is_head[1:] = query_ids[1:] != query_ids[:-1]
    run_of_row = (np.cumsum(is_head) - 1).astype(dtypes.ROW)
    return _texts(str(query) for query in query_ids[is_head].tolist()), checks.read_only(run_of_row)


def _value_texts(features: Features) -> _Texts:
    """The shortest text of each value that reads back as the same float32."""
    import pyarrow
    import pyarrow.compute

    values = pyarrow.array(features.ravel(), from_pandas=False)
    texts = pyarrow.compute.cast(values, pyarrow.string())
    _, offsets, pieces = texts.buffers()
    offsets = (
        np.frombuffer(offsets, np.int32, len(values) + 1) if len(values) else np.zeros(1, np.int32)
    )
    return _Texts(
        checks.read_only(offsets.astype(dtypes.ROW)),
        checks.read_only(np.frombuffer(pieces if pieces is not None else b"", dtypes.TEXT)),
    )


@kernel
def write_rows(
    label_of_row: Rows,
    label_offsets: Rows,
    label_pieces: Bytes,
    query_of_row: Rows,
    query_offsets: Rows,
    query_pieces: Bytes,
    id_offsets: Rows,
    id_pieces: Bytes,
    value_offsets: Rows,
    value_pieces: Bytes,
    doc_offsets: Rows,
    doc_pieces: Bytes,
    skip_zeros: bool,
    whole_rows: int,
    out: Bytes,
) -> Any:
    """Write a line per row and return their total length; the pieces of ids are `` 1:``, `` 2:`` and so on.

    With ``skip_zeros``, features whose text is ``0`` are left out, except the last feature of the
    first ``whole_rows`` rows, which tells a reader the number of features. A row with an empty
    document id gets no comment.
    """
    n_features = id_offsets.size - 1
    position: Any = np.int64(0)
    for row in range(label_of_row.size):
        label = label_of_row[row]
        position = put(label_pieces, label_offsets[label], label_offsets[label + 1], out, position)
        position = put(_QUERY, np.int64(0), _QUERY.size, out, position)
        query = query_of_row[row]
        position = put(query_pieces, query_offsets[query], query_offsets[query + 1], out, position)
        for feature in range(n_features):
            begin = value_offsets[row * n_features + feature]
            end = value_offsets[row * n_features + feature + 1]
            is_zero = end - begin == 1 and value_pieces[begin] == 48
            is_needed = row < whole_rows and feature == n_features - 1
            if skip_zeros and is_zero and not is_needed:
                continue
            position = put(id_pieces, id_offsets[feature], id_offsets[feature + 1], out, position)
            position = put(value_pieces, begin, end, out, position)
        if doc_offsets[row + 1] > doc_offsets[row]:
            position = put(_DOCUMENT, np.int64(0), _DOCUMENT.size, out, position)
            position = put(doc_pieces, doc_offsets[row], doc_offsets[row + 1], out, position)
        out[position] = 10
        position += 1
    return position


@kernel
def put(pieces: Bytes, begin: Any, end: Any, out: Bytes, position: Any) -> Any:
    """Copy a piece of text to ``position``; returns the position after it.

    Callers pass ``np.int64(0)``: a literal 0 has a type of its own and would compile this kernel twice.
    """
    for offset in range(begin, end):
        out[position] = pieces[offset]
        position += 1
    return position
