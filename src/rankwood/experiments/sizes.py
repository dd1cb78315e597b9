"""How the model of a cell is scored: whole or at the size that validates best by each measure, with exits and costs.

``[measures] size = "validated"`` takes for each measure the number of rounds that is best on the validation part, from
one fit (Mohan 2010, §4.2). ``costs`` says what features cost, and ``early_exit`` of an algorithm where documents leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import ModelError
from rankwood.measures.measure import Measure
from rankwood.models.early_exit import EarlyExit
from rankwood.models.family import ModelStages
from rankwood.rankers.base import learns_kind, stages_of
from rankwood.studies.best_sizes import Walk, best_stage

WHOLE, VALIDATED = "whole", "validated"
STOPPING = ("early_stopping", "stop")  # parameters that discard rounds


@dataclass(frozen=True)
class ScoringRules:
    """What an experiment says of the scoring of a cell, as plain values."""

    size: str = WHOLE
    every: int = 1  # rounds from one size to the next
    costs: str | tuple[float, ...] | None = None  # a cost file, or numbers
    early_exit: str | None = None  # as ``EarlyExit.parse`` reads it

    @property
    def is_plain(self) -> bool:
        """Whether the whole model scores all documents, and nobody asks for the cost."""
        return self == ScoringRules()


@dataclass(frozen=True, eq=False)
class SizedScores:
    """By measure the scores of the test documents, and the record of the size: rounds, trees, valid, cost."""

    scores: dict[str, Floats]
    sizes: dict[str, dict[str, Any]]


def keep_every_round(estimator: Any) -> None:
    """Switch off what would discard rounds of a model of trees: sizes are chosen among all of them."""
    if not (learns_kind(estimator, "forest") or learns_kind(estimator, "ordinal")):
        return
    names = [
        name
        for name in estimator.get_params(deep=True)
        if name.rsplit("__", maxsplit=1)[-1] in STOPPING
    ]
    estimator.set_params(**dict.fromkeys(names))


def sized_scores(
    model: Any,
    rules: ScoringRules,
    measures: dict[str, Measure],
    vali: RankingData | None,
    test: RankingData,
    n_threads: int | None,
) -> SizedScores:
    """The scores of the test documents by measure, each at its size; ``measures`` are by their texts."""
    stages = _stages(model, rules)
    if stages is None:
        return SizedScores(dict.fromkeys(measures, model.predict(test)), {})
    exits = None if rules.early_exit is None else EarlyExit.parse(rules.early_exit)
    walk = Walk(stages.forest, exits, rules.costs, "all", n_threads)
    chosen, valid = _chosen(stages, walk, rules, list(measures.values()), vali)
    on_test = walk.scores(test, [int(stages.n_trees[stage]) for stage in chosen])
    scores: dict[str, Floats] = {}
    sizes: dict[str, dict[str, Any]] = {}
    for text, stage, value in zip(measures, chosen, valid, strict=True):
        n_trees = int(stages.n_trees[stage])
        scores[text] = on_test[n_trees].scores
        sizes[text] = {
            "rounds": int(stages.n_rounds[stage]),
            "trees": n_trees,
            "valid": value,
            "cost": on_test[n_trees].mean_cost,
        }
    return SizedScores(scores, sizes)


def _stages(model: Any, rules: ScoringRules) -> ModelStages | None:
    """The stages of the model; None for one that has a single size, which is then scored as it is."""
    try:
        return stages_of(model).thinned(rules.every)
    except ModelError:
        if rules.early_exit is not None:
            raise
        return None


def _chosen(
    stages: ModelStages,
    walk: Walk,
    rules: ScoringRules,
    measures: Sequence[Measure],
    vali: RankingData | None,
) -> tuple[list[int], list[float | None]]:
    """The stage of each measure, and its value on the validation part where that has been looked at."""
    if rules.size == WHOLE or vali is None:
        return [stages.n_rounds.size - 1] * len(measures), [None] * len(measures)
    on_valid = walk.measured(vali, stages.n_trees, measures)
    best = [best_stage(values, one) for values, one in zip(on_valid.values, measures, strict=True)]
    values = [float(of[stage]) for of, stage in zip(on_valid.values, best, strict=True)]
    return best, list(values)
