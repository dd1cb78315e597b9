"""Scores and leaves of documents: what stands between a forest and its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwood import _checks, _threads
from rankwood.binning.bins import MISSING_BIN, Bins
from rankwood.dtypes import SCORE, Array, Features, Floats, Rows
from rankwood.errors import DataError, ModelError
from rankwood.models.forest_checks import NODE
from rankwood.models.inputs import features_in_order
from rankwood.models.packing import PackedForest, pack
from rankwood.models.scoring_kernels import traverse

if TYPE_CHECKING:
    from rankwood.models.forest import Forest

_LEAST_WALKS = (
    200_000  # documents × trees per thread, some 2 ms: below, a thread costs more than it saves
)

_GATHERED_ROWS = 1 << 16  # copied at a time when not all rows are scored

_NO_BITS = _checks.read_only(np.zeros((0, 1), np.uint32))
_NO_CODES = _checks.read_only(np.zeros((0, 0), np.uint8))
_NO_TOTALS = np.zeros(0, SCORE)
_NO_LEAVES = np.zeros((0, 0), NODE)


def predict(
    forest: Forest, features: Any, n_threads: int | None, first_trees: int | None
) -> Floats:
    """The score of each row."""
    n_trees = _tree_count(forest, first_trees)
    matrix = features_in_order(features, forest.n_features, forest.feature_names)
    totals = np.zeros(len(matrix), SCORE)
    _traverse(forest.packed, 0, n_trees, bits_of(matrix), _NO_CODES, totals, _NO_LEAVES, n_threads)
    return scores_of(forest, totals, n_trees)


def predict_stages(
    forest: Forest, features: Any, every: int, n_threads: int | None
) -> Iterator[tuple[int, Floats]]:
    """Numbers of trees and the scores of that many; what is wrong is said at the call, not at the first stage."""
    step = _checks.whole_number("every", every, 1)
    matrix = features_in_order(features, forest.n_features, forest.feature_names)
    return _stages(forest, bits_of(matrix), step, n_threads)


def _stages(
    forest: Forest, bits: Array, step: int, n_threads: int | None
) -> Iterator[tuple[int, Floats]]:
    totals = np.zeros(len(bits), SCORE)
    for first in range(0, forest.n_trees, step):
        last = min(first + step, forest.n_trees)
        _traverse(forest.packed, first, last, bits, _NO_CODES, totals, _NO_LEAVES, n_threads)
        yield last, scores_of(forest, totals.copy(), last)


def predict_binned(
    forest: Forest, codes: Any, bins: Bins, n_threads: int | None, first_trees: int | None
) -> Floats:
    """The score of each row of binned features."""
    n_trees = _tree_count(forest, first_trees)
    columns = np.asarray(codes)
    if columns.dtype != np.uint8 or columns.ndim != 2:
        raise DataError(
            "codes must be a uint8 array of features × rows, "
            f"got {columns.dtype} of {columns.ndim} dimensions."
        )
    if len(columns) != forest.n_features:
        raise DataError(
            f"the model knows {forest.n_features:,} features, but the codes have {len(columns):,}."
        )
    packed = pack(forest, _bin_of_node(forest, bins))
    totals = np.zeros(columns.shape[1], SCORE)
    columns = _checks.read_only(np.require(columns, requirements=["C", "ALIGNED"]))
    _traverse(packed, 0, n_trees, _NO_BITS, columns, totals, _NO_LEAVES, n_threads)
    return scores_of(forest, totals, n_trees)


def leaf_ids(forest: Forest, features: Any, n_threads: int | None) -> Array:
    """The number of the leaf of each row in each tree."""
    matrix = features_in_order(features, forest.n_features, forest.feature_names)
    leaves = np.empty((len(matrix), forest.n_trees), NODE)
    bits = bits_of(matrix)
    _traverse(forest.packed, 0, forest.n_trees, bits, _NO_CODES, _NO_TOTALS, leaves, n_threads)
    return leaves


def add_trees(
    forest: Forest,
    matrix: Features,
    rows: Rows,
    first_tree: int,
    last_tree: int,
    totals: Floats,
    n_threads: int | None,
) -> None:
    """Add what trees ``first_tree`` to ``last_tree`` say about ``rows`` of a matrix to these rows' totals."""
    bits = bits_of(matrix)
    for begin in range(0, rows.size, _GATHERED_ROWS):
        chosen = rows[begin : begin + _GATHERED_ROWS]
        sums = totals[chosen]
        _traverse(
            forest.packed,
            first_tree,
            last_tree,
            _checks.read_only(bits[chosen]),
            _NO_CODES,
            sums,
            _NO_LEAVES,
            n_threads,
        )
        totals[chosen] = sums


