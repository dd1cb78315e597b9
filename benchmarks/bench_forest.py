"""Random forests at web-search shape, against LightGBM's ``boosting=rf`` and scikit-learn's RandomForestRegressor.

Run as ``python -m benchmarks.bench_forest``. 720,000 × 136 rows, 100 leaves, 0.3 of the features per node, two
threads. Binning and compiling are apart on both sides; our time includes out-of-bag estimates. Goals: a third of
LightGBM's time, a sixtieth of scikit-learn's per tree.
"""

from __future__ import annotations

from typing import Any

from benchmarks.common import alternate, describe, keep, median
from rankwood import evaluate, make_ranking
from rankwood.binning.binned import bin_data
from rankwood.ensembles.forests import RandomForest

N_THREADS = 2
N_TREES = 30
N_LEAVES = 100
FEATURES = 0.3
SKLEARN_TREES = 2  # one run, scaled per tree: a tree takes it many seconds
GOAL_LIGHTGBM = 0.33
GOAL_SKLEARN = 1 / 60

LIGHTGBM = {
    "objective": "regression",
    "boosting": "rf",
    "bagging_fraction": 0.632,  # the share of different rows in a bootstrap sample
    "bagging_freq": 1,
    "feature_fraction_bynode": FEATURES,
    "num_leaves": N_LEAVES,
    "min_data_in_leaf": 1,
    "feature_pre_filter": False,
    "max_bin": 255,
    "num_threads": N_THREADS,
    "verbosity": -1,
}


def ndcg(scores: Any, data: Any) -> float:
    return evaluate(scores, data, "ndcg@10", n_bootstrap=0)["ndcg@10"].value


def run_sklearn(train: Any, test: Any) -> tuple[float, float]:
    """Seconds per tree, and test NDCG@10."""
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(
        SKLEARN_TREES,
        max_leaf_nodes=N_LEAVES,
        max_features=FEATURES,
        n_jobs=N_THREADS,
        random_state=0,
    )
    taken = alternate({"sklearn": lambda: model.fit(train.features, train.labels)}, repeats=1)
    return taken["sklearn"][0] / SKLEARN_TREES, ndcg(model.predict(test.features), test)


def main() -> None:
    import lightgbm

    everything = make_ranking(7000, 120, 136, seed=1)
    train = everything.take_queries(range(6000))
    test = everything.take_queries(range(6000, 7000))
    binned = bin_data(train, n_threads=N_THREADS)
    _ = binned.rows_first
    theirs = lightgbm.Dataset(train.features, train.labels, params=LIGHTGBM).construct()
    ours = RandomForest(
        N_TREES, max_leaves=N_LEAVES, features_per_node=FEATURES, n_threads=N_THREADS
    )
    models: dict[str, Any] = {}
    RandomForest(1, n_threads=N_THREADS).fit(binned)  # compiles

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
    per_tree, quality["sklearn"] = run_sklearn(train, test)
    print(f"leaves per tree: {leaves}")
    print(f"test NDCG@10: {quality} (scikit-learn with {SKLEARN_TREES} trees)")
    ratio = median(seconds["rankwood"]) / median(seconds["lightgbm"])
    ratio_sklearn = median(seconds["rankwood"]) / N_TREES / per_tree
    print(f"rankwood / lightgbm: {ratio:.2f} (goal: at most {GOAL_LIGHTGBM:.2f})")
    print(f"rankwood / scikit-learn, per tree: 1/{1 / ratio_sklearn:.0f} (goal: at most 1/60)")
    keep(
        "bench_forest",
        {
            "rows": train.n_documents,
            "features": train.n_features,
            "trees": N_TREES,
            "threads": N_THREADS,
            "seconds": {name: median(taken) for name, taken in seconds.items()},
            "seconds_per_tree_sklearn": per_tree,
            "leaves_per_tree": {name: float(count) for name, count in leaves.items()},
            "test_ndcg@10": quality,
            "oob_ndcg@10": ours.oob_ndcg_,
            "ratio_lightgbm": ratio,
            "ratio_sklearn": ratio_sklearn,
        },
    )


if __name__ == "__main__":
    main()
