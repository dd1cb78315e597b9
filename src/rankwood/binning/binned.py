"""``BinnedData`` and ``bin_data``: data binned once, for every tree of every model of a run.

``bin_data(cache=folder)`` stores the codes on disk and memory-maps them::

    <folder>/bins.json    parameters and hash of the features, thresholds, and hashes of both files
             codes.npy    uint8, features × rows

The record identifies the data by a hash of their features: of all bytes up to 64 MB, of 1,024 pieces spread over
larger data. The codes are checked in the same way when they are opened. An edit of a few values of large data, all
of them between those pieces, is therefore not detected; only reading everything could detect it.

A damaged file or a disk that cannot be written is never an error: the codes are computed again, in memory if
necessary, and the log says why.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.files import atomic_path
from rankwood.binning.bins import (
    CODE,
    MOST_BINS,
    Bins,
    checked_parameters,
    fit_bins,
    with_categories,
)
from rankwood.data.cache import checksum
from rankwood.data.categories import refuse
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Bytes, Features, Rows
from rankwood.errors import DataError, InputError, ParameterError

RECORD = "bins.json"
CODES = "codes.npy"
_FORMAT = 2  # raise it when the files, the codes or the choice of cut points change
_THRESHOLD = "<f4"  # little-endian on every machine

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class BinnedData:
    """Ranking data with the codes of all features.

    Parameters
    ----------
    codes
        uint8, features × rows, one contiguous column per feature; see ``Bins``. It may be a
        memory map.
    bins
        The thresholds behind the codes.
    data
        Labels, queries, weights, names and the raw features.
    """

    codes: Bytes
    bins: Bins
    data: RankingData
    # Cache of derived values, such as the reordered matrix.
    derived: dict[str, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes)
        expected = (self.bins.n_features, self.data.n_documents)
        if codes.dtype != CODE or codes.shape != expected:
            raise DataError(
                f"codes must be uint8 of {expected[0]:,} features × {expected[1]:,} rows, "
                f"got {codes.dtype} of {' × '.join(f'{length:,}' for length in codes.shape)}."
            )
        if self.data.n_features != self.bins.n_features:
            raise DataError(
                f"the data have {self.data.n_features:,} features, "
                f"but the bins were made for {self.bins.n_features:,}."
            )
        object.__setattr__(self, "codes", checks.read_only(np.ascontiguousarray(codes)))

    @property
    def n_rows(self) -> int:
        """Number of documents."""
        return self.data.n_documents

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.bins.n_features

    @property
    def n_bins(self) -> Rows:
        """The number of value bins of each feature; the code for missing values is not counted."""
        return self.bins.n_value_bins

    def __reduce__(self) -> tuple[Any, ...]:
        return BinnedData, (self.codes, self.bins, self.data)

    def __repr__(self) -> str:
        return (
            f"BinnedData({self.n_rows:,} documents, {self.n_features:,} features, "
            f"at most {int(self.n_bins.max())} bins)"
        )


def bin_data(
    data: RankingData,
    *,
    max_bins: int = MOST_BINS,
    sample: int = 200_000,
    seed: int = 0,
    n_threads: int | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> BinnedData:
    """Bin the features of ``data``, so that every model of a run can share the work.

    Parameters
    ----------
    data
        Documents with their features.
    max_bins, sample, seed, n_threads
        As for ``fit_bins``.
    cache
        A folder for the codes, which are memory-mapped. Codes already there are used if they
        belong to the same features and parameters, and replaced otherwise.

    Examples
    --------
    >>> data = RankingData([[0.2], [0.9], [0.4], [None]], labels=[0, 2, 1, 0])
    >>> binned = bin_data(data)
    >>> binned.codes.tolist(), binned.n_bins.tolist()
    ([[0, 2, 1, 255]], [3])
    """
    if not isinstance(data, RankingData):
        raise ParameterError(
            f"data must be RankingData, got {type(data).__name__}. "
            "Make one with RankingData(features, labels, query_ids=...)."
        )
    max_bins, sample, seed = checked_parameters(max_bins, sample, seed)
    kept = None
    if cache is not None:
        refuse(data.categorical, data.names, "a folder of codes (cache=)")
        parameters = {"max_bins": max_bins, "sample": sample, "seed": seed}
        kept = CodeCache.of(Path(cache), data.features, parameters)
        stored = kept.open()
        if stored is not None:
            return BinnedData(*stored, data)
    bins = fit_bins(data.features, max_bins=max_bins, sample=sample, seed=seed, n_threads=n_threads)
    bins = with_categories(bins, data.categorical)
    codes = None if kept is None else kept.write(bins, n_threads)
    if codes is None:
        codes = bins.transform(data.features, n_threads)
    return BinnedData(codes, bins, data)


class _Unusable(Exception):
    """The stored files cannot be used; the message says why."""


@dataclass(frozen=True)
class CodeCache:
    """The stored codes of one feature matrix under one set of parameters, in one folder."""

    folder: Path
    features: Features
    key: Mapping[str, Any]

    @classmethod
    def of(cls, folder: Path, features: Features, parameters: Mapping[str, int]) -> CodeCache:
        """The entry for the codes of ``features``; nothing is read or written yet."""
        if folder.exists() and not folder.is_dir():
            raise ParameterError(
                f"cache must be a folder, but {folder} is a file. Name a folder; it is made if need be."
            )
        return cls(folder, features, {**parameters, "features": content_hash(features)})

    def open(self) -> tuple[Bytes, Bins] | None:
        """The codes as a memory map, and their bins; None if they have to be computed."""
        if not (self.folder / RECORD).exists():
            return None
        try:
            return self._open()
        except (_Unusable, OSError, InputError) as reason:
            log.warning("the codes kept in %s are made again: %s", self.folder, reason)
        except (ValueError, LookupError, TypeError, AttributeError, EOFError) as reason:
            kind = type(reason).__name__
            log.warning("the codes kept in %s are made again: %s", self.folder, kind)
        return None

    def _open(self) -> tuple[Bytes, Bins]:
        record = json.loads((self.folder / RECORD).read_text(encoding="utf-8"))
        if record.pop("digest") != _digest(record):
            raise _Unusable("the record was changed")
        if record["format"] != _FORMAT or record["key"] != self.key:
            raise _Unusable("they belong to other features, parameters or another version")
        codes = self._map()
        n_rows, n_features = self.features.shape
        if codes.dtype != CODE or codes.shape != (n_features, n_rows):
            raise _Unusable(f"{CODES} has another dtype or shape than recorded")
        if content_hash(codes) != record["codes"]:
            raise _Unusable(f"{CODES} was changed")
        thresholds = np.frombuffer(base64.b64decode(record["thresholds"]), _THRESHOLD)
        return codes, Bins(thresholds, record["offsets"], record["has_missing"])

    def write(self, bins: Bins, n_threads: int | None) -> Bytes | None:
        """Write the codes to disk and map them; None if that fails.

        The record is written last: a crash before it leaves an older record, whose hash does not
        match the new codes.
        """
        if self.features.size == 0:
            return None  # an empty file cannot be mapped
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic_path(self.folder / CODES) as path:
                codes = _reserve(path, (bins.n_features, len(self.features)))
                bins.transform_into(self.features, codes, n_threads)
                codes.flush()
                codes_hash = content_hash(codes)
                del codes
                # Before the rename: another writer may put other codes there right after it.
                written: Bytes = np.load(path, mmap_mode="r", allow_pickle=False)
            self._write_record(bins, codes_hash)
            return written
        except OSError as reason:
            log.warning("the codes cannot be kept in %s: %s", self.folder, reason)
            return None

    def _map(self) -> Bytes:
        codes: Bytes = np.load(self.folder / CODES, mmap_mode="r", allow_pickle=False)
        return codes

    def _write_record(self, bins: Bins, codes_hash: str) -> None:
        thresholds = bins.thresholds.astype(_THRESHOLD).tobytes()
        record = {
            "format": _FORMAT,
            "key": dict(self.key),
            "codes": codes_hash,
            "thresholds": base64.b64encode(thresholds).decode(),
            "offsets": bins.offsets.tolist(),
            "has_missing": bins.has_missing.tolist(),
        }
        with atomic_path(self.folder / RECORD) as path:
            text = json.dumps({**record, "digest": _digest(record)}, indent=1)
            path.write_text(text, encoding="utf-8")


def content_hash(array: Array) -> str:
    """A hash of dtype, shape and all bytes."""
    about = f"{array.dtype.str} {list(array.shape)} {checksum(np.ascontiguousarray(array))}"
    return hashlib.sha256(about.encode()).hexdigest()


def _reserve(path: Path, shape: tuple[int, int]) -> Any:
    """A new ``.npy`` file of codes, mapped for writing, with its disk space allocated.

    Without the allocation, a full disk would kill the process when a page is written.
    """
    codes = np.lib.format.open_memmap(path, mode="w+", dtype=CODE, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return codes


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
