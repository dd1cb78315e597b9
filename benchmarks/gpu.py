"""The CUDA engine on a GPU: models with the bytes of the CPU's, and the time that trees take.

Bars on one H200: a tree of a forest of 100 leaves at 720,000 × 136 in 0.3 ms, a boosted tree of 31 leaves in 2.5 ms,
one of LambdaMART in 8 ms, BROOF of 300 rounds of 100 trees in 20 s from arrays to a saved model.

One call does everything, without pytest, and ends by itself::

    python -m benchmarks.gpu --seconds 380 --out gpu.json

The bars alone, in two minutes: ``--stages time --only launches,fit,broof --seconds 170``. What a boosted tree waits
for, in less: ``--stages time --only fit,lambdas --seconds 110``. Scoring:
``--stages time --only scoring --seconds 300``.

Stages: ``first`` compiles and fits each ranker once, ``same`` compares the bytes of models under all policies and runs
compute-sanitizer, ``time`` measures what the bars are about and then the table of CPU and GPU, most telling first. The
CPU's models are fitted in processes beside the one that has the GPU. What a cell gives is in the file as soon as it
is there. A cell that hangs or leaves the GPU unusable costs no more than itself: its process is ended, and another
one goes on. ``--dry`` goes through everything in little, on the emulator of the tests.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu_cells import CASES, DRY, MARK, SIZES

STAGES = ("first", "same", "time")
RANKERS = list(CASES)[:11]  # each of them once
_STARTING = 120.0  # seconds that a process may take to import and compile before its first cell
_COMPILING = 100.0  # seconds that may be added to the first cells of a process: kernels of the CPU
_LENGTH = 300  # of what is printed of a cell


@dataclass
class Report:
    """What is known so far, on disk after every cell."""

    path: Path | None
    begin: float = field(default_factory=time.time)
    cells: dict[str, Any] = field(default_factory=dict)
    differ: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)

    def note(self, name: str, outcome: dict[str, Any]) -> None:
        """Keep what a cell gave, and print it in few words."""
        with self.lock:
            outcome = {"after": round(time.time() - self.begin, 1), **outcome}
            self.cells[name] = {**self.cells.get(name, {}), **outcome}
            self._write()
            self._print(name, self.cells[name])

    def _write(self) -> None:
        if self.path is None:
            return
        same = {name: word for name in CASES if (word := self.same(name)) is not None}
        text = json.dumps({"same": same, "cells": self.cells}, indent=1, default=str)
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text(text + "\n")
        os.replace(unfinished, self.path)

    def same(self, case: str) -> bool | None:
        """Whether the models of both devices are the same; None before both are there."""
        digests = [self.digest(f"{where}: {case}") for where in ("cpu", "cuda")]
        return None if None in digests else digests[0] == digests[1]

    def digest(self, name: str) -> str | None:
        """The digest that a cell gave."""
        result = self.cells.get(name, {}).get("result")
        return result["digest"] if isinstance(result, dict) and "digest" in result else None

    def _print(self, name: str, outcome: dict[str, Any]) -> None:
        spent = f"{outcome['after']:6.1f} s  {name}: "
        if "error" in outcome:
            print(f"{spent}FAILED {outcome['error'][:400]}", flush=True)
            return
        where, _, case = name.partition(": ")
        if case in CASES and where in ("cpu", "cuda"):
            if self.same(case) is False and case not in self.differ:
                self.differ.append(case)
                print(f"{outcome['after']:6.1f} s  {case}: DIFFERENT", flush=True)
            return
        if "result" in outcome:
            print(f"{spent}{_short(outcome['result'])}", flush=True)


def _short(value: Any) -> str:
    """A result without its long lists and what kernels take."""
    if isinstance(value, dict):
        kept = {
            key: one
            for key, one in value.items()
            if not isinstance(one, list) and not key.startswith("kernels")
        }
        return ", ".join(f"{key} {_short(one)}" for key, one in kept.items())[:_LENGTH]
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:_LENGTH]


class Runner(threading.Thread):
    """Runs cells in a process of their own; another one is started when one hangs or is lost."""

    def __init__(
        self,
        report: Report,
        cells: Sequence[str],
        ends: float,
        options: Sequence[str],
        before: Sequence[str] = (),
    ):
        super().__init__(daemon=True)
        self.report, self.left, self.ends = report, list(cells), ends
        self.options, self.before = options, before
        self.process: subprocess.Popen[str] | None = None
        self.done = threading.Event()
        self.tail: list[str] = []

    def run(self) -> None:
        """Run all cells, in as many processes as that takes."""
        try:
            n_lost = 0
            while self.left and time.time() < self.ends and n_lost < 12:
                n_lost += not self._run_process()
        except OSError as error:  # the program is not there
            self.tail = [repr(error)]
        finally:
            self.finish()
            self.done.set()

    def finish(self) -> None:
        """What is to be done when the last process has ended."""

    def _run_process(self) -> bool:
        """Run what is left until it is done or the process is lost."""
        given = ["--cells", json.dumps(self.left), "--ends", str(self.ends), *self.options]
        environment = dict(os.environ, PYTHONUNBUFFERED="1", PYTHONFAULTHANDLER="1")
        self.tail = []
        self.process = subprocess.Popen(
            [*self.before, sys.executable, "-m", "benchmarks.gpu_cells", *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            start_new_session=True,
        )
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()
        current, n_done, until = "", 0, time.time() + _STARTING
        while True:
            try:
                line = lines.get(timeout=max(0.0, min(until, self.ends + 20) - time.time()))
            except queue.Empty:
                self._lost(current, "no answer: it was ended")
                return False
            if line is None:
                break
            if line.startswith(f'{MARK}{{"finished"'):
                self._read_rest(lines)
                break
            if not line.startswith(MARK):
                self.tail = [*self.tail[-400:], line.rstrip()]
                continue
            message = json.loads(line.removeprefix(MARK))
            if "begin" in message:
                current = message["begin"]
                until = time.time() + message["limit"] + (_COMPILING if n_done < 2 else 0)
            elif "part" in message:
                self.report.note(current, {"part": message["part"]})
            elif "late" in message:
                self.left.remove(message["late"])
            elif "end" in message:
                n_done += 1
                self.left.remove(message.pop("end"))
                self.report.note(current, message)
                current, until = "", time.time() + 30
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        code = self.process.poll()
        self.stop()
        if self.left and code not in (0, 3):
            self._lost(current, f"the process ended with code {code}")
            return False
        return not self.left

    def _read_rest(self, lines: queue.Queue[str | None]) -> None:
        """What a tool says at the end; else a process that the cells have started may still hold the pipe."""
        until = time.time() + (20 if self.before else 1)
        with contextlib.suppress(queue.Empty):
            while (line := lines.get(timeout=max(0.0, until - time.time()))) is not None:
                self.tail = [*self.tail[-400:], line.rstrip()]

    def _read(self, lines: queue.Queue[str | None]) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            lines.put(line)
        lines.put(None)

    def _lost(self, current: str, why: str) -> None:
        self.stop()
        name = current or (self.left[0] if self.left else "")
        if current:
            self.left.remove(current)
        self.report.note(name, {"error": why, "tail": self.tail[-40:]})

    def stop(self) -> None:
        """End the process with all that it started."""
        if self.process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)


def wait_for(runners: Sequence[Runner], until: float) -> None:
    """Wait for runners; what is not done in time is ended."""
    for runner in runners:
        runner.done.wait(max(0.0, until - time.time()))
        if not runner.done.is_set():
            runner.left.clear()
            runner.stop()
            runner.done.wait(5)


TOOLS = {
    "memcheck": ("compute-sanitizer", "--tool", "memcheck", "--print-limit", "20"),
    "racecheck": ("compute-sanitizer", "--tool", "racecheck", "--print-limit", "20"),
    "ncu": (
        *("ncu", "--clock-control", "none", "-k", "regex:grow", "-c", "2"),
        *("--section", "SpeedOfLight", "--section", "Occupancy"),
        *("--section", "WarpStateStats", "--section", "MemoryWorkloadAnalysis"),
        *("--section", "SourceCounters", "-f", "-o"),  # a file, whose name follows
    ),
}
CELL_OF_TOOL = {"memcheck": "few fits", "racecheck": "few fits", "ncu": "launch each"}


class Tool(Runner):
    """Runs a cell under a tool of CUDA, whose output is kept."""

    def __init__(self, report: Report, tool: str, ends: float):
        command = TOOLS[tool]
        found = shutil.which(command[0]) or f"/usr/local/cuda/bin/{command[0]}"
        self.tool, self.program = tool, found
        self.kept = (report.path or Path("gpu.json")).with_suffix(".ncu-rep")
        written = [str(self.kept)] if tool == "ncu" else []
        before = [found, *command[1:], *written]
        super().__init__(report, [CELL_OF_TOOL[tool]], ends, [], before)

    def finish(self) -> None:
        """Keep what the tool said."""
        if self.tool == "ncu" and self.kept.exists():
            self._print_pages()
        said = [line for line in self.tail if self.tool == "ncu" or line.startswith("=====")]
        last = said[-1] if said else str(self.tail[-1:])
        self.report.note(f"tool: {self.tool}", {"result": last, "said": said})

    def _print_pages(self) -> None:
        """What the profiler of kernels found: its sections, and the samples of each instruction."""
        for page in ("details", "source"):
            form = ["--csv"] if page == "source" else []
            command = [self.program, "--import", str(self.kept), "--page", page, *form]
            with (
                contextlib.suppress(OSError, subprocess.SubprocessError),
                open(self.kept.with_suffix(f".{page}.txt"), "w", encoding="utf-8") as file,
            ):
                subprocess.run(command, stdout=file, timeout=40, check=False)


def stage_of_bytes(report: Report, cases: list[str], ends: float, options: list[str]) -> None:
    """The models of cases on both devices, and large trees; the CPU's in processes of their own."""
    n_beside = max(1, min(6, (os.cpu_count() or 2) // 2 - 1))
    of_gpu = [f"cuda: {case}" for case in cases]
    trees = [f"trees: {kind}" for kind in ("forest", "boosting", "weighted")]
    of_gpu[len(RANKERS) : len(RANKERS)] = [*trees, "out of memory"]
    gpu = Runner(report, ["machine", "compile", "warm", *of_gpu], ends, options)
    gpu.start()
    beside = [
        Runner(report, [f"cpu: {case}" for case in cases[number::n_beside]], ends, options)
        for number in range(n_beside)
    ]
    for runner in beside:
        runner.start()
    tools: list[Tool] = []
    if "--dry" not in options and len(cases) > len(RANKERS):
        # By then the kernels are compiled, which takes longer under a checker.
        while not gpu.done.is_set() and f"cuda: {cases[10]}" in gpu.left:
            time.sleep(0.5)
        tools = [Tool(report, tool, ends) for tool in ("memcheck", "racecheck")]
        for tool in tools:
            tool.start()
    wait_for([gpu, *beside, *tools], ends)


def stage_of_times(report: Report, ends: float, options: list[str], only: Sequence[str]) -> None:
    """The bars and the table, or ``only`` cells of these kinds; nothing else runs at the same time."""
    table = (DRY if "--dry" in options else SIZES).table
    first = [f"difference: {case}" for case in report.differ[:4]]
    timed = ["launches: forest", "launches: boosting", "launches: weighted", "lambdas", "copies"]
    timed += ["fit: GBRT", "fit: LambdaMART", "fit: forest", "broof"]
    *scored, most_scored = (DRY if "--dry" in options else SIZES).scored
    timed += [f"scoring: {n_rows}" for n_rows in scored]
    timed += [f"profile: {name}" for name in ("broof", "GBRT", "LambdaMART", "forest")]
    middle, last = table[:-1], table[-1]
    compared = [f"table: {n_rows} cuda" for n_rows in middle]
    compared += [f"table: {n_rows} cpu 16" for n_rows in middle[::-1]]
    if only:
        known = [*timed, f"scoring: {most_scored}", *compared]
        chosen = [name for name in known if name.partition(":")[0] in only]
        runner = Runner(report, chosen, ends, options)
        runner.start()
        wait_for([runner], ends + 12)
        return
    runners = [Runner(report, first + timed + compared, ends, options)]
    if "--dry" not in options:
        runners.append(Tool(report, "ncu", ends))
    rest = ["blocks", f"table: {last} cuda", f"scoring: {most_scored}"]
    rest += [f"table: {n_rows} cpu 2" for n_rows in middle[::-1]]
    rest += [f"table: {last} cpu {count}" for count in (16, 2)]
    runners.append(Runner(report, rest, ends, options))
    for runner in runners:
        if time.time() < ends:
            if isinstance(runner, Tool):
                runner.ends = min(ends, time.time() + 70)
            runner.start()
            # A cell that has begun may go on for some seconds more.
            wait_for([runner], runner.ends + 12)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--stages", default=",".join(STAGES))
    options.add_argument("--seconds", type=float, default=380.0, help="for everything")
    options.add_argument("--share", type=float, default=0.4, help="of the time for comparisons")
    options.add_argument(
        "--only", default="", help="kinds of cells of the stage time: launches,fit,broof"
    )
    options.add_argument("--out", help="a JSON file")
    options.add_argument("--dry", action="store_true", help="in little, on an emulator")
    given = options.parse_args()
    asked = given.stages.split(",")
    report = Report(Path(given.out) if given.out else None)
    for_cells = ["--dry"] if given.dry else []
    last = report.begin + given.seconds - 20
    cases = [
        *(RANKERS if "first" in asked else []),
        *([case for case in CASES if case not in RANKERS] if "same" in asked else []),
    ]
    if cases:
        ends = report.begin + given.share * given.seconds if "time" in asked else last
        stage_of_bytes(report, cases, ends, for_cells)
    if "time" in asked:
        stage_of_times(report, last, for_cells, [word for word in given.only.split(",") if word])
    same = {case: report.same(case) for case in cases}
    differ = [case for case, word in same.items() if word is False]
    unknown = [case for case, word in same.items() if word is None]
    n_same = len(same) - len(differ) - len(unknown)
    print(f"{n_same} models the same; different: {differ}; not known: {unknown}"[: 4 * _LENGTH])
    failed = [name for name, outcome in report.cells.items() if "error" in outcome]
    print(f"failed: {failed}"[: 4 * _LENGTH])


if __name__ == "__main__":
    main()
