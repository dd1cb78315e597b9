"""Class vectors of forests: the probability of each grade, read off the leaves of trees that are grown already.

A leaf's value is the mean label of the rows it was grown from. The shares of the grades among the same rows say more,
and cost no further tree. They are kept as cumulative shares, T_c = P(y ≤ c), one copy of the forest for each grade but
the highest, which together are an ``OrdinalModel``: its score Σ c · P(y = c) is the forest's own, up to rounding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood.dtypes import Array, Floats
from rankwood.models.forest import Forest
from rankwood.models.ordinal import OrdinalModel
from rankwood.rankers.deep_forest.columns import LayerColumns
from rankwood.rankers.forests import forest_plan
from rankwood.training.inputs import TrainingSet


@dataclass(frozen=True, eq=False)
class ClassVectors:
    """P(y = c) of the training rows, held out, and of the validation rows: rows × grades."""

    held_out: Floats
    of_valid: Floats | None

    @classmethod
    def of(cls, model: OrdinalModel, held_out: Floats, of_valid: Floats | None) -> ClassVectors:
        """The vectors that belong to cumulative shares."""
        given = None if of_valid is None else model.probabilities_of(of_valid)
        return cls(model.probabilities_of(held_out), given)


def class_vectors(
    forest: Any, train: TrainingSet, columns: LayerColumns, grades: Floats
) -> tuple[OrdinalModel, Floats]:
    """A fitted forest with the shares of the grades in its leaves, and T_c of each row by trees that left it out.

    The second is rows × grades but the highest; NaN for a row that every tree has seen.
    """
    plan = forest_plan(forest, train)
    trees: Forest = forest.forest_
    is_at_most = train.labels[:, np.newaxis] <= grades[:-1]
    shares: Floats = np.zeros((trees.n_nodes, grades.size - 1))
    sums: Floats = np.zeros(is_at_most.shape)
    n_unseen: Array = np.zeros(len(is_at_most), np.int64)
    n_rows = train.data.n_documents
    everything = np.ones(n_rows, np.int32) if plan.present is None else plan.present
    for tree in range(trees.n_trees):
        counts = everything if plan.bags is None else plan.bags.counts(tree)
        leaf_of_row = _leaf_of_row(trees, tree, columns)
        weights = counts if plan.weights is None else counts * plan.weights
        shares_of_leaf(leaf_of_row, weights, is_at_most, shares)
        is_unseen = counts == 0
        sums[is_unseen] += shares[leaf_of_row[is_unseen]]
        n_unseen += is_unseen
    held_out: Floats = np.full(sums.shape, np.nan)
    np.divide(sums, n_unseen[:, np.newaxis], out=held_out, where=n_unseen[:, np.newaxis] > 0)
    forests = [
        dataclasses.replace(trees, value=np.ascontiguousarray(column)) for column in shares.T
    ]
    empty = Forest.from_trees([], n_features=trees.n_features)
    return OrdinalModel.of_forests(forests, empty, grades, grades, clip=False), held_out


def cumulative(model: OrdinalModel, score: Callable[[Forest], Floats]) -> Floats:
    """T_c of each row, rows × grades but the highest; ``score`` gives the rows' scores by a forest."""
    columns = [score(forest) for forest in model.cumulative_forests]
    return np.stack(columns, axis=1) if columns else score(model.forest)[:, np.newaxis][:, :0]


def shares_of_leaf(leaf_of_row: Array, weights: Array, is_at_most: Array, shares: Floats) -> None:
    """Write the weighted share of each column of ``is_at_most`` among the rows of each leaf."""
    n_nodes = len(shares)
    totals = np.bincount(leaf_of_row, weights, n_nodes)
    has_rows = totals > 0
    for grade in range(is_at_most.shape[1]):
        sums = np.bincount(leaf_of_row, weights * is_at_most[:, grade], n_nodes)
        shares[has_rows, grade] = sums[has_rows] / totals[has_rows]


def _leaf_of_row(forest: Forest, tree: int, columns: LayerColumns) -> Array:
    """The node of the forest that each training row ends in, in one tree: the tree scored with its nodes' numbers."""
    one = forest.take_trees([tree])
    first = forest.tree_offsets[tree]
    numbers = np.arange(one.n_nodes, dtype=np.float64)
    numbered = dataclasses.replace(one, value=numbers, tree_weights=np.ones(1), base=0.0)
    found: Array = columns.score_train(numbered).astype(np.int64) + first
    return found
