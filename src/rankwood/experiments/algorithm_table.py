"""The tables ``[[algorithm]]`` of an experiment, each an estimator with parameters, perhaps tuned."""

from __future__ import annotations

import math
import pathlib
from typing import Any

from rankwood.experiments.building import NOTHING, check_kind, check_names, checked
from rankwood.experiments.places import Path, Section, Source
from rankwood.experiments.settings import Algorithm

_OWN = ("name", "kind", "tune", "tune_method", "tune_trials", "repetitions")
_METHODS = ("grid", "optuna")
_RANGE = ("low", "high", "log", "step")
_LONGEST_NAME = 80
_MOST_CHECKED = 500  # combinations of a grid; of a larger one each value is checked by itself


def read_algorithms(
    source: Source, tables: Any, repetitions: int, has_vali: bool, folder: pathlib.Path
) -> tuple[Algorithm, ...]:
    """The algorithms of an experiment, in their order; paths are relative to ``folder``."""
    if not isinstance(tables, list) or not tables:
        raise source.error(("algorithm",), "an experiment needs at least one [[algorithm]] table.")
    found: dict[str, Algorithm] = {}
    for place, values in enumerate(tables):
        section = Section(source, ("algorithm", place), values, None)
        _find_cost_files(source, section.path, section.values, folder)
        algorithm = _algorithm(section, repetitions, has_vali)
        if algorithm.name in found:
            raise section.error(
                "name", f"'{algorithm.name}' is the name of another algorithm too; choose another."
            )
        found[algorithm.name] = algorithm
    return tuple(found.values())


def _algorithm(section: Section, repetitions: int, has_vali: bool) -> Algorithm:
    if "kind" not in section:
        raise section.error("", 'has no kind, such as "RandomForest".')
    kind = check_kind(section.source, (*section.path, "kind"), section.values["kind"])
    name = str(section.text("name", kind)).strip()
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise section.error("name", f"must be at most {_LONGEST_NAME} printable characters.")
    own = section.whole("repetitions", repetitions, least=1)
    if own > repetitions:
        raise section.error("repetitions", f"is {own}, more than the {repetitions} of [run].")
    parameters = {key: value for key, value in section.values.items() if key not in _OWN}
    method = section.one_of("tune_method", "grid", _METHODS)
    algorithm = Algorithm(
        name,
        kind,
        parameters,
        _tuned(section, method),
        method,
        section.whole("tune_trials", 20, least=1),
        own,
    )
    _check_tuning(section, algorithm, has_vali)
    _check_values(section, algorithm)
    if parameters.get("early_stopping", "none") != "none" and not has_vali:
        raise section.error("early_stopping", "needs validation data, which [data] lacks.")
    return algorithm


def _find_cost_files(
    source: Source, path: Path, values: dict[str, Any], folder: pathlib.Path
) -> None:
    """Make the paths of cost files absolute; one that is not there is an error."""
    for name, value in values.items():
        if name == "feature_costs" and isinstance(value, str) and value != NOTHING:
            file = folder / value
            if not file.is_file():
                raise source.error((*path, name), f"there is no file {file}.")
            values[name] = str(file.absolute())
        elif isinstance(value, dict):
            _find_cost_files(source, (*path, name), value, folder)


def _tuned(section: Section, method: str) -> dict[str, Any]:
    """What is tuned, with names such as ``base.n_trees`` for the parameters of an inner estimator."""
    found: dict[str, Any] = {}

    def gather(values: Any, names: tuple[str, ...]) -> None:
        path: Path = (*section.path, "tune", *names)
        is_range = isinstance(values, dict) and values and set(values) <= set(_RANGE)
        if isinstance(values, dict) and not is_range:
            for name, value in values.items():
                gather(value, (*names, name))
        elif is_range and method == "optuna":
            found[".".join(names)] = _range(section.source, path, values)
        elif is_range:
            message = 'is a range, which a grid cannot try: give a list, or tune_method = "optuna".'
            raise section.source.error(path, message)
        elif not isinstance(values, list) or not values:
            message = "must be a list of the values to try, such as [0.05, 0.1]."
            raise section.source.error(path, message)
        else:
            found[".".join(names)] = values

    if not isinstance(section.values.get("tune", {}), dict):
        raise section.error("tune", "must be a table, such as { learning_rate = [0.05, 0.1] }.")
    gather(section.values.get("tune", {}), ())
    return found


def _range(source: Source, path: Path, values: dict[str, Any]) -> dict[str, Any]:
    for name in ("low", "high"):
        value = values.get(name)
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not math.isfinite(value)
        ):
            raise source.error(path, f"a range needs low and high; {name} must be a number.")
    if values["low"] >= values["high"]:
        raise source.error(path, f"low must be less than high, got {values['low']:g}.")
    if values.get("log") and (values["low"] <= 0 or "step" in values):
        raise source.error(path, "with log = true, low must be above 0 and there is no step.")
    step = values.get("step", 1)
    if (
        not isinstance(step, int | float)
        or step <= 0
        or not isinstance(values.get("log", False), bool)
    ):
        raise source.error(path, "step must be a number above 0, and log true or false.")
    return values


def _check_tuning(section: Section, algorithm: Algorithm, has_vali: bool) -> None:
    for key in ("tune_method", "tune_trials"):
        if key in section and not algorithm.tune:
            raise section.error(key, "says how to tune, but there is no tune = { … } beside it.")
    if "tune_trials" in section and algorithm.tune_method == "grid":
        raise section.error("tune_trials", 'goes with tune_method = "optuna": a grid tries all.')
    if not algorithm.tune:
        return
    if not has_vali:
        raise section.error("tune", "needs validation queries, which [data] lacks.")
    for name in algorithm.tune:
        if name in algorithm.parameters:
            raise section.error(name, "is tuned and given a value too. Keep one of the two.")
    if algorithm.tune_method == "optuna":
        from rankwood.experiments.tuning import need_optuna

        need_optuna()


def _check_values(section: Section, algorithm: Algorithm) -> None:
    """Let the estimator look at its parameters, as they are and with every value to be tried."""
    source, path, kind = section.source, section.path, algorithm.kind
    check_names(source, path, kind, algorithm.parameters)
    checked(source, path, kind, algorithm.parameters)
    at = (*path, "tune")
    n_combinations = math.prod(
        len(values) if isinstance(values, list) else 2 for values in algorithm.tune.values()
    )
    listed = {name: _examples(values) for name, values in algorithm.tune.items()}
    trial = Algorithm(algorithm.name, kind, algorithm.parameters, listed)
    if n_combinations <= _MOST_CHECKED:
        tried = trial.candidates() if listed else []
    else:
        tried = [{name: value} for name, values in listed.items() for value in values]
    for changes in tried:
        for name in changes:
            _check_reach(section, algorithm, name)
        checked(source, at, kind, trial.with_values(changes))


def _examples(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values["low"], values["high"]]


def _check_reach(section: Section, algorithm: Algorithm, name: str) -> None:
    """Raise where ``base.n_trees`` is tuned and there is no estimator ``base``."""
    *outer, _ = name.split(".")
    values: Any = algorithm.parameters
    for part in outer:
        values = values.get(part) if isinstance(values, dict) else None
        if not isinstance(values, dict) or "kind" not in values:
            message = f"there is no estimator '{part}' to tune. Give {part} = {{ kind = \"…\" }}."
            raise section.source.error((*section.path, "tune", *name.split(".")), message)
