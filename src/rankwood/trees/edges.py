"""Stumps of greatest edge: the cut, over all features, that best separates positive from negative row weights.

AdaBoost and RankBoost choose their stumps by the weighted error, not by the squared error that ``splitting`` scores.
Every row has a signed weight, a whole number, so sums are exact and equal edges compare equal. The sums by bin are
those of ``splitting``; the edge of a cut is the sum on the right minus the sum on the left. Edges that differ by at
most a *slack* count as equal, because rounding must not choose among them.

The two methods treat missing values and ties differently:

* AdaBoost sends missing values to one side. The edge is |right − left|; of equal edges the greatest cut wins.
* RankBoost lets missing values abstain: they count one half on each side. The edge is signed, in halves; of equal
  sizes the least cut wins.

In both, the first feature wins among equal edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core.jit import kernel
from rankwood._core.threads import lazy, run_blocks
from rankwood.binning.bins import MISSING_BIN, N_CODES
from rankwood.dtypes import Array
from rankwood.trees.splitting import build_histograms, is_tried
from rankwood.trees.workspace import GO_LEFT, GO_RIGHT, NO_SPLIT, Matrix

ABSTAIN = 4  # a rule for missing values, beside LEARNED, GO_LEFT and GO_RIGHT
UNIT = 2.0**60  # signed weights are whole numbers of 1/unit, and their sizes sum to 2 at most
_LEAST_FEATURES = 4  # per thread: the kernel of the histograms takes four columns per pass


@dataclass(frozen=True)
class EdgeCut:
    """The cut of greatest edge; ``code`` is NO_SPLIT if there is none."""

    feature: int
    code: int
    missing_goes_left: bool
    edge: int  # right − left: its size, or, where missing values abstain, twice its value


@dataclass(frozen=True, eq=False)
class EdgeSearch:
    """The search for the cut of greatest edge on fixed rows."""

    matrix: Matrix
    rows: Array  # uint32, ascending
    missing_rule: int
    slack: int
    n_threads: int
    present: Array | None = None  # by row: 1 for those that count for min_leaf; None: no limit
    min_leaf: int = 1

    @lazy
    def _counts(self) -> Array:
        """The rows that are present, by feature and bin."""
        counts: Array = np.zeros((self.matrix.columns.shape[0], N_CODES), np.int64)
        if self.present is not None:
            for feature, column in enumerate(self.matrix.columns):
                counts[feature] = np.bincount(column[self.rows], self.present, N_CODES)
        return counts

    def best(self, signed_weights: Array, features: Array | None = None) -> EdgeCut:
        """The cut of greatest edge of ``features`` (all by default); ``signed_weights`` are by row, in units."""
        if features is None:
            features = np.arange(self.matrix.columns.shape[0])
        edges, codes, sides = (np.zeros(features.size, np.int64) for _ in range(3))
        run_blocks(
            search_edges,
            features.size,
            self.matrix,
            self.rows,
            signed_weights,
            features,
            self._counts,
            self.min_leaf,
            self.missing_rule,
            self.slack,
            np.empty((features.size, N_CODES), np.int64),
            edges,
            codes,
            sides,
            n_threads=self.n_threads,
            least=_LEAST_FEATURES,
        )
        sizes = np.abs(edges)
        best = int(np.argmax(sizes >= sizes.max() - self.slack))  # the first of equal ones
        return EdgeCut(
            int(features[best]), int(codes[best]), bool(sides[best] == GO_LEFT), int(edges[best])
        )


@kernel
def search_edges(
    first: int,
    last: int,
    matrix: Any,
    rows: Array,
    signed_weights: Array,
    features: Array,
    counts: Array,
    min_leaf: int,
    missing_rule: int,
    slack: int,
    histograms: Array,
    edges: Array,
    codes: Array,
    sides: Array,
) -> None:
    """Greatest edge, its cut and the side of missing values for each of ``features[first:last]``."""
    build_histograms(first, last, matrix, rows, signed_weights, 0, rows.size, features, histograms)
    for index in range(first, last):
        n_bins = matrix.n_bins[features[index]]
        if missing_rule == ABSTAIN:
            edges[index], codes[index] = best_signed_cut(histograms[index], n_bins, slack)
        else:
            edges[index], codes[index], sides[index] = best_separating_cut(
                histograms[index], counts[features[index]], n_bins, min_leaf, missing_rule, slack
            )


@kernel
def best_signed_cut(sums: Array, n_bins: int, slack: int) -> Any:
    """Twice the signed edge of greatest size, and its code; of edges within ``slack`` that of the least cut.

    Values above the cut count twice, missing values once, the others not at all, so halves stay whole numbers.
    """
    best_edge = np.int64(0)
    best_code = np.int64(NO_SPLIT)
    greatest = np.int64(0)
    above = np.int64(0)
    for code in range(n_bins - 2, -1, -1):
        above += sums[code + 1]
        edge = 2 * above + sums[MISSING_BIN]
        if edge != 0 and abs(edge) >= greatest - slack:
            best_edge = edge
            best_code = np.int64(code)
            greatest = max(greatest, abs(edge))
    return best_edge, best_code


@kernel
def best_separating_cut(
    sums: Array, counts: Array, n_bins: int, min_leaf: int, missing_rule: int, slack: int
) -> Any:
    """Greatest edge (0: none), its code and side of missing values; within ``slack`` that of the greatest cut."""
    total = sums[MISSING_BIN]
    n_rows = counts[MISSING_BIN]
    for code in range(n_bins):
        total += sums[code]
        n_rows += counts[code]
    has_missing = counts[MISSING_BIN] > 0
    best_edge = np.int64(0)
    best_code = np.int64(NO_SPLIT)
    best_side = np.int64(GO_RIGHT)
    known_left = np.int64(0)
    n_known_left = np.int64(0)
    for code in range(n_bins - 1):
        if counts[code] == 0:  # the same cut as the one before
            continue
        known_left += sums[code]
        n_known_left += counts[code]
        for side in (GO_RIGHT, GO_LEFT):
            if not is_tried(side, has_missing, missing_rule):
                continue
            left = known_left + (sums[MISSING_BIN] if side == GO_LEFT else np.int64(0))
            n_left = n_known_left + (counts[MISSING_BIN] if side == GO_LEFT else np.int64(0))
            if n_left < min_leaf or n_rows - n_left < min_leaf:
                continue
            edge = abs(total - 2 * left)
            is_later = code > best_code and edge >= best_edge - slack
            if edge > 0 and (edge > best_edge + slack or is_later):
                best_edge = max(best_edge, edge)
                best_code = np.int64(code)
                best_side = np.int64(side)
    return best_edge, best_code, best_side
