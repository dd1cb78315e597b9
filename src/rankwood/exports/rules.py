"""``EngineRules``: how another engine scores trees; ``FileTrees``: the trees of a file; and moved thresholds.

``FileTrees.score`` scores the numbers of the file under the rules of its reader, independently of ``Forest``.

Rankwood compares ``value <= threshold`` in float32. Engines that compare otherwise need other thresholds: ``above``,
``greatest_rounded_to`` and ``before_slack`` move ours for writing; ``at_most`` and ``below`` move theirs for reading.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood.data.categories import Dictionaries
from rankwood.dtypes import Array, Features, Floats
from rankwood.models.forest import TreeArrays
from rankwood.trees.workspace import N_WORDS, no_subsets

_BLOCK_ROWS = 1 << 15  # rows scored together; their values stay in the cache

SOLR_SLACK = np.float32(1e-6)  # what Solr adds to every threshold it reads
_GREATEST = float(np.finfo(np.float32).max)
_TRIED_STEPS = 4  # float32 steps that a compensated threshold may differ from the plain difference


@dataclass(frozen=True)
class EngineRules:
    """How an engine compares values with thresholds and sums leaves.

    Parameters
    ----------
    comparison
        A document goes left when value ``<=`` threshold, or when value ``<`` threshold.
    compared_in
        The floats that values and thresholds are rounded to before they are compared.
    summed_in
        The floats that leaves are rounded to and summed in.
    missing
        Where NaN goes: "child" (the one the file names) or "zero" (it counts as 0).
    slack
        What is added to a threshold before it is compared.
    multiplied_in
        The floats in which weight times leaf is computed and added; None: as ``summed_in``.
    counts_as_zero
        Values no farther from 0 than this are 0.
    base_first
        The sum starts with the base, which is otherwise added at the end.
    texts
        The rules as sentences, for the certificate.
    """

    comparison: str
    compared_in: type[np.floating[Any]]
    summed_in: type[np.floating[Any]]
    missing: str
    texts: tuple[str, ...]
    slack: float = 0.0
    multiplied_in: type[np.floating[Any]] | None = None
    counts_as_zero: float = 0.0
    base_first: bool = False

    def goes_left(self, values: Array, thresholds: Array) -> Array:
        """Whether each value goes left; ``thresholds`` are those of ``seen_thresholds``."""
        chosen: Array = values <= thresholds if self.comparison == "<=" else values < thresholds
        return chosen

    def seen_thresholds(self, written: Floats) -> Array:
        """Thresholds as the engine uses them in comparisons."""
        with np.errstate(over="ignore"):
            seen = written.astype(self.compared_in)
            return seen + self.compared_in(self.slack) if self.slack else seen

    def seen_values(self, features: Array) -> Array:
        """Values as the engine uses them in comparisons."""
        with np.errstate(over="ignore"):
            seen = np.array(features, self.compared_in)
        if self.missing == "zero":
            seen[np.isnan(seen)] = 0
        if self.counts_as_zero:
            seen[np.abs(seen) <= self.counts_as_zero] = 0
        return seen


@dataclass(frozen=True, eq=False)
class FileTrees(TreeArrays):
    """The trees of a file: numbers as written, children as positions in the whole arrays.

    Parameters
    ----------
    feature, left, right, missing
        As in ``Forest``: -1 marks a leaf; children come after their parents.
    threshold, value, cover, gain
        As written, in float64.
    tree_offsets, tree_weights
        As in ``Forest``.
    groups
        The numbers of trees that are summed in ``summed_in`` before the sums are added in float64; None for one group.
    categorical, subsets
        As in ``Forest``: a value goes left if its category is in the node's subset.
    divisor, base
        The sum is divided by ``divisor``, then ``base`` is added.
    """

    groups: tuple[int, ...] | None
    divisor: float
    base: float
    n_features: int
    feature_names: tuple[str, ...] | None
    categorical: Dictionaries | None = None
    subsets: Array = field(default_factory=no_subsets)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.tree_weights.size

    def score(self, features: Array, rules: EngineRules) -> Floats:
        """The score of each row, summed tree by tree as the engine does."""
        scores = [
            self._score_block(features[first : first + _BLOCK_ROWS], rules)
            for first in range(0, len(features), _BLOCK_ROWS)
        ]
        return np.concatenate([np.zeros(0), *scores])

    def _score_block(self, features: Array, rules: EngineRules) -> Floats:
        values = rules.seen_values(features)
        thresholds = rules.seen_thresholds(self.threshold)
        worked_in = rules.multiplied_in or rules.summed_in
        outputs = self.value.astype(rules.summed_in).astype(worked_in)
        weights = self.tree_weights.astype(rules.summed_in).astype(worked_in)
        total = np.zeros(len(features), np.float64 if self.groups else rules.summed_in)
        tree = 0
        for n_summed in self.groups or (self.n_trees,):
            part = np.full(len(features), self.base if rules.base_first else 0, rules.summed_in)
            for _ in range(n_summed):
                leaves = self._leaves(tree, values, thresholds, rules)
                part = (part + weights[tree] * outputs[leaves]).astype(rules.summed_in)
                tree += 1
            total = total + part if self.groups else part
        if self.divisor != 1:
            total = total / total.dtype.type(self.divisor)
        base = 0.0 if rules.base_first else self.base
        scores: Floats = (total + rules.summed_in(base)).astype(np.float64)
        return scores

    def _leaves(self, tree: int, values: Array, thresholds: Array, rules: EngineRules) -> Array:
        """The leaf of each row, as a position in the whole arrays."""
        nodes = np.full(len(values), self.tree_offsets[tree])
        rows = np.arange(len(values))
        rows = rows[self.feature[nodes] >= 0]
        while rows.size:
            at = nodes[rows]
            seen = values[rows, self.feature[at]]
            is_left = rules.goes_left(seen, thresholds[at])
            if len(self.subsets):
                is_left = np.where(
                    self.subsets[at].any(axis=1), _holds(self.subsets[at], seen), is_left
                )
            chosen = np.where(is_left, self.left[at], self.right[at])
            chosen = np.where(np.isnan(seen), self.missing[at], chosen)
            nodes[rows] = chosen
            rows = rows[self.feature[chosen] >= 0]
        return nodes


def _holds(subsets: Array, values: Array) -> Array:
    """Whether each value is a category of its subset; what is no category is not."""
    is_category = (values >= 0) & (values < 64 * N_WORDS)
    categories = np.where(is_category, values, 0).astype(np.uint64)
    words = subsets[np.arange(len(values)), (categories >> np.uint64(6)).astype(np.int64)]
    held: Array = is_category & ((words >> (categories & np.uint64(63))) & np.uint64(1) != 0)
    return held


# Thresholds moved so that another engine's comparison decides as ours does.


def above(thresholds: Features) -> Features:
    """The next number of float32 upwards: ``value <= t`` is ``value < above(t)`` for every float32 value."""
    moved = _stepped(thresholds, np.inf)
    return moved + np.float32(0.0)  # -0 becomes 0


def greatest_rounded_to(thresholds: Features) -> Floats:
    """The greatest float64 that float32 rounds to the threshold or below.

    An engine that compares float64 values with it decides as Rankwood does after rounding the value to float32, for
    every float64 value, not only for those that float32 can represent.
    """
    upper = above(thresholds).astype(np.float64)
    upper[np.isinf(upper)] = 2.0**128  # the next float32, if the exponent had one more bit
    middle: Floats = thresholds.astype(np.float64) / 2 + upper / 2
    with np.errstate(over="ignore"):
        stays = middle.astype(np.float32) <= thresholds  # ties round to even
    return np.where(stays, middle, np.nextafter(middle, -np.inf))


def at_most(numbers: Floats) -> Features:
    """The greatest float32 that is not above each number; -inf where there is none."""
    with np.errstate(over="ignore"):
        near: Features = np.asarray(numbers, np.float64).astype(np.float32)
    too_high = near.astype(np.float64) > numbers
    lowered: Features = np.where(too_high, _stepped(near, -np.inf), near)
    return np.minimum(lowered, np.float32(_GREATEST)) + np.float32(0.0)


def below(numbers: Floats) -> Features:
    """The greatest float32 that is below each number; -inf where there is none."""
    greatest = at_most(numbers)
    is_equal = greatest.astype(np.float64) == numbers
    return np.where(is_equal, _stepped(greatest, -np.inf), greatest) + np.float32(0.0)


def before_slack(thresholds: Features) -> tuple[Features, Array]:
    """Thresholds to write for Solr, which adds 1e-6 in float32; and whether each sum equals the threshold.

    If no float32 plus 1e-6 gives the threshold, the written number gives the nearest possible sum.
    """
    plain: Features = thresholds - SOLR_SLACK
    best, least = plain.copy(), _distance(plain, thresholds)
    for direction in (-np.inf, np.inf):
        tried = plain
        for _ in range(_TRIED_STEPS):
            tried = _stepped(tried, direction)
            distance = _distance(tried, thresholds)
            is_better = distance < least
            best = np.where(is_better, tried, best)
            least = np.where(is_better, distance, least)
    return best, least == 0


def short(number: float) -> str:
    """A float32 number with nine digits, which identify it."""
    return f"{number:.9g}"


def exact(number: float) -> str:
    """A float64 number with as many digits as identify it."""
    return repr(float(number))


def _stepped(numbers: Features, direction: float) -> Features:
    """The next float32 in a direction; infinity beyond the greatest, without a warning."""
    with np.errstate(over="ignore", under="ignore"):
        stepped: Features = np.nextafter(numbers, np.float32(direction))
    return stepped


def _distance(written: Features, thresholds: Features) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        seen = (written + SOLR_SLACK).astype(np.float64)
        distance: Floats = np.abs(seen - thresholds.astype(np.float64))
    return np.where(np.isfinite(distance) & np.isfinite(written), distance, np.inf)
