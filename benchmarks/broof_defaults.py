"""BROOF with default settings beside a random forest of as many trees, on five collections.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.broof_defaults --processes 16``; the folder holds ``MQ2008`` and
``chess-B84.txt.gz``, and collections that are not there are left out. Each of the five kinds is fitted as
``BROOF(loss).fit(train, valid=vali)`` and as ``BROOF(loss).fit(train)``, so that rounds stop by validation data and out
of bag. The forest beside a fit is ``RandomForest(n)`` with the number of trees that the fit kept, and the same seed.
A query's value is its mean over the repetitions, and empty queries count as 0. Differences are tested over all test
queries, by Wilcoxon's signed-rank test and by the paired t-test; marks for p < 0.05: ▲ better, ▼ worse. Goal: no ▼.

``--quick`` takes one split of each collection, fewer queries and fewer trees; it keeps nothing. ``--kinds``,
``--collections`` and ``--stops`` take a part of the cells.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.broof_mq2008 import compare, mark
from benchmarks.common import keep

KINDS = ("absolute", "median", "height", "gradient", "lambda")
STOPS = ("valid", "oob")
MEASURE = "ndcg@10"
CHESS = "chess-B84.txt.gz"
CHESS_PARTS = (500, 150, 500)  # positions that train, validate and test
QUICK_TREES = {"absolute": 100, "median": 100, "height": 100, "gradient": 20, "lambda": 20}


@dataclass(frozen=True)
class Generated:
    """Generated data: queries that train, validate and test, and arguments of ``make_ranking``."""

    parts: tuple[int, int, int]
    options: tuple[tuple[str, Any], ...]

    def data(self, seed: int) -> rw.RankingData:
        """All queries."""
        return rw.make_ranking(sum(self.parts), seed=seed, **dict(self.options))


GENERATED = {
    "small": Generated((100, 50, 500), (("docs_per_query", 30), ("n_features", 46))),
    "large": Generated((3000, 500, 1000), (("docs_per_query", 20), ("n_features", 30))),
    "binary, short": Generated(
        (400, 150, 800),
        (("docs_per_query", 8), ("n_features", 20), ("label_shares", (0.75, 0.25))),
    ),
}
# Splits of each collection; MQ2008 has its own folds, each fitted three times.
N_SPLITS = {"MQ2008": 5, "chess": 3, "small": 5, "large": 1, "binary, short": 3}
N_REPETITIONS = {"MQ2008": 3}
COSTLY = ("large", "chess")  # these cells begin first, so that none is alone at the end


@dataclass(frozen=True)
class Cell:
    """One fit."""

    collection: str
    split: int
    seed: int
    kind: str
    stop: str
    is_quick: bool

    @property
    def of_forest(self) -> tuple[str, int, int, bool]:
        """What determines the trees of the forest beside it."""
        return self.collection, self.split, self.seed, self.is_quick


def dealt(data: rw.RankingData, order: Any, sizes: Any) -> tuple[rw.RankingData, ...]:
    """Parts of so many queries each, taken in this order."""
    edges = np.cumsum([0, *sizes])
    return tuple(
        data.take_queries(np.sort(order[begin:end])) for begin, end in itertools.pairwise(edges)
    )


@functools.lru_cache(maxsize=2)
def parts_of(collection: str, split: int, is_quick: bool) -> tuple[rw.RankingData, ...]:
    """The parts that train, validate and test."""
    folder = Path(os.environ.get("RANKWOOD_DATA", ""))
    if collection == "MQ2008":
        fold = rw.read_folds(folder / "MQ2008")[split]
        return fold.train, fold.valid, fold.test
    if collection == "chess":
        data, sizes = rw.read_letor(folder / CHESS), CHESS_PARTS
        order = np.random.default_rng(100 + split).permutation(data.n_queries)
    else:
        data, sizes = GENERATED[collection].data(split + 1), GENERATED[collection].parts
        order = np.arange(data.n_queries)
    if is_quick:
        sizes = tuple(min(size, 200) for size in sizes)  # type: ignore[assignment]
    return dealt(data, order, sizes)


def fit(cell: Cell) -> dict[str, Any]:
    """The test values of a BROOF, how many rounds and trees it has, and why it stopped."""
    start = time.perf_counter()
    train, vali, test = parts_of(cell.collection, cell.split, cell.is_quick)
    changes = {"n_trees": QUICK_TREES[cell.kind]} if cell.is_quick else {}
    model = rw.BROOF(cell.kind, seed=cell.seed, n_threads=1, **changes)
    model.fit(train, valid=vali if cell.stop == "valid" else None)
    return {
        "values": rw.parse_measure(MEASURE).per_query(model.predict(test), test),
        "rounds": model.best_iteration_,
        "rounds_grown": len(model.history_),
        "trees": model.forest_.n_trees,
        "stopped_because": model.stopped_because_,
        "seconds": time.perf_counter() - start,
    }


def fit_forest(asked: tuple[tuple[str, int, int, bool], list[int]]) -> dict[int, Any]:
    """The test values of a random forest by its number of trees: the trees of a smaller forest are its first ones."""
    (collection, split, seed, is_quick), sizes = asked
    train, _, test = parts_of(collection, split, is_quick)
    forest = rw.RandomForest(max(sizes), seed=seed, n_threads=1).fit(train).forest_
    measure = rw.parse_measure(MEASURE)
    return {
        size: measure.per_query(forest.take_trees(slice(0, size)).predict(test, n_threads=1), test)
        for size in sizes
    }


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """All fits that are asked for, the costly ones first."""
    folder = Path(os.environ.get("RANKWOOD_DATA", ""))
    there = {"MQ2008": (folder / "MQ2008").is_dir(), "chess": (folder / CHESS).is_file()}
    cells = []
    for collection, n_splits in N_SPLITS.items():
        if collection not in options.collections or not there.get(collection, True):
            print(f"left out: {collection}")
            continue
        for split in range(1 if options.quick else n_splits):
            for seed in range(1 if options.quick else N_REPETITIONS.get(collection, 1)):
                cells += [
                    Cell(collection, split, seed, kind, stop, options.quick)
                    for kind in options.kinds
                    for stop in options.stops
                ]
    return sorted(cells, key=lambda cell: cell.collection not in COSTLY)


def in_order(pool: Any, function: Any, asked: list[Any], noun: str) -> Iterator[Any]:
    """The answers of a pool, with a line of progress now and then."""
    start = time.perf_counter()
    for number, answer in enumerate(pool.imap(function, asked, chunksize=1), start=1):
        if number % max(1, len(asked) // 20) == 0:
            seconds = time.perf_counter() - start
            print(f"  {number} of {len(asked)} {noun}, {seconds:.0f} s", flush=True)
        yield answer


def mean_over_repetitions(of_cells: list[tuple[Cell, Any]]) -> Any:
    """One value per test query of all splits, the mean over the repetitions of its split."""
    splits = sorted({cell.split for cell, _ in of_cells})
    means = [
        np.mean([values for cell, values in of_cells if cell.split == split], axis=0)
        for split in splits
    ]
    return np.concatenate(means)


def outcome(cells: list[Cell], fits: dict[Cell, Any], forests: dict[Any, Any]) -> dict[str, Any]:
    """What is kept of the cells of one collection, kind and way of stopping."""
    ours = mean_over_repetitions([(cell, fits[cell]["values"]) for cell in cells])
    beside = mean_over_repetitions(
        [(cell, forests[cell.of_forest][fits[cell]["trees"]]) for cell in cells]
    )
    return {
        "value": float(ours.mean()),
        "forest": float(beside.mean()),
        **compare(ours, beside),
        "queries": int(ours.size),
        "rounds": [fits[cell]["rounds"] for cell in cells],
        "rounds_grown": [fits[cell]["rounds_grown"] for cell in cells],
        "trees": [fits[cell]["trees"] for cell in cells],
        "stopped_because": dict(Counter(fits[cell]["stopped_because"] for cell in cells)),
        "seconds": [round(fits[cell]["seconds"], 2) for cell in cells],
    }


def show(name: str, found: dict[str, Any]) -> None:
    rounds = found["rounds"]
    print(
        f"{name:<34} {found['value']:.4f}  forest {found['forest']:.4f}  {found['difference']:+.4f} "
        f"W{mark(found, 'p_wilcoxon')} t{mark(found, 'p_t')}   rounds {min(rounds)} to "
        f"{max(rounds)}, median {int(np.median(rounds))}; {sum(found['seconds']):.0f} s"
    )
    for reason, count in found["stopped_because"].items():
        print(f"    {count} × {reason}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--collections", nargs="+", choices=N_SPLITS, default=tuple(N_SPLITS))
    parser.add_argument("--stops", nargs="+", choices=STOPS, default=STOPS)
    options = parser.parse_args()
    start = time.perf_counter()
    cells = cells_of(options)
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        fits = dict(zip(cells, in_order(pool, fit, cells, "fits"), strict=True))
        sizes: dict[Any, set[int]] = {}
        for cell in cells:
            sizes.setdefault(cell.of_forest, set()).add(fits[cell]["trees"])
        asked = [(key, sorted(of_key)) for key, of_key in sizes.items()]
        answers = in_order(pool, fit_forest, asked, "forests")
        forests = dict(zip(sizes, answers, strict=True))
    result: dict[str, Any] = {}
    for collection in dict.fromkeys(cell.collection for cell in cells):
        for stop in options.stops:
            for kind in options.kinds:
                chosen = [
                    c for c in cells if (c.collection, c.stop, c.kind) == (collection, stop, kind)
                ]
                name = f"{collection}, {kind}, {stop}"
                result[name] = outcome(chosen, fits, forests)
                show(name, result[name])
    below = [
        name
        for name, found in result.items()
        if "▼" in (mark(found, "p_wilcoxon"), mark(found, "p_t"))
    ]
    print(f"significantly below a forest of as many trees: {'; '.join(below) or 'none'}")
    print(f"{time.perf_counter() - start:.0f} s on {options.processes} processes")
    is_whole = set(cells) == set(cells_of(parser.parse_args([])))
    if is_whole:
        keep("broof_defaults", {"measure": MEASURE, "below": below, "cells": result})


if __name__ == "__main__":
    main()
