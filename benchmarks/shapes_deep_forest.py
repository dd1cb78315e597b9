"""Deep Forest on generated data: whether a cascade is above one forest, and DF-LM above LambdaMART.

Run as ``python -m benchmarks.shapes_deep_forest [training queries] [--processes N]``; with the usual 600 training
queries the result is kept; further queries validate (200) and test (1,000). Cells are a ranker on a seed's data; each
process runs one on one thread. NDCG@10 of the test queries, mean of three seeds of generator and model together, and
paired t-tests over the test queries of all seeds. The forest of comparison has as many trees as a whole layer of the
cascade. DF-LM has four LambdaMARTs of 80 trees in at most two layers instead of eight of 160, which would take hours.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import keep
from benchmarks.deep_forest_mq2008 import p_value

NAME = "shapes_deep_forest"
QUERIES, VALIDATION, TEST = 600, 200, 1000
DOCUMENTS, FEATURES = 25, 40
SEEDS = (1, 2, 3)
N_FORESTS, N_TREES = 8, 40
Cell = tuple[str, int, int]  # ranker, seed, training queries


def deep(**how: Any) -> Callable[[int], Any]:
    """A cascade of forests."""
    return lambda seed: rw.DeepForest(n_forests=N_FORESTS, n_trees=N_TREES, seed=seed, **how)


# Each with what it is compared to; the longest first.
RANKERS: dict[str, tuple[Callable[[int], Any], str | None]] = {
    "DF": (deep(), "RF"),
    "DF class vectors": (deep(augment="grades"), "DF"),
    "DF ranks and gaps": (deep(passes="scores+ranks+gaps"), "DF"),
    "DF-LM": (
        lambda seed: rw.DeepForest.lambdamart(4, 80, max_layers=2, seed=seed),
        "LambdaMART",
    ),
    "DF-LM standardised": (
        lambda seed: rw.DeepForest.lambdamart(4, 80, max_layers=2, passes="standard", seed=seed),
        "DF-LM",
    ),
    "LambdaMART": (
        lambda seed: rw.LambdaMART(
            1000, max_leaves=15, learning_rate=0.05, early_stopping=100, seed=seed
        ),
        "RF",
    ),
    "RF": (lambda seed: rw.RandomForest(N_FORESTS * N_TREES, seed=seed), None),
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


def run_cell(cell: Cell) -> tuple[Cell, dict[str, Any]]:
    """NDCG@10 by test query, layers and seconds of a ranker on the data of a seed."""
    name, seed, n_queries = cell
    train, vali, test = parts_of(n_queries, seed)
    start = time.perf_counter()
    model = RANKERS[name][0](seed).set_params(n_threads=1).fit(train, valid=vali)
    return cell, {
        "values": rw.parse_measure("ndcg@10").per_query(model.predict(test), test),
        "layers": model.cascade_.n_layers if isinstance(model, rw.DeepForest) else 1,
        "seconds": time.perf_counter() - start,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=NAME)
    parser.add_argument("queries", nargs="?", type=int, default=QUERIES)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args([] if arguments is None else arguments)
    cells: list[Cell] = [(name, seed, options.queries) for name in RANKERS for seed in SEEDS]
    found: dict[Cell, dict[str, Any]] = {}
    start = time.perf_counter()
    with get_context("spawn").Pool(min(options.processes, len(cells))) as pool:
        for cell, measured in pool.imap_unordered(run_cell, cells):
            found[cell] = measured
            elapsed = time.perf_counter() - start
            print(
                f"[{len(found)}/{len(cells)}, {elapsed:.0f} s] {cell[0]}, seed {cell[1]} ({measured['seconds']:.0f} s)",
                flush=True,
            )
    values = {
        name: np.concatenate([found[name, seed, options.queries]["values"] for seed in SEEDS])
        for name in RANKERS
    }
    result: dict[str, Any] = {"training_queries": options.queries, "seeds": len(SEEDS)}
    for name, (_, against) in RANKERS.items():
        own = [found[name, seed, options.queries] for seed in SEEDS]
        row: dict[str, Any] = {
            "ndcg@10": float(values[name].mean()),
            "by_seed": [float(each["values"].mean()) for each in own],
            "layers": [each["layers"] for each in own],
            "seconds": sum(each["seconds"] for each in own),
        }
        shown = f"{name:<22} NDCG@10 {row['ndcg@10']:.4f}"
        if against is not None:
            row |= {"against": against, "p": p_value(values[name], values[against])}
            shown += f" ({values[name].mean() - values[against].mean():+.4f} against {against}, p {row['p']:.1e})"
        print(f"{shown}   layers {row['layers']}   {row['seconds']:.0f} s", flush=True)
        result[name] = row
    if options.queries == QUERIES:
        keep(NAME, result)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
