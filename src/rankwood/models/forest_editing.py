"""Forests made of trees and of other forests."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwood.dtypes import OFFSET, Array
from rankwood.errors import ModelError, ParameterError
from rankwood.models.forest_checks import NODE, NODE_ARRAYS

if TYPE_CHECKING:
    from rankwood.models.forest import Forest

_CHILDREN = ("left", "right", "missing")
_OPTIONAL = ("cover", "gain")


class Joined:
    """The nodes of trees that come one by one, end to end in arrays with room for those to come.

    A tree is copied while it is in the cache, and need not be kept: a forest of many nodes is put together while it
    grows, and never held twice.
    """

    def __init__(self, n_expected: int = 0) -> None:
        self._n_expected = n_expected  # trees; 0 where nobody knows
        self._room: dict[str, Array] = {
            name: np.empty(0, kind) for name, kind in NODE_ARRAYS.items()
        }
        self._offsets = [0]

    @property
    def n_trees(self) -> int:
        """Trees so far."""
        return len(self._offsets) - 1

    def add(self, tree: Any) -> None:
        """Put a tree behind the others."""
        arrays = _arrays_of_tree(self.n_trees, tree)
        begin, end = self._offsets[-1], self._offsets[-1] + arrays["feature"].size
        if end >= 2**31:
            raise ModelError(f"{end:,} nodes are too many; a forest holds 2^31 - 1.")
        if end > self._room["feature"].size:
            self._make_room(begin, end)
        own = {name: array[begin:end] for name, array in self._room.items()}
        moves = _moves(arrays["feature"], begin)
        for name, array in arrays.items():
            if name in _CHILDREN:
                _shift(array, moves, begin, own[name])
            else:
                own[name][:] = array
        self._offsets.append(end)

    def _make_room(self, n_nodes: int, n_needed: int) -> None:
        """Longer arrays, for as many trees as are expected; what is never written to takes no memory."""
        rest = max(1, self._n_expected - self.n_trees)
        n_per_tree = n_needed / (self.n_trees + 1)
        size = max(n_needed + int(1.05 * n_per_tree * (rest - 1)), n_nodes * 3 // 2)
        for name, array in self._room.items():
            longer = np.empty(size, array.dtype)
            longer[:n_nodes] = array[:n_nodes]
            self._room[name] = longer

    def arrays(self) -> dict[str, Array]:
        """The node arrays of a forest, and its offsets; later trees do not change them."""
        n_nodes = self._offsets[-1]
        nodes = {name: array[:n_nodes] for name, array in self._room.items()}
        return _sealed({**nodes, "tree_offsets": np.array(self._offsets, OFFSET)})


def join_trees(trees: Sequence[Any]) -> dict[str, Array]:
    """The node arrays of a forest, and its offsets, from those of single trees."""
    joined = Joined(len(trees))
    for tree in trees:
        joined.add(tree)
    return joined.arrays()


def take_trees(forest: Forest, trees: slice | Sequence[int] | Array) -> Forest:
    """The forest of the chosen trees, in the order chosen."""
    chosen = _chosen(forest.n_trees, trees)
    starts = forest.tree_offsets[chosen]
    sizes = forest.tree_offsets[chosen + 1] - starts
    offsets = _offsets(sizes)
    # Where each node of the result stands in the forest: its place, moved from the new root to the old one.
    moves = np.repeat(starts - offsets[:-1], sizes)
    nodes = np.arange(moves.size) + moves
    taken = {name: getattr(forest, name)[nodes] for name in NODE_ARRAYS}
    _shift_children(taken, -moves)
    weights = forest.tree_weights[chosen]
    changes: Any = _sealed({**taken, "tree_offsets": offsets, "tree_weights": weights})
    return dataclasses.replace(forest, **changes)


def concatenate_forests(forests: Sequence[Forest]) -> Forest:
    """The trees of all forests in one."""
    if not forests:
        raise ParameterError("no forests to concatenate; pass at least one.")
    first = forests[0]
    _refuse_strangers(forests)
    joined = {
        name: np.concatenate([getattr(forest, name) for forest in forests]) for name in NODE_ARRAYS
    }
    n_nodes = [forest.n_nodes for forest in forests]
    starts = _offsets(n_nodes)
    if starts[-1] >= 2**31:
        raise ModelError(f"{int(starts[-1]):,} nodes are too many; a forest holds 2^31 - 1.")
    _shift_children(joined, np.repeat(starts[:-1], n_nodes))
    offsets = [
        forest.tree_offsets[:-1] + start for forest, start in zip(forests, starts, strict=False)
    ]
    joined["tree_offsets"] = np.concatenate([*offsets, starts[-1:]])
    joined["tree_weights"] = np.concatenate([forest.tree_weights for forest in forests])
    changes: Any = _sealed(joined)
    base = first.base if first.average else sum(forest.base for forest in forests)
    return dataclasses.replace(first, **changes, base=base)


def _sealed(arrays: dict[str, Array]) -> dict[str, Array]:
    """The same arrays, which nobody else has: made read-only, a forest can hold them without a copy."""
    for array in arrays.values():
        array.setflags(write=False)
    return arrays


def _refuse_strangers(forests: Sequence[Forest]) -> None:
    first = forests[0]
    for place, forest in enumerate(forests):
        for name in ("n_features", "feature_names", "average"):
            if getattr(forest, name) != getattr(first, name):
                raise ModelError(f"forest {place} differs from the first in {name}.")
        if first.average and forest.base != first.base:
            raise ModelError(
                f"forest {place} has base {forest.base:g}, the first {first.base:g}: "
                "where trees are averaged the bases must be equal."
            )


def _arrays_of_tree(number: int, tree: Any) -> dict[str, Array]:
    """The eight arrays of one tree in their dtypes, each value unchanged."""
    given_of: Mapping[str, Any] = tree if isinstance(tree, Mapping) else vars(tree)
    lacking = [name for name in NODE_ARRAYS if name not in given_of and name not in _OPTIONAL]
    if lacking:
        raise ModelError(f"tree {number} has no {lacking[0]}.")
    size = np.asarray(given_of["feature"]).size
    arrays = {}
    for name, dtype in NODE_ARRAYS.items():
        given = np.asarray(given_of[name]) if name in given_of else np.zeros(size, dtype)
        if given.ndim != 1 or given.size != size or (size and given.dtype.kind not in "fiu"):
            raise ModelError(f"tree {number}: {name} must be {size:,} numbers in one dimension.")
        if given.dtype == dtype:
            arrays[name] = given
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            array = given.astype(dtype)
        wrong = ~((array == given) | ((array != array) & (given != given)))  # noqa: PLR0124 - NaN
        if wrong.any():
            node = int(np.argmax(wrong))
            raise ModelError(
                f"tree {number}, node {node}: {name} {given[node].item()!r} cannot be kept as "
                f"{np.dtype(dtype)} without a change."
            )
        arrays[name] = array
    return arrays


def _shift_children(arrays: dict[str, Array], shifts: Any) -> None:
    """Move the children of inner nodes, all by one number or each node's by its own."""
    moves, furthest = _moves(arrays["feature"], shifts), int(np.max(shifts, initial=0))
    for name in _CHILDREN:
        _shift(arrays[name], moves, furthest, arrays[name])


