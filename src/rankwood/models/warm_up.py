"""Compile the kernels of scoring and explaining now, so that no first request waits for them."""

from __future__ import annotations

import numpy as np


def warm_up_scoring() -> None:
    """Score one row with one split, one weight, one unit, and explain it: their kernels are compiled for its types."""
    from rankwood.models.forest import Forest
    from rankwood.models.forest_checks import are_nodes_sound
    from rankwood.models.linear import LinearModel
    from rankwood.models.neural import NeuralModel

    split = {
        "feature": [0, -1, -1],
        "threshold": [0.5, 0, 0],
        "left": [1, 0, 0],
        "right": [2, 0, 0],
        "missing": [1, 0, 0],
        "value": [0.0, 1.0, 2.0],
        "cover": [2.0, 1.0, 1.0],
    }
    document = np.zeros((1, 1), np.float32)
    forest = Forest.from_trees([split], n_features=1)
    are_nodes_sound(forest)  # small ones are checked without
    forest.predict(document)
    forest.explainer.contributions(document)
    LinearModel(np.ones(1), np.zeros(1), np.ones(1)).predict(document)
    one, unit = np.ones(1), np.ones(1, np.float32)
    NeuralModel(np.ones(2, np.int64), unit, unit, one, one, np.zeros(1, np.uint8)).predict(document)
