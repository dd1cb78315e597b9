"""Small models on MQ2008: MeanNDCG of boosting, bandit boosting and the search, in the shape of the paper's Table 3.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.boosting_tree_mq2008 [--folds 5] [--budget 5000]``; the folder holds
``MQ2008/Fold1`` to ``Fold5``. Weak hypotheses are stumps; plain boosting runs a fifth of the budget in rounds, Exp3.P
as many rounds as the search fits hypotheses. Figures are test MeanNDCG with LETOR's discount, ties averaged; the number
of trees is chosen on the validation fold. By the most stumps a model may have, the same gives the paper's Figure 9.
Ctrl-C keeps what is known so far.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import keep
from benchmarks.small_models import curve, draw, print_table, value_of

NAME = "boosting_tree_mq2008"
MEASURE = "mean_ndcg[discount=letor,ties=average]"
LIMITS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000)
BASES = {
    "LambdaMART": lambda: rw.LambdaMART(
        1000,
        max_leaves=2,
        learning_rate=0.2,
        target="ndcg[discount=letor]",
        truncation=None,
        normalise=False,
        measure=MEASURE,
    ),
    "NDCGBoost": lambda: rw.NDCGBoost(1000, max_leaves=2, measure=MEASURE),
}


def methods(budget: int) -> dict[str, Any]:
    """Every model of the table, unfitted."""
    found: dict[str, Any] = {"RankBoost": rw.RankBoost(300, measure=MEASURE)}
    n_rounds = max(1, budget // 5)
    for base, make in BASES.items():
        length = "n_trees" if base == "LambdaMART" else "n_rounds"
        found[base] = make().set_params(**{length: n_rounds})
    for base, make in BASES.items():
        found[f"Exp3.P({base})"] = rw.Exp3P(make(), budget, measure=MEASURE)
    for base, make in BASES.items():
        found[f"BoostingTree({base})"] = rw.BoostingTree(make(), budget, measure=MEASURE)
    return found


def show(table: dict[str, list[float]], curves: dict[str, list[list[float]]], n_folds: int) -> None:
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
    draw(NAME, panels, LIMITS, ("most stumps of a model", "test MeanNDCG, mean of the folds"))


def run(folds: list[Any], budget: int) -> None:
    table: dict[str, list[float]] = {name: [] for name in methods(budget)}
    curves: dict[str, list[list[float]]] = {name: [] for name in table}
    seconds = dict.fromkeys(table, 0.0)
    try:
        for number, (train, vali, test) in enumerate(folds, start=1):
            for name, model in methods(budget).items():
                start = time.perf_counter()
                model.fit(train, valid=vali)
                seconds[name] += time.perf_counter() - start
                values = curve(model, test, MEASURE, (*LIMITS, 10**9))
                table[name].append(values[-1])
                curves[name].append(values[:-1])
                print(
                    f"fold {number} {name:<26} {values[-1]:.4f}  {seconds[name]:.0f} s", flush=True
                )
            keep(NAME, record(table, curves, seconds, budget))
    except KeyboardInterrupt:
        print("interrupted: what follows is of the folds so far")
    if any(table.values()):
        show(table, curves, len(folds))


def record(table: Any, curves: Any, seconds: Any, budget: int) -> dict[str, Any]:
    """What is kept."""
    return {
        "measure": MEASURE,
        "budget": budget,
        "by_fold": table,
        "average": {name: statistics.mean(values) for name, values in table.items() if values},
        "limits": list(LIMITS),
        "by_limit": {n: np.mean(v, axis=0).tolist() for n, v in curves.items() if v},
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=5000)
    options = parser.parse_args()
    folder = os.environ.get("RANKWOOD_DATA")
    if not folder or not (Path(folder) / "MQ2008").is_dir():
        print("skipped: set RANKWOOD_DATA to a folder that holds MQ2008")
        return
    folds = list(rw.read_folds(Path(folder) / "MQ2008"))[: options.folds]
    test = folds[0][2]
    nothing = value_of(np.zeros(test.n_documents), test, MEASURE)
    print(f"{len(folds)} folds, budget {options.budget:,}; no model at all: {nothing:.4f}")
    run(folds, options.budget)


if __name__ == "__main__":
    main()
