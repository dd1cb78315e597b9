"""Stumps of least weighted error, and the search for them (Freund & Schapire 1997).

A stump says 1 on one side of a threshold and -1 on the other. The grower of our trees would take the cut that removes
most of the squared error, which is another one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwood._checks import read_only
from rankwood._threads import run_blocks
from rankwood.dtypes import Array, Floats
from rankwood.ensembles.adaboost_kernels import search_stumps
from rankwood.trees.constrained_kernels import mark_sides
from rankwood.trees.grower import Tree
from rankwood.trees.policies import MISSING_RULES
from rankwood.trees.state_kernels import GO_LEFT, NO_SPLIT, Matrix

_UNIT = 2.0**60  # words are whole numbers of 1/unit, and sum to 1 in size: sums are exact
_SLACK = int(_UNIT * 1e-12)  # nearer edges differ by rounding, which must not choose among equals


@dataclass(frozen=True, eq=False)
class WeakClassifiers:
    """All stumps over the bins of the training rows, which are in the data's order."""

    matrix: Matrix
    present: Array  # int64: 1 for rows that have weight, else 0
    min_leaf: int
    missing: str
    n_threads: int

    def best(self, classes: Floats, weights: Floats, feature: int | None = None) -> Tree:
        """The stump of least weighted error, of one feature or of all; a single leaf where none has an edge.

        Of equal ones it is the first feature's, and that of the greatest threshold.
        """
        n_features = self.matrix.columns.shape[0]
        features = np.arange(n_features) if feature is None else np.array([feature])
        edges, codes, sides = (np.zeros(features.size, np.int64) for _ in range(3))
        words = np.rint(classes * weights * _UNIT).astype(np.int64)
        run_blocks(
            search_stumps,
            features.size,
            features,
            self.matrix,
            read_only(words),
            self.present,
            self.min_leaf,
            MISSING_RULES[self.missing],
            _SLACK,
            edges,
            codes,
            sides,
            n_threads=self.n_threads,
            least=4,
        )
        place = int(np.argmax(edges >= edges.max() - _SLACK))  # the first of them
        if codes[place] == NO_SPLIT or edges[place] == 0:
            return _leaf(classes.size)
        goes_left = bool(sides[place] == GO_LEFT)
        return self._stump(
            int(features[place]), int(codes[place]), goes_left, classes * weights, weights
        )

    def _stump(
        self, feature: int, code: int, goes_left: bool, signed: Floats, weights: Floats
    ) -> Tree:
        """A cut as a tree whose leaves say 1 and -1."""
        column = self.matrix.columns[feature]
        leaf_of_row = np.empty(column.size, np.int32)
        sides = (column, code, goes_left, leaf_of_row)
        mark_sides(0, column.size, *sides)  # type: ignore[no-untyped-call]
        sums = np.bincount(leaf_of_row, signed, minlength=3)
        cover: Floats = np.bincount(leaf_of_row, weights, minlength=3).astype(np.float64)
        if (column == 255).sum() == 0 and self.missing == "learned":
            goes_left = bool(cover[1] >= cover[2])
        vote = 1.0 if sums[2] > sums[1] else -1.0
        value = np.array([0.0, -vote, vote])
        cover[0] = cover.sum()
        value[0] = (cover[1:] * value[1:]).sum() / cover[0]
        threshold = self.matrix.thresholds[self.matrix.offsets[feature] + code]
        child = 1 if goes_left or (self.missing == "left") else 2
        return Tree(
            np.array([feature, -1, -1], np.int32),
            np.array([threshold, 0.0, 0.0], np.float32),
            np.array([code, 0, 0], np.uint8),
            np.array([1, 0, 0], np.int32),
            np.array([2, 0, 0], np.int32),
            np.array([child, 0, 0], np.int32),
            value,
            cover,
            np.array([abs(sums[2] - sums[1]), 0.0, 0.0]),
            leaf_of_row,
        )


def _leaf(n_rows: int) -> Tree:
    """A tree that tells nothing apart."""
    none: Array = np.zeros(1, np.int32)
    return Tree(
        np.full(1, -1, np.int32),
        np.zeros(1, np.float32),
        np.zeros(1, np.uint8),
        none,
        none,
        none,
        np.zeros(1),
        np.ones(1),
        np.zeros(1),
        np.zeros(n_rows, np.int32),
    )
