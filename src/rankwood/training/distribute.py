"""``distribute``: data on the workers of a Dask cluster, that every ranker of trees learns from.

The workers read the data; the client keeps labels, queries and weights, and a sample of the rows that the bins follow
from. Files are gone through three times, as by ``bin_files``: to count, to read what is not a feature, to encode. A
worker does that for the files, or the partitions of a Dask DataFrame, that Dask gives it.

Rows stay in the caller's order. They are cut into *blocks* of whole queries, consecutive rows that a worker holds
together; a query that goes on in the next file or partition belongs to the block that it begins in. With ``shuffle``
the rows of a query may be anywhere, and a block is a set of rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rankwood._core import checks
from rankwood.binning import folder as store
from rankwood.binning.binned import BinnedData
from rankwood.binning.bins import (
    CODE,
    MOST_BINS,
    Bins,
    checked_parameters,
    fit_sample,
    sampled_rows,
)
from rankwood.binning.folder import BinnedFolder, is_binned_folder, open_binned
from rankwood.data.dataset import Judgments, RankingData
from rankwood.data.reading import ReadOptions, listed
from rankwood.dtypes import Array, Bytes, Floats, Rows
from rankwood.engines.cluster import ClusterFeatures
from rankwood.engines.placement import (
    WAYS,
    ClusterRows,
    Member,
    NotOnCluster,
    RowBlock,
    refuse_other_versions,
)
from rankwood.errors import DataError, MissingExtra, ParameterError
from rankwood.training.inputs import multiplied_weights, rows_that_count, weights_of_rows
from rankwood.training.pieces import AllRead, FileTable, FolderSource, FrameTable

_BLOCKS_PER_WORKER = (
    4  # where there are enough queries, so that those of a lost worker go to several others
)
_LEAST_BLOCK = 1 << 12  # rows


class DistributedData(BinnedData):
    """Data on the workers of a cluster; ``rankwood.distribute`` makes it.

    Attributes
    ----------
    client
        The Dask client.
    bins
        The thresholds of the features.
    data
        Labels, queries and weights, which are here, in the caller's order.
    """

    client: Any
    rows: ClusterRows
    _sources: tuple[Any, ...]

    def __init__(self, rows: ClusterRows, data: RankingData, sources: Sequence[Any]) -> None:
        self.__dict__.update(
            client=rows.client,
            rows=rows,
            bins=rows.bins,
            data=data,
            derived={},
            _sources=tuple(sources),
        )

    @property
    def codes(self) -> Bytes:
        """No process has the codes."""
        raise NotOnCluster

    def predict(self, model: Any) -> Any:
        """The scores by a model as a Dask array in the caller's order: each block is scored where it is read."""
        import dask
        from dask import array

        names, blocks = self.data.feature_names, self.rows.blocks
        sent = self.client.scatter(model, broadcast=True, hash=False)
        queries = None if self.data.query_ids is None else self.data.query_of_row
        parts = []
        for source, block in zip(self._sources, blocks, strict=True):
            own = None if queries is None else queries[block.numbers]
            score = dask.delayed(_score_block, pure=False)(sent, source, names, own, *source.needs)
            parts.append(array.from_delayed(score, (block.n_rows,), np.float64))
        scores = array.concatenate(parts)
        numbers = np.concatenate([block.numbers for block in blocks])
        if (numbers[1:] > numbers[:-1]).all():
            return scores
        return scores[np.argsort(numbers, kind="stable")]

    def on_host(self) -> BinnedData:
        """The same data with their codes in the memory of this process: a byte per value."""
        codes = np.empty((self.bins.n_features, self.data.n_documents), CODE)
        futures = [
            self.client.submit(
                _encode, source, self.bins, *map(self.client.compute, source.needs), pure=False
            )
            for source in self._sources
        ]
        for block, future in zip(self.rows.blocks, futures, strict=True):
            codes[:, block.numbers] = future.result()
        features: Any = store.CodedFeatures(Path("distributed data"), codes, None, self.bins)
        data = RankingData.from_judgments(features, self.data.judgments, self.data.feature_names)
        return BinnedData(codes, self.bins, data)

    def __reduce__(self) -> tuple[Any, ...]:
        raise ParameterError("distributed data cannot be pickled: they belong to this client.")

    def __repr__(self) -> str:
        return (
            f"DistributedData({self.n_rows:,} documents, {self.n_features:,} features, "
            f"{len(self.rows.blocks):,} blocks)"
        )


