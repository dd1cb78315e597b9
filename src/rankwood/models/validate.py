"""Checks of models and of the features they score.

A forest that passes the rules for its arrays can be scored without further checks: children come after their parents,
so every path ends and stays within the arrays. Large forests are first checked by kernels that only tell whether
anything is wrong; the NumPy checks then find the first violation and its message. Other checks are shared by all kinds
of models.

``features_in_order`` brings the features of documents into the order that a model expects, whether they are given at
once or fetched when needed (``LazyFeatures``).
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood.data.categories import Dictionaries, checked, recoded, within
from rankwood.data.dataset import RankingData, group_rows
from rankwood.data.frames import as_frame, fill_matrix, to_matrix
from rankwood.dtypes import FEATURE, OFFSET, SCORE, WEIGHT, Array, Features, Rows
from rankwood.errors import DataError, ModelError, ParameterError, worded
from rankwood.trees.workspace import N_WORDS, bits_of_subsets

if TYPE_CHECKING:
    from rankwood.models.forest import Forest

NODE = np.int32  # half the memory of int64; two billion nodes are enough

NODE_ARRAYS: dict[str, type[np.generic]] = {
    "feature": NODE,
    "threshold": FEATURE,
    "left": NODE,
    "right": NODE,
    "missing": NODE,
    "value": SCORE,
    "cover": WEIGHT,
    "gain": SCORE,
}
ARRAYS: dict[str, type[np.generic]] = {
    **NODE_ARRAYS,
    "tree_offsets": OFFSET,
    "tree_weights": WEIGHT,
}
_MOST_NODES = 2**31 - 1
MOST_FEATURES = (
    2**20
)  # of a model; data of more features would take gigabytes for a few hundred rows
_MOST_SHOWN = 100  # characters of a value in a message
_MANY_NODES = 1 << 16  # forests of this size are checked by kernels first
_NAMES_SHOWN = 5


def check(forest: Forest) -> None:
    """Raise for the first rule that ``forest`` breaks."""
    _check_scalars(forest)
    _check_lengths(forest)
    _check_subsets(forest)
    refuse_infinite("tree_weights", forest.tree_weights)
    if forest.average:
        refuse_negative("tree_weights", forest.tree_weights)
    if forest.n_nodes >= _MANY_NODES and are_nodes_sound(forest):
        _check_scores(forest)
        return
    _check_numbers(forest)
    _check_leaves(forest)
    _check_splits(forest)
    _check_parents(forest)
    _check_scores(forest)


def largest_score(forest: Forest) -> float:
    """What no score of a forest exceeds, and no sum on the way to it; infinite where it could be."""
    weights = np.abs(forest.tree_weights)
    with np.errstate(over="ignore", invalid="ignore"):
        largest = max(float(forest.value.max(initial=0.0)), -float(forest.value.min(initial=0.0)))
        bound = float(weights.sum() * largest) + abs(forest.base)
        if not math.isfinite(bound) and forest.n_trees:
            of_trees = np.maximum.reduceat(np.abs(forest.value), forest.tree_offsets[:-1])
            bound = float((weights * of_trees).sum()) + abs(forest.base)
        if forest.average and not math.isfinite(float(weights.sum())):
            return math.inf
    return bound if math.isfinite(bound) else math.inf


def _check_scores(forest: Forest) -> None:
    if not math.isfinite(largest_score(forest)):
        raise ModelError(
            "values, tree_weights and base are so large that a score could be infinite."
        )


def are_nodes_sound(forest: Forest) -> bool:
    """Whether the nodes keep all rules, by kernels."""
    feature, threshold, left, right, missing, value, cover, gain = (
        getattr(forest, name) for name in NODE_ARRAYS
    )
    offsets, n_features = forest.tree_offsets, forest.n_features
    is_reached = np.zeros(forest.n_nodes, np.bool_)
    return (
        are_numbers_sound(threshold, value, cover, gain)
        and are_splits_sound(offsets, n_features, feature, threshold, left, right, missing, gain)
        and has_each_one_parent(offsets, feature, left, right, missing, is_reached)
    )


def typed(name: str, array: Any, dtype: type[np.generic]) -> Array:
    """``array`` if it has one dimension and that dtype, copied if it is writeable."""
    wanted = np.dtype(dtype)
    if not isinstance(array, np.ndarray) or array.dtype != wanted or array.ndim != 1:
        actual = (
            f"{array.dtype} of {array.ndim} dimensions"
            if isinstance(array, np.ndarray)
            else type(array).__name__
        )
        raise ModelError(f"{name} must be an array of {wanted} with one dimension, got {actual}.")
    plain = np.asarray(array)
    is_ours = plain.flags.c_contiguous and plain.flags.aligned and not plain.flags.writeable
    return plain if is_ours else np.array(plain, dtype=wanted, order="C")


@dataclass(frozen=True)
class ArrayRule:
    """What an array of a file must be before anything computes with it."""

    dtype: type[np.generic]
    shape: tuple[int | None, ...]  # None: any length
    least: float = -math.inf
    most: float = math.inf
    may_be_nan: bool = False

    def check(self, name: str, array: Array) -> None:
        """Raise for another dtype or shape, and for values that are infinite or outside of the range."""
        has_shape = len(self.shape) == array.ndim and all(
            wanted in (None, size) for wanted, size in zip(self.shape, array.shape, strict=True)
        )
        if array.dtype != self.dtype or not has_shape:
            wanted = " × ".join(
                "any number" if size is None else f"{size:,}" for size in self.shape
            )
            actual = " × ".join(f"{size:,}" for size in array.shape) or "one value"
            raise ModelError(
                f"array '{name}' must be {np.dtype(self.dtype)} of {wanted}, got {array.dtype} of {actual}."
            )
        with np.errstate(invalid="ignore"):
            is_wrong = ~((array >= self.least) & (array <= self.most)) | np.isinf(array)
        if self.may_be_nan:
            is_wrong &= ~np.isnan(array)
        if is_wrong.any():
            value = array.reshape(-1)[int(np.argmax(is_wrong))]
            raise ModelError(
                f"array '{name}' holds {checks.plain(value)}; its values are finite, from {self.least:g} to "
                f"{self.most:g}."
            )


def check_arrays(rules: Mapping[str, ArrayRule], arrays: Mapping[str, Array]) -> None:
    """Raise for an array that lacks or breaks its rule."""
    for name, rule in rules.items():
        if name not in arrays:
            raise ModelError(f"array '{name}' is missing.")
        rule.check(name, arrays[name])


def freeze(model: Any, dtypes: Mapping[str, type[np.generic]]) -> None:
    """Make what a frozen dataclass was given its own: checked, read-only arrays, and a tuple of feature names."""
    freeze_arrays(model, dtypes)
    freeze_names(model)


def freeze_arrays(model: Any, dtypes: Mapping[str, type[np.generic]]) -> None:
    """Replace the named arrays of a frozen dataclass by checked, read-only ones."""
    for name, dtype in dtypes.items():
        array = typed(name, getattr(model, name), dtype)
        object.__setattr__(model, name, checks.read_only(array))


def freeze_names(model: Any) -> None:
    """Make the feature names of a frozen dataclass a tuple, if it has any."""
    if model.feature_names is not None:
        object.__setattr__(model, "feature_names", tuple(model.feature_names))


def finite_number(name: str, value: Any) -> float:
    """``value`` as a finite float."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        number = float(value) if is_number else math.nan
    except OverflowError:  # JSON has whole numbers of any length
        number = math.inf
    if not math.isfinite(number):
        raise ModelError(f"{name} must be a finite number, got {shortened(value)}.")
    return number


