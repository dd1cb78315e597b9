"""The CUDA engine on a GPU: models with the bytes of the CPU's, and the time that trees take.

Bars on one H200: a tree of a forest of 100 leaves at 720,000 × 136 in 0.3 ms, a boosted tree of 31 leaves in 2.5 ms,
one of LambdaMART in 8 ms, BROOF of 300 rounds of 100 trees in 20 s from arrays to a saved model.

Parts can be run apart: ``python -m benchmarks.gpu --parts same,kernels --seconds 180 --out results.json``. Kernels of
the CPU are compiled in the first part that needs them.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import machine, versions
from rankwood.engines.bags import Bags
from rankwood.engines.cuda import device
from rankwood.engines.cuda.growing import GrownTrees, can_grow_together
from rankwood.engines.engine import Engine, TreeRequest, engine_on
from rankwood.errors import RankwoodError
from rankwood.trees.grower import FeatureChoice, Growth, Policies, Tree
from rankwood.trees.row_order import as_matrix

ROWS, FEATURES, LEAVES, SEARCHED = 720_000, 136, 100, 41
FIELDS = ("feature", "threshold", "left", "right", "missing", "gain", "value", "cover")
SMALL: dict[str, Any] = {"max_leaves": 20, "seed": 3}
RANKERS: dict[str, Callable[[], Any]] = {
    "forest": lambda: rw.RandomForest(20, **SMALL),
    "boosting": lambda: rw.GBRT(10, seed=3),
    "LambdaMART": lambda: rw.LambdaMART(10, seed=3),
    "forest, min_leaf": lambda: rw.RandomForest(20, min_leaf=7, max_depth=5, **SMALL),
    "forest, queries": lambda: rw.RandomForest(20, bag="query", bag_share=0.5, **SMALL),
    "forest, a share": lambda: rw.RandomForest(20, replacement=False, bag_share=0.6, **SMALL),
    "forest, own child": lambda: rw.RandomForest(20, missing="own_child", **SMALL),
    "forest, costs": lambda: rw.RandomForest(20, feature_costs=list(range(1, 25)), **SMALL),
    "forest, unlimited": lambda: rw.RandomForest(20, max_leaves=None, seed=3),
    "extra trees": lambda: rw.ExtraTrees(20, **SMALL),
    "random": lambda: rw.CompletelyRandomForest(20, seed=3),
    "random, limited": lambda: rw.CompletelyRandomForest(20, bag="row", **SMALL),
    "boosting, subsample": lambda: rw.GBRT(10, subsample=0.5, features_per_node=0.3, seed=3),
    "boosting, dropout": lambda: rw.LambdaMART(10, dropout=0.3, missing="own_child", seed=3),
    "averaged": lambda: rw.AveragedGBRT(5, n_runs=4, seed=3),
    "initialized": lambda: rw.InitializedGBRT(5, forest_trees=20, seed=3),
    "ordinal": lambda: rw.OrdinalRanker(rw.GBRT(5, seed=3)),
    "broof gradient": lambda: rw.BROOF("gradient", n_rounds=4, n_trees=20, **SMALL),
    "broof height": lambda: rw.BROOF(
        "height", n_rounds=4, n_trees=20, validation="query-folds", **SMALL
    ),
    "broof lambda": lambda: rw.BROOF("lambda", n_rounds=4, n_trees=20, **SMALL),
    "deep": lambda: rw.DeepForest(n_forests=2, n_trees=10, max_layers=2, seed=3),
}


def on(name: str, ranker: Any) -> Any:
    """The ranker on a device, as its parameter or as that of the ranker within."""
    names = [key for key in ranker.get_params(deep=True) if key.split("__")[-1] == "device"]
    return ranker.set_params(**dict.fromkeys(names, name))


def digest(model: Any) -> str:
    """A digest of the model's file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        rw.save(model, path)
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def first_difference(one: Any, other: Any) -> str:
    """Where two forests, or two trees, begin to differ."""
    n_nodes = min(one.feature.size, other.feature.size)
    found = []
    for name in FIELDS:
        mine, theirs = getattr(one, name)[:n_nodes], getattr(other, name)[:n_nodes]
        places = np.flatnonzero(mine != theirs)
        if places.size:
            found.append((int(places[0]), name, mine[places[0]], theirs[places[0]], places.size))
    if not found:
        return f"{one.feature.size} and {other.feature.size} nodes, which are equal where both are"
    node, name, mine, theirs, n_nodes = min(found)
    rest = {field: (getattr(one, field)[node], getattr(other, field)[node]) for field in FIELDS}
    offsets = getattr(one, "tree_offsets", np.zeros(1, np.int64))
    tree = int(np.searchsorted(offsets, node, side="right")) - 1
    return (
        f"tree {tree}, node {node - int(offsets[tree])}: {name} {mine!r} on the CPU, {theirs!r} on the GPU, "
        f"{n_nodes} nodes differ in it; all fields there: {rest}"
    )


