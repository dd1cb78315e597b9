"""Binning at web-search shape: cut points and codes of 720,000 × 136 floats against LightGBM's ``Dataset.construct``.

Run as ``python -m benchmarks.bench_binning``. Both use two threads, 255 bins and a sample of 200,000 rows. Goal:
at most 0.21 of LightGBM's time. Opening kept codes is timed beside them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import alternate, describe, keep, median
from rankwood import make_ranking
from rankwood.binning.binned import bin_data
from rankwood.binning.bins import fit_bins
from rankwood.trees.row_order import reorder_by_pilot_tree

N_THREADS = 2
MAX_BINS = 255
SAMPLE = 200_000
GOAL = 0.21  # one second where LightGBM takes 4.7


def compare(data: Any, folder: Path) -> dict[str, list[float]]:
    import lightgbm

    parameters = {
        "max_bin": MAX_BINS,
        "bin_construct_sample_cnt": SAMPLE,
        "num_threads": N_THREADS,
        "verbosity": -1,
    }

    def construct() -> None:
        lightgbm.Dataset(data.features, data.labels, params=parameters).construct()

    def bin_ours(**options: Any) -> Any:
        return bin_data(data, max_bins=MAX_BINS, sample=SAMPLE, n_threads=N_THREADS, **options)

    def lay_out_ours() -> None:
        binned = bin_ours()
        reorder_by_pilot_tree(binned.codes, binned.bins, data.labels, n_threads=N_THREADS)

    bin_ours(cache=folder)  # compiles, and keeps the codes
    lay_out_ours()  # compiles
    bins = fit_bins(data.features, n_threads=N_THREADS)
    return alternate(
        {
            "lightgbm": construct,
            "rankwood": bin_ours,
            "  of that: cut points": lambda: fit_bins(data.features, n_threads=N_THREADS),
            "  of that: codes": lambda: bins.transform(data.features, N_THREADS),
            "kept codes": lambda: bin_ours(cache=folder),
            "codes, with rows that are alike together": lay_out_ours,
        }
    )


def main() -> None:
    data = make_ranking(6000, 120, 136, seed=1)
    print(f"{data}, {N_THREADS} threads")
    with tempfile.TemporaryDirectory() as folder:
        seconds = compare(data, Path(folder))
    for name, taken in seconds.items():
        print(describe(name, taken))
    ratio = median(seconds["rankwood"]) / median(seconds["lightgbm"])
    print(f"rankwood / lightgbm: {ratio:.2f} (goal: at most {GOAL:.2f})")
    result = {
        "rows": data.n_documents,
        "features": data.n_features,
        "threads": N_THREADS,
        "seconds": {name.strip(): median(taken) for name, taken in seconds.items()},
        "ratio_lightgbm": ratio,
    }
    keep("bench_binning", result)


if __name__ == "__main__":
    main()
