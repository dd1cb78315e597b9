"""Small models that order chess moves: NDCG@10 by the most trees of 32 leaves, in the shape of the paper's Figure 11.

Run as ``python -m benchmarks.boosting_tree_chess [--processes 16] [--quick]``, on the bundled positions of B84 and E97,
or on a collection of your own: ``--data moves.txt.gz``, of which the first 60 % of the positions train, the next 20 %
validate and the last 20 % test. As in the paper, plain boosting runs 5,000 rounds, Exp3.P and the search 25,000; f and
the reward are NDCG on the training positions, and models are chosen by NDCG@10 on the validation positions. Figures are
of the test positions, ties averaged. 64 of the 71 features are constant within a position: ``roots_of_positions`` is
the share of trees whose root splits one of them, which must be 0, since such a split gains nothing.
``growth`` is the paper's Figure 12. Ctrl-C keeps what is known so far.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import rankwood as rw
from benchmarks.common import keep
from benchmarks.small_models import chosen, curve, draw, print_table, run_cells

NAME = "boosting_tree_chess"
MEASURE = "ndcg@10[ties=average]"
TRAINED_BY = "ndcg[ties=average]"
LIMITS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000, 2000, 5000)
SHARES = (0.6, 0.8)
LEAVES = 32
N_SQUARES = 64  # features of the position
BASES = ("LambdaMART", "NDCGBoost")
WAYS = ("{}", "Exp3.P({})", "BoostingTree({})")
KEPT_ROUNDS = 50  # of the growth, at equal distances


class Cell(NamedTuple):
    """One method on one collection."""

    collection: str
    method: str
    plain_rounds: int
    budget: int

    def __str__(self) -> str:
        return f"{self.collection:<4} {self.method:<26}"


def base_of(name: str, n_rounds: int) -> Any:
    """The paper's: 32 leaves; LambdaMART with rate 0.2, all pairs, no normalisation and no least hessian."""
    if name == "NDCGBoost":
        return rw.NDCGBoost(n_rounds, max_leaves=LEAVES, min_leaf=1, measure=MEASURE, n_threads=1)
    return rw.LambdaMART(
        n_rounds,
        max_leaves=LEAVES,
        learning_rate=0.2,
        min_leaf=1,
        truncation=None,
        normalise=False,
        min_hessian=0.0,
        measure=MEASURE,
        n_threads=1,
    )


def method_of(cell: Cell) -> Any:
    """The method of a cell, unfitted."""
    name = next(base for base in BASES if base in cell.method)
    base = base_of(name, cell.plain_rounds)
    if cell.method.startswith("Exp3.P"):
        options = {"measure": MEASURE, "reward": TRAINED_BY, "n_threads": 1}
        return rw.Exp3P(base, cell.budget, **options)
    if cell.method.startswith("BoostingTree"):
        options = {"measure": TRAINED_BY, "select_by": MEASURE, "cache_mb": 1500, "n_threads": 1}
        return rw.BoostingTree(base, cell.budget, search="hull", **options)
    return base


def parts_of(collection: str) -> list[rw.RankingData]:
    """Training, validation and test positions."""
    if collection in ("B84", "E97"):
        return [rw.datasets.chess(collection, part) for part in ("train", "valid", "test")]
    data = rw.read_letor(collection)
    edges = [0, *(int(share * data.n_queries) for share in SHARES), data.n_queries]
    return [data.take_queries(range(*edges[place : place + 2])) for place in range(3)]


def fit(cell: Cell) -> dict[str, Any]:
    """The curve of a method, the model it chooses, and what its roots split."""
    train, vali, test = parts_of(cell.collection)
    model = method_of(cell)
    start = time.perf_counter()
    model.fit(train, valid=vali)
    seconds = time.perf_counter() - start
    found: dict[str, Any] = {
        "cell": tuple(cell),
        "seconds": seconds,
        "chosen": chosen(model, test, MEASURE),
        "by_limit": curve(model, test, MEASURE, LIMITS),
    }
    is_search = isinstance(model, rw.BoostingTree)
    forest = model.family_.trees if is_search else model.forest_
    roots = forest.feature[forest.tree_offsets[:-1]]
    found["roots_of_positions"] = float((roots < N_SQUARES).mean()) if roots.size else 0.0
    if is_search:
        growth = model.tree_.growth()
        kept = slice(None, None, max(1, model.n_rounds_ // KEPT_ROUNDS))
        found["search"] = {
            "models": len(model.tree_),
            "failed": model.n_failed_,
            "rounds": model.n_rounds_,
            "stopped_because": model.stopped_because_,
            "growth": {name: values[kept] for name, values in growth.items()},
        }
    return found


def show(cells: list[Cell], found: list[dict[str, Any]], draws: bool) -> None:
    """Tables, and a figure with one panel per collection and base."""
    panels: dict[str, dict[str, list[float]]] = {}
    for cell, one in zip(cells, found, strict=True):
        best = one["chosen"]
        print(
            f"{cell} {best['trees']:5} trees, valid {best['valid']:.4f}, test {best['test']:.4f}; "
            f"roots of positions {one['roots_of_positions']:.1%}, {one['seconds']:.0f} s"
        )
        base = next(base for base in BASES if base in cell.method)
        title = f"{Path(cell.collection).name.split('.')[0]}, {base}"
        panels.setdefault(title, {})[cell.method] = one["by_limit"]
    for title, curves in panels.items():
        print(title)
        print_table(curves, [str(limit) for limit in LIMITS])
    if draws:
        draw(NAME, panels, LIMITS, ("most trees of a model", "test NDCG@10"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--plain-rounds", type=int, default=5000)
    parser.add_argument("--budget", type=int, default=25000)
    parser.add_argument("--data", default=None, help="a collection instead of the bundled ones")
    parser.add_argument("--quick", action="store_true", help="few rounds; nothing is kept")
    options = parser.parse_args()
    plain, budget = (40, 100) if options.quick else (options.plain_rounds, options.budget)
    collections = [options.data] if options.data else ["B84", "E97"]
    methods = [way.format(base) for way in reversed(WAYS) for base in reversed(BASES)]
    cells = [Cell(name, method, plain, budget) for method in methods for name in collections]
    train, vali, _ = parts_of(collections[0])
    for cell in cells[:: len(collections)]:  # compiled once, before there are processes
        few = cell._replace(plain_rounds=1, budget=2)
        method_of(few).fit(train.take_queries(range(3)), valid=vali.take_queries(range(3)))
    found = run_cells(cells, fit, options.processes)
    done = [Cell(*one["cell"]) for one in found]
    show(done, found, not options.quick)
    if not options.quick:
        results = [one | Cell(*one.pop("cell"))._asdict() for one in found]
        keep(NAME, {"measure": MEASURE, "limits": list(LIMITS), "cells": results})


if __name__ == "__main__":
    main()
