"""BROOF's five kinds on MQ2008 beside RandomForest, MART and LambdaMART: MAP and NDCG@10 over five folds.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.broof_mq2008``; the folder holds ``MQ2008/Fold1`` to ``Fold5``. Three
repetitions with different seeds; boosted trees, gradient and lambda stop by the fold's validation part, the other
kinds out of bag. A query's value is its mean over the repetitions, empty queries count as 0. Each method is compared
with RandomForest over all queries, by Wilcoxon's signed-rank test and by the paired t-test; marks for p < 0.05: ▲
better, ▼ worse.

``python -m benchmarks.broof_mq2008 1 1 2`` tries it on one fold, one repetition and two rounds, and keeps nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import rankwood as rw
from benchmarks.common import keep

FULL = (5, 3, 100)  # folds, repetitions, rounds
MEASURES = ("map", "ndcg@10")
ALPHA = 0.05


def makers(n_rounds: int) -> dict[str, Callable[[int], Any]]:
    """Each method from its seed; the papers' 100 leaves and 0.3 of the features for all forests."""
    found: dict[str, Callable[[int], Any]] = {
        "RandomForest": lambda seed: rw.RandomForest(300, seed=seed),
        "MART": lambda seed: rw.GBRT(
            10 * n_rounds, max_leaves=15, learning_rate=0.05, early_stopping=100, seed=seed
        ),
        "LambdaMART": lambda seed: rw.LambdaMART(
            10 * n_rounds, max_leaves=15, learning_rate=0.05, early_stopping=100, seed=seed
        ),
    }
    for loss in ("absolute", "median", "height"):
        found[f"BROOF {loss}"] = lambda seed, loss=loss: rw.BROOF(
            loss, n_rounds, 100, stop="oob", patience=5, seed=seed
        )
    for loss in ("gradient", "lambda"):
        found[f"BROOF {loss}"] = lambda seed, loss=loss: rw.BROOF(
            loss, n_rounds, 50, stop="valid", patience=15, seed=seed
        )
    return found


def per_query(make: Callable[[int], Any], folds: list[Any], seeds: range) -> dict[str, Any]:
    """The value of each test query of all folds, mean over the seeds, by measure."""
    values: dict[str, list[Any]] = {measure: [] for measure in MEASURES}
    for train, vali, test in folds:
        scores = [make(seed).fit(train, valid=vali).predict(test) for seed in seeds]
        for measure in MEASURES:
            parsed = rw.parse_measure(measure)
            values[measure].append(
                np.mean([parsed.per_query(found, test) for found in scores], axis=0)
            )
    return {measure: np.concatenate(of_folds) for measure, of_folds in values.items()}


def compare(ours: Any, reference: Any) -> dict[str, Any]:
    """The mean difference, and what the two tests say of it."""
    difference = ours - reference
    if not difference.any():
        return {"difference": 0.0, "p_wilcoxon": 1.0, "p_t": 1.0}
    return {
        "difference": float(difference.mean()),
        "p_wilcoxon": float(stats.wilcoxon(difference).pvalue),
        "p_t": float(stats.ttest_rel(ours, reference).pvalue),
    }


def mark(found: dict[str, Any], test: str) -> str:
    if found[test] >= ALPHA:
        return "·"
    return "▲" if found["difference"] > 0 else "▼"


def main(n_folds: int = FULL[0], n_repetitions: int = FULL[1], n_rounds: int = FULL[2]) -> None:
    folder = os.environ.get("RANKWOOD_DATA")
    if not folder or not (Path(folder) / "MQ2008").is_dir():
        print("skipped: set RANKWOOD_DATA to a folder that holds MQ2008")
        return
    folds = list(rw.read_folds(Path(folder) / "MQ2008"))[:n_folds]
    result: dict[str, Any] = {}
    reference: dict[str, Any] = {}
    print("against RandomForest: W Wilcoxon, t paired t-test")
    for name, make in makers(n_rounds).items():
        start = time.perf_counter()
        values = per_query(make, folds, range(n_repetitions))
        reference = reference or values
        result[name] = {
            measure: {"value": float(found.mean()), **compare(found, reference[measure])}
            for measure, found in values.items()
        }
        shown = "   ".join(
            f"{measure} {found['value']:.4f} {found['difference']:+.4f} "
            f"W{mark(found, 'p_wilcoxon')} t{mark(found, 'p_t')}"
            for measure, found in result[name].items()
        )
        print(f"{name:<15} {shown}   {time.perf_counter() - start:.0f} s", flush=True)
    if (n_folds, n_repetitions, n_rounds) == FULL:
        keep("broof_mq2008", {"folds": n_folds, "repetitions": n_repetitions, **result})


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
