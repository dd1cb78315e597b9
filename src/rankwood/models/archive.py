"""The zip container of a model: a JSON document and arrays, written to fixed bytes and read without trust.

Members are stored, never compressed: the same model gives the same bytes for any version of zlib, and a small file
cannot expand to more memory than it has bytes. Arrays are ``.npy`` files whose header follows from the dtype and shape
that the document declares; the reader builds that header itself and compares, so it parses nothing but JSON.

The functions at the end convert a forest to arrays and back. A forest is a model of its own and a part of others.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import struct
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from rankwood._core import checks
from rankwood._core.files import atomic_path, explained_writing
from rankwood.data.sources import missing_file
from rankwood.dtypes import Array
from rankwood.errors import ModelError
from rankwood.models import validate
from rankwood.models.forest import Forest, subsets_of
from rankwood.trees.workspace import N_WORDS

DOCUMENT = "model.json"
DTYPES = ("|b1", "|u1", "<i4", "<i8", "<f4", "<f8")
_ARRAY_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
_MOST_DOCUMENT_BYTES = 16 * 2**20
_MOST_DIRECTORY_BYTES = 2**20  # enough for some thousand arrays
_MOST_DIMENSIONS = 4
_MOST_NAME = 128
_MOST_LEVELS = 64  # of lists and objects inside each other
_HALF_A_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_CHUNK = 1 << 20
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time of zip: bytes must not depend on the clock
_END = struct.Struct("<4s4H2LH")  # end of central directory
_END64 = struct.Struct("<4sQ2H2L4Q")  # its 64-bit form, followed by a 20-byte locator
_LOCATOR_BYTES = 20

# Exceptions of zipfile and its helpers for bytes that are not a zip file.
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    struct.error,
    ValueError,
    OverflowError,
    OSError,
    KeyError,
    IndexError,
)

_FOREST_SCALARS = ("average", "base", "n_features")
SUBSETS = "subsets"  # the array that only forests with categories have
_TREES = "trees."  # prefix of the arrays of a forest inside another model

Record = dict[str, Any]
Arrays = dict[str, Array]


def write_archive(
    path: str | os.PathLike[str], document: Mapping[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Write ``document``, with a record of the arrays under its key ``arrays``, and the arrays.

    The file is replaced atomically.
    """
    plain = {name: _plain(name, arrays[name]) for name in sorted(arrays)}
    declared = {name: _declare(array) for name, array in plain.items()}
    record = {
        name: {"dtype": array.dtype, "shape": list(array.shape), "sha256": array.sha256}
        for name, array in declared.items()
    }
    text = _to_json({**document, "arrays": record})
    with (
        explained_writing(path, ModelError),
        atomic_path(path, durable=True) as temporary,
        zipfile.ZipFile(temporary, "w") as archive,
    ):
        archive.writestr(_member(DOCUMENT, len(text)), text)
        for name, array in plain.items():
            header = declared[name].header
            member = _member(_member_name(name), len(header) + array.nbytes)
            with archive.open(member, "w") as file:
                file.write(header)
                file.write(array.reshape(-1).view(np.uint8).data)


