"""Blends on MQ2008 against their parts: five folds, three seeds, test NDCG@10 with standard errors.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.blend_mq2008 [--processes N] [--seeds N] [--quick]``; the folder has
``MQ2008/Fold1`` to ``Fold5``. A cell is a fold and a seed: its parts are fitted once, on one thread, and every blend is
made of them by ``Blend.of`` with weights that are learned on the validation part (or out of bag). Test parts are only
scored; the best part that a blend is compared with is the best on the test parts, in hindsight. Empty queries count 0.
Fewer ``--seeds`` than three keep nothing, and neither does ``--quick``, one seed of two folds with few trees.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import keep

NAME = "blend_mq2008"
MEASURE = "ndcg@10"
FOLDS = (1, 2, 3, 4, 5)
SEEDS = (0, 1, 2)
BOOSTED = {"max_leaves": 15, "learning_rate": 0.05, "early_stopping": 100}
SETS = {
    "forest + boosting": ("forest", "boosting"),
    "forest + classes": ("forest", "classes"),
    "forest + boosting + classes": ("forest", "boosting", "classes"),
    "all five": ("forest", "boosting", "classes", "lambdamart", "extra"),
}
RULES: dict[str, dict[str, Any]] = {
    "equal": {"weights": "equal"},
    "least squares": {},
    "search": {"rule": "search"},
    "per document": {"weights": "per-document"},
    "per document, strength 1": {"weights": "per-document", "strength": 1.0},
}
BAGGED = "forest + classes"  # parts that have out-of-bag scores


def make_parts(seed: int, quick: bool) -> dict[str, Any]:
    """The rankers, unfitted."""
    n_trees, n_boosted = (20, 40) if quick else (300, 1000)
    common: dict[str, Any] = {"seed": seed, "n_threads": 1}
    return {
        "forest": rw.RandomForest(n_trees, **common),
        "boosting": rw.GBRT(n_boosted, **BOOSTED, features_per_node=None, **common),
        "classes": rw.OrdinalRanker(rw.RandomForest(n_trees, **common), n_threads=1),
        "lambdamart": rw.LambdaMART(n_boosted, **BOOSTED, **common),
        "extra": rw.ExtraTrees(n_trees, **common),
    }


def run_cell(cell: tuple[int, int, bool]) -> dict[str, Any]:
    """The values of all parts and blends by test query, and the weights, of one fold and seed."""
    fold, seed, quick = cell
    folder = Path(os.environ["RANKWOOD_DATA"]) / "MQ2008" / f"Fold{fold}"
    train, vali, test = (
        rw.read_letor(folder / f"{part}.txt.gz") for part in ("train", "vali", "test")
    )
    start = time.perf_counter()
    parts = {
        name: ranker.fit(train, valid=vali) for name, ranker in make_parts(seed, quick).items()
    }
    models: dict[str, Any] = dict(parts)
    for text, names in SETS.items():
        chosen = {name: parts[name] for name in names}
        for rule, options in RULES.items():
            models[f"{text}: {rule}"] = rw.Blend.of(chosen, vali, **options, n_threads=1)
        if text == BAGGED:
            models[f"{text}: out of bag"] = rw.Blend.of(chosen, train, weights="oob", n_threads=1)
    values = {
        name: rw.evaluate(model, test, MEASURE, n_bootstrap=0, n_threads=1)[MEASURE].per_query
        for name, model in models.items()
    }
    blends = {name: model for name, model in models.items() if isinstance(model, rw.Blend)}
    print(f"  fold {fold}, seed {seed}: {time.perf_counter() - start:.0f} s", flush=True)
    return {
        "cell": (fold, seed),
        "values": values,
        "weights": {name: blend.weights_ for name, blend in blends.items()},
        "strengths": {name: blend.strength_ for name, blend in blends.items()},
    }


def summary(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds and queries, the difference to the forest and to the best part of the blend, and weights."""
    folds = sorted({outcome["cell"][0] for outcome in outcomes})
    names = list(outcomes[0]["values"])
    by_query = {}
    for name in names:
        of_folds = [
            np.mean([o["values"][name] for o in outcomes if o["cell"][0] == fold], axis=0)
            for fold in folds
        ]
        by_query[name] = np.concatenate(of_folds)
    table = {}
    for name in names:
        own = SETS.get(name.split(":")[0], ())
        rivals = {"forest": "forest"}
        if own:
            rivals["best part"] = max(own, key=lambda part: float(by_query[part].mean()))
        row: dict[str, Any] = {"mean": float(by_query[name].mean())}
        for rival, part in rivals.items():
            gains = by_query[name] - by_query[part]
            error = float(gains.std(ddof=1) / np.sqrt(gains.size))
            row[f"minus {rival}"] = [part, float(gains.mean()), error]
        if own:
            weights = [o["weights"][name] for o in outcomes]
            row["mean weights"] = {p: float(np.mean([w[p] for w in weights])) for p in own}
            row["strengths"] = [o["strengths"][name] for o in outcomes]
        table[name] = row
    return {"measure": MEASURE, "queries": int(by_query[names[0]].size), "table": table}


def show(result: dict[str, Any]) -> None:
    """Print a line per ranker."""
    print(f"\n{'':58} {MEASURE}   minus forest         minus its best part")
    for name, row in result["table"].items():
        line = f"{name:58} {row['mean']:.4f}"
        for rival in ("minus forest", "minus best part"):
            if rival in row:
                part, mean, error = row[rival]
                line += f"   {mean:+.4f} ± {error:.4f}" + (f" ({part})" if "best" in rival else "")
        print(line)


def main() -> None:
    """Measure all cells and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    cells = [(fold, seed, False) for seed in SEEDS[: options.seeds] for fold in FOLDS]
    if options.quick:
        cells = [(fold, 0, True) for fold in FOLDS[:2]]
    start = time.perf_counter()
    with ProcessPoolExecutor(min(options.processes, len(cells))) as pool:
        outcomes = list(pool.map(run_cell, cells))
    result = summary(outcomes)
    show(result)
    print(f"\n{len(cells)} cells in {time.perf_counter() - start:.0f} s")
    if not options.quick and options.seeds == len(SEEDS):
        print(keep(NAME, result))


if __name__ == "__main__":
    main()
