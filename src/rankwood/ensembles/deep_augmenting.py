"""What a layer of a cascade passes on: the score of each model, of each tree, or of a Pareto front of the trees."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankwood.dtypes import Array, Bytes, Floats
from rankwood.ensembles.deep_columns import Columns
from rankwood.ensembles.deep_layers import Fitted, FittedLayer
from rankwood.ensembles.out_of_bag import OutOfBag
from rankwood.models.cascade import WHOLE
from rankwood.models.forest import Forest

_SAMPLED_ROWS = 5000  # that correlations are taken from: they need all trees' scores at once

Column = tuple[Floats, Floats | None]  # of the training rows, and of the validation rows


def outputs_of(layer: FittedLayer, columns: Columns, augment: str, select: str | None) -> Array:
    """The outputs as pairs (model, tree): every model, every tree (S3.1), or the chosen trees (S3.1.1)."""
    if select is None and augment == "forests":
        pairs = [(model, WHOLE) for model in range(len(layer.learners))]
    else:
        pairs = [
            (model, tree)
            for model, learner in enumerate(layer.learners)
            for tree in range(learner.model.n_trees)
        ]
    outputs = np.array(pairs, np.int32).reshape(-1, 2)
    if select == "pareto":
        outputs = outputs[pareto_front(*_qualities(layer, columns, outputs))]
    return outputs


def columns_of(layer: FittedLayer, columns: Columns, outputs: Array) -> Iterator[Column]:
    """The column of each output, made when it is asked for: all trees' at once would not fit."""
    for model, tree in outputs.tolist():
        learner = layer.learners[model]
        if tree == WHOLE:
            yield learner.held_out, learner.of_valid
        else:
            yield _column_of_tree(learner, tree, columns)[0]


def pareto_front(quality: Floats, likeness: Floats) -> Array:
    """The places that none beats: no other has as much quality and as little likeness, and more or less of one."""
    found = []
    for place in range(quality.size):
        is_as_good = (quality >= quality[place]) & (likeness <= likeness[place])
        is_better = (quality > quality[place]) | (likeness < likeness[place])
        if not (is_as_good & is_better).any():
            found.append(place)
    return np.array(found, np.int64)


def mean_correlations(scores: Floats) -> Floats:
    """The mean absolute Pearson correlation of each row of ``scores`` with all the others.

    A row that is constant correlates with nothing; it counts as 1, since it tells nothing either. Missing scores
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


def _qualities(layer: FittedLayer, columns: Columns, outputs: Array) -> tuple[Floats, Floats]:
    """Out-of-bag NDCG@10 of each tree, and its mean correlation with the others."""
    data = columns.train.data
    rows = np.arange(0, data.n_documents, max(1, data.n_documents // _SAMPLED_ROWS))
    quality: Floats = np.empty(len(outputs))
    sampled: Floats = np.empty((len(outputs), rows.size))
    for place, (model, tree) in enumerate(outputs.tolist()):
        (of_train, _), is_out = _column_of_tree(layer.learners[model], tree, columns)
        known = OutOfBag(np.where(is_out, of_train, 0.0), is_out.astype(np.int32))
        found = known.ndcg(data)
        quality[place] = 0.0 if found is None or np.isnan(found) else found
        sampled[place] = of_train[rows]
    return quality, mean_correlations(sampled)


def _column_of_tree(learner: Fitted, tree: int, columns: Columns) -> tuple[Column, Array]:
    """What one tree says about every row, and which rows it has not seen.

    For rows that it has seen, its forest's out-of-bag score stands in: the tree would give the row's own label away.
    """
    assert learner.bags is not None  # only bagged forests pass their trees on
    forest: Any = learner.model
    one = dataclasses.replace(forest.take_trees([tree]), tree_weights=np.ones(1), base=0.0)
    of_train = columns.train.by_source(_score(one, columns.train.codes, columns))
    is_out = learner.bags.counts(tree) == 0
    of_valid = None if columns.valid is None else _score(one, columns.valid.codes, columns)
    return (np.where(is_out, of_train, learner.held_out), of_valid), is_out


def _score(forest: Forest, codes: Bytes, columns: Columns) -> Floats:
    return forest.predict_binned(codes[: columns.width], columns.bins, n_threads=columns.n_threads)
