"""The first minutes in a new environment: the first fit of every ranker, and the first score, evaluation and service.

Run as ``python -m benchmarks.bench_cold_start [--quick] [--processes N]``. Each case runs in a fresh process with an
empty cache of kernels, and again in a second process. Both may use two cores. ``--processes`` runs so many cases at
a time, each on two cores of its own; more than half the machine's cores make times longer. Where the machine is busy,
processor seconds (of all processes of a case) say more than wall seconds. Without FastAPI the service is left out.

In the second process the cost of kernels is the processor time that the first call takes beyond the call after it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import queue
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.common import keep

FIT_LIMIT, SERVE_LIMIT, LATER_LIMIT = 20.0, 15.0, 0.3  # seconds
HAS_SERVICE = all(importlib.util.find_spec(name) for name in ("fastapi", "uvicorn"))

RANKERS = {
    "RandomForest": "rw.RandomForest()",
    "ExtraTrees": "rw.ExtraTrees()",
    "CompletelyRandomForest": "rw.CompletelyRandomForest()",
    "GBRT": "rw.GBRT()",
    "LambdaMART": "rw.LambdaMART()",
    "AveragedGBRT": "rw.AveragedGBRT()",
    "InitializedGBRT": "rw.InitializedGBRT()",
    "OrdinalRanker": "rw.OrdinalRanker(rw.RandomForest())",
    "BROOF": "rw.BROOF()",
    "AdaBoost": "rw.AdaBoost()",
    "NDCGBoost": "rw.NDCGBoost()",
    "RankBoost": "rw.RankBoost()",
    "RankSVM": "rw.RankSVM()",
    "AdaRank": "rw.AdaRank()",
    "DeepForest": "rw.DeepForest()",
    "BoostingTree": "rw.BoostingTree(rw.LambdaMART())",
}
USES = {
    "score": "model.predict(data)",
    "evaluate": "rw.evaluate(scores, data, ['ndcg@10', 'map', 'mrr'])",
    "explain": "rw.explain(model, data)",
}
QUICK = ("LambdaMART", "RankSVM", "score")

TIMED = """
import json, sys, time
import numpy as np
import rankwood as rw
import numba
from rankwood._core import jit
data = rw.make_ranking(n_queries=40, docs_per_query=15, n_features=10, seed=0)
scores = np.asarray(data.features[:, 0], np.float64)
{prepare}
calls, processor = [], []
for _ in range({calls}):
    start, used = time.perf_counter(), time.process_time()
    {call}
    calls.append(time.perf_counter() - start)
    processor.append(time.process_time() - used)
print(json.dumps({{"calls": calls, "processor_calls": processor, "compiling": jit.seconds()}}))
"""
SERVED = """
import json, os, re, signal, subprocess, sys, time
from urllib.request import Request, urlopen
start = time.perf_counter()
command = [sys.executable, "-c", "from rankwood.cli.main import run; run()", "serve", {model!r}, "--port", "0"]
process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
for line in process.stderr:
    found = re.search(r"at (http://\\S+)", line)
    if found:
        break
body = json.dumps({{"documents": [{{"id": "a", "features": [0.5] * 10}}]}}).encode()
urlopen(Request(found.group(1) + "/rank", body, {{"Content-Type": "application/json"}})).read()
seconds = time.perf_counter() - start
process.send_signal(signal.SIGTERM)
process.wait()
print(json.dumps({{"calls": [seconds], "processor_calls": [0.0], "compiling": 0.0}}))
"""


def code_of(case: str, model: Path, calls: int) -> str:
    """The program of a case; the number of calls is 1 in a new environment and 2 later."""
    if case == "serve":
        return SERVED.format(model=str(model))
    if case in USES:
        prepare = f"model = rw.load({str(model)!r})" if "model" in USES[case] else ""
        return TIMED.format(prepare=prepare, calls=calls, call=USES[case])
    prepare = f"ranker = {RANKERS[case]}"
    return TIMED.format(
        prepare=prepare,
        calls=calls,
        call="ranker.fit(data, valid=data)" if case == "BoostingTree" else "ranker.fit(data)",
    )


def run(code: str, cache: Path, cores: tuple[int, ...]) -> dict[str, Any]:
    """What the program prints, with its wall seconds and the processor seconds of it and its children."""
    report = Path(tempfile.mkstemp()[1])
    start = time.perf_counter()
    with report.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {cores})\n{code}"],
            env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONWARNINGS": "ignore"},
            stdout=out,
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    text = report.read_text()
    report.unlink()
    if process.returncode != 0:
        raise SystemExit(f"a case failed:\n{code}")
    printed = json.loads(text.splitlines()[-1])
    return {**printed, "wall": seconds, "processor": usage.ru_utime + usage.ru_stime}


def measure(case: str, model: Path, cores: tuple[int, ...]) -> dict[str, float]:
    """Seconds of a case in a new environment and in the next process."""
    with tempfile.TemporaryDirectory() as folder:
        first = run(code_of(case, model, 1), Path(folder), cores)
        later = run(code_of(case, model, 2), Path(folder), cores)
    calls, used = later["calls"], later["processor_calls"]
    return {
        "first_call": first["calls"][0],
        "first_process": first["wall"],
        "first_processor": first["processor"],
        "first_compiling": first["compiling"],
        "later_call": calls[0],
        "later_loading": used[0] - used[-1],
        "later_process": later["wall"],
        "later_processor": later["processor"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three cases; nothing is kept")
    parser.add_argument("--processes", type=int, default=1, help="cases at a time, two cores each")
    parser.add_argument("--only", nargs="*", help="the cases to run; nothing is kept")
    options = parser.parse_args()
    everything = (*RANKERS, *USES, *(["serve"] if HAS_SERVICE else []))
    cases = options.only or (QUICK if options.quick else everything)
    usable = sorted(os.sched_getaffinity(0))
    pairs: queue.Queue[tuple[int, ...]] = queue.Queue()
    for number in range(options.processes):
        pairs.put(tuple(usable[(2 * number + one) % len(usable)] for one in (0, 1)))

    with tempfile.TemporaryDirectory() as folder:
        import rankwood as rw

        model = Path(folder) / "model.rankwood"
        data = rw.make_ranking(n_queries=40, docs_per_query=15, n_features=10, seed=0)
        rw.save(rw.LambdaMART(20).fit(data), model)

        def one(case: str) -> dict[str, float]:
            cores = pairs.get()
            try:
                found = measure(case, model, cores)
            finally:
                pairs.put(cores)
            print(
                f"{case:<24} first {found['first_call']:6.1f} s ({found['first_processor']:5.1f} s of processors), "
                f"later process {found['later_process']:5.1f} s, of which {found['later_loading']:.2f} s load kernels",
                flush=True,
            )
            return found

        with ThreadPoolExecutor(options.processes) as pool:
            found = dict(zip(cases, pool.map(one, cases), strict=True))
    result: dict[str, Any] = {"cases": found}
    for name, limit, figure in (
        ("fit", FIT_LIMIT, "first_call"),
        ("serve", SERVE_LIMIT, "first_call"),
        ("later", LATER_LIMIT, "later_loading"),
    ):
        worst = [
            case[figure]
            for key, case in found.items()
            if {"fit": key in RANKERS, "serve": key == "serve", "later": key != "serve"}[name]
        ]
        if worst:
            result[f"worst_{name}"] = max(worst)
            print(f"slowest {name}: {max(worst):.2f} s; the limit is {limit} s on two idle cores")
    if not options.quick and not options.only:
        keep("cold_start", result)


if __name__ == "__main__":
    main()