def distribute(
    client: Any,
    source: Any,
    *,
    by: Literal["rows", "trees"] | None = None,
    shuffle: bool = False,
    bins: Any = None,
    max_bins: int = MOST_BINS,
    sample: int = 200_000,
    seed: int = 0,
    label: str = "label",
    query: str | None = "qid",
    doc: str | None = None,
    row_weight: str | None = None,
    query_weight: str | None = None,
    position: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    n_features: int | None = None,
    absent: Literal["zero", "missing"] = "zero",
    order: Literal["ascending", "any"] = "ascending",
    overflow: Literal["error", "missing"] = "error",
) -> DistributedData:
    """Bring data to the workers of a Dask cluster, for ``fit``, ``predict`` and ``evaluate``.

    Parameters
    ----------
    client
        A ``distributed.Client``. All workers need the version of Rankwood that this process has.
    source
        Files, as ``bin_files`` takes them, which all workers can read under these names; a Dask DataFrame; or a folder
        of binned data (``open_binned``, or its path) on a disk that all share.
    by
        How forests, rounds of BROOF, layers of deep forests and averaged runs grow: "rows" deals the rows to the
        workers, which work together on every tree; "trees" gives all rows to every worker, and deals the trees. By
        default trees are dealt where all rows fit into the memory of every worker. Other boosted trees depend on each
        other: unless ``by="trees"``, rows are dealt for them.
    shuffle
        Whether the rows of a query may be anywhere. Every worker then reads all of the data.
    bins, max_bins, sample, seed
        As for ``bin_files``: validation data are binned by the bins of the training data, ``bins=train``.
    label, query, doc, row_weight, query_weight, position, features, drop
        The columns of tables and frames, as for ``read_table`` and ``from_frame``. Document ids are not kept.
    n_features, absent, order, overflow
        How LETOR text is read, as for ``read_letor``.

    The rows of a query must be together; they may go on in the next file or partition. A model is the same bytes as
    one of the same rows in the memory of one process, whatever the number of workers.
    """
    need_distributed("rankwood.distribute")
    if by is not None:
        checks.one_of("by", by, WAYS)
    shuffle = checks.true_or_false("shuffle", shuffle)
    max_bins, sample, seed = checked_parameters(max_bins, sample, seed)
    refuse_other_versions(client)
    options = ReadOptions(
        label=label,
        query=query,
        doc=doc,
        row_weight=row_weight,
        query_weight=query_weight,
        position=position,
        features=None if features is None else listed(features),
        drop=listed(drop),
        n_features=n_features,
        absent=absent,
        order=order,
        overflow=overflow,
        n_threads=1,
    )
    n_workers = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
    opened = _as_folder(source)
    if opened is not None:
        if bins is not None:
            raise ParameterError(f"{opened.folder} has bins already: leave out bins.")
        return _of_folder(client, opened, by, n_workers)
    given = None if bins is None else store.bins_from(bins)
    table: FileTable | FrameTable = (
        FrameTable(source, options) if hasattr(source, "to_delayed") else FileTable(source, options)
    )
    read = _read(client, table)
    judgments = read.judgments(shuffle)
    layout = _cut_into_blocks(judgments, n_workers)
    if given is None:
        given = _fit_bins(client, table, read, judgments, (max_bins, sample, seed))
    elif given.n_features != table.n_features:
        raise DataError(
            f"there are {table.n_features:,} features, but the bins are for {given.n_features:,}. "
            "Name the same features in the same order."
        )
    sources = table.sources(read, layout)
    blocks = tuple(_block(source, rows) for source, rows in zip(sources, layout, strict=True))
    rows = ClusterRows(client, blocks, given, judgments.labels, read.has_missing, by)
    data = RankingData.from_judgments(
        ClusterFeatures(rows),  # type: ignore[arg-type]
        judgments,
        table.feature_names,
    ).with_absent(table.absent)
    weights_of_rows(data)  # not all may be 0
    return DistributedData(rows, data, sources)


def need_distributed(who: str) -> Any:
    """Dask, or an error that names the extra."""
    try:
        import dask.array
        import distributed
    except ImportError:
        raise MissingExtra("distributed", "dask", who) from None
    return distributed, dask.array


# Where blocks come from: a source gives the raw features of its rows, some at a time, from what Dask has to compute
# for it (``needs``, delayed objects).


def _encode(source: Any, bins: Bins, *given: Any) -> Bytes:
    """The codes of a block, features × rows."""
    if isinstance(source, FolderSource):
        return source.codes()
    parts = [bins.transform(matrix, 1) for matrix in source.features(*given)]
    return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]


def _score_block(
    model: Any, source: Any, names: Any, query_of_row: Array | None, *given: Any
) -> Floats:
    """The scores of a block."""
    if isinstance(source, FolderSource):
        scores: Floats = model.predict(source.data())
        return scores
    matrix = np.concatenate(list(source.features(*given)))
    judgments = Judgments(np.zeros(len(matrix)), query_of_row)
    scores = model.predict(RankingData.from_judgments(matrix, judgments, names))
    return scores  # noqa: RET504 - it is typed above


def _block(source: Any, numbers: Rows) -> RowBlock:
    if source.needs:
        return RowBlock(numbers, send=_Sent(source))
    return RowBlock(numbers, read=_Read(source))


