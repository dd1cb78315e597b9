"""The binary cache of parsed files: the second read of a large file is a memory map.

An entry belongs to a file's resolved path, the options it was read with and the version of the format. It is used as
long as the file is the one that was parsed:

==============================  ====================================================
size differs                    the file is read again
size, times and inode equal     the sample hash decides: 64 blocks of 4 KiB
only a time or inode differs    the full hash decides; if equal, the record is updated
``verify=True``                 the full hash decides, and the entry's own files are hashed too
==============================  ====================================================

Times are that of the last change of the content and that of the last change of the file, which no program can set
back. The entry's own arrays are compared with their checksums when they are opened, so that damage on the disk is
noticed before anything computes with it; arrays of more than 2 GiB are compared while they are in use, and damage is
then a warning.

Problems with the cache (damage, a full or read-only disk, another process writing) are never errors: the file is
parsed as if there were no cache, and the log says why.

The files of an entry are arrays as ``.npy`` without pickle, and a JSON record of them::

    <entry>/record.json      path, size, time and hashes of the source; dtype and hashes of each array
            features.npy     memory-mapped when opened
            labels.npy
            query_ids.npy    if they are numbers; if they are text, the distinct texts as UTF-8
                             (query_ids.text.npy, a line feed after each) and each row's index
            …                among them (query_ids.codes.npy)

The sample hash detects a truncated, swapped or rewritten file in a millisecond; the checksum any flipped bit, at the
speed of the memory.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import shutil
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rankwood._core.files import atomic_path, user_cache_folder
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array
from rankwood.errors import DataWarning, ParameterError

CACHE_FROM_BYTES = 8 << 20  # smaller files parse in milliseconds

_FORMAT = 2  # version of entries; raise it if their files or the results of parsers change
_DEFAULT_LIMIT_GB = 20.0
_ABANDONED_AFTER_SECONDS = 3600  # an unfinished folder this old has no living writer
_UNFINISHED = ".part-"

log = logging.getLogger(__name__)

RECORD = "record.json"
_SAMPLE_BLOCKS = 64
_BLOCK_BYTES = 4096
_CHUNK_BYTES = 1 << 22
_CHECKED_AT_ONCE = 1 << 31  # bytes of an array; larger ones would be read from the disk twice
_IDS = ("query_ids", "doc_ids")
_NUMBERS = {"features": "<f4", "labels": "<f8", "row_weights": "<f8", "query_weights": "<f8"}


class CacheEntry(NamedTuple):
    """One parsed file in the cache."""

    source: str  # the file that was parsed; empty if the record cannot be read
    n_bytes: int
    last_used: float  # seconds since 1970
    folder: Path


def cached(
    path: Path,
    options: Mapping[str, object],
    read: Callable[[], RankingData],
    *,
    verify: bool = False,
) -> RankingData:
    """The result of ``read()`` for a file, from the cache if it has an entry for the same file.

    ``options`` are all arguments that influence the result. The features of a cache hit are
    memory-mapped; on Linux they stay valid if the entry is replaced or removed.
    """
    limit = _limit_bytes()
    try:
        source = path.resolve(strict=True)
        before = identity_of(source)
        is_file = stat.S_ISREG(source.stat().st_mode)
    except OSError:
        return read()  # raises an error that names the problem
    if not is_file or limit == 0:
        return read()
    folder = _folder() / _key(source, options)
    data = _open(folder, source, before, verify)
    if data is not None:
        return data
    data = read()
    _keep(folder, source, before, data, limit)
    return data


def entries() -> list[CacheEntry]:
    """All entries, least recently used first."""
    listed = []
    for folder in _folders():
        try:
            source = str(read_record(folder).get("source", ""))
        except Damaged:
            source = ""
        listed.append(CacheEntry(source, _bytes_of(folder), _last_used(folder), folder))
    return sorted(listed, key=lambda entry: (entry.last_used, entry.folder))


def clear() -> int:
    """Remove every entry; returns how many there were."""
    folders = _folders()
    for folder in folders:
        _discard(folder)
    _remove_abandoned(older_than=0)
    return len(folders)


def prune(limit: int | None = None, keep: Path | None = None) -> None:
    """Remove entries, least recently used first, until the rest fits into ``limit`` bytes.

    The default limit is ``RANKWOOD_CACHE_GB`` (20 if unset). ``keep`` is never removed.
    """
    limit = _limit_bytes() if limit is None else limit
    _remove_abandoned(older_than=_ABANDONED_AFTER_SECONDS)
    oldest_first = sorted(_folders(), key=_last_used)
    sizes = {folder: _bytes_of(folder) for folder in oldest_first}
    total = sum(sizes.values())
    for folder in oldest_first:
        if total <= limit:
            return
        if folder != keep:
            log.info("removing %s to keep the cache below %.1f GB", folder, limit / 1e9)
            _discard(folder)
            total -= sizes[folder]


def _open(folder: Path, source: Path, now: Identity, verify: bool) -> RankingData | None:
    """The data of an entry, or None if it is damaged or belongs to another state of the file."""
    if not folder.is_dir():
        return None
    try:
        record = read_record(folder)
        if not _is_current(record, source, now, verify):
            log.info("%s has changed since it was cached", source)
            return None
        data = open_arrays(folder, record, verify)
    except (Damaged, OSError, KeyError, TypeError) as reason:
        log.warning("the cached copy of %s is damaged and made again: %s", source, reason)
        return None
    _renew(folder, record, now)
    return data


def _is_current(record: dict[str, Any], source: Path, now: Identity, verify: bool) -> bool:
    if record["format"] != _FORMAT or record["source"] != str(source):
        raise Damaged("it belongs to another file or version")
    then = Identity(*record["identity"])
    if then.size != now.size:
        return False
    if verify or then != now:
        return bool(full_hash(source) == record["sha256"])
    return bool(sample_hash(source) == record["sample"])


def _renew(folder: Path, record: dict[str, Any], now: Identity) -> None:
    """Record that the entry was used, and the file's new time or inode."""
    try:
        if list(now) != record["identity"]:
            write_record(folder, {**record, "identity": list(now)})
        os.utime(folder)
    except OSError:
        log.info("%s cannot be written", folder)


