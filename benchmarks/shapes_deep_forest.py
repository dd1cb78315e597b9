"""Deep Forest on generated data: whether a cascade is above one forest, and DF-LM above LambdaMART.

Run as ``python -m benchmarks.shapes_deep_forest [training queries]``; without a number 1,500 queries train and the
result is kept; further queries validate (300) and test (1,000). NDCG@10 of the test queries, mean of three seeds of
generator and model together, and paired t-tests over the test queries of all seeds. The forest of comparison has as
many trees as a whole layer of the cascade.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import keep
from benchmarks.deep_forest_mq2008 import p_value

NAME = "shapes_deep_forest"
QUERIES, VALIDATION, TEST = 1500, 300, 1000
DOCUMENTS, FEATURES = 40, 60
SEEDS = (1, 2, 3)
N_FORESTS, N_TREES, LM_TREES = 8, 40, 160

# Each with what it is compared to.
RANKERS: dict[str, tuple[Callable[[int], Any], str | None]] = {
    "RF": (lambda seed: rw.RandomForest(N_FORESTS * N_TREES, seed=seed), None),
    "DF": (lambda seed: rw.DeepForest(n_forests=N_FORESTS, n_trees=N_TREES, seed=seed), "RF"),
    "LambdaMART": (
        lambda seed: rw.LambdaMART(
            1000, max_leaves=15, learning_rate=0.05, early_stopping=100, seed=seed
        ),
        "RF",
    ),
    "DF-LM": (lambda seed: rw.DeepForest.lambdamart(N_FORESTS, LM_TREES, seed=seed), "LambdaMART"),
}


def parts_of(n_queries: int, seed: int) -> tuple[Any, Any, Any]:
    """Training, validation and test queries."""
    total = n_queries + VALIDATION + TEST
    data = rw.make_ranking(total, DOCUMENTS, FEATURES, seed=seed)
    borders = (0, n_queries, n_queries + VALIDATION, total)
    train, vali, test = (
        data.take_queries(range(first, last)) for first, last in itertools.pairwise(borders)
    )
    return train, vali, test


def main(arguments: list[str] | None = None) -> None:
    n_queries = int(arguments[0]) if arguments else QUERIES
    result: dict[str, Any] = {"training_queries": n_queries, "seeds": len(SEEDS)}
    values: dict[str, Any] = {}
    parts = {seed: parts_of(n_queries, seed) for seed in SEEDS}
    for name, (make, against) in RANKERS.items():
        start = time.perf_counter()
        found, layers = [], []
        for seed, (train, vali, test) in parts.items():
            model = make(seed).fit(train, valid=vali)
            layers.append(model.cascade_.n_layers if isinstance(model, rw.DeepForest) else 1)
            found.append(rw.parse_measure("ndcg@10").per_query(model.predict(test), test))
        values[name] = np.concatenate(found)
        row: dict[str, Any] = {
            "ndcg@10": float(values[name].mean()),
            "by_seed": [float(each.mean()) for each in found],
            "layers": layers,
            "seconds": time.perf_counter() - start,
        }
        shown = f"{name:<12} NDCG@10 {row['ndcg@10']:.4f}"
        if against is not None:
            row |= {"against": against, "p": p_value(values[name], values[against])}
            shown += f" ({values[name].mean() - values[against].mean():+.4f} against {against}, p {row['p']:.1e})"
        print(f"{shown}   layers {layers}   {row['seconds']:.0f} s", flush=True)
        result[name] = row
    if not arguments:
        keep(NAME, result)


if __name__ == "__main__":
    main(sys.argv[1:])
