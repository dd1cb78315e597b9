"""What ``xgboost.Booster.save_model`` writes as JSON."""

from __future__ import annotations

from typing import Any

from rankwood.errors import ModelError
from rankwood.exports.rules import FileTrees
from rankwood.exports.text_reading import (
    json_number,
    json_text,
    json_whole,
    mapping,
    number_of,
    sequence,
    whole_of,
)
from rankwood.exports.tree_building import MOST_FEATURES, TreeBuilder, Waiting, children_of

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


def read(document: dict[str, Any]) -> FileTrees:
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
        _read_tree(mapping(tree, "a tree"), builder)
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


def _read_tree(tree: dict[str, Any], builder: TreeBuilder) -> None:
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
