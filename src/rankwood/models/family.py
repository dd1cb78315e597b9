"""``Family``: the models of a search over boosting sequences that are worth keeping, and the one chosen among them.

The explored tree is kept whole; weak hypotheses only of the models that are the best of their length, and of the ways
to them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood.dtypes import Array, Floats
from rankwood.errors import ModelError
from rankwood.models import explored, model_checks
from rankwood.models.explored import ExploredTree
from rankwood.models.forest import Forest
from rankwood.models.model_arrays import (
    check_record,
    forest_from_arrays,
    forest_to_arrays,
    native_arrays,
    refuse_others,
)

_PREFIX_OF_TREES, _PREFIX = "trees.", "family."
_DROPPED = -1  # in ``tree_of_model``: the hypothesis was not kept, or is none (the empty model)


@dataclass(frozen=True)
class FrontPoint:
    """The best model of one length: its measures, and whether it beats every shorter one."""

    n_trees: int
    model: int
    f: float
    valid: float
    is_better: bool


@dataclass(frozen=True, eq=False, repr=False)
class Family:
    """An explored tree, the hypotheses of its best models, and the model that ``predict`` scores with.

    Parameters
    ----------
    trees
        The kept hypotheses with their weights, in the order of their models; base is that of every model.
    tree_of_model
        For each model of ``explored`` its last hypothesis among ``trees``; -1 where it was not kept. int32.
    explored
        All models of the search.
    chosen
        The model that scores.
    measure
        The measure that the models were compared by.
    is_minimised
        Whether less of it is better.
    """

    trees: Forest
    tree_of_model: Array
    explored: ExploredTree
    chosen: int
    measure: str
    is_minimised: bool = False

    def __post_init__(self) -> None:
        array = model_checks.typed("tree_of_model", self.tree_of_model, np.int32)
        object.__setattr__(self, "tree_of_model", _checks.read_only(array))
        self._check()

    @classmethod
    def of(
        cls,
        trees: Forest,
        found: ExploredTree,
        measure: str,
        is_minimised: bool,
        max_trees: int | None = None,
    ) -> Family:
        """The family of a search: ``trees`` has one hypothesis per model but the empty one, in their order."""
        numbers = np.arange(len(found), dtype=np.int32) - 1
        whole = cls(trees, numbers, found, 0, measure, is_minimised)
        needed = sorted({model for point in whole.front for model in found.path(point.model)})
        tree_of_model = np.full(len(found), _DROPPED, np.int32)
        tree_of_model[needed] = np.arange(len(needed))
        kept = trees.take_trees(numbers[needed].astype(np.int64))
        chosen = whole.best(max_trees)
        return cls(kept, tree_of_model, found, chosen, measure, is_minimised)

    @functools.cached_property
    def front(self) -> list[FrontPoint]:
        """The best model of every length, the empty one first; of equal ones the oldest."""
        values = self._worths
        found: list[FrontPoint] = []
        highest = -np.inf
        for depth in range(int(self.explored.depth.max()) + 1):
            of_depth = np.flatnonzero(self.explored.depth == depth)
            model = int(of_depth[np.argmax(values[of_depth])])
            is_better = bool(values[model] > highest)
            highest = max(highest, float(values[model]))
            f, valid = float(self.explored.f[model]), float(self.explored.valid[model])
            found.append(FrontPoint(depth, model, f, valid, is_better))
        return found

    def best(self, max_trees: int | None = None) -> int:
        """The best model of at most so many trees; of equal ones the shortest."""
        points = [p for p in self.front if max_trees is None or p.n_trees <= max_trees]
        return max(points, key=lambda point: (self._worths[point.model], -point.n_trees)).model

    @property
    def _worths(self) -> Floats:
        """What models are chosen by, such that more is better; what is no number is worst."""
        values = self.explored.values
        worths: Floats = np.where(
            np.isnan(values), -np.inf, -values if self.is_minimised else values
        )
        return worths

    def model(self, number: int) -> Forest:
        """The trees of a model, one of the front or on the way to it."""
        return self.trees.take_trees(self._places(number))

    def _places(self, number: int) -> Array:
        """Where the hypotheses of a model stand in ``trees``."""
        places: Array = self.tree_of_model[self.explored.path(number)]
        if (places == _DROPPED).any():
            raise ModelError(
                f"the trees of model {number} were not kept: only those of the best models of each length are."
            )
        return places.astype(np.int64)

    @functools.cached_property
    def forest(self) -> Forest:
        """The trees of the chosen model."""
        return self.model(self.chosen)

    def predict(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """The score of each row by the chosen model."""
        return self.forest.predict(features, n_threads=n_threads)

    @property
    def n_features(self) -> int:
        """How many features a document has."""
        return self.trees.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """One name per feature."""
        return self.trees.feature_names

    @property
    def n_trees(self) -> int:
        """Number of trees of the chosen model."""
        return self.forest.n_trees

    @property
    def n_leaves(self) -> int:
        """Number of leaves of the chosen model."""
        return self.forest.n_leaves

    @property
    def max_depth(self) -> int:
        """Splits on the longest way from a root of the chosen model to a leaf."""
        return self.forest.max_depth

    def importance(self, kind: str = "gain") -> Floats:
        """What each feature contributes to the chosen model."""
        return self.forest.importance(kind)

    def choose(self, max_trees: int | None) -> Family:
        """The same family, scoring with its best model of at most ``max_trees`` trees."""
        return dataclasses.replace(self, chosen=self.best(max_trees))

    def __reduce__(self) -> tuple[Any, ...]:
        return Family, tuple(getattr(self, field.name) for field in fields(self))

    def _check(self) -> None:
        """Raise a ``ModelError`` that names the first thing wrong."""
        size = len(self.explored)
        places = self.tree_of_model
        if places.shape != (size,) or places[0] != _DROPPED:
            raise ModelError(
                f"tree_of_model must have a value for each of {size:,} models, -1 first."
            )
        kept = places[places != _DROPPED]
        if not np.array_equal(kept, np.arange(self.trees.n_trees)):
            raise ModelError("tree_of_model must name every tree once, in their order.")
        if self.trees.average:
            raise ModelError("the trees must be summed.")
        is_whole = isinstance(self.chosen, int) and not isinstance(self.chosen, bool)
        if not is_whole or not 0 <= self.chosen < size:
            raise ModelError(f"chosen must be a model between 0 and {size - 1}.")
        if not isinstance(self.measure, str) or not isinstance(self.is_minimised, bool):
            raise ModelError("measure must be a text and is_minimised true or false.")
        for number in {self.chosen, *(point.model for point in self.front)}:
            self._places(number)


def family_to_arrays(model: Family) -> tuple[dict[str, Any], dict[str, Array]]:
    """What ``model.json`` says of the family, and its arrays."""
    record, arrays = forest_to_arrays(model.trees, _PREFIX_OF_TREES)
    own = {_PREFIX + name: getattr(model.explored, name) for name in explored.ARRAYS}
    about = {"chosen": model.chosen, "measure": model.measure, "is_minimised": model.is_minimised}
    return {**about, "trees": record}, {
        **arrays,
        **own,
        _PREFIX + "tree_of_model": model.tree_of_model,
    }


def family_from_arrays(record: Any, arrays: Mapping[str, Array], feature_names: Any) -> Family:
    """The family that ``family_to_arrays`` took apart, with all its checks."""
    check_record(record, ("chosen", "measure", "is_minimised", "trees"))
    trees = forest_from_arrays(record["trees"], arrays, feature_names, _PREFIX_OF_TREES)
    own = {name: array for name, array in arrays.items() if not name.startswith(_PREFIX_OF_TREES)}
    found = native_arrays({**explored.ARRAYS, "tree_of_model": np.int32}, own, _PREFIX)
    refuse_others(own, [_PREFIX + name for name in found], "a family")
    tree_of_model = found.pop("tree_of_model")
    about = {name: record[name] for name in ("chosen", "measure", "is_minimised")}
    return Family(trees, tree_of_model, ExploredTree(**found), **about)
