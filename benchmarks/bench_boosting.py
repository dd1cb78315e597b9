"""Boosted trees at web-search shape, against LightGBM's regression.

Run as ``python -m benchmarks.bench_boosting``. 720,000 × 136 rows, 100 trees of 31 leaves, learning rate 0.1, two
threads. Binning and compiling are apart on both sides. Goal: at most 0.8 of LightGBM's time.
"""

from __future__ import annotations

from benchmarks.common import PUBLISHED_GBRT, keep
from benchmarks.training import N_THREADS, against_lightgbm
from rankwood.rankers.boosted import GBRT

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


def main() -> None:
    ours = GBRT(N_TREES, N_LEAVES, n_threads=N_THREADS, **PUBLISHED_GBRT)
    found = against_lightgbm(ours, LIGHTGBM)
    print(f"rankwood / lightgbm: {found.ratio:.2f} (goal: at most {GOAL:.2f})")
    keep("bench_boosting", found.record(N_TREES))


if __name__ == "__main__":
    main()
