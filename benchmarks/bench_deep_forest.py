"""Deep Forest at web-search shape: against its own forests grown apart, and halves of a layer against scikit-learn.

Run as ``python -m benchmarks.bench_deep_forest [queries [trees]]``; without numbers 180,000 × 136 rows, 4 layers of 8
forests of 80 trees, two threads, and the result is kept. *Apart* are the same forests with the same seeds, layer by
layer on data that were binned and laid out beforehand, with out-of-bag estimates, one after the other. The cascade's
time has everything in it: binning, measuring, scores as new columns. scikit-learn's time is per tree, of a few trees of
random forests with 100 leaves and 0.3 of the features; completely random ones as bootstrapped ExtraTrees of one feature
per node with ``min_samples_split=11``, which is our rule, once more with ``oob_score=True``, since ours make these
estimates. Goals: at most 1.3 times, a fortieth, a third.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.common import alternate, describe, keep, median
from benchmarks.training import N_THREADS, ndcg
from rankwood import CompletelyRandomForest, DeepForest, RandomForest, RankingData, make_ranking
from rankwood.binning.binned import BinnedData, bin_data
from rankwood.engines.bags import stream_number

N_QUERIES, N_TEST_QUERIES = 1500, 300
N_LAYERS, N_FORESTS, N_TREES = 4, 8, 80
N_LEAVES, FEATURES, MIN_SPLIT = 100, 0.3, 11
SKLEARN_TREES = 4  # a tree of scikit-learn's random forest takes many seconds
REPEATS = 3  # of the cascade, a minute each
REPEATS_OF_HALVES = 5
GOAL_APART, GOAL_RANDOM, GOAL_BLIND = 1.3, 1 / 40, 1 / 3


def layer_of(n_trees: int) -> list[Any]:
    """The default layer."""
    half = N_FORESTS // 2
    random = RandomForest(n_trees, max_leaves=N_LEAVES, features_per_node=FEATURES)
    blind = CompletelyRandomForest(n_trees, bag="row", min_split=MIN_SPLIT)
    return [random] * half + [blind] * half


def laid_out(data: RankingData) -> BinnedData:
    """Binned, and with rows in the order that growing likes: a first tree sees to that."""
    binned = bin_data(data, n_threads=N_THREADS)
    RandomForest(1, max_leaves=2, n_threads=N_THREADS).fit(binned)
    return binned


def grow_apart(data: RankingData, layer: list[Any]) -> tuple[float, np.ndarray[Any, Any]]:
    """Seconds in the forests' own fits, and the last layer's out-of-bag scores."""
    seconds, values = 0.0, data.features
    for number in range(N_LAYERS):
        binned = laid_out(RankingData(values, data.labels, data.query_ids))
        scores = []
        for place, forest in enumerate(layer):
            seed = stream_number(0, f"layer {number}", place)
            copied = type(forest)(**forest.get_params()).set_params(seed=seed, n_threads=N_THREADS)
            start = time.perf_counter()
            scores.append(copied.fit(binned).oob_scores_)
            seconds += time.perf_counter() - start
        values = np.column_stack([data.features, *scores]).astype(np.float32)
    return seconds, np.nanmean(scores, axis=0)


def against_apart(train: RankingData, test: RankingData, n_trees: int) -> dict[str, Any]:
    """The cascade and its own forests in turn; they are the same forests."""
    layer = layer_of(n_trees)
    model = DeepForest(layer, max_layers=N_LAYERS, patience=None, n_threads=N_THREADS)
    seconds: dict[str, list[float]] = {"cascade": [], "apart": []}
    for _ in range(REPEATS):
        seconds["cascade"] += alternate({"cascade": lambda: model.fit(train)}, 1)["cascade"]
        apart, scores = grow_apart(train, layer)
        seconds["apart"].append(apart)
    for name, taken in seconds.items():
        print(describe(name, taken))
    ratio = statistics.median(
        one / other for one, other in zip(seconds["cascade"], seconds["apart"], strict=True)
    )
    print(f"cascade / apart: {ratio:.2f} (goal: at most {GOAL_APART})")
    print(f"the same forests: {bool(np.allclose(scores, model.oob_scores_, equal_nan=True))}")
    of_layers = [ndcg(scores, test) for scores in model.predict_layers(test.features).T]
    size = sum(report["bytes"] for report in model.layers_)
    print(f"test NDCG@10 by layer: {of_layers}; {size / 2**20:,.0f} MiB")
    return {
        "seconds": {name: median(taken) for name, taken in seconds.items()},
        "seconds_by_layer": [report["seconds"] for report in model.layers_],
        "test_ndcg@10_by_layer": of_layers,
        "model_bytes": size,
        "ratio_apart": ratio,
    }


def fit_anew(fitted: list[Any], binned: BinnedData) -> None:
    """Fit a new forest when the one before is gone: scikit-learn's fit drops its old trees first, ours when it ends."""
    fitted[0] = clone(fitted[0])
    fitted[0].fit(binned)


