"""Codes kept on disk and memory-mapped, so that binning is done once per data set.

::

    <folder>/bins.json    what the codes were made from, the cut points, and hashes of both files
             codes.npy    uint8, features × rows

The record names the data by a hash of their features: of all of them up to 64 MB, of 1,024 pieces
spread over larger ones. The codes are checked the same way when they are opened. So a change of a
few values of a large file, all of them between those pieces, is not seen: nothing short of reading
everything could tell, and the point is not to.

Whatever is wrong with the kept files (damage, a full or read-only disk) costs time, never an error:
the codes are made again, in memory if need be, and the log says why.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwood._files import atomic_path
from rankwood.binning.bins import CODE, Bins
from rankwood.dtypes import Array, Bytes, Features
from rankwood.errors import InputError, ParameterError

RECORD = "bins.json"
CODES = "codes.npy"
_FORMAT = 1  # raise it when the files, the codes or the choice of cut points change
_PIECES = 1024
_PIECE_BYTES = 1 << 16
_THRESHOLD = "<f4"  # as written, on every machine

log = logging.getLogger(__name__)


class _Unusable(Exception):
    """The kept files cannot be used; the message says why."""


@dataclass(frozen=True)
class KeptCodes:
    """The codes of one feature matrix under one set of parameters, in one folder."""

    folder: Path
    features: Features
    key: Mapping[str, Any]

    @classmethod
    def of(cls, folder: Path, features: Features, parameters: Mapping[str, int]) -> KeptCodes:
        """The place for the codes of ``features``; nothing is read or written yet."""
        if folder.exists() and not folder.is_dir():
            raise ParameterError(
                f"cache must be a folder, but {folder} is a file. Name a folder; it is made if need be."
            )
        return cls(folder, features, {**parameters, "features": content_hash(features)})

    def open(self) -> tuple[Bytes, Bins] | None:
        """The codes as a memory map, and their bins; None when they have to be made."""
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
        """Write the codes straight to disk and map them; None where that fails.

        The record is written last: a crash before it leaves an older record, whose hash does not
        fit the new codes.
        """
        if self.features.size == 0:
            return None  # nothing can be mapped
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic_path(self.folder / CODES) as path:
                codes = _reserve(path, (bins.n_features, len(self.features)))
                bins.transform_into(self.features, codes, n_threads)
                codes.flush()
                codes_hash = content_hash(codes)
                del codes
            self._write_record(bins, codes_hash)
            return self._map()
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
    """A hash of dtype, shape and bytes: of all bytes up to 64 MB, of 1,024 pieces beyond."""
    digest = hashlib.sha256(f"{array.dtype.str} {list(array.shape)}".encode())
    content = np.asarray(array).reshape(-1).view(np.uint8)
    if content.nbytes <= _PIECES * _PIECE_BYTES:
        digest.update(content.data)
        return digest.hexdigest()
    last = content.nbytes - _PIECE_BYTES
    for piece in range(_PIECES):
        start = last * piece // (_PIECES - 1)
        digest.update(content[start : start + _PIECE_BYTES].data)
    return digest.hexdigest()


def _reserve(path: Path, shape: tuple[int, int]) -> Any:
    """A new ``.npy`` file of codes, mapped for writing, whose room on the disk is taken already.

    Without that a full disk would be noticed when a page is written, by the death of the process.
    """
    codes = np.lib.format.open_memmap(path, mode="w+", dtype=CODE, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return codes


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
