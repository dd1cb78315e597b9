"""Small models that order chess moves: NDCG@10 by the most trees of 32 leaves, in the shape of the paper's Figure 11.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.boosting_tree_chess [--budget 25000]``; the folder holds
``chess-B84.txt.gz``, 2,000 positions: the first 60 % train, the next 20 % validate, the last 20 % test. Of every method
the model of at most so many trees that is best on the validation positions is measured on the test positions, ties
averaged. LightGBM's lambdarank has no ties to speak of; its figures are of all of its trees. Ctrl-C keeps what is known
so far, and of the search its models so far.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import keep
from benchmarks.small_models import curve, draw, print_table, value_of

NAME = "boosting_tree_chess"
FILE = "chess-B84.txt.gz"
MEASURE = "ndcg@10[ties=average]"
LIMITS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300)
SHARES = (0.6, 0.8)
PLAIN_TREES = 300


def base() -> rw.LambdaMART:
    """The paper's: 32 leaves, rate 0.2, all pairs."""
    return rw.LambdaMART(
        PLAIN_TREES,
        max_leaves=32,
        learning_rate=0.2,
        truncation=None,
        normalise=False,
        measure=MEASURE,
    )


def lightgbm_curve(
    train: rw.RankingData, test: rw.RankingData, limits: tuple[int, ...]
) -> list[float]:
    """LightGBM's lambdarank with so many trees."""
    import lightgbm

    settings = {
        "objective": "lambdarank",
        "num_leaves": 32,
        "learning_rate": 0.2,
        "verbosity": -1,
        "num_threads": 2,
        "seed": 0,
    }
    sizes = np.diff(train.query_offsets)
    data = lightgbm.Dataset(train.features, train.labels, group=sizes)
    model = lightgbm.train(settings, data, max(limits))
    return [
        value_of(model.predict(test.features, num_iteration=limit), test, MEASURE)
        for limit in limits
    ]


def run(parts: list[rw.RankingData], budget: int) -> None:
    train, vali, test = parts
    curves: dict[str, list[float]] = {}
    seconds: dict[str, float] = {}
    found: dict[str, Any] = {}
    methods = {
        "LambdaMART": base(),
        "Exp3.P(LambdaMART)": rw.Exp3P(base(), 5 * PLAIN_TREES, measure=MEASURE),
        "BoostingTree(LambdaMART)": rw.BoostingTree(base(), budget, measure=MEASURE, cache_mb=4000),
    }
    try:
        curves["LightGBM"] = lightgbm_curve(train, test, LIMITS)
        for name, model in methods.items():
            start = time.perf_counter()
            model.fit(train, valid=vali)
            seconds[name] = time.perf_counter() - start
            curves[name] = curve(model, test, MEASURE, LIMITS)
            if isinstance(model, rw.BoostingTree):
                found = {
                    "models": len(model.tree_),
                    "rounds": model.n_rounds_,
                    "trees_of_best": model.forest_.n_trees,
                    "stopped_because": model.stopped_because_,
                }
            print(f"{name:<26} {seconds[name]:.0f} s {found}", flush=True)
    except KeyboardInterrupt:
        print("interrupted: what follows is what is known so far")
    print_table(curves, [str(limit) for limit in LIMITS])
    draw(NAME, {"chess, B84": curves}, LIMITS, ("most trees of a model", "test NDCG@10"))
    by_limit = {
        name: dict(zip(map(str, LIMITS), values, strict=True)) for name, values in curves.items()
    }
    result = {
        "measure": MEASURE,
        "budget": budget,
        "search": found,
        "by_limit": by_limit,
        "seconds": seconds,
    }
    keep(NAME, result)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--budget", type=int, default=25000)
    parser.add_argument("--queries", type=int, default=None, help="the first so many positions")
    options = parser.parse_args()
    path = Path(os.environ.get("RANKWOOD_DATA") or "") / FILE
    if not path.is_file():
        print(f"skipped: set RANKWOOD_DATA to a folder that holds {FILE}")
        return
    data = rw.read_letor(path)
    n_queries = min(options.queries or data.n_queries, data.n_queries)
    edges = [0, *(int(share * n_queries) for share in SHARES), n_queries]
    parts = [data.take_queries(range(*edges[place : place + 2])) for place in range(3)]
    print(f"{data}, {n_queries:,} positions, budget {options.budget:,}")
    run(parts, options.budget)


if __name__ == "__main__":
    main()
