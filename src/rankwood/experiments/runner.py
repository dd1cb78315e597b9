"""``run_experiment``: plan the cells, run those that have no results yet, write each as soon as it is finished.

A cell has results if its file is there with the same fingerprint: a hash of the algorithm, the seed, the measures and
the data of its fold. Only this module writes to the run's folder, whatever runs the cells: this process,
others, or Dask.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rankwood import __version__
from rankwood._core.threads import usable_cores
from rankwood.data.cache import full_hash
from rankwood.errors import UnknownName
from rankwood.experiments.cells import Outcome, Task
from rankwood.experiments.config import read_experiment
from rankwood.experiments.results import RunResults, read_run
from rankwood.experiments.settings import Cell, DataSource, Experiment, build
from rankwood.experiments.store import RunFolder, make_record, now
from rankwood.experiments.tuning import VALIDATED, ScoringRules
from rankwood.measures.measure import parse_measure
from rankwood.training.checkpoint import plain_parameters

RUNS = "runs"  # the default folder of runs
Listener = Callable[["RunNews"], None]
FileStates = Mapping[str, Mapping[str, Any]]  # path -> size, time and sha256 at the last look


@dataclass(frozen=True)
class RunNews:
    """How far a run is: told once before the first cell, and after each."""

    done: int  # cells with results, those of earlier runs among them
    failed: int
    total: int
    seconds_left: float | None
    cell: Cell | None = None
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """What a run will do, determined before anything is written."""

    experiment: Experiment
    folder: RunFolder
    tasks: list[Task]  # to be run, in this order
    kept: dict[Cell, str]  # cell -> status, of those whose results are there already
    stale: dict[Cell, str]  # cell -> old fingerprint, of those whose settings or data have changed
    states: Mapping[str, Any]  # of the files of the data
    digests: Mapping[str, str]  # of each fold's data
    jobs: int
    threads: int
    other_versions: tuple[str, ...] = ()  # that made some of the kept cells

    @property
    def total(self) -> int:
        """Cells of the experiment that were asked for."""
        return len(self.tasks) + len(self.kept)


def run_experiment(
    given: str | os.PathLike[str] | Mapping[str, Any],
    *,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    only: Sequence[str] = (),
    retry_failed: bool = False,
    overrides: Sequence[str] = (),
    small: bool = False,
    progress: Listener | None = None,
) -> RunResults:
    """Run an experiment, or what is left of it, and give its results.

    Parameters
    ----------
    given
        A TOML file, or a mapping of the same shape.
    out
        The run's folder; ``runs/NAME`` by default. Cells that are there already are not run again.
    jobs
        Processes to use; 0 runs all cells in this one. By default what the file says, else one per core.
    dask
        The address of a Dask scheduler, or "local" for a cluster on this machine.
    only
        Names of algorithms: run no others.
    retry_failed
        Run cells again that have failed before.
    overrides, small
        As for ``rankwood experiment --set`` and ``--small``.
    progress
        A function that is told of every cell: see ``RunNews``.

    Examples
    --------
    >>> results = run_experiment("run.toml")                   # doctest: +SKIP
    >>> results.values("BROOF", "ndcg@10").mean()              # doctest: +SKIP
    """
    experiment = read_experiment(given, overrides=overrides, small=small)
    plan = make_plan(experiment, out=out, jobs=jobs, only=only, retry_failed=retry_failed)
    carry_out(plan, dask=dask, progress=progress)
    return read_run(plan.folder.path)


def make_plan(
    experiment: Experiment,
    *,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    only: Sequence[str] = (),
    retry_failed: bool = False,
) -> Plan:
    """What is to be run and what is there already; nothing is written."""
    names = [algorithm.name for algorithm in experiment.algorithms]
    for name in only:
        if name not in names:
            raise UnknownName("--only: algorithm", name, names)
    folder = RunFolder(out or experiment.out or Path(RUNS) / experiment.name)
    states = file_states(experiment.data, folder.record().get("data", {}).get("files", {}))
    digests = fold_digests(experiment.data, states)
    jobs, threads = share_cores(
        experiment.jobs if jobs is None else jobs, experiment.threads, len(experiment.cells())
    )
    plan = Plan(experiment, folder, [], {}, {}, states, digests, jobs, threads)
    versions = set()
    for cell in experiment.cells():
        task = _task(plan, cell)
        record = folder.cell_record(cell)
        is_current = record is not None and record.get("fingerprint") == task.fingerprint
        if record is not None and not is_current:
            plan.stale[cell] = str(record.get("fingerprint", ""))
        if is_current and record is not None:
            versions.add(str(record.get("version")))
            if record["status"] == "done" or not retry_failed:
                plan.kept[cell] = str(record["status"])
                continue
        if not only or cell.algorithm in only:
            plan.tasks.append(task)
    return replace(plan, other_versions=tuple(sorted(versions - {__version__})))


def share_cores(jobs: int | None, threads: int | None, n_cells: int) -> tuple[int, int]:
    """Processes, and threads of each, so that together they use the cores; results do not depend on either."""
    cores = usable_cores()
    if jobs is None:
        jobs = max(1, min(cores // (threads or 1), n_cells))
    return jobs, threads or max(1, cores // max(1, jobs))


def carry_out(plan: Plan, *, dask: str | None = None, progress: Listener | None = None) -> None:
    """Run the cells of a plan, and keep each at once."""
    plan.folder.make()
    with plan.folder.locked():
        plan.folder.remove_unfinished()
        for cell, old in plan.stale.items():
            plan.folder.set_aside(cell, old)
        record = make_record(plan.experiment, plan.states, plan.digests)
        before = plan.folder.record()
        record["started"] = before.get("started", record["started"])
        seconds_before = float(before.get("seconds", 0.0))
        plan.folder.write_record(record, plan.experiment.text)
        tally = _Tally(plan, progress)
        status = "interrupted"
        try:
            for outcome in _outcomes(plan, dask):
                plan.folder.write(outcome)
                tally.add(outcome)
            status = "done" if tally.done == len(plan.experiment.cells()) else "incomplete"
        finally:
            record |= {
                "status": status,
                "ended": now(),
                "seconds": seconds_before + tally.seconds,
                "cells": {"done": tally.done, "failed": tally.failed},
            }
            plan.folder.write_record(record, plan.experiment.text)


def _outcomes(plan: Plan, dask: str | None) -> Iterator[Outcome]:
    if not plan.tasks:
        return iter(())
    if dask is not None:
        from rankwood.experiments.dask import run_on_dask

        return run_on_dask(plan.tasks, dask, max(1, plan.jobs), plan.threads)
    from rankwood.experiments.workers import run_here, run_on_processes

    if plan.jobs == 0:
        return run_here(plan.tasks)
    return run_on_processes(plan.tasks, min(plan.jobs, len(plan.tasks)), plan.threads)


def _task(plan: Plan, cell: Cell) -> Task:
    experiment = plan.experiment
    digest = plan.digests[cell.fold]
    return Task(
        cell=cell,
        algorithm=experiment.algorithm(cell.algorithm),
        data=experiment.data,
        digest=digest,
        fingerprint=fingerprint(experiment, cell, digest),
        measures=experiment.measures,
        preset=experiment.preset,
        scoring=_scoring(experiment, cell),
        seed=experiment.seed_of(cell),
        threads=plan.threads,
        keeps_scores=experiment.keep_scores and cell.repetition == 1,
        keeps_model=experiment.keep_models,
        with_front=experiment.fronts,
    )


class _Tally:
    """Cells done and failed, and the time that is left: by algorithm, since their cells differ in length."""

    def __init__(self, plan: Plan, listener: Listener | None) -> None:
        self.done = sum(status == "done" for status in plan.kept.values())
        self.failed = len(plan.kept) - self.done
        self._plan = plan
        self._listener = listener
        self._start = time.perf_counter()
        self._left = [task.cell.algorithm for task in plan.tasks]
        self._spent: dict[str, list[float]] = {}
        self._tell(None, {})

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self._start

    def add(self, outcome: Outcome) -> None:
        """Count a cell and report it."""
        self.done += outcome.is_done
        self.failed += not outcome.is_done
        self._left.remove(outcome.cell.algorithm)
        spent = float(sum(outcome.record["seconds"].values()))
        self._spent.setdefault(outcome.cell.algorithm, []).append(spent)
        self._tell(outcome.cell, outcome.record)

    def _tell(self, cell: Cell | None, record: Mapping[str, Any]) -> None:
        if self._listener is not None:
            news = RunNews(
                self.done, self.failed, self._plan.total, self._time_left(), cell, record
            )
            self._listener(news)

    def _time_left(self) -> float | None:
        if not self._spent:
            return None
        means = {name: sum(spent) / len(spent) for name, spent in self._spent.items()}
        typical = sum(means.values()) / len(means)
        total = sum(means.get(name, typical) for name in self._left)
        return total / max(1, min(self._plan.jobs, len(self._left)))


def digest_of(value: Any) -> str:
    """A hash of plain values, whatever the order of mappings."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_states(source: DataSource, known: FileStates) -> dict[str, dict[str, Any]]:
    """Size, time and sha256 of every file of the data; a file that looks untouched is not read again."""
    paths = [path for fold in source.folds for path in fold.files.values()]
    paths += [source.whole["data"]] if "data" in source.whole else []
    states: dict[str, dict[str, Any]] = {}
    for path in paths:
        status = Path(path).stat()
        seen = {"size": status.st_size, "mtime_ns": status.st_mtime_ns}
        before = known.get(path, {})
        is_same = all(before.get(name) == value for name, value in seen.items())
        sha256 = before["sha256"] if is_same else full_hash(Path(path))
        states[path] = {**seen, "sha256": sha256}
    return states