def same(record: dict[str, Any]) -> None:
    """Digests of small models on both devices."""
    data = rw.make_ranking(60, 25, 24, missing=0.1, seed=5)
    for name, make in RANKERS.items():
        start = time.perf_counter()
        try:
            one = on("cpu", make()).fit(data)
            middle = time.perf_counter()
            other = on("cuda", make()).fit(data)
        except RankwoodError as error:
            print(f"  {name:<22} {error}", flush=True)
            record[name] = str(error)
            continue
        digests = digest(one), digest(other)
        seconds = (middle - start, time.perf_counter() - middle)
        record[name] = digests[0] == digests[1]
        word = "same" if record[name] else "DIFFERENT"
        print(f"  {name:<22} {word}  {digests}  {seconds[0]:.2f} s, {seconds[1]:.2f} s", flush=True)
        if not record[name] and hasattr(one, "forest_"):
            print("   ", first_difference(one.forest_, other.forest_), flush=True)


def rows_of(n_rows: int, n_features: int = FEATURES) -> tuple[Any, Any, np.ndarray]:
    """Codes, skewed or zero-inflated, with missing values in some columns; and targets that depend on them."""
    rng = np.random.default_rng(7)
    columns = np.empty((n_features, n_rows), np.uint8)
    for feature in range(n_features):
        draws = rng.random(n_rows, dtype=np.float32)
        if feature % 4 == 0:
            draws = np.maximum(0, (draws - 0.6) / 0.4)
        elif feature % 4 == 1:
            draws = np.floor(draws * 16) / 16
        columns[feature] = np.minimum(254, draws * 255)
        if feature % 16 == 15:
            columns[feature, rng.random(n_rows) < 0.1] = 255
    known = columns[[2, 3, 4, 6, 9, 12]].astype(np.float32) / 254
    score = 2 * known[0] + np.sqrt(known[1]) + 1.5 * known[2] ** 2 + np.log1p(3 * known[3])
    score += known[4] + (known[5] > 0.3) + 0.8 * rng.standard_normal(n_rows, np.float32)
    labels = np.searchsorted(np.quantile(score, [0.52, 0.84, 0.97, 0.99]), score).astype(float)
    bins = type("Bins", (), {})()
    bins.thresholds = np.tile(np.arange(254, dtype=np.float32), n_features)
    bins.offsets = np.arange(n_features + 1, dtype=np.int64) * 254
    bins.n_value_bins = np.full(n_features, 255)
    return as_matrix(columns, bins), columns, labels


def policies_of(kind: str) -> Policies:
    """The trees of a forest, or those of boosting."""
    if kind == "forest":
        return Policies(Growth(max_leaves=LEAVES), FeatureChoice(SEARCHED))
    return Policies(Growth(max_leaves=31, min_leaf=20))


