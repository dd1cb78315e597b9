"""``AutoRanker`` beside LightGBM's and XGBoost's rankers tuned by Optuna, all in the same time on two threads.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.auto_versus_tuned [--time 60] [--folds 5] [--splits 5]
[--processes 8] [--quick]``. The folder holds ``MQ2008/Fold1`` … ``Fold5`` and ``chess-B84.txt.gz``, whose positions are
split at random into 60 % training, 20 % validation and 20 % test, ``--splits`` times. Each method sees the training and
the validation part for ``--time`` seconds. The peers are LightGBM's lambdarank and XGBoost's rank:ndcg; Optuna's
tree-structured Parzen estimator proposes settings, at most 1,000 trees stop after 50 without a better validation
NDCG@10, and the trial with the best validation NDCG@10 gives the model. ``AutoRanker (refit)`` is the chosen ranker
trained again on both parts, which takes longer. Figures are test NDCG@10, queries without a relevant document counted
as 0; differences are paired by query over all folds of a collection, and the record has their tests.

A cell is a fold and a method: 4 methods × 10 folds × --time seconds in all, divided by --processes; a process has two
threads. On 16 cores ``--time 60 --processes 8`` takes about 4 minutes.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rankwood as rw
from benchmarks.common import keep

NAME = "auto_versus_tuned"
MEASURE = "ndcg@10[empty=0]"
N_THREADS = 2
MOST_TREES, PATIENCE = 1000, 50
OURS, REFIT, LIGHTGBM, XGBOOST = "AutoRanker", "AutoRanker (refit)", "LightGBM", "XGBoost"
METHODS = (OURS, LIGHTGBM, XGBOOST)


class Cell(NamedTuple):
    """One method on one fold."""

    collection: str
    fold: int
    method: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.collection} fold {self.fold + 1} {self.method}"


def parts_of(cell: Cell) -> tuple[rw.RankingData, rw.RankingData, rw.RankingData]:
    """Training, validation and test data."""
    root = Path(os.environ["RANKWOOD_DATA"])
    if cell.collection == "MQ2008":
        return tuple(rw.read_folds(root / "MQ2008")[cell.fold])
    data = rw.read_letor(root / "chess-B84.txt.gz")
    return tuple(rw.split_queries(data, (0.6, 0.2, 0.2), seed=100 + cell.fold))


def grouped(data: rw.RankingData) -> tuple[rw.RankingData, np.ndarray]:
    """The data with the rows of each query together, and how many each has."""
    ordered = data.take_rows(np.argsort(data.query_of_row, kind="stable"))
    return ordered, np.bincount(ordered.query_of_row)


def tuned_lightgbm(train: rw.RankingData, vali: rw.RankingData) -> tuple[Callable, Callable]:
    """A function that makes a trial, and one that scores."""
    import lightgbm

    (train, sizes), (vali, vali_sizes) = grouped(train), grouped(vali)

    def attempt(trial: Any) -> Any:
        settings = {
            "objective": "lambdarank",
            "metric": "ndcg",
            "eval_at": [10],
            "learning_rate": trial.suggest_float("learning_rate", 0.01, 0.3, log=True),
            "num_leaves": trial.suggest_int("num_leaves", 4, 128, log=True),
            "min_data_in_leaf": trial.suggest_int("min_data_in_leaf", 5, 200, log=True),
            "feature_fraction": trial.suggest_float("feature_fraction", 0.3, 1.0),
            "bagging_fraction": trial.suggest_float("bagging_fraction", 0.4, 1.0),
            "bagging_freq": 1,
            "lambda_l1": trial.suggest_float("lambda_l1", 1e-8, 10.0, log=True),
            "lambda_l2": trial.suggest_float("lambda_l2", 1e-8, 10.0, log=True),
            "num_threads": N_THREADS,
            "verbose": -1,
            "seed": 0,
        }
        rows = lightgbm.Dataset(train.features, train.labels, group=sizes)
        held_out = lightgbm.Dataset(vali.features, vali.labels, group=vali_sizes, reference=rows)
        stop = lightgbm.early_stopping(PATIENCE, verbose=False)
        return lightgbm.train(settings, rows, MOST_TREES, [held_out], callbacks=[stop])

    return attempt, lambda model, data: model.predict(data.features)


def tuned_xgboost(train: rw.RankingData, vali: rw.RankingData) -> tuple[Callable, Callable]:
    """A function that makes a trial, and one that scores."""
    import xgboost

    (train, sizes), (vali, vali_sizes) = grouped(train), grouped(vali)
    rows = xgboost.DMatrix(train.features, train.labels)
    held_out = xgboost.DMatrix(vali.features, vali.labels)
    rows.set_group(sizes)
    held_out.set_group(vali_sizes)

    def attempt(trial: Any) -> Any:
        settings = {
            "objective": "rank:ndcg",
            "eval_metric": "ndcg@10",
            "tree_method": "hist",
            "eta": trial.suggest_float("eta", 0.01, 0.3, log=True),
            "max_depth": trial.suggest_int("max_depth", 2, 10),
            "min_child_weight": trial.suggest_float("min_child_weight", 1e-3, 100.0, log=True),
            "subsample": trial.suggest_float("subsample", 0.4, 1.0),
            "colsample_bytree": trial.suggest_float("colsample_bytree", 0.3, 1.0),
            "lambda": trial.suggest_float("lambda", 1e-3, 100.0, log=True),
            "alpha": trial.suggest_float("alpha", 1e-8, 10.0, log=True),
            "nthread": N_THREADS,
            "seed": 0,
        }
        return xgboost.train(
            settings,
            rows,
            MOST_TREES,
            evals=[(held_out, "vali")],
            early_stopping_rounds=PATIENCE,
            verbose_eval=False,
        )

    def score(model: Any, data: rw.RankingData) -> np.ndarray:
        best = (0, model.best_iteration + 1)
        return model.predict(xgboost.DMatrix(data.features), iteration_range=best)

    return attempt, score


def tuned_by_optuna(
    cell: Cell, train: rw.RankingData, vali: rw.RankingData, test: rw.RankingData
) -> tuple[np.ndarray, dict[str, Any]]:
    """Test scores of the best trial, and the record of the search."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    maker = tuned_lightgbm if cell.method == LIGHTGBM else tuned_xgboost
    attempt, score = maker(train, vali)
    best: dict[str, Any] = {"value": -1.0, "model": None}

    def objective(trial: Any) -> float:
        model = attempt(trial)
        value = rw.parse_measure(MEASURE).per_query(score(model, vali), vali).mean()
        if value > best["value"]:
            best.update(value=float(value), model=model, parameters=trial.params)
        return float(value)

    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=cell.fold)
    )
    study.optimize(objective, timeout=cell.seconds, n_jobs=1)
    record = {"trials": len(study.trials), "valid": best["value"], "chosen": best["parameters"]}
    return score(best["model"], test), record


