"""A cascade with default settings against its own first layer and a forest of as many trees, on four kinds of data.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.deep_forest_defaults [--processes N] [--quick]``; the folder holds
``MQ2008/Fold1`` to ``Fold5`` and ``chess-B84.txt.gz``, and a collection that is not there is left out, with a word. The
cells are the five folds of MQ2008, random splits of the chess positions (60, 20 and 20 %), and generated data of
100 and 1,000 training queries. Each cell fits ``DeepForest()`` with validation data and a ``RandomForest`` of as many
trees as the cascade kept. Values are NDCG@10 by test query; tests are paired t-tests over the test queries of all cells
of a collection, and the claim fails where a cascade is below with p < 0.05.

``--quick`` takes one cell of each kind and forests of 10 trees, and keeps nothing. ``--no-valid`` fits without
validation data, so that held-out scores alone decide; it is kept under a name of its own.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import keep
from benchmarks.deep_forest_mq2008 import p_value

NAME = "deep_forest_defaults"
CHESS = "chess-B84.txt.gz"
CHESS_SPLITS = range(1, 7)
GENERATED = {  # queries, documents, features; seeds
    "generated, 100 queries": ((100, 20, 20), range(1, 7)),
    "generated, 1,000 queries": ((1000, 20, 30), range(1, 4)),
}
TEST_QUERIES = 500
AGAINST = ("first layer", "forest")

Cell = tuple[
    str, int, int | None, bool
]  # collection, fold or seed, trees per forest, with validation data


def parts_of(collection: str, number: int) -> tuple[Any, Any, Any]:
    """Training, validation and test queries of a cell."""
    folder = Path(os.environ.get("RANKWOOD_DATA", "."))
    if collection == "MQ2008":
        return tuple(rw.read_folds(folder / "MQ2008")[number])  # type: ignore[return-value]
    if collection == "chess B84":
        return tuple(rw.split_queries(rw.read_letor(folder / CHESS), (0.6, 0.2, 0.2), seed=number))  # type: ignore[return-value]
    (n_queries, n_documents, n_features), _ = GENERATED[collection]
    n_valid = max(50, n_queries // 5)
    total = n_queries + n_valid + TEST_QUERIES
    data = rw.make_ranking(total, n_documents, n_features, seed=number)
    return (
        data.take_queries(range(n_queries)),
        data.take_queries(range(n_queries, n_queries + n_valid)),
        data.take_queries(range(n_queries + n_valid, total)),
    )


def run_cell(cell: Cell) -> dict[str, Any]:
    """NDCG@10 by test query of the cascade, its first layer and the forest, and what became of the layers."""
    collection, number, n_trees, is_validated = cell
    train, vali, test = parts_of(collection, number)
    start = time.perf_counter()
    cascade = rw.DeepForest(n_trees=n_trees, seed=number, n_threads=1)
    cascade.fit(train, **({"valid": vali} if is_validated else {}))
    seconds = time.perf_counter() - start
    layers = cascade.predict_layers(test)
    forest = rw.RandomForest(cascade.cascade_.n_trees, seed=number, n_threads=1).fit(train)
    ndcg = rw.parse_measure("ndcg@10")
    return {
        "collection": collection,
        "number": number,
        "layers": cascade.best_iteration_,
        "stopped_because": cascade.stopped_because_,
        "leads": [report["lead"] for report in cascade.layers_],
        "seconds": seconds,
        "values": {
            "cascade": ndcg.per_query(layers[:, -1], test),
            "first layer": ndcg.per_query(layers[:, 0], test),
            "forest": ndcg.per_query(forest.predict(test), test),
        },
    }


def cells(quick: bool, is_validated: bool) -> Iterator[Cell]:
    """The cells of all collections at hand, the longest first."""
    folder = Path(os.environ.get("RANKWOOD_DATA", "."))
    n_trees = 10 if quick else None
    numbers: dict[str, Any] = {"generated, 1,000 queries": GENERATED["generated, 1,000 queries"][1]}
    if (folder / CHESS).exists():
        numbers["chess B84"] = CHESS_SPLITS
    else:
        print(f"chess B84 is left out: RANKWOOD_DATA must name a folder that holds {CHESS}")
    if (folder / "MQ2008").is_dir():
        numbers["MQ2008"] = range(5)
    else:
        print("MQ2008 is left out: RANKWOOD_DATA must name a folder that holds it")
    numbers["generated, 100 queries"] = GENERATED["generated, 100 queries"][1]
    for collection, each in numbers.items():
        for number in each[:1] if quick else each:
            yield collection, number, n_trees, is_validated


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """By collection: means, differences with their standard errors and p-values, and the layers kept."""
    result: dict[str, Any] = {}
    for collection in dict.fromkeys(each["collection"] for each in found):
        own = sorted(
            (each for each in found if each["collection"] == collection),
            key=lambda one: one["number"],
        )
        values = {
            name: np.concatenate([each["values"][name] for each in own])
            for name in own[0]["values"]
        }
        row: dict[str, Any] = {name: float(each.mean()) for name, each in values.items()}
        for name in AGAINST:
            differences = values["cascade"] - values[name]
            row[f"against {name}"] = {
                "difference": float(differences.mean()),
                "error": float(differences.std(ddof=1) / np.sqrt(differences.size)),
                "p": p_value(values["cascade"], values[name]),
            }
        row["layers"] = [each["layers"] for each in own]
        row["stopped_because"] = [each["stopped_because"] for each in own]
        row["leads"] = [each["leads"] for each in own]
        row["seconds"] = [each["seconds"] for each in own]
        result[collection] = row
    return result


def show(collection: str, row: dict[str, Any]) -> bool:
    """Print a collection's line; returns whether the claim holds there."""
    holds = True
    print(f"{collection:<26} cascade {row['cascade']:.4f}   layers {row['layers']}")
    for name in AGAINST:
        test = row[f"against {name}"]
        is_below = test["difference"] < 0 and test["p"] < 0.05
        holds &= not is_below
        print(
            f"  {name:<12} {row[name]:.4f}   {test['difference']:+.4f} ± {test['error']:.4f}   p {test['p']:.3f}"
            f"{'   BELOW' if is_below else ''}"
        )
    return holds


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=NAME)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-valid", action="store_true")
    options = parser.parse_args([] if arguments is None else arguments)
    tasks = list(cells(options.quick, not options.no_valid))
    found = []
    start = time.perf_counter()
    with get_context("spawn").Pool(min(options.processes, len(tasks))) as pool:
        for each in pool.imap_unordered(run_cell, tasks):
            found.append(each)
            print(
                f"[{len(found)}/{len(tasks)}, {time.perf_counter() - start:.0f} s] {each['collection']} "
                f"{each['number']}: {each['stopped_because']} ({each['seconds']:.0f} s)",
                flush=True,
            )
    result = summary(found)
    verdicts = [show(collection, row) for collection, row in result.items()]
    print("never significantly below" if all(verdicts) else "significantly below somewhere")
    if not options.quick:
        keep(NAME + ("_no_valid" if options.no_valid else ""), {**result, "holds": all(verdicts)})


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