def feature_count(value: Any) -> int:
    """``value`` as a number of features; as much memory as it says may be taken by what uses the model."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if not is_count or not 1 <= value <= MOST_FEATURES:
        raise ModelError(
            f"n_features must be a whole number from 1 to {MOST_FEATURES:,}, got {shortened(value)}."
        )
    return int(value)


def shortened(value: Any) -> str:
    """The repr of a value of a file, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python prints
        return "a number of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def refuse_infinite(name: str, array: Array) -> None:
    """Raise unless every number of ``array`` is finite."""
    finite = np.isfinite(array)
    if not finite.all():
        index = int(np.argmin(finite))
        raise ModelError(f"{name}[{index}] is {float(array[index])}; it must be finite.")


def refuse_infinite_scores(scores: Array) -> None:
    """Raise for a row whose score is infinite or NaN."""
    finite = np.isfinite(scores)
    if not finite.all():
        raise DataError(f"the score of row {int(np.argmin(finite))} is beyond floating point.")


def refuse_negative(name: str, array: Array) -> None:
    """Raise if a number of ``array`` is below 0."""
    if array.size and array.min() < 0:
        index = int(np.argmin(array))
        raise ModelError(f"{name}[{index}] is {float(array[index]):g}; it must not be negative.")


def check_names(names: tuple[str, ...] | None, n_features: int) -> None:
    """Raise unless there are no names at all, or one for each feature, all different."""
    if names is None:
        return
    if not all(isinstance(name, str) and checks.is_unicode(name) for name in names):
        raise ModelError("feature_names must be texts of whole characters.")
    if len(names) != n_features:
        raise ModelError(
            f"feature_names has {len(names):,} names, but there are {n_features:,} features."
        )
    if len(set(names)) != len(names):
        raise ModelError("feature_names has a name more than once; names must differ.")


