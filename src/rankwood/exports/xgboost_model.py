"""XGBoost's saved model: the JSON that ``Booster.save_model`` writes and ``Booster.load_model`` reads.

``write`` numbers the nodes of a tree level by level, so that the right child follows the left one: XGBoost looks for
it there, whatever ``right_children`` says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankwood.dtypes import Array, Floats
from rankwood.errors import ModelError
from rankwood.exports import reading, rules
from rankwood.exports.lightgbm import row_weights
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.ubjson import is_ubjson, ubjson_of
from rankwood.exports.writing import Plain, WriteOptions, in_float32, names_for, plain_for
from rankwood.models.forest import Forest

RULES = EngineRules(
    "<",
    np.float32,
    np.float32,
    "child",
    (
        "goes left when value < split_condition, both float32: thresholds are written as the next float32 above",
        "leaves are float32, summed in float32 in the order of the trees from base_score on; the objective leaves the "
        "sum as it is",
        "NaN goes left where default_left is 1",
        "sum_hessian is the weight of the training rows, which SHAP needs",
    ),
    base_first=True,
)
OBJECTIVES = ("rank:ndcg", "rank:pairwise", "rank:map", "reg:squarederror")
_VERSION = (2, 0, 0)  # later versions read it too
_NO_PARENT = 2**31 - 1
_GREATEST = float(np.finfo(np.float32).max)

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
# Objectives whose predictions are probabilities; the sum of the trees is the log odds, XGBoost's margin.
# binary:logitraw is not among them: whether its base score is a probability depends on the version of XGBoost.
LOGISTIC_OBJECTIVES = ("binary:logistic", "reg:logistic")
_COLUMNS = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")


def write(forest: Forest, options: WriteOptions) -> bytes:
    """The model as XGBoost 2 saves it."""
    if options.objective not in OBJECTIVES:
        raise ModelError(
            f"objective '{options.objective}' is not one of a saved model whose scores are left as they are: "
            f"{', '.join(OBJECTIVES)}."
        )
    trees = plain_for("xgboost-model", forest, options, is_nested=False)
    base = float(in_float32(np.array([trees.constant or 0.0]), "base")[0])
    has_names = (options.feature_names or forest.feature_names) is not None
    names = _checked(names_for(forest, options)) if has_names else []
    objective: dict[str, Any] = {"name": options.objective}
    if options.objective.startswith("rank:"):
        objective["lambdarank_param"] = {}
    else:
        objective["reg_loss_param"] = {"scale_pos_weight": "1"}
    learner = {
        "attributes": {},
        "feature_names": names,
        "feature_types": ["float"] * len(names),
        "learner_model_param": {
            "base_score": rules.short(base),
            "boost_from_average": "0",
            "num_class": "0",
            "num_feature": str(forest.n_features),
            "num_target": "1",
        },
        "objective": objective,
    }
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(forest.n_trees)},
        "iteration_indptr": list(range(forest.n_trees + 1)),
        "tree_info": [0] * forest.n_trees,
    }
    body = ",\n".join(_trees(trees))
    # XGBoost does not know the escapes of characters beyond ASCII.
    return (
        f'{{"learner": {json.dumps(learner, ensure_ascii=False)[:-1]}, "gradient_booster": {{"name": "gbtree", '
        f'"model": {json.dumps(model)[:-1]}, "trees": [\n{body}\n]}}}}}}, "version": {list(_VERSION)}}}\n'
    ).encode(errors="replace")


def notes(forest: Forest, options: WriteOptions) -> list[str]:  # noqa: ARG001 - the signature of all formats
    """What the certificate says about the weights of rows."""
    if forest.cover.any():
        return []
    return [
        "the model does not say how many rows its leaves had: sum_hessian counts leaves, and SHAP would mislead"
    ]


def _checked(names: tuple[str, ...]) -> list[str]:
    for name in names:
        if any(character in "[]<" or character < " " for character in name):
            raise ModelError(
                f"feature name {name!r} cannot be written for XGBoost: no [, ], < or control characters. "
                "Pass other feature_names."
            )
    return list(names)


def _trees(trees: Plain) -> Iterator[str]:
    forest = trees.forest
    conditions = np.array(conditions_of(forest))
    outputs = in_float32(trees.value, "leaf value").astype(np.float64)
    for number, root in enumerate(trees.roots()):
        end = int(forest.tree_offsets[number + 1])
        order, parents = _by_level(forest, root)
        place = np.zeros(end - root, np.int64)
        place[order - root] = np.arange(order.size)
        is_leaf = forest.feature[order] < 0
        weights = row_weights(forest, root, end)
        children = {
            side: np.where(
                is_leaf, -1, place[np.where(is_leaf, 0, getattr(forest, side)[order] - root)]
            )
            for side in ("left", "right")
        }
        columns: dict[str, list[str]] = {
            "base_weights": _floats(outputs[order]),
            "default_left": _wholes(~is_leaf & (forest.missing[order] == forest.left[order])),
            "left_children": _wholes(children["left"]),
            "loss_changes": _floats(forest.gain[order]),
            "parents": _wholes(parents),
            "right_children": _wholes(children["right"]),
            "split_conditions": _floats(np.where(is_leaf, outputs[order], conditions[order])),
            "split_indices": _wholes(np.where(is_leaf, 0, forest.feature[order])),
            "split_type": ["0"] * order.size,
            "sum_hessian": _floats(weights[order - root]),
        }
        columns |= {f"categories{part}": [] for part in ("", "_nodes", "_segments", "_sizes")}
        about = {
            "num_deleted": "0",
            "num_feature": str(forest.n_features),
            "num_nodes": str(order.size),
            "size_leaf_vector": "1",
        }
        listed = ", ".join(f'"{name}": [{", ".join(texts)}]' for name, texts in columns.items())
        yield f'{{"id": {number}, "tree_param": {json.dumps(about)}, {listed}}}'


def _by_level(forest: Forest, root: int) -> tuple[Array, Array]:
    """The nodes of a tree level by level, children beside one another; and the place of the parent of each."""
    order, parents = [root], [_NO_PARENT]
    for place, node in enumerate(order):  # which grows
        if forest.feature[node] >= 0:
            order += [int(forest.left[node]), int(forest.right[node])]
            parents += [place, place]
    return np.array(order), np.array(parents)


def _floats(numbers: Floats) -> list[str]:
    """Texts of float32 numbers, which XGBoost must not take for whole numbers."""
    texts = map(rules.short, np.clip(numbers, -_GREATEST, _GREATEST).astype(np.float32).tolist())
    return [text if "." in text or "e" in text else f"{text}.0" for text in texts]


def _wholes(numbers: Array) -> list[str]:
    return [str(int(number)) for number in numbers.tolist()]


def conditions_of(forest: Forest) -> list[float]:
    """``value <= t`` as ``value < condition``."""
    above = rules.above(forest.threshold)
    if np.isinf(above[forest.feature >= 0]).any():
        raise ModelError(
            "a threshold is the greatest float32, so that only infinite values lie above it: "
            "no split_condition says that. Export to lightgbm, onnx, json or c."
        )
    conditions: list[float] = above.tolist()
    return conditions


def read(content: bytes) -> FileTrees:
    """The trees of a model that XGBoost saved as JSON or UBJSON."""
    return read_saved_model(reading.mapping(document_of(content), "the model"))


def document_of(content: bytes) -> Any:
    """The value of a file of JSON or UBJSON."""
    if content.startswith(b"binf"):
        raise ModelError(
            "it is the binary form of old versions of XGBoost; save the model as .json or .ubj."
        )
    return ubjson_of(content) if is_ubjson(content) else reading.json_of(content)


def read_saved_model(document: dict[str, Any], *, all_trees: bool = False) -> FileTrees:
    """The trees of a saved model up to its best iteration, with their base score as a margin."""
    learner = reading.mapping(document.get("learner"), "learner")
    about = reading.mapping(learner.get("learner_model_param"), "learner_model_param")
    _refuse_other_kinds(learner, about)
    booster = reading.mapping(learner.get("gradient_booster"), "gradient_booster")
    weights = None
    if booster.get("name") == "dart":
        dropped = reading.sequence(booster.get("weight_drop"), "weight_drop")
        weights = [reading.json_number(weight, "weight_drop") for weight in dropped]
        booster = reading.mapping(booster.get("gbtree"), "gbtree")
    model = reading.mapping(booster.get("model"), "model")
    trees = reading.sequence(model.get("trees"), "trees")
    if weights is not None and len(weights) != len(trees):
        raise ModelError("weight_drop must have one weight per tree.")
    builder = reading.TreeBuilder()
    n_trees = len(trees) if all_trees else _n_best(learner, model, len(trees))
    for index, tree in enumerate(trees[:n_trees]):
        builder.start_tree(1.0 if weights is None else weights[index])
        _read_saved_tree(reading.mapping(tree, "a tree"), builder)
    return builder.finish(
        n_features=_n_features(about, builder),
        feature_names=_names(learner, _n_features(about, builder)),
        base=_base(about, reading.mapping(learner.get("objective"), "objective").get("name")),
    )


def _refuse_other_kinds(learner: dict[str, Any], about: dict[str, Any]) -> None:
    booster = reading.mapping(learner.get("gradient_booster"), "gradient_booster")
    if booster.get("name") not in ("gbtree", "dart"):
        raise ModelError(f"its booster is {booster.get('name')!r}; only gbtree and dart are trees.")
    objective = reading.mapping(learner.get("objective"), "objective").get("name")
    if objective not in (*PLAIN_OBJECTIVES, *LOGISTIC_OBJECTIVES):
        raise ModelError(
            f"its objective {str(objective)[:40]!r} changes the scores; only plain sums of trees can be read, and log "
            f"odds: {', '.join((*PLAIN_OBJECTIVES, *LOGISTIC_OBJECTIVES))}."
        )
    for name in ("num_class", "num_target"):
        if reading.whole_of(about.get(name, "0"), name) > 1:
            raise ModelError(f"its {name} is more than 1; a ranker gives one score.")


def _n_features(about: dict[str, Any], builder: reading.TreeBuilder) -> int:
    declared = reading.whole_of(about.get("num_feature", "0"), "num_feature")
    if not 0 <= declared < reading.MOST_FEATURES or (
        declared and declared < builder.n_features_seen
    ):
        raise ModelError(f"its num_feature is {declared:,}, which its trees do not fit.")
    return declared or builder.n_features_seen


def _names(learner: dict[str, Any], n_features: int) -> tuple[str, ...] | None:
    names = [
        reading.json_text(name, "a feature name")
        for name in reading.sequence(learner.get("feature_names", []), "feature_names")
    ]
    return tuple(names) if len(names) == n_features else None


def _base(about: dict[str, Any], objective: Any) -> float:
    """What is added to the trees: the base score (since version 3.1 a list of one), or its log odds."""
    text = about.get("base_score", "0")
    base = reading.number_of(text.strip("[]") if isinstance(text, str) else text, "base_score")
    if objective not in LOGISTIC_OBJECTIVES:
        return base
    share = np.float32(base)
    if not 0 < share < 1:
        raise ModelError(f"its base_score is {base:g}; for {objective} it is between 0 and 1.")
    return float(-np.log(np.float32(1) / share - np.float32(1)))


def _n_best(learner: dict[str, Any], model: dict[str, Any], n_trees: int) -> int:
    """The number of trees up to the best iteration, if early stopping has left one, else of all."""
    best = reading.mapping(learner.get("attributes", {}), "attributes").get("best_iteration")
    if best is None:
        return n_trees
    number = reading.whole_of(best, "best_iteration")
    about = reading.mapping(model.get("gbtree_model_param", {}), "gbtree_model_param")
    per_round = reading.whole_of(about.get("num_parallel_tree", "1"), "num_parallel_tree")
    if not 1 <= per_round <= max(1, n_trees) or not 0 <= number < n_trees // per_round:
        raise ModelError(
            f"its best_iteration is {number:,}, but it has {n_trees:,} trees, {per_round:,} per iteration."
        )
    return (number + 1) * per_round


def _read_saved_tree(tree: dict[str, Any], builder: reading.TreeBuilder) -> None:
    columns = {name: reading.sequence(tree.get(name), name) for name in _COLUMNS}
    n_nodes = len(columns["left_children"])
    if n_nodes == 0 or any(len(column) != n_nodes for column in columns.values()):
        raise ModelError("a tree's lists of nodes are empty, or not of one length.")
    if any(reading.sequence(tree.get("split_type", []), "split_type")):
        raise ModelError("it splits by categories, which our trees do not.")
    more = {
        name: tree[name]
        if isinstance(tree.get(name), list) and len(tree[name]) == n_nodes
        else [0.0] * n_nodes
        for name in ("loss_changes", "sum_hessian")
    }
    n_read = 0

    def read_node(number: int) -> tuple[int, reading.Children | None]:
        nonlocal n_read
        n_read += 1
        if not 0 <= number < n_nodes or n_read > n_nodes:
            raise ModelError("a tree has children out of range, or a node with two parents.")
        left = reading.json_whole(columns["left_children"][number], "left_children")
        condition = reading.json_number(columns["split_conditions"][number], "split_conditions")
        cover = reading.json_number(more["sum_hessian"][number], "sum_hessian")
        if left == -1:
            return builder.add_leaf(condition, cover), None
        gain = reading.json_number(more["loss_changes"][number], "loss_changes")
        column = reading.json_whole(columns["split_indices"][number], "split_indices")
        node = builder.add_split(column, condition, 0.0, cover, gain)
        right = reading.json_whole(columns["right_children"][number], "right_children")
        return node, (left, right, columns["default_left"][number] in (1, True))

    builder.read_tree(0, read_node)
