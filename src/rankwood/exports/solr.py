"""The model store of Solr's learning to rank: a ``MultipleAdditiveTreesModel``.

Solr passes values to setters that take a float or a text; a JSON number is neither, so every number is written as a
string. Solr adds 1e-6 to each threshold it reads. A NaN needs ``missing`` on every split, and ``isNullSameAsZero``
(Solr 9.2 or newer).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankwood.errors import ModelError
from rankwood.exports import rules
from rankwood.exports.reading import (
    MOST_FEATURES,
    Children,
    TreeBuilder,
    json_of,
    json_text,
    mapping,
    number_of,
    sequence,
)
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.writing import Plain, WriteOptions, float32_trees, plain_for
from rankwood.models.forest import Forest

RULES = EngineRules(
    "<=",
    np.float32,
    np.float32,
    "child",
    (
        "goes left when value <= threshold + 1e-6, all float32: 1e-6 is taken off what is written",
        "leaves and weights are float32, summed in float32 in the order of the trees",
        "NaN goes to 'missing' (isNullSameAsZero is false: Solr 9.2 or newer)",
        "a feature that the store lacks ends a tree with 0",
    ),
    slack=float(rules.SOLR_SLACK),
)
_CLASS = "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"


def write(forest: Forest, options: WriteOptions) -> bytes:
    """The JSON to upload to the model store."""
    trees = plain_for("solr", forest, options)
    head = json.dumps(
        {
            "class": _CLASS,
            "name": options.model_name,
            "features": [{"name": name} for name in trees.names],
        }
    )
    body = ",\n".join(
        f'{{"weight": "1", "root": {root}}}' for root in _roots(trees, options.nearest_thresholds)
    )
    params = f'{{"isNullSameAsZero": false, "trees": [\n{body}\n]}}'
    return f'{head[:-1]}, "params": {params}}}\n'.encode()


def _roots(trees: Plain, nearest: bool) -> Iterator[str]:
    forest = trees.forest
    written = written_thresholds(forest, nearest).tolist()
    names = [json.dumps(name) for name in trees.names]

    def leaf(_: int, value: str) -> str:
        return f'{{"value": "{value}"}}'

    def split(node: int) -> tuple[str, str, str]:
        missing = "left" if forest.missing[node] == forest.left[node] else "right"
        before = (
            f'{{"feature": {names[forest.feature[node]]}, "threshold": "{rules.short(written[node])}", '
            f'"missing": "{missing}", "left": '
        )
        return before, ', "right": ', "}"

    return float32_trees(trees, leaf, split)


def written_thresholds(forest: Forest, nearest: bool) -> Any:
    """Thresholds minus 1e-6; if that is not exact, the nearest possible ones or an error."""
    written, is_exact = rules.before_slack(forest.threshold)
    wrong = (forest.feature >= 0) & ~is_exact
    if wrong.any() and not nearest:
        node = int(np.argmax(wrong))
        raise ModelError(
            f"{int(wrong.sum()):,} thresholds cannot be written for Solr, which adds 1e-6 to what it reads: no float32 "
            f"plus 1e-6 is {float(forest.threshold[node]):.9g}. Multiply small features by a constant and train again, "
            "or allow the nearest threshold Solr can have (nearest_thresholds)."
        )
    return written


def notes(forest: Forest, options: WriteOptions) -> list[str]:
    """What the certificate says about thresholds that are not exact."""
    n_off, most = n_inexact(forest) if options.nearest_thresholds else (0, 0.0)
    if not n_off:
        return []
    return [f"{n_off:,} thresholds are the nearest Solr can have, off by at most {most:.3g}"]


def n_inexact(forest: Forest) -> tuple[int, float]:
    """The number of thresholds that are not exact in Solr, and the largest error of the nearest ones."""
    inner = forest.feature >= 0
    written, is_exact = rules.before_slack(forest.threshold[inner])
    seen = (written + rules.SOLR_SLACK).astype(np.float64)
    off = np.abs(seen - forest.threshold[inner].astype(np.float64))
    return int((~is_exact).sum()), float(off.max(initial=0.0))


def read(content: bytes) -> FileTrees:
    """The trees of a Solr model."""
    document = mapping(json_of(content), "the model")
    if document.get("class") != _CLASS:
        raise ModelError(f"its class is not {_CLASS}.")
    listed = sequence(document.get("features"), "features")
    names = [
        json_text(mapping(feature, "a feature").get("name"), "a feature's name")
        for feature in listed
    ]
    if not 1 <= len(names) < MOST_FEATURES or len(set(names)) != len(names):
        raise ModelError("its features must have names that differ, at least one.")
    parameters = mapping(document.get("params"), "params")
    is_null_zero = parameters.get("isNullSameAsZero", True) is not False
    builder = TreeBuilder()
    column_of = {name: column for column, name in enumerate(names)}

    def read_node(value: Any) -> tuple[int, Children | None]:
        record = mapping(value, "a node")
        if "feature" not in record:
            return builder.add_leaf(number_of(record.get("value", "0"), "value")), None
        name = json_text(record["feature"], "feature")
        if name not in column_of:
            raise ModelError(
                f"a split tests feature '{name[:60]}', which is not among its features."
            )
        threshold = number_of(record.get("threshold"), "threshold")
        node = builder.add_split(column_of[name], threshold)
        is_left = _missing_goes_left(record, threshold, is_null_zero)
        return node, (record.get("left"), record.get("right"), is_left)

    for tree in sequence(parameters.get("trees"), "trees"):
        record = mapping(tree, "a tree")
        builder.start_tree(number_of(record.get("weight"), "weight"))
        builder.read_tree(record.get("root"), read_node)
    return builder.finish(n_features=len(names), feature_names=tuple(names))


def _missing_goes_left(record: dict[str, Any], threshold: float, is_null_zero: bool) -> bool:
    if is_null_zero:  # a feature without a value is 0
        return bool(RULES.seen_thresholds(np.array([threshold]))[0] >= 0)
    if record.get("missing") is None:
        raise ModelError(
            "a split has no 'missing', which Solr needs where isNullSameAsZero is false."
        )
    return bool(record["missing"] == "left")
