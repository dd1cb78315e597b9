"""Deep Forest on MQ2008, five folds: forests, cascades, variants, class vectors, LambdaMART, DF-LM, a network.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.deep_forest_mq2008 [--processes N] [--quick] [name ...]``; the folder
holds ``MQ2008/Fold1`` to ``Fold5``. Cells are a ranker in a fold; each process runs one on one thread. Names measure
those only and keep nothing; ``--quick`` takes one fold and a fifth of the trees. NDCG@10, the mean of NDCG over all
positions, and MAP, with empty queries as 0; every query is in one fold's test part. Tests are paired t-tests.
The network is left out, with a word, where PyTorch is not installed.

"DF, paper" and "RF, paper" have the source's settings for MQ2007: 40 trees per forest, pure leaves, bags of rows, the
layer that validates best. The variants are compared with a cascade of forests of 20 trees and at most five layers, also
the one that validates best, and DF-LM has four LambdaMARTs of 80 trees in at most three layers instead of eight of
160: the whole would take hours. The other settings are Rankwood's defaults.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import keep
from rankwood.errors import MissingExtra

NAME = "deep_forest_mq2008"
MEASURES = ("ndcg@10", "mean_ndcg", "map")
BOOSTED = {"max_leaves": 15, "learning_rate": 0.05, "early_stopping": 100}
PAPER = {"judged_on": "valid", "lead": 0.0}
PURE = {"max_leaves": None, "min_split": 1, "bag": "row"}

Make = Callable[[Callable[[int], int]], Any]  # from a function that scales numbers of trees
Cell = tuple[str, int, float]  # ranker, fold, share of the trees
Measured = dict[str, Any]


def variant(**how: Any) -> Make:
    """A cascade of forests of 20 trees, of which the layer that validates best is kept."""
    return lambda trees: rw.DeepForest(
        n_forests=8, n_trees=trees(20), max_layers=5, patience=2, n_threads=1, **PAPER, **how
    )


def boosted_layers(**how: Any) -> Make:
    """DF-LM, of which the layer that validates best is kept."""
    return lambda trees: rw.DeepForest.lambdamart(
        4, trees(80), max_layers=3, n_threads=1, **PAPER, **how
    )


# Each with what it is compared to; the longest first.
RANKERS: dict[str, tuple[Make, str | None]] = {
    "DF trees (S3.1)": (variant(augment="trees"), "DF of 20 trees"),
    "DF pareto (S3.1.1)": (variant(select="pareto"), "DF of 20 trees"),
    "DF, paper": (
        lambda trees: rw.DeepForest(n_forests=8, n_trees=trees(40), n_threads=1, **PURE, **PAPER),
        "RF, paper",
    ),
    "DF-LM": (boosted_layers(), "LambdaMART"),
    "DF-LM standardised": (boosted_layers(passes="standard"), "DF-LM"),
    "DF-LM averaged folds": (boosted_layers(fold_models="average"), "DF-LM"),
    "DF class vectors": (variant(augment="grades"), "DF of 20 trees"),
    "DF ranks and gaps": (variant(passes="scores+ranks+gaps"), "DF of 20 trees"),
    "DF kept (S3.2)": (variant(keep_augmented=True), "DF of 20 trees"),
    "DF queries (S3.3.1)": (variant(boost="query", alpha=0.3), "DF of 20 trees"),
    "DF documents (S3.3.2)": (variant(boost="document", beta=0.7), "DF of 20 trees"),
    "DF of 20 trees": (variant(), None),
    "DF": (lambda trees: rw.DeepForest(n_forests=8, n_trees=trees(40), n_threads=1), "RF"),
    "RF": (lambda trees: rw.RandomForest(trees(320), n_threads=1), None),
    "RF, paper": (lambda trees: rw.RandomForest(trees(40), max_leaves=None, n_threads=1), None),
    "LambdaMART": (lambda trees: rw.LambdaMART(trees(1000), n_threads=1, **BOOSTED), "RF"),
    "MLP": (lambda _: rw.MLPRanker(early_stopping=20, n_threads=1), "LambdaMART"),
}


def run_cell(cell: Cell) -> tuple[Cell, Measured | str]:
    """Each measure by test query, layers and seconds of a ranker in a fold; a text where it cannot be trained here."""
    name, number, share = cell
    folder = Path(os.environ["RANKWOOD_DATA"]) / "MQ2008"
    train, vali, test = rw.read_folds(folder)[number]
    start = time.perf_counter()
    try:
        model = RANKERS[name][0](lambda trees: max(1, round(share * trees)))
        model.fit(train, valid=vali)
    except MissingExtra as reason:
        return cell, str(reason)
    scores = model.predict(test)
    values = {text: rw.parse_measure(text).per_query(scores, test) for text in MEASURES}
    layers = model.cascade_.n_layers if isinstance(model, rw.DeepForest) else 1
    return cell, {"values": values, "layers": layers, "seconds": time.perf_counter() - start}


def p_value(one: Any, other: Any) -> float:
    """Of a paired t-test, two-sided; 1 where all values are equal."""
    from scipy.stats import ttest_rel

    if np.array_equal(one, other):
        return 1.0
    return float(ttest_rel(one, other).pvalue)


def row_of(own: list[Measured], other: list[Measured] | None) -> dict[str, Any]:
    """Means over the queries of all folds, and p-values against the ranker of comparison."""
    row: dict[str, Any] = {
        "seconds": sum(one["seconds"] for one in own),
        "layers": [one["layers"] for one in own],
    }
    for measure in MEASURES:
        values = np.concatenate([one["values"][measure] for one in own])
        row[measure] = float(values.mean())
        if other is not None:
            against = np.concatenate([one["values"][measure] for one in other])
            row[f"p_{measure}"] = p_value(values, against)
    return row


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=NAME)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args(arguments or [])
    folder = os.environ.get("RANKWOOD_DATA")
    if not folder or not (Path(folder) / "MQ2008").is_dir():
        print("skipped: set RANKWOOD_DATA to a folder that holds MQ2008")
        return
    n_folds, share = (1, 0.2) if asked.quick else (5, 1.0)
    chosen = [name for name in RANKERS if not asked.names or name in asked.names]
    cells: list[Cell] = [(name, fold, share) for name in chosen for fold in range(n_folds)]
    found: dict[str, list[Measured]] = {name: [{}] * n_folds for name in chosen}
    start = time.perf_counter()
    with get_context("spawn").Pool(min(asked.processes, len(cells))) as pool:
        for done, (cell, measured) in enumerate(pool.imap_unordered(run_cell, cells), start=1):
            name, fold, _ = cell
            if isinstance(measured, str):
                if found.pop(name, None) is not None:
                    print(f"{name} is left out: {measured}")
                continue
            found[name][fold] = measured
            seconds = time.perf_counter() - start
            print(
                f"[{done}/{len(cells)}, {seconds:.0f} s] {name}, fold {fold + 1} ({measured['seconds']:.0f} s)",
                flush=True,
            )
    result: dict[str, Any] = {"folds": n_folds}
    for name, own in found.items():
        against = RANKERS[name][1]
        row = {"against": against, **row_of(own, found.get(against or ""))}
        shown = "   ".join(
            f"{measure} {row[measure]:.4f}"
            + (f" (p {row[f'p_{measure}']:.3f})" if f"p_{measure}" in row else "")
            for measure in MEASURES
        )
        print(f"{name:<22} {shown}   layers {row['layers']}   against {against}")
        result[name] = row
    if not asked.names and not asked.quick:
        keep(NAME, result)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
