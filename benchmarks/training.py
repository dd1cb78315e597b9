"""Training at web-search shape, ours and LightGBM's in turn; binning and compiling apart on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common import alternate, describe, median
from rankwood import RankingData, evaluate, make_ranking
from rankwood.binning.binned import bin_data

N_THREADS = 2
N_QUERIES = 6000
N_TEST_QUERIES = 1000


@dataclass(frozen=True)
class Comparison:
    """What alternating runs gave, and the data they were run on."""

    train: RankingData
    test: RankingData
    seconds: dict[str, float]  # medians
    leaves: dict[str, float]  # per tree
    quality: dict[str, float]  # NDCG@10 on the test queries

    @property
    def ratio(self) -> float:
        """Our time over LightGBM's."""
        return self.seconds["rankwood"] / self.seconds["lightgbm"]

    def record(self, n_trees: int) -> dict[str, Any]:
        """What is kept of it."""
        return {
            "rows": self.train.n_documents,
            "features": self.train.n_features,
            "trees": n_trees,
            "threads": N_THREADS,
            "seconds": self.seconds,
            "leaves_per_tree": self.leaves,
            "test_ndcg@10": self.quality,
            "ratio_lightgbm": self.ratio,
        }


def ndcg(scores: Any, data: RankingData) -> float:
    """NDCG@10, without an interval."""
    return evaluate(scores, data, "ndcg@10", n_bootstrap=0)["ndcg@10"].value


def against_lightgbm(ours: Any, settings: dict[str, Any]) -> Comparison:
    """Fit ``ours`` and LightGBM with ``settings`` in turn, as many trees each, and print what came out."""
    import lightgbm

    everything = make_ranking(N_QUERIES + N_TEST_QUERIES, 120, 136, seed=1)
    train = everything.take_queries(range(N_QUERIES))
    test = everything.take_queries(range(N_QUERIES, N_QUERIES + N_TEST_QUERIES))
    binned = bin_data(train, n_threads=N_THREADS)
    sizes = np.diff(train.query_offsets)
    theirs = lightgbm.Dataset(train.features, train.labels, group=sizes, params=settings)
    theirs.construct()
    models: dict[str, Any] = {}
    type(ours)(1, n_threads=N_THREADS).fit(binned)  # compiles

    def run_ours() -> None:
        models["rankwood"] = ours.fit(binned)

    def run_theirs() -> None:
        models["lightgbm"] = lightgbm.train(settings, theirs, ours.n_trees)

    print(f"{train}, {ours.n_trees} trees, {N_THREADS} threads")
    seconds = alternate({"rankwood": run_ours, "lightgbm": run_theirs})
    for name, taken in seconds.items():
        print(describe(name, taken))
    n_leaves = models["lightgbm"].trees_to_dataframe()["left_child"].isna().sum()
    leaves = {
        "rankwood": ours.forest_.n_leaves / ours.n_trees,
        "lightgbm": float(n_leaves) / ours.n_trees,
    }
    quality = {name: ndcg(model.predict(test.features), test) for name, model in models.items()}
    print(f"leaves per tree: {leaves}")
    print(f"test NDCG@10: {quality}")
    medians = {name: median(taken) for name, taken in seconds.items()}
    return Comparison(train, test, medians, leaves, quality)
