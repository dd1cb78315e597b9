"""The scoring service under load: 16 clients, lists of 100 documents × 136 features, 1,000 trees of 32 leaves.

Run as ``python -m benchmarks.bench_serve [requests]``; without a number 50,000 requests, and the result is kept.
Service and clients share the machine's cores, so times are of both. After 40 % of the requests the model's file is
replaced by another, after 60 % by a damaged one: no request may be lost or refused. Memory is looked at after every
tenth; it must not grow. A latency has no peer to be held against: p50 and p99 are stated, not claimed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import keep
from benchmarks.serving import ask, bodies_of, serving
from rankwood import GBRT, make_ranking, save

REQUESTS, CLIENTS, DOCUMENTS, FEATURES = 50_000, 16, 100, 136
TREES, LEAVES = 1000, 32


def write_models(folder: Path) -> tuple[Path, Path]:
    """Two models of the size in question."""
    data = make_ranking(100, 50, FEATURES, seed=1)
    paths = folder / "model.rankwood", folder / "other.rankwood"
    for seed, path in enumerate(paths):
        model = GBRT(TREES, max_leaves=LEAVES, min_leaf=5, subsample=0.5, seed=seed).fit(data)
        save(model, path)
    return paths


def main(arguments: list[str] | None = None) -> None:
    n_requests = int(arguments[0]) if arguments else REQUESTS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, other = write_models(folder)
        damaged = folder / "damaged.rankwood"
        damaged.write_bytes(other.read_bytes()[: other.stat().st_size // 2])
        bodies = bodies_of(64, DOCUMENTS, FEATURES)
        with serving(path) as service:
            memory: list[float] = []
            ask(service.port, bodies, 200, CLIENTS)  # clients and allocators settle

            def look() -> None:
                memory.append(service.figure("process_resident_memory_bytes") / 2**20)

            events: dict[int, Any] = {n_requests * tenth // 10: look for tenth in range(1, 10)}
            events[n_requests * 2 // 5] = lambda: (look(), os.replace(other, path))
            events[n_requests * 3 // 5] = lambda: (look(), os.replace(damaged, path))
            look()
            start = time.perf_counter()
            load = ask(service.port, bodies, n_requests, CLIENTS, after=events)
            seconds = time.perf_counter() - start
            look()
            reloads = service.figure("rankwood_model_reloads_total")
            failures = service.figure("rankwood_model_reload_failures_total")
            code = service.stop()
    result = {
        "requests": n_requests,
        "clients": CLIENTS,
        "documents": DOCUMENTS,
        "features": FEATURES,
        "trees": TREES,
        "leaves": LEAVES,
        "statuses": load.statuses,
        "lost": load.lost,
        "models_seen": len(load.versions),
        "reloads": reloads,
        "refused_reloads": failures,
        "requests_per_second": n_requests / seconds,
        "p50_ms": 1000 * load.percentile(0.5),
        "p99_ms": 1000 * load.percentile(0.99),
        "memory_mib": [round(each, 1) for each in memory],
        "exit_code": code,
    }
    for key, value in result.items():
        print(f"{key}: {value}")
    if not arguments:
        keep("bench_serve", result)


if __name__ == "__main__":
    main(sys.argv[1:])
