"""Boosted trees at web-search shape, against LightGBM's regression.

Run as ``python -m benchmarks.bench_boosting``. 720,000 × 136 rows, 100 trees of 31 leaves, learning rate 0.1, two
threads. Binning and compiling are apart on both sides. Goal: at most 0.8 of LightGBM's time.
"""

from __future__ import annotations

from typing import Any

from benchmarks.common import alternate, describe, keep, median
from rankwood import evaluate, make_ranking
from rankwood.binning.binned import bin_data
from rankwood.ensembles.gbrt import GBRT

N_THREADS = 2
N_TREES = 100
N_LEAVES = 31
GOAL = 0.8

LIGHTGBM = {
    "objective": "regression",
    "num_leaves": N_LEAVES,
    "learning_rate": 0.1,
    "min_data_in_leaf": 20,
    "min_sum_hessian_in_leaf": 0.0,
    "max_bin": 255,
    "num_threads": N_THREADS,
    "verbosity": -1,
}


def ndcg(scores: Any, data: Any) -> float:
    return evaluate(scores, data, "ndcg@10", n_bootstrap=0)["ndcg@10"].value


def main() -> None:
    import lightgbm

    everything = make_ranking(7000, 120, 136, seed=1)
    train = everything.take_queries(range(6000))
    test = everything.take_queries(range(6000, 7000))
    binned = bin_data(train, n_threads=N_THREADS)
    _ = binned.rows_first
    theirs = lightgbm.Dataset(train.features, train.labels, params=LIGHTGBM).construct()
    ours = GBRT(N_TREES, max_leaves=N_LEAVES, n_threads=N_THREADS)
    models: dict[str, Any] = {}
    GBRT(1, n_threads=N_THREADS).fit(binned)  # compiles

    def run_ours() -> None:
        models["rankwood"] = ours.fit(binned)

    def run_theirs() -> None:
        models["lightgbm"] = lightgbm.train(LIGHTGBM, theirs, N_TREES)

    print(f"{train}, {N_TREES} trees, {N_THREADS} threads")
    seconds = alternate({"rankwood": run_ours, "lightgbm": run_theirs})
    for name, taken in seconds.items():
        print(describe(name, taken))
    leaves = {
        "rankwood": ours.forest_.n_leaves / N_TREES,
        "lightgbm": models["lightgbm"].trees_to_dataframe()["left_child"].isna().sum() / N_TREES,
    }
    quality = {name: ndcg(model.predict(test.features), test) for name, model in models.items()}
    print(f"leaves per tree: {leaves}")
    print(f"test NDCG@10: {quality}")
    ratio = median(seconds["rankwood"]) / median(seconds["lightgbm"])
    print(f"rankwood / lightgbm: {ratio:.2f} (goal: at most {GOAL:.2f})")
    keep(
        "bench_boosting",
        {
            "rows": train.n_documents,
            "features": train.n_features,
            "trees": N_TREES,
            "threads": N_THREADS,
            "seconds": {name: median(taken) for name, taken in seconds.items()},
            "leaves_per_tree": {name: float(count) for name, count in leaves.items()},
            "test_ndcg@10": quality,
            "ratio_lightgbm": ratio,
        },
    )


if __name__ == "__main__":
    main()