def run(cell: Cell) -> tuple[Cell, dict[str, Any]]:
    """Test values by query of a cell, and how they came about."""
    train, vali, test = parts_of(cell)
    measure = rw.parse_measure(MEASURE)
    start = time.perf_counter()
    if cell.method == OURS:
        model = rw.AutoRanker(time=cell.seconds, measure=MEASURE, n_threads=N_THREADS)
        model.fit(train, valid=vali)
        seconds = time.perf_counter() - start
        chosen = next(trial for trial in model.trials_ if trial["chosen"])
        again = rw.refit(model, train, vali)
        record = {
            "trials": len(model.trials_),
            "valid": chosen["mean"],
            "chosen": {"name": chosen["name"], **chosen["parameters"]},
            "defaults": {t["name"]: t["mean"] for t in model.trials_ if not t["parameters"]},
            "given_up": [t["name"] for t in model.trials_ if t["outcome"] != "done"],
            REFIT: measure.per_query(again.predict(test), test).tolist(),
        }
        scores = model.predict(test)
    else:
        scores, record = tuned_by_optuna(cell, train, vali, test)
        seconds = time.perf_counter() - start
    values = measure.per_query(np.asarray(scores, np.float64), test).tolist()
    return cell, {"seconds": seconds, "values": values, **record}


def outcomes(cells: list[Cell], processes: int) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Every cell with its outcome, as they are finished."""
    if processes == 1:
        yield from map(run, cells)
        return
    with ProcessPoolExecutor(processes) as pool:
        for job in as_completed([pool.submit(run, cell) for cell in cells]):
            yield job.result()


def table(found: dict[Cell, dict[str, Any]], collection: str) -> dict[str, Any]:
    """Means of each method, and what AutoRanker is ahead of the others, paired by query."""
    cells = sorted(cell for cell in found if cell.collection == collection)
    values = {
        method: np.concatenate([found[c]["values"] for c in cells if c.method == method])
        for method in METHODS
    }
    values[REFIT] = np.concatenate([found[c][REFIT] for c in cells if c.method == OURS])
    print(f"\n{collection}: NDCG@10 of {values[OURS].size:,} test queries")
    result: dict[str, Any] = {}
    for method, each in values.items():
        result[method] = {"mean": float(each.mean())}
        print(f"  {method:<20} {each.mean():.4f}", end="")
        if method != OURS:
            compared = rw.compare_values({OURS: values[OURS], method: each}, method, n_bootstrap=0)
            tests = compared.to_dict()
            gains = values[OURS] - each
            error = gains.std(ddof=1) / gains.size**0.5
            result[method] |= {"gain": float(gains.mean()), "error": float(error), "tests": tests}
            print(f"   AutoRanker {gains.mean():+.4f} ± {error:.4f}", end="")
        print()
    return result


def main() -> None:
    """Run what was asked for, print the tables, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time", type=float, default=60.0, help="seconds of each search")
    parser.add_argument("--folds", type=int, default=5, help="of MQ2008")
    parser.add_argument("--splits", type=int, default=5, help="of chess B84")
    parser.add_argument("--processes", type=int, default=1, help="of two threads each")
    parser.add_argument("--quick", action="store_true", help="one fold, ten seconds, not kept")
    asked = parser.parse_args()
    if asked.quick:
        asked.time, asked.folds, asked.splits = 10.0, 1, 0
    collections = {"MQ2008": asked.folds, "chess-B84": asked.splits}
    cells = [
        Cell(collection, fold, method, asked.time)
        for collection, n_folds in collections.items()
        for fold in range(n_folds)
        for method in METHODS
    ]
    found: dict[Cell, dict[str, Any]] = {}
    for cell, outcome in outcomes(cells, asked.processes):
        found[cell] = outcome
        print(
            f"[{len(found)}/{len(cells)}] {cell}: {np.mean(outcome['values']):.4f} in {outcome['seconds']:.0f} s, "
            f"{outcome['trials']} trials, chosen {outcome['chosen']}",
            flush=True,
        )
    tables = {name: table(found, name) for name, n_folds in collections.items() if n_folds}
    if not asked.quick:
        named = {str(cell): outcome for cell, outcome in found.items()}
        print(keep(NAME, {"time": asked.time, "tables": tables, "cells": named}))


if __name__ == "__main__":
    main()
