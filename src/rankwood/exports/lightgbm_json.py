"""The JSON of LightGBM's ``dump_model``, for Vespa.

Vespa tests ``value < threshold`` where LightGBM tests ``<=``, both in float64, and always sums the trees. Thresholds
are therefore written as the least float64 that float32 rounds to a number above ours, and averages as sums.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankwood.dtypes import Array
from rankwood.errors import ModelError
from rankwood.exports import rules
from rankwood.exports.lightgbm import default_name, notes, row_counts, row_weights
from rankwood.exports.reading import (
    Children,
    TreeBuilder,
    json_number,
    json_of,
    json_whole,
    mapping,
    sequence,
)
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.writing import Plain, WriteOptions, nested, plain_for
from rankwood.models.forest import Forest

__all__ = ["RULES", "notes", "read", "write"]

RULES = EngineRules(
    "<",
    np.float64,
    np.float64,
    "child",
    (
        "Vespa goes left when value < threshold, both float64: thresholds are written so that this is our value <= "
        "threshold of float32; LightGBM itself does not read this file",
        "leaves are float64, summed in float64 in the order of the trees; averages are written as sums",
        "NaN goes left where default_left is true",
    ),
)


def write(forest: Forest, options: WriteOptions) -> bytes:
    """The JSON that Vespa's importer reads."""
    trees = plain_for("lightgbm-json", forest, options, default_name)
    head = {
        "name": "tree",
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "label_index": 0,
        "max_feature_idx": forest.n_features - 1,
        "objective": "regression",
        "average_output": False,
        "feature_names": list(trees.names),
        "monotone_constraints": [],
        "feature_infos": {},
    }
    body = ",\n".join(_trees(trees, options.n_rows))
    tail = '"feature_importances": {}, "pandas_categorical": []}'
    return f'{json.dumps(head)[:-1]}, "tree_info": [\n{body}\n], {tail}\n'.encode()


def _trees(trees: Plain, n_rows: int | None) -> Iterator[str]:
    forest = trees.forest
    conditions = np.nextafter(rules.greatest_rounded_to(forest.threshold), np.inf).tolist()
    for index, root in enumerate(trees.roots()):
        end = int(forest.tree_offsets[index + 1])
        is_leaf = forest.feature[root:end] < 0
        writer = _NodeWriter(
            trees, conditions, root, is_leaf, row_counts(forest, root, end, n_rows)
        )
        structure = "".join(nested(forest, root, writer.leaf, writer.split))
        yield _tree(index, int(is_leaf.sum()), structure)
    if trees.constant is not None:
        leaf = f'{{"leaf_value": {rules.exact(trees.constant)}}}'
        yield _tree(forest.n_trees, 1, leaf)


def _tree(index: int, n_leaves: int, structure: str) -> str:
    return (
        f'{{"tree_index": {index}, "num_leaves": {n_leaves}, "num_cat": 0, "shrinkage": 1, '
        f'"tree_structure": {structure}}}'
    )


class _NodeWriter:
    """Writes the nodes of a tree; leaves and splits are numbered separately."""

    def __init__(
        self, trees: Plain, conditions: list[float], root: int, is_leaf: Array, counts: Array
    ) -> None:
        self.forest, self.value = trees.forest, trees.value
        self.conditions, self.root, self.counts = conditions, root, counts.tolist()
        self.weight = row_weights(trees.forest, root, root + is_leaf.size).tolist()
        self.number = np.where(is_leaf, np.cumsum(is_leaf) - 1, np.cumsum(~is_leaf) - 1).tolist()

    def leaf(self, node: int) -> str:
        number, count = self.number[node - self.root], self.counts[node - self.root]
        value, weight = rules.exact(self.value[node]), _weight(self.weight[node - self.root])
        return (
            f'{{"leaf_index": {number}, "leaf_value": {value}, "leaf_weight": {weight}, '
            f'"leaf_count": {count}}}'
        )

    def split(self, node: int) -> tuple[str, str, str]:
        forest, own = self.forest, node - self.root
        is_left = "true" if forest.missing[node] == forest.left[node] else "false"
        before = (
            f'{{"split_index": {self.number[own]}, "split_feature": {int(forest.feature[node])}, '
            f'"split_gain": {rules.exact(forest.gain[node])}, '
            f'"threshold": {rules.exact(self.conditions[node])}, '
            f'"decision_type": "<=", "default_left": {is_left}, "missing_type": "NaN", '
            f'"internal_value": {rules.exact(self.value[node])}, "internal_weight": {_weight(self.weight[own])}, '
            f'"internal_count": {self.counts[own]}, "left_child": '
        )
        return before, ', "right_child": ', "}"


def _weight(number: float) -> str:
    return f"{number:.17g}"


def read(content: bytes) -> FileTrees:
    """The trees of a file as Vespa reads them; for verification."""
    document = mapping(json_of(content), "the model")
    if "objective" not in document or "pandas_categorical" not in document:
        raise ModelError("Vespa needs 'objective' and 'pandas_categorical'.")
    names = sequence(document.get("feature_names"), "feature_names")
    builder = TreeBuilder()

    def read_node(value: Any) -> tuple[int, Children | None]:
        record = mapping(value, "a node")
        if "leaf_value" in record:
            return builder.add_leaf(json_number(record["leaf_value"], "leaf_value")), None
        column = json_whole(record.get("split_feature"), "split_feature")
        node = builder.add_split(column, json_number(record.get("threshold"), "threshold"))
        is_left = record.get("default_left") is True
        return node, (record.get("left_child"), record.get("right_child"), is_left)

    for tree in sequence(document.get("tree_info"), "tree_info"):
        builder.start_tree()
        builder.read_tree(mapping(tree, "a tree").get("tree_structure"), read_node)
    return builder.finish(n_features=len(names), feature_names=tuple(map(str, names)))
