"""Models of every size from one training: ``ModelStages`` of a model's rounds, and the ``Family`` of a search.

``ModelStages`` is what a model of trees is after each of its rounds.

A search over boosting sequences explores a tree of models: each has one weak hypothesis more than its parent, and a
higher number; model 0 is the empty one. ``ExploredTree`` stores all models as arrays. ``Family`` adds the hypotheses,
but only of the model for each number of trees and of its ancestors, and is the model chosen among them. ``as_text``,
``as_dot`` and ``as_svg`` draw an explored tree.

Terms
    round    what a ranker adds at a time: a tree, a tree of each run (AveragedGBRT) or of each grade (OrdinalRanker),
             or a forest (BROOF); InitializedGBRT has its random forest before the first round
    stage    the model after some rounds; the last stage is the whole model
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import lazy
from rankwood.dtypes import Array, Floats
from rankwood.errors import ModelError
from rankwood.models import validate
from rankwood.models.archive import (
    check_record,
    native_arrays,
    refuse_others,
    trees_from_arrays,
    trees_to_arrays,
)
from rankwood.models.forest import Forest, ForestProperties

_PREFIX = "family."
_CHOSEN = "chosen_of_size"
_DROPPED = -1  # in ``tree_of_model``: the hypothesis was not kept, or the model is empty

EXPLORED_ARRAYS: dict[str, type[np.generic]] = {
    "parent": np.int32,
    "depth": np.int32,
    "f": np.float64,
    "f_hat": np.float64,
    "valid": np.float64,
    "constraint": np.int64,
    "round": np.int32,
}
FREE, NO_CONSTRAINT = -1, -2
_ROUNDS_PER_MODEL = 100_000  # rounds that add no model are few

_COLUMN, _ROW, _MARGIN = 28.0, 12.0, 20.0  # of the SVG, in pixels
_WIDEST, _HIGHEST = 1600.0, 1200.0


@dataclass(frozen=True, eq=False)
class ModelStages:
    """The stages of a model.

    Parameters
    ----------
    forest
        All trees, in the order of their rounds: its first ``n_trees[s]`` trees score as stage ``s`` does.
    n_rounds, n_trees
        Rounds and trees of each stage, ascending.
    """

    forest: Forest
    n_rounds: Array
    n_trees: Array

    def __post_init__(self) -> None:
        if self.n_rounds.size == 0:
            raise ModelError("the model has no trees, so there are no sizes to choose from.")

    @classmethod
    def of_forest(
        cls, forest: Forest, n_rounds: Iterable[int], n_trees: Iterable[int]
    ) -> ModelStages:
        """The stages of a forest whose trees are in the order of their rounds; no stage has more than all trees."""
        ends = np.minimum(np.array(list(n_trees), np.int64), forest.n_trees)
        return cls(forest, np.array(list(n_rounds), np.int64), ends)

    def thinned(self, every: int) -> ModelStages:
        """The stages after every so many rounds, and the last; 0 rounds where that is a stage."""
        step = checks.whole_number("every", every, 1)
        is_kept = self.n_rounds % step == 0
        is_kept[-1] = True
        return ModelStages(self.forest, self.n_rounds[is_kept], self.n_trees[is_kept])


@dataclass(frozen=True)
class FrontPoint:
    """The model for one number of trees: its measures, and whether it is better than those for fewer.

    By the paper's search it is the best of the models of ``n_trees`` trees; by the beam it may have fewer.
    """

    n_trees: int
    model: int
    f: float
    valid: float
    is_better: bool


@dataclass(frozen=True, eq=False, repr=False)
class Family(ForestProperties):
    """An explored tree, the hypotheses of its best models, and the model that scores.

    Parameters
    ----------
    trees
        The kept hypotheses with their weights, in the order of their models; all models have the same base.
    tree_of_model
        The index in ``trees`` of the last hypothesis of each explored model; -1 if it was not kept. int32.
    explored
        All models of the search.
    chosen
        The model that scores.
    measure
        The measure that the models were compared by.
    is_minimised
        Whether smaller values are better.
    chosen_of_size
        The model for each number of trees, from 0; None: the best one of this length. int32.
    """

    trees: Forest
    tree_of_model: Array
    explored: ExploredTree
    chosen: int
    measure: str
    is_minimised: bool = False
    chosen_of_size: Array | None = None

    def __post_init__(self) -> None:
        own = ("tree_of_model",) if self.chosen_of_size is None else ("tree_of_model", _CHOSEN)
        validate.freeze_arrays(self, dict.fromkeys(own, np.int32))
        self._check()

    @classmethod
    def of(
        cls,
        trees: Forest,
        explored: ExploredTree,
        measure: str,
        is_minimised: bool,
        max_trees: int | None = None,
        chosen_of_size: Any = None,
    ) -> Family:
        """The family of a search; ``trees`` has one hypothesis per model except the empty one, in order."""
        numbers = np.arange(len(explored), dtype=np.int32) - 1
        if chosen_of_size is not None:
            chosen_of_size = np.array(chosen_of_size, np.int32)
        whole = cls(trees, numbers, explored, 0, measure, is_minimised, chosen_of_size)
        needed = sorted({model for point in whole.front for model in explored.path(point.model)})
        tree_of_model = np.full(len(explored), _DROPPED, np.int32)
        tree_of_model[needed] = np.arange(len(needed))
        kept = trees.take_trees(numbers[needed].astype(np.int64))
        chosen = whole.best(max_trees)
        return cls(kept, tree_of_model, explored, chosen, measure, is_minimised, chosen_of_size)

    @lazy
    def front(self) -> list[FrontPoint]:
        """The model for every number of trees, the empty one first; among equally good ones the oldest."""
        values = self._worths
        points: list[FrontPoint] = []
        highest = -np.inf
        chosen = self.chosen_of_size
        if chosen is None:  # the best of each depth, and of equal ones the first
            order = np.lexsort((-values, self.explored.depth))
            first = np.searchsorted(
                self.explored.depth[order], np.arange(int(self.explored.depth.max()) + 1)
            )
            chosen = order[first]
        for depth, model in enumerate(chosen.tolist()):
            is_better = bool(values[model] > highest)
            highest = max(highest, float(values[model]))
            f, valid = float(self.explored.f[model]), float(self.explored.valid[model])
            points.append(FrontPoint(depth, model, f, valid, is_better))
        return points

    def best(self, max_trees: int | None = None) -> int:
        """The best model of at most ``max_trees`` trees; among equal ones the shortest."""
        points = [p for p in self.front if max_trees is None or p.n_trees <= max_trees]
        return max(points, key=lambda point: (self._worths[point.model], -point.n_trees)).model

    @property
    def _worths(self) -> Floats:
        """The values that models are chosen by, negated if smaller is better; NaN becomes -inf."""
        values = self.explored.values
        worths: Floats = np.where(
            np.isnan(values), -np.inf, -values if self.is_minimised else values
        )
        return worths

    def model(self, number: int) -> Forest:
        """The trees of a model of the front or of one of its ancestors."""
        return self.trees.take_trees(self._tree_positions(number))

    def _tree_positions(self, number: int) -> Array:
        """The indices of a model's hypotheses in ``trees``."""
        positions: Array = self.tree_of_model[self.explored.path(number)]
        if (positions == _DROPPED).any():
            raise ModelError(
                f"the trees of model {number} were not kept: only those of the best models of each length are."
            )
        return positions.astype(np.int64)

    @lazy
    def forest(self) -> Forest:
        """The trees of the chosen model."""
        return self.model(self.chosen)

    def predict(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """The score of each row by the chosen model."""
        return self.forest.predict(features, n_threads=n_threads)

    @property
    def scoring_trees(self) -> Forest:
        """The trees of the chosen model."""
        return self.forest

    def choose(self, max_trees: int | None) -> Family:
        """The same family, scoring with its best model of at most ``max_trees`` trees."""
        return dataclasses.replace(self, chosen=self.best(max_trees))

    def __reduce__(self) -> tuple[Any, ...]:
        return Family, tuple(getattr(self, field.name) for field in fields(self))

    def _check(self) -> None:
        """Raise a ``ModelError`` that names the first thing wrong."""
        size = len(self.explored)
        tree_of_model = self.tree_of_model
        if tree_of_model.shape != (size,) or tree_of_model[0] != _DROPPED:
            raise ModelError(
                f"tree_of_model must have a value for each of {size:,} models, -1 first."
            )
        kept = tree_of_model[tree_of_model != _DROPPED]
        if not np.array_equal(kept, np.arange(self.trees.n_trees)):
            raise ModelError("tree_of_model must name every tree once, in their order.")
        if self.trees.average:
            raise ModelError("the trees must be summed.")
        is_whole = isinstance(self.chosen, int) and not isinstance(self.chosen, bool)
        if not is_whole or not 0 <= self.chosen < size:
            raise ModelError(f"chosen must be a model between 0 and {size - 1}.")
        if not isinstance(self.measure, str) or not isinstance(self.is_minimised, bool):
            raise ModelError("measure must be a text and is_minimised true or false.")
        self._check_sizes()
        is_whole_path = [True]
        for parent, tree in zip(
            self.explored.parent[1:].tolist(), tree_of_model[1:].tolist(), strict=True
        ):
            is_whole_path.append(is_whole_path[parent] and tree != _DROPPED)
        for number in {self.chosen, *(point.model for point in self.front)}:
            if not is_whole_path[number]:
                self._tree_positions(number)  # raises

    def _check_sizes(self) -> None:
        """Raise unless ``chosen_of_size`` names a model of at most so many trees for each number of trees."""
        chosen, depth = self.chosen_of_size, self.explored.depth
        if chosen is None:
            return
        n_sizes = int(depth.max()) + 1
        if chosen.shape != (n_sizes,) or (chosen < 0).any() or (chosen >= depth.size).any():
            raise ModelError(f"{_CHOSEN} must name a model for each of 0 to {n_sizes - 1} trees.")
        if (depth[chosen] > np.arange(n_sizes)).any():
            raise ModelError(f"{_CHOSEN} must name models of at most so many trees.")


@dataclass(frozen=True, eq=False)
class ExploredTree:
    """The models of a search, as parallel arrays.

    Parameters
    ----------
    parent
        The model it extends; -1 for the empty one. int32.
    depth
        Its number of weak hypotheses. int32.
    f
        The measure that the search maximises or minimises. float64.
    f_hat
        The best ``f`` on the path from the empty model to it. float64.
    valid
        The measure on the validation data; NaN without validation data. float64.
    constraint
        The constraint under which its last hypothesis was fitted: the feature of a stump, the seed of a feature
        subset, or -1 for none; -2 for the empty model. int64.
    round
        The round that created it; 0 for the empty model. int32.
    """

    parent: Array
    depth: Array
    f: Floats
    f_hat: Floats
    valid: Floats
    constraint: Array
    round: Array

    def __post_init__(self) -> None:
        validate.freeze_arrays(self, EXPLORED_ARRAYS)
        self._check()

    def __len__(self) -> int:
        return int(self.parent.size)

    def path(self, model: int) -> list[int]:
        """The models from the first hypothesis to ``model``; empty for the empty model."""
        models = []
        while model > 0:
            models.append(model)
            model = int(self.parent[model])
        return models[::-1]

    @property
    def values(self) -> Floats:
        """The values that models are chosen by: the measure on the validation data, else ``f``."""
        return self.f if np.isnan(self.valid).all() else self.valid

    def growth(self, *, is_minimised: bool = False) -> dict[str, list[int]]:
        """How the search grew, round by round: Figure 12 of Kocsis, György & Bán (2013).

        ``round`` is its number, ``models`` counts the hypotheses at its end (t_r), ``length`` those that it added, and
        ``depth`` is the number of hypotheses of the leading model at its end.
        """
        worths = np.where(
            np.isnan(self.f_hat), -np.inf, -self.f_hat if is_minimised else self.f_hat
        )
        growth: dict[str, list[int]] = {"round": [], "models": [], "length": [], "depth": []}
        order = np.argsort(self.round, kind="stable")
        n_rounds = int(self.round.max(initial=0))
        ends = np.searchsorted(self.round[order], np.arange(n_rounds + 1), side="right").tolist()
        leader, before = 0, 0
        for number in range(1, n_rounds + 1):
            for model in order[ends[number - 1] : ends[number]].tolist():
                if (worths[model], self.depth[model]) > (worths[leader], self.depth[leader]):
                    leader = model
            models = ends[number] - 1
            values = (number, models, models - before, int(self.depth[leader]))
            for column, value in zip(growth.values(), values, strict=True):
                column.append(value)
            before = models
        return growth

    def __repr__(self) -> str:
        deepest = int(self.depth.max(initial=0))
        return f"<ExploredTree of {len(self):,} models, the longest of {deepest:,} hypotheses>"

    def text(self, most: int = 60) -> str:
        """The tree as indented lines, children under their parents, ``most`` models at most."""
        return as_text(self, most)

    def dot(self, most: int = 500) -> str:
        """The tree in the DOT language of Graphviz, its first ``most`` models."""
        return as_dot(self, most)

    def svg(self, most: int = 2000) -> str:
        """The first ``most`` models as SVG: hypotheses from left to right, better models darker."""
        return as_svg(self, most)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExploredTree):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=dtype is np.float64)
            for name, dtype in EXPLORED_ARRAYS.items()
        )

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    def __reduce__(self) -> tuple[Any, ...]:
        return ExploredTree, tuple(getattr(self, field.name) for field in fields(self))

    def _check(self) -> None:
        """Raise a ``ModelError`` that names the first thing wrong."""
        size = self.parent.size
        if size == 0:
            raise ModelError("an explored tree has at least the empty model.")
        for name in EXPLORED_ARRAYS:
            if getattr(self, name).shape != (size,):
                raise ModelError(f"{name} must have one value for each of {size:,} models.")
        numbers = np.arange(size)
        if self.parent[0] != -1 or self.depth[0] != 0:
            raise ModelError("model 0 must be the empty one, with parent -1 and depth 0.")
        below = self.parent[1:]
        if (below < 0).any() or (below >= numbers[1:]).any():
            raise ModelError("a model's parent must have a lower number.")
        if (self.depth[1:] != self.depth[below] + 1).any():
            raise ModelError("a model must be one hypothesis deeper than its parent.")
        if self.round.min() < 0 or self.round.max() > _ROUNDS_PER_MODEL * size:
            raise ModelError(f"round must be from 0 to {_ROUNDS_PER_MODEL} for each model.")
        if (self.constraint < NO_CONSTRAINT).any():
            raise ModelError("a constraint must be -2 or greater.")


