"""The compiled half of the LETOR writer: pieces of text in, lines out.

A list of texts comes as two arrays: text ``t`` is ``pieces[offsets[t] : offsets[t + 1]]``. A bare 0
as an argument would have a type of its own to numba, and ``put`` be compiled twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Bytes, Rows

_QUERY = np.frombuffer(b" qid:", np.uint8)
_DOCUMENT = np.frombuffer(b" # docid = ", np.uint8)


@kernel
def put(pieces: Bytes, begin: Any, end: Any, out: Bytes, place: Any) -> Any:
    """Copy a piece of text to ``place``; returns the place after it."""
    for offset in range(begin, end):
        out[place] = pieces[offset]
        place += 1
    return place


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
    """Write a line per row and return their length; pieces of ids are `` 1:``, `` 2:`` and so on.

    With ``skip_zeros`` features whose text is ``0`` are left out, but for the last feature of the
    first ``whole_rows`` rows: it tells a reader how many features there are. An empty document id
    is no id.
    """
    n_features = id_offsets.size - 1
    place: Any = np.int64(0)
    for row in range(label_of_row.size):
        label = label_of_row[row]
        place = put(label_pieces, label_offsets[label], label_offsets[label + 1], out, place)
        place = put(_QUERY, np.int64(0), _QUERY.size, out, place)
        query = query_of_row[row]
        place = put(query_pieces, query_offsets[query], query_offsets[query + 1], out, place)
        for feature in range(n_features):
            begin = value_offsets[row * n_features + feature]
            end = value_offsets[row * n_features + feature + 1]
            is_zero = end - begin == 1 and value_pieces[begin] == 48
            is_needed = row < whole_rows and feature == n_features - 1
            if skip_zeros and is_zero and not is_needed:
                continue
            place = put(id_pieces, id_offsets[feature], id_offsets[feature + 1], out, place)
            place = put(value_pieces, begin, end, out, place)
        if doc_offsets[row + 1] > doc_offsets[row]:
            place = put(_DOCUMENT, np.int64(0), _DOCUMENT.size, out, place)
            place = put(doc_pieces, doc_offsets[row], doc_offsets[row + 1], out, place)
        out[place] = 10
        place += 1
    return place
