"""Growing a cascade: the loop over layers, its state and its checkpoint.

A layer is fitted (``layers``), measured as if it were the last, and passes scores on to the next one as augmented
columns: those of its models, of all their trees, or of a Pareto front of the trees. ``RowSelection`` decides which rows
train the next layer.
"""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Bytes, Floats
from rankwood.errors import DataWarning
from rankwood.losses import placement
from rankwood.measures.compute import mean_value
from rankwood.measures.gains import LARGEST_EXPONENT
from rankwood.measures.measure import Measure, parse_measure
from rankwood.models.cascade import WHOLE, Cascade, Layer
from rankwood.models.forest import Forest
from rankwood.models.format import KINDS
from rankwood.models.validate import ARRAYS
from rankwood.rankers.deep_forest.columns import LayerColumns
from rankwood.rankers.deep_forest.layers import Fitted, FittedLayer, LayerPlan, fit_learners
from rankwood.training.bags import OutOfBag
from rankwood.training.checkpoint import CheckpointFile
from rankwood.training.inputs import rows_that_count, weights_of_rows
from rankwood.training.rounds import ALL_ROUNDS, EarlyStopping, Rounds

_NO_OUTPUTS = np.zeros((0, 2), np.int32)
_PREFIX = "cascade."  # of the models' arrays in a checkpoint
CHECKPOINT_ARRAYS = ("history", "is_trained", "outputs")
ALL_LAYERS = ALL_ROUNDS.replace("rounds", "layers")
NO_BETTER = "the measure has not improved"
KEPT_ROWS = "no rows of two grades were left: trained on the rows of the layer before"
BOOSTS = ("query", "document")
_NDCG = "ndcg@10"
_SAMPLED_ROWS = 5000  # for correlations, which need the scores of all trees at once
Column = tuple[Floats, Floats | None]  # of the training rows, and of the validation rows


@dataclass(frozen=True)
class CascadePlan:
    """Everything that determines a cascade, except its data."""

    layer: LayerPlan
    selection: RowSelection
    augment: str
    select: str | None
    keep_augmented: bool
    measure: Measure
    max_layers: int


@dataclass(eq=False)
class CascadeState:
    """The layers so far, their measures and their reports."""

    stopping: EarlyStopping
    is_trained: Array  # rows that train the current layer
    layers: list[Layer] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    held_out: Floats | None = None  # scores of the training rows by the best layer
    note: str | None = None  # on the rows of the current layer

    @property
    def n_kept(self) -> int:
        """Layers up to the best; all of them where nothing is to be chosen."""
        if self.stopping.patience is None:
            return len(self.layers)
        return max(1, self.stopping.best_iteration)

    def add(self, fitted: FittedLayer, measure: float, report: dict[str, Any]) -> None:
        """Add a layer, its measure and its report; held-out scores are kept of the best layer only."""
        models = tuple(learner.model for learner in fitted.learners)
        self.layers.append(Layer(models, _NO_OUTPUTS))
        self.stopping.history.append(measure)
        self.reports.append(report)
        if self.n_kept == len(self.layers):
            self.held_out = fitted.held_out


def grow_cascade(
    plan: CascadePlan, columns: LayerColumns, state: CascadeState, rounds: Rounds
) -> None:
    """Add layers until the best has not been beaten for ``patience`` layers (section 3.1 of the paper)."""
    n_learners = len(plan.layer.learners)
    for number in rounds:
        start = time.perf_counter()
        learners = []
        for learner in fit_learners(plan.layer, number, columns, state.is_trained):
            learners.append(learner)
            rounds.report(number * n_learners + len(learners))
        layer = FittedLayer(learners)
        measure = evaluate_layer(plan.measure, layer, columns)
        state.add(layer, measure, _report(layer, state, measure))
        if not rounds.is_over:
            _augment(plan, layer, columns, state)
        state.reports[-1]["seconds"] = time.perf_counter() - start
        if not rounds.is_over:
            _choose_rows(plan.selection, layer, columns.train.data, state)
            rounds.save_if_due()


def _augment(
    plan: CascadePlan, layer: FittedLayer, columns: LayerColumns, state: CascadeState
) -> None:
    """Give the outputs of a layer to the next one, as columns behind the features."""
    outputs = outputs_of(layer, columns, plan.augment, plan.select)
    # All are binned before the first is written: trees are evaluated on the columns they were grown on.
    augmented = [columns.encode(*each) for each in columns_of(layer, columns, outputs)]
    columns.take(augmented, keep=plan.keep_augmented)
    state.layers[-1] = Layer(state.layers[-1].models, outputs)
    state.reports[-1]["augmented"] = len(outputs)


