"""What ``benchmarks.gpu`` measures, cell by cell, and the process that runs cells one after another.

A cell is a function whose result JSON can hold. The process prints one line of JSON for each thing that happens, after
``MARK``; ``benchmarks.gpu`` reads them, writes them down at once, and starts another process for the cells that are
left when a cell hangs or leaves the GPU unusable.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import dataclasses
import functools
import hashlib
import importlib
import json
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import PUBLISHED_GBRT, machine, versions
from rankwood.binning.binned import BinnedData
from rankwood.binning.bins import Bins
from rankwood.engines.bags import Bags, Draws
from rankwood.engines.cuda import device, growing
from rankwood.engines.cuda.growing import GrownTrees, can_grow_together
from rankwood.engines.engine import Engine, TreeRequest, engine_on
from rankwood.errors import RankwoodError
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.loss import weak_learner_targets
from rankwood.trees.grower import FeatureChoice, Growth, Policies, Tree
from rankwood.trees.row_order import as_matrix

MARK = "@@ "
LEAVES = 100
FIELDS = ("feature", "threshold", "left", "right", "missing", "gain", "value", "cover")
DOCUMENTS = 120  # of a query


@dataclass
class Sizes:
    """How much is measured; ``--dry`` has little of everything."""

    rows: int = 720_000
    features: int = 136
    searched: int = 41  # features of a node of a forest
    launches: tuple[int, ...] = (132, 528, 2000)  # trees
    few: int = 100  # trees of a forest whose time is taken off that of many
    many: int = 2000
    boosted: int = 60
    rounds: int = 300  # of BROOF
    trees: int = 100  # of a round
    compared: int = 100_000  # rows of large trees that are compared
    middle: int = 500  # queries of the models of middle size
    table: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    scored: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    seconds: float = 6.0  # after which a fit on the CPU ends


SIZES = Sizes()
DRY = Sizes(600, 20, 8, (3, 5), 2, 6, 3, 2, 3, 400, 4, (300, 600), (200, 500), 0.5)


# The same bytes.


@dataclass(frozen=True)
class Case:
    """A model that is fitted on both devices."""

    make: Callable[[], Any]
    is_large: bool = False
    has_validation: bool = False
    has_weights: bool = False
    is_shared: bool = True  # whether several blocks share even a small boosted tree


SMALL: dict[str, Any] = {"max_leaves": 20, "seed": 3}
BROOF: dict[str, Any] = {"n_rounds": 4, "n_trees": 20, **SMALL}
CASES: dict[str, Case] = {
    "forest": Case(lambda: rw.RandomForest(20, **SMALL)),
    "GBRT, one block": Case(lambda: rw.GBRT(10, seed=3, **PUBLISHED_GBRT), is_shared=False),
    "GBRT": Case(lambda: rw.GBRT(10, seed=3, **PUBLISHED_GBRT)),
    "LambdaMART": Case(lambda: rw.LambdaMART(10, seed=3)),
    "extra trees": Case(lambda: rw.ExtraTrees(20, **SMALL)),
    "random": Case(lambda: rw.CompletelyRandomForest(20, seed=3)),
    "broof gradient": Case(lambda: rw.BROOF("gradient", **BROOF)),
    "deep": Case(lambda: rw.DeepForest(n_forests=2, n_trees=10, max_layers=2, seed=3)),
    "averaged": Case(lambda: rw.AveragedGBRT(5, n_runs=4, seed=3)),
    "initialized": Case(lambda: rw.InitializedGBRT(5, forest_trees=20, seed=3)),
    "ordinal": Case(lambda: rw.OrdinalRanker(rw.GBRT(5, seed=3, **PUBLISHED_GBRT))),
    "forest, large": Case(lambda: rw.RandomForest(20, seed=3), is_large=True),
    "GBRT, large": Case(lambda: rw.GBRT(10, seed=3, **PUBLISHED_GBRT), is_large=True),
    "LambdaMART, large": Case(lambda: rw.LambdaMART(10, seed=3), is_large=True),
    "GBRT, subsample, large": Case(
        lambda: rw.GBRT(10, 31, 0.1, subsample=0.5, features_per_node=0.3, seed=3), is_large=True
    ),
    "forest, weights": Case(lambda: rw.RandomForest(20, **SMALL), has_weights=True),
    "forest, min_leaf": Case(lambda: rw.RandomForest(20, min_leaf=7, max_depth=5, **SMALL)),
    "forest, min_leaf, weights": Case(
        lambda: rw.RandomForest(20, min_leaf=7, **SMALL), has_weights=True
    ),
    "forest, queries": Case(lambda: rw.RandomForest(20, bag="query", bag_share=0.5, **SMALL)),
    "forest, a share": Case(lambda: rw.RandomForest(20, replacement=False, bag_share=0.6, **SMALL)),
    "forest, no bag": Case(lambda: rw.RandomForest(20, bag=None, **SMALL)),
    "forest, own child": Case(lambda: rw.RandomForest(20, missing="own_child", **SMALL)),
    "forest, missing left": Case(lambda: rw.RandomForest(20, missing="left", **SMALL)),
    "forest, missing right": Case(lambda: rw.RandomForest(20, missing="right", **SMALL)),
    "forest, costs": Case(lambda: rw.RandomForest(20, feature_costs=list(range(1, 25)), **SMALL)),
    "forest, unlimited": Case(lambda: rw.RandomForest(20, max_leaves=None, seed=3)),
    "forest, chosen leaves": Case(lambda: rw.RandomForest(10, max_leaves="auto", seed=3)),
    "extra trees, bags": Case(lambda: rw.ExtraTrees(20, bag="row", min_leaf=3, **SMALL)),
    "random, limited": Case(lambda: rw.CompletelyRandomForest(20, bag="row", **SMALL)),
    "GBRT, stopped early": Case(
        lambda: rw.GBRT(30, 31, 0.5, early_stopping=3, features_per_node=None, seed=3),
        has_validation=True,
    ),
    "GBRT, weights": Case(
        lambda: rw.GBRT(10, max_depth=4, seed=3, **PUBLISHED_GBRT), has_weights=True
    ),
    "GBRT, subsample": Case(
        lambda: rw.GBRT(10, 31, 0.1, subsample=0.5, features_per_node=0.3, seed=3)
    ),
    "GBRT, queries": Case(
        lambda: rw.GBRT(10, subsample=0.5, subsample_by="query", seed=3, **PUBLISHED_GBRT)
    ),
    "GBRT, l1": Case(
        lambda: rw.GBRT(10, l1=0.4, l2=2.0, features_per_tree=0.5, seed=3, **PUBLISHED_GBRT)
    ),
    "GBRT, min_gain": Case(
        lambda: rw.GBRT(10, min_gain=0.01, max_leaves=None, seed=3, **PUBLISHED_GBRT)
    ),
    "GBRT, own child": Case(lambda: rw.GBRT(10, missing="own_child", seed=3, **PUBLISHED_GBRT)),
    "GBRT, costs": Case(
        lambda: rw.GBRT(10, feature_costs=list(range(1, 25)), seed=3, **PUBLISHED_GBRT)
    ),
    "LambdaMART, dropout": Case(
        lambda: rw.LambdaMART(10, dropout=0.3, missing="own_child", seed=3)
    ),
    "LambdaMART, stopped early": Case(
        lambda: rw.LambdaMART(30, early_stopping=3, subsample=0.6, seed=3), has_validation=True
    ),
    "LambdaMART, weights": Case(lambda: rw.LambdaMART(10, seed=3), has_weights=True),
    "LambdaMART, few pairs": Case(
        lambda: rw.LambdaMART(10, target="ndcg@5", truncation=7, normalise=False, sigma=2.0, seed=3)
    ),
    "LambdaMART, map": Case(lambda: rw.LambdaMART(10, target="map", seed=3)),
    "broof height": Case(lambda: rw.BROOF("height", validation="query-folds", **BROOF)),
    "broof absolute": Case(lambda: rw.BROOF("absolute", **BROOF)),
    "broof lambda": Case(lambda: rw.BROOF("lambda", **BROOF)),
    "broof median": Case(lambda: rw.BROOF("median", **BROOF)),
    "broof of extra trees": Case(lambda: rw.BROOF("gradient", base="extra", **BROOF)),
    "ordinal over forests": Case(lambda: rw.OrdinalRanker(rw.RandomForest(10, **SMALL))),
    "deep, large": Case(
        lambda: rw.DeepForest(n_forests=2, n_trees=10, max_layers=2, seed=3), is_large=True
    ),
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


@functools.cache
def small_data(is_large: bool) -> tuple[Any, Any]:
    """Training and validation data, with missing values."""
    if is_large:
        return rw.make_ranking(SIZES.middle, 120, 136, missing=0.05, seed=5), None
    train = rw.make_ranking(60, 25, 24, missing=0.1, seed=5)
    return train, rw.make_ranking(20, 25, 24, missing=0.1, seed=6)


def fitted(name: str, where: str) -> Any:
    """The model of a case."""
    case = CASES[name]
    train, valid = small_data(case.is_large)
    given: dict[str, Any] = {"valid": valid} if case.has_validation else {}
    if case.has_weights:
        given["sample_weight"] = 0.1 + np.random.default_rng(8).random(train.n_documents)
    before = growing._LEAST_SUMS
    if case.is_shared and not case.is_large:
        growing._LEAST_SUMS = 1 << 10
    try:
        return on(where, case.make()).set_params(n_threads=2).fit(train, **given)
    finally:
        growing._LEAST_SUMS = before


def digest_of(name: str, where: str) -> dict[str, Any]:
    """The digest of the model of a case."""
    start = time.perf_counter()
    model = fitted(name, where)
    return {"digest": digest(model), "seconds": time.perf_counter() - start}


def difference_of(name: str) -> str:
    """Where the models of a case begin to differ."""
    one, other = fitted(name, "cpu"), fitted(name, "cuda")
    if digest(one) == digest(other):
        return "this time they are the same: the outcome depends on the order of threads"
    if not hasattr(one, "forest_"):
        return "they have no forest that could be compared"
    return first_difference(one.forest_, other.forest_)


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


# Large data, made by all threads.


def columns_of(n_rows: int, n_features: int) -> np.ndarray:
    """Codes, skewed or zero-inflated, with missing values in some columns."""
    columns = np.empty((n_features, n_rows), np.uint8)

    def fill(feature: int) -> None:
        rng = np.random.default_rng([7, feature])
        draws = rng.random(n_rows, dtype=np.float32)
        if feature % 4 == 0:
            draws = np.maximum(0, (draws - np.float32(0.6)) / np.float32(0.4))
        elif feature % 4 == 1:
            draws = np.floor(draws * np.float32(16)) / np.float32(16)
        columns[feature] = np.minimum(254, draws * np.float32(255))
        if feature % 16 == 15:
            columns[feature, rng.random(n_rows, dtype=np.float32) < 0.1] = 255

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, range(n_features)))
    return columns


def labels_of(columns: np.ndarray) -> np.ndarray:
    """Labels 0 to 4 that depend on some columns."""
    n_rows = columns.shape[1]
    known = [columns[feature].astype(np.float32) / 254 for feature in (2, 3, 4, 6, 9, 12)]
    score = 2 * known[0] + np.sqrt(known[1]) + 1.5 * known[2] ** 2 + np.log1p(3 * known[3])
    score += known[4] + (known[5] > 0.3)
    score += 0.8 * np.random.default_rng(7).standard_normal(n_rows, np.float32)
    cuts = np.quantile(score[:200_000], [0.52, 0.84, 0.97, 0.99])
    labels: np.ndarray = np.searchsorted(cuts, score).astype(float)
    return labels


def queries_of(n_rows: int) -> np.ndarray:
    return np.arange(n_rows) // DOCUMENTS


def bins_of(n_features: int) -> Bins:
    """255 bins of each feature."""
    thresholds = np.tile(np.arange(254, dtype=np.float32) + 0.5, n_features)
    offsets = np.arange(n_features + 1, dtype=np.int64) * 254
    return Bins(thresholds, offsets, np.arange(n_features) % 16 == 15)


@functools.lru_cache(maxsize=1)
def binned(n_rows: int) -> BinnedData:
    """Ranking data in bins. Fits look at the codes only, so that the features can be zeros that take no memory."""
    columns = columns_of(n_rows, SIZES.features)
    features = np.zeros((n_rows, SIZES.features), np.float32)
    data = rw.RankingData(features, labels_of(columns), query_ids=queries_of(n_rows))
    return BinnedData(columns, bins_of(SIZES.features), data)


@functools.lru_cache(maxsize=1)
def arrays(n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and queries."""
    columns = columns_of(n_rows, SIZES.features)
    features = np.ascontiguousarray(columns.T).astype(np.float32)
    features[features == 255] = np.nan
    return features, labels_of(columns), queries_of(n_rows)


