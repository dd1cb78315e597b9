"""Every ranker with default settings, beside LightGBM, XGBoost and scikit-learn, on many collections.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.quality_defaults --processes 16``; the folder holds ``MQ2008`` and
``chess-B84.txt.gz``, and collections that are not there are left out, as are peers that are not installed. Each ranker
is fitted as ``X().fit(train, valid=vali)``; the boosting peers stop early on the validation data, the forest peers have
their own defaults. Differences of NDCG@10 are tested over all test queries of a collection, by Wilcoxon's signed-rank
test and by the paired t-test. A ranker is below another where both tests say so (p < 0.05).

Goals: no ranker of ours is below its counterpart, or below our random forest; on each collection the best one of
ours is not below any peer.

A cell is one ranker on one split. Finished cells are appended to ``--cells`` (a file), and those it holds already are
not fitted again, so that a run can be stopped, resumed and spread over machines. ``--kept`` fits nothing and prints the
tables of the cells there are; two rankers are compared over the splits that both have. ``--part valid`` prints the
figures on the validation parts: defaults are chosen by these. ``--quick`` takes one split and fewer queries of each
collection and keeps nothing.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.broof_defaults import CHESS, Generated, dealt
from benchmarks.broof_mq2008 import ALPHA, compare
from benchmarks.common import keep

MEASURE = "ndcg@10"
CHESS_PARTS = (1000, 300, 700)  # positions that train, validate and test
N_ROUNDS, PATIENCE = 500, 50  # of the boosting peers
FOREST = "RandomForest"
BINARY = ("label_shares", (0.75, 0.25))

GENERATED = {
    "100 many features": Generated((100, 50, 500), (("docs_per_query", 40), ("n_features", 136))),
    "100 binary, short": Generated(
        (100, 50, 800), (("docs_per_query", 10), ("n_features", 20), BINARY)
    ),
    "100 noisy": Generated(
        (100, 50, 500), (("docs_per_query", 40), ("n_features", 46), ("noise", 2.5))
    ),
    "1000 few features": Generated((1000, 200, 800), (("docs_per_query", 20), ("n_features", 10))),
    "1000 binary, short": Generated(
        (1000, 200, 1000), (("docs_per_query", 8), ("n_features", 30), BINARY)
    ),
    "1000 query features": Generated(
        (1000, 200, 800), (("docs_per_query", 25), ("n_features", 60), ("n_informative", 12))
    ),
    "3000": Generated((3000, 300, 1000), (("docs_per_query", 20), ("n_features", 30))),
    "300 long": Generated((300, 80, 300), (("docs_per_query", 120), ("n_features", 60))),
}
N_SPLITS = {"MQ2008": 5, "chess": 10, **dict.fromkeys(GENERATED, 3)}

OURS: dict[str, Callable[[], Any]] = {
    "RandomForest": rw.RandomForest,
    "ExtraTrees": rw.ExtraTrees,
    "CompletelyRandomForest": rw.CompletelyRandomForest,
    "GBRT": rw.GBRT,
    "AveragedGBRT": rw.AveragedGBRT,
    "InitializedGBRT": rw.InitializedGBRT,
    "OrdinalRanker": rw.OrdinalRanker,
    "LambdaMART": rw.LambdaMART,
    "NDCGBoost": rw.NDCGBoost,
    "RankBoost": rw.RankBoost,
    "AdaRank": rw.AdaRank,
    "RankSVM": rw.RankSVM,
    "BROOF absolute": functools.partial(rw.BROOF, "absolute"),
    "BROOF median": functools.partial(rw.BROOF, "median"),
    "BROOF height": functools.partial(rw.BROOF, "height"),
    "BROOF gradient": functools.partial(rw.BROOF, "gradient"),
    "BROOF lambda": functools.partial(rw.BROOF, "lambda"),
    "DeepForest": rw.DeepForest,
    "BoostingTree": rw.BoostingTree,
}
# Weak rankers on one feature each, and trees that do not look at labels, promise no more than that.
NOT_BELOW_FOREST = [
    name
    for name in OURS
    if name not in (FOREST, "CompletelyRandomForest", "AdaRank", "RankSVM", "RankBoost")
]
COUNTERPARTS = {
    "RandomForest": "scikit-learn forest",
    "ExtraTrees": "scikit-learn extra trees",
    "GBRT": "LightGBM regression",
    "AveragedGBRT": "LightGBM regression",
    "InitializedGBRT": "LightGBM regression",
    "LambdaMART": "LightGBM lambdarank",
    "NDCGBoost": "LightGBM lambdarank",
    "BoostingTree": "LightGBM lambdarank",
    "BROOF lambda": "XGBoost rank:ndcg",
}
COSTLY = ("DeepForest", "BROOF absolute", "BROOF median", "BROOF height", "OrdinalRanker")


@dataclass(frozen=True, order=True)
class Cell:
    """One ranker on one split of a collection."""

    collection: str
    split: int
    ranker: str
    is_quick: bool = False


@functools.lru_cache(maxsize=2)
def parts_of(collection: str, split: int, is_quick: bool) -> tuple[rw.RankingData, ...]:
    """The parts that train, validate and test."""
    folder = Path(os.environ.get("RANKWOOD_DATA", ""))
    if collection == "MQ2008":
        fold = rw.read_folds(folder / "MQ2008")[split]
        return fold.train, fold.valid, fold.test
    if collection == "chess":
        data, sizes = rw.read_letor(folder / CHESS), CHESS_PARTS
        order = np.random.default_rng(split).permutation(data.n_queries)
    else:
        data, sizes = GENERATED[collection].data(split + 11), GENERATED[collection].parts
        order = np.arange(data.n_queries)
    if is_quick:
        sizes = tuple(min(size, 100) for size in sizes)  # type: ignore[assignment]
    return dealt(data, order, sizes)


# Peers.


def lightgbm_ranks(objective: str, train: Any, vali: Any) -> Callable[[Any], Any]:
    """LightGBM with early stopping on the validation NDCG@10."""
    import lightgbm

    settings = {"objective": objective, "metric": "ndcg", "eval_at": [10], "num_threads": 1}
    settings |= {"verbosity": -1, "deterministic": True}
    rows, held_out = (
        lightgbm.Dataset(part.features, part.labels, group=np.diff(part.query_offsets))
        for part in (train, vali)
    )
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    model = lightgbm.train(settings, rows, N_ROUNDS, valid_sets=[held_out], callbacks=[stop])
    return lambda part: model.predict(part.features, num_threads=1)


def xgboost_ranks(train: Any, vali: Any) -> Callable[[Any], Any]:
    """XGBoost's rank:ndcg with early stopping on the validation NDCG@10."""
    import xgboost

    model = xgboost.XGBRanker(
        objective="rank:ndcg",
        n_estimators=N_ROUNDS,
        early_stopping_rounds=PATIENCE,
        eval_metric="ndcg@10",
        n_jobs=1,
        ndcg_exp_gain=float(train.labels.max()) <= 31,
    )
    queries = vali.query_of_row
    model.fit(
        train.features,
        train.labels,
        qid=train.query_of_row,
        eval_set=[(vali.features, vali.labels)],
        eval_qid=[queries],
        verbose=False,
    )
    return lambda part: model.predict(part.features)


