"""Ranking quality on MQ2008: five folds, empty queries counted as 0, means over seeds and folds of the test queries.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.quality_mq2008 [ranker ...]``; the folder holds ``MQ2008/Fold1`` to
``Fold5``. Names of rankers measure those only, and leave what is kept of the others. The peers' figures are constants,
measured once on these folds and not measured again here: scikit-learn's RandomForestRegressor and ExtraTreesRegressor
(300 trees, 100 leaves, 0.3 of the features), LightGBM's regression and lambdarank (15 leaves, rate 0.05, at most 1,000
trees, stopped after 100 without a better validation NDCG@10), three seeds each; RankLib's RankBoost and AdaRank;
scikit-learn's LinearSVC on all pairs (C = 0.1). Rounds and settings are chosen on the validation folds only.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rankwood as rw
from benchmarks.common import RESULTS, keep

NAME = "quality_mq2008"
N_FOLDS = 5
SEEDS = (0, 1, 2)
MEASURES = ("ndcg@10", "map")


@dataclass(frozen=True)
class Entry:
    """A ranker of the table, what its peer reaches, and how far below it may stay."""

    make: Callable[[int], Any]  # from a seed
    peer: float | None  # None where none was measured
    slack: float = 0.0
    measure: str = "ndcg@10"  # that the peer's figure is of
    uses_validation: bool = False
    seeds: tuple[int, ...] = SEEDS  # one is enough for a ranker without chance


BOOSTED = {"max_leaves": 15, "learning_rate": 0.05, "early_stopping": 100}
FOREST = {"max_leaves": 100, "features_per_node": 0.3}

TABLE = {
    "RandomForest": Entry(lambda seed: rw.RandomForest(300, **FOREST, seed=seed), 0.501, 0.004),
    "ExtraTrees": Entry(lambda seed: rw.ExtraTrees(300, **FOREST, seed=seed), 0.505, 0.004),
    "GBRT": Entry(
        lambda seed: rw.GBRT(1000, **BOOSTED, features_per_node=None, seed=seed),
        0.500,
        0.004,
        uses_validation=True,
    ),
    "LambdaMART": Entry(
        lambda seed: rw.LambdaMART(1000, **BOOSTED, seed=seed), 0.5005, 0.003, uses_validation=True
    ),
    "NDCGBoost": Entry(
        lambda seed: rw.NDCGBoost(500, max_leaves=2, early_stopping=100, seed=seed),
        None,
        uses_validation=True,
        seeds=(0,),
    ),
    "RankBoost": Entry(
        lambda _: rw.RankBoost(300, early_stopping=300, measure="map"),
        0.4776,
        0.005,
        "map",
        uses_validation=True,
        seeds=(0,),
    ),
    "AdaRank-MAP": Entry(
        lambda seed: rw.AdaRank(measure="map", early_stopping=100, seed=seed),
        0.465,
        measure="map",
        uses_validation=True,
    ),
    "AdaRank-NDCG": Entry(
        lambda seed: rw.AdaRank(measure="ndcg@10", early_stopping=100, seed=seed),
        0.470,
        measure="map",
        uses_validation=True,
    ),
    "RankSVM": Entry(lambda _: rw.RankSVM(), 0.4744, 0.005, "map", seeds=(0,)),
}


def measure_ranker(entry: Entry, folds: list[Any]) -> dict[str, list[list[float]]]:
    """Each measure's values on the test queries, by seed and fold."""
    found: dict[str, list[list[float]]] = {measure: [] for measure in MEASURES}
    for seed in entry.seeds:
        for measure in MEASURES:
            found[measure].append([])
        for train, vali, test in folds:
            model = entry.make(seed).fit(train, valid=vali if entry.uses_validation else None)
            result = rw.evaluate(model, test, list(MEASURES), n_bootstrap=0)
            for measure in MEASURES:
                found[measure][-1].append(result[measure].value)
    return found


def mean_of(values: list[list[float]]) -> float:
    """Over folds, then over seeds."""
    return statistics.mean(statistics.mean(of_seed) for of_seed in values)


def describe(name: str, entry: Entry, means: dict[str, float], seconds: float) -> str:
    """One row of the table."""
    values = ", ".join(f"{measure} {value:.4f}" for measure, value in means.items())
    row = f"{name:<14} {values}   {seconds:.0f} s"
    if entry.peer is None:
        return row
    least = entry.peer - entry.slack
    verdict = "reached" if means[entry.measure] >= least else "MISSED"
    return f"{row}   peer's {entry.measure} {entry.peer:.4f}, goal at least {least:.4f}: {verdict}"


def main(names: list[str] | None = None) -> None:
    folder = os.environ.get("RANKWOOD_DATA")
    if not folder or not (Path(folder) / "MQ2008").is_dir():
        print("skipped: set RANKWOOD_DATA to a folder that holds MQ2008")
        return
    folds = list(rw.read_folds(Path(folder) / "MQ2008"))[:N_FOLDS]
    path = RESULTS / f"{NAME}.json"
    kept = json.loads(path.read_text())["result"] if path.exists() else {}
    result: dict[str, Any] = {"folds": len(folds)}
    for name, entry in TABLE.items():
        if names and name not in names:
            if name in kept:
                result[name] = kept[name]
            continue
        start = time.perf_counter()
        values = measure_ranker(entry, folds)
        means = {measure: mean_of(of_measure) for measure, of_measure in values.items()}
        print(describe(name, entry, means, time.perf_counter() - start), flush=True)
        result[name] = {
            **means,
            "peer": None if entry.peer is None else {entry.measure: entry.peer},
            "seeds": list(entry.seeds),
            "by_seed_and_fold": values,
        }
    keep(NAME, result)


if __name__ == "__main__":
    main(sys.argv[1:])
