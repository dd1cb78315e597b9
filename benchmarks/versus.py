"""Two versions of the package side by side: ``python -m benchmarks.versus PATH``.

``PATH`` is the ``src`` folder of the other version, such as that of a worktree of an earlier commit. Each version runs
in a process of its own. The two processes make their data, call each task once to compile and to fill caches, and then
take turns, call by call, so that a noisy moment hits both. The ratio of a task is the median over the turns of this
version's time divided by the other's; several pairs of processes give several medians, because where a process lies in
memory moves its times by a few percent. Tasks use public names only, so that old versions can run them. A digest of
what each task gives is compared too: it must be the same in both versions.
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

from benchmarks.common import PUBLISHED_GBRT, keep, median

ROOT = Path(__file__).parents[1]
N_THREADS = 2
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
    forest = rw.RandomForest(100, 100, seed=1, n_threads=N_THREADS).fit(small_binned)
    scores = np.asarray(forest.predict(data))

    def model(ranker: Any, on: Any) -> Callable[[], Any]:
        return lambda: ranker.fit(on).predict(small)

    every: dict[str, Any] = {"seed": 1, "n_threads": N_THREADS}
    return {
        "read_letor": lambda: rw.read_letor(text, cache=False).features,
        "bin": lambda: rw.bin(data).codes,
        "RandomForest": model(rw.RandomForest(20, 100, **every), binned),
        "ExtraTrees": model(rw.ExtraTrees(20, 100, **every), binned),
        "CompletelyRandomForest": model(rw.CompletelyRandomForest(10, **every), binned),
        "GBRT": model(rw.GBRT(20, **PUBLISHED_GBRT, **every), binned),
        "LambdaMART": model(rw.LambdaMART(20, l2=0.0, **every), binned),
        "AveragedGBRT": model(
            rw.AveragedGBRT(10, 10, max_leaves=8, features_per_node=0.1, **every), binned
        ),
        "BROOF": model(
            rw.BROOF("gradient", n_rounds=4, n_trees=10, max_leaves=100, **every), binned
        ),
        "NDCGBoost": model(rw.NDCGBoost(10, **every), small_binned),
        "RankBoost": model(rw.RankBoost(50, n_threads=N_THREADS), small_binned),
        "AdaBoost": model(rw.AdaBoost(20, **every), small_binned),
        "AdaRank": model(rw.AdaRank(n_rounds=20, n_threads=N_THREADS), small),
        "RankSVM": model(rw.RankSVM(n_threads=N_THREADS), small),
        "BoostingTree": model(rw.BoostingTree(budget=150, search="hull", **every), small_binned),
        "Exp3P": model(rw.Exp3P(n_rounds=60, **every), small_binned),
        "DeepForest": model(
            rw.DeepForest(n_trees=10, max_leaves=100, max_layers=2, **every), small
        ),
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


def serve() -> None:
    """What a process does: for each line with a task's name, call the task and print its seconds and digest."""
    every = tasks()
    print(json.dumps(list(every)), flush=True)
    for line in sys.stdin:
        run = every[line.strip()]
        gc.collect()
        start = time.perf_counter()
        try:
            given = run()
            answer: Any = [time.perf_counter() - start, _digest(given)]
        except (AttributeError, TypeError) as error:  # this version has no such thing
            answer = [None, f"{type(error).__name__}: {error}"]
        print(json.dumps(answer), flush=True)


class Version:
    """A process that imports the package from ``source``."""

    def __init__(self, source: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.versus", "--serve"]
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names = list(self._read())

    def call(self, name: str) -> tuple[float | None, str]:
        """The seconds of one call, and the digest of its result."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        seconds, digest = self._read()
        return seconds, digest

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process ended before its time")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def compare(name: str, this: Version, other: Version, n_turns: int) -> dict[str, Any] | None:
    """The median ratio of one task over the turns; None if a version cannot run it."""
    digests = [version.call(name)[1] for version in (this, other)]
    seconds = []
    for turn in range(n_turns):
        order = (this, other) if turn % 2 else (other, this)
        taken = {version: version.call(name)[0] for version in order}
        if taken[this] is None or taken[other] is None:
            print(f"{name:<24} not comparable: {digests}")
            return None
        seconds.append((taken[this], taken[other]))
    ratio = median([mine / theirs for mine, theirs in seconds])
    return {
        "seconds": median([mine for mine, _ in seconds]),
        "ratio": ratio,
        "is_same": digests[0] == digests[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the src folder of the other version")
    parser.add_argument("tasks", nargs="*", help="some of the tasks; all by default")
    parser.add_argument("--pairs", type=int, default=3, help="pairs of processes")
    parser.add_argument("--turns", type=int, default=11, help="calls of a task in each process")
    parser.add_argument("--name", default="versus", help="of the kept result")
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {}
    for pair in range(arguments.pairs):
        this, other = Version(ROOT / "src"), Version(arguments.other.resolve())
        print(f"\npair {pair + 1} of {arguments.pairs}")
        for name in arguments.tasks or this.names:
            result = compare(name, this, other, arguments.turns)
            if result is not None:
                found.setdefault(name, []).append(result)
                keep(arguments.name, {task: figures(of) for task, of in found.items()})
                print(describe(name, found[name]), flush=True)
        this.close()
        other.close()


def figures(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a task that are kept."""
    ratios = [result["ratio"] for result in results]
    return {
        "seconds": median([result["seconds"] for result in results]),
        "ratio": median(ratios),
        "ratios": ratios,
        "is_same": all(result["is_same"] for result in results),
    }


def describe(name: str, results: list[dict[str, Any]]) -> str:
    """A line for the screen."""
    kept = figures(results)
    pairs = " ".join(f"{ratio:.3f}" for ratio in kept["ratios"])
    mark = "" if kept["ratio"] <= LIMIT else "  SLOWER"
    same = "" if kept["is_same"] else "  OTHER RESULT"
    return f"{name:<24} {kept['seconds']:8.4f} s, {kept['ratio']:.3f} of the other's  ({pairs}){mark}{same}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve()
    else:
        main()
