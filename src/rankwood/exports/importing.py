"""``import_model``: trees that another system has trained, as a ``Forest``."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Sequence

from rankwood import _checks
from rankwood.errors import ModelError
from rankwood.exports import xgboost
from rankwood.exports.formats import READERS
from rankwood.exports.tree_building import MOST_FEATURES, into_forest, renamed
from rankwood.exports.writing import checked_names
from rankwood.models.forest import Forest
from rankwood.models.format import save_model

_PIECE_BYTES = 1 << 20
_MOST_BYTES = 1 << 30  # a file beyond it is no model of trees


def import_model(
    path: str | os.PathLike[str],
    format: str,  # noqa: A002 - the name a reader expects
    *,
    feature_names: Sequence[str] | None = None,
    n_features: int | None = None,
    base: float | None = None,
) -> Forest:
    """The trees of another system's model as a ``Forest``, which can be saved, evaluated, compared, served, exported.

    It decides as that system does for every float32 value; scores are the same up to that system's rounding.

    Parameters
    ----------
    path
        The file.
    format
        "lightgbm" (text, version 3 or 4), "xgboost" (the JSON of ``get_dump`` or of ``save_model``), "ranklib",
        "solr" or "json" (our own plain dump).
    feature_names
        The features in the order of the data's columns. A dump of XGBoost with names needs them.
    n_features
        How many features the data have, where the file tells only of those it uses (ranklib, dumps of XGBoost).
    base
        What is added to every score; a dump of XGBoost leaves its base score out.
    """
    names = checked_names(feature_names)
    if n_features is not None:
        n_features = _checks.whole_number("n_features", n_features, 1, MOST_FEATURES)
    content = _content(path)
    try:
        forest = _read(content, format, names, n_features)
    except ModelError as error:
        raise ModelError(f"{os.fspath(path)} is no usable {format} model: {error}") from None
    return forest if base is None else dataclasses.replace(forest, base=base)


def save_imported(
    forest: Forest,
    source: str | os.PathLike[str],
    format: str,  # noqa: A002
    path: str | os.PathLike[str],
) -> None:
    """Write an imported forest to a model file, which says where it came from."""
    record = {
        "imported_from": format,
        "imported_file": os.path.basename(os.fspath(source)),
        "imported_sha256": hashlib.sha256(_content(source)).hexdigest(),
    }
    save_model(forest, path, {"training": record})


def _read(
    content: bytes, name: str, names: tuple[str, ...] | None, n_features: int | None
) -> Forest:
    reader = READERS[_checks.one_of("format", name, READERS)]
    trees = xgboost.read(content, names) if name == "xgboost" else reader.read(content)
    return into_forest(renamed(trees, names, n_features), reader.rules)


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as file:
            content = bytearray()
            # Piece by piece: asked for the most there may be, Python would set that much aside.
            while len(content) <= _MOST_BYTES and (piece := file.read(_PIECE_BYTES)):
                content += piece
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise ModelError(f"{os.fspath(path)} cannot be read: {error.strerror}.") from None
    if len(content) > _MOST_BYTES:
        raise ModelError(f"{os.fspath(path)} is larger than {_MOST_BYTES:,} bytes.")
    return bytes(content)
