"""BROOF on MQ2008 beside RandomForest, MART and LambdaMART: MAP and NDCG@10 over five folds.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.broof_mq2008 --processes 16``; the folder holds ``MQ2008/Fold1`` to
``Fold5``. Three repetitions with different seeds. BROOF's five kinds with default settings stop by the fold's
validation part; "as the papers" are 300 trees a round on bootstrap samples of rows, and rounds that a forest's error
alone ends (gradient: 100 rounds of 50 trees); the last ones differ from these by one choice that the papers name. A
query's value is its mean over the repetitions, and empty queries count as 0. Each method is compared with RandomForest
over all queries, by Wilcoxon's signed-rank test and by the paired t-test; marks for p < 0.05: ▲ better, ▼ worse.

``--quick`` takes one fold, one repetition and few trees, and keeps nothing.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import rankwood as rw
from benchmarks.common import keep

N_FOLDS, N_REPETITIONS = 5, 3
MEASURES = ("map", "ndcg@10")
ALPHA = 0.05
KINDS = ("absolute", "median", "height", "gradient", "lambda")
PAPERS = {"n_trees": 300, "bag": "row", "stop": None}
VARIANTS: dict[str, dict[str, Any]] = {
    "median by grade": {"loss": "median", "region": "grade"},
    "median by position": {"loss": "median", "region": "position"},
    "absolute, extra trees": {"loss": "absolute", "base": "extra"},
    "absolute, training": {"loss": "absolute", "validation": "train", "update_weights": "train"},
    "gradient, training": {"loss": "gradient", "validation": "train"},
}


def makers(is_quick: bool) -> dict[str, Callable[[int], Any]]:
    """Each method from its seed; the papers' 100 leaves and 0.3 of the features for all forests."""
    boost = {"max_leaves": 15, "learning_rate": 0.05, "early_stopping": 100, "n_threads": 1}
    n_boosted = 20 if is_quick else 1000
    small = {"n_rounds": 2, "n_trees": 10} if is_quick else {}
    found: dict[str, Callable[[int], Any]] = {
        "RandomForest": lambda seed: rw.RandomForest(300, seed=seed, n_threads=1),
        "MART": lambda seed: rw.GBRT(n_boosted, features_per_node=None, seed=seed, **boost),
        "LambdaMART": lambda seed: rw.LambdaMART(n_boosted, seed=seed, **boost),
    }
    settings = {f"BROOF {kind}": {"loss": kind} for kind in KINDS}
    for kind in KINDS[:-1]:
        settings[f"BROOF {kind}, as the papers"] = as_the_papers(kind)
    for name, choice in VARIANTS.items():
        settings[f"BROOF {name}"] = as_the_papers(choice["loss"]) | choice
    for name, parameters in settings.items():
        found[name] = functools.partial(_broof, parameters | small)
    return found


def as_the_papers(kind: str) -> dict[str, Any]:
    """The papers' settings of a kind."""
    if kind == "gradient":
        return {**PAPERS, "loss": kind, "n_trees": 50, "n_rounds": 100}
    return {**PAPERS, "loss": kind, "n_rounds": 500}


def _broof(parameters: dict[str, Any], seed: int) -> Any:
    return rw.BROOF(**parameters, seed=seed, n_threads=1)


def fit(cell: tuple[str, int, int, bool]) -> dict[str, Any]:
    """The test values of one fit, by measure, and its rounds."""
    name, fold, seed, is_quick = cell
    parts = _folds()[fold]
    start = time.perf_counter()
    model = makers(is_quick)[name](seed).fit(parts.train, valid=parts.valid)
    scores = model.predict(parts.test)
    found = {each: rw.parse_measure(each).per_query(scores, parts.test) for each in MEASURES}
    rounds = getattr(model, "best_iteration_", None)
    return {"values": found, "rounds": rounds, "seconds": time.perf_counter() - start}


@functools.cache
def _folds() -> Any:
    return rw.read_folds(Path(os.environ["RANKWOOD_DATA"]) / "MQ2008")


def compare(ours: Any, reference: Any) -> dict[str, Any]:
    """The mean difference, and what the two tests say of it."""
    difference = ours - reference
    if not difference.any():
        return {"difference": 0.0, "p_wilcoxon": 1.0, "p_t": 1.0}
    return {
        "difference": float(difference.mean()),
        "p_wilcoxon": float(stats.wilcoxon(difference).pvalue),
        "p_t": float(stats.ttest_rel(ours, reference).pvalue),
    }


def mark(found: dict[str, Any], test: str) -> str:
    """Whether a test says that ours is better or worse."""
    if found[test] >= ALPHA:
        return "·"
    return "▲" if found["difference"] > 0 else "▼"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    folder = os.environ.get("RANKWOOD_DATA")
    if not folder or not (Path(folder) / "MQ2008").is_dir():
        print("skipped: set RANKWOOD_DATA to a folder that holds MQ2008")
        return
    n_folds, n_repetitions = (1, 1) if options.quick else (N_FOLDS, N_REPETITIONS)
    names = list(makers(options.quick))
    cells = [
        (name, fold, seed, options.quick)
        for name in names
        for fold in range(n_folds)
        for seed in range(n_repetitions)
    ]
    result: dict[str, Any] = {}
    reference: dict[str, Any] = {}
    print("against RandomForest: W Wilcoxon, t paired t-test")
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        answers = pool.imap(fit, cells, chunksize=1)
        for name in names:
            fits = [[next(answers) for _ in range(n_repetitions)] for _ in range(n_folds)]
            values = {
                each: np.concatenate(
                    [np.mean([f["values"][each] for f in of_fold], axis=0) for of_fold in fits]
                )
                for each in MEASURES
            }
            reference = reference or values
            result[name] = outcome(values, reference) | {
                "rounds": [f["rounds"] for of_fold in fits for f in of_fold],
                "seconds": round(sum(f["seconds"] for of_fold in fits for f in of_fold), 1),
            }
            show(name, result[name])
    if not options.quick:
        keep("broof_mq2008", {"folds": n_folds, "repetitions": n_repetitions, **result})


def outcome(values: dict[str, Any], reference: dict[str, Any]) -> dict[str, Any]:
    """The mean of each measure, and how it compares with the reference."""
    return {
        measure: {"value": float(found.mean()), **compare(found, reference[measure])}
        for measure, found in values.items()
    }


def show(name: str, found: dict[str, Any]) -> None:
    """Print a line of the table."""
    shown = "   ".join(
        f"{each} {found[each]['value']:.4f} {found[each]['difference']:+.4f} "
        f"W{mark(found[each], 'p_wilcoxon')} t{mark(found[each], 'p_t')}"
        for each in MEASURES
    )
    rounds = [number for number in found["rounds"] if number is not None]
    of_rounds = f"rounds {min(rounds)} to {max(rounds)}, " if rounds else ""
    print(f"{name:<32} {shown}   {of_rounds}{found['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
