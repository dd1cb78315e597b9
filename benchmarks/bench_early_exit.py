"""Early exits: what a tenth leaving every 100 of 1,000 trees saves, and what it does to NDCG@10 on MQ2008.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.bench_early_exit``. Time and cost are measured on generated data of
web-search shape with one thread, against scoring all documents with all trees; the counters of trees passed predict the
time. Goals: time within 0.1 of the share of trees passed; NDCG@10 of MQ2008, over five folds, within 0.002.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import Any

import rankwood as rw
from benchmarks.common import alternate, describe, keep, median
from rankwood.data.synthetic import make_feature_costs

EXITS = rw.EarlyExit(every=100, drop=0.10)
N_TREES = 1000
N_FEATURES = 136
MOST_SECONDS = 0.1
MOST_NDCG = 0.002
MODELS: dict[str, Any] = {
    "RandomForest": lambda: rw.RandomForest(N_TREES, 100, seed=1),
    "GBRT": lambda: rw.GBRT(N_TREES, 15, 0.02, features_per_node=None, seed=1),
}


def ndcg(scores: Any, data: Any) -> float:
    return rw.evaluate(scores, data, "ndcg@10", n_bootstrap=0)["ndcg@10"].value


def time_and_cost(n_queries: int, repeats: int) -> dict[str, Any]:
    """Seconds and costs with and without exits, and what the counters predict."""
    data = rw.make_ranking(n_queries, 120, N_FEATURES, seed=1)
    costs = make_feature_costs(N_FEATURES, seed=1)
    train, test = rw.split_queries(data, (0.2, 0.8), seed=1)
    result: dict[str, Any] = {"documents": test.n_documents}
    for name, make in MODELS.items():
        model = make().fit(train)
        found = EXITS.score(model, test, costs=costs)
        seconds = alternate(
            {
                f"{name}, all trees": lambda m=model: m.forest_.predict(test, n_threads=1),
                f"{name}, exits": lambda m=model: EXITS.score(m, test, n_threads=1),
            },
            repeats,
        )
        for label, taken in seconds.items():
            print(describe(label, taken))
        all_trees, exits = (median(taken) for taken in seconds.values())
        whole = rw.EarlyExit(drop=0.0).score(model, test.take_rows([0]), costs=costs).mean_cost
        share = found.mean_trees / N_TREES
        verdict = "reached" if exits / all_trees <= share + MOST_SECONDS else "MISSED"
        print(
            f"{name}: {exits / all_trees:.3f} of the time; trees passed {share:.3f} ({verdict}); cost "
            f"{found.mean_cost:,.0f} instead of {whole:,.0f}; NDCG@10 {ndcg(found.scores, test):.4f} instead of "
            f"{ndcg(model.predict(test), test):.4f}"
        )
        result[name] = {
            "seconds": {label: median(taken) for label, taken in seconds.items()},
            "trees_passed": share,
            "cost": found.mean_cost,
            "cost_all_trees": whole,
        }
        result[f"ratio_{name}"] = exits / all_trees
    return result


def quality(folder: Path) -> dict[str, Any]:
    """NDCG@10 of MQ2008's test parts, with and without exits."""
    result: dict[str, Any] = {}
    folds = list(rw.read_folds(folder))
    for name, make in MODELS.items():
        values = []
        for train, _, test in folds:
            model = make().fit(train)
            found = EXITS.score(model, test)
            values.append((ndcg(model.predict(test), test), ndcg(found.scores, test)))
        before, after = (statistics.mean(column) for column in zip(*values, strict=True))
        verdict = "reached" if abs(after - before) <= MOST_NDCG else "MISSED"
        print(f"MQ2008, {name}: NDCG@10 {before:.4f}, with exits {after:.4f} ({verdict})")
        result[name] = {"ndcg@10": before, "with_exits": after, "by_fold": values}
    return result


def main(n_queries: int = 1000, repeats: int = 5) -> None:
    result = time_and_cost(n_queries, repeats)
    folder = Path(os.environ.get("RANKWOOD_DATA", "")) / "MQ2008"
    if os.environ.get("RANKWOOD_DATA") and folder.is_dir():
        result["mq2008"] = quality(folder)
    else:
        print("MQ2008 left out: set RANKWOOD_DATA to a folder that holds it")
    keep("bench_early_exit", result)


if __name__ == "__main__":
    main()