def _keep(folder: Path, source: Path, before: Identity, data: RankingData, limit: int) -> None:
    """Write an entry to a temporary folder and rename it, unless the file changed meanwhile."""
    if data.features.nbytes > limit:
        return
    temporary: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder.parent))
        record = {
            "format": _FORMAT,
            "source": str(source),
            "identity": list(before),
            "sample": sample_hash(source),
            "sha256": full_hash(source),
            "feature_names": data.feature_names,
            "arrays": save_arrays(temporary, data),
        }
        if identity_of(source) != before:
            log.info("%s changed while it was read and is not cached", source)
        elif _bytes_of(temporary) <= limit:
            write_record(temporary, record)
            _discard(folder)
            temporary.rename(folder)  # fails if another writer was faster: its entry is equivalent
            prune(limit, keep=folder)
    except (OSError, Damaged) as reason:
        log.info("%s is not cached: %s", source, reason)
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _discard(folder: Path) -> None:
    """Remove an entry in one step, by renaming it first, so that no reader sees half of it."""
    doomed = folder.with_name(f"{_UNFINISHED}{folder.name}.{os.urandom(4).hex()}")
    try:
        folder.rename(doomed)
    except OSError:
        return  # gone already
    if doomed.is_dir():
        shutil.rmtree(doomed, ignore_errors=True)
    else:
        doomed.unlink(missing_ok=True)  # a stray file instead of a folder


def _remove_abandoned(older_than: float) -> None:
    """Remove unfinished folders of writers that died."""
    for folder in _subfolders():
        is_old = time.time() - _last_used(folder) >= older_than
        if folder.name.startswith(_UNFINISHED) and is_old:
            shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    return user_cache_folder() / "data"


def _subfolders() -> list[Path]:
    try:
        return [folder for folder in _folder().iterdir() if folder.is_dir()]
    except OSError:
        return []


def _folders() -> list[Path]:
    return [folder for folder in _subfolders() if not folder.name.startswith(_UNFINISHED)]


