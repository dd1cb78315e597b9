"""What is chosen on queries that are not measured: parameters, and the sizes at which the model of a cell is scored.

``tune_cell`` chooses parameters by one of the searches of ``studies.searches``. It is not given the test part.
Candidates are judged on the validation part (``on_validation``), or on inner folds of the training queries, perhaps
with the validation queries (``on_folds``: nested cross-validation). A tuning that was stopped is continued by proposing
the same candidates again: those that were finished are not fitted a second time.

``sized_scores`` scores the test part with the model whole, or at the size that validates best by each measure.
``[measures] size = "validated"`` takes for each measure the number of rounds that is best on the validation part, from
one fit (Mohan 2010, §4.2). ``costs`` says what features cost, and ``early_exit`` of an algorithm where documents leave.

Terms
    candidate    values of the tuned parameters
    trial        a candidate that was judged, as a plain mapping: number, parameters, value and seconds; the value on
                 each inner fold (``folds``); why there is no value (``error``)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import DataError, InputError, ModelError
from rankwood.experiments.settings import Algorithm
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, is_minimised
from rankwood.models.early_exit import EarlyExit
from rankwood.models.family import ModelStages
from rankwood.rankers.base import learns_kind, parameters_called, predict_where_grown, stages_of
from rankwood.studies.sizes import Walk, best_stage
from rankwood.studies.trials import OnFolds
from rankwood.studies.trials import Trial as FoldTrial
from rankwood.studies.tune import TrialRecord, as_numbers, candidate_search

WHOLE, VALIDATED = "whole", "validated"
STOPPING = ("early_stopping", "stop")  # parameters that discard rounds

Candidate = Mapping[str, Any]  # parameter -> value
Fit = Callable[[Candidate], Any]  # -> fitted estimator


# Parameters.


@dataclass(frozen=True)
class Judged:
    """How good a candidate is."""

    value: float
    model: Any = None  # the fitted model, where it can be used as it is
    by_fold: tuple[float, ...] = ()  # the value on each inner fold


Judge = Callable[[Candidate], Judged]


@dataclass
class Choice:
    """The best of the candidates tried so far, and what every one of them reached."""

    measure: Measure
    trials: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)
    model: Any = None  # of the best candidate; None where it was judged earlier, or on inner folds
    value: float = math.nan
    importance: dict[str, float] = field(default_factory=dict)  # by Optuna, where it searched

    def consider(self, trial: dict[str, Any], model: Any) -> None:
        """Keep the candidate if it is better than all before it: of equals the first stays."""
        value = trial["value"]
        is_better = value < self.value if is_minimised(self.measure) else value > self.value
        if not self.trials or is_better or (math.isnan(self.value) and not math.isnan(value)):
            self.best, self.model, self.value = dict(trial["parameters"]), model, value
        self.trials.append(trial)

    @property
    def tried(self) -> list[dict[str, Any]]:
        """The trials for the record of the cell, without their times: these differ from run to run."""
        return [
            {key: trial[key] for key in ("parameters", "value", "folds", "error") if key in trial}
            for trial in self.trials
        ]


def tune_cell(
    algorithm: Algorithm,
    judge: Judge,
    measure: Measure,
    *,
    seeds: tuple[int, int],
    kept: Sequence[TrialRecord] = (),
    tell: Callable[[TrialRecord], None] = lambda _trial: None,
) -> Choice:
    """Propose, judge and compare candidates until the budget is spent or there are none left.

    Parameters
    ----------
    seeds
        Of random search, the same for all cells of a run, so that candidates can be compared across folds; and of
        Optuna's sampler.
    kept
        The trials of an earlier attempt at this cell, in their order: these are not judged again.
    tell
        A function that is told of each trial as soon as it is finished.
    """
    choice = Choice(measure)
    with candidate_search(algorithm.tune_method, algorithm.tune, measure, *seeds) as search:
        while _has_budget(algorithm, choice.trials):
            candidate = search.propose()
            if candidate is None:
                break
            number = len(choice.trials)
            if number < len(kept) and kept[number]["parameters"] == candidate:
                trial, model = as_numbers(kept[number]), None
            else:
                kept = kept[:number]
                trial, model = _judged(judge, candidate, choice.trials)
                tell(trial)
            choice.consider(trial, model)
            search.learn(trial["value"])
        choice.importance = search.importance()
    if math.isnan(choice.value) and any("error" in trial for trial in choice.trials):
        raise InputError(
            f"no candidate could be fitted; the last one: {choice.trials[-1].get('error')}"
        )
    return choice


def _has_budget(algorithm: Algorithm, trials: Sequence[TrialRecord]) -> bool:
    """Whether another candidate may be tried; the first one always."""
    if algorithm.tune_method == "grid" or not trials:
        return True
    if algorithm.tune_trials is not None and len(trials) >= algorithm.tune_trials:
        return False
    spent = sum(trial["seconds"] for trial in trials)
    return algorithm.tune_time is None or spent < algorithm.tune_time


def _judged(
    judge: Judge, candidate: Candidate, earlier: Sequence[TrialRecord]
) -> tuple[dict[str, Any], Any]:
    """The trial of a candidate, and its model; a candidate that was tried before is not fitted again."""
    trial: dict[str, Any] = {"number": len(earlier), "parameters": dict(candidate)}
    same = next((one for one in earlier if one["parameters"] == candidate), None)
    if same is not None:
        return {**same, **trial, "seconds": 0.0}, None
    start = time.perf_counter()
    model = None
    try:
        judged = judge(candidate)
        trial["value"], model = judged.value, judged.model
        if judged.by_fold:
            trial["folds"] = list(judged.by_fold)
    except InputError as error:  # what this candidate cannot learn from, others perhaps can
        trial |= {"value": math.nan, "error": str(error)}
    trial["seconds"] = time.perf_counter() - start
    return trial, model


def on_validation(fit: Fit, vali: RankingData, measure: Measure) -> Judge:
    """Judge candidates by models of the training part, on the validation part."""

    def judge(candidate: Candidate) -> Judged:
        model = fit(candidate)
        return Judged(mean_value(measure, model.predict(vali), vali), model)

    return judge


def on_folds(build: Fit, folds: OnFolds) -> Judge:
    """Judge candidates on each inner fold, by models of the others; ``build`` gives unfitted estimators.

    The value of a candidate is the measure over the queries of all inner folds. Estimators that stop early find their
    rounds on a fifth of the queries that they train on.
    """
    data, measure = folds.data, folds.measure
    if folds.n_folds < 2:
        raise DataError(
            f"tune_folds needs at least two queries to cut, and there are {data.n_queries}."
        )

    def judge(candidate: Candidate) -> Judged:
        trial = folds.judge(FoldTrial("", dict(candidate), build(candidate)), None)
        if not trial.is_done:
            raise InputError(trial.outcome)
        scores = np.asarray(trial.scores)
        parts = [folds.fold_of_row == fold for fold in range(folds.n_folds)]
        by_fold = (mean_value(measure, scores[rows], data.take_rows(rows)) for rows in parts)
        return Judged(mean_value(measure, scores, data), None, tuple(by_fold))

    return judge


# Sizes.


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
    estimator.set_params(**dict.fromkeys(parameters_called(estimator, *STOPPING)))


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
        return SizedScores(dict.fromkeys(measures, predict_where_grown(model, test)), {})
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