def save_cascade(
    plan: CascadePlan, columns: LayerColumns, state: CascadeState, checkpoint: CheckpointFile
) -> None:
    """Write the layers so far, and the columns that the next one sees.

    A layer that a callback made the last has no columns for a next one: then the checkpoint of the layer before stays,
    and a resumed fit grows the last layer again.
    """
    is_final = state.stopping.is_over() or len(state.layers) >= plan.max_layers
    outputs = state.layers[-1].outputs
    if not is_final and len(outputs) == 0:
        return
    cascade = _cascade(state.layers, columns.train.data, plan)
    record, own = KINDS["cascade"].to_arrays(cascade)
    arrays = {
        **{_PREFIX + name: array for name, array in own.items()},
        "history": np.array(state.stopping.history),
        "is_trained": state.is_trained,
        "outputs": outputs,
    }
    if state.held_out is not None:
        arrays["held_out"] = state.held_out
    if not is_final:
        arrays |= columns.saved()
    names = None if cascade.feature_names is None else list(cascade.feature_names)
    meta = {"feature_names": names, "cascade": record, "layers": state.reports, "note": state.note}
    checkpoint.store(meta, arrays)


def resume_cascade(
    columns: LayerColumns, state: CascadeState, meta: dict[str, Any], arrays: dict[str, Array]
) -> None:
    """Take over the layers of a checkpoint, and the columns that the next one sees."""
    own = {
        name.removeprefix(_PREFIX): array
        for name, array in arrays.items()
        if name.startswith(_PREFIX)
    }
    cascade = KINDS["cascade"].from_arrays(meta.get("cascade"), own, meta.get("feature_names"))
    outputs = arrays["outputs"]
    state.layers = [*cascade.layers[:-1], Layer(cascade.layers[-1].models, outputs)]
    state.reports, state.note = list(meta["layers"]), meta["note"]
    state.stopping.history.extend(arrays["history"].tolist())
    state.is_trained = np.array(arrays["is_trained"])
    if "held_out" in arrays:
        state.held_out = np.array(arrays["held_out"])
    if len(outputs):
        columns.restore(arrays)


def evaluate_layer(measure: Measure, layer: FittedLayer, columns: LayerColumns) -> float:
    """The measure of a layer as the last one: on the validation data, else on held-out scores."""
    if columns.valid is not None:
        return mean_value(measure, layer.of_valid, columns.valid.data)
    return held_out_value(measure, layer.held_out, columns.train.data)


def held_out_value(measure: Measure, scores: Floats, data: RankingData) -> float:
    """The measure over the training rows that have a held-out score, and the queries that have such rows.

    NaN where there are none, or where labels are too large for a gain.
    """
    is_known = ~np.isnan(scores)
    present = rows_that_count(weights_of_rows(data))
    rows = np.flatnonzero(is_known if present is None else is_known & present)
    labels = data.labels[rows]
    has_gains = data.query_ids is None or measure.name == "rmse"
    if rows.size == 0 or (not has_gains and labels.max() > LARGEST_EXPONENT):
        return math.nan
    if data.query_ids is None:
        return float(np.sqrt(np.mean((scores[rows] - labels) ** 2)))
    part = data.judgments.take_rows(rows)
    return mean_value(measure, np.ascontiguousarray(scores[rows]), part)


def trimmed(state: CascadeState, data: RankingData, plan: CascadePlan) -> Cascade:
    """The layers up to the best, as a model."""
    return _cascade(state.layers[: state.n_kept], data, plan)


def _cascade(layers: Sequence[Layer], data: RankingData, plan: CascadePlan) -> Cascade:
    """Layers as a model; the last has no outputs."""
    last = Layer(layers[-1].models, _NO_OUTPUTS)
    return Cascade((*layers[:-1], last), data.n_features, plan.keep_augmented, data.feature_names)


def _choose_rows(
    selection: RowSelection, layer: FittedLayer, data: RankingData, state: CascadeState
) -> None:
    """The rows that train the next layer; where the rule leaves nothing to learn from, those of this layer again."""
    state.note = None
    if selection.boost is None:
        return
    present = rows_that_count(weights_of_rows(data))
    is_chosen = selection.rows(layer.held_out, data)
    if present is not None:
        is_chosen &= present
    if np.unique(data.labels[is_chosen]).size < 2:
        state.note = KEPT_ROWS
        warnings.warn(
            f"layer {len(state.layers) + 1}: boost='{selection.boost}' left {int(is_chosen.sum()):,} rows of fewer "
            "than two grades, so the layer trains on the rows of the layer before.",
            DataWarning,
            stacklevel=2,
        )
        return
    state.is_trained = is_chosen


