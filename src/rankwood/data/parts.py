"""``read_parts``: tables and LETOR text as ranking data, part by part, for what memory cannot hold as a whole."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.data.letor.text import with_positions
from rankwood.data.reading import ReadOptions
from rankwood.data.sources import Paths, display_name, find_inputs, is_table
from rankwood.data.streams import (
    BEGIN,
    LetorStream,
    RepeatedQueries,
    Stream,
    StreamChunk,
    cut,
    joined,
    joined_doc_ids,
    open_stream,
)
from rankwood.dtypes import Array
from rankwood.errors import ParameterError, named

N_ROWS = 200_000
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def read_parts(
    paths: Paths, options: ReadOptions, *, n_rows: int = N_ROWS
) -> Iterator[RankingData]:
    """The parts of tables or of LETOR text, in the files' order, each of whole queries.

    A part has ``n_rows`` rows plus those that complete its last query; only the last part may have
    fewer. Memory is needed for one part, for blocks read ahead, and for the ids of all queries so
    far. LETOR text needs ``options.model`` or ``options.n_features``; a larger feature id is an error. The binary cache
    is not used.

    A query whose rows are separated within a part is grouped, with a warning; a query that comes
    again in a later part is an error. Ids of text files (LETOR, CSV) are whole numbers in parts
    where all of them are. Documents of LETOR text have ids from the first part on that has any.
    """
    n_rows = checks.whole_number("n_rows", n_rows, 1)
    inputs = find_inputs(paths)
    position = None if is_table(inputs[0].path) else options.position
    if position is not None:  # with_positions takes it out of each part
        if options.drop or options.features is not None or options.model is not None:
            raise ParameterError(
                f"LETOR text is read in parts with {named('position')} only if all its other features are taken."
            )
        options = dataclasses.replace(options, position=None)
    stream = open_stream(inputs, options)
    if isinstance(stream, LetorStream) and options.n_features is None and options.model is None:
        raise ParameterError("LETOR text is read in parts only if n_features says how wide it is.")
    parts = _parts_of(stream, options, n_rows)
    if position is None:
        return parts
    return _with_positions(parts, position, str(display_name(inputs[0].path)))


def _with_positions(
    parts: Iterator[RankingData], position: str, name: str
) -> Iterator[RankingData]:
    n_done = 0
    for data in parts:
        yield with_positions(data, position, name, n_done)
        n_done += data.n_documents


def _parts_of(stream: Stream, options: ReadOptions, n_rows: int) -> Iterator[RankingData]:
    repeated = RepeatedQueries(stream.describe, options.strict)
    has_doc_ids = False
    for part in cut(stream.chunks(BEGIN, options.progress, only_features=False), n_rows):
        if stream.has_queries:
            repeated.check(part)
        data = _as_data(part, stream, has_doc_ids)
        has_doc_ids = data.doc_ids is not None
        part.clear()
        yield data
    stream.warn_at_the_end()


def _as_data(chunks: list[StreamChunk], stream: Stream, has_doc_ids: bool) -> RankingData:
    """Consecutive chunks as ranking data; their documents have ids if those of earlier chunks have some."""
    labels, doc_ids = joined([chunk.labels for chunk in chunks]), joined_doc_ids(chunks)
    if doc_ids is None and has_doc_ids:
        doc_ids = np.full(len(labels), "", object)
    if doc_ids is not None and isinstance(stream, LetorStream):
        doc_ids = doc_ids if has_doc_ids or any(doc_ids.tolist()) else None
    elif doc_ids is not None and not stream.ids_have_types:
        doc_ids = _numbers_of(doc_ids.tolist())
    row_weights = query_ids = query_weights = None
    if stream.has_row_weights:
        row_weights = joined([c.row_weights for c in chunks if c.row_weights is not None])
    if stream.has_queries:
        ids = [query for chunk in chunks for query in chunk.query_ids]
        sizes = [np.diff(chunk.run_rows, append=chunk.n_rows) for chunk in chunks]
        of_run = _array_of(ids) if stream.ids_have_types else _numbers_of(ids)
        query_ids = np.repeat(of_run, np.concatenate(sizes))
        if stream.has_query_weights:
            of_rows = joined([c.query_weights for c in chunks if c.query_weights is not None])
            query_weights = dict(zip(query_ids.tolist(), of_rows.tolist(), strict=True))
    positions = None
    if stream.has_positions:
        positions = joined([c.positions for c in chunks if c.positions is not None])
    features = joined([chunk.features for chunk in chunks])
    data = RankingData(
        features,
        labels,
        query_ids,
        doc_ids,
        row_weights,
        query_weights,  # type: ignore[arg-type]
        stream.feature_names,
        positions=positions,
    )
    return data.with_absent(stream.options.absent if isinstance(stream, LetorStream) else None)


def _array_of(ids: list[Any]) -> Array:
    """Ids of one kind: whole numbers, or text."""
    if all(isinstance(value, int) for value in ids):
        return np.array(ids)
    texts = np.empty(len(ids), object)
    texts[:] = ids
    return texts


def _numbers_of(texts: list[str]) -> Array:
    """Ids of text files: whole numbers if all of them are, as Python writes them."""
    if all(_WHOLE_NUMBER.fullmatch(text) for text in texts):
        with contextlib.suppress(OverflowError):
            return np.array([int(text) for text in texts], np.int64)
    return _array_of(texts)