def family_to_arrays(model: Family) -> tuple[dict[str, Any], dict[str, Array]]:
    """The record of the family for ``model.json``, and its arrays."""
    record, arrays = trees_to_arrays(model.trees)
    own = {_PREFIX + name: getattr(model.explored, name) for name in EXPLORED_ARRAYS}
    if model.chosen_of_size is not None:
        own[_PREFIX + _CHOSEN] = model.chosen_of_size
    about = {"chosen": model.chosen, "measure": model.measure, "is_minimised": model.is_minimised}
    return {**about, "trees": record}, {
        **arrays,
        **own,
        _PREFIX + "tree_of_model": model.tree_of_model,
    }


def family_from_arrays(record: Any, arrays: Mapping[str, Array], feature_names: Any) -> Family:
    """The family from the result of ``family_to_arrays``, fully checked."""
    check_record(record, ("chosen", "measure", "is_minimised", "trees"))
    trees, own = trees_from_arrays(record["trees"], arrays, feature_names)
    of_models = {"tree_of_model": np.int32}
    if _PREFIX + _CHOSEN in own:  # only a beam search has it
        of_models[_CHOSEN] = np.int32
    explored = native_arrays({**EXPLORED_ARRAYS, **of_models}, own, _PREFIX)
    refuse_others(own, [_PREFIX + name for name in explored], "a family")
    tree_of_model, chosen_of_size = explored.pop("tree_of_model"), explored.pop(_CHOSEN, None)
    about = {name: record[name] for name in ("chosen", "measure", "is_minimised")}
    return Family(
        trees, tree_of_model, ExploredTree(**explored), **about, chosen_of_size=chosen_of_size
    )