def scikit_learn_ranks(kind: str, train: Any, vali: Any) -> Callable[[Any], Any]:  # noqa: ARG001
    """A forest of scikit-learn's with its own defaults."""
    from sklearn import ensemble

    model = getattr(ensemble, kind)(n_jobs=1, random_state=0).fit(train.features, train.labels)
    return lambda part: model.predict(part.features)


PEERS: dict[str, tuple[str, Callable[[Any, Any], Callable[[Any], Any]]]] = {
    "LightGBM lambdarank": ("lightgbm", functools.partial(lightgbm_ranks, "lambdarank")),
    "LightGBM regression": ("lightgbm", functools.partial(lightgbm_ranks, "regression")),
    "XGBoost rank:ndcg": ("xgboost", xgboost_ranks),
    "scikit-learn forest": (
        "sklearn",
        functools.partial(scikit_learn_ranks, "RandomForestRegressor"),
    ),
    "scikit-learn extra trees": (
        "sklearn",
        functools.partial(scikit_learn_ranks, "ExtraTreesRegressor"),
    ),
}


# Cells.


def fit(cell: Cell) -> dict[str, Any]:
    """The values of the validation and of the test queries, what was kept, and the seconds."""
    warnings.simplefilter("ignore")
    train, vali, test = parts_of(cell.collection, cell.split, cell.is_quick)
    start = time.perf_counter()
    kept: dict[str, Any] = {}
    if cell.ranker in OURS:
        model = OURS[cell.ranker]()
        if "n_threads" in model.get_params():
            model.set_params(n_threads=1)
        predict = model.fit(train, valid=vali).predict
        for name in ("best_iteration_", "max_leaves_", "stopped_because_"):
            if hasattr(model, name):
                kept[name] = getattr(model, name)
    else:
        predict = PEERS[cell.ranker][1](train, vali)
    seconds = time.perf_counter() - start
    measure = rw.parse_measure(MEASURE)
    values = {
        name: [round(value, 6) for value in measure.per_query(np.asarray(predict(part)), part)]
        for name, part in (("valid", vali), ("test", test))
    }
    return {**asdict(cell), **values, "kept": kept, "seconds": round(seconds, 2)}


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """All cells that are asked for and can be fitted here, split by split, the costly ones first."""
    folder = Path(os.environ.get("RANKWOOD_DATA", ""))
    there = {"MQ2008": (folder / "MQ2008").is_dir(), "chess": (folder / CHESS).is_file()}
    for name in [name for name in options.collections if not there.get(name, True)]:
        print(f"left out, since RANKWOOD_DATA does not hold it: {name}")
    rankers = []
    for name in options.rankers:
        if name in PEERS and importlib.util.find_spec(PEERS[name][0]) is None:
            print(f"left out, since {PEERS[name][0]} is not installed: {name}")
        else:
            rankers.append(name)
    cells = [
        Cell(collection, split, ranker, options.quick)
        for collection in options.collections
        if there.get(collection, True)
        for split in range(1 if options.quick else min(options.splits, N_SPLITS[collection]))
        for ranker in rankers
    ]
    return sorted(cells, key=lambda cell: (cell.split, cell.ranker not in COSTLY))


