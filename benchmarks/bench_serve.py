"""The scoring service beside one written around LightGBM's ``predict`` in FastAPI, and two workers beside one.

Lists of 100 documents × 136 features, 300 trees of 31 leaves. Run as ``python -m benchmarks.bench_serve [requests]``:
so many requests a round, by default 1,000, and then the result is kept. Services take turns, round by round, so that
whatever else the machine does hits both. Clients share the machine's cores with the service. Beside requests per
second stands the processor time that a service takes for a request, which depends less on what else is running.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import lightgbm

from benchmarks.common import keep, median
from benchmarks.serving import ask, bodies_of, serving
from rankwood import LambdaMART, make_ranking, save

REQUESTS, ROUNDS = 1000, 5
DOCUMENTS, FEATURES, TREES, LEAVES = 100, 136, 300, 31


def write_models(folder: Path) -> tuple[Path, Path]:
    """The same size of model by both."""
    data = make_ranking(100, 50, FEATURES, seed=1)
    ours, theirs = folder / "model.rankwood", folder / "lightgbm.txt"
    save(LambdaMART(n_trees=TREES, max_leaves=LEAVES, early_stopping=None, seed=1).fit(data), ours)
    sizes = [len(rows) for _, rows in data.iter_queries()]
    dataset = lightgbm.Dataset(data.features, data.labels.round(), group=sizes)
    parameters = {"objective": "lambdarank", "num_leaves": LEAVES, "verbose": -1}
    lightgbm.train(parameters, dataset, TREES).save_model(theirs)
    return ours, theirs


@contextlib.contextmanager
def lightgbm_service(model: Path) -> Iterator[tuple[int, int]]:
    """The port and the process of the other service."""
    command = [sys.executable, "-m", "uvicorn", "benchmarks.lightgbm_service:app", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--no-access-log"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LIGHTGBM_MODEL": str(model)},
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                yield int(found[1]), process.pid
                break
    finally:
        process.terminate()
        process.communicate()


def processor_seconds(process: int) -> float:
    """What a process and its children have used."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    seconds = 0.0
    for each in (process, *children):
        fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


class Round:
    """What rounds of requests of one service gave."""

    def __init__(self, port: int, process: int, bodies: list[bytes]) -> None:
        self.port, self.process, self.bodies = port, process, bodies
        self.rates: list[float] = []
        self.processor_ms: list[float] = []
        self.p50_ms: list[float] = []
        self.p99_ms: list[float] = []

    def run(self, n_requests: int, n_clients: int) -> None:
        """Ask so often, and keep what it took."""
        before, start = processor_seconds(self.process), time.perf_counter()
        load = ask(self.port, self.bodies, n_requests, n_clients)
        seconds = time.perf_counter() - start
        assert (load.statuses, load.lost) == ({200: n_requests}, 0)
        self.rates.append(n_requests / seconds)
        self.processor_ms.append(1000 * (processor_seconds(self.process) - before) / n_requests)
        self.p50_ms.append(1000 * load.percentile(0.5))
        self.p99_ms.append(1000 * load.percentile(0.99))

    def result(self) -> dict[str, Any]:
        """The medians of the rounds."""
        return {
            "requests_per_second": round(median(self.rates), 1),
            "processor_ms_per_request": round(median(self.processor_ms), 3),
            "p50_ms": round(median(self.p50_ms), 2),
            "p99_ms": round(median(self.p99_ms), 2),
            "rounds": [round(rate, 1) for rate in self.rates],
        }


def take_turns(services: dict[str, tuple[int, int]], n_requests: int, n_clients: int) -> Any:
    """The results of services that take turns, and how much the first is ahead of the second, round by round."""
    bodies = bodies_of(16, DOCUMENTS, FEATURES)
    rounds = {name: Round(port, process, bodies) for name, (port, process) in services.items()}
    for each in rounds.values():
        ask(each.port, bodies, 100, n_clients)  # clients, allocators and estimates settle
    for _ in range(ROUNDS):
        for each in rounds.values():
            each.run(n_requests, n_clients)
    first, second = rounds.values()
    ratio = median([ours / theirs for ours, theirs in zip(first.rates, second.rates, strict=True)])
    cheaper = median(second.processor_ms) / median(first.processor_ms)
    return {name: each.result() for name, each in rounds.items()}, ratio, cheaper


def main(arguments: list[str] | None = None) -> None:
    n_requests = int(arguments[0]) if arguments else REQUESTS
    result: dict[str, Any] = {
        "documents": DOCUMENTS,
        "features": FEATURES,
        "trees": TREES,
        "leaves": LEAVES,
        "requests_per_round": n_requests,
        "load_before": os.getloadavg(),
    }
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = write_models(Path(name))
        with serving(ours) as service, lightgbm_service(theirs) as other:
            services = {"rankwood": (service.port, service.process.pid), "lightgbm": other}
            for n_clients in (1, 16):
                parts, ratio, cheaper = take_turns(services, n_requests, n_clients)
                result[f"clients_{n_clients}"] = parts
                result[f"ratio_requests_per_second_{n_clients}_clients"] = ratio
                result[f"ratio_processor_time_{n_clients}_clients"] = cheaper
        with serving(ours, "--workers", "2") as two, serving(ours, "--workers", "1") as one:
            urlopen(f"http://127.0.0.1:{two.port}/healthz").close()  # the workers have started
            services = {"two": (two.port, two.process.pid), "one": (one.port, one.process.pid)}
            parts, ratio, _ = take_turns(services, n_requests, 16)
            result["workers"], result["ratio_two_workers"] = parts, ratio
    alone = result["clients_16"]["rankwood"]
    result["ratio_p99_to_p50_16_clients"] = alone["p99_ms"] / alone["p50_ms"]
    result["load_after"] = os.getloadavg()
    for key, value in result.items():
        print(f"{key}: {value}")
    if not arguments:
        keep("bench_serve", result)


if __name__ == "__main__":
    main(sys.argv[1:])
