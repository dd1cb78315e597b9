"""Averaged boosting, b = 20 runs: two threads against one, and against twenty fits in turn that bin each time."""

from __future__ import annotations

from typing import Any

from benchmarks.common import alternate, describe, keep, median
from benchmarks.training import ndcg
from rankwood import GBRT, AveragedGBRT, make_ranking
from rankwood.rankers.boosted import seed_of_run

RUNS, TREES = 20, 20
QUERIES = 500  # of 120 documents
OPTIONS: dict[str, Any] = {"max_leaves": 8, "learning_rate": 0.1, "features_per_node": 0.1}


def main() -> None:
    everything = make_ranking(QUERIES + QUERIES // 5, 120, 136, seed=1)
    train = everything.take_queries(range(QUERIES))
    test = everything.take_queries(range(QUERIES, everything.n_queries))
    models: dict[str, Any] = {}
    AveragedGBRT(1, 2, **OPTIONS).fit(train)  # compiles

    def side_by_side(n_threads: int) -> None:
        models["averaged"] = AveragedGBRT(TREES, RUNS, n_threads=n_threads, **OPTIONS).fit(train)

    def one_by_one() -> None:
        models["single"] = [
            GBRT(TREES, seed=seed_of_run(0, run), n_threads=2, **OPTIONS).fit(train)
            for run in range(RUNS)
        ]

    print(f"{train}, {RUNS} runs of {TREES} trees")
    runs = {
        "1 thread": lambda: side_by_side(1),
        "2 threads": lambda: side_by_side(2),
        "single runs, 2 threads": one_by_one,
    }
    seconds = alternate(runs, repeats=3)
    for name, taken in seconds.items():
        print(describe(name, taken))
    medians = {name: median(taken) for name, taken in seconds.items()}
    quality = {
        "averaged": ndcg(models["averaged"].predict(test), test),
        "first run": ndcg(models["single"][0].predict(test), test),
    }
    print(f"test NDCG@10: {quality}")
    speed_up = medians["1 thread"] / medians["2 threads"]
    print(f"two threads are {speed_up:.2f}× as fast as one")
    keep(
        "bench_averaged",
        {
            "rows": train.n_documents,
            "features": train.n_features,
            "runs": RUNS,
            "trees": TREES,
            "seconds": medians,
            "test_ndcg@10": quality,
            "ratio_two_threads": speed_up,
            "ratio_single_runs": medians["single runs, 2 threads"] / medians["2 threads"],
        },
    )


if __name__ == "__main__":
    main()
