"""Fitting one layer of a cascade: each learner's model, and scores of the training rows that it did not learn from.

A learner whose trees leave rows out gives each row the mean of the trees that have not seen it. For any other learner
the queries are dealt to folds, and a model of the other folds scores each fold. Single trees (``augment="trees"``) are
always those of the folds' forests: a row then has the score of one tree, as a new document has.

Class vectors of a forest are read off the leaves of trees that are grown already. A leaf's value is the mean label of
the rows it was grown from. The shares of the grades among the same rows say more, and cost no further tree. They are
kept as cumulative shares, T_c = P(y ≤ c), one copy of the forest for each grade but the highest, which together are an
``OrdinalModel``: its score Σ c · P(y = c) is the forest's own, up to rounding.

Terms
    held-out    a score of a training row by trees, or by a model, that have not seen the row
    trained     rows that the layer may learn from; the others have held-out scores all the same
    class vector    the probabilities P(y = c) of a document, one for each grade c that labels have
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood._core.random import stream
from rankwood._core.sums import exact_bincount
from rankwood.data.dataset import RankingData
from rankwood.data.splits import deal_folds
from rankwood.dtypes import Array, Floats
from rankwood.engines.bags import stream_number
from rankwood.errors import DataError
from rankwood.models.cascade import ForeignModel, mean_score
from rankwood.models.forest import Forest
from rankwood.models.ordinal import OrdinalModel
from rankwood.rankers.base import Ranker, fit_to_bins, learned_model, trains_on_bins
from rankwood.rankers.deep_forest.columns import LayerColumns
from rankwood.rankers.forests import ForestRanker, forest_plan
from rankwood.rankers.ordinal import MOST_GRADES
from rankwood.training.inputs import TrainingSet, multiplied_weights

_MOST_FOREIGN_SEED = 2**31


@dataclass(frozen=True, eq=False)
class ClassVectors:
    """P(y = c) of the training rows, held out, and of the validation rows: rows × grades."""

    held_out: Floats
    of_valid: Floats | None

    @classmethod
    def of(cls, model: OrdinalModel, held_out: Floats, of_valid: Floats | None) -> ClassVectors:
        """The vectors that belong to cumulative shares."""
        given = None if of_valid is None else model.probabilities_of(of_valid)
        return cls(model.probabilities_of(held_out), given)


@dataclass(frozen=True, eq=False)
class Fitted:
    """One learner's model, its held-out scores of the training rows, and its scores of the validation rows."""

    model: Any
    held_out: Floats  # NaN where every tree has seen the row
    of_valid: Floats | None
    unseen: tuple[tuple[Array, Forest], ...] = ()  # rows, and a forest that has not seen them
    vectors: ClassVectors | None = None  # where class vectors are passed on


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
    augment: str = "forests"  # what the learners must give: scores, single trees, or class vectors
    averages_folds: bool = (
        False  # whether the mean of the folds' models is kept, not a model of all rows
    )


def is_bagged(learner: Any) -> bool:
    """Whether the learner's trees leave rows out, so that it has out-of-bag scores."""
    return isinstance(learner, ForestRanker) and learner.bag is not None


def grades_of(data: RankingData, is_trained: Array) -> Floats:
    """The values that labels of trained rows have, ascending; an error where they are too many to be grades."""
    grades: Floats = np.unique(data.labels[is_trained])
    if grades.size > MOST_GRADES:
        raise DataError(
            f"labels have {grades.size:,} different values, which are no grades (at most {MOST_GRADES}): class vectors "
            "need grades. Use augment='forests'."
        )
    return grades


def fit_learners(
    plan: LayerPlan, number: int, columns: LayerColumns, is_trained: Array
) -> Iterator[Fitted]:
    """The learners of layer ``number``, fitted to the trained rows one after the other."""
    for index, learner in enumerate(plan.learners):
        seed = stream_number(plan.seed, f"layer {number}", index)
        copied = _copy(learner, seed, plan.n_threads)
        folds = None
        if not is_bagged(learner) or plan.augment == "trees":
            folds = _folds(columns.train.data, is_trained, plan.n_folds, (plan.seed, number))
        if not trains_on_bins(learner):
            assert folds is not None  # only forests are bagged, and they see bins
            yield _fit_to_values(plan, copied, columns, is_trained, folds)
        elif plan.augment == "grades":
            yield _fit_class_vectors(copied, columns, is_trained, folds)
        else:
            yield _fit_to_bins(plan, copied, columns, is_trained, folds)


