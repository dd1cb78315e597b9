"""LETOR text part by part, in memory for one part."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankwood import _threads
from rankwood.data.dataset import RankingData
from rankwood.data.letor import make_grammar
from rankwood.data.letor_blocks import Block, Destination
from rankwood.data.letor_reading import BlockReader, join_blocks, refuse_nothing
from rankwood.data.part_cutting import Returns, cut
from rankwood.data.reading import ReadOptions
from rankwood.data.sources import PathLike, open_source
from rankwood.errors import ParameterError


def letor_parts(path: PathLike, options: ReadOptions, n_rows: int) -> Iterator[RankingData]:
    """The file's parts; its width must be given, since only the whole file could tell it."""
    if options.n_features is None:
        raise ParameterError("LETOR text is read in parts only if n_features says how wide it is.")
    grammar = make_grammar(path, options.n_features, options.absent, options.order)
    threads = _threads.resolve_threads(options.n_threads)
    n_done = 0
    has_doc_ids = False
    with open_source(path) as source:
        reader = BlockReader(source, grammar, threads, options.progress)
        returns = Returns(f"{source.name}, ", _line, options.strict)
        for part in cut(reader.blocks(), n_rows):
            returns.check(part)
            data = join_blocks(part, Destination(), grammar.absent)
            has_doc_ids = has_doc_ids or data.doc_ids is not None
            n_done += data.n_documents
            reader.memory.add(-data.n_documents, 0)
            yield _with_empty_doc_ids(data) if has_doc_ids else data
        refuse_nothing(source, n_done)


def _line(block: Block, run: int) -> str:
    return f"line {int(block.run_lines[run]) + 1}"


def _with_empty_doc_ids(data: RankingData) -> RankingData:
    """The data with empty ids if they have none: other rows of the file have some."""
    if data.doc_ids is not None:
        return data
    empty = np.full(data.n_documents, "", object)
    return RankingData(data.features, data.labels, data.query_ids, empty)
