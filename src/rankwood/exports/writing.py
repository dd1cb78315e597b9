"""Helpers of all writers: a forest as a plain sum or mean of leaf values, nested texts, names and refusals.

``plain_for`` is where a writer starts: it refuses what the format cannot express and multiplies the weights of trees
into their leaves. ``nested`` and ``float32_trees`` write trees as nested texts. ``without_categories`` makes thresholds
on codes of splits by categories. ``binary_splits`` replaces splits with a third child: RankBoost's weak rankers have
three leaves, a below the threshold, b above it, c for missing values. Two trees of two leaves have the same sum: one
sends missing values left and has the leaves a and a + b - c, the other sends them right and has the leaves 0 and c - a.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.dtypes import Array, Features, Floats
from rankwood.errors import ModelError, ParameterError
from rankwood.exports.rules import short
from rankwood.models.forest import Forest, binary_subsets
from rankwood.models.validate import NODE_ARRAYS

MOST_DEPTH = (
    400  # Jackson, the usual JSON parser of engines, refuses more than 1,000 levels: two per split
)

MOST_CHAINED = 1 << 20  # nodes, where splits by categories become thresholds

_NODES_OF_STUMP = 4  # the split and three leaves
_SIDES = ("left", "right", "missing")

Runs = list[tuple[int, bool]]  # the last code of each run of codes, and whether the run goes left


@dataclass(frozen=True)
class WriteOptions:
    """The options of a writer; ``n_rows`` is the number of rows that the model was trained on, if it is known."""

    feature_names: tuple[str, ...] | None = None
    model_name: str = "rankwood"
    objective: str = "rank:ndcg"
    nearest_thresholds: bool = False
    function_name: str = "score"
    n_rows: int | None = None


@dataclass(frozen=True, eq=False)
class Plain:
    """A forest whose weights are multiplied into its leaves.

    The score is the sum of the trees' leaves plus ``constant``, which is None if there is nothing to add. With
    ``is_mean`` it is their mean, without a constant.
    """

    forest: Forest
    value: Floats
    is_mean: bool
    constant: float | None
    names: tuple[str, ...]

    @property
    def n_trees(self) -> int:
        """Number of trees to write, including the constant."""
        return self.forest.n_trees + (self.constant is not None)

    def roots(self) -> list[int]:
        """The first node of each tree."""
        roots: list[int] = self.forest.tree_offsets[:-1].tolist()
        return roots


def plain_for(
    format_name: str,
    forest: Forest,
    options: WriteOptions | None,
    default_name: Callable[[int], str] | None = None,
    *,
    may_average: bool = False,
    is_nested: bool = True,
) -> Plain:
    """The forest for a format with two children per split, or an error if the format cannot express it.

    ``options`` is None for a format without feature names.
    """
    refuse_third_children(forest, format_name)
    if is_nested:
        refuse_depth(forest, format_name)
    names = () if options is None else names_for(forest, options, default_name or numbered_name)
    return plain(forest, names, may_average=may_average)


def plain(forest: Forest, names: tuple[str, ...], *, may_average: bool) -> Plain:
    """The forest for a format without weights and, unless ``may_average``, without means."""
    total = float(forest.tree_weights.sum())
    weights = forest.tree_weights
    is_mean = forest.average and may_average and forest.n_trees > 0 and total > 0
    if is_mean and (weights != weights[0]).any():
        weights = weights * (forest.n_trees / total)
    elif is_mean:
        weights = np.ones(forest.n_trees)
    elif forest.average and total > 0:
        weights = weights / total
    value = forest.value * np.repeat(weights, np.diff(forest.tree_offsets))
    if is_mean and forest.base:
        value = value + forest.base
    needs_constant = not is_mean and (forest.base != 0 or forest.n_trees == 0)
    return Plain(forest, value, is_mean, forest.base if needs_constant else None, names)


def nested(
    forest: Forest,
    root: int,
    leaf: Callable[[int], str],
    split: Callable[[int], tuple[str, str, str]],
) -> list[str]:
    """The texts of a tree; ``split`` returns the texts before, between and after its children."""
    texts: list[str] = []
    waiting: list[int | str] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            texts.append(item)
        elif forest.feature[item] < 0:
            texts.append(leaf(item))
        else:
            before, between, after = split(item)
            texts.append(before)
            waiting += [after, int(forest.right[item]), between, int(forest.left[item])]
    return texts


def float32_trees(
    trees: Plain, leaf: Callable[[int, str], str], split: Callable[[int], tuple[str, str, str]]
) -> Iterator[str]:
    """The nested text of each tree, and of the constant as a tree of one leaf, with float32 leaves.

    ``leaf`` gets the index of a leaf within its tree and the text of its value; ``split`` is as for ``nested``.
    """
    outputs = in_float32(trees.value, "leaf value").tolist()
    for root in trees.roots():

        def leaf_of(node: int, root: int = root) -> str:
            return leaf(node - root, short(outputs[node]))

        yield "".join(nested(trees.forest, root, leaf_of, split))
    if trees.constant is not None:
        constant = in_float32(np.array([trees.constant]), "base")
        yield leaf(0, short(float(constant[0])))


def in_float32(numbers: Floats, what: str) -> Features:
    """The numbers as float32; numbers beyond its range are refused."""
    with np.errstate(over="ignore"):
        rounded: Features = np.asarray(numbers, np.float64).astype(np.float32)
    wrong = ~np.isfinite(rounded)
    if (index := checks.first_true(wrong)) is not None:
        raise ModelError(
            f"{what} {float(numbers[index]):g} is beyond float32, which the format is read in. "
            "Scale the labels down and train again."
        )
    return rounded + np.float32(0.0)


def numbered_name(number: int) -> str:
    """The default name of a feature, by its index."""
    return f"feature_{number + 1}"


def names_for(
    forest: Forest, options: WriteOptions, default: Callable[[int], str] = numbered_name
) -> tuple[str, ...]:
    """The names to write: those of the options, else the model's, else default names."""
    names: Sequence[str] | None = options.feature_names or forest.feature_names
    if names is None:
        return tuple(default(number) for number in range(forest.n_features))
    if len(names) != forest.n_features or len(set(names)) != len(names):
        raise ModelError(
            f"feature_names must be {forest.n_features:,} different names, got {len(names):,} "
            f"with {len(set(names)):,} different ones."
        )
    return tuple(names)


