"""What the kernels of ``rankwood.models.json_text`` do, from what the parser of the standard library makes of a text."""

from __future__ import annotations

import json
from typing import Any

import numpy as np


def features_of(body: str) -> list[Any]:
    """The ``features`` of every document of a request, in order; texts that are no JSON raise ValueError."""
    request = json.loads(body)
    lists = [request] if "documents" in request else request.get("queries", [])
    return [document["features"] for query in lists for document in query["documents"]]


def row_of(features: Any, names: list[str], default: float) -> np.ndarray:
    """The values of one document in the order of ``names``, rounded to float32 from the nearest float64."""
    if isinstance(features, dict):
        features = [features.get(name, default) for name in names]
    nearest = [np.nan if value is None else float(value) for value in features]
    return np.array(nearest, np.float64).astype(np.float32)


def matrix_of(body: str, names: list[str], default: float) -> np.ndarray:
    """The matrix of a request whose documents have a value for each name, or leave some out."""
    rows = [row_of(features, names, default) for features in features_of(body)]
    return np.array(rows, np.float32).reshape(len(rows), len(names))
