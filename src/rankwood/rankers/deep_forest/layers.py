"""One layer of a cascade: the columns that it sees, each learner's model, and its scores of rows that are new to it.

A layer sees the features, and behind them the augmented columns. Trees are grown on one contiguous array of columns ×
rows. It is allocated once with room for the augmented columns, and each layer overwrites those of the layer before, so
that the features are never copied. Only ``keep_augmented`` allocates a larger array, one layer wider, when the room is
used up.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood._core.random import stream
from rankwood._core.sums import exact_bincount
from rankwood._core.threads import resolve_threads
from rankwood.binning.binned import BinnedData
from rankwood.binning.bins import CODE, MISSING_BIN, Bins, fit_bins
from rankwood.binning.folder import coded_features
from rankwood.data.dataset import RankingData
from rankwood.data.splits import deal_folds
from rankwood.dtypes import FEATURE, OFFSET, Array, Bytes, Features, Floats, Rows
from rankwood.engines.bags import stream_number
from rankwood.engines.cluster import ClusterEngine
from rankwood.engines.engine import CPU, Engine, engine_on
from rankwood.engines.placement import ClusterRows, NotOnCluster
from rankwood.errors import DataError, ModelError
from rankwood.models.cascade import ForeignModel, as_feature, mean_score
from rankwood.models.forest import Forest
from rankwood.models.ordinal import OrdinalModel
from rankwood.models.validate import ArrayRule, check_arrays, features_in_order
from rankwood.rankers.base import Ranker, fit_to_bins, learned_model, trains_on_bins
from rankwood.rankers.forests import ForestRanker, forest_plan
from rankwood.rankers.ordinal import MOST_GRADES
from rankwood.training.inputs import (
    TrainingSet,
    bins_of,
    codes_by_same_bins,
    is_distributed,
    multiplied_weights,
    weights_of_rows,
)
from rankwood.trees.row_order import as_matrix, reorder_by_pilot_tree

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


_PARTS = ("train", "valid")  # in the names of a checkpoint's arrays


@dataclass(eq=False)
class LayerRows:
    """Rows of one part of the data, training or validation, with all their columns."""

    data: RankingData  # with its own features, in the training data's order
    codes: Bytes  # (features and room, rows)
    source_of_row: Rows  # the data's row behind each row of ``codes``
    row_major_prefix: Bytes | None = None  # codes of the first original features, row by row
    augmented: list[Features] = field(
        default_factory=list
    )  # kept only where a learner wants values

    def write(self, column: int, codes: Bytes) -> None:
        """Write one column's codes, which are in the data's order."""
        self.codes[column] = codes.take(self.source_of_row)

    def make_room(self, width: int, n_columns: int) -> None:
        """Allocate a larger array unless ``n_columns`` fit behind the first ``width``."""
        if width + n_columns > len(self.codes):
            wider = np.empty((width + n_columns, self.codes.shape[1]), CODE)
            wider[:width] = self.codes[:width]
            self.codes = wider

    def settle(self, width: int, bins: Bins) -> None:
        """All columns of a layer are written: nothing is left to do here."""

    def engine(self, bins: Bins, device: str, n_threads: int | None) -> Engine:
        """What grows trees on the columns that have these bins."""
        codes = self.codes[: bins.n_features]
        matrix = as_matrix(codes, bins, self.source_of_row, self.row_major_prefix)
        return engine_on(device, matrix, resolve_threads(n_threads))

    def score(self, forest: Forest, bins: Bins, n_threads: int | None) -> Floats:
        """The scores of the rows, in the data's order."""
        scores = forest.predict_binned(self.codes[: bins.n_features], bins, n_threads=n_threads)
        by_source: Floats = np.empty_like(scores)
        by_source[self.source_of_row] = scores
        return by_source

    def added_codes(self, first: int, last: int) -> Bytes:
        """The codes of the columns ``first`` to ``last``, for a checkpoint."""
        return self.codes[first:last]

    def restore_codes(self, first: int, codes: Bytes) -> None:
        """Take over columns of a checkpoint."""
        self.make_room(first, len(codes))
        self.codes[first : first + len(codes)] = codes

    def values(self) -> Features:
        """All columns as numbers, for learners that do not train on bins: rows × columns."""
        if not self.augmented:
            return self.data.features
        return np.hstack([self.data.features, np.stack(self.augmented, axis=1)])


