"""Deep Forest on MQ2008, five folds: forests, cascades, the five structural variants, LambdaMART, DF-LM and a network.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.deep_forest_mq2008 [name ...]``; the folder holds ``MQ2008/Fold1`` to
``Fold5``. Names measure those only and keep nothing; so does ``--folds 1``, which stops after so many folds. NDCG@10
and MAP with empty queries as 0; every query is in one fold's test part. Paired t-tests over the test queries: cascades
against the random forest, variants against the cascade, DF-LM and the network against LambdaMART; the network
is left out, with a word, where PyTorch is not installed. Sizes are the source's for MQ2007:
40 trees per forest, 160 per LambdaMART of DF-LM.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import keep
from rankwood.errors import MissingExtra

NAME = "deep_forest_mq2008"
MEASURES = ("ndcg@10", "map")
N_FORESTS, N_TREES, LM_TREES = 8, 40, 160
BOOSTED = {"max_leaves": 15, "learning_rate": 0.05, "early_stopping": 100}


def deep(**variant: Any) -> Callable[[], Any]:
    """A cascade of forests."""
    return lambda: rw.DeepForest(n_forests=N_FORESTS, n_trees=N_TREES, **variant)


# Each with what it is compared to.
RANKERS: dict[str, tuple[Callable[[], Any], str | None]] = {
    "RF": (lambda: rw.RandomForest(300), None),
    "DF": (deep(), "RF"),
    "DF trees (S3.1)": (deep(augment="trees"), "DF"),
    "DF pareto (S3.1.1)": (deep(select="pareto"), "DF"),
    "DF kept (S3.2)": (deep(keep_augmented=True), "DF"),
    "DF queries (S3.3.1)": (deep(boost="query", alpha=0.3), "DF"),
    "DF documents (S3.3.2)": (deep(boost="document", beta=0.7), "DF"),
    "LambdaMART": (lambda: rw.LambdaMART(1000, **BOOSTED), "RF"),
    "DF-LM": (lambda: rw.DeepForest.lambdamart(N_FORESTS, LM_TREES), "LambdaMART"),
    "MLP": (lambda: rw.MLPRanker(early_stopping=20), "LambdaMART"),
}


def values_of(make: Callable[[], Any], folds: list[Any]) -> tuple[dict[str, Any], list[int]]:
    """Each measure by test query of all folds, and how many layers each fold kept."""
    found: dict[str, list[Any]] = {measure: [] for measure in MEASURES}
    layers = []
    for train, vali, test in folds:
        model = make().fit(train, valid=vali)
        scores = model.predict(test)
        layers.append(model.cascade_.n_layers if isinstance(model, rw.DeepForest) else 1)
        for measure in MEASURES:
            found[measure].append(rw.parse_measure(measure).per_query(scores, test))
    return {measure: np.concatenate(values) for measure, values in found.items()}, layers


def p_value(one: Any, other: Any) -> float:
    """Of a paired t-test, two-sided."""
    from scipy.stats import ttest_rel

    return float(ttest_rel(one, other).pvalue)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folds", type=int, default=5)
    asked = parser.parse_args(arguments or [])
    folder = os.environ.get("RANKWOOD_DATA")
    if not folder or not (Path(folder) / "MQ2008").is_dir():
        print("skipped: set RANKWOOD_DATA to a folder that holds MQ2008")
        return
    folds = list(rw.read_folds(Path(folder) / "MQ2008")[: asked.folds])
    values: dict[str, Any] = {}
    result: dict[str, Any] = {"folds": len(folds)}
    for name, (make, against) in RANKERS.items():
        if asked.names and name not in asked.names:
            continue
        start = time.perf_counter()
        try:
            values[name], layers = values_of(make, folds)
        except MissingExtra as reason:
            print(f"{name:<22} left out: {reason}")
            continue
        seconds = time.perf_counter() - start
        row: dict[str, Any] = {"seconds": seconds, "layers": layers, "against": against}
        shown = f"{name:<22}"
        for measure in MEASURES:
            row[measure] = float(values[name][measure].mean())
            shown += f" {measure} {row[measure]:.4f}"
            if against in values:
                row[f"p_{measure}"] = p_value(values[name][measure], values[against][measure])
                shown += f" (p {row[f'p_{measure}']:.3f} against {against})"
        print(f"{shown}   layers {layers}   {seconds:.0f} s", flush=True)
        result[name] = row
    if not asked.names and asked.folds == len(folds) == 5:
        keep(NAME, result)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
