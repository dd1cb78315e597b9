"""``export`` writes a model as a file of another system, with a certificate; ``import_model`` reads such files.

``FORMATS`` lists the formats that can be written, ``READERS`` those that can be imported. To add a format, write a
module with ``write``, ``read`` and ``RULES`` and list it in ``FORMATS``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.files import atomic_path, explained_writing
from rankwood.errors import ModelError
from rankwood.exports import (
    c_source,
    lightgbm,
    lightgbm_json,
    onnx,
    plain_json,
    ranklib,
    solr,
    xgboost,
)
from rankwood.exports.reading import MOST_FEATURES, into_forest, renamed
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.verify import Certificate, check_decisions, compare_scores, file_facts
from rankwood.exports.writing import WriteOptions, binary_splits, checked_names, names_for
from rankwood.models.blend import BlendModel
from rankwood.models.family import Family
from rankwood.models.forest import Forest
from rankwood.models.format import KINDS, kind_of, save_model
from rankwood.models.ordinal import OrdinalModel

_PIECE_BYTES = 1 << 20
_MOST_BYTES = 1 << 30  # a larger file is not a model of trees

_REASONS = {
    "linear": "a linear model is no sum of trees",
    "neural": "a neural network is no sum of trees",
    "cascade": "the layers of a cascade feed their scores to one another, so that it is no sum of trees",
}


def export(
    model: Any,
    path: str | os.PathLike[str],
    format: str,  # noqa: A002 - the name a reader expects
    *,
    verify: Any = None,
    feature_names: Sequence[str] | None = None,
    assume_no_missing: bool = False,
    nearest_thresholds: bool = False,
    model_name: str = "rankwood",
    objective: str = "rank:ndcg",
) -> Certificate:
    """Write a model of trees for another system, and prove that the file scores as the model does.

    The file is read back and compared split by split; with ``verify``, documents are scored from it under the exact
    rules of its reader. If a format cannot express the model, an error is raised and no file is written.

    Parameters
    ----------
    model
        A fitted ranker that is a sum or mean of trees, or a ``Forest``.
    path
        The file; it is written atomically, after all checks have passed.
    format
        "ranklib", "xgboost-json", "solr", "lightgbm", "lightgbm-json", "onnx", "json" or "c".
    verify
        Documents to score from the file: RankingData, or rows × features.
    feature_names
        Names to write, in the order of the features; by default the model's own.
    assume_no_missing
        For formats that treat a missing value as 0 (ranklib): no document ever has a missing value.
    nearest_thresholds
        For Solr: if no float32 plus its 1e-6 gives a threshold, write the nearest instead of raising an error.
    model_name
        The name of the model in Solr's model store and in ONNX.
    objective
        The objective in xgboost-json: "rank:ndcg", "rank:pairwise" or "reg:linear", which do not transform scores;
        "none" writes the bare array of trees, as Vespa reads it.
    """
    target = FORMATS[checks.one_of("format", format, FORMATS)]
    whole = forest_inside(model)
    forest = whole if target.has_third_children else binary_splits(whole)
    options = WriteOptions(
        checked_names(feature_names), str(model_name), objective, nearest_thresholds
    )
    notes = []
    if forest is not whole:
        notes.append("each split with a third child for missing values is written as two trees")
    if target.rules.missing == "zero":
        notes.append(check_missing_as_zero(forest, model, format, assume_no_missing))
    notes += target.notes(forest, options)
    content = target.write(forest, options)
    if format == "xgboost-json":  # a dump does not contain the order of the features
        trees = xgboost.read(content, names_for(forest, options, xgboost.default_name))
    else:
        trees = target.read(content)
    n_inexact = solr.n_inexact(forest)[0] if format == "solr" and nearest_thresholds else 0
    check_decisions(forest, trees, target.rules, n_inexact=n_inexact)
    scored = {} if verify is None else compare_scores(whole, forest, trees, target.rules, verify)
    with explained_writing(path), atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return Certificate(
        format=format,
        path=os.fspath(path),
        **file_facts(content),
        n_trees=trees.n_trees,
        n_splits=int((trees.feature >= 0).sum()),
        rules=target.rules.texts,
        notes=tuple(notes),
        **scored,
    )


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
        The number of features of the data, if the file contains only those it uses (ranklib, dumps of XGBoost).
    base
        The constant added to every score; a dump of XGBoost does not contain its base score.
    """
    names = checked_names(feature_names)
    if n_features is not None:
        n_features = checks.whole_number("n_features", n_features, 1, MOST_FEATURES)
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
    """Write an imported forest to a model file, with a record of its origin."""
    record = {
        "imported_from": format,
        "imported_file": os.path.basename(os.fspath(source)),
        "imported_sha256": hashlib.sha256(_content(source)).hexdigest(),
    }
    save_model(forest, path, {"training": record})


# The formats by name.