@dataclass(eq=False)
class ClusterLayerRows(LayerRows):
    """The same for rows on a cluster; the augmented columns go there when a layer is complete."""

    rows: ClusterRows | None = None
    added: dict[int, Bytes] = field(default_factory=dict)  # augmented columns, in the data's order

    @classmethod
    def of(cls, data: RankingData) -> ClusterLayerRows:
        """The rows with their own features only."""
        rows: ClusterRows = data.features.rows  # type: ignore[attr-defined]
        rows.widen(rows.bins, {})
        none = np.zeros(0, np.int64)
        return cls(data, np.zeros((0, 0), CODE), none, rows=rows)

    def write(self, column: int, codes: Bytes) -> None:
        """Keep one column's codes, which are in the data's order."""
        self.added[column] = codes

    def make_room(self, width: int, n_columns: int) -> None:
        """The columns go to the cluster together."""

    def settle(self, width: int, bins: Bins) -> None:
        """Send the augmented columns to the workers."""
        self.added = {column: codes for column, codes in self.added.items() if column < width}
        self._known_rows.widen(bins, self.added)

    def engine(self, bins: Bins, device: str, n_threads: int | None) -> Engine:  # noqa: ARG002
        """The workers that have the rows."""
        return ClusterEngine(self._known_rows, resolve_threads(n_threads))

    def score(self, forest: Forest, bins: Bins, n_threads: int | None) -> Floats:  # noqa: ARG002
        """The scores of the rows, by the workers."""
        return ClusterEngine(self._known_rows, 1).predict(forest)

    def values(self) -> Features:
        """No process has the features."""
        raise NotOnCluster("a layer of rankers that do not train on bins")

    def added_codes(self, first: int, last: int) -> Bytes:
        """The codes of augmented columns."""
        return np.stack([self.added[column] for column in range(first, last)])

    def restore_codes(self, first: int, codes: Bytes) -> None:
        """Take over columns of a checkpoint."""
        self.added = {first + column: np.array(own) for column, own in enumerate(codes)}

    @property
    def _known_rows(self) -> ClusterRows:
        assert self.rows is not None
        return self.rows


@dataclass(frozen=True, eq=False)
class Encoded:
    """A column in bins: the codes of the training rows, then those of the validation rows, if there are any."""

    bins: Bins
    codes: list[Bytes]
    values: list[Features]  # the numbers behind them, where a learner wants those


