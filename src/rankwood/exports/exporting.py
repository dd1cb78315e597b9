"""``export`` writes a model as a file of another system, with a certificate; ``import_model`` reads such files.

``FORMATS`` lists the formats that can be written, ``READERS`` those that can be imported. To add a format, write a
module with ``write``, ``read`` and ``RULES`` and list it in ``FORMATS``.

A written file must decide and score as the model does, under the rules of its reader. ``check_decisions`` compares
every split of the file with the model's. ``compare_scores`` scores documents from the file. The results go into a
``Certificate``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.files import atomic_path, explained_writing
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Features, Floats
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.exports import (
    c_source,
    lightgbm,
    lightgbm_json,
    onnx,
    plain_json,
    ranklib,
    solr,
    xgboost,
    xgboost_model,
)
from rankwood.exports.reading import MOST_FEATURES, into_forest, renamed
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.writing import (
    WriteOptions,
    binary_splits,
    checked_names,
    has_third_child,
    names_for,
    without_categories,
)
from rankwood.models.blend import BlendModel
from rankwood.models.family import Family
from rankwood.models.forest import Forest, subsets_of
from rankwood.models.format import KINDS, kind_of, save_model
from rankwood.models.ordinal import OrdinalModel
from rankwood.models.validate import features_of

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
    function_name: str = "score",
) -> Certificate:
    """Write a model of trees for another system, and prove that the file scores as the model does.

    The file is read back and compared split by split; with ``verify``, documents are scored from it under the exact
    rules of its reader. If a format cannot express the model, an error is raised and no file is written.

    Parameters
    ----------
    model
        A fitted ranker that is a sum or mean of trees, or a ``Forest``.
    path
        The file; it is written atomically, after all checks have passed. "c" writes a header beside it, under the same
        name with the ending ``.h``.
    format
        "ranklib", "xgboost-dump" (search engines), "xgboost-model" (XGBoost itself), "solr", "lightgbm",
        "lightgbm-json", "onnx", "json" or "c". The former name of "xgboost-dump" is "xgboost-json".
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
        The objective in xgboost-dump ("rank:ndcg", "rank:pairwise" or "reg:linear") and in xgboost-model ("rank:ndcg",
        "rank:pairwise", "rank:map" or "reg:squarederror"), none of which transforms scores; in xgboost-dump "none"
        writes the bare array of trees, as Vespa reads it.
    function_name
        The name of the function in C, with which all other names of the file begin.
    """
    present = FORMER_NAMES.get(format, format)
    if present not in FORMATS:
        readers = (f"{known} ({each.meaning})" for known, each in FORMATS.items())
        raise UnknownName("format", present, FORMATS, f"Who reads what: {'; '.join(readers)}.")
    target = FORMATS[present]
    header = header_path(path, format)
    whole = forest_inside(model)
    numeric = whole if target.has_categories else without_categories(whole)
    forest = numeric if target.has_third_children else binary_splits(numeric)
    if target.has_categories:
        forest = lightgbm.missing_right(forest)
    options = WriteOptions(
        checked_names(feature_names),
        str(model_name),
        objective,
        nearest_thresholds,
        function_name,
        _training_rows(model),
    )
    notes = []
    if present != format:
        notes.append(
            f"{format} is called {present} now: search engines read it, XGBoost itself loads xgboost-model"
        )
    notes += _notes_of_categories(whole, forest)
    if has_third_child(numeric).any() and not has_third_child(forest).any():
        notes.append("each split with a third child for missing values is written as two trees")
    if target.rules.missing == "zero":
        notes.append(check_missing_as_zero(forest, model, format, assume_no_missing))
    notes += target.notes(forest, options)
    content = target.write(forest, options)
    if present == "xgboost-dump":  # a dump does not contain the order of the features
        trees = xgboost.read(content, names_for(forest, options, xgboost.default_name))
    else:
        trees = target.read(content)
    n_inexact = solr.n_inexact(forest)[0] if format == "solr" and nearest_thresholds else 0
    check_decisions(forest, trees, target.rules, n_inexact=n_inexact)
    scored = {} if verify is None else compare_scores(whole, forest, trees, target.rules, verify)
    with contextlib.ExitStack() as files:
        files.enter_context(explained_writing(path))
        files.enter_context(atomic_path(path)).write_bytes(content)
        if header is not None:
            declarations = c_source.write_header(forest, options)
            files.enter_context(explained_writing(header))
            files.enter_context(atomic_path(header)).write_bytes(declarations)
            notes.append(
                f"{header.name} declares {function_name} and {function_name}_batch for C and C++"
            )
    return Certificate(
        format=present,
        path=os.fspath(path),
        **file_facts(content),
        n_trees=trees.n_trees,
        n_splits=int((trees.feature >= 0).sum()),
        rules=target.rules.texts,
        notes=tuple(notes),
        **scored,
    )


def _notes_of_categories(whole: Forest, written: Forest) -> list[str]:
    """What the certificate says about splits by categories."""
    n_splits = int(whole.subsets.any(axis=1).sum())
    if not n_splits:
        return []
    notes = [
        "a categorical feature is the code of its category; the code after the last is any other category"
    ]
    if not len(written.subsets):
        n_written = written.n_nodes - written.n_leaves
        notes.append(f"{n_splits:,} splits by categories are among {n_written:,} by thresholds")
    return notes


def header_path(path: str | os.PathLike[str], format: str) -> Path | None:  # noqa: A002
    """The header that is written beside ``path``; None for other formats than C, and beside a pipe or a device."""
    target = Path(path)
    if format != "c" or (target.exists() and not target.is_file()):
        return None
    if target.suffix == ".h":
        raise ParameterError(
            f"{target} is the name of a header. Name the C file; its header is written beside it."
        )
    is_source = target.suffix in (".c", ".cc", ".cpp", ".cxx")
    return target.with_suffix(".h") if is_source else target.with_name(f"{target.name}.h")


def import_model(
    path: Any,
    format: str | None = None,  # noqa: A002 - the name a reader expects
    *,
    feature_names: Sequence[str] | None = None,
    n_features: int | None = None,
    base: float | None = None,
    all_trees: bool = False,
) -> Forest:
    """The trees of another system's model as a ``Forest``, which can be saved, evaluated, compared, served, exported.

    It decides as that system does for every float32 value; scores are the same up to that system's rounding. They are
    margins where that system can give probabilities.

    Parameters
    ----------
    path
        The path of a file, or a fitted model: ``lightgbm.Booster``, ``LGBMRanker``, ``xgboost.Booster``, ``XGBRanker``
        and their like, or the dictionary of LightGBM's ``dump_model()``.
    format
        Of a file: "lightgbm" (text, version 3 or 4, or the JSON of ``dump_model``), "xgboost" (the JSON or UBJSON of
        ``save_model``, or the JSON of ``get_dump``), "ranklib", "solr" or "json" (our own plain dump).
    feature_names
        The features in the order of the data's columns. A dump of XGBoost with names needs them.
    n_features
        The number of features of the data, if the file contains only those it uses (ranklib, dumps of XGBoost).
    base
        The constant added to every score; a dump of XGBoost does not contain its base score.
    all_trees
        Also take the trees after the ``best_iteration`` that early stopping has left in a model of XGBoost, which
        ``XGBRanker.predict`` does not use.
    """
    names = checked_names(feature_names)
    if n_features is not None:
        n_features = checks.whole_number("n_features", n_features, 1, MOST_FEATURES)
    if isinstance(path, str | os.PathLike):
        if format is None:
            raise ParameterError(f"format must be given for a file: {', '.join(READERS)}.")
        name, chosen, content = os.fspath(path), format, _content(path)
    else:
        chosen, content = _content_of_object(path, all_trees)
        name = f"this {type(path).__name__}"
        if format not in (None, chosen):
            raise ParameterError(f"{name} is a model of {chosen}, but format is '{format}'.")
    try:
        forest = _read(content, chosen, names, n_features, all_trees=all_trees)
    except ModelError as error:
        raise ModelError(f"{name} is no usable {chosen} model: {error}") from None
    return forest if base is None else dataclasses.replace(forest, base=base)


def _content_of_object(model: Any, all_trees: bool) -> tuple[str, bytes]:
    """The library of a fitted model, and the file that it would save."""
    name = type(model).__name__
    if isinstance(model, dict):
        try:
            return "lightgbm", json.dumps(model).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ModelError(f"this {name} is not what dump_model returns: {error}.") from None
    modules = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    if not modules & {"lightgbm", "xgboost"}:
        raise ParameterError(
            f"path must be the path of a file, or a model of LightGBM or XGBoost, got {name}."
        )
    is_estimator = hasattr(model, "fit")
    try:
        if "lightgbm" in modules:
            booster = model.booster_ if is_estimator else model
            n_rounds = -1 if all_trees else None  # None: up to the best one
            return "lightgbm", booster.model_to_string(num_iteration=n_rounds).encode()
        booster = model.get_booster() if is_estimator else model
        return "xgboost", bytes(booster.save_raw("json"))
    except (AttributeError, ValueError):  # of which scikit-learn's NotFittedError is one
        raise ModelError(f"this {name} is not fitted yet: there is nothing to import.") from None


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
    has_categories: bool = False


def _no_notes(forest: Forest, options: WriteOptions) -> list[str]:  # noqa: ARG001
    return []


def _format(
    module: Any, meaning: str, *, has_third_children: bool = False, has_categories: bool = False
) -> Format:
    """The format of a module with ``write``, ``read``, ``RULES`` and possibly ``notes``."""
    notes = getattr(module, "notes", _no_notes)
    return Format(
        meaning, module.write, module.read, module.RULES, notes, has_third_children, has_categories
    )


FORMATS: dict[str, Format] = {
    "ranklib": _format(ranklib, "RankLib; OpenSearch and Elasticsearch LTR as model/ranklib"),
    "xgboost-dump": _format(
        xgboost, "OpenSearch and Elasticsearch LTR as model/xgboost+json; Vespa"
    ),
    "xgboost-model": _format(xgboost_model, "XGBoost: what Booster.load_model reads"),
    "solr": _format(solr, "Solr's MultipleAdditiveTreesModel"),
    "lightgbm": _format(lightgbm, "LightGBM's text, version 4; Treelite", has_categories=True),
    "lightgbm-json": _format(lightgbm_json, "LightGBM's JSON as Vespa reads it"),
    "onnx": _format(onnx, "ONNX Runtime: a TreeEnsembleRegressor"),
    "json": _format(plain_json, "a plain dump of the trees", has_third_children=True),
    "c": _format(
        c_source, "C: a file and its header; one document or many rows", has_third_children=True
    ),
}

FORMER_NAMES = {"xgboost-json": "xgboost-dump"}


# The formats that can be imported.
READERS: dict[str, Format] = {
    "lightgbm": FORMATS["lightgbm"],
    "xgboost": FORMATS["xgboost-dump"],
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


def _training_rows(model: Any) -> int | None:
    """The number of rows that a model was trained on, by its record; None if it has none."""
    record = getattr(model, "training_", None)
    rows = record.get("rows") if isinstance(record, dict) else None
    return rows if isinstance(rows, int) and rows > 0 else None


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
    content: bytes,
    name: str,
    names: tuple[str, ...] | None,
    n_features: int | None,
    *,
    all_trees: bool = False,
) -> Forest:
    reader = READERS[checks.one_of("format", name, READERS)]
    read = functools.partial(xgboost.read, feature_names=names, all_trees=all_trees)
    trees = (read if name == "xgboost" else reader.read)(content)
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


@dataclass(frozen=True)
class Certificate:
    """The result of an export: the file, the rules it was checked by, and the outcome.

    Parameters
    ----------
    format, path, n_bytes, sha256
        The file.
    n_trees, n_splits
        Its content; every split decides as the model's does for every float32 value.
    rules, notes
        How the reader of the file scores, and assumptions.
    n_documents, n_queries
        The documents and queries that were scored; None without data, or without queries.
    largest_difference
        Between a score of the file and the model's; more than rounding is an error.
    same_order
        Queries whose documents have the same order by both scores.
    """

    format: str
    path: str
    n_bytes: int
    sha256: str
    n_trees: int
    n_splits: int
    rules: tuple[str, ...]
    notes: tuple[str, ...]
    n_documents: int | None = None
    n_queries: int | None = None
    largest_difference: float | None = None
    same_order: int | None = None

    def facts(self) -> list[tuple[str, str]]:
        """Pairs of a name and a text, for display."""
        listed = [
            ("file", f"{self.path} ({self.format}, {self.n_bytes:,} bytes)"),
            ("sha256", self.sha256),
            ("trees", f"{self.n_trees:,}, {self.n_splits:,} splits compared with the model's"),
            *(("rule", rule) for rule in self.rules),
            *(("note", note) for note in self.notes),
        ]
        if self.n_documents is None:
            return [*listed, ("verified", "no data given")]
        listed.append(("documents", f"{self.n_documents:,}"))
        listed.append(("largest score difference", f"{self.largest_difference:.3g}"))
        if self.n_queries:
            share = (self.same_order or 0) / self.n_queries
            text = f"{self.same_order:,} of {self.n_queries:,} ({share:.2%})"
            listed.append(("queries in the same order", text))
        return listed

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.facts())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.facts())


def check_decisions(
    forest: Forest, trees: FileTrees, rules: EngineRules, *, n_inexact: int
) -> None:
    """Raise unless every split of the file decides as the model's does, for every float32 value.

    ``n_inexact`` thresholds may differ.
    """
    read = into_forest(dataclasses.replace(trees, feature_names=None), rules)
    if read.n_trees < forest.n_trees:
        raise ModelError(f"the file holds {read.n_trees:,} trees of {forest.n_trees:,}.")
    ours = forest.tree_offsets[:-1]
    theirs = read.tree_offsets[: forest.n_trees]
    n_off = 0
    while ours.size:
        if (forest.feature[ours] != read.feature[theirs]).any():
            raise ModelError("the file has other splits than the model.")
        is_inner = forest.feature[ours] >= 0
        ours, theirs = ours[is_inner], theirs[is_inner]
        n_off += int((forest.threshold[ours] != read.threshold[theirs]).sum())
        if (subsets_of(forest)[ours] != subsets_of(read)[theirs]).any():
            raise ModelError("the file sends categories elsewhere than the model.")
        if rules.missing == "child" and not _same_side(forest, ours, read, theirs).all():
            raise ModelError("the file sends missing values elsewhere than the model.")
        third = (forest.missing[ours] != forest.left[ours]) & (
            forest.missing[ours] != forest.right[ours]
        )
        next_ours = [forest.left[ours], forest.right[ours], forest.missing[ours[third]]]
        next_theirs = [read.left[theirs], read.right[theirs], read.missing[theirs[third]]]
        ours, theirs = np.concatenate(next_ours), np.concatenate(next_theirs)
    if n_off > n_inexact:
        raise ModelError(f"{n_off:,} thresholds of the file decide otherwise than the model's.")


def compare_scores(
    forest: Forest, written: Forest, trees: FileTrees, rules: EngineRules, data: Any
) -> dict[str, Any]:
    """Score ``data`` from the file and by the model; a difference of more than rounding is an error.

    ``written`` is the forest in the form that was written, whose numbers were rounded.
    """
    if isinstance(data, tuple | list):
        data = RankingData(*data)
    features = features_of(data, forest)
    if len(features) == 0:
        raise DataError("there are no documents to verify with.")
    ours = forest.predict(features)
    theirs = trees.score(features, rules)
    difference = np.abs(ours - theirs)
    allowed = rounding(written, features, rules)
    wrong = ~(difference <= allowed)
    if wrong.any():
        _refuse(features, forest, rules, int(np.argmax(difference - allowed)), difference)
    outcome = {"n_documents": len(features), "largest_difference": float(difference.max())}
    if isinstance(data, RankingData) and data.query_ids is not None:
        outcome |= _orders(ours, theirs, data)
    return outcome


def rounding(forest: Forest, features: Features, rules: EngineRules) -> Floats:
    """The largest difference of scores by rounding: each leaf and each sum is rounded once."""
    unit = float(np.finfo(rules.summed_in).eps)
    least = float(np.finfo(rules.summed_in).smallest_subnormal)
    sizes = dataclasses.replace(
        forest,
        value=np.abs(forest.value),
        tree_weights=np.abs(forest.tree_weights),
        base=abs(forest.base),
    )
    steps = forest.n_trees + 4  # trees, the constant, the division, and the last rounding
    allowed: Floats = steps * (unit * sizes.predict(features) + least)
    return allowed


def file_facts(content: bytes) -> dict[str, Any]:
    """Size and digest of a file."""
    return {"n_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _same_side(forest: Forest, ours: Array, read: Forest, theirs: Array) -> Array:
    """Whether missing values go to the same side: left, right, or neither."""
    is_same = np.ones(ours.size, bool)
    for side in ("left", "right"):
        by_us = forest.missing[ours] == getattr(forest, side)[ours]
        by_them = read.missing[theirs] == getattr(read, side)[theirs]
        is_same &= by_us == by_them
    return is_same


def _refuse(
    features: Features, forest: Forest, rules: EngineRules, row: int, difference: Floats
) -> None:
    if rules.missing == "zero" and np.isnan(features[row]).any():
        raise DataError(
            f"row {row + 1} of the data has missing values, which the format takes for 0 and the model does not: "
            f"scores are up to {float(np.nanmax(difference)):.3g} apart. The file was not written."
        )
    raise ModelError(
        f"row {row + 1} of the data scores {float(difference[row]):.3g} apart from the model's "
        f"{float(forest.predict(features[row : row + 1])[0]):.6g}, more than rounding. The file was not written."
    )


def _orders(ours: Floats, theirs: Floats, data: RankingData) -> dict[str, int]:
    from rankwood.measures.ranking import rank_rows

    moved = rank_rows(ours, data)[0] != rank_rows(theirs, data)[0]
    has_moved = np.zeros(data.n_queries, bool)
    has_moved[data.query_of_row[moved]] = True
    return {"n_queries": data.n_queries, "same_order": int((~has_moved).sum())}