# Trees and launches without losses.


def policies_of(kind: str) -> Policies:
    """The trees of a forest, or those of boosting."""
    if kind == "forest":
        return Policies(Growth(max_leaves=LEAVES), FeatureChoice(SIZES.searched))
    return Policies(Growth(max_leaves=31, min_leaf=20))


def requests_of(engine: Engine, kind: str, labels: np.ndarray, n_trees: int) -> list[TreeRequest]:
    """Independent trees of bags, or of all rows; with weights they are like those of LambdaMART."""
    n_rows, policies = labels.size, policies_of(kind)
    bags = Bags(n_rows, seed=1)
    weights = np.abs(np.sin(np.arange(n_rows))) + 0.01 if kind == "weighted" else None
    held = engine.hold((labels, weights), bags.draws, centre=True)
    own = bags if kind == "forest" else None
    return [TreeRequest(held, policies, 1000 + tree, own, tree) for tree in range(n_trees)]


@functools.lru_cache(maxsize=1)
def codes(n_rows: int) -> tuple[Any, np.ndarray]:
    """A matrix for engines, and labels."""
    columns = columns_of(n_rows, SIZES.features)
    return as_matrix(columns, bins_of(SIZES.features)), labels_of(columns)


def same_trees(kind: str) -> dict[str, Any]:
    """Large trees on both devices, by the node."""
    matrix, labels = codes(SIZES.compared)
    grown: list[list[Tree]] = []
    seconds = []
    for name in ("cpu", "cuda"):
        start = time.perf_counter()
        engine = engine_on(name, matrix, 16)
        asked = requests_of(engine, kind, labels, 4 if kind == "forest" else 1)
        if kind == "forest":
            grown.append(list(engine.grow(iter(asked))))
        else:
            grown.append([engine.grow_one(asked[0])])
        seconds.append(time.perf_counter() - start)
    names = [one.name for one in dataclasses.fields(Tree)]
    result: dict[str, Any] = {"same": True, "nodes": grown[0][0].n_nodes, "seconds": seconds}
    for number, (one, other) in enumerate(zip(*grown, strict=True)):
        differ = [
            name
            for name in names
            if not np.array_equal(np.asarray(getattr(one, name)), getattr(other, name))
        ]
        if differ:
            result["same"] = False
            result[f"tree {number}"] = f"{differ}: {first_difference(one, other)}"
    return result


