"""The front of BoostingTree's beam against plain boosting's first n trees, by the number of trees.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.boosting_tree_beam [--processes 16] [--quick]``; the folder holds
``MQ2008`` (five folds) and ``chess-B84.txt.gz`` (six random splits by position); what is not there is left out.
Generated data are of two kinds: web search with grades, and short lists with binary labels, of 100 and 1,000 queries,
two seeds each. Every part is split 60 : 20 : 20 by query where it has no folds. Both models have the same base, the
default one of the search, and see the same validation data. Figures are differences of test NDCG@10, ties averaged,
paired by query: a query of several test parts counts once, with the mean of its differences. ``alternatives`` counts
the splits whose front has another model than plain boosting's at that size; ``p_holm`` is corrected for the sizes of a
collection, ``all`` is the mean over the sizes, and ``chosen`` compares the models that both choose by validation data.
``--trees`` and ``--leaves`` try other settings, and ``--only`` takes some of the collections.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import rankwood as rw
from benchmarks.common import RESULTS, keep
from benchmarks.small_models import run_cells

NAME = "boosting_tree_beam"
MEASURE = "ndcg@10[ties=average]"
SIZES = (1, 2, 3, 5, 10, 20, 30, 50)
SHARES = (0.6, 0.2, 0.2)
N_FOLDS, N_SPLITS, N_SEEDS = 5, 6, 2
KINDS: dict[str, dict[str, Any]] = {
    "web": {"docs_per_query": 50, "n_features": 60},
    "binary": {"docs_per_query": 12, "n_features": 20, "label_shares": (0.8, 0.2)},
}
LEVEL = 0.05


class Cell(NamedTuple):
    """One split of one collection."""

    collection: str
    number: int  # of the fold, the split or the seed
    leaves: int
    n_trees: int

    def __str__(self) -> str:
        return f"{self.collection:<12} {self.number}"


def parts_of(cell: Cell) -> Any:
    """Training, validation and test part of a cell."""
    folder = Path(os.environ.get("RANKWOOD_DATA", "."))
    if cell.collection == "MQ2008":
        return rw.read_folds(folder / "MQ2008")[cell.number]
    if cell.collection == "chess B84":
        data = rw.read_letor(folder / "chess-B84.txt.gz")
        return rw.split_queries(data, SHARES, seed=cell.number)
    kind, n_queries = cell.collection.split()
    data = rw.make_ranking(int(n_queries), **KINDS[kind], seed=cell.number)
    return rw.split_queries(data, SHARES, seed=cell.number)


def values_of(forest: Any, test: rw.RankingData) -> np.ndarray:
    """The measure of each test query."""
    return rw.parse_measure(MEASURE).per_query(forest.predict(test, n_threads=1), test)


def fit(cell: Cell) -> dict[str, Any]:
    """By size, the differences of the test queries; and those of the models that both would choose."""
    train, vali, test = parts_of(cell)
    base = rw.LambdaMART(cell.n_trees, cell.leaves, l2=5.0, measure=MEASURE, n_threads=1)
    start = time.perf_counter()
    search = rw.BoostingTree(base, max_length=cell.n_trees, n_threads=1).fit(train, valid=vali)
    seconds = time.perf_counter() - start
    plain = base.fit(train, valid=vali)
    constraint = search.tree_.constraint
    points = search.front()
    found: dict[str, Any] = {
        "cell": tuple(cell),
        "seconds": seconds,
        "models": len(search.tree_),
        "queries": [str(query) for query in test.queries],
        "sizes": {},
    }
    for size in [size for size in SIZES if size <= cell.n_trees]:
        point = points[min(size, len(points) - 1)]
        ours = values_of(search.family_.model(point.model), test)
        theirs = values_of(plain.forest_.take_trees(slice(0, size)), test)
        found["sizes"][size] = {
            "plain": float(theirs.mean()),
            "difference": (ours - theirs).tolist(),
            "is_alternative": bool(constraint[point.model] >= 0),
        }
    n_best = int(np.argmax(plain.history_)) + 1
    ours = values_of(search.forest_, test)
    theirs = values_of(plain.forest_.take_trees(slice(0, n_best)), test)
    found["chosen"] = {
        "plain": float(theirs.mean()),
        "difference": (ours - theirs).tolist(),
        "trees": [search.forest_.n_trees, n_best],
    }
    return found


def summary(found: list[dict[str, Any]], pick: Any) -> dict[str, Any]:
    """Mean difference by distinct query, its standard error and test; and the same over the splits."""
    by_query: dict[str, list[float]] = {}
    for one in found:
        for query, difference in zip(one["queries"], pick(one)["difference"], strict=True):
            by_query.setdefault(f"{one['part']}{query}", []).append(difference)
    means = np.array([np.mean(each) for each in by_query.values()])
    of_splits = np.array([np.mean(pick(one)["difference"]) for one in found])
    moves = bool(np.any(means != 0))
    return {
        "plain": float(np.mean([pick(one)["plain"] for one in found])),
        "difference": float(means.mean()),
        "error": float(means.std(ddof=1) / np.sqrt(means.size)),
        "p": float(stats.ttest_1samp(means, 0.0).pvalue) if moves else 1.0,
        "of_splits": float(of_splits.mean()),
        "error_of_splits": float(of_splits.std(ddof=1) / np.sqrt(of_splits.size))
        if of_splits.size > 1
        else 0.0,
        "alternatives": sum(pick(one).get("is_alternative", False) for one in found),
        "splits": len(found),
    }


def mean_of_sizes(one: dict[str, Any]) -> dict[str, Any]:
    """The mean over the sizes, query by query."""
    sizes = list(one["sizes"].values())
    return {
        "plain": float(np.mean([size["plain"] for size in sizes])),
        "difference": np.mean([size["difference"] for size in sizes], axis=0).tolist(),
    }


def add_corrected(rows: dict[str, dict[str, Any]]) -> None:
    """Holm's correction for the sizes of a collection."""
    ascending = sorted(rows.values(), key=lambda row: row["p"])
    highest = 0.0
    for place, row in enumerate(ascending):
        highest = max(highest, min(1.0, row["p"] * (len(ascending) - place)))
        row["p_holm"] = highest


