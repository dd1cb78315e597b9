"""``contributions``: exact Shapley values, the contribution of each feature to the score of each document.

Unknown features are averaged over the training rows as the trees split them (path-dependent TreeSHAP, Lundberg et al.
2020): at a split on an unknown feature a document follows every edge, weighted by the rows that went there.
Contributions and base sum to the score.

If only the features of a set are known, a tree's output is the sum over its leaves of the leaf's value times, for each
feature of its path, 1 or 0 (known: does the document follow?) or the product of the shares (unknown). The Shapley
value of a feature averages the change by adding it over all orders in which features become known. With each feature
known with probability t, that average is an integral over t (Owen 1972)::

    φ_j = Σ_leaves value · (o_j - z_j) · ∫ Π_{i ≠ j} f_i(t) dt,    f_i(t) = t · o_i + (1 - t) · z_i

where o is 1 if the document follows and z is the product of shares. The integrand is a polynomial in t of a degree
below the number of features on the path, so Gauss-Legendre quadrature is exact. Products of the f are computed going
down; sums over the leaves below each edge, times ``(o - z) / f`` of its feature, coming up. If a feature is tested
again, the contribution of the upper edge is subtracted. All factors are positive, so nothing cancels. The work is
linear in the size of a tree.

Terms
    edge       the step from a node to one of its children; the edges of a tree are in depth-first order
    share      the part of the node's training rows that went down the edge
    follows    whether a document passes the test of the edge, and of all edges above that test the same feature
    above      the nearest edge towards the root that tests the same feature
    point      a quadrature point; m points are exact for 2 m features on a path
    lane       one of eight documents that are explained together
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankwood._core import checks, threads
from rankwood._core.jit import kernel
from rankwood.dtypes import FEATURE, SCORE, WEIGHT, Array, Features, Floats
from rankwood.errors import DataError, ModelError
from rankwood.models.blend import BlendModel
from rankwood.models.family import Family
from rankwood.models.forest import Forest, levels
from rankwood.models.linear import LinearModel
from rankwood.models.ordinal import OrdinalModel
from rankwood.models.scoring import divisors
from rankwood.models.validate import features_in_order, features_of
from rankwood.trees.subsets import has_any, holds, word_of
from rankwood.trees.workspace import N_WORDS

_LEAST_EDGES = 100_000  # documents × edges per thread, about 2 ms

_MOST_POINTS = 256  # of quadrature: memory and time grow with its square

_LEAVES_AT_ONCE = 1 << 24  # rows × trees counted together: 64 MiB of leaves

LANES = 8
CHUNK = 256  # documents that pass a tree while its tables are in the cache
TAKES_LOW, TAKES_HIGH, TAKES_MISSING = 1, 2, 4  # which documents go down an edge
FOLLOWING, LEAVING, GAIN_FOLLOWING, GAIN_LEAVING = 0, 1, 2, 3  # columns of the tables
N_TABLES = 4


def contributions(
    model: Any, features: Any, *, background: Any = None, n_threads: int | None = None
) -> tuple[Floats, float]:
    """The contribution of each feature to each row's score (rows × features), and the base.

    Parameters
    ----------
    model
        A ``Forest``; the chosen one of a ``Family``; an ``OrdinalModel`` that does not clip; a ``LinearModel``, whose
        base is the score of the values that replace missing ones; a ``BlendModel`` of these with constant weights.
    features
        Rows × features: an array, a frame, a sparse matrix, a RankingData.
    background
        Rows from which the share of each edge is counted, if the model has no covers, or if documents are to be
        compared with these rows instead of the training rows.

    The values of a row do not depend on the number of threads or on other rows.
    """
    if isinstance(model, BlendModel) and not model.gates and not model.is_sum_of_trees:
        return _of_blend(model, features, background, n_threads)
    form = additive_form(model, background=background, n_threads=n_threads)
    if isinstance(form, LinearModel):
        return _of_linear(form, features_in_order(features, form.n_features, form.feature_names))
    return form.explainer.contributions(features, n_threads=n_threads)


def additive_form(
    model: Any, *, background: Any = None, n_threads: int | None = None
) -> Forest | LinearModel:
    """The model as a forest or a linear model, its covers counted in ``background`` if it is given."""
    if isinstance(model, LinearModel):
        return model
    forest = model.forest if isinstance(model, OrdinalModel | Family | BlendModel) else model
    if not isinstance(forest, Forest):
        raise ModelError(
            f"a {type(model).__name__} is no sum of trees or of features, so its scores cannot be divided "
            "among features exactly. Explain a ranker made of trees, or ask for importance by permutation."
        )
    if background is None:
        return forest
    return with_covers(forest, background, n_threads=n_threads)


def _of_blend(
    model: BlendModel, features: Any, background: Any, n_threads: int | None
) -> tuple[Floats, float]:
    """The weighted sum of the contributions to the parts' scores: Shapley values of a sum are the sums of theirs."""
    matrix = features_in_order(features, model.n_features, model.feature_names)
    total: Floats = np.zeros(matrix.shape, SCORE)
    base = 0.0
    for part, factor, centre in zip(model.parts, model.factors, model.centres, strict=True):
        if factor > 0:
            own, own_base = contributions(part, matrix, background=background, n_threads=n_threads)
            total += factor * own
            base += float(factor * (own_base - centre))
    return total, base