# Pictures of an explored tree.


def shown(value: float) -> str:
    """A measure in a picture."""
    return "none" if math.isnan(value) else f"{value:.4f}"


def as_text(tree: ExploredTree, most: int) -> str:
    """Indented lines, children under their parents in the order they were found."""
    children = _children(tree, min(len(tree), most))
    best = _best(tree)
    lines, waiting = [], [0]
    while waiting:
        model = waiting.pop()
        mark = "  ← best" if model == best else ""
        lines.append("  " * int(tree.depth[model]) + f"{_label(tree, model)}{mark}")
        waiting += reversed(children[model])
    if most < len(tree):
        lines.append(f"… and {len(tree) - most:,} more models")
    return "\n".join(lines)


def as_dot(tree: ExploredTree, most: int) -> str:
    """A digraph; the path to the best model is bold."""
    way = {0, *tree.path(_best(tree))}
    lines = ["digraph explored {", "  rankdir=LR; node [shape=box, fontsize=10];"]
    for model in range(min(len(tree), most)):
        style = ", style=bold" if model in way else ""
        lines.append(f'  {model} [label="{_label(tree, model)}"{style}];')
        if model > 0:
            lines.append(f"  {int(tree.parent[model])} -> {model};")
    return "\n".join([*lines, "}"])


