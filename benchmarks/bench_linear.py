"""AdaRank and RankSVM at web-search shape, and sums over pairs against a list of the pairs.

Run as ``python -m benchmarks.bench_linear``. 720,000 × 136 rows, two threads, one run each; compiling is apart. The
objective of RankSVM and its gradient are then computed from listed pairs as well, on a subset, in queries of usual
length and in queries ten times as long: a list grows with the square of the length, the sums do not.
Goal: each trains in minutes.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.common import alternate, describe, keep, median
from benchmarks.training import N_THREADS, ndcg
from rankwood import AdaRank, RankingData, RankSVM, make_ranking
from rankwood.losses.ranksvm import PairHinge
from rankwood.models.linear import Scaling

N_QUERIES = 6000
N_TEST = 1000
SUBSET = 40  # queries whose pairs are listed
GOAL_SECONDS = 300.0
MODELS: dict[str, Any] = {
    "RankSVM": RankSVM(C=1e-6, n_threads=N_THREADS),
    "AdaRank-MAP": AdaRank(measure="map", n_threads=N_THREADS),
    "AdaRank-NDCG, exclude": AdaRank(
        100, measure="ndcg@10", when_stalled="exclude", max_repeats=1, n_threads=N_THREADS
    ),
}


def train_all(train: RankingData, test: RankingData) -> dict[str, dict[str, Any]]:
    """Seconds, test NDCG@10 and the reason to stop, of one run each."""
    found = {}
    for name, model in MODELS.items():
        start = time.perf_counter()
        model.fit(train)
        seconds = time.perf_counter() - start
        quality = ndcg(model, test)
        verdict = "reached" if seconds <= GOAL_SECONDS else "MISSED"
        print(
            f"{name:<24} {seconds:7.1f} s (goal: at most {GOAL_SECONDS:.0f} s: {verdict}), "
            f"test NDCG@10 {quality:.4f}, {model.stopped_because_}"
        )
        found[name] = {
            "seconds": seconds,
            "test_ndcg@10": quality,
            "stopped_because": model.stopped_because_,
        }
    return found


def list_pairs(data: RankingData) -> tuple[Any, Any]:
    """The rows of every (better, worse) pair."""
    parts = []
    for _, rows in data.iter_queries():
        labels = data.labels[rows]
        better, worse = np.nonzero(labels[:, np.newaxis] > labels)
        parts.append((rows[better], rows[worse]))
    better, worse = (np.concatenate(part) for part in zip(*parts, strict=True))
    return better, worse


def listed_objective(
    features: Any, pairs: tuple[Any, Any], weights: Any, cost: float
) -> tuple[float, Any]:
    """RankSVM's objective and gradient, pair by pair."""
    better, worse = pairs
    scores = features @ weights
    slack = np.maximum(0.0, 1.0 - (scores[better] - scores[worse]))
    n_rows = len(features)
    factors = np.bincount(worse, slack, n_rows) - np.bincount(better, slack, n_rows)
    value = 0.5 * float(weights @ weights) + cost * float(slack @ slack)
    return value, weights + 2 * cost * (features.T @ factors)


def against_listed_pairs(data: RankingData, times_longer: int) -> dict[str, Any]:
    """One objective with its gradient, summed and listed; queries are joined to longer ones."""
    data = RankingData(data.features, data.labels, data.query_of_row // times_longer)
    scaling = Scaling.of(data.features, None, N_THREADS)
    hinge = PairHinge(data, scaling, 1e-4, N_THREADS)
    scaled = (data.features - scaling.centre) * scaling.inverse
    weights = np.random.default_rng(0).normal(0, 0.1, data.n_features)
    pairs = list_pairs(data)
    ours, theirs = hinge.value_and_gradient(weights), listed_objective(scaled, pairs, weights, 1e-4)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6, atol=1e-6)
    step = iter(range(1_000_000))

    def run_sums() -> None:
        hinge.value_and_gradient(
            weights + 1e-9 * next(step)
        )  # at the same weights it would not sort again

    def run_list() -> None:
        listed_objective(scaled, pairs, weights, 1e-4)

    print(f"{data}, {pairs[0].size:,} pairs")
    seconds = alternate({"sums": run_sums, "listed pairs": run_list})
    for name, taken in seconds.items():
        print("  " + describe(name, taken))
    ratio = median(seconds["sums"]) / median(seconds["listed pairs"])
    print(f"  sums / listed pairs: {ratio:.3f}")
    return {
        "documents_per_query": data.n_documents / data.n_queries,
        "pairs": int(pairs[0].size),
        "seconds": {name: median(taken) for name, taken in seconds.items()},
        "ratio": ratio,
    }


def main(n_queries: int = N_QUERIES, n_test: int = N_TEST) -> None:
    everything = make_ranking(n_queries + n_test, 120, 136, seed=1)
    train = everything.take_queries(range(n_queries))
    test = everything.take_queries(range(n_queries, n_queries + n_test))
    for model in MODELS.values():
        type(model)().fit(test.take_queries(range(10)))  # compiles
    print(f"{train}, {N_THREADS} threads")
    trained = train_all(train, test)
    subset = train.take_queries(range(SUBSET))
    usual = against_listed_pairs(subset, 1)
    long = against_listed_pairs(subset, 10)
    keep(
        "bench_linear",
        {
            "rows": train.n_documents,
            "features": train.n_features,
            "threads": N_THREADS,
            "models": trained,
            "usual_queries": usual,
            "long_queries": long,
            "ratio_usual": usual["ratio"],
            "ratio_long": long["ratio"],
        },
    )


if __name__ == "__main__":
    main()
