"""A Dask cluster of workers of one thread: beside one process, and beside LightGBM and XGBoost on the same workers.

``python -m benchmarks.bench_dask`` generates data of WEB10K's shape (100,000 rows × 136; ``--full``: 720,000 rows) and

* compares two workers with one process of two threads: a forest of 100 leaves by trees (bar: at most 1.15 times the
  time) and by rows (1.4), a LambdaMART of 31 leaves by rows (1.6);
* trains LightGBM's ``DaskLGBMRanker`` and ``DaskLGBMRegressor``, XGBoost's ``DaskXGBRanker``, and ours by rows, on 1, 2
  and 3 workers in the same clusters, one after the other. It prints the ratios of time (bar: ours takes at most 0.7 of
  LightGBM's on two workers), and whether the bytes of the models, and the NDCG@10 of held-out queries, change with the
  number of workers;
* with ``--scaling 1,2,4,8`` measures milliseconds a tree on so many workers, for docs/guides/cluster.md.

Data are read and distributed before, and everything is compiled. The machine must have two cores to spare: the client
and the workers share them otherwise. Peers that are not installed are skipped, and named.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_disk import FILE_ROWS, generate
from benchmarks.common import keep, machine, median, versions

TREES = {"forest": 40, "lambdamart": 20}
BARS = {"forest by trees": 1.15, "forest by rows": 1.4, "lambdamart by rows": 1.6}
PEER_BAR = 0.7
WORKERS = (1, 2, 3)
PAIRS = {
    "LightGBM DaskLGBMRanker": "Rankwood LambdaMART",
    "LightGBM DaskLGBMRegressor": "Rankwood GBRT",
    "XGBoost DaskXGBRanker": "Rankwood LambdaMART",
}


def ranker(kind: str, n_trees: int | None = None, **options: Any) -> Any:
    import rankwood as rw

    n_trees = n_trees or TREES[kind]
    if kind == "forest":
        return rw.RandomForest(n_trees, max_leaves=100, **options)
    return rw.LambdaMART(n_trees, **options)


def seconds_of(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def digest(model: Any) -> str:
    forest = model.forest_
    names = ("feature", "threshold", "value")
    return short(b"".join(getattr(forest, name).tobytes() for name in names))


@contextlib.contextmanager
def cluster_of(n_workers: int) -> Iterator[Any]:
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


# Beside one process.


def beside_one_process(folder: Path, repeats: int) -> dict[str, Any]:
    """Two workers of one thread beside one process of two."""
    import rankwood as rw

    result: dict[str, Any] = {}
    binned = rw.open_binned(folder)
    with cluster_of(2) as client:
        for kind, by in (("forest", "trees"), ("forest", "rows"), ("lambdamart", "rows")):
            train = rw.distribute(client, folder, by=by)
            ranker(kind, 2).fit(train)
            ranker(kind, 2, n_threads=2).fit(binned)
            alone, together = [], []
            for _ in range(repeats):
                seconds, one = seconds_of(lambda kind=kind: ranker(kind, n_threads=2).fit(binned))
                alone.append(seconds)
                seconds, other = seconds_of(lambda kind=kind, train=train: ranker(kind).fit(train))
                together.append(seconds)
            name = f"{kind} by {by}"
            result[f"seconds {name}"] = median(together)
            result[f"ratio {name}"] = median([b / a for a, b in zip(alone, together, strict=True)])
            result[f"same bytes {name}"] = digest(one) == digest(other)
            print(
                f"{name:<22} {result[f'ratio {name}']:.2f} of one process (bar {BARS[name]}), "
                f"same bytes: {result[f'same bytes {name}']}",
                flush=True,
            )
    return result


def scaling(folder: Path, numbers: list[int], repeats: int) -> dict[str, Any]:
    """Milliseconds a tree by the number of workers."""
    import rankwood as rw

    found: dict[str, Any] = {}
    for n_workers in numbers:
        with cluster_of(n_workers) as client:
            for kind, by in (("forest", "trees"), ("forest", "rows"), ("lambdamart", "rows")):
                train = rw.distribute(client, folder, by=by)
                ranker(kind, 2).fit(train)
                taken = [
                    seconds_of(lambda kind=kind, train=train: ranker(kind).fit(train))[0]
                    for _ in range(repeats)
                ]
                found.setdefault(f"{kind} by {by}", {})[str(n_workers)] = (
                    median(taken) / TREES[kind] * 1e3
                )
        print(
            f"{n_workers} workers, ms a tree: "
            + ", ".join(f"{name} {of[str(n_workers)]:.0f}" for name, of in found.items()),
            flush=True,
        )
    return found


# Beside peers.


@dataclass(frozen=True)
class Trained:
    """What came of a fit: a digest of the model, and scores of the held-out rows."""

    model: str
    scores: Any


@dataclass(frozen=True)
class Dealt:
    """Training data as the workers of a cluster have them: ours, and Dask arrays of one chunk per worker."""

    client: Any
    ours: Any
    features: Any
    labels: Any
    group_sizes: Any
    queries: Any


def deal(client: Any, folder: Path, data: Any) -> Dealt:
    """The rows dealt to all workers, queries whole."""
    import dask
    import dask.array as da

    import rankwood as rw

    addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
    shares = [data.n_documents * n // len(addresses) for n in range(len(addresses) + 1)]
    offsets = np.searchsorted(data.query_offsets, shares)

    def dealt(values: Any, edges: Any) -> Any:
        chunks = []
        for address, first, last in zip(addresses, edges[:-1], edges[1:], strict=True):
            own = np.ascontiguousarray(values[first:last])
            [there] = client.scatter([own], workers=[address])
            chunks.append(da.from_delayed(dask.delayed(there), own.shape, own.dtype))
        return da.concatenate(chunks)

    rows = data.query_offsets[offsets]
    sizes = np.diff(data.query_offsets)
    queries = np.repeat(np.arange(sizes.size), sizes)
    arrays = [
        dealt(data.features, rows),
        dealt(data.labels.astype(np.int32), rows),
        dealt(sizes, offsets),
        dealt(queries, rows),
    ]
    return Dealt(client, rw.distribute(client, folder, by="rows"), *client.persist(arrays))


def ours(name: str, dealt: Dealt, n_trees: int, held_out: Any) -> Trained:
    import rankwood as rw

    make = {"Rankwood LambdaMART": rw.LambdaMART, "Rankwood GBRT": rw.GBRT}[name]
    model = make(n_trees, max_leaves=31, learning_rate=0.1).fit(dealt.ours)
    return Trained(digest(model), lambda: model.predict(held_out))


def lightgbm(name: str, dealt: Dealt, n_trees: int, held_out: Any) -> Trained:
    import lightgbm as lgb

    options = {"n_estimators": n_trees, "num_leaves": 31, "learning_rate": 0.1, "n_jobs": 1}
    options |= {"client": dealt.client, "verbose": -1}
    if name.endswith("Ranker"):
        model = lgb.DaskLGBMRanker(**options)
        model.fit(dealt.features, dealt.labels, group=dealt.group_sizes)
    else:
        model = lgb.DaskLGBMRegressor(**options).fit(dealt.features, dealt.labels)
    trees = model.booster_.model_to_string().split("parameters:")[0]
    return Trained(short(trees.encode()), lambda: model.booster_.predict(held_out.features))


def xgboost(_: str, dealt: Dealt, n_trees: int, held_out: Any) -> Trained:
    import xgboost as xgb
    import xgboost.dask

    model = xgb.dask.DaskXGBRanker(
        n_estimators=n_trees,
        max_leaves=31,
        max_depth=0,
        grow_policy="lossguide",
        tree_method="hist",
        max_bin=255,
        learning_rate=0.1,
        n_jobs=1,
        allow_group_split=True,  # no chunk splits one
    )
    model.client = dealt.client
    model.fit(dealt.features, dealt.labels, qid=dealt.queries)
    booster = model.get_booster()
    trees = bytes(booster.save_raw("ubj"))
    return Trained(short(trees), lambda: booster.inplace_predict(held_out.features))


CONTESTANTS: dict[str, tuple[str, Callable[..., Trained]]] = {
    "Rankwood LambdaMART": ("rankwood", ours),
    "Rankwood GBRT": ("rankwood", ours),
    "LightGBM DaskLGBMRanker": ("lightgbm", lightgbm),
    "LightGBM DaskLGBMRegressor": ("lightgbm", lightgbm),
    "XGBoost DaskXGBRanker": ("xgboost", xgboost),
}


def quality(scores: Any, held_out: Any) -> float:
    import rankwood as rw

    measured = rw.evaluate(np.asarray(scores, float), held_out, "ndcg@10", n_bootstrap=0)
    return float(measured["ndcg@10"].value)


def beside_peers(folder: Path, data: Any, held_out: Any, repeats: int) -> dict[str, Any]:
    """Time, model and NDCG@10 of all contestants by the number of workers."""
    found: dict[str, Any] = {name: {} for name in CONTESTANTS}
    for n_workers in WORKERS:
        with cluster_of(n_workers) as client:
            dealt = deal(client, folder, data)
            running = {}
            for name, (package, train) in CONTESTANTS.items():
                if importlib.util.find_spec(package) is None:
                    found[name] = {"skipped": f"{package} is not installed"}
                    continue
                try:
                    train(name, dealt, 2, held_out)
                except Exception as error:  # another library on this version of Dask
                    found[name] = {"skipped": f"{type(error).__name__}: {error}"}
                else:
                    running[name] = train
            seconds: dict[str, list[float]] = {name: [] for name in running}
            models: dict[str, list[str]] = {name: [] for name in running}
            scores = {}
            for _ in range(repeats):
                for name, train in running.items():
                    taken, trained = seconds_of(
                        lambda name=name, train=train, dealt=dealt: train(
                            name, dealt, TREES["lambdamart"], held_out
                        )
                    )
                    seconds[name].append(taken)
                    models[name].append(trained.model)
                    scores[name] = trained.scores
            for name in running:
                ndcg = quality(scores[name](), held_out)
                found[name][str(n_workers)] = {
                    "seconds": median(seconds[name]),
                    "models": sorted(set(models[name])),
                    "ndcg@10": ndcg,
                }
                print(
                    f"{n_workers} workers  {name:<27} {median(seconds[name]):7.2f} s   model "
                    f"{', '.join(sorted(set(models[name])))}   NDCG@10 {ndcg:.6f}",
                    flush=True,
                )
    return found


def table(found: dict[str, Any]) -> tuple[str, dict[str, float]]:
    """The table of the guide, and the ratios of time to the peers on two workers."""
    ratios = {}
    lines = [
        f"| trees by rows | seconds on {', '.join(map(str, WORKERS))} workers | different models | NDCG@10 |",
        "|---|---|---|---|",
    ]
    for name, by_workers in found.items():
        if "skipped" in by_workers:
            lines.append(f"| {name} | skipped: {by_workers['skipped']} | | |")
            continue
        seconds = ", ".join(f"{each['seconds']:.1f}" for each in by_workers.values())
        models = {model for each in by_workers.values() for model in each["models"]}
        ndcg = ", ".join(f"{each['ndcg@10']:.4f}" for each in by_workers.values())
        is_same = len({each["ndcg@10"] for each in by_workers.values()}) == 1
        lines.append(
            f"| {name} | {seconds} | {len(models)} | {'always ' if is_same else ''}"
            f"{ndcg.split(',')[0] if is_same else ndcg} |"
        )
        own = found[PAIRS[name]] if name in PAIRS else {}
        if "2" in own and "2" in by_workers:
            ratios[f"ratio to {name}"] = own["2"]["seconds"] / by_workers["2"]["seconds"]
    return "\n".join(lines), ratios


# The run.


def in_memory(files: list[Path]) -> Any:
    """All files as one data set in memory."""
    import rankwood as rw

    tables = [rw.read_table(file) for file in files]
    names = ("features", "labels", "query_ids")
    columns = ([getattr(each, name) for each in tables] for name in names)
    return rw.RankingData(*map(np.concatenate, columns))


def main() -> None:
    import rankwood as rw

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows",
        type=lambda text: int(text.replace("_", "")),
        default=100_000,
        help="in hundred thousands; more are made to be held out",
    )
    parser.add_argument("--full", action="store_true", help="720,000 rows, the size of the bars")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", choices=["process", "peers"], help="one of the two comparisons")
    parser.add_argument("--scaling", default="", help="numbers of workers, such as 1,2,4,8")
    parser.add_argument("--out", type=Path, help="write the result there as it comes")
    parser.add_argument("--keep", action="store_true", help="store the result")
    asked = parser.parse_args()
    n_rows = 720_000 if asked.full else asked.rows
    result: dict[str, Any] = {"rows": n_rows, "trees": TREES, "repeats": asked.repeats}

    def write() -> None:
        if asked.out is not None:
            record = {"result": result, "machine": machine(), "versions": versions()}
            asked.out.write_text(json.dumps(record, indent=2) + "\n")

    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        generate(folder, n_rows + FILE_ROWS)
        files = sorted(folder.glob("part-*.parquet"))[: -(-n_rows // FILE_ROWS) + 1]
        rw.bin_files(files[:-1], folder / "binned")
        if asked.only != "peers":
            result |= beside_one_process(folder / "binned", asked.repeats)
            write()
        if asked.scaling:
            numbers = [int(number) for number in asked.scaling.split(",")]
            result["ms a tree by workers"] = scaling(folder / "binned", numbers, asked.repeats)
            write()
        if asked.only != "process":
            found = beside_peers(
                folder / "binned", in_memory(files[:-1]), in_memory(files[-1:]), asked.repeats
            )
            lines, ratios = table(found)
            result |= {"peers": found, **ratios}
            write()
            print("\n" + lines + "\n", flush=True)
            for name, ratio in ratios.items():
                print(f"{name}: {ratio:.2f} on two workers (bar {PEER_BAR})")
    if asked.keep:
        keep("bench_dask", result)


if __name__ == "__main__":
    main()
