"""``Forest``: trees as flat arrays, the one model that saving, exporting, explaining and serving know.

Words used here
    node       a position in the whole arrays; tree ``t`` holds nodes ``tree_offsets[t]`` to ``tree_offsets[t + 1]``
    number     a node counted from the start of its own tree: the root is number 0
    inner      a node that splits; the others are leaves
    third      a child of its own for missing values, neither the left nor the right one
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwood import _checks
from rankwood.dtypes import Array, Floats
from rankwood.models import forest_checks, model_checks
from rankwood.models.forest_checks import NODE_ARRAYS
from rankwood.models.forest_editing import concatenate_forests, join_trees, take_trees

if TYPE_CHECKING:
    from rankwood.binning.bins import Bins
    from rankwood.models.explain import TreeExplainer
    from rankwood.models.packing import PackedForest

_IMPORTANCES = ("gain", "splits", "cover")


@dataclass(frozen=True, eq=False, repr=False)
class Forest:
    """Trees end to end in parallel arrays.

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
        float64; where they are averaged, none is negative.
    base, average, n_features
        The score of no tree at all; whether trees are averaged; how many features a document has.
    feature_names
        One name per feature. Data that have names must then have these, in any order.

    All arrays are checked and read-only. Two forests are equal when all they hold is equal.
    """

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
    base: float
    average: bool
    n_features: int
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, dtype in forest_checks.ARRAYS.items():
            array = model_checks.typed(name, getattr(self, name), dtype)
            object.__setattr__(self, name, _checks.read_only(array))
        object.__setattr__(self, "base", model_checks.finite_number("base", self.base))
        names = None if self.feature_names is None else tuple(self.feature_names)
        object.__setattr__(self, "feature_names", names)
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
    ) -> Forest:
        """A forest from the node arrays of each tree: a mapping from their names, or an object that holds them.

        Each has ``feature``, ``threshold``, ``left``, ``right``, ``missing`` and ``value``, and may have ``cover``
        and ``gain`` (else 0). Children are counted from the start of the tree. What else it has is not looked at.
        """
        weights = np.ones(len(trees)) if tree_weights is None else tree_weights
        return cls(
            **join_trees(trees),
            tree_weights=_checks.vector("tree_weights", weights),
            base=base,
            average=average,
            n_features=n_features,
            feature_names=None if feature_names is None else tuple(feature_names),
        )

    @classmethod
    def concatenate(cls, forests: Sequence[Forest]) -> Forest:
        """The trees of all forests in one; they must agree in features, and in whether they average.

        Bases are summed when trees are summed. Where trees are averaged the bases must be equal, and are kept.
        """
        return concatenate_forests(forests)

    def take_trees(self, trees: slice | Sequence[int] | Array) -> Forest:
        """The forest of the chosen trees, in the order chosen; base and weights stay as they are."""
        return take_trees(self, trees)

    def check(self) -> None:
        """Raise a ``ModelError`` that names the first thing wrong; the constructor calls it."""
        forest_checks.check(self)

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

    @functools.cached_property
    def max_depth(self) -> int:
        """Splits on the longest way from a root to a leaf."""
        depth = -1
        level = self.tree_offsets[:-1]
        while level.size:
            depth += 1
            inner = level[self.feature[level] >= 0]
            left, right, missing = self.left[inner], self.right[inner], self.missing[inner]
            is_third = (missing != left) & (missing != right)
            level = np.concatenate([left, right, missing[is_third]])
        return max(0, depth)

    @functools.cached_property
    def packed(self) -> PackedForest:
        """The form that scoring reads, made once."""
        from rankwood.models.packing import ordered_keys, pack

        return pack(self, ordered_keys(self.threshold))

    @functools.cached_property
    def explainer(self) -> TreeExplainer:
        """The form that explaining reads, made once; see ``rankwood.models.explain``."""
        from rankwood.models.explain import TreeExplainer

        return TreeExplainer.of(self)

    def predict(
        self, features: Any, *, n_threads: int | None = None, first_trees: int | None = None
    ) -> Floats:
        """The score of each row, in row order.

        ``features`` are rows × features: an array, a frame, a sparse matrix, a RankingData. Columns with names are
        put in the model's order; without names they are taken by position. ``first_trees`` scores with the first
        trees only. A row's score is the same to the bit for any number of threads and rows beside it.
        """
        from rankwood.models import scoring

        return scoring.predict(self, features, n_threads, first_trees)

    def predict_stages(
        self, features: Any, every: int = 1, *, n_threads: int | None = None
    ) -> Iterator[tuple[int, Floats]]:
        """How many trees, and the scores of that many first trees: every so many trees, and of all in the end."""
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
        """The scores of binned rows (uint8, features × rows), the same to the bit as of the values behind them.

        Every threshold of the forest must be one of the bins'.
        """
        from rankwood.models import scoring

        return scoring.predict_binned(self, codes, bins, n_threads, first_trees)

    def leaf_ids(self, features: Any, *, n_threads: int | None = None) -> Array:
        """The leaf each row ends in, per tree, as its number within the tree: int32, rows × trees."""
        from rankwood.models import scoring

        return scoring.leaf_ids(self, features, n_threads)

    def importance(self, kind: str = "gain") -> Floats:
        """What each feature contributes: the summed gain of its splits, their number, or their summed cover."""
        _checks.one_of("importance", kind, _IMPORTANCES)
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
        scalars = ("base", "average", "n_features", "feature_names")
        return all(getattr(self, name) == getattr(other, name) for name in scalars) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in (*NODE_ARRAYS, "tree_offsets", "tree_weights")
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        how = "averaged" if self.average else "summed"
        return (
            f"Forest({self.n_trees:,} trees {how}, {self.n_leaves:,} leaves, "
            f"{self.n_features:,} features)"
        )
