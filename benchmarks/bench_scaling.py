"""Training: peak memory against the data's, and time at 1×, 2× and 4× the rows, trees and leaves.

Bars: peak memory at most raw float32 + bins + 25 %; time grows linearly, that is, 4× takes at most about 4× as long.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.common import alternate, keep, median

ROWS = 6000  # queries of 120 documents: WEB10K's shape
TREES = 8
LEAVES = 50


def measure_memory(queries: int) -> dict[str, float]:
    """Peak of a process that trains a forest, over what it held before binning, in MB."""
    code = f"from benchmarks.bench_scaling import train_once; train_once({queries})"
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    raw, before, peak = (float(part) for part in outcome.stdout.split())
    return {"raw": raw, "bins": raw / 4, "peak": peak - before + raw}


def train_once(queries: int) -> None:
    """Print the raw features' size, memory before training (the data included) and the peak, in MB."""
    import rankwood as rw

    tiny = rw.make_ranking(n_queries=3, docs_per_query=5, n_features=136, seed=1)
    rw.RandomForest(n_trees=2).fit(tiny)  # compiled code is no part of the data
    data = rw.make_ranking(queries, 120, 136, seed=1)
    before = _memory("VmRSS")
    rw.RandomForest(n_trees=4, max_leaves=100).fit(data)
    print(data.features.nbytes / 2**20, before, _memory("VmHWM"))


def _memory(kind: str) -> float:
    """Megabytes of this process, now (VmRSS) or at most (VmHWM); getrusage would count the parent's too."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines[kind].split()[0]) / 1024


def growth() -> dict[str, list[float]]:
    """Median seconds at 1×, 2× and 4× of the rows, the trees and the leaves, binning apart."""
    import rankwood as rw

    data = rw.make_ranking(ROWS // 2, 120, 136, seed=1)
    parts = [rw.bin(rw.sample_queries(data, ROWS // 8 * factor, seed=1)) for factor in (1, 2, 4)]

    def fit(part: int, trees: int, leaves: int) -> object:
        return rw.RandomForest(n_trees=trees, max_leaves=leaves, seed=1).fit(parts[part])

    runs = {
        **{f"rows {2**k}": lambda k=k: fit(k, TREES, LEAVES) for k in range(3)},
        **{f"trees {2**k}": lambda k=k: fit(1, TREES * 2**k, LEAVES) for k in range(3)},
        **{f"leaves {2**k}": lambda k=k: fit(1, TREES, LEAVES * 2**k) for k in range(3)},
    }
    seconds = alternate(runs, repeats=3)
    return {
        what: [median(seconds[f"{what} {factor}"]) for factor in (1, 2, 4)]
        for what in ("rows", "trees", "leaves")
    }


def main() -> None:
    memory = measure_memory(ROWS)
    allowed = 1.25 * (memory["raw"] + memory["bins"])
    print(
        f"peak memory {memory['peak']:.0f} MB; "
        f"raw {memory['raw']:.0f} + bins {memory['bins']:.0f} + 25 % = {allowed:.0f} MB"
    )
    times = growth()
    for what, seconds in times.items():
        ratios = " ".join(f"{second / seconds[0]:.2f}" for second in seconds)
        print(
            f"{what} 1×, 2×, 4×: {' '.join(f'{second:.2f}' for second in seconds)} s, ratios {ratios}"
        )
    keep(
        "bench_scaling",
        {
            "megabytes": memory,
            "ratio_memory": memory["peak"] / (memory["raw"] + memory["bins"]),
            "seconds": times,
            "ratio_rows": times["rows"][2] / times["rows"][0],
            "ratio_trees": times["trees"][2] / times["trees"][0],
            "ratio_leaves": times["leaves"][2] / times["leaves"][0],
        },
    )


if __name__ == "__main__":
    main()
