"""Exact Shapley values of documents: what each feature adds to a score, and the score of no feature at all.

Features that are not known are averaged over the training rows as the trees split them (path-dependent TreeSHAP,
Lundberg et al. 2020): at a split on an unknown feature a document goes down every edge, weighted by the rows
that went there. Contributions and base sum to the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood import _checks, _threads
from rankwood.dtypes import FEATURE, SCORE, WEIGHT, Array, Features, Floats
from rankwood.errors import ModelError
from rankwood.models import covers
from rankwood.models.edge_kernels import Nodes, order_edges
from rankwood.models.family import Family
from rankwood.models.forest import Forest
from rankwood.models.inputs import features_in_order
from rankwood.models.linear import LinearModel
from rankwood.models.ordinal import OrdinalModel
from rankwood.models.scoring import divisors
from rankwood.models.shap_kernels import Edges, explain_rows

_LEAST_EDGES = 100_000  # documents × edges per thread, some 2 ms


def contributions(
    model: Any, features: Any, *, background: Any = None, n_threads: int | None = None
) -> tuple[Floats, float]:
    """What each feature adds to each row's score (rows × features), and the base that they are added to.

    Parameters
    ----------
    model
        A ``Forest``; the chosen one of a ``Family``; an ``OrdinalModel`` that does not clip; a ``LinearModel``, whose
        base is the score of the values that stand for missing ones.
    features
        Rows × features: an array, a frame, a sparse matrix, a RankingData.
    background
        Rows that say how often each way through the trees is taken, where the model does not say so itself, or where
        documents are to be compared with these rows instead of the training rows.

    A row's numbers are the same to the bit for any number of threads and rows beside it.
    """
    form = additive_form(model, background=background, n_threads=n_threads)
    if isinstance(form, LinearModel):
        return _of_linear(form, features_in_order(features, form.n_features, form.feature_names))
    return form.explainer.contributions(features, n_threads=n_threads)


def additive_form(
    model: Any, *, background: Any = None, n_threads: int | None = None
) -> Forest | LinearModel:
    """The model as a sum whose parts can be told apart, its covers counted in ``background`` if there is one."""
    if isinstance(model, LinearModel):
        return model
    forest = model.forest if isinstance(model, OrdinalModel | Family) else model
    if not isinstance(forest, Forest):
        raise ModelError(
            f"a {type(model).__name__} is no sum of trees or of features, so its scores cannot be divided "
            "among features exactly. Explain a ranker made of trees, or ask for importance by permutation."
        )
    if background is None:
        return forest
    return covers.with_covers(forest, background, n_threads=n_threads)


def _of_linear(model: LinearModel, matrix: Features) -> tuple[Floats, float]:
    """Weight times distance from the values that stand for missing ones."""
    model.predict(matrix)  # refuses values that have no score
    used = model.used
    fill, chosen = model.fill[used], matrix[:, used].astype(SCORE)
    found: Floats = np.zeros(matrix.shape, SCORE)
    found[:, used] = (np.where(np.isnan(chosen), fill, chosen) - fill) * model.weights[used]
    return found, model.intercept + float((model.weights * model.fill).sum())


@dataclass(frozen=True, eq=False)
class TreeExplainer:
    """A forest laid out for explaining.

    Parameters
    ----------
    forest
        The forest that is explained.
    base
        The expected score: the mean over rows as the trees split them.
    edges, used
        The steps of all trees; the features they test.
    points, weights
        Where integrals are taken, a row for each number of points.
    """

    forest: Forest
    base: float
    edges: Edges
    used: Array
    points: Floats
    weights: Floats

    @classmethod
    def of(cls, forest: Forest) -> TreeExplainer:
        """The explainer of a forest that knows how many rows went where."""
        shares = covers.shares_of(forest)
        factors = _checks.read_only(forest.tree_weights / divisors(forest)[-1])
        used = np.unique(forest.feature[forest.feature >= 0]).astype(np.int64)
        edges = _edges(forest, shares, used, factors)
        points, weights = _quadrature(edges.n_points)
        base = forest.base + float((factors * covers.expected_values(forest, shares)).sum())
        return cls(forest, base, edges, _checks.read_only(used), points, weights)

    def contributions(self, features: Any, *, n_threads: int | None = None) -> tuple[Floats, float]:
        """What each feature adds to each row's score, and the base."""
        forest = self.forest
        matrix = features_in_order(features, forest.n_features, forest.feature_names)
        found: Floats = np.zeros((len(matrix), forest.n_features), SCORE)
        arguments = (
            _checks.read_only(matrix),
            self.used,
            self.edges,
            self.points,
            self.weights,
            found,
        )
        least = max(1, _LEAST_EDGES // max(1, self.edges.depth.size))
        if n_threads is None and len(matrix) < 2 * least:
            explain_rows(0, len(matrix), *arguments)  # asking for the cores would take longer
        else:
            _threads.run_blocks(
                explain_rows, len(matrix), *arguments, n_threads=n_threads, least=least
            )
        return found, self.base


def _edges(forest: Forest, shares: Floats, used: Array, factors: Floats) -> Edges:
    """The edges of all trees, in the order of a walk."""
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
    edges = Edges(**arrays)
    nodes = Nodes(
        forest.tree_offsets,
        forest.feature,
        forest.threshold,
        forest.left,
        forest.right,
        forest.missing,
        forest.value,
        _checks.read_only(shares),
    )
    most_nodes = int(np.diff(forest.tree_offsets).max(initial=1))
    order_edges(nodes, _checks.read_only(column_of_feature), most_nodes, edges)
    return Edges(*(_checks.read_only(array) for array in edges))


def _quadrature(n_points: Array) -> tuple[Floats, Floats]:
    """Gauss and Legendre's points and weights on [0, 1]: row n of each holds those of n points."""
    most = int(n_points.max(initial=1))
    points, weights = np.zeros((2, most + 1, most))
    for number in np.unique(n_points[n_points > 0]).tolist():
        at, weight = np.polynomial.legendre.leggauss(number)
        points[number, :number], weights[number, :number] = (1 + at) / 2, weight / 2
    return _checks.read_only(points), _checks.read_only(weights)