def fold_digests(source: DataSource, states: FileStates) -> dict[str, str]:
    """For each fold, a hash of everything that determines its data."""
    common: dict[str, Any] = {
        "cut": source.cut,
        "reading": source.reading,
        "changes": [source.normalise, source.binarise, *source.sample],
    }
    if source.measure_on != "test":
        common["measure_on"] = source.measure_on
    whole = dict(source.whole)
    if "data" in whole:
        whole["data"] = states[whole["data"]]["sha256"]
    digests = {}
    for fold in source.folds:
        files = {part: states[path]["sha256"] for part, path in fold.files.items()}
        name = "" if fold.files else fold.name
        digests[fold.name] = digest_of([common, whole, files, name])
    return digests


def fingerprint(experiment: Experiment, cell: Cell, digest: str) -> str:
    """A hash of everything that determines a cell's results, except the version and the number of threads."""
    algorithm = experiment.algorithm(cell.algorithm)
    tuning: list[Any] = []
    if algorithm.tune:
        tuning = [algorithm.tune, algorithm.tune_method]
        tuning += [algorithm.tune_trials] if algorithm.tune_method != "grid" else []
    scoring = _scoring(experiment, cell)
    return digest_of(
        [
            algorithm.kind,
            plain_parameters(build(algorithm.kind, algorithm.parameters)),
            _cost_files(algorithm.parameters),
            tuning,
            experiment.seed_of(cell),
            [str(parse_measure(text, experiment.preset)) for text in experiment.measures],
            digest,
            # Cells that earlier versions ran stay: they know nothing of other ways to score.
            *(
                []
                if scoring.is_plain
                else [asdict(scoring), _cost_files({"feature_costs": scoring.costs})]
            ),
        ]
    )


def _scoring(experiment: Experiment, cell: Cell) -> ScoringRules:
    early_exit = experiment.algorithm(cell.algorithm).early_exit
    every = experiment.size_every if experiment.size == VALIDATED else 1
    return ScoringRules(experiment.size, every, experiment.costs, early_exit)


def _cost_files(parameters: Mapping[str, Any]) -> list[str]:
    """Hashes of the files that parameters name: of feature costs, also those of inner estimators."""
    hashes = []
    for name, value in parameters.items():
        if name == "feature_costs" and isinstance(value, str):
            hashes.append(full_hash(Path(value)))
        elif isinstance(value, dict):
            hashes += _cost_files(value)
    return hashes
