"""``TreeBuilder``: trees assembled node by node from files that are not trusted; ``into_forest``: the forest of them.

The functions at the end check the numbers, texts and JSON values of such files.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rankwood.data.categories import MOST_CATEGORIES, Dictionaries
from rankwood.dtypes import Array
from rankwood.errors import ModelError
from rankwood.exports.rules import EngineRules, FileTrees, at_most, below
from rankwood.models.forest import Forest
from rankwood.trees.workspace import N_WORDS

MOST_FEATURES = 10_000_000  # a damaged number must not allocate huge arrays
_LEAF = -1
_SIDES = ("left", "right", "missing")
_KINDS_OF_ARRAYS: dict[str, type[np.generic]] = {
    **dict.fromkeys(("feature", *_SIDES), np.int32),
    **dict.fromkeys(("threshold", "value", "cover", "gain"), np.float64),
}

# The left and the right child, as items still to be read, and whether missing values go left.
Children = tuple[Any, Any, bool]

# No two parts of a pattern may take the same characters one after the other: a text that fails is then tried in every
# division, which takes minutes for a number of some thousand digits.
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_MOST_DIGITS = 1000  # of a number's text; looked at before the pattern
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_SHOWN = 30


class TreeBuilder:
    """Collects nodes in any order with parents before children."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in _KINDS_OF_ARRAYS}
        self.roots: list[int] = []
        self.weights: list[float] = []
        self.subsets: dict[int, list[int]] = {}  # the categories that go left, by node

    @property
    def n_nodes(self) -> int:
        """How many nodes were added."""
        return len(self.columns["feature"])

    def start_tree(self, weight: float = 1.0) -> None:
        """Start a tree; the next node is its root."""
        self.roots.append(self.n_nodes)
        self.weights.append(weight)

    def read_tree(self, root: Any, read_node: Callable[[Any], tuple[int, Children | None]]) -> None:
        """Add all nodes of a tree, from the root down.

        ``read_node`` adds the node of an item, and returns its position and, for a split, its children.
        """
        waiting: list[tuple[Any, int, tuple[str, ...]]] = [(root, 0, ())]
        while waiting:
            item, parent, sides = waiting.pop()
            node, children = read_node(item)
            for side in sides:
                self.join(parent, side, node)
            if children is not None:
                left, right, missing_left = children
                # The left child is read first.
                waiting.append((right, node, ("right",) if missing_left else ("right", "missing")))
                waiting.append((left, node, ("left", "missing") if missing_left else ("left",)))

    def add_leaf(self, value: float, cover: float = 0.0) -> int:
        """Add a leaf; returns its position."""
        return self._add(_LEAF, 0.0, value, cover, 0.0)

    def add_split(
        self,
        feature: int,
        threshold: float,
        value: float = 0.0,
        cover: float = 0.0,
        gain: float = 0.0,
    ) -> int:
        """Add a split, whose children are joined later; returns its position."""
        if not 0 <= feature < MOST_FEATURES:
            raise ModelError(
                f"a split tests feature {feature}; features from 0 to {MOST_FEATURES - 1:,} can be read."
            )
        return self._add(feature, threshold, value, cover, gain)

    def set_categories(self, node: int, categories: Sequence[int]) -> None:
        """Let the categories decide at a node: these go left."""
        words = [0] * N_WORDS
        for category in categories:
            if not 0 <= category <= MOST_CATEGORIES:
                raise ModelError(
                    f"a split tests category {category:,}; a feature of ours has categories 0 to {MOST_CATEGORIES - 1}."
                )
            words[category // 64] |= 1 << category % 64
        if not any(words):
            raise ModelError("a split by categories sends none to the left.")
        self.columns["threshold"][node] = 0.0
        self.subsets[node] = words

    def join(self, parent: int, side: str, child: int) -> None:
        """Make ``child`` the left, right or missing child of ``parent``."""
        self.columns[side][parent] = child

    def finish(
        self,
        *,
        n_features: int,
        feature_names: tuple[str, ...] | None = None,
        groups: tuple[int, ...] | None = None,
        divisor: float = 1.0,
        base: float = 0.0,
        categorical: Dictionaries | None = None,
    ) -> FileTrees:
        """The trees as arrays."""
        subsets = np.zeros((self.n_nodes if self.subsets else 0, N_WORDS), np.uint64)
        for node, words in self.subsets.items():
            subsets[node] = words
        arrays: dict[str, Array] = {
            name: np.array(self.columns[name], kind) for name, kind in _KINDS_OF_ARRAYS.items()
        }
        return FileTrees(
            **arrays,
            tree_offsets=np.array([*self.roots, self.n_nodes], np.int64),
            tree_weights=np.array(self.weights, np.float64),
            groups=groups,
            divisor=divisor,
            base=base,
            n_features=n_features,
            feature_names=feature_names,
            categorical=categorical,
            subsets=subsets,
        )

    @property
    def n_features_seen(self) -> int:
        """One more than the greatest feature that a split tests; at least 1."""
        return max(0, max(self.columns["feature"], default=0)) + 1

    def _add(self, feature: int, threshold: float, value: float, cover: float, gain: float) -> int:
        # LightGBM uses infinite thresholds to separate missing values from all others.
        if math.isnan(threshold) or threshold == -math.inf or not math.isfinite(value):
            raise ModelError(f"a node has the threshold {threshold} and the value {value}.")
        node = {
            **dict.fromkeys(_SIDES, 0),
            "feature": feature,
            "threshold": threshold,
            "value": value,
            "cover": cover if math.isfinite(cover) and cover > 0 else 0.0,
            "gain": gain if math.isfinite(gain) else 0.0,
        }
        for name, column in self.columns.items():
            column.append(node[name])
        return self.n_nodes - 1


def into_forest(trees: FileTrees, rules: EngineRules) -> Forest:
    """The forest that decides as the engine does for every float32 value and for missing values.

    A threshold of infinity becomes the greatest float32; only the value infinity itself is then decided otherwise.
    """
    is_inner = trees.feature >= 0
    seen = rules.seen_thresholds(trees.threshold)
    moved = _as_ours(seen.astype(np.float64), rules)
    threshold = np.where(is_inner, moved, np.float32(0))
    if len(trees.subsets):
        threshold[trees.subsets.any(axis=1)] = 0.0
    if not np.isfinite(threshold).all():
        node = int(np.argmin(np.isfinite(threshold)))
        raise ModelError(
            f"node {node} has the threshold {float(trees.threshold[node]):g}: only -inf lies left of it, "
            "which no threshold of ours says."
        )
    missing = trees.missing
    if rules.missing == "zero":
        zero_left = rules.goes_left(np.zeros(seen.size, rules.compared_in), seen)
        missing = np.where(is_inner, np.where(zero_left, trees.left, trees.right), 0)
    arrays: dict[str, Any] = {
        name: getattr(trees, name).astype(np.int32) for name in ("feature", "left", "right")
    }
    value = trees.value.astype(rules.summed_in).astype(np.float64)
    weights, average = _weights(trees, rules)
    return Forest(
        **arrays,
        missing=missing.astype(np.int32),
        threshold=threshold.astype(np.float32),
        value=value,
        cover=trees.cover,
        gain=np.where(is_inner, trees.gain, 0.0),
        tree_offsets=trees.tree_offsets,
        tree_weights=weights,
        base=float(rules.summed_in(trees.base)),
        average=average,
        n_features=trees.n_features,
        feature_names=trees.feature_names,
        categorical=trees.categorical,
        subsets=trees.subsets,
    )


def renamed(trees: FileTrees, names: tuple[str, ...] | None, n_features: int | None) -> FileTrees:
    """The trees with other names or more features than the file has."""
    wanted = len(names) if names is not None else n_features
    if wanted is None:
        return trees
    needed = int(trees.feature.max(initial=-1)) + 1
    if wanted < needed:
        what = "feature_names" if names is not None else "n_features"
        raise ModelError(f"the trees test feature number {needed:,}, but {what} says {wanted:,}.")
    categorical = trees.categorical
    if categorical is not None:
        categorical = (*categorical, *[None] * wanted)[:wanted]
    return dataclasses.replace(
        trees,
        n_features=wanted,
        categorical=categorical,
        feature_names=names or (trees.feature_names if wanted == trees.n_features else None),
    )


def _as_ours(seen: Array, rules: EngineRules) -> Array:
    """The thresholds in float32, for the comparison ``value <= threshold``."""
    return at_most(seen) if rules.comparison == "<=" else below(seen)


def _weights(trees: FileTrees, rules: EngineRules) -> tuple[Array, bool]:
    """Tree weights, and whether trees are averaged; a divisor other than their total weight is multiplied in."""
    weights = trees.tree_weights.astype(rules.summed_in).astype(np.float64)
    if trees.divisor == 1:
        return weights, False
    is_mean = trees.divisor == weights.sum() and weights.min(initial=0.0) >= 0
    return (weights, True) if is_mean else (weights / trees.divisor, False)


# Texts, numbers and JSON of files that are not trusted.


def text_of(content: bytes) -> str:
    """The file as text."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(f"it is not text in UTF-8 (byte {error.start:,}).") from None


def number_of(text: Any, what: str) -> float:
    """A finite number from its text."""
    if isinstance(text, str) and len(text) <= _MOST_DIGITS and _NUMBER.fullmatch(text.strip()):
        number = float(text)
        if math.isfinite(number):
            return number
    raise ModelError(f"{what} must be a finite number, got {_shown(text)}.")


def whole_of(text: Any, what: str) -> int:
    """A whole number from its text."""
    if isinstance(text, str) and len(text) <= _MOST_DIGITS and _WHOLE.fullmatch(text.strip()):
        return int(text)
    raise ModelError(f"{what} must be a whole number, got {_shown(text)}.")


def json_of(content: bytes) -> Any:
    """The value of a JSON file; NaN, infinity and deep nesting are refused."""
    try:
        return json.loads(text_of(content), parse_constant=_refuse_constant, parse_int=_parse_int)
    except json.JSONDecodeError as error:
        raise ModelError(f"it is not valid JSON: line {error.lineno}: {error.msg}.") from None
    except RecursionError:
        raise ModelError("it is nested too deep to be read.") from None


def _refuse_constant(text: str) -> float:
    raise ModelError(f"it holds {text}; every number must be finite.")


def _parse_int(text: str) -> int:
    # Python takes quadratic time for integers of many digits, or raises an error of its own.
    if len(text) > 18:
        raise ModelError(f"it holds a whole number of {len(text):,} digits.")
    return int(text)


def mapping(value: Any, what: str) -> dict[str, Any]:
    """``value`` if it is a JSON object."""
    if not isinstance(value, dict):
        raise ModelError(f"{what} must be an object, got {_shown(value)}.")
    return value


def sequence(value: Any, what: str) -> list[Any]:
    """``value`` if it is a JSON array."""
    if not isinstance(value, list):
        raise ModelError(f"{what} must be an array, got {_shown(value)}.")
    return value


def json_number(value: Any, what: str) -> float:
    """``value`` if it is a finite JSON number."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise ModelError(f"{what} must be a finite number, got {_shown(value)}.")


def json_whole(value: Any, what: str) -> int:
    """``value`` if it is a whole JSON number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ModelError(f"{what} must be a whole number, got {_shown(value)}.")


def json_text(value: Any, what: str) -> str:
    """``value`` if it is a JSON string."""
    if not isinstance(value, str):
        raise ModelError(f"{what} must be a text, got {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
