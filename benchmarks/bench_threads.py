"""Every part of the package with 1, 2, 4, 8 and 16 threads, beside LightGBM where it has the same.

Run as ``python -m benchmarks.bench_threads [--threads 1,2,4] [--rows 720000,180000] [--budget 480] [--quick]
[--simulate 16]``. What is found on two cores (``taskset -c 0,1``) is kept beside what is found on more. Numbers of
threads beyond the cores of this process are left out unless ``--threads`` names them. Training is timed per tree:
boosting from the first tree to the last, forests as a whole with more trees on more threads, binning and compiling
apart. Models of every number of threads are compared and must be equal. ``--budget`` is the number of seconds after
which the run ends: each part is repeated as often as its share allows, at least once. ``--simulate`` adds what so
many threads would take if threads cost nothing (``benchmarks.simulated``), for the parts that do not train.
``--quick`` takes small data and keeps nothing. Without LightGBM only our side is timed; without matplotlib there is
no plot.

Bars, with 16 threads on 16 cores: boosting and LambdaMART at most 0.8 of LightGBM's time and at least 7 times as fast
as one thread; every other part at least 8 times as fast as one thread.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib.util
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks import bench_boosting, bench_forest, bench_lambdamart
from benchmarks.bench_scoring import convert
from benchmarks.common import PUBLISHED_GBRT, RESULTS, keep, median
from benchmarks.simulated import alone, simulated
from benchmarks.training import ndcg
from rankwood._core.threads import usable_cores
from rankwood.losses.lambdarank import LambdaRank
from rankwood.models.shapley import contributions

NAME = "bench_threads"
THREADS = (1, 2, 4, 8, 16)
ROWS = (720_000, 180_000)
QUICK_ROWS = (9_600,)
DOCUMENTS, FEATURES = 120, 136  # per query, and per document: WEB10K's shape
TEST_QUERIES = 500
BUDGET = 480.0
RESERVE = 0.06  # of the budget, for drawing and for a last repeat that takes longer
MOST_REPEATS = 5
BOOSTED_TREES = 8
MODEL_TREES, MODEL_LEAVES = 100, 31  # of the model that scores and is explained
MODEL_ROWS = 24_000
EXPLAINED_ROWS = 4_000
TEXT_QUERIES, TEXT_COPIES = 200, 8  # written once, and repeated with other query ids: some 240 MB
HAS_LIGHTGBM = importlib.util.find_spec("lightgbm") is not None

OURS, THEIRS = "rankwood", "lightgbm"
Run = Callable[[int], Any]  # with a number of threads


@dataclass(frozen=True)
class Part:
    """Something to be timed: our call and theirs, for a number of threads.

    A call that gives a float says itself how long it took, per tree; other calls are timed.
    """

    name: str
    rows: int
    sides: dict[str, Run]
    weight: float = 1.0  # its share of the budget, against other parts
    trains: bool = False

    @property
    def title(self) -> str:
        """Its name in tables."""
        return f"{self.name}, {self.rows:,} rows"


# The parts.


class Trained:
    """One method on both sides: seconds per tree, and the last models."""

    def __init__(
        self, ours: Any, theirs: dict[str, Any], data: tuple[Any, Any, rw.RankingData], whole: bool
    ) -> None:
        self.ranker, self.settings = ours, theirs
        self.binned, self.dataset, self.test = data
        self.is_whole = whole  # the whole fit is divided by its trees, which grow side by side
        self.models: dict[str, Any] = {}
        self.digests: set[str] = set()

    def n_trees(self, n_threads: int) -> int:
        """Trees of a fit: enough that each thread has some."""
        return max(8, 4 * n_threads) if self.is_whole else BOOSTED_TREES

    def ours(self, n_threads: int) -> float:
        """Seconds a tree."""
        stamps = [time.perf_counter()]
        changes = {"n_trees": self.n_trees(n_threads), "n_threads": n_threads}
        self.ranker.set_params(**changes, progress=lambda _: stamps.append(time.perf_counter()))
        self.models[OURS] = self.ranker.fit(self.binned)
        stamps.append(time.perf_counter())
        if not self.is_whole:
            self.digests.add(digest(self.ranker.forest_))
        return self._per_tree(stamps)

    def theirs(self, n_threads: int) -> float:
        """Seconds a tree."""
        import lightgbm

        stamps = [time.perf_counter()]
        self.models[THEIRS] = lightgbm.train(
            {**self.settings, "num_threads": n_threads},
            self.dataset,
            self.n_trees(n_threads),
            callbacks=[lambda _: stamps.append(time.perf_counter())],
        )
        stamps.append(time.perf_counter())
        return self._per_tree(stamps)

    def _per_tree(self, stamps: list[float]) -> float:
        """From the start, the end of each tree, and the end."""
        n_trees = len(stamps) - 2
        if self.is_whole:
            return (stamps[-1] - stamps[0]) / n_trees
        return (stamps[-2] - stamps[1]) / (n_trees - 1)

    def quality(self) -> dict[str, float]:
        """NDCG@10 of the last models."""
        return {
            name: ndcg(model.predict(self.test.features), self.test)
            for name, model in self.models.items()
        }


def digest(forest: Any) -> str:
    """Of the arrays that make scores."""
    arrays = (forest.feature, forest.threshold, forest.left, forest.value)
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def training_parts(
    train: rw.RankingData, test: rw.RankingData, n_threads: int
) -> Iterator[tuple[Part, Trained]]:
    """Forest, boosting and LambdaMART on data binned once."""
    binned = rw.bin(train, n_threads=n_threads)
    methods = {
        "boosting": (rw.GBRT(100, 31, seed=1, **PUBLISHED_GBRT), bench_boosting.LIGHTGBM),
        "LambdaMART": (
            rw.LambdaMART(max_leaves=31, l2=0.0, truncation=30, seed=1),
            bench_lambdamart.LIGHTGBM,
        ),
        "forest": (
            rw.RandomForest(max_leaves=100, features_per_node=0.3, seed=1),
            bench_forest.LIGHTGBM,
        ),
    }
    for name, (ranker, fixed) in methods.items():
        settings = {**fixed, "num_threads": n_threads}
        dataset = lightgbm_dataset(train, settings) if HAS_LIGHTGBM else None
        trained = Trained(ranker, settings, (binned, dataset, test), name == "forest")
        sides: dict[str, Run] = {OURS: trained.ours}
        if HAS_LIGHTGBM:
            sides[THEIRS] = trained.theirs
        weight = max(1.0, 8.0 * train.n_documents / max(ROWS))
        yield Part(name, train.n_documents, sides, weight, trains=True), trained


def lightgbm_dataset(data: rw.RankingData, settings: dict[str, Any]) -> Any:
    import lightgbm

    sizes = np.diff(data.query_offsets)
    return lightgbm.Dataset(data.features, data.labels, group=sizes, params=settings).construct()


def other_parts(data: rw.RankingData, folder: Path, quick: bool) -> Iterator[Part]:
    """All that does not train, on the largest data."""
    n_rows = data.n_documents
    ours, theirs = a_model(data)
    scores = np.asarray(ours.predict(data))
    losses = {}  # what does not depend on scores is computed once

    def lambdas(n_threads: int) -> None:
        loss = losses.setdefault(n_threads, LambdaRank(data, n_threads=n_threads))
        loss.gradients(scores)

    def part(name: str, rows: int, run: Run, peer: Run | None = None) -> Part:
        sides = {OURS: run}
        if peer is not None and HAS_LIGHTGBM:
            sides[THEIRS] = peer
        return Part(name, rows, sides)

    def construct(source: Any, n_threads: int) -> None:
        import lightgbm

        settings = {"max_bin": 255, "num_threads": n_threads, "verbosity": -1}
        lightgbm.Dataset(source, params=settings).construct()

    explained = np.ascontiguousarray(data.features[: EXPLAINED_ROWS // (8 if quick else 1)])
    yield part("lambdas", n_rows, lambdas)
    yield part(
        "binning",
        n_rows,
        lambda n: rw.bin(data, n_threads=n),
        lambda n: construct(data.features, n),
    )
    yield part(
        "scoring",
        n_rows,
        lambda n: ours.predict(data, n_threads=n),
        lambda n: theirs.predict(data.features, num_threads=n),
    )
    yield part(
        "SHAP",
        len(explained),
        lambda n: contributions(ours, explained, n_threads=n),
        lambda n: theirs.predict(explained, pred_contrib=True, num_threads=n),
    )
    yield part("measures", n_rows, lambda n: rw.evaluate(scores, data, n_bootstrap=0, n_threads=n))
    yield part(
        "evaluation with intervals", n_rows, lambda n: rw.evaluate(scores, data, n_threads=n)
    )
    text, plain, rows = write_text(data, folder, quick)
    yield part("parsing", rows, lambda n: rw.read_letor(text, cache=False, n_threads=n))
    yield part(
        "text to bins",
        rows,
        lambda n: rw.bin(rw.read_letor(text, cache=False, n_threads=n), n_threads=n),
        lambda n: construct(str(plain), n),
    )


def a_model(data: rw.RankingData) -> tuple[Any, Any]:
    """The same trees on both sides, or ours alone."""
    rows = min(data.n_documents, MODEL_ROWS)
    few = data.take_queries(range(rows // DOCUMENTS))
    if not HAS_LIGHTGBM:
        ranker = rw.GBRT(MODEL_TREES, MODEL_LEAVES, seed=1, **PUBLISHED_GBRT)
        return ranker.fit(few).forest_, None
    import lightgbm

    settings = {"objective": "regression", "num_leaves": MODEL_LEAVES, "verbosity": -1}
    booster = lightgbm.train(settings, lightgbm_dataset(few, settings), MODEL_TREES)
    return convert(booster), booster


def write_text(data: rw.RankingData, folder: Path, quick: bool) -> tuple[Path, Path, int]:
    """A LETOR file, the same without query ids, which LightGBM does not read there, and their rows."""
    n_queries, n_copies = (20, 1) if quick else (TEXT_QUERIES, TEXT_COPIES)
    text, plain = folder / "data.txt", folder / "plain.txt"
    part = data.take_queries(range(n_queries))
    rw.write_letor(part, text)
    content = text.read_bytes()
    with text.open("wb") as ours, plain.open("wb") as theirs:
        for copy in range(n_copies):
            ours.write(content.replace(b" qid:", f" qid:{copy + 1}000".encode()))
            theirs.write(re.sub(rb" qid:\d+", b"", content))
    return text, plain, n_copies * part.n_documents


# Timing within a budget.


class Budget:
    """Seconds for the whole run, shared by parts according to their weights."""

    def __init__(self, seconds: float) -> None:
        self._end = time.perf_counter() + seconds * (1.0 - RESERVE)

    def left(self) -> float:
        """Seconds that are left."""
        return self._end - time.perf_counter()

    def share(self, weight: float, weights_left: float) -> float:
        """Seconds for a part of this weight, of all weights that are left."""
        return self.left() * weight / max(weight, weights_left)


def time_part(
    part: Part, threads: list[int], allowed: float, repeats: int
) -> dict[str, dict[int, float]]:
    """Median seconds of each side at each number of threads; all are run in turn, at least once."""
    taken: dict[str, dict[int, list[float]]] = {
        side: {n: [] for n in threads} for side in part.sides
    }
    for run in part.sides.values():
        run(max(threads))  # compiles, and touches the data
    start = time.perf_counter()
    for repeat in range(repeats):
        for n_threads in sorted(threads):
            for side, run in part.sides.items():
                taken[side][n_threads].append(_seconds(run, n_threads))
        if (time.perf_counter() - start) * (repeat + 2) / (repeat + 1) > allowed:
            break
    print(f"  {repeat + 1} runs each")
    return {
        side: {n: median(seconds) for n, seconds in of_side.items()}
        for side, of_side in taken.items()
    }


def _seconds(run: Run, n_threads: int) -> float:
    gc.collect()
    start = time.perf_counter()
    given = run(n_threads)
    seconds = time.perf_counter() - start
    return given if isinstance(given, float) else seconds


def describe(part: Part, seconds: dict[str, dict[int, float]]) -> dict[str, Any]:
    """The figures of a part, printed and to be kept."""
    for side, of_side in seconds.items():
        fastest = of_side.get(1)
        cells = [
            f"{n:>2}: {1e3 * value:9.2f}" + (f" ({fastest / value:4.1f}x)" if fastest else "")
            for n, value in sorted(of_side.items())
        ]
        print(f"  {side:<10} ms{' a tree' if part.trains else ''}  " + "  ".join(cells))
    found: dict[str, Any] = {
        "rows": part.rows,
        "seconds": {
            side: {str(n): value for n, value in of.items()} for side, of in seconds.items()
        },
        "speed_up": {
            side: {str(n): of[1] / value for n, value in of.items()}
            for side, of in seconds.items()
            if 1 in of
        },
    }
    if THEIRS in seconds:
        ratios = {n: seconds[OURS][n] / seconds[THEIRS][n] for n in sorted(seconds[OURS])}
        found["ratio"] = {str(n): ratio for n, ratio in ratios.items()}
        print("  ratio      " + "  ".join(f"{n:>2}: {ratio:.2f}" for n, ratio in ratios.items()))
    return found


def simulate(part: Part, n_threads: int, repeats: int) -> dict[str, float]:
    """One thread, and ``n_threads`` that cost nothing, in turn; the least of each, which noise moves least."""
    run = part.sides[OURS]
    run(1)
    pairs = [(alone(run), simulated(run, n_threads)) for _ in range(repeats)]
    one, many = (min(column) for column in zip(*pairs, strict=True))
    print(
        f"  simulated  1: {1e3 * one:.2f} ms, {n_threads}: {1e3 * many:.2f} ms ({one / many:.1f}x)"
    )
    return {"one": one, "many": many, "speed_up": one / many}


def draw(result: dict[str, Any], name: str) -> None:
    """Speed-ups by threads, a panel per part; skipped without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no plot: matplotlib is not installed")
        return
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "rankwood", "svg.fonttype": "none", "font.size": 8}
    from matplotlib import pyplot as plt

    parts = {title: part for title, part in result["parts"].items() if part["speed_up"]}
    n_rows = -(-len(parts) // 4)
    figure, grid = plt.subplots(n_rows, 4, figsize=(11, 2.4 * n_rows), squeeze=False)
    for axes in grid.flat[len(parts) :]:
        axes.axis("off")
    for axes, (title, part) in zip(grid.flat, parts.items(), strict=False):
        for side, style in ((OURS, "o-"), (THEIRS, "s--")):
            of_side = part["speed_up"].get(side, {})
            axes.plot([int(n) for n in of_side], list(of_side.values()), style, label=side, ms=3)
        axes.plot(result["threads"], result["threads"], ":", color="0.6", label="ideal")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(result["threads"], [str(n) for n in result["threads"]])
        axes.set_title(title, fontsize=8)
        axes.grid(alpha=0.3)
    grid[0, 0].legend(fontsize=7)
    grid[0, 0].set_ylabel("times as fast as one thread")
    figure.tight_layout()
    path = RESULTS / f"{name}.svg"
    figure.savefig(path, format="svg", metadata={"Date": None})
    print(f"plot: {path}")


# The run.


@dataclass
class Session:
    """What all parts of a run share, and what has been found."""

    threads: list[int]
    budget: Budget
    weights_left: float
    repeats: int
    n_simulated: int | None
    result: dict[str, Any]

    def time(self, part: Part, trained: Trained | None = None) -> None:
        """Time a part, print it and note it."""
        allowed = self.budget.share(part.weight, self.weights_left)
        self.weights_left -= part.weight
        print(f"\n{part.title}", flush=True)
        if self.budget.left() <= 0.0:
            print("  left out: the budget is spent")
            return
        found = describe(part, time_part(part, self.threads, allowed, self.repeats))
        if trained is not None:
            found["test_ndcg@10"] = trained.quality()
            n_trees = trained.n_trees(max(self.threads))
            print(f"  test NDCG@10 of {n_trees} trees: {found['test_ndcg@10']}")
            found["same_model"] = len(trained.digests) <= 1
            if not found["same_model"]:
                print("  ERROR: the model depends on the number of threads")
        elif self.n_simulated is not None:
            found["simulated"] = simulate(part, self.n_simulated, self.repeats)
        self.result["parts"][part.title] = found
        for n, ratio in found.get("ratio", {}).items():
            self.result[f"ratio {part.title}, {n} threads"] = ratio


def chosen_threads(text: str | None) -> list[int]:
    """The numbers of threads to time."""
    cores = usable_cores()
    named = [int(number) for number in text.split(",")] if text else []
    if any(number < 1 for number in named):
        raise SystemExit(f"--threads needs whole numbers of at least 1, got {text}.")
    return sorted(set(named) or {n for n in THREADS if n <= cores})


def run_all(options: argparse.Namespace) -> dict[str, Any]:
    budget = Budget(options.budget)
    threads = chosen_threads(options.threads)
    sizes = [int(number) for number in options.rows.split(",")] if options.rows else None
    sizes = sorted(sizes or (QUICK_ROWS if options.quick else ROWS), reverse=True)
    n_queries = max(sizes) // DOCUMENTS
    n_test = 50 if options.quick else TEST_QUERIES
    start = time.perf_counter()
    everything = rw.make_ranking(n_queries + n_test, DOCUMENTS, FEATURES, seed=1)
    data = everything.take_queries(range(n_queries))
    test = everything.take_queries(range(n_queries, n_queries + n_test))
    del everything
    print(f"{data}, threads {threads}, made in {time.perf_counter() - start:.1f} s")
    training_weights = sum(3 * max(1.0, 8.0 * n / max(ROWS)) for n in sizes)
    session = Session(
        threads,
        budget,
        8.0 + training_weights,
        3 if options.quick else MOST_REPEATS,
        options.simulate,
        {"threads": threads, "features": FEATURES, "parts": {}},
    )
    with tempfile.TemporaryDirectory() as folder:
        for part in other_parts(data, Path(folder), options.quick):
            session.time(part)
    for n_rows in sizes:
        rows = data if n_rows == max(sizes) else data.take_queries(range(n_rows // DOCUMENTS))
        for part, trained in training_parts(rows, test, max(threads)):
            session.time(part, trained)
    session.result["seconds"] = time.perf_counter() - start
    return session.result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--threads", help="numbers of threads, such as 1,2,4")
    parser.add_argument("--rows", help="rows that models are trained on, such as 720000,180000")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of the whole run")
    parser.add_argument("--quick", action="store_true", help="small data; nothing is kept")
    parser.add_argument(
        "--simulate",
        type=int,
        metavar="N",
        help="also what N threads would take if threads cost nothing",
    )
    options = parser.parse_args()
    result = run_all(options)
    print(f"\n{result['seconds']:.0f} s")
    if not options.quick:
        name = f"{NAME}_2_cores" if usable_cores() <= 2 else NAME
        keep(name, result)
        draw(result, name)


if __name__ == "__main__":
    main()