def read_archive(
    path: str | os.PathLike[str], check: Callable[[dict[str, Any]], None]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """The document and its arrays, read-only; a ``ModelError`` for any deviation from the written form.

    ``check`` gets the document before the arrays are read, so that a newer format is distinguished from a damaged file.
    """
    file_path = Path(path)
    size = _size_of_file(file_path)
    try:
        with file_path.open("rb") as file:
            _refuse_large_directory(file_path, file, size)
            with zipfile.ZipFile(file) as archive:
                members = _members(file_path, archive)
                document = _read_document(file_path, archive, members)
                check(document)
                declared = _declared_arrays(file_path, document.pop("arrays", None))
                _compare_members(file_path, members, declared, size)
                arrays = {
                    name: _read_array(file_path, archive, members[_member_name(name)], name, array)
                    for name, array in declared.items()
                }
    except ModelError:
        raise
    except _ZIP_ERRORS as error:
        _refuse(file_path, f"is damaged ({str(error) or type(error).__name__})")
    return document, arrays


@dataclass(frozen=True)
class Declared:
    """An array as the document declares it."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str

    @property
    def n_bytes(self) -> int:
        """Bytes of its values."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def header(self) -> bytes:
        """The header of a ``.npy`` file, version 1.0, padded to a multiple of 64 bytes."""
        text = f"{{'descr': '{self.dtype}', 'fortran_order': False, 'shape': {self.shape!r}, }}"
        padding = -(10 + len(text) + 1) % 64
        body = (text + " " * padding + "\n").encode("ascii")
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body


# Arrays of models: conversion to and from a file that is not trusted.


def forest_to_arrays(forest: Forest, prefix: str = "") -> tuple[Record, Arrays]:
    """A forest's scalars for ``model.json``, and its arrays, their names prefixed by ``prefix``.

    Feature names belong to the whole model and are not included.
    """
    record = {name: getattr(forest, name) for name in _FOREST_SCALARS}
    arrays = {prefix + name: getattr(forest, name) for name in validate.ARRAYS}
    if forest.categorical is not None:
        record["categorical"] = forest.categorical
        arrays[f"{prefix}{SUBSETS}"] = subsets_of(forest).view(np.int64)
    return record, arrays


def forest_from_arrays(
    record: Any, arrays: Mapping[str, Array], feature_names: Any = None, prefix: str = ""
) -> Forest:
    """The forest from the result of ``forest_to_arrays``, fully checked."""
    has_categories = isinstance(record, dict) and "categorical" in record
    check_record(record, (*_FOREST_SCALARS, "categorical") if has_categories else _FOREST_SCALARS)
    own = native_arrays(validate.ARRAYS, arrays, prefix)
    if not has_categories:
        return Forest(**own, **record, feature_names=names_of(feature_names))
    subsets = native_arrays({SUBSETS: np.int64}, arrays, prefix)[SUBSETS]
    validate.ArrayRule(np.int64, (len(own["feature"]), N_WORDS)).check(SUBSETS, subsets)
    record = {**record, "categorical": _dictionaries(record["categorical"])}
    own[SUBSETS] = np.ascontiguousarray(subsets).view(np.uint64)
    return Forest(**own, **record, feature_names=names_of(feature_names))


def _dictionaries(value: Any) -> Any:
    """Categories by feature as JSON holds them, as tuples; the forest checks them."""
    if not isinstance(value, list):
        raise ModelError("categorical must be a list with an entry for each feature.")
    return tuple(tuple(names) if isinstance(names, list) else names for names in value)


def trees_to_arrays(trees: Forest) -> tuple[Record, Arrays]:
    """The record and arrays of the forest inside another model."""
    return forest_to_arrays(trees, _TREES)


def trees_from_arrays(
    record: Any, arrays: Mapping[str, Array], feature_names: Any
) -> tuple[Forest, Arrays]:
    """The forest inside another model, and the arrays that are not the forest's."""
    own = {name: array for name, array in arrays.items() if not name.startswith(_TREES)}
    return forest_from_arrays(record, arrays, feature_names, _TREES), own


def native_arrays(
    dtypes: Mapping[str, type[np.generic]], arrays: Mapping[str, Array], prefix: str = ""
) -> dict[str, Any]:
    """The named arrays of a file in native byte order; the model checks their values."""
    native: dict[str, Any] = {}
    for name, dtype in dtypes.items():
        if prefix + name not in arrays:
            raise ModelError(f"array '{prefix + name}' is missing.")
        # On a big-endian machine this swaps the bytes.
        array = arrays[prefix + name]
        is_native = array.dtype.newbyteorder("=") == np.dtype(dtype)
        native[name] = array.astype(dtype, copy=False) if is_native else array
    return native


def check_record(record: Any, scalars: tuple[str, ...]) -> None:
    """Raise unless ``record`` holds these scalars and nothing else."""
    if not isinstance(record, dict) or set(record) != set(scalars):
        raise ModelError(f"its record must hold {', '.join(scalars)} and nothing else.")


def refuse_others(arrays: Mapping[str, Array], known: Collection[str], noun: str) -> None:
    """Raise if there are arrays that a model of this kind does not have."""
    unknown = sorted(set(arrays) - set(known))
    if unknown:
        raise ModelError(f"array '{unknown[0]}' does not belong to {noun}.")


def names_of(feature_names: Any) -> tuple[str, ...] | None:
    """Feature names as a tuple, or None."""
    return None if feature_names is None else tuple(feature_names)


# Writing and reading of the container.


def _plain(name: str, array: Array) -> Array:
    """``array`` in little-endian C order; raises if its name or dtype cannot be written."""
    if not _ARRAY_NAME.fullmatch(name) or len(name) > _MOST_NAME:
        raise ModelError(f"array name {name!r}: small letters, digits, _ and . are allowed.")
    plain = np.asarray(array, order="C")
    plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    if plain.dtype.str not in DTYPES or plain.ndim > _MOST_DIMENSIONS:
        raise ModelError(
            f"array '{name}' is {plain.dtype} of {plain.ndim} dimensions; a model file holds "
            f"{', '.join(DTYPES)} of at most {_MOST_DIMENSIONS}."
        )
    return plain


def _declare(array: Array) -> Declared:
    digest = hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest()
    return Declared(array.dtype.str, array.shape, digest)


def _to_json(document: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(
            document,
            sort_keys=True,
            indent=1,
            allow_nan=False,
            ensure_ascii=False,
            default=_to_plain,
        )
        encoded = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"this cannot be written to a model file as JSON: {error}") from None
    if len(encoded) > _MOST_DOCUMENT_BYTES:
        raise ModelError(f"{DOCUMENT} would take {len(encoded):,} bytes; 16 MiB are allowed.")
    return encoded


def _to_plain(value: Any) -> Any:
    """Numpy numbers and arrays as Python numbers and lists."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} {value!r}")


def _member(name: str, size: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _TIME)
    member.create_system = 3  # Unix, so that the bytes are the same on Windows
    member.external_attr = (stat.S_IFREG | 0o644) << 16
    member.file_size = size
    return member


def _member_name(array: str) -> str:
    return f"arrays/{array}.npy"


def _refuse(path: Path, what: str) -> NoReturn:
    raise ModelError(f"{path} {what}. Copy or export the model again.") from None


def _size_of_file(path: Path) -> int:
    try:
        status = path.stat()
    except FileNotFoundError:
        raise ModelError(f"{missing_file(path)} Pass the path of a model file.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{path}: {reason}. Pass the path of a model file.") from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise ModelError(f"{path} is {kind}. Pass the path of a model file.")
    if status.st_size < _END.size:
        _refuse(path, "is empty" if status.st_size == 0 else "is too short to be a model file")
    return status.st_size


def _refuse_large_directory(path: Path, file: Any, size: int) -> None:
    """Raise unless the zip file ends as written files do, with a directory of ordinary size.

    zipfile loads the whole directory, so its size is checked first.
    """
    file.seek(size - _END.size)
    end = _END.unpack(file.read(_END.size))
    if end[0] != b"PK\x05\x06" or end[7] != 0:
        _refuse(path, "is not a model file, or is truncated: it does not end as a zip file does")
    directory_bytes = end[5]
    end64_at = size - _END.size - _LOCATOR_BYTES - _END64.size
    if end64_at >= 0:
        file.seek(end64_at)
        end64 = _END64.unpack(file.read(_END64.size))
        if file.read(4) == b"PK\x06\x07":
            directory_bytes = max(directory_bytes if directory_bytes < 2**32 - 1 else 0, end64[8])
    if directory_bytes > _MOST_DIRECTORY_BYTES:
        _refuse(path, f"lists members in {directory_bytes:,} bytes, more than any model needs")


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.orig_filename
        mode = member.external_attr >> 16
        if name in members:
            _refuse(path, f"holds {name!r} twice")
        if member.flag_bits & 0x1:
            _refuse(path, f"holds {name!r} encrypted")
        if member.is_dir() or (mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
            _refuse(path, f"holds {name!r}, which is not a plain file")
        members[name] = member
    return members


def _refuse_compressed(path: Path, name: str, member: zipfile.ZipInfo) -> None:
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        _refuse(path, f"holds {name!r} compressed, which model files never are")


def _read_document(
    path: Path, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]
) -> dict[str, Any]:
    member = members.get(DOCUMENT)
    if member is None:
        raise ModelError(f"{path} is a zip file, but not a model: it holds no {DOCUMENT}.")
    _refuse_compressed(path, DOCUMENT, member)
    if member.file_size > _MOST_DOCUMENT_BYTES:
        _refuse(path, f"has a {DOCUMENT} of {member.file_size:,} bytes; 16 MiB are allowed")
    text = archive.read(member)
    try:
        document = json.loads(
            text.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_twins
        )
    except (ValueError, RecursionError) as error:
        _refuse(path, f"has a {DOCUMENT} that cannot be read ({error})")
    if not isinstance(document, dict):
        _refuse(path, f"has a {DOCUMENT} that is no object")
    if _is_deep(document):
        _refuse(path, f"has a {DOCUMENT} nested more than {_MOST_LEVELS} levels deep")
    if _HALF_A_CHARACTER.search(text) and not checks.is_unicode(
        json.dumps(document, ensure_ascii=False)
    ):
        _refuse(path, f"has a {DOCUMENT} with half a character (a lone surrogate)")
    return document


def _is_deep(document: Any) -> bool:
    """Whether a value of JSON is nested deeper than its readers follow."""
    level = [document]
    for _ in range(_MOST_LEVELS):
        of_objects = [part.values() if isinstance(part, dict) else part for part in level]
        level = [part for parts in of_objects for part in parts if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return record


def _declared_arrays(path: Path, record: Any) -> dict[str, Declared]:
    if not isinstance(record, dict):
        _refuse(path, f"has a {DOCUMENT} without a record of its arrays")
    declared = {}
    for name, entry in record.items():
        if not _ARRAY_NAME.fullmatch(name) or len(name) > _MOST_NAME:
            _refuse(path, f"declares an array named {name[:_MOST_NAME]!r}")
        keys = {"dtype", "shape", "sha256"}
        if not isinstance(entry, dict) or set(entry) != keys:
            _refuse(path, f"declares array '{name}' without dtype, shape and sha256, or with more")
        shape, dtype, sha256 = entry["shape"], entry["dtype"], entry["sha256"]
        if dtype not in DTYPES:
            _refuse(path, f"declares array '{name}' of dtype {str(dtype)[:40]!r}")
        if not _is_shape(shape) or not isinstance(sha256, str):
            _refuse(path, f"declares array '{name}' with a shape or hash that is none")
        declared[name] = Declared(dtype, tuple(shape), sha256)
    return declared


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) <= _MOST_DIMENSIONS
        and all(type(length) is int and 0 <= length < 2**48 for length in shape)
    )


def _compare_members(
    path: Path, members: Mapping[str, zipfile.ZipInfo], declared: Mapping[str, Declared], size: int
) -> None:
    """Raise unless the members are those declared, of the declared sizes, and fit into the file."""
    wanted = {_member_name(name) for name in declared} | {DOCUMENT}
    for name in sorted(wanted ^ set(members)):
        _refuse(path, f"lacks {name!r}" if name in wanted else f"holds {name!r}, not declared")
    for name, array in declared.items():
        _refuse_compressed(path, _member_name(name), members[_member_name(name)])
        actual = members[_member_name(name)].file_size
        expected = len(array.header) + array.n_bytes
        if actual != expected:
            _refuse(path, f"holds {actual:,} bytes of array '{name}' instead of {expected:,}")
    total = sum(member.file_size for member in members.values())
    if total > size:
        _refuse(path, f"declares {total:,} bytes of content, more than the file has")


def _read_array(
    path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, declared: Declared
) -> Array:
    values = np.empty(declared.n_bytes, np.uint8)
    digest = hashlib.sha256()
    with archive.open(member) as file:
        if file.read(len(declared.header)) != declared.header:
            _refuse(path, f"holds array '{name}' with another header than declared")
        position = 0
        while piece := file.read(_CHUNK):
            values[position : position + len(piece)] = np.frombuffer(piece, np.uint8)
            digest.update(piece)
            position += len(piece)
    if position != declared.n_bytes or digest.hexdigest() != declared.sha256:
        _refuse(path, f"holds array '{name}' with another content than declared: it is damaged")
    if declared.dtype == "|b1" and values.size and values.max() > 1:
        _refuse(path, f"holds array '{name}' with truth values other than 0 and 1")
    array = values.view(declared.dtype).reshape(declared.shape)
    array.flags.writeable = False
    return array
