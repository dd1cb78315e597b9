"""Ranking quality on MQ2008: mean test NDCG@10 of five folds and three seeds, empty queries counted as 0.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.bench_quality``; the folder holds ``MQ2008/Fold1`` to ``Fold5``. The
peers' figures are constants, measured once on these folds with three seeds and not measured again here: scikit-learn's
RandomForestRegressor and ExtraTreesRegressor (300 trees, 100 leaves, 0.3 of the features), LightGBM's regression (15
leaves, rate 0.05, at most 1,000 trees, stopped after 100 without a better validation NDCG@10).
Goal: at most 0.004 below each.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rankwood as rw
from benchmarks.common import keep

N_FOLDS = 5
SEEDS = (0, 1, 2)
SLACK = 0.004
PEERS = {"RandomForest": 0.501, "ExtraTrees": 0.505, "GBRT": 0.500}
MODELS: dict[str, Callable[[int], Any]] = {
    "RandomForest": lambda seed: rw.RandomForest(
        300, max_leaves=100, features_per_node=0.3, seed=seed
    ),
    "ExtraTrees": lambda seed: rw.ExtraTrees(300, max_leaves=100, features_per_node=0.3, seed=seed),
    "GBRT": lambda seed: rw.GBRT(
        1000, max_leaves=15, learning_rate=0.05, early_stopping=100, seed=seed
    ),
}


def ndcg(model: Any, data: Any) -> float:
    return rw.evaluate(model, data, "ndcg@10", n_bootstrap=0)["ndcg@10"].value


def main() -> None:
    folder = os.environ.get("RANKWOOD_DATA")
    if not folder or not (Path(folder) / "MQ2008").is_dir():
        print("skipped: set RANKWOOD_DATA to a folder that holds MQ2008")
        return
    folds = list(rw.read_folds(Path(folder) / "MQ2008"))[:N_FOLDS]
    result: dict[str, Any] = {"folds": len(folds), "seeds": list(SEEDS)}
    for name, make in MODELS.items():
        start = time.perf_counter()
        values = {
            seed: [
                ndcg(make(seed).fit(train, valid=vali if name == "GBRT" else None), test)
                for train, vali, test in folds
            ]
            for seed in SEEDS
        }
        mean = statistics.mean(statistics.mean(of_seed) for of_seed in values.values())
        least = PEERS[name] - SLACK
        verdict = "reached" if mean >= least else "MISSED"
        print(
            f"{name:<14} NDCG@10 {mean:.4f} (peer {PEERS[name]:.3f}, goal at least {least:.3f}: {verdict}), "
            f"seeds {', '.join(f'{statistics.mean(of_seed):.4f}' for of_seed in values.values())}, "
            f"{time.perf_counter() - start:.0f} s"
        )
        result[name] = {
            "ndcg@10": mean,
            "peer": PEERS[name],
            "by_seed_and_fold": list(values.values()),
        }
    keep("bench_quality", result)


if __name__ == "__main__":
    main()
