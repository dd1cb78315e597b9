"""A Dask cluster of two workers of one thread, beside one process of two threads, and LightGBM on the same workers.

``python -m benchmarks.bench_dask --rows 720000`` generates data of WEB10K's shape (136 features) and trains

* a forest of 100 leaves by trees (bar: at most 1.15 times the time of one process) and by rows (1.4),
* a LambdaMART of 31 leaves by rows (1.6),

and LightGBM's ``DaskLGBMRanker`` on the same workers in the same run (bar for ours: 0.7 of its time). Data are read and
distributed before, and everything is compiled. It also says whether models change with the number of workers. The
machine must have two cores to spare: the client and three processes share them otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_disk import generate
from benchmarks.common import keep, median

TREES = {"forest": 40, "lambdamart": 20}
BARS = {"forest by trees": 1.15, "forest by rows": 1.4, "lambdamart by rows": 1.6}


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


def digest(model: Any) -> str:
    forest = model.forest_
    content = b"".join(
        getattr(forest, name).tobytes() for name in ("feature", "threshold", "value")
    )
    return hashlib.sha256(content).hexdigest()[:12]


def ours(client: Any, folder: Path, repeats: int) -> dict[str, Any]:
    import rankwood as rw

    result: dict[str, Any] = {}
    binned = rw.open_binned(folder)
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


def lightgbm(client: Any, data: Any, n_trees: int) -> tuple[float, str]:
    """Seconds of ``DaskLGBMRanker`` on whole queries in one chunk per worker, and a digest of its model."""
    import dask.array as da
    import lightgbm as lgb

    n_workers = len(client.scheduler_info(n_workers=-1)["workers"])
    offsets = np.searchsorted(
        data.query_offsets, [data.n_documents * n // n_workers for n in range(n_workers + 1)]
    )
    rows = data.query_offsets[offsets]
    sizes = np.diff(data.query_offsets)
    chunks = tuple(np.diff(rows).tolist())
    features = da.from_array(data.features, (chunks, (data.n_features,)))
    labels = da.from_array(data.labels.astype(int), (chunks,))
    groups = da.from_array(sizes, (tuple(np.diff(offsets).tolist()),))
    features, labels, groups = client.persist([features, labels, groups])
    model = lgb.DaskLGBMRanker(
        n_estimators=n_trees, num_leaves=31, client=client, verbose=-1, n_jobs=1
    )
    seconds, _ = seconds_of(lambda: model.fit(features, labels, group=groups))
    trees = model.booster_.model_to_string().split("parameters:")[0]
    return seconds, hashlib.sha256(trees.encode()).hexdigest()[:12]


def together_in_memory(files: list[Path]) -> Any:
    """All files as one data set in memory."""
    import rankwood as rw

    tables = [rw.read_table(file) for file in files]
    columns = (
        [getattr(each, name) for each in tables] for name in ("features", "labels", "query_ids")
    )
    return rw.RankingData(*map(np.concatenate, columns))


def peers(result: dict[str, Any], clusters: Any, data: Any) -> None:
    """LightGBM's time on two workers, and its models on one to three."""
    try:
        models = {}
        for n_workers in (1, 2, 3):
            with clusters(n_workers) as client:
                lightgbm(client, data, 2)
                seconds, models[n_workers] = lightgbm(client, data, TREES["lambdamart"])
                if n_workers == 2:
                    result["seconds DaskLGBMRanker"] = seconds
                    result["ratio to DaskLGBMRanker"] = (
                        result["seconds lambdamart by rows"] / seconds
                    )
        result["models of DaskLGBMRanker by workers"] = models
        print(
            f"DaskLGBMRanker: {result['seconds DaskLGBMRanker']:.1f} s; ours takes "
            f"{result['ratio to DaskLGBMRanker']:.2f} of it; its models for 1, 2, 3 workers: {models}"
        )
    except Exception as error:  # another library on this version of Dask
        result["DaskLGBMRanker"] = f"{type(error).__name__}: {error}"
        print(f"DaskLGBMRanker did not run: {result['DaskLGBMRanker']}")


def main() -> None:
    import contextlib

    import distributed

    import rankwood as rw

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=720_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--keep", action="store_true", help="store the result")
    arguments = parser.parse_args()

    @contextlib.contextmanager
    def clusters(n_workers: int) -> Any:
        with (
            distributed.LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client

    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        generate(folder, arguments.rows)
        files = sorted(folder.glob("part-*.parquet"))
        rw.bin_files(files, folder / "binned")
        with clusters(2) as client:
            result = {"rows": arguments.rows, **ours(client, folder / "binned", arguments.repeats)}
        data = together_in_memory(files)
        result["rows of peers"] = data.n_documents
        peers(result, clusters, data)
    if arguments.keep:
        keep("dask", result)


if __name__ == "__main__":
    main()
