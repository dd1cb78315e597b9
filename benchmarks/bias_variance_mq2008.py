"""Error, bias² and variance on MQ2008 in the shape of the paper's table 6.4: five trainings in each of five folds.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.bias_variance_mq2008 [--processes N] [--quick]``; the folder holds
``MQ2008/Fold1`` to ``Fold5``. Cells are an algorithm in a fold; each process runs one on one thread. ``--quick`` takes
two trainings in one fold, with a tenth of the trees, and keeps nothing. All pairs with strict ties, the level of the
paper's figures (which are of MQ2007, so that only the order of the rows may be compared).

A query that a sample drew twice has twice the weight. Sizes are the paper's for MQ2007, forests of 40 trees, with
Rankwood's limits (100 leaves) and once with pure leaves as in the paper; except for DF-LM, which has four LambdaMARTs
of 80 trees in at most two layers instead of eight of 160: 25 trainings of the whole would take hours.

The paper's table for MQ2007: Random Forest 0.4344 = 0.3752 + 0.0592, Deep Forest 0.4341 = 0.3812 + 0.0529,
DF-LM 0.4283 = 0.4083 + 0.0200, LambdaMART 0.4335 = 0.3482 + 0.0853.
"""

from __future__ import annotations

import argparse
import os
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import keep

NAME = "bias_variance_mq2008"
CONVENTIONS = {"pairs": "all", "ties": "strict"}
PARTS = ("error", "bias_squared", "variance")
PAPER = {"judged_on": "valid", "lead": 0.0}  # the best layer on the validation data is kept

Cell = tuple[str, int, int, float]  # algorithm, fold, trainings, share of the trees


def algorithms(share: float) -> dict[str, Any]:
    """The rows of the table, the longest first."""

    def trees(number: int) -> int:
        return max(1, round(share * number))

    boosted = {"max_leaves": 15, "learning_rate": 0.05}
    return {
        "Deep Forest, pure leaves": rw.DeepForest(
            n_forests=8, n_trees=trees(40), max_leaves=None, min_split=1, bag="row", **PAPER
        ),
        "DF-LM": rw.DeepForest.lambdamart(4, trees(80), max_layers=2, **PAPER),
        "DF-LM, standardised": rw.DeepForest.lambdamart(
            4, trees(80), max_layers=2, passes="standard", **PAPER
        ),
        "Deep Forest, the best layer": rw.DeepForest(n_forests=8, n_trees=trees(40), **PAPER),
        "Deep Forest": rw.DeepForest(n_forests=8, n_trees=trees(40)),
        "LambdaMART": rw.LambdaMART(trees(160), **boosted),
        "Random Forest, pure leaves": rw.RandomForest(trees(40), max_leaves=None),
        "Random Forest": rw.RandomForest(trees(40)),
        "Random Forest, 320 trees": rw.RandomForest(trees(320)),
    }


def run_cell(cell: Cell) -> tuple[Cell, dict[str, Any], float]:
    """The decomposition of one algorithm in one fold, and the seconds it took."""
    name, fold, trainings, share = cell
    start = time.perf_counter()
    folds = rw.read_folds(Path(os.environ["RANKWOOD_DATA"]) / "MQ2008")
    parts = [folds[fold]]
    estimator = algorithms(share)[name]
    # Folds draw their samples by their number, so that the seed differs from fold to fold.
    found = rw.bias_variance(
        {name: estimator}, parts, trainings=trainings, seed=fold, n_threads=1, **CONVENTIONS
    )
    return cell, found.to_dict(), time.perf_counter() - start


def averaged(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Means over folds, of the whole and of each layer; a fold with fewer layers counts with its last."""
    own = [one["algorithms"][name] for one in found]
    row: dict[str, Any] = {part: float(np.mean([one[part] for one in own])) for part in PARTS}
    row["folds"] = [{part: one[part] for part in PARTS} for one in own]
    depth = max(len(one["layers"]) for one in own)
    layers = [one["layers"] or [{part: one[part] for part in PARTS}] for one in own]
    row["layers"] = [
        {
            part: float(np.mean([each[min(number, len(each) - 1)][part] for each in layers]))
            for part in PARTS
        }
        for number in range(depth)
    ]
    return row


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=NAME)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args([] if arguments is None else arguments)
    folder = os.environ.get("RANKWOOD_DATA")
    if not folder or not (Path(folder) / "MQ2008").is_dir():
        print("skipped: set RANKWOOD_DATA to a folder that holds MQ2008")
        return
    n_folds, trainings, share = (1, 2, 0.1) if options.quick else (5, 5, 1.0)
    cells: list[Cell] = [
        (name, fold, trainings, share) for name in algorithms(1.0) for fold in range(n_folds)
    ]
    found: dict[Cell, dict[str, Any]] = {}
    seconds: dict[str, float] = {}
    start = time.perf_counter()
    with get_context("spawn").Pool(min(options.processes, len(cells))) as pool:
        for cell, result, took in pool.imap_unordered(run_cell, cells):
            found[cell] = result
            seconds[cell[0]] = seconds.get(cell[0], 0.0) + took
            elapsed = time.perf_counter() - start
            print(
                f"[{len(found)}/{len(cells)}, {elapsed:.0f} s] {cell[0]}, fold {cell[1] + 1} ({took:.0f} s)",
                flush=True,
            )
    rows = {
        name: averaged([found[name, fold, trainings, share] for fold in range(n_folds)], name)
        for name in algorithms(1.0)
    }
    for name, row in rows.items():
        shown = "   ".join(f"{part} {row[part]:.4f}" for part in PARTS)
        print(f"{name:<28} {shown}")
        for number, layer in enumerate(row["layers"], start=1):
            shown = "   ".join(f"{part} {layer[part]:.4f}" for part in PARTS)
            print(f"   layer {number:<19} {shown}")
    if not options.quick:
        result = {"folds": n_folds, "trainings": trainings, "conventions": CONVENTIONS}
        keep(NAME, {**result, "algorithms": rows, "seconds": seconds})


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
