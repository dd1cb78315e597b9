"""What a layer passes on to the next one: which outputs, and their columns.

An output is the score of a model, of one tree of a forest (S3.1 of the paper; a Pareto front of the trees in S3.1.1),
or the probability of one grade (class vectors). The column of a training row comes from what has not seen the row.
Each output is passed on in one or several forms, which ``rankwood.models.cascade`` computes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.measures.compute import mean_value
from rankwood.measures.gains import LARGEST_EXPONENT
from rankwood.measures.measure import Measure, parse_measure
from rankwood.models.cascade import WHOLE, as_feature, columns_in_forms, need_queries
from rankwood.models.forest import Forest
from rankwood.rankers.deep_forest.columns import LayerColumns
from rankwood.rankers.deep_forest.layers import Fitted, FittedLayer
from rankwood.training.inputs import rows_that_count, weights_of_rows

NDCG = "ndcg@10"
_SAMPLED_ROWS = 5000  # for correlations, which need the scores of all trees at once
Column = tuple[Floats, Floats | None]  # of the training rows, and of the validation rows


def outputs_of(
    layer: FittedLayer, columns: LayerColumns, augment: str, select: str | None
) -> Array:
    """The outputs as pairs (model, part): every model, every grade, every tree (S3.1), or chosen trees (S3.1.1)."""
    pairs = [
        (model, part)
        for model, learner in enumerate(layer.learners)
        for part in _parts_of(learner, augment)
    ]
    outputs = np.array(pairs, np.int32).reshape(-1, 2)
    if select == "pareto":
        outputs = outputs[pareto_front(*_qualities(layer, columns, outputs))]
    return outputs


def _parts_of(learner: Fitted, augment: str) -> list[int]:
    """The parts of a model that are passed on."""
    if augment == "trees":
        return list(range(learner.model.n_trees))
    if augment == "grades":
        return list(range(learner.model.grades.size))
    return [WHOLE]


def columns_of(
    layer: FittedLayer, columns: LayerColumns, outputs: Array, forms: tuple[str, ...]
) -> Iterator[Column]:
    """The columns of each output in each form, computed one at a time: all of them would not fit into memory."""
    for model, part in outputs.tolist():
        learner = layer.learners[model]
        if part == WHOLE:
            column: Column = (learner.held_out, learner.of_valid)
        elif learner.vectors is not None:
            of_valid = learner.vectors.of_valid
            column = (
                learner.vectors.held_out[:, part],
                None if of_valid is None else of_valid[:, part],
            )
        else:
            column = _column_of_tree(learner, part, columns)
        yield from _in_forms(column, columns, forms)


def _in_forms(column: Column, columns: LayerColumns, forms: tuple[str, ...]) -> Iterator[Column]:
    """A column in each form."""
    if not need_queries(forms):
        yield column
        return
    of_train, of_valid = column
    made = columns_in_forms(as_feature(of_train), forms, columns.train.data.judgments.grouping)
    if of_valid is None or columns.valid is None:
        yield from ((each.astype(np.float64), None) for each in made)
        return
    valid = columns_in_forms(as_feature(of_valid), forms, columns.valid.data.judgments.grouping)
    for one, other in zip(made, valid, strict=True):
        yield one.astype(np.float64), other.astype(np.float64)


def held_out_value(measure: Measure, scores: Floats, data: RankingData) -> float:
    """The measure over the training rows that have a held-out score, and the queries that have such rows.

    NaN where there are none, or where labels are too large for a gain.
    """
    rows = rows_with_score(scores, data)
    labels = data.labels[rows]
    has_gains = data.query_ids is None or measure.name == "rmse"
    if rows.size == 0 or (not has_gains and labels.max() > LARGEST_EXPONENT):
        return math.nan
    if data.query_ids is None:
        return float(np.sqrt(np.mean((scores[rows] - labels) ** 2)))
    part = data.judgments.take_rows(rows)
    return mean_value(measure, np.ascontiguousarray(scores[rows]), part)


def rows_with_score(scores: Floats, data: RankingData) -> Array:
    """The rows that count and have a score."""
    is_known = ~np.isnan(scores)
    present = rows_that_count(weights_of_rows(data))
    return np.flatnonzero(is_known if present is None else is_known & present)


def pareto_front(quality: Floats, likeness: Floats) -> Array:
    """The indices on the Pareto front: no other has as much quality and as little likeness, and is better in one."""
    front = []
    for index in range(quality.size):
        is_as_good = (quality >= quality[index]) & (likeness <= likeness[index])
        is_better = (quality > quality[index]) | (likeness < likeness[index])
        if not (is_as_good & is_better).any():
            front.append(index)
    return np.array(front, np.int64)


def mean_correlations(scores: Floats) -> Floats:
    """The mean absolute Pearson correlation of each row of ``scores`` with all the others.

    A row that is constant correlates with nothing; it counts as 1, since it has no information. Missing scores
    count as their row's mean.
    """
    n_rows = len(scores)
    if n_rows == 1:
        return np.zeros(1)
    centred = scores - np.nanmean(scores, axis=1, keepdims=True)
    centred[np.isnan(centred)] = 0.0
    norms = np.sqrt((centred**2).sum(axis=1))
    is_constant = norms <= 1e-12 * np.abs(scores).max(initial=1.0, where=~np.isnan(scores))
    centred /= np.where(is_constant, 1.0, norms)[:, np.newaxis]
    # Not by a BLAS, whose sums depend on how many threads it has.
    products = np.abs(np.einsum("ir,jr->ij", centred, centred))
    np.fill_diagonal(products, 0.0)
    means: Floats = products.sum(axis=1) / (n_rows - 1)
    return np.where(is_constant, 1.0, means)


def _qualities(layer: FittedLayer, columns: LayerColumns, outputs: Array) -> tuple[Floats, Floats]:
    """Held-out NDCG@10 of each tree, and its mean correlation with the others."""
    data = columns.train.data
    rows = np.arange(0, data.n_documents, max(1, data.n_documents // _SAMPLED_ROWS))
    quality: Floats = np.empty(len(outputs))
    sampled: Floats = np.empty((len(outputs), rows.size))
    for index, (model, tree) in enumerate(outputs.tolist()):
        of_train, _ = _column_of_tree(layer.learners[model], tree, columns)
        ndcg = math.nan
        if data.query_ids is not None:
            ndcg = held_out_value(parse_measure(NDCG), of_train, data)
        quality[index] = 0.0 if math.isnan(ndcg) else ndcg
        sampled[index] = of_train[rows]
    return quality, mean_correlations(sampled)


def _column_of_tree(learner: Fitted, tree: int, columns: LayerColumns) -> Column:
    """The scores of one tree for every row.

    A training row has the score of the tree of that number in the forest of the other folds: its labels do not leak,
    and it is the score of one tree, as for new rows.
    """
    of_train: Floats = np.full(columns.train.data.n_documents, np.nan)
    for is_unseen, forest in learner.unseen:
        scores = columns.score_train(_one_tree(forest, tree))
        of_train[is_unseen] = scores[is_unseen]
    of_valid = None
    if columns.valid is not None:
        of_valid = columns.score_valid(_one_tree(learner.model, tree))
    return of_train, of_valid


def _one_tree(forest: Any, tree: int) -> Forest:
    one: Forest = forest.take_trees([tree])
    return dataclasses.replace(one, tree_weights=np.ones(1), base=0.0)
