"""Random forests at web-search shape, against LightGBM's ``boosting=rf`` and scikit-learn's RandomForestRegressor.

Run as ``python -m benchmarks.bench_forest``. 720,000 × 136 rows, 100 leaves, 0.3 of the features per node, two
threads. Binning and compiling are apart on both sides; our time includes out-of-bag estimates. Goals: a third of
LightGBM's time, a sixtieth of scikit-learn's per tree.
"""

from __future__ import annotations

from typing import Any

from benchmarks.common import alternate, keep
from benchmarks.training import N_THREADS, against_lightgbm, ndcg
from rankwood.rankers.forests import RandomForest

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
    ours = RandomForest(
        N_TREES, max_leaves=N_LEAVES, features_per_node=FEATURES, n_threads=N_THREADS
    )
    found = against_lightgbm(ours, LIGHTGBM)
    per_tree, quality = run_sklearn(found.train, found.test)
    print(f"test NDCG@10 of scikit-learn's {SKLEARN_TREES} trees: {quality}")
    ratio_sklearn = found.seconds["rankwood"] / N_TREES / per_tree
    print(f"rankwood / lightgbm: {found.ratio:.2f} (goal: at most {GOAL_LIGHTGBM:.2f})")
    print(
        f"rankwood / scikit-learn, per tree: 1/{1 / ratio_sklearn:.1f} "
        f"(goal: at most 1/{1 / GOAL_SKLEARN:.0f})"
    )
    record = found.record(N_TREES)
    record["test_ndcg@10"] = found.quality | {"sklearn": quality}
    record |= {
        "seconds_per_tree_sklearn": per_tree,
        "oob_ndcg@10": ours.oob_ndcg_,
        "ratio_sklearn": ratio_sklearn,
    }
    keep("bench_forest", record)


if __name__ == "__main__":
    main()
