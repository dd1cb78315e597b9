"""XGBoost's JSON dump, which OpenSearch and Elasticsearch read as ``model/xgboost+json``, and Vespa too.

XGBoost itself writes dumps but does not load them; ``xgboost_model`` is the format that it loads. ``write`` writes the
object ``{"objective", "splits"}`` of the ranking plugins, or the bare array of trees for Vespa. ``read`` reads both,
the latter as ``Booster.get_dump(dump_format="json")`` returns it, and also a saved model. A split_condition has the
digits of float64, so that readers of float32 and of float64 get the same number.
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
    json_text,
    json_whole,
    mapping,
    sequence,
)
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.writing import Plain, WriteOptions, depths, float32_trees, plain_for
from rankwood.exports.xgboost_model import (
    PLAIN_OBJECTIVES,
    conditions_of,
    document_of,
    read_saved_model,
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
OBJECTIVES = ("rank:ndcg", "rank:pairwise", "reg:linear")  # objectives that do not transform scores
BARE = "none"  # no objective: the bare array of trees
_NUMBERED = re.compile(r"f(\d{1,9})", re.ASCII)


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
    trees = plain_for("xgboost-dump", forest, options, default_name)
    body = "[\n" + ",\n".join(_trees(trees)) + "\n]"
    if options.objective == BARE:
        return f"{body}\n".encode()
    return f'{{"objective": {json.dumps(options.objective)}, "splits": {body}}}\n'.encode()


def _trees(trees: Plain) -> Iterator[str]:
    forest = trees.forest
    depth = depths(forest).tolist()
    conditions = conditions_of(forest)
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


def read(
    content: bytes, feature_names: tuple[str, ...] | None = None, *, all_trees: bool = False
) -> FileTrees:
    """The trees of a dump, or of a model that XGBoost saved as JSON or UBJSON."""
    document = document_of(content)
    if isinstance(document, dict) and "learner" in document:
        return read_saved_model(document, all_trees=all_trees)
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
