"""An estimator's parameters as JSON says them: for the model file and for checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from rankwood.errors import ParameterError
from rankwood.measures.measure import Measure

# What says how a fit is run, not what it gives: no part of a model.
OF_THE_RUN = ("callbacks", "checkpoint", "n_threads", "progress", "warm_start")


def plain_parameters(estimator: Any) -> dict[str, Any]:
    """Every parameter that decides what is learned, made of numbers, texts, lists and mappings."""
    parameters = estimator.get_params(deep=False)
    return {
        name: plain(name, parameters[name]) for name in sorted(parameters) if name not in OF_THE_RUN
    }


def plain(name: str, value: Any) -> Any:
    """``value`` without numpy and tuples."""
    if value is None or isinstance(value, str | bool | int | float):
        # numpy's float64 is a float, but not one that every reader expects
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Measure):
        return str(value)
    if isinstance(value, np.ndarray | list | tuple):
        return [
            plain(name, item)
            for item in (value.tolist() if isinstance(value, np.ndarray) else value)
        ]
    if isinstance(value, dict):
        return {str(key): plain(name, item) for key, item in value.items()}
    if isinstance(value, BaseEstimator):
        return {"estimator": type(value).__name__, "parameters": plain_parameters(value)}
    raise ParameterError(f"{name} cannot be written to a file: it is {type(value).__name__}.")
