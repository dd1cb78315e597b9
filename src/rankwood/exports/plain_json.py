"""A plain JSON dump of a forest: everything the model file has about the trees, for other programs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rankwood.errors import ModelError
from rankwood.exports import reading, rules
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.writing import WriteOptions
from rankwood.models.forest import Forest

RULES = EngineRules(
    "<=",
    np.float32,
    np.float64,
    "child",
    (
        "goes left when value <= threshold, both float32",
        "leaves are float64; weight times leaf is summed in float64 in the order of the trees, divided by the sum of "
        "the weights where average is true, and the base is added",
        "NaN goes to 'missing', which may be a third child",
    ),
)
FORMAT, VERSION = "rankwood-forest", 1
_WHOLE = ("feature", "left", "right", "missing")
_NUMBERS = ("threshold", "value", "cover", "gain")


def write(forest: Forest, options: WriteOptions) -> bytes:
    """The forest as one JSON object, a line per tree."""
    names = options.feature_names or forest.feature_names
    if names is not None and (len(names) != forest.n_features or len(set(names)) != len(names)):
        raise ModelError(f"feature_names must be {forest.n_features:,} different names.")
    head = {
        "format": FORMAT,
        "version": VERSION,
        "comparison": "<=",
        "average": forest.average,
        "base": forest.base,
        "n_features": forest.n_features,
        "feature_names": None if names is None else list(names),
    }
    trees = ",\n".join(_tree(forest, tree) for tree in range(forest.n_trees))
    return f'{json.dumps(head)[:-1]}, "trees": [\n{trees}\n]}}\n'.encode()


def _tree(forest: Forest, tree: int) -> str:
    root, end = (int(offset) for offset in forest.tree_offsets[tree : tree + 2])
    nodes = slice(root, end)
    is_leaf = forest.feature[nodes] < 0
    columns = [f'"weight": {rules.exact(forest.tree_weights[tree])}']
    for name in _WHOLE:
        numbers = getattr(forest, name)[nodes]
        shown = numbers if name == "feature" else np.where(is_leaf, -1, numbers - root)
        columns.append(f'"{name}": {json.dumps(shown.tolist())}')
    for name in _NUMBERS:
        digits = rules.short if name == "threshold" else rules.exact
        texts = (digits(number) for number in getattr(forest, name)[nodes].tolist())
        columns.append(f'"{name}": [{", ".join(texts)}]')
    return "{" + ", ".join(columns) + "}"


def read(content: bytes) -> FileTrees:
    """The trees of a dump."""
    document = reading.mapping(reading.json_of(content), "the model")
    if document.get("format") != FORMAT or document.get("version") != VERSION:
        raise ModelError(f"it is no '{FORMAT}' of version {VERSION}.")
    n_features = reading.json_whole(document.get("n_features"), "n_features")
    if not 1 <= n_features < reading.MOST_FEATURES:
        raise ModelError(f"n_features is {n_features:,}.")
    builder = reading.TreeBuilder()
    for tree in reading.sequence(document.get("trees"), "trees"):
        _read_tree(reading.mapping(tree, "a tree"), builder)
    names = document.get("feature_names")
    if names is not None:
        names = tuple(
            reading.json_text(name, "a feature name")
            for name in reading.sequence(names, "feature_names")
        )
    total = sum(builder.weights)
    return builder.finish(
        n_features=n_features,
        feature_names=names,
        divisor=total if document.get("average") is True and total > 0 else 1.0,
        base=reading.json_number(document.get("base"), "base"),
    )


def _read_tree(tree: dict[str, Any], builder: reading.TreeBuilder) -> None:
    builder.start_tree(reading.json_number(tree.get("weight"), "weight"))
    columns = {name: reading.sequence(tree.get(name), name) for name in (*_WHOLE, *_NUMBERS)}
    n_nodes = len(columns["feature"])
    if n_nodes == 0 or any(len(column) != n_nodes for column in columns.values()):
        raise ModelError("a tree's lists of nodes are empty, or not of one length.")
    root = builder.n_nodes
    for number in range(n_nodes):
        threshold, value, cover, gain = (
            reading.json_number(columns[name][number], name) for name in _NUMBERS
        )
        feature, *children = (reading.json_whole(columns[name][number], name) for name in _WHOLE)
        if feature == -1:
            builder.add_leaf(value, cover)
            continue
        node = builder.add_split(feature, threshold, value, cover, gain)
        for side, child in zip(_WHOLE[1:], children, strict=True):
            if not number < child < n_nodes:
                raise ModelError(
                    f"node {number}: its {side} child {child} must stand after it in the tree."
                )
            builder.join(node, side, root + child)
