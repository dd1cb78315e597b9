"""What the experiment bench itself costs: 1,000 cells of tiny fits.

A cell's overhead is what a run takes besides reading, fitting, scoring and measuring, divided by its cells. Memory is
that of this process, and of the workers, after 100, 500 and 1,000 cells: it must not grow with them.

``python -m benchmarks.bench_experiment [CELLS]``
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import rankwood as rw
from benchmarks.common import keep

N_CELLS = 1000
MARKS = (0.1, 0.5, 1.0)  # of the cells: when memory is looked at


def configuration(n_cells: int) -> dict[str, Any]:
    """Five folds, two algorithms of three trees, and as many repetitions as it takes."""
    return {
        "data": {"generate": {"queries": 50, "docs": 10, "features": 10}, "folds": 5},
        "run": {"repetitions": n_cells // 10, "seed": 1},
        "measures": {"primary": "ndcg@10", "also": ["map", "err"]},
        "algorithm": [
            {"name": "RF", "kind": "RandomForest", "n_trees": 3, "max_leaves": 8},
            {"name": "GBRT", "kind": "GBRT", "n_trees": 3, "max_leaves": 8},
        ],
    }


def resident_memory() -> int:
    """Bytes of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def measure(n_cells: int, jobs: int) -> dict[str, Any]:
    """Overhead per cell, and memory on the way."""
    memory: dict[str, dict[str, float]] = {}
    started: list[float] = []

    def look(news: Any) -> None:
        done = news.done + news.failed
        if done == 1:
            started.append(time.perf_counter())  # workers are up, and kernels compiled
        for mark in MARKS:
            if done == round(mark * n_cells):
                worker = news.record["peak_memory"] if jobs else 0
                memory[str(done)] = {
                    "this process, MiB": resident_memory() / 2**20,
                    "a worker, MiB": worker / 2**20,
                }

    with tempfile.TemporaryDirectory() as folder:
        results = rw.run_experiment(
            configuration(n_cells), out=Path(folder) / "run", jobs=jobs, progress=look
        )
        seconds = time.perf_counter() - started[0]
        start = time.perf_counter()
        rw.read_run(Path(folder) / "run")
        reading = time.perf_counter() - start
    working = sum(sum(cell.seconds.values()) for cell in results.cells[1:])
    assert all(cell.status == "done" for cell in results.cells)
    overhead = (seconds - working / max(1, jobs)) / (n_cells - 1)
    return {
        "seconds": seconds,
        "working_seconds": working,
        "overhead_ms_per_cell": 1000 * overhead,
        "reading_the_run_seconds": reading,
        "memory": memory,
    }


def main() -> None:
    is_given = len(sys.argv) > 1 and sys.argv[1].isdecimal()
    n_cells = int(sys.argv[1]) if is_given else N_CELLS
    result: dict[str, Any] = {"cells": n_cells}
    for jobs in (0, 2):
        found = measure(n_cells, jobs)
        result[f"jobs_{jobs}"] = found
        where = f"{jobs} processes" if jobs else "one process"
        print(f"{n_cells:,} cells in {where}: {found['seconds']:.1f} s")
        print(f"  overhead per cell      {found['overhead_ms_per_cell']:.1f} ms")
        print(f"  reading the run        {found['reading_the_run_seconds']:.2f} s")
        for cells, memory in found["memory"].items():
            shown = ", ".join(f"{name} {value:,.0f}" for name, value in memory.items())
            print(f"  memory at {cells:>5} cells  {shown}")
    if n_cells == N_CELLS:
        print(keep("experiment", result))


if __name__ == "__main__":
    main()
