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
from rankwood.models.format import load_model, save_model
from rankwood.models.kinds import KINDS, kind_of

# Estimators that a file may name, and where they live. A file can name nothing else.
_MODULE_OF = {
    "AdaBoost": "rankwood.ensembles.adaboost",
    "AdaRank": "rankwood.ensembles.adarank",
    "AveragedGBRT": "rankwood.ensembles.averaged_gbrt",
    "BROOF": "rankwood.ensembles.broof",
    "BoostingTree": "rankwood.ensembles.boosting_tree",
    "CompletelyRandomForest": "rankwood.ensembles.forests",
    "DeepForest": "rankwood.ensembles.deep_forest",
    "Exp3P": "rankwood.ensembles.bandit",
    "ExtraTrees": "rankwood.ensembles.forests",
    "GBRT": "rankwood.ensembles.gbrt",
    "InitializedGBRT": "rankwood.ensembles.initialized_gbrt",
    "LambdaMART": "rankwood.ensembles.lambdamart",
    "MLPRanker": "rankwood.ensembles.mlp",
    "NDCGBoost": "rankwood.ensembles.ndcgboost",
    "OrdinalRanker": "rankwood.ensembles.ordinal",
    "RandomForest": "rankwood.ensembles.forests",
    "RankBoost": "rankwood.ensembles.rankboost",
    "RankSVM": "rankwood.ensembles.ranksvm",
}
# What a fit found out besides the model, where an estimator has it.
_FOUND = (
    "history_",
    "train_history_",
    "best_iteration_",
    "stopped_because_",
    "n_iter_",
    "n_rounds_",
    "objective_",
    "layers_",
)


def estimators() -> dict[str, Any]:
    """Every estimator by name."""
    return {
        name: getattr(importlib.import_module(module), name) for name, module in _MODULE_OF.items()
    }


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, or a bare model such as a forest, to a model file.

    The file holds the trees or weights, the parameters and a record of the training, and no code. The same model
    trained again gives the same bytes, so the time the training took is not in it; out-of-bag scores of single rows
    are not either.
    """
    if kind_of(model) is not None:
        save_model(model, path)
        return
    if not isinstance(model, Ranker) or type(model).__name__ not in _MODULE_OF:
        raise ModelError(f"{type(model).__name__} cannot be saved: it is not an estimator of ours.")
    if not hasattr(model, model._model):
        raise ModelError(
            f"this {type(model).__name__} is not fitted yet: there is nothing to save."
        )
    training = {name: value for name, value in model.training_.items() if name != "seconds"}
    for name in _FOUND:
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
    """The estimator of a model file, which predicts the same to the bit; a bare model where the file has no more."""
    stored, meta = load_model(path)
    name = meta.get("estimator")
    if name is None:
        return stored
    model = _rebuilt(name, meta.get("parameters") or {}, path)
    if model._model != f"{kind_of(stored)}_":
        noun = KINDS[str(kind_of(stored))].noun
        raise ModelError(f"{os.fspath(path)} holds a model of another kind than {name}: {noun}.")
    _set_fitted(model, stored, meta.get("training") or {})
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
    return kind(**{key: _rebuilt_value(value, path) for key, value in parameters.items()})


def _rebuilt_value(value: Any, path: str | os.PathLike[str]) -> Any:
    """A parameter as it was, where it is an estimator or a list of them."""
    if isinstance(value, list):
        return [_rebuilt_value(item, path) for item in value]
    if _is_estimator(value):
        return _rebuilt(value["estimator"], value["parameters"], path)
    return value


def _is_estimator(value: Any) -> bool:
    """Whether a parameter in a file is an estimator with parameters of its own."""
    return (
        isinstance(value, dict)
        and set(value) == {"estimator", "parameters"}
        and isinstance(value["estimator"], str)
        and isinstance(value["parameters"], dict)
    )


def n_features_of(model: Any) -> int:
    """How many features a loaded model, an estimator or a bare one, knows."""
    return int(getattr(model, "n_features_in_", None) or model.n_features)


def _set_fitted(model: Any, stored: Any, training: dict[str, Any]) -> None:
    setattr(model, model._model, stored)
    model.n_features_in_ = stored.n_features
    if stored.feature_names is not None:
        model.feature_names_in_ = np.array(stored.feature_names, dtype=object)
    record = dict(training)
    for name in _FOUND:
        value = record.pop(name.rstrip("_"), None)
        if isinstance(value, list):
            value = [math.nan if item is None else item for item in value]
        if value is not None:
            setattr(model, name, value)
    model.training_ = record


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: a figure that is none becomes null. Times are left out."""
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items() if name != "seconds"}
    return None if isinstance(value, float) and math.isnan(value) else value