def _check_scalars(forest: Forest) -> None:
    n_features = feature_count(forest.n_features)
    if not isinstance(forest.average, bool):
        raise ModelError(f"average must be True or False, got {shortened(forest.average)}.")
    check_names(forest.feature_names, n_features)


def _check_lengths(forest: Forest) -> None:
    n_nodes, offsets = forest.n_nodes, forest.tree_offsets
    for name in NODE_ARRAYS:
        size = getattr(forest, name).size
        if size != n_nodes:
            raise ModelError(f"{name} has {size:,} values, but there are {n_nodes:,} nodes.")
    if n_nodes > _MOST_NODES:
        raise ModelError(f"{n_nodes:,} nodes are too many; {_MOST_NODES:,} fit.")
    if offsets.size != forest.n_trees + 1:
        raise ModelError(
            f"tree_offsets must have one value more than there are trees ({forest.n_trees:,}), "
            f"got {offsets.size:,}."
        )
    # In this order: differences of unchecked numbers could overflow.
    in_range = offsets[0] == 0 and offsets[-1] == n_nodes and offsets.min() >= 0
    if not in_range or (offsets.max() > n_nodes) or (np.diff(offsets) < 1).any():
        raise ModelError(
            f"tree_offsets must ascend from 0 to the number of nodes ({n_nodes:,}); "
            "every tree has at least one node."
        )


def _check_subsets(forest: Forest) -> None:
    """Check that just the nodes that test a categorical feature have a subset, and of its codes alone."""
    subsets, dictionaries = forest.subsets, forest.categorical
    if dictionaries is not None:
        if not isinstance(dictionaries, tuple) or len(dictionaries) != forest.n_features:
            raise ModelError(
                f"categorical must have an entry for each of the {forest.n_features:,} features."
            )
        try:
            for feature, names in enumerate(dictionaries):
                if names is not None:
                    checked(str(feature), names)
        except DataError as error:
            raise ModelError(str(error)) from None
    if dictionaries is None and len(subsets) == 0:
        return
    is_inner = forest.feature >= 0
    in_range = is_inner & (forest.feature < forest.n_features)
    tests_categories = in_range & forest.is_categorical[np.where(in_range, forest.feature, 0)]
    if len(subsets) == 0 and not tests_categories.any():
        return
    if subsets.shape != (forest.n_nodes, N_WORDS):
        raise ModelError(
            f"subsets must have {N_WORDS} words for each of the {forest.n_nodes:,} nodes."
        )
    wrong = subsets.any(axis=1) != tests_categories
    if (node := checks.first_true(wrong)) is not None:
        what = "lacks" if tests_categories[node] else "has"
        raise ModelError(f"node {node} {what} a set of categories: those that go left.")
    wrong = tests_categories & (forest.threshold != 0)
    if (node := checks.first_true(wrong)) is not None:
        raise ModelError(f"node {node} tests categories, so its threshold must be 0.")
    most = np.array([256 if names is None else len(names) for names in dictionaries or ()])
    nodes = np.flatnonzero(tests_categories)
    bits = bits_of_subsets(subsets[nodes])
    last = bits.shape[1] - 1 - np.argmax(bits[:, ::-1], axis=1)
    wrong = last > most[forest.feature[nodes]]
    if (index := checks.first_true(wrong)) is not None:
        raise ModelError(
            f"node {int(nodes[index])}: category {int(last[index])} is none of its feature's."
        )


