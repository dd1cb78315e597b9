"""The files of one cache entry: arrays as ``.npy`` without pickle, and a JSON record of them.

::

    <entry>/record.json      the source's path, size, time and hashes; each array's dtype and hashes
            features.npy     memory-mapped when opened
            labels.npy
            query_ids.npy    when they are numbers; when they are text, the distinct texts as UTF-8
                             (query_ids.text.npy, a line feed after each) and each row's number
            …                among them (query_ids.codes.npy)

The hash of a sample (64 blocks of 4 KiB spread over the file) finds a truncated, swapped or
rewritten file in a millisecond; a single flipped byte in a large file is found by the full hash.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rankwood._files import atomic_path
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array

RECORD = "record.json"
_SAMPLE_BLOCKS = 64
_BLOCK_BYTES = 4096
_CHUNK_BYTES = 1 << 22
_IDS = ("query_ids", "doc_ids")
_NUMBERS = {"features": "<f4", "labels": "<f8", "row_weights": "<f8", "query_weights": "<f8"}


class Damaged(Exception):
    """An entry cannot be used; the message says why."""


class Identity(NamedTuple):
    """What the file system says about a file."""

    size: int
    mtime_ns: int
    inode: int


def identity_of(path: Path) -> Identity:
    """Size, time of the last change and inode of a file."""
    status = path.stat()
    return Identity(status.st_size, status.st_mtime_ns, status.st_ino)


def sample_hash(path: Path) -> str:
    """Hash of the size and of 64 blocks spread over the file; all of it when it is small."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        digest.update(size.to_bytes(8, "little"))
        last = max(0, size - _BLOCK_BYTES)
        for start in sorted(
            {last * place // (_SAMPLE_BLOCKS - 1) for place in range(_SAMPLE_BLOCKS)}
        ):
            file.seek(start)
            digest.update(file.read(_BLOCK_BYTES))
    return digest.hexdigest()


def full_hash(path: Path) -> str:
    """Hash of the whole file."""
    digest = hashlib.sha256()
    chunk = bytearray(_CHUNK_BYTES)
    view = memoryview(chunk)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(chunk):
            digest.update(view[:count])
    return digest.hexdigest()


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write the record with a hash of its own, replacing an older one in one step."""
    body = {key: value for key, value in record.items() if key != "digest"}
    with atomic_path(folder / RECORD) as path:
        path.write_text(json.dumps({**body, "digest": _digest(body)}, indent=1), encoding="utf-8")


def read_record(folder: Path) -> dict[str, Any]:
    """The record as it was written, or ``Damaged``."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Damaged(f"its record cannot be read ({type(error).__name__})") from None
    if not isinstance(record, dict) or record.pop("digest", None) != _digest(record):
        raise Damaged("its record was changed")
    return record


def _digest(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def save_arrays(folder: Path, data: RankingData) -> dict[str, Any]:
    """Write the arrays of ``data`` and give what the record says of each."""
    described = {}
    for name, array in _arrays_of(data).items():
        path = folder / f"{name}.npy"
        np.save(path, array, allow_pickle=False)
        described[name] = {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "sample": sample_hash(path),
            "sha256": full_hash(path),
        }
    return described


def _arrays_of(data: RankingData) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for name in _NUMBERS:
        array = getattr(data, name)
        if array is not None:
            arrays[name] = array
    for name in _IDS:
        ids = getattr(data, name)
        if ids is not None and ids.dtype != object:
            arrays[name] = ids
        elif ids is not None:
            arrays[f"{name}.codes"], arrays[f"{name}.text"] = _encode(ids)
    return arrays


def _encode(ids: Array) -> tuple[Array, Array]:
    """Each row's number among the distinct texts, and those texts as bytes."""
    number_of: dict[str, int] = {}
    codes = np.array([number_of.setdefault(text, len(number_of)) for text in ids], np.int64)
    if not all(isinstance(text, str) and "\n" not in text for text in number_of):
        raise Damaged("identifiers that are not plain text cannot be kept")
    joined = "".join(f"{text}\n" for text in number_of)
    return codes, np.frombuffer(joined.encode("utf-8", "surrogatepass"), np.uint8)


def _decode(codes: Array, text: Array) -> Array:
    distinct = text.tobytes().decode("utf-8", "surrogatepass").split("\n")[:-1]
    table = np.empty(len(distinct), object)
    table[:] = distinct
    if codes.size and not 0 <= codes.min() <= codes.max() < table.size:
        raise Damaged("identifiers point outside their table")
    return table[codes]


def open_arrays(folder: Path, record: dict[str, Any], verify: bool) -> RankingData:
    """The data of an entry, features memory-mapped, or ``Damaged``."""
    try:
        arrays = {
            name: _open_array(folder / f"{name}.npy", described, verify)
            for name, described in record["arrays"].items()
        }
        for name, dtype in _NUMBERS.items():
            if name in arrays and arrays[name].dtype.str != dtype:
                raise Damaged(f"{name} have dtype {arrays[name].dtype}")
        for name in _IDS:
            if f"{name}.codes" in arrays:
                arrays[name] = _decode(arrays.pop(f"{name}.codes"), arrays.pop(f"{name}.text"))
        return RankingData(**arrays, feature_names=record["feature_names"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError) as error:
        raise Damaged(f"{type(error).__name__}: {error}") from None


def _open_array(path: Path, described: dict[str, Any], verify: bool) -> Array:
    if sample_hash(path) != described["sample"]:
        raise Damaged(f"{path.name} was changed")
    if verify and full_hash(path) != described["sha256"]:
        raise Damaged(f"{path.name} was changed")
    # Only features are mapped: a map costs a file descriptor, and the rest is small.
    mode: Literal["r"] | None = (
        "r" if path.name == "features.npy" and 0 not in described["shape"] else None
    )
    array: Array = np.load(path, mmap_mode=mode, allow_pickle=False)
    if array.dtype.str != described["dtype"] or list(array.shape) != described["shape"]:
        raise Damaged(f"{path.name} has another dtype or shape than recorded")
    return array
