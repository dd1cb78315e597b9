"""``OrdinalModel``: a cumulative probability for each grade but the highest, and the worth of each grade.

Terms
    grade        a value of labels; there are K of them, in ascending order
    cumulative   T_c, the probability that a document's grade is c or lower; 1 for the highest grade, not stored
    worth        F(c), the contribution of a grade to the score
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import lazy
from rankwood.dtypes import Array, Floats
from rankwood.errors import ModelError
from rankwood.models.archive import (
    check_record,
    native_arrays,
    refuse_others,
    trees_from_arrays,
    trees_to_arrays,
)
from rankwood.models.forest import Forest, ForestProperties
from rankwood.models.validate import features_of, largest_score

_ARRAYS: dict[str, type[np.generic]] = {
    "tree_counts": np.int64,
    "starts": np.float64,
    "grades": np.float64,
    "worths": np.float64,
}
_PREFIX = "ordinal."


@dataclass(frozen=True, eq=False)
class OrdinalModel(ForestProperties):
    """Scores documents by the expected worth of their grade: Σ F(c) · P(y = c), with P(y = c) = T_c - T_{c-1}.

    Parameters
    ----------
    trees
        The trees of T_0, then those of T_1, and so on, as one sum with base 0.
    tree_counts, starts
        For each grade but the highest: its number of trees, and the constant they are added to.
    grades, worths
        The K grades, ascending, and F of each.
    clip
        Whether probabilities below 0 are set to 0 and the others scaled to a sum of 1. Otherwise the score is a
        weighted sum of trees (``forest``).
    """

    trees: Forest
    tree_counts: Array
    starts: Floats
    grades: Floats
    worths: Floats
    clip: bool

    def __post_init__(self) -> None:
        for name, dtype in _ARRAYS.items():
            array = np.ascontiguousarray(getattr(self, name), dtype)
            object.__setattr__(self, name, checks.read_only(array))
        self._check()

    @classmethod
    def of_forests(
        cls, cumulative: Sequence[Forest], empty: Forest, grades: Floats, worths: Floats, clip: bool
    ) -> OrdinalModel:
        """The model of one forest per grade but the highest; ``empty`` has the same features and no trees."""
        sums = [_without_base(forest) for forest in cumulative]
        return cls(
            Forest.concatenate([empty, *sums]),
            np.array([forest.n_trees for forest in cumulative], np.int64),
            np.array([forest.base for forest in cumulative], np.float64),
            grades,
            worths,
            clip,
        )

    @lazy
    def forest(self) -> Forest:
        """The score as one weighted sum of trees: F(highest) + Σ (F(c) - F(c + 1)) · T_c.

        Its scores are equal up to rounding, since factors are multiplied before they are summed.
        """
        if self.clip:
            raise ModelError(
                "clipped probabilities are no sum of trees, so this model cannot be written as one forest. "
                "Fit with clip=False."
            )
        factors = -np.diff(self.worths)
        weights = self.trees.tree_weights * np.repeat(factors, self.tree_counts)
        base = float(self.worths[-1] + (factors * self.starts).sum())
        return dataclasses.replace(self.trees, tree_weights=weights, base=base)

    def in_rounds(self, ends: Sequence[int], *, averages: bool) -> tuple[Forest, Array]:
        """The score as one forest whose first trees are a smaller model, and its number of trees after each round.

        ``ends`` are the trees of every T_c after each round; one that has fewer stays as it is. ``averages`` says that
        T_c is the mean of its trees: then the first trees give the mean of those of each grade.
        """
        whole, counts = self.forest, self.tree_counts.tolist()
        begins = np.cumsum([0, *counts]).tolist()
        order: list[int] = []
        n_trees, before = [], 0
        for end in ends:
            for begin, count in zip(begins, counts, strict=False):
                order += range(begin + min(before, count), begin + min(end, count))
            n_trees.append(len(order))
            before = end
        forest = whole.take_trees(order)
        if averages:
            self._refuse_different_counts()
            # Σ of the grades' means = mean over the trees of all grades of (their number · weight · value).
            scales = np.repeat(forest.tree_weights * forest.n_trees, np.diff(forest.tree_offsets))
            value = checks.read_only(forest.value * scales)
            ones = checks.read_only(np.ones(forest.n_trees))
            forest = dataclasses.replace(forest, value=value, tree_weights=ones, average=True)
        return forest, np.array(n_trees, np.int64)

    def first_trees(self, n_trees: int, *, averages: bool) -> OrdinalModel:
        """The model of the first ``n_trees`` trees of every T_c, or of their mean where T_c is one."""
        parts = [
            forest.take_trees(slice(0, min(n_trees, forest.n_trees)))
            for forest in self.cumulative_forests
        ]
        if averages:
            self._refuse_different_counts()
            scale = self.tree_counts.max(initial=0) / n_trees
            parts = [
                dataclasses.replace(one, tree_weights=one.tree_weights * scale) for one in parts
            ]
        empty = self.trees.take_trees(slice(0, 0))
        return OrdinalModel.of_forests(parts, empty, self.grades, self.worths, self.clip)

    def _refuse_different_counts(self) -> None:
        """The mean over several grades' first trees needs as many of each."""
        if np.unique(self.tree_counts).size > 1:
            raise ModelError(
                "the models of the grades have different numbers of trees "
                f"({', '.join(map(str, self.tree_counts.tolist()))}): fit without a callback that ends them early."
            )

    def predict(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """The score of each row, in row order; it does not depend on the number of threads or on other rows."""
        if not self.clip:
            return self.forest.predict(features, n_threads=n_threads)
        return self.expected_worth(self.cumulative(features, n_threads=n_threads))

    def cumulative(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """T_c of each row as predicted: rows × K - 1, not forced into [0, 1] or into ascending order."""
        matrix = features_of(features, self)
        probabilities: Floats = np.empty((len(matrix), self.tree_counts.size))
        for grade, forest in enumerate(self.cumulative_forests):
            probabilities[:, grade] = forest.predict(matrix, n_threads=n_threads)
        return probabilities

    def probabilities(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """P(y = c) of each row: rows × K; a row's sum is 1."""
        return self.probabilities_of(self.cumulative(features, n_threads=n_threads))

    def probabilities_of(self, cumulative: Floats) -> Floats:
        """P(y = c) = T_c - T_{c-1}, clipped if the model clips."""
        probabilities: Floats = np.diff(cumulative, axis=1, prepend=0.0, append=1.0)
        if self.clip:
            probabilities = np.maximum(probabilities, 0.0)
            # At least one is positive, since they sum to 1 before clipping.
            probabilities /= probabilities.sum(axis=1, keepdims=True)
        return probabilities

    def expected_worth(self, cumulative: Floats) -> Floats:
        """Σ F(c) · P(y = c) of each row."""
        scores: Floats = np.zeros(len(cumulative))
        for grade, probability in enumerate(self.probabilities_of(cumulative).T):
            scores += self.worths[grade] * probability
        return scores

    @lazy
    def cumulative_forests(self) -> list[Forest]:
        """T_c, one forest each."""
        ends = np.cumsum(self.tree_counts).tolist()
        parts = zip([0, *ends], ends, self.starts.tolist(), strict=False)
        return [
            dataclasses.replace(self.trees.take_trees(slice(first, last)), base=start)
            for first, last, start in parts
        ]

    @property
    def scoring_trees(self) -> Forest:
        """The trees of all grades."""
        return self.trees

    def __reduce__(self) -> tuple[Any, ...]:
        return OrdinalModel, tuple(getattr(self, field.name) for field in fields(self))

    def _check(self) -> None:
        """Raise a ``ModelError`` that names the first thing wrong."""
        n_grades = self.grades.size
        for name, length in (
            ("worths", n_grades),
            ("tree_counts", n_grades - 1),
            ("starts", n_grades - 1),
        ):
            array = getattr(self, name)
            if array.shape != (length,) or not np.isfinite(array).all():
                raise ModelError(
                    f"{name} must be {length:,} finite numbers for {n_grades:,} grades."
                )
        if n_grades < 1 or not np.isfinite(self.grades).all() or (np.diff(self.grades) <= 0).any():
            raise ModelError("grades must be finite and ascend; there is at least one.")
        counts = self.tree_counts.tolist()  # Python's numbers do not overflow
        if min(counts, default=0) < 0 or sum(counts) != self.trees.n_trees:
            raise ModelError(
                f"tree_counts must sum to the number of trees ({self.trees.n_trees:,})."
            )
        if self.trees.average or self.trees.base != 0.0:
            raise ModelError("the trees must be summed, with base 0.")
        if not isinstance(self.clip, bool):
            raise ModelError(f"clip must be True or False, got {self.clip!r}.")
        self._check_scores()

    def _check_scores(self) -> None:
        """Raise where a score could be infinite."""
        with np.errstate(over="ignore"):
            worths = float(np.abs(self.worths).sum())
            of_grades = largest_score(self.trees) + float(np.abs(self.starts).max(initial=0.0))
        if not math.isfinite(worths * (1.0 if self.clip else 2.0 * of_grades + 1.0)):
            raise ModelError("worths and trees are so large that a score could be infinite.")


def ordinal_to_arrays(model: OrdinalModel) -> tuple[dict[str, Any], dict[str, Array]]:
    """The record of the model for ``model.json``, and its arrays."""
    record, arrays = trees_to_arrays(model.trees)
    own = {_PREFIX + name: getattr(model, name) for name in _ARRAYS}
    return {"clip": model.clip, "trees": record}, {**arrays, **own}


def ordinal_from_arrays(
    record: Any, arrays: Mapping[str, Array], feature_names: Any
) -> OrdinalModel:
    """The model from the result of ``ordinal_to_arrays``, fully checked."""
    check_record(record, ("clip", "trees"))
    trees, own = trees_from_arrays(record["trees"], arrays, feature_names)
    native = native_arrays(_ARRAYS, own, _PREFIX)
    for name, dtype in _ARRAYS.items():
        if native[name].dtype != np.dtype(dtype) or native[name].ndim != 1:
            raise ModelError(
                f"array '{_PREFIX + name}' must have one dimension of {np.dtype(dtype)}."
            )
    refuse_others(own, [_PREFIX + name for name in _ARRAYS], "an ordinal model")
    return OrdinalModel(trees, clip=record["clip"], **native)


def _without_base(forest: Forest) -> Forest:
    """The trees as a sum without base, even if they were averaged."""
    weights = forest.tree_weights
    if forest.average:
        weights = weights / weights.sum()
    return dataclasses.replace(forest, tree_weights=weights, average=False, base=0.0)
