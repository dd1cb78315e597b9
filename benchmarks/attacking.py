"""What attacks share: rows, tries in forked children, tallies that go on where the last run stopped.

A row is a function of an ``Attack``. It counts tries by part, each with a seed of its own, and what is counted is kept
after every few hundred tries, so that a run that is killed goes on from there.
"""

from __future__ import annotations

import collections
import json
import os
import pickle
import resource
import select
import signal
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, machine, versions
from rankwood.errors import RankwoodError

Figures = dict[str, Any]
FULL = {
    "files": 10_000,
    "lines": 1_000_000,
    "kills": 100,
    "signals": 50,
    "threads": 10_000,
    "forks": 200,
}
SMALL = {"files": 100, "lines": 10_000, "kills": 5, "signals": 4, "threads": 200, "forks": 50}
SECONDS = 10.0  # a case that takes longer hangs
MOST_KIB = 64 << 10  # by which a try with a file of some kilobytes may raise the process's peak
NOT_WRITTEN = "no file can say it"  # of a mutation: nothing was attacked
CONSISTENT = "consistent"  # a file that lies, but in everything alike
GOOD = ("same", "error", CONSISTENT, NOT_WRITTEN)
CHUNK = 250

ROWS: dict[str, Callable[[Attack], None]] = {}


class OutOfTime(Exception):
    """The run's minutes are over; what was counted is kept."""


@dataclass
class Attack:
    """A row's counts and empty folder, and its figures by part, which are stored as they grow."""

    counts: dict[str, int]
    folder: Path
    figures: Figures = field(default_factory=dict)
    keep: Callable[[Figures], None] = lambda _: None
    until: float = float("inf")

    def part(self, name: str) -> Figures:
        """The figures of a part so far."""
        return self.figures.setdefault(name, {"tries": 0, "outcomes": {}, "bad": {}})

    def add(self, name: str, outcomes: dict[str, int]) -> None:
        """Count more outcomes of a part, and keep all figures."""
        of = self.part(name)
        total = collections.Counter(of["outcomes"]) + collections.Counter(outcomes)
        bad = {told: count for told, count in total.items() if told not in GOOD}
        of |= {"tries": sum(total.values()), "outcomes": dict(total), "bad": bad}
        self.keep(self.figures)

    def seeds(self, name: str, count: int, chunk: int = CHUNK) -> Iterable[range]:
        """The seeds that a part still lacks, in pieces; after each the time is looked at."""
        while (done := self.part(name)["tries"]) < count:
            if time.monotonic() > self.until:
                raise OutOfTime(f"{name}: the minutes are over after {done:,} tries")
            yield range(done, min(count, done + chunk))

    def in_children(
        self,
        name: str,
        count: int,
        attempt: Callable[[int], str],
        seconds: float = SECONDS,
        chunk: int = CHUNK,
    ) -> None:
        """Count what ``attempt`` gives for each seed, in forked children."""
        for seeds in self.seeds(name, count, chunk):
            self.add(name, in_children(seeds, attempt, seconds)["outcomes"])

    def here(
        self,
        name: str,
        count: int,
        attempt: Callable[[int], str],
        per_try: int = 1,
        chunk: int = CHUNK,
    ) -> None:
        """Count what ``attempt`` gives for each seed in this process; a try may count for several."""
        for seeds in self.seeds(name, count, chunk):
            outcomes = collections.Counter(attempt(seed) for seed in seeds[::per_try])
            self.add(name, {told: per_try * n for told, n in outcomes.items()})


def row(name: str) -> Callable[[Callable[[Attack], None]], Callable[[Attack], None]]:
    """Add a row."""

    def add(function: Callable[[Attack], None]) -> Callable[[Attack], None]:
        ROWS[name] = function
        return function

    return add


def in_children(
    cases: Iterable[Any],
    attempt: Callable[[Any], str],
    seconds: float = SECONDS,
) -> Figures:
    """Count what ``attempt`` gives for each case; a child that dies or hangs is replaced and counted as such."""
    waiting = list(cases)
    outcomes: collections.Counter[str] = collections.Counter()
    while waiting:
        n_done, ended = _child(waiting, attempt, seconds, outcomes)
        waiting = waiting[n_done:]
        if ended and waiting:
            outcomes[ended] += 1
            waiting = waiting[1:]
    bad = {name: count for name, count in outcomes.items() if name not in GOOD}
    return {"tries": sum(outcomes.values()), "outcomes": dict(outcomes), "bad": bad}


def _child(
    cases: list[Any],
    attempt: Callable[[Any], str],
    seconds: float,
    outcomes: collections.Counter[str],
) -> tuple[int, str]:
    """Run cases in one child; how many it did, and how it ended where it did not do all."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for number, case in enumerate(cases):
            content = pickle.dumps(_told(attempt, case, is_first=number == 0))
            os.write(writing, struct.pack("<I", len(content)) + content)
        os._exit(0)
    os.close(writing)
    n_done, ended = 0, ""
    with os.fdopen(reading, "rb") as file:
        while n_done < len(cases):
            if not select.select([file], [], [], seconds)[0]:
                os.kill(child, signal.SIGKILL)
                ended = "hang"
                break
            header = file.read(4)
            if len(header) < 4:
                ended = "signal"
                break
            outcomes[pickle.loads(file.read(struct.unpack("<I", header)[0]))] += 1
            n_done += 1
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return n_done, f"signal {-status}" if ended == "signal" else ended


def _told(attempt: Callable[[Any], str], case: Any, *, is_first: bool) -> str:
    """What a try gives; an error that is none of ours, and memory beyond what a small file may take, by name."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        told = attempt(case)
    except RankwoodError:
        told = "error"
    except BaseException as error:  # an outcome like the others
        told = f"escaped: {type(error).__name__}"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # The first try of a child touches the pages that it shares with its parent.
    return told if grown <= MOST_KIB or is_first else f"memory: {grown >> 10} MiB more"


def n_bad(figures: Figures) -> int:
    """How many outcomes are none of the good ones, in a row or in its parts."""
    if "bad" in figures:
        return int(sum(figures["bad"].values()))
    return sum(n_bad(part) for part in figures.values() if isinstance(part, dict))


class Kept:
    """The results on disk: rows, each with its figures, and the machine and versions of the last run."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or RESULTS / "robustness.json"
        found = json.loads(self.path.read_text()) if self.path.exists() else {"result": {}}
        self.rows: dict[str, Figures] = found["result"].get("rows", {})

    def keep(self, name: str, figures: Figures) -> None:
        """Store the figures of a row; a run that is killed leaves the last ones whole."""
        self.rows[name] = figures
        order = [name for name in ROWS if name in self.rows]
        order += [name for name in self.rows if name not in ROWS]
        record = {
            "benchmark": "robustness",
            "result": {"rows": {name: self.rows[name] for name in order}},
            "machine": machine(),
            "versions": versions(),
        }
        other = self.path.with_suffix(".new")
        other.write_text(json.dumps(record, indent=2) + "\n")
        other.replace(self.path)