def _fit_to_bins(
    plan: LayerPlan, learner: Any, columns: LayerColumns, is_trained: Array, folds: Array | None
) -> Fitted:
    """A tree ensemble of ours: it sees codes only, and rows without weight are no part of its data."""

    def fit(rows: Array) -> Any:
        model = clone(learner)
        fit_to_bins(model, columns.training_set(rows))
        return model

    others = [] if folds is None else _other_folds(folds, is_trained)
    of_folds = [fit(rows).forest_ for rows in others]
    if plan.averages_folds and not is_bagged(learner):
        forest = mean_forest(of_folds)
        unseen = _unseen(folds, of_folds, forest)
        held_out = _together(unseen, columns.score_train)
    else:
        whole = fit(is_trained)
        forest = whole.forest_
        unseen = _unseen(folds, of_folds, forest)
        has_bags = is_bagged(learner)
        held_out = whole.oob_scores_ if has_bags else _together(unseen, columns.score_train)
    of_valid = None if columns.valid is None else columns.score_valid(forest)
    return Fitted(forest, held_out, of_valid, unseen if plan.augment == "trees" else ())


def _fit_class_vectors(
    learner: Any, columns: LayerColumns, is_trained: Array, folds: Array | None
) -> Fitted:
    """A forest of ours that tells the probability of each grade; its score is their mean grade."""
    data = columns.train.data
    grades = grades_of(data, is_trained)

    def fit(rows: Array) -> tuple[OrdinalModel, Floats]:
        forest = clone(learner)
        train = columns.training_set(rows)
        fit_to_bins(forest, train)
        return class_vectors(forest, train, columns, grades)

    whole, held_out = fit(is_trained)
    if folds is not None:
        models = [fit(rows)[0] for rows in _other_folds(folds, is_trained)]
        for is_unseen, model in _unseen(folds, models, whole):
            held_out[is_unseen] = cumulative(model, columns.score_train)[is_unseen]
    of_valid = None if columns.valid is None else cumulative(whole, columns.score_valid)
    return Fitted(
        whole,
        whole.expected_worth(held_out),
        None if columns.valid is None else columns.score_valid(whole.forest),
        vectors=ClassVectors.of(whole, held_out, of_valid),
    )


def _fit_to_values(
    plan: LayerPlan, learner: Any, columns: LayerColumns, is_trained: Array, folds: Array
) -> Fitted:
    """Any other learner: it sees the columns as numbers, of the rows it learns from, query by query."""
    values, data = columns.train.values(), columns.train.data
    n_threads = columns.n_threads

    def fit(rows: Array) -> Any:
        return fit_any(clone(learner, safe=False), values, data, rows)

    def score(model: Any) -> Floats:
        scores: Floats = model.predict(values, n_threads=n_threads)
        return scores

    whole = fit(is_trained)
    models = [fit(rows) for rows in _other_folds(folds, is_trained)]
    unseen = _unseen(folds, models, whole)
    vectors = None
    of_valid = None if columns.valid is None else columns.valid.values()
    if plan.augment == "grades":
        held_out: Floats = np.full((data.n_documents, whole.grades.size), np.nan)
        for is_unseen, model in unseen:
            known = np.isin(whole.grades, model.grades)  # a fold may lack a grade
            found = model.probabilities(values, n_threads=n_threads)
            held_out[np.ix_(is_unseen, known)] = found[is_unseen]
            held_out[np.ix_(is_unseen, ~known)] = 0.0
        given = None if of_valid is None else whole.probabilities(of_valid, n_threads=n_threads)
        vectors = ClassVectors(held_out, given)
    return Fitted(
        whole,
        _together(unseen, score),
        None if of_valid is None else whole.predict(of_valid, n_threads=n_threads),
        vectors=vectors,
    )


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


def mean_forest(forests: Sequence[Forest]) -> Forest:
    """The mean of several forests, as one."""
    if forests[0].average:  # equally many trees each
        return Forest.concatenate(forests)
    share = 1.0 / len(forests)
    parts = [
        dataclasses.replace(each, tree_weights=each.tree_weights * share, base=each.base * share)
        for each in forests
    ]
    return Forest.concatenate(parts)


