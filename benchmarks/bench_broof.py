"""Boosted forests at web-search shape: 20 rounds of 50 trees against one forest of 1,000, and against scikit-learn.

Run as ``python -m benchmarks.bench_broof``. 720,000 × 136 rows, 100 leaves, 0.3 of the features per node, two
threads; binning and compiling are apart. Both sides make out-of-bag estimates. The loop with scikit-learn's forest is
timed for a fifth of a round, residues and all, and scaled. Goals: at most 1.15 times the plain forest's time, and a
fiftieth of scikit-learn's.
``python -m benchmarks.bench_broof 300 4 10`` tries it on 300 queries, 4 rounds and 10 trees, and keeps nothing.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from benchmarks.common import alternate, describe, keep, median
from benchmarks.training import N_THREADS, ndcg
from rankwood import BROOF, RandomForest, make_ranking
from rankwood.binning.binned import bin_data

FULL = (6000, 20, 50)  # queries, rounds, trees per round
N_LEAVES = 100
FEATURES = 0.3
RATE = 0.1
REPEATS = 2  # each run takes minutes
GOAL_FOREST = 1.15
GOAL_SKLEARN = 1 / 50


def sklearn_round(train: Any, n_trees: int) -> float:
    """Seconds of a round of so many trees: grow a forest, predict out of bag, take the residues."""
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(
        n_trees,
        max_leaf_nodes=N_LEAVES,
        max_features=FEATURES,
        oob_score=True,
        n_jobs=N_THREADS,
        random_state=0,
    )

    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rows without an out-of-bag prediction
            forest.fit(train.features, train.labels)
        np.abs(train.labels - RATE * forest.oob_prediction_).mean()

    return alternate({"sklearn": run}, repeats=1)["sklearn"][0]


def main(n_queries: int = FULL[0], n_rounds: int = FULL[1], n_trees: int = FULL[2]) -> None:
    everything = make_ranking(n_queries + n_queries // 6, 120, 136, seed=1)
    train = everything.take_queries(range(n_queries))
    test = everything.take_queries(range(n_queries, everything.n_queries))
    binned = bin_data(train, n_threads=N_THREADS)
    RandomForest(1, n_threads=N_THREADS).fit(binned)  # compiles, and lays out the rows
    shared: dict[str, Any] = {
        "max_leaves": N_LEAVES,
        "features_per_node": FEATURES,
        "n_threads": N_THREADS,
    }
    models: dict[str, Any] = {
        "plain forest": RandomForest(n_rounds * n_trees, **shared),
        "gradient": BROOF("gradient", n_rounds, n_trees, RATE, bag="row", stop=None, **shared),
    }
    BROOF("gradient", 2, 1).fit(train.take_queries(range(9)))  # compiles
    print(f"{train}, {n_rounds} rounds × {n_trees} trees, {N_THREADS} threads")
    runs = {name: lambda model=model: model.fit(binned) for name, model in models.items()}
    seconds = alternate(runs, REPEATS)
    for name, taken in seconds.items():
        print(describe(name, taken))
    quality = {name: ndcg(model, test) for name, model in models.items()}
    rounds = {
        name: model.best_iteration_ for name, model in models.items() if name != "plain forest"
    }
    per_tree = {
        name: median(taken) / models[name].forest_.n_trees for name, taken in seconds.items()
    }
    ratio = per_tree["gradient"] / per_tree["plain forest"]
    n_timed = max(1, n_trees // 5)
    of_sklearn = sklearn_round(train, n_timed) * n_trees / n_timed
    ratio_sklearn = per_tree["gradient"] * n_trees / of_sklearn
    print(f"test NDCG@10: {quality}; rounds: {rounds}")
    print(f"gradient / plain forest: {ratio:.3f} (goal: at most {GOAL_FOREST})")
    print(
        f"gradient / scikit-learn's loop: 1/{1 / ratio_sklearn:.1f} (goal: 1/{1 / GOAL_SKLEARN:.0f})"
    )
    if (n_queries, n_rounds, n_trees) == FULL:
        keep(
            "bench_broof",
            {
                "rows": train.n_documents,
                "features": train.n_features,
                "rounds": rounds,
                "trees_per_round": n_trees,
                "threads": N_THREADS,
                "seconds": {name: median(taken) for name, taken in seconds.items()},
                "seconds_sklearn_round": of_sklearn,
                "test_ndcg@10": quality,
                "ratio_forest": ratio,
                "ratio_sklearn": ratio_sklearn,
            },
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
