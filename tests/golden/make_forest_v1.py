"""Makes ``forest-v1.rankwood``, a tiny forest in format 1: ``python -m tests.golden.make_forest_v1``.

The file stays as it is: models written by every released version must keep loading.
"""

from __future__ import annotations

from pathlib import Path

from rankwood.models.forest import Forest
from rankwood.models.format import save_model

PATH = Path(__file__).with_name("forest-v1.rankwood")

META = {
    "estimator": "RandomForest",
    "parameters": {"n_trees": 3, "seed": 7},
    "measures": {"ndcg@10": 0.5},
    "training": {"n_documents": 8, "n_queries": 2},
    "conventions": {"empty": 0},
}

# bm25 <= 1.5, missing left; then on the right pagerank <= -0.25, missing right
TWO_SPLITS = {
    "feature": [0, -1, 1, -1, -1],
    "threshold": [1.5, 0, -0.25, 0, 0],
    "left": [1, 0, 3, 0, 0],
    "right": [2, 0, 4, 0, 0],
    "missing": [1, 0, 4, 0, 0],
    "value": [0.75, 0.5, 1.0, 0.25, 2.0],
    "cover": [8, 4, 4, 2, 2],
    "gain": [0.5, 0, 0.125, 0, 0],
}
# pagerank <= 0, with a third child for missing values
THREE_WAY = {
    "feature": [1, -1, -1, -1],
    "threshold": [0, 0, 0, 0],
    "left": [1, 0, 0, 0],
    "right": [2, 0, 0, 0],
    "missing": [3, 0, 0, 0],
    "value": [0, -1.0, 1.0, 4.0],
    "cover": [8, 3, 3, 2],
    "gain": [1.0, 0, 0, 0],
}
LEAF = {
    "feature": [-1],
    "threshold": [0],
    "left": [0],
    "right": [0],
    "missing": [0],
    "value": [3.0],
    "cover": [8],
}


def make_forest() -> Forest:
    return Forest.from_trees(
        [TWO_SPLITS, THREE_WAY, LEAF],
        n_features=2,
        tree_weights=[1.0, 2.0, 0.5],
        base=0.125,
        feature_names=["bm25", "pagerank"],
    )


if __name__ == "__main__":
    save_model(make_forest(), PATH, META)
