"""Two versions of the package side by side: ``python -m benchmarks.versus PATH``.

``PATH`` is the ``src`` folder of the other version, such as that of a worktree of an earlier commit. Each version
runs in processes of its own, which take turns, so that a noisy moment hits both. A process makes its data, calls each
task once to compile and to fill caches, and then times it; the ratio of a task is the median over processes of this
version's time, divided by that of the other version. Tasks use public names only, so that old versions can run them.
A digest of what each task gives is compared too: it must be the same in both versions.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common import keep, median

ROOT = Path(__file__).parents[1]
N_THREADS = 2
REPEATS = 3  # timed calls of a task in each process; the least counts
LIMIT = 1.03  # a task slower than this is marked


def tasks() -> dict[str, Callable[[], Any]]:
    """What is timed, by name; each gives something that can be digested."""
    import numpy as np

    import rankwood as rw

    data = rw.make_ranking(n_queries=4_000, docs_per_query=40, n_features=60, seed=1)
    small = rw.make_ranking(n_queries=800, docs_per_query=40, n_features=60, seed=2)
    binned, small_binned = rw.bin(data), rw.bin(small)
    folder = tempfile.mkdtemp()
    text = os.path.join(folder, "data.txt")
    rw.write_letor(data, text)
    forest = rw.RandomForest(100, seed=1, n_threads=N_THREADS).fit(small_binned)
    scores = np.asarray(forest.predict(data))

    def model(ranker: Any, on: Any) -> Callable[[], Any]:
        return lambda: ranker.fit(on).predict(small)

    every: dict[str, Any] = {"seed": 1, "n_threads": N_THREADS}
    return {
        "read_letor": lambda: rw.read_letor(text, cache=False).features,
        "bin": lambda: rw.bin(data).codes,
        "RandomForest": model(rw.RandomForest(20, **every), binned),
        "ExtraTrees": model(rw.ExtraTrees(20, **every), binned),
        "CompletelyRandomForest": model(rw.CompletelyRandomForest(10, **every), binned),
        "GBRT": model(rw.GBRT(20, **every), binned),
        "LambdaMART": model(rw.LambdaMART(20, **every), binned),
        "BROOF": model(rw.BROOF("gradient", n_rounds=4, n_trees=10, **every), binned),
        "NDCGBoost": model(rw.NDCGBoost(10, **every), small_binned),
        "RankBoost": model(rw.RankBoost(50, n_threads=N_THREADS), small_binned),
        "AdaBoost": model(rw.AdaBoost(20, **every), small_binned),
        "AdaRank": model(rw.AdaRank(n_rounds=20, n_threads=N_THREADS), small),
        "RankSVM": model(rw.RankSVM(n_threads=N_THREADS), small),
        "BoostingTree": model(rw.BoostingTree(budget=150, **every), small_binned),
        "Exp3P": model(rw.Exp3P(n_rounds=60, **every), small_binned),
        "DeepForest": model(rw.DeepForest(n_trees=10, max_layers=2, **every), small),
        "score": lambda: forest.predict(data),
        "evaluate": lambda: [
            rw.evaluate(scores, data, name)[name].value
            for name in ("ndcg@10", "map", "err", "p@5", "auc")
        ],
        "explain": lambda: rw.explain(forest, small.take_rows(np.arange(2_000))).contributions,
        "save and load": lambda: _saved(forest, os.path.join(folder, "model.rankwood")),
    }


def _saved(model: Any, path: str) -> Any:
    import rankwood as rw

    for _ in range(10):
        rw.save(model, path)
        rw.load(path)
    return Path(path).read_bytes()


def _digest(value: Any) -> str:
    import numpy as np

    content = value if isinstance(value, bytes) else np.ascontiguousarray(value).tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def time_tasks(chosen: list[str]) -> None:
    """What a process does: print seconds and digest of each task as JSON."""
    result: dict[str, Any] = {}
    for name, run in tasks().items():
        if chosen and name not in chosen:
            continue
        try:
            digest, seconds = _digest(run()), []
            for _ in range(REPEATS):
                gc.collect()
                start = time.perf_counter()
                run()
                seconds.append(time.perf_counter() - start)
            result[name] = [min(seconds), digest]
        except (AttributeError, TypeError) as error:  # this version has no such thing
            result[name] = [None, f"{type(error).__name__}: {error}"]
    json.dump(result, sys.stdout)


def run_process(source: Path, chosen: list[str]) -> dict[str, Any]:
    """The seconds and digests of one process that imports the package from ``source``."""
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.versus", "--time", *chosen]
    outcome = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if outcome.returncode:
        raise SystemExit(outcome.stderr[-2000:])
    return dict(json.loads(outcome.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the src folder of the other version")
    parser.add_argument("tasks", nargs="*", help="some of the tasks; all by default")
    parser.add_argument("--processes", type=int, default=5, help="processes of each version")
    arguments = parser.parse_args()
    sources = {"this": ROOT / "src", "other": arguments.other.resolve()}
    seconds: dict[str, dict[str, list[float]]] = {}
    digests: dict[str, dict[str, str]] = {}
    for turn in range(arguments.processes):
        for version, source in sources.items():
            for name, (taken, digest) in run_process(source, arguments.tasks).items():
                digests.setdefault(name, {})[version] = digest
                if taken is not None:
                    seconds.setdefault(name, {}).setdefault(version, []).append(taken)
        print(f"\nafter turn {turn + 1} of {arguments.processes}")
        kept = report(seconds, digests)
    keep("versus", kept)


def report(
    seconds: dict[str, dict[str, list[float]]], digests: dict[str, dict[str, str]]
) -> dict[str, Any]:
    """Print a line for each task; gives the figures to be kept."""
    kept: dict[str, Any] = {}
    for name, by_version in digests.items():
        times = seconds.get(name, {})
        if set(times) != {"this", "other"}:
            print(f"{name:<24} not comparable: {by_version}")
            continue
        this, other = median(times["this"]), median(times["other"])
        ratio, least = this / other, min(times["this"]) / min(times["other"])
        same = by_version["this"] == by_version["other"]
        mark = ("" if ratio <= LIMIT or least <= LIMIT else "  SLOWER") + (
            "" if same else "  OTHER RESULT"
        )
        print(
            f"{name:<24} {this:8.4f} s / {other:8.4f} s = {ratio:.3f}  (of the least: {least:.3f}){mark}"
        )
        kept[name] = {"seconds": this, "ratio": ratio, "ratio_of_least": least, "is_same": same}
    return kept


if __name__ == "__main__":
    if sys.argv[1:2] == ["--time"]:
        time_tasks(sys.argv[2:])
    else:
        main()