@dataclass
class KernelTimes:
    """Milliseconds of each kernel by the clock of the GPU."""

    events: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict)

    def by_name(self) -> dict[str, Any]:
        """What each kernel took, once all have run."""
        device.wait()
        ask = device.cupy().cuda.get_elapsed_time
        times = {name: [ask(*pair) for pair in pairs] for name, pairs in self.events.items()}
        return {
            name: {"launches": len(spent), "sum": sum(spent), "median": statistics.median(spent)}
            for name, spent in times.items()
        }


@contextlib.contextmanager
def kernel_times() -> Iterator[KernelTimes]:
    """What kernels take that are launched within."""
    times, run = KernelTimes(), device.run

    def timed_run(file: str, name: str, *arguments: Any, **named: Any) -> None:
        pair = tuple(device.cupy().cuda.Event() for _ in range(2))
        pair[0].record()
        run(file, name, *arguments, **named)
        pair[1].record()
        times.events.setdefault(name, []).append(pair)

    device.run = timed_run
    try:
        yield times
    finally:
        device.run = run


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


@functools.lru_cache(maxsize=1)
def engine_of(n_rows: int) -> Any:
    return engine_on("cuda", codes(n_rows)[0], 16)


def forest_launches() -> dict[str, Any]:
    """Launches of many trees."""
    result: dict[str, Any] = {}
    start = time.perf_counter()
    _, labels = codes(SIZES.rows)
    result["data, s"] = time.perf_counter() - start
    start = time.perf_counter()
    engine = engine_of(SIZES.rows)
    device.wait()
    result["rows to the GPU, s"] = time.perf_counter() - start
    for n_trees in SIZES.launches:
        asked = requests_of(engine, "forest", labels, n_trees)
        with kernel_times() as times:
            spent = timed(lambda asked=asked: GrownTrees(engine.rows, asked, 16), 2)
        result[f"ms a tree of {n_trees}"] = spent / n_trees
        result[f"kernels of {n_trees}"] = times.by_name()
    for n_trees in SIZES.launches[-1:]:
        start = time.perf_counter()
        count = sum(1 for _ in engine.grow(iter(requests_of(engine, "forest", labels, n_trees))))
        spent = 1000 * (time.perf_counter() - start) / count
        result["ms a tree, with trees on the host"] = spent
    return result