def _traverse(
    forest: PackedForest,
    first_tree: int,
    last_tree: int,
    bits: Array,
    codes: Array,
    totals: Floats,
    leaves: Array,
    n_threads: int | None,
) -> None:
    """Walk all rows of ``bits``, or of ``codes`` if there are none, down the trees: see ``traverse``."""
    from_codes = bits is _NO_BITS
    n_rows = codes.shape[1] if from_codes else len(bits)
    arguments = (
        first_tree,
        last_tree,
        bits,
        codes,
        from_codes,
        MISSING_BIN,
        forest.columns,
        forest.missing_keys,
        forest.offsets,
        forest.packed,
        forest.left_shift,
        forest.wide,
        forest.values,
        forest.numbers,
        leaves is not _NO_LEAVES,
        totals,
        leaves,
    )
    least = max(1, _LEAST_WALKS // max(1, last_tree - first_tree))
    if n_threads is None and n_rows < 2 * least:
        traverse(0, n_rows, *arguments)  # asking how many cores there are would take longer
    else:
        _threads.run_blocks(traverse, n_rows, *arguments, n_threads=n_threads, least=least)


def scores_of(forest: Forest, totals: Floats, n_trees: int) -> Floats:
    """Scores from sums over the first trees, written in their place."""
    if forest.average:
        totals /= divisors(forest)[n_trees]
    totals += forest.base
    return totals


def divisors(forest: Forest) -> Floats:
    """What the sum of so many first trees is divided by: their weight where they are averaged, else 1."""
    weights = np.zeros(forest.n_trees + 1)
    if forest.average:
        np.cumsum(forest.tree_weights, out=weights[1:])
    return np.where(weights > 0, weights, 1.0)


def _tree_count(forest: Forest, first_trees: int | None) -> int:
    if first_trees is None:
        return forest.n_trees
    return _checks.whole_number("first_trees", first_trees, 0, forest.n_trees)


def bits_of(matrix: Features) -> Array:
    """The bits of the values, which the kernels make keys of."""
    return _checks.read_only(matrix.view(np.uint32))


def _bin_of_node(forest: Forest, bins: Bins) -> Array:
    """The bin whose upper end is each inner node's threshold; 0 for leaves."""
    n_features = bins.offsets.size - 1
    if n_features != forest.n_features:
        raise DataError(
            f"the model knows {forest.n_features:,} features, but the bins are of {n_features:,}."
        )
    bin_of_node = np.zeros(forest.n_nodes, np.int64)
    for feature in np.unique(forest.feature[forest.feature >= 0]).tolist():
        nodes = np.flatnonzero(forest.feature == feature)
        thresholds = bins.thresholds[bins.offsets[feature] : bins.offsets[feature + 1]]
        found = np.searchsorted(thresholds, forest.threshold[nodes])
        known = np.append(thresholds, np.float32(np.nan))[found] == forest.threshold[nodes]
        if not known.all():
            node = int(nodes[np.argmin(known)])
            raise ModelError(
                f"node {node} tests feature {feature} at {float(forest.threshold[node]):g}, which "
                "is not among the thresholds of the bins. Score the raw values instead."
            )
        bin_of_node[nodes] = found
    return bin_of_node
