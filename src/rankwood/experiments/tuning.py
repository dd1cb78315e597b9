"""Choosing parameters on the validation queries: by trying all, or by Optuna's search.

No function of this module is given the test part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwood.errors import MissingExtra
from rankwood.experiments.settings import Algorithm
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, is_minimised

Fit = Callable[[Mapping[str, Any]], Any]  # parameters -> fitted estimator


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
