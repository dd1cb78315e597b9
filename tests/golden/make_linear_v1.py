"""Makes ``linear-v1.rankwood``, a tiny linear model in format 1: ``python -m tests.golden.make_linear_v1``.

The file stays as it is: models written by every released version must keep loading.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rankwood.models.format import save_model
from rankwood.models.linear import LinearModel

PATH = Path(__file__).with_name("linear-v1.rankwood")

META = {
    "estimator": "RankSVM",
    "parameters": {"C": 0.25},
    "measures": {},
    "training": {"n_documents": 8, "n_queries": 2},
}


def make_linear() -> LinearModel:
    return LinearModel(
        weights=np.array([0.5, -2.0, 0.0]),
        fill=np.array([1.0, 0.25, -1.0]),
        spread=np.array([2.0, 0.125, 0.0]),
        intercept=0.125,
        feature_names=("bm25", "pagerank", "constant"),
    )


if __name__ == "__main__":
    save_model(make_linear(), PATH, META)
