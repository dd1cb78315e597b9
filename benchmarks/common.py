"""What every benchmark shares: alternating runs, medians with their spread, and a record with machine and versions."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import rankwood
from rankwood._core.threads import usable_cores

RESULTS = Path(__file__).parent / "results"
# GBRT as it was published, and at the settings of other libraries: nodes see all features, and steps are of 0.1.
PUBLISHED_GBRT: dict[str, Any] = {"learning_rate": 0.1, "features_per_node": None}
_PACKAGES = (
    "numpy",
    "numba",
    "pyarrow",
    "scipy",
    "scikit-learn",
    "ranx",
    "pytrec-eval-terrier",
    "lightgbm",
    "xgboost-cpu",
    "dask",
    "distributed",
)


def alternate(runs: Mapping[str, Callable[[], Any]], repeats: int = 5) -> dict[str, list[float]]:
    """Seconds of each run, taken in turn ``repeats`` times, so that a noisy moment hits all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            gc.collect()
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def median(seconds: list[float]) -> float:
    """The middle run."""
    return statistics.median(seconds)


def describe(name: str, seconds: list[float]) -> str:
    """One printed line: median, least and greatest."""
    return f"{name:<28} {median(seconds):9.4f} s   ({min(seconds):.4f} to {max(seconds):.4f}, {len(seconds)} runs)"


def machine() -> dict[str, Any]:
    """Processor, cores and memory."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_gib": round(pages / 2**30, 1),
        "system": platform.system(),
    }


def versions() -> dict[str, str]:
    """Versions of Python and of every package a benchmark may use."""
    found = {"python": platform.python_version(), "rankwood": rankwood.__version__}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def keep(name: str, result: Mapping[str, Any]) -> Path:
    """Store the result with machine and versions, and print how each ratio moved since the last one kept."""
    path = RESULTS / f"{name}.json"
    before = json.loads(path.read_text())["result"] if path.exists() else {}
    for key, value in result.items():
        if key.startswith("ratio") and isinstance(before.get(key), float):
            print(f"  {key}: {value:.2f} (last kept: {before[key]:.2f})")
    record = {
        "benchmark": name,
        "result": dict(result),
        "machine": machine(),
        "versions": versions(),
    }
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path
