"""Weak rankers of one feature and one threshold, and the search for the best of them.

A weak ranker says 1 of a document with ``x > threshold``, 0 of one with ``x <= threshold``, and ½, which is neither
above nor below, where the value is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rankwood._threads import run_blocks
from rankwood.dtypes import Array, Floats
from rankwood.losses.graded import GradedLists
from rankwood.trees.grower import Tree
from rankwood.trees.state_kernels import Matrix

_UNIT = (
    2.0**60
)  # potentials are whole numbers of 1/unit, and sum to 2 at most: sums are exact, whatever their order
_SLACK = int(
    2 * _UNIT * 1e-12
)  # of 2 r: nearer ones differ by rounding, which must not choose among equals
_LEAST_ROWS = 50_000  # per thread: fewer find their side faster than a thread starts
_LEAST_FEATURES = 4  # the histograms' kernel takes four columns per pass
LARGEST_EDGE = 1.0 - 1e-6  # of |r|: no weight is larger than ½ ln(2·10⁶) = 7.3
LEAST_EDGE = 1e-8  # of |r|: below, √(1 - r²) is 1 in float64 and a round changes nothing
ABSTAINED = 0.5


@dataclass(frozen=True)
class WeakRanker:
    """The ranker [x_feature > threshold after ``code``] and what it is worth."""

    feature: int
    code: int
    edge: float  # r = Σ D(better, worse) (h_better - h_worse), between -1 and 1

    @property
    def is_worthless(self) -> bool:
        """Whether it orders pairs no better, and no worse, than chance."""
        return abs(self.edge) <= LEAST_EDGE

    @property
    def alpha(self) -> float:
        """``½ ln((1 + r) / (1 - r))``, negative where lower values are better."""
        return math.atanh(min(max(self.edge, -LARGEST_EDGE), LARGEST_EDGE))


@dataclass(frozen=True, eq=False)
class WeakRankers:
    """All weak rankers over the bins of the training rows."""

    matrix: Matrix
    rows: Array  # uint32, ascending: the rows of the matrix that are part of a pair
    weights: Floats  # of all rows; 0 where a row is in no pair
    n_threads: int

    @classmethod
    def of(cls, matrix: Matrix, lists: GradedLists) -> WeakRankers:
        """Those over the rows of the lists."""
        is_paired = np.zeros(matrix.source_of_row.size, np.bool_)
        is_paired[lists.rows] = True
        rows = np.flatnonzero(is_paired[matrix.source_of_row]).astype(np.uint32)
        return cls(matrix, rows, lists.by_row(lists.weights), lists.n_threads)

    def best(self, potentials: Floats) -> WeakRanker:
        """The weak ranker of greatest ``|r| = |Σ potential · h|``; of equal ones that of the first feature and cut."""
        from rankwood.ensembles.rankboost_kernels import search_features

        sources = self.matrix.source_of_row[self.rows]
        words = np.rint(potentials[sources] * _UNIT).astype(np.int64)
        n_features = self.matrix.columns.shape[0]
        edges, codes = np.empty(n_features, np.int64), np.empty(n_features, np.int64)
        run_blocks(
            search_features,
            n_features,
            self.matrix,
            self.rows,
            words,
            np.arange(n_features),
            np.empty((n_features, 256), np.int64),
            _SLACK,
            edges,
            codes,
            n_threads=self.n_threads,
            least=_LEAST_FEATURES,
        )
        sizes = np.abs(edges)
        feature = int(np.argmax(sizes >= sizes.max() - _SLACK))  # the first of them
        return WeakRanker(feature, int(codes[feature]), float(edges[feature]) / (2.0 * _UNIT))

    def stump(self, ranker: WeakRanker) -> Tree:
        """The weak ranker as a tree with three leaves: below, above, missing."""
        feature, code = np.full(4, -1, np.int32), np.zeros(4, np.uint8)
        feature[0], code[0] = ranker.feature, ranker.code
        threshold = np.zeros(4, np.float32)
        first = self.matrix.offsets[ranker.feature]
        threshold[0] = self.matrix.thresholds[first + ranker.code]
        left, right, missing = (np.array([child, 0, 0, 0], np.int32) for child in (1, 2, 3))
        leaf_of_row = self._leaves(feature, code, left, right, missing)
        cover: Floats = np.bincount(leaf_of_row, self.weights, minlength=4).astype(np.float64)
        value = np.array([0.0, 0.0, 1.0, ABSTAINED])
        cover[0] = cover.sum()
        value[0] = (cover[1:] * value[1:]).sum() / cover[0]
        gain = np.array([math.log(math.cosh(ranker.alpha)), 0.0, 0.0, 0.0])
        return Tree(feature, threshold, code, left, right, missing, value, cover, gain, leaf_of_row)

    def _leaves(self, *nodes: Array) -> Array:
        """The leaf of every training row."""
        from rankwood.trees.leaf_kernels import route

        leaf_of_row = np.full(self.matrix.columns.shape[1], -1, np.int32)
        run_blocks(
            route,
            leaf_of_row.size,
            self.matrix.columns,
            *nodes,
            leaf_of_row,
            n_threads=self.n_threads,
            least=_LEAST_ROWS,
        )
        leaf_of_source = np.empty_like(leaf_of_row)
        leaf_of_source[self.matrix.source_of_row] = leaf_of_row
        return leaf_of_source