@dataclass(frozen=True)
class Format:
    """A format: its purpose, its writer and reader, the rules of its engines, and notes for the certificate."""

    meaning: str
    write: Callable[[Forest, WriteOptions], bytes]
    read: Callable[[bytes], FileTrees]
    rules: EngineRules
    notes: Callable[[Forest, WriteOptions], list[str]]
    has_third_children: bool = False


def _no_notes(forest: Forest, options: WriteOptions) -> list[str]:  # noqa: ARG001
    return []


def _format(module: Any, meaning: str, *, has_third_children: bool = False) -> Format:
    """The format of a module with ``write``, ``read``, ``RULES`` and possibly ``notes``."""
    notes = getattr(module, "notes", _no_notes)
    return Format(meaning, module.write, module.read, module.RULES, notes, has_third_children)


FORMATS: dict[str, Format] = {
    "ranklib": _format(ranklib, "RankLib; OpenSearch and Elasticsearch LTR as model/ranklib"),
    "xgboost-json": _format(
        xgboost, "OpenSearch and Elasticsearch LTR as model/xgboost+json; Vespa"
    ),
    "solr": _format(solr, "Solr's MultipleAdditiveTreesModel"),
    "lightgbm": _format(lightgbm, "LightGBM's text, version 4; Treelite"),
    "lightgbm-json": _format(lightgbm_json, "LightGBM's JSON as Vespa reads it"),
    "onnx": _format(onnx, "ONNX Runtime: a TreeEnsembleRegressor"),
    "json": _format(plain_json, "a plain dump of the trees", has_third_children=True),
    "c": _format(c_source, "one C file with double score(const float *)", has_third_children=True),
}


# The formats that can be imported.
READERS: dict[str, Format] = {
    "lightgbm": FORMATS["lightgbm"],
    "xgboost": FORMATS["xgboost-json"],
    "ranklib": FORMATS["ranklib"],
    "solr": FORMATS["solr"],
    "json": FORMATS["json"],
}


def forest_inside(model: Any) -> Forest:
    """The forest whose sum or mean is the model's score, or an error that says why there is none."""
    name = type(model).__name__
    stored = (
        model if kind_of(model) is not None else getattr(model, getattr(model, "_model", ""), None)
    )
    if stored is None and hasattr(model, "_model"):
        raise ModelError(f"this {name} is not fitted yet: there is nothing to export.")
    kind = str(kind_of(stored))
    if kind in _REASONS:
        raise ModelError(f"{name} cannot be exported: {_REASONS[kind]}.")
    if isinstance(stored, OrdinalModel | Family | BlendModel):
        return stored.forest  # raises where the score is no sum of trees
    if not isinstance(stored, Forest):
        nouns = ", ".join(kind.noun for kind in KINDS.values())
        raise ModelError(f"{name} cannot be exported: it is no ranker of ours and no {nouns}.")
    return stored


def check_missing_as_zero(
    forest: Forest, model: Any, format_name: str, assume_no_missing: bool
) -> str:
    """The note on missing values for a format that treats them as 0, or an error if that would be wrong."""
    if zero_stands_for_missing(forest):
        return "every split sends missing values where it sends 0, as the format does"
    record = getattr(model, "training_", None)
    n_missing = record.get("features_with_missing") if isinstance(record, dict) else None
    if n_missing == 0:
        return "the training data had no missing values; one that comes later is 0 for the format"
    if assume_no_missing:
        return "assumed on request: no document has missing values; the format takes them for 0"
    known = (
        "It is not known whether the training data had any"
        if n_missing is None
        else f"{n_missing:,} features of the training data had some"
    )
    raise ModelError(
        f"{format_name} takes a missing value for 0, but this model sends missing values elsewhere. {known}. "
        "If documents never lack a value, say so (assume_no_missing); else fill missing values with 0 and train "
        "again, or export to a format that knows them."
    )


def zero_stands_for_missing(forest: Forest) -> bool:
    """Whether every split sends a missing value where it sends 0."""
    inner = np.flatnonzero(forest.feature >= 0)
    side_of_zero = np.where(forest.threshold[inner] >= 0, forest.left[inner], forest.right[inner])
    return bool((forest.missing[inner] == side_of_zero).all())


def _read(
    content: bytes, name: str, names: tuple[str, ...] | None, n_features: int | None
) -> Forest:
    reader = READERS[checks.one_of("format", name, READERS)]
    trees = xgboost.read(content, names) if name == "xgboost" else reader.read(content)
    return into_forest(renamed(trees, names, n_features), reader.rules)


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as file:
            content = bytearray()
            # In pieces: Python would allocate a buffer of the size it is asked to read.
            while len(content) <= _MOST_BYTES and (piece := file.read(_PIECE_BYTES)):
                content += piece
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise ModelError(f"{os.fspath(path)} cannot be read: {error.strerror}.") from None
    if len(content) > _MOST_BYTES:
        raise ModelError(f"{os.fspath(path)} is larger than {_MOST_BYTES:,} bytes.")
    return bytes(content)