@dataclass(eq=False)
class LayerColumns:
    """The columns of the current layer: those of the training rows, and of the validation rows if there are any."""

    train: LayerRows
    valid: LayerRows | None
    original: Bins
    added: list[Bins]  # of the augmented columns
    wants_values: bool  # whether a learner needs the augmented columns as numbers too
    max_bins: int
    n_threads: int | None
    device: str = CPU

    @property
    def width(self) -> int:
        """How many columns a layer sees."""
        return self.original.n_features + len(self.added)

    @property
    def bins(self) -> Bins:
        """The cut points of all columns."""
        return _joined([self.original, *self.added])

    def encode(self, of_train: Floats, of_valid: Floats | None) -> Encoded:
        """A further column, given for the training rows and for the validation rows, in bins of its own."""
        values = [as_feature(scores) for scores in (of_train, of_valid) if scores is not None]
        bins = fit_bins(values[0][:, np.newaxis], max_bins=self.max_bins, n_threads=1)
        codes = [bins.transform(column[:, np.newaxis], self.n_threads)[0] for column in values]
        return Encoded(bins, codes, values if self.wants_values else [])

    def take(self, encoded: Sequence[Encoded], *, keep: bool) -> None:
        """Put columns behind the original features, or with ``keep`` behind all that there are."""
        if not keep:
            self.added = []
        for index, part in enumerate(self._parts):
            part.make_room(self.width, len(encoded))
            if not keep:
                part.augmented = []
            for number, column in enumerate(encoded):
                part.write(self.width + number, column.codes[index])
                part.augmented += column.values[index : index + 1]
        self.added = self.added + [column.bins for column in encoded]
        self.train.settle(self.width, self.bins)

    def training_set(self, is_trained: Any) -> TrainingSet:
        """The training rows as the layer's learners see them; rows that are not ``is_trained`` have no weight."""
        data = self.train.data
        bins = self.bins
        row_weights, weights = data.row_weights, weights_of_rows(data)
        if not is_trained.all():
            row_weights = np.where(is_trained, 1.0 if row_weights is None else row_weights, 0.0)
            weights = np.where(is_trained, 1.0 if weights is None else weights, 0.0)
        engine = self.train.engine(bins, self.device, self.n_threads)
        return TrainingSet(_as_wide(data, self.width, row_weights), bins, engine, weights)

    def score_train(self, forest: Forest) -> Floats:
        """The scores of the training rows, in the data's order."""
        return self.train.score(forest, self.bins, self.n_threads)

    def score_valid(self, forest: Forest) -> Floats:
        """The scores of the validation rows."""
        assert self.valid is not None
        return self.valid.score(forest, self.bins, self.n_threads)

    def saved(self) -> dict[str, Array]:
        """The augmented columns as arrays, for a checkpoint."""
        first, bins = self.original.n_features, _joined(self.added)
        arrays: dict[str, Array] = {
            f"augmented.{field.name}": getattr(bins, field.name) for field in fields(bins)
        }
        for name, part in zip(_PARTS, self._parts, strict=False):
            arrays[f"augmented.{name}_codes"] = part.added_codes(first, self.width)
            if part.augmented:
                arrays[f"augmented.{name}_values"] = np.stack(part.augmented)
        return arrays

    def restore(self, arrays: Mapping[str, Array], n_columns: int) -> None:
        """Take over the augmented columns of a checkpoint, of which there must be ``n_columns``."""
        first = self.original.n_features
        bins = Bins(*(arrays[f"augmented.{field.name}"] for field in fields(Bins)))
        if bins.n_features != n_columns:
            raise ModelError(
                f"it holds {bins.n_features} augmented columns instead of {n_columns}."
            )
        for name, part in zip(_PARTS, self._parts, strict=False):
            _check_saved(name, bins, part.codes.shape[1], arrays)
        self.added = [
            Bins(
                bins.thresholds_of(column),
                np.array([0, count]),
                bins.has_missing[column : column + 1],
            )
            for column, count in enumerate(np.diff(bins.offsets).tolist())
        ]
        for name, part in zip(_PARTS, self._parts, strict=False):
            part.restore_codes(first, arrays[f"augmented.{name}_codes"])
            part.augmented = list(arrays.get(f"augmented.{name}_values", ()))
        self.train.settle(self.width, self.bins)

    @property
    def _parts(self) -> list[LayerRows]:
        return [self.train] if self.valid is None else [self.train, self.valid]


def _check_saved(part: str, bins: Bins, n_rows: int, arrays: Mapping[str, Array]) -> None:
    """Raise for augmented columns of a checkpoint that do not fit the data or their bins."""
    shape = (bins.n_features, n_rows)
    rules = {f"augmented.{part}_codes": ArrayRule(CODE, shape)}
    if f"augmented.{part}_values" in arrays:
        rules[f"augmented.{part}_values"] = ArrayRule(FEATURE, shape, may_be_nan=True)
    check_arrays(rules, arrays)
    codes = arrays[f"augmented.{part}_codes"]
    largest = np.max(codes, axis=1, initial=0, where=codes != MISSING_BIN)
    if (largest >= bins.n_value_bins).any():
        raise ModelError(f"array 'augmented.{part}_codes' holds codes beyond the bins.")


