"""``export``: a model as a file of another system, with a certificate."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rankwood import _checks
from rankwood._files import atomic_path, explained_writing
from rankwood.exports import solr, xgboost
from rankwood.exports.exportable import check_missing_as_zero, forest_inside
from rankwood.exports.formats import FORMATS
from rankwood.exports.rules import FileTrees
from rankwood.exports.two_sided import two_sided
from rankwood.exports.verify import Certificate, check_decisions, compare_scores, file_facts
from rankwood.exports.writing import WriteOptions, checked_names, names_for
from rankwood.models.forest import Forest

_THREE_SIDED = ("json", "c")  # formats whose splits may have a third child


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

    What is to be written is read back and compared split by split; with ``verify``, documents are scored from it under
    the exact rules of its reader. What a format cannot express is refused, never approximated, and no file appears.

    Parameters
    ----------
    model
        A fitted ranker that is a sum or mean of trees, or a ``Forest``.
    path
        Where to write; the file appears as a whole, when all checks have passed.
    format
        "ranklib", "xgboost-json", "solr", "lightgbm", "lightgbm-json", "onnx", "json" or "c".
    verify
        Documents to score from the file: RankingData, or rows × features.
    feature_names
        Names to write, in the order of the features; by default the model's own.
    assume_no_missing
        For formats that take a missing value for 0 (ranklib): no document ever lacks a value.
    nearest_thresholds
        For Solr: where no float32 plus its 1e-6 gives a threshold, write the nearest instead of refusing.
    model_name
        What Solr's model store and ONNX call the model.
    objective
        What xgboost-json says the model was trained for: "rank:ndcg", "rank:pairwise" or "reg:linear", which leave
        scores as they are; "none" writes the bare array of trees, as Vespa reads it.
    """
    target = FORMATS[_checks.one_of("format", format, FORMATS)]
    whole = forest_inside(model)
    forest = whole if format in _THREE_SIDED else two_sided(whole)
    options = WriteOptions(
        checked_names(feature_names), str(model_name), objective, nearest_thresholds
    )
    notes = _notes(whole, forest, model, format, assume_no_missing, nearest_thresholds)
    content = target.write(forest, options)
    trees = _read_back(format, content, forest, options)
    n_inexact = solr.n_inexact(forest)[0] if format == "solr" and nearest_thresholds else 0
    check_decisions(forest, trees, target.rules, n_inexact=n_inexact)
    scored = {} if verify is None else compare_scores(whole, forest, (trees, target.rules), verify)
    with explained_writing(path), atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return Certificate(
        format=format,
        path=os.fspath(path),
        **file_facts(content),
        n_trees=trees.n_trees,
        n_splits=int((trees.feature >= 0).sum()),
        rules=target.rules.texts,
        notes=notes,
        **scored,
    )


def _read_back(name: str, content: bytes, forest: Forest, options: WriteOptions) -> FileTrees:
    """What stands in the file that was just written."""
    if name == "xgboost-json":  # which does not tell the order of the features
        return xgboost.read(content, names_for(forest, options, xgboost.default_name))
    return FORMATS[name].read(content)


def _notes(
    whole: Forest,
    forest: Forest,
    model: Any,
    name: str,
    assume_no_missing: bool,
    nearest_thresholds: bool,
) -> tuple[str, ...]:
    notes = []
    if forest is not whole:
        notes.append("each split with a third child for missing values is written as two trees")
    if FORMATS[name].rules.missing == "zero":
        notes.append(check_missing_as_zero(forest, model, name, assume_no_missing))
    if name == "solr" and nearest_thresholds:
        n_off, most = solr.n_inexact(forest)
        if n_off:
            notes.append(
                f"{n_off:,} thresholds are the nearest Solr can have, off by at most {most:.3g}"
            )
    if name.startswith("lightgbm") and not forest.cover.any():
        notes.append(
            "the model does not say how many rows its leaves had: counts are 1, and SHAP would mislead"
        )
    return tuple(notes)
