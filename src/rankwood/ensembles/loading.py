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
from rankwood.models.format import save_forest
from rankwood.models.kinds import load_model, save_model

# Estimators that a file may name, and where they live. A file can name nothing else.
_MODULE_OF = {
    "AveragedGBRT": "rankwood.ensembles.averaged_gbrt",
    "CompletelyRandomForest": "rankwood.ensembles.forests",
    "ExtraTrees": "rankwood.ensembles.forests",
    "GBRT": "rankwood.ensembles.gbrt",
    "InitializedGBRT": "rankwood.ensembles.initialized_gbrt",
    "OrdinalRanker": "rankwood.ensembles.ordinal",
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
    if not hasattr(model, model._model):
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
    save_model(getattr(model, model._model), path, meta)


def load(path: str | os.PathLike[str]) -> Any:
    """The estimator of a model file, which predicts the same to the bit; a bare forest where the file has no more."""
    learned, meta = load_model(path)
    name = meta.get("estimator")
    if name is None:
        return learned
    model = _rebuilt(name, meta.get("parameters") or {}, path)
    if isinstance(learned, Forest) != (model._model == "forest_"):
        raise ModelError(f"{os.fspath(path)} holds a model of another kind than {name} learns.")
    setattr(model, model._model, learned)
    _set_fitted(model, learned, meta.get("training") or {})
    return model


def _rebuilt(name: str, parameters: dict[str, Any], path: str | os.PathLike[str]) -> Any:
    """The estimator that a file names, unfitted; estimators among its parameters are rebuilt likewise."""
    if name not in _MODULE_OF:
        known = ", ".join(sorted(_MODULE_OF))
        raise ModelError(
            f"{os.fspath(path)} holds a '{name}', which this version does not know. Known: {known}."
        )
    kind = getattr(importlib.import_module(_MODULE_OF[name]), name)
    unknown = sorted(set(parameters) - set(kind().get_params()))
    if unknown:
        raise ModelError(f"{os.fspath(path)}: {name} has no parameter '{unknown[0]}'.")
    values = {
        key: _rebuilt(value["estimator"], value["parameters"], path)
        if _is_estimator(value)
        else value
        for key, value in parameters.items()
    }
    return kind(**values)


def _is_estimator(value: Any) -> bool:
    """Whether a parameter in a file is an estimator with parameters of its own."""
    return (
        isinstance(value, dict)
        and set(value) == {"estimator", "parameters"}
        and isinstance(value["estimator"], str)
        and isinstance(value["parameters"], dict)
    )


def n_features_of(model: Any) -> int:
    """How many features a loaded model, an estimator or a bare forest, knows."""
    return int(getattr(model, "n_features_in_", None) or model.n_features)


def _set_fitted(model: Any, learned: Any, training: dict[str, Any]) -> None:
    model.n_features_in_ = learned.n_features
    if learned.feature_names is not None:
        model.feature_names_in_ = np.array(learned.feature_names, dtype=object)
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
        return [None if math.isnan(item) else item for item in value]
    return value