def checked_names(feature_names: Sequence[str] | None) -> tuple[str, ...] | None:
    """The argument ``feature_names``: one text per feature, or None."""
    if feature_names is None:
        return None
    names = tuple(feature_names)
    if isinstance(feature_names, str) or not all(isinstance(name, str) for name in names):
        raise ParameterError("feature_names must be a list of texts, one per feature.")
    return names


def refuse_third_children(forest: Forest, format_name: str) -> None:
    """Raise if a split has a third child for missing values."""
    third = has_third_child(forest)
    if third.any():
        raise ModelError(
            f"{int(third.sum()):,} splits have a third child for missing values, which {format_name} cannot express. "
            "Train with another treatment of missing values, or export to json or c."
        )


def refuse_depth(forest: Forest, format_name: str) -> None:
    """Raise for trees that are too deep for readers of nested files."""
    if forest.max_depth > MOST_DEPTH:
        raise ModelError(
            f"a tree is {forest.max_depth:,} splits deep; {format_name} nests its nodes, and readers refuse more than "
            f"{MOST_DEPTH}. Train with a max_depth, or export to lightgbm or onnx."
        )


def depths(forest: Forest) -> Array:
    """The number of splits above each node."""
    depth = np.zeros(forest.n_nodes, np.int64)
    level = np.flatnonzero(forest.feature >= 0)
    for node in level.tolist():  # parents come before children
        for children in (forest.left, forest.right, forest.missing):
            depth[children[node]] = depth[node] + 1
    return depth


def has_third_child(forest: Forest) -> Array:
    """Whether each node is a split with a third child for missing values."""
    is_third: Array = (forest.missing != forest.left) & (forest.missing != forest.right)
    return is_third & (forest.feature >= 0)


