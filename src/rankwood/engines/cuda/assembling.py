"""From the records of the nodes that the GPU has grown to trees: values, thresholds and gains in the caller's units."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood.dtypes import Array
from rankwood.trees.grower import Policies, Tree, node_values, thresholds_of
from rankwood.trees.packing import Scales, choose_units
from rankwood.trees.workspace import Matrix

# ``Node`` of common.cuh.
NODE = np.dtype(
    [
        ("gain", np.float64),
        ("packed_sum", np.int64),
        ("path", np.uint64),
        ("position", np.int64),
        ("n_rows", np.int64),
        ("target_sum", np.int64),
        ("weight_sum", np.int64),
        ("begin", np.uint32),
        ("end", np.uint32),
        ("depth", np.int32),
        ("feature", np.int32),
        ("left", np.int32),
        ("missing", np.int32),
        ("code", np.uint8),
        ("side", np.uint8),
        ("buffer", np.uint8),
        ("unused", np.uint8),
        ("slot", np.int32),
    ],
    align=True,
)


def assembled(
    matrix: Matrix,
    records: Array,
    sizes: Array,
    scales: Scales,
    policies: Policies,
    leaf_of_row: Any,
) -> Tree:
    """The tree of these nodes; ``sizes`` are the ``DrawnRows.sizes`` of its rows."""
    units = choose_units(scales, sizes)
    left, missing = (np.ascontiguousarray(records[name]) for name in ("left", "missing"))
    is_leaf = left == 0
    right = np.where(is_leaf, 0, left + 1).astype(np.int32)
    feature = np.where(is_leaf, -1, records["feature"]).astype(np.int32)
    code = np.where(is_leaf, 0, records["code"]).astype(np.uint8)
    sums = np.stack((records["target_sum"], records["weight_sum"]), axis=1)
    value, cover = node_values(sums, scales, policies.l2, left, right, missing, policies.l1)
    gain = records["gain"]
    if policies.costs is not None:  # the gain without the cost
        penalty = policies.candidates(matrix.columns.shape[0], units.gain_unit).penalty
        gain = gain + penalty[feature]
    gain = np.where(is_leaf, 0.0, gain / units.gain_unit)
    threshold = thresholds_of(matrix, feature, code)
    return Tree(feature, threshold, code, left, right, missing, value, cover, gain, leaf_of_row)