def _other_folds(folds: Array, is_trained: Array) -> list[Array]:
    """For each fold the rows that train its model: those of the other folds."""
    return [is_trained & (folds != fold) for fold in range(int(folds.max()) + 1)]


def _unseen(
    folds: Array | None, models: Sequence[Any], whole: Any
) -> tuple[tuple[Array, Any], ...]:
    """Rows with a model that has not seen them: each fold with its own, untrained rows with the whole model."""
    if folds is None:
        return ()
    pairs = [(folds == fold, model) for fold, model in enumerate(models)]
    return (*pairs, (folds < 0, whole)) if (folds < 0).any() else tuple(pairs)


def _together(unseen: Sequence[tuple[Array, Any]], score: Callable[[Any], Floats]) -> Floats:
    """The scores of all rows, each by the model that has not seen it."""
    held_out: Floats = np.full(unseen[0][0].size, np.nan)
    for is_unseen, model in unseen:
        held_out[is_unseen] = score(model)[is_unseen]
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
            "Use a layer of forests with bags, which need no folds, and augment='forests'."
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


# Class vectors.


def class_vectors(
    forest: Any, train: TrainingSet, columns: LayerColumns, grades: Floats
) -> tuple[OrdinalModel, Floats]:
    """A fitted forest with the shares of the grades in its leaves, and T_c of each row by trees that left it out.

    The second is rows × grades but the highest; NaN for a row that every tree has seen.
    """
    plan = forest_plan(forest, train)
    trees: Forest = forest.forest_
    is_at_most = train.labels[:, np.newaxis] <= grades[:-1]
    shares: Floats = np.zeros((trees.n_nodes, grades.size - 1))
    sums: Floats = np.zeros(is_at_most.shape)
    n_unseen: Array = np.zeros(len(is_at_most), np.int64)
    n_rows = train.data.n_documents
    everything = np.ones(n_rows, np.int32) if plan.present is None else plan.present
    _, row_weights = plan.targets
    for tree in range(trees.n_trees):
        counts = everything if plan.bags is None else plan.bags.counts(tree)
        leaf_of_row = _leaf_of_row(trees, tree, columns)
        weights = counts if row_weights is None else counts * row_weights
        shares_of_leaf(leaf_of_row, weights, is_at_most, shares)
        is_unseen = counts == 0
        sums[is_unseen] += shares[leaf_of_row[is_unseen]]
        n_unseen += is_unseen
    held_out: Floats = np.full(sums.shape, np.nan)
    np.divide(sums, n_unseen[:, np.newaxis], out=held_out, where=n_unseen[:, np.newaxis] > 0)
    forests = [
        dataclasses.replace(trees, value=np.ascontiguousarray(column)) for column in shares.T
    ]
    empty = Forest.from_trees([], n_features=trees.n_features)
    return OrdinalModel.of_forests(forests, empty, grades, grades, clip=False), held_out


def cumulative(model: OrdinalModel, score: Callable[[Forest], Floats]) -> Floats:
    """T_c of each row, rows × grades but the highest; ``score`` gives the rows' scores by a forest."""
    columns = [score(forest) for forest in model.cumulative_forests]
    return np.stack(columns, axis=1) if columns else score(model.forest)[:, np.newaxis][:, :0]


def shares_of_leaf(leaf_of_row: Array, weights: Array, is_at_most: Array, shares: Floats) -> None:
    """Write the weighted share of each column of ``is_at_most`` among the rows of each leaf."""
    n_nodes = len(shares)
    largest = float(weights.max(initial=0.0))
    totals = exact_bincount(leaf_of_row, weights, n_nodes, largest)
    has_rows = totals > 0
    for grade in range(is_at_most.shape[1]):
        of_grade = weights * is_at_most[:, grade]
        sums = exact_bincount(leaf_of_row, of_grade, n_nodes, largest)
        shares[has_rows, grade] = sums[has_rows] / totals[has_rows]


def _leaf_of_row(forest: Forest, tree: int, columns: LayerColumns) -> Array:
    """The node of the forest that each training row ends in, in one tree: the tree scored with its nodes' numbers."""
    one = forest.take_trees([tree])
    first = forest.tree_offsets[tree]
    numbers = np.arange(one.n_nodes, dtype=np.float64)
    numbered = dataclasses.replace(one, value=numbers, tree_weights=np.ones(1), base=0.0)
    found: Array = columns.score_train(numbered).astype(np.int64) + first
    return found