def as_svg(tree: ExploredTree, most: int) -> str:
    """Hypotheses from left to right; better models are darker, and the best has a ring."""
    size = min(len(tree), most)
    rows, n_rows = _rows(tree, size)
    across = min(_COLUMN, _WIDEST / max(1, int(tree.depth[:size].max())))
    down = min(_ROW, _HIGHEST / max(1, n_rows))
    x = _MARGIN + across * tree.depth[:size]
    y = _MARGIN + down * rows
    width, height = float(x.max()) + _MARGIN, float(y.max()) + _MARGIN
    way = {0, *tree.path(_best(tree))}
    shade = _shades(tree, size)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}">',
        f"<title>{len(tree):,} models, the best with {int(tree.depth[_best(tree)])} hypotheses</title>",
    ]
    for model in range(1, size):
        above = int(tree.parent[model])
        colour = "#c44e52" if model in way else "#bbbbbb"
        parts.append(
            f'<line x1="{x[above]:.1f}" y1="{y[above]:.1f}" x2="{x[model]:.1f}" y2="{y[model]:.1f}" '
            f'stroke="{colour}" stroke-width="1"/>'
        )
    for model in range(size):
        ring = ' stroke="#c44e52" stroke-width="2"' if model == _best(tree) else ""
        parts.append(
            f'<circle cx="{x[model]:.1f}" cy="{y[model]:.1f}" r="3" '
            f'fill="hsl(210, 60%, {shade[model]:.0f}%)"{ring}>'
            f"<title>{_label(tree, model)}</title></circle>"
        )
    return "\n".join([*parts, "</svg>"])