def _check_numbers(forest: Forest) -> None:
    for name in ("threshold", "value", "cover", "gain"):
        refuse_infinite(name, getattr(forest, name))
    refuse_negative("cover", forest.cover)


def _check_leaves(forest: Forest) -> None:
    is_leaf = forest.feature < 0
    for name in ("threshold", "left", "right", "missing", "gain"):
        wrong = is_leaf & (getattr(forest, name) != 0)
        if (node := checks.first_true(wrong)) is not None:
            raise ModelError(f"node {node} is a leaf (feature -1), so its {name} must be 0.")


def _check_splits(forest: Forest) -> None:
    feature = forest.feature
    wrong = (feature < -1) | (feature >= forest.n_features)
    if (node := checks.first_true(wrong)) is not None:
        raise ModelError(
            f"node {node} tests feature {int(feature[node])}, "
            f"but features run from 0 to {forest.n_features - 1:,}."
        )
    inner = np.flatnonzero(feature >= 0)
    ends = np.repeat(forest.tree_offsets[1:], np.diff(forest.tree_offsets))[inner]
    for name in ("left", "right", "missing"):
        child = getattr(forest, name)[inner]
        wrong = (child <= inner) | (child >= ends)
        if (index := checks.first_true(wrong)) is not None:
            raise ModelError(
                f"node {int(inner[index])}: its {name} child {int(child[index])} must stand after "
                f"it in the same tree, which ends before node {int(ends[index])}."
            )
    wrong = forest.left[inner] == forest.right[inner]
    if wrong.any():
        node = int(inner[np.argmax(wrong)])
        raise ModelError(f"node {node}: its left and right child are the same node.")


def _check_parents(forest: Forest) -> None:
    """Check that each node but the roots has one parent; with children after parents, this makes trees."""
    inner = np.flatnonzero(forest.feature >= 0)
    left, right, missing = forest.left[inner], forest.right[inner], forest.missing[inner]
    third = missing[(missing != left) & (missing != right)]
    parents = np.bincount(np.concatenate([left, right, third]), minlength=forest.n_nodes)
    parents[forest.tree_offsets[:-1]] += 1  # a root needs no parent
    wrong = parents != 1
    if (node := checks.first_true(wrong)) is not None:
        parents_found = "no parent" if parents[node] == 0 else "more than one parent"
        raise ModelError(f"node {node} has {parents_found}; every node but a root has exactly one.")


# Kernels: the same rules for the nodes, without branches.


@kernel
def are_numbers_sound(threshold: Array, value: Array, cover: Array, gain: Array) -> bool:
    """Whether all are finite, and no cover is negative."""
    is_sound = True
    for node in range(threshold.size):
        is_sound &= abs(threshold[node]) < np.inf
        is_sound &= abs(value[node]) < np.inf
        is_sound &= abs(gain[node]) < np.inf
        is_sound &= (cover[node] >= 0.0) & (cover[node] < np.inf)
    return is_sound


@kernel
def are_splits_sound(
    offsets: Array,
    n_features: int,
    feature: Array,
    threshold: Array,
    left: Array,
    right: Array,
    missing: Array,
    gain: Array,
) -> bool:
    """Whether leaves have no split, and the children of inner nodes come after them in the same tree."""
    is_wrong = False
    for tree in range(offsets.size - 1):
        end = np.int32(offsets[tree + 1])
        for index in range(np.uint64(offsets[tree]), np.uint64(offsets[tree + 1])):
            node = np.int32(index)
            low, high, third = left[index], right[index], missing[index]
            is_early = (low <= node) | (high <= node) | (third <= node)
            is_late = (low >= end) | (high >= end) | (third >= end)
            is_no_split = (feature[index] >= n_features) | is_early | is_late | (low == high)
            is_full = (threshold[index] != np.float32(0.0)) | (gain[index] != 0.0)
            is_no_leaf = (feature[index] != -1) | is_full | ((low | high | third) != 0)
            is_inner = feature[index] >= 0
            is_wrong |= (is_inner & is_no_split) | (~is_inner & is_no_leaf)
    return not is_wrong


