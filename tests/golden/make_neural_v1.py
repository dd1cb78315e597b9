"""Makes ``neural-v1.rankwood``, a tiny network in format 1: ``python -m tests.golden.make_neural_v1``.

The file stays as it is: models written by every released version must keep loading.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rankwood.models.format import save_model
from rankwood.models.neural import NeuralModel

PATH = Path(__file__).with_name("neural-v1.rankwood")

META = {
    "estimator": "MLPRanker",
    "parameters": {"hidden": [2], "seed": 7},
    "measures": {},
    "training": {"rows": 8, "queries": 2},
}


def make_neural() -> NeuralModel:
    return NeuralModel(
        widths=np.array([3, 2, 1]),
        weights=np.array([1.0, -1.0, 0.5, 2.0, 8.0, 8.0, 3.0, -0.25], np.float32),
        biases=np.array([0.0, 0.5, -1.0], np.float32),
        centre=np.array([1.0, 0.0, 4.0]),
        spread=np.array([2.0, 1.0, 0.0]),
        is_skewed=np.array([0, 1, 0], np.uint8),
        feature_names=("bm25", "clicks", "constant"),
    )


if __name__ == "__main__":
    save_model(make_neural(), PATH, META)
