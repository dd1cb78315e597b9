"""Scoring with 300 trees of 64 leaves: our forest against LightGBM on the same trees.

Run as ``python -m benchmarks.bench_scoring``. LightGBM trains the trees; they are converted from its own dump, and
the scores must agree. Goal: 720,000 rows of 136 float32 features in at most 0.4 of LightGBM's time with the same
number of threads, aiming at 0.2. Lists of 100 documents and single documents are timed too, per call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import alternate, describe, keep, median
from rankwood import make_ranking
from rankwood._core.threads import usable_cores
from rankwood.models.forest import Forest

N_TREES = 300
N_LEAVES = 64
TRAINING_ROWS = 60_000  # enough for full trees, and quick
REPEATS = 5
CALLS = 200  # of small lists per timed run
GOAL = 0.4


def float32_at_most(threshold: float) -> np.float32:
    """The largest float32 that does not exceed ``threshold``: it parts float32 values the same."""
    near = np.float32(threshold)
    return near if float(near) <= threshold else np.nextafter(near, np.float32(-np.inf))


def convert_tree(structure: dict[str, Any]) -> dict[str, Any]:
    """The node arrays of one tree of LightGBM's dump; a node stands before its children."""
    nodes: list[dict[str, float]] = []

    def add(part: dict[str, Any]) -> int:
        place = len(nodes)
        if "leaf_value" in part:
            leaf = dict.fromkeys(("threshold", "left", "right", "missing", "gain"), 0)
            nodes.append(
                {
                    "feature": -1,
                    **leaf,
                    "value": part["leaf_value"],
                    "cover": part.get("leaf_count", 0),
                }
            )
            return place
        assert part["decision_type"] == "<="
        nodes.append(
            {"feature": part["split_feature"], "threshold": float32_at_most(part["threshold"])}
        )
        left, right = add(part["left_child"]), add(part["right_child"])
        nodes[place] |= {
            "left": left,
            "right": right,
            "missing": left if part["default_left"] else right,
            "value": part["internal_value"],
            "cover": part["internal_count"],
            "gain": part["split_gain"],
        }
        return place

    add(structure)
    return {name: np.array([node[name] for node in nodes]) for name in nodes[0]}


def convert(booster: Any) -> Forest:
    """The booster's trees as a ``Forest``; the features hold no missing values here."""
    dump = booster.dump_model()
    trees = [convert_tree(tree["tree_structure"]) for tree in dump["tree_info"]]
    return Forest.from_trees(trees, n_features=dump["max_feature_idx"] + 1)


def train(features: Any, labels: Any) -> Any:
    import lightgbm

    rows = np.random.default_rng(0).choice(len(labels), TRAINING_ROWS, replace=False)
    parameters = {
        "objective": "regression",
        "num_leaves": N_LEAVES,
        "verbose": -1,
        "num_threads": usable_cores(),
    }
    return lightgbm.train(parameters, lightgbm.Dataset(features[rows], labels[rows]), N_TREES)


def many(call: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(CALLS):
            call()

    return run


def processor_seconds(call: Callable[[], Any]) -> float:
    """Seconds of all threads together: what other work on the machine disturbs least."""
    start = time.process_time()
    call()
    return time.process_time() - start


def compare_lists(forest: Forest, booster: Any, features: Any, size: int) -> dict[str, float]:
    """Microseconds per call on a list of ``size`` documents, one thread each."""
    documents = features[:size]
    seconds = alternate(
        {
            "rankwood": many(lambda: forest.predict(documents)),
            "lightgbm": many(lambda: booster.predict(documents, num_threads=1)),
        },
        REPEATS,
    )
    taken = {name: median(runs) / CALLS * 1e6 for name, runs in seconds.items()}
    print(
        f"{size:>4} documents a call: {taken['rankwood']:.1f} µs, LightGBM {taken['lightgbm']:.1f} µs"
    )
    return {
        f"microseconds_{size}": taken["rankwood"],
        f"microseconds_{size}_lightgbm": taken["lightgbm"],
        f"ratio_{size}": taken["rankwood"] / taken["lightgbm"],
    }


def main() -> None:
    data = make_ranking(6_000, 120, 136, seed=1)
    features = data.features
    n_threads = usable_cores()
    booster = train(features, data.labels)
    forest = convert(booster)
    print(f"{forest}, {len(features):,} rows, {n_threads} threads, depth up to {forest.max_depth}")
    expected = booster.predict(features, num_threads=n_threads)
    scores = forest.predict(features)
    difference = float((np.abs(scores - expected) / np.maximum(1, np.abs(expected))).max())
    assert difference <= 1e-6, difference
    runs = {
        "rankwood": lambda: forest.predict(features, n_threads=n_threads),
        "lightgbm": lambda: booster.predict(features, num_threads=n_threads),
    }
    seconds = alternate(runs, REPEATS)
    busy = {name: processor_seconds(run) for name, run in runs.items()}
    for name, taken in seconds.items():
        print(describe(name, taken))
    ratio = median(seconds["rankwood"]) / median(seconds["lightgbm"])
    print(
        f"rankwood / lightgbm: {ratio:.3f} (goal: at most {GOAL}); largest difference {difference:g}"
    )
    print(f"the same in processor time: {busy['rankwood'] / busy['lightgbm']:.3f}")
    result: dict[str, Any] = {
        "rows": len(features),
        "trees": forest.n_trees,
        "leaves": forest.n_leaves,
        "threads": n_threads,
        "largest_difference": difference,
        "seconds": {name: median(taken) for name, taken in seconds.items()},
        "processor_seconds": busy,
        "ratio_lightgbm": ratio,
        "ratio_lightgbm_processor": busy["rankwood"] / busy["lightgbm"],
    }
    for size in (1, 100):
        result |= compare_lists(forest, booster, features, size)
    keep("bench_scoring", result)


if __name__ == "__main__":
    main()