def _best(tree: ExploredTree) -> int:
    """The best model of the search: the first one with the best f̂."""
    return int(np.argmax(tree.f_hat == tree.f_hat[_leader(tree)]))


def _leader(tree: ExploredTree) -> int:
    """A model with the best f̂: the least if any f̂ is below the root's (smaller is better), else the greatest."""
    falls = bool((tree.f_hat < tree.f_hat[0]).any())
    return int(np.argmin(tree.f_hat) if falls else np.argmax(tree.f_hat))


def _label(tree: ExploredTree, model: int) -> str:
    constraint = int(tree.constraint[model])
    under = {FREE: "free", NO_CONSTRAINT: "empty"}.get(constraint, f"constraint {constraint}")
    return f"{model}: f {shown(float(tree.f[model]))}, {under}"


def _children(tree: ExploredTree, size: int) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in range(size)]
    for model in range(1, size):
        children[int(tree.parent[model])].append(model)
    return children


def _rows(tree: ExploredTree, size: int) -> tuple[Floats, int]:
    """The row of each model: leaves one below the other, a parent in the row of its first child."""
    children = _children(tree, size)
    rows = np.zeros(size)
    n_rows = 0
    waiting = [0]
    while waiting:
        model = waiting.pop()
        if children[model]:
            waiting += reversed(children[model])
        else:
            rows[model] = n_rows
            n_rows += 1
    for model in range(size - 1, -1, -1):
        if children[model]:
            rows[model] = rows[children[model][0]]
    return rows, n_rows


def _shades(tree: ExploredTree, size: int) -> list[float]:
    """Lightness in percent by f: 85 for the worst, 30 for the best."""
    f = np.nan_to_num(tree.f[:size], nan=np.nanmin(tree.f[:size]) if size else 0.0)
    spread = float(f.max() - f.min()) or 1.0
    shades: list[float] = (85.0 - 55.0 * (f - f.min()) / spread).tolist()
    return shades
