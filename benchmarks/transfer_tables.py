"""Tables 5.1 and 5.2 of Mohan (2010) on the collections at hand: added documents, and a model's scores as features.

Run as ``python -m benchmarks.transfer_tables [--processes N] [--trees N] [--splits N] [--quick]``. A cell is one split
of one pair of collections:

- chess: the opening E97 is the source and B84 the target, split at random by position. Like the thesis's countries they
  have the same features and different documents;
- planted: ``shapes_transfer``'s pair, half of whose source is like the target; ten training queries;
- MQ2008 (if RANKWOOD_DATA has it): a fifth of a fold's training queries is the target, the others are the source. Both
  are of one collection, so that a transfer should help.

Rankers and models of the source are random forests with a tenth of the features per node, as in the thesis. Printed and
kept is what each line of the tables changes on test queries: the mean difference by query with its standard error.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks import shapes_transfer
from benchmarks.common import keep

SHARES = (0.01, 0.1, 1.0)
COLUMNS = ("Q", "P", "C", "QP", "QC", "QPC")
MEASURES = ("ndcg@10[empty=0.5]", "err[max=4]")
TREES, SPLITS = 100, 5
PAIRS = ("chess", "planted", "MQ2008")
Cell = tuple[str, int]


def parts_of(pair: str, number: int) -> tuple[Any, Any, Any, Any]:
    """Source, and the target's training, validation and test part."""
    if pair == "chess":
        return rw.datasets.chess("E97"), *rw.split_queries(rw.datasets.chess("B84"), seed=number)
    if pair == "planted":
        planted, train, others = shapes_transfer.collections(shapes_transfer.SHIFT, number)
        return planted.source, train, *rw.split_queries(others, (0.2, 0.8), seed=number)
    train, vali, test = rw.read_folds(Path(os.environ["RANKWOOD_DATA"]) / "MQ2008")[number]
    target, source = rw.split_queries(train, (0.2, 0.8), seed=number)
    return source, target, vali, test


def run_cell(job: tuple[Cell, int]) -> tuple[Cell, dict[str, Any]]:
    """The differences by test query of each line and measure, and the AUC of the domain forest."""
    (pair, number), n_trees = job
    source, target, vali, test = parts_of(pair, number)
    forest = rw.RandomForest(n_trees, max_leaves=None, features_per_node=0.1, n_threads=1)
    table = rw.transfer_table(
        source,
        target,
        shares=SHARES,
        columns=COLUMNS,
        valid=vali,
        test=test,
        model=forest,
        measures=MEASURES,
        source_model=rw.OrdinalRanker(forest),
        forest=rw.RandomForest(min(n_trees, 50), n_threads=1),
        n_threads=1,
    )
    lines = {
        line.added: {m: line.reports["test", m].differences.tolist() for m in MEASURES}
        for line in table.lines
    }
    without = {m: table.lines[-1].reports["test", m].without for m in MEASURES}
    return (pair, number), {"auc": table.auc, "without": without, "lines": lines}


def summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """By line and measure the mean difference over all test queries, its standard error, and the splits' means."""
    found: dict[str, Any] = {
        "auc": float(np.mean([cell["auc"] for cell in cells])),
        "without": {m: float(np.mean([cell["without"][m] for cell in cells])) for m in MEASURES},
    }
    for line in cells[0]["lines"]:
        found[line] = {}
        for measure in MEASURES:
            by_split = [np.array(cell["lines"][line][measure]) for cell in cells]
            known = np.concatenate(by_split)
            known = known[~np.isnan(known)]
            found[line][measure] = {
                "difference": float(known.mean()),
                "error": float(known.std(ddof=1) / np.sqrt(known.size)),
                "by split": [float(np.nanmean(values)) for values in by_split],
            }
    return found


def show(pair: str, found: dict[str, Any]) -> None:
    """Print a pair's lines."""
    without = ", ".join(f"{measure} {value:.4f}" for measure, value in found["without"].items())
    print(f"\n{pair}: {without} without a transfer; AUC of the domain forest {found['auc']:.3f}")
    for line, by_measure in found.items():
        if line not in ("auc", "without"):
            texts = [
                f"{one['difference']:+.4f} ± {one['error']:.4f}" for one in by_measure.values()
            ]
            print(f"  {line:<6} {'   '.join(texts)}")


def main() -> None:
    """Run all cells and keep the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--trees", type=int, default=TREES, help="of every forest")
    parser.add_argument("--splits", type=int, default=SPLITS, help="of every pair, at most 5")
    parser.add_argument(
        "--quick", action="store_true", help="ten trees and one split; nothing is kept"
    )
    options = parser.parse_args()
    folder = os.environ.get("RANKWOOD_DATA")
    has_letor = folder is not None and (Path(folder) / "MQ2008").is_dir()
    pairs = [pair for pair in PAIRS if pair != "MQ2008" or has_letor]
    n_trees, n_splits = (10, 1) if options.quick else (options.trees, options.splits)
    jobs = [((pair, number), n_trees) for number in range(n_splits) for pair in pairs]
    outcomes: dict[Cell, dict[str, Any]] = {}
    start = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for done, (cell, outcome) in enumerate(pool.imap_unordered(run_cell, jobs), 1):
            outcomes[cell] = outcome
            print(f"{done}/{len(jobs)} {cell}: {time.perf_counter() - start:.0f} s", flush=True)
    result = {
        pair: summary([outcomes[one, n] for (one, n), _ in jobs if one == pair]) for pair in pairs
    }
    for pair, found in result.items():
        show(pair, found)
    print(f"{time.perf_counter() - start:.0f} s")
    if not options.quick:
        print(keep("transfer_tables", {"trees": n_trees, "splits": n_splits} | result))


if __name__ == "__main__":
    main()
