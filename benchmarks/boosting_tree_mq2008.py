"""Small models on MQ2008: MeanNDCG of boosting, bandit boosting and the search, in the shape of the paper's Table 3.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.boosting_tree_mq2008 [--processes 16] [--quick]``; the folder holds
``MQ2008/Fold1`` to ``Fold5``. Weak hypotheses are stumps; plain boosting runs a fifth of the budget in rounds, Exp3.P
as many rounds as the search fits hypotheses. As in the paper, LambdaMART takes all pairs, without normalisation or a
least hessian, with LETOR's discount; the search maximises MeanNDCG on the training queries, and the reward is the
change of NDCG. Figures are test MeanNDCG with LETOR's discount, ties averaged; the number of trees is chosen on the
validation fold. By the most stumps a model may have, the same gives the paper's Figure 9. Ctrl-C keeps what is known so
far.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rankwood as rw
from benchmarks.common import keep
from benchmarks.small_models import chosen, curve, draw, print_table, run_cells, value_of

NAME = "boosting_tree_mq2008"
MEASURE = "mean_ndcg[discount=letor,ties=average]"
REWARD = "ndcg[discount=letor,ties=average]"
LIMITS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000)
BASES = {
    "LambdaMART": lambda: rw.LambdaMART(
        1000,
        max_leaves=2,
        learning_rate=0.2,
        min_leaf=1,
        target="ndcg[discount=letor]",
        truncation=None,
        normalise=False,
        min_hessian=0.0,
        measure=MEASURE,
        n_threads=1,
    ),
    "NDCGBoost": lambda: rw.NDCGBoost(1000, max_leaves=2, min_leaf=1, measure=MEASURE, n_threads=1),
}


class Cell(NamedTuple):
    """One method on one fold."""

    fold: int  # from 0
    method: str
    budget: int

    def __str__(self) -> str:
        return f"fold {self.fold + 1} {self.method:<26}"


def methods(budget: int) -> dict[str, Any]:
    """Every model of the table, unfitted."""
    found: dict[str, Any] = {"RankBoost": rw.RankBoost(300, measure=MEASURE, n_threads=1)}
    n_rounds = max(1, budget // 5)
    for base, make in BASES.items():
        length = "n_trees" if base == "LambdaMART" else "n_rounds"
        found[base] = make().set_params(**{length: n_rounds})
    for base, make in BASES.items():
        options = {"measure": MEASURE, "reward": REWARD, "n_threads": 1}
        found[f"Exp3.P({base})"] = rw.Exp3P(make(), budget, **options)
    for base, make in BASES.items():
        search = rw.BoostingTree(make(), budget, measure=MEASURE, search="hull", n_threads=1)
        found[f"BoostingTree({base})"] = search
    return found


def fold_of(number: int) -> Any:
    """Training, validation and test part of a fold."""
    return rw.read_folds(Path(os.environ["RANKWOOD_DATA"]) / "MQ2008")[number]


def fit(cell: Cell) -> dict[str, Any]:
    """The curve of a method on a fold, and the model it chooses."""
    train, vali, test = fold_of(cell.fold)
    model = methods(cell.budget)[cell.method]
    start = time.perf_counter()
    model.fit(train, valid=vali)
    found: dict[str, Any] = {"cell": tuple(cell), "seconds": time.perf_counter() - start}
    found["chosen"] = chosen(model, test, MEASURE)
    found["by_limit"] = curve(model, test, MEASURE, LIMITS)
    if isinstance(model, rw.BoostingTree):
        found["failed"] = model.n_failed_
    return found


def show(
    table: dict[str, list[float]],
    curves: dict[str, list[list[float]]],
    n_folds: int,
    draws: bool,
) -> None:
    """The table of all folds so far, and the figure."""
    rows = {
        name: [*values, *[float("nan")] * (n_folds - len(values)), statistics.mean(values)]
        for name, values in table.items()
        if values
    }
    print_table(rows, [*(f"Fold{fold + 1}" for fold in range(n_folds)), "average"])
    means = {name: np.mean(values, axis=0).tolist() for name, values in curves.items() if values}
    print_table(means, [str(limit) for limit in LIMITS])
    panels = {
        base: {
            name: means[name]
            for name in (base, f"Exp3.P({base})", f"BoostingTree({base})")
            if name in means
        }
        for base in BASES
    }
    if draws:
        draw(NAME, panels, LIMITS, ("most stumps of a model", "test MeanNDCG, mean of the folds"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=5000)
    parser.add_argument("--quick", action="store_true", help="a fold, few rounds; nothing is kept")
    options = parser.parse_args()
    folder = os.environ.get("RANKWOOD_DATA")
    if not folder or not (Path(folder) / "MQ2008").is_dir():
        print("skipped: set RANKWOOD_DATA to a folder that holds MQ2008")
        return
    n_folds, budget = (1, 50) if options.quick else (options.folds, options.budget)
    train, vali, test = fold_of(0)
    nothing = value_of(np.zeros(test.n_documents), test, MEASURE)
    print(f"{n_folds} folds, budget {budget:,}; no model at all: {nothing:.4f}")
    for model in methods(1).values():  # compiled once, before there are processes
        model.fit(train.take_queries(range(30)), valid=vali.take_queries(range(30)))
    names = list(reversed(methods(budget)))  # the slowest first
    cells = [Cell(fold, name, budget) for name in names for fold in range(n_folds)]
    found = run_cells(cells, fit, options.processes)
    table: dict[str, list[float]] = {name: [] for name in methods(budget)}
    curves: dict[str, list[list[float]]] = {name: [] for name in table}
    for one in found:
        name = Cell(*one["cell"]).method
        table[name].append(one["chosen"]["test"])
        curves[name].append(one["by_limit"])
    if found:
        show(table, curves, n_folds, not options.quick)
    if found and not options.quick:
        keep(NAME, record(table, curves, found, budget))


def record(table: Any, curves: Any, found: list[dict[str, Any]], budget: int) -> dict[str, Any]:
    """What is kept."""
    return {
        "measure": MEASURE,
        "budget": budget,
        "by_fold": table,
        "average": {name: statistics.mean(values) for name, values in table.items() if values},
        "limits": list(LIMITS),
        "by_limit": {n: np.mean(v, axis=0).tolist() for n, v in curves.items() if v},
        "seconds": {
            name: sum(one["seconds"] for one in found if Cell(*one["cell"]).method == name)
            for name in table
        },
        "cells": [{key: one[key] for key in one if key != "by_limit"} for one in found],
    }


if __name__ == "__main__":
    main()
