"""Fitting one layer of a cascade: each learner's model, and scores of the training rows that it did not learn from.

Terms
    held-out    a score of a training row by trees, or by a model, that have not seen the row
    trained     rows that the layer may learn from; the others have held-out scores all the same
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood._core.random import stream
from rankwood.data.dataset import RankingData
from rankwood.data.splits import deal_folds
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataError
from rankwood.models.cascade import ForeignModel, mean_score
from rankwood.rankers.base import Ranker, fit_to_bins, learned_model, trains_on_bins
from rankwood.rankers.deep_forest.columns import LayerColumns
from rankwood.rankers.forests import ForestRanker, forest_plan
from rankwood.training.bags import Bags, stream_number
from rankwood.training.inputs import multiplied_weights

_MOST_FOREIGN_SEED = 2**31


@dataclass(frozen=True, eq=False)
class Fitted:
    """One learner's model, its held-out scores of the training rows, and its scores of the validation rows."""

    model: Any
    held_out: Floats  # NaN where every tree has seen the row
    of_valid: Floats | None
    bags: Bags | None  # of a bagged forest


@dataclass(frozen=True, eq=False)
class FittedLayer:
    """The fitted learners of one layer."""

    learners: list[Fitted]

    @property
    def held_out(self) -> Floats:
        """The layer's scores of the training rows: the mean of the learners that have one; NaN where none has."""
        scores = np.stack([learner.held_out for learner in self.learners])
        counts = (~np.isnan(scores)).sum(axis=0)
        means: Floats = np.full(counts.size, np.nan)
        np.divide(np.nansum(scores, axis=0), counts, out=means, where=counts > 0)
        return means

    @property
    def of_valid(self) -> Floats:
        """The layer's scores of the validation rows."""
        return mean_score([learner.of_valid for learner in self.learners])  # type: ignore[misc]


@dataclass(frozen=True)
class LayerPlan:
    """How every layer is fitted."""

    learners: Sequence[Any]
    n_folds: int
    seed: int
    n_threads: int | None


def is_bagged(learner: Any) -> bool:
    """Whether the learner's trees leave rows out, so that it has out-of-bag scores."""
    return isinstance(learner, ForestRanker) and learner.bag is not None


def fit_learners(
    plan: LayerPlan, number: int, columns: LayerColumns, is_trained: Array
) -> Iterator[Fitted]:
    """The learners of layer ``number``, fitted to the trained rows one after the other."""
    for index, learner in enumerate(plan.learners):
        seed = stream_number(plan.seed, f"layer {number}", index)
        copied = _copy(learner, seed, plan.n_threads)
        folds = None
        if not is_bagged(learner):
            folds = _folds(columns.train.data, is_trained, plan.n_folds, (plan.seed, number))
        fit = _fit_to_bins if trains_on_bins(learner) else _fit_to_values
        yield fit(copied, columns, is_trained, folds)


def _fit_to_bins(
    learner: Any, columns: LayerColumns, is_trained: Array, folds: Array | None
) -> Fitted:
    """A tree ensemble of ours: it sees codes only, and rows without weight are no part of its data."""

    def fit(rows: Array) -> Any:
        model = clone(learner)
        fit_to_bins(model, columns.training_set(rows))
        return model

    def score(model: Any) -> Floats:
        codes = columns.train.codes[: columns.width]
        return columns.train.by_source(
            model.forest_.predict_binned(codes, columns.bins, n_threads=columns.n_threads)
        )

    whole = fit(is_trained)
    bags = None
    if folds is None:
        held_out = whole.oob_scores_
        bags = forest_plan(whole, columns.training_set(is_trained)).bags
    else:
        held_out = _held_out(folds, is_trained, fit, score, whole)
    of_valid = None
    if columns.valid is not None:
        codes = columns.valid.codes[: columns.width]
        of_valid = whole.forest_.predict_binned(codes, columns.bins, n_threads=columns.n_threads)
    return Fitted(whole.forest_, held_out, of_valid, bags)


