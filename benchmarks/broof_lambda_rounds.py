"""BROOF lambda for many rounds: whether scores stay finite, and the measure above that of the first round.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.broof_lambda_rounds --processes 16``. Each collection of
``quality_defaults`` (its first split) is trained on for 300 rounds without stopping. Printed and kept: NDCG@10 on the
test part after some of the rounds, the difference to the first round with its standard error over queries, and the
largest score. Goal: scores are finite, and no difference is below 0 by more than two standard errors.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import keep
from benchmarks.quality_defaults import MEASURE, N_SPLITS, parts_of

N_ROUNDS, QUICK_ROUNDS = 300, 12
SHOWN = (1, 2, 5, 10, 20, 30, 50, 100, 150, 200, 250, 300)


def fit(asked: tuple[str, int, bool]) -> dict[str, Any]:
    """The values of the test queries after some rounds, and the largest score of each."""
    collection, n_rounds, is_quick = asked
    start = time.perf_counter()
    train, _, test = parts_of(collection, 0, is_quick)
    model = rw.BROOF("lambda", n_rounds=n_rounds, stop=None, n_threads=1).fit(train)
    forest = model.forest_
    per_round = forest.n_trees // n_rounds
    measure = rw.parse_measure(MEASURE)
    points = [number for number in SHOWN if number <= n_rounds]
    values, largest = [], []
    for number in points:
        scores = forest.take_trees(slice(0, number * per_round)).predict(test, n_threads=1)
        largest.append(float(np.abs(scores).max()))
        values.append(measure.per_query(scores, test))
    gains = [of_round - values[0] for of_round in values]
    return {
        "collection": collection,
        "rounds": points,
        "means": [float(of_round.mean()) for of_round in values],
        "differences": [float(gain.mean()) for gain in gains],
        "errors": [float(gain.std(ddof=1) / np.sqrt(gain.size)) for gain in gains],
        "largest_score": largest,
        "seconds": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--collections", nargs="+", default=[*N_SPLITS], choices=[*N_SPLITS])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    n_rounds = QUICK_ROUNDS if options.quick else N_ROUNDS
    asked = [(collection, n_rounds, options.quick) for collection in options.collections]
    found, missed = [], []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for one in pool.imap_unordered(fit, asked, chunksize=1):
            found.append(one)
            print(f"{one['collection']} ({one['seconds']:.0f} s)")
            rows = zip(one["rounds"], one["means"], one["differences"], one["errors"], strict=True)
            for (number, mean, difference, error), score in zip(
                rows, one["largest_score"], strict=True
            ):
                is_below = difference < -2.0 * error
                mark = "  BELOW" if is_below else ""
                if is_below or not np.isfinite(score):
                    missed.append(f"{one['collection']}, round {number}")
                print(
                    f"  {number:4} rounds  {mean:.4f}  {difference:+.4f} ± {error:.4f}  "
                    f"largest score {score:.3g}{mark}",
                    flush=True,
                )
    print(f"below the first round, or not finite: {'; '.join(missed) or 'nowhere'}")
    if not options.quick and set(options.collections) == set(N_SPLITS):
        keep("broof_lambda_rounds", {"measure": MEASURE, "missed": missed, "collections": found})


if __name__ == "__main__":
    main()
