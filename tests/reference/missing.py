"""Slow twins of the treatments of missing values: plain loops."""

from __future__ import annotations

import bisect
import math
import statistics

import numpy as np

from rankwood.engines.bags import Bags
from tests.reference import trees

OF_VALUES = {
    "least": min,
    "greatest": max,
    "mean": statistics.fmean,
    "median": statistics.median,
}


def fill(train, test, strategy) -> list[list[float]]:
    """The rows of ``test`` with each gap filled by a statistic of the feature's values in ``train``."""
    filled = []
    for row in test:
        of_row = []
        for feature, value in enumerate(row):
            if math.isnan(value):
                there = [float(each[feature]) for each in train if not math.isnan(each[feature])]
                of_row.append(np.float32(OF_VALUES[strategy](there)))
            else:
                of_row.append(value)
        filled.append(of_row)
    return filled


def predict(table, n_trees, max_leaves, n_sweeps, seed) -> np.ndarray:
    """Algorithm 2 of Mohan (2010): every tree looks at all known features, but for the one it predicts.

    Cuts lie between the values that are there, in every sweep; values must be whole numbers.
    """
    n_rows, n_features = table.shape
    is_missing = np.isnan(table)
    distinct = [np.unique(column[~np.isnan(column)]) for column in table.T]
    thresholds = [((values[1:] + values[:-1]) / 2).tolist() for values in distinct]
    known = [feature for feature in range(n_features) if not is_missing[:, feature].any()]
    known = known or list(range(n_features))
    filled = np.where(is_missing, np.nanmedian(table, axis=0), table)
    for _ in range(n_sweeps):
        codes = [
            [bisect.bisect_left(cuts, value) for value in column]
            for cuts, column in zip(thresholds, filled.T.tolist(), strict=True)
        ]
        predicted = filled.copy()
        for feature in range(n_features):
            has_value = ~is_missing[:, feature]
            others = [other for other in known if other != feature]
            totals = np.zeros(n_rows)
            for tree in range(n_trees):
                counts = Bags(n_rows, present=has_value, seed=seed).counts(feature * n_trees + tree)
                totals += _tree(codes, thresholds, others, table[:, feature], counts, max_leaves)
            predicted[~has_value, feature] = totals[~has_value] / n_trees
        filled = predicted.astype(np.float32)
        known = list(range(n_features))
    return filled


def _tree(codes, thresholds, others, values, counts, max_leaves) -> np.ndarray:
    """What a tree grown on the rows drawn says of every row."""
    counts = counts.tolist()
    problem = trees.Problem(
        [codes[other] for other in others],
        [thresholds[other] for other in others],
        [count * int(value) if count else 0 for count, value in zip(counts, values, strict=True)],
        counts,
        counts,
        max_leaves=max_leaves,
    )
    nodes = trees.grow(problem)
    said = np.zeros(len(counts))
    for row in range(len(counts)):
        node = nodes[0]
        while node.children:
            _, feature, code, _ = node.split
            node = nodes[node.children[int(problem.columns[feature][row] > code)]]
        target, weight = trees.total(problem, node.rows)
        said[row] = target / weight
    return said
