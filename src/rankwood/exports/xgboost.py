"""XGBoost's JSON dump, which OpenSearch and Elasticsearch read as ``model/xgboost+json``, and Vespa too.

Written is the object ``{"objective", "splits"}`` of the ranking plugins, or the bare array of trees that Vespa takes;
read are both, the latter as ``Booster.get_dump(dump_format="json")`` gives it, and what ``Booster.save_model`` writes.
A split_condition has the digits of float64, so that readers of float32 and of float64 find the same number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankwood.errors import ModelError
from rankwood.exports import float_steps, xgboost_model
from rankwood.exports.rules import FileTrees, Rules
from rankwood.exports.text_reading import (
    json_number,
    json_of,
    json_text,
    json_whole,
    mapping,
    sequence,
)
from rankwood.exports.tree_building import MOST_FEATURES, TreeBuilder, Waiting, children_of
from rankwood.exports.writing import (
    Plain,
    WriteOptions,
    depths,
    in_float32,
    names_for,
    nested,
    plain,
    refuse_depth,
    refuse_third_children,
)
from rankwood.models.forest import Forest

RULES = Rules(
    "<",
    np.float32,
    np.float32,
    "child",
    (
        "goes to 'yes' when value < split_condition, both float32: thresholds are written as the next float32 above",
        "leaves are float32, summed in float32 in the order of the trees",
        "NaN goes to 'missing'; Elasticsearch's plugin, and OpenSearch's before it knew missing values, give 0 to a "
        "feature that is not set",
        "no base score: a constant is a tree of one leaf",
    ),
)
OBJECTIVES = ("rank:ndcg", "rank:pairwise", "reg:linear")  # whose scores are left as they are
BARE = "none"  # no objective: the bare array of trees
_NUMBERED = re.compile(r"f(\d{1,9})", re.ASCII)


def default_name(number: int) -> str:
    """What XGBoost calls a feature without a name."""
    return f"f{number}"


def write(forest: Forest, options: WriteOptions) -> bytes:
    """The object that the ranking plugins read, or the bare array of trees."""
    if options.objective not in (*OBJECTIVES, BARE):
        raise ModelError(
            f"objective '{options.objective}' is not one whose scores are left as they are: {', '.join(OBJECTIVES)}; "
            f"or {BARE} for the bare array of trees."
        )
    refuse_third_children(forest, "xgboost-json")
    refuse_depth(forest, "xgboost-json")
    trees = plain(forest, names_for(forest, options, default_name), may_average=False)
    body = "[\n" + ",\n".join(_trees(trees)) + "\n]"
    if options.objective == BARE:
        return f"{body}\n".encode()
    return f'{{"objective": {json.dumps(options.objective)}, "splits": {body}}}\n'.encode()


def _trees(trees: Plain) -> Iterator[str]:
    forest = trees.forest
    outputs = in_float32(trees.value, "leaf value").tolist()
    depth = depths(forest).tolist()
    conditions = _conditions(forest)
    names = [json.dumps(name) for name in trees.names]
    root = 0

    def leaf(node: int) -> str:
        return f'{{"nodeid": {node - root}, "leaf": {float_steps.short(outputs[node])}}}'

    def split(node: int) -> tuple[str, str, str]:
        left, right, missing = (
            int(side[node]) - root for side in (forest.left, forest.right, forest.missing)
        )
        before = (
            f'{{"nodeid": {node - root}, "depth": {depth[node]}, "split": {names[forest.feature[node]]}, '
            f'"split_condition": {float_steps.exact(conditions[node])}, '
            f'"yes": {left}, "no": {right}, "missing": {missing}, "children": ['
        )
        return before, ", ", "]}"

    for root in trees.roots():
        yield "".join(nested(forest, root, leaf, split))
    if trees.constant is not None:
        constant = in_float32(np.array([trees.constant]), "base")
        yield f'{{"nodeid": 0, "leaf": {float_steps.short(float(constant[0]))}}}'


def _conditions(forest: Forest) -> list[float]:
    """``value <= t`` as ``value < condition``."""
    found = float_steps.above(forest.threshold)
    if np.isinf(found[forest.feature >= 0]).any():
        raise ModelError(
            "a threshold is the greatest float32, so that only infinite values lie above it: "
            "no split_condition says that. Export to lightgbm, onnx, json or c."
        )
    conditions: list[float] = found.tolist()
    return conditions


def read(content: bytes, feature_names: tuple[str, ...] | None = None) -> FileTrees:
    """The trees of a dump, or of a model that XGBoost saved as JSON."""
    if content[:1] == b"{" and b"\0" in content[:32]:
        raise ModelError(
            "it is XGBoost's binary form; save the model under a name that ends in .json instead."
        )
    document = json_of(content)
    if isinstance(document, dict) and "learner" in document:
        return xgboost_model.read(document)
    if isinstance(document, dict):
        objective = document.get("objective", OBJECTIVES[0])
        if objective not in (*xgboost_model.PLAIN_OBJECTIVES, "binary:logitraw"):
            raise ModelError(
                f"its objective {objective!r} changes the scores; only plain sums of trees can be read."
            )
        document = document.get("splits")
    roots = sequence(document, "the list of trees")
    if not roots:
        raise ModelError("it holds no tree.")
    builder, columns = TreeBuilder(), _Columns(feature_names)
    for root in roots:
        builder.start_tree()
        _read_tree(root, builder, columns)
    if feature_names is not None:
        return builder.finish(n_features=len(feature_names), feature_names=feature_names)
    return builder.finish(n_features=builder.n_features_seen)


class _Columns:
    """The column of a feature, by its name or by a number as in ``f12``."""

    def __init__(self, names: tuple[str, ...] | None) -> None:
        self.place_of = None if names is None else {name: place for place, name in enumerate(names)}

    def __call__(self, name: str) -> int:
        if self.place_of is not None and name in self.place_of:
            return self.place_of[name]
        match = _NUMBERED.fullmatch(name)
        if self.place_of is None and match is not None and int(match.group(1)) < MOST_FEATURES:
            return int(match.group(1))
        what = "is not among the feature names given" if self.place_of else "has no number"
        raise ModelError(
            f"feature '{name[:60]}' {what}. A dump does not tell the order of the features: pass all feature_names "
            "in the order of the data's columns."
        )


def _read_tree(root: Any, builder: TreeBuilder, columns: _Columns) -> None:
    waiting: list[Waiting] = [(root, 0, ())]
    while waiting:
        value, parent, sides = waiting.pop()
        record = mapping(value, "a node")
        cover = json_number(record.get("cover", 0.0), "cover")
        if "leaf" in record:
            node = builder.add_leaf(json_number(record["leaf"], "leaf"), cover)
        else:
            condition = json_number(record.get("split_condition"), "split_condition")
            gain = json_number(record.get("gain", 0.0), "gain")
            column = columns(json_text(record.get("split"), "split"))
            node = builder.add_split(column, condition, 0.0, cover, gain)
            yes, no = _children(record)
            goes_to = json_whole(record.get("missing", record["no"]), "missing")
            if goes_to not in (record["yes"], record["no"]):
                raise ModelError("'missing' of a split is neither its 'yes' nor its 'no'.")
            is_left = goes_to == record["yes"]
            waiting += children_of(node, yes, no, is_left)
        for side in sides:
            builder.join(parent, side, node)


def _children(record: dict[str, Any]) -> tuple[Any, Any]:
    """The nodes that 'yes' and 'no' name."""
    children = sequence(record.get("children"), "children")
    number_of = [json_whole(mapping(child, "a node").get("nodeid"), "nodeid") for child in children]
    yes, no = (json_whole(record.get(side), side) for side in ("yes", "no"))
    if len(children) != 2 or yes == no or {yes, no} != set(number_of):
        raise ModelError("a split must have two children, which its 'yes' and 'no' name.")
    return children[number_of.index(yes)], children[number_of.index(no)]