def binary_splits(forest: Forest) -> Forest:
    """The same sum with two children per split, if every tree with a third child has one split; else the forest."""
    is_third = has_third_child(forest)
    sizes = np.diff(forest.tree_offsets)
    of_tree = np.repeat(np.arange(forest.n_trees), sizes)[is_third]
    if of_tree.size == 0 or forest.average or (sizes[of_tree] != _NODES_OF_STUMP).any():
        return forest
    is_stump = np.zeros(forest.n_trees, bool)
    is_stump[of_tree] = True
    trees: list[dict[str, Array]] = []
    weights: list[float] = []
    for tree_index in range(forest.n_trees):
        tree = _arrays(forest, tree_index)
        parts = _two_stumps(tree) if is_stump[tree_index] else [tree]
        trees += parts
        weights += [float(forest.tree_weights[tree_index])] * len(parts)
    return Forest.from_trees(
        trees,
        n_features=forest.n_features,
        tree_weights=weights,
        base=forest.base,
        feature_names=forest.feature_names,
    )


def without_categories(forest: Forest) -> Forest:
    """The same trees with each split by categories as thresholds on their codes; the forest itself if it has none.

    Codes that lie side by side and go to the same child are a run. Thresholds between the runs lead to each of them,
    and each gets a copy of the child's subtree, so a tree grows: ``MOST_CHAINED`` nodes are the most.
    """
    if not len(forest.subsets):
        return dataclasses.replace(forest, categorical=None)
    runs = _runs_of_nodes(forest)
    sizes: list[int] = [1] * forest.n_nodes
    for node in range(forest.n_nodes - 1, -1, -1):  # children come after their parents
        if forest.feature[node] < 0:
            continue
        left, right, missing = (_child(forest, side, node) for side in _SIDES)
        sides = [goes_left for _, goes_left in runs[node]] if node in runs else [True, False]
        sizes[node] += len(sides) - 2 + sum(sizes[left if one else right] for one in sides)
        sizes[node] += sizes[missing] if missing not in (left, right) else 0
    n_nodes = sum(sizes[root] for root in forest.tree_offsets[:-1].tolist())
    if n_nodes > MOST_CHAINED:
        raise ModelError(
            f"its splits by categories would become {n_nodes:,} nodes with thresholds on codes, and {MOST_CHAINED:,} "
            "are allowed. Export to lightgbm, which has categories, or train with fewer leaves."
        )
    trees = [_chained(forest, int(root), runs) for root in forest.tree_offsets[:-1]]
    return Forest.from_trees(
        trees,
        n_features=forest.n_features,
        tree_weights=forest.tree_weights,
        base=forest.base,
        average=forest.average,
        feature_names=forest.feature_names,
    )


def _child(forest: Forest, side: str, node: int) -> int:
    return int(getattr(forest, side)[node])


def _runs_of_nodes(forest: Forest) -> dict[int, Runs]:
    """The runs of each split by categories: their last code, and whether they go left."""
    goes_left = binary_subsets(forest)
    runs = {}
    for node in np.flatnonzero(forest.subsets.any(axis=1)).tolist():
        n_codes = len((forest.categorical or ())[forest.feature[node]] or ()) + 1
        of_codes = goes_left[node, :n_codes]
        ends = [*np.flatnonzero(of_codes[1:] != of_codes[:-1]).tolist(), n_codes - 1]
        runs[node] = [(end, bool(of_codes[end])) for end in ends]
        decided = np.searchsorted([end + 0.5 for end in ends[:-1]], np.arange(n_codes))
        if (np.array([side for _, side in runs[node]])[decided] != of_codes).any():
            raise ModelError(
                f"node {node}: thresholds on codes decide otherwise than its categories."
            )
    return runs