def _key(source: Path, options: Mapping[str, object]) -> str:
    text = json.dumps([_FORMAT, str(source), sorted(options.items())], default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _bytes_of(folder: Path) -> int:
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except OSError:
        return 0  # just removed by another process


def _last_used(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _limit_bytes() -> int:
    text = os.environ.get("RANKWOOD_CACHE_GB", "")
    try:
        limit = float(text) if text.strip() else _DEFAULT_LIMIT_GB
    except ValueError:
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise ParameterError(
            f"RANKWOOD_CACHE_GB must be a number of at least 0 (gigabytes; 0 switches the cache "
            f"off), got {text!r}."
        )
    return int(limit * 1e9)


# The files of one entry.


class Damaged(Exception):
    """An entry cannot be used; the message says why."""


class Identity(NamedTuple):
    """Size, times and inode of a file."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int


def identity_of(path: Path) -> Identity:
    """Size, times of the last changes and inode of a file."""
    status = path.stat()
    return Identity(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


def sample_hash(path: Path) -> str:
    """Hash of the size and of 64 blocks spread over the file, which cover all of a small file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        digest.update(size.to_bytes(8, "little"))
        last = max(0, size - _BLOCK_BYTES)
        for start in sorted(
            {last * block // (_SAMPLE_BLOCKS - 1) for block in range(_SAMPLE_BLOCKS)}
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


def checksum(array: Array) -> str:
    """A checksum of an array's bytes: the exclusive or of the words of each block, and of each place in blocks, hashed.

    Any flipped bit changes it, and so do words or blocks in another order. It runs at the speed of the memory, and is
    no defence against someone who looks for another array with the same sum.
    """
    flat = array.reshape(-1).view(np.uint8)
    n_whole = flat.size // _BLOCK_BYTES * _BLOCK_BYTES
    digest = hashlib.sha256(flat[n_whole:].tobytes())
    blocks = flat[:n_whole].view(np.uint64).reshape(-1, _BLOCK_BYTES // 8)
    step = _CHUNK_BYTES // _BLOCK_BYTES
    for first in range(0, len(blocks), step):
        chunk = blocks[first : first + step]
        digest.update(np.bitwise_xor.reduce(chunk, axis=1).data)
        digest.update(np.bitwise_xor.reduce(chunk, axis=0).data)
    return digest.hexdigest()


def write_record(folder: Path, record: dict[str, Any], name: str = RECORD) -> None:
    """Write the record and its own hash, replacing an older one atomically."""
    body = {key: value for key, value in record.items() if key != "digest"}
    with atomic_path(folder / name) as path:
        path.write_text(json.dumps({**body, "digest": _digest(body)}, indent=1), encoding="utf-8")


def read_record(folder: Path, name: str = RECORD) -> dict[str, Any]:
    """The record as it was written, or ``Damaged``."""
    try:
        record = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Damaged(f"its record cannot be read ({type(error).__name__})") from None
    if not isinstance(record, dict) or record.pop("digest", None) != _digest(record):
        raise Damaged("its record was changed")
    return record


def _digest(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def save_arrays(folder: Path, data: RankingData) -> dict[str, Any]:
    """Write the arrays of ``data`` and return the record of each."""
    described = {}
    for name, array in _arrays_of(data).items():
        path = folder / f"{name}.npy"
        np.save(path, array, allow_pickle=False)
        described[name] = {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "checksum": checksum(np.ascontiguousarray(array)),
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
    """The index of each row's text among the distinct texts, and those texts as bytes."""
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
    if array.nbytes > _CHECKED_AT_ONCE:
        threading.Thread(target=_watch, args=(path, array, described), daemon=True).start()
    elif checksum(array) != described["checksum"]:
        raise Damaged(f"{path.name} was changed")
    return array


def _watch(path: Path, array: Array, described: dict[str, Any]) -> None:
    """Compare a large array with its checksum while it is in use already; remove a damaged entry."""
    if checksum(array) != described["checksum"]:
        _discard(path.parent)
        warnings.warn(
            f"{path} was damaged on the disk, and what was computed from it since it was opened is wrong. It has been "
            "removed: read the data again.",
            DataWarning,
            stacklevel=2,
        )
