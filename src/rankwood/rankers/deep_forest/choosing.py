"""How many layers of a cascade are kept: a layer replaces the best one before it only if it is ahead of it.

A layer is judged as if it were the last, on the held-out scores of the training rows, on the validation data, or on
both. It is ahead where the mean of its differences by query is above 0; on the first of the parts, the held-out scores
if they are judged, above ``lead`` standard errors of that mean. So chance alone rarely adds a layer, and what is lost
by one that chance did add is small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.measures.compute import mean_value, values_by_query
from rankwood.measures.measure import Measure, is_minimised
from rankwood.rankers.deep_forest.columns import LayerColumns
from rankwood.rankers.deep_forest.layers import FittedLayer
from rankwood.rankers.deep_forest.outputs import held_out_value, rows_with_score
from rankwood.training.rounds import EarlyStopping

HELD_OUT, VALID = "held_out", "valid"
JUDGED_ON = ("both", VALID, HELD_OUT)
_SHOWN = {HELD_OUT: "held-out scores", VALID: "the validation data"}
_PREFIX = "kept."  # of the arrays in a checkpoint


@dataclass(frozen=True, eq=False)
class LayerStanding:
    """The measure of a layer on one part of the data, and its values by query (by row, for rmse), NaN if unknown."""

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
    """The value of a layer, with those of all queries or rows: NaN for those that it is not the mean of."""
    if math.isnan(value) or measure.is_pooled:
        return LayerStanding(value, np.zeros(0), np.zeros(0))
    if measure.name == "rmse":
        errors: Floats = np.full(scores.size, np.nan)
        errors[rows] = (scores[rows] - data.labels[rows]) ** 2
        return LayerStanding(value, errors, np.ones(scores.size))
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
            arrays[f"{_PREFIX}{name}.units"] = standing.units
            arrays[f"{_PREFIX}{name}.weights"] = standing.weights
        values = {name: _plain(standing.value) for name, standing in self.kept.items()}
        return {"n_best": self.n_best, "values": values}, arrays

    def restore(self, record: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Take over the standings of a checkpoint."""
        self.n_best = int(record["n_best"])
        self.kept = {
            name: LayerStanding(
                math.nan if value is None else float(value),
                np.array(arrays[f"{_PREFIX}{name}.units"]),
                np.array(arrays[f"{_PREFIX}{name}.weights"]),
            )
            for name, value in record["values"].items()
        }


def _plain(number: float) -> float | None:
    """A number for reports and files, which know no NaN."""
    return None if math.isnan(number) else float(number)


def choice_for(measure: Measure, patience: int | None, judged_on: str, lead: float) -> LayerChoice:
    """Nothing judged yet."""
    return LayerChoice(patience, is_minimised(measure), judged_on=judged_on, lead=lead)
