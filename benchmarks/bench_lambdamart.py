"""LambdaMART at web-search shape, against LightGBM's lambdarank; and its gradients alone.

Run as ``python -m benchmarks.bench_lambdamart``. 720,000 × 136 rows, 100 trees of 31 leaves, learning rate 0.1,
truncation 30, two threads. Binning and compiling are apart on both sides. LightGBM's gradients cannot be called alone:
their time is that of its lambdarank minus that of its regression, both with one feature and two leaves; ours is the
time of a call, with the scores of that model. Goals: at most 0.8 of LightGBM's time for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.common import alternate, describe, keep, median
from benchmarks.training import N_THREADS, against_lightgbm
from rankwood import LambdaMART, RankingData
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.loss import weak_learner_targets

N_TREES = 100
N_LEAVES = 31
TRUNCATION = 30
N_CALLS = 20
GOAL = 0.8

LIGHTGBM = {
    "objective": "lambdarank",
    "lambdarank_truncation_level": TRUNCATION,
    "num_leaves": N_LEAVES,
    "learning_rate": 0.1,
    "min_data_in_leaf": 20,
    "min_sum_hessian_in_leaf": 1e-3,
    "max_bin": 255,
    "num_threads": N_THREADS,
    "verbosity": -1,
}


def gradients(train: RankingData) -> dict[str, float]:
    """Seconds per call of our gradients, and what LightGBM's lambdarank takes longer than its regression."""
    import lightgbm

    one = np.ascontiguousarray(train.features[:, :1])
    sizes = np.diff(train.query_offsets)
    kinds = ("lambdarank", "regression")
    settings = {kind: {**LIGHTGBM, "objective": kind, "num_leaves": 2} for kind in kinds}
    rows = {
        kind: lightgbm.Dataset(one, train.labels, group=sizes, params=settings[kind]).construct()
        for kind in kinds
    }
    models: dict[str, Any] = {}

    def run_theirs(kind: str) -> None:
        models[kind] = lightgbm.train(settings[kind], rows[kind], N_CALLS)

    run_theirs("lambdarank")
    loss = LambdaRank(train, truncation=TRUNCATION, n_threads=N_THREADS)
    scores = np.asarray(models["lambdarank"].predict(one), np.float64)
    weak_learner_targets(loss, scores)  # compiles

    def run_ours() -> None:
        for _ in range(N_CALLS):
            weak_learner_targets(loss, scores)

    runs = {"rankwood": run_ours} | {kind: lambda kind=kind: run_theirs(kind) for kind in kinds}
    seconds = alternate(runs)
    for name, taken in seconds.items():
        print(describe(f"{N_CALLS} gradients, {name}", taken))
    theirs = median(seconds["lambdarank"]) - median(seconds["regression"])
    return {"rankwood": median(seconds["rankwood"]) / N_CALLS, "lightgbm": theirs / N_CALLS}


def main() -> None:
    ours = LambdaMART(
        N_TREES, max_leaves=N_LEAVES, l2=0.0, truncation=TRUNCATION, n_threads=N_THREADS
    )
    found = against_lightgbm(ours, LIGHTGBM)
    print(f"rankwood / lightgbm: {found.ratio:.2f} (goal: at most {GOAL:.2f})")
    per_call = gradients(found.train)
    ratio = per_call["rankwood"] / per_call["lightgbm"]
    print(f"gradients alone, rankwood / lightgbm: {ratio:.2f} (goal: at most {GOAL:.2f})")
    record = found.record(N_TREES)
    keep(
        "bench_lambdamart",
        record | {"seconds_of_gradients": per_call, "ratio_gradients_lightgbm": ratio},
    )


if __name__ == "__main__":
    main()