def requests_of(engine: Engine, kind: str, labels: np.ndarray, n_trees: int) -> list[TreeRequest]:
    """Independent trees of bags, or of all rows; with weights they are like those of LambdaMART."""
    n_rows, policies = labels.size, policies_of(kind)
    bags = Bags(n_rows, seed=1)
    weights = np.abs(np.sin(np.arange(n_rows))) + 0.01 if kind == "weighted" else None
    held = engine.hold((labels, weights), bags.draws, centre=True)
    own = bags if kind == "forest" else None
    return [TreeRequest(held, policies, 1000 + tree, own, tree) for tree in range(n_trees)]


def trees(record: dict[str, Any], n_rows: int = 100_000) -> None:
    """Large trees on both devices, by the node."""
    matrix, _, labels = rows_of(n_rows)
    engines = [engine_on(name, matrix, 16) for name in ("cpu", "cuda")]
    for kind in ("forest", "boosting", "weighted"):
        grown: list[list[Tree]] = []
        for engine in engines:
            asked = requests_of(engine, kind, labels, 4 if kind == "forest" else 1)
            if kind == "forest":
                grown.append(list(engine.grow(iter(asked))))
            else:
                grown.append([engine.grow_one(asked[0])])
        for number, (one, other) in enumerate(zip(*grown, strict=True)):
            fields = [field.name for field in dataclasses.fields(Tree)]
            differ = [
                name
                for name in fields
                if not np.array_equal(np.asarray(getattr(one, name)), getattr(other, name))
            ]
            record[f"{kind} {number}"] = differ
            print(f"  {kind} {number}: {differ or 'same'}, {one.n_nodes} nodes", flush=True)
            if differ and differ != ["leaf_of_row"]:
                print("   ", first_difference(one, other), flush=True)


def timed(run: Callable[[], Any], repeats: int = 3) -> float:
    """The least milliseconds of some runs, after one that may compile."""
    run()
    device.wait()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        device.wait()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def kernels(record: dict[str, Any], n_rows: int = ROWS) -> None:
    """What launches alone take: no losses, no model."""
    start = time.perf_counter()
    matrix, _, labels = rows_of(n_rows)
    print(f"  data: {time.perf_counter() - start:.1f} s", flush=True)
    start = time.perf_counter()
    engine: Any = engine_on("cuda", matrix, 16)
    print(f"  upload: {time.perf_counter() - start:.2f} s", flush=True)
    for n_trees in (132, 528, 2000):
        asked = requests_of(engine, "forest", labels, n_trees)
        spent = timed(lambda asked=asked: GrownTrees(engine.rows, asked, 16), 2)
        record[f"forest, {n_trees} trees"] = spent / n_trees
        print(
            f"  forest: {n_trees} trees in {spent:.1f} ms, {spent / n_trees:.4f} ms a tree",
            flush=True,
        )
    start = time.perf_counter()
    count = sum(1 for _ in engine.grow(iter(requests_of(engine, "forest", labels, 1000))))
    spent = 1000 * (time.perf_counter() - start) / count
    record["forest, with trees"] = spent
    print(f"  forest, with trees on the host: {spent:.4f} ms a tree", flush=True)
    for kind in ("boosting", "weighted"):
        asked = requests_of(engine, kind, labels, 1)
        for together in (True, False):
            if together and not can_grow_together(engine.rows, asked[0]):
                continue
            grow = lambda asked=asked, together=together: GrownTrees(  # noqa: E731
                engine.rows, asked, 16, together=together
            )
            spent = timed(grow, 3 if together else 1)
            word = "all blocks" if together else "one block"
            record[f"{kind}, {word}"] = spent
            print(f"  {kind}, {word}: {spent:.2f} ms", flush=True)
        spent = timed(lambda asked=asked: engine.grow_one(asked[0]))
        record[f"{kind}, grow_one"] = spent
        print(f"  {kind}, grow_one: {spent:.2f} ms", flush=True)
        spent = timed(lambda kind=kind: requests_of(engine, kind, labels, 1))
        print(f"  {kind}, hold: {spent:.2f} ms", flush=True)


