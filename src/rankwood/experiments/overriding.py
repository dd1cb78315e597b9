"""Changes to an experiment from outside its file: ``--set run.repetitions=1``, and ``--small``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from typing import Any

from rankwood.errors import ParameterError, UnknownName
from rankwood.experiments.data_table import PATH_KEYS

_SMALL_DATA = {"generate": {"queries": 40, "docs": 12, "features": 12, "seed": 1}}
_SMALL_COSTS = (1.0, 4.0, 16.0) * 4  # of the 12 features
_SMALL_NUMBERS = {  # the most that a small trial grows, whatever the file says
    "n_trees": 4,
    "n_rounds": 3,
    "n_runs": 2,
    "forest_trees": 4,
    "n_forests": 2,
    "max_layers": 2,
    "n_epochs": 2,
    "budget": 20,
    "tune_trials": 2,
}
_HAS_MANY = {  # what stays as large as the default where the file does not say it
    "AdaRank": ("n_rounds",),
    "AveragedGBRT": ("n_trees", "n_runs"),
    "BROOF": ("n_rounds", "n_trees"),
    "InitializedGBRT": ("n_trees", "forest_trees"),
    "DeepForest": ("n_forests", "n_trees", "max_layers"),
    "MLPRanker": ("n_epochs",),
    "NDCGBoost": ("n_rounds",),
    "RankBoost": ("n_rounds",),
    "AdaBoost": ("n_rounds",),
    "Exp3P": ("n_rounds",),
    **dict.fromkeys(
        ("CompletelyRandomForest", "ExtraTrees", "GBRT", "LambdaMART", "RandomForest"),
        ("n_trees",),
    ),
}


def with_overrides(tables: dict[str, Any], overrides: Sequence[str]) -> None:
    """Put ``table.key=value`` texts into the tables; a value that is not TOML is text."""
    for text in overrides:
        name, equals, value = text.partition("=")
        parts = [part.strip() for part in name.split(".")]
        if not equals or len(parts) < 2 or not all(parts):
            raise ParameterError(f"--set must be written as table.key=value, got '{text}'.")
        if parts[0] == "algorithm":
            target = _algorithm(tables, parts[1], text)
            parts = parts[1:]
            if len(parts) < 2:
                raise ParameterError(f"--set algorithm.NAME.key=value lacks a key: '{text}'.")
        else:
            target = tables.setdefault(parts[0], {})
        for part in parts[1:-1]:
            target = target.setdefault(part, {})
        if not isinstance(target, dict):
            raise ParameterError(f"--set '{text}': there is no such table to set a key in.")
        found = _value(value.strip())
        if parts[0] == "data" and parts[-1] in PATH_KEYS and isinstance(found, str):
            found = os.path.abspath(found)  # typed in a shell: relative to where one is
        target[parts[-1]] = found


def _algorithm(tables: dict[str, Any], name: str, text: str) -> dict[str, Any]:
    algorithms = [one for one in tables.get("algorithm", []) if isinstance(one, dict)]
    for one in algorithms:
        if name in (one.get("name"), one.get("kind") if "name" not in one else None):
            return one
    known = [str(one.get("name", one.get("kind"))) for one in algorithms]
    raise UnknownName(f"--set '{text}': algorithm", name, known)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def made_small(tables: dict[str, Any]) -> None:
    """Change an experiment into one that takes seconds: for a look at what a file does, and for tests."""
    data = tables.get("data")
    binarise = data.get("binarise") if isinstance(data, dict) else None
    tables["data"] = {**_SMALL_DATA, **({} if binarise is None else {"binarise": 1})}
    run = tables.setdefault("run", {})
    if isinstance(run, dict):
        run["repetitions"] = 1
    for algorithm in tables.get("algorithm", []):
        if isinstance(algorithm, dict):
            algorithm.pop("repetitions", None)
            _shrink(algorithm)


def _shrink(values: dict[str, Any]) -> None:
    """Cut the numbers of trees and rounds down, in inner estimators and in what is tuned too."""
    tuned = values.get("tune", {}) if isinstance(values.get("tune"), dict) else {}
    for name in _HAS_MANY.get(str(values.get("kind")), ()):
        is_text_layer = name not in ("n_forests", "n_trees") or isinstance(
            values.get("layer", ""), str
        )
        if name not in values and name not in tuned and is_text_layer:
            values[name] = _SMALL_NUMBERS[name]
    if "feature_costs" in values:
        values["feature_costs"] = list(_SMALL_COSTS)
    for name, value in values.items():
        most = _SMALL_NUMBERS.get(name)
        if most is not None and isinstance(value, int):
            values[name] = min(value, most)
        elif most is not None and isinstance(value, list):
            values[name] = sorted({min(one, most + place) for place, one in enumerate(value)})[:2]
        elif isinstance(value, dict):
            _shrink(value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    _shrink(item)
    for name, value in tuned.items():
        if isinstance(value, list):
            tuned[name] = value[:2]
