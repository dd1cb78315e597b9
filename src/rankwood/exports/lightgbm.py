"""LightGBM's text, version 4: read by LightGBM, Treelite and what is built on them.

Nodes and leaves of a tree are numbered apart; a child that is a leaf is written as ``~leaf``. LightGBM compares in
float64, so a threshold is written as the greatest float64 that float32 rounds to ours or below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from rankwood.dtypes import Array
from rankwood.errors import ModelError
from rankwood.exports import float_steps, lightgbm_reading
from rankwood.exports.rules import Rules
from rankwood.exports.writing import Plain, WriteOptions, names_for, plain, refuse_third_children
from rankwood.models.forest import Forest

RULES = Rules(
    "<=",
    np.float64,
    np.float64,
    "child",
    (
        "goes left when value <= threshold, both float64: thresholds are written so that float64 values decide as "
        "float32 values do",
        "leaves are float64, summed in float64 in the order of the trees; average_output divides by the trees",
        "NaN goes left or right as decision_type says",
        "values no farther from 0 than 1e-35 are 0",
        "leaf_count and internal_count are the training rows, which SHAP needs",
    ),
    counts_as_zero=1e-35,
)
_NAN_LEFT, _NAN_RIGHT = 10, 8  # numeric, NaN is missing; bit 2 sends it left
_MOST_COUNT = 1 << 30  # LightGBM keeps counts in 32 bits
_FINE = 1_000  # a count of the lightest leaf that still tells weights apart

read = lightgbm_reading.read


def default_name(number: int) -> str:
    """What LightGBM calls a feature without a name."""
    return f"Column_{number}"


def write(forest: Forest, options: WriteOptions) -> bytes:
    """The model as LightGBM saves it."""
    refuse_third_children(forest, "lightgbm")
    names = names_for(forest, options, default_name)
    _refuse_names(names)
    trees = plain(forest, names, may_average=True)
    lines = [
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        "label_index=0",
        f"max_feature_idx={forest.n_features - 1}",
        "objective=regression",
        *(["average_output"] if trees.is_mean else []),
        f"feature_names={' '.join(names)}",
        f"feature_infos={' '.join(_infos(forest))}",
        "",
    ]
    for number, root in enumerate(trees.roots()):
        end = int(forest.tree_offsets[number + 1])
        lines += [f"Tree={number}", *_tree(trees, root, end), ""]
    if trees.constant is not None:
        lines += [f"Tree={forest.n_trees}", *_leaf_alone(trees.constant, 1), ""]
    lines += ["end of trees", "", "pandas_categorical:[]", ""]
    return "\n".join(lines).encode()


def _refuse_names(names: Iterable[str]) -> None:
    """LightGBM parts names by spaces and lines by line ends, and refuses what JSON would have to quote."""
    for name in names:
        if not name or any(character.isspace() or character in '",:[]{}' for character in name):
            raise ModelError(
                f"feature name {name!r} cannot be written for LightGBM: no spaces, quotes, commas, colons or "
                "brackets. Pass other feature_names."
            )


def _infos(forest: Forest) -> list[str]:
    """The range of each feature; LightGBM takes a feature without one for constant."""
    is_used = np.zeros(forest.n_features, bool)
    is_used[forest.feature[forest.feature >= 0]] = True
    return ["[-1e+300:1e+300]" if used else "none" for used in is_used.tolist()]


def _leaf_alone(value: float, count: int) -> list[str]:
    return [
        "num_leaves=1",
        "num_cat=0",
        "split_feature=",
        "split_gain=",
        "threshold=",
        "decision_type=",
        "left_child=",
        "right_child=",
        f"leaf_value={value:.17g}",
        "leaf_weight=",
        f"leaf_count={count}",
        "internal_value=",
        "internal_weight=",
        "internal_count=",
        "is_linear=0",
        "shrinkage=1",
        "",
    ]


def _tree(trees: Plain, root: int, end: int) -> list[str]:
    forest = trees.forest
    nodes = np.arange(root, end)
    is_leaf = forest.feature[nodes] < 0
    counts = row_counts(forest, root, end)
    if nodes.size == 1:
        return _leaf_alone(float(trees.value[root]), int(counts[0]))
    inner, leaves = nodes[~is_leaf], nodes[is_leaf]
    # Numbers of nodes and leaves, each counted from 0; a leaf as a child is ~number.
    number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    goes_left = forest.missing[inner] == forest.left[inner]
    return [
        f"num_leaves={leaves.size}",
        "num_cat=0",
        _line("split_feature", forest.feature[inner]),
        _line("split_gain", forest.gain[inner], _digits),
        _line("threshold", float_steps.greatest_rounded_to(forest.threshold[inner]), _digits),
        _line("decision_type", np.where(goes_left, _NAN_LEFT, _NAN_RIGHT)),
        _line("left_child", number[forest.left[inner] - root]),
        _line("right_child", number[forest.right[inner] - root]),
        _line("leaf_value", trees.value[leaves], _digits),
        _line("leaf_weight", counts[leaves - root]),
        _line("leaf_count", counts[leaves - root]),
        _line("internal_value", trees.value[inner], _digits),
        _line("internal_weight", counts[inner - root]),
        _line("internal_count", counts[inner - root]),
        "is_linear=0",
        "shrinkage=1",
        "",
    ]


def row_counts(forest: Forest, root: int, end: int) -> Array:
    """Training rows of each node as whole numbers: of leaves at least 1, of splits the sum of their leaves.

    Weighted rows are scaled up until the lightest leaf is told apart, as far as 32 bits go; where the model knows of no
    rows, each leaf counts 1.
    """
    cover = forest.cover[root:end]
    is_leaf = forest.feature[root:end] < 0
    of_leaves = cover[is_leaf]
    total = float(of_leaves.sum())
    factor = 1.0
    if total > 0 and (of_leaves != np.rint(of_leaves)).any():
        lightest = float(of_leaves[of_leaves > 0].min())
        factor = max(1.0, _FINE / lightest)
    if total * factor > _MOST_COUNT:
        factor = _MOST_COUNT / total
    counts = np.where(is_leaf, np.maximum(1, np.rint(cover * factor)), 0).astype(np.int64)
    for node in range(end - root - 1, -1, -1):  # children stand after their parents
        if not is_leaf[node]:
            counts[node] = (
                counts[forest.left[root + node] - root] + counts[forest.right[root + node] - root]
            )
    return counts


def _digits(number: float) -> str:
    return f"{number:.17g}"


def _line(name: str, numbers: Array, shown: Callable[[float], str] = str) -> str:
    return f"{name}={' '.join(shown(number) for number in numbers.tolist())}"
