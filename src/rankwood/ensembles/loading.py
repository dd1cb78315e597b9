"""Estimators to and from model files: ``save`` and ``load``."""

from __future__ import annotations

import importlib
import math
import os
from typing import Any

import numpy as np

from rankwood.ensembles.base import Ranker
from rankwood.ensembles.parameters import plain_parameters
from rankwood.errors import ModelError
from rankwood.models.forest import Forest
from rankwood.models.format import load_forest, save_forest

# Estimators that a file may name, and where they live. A file can name nothing else.
_MODULE_OF = {
    "BROOF": "rankwood.ensembles.broof",
    "CompletelyRandomForest": "rankwood.ensembles.forests",
    "ExtraTrees": "rankwood.ensembles.forests",
    "GBRT": "rankwood.ensembles.gbrt",
    "LambdaMART": "rankwood.ensembles.lambdamart",
    "RandomForest": "rankwood.ensembles.forests",
}


def estimators() -> dict[str, Any]:
    """Every estimator by name."""
    return {
        name: getattr(importlib.import_module(module), name) for name, module in _MODULE_OF.items()
    }


def save(model: Ranker | Forest, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, or a bare forest, to a model file.

    The file holds the trees, the parameters and a record of the training, and no code. The same model trained again
    gives the same bytes, so the time the training took is not in it; out-of-bag scores of single rows are not either.
    """
    if isinstance(model, Forest):
        save_forest(model, path)
        return
    if not isinstance(model, Ranker) or type(model).__name__ not in _MODULE_OF:
        raise ModelError(f"{type(model).__name__} cannot be saved: it is not an estimator of ours.")
    if not hasattr(model, "forest_"):
        raise ModelError(
            f"this {type(model).__name__} is not fitted yet: there is nothing to save."
        )
    training = {name: value for name, value in model.training_.items() if name != "seconds"}
    for name in ("history_", "best_iteration_"):
        if hasattr(model, name):
            training[name.rstrip("_")] = _without_nan(getattr(model, name))
    measures = {}
    found = getattr(model, "oob_ndcg_", None)
    if found is not None and not math.isnan(found):
        measures["oob_ndcg@10"] = found
    meta = {
        "estimator": type(model).__name__,
        "parameters": plain_parameters(model),
        "training": training,
        "measures": measures,
    }
    save_forest(model.forest_, path, meta)


def load(path: str | os.PathLike[str]) -> Any:
    """The estimator of a model file, which predicts the same to the bit; a bare forest where the file has no more."""
    forest, meta = load_forest(path)
    name = meta.get("estimator")
    if name is None:
        return forest
    if name not in _MODULE_OF:
        known = ", ".join(sorted(_MODULE_OF))
        raise ModelError(
            f"{os.fspath(path)} holds a '{name}', which this version does not know. Known: {known}."
        )
    kind = getattr(importlib.import_module(_MODULE_OF[name]), name)
    parameters = meta.get("parameters") or {}
    unknown = sorted(set(parameters) - set(kind().get_params()))
    if unknown:
        raise ModelError(f"{os.fspath(path)}: {name} has no parameter '{unknown[0]}'.")
    model = kind(**parameters)
    _set_fitted(model, forest, meta.get("training") or {})
    return model


def n_features_of(model: Any) -> int:
    """How many features a loaded model, an estimator or a bare forest, knows."""
    return int(getattr(model, "n_features_in_", None) or model.n_features)


def _set_fitted(model: Any, forest: Forest, training: dict[str, Any]) -> None:
    model.forest_ = forest
    model.n_features_in_ = forest.n_features
    if forest.feature_names is not None:
        model.feature_names_in_ = np.array(forest.feature_names, dtype=object)
    record = dict(training)
    history = record.pop("history", None)
    if isinstance(history, list):
        model.history_ = [math.nan if value is None else value for value in history]
    best = record.pop("best_iteration", None)
    if best is not None:
        model.best_iteration_ = best
    model.training_ = record


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: a figure that is none becomes null."""
    if isinstance(value, list):
        # A record per round has no NaN.
        return [None if isinstance(item, float) and math.isnan(item) else item for item in value]
    return value