def against_sklearn(train: RankingData, test: RankingData, n_trees: int) -> dict[str, Any]:
    """Seconds per tree of each half, ours with out-of-bag estimates, and the quality of either's trees."""
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

    binned = laid_out(train)
    common = {"n_jobs": N_THREADS, "random_state": 0}
    random, *_, blind = layer_of(n_trees)
    pairs = {
        "random": (
            random,
            RandomForestRegressor(
                SKLEARN_TREES, max_leaf_nodes=N_LEAVES, max_features=FEATURES, **common
            ),
            GOAL_RANDOM,
        ),
        "blind": (
            blind,
            ExtraTreesRegressor(
                n_trees, max_features=1, min_samples_split=MIN_SPLIT, bootstrap=True, **common
            ),
            GOAL_BLIND,
        ),
    }
    found: dict[str, Any] = {}
    for name, (ours, theirs, goal) in pairs.items():
        ours.set_params(n_threads=N_THREADS)
        fitted = [ours]
        runs = {
            "rankwood": lambda fitted=fitted: fit_anew(fitted, binned),
            "sklearn": lambda theirs=theirs: theirs.fit(train.features, train.labels),
        }
        if theirs.n_estimators == n_trees:  # of a few trees too many rows are left without
            both = clone(theirs).set_params(oob_score=True)
            runs["sklearn, out of bag"] = lambda both=both: both.fit(train.features, train.labels)
        taken = alternate(runs, REPEATS_OF_HALVES)
        per_tree = (
            median(taken["rankwood"]) / n_trees,
            median(taken["sklearn"]) / theirs.n_estimators,
        )
        print(name, *(describe(each, seconds) for each, seconds in taken.items()), sep="\n")
        ratio = per_tree[0] / per_tree[1]
        leaves = fitted[0].forest_.n_leaves / n_trees, np.mean([t.get_n_leaves() for t in theirs])
        print(
            f"{name}: {per_tree[0]:.4f} s and {per_tree[1]:.4f} s per tree, 1/{1 / ratio:.1f} (goal: at most "
            f"1/{1 / goal:.0f}); leaves per tree {leaves[0]:,.0f} and {leaves[1]:,.0f}"
        )
        for run in list(runs)[2:]:  # what our forests do: a layer needs these estimates
            found[f"ratio_{name}_out_of_bag"] = median(taken["rankwood"]) / median(taken[run])
            print(f"{name} / {run}: 1/{1 / found[f'ratio_{name}_out_of_bag']:.1f}")
        found |= {
            f"seconds_per_tree_{name}": per_tree,
            f"leaves_per_tree_{name}": [float(each) for each in leaves],
            f"test_ndcg@10_{name}": [
                ndcg(fitted[0].predict(test), test),
                ndcg(theirs.predict(test.features), test),
            ],
            f"ratio_sklearn_{name}": ratio,
        }
    return found


def main(arguments: list[str] | None = None) -> None:
    sizes = [int(number) for number in arguments or []]
    n_queries, n_trees = (*sizes, *(N_QUERIES, N_TREES)[len(sizes) :])
    everything = make_ranking(n_queries + N_TEST_QUERIES, 120, 136, seed=1)
    train = everything.take_queries(range(n_queries))
    test = everything.take_queries(range(n_queries, n_queries + N_TEST_QUERIES))
    print(f"{train.n_documents:,} × {train.n_features} rows, {n_trees} trees per forest")
    # Compiling is apart: the first fit of each kind is of a few rows.
    few = train.take_queries(range(min(20, n_queries)))
    DeepForest(layer_of(1), max_layers=2, patience=None, n_threads=N_THREADS).fit(few).predict(few)
    result = {
        "rows": train.n_documents,
        "features": train.n_features,
        "trees": n_trees,
        "threads": N_THREADS,
        **against_apart(train, test, n_trees),
        **against_sklearn(train, test, n_trees),
    }
    if not sizes:
        keep("bench_deep_forest", result)


if __name__ == "__main__":
    main(sys.argv[1:])
