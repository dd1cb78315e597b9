"""Data larger than memory: binning files and training on the folder, against the same at 1,000,000 rows.

``python -m benchmarks.bench_disk --rows 20_000_000 --limit 570 --out disk.json`` generates Parquet files of WEB10K's
shape (136 features), bins them, and grows a LambdaMART and a forest of 10 trees each from the folder. Every step runs
in a process of its own, whose peak memory is taken: *own* memory (anonymous pages, which the step needs) apart from
*mapped* pages (the page cache's, which the system takes back when it needs them). XGBoost's ExtMemQuantileDMatrix on
the same files stands beside it. The last lines are the table of docs/guides/disk.md.

Bars: time per tree and row at most 1.5× that of 1,000,000 rows; binning in at most 1 GB; training in at most
1.3 × codes + 40 bytes a row, the codes being mapped. At 20 million rows the files take 11 GB, the folder 3.5 GB and
XGBoost's cache about 3 GB. Where the disk or the time of ``--limit`` does not suffice, fewer rows are taken, and it
says so. What is known is printed, and written to ``--out``, after every step.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import keep, machine, versions

N_FEATURES = 136
FILE_ROWS = 100_000
SMALL = 1_000_000
TREES = 10
RANKERS = ("LambdaMART", "RandomForest")
QUERIES_OF_FILE = FILE_ROWS // 120
BYTES_PER_ROW = {  # on the disk
    "files": 4 * N_FEATURES + 12,
    "folder": N_FEATURES + 40,
    "XGBoost's cache": N_FEATURES + 16,
}
SHARE_FOR_FILES = 0.3  # of the time limit that may go into files
SHARE_FOR_SMALL_XGBOOST = 0.25  # of the time that is left, at most
RESERVE = 0.85  # of the time that is left may be planned for


# Steps, each of which runs in a process of its own.


def generate(folder: Path, n_rows: int, seconds: float = float("inf")) -> dict[str, Any]:
    """Parquet files with about ``n_rows`` rows in all, as many as ``seconds`` suffice for; those there are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    number_of_files = -(-n_rows // FILE_ROWS)
    missing = [n for n in range(number_of_files) if not _path(folder, n).exists()]
    end = time.monotonic() + seconds
    if len(missing) <= 2:
        for number in missing:
            write_file(folder, number)
        return {"files": number_of_files}
    context = multiprocessing.get_context("spawn")
    n_workers = min(len(missing), len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(n_workers, context, _one_thread) as pool:
        writing = [pool.submit(write_file, folder, number) for number in missing]
        for done in as_completed(writing):
            if done.cancelled():
                continue
            done.result()
            if time.monotonic() > end:
                pool.shutdown(wait=True, cancel_futures=True)
    known = [_path(folder, number).exists() for number in range(number_of_files)]
    return {"files": known.index(False) if False in known else number_of_files}


def _one_thread() -> None:
    os.environ["RANKWOOD_THREADS"] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"


def _path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.parquet"


def write_file(folder: Path, number: int) -> None:
    """One of the files, of about ``FILE_ROWS`` rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rankwood.data import synthetic

    columns = synthetic.make_columns(N_FEATURES, 82, None, 1)
    shares = np.array(synthetic.WEB10K_LABEL_SHARES)
    sizes = synthetic.draw_sizes(QUERIES_OF_FILE, 120, 1000 + number)
    plan = synthetic.RowPlan(1000 + number, sizes, columns, 0.9)
    features, relevance = synthetic.draw_rows(plan)
    labels = synthetic.grade(relevance, sizes, shares, 0.03, 1000 + number)
    first_query = 1 + number * QUERIES_OF_FILE
    queries = np.repeat(np.arange(first_query, first_query + QUERIES_OF_FILE), sizes)
    arrays = [pa.array(queries), pa.array(labels), *map(pa.array, features.T.copy())]
    table = pa.table(arrays, ["qid", "label", *columns.names])
    unfinished = _path(folder, number).with_suffix(".unfinished")
    pq.write_table(table, unfinished, 1 << 16, compression="lz4", use_dictionary=False)
    unfinished.rename(_path(folder, number))


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
    """Grow trees on a binned folder; gives the nanoseconds per tree and row.

    The trees of a forest grow side by side, one on each thread, so that its time is that of the whole fit.
    """
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
    per_tree = (ends[-1] - ends[1]) / (TREES - 2)
    if ranker == "RandomForest":
        per_tree = (ends[-1] - start) / TREES
    per_row = per_tree / binned.n_rows * 1e9
    found = {"rows": binned.n_rows, "seconds": seconds, "seconds_per_tree": per_tree}
    return {**found, "ns": per_row, "before_mb": before.own}


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
            rows = np.empty((table.num_rows, N_FEATURES), np.float32)
            for number in range(N_FEATURES):
                rows[:, number] = table.column(2 + number).to_numpy()
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
    found = {"rows": n_read, "seconds_to_bin": seconds_to_bin, "seconds_per_tree": per_tree}
    return {**found, "seconds": time.perf_counter() - start, "ns": per_tree / n_read * 1e9}


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


def step(
    name: str, folder: Path, n_rows: int, *more: str, seconds: float | None = None
) -> dict[str, Any]:
    """The outcome of a step that runs in a process of its own, with its peak memory."""
    call = [sys.executable, "-m", "benchmarks.bench_disk", "--step", name, *more]
    call += ["--folder", str(folder), "--rows", str(n_rows)]
    try:
        outcome = subprocess.run(
            call, stdout=subprocess.PIPE, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no end within {seconds:.0f} s"}
    if outcome.returncode != 0:
        return {"failed": f"exit status {outcome.returncode}"}
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
        steps = {"bin": bin_files, "xgboost": train_xgboost}
        found = steps[name](folder, n_rows)
    peak.look()
    print(json.dumps({"before_mb": before, **found, "own_mb": peak.own, "all_mb": peak.all}))


# The run.


class Run:
    """Steps one after the other, as far as the time goes; what is known is printed and written as it comes."""

    def __init__(self, folder: Path, limit: float, out: Path | None) -> None:
        self.folder = folder
        self.out = out
        self.end = time.monotonic() + limit
        self.result: dict[str, Any] = {}

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(1.0, self.end - time.monotonic())

    def note(self, line: str, **found: Any) -> None:
        """Print a line, and write what is known."""
        print(line, flush=True)
        self.result |= found
        if self.out is not None:
            record = {"result": self.result, "machine": machine(), "versions": versions()}
            self.out.write_text(json.dumps(record, indent=2) + "\n")

    def generate(self, n_rows: int) -> int:
        """Make the files; gives the rows that they have."""
        start = time.perf_counter()
        files = generate(self.folder, n_rows, SHARE_FOR_FILES * self.left)["files"]
        n_rows = min(n_rows, files * FILE_ROWS)
        seconds = time.perf_counter() - start
        self.note(
            f"{n_rows:,} rows generated in {seconds:.0f} s to {self.folder}",
            seconds_to_generate=seconds,
        )
        return n_rows

    def measure(self, n_rows: int) -> dict[str, Any]:
        """Bin and train at one size."""
        found = {"bin": step("bin", self.folder, n_rows, seconds=self.left)}
        binned = found["bin"]
        if "failed" in binned:
            self.note(
                f"{n_rows:,} rows were not binned: {binned['failed']}", **{str(n_rows): found}
            )
            return found
        self.note(
            f"{binned['rows']:,} rows binned in {binned['seconds']:.0f} s, opened in "
            f"{1000 * binned['seconds_to_open']:.0f} ms; peak memory {binned['own_mb']:.0f} MB of its own (bar 1024), "
            f"{binned['all_mb']:.0f} MB with mapped pages",
            **{str(n_rows): found},
        )
        for ranker in RANKERS:
            trained = step("train", self.folder, n_rows, "--ranker", ranker, seconds=self.left)
            found[ranker] = trained
            if "failed" in trained:
                self.note(f"  {ranker:<13} failed: {trained['failed']}")
                continue
            own = (trained["own_mb"] - trained["before_mb"]) * 2**20 / trained["rows"]
            trained["own_bytes_a_row"] = own
            allowed = 0.3 * N_FEATURES + 40
            self.note(
                f"  {ranker:<13} {trained['ns']:6.1f} ns per tree and row, {trained['seconds']:.0f} s in all; "
                f"own memory {own:.0f} bytes a row (bar {allowed:.0f}), {trained['all_mb']:.0f} MB with mapped pages"
            )
        return found

    def xgboost(self, n_rows: int, seconds: float) -> dict[str, Any]:
        """XGBoost's external memory at one size."""
        other = step("xgboost", self.folder, n_rows, seconds=seconds)
        found = {f"xgboost {n_rows}": other}
        if "failed" in other:
            self.note(f"  XGBoost at {n_rows:,} rows failed: {other['failed']}", **found)
        else:
            self.note(
                f"  XGBoost       {other['ns']:6.1f} ns per tree and row at {other['rows']:,} rows, binned in "
                f"{other['seconds_to_bin']:.0f} s; peak memory {other['own_mb']:.0f} MB of its own, "
                f"{other['all_mb']:.0f} MB with mapped pages",
                **found,
            )
        return other

    def that_fits(self, wanted: int, small: int, seconds: float, least: int) -> int:
        """As many of the ``wanted`` rows as there is time for, if ``small`` ones take ``seconds``."""
        fitting = RESERVE * self.left / seconds * small
        return min(wanted, max(least, int(fitting) // FILE_ROWS * FILE_ROWS))


def rows_for_disk(folder: Path, n_rows: int) -> int:
    """As many of the rows as the disk has room for."""
    folder.mkdir(parents=True, exist_ok=True)
    of_row = sum(BYTES_PER_ROW.values())
    there = sum(path.stat().st_size for path in folder.glob("part-*.parquet"))
    free = shutil.disk_usage(folder).free + there
    parts = ", ".join(f"{name} {n_rows * n / 1e9:.1f}" for name, n in BYTES_PER_ROW.items())
    print(f"disk: {n_rows * of_row / 1e9:.1f} GB are needed ({parts}), {free / 1e9:.1f} are free")
    return min(n_rows, int(0.95 * free / of_row) // FILE_ROWS * FILE_ROWS)


def table(result: dict[str, Any], sizes: list[int]) -> str:
    """The table of the guide."""
    lines = [
        "| rows | step | seconds | ns per tree and row | own memory, MB |",
        "|---|---|---|---|---|",
    ]
    for size in sizes:
        found = dict(result.get(str(size), {}))
        found["XGBoost, ExtMemQuantileDMatrix"] = result.get(f"xgboost {size}", {"failed": ""})
        for name, one in found.items():
            if "failed" not in one:
                what = "binning" if name == "bin" else name
                ns = f"{one['ns']:.1f}" if "ns" in one else ""
                lines.append(
                    f"| {one['rows']:,} | {what} | {one['seconds']:.0f} | {ns} | {one['own_mb']:.0f} |"
                )
    return "\n".join(lines)


def _arguments() -> Any:
    def number(text: str) -> int:
        return int(text.replace("_", ""))

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=number, default=300_000)
    parser.add_argument("--folder", type=Path, help="where the files go, and stay; else temporary")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds; fewer rows if too few")
    parser.add_argument("--out", type=Path, help="write the result there as it comes")
    parser.add_argument("--only-files", action="store_true", help="make the Parquet files alone")
    parser.add_argument("--no-xgboost", action="store_true")
    parser.add_argument("--keep", action="store_true", help="store the result")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--ranker", help=argparse.SUPPRESS)
    return parser.parse_args()


def compare(asked: Any, folder: Path) -> dict[str, Any]:
    """The whole comparison; gives the result."""
    this = Run(folder, asked.limit, asked.out)
    this.note("", rows_asked=asked.rows)
    n_rows = this.generate(rows_for_disk(folder, asked.rows))
    if asked.only_files:
        return this.result
    small = min(SMALL, max(FILE_ROWS, n_rows // 3 // FILE_ROWS * FILE_ROWS))
    begun = time.monotonic()
    few = this.measure(small)
    ours = time.monotonic() - begun
    theirs = 0.0
    if not asked.no_xgboost:
        begun = time.monotonic()
        is_done = "failed" not in this.xgboost(small, SHARE_FOR_SMALL_XGBOOST * this.left)
        theirs = time.monotonic() - begun if is_done else 0.0
    many_rows = this.that_fits(n_rows, small, ours, small)
    if many_rows < n_rows:
        this.note(f"the time suffices for {many_rows:,} rows of {n_rows:,}")
    sizes = [small, many_rows]
    if many_rows > small:
        many = this.measure(many_rows)
        for ranker in RANKERS:
            if "ns" in few.get(ranker, {}) and "ns" in many.get(ranker, {}):
                ratio = many[ranker]["ns"] / few[ranker]["ns"]
                this.note(
                    f"{ranker}: {ratio:.2f}× the time per tree and row of {small:,} rows (bar 1.5)",
                    **{f"ratio_{ranker}": ratio},
                )
    if theirs:
        fitting = this.that_fits(many_rows, small, theirs, 0)
        if fitting > small:
            this.xgboost(fitting, this.left)
            sizes.append(fitting)
        else:
            this.note(f"XGBoost: no time for more than {small:,} rows")
    this.note("", rows=many_rows, small=small)
    print(table(this.result, sorted(set(sizes))), flush=True)
    return this.result


def main() -> None:
    asked = _arguments()
    if asked.step is not None:
        run_step(asked.step, asked.folder, asked.rows, asked.ranker)
        return
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="bench-disk-"))
    try:
        result = compare(asked, folder)
        if asked.keep and not asked.only_files:
            keep("bench_disk", result)
    finally:
        if asked.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
