"""Attacks, and what stood: ``python -m benchmarks.robustness [--full] [--only forks threads] [--files 1000]``.

Each row of the table in docs/concepts/robustness.md is a function that gives its figures: how many tries there were,
and how each kind of outcome was counted. Cases run in forked children, so that a signal or a hang is an outcome and
not the end. Without options the counts fit into minutes; ``--full`` takes those of the table. A run goes on from what
the results hold: ``--afresh`` begins again, ``--minutes`` ends it after a while.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

from benchmarks import robust_files, robust_processes, robust_texts  # noqa: F401 - they add rows
from benchmarks.attacking import FULL, ROWS, SMALL, Attack, Kept, OutOfTime, n_bad

IN_MEMORY = Path("/dev/shm")  # thousands of small files are written: no disk is to be waited for


def run(
    names: Iterable[str], counts: dict[str, int], kept: Kept, until: float, *, afresh: bool
) -> None:
    """Run rows by name, all if there are none, and keep their figures as they grow."""
    warnings.simplefilter("ignore")
    chosen = list(names)
    for name, attack in ROWS.items():
        if chosen and not any(each in (attack.__name__, name) for each in chosen):
            continue
        before = {} if afresh else kept.rows.get(name, {})
        started = time.monotonic()
        where = IN_MEMORY if IN_MEMORY.is_dir() else None
        with tempfile.TemporaryDirectory(dir=where) as folder, contextlib.suppress(OutOfTime):
            attack(
                Attack(
                    counts, Path(folder), before, lambda now, name=name: kept.keep(name, now), until
                )
            )
        seconds = time.monotonic() - started
        print(f"{name}: {n_bad(kept.rows.get(name, {}))} bad, {seconds:.0f} s", flush=True)


def main() -> None:
    """Run the rows and keep the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="the counts of the table")
    parser.add_argument("--only", nargs="+", default=(), help="rows, by their functions' names")
    parser.add_argument("--afresh", action="store_true", help="do not go on from what is kept")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end after these")
    parser.add_argument("--into", type=Path, help="the file of the results, if not the usual one")
    for name, count in SMALL.items():
        parser.add_argument(f"--{name}", type=int, help=f"{count} by default, {FULL[name]} in full")
    given = parser.parse_args()
    counts = dict(FULL if given.full else SMALL)
    counts |= {name: value for name in SMALL if (value := getattr(given, name)) is not None}
    until = time.monotonic() + 60 * given.minutes
    run(given.only, counts, Kept(given.into), until, afresh=given.afresh)


if __name__ == "__main__":
    main()
