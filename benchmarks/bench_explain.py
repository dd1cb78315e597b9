"""Shapley values of 4,000 documents, 100 trees of 31 leaves, 136 features: ours against LightGBM's on the same trees.

Run as ``python -m benchmarks.bench_explain``. LightGBM trains the trees; they are converted from its own dump, and
contributions must agree to 1e-9. Goal: not slower than LightGBM's ``pred_contrib`` with the same number of
threads. Lists of 100 documents and single documents are timed too, per call, and larger trees.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.bench_scoring import convert
from benchmarks.common import alternate, describe, keep, median
from rankwood import make_ranking
from rankwood._core.threads import usable_cores
from rankwood.models.shapley import contributions

N_TREES = 100
SIZES = {31: 4_000, 255: 400}  # leaves of a tree, and documents explained
LISTS = (1, 100)
REPEATS = 5
CALLS = 10
GOAL = 1.0


def train(data: Any, n_leaves: int, n_threads: int) -> Any:
    import lightgbm

    parameters = {
        "objective": "regression",
        "num_leaves": n_leaves,
        "verbose": -1,
        "num_threads": n_threads,
    }
    return lightgbm.train(parameters, lightgbm.Dataset(data.features, data.labels), N_TREES)


def difference(forest: Any, booster: Any, documents: Any) -> float:
    values, base = contributions(forest, documents)
    expected = booster.predict(documents, pred_contrib=True)
    largest = max(np.abs(values - expected[:, :-1]).max(), np.abs(base - expected[:, -1]).max())
    assert largest <= 1e-9, largest
    return float(largest)


def compare(forest: Any, booster: Any, documents: Any, n_threads: int) -> dict[str, float]:
    seconds = alternate(
        {
            "rankwood": lambda: contributions(forest, documents, n_threads=n_threads),
            "lightgbm": lambda: booster.predict(
                documents, pred_contrib=True, num_threads=n_threads
            ),
        },
        REPEATS,
    )
    for name, taken in seconds.items():
        print(describe(name, taken))
    return {name: median(taken) for name, taken in seconds.items()}


def compare_lists(forest: Any, booster: Any, documents: Any) -> dict[str, float]:
    def ours() -> None:
        for _ in range(CALLS):
            contributions(forest, documents, n_threads=1)

    def theirs() -> None:
        for _ in range(CALLS):
            booster.predict(documents, pred_contrib=True, num_threads=1)

    seconds = alternate({"rankwood": ours, "lightgbm": theirs}, REPEATS)
    taken = {name: median(runs) / CALLS * 1e3 for name, runs in seconds.items()}
    size = len(documents)
    print(
        f"{size:>4} documents a call: {taken['rankwood']:.2f} ms, LightGBM {taken['lightgbm']:.2f} ms"
    )
    return {
        f"milliseconds_{size}": taken["rankwood"],
        f"milliseconds_{size}_lightgbm": taken["lightgbm"],
        f"ratio_{size}": taken["rankwood"] / taken["lightgbm"],
    }


def main() -> None:
    data = make_ranking(600, 100, 136, seed=1)
    n_threads = usable_cores()
    result: dict[str, Any] = {"trees": N_TREES, "features": 136, "threads": n_threads}
    for n_leaves, n_rows in SIZES.items():
        booster = train(data, n_leaves, n_threads)
        forest = convert(booster)
        documents = data.features[:n_rows]
        print(f"{forest}, {n_rows:,} rows, {n_threads} threads, depth up to {forest.max_depth}")
        largest = difference(forest, booster, documents)
        seconds = compare(forest, booster, documents, n_threads)
        ratio = seconds["rankwood"] / seconds["lightgbm"]
        print(f"rankwood / lightgbm: {ratio:.3f} (goal: at most {GOAL}); differs by {largest:.1g}")
        result |= {
            f"rows_{n_leaves}_leaves": n_rows,
            f"seconds_{n_leaves}_leaves": seconds,
            f"ratio_{n_leaves}_leaves": ratio,
            f"largest_difference_{n_leaves}_leaves": largest,
        }
        if n_leaves == min(SIZES):
            for size in LISTS:
                result |= compare_lists(forest, booster, data.features[:size])
    keep("bench_explain", result)


if __name__ == "__main__":
    main()
