"""Rankers that learn from pairs of documents, at web-search shape, beside what listing the pairs would take.

Run as ``python -m benchmarks.bench_pairwise``, or with a number of queries to try it at a smaller size. 6,000 queries,
720,000 × 136 rows, two threads, one run each; binning is part of it, compiling is not. Goal: minutes, not hours.

The pair list is RankLib's way: every pair with its weight in memory, weights and potentials anew from all of them in
each round; thresholds come from the same bins as ours, and are looked up as fast as numpy can. It runs a few rounds on
a subset of the queries; its time grows with the pairs and the rounds, so the whole is extrapolated.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import keep
from benchmarks.training import N_THREADS, ndcg

N_QUERIES = 6000
N_TEST_QUERIES = 1000
N_ROUNDS = 300
SUBSET_QUERIES = 200
SUBSET_ROUNDS = 3

# What is timed: a name and how it is made.
RANKERS: list[tuple[str, Callable[[], Any]]] = [
    ("RankBoost", lambda: rw.RankBoost(N_ROUNDS, n_threads=N_THREADS)),
]


def time_ranker(make: Callable[[], Any], train: rw.RankingData, test: rw.RankingData) -> Any:
    """Seconds of one fit, and the quality it reached."""
    make().fit(train.take_queries(range(3)))  # compiles
    start = time.perf_counter()
    model = make().fit(train)
    return time.perf_counter() - start, ndcg(model, test)


def list_pairs(data: rw.RankingData) -> tuple[Any, Any]:
    """Better and worse row of every pair inside queries."""
    better, worse = [], []
    for _, rows in data.iter_queries():
        labels = data.labels[rows]
        one, other = np.nonzero(labels[:, None] > labels[None, :])
        better.append(rows[one])
        worse.append(rows[other])
    return np.concatenate(better), np.concatenate(worse)


def time_pair_list(data: rw.RankingData) -> dict[str, float]:
    """Seconds per pair and round, and per value of the matrix and round, of RankBoost on listed pairs."""
    binned = rw.bin(data)
    better, worse = list_pairs(data)
    scores = np.zeros(data.n_documents)
    of_pairs = of_values = 0.0
    for _ in range(SUBSET_ROUNDS):
        start = time.perf_counter()
        weights = np.exp(scores[worse] - scores[better])
        weights /= weights.sum()
        potentials = np.bincount(better, weights, data.n_documents)
        potentials -= np.bincount(worse, weights, data.n_documents)
        middle = time.perf_counter()
        best = (0.0, 0, 0)
        for feature, codes in enumerate(binned.codes):
            sums = np.bincount(codes, potentials, 256)
            edges = np.cumsum(sums[::-1])[::-1]
            code = int(np.argmax(np.abs(edges)))
            best = max(best, (abs(edges[code]), feature, code))
        size, feature, code = best
        above = binned.codes[feature] >= code
        edge = float(potentials[above].sum())
        scores = scores + np.arctanh(np.clip(edge, -0.999, 0.999)) * above
        of_pairs += middle - start
        of_values += time.perf_counter() - middle
        assert size > 0
    return {
        "pairs": float(better.size),
        "seconds_per_pair": of_pairs / SUBSET_ROUNDS / better.size,
        "seconds_per_value": of_values / SUBSET_ROUNDS / binned.codes.size,
    }


def count_pairs(data: rw.RankingData) -> int:
    """Pairs of documents of one query with different labels."""
    total = 0
    for _, rows in data.iter_queries():
        _, counts = np.unique(data.labels[rows], return_counts=True)
        total += (rows.size**2 - int((counts**2).sum())) // 2
    return total


def main(n_queries: int = N_QUERIES) -> None:
    everything = rw.make_ranking(n_queries + N_TEST_QUERIES, 120, 136, seed=1)
    train = everything.take_queries(range(n_queries))
    test = everything.take_queries(range(n_queries, n_queries + N_TEST_QUERIES))
    print(f"{train}, {N_THREADS} threads")
    result: dict[str, Any] = {"rows": train.n_documents, "features": train.n_features}
    for name, make in RANKERS:
        seconds, quality = time_ranker(make, train, test)
        print(f"{name:<28} {seconds:9.1f} s   test NDCG@10 {quality:.4f}")
        result[name] = {"seconds": seconds, "test_ndcg@10": quality}
    subset = train.take_queries(range(min(n_queries, SUBSET_QUERIES)))
    listed, n_pairs = time_pair_list(subset), count_pairs(train)
    of_pairs = listed["seconds_per_pair"] * n_pairs * N_ROUNDS
    of_values = listed["seconds_per_value"] * train.features.size * N_ROUNDS
    gigabytes = n_pairs * 24 / 2**30  # two row numbers and a weight each
    print(
        f"{'RankBoost on a pair list':<28} {of_pairs + of_values:9.1f} s   extrapolated to {n_pairs:,} pairs "
        f"({gigabytes:.1f} GiB of them) from {listed['pairs']:,.0f}; {of_pairs:.0f} s of it for the pairs"
    )
    result["pair_list"] = {
        **listed,
        "all_pairs": n_pairs,
        "extrapolated_seconds": of_pairs + of_values,
        "extrapolated_seconds_of_pairs": of_pairs,
    }
    if n_queries == N_QUERIES:
        keep("bench_pairwise", result)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
