"""Digests of whatever the library gives: the same values give the same digest, whatever class holds them."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rankwood import __version__
from rankwood.models import archive
from rankwood.models.format import read_model
from rankwood.training.record import DIGEST, STATISTICS

ROUNDED_TO = 10  # significant digits, of what depends on the processor in the last bits
_LEAST = 1e-12  # what is smaller is 0 where values are rounded: what is left of a difference has no digits to keep


def digest_of(value: Any, digits: int | None = None) -> str:
    """The sha256 of a value; with ``digits``, of its floats rounded to so many significant digits.

    Model files are bytes like others, unless values are rounded: then their content is looked at.
    """
    digest = hashlib.sha256()
    for part in _parts(value, digits):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


# What digests name as the version of Rankwood, so that a release moves none of them: the first that they were made with.
WRITTEN_AS = "0.1.0"


def without_record(path: Path) -> bytes:
    """The bytes of a model file without what it says of its training data, as version ``WRITTEN_AS`` would write it."""
    read_model(path)  # refuses what is no model file
    document, arrays = archive.read_archive(path, lambda _: None)
    training = document.get("training") or {}
    for name in (DIGEST, STATISTICS):
        training.pop(name, None)
    return _written_as_then(path, document, arrays)


def of_first_version(path: Path) -> bytes:
    """The bytes of a checkpoint as version ``WRITTEN_AS`` would write it."""
    return _written_as_then(path, *archive.read_archive(path, lambda _: None))


def _written_as_then(path: Path, document: dict[str, Any], arrays: Mapping[str, Any]) -> bytes:
    bare = path.with_name(f"{path.name}-bare")
    archive.write_archive(bare, _with_version_then(document), arrays)
    return bare.read_bytes()


def _with_version_then(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: WRITTEN_AS
            if key in ("version", "rankwood_version") and each == __version__
            else _with_version_then(each)
            for key, each in value.items()
        }
    return [_with_version_then(each) for each in value] if isinstance(value, list) else value


def _parts(value: Any, digits: int | None) -> Iterator[bytes]:
    """The value as a row of bytes. Names of classes are no part of it, names of fields are."""
    if isinstance(value, bytes):
        if digits is None or not zipfile.is_zipfile(io.BytesIO(value)):
            yield value
        else:
            yield from _parts(_content(value), digits)
    elif value is None or isinstance(value, str | bool | int | np.integer | np.bool_):
        yield str(value).encode()
    elif isinstance(value, float | np.floating):
        yield _float(float(value), digits)
    elif isinstance(value, np.ndarray):
        yield from _array(value, digits)
    elif isinstance(value, Mapping):
        yield b"mapping"
        for name, item in value.items():
            if name != "seconds":  # what a run took is no part of what it gave
                yield str(name).encode()
                yield from _parts(item, digits)
    elif callable(getattr(value, "to_dict", None)):
        yield from _parts(value.to_dict(), digits)
    elif dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        if (
            getattr(value, "positions", 0) is None
        ):  # data that are no click log, as before there were any
            names.remove("positions")
        for name in ("categorical", "is_categorical", "subsets"):  # as before there were any
            item = getattr(value, name, 0)
            if item is None or np.size(item) == 0:
                names.remove(name)
        yield from _parts({name: getattr(value, name) for name in names if name[0] != "_"}, digits)
    elif isinstance(value, list | tuple):
        yield f"{len(value)} items".encode()
        for item in value:
            yield from _parts(item, digits)
    else:
        raise TypeError(f"no digest for {type(value).__name__}: give its parts.")


def _array(array: np.ndarray, digits: int | None) -> Iterator[bytes]:
    if array.dtype.kind in "OU":
        yield from _parts(array.tolist(), digits)
        return
    yield f"{array.dtype.str} {array.shape}".encode()
    if digits is not None and array.dtype.kind == "f":
        yield b" ".join(_float(float(item), digits) for item in array.ravel())
    else:
        yield np.ascontiguousarray(array).tobytes()


def _float(value: float, digits: int | None) -> bytes:
    value += 0.0  # -0 is 0
    if digits is None:
        return value.hex().encode()
    return f"{0.0 if abs(value) < _LEAST else value:.{digits}g}".encode()


def _content(model: bytes) -> dict[str, Any]:
    """The members of a model file; digests of arrays are left out, since the arrays are there."""
    with zipfile.ZipFile(io.BytesIO(model)) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(found.pop("model.json"))
    for array in document["arrays"].values():
        del array["sha256"]
    return {"model.json": document} | {
        name: np.load(io.BytesIO(content), allow_pickle=False) for name, content in found.items()
    }
