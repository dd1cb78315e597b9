"""How candidates are proposed in tuning, and what their values tell.

A search proposes candidates: all of them (``Grid``), drawn at random (``RandomSearch``), or by Optuna's sampler
(``OptunaSearch``). It is a function of its seed and of the values that it was told, so that a search that was stopped
can be repeated. ``tune`` (``studies.tune``) and the cells of experiments (``experiments.tuning``) search by these.

Terms
    space        by parameter its values, or a range ``{"low": …, "high": …, "log": …, "int": …, "step": …}``
    candidate    values of the tuned parameters
    trial        a candidate that was judged, as a plain mapping with ``parameters`` and ``value``
    importance   the share of a parameter in the variance of the candidates' values
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rankwood._core.random import stream
from rankwood.dtypes import Floats
from rankwood.errors import MissingExtra
from rankwood.measures.measure import Measure, is_minimised

Space = Mapping[str, Any]
Trial = Mapping[str, Any]
METHODS = ("grid", "random", "optuna")
_DRAWS = 100  # of which one must be new, or random search ends
_GROUPS = 5  # of the numbers of a range, for their importance


class CandidateSearch:
    """What proposes candidates, one at a time, and is told the value of each."""

    def propose(self) -> dict[str, Any] | None:
        """The next candidate; None where there is none left."""
        raise NotImplementedError

    def learn(self, value: float) -> None:
        """Take the value of the candidate that was proposed last into account."""

    def importance(self) -> dict[str, float]:
        """The shares of the parameters, where the search itself can tell."""
        return {}


@contextlib.contextmanager
def candidate_search(
    method: str, space: Space, measure: Measure, seed_of_draws: int, seed: int
) -> Iterator[CandidateSearch]:
    """The search of this name; ``seed`` is that of Optuna's sampler."""
    if method == "grid":
        yield Grid(all_candidates(space))
    elif method == "random":
        yield RandomSearch(space, seed_of_draws)
    else:
        with _quiet(need_optuna()) as optuna:
            yield OptunaSearch(optuna, space, is_minimised(measure), seed)


def all_candidates(space: Space) -> list[dict[str, Any]]:
    """What a grid tries: every combination of the values, the last parameter's changing fastest."""
    names = list(space)
    return [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*(space[name] for name in names))
    ]


class Grid(CandidateSearch):
    """All candidates, in their order."""

    def __init__(self, candidates: Sequence[dict[str, Any]]) -> None:
        self._left = iter(candidates)

    def propose(self) -> dict[str, Any] | None:
        """The next candidate."""
        return next(self._left, None)


class RandomSearch(CandidateSearch):
    """Candidates drawn at random (Bergstra & Bengio 2012), none of them twice."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed
        self._drawn: list[dict[str, Any]] = []

    def propose(self) -> dict[str, Any] | None:
        """A new candidate; its draws depend on the seed and on how many there were before."""
        generator = stream(self._seed, "candidates", len(self._drawn))
        for _ in range(_DRAWS):
            candidate = {name: _draw(values, generator) for name, values in self._space.items()}
            if candidate not in self._drawn:
                self._drawn.append(candidate)
                return candidate
        return None


def _draw(values: Any, generator: np.random.Generator) -> Any:
    """One of a list, or a number of a range: evenly, or with ``log`` evenly in its logarithm."""
    if isinstance(values, list):
        return values[int(generator.integers(len(values)))]
    low, high, is_whole = values["low"], values["high"], is_of_whole_numbers(values)
    if "step" in values:
        n_steps = math.floor((high - low) / values["step"] + 1e-9)  # 0.3 / 0.1 is 2.9999…
        return low + int(generator.integers(n_steps + 1)) * values["step"]
    if not values.get("log"):
        return (
            int(generator.integers(low, high + 1))
            if is_whole
            else float(generator.uniform(low, high))
        )
    margin = 0.5 if is_whole else 0.0  # so that the ends are as likely as their neighbours
    number = math.exp(generator.uniform(math.log(low - margin), math.log(high + margin)))
    return min(max(round(number), low), high) if is_whole else min(max(number, low), high)


def is_of_whole_numbers(values: Mapping[str, Any]) -> bool:
    """Whether a range has whole numbers only: as ``int`` says, else where both ends are whole."""
    ends = (values["low"], values["high"])
    return bool(values.get("int", all(isinstance(end, int) for end in ends)))


def need_optuna() -> Any:
    """The package, or an error that says which extra brings it."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "tune", 'tune_method = "optuna"') from None
    return optuna


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[Any]:
    """Optuna without its log."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield optuna
    finally:
        optuna.logging.set_verbosity(before)


class OptunaSearch(CandidateSearch):
    """Optuna's tree-structured Parzen estimator, one trial after the other, so that a seed repeats it."""

    def __init__(self, optuna: Any, space: Space, is_falling: bool, seed: int) -> None:
        self._optuna, self._space, self._seed = optuna, space, seed
        self._study = optuna.create_study(
            direction="minimize" if is_falling else "maximize",
            sampler=optuna.samplers.TPESampler(seed=seed),
        )
        self._trial: Any = None

    def propose(self) -> dict[str, Any] | None:
        """What the sampler makes of the values so far."""
        self._trial = self._study.ask()
        return _suggested(self._trial, self._space)

    def learn(self, value: float) -> None:
        """Tell the study; a candidate without a value has failed."""
        failed = self._optuna.trial.TrialState.FAIL
        if math.isnan(value):
            self._study.tell(self._trial, state=failed)
        else:
            self._study.tell(self._trial, value)

    def importance(self) -> dict[str, float]:
        """The shares by Optuna's functional ANOVA (Hutter et al. 2014); none where the values do not differ."""
        importance = self._optuna.importance
        evaluator = importance.FanovaImportanceEvaluator(seed=self._seed)
        try:
            found = importance.get_param_importances(self._study, evaluator=evaluator)
        except (RuntimeError, ValueError):  # fewer than two trials, or no spread
            return {}
        return {name: float(share) for name, share in found.items() if math.isfinite(share)}


