"""From the records of the nodes that the GPU has grown to trees: values, thresholds and gains in the caller's units."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rankwood.dtypes import Array
from rankwood.engines.engine import TreeRequest
from rankwood.trees.grower import Tree, node_values, thresholds_of
from rankwood.trees.packing import choose_units
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
    nodes: Array,
    results: Array,
    requests: Sequence[TreeRequest],
    leaves: Sequence[Any],
) -> list[Tree]:
    """The trees of a launch: ``nodes`` by tree, and ``results`` that say how many there are and what was drawn.

    All nodes are worked on together, since a call for each tree takes longer than its nodes.
    """
    n_nodes = results[:, 0]
    ends = np.cumsum(n_nodes)
    records = nodes[np.arange(nodes.shape[1]) < n_nodes[:, np.newaxis]]
    left, missing = (np.ascontiguousarray(records[name]) for name in ("left", "missing"))
    is_leaf = left == 0
    right = np.where(is_leaf, 0, left + 1).astype(np.int32)
    feature = np.where(is_leaf, -1, records["feature"]).astype(np.int32)
    code = np.where(is_leaf, 0, records["code"]).astype(np.uint8)
    sums = np.stack((records["target_sum"], records["weight_sum"]), axis=1)
    value, cover = np.empty(is_leaf.size), np.empty(is_leaf.size)
    begin = np.repeat(ends - n_nodes, n_nodes).astype(np.int32)
    for first, last in _runs(
        requests
    ):  # of trees that fit the same targets, as one tree after the other
        here = slice(int(ends[first] - n_nodes[first]), int(ends[last - 1]))
        below = np.where(is_leaf[here], 0, begin[here] - here.start).astype(np.int32)
        children = (left[here] + below, right[here] + below, missing[here] + below)
        scales, policies = requests[first].targets.scales, requests[first].policies
        value[here], cover[here] = node_values(
            sums[here], scales, policies.l2, *children, policies.l1
        )
    gain_units = [
        choose_units(request.targets.scales, sizes[1:4]).gain_unit
        for request, sizes in zip(requests, results.tolist(), strict=True)
    ]
    own = [
        slice(end - size, end) for size, end in zip(n_nodes.tolist(), ends.tolist(), strict=True)
    ]
    gain = np.ascontiguousarray(records["gain"])
    for request, unit, here in zip(requests, gain_units, own, strict=True):
        if request.policies.costs is not None:  # the gain without the cost
            penalty = request.policies.candidates(matrix.columns.shape[0], unit).penalty
            gain[here] += penalty[feature[here]]
    gain = np.where(is_leaf, 0.0, gain / np.repeat(gain_units, n_nodes))
    threshold = thresholds_of(matrix, feature, code)
    arrays: list[Array] = [feature, threshold, code, left, right, missing, value, cover, gain]
    of_trees = ([array[here] for array in arrays] for here in own)
    return [Tree(*given, one) for given, one in zip(of_trees, leaves, strict=True)]  # type: ignore[call-arg]


def _runs(requests: Sequence[TreeRequest]) -> Iterator[tuple[int, int]]:
    """Where neighbouring requests have the same targets: first, and behind the last."""
    first = 0
    for _, some in itertools.groupby(requests, lambda request: id(request.targets)):
        last = first + sum(1 for _ in some)
        yield first, last
        first = last
