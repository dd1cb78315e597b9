"""What a step of boosting costs under a constraint, against a free one.

Run as ``python -m benchmarks.bench_constrained_step [--queries 1500]``. 180,000 × 136 rows, LambdaRank's gradients,
which are computed once and apart. A free step is ``grow_tree`` on all features, a constrained one looks at one feature
per node; both give the leaf of every row. Goals: a stump at least 60 times cheaper, 16 leaves at least 12 times. Then
a search of some hundred models on the same data: what part of its time is neither gradients, trees, scores nor
measures. Goal: at most 5 %.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any

import rankwood as rw
from benchmarks.common import alternate, describe, keep, median
from rankwood.binning.binned import bin_data
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.targets import weak_learner_targets
from rankwood.rankers.search.models import ScoredModels
from rankwood.rankers.search.steps import BaseBooster
from rankwood.trees.grower import grow_tree
from rankwood.trees.one_feature import OneFeatureGrower
from rankwood.trees.policies import Growth, Policies
from rankwood.trees.row_order import reorder_by_pilot_tree

GOALS = {2: 60.0, 16: 12.0}
MOST_BOOKKEEPING = 0.05
BUDGET = 150
REPEATS = 7


def measure_steps(binned: Any, targets: Any, weights: Any, n_threads: int) -> dict[str, Any]:
    """Seconds of free and constrained steps, by leaves."""
    found: dict[str, Any] = {}
    matrix = reorder_by_pilot_tree(binned.codes, binned.bins, binned.data.labels)
    for leaves, goal in GOALS.items():
        policies = Policies(Growth(leaves, None, 20, 0.0, 1e-3))
        grower = OneFeatureGrower(matrix, policies, n_threads)
        places = iter(range(10**6))

        def constrained(grower: Any = grower, leaves: int = leaves, places: Any = places) -> None:
            for _ in range(10):  # ten different constraints
                place = next(places)
                if leaves == 2:
                    grower.stump(targets, weights, place % binned.data.n_features)
                else:
                    grower.tree(targets, weights, place)

        free = functools.partial(
            grow_tree, matrix, targets, policies, weights=weights, n_threads=n_threads
        )
        free()
        for feature in range(binned.data.n_features if leaves == 2 else 0):
            grower.stump(targets, weights, feature)  # counts the column's rows, once per search
        constrained()
        seconds = alternate({"free": free, "constrained": constrained}, REPEATS)
        seconds["constrained"] = [value / 10 for value in seconds["constrained"]]
        for name, taken in seconds.items():
            print(describe(f"{leaves} leaves, {name}", taken))
        ratio = median(seconds["free"]) / median(seconds["constrained"])
        print(f"  {n_threads} threads: {ratio:.0f} times cheaper (goal: at least {goal:.0f})")
        found[f"ratio_{leaves}_leaves"] = ratio
        found[f"seconds_{leaves}_leaves"] = {name: median(taken) for name, taken in seconds.items()}
    return found


def measure_bookkeeping(data: rw.RankingData) -> float:
    """The share of a search that is spent on choosing models and keeping books."""
    spent = 0.0

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapper(*arguments: Any, **more: Any) -> Any:
            nonlocal spent
            start = time.perf_counter()
            try:
                return method(*arguments, **more)
            finally:
                spent += time.perf_counter() - start

        return wrapper

    owners = {
        BaseBooster: ("weights", "fit", "step"),
        ScoredModels: ("_moved", "measure"),
    }
    kept = {(owner, name): getattr(owner, name) for owner in owners for name in owners[owner]}
    model = rw.BoostingTree(rw.LambdaMART(max_leaves=2, learning_rate=0.2), BUDGET)
    ticks: list[float] = []
    model.callbacks = [lambda _: ticks.append(time.perf_counter())]
    for (owner, name), method in kept.items():
        setattr(owner, name, timed(method))
    try:
        spent = 0.0
        model.set_params(progress=None)
        model.fit(data)
        first = spent / BUDGET  # the steps before the first tick, on average
        whole = ticks[-1] - ticks[0]
        share = 1.0 - (spent - first) / whole
    finally:
        for (owner, name), method in kept.items():
            setattr(owner, name, method)
    print(
        f"bookkeeping: {share:.1%} of {whole:.2f} s of search (goal: at most {MOST_BOOKKEEPING:.0%})"
    )
    return share


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    data = rw.make_ranking(options.queries, 120, 136, seed=1)
    binned = bin_data(data, n_threads=2)
    print(f"{data}, {options.threads} threads")
    start = time.perf_counter()
    loss = LambdaRank(data)
    targets, weights = weak_learner_targets(loss, 0.1 * data.features[:, 0].astype(float))
    print(f"gradients, compiled: {time.perf_counter() - start:.2f} s")
    result = measure_steps(binned, targets, weights, options.threads)
    result |= {
        "rows": data.n_documents,
        "features": data.n_features,
        "threads": options.threads,
        "bookkeeping": measure_bookkeeping(data),
    }
    keep("bench_constrained_step", result)


if __name__ == "__main__":
    main()