def table_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    """By collection and size, and of the chosen models."""
    table: dict[str, Any] = {}
    for collection in dict.fromkeys(one["cell"][0] for one in found):
        of_it = [one for one in found if one["cell"][0] == collection]
        for one in of_it:  # generated queries of two seeds share ids, chess splits share positions
            one["part"] = "" if collection == "chess B84" else f"{one['cell'][1]} "
        rows = {
            str(size): summary(of_it, lambda one, size=size: one["sizes"][size])
            for size in of_it[0]["sizes"]
        }
        add_corrected(rows)
        rows["all"] = summary(of_it, mean_of_sizes)
        rows["chosen"] = summary(of_it, lambda one: one["chosen"])
        table[collection] = {
            "sizes": rows,
            "seconds": [round(one["seconds"], 1) for one in of_it],
            "trees_chosen": [one["chosen"]["trees"] for one in of_it],
        }
    return table


def show(table: dict[str, Any]) -> None:
    """A line per collection and size; those that are significant are marked."""
    for collection, of_it in table.items():
        seconds = of_it["seconds"]
        print(f"{collection}: {len(seconds)} splits, {np.mean(seconds):.0f} s each")
        for size, row in of_it["sizes"].items():
            is_clear = row.get("p_holm", row["p"]) < LEVEL
            mark = "" if not is_clear else " ahead" if row["difference"] > 0 else " BELOW"
            print(
                f"  {size:>6} trees: plain {row['plain']:.4f}, {row['difference']:+.4f} ± {row['error']:.4f} "
                f"(splits {row['of_splits']:+.4f} ± {row['error_of_splits']:.4f}), p {row['p']:.3f}, "
                f"alternatives in {row['alternatives']} of {row['splits']}{mark}"
            )


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """What there is to fit, the largest first."""
    folder = Path(os.environ.get("RANKWOOD_DATA", "."))
    n_trees = 5 if options.quick else options.trees
    numbers: dict[str, int] = {}
    for kind in KINDS:
        for n_queries in (100,) if options.quick else (1000, 100):
            numbers[f"{kind} {n_queries}"] = N_SEEDS
    if (folder / "chess-B84.txt.gz").exists():
        numbers["chess B84"] = N_SPLITS
    if (folder / "MQ2008").is_dir():
        numbers["MQ2008"] = N_FOLDS
    wanted = options.only.split(",") if options.only else list(numbers)
    return [
        Cell(name, number, options.leaves, n_trees)
        for name, count in numbers.items()
        if name in wanted
        for number in range(2 if options.quick else count)
    ]


def kept_before(settings: dict[str, Any]) -> dict[str, Any]:
    """The collections that were kept with the same settings: ``--only`` replaces some of them."""
    path = RESULTS / f"{NAME}.json"
    before = json.loads(path.read_text())["result"] if path.exists() else {}
    same = all(before.get(name) == value for name, value in settings.items())
    return dict(before["collections"]) if same else {}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--trees", type=int, default=50, help="the longest models")
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--only", default="", help="collections, with commas between them")
    parser.add_argument("--quick", action="store_true", help="small models; nothing is kept")
    options = parser.parse_args()
    cells = cells_of(options)
    fit(Cell("binary 100", 0, options.leaves, 1))  # compiled once, before there are processes
    table = table_of(run_cells(cells, fit, options.processes))
    show(table)
    if not options.quick:
        settings = {"measure": MEASURE, "leaves": options.leaves, "trees": options.trees}
        keep(NAME, {**settings, "collections": {**kept_before(settings), **table}})


if __name__ == "__main__":
    main()
