"""What a model said on its way: scores after each tree, round or layer, and out-of-bag estimates of forests.

Words used here
    stage    a model as it was after some of its trees, rounds or layers
    unit     what its stages are counted in: tree, round or layer
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwood._checks import read_only
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.ensembles.bagged import Bagged
from rankwood.ensembles.bags import Bags
from rankwood.ensembles.inputs import weights_of_rows
from rankwood.ensembles.out_of_bag import OutOfBag
from rankwood.ensembles.validation import mean_value
from rankwood.measures.measure import Measure
from rankwood.measures.parsing import parse_measure
from rankwood.models.cascade import Cascade
from rankwood.models.forest import Forest

_MOST_STAGES = 100  # of a curve, by default


@dataclass(frozen=True, eq=False)
class Stages:
    """The stages of a model of trees or layers."""

    model: Any  # the estimator, or the bare model
    stored: Forest | Cascade
    unit: str
    per_unit: int  # trees of a round; 1 for trees and layers

    @classmethod
    def of(cls, model: Any) -> Stages | None:
        """None for a model that has no stages, such as a linear one."""
        stored = getattr(model, getattr(model, "_model", ""), model)
        if isinstance(stored, Cascade):
            return cls(model, stored, "layer", 1)
        if not isinstance(stored, Forest) or stored.n_trees == 0:
            return None
        n_rounds = _n_rounds(model, stored)
        if n_rounds is None:
            return cls(model, stored, "tree", 1)
        return cls(model, stored, "round", stored.n_trees // n_rounds)

    @property
    def count(self) -> int:
        """How many units the model has."""
        if isinstance(self.stored, Cascade):
            return self.stored.n_layers
        return self.stored.n_trees // self.per_unit

    def points(self, every: int | None) -> list[int]:
        """The stages to look at: every so many units, and the last; by default 100 of them at most."""
        step = max(1, math.ceil(self.count / _MOST_STAGES)) if every is None else every
        return [*range(step, self.count, step), self.count]

    def scores(self, data: Any, points: list[int], n_threads: int | None) -> Iterator[Floats]:
        """The scores of the rows of ``data`` at each of the points."""
        if isinstance(self.stored, Cascade):
            layers = self.stored.predict_layers(data, n_threads=n_threads)
            yield from (np.ascontiguousarray(layers[:, point - 1]) for point in points)
            return
        step = points[0] * self.per_unit
        for _, scores in self.stored.predict_stages(data, step, n_threads=n_threads):
            yield scores

    def out_of_bag(self, train: RankingData, measure: Measure, points: list[int]) -> Floats | None:
        """The measure of the training rows by trees that have not seen them, where that is known.

        A forest's bags are drawn again, so ``train`` must be what it was fitted to; a BROOF has kept its figures.
        """
        history = recorded(self.model, measure).get("oob")
        if history is not None and self.unit == "round":
            return history[np.array(points) - 1] if history.size >= self.count else None
        bags = self._bags(train)
        if bags is None or not isinstance(self.stored, Forest):
            return None
        return _out_of_bag(self.stored, bags, train, measure, points)

    def _bags(self, train: RankingData) -> Bags | None:
        if not isinstance(self.model, Bagged):
            return None
        fitted_to = (self.model.training_.get("rows"), self.model.training_.get("queries"))
        if fitted_to != (train.n_documents, train.n_queries):
            return None
        return self.model._bags(train, weights_of_rows(train))


def recorded(model: Any, measure: Measure) -> dict[str, Floats]:
    """The figures that a fit put down after each round, by part, if they are of this measure: vali, oob, train."""
    if parse_measure(getattr(model, "measure", None) or "ndcg@10") != measure:
        return {}
    found: dict[str, Floats] = {}
    history = getattr(model, "history_", None) or []
    if history and isinstance(
        history[0], dict
    ):  # a record per round; rounds that were not kept have none
        for name, part in (("valid", "vali"), ("oob", "oob")):
            values = [record.get(name) for record in history]
            if any(value is not None for value in values):
                found[part] = np.array([math.nan if v is None else v for v in values], np.float64)
    elif history:
        found["vali"] = np.array(history, np.float64)
    if type(model).__name__ == "AdaRank" and getattr(model, "train_history_", None):
        found["train"] = np.array(model.train_history_, np.float64)
    return found


def _n_rounds(model: Any, forest: Forest) -> int | None:
    """How many rounds of several trees there were; None where trees came one by one."""
    kind = type(model).__name__
    if kind == "BROOF":
        n_rounds = int(model.best_iteration_)
    elif kind == "AveragedGBRT":
        n_rounds = forest.n_trees // int(model.n_runs)
    else:
        return None
    return n_rounds if n_rounds > 0 and forest.n_trees % n_rounds == 0 else None


def _out_of_bag(
    forest: Forest, bags: Bags, train: RankingData, measure: Measure, points: list[int]
) -> Floats:
    """The measure of the means of the trees that left a row out, over the rows that some tree has left out."""
    estimates, values = OutOfBag.empty(train.n_documents), []
    for tree in range(forest.n_trees):
        left_out = bags.counts(tree) == 0
        one = replace(forest.take_trees([tree]), tree_weights=np.ones(1), base=0.0)
        estimates.sums[left_out] += one.predict(train)[left_out]
        estimates.n_trees[left_out] += 1
        if tree + 1 in points:
            values.append(_measured(estimates, train, measure))
    return np.array(values)


def _measured(estimates: OutOfBag, train: RankingData, measure: Measure) -> float:
    rows = np.flatnonzero(estimates.n_trees)
    if rows.size == 0 or train.query_ids is None:
        return math.nan
    part = train.take_rows(rows)
    return mean_value(measure, read_only(estimates.scores[rows]), part)
