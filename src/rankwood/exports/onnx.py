"""ONNX: one ``TreeEnsembleRegressor`` of ai.onnx.ml, for ONNX Runtime and others. It needs the extra ``onnx``."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from rankwood import __version__
from rankwood.dtypes import Array
from rankwood.errors import MissingExtra, ModelError
from rankwood.exports.reading import TreeBuilder
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.writing import (
    WriteOptions,
    in_float32,
    names_for,
    plain,
    refuse_third_children,
)
from rankwood.models.forest import Forest

RULES = EngineRules(
    "<=",
    np.float32,
    np.float32,
    "child",
    (
        "goes to the true branch when value <= threshold, both float32 (BRANCH_LEQ)",
        "leaves are float32, summed in float32; AVERAGE divides by the number of trees; base_values are added",
        "NaN goes to the true branch where nodes_missing_value_tracks_true is 1",
        "input 'features': float32, rows x features; output 'scores': float32, rows x 1",
    ),
)
# The newest versions that every ONNX Runtime since 1.10 supports; later ones change nothing used here.
_OPSETS = {"": 15, "ai.onnx.ml": 3}
_IR_VERSION = 8


def write(forest: Forest, options: WriteOptions) -> bytes:
    """The serialized model."""
    onnx = _package()
    refuse_third_children(forest, "onnx")
    names = names_for(forest, options)
    attributes = _attributes(forest)
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node(
        "TreeEnsembleRegressor", ["features"], ["scores"], domain="ai.onnx.ml", **attributes
    )
    graph = helper.make_graph(
        [node],
        options.model_name,
        [helper.make_tensor_value_info("features", kind, [None, forest.n_features])],
        [helper.make_tensor_value_info("scores", kind, [None, 1])],
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
    model = helper.make_model(
        graph, opset_imports=opsets, producer_name="rankwood", producer_version=__version__
    )
    model.ir_version = _IR_VERSION
    helper.set_model_props(model, {"feature_names": json.dumps(names)})
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _attributes(forest: Forest) -> dict[str, Any]:
    trees = plain(dataclasses.replace(forest, base=0.0), (), may_average=True)
    outputs = in_float32(trees.value, "leaf value")
    base = in_float32(np.array([forest.base]), "base")
    roots = np.repeat(forest.tree_offsets[:-1], np.diff(forest.tree_offsets))
    numbers = np.arange(forest.n_nodes) - roots
    tree_of = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))
    is_leaf = forest.feature < 0
    columns: dict[str, Array] = {
        "nodes_treeids": tree_of,
        "nodes_nodeids": numbers,
        "nodes_featureids": np.where(is_leaf, 0, forest.feature),
        "nodes_values": forest.threshold,
        "nodes_truenodeids": np.where(is_leaf, 0, forest.left - roots),
        "nodes_falsenodeids": np.where(is_leaf, 0, forest.right - roots),
        "nodes_missing_value_tracks_true": (~is_leaf & (forest.missing == forest.left)).astype(int),
        "nodes_hitrates": np.ones(forest.n_nodes, np.float32),
        "target_treeids": tree_of[is_leaf],
        "target_nodeids": numbers[is_leaf],
        "target_ids": np.zeros(int(is_leaf.sum()), int),
        "target_weights": outputs[is_leaf],
    }
    modes = np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist()
    if forest.n_trees == 0:  # the operator requires a tree
        columns = {name: np.zeros(1, column.dtype) for name, column in columns.items()}
        modes = ["LEAF"]
    return {
        **{name: column.tolist() for name, column in columns.items()},
        "nodes_modes": modes,
        "n_targets": 1,
        "aggregate_function": "AVERAGE" if trees.is_mean else "SUM",
        "base_values": base.tolist(),
        "post_transform": "NONE",
    }


def read(content: bytes) -> FileTrees:
    """The trees of a file that ``write`` wrote; for verification."""
    onnx = _package()
    try:
        model = onnx.load_from_string(content)
        (node,) = model.graph.node
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    except Exception as error:  # whatever protobuf raises
        raise ModelError(f"it is no ONNX model of one node: {error}") from None
    weight_of = dict(
        zip(
            zip(attributes["target_treeids"], attributes["target_nodeids"], strict=True),
            attributes["target_weights"],
            strict=True,
        )
    )
    builder = TreeBuilder()
    positions: dict[tuple[int, int], int] = {}
    for index, key in enumerate(
        zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True)
    ):
        if key[1] == 0:
            builder.start_tree()
        if attributes["nodes_modes"][index] == b"LEAF":
            positions[key] = builder.add_leaf(weight_of[key])
        else:
            feature, threshold = (
                attributes["nodes_featureids"][index],
                attributes["nodes_values"][index],
            )
            positions[key] = builder.add_split(feature, threshold)
    _join(attributes, builder, positions)
    divisor = float(len(builder.roots)) if attributes["aggregate_function"] == b"AVERAGE" else 1.0
    n_features = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    return builder.finish(n_features=n_features, divisor=divisor, base=attributes["base_values"][0])


def _join(
    attributes: dict[str, Any], builder: TreeBuilder, positions: dict[tuple[int, int], int]
) -> None:
    for index, (key, node) in enumerate(positions.items()):
        if attributes["nodes_modes"][index] == b"LEAF":
            continue
        left, right = (
            positions[key[0], attributes[f"nodes_{side}nodeids"][index]]
            for side in ("true", "false")
        )
        builder.join(node, "left", left)
        builder.join(node, "right", right)
        tracks_true = attributes["nodes_missing_value_tracks_true"][index] == 1
        builder.join(node, "missing", left if tracks_true else right)


def _package() -> Any:
    try:
        import onnx
    except ImportError:
        raise MissingExtra("onnx", "onnx", "exporting to ONNX") from None
    return onnx
