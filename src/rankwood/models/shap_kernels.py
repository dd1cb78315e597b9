"""Shapley values of documents in trees: exact, and linear in the size of a tree.

Words used here
    edge       the step from a node to one of its children; edges of a tree stand in the order of a walk that goes
               down first, so an edge's depth says where the walk goes on
    share      the part of the node's training rows that went down the edge
    follows    whether a document passes the edge's test, and those of all edges above it that test the same feature
    above      the nearest edge on the way to the root that tests the same feature
    point      where the integral below is taken; with m points it is exact for 2 m features on a path
    lane       one of eight documents that are explained side by side

What a tree says when only the features of a set are known is Σ over leaves of the leaf's value times, for each
feature of its path, 1 or 0 (known: does the document follow?) or the product of the shares (not known). A feature's
Shapley value averages what adding it changes over all orders in which features become known. With each
feature known with probability t, that average is an integral over t (Owen 1972)::

    φ_j = Σ_leaves value · (o_j - z_j) · ∫ Π_{i ≠ j} f_i(t) dt,    f_i(t) = t · o_i + (1 - t) · z_i

where o is 1 if the document follows and z the product of shares. The integrand is a polynomial in t, of a degree below
the number of features on the path: Gauss and Legendre's points give the integral itself, not an estimate of it. Going
down, products of the f are kept; coming up, sums over the leaves below each edge, times ``(o - z) / f`` of its
feature. Where a feature is tested again, the upper edge's part is taken back. All terms of a product are positive, so
nothing cancels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array

LANES = 8
CHUNK = 256  # documents that go through a tree after its tables are made
TAKES_LOW, TAKES_HIGH, TAKES_MISSING = 1, 2, 4  # which documents go down an edge
FOLLOWING, LEAVING, GAIN_FOLLOWING, GAIN_LEAVING = 0, 1, 2, 3  # columns of the tables
N_TABLES = 4


class Edges(NamedTuple):
    """The edges of all trees, and what belongs to each tree."""

    offsets: Array  # first edge of each tree
    column: Array  # the feature that is tested, as its place among those used
    threshold: Array
    takes: Array  # which documents go down: a sum of TAKES_…
    depth: Array  # 1 below the root
    depth_above: Array  # of the edge above; 0 if the feature is not tested higher up
    share: Array
    product: Array  # of the shares of this edge and all above it that test the same feature
    product_above: Array  # 1 if the feature is not tested higher up
    value: Array  # of the leaf the edge leads to
    is_leaf: Array
    tree_factors: Array  # what a tree's values are multiplied with
    n_points: Array  # per tree
    deepest: Array  # per tree


@kernel
def explain_rows(
    first: int,
    last: int,
    matrix: Array,
    used: Array,
    edges: Edges,
    points: Array,
    weights: Array,
    contributions: Array,
) -> None:
    """Write the Shapley values of rows ``first`` to ``last`` for the used features.

    ``points`` and ``weights`` have a row for each number of points. A row's trees are added in their order, whatever
    rows are beside it.
    """
    deepest, most_edges = 0, 1
    for tree in range(edges.offsets.size - 1):
        deepest = max(deepest, edges.deepest[tree])
        most_edges = max(most_edges, edges.offsets[tree + 1] - edges.offsets[tree])
    n_points, n_blocks = points.shape[1], min(CHUNK, last - first + LANES - 1) // LANES
    tables = np.empty((most_edges, n_points, N_TABLES), np.float64)
    products = np.empty((deepest + 1, n_points, LANES), np.float64)
    sums = np.empty((deepest + 1, n_points, LANES), np.float64)
    follows = np.empty((deepest + 1, LANES), np.int64)
    way = np.empty(deepest + 1, np.int64)
    values = np.zeros((n_blocks, used.size, LANES), np.float32)
    totals = np.empty((n_blocks, used.size, LANES), np.float64)
    for start in range(first, last, CHUNK):
        size = min(CHUNK, last - start)
        for row in range(size):
            for column in range(used.size):
                values[row // LANES, column, row % LANES] = matrix[start + row, used[column]]
        totals[:] = 0.0
        for tree in range(edges.offsets.size - 1):
            make_tables(edges, tree, points, weights, tables)
            for block in range((size + LANES - 1) // LANES):
                walk_tree(
                    edges, tree, tables, values[block], products, sums, follows, way, totals[block]
                )
        for row in range(size):
            for column in range(used.size):
                contributions[start + row, used[column]] = totals[row // LANES, column, row % LANES]


@kernel
def make_tables(edges: Edges, tree: int, points: Array, weights: Array, tables: Array) -> None:
    """What each edge does at each point: to the products, if followed or left here; and to its feature's value."""
    start, n_points = edges.offsets[tree], edges.n_points[tree]
    for edge in range(start, edges.offsets[tree + 1]):
        z, z_above = edges.product[edge], edges.product_above[edge]
        for point in range(n_points):
            t, weight = points[n_points, point], weights[n_points, point]
            f, f_above = t + (1.0 - t) * z, t + (1.0 - t) * z_above
            gain_above = (1.0 - z_above) / f_above
            of_point = tables[edge - start, point]
            of_point[FOLLOWING] = f / f_above
            of_point[LEAVING] = (1.0 - t) * z / f_above
            of_point[GAIN_FOLLOWING] = weight * ((1.0 - z) / f - gain_above)
            of_point[GAIN_LEAVING] = weight * (-1.0 / (1.0 - t) - gain_above)