def _moves(feature: Array, shifts: Any) -> Array:
    """How far each node's children move: not at all below leaves, which have none."""
    moves: Array = np.multiply(feature >= 0, shifts, dtype=NODE, casting="unsafe")
    return moves


def _shift(children: Array, moves: Array, furthest: int, moved: Array) -> None:
    """Write the children's new numbers, those far out of range staying so: the forest's checks refuse them."""
    most = 2**31 - 1 - max(0, furthest)
    if children.max(initial=0) > most:
        children = np.minimum(children, most)
    np.add(children, moves, out=moved)


def _offsets(sizes: Any) -> Array:
    offsets = np.zeros(len(sizes) + 1, OFFSET)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _chosen(n_trees: int, trees: slice | Sequence[int] | Array) -> Array:
    """Tree numbers from a slice or a list; negative ones count from the end."""
    if isinstance(trees, slice):
        return np.arange(n_trees)[trees]
    chosen = np.asarray(trees)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise ParameterError("trees must be a slice or a list of tree numbers.")
    chosen = chosen.astype(np.int64)
    wrong = (chosen < -n_trees) | (chosen >= n_trees)
    if wrong.any():
        raise ParameterError(
            f"tree {int(chosen[np.argmax(wrong)])} does not exist; there are {n_trees:,} trees."
        )
    return np.where(chosen < 0, chosen + n_trees, chosen)
