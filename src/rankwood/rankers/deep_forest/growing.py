"""Growing a cascade: the loop over layers, its state and its checkpoint; how many layers are kept; what each passes on.

A layer is fitted (``layers``), judged as if it were the last, and passes outputs on to the next one as augmented
columns. ``RowSelection`` decides which rows train the next layer.

``LayerChoice``: a layer replaces the best one before it only if it is ahead of it, on the held-out scores of the
training rows, on the validation data, or on both. It is ahead where the mean of its differences by query is above 0;
on the first of the parts, the held-out scores if they are judged, above ``lead`` standard errors of that mean. So
chance alone rarely adds a layer, and what is lost by one that chance did add is small.

``outputs_of``: an output is the score of a model, of one tree of a forest (S3.1 of the paper; a Pareto front of the
trees in S3.1.1), or the probability of one grade (class vectors). The column of a training row comes from what has not
seen the row. Each output is passed on in one or several forms, which ``rankwood.models.cascade`` computes.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood._core.checks import whole_number
from rankwood._core.jit import Stopwatch
from rankwood._core.sums import exact_mean
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataWarning, ModelError
from rankwood.losses import placement
from rankwood.measures.compute import mean_value, values_by_query
from rankwood.measures.listwise import LARGEST_EXPONENT
from rankwood.measures.measure import Measure, is_minimised, parse_measure
from rankwood.models.cascade import (
    SCORES,
    WHOLE,
    Cascade,
    Layer,
    as_feature,
    columns_in_forms,
    need_queries,
)
from rankwood.models.forest import Forest
from rankwood.models.format import KINDS
from rankwood.models.ordinal import OrdinalModel
from rankwood.models.validate import ARRAYS, ArrayRule, check_arrays
from rankwood.rankers.deep_forest.layers import (
    Fitted,
    FittedLayer,
    LayerColumns,
    LayerPlan,
    fit_learners,
)
from rankwood.training.inputs import rows_that_count, weights_of_rows
from rankwood.training.rounds import ALL_ROUNDS, CheckpointFile, EarlyStopping, Rounds

_NO_OUTPUTS = np.zeros((0, 2), np.int32)
_PREFIX = "cascade."  # of the models' arrays in a checkpoint
ALL_LAYERS = ALL_ROUNDS.replace("rounds", "layers")
NO_BETTER = "no later layer was ahead"
KEPT_ROWS = "no rows of two grades were left: trained on the rows of the layer before"
BOOSTS = ("query", "document")
HELD_OUT, VALID = "held_out", "valid"
JUDGED_ON = ("both", VALID, HELD_OUT)
_SHOWN = {HELD_OUT: "held-out scores", VALID: "the validation data"}
_KEPT_PREFIX = "kept."  # of the arrays in a checkpoint

NDCG = "ndcg@10"
_SAMPLED_ROWS = 5000  # for correlations, which need the scores of all trees at once
Column = tuple[Floats, Floats | None]  # of the training rows, and of the validation rows


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
        stopwatch = Stopwatch()
        learners = []
        for learner in fit_learners(plan.layer, number, columns, state.is_trained):
            learners.append(learner)
            rounds.report(number * n_learners + len(learners))
        layer = FittedLayer(learners)
        judged = state.choice.judge(standings_of(plan.measure, layer, columns))
        state.add(layer, _report(layer, state, judged))
        if not rounds.is_over:
            _augment(plan, layer, columns, state)
        state.reports[-1]["seconds"] = stopwatch.seconds()
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


def checkpoint_rules(n_rows: int) -> dict[str, ArrayRule]:
    """The arrays that every checkpoint of a cascade holds besides the layers."""
    return {
        "history": ArrayRule(np.float64, (None,), may_be_nan=True),
        "is_trained": ArrayRule(np.bool_, (n_rows,)),
        "outputs": ArrayRule(np.int32, (None, 2), WHOLE),
    }


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
    data, outputs = columns.train.data, arrays["outputs"]
    if (cascade.n_features, cascade.feature_names) != (data.n_features, data.feature_names):
        raise ModelError("its layers are of other features.")
    n_layers = len(cascade.layers)
    reports = meta["layers"]
    if not isinstance(reports, list) or not all(isinstance(one, dict) for one in reports):
        raise ModelError("its reports of layers are damaged.")
    if not n_layers == len(reports) == arrays["history"].size:
        raise ModelError(f"it holds {n_layers} layers, but not as many reports and measures.")
    state.layers = [*cascade.layers[:-1], Layer(cascade.layers[-1].models, outputs)]
    if outputs[:, 0].max(initial=0) >= len(state.layers[-1].models):
        raise ModelError("its last layer passes on the output of a model that it does not have.")
    state.reports, state.note = reports, meta["note"]
    state.choice.history.extend(arrays["history"].tolist())
    state.choice.restore(meta["kept"], arrays, n_layers)
    state.is_trained = np.array(arrays["is_trained"])
    if "held_out" in arrays:
        of_rows = ArrayRule(np.float64, (data.n_documents,), may_be_nan=True)
        check_arrays({"held_out": of_rows}, arrays)
        state.held_out = np.array(arrays["held_out"])
    if len(outputs):
        passed = state.layers if cascade.keep_augmented else state.layers[-1:]
        n_passed = sum(len(layer.outputs) for layer in passed)
        columns.restore(arrays, n_passed * len(cascade.forms))


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


@dataclass(frozen=True, eq=False)
class LayerStanding:
    """The measure of a layer on one part of the data, and its values by query, NaN if unknown."""

    value: float
    units: Floats  # empty for a measure of all documents together
    weights: Floats

    def lead_over(self, other: LayerStanding, *, minimised: bool) -> tuple[float, float]:
        """The mean difference to another layer, above 0 where this one is better, and its standard error."""
        sign = -1.0 if minimised else 1.0
        if self.units.size == 0 or other.units.size == 0:
            return sign * (self.value - other.value), 0.0
        differences = sign * (self.units - other.units)
        is_known = ~np.isnan(differences)
        differences, weights = differences[is_known], self.weights[is_known]
        total = float(weights.sum())
        if total <= 0:
            return math.nan, math.nan
        mean = float((weights * differences).sum() / total)
        return mean, float(np.sqrt(((weights * (differences - mean)) ** 2).sum()) / total)


def standings_of(
    measure: Measure, layer: FittedLayer, columns: LayerColumns
) -> dict[str, LayerStanding]:
    """A layer as the last one: on held-out scores, and on the validation data if there are any."""
    data, scores = columns.train.data, layer.held_out
    value = held_out_value(measure, scores, data)
    rows = rows_with_score(scores, data)
    found = {HELD_OUT: _standing(measure, value, scores, data, rows)}
    if columns.valid is not None:
        valid, of_valid = columns.valid.data, layer.of_valid
        everything = np.arange(valid.n_documents)
        value = mean_value(measure, of_valid, valid)
        found[VALID] = _standing(measure, value, of_valid, valid, everything)
    return found


def _standing(
    measure: Measure, value: float, scores: Floats, data: RankingData, rows: Array
) -> LayerStanding:
    """The value of a layer, with those of all queries: NaN for those that it is not the mean of."""
    if math.isnan(value) or measure.is_pooled:
        return LayerStanding(value, np.zeros(0), np.zeros(0))
    units = values_by_query(measure, scores, data, rows)
    return LayerStanding(value, units, data.judgments.query_weights_or_ones)


@dataclass(eq=False)
class LayerChoice(EarlyStopping):
    """Which layer is the best so far; growing ends when ``patience`` further ones were not ahead of it."""

    judged_on: str = "both"
    lead: float = 0.0
    kept: dict[str, LayerStanding] = field(default_factory=dict)  # the standings of the best layer
    n_best: int = 0  # its number, from 1

    @property
    def best_iteration(self) -> int:
        """The number of the best layer; 0 while there is none."""
        return self.n_best

    def judge(self, standings: Mapping[str, LayerStanding]) -> dict[str, Any]:
        """Add a layer, and say what was found: its values, its leads over the best one before it, and if it is ahead.

        The measure is that of the validation data, where there are any.
        """
        self.history.append(standings.get(VALID, standings[HELD_OUT]).value)
        leads = {
            name: standing.lead_over(self.kept[name], minimised=self.is_minimised)
            for name, standing in standings.items()
            if name in self.kept
        }
        is_ahead = not self.kept or self._is_ahead(leads)
        if is_ahead:
            self.kept, self.n_best = dict(standings), len(self.history)
        return {
            "measure": _plain(self.history[-1]),
            HELD_OUT: _plain(standings[HELD_OUT].value),
            "lead": {name: [_plain(number) for number in lead] for name, lead in leads.items()},
            "ahead": is_ahead,
        }

    def parts(self, names: Any) -> list[str]:
        """Those of the parts that count; validation data that are not there cannot."""
        if self.judged_on == "both" or self.judged_on not in names:
            return [name for name in (HELD_OUT, VALID) if name in names]
        return [self.judged_on]

    def reason(self, n_later: int) -> str:
        """Why growing ended: what the best layer was not beaten in."""
        where = " and on ".join(_SHOWN[name] for name in self.parts(self.kept))
        after = "the next layer was not" if n_later == 1 else f"none of the next {n_later} was"
        return f"layer {self.n_best} is kept: {after} ahead of it on {where}"

    def _is_ahead(self, leads: Mapping[str, tuple[float, float]]) -> bool:
        least = self.lead
        for name in self.parts(leads):
            mean, error = leads[name]
            if not mean > least * error:  # NaN is not ahead
                return False
            least = 0.0
        return True

    def saved(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The best layer's standings for a checkpoint: plain numbers, and arrays."""
        arrays = {}
        for name, standing in self.kept.items():
            arrays[f"{_KEPT_PREFIX}{name}.units"] = standing.units
            arrays[f"{_KEPT_PREFIX}{name}.weights"] = standing.weights
        values = {name: _plain(standing.value) for name, standing in self.kept.items()}
        return {"n_best": self.n_best, "values": values}, arrays

    def restore(
        self, record: Mapping[str, Any], arrays: Mapping[str, Array], n_layers: int
    ) -> None:
        """Take over the standings of a checkpoint of ``n_layers`` layers."""
        self.n_best = whole_number("n_best", record["n_best"], 1, n_layers)
        for name in record["values"]:
            units = f"{_KEPT_PREFIX}{name}.units"
            check_arrays({units: ArrayRule(np.float64, (None,), may_be_nan=True)}, arrays)
            of_weights = ArrayRule(np.float64, arrays[units].shape, 0.0)
            check_arrays({f"{_KEPT_PREFIX}{name}.weights": of_weights}, arrays)
        self.kept = {
            name: LayerStanding(
                math.nan if value is None else float(value),
                np.array(arrays[f"{_KEPT_PREFIX}{name}.units"]),
                np.array(arrays[f"{_KEPT_PREFIX}{name}.weights"]),
            )
            for name, value in record["values"].items()
        }


def _plain(number: float) -> float | None:
    """A number for reports and files, which know no NaN."""
    return None if math.isnan(number) else float(number)


def choice_for(measure: Measure, patience: int | None, judged_on: str, lead: float) -> LayerChoice:
    """Nothing judged yet."""
    return LayerChoice(patience, is_minimised(measure), judged_on=judged_on, lead=lead)


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
        return math.sqrt(exact_mean((scores[rows] - labels) ** 2))
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