def _of_linear(model: LinearModel, matrix: Features) -> tuple[Floats, float]:
    """Weight times the distance from the value that replaces a missing one."""
    model.predict(matrix)  # raises for values without a score
    used = model.used
    fill, chosen = model.fill[used], matrix[:, used].astype(SCORE)
    parts: Floats = np.zeros(matrix.shape, SCORE)
    parts[:, used] = (np.where(np.isnan(chosen), fill, chosen) - fill) * model.weights[used]
    return parts, model.intercept + float((model.weights * model.fill).sum())


@dataclass(frozen=True, eq=False)
class TreeExplainer:
    """A forest in the layout for explaining.

    Parameters
    ----------
    forest
        The forest that is explained.
    base
        The expected score over the training rows as the trees split them.
    edges, used
        The edges of all trees; the features they test.
    points, weights
        Quadrature points and weights, a row for each number of points.
    """

    forest: Forest
    base: float
    edges: Edges
    used: Array
    points: Floats
    weights: Floats

    @classmethod
    def of(cls, forest: Forest) -> TreeExplainer:
        """The explainer of a forest with covers."""
        shares = shares_of(forest)
        factors = checks.read_only(forest.tree_weights / divisors(forest)[-1])
        used = np.unique(forest.feature[forest.feature >= 0]).astype(np.int64)
        edges = _edges(forest, shares, used, factors)
        points, weights = _quadrature(edges.n_points)
        base = forest.base + float((factors * expected_values(forest, shares)).sum())
        return cls(forest, base, edges, checks.read_only(used), points, weights)

    def contributions(self, features: Any, *, n_threads: int | None = None) -> tuple[Floats, float]:
        """The contribution of each feature to each row's score, and the base."""
        forest = self.forest
        matrix = features_of(features, forest)
        parts: Floats = np.zeros((len(matrix), forest.n_features), SCORE)
        arguments = (
            checks.read_only(matrix),
            self.used,
            self.edges,
            self.points,
            self.weights,
            parts,
        )
        least = max(1, _LEAST_EDGES // max(1, self.edges.depth.size))
        if n_threads is None and len(matrix) < 2 * least:
            explain_rows(0, len(matrix), *arguments)  # counting the cores would take longer
        else:
            threads.run_blocks(
                explain_rows, len(matrix), *arguments, n_threads=n_threads, least=least
            )
        return parts, self.base


def _edges(forest: Forest, shares: Floats, used: Array, factors: Floats) -> Edges:
    """The edges of all trees, in depth-first order."""
    n_edges, n_trees = forest.n_nodes - forest.n_trees, forest.n_trees
    column_of_feature = np.zeros(forest.n_features, np.int64)
    column_of_feature[used] = np.arange(used.size)
    whole = {"offsets": n_trees + 1, "n_points": n_trees, "deepest": n_trees}
    real = ("share", "product", "product_above", "value")
    arrays: dict[str, Array] = {}
    for name in Edges._fields:
        dtype = WEIGHT if name in real else np.int64
        arrays[name] = np.zeros(whole.get(name, n_edges), dtype)
    arrays |= {"threshold": np.zeros(n_edges, FEATURE), "tree_factors": factors}
    arrays["subsets"] = np.zeros((n_edges if len(forest.subsets) else 0, N_WORDS), np.uint64)
    edges = Edges(**arrays)
    nodes = Nodes(
        forest.tree_offsets,
        forest.feature,
        forest.threshold,
        forest.left,
        forest.right,
        forest.missing,
        forest.value,
        checks.read_only(shares),
        forest.subsets,
    )
    most_nodes = int(np.diff(forest.tree_offsets).max(initial=1))
    order_edges(nodes, checks.read_only(column_of_feature), most_nodes, edges)
    return Edges(*(checks.read_only(array) for array in edges))


def _quadrature(n_points: Array) -> tuple[Floats, Floats]:
    """Gauss-Legendre points and weights on [0, 1]; row n of each has those of n points."""
    most = int(n_points.max(initial=1))
    if most > _MOST_POINTS:
        tree = int(np.argmax(n_points))
        raise ModelError(
            f"tree {tree} tests {2 * most - 1:,} different features or more on one path; explanations take up to "
            f"{2 * _MOST_POINTS:,}."
        )
    points, weights = np.zeros((2, most + 1, most))
    for number in np.unique(n_points[n_points > 0]).tolist():
        at, weight = np.polynomial.legendre.leggauss(number)
        points[number, :number], weights[number, :number] = (1 + at) / 2, weight / 2
    return checks.read_only(points), checks.read_only(weights)


# The share of rows on each edge, from the covers of training or from data.


def shares_of(forest: Forest) -> Floats:
    """The share of its parent's rows that each node has; 1 for roots.

    The children of a node that no row has reached have equal shares.
    """
    inner = np.flatnonzero(forest.feature >= 0)
    left, right, missing = forest.left[inner], forest.right[inner], forest.missing[inner]
    is_third = (missing != left) & (missing != right)
    total = forest.cover[left] + forest.cover[right] + np.where(is_third, forest.cover[missing], 0)
    roots = forest.tree_offsets[:-1]
    bare = np.isin(inner, roots) & (total <= 0)
    if bare.any():
        tree = int(np.searchsorted(roots, inner[np.argmax(bare)]))
        raise ModelError(
            f"tree {tree} does not say how many rows went where: its covers are 0, as in models that were made "
            "elsewhere. Pass background=, data such as the model was trained on."
        )
    is_reached = total > 0
    shares = np.ones(forest.n_nodes, WEIGHT)
    for child in (left, right, missing):
        parts = forest.cover[child] / np.where(is_reached, total, 1.0)
        shares[child] = np.where(is_reached, parts, 1.0 / (2 + is_third))
    return shares


def expected_values(forest: Forest, shares: Floats) -> Floats:
    """The mean of each tree's leaves, weighted by the shares on the path to them."""
    if forest.n_trees == 0:
        return np.zeros(0, SCORE)
    reach = shares.copy()
    for parents, children in levels(forest):
        reach[children] *= reach[parents]
    of_leaves = np.where(forest.feature < 0, reach * forest.value, 0.0)
    means: Floats = np.add.reduceat(of_leaves, forest.tree_offsets[:-1])
    return means


def with_covers(forest: Forest, background: Any, *, n_threads: int | None = None) -> Forest:
    """The forest with new covers: the number of rows of ``background`` that pass each node."""
    matrix = features_of(background, forest)
    if len(matrix) == 0:
        raise DataError("background has no rows, so nothing says how often each way is taken.")
    cover: Floats = np.zeros(forest.n_nodes, WEIGHT)
    step = max(1, _LEAVES_AT_ONCE // max(1, forest.n_trees))
    for first in range(0, len(matrix), step):
        leaves = forest.leaf_ids(matrix[first : first + step], n_threads=n_threads)
        nodes = (leaves + forest.tree_offsets[:-1]).ravel()
        cover += np.bincount(nodes, minlength=forest.n_nodes)
    for parents, children in reversed(list(levels(forest))):
        np.add.at(cover, parents, cover[children])
    return dataclasses.replace(forest, cover=cover)


# Kernels: explaining documents.


class Edges(NamedTuple):
    """The edges of all trees, and what belongs to each tree."""

    offsets: Array  # first edge of each tree
    column: Array  # the tested feature, as its index among those used
    threshold: Array
    takes: Array  # which documents follow: a sum of TAKES_…
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
    subsets: Array  # categories that take the lower side, 0 where numbers are compared; empty without categories


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
    subsets: Array


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

    ``points`` and ``weights`` have a row for each number of points. The trees of a row are always added in order.
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
    """The factors of each edge at each point: of the products if followed or left here, and of its feature's value."""
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
        subsets = edges.subsets
        if subsets.shape[0] > 0 and has_any(
            subsets[edge, 0], subsets[edge, 1], subsets[edge, 2], subsets[edge, 3]
        ):
            takes, subset = edges.takes[edge], subsets[edge]
            pass_test_of_categories(takes, subset, values[column], followed, follows[level])
        else:
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
    """Set ``follows`` for the documents that followed the feature's edges above and follow this one too."""
    low = 1 if takes & TAKES_LOW else 0
    high = 1 if takes & TAKES_HIGH else 0
    missing = 1 if takes & TAKES_MISSING else 0
    for lane in range(LANES):
        value = values[lane]
        goes = low if value <= threshold else high
        goes = goes if value == value else missing  # noqa: PLR0124 - NaN
        follows[lane] = goes & followed[lane]


@kernel
def pass_test_of_categories(
    takes: int, subset: Array, values: Array, followed: Array, follows: Array
) -> None:
    """As ``pass_test`` where the categories of ``subset`` take the lower side."""
    low = 1 if takes & TAKES_LOW else 0
    high = 1 if takes & TAKES_HIGH else 0
    missing = 1 if takes & TAKES_MISSING else 0
    for lane in range(LANES):
        value = values[lane]
        goes = missing
        if value == value:  # noqa: PLR0124 - NaN
            category = np.uint64(np.int64(value))
            goes = low if holds(subset[word_of(category)], category) else high
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
    """Compute the products below an edge."""
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
    """Add a leaf to the sums of the edges above it, and the contribution of its edge to the feature's totals."""
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
    """Add the sums below an inner edge to those beside it, and its contribution to the feature's totals."""
    level, of_feature = edges.depth[edge], totals[edges.column[edge]]
    followed, now = follows[edges.depth_above[edge]], follows[level]
    for point in range(n_points):
        gain_following, gain_leaving = of_edge[point, GAIN_FOLLOWING], of_edge[point, GAIN_LEAVING]
        below, beside = sums[level, point], sums[level - 1, point]
        for lane in range(LANES):
            gain = gain_leaving if followed[lane] else 0.0
            beside[lane] += below[lane]
            of_feature[lane] += below[lane] * (gain_following if now[lane] else gain)


# Kernels: the edges of a forest in depth-first order.


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
def push_children(nodes: Nodes, node: int, level: int, stack: Array, size: int) -> int:
    """Push the children of an inner node on the stack, the left one on top; returns the stack's new size."""
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
def come_back(depth: int, level: int, way: Array, columns: Array, last_edge: Array) -> int:
    """Remove the edges from ``level`` down from the path; returns the remaining depth."""
    while depth >= level:
        last_edge[columns[way[depth, 0]]] = way[depth, 1]
        depth -= 1
    return depth


@kernel
def write_edge(nodes: Nodes, node: int, parent: int, edge: int, above: int, edges: Edges) -> None:
    """Write one edge from the nodes at its ends; ``above`` is -1 if the feature is not tested higher up."""
    takes = TAKES_LOW if nodes.left[parent] == node else 0
    takes += TAKES_HIGH if nodes.right[parent] == node else 0
    takes += TAKES_MISSING if nodes.missing[parent] == node else 0
    edges.takes[edge] = takes
    edges.threshold[edge] = nodes.threshold[parent]
    if nodes.subsets.shape[0] > 0:
        for word in range(N_WORDS):
            edges.subsets[edge, word] = nodes.subsets[parent, word]
    edges.share[edge] = nodes.share[node]
    edges.depth_above[edge] = 0 if above < 0 else edges.depth[above]
    edges.product_above[edge] = 1.0 if above < 0 else edges.product[above]
    edges.product[edge] = edges.product_above[edge] * nodes.share[node]
    edges.is_leaf[edge] = 1 if nodes.feature[node] < 0 else 0
    edges.value[edge] = nodes.value[node]