def _report(layer: FittedLayer, state: CascadeState, measure: float) -> dict[str, Any]:
    """The entry of a layer in ``layers_``."""
    models = [learner.model for learner in layer.learners]
    forests = [model for model in models if isinstance(model, Forest)]
    return {
        "measure": None if math.isnan(measure) else measure,
        "rows": int(state.is_trained.sum()),
        "models": len(models),
        "trees": sum(forest.n_trees for forest in forests),
        "leaves": sum(forest.n_leaves for forest in forests),
        "bytes": sum(getattr(forest, name).nbytes for forest in forests for name in ARRAYS),
        "augmented": 0,
        "kept": True,
        "note": state.note,
    }


# The rows that train the next layer.


@dataclass(frozen=True)
class RowSelection:
    """Queries with an NDCG@10 below ``alpha`` (S3.3.1), or documents with an error above ``beta`` (S3.3.2)."""

    boost: str | None
    alpha: float
    beta: float

    def rows(self, scores: Floats, data: RankingData) -> Array:
        """One truth value per row: whether it is to train the next layer. Rows without a score are not."""
        if self.boost is None:
            return np.ones(data.n_documents, bool)
        is_known = ~np.isnan(scores)
        if self.boost == "query":
            lowest = float(scores[is_known].min(initial=0.0)) - 1.0
            ndcg = parse_measure(_NDCG).per_query(np.where(is_known, scores, lowest), data)
            is_chosen: Array = (ndcg < self.alpha)[data.query_of_row]
        else:
            is_chosen = height_errors(np.where(is_known, scores, -np.inf), data) > self.beta
        return is_chosen & is_known


def height_errors(scores: Floats, data: RankingData) -> Floats:
    """The share of documents of other grades that stand on the wrong side of each document, in its query.

    Those above it with a lower label and those below it with a higher one, over all with another label; 0 where all
    labels are equal. Equal scores keep the data's order.
    """
    query = data.query_of_row
    query_and_label = np.stack([query, data.labels], axis=1)
    _, grade, sizes = np.unique(query_and_label, axis=0, return_inverse=True, return_counts=True)
    n_others = np.bincount(query)[query] - sizes[grade.ravel()]
    shares: Floats = np.zeros(data.n_documents)
    misplaced = placement.height_errors(scores, data)
    np.divide(misplaced, n_others, out=shares, where=n_others > 0)
    return shares


# The outputs that a layer passes on.


def outputs_of(
    layer: FittedLayer, columns: LayerColumns, augment: str, select: str | None
) -> Array:
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


def columns_of(layer: FittedLayer, columns: LayerColumns, outputs: Array) -> Iterator[Column]:
    """The column of each output, computed one at a time: all of them would not fit into memory."""
    for model, tree in outputs.tolist():
        learner = layer.learners[model]
        if tree == WHOLE:
            yield learner.held_out, learner.of_valid
        else:
            yield _column_of_tree(learner, tree, columns)[0]


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
    """Out-of-bag NDCG@10 of each tree, and its mean correlation with the others."""
    data = columns.train.data
    rows = np.arange(0, data.n_documents, max(1, data.n_documents // _SAMPLED_ROWS))
    quality: Floats = np.empty(len(outputs))
    sampled: Floats = np.empty((len(outputs), rows.size))
    for index, (model, tree) in enumerate(outputs.tolist()):
        (of_train, _), is_out = _column_of_tree(layer.learners[model], tree, columns)
        known = OutOfBag(np.where(is_out, of_train, 0.0), is_out.astype(np.int32))
        ndcg = known.ndcg(data)
        quality[index] = 0.0 if ndcg is None or np.isnan(ndcg) else ndcg
        sampled[index] = of_train[rows]
    return quality, mean_correlations(sampled)


def _column_of_tree(learner: Fitted, tree: int, columns: LayerColumns) -> tuple[Column, Array]:
    """The scores of one tree for every row, and which rows the tree has not seen.

    Rows that it has seen get the out-of-bag score of its forest: the tree would leak their labels.
    """
    assert learner.bags is not None  # only bagged forests pass their trees on
    forest: Any = learner.model
    one = dataclasses.replace(forest.take_trees([tree]), tree_weights=np.ones(1), base=0.0)
    of_train = columns.train.by_source(_score(one, columns.train.codes, columns))
    is_out = learner.bags.counts(tree) == 0
    of_valid = None if columns.valid is None else _score(one, columns.valid.codes, columns)
    return (np.where(is_out, of_train, learner.held_out), of_valid), is_out


def _score(forest: Forest, codes: Bytes, columns: LayerColumns) -> Floats:
    return forest.predict_binned(codes[: columns.width], columns.bins, n_threads=columns.n_threads)