@kernel
def walk_tree(
    edges: Edges,
    tree: int,
    tables: Array,
    values: Array,
    products: Array,
    sums: Array,
    follows: Array,
    way: Array,
    totals: Array,
) -> None:
    """Add the Shapley values of eight documents in one tree to their totals (features × lanes)."""
    start, n_points = edges.offsets[tree], edges.n_points[tree]
    for lane in range(LANES):
        follows[0, lane] = 1
        for point in range(n_points):
            products[0, point, lane] = edges.tree_factors[tree]
            sums[0, point, lane] = 0.0
    depth = 0
    for edge in range(start, edges.offsets[tree + 1]):
        level = edges.depth[edge]
        while depth >= level:
            come_up(edges, way[depth], n_points, tables[way[depth] - start], follows, sums, totals)
            depth -= 1
        of_edge, column = tables[edge - start], edges.column[edge]
        followed = follows[edges.depth_above[edge]]
        pass_test(
            edges.takes[edge], edges.threshold[edge], values[column], followed, follows[level]
        )
        if edges.is_leaf[edge]:
            add_leaf(
                edges,
                edge,
                n_points,
                of_edge,
                followed,
                follows[level],
                products[level - 1],
                sums[level - 1],
                totals[column],
            )
        else:
            go_down(
                edges.share[edge],
                n_points,
                of_edge,
                followed,
                follows[level],
                products,
                sums,
                level,
            )
            way[level] = edge
            depth = level
    while depth > 0:
        come_up(edges, way[depth], n_points, tables[way[depth] - start], follows, sums, totals)
        depth -= 1


@kernel
def pass_test(takes: int, threshold: float, values: Array, followed: Array, follows: Array) -> None:
    """Which of the documents that followed the feature's edges above follow this one too."""
    low = 1 if takes & TAKES_LOW else 0
    high = 1 if takes & TAKES_HIGH else 0
    missing = 1 if takes & TAKES_MISSING else 0
    for lane in range(LANES):
        value = values[lane]
        goes = low if value <= threshold else high
        goes = goes if value == value else missing  # noqa: PLR0124 - NaN
        follows[lane] = goes & followed[lane]


@kernel
def go_down(
    share: float,
    n_points: int,
    of_edge: Array,
    followed: Array,
    follows: Array,
    products: Array,
    sums: Array,
    level: int,
) -> None:
    """The products below an edge."""
    for point in range(n_points):
        following, leaving = of_edge[point, FOLLOWING], of_edge[point, LEAVING]
        before, after, below = (
            products[level - 1, point],
            products[level, point],
            sums[level, point],
        )
        for lane in range(LANES):
            otherwise = leaving if followed[lane] else share
            after[lane] = before[lane] * (following if follows[lane] else otherwise)
            below[lane] = 0.0


@kernel
def add_leaf(
    edges: Edges,
    edge: int,
    n_points: int,
    of_edge: Array,
    followed: Array,
    follows: Array,
    products: Array,
    sums: Array,
    totals: Array,
) -> None:
    """Add a leaf to the sums of the edges above it, and its edge's part to the feature's totals."""
    share, value = edges.share[edge], edges.value[edge]
    for point in range(n_points):
        following, leaving = value * of_edge[point, FOLLOWING], value * of_edge[point, LEAVING]
        gain_following, gain_leaving = of_edge[point, GAIN_FOLLOWING], of_edge[point, GAIN_LEAVING]
        before, beside = products[point], sums[point]
        for lane in range(LANES):
            otherwise = leaving if followed[lane] else share * value
            part = before[lane] * (following if follows[lane] else otherwise)
            gain = gain_leaving if followed[lane] else 0.0
            beside[lane] += part
            totals[lane] += part * (gain_following if follows[lane] else gain)


@kernel
def come_up(
    edges: Edges,
    edge: int,
    n_points: int,
    of_edge: Array,
    follows: Array,
    sums: Array,
    totals: Array,
) -> None:
    """Add the sums below an inner edge to those beside it, and its part to the feature's totals."""
    level, of_feature = edges.depth[edge], totals[edges.column[edge]]
    followed, now = follows[edges.depth_above[edge]], follows[level]
    for point in range(n_points):
        gain_following, gain_leaving = of_edge[point, GAIN_FOLLOWING], of_edge[point, GAIN_LEAVING]
        below, beside = sums[level, point], sums[level - 1, point]
        for lane in range(LANES):
            gain = gain_leaving if followed[lane] else 0.0
            beside[lane] += below[lane]
            of_feature[lane] += below[lane] * (gain_following if now[lane] else gain)