@kernel
def has_each_one_parent(
    offsets: Array, feature: Array, left: Array, right: Array, missing: Array, is_reached: Array
) -> bool:
    """Whether each node but the roots has exactly one parent, given sound splits; ``is_reached`` is all False.

    Every node is reached at least once, and the number of roots and children equals the number of nodes; so every node
    is reached exactly once.
    """
    n_reached = offsets.size - 1
    for tree in range(offsets.size - 1):
        is_reached[offsets[tree]] = True
    for node in range(feature.size):
        low, high, third = left[node], right[node], missing[node]
        is_reached[np.uint64(low)] = True  # the children of a leaf are 0, the first root
        is_reached[np.uint64(high)] = True
        is_reached[np.uint64(third)] = True
        n_reached += 2 * (feature[node] >= 0) + ((third != low) & (third != high))
    is_each_reached = True
    for node in range(feature.size):
        is_each_reached &= is_reached[node]
    return is_each_reached and n_reached == feature.size


def features_of(features: Any, model: Any) -> Features:
    """``features_in_order`` for a forest, or for ranking data that others are brought into line with."""
    return features_in_order(
        features, model.n_features, model.feature_names, getattr(model, "categorical", None)
    )


def features_in_order(
    features: Any,
    n_features: int,
    feature_names: tuple[str, ...] | None,
    dictionaries: Dictionaries | None = None,
) -> Features:
    """The features as a row-major float32 matrix with columns in the model's order.

    Columns are matched by name if model and data both have names, and by position otherwise. Named columns that the
    model does not know are left out, whatever they hold. Categories get their codes in the ``dictionaries``.
    """
    matrix, names, own = _matrix(features, feature_names, dictionaries)
    checks.refuse_cut("the features", matrix)
    if names is not None and feature_names is not None and names != feature_names:
        if not set(feature_names) <= set(names):
            _refuse_other_names(names, feature_names)
        column_of = {name: column for column, name in enumerate(names)}
        matrix = matrix[:, [column_of[name] for name in feature_names]]
        own = None if own is None else tuple(own[column_of[name]] for name in feature_names)
    if matrix.shape[1] != n_features:
        raise DataError(
            f"the model knows {n_features:,} features, but the data have {matrix.shape[1]:,}."
        )
    if dictionaries is not None:
        matrix = recoded(matrix, own, dictionaries)
        matrix = within(matrix, dictionaries, feature_names)
    return np.require(matrix, requirements=["C", "ALIGNED"])


@dataclass(frozen=True, eq=False)
class LazyFeatures:
    """Documents whose features are not computed yet.

    Parameters
    ----------
    fetch
        ``fetch(feature, rows)`` returns the values of one feature, by its index in the model from 0, for the
        documents ``rows`` (indices, ascending). NaN is a missing value. No value is requested twice.
    query_ids
        The query of each document; None without queries.
    n_documents
        How many documents there are; by default as many as query ids.
    """

    fetch: Callable[[int, Rows], Any]
    query_ids: Any = None
    n_documents: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.fetch):
            raise ParameterError(f"fetch must be a function, got {type(self.fetch).__name__}.")
        if self.n_documents is not None:
            checks.whole_number("n_documents", self.n_documents, 0)
        elif self.query_ids is None:
            raise ParameterError("LazyFeatures needs query_ids, or n_documents.")

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.query_ids) if self.n_documents is None else int(self.n_documents)