@dataclass(frozen=True)
class _Read:
    """Reads a block on the worker that wants it."""

    source: Any

    def __call__(self, bins: Bins, n_threads: int) -> Bytes:  # noqa: ARG002 - of RowBlock
        return _encode(self.source, bins)


@dataclass(frozen=True)
class _Sent:
    """Has Dask compute what a block is made of, on the worker that wants it."""

    source: Any

    def __call__(self, client: Any, member: Member, number: int, bins: Bins) -> Any:
        return client.submit(
            _put_block,
            member.key,
            number,
            self.source,
            bins,
            *(client.compute(each) for each in self.source.needs),
            workers=[member.address],
            allow_other_workers=False,
            pure=False,
        )


def _put_block(key: str, number: int, source: Any, bins: Bins, *given: Any) -> None:
    """A task on the worker of a holder, which takes the block from the same process."""
    from distributed import get_worker

    get_worker().state.actors[key].put_block(number, _encode(source, bins, *given))


def _read(client: Any, table: Any) -> AllRead:
    pieces = client.gather(table.pieces(client))
    return AllRead(pieces, table.ids_have_types, table.names)


def _cut_into_blocks(judgments: Judgments, n_workers: int) -> list[Rows]:
    """The rows of each block: whole queries, of about as many rows."""
    n_rows = judgments.n_documents
    n_blocks = max(1, min(_BLOCKS_PER_WORKER * n_workers, n_rows // _LEAST_BLOCK))
    n_blocks = max(n_blocks, min(n_workers, n_rows))
    if judgments.query_ids is None:
        ends = [n_rows * number // n_blocks for number in range(n_blocks + 1)]
        return [np.arange(*pair) for pair in itertools.pairwise(ends)]
    offsets, order = judgments.query_offsets, judgments.row_order
    wanted = [n_rows * number // n_blocks for number in range(1, n_blocks)]
    inner = np.unique(offsets[np.searchsorted(offsets, wanted)])
    ends = [0, *(end for end in inner.tolist() if 0 < end < n_rows), n_rows]
    return [np.sort(order[first:last]) for first, last in itertools.pairwise(ends)]


def _fit_bins(
    client: Any,
    table: Any,
    read: AllRead,
    judgments: Judgments,
    parameters: tuple[int, int, int],
) -> Bins:
    """The bins of the rows that count: those of the same rows in the memory of one process."""
    max_bins, sample, seed = parameters
    everything = RankingData.from_judgments(
        np.broadcast_to(np.float32(0), (judgments.n_documents, table.n_features)), judgments
    )
    weights = multiplied_weights(everything)
    present = rows_that_count(weights)
    rows = np.arange(judgments.n_documents) if present is None else np.flatnonzero(present)
    if rows.size == 0:
        raise DataError("all weights are zero. At least one row needs a weight above 0.")
    chosen = rows[sampled_rows(rows.size, sample, seed)]
    futures = []
    for piece, (first, last) in enumerate(itertools.pairwise(read.starts.tolist())):
        own = chosen[slice(*np.searchsorted(chosen, [first, last]))] - first
        if own.size:
            futures.append(table.sampled(client, piece, own))
    matrix = np.ascontiguousarray(np.concatenate(client.gather(futures)))
    special = None
    if rows.size > sample:
        special = np.logical_or.reduce([piece.special[:3] for piece in read.pieces])
    return fit_sample(checks.read_only(matrix), np.arange(len(matrix)), special, max_bins, 1)


# Folders of binned data.


def _as_folder(source: Any) -> BinnedFolder | None:
    if isinstance(source, BinnedFolder):
        return source
    is_path = isinstance(source, str | Path)
    return open_binned(source) if is_path and is_binned_folder(source) else None


def _of_folder(client: Any, opened: BinnedFolder, by: Any, n_workers: int) -> DistributedData:
    judgments = opened.data.judgments
    layout = _cut_into_blocks(judgments, n_workers)
    first_query = 0 if opened.queries is None else opened.queries[0]
    sources = []
    for rows in layout:
        ends = int(rows[0]), int(rows[-1]) + 1
        if judgments.query_ids is not None:
            ends = (first_query + np.searchsorted(judgments.query_offsets, ends)).tolist()
        sources.append(FolderSource(str(opened.folder), *ends))
    blocks = tuple(
        RowBlock(rows, read=_Read(each)) for rows, each in zip(layout, sources, strict=True)
    )
    is_missing = np.array([bool((column == 255).any()) for column in opened.columns])
    labels = judgments.labels
    folder = str(opened.folder) if opened.queries is None else None  # to be mapped as a whole
    cluster_rows = ClusterRows(client, blocks, opened.bins, labels, is_missing, by, folder)
    features: Any = ClusterFeatures(cluster_rows)
    data = RankingData.from_judgments(features, judgments, opened.data.feature_names)
    data = data.with_absent(opened.data.absent)
    return DistributedData(cluster_rows, data, sources)