def boosted_launches(kind: str) -> dict[str, Any]:
    """One tree at a time."""
    engine, labels = engine_of(SIZES.rows), codes(SIZES.rows)[1]
    asked = requests_of(engine, kind, labels, 1)
    result: dict[str, Any] = {}
    for together in (True, False):
        if together and not can_grow_together(engine.rows, asked[0]):
            continue
        word = "all blocks" if together else "one block"
        with kernel_times() as times:
            result[f"ms, {word}"] = timed(
                lambda together=together: GrownTrees(engine.rows, asked, 16, together=together),
                5 if together else 1,
            )
        result[f"kernels, {word}"] = times.by_name()
    result["ms, grow_one"] = timed(lambda: engine.grow_one(asked[0]), 5)
    result["ms, hold"] = timed(lambda: requests_of(engine, kind, labels, 1))
    return result


def lambda_steps() -> dict[str, Any]:
    """What happens before each tree of LambdaMART, in milliseconds, and whether the numbers are those of the CPU."""
    columns = columns_of(SIZES.rows, SIZES.features)
    labels, query_ids = labels_of(columns), queries_of(SIZES.rows)
    data = rw.RankingData(np.zeros((labels.size, 1), np.float32), labels, query_ids=query_ids)
    loss, engine = LambdaRank(data, n_threads=16), engine_of(SIZES.rows)
    scores = engine.scores(np.sin(np.arange(labels.size, dtype=float)), 0.0)
    targets, draws = engine.targets(loss, scores), Draws(None, labels.size)
    host = scores.on_host()
    powers = np.empty(labels.size)
    with kernel_times() as times:
        there = timed(targets.there, 5)
    both = tuple(targets), (targets.there()._targets, targets.there()._weights)
    same = [
        one.tobytes() == device.download(other).tobytes() for one, other in zip(*both, strict=True)
    ]
    return {
        "same": all(same),
        "ms, lambdas on the CPU": timed(lambda: loss.gradients(host), 5),
        "ms, targets on the CPU": timed(lambda: weak_learner_targets(loss, host), 5),
        "ms, targets on the GPU": there,
        "ms of it, powers on the CPU": timed(lambda: loss.powers(host, powers), 5),
        "kernels": times.by_name(),
        "ms, targets and whole numbers on the GPU": timed(
            lambda: engine.hold(targets, draws, centre=False), 5
        ),
    }