@dataclass(frozen=True, eq=False)
class FeatureSource:
    """The feature values for a forest, complete or fetched column by column."""

    matrix: Features  # rows × features; NaN until it is fetched
    query_of_row: Rows | None
    fetch: Callable[[int, Rows], Any] | None
    is_fetched: Array  # of each feature

    @classmethod
    def of(cls, data: Any, forest: Forest) -> FeatureSource:
        """The source of ``data``: ranking data, a table, or ``LazyFeatures``."""
        is_fetched = np.zeros(forest.n_features, bool)
        if isinstance(data, LazyFeatures):
            matrix = np.full((data.size, forest.n_features), np.nan, FEATURE)
            queries = None
            if data.query_ids is not None:
                queries = group_rows(
                    checks.ids("query_ids", data.query_ids, data.size)
                ).query_of_row
            return cls(matrix, queries, data.fetch, is_fetched)
        matrix = features_of(data, forest)
        has_queries = isinstance(data, RankingData) and data.query_ids is not None
        return cls(matrix, data.query_of_row if has_queries else None, None, ~is_fetched)

    def need(self, features: Array, rows: Rows) -> None:
        """Fetch those of the features that were not fetched before, for these rows.

        Rows only ever leave, so rows that need a feature later are among those it is fetched for now.
        """
        if self.fetch is None or rows.size == 0:
            return
        for feature in features[~self.is_fetched[features]].tolist():
            values = _column(feature, self.fetch(feature, checks.read_only(rows)), rows.size)
            self.matrix[rows, feature] = values
            self.is_fetched[feature] = True


def some_names(names: Sequence[str]) -> str:
    """The first few names in quotes, and the number of others."""
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:_NAMES_SHOWN]) + more


def _matrix(
    features: Any, wanted: tuple[str, ...] | None, dictionaries: Dictionaries | None = None
) -> tuple[Features, tuple[str, ...] | None, Dictionaries | None]:
    """A matrix, the names of its columns, and their categories; of a frame with the ``wanted`` columns, these alone."""
    if isinstance(features, RankingData):
        return features.features, features.feature_names, features.categorical
    is_plain = type(features) is np.ndarray and features.dtype == FEATURE and features.ndim == 2
    if is_plain and features.flags.c_contiguous:
        # The fast path: further checks take as long as scoring one document.
        return features, None, dictionaries
    frame = None if wanted is None else as_frame(features)
    if frame is not None and wanted is not None and set(wanted) <= set(frame.names):
        given = zip(wanted, dictionaries or (), strict=False)
        asked: dict[str, Any] = {name: known for name, known in given if known is not None}
        return fill_matrix(frame, wanted, asked), wanted, dictionaries
    return *to_matrix(features), dictionaries


def refuse_other_columns(
    data: RankingData, n_features: int, feature_names: tuple[str, ...] | None
) -> None:
    """Raise for data that are kept as codes, and whose columns are not the model's in the model's order."""
    names = data.feature_names
    if names is not None and feature_names is not None and names != feature_names:
        _refuse_other_names(names, feature_names)
        raise DataError(
            "the data's features are not in the model's order, and binned data in a folder cannot be put into another. "
            "Bin the files again, with features= in the model's order."
        )
    if data.n_features != n_features:
        raise DataError(
            f"the model knows {n_features:,} features, but the data have {data.n_features:,}."
        )


def _refuse_other_names(names: tuple[str, ...], known: tuple[str, ...]) -> None:
    missing = sorted(set(known) - set(names))
    unknown = sorted(set(names) - set(known))
    if not missing and not unknown:
        return
    parts = []
    if missing:
        parts.append(f"the data lack {some_names(missing)}")
    if unknown:
        parts.append(f"the model does not know {some_names(unknown)}")
    remedy = worded(
        "Rename the columns, or pass a bare array in the model's order.",
        "Rename the columns; without --features and --drop the model takes its own.",
    )
    raise DataError(f"the data's feature names are not the model's: {'; '.join(parts)}. {remedy}")


def _column(feature: int, values: Any, n_rows: int) -> Features:
    """The result of ``fetch`` as float32 values, or an error that names the feature."""
    array = np.asarray(values)
    if array.shape != (n_rows,):
        raise DataError(
            f"fetch({feature}, rows) was asked for {n_rows:,} values, and gave an array of shape {array.shape}."
        )
    try:
        return checks.feature_matrix(array.reshape(-1, 1))[:, 0]
    except DataError as error:
        raise DataError(f"fetch({feature}, rows): {error}") from None