def finished(path: Path | None) -> dict[Cell, dict[str, Any]]:
    """The cells that a file holds."""
    found = {}
    if path is not None and path.exists():
        for line in path.read_text().splitlines():
            one = json.loads(line)
            names = ("collection", "split", "ranker", "is_quick")
            found[Cell(*(one[name] for name in names))] = one
    return found


def run(cells: list[Cell], options: argparse.Namespace) -> dict[Cell, dict[str, Any]]:
    """Fit the cells that the file lacks, and append them to it."""
    known = finished(options.cells)
    lacking = [cell for cell in cells if cell not in known]
    start = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for number, one in enumerate(pool.imap_unordered(fit, lacking, chunksize=1), start=1):
            cell = Cell(one["collection"], one["split"], one["ranker"], one["is_quick"])
            known[cell] = one
            if options.cells is not None:
                with options.cells.open("a") as file:
                    file.write(json.dumps(one) + "\n")
            seconds = time.perf_counter() - start
            print(
                f"[{number}/{len(lacking)}, {seconds:.0f} s] {cell.collection}, split {cell.split}, "
                f"{cell.ranker}: {np.mean(one['test']):.4f} ({one['seconds']:.0f} s)",
                flush=True,
            )
    return {cell: known[cell] for cell in cells}


# Tables.

BySplit = dict[int, Any]  # the values of the queries of each split


