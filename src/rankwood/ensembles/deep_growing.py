"""Growing a cascade: layer after layer, until the best has not been beaten for a while."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.ensembles.deep_augmenting import columns_of, outputs_of
from rankwood.ensembles.deep_columns import Columns
from rankwood.ensembles.deep_layers import FittedLayer, LayerPlan, fit_layer
from rankwood.ensembles.deep_selection import Selection
from rankwood.ensembles.early_stopping import ALL_ROUNDS, ASKED_TO, EarlyStopping
from rankwood.ensembles.inputs import weights_of_rows
from rankwood.ensembles.progress import Watch
from rankwood.ensembles.validation import mean_value
from rankwood.errors import DataWarning
from rankwood.measures.gains import LARGEST_EXPONENT
from rankwood.measures.measure import Measure
from rankwood.models.cascade import Cascade, Layer
from rankwood.models.forest import Forest
from rankwood.models.forest_checks import ARRAYS

_NO_OUTPUTS = np.zeros((0, 2), np.int32)
ALL_LAYERS = ALL_ROUNDS.replace("rounds", "layers")
NO_BETTER = "the measure has not improved"
KEPT_ROWS = "no rows of two grades were left: trained on the rows of the layer before"


@dataclass(frozen=True)
class CascadePlan:
    """All that a cascade follows from, but its data."""

    layer: LayerPlan
    selection: Selection
    augment: str
    select: str | None
    keep_augmented: bool
    measure: Measure
    max_layers: int


@dataclass(eq=False)
class CascadeState:
    """The layers so far, and what is known of them."""

    stopping: EarlyStopping
    is_trained: Array  # rows that train the layer at hand
    layers: list[Layer] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    held_out: Floats | None = None  # scores of the training rows by the best layer
    note: str | None = None  # on the rows of the layer at hand
    stopped_because: str = ALL_LAYERS

    @property
    def n_kept(self) -> int:
        """Layers up to the best; all of them where nothing is to be chosen."""
        if self.stopping.patience is None:
            return len(self.layers)
        return max(1, self.stopping.best_iteration)

    def add(self, fitted: FittedLayer, measure: float, report: dict[str, Any]) -> None:
        """Keep a layer's models, its measure and its report; scores of single rows only of the best."""
        models = tuple(learner.model for learner in fitted.learners)
        self.layers.append(Layer(models, _NO_OUTPUTS))
        self.stopping.history.append(measure)
        self.reports.append(report)
        if self.n_kept == len(self.layers):
            self.held_out = fitted.held_out


def grow_cascade(plan: CascadePlan, columns: Columns, state: CascadeState, watch: Watch) -> None:
    """Add layers until the best has not been beaten for ``patience`` layers (section 3.1 of the paper)."""
    for number in range(plan.max_layers):
        start = time.perf_counter()
        layer = fit_layer(
            plan.layer, number, columns, state.is_trained, _teller(plan, number, watch)
        )
        measure = evaluate_layer(plan.measure, layer, columns)
        state.add(layer, measure, _report(layer, state, measure))
        if _is_over(plan, state, watch):
            state.reports[-1]["seconds"] = time.perf_counter() - start
            return
        outputs = outputs_of(layer, columns, plan.augment, plan.select)
        # All are in bins before the first is written: trees are asked through the columns they saw.
        augmented = [columns.encode(*each) for each in columns_of(layer, columns, outputs)]
        columns.take(augmented, keep=plan.keep_augmented)
        state.layers[-1] = Layer(state.layers[-1].models, outputs)
        state.reports[-1] |= {"augmented": len(outputs), "seconds": time.perf_counter() - start}
        _choose_rows(plan.selection, layer, columns.train.data, state)


def evaluate_layer(measure: Measure, layer: FittedLayer, columns: Columns) -> float:
    """The measure of a layer as the last one: on the validation data, else on held-out scores."""
    if columns.valid is not None:
        return mean_value(measure, layer.of_valid, columns.valid.data)
    return held_out_value(measure, layer.held_out, columns.train.data)


def held_out_value(measure: Measure, scores: Floats, data: RankingData) -> float:
    """The measure over the training rows that have a held-out score, and the queries that have such rows.

    NaN where there are none, or where labels are too large for a gain.
    """
    weights = weights_of_rows(data)
    is_known = ~np.isnan(scores) if weights is None else ~np.isnan(scores) & (weights > 0)
    rows = np.flatnonzero(is_known)
    labels = data.labels[rows]
    has_gains = data.query_ids is None or measure.name == "rmse"
    if rows.size == 0 or (not has_gains and labels.max() > LARGEST_EXPONENT):
        return math.nan
    if data.query_ids is None:
        return float(np.sqrt(np.mean((scores[rows] - labels) ** 2)))
    of_query: Any = None
    if data.query_weights is not None:
        of_query = dict(zip(data.queries.tolist(), data.query_weights.tolist(), strict=True))
    part = RankingData(
        np.zeros((rows.size, 1), np.float32), labels, data.query_ids[rows], query_weights=of_query
    )
    return mean_value(measure, np.ascontiguousarray(scores[rows]), part)


def trimmed(state: CascadeState, data: RankingData, plan: CascadePlan) -> Cascade:
    """The layers up to the best, as a model."""
    kept = state.layers[: state.n_kept]
    last = Layer(kept[-1].models, _NO_OUTPUTS)
    return Cascade((*kept[:-1], last), data.n_features, plan.keep_augmented, data.feature_names)


def _is_over(plan: CascadePlan, state: CascadeState, watch: Watch) -> bool:
    """Whether there are to be no more layers, and why."""
    if watch.was_stopped:
        state.stopped_because = ASKED_TO
    elif state.stopping.is_over():
        state.stopped_because = NO_BETTER
    else:
        return len(state.layers) >= plan.max_layers
    return True


def _choose_rows(
    selection: Selection, layer: FittedLayer, data: RankingData, state: CascadeState
) -> None:
    """The rows that train the next layer; where the rule leaves nothing to learn from, those of this layer again."""
    state.note = None
    if selection.boost is None:
        return
    weights = weights_of_rows(data)
    is_chosen = selection.rows(layer.held_out, data)
    if weights is not None:
        is_chosen &= weights > 0
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


def _teller(plan: CascadePlan, number: int, watch: Watch) -> Any:
    """Tells whoever listens of every learner of a layer; a wish to stop is heard at the end of the layer."""
    n_learners = len(plan.layer.learners)

    def tell(n_done: int) -> None:
        wants_stop = watch.was_stopped
        watch.says_stop(number * n_learners + n_done)
        watch.was_stopped |= wants_stop

    return tell


def _report(layer: FittedLayer, state: CascadeState, measure: float) -> dict[str, Any]:
    """What ``layers_`` says of a layer."""
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
