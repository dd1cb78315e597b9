"""``Forest``: trees as flat arrays, the model that saving, exporting, explaining and serving work with.

The nodes of all trees are concatenated; tree ``t`` has nodes ``tree_offsets[t]`` to ``tree_offsets[t + 1]``. A node
that splits is an *inner* node, the others are leaves. A split may have a third child for missing values.
``NodeArrays`` collects the nodes of trees one by one. ``cost_of_trees`` and its neighbours say which features the trees
use and what computing them costs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import lazy
from rankwood.data.categories import Dictionaries
from rankwood.dtypes import OFFSET, Array, Floats
from rankwood.errors import ModelError, ParameterError
from rankwood.models import validate
from rankwood.models.validate import NODE, NODE_ARRAYS
from rankwood.trees.workspace import N_WORDS, bits_of_subsets, no_subsets

if TYPE_CHECKING:
    from rankwood.binning.bins import Bins
    from rankwood.models.scoring import PackedForest
    from rankwood.models.shapley import TreeExplainer

_IMPORTANCES = ("gain", "splits", "cover")

_CHILDREN = ("left", "right", "missing")
_OPTIONAL = ("cover", "gain")

NEVER = np.iinfo(np.int64).max  # first use of a feature that no tree splits on


@dataclass(frozen=True, eq=False, repr=False)
class TreeArrays:
    """The nodes of trees, concatenated in parallel arrays, and the weights of the trees; see ``Forest``."""

    feature: Array
    threshold: Array
    left: Array
    right: Array
    missing: Array
    value: Floats
    cover: Floats
    gain: Floats
    tree_offsets: Array
    tree_weights: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Forest(TreeArrays):
    """Trees, concatenated in parallel arrays.

    A document goes to ``left[node]`` when ``value <= threshold[node]``, to ``missing[node]`` when the value is NaN,
    else to ``right[node]``; the leaf it ends in gives the tree's ``value``. The forest's score is
    ``base + Σ weight · value``, or ``base + Σ weight · value / Σ weight`` when ``average``.

    Parameters
    ----------
    feature
        The feature an inner node tests; -1 for leaves. int32.
    threshold
        Finite float32; 0 for leaves.
    left, right, missing
        Children, as positions in the whole arrays, always greater than their parent's; 0 for leaves. ``missing`` is
        one of the other two, or a third child. int32.
    value
        A leaf's output; at an inner node the mean output of its rows. float64.
    cover
        Weighted training rows. float64.
    gain
        Loss removed by the split; 0 for leaves. float64.
    tree_offsets
        First node of each tree, its root, and the number of nodes at the end. int64.
    tree_weights
        float64; not negative if trees are averaged.
    base, average, n_features
        The constant added to every score; whether trees are averaged; the number of features of a document.
    feature_names
        One name per feature. Data that have names must then have these, in any order.
    categorical
        The categories of each categorical feature, in the order of their codes, and None for features of numbers; None
        if no feature is categorical. A code beyond them is any other category.
    subsets
        The categories that go left at each node whose feature is categorical, as 256 bits; category ``c`` is bit
        ``c % 64`` of word ``c // 64``. uint64, nodes × 4; other nodes have 0, and without categories there are no rows.
        ``threshold`` is then 0.

    All arrays are checked and read-only. Two forests are equal if all their fields are.
    """

    base: float
    average: bool
    n_features: int
    feature_names: tuple[str, ...] | None = None
    categorical: Dictionaries | None = None
    subsets: Array = field(default_factory=no_subsets)

    def __post_init__(self) -> None:
        validate.freeze(self, validate.ARRAYS)
        subsets = checks.read_only(np.ascontiguousarray(self.subsets, np.uint64))
        object.__setattr__(self, "subsets", subsets)
        object.__setattr__(self, "base", validate.finite_number("base", self.base))
        self.check()

    @classmethod
    def from_trees(
        cls,
        trees: Sequence[Any],
        *,
        n_features: int,
        tree_weights: Any = None,
        base: float = 0.0,
        average: bool = False,
        feature_names: Sequence[str] | None = None,
        categorical: Dictionaries | None = None,
    ) -> Forest:
        """A forest from the node arrays of each tree, given as a mapping by name or as attributes of an object.

        Each tree has ``feature``, ``threshold``, ``left``, ``right``, ``missing`` and ``value``, and may have
        ``cover`` and ``gain`` (else 0), and ``subsets`` where it tests categories. Children are counted from the start
        of the tree. Other entries are ignored.
        """
        weights = np.ones(len(trees)) if tree_weights is None else tree_weights
        return cls(
            **join_trees(trees),
            tree_weights=checks.vector("tree_weights", weights),
            base=base,
            average=average,
            n_features=n_features,
            feature_names=None if feature_names is None else tuple(feature_names),
            categorical=categorical,
        )

    @classmethod
    def concatenate(cls, forests: Sequence[Forest]) -> Forest:
        """The trees of all forests in one; the forests must agree in features and in ``average``.

        Bases are summed if trees are summed. If trees are averaged, the bases must be equal and stay as they are.
        """
        return concatenate_forests(forests)

    def take_trees(self, trees: slice | Sequence[int] | Array) -> Forest:
        """The forest of the chosen trees, in the order chosen; base and weights stay as they are."""
        return take_trees(self, trees)

    def check(self) -> None:
        """Raise a ``ModelError`` that names the first thing wrong; the constructor calls it."""
        validate.check(self)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.tree_weights.size

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return self.feature.size

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return int((self.feature < 0).sum())

    @lazy
    def is_categorical(self) -> Array:
        """Whether each feature is categorical."""
        given = self.categorical or (None,) * self.n_features
        return checks.read_only(np.array([one is not None for one in given], bool))

    @lazy
    def max_depth(self) -> int:
        """Number of splits on the longest path from a root to a leaf."""
        return max(0, sum(1 for _ in levels(self)) - 1)

    @lazy
    def packed(self) -> PackedForest:
        """The forest in the layout that scoring uses, computed once."""
        from rankwood.models.scoring import ordered_keys, pack

        return pack(self, ordered_keys(self.threshold))

    @lazy
    def explainer(self) -> TreeExplainer:
        """The forest in the layout that explaining uses, computed once; see ``rankwood.models.shapley``."""
        from rankwood.models.shapley import TreeExplainer

        return TreeExplainer.of(self)

    def predict(
        self, features: Any, *, n_threads: int | None = None, first_trees: int | None = None
    ) -> Floats:
        """The score of each row, in row order.

        ``features`` are rows × features: an array, a frame, a sparse matrix, a RankingData. Columns with names are
        put in the model's order; without names they are taken by position. ``first_trees`` scores with the first
        trees only. A row's score does not depend on the number of threads or on other rows.
        """
        from rankwood.models import scoring

        return scoring.predict(self, features, n_threads, first_trees)

    def predict_stages(
        self, features: Any, every: int = 1, *, n_threads: int | None = None
    ) -> Iterator[tuple[int, Floats]]:
        """Pairs (number of trees, scores of that many first trees), after every ``every`` trees and after all."""
        from rankwood.models import scoring

        return scoring.predict_stages(self, features, every, n_threads)

    def predict_binned(
        self,
        codes: Any,
        bins: Bins,
        *,
        n_threads: int | None = None,
        first_trees: int | None = None,
    ) -> Floats:
        """The scores of binned rows (uint8, features × rows), equal to the scores of the raw values.

        Every threshold of the forest must be a threshold of the bins.
        """
        from rankwood.models import scoring

        return scoring.predict_binned(self, codes, bins, n_threads, first_trees)

    def leaf_ids(self, features: Any, *, n_threads: int | None = None) -> Array:
        """The leaf of each row in each tree, as its index within the tree: int32, rows × trees."""
        from rankwood.models import scoring

        return scoring.leaf_ids(self, features, n_threads)

    def importance(self, kind: str = "gain") -> Floats:
        """The importance of each feature: the summed gain of its splits, their number, or their summed cover."""
        checks.one_of("importance", kind, _IMPORTANCES)
        inner = np.flatnonzero(self.feature >= 0)
        weights = {"gain": self.gain, "cover": self.cover}.get(kind)
        counted = np.ones(inner.size) if weights is None else weights[inner]
        sums: Floats = np.zeros(self.n_features)
        np.add.at(sums, self.feature[inner], counted)
        return sums

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled arrays can be written to; the constructor makes them read-only again, and checks them.
        return Forest, tuple(getattr(self, field.name) for field in fields(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Forest):
            return NotImplemented
        scalars = ("base", "average", "n_features", "feature_names", "categorical")
        return all(getattr(self, name) == getattr(other, name) for name in scalars) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in (*NODE_ARRAYS, "tree_offsets", "tree_weights", "subsets")
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        how = "averaged" if self.average else "summed"
        return (
            f"Forest({self.n_trees:,} trees {how}, {self.n_leaves:,} leaves, "
            f"{self.n_features:,} features)"
        )


class ForestProperties:
    """Properties of a model that contains a forest, taken from ``scoring_trees``."""

    @property
    def scoring_trees(self) -> Forest:
        """The trees that the properties describe."""
        raise NotImplementedError

    @property
    def n_features(self) -> int:
        """Number of features of a document."""
        return self.scoring_trees.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """One name per feature."""
        return self.scoring_trees.feature_names

    @property
    def categorical(self) -> Dictionaries | None:
        """The categories of each categorical feature."""
        return self.scoring_trees.categorical

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.scoring_trees.n_trees

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return self.scoring_trees.n_leaves

    @property
    def max_depth(self) -> int:
        """Number of splits on the longest path from a root to a leaf."""
        return self.scoring_trees.max_depth

    def importance(self, kind: str = "gain") -> Floats:
        """The importance of each feature; see ``Forest.importance``."""
        return self.scoring_trees.importance(kind)


def levels(forest: Forest) -> Iterator[tuple[Array, Array]]:
    """Pairs of parents and children, edge by edge, one level of all trees after the other from the roots down.

    The last pair is empty.
    """
    level = forest.tree_offsets[:-1]
    while level.size:
        inner = level[forest.feature[level] >= 0]
        left, right, missing = forest.left[inner], forest.right[inner], forest.missing[inner]
        is_third = (missing != left) & (missing != right)
        parents = np.concatenate([inner, inner, inner[is_third]])
        level = np.concatenate([left, right, missing[is_third]])
        yield parents, level


# Forests made of trees and of other forests.


class NodeArrays:
    """Collects the nodes of trees that are added one by one, in growing arrays.

    A tree is copied while it is in the cache and need not be stored elsewhere, so that a large forest is never in
    memory twice.
    """

    def __init__(self, n_expected: int = 0) -> None:
        self._n_expected = n_expected  # number of trees; 0 if unknown
        self._room: dict[str, Array] = {
            name: np.empty(0, kind) for name, kind in NODE_ARRAYS.items()
        }
        self._offsets = [0]
        self._subsets: list[Array] = []  # of the trees so far; empty while none tests a category

    @property
    def n_trees(self) -> int:
        """Number of trees so far."""
        return len(self._offsets) - 1

    def add(self, tree: Any) -> None:
        """Append a tree."""
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
        given: Any = tree.get("subsets") if isinstance(tree, Mapping) else vars(tree).get("subsets")
        if self._subsets or (given is not None and len(given)):
            if not self._subsets:
                self._subsets.append(np.zeros((begin, N_WORDS), np.uint64))
            is_given = given is not None and len(given) > 0
            self._subsets.append(given if is_given else np.zeros((end - begin, N_WORDS), np.uint64))
        self._offsets.append(end)

    def _make_room(self, n_nodes: int, n_needed: int) -> None:
        """Allocate longer arrays for the expected number of trees; untouched pages take no memory."""
        rest = max(1, self._n_expected - self.n_trees)
        n_per_tree = n_needed / (self.n_trees + 1)
        size = max(n_needed + int(1.05 * n_per_tree * (rest - 1)), n_nodes * 3 // 2)
        for name, array in self._room.items():
            longer = np.empty(size, array.dtype)
            longer[:n_nodes] = array[:n_nodes]
            self._room[name] = longer

    def arrays(self) -> dict[str, Array]:
        """The node arrays of a forest, and its offsets; adding trees later does not change them."""
        n_nodes = self._offsets[-1]
        nodes = {name: array[:n_nodes] for name, array in self._room.items()}
        if self._subsets:
            nodes["subsets"] = np.concatenate(self._subsets)
        return _sealed({**nodes, "tree_offsets": np.array(self._offsets, OFFSET)})


def join_trees(trees: Sequence[Any]) -> dict[str, Array]:
    """The node arrays of a forest, and its offsets, from those of single trees."""
    joined = NodeArrays(len(trees))
    for tree in trees:
        joined.add(tree)
    return joined.arrays()


def take_trees(forest: Forest, trees: slice | Sequence[int] | Array) -> Forest:
    """The forest of the chosen trees, in the order chosen."""
    chosen = _chosen(forest.n_trees, trees)
    starts = forest.tree_offsets[chosen]
    sizes = forest.tree_offsets[chosen + 1] - starts
    offsets = _offsets(sizes)
    # The position of each node of the result in the forest: shifted from the new root to the old one.
    moves = np.repeat(starts - offsets[:-1], sizes)
    nodes = np.arange(moves.size) + moves
    taken = {name: getattr(forest, name)[nodes] for name in NODE_ARRAYS}
    if len(forest.subsets):
        taken["subsets"] = forest.subsets[nodes]
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
    if any(len(forest.subsets) for forest in forests):
        joined["subsets"] = np.concatenate([subsets_of(forest) for forest in forests])
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


def subsets_of(forest: Forest) -> Array:
    """The categories that go left, with a row for every node; 0 where a node tests none."""
    if len(forest.subsets):
        return forest.subsets
    return np.zeros((forest.n_nodes, N_WORDS), np.uint64)


def binary_subsets(forest: Forest) -> Array:
    """Whether each category goes left at each node: bool, nodes × 256."""
    return bits_of_subsets(subsets_of(forest))


# The features that trees use. Scoring a document with the first trees costs the sum of the costs of the distinct
# features in all their nodes, plus 1 per tree: n(h) and c(h) of Mohan (2010), Eq. 6.2 and 6.3.


def first_uses(forest: Forest) -> Array:
    """For each feature the index of the first tree that splits on it, or ``NEVER``. int64."""
    first = np.full(forest.n_features, NEVER)
    tree_of_node = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))
    is_inner = forest.feature >= 0
    np.minimum.at(first, forest.feature[is_inner], tree_of_node[is_inner])
    return first


def features_of(forest: Forest, first_tree: int, last_tree: int) -> Array:
    """The distinct features in the nodes of some trees, ascending."""
    nodes = forest.feature[forest.tree_offsets[first_tree] : forest.tree_offsets[last_tree]]
    return np.unique(nodes[nodes >= 0])


def count_features(forest: Forest) -> Array:
    """Number of features that the first 0, 1, 2, … trees use: int64, trees + 1."""
    return _running(forest, np.ones(forest.n_features)).astype(np.int64)


def cost_of_trees(forest: Forest, costs: Floats) -> Floats:
    """Cost of the first 0, 1, 2, … trees for a document: their features, plus 1 per tree."""
    return _running(forest, costs) + np.arange(forest.n_trees + 1)


def _running(forest: Forest, amounts: Floats) -> Floats:
    """The sum of ``amounts`` over the features of the first 0, 1, 2, … trees."""
    first = first_uses(forest)
    is_used = first != NEVER
    new = np.bincount(first[is_used], amounts[is_used], minlength=forest.n_trees)
    return np.concatenate([[0.0], np.cumsum(new)])


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
        if (node := checks.first_true(wrong)) is not None:
            raise ModelError(
                f"tree {number}, node {node}: {name} {given[node].item()!r} cannot be kept as "
                f"{np.dtype(dtype)} without a change."
            )
        arrays[name] = array
    return arrays


def _refuse_strangers(forests: Sequence[Forest]) -> None:
    first = forests[0]
    for number, forest in enumerate(forests):
        for name in ("n_features", "feature_names", "average", "categorical"):
            if getattr(forest, name) != getattr(first, name):
                raise ModelError(f"forest {number} differs from the first in {name}.")
        if first.average and forest.base != first.base:
            raise ModelError(
                f"forest {number} has base {forest.base:g}, the first {first.base:g}: "
                "where trees are averaged the bases must be equal."
            )


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


def _sealed(arrays: dict[str, Array]) -> dict[str, Array]:
    """The arrays, made read-only in place, so that ``Forest`` stores them without a copy."""
    for array in arrays.values():
        array.setflags(write=False)
    return arrays


def _shift_children(arrays: dict[str, Array], shifts: Any) -> None:
    """Add ``shifts``, one number or one per node, to the children of inner nodes."""
    moves, furthest = _moves(arrays["feature"], shifts), int(np.max(shifts, initial=0))
    for name in _CHILDREN:
        _shift(arrays[name], moves, furthest, arrays[name])


def _moves(feature: Array, shifts: Any) -> Array:
    """The shift of each node's children; 0 for leaves."""
    moves: Array = np.multiply(feature >= 0, shifts, dtype=NODE, casting="unsafe")
    return moves


def _shift(children: Array, moves: Array, furthest: int, moved: Array) -> None:
    """Write the shifted children; those out of range stay out of range, and the forest's checks refuse them."""
    most = 2**31 - 1 - max(0, furthest)
    if children.max(initial=0) > most:
        children = np.minimum(children, most)
    np.add(children, moves, out=moved)


def _offsets(sizes: Any) -> Array:
    offsets = np.zeros(len(sizes) + 1, OFFSET)
    np.cumsum(sizes, out=offsets[1:])
    return offsets