def copies() -> dict[str, float]:
    """What the host does around each boosted tree, one by one, in milliseconds."""
    rows = engine_of(SIZES.rows).rows
    whole, leaves = np.arange(rows.n_rows), device.zeros(rows.n_rows, np.int32)
    pinned = importlib.import_module("cupyx").empty_pinned(rows.n_rows, np.int32)
    few = np.zeros(3, np.int32)
    starts = device.upload(np.zeros(1, np.int64))
    values, totals = device.upload(np.zeros(1)), device.zeros(rows.n_rows, np.float64)
    some = {
        "targets to the GPU": lambda: device.upload(whole),
        "leaves from the GPU": lambda: device.download(leaves),
        "leaves to page-locked memory": lambda: leaves.get(out=pinned),
        "page-locked leaves copied": pinned.copy,
        "ten small arrays to the GPU": lambda: [device.upload(few) for _ in range(10)],
        "ten arrays of zeros": lambda: [device.zeros(1000, np.uint64) for _ in range(10)],
        "ten arrays": lambda: [device.empty(1000, np.uint64) for _ in range(10)],
        "ten small arrays from the GPU": lambda: [device.download(starts) for _ in range(10)],
        "a small kernel": lambda: rows.run(
            "add_all",
            (np.int64(rows.n_rows), np.int32(0), np.int32(0), leaves, starts, values, totals),
        ),
        "ten properties": lambda: [device.attribute("MultiProcessorCount") for _ in range(10)],
        "free memory": device.free_bytes,
    }
    return {name: timed(run, 5) for name, run in some.items()}


def blocks_that_share() -> dict[str, Any]:
    """A boosted tree by fewer blocks, whose meetings take less time."""
    engine, labels = engine_of(SIZES.rows), codes(SIZES.rows)[1]
    asked = requests_of(engine, "boosting", labels, 1)
    result: dict[str, Any] = {}
    run, most = device.blocks_at_once, device.attribute("MultiProcessorCount")
    try:
        for n_blocks in (8, 16, 33, 66, 99, most):
            device.blocks_at_once = lambda *_, n_blocks=n_blocks: n_blocks
            result[f"ms, {n_blocks} blocks"] = timed(
                lambda: GrownTrees(engine.rows, asked, 16, together=True)
            )
    finally:
        device.blocks_at_once = run
    return result


# Fits.


def ranker_of(name: str, n_trees: int, where: str, n_threads: int) -> Any:
    """A ranker of the table."""
    given: dict[str, Any] = {"device": where, "n_threads": n_threads}
    if name == "forest":
        given |= {"max_leaves": LEAVES, "features_per_node": SIZES.searched}
        return rw.RandomForest(n_trees, **given)
    return getattr(rw, name)(n_trees, **given)


@dataclass
class Clock:
    """When each tree was there; ends a fit that takes too long after its first tree, which may wait for compilation."""

    limit: float = float("inf")
    at: list[float] = field(default_factory=lambda: [time.perf_counter()])

    def __call__(self, _: Any) -> bool:
        """Note the time; True ends the fit."""
        self.at.append(time.perf_counter())
        return self.at[-1] - self.at[1] > self.limit


