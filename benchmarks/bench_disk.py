"""Data larger than memory: binning files and training on the folder, against the same at 1,000,000 rows.

``python -m benchmarks.bench_disk --rows 20000000`` generates Parquet files of WEB10K's shape (136 features), bins them,
and grows a LambdaMART and a forest of 10 trees each from the folder. Every step runs in a process of its own, whose
peak memory is taken: *own* memory (anonymous pages, which the step needs) apart from *mapped* pages (the page cache's,
which the system takes back when it needs them). XGBoost's ExtMemQuantileDMatrix on the same files stands beside it.

Bars: time per tree and row at most 1.5× that of 1,000,000 rows; binning in at most 1 GB; training in at most
1.3 × codes + 40 bytes a row, the codes being mapped. At 20 million rows the files take 11 GB, the folder 3.3 GB.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import keep

N_FEATURES = 136
FILE_ROWS = 100_000
SMALL = 1_000_000
TREES = 10
RANKERS = ("LambdaMART", "RandomForest")


# Steps, each of which runs in a process of its own.


def generate(folder: Path, n_rows: int) -> dict[str, Any]:
    """Parquet files with ``n_rows`` rows in all; those that are there are kept."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rankwood.data import synthetic

    columns = synthetic.make_columns(N_FEATURES, 82, None, 1)
    shares = np.array(synthetic.WEB10K_LABEL_SHARES)
    folder.mkdir(parents=True, exist_ok=True)
    first_query = 1
    for number in range(-(-n_rows // FILE_ROWS)):
        n_queries = min(FILE_ROWS, n_rows - number * FILE_ROWS) // 120
        sizes = synthetic.draw_sizes(n_queries, 120, 1000 + number)
        path = folder / f"part-{number:05d}.parquet"
        if not path.exists():
            plan = synthetic.RowPlan(1000 + number, sizes, columns, 0.9)
            features, relevance = synthetic.draw_rows(plan)
            labels = synthetic.grade(relevance, sizes, shares, 0.03, 1000 + number)
            queries = np.repeat(np.arange(first_query, first_query + n_queries), sizes)
            arrays = [pa.array(queries), pa.array(labels), *map(pa.array, features.T.copy())]
            table = pa.table(arrays, ["qid", "label", *columns.names])
            unfinished = path.with_suffix(".unfinished")
            pq.write_table(table, unfinished, 1 << 16, compression="lz4", use_dictionary=False)
            unfinished.rename(path)
        first_query += n_queries
    return {}


def bin_files(folder: Path, n_rows: int) -> dict[str, Any]:
    """Bin the first files, as many as hold ``n_rows`` rows."""
    import rankwood as rw

    target = folder / f"bin-{n_rows}"
    shutil.rmtree(target, ignore_errors=True)
    start = time.perf_counter()
    binned = rw.bin_files(_files(folder, n_rows), target)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    rw.open_binned(target)
    opened = time.perf_counter() - start
    return {"rows": binned.n_rows, "seconds": seconds, "seconds_to_open": opened}


def train(folder: Path, n_rows: int, ranker: str) -> dict[str, Any]:
    """Grow trees on a binned folder; gives the nanoseconds per tree and row."""
    import rankwood as rw

    binned = rw.open_binned(folder / f"bin-{n_rows}")
    tiny = rw.make_ranking(3, 5, N_FEATURES, seed=1)
    limits = {"LambdaMART": {"max_leaves": 31}, "RandomForest": {"max_leaves": 100}}[ranker]
    getattr(rw, ranker)(n_trees=2, **limits).fit(tiny)  # compiled now, and not counted
    before = Peak()
    before.look()  # with everything that is compiled and imported
    ends: list[float] = []
    start = time.perf_counter()
    model = getattr(rw, ranker)(
        n_trees=TREES, callbacks=[lambda _: ends.append(time.perf_counter()) and None], **limits
    )
    model.fit(binned)
    seconds = time.perf_counter() - start
    first, last = ends[1], ends[-1]  # two threads: the first two trees of a forest come at once
    per_tree = (last - first) / (len(ends) - 2)
    per_row = per_tree / binned.n_rows * 1e9
    return {"rows": binned.n_rows, "seconds": seconds, "ns": per_row, "before_mb": before.own}


def train_xgboost(folder: Path, n_rows: int) -> dict[str, Any]:
    """The same with XGBoost, from the same files: 10 trees of at most 31 leaves."""
    import pyarrow.parquet as pq
    import xgboost as xgb

    class Files(xgb.DataIter):
        def __init__(self) -> None:
            self.paths = _files(folder, n_rows)
            self.number = 0
            super().__init__(cache_prefix=str(folder / "xgboost"))

        def next(self, input_data: Any) -> bool:
            if self.number == len(self.paths):
                return False
            table = pq.read_table(self.paths[self.number])
            rows = np.column_stack(
                [table.column(i).to_numpy() for i in range(2, table.num_columns)]
            )
            input_data(
                data=rows,
                label=table.column("label").to_numpy(),
                qid=table.column("qid").to_numpy(),
            )
            self.number += 1
            return True

        def reset(self) -> None:
            self.number = 0

    start = time.perf_counter()
    data = xgb.ExtMemQuantileDMatrix(Files(), max_bin=255)
    seconds_to_bin = time.perf_counter() - start
    ends: list[float] = []

    class Clock(xgb.callback.TrainingCallback):
        def after_iteration(self, *_: Any) -> bool:
            ends.append(time.perf_counter())
            return False

    parameters = {"objective": "rank:ndcg", "max_leaves": 31, "max_depth": 0, "eta": 0.1}
    parameters |= {"grow_policy": "lossguide", "tree_method": "hist", "max_bin": 255}
    xgb.train(parameters, data, TREES, callbacks=[Clock()])
    per_tree = (ends[-1] - ends[1]) / (len(ends) - 2)
    n_read = data.num_row()
    return {"rows": n_read, "seconds_to_bin": seconds_to_bin, "ns": per_tree / n_read * 1e9}


def _files(folder: Path, n_rows: int) -> list[Path]:
    return sorted(folder.glob("part-*.parquet"))[: -(-n_rows // FILE_ROWS)]


# Memory.


class Peak(threading.Thread):
    """Watches the memory of this process: the most of its own, and of all, in megabytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.own = self.all = 0.0

    def run(self) -> None:
        """Look every 10 milliseconds."""
        while True:
            self.look()
            time.sleep(0.01)

    def look(self) -> None:
        """Take the memory of now into account."""
        with open("/proc/self/status") as file:
            lines = dict(line.split(":", 1) for line in file)
        own, mapped = (int(lines[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile"))
        self.own, self.all = max(self.own, own), max(self.all, own + mapped)


def step(name: str, folder: Path, n_rows: int, *more: str) -> dict[str, Any]:
    """The outcome of a step that runs in a process of its own, with its peak memory."""
    call = [sys.executable, "-m", "benchmarks.bench_disk", "--step", name, *more]
    call += ["--folder", str(folder), "--rows", str(n_rows)]
    outcome = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=False)
    if outcome.returncode != 0:
        return {"failed": True}
    found: dict[str, Any] = json.loads(outcome.stdout.splitlines()[-1])
    return found


def run_step(name: str, folder: Path, n_rows: int, ranker: str | None) -> None:
    """Run a step in this process, and print what it gives."""
    import rankwood as rw

    rw.make_ranking(2, 5, 3)  # what is imported is no part of the data
    peak = Peak()
    peak.look()
    before = peak.own
    peak.start()
    if name == "train":
        assert ranker is not None
        found = train(folder, n_rows, ranker)
    else:
        steps = {"generate": generate, "bin": bin_files, "xgboost": train_xgboost}
        found = steps[name](folder, n_rows)
    peak.look()
    print(json.dumps({"before_mb": before, **found, "own_mb": peak.own, "all_mb": peak.all}))


def measure(folder: Path, n_rows: int, with_xgboost: bool) -> dict[str, Any]:
    """Bin and train at one size."""
    found = {"bin": step("bin", folder, n_rows)}
    binned = found["bin"]
    print(
        f"{binned['rows']:,} rows binned in {binned['seconds']:.0f} s, "
        f"opened in {1000 * binned['seconds_to_open']:.0f} ms; "
        f"peak memory {binned['own_mb']:.0f} MB of its own, {binned['all_mb']:.0f} MB with mapped pages"
    )
    for ranker in RANKERS:
        found[ranker] = trained = step("train", folder, n_rows, "--ranker", ranker)
        own = (trained["own_mb"] - trained["before_mb"]) * 2**20 / trained["rows"]
        allowed = 0.3 * N_FEATURES + 40
        print(
            f"  {ranker:<13} {trained['ns']:6.0f} ns per tree and row, {trained['seconds']:.0f} s in all; own memory "
            f"{own:.0f} bytes a row (bar {allowed:.0f}), {trained['all_mb']:.0f} MB with mapped pages"
        )
        trained["own_bytes_a_row"] = own
    if with_xgboost:
        found["xgboost"] = other = step("xgboost", folder, n_rows)
        if other.get("failed"):
            print("  XGBoost       failed")
        else:
            print(
                f"  XGBoost       {other['ns']:6.0f} ns per tree and row, binned in {other['seconds_to_bin']:.0f} s; "
                f"peak memory {other['own_mb']:.0f} MB of its own, {other['all_mb']:.0f} MB with mapped pages"
            )
    return found


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=lambda text: int(text.replace("_", "")), default=300_000)
    parser.add_argument("--folder", type=Path, help="where the files go, and stay; else temporary")
    parser.add_argument("--no-xgboost", action="store_true")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--ranker", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    asked = _arguments()
    if asked.step is not None:
        run_step(asked.step, asked.folder, asked.rows, asked.ranker)
        return
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="bench-disk-"))
    small = min(SMALL, max(100_000, asked.rows // 3))
    try:
        start = time.perf_counter()
        step("generate", folder, asked.rows)
        print(f"{asked.rows:,} rows generated in {time.perf_counter() - start:.0f} s to {folder}")
        with_xgboost = not asked.no_xgboost
        result = {str(size): measure(folder, size, with_xgboost) for size in (small, asked.rows)}
        ratios = {}
        for ranker in RANKERS:
            few, many = (result[str(size)][ranker]["ns"] for size in (small, asked.rows))
            ratios[f"ratio_{ranker}"] = many / few
            print(
                f"{ranker}: {many / few:.2f}× the time per tree and row of {small:,} rows (bar 1.5)"
            )
        if asked.rows > SMALL:
            keep("bench_disk", {"rows": asked.rows, **result, **ratios})
    finally:
        if asked.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
