"""LETOR text of 136 features: our reader against scikit-learn's, its memory, and the binary cache.

Run as ``python -m benchmarks.bench_parse``. Goals: at least 20 times scikit-learn's speed on two
cores with equal arrays, a peak of at most 2.5 times the resulting arrays, and a cached file that
opens and sums 5 times faster than the text parses.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import alternate, describe, keep, median
from rankwood import make_ranking, read_letor, write_letor

N_QUERIES = 1_600
DOCS_PER_QUERY = 120
LEAST_BYTES = 200_000_000
REPEATS = 3  # scikit-learn takes a while
OWN_REPEATS = 9

# Runs in a process of its own: the peak of a process cannot be taken apart afterwards.
PEAK = """
import json, sys
from rankwood import read_letor

def status(field):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

read_letor(sys.argv[2], cache=False)  # compiles
open("/proc/self/clear_refs", "w").write("5")  # the peak is counted from here
before = status("VmRSS")
data = read_letor(sys.argv[1], cache=False)
arrays = (data.features, data.labels, data.query_ids)
result = sum(array.nbytes for array in arrays)
print(json.dumps({"peak": status("VmHWM") - before, "result": result}))
"""


def make_file(folder: Path) -> Path:
    """A file of web-search-shaped data, some 230 MB."""
    path = folder / "large.txt"
    write_letor(make_ranking(N_QUERIES, DOCS_PER_QUERY, 136, seed=7), path)
    assert path.stat().st_size >= LEAST_BYTES
    return path


def peak_memory(path: Path, folder: Path) -> dict[str, int]:
    """Bytes a read takes at most, above what the process held before, and bytes of its result."""
    small = folder / "small.txt"
    small.write_text("1 qid:1 1:0.5\n")
    command = [sys.executable, "-c", PEAK, str(path), str(small)]
    found: dict[str, int] = json.loads(
        subprocess.run(command, check=True, capture_output=True).stdout
    )
    return found


def assert_equal_to_sklearn(path: Path) -> None:
    from sklearn.datasets import load_svmlight_file

    data = read_letor(path, cache=False)
    matrix, labels, query_ids = load_svmlight_file(str(path), query_id=True, dtype=np.float32)
    assert np.array_equal(matrix.toarray(), data.features)
    assert np.array_equal(labels, data.labels)
    assert np.array_equal(query_ids, data.query_ids)


def compare(path: Path) -> dict[str, Any]:
    from sklearn.datasets import load_svmlight_file

    megabytes = path.stat().st_size / 1e6
    seconds = alternate(
        {
            "rankwood": lambda: read_letor(path, cache=False),
            "sklearn": lambda: load_svmlight_file(str(path), query_id=True),
        },
        REPEATS,
    )
    read_letor(path, cache=True)
    seconds |= alternate(
        {
            "two threads": lambda: read_letor(path, cache=False, n_threads=2),
            "one thread": lambda: read_letor(path, cache=False, n_threads=1),
            "cache, summed": lambda: float(
                read_letor(path, cache=True).features.sum(dtype=np.float64)
            ),
        },
        OWN_REPEATS,
    )
    for name, taken in seconds.items():
        print(describe(name, taken), f" {megabytes / median(taken):7.0f} MB/s")
    return {
        "megabytes": megabytes,
        "seconds": {name: median(taken) for name, taken in seconds.items()},
        "megabytes_per_second": megabytes / median(seconds["two threads"]),
        "ratio_sklearn": median(seconds["sklearn"]) / median(seconds["rankwood"]),
        "ratio_cache": median(seconds["two threads"]) / median(seconds["cache, summed"]),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["RANKWOOD_CACHE_DIR"] = str(folder / "cache")
        path = make_file(folder)
        print(f"{path.stat().st_size / 1e6:.0f} MB of LETOR text, 136 features")
        assert_equal_to_sklearn(path)
        memory = peak_memory(path, folder)
        result = compare(path)
    result["peak_over_result"] = memory["peak"] / memory["result"]
    print(f"sklearn / rankwood: {result['ratio_sklearn']:.1f} (goal: at least 20)")
    print(
        f"parsing / opening the cache and summing: {result['ratio_cache']:.1f} (goal: at least 5)"
    )
    print(f"peak memory / resulting arrays: {result['peak_over_result']:.2f} (goal: at most 2.5)")
    keep("bench_parse", result)


if __name__ == "__main__":
    main()