def _chained(forest: Forest, root: int, runs: dict[int, Runs]) -> dict[str, list[Any]]:
    """The node arrays of one tree, in which every split is one by a threshold."""
    arrays: dict[str, list[Any]] = {name: [] for name in NODE_ARRAYS}

    def add(node: int, share: float, threshold: float | None) -> int:
        is_inner = threshold is not None
        arrays["feature"].append(int(forest.feature[node]) if is_inner else -1)
        arrays["threshold"].append(threshold if is_inner else 0.0)
        for side in _SIDES:
            arrays[side].append(0)
        arrays["value"].append(float(forest.value[node]))
        arrays["cover"].append(share * float(forest.cover[node]))
        arrays["gain"].append(share * float(forest.gain[node]) if is_inner else 0.0)
        return len(arrays["feature"]) - 1

    # A node of the forest with its runs, whether missing values come to it, its share of the rows, where it hangs.
    waiting: list[tuple[int, Runs | None, bool, float, int, tuple[str, ...]]] = [
        (root, runs.get(root), True, 1.0, -1, ())
    ]
    while waiting:
        node, own, has_missing, share, parent, sides = waiting.pop()
        left, right, missing = (_child(forest, side, node) for side in _SIDES)
        if own is not None and len(own) == 1:  # all codes go to one child
            child = left if own[0][1] else right
            waiting.append((child, runs.get(child), True, share, parent, sides))
            continue
        if forest.feature[node] < 0:
            number = add(node, share, None)
        elif own is None:
            number = add(node, share, float(forest.threshold[node]))
            of_left = ("left", "missing") if missing == left else ("left",)
            of_right = ("right", "missing") if missing == right else ("right",)
            waiting.append((right, runs.get(right), True, share, number, of_right))
            waiting.append((left, runs.get(left), True, share, number, of_left))
        else:
            middle = len(own) // 2
            number = add(node, share, own[middle - 1][0] + 0.5)
            parts = own[:middle], own[middle:]
            is_third = missing not in (left, right)
            wanted = missing == left
            is_first = any(one == wanted for _, one in parts[0]) or not has_missing
            if is_third and has_missing:
                waiting.append((missing, runs.get(missing), True, share, number, ("missing",)))
            for index, side in ((1, "right"), (0, "left")):
                takes = is_first == (index == 0) and not (is_third and has_missing)
                hangs = (side, "missing") if takes else (side,)
                part = share * len(parts[index]) / len(own)
                waiting.append((node, parts[index], takes and has_missing, part, number, hangs))
        for side in sides:
            arrays[side][parent] = number
    return arrays


def _arrays(forest: Forest, tree: int) -> dict[str, Array]:
    """The node arrays of one tree, children counted from its root."""
    root, end = (int(offset) for offset in forest.tree_offsets[tree : tree + 2])
    arrays = {name: getattr(forest, name)[root:end].copy() for name in NODE_ARRAYS}
    inner = arrays["feature"] >= 0
    for side in ("left", "right", "missing"):
        arrays[side][inner] -= root
    return arrays


def _two_stumps(tree: dict[str, Array]) -> list[dict[str, Array]]:
    below, above, missing = (int(tree[side][0]) for side in ("left", "right", "missing"))
    a, b, c = (float(tree["value"][leaf]) for leaf in (below, above, missing))
    rows = {leaf: float(tree["cover"][leaf]) for leaf in (below, above, missing)}
    return [
        _stump(tree, (a, a + b - c), (rows[below] + rows[missing], rows[above]), 1),
        _stump(tree, (0.0, c - a), (rows[below], rows[above] + rows[missing]), 2),
    ]


def _stump(
    tree: dict[str, Array], leaves: tuple[float, float], rows: tuple[float, float], missing: int
) -> dict[str, Array]:
    total = sum(rows)
    mean = (leaves[0] * rows[0] + leaves[1] * rows[1]) / total if total else 0.0
    return {
        "feature": np.array([tree["feature"][0], -1, -1]),
        "threshold": np.array([tree["threshold"][0], 0, 0], np.float32),
        "left": np.array([1, 0, 0]),
        "right": np.array([2, 0, 0]),
        "missing": np.array([missing, 0, 0]),
        "value": np.array([mean, *leaves]),
        "cover": np.array([total, *rows]),
        "gain": np.array([tree["gain"][0], 0.0, 0.0]),
    }