def binned(n_rows: int) -> Any:
    """Ranking data of so many rows, in bins."""
    start = time.perf_counter()
    data = rw.bin(rw.make_ranking(max(1, n_rows // 120), 120, FEATURES, seed=1))
    print(f"  {data.data.n_documents:,} rows in {time.perf_counter() - start:.1f} s", flush=True)
    return data


def per_tree(make: Callable[[int], Any], data: Any, few: int, many: int) -> float:
    """Milliseconds of a tree, from fits with few and with many of them."""
    times = []
    for n_trees in (few, few, many):
        start = time.perf_counter()
        make(n_trees).fit(data)
        times.append(time.perf_counter() - start)
    return 1000 * (times[2] - times[1]) / (many - few)


def fits(record: dict[str, Any], n_rows: int = ROWS, devices: tuple[str, ...] = ("cuda",)) -> None:
    """Whole fits: milliseconds of a tree."""
    data = binned(n_rows)
    rankers: dict[str, tuple[Callable[..., Any], int, int]] = {
        "forest": (
            lambda n, d: rw.RandomForest(
                n, max_leaves=LEAVES, features_per_node=SEARCHED, device=d
            ),
            100,
            1000,
        ),
        "GBRT": (lambda n, d: rw.GBRT(n, device=d), 20, 100),
        "LambdaMART": (lambda n, d: rw.LambdaMART(n, device=d), 20, 100),
    }
    for name, (make, few, many) in rankers.items():
        for where in devices:
            size = (few, many) if where == "cuda" else (few // 5, many // 5)
            spent = per_tree(lambda n, make=make, where=where: make(n, where), data, *size)
            record[f"{name}, {where}, {n_rows}"] = spent
            print(f"  {name:<12} {where:<5} {n_rows:>10,} rows: {spent:9.3f} ms a tree", flush=True)


def broof(record: dict[str, Any], n_rounds: int = 300, n_trees: int = 100) -> None:
    """From arrays in memory to a saved model."""
    data = rw.make_ranking(ROWS // 120, 120, FEATURES, seed=1)
    make = lambda rounds: rw.BROOF(  # noqa: E731
        "gradient",
        rounds,
        n_trees,
        max_leaves=LEAVES,
        features_per_node=SEARCHED,
        stop=None,
        device="cuda",
    )
    make(1).fit(data)
    start = time.perf_counter()
    model = make(n_rounds).fit(data)
    fitted = time.perf_counter() - start
    found = digest(model)
    record["broof"] = time.perf_counter() - start
    print(
        f"  {n_rounds * n_trees:,} trees: {record['broof']:.2f} s, fitted in {fitted:.2f} s, {found}",
        flush=True,
    )


def sizes(record: dict[str, Any]) -> None:
    """The CPU against the GPU for more and more rows."""
    for n_rows in (10_000, 100_000, 1_000_000, 10_000_000):
        fits(record, n_rows, ("cuda", "cpu"))


PARTS = {
    "same": same,
    "trees": trees,
    "kernels": kernels,
    "fits": fits,
    "broof": broof,
    "sizes": sizes,
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--parts", default=",".join(PARTS))
    options.add_argument("--seconds", type=float, default=float("inf"), help="start no part after")
    options.add_argument("--out", help="a JSON file")
    given = options.parse_args()
    begin = time.perf_counter()
    result: dict[str, Any] = {}
    print(device.description() or "no GPU", flush=True)
    for part in given.parts.split(","):
        spent = time.perf_counter() - begin
        print(f"== {part}, after {spent:.0f} s", flush=True)
        if spent > given.seconds:
            break
        result[part] = {}
        try:
            PARTS[part](result[part])
        except Exception as error:  # the other parts are worth having
            traceback.print_exc()
            result[part]["error"] = repr(error)
    if given.out:
        record = {"result": result, "machine": machine(), "versions": versions()}
        Path(given.out).write_text(json.dumps(record, indent=2, default=str) + "\n")


if __name__ == "__main__":
    main()
