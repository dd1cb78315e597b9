"""What is chosen on the validation queries: parameters, and the sizes at which the model of a cell is scored.

``tune`` chooses parameters, by trying all or by Optuna's search. It is not given the test part.

``sized_scores`` scores the test part with the model whole, or at the size that validates best by each measure.
``[measures] size = "validated"`` takes for each measure the number of rounds that is best on the validation part, from
one fit (Mohan 2010, §4.2). ``costs`` says what features cost, and ``early_exit`` of an algorithm where documents leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import MissingExtra, ModelError
from rankwood.experiments.settings import Algorithm
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, is_minimised
from rankwood.models.early_exit import EarlyExit
from rankwood.models.family import ModelStages
from rankwood.rankers.base import learns_kind, stages_of
from rankwood.studies.best_sizes import Walk, best_stage

WHOLE, VALIDATED = "whole", "validated"
STOPPING = ("early_stopping", "stop")  # parameters that discard rounds

Fit = Callable[[Mapping[str, Any]], Any]  # parameters -> fitted estimator


# Parameters.


@dataclass
class Choice:
    """The best of the models tried so far, and what every one of them reached."""

    measure: Measure
    tried: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)
    model: Any = None
    value: float = math.nan

    def consider(self, changes: Mapping[str, Any], model: Any, value: float) -> None:
        """Keep the model if it is better than all before it: of equals the first stays."""
        self.tried.append({"parameters": dict(changes), "value": value})
        is_better = value < self.value if is_minimised(self.measure) else value > self.value
        if self.model is None or is_better or (math.isnan(self.value) and not math.isnan(value)):
            self.best, self.model, self.value = dict(changes), model, value


def tune(algorithm: Algorithm, fit: Fit, vali: Any, measure: Measure, seed: int) -> Choice:
    """The model, among those of the parameters to be tried, that ranks the validation queries best."""
    choice = Choice(measure)

    def attempt(changes: Mapping[str, Any]) -> float:
        model = fit(changes)
        value = mean_value(measure, model.predict(vali), vali)
        choice.consider(changes, model, value)
        return value

    if algorithm.tune_method == "grid":
        for changes in algorithm.candidates():
            attempt(changes)
    else:
        _search(algorithm, attempt, measure, seed)
    return choice


def need_optuna() -> Any:
    """The package, or an error that says which extra brings it."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "tune", 'tune_method = "optuna"') from None
    return optuna


def _search(
    algorithm: Algorithm, attempt: Callable[[Mapping[str, Any]], float], measure: Measure, seed: int
) -> None:
    """Optuna's tree-structured Parzen estimator, one trial after the other, so that a seed repeats it."""
    optuna = need_optuna()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(
            direction="minimize" if is_minimised(measure) else "maximize",
            sampler=optuna.samplers.TPESampler(seed=seed),
        )
        study.optimize(
            lambda trial: attempt(_suggested(trial, algorithm.tune)),
            n_trials=algorithm.tune_trials,
            n_jobs=1,
        )
    finally:
        optuna.logging.set_verbosity(before)


def _suggested(trial: Any, tuned: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each parameter: one of a list, or a number of a range."""
    values_of: dict[str, Any] = {}
    for name, values in tuned.items():
        if isinstance(values, list):
            # by index: Optuna takes numbers and texts as choices, but no lists
            values_of[name] = values[trial.suggest_categorical(name, list(range(len(values))))]
            continue
        ends = (values["low"], values["high"])
        is_whole = all(isinstance(end, int) for end in ends)
        suggest = trial.suggest_int if is_whole else trial.suggest_float
        options = {key: values[key] for key in ("log", "step") if key in values}
        values_of[name] = suggest(name, *ends, **options)
    return values_of


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
