"""The model store of Solr's learning to rank: a ``MultipleAdditiveTreesModel``.

Solr hands numbers to setters that take a float or a text: a JSON number is neither, so every number is a string. It
adds 1e-6 to each threshold it reads. A NaN needs ``missing`` on every split, and ``isNullSameAsZero`` (Solr 9.2 or
newer).
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
    TreeBuilder,
    Waiting,
    children_of,
    json_of,
    json_text,
    mapping,
    number_of,
    sequence,
)
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.writing import (
    Plain,
    WriteOptions,
    in_float32,
    names_for,
    nested,
    plain,
    refuse_depth,
    refuse_third_children,
)
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


def default_name(number: int) -> str:
    """A name for a feature that has none."""
    return f"feature_{number + 1}"


def write(forest: Forest, options: WriteOptions) -> bytes:
    """The JSON to upload to the model store."""
    refuse_third_children(forest, "solr")
    refuse_depth(forest, "solr")
    names = names_for(forest, options, default_name)
    trees = plain(forest, names, may_average=False)
    head = json.dumps(
        {
            "class": _CLASS,
            "name": options.model_name,
            "features": [{"name": name} for name in names],
        }
    )
    body = ",\n".join(
        f'{{"weight": "1", "root": {root}}}' for root in _roots(trees, options.nearest_thresholds)
    )
    params = f'{{"isNullSameAsZero": false, "trees": [\n{body}\n]}}'
    return f'{head[:-1]}, "params": {params}}}\n'.encode()


def _roots(trees: Plain, nearest: bool) -> Iterator[str]:
    forest = trees.forest
    outputs = in_float32(trees.value, "leaf value").tolist()
    written = written_thresholds(forest, nearest).tolist()
    names = [json.dumps(name) for name in trees.names]

    def leaf(node: int) -> str:
        return f'{{"value": "{rules.short(outputs[node])}"}}'

    def split(node: int) -> tuple[str, str, str]:
        missing = "left" if forest.missing[node] == forest.left[node] else "right"
        before = (
            f'{{"feature": {names[forest.feature[node]]}, "threshold": "{rules.short(written[node])}", '
            f'"missing": "{missing}", "left": '
        )
        return before, ', "right": ', "}"

    for root in trees.roots():
        yield "".join(nested(forest, root, leaf, split))
    if trees.constant is not None:
        constant = in_float32(np.array([trees.constant]), "base")
        yield f'{{"value": "{rules.short(float(constant[0]))}"}}'


def written_thresholds(forest: Forest, nearest: bool) -> Any:
    """Thresholds less 1e-6; where that cannot be had to the bit, the nearest or a refusal."""
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


def n_inexact(forest: Forest) -> tuple[int, float]:
    """How many thresholds Solr cannot have to the bit, and how far off the nearest ones are at most."""
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
    place_of = {name: place for place, name in enumerate(names)}
    for tree in sequence(parameters.get("trees"), "trees"):
        record = mapping(tree, "a tree")
        builder.start_tree(number_of(record.get("weight"), "weight"))
        _read_tree(record.get("root"), builder, place_of, is_null_zero)
    return builder.finish(n_features=len(names), feature_names=tuple(names))


def _read_tree(
    root: Any, builder: TreeBuilder, place_of: dict[str, int], is_null_zero: bool
) -> None:
    waiting: list[Waiting] = [(root, 0, ())]
    while waiting:
        value, parent, sides = waiting.pop()
        record = mapping(value, "a node")
        if "feature" not in record:
            node = builder.add_leaf(number_of(record.get("value", "0"), "value"))
        else:
            name = json_text(record["feature"], "feature")
            if name not in place_of:
                raise ModelError(
                    f"a split tests feature '{name[:60]}', which is not among its features."
                )
            threshold = number_of(record.get("threshold"), "threshold")
            node = builder.add_split(place_of[name], threshold)
            is_left = _missing_goes_left(record, threshold, is_null_zero)
            waiting += children_of(node, record.get("left"), record.get("right"), is_left)
        for side in sides:
            builder.join(parent, side, node)


def _missing_goes_left(record: dict[str, Any], threshold: float, is_null_zero: bool) -> bool:
    if is_null_zero:  # a feature without a value is 0
        return bool(RULES.seen_thresholds(np.array([threshold]))[0] >= 0)
    if record.get("missing") is None:
        raise ModelError(
            "a split has no 'missing', which Solr needs where isNullSameAsZero is false."
        )
    return bool(record["missing"] == "left")
