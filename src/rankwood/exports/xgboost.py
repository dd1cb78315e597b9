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
from rankwood.exports import rules
from rankwood.exports.reading import (
    MOST_FEATURES,
    TreeBuilder,
    Waiting,
    children_of,
    json_number,
    json_of,
    json_text,
    json_whole,
    mapping,
    number_of,
    sequence,
    whole_of,
)
from rankwood.exports.rules import EngineRules, FileTrees
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

RULES = EngineRules(
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
        return f'{{"nodeid": {node - root}, "leaf": {rules.short(outputs[node])}}}'

    def split(node: int) -> tuple[str, str, str]:
        left, right, missing = (
            int(side[node]) - root for side in (forest.left, forest.right, forest.missing)
        )
        before = (
            f'{{"nodeid": {node - root}, "depth": {depth[node]}, "split": {names[forest.feature[node]]}, '
            f'"split_condition": {rules.exact(conditions[node])}, '
            f'"yes": {left}, "no": {right}, "missing": {missing}, "children": ['
        )
        return before, ", ", "]}"

    for root in trees.roots():
        yield "".join(nested(forest, root, leaf, split))
    if trees.constant is not None:
        constant = in_float32(np.array([trees.constant]), "base")
        yield f'{{"nodeid": 0, "leaf": {rules.short(float(constant[0]))}}}'


def _conditions(forest: Forest) -> list[float]:
    """``value <= t`` as ``value < condition``."""
    found = rules.above(forest.threshold)
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
        return read_saved_model(document)
    if isinstance(document, dict):
        objective = document.get("objective", OBJECTIVES[0])
        if objective not in (*PLAIN_OBJECTIVES, "binary:logitraw"):
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


# What ``xgboost.Booster.save_model`` writes as JSON.


# Objectives whose predictions are the plain sum of the trees.
PLAIN_OBJECTIVES = (
    "rank:ndcg",
    "rank:pairwise",
    "rank:map",
    "reg:squarederror",
    "reg:linear",
    "reg:absoluteerror",
    "reg:pseudohubererror",
    "reg:quantileerror",
)
_COLUMNS = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")


def read_saved_model(document: dict[str, Any]) -> FileTrees:
    """The trees of a saved model, with their base score."""
    learner = mapping(document["learner"], "learner")
    about = mapping(learner.get("learner_model_param"), "learner_model_param")
    _refuse_other_kinds(learner, about)
    booster = mapping(learner.get("gradient_booster"), "gradient_booster")
    weights = None
    if booster.get("name") == "dart":
        dropped = sequence(booster.get("weight_drop"), "weight_drop")
        weights = [json_number(weight, "weight_drop") for weight in dropped]
        booster = mapping(booster.get("gbtree"), "gbtree")
    model = mapping(booster.get("model"), "model")
    trees = sequence(model.get("trees"), "trees")
    if weights is not None and len(weights) != len(trees):
        raise ModelError("weight_drop must have one weight per tree.")
    builder = TreeBuilder()
    for place, tree in enumerate(trees):
        builder.start_tree(1.0 if weights is None else weights[place])
        _read_saved_tree(mapping(tree, "a tree"), builder)
    return builder.finish(
        n_features=_n_features(about, builder),
        feature_names=_names(learner, _n_features(about, builder)),
        base=_base(about),
    )


def _refuse_other_kinds(learner: dict[str, Any], about: dict[str, Any]) -> None:
    booster = mapping(learner.get("gradient_booster"), "gradient_booster")
    if booster.get("name") not in ("gbtree", "dart"):
        raise ModelError(f"its booster is {booster.get('name')!r}; only gbtree and dart are trees.")
    objective = mapping(learner.get("objective"), "objective").get("name")
    if objective not in PLAIN_OBJECTIVES:
        raise ModelError(
            f"its objective {str(objective)[:40]!r} changes the scores; only plain sums of trees can be read: "
            f"{', '.join(PLAIN_OBJECTIVES)}."
        )
    for name in ("num_class", "num_target"):
        if whole_of(about.get(name, "0"), name) > 1:
            raise ModelError(f"its {name} is more than 1; a ranker gives one score.")


def _n_features(about: dict[str, Any], builder: TreeBuilder) -> int:
    declared = whole_of(about.get("num_feature", "0"), "num_feature")
    if not 0 <= declared < MOST_FEATURES or (declared and declared < builder.n_features_seen):
        raise ModelError(f"its num_feature is {declared:,}, which its trees do not fit.")
    return declared or builder.n_features_seen


def _names(learner: dict[str, Any], n_features: int) -> tuple[str, ...] | None:
    names = [
        json_text(name, "a feature name")
        for name in sequence(learner.get("feature_names", []), "feature_names")
    ]
    return tuple(names) if len(names) == n_features else None


def _base(about: dict[str, Any]) -> float:
    """The base score; since version 3.1 a list of one."""
    text = about.get("base_score", "0")
    return number_of(text.strip("[]") if isinstance(text, str) else text, "base_score")


def _read_saved_tree(tree: dict[str, Any], builder: TreeBuilder) -> None:
    columns = {name: sequence(tree.get(name), name) for name in _COLUMNS}
    n_nodes = len(columns["left_children"])
    if n_nodes == 0 or any(len(column) != n_nodes for column in columns.values()):
        raise ModelError("a tree's lists of nodes are empty, or not of one length.")
    if any(sequence(tree.get("split_type", []), "split_type")):
        raise ModelError("it splits by categories, which our trees do not.")
    more = {
        name: tree[name]
        if isinstance(tree.get(name), list) and len(tree[name]) == n_nodes
        else [0.0] * n_nodes
        for name in ("loss_changes", "sum_hessian")
    }
    waiting: list[Waiting] = [(0, 0, ())]
    n_read = 0
    while waiting:
        number, parent, sides = waiting.pop()
        n_read += 1
        if not 0 <= number < n_nodes or n_read > n_nodes:
            raise ModelError("a tree has children out of range, or a node with two parents.")
        left = json_whole(columns["left_children"][number], "left_children")
        condition = json_number(columns["split_conditions"][number], "split_conditions")
        cover = json_number(more["sum_hessian"][number], "sum_hessian")
        if left == -1:
            node = builder.add_leaf(condition, cover)
        else:
            gain = json_number(more["loss_changes"][number], "loss_changes")
            column = json_whole(columns["split_indices"][number], "split_indices")
            node = builder.add_split(column, condition, 0.0, cover, gain)
            right = json_whole(columns["right_children"][number], "right_children")
            is_left = columns["default_left"][number] in (1, True)
            waiting += children_of(node, left, right, is_left)
        for side in sides:
            builder.join(parent, side, node)