def _joined(parts: Sequence[Bins]) -> Bins:
    """The bins of several groups of columns as one."""
    counts = np.concatenate([np.diff(bins.offsets) for bins in parts])
    offsets = np.zeros(counts.size + 1, OFFSET)
    np.cumsum(counts, out=offsets[1:])
    thresholds = np.concatenate([bins.thresholds for bins in parts])
    return Bins(thresholds, offsets, np.concatenate([bins.has_missing for bins in parts]))


@dataclass(frozen=True)
class Room:
    """How columns are made: bins, room for augmented columns, and whether learners need them as numbers."""

    max_bins: int
    n_augmented: int
    wants_values: bool
    n_threads: int | None
    device: str = CPU


def original_columns(
    X: Any,  # noqa: N803 - scikit-learn's name
    data: RankingData,
    valid: RankingData | None,
    room: Room,
) -> LayerColumns:
    """The columns of the first layer: the features of ``data``, as they are binned already where X is BinnedData."""
    if data.n_documents == 0:
        raise DataError("there are no rows to learn from.")
    if is_distributed(X):
        return _on_cluster(data, valid, room)
    codes = np.empty((data.n_features + room.n_augmented, data.n_documents), CODE)
    own = codes[: data.n_features]
    if isinstance(X, BinnedData):
        bins = X.bins
        own[:] = X.codes  # the caller's codes stay as they are
    else:
        bins = bins_of(data, room.max_bins, room.n_threads)
        bins.transform_into(data.features, own, room.n_threads)
    matrix = reorder_by_pilot_tree(own, bins, data.labels, in_place=True, n_threads=room.n_threads)
    train = LayerRows(data, codes, matrix.source_of_row, matrix.row_major_prefix)
    held_out = None if valid is None else _validation_part(valid, data, bins, room)
    n_threads, device = room.n_threads, room.device
    return LayerColumns(
        train, held_out, bins, [], room.wants_values, room.max_bins, n_threads, device
    )


def _on_cluster(data: RankingData, valid: RankingData | None, room: Room) -> LayerColumns:
    """The columns of the first layer, of rows on a cluster."""
    train = ClusterLayerRows.of(data)
    bins = train._known_rows.bins
    held_out = None if valid is None else _validation_part(valid, data, bins, room)
    n_threads, device = room.n_threads, room.device
    return LayerColumns(
        train, held_out, bins, [], room.wants_values, room.max_bins, n_threads, device
    )


def _validation_part(valid: RankingData, data: RankingData, bins: Bins, room: Room) -> LayerRows:
    codes = np.empty((data.n_features + room.n_augmented, valid.n_documents), CODE)
    stored = coded_features(valid)
    if stored is not None:
        codes[: data.n_features] = codes_by_same_bins(stored, valid, data, bins)
        return LayerRows(valid, codes, np.arange(valid.n_documents))
    matrix = features_in_order(valid, data.n_features, data.feature_names)
    bins.transform_into(matrix, codes[: data.n_features], room.n_threads)
    in_order = RankingData.from_judgments(matrix, valid.judgments, data.feature_names)
    return LayerRows(in_order, codes, np.arange(len(matrix)))


def _as_wide(data: RankingData, width: int, row_weights: Floats | None) -> RankingData:
    """The rows as data of ``width`` columns without values, which training on bins does not need.

    The values are NaN without taking memory. The columns have no names, since augmented ones have none.
    """
    features = np.broadcast_to(FEATURE(np.nan), (data.n_documents, width))
    judgments = data.judgments.with_weights(row_weights=row_weights)
    return RankingData.from_judgments(features, judgments)
