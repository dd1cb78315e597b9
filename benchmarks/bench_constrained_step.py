"""What a step of boosting costs under a constraint, against a free one.

Run as ``python -m benchmarks.bench_constrained_step [--queries 1500]``. Three collections: generated data of 180,000 ×
136 rows, the bundled chess positions with trees of 32 leaves, and MQ2008's first fold with stumps, if ``RANKWOOD_DATA``
names a folder that holds it. LambdaRank's gradients are computed once and apart. A free step is ``grow_tree`` on all
features, a constrained one looks at one feature per node; both give the leaf of every row. Goals on the large data: a
stump at least 60 times cheaper, 16 leaves at least 12 times.

Then whole steps, of a search and of plain boosting, on the same data: what a step costs, and which part of the search's
time goes to gradients, trees, scores and measures; the rest is bookkeeping, which is to be at most 5 % on the large
data. On small collections gradients and measures, which both kinds of steps need, outweigh the trees, so that the
paper's factor of about 60 cannot be reached: its free trees were far more expensive than trees from histograms.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rankwood as rw
from benchmarks.common import alternate, describe, keep, median
from rankwood.binning.binned import bin_data
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.loss import weak_learner_targets
from rankwood.rankers.search.steps import BaseBooster, ScoredModels
from rankwood.trees.grower import Growth, Policies, grow_tree
from rankwood.trees.one_feature import OneFeatureGrower
from rankwood.trees.row_order import reorder_by_pilot_tree

GOALS = {2: 60.0, 16: 12.0}
MOST_BOOKKEEPING = 0.05
BUDGET = 150
REPEATS = 7
PARTS = {  # of a search's time: where each is spent
    "gradients": (BaseBooster, "weights"),
    "trees": (BaseBooster, "fit"),
    "scores": (ScoredModels, "_moved"),
    "measures": (ScoredModels, "measure"),
}


def measure_trees(
    data: rw.RankingData, goals: dict[int, float | None], n_threads: int
) -> dict[str, Any]:
    """Seconds of free and constrained trees, by leaves."""
    found: dict[str, Any] = {}
    binned = bin_data(data, n_threads=n_threads)
    scores = 0.1 * data.features[:, 0].astype(float)
    targets, weights = weak_learner_targets(LambdaRank(data), scores)
    matrix = reorder_by_pilot_tree(binned.codes, binned.bins, binned.data.labels)
    for leaves, goal in goals.items():
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
        wanted = "" if goal is None else f" (goal: at least {goal:.0f})"
        print(f"  {n_threads} threads: {ratio:.1f} times cheaper{wanted}")
        found[f"ratio_{leaves}_leaves"] = ratio
        found[f"seconds_{leaves}_leaves"] = {name: median(taken) for name, taken in seconds.items()}
    return found


def measure_search(data: rw.RankingData, leaves: int, budget: int) -> dict[str, Any]:
    """Seconds of a step of the search and of plain boosting, and the shares of the search's parts."""
    spent = dict.fromkeys(PARTS, 0.0)

    def timed(part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapper(*arguments: Any, **more: Any) -> Any:
            start = time.perf_counter()
            try:
                return method(*arguments, **more)
            finally:
                spent[part] += time.perf_counter() - start

        return wrapper

    base = rw.LambdaMART(max_leaves=leaves, learning_rate=0.2, n_threads=1)
    model = rw.BoostingTree(base, budget, search="hull", n_threads=1)
    ticks: list[float] = []
    kept = {part: getattr(owner, name) for part, (owner, name) in PARTS.items()}
    for part, (owner, name) in PARTS.items():
        setattr(owner, name, timed(part, kept[part]))

    def tick(_: Any) -> None:
        if not ticks:
            spent.update(dict.fromkeys(PARTS, 0.0))  # what came before the first tick
        ticks.append(time.perf_counter())

    try:
        model.set_params(callbacks=[tick]).fit(data)
    finally:
        for part, (owner, name) in PARTS.items():
            setattr(owner, name, kept[part])
    whole = ticks[-1] - ticks[0]
    shares = {part: seconds / whole for part, seconds in spent.items()}
    shares["bookkeeping"] = 1.0 - sum(shares.values())
    step, plain = whole / (budget - 1), seconds_of_plain(base, data, max(10, budget // 10))
    print(
        f"a step of the search {1e3 * step:.2f} ms, of plain boosting {1e3 * plain:.2f} ms: {plain / step:.1f} times; "
        + ", ".join(f"{part} {share:.0%}" for part, share in shares.items())
    )
    return {"step": step, "plain_step": plain, "ratio_of_steps": plain / step, "shares": shares}


def seconds_of_plain(base: rw.LambdaMART, data: rw.RankingData, n_trees: int) -> float:
    """Seconds of a step of plain boosting that measures every model on the training data, as the search does."""
    ticks: list[float] = []
    model = rw.LambdaMART(**{**base.get_params(), "n_trees": n_trees + 1})
    model.set_params(callbacks=[lambda _: ticks.append(time.perf_counter())])
    model.fit(data, valid=data)
    return (ticks[-1] - ticks[0]) / n_trees


def collections(n_queries: int) -> dict[str, tuple[rw.RankingData, dict[int, float | None], int]]:
    """Data by name, with the leaves of the trees and their goals, and the budget of the search."""
    large = rw.make_ranking(n_queries, 120, 136, seed=1)
    found: dict[str, tuple[rw.RankingData, dict[int, float | None], int]] = {
        "generated": (large, dict(GOALS), BUDGET),
        "chess": (rw.datasets.chess("B84", "train"), {32: None}, 4 * BUDGET),
    }
    path = Path(os.environ.get("RANKWOOD_DATA") or "") / "MQ2008" / "Fold1" / "train.txt.gz"
    if path.is_file():
        found["MQ2008"] = (rw.read_letor(path), {2: None}, 4 * BUDGET)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    result: dict[str, Any] = {"threads": options.threads}
    for name, (data, goals, budget) in collections(options.queries).items():
        print(f"{name}: {data}, {options.threads} threads")
        found = measure_trees(data, goals, options.threads)
        found |= measure_search(data, min(goals), budget)
        found |= {"rows": data.n_documents, "features": data.n_features}
        if name == "generated":
            share = found["shares"]["bookkeeping"]
            print(f"bookkeeping: {share:.1%} (goal: at most {MOST_BOOKKEEPING:.0%})")
            result |= {key: value for key, value in found.items() if key.startswith("ratio")}
            result["bookkeeping"] = share
        result[name] = found
    keep("bench_constrained_step", result)


if __name__ == "__main__":
    main()