def _suggested(trial: Any, space: Space) -> dict[str, Any]:
    """A value for each parameter: one of a list, or a number of a range."""
    values_of: dict[str, Any] = {}
    for name, values in space.items():
        if isinstance(values, list):
            # by index: Optuna takes numbers and texts as choices, but no lists
            values_of[name] = values[trial.suggest_categorical(name, list(range(len(values))))]
            continue
        suggest = trial.suggest_int if is_of_whole_numbers(values) else trial.suggest_float
        options = {key: values[key] for key in ("log", "step") if key in values}
        values_of[name] = suggest(name, values["low"], values["high"], **options)
    return values_of


# What the values of candidates tell.


def mean_values(cells: Sequence[Sequence[Trial]]) -> list[tuple[dict[str, Any], list[float]]]:
    """Each candidate of one or several cells, with its value in every cell that has tried it."""
    found: dict[str, tuple[dict[str, Any], list[float]]] = {}
    for trials in cells:
        for key, trial in {_text(one["parameters"]): one for one in reversed(trials)}.items():
            if trial["value"] is not None and not math.isnan(trial["value"]):
                parameters = dict(trial["parameters"])
                found.setdefault(key, (parameters, []))[1].append(float(trial["value"]))
    return list(found.values())


def as_numbers(trial: Trial) -> dict[str, Any]:
    """A trial that was read from JSON, which has no NaN."""
    found = dict(trial)
    found["value"] = math.nan if trial["value"] is None else trial["value"]
    if "folds" in trial:
        found["folds"] = [math.nan if value is None else value for value in trial["folds"]]
    return found


def importance_of(cells: Sequence[Sequence[Trial]]) -> dict[str, float]:
    """The share of the variance of the candidates' values that each parameter explains by itself; NaN where unknown.

    A value counts as its distance from the mean of its cell, and a candidate as its mean over cells. The share is ε² of
    a one-way analysis of variance: what lies between the values of the parameter, less what as many groups would
    explain by chance. Numbers of a range are cut into five groups. What only several parameters together explain
    belongs to none of them.
    """
    centred = []
    for trials in cells:
        known = [one for one in map(as_numbers, trials) if not math.isnan(one["value"])]
        mean = sum(one["value"] for one in known) / max(1, len(known))
        centred.append([{**one, "value": one["value"] - mean} for one in known])
    candidates = mean_values(centred)
    values: Floats = np.array([np.mean(of) for _, of in candidates], np.float64)
    names = list(dict.fromkeys(name for parameters, _ in candidates for name in parameters))
    return {
        name: _explained(values, _groups([parameters[name] for parameters, _ in candidates]))
        for name in names
    }


def _groups(values: Sequence[Any]) -> list[Any]:
    """The group of each value: the value itself, or of many numbers the fifth that it lies in."""
    is_number = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
    if not is_number or len(set(values)) <= _GROUPS:
        return [_text(value) for value in values]
    edges = np.quantile(values, np.linspace(0, 1, _GROUPS + 1)[1:-1])
    groups: list[Any] = np.searchsorted(edges, values, side="left").tolist()
    return groups


def _explained(values: Floats, groups: Sequence[Any]) -> float:
    """ε² = (SSB - (k - 1) · MSE) / SST of k groups, at least 0."""
    numbers = np.unique(np.array([str(group) for group in groups]), return_inverse=True)[1]
    sizes = np.bincount(numbers)
    total = float(((values - values.mean()) ** 2).sum()) if values.size else 0.0
    n_spare = values.size - sizes.size
    if total == 0 or n_spare < 1 or sizes.size < 2:
        return math.nan
    means = np.bincount(numbers, values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum())
    error = (total - between) / n_spare
    return max(0.0, (between - (sizes.size - 1) * error) / total)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
