"""Growing a cascade: the loop over layers, its state and its checkpoint.

A layer is fitted (``layers``), judged as if it were the last (``choosing``), and passes outputs on to the next one as
augmented columns (``outputs``). ``RowSelection`` decides which rows train the next layer.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataWarning
from rankwood.losses import placement
from rankwood.measures.measure import Measure, parse_measure
from rankwood.models.cascade import SCORES, Cascade, Layer
from rankwood.models.forest import Forest
from rankwood.models.format import KINDS
from rankwood.models.ordinal import OrdinalModel
from rankwood.models.validate import ARRAYS
from rankwood.rankers.deep_forest.choosing import LayerChoice, standings_of
from rankwood.rankers.deep_forest.columns import LayerColumns
from rankwood.rankers.deep_forest.layers import FittedLayer, LayerPlan, fit_learners
from rankwood.rankers.deep_forest.outputs import NDCG, columns_of, outputs_of
from rankwood.training.checkpoint import CheckpointFile
from rankwood.training.inputs import rows_that_count, weights_of_rows
from rankwood.training.rounds import ALL_ROUNDS, Rounds

_NO_OUTPUTS = np.zeros((0, 2), np.int32)
_PREFIX = "cascade."  # of the models' arrays in a checkpoint
CHECKPOINT_ARRAYS = ("history", "is_trained", "outputs")
ALL_LAYERS = ALL_ROUNDS.replace("rounds", "layers")
NO_BETTER = "no later layer was ahead"
KEPT_ROWS = "no rows of two grades were left: trained on the rows of the layer before"
BOOSTS = ("query", "document")


@dataclass(frozen=True)
class CascadePlan:
    """Everything that determines a cascade, except its data."""

    layer: LayerPlan
    selection: RowSelection
    select: str | None
    keep_augmented: bool
    measure: Measure
    max_layers: int
    forms: tuple[str, ...] = (SCORES,)


@dataclass(eq=False)
class CascadeState:
    """The layers so far, their measures and their reports."""

    choice: LayerChoice
    is_trained: Array  # rows that train the current layer
    layers: list[Layer] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    held_out: Floats | None = None  # scores of the training rows by the best layer
    note: str | None = None  # on the rows of the current layer

    @property
    def n_kept(self) -> int:
        """Layers up to the best; all of them where nothing is to be chosen."""
        if self.choice.patience is None:
            return len(self.layers)
        return max(1, self.choice.best_iteration)

    def add(self, fitted: FittedLayer, report: dict[str, Any]) -> None:
        """Add a layer that was judged, and its report; held-out scores are kept of the best layer only."""
        models = tuple(learner.model for learner in fitted.learners)
        self.layers.append(Layer(models, _NO_OUTPUTS))
        self.reports.append(report)
        if self.n_kept == len(self.layers):
            self.held_out = fitted.held_out


def grow_cascade(
    plan: CascadePlan, columns: LayerColumns, state: CascadeState, rounds: Rounds
) -> None:
    """Add layers until ``patience`` of them were not ahead of the best (section 3.1 of the paper)."""
    n_learners = len(plan.layer.learners)
    for number in rounds:
        start = time.perf_counter()
        learners = []
        for learner in fit_learners(plan.layer, number, columns, state.is_trained):
            learners.append(learner)
            rounds.report(number * n_learners + len(learners))
        layer = FittedLayer(learners)
        judged = state.choice.judge(standings_of(plan.measure, layer, columns))
        state.add(layer, _report(layer, state, judged))
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
    outputs = outputs_of(layer, columns, plan.layer.augment, plan.select)
    # All are binned before the first is written: trees are evaluated on the columns they were grown on.
    made = columns_of(layer, columns, outputs, plan.forms)
    augmented = [columns.encode(*each) for each in made]
    columns.take(augmented, keep=plan.keep_augmented)
    state.layers[-1] = Layer(state.layers[-1].models, outputs)
    state.reports[-1]["augmented"] = len(augmented)


def save_cascade(
    plan: CascadePlan, columns: LayerColumns, state: CascadeState, checkpoint: CheckpointFile
) -> None:
    """Write the layers so far, and the columns that the next one sees.

    A layer that a callback made the last has no columns for a next one: then the checkpoint of the layer before stays,
    and a resumed fit grows the last layer again.
    """
    is_final = state.choice.is_over() or len(state.layers) >= plan.max_layers
    outputs = state.layers[-1].outputs
    if not is_final and len(outputs) == 0:
        return
    cascade = _cascade(state.layers, columns.train.data, plan)
    record, own = KINDS["cascade"].to_arrays(cascade)
    kept, standings = state.choice.saved()
    arrays = {
        **standings,
        **{_PREFIX + name: array for name, array in own.items()},
        "history": np.array(state.choice.history),
        "is_trained": state.is_trained,
        "outputs": outputs,
    }
    if state.held_out is not None:
        arrays["held_out"] = state.held_out
    if not is_final:
        arrays |= columns.saved()
    names = None if cascade.feature_names is None else list(cascade.feature_names)
    meta = {
        "feature_names": names,
        "cascade": record,
        "layers": state.reports,
        "note": state.note,
        "kept": kept,
    }
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
    state.choice.history.extend(arrays["history"].tolist())
    state.choice.restore(meta["kept"], arrays)
    state.is_trained = np.array(arrays["is_trained"])
    if "held_out" in arrays:
        state.held_out = np.array(arrays["held_out"])
    if len(outputs):
        columns.restore(arrays)


def trimmed(state: CascadeState, data: RankingData, plan: CascadePlan) -> Cascade:
    """The layers up to the best, as a model."""
    return _cascade(state.layers[: state.n_kept], data, plan)


def _cascade(layers: Sequence[Layer], data: RankingData, plan: CascadePlan) -> Cascade:
    """Layers as a model; the last has no outputs."""
    last = Layer(layers[-1].models, _NO_OUTPUTS)
    names = data.feature_names
    return Cascade((*layers[:-1], last), data.n_features, plan.keep_augmented, names, plan.forms)


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


def _report(layer: FittedLayer, state: CascadeState, judged: dict[str, Any]) -> dict[str, Any]:
    """The entry of a layer in ``layers_``."""
    models = [learner.model for learner in layer.learners]
    forests = [
        model.trees if isinstance(model, OrdinalModel) else model
        for model in models
        if isinstance(model, Forest | OrdinalModel)
    ]
    return {
        **judged,
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
            ndcg = parse_measure(NDCG).per_query(np.where(is_known, scores, lowest), data)
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
