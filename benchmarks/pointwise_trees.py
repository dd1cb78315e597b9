"""What Mohan (2010) claims of point-wise trees, on the collections at hand: tables 2.2 to 4.2 and 6.1, in small.

Run as ``python -m benchmarks.pointwise_trees [--processes N] [--quick]``. A cell is one algorithm on one fold of one
collection: MQ2008 (five folds, if RANKWOOD_DATA has it), the bundled chess moves of B84 (five random splits by
position) and generated data with the shape of web search (three seeds). Each measure is taken at the number of trees
that validates best by it, as in the thesis. Printed and kept: means over all test queries, and for each claim the mean
difference by query with its standard error, what the second half of the trees changes (figure 2.2's over-fitting), and
the weights of least squares (table 3.2). Settings are the thesis's, but for the size of forests (300 trees for 10,000;
500 for 2,000 in table 6.1). ``--only REGEX`` runs the cells whose printed name matches, on the same folds for each
algorithm of a claim; ``--forest-trees N`` gives forests N trees. Of such a part nothing is kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import PUBLISHED_GBRT, keep
from rankwood.data.synthetic import make_feature_costs
from rankwood.errors import ModelError

MEASURES = ["ndcg@10[empty=0.5]", "err[max=4]", "rmse"]
NDCG, ERR, RMSE = MEASURES
TREE = {"max_leaves": 8, "max_depth": 3, "min_leaf": 1, "start": "zero"}
START = {"max_leaves": 8, "max_depth": 3, "min_leaf": 1}
FULL = {"max_leaves": None, "features_per_node": 0.1}
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)  # 0.2 is SGBRT, 1 is GBRT
FEATURES = (0.0143, 0.0571, 0.1143, 0.2)  # 10, 40, 80 and 140 of 700
RUNS = (1, 5, 20)  # of k = 40; the others have one
COST_MEASURES = ["p@5", "pauc@[0,5]", "auc"]
LEAVING = (0.0, 0.05, 0.10, 0.20)


def rankers(small: bool, n_forest: int | None = None) -> dict[str, Any]:
    """The algorithms of tables 2.2 to 4.2 by name; (C) are those of classification."""
    n_trees, n_boosted = (40, 20) if small else (1000, 500)
    n_forest = n_forest or (20 if small else 300)
    regression = {
        "GBRT": rw.GBRT(n_trees, **PUBLISHED_GBRT, **TREE),
        "SGBRT": rw.GBRT(n_trees, subsample=0.2, **PUBLISHED_GBRT, **TREE),
        "kSGBRT": rw.GBRT(n_trees, learning_rate=0.1, features_per_node=0.1, **TREE),
        "NkSGBRT": rw.AveragedGBRT(
            n_trees, n_runs=10, learning_rate=0.2, features_per_node=0.1, **TREE
        ),
        "RF": rw.RandomForest(n_forest, **FULL),
        "I-GBRT": rw.InitializedGBRT(
            n_boosted,
            learning_rate=0.1,
            residuals="in-bag",
            forest_trees=n_forest,
            forest_leaves=None,
            forest_features=0.1,
            **START,
        ),
    }
    found: dict[str, Any] = {f"{name} (R)": ranker for name, ranker in regression.items()}
    found |= {f"{name} (C)": rw.OrdinalRanker(ranker) for name, ranker in regression.items()}
    for scoring in ("squared", "exponential"):
        found[f"RF (C), {scoring}"] = rw.OrdinalRanker(regression["RF"], scoring)
    for fitted_on in ("train", "valid", "both"):
        found[f"RF (C), least squares on {fitted_on}"] = rw.OrdinalRanker(
            regression["RF"], "least_squares", fitted_on=fitted_on
        )
    found["SVMrank"] = rw.RankSVM(1e-4)
    for share in SHARES[:1] if small else SHARES:
        found[f"s = {share}"] = rw.GBRT(n_trees, subsample=share, **PUBLISHED_GBRT, **TREE)
    for share in FEATURES[1:2] if small else FEATURES:
        options = {"learning_rate": 0.1, "features_per_node": share, **TREE}
        for runs in RUNS if share == 0.0571 and not small else RUNS[:1]:
            found[f"k = {share:.4g}, b = {runs}"] = rw.AveragedGBRT(n_trees, n_runs=runs, **options)
    return found


CLAIMS = {  # the first minus the second
    "RF beats GBRT (R)": ("RF (R)", "GBRT (R)"),
    "RF beats GBRT (C)": ("RF (C)", "GBRT (C)"),
    "I-GBRT beats RF (R)": ("I-GBRT (R)", "RF (R)"),
    "I-GBRT beats RF (C)": ("I-GBRT (C)", "RF (C)"),
    "I-GBRT beats GBRT (R)": ("I-GBRT (R)", "GBRT (R)"),
    "classification beats regression: GBRT": ("GBRT (C)", "GBRT (R)"),
    "classification beats regression: SGBRT": ("SGBRT (C)", "SGBRT (R)"),
    "classification beats regression: kSGBRT": ("kSGBRT (C)", "kSGBRT (R)"),
    "classification beats regression: RF": ("RF (C)", "RF (R)"),
    "classification beats regression: I-GBRT": ("I-GBRT (C)", "I-GBRT (R)"),
    "few rows are as good as all: s = 0.2": ("SGBRT (R)", "GBRT (R)"),
    "few features are as good as all: 0.1": ("kSGBRT (R)", "GBRT (R)"),
    "averaging helps: b = 20 against b = 1, k = 40": ("k = 0.0571, b = 20", "k = 0.0571, b = 1"),
    "averaging helps: b = 5 against b = 1, k = 40": ("k = 0.0571, b = 5", "k = 0.0571, b = 1"),
    "c beats c²": ("RF (C)", "RF (C), squared"),
    "c beats 2^c": ("RF (C)", "RF (C), exponential"),
    "c is as good as least squares on training": ("RF (C)", "RF (C), least squares on train"),
    "c is as good as least squares on validation": ("RF (C)", "RF (C), least squares on valid"),
    "point-wise trees beat SVMrank": ("RF (R)", "SVMrank"),
}


@cache
def folds_of(collection: str, small: bool) -> list[Any]:
    """Training, validation and test part of each fold."""
    if collection == "MQ2008":
        folds = rw.read_folds(Path(os.environ["RANKWOOD_DATA"]) / "MQ2008")
        return [folds[number] for number in range(1 if small else 5)]
    if collection == "chess B84":
        data = rw.datasets.chess("B84")
        return [rw.split_queries(data, seed=seed) for seed in range(1 if small else 5)]
    size = (60, 20, 20) if small else (400, 40, 136)
    return [
        rw.split_queries(rw.make_ranking(*size, seed=seed), seed=seed)
        for seed in range(1 if small else 3)
    ]


def collections() -> list[str]:
    """Those that are there."""
    folder = os.environ.get("RANKWOOD_DATA")
    has_letor = folder is not None and (Path(folder) / "MQ2008").is_dir()
    return [*(["MQ2008"] if has_letor else []), "chess B84", "generated"]


Cell = tuple[str, int, str]  # collection, number of the fold, name of the algorithm


def run_cell(job: tuple[Cell, bool, int | None]) -> tuple[Cell, dict[str, Any]]:
    """One algorithm on one fold: by measure its size, its value on validation data, and its values by test query."""
    cell, small, n_forest = job
    collection, number, name = cell
    train, vali, test = folds_of(collection, small)[number]
    start = time.perf_counter()
    if name.startswith("table 6.1"):
        outcome = cost_rows(name, train, vali, test, small)
    else:
        model = rankers(small, n_forest)[name].set_params(n_threads=1)
        model.fit(train, valid=vali if "least squares" in name else None)
        outcome = measured(model, vali, test)
        if "least squares" in name:
            outcome["weights"] = model.weights_.tolist()
    outcome["seconds"] = time.perf_counter() - start
    return cell, outcome


def measured(model: Any, vali: Any, test: Any) -> dict[str, Any]:
    """Each measure at its best size."""
    found: dict[str, Any] = {}
    try:
        sizes = {one.measure: one for one in rw.best_sizes(model, vali, MEASURES, n_threads=1)}
    except ModelError:  # RankSVM has one size
        sizes = {}
    for measure in MEASURES:
        size = sizes.get(measure)
        shorter = model if size is None else model.truncated(size.n_rounds)
        result = rw.evaluate(shorter, test, measure, n_bootstrap=0, n_threads=1)[measure]
        found[measure] = {
            "rounds": None if size is None else size.n_rounds,
            "valid": None if size is None else size.valid,
            "test": result.value,
            "by query": result.per_query.tolist(),
        }
    if isinstance(model, rw.GBRT | rw.AveragedGBRT):
        found["second half"] = second_half(model, test)
    return found


def second_half(model: Any, test: Any) -> dict[str, list[float]]:
    """By test query and measure, the value with all trees minus that with half of them: below 0 it over-fits."""
    ranking = [NDCG, ERR]
    half = model.truncated(model.n_trees // 2)
    late, early = (
        rw.evaluate(one, test, ranking, n_bootstrap=0, n_threads=1) for one in (model, half)
    )
    return {m: (late[m].per_query - early[m].per_query).tolist() for m in ranking}


def cost_rows(name: str, train: Any, vali: Any, test: Any, small: bool) -> dict[str, Any]:
    """Table 6.1's rows of one ranker and one λ, on binary labels: for each share that leaves, values and costs."""
    _, kind, weight = name.split(", ")
    least = 3.0 if train.labels.max() > 3 else 1.0
    train, vali, test = (binary(part, least) for part in (train, vali, test))
    costs = make_feature_costs(train.n_features, seed=1)
    n_trees = 40 if small else 1000
    options = {"seed": 1, "n_threads": 1}
    if weight == "1":
        options |= {"feature_costs": costs, "cost_weight": 1.0, "cost_scale": "raw"}
    model = (
        rw.RandomForest(n_trees // 2, **FULL, **options)
        if kind == "RF"
        else rw.GBRT(
            n_trees, learning_rate=0.1, subsample=0.2, features_per_node=0.1, **TREE, **options
        )
    )
    model.fit(train)
    rows: dict[str, Any] = {}
    for drop in LEAVING:
        exits = None if drop == 0 else rw.EarlyExit(100, drop, "all")
        sizes = rw.best_sizes(
            model, vali, COST_MEASURES, test=test, costs=costs, exits=exits, every=5, n_threads=1
        )
        rows[f"{drop:.0%}"] = [size.to_dict() for size in sizes]
    return {"rows": rows}


def binary(data: Any, least: float) -> Any:
    """The data with labels 1 from ``least`` on, 0 below."""
    labels = np.asarray(data.labels >= least, np.float64)
    return rw.RankingData(data.features, labels, data.query_ids, feature_names=data.feature_names)


def summary(outcomes: dict[Cell, dict[str, Any]], collection: str) -> dict[str, Any]:
    """Means over all test queries by algorithm, the claims' differences, and table 6.1 as means over folds."""
    names = list(dict.fromkeys(name for where, _, name in outcomes if where == collection))
    folds = sorted({number for where, number, _ in outcomes if where == collection})
    values: dict[str, dict[str, Any]] = {}
    table: dict[str, Any] = {}
    costs: dict[str, Any] = {}
    for name in names:
        keys = [(collection, number, name) for number in folds]
        cells = [outcomes[key] for key in keys if key in outcomes]
        if name.startswith("table 6.1"):
            costs[name] = cost_means(cells)
            continue
        values[name] = {m: joined([cell[m]["by query"] for cell in cells]) for m in MEASURES}
        table[name] = algorithm_row(cells, values[name])
    claims = {}
    for claim, (one, other) in CLAIMS.items():
        if one in values and other in values:
            claims[claim] = {
                measure: difference(values[one][measure] - values[other][measure])
                for measure in (NDCG, ERR)
            }
    return {"algorithms": table, "claims": claims, "table 6.1": costs}


def algorithm_row(cells: list[dict[str, Any]], values: dict[str, Any]) -> dict[str, Any]:
    """What is kept of an algorithm on a collection; cells are its folds."""
    row = {
        **{m: float(np.nanmean(values[m])) for m in MEASURES if m != RMSE},
        RMSE: float(np.mean([cell[RMSE]["test"] for cell in cells])),
        "rounds": {m: [cell[m]["rounds"] for cell in cells] for m in MEASURES},
        "seconds": float(np.mean([cell["seconds"] for cell in cells])),
    }
    if "weights" in cells[0]:
        row["weights"] = [cell["weights"] for cell in cells]
    if "second half" in cells[0]:
        row["second half"] = {
            m: difference(joined([cell["second half"][m] for cell in cells])) for m in (NDCG, ERR)
        }
    return row


def joined(by_fold: list[list[float]]) -> Any:
    """The values of all folds' queries in one array."""
    return np.concatenate(by_fold)


def difference(by_query: Any) -> list[float]:
    """The mean and its standard error."""
    known = by_query[~np.isnan(by_query)]
    return [float(known.mean()), float(known.std(ddof=1) / np.sqrt(known.size))]


def cost_means(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Value and cost on test data by share that leaves and measure: means over folds, and the values by fold."""
    return {
        share: {
            measure: {
                key: float(np.mean([cell["rows"][share][place][key] for cell in cells]))
                for key in ("trees", "valid", "test", "test cost")
            }
            | {"by fold": [cell["rows"][share][place]["test"] for cell in cells]}
            for place, measure in enumerate(COST_MEASURES)
        }
        for share in cells[0]["rows"]
    }


def shown(cell: Cell) -> str:
    """The printed name of a cell."""
    return ", ".join(map(str, cell))


def show(collection: str, found: dict[str, Any]) -> None:
    """Print what is kept of a collection."""
    print(f"\n{collection}")
    for name, row in found["algorithms"].items():
        print(
            f"  {name:<32} {row[NDCG]:.4f} {row[ERR]:.4f} {row[RMSE]:.4f}  {row['seconds']:.1f} s"
        )
        for weights in row.get("weights", ()):
            print(f"    weights {' '.join(f'{weight:+.3f}' for weight in weights)}")
        for measure, (mean, error) in row.get("second half", {}).items():
            print(f"    {measure}: the second half of the trees {mean:+.4f} ± {error:.4f}")
    for claim, by_measure in found["claims"].items():
        texts = [f"{mean:+.4f} ± {error:.4f}" for mean, error in by_measure.values()]
        print(f"  {claim:<48} NDCG {texts[0]}   ERR {texts[1]}")
    for name, shares in found["table 6.1"].items():
        for share, row in shares.items():
            texts = [f"{one['test']:.5f} \\ {one['test cost']:,.1f}" for one in row.values()]
            print(f"  {name}, {share:>3} leave: {'   '.join(texts)}")


def main() -> None:
    """Run all cells, the longest first, and keep the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--quick", action="store_true", help="few trees and one fold; nothing is kept"
    )
    parser.add_argument(
        "--only", default="", help="a regular expression of the printed names; nothing is kept"
    )
    parser.add_argument("--forest-trees", type=int, help="trees of a forest; nothing is kept")
    options = parser.parse_args()
    is_whole = not (options.quick or options.only or options.forest_trees)
    names = [
        *rankers(options.quick),
        *(f"table 6.1, {k}, {w}" for k in ("RF", "SGBRT") for w in (0, 1)),
    ]
    heavy = {
        name: place for place, name in enumerate(["NkSGBRT (C)", "b = 20", "I-GBRT (C)", "RF (C"])
    }
    names.sort(key=lambda name: min((heavy[h] for h in heavy if h in name), default=len(heavy)))
    cells = [
        (collection, number, name)
        for name in names
        for collection in reversed(collections())
        for number in range(len(folds_of(collection, options.quick)))
        if re.search(options.only, shown((collection, number, name)))
    ]
    jobs = [(cell, options.quick, options.forest_trees) for cell in cells]
    outcomes = {}
    start = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for done, (key, outcome) in enumerate(pool.imap_unordered(run_cell, jobs), 1):
            outcomes[key] = outcome
            print(
                f"{done}/{len(cells)} {shown(key)}: {outcome['seconds']:.1f} s",
                flush=True,
            )
    places = {collection for collection, _, _ in cells}
    result = {one: summary(outcomes, one) for one in collections() if one in places}
    for collection, found in result.items():
        show(collection, found)
    print(f"{time.perf_counter() - start:.0f} s")
    if is_whole:
        print(keep("pointwise_trees", result))


if __name__ == "__main__":
    main()
