"""XGBoost's JSON dump, which OpenSearch and Elasticsearch read as ``model/xgboost+json``, and Vespa too.

``write`` writes the object ``{"objective", "splits"}`` of the ranking plugins, or the bare array of trees for Vespa.
``read`` reads both, the latter as ``Booster.get_dump(dump_format="json")`` returns it, and the JSON of
``Booster.save_model``. A split_condition has the digits of float64, so that readers of float32 and of float64 get the
same number.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankwood.errors import ModelError
from rankwood.exports import rules
from rankwood.exports.reading import (
    MOST_FEATURES,
    Children,
    TreeBuilder,
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
from rankwood.exports.writing import Plain, WriteOptions, depths, float32_trees, plain_for
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
OBJECTIVES = ("rank:ndcg", "rank:pairwise", "reg:linear")  # objectives that do not transform scores
BARE = "none"  # no objective: the bare array of trees
_NUMBERED = re.compile(r"f(\d{1,9})", re.ASCII)

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


def default_name(number: int) -> str:
    """XGBoost's name of a feature without a name."""
    return f"f{number}"


def write(forest: Forest, options: WriteOptions) -> bytes:
    """The object that the ranking plugins read, or the bare array of trees."""
    if options.objective not in (*OBJECTIVES, BARE):
        raise ModelError(
            f"objective '{options.objective}' is not one whose scores are left as they are: {', '.join(OBJECTIVES)}; "
            f"or {BARE} for the bare array of trees."
        )
    trees = plain_for("xgboost-json", forest, options, default_name)
    body = "[\n" + ",\n".join(_trees(trees)) + "\n]"
    if options.objective == BARE:
        return f"{body}\n".encode()
    return f'{{"objective": {json.dumps(options.objective)}, "splits": {body}}}\n'.encode()


def _trees(trees: Plain) -> Iterator[str]:
    forest = trees.forest
    depth = depths(forest).tolist()
    conditions = _conditions(forest)
    names = [json.dumps(name) for name in trees.names]
    roots = np.repeat(forest.tree_offsets[:-1], np.diff(forest.tree_offsets))
    number_of_node = (np.arange(forest.n_nodes) - roots).tolist()  # within its tree

    def leaf(number: int, value: str) -> str:
        return f'{{"nodeid": {number}, "leaf": {value}}}'

    def split(node: int) -> tuple[str, str, str]:
        left, right, missing = (
            number_of_node[side[node]] for side in (forest.left, forest.right, forest.missing)
        )
        before = (
            f'{{"nodeid": {number_of_node[node]}, "depth": {depth[node]}, '
            f'"split": {names[forest.feature[node]]}, '
            f'"split_condition": {rules.exact(conditions[node])}, '
            f'"yes": {left}, "no": {right}, "missing": {missing}, "children": ['
        )
        return before, ", ", "]}"

    return float32_trees(trees, leaf, split)


def _conditions(forest: Forest) -> list[float]:
    """``value <= t`` as ``value < condition``."""
    above = rules.above(forest.threshold)
    if np.isinf(above[forest.feature >= 0]).any():
        raise ModelError(
            "a threshold is the greatest float32, so that only infinite values lie above it: "
            "no split_condition says that. Export to lightgbm, onnx, json or c."
        )
    conditions: list[float] = above.tolist()
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
        builder.read_tree(root, functools.partial(_read_node, builder, columns))
    if feature_names is not None:
        return builder.finish(n_features=len(feature_names), feature_names=feature_names)
    return builder.finish(n_features=builder.n_features_seen)


class _Columns:
    """The column of a feature, by its name or by a number as in ``f12``."""

    def __init__(self, names: tuple[str, ...] | None) -> None:
        self.column_of = None if names is None else {name: c for c, name in enumerate(names)}

    def __call__(self, name: str) -> int:
        if self.column_of is not None and name in self.column_of:
            return self.column_of[name]
        match = _NUMBERED.fullmatch(name)
        if self.column_of is None and match is not None and int(match.group(1)) < MOST_FEATURES:
            return int(match.group(1))
        what = "is not among the feature names given" if self.column_of else "has no number"
        raise ModelError(
            f"feature '{name[:60]}' {what}. A dump does not tell the order of the features: pass all feature_names "
            "in the order of the data's columns."
        )


def _read_node(builder: TreeBuilder, columns: _Columns, value: Any) -> tuple[int, Children | None]:
    record = mapping(value, "a node")
    cover = json_number(record.get("cover", 0.0), "cover")
    if "leaf" in record:
        return builder.add_leaf(json_number(record["leaf"], "leaf"), cover), None
    condition = json_number(record.get("split_condition"), "split_condition")
    gain = json_number(record.get("gain", 0.0), "gain")
    column = columns(json_text(record.get("split"), "split"))
    node = builder.add_split(column, condition, 0.0, cover, gain)
    yes, no = _children(record)
    goes_to = json_whole(record.get("missing", record["no"]), "missing")
    if goes_to not in (record["yes"], record["no"]):
        raise ModelError("'missing' of a split is neither its 'yes' nor its 'no'.")
    return node, (yes, no, goes_to == record["yes"])


def _children(record: dict[str, Any]) -> tuple[Any, Any]:
    """The nodes that 'yes' and 'no' name."""
    children = sequence(record.get("children"), "children")
    number_of = [json_whole(mapping(child, "a node").get("nodeid"), "nodeid") for child in children]
    yes, no = (json_whole(record.get(side), side) for side in ("yes", "no"))
    if len(children) != 2 or yes == no or {yes, no} != set(number_of):
        raise ModelError("a split must have two children, which its 'yes' and 'no' name.")
    return children[number_of.index(yes)], children[number_of.index(no)]


# The JSON of ``xgboost.Booster.save_model``.


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
    for index, tree in enumerate(trees):
        builder.start_tree(1.0 if weights is None else weights[index])
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
    n_read = 0

    def read_node(number: int) -> tuple[int, Children | None]:
        nonlocal n_read
        n_read += 1
        if not 0 <= number < n_nodes or n_read > n_nodes:
            raise ModelError("a tree has children out of range, or a node with two parents.")
        left = json_whole(columns["left_children"][number], "left_children")
        condition = json_number(columns["split_conditions"][number], "split_conditions")
        cover = json_number(more["sum_hessian"][number], "sum_hessian")
        if left == -1:
            return builder.add_leaf(condition, cover), None
        gain = json_number(more["loss_changes"][number], "loss_changes")
        column = json_whole(columns["split_indices"][number], "split_indices")
        node = builder.add_split(column, condition, 0.0, cover, gain)
        right = json_whole(columns["right_children"][number], "right_children")
        return node, (left, right, columns["default_left"][number] in (1, True))

    builder.read_tree(0, read_node)