def _fit_to_values(
    learner: Any, columns: LayerColumns, is_trained: Array, folds: Array | None
) -> Fitted:
    """Any other learner: it sees the columns as numbers, of the rows it learns from, query by query."""
    values, data = columns.train.values(), columns.train.data

    def fit(rows: Array) -> Any:
        return fit_any(clone(learner, safe=False), values, data, rows)

    def score(model: Any) -> Floats:
        scores: Floats = model.predict(values, n_threads=columns.n_threads)
        return scores

    whole = fit(is_trained)
    assert folds is not None  # only forests are bagged, and they see bins
    held_out = _held_out(folds, is_trained, fit, score, whole)
    of_valid = None
    if columns.valid is not None:
        of_valid = whole.predict(columns.valid.values(), n_threads=columns.n_threads)
    return Fitted(whole, held_out, of_valid, None)


def fit_any(learner: Any, values: Any, data: RankingData, is_trained: Array) -> Any:
    """A model with ``predict`` from a learner with fit(X, y), which gets queries and weights if it takes them.

    Rows of a query stand together: some libraries want it so.
    """
    order = data.row_order if data.query_ids is not None else np.arange(data.n_documents)
    rows = order[is_trained[order]]
    accepted = inspect.signature(learner.fit).parameters
    given: dict[str, Any] = {}
    if data.query_ids is not None:
        query_of_row = data.query_of_row[rows]
        if "qid" in accepted:
            given["qid"] = query_of_row
        elif "group" in accepted:
            sizes = np.bincount(query_of_row, minlength=data.n_queries)
            given["group"] = sizes[sizes > 0]
    weights = multiplied_weights(data)
    if weights is not None:
        if "sample_weight" not in accepted:
            raise DataError(
                f"the data have weights, but {type(learner).__name__}.fit takes no sample_weight."
            )
        given["sample_weight"] = weights[rows]
    learner.fit(values[rows], data.labels[rows], **given)
    if isinstance(learner, Ranker):
        return learned_model(learner)
    return ForeignModel(learner, values.shape[1])


def _held_out(
    folds: Array,
    is_trained: Array,
    fit: Callable[[Array], Any],
    score: Callable[[Any], Floats],
    whole: Any,
) -> Floats:
    """Each fold's scores by a model of the other folds; rows that are not trained on are scored by the whole model."""
    held_out: Floats = np.full(folds.size, np.nan)
    for fold in range(int(folds.max()) + 1):
        is_held_out = folds == fold
        scores = score(fit(is_trained & ~is_held_out))
        held_out[is_held_out] = scores[is_held_out]
    if not is_trained.all():
        scores = score(whole)
        held_out[~is_trained] = scores[~is_trained]
    return held_out


def _folds(data: RankingData, is_trained: Array, n_folds: int, draw: tuple[int, int]) -> Array:
    """The fold of each trained row, -1 for the others: whole queries, or rows where there are no queries."""
    by_query = data.query_ids is not None
    unit_of_row = data.query_of_row if by_query else np.arange(data.n_documents)
    units = np.unique(unit_of_row[is_trained])
    if units.size < 2:
        what = "query" if by_query else "row"
        raise DataError(
            f"held-out scores need at least two folds, but there is one {what} to learn from. "
            "Use a layer of forests with bags, which need no folds."
        )
    generator = stream(draw[0], "deep forest folds", draw[1])
    n_units = int(unit_of_row.max()) + 1
    fold_of_unit = deal_folds(units, n_units, min(n_folds, units.size), generator)
    return np.where(is_trained, fold_of_unit[unit_of_row], -1)


def _copy(learner: Any, seed: int, n_threads: int | None) -> Any:
    """An unfitted copy with a seed of its own and without callbacks."""
    copied = clone(learner, safe=False)
    if not hasattr(copied, "get_params"):
        return copied
    changes: dict[str, Any] = {
        "seed": seed,
        "base__seed": seed,  # of an OrdinalRanker
        "random_state": seed % _MOST_FOREIGN_SEED,
        "progress": None,
        "callbacks": (),
    }
    if n_threads is not None:
        changes["n_threads"] = n_threads
    known = copied.get_params()
    return copied.set_params(**{name: value for name, value in changes.items() if name in known})