def paired(ours: BySplit, other: BySplit) -> dict[str, float]:
    """The comparison over the splits that both have."""
    both = sorted(ours.keys() & other.keys())
    joined = (np.concatenate([of_ranker[split] for split in both]) for of_ranker in (ours, other))
    return compare(*joined)


def is_below(ours: BySplit, other: BySplit) -> bool:
    """Whether both tests say that ours is below the other."""
    if not ours.keys() & other.keys():
        return False
    found = paired(ours, other)
    is_significant = max(found["p_wilcoxon"], found["p_t"]) < ALPHA
    return is_significant and found["difference"] < 0.0


def table_of(collection: str, values: dict[str, BySplit]) -> dict[str, Any]:
    """The means of a collection, and what misses the goals."""
    means = {name: float(np.concatenate([*of.values()]).mean()) for name, of in values.items()}
    misses = [
        f"{name} is below {other} ({paired(values[name], values[other])['difference']:+.4f})"
        for name in values
        for other in dict.fromkeys(
            [COUNTERPARTS.get(name), FOREST if name in NOT_BELOW_FOREST else None]
        )
        if other in values and is_below(values[name], values[other])
    ]
    most = max(map(len, values.values()))
    ours = {name: means[name] for name in values if name in OURS and len(values[name]) == most}
    if ours:
        best = max(ours, key=ours.__getitem__)
        misses += [
            f"our best, {best}, is below {peer} ({means[best]:.4f}, {means[peer]:.4f})"
            for peer in values
            if peer in PEERS and is_below(values[best], values[peer])
        ]
    n_queries = sum(map(len, max(values.values(), key=len).values()))
    print(f"\n{collection}, {most} splits, {n_queries:,} queries")
    differences = {}
    for name, mean in sorted(means.items(), key=lambda item: -item[1]):
        against = ""
        if FOREST in values and name != FOREST and values[name].keys() & values[FOREST].keys():
            found = paired(values[name], values[FOREST])
            p_value = max(found["p_wilcoxon"], found["p_t"])
            differences[name] = {"difference": found["difference"], "p": p_value}
            against = f"{found['difference']:+.4f} against {FOREST}, p {p_value:.3f}"
        fewer = "" if len(values[name]) == most else f" ({len(values[name])} splits)"
        print(f"  {name:<26} {mean:.4f}   {against}{fewer}")
    for miss in misses:
        print(f"  MISSED: {miss}")
    return {
        "queries": n_queries,
        "splits": {name: len(of) for name, of in values.items()},
        "means": means,
        "against_forest": differences,
        "missed": misses,
    }


def tables_of(found: dict[Cell, dict[str, Any]], part: str) -> dict[str, Any]:
    """The table of each collection."""
    values: dict[str, dict[str, BySplit]] = {}
    for cell in sorted(found):
        of_collection = values.setdefault(cell.collection, {})
        of_collection.setdefault(cell.ranker, {})[cell.split] = found[cell][part]
    return {name: table_of(name, values[name]) for name in N_SPLITS if name in values}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rankers", nargs="+", default=[*OURS, *PEERS], choices=[*OURS, *PEERS])
    parser.add_argument("--collections", nargs="+", default=[*N_SPLITS], choices=[*N_SPLITS])
    parser.add_argument("--splits", type=int, default=10, help="at most so many of each")
    parser.add_argument("--cells", type=Path, help="a file that keeps finished cells")
    parser.add_argument("--kept", action="store_true", help="fit nothing: tables of finished cells")
    parser.add_argument("--part", choices=("valid", "test"), default="test")
    parser.add_argument("--name", help="keep the tables under this name in benchmarks/results")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    cells = cells_of(options)
    if options.kept:
        held = finished(options.cells)
        found = {cell: held[cell] for cell in cells if cell in held}
    else:
        found = run(cells, options)
    tables = tables_of(found, options.part)
    n_missed = sum(len(table["missed"]) for table in tables.values())
    print(f"\ngoals missed: {n_missed or 'none'}")
    if options.name and not options.quick:
        keep(options.name, {"measure": MEASURE, "part": options.part, "tables": tables})


if __name__ == "__main__":
    main()
