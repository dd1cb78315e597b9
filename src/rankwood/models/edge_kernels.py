"""The edges of a forest in the order that the kernels of Shapley values walk them: see ``shap_kernels``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array
from rankwood.models.shap_kernels import TAKES_HIGH, TAKES_LOW, TAKES_MISSING, Edges


class Nodes(NamedTuple):
    """The nodes of a forest, with the share of its parent's rows that each has."""

    offsets: Array
    feature: Array
    threshold: Array
    left: Array
    right: Array
    missing: Array
    value: Array
    share: Array


@kernel
def order_edges(nodes: Nodes, column_of_feature: Array, most_nodes: int, edges: Edges) -> None:
    """Fill ``edges`` from the nodes of a forest, all but the trees' factors; no tree has more than ``most_nodes``."""
    stack = np.empty((most_nodes, 3), np.int64)  # child, parent, depth
    way = np.empty((most_nodes + 1, 2), np.int64)  # by depth: the edge, and the edge above it
    n_distinct = np.zeros(most_nodes + 1, np.int64)  # features tested, by depth
    last_edge = np.full(column_of_feature.size, -1, np.int64)  # per column, on the way down
    edge = 0
    for tree in range(nodes.offsets.size - 1):
        edges.offsets[tree] = edge
        most_distinct = deepest = depth = 0
        size = push_children(nodes, nodes.offsets[tree], 1, stack, 0)
        while size > 0:
            size -= 1
            node, parent, level = stack[size, 0], stack[size, 1], stack[size, 2]
            depth = come_back(depth, level, way, edges.column, last_edge)
            column = column_of_feature[nodes.feature[parent]]
            above = last_edge[column]
            edges.column[edge], edges.depth[edge] = column, level
            write_edge(nodes, node, parent, edge, above, edges)
            way[level, 0], way[level, 1] = edge, above
            n_distinct[level] = n_distinct[level - 1] + (1 if above < 0 else 0)
            most_distinct = max(most_distinct, n_distinct[level])
            deepest = max(deepest, level)
            last_edge[column] = edge
            depth = level
            size = push_children(nodes, node, level + 1, stack, size)
            edge += 1
        come_back(depth, 1, way, edges.column, last_edge)
        edges.n_points[tree] = (most_distinct + 1) // 2
        edges.deepest[tree] = deepest
    edges.offsets[nodes.offsets.size - 1] = edge


@kernel
def come_back(depth: int, level: int, way: Array, columns: Array, last_edge: Array) -> int:
    """Forget the edges of the way from ``level`` down; gives the depth that is left."""
    while depth >= level:
        last_edge[columns[way[depth, 0]]] = way[depth, 1]
        depth -= 1
    return depth


@kernel
def push_children(nodes: Nodes, node: int, level: int, stack: Array, size: int) -> int:
    """Put the children of an inner node on the stack, the left one on top; gives the stack's new size."""
    if nodes.feature[node] < 0:
        return size
    left, right, missing = nodes.left[node], nodes.right[node], nodes.missing[node]
    if missing not in (left, right):
        stack[size, 0], stack[size, 1], stack[size, 2] = missing, node, level
        size += 1
    stack[size, 0], stack[size, 1], stack[size, 2] = right, node, level
    stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = left, node, level
    return size + 2


@kernel
def write_edge(nodes: Nodes, node: int, parent: int, edge: int, above: int, edges: Edges) -> None:
    """One edge from the nodes at its ends; ``above`` is -1 where the feature is not tested higher up."""
    takes = TAKES_LOW if nodes.left[parent] == node else 0
    takes += TAKES_HIGH if nodes.right[parent] == node else 0
    takes += TAKES_MISSING if nodes.missing[parent] == node else 0
    edges.takes[edge] = takes
    edges.threshold[edge] = nodes.threshold[parent]
    edges.share[edge] = nodes.share[node]
    edges.depth_above[edge] = 0 if above < 0 else edges.depth[above]
    edges.product_above[edge] = 1.0 if above < 0 else edges.product[above]
    edges.product[edge] = edges.product_above[edge] * nodes.share[node]
    edges.is_leaf[edge] = 1 if nodes.feature[node] < 0 else 0
    edges.value[edge] = nodes.value[node]