def boosted_fit(name: str, n_rows: int, where: str, n_threads: int) -> dict[str, Any]:
    """Milliseconds of a boosted tree, the median of those after the first ones."""
    data, clock = binned(n_rows), Clock(SIZES.seconds)
    ranker = ranker_of(name, SIZES.boosted, where, n_threads).set_params(callbacks=[clock])
    clock.at[0] = time.perf_counter()
    ranker.fit(data)
    gaps = 1000 * np.diff(clock.at)
    later = gaps[min(3, gaps.size - 1) :]
    return {
        "ms a tree": float(np.median(later)),
        "trees": int(gaps.size),
        "fit, s": time.perf_counter() - clock.at[0],
    }


def forest_fit(n_rows: int, where: str, n_threads: int) -> dict[str, Any]:
    """Milliseconds of a tree of a forest: of many trees, without what a fit of few takes as well."""
    data = binned(n_rows)
    if where == "cpu":
        clock = Clock(SIZES.seconds)
        clock.at[0] = time.perf_counter()
        ranker = ranker_of("forest", 64, where, n_threads).set_params(callbacks=[clock])
        ranker.fit(data)
        n_trees = len(clock.at) - 1
        first = min(n_threads, n_trees - 1)
        spent = (clock.at[-1] - clock.at[first]) / max(1, n_trees - first)
        if first == 0 or n_trees < 2:
            spent = clock.at[-1] - clock.at[0]
        whole = time.perf_counter() - clock.at[0]
        return {"ms a tree": 1000 * spent, "trees": n_trees, "fit, s": whole}
    many = max(SIZES.few + 1, min(SIZES.many, 1_500_000_000 // n_rows))
    few = min(SIZES.few, many // 2)
    times = []
    for n_trees in (few, few, many):
        start = time.perf_counter()
        ranker_of("forest", n_trees, where, n_threads).fit(data)
        times.append(time.perf_counter() - start)
    return {
        "ms a tree": 1000 * (times[2] - times[1]) / (many - few),
        "trees": many,
        "fit, s": times[2],
    }


def fits(n_rows: int, where: str, n_threads: int) -> dict[str, Any]:
    """All rankers of the table at one size."""
    start = time.perf_counter()
    binned(n_rows)
    result: dict[str, Any] = {"data, s": time.perf_counter() - start}
    for name in ("GBRT", "LambdaMART", "forest"):
        result[name] = fit_of(name, n_rows, where, n_threads)
        say({"part": {name: result[name]}})
    return result


def fit_of(name: str, n_rows: int, where: str, n_threads: int) -> dict[str, Any]:
    if name == "forest":
        return forest_fit(n_rows, where, n_threads)
    return boosted_fit(name, n_rows, where, n_threads)


# Scoring.


@functools.lru_cache(maxsize=1)
def scorers() -> dict[str, Any]:
    """A forest and a boosted model, learned from the first rows that are scored."""
    features, labels, queries = arrays(SIZES.scored[0])
    data = rw.RankingData(features, labels, query_ids=queries)
    made = {
        "forest": ranker_of("forest", SIZES.many // 4, "cuda", 16),
        "LambdaMART": ranker_of("LambdaMART", SIZES.many // 4, "cuda", 16),
    }
    return {name: ranker.fit(data) for name, ranker in made.items()}


def scoring(n_rows: int) -> dict[str, Any]:
    """Scores of rows in the memory of this process, on 16 threads and on the GPU, which must have the same bytes."""
    some = arrays(SIZES.scored[0])[0]
    features = np.tile(some, (n_rows // len(some), 1))
    result: dict[str, Any] = {}
    for name, ranker in scorers().items():
        asked = {"cpu": {}, "cuda": {"device": "cuda"}}
        digests = {
            where: hashlib.sha256(ranker.predict(features, **given)).hexdigest()[:12]
            for where, given in asked.items()
        }
        times = {
            f"ms, {where}": timed(
                lambda ranker=ranker, given=given: ranker.predict(features, **given), 1
            )
            for where, given in asked.items()
        }
        with kernel_times() as kernels:
            ranker.predict(features, device="cuda")
        found = {"same": len(set(digests.values())) == 1, "trees": ranker.forest_.n_trees}
        ratio = times["ms, cpu"] / times["ms, cuda"]
        result[name] = {**found, **times, "CPU over GPU": ratio, "kernels": kernels.by_name()}
        say({"part": result})
    return result


def broof_of(n_rounds: int) -> Any:
    return rw.BROOF(
        "gradient",
        n_rounds,
        SIZES.trees,
        max_leaves=LEAVES,
        features_per_node=SIZES.searched,
        stop=None,
        device="cuda",
    )


def broof() -> dict[str, Any]:
    """From arrays in memory to a saved model, after a short one that may compile."""
    features, labels, queries = arrays(SIZES.rows)
    result: dict[str, Any] = {}
    for n_rounds in (2, SIZES.rounds):
        clock = Clock(60.0)
        start = clock.at[0] = time.perf_counter()
        model = broof_of(n_rounds).set_params(callbacks=[clock])
        model.fit(rw.RankingData(features, labels, query_ids=queries))
        end = time.perf_counter()
        found = digest(model)
        result[f"{n_rounds} rounds"] = {
            "s": time.perf_counter() - start,
            "fit, s": end - start,
            "before the first round, s": clock.at[1] - start,
            "ms a round": 1000 * float(np.median(np.diff(clock.at[1:]))),
            "rounds": len(clock.at) - 1,
            "digest": found,
        }
        say({"part": result})
    return result


def profile(name: str) -> dict[str, Any]:
    """Which functions take the time of a fit on the GPU, and which kernels."""
    data = binned(SIZES.rows)
    made = {
        "broof": lambda: broof_of(max(2, SIZES.rounds // 60)),
        "forest": lambda: ranker_of("forest", SIZES.many, "cuda", 16),
    }.get(name, lambda: ranker_of(name, SIZES.boosted // 2 + 1, "cuda", 16))
    profiler = cProfile.Profile()
    start = time.perf_counter()
    with kernel_times() as times:
        profiler.enable()
        made().fit(data)
        profiler.disable()
    spent = time.perf_counter() - start
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    rows = [
        (round(own, 4), round(total, 4), calls, f"{Path(file).name}:{line} {function}")
        for (file, line, function), (_, calls, own, total, _) in stats.items()
    ]
    return {
        "fit, s": spent,
        "kernels": times.by_name(),
        "own seconds, all seconds, calls": sorted(rows, reverse=True)[:25],
        "by all seconds": sorted(rows, key=lambda row: -row[1])[:40],
    }


# The machine.


def machine_of() -> dict[str, Any]:
    """What runs here."""
    result: dict[str, Any] = {"machine": machine(), "versions": versions(), "numpy": np.__version__}
    result["GPU"] = device.description()
    with contextlib.suppress(OSError):
        asked = "name,driver_version,clocks.sm,clocks.mem,memory.total,memory.used"
        command = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"]
        result["nvidia-smi"] = subprocess.run(
            command, capture_output=True, text=True, check=False
        ).stdout.strip()
    return result


KERNELS = {
    "rows.cu": (
        256,
        (
            *("arrange", "route", "add_unseen", "add_all", "plain_leaves"),
            *("add_starts", "residuals", "extents", "add_whole", "make_whole"),
        ),
    ),
    "forest.cu": (None, ("grow_trees",)),
    "one_tree.cu": (None, ("grow_tree",)),
    "lambdas.cu": (128, ("lambdas_of_queries", "newton_steps")),
    "scoring.cu": (128, ("walk_rows",)),
}


def compiled() -> dict[str, Any]:
    """Every kernel compiled, with its registers and the memory of a thread."""
    result: dict[str, Any] = {}
    for file, (n_threads, names) in KERNELS.items():
        for name in names:
            start = time.perf_counter()
            size = n_threads or device.block_size()
            kernel = device._function(device.cupy(), file, name, size, name == "grow_tree")
            result[name] = {
                "registers": kernel.num_regs,
                "local": kernel.local_size_bytes,
                "shared": kernel.shared_size_bytes,
                "seconds": time.perf_counter() - start,
            }
    result["most shared"] = device.shared_bytes()
    result["blocks at once"] = device.blocks_at_once(
        "one_tree.cu", "grow_tree", device.block_size(), 70_000
    )
    return result


def warm() -> str:
    """Kernels of the CPU, which are compiled once on a machine: a first fit takes half a minute."""
    for name in ("forest", "GBRT", "LambdaMART", "random"):
        fitted(name, "cpu")
    return "done"


def out_of_memory() -> str:
    """A fit that does not find the memory ends with an error of ours, and the next one works."""
    pool = device.cupy().get_default_memory_pool()
    data = binned(SIZES.compared)
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + data.codes.size)
    try:
        rw.RandomForest(4, device="cuda").fit(data)
    except RankwoodError as error:
        said = str(error)
    else:
        said = "NO ERROR"
    pool.set_limit(size=1 << 40)
    rw.RandomForest(4, max_leaves=4, device="cuda").fit(data)
    return said


def launch_each() -> str:
    """One launch of each of the large kernels, for a profiler of kernels."""
    engine, labels = engine_of(SIZES.rows), codes(SIZES.rows)[1]
    GrownTrees(engine.rows, requests_of(engine, "forest", labels, SIZES.launches[0]), 16)
    GrownTrees(engine.rows, requests_of(engine, "boosting", labels, 1), 16, together=True)
    return "done"


def few_fits() -> str:
    """What a checker of memory accesses looks at."""
    for name in ("forest", "GBRT", "forest, own child", "LambdaMART, weights", "random, limited"):
        fitted(name, "cuda")
    return "done"


# All cells.


@dataclass(frozen=True)
class Cell:
    """Something to find out; after ``limit`` seconds it is taken to hang."""

    run: Callable[[], Any]
    limit: float = 40.0


def cells() -> dict[str, Cell]:
    """All cells by name."""
    threads = (16, 2)
    made = {
        "machine": Cell(machine_of),
        "compile": Cell(compiled, 100.0),
        "warm": Cell(warm, 150.0),
        "out of memory": Cell(out_of_memory),
        "few fits": Cell(few_fits, 120.0),
        "launch each": Cell(launch_each, 60.0),
    }
    for name in CASES:
        for where in ("cpu", "cuda"):
            run = functools.partial(digest_of, name, where)
            made[f"{where}: {name}"] = Cell(run, 100.0 if where == "cpu" else 40.0)
        made[f"difference: {name}"] = Cell(functools.partial(difference_of, name))
    for kind in ("forest", "boosting", "weighted"):
        made[f"trees: {kind}"] = Cell(functools.partial(same_trees, kind), 60.0)
    made["launches: forest"] = Cell(forest_launches, 60.0)
    for kind in ("boosting", "weighted"):
        made[f"launches: {kind}"] = Cell(functools.partial(boosted_launches, kind), 60.0)
    made["blocks"] = Cell(blocks_that_share)
    made["copies"] = Cell(copies)
    made["lambdas"] = Cell(lambda_steps, 60.0)
    for name in ("GBRT", "LambdaMART", "forest"):
        made[f"fit: {name}"] = Cell(functools.partial(fit_of, name, SIZES.rows, "cuda", 16), 60.0)
    made["broof"] = Cell(broof, 130.0)
    for name in ("GBRT", "LambdaMART", "forest", "broof"):
        made[f"profile: {name}"] = Cell(functools.partial(profile, name), 60.0)
    for n_rows in SIZES.scored:
        made[f"scoring: {n_rows}"] = Cell(functools.partial(scoring, n_rows), 120.0)
    for n_rows in SIZES.table:
        made[f"table: {n_rows} cuda"] = Cell(functools.partial(fits, n_rows, "cuda", 16), 60.0)
        for count in threads:
            run = functools.partial(fits, n_rows, "cpu", count)
            made[f"table: {n_rows} cpu {count}"] = Cell(run, 120.0)
    return made


def say(message: dict[str, Any]) -> None:
    """Tell the process that started this one."""
    sys.stdout.write(f"\n{MARK}{json.dumps(message, default=str)}\n")
    sys.stdout.flush()


def is_usable() -> bool:
    """Whether the GPU answers: after some errors it does not, in this process."""
    try:
        device.wait()
        return bool(device.download(device.zeros(3, np.int32)).sum() == 0)
    except Exception:
        return False


def run_cells(names: list[str], ends: float) -> None:
    """Run cells until the time is up."""
    known = cells()
    say({"ready": True})
    for name in names:
        if time.time() > ends:
            say({"late": name})
            continue
        cell = known[name]
        say({"begin": name, "limit": cell.limit})
        start = time.perf_counter()
        try:
            result: Any = cell.run()
            message = {"end": name, "result": result}
        except RankwoodError as error:
            message = {"end": name, "error": repr(error), "traceback": traceback.format_exc()}
        except Exception as error:
            message = {"end": name, "error": repr(error), "traceback": traceback.format_exc()}
            if not is_usable():
                say({**message, "unusable": True})
                os._exit(3)  # what holds memory of the GPU could not give it back
        say({**message, "seconds": round(time.perf_counter() - start, 2)})
    say({"finished": True})


@contextlib.contextmanager
def emulated() -> Iterator[None]:
    """Little of everything, on the emulator of the tests."""
    from tests.cuda.emulator import emulated_cupy

    for one in dataclasses.fields(Sizes):
        setattr(SIZES, one.name, getattr(DRY, one.name))
    device.LARGEST_BLOCK = 64
    growing._LEAST_SUMS = 200
    with emulated_cupy():
        yield


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cells", required=True, help="names, as a list of JSON")
    options.add_argument("--ends", type=float, default=float("inf"), help="start none after")
    options.add_argument("--dry", action="store_true")
    given = options.parse_args()
    with emulated() if given.dry else contextlib.nullcontext():
        run_cells(json.loads(given.cells), given.ends)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
